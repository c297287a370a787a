"""How `Relative` moves one column: the law that its kind and values call for, and that law in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from predgap.noise._added_laws import NormalLaw
from predgap.noise._combined_laws import KeptLaw, RoundedLaw, StayLaw, WithinLaw
from predgap.noise._kinds import Column
from predgap.noise._laws import Law, StillLaw, kept_numbers
from predgap.noise._scales import Range
from predgap.noise._sizes import mass_outside, mean_squared_move, solved_scale

_REDRAWN: Final = ("binary", "categorical", "discrete")


@dataclass(frozen=True, slots=True, eq=False)
class ColumnNoise:
    """How a column moves at one strength."""

    column: Column
    strength: float
    keep: tuple[Any, ...]  # values that stay; those that mean missing are among them
    scale: float | None  # of the normal number that is added; None if the value is redrawn instead

    @classmethod
    def of(cls, column: Column, strength: float, keep: tuple[Any, ...]) -> ColumnNoise:
        return cls(column, strength, keep, _scale(column, strength, keep) if column.moves else None)

    @property
    def probability(self) -> float:
        """Of a redraw."""
        return min(1.0, 0.5 * self.strength**2)

    def law(self, redrawn: Law) -> Law:
        """The law of the column; `redrawn` draws from it."""
        if not self.column.moves:
            return StillLaw()
        if self.scale is None:
            redraw = StayLaw(redrawn, 1.0 - self.probability, self.probability)
            return KeptLaw(redraw, self.keep) if self.keep else redraw
        law: Law = NormalLaw(self.scale)
        if self.column.lattice is not None:
            law = RoundedLaw(law, self.column.lattice)
        if _is_clipped(self.column):
            law = WithinLaw(law, *_range(self.column))
        return KeptLaw(law, self.keep, *_next_kept(self.column, self.keep)) if self.keep else law

    def range(self) -> Range | None:
        """The range of the column, if numbers are added to it."""
        if self.scale is None:
            return None
        return Range(*_range(self.column), tuple(kept_numbers(self.keep).tolist()))

    def described(self) -> tuple[str, str, float, float, float]:
        """Its kind, its law in words, the size of its move in its units and in standard deviations, and the
        share of perturbed values that are outside its range."""
        column, scale = self.column, self.scale
        if column.refused:
            return "refused", column.refused, math.nan, math.nan, math.nan
        if not column.moves:
            return column.kind, "does not move", 0.0, 0.0, 0.0
        if scale is None:
            share = math.sqrt(2.0 * self.probability)
            move = math.nan if column.kind == "categorical" else share * column.deviation
            return column.kind, f"redrawn with probability {self.probability:.4g}", move, share, 0.0
        move, outside = scale, 0.0
        if _is_clipped(column):
            move = math.sqrt(mean_squared_move(column, scale))
        else:
            outside = mass_outside(column, scale)
        return column.kind, self._in_words(scale), move, move / column.deviation, outside

    def _in_words(self, scale: float) -> str:
        words = f"normal with sd {scale:.4g}"
        if self.column.lattice is not None:
            words += f", rounded to {self.column.lattice.step:.4g}"
        if _is_clipped(self.column):
            low, high = _range(self.column)
            words += f", kept between {_end(low, high - low)} and {_end(high, high - low)}"
        return words


def _scale(column: Column, strength: float, keep: tuple[Any, ...]) -> float | None:
    if column.kind in _REDRAWN or (column.kind == "integer" and column.lattice is None):
        return None
    if not _is_clipped(column):
        return strength * column.deviation
    if _reaches_kept(column, keep):
        return None
    return solved_scale(column, (strength * column.deviation) ** 2)


def _is_clipped(column: Column) -> bool:
    """Is it kept in its range: numbers in steps, and those beside special codes?"""
    return column.lattice is not None or column.holds_kept


def _range(column: Column) -> tuple[float, float]:
    return float(column.values[0]), float(column.values[-1])


def _kept_points(column: Column, keep: tuple[Any, ...]) -> list[float]:
    """The kept values that rounded noise may land on."""
    lattice = column.lattice
    return [] if lattice is None else [v for v in kept_numbers(keep).tolist() if lattice.holds(v)]


def _reaches_kept(column: Column, keep: tuple[Any, ...]) -> bool:
    """Are there kept values among the points that the noise of other values may reach?"""
    low, high = _range(column)
    return any(low <= v <= high for v in _kept_points(column, keep))


def _next_kept(column: Column, keep: tuple[Any, ...]) -> tuple[float, float]:
    """The kept values next to the range that a value beyond them might reach on its way to the range."""
    points, (low, high) = _kept_points(column, keep), _range(column)
    return max((v for v in points if v < low), default=-math.inf), min(
        (v for v in points if v > high), default=math.inf
    )


def _end(value: float, span: float) -> str:
    """An end of a range, to four digits of its span."""
    if not 1e-12 < span < 1e15 or abs(value) >= 1e15:
        return f"{value:.6g}"
    text = f"{value + 0.0:.{max(0, 3 - math.floor(math.log10(span)))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
