"""Does the planner choose well? Both strategies, timed on a zoo of models, against its choice.

python benchmarks/planner.py          the losses, and whether any is above 1.5
python benchmarks/planner.py --fit    constants of src/core/costs.cpp from the same times
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xgboost
from scipy.optimize import least_squares

import predgap
from predgap.engine import Engine, rank

N_ROWS = 64
TOO_LONG = 4.0  # seconds for all rows; a strategy that is estimated to take longer is not timed
MOST_LOSS = 1.5

# kind, trees, features, depth, rows of the training set
ZOO = [
    ("xgboost", 20, 8, 12, 5000),
    ("xgboost", 20, 8, 8, 5000),
    ("xgboost", 100, 8, 6, 5000),
    ("xgboost", 10, 20, 8, 5000),
    ("xgboost", 50, 20, 6, 5000),
    ("xgboost", 5, 30, 10, 5000),
    ("xgboost", 100, 30, 4, 5000),
    ("xgboost", 30, 5, 10, 3000),
    ("xgboost", 300, 12, 3, 3000),
    ("xgboost", 300, 10, 5, 3000),
    ("xgboost", 40, 11, 4, 2000),
    ("xgboost", 8, 4, 12, 4000),
    ("forest", 10, 10, None, 1000),
    ("forest", 30, 6, None, 500),
    ("forest", 20, 15, 7, 2000),
    ("extra", 20, 8, None, 400),
]


@dataclass(frozen=True)
class Timed:
    """One question to one model: seconds per row of each strategy that was timed, and what is chosen."""

    model: str
    what: str
    chosen: str
    seconds: dict[str, float]
    counts: tuple[list[float], list[float]] | None = None

    @property
    def loss(self) -> float:
        """How much slower the choice is than the best; one that was too long to time loses everything."""
        return self.seconds.get(self.chosen, np.inf) / min(self.seconds.values())


def zoo() -> Iterator[tuple[str, Any, np.ndarray]]:
    """Name, model and rows of each."""
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

    random = np.random.default_rng(0)
    for kind, n_trees, d, depth, n in ZOO:
        X = random.normal(size=(n, d)).astype(np.float32)
        y = np.sin(2 * X[:, 0] * X[:, 1]) + X[:, 2] ** 2 + X[:, 3] * X[:, -1]
        y += 0.3 * X @ random.normal(size=d)
        if kind == "xgboost":
            params = {"max_depth": depth, "eta": 0.3, "tree_method": "hist", "nthread": 1}
            model = xgboost.train(params, xgboost.DMatrix(X, y), n_trees)
        else:
            make = RandomForestRegressor if kind == "forest" else ExtraTreesRegressor
            model = make(n_trees, max_depth=depth, random_state=0).fit(X, y)
        yield f"{kind} {n_trees} x d{depth or '∞'}, {d} features", model, X[:N_ROWS].astype(np.float64)


def timed(contenders: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds per row of each, the least of a few; they take turns, so that noise hits all alike."""
    best = dict.fromkeys(contenders, np.inf)
    for _ in range(7):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], (time.perf_counter() - start) / N_ROWS)
        if sum(best.values()) * N_ROWS > 0.3:
            break
    return best


def questions(name: str, model: Any, X: np.ndarray) -> Iterator[Timed]:
    """Gaps of subsets of several sizes, and a greedy ranking."""
    engines: dict[str, Engine] = {
        forced: predgap.Explainer(model, predgap.Normal(0.3), _strategy=forced)._engine
        for forced in ("terms", "pairs")
    }
    planner = predgap.Explainer(model, predgap.Normal(0.3))._engine
    rows, d = planner.ensemble.cast(X), X.shape[1]
    random = np.random.default_rng(d)

    def ask(estimates: tuple[float, float], run: Callable[[str], object]) -> dict[str, float]:
        costs = dict(zip(("terms", "pairs"), estimates, strict=True))
        return timed(
            {
                strategy: partial(run, strategy)
                for strategy, cost in costs.items()
                if cost * 1e-9 * N_ROWS < TOO_LONG or cost == min(costs.values())
            }
        )

    for k in sorted({1, 2, d // 4 + 1, d // 2, 3 * d // 4, d}):
        mask = np.zeros(d, dtype=bool)
        mask[random.permutation(d)[:k]] = True
        subset = mask.view(np.uint8)

        def run(strategy: str, mask: np.ndarray = mask) -> object:
            return engines[strategy]._gap(rows, mask[None], strategy)

        seconds = ask(planner.kernels.cost(subset)[:2], run)
        yield Timed(name, f"gap of {k}", planner._choose_gap(mask), seconds, planner.kernels.counts(subset))
    estimates = planner.nested_costs("greedy")
    chosen = "terms" if planner.terms_are_cheap() or estimates[0] <= estimates[1] else "pairs"
    yield Timed(name, "greedy", chosen, ask(estimates, lambda s: rank([engines[s]], rows, "greedy")))


def measure() -> list[Timed]:
    return [found for name, model, X in zoo() for found in questions(name, model, X)]


def fit(found: list[Timed]) -> None:
    """Constants that make the logarithms of cost and time agree best."""
    for at, strategy in enumerate(("terms", "pairs")):
        known = [t for t in found if t.counts is not None and strategy in t.seconds]
        counts = np.array([t.counts[at] for t in known])
        used = np.flatnonzero(counts.any(axis=0))
        nanoseconds = 1e9 * np.array([t.seconds[strategy] for t in known])

        def off(logs: np.ndarray, counts=counts[:, used], nanoseconds=nanoseconds) -> np.ndarray:
            return np.log(counts @ np.exp(logs) / nanoseconds)

        solved = least_squares(off, np.zeros(len(used)), loss="soft_l1", bounds=(-6, 12))
        ratio = np.exp(off(solved.x))
        print(strategy, dict(zip(used.tolist(), np.exp(solved.x).round(3).tolist(), strict=True)))
        print(f"  cost / time {ratio.min():.2f} to {ratio.max():.2f}, median {np.median(ratio):.2f}")


def table(found: list[Timed]) -> str:
    """The worst questions, as Markdown."""
    lines = ["| model | asked | chosen | terms, µs | pairs, µs | loss |", "|---|---|---|---|---|---|"]
    for t in sorted(found, key=lambda t: -t.loss)[:12]:
        times = [f"{1e6 * t.seconds[s]:,.0f}" if s in t.seconds else "–" for s in ("terms", "pairs")]
        lines.append(f"| {t.model} | {t.what} | {t.chosen} | {times[0]} | {times[1]} | {t.loss:.2f} |")
    return "\n".join(lines)


def main() -> int:
    found = measure()
    if "--fit" in sys.argv[1:]:
        fit(found)
    worst = max(t.loss for t in found)
    print(table(found))
    print(f"{len(found)} questions, the worst choice is {worst:.2f} times slower than the best")
    return int(worst > MOST_LOSS)


if __name__ == "__main__":
    sys.exit(main())
