"""How many gaps of all features do moments and sensitivity take? Answers are checked.

python benchmarks/spread.py [--models NAME,NAME] [--rows 8] [--rounds 5]

Rows are asked one at a time, contenders take turns, and what counts is the median over the rows of the least
processor time of the rounds. The noise has 0.3 of each column's standard deviation. The exit status is 1 if
an answer was wrong; aims that are not reached are only marked.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import trained
from explainers import Explainers

import predgap

NAMES = ("lightgbm-30", "xgboost-30", "lightgbm-housing", "wine", "housing", "telemetry", "heloc", "digits")
AIMS = {"moments": 1.2, "sensitivity": 3.0}
RTOL = 1e-6


def seconds(ask: Callable[[], object]) -> float:
    start = time.process_time()
    ask()
    return time.process_time() - start


def least(
    contenders: dict[str, Callable[[np.ndarray], object]], rows: np.ndarray, rounds: int
) -> dict[str, float]:
    """The median over the rows of the least seconds of each contender."""
    found = {name: np.full(len(rows), np.inf) for name in contenders}
    for _ in range(rounds):
        for r in range(len(rows)):
            for name, ask in contenders.items():
                ask(rows[r - 1 : r] if r else rows[-1:])  # fills the caches with another row
                found[name][r] = min(found[name][r], seconds(lambda ask=ask, r=r: ask(rows[r : r + 1])))
    return {name: float(np.median(own)) for name, own in found.items()}


def check(explainer: predgap.Explainer, rows: np.ndarray) -> list[str]:
    """What is wrong with the answers about a few rows."""
    every, wrong = list(range(rows.shape[1])), []
    moments, shares = explainer.moments(rows), explainer.sensitivity(rows)
    gap, mean = explainer.gap(rows, every), explainer.expected_prediction(rows, every)
    if not (np.abs(moments.gap - gap) <= 2 * RTOL * gap).all():
        wrong.append("the parts of a gap do not add up to it")
    allowed = RTOL * np.sqrt(gap).reshape(-1, *[1] * (mean.ndim - 1))
    if not (np.abs(moments.mean - mean) <= allowed).all():
        wrong.append("a mean is not the expected prediction")
    if not (np.abs(shares.shapley.sum(axis=1) - 1) <= 1e-12).all():
        wrong.append("Shapley effects do not sum to 1")
    if not (shares.error_bound <= RTOL).all():
        wrong.append("the bound of a share is above the tolerance")
    return wrong


def line(name: str, asked: argparse.Namespace) -> tuple[str, list[str]]:
    """A line of the table, and what is wrong."""
    case = trained.trained(name)
    if case is None:
        return f"| {name} | skipped, its data is not at hand | | | | |", []
    explainer, rows = Explainers(case).within(RTOL), case.rows(asked.rows)
    every = np.ones(rows.shape[1], dtype=np.bool_)
    contenders: dict[str, Callable[[Any], object]] = {
        "gap": lambda x: explainer.gap(x, every),
        "moments": explainer.moments,
        "sensitivity": explainer.sensitivity,
    }
    took = least(contenders, rows, asked.rounds)
    cells = [f"{1e3 * took['gap']:.2f}"]
    for question, aim in AIMS.items():
        ratio = took[question] / took["gap"]
        cells.append(f"{ratio:.2f}{' (above)' if ratio > aim else ''}")
    bound = explainer.sensitivity(rows).error_bound.max()
    return f"| {name} | {' | '.join(cells)} | {bound:.1e} |", check(explainer, rows)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--models", default=",".join(NAMES), help="names, separated by commas; all: %(default)s"
    )
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    print("| model | gap of all features, ms | moments, gaps | sensitivity, gaps | bound of shares |")
    print("|---|---|---|---|---|")
    failed = False
    for name in asked.models.split(","):
        text, wrong = line(name, asked)
        print(text, *[f"\n{name}: {what}" for what in wrong], flush=True)
        failed = failed or bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
