"""Noises made from others, `Stay`, `Clipped` and `Rounded`; and `Redraw`, a `Marginal` that often stays."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from predgap._inputs.one_hot import OneHot
from predgap._text import count, shown
from predgap.errors import NoiseError
from predgap.noise._combined_laws import ClippedLaw, RoundedLaw, StayLaw
from predgap.noise._lattice import Lattice, checked_lattice
from predgap.noise._laws import Law, positive
from predgap.noise._noise import ModelFeatures, Noise, TableNoise, check_single
from predgap.noise._scales import ColumnLabels, Names, Ranges, open_table
from predgap.noise._table_laws import ColumnLaw


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Redraw(TableNoise):
    """Redraws each feature with probability p: it takes a value drawn from its own column of X.

    Use it for features with few values, and for categories: the perturbed value is always one that the column
    has. The drawn value may be the old one. Over the rows of X, the mean squared move of a number is 2p times
    the variance of its column. With p = 1 it is `Marginal`, whose notes on X hold here, too.

    Parameters
    ----------
    X : (n, d) NumPy array, pandas or Polars DataFrame, PyArrow Table, or list of rows
        The table to draw from, usually the training table.
    p : number above 0, at most 1
        The probability that a feature is redrawn.

    Examples
    --------
    >>> import numpy as np
    >>> (law,) = Redraw([[0.0], [0.0], [1.0], [1.0]], 0.5).laws(1)
    >>> law.tails(np.array([0.0, 1.0]), np.array([0.5]))[0]  # P(x' < 0.5) if x is 0, if x is 1
    array([[0.75],
           [0.25]])
    """

    p: float

    def __init__(self, X: Any, p: float) -> None:
        number = positive(p, "p")
        if number > 1:
            raise NoiseError(f"p is {shown(p)}, expected a probability, above 0 and at most 1")
        object.__setattr__(self, "p", number)
        self._use(open_table(X, "Redraw cannot use X").copied())

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        places = self._labels.places(features, n_features, feature_names)
        columns = (ColumnLaw(self._table, j, given_to="Redraw") for j in places)
        return tuple(StayLaw(column, 1.0 - self.p, self.p) for column in columns)

    def __repr__(self) -> str:
        return f"Redraw(<{count(self._table.n_rows, 'row')}>, {self.p!r})"


@dataclass(frozen=True)
class _Around(Noise):
    """A noise that changes what another one does."""

    noise: Noise

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not isinstance(self.noise, Noise):
            raise NoiseError(f"{name} got {shown(self.noise)}, expected a Noise such as Normal(0.3)")
        check_single(self.noise, name)

    def with_strength(self, strength: float) -> Noise:
        return replace(self, noise=self.noise.with_strength(strength))

    def ranges_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> Ranges:
        return self.noise.ranges_of(features, n_features, feature_names)

    def with_one_hot(self, one_hot: OneHot) -> Noise:
        return replace(self, noise=self.noise.with_one_hot(one_hot))

    def for_model(self, features: ModelFeatures) -> Noise:
        return replace(self, noise=self.noise.for_model(features))

    def _tables(self) -> tuple[ColumnLabels, ...]:
        return self.noise._tables()


@dataclass(frozen=True, repr=False)
class Stay(_Around):
    """Another noise that leaves each feature alone with probability p, independently of the others.

    Use it for changes that are rare: `Stay(Normal(0.3), 0.9)` moves one feature in ten.

    Parameters
    ----------
    noise : Noise
        What happens to a feature otherwise.
    p : number from 0 to 1
        The probability that a feature stays as it is.

    Examples
    --------
    >>> from predgap import Normal
    >>> Stay(Normal(0.3), 0.9)
    Stay(Normal(0.3), 0.9)
    """

    p: float

    def __post_init__(self) -> None:
        super().__post_init__()
        p = finite(self.p, "p")
        if not 0 <= p <= 1:
            raise NoiseError(f"p is {shown(self.p)}, expected a probability from 0 to 1")
        object.__setattr__(self, "p", p)

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        laws = self.noise.laws_of(features, n_features, feature_names)
        return tuple(StayLaw(law, self.p, 1.0 - self.p) for law in laws)

    def __repr__(self) -> str:
        return f"Stay({self.noise!r}, {self.p!r})"


@dataclass(frozen=True, repr=False)
class Clipped(_Around):
    """Another noise whose values are kept in a range: what would be outside is moved to the nearer end.

    Use it for numbers that have limits, such as shares between 0 and 1. The ends have positive probability. A
    row that is outside is moved to an end, too; an infinite value stays, unless the noise replaces it.

    Parameters
    ----------
    noise : Noise
        Noise for numeric features.
    low, high : numbers
        The range, the same for all features; `-math.inf` and `math.inf` leave a side open. Use `PerFeature`
        to give features different ranges.

    Examples
    --------
    >>> import numpy as np
    >>> from predgap import Uniform
    >>> (law,) = Clipped(Uniform(1.0), 0.0, 10.0).laws(1)
    >>> law.tails(np.array([0.5]), np.array([0.0, 0.25]))  # below 0 there is nothing, at 0 a quarter
    (array([[0.   , 0.375]]), array([[1.   , 0.625]]))
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("low", "high"):
            value = getattr(self, name)
            ends = isinstance(value, numbers.Real) and math.isinf(value)
            object.__setattr__(self, name, float(value) if ends else finite(value, name))
        if not self.low <= self.high or self.low == math.inf or self.high == -math.inf:
            raise NoiseError(f"low is {self.low!r} and high {self.high!r}; expected low <= high")

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        laws = self.noise.laws_of(features, n_features, feature_names)
        return tuple(ClippedLaw(law, self.low, self.high) for law in laws)

    def ranges_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> Ranges:
        return (None,) * len(features)  # a value that is outside moves to an end

    def __repr__(self) -> str:
        return f"Clipped({self.noise!r}, {self.low!r}, {self.high!r})"


@dataclass(frozen=True, repr=False)
class Rounded(_Around):
    """Another noise whose values are rounded to whole numbers, or to another lattice.

    Use it for counts and other numbers that come in steps. A value halfway between two points goes to the
    upper one. An infinite value stays, unless the noise replaces it.

    Parameters
    ----------
    noise : Noise
        Noise for numeric features.
    step : positive number, default=1.0
        The distance of neighbouring points.
    origin : number, default=0.0
        One of the points: values are origin + k · step, for whole k.

    Examples
    --------
    >>> import numpy as np
    >>> from predgap import Uniform
    >>> (law,) = Rounded(Uniform(1.0)).laws(1)
    >>> law.tails(np.array([3.0]), np.array([2.5, 3.5]))[0]  # 2 and 4 have a quarter each
    array([[0.25, 0.75]])
    """

    step: float = 1.0
    origin: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "step", positive(self.step, "step"))
        object.__setattr__(self, "origin", finite(self.origin, "origin"))
        self._lattice()

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        laws = self.noise.laws_of(features, n_features, feature_names)
        return tuple(RoundedLaw(law, self._lattice()) for law in laws)

    def _lattice(self) -> Lattice:
        return checked_lattice(self.step, self.origin)

    def __repr__(self) -> str:
        origin = f", {self.origin!r}" if self.origin else ""
        return f"Rounded({self.noise!r}, {self.step!r}{origin})"


def finite(value: Any, what: str) -> float:
    """`value` as a float; NoiseError, which calls it `what`, unless it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise NoiseError(f"{what} is {shown(value)} ({type(value).__name__}), expected a finite number")
    return float(value)
