"""Does the planner choose well, and does it foretell the time? Every way to an answer, against its choice.

python benchmarks/planner.py [--half fitted|unseen] [--models WORD,WORD] [--rows N]

A zoo of models in two halves: the constants of src/core/planner/cost.cpp were set by hand with the times of
the fitted half in view, and the unseen half judges them. Every question is asked about one row at a time, by
the planner's choice ("auto") and by each way that is possible and not foretold to take long: the shared plan,
terms compiled for the row, within 1e-6 or exactly, and pairs of leaves. Contenders take turns, and the least
of the repeats counts. What is timed is the call of the kernels, without the checks of the public methods.

The loss is the time of the choice over that of the best way, once of all ways, once of those that promise as
much: an answer that is exact for less than 50 ms is preferred to a bounded one, which may be quicker. The exit
status is 1 if a loss of the second kind is above 1.5 in the unseen half.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tables
from explainers import noise_of
from timing import least
from trained import Trained

import predgap
from predgap import _core

RTOL = 1e-6
AGREE = 2 * RTOL
FEW = 3  # features
MOST_LOSS = 1.5
TOO_LONG = 2_000.0  # milliseconds; a way that is foretold to take longer is not timed
ROUNDS, PATIENCE = 7, 0.1  # repeats of a call at most, and the seconds after which there are no more
EXACTLY = "compiled exactly"
WAYS = ("plan", "compiled", EXACTLY, "pairs")


# --- the zoo --------------------------------------------------------------------------------------------


def xgboost(n_trees: int, depth: int, d: int, n_classes: int = 1) -> Trained:
    import xgboost as library

    X, y = tables.correlated(3_000, d, seed=depth)
    params = {"max_depth": depth, "eta": 0.1, "tree_method": "hist", "nthread": 1, "seed": 0}
    if n_classes > 1:
        y = np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)
        params |= {"objective": "multi:softprob", "num_class": n_classes}
    model = library.train(params, library.DMatrix(X, y, nthread=1), n_trees)
    classes = f", {n_classes} classes" if n_classes > 1 else ""
    return Trained("xgboost", f"XGBoost {n_trees} × depth {depth}, {d} features{classes}", model, X)


def lightgbm(n_trees: int, d: int, categories: bool = False) -> Trained:
    import lightgbm as library

    X, y = (tables.with_categories if categories else tables.correlated)(3_000, d, seed=7)
    categorical = tuple(range(d, X.shape[1]))
    params = {"num_leaves": 31, "learning_rate": 0.05, "num_threads": 1, "seed": 0, "verbose": -1}
    params |= {"deterministic": True, "force_col_wise": True}
    data = library.Dataset(X, y, categorical_feature=list(categorical))
    extra = ", 2 with categories" if categories else ""
    title = f"LightGBM {n_trees} × 31 leaves, {X.shape[1]} features{extra}"
    return Trained("lightgbm", title, library.train(params, data, n_trees), X, categorical)


def forest(kind: str, n_trees: int, d: int, n: int, depth: int | None = None) -> Trained:
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

    X, y = tables.correlated(n, d, seed=n_trees)
    make = {"Extra trees": ExtraTreesRegressor, "Forest": RandomForestRegressor}[kind]
    model = make(n_trees, max_depth=depth, random_state=0, n_jobs=1).fit(X, y)
    shape = f"depth {depth}" if depth else f"unpruned, {n} rows"
    return Trained("forest", f"{kind} {n_trees} × {shape}, {d} features", model, X)


ZOO: dict[str, list[Callable[[], Trained]]] = {
    "fitted": [
        partial(xgboost, 20, 3, 8),
        partial(xgboost, 500, 4, 23),
        partial(xgboost, 100, 6, 20),
        partial(xgboost, 50, 8, 10),
        partial(lightgbm, 50, 10),
        partial(lightgbm, 500, 20),
        partial(forest, "Forest", 20, 10, 1_000, 6),
        partial(forest, "Extra trees", 10, 8, 300),
    ],
    "unseen": [
        partial(xgboost, 100, 4, 12),
        partial(xgboost, 300, 5, 15),
        partial(xgboost, 500, 6, 12),
        partial(xgboost, 150, 8, 8),
        partial(xgboost, 30, 5, 12, n_classes=3),
        partial(lightgbm, 200, 30),
        partial(lightgbm, 80, 8, categories=True),
        partial(forest, "Forest", 15, 6, 300),
    ],
}


# --- what is asked --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """One question about one row, put to any of its explainers."""

    name: str
    x: np.ndarray  # (1, d)
    order: np.ndarray  # (1, k) of the features that move

    def ask(self, explainer: predgap.Explainer) -> tuple[np.ndarray, ...]:
        """What the kernels answer: numbers first, codes of the methods last."""
        engine, accuracy = explainer._engine, explainer._accuracy
        rows = engine.ensemble.cast(self.x)
        if self.name == "greedy":
            return engine.rank(rows, "greedy", rows.shape[1], accuracy)
        if self.name == "curve":
            return engine.curve(rows, self.order, accuracy)
        return engine.gap(rows, engine.features_of(self.order), accuracy)

    def foretold(self, explainer: predgap.Explainer) -> float:
        """Milliseconds; infinite where it would be refused."""
        curve = predgap.Ranking(self.order) if self.name == "curve" else None
        asked = "rank" if self.name == "greedy" else self.order[0] if curve is None else curve
        cost = explainer.cost(asked, X=self.x)
        fits = cost.megabytes <= _core.MOST_BYTES / 1e6
        return cost.milliseconds if fits else np.inf


def questions(explainer: predgap.Explainer, x: np.ndarray) -> list[Question]:
    """Features move in the order of their gaps alone."""
    order = explainer.rank(x, "single").order.astype(np.int32)
    d = order.shape[1]
    asked = {"gap of few": FEW, "gap of half": d // 2, "gap of all": d, "curve": d, "greedy": d}
    return [Question(name, x, np.ascontiguousarray(order[:, :k])) for name, k in asked.items()]


def numbers(answer: tuple[np.ndarray, ...], n_places: int | None) -> np.ndarray:
    """The gaps; of a ranking the gaps of its first places."""
    if n_places is None:
        return answer[0].ravel()
    order, scores = answer[0][0], answer[1][0]
    return np.cumsum(scores[order])[:n_places]


def same_places(a: np.ndarray, b: np.ndarray) -> int:
    """Up to the first place that differs, where both have a feature that is as good; then they part."""
    differ = np.flatnonzero(a != b)
    return int(differ[0]) + 1 if differ.size else len(a)


def check(question: Question, answers: dict[str, tuple[np.ndarray, ...]]) -> None:
    """Gaps agree relative to themselves, curves to their mean, rankings to the gap of all features."""
    auto = answers["auto"]
    for way, answer in answers.items():
        n = same_places(auto[0][0], answer[0][0]) if question.name == "greedy" else None
        ours, theirs = numbers(auto, n), numbers(answer, n)
        scale = numbers(auto, len(auto[0][0]))[-1] if n else ours.mean()
        off = np.abs(ours - theirs).max()
        assert off <= AGREE * scale, f"{question.name} by {way} is {off / scale:.1e} off"


# --- times ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timed:
    """One question about one row: milliseconds of each contender, measured and foretold."""

    half: str
    model: str
    question: str
    is_exact: bool  # the planner's answer
    took: dict[str, float]
    said: dict[str, float]

    @property
    def loss(self) -> float:
        """The choice over the best way."""
        return self.took["auto"] / min(self.took.values())

    @property
    def fair_loss(self) -> float:
        """The choice over the best way that promises as much."""
        ways = set(self.took) - ({"compiled"} if self.is_exact else set())
        return self.took["auto"] / min(self.took[way] for way in ways)

    @property
    def choice(self) -> str:
        """The way that was foretold to take just as long as the choice."""
        same = [way for way in WAYS if self.said.get(way) == self.said["auto"]]
        return same[0] if same else "?"


def contenders(case: Trained) -> dict[str, predgap.Explainer]:
    noise = noise_of(case)

    def explainer(rtol: float, strategy: Any = None) -> predgap.Explainer:
        return predgap.Explainer(case.model, noise, rtol=rtol, _strategy=strategy)

    auto = explainer(RTOL)
    found = {"auto": auto, EXACTLY: explainer(0.0, "compiled")}
    ways = ("plan", "compiled", "pairs") if auto._engine.kernels.has_plan else ("compiled", "pairs")
    return found | {way: explainer(RTOL, way) for way in ways}


def measure(half: str, case: Trained, n_rows: int) -> Iterator[Timed]:
    explainers = contenders(case)
    rows = [questions(explainers["auto"], x[None]) for x in case.rows(n_rows)]
    for asked in zip(*rows, strict=True):
        said = {way: [question.foretold(e) for question in asked] for way, e in explainers.items()}
        ways = [way for way in said if max(said[way]) <= TOO_LONG]
        if "auto" not in ways:
            print(f"{case.title}, {asked[0].name}: left out, {max(said['auto']):,.0f} ms", flush=True)
            continue
        calls = {way: [partial(question.ask, explainers[way]) for question in asked] for way in ways}
        found = least(calls, ROUNDS, PATIENCE)
        for r, question in enumerate(asked):
            answers = {way: found[way].answers[r] for way in ways}
            check(question, answers)
            is_exact = _core.METHODS[answers["auto"][-1][0]] == "exact"
            took = {way: 1e3 * found[way].least[r] for way in ways}
            yield Timed(half, case.title, question.name, is_exact, took, {w: said[w][r] for w in said})


# --- what it amounts to ---------------------------------------------------------------------------------


def table(lines: list[list[str]], *head: str) -> str:
    """Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [list(head), ["---"] * len(head), *lines])


def losses(found: list[Timed]) -> str:
    """The worst and the median loss of each half, and how well the time of the choice is foretold."""
    lines = []
    for half in dict.fromkeys(t.half for t in found):
        own = [t for t in found if t.half == half]
        cells = [
            f"{max(values):.2f}, {np.median(values):.2f}"
            for values in ([t.fair_loss for t in own], [t.loss for t in own])
        ]
        ratios = np.array([t.said["auto"] / t.took["auto"] for t in own])
        lines.append([half, str(len(own)), *cells, *foretold(ratios)])
    return table(lines, "half", "questions", "loss: worst, median", "of all ways", *FORETOLD)


FORETOLD = ("foretold / measured", "within 0.5 ... 2")


def foretold(ratios: np.ndarray) -> list[str]:
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    share = np.mean((ratios >= 0.5) & (ratios <= 2.0))
    return [f"{middle:.2f} ({low:.2f} ... {high:.2f})", f"{share:.0%}"]


def worst(found: list[Timed], n: int = 12) -> str:
    """The largest losses, with all times."""
    lines = []
    for t in sorted(found, key=lambda t: -t.fair_loss)[:n]:
        times = [f"{t.took[way]:.3g}" if way in t.took else "–" for way in ("auto", *WAYS)]
        lines.append([t.half, t.model, t.question, t.choice, *times, f"{t.fair_loss:.2f}", f"{t.loss:.2f}"])
    return table(lines, "half", "model", "asked", "choice", "ms", *WAYS, "loss", "of all ways")


def by_way(found: list[Timed]) -> str:
    """How well each way's time is foretold, question by question: what to set constants by."""
    lines = []
    for way in WAYS:
        for question in dict.fromkeys(t.question for t in found):
            own = [t for t in found if t.question == question and way in t.took]
            if own:
                ratios = np.array([t.said[way] / t.took[way] for t in own])
                lines.append([way, question, str(len(own)), *foretold(ratios)])
    return table(lines, "way", "asked", "rows", *FORETOLD)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--half", choices=tuple(ZOO), help="only this half")
    parser.add_argument("--rows", type=int, default=3, help="rows of each model (default %(default)s)")
    asked = parser.parse_args()
    found = []
    for half in [asked.half] if asked.half else ZOO:
        for make in ZOO[half]:
            found += measure(half, make(), asked.rows)
    for text in (by_way(found), worst(found), losses(found)):
        print(f"\n{text}")
    return int(any(t.half == "unseen" and t.fair_loss > MOST_LOSS for t in found))


if __name__ == "__main__":
    sys.exit(main())
