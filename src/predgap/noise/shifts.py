"""Computes moments of the shift δ = x' - x of a few distributions, and areas under tails, for infidelity.

Covariances of δ and 1[x' < t] are small far from x, where a tail is; they keep their relative accuracy there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from predgap._typing import FloatArray
from predgap.noise.tails import Tails, laplace_tails, normal_density, student_tails, uniform_tails


class Shift(NamedTuple):
    """The mean and variance of δ = x' - x, and its covariance with 1[x' < t] for each threshold t.

    The variance is not finite where δ may be infinite, or its square too large for a float.
    """

    mean: float
    variance: float
    covariance: FloatArray  # (k,)


def normal_shift(x: float, thresholds: FloatArray, scale: float) -> Shift:
    """The shift of a normal δ with standard deviation `scale`.

    Examples
    --------
    >>> normal_shift(0.0, np.array([0.0]), 1.0).covariance.round(6)
    array([-0.398942])
    """
    return Shift(0.0, scale * scale, -scale * normal_density(np.array([x]), thresholds, scale)[0])


def uniform_shift(x: float, thresholds: FloatArray, half_width: float) -> Shift:
    """The shift of a δ that is uniform on [-half_width, half_width].

    Examples
    --------
    >>> uniform_shift(0.0, np.array([0.0]), 1.0).covariance
    array([-0.25])
    """
    below, above = uniform_tails(np.array([x]), thresholds, half_width)
    return Shift(0.0, half_width * (half_width / 3.0), -half_width * below[0] * above[0])


def laplace_shift(x: float, thresholds: FloatArray, scale: float) -> Shift:
    """The shift of a δ with the density exp(-|δ| / scale) / (2 scale).

    Examples
    --------
    >>> laplace_shift(0.0, np.array([0.0]), 1.0).covariance
    array([-0.5])
    """
    outer = np.minimum(*laplace_tails(np.array([x]), thresholds, scale))[0]
    # Half of each summand: the distance may overflow.
    covariance = -2.0 * outer * (np.abs(0.5 * thresholds - 0.5 * x) + 0.5 * scale)
    return Shift(0.0, 2.0 * scale * scale, covariance)


def student_shift(x: float, thresholds: FloatArray, df: float, scale: float) -> Shift:
    """The shift of `scale` times a number from Student's t distribution with `df` > 2 degrees of freedom.

    Examples
    --------
    >>> student_shift(0.0, np.array([0.0]), 3.0, 1.0).covariance.round(6)
    array([-0.551329])
    """
    with np.errstate(over="ignore"):
        z = np.clip((thresholds - x) / scale, -1e150, 1e150)
    return Shift(0.0, scale * scale * df / (df - 2.0), -scale * student_mean_beyond(z, df))


def student_mean_beyond(z: FloatArray, df: float) -> FloatArray:
    """E[T; T >= z] of a number T from Student's t distribution with `df` > 1 degrees of freedom."""
    from scipy.special import poch  # slow to import

    beyond_0 = 0.5 * np.sqrt(df / np.pi) / poch(0.5 * (df - 1.0), 0.5)
    found: FloatArray = beyond_0 * np.exp(-0.5 * (df - 1.0) * np.log1p(z**2 / df))
    return found


def stepped_shift(x: float, thresholds: FloatArray, points: FloatArray, tails: Tails) -> Shift:
    """The shift of an x' that is one of the ascending `points` (m,), as x is; with the tails (m,) at them.

    It is summed from tails rather than from probabilities, so that covariances keep their digits
    (see `Areas`).

    Examples
    --------
    >>> tails = np.array([0.0, 0.5]), np.array([1.0, 0.5])  # of 0 and 1, equally likely
    >>> stepped_shift(0.0, np.array([0.5]), np.array([0.0, 1.0]), tails)
    Shift(mean=0.5, variance=0.25, covariance=array([-0.25]))
    """
    below, above = tails
    here = int(np.searchsorted(points, x))
    with np.errstate(over="ignore", invalid="ignore"):  # points may be infinite
        steps = np.diff(points)
        # Between two points the tails are what they are at the second one.
        left = np.concatenate([[0.0], np.cumsum(steps * below[1:])])
        right = np.concatenate([np.cumsum((steps * above[1:])[::-1])[::-1], [0.0]])
        mean = float(right[here] - left[here])
        # Around the point next to the mean, which may be far from x.
        middle = int(np.argmin(np.abs(points - (x + mean)))) if np.isfinite(mean) else here
        reach, off = points - points[middle], float(right[middle] - left[middle])
        outer = np.where(reach > 0, above, below)[1:]
        square = float((steps * np.abs(reach[1:] + reach[:-1]) * outer).sum())
        at_points = np.append(-(above * left + below * right), 0.0)
    covariance: FloatArray = at_points[np.searchsorted(points, thresholds)]
    return Shift(mean, float(np.maximum(square - off * off, 0.0)), covariance)


# ------------------------------------------------------------------------------------------------------------
# Areas under the tails of a law, ∫ P(x' < s) ds and ∫ P(x' >= s) ds, and the shift δ = x' - x from them.
#
# Over [x, ∞) the upper tail has the area E[max(δ, 0)]; and the covariance of δ and 1[x' < t] is
# -(P(x' >= t) ∫_{s < t} P(x' < s) ds + P(x' < t) ∫_{s > t} P(x' >= s) ds). Nothing cancels in this sum, so it
# is as accurate as tails and areas, however small they are. Areas of tails that are mixed or cut off add up.

Beyond = tuple[FloatArray, FloatArray]
"""E[max(δ - u, 0)], and E[max(δ² - u², 0); δ > 0], for numbers u >= 0."""

_NODES, _WEIGHTS = ((a + b) / 2 for a, b in zip(np.polynomial.legendre.leggauss(12), (1.0, 0.0), strict=True))
_N_RATIOS: Final = 30  # of a continued fraction; enough from z = 3 on


class Areas(NamedTuple):
    """The areas under the tails over intervals (k,)."""

    below: FloatArray  # ∫ P(x' < s) ds
    above: FloatArray  # ∫ P(x' >= s) ds
    square: FloatArray  # the part of E[δ²]: ∫ 2 |s - x| P(s is between x and x') ds


def shift_from_areas(
    areas: Callable[[FloatArray, FloatArray], Areas], tails: Tails, x: float, thresholds: FloatArray
) -> Shift:
    """The shift of a law with these areas (by the ends of intervals), and tails (k,) at the thresholds."""
    below, above = tails
    endless = np.full(len(thresholds), np.inf)
    with np.errstate(over="ignore", invalid="ignore"):  # areas may be infinite
        sides = areas(np.array([-np.inf, x]), np.array([x, np.inf]))
        mean = float(sides.above[1] - sides.below[0])
        left, right = areas(-endless, thresholds).below, areas(thresholds, endless).above
        covariance = -(_products(above, left) + _products(below, right))
        return Shift(mean, float(np.maximum(sides.square.sum() - mean * mean, 0.0)), covariance)


def unmoved_areas(x: float, low: FloatArray, high: FloatArray) -> Areas:
    """The areas of an x' that is x.

    Examples
    --------
    >>> unmoved_areas(0.5, np.array([0.0]), np.array([2.0]))
    Areas(below=array([1.5]), above=array([0.5]), square=array([0.]))
    """
    left, right = _parts(x, low, high)
    return Areas(_lengths(*right), _lengths(*left), np.zeros(len(low)))


def mixed_areas(p: float, first: Areas, q: float, second: Areas) -> Areas:
    """The areas of an x' that follows one law with probability p, and another one with probability q."""
    with np.errstate(invalid="ignore"):  # 0 times an infinite area that is not asked for
        return Areas(*(p * a + q * b for a, b in zip(first, second, strict=True)))


def clipped_areas(
    areas: Callable[[FloatArray, FloatArray], Areas],
    x: float,
    ends: tuple[float, float],
    low: FloatArray,
    high: FloatArray,
) -> Areas:
    """The areas of a law with these `areas` after it is clipped to [first, last] = `ends`."""
    first, last = ends
    inside = areas(np.clip(low, first, last), np.clip(high, first, last))
    before, after = _parts(first, low, high)[0], _parts(last, low, high)[1]
    with np.errstate(over="ignore", invalid="ignore"):
        # x' is never before the first end, nor after the last; x may be.
        passed = _outer_square(x, *_parts(x, *before)[1]) + _outer_square(x, *_parts(x, *after)[0])
        return Areas(
            inside.below + _lengths(*after), inside.above + _lengths(*before), inside.square + passed
        )


def symmetric_areas(
    tail: Callable[[FloatArray], FloatArray],
    beyond: Callable[[FloatArray], Beyond],
    x: float,
    low: FloatArray,
    high: FloatArray,
) -> Areas:
    """The areas of x' = x + δ, where δ has a symmetric density: `tail` gives P(δ >= u) for u >= 0."""
    left, right = _parts(x, low, high)
    with np.errstate(over="ignore", invalid="ignore"):
        widths = _lengths(*left), _lengths(*right)
        below, square_below = _outer_areas(tail, beyond, x - left[1], widths[0])
        above, square_above = _outer_areas(tail, beyond, right[0] - x, widths[1])
        # Inner tails are 1 minus the outer ones, which are at most 1/2.
        return Areas(below + (widths[1] - above), above + (widths[0] - below), square_below + square_above)


def normal_beyond(u: FloatArray, scale: float) -> Beyond:
    """The expectations beyond u (see `Beyond`) of a normal δ with standard deviation `scale`.

    Examples
    --------
    >>> normal_beyond(np.array([0.0, 10.0]), 1.0)[0]
    array([3.98942280e-01, 7.47456025e-25])
    """
    from scipy.special import ndtr  # slow to import

    z = np.minimum(u / scale, 40.0)
    tail = ndtr(-z)
    # Q, the area under Q, the area under that one, ...: their ratios are a continued fraction.
    ratio = 1.0 / (0.5 * z + np.sqrt(0.25 * z * z + _N_RATIOS))
    for n in range(_N_RATIOS, 1, -1):
        ratio = 1.0 / (z + n * ratio)
    direct = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) - z * tail
    area = np.where(z < 3.0, direct, tail * ratio)
    return scale * area, scale * scale * (tail + z * area)


def uniform_beyond(u: FloatArray, half_width: float) -> Beyond:
    """The expectations beyond u (see `Beyond`) of a δ that is uniform on [-half_width, half_width].

    Examples
    --------
    >>> uniform_beyond(np.array([0.0]), 1.0)
    (array([0.25]), array([0.16666667]))
    """
    rest = np.maximum(1.0 - u / half_width, 0.0)
    return 0.25 * half_width * rest**2, half_width * half_width * rest**2 * (0.5 - rest / 3.0)


def laplace_beyond(u: FloatArray, scale: float) -> Beyond:
    """The expectations beyond u (see `Beyond`) of a δ with the density exp(-|δ| / scale) / (2 scale).

    Examples
    --------
    >>> laplace_beyond(np.array([0.0]), 1.0)
    (array([0.5]), array([1.]))
    """
    z = np.minimum(u / scale, 800.0)
    tail = 0.5 * np.exp(-z)
    return scale * tail, 2.0 * scale * scale * tail * (z + 1.0)


def student_beyond(u: FloatArray, df: float, scale: float) -> Beyond:
    """The expectations beyond u (see `Beyond`) of `scale` times a number from Student's t with `df` > 2.

    Examples
    --------
    >>> [each.round(6) for each in student_beyond(np.array([0.0]), 3.0, 1.0)]
    [array([0.551329]), array([1.5])]
    """
    from scipy.special import betainc

    z = np.minimum(u / scale, 1e150)
    tail = student_tails(np.zeros(1), z, df, 1.0)[1][0]
    second = 0.5 * df / (df - 2.0) * betainc(0.5 * df - 1.0, 1.5, df / (df + z * z))
    return (
        scale * np.maximum(student_mean_beyond(z, df) - z * tail, 0.0),
        scale * scale * np.maximum(second - z * z * tail, 0.0),
    )


def _outer_areas(
    tail: Callable[[FloatArray], FloatArray],
    beyond: Callable[[FloatArray], Beyond],
    first: FloatArray,
    width: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """∫ P(δ >= u) du and ∫ 2u P(δ >= u) du over intervals from first >= 0 on.

    If the tail falls to less than half of what it is, they are the differences of what is beyond; if not, the
    tail is so smooth there that a Gauss rule has no error but rounding.
    """
    last = first + width
    area, square = (begin - end for begin, end in zip(beyond(first), beyond(last), strict=True))
    near = np.flatnonzero(tail(last) > 0.5 * tail(first))
    u = first[near, None] + width[near, None] * _NODES
    parts = width[near, None] * _WEIGHTS * tail(u.reshape(-1)).reshape(u.shape)
    area[near], square[near] = parts.sum(axis=1), (2.0 * u * parts).sum(axis=1)
    return area, square


def _outer_square(x: float, low: FloatArray, high: FloatArray) -> FloatArray:
    """∫ 2 |s - x| ds over intervals on one side of x; 0 of those without length."""
    return _products(_lengths(low, high), np.abs((low - x) + (high - x)))


def _parts(
    at: float, low: FloatArray, high: FloatArray
) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    """The parts of intervals to the left and to the right of a number; of length 0 if there are none."""
    return (np.minimum(low, at), np.minimum(high, at)), (np.maximum(low, at), np.maximum(high, at))


def _lengths(low: FloatArray, high: FloatArray) -> FloatArray:
    """The lengths of intervals; 0 for those that begin and end at the same number, or at infinity."""
    return np.where(low < high, high - low, 0.0)


def _products(a: FloatArray, b: FloatArray) -> FloatArray:
    """a · b; 0 where either is, even if the other one is infinite."""
    return np.where((a == 0) | (b == 0), 0.0, a * b)
