"""Reads noise as it is written on the command line, such as `relative:0.3`, and in noise files in TOML.

A noise file says which noise each column has, and which columns move together.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from predgap import (
    Background,
    Clipped,
    Discrete,
    Ensemble,
    Flip,
    Laplace,
    Marginal,
    Noise,
    NoiseError,
    Normal,
    PerFeature,
    Redraw,
    Relative,
    Rounded,
    Stay,
    TableError,
    Uniform,
)
from predgap._inputs.subsets import match_names
from predgap._text import did_you_mean, format_items, shown

TableOf = Callable[[], pa.Table]
"""Gives the table that a noise takes scales and values from; it is read when it is needed first."""

_EXAMPLES: Final = {
    "relative": "relative:0.3",
    "normal": "normal:0.3std",
    "uniform": "uniform:0.5",
    "laplace": "laplace:0.3",
    "flip": "flip:0.1",
    "redraw": "redraw:0.1",
    "marginal": "marginal",
    "background": "background",
}
_ADDED: Final[Mapping[str, Callable[[Any], Noise]]] = {
    "normal": Normal,
    "uniform": Uniform,
    "laplace": Laplace,
}


@dataclass(frozen=True, slots=True)
class NoiseText:
    """A law and its size."""

    law: str  # a key of _EXAMPLES
    size: float | None = None
    of_deviation: bool = False  # the size is in standard deviations of a column

    def __str__(self) -> str:
        size = "" if self.size is None else f":{self.size!r}"
        return f"{self.law}{size}{'std' if self.of_deviation else ''}"

    @property
    def moves_categories(self) -> bool:
        """True if it can be the noise of a categorical feature."""
        return self.law not in _ADDED

    def noise(self, table: TableOf, *, keep: tuple[Any, ...], kinds: Mapping[str, str]) -> Noise:
        """The noise; `keep` and `kinds` are for `relative`."""
        size: Any = self.size
        if self.law == "relative":
            return Relative(table(), size, keep=keep, kinds=dict(kinds) or None)
        if keep or kinds:
            raise NoiseError(f"keep and kinds are for relative noise, such as relative:0.3, not {self.law}")
        if self.of_deviation:
            return Normal.relative(table(), size)
        if self.law in _ADDED:
            return _ADDED[self.law](size)
        if self.law == "flip":
            return Flip(size)
        if self.law == "redraw":
            return Redraw(table(), size)
        return Marginal(table()) if self.law == "marginal" else Background(table())


def noise_text(text: str) -> NoiseText:
    """The noise that a text names; NoiseError if there is no such noise.

    Examples
    --------
    >>> noise_text("normal:0.3std")
    NoiseText(law='normal', size=0.3, of_deviation=True)
    """
    law, colon, number = text.partition(":")
    if law not in _EXAMPLES:
        meant = did_you_mean(law, list(_EXAMPLES))
        raise NoiseError(f"{shown(text)}; {meant}expected {', '.join(_EXAMPLES.values())} or a .toml file")
    if law in ("marginal", "background"):
        if colon:
            raise NoiseError(f"{shown(text)}; {law} has no size: write {law}")
        return NoiseText(law)
    of_deviation = number.endswith("std")
    if of_deviation and law != "normal":
        what = {"uniform": "an absolute half-width", "laplace": "an absolute scale", "relative": "a strength"}
        raise NoiseError(f"{shown(text)}; {law} noise has {what.get(law, 'a probability')}: {_EXAMPLES[law]}")
    try:
        size = float(number.removesuffix("std"))
        Normal(size)  # refuses what is not positive and finite
    except ValueError:  # NoiseError is one
        expected = f"expected a number as in {_EXAMPLES[law]}"
        raise NoiseError(f"{shown(text)}; {number!r} is not a positive finite number, {expected}") from None
    if law == "relative" and size > 2**0.5:
        raise NoiseError(f"{shown(text)}; expected a strength of at most 1.4142, the root of 2")
    if law in ("flip", "redraw") and size > 1:
        raise NoiseError(f"{shown(text)}; expected a probability, at most 1")
    return NoiseText(law, size, of_deviation)


def values_of(text: str, as_label: bool) -> tuple[int | float | str, ...]:
    """The values that a text on the command line may stand for: a number, else text.

    With `as_label` it may also be the label of a category, and is that only where a number is not written so.

    Examples
    --------
    >>> values_of("-9", False), values_of("-9", True), values_of("01", True), values_of("red", False)
    ((-9,), (-9, '-9'), ('01',), ('red',))
    """
    for kind in (int, float):
        try:
            number: int | float = kind(text)
        except ValueError:
            continue
        if as_label:
            return (number, text) if str(number) == text and number == number else (text,)
        return (number,)
    return (text,)


# ------------------------------------------------------------------------------------------------------------
# A noise file says in TOML which noise each column has, and which columns move together.

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
        """True if the noise can be made stronger or weaker as a whole."""
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


# ------------------------------------------------------------------------------------------------------------
# The table that a noise takes its scales and values from has all rows, or a sample of very many.

MOST_ROWS: Final = 100_000
"""Rows of DATA that a noise is taken from; of more rows, so many are drawn."""

_SEED: Final = 0


def sampled(blocks: Iterable[pa.Table], most: int = MOST_ROWS) -> tuple[pa.Table | None, int]:
    """Up to `most` rows of a table that comes in blocks (None if there are no blocks), and how many it has.

    Each row gets a random number, always the same, and those with the smallest ones are kept, in the order of
    the table. The sample does not depend on how the table is cut into blocks.

    Examples
    --------
    >>> table, n_rows = sampled([pa.table({"a": [1, 2]}), pa.table({"a": [3]})])
    >>> table["a"].to_pylist(), n_rows
    ([1, 2, 3], 3)
    """
    random = np.random.default_rng(_SEED)
    kept: pa.Table | None = None
    numbers, n_rows = np.empty(0), 0
    for block in blocks:
        n_rows += block.num_rows
        numbers = np.concatenate([numbers, random.random(block.num_rows)])
        kept = block if kept is None else pa.concat_tables([kept, block])
        if len(numbers) > most:
            chosen = np.sort(np.argpartition(numbers, most)[:most])
            kept, numbers = kept.take(pa.array(chosen)).combine_chunks(), numbers[chosen]
    return kept, n_rows


def check_rows(name: str, table: pa.Table | None) -> pa.Table:
    """The table; TableError if it has fewer than two rows, of which no noise can be taken."""
    n_rows = 0 if table is None else table.num_rows
    if n_rows < 2:
        raise TableError(
            f"{name}: the table has {'1 row' if n_rows else 'no rows'}, so its columns have no spread to "
            "scale the noise by; give the training table, --reference train.csv, or an absolute scale, such "
            "as --noise normal:0.3"
        )
    return table
