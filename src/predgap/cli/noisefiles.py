"""Noise files: which noise each column has, and which columns move together, in TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from predgap import (
    Clipped,
    Discrete,
    Ensemble,
    Flip,
    Marginal,
    Noise,
    NoiseError,
    PerFeature,
    Rounded,
    Stay,
)
from predgap._inputs.subsets import match_names
from predgap._text import did_you_mean, format_items, shown
from predgap.cli.noisetexts import NoiseText, TableOf, noise_text

_KEYS: Final = ("default", "keep", "kinds", "columns", "groups", "one_hot")
_COLUMN_KEYS: Final = ("noise", "low", "high", "step", "stay", "values", "probabilities")
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class NoisePlan:
    """The noise of all columns, before there is a table."""

    default: NoiseText
    keep: tuple[Any, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    one_hot: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def has_strength(self) -> bool:
        """Can it be made stronger or weaker as a whole?"""
        return not self.columns and (self.default.law == "relative" or self.default.of_deviation)

    def noise(self, table: TableOf, flip: float | None, ensemble: Ensemble) -> Noise:
        """The noise of a model's features; categorical ones that the default cannot move are flipped, or
        drawn from their columns."""
        noise = self.default.noise(table, keep=self.keep, kinds=self.kinds)
        own: dict[str | int, Noise] = {
            name: _column_noise(name, given, table) for name, given in self.columns.items()
        }
        named = match_names(list(self.columns), ensemble.names, NoiseError).values()
        others = [q for q in ensemble.categorical() if q not in named]
        if others and flip is not None:
            own |= dict.fromkeys(others, Flip(flip))
        elif others and not self.default.moves_categories:
            own |= dict.fromkeys(others, Marginal(table()))
        if own and self.default.law == "background":
            raise NoiseError(
                "background moves all columns together, so single ones have no noise of their own"
            )
        return PerFeature(own, default=noise) if own else noise


def noise_plan(value: str) -> NoisePlan:
    """The plan in a TOML file, if `value` ends in .toml; else that of a text such as `relative:0.3`."""
    if not value.lower().endswith(".toml"):
        return NoisePlan(noise_text(value))
    try:
        return _read(_toml(Path(value)))
    except NoiseError as error:
        raise NoiseError(f"{value}: {error}") from None


def _toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise NoiseError(f"cannot be read ({error.strerror})") from None
    if len(content) > _MOST_BYTES:
        raise NoiseError(f"has more than {_MOST_BYTES:,} bytes; expected a small noise file")
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, UnicodeDecodeError
        raise NoiseError(f"is not TOML ({error})") from None


def _read(given: dict[str, Any]) -> NoisePlan:
    _check_keys("the file", given, _KEYS)
    keep = given.get("keep", [])
    if not isinstance(keep, list):
        raise NoiseError(f"keep is {shown(keep)}, expected a list such as [-9, -8]")
    default = given.get("default", "relative:0.3")
    if not isinstance(default, str):
        raise NoiseError(f"default is {shown(default)}, expected a text such as 'relative:0.3'")
    tables = {key: _table(key, given.get(key, {})) for key in _KEYS[2:]}
    for key in ("groups", "one_hot"):
        for name, members in tables[key].items():
            if not isinstance(members, list) or not all(isinstance(member, str) for member in members):
                raise NoiseError(f"{key}.{name} is {shown(members)}, expected a list of column names")
    for name, column in tables["columns"].items():
        _check_column(name, column)
    return NoisePlan(noise_text(default), tuple(keep), **tables)


def _table(key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise NoiseError(f"{key} is {shown(value)}, expected a table [{key}]")
    return value


def _check_keys(what: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in given:
        if key not in known:
            meant = did_you_mean(key, known)
            raise NoiseError(f"{what} has the key {key!r}; {meant}known are {format_items(known)}")


def _check_column(name: str, given: Any) -> None:
    where = f"columns.{name}"
    if isinstance(given, str):
        given = {"noise": given}
    if not isinstance(given, dict):
        raise NoiseError(f"{where} is {shown(given)}, expected a text such as 'normal:2.5', or a table")
    _check_keys(where, given, _COLUMN_KEYS)
    if ("noise" in given) == ("values" in given):
        raise NoiseError(f"{where} needs either noise = 'normal:2.5', or values = ['red', 'blue']")
    if "probabilities" in given and "values" not in given:
        raise NoiseError(f"{where} has probabilities without values")
    if "noise" in given:
        if not isinstance(given["noise"], str):
            raise NoiseError(
                f"{where}.noise is {shown(given['noise'])}, expected a text such as 'normal:2.5'"
            )
        if noise_text(given["noise"]).law == "background":
            raise NoiseError(
                f"{where}: background moves all columns together; write marginal for one of them"
            )


def _column_noise(name: str, given: Any, table: TableOf) -> Noise:
    """The noise of one column, as `_check_column` has let it through."""
    options: dict[str, Any] = {"noise": given} if isinstance(given, str) else given
    try:
        if "values" in options:
            noise: Noise = Discrete(options["values"], options.get("probabilities"))
        else:
            noise = noise_text(options["noise"]).noise(table, keep=(), kinds={})
        if "step" in options:
            noise = Rounded(noise, options["step"])
        if "low" in options or "high" in options:
            noise = Clipped(noise, options.get("low", float("-inf")), options.get("high", float("inf")))
        return Stay(noise, options["stay"]) if "stay" in options else noise
    except NoiseError as error:
        raise NoiseError(f"columns.{name}: {error}") from None
