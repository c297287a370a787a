"""Questions about rows (gaps, curves, rankings) and how each is priced, computed or sampled.

`prices` gives the expected cost per row, `answer` computes with kernels, `estimate` samples. A question can
be restricted to some of its rows, so that rows can be answered by different methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Final, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from predgap import _core
from predgap._engine.accuracy import Accuracy
from predgap._engine.costs import Prices
from predgap._engine.engine import Answer, Engine, Members, RankingMethod
from predgap._engine.estimates import GapEstimate, assembled, estimate_without_samples
from predgap._engine.points import Sequence
from predgap._engine.progress import Tell, after
from predgap._engine.racing import race
from predgap._engine.sampling import Budget, estimate_curve, estimate_mc, estimate_qmc
from predgap._typing import BoolArray, FloatArray, IndexArray, IntArray

Found = TypeVar("Found")
Entry = TypeVar("Entry", bound=np.generic)

METHODS: Final = np.array(_core.METHODS)
"""How a number can be obtained without samples; the place of a word is its code."""

N_SAMPLES: Final = 16384
"""The default number of samples per row, for gaps and curves."""


@dataclass(frozen=True, slots=True)
class Draws:
    """The options of sampling."""

    method: Literal["mc", "qmc"]
    n_samples: int | None  # None for the default: `N_SAMPLES`, or 4096 for rankings
    rtol: float | None  # stop early at this relative standard error; None draws all
    seed: int
    sequence: Sequence = "sobol"

    @property
    def budget(self) -> Budget:
        """The budget of gaps and curves."""
        return Budget(N_SAMPLES if self.n_samples is None else self.n_samples, self.rtol)


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """Rankings of rows as arrays, and the method of each row."""

    order: IntArray  # (n, k)
    scores: FloatArray  # (n, d), NaN for features without a place
    confidence: FloatArray  # (n, k) 1 where the place is proven, NaN where nothing is known
    method: NDArray[np.str_]  # (n,)


@dataclass(frozen=True, slots=True, eq=False)
class Computed(ABC, Generic[Found]):
    """A question about each of some rows that kernels can answer; `Found` is the type of its answer."""

    engine: Engine
    rows: FloatArray  # (n, d) as the model casts them

    @abstractmethod
    def of_rows(self, some: IndexArray) -> Computed[Found]:
        """The same question about some of the rows."""

    @abstractmethod
    def answer(self, accuracy: Accuracy, tell: Tell = None) -> Found:
        """The answer computed by kernels; raises `_core.TooCostly` if a row exceeds the limits."""


@dataclass(frozen=True, slots=True, eq=False)
class Question(Computed[Found]):
    """A question that can also be priced, and answered from samples."""

    @abstractmethod
    def of_rows(self, some: IndexArray) -> Question[Found]:
        """The same question about some of the rows."""

    @abstractmethod
    def prices(self, accuracy: Accuracy) -> Prices:
        """The expected cost of the answer, row by row."""

    @abstractmethod
    def estimate(self, draws: Draws, tell: Tell = None) -> Found:
        """The answer estimated from samples."""


@dataclass(frozen=True, slots=True, eq=False)
class Gaps(Question[GapEstimate]):
    """The gap of a subset, or of one subset per row; answers are (n,)."""

    masks: BoolArray  # (1 or n, d)

    def of_rows(self, some: IndexArray) -> Gaps:
        return Gaps(self.engine, self.rows[some], _of_rows(self.masks, some))

    def prices(self, accuracy: Accuracy) -> Prices:
        return Prices(*self.engine.cost(self.rows, "gap", self.masks, 0, accuracy))

    def computed(self, accuracy: Accuracy, tell: Tell = None) -> Answer:
        """The answer as the kernels give it."""
        return self.engine.gap(self.rows, self.masks, accuracy, tell)

    def answer(self, accuracy: Accuracy, tell: Tell = None) -> GapEstimate:
        found = self.computed(accuracy, tell)
        return _estimate(found, found[0], accuracy)

    def estimate(self, draws: Draws, tell: Tell = None) -> GapEstimate:
        if len(self.masks) == 1 or len(self.rows) == 0:
            common: BoolArray = np.any(self.masks, axis=0)
            return self._estimate(common, draws, tell)
        parts, n_before = [], 0
        distinct, which = np.unique(self.masks, axis=0, return_inverse=True)
        for number, mask in enumerate(distinct):
            some = np.flatnonzero(which.reshape(-1) == number)
            found = self.of_rows(some)._estimate(mask, draws, after(tell, n_before))
            parts.append((some, found))
            n_before += len(some)
        return assembled(len(self.rows), parts)

    def _estimate(self, mask: BoolArray, draws: Draws, tell: Tell) -> GapEstimate:
        if draws.method == "mc":
            return estimate_mc(self.engine, self.rows, mask, draws.budget, draws.seed, tell)
        sequence = draws.sequence
        return estimate_qmc(self.engine, self.rows, mask, draws.budget, draws.seed, sequence, tell)


@dataclass(frozen=True, slots=True, eq=False)
class Curves(Question[GapEstimate]):
    """The gaps of the first 1, ..., k units of a ranking, (n, k), or their mean (PGI²), (n,)."""

    order: IntArray  # (1 or n, k)
    members: Members | None = None  # the features of each unit; None: each feature is one
    average: bool = False

    def of_rows(self, some: IndexArray) -> Curves:
        return replace(self, rows=self.rows[some], order=_of_rows(self.order, some))

    def prices(self, accuracy: Accuracy) -> Prices:
        features, k = self.engine.features_of(self.order, self.members), self.order.shape[1]
        return Prices(*self.engine.cost(self.rows, "curve", features, k, accuracy, self.members))

    def computed(self, accuracy: Accuracy, tell: Tell = None) -> Answer:
        """The curves as the kernels give them."""
        return self.engine.curve(self.rows, self.order, accuracy, tell, self.members)

    def answer(self, accuracy: Accuracy, tell: Tell = None) -> GapEstimate:
        curve, bound, method = self.computed(accuracy, tell)
        mean = mean_of_curve(curve)
        if self.average:
            return _estimate((mean, bound, method), mean, accuracy)
        # Skipped terms are small relative to the row's scale. Relative to a much smaller gap at the beginning
        # of the curve they may be large, so its standard error is at least that of the mean.
        return _estimate((curve, bound, method), np.maximum(curve, mean[:, None]), accuracy)

    def estimate(self, draws: Draws, tell: Tell = None) -> GapEstimate:
        return estimate_curve(
            self.engine,
            self.rows,
            self.order,
            draws.budget,
            draws.seed,
            draws.method,
            members=self.members,
            average=self.average,
            tell=tell,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Rankings(Question[Ranked]):
    """The first `top` places of a ranking."""

    method: RankingMethod
    top: int
    members: Members | None = None  # the features of each unit; None: each feature is one

    def of_rows(self, some: IndexArray) -> Rankings:
        return replace(self, rows=self.rows[some])

    def prices(self, accuracy: Accuracy) -> Prices:
        every = np.ones((1, self.engine.ensemble.n_features), dtype=np.bool_)
        return Prices(*self.engine.cost(self.rows, self.method, every, self.top, accuracy, self.members))

    def answer(self, accuracy: Accuracy, tell: Tell = None) -> Ranked:
        order, scores, proven, _, method = self.engine.rank(
            self.rows, self.method, self.top, accuracy, tell, self.members
        )
        return Ranked(order, scores, np.where(proven, 1.0, np.nan), words(method))

    def estimate(self, draws: Draws, tell: Tell = None) -> Ranked:
        if draws.n_samples is not None:
            Budget(draws.n_samples)  # raises if it is not a valid number of samples
        order, scores, confidence = race(
            self.engine,
            self.rows,
            self.method,
            self.top,
            draws.n_samples,
            draws.seed,
            draws.method,
            tell,
            self.members,
        )
        return Ranked(order, scores, confidence, np.full(len(self.rows), draws.method))


def mean_of_curve(curve: FloatArray) -> FloatArray:
    """The mean of each row of a curve (n, k), which is PGI², (n,); 0 if k is 0."""
    return curve.mean(axis=1) if curve.shape[1] else np.zeros(len(curve))


def _estimate(found: Answer, scale: FloatArray, accuracy: Accuracy) -> GapEstimate:
    """Answers of kernels as a GapEstimate; a pruned gap whose bound is within `rtol` becomes "bounded".

    The standard error of pruned gaps is relative to `scale`, which has the shape of the gaps.
    """
    value, bound, method = found
    as_column = (len(value),) + (1,) * (value.ndim - 1)
    how = np.broadcast_to(words(method).reshape(as_column), value.shape)
    proven = bound.reshape(as_column) <= accuracy.rtol * scale
    how = np.where((how == "pruned") & proven, "bounded", how)
    error = np.where(how == "pruned", accuracy.standard_error * scale, 0.0)
    return estimate_without_samples(value, bound, how, error)


def words(method: NDArray[np.uint8]) -> NDArray[np.str_]:
    """The names of method codes."""
    found: NDArray[np.str_] = METHODS[method]
    return found


def _of_rows(array: NDArray[Entry], some: IndexArray) -> NDArray[Entry]:
    """The part of an array that belongs to some rows; all of it if it has one row for all."""
    return array if len(array) == 1 else array[some]
