"""Laws made from other laws: staying now and then, clipped, rounded, and special values that do not move."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import Categories
from predgap._typing import FloatArray
from predgap.errors import NoiseError
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

    def kept(self, levels: Categories | None) -> FloatArray:
        return self.law.kept(levels)

    def rounded(self, dtype: np.dtype[Any]) -> Law:
        return replace(self, law=self.law.rounded(dtype))

    def avoiding(self, missing: float) -> Law:
        return replace(self, law=self.law.avoiding(missing))

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

    def _without_missing(self, missing: float, name: str, reached: bool) -> Law:
        """The law for a model to which `missing` means missing; `reached`: may g(y) be this number?"""
        if reached:
            raise may_be_missing(name, missing)
        return replace(self, law=self.law.avoiding(missing)) if self.law.replaces else self


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

    def rounded(self, dtype: np.dtype[Any]) -> Law:
        with np.errstate(over="ignore"):
            low, high = (float(dtype.type(end)) for end in (self.low, self.high))
        return ClippedLaw(self.law.rounded(dtype), low, high)

    def avoiding(self, missing: float) -> Law:
        if self.low < missing < self.high:
            return replace(self, law=self.law.avoiding(missing))
        return self._without_missing(missing, "Clipped", missing in (self.low, self.high))


@dataclass(frozen=True, slots=True)
class RoundedLaw(MappedLaw):
    """x' is the point of a lattice that is nearest to y."""

    lattice: Lattice

    def mapped(self, y: FloatArray) -> FloatArray:
        return self.lattice.nearest(y)

    def before(self, thresholds: FloatArray) -> FloatArray:
        return self.lattice.lower_ends(thresholds)

    def rounded(self, dtype: np.dtype[Any]) -> Law:
        return replace(self, lattice=replace(self.lattice, dtype=dtype))

    def avoiding(self, missing: float) -> Law:
        return self._without_missing(missing, "Rounded", self.lattice.holds(missing))


@dataclass(frozen=True, slots=True)
class KeptLaw(_AroundLaw):
    """Special values stay where they are; others follow another law, which must not reach them."""

    values: tuple[Any, ...]  # numbers, or labels of categories

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        stays = np.isin(x, self.kept(None))[:, None]
        here, there = unmoved_tails(x, thresholds), self.law.tails(x, thresholds)
        below, above = (np.where(stays, h, t) for h, t in zip(here, there, strict=True))
        return below, above

    def kept(self, levels: Categories | None) -> FloatArray:
        return kept_numbers(self.values, levels)

    def rounded(self, dtype: np.dtype[Any]) -> Law:
        with np.errstate(over="ignore"):
            values = self.kept(None).astype(dtype).astype(np.float64)
        return KeptLaw(self.law.rounded(dtype), tuple(values.tolist()))

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        if x.dtype == object:
            stays = np.array([value in self.values for value in x.tolist()], dtype=np.bool_)
        else:
            stays = np.isin(x, self.kept(None))
        return np.where(stays, x, self.law.sample(x, rng))


@dataclass(frozen=True, slots=True)
class ByKindLaw(Law):
    """One law if the feature is numeric in the model, another one if it is categorical."""

    number: Law
    category: Law

    @property
    def replaces(self) -> bool:
        return self.number.replaces

    @property
    def continuous(self) -> bool:
        return self.number.continuous

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        return self.number.tails(x, thresholds)

    def category_probabilities(self, levels: Categories) -> FloatArray:
        return self.category.category_probabilities(levels)

    def staying_probabilities(self, levels: Categories) -> FloatArray:
        return self.category.staying_probabilities(levels)

    def unseen_probability(self, levels: Categories) -> float:
        return self.category.unseen_probability(levels)

    def unseen_stays_probability(self, levels: Categories) -> float:
        return self.category.unseen_stays_probability(levels)

    def kept(self, levels: Categories | None) -> FloatArray:
        return (self.number if levels is None else self.category).kept(levels)

    def rounded(self, dtype: np.dtype[Any]) -> Law:
        return self.number.rounded(dtype)

    def avoiding(self, missing: float) -> Law:
        return self.number.avoiding(missing)

    def movable(self, x: FloatArray) -> FloatArray:
        return self.number.movable(x)

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        return (self.category if x.dtype == object else self.number).sample(x, rng)
