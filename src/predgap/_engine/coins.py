"""Means over random subsets without their gaps one by one: each unit moves with probability t, else it stays.

If each unit tosses a coin of its own, the gap of all units is M(t), the mean of the gaps of random subsets: a
polynomial in t. A feature that moves with probability t is just a feature with another law, so M(t) is one
gap. Its integral over t weighs all sizes alike, and Gauss's rule with enough nodes gives it exactly. Features
of one unit share a coin, so units of several features are in or out for certain: all their subsets are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from predgap import _core
from predgap._engine.accuracy import EXACT, Accuracy, Prices, guaranteed
from predgap._engine.context import Context
from predgap._engine.subset_engine import SubsetEngine
from predgap._model.ensemble import LEAF, Ensemble
from predgap._typing import BoolArray, FloatArray

_MOST_GROUPS: Final = 6  # units of several features, of which all subsets are taken
_LONGER: Final = 5.0  # gaps of features that mostly stay take so much longer than other gaps, without a plan


@dataclass(frozen=True, slots=True, eq=False)
class _Toss:
    """A node of the rule and a set of groups that are in: the engine, and how much its gaps count."""

    t: float
    engine: SubsetEngine
    groups: int  # bit i: group i is in
    features: BoolArray  # (d,) that may move
    weight: float  # of the node alone

    def chance(self, n_groups: int) -> float:
        """The probability of these groups, of n."""
        n_in = self.groups.bit_count()
        return float(self.t**n_in * (1.0 - self.t) ** (n_groups - n_in))


class Coins:
    """The means over all random subsets of the units of a model."""

    def __init__(self, engine: SubsetEngine) -> None:
        self._engine = engine
        d = engine.ensemble.n_features
        self._members = engine.members or tuple((q,) for q in range(d))
        n_used = (
            engine.used.astype(np.intp)
            if engine.members is None
            else np.array([engine.used[list(unit)].sum() for unit in engine.members])
        )
        self.alone = np.flatnonzero(n_used == 1)
        self.groups = np.flatnonzero(n_used > 1)
        self._coins = self._features(self.alone)
        degree = min(int((n_used > 0).sum()), 2 * _most_on_a_path(engine.ensemble))
        nodes, weights = np.polynomial.legendre.leggauss(degree // 2 + 1)
        self._nodes, self._weights = (nodes + 1.0) / 2.0, weights / 2.0

    @classmethod
    def of(cls, engine: SubsetEngine) -> Coins | str:
        """The means, or why there are none."""
        coins = cls(engine)
        if len(coins.groups) > _MOST_GROUPS:
            return (
                f"the model uses {len(coins.groups)} groups of several features, and at most {_MOST_GROUPS} "
                "can be handled then: use fewer groups"
            )
        return coins

    def expected(
        self, rows: FloatArray, accuracy: Accuracy, context: Context
    ) -> tuple[FloatArray, NDArray[np.uint8]]:
        """The expected PGI² of a random ranking of all units, (n,), and method codes."""
        self._refuse_if_costly(rows, accuracy, values=False)
        total, worst = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.uint8)
        for toss, part in self._tosses(context):
            gaps, _, method = toss.engine.gap(rows, toss.features[None], accuracy, part)
            total += toss.weight * toss.chance(len(self.groups)) * gaps
            worst = np.maximum(worst, method)
        n_units = len(self._members)
        return total * ((n_units + 1) / n_units), worst

    def shapley(
        self, rows: FloatArray, accuracy: Accuracy, context: Context
    ) -> tuple[FloatArray, NDArray[np.uint8]]:
        """The Shapley value of each unit, (n, n_units), and method codes.

        The error of each value is at most the tolerance times the gap of all units.
        """
        self._refuse_if_costly(rows, accuracy, values=True)
        asked = accuracy
        if accuracy.kind == "bounded":  # each gap counts up to 1 / t times: in sum, so much more
            asked = guaranteed(accuracy.tolerance / (4.0 + 2.0 * float(np.log(len(self._members)))))
        values, bound, method = self._shapley(rows, asked, context)
        all_units = self._engine.gap(rows, self._engine.used[None], asked)[0]
        loose = np.flatnonzero(bound > accuracy.tolerance * all_units)
        if len(loose):
            values[loose], _, method[loose] = self._shapley(rows[loose], EXACT, context.quiet())
        return values, method

    def _shapley(
        self, rows: FloatArray, accuracy: Accuracy, context: Context
    ) -> tuple[FloatArray, FloatArray, NDArray[np.uint8]]:
        """Values, the largest error bound of each row's, method codes."""
        n, n_groups = len(rows), len(self.groups)
        values, bound = np.zeros((n, len(self._members))), np.zeros(n)
        worst = np.zeros(n, dtype=np.uint8)
        for toss, part in self._tosses(context):
            gaps, error, method = toss.engine.gap(rows, toss.features[None], accuracy, part)
            worst = np.maximum(worst, method)
            share = toss.weight * toss.chance(n_groups)
            for i, unit in enumerate(self.groups):  # in: counts for it; out: against it
                is_in = toss.groups >> i & 1 == 1
                values[:, unit] += (share / toss.t if is_in else -share / (1.0 - toss.t)) * gaps
            larger = np.zeros(n)
            for unit in self.alone:
                without = toss.features & ~self._features(np.array([unit]))
                less, own, method = toss.engine.gap(rows, without[None], accuracy)
                values[:, unit] += share / toss.t * (gaps - less)
                larger, worst = np.maximum(larger, own), np.maximum(worst, method)
            bound += share / min(toss.t, 1.0 - toss.t if n_groups else 1.0) * (error + larger)
        return values, bound, worst

    def _tosses(self, context: Context) -> Iterator[tuple[_Toss, Context]]:
        n_sets, done = 1 << len(self.groups), 0
        for t, weight in zip(self._nodes.tolist(), self._weights.tolist(), strict=True):
            engine = self._engine.tossing(t, self._coins)
            for groups in range(n_sets):
                own = self.groups[[bool(groups >> i & 1) for i in range(len(self.groups))]]
                features = self._coins | self._features(own)
                n_all = n_sets * len(self._nodes)
                part = context.part(done, done + 1, n_all)
                yield _Toss(t, engine, groups, features, weight), part
                done += 1

    def _features(self, units: NDArray[np.intp]) -> BoolArray:
        mask = np.zeros(self._engine.ensemble.n_features, dtype=np.bool_)
        for unit in units:
            mask[list(self._members[unit])] = True
        return mask & self._engine.used

    def milliseconds(self, rows: FloatArray, accuracy: Accuracy, *, values: bool) -> FloatArray:
        """What the means of each row would take, or the values, (n,)."""
        longer = 1.0 if self._engine.kernel.model.has_plan else _LONGER
        return longer * self._n_gaps(values) * self._prices(rows, accuracy).milliseconds

    def _prices(self, rows: FloatArray, accuracy: Accuracy) -> Prices:
        return self._engine.kernel.prices(rows, "gap", self._engine.used[None], 0, accuracy)

    def _n_gaps(self, values: bool) -> int:
        return (1 + values * len(self.alone)) * len(self._nodes) << len(self.groups)

    def _refuse_if_costly(self, rows: FloatArray, accuracy: Accuracy, *, values: bool) -> None:
        """`_core.TooCostly` if all gaps of a row together would take longer than a row may."""
        gap = self._prices(rows, accuracy)
        milliseconds, megabytes = self._n_gaps(values) * gap.milliseconds, gap.megabytes
        for row in np.flatnonzero(milliseconds > 1e3 * _core.MOST_SECONDS).tolist():
            raise _core.TooCostly(row, float(milliseconds[row]), float(megabytes[row]))


def _most_on_a_path(ensemble: Ensemble) -> int:
    """The largest number of different features on the way to a leaf."""
    used, column = np.unique(ensemble.feature, return_inverse=True)  # a leaf's "feature" is never added
    level, seen, most = ensemble.root, np.zeros((len(ensemble.root), len(used)), dtype=np.bool_), 0
    while len(level):
        most = max(most, int(seen.sum(axis=1).max()))
        is_split = ensemble.feature[level] != LEAF
        level, seen = level[is_split], seen[is_split]
        seen[np.arange(len(level)), column[level]] = True
        level = np.concatenate([ensemble.left[level], ensemble.right[level]])
        seen = np.concatenate([seen, seen])
    return most
