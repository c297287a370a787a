"""Does the planner choose well, and does it foretell the time? Every way to an answer against its choice.

python benchmarks/planner.py [--zoo fitted|validation|unseen] [--rows N]

The models are in three sets; see zoo.py. The constants of src/core/constants.hpp were set with the times
of the fitted ones in view; the unseen ones judge them. Each question is asked about one row at a time, of the
planner ("auto") and by every way that is possible and not foretold to take long: the shared plan, terms
compiled for the row within 1e-6 or exactly, and pairs of leaves. The answers must agree.

Contenders take turns, and the least of the repeats counts. It is the processor's time on the call of the
kernels, without the checks of the public methods: other programs on the machine disturb it less than a clock.

The loss is the time of the choice over that of the best way which promises as much: where an exact answer
takes less than 50 ms, it is meant to be preferred to a bounded one, which may be quicker. The "loss to all"
looks at that one, too. The exit status is 1 if a loss in the unseen set is above 1.5.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from zoo import ZOO, Animal

import predgap
from predgap import _core
from predgap._engine.kernels import QUIET, as_bytes
from predgap.explainer.explained import CALL

RTOL = 1e-6
AGREE = 2 * RTOL
FEW = 3  # features
MOST_LOSS = 1.5
TOO_LONG = 600.0  # milliseconds; a way that is foretold to take longer is not timed
ROUNDS, PATIENCE = 25, 150.0  # repeats of a call at most, and the milliseconds after which there are no more
QUICK = 20.0  # milliseconds; a longer call fills the caches by itself
EXACTLY = "compiled exactly"
WAYS = ("plan", "compiled", EXACTLY, "pairs")


# --- what is asked --------------------------------------------------------------------------------------

Answer = tuple[np.ndarray, ...]
"""What the kernels return; codes of the methods come last."""
Call = Callable[[], Answer]


@dataclass(frozen=True)
class Question:
    """One question about one row, for any explainer of the model."""

    name: str
    x: np.ndarray  # (1, d)
    order: np.ndarray  # (1, k) of the features that move

    def call(self, explainer: predgap.Explainer) -> Call:
        kernel, values = explainer.explained.kernel, explainer.explained.rows(self.x).values
        core, how = kernel.core, (kernel.accuracy(explainer.accuracy), QUIET)
        moved = kernel.every if self.name == "greedy" else kernel.features_of(self.order)
        if self.name == "greedy":
            return lambda: core.rank(kernel.rows(values, moved), "greedy", values.shape[1], *how)
        if self.name == "curve":
            return lambda: core.curve(kernel.rows(values, moved), self.order, *how)
        return lambda: core.gap(kernel.rows(values, moved), as_bytes(moved), *how)

    def foretold(self, explainer: predgap.Explainer) -> float:
        """Milliseconds of the kernels; infinite where there is not enough memory."""
        asked: Any = self.order[0]
        if self.name in ("curve", "greedy"):
            asked = predgap.Ranking(self.order) if self.name == "curve" else "rank"
        cost = explainer.cost(asked, X=self.x)
        return cost.milliseconds - CALL if cost.megabytes <= _core.MOST_BYTES / 1e6 else np.inf


def questions(explainer: predgap.Explainer, x: np.ndarray) -> list[Question]:
    """Features move in the order of the gaps that each makes alone."""
    order = explainer.rank(x, "single").order.astype(np.int32)
    d = order.shape[1]
    asked = {"gap of few": FEW, "gap of half": d // 2, "gap of all": d, "curve": d, "greedy": d}
    return [Question(name, x, np.ascontiguousarray(order[:, :k])) for name, k in asked.items()]


def check(question: Question, answers: dict[str, Answer]) -> None:
    """All agree with "auto", relative to a gap, to the mean of a curve, or to the last gap of a ranking."""
    auto = answers["auto"]
    is_ranking = question.name == "greedy"
    for way, answer in answers.items():
        gaps, others = (prefix_gaps(auto), prefix_gaps(answer)) if is_ranking else (auto[0], answer[0])
        scale = gaps[-1] if is_ranking else gaps.mean()
        n = common_places(auto[0][0], answer[0][0]) if is_ranking else None
        off = np.abs(gaps - others)[:n].max()
        assert off <= AGREE * scale, f"{question.name} by {way}: {off:.3g} off, of {scale:.3g}"


def prefix_gaps(ranking: Answer) -> np.ndarray:
    """The sums of the scores."""
    order, scores = ranking[0][0], ranking[1][0]
    return np.cumsum(scores[order])


def common_places(order: np.ndarray, other: np.ndarray) -> int:
    """Up to the first that differs: there both features are as good, but then the rankings part."""
    differ = np.flatnonzero(order != other)
    return int(differ[0]) + 1 if differ.size else len(order)


# --- times ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timed:
    """One question about one row: milliseconds of each contender, measured and foretold."""

    zoo: str
    model: str
    question: str
    is_exact: bool  # the planner's answer
    took: dict[str, float]
    said: dict[str, float]

    @property
    def loss(self) -> float:
        """The choice over the best way that promises as much."""
        less = {"compiled"} if self.is_exact else set()
        return self.took["auto"] / min(self.took[way] for way in self.took.keys() - less)

    @property
    def loss_to_all(self) -> float:
        return self.took["auto"] / min(self.took.values())

    @property
    def choice(self) -> str:
        """The way that was foretold to take as long as the choice, but for what is counted on other trees."""
        ways = [way for way in WAYS if way in self.said]
        return min(ways, key=lambda way: abs(self.said[way] - self.said["auto"]))


def contenders(case: Animal) -> dict[str, predgap.Explainer]:
    auto = case.explainer(RTOL)
    ways = ("plan", "compiled", "pairs") if auto.explained.kernel.model.has_plan else ("compiled", "pairs")
    others = {way: case.explainer(RTOL, way) for way in ways}
    return {"auto": auto, EXACTLY: case.explainer(0.0, "compiled")} | others


def least(calls: dict[str, list[Call]]) -> tuple[dict[str, np.ndarray], dict[str, list[Answer]]]:
    """Milliseconds of each contender's calls, one per row, and the answers.

    A quick call is timed right after one about another row, as in a loop over rows.
    """
    n_rows = len(calls["auto"])
    best, spent = ({way: np.full(n_rows, start) for way in calls} for start in (np.inf, 0.0))
    answers: dict[str, list[Any]] = {way: [None] * n_rows for way in calls}
    for step in range(ROUNDS * n_rows):
        for way, own in calls.items():
            row = step % n_rows
            if spent[way][row] >= PATIENCE:
                continue
            if best[way][row - 1] < QUICK:
                own[row - 1]()
            start = time.process_time()
            answers[way][row] = own[row]()
            took = 1e3 * (time.process_time() - start)
            best[way][row] = min(best[way][row], took)
            spent[way][row] += took
    return best, answers


def measure(zoo: str, case: Animal, n_rows: int) -> Iterator[Timed]:
    explainers = contenders(case)
    rows = [questions(explainers["auto"], x[None]) for x in case.rows(n_rows)]
    for asked in zip(*rows, strict=True):  # the same question about every row
        said = {way: [question.foretold(e) for question in asked] for way, e in explainers.items()}
        if max(said["auto"]) > TOO_LONG:
            print(f"{case.title}, {asked[0].name}: left out, {max(said['auto']):,.0f} ms", flush=True)
            continue
        ways = [way for way in said if max(said[way]) <= TOO_LONG]
        took, answers = least({way: [question.call(explainers[way]) for question in asked] for way in ways})
        for r, question in enumerate(asked):
            check(question, {way: answers[way][r] for way in ways})
            is_exact = _core.METHODS[answers["auto"][r][-1][0]] == "exact"
            times = [{way: float(of[way][r]) for way in of} for of in (took, said)]
            yield Timed(zoo, case.title, question.name, is_exact, *times)


# --- what it amounts to ---------------------------------------------------------------------------------

FORETOLD = ("foretold / measured, tenth ... nine tenths", "within 0.5 ... 2")


def foretold(ratios: list[float]) -> list[str]:
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    share = np.mean([0.5 <= ratio <= 2.0 for ratio in ratios])
    return [f"{middle:.2f}, {low:.2f} ... {high:.2f}", f"{share:.0%}"]


def table(head: tuple[str, ...], lines: list[list[str]]) -> str:
    """Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])


def by_way(found: list[Timed]) -> str:
    """How well each way is foretold, question by question: what to set constants by."""
    lines = []
    for way in WAYS:
        for question in dict.fromkeys(t.question for t in found):
            ratios = [t.said[way] / t.took[way] for t in found if t.question == question and way in t.took]
            if ratios:
                lines.append([way, question, str(len(ratios)), *foretold(ratios)])
    return table(("way", "asked", "times", *FORETOLD), lines)


def worst(found: list[Timed], n: int = 12) -> str:
    """The largest losses, with all times."""
    lines = []
    for t in sorted(found, key=lambda t: -t.loss)[:n]:
        times = [f"{t.took[way]:.3g}" if way in t.took else "–" for way in ("auto", *WAYS)]
        losses = [f"{t.loss:.2f}", f"{t.loss_to_all:.2f}"]
        lines.append([t.zoo, t.model, t.question, t.choice, *times, *losses])
    return table(("set", "model", "asked", "choice", "ms", *WAYS, "loss", "loss to all"), lines)


def summary(found: list[Timed]) -> str:
    """Of each set: the worst and the median loss, and how well the choice is foretold."""
    lines = []
    for zoo in dict.fromkeys(t.zoo for t in found):
        own = [t for t in found if t.zoo == zoo]
        losses = [[t.loss for t in own], [t.loss_to_all for t in own]]
        cells = [f"{max(values):.2f}, {np.median(values):.2f}" for values in losses]
        ratios = [t.said["auto"] / t.took["auto"] for t in own]
        lines.append([zoo, str(len(own)), *cells, *foretold(ratios)])
    return table(("set", "times", "loss: worst, median", "loss to all", *FORETOLD), lines)


def measure_zoos(zoos: list[str], n_rows: int) -> list[Timed]:
    return [t for zoo in zoos for train in ZOO[zoo] for t in measure(zoo, train(), n_rows)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--zoo", choices=tuple(ZOO), help="only this set")
    parser.add_argument("--rows", type=int, default=2, help="rows of each model (default %(default)s)")
    asked = parser.parse_args()
    found = measure_zoos([asked.zoo] if asked.zoo else list(ZOO), asked.rows)
    for text in (by_way(found), worst(found), summary(found)):
        print(f"\n{text}")
    return int(any(t.zoo == "unseen" and t.loss > MOST_LOSS for t in found))


if __name__ == "__main__":
    sys.exit(main())
