"""Laws: how one feature moves, as the probability that it ends below each threshold."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap.categories import Categories
from predgap.errors import NoiseError, TableError
from predgap.tables import Columns, listing

FloatArray = NDArray[np.float64]


class Law(ABC):
    """How one feature moves; immutable.

    A numeric feature is asked for `tails`, a categorical one for `arrivals`.
    """

    __slots__ = ()

    @abstractmethod
    def tails(self, x: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(x' < t) and P(x' >= t), both (n, k), for finite x (n,) and thresholds (k,).

        Each is computed in its own tail, never as 1 minus the other, so that both keep their relative
        accuracy however small they are.
        """

    def arrivals(self, levels: Categories) -> FloatArray:
        """P(x' = level), (m,), for each level of a categorical feature that x is not at; x keeps the rest.

        How likely a level is reached must not depend on where x is.
        """
        raise NoiseError(
            f"{self!r} moves numbers; give a categorical feature Discrete, Flip or Marginal noise"
        )

    def rounded(self, dtype: np.dtype[Any]) -> Law:
        """The law for a model that rounds its rows to `dtype`; only values that replace x are rounded."""
        return self

    def avoiding(self, missing: float) -> Law:
        """The law for a model to which this number means missing; NoiseError if x' may well be it."""
        return self


@dataclass(frozen=True, slots=True)
class StillLaw(Law):
    """The feature does not move."""

    def tails(self, x: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        below = x[:, None] < thresholds[None, :]
        return below.astype(np.float64), (~below).astype(np.float64)

    def arrivals(self, levels: Categories) -> FloatArray:
        return np.zeros(len(levels))


@dataclass(frozen=True, slots=True)
class NormalLaw(Law):
    """δ is normal with mean 0 and standard deviation `scale`."""

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive(self.scale, "scale"))

    def tails(self, x: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        z, z_error = _quotient(*_distance(x, thresholds, self.scale))
        return _normal_tail(-z, -z_error), _normal_tail(z, z_error)


@dataclass(frozen=True, slots=True)
class UniformLaw(Law):
    """δ is uniform on [-half_width, half_width]."""

    half_width: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "half_width", positive(self.half_width, "half_width"))

    def tails(self, x: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        delta, error, h = _distance(x, thresholds, self.half_width)
        # Near the edge delta + h cancels without rounding, so only the rounding of delta would be felt.
        below = ((delta + h) + error) / h * 0.5
        above = ((h - delta) - error) / h * 0.5
        return np.clip(below, 0.0, 1.0), np.clip(above, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class ScipyLaw(Law):
    """δ follows a frozen univariate SciPy distribution; tails are as accurate as its cdf and sf."""

    frozen: Any

    def __post_init__(self) -> None:
        _check_frozen(self.frozen)
        self.tails(np.zeros(1), np.array([-1.0, 0.0, 1.0]))  # NaN is better found now than later

    def tails(self, x: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        if not hasattr(self.frozen, "pmf"):
            delta = thresholds[None, :] - x[:, None]
            below, above = self.frozen.cdf(delta), self.frozen.sf(delta)
        elif hasattr(self.frozen.dist, "xk"):
            below, above = _listed_tails(self.frozen, x, thresholds)
        else:
            below, above = _lattice_tails(self.frozen, x[:, None], thresholds[None, :])
        if np.isnan(below).any() or np.isnan(above).any():
            raise NoiseError(
                f"{show_frozen(self.frozen)} has probabilities that are NaN: invalid parameters?"
            )
        return np.asarray(below, dtype=np.float64), np.asarray(above, dtype=np.float64)

    def avoiding(self, missing: float) -> Law:
        if hasattr(self.frozen, "pmf"):
            raise _may_be_missing(f"FromScipy({show_frozen(self.frozen)})", missing)
        return self


@dataclass(frozen=True, slots=True, eq=False)
class DiscreteLaw(Law):
    """x' is one of these values, whatever x is; of a categorical feature they are labels."""

    values: tuple[Any, ...]
    probabilities: FloatArray  # sum to 1

    def tails(self, x: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        below, above = _weighted_tails(self._numbers(), self.probabilities, thresholds)
        shape = (len(x), len(thresholds))
        return np.broadcast_to(below, shape), np.broadcast_to(above, shape)

    def arrivals(self, levels: Categories) -> FloatArray:
        return _arrivals(levels, levels.codes_of(self.values), self.probabilities, self.values)

    def rounded(self, dtype: np.dtype[Any]) -> Law:
        if not all(isinstance(value, numbers.Real) for value in self.values):
            return self
        with np.errstate(over="ignore"):
            return DiscreteLaw(tuple(self._numbers().astype(dtype).tolist()), self.probabilities)

    def avoiding(self, missing: float) -> Law:
        if missing in self._numbers():
            raise _may_be_missing("Discrete", missing)
        return self

    def _numbers(self) -> FloatArray:
        strange = [v for v in self.values if isinstance(v, bool) or not isinstance(v, numbers.Real)]
        if strange:
            raise NoiseError(f"Discrete has the value {strange[0]!r} for a numeric feature; expected numbers")
        return np.array(self.values, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class FlipLaw(Law):
    """With probability p, x' is another level than x, each as likely; a numeric feature is 0 or 1."""

    p: float

    def tails(self, x: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        strange = x[(x != 0) & (x != 1)]
        if len(strange):
            raise NoiseError(f"Flip moves a numeric feature between 0 and 1, but a row has {strange[0]:g}")
        here, there = x[:, None] < thresholds, (1 - x)[:, None] < thresholds
        return _flipped(here, there, self.p), _flipped(~here, ~there, self.p)

    def avoiding(self, missing: float) -> Law:
        if missing in (0.0, 1.0):
            raise _may_be_missing("Flip", missing)
        return self

    def arrivals(self, levels: Categories) -> FloatArray:
        if not levels.complete:
            raise NoiseError(
                "Flip moves between all categories, and the model stores only those that it splits on; use "
                "Discrete, or Marginal of the training table"
            )
        if len(levels) < 2:
            return np.zeros(len(levels))
        return np.full(len(levels), self.p / (len(levels) - 1))


@dataclass(frozen=True, slots=True, eq=False)
class MarginalLaw(Law):
    """x' is drawn from these values, whatever x is."""

    values: FloatArray  # ascending

    def tails(self, x: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
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
            raise NoiseError(f"no marginal of X: a column holds nothing but {missing:g}, which means missing")
        return MarginalLaw(present)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnLaw(Law):
    """x' is drawn from a column of a table, whatever x is; missing values are left out."""

    table: Columns
    j: int

    def tails(self, x: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._marginal().tails(x, thresholds)

    def rounded(self, dtype: np.dtype[Any]) -> Law:
        return self._marginal().rounded(dtype)

    def arrivals(self, levels: Categories) -> FloatArray:
        codes = self._present(lambda: self.table.codes(self.j, levels))
        shares = np.full(len(codes), 1.0 / len(codes))
        unknown = int((levels.levels_of(codes) < 0).sum())
        return _arrivals(levels, codes, shares, f"{unknown} of {len(codes)} values of column {self._label()}")

    def _marginal(self) -> MarginalLaw:
        return MarginalLaw(np.sort(self._present(lambda: self.table.column(self.j))))

    def _present(self, read: Callable[[], FloatArray]) -> FloatArray:
        try:
            values = read()
        except TableError as error:
            raise NoiseError(f"no marginal of X: {error}") from None
        values = values[~np.isnan(values)]
        if len(values) == 0:
            raise NoiseError(f"no marginal of X: column {self._label()} has no values")
        return values

    def _label(self) -> str:
        return repr(self.table.names[self.j]) if self.table.names else str(self.j)


def _may_be_missing(law: str, missing: float) -> NoiseError:
    return NoiseError(
        f"{law} may give a feature the value {missing:g}, which means missing to the model; a value does not "
        "become missing: leave it out, or give the feature other noise"
    )


def _arrivals(levels: Categories, codes: FloatArray, shares: FloatArray, what: Any) -> FloatArray:
    """The share of each level, (m,); refuses codes that are no level."""
    at = levels.levels_of(codes)
    if (at < 0).any():
        first = int(np.flatnonzero(at < 0)[0])
        named = f"{what[first]!r} is" if isinstance(what, tuple) else f"{what} are"
        raise NoiseError(
            f"{named} not among the {len(levels)} categories that the model knows: "
            f"{listing(levels.labels or ())}"
        )
    return np.bincount(at, weights=shares, minlength=len(levels)).astype(np.float64)


def _weighted_tails(
    values: FloatArray, probabilities: FloatArray, thresholds: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """P(value < t) and P(value >= t), each summed on its own side, (k,)."""
    order = np.argsort(values, kind="stable")
    p = probabilities[order]
    to_the_left = np.concatenate([[0.0], np.cumsum(p)])
    to_the_right = np.concatenate([np.cumsum(p[::-1])[::-1], [0.0]])
    first = np.searchsorted(values[order], thresholds, side="left")
    return np.minimum(to_the_left[first], 1.0), np.minimum(to_the_right[first], 1.0)


def _flipped(here: NDArray[np.bool_], there: NDArray[np.bool_], p: float) -> FloatArray:
    """The probability of an event that holds or not at x, and at the other value."""
    return np.where(here, np.where(there, 1.0, 1.0 - p), np.where(there, p, 0.0))


def positive(value: Any, what: str) -> float:
    """A positive finite number, or NoiseError that says what was found."""
    given = value.item() if isinstance(value, np.ndarray | np.generic) and np.ndim(value) == 0 else value
    if isinstance(given, bool) or not isinstance(given, numbers.Real):
        raise NoiseError(f"{what} is {value!r} ({type(value).__name__}), expected a positive number")
    try:
        number = float(given)
    except OverflowError:
        number = float("inf")
    if not 0 < number < float("inf"):
        raise NoiseError(f"{what} is {given!r}, expected a positive finite number")
    return number


# ---- tails to the last digits --------------------------------------------------------------------

# A normal P(δ >= z) falls so steeply that an error of one ulp in z or in z² costs about z² ulps of the
# probability, 500 ulps at 1e-100. So z and z² are carried as sums of two floats (value, error).

_FAR: Final = 40.0  # beyond it a normal tail is 0 in float64


def _difference(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """a - b, rounded, and what rounding lost (Knuth's two-sum)."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = a - b
        back = value - a
        error = (a - (value - back)) - (b + back)
    return value, np.where(np.isfinite(error), error, 0.0)


def _distance(x: FloatArray, thresholds: FloatArray, scale: float) -> tuple[FloatArray, FloatArray, float]:
    """thresholds - x, what rounding lost, and scale, all divided by the power of 2 just above scale.

    That division is exact, or else what it loses is nothing beside scale, and it prevents overflow.
    """
    mantissa, exponent = np.frexp(scale)
    first = max(int(exponent), 0)  # a large scale divides before the difference, which might overflow
    a, b = np.ldexp(thresholds, -first)[None, :], np.ldexp(x, -first)[:, None]
    value, error = _difference(a, b)
    with np.errstate(over="ignore"):  # far beyond the reach of a small scale
        rest = first - int(exponent)
        return np.ldexp(value, rest), np.ldexp(error, rest), float(mantissa)


def _product(a: FloatArray, b: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    """a · b, rounded, and what rounding lost (Dekker's product)."""
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(np.asarray(b))
    value = a * b
    return value, ((a_high * b_high - value) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """a as a sum of two floats of 26 bits, whose products are exact."""
    wide = 134217729.0 * a  # 2**27 + 1
    high = wide - (wide - a)
    return high, a - high


def _quotient(value: FloatArray, error: FloatArray, by: float) -> tuple[FloatArray, FloatArray]:
    """(value + error) / by, and what rounding lost; a value beyond ±_FAR is as good as ±_FAR."""
    error = np.where(np.abs(value) > _FAR, 0.0, error)
    value = np.clip(value, -_FAR, _FAR)
    q = value / by
    product, product_error = _product(q, by)
    return q, (((value - product) - product_error) + error) / by


def _normal_tail(z: FloatArray, z_error: FloatArray) -> FloatArray:
    """P(Z >= z + z_error) for a standard normal Z, to a few ulps."""
    from scipy.special import erfcx, ndtr  # slow to import

    square, square_error = _product(z, z)
    correction = np.exp(-(0.5 * square_error + z * z_error))
    right = 0.5 * erfcx(np.maximum(z, 0.0) * np.sqrt(0.5)) * np.exp(-0.5 * square) * correction
    tail: FloatArray = np.where(z > 0, right, ndtr(-z))
    return tail


# ---- SciPy's distributions, recognised by their attributes: importing scipy.stats takes long -------

_FREEZE: Final = "expected a frozen univariate SciPy distribution such as scipy.stats.norm(scale=0.3)"


def _check_frozen(frozen: Any) -> None:
    if hasattr(frozen, "freeze") and not hasattr(frozen, "dist"):
        name = getattr(frozen, "name", None) or type(frozen).__name__
        raise NoiseError(f"the distribution {name} is not frozen; call it first, as in {name}(...)")
    if not all(hasattr(frozen, part) for part in ("cdf", "sf", "dist", "args", "kwds")):
        raise NoiseError(f"FromScipy got {frozen!r} ({type(frozen).__name__}), {_FREEZE}")
    shape = np.shape(frozen.cdf(0.0))
    if shape:
        raise NoiseError(
            f"{show_frozen(frozen)} has parameters of shape {shape}; give each feature a distribution "
            "of its own with PerFeature"
        )
    with np.errstate(invalid="ignore"):  # loc=inf
        support = frozen.support()
    if np.isnan(support).any():
        raise NoiseError(f"the support of {show_frozen(frozen)} is NaN: invalid parameters?")


def show_frozen(frozen: Any) -> str:
    name = getattr(frozen.dist, "name", None) or type(frozen.dist).__name__
    parts = [repr(value) for value in frozen.args] + [
        f"{key}={value!r}" for key, value in frozen.kwds.items()
    ]
    return f"{name}({', '.join(parts)})"


def _location(frozen: Any) -> tuple[tuple[Any, ...], dict[str, Any], float]:
    """Shape parameters and loc of a frozen discrete distribution."""
    n_shapes = frozen.dist.numargs
    shapes, rest = frozen.args[:n_shapes], frozen.args[n_shapes:]
    named = {key: value for key, value in frozen.kwds.items() if key != "loc"}
    return shapes, named, float(rest[0] if rest else frozen.kwds.get("loc", 0.0))


def _lattice_tails(frozen: Any, x: FloatArray, thresholds: FloatArray) -> tuple[Any, Any]:
    """δ = loc + k for integers k: find the first k that takes x to the threshold, then ask SciPy."""
    shapes, named, loc = _location(frozen)
    first = np.ceil(thresholds - x - loc)
    # t - x - loc may round across an integer; the definition is the sum itself.
    first = np.where(x + (first - 1 + loc) >= thresholds, first - 1, first)
    first = np.where(x + (first + loc) < thresholds, first + 1, first)
    # Without loc: SciPy's floor(k + loc - loc) may fall short of k.
    return frozen.dist.cdf(first - 1, *shapes, **named), frozen.dist.sf(first - 1, *shapes, **named)


def _listed_tails(frozen: Any, x: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A distribution given by its values and probabilities (rv_discrete(values=...))."""
    *_, loc = _location(frozen)
    delta, p = np.asarray(frozen.dist.xk) + loc, np.asarray(frozen.dist.pk, dtype=np.float64)
    to_the_left = np.concatenate([[0.0], np.cumsum(p)])
    to_the_right = np.concatenate([np.cumsum(p[::-1])[::-1], [0.0]])
    first = np.array([np.searchsorted(row + delta, thresholds) for row in x], dtype=np.intp)
    first = first.reshape(len(x), len(thresholds))
    return np.minimum(to_the_left[first], 1.0), np.minimum(to_the_right[first], 1.0)
