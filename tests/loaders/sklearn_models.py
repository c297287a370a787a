"""scikit-learn models for the tests of its loader: data, every kind of model, and what must agree."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

import loading
from predgap._model.ensemble import ALL_OUTPUTS, LEAF, Ensemble
from predgap.errors import LoaderError, UnsupportedModelError

RELEASE = tuple(map(int, sklearn.__version__.split(".")[:2]))

# ---- data ----


def make_data(n: int = 160, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d))
    X[:, 1] = np.round(X[:, 1], 1)
    return X, X[:, 0] + X[:, 1] * X[:, 2]


X_, Y_ = make_data()
HOLES = np.where(np.random.default_rng(4).random(X_.shape) < 0.15, np.nan, X_)
POSITIVE = np.abs(Y_) + 0.1
TWO = np.c_[Y_, X_[:, 3] - 2.0 * X_[:, 0]]
BINARY = (Y_ > 0).astype(int)
CLASSES = np.digitize(Y_, [-0.7, 0.7])
WORDS = np.array(["low", "mid", "top"])[CLASSES]
GONE = np.isnan(HOLES[:, 2])  # a target that only missing values tell: splits between missing and present
WEIGHTS = np.random.default_rng(5).random(len(Y_)) + 0.1
# Beyond 2**24 neighbouring integers are one float32, and midpoints of float32 need float64.
LARGE = np.c_[np.arange(len(Y_)) + 2.0**24, np.geomspace(1e-45, 3.4e38, len(Y_)), -X_[:, :1] * 1e38]
DOUBLE_RANGE = np.c_[np.geomspace(5e-324, 1.7e308, len(Y_)), -np.geomspace(5e-324, 1.7e308, len(Y_))]

Fit = Callable[[], Any]
NEW_MISSING = pytest.mark.skipif(RELEASE < (1, 6), reason="extra trees take missing values since 1.6")


def fit(model: Any, X: np.ndarray, y: np.ndarray | None = None, **options: Any) -> Fit:
    def fitted() -> Any:
        with np.errstate(over="ignore", invalid="ignore"):  # sums of large numbers within the library
            return model.fit(X, y, **options)

    return fitted


SMALL: dict[str, Any] = {"random_state": 0, "max_depth": 4}
SOME: dict[str, Any] = {**SMALL, "n_estimators": 7}
HIST: dict[str, Any] = {"random_state": 0, "max_iter": 7, "min_samples_leaf": 5}

TREES: dict[str, Fit] = {
    "tree": fit(DecisionTreeRegressor(**SMALL), X_, Y_),
    "tree, full": fit(DecisionTreeRegressor(random_state=0), X_, Y_),
    "tree, one leaf": fit(DecisionTreeRegressor(**SMALL), X_, np.ones(len(Y_))),
    "tree, random splits": fit(DecisionTreeRegressor(splitter="random", **SMALL), X_, Y_),
    "tree, absolute error": fit(DecisionTreeRegressor(criterion="absolute_error", **SMALL), X_, Y_),
    "tree, poisson": fit(DecisionTreeRegressor(criterion="poisson", **SMALL), X_, POSITIVE),
    "tree, best first": fit(DecisionTreeRegressor(max_leaf_nodes=9, random_state=0), X_, Y_),
    "tree, pruned": fit(DecisionTreeRegressor(ccp_alpha=0.02, random_state=0), X_, Y_),
    "tree, monotonic": fit(DecisionTreeRegressor(monotonic_cst=[1, 0, -1, 0], **SMALL), X_, Y_),
    "tree, weights": fit(DecisionTreeRegressor(**SMALL), X_, Y_, sample_weight=WEIGHTS),
    "tree, targets": fit(DecisionTreeRegressor(**SMALL), X_, TWO),
    "tree, missing": fit(DecisionTreeRegressor(**SMALL), HOLES, Y_),
    "tree, missing or not": fit(DecisionTreeRegressor(**SMALL), HOLES, GONE),
    "tree, large numbers": fit(DecisionTreeRegressor(random_state=0), LARGE, Y_),
    "tree of classes": fit(DecisionTreeClassifier(**SMALL), X_, CLASSES),
    "tree of classes, entropy": fit(DecisionTreeClassifier(criterion="entropy", **SMALL), X_, WORDS),
    "tree of classes, two": fit(DecisionTreeClassifier(**SMALL), X_, BINARY),
    "tree of classes, one": fit(DecisionTreeClassifier(**SMALL), X_, np.ones(len(Y_))),
    "tree of classes, balanced": fit(DecisionTreeClassifier(class_weight="balanced", **SMALL), X_, CLASSES),
    "tree of classes, monotonic": fit(
        DecisionTreeClassifier(monotonic_cst=[1, 0, 0, 0], **SMALL), X_, BINARY
    ),
    "tree of classes, targets": fit(DecisionTreeClassifier(**SMALL), X_, np.c_[BINARY, CLASSES, BINARY]),
    "tree of classes, missing": fit(DecisionTreeClassifier(**SMALL), HOLES, CLASSES),
    "tree of classes, missing or not": fit(DecisionTreeClassifier(**SMALL), HOLES, GONE),
    "extra tree": fit(ExtraTreeRegressor(**SMALL), X_, Y_),
    "extra tree of classes": fit(ExtraTreeClassifier(**SMALL), X_, CLASSES),
}
FORESTS: dict[str, Fit] = {
    "forest": fit(RandomForestRegressor(**SOME), X_, Y_),
    "forest, whole": fit(RandomForestRegressor(bootstrap=False, max_features=2, **SOME), X_, Y_),
    "forest, subsamples": fit(RandomForestRegressor(max_samples=0.3, n_jobs=2, **SOME), X_, Y_),
    "forest, targets": fit(RandomForestRegressor(**SOME), X_, TWO),
    "forest, missing": fit(RandomForestRegressor(**SOME), HOLES, Y_),
    "forest, missing or not": fit(RandomForestRegressor(**SOME), HOLES, GONE * 2.0),
    "forest, monotonic": fit(RandomForestRegressor(monotonic_cst=[1, 0, 0, 0], **SOME), X_, Y_),
    "forest, one tree": fit(RandomForestRegressor(n_estimators=1, **SMALL), X_, Y_),
    "forest of classes": fit(RandomForestClassifier(**SOME), X_, CLASSES),
    "forest of classes, two": fit(RandomForestClassifier(**SOME), X_, np.array(["no", "yes"])[BINARY]),
    "forest of classes, balanced": fit(
        RandomForestClassifier(class_weight="balanced_subsample", **SOME), X_, CLASSES
    ),
    "forest of classes, targets": fit(RandomForestClassifier(**SOME), X_, np.c_[CLASSES, BINARY]),
    "forest of classes, missing": fit(RandomForestClassifier(**SOME), HOLES, BINARY),
    "extra trees": fit(ExtraTreesRegressor(**SOME), X_, Y_),
    "extra trees, bootstrap": fit(ExtraTreesRegressor(bootstrap=True, **SOME), X_, TWO),
    "extra trees of classes": fit(ExtraTreesClassifier(**SOME), X_, CLASSES),
    "extra trees of classes, two": fit(ExtraTreesClassifier(**SOME), X_, BINARY),
}
BOOSTING: dict[str, Fit] = {
    "boosting": fit(GradientBoostingRegressor(**SOME), X_, Y_),
    "boosting, subsamples": fit(GradientBoostingRegressor(subsample=0.5, learning_rate=0.3, **SOME), X_, Y_),
    "boosting, from zero": fit(GradientBoostingRegressor(init="zero", **SOME), X_, Y_ + 5),
    "boosting, from a median": fit(
        GradientBoostingRegressor(init=DummyRegressor(strategy="median"), **SOME), X_, Y_
    ),
    **{
        f"boosting, {loss}": fit(GradientBoostingRegressor(loss=loss, **SOME), X_, Y_)
        for loss in ("absolute_error", "huber", "quantile")
    },
    "boosting, early stop": fit(
        GradientBoostingRegressor(n_estimators=300, n_iter_no_change=2, learning_rate=0.5, **SMALL), X_, Y_
    ),
    "boosting of classes": fit(GradientBoostingClassifier(**SOME), X_, WORDS),
    "boosting of classes, two": fit(GradientBoostingClassifier(**SOME), X_, BINARY),
    "boosting of classes, exponential": fit(
        GradientBoostingClassifier(loss="exponential", **SOME), X_, BINARY
    ),
    "boosting of classes, from zero": fit(GradientBoostingClassifier(init="zero", **SOME), X_, CLASSES),
    **{
        f"boosting of classes, from {strategy}": fit(
            GradientBoostingClassifier(init=DummyClassifier(strategy=strategy), **SOME), X_, CLASSES
        )
        for strategy in ("prior", "uniform", "most_frequent")
    },
    "boosting of classes, early stop": fit(
        GradientBoostingClassifier(n_estimators=300, n_iter_no_change=2, learning_rate=0.5, **SMALL),
        X_,
        CLASSES,
    ),
}
HISTOGRAMS: dict[str, Fit] = {
    "histograms": fit(HistGradientBoostingRegressor(**HIST), X_, Y_),
    **{
        f"histograms, {loss}": fit(HistGradientBoostingRegressor(loss=loss, **HIST), X_, POSITIVE)
        for loss in ("absolute_error", "gamma", "poisson")
    },
    "histograms, quantile": fit(HistGradientBoostingRegressor(loss="quantile", quantile=0.7, **HIST), X_, Y_),
    "histograms, missing": fit(HistGradientBoostingRegressor(**HIST), HOLES, Y_),
    "histograms, missing or not": fit(HistGradientBoostingRegressor(**HIST), HOLES, GONE * 2.0),
    "histograms, monotonic": fit(HistGradientBoostingRegressor(monotonic_cst=[1, 0, 0, -1], **HIST), X_, Y_),
    "histograms, interactions": fit(
        HistGradientBoostingRegressor(interaction_cst=[{0, 1}, {2, 3}], **HIST), X_, Y_
    ),
    "histograms, few bins": fit(HistGradientBoostingRegressor(max_bins=5, **HIST), X_, Y_),
    "histograms, large numbers": fit(HistGradientBoostingRegressor(**HIST), DOUBLE_RANGE, Y_),
    "histograms, early stop": fit(
        HistGradientBoostingRegressor(
            max_iter=300, early_stopping=True, n_iter_no_change=2, learning_rate=0.5, random_state=0
        ),
        X_,
        Y_,
    ),
    "histograms of classes": fit(HistGradientBoostingClassifier(**HIST), X_, WORDS),
    "histograms of classes, two": fit(HistGradientBoostingClassifier(**HIST), X_, BINARY),
    "histograms of classes, missing": fit(
        HistGradientBoostingClassifier(class_weight="balanced", **HIST), HOLES, CLASSES
    ),
}
BAGS: dict[str, Fit] = {
    "bag": fit(BaggingRegressor(n_estimators=5, random_state=0), X_, Y_),
    "bag, some columns": fit(
        BaggingRegressor(DecisionTreeRegressor(**SMALL), 7, max_features=2, random_state=0), X_, Y_
    ),
    "bag, columns twice": fit(
        BaggingRegressor(ExtraTreeRegressor(**SMALL), 7, bootstrap_features=True, random_state=0), X_, Y_
    ),
    "bag, one column": fit(
        BaggingRegressor(DecisionTreeRegressor(**SMALL), 7, max_features=1, n_jobs=2, random_state=0), X_, Y_
    ),
    "bag, targets": fit(BaggingRegressor(DecisionTreeRegressor(**SMALL), 5, random_state=0), X_, TWO),
    "bag, missing": fit(
        BaggingRegressor(DecisionTreeRegressor(**SMALL), 5, max_features=3, random_state=0), HOLES, Y_
    ),
    "bag of classes": fit(
        BaggingClassifier(DecisionTreeClassifier(**SMALL), 5, max_features=3, random_state=0), X_, WORDS
    ),
    "bag of classes, two": fit(
        BaggingClassifier(ExtraTreeClassifier(**SMALL), 5, bootstrap=False, random_state=0), X_, BINARY
    ),
    "isolation": fit(IsolationForest(n_estimators=9, random_state=0), X_),
    "isolation, some columns": fit(
        IsolationForest(n_estimators=9, max_features=2, max_samples=30, random_state=0), X_
    ),
    "isolation, bootstrap": fit(
        IsolationForest(n_estimators=9, bootstrap=True, contamination=0.1, n_jobs=2, random_state=0), X_
    ),
    "isolation, two rows": fit(IsolationForest(n_estimators=9, max_samples=2, random_state=0), X_),
    "isolation, one row": fit(IsolationForest(n_estimators=2, max_samples=1, random_state=0), X_),
}
NEWER: dict[str, Fit] = {
    "extra tree, missing": fit(ExtraTreeRegressor(**SMALL), HOLES, Y_),
    "extra trees, missing": fit(ExtraTreesRegressor(**SOME), HOLES, Y_),
    "extra trees of classes, missing": fit(ExtraTreesClassifier(**SOME), HOLES, CLASSES),
    "isolation, missing": fit(IsolationForest(n_estimators=9, random_state=0), HOLES),
}
VOTES: dict[str, Fit] = {
    "votes": fit(AdaBoostClassifier(n_estimators=7, random_state=0), X_, WORDS),
    "votes, two": fit(AdaBoostClassifier(DecisionTreeClassifier(**SMALL), n_estimators=7), X_, BINARY),
    "votes, early stop": fit(AdaBoostClassifier(DecisionTreeClassifier(), n_estimators=7), X_, BINARY),
    "votes, one class": fit(AdaBoostClassifier(n_estimators=7), X_, np.ones(len(Y_))),
}
KINDS: dict[str, Fit] = {**TREES, **FORESTS, **BOOSTING, **HISTOGRAMS, **BAGS, **VOTES}
ALL = [*KINDS, *(pytest.param(kind, marks=NEW_MISSING) for kind in NEWER)]


def make(kind: str) -> Any:
    return (KINDS | NEWER)[kind]()


# ---- what scikit-learn says, by its public names ----


def margins(model: Any, rows: np.ndarray) -> np.ndarray:
    """What the ensemble must give, (n, n_outputs)."""
    if isinstance(model, IsolationForest):
        found = mean_path_length(model, rows)
    elif hasattr(model, "decision_function") and "Boost" in type(model).__name__:
        found = model.decision_function(rows)
    elif hasattr(model, "predict_proba"):
        found = model.predict_proba(rows)
        found = found if isinstance(found, list) else [found]
        found = np.hstack([block[:, 1:] if block.shape[1] == 2 else block for block in found])
    else:
        found = model.predict(rows)
        if getattr(model, "loss", None) in ("gamma", "poisson"):
            found = np.log(found)
    return np.asarray(found).reshape(len(rows), -1)


def mean_path_length(model: Any, rows: np.ndarray) -> np.ndarray:
    """Splits on a row's way, and c(n) for the n training rows of its leaf: the mean over the trees."""
    total = np.zeros(len(rows))
    for estimator, columns in zip(model.estimators_, model.estimators_features_, strict=True):
        tree = estimator.tree_
        depth = np.zeros(tree.node_count)
        for node in np.flatnonzero(tree.children_left != LEAF):  # parents come before their children
            depth[[tree.children_left[node], tree.children_right[node]]] = depth[node] + 1
        reached = tree.apply(rows[:, columns].astype(np.float32))
        total += depth[reached] + [mean_search_depth(int(n)) for n in tree.n_node_samples[reached]]
    return total / len(model.estimators_)


def mean_search_depth(n: int) -> float:
    if n <= 2:
        return max(0.0, n - 1.0)
    return 2 * (math.log(n - 1) + 0.5772156649015329) - 2 * (n - 1) / n


def leaves(model: Any, rows: np.ndarray) -> np.ndarray | None:
    if hasattr(model, "apply"):
        return np.asarray(model.apply(rows)).reshape(len(rows), -1)
    if hasattr(model, "estimators_features_"):
        seen = rows.astype(np.float32)
        pairs = zip(model.estimators_, model.estimators_features_, strict=True)
        return np.array([tree.tree_.apply(seen[:, columns]) for tree, columns in pairs]).T
    return None


def takes(model: Any, value: float) -> bool:
    try:
        model.predict(np.full((1, model.n_features_in_), value, dtype=np.float32))
    except ValueError:
        return False
    return True


# ---- rows, and agreement on them ----


def sizes_of(ensemble: Ensemble, rows: np.ndarray) -> np.ndarray:
    """Sums of the sizes of what is added, (n, n_outputs)."""
    total = np.tile(np.abs(ensemble.bias), (len(rows), 1))
    reached = ensemble.leaves(rows)
    for tree, target in enumerate(ensemble.target):
        total[:, slice(None) if target == ALL_OUTPUTS else [target]] += np.abs(
            ensemble.value[reached[:, tree]]
        )
    return total


def assert_agrees(model: Any, ensemble: Ensemble, rows: np.ndarray) -> None:
    with np.errstate(over="ignore", invalid="ignore"):  # as in `fit`
        theirs, expected = leaves(model, rows), margins(model, rows)
    if theirs is not None:
        np.testing.assert_array_equal(ensemble.leaves(rows) - ensemble.root, theirs)
    found = ensemble.predict(rows).reshape(len(rows), -1)
    assert found.shape == expected.shape
    assert (np.abs(found - expected) <= 1e-12 * sizes_of(ensemble, rows)).all()


def refused(model: Any, match: str, kind: type[LoaderError] = UnsupportedModelError) -> None:
    loading.refused(model, match, kind)
