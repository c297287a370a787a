"""Does a change of the core give the same bits? Hashes of answers of a zoo of small models.

    python benchmarks/bits.py --write FILE        asks everything, and writes one line of JSON per answer
    python benchmarks/bits.py --compare FILE      asks again, and lists the answers whose bits differ

FILE is comparable on one machine with the same libraries only: the models are trained in each run, with fixed
seeds and on one thread, and the trees of each are an answer of their own, which is hashed like the rest.

An answer is all that a call returns: values, error bounds, orders and methods. What predgap refuses is an
answer, too, so that a new refusal is seen. Differences are relative to the largest value of an array. The
planner chooses by counts: if its constants are changed, "default", "exact" and "loose" may differ, while the
routes that are forced must not. The exit status is 1 if any answer differs.
"""

from __future__ import annotations

import argparse
import base64
import dataclasses
import hashlib
import json
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tables
from zoo import Animal, train_catboost, train_forest, train_lightgbm, train_on_dummies, train_xgboost
from zoo import xgboost_params as params

import predgap

N_ROWS = 4
SEED = 5

# --- what is asked --------------------------------------------------------------------------------------


def train_with_missing(n_trees: int, depth: int, d: int) -> Animal:
    """A tenth of the values is missing, in the table and in the rows."""
    import xgboost

    X, y = tables.correlated(3_000, d, seed=depth)
    X[np.random.default_rng(SEED).random(X.shape) < 0.1] = np.nan
    model = xgboost.train(params(depth), xgboost.DMatrix(X, y, nthread=1), n_trees)
    return Animal("missing", "XGBoost with missing values", model, X)


MODELS: dict[str, Callable[[], Animal]] = {
    "xgboost": partial(train_xgboost, 80, 5, 13),
    "deeper": partial(train_xgboost, 25, 7, 9),
    "lightgbm": partial(train_lightgbm, 40, 14),
    "categories": partial(train_lightgbm, 20, 6, categories=True, n_leaves=15),
    "catboost": partial(train_catboost, 30, 5, 10),
    "vector leaves": partial(train_forest, "Forest", 8, 8, 1_000, 6, n_outputs=3),
    "three classes": partial(train_xgboost, 10, 4, 9, n_classes=3),
    "unpruned": partial(train_forest, "Forest", 5, 6, 200),
    "dummies": partial(train_on_dummies, 25, 5, 6, declared=True),
    "few features": partial(train_xgboost, 12, 10, 4),
    "missing": partial(train_with_missing, 30, 5, 8),
    "stumps": partial(train_xgboost, 50, 1, 8),
    "large": partial(train_xgboost, 150, 7, 30),  # for which the planner takes bounded answers, too
}


def mixed(case: Animal) -> predgap.Noise:
    """One law after the other, over and over."""
    X = case.X
    laws: list[predgap.Noise] = [predgap.Uniform(0.5), predgap.Stay(predgap.Normal(0.4), 0.3)]
    laws += [
        predgap.StudentT(3, 0.3),
        predgap.Clipped(predgap.Laplace(0.5), -1.0, 1.5),
        predgap.Redraw(X, 0.4),
    ]
    n_numbers = X.shape[1] - len(case.categorical) - sum(map(len, case.one_hot.values()))
    laws_of = {j: laws[j % len(laws)] for j in range(n_numbers)}
    return predgap.PerFeature(laws_of, default=predgap.Redraw(X, 0.4))


NOISES: dict[str, Callable[[Animal], predgap.Noise]] = {
    "relative": lambda case: predgap.Relative(case.X, 0.3),
    "normal 0.1": lambda case: predgap.Normal.relative(case.X, 0.1),
    "normal 0.3": lambda case: predgap.Normal.relative(case.X, 0.3),
    "normal 1": lambda case: predgap.Normal.relative(case.X, 1.0),
    "laplace": lambda case: predgap.Laplace(0.4),
    "marginal": lambda case: predgap.Marginal(case.X),
    "redraw": lambda case: predgap.Redraw(case.X, 0.3),
    "background": lambda case: predgap.Background(case.X, max_rows=50),
    "mixed": mixed,
}

ROUTES: dict[str, dict[str, Any]] = {
    "default": {},
    "exact": {"rtol": 0.0},
    "loose": {"rtol": 1e-3},
    "plan": {"_strategy": "plan"},
    "plan, loose": {"_strategy": "plan", "rtol": 1e-3},
    "compiled": {"_strategy": "compiled"},
    "compiled, exact": {"_strategy": "compiled", "rtol": 0.0},
    "compiled, loose": {"_strategy": "compiled", "rtol": 1e-3},
    "cells": {"_strategy": "cells"},
    "pairs": {"_strategy": "pairs"},
    "two threads": {"n_jobs": 2},
    "groups": {"groups": {"ends": [0, 3], "middle": [1, 2]}},
    "groups, exact": {"groups": {"ends": [0, 3], "middle": [1, 2]}, "rtol": 0.0},
    "predicted": {"output": "predicted"},
}


@dataclasses.dataclass(frozen=True)
class Asked:
    """An explainer, rows, and an order of the features (or groups) for each row."""

    explainer: predgap.Explainer
    X: np.ndarray  # (n, d)
    order: np.ndarray  # (n, k)

    @property
    def half(self) -> np.ndarray:
        """Which features are in the first half of a row's order."""
        n, k = self.order.shape
        mask = np.zeros((n, k), dtype=bool)
        np.put_along_axis(mask, self.order[:, : k // 2], True, axis=1)
        return mask


CORE: dict[str, Callable[[Asked], Any]] = {
    "gap of few": lambda a: a.explainer.gap(a.X, [0, 1, 2]),
    "gap of half": lambda a: a.explainer.gap(a.X, a.half),
    "gap of all": lambda a: a.explainer.gap(a.X, np.ones_like(a.half)),
    "curve": lambda a: a.explainer.curve(a.X, a.order),
    "pgi2": lambda a: a.explainer.pgi2(a.X, a.order),
    "pgu2": lambda a: a.explainer.pgu2(a.X, a.order),
    "greedy": lambda a: a.explainer.rank(a.X),
    "single": lambda a: a.explainer.rank(a.X, "single"),
    "top 3": lambda a: a.explainer.rank(a.X, top=3),
    "moments": lambda a: a.explainer.moments(a.X, a.half),
    "sensitivity": lambda a: a.explainer.sensitivity(a.X[:2]),
    "random_pgi2": lambda a: a.explainer.random_pgi2(a.X),
    "expected_prediction": lambda a: a.explainer.expected_prediction(a.X, a.half),
}
MORE: dict[str, Callable[[Asked], Any]] = {
    "optimal": lambda a: a.explainer.rank(a.X[:2], "optimal"),
    "shapley": lambda a: a.explainer.rank(a.X[:2], "shapley"),
    "pruned gap": lambda a: a.explainer.approximate(method="pruned").gap(a.X, a.half),
    "pruned rank": lambda a: a.explainer.approximate(method="pruned").rank(a.X),
    "estimate mc": lambda a: a.explainer.estimate(a.X, [0, 2, 3], "mc", n_samples=256, seed=SEED),
    "estimate qmc": lambda a: a.explainer.estimate(a.X, [0, 2, 3], "qmc", n_samples=256, seed=SEED),
}
BRACKETS: dict[str, Callable[[Asked], Any]] = {
    "flip": lambda a: a.explainer.flip(a.X, 0.5, seed=SEED),
    "absolute_gap": lambda a: a.explainer.absolute_gap(a.X, a.half, seed=SEED),
}
QUESTIONS = CORE | MORE | BRACKETS

EVERY = tuple(name for name in MODELS if name != "large")
FORCED = ("plan", "plan, loose", "compiled", "compiled, exact", "compiled, loose", "cells", "pairs")
CASES = (  # models, noises, routes, questions
    (EVERY, tuple(NOISES), ("default",), (*CORE, *MORE)),
    (EVERY, ("normal 0.3",), ("exact", "loose", *FORCED), tuple(CORE)),
    (EVERY, ("relative",), FORCED, ("gap of half", "curve", "greedy", "moments")),
    (EVERY, ("background",), ("exact", "plan", "pairs"), ("gap of half", "curve", "greedy")),
    (("xgboost", "categories", "vector leaves"), ("relative",), ("two threads",), (*CORE, *MORE)),
    (("xgboost", "lightgbm", "unpruned", "dummies"), ("relative",), ("groups", "groups, exact"), tuple(CORE)),
    (("three classes",), ("normal 0.3", "background"), ("predicted",), tuple(CORE)),
    (("stumps", "few features"), ("normal 0.3", "marginal"), ("default",), tuple(BRACKETS)),
    (
        ("large",),
        ("relative", "normal 0.3"),
        ("default", "loose"),
        ("gap of half", "curve", "greedy", "top 3"),
    ),
)

# --- answers --------------------------------------------------------------------------------------------

Fields = dict[str, Any]
"""The arrays of an answer: bytes of float64 in base64, or a list of words."""


def fields_of(answer: Any) -> Fields:
    if isinstance(answer, np.ndarray):
        return {"value": packed(answer)}
    named = {field.name: getattr(answer, field.name) for field in dataclasses.fields(answer)}
    arrays = {name: np.array([value]) if isinstance(value, str) else value for name, value in named.items()}
    return {name: packed(value) for name, value in arrays.items() if isinstance(value, np.ndarray)}


def packed(array: np.ndarray) -> Any:
    if array.dtype.kind not in "biuf":
        return array.astype(str).ravel().tolist()
    return base64.b64encode(array.astype(np.float64).tobytes()).decode()


def noise_for(case: Animal, name: str) -> predgap.Noise:
    """A noise of numbers leaves the categories to their columns."""
    noise = NOISES[name](case)
    if name not in ("normal 0.1", "normal 0.3", "normal 1", "laplace"):
        return noise
    categories = (*case.categorical, *case.one_hot)
    return predgap.PerFeature(dict.fromkeys(categories, predgap.Marginal(case.X)), default=noise)


def asked_of(case: Animal, noise: str, route: str) -> Asked:
    options: dict[str, Any] = {"one_hot": case.one_hot, "progress": False} | ROUTES[route]
    explainer = predgap.Explainer(case.model, noise_for(case, noise), **options)
    if options.get("_strategy") == "plan" and not explainer.explained.kernel.model.has_plan:
        raise predgap.CostError("The model has no shared plan.")
    X, rng = case.rows(N_ROWS), np.random.default_rng(SEED)
    return Asked(explainer, X, np.array([rng.permutation(explainer.explained.n_units) for _ in X]))


def answered(ask: Callable[[], Any]) -> Fields:
    try:
        return fields_of(ask())
    except predgap.PredgapError as error:
        return {"refused": [type(error).__name__]}


def answers() -> Iterator[tuple[tuple[str, ...], Fields]]:
    """The name of each answer (question, model, noise, route), and its arrays."""
    cases = {name: train() for name, train in MODELS.items()}
    for name, case in cases.items():
        yield ("trees", name, "", ""), fields_of(predgap.load(case.model))
    for names, noises, routes, questions in CASES:
        for key in ((m, n, r) for m in names for n in noises for r in routes):
            try:
                asked = asked_of(cases[key[0]], *key[1:])
            except predgap.PredgapError as error:
                yield ("explainer", *key), {"refused": [type(error).__name__]}
                continue
            for question in questions:
                yield (question, *key), answered(partial(QUESTIONS[question], asked))


# --- files ----------------------------------------------------------------------------------------------


def hash_of(fields: Fields) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


def write(path: Path) -> int:
    refused: dict[str, list[str]] = defaultdict(list)
    lines = []
    for name, fields in answers():
        lines.append(json.dumps({"name": name, "hash": hash_of(fields), "values": fields}))
        if "refused" in fields:
            question, model, noise, route = name
            refused[f"{question}, {noise}, {route}, {fields['refused'][0]}"].append(model)
    path.write_text("\n".join(lines) + "\n")
    for text, models in refused.items():
        print(f"refused: {text}: {', '.join(models)}")
    print(f"{len(lines):,} answers, {sum(map(len, refused.values()))} of them refused")
    return 0


def difference(before: Fields, now: Fields) -> str:
    """Which arrays differ, and by how much, relative to the largest value."""
    return "; ".join(
        f"{name} {_relative(before.get(name), now.get(name))}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    )


def _relative(before: Any, now: Any) -> str:
    if not isinstance(before, str) or not isinstance(now, str):
        return f"{before} became {now}" if isinstance(before or now, list) else "is new or gone"
    a, b = (np.frombuffer(base64.b64decode(values)) for values in (before, now))
    if a.shape != b.shape or (np.isnan(a) != np.isnan(b)).any():
        return "has another shape, or is missing elsewhere"
    return f"{np.nanmax(np.abs(a - b)) / max(np.nanmax(np.abs(a)), np.finfo(float).tiny):.2g}"


def compare(path: Path) -> int:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    before = {tuple(line["name"]): line for line in lines}
    differ: dict[str, list[str]] = defaultdict(list)
    n_same = 0
    for name, now in answers():
        was = before.pop(name, None)
        if was is not None and was["hash"] == hash_of(now):
            n_same += 1
        else:
            words = difference(was["values"], now) if was else "is not in the file"
            differ[name[0]].append(f"{', '.join(filter(None, name[1:]))}: {words}")
    for name in before:
        differ[name[0]].append(f"{', '.join(filter(None, name[1:]))}: was not asked")
    for question, texts in differ.items():
        print(f"{question}: {len(texts)} differ", *texts, sep="\n    ")
    print(f"{n_same:,} answers have the same bits, {sum(map(len, differ.values())):,} differ")
    return int(bool(differ))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", type=Path, metavar="FILE")
    what.add_argument("--compare", type=Path, metavar="FILE")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    return write(given.write) if given.write else compare(given.compare)


if __name__ == "__main__":
    sys.exit(main())
