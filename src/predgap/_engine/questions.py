"""What may be asked about rows: gaps, curves and rankings.

Each kind of question is priced and answered by kernels, or estimated from samples. A question may be split by
rows, for rows that are best answered in different ways.
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
from predgap._engine.engine import Answer, Engine, RankingMethod
from predgap._engine.estimates import GapEstimate, assembled, estimate_without_samples
from predgap._engine.points import Sequence
from predgap._engine.progress import Tell, after
from predgap._engine.racing import race
from predgap._engine.sampling import Budget, estimate_curve, estimate_mc, estimate_qmc
from predgap._typing import BoolArray, FloatArray, IndexArray, IntArray

Found = TypeVar("Found")
Entry = TypeVar("Entry", bound=np.generic)

_METHODS: Final = np.array(_core.METHODS)

N_SAMPLES: Final = 16384
"""Samples of a gap or a curve, unless a number is asked for."""


@dataclass(frozen=True, slots=True)
class Draws:
    """How to sample."""

    method: Literal["mc", "qmc"]
    n_samples: int | None  # None for as many as are usual
    rtol: float | None  # when to stop before
    seed: int
    sequence: Sequence = "sobol"

    @property
    def budget(self) -> Budget:
        """Of gaps and curves."""
        return Budget(N_SAMPLES if self.n_samples is None else self.n_samples, self.rtol)


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """Rankings of rows, and how they were obtained."""

    order: IntArray  # (n, k)
    scores: FloatArray  # (n, d), NaN of features that were not taken
    confidence: FloatArray  # (n, k) 1 where the place is proven, NaN where nothing is known
    method: NDArray[np.str_]  # (n,)


@dataclass(frozen=True, slots=True, eq=False)
class Question(ABC, Generic[Found]):
    """Something to be found out about each row."""

    engine: Engine
    rows: FloatArray  # (n, d) as the model casts them

    @abstractmethod
    def of_rows(self, some: IndexArray) -> Question[Found]:
        """The same question about some of the rows."""

    @abstractmethod
    def prices(self, accuracy: Accuracy) -> Prices:
        """What the answer would take, row by row."""

    @abstractmethod
    def answer(self, accuracy: Accuracy, tell: Tell = None) -> Found:
        """By kernels; raises `_core.TooCostly`."""

    @abstractmethod
    def estimate(self, draws: Draws, tell: Tell = None) -> Found:
        """From samples."""


@dataclass(frozen=True, slots=True, eq=False)
class Gaps(Question[GapEstimate]):
    """The gap of a subset; estimates are (n,)."""

    masks: BoolArray  # (1 or n, d)

    def of_rows(self, some: IndexArray) -> Gaps:
        return Gaps(self.engine, self.rows[some], _of_rows(self.masks, some))

    def prices(self, accuracy: Accuracy) -> Prices:
        return Prices(*self.engine.cost(self.rows, "gap", self.masks, 0, accuracy))

    def answer(self, accuracy: Accuracy, tell: Tell = None) -> GapEstimate:
        found = self.engine.gap(self.rows, self.masks, accuracy, tell)
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
    """The gaps of the prefixes of a ranking; estimates are (n, k), or (n,) of their average."""

    order: IntArray  # (1 or n, k)
    average: bool = False

    def of_rows(self, some: IndexArray) -> Curves:
        return replace(self, rows=self.rows[some], order=_of_rows(self.order, some))

    def prices(self, accuracy: Accuracy) -> Prices:
        features = self.engine.features_of(self.order)
        return Prices(*self.engine.cost(self.rows, "curve", features, self.order.shape[1], accuracy))

    def answer(self, accuracy: Accuracy, tell: Tell = None) -> GapEstimate:
        curve, bound, method = self.engine.curve(self.rows, self.order, accuracy, tell)
        mean = mean_of_curve(curve)
        if self.average:
            return _estimate((mean, bound, method), mean, accuracy)
        # What was left out is small beside the row's scale, and may be large beside a prefix that is smaller.
        return _estimate((curve, bound, method), np.maximum(curve, mean[:, None]), accuracy)

    def estimate(self, draws: Draws, tell: Tell = None) -> GapEstimate:
        return estimate_curve(
            self.engine,
            self.rows,
            self.order,
            draws.budget,
            draws.seed,
            draws.method,
            average=self.average,
            tell=tell,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Rankings(Question[Ranked]):
    """The first places of a ranking."""

    method: RankingMethod
    top: int

    def of_rows(self, some: IndexArray) -> Rankings:
        return replace(self, rows=self.rows[some])

    def prices(self, accuracy: Accuracy) -> Prices:
        every = np.ones((1, self.engine.ensemble.n_features), dtype=np.bool_)
        return Prices(*self.engine.cost(self.rows, self.method, every, self.top, accuracy))

    def answer(self, accuracy: Accuracy, tell: Tell = None) -> Ranked:
        order, scores, proven, _, method = self.engine.rank(self.rows, self.method, self.top, accuracy, tell)
        return Ranked(order, scores, np.where(proven, 1.0, np.nan), _words(method))

    def estimate(self, draws: Draws, tell: Tell = None) -> Ranked:
        if draws.n_samples is not None:
            Budget(draws.n_samples)  # is it a number of samples?
        order, scores, confidence = race(
            self.engine, self.rows, self.method, self.top, draws.n_samples, draws.seed, draws.method, tell
        )
        return Ranked(order, scores, confidence, np.full(len(self.rows), draws.method))


def mean_of_curve(curve: FloatArray) -> FloatArray:
    """The mean (n,) over the prefixes of (n, k); 0 if there are none."""
    return curve.mean(axis=1) if curve.shape[1] else np.zeros(len(curve))


def _estimate(found: Answer, scale: FloatArray, accuracy: Accuracy) -> GapEstimate:
    """Gaps with their errors; pruned ones have a standard error relative to `scale`, of the same shape."""
    value, bound, method = found
    as_column = (len(value),) + (1,) * (value.ndim - 1)
    words = np.broadcast_to(_words(method).reshape(as_column), value.shape)
    with np.errstate(over="ignore"):  # a tolerance may be any number
        proven = bound.reshape(as_column) <= accuracy.rtol * scale
    words = np.where((words == "pruned") & proven, "bounded", words)
    error = np.where(words == "pruned", accuracy.standard_error * scale, 0.0)
    return estimate_without_samples(value, bound, words, error)


def _words(method: NDArray[np.uint8]) -> NDArray[np.str_]:
    words: NDArray[np.str_] = _METHODS[method]
    return words


def _of_rows(array: NDArray[Entry], some: IndexArray) -> NDArray[Entry]:
    """Those of some rows, of an array with one row for all or one for each."""
    return array if len(array) == 1 else array[some]
