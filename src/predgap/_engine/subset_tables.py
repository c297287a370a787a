"""What follows from the gaps of all subsets of a row's units: means by size, Shapley values, the best order.

A table (n, 2^m) holds the gaps of all subsets of m units in each of n rows. Subset number s has unit i if bit
i of s is set. The first entry, of the empty subset, is 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from predgap._typing import FloatArray, IndexArray

TIE: Final = 1e-12
"""Totals of rankings that differ by no more than this share are ties."""


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """The subsets of one size: their numbers, and those of the subsets with one more unit."""

    subsets: IndexArray  # (c,)
    larger: IndexArray  # (c, m - size)


@lru_cache(maxsize=8)
def _levels(m: int) -> tuple[_Level, ...]:
    """The subsets of m units by size, 0 ... m."""
    numbers = np.arange(1 << m)
    has = (numbers[:, None] >> np.arange(m)) & 1 == 1  # (2^m, m)
    size = has.sum(axis=1)
    found = []
    for k in range(m + 1):
        own = np.flatnonzero(size == k)
        absent = np.nonzero(~has[own])[1].reshape(len(own), m - k)
        found.append(_Level(own, own[:, None] | (1 << absent)))
    return tuple(found)


def mean_by_size(table: FloatArray) -> FloatArray:
    """The mean gap of the subsets of each size, (n, m + 1)."""
    levels = _levels(_n_units(table))
    means = [np.take(table, level.subsets, axis=1).sum(axis=1) / len(level.subsets) for level in levels]
    found: FloatArray = np.stack(means, axis=1)
    return found


def random_shares(m: int, n_units: int, n_places: int) -> FloatArray:
    """How much the mean gap of each size counts in the expected PGI² of a random ranking, (m + 1,).

    m of the `n_units` units matter; the first `n_places` places count.
    """
    if n_places == n_units:  # each size is as likely as any other
        return np.full(m + 1, (n_units + 1) / (max(1, n_units) * (m + 1)))
    shares = np.zeros(m + 1)
    for place in range(1, n_places + 1):
        for size in range(max(0, place - (n_units - m)), min(place, m) + 1):
            ways = math.comb(m, size) * math.comb(n_units - m, place - size)
            shares[size] += ways / math.comb(n_units, place) / n_places
    return shares


def shapley_values(table: FloatArray) -> FloatArray:
    """The Shapley value of each unit in the game whose worth is the gap, (n, m)."""
    m = _n_units(table)
    numbers, size = np.arange(1 << m), _sizes(m)
    values = np.empty((len(table), m))
    weights = np.array([1.0 / (m * math.comb(m - 1, k)) for k in range(m)])
    for i in range(m):
        without = numbers[(numbers >> i) & 1 == 0]
        weight = weights[size[without]]
        gain = np.take(table, without | (1 << i), axis=1) - np.take(table, without, axis=1)
        values[:, i] = (gain * weight).sum(axis=1)
    return values


def curves_in(table: FloatArray, order: IndexArray) -> FloatArray:
    """The gaps of the prefixes of orders (n, r, k) of the m units, (n, r, k); a unit -1 changes nothing."""
    bits = np.where(order < 0, 0, 1 << np.maximum(order, 0))
    subsets = np.bitwise_or.accumulate(bits, axis=2)
    found: FloatArray = table[np.arange(len(table))[:, None, None], subsets]
    return found


def best_orders(table: FloatArray, n_still: int, n_places: int) -> tuple[IndexArray, FloatArray]:
    """The orders with the highest sum of the gaps of their prefixes, and the gaps, (n, n_places) each.

    Beside the m units of the table there are `n_still` units that change nothing; such a unit is -1 in an
    order. Of orders whose totals tie, that comes out whose units have the lowest numbers, first place first;
    units that change nothing come last, unless the gap falls: then they come where it is highest.
    """
    m, n = _n_units(table), len(table)
    by_subset = np.ascontiguousarray(table.T)
    order, gaps = np.full((n, n_places), -1), np.zeros((n, n_places))
    if m == 0:
        return order, gaps
    best = np.full(n, -1.0)
    for n_moving in range(min(m, n_places), max(0, n_places - n_still) - 1, -1):
        n_repeats = n_places - n_moving
        rest = _rest(by_subset, n_moving)
        with_repeats = _rest_with_repeats(by_subset, rest, n_moving, n_repeats)
        better = with_repeats[0] > best * (1.0 + TIE)
        if not better.any():
            continue
        found = _trace(by_subset[:, better], rest[:, better], with_repeats[:, better], n_moving, n_repeats)
        order[better], gaps[better] = found
        best = np.where(better, with_repeats[0], best)
    return order, gaps


def with_still_units(order: IndexArray, gaps: FloatArray, n_still: int, n_places: int) -> IndexArray:
    """Orders (n, m) of units, with the gaps of their prefixes, and units that change nothing (-1) where they
    make the sum of the gaps of the first places largest: (n, n_places)."""
    n, m = order.shape
    found = np.full((n, n_places), -1, dtype=np.intp)
    for row in range(n):
        curve = np.append(0.0, gaps[row])
        most, best = -1.0, (0, 0)
        for n_moving in range(min(m, n_places), max(0, n_places - n_still) - 1, -1):
            peak = n_moving - int(curve[: n_moving + 1][::-1].argmax())  # the last of the highest
            total = curve[: n_moving + 1].sum() + (n_places - n_moving) * curve[peak]
            if total > most * (1.0 + TIE):
                most, best = total, (n_moving, peak)
        n_moving, peak = best
        found[row, :peak] = order[row, :peak]
        found[row, peak + n_places - n_moving :] = order[row, peak:n_moving]
    return found


def _rest(gap: FloatArray, n_moving: int) -> FloatArray:
    """For each subset (2^m, n), the highest sum of gaps of subsets that grow from it up to n_moving units."""
    rest = np.zeros_like(gap)
    for level in reversed(_levels(_log2(len(gap)))[:n_moving]):
        rest[level.subsets] = (gap + rest)[level.larger].max(axis=1)
    return rest


def _rest_with_repeats(gap: FloatArray, rest: FloatArray, n_moving: int, n_repeats: int) -> FloatArray:
    """As `_rest`, where one of the subsets, be it the first, counts `n_repeats` times more."""
    if n_repeats == 0:
        return rest
    repeated = n_repeats * gap + rest
    for level in reversed(_levels(_log2(len(gap)))[:n_moving]):
        later = (gap + repeated)[level.larger].max(axis=1)
        repeated[level.subsets] = np.maximum(repeated[level.subsets], later)
    return repeated


def _trace(
    gap: FloatArray, rest: FloatArray, repeated: FloatArray, n_moving: int, n_repeats: int
) -> tuple[IndexArray, FloatArray]:
    """The order, and its gaps, that reaches the highest total; (n, n_moving + n_repeats) each."""
    m, n = _log2(len(gap)), gap.shape[1]
    rows, size = np.arange(n), _sizes(m)
    order, gaps = np.full((n, n_moving + n_repeats), -1), np.zeros((n, n_moving + n_repeats))
    now, place = np.zeros(n, dtype=np.intp), np.zeros(n, dtype=np.intp)
    is_repeated = np.full(n, n_repeats == 0)
    slack = TIE * repeated[0]  # how much of the highest total may be given up for lower numbers
    for _ in range(n_moving + (n_repeats > 0)):
        larger = now[:, None] | (1 << np.arange(m))  # (n, m)
        after = np.where(is_repeated, rest[larger.T, rows], repeated[larger.T, rows]).T
        loss = np.where(is_repeated, rest[now, rows], repeated[now, rows])[:, None] - (
            gap[larger.T, rows].T + after
        )
        may_join = (larger != now[:, None]) & (size[now] < n_moving)[:, None] & (loss <= slack[:, None])
        grows, unit = may_join.any(axis=1), may_join.argmax(axis=1)
        ends = np.flatnonzero(~grows & ~is_repeated)
        at = place[ends, None] + np.arange(n_repeats)
        gaps[ends[:, None], at] = gap[now[ends], ends, None]
        place[ends] += n_repeats
        is_repeated[ends] = True
        some = np.flatnonzero(grows)
        slack[some] -= np.maximum(loss[some, unit[some]], 0.0)
        now[some] = larger[some, unit[some]]
        order[some, place[some]], gaps[some, place[some]] = unit[some], gap[now[some], some]
        place[some] += 1
    return order, gaps


def _n_units(table: FloatArray) -> int:
    return _log2(table.shape[1])


def _log2(size: int) -> int:
    return size.bit_length() - 1


def _sizes(m: int) -> NDArray[np.intp]:
    size = np.zeros(1 << m, dtype=np.intp)
    for k, level in enumerate(_levels(m)):
        size[level.subsets] = k
    return size
