"""Asks an explainer what an evaluation needs: within a proven error, or estimated if that is too costly."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol

import numpy as np

from predgap._engine.costs import Cost
from predgap._engine.estimates import GapEstimate
from predgap._engine.progress import Tell
from predgap._engine.questions import Curves, mean_of_curve
from predgap._engine.scale import BestRankings, Searched
from predgap._typing import BoolArray, FloatArray, IndexArray, IntArray
from predgap.explainer import Approximation, Explainer
from predgap.explainer._arguments import Rows
from predgap.explainer._guaranteed import BEST_FOUND
from predgap.ranking import Ranking

_RANDOM_PAIRS: Final = 4  # random rankings of a row that stand for all, with the reversed ones
_ESTIMATED: Final = ("pruned", "qmc", "mc")
_RTOL: Final = 1e-2  # that estimates aim at
_PRICED: Final = 20  # rows whose cost stands for all

Effort = Literal["full", "search", "estimate"]
"""full: all rankings are compared for best and random; search: a few; estimate: gaps are estimated, too."""


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """The rankings with the highest PGI², and in which rows that is proven."""

    ranking: Ranking
    is_proven: BoolArray  # (n,)
    searched: Searched | None = None  # what they were found by, if all rankings were to be compared


class Answers(Protocol):
    """What an evaluation asks; `how` collects how each quantity was obtained."""

    explainer: Explainer
    how: dict[str, set[str]]

    def curve(self, rows: Rows, order: IndexArray | IntArray, what: str) -> FloatArray:
        """The curves (n, k) of orders (n, k)."""

    def rank(self, rows: Rows, method: str, top: int) -> Ranking:
        """A ranking that is built from gaps."""

    def best(self, rows: Rows, top: int) -> Best:
        """The best rankings that can be found."""

    def random(self, rows: Rows, top: int, best: Best) -> FloatArray:
        """The expected PGI² of a random ranking, (n,); what came along with the best one is taken over."""


@dataclass(eq=False)
class Proven:
    """Answers of an explainer within its tolerance."""

    explainer: Explainer
    seed: int
    compare_all: bool = True  # rankings, for best and random; else the greedy one, and a few random ones
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
        if not self.compare_all:
            return _greedy(self, rows, top)
        found = asked._searched(rows, top, "rank(X, 'optimal')")
        method = "optimal" if found.is_complete.all() else BEST_FOUND
        return Best(asked._inputs.ranking(found, method, rows), found.is_complete, found)

    def random(self, rows: Rows, top: int, best: Best) -> FloatArray:
        if not self.compare_all:
            return _mean_of_some(self, rows, top)
        found = self.explainer._random(rows, top, "random_pgi2(X)", best.searched)
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
        return _greedy(self, rows, top)

    def random(self, rows: Rows, top: int, best: Best) -> FloatArray:
        return _mean_of_some(self, rows, top)

    @property
    def _asked(self) -> Approximation:
        return self.explainer.approximate(rtol=_RTOL, seed=self.seed)


def _greedy(answers: Answers, rows: Rows, top: int) -> Best:
    """The greedy ranking as the best one that was found; nothing is proven."""
    return Best(answers.rank(rows, "greedy", top), np.zeros(len(rows), dtype=np.bool_))


def _mean_of_some(answers: Proven | Estimated, rows: Rows, top: int) -> FloatArray:
    """The mean PGI² of a few random rankings of each row and of the same reversed, (n,)."""
    rng = np.random.default_rng(answers.seed)
    in_order = np.tile(np.arange(answers.explainer._inputs.n_units), (len(rows), 1))
    scores = []
    for _ in range(_RANDOM_PAIRS):
        shuffled = rng.permuted(in_order, axis=1)
        for order in (shuffled, shuffled[:, ::-1]):
            scores.append(mean_of_curve(answers.curve(rows, order[:, :top], "random")))
    answers.how["random"] = {"mc"}
    mean: FloatArray = np.mean(scores, axis=0)
    return mean


def expected_cost(explainer: Explainer, rows: Rows, places: int, effort: Effort) -> Cost:
    """The expected cost of a row, from up to 20 of them: of its greedy ranking, and for the effort "full" of
    the gaps of all subsets, from which the best ranking is found if there are not too many."""
    cost = explainer.cost("rank", rows)
    if effort != "full":
        return cost
    some = rows.at(np.unique(np.linspace(0, len(rows) - 1, _PRICED).astype(np.intp)))
    engine, members, accuracy = explainer._engine, explainer._inputs.members, explainer._accuracy
    few, _ = BestRankings(engine, some.values, places, members).split(accuracy)
    total = 0.0
    for part in few:
        features = engine.features_of(part.units, members)
        at = some.values[part.some]
        total += engine.cost(at, "subsets", features, part.units.shape[1], accuracy, members)[1].sum()
    return replace(cost, milliseconds=cost.milliseconds + float(total) / len(some))


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
