"""Gaps, curves and rankings with guaranteed bounds, where exact ones are too expensive."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from predgap.sampling import Engines

FloatArray = NDArray[np.float64]
Bounded = tuple[FloatArray, FloatArray]  # values, and how far they may be off

RTOL: Final = 1e-6  # of a gap, unless another is asked for
_ROUNDING: Final = 1e-12  # of a gap: bounds are those of what was left out, not of the arithmetic


def bounded_gap(engines: Engines, rows: FloatArray, mask: NDArray[np.bool_], rtol: float) -> Bounded:
    """Gaps (n,) of a mask (d,) or of masks (n, d), summed over the outputs."""
    found = [engine.bounded(rows, mask, rtol) for engine in engines]
    return np.sum([value for value, _ in found], axis=0), np.sum([bound for _, bound in found], axis=0)


def bounded_curve(engines: Engines, rows: FloatArray, order: NDArray[np.intp], rtol: float) -> Bounded:
    """Gaps (n, d) of the prefixes of order (n, d)."""
    mask = np.zeros(rows.shape, dtype=np.bool_)
    value, bound = np.empty(rows.shape), np.empty(rows.shape)
    for k, features in enumerate(order.T):
        np.put_along_axis(mask, features[:, None], True, axis=1)
        value[:, k], bound[:, k] = bounded_gap(engines, rows, mask, rtol)
    return value, bound


def bounded_rank(
    engines: Engines, rows: FloatArray, method: Literal["greedy", "single"]
) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
    """Order, scores and sureness, all (n, d): 1 where the bounds prove a place, else 0.5."""
    return (_greedy if method == "greedy" else _single)(engines, rows)


def _greedy(engines: Engines, rows: FloatArray) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
    n, d = rows.shape
    order, every = np.empty((n, d), dtype=np.intp), np.arange(n)
    scores, sureness = np.empty((n, d)), np.empty((n, d))
    taken, reached = np.zeros((n, d), dtype=np.bool_), np.zeros(n)
    for place in range(d):
        value, bound = _candidates(engines, rows, taken)
        order[:, place] = best = _best(value, bound)
        sureness[:, place] = _proven(value, bound, best)
        scores[every, best] = value[every, best] - reached
        reached = value[every, best]
        taken[every, best] = True
    return order, scores, sureness


def _single(engines: Engines, rows: FloatArray) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
    n, d = rows.shape
    scores, bound = _candidates(engines, rows, np.zeros((n, d), dtype=np.bool_))
    order, every = np.empty((n, d), dtype=np.intp), np.arange(n)
    value, sureness = scores.copy(), np.empty((n, d))
    for place in range(d):
        order[:, place] = best = _best(value, bound)
        sureness[:, place] = _proven(value, bound, best)
        value[every, best] = -np.inf
    return order, scores, sureness


def _candidates(engines: Engines, rows: FloatArray, taken: NDArray[np.bool_]) -> Bounded:
    """Gaps (n, d) when each feature joins those taken; -inf for those."""
    value, bound = np.full(rows.shape, -np.inf), np.zeros(rows.shape)
    for q in range(rows.shape[1]):
        free = ~taken[:, q]
        mask = taken[free]
        mask[:, q] = True
        if free.any():
            value[free, q], bound[free, q] = bounded_gap(engines, rows[free], mask, RTOL)
    return value, bound


def _best(value: FloatArray, bound: FloatArray) -> NDArray[np.intp]:
    """Where the largest of (n, d) is, (n,): the first, of those that their bounds do not tell apart.

    A bound that missed `RTOL` ties nothing: the larger value is the better guess.
    """
    off = _off(value, np.minimum(bound, RTOL * np.maximum(value, 0.0)))
    best: NDArray[np.intp] = np.argmax(value + off >= (value - off).max(axis=1, keepdims=True), axis=1)
    return best


def _proven(value: FloatArray, bound: FloatArray, best: NDArray[np.intp]) -> FloatArray:
    """1 where the gap of `best` (n,) is the largest of (n, d) whatever they are within bounds; else 0.5."""
    off = _off(value, bound)
    lowest = np.take_along_axis(value - off, best[:, None], axis=1)
    highest = value + off
    np.put_along_axis(highest, best[:, None], -np.inf, axis=1)
    return np.where((lowest >= highest).all(axis=1), 1.0, 0.5)


def _off(value: FloatArray, bound: FloatArray) -> FloatArray:
    """How far values are off at most, by what was left out and by rounding."""
    return bound + _ROUNDING * np.maximum(value, 0.0)
