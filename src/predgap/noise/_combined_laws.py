"""Laws made from other laws: staying now and then, clipped, rounded, and special values that do not move."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import Categories
from predgap._typing import BoolArray, FloatArray
from predgap.errors import NoiseError
from predgap.noise._areas import Areas, clipped_areas, mixed_areas, unmoved_areas
from predgap.noise._lattice import Lattice
from predgap.noise._laws import Law, kept_numbers, may_be_missing, unmoved_tails
from predgap.noise._tails import Tails


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
    """With probability `stays` x' is x; with probability `moves`, the rest, it follows another law."""

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
        """For each t the number b, perhaps infinite, such that g(y) >= t exactly if y >= b."""

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
    """What points become that are clipped to a range, and its ends."""
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
