"""Measures the speeds by which the planner prices answers, `kSpeeds` of src/core/constants.hpp, again.

python benchmarks/constants.py [--zoo fitted|validation] [--rows N] [--json FILE]       (make constants)

Every question of benchmarks/planner.py is asked about rows of the fitted models by every way that is possible
and not foretold to take long. The core tells how many things of each kind an answer consists of; the time is
the least of some repeats, of the processor. The speeds that explain the times best are found by least squares
of relative errors, held near to those in use where the times say little. Nothing is written to the sources:
a line that differs by more than a fifth is worth a look at the table of errors below it, for a speed also
absorbs what is counted wrongly.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from planner import TOO_LONG, Question, contenders, least, questions, table
from scipy.optimize import lsq_linear
from zoo import ZOO, Animal

import predgap
from predgap import _core
from predgap._engine.kernels import QUIET, as_bytes

SPEEDS = np.array([nanoseconds for nanoseconds, _ in _core.SPEEDS.values()])
HOLD = 1.0  # a relative change of a speed weighs as much as the relative error of one time
RANGE = (0.1, 10.0)  # of the change of a speed


@dataclass(frozen=True)
class Timed:
    model: str
    question: str
    way: str
    work: np.ndarray  # (n_speeds,)
    nanoseconds: float


def work_of(question: Question, explainer: predgap.Explainer) -> tuple[np.ndarray, float]:
    """The work that an answer consists of, (n_speeds,), and the milliseconds that are foretold."""
    kernel, values = explainer.explained.kernel, explainer.explained.rows(question.x).values
    is_greedy = question.name == "greedy"
    kind = question.name if question.name in ("curve", "greedy") else "gap"
    moved = kernel.every if is_greedy else kernel.features_of(question.order)
    order = question.order if kind == "curve" else None
    n = 0 if kind == "gap" else question.order.shape[1]
    rows, how = kernel.rows(values, moved), kernel.accuracy(explainer.accuracy)
    *_, milliseconds, _, work = kernel.core.cost(
        rows, kind, as_bytes(moved), n, how, QUIET, kernel.units, order
    )
    return work[0], float(milliseconds[0])


def measure(case: Animal, n_rows: int) -> Iterator[Timed]:
    explainers = {way: e for way, e in contenders(case).items() if way != "auto"}
    first = next(iter(explainers.values()))
    for x in case.rows(n_rows):
        for question in questions(first, x[None]):
            priced = {way: work_of(question, explainer) for way, explainer in explainers.items()}
            ways = [way for way, (_, milliseconds) in priced.items() if milliseconds <= TOO_LONG]
            calls = {"auto": [question.call(explainers[ways[0]])]} if ways else {}
            took, _ = (
                least(calls | {way: [question.call(explainers[way])] for way in ways}) if ways else ({}, {})
            )
            for way in ways:
                yield Timed(case.title, question.name, way, priced[way][0], 1e6 * float(took[way][0]))


def fitted(found: list[Timed]) -> np.ndarray:
    """The factor of each speed, (n_speeds,)."""
    parts = np.array([t.work * SPEEDS / t.nanoseconds for t in found])
    hold = np.sqrt(HOLD) * np.eye(len(SPEEDS))
    left, right = np.vstack([parts, hold]), np.concatenate([np.ones(len(found)), hold.sum(axis=1)])
    return lsq_linear(left, right, RANGE).x


def errors(found: list[Timed], factor: np.ndarray) -> list[list[str]]:
    """Foretold over measured by way and question, with the speeds in use and with the fitted ones."""
    lines = []
    for way in dict.fromkeys(t.way for t in found):
        for question in dict.fromkeys(t.question for t in found):
            own = [t for t in found if (t.way, t.question) == (way, question)]
            if own:
                lines.append(
                    [way, question, str(len(own)), *(_spread(own, f) for f in (np.ones_like(factor), factor))]
                )
    return lines


def _spread(found: list[Timed], factor: np.ndarray) -> str:
    low, middle, high = np.quantile(
        [t.work @ (SPEEDS * factor) / t.nanoseconds for t in found], (0.1, 0.5, 0.9)
    )
    return f"{middle:.2f}, {low:.2f} ... {high:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--zoo", choices=("fitted", "validation"), default="fitted")
    parser.add_argument("--rows", type=int, default=1, help="rows of each model (default %(default)s)")
    parser.add_argument("--json", type=Path, help="write the times and what they consist of to this file")
    asked = parser.parse_args()
    found = [t for train in ZOO[asked.zoo] for t in measure(train(), asked.rows)]
    factor = fitted(found)
    share = np.array([t.work * SPEEDS / t.nanoseconds for t in found])
    lines = [
        [name, f"{speed:g}", f"{speed * f:.3g}", f"{f:.2f}", f"{(own > 0.1).sum()}", of]
        for (name, (speed, of)), f, own in zip(_core.SPEEDS.items(), factor, share.T, strict=True)
    ]
    print(table(("speed", "in use, ns", "fitted", "ratio", "times it is a tenth of", "of"), lines), "\n")
    print(
        table(
            ("way", "asked", "times", "foretold / measured", "with the fitted speeds"), errors(found, factor)
        )
    )
    if asked.json:
        kept = [{**t.__dict__, "work": t.work.tolist()} for t in found]
        asked.json.write_text(json.dumps({"speeds": SPEEDS.tolist(), "found": kept}))


if __name__ == "__main__":
    main()
