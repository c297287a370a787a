"""Computes the numbers of an evaluation for some rows: rankings, curves, scores, and their scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, get_args

import numpy as np

from predgap._engine.context import Context
from predgap._engine.questions import RankMethod, Rows
from predgap._engine.results import mean_of_curve
from predgap._typing import BoolArray, FloatArray, IndexArray, IntArray
from predgap.errors import CostError
from predgap.evaluation.answers import (
    Answers,
    Effort,
    Estimated,
    Proven,
    compared,
    random_orders,
    reporting_to,
)
from predgap.evaluation.requests import Given, Request
from predgap.evaluation.scoring import METRICS, Scored, scored
from predgap.evaluation.statistics import TINY
from predgap.evaluation.words import OwnRankings, ranking_of
from predgap.explainer import Explainer
from predgap.explainer.sweep import Swept, swept
from predgap.ranking import Ranking

Found = TypeVar("Found")

_FROM_GAPS: Final = get_args(RankMethod)
_WEIGHTS: Final = {"best": 10.0, "shapley": 4.0}  # of steps that take longer than a curve
_RANDOM_PAIRS: Final = 4  # random rankings of a row that stand for all, with the reversed ones


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What is to be computed, for all rows of a table."""

    requests: Sequence[Request]
    rows: Rows
    orders: dict[str, IntArray]  # of the given rankings, (n, k or more)
    given: dict[str, Given]  # what is behind them
    y: FloatArray | None  # the outcomes, if a metric needs them
    own: OwnRankings
    places: int
    metrics: Sequence[str]
    strengths: Any
    seed: int

    @property
    def n_steps(self) -> float:
        """The number of steps, each weighed by its time."""
        per_ranking = len(self.metrics)
        built = sum(_WEIGHTS.get(r.word or "", 1.0) for r in self.requests if r.word in ("greedy", "shapley"))
        swept = 0 if self.strengths is None else 2 * len(self.requests) * np.size(self.strengths)
        return _WEIGHTS["best"] + 5 + built + per_ranking * len(self.requests) + swept

    @property
    def n_curves(self) -> int:
        """The number of curves of a row, if not all rankings are compared."""
        per_ranking = 2 if "pgu2" in self.metrics else 1
        swept = 0 if self.strengths is None else np.size(self.strengths)
        return 2 * _RANDOM_PAIRS + (per_ranking + swept) * len(self.requests)

    @property
    def has_more(self) -> bool:
        """Is anything asked that cannot be estimated?"""
        return self.strengths is not None or any(metric not in ("pgi2", "pgu2") for metric in self.metrics)

    def prepare(self) -> None:
        """Does what the rankings by a word need once, whatever the rows; it is kept."""
        for request in self.requests:
            if request.word is not None and request.word not in _FROM_GAPS:
                self.own.made(request.word, np.zeros(1, dtype=np.intp))


@dataclass(frozen=True, slots=True, eq=False)
class Examined:
    """The numbers of some rows."""

    some: IndexArray  # (n,) the rows of the table
    rankings: dict[str, Ranking]
    scores: dict[str, FloatArray]  # (m, n) by metric
    curves: FloatArray  # (m, n, k)
    random: FloatArray  # (n,)
    random_curve: FloatArray  # (n, k)
    best_order: IndexArray  # (n, k)
    best_curve: FloatArray  # (n, k)
    best_is_proven: BoolArray  # (n,)
    single: FloatArray  # (n, d)
    swept: Swept | None
    how: dict[str, set[str]]  # the methods by which each quantity was obtained
    n_random: int  # how many random orders of each row are behind their curve
    left_out: dict[tuple[str, str], str]  # the metrics of rankings that there are not, and why


def examined(
    task: Task, explainer: Explainer, some: IndexArray, effort: Effort, context: Context | None = None
) -> Examined:
    """The numbers of some rows; CostError if a row is too costly and nothing may be estimated."""
    return _Examination(task, explainer, some, effort, context).result()


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """Curves that are known."""

    order: IndexArray  # (n, k)
    curve: FloatArray  # (n, k), NaN where it is not
    methods: set[str]


class _Examination:
    def __init__(
        self,
        task: Task,
        explainer: Explainer,
        some: IndexArray,
        effort: Effort,
        context: Context | None,
    ) -> None:
        self._task, self._explainer, self._some, self._context = task, explainer, some, context
        self._rows, self._effort, self._done = task.rows.at(some), effort, 0.0
        self._answers: Answers = Estimated(explainer, task.seed) if self._estimates else Proven(explainer)
        n_pairs = 1 if effort == "full" else _RANDOM_PAIRS
        self._random_orders = random_orders(some, explainer.explained.n_units, n_pairs, task.seed)
        self._known: list[_Known] = []
        self._built: dict[str, Ranking] = {}  # from gaps, by word
        self._left_out: dict[tuple[str, str], str] = {}

    @property
    def _estimates(self) -> bool:
        return self._effort in ("estimate", "bare")

    def result(self) -> Examined:
        task, rows, d = self._task, self._rows, self._explainer.explained.n_units
        made = {
            r.name: self._own_ranking(r) for r in task.requests if r.word not in _FROM_GAPS
        }  # errors first
        single = self._step().rank(rows, "single", d)
        made |= self._from_gaps(single)
        shuffled = [order[:, : task.places] for order in self._random_orders]
        best, best_curve, proven, random = self._scale(made, shuffled)
        rankings = {r.name: made.get(r.name, best) for r in task.requests}  # "optimal" is the best
        curves = np.stack([self._curve(r.order, "pgi2") for r in rankings.values()])
        random_curve: FloatArray = np.mean([self._curve(o, "random curve") for o in shuffled], axis=0)
        order, curve, proven = _raised(best.order, best_curve, proven, rankings, curves)
        assert single.scores is not None
        return Examined(
            some=self._some,
            rankings=rankings,
            scores=self._scores(rankings, curves),
            curves=curves,
            random=mean_of_curve(random_curve) if random is None else random,
            random_curve=random_curve,
            best_order=order,
            best_curve=curve,
            best_is_proven=proven,
            single=np.array(single.scores),
            swept=self._swept(rankings),
            how=self._answers.how,
            n_random=len(shuffled),
            left_out=self._left_out,
        )

    def _scale(
        self, made: dict[str, Ranking], shuffled: list[IndexArray]
    ) -> tuple[Ranking, FloatArray, BoolArray, FloatArray | None]:
        """The best ranking, its curves, where it is proven, and the expected score of a random ranking; None
        if that is to be the mean of some."""
        if self._effort != "full":
            greedy = self._ranked("greedy")
            self._answers.how["random"] = {"mc"}
            return greedy, self._curve(greedy.order, "best"), np.zeros(len(self._rows), dtype=np.bool_), None
        asked = [*shuffled, *(ranking.order for ranking in made.values())]
        if "pgu2" in self._task.metrics:
            asked += [ranking.order[:, ::-1] for ranking in made.values()]
        answers = self._step("best")
        found = compared(answers, self._rows, self._task.places, np.stack(asked, axis=1).astype(np.int32))
        for order, curve in zip(asked, np.moveaxis(found.curves, 1, 0), strict=True):
            self._known.append(_Known(order, curve, found.methods))
        self._known.append(_Known(found.ranking.order, found.curve, found.methods))
        return found.ranking, found.curve, found.is_proven, found.random

    def _curve(self, order: IndexArray, what: str) -> FloatArray:
        """The curves (n, k) of orders (n, k); what is known of a row is not computed again."""
        curve: FloatArray = np.full(order.shape, np.nan)
        how = self._answers.how.setdefault(what, set())
        for known in self._known:
            same = (known.order == order).all(axis=1) & np.isnan(curve[:, 0]) & ~np.isnan(known.curve[:, 0])
            curve[same] = known.curve[same]
            how |= known.methods if same.any() else set()
        missing = np.flatnonzero(np.isnan(curve[:, 0]))
        if len(missing):
            curve[missing] = self._step().curve(self._rows.at(missing), order[missing], what)
            self._known.append(_Known(order, curve, set(how)))
        return curve

    def _scores(self, rankings: dict[str, Ranking], curves: FloatArray) -> dict[str, FloatArray]:
        task = self._task
        scores = {"pgi2": np.stack([mean_of_curve(curve) for curve in curves])}
        if "pgu2" in task.metrics:
            reverse = [r.order[:, ::-1] for r in rankings.values()]
            scores["pgu2"] = np.stack([mean_of_curve(self._curve(order, "pgu2")) for order in reverse])
        for metric in task.metrics:
            if metric not in ("pgi2", "pgu2"):
                scores[metric] = np.stack([self._scored(metric, rankings[r.name], r) for r in task.requests])
        return scores

    def _own_ranking(self, request: Request) -> Ranking:
        """A ranking that is given, or by a word that has nothing to do with gaps."""
        k = self._task.places
        if request.word is not None:
            found = self._task.own.made(request.word, self._some)
            return replace(found, order=found.order[:, :k])
        order = self._task.orders[request.name][self._some, :k]
        sizes = self._task.given[request.name].sizes
        scores = None if sizes is None else sizes[self._some]
        return ranking_of(self._explainer, self._rows, order, scores=scores, method="given")

    def _scored(self, metric: str, ranking: Ranking, request: Request) -> FloatArray:
        """Another score of a ranking, (n,); NaN, and a note, where it cannot be."""
        task, key = self._task, (metric, request.name)
        attributions = task.given[request.name].attributions
        subject = Scored(
            self._quiet_step(),
            self._rows,
            ranking,
            None if attributions is None else attributions[self._some],
            None if task.y is None else task.y[self._some],
            task.seed,
        )
        answer = self._if_affordable(
            key, f"{metric} of {request.name!r} was", lambda: scored(metric, subject)
        )
        nothing = np.full(len(self._rows), np.nan)
        if answer is None:
            return nothing
        found, how = answer
        self._answers.how.setdefault(metric, set()).update(how)
        if found is None:
            needs = METRICS[metric].needs
            self._left_out[key] = f"{request.name!r} has no {metric}, which needs {needs}."
            return nothing
        return found

    def _ranked(self, word: str) -> Ranking:
        """A ranking from gaps; what is known is not computed again."""
        if word not in self._built:
            if word == "shapley" and self._estimates:
                self._built[word] = self._estimated_shapley()
            else:
                self._built[word] = self._step(word).rank(self._rows, word, self._task.places)
        return self._built[word]

    def _estimated_shapley(self) -> Ranking:
        """By the mean of what each unit adds along random orders of all units."""
        k, values = self._task.places, np.zeros((len(self._rows), self._explainer.explained.n_units))
        for order in self._random_orders:
            curve = self._step().curve(self._rows, order, "shapley")
            self._known.append(_Known(order[:, :k], curve[:, :k], self._answers.how["shapley"]))
            gains = np.diff(curve, axis=1, prepend=0.0)
            values += np.take_along_axis(gains, order.argsort(axis=1), axis=1) / len(self._random_orders)
        places = np.argsort(-values, axis=1, kind="stable")
        np.put_along_axis(values, places[:, k:], np.nan, axis=1)
        given = {"scores": values, "method": "shapley", "estimator": "mc"}
        return ranking_of(self._explainer, self._rows, places[:, :k], **given)

    def _from_gaps(self, single: Ranking) -> dict[str, Ranking]:
        """The rankings that are built from gaps, by name, but for the best."""
        k, found = self._task.places, {}
        for request in self._task.requests:
            if request.word == "single":
                cut = _cut(single.confidence, k)
                found[request.name] = replace(single, order=single.order[:, :k], confidence=cut)
            elif request.word in ("greedy", "shapley"):
                found[request.name] = self._ranked(request.word)
        return found

    def _swept(self, rankings: dict[str, Ranking]) -> Swept | None:
        task = self._task
        if task.strengths is None:
            return None
        named = {r.name: r.word if r.word in _FROM_GAPS else rankings[r.name].order for r in task.requests}
        if (
            all(isinstance(each, str) for each in named.values())
            and task.places < self._explainer.explained.n_units
        ):
            named = {name: ranking.order for name, ranking in rankings.items()}
        step = 2.0 * len(named) * np.size(task.strengths)
        return self._if_affordable(
            ("sweep", ""),
            "Scores at other strengths were",
            lambda: swept(self._asked(step), self._rows, named, task.strengths),
        )

    def _if_affordable(self, key: tuple[str, str], what: str, ask: Callable[[], Found]) -> Found | None:
        """What cannot be estimated: if gaps are estimated, None and a note where it is too costly."""
        if self._effort == "bare":
            self._left_out[key] = f"{what} left out, to keep within the budget."
            return None
        try:
            return ask()
        except CostError as error:
            if self._effort != "estimate":
                raise
            self._left_out[key] = f"{what} left out, as too costly: {error}."
            return None

    def _step(self, name: str = "") -> Answers:
        """The answers for the next step, which reports its progress after the steps before it."""
        self._answers.explainer = self._asked(_WEIGHTS.get(name, 1.0))
        return self._answers

    def _quiet_step(self) -> Explainer:
        """The explainer for a step of several calls; what is done is reported at its beginning."""
        if self._context is not None:
            self._context.look(int(len(self._rows) * self._done / self._task.n_steps))
        asked = self._asked(1.0)
        asked.progress = False
        return asked

    def _asked(self, weight: float) -> Explainer:
        total = self._task.n_steps
        begin, self._done = self._done, self._done + weight
        return reporting_to(self._explainer, self._context, begin / total, min(1.0, self._done / total))


def _raised(
    order: IndexArray, curve: FloatArray, proven: BoolArray, rankings: dict[str, Ranking], curves: FloatArray
) -> tuple[IndexArray, FloatArray, BoolArray]:
    """The best rankings and their curves, where a ranking that was given scores higher replaced by it."""
    order, curve = order.copy(), curve.copy()
    proven = proven.copy()
    for ranking, own in zip(rankings.values(), curves, strict=True):
        now, other = mean_of_curve(curve), mean_of_curve(own)
        higher = other > now
        proven &= ~(other > now * (1 + 1e3 * TINY))
        order[higher], curve[higher] = ranking.order[higher], own[higher]
    return order, curve, proven


def _cut(confidence: FloatArray | None, k: int) -> FloatArray | None:
    return None if confidence is None else confidence[:, :k]
