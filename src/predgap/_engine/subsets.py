"""Answers to questions about all subsets of a row's units: random, best and Shapley rankings.

Rows in which few units can change the prediction are answered from the gaps of all subsets of these units;
others by means over random subsets and by a search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap import _core
from predgap._engine.accuracy import EXACT, MOST_MILLISECONDS, Accuracy, Prices, guaranteed
from predgap._engine.context import Context
from predgap._engine.kernels import ByteArray, Kernel, any_member, as_bytes, exact_codes
from predgap._engine.results import Expected, Ranked, Searched, words
from predgap._model.ensemble import LEAF, Ensemble
from predgap._typing import BoolArray, FloatArray, IndexArray, IntArray
from predgap.errors import CostError

# ------------------------------------------------------------------------------------------------------------
# The gaps of all subsets of a row's units give means by size, Shapley values and the best order.
#
# A table (n, 2^m) holds the gaps of all subsets of m units in each of n rows. Subset number s has unit i if
# bit i of s is set. The first entry, of the empty subset, is 0.

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
    """The highest sum of gaps of subsets that grow from each subset up to n_moving units, (2^m, n)."""
    rest = np.zeros_like(gap)
    for level in reversed(_levels(_log2(len(gap)))[:n_moving]):
        rest[level.subsets] = (gap + rest)[level.larger].max(axis=1)
    return rest


def _rest_with_repeats(gap: FloatArray, rest: FloatArray, n_moving: int, n_repeats: int) -> FloatArray:
    """The same as `_rest`, where one of the subsets, be it the first, counts `n_repeats` times more."""
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


# ------------------------------------------------------------------------------------------------------------
# These are the calls of the core that such questions make.

Answer = tuple[FloatArray, FloatArray, ByteArray]
"""Gaps, (n,) or (n, k); the error bound of each row's gaps, (n,); codes of `_core.METHODS`, (n,)."""

BEAM_WIDTH: Final = 8
"""How many orders of each length a search keeps."""


@contextmanager
def _among(some: IndexArray) -> Iterator[None]:
    """A context of calls about some of the rows, in which a row that is too costly has its own number."""
    try:
        yield
    except _core.TooCostly as refused:
        row, milliseconds, megabytes = refused.args
        raise _core.TooCostly(int(some[row]), milliseconds, megabytes) from None


class SubsetEngine:
    """The kernel of a call, with its context. In all methods `rows` are (n, d) as the model casts them."""

    def __init__(self, kernel: Kernel, context: Context) -> None:
        self.kernel, self.context = kernel, context
        self.ensemble, self.used, self.members = kernel.ensemble, kernel.used, kernel.members
        self.n_units, self.features_of = kernel.n_units, kernel.features_of

    def gap(
        self, rows: FloatArray, masks: BoolArray, accuracy: Accuracy, context: Context | None = None
    ) -> Answer:
        """The gap of each row, (n,)."""
        asked = self._asked(rows, masks)
        return self.kernel.core.gap(asked, as_bytes(masks), *self._how(accuracy, context))

    def curve(self, rows: FloatArray, order: IntArray, accuracy: Accuracy) -> Answer:
        """The gaps (n, k) of the first unit of an order, the first two, and so on."""
        asked = self._asked(rows, self.features_of(order))
        return self.kernel.core.curve(asked, order, *self._how(accuracy, None), self.kernel.units)

    def greedy(self, rows: FloatArray, top: int, accuracy: Accuracy) -> IntArray:
        """The greedy order of the first `top` places, (n, top)."""
        asked = self._asked(rows, self.kernel.every)
        return self.kernel.core.rank(asked, "greedy", top, *self._how(accuracy, None), self.kernel.units)[0]

    def moving_units(self, rows: FloatArray) -> BoolArray:
        """Which units can change the prediction of each row, (n, n_units); all others never do."""
        kernel = self.kernel
        if kernel.background is None:
            core = kernel.independent("this")
            moving: ByteArray = core.moving_units(
                self._asked(rows, kernel.every), self.context.quiet(), kernel.units
            )[0]
            return moving.view(np.bool_)
        changes = np.zeros(rows.shape, dtype=np.bool_)
        for q in np.flatnonzero(self.used).tolist():
            values, x = kernel.background[:, q], rows[:, q]
            differ = (values[None] != x[:, None]) & ~(np.isnan(values)[None] & np.isnan(x)[:, None])
            changes[:, q] = differ.any(axis=1)
        return changes if self.members is None else any_member(changes, self.members)

    def subset_gaps(
        self, rows: FloatArray, chosen: IntArray, share: FloatArray, accuracy: Accuracy, context: Context
    ) -> Answer:
        """The gaps (n, 2^m) of all subsets of some units (n, m) of each row; bit i of a subset's number says
        whether it has the row's unit i.

        A tolerance is relative to the sum over sizes of `share` (m + 1,) times the mean gap of that size.
        """
        if self.kernel.moves_together:
            self._refuse_if_slow(self.box_milliseconds(rows, chosen.shape[1])[:, 2])
        asked = self._asked(rows, self.kernel.every)
        return self.kernel.core.subset_gaps(
            asked, chosen, share, *self._how(accuracy, context), self.kernel.units
        )

    def search(
        self, rows: FloatArray, chosen: IntArray, n_places: int, accuracy: Accuracy, context: Context
    ) -> tuple[IntArray, FloatArray]:
        """Orders of some of the units (n, m) with large gaps, by a beam search: orders and gaps of their
        prefixes, (n, n_places) each."""
        asked = self._asked(rows, self.kernel.every)
        return self.kernel.core.search(
            asked, chosen, n_places, BEAM_WIDTH, *self._how(accuracy, context), self.kernel.units
        )[:2]

    def milliseconds(
        self, rows: FloatArray, question: str, masks: BoolArray, n: int, accuracy: Accuracy
    ) -> FloatArray:
        """What a question would take, (n,); see `Kernel.prices`."""
        return self.kernel.prices(rows, question, masks, n, accuracy).milliseconds

    def tossing(self, t: float, features: BoolArray) -> SubsetEngine:
        """The same, with each of some features (d,) moving with probability t and else staying."""
        return SubsetEngine(self.kernel.tossing(t, features), self.context)

    # ---- of a background ----

    @property
    def most_of_a_pair(self) -> int:
        """How large p + n can be in the weights of `mean_gap` and `shapley`."""
        core: Any = self.kernel.core
        return int(core.most_of_a_pair)

    def mean_gap(self, rows: FloatArray, weights: FloatArray, context: Context) -> FloatArray:
        """The mean gap (n,) of a random subset, which has p given units and lacks n others with probability
        weights[p, n]."""
        self._refuse_if_slow(self.box_milliseconds(rows)[:, 0])
        core: Any = self.kernel.core
        found: FloatArray = core.mean_gap(
            self._asked(rows, self.kernel.every), weights, context, self.kernel.units
        )[0]
        return found

    def shapley(self, rows: FloatArray, gained: FloatArray, lost: FloatArray, context: Context) -> FloatArray:
        """The Shapley values (n, n_units) of the gap, from what each of p units that a subset must have
        gains, and each of n others loses."""
        self._refuse_if_slow(self.box_milliseconds(rows)[:, 1])
        core: Any = self.kernel.core
        found: FloatArray = core.shapley(
            self._asked(rows, self.kernel.every), gained, lost, context, self.kernel.units
        )[0]
        return found

    def box_milliseconds(self, rows: FloatArray, n_chosen: int = 0) -> FloatArray:
        """What `mean_gap`, `shapley` and `subset_gaps` of so many units would take, (n, 3)."""
        core: Any = self.kernel.core
        asked = self._asked(rows, self.kernel.every)
        found: FloatArray = core.box_costs(asked, n_chosen, self.context.quiet(), self.kernel.units)[0]
        return found

    def _asked(self, rows: FloatArray, masks: BoolArray) -> Any:
        self.context.look(0)
        return self.kernel.rows(rows, masks)

    def _how(self, accuracy: Accuracy, context: Context | None) -> tuple[Any, Context]:
        return self.kernel.accuracy(accuracy), self.context.quiet() if context is None else context

    def _refuse_if_slow(self, milliseconds: FloatArray) -> None:
        """`_core.TooCostly` if one of the rows would take longer than it may."""
        if milliseconds.max(initial=0.0) > MOST_MILLISECONDS:
            row, core = int(milliseconds.argmax()), self.kernel.core
            assert isinstance(core, _core.Joint)
            raise _core.TooCostly(row, float(milliseconds[row]), core.cost("gap", 0, 0)[1])


# ------------------------------------------------------------------------------------------------------------
# Means over random subsets without their gaps one by one: each unit moves with probability t, else it stays.
#
# If each unit tosses a coin of its own, the gap of all units is M(t), the mean of the gaps of random subsets:
# a polynomial in t. A feature that moves with probability t is just a feature with another law, so M(t) is
# one gap. Its integral over t weighs all sizes alike, and Gauss's rule with enough nodes gives it exactly.
# Features of one unit share a coin, so units of several features are in or out for certain: all their subsets
# are taken.

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
            with _among(loose):
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
        for row in np.flatnonzero(milliseconds > MOST_MILLISECONDS).tolist():
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


# ------------------------------------------------------------------------------------------------------------
# Means over all subsets for `Background`, without their gaps one by one.
#
# For a row x and a row b of the background, the change of the prediction is a sum of boxes, each of which
# needs some units to have switched to b and some to have stayed. The share of all subsets in which two boxes
# hold together depends on two numbers only: p units must have switched, and n others must have stayed. So the
# mean of the squared change is a sum over pairs of boxes, exact for any number of units.


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
        return self._engine.mean_gap(rows, weights, context), exact_codes(len(rows))

    def shapley(self, rows: FloatArray, accuracy: Accuracy, context: Context) -> tuple[FloatArray, ByteArray]:
        """The Shapley value of each unit, (n, n_units), and method codes."""
        return self._engine.shapley(rows, *shapley_shares(self._most), context), exact_codes(len(rows))


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


# ------------------------------------------------------------------------------------------------------------
# The questions themselves.

Means = Coins | JointMeans

MOST_UNITS: Final = 14
"""If up to so many units matter in a row, the gaps of all their subsets are computed."""

_MOST_MILLISECONDS: Final = 20e3  # for these gaps of a row
_MOST_SMALL_SUBSETS: Final = 30_000  # of at most k units, where more units matter
_LEAST: Final = 0.2  # what most orders reach at least of the expected score of a random one
_TABLE_ENTRIES: Final = 1 << 20  # gaps in memory at the same time


@dataclass(frozen=True, slots=True, eq=False)
class _RowsAlike:
    """Some rows in which as many units matter."""

    some: IndexArray  # (k,) the rows
    units: IntArray  # (k, m) units that matter, ascending


@dataclass(frozen=True, slots=True, eq=False)
class _SubsetTable(_RowsAlike):
    """The gaps of all subsets of these units."""

    gaps: FloatArray  # (k, 2^m)
    bound: FloatArray  # (k,) of the error of each gap
    method: NDArray[np.str_]  # (k,)

    def curves(self, orders: IntArray, n_units: int) -> FloatArray:
        """The gaps of the prefixes of orders (k, r, top) of all units, (k, r, top)."""
        place = np.full((len(self.some), n_units), -1)
        np.put_along_axis(place, self.units.astype(np.intp), np.arange(self.units.shape[1])[None], axis=1)
        return curves_in(self.gaps, place[np.arange(len(place))[:, None, None], orders])


@dataclass(frozen=True, slots=True, eq=False)
class _OfPlaces:
    """A question about the first `top` places of rankings of rows (n, d)."""

    engine: SubsetEngine
    rows: FloatArray
    top: int

    @property
    def n_units(self) -> int:
        """The number of all units."""
        return self.engine.n_units

    def split(
        self, accuracy: Accuracy, otherwise: Callable[[FloatArray], FloatArray] | None = None
    ) -> tuple[list[_RowsAlike], list[_RowsAlike]]:
        """All rows: first those that are to be answered from the gaps of all subsets, and then the others.

        otherwise(rows) gives the milliseconds that rows take without these gaps.
        """
        moving = self.engine.moving_units(self.rows)
        n_moving = moving.sum(axis=1)
        few, many = [], []
        for m in np.unique(n_moving).tolist():
            same = np.flatnonzero(n_moving == m)
            units = np.nonzero(moving[same])[1].reshape(len(same), m).astype(np.int32)
            is_few = np.full(len(same), m <= MOST_UNITS)
            if m <= MOST_UNITS:
                features = self.engine.features_of(units)
                rows = self.rows[same]
                takes = self.engine.milliseconds(rows, "subsets", features, m, accuracy)
                limit = np.full(len(same), np.inf) if otherwise is None else otherwise(rows)
                is_few &= takes <= np.minimum(limit, _MOST_MILLISECONDS)
            few += [_RowsAlike(same[some], units[some]) for some in _chunks(is_few, _TABLE_ENTRIES >> m)]
            many += [_RowsAlike(same[some], units[some]) for some in _chunks(~is_few, len(same))]
        return few, many

    def means(self) -> Means | str:
        """The means over random subsets, or why there are none."""
        if self.engine.kernel.moves_together:
            return JointMeans(self.engine, self.top)
        return Coins.of(self.engine)

    def needed(self, means: Means | str, many: list[_RowsAlike]) -> tuple[Means, IndexArray]:
        """The means over random subsets, and the rows that need them; CostError if there are none."""
        if isinstance(means, str):
            row, (_, m) = self.engine.context.number(many[0].some[0]), many[0].units.shape
            raise CostError(
                f"in row {row}, {m} features (or groups) matter, too many for the gaps of all their subsets "
                f"(at most {MOST_UNITS}, and {_MOST_MILLISECONDS / 1e3:g} s); {means}"
            )
        return means, np.concatenate([part.some for part in many])

    def tables(
        self, few: list[_RowsAlike], shares: Callable[[int], FloatArray], accuracy: Accuracy
    ) -> Iterator[_SubsetTable]:
        """The gaps of all subsets of some rows.

        The tolerance is relative to the sum over sizes of shares(m) (m + 1,) times the mean gap of that size.
        """
        n_before = 0
        for part in few:
            share = shares(part.units.shape[1])
            told = self.part(n_before, part.some)
            with _among(part.some):
                gaps, bound, method = self.engine.subset_gaps(
                    self.rows[part.some], part.units, share, accuracy, told
                )
            yield _SubsetTable(part.some, part.units, gaps, bound, words(method))
            n_before += len(part.some)

    def part(self, n_before: int, some: IndexArray) -> Context:
        """The context of some rows that come after others."""
        return self.engine.context.part(n_before, n_before + len(some), len(self.rows), len(some))

    def random_shares(self, m: int) -> FloatArray:
        """How much the mean gap of each size counts in the expected PGI² of a random ranking, (m + 1,)."""
        return random_shares(m, self.n_units, self.top)

    def random_of(self, table: _SubsetTable) -> FloatArray:
        """The expected PGI² of a random ranking, (k,)."""
        shares = self.random_shares(table.units.shape[1])
        found: FloatArray = (mean_by_size(table.gaps) * shares).sum(axis=1)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class RandomScores(_OfPlaces):
    """The expected PGI² of the first `top` places of a random ranking."""

    def answer(self, accuracy: Accuracy) -> Expected:
        value, method = np.zeros(len(self.rows)), _exact(len(self.rows))
        means = self.means()
        by_means = self.top == self.n_units or isinstance(means, JointMeans)
        few, many = self.split(accuracy, _time_of(means, accuracy, values=False) if by_means else None)
        for table in self.tables(few, self.random_shares, accuracy):
            value[table.some], method[table.some] = self.random_of(table), table.method
        if by_means and many:
            means, some = self.needed(means, many)
            told = self.part(len(self.rows) - len(some), some)
            with _among(some):
                value[some], codes = means.expected(self.rows[some], accuracy, told)
            method[some] = words(codes)
        elif many:
            for part in many:
                with _among(part.some):
                    value[part.some], method[part.some] = self._by_small_subsets(part, accuracy)
        return Expected(value, method)

    def _by_small_subsets(self, part: _RowsAlike, accuracy: Accuracy) -> tuple[FloatArray, NDArray[np.str_]]:
        """Values and methods, (k,), from the gaps of all subsets of at most `top` units."""
        k, m = part.units.shape
        largest = min(self.top, m)
        n_subsets = sum(math.comb(m, size) for size in range(1, largest + 1))
        if n_subsets > _MOST_SMALL_SUBSETS:
            row = self.engine.context.number(part.some[0])
            raise CostError(
                f"the expected PGI² of {self.top} random places: in row {row}, {m} features matter, "
                f"which have {n_subsets:,} subsets of at most {self.top}; the limit is "
                f"{_MOST_SMALL_SUBSETS:,}. This works: all places, such as random_pgi2(X), or fewer places"
            )
        shares, value = self.random_shares(m), np.zeros(k)
        worst = np.zeros(k, dtype=np.uint8)
        for size in range(1, largest + 1):
            for subset in combinations(range(m), size):
                features = self.engine.features_of(part.units[:, subset])
                gaps, _, method = self.engine.gap(self.rows[part.some], features, accuracy)
                value += shares[size] / math.comb(m, size) * gaps
                worst = np.maximum(worst, method)
        return value, words(worst)


@dataclass(frozen=True, slots=True, eq=False)
class ShapleyRankings(_OfPlaces):
    """Units by their Shapley values in the game whose worth is the gap."""

    def answer(self, accuracy: Accuracy) -> Ranked:
        n = len(self.rows)
        scores, method = np.zeros((n, self.n_units)), _exact(n)
        means = self.means()
        few, many = self.split(accuracy, _time_of(means, accuracy, values=True))
        for table in self.tables(few, _half_of_all, accuracy):
            scores[table.some[:, None], table.units] = shapley_values(table.gaps)
            method[table.some] = table.method
        if many:
            means, some = self.needed(means, many)
            told = self.part(n - len(some), some)
            with _among(some):
                values, codes = means.shapley(self.rows[some], accuracy, told)
            method[some] = words(codes)
            for part, own in zip(many, _parts_of(values, many), strict=True):  # others are 0, not rounding
                scores[part.some[:, None], part.units] = np.take_along_axis(
                    own, part.units.astype(np.intp), axis=1
                )
        order = _by_value(scores)[:, : self.top]
        kept = np.full(scores.shape, np.nan)
        np.put_along_axis(kept, order, np.take_along_axis(scores, order, axis=1), axis=1)
        return Ranked(order.astype(np.int32), kept, _confidence(method == "exact", self.top), method)


@dataclass(frozen=True, slots=True, eq=False)
class BestRankings(_OfPlaces):
    """The rankings whose first `top` places have the highest PGI².

    The gaps of all subsets also tell the curves of any other order. Those of `orders` come along, in the rows
    where they are within the tolerance of a curve.
    """

    orders: IntArray | None = None  # (n, r, top)

    def answer(self, accuracy: Accuracy) -> Searched:
        n, d = len(self.rows), self.n_units
        order, gaps = np.zeros((n, self.top), dtype=np.int32), np.zeros((n, self.top))
        method, is_complete = _exact(n), np.ones(n, dtype=np.bool_)
        random = np.full(n, np.nan)
        orders = np.zeros((n, 0, self.top), dtype=np.int32) if self.orders is None else self.orders
        curves = np.full(orders.shape, np.nan)
        few, many = self.split(accuracy)
        asked = replace(accuracy, tolerance=accuracy.tolerance * _LEAST) if orders.size else accuracy
        for table in self.tables(few, self.random_shares, asked):  # the best has at least that
            random[table.some] = self.random_of(table)
            read = table.curves(orders[table.some], d)
            is_proven = table.bound[:, None] <= accuracy.tolerance * read.mean(axis=2)
            curves[table.some] = np.where(is_proven[..., None], read, np.nan)
            places, gaps[table.some] = best_orders(table.gaps, d - table.units.shape[1], self.top)
            order[table.some], method[table.some] = _numbered(places, table.units, d), table.method
        n_before = n - sum(len(part.some) for part in many)
        for part in many:
            with _among(part.some):
                found = self._searched(part, accuracy, self.part(n_before, part.some))
            order[part.some], gaps[part.some], method[part.some] = found
            is_complete[part.some] = False
            n_before += len(part.some)
        scores = np.full((n, d), np.nan)
        np.put_along_axis(scores, order.astype(np.intp), np.diff(gaps, axis=1, prepend=0.0), axis=1)
        confidence = _confidence(is_complete & (method == "exact"), self.top)
        return Searched(order, scores, confidence, method, is_complete, gaps, curves, random)

    def _searched(
        self, part: _RowsAlike, accuracy: Accuracy, context: Context
    ) -> tuple[IntArray, FloatArray, NDArray[np.str_]]:
        """The better of the order that a search finds and the greedy one: orders, gaps, methods."""
        rows, (_, m) = self.rows[part.some], part.units.shape
        found, gaps = self.engine.search(rows, part.units, min(m, self.top), accuracy, context)
        n_still = self.n_units - m
        place = np.array([np.searchsorted(own, o) for own, o in zip(part.units, found, strict=True)])
        searched = _numbered(with_still_units(place, gaps, n_still, self.top), part.units, self.n_units)
        greedy = self.engine.greedy(rows, self.top, accuracy)
        curves, codes = [], []
        for order in (searched, greedy):
            curve, _, code = self.engine.curve(rows, order, accuracy)
            curves.append(curve)
            codes.append(code)
        better = curves[1].sum(axis=1) > curves[0].sum(axis=1)
        pick = better[:, None]
        return (
            np.where(pick, greedy, searched),
            np.where(pick, curves[1], curves[0]),
            words(np.where(better, codes[1], codes[0])),
        )


def _time_of(
    means: Means | str, accuracy: Accuracy, *, values: bool
) -> Callable[[FloatArray], FloatArray] | None:
    """A function that gives the milliseconds which rows take by means; None if there are none."""
    return None if isinstance(means, str) else partial(means.milliseconds, accuracy=accuracy, values=values)


def _half_of_all(m: int) -> FloatArray:
    """Shares of the sizes, (m + 1,): tolerances of differences are relative to half the gap of all units."""
    return np.append(np.zeros(m), 0.5)


def _exact(n: int) -> NDArray[np.str_]:
    return np.full(n, "exact", dtype="<U7")


def _confidence(is_proven: BoolArray, n_places: int) -> FloatArray:
    return np.repeat(np.where(is_proven, 1.0, np.nan)[:, None], n_places, axis=1)


def _chunks(chosen: BoolArray, size: int) -> Iterator[IndexArray]:
    """The places of what is chosen, at most `size` (at least 1) at a time."""
    places = np.flatnonzero(chosen)
    for first in range(0, len(places), max(1, size)):
        yield places[first : first + max(1, size)]


def _parts_of(values: FloatArray, parts: list[_RowsAlike]) -> list[FloatArray]:
    """Values of the rows of all parts, one after the other, as those of each part."""
    return np.split(values, np.cumsum([len(part.some) for part in parts])[:-1])


def _by_value(values: FloatArray) -> IndexArray:
    """The order (n, d) of each row's values, largest first; of those that tie, the lower index first.

    Each place goes to the first of the values that are left and tie with the largest of them. Columns that
    are 0 in all rows may be very many: of these it is enough to know how many are before a place.
    """
    n, d = values.shape
    slack, every = TIE * np.abs(values).sum(axis=1), np.arange(n)
    is_zero = ~values.any(axis=0)
    columns, zeros = np.flatnonzero(~is_zero), np.flatnonzero(is_zero)
    left, n_lower = values[:, columns], np.searchsorted(zeros, columns)
    n_before = np.zeros(n, dtype=np.intp)  # columns of zeros
    order = np.full((n, d), -1, dtype=np.intp)

    def first_that_ties() -> tuple[IndexArray, FloatArray]:
        lowest = np.where(n_before < len(zeros), 0.0, -np.inf)
        tied = np.maximum(left.max(axis=1), lowest) - slack
        ties = left >= tied[:, None]
        return np.where(ties.any(axis=1), ties.argmax(axis=1), -1), tied

    for place in range(len(columns)):
        found, tied = first_that_ties()
        lower = np.where(found < 0, len(zeros), np.where(tied <= 0, n_lower[found], 0))
        is_last = (lower == len(zeros)) & (n_before < len(zeros))  # then others may tie
        n_before = np.maximum(n_before, lower)
        if is_last.any():
            found = np.where(is_last, first_that_ties()[0], found)
        order[every, place + n_before] = columns[found]
        left[every, found] = -np.inf
    order[order < 0] = np.tile(zeros, n)
    return order


def _numbered(places: IndexArray, units: IntArray, n_units: int) -> NDArray[np.int32]:
    """Orders (k, n_places) of the units (k, m) as orders of all units; -1 becomes the next of the others."""
    found = np.empty(places.shape, dtype=np.int32)
    for row, (place, own) in enumerate(zip(places, units, strict=True)):
        others = np.setdiff1d(np.arange(n_units), own)
        still = place < 0
        found[row, ~still] = own[place[~still]]
        found[row, still] = others[: still.sum()]
    return found
