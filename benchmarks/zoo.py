"""The models that judge the planner, in three sets.

fitted      constants are set with their times in view; a model for which the planner chooses badly is added
validation  drawn at random; they may be looked at, to see whether a change holds beyond the fitted set
unseen      drawn by the same rule with another seed; they are not looked at, and judge

`draw` states the rule: as many models of each kind, their sizes at random from the ranges of `KINDS`. When
the planner was changed with an eye on the unseen set, that has lost its worth: then its seed
joins `ONCE_UNSEEN`, and `SEEDS` gets one that was never used, before anything is run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import tables
from explainers import SIGMA, noise_of
from trained import Trained

import predgap

FEW_ROWS, MANY_ROWS = 3_000, 10_000  # to train on; many, where 200 levels must be known


@dataclass(frozen=True)
class Animal(Trained):
    one_hot: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # columns that are one category

    def explainer(self, rtol: float, strategy: Any = None) -> predgap.Explainer:
        noise = predgap.Relative(self.X, SIGMA) if self.one_hot else noise_of(self)
        return predgap.Explainer(self.model, noise, one_hot=self.one_hot, rtol=rtol, _strategy=strategy)


# --- how they are trained -------------------------------------------------------------------------------


def xgboost_params(depth: int) -> dict[str, Any]:
    return {"max_depth": depth, "eta": 0.1, "tree_method": "hist", "nthread": 1, "seed": 0}


def train_xgboost(n_trees: int, depth: int, d: int, n_classes: int = 1, n_rows: int = FEW_ROWS) -> Animal:
    import xgboost

    X, y = tables.correlated(n_rows, d, seed=depth)
    params = xgboost_params(depth)
    if n_classes > 1:
        y = np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)
        params |= {"objective": "multi:softprob", "num_class": n_classes}
    model = xgboost.train(params, xgboost.DMatrix(X, y, nthread=1), n_trees)
    classes = f", {n_classes} classes" if n_classes > 1 else ""
    return Animal("xgboost", f"XGBoost {n_trees} × depth {depth}, {d} features{classes}", model, X)


def train_on_dummies(n_trees: int, depth: int, d: int, declared: bool, n_rows: int = FEW_ROWS) -> Animal:
    """Numbers, and a category of 20 levels of which each is a column of zeros and ones."""
    import xgboost

    X, y = tables.with_categories(n_rows, d, seed=depth)
    n_levels = tables.LEVELS[0]
    X = np.column_stack([X[:, :d], X[:, d, None] == np.arange(n_levels)])
    model = xgboost.train(xgboost_params(depth), xgboost.DMatrix(X, y, nthread=1), n_trees)
    one_hot = {"category": tuple(range(d, d + n_levels))} if declared else {}
    words = "declared as one category" if declared else "each for itself"
    title = f"XGBoost {n_trees} × depth {depth}, {d} numbers and {n_levels} dummies, {words}"
    return Animal("dummies", title, model, X, one_hot=one_hot)


def train_lightgbm(
    n_trees: int, d: int, categories: bool = False, n_leaves: int = 31, n_rows: int = FEW_ROWS
) -> Animal:
    import lightgbm

    X, y = (tables.with_categories if categories else tables.correlated)(n_rows, d, seed=7)
    categorical = tuple(range(d, X.shape[1]))
    params = {"num_leaves": n_leaves, "learning_rate": 0.05, "num_threads": 1, "seed": 0, "verbose": -1}
    params |= {"deterministic": True, "force_col_wise": True}
    model = lightgbm.train(params, lightgbm.Dataset(X, y, categorical_feature=list(categorical)), n_trees)
    extra = f", 2 with categories, {n_rows:,} rows" if categories else ""
    title = f"LightGBM {n_trees} × {n_leaves} leaves, {X.shape[1]} features{extra}"
    return Animal("lightgbm", title, model, X, categorical)


def train_catboost(n_trees: int, depth: int, d: int, n_rows: int = FEW_ROWS) -> Animal:
    """All splits of a level ask the same."""
    import catboost

    X, y = tables.correlated(n_rows, d, seed=depth)
    options = {"learning_rate": 0.1, "thread_count": 1, "random_seed": 0, "allow_writing_files": False}
    model = catboost.CatBoostRegressor(iterations=n_trees, depth=depth, verbose=False, **options).fit(X, y)
    return Animal("catboost", f"CatBoost {n_trees} × depth {depth}, {d} features", model, X)


def train_forest(
    kind: str, n_trees: int, d: int, n_rows: int, depth: int | None = None, n_outputs: int = 1
) -> Animal:
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

    X, y = tables.correlated(n_rows, d, seed=n_trees)
    if n_outputs > 1:
        y = np.column_stack([tables.signal(np.roll(X, k, axis=1)) for k in range(n_outputs)])
    make = {"Extra trees": ExtraTreesRegressor, "Forest": RandomForestRegressor}[kind]
    model = make(n_trees, max_depth=depth, random_state=0, n_jobs=1).fit(X, y)
    shape = f"depth {depth}" if depth else f"unpruned, {n_rows} rows"
    outputs = f", {n_outputs} outputs" if n_outputs > 1 else ""
    return Animal("forest", f"{kind} {n_trees} × {shape}, {d} features{outputs}", model, X)


# --- those that constants are fitted to -----------------------------------------------------------------

Train = Callable[[], Animal]

FITTED: list[Train] = [
    # what is often trained
    partial(train_xgboost, 20, 3, 8),
    partial(train_xgboost, 100, 4, 12),
    partial(train_xgboost, 500, 4, 23),
    partial(train_xgboost, 300, 5, 15),
    partial(train_xgboost, 100, 6, 20),
    partial(train_xgboost, 500, 6, 12),
    partial(train_xgboost, 50, 8, 10),
    partial(train_xgboost, 150, 8, 8),
    partial(train_lightgbm, 50, 10),
    partial(train_lightgbm, 200, 30),
    partial(train_lightgbm, 250, 12),
    partial(train_lightgbm, 300, 25),
    partial(train_lightgbm, 500, 20),
    partial(train_catboost, 100, 6, 12),
    partial(train_catboost, 400, 4, 20),
    partial(train_forest, "Forest", 20, 10, 1_000, 6),
    partial(train_forest, "Forest", 100, 20, 3_000, 8),
    # unpruned
    partial(train_forest, "Forest", 15, 6, 300),
    partial(train_forest, "Forest", 40, 8, 1_000),
    partial(train_forest, "Extra trees", 10, 8, 300),
    # many features, and some 50,000 components
    partial(train_xgboost, 150, 7, 30),
    partial(train_xgboost, 300, 6, 40),
    # 20 and 200 levels
    partial(train_lightgbm, 80, 8, categories=True),
    partial(train_lightgbm, 60, 12, categories=True, n_rows=MANY_ROWS),
    partial(train_lightgbm, 120, 6, categories=True, n_rows=MANY_ROWS),
    # several outputs, each with trees of its own, or with vector leaves
    partial(train_xgboost, 30, 5, 12, n_classes=3),
    partial(train_xgboost, 25, 6, 10, n_classes=4),
    partial(train_xgboost, 60, 4, 16, n_classes=5),
    partial(train_forest, "Forest", 25, 12, 2_000, 7, n_outputs=4),
    partial(train_forest, "Forest", 12, 8, 1_000, 9, n_outputs=3),
    # dummies
    partial(train_on_dummies, 80, 6, 8, declared=True),
    partial(train_on_dummies, 150, 5, 12, declared=True),
    partial(train_on_dummies, 200, 4, 6, declared=False),
    partial(train_on_dummies, 100, 6, 10, declared=False),
    # few features, deep trees
    partial(train_xgboost, 40, 12, 5),
    partial(train_xgboost, 60, 10, 4),
    partial(train_lightgbm, 100, 7, n_leaves=63),
    partial(train_lightgbm, 60, 5, n_leaves=127),
]

# --- those that are drawn -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Range:
    """Whole numbers from the least to the most; their logarithms are even."""

    least: int
    most: int

    def draw(self, rng: np.random.Generator) -> int:
        return int(np.exp(rng.uniform(np.log(self.least), np.log(self.most + 1))))


@dataclass(frozen=True)
class OneOf:
    choices: tuple[Any, ...]

    def draw(self, rng: np.random.Generator) -> Any:
        return self.choices[rng.integers(len(self.choices))]


Kind = tuple[Callable[..., Animal], dict[str, Range | OneOf]]

TABLE = {"d": Range(4, 40), "n_rows": Range(1_000, 10_000)}
FOREST = {"kind": OneOf(("Forest", "Extra trees"))}
PRUNED = FOREST | {
    "n_trees": Range(10, 200),
    "depth": Range(4, 12),
    "d": Range(4, 30),
    "n_rows": Range(500, 5_000),
}
DUMMIES = {"n_trees": Range(20, 300), "depth": Range(3, 8), "d": Range(4, 15), "n_rows": Range(1_000, 10_000)}
KINDS: list[Kind] = [
    (train_xgboost, TABLE | {"n_trees": Range(20, 1_000), "depth": Range(3, 10)}),
    (train_xgboost, TABLE | {"n_trees": Range(10, 200), "depth": Range(3, 8), "n_classes": Range(3, 8)}),
    (train_lightgbm, TABLE | {"n_trees": Range(20, 1_000), "n_leaves": Range(7, 127)}),
    (
        train_lightgbm,
        {
            "n_trees": Range(20, 300),
            "n_leaves": Range(7, 63),
            "d": Range(3, 20),
            "n_rows": Range(2_000, 10_000),
        }
        | {"categories": OneOf((True,))},
    ),
    (train_catboost, TABLE | {"n_trees": Range(20, 1_000), "depth": Range(4, 8)}),
    (train_on_dummies, DUMMIES | {"declared": OneOf((True,))}),
    (train_on_dummies, DUMMIES | {"declared": OneOf((False,))}),
    (train_forest, PRUNED),
    (train_forest, PRUNED | {"n_outputs": Range(2, 6)}),
    (train_forest, FOREST | {"n_trees": Range(10, 100), "d": Range(3, 20), "n_rows": Range(100, 3_000)}),
]
OF_EACH_KIND = 2
MOST_LEAVES = 40_000  # of a model that is drawn: so that all can be timed in minutes


def most_leaves(sizes: Mapping[str, Any]) -> int:
    """Of all trees, whatever they learn."""
    of_tree = sizes.get("n_leaves") or 2 ** min(sizes.get("depth", 99), 99)
    return sizes["n_trees"] * sizes.get("n_classes", 1) * min(of_tree, sizes["n_rows"])


def draw(seed: int) -> list[Train]:
    """Sizes that make too many leaves are drawn again."""
    rng = np.random.default_rng(seed)
    models: list[Train] = []
    for train, ranges in KINDS * OF_EACH_KIND:
        sizes = {name: of.draw(rng) for name, of in ranges.items()}
        while most_leaves(sizes) > MOST_LEAVES:
            sizes = {name: of.draw(rng) for name, of in ranges.items()}
        models.append(partial(train, **sizes))
    return models


ONCE_UNSEEN = (2026_11_18,)
SEEDS = {"validation": 1, "unseen": 2026_11_19}
ZOO: dict[str, list[Train]] = {"fitted": FITTED + [train for seed in ONCE_UNSEEN for train in draw(seed)]}
ZOO |= {name: draw(seed) for name, seed in SEEDS.items()}
