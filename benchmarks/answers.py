"""Are the answers right? Each is compared with a tighter one, as tight as is affordable.

A guaranteed answer that is further off than it may be is wrong, and so is one outside its own proven bound.
An approximate one without a bound cannot be wrong, but its true error is measured all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from explainers import Explainers
from questions import Question

import predgap

TIGHTER = (0.0, 1e-10, 1e-8, 1e-6)
FINER = 100  # how much tighter an approximate reference is, where no guaranteed one is affordable
ROUNDING = 1e-12
EVERY = 6  # of so many places two are tried with every other feature


@dataclass(frozen=True)
class Check:
    error: float  # relative to the reference
    allowed: float  # infinite where nothing is promised
    against: str
    what: str = "answer"

    @property
    def is_right(self) -> bool:
        return self.error <= self.allowed


@dataclass(frozen=True)
class Reference:
    """The explainer to compare with, and how far off it may be itself."""

    explainer: Any
    rtol: float
    name: str


def reference(
    question: Question, explainers: Explainers, x: np.ndarray, order: np.ndarray, affordable_ms: float
) -> Reference | None:
    """The tightest that is affordable, and at least ten times as tight as the question."""
    priced = predgap.Ranking(order) if question.kind == "rank" else question.priced(order)
    for rtol in TIGHTER:
        explainer = explainers.within(rtol)
        if rtol <= question.rtol / 10 and milliseconds(explainer, priced, x) <= affordable_ms:
            return Reference(explainer, rtol, "exact" if rtol == 0 else f"within {rtol:g}")
    if not question.approximate:
        return None
    rtol = question.rtol / FINER
    return Reference(explainers.about(rtol, "pruned"), rtol, f"pruned, about {rtol:g}")


def milliseconds(explainer: predgap.Explainer, priced: Any, x: np.ndarray) -> float:
    """What an answer is said to cost; infinite where it would be refused."""
    try:
        return explainer.cost(priced, X=x).milliseconds
    except predgap.CostError:
        return np.inf


def check(question: Question, answer: Any, to: Reference, x: np.ndarray, order: np.ndarray) -> Check:
    if question.kind == "rank":
        return _check_scores(question, answer, to, x)
    truth = value_of(question.ask_of(to.explainer, x, order))
    error = float(np.max(np.abs(value_of(answer) - truth)) / scale_of(truth))
    return Check(error, promised(question, answer, truth) + to.rtol + ROUNDING, to.name)


def _check_scores(question: Question, ranking: predgap.Ranking, to: Reference, x: np.ndarray) -> Check:
    """Scores are what each place adds to the gap of the places before, relative to the gap of all."""
    curve = value_of(to.explainer.curve(x, ranking.order))
    added = np.diff(curve, axis=1, prepend=0.0)
    scores = np.take_along_axis(ranking.scores, ranking.order, axis=1)
    error = float(np.max(np.abs(scores - added)) / scale_of(curve[:, -1]))
    allowed = np.inf if question.approximate else question.rtol + 2 * to.rtol + ROUNDING
    return Check(error, allowed, to.name)


def check_curve(
    explainers: Explainers, to: Reference, x: np.ndarray, order: np.ndarray, rtol: float
) -> Check:
    """A curve's error is relative to its mean."""
    truth = value_of(to.explainer.curve(x, order))
    error = np.max(np.abs(explainers.within(rtol).curve(x, order) - truth))
    return Check(float(error / scale_of(truth.mean())), rtol + to.rtol + ROUNDING, to.name, "curve")


def promised(question: Question, answer: Any, truth: np.ndarray) -> float:
    """What is promised, relative to the truth."""
    if not question.approximate:
        return question.rtol
    return float(np.max(answer.error_bound)) / scale_of(truth)


def value_of(answer: Any) -> np.ndarray:
    return np.asarray(getattr(answer, "value", answer))


def scale_of(truth: Any) -> float:
    """What errors are divided by; where the truth is 0 only 0 will do."""
    return float(np.max(np.abs(truth))) or np.finfo(float).tiny


def check_choices(ranking: predgap.Ranking, to: Reference, x: np.ndarray) -> Check:
    """By how much another feature would have been better than a proven one, at some places of one row."""
    order, d = ranking.order[0], x.shape[1]
    lost = 0.0
    for place in np.flatnonzero(proven(ranking)[0] & (np.arange(len(order)) % EVERY < 2)):
        left = np.setdiff1d(np.arange(d), order[:place])
        masks = np.zeros((len(left), d), dtype=bool)
        masks[:, order[:place]] = True
        masks[np.arange(len(left)), left] = True
        gaps = value_of(to.explainer.gap(np.repeat(x, len(left), axis=0), masks))
        chosen = gaps[left == order[place]][0]
        lost = max(lost, float(gaps.max() - chosen) / scale_of(gaps))
    return Check(lost, 2 * to.rtol + ROUNDING, to.name, "choice")


def proven(ranking: predgap.Ranking) -> np.ndarray:
    """(n, k): whether this place and all places before it are proven."""
    if ranking.confidence is None:
        return np.zeros(ranking.order.shape, dtype=bool)
    return np.logical_and.accumulate(ranking.confidence == 1.0, axis=1)


def same_places(a: predgap.Ranking, b: predgap.Ranking) -> bool:
    """Whether two rankings of the same rows agree wherever both are proven."""
    k = min(a.order.shape[1], b.order.shape[1])
    both = proven(a)[:, :k] & proven(b)[:, :k]
    return bool(np.array_equal(a.order[:, :k][both], b.order[:, :k][both]))
