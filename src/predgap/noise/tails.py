"""Computes tail probabilities of a few distributions, accurate to a few units in the last place.

P(x' < t) and P(x' >= t) are both computed directly, never as 1 minus the other, so that small ones keep their
relative accuracy.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from predgap._typing import FloatArray

Tails = tuple[FloatArray, FloatArray]
"""P(x' < t) and P(x' >= t)."""

# P(δ >= z) of a normal δ falls steeply: an error of one ulp (unit in the last place) in z or z² makes an
# error of about z² ulps in the probability, 500 ulps at 1e-100. So z and z² are sums of two floats (value,
# error).

_FAR: Final = 40.0  # beyond it a normal tail is 0 in float64
_FAR_LAPLACE: Final = 800.0  # the same for a Laplace tail


def normal_tails(x: FloatArray, thresholds: FloatArray, scale: float) -> Tails:
    """Tails (n, k) of x + δ for rows x (n,) and thresholds (k,); δ is normal with standard deviation `scale`.

    Examples
    --------
    >>> below, above = normal_tails(np.zeros(1), np.array([0.0]), 1.0)
    >>> float(below[0, 0]), float(above[0, 0])
    (0.5, 0.5)
    """
    z, z_error = _quotient(*_distance(x, thresholds, scale))
    return _normal_tail(-z, -z_error), _normal_tail(z, z_error)


def normal_density(x: FloatArray, thresholds: FloatArray, scale: float) -> FloatArray:
    """The standard normal density (n, k) at (t - x) / scale.

    Examples
    --------
    >>> normal_density(np.zeros(1), np.array([0.0]), 1.0).round(6)
    array([[0.398942]])
    """
    z, z_error = _quotient(*_distance(x, thresholds, scale))
    density: FloatArray = _normal_power(z, z_error) / np.sqrt(2.0 * np.pi)
    return density


def uniform_tails(x: FloatArray, thresholds: FloatArray, half_width: float) -> Tails:
    """Tails (n, k) of x + δ; δ is uniform on [-half_width, half_width].

    Examples
    --------
    >>> uniform_tails(np.zeros(1), np.array([0.5]), 1.0)
    (array([[0.75]]), array([[0.25]]))
    """
    delta, error, h = _distance(x, thresholds, half_width)
    # Near the edge delta + h is exact, so its error is the rounding error of delta: add that.
    below = ((delta + h) + error) / h * 0.5
    above = ((h - delta) - error) / h * 0.5
    return np.clip(below, 0.0, 1.0), np.clip(above, 0.0, 1.0)


def laplace_tails(x: FloatArray, thresholds: FloatArray, scale: float) -> Tails:
    """Tails (n, k) of x + δ; δ has the density exp(-|δ| / scale) / (2 scale).

    Examples
    --------
    >>> below, above = laplace_tails(np.zeros(1), np.array([0.0]), 1.0)
    >>> float(below[0, 0]), float(above[0, 0])
    (0.5, 0.5)
    """
    z, z_error = _quotient(*_distance(x, thresholds, scale), far=_FAR_LAPLACE)
    outer = 0.5 * np.exp(-np.abs(z)) * np.exp(-np.copysign(1.0, z) * z_error)  # of the tail beyond z
    inner = 1.0 - outer
    return np.where(z > 0, inner, outer), np.where(z > 0, outer, inner)


def student_tails(x: FloatArray, thresholds: FloatArray, df: float, scale: float) -> Tails:
    """Tails (n, k) of x + δ; δ / scale has Student's t distribution with `df` degrees of freedom.

    Examples
    --------
    >>> below, above = student_tails(np.zeros(1), np.array([1.0]), 1.0, 1.0)
    >>> below.round(12), above.round(12)
    (array([[0.75]]), array([[0.25]]))
    """
    from scipy.special import betainc, betaincc  # slow to import

    delta, _, unit = _distance(x, thresholds, scale)
    square = np.clip(delta / unit, -1e150, 1e150) ** 2
    # The tail by the side on which it loses no digits: near 0, for many degrees of freedom, far out.
    inner_half = 0.5 * betainc(0.5, 0.5 * df, square / (df + square))
    near = 0.5 * betaincc(0.5, 0.5 * df, square / (df + square))
    far = 0.5 * betainc(0.5 * df, 0.5, df / (df + square))
    outer = np.where(inner_half < 0.25, 0.5 - inner_half, np.where(square < df, near, far))
    inner = 1.0 - outer
    return np.where(delta > 0, inner, outer), np.where(delta > 0, outer, inner)


def listed_tails(values: FloatArray, probabilities: FloatArray, thresholds: FloatArray) -> Tails:
    """Tails (k,) of a value that is one of `values` (m,), with these probabilities (m,).

    Examples
    --------
    >>> listed_tails(np.array([2.0, 1.0]), np.array([0.75, 0.25]), np.array([1.0, 1.5]))
    (array([0.  , 0.25]), array([1.  , 0.75]))
    """
    order = np.argsort(values, kind="stable")
    first = np.searchsorted(values[order], thresholds, side="left")
    return tails_from(probabilities[order], first)


def tails_from(probabilities: FloatArray, first: NDArray[np.intp]) -> Tails:
    """Sums of the probabilities before each index `first`, and of those from it on; each summed directly."""
    to_the_left = np.concatenate([[0.0], np.cumsum(probabilities)])
    to_the_right = np.concatenate([np.cumsum(probabilities[::-1])[::-1], [0.0]])
    return np.minimum(to_the_left[first], 1.0), np.minimum(to_the_right[first], 1.0)


def _difference(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """a - b, rounded, and the rounding error (Knuth's two-sum)."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = a - b
        back = value - a
        error = (a - (value - back)) - (b + back)
    return value, np.where(np.isfinite(error), error, 0.0)


def _distance(x: FloatArray, thresholds: FloatArray, scale: float) -> tuple[FloatArray, FloatArray, float]:
    """thresholds - x, its rounding error, and scale, all divided by the power of 2 just above scale.

    The division prevents overflow. It is exact, or its error is negligible relative to scale.
    """
    mantissa, exponent = np.frexp(scale)
    first = max(int(exponent), 0)  # divide by a large scale first: the difference might overflow
    a, b = np.ldexp(thresholds, -first)[None, :], np.ldexp(x, -first)[:, None]
    value, error = _difference(a, b)
    with np.errstate(over="ignore"):  # the distance is many scales, and the tail 0
        rest = first - int(exponent)
        return np.ldexp(value, rest), np.ldexp(error, rest), float(mantissa)


def _product(a: FloatArray, b: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    """a · b, rounded, and the rounding error (Dekker's product)."""
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(np.asarray(b))
    value = a * b
    return value, ((a_high * b_high - value) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """a as a sum of two floats of 26 bits, whose products are exact."""
    wide = 134217729.0 * a  # 2**27 + 1
    high = wide - (wide - a)
    return high, a - high


def _quotient(
    value: FloatArray, error: FloatArray, by: float, far: float = _FAR
) -> tuple[FloatArray, FloatArray]:
    """(value + error) / by, and the rounding error. Values beyond ±far become ±far: the tail is 0 there."""
    error = np.where(np.abs(value) > far, 0.0, error)
    value = np.clip(value, -far, far)
    q = value / by
    product, product_error = _product(q, by)
    return q, (((value - product) - product_error) + error) / by


def _normal_tail(z: FloatArray, z_error: FloatArray) -> FloatArray:
    """P(Z >= z + z_error) for a standard normal Z, to a few ulps."""
    from scipy.special import erfcx, ndtr  # slow to import

    right = 0.5 * erfcx(np.maximum(z, 0.0) * np.sqrt(0.5)) * _normal_power(z, z_error)
    tail: FloatArray = np.where(z > 0, right, ndtr(-z))
    return tail


def _normal_power(z: FloatArray, z_error: FloatArray) -> FloatArray:
    """exp(-(z + z_error)² / 2), to a few ulps."""
    square, square_error = _product(z, z)
    power: FloatArray = np.exp(-0.5 * square) * np.exp(-(0.5 * square_error + z * z_error))
    return power
