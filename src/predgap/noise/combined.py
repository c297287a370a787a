"""These noises are made from others, or often leave a value as it is; their laws are here, too.

They are `Stay`, `Clipped`, `Rounded`, `PerFeature`, and `Redraw`, a `Marginal` that often stays.
"""

from __future__ import annotations

import math
import numbers
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import Categories
from predgap._inputs.one_hot import OneHot
from predgap._inputs.subsets import NAMELESS, match_names
from predgap._text import count, format_items, names_or_default, shown
from predgap._typing import BoolArray, FloatArray
from predgap.errors import NoiseError
from predgap.noise.columns import Lattice, checked_lattice
from predgap.noise.law import Law, kept_numbers, may_be_missing, positive, unmoved_tails
from predgap.noise.noise import (
    ColumnLabels,
    ModelFeatures,
    Names,
    Noise,
    Ranges,
    TableNoise,
    check_single,
    open_table,
)
from predgap.noise.replaced import ColumnLaw
from predgap.noise.shifts import Areas, clipped_areas, mixed_areas, unmoved_areas
from predgap.noise.tails import Tails


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


# ------------------------------------------------------------------------------------------------------------
# `PerFeature` gives some features a noise of their own, and the rest a default.


@dataclass(frozen=True, init=False, repr=False)
class PerFeature(Noise):
    """Combines noises: a different one for some features, and a default for the rest.

    Use it for tables with both numeric and categorical columns.

    Parameters
    ----------
    noises : mapping from feature name or index to Noise
        The noise of these features.
    default : Noise, or None, default=None
        The noise of all other features. Without it, `noises` must have every feature that the model splits
        on.

    Examples
    --------
    >>> from predgap import Normal, Uniform
    >>> PerFeature({"age": Uniform(1)}, default=Normal(0.3)).laws(2, ("age", "bmi"))
    (UniformLaw(half_width=1.0), NormalLaw(scale=0.3))
    """

    noises: tuple[tuple[str | int, Noise], ...]
    default: Noise | None

    def __init__(self, noises: Mapping[Any, Noise], default: Noise | None = None) -> None:
        if not isinstance(noises, Mapping):
            raise NoiseError(
                f"PerFeature got a {type(noises).__name__}, expected a mapping such as {{'age': Normal(0.3)}}"
            )
        pairs = tuple((_feature_key(key), _noise(noise, f"of {shown(key)}")) for key, noise in noises.items())
        object.__setattr__(self, "noises", pairs)
        object.__setattr__(self, "default", None if default is None else _noise(default, "default"))

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        own = self._placed(n_features, feature_names)
        rest = [j for j in features if j not in own]
        if rest and self.default is None:
            names = names_or_default(n_features, feature_names)
            raise NoiseError(
                f"no noise for {count(len(rest), 'feature')}: {format_items(names[j] for j in rest)}; "
                "add them, or give default="
            )
        others = self.default.laws_of(rest, n_features, feature_names) if self.default is not None else ()
        laws = dict(zip(rest, others, strict=True))
        for j in features:
            if j in own:
                (laws[j],) = own[j].laws_of([j], n_features, feature_names)
        return tuple(laws[j] for j in features)

    def ranges_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> Ranges:
        own = self._placed(n_features, feature_names)
        noises = [own.get(j, self.default) for j in features]
        return tuple(
            None if noise is None else noise.ranges_of([j], n_features, feature_names)[0]
            for j, noise in zip(features, noises, strict=True)
        )

    def with_strength(self, strength: float) -> PerFeature:
        return self._each(lambda noise: noise.with_strength(strength))

    def with_one_hot(self, one_hot: OneHot) -> PerFeature:
        return self._each(lambda noise: noise.with_one_hot(one_hot))

    def for_model(self, features: ModelFeatures) -> PerFeature:
        return self._each(lambda noise: noise.for_model(features))

    def _tables(self) -> tuple[ColumnLabels, ...]:
        held = [noise for _, noise in self.noises] + ([] if self.default is None else [self.default])
        return tuple(table for noise in held for table in noise._tables())

    def _each(self, change: Callable[[Noise], Noise]) -> PerFeature:
        default = None if self.default is None else change(self.default)
        return PerFeature({key: change(noise) for key, noise in self.noises}, default)

    def _placed(self, n_features: int, feature_names: Names) -> dict[int, Noise]:
        """The noises that were given, by feature index."""
        place = self._places(n_features, feature_names)
        unknown = [key for key, _ in self.noises if key not in place]
        if unknown:
            raise NoiseError(
                f"the model has no feature {format_items(unknown)}; its {n_features} features are "
                f"{format_items(names_or_default(n_features, feature_names))}"
                f"{NAMELESS if feature_names is None else ''}"
            )
        placed: dict[int, Noise] = {}
        for key, noise in self.noises:
            if place[key] in placed:
                name = names_or_default(n_features, feature_names)[place[key]]
                raise NoiseError(f"feature {name!r} is given twice, by name and by index")
            placed[place[key]] = noise
        return placed

    def _places(self, n_features: int, feature_names: Names) -> dict[str | int, int]:
        """The feature that each of the keys means, if there is one."""
        place: dict[str | int, int] = {
            key: key for key, _ in self.noises if isinstance(key, int) and 0 <= key < n_features
        }
        names = [key for key, _ in self.noises if isinstance(key, str)]
        if names:
            place.update(match_names(names, names_or_default(n_features, feature_names), NoiseError))
        return place

    def __repr__(self) -> str:
        shown = ", ".join(f"{key!r}: {noise!r}" for key, noise in self.noises)
        default = "" if self.default is None else f", default={self.default!r}"
        return f"PerFeature({{{shown}}}{default})"


def _noise(noise: Any, which: str) -> Noise:
    if not isinstance(noise, Noise):
        raise NoiseError(f"the noise {which} is {shown(noise)}, expected a Noise such as Normal(0.3)")
    check_single(noise, "PerFeature")
    return noise


def _feature_key(key: Any) -> str | int:
    if isinstance(key, str):
        return key
    if isinstance(key, bool | np.bool_) or not isinstance(key, int | np.integer):
        raise NoiseError(f"PerFeature has the key {shown(key)}, expected feature names or indices")
    return int(key)


# ------------------------------------------------------------------------------------------------------------
# These laws change another law: they stay now and then, clip, round, or keep special values.


@dataclass(frozen=True, slots=True)
class _AroundLaw(Law):
    """A law that does what another one does, but for what its class defines."""

    law: Law

    @property
    def replaces(self) -> bool:
        return self.law.replaces

    @property
    def continuous(self) -> bool:
        return self.law.continuous

    @property
    def known_only(self) -> bool:
        return self.law.known_only

    def category_probabilities(self, levels: Categories) -> FloatArray:
        return self.law.category_probabilities(levels)

    def staying_probabilities(self, levels: Categories) -> FloatArray:
        return self.law.staying_probabilities(levels)

    def unseen_probability(self, levels: Categories) -> float:
        return self.law.unseen_probability(levels)

    def unseen_stays_probability(self, levels: Categories) -> float:
        return self.law.unseen_stays_probability(levels)

    @property
    def keeps(self) -> bool:
        return self.law.keeps

    def still(self, x: FloatArray) -> BoolArray:
        return self.law.still(x)

    def kept(self, levels: Categories) -> FloatArray:
        return self.law.kept(levels)

    def avoiding(self, low: float, high: float) -> Law:
        return replace(self, law=self.law.avoiding(low, high))

    def movable(self, x: FloatArray) -> FloatArray:
        return self.law.movable(x)


@dataclass(frozen=True, slots=True)
class StayLaw(_AroundLaw):
    """The law of an x' that is x with probability `stays`, and else, with `moves`, follows another law."""

    stays: float
    moves: float

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        here, there = unmoved_tails(x, thresholds), self.law.tails(x, thresholds)
        below, above = (
            np.minimum(self.stays * h + self.moves * t, 1.0) for h, t in zip(here, there, strict=True)
        )
        return below, above

    def points(self, x: float, low: float = -math.inf, high: float = math.inf) -> FloatArray | None:
        there = self.law.points(x, low, high)
        return None if there is None else np.append(there, x)

    def areas(self, x: float, low: FloatArray, high: FloatArray) -> Areas:
        here, there = unmoved_areas(x, low, high), self.law.areas(x, low, high)
        return mixed_areas(self.stays, here, self.moves, there)

    def category_probabilities(self, levels: Categories) -> FloatArray:
        return self.moves * self.law.category_probabilities(levels)

    def staying_probabilities(self, levels: Categories) -> FloatArray:
        return self.stays + self.moves * self.law.staying_probabilities(levels)

    def unseen_probability(self, levels: Categories) -> float:
        return self.moves * self.law.unseen_probability(levels)

    def unseen_stays_probability(self, levels: Categories) -> float:
        return self.stays + self.moves * self.law.unseen_stays_probability(levels)

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        moves = rng.random(len(x)) < self.moves
        return np.where(moves, self.law.sample(x, rng), x)


@dataclass(frozen=True, slots=True)
class MappedLaw(Law):
    """x' = g(y), where y follows another law and g does not decrease."""

    law: Law

    @property
    def replaces(self) -> bool:
        return self.law.replaces

    @property
    def forgets(self) -> bool:
        return self.law.forgets

    @abstractmethod
    def mapped(self, y: FloatArray) -> FloatArray:
        """g(y)."""

    @abstractmethod
    def before(self, thresholds: FloatArray) -> FloatArray:
        """The number b, perhaps infinite, for each t such that g(y) >= t exactly if y >= b."""

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        before = self.before(thresholds)
        below, above = self.law.tails(x, np.where(np.isfinite(before), before, 0.0))
        never, always = before == np.inf, before == -np.inf  # is x' at least t?
        return (
            np.where(never, 1.0, np.where(always, 0.0, below)),
            np.where(never, 0.0, np.where(always, 1.0, above)),
        )

    def category_probabilities(self, levels: Categories) -> FloatArray:
        raise NoiseError(f"{self!r} is for numeric features; give a categorical feature other noise")

    def movable(self, x: FloatArray) -> FloatArray:
        return self.law.movable(x)

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        if x.dtype == object:
            raise NoiseError(f"{self!r} is for numbers, but a column holds {x[0]!r}")
        return self.mapped(self.law.sample(x, rng))

    def _without_missing(self, low: float, high: float, name: str, reached: FloatArray) -> Law:
        """The law for a model to which numbers from low to high mean missing; which of them are `reached`, as
        single values of g(y)?"""
        if len(reached):
            raise may_be_missing(name, float(reached[0]))
        return replace(self, law=self.law.avoiding(low, high)) if self.law.replaces else self


@dataclass(frozen=True, slots=True)
class ClippedLaw(MappedLaw):
    """x' is y, or the nearest end of [low, high] if y is outside."""

    low: float
    high: float

    @property
    def continuous(self) -> bool:
        return self.law.continuous

    def mapped(self, y: FloatArray) -> FloatArray:
        return np.clip(y, self.low, self.high)

    def before(self, thresholds: FloatArray) -> FloatArray:
        above, at_low = thresholds > self.high, thresholds <= self.low
        return np.where(above, np.inf, np.where(at_low, -np.inf, thresholds))

    def points(self, x: float, low: float = -math.inf, high: float = math.inf) -> FloatArray | None:
        return _clipped_points(self.law, x, self.low, self.high)

    def areas(self, x: float, low: FloatArray, high: FloatArray) -> Areas:
        return clipped_areas(lambda *ends: self.law.areas(x, *ends), x, (self.low, self.high), low, high)

    def avoiding(self, low: float, high: float) -> Law:
        if self.low < low and high < self.high:
            return replace(self, law=self.law.avoiding(low, high))
        ends = np.array([self.low, self.high])
        return self._without_missing(low, high, "Clipped", ends[(low <= ends) & (ends <= high)])


@dataclass(frozen=True, slots=True)
class RoundedLaw(MappedLaw):
    """x' is the point of a lattice that is nearest to y."""

    lattice: Lattice

    def mapped(self, y: FloatArray) -> FloatArray:
        return self.lattice.nearest(y)

    def before(self, thresholds: FloatArray) -> FloatArray:
        return self.lattice.lower_ends(thresholds)

    def points(self, x: float, low: float = -math.inf, high: float = math.inf) -> FloatArray:
        before = self.law.points(x)
        if before is not None:
            return self.mapped(before)
        return self.lattice.between(*np.clip(_reach(self.law, x, self.lattice.step), low, high))

    def avoiding(self, low: float, high: float) -> Law:
        return self._without_missing(low, high, "Rounded", self.lattice.first_within(low, high))


@dataclass(frozen=True, slots=True)
class WithinLaw(_AroundLaw):
    """x' is y, or the nearest end of the range from low to high if y is outside. An x that is outside itself
    is not moved there: the range then begins, or ends, at x."""

    low: float
    high: float

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        low, high = self._ends(x[:, None])
        never, always = thresholds > high, thresholds <= low  # is x' at least t?
        below, above = self.law.tails(x, thresholds)
        return (
            np.where(never, 1.0, np.where(always, 0.0, below)),
            np.where(never, 0.0, np.where(always, 1.0, above)),
        )

    def points(self, x: float, low: float = -math.inf, high: float = math.inf) -> FloatArray | None:
        return _clipped_points(self.law, x, min(self.low, x), max(self.high, x))

    def areas(self, x: float, low: FloatArray, high: FloatArray) -> Areas:
        ends = min(self.low, x), max(self.high, x)
        return clipped_areas(lambda *some: self.law.areas(x, *some), x, ends, low, high)

    def avoiding(self, low: float, high: float) -> Law:
        meets = self.low <= high and low <= self.high
        return replace(self, law=self.law.avoiding(low, high)) if meets else self

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        clipped: FloatArray = np.clip(self.law.sample(x, rng), *self._ends(x))
        return clipped

    def _ends(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.minimum(self.low, x), np.maximum(self.high, x)


@dataclass(frozen=True, slots=True)
class KeptLaw(_AroundLaw):
    """Special values stay where they are; others follow another law, which must not reach them.

    Numbers that are not between `low` and `high` stay, too: the way back would lead over a special value.
    """

    values: tuple[Any, ...]  # numbers, or labels of categories
    low: float = -math.inf
    high: float = math.inf

    @property
    def keeps(self) -> bool:
        return True

    def still(self, x: FloatArray) -> BoolArray:
        beyond = ~((self.low < x) & (x < self.high)) & np.isfinite(x)
        return np.isin(x, kept_numbers(self.values)) | beyond | self.law.still(x)

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        stays = self.still(x)[:, None]
        here, there = unmoved_tails(x, thresholds), self.law.tails(x, thresholds)
        below, above = (np.where(stays, h, t) for h, t in zip(here, there, strict=True))
        return below, above

    def points(self, x: float, low: float = -math.inf, high: float = math.inf) -> FloatArray | None:
        return np.array([x]) if self.still(np.array([x]))[0] else self.law.points(x, low, high)

    def areas(self, x: float, low: FloatArray, high: FloatArray) -> Areas:
        return self.law.areas(x, low, high)  # of values that move; others have points

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        if x.dtype == object:
            stays = np.array([value in self.values for value in x.tolist()], dtype=np.bool_)
        else:
            stays = self.still(x)
        return np.where(stays, x, self.law.sample(x, rng))


def _clipped_points(law: Law, x: float, low: float, high: float) -> FloatArray | None:
    """The points of a law after they are clipped to a range, and the ends of the range."""
    points = law.points(x, low, high)
    if points is None:
        return None
    ends = [end for end in (low, high) if math.isfinite(end)]
    clipped: FloatArray = np.clip(np.append(points, ends), low, high)
    return clipped


def _reach(law: Law, x: float, step: float) -> tuple[float, float]:
    """Numbers that x' is between, at most a fifth too far from x; infinite if that is a million steps."""
    away = step * 2.0 ** np.arange(0.0, 20.0, 0.25)
    with np.errstate(over="ignore"):
        below = law.tails(np.array([x]), x - away)[0][0]
        above = law.tails(np.array([x]), x + away)[1][0]
    down, up = (float(np.append(away[tail == 0], np.inf)[0]) for tail in (below, above))
    return x - down, x + up
