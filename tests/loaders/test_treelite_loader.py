"""The treelite loader against treelite: every kind of split, leaf and output, and what it refuses."""

from __future__ import annotations

import time
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import treelite
import xgboost as xgb
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from treelite import gtil
from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

from conformance import ObjectTests
from loading import levels_of, rounds_to_single, rows_for
from predgap import Explainer, Normal
from predgap._model.ensemble import ALL_OUTPUTS, LEAF, Ensemble
from predgap.errors import LoaderError, TableError, UnsupportedModelError
from predgap.loaders import load
from predgap.loaders import treelite as loader
from predgap.loaders.translation import above

# ---- data and models ----


def make_data() -> tuple[np.ndarray, np.ndarray]:
    """Two columns of numbers, one of tenths, and one of categories whose order means nothing."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(240, 4))
    X[:, 1] = np.round(X[:, 1], 1)
    X[:, 3] = rng.integers(0, 7, 240)
    return X, X[:, 0] + X[:, 1] * X[:, 2] + np.array([0, 3, -2, 5, 1, -4, 2])[X[:, 3].astype(int)]


X_, Y_ = make_data()
HOLES = np.where(np.random.default_rng(6).random(X_.shape) < 0.15, np.nan, X_)
PRESENT_CODES = np.concatenate([HOLES[:, :3], X_[:, 3:]], axis=1)
CLASSES = np.digitize(Y_, [-1.5, 1.5])
SMALL = {"verbose": -1, "num_leaves": 8, "min_data_in_leaf": 3, "min_data_per_group": 2, "cat_smooth": 0.0}


def boosted(params: dict[str, Any], y: Any = Y_, X: Any = HOLES, categorical: bool = False) -> Any:
    kinds = {"feature_types": ["float"] * 3 + ["c"], "enable_categorical": True} if categorical else {}
    return treelite.frontend.from_xgboost(
        xgb.train({"max_depth": 4, "nthread": 1, **params}, xgb.DMatrix(X, y, **kinds), 5)
    )


def lightgbm(params: dict[str, Any], y: Any = Y_, **data: Any) -> Any:
    booster = lgb.train({**SMALL, "num_threads": 1, **params}, lgb.Dataset(HOLES, y, **data), 5)
    return treelite.frontend.from_lightgbm(booster)


def sklearn_model(estimator: Any, y: Any = Y_, X: Any = X_) -> Any:
    return treelite.sklearn.import_model(estimator.fit(X, y))


FOREST: dict[str, Any] = {"n_estimators": 4, "max_depth": 4, "random_state": 0}
TWO = np.stack([Y_, X_[:, 0]], axis=1)
MODELS = {
    "xgboost": lambda: boosted({}),
    "xgboost classes": lambda: boosted({"objective": "multi:softprob", "num_class": 3}, CLASSES),
    "xgboost binary": lambda: boosted({"objective": "binary:logistic", "base_score": 0.2}, Y_ > 0),
    "xgboost targets": lambda: boosted({}, TWO),
    "xgboost vector leaves": lambda: boosted({"multi_strategy": "multi_output_tree"}, TWO),
    "xgboost dart": lambda: boosted({"booster": "dart", "rate_drop": 0.5}),
    "xgboost partitions": lambda: boosted({"max_cat_to_onehot": 1}, categorical=True),
    "xgboost one-hot": lambda: boosted({"max_cat_to_onehot": 99}, categorical=True),
    "lightgbm": lambda: lightgbm({}),
    "lightgbm forest": lambda: lightgbm({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}),
    "lightgbm classes": lambda: lightgbm({"objective": "multiclass", "num_class": 3}, CLASSES),
    "lightgbm categories": lambda: lightgbm({}, categorical_feature=[3]),
    "forest": lambda: sklearn_model(RandomForestRegressor(**FOREST)),
    "forest of targets": lambda: sklearn_model(RandomForestRegressor(**FOREST), TWO),
    "forest of classes": lambda: sklearn_model(RandomForestClassifier(**FOREST), CLASSES),
    "forest of targets and classes": lambda: sklearn_model(
        RandomForestClassifier(**FOREST), np.stack([CLASSES, Y_ > 0], axis=1)
    ),
    "gradient boosting": lambda: sklearn_model(GradientBoostingClassifier(n_estimators=3), CLASSES),
    "histograms": lambda: sklearn_model(
        HistGradientBoostingRegressor(max_iter=3, max_leaf_nodes=8, categorical_features=[3]), X=PRESENT_CODES
    ),
    "histograms of classes": lambda: sklearn_model(
        HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=6), CLASSES
    ),
    "isolation": lambda: sklearn_model(IsolationForest(n_estimators=4, random_state=0)),
}
CATEGORICAL = {"xgboost partitions", "xgboost one-hot", "lightgbm categories", "histograms"}


# ---- what must agree ----


def assert_agrees(model: Any, ensemble: Ensemble, *, padded: list[int] | None = None) -> None:
    rows = rows_for(ensemble)
    given = rows.astype(model.input_type)
    theirs = gtil.predict(model, given, pred_margin=True).reshape(len(rows), -1).astype(np.float64)
    if padded:
        theirs = np.delete(theirs, padded, axis=1)
    mine = ensemble.predict(rows).reshape(len(rows), -1)
    error = 1e-12 if model.input_type == "float64" else 1e-6
    size = np.abs(ensemble.value).max() * ensemble.n_trees + np.abs(ensemble.bias).max()
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=error * size)
    np.testing.assert_array_equal(ensemble.leaves(rows) - ensemble.root, gtil.predict_leaf(model, given))


class TestObjects(ObjectTests):
    """treelite has files, but none that are safe to open."""

    models = MODELS

    def assert_agrees(self, model: Any, ensemble: Ensemble) -> None:
        several = model is self.model("forest of targets and classes")
        assert_agrees(model, ensemble, padded=[5] if several else None)

    def test_what_is_known_of_a_model(self, name: str) -> None:
        ensemble = load(self.model(name))
        assert list(ensemble.categorical()) == ([3] if name in CATEGORICAL else [])
        assert rounds_to_single(ensemble) == ("xgboost" in name)
        assert ensemble.source.startswith("treelite 4.")


def test_outputs_are_the_classes_of_one_target_after_the_other() -> None:
    ensemble = load(MODELS["forest of targets and classes"]())
    assert ensemble.n_outputs == 5
    assert (ensemble.target == ALL_OUTPUTS).all()
    total = ensemble.predict(X_)
    np.testing.assert_allclose(total[:, :3].sum(axis=1), 1.0)
    np.testing.assert_allclose(total[:, 3:].sum(axis=1), 1.0)


def test_margins_are_those_of_xgboost() -> None:
    booster = xgb.train({"max_depth": 3, "objective": "binary:logistic"}, xgb.DMatrix(X_, Y_ > 0), 4)
    ensemble = load(treelite.frontend.from_xgboost(booster))
    theirs = booster.predict(xgb.DMatrix(X_), output_margin=True)
    np.testing.assert_allclose(ensemble.predict(X_), theirs, rtol=1e-5)


def test_gaps_are_those_of_the_model_itself() -> None:
    booster = xgb.train({"max_depth": 4, "nthread": 1}, xgb.DMatrix(HOLES, Y_), 5)
    through, straight = load(treelite.frontend.from_xgboost(booster)), load(booster)
    for subset in ([0], [1, 2], [0, 1, 2, 3]):
        gaps = [Explainer(ensemble, Normal(0.3)).gap(HOLES[:5], subset) for ensemble in (through, straight)]
        np.testing.assert_allclose(gaps[0], gaps[1], rtol=1e-12)


# ---- models built by hand ----


def build(
    *,
    operator: str = "<",
    threshold: float = 0.5,
    default_left: bool = True,
    leaves: tuple[Any, ...] = (1.0, 2.0),
    trees: tuple[tuple[int, int], ...] = ((0, 0),),
    num_class: tuple[int, ...] = (1,),
    shape: tuple[int, int] = (1, 1),
    base: tuple[float, ...] = (0.0,),
    average: bool = False,
    kind: str = "float32",
    categories: tuple[list[int], bool] | None = None,
    more: Any = None,
) -> Any:
    """Stumps with the same split, one for each pair of target and class."""
    builder = ModelBuilder(
        threshold_type=kind,
        leaf_output_type=kind,
        metadata=Metadata(2, "kRegressor", average, len(num_class), list(num_class), shape),
        tree_annotation=TreeAnnotation(len(trees), [t for t, _ in trees], [c for _, c in trees]),
        postprocessor=PostProcessorFunc(name="identity"),
        base_scores=list(base),
    )
    for scale in range(1, len(trees) + 1):
        builder.start_tree()
        builder.start_node(0)
        ways = {"default_left": default_left, "left_child_key": 1, "right_child_key": 2}
        if categories is None:
            builder.numerical_test(feature_id=0, threshold=threshold, opname=operator, **ways)
        else:
            builder.categorical_test(
                feature_id=0, category_list=categories[0], category_list_right_child=categories[1], **ways
            )
        builder.end_node()
        for key, value in zip((1, 2), leaves, strict=True):
            builder.start_node(key)
            if more is not None and key == 1:
                builder.numerical_test(
                    feature_id=0,
                    threshold=1.0,
                    opname="<",
                    default_left=True,
                    left_child_key=3,
                    right_child_key=4,
                )
            else:
                builder.leaf(value if isinstance(value, float) else [v * scale for v in value])
            builder.end_node()
        for key in (3, 4) if more is not None else ():
            builder.start_node(key)
            builder.leaf(float(key))
            builder.end_node()
        builder.end_tree()
    return builder.commit()


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("default_left", [False, True])
@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("threshold", [0.5, 0.1, -0.0, 3.4028234663852886e38, np.inf, -np.inf])
def test_every_comparison(operator: str, threshold: float, default_left: bool, kind: str) -> None:
    if np.isinf(threshold):  # the builder does not take these, but models of LightGBM have them
        model = build(operator=operator, default_left=default_left, kind=kind)
        model.get_tree_accessor(0).set_field("threshold", np.array([threshold, 0, 0], dtype=kind))
    else:
        model = build(operator=operator, threshold=threshold, default_left=default_left, kind=kind)
    ensemble = load(model)
    # x < inf holds for all but inf, which no finite threshold says
    assert ensemble.accepts_infinity or np.isinf(threshold)
    step = np.dtype(kind).type
    near = step(threshold)
    with np.errstate(over="ignore"):
        values = [near, np.nextafter(near, step(9)), np.nextafter(near, step(-9)), 0, 1, -1, np.nan]
    values = [v for v in values if ensemble.accepts_infinity or not np.isinf(v)]
    rows = np.array([[v, 0] for v in values], dtype=kind)
    np.testing.assert_array_equal(ensemble.predict(rows), gtil.predict(model, rows).ravel())


@pytest.mark.parametrize("default_left", [False, True])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("codes", [[], [0], [5, 2, 3], [0, 31, 32, 70000]])
def test_every_categorical_split(codes: list[int], right: bool, default_left: bool) -> None:
    model = build(categories=(codes, right), default_left=default_left)
    ensemble = load(model)
    values = [*codes, 1, 4, 99, -1, 1e9, np.nan]
    rows = np.array([[v, 0] for v in values], dtype=np.float32)
    np.testing.assert_array_equal(ensemble.predict(rows), gtil.predict(model, rows).ravel())
    assert levels_of(ensemble) == {0: {code: code for code in codes}}
    with pytest.raises(TableError, match="categorical: expected a whole number"):
        ensemble.predict([[0.5, 0.0]])


OUTPUTS: dict[str, dict[str, Any]] = {
    "one class each": {"trees": ((0, 0), (0, 1), (0, 1)), "num_class": (2,), "base": (1.0, 2.0)},
    "one target each": {"trees": ((1, 0), (0, 0)), "num_class": (1, 1), "base": (1.0, 2.0)},
    "all classes": {
        "trees": ((0, -1), (0, -1)),
        "num_class": (2,),
        "shape": (1, 2),
        "leaves": ([1.0, 2.0], [3.0, 4.0]),
        "base": (1.0, 2.0),
    },
    "all targets": {
        "trees": ((-1, 0), (-1, 1), (-1, 1)),
        "num_class": (2, 2),
        "shape": (2, 1),
        "leaves": ([1.0, 2.0], [3.0, 4.0]),
        "base": (1.0, 2.0, 3.0, 4.0),
    },
    "classes of one target": {
        "trees": ((0, -1), (1, -1), (1, -1)),
        "num_class": (2, 3),
        "shape": (1, 3),
        "leaves": ([1.0, 2.0, 0.0], [3.0, 4.0, 5.0]),
        "base": (1.0, 2.0, 0.0, 4.0, 5.0, 6.0),
    },
    "all": {
        "trees": ((-1, -1), (-1, -1)),
        "num_class": (1, 2),
        "shape": (2, 2),
        "leaves": ([1.0, 0.0, 3.0, 4.0], [5.0, 0.0, 7.0, 8.0]),
        "base": (1.0, 0.0, 3.0, 4.0),
    },
    "a vector of one": {"leaves": ([1.0], [2.0]), "trees": ((0, 0), (0, 0))},
}
PADDED = {"classes of one target": [2], "all": [1]}


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("name", OUTPUTS)
def test_every_kind_of_output(name: str, average: bool) -> None:
    model = build(**OUTPUTS[name], average=average)
    ensemble = load(model)
    assert_agrees(model, ensemble, padded=PADDED.get(name))
    assert len(set(map(tuple, ensemble.predict([[0.0, 0], [1.0, 0]]).reshape(2, -1)))) == 2


def test_a_model_of_leaves_only() -> None:
    estimator = RandomForestRegressor(n_estimators=2).fit(X_, np.full(len(X_), 3.0))
    ensemble = load(treelite.sklearn.import_model(estimator))
    assert (ensemble.feature == LEAF).all()
    np.testing.assert_array_equal(ensemble.predict(X_[:2]), [3.0, 3.0])


def test_concatenated_models() -> None:
    model = treelite.Model.concatenate([MODELS["xgboost"](), MODELS["xgboost partitions"]()])
    with pytest.raises(
        UnsupportedModelError, match="feature 3 is compared with a threshold in one split and"
    ):
        load(model)
    model = treelite.Model.concatenate([MODELS["xgboost"](), MODELS["xgboost"]()])
    assert_agrees(model, load(model))


def test_a_thousand_trees_load_within_seconds() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    params = {"max_depth": 8, "tree_method": "hist", "max_bin": 16, "nthread": 1}
    booster = xgb.train(params, xgb.DMatrix(X, rng.normal(size=3000)), 20)
    model = treelite.Model.concatenate([treelite.frontend.from_xgboost(booster)] * 50)
    load(model)
    start = time.process_time()
    assert load(model).n_trees == 1000
    assert time.process_time() - start < 2.0  # far below that, but machines differ


# ---- what is refused ----


def test_equality_is_refused_by_name() -> None:
    with pytest.raises(
        UnsupportedModelError, match="splits with the comparison ==; predgap handles <, <=, >"
    ):
        load(build(operator="=="))


def test_categories_that_rows_cannot_hold_are_refused_by_name() -> None:
    """2^24 is rounded to itself in float32, but 2^24 + 1 is rounded to it, too."""
    assert levels_of(load(build(categories=([2**24 - 1], False)))) == {0: {2**24 - 1: 2**24 - 1}}
    with pytest.raises(UnsupportedModelError, match=r"whole numbers from 0 to 16777215 in rows of float32"):
        load(build(categories=([2**24], False)))
    with pytest.raises(UnsupportedModelError, match=r"equals 4.29497e\+09; predgap handles categories"):
        load(build(categories=([2**32 - 1], False), kind="float64"))


def test_a_feature_of_two_kinds_is_refused_by_name() -> None:
    with pytest.raises(
        UnsupportedModelError, match="feature 0 is compared with a threshold in one split and"
    ):
        load(build(categories=([1], False), more=True))


def test_an_average_of_nothing_is_refused_by_name() -> None:
    with pytest.raises(
        UnsupportedModelError, match="output 1 of the treelite model is an average of no trees"
    ):
        load(build(num_class=(2,), base=(0.0, 0.0), average=True))


def test_damaged_objects_are_refused() -> None:
    with pytest.raises(LoaderError, match="the treelite model cannot be read"):
        load(treelite.Model())
    for field, values, says in (
        ("cleft", [7, -1, -1], "a child outside its tree"),
        ("cleft", [0, -1, -1], "a child outside its tree"),
        ("cright", [1, -1, -1], "node 1 is reached in 2 ways"),
        ("split_index", [2, -1, -1], r"a split feature outside 0 ... 1"),
        ("threshold", [np.nan, 0, 0], "a threshold that is not finite"),
        ("leaf_value", [0, np.inf, 0], "a leaf value that is not finite"),
        ("node_type", [3, 0, 0], "nodes of type 3"),
    ):
        model = build()
        accessor = model.get_tree_accessor(0)
        accessor.set_field(field, np.array(values, dtype=accessor.get_field(field).dtype))
        with pytest.raises(LoaderError, match=says):
            load(model)


def test_another_version_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_MAJOR_VERSION", 5)
    with pytest.raises(UnsupportedModelError, match="made by treelite 4; predgap knows treelite 5"):
        load(build())


@pytest.mark.parametrize("what", ["predict", "predict_leaf"])
def test_a_disagreement_is_refused(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = getattr(gtil, what)
    monkeypatch.setattr(gtil, what, lambda *args, **options: honest(*args, **options) + 1)
    with pytest.raises(LoaderError, match="the load disagrees with treelite"):
        load(build())


def test_the_smallest_number_above() -> None:
    values = np.array([0.1, 0.5, 3.4028234663852886e38, -np.inf, np.inf])
    for kind in (np.float32, np.float64):
        found = above(values, kind)
        assert (found > values)[:-1].all()
        with np.errstate(over="ignore"):
            assert (np.nextafter(found.astype(kind), kind(-np.inf)).astype(float) <= values).all()
    assert above(values, np.float32)[2] == np.nextafter(values[2], np.inf)
