"""Does the planner foretell what scikit-learn's default forests take? Cases at random, said against taken.

python benchmarks/forests.py [--seed fitted|judged|N] [--cases N] [--most-seconds S] [--rows N]

A case is a forest of 100 unpruned trees and a question about one row; `draw` states the rule, and `MODELS`
and `QUESTIONS` the ranges. What `Explainer.cost` says with the row is compared with what the call takes for
it, and what it says without rows with the mean over the first rows of the reference (20, unless `--rows` says
otherwise; 0 leaves that out). The time is the processor's, on one thread: the least of some repeats of a
short call, and a single call where it is long. A case that `cost` refuses must be refused by the call.

Constants are set with the fitted cases in view; the judged ones are not looked at, and judge.
"""

from __future__ import annotations

import argparse
import functools
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tables
from planner import table
from zoo import OneOf, Range

import predgap
from predgap.explainer.explained import CALL

SEEDS = {"fitted": 29, "judged": 2026_12_03}
OF_A_MODEL = 4  # cases: training takes longer than most of them
SHORT, REPEATS = 0.5, 5  # seconds: calls that take less are repeated
WITHIN, BEYOND = 2.0, 4.0  # times too much or too little


@dataclass(frozen=True)
class Real:
    """Numbers from the least to the most; their logarithms are even."""

    least: float
    most: float

    def draw(self, rng: np.random.Generator) -> float:
        return float(np.exp(rng.uniform(np.log(self.least), np.log(self.most))))


Ranges = dict[str, Range | Real | OneOf]
MODELS: Ranges = {
    "kind": OneOf(("Forest", "Forest", "Extra trees")),
    "task": OneOf(("regression", "regression", "classes")),
    "shape": OneOf(("correlated", "product", "rounded")),
    "n": Range(1_000, 20_000),
    "d": Range(8, 60),
    "n_outputs": OneOf((1, 1, 2, 3)),  # or, one more, classes
}
QUESTIONS: Ranges = {
    "asked": OneOf(("gap of few", "gap of half", "gap of all", "pgi2", "rank", "rank top")),
    "rtol": OneOf((0.0, 1e-6, 1e-6, 1e-3, 1e-2)),
    "sigma": Real(0.03, 0.5),  # of the noise, in deviations of a column
}
FEW = Range(1, 5)  # features, or places


# --- what is asked ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    model: tuple[tuple[str, Any], ...]
    asked: str
    rtol: float
    sigma: float
    seed: int  # of the row, the features and their number

    @property
    def title(self) -> str:
        m = dict(self.model)
        outputs = m["n_outputs"] + (m["task"] == "classes")
        return f"{m['kind']}, {m['task']}, {m['n']:,} × {m['d']} {m['shape']}, {outputs} out"


def draw(seed: int, n_cases: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    cases: list[Case] = []
    while len(cases) < n_cases:
        model = tuple((name, of.draw(rng)) for name, of in MODELS.items())
        for _ in range(OF_A_MODEL):
            how: dict[str, Any] = {name: of.draw(rng) for name, of in QUESTIONS.items()}
            cases.append(Case(model, seed=int(rng.integers(2**31)), **how))
    return cases[:n_cases]


def make_table(shape: str, n: int, d: int) -> tables.Table:
    """Columns that hang together; one product of two independent columns; or whole numbers."""
    X, y = tables.correlated(n, d, seed=n)
    if shape == "rounded":
        return np.rint(3 * X), y
    if shape == "product":
        rng = np.random.default_rng([n, d])
        X = np.column_stack([rng.lognormal(size=n), rng.uniform(size=n), rng.normal(size=(n, d - 2))])
        return X, X[:, 0] * X[:, 1] + X[:, 2]
    return X, y


@functools.lru_cache(maxsize=1)
def trained(model: tuple[tuple[str, Any], ...]) -> tuple[Any, np.ndarray]:
    """A default forest and its table."""
    from sklearn import ensemble

    m = dict(model)
    X, y = make_table(m["shape"], m["n"], m["d"])
    name = {"Forest": "RandomForest", "Extra trees": "ExtraTrees"}[m["kind"]]
    if m["task"] == "classes":
        n_classes = m["n_outputs"] + 1
        y = np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)
        return getattr(ensemble, f"{name}Classifier")(random_state=0, n_jobs=1).fit(X, y), X
    if m["n_outputs"] > 1:
        y = np.column_stack([y, *(tables.signal(np.roll(X, k, axis=1)) for k in range(1, m["n_outputs"]))])
    return getattr(ensemble, f"{name}Regressor")(random_state=0, n_jobs=1).fit(X, y), X


@dataclass(frozen=True)
class Asked:
    """A question about any rows of a table: what it is said to cost, and how it is answered."""

    say: Callable[[Any], predgap.Cost]  # of rows, or of none
    answer: Callable[[Any], Any]


def prepared(case: Case) -> tuple[Asked, np.ndarray]:
    """The question, and the rows: the first is the case's, the others are the reference's."""
    model, X = trained(case.model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noise = predgap.Normal.relative(X, case.sigma)
    explainer = predgap.Explainer(model, noise, rtol=case.rtol, n_jobs=1)
    rng = np.random.default_rng(case.seed)
    d, row = X.shape[1], rng.integers(len(X))
    order, few = rng.permutation(d), FEW.draw(rng)
    return asked_of(explainer, case.asked, order, few), np.vstack([X[row : row + 1], X])


def asked_of(explainer: predgap.Explainer, asked: str, order: np.ndarray, few: int) -> Asked:
    d = len(order)
    if asked == "pgi2":
        # A Ranking has an order of each row; without rows any of its orders is asked.
        def ranking(n: int) -> predgap.Ranking:
            return predgap.Ranking(np.tile(order, (n, 1)))

        return Asked(
            lambda X: explainer.cost(ranking(1 if X is None else len(X)), X=X),
            lambda X: explainer.pgi2(X, ranking(len(X))),
        )
    if asked == "rank":
        return Asked(lambda X: explainer.cost("rank", X=X), explainer.rank)
    if asked == "rank top":
        return Asked(lambda X: explainer.cost("rank", X=X, top=few), lambda X: explainer.rank(X, top=few))
    size = {"gap of few": few, "gap of half": d // 2, "gap of all": d}[asked]
    subset = sorted(int(j) for j in order[:size])
    return Asked(lambda X: explainer.cost(subset, X=X), lambda X: explainer.gap(X, subset))


# --- times --------------------------------------------------------------------------------------------------


class TooLongError(Exception):
    """A case took more than it may here."""


def _end(*_: Any) -> None:
    raise TooLongError


def within(seconds: float, run: Callable[[], Any]) -> float | str:
    """Milliseconds of the processor; "refused", or "ended" where it takes longer."""
    signal.signal(signal.SIGPROF, _end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    start = time.process_time()
    try:
        run()
    except predgap.CostError:
        return "refused"
    except TooLongError:
        return "ended"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    return 1e3 * (time.process_time() - start)


def least(seconds: float, run: Callable[[], Any]) -> float | str:
    """The same, the least of the repeats if it is short."""
    took = within(seconds, run)
    for _ in range(REPEATS - 1):
        if isinstance(took, str) or took > 1e3 * SHORT:
            break
        again = within(seconds, run)
        took = again if isinstance(again, str) else min(took, again)
    return took


@dataclass(frozen=True)
class Measured:
    """The cost that was said of a call, and the milliseconds that it took."""

    said: predgap.Cost
    took: float | str

    @property
    def ratio(self) -> float | None:
        if isinstance(self.took, str) or self.said.refused:
            return None
        return max(self.said.milliseconds, CALL) / self.took

    @property
    def is_wrong(self) -> bool:
        """Refused by one of the two."""
        return self.took != "ended" and self.said.refused != (self.took == "refused")

    @property
    def cells(self) -> list[str]:
        said = "refused" if self.said.refused else f"{self.said.milliseconds:.3g} {self.said.method}"
        took = self.took if isinstance(self.took, str) else f"{self.took:.3g}"
        return [said, took, "" if self.ratio is None else f"{self.ratio:.2f}"]


def measure(case: Case, most: float, n_rows: int) -> Iterator[Measured]:
    """With the row; and without rows, if any are asked for."""
    asked, X = prepared(case)
    own = X[:1]
    yield Measured(asked.say(own), least(most, lambda: asked.answer(own)))
    if n_rows == 0:
        return
    rows = X[1 : n_rows + 1]
    took = within(most, lambda: asked.answer(rows))
    yield Measured(asked.say(None), took if isinstance(took, str) else took / n_rows)


# --- what it amounts to -------------------------------------------------------------------------------------


def summary(name: str, found: list[Measured]) -> list[str]:
    ratios = np.array([m.ratio for m in found if m.ratio is not None])
    off = np.maximum(ratios, 1.0 / ratios)
    shares = [f"{np.mean(off <= WITHIN):.0%}", str(int(np.sum(off > BEYOND)))] if len(off) else ["", ""]
    others = [sum(m.took == "ended" for m in found), sum(m.took == "refused" for m in found)]
    return [name, str(len(ratios)), *shares, *map(str, others), str(sum(m.is_wrong for m in found))]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", default="fitted", help=f"{', '.join(SEEDS)} or a number")
    parser.add_argument("--cases", type=int, default=48)
    parser.add_argument("--most-seconds", type=float, default=60.0, help="of a call, else it is ended")
    parser.add_argument("--rows", type=int, default=20, help="of the reference, for what is said without")
    asked = parser.parse_args()
    seed = SEEDS[asked.seed] if asked.seed in SEEDS else int(asked.seed)
    print(table(("model", "asked", "rtol", "sigma", *("said, ms", "took, ms", "ratio") * 2), []), flush=True)
    found: list[list[Measured]] = []
    for case in draw(seed, asked.cases):
        found.append(list(measure(case, asked.most_seconds, asked.rows)))
        how = [case.title, case.asked, f"{case.rtol:g}", f"{case.sigma:.2f}"]
        print(f"| {' | '.join(how + [cell for m in found[-1] for cell in m.cells])} |", flush=True)
    names = ("with the row", "without rows")[: 1 + (asked.rows > 0)]
    lines = [summary(name, [own[i] for own in found]) for i, name in enumerate(names)]
    head = ("said", "ratios", "within 0.5 ... 2", "beyond 4", "ended", "refused", "refused by one only")
    print(f"\n{table(head, lines)}")
    return int(any(m.is_wrong for own in found for m in own))


if __name__ == "__main__":
    sys.exit(main())
