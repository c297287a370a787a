"""Moments of the shift δ = x' - x of a few distributions, and what it has in common with their tails.

Covariances of δ and 1[x' < t] are small far from x, where a tail is; they keep their relative accuracy there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from predgap._typing import BoolArray, FloatArray
from predgap.noise._tails import laplace_tails, normal_density, uniform_tails


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
    from scipy.special import poch  # slow to import

    with np.errstate(over="ignore"):
        z = np.clip((thresholds - x) / scale, -1e150, 1e150)
    power = np.exp(-0.5 * (df - 1.0) * np.log1p(z**2 / df))
    at_x = 0.5 * np.sqrt(df / np.pi) / poch(0.5 * (df - 1.0), 0.5)  # E[δ; δ > 0] / scale
    return Shift(0.0, scale * scale * df / (df - 2.0), -scale * at_x * power)


def listed_shift(x: float, thresholds: FloatArray, values: FloatArray, probabilities: FloatArray) -> Shift:
    """Of an x' that is one of `values` (m,), with these probabilities (m,).

    Examples
    --------
    >>> listed_shift(0.0, np.array([0.5]), np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    Shift(mean=0.5, variance=0.25, covariance=array([-0.25]))
    """
    with np.errstate(over="ignore", invalid="ignore"):  # values may be infinite
        mean = float((probabilities * (values - x)).sum())
        centred = values - x - mean
        variance = float((probabilities * centred**2).sum())
        below, parts = values[None, :] < thresholds[:, None], probabilities * centred
        # E[δ; x' < t] P(x' >= t) - E[δ; x' >= t] P(x' < t): small where either probability is.
        covariance = _sums(below, parts) * _sums(~below, probabilities)
        covariance -= _sums(~below, parts) * _sums(below, probabilities)
    return Shift(mean, variance, covariance)


def _sums(chosen: BoolArray, numbers: FloatArray) -> FloatArray:
    """The sum of the numbers (m,) that each row of `chosen` (k, m) chooses."""
    sums: FloatArray = np.where(chosen, numbers, 0.0).sum(axis=1)
    return sums
