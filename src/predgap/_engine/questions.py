"""Questions about rows, as values, and the one way to ask them: `ask`.

A question says what is asked: the rows, and their subset, order or ranking. How it is answered is an
`Accuracy`, `Draws` of samples, or `Auto`, which chooses for each row. A new question is a class here that
calls the core, and a method of `Explainer` that makes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, Generic, Literal, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from predgap import _core
from predgap._engine.accuracy import Accuracy, Auto, Draws, How, Prices, guaranteed
from predgap._engine.context import Context
from predgap._engine.decisions import Bounds, Function, change_of_row, listed_outcomes, sampled_mean
from predgap._engine.kernels import Kernel, as_bytes, rows_of
from predgap._engine.results import (
    METHODS,
    Expected,
    GapEstimate,
    Ranked,
    Searched,
    assembled,
    mean_of_curve,
)
from predgap._engine.sampling import Budget, estimate_curve, estimate_mc, estimate_qmc, race
from predgap._engine.subsets import BestRankings, RandomScores, ShapleyRankings, SubsetEngine
from predgap._inputs.tables import Table
from predgap._typing import BoolArray, FloatArray, IndexArray, IntArray
from predgap.errors import CostError

Found = TypeVar("Found")
"""The type of an answer: a dataclass or a tuple of arrays with one entry per row."""

RankingMethod = Literal["greedy", "single"]
"""Rankings that the core makes, and samples."""

RankMethod = Literal["greedy", "single", "optimal", "shapley"]
"""How `Explainer.rank` can rank."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows of one call: as the model sees them, as a table, and what is explained in each."""

    values: FloatArray  # (n, d), NaN where missing
    table: Table
    outputs: IndexArray | None  # (n,) the output of each row; None if all have the same

    def __len__(self) -> int:
        return len(self.values)

    def at(self, some: IndexArray) -> Rows:
        """Some of the rows, in this order."""
        outputs = None if self.outputs is None else self.outputs[some]
        return Rows(self.values[some], self.table.at(some), outputs)


# ---- asking -----------------------------------------------------------------------------------------------


class HasKernels(Protocol):
    """What questions are asked of: the kernels of a model and its noise."""

    def kernels(self, rows: Rows) -> Iterator[tuple[Kernel, IndexArray | None]]:
        """The kernel of each output that is explained, and its rows; None: all rows."""


def ask(explained: HasKernels, question: Question[Found], how: How, context: Context) -> Found:
    """Cuts the rows by output, method and memory; asks the core; puts the answers in the rows' order."""
    n, parts, done = len(question.rows.values), [], 0
    for kernel, of_output in explained.kernels(question.rows):
        whole = question if of_output is None else question.at(of_output)
        own_rows = context if of_output is None else context.of_rows(of_output)
        kernel.check(whole.rows.values, whole.moved(kernel), own_rows)
        for way, own in how.ways(whole, kernel) if isinstance(how, Auto) else ((how, None),):
            k = len(whole.rows.values) if own is None else len(own)
            for chunk in kernel.chunks(k) if k > kernel.rows_at_once else (None,):
                some = own if chunk is None else (chunk if own is None else own[chunk])
                part = whole if some is None else whole.at(some)
                at = of_output if some is None else (some if of_output is None else of_output[some])
                k = len(part.rows.values)
                here = context if k == n else context.part(done, done + k, n, k)
                here = here if at is None else here.of_rows(at)
                otherwise = how.otherwise if isinstance(how, Auto) and not kernel.moves_together else None
                parts.append((at, _asked(part, kernel, way, here, otherwise)))
                done += k
    return parts[0][1] if len(parts) == 1 else assembled(n, parts)


def _asked(
    part: Question[Found],
    kernel: Kernel,
    way: Accuracy | Draws,
    context: Context,
    otherwise: Draws | None,
) -> Found:
    """The answer for rows of one kernel, in one way.

    A row that turns out to take more than it may is sampled, if there is another way.
    """
    try:
        if isinstance(way, Draws):
            found = part.sampled(kernel, way, context)
        else:
            rows = kernel.rows(part.rows.values, part.moved(kernel))
            found = part.answer(kernel, rows, way, context)
    except _core.TooCostly as refused:
        if otherwise is not None and way is not otherwise:
            return _row_by_row(part, kernel, way, otherwise, context)
        row, milliseconds, megabytes = refused.args
        is_guaranteed = context.call.rtol is not None
        looser = _looser_tolerance(part.at(np.array([row])), kernel, way) if is_guaranteed else None
        number = context.number(row)
        raise kernel.refusal(context.call, number, milliseconds, megabytes, looser) from None
    context.look(len(part.rows.values))  # the core looks from time to time: not at all if a part is quick
    return found


_LOOSER: Final = (1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


def _looser_tolerance(
    row: Question[Any], kernel: Kernel, way: Accuracy | Draws
) -> tuple[float, float] | None:
    """The least larger rtol at which a refused row is expected to be answered, and the seconds it takes."""
    if not isinstance(row, Gap | Curve | Rank) or not isinstance(way, Accuracy) or way.kind == "pruned":
        return None
    for rtol in _LOOSER:
        accuracy = guaranteed(rtol)
        if rtol <= way.tolerance or kernel.moves_together or not row.prices(kernel, accuracy).within().all():
            continue
        prices = row.prices(kernel, accuracy, closely=True)
        if prices.within().all():
            return rtol, 1e-3 * float(prices.milliseconds[0])
    return None


def _row_by_row(
    part: Question[Found], kernel: Kernel, way: Accuracy | Draws, otherwise: Draws, context: Context
) -> Found:
    """The answer for each row by itself; in the other way, where it takes more than it may."""
    parts = []
    for row in range(len(part.rows)):
        some = np.array([row])
        try:
            found = _asked(part.at(some), kernel, way, context.quiet(), None)
        except CostError:
            found = part.at(some).sampled(kernel, otherwise, context.quiet())
        context.look(row + 1)
        parts.append((some, found))
    return assembled(len(part.rows), parts)


# ---- questions --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Question(ABC, Generic[Found]):
    """What is asked about each of some rows."""

    rows: Rows

    def at(self, some: IndexArray) -> Self:
        """The same question about some of the rows."""
        return replace(self, rows=self.rows.at(some))

    def moved(self, kernel: Kernel) -> BoolArray:
        """The features that may move, (1 or n, d)."""
        return kernel.every

    @abstractmethod
    def answer(self, kernel: Kernel, rows: _core.Rows, accuracy: Accuracy, context: Context) -> Found:
        """The answer of the core; raises `_core.TooCostly` if a row exceeds the limits."""

    def prices(self, kernel: Kernel, accuracy: Accuracy, *, closely: bool = False) -> Prices:
        """The expected cost of the answer, row by row; see `Kernel.prices`."""
        raise NotImplementedError(f"{type(self).__name__} has no price")

    def sampled(self, kernel: Kernel, draws: Draws, context: Context) -> Found:
        """The answer estimated from samples."""
        raise NotImplementedError(f"{type(self).__name__} is not sampled")


@dataclass(frozen=True, slots=True, eq=False)
class _OfSubset(Question[Found]):
    """A question about the features of a subset, or of one subset per row."""

    masks: BoolArray  # (1 or n, d)

    def at(self, some: IndexArray) -> Self:
        return replace(self, rows=self.rows.at(some), masks=rows_of(self.masks, some))

    def moved(self, kernel: Kernel) -> BoolArray:
        return self.masks


class Gap(_OfSubset[GapEstimate]):
    """The gap of a subset; answers are (n,)."""

    __slots__ = ()

    def answer(self, kernel: Kernel, rows: _core.Rows, accuracy: Accuracy, context: Context) -> GapEstimate:
        found = kernel.core.gap(rows, as_bytes(self.masks), kernel.accuracy(accuracy), context)
        return _estimate(*found, found[0], accuracy)

    def prices(self, kernel: Kernel, accuracy: Accuracy, *, closely: bool = False) -> Prices:
        return kernel.prices(self.rows.values, "gap", self.masks, 0, accuracy, closely=closely)

    def sampled(self, kernel: Kernel, draws: Draws, context: Context) -> GapEstimate:
        n = len(self.rows)
        if len(self.masks) == 1 or n == 0:
            return self._sampled(kernel, np.any(self.masks, axis=0), draws, context)
        parts, done = [], 0
        distinct, which = np.unique(self.masks, axis=0, return_inverse=True)
        for number, mask in enumerate(distinct):
            some = np.flatnonzero(which.reshape(-1) == number)
            part = context.part(done, done + len(some), n, len(some))
            parts.append((some, self.at(some)._sampled(kernel, mask, draws, part)))
            done += len(some)
        return assembled(n, parts)

    def _sampled(self, kernel: Kernel, mask: BoolArray, draws: Draws, context: Context) -> GapEstimate:
        values, budget = self.rows.values, Budget.of(draws)
        if draws.for_features(int((mask & kernel.used).sum())) == "mc":
            return estimate_mc(kernel, values, mask, budget, draws.seed, context)
        return estimate_qmc(kernel, values, mask, budget, draws.seed, draws.sequence, context)


@dataclass(frozen=True, slots=True, eq=False)
class Curve(Question[GapEstimate]):
    """The gaps of the first 1, ..., k units of a ranking, (n, k), or their mean (PGI²), (n,)."""

    order: IntArray  # (1 or n, k)
    average: bool = False

    def at(self, some: IndexArray) -> Self:
        return replace(self, rows=self.rows.at(some), order=rows_of(self.order, some))

    def moved(self, kernel: Kernel) -> BoolArray:
        return kernel.features_of(self.order)

    def answer(self, kernel: Kernel, rows: _core.Rows, accuracy: Accuracy, context: Context) -> GapEstimate:
        asked = kernel.accuracy(accuracy)
        curve, bound, method = kernel.core.curve(rows, self.order, asked, context, kernel.units)
        mean = mean_of_curve(curve)
        if self.average:
            return _estimate(mean, bound, method, mean, accuracy)
        # Skipped terms are small relative to the row's scale. Relative to a much smaller gap at the beginning
        # of the curve they may be large, so its standard error is at least that of the mean.
        return _estimate(curve, bound, method, np.maximum(curve, mean[:, None]), accuracy)

    def prices(self, kernel: Kernel, accuracy: Accuracy, *, closely: bool = False) -> Prices:
        values, moved, n = self.rows.values, self.moved(kernel), self.order.shape[1]
        return kernel.prices(values, "curve", moved, n, accuracy, self.order, closely=closely)

    def sampled(self, kernel: Kernel, draws: Draws, context: Context) -> GapEstimate:
        return estimate_curve(
            kernel,
            self.rows.values,
            self.order,
            Budget.of(draws),
            draws.seed,
            draws.for_features(int(kernel.used.sum())),
            average=self.average,
            context=context,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Rank(Question[Ranked]):
    """The first `top` places of a greedy ranking, or by gaps of single units."""

    method: RankingMethod
    top: int

    def answer(self, kernel: Kernel, rows: _core.Rows, accuracy: Accuracy, context: Context) -> Ranked:
        asked = kernel.accuracy(accuracy)
        order, scores, proven, _, method = kernel.core.rank(
            rows, self.method, self.top, asked, context, kernel.units
        )
        return Ranked(order, scores, np.where(proven, 1.0, np.nan), METHODS[method])

    def prices(self, kernel: Kernel, accuracy: Accuracy, *, closely: bool = False) -> Prices:
        values, moved = self.rows.values, kernel.every
        return kernel.prices(values, self.method, moved, self.top, accuracy, closely=closely)

    def sampled(self, kernel: Kernel, draws: Draws, context: Context) -> Ranked:
        if draws.n_samples is not None:
            Budget(draws.n_samples)  # raises if it is not a valid number of samples
        by = draws.for_features(int(kernel.used.sum()))
        found = race(
            kernel, self.rows.values, self.method, self.top, draws.n_samples, draws.seed, by, context
        )
        return Ranked(*found, np.full(len(self.rows), by))


# ---- questions to all subsets of a row's units ------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class RandomMean(Question[Expected]):
    """The expected PGI² of the first `top` places of a random ranking."""

    top: int

    def answer(self, kernel: Kernel, rows: _core.Rows, accuracy: Accuracy, context: Context) -> Expected:
        return RandomScores(SubsetEngine(kernel, context), self.rows.values, self.top).answer(accuracy)


@dataclass(frozen=True, slots=True, eq=False)
class Best(Question[Searched]):
    """The rankings whose first `top` places have the highest PGI², and the curves of other orders."""

    top: int
    orders: IntArray | None = None  # (n, r, top)

    def at(self, some: IndexArray) -> Self:
        orders = None if self.orders is None else self.orders[some]
        return replace(self, rows=self.rows.at(some), orders=orders)

    def answer(self, kernel: Kernel, rows: _core.Rows, accuracy: Accuracy, context: Context) -> Searched:
        engine = SubsetEngine(kernel, context)
        return BestRankings(engine, self.rows.values, self.top, self.orders).answer(accuracy)


@dataclass(frozen=True, slots=True, eq=False)
class Shapley(Question[Ranked]):
    """The first `top` places by the Shapley values of the game whose worth is the gap."""

    top: int

    def answer(self, kernel: Kernel, rows: _core.Rows, accuracy: Accuracy, context: Context) -> Ranked:
        return ShapleyRankings(SubsetEngine(kernel, context), self.rows.values, self.top).answer(accuracy)


def random_after(
    explained: HasKernels, found: Searched, rows: Rows, accuracy: Accuracy, context: Context
) -> Expected:
    """The expected PGI² of a random ranking; what came with a search for the best one is reused."""
    value, method = found.random.copy(), found.method.copy()
    missing = np.flatnonzero(np.isnan(value))
    if len(missing):
        asked = RandomMean(rows.at(missing), found.order.shape[1])
        rest = ask(explained, asked, accuracy, context.of_rows(missing))
        value[missing], method[missing] = rest.value, rest.method
    return Expected(value, method)


def ranking_question(method: RankMethod, rows: Rows, top: int) -> Question[Any]:
    """The question of `Explainer.rank`; its answer is a `Ranked`."""
    if method == "optimal":
        return Best(rows, top)
    if method == "shapley":
        return Shapley(rows, top)
    return Rank(rows, method, top)


# ---- questions to the distribution of the prediction ------------------------------------------------------

MomentArrays = tuple[FloatArray, FloatArray, FloatArray, NDArray[np.uint8]]
"""Mean changes, (n, n_outputs); covariances of the outputs, (n, n_outputs, n_outputs); the error bound of
each row's covariances, (n,); codes of `_core.METHODS`, (n,)."""

ShareArrays = tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, NDArray[np.uint8]]
"""Variances, (n,); their parts of single units: alone, in all sets, in equal parts, (n, n_units) each; of
pairs of units, (n, n_units, n_units); the error bound of the parts, relative to the variance, (n,); method
codes, (n,)."""

BracketArrays = tuple[FloatArray, FloatArray, FloatArray, FloatArray, NDArray[np.str_], NDArray[np.int64]]
"""Values, lower and upper bounds, standard errors, methods and numbers of samples, all (n,)."""


class MeanChange(_OfSubset[tuple[FloatArray]]):
    """E[f(x')] - f(x), (n, n_outputs), exact up to rounding."""

    __slots__ = ()

    def answer(
        self, kernel: Kernel, rows: _core.Rows, accuracy: Accuracy, context: Context
    ) -> tuple[FloatArray]:
        return kernel.core.mean_change(rows, as_bytes(self.masks), context)


@dataclass(frozen=True, slots=True, eq=False)
class OutputMoments(_OfSubset[MomentArrays]):
    """Mean changes and covariances of the outputs when a subset moves. A tolerance is relative to the gap."""

    jointly: bool = False  # with the covariances of outputs that have trees of their own, else NaN

    def answer(self, kernel: Kernel, rows: _core.Rows, accuracy: Accuracy, context: Context) -> MomentArrays:
        if self.jointly and (joint := kernel.with_joint_outputs()) is not kernel:
            kernel, rows = joint, joint.rows(self.rows.values, self.masks)
        return kernel.core.moments(rows, as_bytes(self.masks), kernel.accuracy(accuracy), context)


class VarianceShares(Question[ShareArrays]):
    """Which share of the variance comes from each unit, when all of them move; NaN where nothing varies."""

    __slots__ = ()
    NEEDS: ClassVar[str] = (
        "so its sets of features have no variance of their own. Use Marginal(X), which redraws each feature "
        "by itself"
    )

    def answer(self, kernel: Kernel, rows: _core.Rows, accuracy: Accuracy, context: Context) -> ShareArrays:
        core = kernel.independent("sensitivity", self.NEEDS)
        variance, *parts, bound, method = core.sensitivity(
            rows, kernel.accuracy(accuracy), context, kernel.units
        )
        first, total, shapley, pairs = (_shares(part, variance) for part in parts)
        return variance, first, total, shapley, pairs, bound, method

    def refuse_if_too_large(self, m: int) -> None:
        """CostError if the answer about all rows, of m units, would not fit into memory."""
        n = len(self.rows)
        if (size := 8.0 * n * m * m) > _core.MOST_BYTES:
            raise CostError(
                f"the interactions of {n:,} rows and {m:,} features need {size / 1e6:,.0f} MB; the limit is "
                f"{_core.MOST_BYTES / 1e6:,.0f} MB. Pass at most {_core.MOST_BYTES // (8 * m * m):,} rows "
                "at a time, or put features into groups"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Expectation(_OfSubset[BracketArrays]):
    """The expected value of a function of the change when a subset moves, and bounds of it."""

    function: Function
    bounds: Bounds
    numbers: IndexArray  # (n,) of the rows, for the function and the bounds
    n_samples: int
    seed: int

    def at(self, some: IndexArray) -> Self:
        masks = rows_of(self.masks, some)
        return replace(self, rows=self.rows.at(some), masks=masks, numbers=self.numbers[some])

    def answer(self, kernel: Kernel, rows: _core.Rows, accuracy: Accuracy, context: Context) -> BracketArrays:
        n = len(self.rows)
        value, lower, upper, error = np.zeros((4, n))
        method, n_samples = np.full(n, "exact"), np.zeros(n, dtype=np.int64)
        for r in range(n):
            row, mask = self.rows.values[r : r + 1], self.masks[r if len(self.masks) > 1 else 0][None]
            number = int(self.numbers[r])
            if (listed := listed_outcomes(kernel, row, mask, context)) is not None:
                probability, change = listed
                value[r] = lower[r] = upper[r] = (probability * self.function(number, change)).sum()
            else:
                of_row = partial(self.function, number)
                value[r], error[r], method[r], n_samples[r] = sampled_mean(
                    kernel, row, mask[0], of_row, self.n_samples, self.seed, context
                )
                change_of = change_of_row(kernel, row, mask, accuracy, context)
                lower[r], upper[r] = self.bounds(number, change_of)
                value[r] = np.clip(value[r], lower[r], upper[r])
                error[r] = min(error[r], upper[r] - lower[r])
                if lower[r] == upper[r]:
                    method[r], n_samples[r] = "exact", 0
            context.look(r + 1)
        return value, lower, upper, error, method, n_samples


def _shares(part: FloatArray, variance: FloatArray) -> FloatArray:
    """Parts of variances (n,) as shares; NaN where the variance is 0."""
    whole = np.where(variance > 0, variance, np.nan).reshape(-1, *[1] * (part.ndim - 1))
    shares: FloatArray = part / whole
    return shares


def _estimate(
    value: FloatArray, bound: FloatArray, method: NDArray[np.uint8], scale: FloatArray, accuracy: Accuracy
) -> GapEstimate:
    """An answer of the core as a GapEstimate; a pruned gap whose bound is within `rtol` becomes "bounded".

    The standard error of pruned gaps is relative to `scale`, which has the shape of the gaps.
    """
    bounds, how, error = bound, METHODS[method], np.zeros(value.shape)
    if value.ndim == 2:  # each number of a curve has the bound and the method of its row
        bounds = np.repeat(bounds[:, None], value.shape[1], axis=1)
        how = np.repeat(how[:, None], value.shape[1], axis=1)
    if accuracy.kind == "pruned":
        how[(how == "pruned") & (bounds <= accuracy.rtol * scale)] = "bounded"
        error = np.where(how == "pruned", accuracy.standard_error * scale, 0.0)
    return GapEstimate(value, error, bounds, how, np.zeros(value.shape, dtype=np.int64))
