"""How many greedy rankings does an optimal one take? And how close do greedy and the search come to it?

python benchmarks/scale.py [--rows N] [--models NAME,NAME]

One thread, normal noise of 0.3, the contenders in turn; the least of five processor times counts. On the
paper's wine model (11 features) an optimal ranking is to take at most 60 greedy ones. Where more features
matter than "optimal" compares all subsets of, it is a search. The exit status is 1 if the aim is missed, or
if a score is above that of the optimal ranking.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from models import PAPER, cases

from predgap import Explainer, Normal

AIM = {"winequality_red": 60.0}
REPEATS = 5
METHODS = ("greedy", "single", "shapley", "optimal")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=64, help="rows of each model (default %(default)s)")
    parser.add_argument("--models", default=",".join(PAPER), help="names, separated by commas: %(default)s")
    return parser.parse_args()


def least_times(asks: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds of each, the least of the repeats, in turn."""
    least = dict.fromkeys(asks, np.inf)
    for _ in range(REPEATS):
        for name, ask in asks.items():
            begin = time.process_time()
            ask()
            least[name] = min(least[name], time.process_time() - begin)
    return least


def main() -> int:
    asked, is_fine = arguments(), True
    print("| model | features | ranking | greedy rankings | µs a row | from random to best |")
    print("|---|---|---|---|---|---|")
    for case in cases():
        if case.name in PAPER and case.name not in asked.models.split(","):
            continue
        X, explainer = case.X[: asked.rows].astype(np.float64), Explainer(case.booster, Normal(0.3))
        asks: dict[str, Callable[[], Any]] = {
            method: lambda e=explainer, X=X, m=method: e.rank(X, m) for method in METHODS
        }
        asks["random (score)"] = lambda e=explainer, X=X: e.random_pgi2(X)
        took, found = least_times(asks), {method: explainer.rank(X, method) for method in METHODS}
        random, score = explainer.random_pgi2(X), {m: explainer.pgi2(X, r) for m, r in found.items()}
        for name, seconds in took.items():
            ratio, place = seconds / took["greedy"], ""
            if name in score:
                place = f"{(score[name] - random).mean() / (score['optimal'] - random).mean():.4f}"
                is_fine &= found["optimal"].method != "optimal" or bool(
                    (score[name] <= score["optimal"] * (1 + 1e-12)).all()
                )
            word = found[name].method if name in found else name
            microseconds = 1e6 * seconds / len(X)
            print(f"| {case.name} | {X.shape[1]} | {word} | {ratio:.1f} | {microseconds:.0f} | {place} |")
        if took["optimal"] > AIM.get(case.name, np.inf) * took["greedy"]:
            is_fine = False
            print(f"{case.name}: an optimal ranking takes more than {AIM[case.name]:g} greedy ones")
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
