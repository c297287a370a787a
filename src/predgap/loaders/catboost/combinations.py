"""Splits on CTRs of combinations become splits on one feature each.

Such a split is a table: which way it goes for each combination of categories, and of answers to its questions
about numbers. CatBoost combines what a tree has already split on, so the answers are mostly known, and so are
parts of the categories. For the rest the split is made in steps: the categories of one feature that go the
same ways together are told apart first, then those of the next. Each tree gives the same leaf as before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from predgap._typing import BoolArray, FloatArray, IntArray
from predgap.errors import UnsupportedModelError
from predgap.loaders.catboost.categories import HashedCategories, SetsOfQuestions, combined, found_at
from predgap.loaders.catboost.model import (
    CTR,
    NUMBER,
    ONE_HOT,
    CatBoostModel,
    Ctr,
    Nodes,
    Questions,
    ranks,
    shown_combination,
)

__all__ = ["rewritten"]

# The limits are for all trees that are rewritten, together.
_MAX_NODES: Final = 1 << 20
_MAX_CODES: Final = 1 << 24  # categories in new sets
_MAX_CELLS: Final = 1 << 25  # of the tables of combinations; each takes 4 bytes

Levels = tuple[int, ...]
"""Categories of a feature by their index; the last index is that of all others."""


class _CtrTable(NamedTuple):
    borders: tuple[tuple[int, float], ...]  # of numbers; one axis each
    features: tuple[int, ...]  # categorical; then one axis each
    rank: IntArray  # how many borders of the CTR are below


class _Path(NamedTuple):
    """A path to a node: the values that the rows that come there can have."""

    ranges: dict[int, tuple[float, float]]  # numeric features: low < x <= high
    levels: dict[int, Levels]  # categorical features


class _SplitOnNumber(NamedTuple):
    """A split on a number is needed first."""

    number: int
    border: float


class _SplitOnLevels(NamedTuple):
    """A split on a categorical feature is needed first."""

    feature: int
    left: Levels
    right: Levels  # without the last category


_Answer = bool | _SplitOnNumber | _SplitOnLevels  # True: right


def rewritten(
    model: CatBoostModel, categories: list[HashedCategories], sets: SetsOfQuestions
) -> tuple[CatBoostModel, SetsOfQuestions]:
    """The model, and its sets, without splits on combinations; they have new questions at the end.

    `categories` are those of the categorical features. UnsupportedModelError, which names the features, if
    there would be too many nodes or combinations.
    """
    if all(ctr.of.is_single for ctr in model.ctrs):
        return model, sets
    builder = _TreeRewriter(model, _KnownAnswers(model, categories))
    for tree in range(len(model.nodes.root)):
        builder.add(tree)
    feature = [q for q, _ in builder.new]
    codes = [categories[q].codes[list(levels)] for q, levels in builder.new]
    ends = sets.begin[-1] + np.cumsum([*map(len, codes)], dtype=np.int64)
    n, asked = len(codes), model.asked
    more = Questions(
        column=np.array([model.categorical[q].column for q in feature], dtype=np.int32),
        number=np.array(feature, dtype=np.int32),
        compared=np.zeros(n),
        kind=np.full(n, CTR, dtype=np.int8),
        missing_left=np.zeros(n, dtype=np.bool_),
    )
    return (
        model._replace(
            nodes=builder.nodes(),
            asked=_joined(asked, more),
        ),
        SetsOfQuestions(
            begin=np.append(sets.begin, ends).astype(np.int32),
            codes=np.concatenate([sets.codes, *codes]),
            right=np.append(sets.right, np.ones(n, dtype=np.bool_)),
        ),
    )


def _joined(one: Questions, other: Questions) -> Questions:
    both: list[Any] = [np.concatenate([a, b]) for a, b in zip(one, other, strict=True)]
    return Questions(*both)


# ---- what splits ask, and what is known ----


class _KnownAnswers:
    """Answers the questions of splits as far as what is known allows."""

    def __init__(self, model: CatBoostModel, categories: list[HashedCategories]) -> None:
        self._model = model
        asked = model.asked
        self._kind: list[int] = asked.kind.tolist()
        self._number: list[int] = asked.number.tolist()
        self._compared: list[float] = asked.compared.tolist()
        self._all = [tuple(range(len(own))) for own in categories]
        self._hashes = [own.hashes for own in categories]
        sizes = [len(ctr.borders) for ctr in model.ctrs]
        first = len(asked.kind) - sum(sizes)
        self.ctr = np.append(np.full(first, -1), np.repeat(np.arange(len(sizes)), sizes)).tolist()
        self._begin = np.append(first, first + np.cumsum(sizes)).tolist()
        self._tables: dict[int, _CtrTable] = {}
        self._n_cells = 0
        self._known: dict[Any, _Answer] = {}

    def is_combined(self, place: int) -> bool:
        ctr = self.ctr[place] if place >= 0 else -1
        return ctr >= 0 and not self._model.ctrs[ctr].of.is_single

    def answer(self, place: int, path: _Path) -> _Answer:
        if self._kind[place] == NUMBER:
            return _above(self._number[place], self._compared[place], path)
        table = self._table(place)
        answers = []
        for number, border in table.borders:
            above = _above(number, border, path)
            if not isinstance(above, bool):
                return above
            answers.append(int(above))
        levels = tuple(path.levels.get(q, self._all[q]) for q in table.features)
        key = place, *answers, levels
        if key not in self._known:
            ctr = self.ctr[place]
            border = place - self._begin[ctr] if ctr >= 0 else 0
            right = table.rank[tuple(answers)][np.ix_(*levels)] > border
            self._known[key] = self._split(table.features, levels, right)
        return self._known[key]

    def forget(self) -> None:
        """Other trees rarely ask the same."""
        self._known.clear()

    def _split(self, features: tuple[int, ...], levels: tuple[Levels, ...], right: BoolArray) -> _Answer:
        """The way to go, if it is known; else a first split, on the feature with the fewest classes."""
        if right.all() or not right.any():
            return bool(right.flat[0])
        by_axis = [_classes(own, right, axis) for axis, own in enumerate(levels)]
        axis = min((k for k, own in enumerate(by_axis) if len(own) > 1), key=lambda k: len(by_axis[k]))
        classes = by_axis[axis]
        halves = classes[: len(classes) // 2], classes[len(classes) // 2 :]
        one, other = (tuple(sorted(level for own in half for level in own)) for half in halves)
        last = len(self._all[features[axis]]) - 1
        left, in_set = (one, other) if one[-1] == last else (other, one)
        return _SplitOnLevels(features[axis], left, in_set)

    def _table(self, place: int) -> _CtrTable:
        ctr = self.ctr[place]
        key = ctr if ctr >= 0 else -1 - place
        if key not in self._tables:
            self._tables[key] = self._of_ctr(self._model.ctrs[ctr]) if ctr >= 0 else self._of_one_hot(place)
        return self._tables[key]

    def _of_one_hot(self, place: int) -> _CtrTable:
        assert self._kind[place] == ONE_HOT
        q = self._number[place]
        own = np.append(self._hashes[q] == int(self._compared[place]), False)
        return _CtrTable((), (q,), own.astype(np.int32))

    def _of_ctr(self, ctr: Ctr) -> _CtrTable:
        of = ctr.of
        features = tuple(dict.fromkeys([*of.categories, *(q for q, _ in of.exact)]))
        axis = {q: len(of.borders) + i for i, q in enumerate(features)}
        shape = [2] * len(of.borders) + [len(self._all[q]) for q in features]
        self._n_cells += math.prod(shape)
        if self._n_cells > _MAX_CELLS:
            raise _too_large(self._model, ctr, f"have more than {_MAX_CELLS:,} combinations of categories")

        def along(k: int, values: NDArray[Any]) -> NDArray[np.int64]:
            return values.astype(np.int64).reshape(-1, *[1] * (len(shape) - 1 - k))

        # The last category of each feature, all that are not known, has no hash; anything stands for it.
        parts = [along(axis[q], np.append(self._hashes[q], 0)) for q in of.categories]
        parts += [along(k, np.arange(2)) for k in range(len(of.borders))]
        parts += [along(axis[q], np.append(self._hashes[q] == value, 0)) for q, value in of.exact]
        at = found_at(np.broadcast_to(combined(parts), shape), ctr.counters.hashes)
        for q in of.categories:  # categories that are not known have no counters
            np.moveaxis(at, axis[q], -1)[..., -1] = -1
        return _CtrTable(of.borders, features, ranks(ctr)[at])


def _above(number: int, border: float, path: _Path) -> bool | _SplitOnNumber:
    low, high = path.ranges.get(number, (-np.inf, np.inf))
    return border <= low if border <= low or border >= high else _SplitOnNumber(number, border)


def _classes(levels: Levels, right: BoolArray, axis: int) -> list[list[int]]:
    """The levels of one axis, by the way they go."""
    found: dict[bytes, list[int]] = {}
    for level, row in zip(levels, np.moveaxis(right, axis, 0), strict=True):
        found.setdefault(row.tobytes(), []).append(level)
    return [*found.values()]


# ---- trees ----


class _TreeRewriter:
    """Adds trees one after the other; those that split on combinations are made anew."""

    def __init__(self, model: CatBoostModel, known: _KnownAnswers) -> None:
        self._model, self._known = model, known
        self._old = model.nodes
        self._n_questions = len(model.asked.kind)
        old = self._old
        self._end = np.append(old.root[1:], len(old.inner))
        self._place = np.full(len(old.inner), -1, dtype=np.int32)
        self._place[old.inner] = old.place
        self._leaf = np.cumsum(~old.inner) - 1  # the index of a leaf among all leaves
        self._of_number = {
            (number, border): place
            for place, (kind, number, border) in enumerate(
                zip(model.asked.kind, model.asked.number, model.asked.compared, strict=True)
            )
            if kind == NUMBER
        }
        self._n_made = self._n_codes = 0  # nodes, and categories of sets
        self.new: dict[tuple[int, Levels], int] = {}  # the question of each set that was made
        self._roots: list[int] = []
        self._n_nodes = 0
        self._parts: list[tuple[IntArray, IntArray, FloatArray]] = []  # place (-1: leaf), left, values

    def nodes(self) -> Nodes:
        place, left, value = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        inner = place >= 0
        return Nodes(
            root=np.array(self._roots, dtype=np.int32),
            inner=inner,
            place=place[inner],
            left=left,
            value=value,
            symmetric=False,
        )

    def add(self, tree: int) -> None:
        begin, end = int(self._old.root[tree]), int(self._end[tree])
        place, left = self._place[begin:end], self._old.left[begin:end] - begin
        value = self._old.value[self._leaf[begin:end][place < 0]]
        if any(map(self._known.is_combined, set(place.tolist()))):
            if self._old.symmetric:
                place, value = self._reordered(place, value)
            place, left, value = self._made(place.tolist(), left.tolist(), value)
        self._roots.append(self._n_nodes)
        self._parts.append((place, left + self._n_nodes, value))
        self._n_nodes += len(place)

    def _reordered(self, place: IntArray, value: FloatArray) -> tuple[IntArray, FloatArray]:
        """A symmetric tree, a heap, that asks about numbers first and about combinations last."""
        depth = len(place).bit_length() - 1
        asked = [int(place[2**k - 1]) for k in range(depth)]

        def n_parts(k: int) -> int:
            ctr = self._known.ctr[asked[k]]
            return sum(map(len, self._model.ctrs[ctr].of)) if ctr >= 0 else 0

        order = sorted(range(depth), key=n_parts)
        levels = np.repeat(np.array([asked[k] for k in order]), 1 << np.arange(depth))
        width = value.shape[1]
        moved = value.reshape(*(2,) * depth, width).transpose(*order, depth).reshape(-1, width)
        return np.append(levels, np.full(len(moved), -1)).astype(np.int32), moved

    def _made(
        self, place: Sequence[int], left: Sequence[int], value: FloatArray
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """A tree that splits on one feature at a time, breadth-first."""
        leaf = np.cumsum(np.array(place) < 0) - 1
        new_place, new_left, leaves = [-1], [-1], list[int]()
        waiting: list[tuple[int, _Path]] = [(0, _Path({}, {}))]
        for at, (node, path) in enumerate(waiting):  # children are appended while we iterate
            answer: _Answer = False
            while place[node] >= 0:
                answer = self._known.answer(place[node], path)
                if not isinstance(answer, bool):
                    break
                node = left[node] + answer
            if isinstance(answer, bool):
                leaves.append(int(leaf[node]))
                continue
            new_place[at], new_left[at] = self._asked(answer), len(waiting)
            waiting += [(node, there) for there in _ways(answer, path)]
            new_place += (-1, -1)
            new_left += (-1, -1)
            if self._n_made + len(waiting) > _MAX_NODES or self._n_codes > _MAX_CODES:
                ctr = max(self._known.ctr[p] for p in place if self._known.is_combined(p))
                would = f"take more than {_MAX_NODES:,} splits on one feature each, or too many categories"
                raise _too_large(self._model, self._model.ctrs[ctr], would)
        self._n_made += len(waiting)
        self._known.forget()
        return np.array(new_place, dtype=np.int32), np.array(new_left, dtype=np.int32), value[leaves]

    def _asked(self, answer: _SplitOnNumber | _SplitOnLevels) -> int:
        """The place of a question, which may be new."""
        if isinstance(answer, _SplitOnNumber):
            return self._of_number[answer]
        key = answer.feature, answer.right
        if key not in self.new:
            self.new[key] = self._n_questions + len(self.new)
            self._n_codes += len(answer.right)
        return self.new[key]


def _too_large(model: CatBoostModel, ctr: Ctr, would: str) -> UnsupportedModelError:
    shown = shown_combination(ctr.of, model.floats, model.categorical)
    return UnsupportedModelError(
        f"the model splits on statistics (CTRs) of combinations of features, such as {shown}, which would "
        f"{would}; train with max_ctr_complexity=1, fewer trees, or fewer categories"
    )


def _ways(answer: _SplitOnNumber | _SplitOnLevels, path: _Path) -> Iterator[_Path]:
    """Yields the paths left and right of a new split."""
    if isinstance(answer, _SplitOnNumber):
        low, high = path.ranges.get(answer.number, (-np.inf, np.inf))
        for ends in ((low, answer.border), (answer.border, high)):
            yield _Path(path.ranges | {answer.number: ends}, path.levels)
    else:
        for levels in (answer.left, answer.right):
            yield _Path(path.ranges, path.levels | {answer.feature: levels})
