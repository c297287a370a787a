"""Rewrites an ensemble in other features, each old column being a function of one new feature.

A column may be a function of the levels of a category (`Levels`), as a dummy is, or a monotone function of a
number (`Line`), as a scaled column is. Every row of new features then goes where its old columns go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from predgap._inputs.categories import UNSEEN, Categories
from predgap._inputs.one_hot import OneHot
from predgap._inputs.tables import Table, read_table
from predgap._model.ensemble import LEAF, NUMERIC, Ensemble, used_features
from predgap._typing import BoolArray, FloatArray, IndexArray, IntArray
from predgap.errors import EnsembleError

__all__ = ["DummyTables", "Levels", "Line", "rewritten", "with_categories"]

_LARGEST: Final = float(np.finfo(np.float64).max)
_GROWTH: Final = 8  # an ensemble may become this many times larger


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """An old column that is a function of the level of a new categorical feature.

    Values are as the old ensemble casts them: NaN counts as missing.
    """

    feature: int
    codes: IntArray  # (m,) the levels of the new feature
    values: FloatArray  # (m,) the old column at each of them
    unseen: float | None  # the old column at a category that is no level; None if there is none
    missing: float  # the old column where the new feature is missing


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """An old column that rises or falls with a new numeric feature x.

    For a rising column, old < thresholds[i] iff x < cuts[i]; for a falling one iff x >= cuts[i]. A cut may
    be infinite.
    """

    feature: int
    thresholds: FloatArray  # (k,) all that the old ensemble compares the column with, ascending
    cuts: FloatArray  # (k,)
    rising: bool = True
    holes: tuple[tuple[float, float], ...] = ()  # low <= x < high: the old column counts as missing
    missing: float = float("nan")  # the old column where x is missing


class _Subset(NamedTuple):
    """A split on levels: left iff the code is in `codes`; `swap` exchanges the children of the old node."""

    feature: int
    codes: tuple[int, ...]
    swap: bool
    default_left: bool


class _Steps(NamedTuple):
    """A split on a number: left[i] says which way x goes between breaks[i - 1] and breaks[i]."""

    feature: int
    breaks: tuple[float, ...]  # ascending, finite
    left: tuple[bool, ...]  # one more, each differs from the one before
    missing_left: bool


_Test = _Subset | _Steps | bool  # True and False: all rows go left, right


def rewritten(
    ensemble: Ensemble,
    columns: Sequence[Levels | Line | None],
    *,
    n_features: int,
    categories: Sequence[Categories | None],
    **fields: Any,
) -> Ensemble:
    """The ensemble in new features.

    Parameters
    ----------
    ensemble : Ensemble
        In the old columns.
    columns : sequence of Levels, Line or None
        What each old column is. None is allowed for columns that no split uses.
    n_features : int
        The number of new features.
    categories : sequence of Categories or None
        The levels of each new feature, None for a numeric one.
    **fields
        Other fields of the new ensemble that differ from the old one's.

    Raises
    ------
    EnsembleError
        If the new ensemble would be more than eight times as large as the old one.
    """
    tests, of_node = _tests(ensemble, columns)
    sets = {test.codes: 0 for test in tests if isinstance(test, _Subset)}
    for place, codes in enumerate(sets):
        sets[codes] = place
    simple = all(not isinstance(t, bool) and (isinstance(t, _Subset) or len(t.breaks) == 1) for t in tests)
    arrays, all_numbers = (
        (_replaced_nodes(ensemble, tests, of_node, sets), True)
        if simple
        else _Builder(ensemble, tests, of_node, sets).arrays()
    )
    largest = min(fields.pop("largest", ensemble.largest), np.inf if all_numbers else _LARGEST)
    return replace(
        ensemble,
        **arrays,
        largest=largest,
        set_begin=np.cumsum([0, *map(len, sets)]),
        set_code=np.array([code for codes in sets for code in codes], dtype=np.int32),
        n_features=n_features,
        categories=tuple(categories),
        **fields,
    )


# ---- the test of a node --------------------------------------------------------------------------


def _tests(e: Ensemble, columns: Sequence[Levels | Line | None]) -> tuple[list[_Test], IntArray]:
    """The different tests of all nodes, and the number of each node's test, -1 at leaves."""
    tests: list[_Test] = []
    of_node = np.full(e.n_nodes, -1)
    for j in used_features(e):
        column = columns[j]
        assert column is not None, f"column {j} is used"
        nodes = np.flatnonzero(e.feature == j)
        keys = np.stack([e.threshold[nodes], e.category_set[nodes], e.default_left[nodes]], axis=1)
        first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)[1:]
        of_node[nodes] = len(tests) + which.reshape(-1)
        if isinstance(column, Levels):
            tests += _subsets(e, column, nodes[first])
        else:
            tests += [_steps(e, column, node) for node in nodes[first].tolist()]
    return tests, of_node


def _subsets(e: Ensemble, column: Levels, nodes: IndexArray) -> Iterator[_Test]:
    """The test of each of these nodes, which all split on the same column."""
    is_open = column.unseen is not None
    values = np.array([*column.values, column.unseen if is_open else np.nan, column.missing], dtype=float)
    for node in nodes.tolist():
        left = _goes_left(e, node, values)
        *at_levels, unseen, missing = left.tolist()
        reached = {*at_levels, missing, *([unseen] if is_open else [])}
        if len(reached) == 1:
            yield missing
            continue
        swap = unseen if is_open else 2 * sum(at_levels) > len(at_levels)
        codes = column.codes[left[:-2] ^ swap]
        yield _Subset(column.feature, tuple(codes.tolist()), swap, missing ^ swap)


def _goes_left(e: Ensemble, node: int, values: FloatArray) -> BoolArray:
    which = e.category_set[node]
    if which == NUMERIC:
        left = values < e.threshold[node]
    else:
        left = np.isin(values, e.set_code[e.set_begin[which] : e.set_begin[which + 1]])
    found: BoolArray = np.where(np.isnan(values), e.default_left[node], left)
    return found


def _steps(e: Ensemble, column: Line, node: int) -> _Test:
    threshold, default = e.threshold[node], bool(e.default_left[node])
    at = int(np.searchsorted(column.thresholds, threshold))
    assert column.thresholds[at] == threshold
    cut = float(column.cuts[at])
    low = column.rising  # does the lower side go left?
    breaks = sorted({cut, *(end for hole in column.holes for end in hole)} - {-np.inf, np.inf})
    left = []
    for start in (-np.inf, *breaks):
        in_hole = any(a <= start < b for a, b in column.holes)
        left.append(default if in_hole else low if start < cut else not low)
    kept = [i for i, (before, after) in enumerate(pairwise(left)) if before != after]
    missing = default if np.isnan(column.missing) else bool(column.missing < threshold)
    if not kept and left[0] == missing:
        return missing
    return _Steps(
        column.feature,
        tuple(breaks[i] for i in kept),
        (left[0], *(left[i + 1] for i in kept)),
        missing,
    )


# ---- nodes ---------------------------------------------------------------------------------------


def _replaced_nodes(
    e: Ensemble, tests: list[_Test], of_node: IntArray, sets: dict[tuple[int, ...], int]
) -> dict[str, Any]:
    """The node arrays if every node has one new test, and no node is added or left out."""
    rows = [(LEAF, 0.0, NUMERIC, False, False)]  # of leaves, whose test is -1: kept last
    for test in tests:
        assert not isinstance(test, bool)
        if isinstance(test, _Subset):
            row = test.feature, 0.0, sets[test.codes], test.default_left, test.swap
        else:
            upward = not test.left[0]
            row = test.feature, test.breaks[0], NUMERIC, test.missing_left ^ upward, upward
        rows.append(row)
    feature, threshold, category_set, default_left, swap = (
        np.array([row[k] for row in rows])[of_node + 1] for k in range(5)
    )
    return {
        "feature": feature,
        "threshold": threshold,
        "category_set": category_set,
        "default_left": default_left,
        "left": np.where(swap, e.right, e.left),
        "right": np.where(swap, e.left, e.right),
    }


class _PathRange(NamedTuple):
    """The range of a numeric feature on a path: low <= x < high, or perhaps missing."""

    low: float
    high: float
    missing: bool


_ANYWHERE: Final = _PathRange(-np.inf, np.inf, True)
_PathRanges = dict[int, _PathRange]


class _Builder:
    """Builds trees anew where a node becomes several nodes, or none.

    A number with two or more breaks takes as many nodes in a row, and the subtrees below are copied. So the
    builder remembers where a number is on the path, and leaves out what it cannot reach.
    """

    def __init__(
        self, e: Ensemble, tests: list[_Test], of_node: IntArray, sets: dict[tuple[int, ...], int]
    ) -> None:
        self._e, self._tests, self._sets = e, tests, sets
        self._of_node = of_node.tolist()
        self._nodes: list[list[Any]] = []  # feature, threshold, left, right, default_left, set; old node
        self._waiting: list[tuple[int, _PathRanges, int, int]] = []  # old node, ranges, its parent and side
        self._limit = _GROWTH * e.n_nodes + 1000
        self._all_numbers = True  # is no test one that infinite values would get wrong?

    def arrays(self) -> tuple[dict[str, Any], bool]:
        """The fields of the new ensemble that describe nodes; and whether infinite values go right."""
        roots = []
        for root in self._e.root.tolist():
            roots.append(len(self._nodes))
            self._waiting.append((root, {}, -1, 0))
            while self._waiting:
                self._add(*self._waiting.pop())
        names = ("feature", "threshold", "left", "right", "default_left", "category_set")
        columns = list(zip(*self._nodes, strict=True)) or [()] * 7
        old = np.array(columns[6], dtype=np.intp)
        fields = {"root": np.array(roots, dtype=np.int32), "value": self._e.value[old]}
        return fields | dict(zip(names, columns, strict=False)), self._all_numbers

    def _add(self, node: int, ranges: _PathRanges, parent: int, side: int) -> None:
        """Adds the old node `node`, or what is left of it, as a child of the new node `parent`."""
        while self._e.feature[node] != LEAF:
            way = self._only_way(self._tests[self._of_node[node]], ranges)
            if way is None:
                break
            node = int((self._e.left if way else self._e.right)[node])
        if self._e.feature[node] == LEAF:
            self._append([LEAF, 0.0, LEAF, LEAF, False, NUMERIC, node], parent, side)
            return
        test = self._tests[self._of_node[node]]
        children = {True: int(self._e.left[node]), False: int(self._e.right[node])}
        if isinstance(test, _Subset):
            row = [test.feature, 0.0, LEAF, LEAF, test.default_left, self._sets[test.codes], node]
            new = self._append(row, parent, side)
            for k in (0, 1):
                self._waiting.append((children[(k == 0) ^ test.swap], ranges, new, k))
        elif isinstance(test, _Steps):
            self._add_steps(node, test, children, ranges, parent, side)

    def _only_way(self, test: _Test, ranges: _PathRanges) -> bool | None:
        """True if all rows that can come here go left, False if all go right; None if there may be both."""
        if isinstance(test, bool):
            return test
        if isinstance(test, _Subset):
            return None
        here = ranges.get(test.feature, _ANYWHERE)
        ways = {way for _, _, way in _pieces(test, here)} | ({test.missing_left} if here.missing else set())
        return ways.pop() if len(ways) == 1 else None

    def _add_steps(
        self, node: int, test: _Steps, children: dict[bool, int], ranges: _PathRanges, parent: int, side: int
    ) -> None:
        here, q = ranges.get(test.feature, _ANYWHERE), test.feature
        pieces = _pieces(test, here)
        if len(pieces) == 1:  # the numbers go one way, missing values the other
            low, high, way = pieces[0]
            numbers_left = low == -np.inf and high < np.inf
            threshold = high if numbers_left else max(low, -_LARGEST)
            self._all_numbers &= low > -np.inf or high < np.inf
            new = self._append([q, threshold, LEAF, LEAF, not numbers_left, NUMERIC, node], parent, side)
            for k in (0, 1):
                numbers = (k == 0) == numbers_left
                there = _PathRange(low, high, False) if numbers else _PathRange(np.inf, np.inf, True)
                self._waiting.append((children[way == numbers], ranges | {q: there}, new, k))
            return
        with_missing = [way for _, _, way in pieces].index(test.missing_left) if here.missing else -1
        for i, (low, high, way) in enumerate(pieces):
            in_piece = ranges | {q: _PathRange(low, high, i == with_missing)}
            if i == len(pieces) - 1:
                self._waiting.append((children[way], in_piece, parent, 1))
                break
            row = [q, high, LEAF, LEAF, i == with_missing, NUMERIC, node]
            parent, side = self._append(row, parent, side), 1
            self._waiting.append((children[way], in_piece, parent, 0))

    def _append(self, row: list[Any], parent: int, side: int) -> int:
        if len(self._nodes) >= self._limit:
            raise EnsembleError(
                f"rewritten in other features, the model would have more than {self._limit} nodes"
            )
        self._nodes.append(row)
        if parent >= 0:
            self._nodes[parent][2 + side] = len(self._nodes) - 1
        return len(self._nodes) - 1


def _pieces(test: _Steps, here: _PathRange) -> list[tuple[float, float, bool]]:
    """The parts of a range in which all numbers go one way: low, high, left."""
    ends = (-np.inf, *test.breaks, np.inf)
    found = []
    for (start, stop), way in zip(pairwise(ends), test.left, strict=True):
        low, high = max(start, here.low), min(stop, here.high)
        if low < high:
            found.append((low, high, way))
    return found


# ------------------------------------------------------------------------------------------------------------
# Dummies, which exclude each other, become one categorical feature.


@dataclass(frozen=True, slots=True, eq=False)
class DummyTables:
    """Reads tables with dummies for an ensemble in which they are categories."""

    one_hot: OneHot
    old: Ensemble  # with the dummies
    feature_space: None = None  # the features are the columns of X, but for dummies

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """The names of the features with the dummies."""
        return self.old.feature_names

    def table(self, X: Any, ensemble: Ensemble) -> Table:
        """X with one column per feature of the ensemble; TableError names a row with two dummies."""
        return self.one_hot.table(self._with_dummies(X))

    def own_values(self, X: Any, ensemble: Ensemble) -> FloatArray:
        """X with its dummies, (n, number of columns)."""
        return self._with_dummies(X).values

    def own_features(self, ensemble: Ensemble) -> Sequence[Sequence[int]]:
        """The dummies of each category; of any other feature, its column."""
        return self.one_hot.places

    def _with_dummies(self, X: Any) -> Table:
        old = self.old
        return read_table(X, old.n_features, old.feature_names, old.categories)


def with_categories(ensemble: Ensemble, one_hot: OneHot) -> Ensemble:
    """The ensemble with one categorical feature in place of the dummies of each category.

    A split on a dummy becomes a split on a set of levels. A level is a dummy that is 1 while the others of
    its category are 0, and one more level is that all are 0. Where the category is missing, all dummies are.

    Parameters
    ----------
    ensemble : Ensemble
        Its features include the dummies.
    one_hot : OneHot
        Which of them are dummies.

    Examples
    --------
    >>> stump = Ensemble(
    ...     root=[0], feature=[1, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1], right=[2, -1, -1],
    ...     default_left=[True, False, False], value=[[0.0], [1.0], [3.0]], target=[0], bias=[0.0],
    ...     n_features=3, feature_names=("age", "job_clerk", "job_nurse"))
    >>> one_hot = OneHot.of({"job": ["job_clerk", "job_nurse"]}, 3, stump.feature_names)
    >>> jobs = with_categories(stump, one_hot)
    >>> jobs.names, jobs.categories[1].labels
    (('age', 'job'), ('job_clerk', 'job_nurse', '(none)'))
    >>> jobs.predict([[40.0, 0], [40.0, 1], [40.0, 2]])
    array([3., 1., 1.])
    """
    columns: list[Levels | Line | None] = [None] * ensemble.n_features
    categories: list[Categories | None] = []
    old_levels = ensemble.categorical()
    for place, (old, levels) in enumerate(zip(one_hot.places, one_hot.levels, strict=True)):
        own = old_levels.get(old[0]) if levels is None else levels
        categories.append(own)
        if levels is not None:
            for j, column in zip(old, _dummies(ensemble, old, place, levels), strict=True):
                columns[j] = column
        elif own is not None:
            can_be_unseen = not own.closed and not ensemble.unseen_is_missing
            codes = own.codes.astype(np.float64)
            columns[old[0]] = Levels(place, own.codes, codes, UNSEEN if can_be_unseen else None, np.nan)
        else:
            thresholds = np.unique(ensemble.threshold[ensemble.feature == old[0]])
            columns[old[0]] = Line(place, thresholds, thresholds)
    return rewritten(
        ensemble,
        columns,
        n_features=len(one_hot.places),
        categories=categories,
        feature_names=one_hot.new_names
        if one_hot.named or len(one_hot.places) < len(one_hot.names)
        else None,
    )


def _dummies(ensemble: Ensemble, old: tuple[int, ...], place: int, levels: Categories) -> list[Levels]:
    """The dummies of one category, each as a function of its level."""
    rows = np.full((len(old) + 1, ensemble.n_features), np.nan)
    rows[:, list(old)] = np.eye(len(old) + 1, len(old))
    seen = ensemble.cast(rows)
    return [Levels(place, levels.codes, seen[:, j], None, np.nan) for j in old]
