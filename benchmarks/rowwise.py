"""One row at a time: every question and the TreeSHAP row take turns, and the answers are checked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import answers
import numpy as np
import sampled
from explainers import Explainers
from found import Found
from questions import REFUSAL_MS, Question, first
from settings import Settings
from timing import Timing, least
from trained import Trained
from treeshap import order_of

import predgap

UNIT = "TreeSHAP"


def measure(
    case: Trained,
    questions: list[Question],
    unit: tuple[str, list[Callable[[], np.ndarray]]],
    rows: np.ndarray,
    settings: Settings,
) -> tuple[float, list[Found]]:
    """Milliseconds of one TreeSHAP row, and one line per question."""
    name, shap_calls = unit
    orders = [order_of(call()) for call in shap_calls]
    explainers = Explainers(case)
    for question in questions:
        question.explainer(explainers)  # the model is prepared before any row is timed

    def asking(question: Question, r: int) -> Callable[[], Any]:
        return lambda: question.ask(explainers, rows[r : r + 1], orders[r])

    contenders = {q.name: [asking(q, r) for r in range(len(rows))] for q in questions}
    timings = least(
        {UNIT: shap_calls, **contenders}, settings.rounds, settings.patience, (predgap.CostError,)
    )
    shap_ms = timings[UNIT].milliseconds
    judge = Judge(case, explainers, rows, orders, settings)
    lines = [judge.line(q, timings[q.name], name, shap_ms) for q in questions]
    judge.compare_rankings(questions, timings, lines)
    return shap_ms, lines


@dataclass
class Judge:
    """Says what the times and the answers of a question amount to."""

    case: Trained
    explainers: Explainers
    rows: np.ndarray
    orders: list[np.ndarray]
    settings: Settings

    def line(self, question: Question, timing: Timing, unit: str, shap_ms: float) -> Found:
        ratio = timing.milliseconds / shap_ms
        line = Found(question.name, timing.milliseconds, unit, ratio, question.aim, question.aim_ms)
        if timing.refusal is not None:
            line.refused = str(timing.refusal)
            line.refusal_ms = REFUSAL_MS if question.may_refuse else None
            return line
        line.obtained = obtained(question, timing.answers)
        line.predicted = self.predicted(question, timing)
        if question.approximate:
            line.aim_error = question.rtol
        for r in range(min(self.settings.checked, len(self.rows))):
            with contextlib.suppress(predgap.CostError):  # of an approximate reference: not checked, then
                self.check(line, question, timing.answers[r], r)
        return line

    def check(self, line: Found, question: Question, answer: Any, r: int) -> None:
        x, order = self.rows[r : r + 1], self.orders[r]
        to = answers.reference(question, self.explainers, x, order, self.settings.affordable_ms)
        if to is not None:
            checks = [answers.check(question, answer, to, x, order)]
            if question.kind == "pgi2" and not question.approximate:
                checks.append(answers.check_curve(self.explainers, to, x, order, question.rtol))
            if question.kind == "rank" and r == 0:
                checks.append(answers.check_choices(answer, to, x))
            line.error = max(line.error or 0.0, checks[0].error)
            line.against = to.name
            line.wrong += [
                f"row {r}: {c.what} {c.error:.1e} off, {c.allowed:.1e} allowed"
                for c in checks
                if not c.is_right
            ]
        if question.kind == "gap" and not question.approximate:
            gap = float(answer[0])
            if not sampled.agrees(self.case, x[0], first(order), gap):
                line.wrong.append(f"row {r}: the model's own predictions do not have the gap {gap:.6g}")

    def predicted(self, question: Question, timing: Timing) -> dict[str, float]:
        """What `Explainer.cost` says from counts alone, and having probed the row, over what was measured.

        Counts alone speak of the mean over rows, so the means over all rows are compared.
        """
        if question.approximate or question.top is not None:
            return {}  # cost() has no way to ask about these
        explainer = self.explainers.within(question.rtol)
        priced = [question.priced(order) for order in self.orders]
        counted = np.mean([explainer.cost(what).milliseconds for what in priced])
        probed = [
            explainer.cost(priced[r], X=self.rows[r : r + 1]).milliseconds / (1e3 * timing.least[r])
            for r in range(min(self.settings.checked, len(self.rows)))
        ]
        return {
            "counts": float(counted / (1e3 * np.mean(timing.least))),
            "probed": float(np.median(probed)),
        }

    def compare_rankings(
        self, questions: list[Question], timings: dict[str, Timing], lines: list[Found]
    ) -> None:
        """The first places only are those of the full ranking, wherever both are proven."""
        by_name = {line.question: line for line in lines if line.refused is None}
        full = next((q for q in questions if q.kind == "rank" and q.top is None), None)
        for question in questions:
            if question.top is None or full is None or not {question.name, full.name} <= set(by_name):
                continue
            pairs = zip(timings[question.name].answers, timings[full.name].answers, strict=True)
            for r, (some, every) in enumerate(pairs):
                if not answers.same_places(some, every):
                    by_name[question.name].wrong.append(f"row {r}: proven places differ from {full.name}")


def obtained(question: Question, found: list[Any]) -> str:
    """How the numbers were obtained, as far as the answers say it."""
    if question.kind == "rank":
        share = np.mean([np.mean(answers.proven(ranking)) for ranking in found])
        return f"{found[0].estimator}, {share:.0%} of places proven"
    if question.approximate:
        methods = ", ".join(sorted({str(method) for a in found for method in np.atleast_1d(a.method)}))
        return f"{methods}, says ± {np.median([said_error(a) for a in found]):.1e}"
    return ""


def said_error(estimate: predgap.GapEstimate) -> float:
    """Its standard error, or its bound where it is proven; relative."""
    bound, deviation = (np.max(error) for error in (estimate.error_bound, estimate.standard_error))
    return float(deviation if deviation > 0 else bound) / answers.scale_of(estimate.value)
