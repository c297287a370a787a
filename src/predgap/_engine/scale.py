"""Questions that place a score between random and best: expected scores, the best ranking, Shapley values.

All are answered from the gaps of all subsets of the units that can change a row's prediction, if these are at
most `MOST_UNITS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from predgap._engine.accuracy import Accuracy
from predgap._engine.engine import Members
from predgap._engine.progress import Tell, after
from predgap._engine.questions import Computed, Ranked, words
from predgap._engine.subset_tables import best_orders, mean_by_size, random_shares, shapley_values
from predgap._typing import BoolArray, FloatArray, IndexArray
from predgap.errors import CostError

RankMethod = Literal["greedy", "single", "optimal", "shapley"]
"""How `Explainer.rank` can rank."""

MOST_UNITS: Final = 14
"""Of so many units that matter in a row the gaps of all subsets are computed."""

_TABLE_ENTRIES: Final = 1 << 20  # gaps in memory at the same time


@dataclass(frozen=True, slots=True, eq=False)
class Searched(Ranked):
    """Rankings of rows, and whether all rankings of the row were compared."""

    is_complete: BoolArray  # (n,)


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """Expected scores of rows, and the method of each."""

    value: FloatArray  # (n,)
    method: NDArray[np.str_]  # (n,)


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """The gaps of all subsets of the units that matter, for some rows in which they are as many."""

    some: IndexArray  # (k,) the rows
    units: NDArray[np.int32]  # (k, m) units that matter, ascending
    table: FloatArray  # (k, 2^m)
    method: NDArray[np.str_]  # (k,)


@dataclass(frozen=True, slots=True, eq=False)
class RandomScores(Computed[Expected]):
    """The expected PGI² of the first `top` places of a random ranking."""

    top: int
    members: Members | None = None  # the features of each unit; None: each feature is one

    def of_rows(self, some: IndexArray) -> RandomScores:
        return replace(self, rows=self.rows[some])

    def answer(self, accuracy: Accuracy, tell: Tell = None) -> Expected:
        value = np.zeros(len(self.rows))
        method = np.full(len(self.rows), "exact", dtype="<U7")
        n_units = _n_units(self, self.members)
        shares = partial(random_shares, n_units=n_units, n_places=self.top)
        for part in _tables(self, self.members, shares, accuracy, tell):
            means = mean_by_size(part.table)
            value[part.some] = (means * shares(means.shape[1] - 1)).sum(axis=1)
            method[part.some] = part.method
        return Expected(value, method)


@dataclass(frozen=True, slots=True, eq=False)
class ShapleyRankings(Computed[Ranked]):
    """Units by their Shapley values in the game whose worth is the gap."""

    top: int
    members: Members | None = None

    def of_rows(self, some: IndexArray) -> ShapleyRankings:
        return replace(self, rows=self.rows[some])

    def answer(self, accuracy: Accuracy, tell: Tell = None) -> Ranked:
        n, d = len(self.rows), _n_units(self, self.members)
        scores, method = np.zeros((n, d)), np.full(n, "exact", dtype="<U7")
        for part in _tables(self, self.members, _half_of_all, accuracy, tell):
            np.put_along_axis(
                row := scores[part.some], part.units.astype(np.intp), shapley_values(part.table), axis=1
            )
            scores[part.some], method[part.some] = row, part.method
        order = np.argsort(-scores, axis=1, kind="stable")[:, : self.top]
        kept = np.full((n, d), np.nan)
        np.put_along_axis(kept, order, np.take_along_axis(scores, order, axis=1), axis=1)
        confidence = np.where(method == "exact", 1.0, np.nan)[:, None] * np.ones(self.top)
        return Ranked(order.astype(np.int32), kept, confidence, method)


@dataclass(frozen=True, slots=True, eq=False)
class BestRankings(Computed[Searched]):
    """The rankings whose first `top` places have the highest PGI²."""

    top: int
    members: Members | None = None

    def of_rows(self, some: IndexArray) -> BestRankings:
        return replace(self, rows=self.rows[some])

    def answer(self, accuracy: Accuracy, tell: Tell = None) -> Searched:
        n, d = len(self.rows), _n_units(self, self.members)
        order, scores = np.zeros((n, self.top), dtype=np.int32), np.full((n, d), np.nan)
        method = np.full(n, "exact", dtype="<U7")
        shares = partial(random_shares, n_units=d, n_places=self.top)  # the best is at least that
        for part in _tables(self, self.members, shares, accuracy, tell):
            places, gaps = best_orders(part.table, d - part.units.shape[1], self.top)
            order[part.some] = own = _numbered(places, part.units, d)
            gains = np.diff(gaps, axis=1, prepend=0.0)
            np.put_along_axis(row := scores[part.some], own.astype(np.intp), gains, axis=1)
            scores[part.some], method[part.some] = row, part.method
        confidence = np.where(method == "exact", 1.0, np.nan)[:, None] * np.ones(self.top)
        return Searched(order, scores, confidence, method, np.ones(n, dtype=np.bool_))


def _n_units(question: Computed[Any], members: Members | None) -> int:
    return question.engine.ensemble.n_features if members is None else len(members)


def _numbered(places: IndexArray, units: NDArray[np.int32], n_units: int) -> NDArray[np.int32]:
    """Orders (k, n_places) of the units (k, m) as orders of all units; -1 becomes the next of the others."""
    found = np.empty(places.shape, dtype=np.int32)
    for row, (place, own) in enumerate(zip(places, units, strict=True)):
        others = np.setdiff1d(np.arange(n_units), own)
        still = place < 0
        found[row, ~still] = own[place[~still]]
        found[row, still] = others[: still.sum()]
    return found


def _half_of_all(m: int) -> FloatArray:
    """Of each size, what the tolerance of differences of gaps is relative to: half the gap of all units."""
    return np.append(np.zeros(m), 0.5)


def _tables(
    question: Computed[Any],
    members: Members | None,
    shares: Callable[[int], FloatArray],
    accuracy: Accuracy,
    tell: Tell,
) -> Iterator[_Tables]:
    """The gaps of all subsets, for rows with as many units that matter, some rows at a time."""
    engine, rows = question.engine, question.rows
    moving = engine.moving_units(rows, members)
    n_moving = moving.sum(axis=1)
    n_before = 0
    for m in np.unique(n_moving).tolist():
        if m > MOST_UNITS:
            raise CostError(f"{m} units matter in a row; at most {MOST_UNITS} can be compared")
        same = np.flatnonzero(n_moving == m)
        step = max(1, _TABLE_ENTRIES >> m)
        for first in range(0, len(same), step):
            some = same[first : first + step]
            units = np.nonzero(moving[some])[1].reshape(len(some), m).astype(np.int32)
            gaps, _, method = engine.subset_gaps(
                rows[some], units, shares(m), accuracy, after(tell, n_before), members
            )
            yield _Tables(some, units, gaps, words(method))
            n_before += len(some)
