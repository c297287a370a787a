"""Means over all subsets for `Background`, without their gaps one by one.

For a row x and a row b of the background, the change of the prediction is a sum of boxes, each of which needs
some units to have switched to b and some to have stayed. The share of all subsets in which two boxes hold
together depends on two numbers only: p units must have switched, and n others must have stayed. So the mean
of the squared change is a sum over pairs of boxes, exact for any number of units.
"""

from __future__ import annotations

import math

import numpy as np

from predgap import _core
from predgap._engine.accuracy import Accuracy
from predgap._engine.context import Context
from predgap._engine.kernels import ByteArray
from predgap._engine.subset_engine import SubsetEngine
from predgap._typing import FloatArray


class JointMeans:
    """The means over all random subsets of the units of a model; all are exact."""

    def __init__(self, engine: SubsetEngine, top: int) -> None:
        self._engine, self._n_units, self._top = engine, engine.n_units, top
        self._most = min(self._n_units, engine.most_of_a_pair)

    def milliseconds(self, rows: FloatArray, accuracy: Accuracy, *, values: bool) -> FloatArray:
        """What the means of each row would take, or the values, (n,)."""
        return self._engine.box_milliseconds(rows)[:, int(values)]

    def expected(
        self, rows: FloatArray, accuracy: Accuracy, context: Context
    ) -> tuple[FloatArray, ByteArray]:
        """The expected PGI² of the first places of a random ranking, (n,), and method codes."""
        weights = shares_of_subsets(self._n_units, self._top, self._most)
        return self._engine.mean_gap(rows, weights, context), _exact(len(rows))

    def shapley(self, rows: FloatArray, accuracy: Accuracy, context: Context) -> tuple[FloatArray, ByteArray]:
        """The Shapley value of each unit, (n, n_units), and method codes."""
        return self._engine.shapley(rows, *shapley_shares(self._most), context), _exact(len(rows))


def shares_of_subsets(n_units: int, top: int, most: int) -> FloatArray:
    """How many of the subsets of 1, ..., `top` units, all sizes alike, have p given units and lack n others:
    entry p, n for p and n up to `most`; 0 where p is 0, or more than all units are given.

    Examples
    --------
    >>> shares_of_subsets(2, 1, 2)  # of two units, the first, and not the second: one of two subsets
    array([[0. , 0. , 0. ],
           [0.5, 0.5, 0. ],
           [0. , 0. , 0. ]])
    """
    sizes = np.arange(1, top + 1, dtype=np.float64)
    shares, have = np.zeros((most + 1, most + 1)), np.ones(top)
    for p in range(1, most + 1):
        have = have * (sizes - (p - 1)) / (n_units - (p - 1))  # of these, those that have a p-th unit, too
        lack = have
        for n in range(min(most, n_units - p) + 1):
            shares[p, n] = lack.mean()
            lack = lack * np.maximum(n_units - sizes - n, 0.0) / max(n_units - p - n, 1)
    return shares


def shapley_shares(most: int) -> tuple[FloatArray, FloatArray]:
    """What a product of two boxes of size 1 adds to the Shapley value of each of the p units that must have
    switched, and takes from each of the n that must have stayed: entries p, n up to `most`.

    Examples
    --------
    >>> gained, lost = shapley_shares(2)
    >>> gained[1, 0], gained[2, 0], gained[1, 1], lost[1, 1]
    (np.float64(1.0), np.float64(0.5), np.float64(0.5), np.float64(0.5))
    """
    gained, lost = np.zeros((2, most + 1, most + 1))
    for p in range(1, most + 1):
        for n in range(most + 1):
            ways = (p + n) * math.comb(p + n - 1, n)  # (p - 1)! n! / (p + n)! is one of these
            gained[p, n] = 1 / ways
            lost[p, n] = p / (ways * n) if n else 0.0
    return gained, lost


def _exact(n: int) -> ByteArray:
    """The method code of exact answers, (n,)."""
    return np.full(n, _core.METHODS.index("exact"), dtype=np.uint8)
