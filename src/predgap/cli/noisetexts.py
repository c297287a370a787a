"""Noise as it is written on the command line and in noise files, such as `relative:0.3`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from predgap import Background, Flip, Laplace, Marginal, Noise, NoiseError, Normal, Redraw, Relative, Uniform
from predgap._text import did_you_mean, shown

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
        """Can it be the noise of a categorical feature?"""
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
    """What a value on the command line may be: a number, else text.

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
