"""Laws: how one feature is perturbed. A law gives the probabilities of x' that the kernels need."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import Categories
from predgap._inputs.tables import Columns
from predgap._text import format_items, shown
from predgap._typing import FloatArray
from predgap.errors import NoiseError, TableError
from predgap.noise._tails import Tails, listed_tails, normal_tails, uniform_tails


class Law(ABC):
    """The distribution of the perturbed value x' of one feature, for each value x. Immutable.

    For a numeric feature `tails` is called, for a categorical one `category_probabilities` and
    `staying_probabilities`.
    """

    __slots__ = ()

    replaces: ClassVar[bool] = False
    """False if x' is x plus noise, so that an infinite x stays; True if x' is a new value."""

    @abstractmethod
    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        """P(x' < t) and P(x' >= t), both (n, k), for x (n,) and thresholds (k,).

        Each is computed directly, never as 1 minus the other, so that small probabilities keep their relative
        accuracy. x is finite; if `replaces`, it may be infinite, but not missing.
        """

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
        """P(x' is a category that the model does not know); it must not depend on x."""
        return 0.0

    def rounded(self, dtype: np.dtype[Any]) -> Law:
        """The law for a model that rounds rows to `dtype`: values that replace x are rounded, sums not."""
        return self

    def avoiding(self, missing: float) -> Law:
        """The law for a model that takes the number `missing` for a missing value.

        Raises NoiseError if x' is this number with positive probability.
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

    def category_probabilities(self, levels: Categories) -> FloatArray:
        return np.zeros(len(levels))

    def staying_probabilities(self, levels: Categories) -> FloatArray:
        return np.ones(len(levels))


@dataclass(frozen=True, slots=True)
class NormalLaw(Law):
    """δ is normal with mean 0 and standard deviation `scale`."""

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive(self.scale, "scale"))

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        return normal_tails(x, thresholds, self.scale)


@dataclass(frozen=True, slots=True)
class UniformLaw(Law):
    """δ is uniform on [-half_width, half_width]."""

    half_width: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "half_width", positive(self.half_width, "half_width"))

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        return uniform_tails(x, thresholds, self.half_width)


@dataclass(frozen=True, slots=True, eq=False)
class DiscreteLaw(Law):
    """x' is one of these values, independently of x; for a categorical feature they are labels."""

    replaces: ClassVar[bool] = True

    values: tuple[Any, ...]
    probabilities: FloatArray  # sum to 1

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        below, above = listed_tails(self._numbers(), self.probabilities, thresholds)
        shape = (len(x), len(thresholds))
        return np.broadcast_to(below, shape), np.broadcast_to(above, shape)

    def category_probabilities(self, levels: Categories) -> FloatArray:
        at = levels.levels_of(levels.codes_of(self.values))
        if (at < 0).any():
            strange = self.values[int(np.flatnonzero(at < 0)[0])]
            raise NoiseError(f"{strange!r} is not {_known_categories(levels)}")
        return np.bincount(at, weights=self.probabilities, minlength=len(levels)).astype(np.float64)

    def rounded(self, dtype: np.dtype[Any]) -> Law:
        if not all(isinstance(value, numbers.Real) for value in self.values):
            return self
        with np.errstate(over="ignore"):
            return DiscreteLaw(tuple(self._numbers().astype(dtype).tolist()), self.probabilities)

    def avoiding(self, missing: float) -> Law:
        if missing in self._numbers():
            raise may_be_missing("Discrete", missing)
        return self

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

    replaces: ClassVar[bool] = True

    p: float

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        strange = x[(x != 0) & (x != 1)]
        if len(strange):
            raise NoiseError(f"Flip switches a numeric feature between 0 and 1, but a row has {strange[0]:g}")
        here, there = x[:, None] < thresholds, (1 - x)[:, None] < thresholds
        return _flipped(here, there, self.p), _flipped(~here, ~there, self.p)

    def avoiding(self, missing: float) -> Law:
        if missing in (0.0, 1.0):
            raise may_be_missing("Flip", missing)
        return self

    def movable(self, x: FloatArray) -> FloatArray:
        return np.where(np.isnan(x), x, x > 0.5)

    def category_probabilities(self, levels: Categories) -> FloatArray:
        if not levels.complete:
            raise NoiseError(
                "Flip needs all categories, but the model stores only those that it splits on; use Discrete, "
                "or Marginal of the training table"
            )
        if len(levels) < 2:
            return np.zeros(len(levels))
        return np.full(len(levels), self.p / (len(levels) - 1))

    def staying_probabilities(self, levels: Categories) -> FloatArray:
        return np.full(len(levels), 1.0 - self.p if len(levels) > 1 else 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class MarginalLaw(Law):
    """x' is drawn from these values, independently of x."""

    replaces: ClassVar[bool] = True

    values: FloatArray  # ascending

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        n = len(self.values)
        below = np.searchsorted(self.values, thresholds, side="left")
        shape = (len(x), len(thresholds))
        return np.broadcast_to(below / n, shape), np.broadcast_to((n - below) / n, shape)

    def rounded(self, dtype: np.dtype[Any]) -> Law:
        with np.errstate(over="ignore"):
            return MarginalLaw(self.values.astype(dtype).astype(np.float64))

    def avoiding(self, missing: float) -> Law:
        present = self.values[self.values != missing]
        if len(present) == 0:
            raise NoiseError(
                f"Marginal cannot use X: a column holds nothing but {missing:g}, which means missing"
            )
        return MarginalLaw(present)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnLaw(Law):
    """x' is drawn from the values of a column of a table that are not missing, independently of x."""

    replaces: ClassVar[bool] = True

    table: Columns
    j: int

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        return self._marginal().tails(x, thresholds)

    def rounded(self, dtype: np.dtype[Any]) -> Law:
        return self._marginal().rounded(dtype)

    def category_probabilities(self, levels: Categories) -> FloatArray:
        counts, n = self._counts(levels)
        return counts / n

    def unseen_probability(self, levels: Categories) -> float:
        counts, n = self._counts(levels)
        return (n - int(counts.sum())) / n

    def _counts(self, levels: Categories) -> tuple[NDArray[np.int64], int]:
        """How often each known category occurs in the column, (m,), and the number of all its values."""
        codes = self._present(lambda: self.table.codes(self.j, levels))
        at = levels.levels_of(codes)
        unknown, n = int((at < 0).sum()), len(codes)
        if unknown == n or (unknown and levels.closed):
            raise NoiseError(
                f"{unknown} of {n} values of column {self._label()} are not {_known_categories(levels)}"
            )
        if (codes != np.trunc(codes)).any():
            raise NoiseError(
                f"column {self._label()} holds {codes[codes != np.trunc(codes)][0]:g}; expected whole "
                "numbers, the codes of categories"
            )
        return np.bincount(at[at >= 0], minlength=len(levels)), n

    def _marginal(self) -> MarginalLaw:
        return MarginalLaw(np.sort(self._present(lambda: self.table.column(self.j))))

    def _present(self, read: Callable[[], FloatArray]) -> FloatArray:
        try:
            values = read()
        except TableError as error:
            raise NoiseError(f"Marginal cannot use X: {error}") from None
        values = values[~np.isnan(values)]
        if len(values) == 0:
            raise NoiseError(f"Marginal cannot use X: column {self._label()} has no values")
        return values

    def _label(self) -> str:
        return repr(self.table.names[self.j]) if self.table.names else str(self.j)


def unmoved_tails(x: FloatArray, thresholds: FloatArray) -> Tails:
    """Tails (n, k) of values x (n,) that are not perturbed; each is 0 or 1."""
    below = x[:, None] < thresholds[None, :]
    return below.astype(np.float64), (~below).astype(np.float64)


def may_be_missing(law: str, missing: float) -> NoiseError:
    return NoiseError(
        f"{law} may give a feature the value {missing:g}, which means missing to the model, and noise cannot "
        "make a value missing; leave this value out, or give the feature other noise"
    )


def _known_categories(levels: Categories) -> str:
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
