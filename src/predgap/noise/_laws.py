"""Laws: how one feature is perturbed. A law gives the probabilities of x' that the kernels need."""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import Categories
from predgap._text import format_items, shown
from predgap._typing import BoolArray, FloatArray
from predgap.errors import NoiseError
from predgap.noise._areas import Areas, shift_from_areas
from predgap.noise._shifts import Shift, stepped_shift
from predgap.noise._tails import Tails, listed_tails


class Law(ABC):
    """The distribution of the perturbed value x' of one feature, for each value x. Immutable.

    For a numeric feature `tails` is called, for a categorical one `category_probabilities` and
    `staying_probabilities`.
    """

    __slots__ = ()

    @property
    def replaces(self) -> bool:
        """False if x' is x plus noise, so that an infinite x stays; True if x' is a new value."""
        return False

    @property
    def forgets(self) -> bool:
        """Is the law of x' the same for all x?"""
        return False

    @property
    def continuous(self) -> bool:
        """Is a continuous number added, so that x' is almost never a whole number?"""
        return False

    @property
    def known_only(self) -> bool:
        """Can it move only those categories that the model knows?"""
        return False

    @abstractmethod
    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        """P(x' < t) and P(x' >= t), both (n, k), for x (n,) and thresholds (k,).

        Each is computed directly, never as 1 minus the other, so that small probabilities keep their relative
        accuracy. x is finite; if `replaces`, it may be infinite, but not missing.
        """

    def shift(self, x: float, thresholds: FloatArray) -> Shift:
        """Moments of x' - x of a numeric feature, for a finite x and thresholds (k,).

        They follow from `points`, or from `areas`; only `metrics.infidelity` needs them.
        """
        points = self.points(x)
        if points is not None:
            points = np.union1d(points, [x])
            return stepped_shift(x, thresholds, points, self._tails_of(x, points))
        at_thresholds = self._tails_of(x, thresholds)
        return shift_from_areas(lambda low, high: self.areas(x, low, high), at_thresholds, x, thresholds)

    def points(self, x: float, low: float = -math.inf, high: float = math.inf) -> FloatArray | None:
        """Numbers (m,), with all among them that x' can be from low to high; None if it has a density."""
        return None

    def areas(self, x: float, low: FloatArray, high: FloatArray) -> Areas:
        """The areas under the tails between low and high (k,), for a finite x."""
        raise NoiseError(f"the mean and variance of {self!r} are not known")

    def _tails_of(self, x: float, thresholds: FloatArray) -> Tails:
        below, above = self.tails(np.array([x]), thresholds)
        return below[0], above[0]

    def category_probabilities(self, levels: Categories) -> FloatArray:
        """P(x' = c | x ≠ c), (m,), for each category c that the model knows.

        The probability must not depend on which other category x is.
        """
        raise NoiseError(
            f"{self!r} is for numeric features; give a categorical feature Discrete, Flip or Marginal noise"
        )

    def staying_probabilities(self, levels: Categories) -> FloatArray:
        """P(x' = c | x = c), (m,), for each category c that the model knows.

        The default is 1 minus the probabilities of all others. Override it if they can be computed directly,
        so that small ones keep their relative accuracy.
        """
        reached = self.category_probabilities(levels)
        left: FloatArray = 1.0 - (reached.sum() - reached) - self.unseen_probability(levels)
        return reached if self.replaces else np.maximum(left, 0.0)

    def unseen_probability(self, levels: Categories) -> float:
        """P(x' is a category that the model does not know); it must not depend on x.

        If x is such a category itself, the probability that it is left alone comes in addition.
        """
        return 0.0

    def unseen_stays_probability(self, levels: Categories) -> float:
        """P(x is left alone), if it is a category that the model does not know."""
        if self.replaces:
            return 0.0
        reached = self.category_probabilities(levels)
        return max(0.0, 1.0 - float(reached.sum()) - self.unseen_probability(levels))

    @property
    def keeps(self) -> bool:
        """Are there values that do not move?"""
        return False

    def still(self, x: FloatArray) -> BoolArray:
        """Which of the values x (n,) of a numeric feature do not move."""
        return np.zeros(len(x), dtype=np.bool_)

    def kept(self, levels: Categories) -> FloatArray:
        """The codes of a categorical feature that do not move and are not reached."""
        return np.empty(0)

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """Draws x' (n,) for values x (n,), none of them missing: floats, or objects that are labels."""
        raise NoiseError(f"{self!r} has no samples: its class does not define sample(x, rng)")

    def avoiding(self, low: float, high: float) -> Law:
        """The law of a number. To the model, numbers from low to high are missing; none if these are NaN.

        Raises NoiseError if it gives one of them a probability of its own.
        """
        return self

    def movable(self, x: FloatArray) -> FloatArray:
        """Values (n,) near x (n,) that the law can perturb, for estimates of costs on made-up rows."""
        return x


@dataclass(frozen=True, slots=True)
class StillLaw(Law):
    """The feature does not move."""

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        return unmoved_tails(x, thresholds)

    def points(self, x: float, low: float = -math.inf, high: float = math.inf) -> FloatArray:
        return np.array([x])

    def category_probabilities(self, levels: Categories) -> FloatArray:
        return np.zeros(len(levels))

    def staying_probabilities(self, levels: Categories) -> FloatArray:
        return np.ones(len(levels))

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        return x


class ReplacingLaw(Law):
    """x' is a new value, independent of x."""

    __slots__ = ()

    @property
    def replaces(self) -> bool:
        return True

    @property
    def forgets(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, eq=False)
class DiscreteLaw(ReplacingLaw):
    """x' is one of these values, independently of x; for a categorical feature they are labels."""

    values: tuple[Any, ...]
    probabilities: FloatArray  # sum to 1

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        below, above = listed_tails(self._numbers(), self.probabilities, thresholds)
        shape = (len(x), len(thresholds))
        return np.broadcast_to(below, shape), np.broadcast_to(above, shape)

    def points(self, x: float, low: float = -math.inf, high: float = math.inf) -> FloatArray:
        return self._numbers()

    def category_probabilities(self, levels: Categories) -> FloatArray:
        at = levels.levels_of(levels.codes_of(self.values))
        if (at < 0).any():
            strange = self.values[int(np.flatnonzero(at < 0)[0])]
            raise NoiseError(f"{strange!r} is not {known_categories(levels)}")
        return np.bincount(at, weights=self.probabilities, minlength=len(levels)).astype(np.float64)

    def avoiding(self, low: float, high: float) -> Law:
        for value in self._numbers().tolist():
            if low <= value <= high:
                raise may_be_missing("Discrete", value)
        return self

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        values = objects_of(self.values) if x.dtype == object else self._numbers()
        drawn: NDArray[Any] = values[rng.choice(len(values), len(x), p=self.probabilities)]
        return drawn

    def _numbers(self) -> FloatArray:
        strange = [v for v in self.values if isinstance(v, bool) or not isinstance(v, numbers.Real)]
        if strange:
            raise NoiseError(
                f"Discrete has the value {shown(strange[0])} for a numeric feature; expected numbers"
            )
        return np.array(self.values, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class FlipLaw(Law):
    """With probability p, x' is another category than x, all equally likely; a number is 0 or 1."""

    p: float

    @property
    def replaces(self) -> bool:
        return True

    @property
    def known_only(self) -> bool:
        return True

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        _check_flags(x)
        here, there = x[:, None] < thresholds, (1 - x)[:, None] < thresholds
        return _flipped(here, there, self.p), _flipped(~here, ~there, self.p)

    def points(self, x: float, low: float = -math.inf, high: float = math.inf) -> FloatArray:
        return np.array([0.0, 1.0])

    def avoiding(self, low: float, high: float) -> Law:
        for value in (0.0, 1.0):
            if low <= value <= high:
                raise may_be_missing("Flip", value)
        return self

    def movable(self, x: FloatArray) -> FloatArray:
        return np.where(np.isnan(x), x, x > 0.5)

    def category_probabilities(self, levels: Categories) -> FloatArray:
        if not levels.complete:
            raise NoiseError(
                "Flip needs all categories, but the model does not store them; use Relative, Marginal or "
                "Discrete noise, or load it with those of the training table: predgap.load(model, levels=X)"
            )
        if len(levels) < 2:
            return np.zeros(len(levels))
        return np.full(len(levels), self.p / (len(levels) - 1))

    def staying_probabilities(self, levels: Categories) -> FloatArray:
        return np.full(len(levels), 1.0 - self.p if len(levels) > 1 else 1.0)

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        changes = rng.random(len(x)) < self.p
        if x.dtype != object:
            _check_flags(x)
            return np.where(changes, 1.0 - x, x)
        labels = list(dict.fromkeys(x.tolist()))  # the categories are those of x
        place = {label: k for k, label in enumerate(labels)}
        own = np.array([place[label] for label in x.tolist()], dtype=np.intp)
        step = rng.integers(1, max(2, len(labels)), len(x)) * changes
        drawn: NDArray[Any] = objects_of(labels)[(own + step) % max(1, len(labels))]
        return drawn


@dataclass(frozen=True, slots=True, eq=False)
class MarginalLaw(ReplacingLaw):
    """x' is drawn from these values, independently of x."""

    values: FloatArray  # ascending

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        n = len(self.values)
        below = np.searchsorted(self.values, thresholds, side="left")
        shape = (len(x), len(thresholds))
        return np.broadcast_to(below / n, shape), np.broadcast_to((n - below) / n, shape)

    def points(self, x: float, low: float = -math.inf, high: float = math.inf) -> FloatArray:
        return self.values

    def avoiding(self, low: float, high: float) -> Law:
        present = self.values[~((low <= self.values) & (self.values <= high))]
        if len(present) == 0:
            raise NoiseError(
                f"Marginal cannot use X: a column holds nothing but {self.values[0]:g}, which means missing"
            )
        return MarginalLaw(present)

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        return rng.choice(self.values, len(x))


def kept_numbers(values: Sequence[Any]) -> FloatArray:
    """Those of the values that are numbers, ascending; and what they are in tables of single precision."""
    found = np.array([float(v) for v in values if isinstance(v, numbers.Real)], dtype=np.float64)
    with np.errstate(over="ignore"):
        return np.unique(np.concatenate([found, found.astype(np.float32)]))


def objects_of(values: Sequence[Any]) -> NDArray[Any]:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _check_flags(x: FloatArray) -> None:
    strange = x[(x != 0) & (x != 1)]
    if len(strange):
        raise NoiseError(f"Flip switches a numeric feature between 0 and 1, but a row has {strange[0]:g}")


def unmoved_tails(x: FloatArray, thresholds: FloatArray) -> Tails:
    """Tails (n, k) of values x (n,) that are not perturbed; each is 0 or 1."""
    below = x[:, None] < thresholds[None, :]
    return below.astype(np.float64), (~below).astype(np.float64)


def may_be_missing(law: str, missing: float) -> NoiseError:
    return NoiseError(
        f"{law} may give a feature the value {missing:g}, which means missing to the model, and noise cannot "
        "make a value missing; leave this value out, or give the feature other noise"
    )


def known_categories(levels: Categories) -> str:
    shown = format_items(levels.labels or ())
    return f"among the {len(levels)} categories that the model knows: {shown}"


def _flipped(here: NDArray[np.bool_], there: NDArray[np.bool_], p: float) -> FloatArray:
    """The probability of an event after a flip; `here` and `there`: does it hold at x, at the other value?"""
    return np.where(here, np.where(there, 1.0, 1.0 - p), np.where(there, p, 0.0))


def positive(value: Any, what: str) -> float:
    """`value` as a float; NoiseError, which calls it `what`, unless it is a positive finite number."""
    given = value.item() if isinstance(value, np.ndarray | np.generic) and np.ndim(value) == 0 else value
    if isinstance(given, bool) or not isinstance(given, numbers.Real):
        raise NoiseError(f"{what} is {shown(value)} ({type(value).__name__}), expected a positive number")
    try:
        number = float(given)
    except OverflowError:
        number = float("inf")
    if not 0 < number < float("inf"):
        raise NoiseError(f"{what} is {given!r}, expected a positive finite number")
    return number
