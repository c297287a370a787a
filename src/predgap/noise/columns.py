"""Finds or checks the kind of a column: continuous, integer, lattice, discrete, binary or categorical.

A lattice is a set of equally spaced numbers, such as the whole numbers.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import is_missing as no_label
from predgap._inputs.tables import FEWEST_WHOLE, Columns, whole_columns
from predgap._text import shown
from predgap._typing import BoolArray, FloatArray
from predgap.errors import NoiseError, TableError
from predgap.noise.law import kept_numbers

Kind = Literal["continuous", "integer", "lattice", "discrete", "binary", "categorical"]

FEW: Final = 20
"""A column of at most so many different values has few."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """The facts that a noise needs of a column: its kind, and its numbers without missing and kept ones."""

    kind: Kind
    values: FloatArray  # (m,) the different numbers, ascending; empty if it holds labels
    counts: NDArray[np.intp]  # (m,) how often each occurs
    n_different: int  # of numbers or labels
    deviation: float = 0.0  # of the population; 0 for labels
    lattice: Lattice | None = None  # of a lattice or of more than 20 whole numbers
    stated: Kind | None = None  # the kind that was given, if any
    holds_kept: bool = False  # are kept values among its numbers?
    refused: str = ""  # why it cannot be used; an error only if the model needs it

    @property
    def moves(self) -> bool:
        return self.n_different > 1

    @property
    def is_still(self) -> bool:
        """True if the column is constant, or without values."""
        return not (self.refused or self.moves)


def read_column(
    columns: Columns,
    j: int,
    keep: tuple[Any, ...],
    stated: Any,
    label: str,
    is_missing: Callable[[FloatArray], BoolArray] = np.isnan,
) -> Column:
    """Column j, of the stated kind or, if that is None, of the kind that its values suggest.

    `is_missing` says which numbers count as missing. NoiseError if the values do not fit the stated kind.
    """
    if stated is not None and not _is_kind(stated):
        known = ", ".join(map(repr, get_args(Kind)))
        raise NoiseError(f"the kind of column {label} is {shown(stated)}; expected one of {known}")
    try:
        numbers_of = columns.column(j)
    except TableError as error:
        return _of_labels(columns.labels(j), keep, stated, label, str(error))
    missing, kept = is_missing(numbers_of), np.isin(numbers_of, kept_numbers(keep))
    numbers_of = numbers_of[~(missing | kept)]
    values, counts = np.unique(numbers_of, return_counts=True)
    if np.isinf(values).any():
        return _refused(
            f"column {label} holds an infinite value, so that it has no spread; mark it missing (NaN) or "
            "clip it"
        )
    lattice = lattice_of(values)
    kind: Kind = _inferred(values, counts, lattice) if stated is None else stated
    if stated is not None:
        _check(kind, values, lattice, label)
    size = deviation(numbers_of) if len(values) > 1 else 0.0
    if len(values) > 1 and not 0 < size < np.inf:
        return _refused(f"column {label} has the standard deviation {size}, beyond the range of float64")
    stepped = kind == "lattice" or (kind == "integer" and len(values) > FEW)
    return Column(
        kind,
        values,
        counts,
        len(values),
        size,
        lattice if stepped else None,
        stated,
        holds_kept=bool((kept & ~missing).any()),
    )


def _is_kind(stated: Any) -> bool:
    return isinstance(stated, str) and stated in get_args(Kind)


def _inferred(values: FloatArray, counts: NDArray[np.intp], lattice: Lattice | None) -> Kind:
    if len(values) <= 2:
        return "binary"
    if (values == np.floor(values)).all() and lattice is not None:
        return "integer"
    if len(values) <= FEW:  # if all differ, these may be a few rows of continuous numbers
        return "discrete" if (counts > 1).any() else "continuous"
    return "continuous" if lattice is None else "lattice"


def _check(kind: Kind, values: FloatArray, lattice: Lattice | None, label: str) -> None:
    """NoiseError if the numbers of a column do not fit its stated kind."""
    not_whole = values[values != np.floor(values)]
    found = ""
    if kind == "binary" and len(values) > 2:
        found = f"has {len(values)} different values, expected at most 2"
    elif kind == "integer" and len(not_whole):
        found = f"holds {not_whole[0]:g}, expected whole numbers"
    elif kind in ("integer", "lattice") and lattice is None and len(values) > 1:
        found = "has no common step between its values"
    if found:
        raise NoiseError(f"column {label} is stated to be {kind}, but {found}")


def _of_labels(labels: list[Any], keep: tuple[Any, ...], stated: Any, label: str, reason: str) -> Column:
    """A column that does not hold numbers: categorical if it holds labels, else refused."""
    present = [value for value in labels if not no_label(value)]
    if not all(isinstance(value, str | numbers.Real) for value in present):
        return _refused(reason)
    if stated not in (None, "categorical", "binary"):
        raise NoiseError(f"column {label} is stated to be {stated}, but {reason}")
    different = set(present) - set(keep)
    if stated == "binary" and len(different) > 2:
        raise NoiseError(
            f"column {label} is stated to be binary, but has {len(different)} different values, expected at "
            "most 2"
        )
    nothing = np.empty(0)
    return Column("categorical", nothing, nothing.astype(np.intp), len(different), stated=stated)


def _refused(reason: str) -> Column:
    return Column("continuous", np.empty(0), np.empty(0, dtype=np.intp), 0, refused=reason)


# ------------------------------------------------------------------------------------------------------------
# Whole numbers and deviations tell how a column can be moved.


def all_whole(values: FloatArray) -> bool:
    """True if there are at least 20 values and all are whole numbers. Missing values do not count."""
    return bool(whole_columns(values[:, None])[0])


def has_steps(values: FloatArray) -> bool:
    """True if a column of at least 20 values has only two different ones, or only whole numbers."""
    present = values[~np.isnan(values)]
    if len(present) < FEWEST_WHOLE:
        return False
    return all_whole(present) or bool(((present == present.min()) | (present == present.max())).all())


def deviation(values: FloatArray) -> float:
    """Population standard deviation; dividing by a power of 2 is exact and keeps squares in range."""
    _, exponent = np.frexp(np.abs(values).max())
    scaled = np.ldexp(values, -int(exponent))
    return float(np.ldexp(scaled.std(), int(exponent)))


# ------------------------------------------------------------------------------------------------------------
# A lattice is equally spaced numbers, such as the whole numbers; here is how that of a column is found.

_LARGEST_DENOMINATOR: Final = 10**6
_MOST_INDEX: Final = 2.0**50  # beyond it neighbouring points of a lattice are too close for float64
_MOST_DECIMALS: Final = 6
_ROUNDING: Final = 1e-3  # in steps: how far rounding, such as to float32, may take a number off its point
_MOST_LISTED: Final = 1_000_000  # points that are listed one by one
_MOST_POINTS: Final = 10_000  # of a lattice of numbers that are not whole; a finer one is no lattice


@dataclass(frozen=True, slots=True)
class Lattice:
    """The numbers origin + k · step, for all whole k.

    If step and origin are fractions such as 0.1, the points are the floats next to the exact numbers: 0.3,
    not 0.1 + 0.1 + 0.1. A number halfway between two points is nearer to the upper one.

    Examples
    --------
    >>> tenths = Lattice(0.1)
    >>> tenths.nearest(np.array([0.29, 0.34, 0.26])).tolist()
    [0.3, 0.3, 0.3]
    >>> Lattice(1.0).lower_ends(np.array([1.5, 2.0]))  # from there on the nearest point is at least 1.5, 2.0
    array([1.5, 1.5])
    """

    step: float
    origin: float = 0.0
    seen: FloatArray | None = field(default=None, repr=False, compare=False)  # points as a column has them

    def points(self, k: FloatArray) -> FloatArray:
        """The points with these indices."""
        exact = self._fractions()
        if self.seen is not None:
            return _snapped(self.origin + k * self.step, self.seen, _ROUNDING * self.step)
        if exact is None:
            return self.origin + k * self.step
        first, step, by = exact
        return (first + k * step) / by

    def nearest(self, y: FloatArray) -> FloatArray:
        """The point nearest to each number."""
        k = np.floor((y - self.origin) / self.step + 0.5)
        k = np.where(y < self._lower_end(k), k - 1, k)  # the division may have been rounded
        k = np.where(y >= self._lower_end(k + 1), k + 1, k)
        return np.where(np.abs(k) < _MOST_INDEX, self.points(k), y)

    def lower_ends(self, thresholds: FloatArray) -> FloatArray:
        """The number b for each t such that the point nearest to y is at least t exactly if y >= b."""
        k = self._first(thresholds)
        return np.where(np.abs(k) < _MOST_INDEX, self._lower_end(k), thresholds)

    def between(self, low: float, high: float) -> FloatArray:
        """The points from the last one up to low to the first one from high on; NoiseError if too many."""
        if not (high - low) / self.step < _MOST_LISTED:
            raise NoiseError(
                f"it is rounded to steps of {self.step:g} and reaches more than {_MOST_LISTED:,} of them; "
                "use a larger step, or clip it to a range"
            )
        first, last = self._first(np.array([low, high]))
        if not max(abs(first), abs(last)) < _MOST_INDEX:
            raise NoiseError(f"{low:g} has no lattice of steps of {self.step:g} around it; use a larger step")
        return self.points(np.arange(first - 1, last + 1))

    def holds(self, value: float) -> bool:
        """True if this number is one of the points."""
        return len(self.first_within(value, value)) > 0

    def first_within(self, low: float, high: float) -> FloatArray:
        """The first point from low to high, (1,), or none, (0,)."""
        if not math.isfinite(low):
            return np.empty(0)
        point = self.points(self._first(np.array([low])))
        return point[point <= high]

    def _first(self, thresholds: FloatArray) -> FloatArray:
        """The index of the first point that is at least t."""
        with np.errstate(over="ignore", invalid="ignore"):
            k = np.ceil((thresholds - self.origin) / self.step)
            k = np.where(self.points(k - 1) >= thresholds, k - 1, k)  # the division may have been rounded
            return np.where(self.points(k) < thresholds, k + 1, k)

    def _lower_end(self, k: FloatArray) -> FloatArray:
        """The lower end of the numbers that are nearest to point k."""
        return self.points(k - 0.5)

    def _fractions(self) -> tuple[int, int, int] | None:
        """Origin and step as whole numbers over a common denominator, if they are simple fractions."""
        origin, step = (_simple(value) for value in (self.origin, self.step))
        if origin is None or step is None:
            return None
        by = math.lcm(origin.denominator, step.denominator)
        return int(origin * by), int(step * by), by


def lattice_of(values: FloatArray) -> Lattice | None:
    """The coarsest lattice that all of the ascending, different numbers are on; None if there is none.

    Whole numbers always have one. Other numbers need one of at most 10,000 points between the smallest and
    the largest: decimal fractions, or numbers whose smallest difference divides all others, such as whole
    numbers that were standardised.

    Examples
    --------
    >>> lattice_of(np.array([5.0, 15.0, 35.0]))
    Lattice(step=10.0, origin=5.0)
    >>> lattice_of(np.array([0.1, 0.35, 0.6])).step
    0.25
    >>> lattice_of(np.array([0.0, 1.0, np.sqrt(2.0)])) is None
    True
    """
    if len(values) < 2 or np.abs(values).max() >= 2.0**53:
        return None
    for decimals in range(_MOST_DECIMALS + 1):
        whole = np.round(values * 10.0**decimals)
        if np.abs(whole).max() < 2.0**53 and (whole / 10.0**decimals == values).all():
            found = _of_whole(whole.astype(np.int64), 10**decimals)
            return found if decimals == 0 or _n_points(values, found) <= _MOST_POINTS else None
    spaced = _evenly_spaced(values)
    return spaced if spaced is not None and _n_points(values, spaced) <= _MOST_POINTS else None


def _of_whole(values: Any, by: int) -> Lattice:
    """The lattice of whole numbers divided by a power of 10."""
    step = int(np.gcd.reduce(np.diff(values)))
    return Lattice(step / by, (int(values[0]) % step) / by)


def _evenly_spaced(values: FloatArray) -> Lattice | None:
    """The lattice whose step is the smallest difference, if it is one up to rounding errors."""
    differences = np.diff(values)
    k = np.round(differences / differences.min())
    if k.sum() >= 2.0**31:
        return None
    step = float((values[-1] - values[0]) / k.sum())
    at = values[0] + step * np.concatenate([[0.0], np.cumsum(k)])
    is_lattice = bool((np.abs(at - values) <= _ROUNDING * step).all())
    return Lattice(step, float(values[0]), seen=values) if is_lattice else None


def _snapped(points: FloatArray, seen: FloatArray, within: float) -> FloatArray:
    """The points, replaced by the ascending numbers `seen` where one of these is so near."""
    at = np.clip(np.searchsorted(seen, points), 1, len(seen) - 1)
    nearer = np.where(points - seen[at - 1] < seen[at] - points, seen[at - 1], seen[at])
    return np.where(np.abs(points - nearer) <= within, nearer, points)


def _n_points(values: FloatArray, lattice: Lattice) -> float:
    return float((values[-1] - values[0]) / lattice.step) + 1


def _simple(value: float) -> Fraction | None:
    """The simple fraction that a float stands for, such as 1/10 for 0.1; None if there is none."""
    if not math.isfinite(value) or abs(value) >= 2.0**53:
        return None
    simple = Fraction(value).limit_denominator(_LARGEST_DENOMINATOR)
    return simple if float(simple) == value else None


def checked_lattice(step: float, origin: float) -> Lattice:
    """A lattice with a positive step and a finite origin; NoiseError if it is too fine for its origin."""
    if abs(origin) / step >= _MOST_INDEX:
        raise NoiseError(f"step is {step!r} and origin {origin!r}; expected an origin of fewer steps")
    return Lattice(step, origin)
