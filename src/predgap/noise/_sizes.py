"""The size of a move: the mean of (x' - x)² over a column, and the scale that gives a wanted size.

A normal number is added, then perhaps rounded to a lattice, then clipped to the range of the column. With a
the distance from x to the upper end, Q the upper tail of the normal law and σ its scale, the upper half of
the mean squared move is, for a continuous column and for a lattice of step s,

    a² Q(a/σ) + σ² (1/2 - Q(a/σ) - (a/σ) φ(a/σ))          s² Σ_{j = 1 ... a/s} (2j - 1) Q((j - 1/2) s/σ)

The sum is the midpoint rule for the integral on the left, in steps of s. If σ is many steps, it is not added
up, but taken to be the integral with the first two corrections of the Euler-Maclaurin formula, with v = a/σ:

    - s²/24 (2 Q(v) - 2 v φ(v) - 1) + 7/5760 s⁴/σ² φ(v) (8 v - 2 v³)
"""

from __future__ import annotations

from typing import Final

import numpy as np

from predgap._typing import FloatArray
from predgap.noise._kinds import Column

_FAR: Final = 39.0  # beyond so many scales a normal tail is 0
_MANY_STEPS: Final = 50  # scales of more steps: the next correction is below 1e-13 of the sum


def mean_squared_move(column: Column, scale: float) -> float:
    """The mean of (x' - x)² over the column, for normal noise that is rounded to its lattice, if it has one,
    and clipped to its range."""
    low, high = column.values[0], column.values[-1]
    ends = np.concatenate([high - column.values, column.values - low])
    halves = _upper_half(ends, scale, None if column.lattice is None else column.lattice.step)
    weights = np.tile(column.counts / column.counts.sum(), 2)
    return float((weights * halves).sum())  # BLAS would start threads


def solved_scale(column: Column, wanted: float) -> float | None:
    """The scale for which `mean_squared_move` is `wanted`; None if none is so large."""
    from scipy.optimize import brentq  # slow to import

    def excess(logarithm: float) -> float:
        return mean_squared_move(column, float(np.exp(logarithm))) / wanted - 1.0

    largest = float(np.log(1e6 * (column.values[-1] - column.values[0])))
    if excess(largest) <= 0:
        return None
    low = high = 0.5 * float(np.log(wanted))  # if nothing were rounded or clipped
    while excess(low) > 0:
        low, high = low - 0.5, low
    while excess(high) <= 0:
        low, high = high, min(high + 0.5, largest)
    return float(np.exp(brentq(excess, low, high, xtol=1e-15, rtol=8.9e-16)))


def mass_outside(column: Column, scale: float) -> float:
    """The mean over the column of P(x + δ is outside its range), for normal δ."""
    from scipy.special import ndtr  # slow to import

    low, high = column.values[0], column.values[-1]
    outside = ndtr((low - column.values) / scale) + ndtr((column.values - high) / scale)
    return float((column.counts * outside).sum() / column.counts.sum())


def _upper_half(distance: FloatArray, scale: float, step: float | None) -> FloatArray:
    """E[(x' - x)²; x' > x] for values at these distances from the upper end of the range."""
    if step is None:
        return _integral(distance, scale, 0.0)
    index = np.round(distance / step)
    if scale <= _MANY_STEPS * step or index.max() <= _MANY_STEPS:
        return _sum(index, scale, step)
    return _integral(index * step, scale, step)


def _sum(index: FloatArray, scale: float, step: float) -> FloatArray:
    """For values that are so many steps from the upper end."""
    from scipy.special import ndtr  # slow to import

    n = int(min(index.max(), np.ceil(_FAR * scale / step) + 1))
    j = np.arange(1, n + 1)
    sums = np.concatenate([[0.0], np.cumsum((2 * j - 1) * ndtr((0.5 - j) * (step / scale)))])
    half: FloatArray = step**2 * sums[np.minimum(index, n).astype(np.intp)]
    return half


def _integral(distance: FloatArray, scale: float, step: float) -> FloatArray:
    """The integral, with its corrections for steps that are small or 0."""
    from scipy.special import ndtr  # slow to import

    v = distance / scale
    tail, density = ndtr(-v), np.exp(-0.5 * v**2) / np.sqrt(2 * np.pi)
    # ∫ u² φ(u) du from 0 to v: the closed form loses digits where v is small
    inside = np.where(v < 0.2, _series(v), 0.5 - tail - v * density)
    first = (2.0 * tail - 2.0 * v * density - 1.0) / 24.0
    second = (step / scale) ** 2 * density * (8.0 * v - 2.0 * v**3) * (7.0 / 5760.0)
    half: FloatArray = distance**2 * tail + scale**2 * inside + step**2 * (second - first)
    return half


def _series(v: FloatArray) -> FloatArray:
    """∫ u² φ(u) du from 0 to v, to 1e-14 if v is below 0.2."""
    total, factor = np.zeros_like(v), v**3 / np.sqrt(2 * np.pi)
    for k in range(7):
        total += factor / (2 * k + 3)
        factor = factor * (-0.5 / (k + 1)) * v**2
    return total
