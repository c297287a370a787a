"""The scikit-learn loader against scikit-learn: every kind of model, one ulp around every threshold."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn import set_config
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
)

from assertions import assert_gaps_of_model
from conformance import PickleTests
from loading import rounds_to_single, rows_around_thresholds
from predgap._model.ensemble import LEAF, Ensemble
from predgap.errors import LoaderError, TableError
from predgap.loaders import load, translation
from predgap.loaders.translation import above
from sklearn_models import (
    ALL,
    BINARY,
    CLASSES,
    HIST,
    HOLES,
    KINDS,
    NEW_MISSING,
    NEWER,
    SMALL,
    SOME,
    X_,
    Y_,
    assert_agrees,
    make,
    mean_search_depth,
    refused,
    takes,
)

RELEASE = tuple(map(int, sklearn.__version__.split(".")[:2]))


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
    assert rounds_to_single(ensemble) != hist


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
        ("votes", 3),
        ("votes, two", 1),
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
    largest = ensemble.largest
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


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "AdaBoostRegressor": (
        lambda: AdaBoostRegressor(n_estimators=3).fit(X_, Y_),
        "AdaBoostRegressor: .*weighted median.*estimators_ one by one",
    ),
    "votes of no trees": (
        lambda: AdaBoostClassifier(LogisticRegression(), n_estimators=3).fit(X_, BINARY),
        "an AdaBoostClassifier of LogisticRegression: .*estimators_ one by one",
    ),
    "RandomTreesEmbedding": (
        lambda: RandomTreesEmbedding(n_estimators=3).fit(X_),
        "RandomTreesEmbedding: .*predicts nothing",
    ),
    "LinearRegression": (
        lambda: LinearRegression().fit(X_, Y_),
        r"^predgap explains tree ensembles; this is a LinearRegression\. .*TreeRegressor, .*IsolationForest",
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
    refused(DecisionTreeRegressor, "this is the class DecisionTreeRegressor")


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
        translation.check_predictions(
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
    rows = translation.rows_at_thresholds(ensemble, takes_missing=False)
    assert np.isfinite(rows).all()
    assert (rows[1] == 0).all()
    assert np.isnan(translation.rows_at_thresholds(ensemble)[0]).all()
    assert set(ensemble.threshold[ensemble.feature == 0]) <= set(rows[:, 0])
