"""Questions that place a score between random and best: expected scores, the best ranking, Shapley values.

Rows in which few units can change the prediction are answered from the gaps of all subsets of these units;
others by means over random subsets (`coins`, `joint_means`) and by a search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from predgap._engine.accuracy import Accuracy
from predgap._engine.coins import Coins
from predgap._engine.context import Context
from predgap._engine.joint_means import JointMeans
from predgap._engine.results import Expected, Ranked, Searched, words
from predgap._engine.subset_engine import SubsetEngine
from predgap._engine.subset_tables import (
    TIE,
    best_orders,
    curves_in,
    mean_by_size,
    random_shares,
    shapley_values,
    with_still_units,
)
from predgap._typing import BoolArray, FloatArray, IndexArray, IntArray
from predgap.errors import CostError

RankMethod = Literal["greedy", "single", "optimal", "shapley"]
"""How `Explainer.rank` can rank."""

Means = Coins | JointMeans

MOST_UNITS: Final = 14
"""Of so many units that matter in a row the gaps of all subsets are computed."""

_MOST_MILLISECONDS: Final = 20e3  # for these gaps of a row
_MOST_SMALL_SUBSETS: Final = 30_000  # of at most k units, where more units matter
_LEAST: Final = 0.2  # what most orders reach at least of the expected score of a random one
_TABLE_ENTRIES: Final = 1 << 20  # gaps in memory at the same time


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """Some rows in which as many units matter."""

    some: IndexArray  # (k,) the rows
    units: IntArray  # (k, m) units that matter, ascending


@dataclass(frozen=True, slots=True, eq=False)
class _Table(_Same):
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
    ) -> tuple[list[_Same], list[_Same]]:
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
            few += [_Same(same[some], units[some]) for some in _chunks(is_few, _TABLE_ENTRIES >> m)]
            many += [_Same(same[some], units[some]) for some in _chunks(~is_few, len(same))]
        return few, many

    def means(self) -> Means | str:
        """The means over random subsets, or why there are none."""
        if self.engine.kernel.moves_together:
            return JointMeans(self.engine, self.top)
        return Coins.of(self.engine)

    def needed(self, means: Means | str, many: list[_Same]) -> tuple[Means, IndexArray]:
        """The means over random subsets, and the rows that need them; CostError if there are none."""
        if isinstance(means, str):
            row, (_, m) = many[0].some[0], many[0].units.shape
            raise CostError(
                f"in row {row}, {m} features (or groups) matter, too many for the gaps of all their subsets "
                f"(at most {MOST_UNITS}, and {_MOST_MILLISECONDS / 1e3:g} s); {means}"
            )
        return means, np.concatenate([part.some for part in many])

    def tables(
        self, few: list[_Same], shares: Callable[[int], FloatArray], accuracy: Accuracy
    ) -> Iterator[_Table]:
        """The gaps of all subsets of some rows.

        The tolerance is relative to the sum over sizes of shares(m) (m + 1,) times the mean gap of that size.
        """
        n_before = 0
        for part in few:
            share = shares(part.units.shape[1])
            gaps, bound, method = self.engine.subset_gaps(
                self.rows[part.some], part.units, share, accuracy, self.part(n_before, part.some)
            )
            yield _Table(part.some, part.units, gaps, bound, words(method))
            n_before += len(part.some)

    def part(self, n_before: int, some: IndexArray) -> Context:
        """The context of some rows that come after others."""
        return self.engine.context.part(n_before, n_before + len(some), len(self.rows), len(some))

    def random_shares(self, m: int) -> FloatArray:
        """How much the mean gap of each size counts in the expected PGI² of a random ranking, (m + 1,)."""
        return random_shares(m, self.n_units, self.top)

    def random_of(self, table: _Table) -> FloatArray:
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
            value[some], codes = means.expected(self.rows[some], accuracy, told)
            method[some] = words(codes)
        elif many:
            for part in many:
                value[part.some], method[part.some] = self._by_small_subsets(part, accuracy)
        return Expected(value, method)

    def _by_small_subsets(self, part: _Same, accuracy: Accuracy) -> tuple[FloatArray, NDArray[np.str_]]:
        """From the gaps of all subsets of at most `top` units."""
        k, m = part.units.shape
        largest = min(self.top, m)
        n_subsets = sum(math.comb(m, size) for size in range(1, largest + 1))
        if n_subsets > _MOST_SMALL_SUBSETS:
            raise CostError(
                f"the expected PGI² of {self.top} random places: in row {part.some[0]}, {m} features matter, "
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
            found = self._searched(part, accuracy, self.part(n_before, part.some))
            order[part.some], gaps[part.some], method[part.some] = found
            is_complete[part.some] = False
            n_before += len(part.some)
        scores = np.full((n, d), np.nan)
        np.put_along_axis(scores, order.astype(np.intp), np.diff(gaps, axis=1, prepend=0.0), axis=1)
        confidence = _confidence(is_complete & (method == "exact"), self.top)
        return Searched(order, scores, confidence, method, is_complete, gaps, curves, random)

    def _searched(
        self, part: _Same, accuracy: Accuracy, context: Context
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
    """Of each size, what the tolerance of differences of gaps is relative to: half the gap of all units."""
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


def _parts_of(values: FloatArray, parts: list[_Same]) -> list[FloatArray]:
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
