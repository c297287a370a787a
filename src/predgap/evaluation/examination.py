"""Computes the numbers of an evaluation for some rows: rankings, curves, scores, and their scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, get_args

import numpy as np

from predgap._engine.progress import Tell
from predgap._engine.questions import mean_of_curve
from predgap._engine.scale import RankMethod
from predgap._text import count
from predgap._typing import BoolArray, FloatArray, IndexArray, IntArray
from predgap.errors import CostError
from predgap.evaluation.answers import Answers, Effort, Estimated, Proven, in_words, reporting_to
from predgap.evaluation.requests import Given, Request
from predgap.evaluation.scoring import METRICS, Scored, scored
from predgap.evaluation.statistics import TINY
from predgap.evaluation.words import OwnRankings, ranking_of
from predgap.explainer import Explainer, Sweep
from predgap.explainer._arguments import Rows
from predgap.explainer._guaranteed import BEST_FOUND
from predgap.ranking import Ranking

_FROM_GAPS: Final = get_args(RankMethod)
_WEIGHTS: Final = {"best": 10.0, "shapley": 4.0}  # of steps that take longer than a curve


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

    def prepare(self) -> None:
        """Does what the rankings by a word need once, whatever the rows; it is kept."""
        for request in self.requests:
            if request.word is not None and request.word not in _FROM_GAPS:
                self.own.made(request.word, np.zeros(1, dtype=np.intp))


@dataclass(frozen=True, slots=True, eq=False)
class Examined:
    """The numbers of some rows."""

    rows: Rows
    rankings: dict[str, Ranking]
    scores: dict[str, FloatArray]  # (m, n) by metric
    curves: FloatArray  # (m, n, k)
    random: FloatArray  # (n,)
    random_curve: FloatArray  # (n, k)
    best: FloatArray  # (n,)
    best_ranking: Ranking
    best_curve: FloatArray  # (n, k)
    best_is_proven: BoolArray  # (n,)
    single: FloatArray  # (n, d)
    sweep: Sweep | None
    obtained: dict[str, str]
    notes: tuple[str, ...]


def examined(
    task: Task, explainer: Explainer, some: IndexArray, effort: Effort, tell: Tell = None
) -> Examined:
    """The numbers of some rows; CostError if a row is too costly and nothing may be estimated."""
    return _Examination(task, explainer, some, effort, tell).result()


class _Examination:
    def __init__(
        self, task: Task, explainer: Explainer, some: IndexArray, effort: Effort, tell: Tell
    ) -> None:
        self._task, self._explainer, self._some, self._tell = task, explainer, some, tell
        self._rows = task.rows.at(some)
        self._estimate, self._done, self._notes = effort == "estimate", 0.0, list[str]()
        self._answers: Answers = Proven(explainer, task.seed, effort == "full")
        if self._estimate:
            self._answers = Estimated(explainer, task.seed)

    def result(self) -> Examined:
        task, rows, k = self._task, self._rows, self._task.places
        own = {
            r.name: self._own_ranking(r) for r in task.requests if r.word not in _FROM_GAPS
        }  # errors first
        best = self._step("best").best(rows, k)
        random = self._step().random(rows, k, best)
        single = self._step().rank(rows, "single", self._explainer._inputs.n_units)
        rankings = {
            r.name: own[r.name] if r.name in own else self._from_gaps(r.word or "", best.ranking, single)
            for r in task.requests
        }
        curves = np.stack([self._step().curve(rows, r.order, "pgi2") for r in rankings.values()])
        scores = {"pgi2": np.stack([mean_of_curve(curve) for curve in curves])}
        if "pgu2" in task.metrics:
            reverse = [r.order[:, ::-1] for r in rankings.values()]
            scores["pgu2"] = np.stack(
                [mean_of_curve(self._step().curve(rows, order, "pgu2")) for order in reverse]
            )
        for metric in task.metrics:
            if metric not in ("pgi2", "pgu2"):
                scores[metric] = np.stack([self._scored(metric, rankings[r.name], r) for r in task.requests])
        best_curve = self._step().curve(rows, best.ranking.order, "best")
        order, curve, proven = _raised(best.ranking.order, best_curve, best.is_proven, rankings, curves)
        sweep, notes = self._swept(rankings)
        assert single.scores is not None
        return Examined(
            rows=rows,
            rankings=rankings,
            scores=scores,
            curves=curves,
            random=random,
            random_curve=self._random_curve(),
            best=mean_of_curve(curve),
            best_ranking=ranking_of(
                self._explainer,
                rows,
                order,
                scores=_gains(order, curve, self._explainer._inputs.n_units),
                method="optimal" if proven.all() else BEST_FOUND,
                estimator=best.ranking.estimator,
            ),
            best_curve=curve,
            best_is_proven=proven,
            single=np.array(single.scores),
            sweep=sweep,
            obtained=self._obtained(scores, proven, sweep),
            notes=(*self._notes, *notes),
        )

    def _random_curve(self) -> FloatArray:
        """The mean of the curves of a random order of each row and of the same reversed, (n, k)."""
        n, k = len(self._rows), self._task.places
        in_order = np.tile(np.arange(self._explainer._inputs.n_units), (n, 1))
        order = np.random.default_rng(self._task.seed).permuted(in_order, axis=1)
        both = [
            self._step().curve(self._rows, each[:, :k], "random curve") for each in (order, order[:, ::-1])
        ]
        mean: FloatArray = np.mean(both, axis=0)
        return mean

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
        task, nothing = self._task, np.full(len(self._rows), np.nan)
        attributions = task.given[request.name].attributions
        subject = Scored(
            self._quiet_step(),
            self._rows,
            ranking,
            None if attributions is None else attributions[self._some],
            None if task.y is None else task.y[self._some],
            task.seed,
        )
        try:
            found, how = scored(metric, subject)
        except CostError as error:
            if not self._estimate:
                raise
            self._notes.append(f"{metric} of {request.name!r} was left out, as it is too costly: {error}.")
            return nothing
        self._answers.how.setdefault(metric, set()).update(how)
        if found is None:
            self._notes.append(f"{request.name!r} has no {metric}, which needs {METRICS[metric].needs}.")
            return nothing
        undefined = int(np.isnan(found).sum())
        if undefined:
            left_out = f"is not defined in {count(undefined, 'row')}, left out of its mean"
            self._notes.append(f"{metric} of {request.name!r} {left_out}.")
        return found

    def _from_gaps(self, word: str, best: Ranking, single: Ranking) -> Ranking:
        k = self._task.places
        if word == "optimal":
            return best
        if word == "single":
            return replace(single, order=single.order[:, :k], confidence=_cut(single.confidence, k))
        return self._step(word).rank(self._rows, word, k)

    def _swept(self, rankings: dict[str, Ranking]) -> tuple[Sweep | None, tuple[str, ...]]:
        task = self._task
        if task.strengths is None:
            return None, ()
        named = {r.name: r.word if r.word in _FROM_GAPS else rankings[r.name].order for r in task.requests}
        if (
            all(isinstance(each, str) for each in named.values())
            and task.places < self._explainer._inputs.n_units
        ):
            named = {name: ranking.order for name, ranking in rankings.items()}
        step = 2.0 * len(named) * np.size(task.strengths)
        try:
            return self._asked(step).sweep(self._rows, named, task.strengths), ()
        except CostError as error:
            if not self._estimate:
                raise
            return None, (f"Scores at other strengths were left out, as they are too costly: {error}.",)

    def _step(self, name: str = "") -> Answers:
        """The answers for the next step, which reports its progress after the steps before it."""
        self._answers.explainer = self._asked(_WEIGHTS.get(name, 1.0))
        return self._answers

    def _quiet_step(self) -> Explainer:
        """The explainer for a step of several calls; what is done is reported at its beginning."""
        if self._tell is not None:
            self._tell(int(len(self._rows) * self._done / self._task.n_steps))
        asked = self._asked(1.0)
        asked.progress = None
        return asked

    def _asked(self, weight: float) -> Explainer:
        total = self._task.n_steps
        begin, self._done = self._done, self._done + weight
        return reporting_to(
            self._explainer, self._tell, begin / total, min(1.0, self._done / total), len(self._rows)
        )

    def _obtained(
        self, scores: dict[str, FloatArray], proven: BoolArray, sweep: Sweep | None
    ) -> dict[str, str]:
        how, rtol = self._answers.how, self._explainer.rtol
        if "monotonicity_correlation" in scores:
            how["monotonicity_correlation"] = how["single"]
        words = {metric: in_words(how.get(metric, set()), rtol) for metric in scores}
        words["curves"] = words["pgi2"]
        words["random"] = in_words(how["random"], rtol)
        words["random_curve"] = "estimated (from two random orders of each row)"
        n = int(proven.sum())
        found = "proven" if n == len(proven) else f"proven in {n} of {len(proven)} rows, else the best found"
        words["best"] = f"{in_words(how['best'], rtol)}; {found}"
        words["single"] = in_words(how["single"], rtol)
        words["intervals"] = "estimated (bootstrap over rows)"
        words["differences"] = "estimated (Wilcoxon's test, Holm's correction)"
        if sweep is not None:
            words["sweep"] = f"exact or bounded ({rtol:g})"
        return words


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


def _gains(order: IndexArray, curve: FloatArray, d: int) -> FloatArray:
    """By how much each feature changes the gap at its place, (n, d); NaN for features without a place."""
    out = np.full((len(order), d), np.nan)
    np.put_along_axis(out, order, np.diff(curve, axis=1, prepend=0.0), axis=1)
    return out


def _cut(confidence: FloatArray | None, k: int) -> FloatArray | None:
    return None if confidence is None else confidence[:, :k]
