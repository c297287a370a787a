"""The class `Engine` calls the kernels: builds their arrays, splits rows into parts that fit into memory."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from predgap import _core
from predgap._engine.accuracy import Accuracy
from predgap._engine.deadline import watching
from predgap._engine.kernel_noise import KernelNoise
from predgap._engine.progress import Tell, after
from predgap._engine.vector_leaves import with_vector_leaves
from predgap._model.ensemble import LEAF, NUMERIC, Ensemble
from predgap._text import shown
from predgap._typing import BoolArray, FloatArray, IndexArray, IntArray
from predgap.errors import CostError, PredgapError
from predgap.noise._combined_laws import StayLaw
from predgap.noise._laws import Law

ByteArray = NDArray[np.uint8]

Strategy = Literal["plan", "compiled", "cells", "pairs"]
Question = Literal["gap", "curve", "greedy", "single", "subsets"]
RankingMethod = Literal["greedy", "single"]
Members = tuple[tuple[int, ...], ...]
"""The features of each unit; units are ordered by their first feature."""

Arrays = TypeVar("Arrays", bound=tuple[NDArray[Any], ...])
MomentArrays = tuple[FloatArray, FloatArray, FloatArray, ByteArray]
"""Mean changes, (n, n_outputs); covariances of the outputs, (n, n_outputs, n_outputs); the error bound of
each row's covariances, (n,); codes of `_core.METHODS`, (n,)."""
ShareArrays = tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, ByteArray]
"""Variances, (n,); their parts of single units: alone, in all sets, in equal parts, (n, n_units) each; of
pairs of units, (n, n_units, n_units); the error bound of the parts, relative to the variance, (n,); method
codes, (n,)."""
Answer = tuple[FloatArray, FloatArray, ByteArray]
"""Gaps, (n,) or (n, k); the error bound of each row's gaps, (n,); codes of `_core.METHODS`, (n,)."""

BEAM_WIDTH: Final = 8
"""How many orders of each length a search keeps."""

_SET_BYTES: Final = 1 << 30  # limit of memory for the sets of categories in splits


class Engine:
    """The kernels of a model with all its outputs, and the laws of its features.

    In all methods `rows` are (n, d) as `Ensemble.cast` gives them, `masks` are the perturbed features, (1, d)
    for all rows or (n, d), and `order` is a ranking, (1, k) for all rows or (n, k). `tell`, if not None, is
    called with the number of rows done. `members`, if not None, are the features of each unit: these move at
    the same time and are ranked as one, and each feature is in one unit. Orders and scores are then those of
    units.
    """

    def __init__(
        self, ensemble: Ensemble, laws: dict[int, Law], n_threads: int = 1, strategy: Strategy | None = None
    ) -> None:
        e = ensemble
        self.ensemble, self.laws, self.n_threads, self.strategy = ensemble, laws, n_threads, strategy
        self.kernels = _core.Engine(
            e.n_features,
            e.n_outputs,
            e.root,
            e.target,
            e.feature,
            e.threshold,
            e.left,
            e.right,
            e.default_left.view(np.uint8),
            e.value,
            *_level_sets(e),
        )
        self.used: BoolArray = np.zeros(e.n_features, dtype=np.bool_)  # features that some split tests
        self.used[e.feature[e.feature != LEAF]] = True
        self._noise = KernelNoise(self.kernels, ensemble, laws)
        self._every = np.ones((1, e.n_features), dtype=np.bool_)
        self._accuracies: dict[Accuracy, _core.Accuracy] = {}
        self._joint_outputs: Engine | None = None  # see `joint_moments`

    def __reduce__(self) -> tuple[Any, ...]:
        return Engine, (self.ensemble, self.laws, self.n_threads, self.strategy)

    def __copy__(self) -> Self:
        other = object.__new__(type(self))  # by __reduce__ the kernels would be built again
        other.__dict__.update(self.__dict__)
        return other

    def method_for(self, method: str) -> str:
        """The method to answer by if `method` is asked for; PredgapError if the noise does not allow it."""
        return method

    def gap(self, rows: FloatArray, masks: BoolArray, accuracy: Accuracy, tell: Tell = None) -> Answer:
        """The gap of each row, (n,)."""
        subsets, promised = _as_bytes(masks), self._accuracy(accuracy)

        def ask(part: slice, mine: _core.Rows, tell: Tell) -> Answer:
            return _core.gap(mine, _rows_of(subsets, part), promised, self.n_threads, tell)

        return self._in_parts(rows, masks, tell, ask)

    def curve(
        self,
        rows: FloatArray,
        order: IntArray,
        accuracy: Accuracy,
        tell: Tell = None,
        members: Members | None = None,
    ) -> Answer:
        """The gaps (n, k) of the first feature of an order, the first two, and so on."""
        promised, units = self._accuracy(accuracy), self._units(members)

        def ask(part: slice, mine: _core.Rows, tell: Tell) -> Answer:
            return _core.curve(mine, _rows_of(order, part), promised, self.n_threads, tell, units)

        return self._in_parts(rows, self.features_of(order, members), tell, ask)

    def mean_change(self, rows: FloatArray, masks: BoolArray, tell: Tell = None) -> FloatArray:
        """E[f(x')] - f(x), (n, n_outputs), exact up to rounding."""
        subsets = _as_bytes(masks)

        def ask(part: slice, mine: _core.Rows, tell: Tell) -> tuple[FloatArray]:
            return (_core.mean_change(mine, _rows_of(subsets, part), self.n_threads, tell),)

        return self._in_parts(rows, masks, tell, ask)[0]

    def margins(self, rows: FloatArray) -> FloatArray:
        """f(x), (n, n_outputs)."""

        def ask(part: slice, mine: _core.Rows, tell: Tell) -> tuple[FloatArray]:
            return (_core.value(mine, self.n_threads) + self.ensemble.bias,)

        return self._in_parts(rows, ~self._every, None, ask)[0]  # nothing moves

    def main_weights(
        self, rows: FloatArray, masks: BoolArray, accuracy: Accuracy, tell: Tell = None
    ) -> Answer:
        """The weights of the main effects of the only output, (n, n_thresholds): what feature q changes on
        average, as a function of x'_q, is Σ_c weight_c (1[x'_q < c] - P(x'_q < c)) over its thresholds c."""
        subsets, promised = _as_bytes(masks), self._accuracy(accuracy)

        def ask(part: slice, mine: _core.Rows, tell: Tell) -> Answer:
            return _core.main_weights(mine, _rows_of(subsets, part), promised, self.n_threads, tell)

        return self._in_parts(rows, masks, tell, ask)

    def moments(
        self, rows: FloatArray, masks: BoolArray, accuracy: Accuracy, tell: Tell = None
    ) -> MomentArrays:
        """Mean changes and covariances of the outputs; a tolerance is relative to the gap.

        Off the diagonal covariances are NaN if each output has trees of its own; see `joint_moments`.
        """
        subsets, promised = _as_bytes(masks), self._accuracy(accuracy)

        def ask(part: slice, mine: _core.Rows, tell: Tell) -> MomentArrays:
            return _core.moments(mine, _rows_of(subsets, part), promised, self.n_threads, tell)

        return self._in_parts(rows, masks, tell, ask)

    def joint_moments(
        self, rows: FloatArray, masks: BoolArray, accuracy: Accuracy, tell: Tell = None
    ) -> MomentArrays:
        """Moments with all covariances, which need terms that the outputs share: trees of single outputs get
        vectors for leaves."""
        if self.ensemble.n_outputs == self.ensemble.value.shape[1]:
            return self.moments(rows, masks, accuracy, tell)
        if self._joint_outputs is None:
            joint = with_vector_leaves(self.ensemble)
            self._joint_outputs = Engine(joint, self.laws, self.n_threads, self.strategy)
        return self._joint_outputs.moments(rows, masks, accuracy, tell)

    def sensitivity(
        self, rows: FloatArray, accuracy: Accuracy, tell: Tell = None, members: Members | None = None
    ) -> ShareArrays:
        """The variance when all units move, and the parts of it that units and pairs of them make up."""
        promised, units = self._accuracy(accuracy), self._units(members)

        def ask(part: slice, mine: _core.Rows, tell: Tell) -> ShareArrays:
            found = _core.sensitivity(mine, promised, self.n_threads, tell, units)
            variance, alone, *rest = found
            return variance, *alone, *rest

        return self._in_parts(rows, self._every, tell, ask)

    def rank(
        self,
        rows: FloatArray,
        method: RankingMethod,
        top: int,
        accuracy: Accuracy,
        tell: Tell = None,
        members: Members | None = None,
    ) -> tuple[IntArray, FloatArray, ByteArray, FloatArray, ByteArray]:
        """Rankings: order (n, top), scores (n, d), whether each place is proven (n, top), error bounds (n,),
        and method codes (n,)."""
        promised, units = self._accuracy(accuracy), self._units(members)

        def ask(
            part: slice, mine: _core.Rows, tell: Tell
        ) -> tuple[IntArray, FloatArray, ByteArray, FloatArray, ByteArray]:
            return _core.rank(mine, method, top, promised, self.n_threads, tell, units)

        return self._in_parts(rows, self._every, tell, ask)

    def moving_units(self, rows: FloatArray, members: Members | None = None) -> BoolArray:
        """Which units can change the prediction of each row, (n, n_units); all others never do."""
        units = self._units(members)

        def ask(part: slice, mine: _core.Rows, tell: Tell) -> tuple[BoolArray]:
            return (_core.moving_units(mine, self.n_threads, units).view(np.bool_),)

        return self._in_parts(rows, self._every, None, ask)[0]

    def subset_gaps(
        self,
        rows: FloatArray,
        chosen: IntArray,
        share: FloatArray,
        accuracy: Accuracy,
        tell: Tell = None,
        members: Members | None = None,
    ) -> Answer:
        """The gaps (n, 2^m) of all subsets of some units (n, m) of each row; bit i of a subset's number says
        whether it has the row's unit i.

        A tolerance is relative to the sum over sizes of `share` (m + 1,) times the mean gap of that size.
        """
        promised, units = self._accuracy(accuracy), self._units(members)

        def ask(part: slice, mine: _core.Rows, tell: Tell) -> Answer:
            return _core.subset_gaps(mine, chosen[part], share, promised, self.n_threads, tell, units)

        return self._in_parts(rows, self._every, tell, ask)

    def search(
        self,
        rows: FloatArray,
        chosen: IntArray,
        n_places: int,
        accuracy: Accuracy,
        tell: Tell = None,
        members: Members | None = None,
    ) -> tuple[IntArray, FloatArray, FloatArray, ByteArray]:
        """Orders of some of the units (n, m) with large gaps, by a beam search: orders and gaps of their
        prefixes, (n, n_places) each; error bounds and method codes, (n,)."""
        promised, units = self._accuracy(accuracy), self._units(members)

        def ask(
            part: slice, mine: _core.Rows, tell: Tell
        ) -> tuple[IntArray, FloatArray, FloatArray, ByteArray]:
            return _core.search(
                mine, chosen[part], n_places, BEAM_WIDTH, promised, self.n_threads, tell, units
            )

        return self._in_parts(rows, self._every, tell, ask)

    def tossing(self, t: float, features: BoolArray) -> Engine:
        """The same engine, with each of some features (d,) moving with probability t and else staying."""
        other = copy.copy(self)
        other.laws = {q: StayLaw(law, 1.0 - t, t) if features[q] else law for q, law in self.laws.items()}
        other._noise = KernelNoise(self.kernels, self.ensemble, other.laws, warns=False)
        other._joint_outputs = None
        return other

    def cost(
        self,
        rows: FloatArray,
        question: Question,
        masks: BoolArray,
        top: int,
        accuracy: Accuracy,
        members: Members | None = None,
    ) -> tuple[ByteArray, FloatArray, FloatArray]:
        """The expected cost of a question about the features in `masks`: method codes, milliseconds and
        megabytes, each (n,)."""
        features, promised, units = _as_bytes(masks), self._accuracy(accuracy), self._units(members)

        def ask(part: slice, mine: _core.Rows, tell: Tell) -> tuple[ByteArray, FloatArray, FloatArray]:
            return _core.cost(mine, question, _rows_of(features, part), top, promised, units)

        return self._in_parts(rows, masks, None, ask)

    def typical_rows(self) -> FloatArray:
        """A few rows (m, d) made up from the model's thresholds, all of which the noise can perturb."""
        return self._noise.without_cells(self.kernels.typical_rows())

    def sample(
        self,
        rows: FloatArray,
        mask: BoolArray,
        points: FloatArray,
        ends: NDArray[np.int64],
        output: int = 0,
        tell: Tell = None,
    ) -> FloatArray:
        """Sums over samples of f(x') - f(x), of its square and of its fourth power, (n, s, 3).

        `points` (1 or n, m, k) are samples in the unit cube with one coordinate per feature in the mask (d,).
        The m points are summed in s consecutive parts, which end at `ends` (s,).
        """
        subset = mask.view(np.uint8)

        def ask(part: slice, mine: _core.Rows, tell: Tell) -> tuple[FloatArray]:
            own = _rows_of(points, part)
            return (_core.sample(mine, output, subset, own, ends, self.n_threads, tell),)

        return self._in_parts(rows, mask[None], tell, ask)[0]

    def sample_changes(self, rows: FloatArray, mask: BoolArray, points: FloatArray) -> FloatArray:
        """f(x') - f(x) at each point, (n, n_outputs, m); points as for `sample`."""
        subset = mask.view(np.uint8)

        def ask(part: slice, mine: _core.Rows, tell: Tell) -> tuple[FloatArray]:
            return (_core.sample_changes(mine, subset, _rows_of(points, part), self.n_threads, tell),)

        return self._in_parts(rows, mask[None], None, ask)[0]

    def outcomes(self, row: FloatArray, mask: BoolArray) -> tuple[FloatArray, FloatArray] | None:
        """All values of f(x') - f(x) of one row (1, d) if the features of a mask (1, d) move: probabilities
        (m,) and changes (n_outputs, m). None if there are too many to list."""
        return _core.outcomes(next(self._parts(row, mask))[1], _as_bytes(mask))

    def change_range(self, rows: FloatArray, masks: BoolArray, tell: Tell = None) -> FloatArray:
        """A range that holds 0 and all values of f(x') - f(x), (n, n_outputs, 2)."""
        subsets = _as_bytes(masks)

        def ask(part: slice, mine: _core.Rows, tell: Tell) -> tuple[FloatArray]:
            return (_core.change_range(mine, _rows_of(subsets, part), self.n_threads, tell),)

        return self._in_parts(rows, masks, tell, ask)[0]

    def sample_curve(
        self,
        rows: FloatArray,
        order: IntArray,
        points: FloatArray,
        column: IntArray,
        n_replicates: int,
        tell: Tell = None,
        members: Members | None = None,
    ) -> FloatArray:
        """Sums (n, n_replicates, k) over samples of (f(x') - f(x))² when the first 1, ..., k features of an
        order are perturbed. `points` (m, c) are in the unit cube; feature j has coordinate `column[j]`."""
        units = self._units(members)

        def ask(part: slice, mine: _core.Rows, tell: Tell) -> tuple[FloatArray]:
            own = _rows_of(order, part)
            return (_core.sample_curve(mine, own, points, column, n_replicates, self.n_threads, tell, units),)

        return self._in_parts(rows, self.features_of(order, members), tell, ask)[0]

    def race(
        self,
        rows: FloatArray,
        method: RankingMethod,
        top: int,
        points: FloatArray,
        column: IntArray,
        look_end: NDArray[np.int64],
        n_replicates: int,
        clear: float,
        tell: Tell = None,
        members: Members | None = None,
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """Rankings from samples: order (n, top), scores (n, d), and by how many standard errors each place
        leads over the closest other candidate, (n, top). See `racing`."""
        units = self._units(members)

        def ask(part: slice, mine: _core.Rows, tell: Tell) -> tuple[IntArray, FloatArray, FloatArray]:
            return _core.race(
                mine, method, top, points, column, look_end, n_replicates, clear, self.n_threads, tell, units
            )

        return self._in_parts(rows, self._every, tell, ask)

    def features_of(self, order: IntArray, members: Members | None = None) -> BoolArray:
        """Which features occur in each row of an order, as masks (1 or n, d)."""
        n_units = self.ensemble.n_features if members is None else len(members)
        if order.shape[1] == n_units:
            return self._every
        masks = np.zeros((len(order), n_units), dtype=np.bool_)
        np.put_along_axis(masks, order.astype(np.intp), True, axis=1)
        return masks if members is None else masks[:, unit_of_each(members)]

    def _units(self, members: Members | None) -> _core.Units | None:
        """The units for the kernels; None if each feature is one."""
        if members is None or all(len(unit) == 1 for unit in members):
            return None
        ends = np.cumsum([0, *map(len, members)], dtype=np.int32)
        return _core.Units(ends, np.concatenate([np.array(unit, dtype=np.int32) for unit in members]))

    def _accuracy(self, accuracy: Accuracy) -> _core.Accuracy:
        made = self._accuracies.get(accuracy)
        if made is None:
            made = _core.Accuracy(accuracy.kind, accuracy.tolerance, self.strategy or "auto")
            self._accuracies[accuracy] = made
        return made

    def _in_parts(
        self,
        rows: FloatArray,
        masks: BoolArray,
        tell: Tell,
        ask: Callable[[slice, _core.Rows, Tell], Arrays],
    ) -> Arrays:
        """Calls `ask` for each part of the rows and joins the answers; without rows, for one empty part."""
        found = []
        for part, mine in self._parts(rows, masks):
            try:
                found.append(ask(part, mine, watching(after(tell, part.start))))
            except _core.TooCostly as refused:
                row, *takes = refused.args
                raise _core.TooCostly(part.start + row, *takes) from None
            if tell is not None:
                tell(part.stop)  # kernels call `tell` from time to time; not at all if a part is quick
        if len(found) == 1:
            return found[0]
        joined = tuple(np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return cast(Arrays, joined)

    def _parts(self, rows: FloatArray, masks: BoolArray) -> Iterator[tuple[slice, _core.Rows]]:
        n, (x, still) = len(rows), self._noise.with_cells(rows, masks)
        step = self._noise.rows_at_once or max(n, 1)
        for first in range(0, max(n, 1), step):
            part = slice(first, min(first + step, n))
            kept = None if still is None else still[part]
            yield part, self._noise.rows(x[part], kept, _rows_of(masks, part))


def _rows_of(array: NDArray[Any], part: slice) -> NDArray[Any]:
    """The part of an array that belongs to some rows; all of it if it has one row for all."""
    return array if len(array) == 1 else array[part]


def any_member(features: BoolArray, members: Members) -> BoolArray:
    """Which units have a feature of these (n, d), (n, n_units)."""
    units = [features[:, list(unit)].any(axis=1) for unit in members]
    return np.stack(units, axis=1) if units else np.zeros((len(features), 0), dtype=np.bool_)


def unit_of_each(members: Members) -> IndexArray:
    """The unit of each feature, (d,)."""
    units = np.empty(sum(map(len, members)), dtype=np.intp)
    for number, unit in enumerate(members):
        units[list(unit)] = number
    return units


def _as_bytes(masks: BoolArray) -> ByteArray:
    return np.ascontiguousarray(masks).view(np.uint8)


def _level_sets(e: Ensemble) -> tuple[IntArray, ...]:
    """The sets of categories in splits, as arrays for the kernels.

    They are: the set of each node (NUMERIC if none), the number of category levels of each feature (-1 if
    numeric), the feature of each set, where each set begins, and the members of all sets. A member is an
    index among the category levels of the feature, not a code.
    """
    categorical = e.categorical()
    n_levels = np.full(e.n_features, -1, dtype=np.int32)
    for q, levels in categorical.items():
        n_levels[q] = len(levels)
    nodes = np.flatnonzero((e.feature != LEAF) & (e.category_set != NUMERIC))
    size = float((n_levels[e.feature[nodes]] / 8.0).sum())
    if size > _SET_BYTES:
        raise CostError(
            f"{len(nodes):,} splits on features of up to {n_levels.max():,} categories need "
            f"{size / 1e6:,.0f} MB; the limit is {_SET_BYTES / 1e6:,.0f} MB. Train with fewer categories"
        )
    pairs, which = np.unique(np.stack([e.feature[nodes], e.category_set[nodes]]), axis=1, return_inverse=True)
    of_node = np.full(e.n_nodes, NUMERIC, dtype=np.int32)
    of_node[nodes] = which.reshape(-1)
    places = [
        categorical[int(q)].levels_of(e.set_code[e.set_begin[s] : e.set_begin[s + 1]].astype(np.float64))
        for q, s in pairs.T
    ]
    begin = np.cumsum([0, *map(len, places)], dtype=np.int32)
    levels_in = np.concatenate([*places, np.empty(0)]).astype(np.int32)
    return of_node, n_levels, np.ascontiguousarray(pairs[0], dtype=np.int32), begin, levels_in


def resolve_n_jobs(n_jobs: int) -> int:
    """The number of threads for `n_jobs`; -1 is all cores. PredgapError if it is not a valid number.

    Examples
    --------
    >>> resolve_n_jobs(1)
    1
    """
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or (n_jobs < 1 and n_jobs != -1):
        raise PredgapError(f"n_jobs is {shown(n_jobs)}, expected a number of threads, or -1 for all cores")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if n_jobs < 0 else min(int(n_jobs), 4 * cores)  # more threads would only wait for each other
