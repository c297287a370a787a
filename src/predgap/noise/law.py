"""All laws inherit from `Law`. A law says how one feature is perturbed.

It gives the probabilities of x' that the kernels need. The laws themselves are beside the noises that use
them: in `added`, `replaced` and `combined`.
"""

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
from predgap._text import shown
from predgap._typing import BoolArray, FloatArray
from predgap.errors import NoiseError
from predgap.noise.shifts import Areas, Shift, shift_from_areas, stepped_shift
from predgap.noise.tails import Tails


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
        """True if the law of x' is the same for all x."""
        return False

    @property
    def continuous(self) -> bool:
        """True if a continuous number is added, so that x' is almost never a whole number."""
        return False

    @property
    def known_only(self) -> bool:
        """True if the law can move only those categories that the model knows."""
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
        """True if there are values that do not move."""
        return False

    def still(self, x: FloatArray) -> BoolArray:
        """True for the values x (n,) of a numeric feature that do not move."""
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


def kept_numbers(values: Sequence[Any]) -> FloatArray:
    """Those of the values that are numbers, ascending; and what they are in tables of single precision."""
    found = np.array([float(v) for v in values if isinstance(v, numbers.Real)], dtype=np.float64)
    with np.errstate(over="ignore"):
        return np.unique(np.concatenate([found, found.astype(np.float32)]))


def objects_of(values: Sequence[Any]) -> NDArray[Any]:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def unmoved_tails(x: FloatArray, thresholds: FloatArray) -> Tails:
    """Tails (n, k) of values x (n,) that are not perturbed; each is 0 or 1."""
    below = x[:, None] < thresholds[None, :]
    return below.astype(np.float64), (~below).astype(np.float64)


def may_be_missing(law: str, missing: float) -> NoiseError:
    return NoiseError(
        f"{law} may give a feature the value {missing:g}, which means missing to the model, and noise cannot "
        "make a value missing; leave this value out, or give the feature other noise"
    )


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
