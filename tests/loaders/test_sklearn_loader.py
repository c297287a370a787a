"""The scikit-learn loader against scikit-learn: every kind of model, one ulp around every threshold."""

from __future__ import annotations

import itertools
import math
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn import set_config
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
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
    RandomTreesEmbedding,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

import loading
from assertions import assert_gaps_of_model
from conformance import PickleTests
from loading import rows_around_thresholds
from predgap._model.ensemble import ALL_OUTPUTS, LEAF, NUMERIC, Ensemble
from predgap.errors import LoaderError, TableError, UnsupportedModelError
from predgap.loaders import load, selfcheck
from predgap.loaders.splits import above

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
KINDS: dict[str, Fit] = {**TREES, **FORESTS, **BOOSTING, **HISTOGRAMS, **BAGS}
ALL = [*KINDS, *(pytest.param(kind, marks=NEW_MISSING) for kind in NEWER)]


def make(kind: str) -> Any:
    return (KINDS | NEWER)[kind]()


# ---- what scikit-learn says, by its public names ----


def margins(model: Any, rows: np.ndarray) -> np.ndarray:
    """What the ensemble must give, (n, n_outputs)."""
    if isinstance(model, IsolationForest):
        found = mean_path_length(model, rows)
    elif hasattr(model, "decision_function") and "Boosting" in type(model).__name__:
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


class TestObjects(PickleTests):
    models = KINDS if NEW_MISSING.args[0] else KINDS | NEWER

    def assert_agrees(self, model: Any, ensemble: Ensemble) -> None:
        assert_agrees(model, ensemble, rows_around_thresholds(ensemble, missing=takes(model, np.nan)))


@pytest.mark.parametrize("kind", ALL)
def test_what_is_known_of_a_model(kind: str) -> None:
    model = make(kind)
    ensemble = load(model)
    assert ensemble.n_features == model.n_features_in_
    assert ensemble.feature_names is None
    assert ensemble.source == f"scikit-learn {sklearn.__version__} {type(model).__name__}"
    hist = "Hist" in type(model).__name__
    assert ensemble.row_dtype == (np.float64 if hist else np.float32)


@pytest.mark.parametrize("kind", ALL)
def test_rows_in_double_precision_are_rounded_as_the_library_rounds_them(kind: str) -> None:
    model = make(kind)
    ensemble = load(model)
    rng = np.random.default_rng(0)
    inner = ensemble.feature != LEAF
    rows = rng.normal(size=(300, ensemble.n_features))
    for j in range(ensemble.n_features):
        cuts = ensemble.threshold[inner & (ensemble.feature == j)]
        if not len(cuts):
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            low = np.nextafter(cuts.astype(np.float32), np.float32(-np.inf)).astype(np.float64)
            half = (cuts - low) / 2
            tried = np.concatenate([cuts, low, low + half, np.nextafter(low + half, np.inf), cuts + half])
        tried = tried[np.isfinite(tried) & (np.abs(tried) < 3e38)]
        rows[:, j] = rng.choice(tried, len(rows)) if len(tried) else 0.0
    assert_agrees(model, ensemble, rows)


@pytest.mark.parametrize(
    ("kind", "n_outputs"),
    [
        ("tree", 1),
        ("tree, targets", 2),
        ("tree of classes, one", 1),
        ("tree of classes, two", 1),
        ("tree of classes", 3),
        ("tree of classes, targets", 5),
        ("forest of classes", 3),
        ("forest of classes, two", 1),
        ("bag of classes", 3),
        ("bag of classes, two", 1),
        ("boosting of classes", 3),
        ("boosting of classes, two", 1),
        ("histograms of classes", 3),
        ("histograms of classes, two", 1),
        ("isolation", 1),
    ],
)
def test_number_of_outputs(kind: str, n_outputs: int) -> None:
    assert load(make(kind)).n_outputs == n_outputs


def test_two_classes_are_the_probability_of_the_second() -> None:
    model = make("forest of classes, two")
    assert model.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(load(model).predict(X_), model.predict_proba(X_)[:, 1], rtol=0, atol=1e-15)


def test_a_score_of_isolation_is_a_function_of_the_path_length() -> None:
    model = make("isolation")
    length = load(model).predict(X_)
    scale = mean_search_depth(model.max_samples_)
    np.testing.assert_allclose(model.score_samples(X_), -(2.0 ** (-length / scale)), rtol=1e-12)
    order = np.argsort(length)
    assert (np.diff(model.score_samples(X_)[order]) >= -1e-15).all()


def test_early_stopping_leaves_fewer_trees() -> None:
    for kind, per_round in (("boosting, early stop", 1), ("boosting of classes, early stop", 3)):
        model = make(kind)
        assert model.n_estimators_ < 300
        assert load(model).n_trees == model.n_estimators_ * per_round
    model = make("histograms, early stop")
    assert load(model).n_trees == model.n_iter_ < 300


# ---- missing and infinite values ----


def test_where_missing_values_are_taken_follows_the_library() -> None:
    for kind in ("tree", "forest", "histograms", "bag"):
        assert takes(make(kind), np.nan), kind  # also when trained without
    for kind in ("boosting", "boosting of classes"):
        assert not takes(make(kind), np.nan), kind
    # Where the library refuses, the trees still have a side for them: that with more training rows.
    model = make("boosting")
    ensemble = load(model)
    first = model.estimators_[0, 0].tree_
    sizes = first.n_node_samples
    to_left = sizes[first.children_left[0]] > sizes[first.children_right[0]]
    assert ensemble.default_left[0] == to_left
    assert np.isfinite(ensemble.predict(np.full((1, 4), np.nan))).all()


def has_infinite_threshold(model: Any) -> bool:
    if hasattr(model, "_predictors"):
        cuts = [p.nodes["num_threshold"] for stage in model._predictors for p in stage]
    else:
        cuts = [tree.tree_.threshold for tree in getattr(model, "estimators_", [model])]
    return bool(np.isinf(np.concatenate(cuts)).any())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.endswith("missing or not")])
def test_splits_between_missing_and_present_values(kind: str) -> None:
    model = make(kind)
    assert has_infinite_threshold(model)
    ensemble = load(model)
    assert not ensemble.accepts_infinity
    largest = float(np.finfo(ensemble.row_dtype).max)
    rows = np.array([[value] * 4 for value in (largest, -largest, 0.0, np.nan)])
    rows = np.concatenate([rows, np.where(np.eye(4, dtype=bool), np.nan, largest)])
    assert_agrees(model, ensemble, rows)


def test_infinite_values_are_taken_where_the_library_takes_them() -> None:
    rows = np.concatenate([X_[:9]] * 2)
    rows[:4, 0], rows[2:6, 2], rows[6:9, 1], rows[8, :] = np.inf, -np.inf, -np.inf, np.inf
    for kind in ("histograms", "histograms of classes", "isolation"):
        model = make(kind)
        ensemble = load(model)
        assert ensemble.accepts_infinity == takes(model, np.inf)
        if ensemble.accepts_infinity:
            assert_agrees(model, ensemble, rows)
    for kind in ("tree", "forest of classes", "boosting", "bag"):
        model = make(kind)
        assert not takes(model, np.inf)
        with pytest.raises(TableError, match="infinite"):
            load(model).predict(rows)


floats = st.floats(allow_nan=False)
singles = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(floats, singles)
@example(float(np.float32(0.1)), float(np.float32(0.1)))
@example(0.1, float(np.float32(0.1)))
@example(3.5e38, float(np.finfo(np.float32).max))
@example(-3.5e38, float(np.finfo(np.float32).min))
@example(-0.0, 0.0)
def test_below_what_is_above_a_threshold_is_at_most_the_threshold(t: float, x: float) -> None:
    for kind in (np.float32, np.float64):
        (found,) = above(np.array([t]), kind)
        assert (x <= t) == (x < found)
        with np.errstate(over="ignore"):
            near = kind(found)
            below = np.nextafter(near, kind(-np.inf))
        for value in (near, below):
            if np.isfinite(value):
                assert (float(value) <= t) == (float(value) < found)


# ---- gaps ----


@pytest.mark.parametrize(
    ("kind", "output"),
    [
        ("tree, missing or not", None),
        ("forest of classes", 2),
        ("forest of classes, two", None),
        ("boosting of classes", 1),
        ("histograms", None),
        ("histograms, missing or not", None),
        ("bag, columns twice", None),
        ("isolation, some columns", None),
    ],
)
def test_gaps_are_those_of_the_definition(kind: str, output: int | None) -> None:
    assert_gaps_of_model(load(make(kind)).select(output or 0), HOLES[[0, 3, 7]])


# ---- categories ----

COLOURS = ("blue", "green", "red")
SIZES = (0, 2, 5, 300)
COLOUR = np.random.default_rng(6).choice([*COLOURS, None], len(Y_))
SIZE = np.random.default_rng(7).choice([*SIZES, np.nan], len(Y_))
EFFECT = X_[:, 0] + 2.0 * (COLOUR == "green") * (SIZE == 5) - 3.0 * (SIZE == 300) + 4.0 * (COLOUR == None)  # noqa: E711
THIRDS = np.digitize(EFFECT, [-1.0, 1.0])


def mixed(x: Any, colour: Any, size: Any) -> pd.DataFrame:
    """Columns of text and numbers, categorical or not, in turns; "idle" is categorical and constant."""
    return pd.DataFrame(
        {
            "x": np.asarray(x, dtype=float),
            "colour": pd.Categorical(colour),
            "z": np.zeros(len(colour)),
            "size": pd.Categorical(size),
            "idle": pd.Categorical(["one"] * len(colour)),
        }
    )


def in_polars(frame: pd.DataFrame) -> pl.DataFrame:
    """The frame with Enum and Categorical columns; text for sizes, since Polars has no other categories."""
    sizes = [None if np.isnan(size) else str(int(size)) for size in frame["size"].astype(float)]
    colours = [colour if isinstance(colour, str) else None for colour in frame["colour"]]
    return pl.DataFrame(
        {
            "x": frame["x"].to_numpy(),
            "colour": pl.Series(colours, dtype=pl.Enum([*COLOURS, "mauve"])),
            "z": frame["z"].to_numpy(),
            "size": pl.Series(sizes, dtype=pl.Categorical),
            "idle": pl.Series(["one"] * len(frame), dtype=pl.Categorical),
        }
    )


def as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Plain columns: which of them are categorical, the option says."""
    return frame.astype({"colour": object, "size": float, "idle": object})


def as_objects(frame: pd.DataFrame) -> np.ndarray:
    found = as_text(frame).to_numpy(dtype=object)
    found[pd.isna(found)] = np.nan
    return found


def as_codes(frame: pd.DataFrame) -> np.ndarray:
    """Numbers only: a level of "colour" is its place, one that is new 77."""
    place = {None: np.nan, **{name: float(i) for i, name in enumerate(COLOURS)}}
    colour = [place.get(name if isinstance(name, str) else None, 77.0) for name in frame["colour"]]
    return np.c_[frame["x"], colour, frame["z"], frame["size"].astype(float), np.zeros(len(frame))]


CATEGORICAL = ["size", "colour", "idle"]
FORMS: dict[str, tuple[Callable[[pd.DataFrame], Any], Any]] = {
    "pandas": (lambda frame: frame, "from_dtype"),
    "polars": (in_polars, "from_dtype" if RELEASE >= (1, 9) else CATEGORICAL),  # which older ones ignore
    "names": (as_text, CATEGORICAL),
    "objects": (as_objects, [4, 1, 3]),
    "mask": (as_codes, [False, True, False, True, True]),
    "indices": (as_codes, [1, 3, 4]),
}


def fit_mixed(form: str, kind: Any = HistGradientBoostingRegressor, y: np.ndarray = EFFECT) -> Any:
    shaped, which = FORMS[form]
    frame = shaped(mixed(X_[:, 0], COLOUR, SIZE))
    return kind(categorical_features=which, **{**HIST, "max_iter": 15}).fit(frame, y)


def mixed_rows(ensemble: Ensemble) -> pd.DataFrame:
    """All levels, new ones and missing ones of both columns, each with some x around thresholds."""
    cuts = ensemble.threshold[(ensemble.feature == 0)]
    x = np.concatenate([cuts, np.nextafter(cuts, -np.inf), [np.nan, 0.0]])[-9:]
    rows = itertools.product(x, [*COLOURS, "mauve", None], [*SIZES, 7.0, np.nan])
    return mixed(*zip(*rows, strict=True))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("kind", "y"),
    [
        (HistGradientBoostingRegressor, EFFECT),
        (HistGradientBoostingClassifier, THIRDS > 0),
        (HistGradientBoostingClassifier, THIRDS),
    ],
)
def test_categories_go_where_the_library_sends_them(form: str, kind: Any, y: np.ndarray) -> None:
    model = fit_mixed(form, kind, y)
    ensemble = load(model)  # any warning is an error here
    assert ensemble.n_outputs == (3 if y is THIRDS else 1)
    assert ensemble.unseen_is_missing
    rows = FORMS[form][0](mixed_rows(ensemble))
    expected = margins(model, rows)
    np.testing.assert_allclose(ensemble.predict(rows).reshape(expected.shape), expected, rtol=0, atol=1e-12)
    split = set(ensemble.feature[ensemble.category_set != NUMERIC].tolist())
    assert split == {1, 3}
    assert set(ensemble.feature[(ensemble.category_set == NUMERIC)]) == {LEAF, 0}


def test_levels_are_those_of_training_in_the_columns_of_the_user() -> None:
    expected: dict[str, dict[int, tuple[list[int], tuple[Any, ...]]]] = {
        "pandas": {1: ([0, 1, 2], COLOURS), 3: ([*SIZES], SIZES), 4: ([0], ("one",))},
        "polars": {
            1: ([0, 1, 2, 3], (*COLOURS, None)),  # for scikit-learn, None is a category
            3: ([0, 1, 2, 3, 4], ("0", "2", "300", "5", None)),
            4: ([0], ("one",)),
        },
        "indices": {1: ([0, 1, 2], (0, 1, 2)), 3: ([*SIZES], SIZES), 4: ([0], (0,))},
    }
    for form, levels in expected.items():
        model = fit_mixed(form)
        ensemble = load(model)
        found = {q: (own.codes.tolist(), own.labels) for q, own in ensemble.categorical().items()}
        assert found == levels
        assert hasattr(model, "feature_names_in_") == (ensemble.feature_names is not None)
        names = None if form == "indices" else ("x", "colour", "z", "size", "idle")
        assert ensemble.feature_names in ((names,) if form == "pandas" else (names, None))


def test_codes_and_labels_of_a_row_mean_the_same() -> None:
    ensemble = load(fit_mixed("pandas"))
    labels = mixed_rows(ensemble)
    np.testing.assert_array_equal(ensemble.predict(labels), ensemble.predict(as_codes(labels)))
    new = np.array([[0.5, code, 0.0, 5.0, 0.0] for code in (np.nan, -1.0, 3.0, 1e9)])
    assert len(set(ensemble.predict(new))) == 1
    with pytest.raises(TableError, match=r"X\[0, 1\] is 0\.5, but feature 'colour' is categorical"):
        ensemble.predict([[0.5, 0.5, 0.0, 5.0, 0.0]])


@pytest.mark.parametrize("n_levels", [1, 2, 32, 33, 255])
def test_any_number_of_levels(n_levels: int) -> None:
    level = np.arange(20 * n_levels) % n_levels
    rng = np.random.default_rng(n_levels)
    rows = np.c_[rng.normal(size=len(level)), 3 * level]
    y = rng.normal(size=n_levels)[level] + rows[:, 0]
    model = HistGradientBoostingRegressor(categorical_features=[1], **HIST).fit(rows, y)
    ensemble = load(model)
    assert ensemble.categorical()[1].codes.tolist() == [*range(0, 3 * n_levels, 3)]
    tried = np.concatenate([rows, [[0.0, np.nan], [0.0, 1.0], [0.0, -3.0], [0.0, 255.0], [0.0, 256.0]]])
    assert_agrees(model, ensemble, tried)


def test_a_column_of_missing_categories_and_infinite_numbers() -> None:
    rows = np.c_[X_[:, 0], np.full(len(X_), np.nan)]
    model = HistGradientBoostingRegressor(categorical_features=[1], **HIST).fit(rows, Y_)
    ensemble = load(model)
    assert len(ensemble.categorical()[1]) == 0
    assert ensemble.accepts_infinity
    assert_agrees(model, ensemble, np.array([[0.0, 3.0], [np.inf, np.nan], [-np.inf, 0.0]]))


def test_categories_of_other_things_than_text() -> None:
    """Intervals are labels, truth values the numbers 0 and 1."""
    frame = pd.DataFrame({"x": X_[:, 0], "cut": pd.cut(X_[:, 1], 4), "yes": X_[:, 2] > 0})
    model = HistGradientBoostingRegressor(categorical_features=["cut", "yes"], **HIST).fit(frame, Y_)
    ensemble = load(model)
    assert set(ensemble.categorical()) == {1, 2}
    np.testing.assert_allclose(ensemble.predict(frame), model.predict(frame), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (np.where(Y_ > 0, -1.0, 3.0), "-1.0"),
        (np.where(Y_ > 0, 0.5, 3.0), "0.5"),
        (np.where(Y_ > 0, 2.0**31, 3.0), "2147483648.0"),
        (
            np.where(Y_ > 0, np.datetime64("2026-01-01"), np.datetime64("2025-01-01")),
            "datetime.datetime(2025, 1, 1, 0, 0)",
        ),
        (np.where(Y_ > 0, 3, None), "None"),  # beside text, None is a label
    ],
)
def test_categories_that_have_no_code_are_refused(column: np.ndarray, shown: str) -> None:
    frame = pd.DataFrame({"x": X_[:, 0], "c": pd.Series(column)})
    model = HistGradientBoostingRegressor(categorical_features=["c"], **HIST).fit(frame, Y_)
    says = "; predgap takes text, or whole numbers from 0 to 2147483646: encode the column so and train again"
    refused(model, f"column 1 has the category {re.escape(shown)}{says}")


def test_sets_with_strange_categories_are_refused() -> None:
    model = fit_mixed("mask")
    model._predictors[0][0].raw_left_cat_bitsets[0, 7] |= 1 << 31
    refused(model, "the codes of a set must not be negative", LoaderError)
    model = fit_mixed("mask")
    model._bin_mapper.bin_thresholds_[0] = model._bin_mapper.bin_thresholds_[0][:1]
    refused(model, "the load disagrees with scikit-learn", LoaderError)


# ---- options around the model ----


def test_names_come_from_the_model_and_loading_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    names = ["age", "größe", "a b", "x"]
    frame = pd.DataFrame(X_, columns=names)
    models = [
        DecisionTreeRegressor(**SMALL).fit(frame, Y_),
        RandomForestRegressor(**SOME).fit(frame, Y_),
        GradientBoostingClassifier(**SOME).fit(frame, BINARY),
        HistGradientBoostingRegressor(**HIST).fit(frame, Y_),
        BaggingClassifier(n_estimators=3).fit(frame, CLASSES),
        IsolationForest(n_estimators=3).fit(frame),
    ]
    for model in models:
        if hasattr(model, "n_jobs"):
            model.set_params(n_jobs=2)
        if hasattr(model, "verbose"):
            model.set_params(verbose=3)
        before = dict(vars(model))
        ensemble = load(model)  # any warning is an error here
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[key] is value for key, value in before.items())
        assert ensemble.feature_names == tuple(names)
        assert np.array_equal(ensemble.predict(frame[names[::-1]]), ensemble.predict(X_))
    assert capfd.readouterr() == ("", "")


def test_a_tree_of_a_bag_that_met_few_classes() -> None:
    y = np.zeros(len(Y_), dtype=int)
    y[:3] = 1
    y[3:60] = 2
    set_config(enable_metadata_routing=True)  # then trees are fitted to rows, not by weights
    try:
        model = BaggingClassifier(DecisionTreeClassifier(**SMALL), 8, max_samples=0.2, random_state=0)
        model.fit(X_, y)
        assert {len(tree.classes_) for tree in model.estimators_} == {2, 3}
        ensemble = load(model)
        assert_agrees(model, ensemble, rows_around_thresholds(ensemble))
    finally:
        set_config(enable_metadata_routing=False)


def test_options_that_change_predictions_after_fitting() -> None:
    bag = make("bag").set_params(n_estimators=3)
    ensemble = load(bag)
    np.testing.assert_allclose(ensemble.predict(X_), bag.predict(X_), rtol=0, atol=1e-13)
    boosting = make("boosting").set_params(learning_rate=0.9)
    np.testing.assert_allclose(load(boosting).predict(X_), boosting.predict(X_), rtol=0, atol=1e-12)


def test_children_of_a_class_are_of_the_class() -> None:
    class Mine(RandomForestRegressor):  # type: ignore[misc]
        pass

    assert load(Mine(n_estimators=3).fit(X_, Y_)).n_trees == 3


def test_a_restored_pickle_and_a_continued_fit_load() -> None:
    model = pickle.loads(pickle.dumps(make("boosting")))
    assert load(model).n_trees == 7
    warm = GradientBoostingRegressor(warm_start=True, **SOME).fit(X_, Y_)
    warm.set_params(n_estimators=9).fit(X_, Y_)
    assert load(warm).n_trees == 9


# ---- what is refused ----


def refused(model: Any, match: str, kind: type[LoaderError] = UnsupportedModelError) -> None:
    loading.refused(model, match, kind)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "search": (
        lambda: GridSearchCV(DecisionTreeRegressor(), {"max_depth": [1, 2]}).fit(X_, Y_),
        "GridSearchCV: .*best_estimator_",
    ),
    "AdaBoostRegressor": (
        lambda: AdaBoostRegressor(n_estimators=3).fit(X_, Y_),
        "AdaBoostRegressor: .*weighted median.*estimators_ one by one",
    ),
    "AdaBoostClassifier": (
        lambda: AdaBoostClassifier(n_estimators=3).fit(X_, BINARY),
        "AdaBoostClassifier: .*vote.*estimators_ one by one",
    ),
    "VotingRegressor": (
        lambda: VotingRegressor([("a", DecisionTreeRegressor()), ("b", LinearRegression())]).fit(X_, Y_),
        "VotingRegressor: .*estimators_ one by one",
    ),
    "VotingClassifier": (
        lambda: VotingClassifier([("a", DecisionTreeClassifier())]).fit(X_, BINARY),
        "VotingClassifier: .*estimators_ one by one",
    ),
    "StackingRegressor": (
        lambda: StackingRegressor([("a", DecisionTreeRegressor())]).fit(X_, Y_),
        "StackingRegressor: .*estimators_ one by one",
    ),
    "MultiOutputRegressor": (
        lambda: MultiOutputRegressor(GradientBoostingRegressor(**SOME)).fit(X_, TWO),
        "MultiOutputRegressor: .*estimators_ one by one",
    ),
    "OneVsRestClassifier": (
        lambda: OneVsRestClassifier(DecisionTreeClassifier()).fit(X_, CLASSES),
        "OneVsRestClassifier: .*estimators_ one by one",
    ),
    "CalibratedClassifierCV": (
        lambda: CalibratedClassifierCV(DecisionTreeClassifier(max_depth=2)).fit(X_, BINARY),
        "CalibratedClassifierCV: .*calibrated_classifiers_",
    ),
    "TransformedTargetRegressor": (
        lambda: TransformedTargetRegressor(DecisionTreeRegressor()).fit(X_, Y_),
        "TransformedTargetRegressor: .*regressor_",
    ),
    "TunedThresholdClassifierCV": (
        lambda: TunedThresholdClassifierCV(DecisionTreeClassifier(max_depth=2)).fit(X_, BINARY),
        "TunedThresholdClassifierCV: .*estimator_",
    ),
    "RandomTreesEmbedding": (
        lambda: RandomTreesEmbedding(n_estimators=3).fit(X_),
        "RandomTreesEmbedding: .*predicts nothing",
    ),
    "LinearRegression": (
        lambda: LinearRegression().fit(X_, Y_),
        r"sklearn.*LinearRegression: it is none of DecisionTreeRegressor, .*IsolationForest",
    ),
    "bag of boosting": (
        lambda: BaggingRegressor(HistGradientBoostingRegressor(**HIST), 2).fit(X_, Y_),
        "a BaggingRegressor of HistGradientBoostingRegressor: .*estimators_features_",
    ),
    "bag of votes": (
        lambda: BaggingClassifier(DecisionTreeRegressor(**SMALL), 2).fit(X_, BINARY),
        "a BaggingClassifier of DecisionTreeRegressor: .*DecisionTreeClassifier",
    ),
    "bag of labels": (
        lambda: BaggingRegressor(DecisionTreeClassifier(**SMALL), 2).fit(X_, CLASSES),
        "a BaggingRegressor of DecisionTreeClassifier: .*DecisionTreeRegressor",
    ),
    "start from a model": (
        lambda: GradientBoostingRegressor(init=LinearRegression(), **SOME).fit(X_, Y_),
        "starts from a LinearRegression.*init=None",
    ),
    "start from draws": (
        lambda: GradientBoostingClassifier(init=DummyClassifier(strategy="stratified")).fit(X_, CLASSES),
        r"starts from a DummyClassifier \(stratified\)",
    ),
}


@pytest.mark.filterwarnings("ignore:The SAMME.R algorithm:FutureWarning")  # in 1.5
@pytest.mark.parametrize("kind", REFUSED)
def test_other_models_are_refused_by_name(kind: str) -> None:
    build, match = REFUSED[kind]
    refused(build(), match)


def test_models_before_fitting_are_refused() -> None:
    for model in (
        DecisionTreeRegressor(), RandomForestClassifier(), GradientBoostingRegressor(), IsolationForest(),
        HistGradientBoostingClassifier(), BaggingRegressor(),
    ):  # fmt: skip
        refused(model, f"the {type(model).__name__} is not fitted; call its fit", LoaderError)
    refused(
        make_pipeline(DecisionTreeRegressor()),
        "the last step of the Pipeline: the DecisionTreeRegressor is not fitted; call its fit",
        LoaderError,
    )
    refused(DecisionTreeRegressor, "cannot load a")


def test_old_releases_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("tree")
    monkeypatch.setattr(sklearn, "__version__", "1.4.2")
    refused(model, r"scikit-learn is 1\.4\.2; predgap loads models of 1\.5 on")


def test_models_that_lack_a_part_are_refused() -> None:
    for kind, part in (
        ("histograms", "_baseline_prediction"),
        ("boosting", "init_"),
        ("bag", "estimators_features_"),
        ("isolation", "max_samples_"),
        ("tree", "n_features_in_"),
    ):
        model = make(kind)
        del model.__dict__[part]
        refused(model, part, LoaderError)
    model = make("forest")
    model.estimators_ = []
    refused(model, "fit it again|Fit it again", LoaderError)
    model = make("histograms")
    model.feature_names_in_ = np.array(["a", "b", "a", "c"], dtype=object)
    refused(model, "'a' is given more than once", LoaderError)


def test_a_model_that_predicts_otherwise_is_refused() -> None:
    class Shifted(RandomForestRegressor):  # type: ignore[misc]
        def predict(self, X: Any) -> Any:
            return super().predict(X) * (1 + 1e-11)

    class Elsewhere(RandomForestRegressor):  # type: ignore[misc]
        def apply(self, X: Any) -> Any:
            return super().apply(X) + 1

    class Broken(RandomForestRegressor):  # type: ignore[misc]
        def predict(self, X: Any) -> Any:
            raise RuntimeError("no luck today")

    for kind, match in ((Shifted, "output 0"), (Elsewhere, "reaches leaf"), (Broken, "no luck today")):
        refused(kind(**SOME).fit(X_, Y_), match, LoaderError)


# ---- the check for libraries in double precision ----


def test_the_check_in_double_precision() -> None:
    stump = load(DecisionTreeRegressor(max_depth=1).fit(X_, Y_))

    def off_by(error: float, **options: Any) -> None:
        selfcheck.check(
            stump, library="mine", margins=lambda rows: stump.predict(rows) * (1 + error), **options
        )

    off_by(1e-13, double=True)
    off_by(1e-9)
    with pytest.raises(LoaderError, match="output 0"):
        off_by(1e-11, double=True)
    with pytest.raises(LoaderError, match="output 0"):
        off_by(1e-5)


def test_rows_of_the_check_have_no_missing_values_where_these_are_refused() -> None:
    ensemble = load(make("boosting"))
    rows = selfcheck.rows_at_thresholds(ensemble, takes_missing=False)
    assert np.isfinite(rows).all()
    assert (rows[1] == 0).all()
    assert np.isnan(selfcheck.rows_at_thresholds(ensemble)[0]).all()
    cuts = ensemble.threshold[ensemble.feature == 0].astype(np.float32)
    assert set(cuts) <= set(rows[:, 0])
