"""Asks an explainer what an evaluation needs: within a proven error, or estimated if that is too costly."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from predgap._engine.estimates import GapEstimate
from predgap._engine.progress import Tell
from predgap._engine.questions import Curves, mean_of_curve
from predgap._engine.scale import Expected, RandomScores, Searched
from predgap._typing import BoolArray, FloatArray, IndexArray, IntArray
from predgap.explainer import Approximation, Explainer
from predgap.explainer._arguments import Rows
from predgap.explainer._guaranteed import BEST_FOUND
from predgap.ranking import Ranking

_RANDOM: Final = 16  # random rankings of a row that stand for all
_ESTIMATED: Final = ("pruned", "qmc", "mc")
_RTOL: Final = 1e-2  # that estimates aim at


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """The rankings with the highest PGI², and in which rows that is proven."""

    ranking: Ranking
    is_proven: BoolArray  # (n,)


class Answers(Protocol):
    """What an evaluation asks; `how` collects how each quantity was obtained."""

    how: dict[str, set[str]]

    def curve(self, rows: Rows, order: IndexArray | IntArray, what: str) -> FloatArray:
        """The curves (n, k) of orders (n, k)."""

    def rank(self, rows: Rows, method: str, top: int) -> Ranking:
        """A ranking that is built from gaps."""

    def best(self, rows: Rows, top: int) -> Best:
        """The best rankings that can be found."""

    def random(self, rows: Rows, top: int) -> FloatArray:
        """The expected PGI² of a random ranking, (n,)."""


@dataclass(eq=False)
class Proven:
    """Answers of an explainer within its tolerance."""

    explainer: Explainer
    how: dict[str, set[str]] = field(default_factory=dict)

    def curve(self, rows: Rows, order: IndexArray | IntArray, what: str) -> FloatArray:
        asked, accuracy = self.explainer, self.explainer._accuracy
        question = Curves(asked._engine, rows.values, order.astype(np.int32), asked._inputs.members)
        with asked._asking("curve(X, ranking)"):
            found: GapEstimate = asked._answer(question, rows, lambda part, tell: part.answer(accuracy, tell))
        self.how.setdefault(what, set()).update(np.unique(found.method).tolist())
        return found.value

    def rank(self, rows: Rows, method: str, top: int) -> Ranking:
        found = self.explainer.rank(rows, method, top=top)  # type: ignore[arg-type]
        self.how.setdefault(method, set()).add(found.estimator or "exact")
        return found

    def best(self, rows: Rows, top: int) -> Best:
        asked = self.explainer
        found = asked._ranked(rows, "optimal", top, "rank(X, 'optimal')")
        assert isinstance(found, Searched)
        method = "optimal" if found.is_complete.all() else BEST_FOUND
        return Best(asked._inputs.ranking(found, method, rows), found.is_complete)

    def random(self, rows: Rows, top: int) -> FloatArray:
        asked = self.explainer
        question = RandomScores(asked._engine, rows.values, top, asked._inputs.members)
        with asked._asking("random_pgi2(X)"):
            found: Expected = asked._answer(question, rows, asked._by_kernels)
        self.how.setdefault("random", set()).update(np.unique(found.method).tolist())
        return found.value


@dataclass(eq=False)
class Estimated:
    """Answers whose error is estimated. "Best" is the greedy ranking, "random" the mean of a few."""

    explainer: Explainer
    seed: int
    how: dict[str, set[str]] = field(default_factory=dict)

    def curve(self, rows: Rows, order: IndexArray | IntArray, what: str) -> FloatArray:
        found = self._asked.curve(rows, order)
        self.how.setdefault(what, set()).update(np.unique(found.method).tolist())
        return found.value

    def rank(self, rows: Rows, method: str, top: int) -> Ranking:
        found = self._asked.rank(rows, method, top=top)  # type: ignore[arg-type]
        self.how.setdefault(method, set()).add(found.estimator or "exact")
        return found

    def best(self, rows: Rows, top: int) -> Best:
        return Best(self.rank(rows, "greedy", top), np.zeros(len(rows), dtype=np.bool_))

    def random(self, rows: Rows, top: int) -> FloatArray:
        rng = np.random.default_rng(self.seed)
        in_order = np.tile(np.arange(self.explainer._inputs.n_units), (len(rows), 1))
        total = np.zeros(len(rows))
        for _ in range(_RANDOM):
            shuffled = rng.permuted(in_order, axis=1)[:, :top]
            total += mean_of_curve(self.curve(rows, shuffled, "random"))
        return total / _RANDOM

    @property
    def _asked(self) -> Approximation:
        return self.explainer.approximate(rtol=_RTOL, seed=self.seed)


def reporting_to(explainer: Explainer, tell: Tell, begin: float, end: float, n_rows: int) -> Explainer:
    """A copy of the explainer whose next call is the work from `begin` to `end` of all, which is 1."""
    asked = copy.copy(explainer)
    asked.progress = None
    if tell is not None:
        asked.progress = lambda done, total: tell(
            int(n_rows * (begin + (end - begin) * done / max(1, total)))
        )
    return asked


def in_words(methods: set[str], rtol: float) -> str:
    """How numbers were obtained, by the least certain of their methods.

    Examples
    --------
    >>> in_words({"exact", "bounded"}, 1e-6), in_words({"exact"}, 1e-6), in_words({"qmc", "exact"}, 1e-2)
    ('bounded (1e-06)', 'exact', 'estimated')
    """
    if methods & {*_ESTIMATED}:
        return "estimated"
    return f"bounded ({rtol:g})" if "bounded" in methods else "exact"
