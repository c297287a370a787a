"""The ONNX loader against onnxruntime: converted models, and graphs built by hand."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import onnx
import onnxruntime as ort
import pytest
import xgboost as xgb
from onnx import TensorProto, helper
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from loading import assert_same, levels_of, rounds_to_single, rows_for
from onnx_models import CAST_DOWN, ML, TYPES, assert_scores, classifier, general, graph, run, stump, tensor
from predgap._model.ensemble import ALL_OUTPUTS
from predgap.errors import LoaderError, TableError, UnsupportedModelError
from predgap.loaders import load
from predgap.loaders import onnx as loader

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import onnxmltools
    import skl2onnx
    from onnxmltools.convert.common.data_types import FloatTensorType as OtherFloatTensorType
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType


# ---- converted models ----


def make_data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 4))
    X[:, 1] = np.round(X[:, 1], 1)
    X[:, 3] = rng.integers(0, 7, 200)
    X = X.astype(np.float32)
    return X, X[:, 0] + X[:, 1] * X[:, 2] + np.array([0, 3, -2, 5, 1, -4, 2])[X[:, 3].astype(int)]


X_, Y_ = make_data()
HOLES = np.where(np.random.default_rng(6).random(X_.shape) < 0.15, np.nan, X_)
CLASSES = np.digitize(Y_, [-1.5, 1.5])
BINARY = (Y_ > 0).astype(int)
FOREST: dict[str, Any] = {"n_estimators": 4, "max_depth": 4, "random_state": 0}
XGB: dict[str, Any] = {"n_estimators": 4, "max_depth": 3, "n_jobs": 1}
LGB: dict[str, Any] = {"n_estimators": 4, "num_leaves": 6, "n_jobs": 1, "verbose": -1, "min_child_samples": 3}


def converted(estimator: Any, kind: type = FloatTensorType) -> Any:
    package = type(estimator).__module__.partition(".")[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if package == "sklearn":
            types = [("X", kind([None, 4]))]
            return skl2onnx.to_onnx(estimator, initial_types=types, target_opset={"": 15, ML: 3})
        convert = onnxmltools.convert_xgboost if package == "xgboost" else onnxmltools.convert_lightgbm
        return convert(estimator, initial_types=[("X", OtherFloatTensorType([None, 4]))])


CONVERTED: dict[str, Any] = {
    "tree": lambda: DecisionTreeRegressor(max_depth=4).fit(X_, Y_),
    "tree of two classes": lambda: DecisionTreeClassifier(max_depth=4).fit(X_, BINARY),
    "forest": lambda: RandomForestRegressor(**FOREST).fit(X_, Y_),
    "forest of targets": lambda: ExtraTreesRegressor(**FOREST).fit(X_, np.stack([Y_, X_[:, 0]], axis=1)),
    "forest of two classes": lambda: RandomForestClassifier(**FOREST).fit(X_, BINARY),
    "forest of classes": lambda: RandomForestClassifier(**FOREST).fit(X_, CLASSES),
    "boosting": lambda: GradientBoostingRegressor(n_estimators=4).fit(X_, Y_),
    "boosting of two classes": lambda: GradientBoostingClassifier(n_estimators=4).fit(X_, BINARY),
    "boosting of classes": lambda: GradientBoostingClassifier(n_estimators=4).fit(X_, CLASSES),
    "xgboost": lambda: xgb.XGBRegressor(**XGB).fit(HOLES, Y_),
    "xgboost of two classes": lambda: xgb.XGBClassifier(**XGB).fit(HOLES, BINARY),
    "xgboost of classes": lambda: xgb.XGBClassifier(**XGB).fit(HOLES, CLASSES),
    "lightgbm": lambda: lgb.LGBMRegressor(**LGB).fit(HOLES, Y_),
    "lightgbm of two classes": lambda: lgb.LGBMClassifier(**LGB).fit(HOLES, BINARY),
    "lightgbm of classes": lambda: lgb.LGBMClassifier(**LGB).fit(HOLES, CLASSES),
    "lightgbm categories": lambda: lgb.LGBMRegressor(**LGB, min_data_per_group=2, cat_smooth=0.0).fit(
        HOLES, Y_, categorical_feature=[3]
    ),
}


@pytest.mark.parametrize("name", CONVERTED)
def test_converted_models_agree_with_onnxruntime(name: str, tmp_path: Path) -> None:
    """The model as it was converted, with all of its nodes; margins after the inverse of its transform."""
    model = converted(CONVERTED[name]())
    for node in model.graph.node:  # margins are what is asked for
        for attribute in node.attribute:
            if attribute.name == "post_transform":
                attribute.s = b"NONE"
    ensemble = load(model)
    rows = rows_for(ensemble)
    theirs = run(model, rows)[-1]
    if isinstance(theirs, list):  # a ZipMap
        theirs = np.array([list(row.values()) for row in theirs])
    if "two classes" in name:
        assert ensemble.n_outputs == 1
        theirs = theirs[:, 1]
    assert_scores(ensemble, rows, theirs)
    assert list(ensemble.categorical()) == ([3] if name == "lightgbm categories" else [])
    assert rounds_to_single(ensemble)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    assert_same(load(path), ensemble)
    assert_same(load(str(path)), ensemble)


@pytest.mark.parametrize("name", ["xgboost of two classes", "boosting of classes", "lightgbm of two classes"])
def test_transforms_are_left_out(name: str) -> None:
    """The margin, put through the transform, is what the model says."""
    model = converted(CONVERTED[name]())
    ensemble = load(model)
    rows = X_[:50]
    margin = ensemble.predict(rows)
    scores = run(model, rows)[-1]
    scores = np.array([list(s.values()) for s in scores]) if isinstance(scores, list) else scores
    if ensemble.n_outputs == 1:
        np.testing.assert_allclose(1 / (1 + np.exp(-margin)), scores[:, 1], rtol=1e-5)
    else:
        odds = np.exp(margin)
        np.testing.assert_allclose(odds / odds.sum(axis=1, keepdims=True), scores, rtol=1e-5)


def test_a_forest_of_two_classes_gives_the_probability_of_the_second() -> None:
    forest = RandomForestClassifier(**FOREST).fit(X_, BINARY)
    ensemble = load(converted(forest))
    np.testing.assert_allclose(ensemble.predict(X_), forest.predict_proba(X_)[:, 1], rtol=1e-5, atol=1e-7)


def test_double_rows() -> None:
    model = converted(RandomForestRegressor(**FOREST).fit(X_, Y_), DoubleTensorType)
    ensemble = load(model)
    assert not rounds_to_single(ensemble)
    rows = rows_for(ensemble)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT  # the converter has it wrong
    assert_scores(ensemble, rows, run(model, rows)[-1])


def test_an_isolation_forest_is_refused_by_name() -> None:
    forest = IsolationForest(n_estimators=2).fit(X_)
    model = skl2onnx.to_onnx(forest, X_[:1], target_opset={"": 15, ML: 3})
    with pytest.raises(
        UnsupportedModelError, match=r"has 2 nodes with trees among its \d+; predgap explains"
    ):
        load(model)


# ---- graphs built by hand ----

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"]


def values_around(threshold: float, kind: Any) -> list[Any]:
    near = kind(threshold)
    with np.errstate(over="ignore"):
        return [near, np.nextafter(near, kind(np.inf)), np.nextafter(near, kind(-np.inf)), 0, 2, -2, np.nan]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("tracks", [None, 0, 1])
@pytest.mark.parametrize("value", [0.5, float(np.float32(0.1)), 3.4028234663852886e38, np.inf, -np.inf])
def test_every_mode(mode: str, kind: Any, tracks: int | None, value: float) -> None:
    missing = None if tracks is None else [tracks, 0, 0, 0, 0, 0]
    old = graph(stump(mode, value, nodes_missing_value_tracks_true=missing), given=TYPES[kind])
    modes = tensor([MODES.index(mode)] * 2, np.uint8)
    new = graph(
        general(
            kind,
            nodes_splits=tensor([value, 1.5], kind),
            nodes_modes=modes,
            nodes_missing_value_tracks_true=None if missing is None else missing[:2],
        ),
        given=TYPES[kind],
    )
    for model in (old, new):
        ensemble = load(model)
        assert ensemble.accepts_infinity or np.isinf(value)
        values = [v for v in values_around(value, kind) if ensemble.accepts_infinity or not np.isinf(v)]
        rows = np.array(list(itertools.product(values, [1.5, 1.6, np.nan])), dtype=kind)
        np.testing.assert_array_equal(ensemble.predict(rows), run(model, rows)[-1].ravel())


def test_modes_may_differ_within_a_model() -> None:
    modes = ["BRANCH_GT", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"]
    model = graph(stump(nodes_modes=modes))
    ensemble = load(model)
    rows = rows_for(ensemble)
    assert_scores(ensemble, rows, run(model, rows)[-1])


def test_doubles_in_tensors() -> None:
    model = graph(
        stump(
            nodes_values=None,
            target_weights=None,
            nodes_values_as_tensor=tensor([0.1, 0, 0, 1.5, 0, 0]),
            target_weights_as_tensor=tensor([0.1, 0.2, 10, 20]),
            base_values_as_tensor=tensor([0.3]),
        ),
        given=TensorProto.DOUBLE,
    )
    ensemble = load(model)
    assert ensemble.value[1] == 0.1  # no single
    assert ensemble.bias == [0.3]
    rows = np.array([[v, 1.0] for v in values_around(0.1, np.float64)])
    np.testing.assert_allclose(ensemble.predict(rows), run(model, rows)[-1].ravel(), rtol=1e-6)


def test_tensors_as_lists_of_numbers() -> None:
    """The other way that tensors are written: not as raw bytes."""
    plain = graph(general())
    listed = graph(
        general(
            nodes_splits=helper.make_tensor("s", TensorProto.FLOAT, [2], [0.5, 1.5]),
            nodes_modes=helper.make_tensor("m", TensorProto.UINT8, [2], [0, 0]),
            leaf_weights=helper.make_tensor("w", TensorProto.FLOAT, [4], [1.0, 2.0, 10.0, 20.0]),
        )
    )
    assert_same(load(listed), load(plain))


CAST_UP = helper.make_node("Cast", ["X"], ["wide"], to=TensorProto.DOUBLE)


@pytest.mark.parametrize(
    ("given", "before", "row_dtype"),
    [
        (TensorProto.FLOAT, (), np.float32),
        (TensorProto.DOUBLE, (), np.float64),
        (TensorProto.DOUBLE, (CAST_DOWN,), np.float32),
        (TensorProto.FLOAT, (CAST_UP,), np.float32),
        (TensorProto.FLOAT, (helper.make_node("Identity", ["X"], ["same"]),), np.float32),
        (
            TensorProto.DOUBLE,
            (CAST_DOWN, helper.make_node("Cast", ["narrow"], ["wide"], to=TensorProto.DOUBLE)),
            np.float32,
        ),
    ],
)
def test_rows_are_as_narrow_as_the_narrowest_cast(given: int, before: Any, row_dtype: Any) -> None:
    model = graph(stump(value=0.1), given=given, before=before)
    ensemble = load(model)
    assert rounds_to_single(ensemble) == (row_dtype == np.float32)
    kind = np.float32 if given == TensorProto.FLOAT else np.float64
    values = [0.1, np.float32(0.1), *values_around(np.float32(0.1), np.float64), 0.1 + 1e-9, 0.1 - 1e-9]
    rows = np.array([[v, 1.0] for v in values], dtype=kind)
    np.testing.assert_array_equal(ensemble.predict(rows), run(model, rows)[-1].ravel())


def test_what_only_passes_values_on_is_passed_over() -> None:
    after = (
        helper.make_node("Identity", ["Y"], ["same"]),
        helper.make_node("Cast", ["same"], ["scores"], to=TensorProto.FLOAT),
    )
    assert_same(load(graph(stump(), after=after)), load(graph(stump())))


@pytest.mark.parametrize("shape", [(None, None), None, ("rows", "columns"), (None, 0)])
def test_an_open_number_of_features_ends_with_the_last_that_is_used(shape: Any) -> None:
    assert load(graph(stump(), shape=shape)).n_features == 2
    assert load(graph(stump(), shape=(None, 7))).n_features == 7


@pytest.mark.parametrize(("shape", "n_features"), [((None, 3), 3), ((None, None), 1)])
def test_a_tree_of_one_leaf(shape: Any, n_features: int) -> None:
    nodes = {name: values[:1] for name, values in stump("LEAF").items() if name.startswith("nodes_")}
    weights = {"target_treeids": [0], "target_nodeids": [0], "target_ids": [0], "target_weights": [3.0]}
    ensemble = load(graph(stump(**nodes, **weights), shape=shape))
    assert ensemble.n_features == n_features
    np.testing.assert_array_equal(ensemble.predict(np.zeros((2, n_features))), [3.0, 3.0])


# ---- targets and classes ----

REGRESSORS: dict[str, dict[str, Any]] = {
    "base": {"base_values": [5.0]},
    "average": {"base_values": [5.0], "aggregate_function": "AVERAGE"},
    "sum": {"aggregate_function": "SUM"},
    "a target per tree": {"n_targets": 2, "target_ids": [1, 1, 0, 0], "base_values": [1.0, 2.0]},
    "a target per leaf": {"n_targets": 2, "target_ids": [1, 0, 0, 1], "aggregate_function": "AVERAGE"},
    "several targets in a leaf": {
        "n_targets": 3,
        "target_treeids": [0, 0, 0, 1, 1],
        "target_nodeids": [1, 1, 2, 1, 2],
        "target_ids": [0, 2, 2, 1, 1],
        "target_weights": [1.0, 2.0, 3.0, 4.0, 5.0],
        "base_values": [0.0, 2.0, 3.0],
    },
    "a leaf without weight": {
        "target_treeids": [0, 1],
        "target_nodeids": [2, 1],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
        "base_values": [5.0],
    },
    "a weight that is not at a leaf": {
        "target_treeids": [0, 0, 0, 1, 1],
        "target_nodeids": [0, 1, 2, 1, 2],
        "target_ids": [0, 0, 0, 0, 0],
        "target_weights": [7.0, 1.0, 2.0, 3.0, 4.0],
    },
    "any numbers": {
        "nodes_treeids": [7, 7, 7, 2, 2, 2],
        "nodes_nodeids": [4, 0, 1, 5, 3, 1],
        "nodes_truenodeids": [1, 0, 0, 1, 0, 0],
        "nodes_falsenodeids": [0, 0, 0, 3, 0, 0],
        "target_treeids": [7, 2, 7, 2],
        "target_nodeids": [0, 1, 1, 3],
    },
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_targets(name: str) -> None:
    model = graph(stump(**REGRESSORS[name]))
    ensemble = load(model)
    rows = rows_for(ensemble)
    theirs = run(model, rows)[-1]
    assert theirs.shape[1] == ensemble.n_outputs
    assert_scores(ensemble, rows, theirs)
    vectors = name in ("a target per leaf", "several targets in a leaf")
    assert (ensemble.target == ALL_OUTPUTS).all() == vectors


GENERAL: dict[str, dict[str, Any]] = {
    "average": {"aggregate_function": 0},
    "sum": {"aggregate_function": 1, "post_transform": 1},
    "a target per leaf": {"n_targets": 2, "leaf_targetids": [1, 0, 0, 1]},
    "a target per tree": {"n_targets": 3, "leaf_targetids": [2, 2, 0, 0]},
    "a leaf of two nodes": {"nodes_falsenodeids": [1, 1]},
    "deeper": {"nodes_falsenodeids": [1, 3], "nodes_falseleafs": [0, 1], "tree_roots": [0]},
    "a tree of one leaf": {"nodes_truenodeids": [0, 1], "nodes_falsenodeids": [0, 1]},
}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", GENERAL)
def test_the_newest_operator(name: str, kind: Any) -> None:
    model = graph(general(kind, **{**GENERAL[name], "post_transform": 0}), given=TYPES[kind])
    ensemble = load(graph(general(kind, **GENERAL[name]), given=TYPES[kind]))
    rows = rows_for(ensemble)
    assert_scores(ensemble, rows, run(model, rows)[-1], 1e-12 if kind is np.float64 else 1e-6)
    assert ensemble.source == "ONNX TreeEnsemble by a test"


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("labels", [(0, 1), (5, -3), ("no", "yes")])
@pytest.mark.parametrize(("class_ids", "base"), [([0], None), ([0], [0.25]), ([1], None), ([0, 1], None)])
def test_two_classes(class_ids: list[int], base: Any, labels: Any, sign: float) -> None:
    attributes = classifier(class_ids, labels)
    attributes["class_weights"] = [abs(w) * sign for w in attributes["class_weights"]]
    if base:
        attributes["base_values"] = base
    model = graph(attributes)
    ensemble = load(model)
    rows = rows_for(ensemble)
    theirs = run(graph(attributes), rows)[-1]
    if len(class_ids) == 1:
        assert ensemble.n_outputs == 1
        theirs = theirs[:, 1]
    assert_scores(ensemble, rows, theirs)


@pytest.mark.parametrize(
    ("class_ids", "labels", "base"),
    [
        ([0], (3,), None),
        ([0], (3,), [0.5]),
        ([0, 1, 2], (0, 1, 2), None),
        ([0, 1, 2], (0, 1, 2), [1.0, 2.0, 3.0]),
        ([2], ("a", "b", "c"), [1.0, 2.0, 3.0]),
    ],
)
def test_other_numbers_of_classes(class_ids: list[int], labels: Any, base: Any) -> None:
    attributes = classifier(class_ids, labels) | ({"base_values": base} if base else {})
    model = graph(attributes)
    ensemble = load(model)
    rows = rows_for(ensemble)
    assert ensemble.n_outputs == len(labels)
    assert_scores(ensemble, rows, run(model, rows)[-1])


@pytest.mark.parametrize(("class_ids", "base"), [([0], [1.0, 2.0]), ([1], [1.0]), ([0, 1], [1.0, 2.0])])
def test_base_values_that_runtimes_add_differently_are_refused_by_name(class_ids: Any, base: Any) -> None:
    with pytest.raises(UnsupportedModelError, match="runtimes disagree about what these are added to"):
        load(graph(classifier(class_ids, base_values=base)))


# ---- categories ----


@pytest.mark.parametrize("tracks", [0, 1])
@pytest.mark.parametrize("codes", [[0, 1, 3], [5], [2, 40, 1000]])
def test_sets_of_members_are_categories(codes: list[int], tracks: int) -> None:
    members = tensor([*codes, np.nan], np.float32)
    model = graph(
        general(
            nodes_modes=tensor([6, 0], np.uint8),
            membership_values=members,
            nodes_missing_value_tracks_true=[tracks, 0],
        )
    )
    ensemble = load(model)
    assert levels_of(ensemble) == {0: {code: code for code in codes}}
    rows = rows_for(ensemble)
    assert_scores(ensemble, rows, run(model, rows)[-1])
    with pytest.raises(TableError, match="categorical: expected a whole number"):
        ensemble.predict([[0.5, 0.0]])


@pytest.mark.parametrize("tracks", [(0, 0, 0), (1, 1, 1), (0, 1, 0)])
def test_chains_of_equalities_are_sets(tracks: tuple[int, ...]) -> None:
    """3, 0 and 9 go to one leaf, by a chain of nodes that share it; another chain has its own leaves."""
    model = graph(
        {
            "nodes_treeids": [0] * 5 + [1] * 5,
            "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2, 3, 4],
            "nodes_featureids": [0] * 10,
            "nodes_modes": ["BRANCH_EQ"] * 3 + ["LEAF"] * 2 + ["BRANCH_EQ"] * 2 + ["LEAF"] * 3,
            "nodes_values": [3.0, 0.0, 9.0, 0.0, 0.0, 4.0, 3.0, 0.0, 0.0, 0.0],
            "nodes_truenodeids": [3, 3, 3, 0, 0, 2, 3, 0, 0, 0],
            "nodes_falsenodeids": [1, 2, 4, 0, 0, 1, 4, 0, 0, 0],
            "nodes_missing_value_tracks_true": [*tracks, 0, 0, 0, 1, 0, 0, 0],
            "target_treeids": [0, 0, 1, 1, 1],
            "target_nodeids": [3, 4, 2, 3, 4],
            "target_ids": [0] * 5,
            "target_weights": [1.0, 2.0, 10.0, 20.0, 30.0],
            "n_targets": 1,
        },
        shape=(None, 1),
    )
    ensemble = load(model)
    assert levels_of(ensemble) == {0: {code: code for code in (0, 3, 4, 9)}}
    rows = np.array([[0], [1], [3], [4], [9], [10], [-1], [np.nan]], dtype=np.float32)
    np.testing.assert_array_equal(ensemble.predict(rows), run(model, rows)[-1].ravel())


# ---- with and without packages ----


def test_an_onnxruntime_without_the_operator_checks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = ort.capi.onnxruntime_pybind11_state.NotImplemented
    asked = []

    def session(*_: Any, **__: Any) -> Any:
        asked.append(True)
        raise kind("no implementation for TreeEnsemble(5)")

    monkeypatch.setattr(ort, "InferenceSession", session)
    assert load(graph(general())).n_trees == 2
    assert asked
    monkeypatch.setattr(ort, "InferenceSession", lambda *_, **__: 1 / 0)
    with pytest.raises(LoaderError, match=r"the ONNX model cannot be run \(division by zero\); is it valid"):
        load(graph(general()))


def test_a_disagreement_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def tampered(node: Any, raw: dict[str, bytes], n_features: int) -> bytes:
        other = graph(stump(target_weights=[1.0, 2.0, 10.0, 21.0])).graph.node[0]
        attributes = {attribute.name: attribute.SerializeToString() for attribute in other.attribute}
        return honest(node, attributes, n_features)

    honest = loader.single_node_model
    monkeypatch.setattr(loader, "single_node_model", tampered)
    with pytest.raises(LoaderError, match="the load disagrees with onnxruntime: output 0 of the row"):
        load(graph(stump()))
