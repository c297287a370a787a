"""Joint redraws by definition: a gap is a mean over the rows of a table; and cases to compare with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import chain, combinations, pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from predgap import Background, Explainer
from predgap._model.ensemble import ALL_OUTPUTS, Ensemble
from reference import Row, leaf_of
from strategies import GRID, PLAIN, ensemble_of, ensembles, mixed_ensembles, mixed_rows, points, trees


class RedrawnRow(Row):
    """One row x: PG²(x, S) is the mean over the rows b of (f(x with x_S := b_S) - f(x))², in fractions.

    S are units, each of one or more features; without them each feature is one. With several outputs the
    squares are added up.
    """

    def __init__(
        self, ensemble: Ensemble, background: np.ndarray, x: Any, units: Sequence[Sequence[int]] | None = None
    ) -> None:
        self._ensemble = ensemble
        self._background = ensemble.cast(background)
        (self._x,) = ensemble.cast(np.asarray(x)[None])
        self._units = units if units is not None else [[q] for q in range(ensemble.n_features)]
        self.d = len(self._units)
        self._gap, self._scale = cache(self._mean_square), cache(self._error_scale)
        self._leaves = cache(self._leaves_of)

    def _leaves_of(self, b: int, subset: frozenset[int]) -> list[int]:
        redrawn = self._x.copy()
        features = [q for u in subset for q in self._units[u]]
        redrawn[features] = self._background[b, features]
        return [leaf_of(self._ensemble, root, redrawn) for root in self._ensemble.root]

    def _change(self, tree: int, leaf: int) -> list[Fraction]:
        """Of each output, if the tree's leaf becomes this one."""
        e, change = self._ensemble, [Fraction(0)] * self._ensemble.n_outputs
        old = self._leaves(0, frozenset())[tree]
        by = [Fraction(new) - Fraction(was) for new, was in zip(e.value[leaf], e.value[old], strict=True)]
        if e.target[tree] == ALL_OUTPUTS:
            return by
        change[e.target[tree]] = by[0]
        return change

    def changes(self, subset: Iterable[int]) -> Iterator[list[Fraction]]:
        """f(x with x_S := b_S) - f(x) of each row b."""
        for b in range(len(self._background)):
            total = [Fraction(0)] * self._ensemble.n_outputs
            for tree, leaf in enumerate(self._leaves(b, frozenset(subset))):
                total = [a + c for a, c in zip(total, self._change(tree, leaf), strict=True)]
            yield total

    def _mean_square(self, subset: frozenset[int]) -> Fraction:
        squares = [sum((by**2 for by in change), Fraction(0)) for change in self.changes(subset)]
        return sum(squares, Fraction(0)) / len(self._background)

    def _error_scale(self, subset: frozenset[int]) -> float:
        """n_trees · the mean over b of Σ_u g_u², over the leaves u that x reaches if some of S are b's."""
        some = [*chain.from_iterable(combinations(subset, k) for k in range(len(subset) + 1))]
        total = Fraction(0)
        for b in range(len(self._background)):
            reached = zip(*(self._leaves(b, frozenset(moved)) for moved in some), strict=True)
            for tree, leaves in enumerate(reached):
                total += sum(by**2 for leaf in {*leaves} for by in self._change(tree, leaf))
        return len(self._ensemble.root) * float(total / len(self._background))

    def _assert_first(self, chosen: int, subsets: dict[int, list[int]]) -> None:
        """Up to rounding no candidate is better, and none of a lower index is as good."""
        gaps = {i: self.gap(subset) for i, subset in subsets.items()}
        best = max(gaps, key=lambda i: gaps[i])
        bound = max(self.bound(subsets[best]), self.bound(subsets[chosen]))
        assert float(gaps[best] - gaps[chosen]) <= 16 * bound, f"{chosen} is taken before {best}"
        tie = 1e-12 / 16 * float(gaps[best])
        for i in gaps:
            assert i >= chosen or gaps[best] - gaps[i] > tie, f"{chosen} is taken before {i}, as good"


@dataclass(frozen=True)
class Case:
    ensemble: Ensemble
    X: np.ndarray
    background: np.ndarray

    def explainer(self, **options: Any) -> Explainer:
        return Explainer(self.ensemble, Background(self.background), **options)

    def rows(self, units: Sequence[Sequence[int]] | None = None) -> list[RedrawnRow]:
        return [RedrawnRow(self.ensemble, self.background, x, units) for x in self.X]


@st.composite
def several_outputs(draw: st.DrawFn) -> Ensemble:
    """Leaves are vectors, or each tree adds to one output."""
    d = draw(st.integers(1, 4))
    value = st.sampled_from(PLAIN)
    if draw(st.booleans()):
        leaves = st.tuples(value, value, value)
        grown = draw(st.lists(trees(range(d), GRID, leaves, 3), min_size=1, max_size=3))
        return ensemble_of(grown, d, targets=[ALL_OUTPUTS] * len(grown), n_outputs=3)
    grown = draw(st.lists(trees(range(d), GRID, value, 3), max_size=4))
    targets = [draw(st.integers(0, 1)) for _ in grown]
    return ensemble_of(grown, d, targets=targets, n_outputs=2)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Rows and backgrounds at thresholds and one float off them, infinite, missing, of unknown categories."""
    if draw(st.integers(0, 2)) == 0:
        ensemble = draw(mixed_ensembles())
        row = mixed_rows(ensemble)
        known = [0.0 if c is None or len(c) == 0 else c.codes[0] for c in ensemble.categories or ()]
        first = [np.array(known, dtype=float)] if known else []  # a column of unknown categories is refused
    else:
        ensemble = draw(st.one_of(ensembles(), several_outputs()))
        row, first = points(ensemble), []
    X = draw(st.lists(row, min_size=1, max_size=2))
    background = [*first, *draw(st.lists(row, min_size=1, max_size=5))]
    return Case(ensemble, np.array(X, dtype=float), np.array(background, dtype=float))


@st.composite
def partitions(draw: st.DrawFn, d: int) -> list[list[int]]:
    """Units of the features 0, ..., d - 1, in any order."""
    order, units = draw(st.permutations(range(d))), draw(st.lists(st.integers(1, 3), min_size=d, max_size=d))
    cuts = [0, *(int(c) for c in np.cumsum(units) if c < d), d]
    return [[*order[a:b]] for a, b in pairwise(cuts)]
