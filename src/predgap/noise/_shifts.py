"""Moments of the shift δ = x' - x of a few distributions, and what it has in common with their tails.

Covariances of δ and 1[x' < t] are small far from x, where a tail is; they keep their relative accuracy there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from predgap._typing import FloatArray
from predgap.noise._tails import Tails, laplace_tails, normal_density, uniform_tails


class Shift(NamedTuple):
    """The mean and variance of δ = x' - x, and its covariance with 1[x' < t] for each threshold t.

    The variance is not finite where δ may be infinite, or its square too large for a float.
    """

    mean: float
    variance: float
    covariance: FloatArray  # (k,)


def normal_shift(x: float, thresholds: FloatArray, scale: float) -> Shift:
    """Of a normal δ with standard deviation `scale`.

    Examples
    --------
    >>> normal_shift(0.0, np.array([0.0]), 1.0).covariance.round(6)
    array([-0.398942])
    """
    return Shift(0.0, scale * scale, -scale * normal_density(np.array([x]), thresholds, scale)[0])


def uniform_shift(x: float, thresholds: FloatArray, half_width: float) -> Shift:
    """Of a δ that is uniform on [-half_width, half_width].

    Examples
    --------
    >>> uniform_shift(0.0, np.array([0.0]), 1.0).covariance
    array([-0.25])
    """
    below, above = uniform_tails(np.array([x]), thresholds, half_width)
    return Shift(0.0, half_width * (half_width / 3.0), -half_width * below[0] * above[0])


def laplace_shift(x: float, thresholds: FloatArray, scale: float) -> Shift:
    """Of a δ with the density exp(-|δ| / scale) / (2 scale).

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
    """Of a δ that is `scale` times a number from Student's t distribution with `df` > 2 degrees of freedom.

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
    """Of an x' that is one of the ascending `points` (m,), of which x is one; with the tails (m,) at them.

    It is summed from tails rather than from probabilities, so that covariances keep their digits
    (see `_areas`).

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
        # What the tails are at a point they are from the point before it on.
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
