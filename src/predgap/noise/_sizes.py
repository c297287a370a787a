"""The size of a move: the mean of (x' - x)² over a column, and the scale that gives a wanted size.

A normal number is added, then perhaps rounded to a lattice, then clipped to the range of the column. With a
the distance from x to the upper end, Q the upper tail of the normal law and σ its scale, the upper half of
the mean squared move is, for a continuous column and for a lattice of step s,

    a² Q(a/σ) + σ² (1/2 - Q(a/σ) - (a/σ) φ(a/σ))          s² Σ_{j = 1 ... a/s} (2j - 1) Q((j - 1/2) s/σ)
"""

from __future__ import annotations

from typing import Final

import numpy as np

from predgap._typing import FloatArray
from predgap.noise._kinds import Column

_FAR: Final = 39.0  # beyond so many scales a normal tail is 0
_MOST_STEPS: Final = 1 << 20  # of finer lattices the sum is the integral, to 1e-8


def mean_squared_move(column: Column, scale: float) -> float:
    """The mean of (x' - x)² over the column, for normal noise that is rounded to its lattice, if it has one,
    and clipped to its range."""
    low, high = column.values[0], column.values[-1]
    ends = np.concatenate([high - column.values, column.values - low])
    halves = _upper_half(ends, scale, None if column.lattice is None else column.lattice.step)
    weights = np.tile(column.counts / column.counts.sum(), 2)
    return float(weights @ halves)


def solved_scale(column: Column, wanted: float) -> float | None:
    """The scale for which `mean_squared_move` is `wanted`; None if none is so large."""
    from scipy.optimize import brentq  # slow to import

    span = float(column.values[-1] - column.values[0])
    largest = 1e6 * span

    def excess(logarithm: float) -> float:
        return mean_squared_move(column, float(np.exp(logarithm))) / wanted - 1.0

    ends = np.log(1e-3 * min(np.sqrt(wanted), _step(column))), np.log(largest)
    if excess(ends[1]) <= 0:
        return None
    return float(np.exp(brentq(excess, *ends, xtol=1e-15, rtol=8.9e-16)))


def mass_outside(column: Column, scale: float) -> float:
    """The mean over the column of P(x + δ is outside its range), for normal δ."""
    from scipy.special import ndtr  # slow to import

    low, high = column.values[0], column.values[-1]
    outside = ndtr((low - column.values) / scale) + ndtr((column.values - high) / scale)
    return float(column.counts @ outside / column.counts.sum())


def _step(column: Column) -> float:
    return np.inf if column.lattice is None else column.lattice.step


def _upper_half(distance: FloatArray, scale: float, step: float | None) -> FloatArray:
    """E[(x' - x)²; x' > x] for values at these distances from the upper end of the range."""
    from scipy.special import ndtr  # slow to import

    if step is not None:
        index = np.round(distance / step)
        n = int(min(index.max(), np.ceil(_FAR * scale / step) + 1))
        if n <= _MOST_STEPS:
            j = np.arange(1, n + 1)
            sums = np.concatenate([[0.0], np.cumsum((2 * j - 1) * ndtr((0.5 - j) * (step / scale)))])
            half: FloatArray = step**2 * sums[np.minimum(index, n).astype(np.intp)]
            return half
    z = distance / scale
    tail, density = ndtr(-z), np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    inside = np.where(z < 1e-3, z**3 * np.sqrt(2 / np.pi) / 6, 0.5 - tail - z * density)  # else it cancels
    whole: FloatArray = distance**2 * tail + scale**2 * inside
    return whole
