"""The ONNX loader against onnxruntime: converted models, graphs built by hand, and damaged files."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
import time
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from predgap.ensemble import ALL_OUTPUTS, LEAF, Ensemble
from predgap.errors import LoaderError, TableError, UnsupportedModelError
from predgap.loaders import load, protobuf
from predgap.loaders import onnx as loader
from predgap.loaders.onnx_trees import _MAX_DEPTH

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
import lightgbm as lgb  # noqa: E402
import xgboost as xgb  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import onnxmltools
    import skl2onnx
    from onnxmltools.convert.common.data_types import FloatTensorType as OtherFloatTensorType
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

ML = "ai.onnx.ml"
TYPES = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE}

# ---- running a model as it is ----


def run(model: Any, rows: np.ndarray) -> list[Any]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: rows})


def rows_for(ensemble: Ensemble, n: int = 600) -> np.ndarray:
    """Rows at and one step of the rows' precision around thresholds; levels, strange codes, and missing."""
    rng, kind = np.random.default_rng(8), ensemble.row_dtype.type
    rows = rng.normal(size=(n, ensemble.n_features)).astype(kind)
    for j in range(ensemble.n_features):
        if ensemble.categories is not None and ensemble.categories[j] is not None:
            codes = ensemble.categories[j].codes
            rows[:, j] = rng.choice([*codes, *range(12), 1000, -1, np.nan], n)
            continue
        cuts = ensemble.threshold[ensemble.feature == j].astype(kind)
        around = [cuts, np.nextafter(cuts, kind(-np.inf)), np.nextafter(cuts, kind(np.inf)), [0.0, np.nan]]
        ends = [np.inf, -np.inf] if ensemble.takes_infinity else []
        special = np.concatenate([*around, ends]).astype(kind)
        rows[:, j] = np.where(rng.random(n) < 0.8, rng.choice(special, n), rows[:, j])
    return rows


def assert_scores(ensemble: Ensemble, rows: np.ndarray, theirs: np.ndarray, error: float = 1e-6) -> None:
    mine = ensemble.predict(rows).reshape(len(rows), -1)
    size = np.abs(ensemble.value).max() * ensemble.n_trees + np.abs(ensemble.bias).max()
    np.testing.assert_allclose(mine, theirs.reshape(mine.shape), rtol=0, atol=error * size)


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
    assert (ensemble.categories is not None) == (name == "lightgbm categories")
    assert ensemble.row_dtype == np.float32
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    assert_same(load(path), ensemble)
    assert_same(load(str(path)), ensemble)


def assert_same(first: Ensemble, second: Ensemble) -> None:
    for name in ("root", "feature", "threshold", "left", "right", "default_left", "value", "target", "bias"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)
    assert (first.n_features, first.source, first.row_dtype) == (
        second.n_features,
        second.source,
        second.row_dtype,
    )


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
    assert ensemble.row_dtype == np.float64
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


def stump(mode: str = "BRANCH_LEQ", value: float = 0.5, **changes: Any) -> dict[str, Any]:
    """The attributes of a regressor with two stumps."""
    attributes: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2, 0, 1, 2],
        "nodes_featureids": [0, 0, 0, 1, 0, 0],
        "nodes_modes": [mode, "LEAF", "LEAF"] * 2,
        "nodes_values": [value, 0.0, 0.0, 1.5, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0] * 2,
        "nodes_falsenodeids": [2, 0, 0] * 2,
        "target_treeids": [0, 0, 1, 1],
        "target_nodeids": [1, 2, 1, 2],
        "target_ids": [0, 0, 0, 0],
        "target_weights": [1.0, 2.0, 10.0, 20.0],
        "n_targets": 1,
    }
    return {name: value for name, value in {**attributes, **changes}.items() if value is not None}


def classifier(class_ids: list[int], labels: Any = (0, 1), **changes: Any) -> dict[str, Any]:
    """The same stumps as a classifier; each leaf has a weight for each of the classes."""
    base = stump()
    per_leaf = len(class_ids)
    repeated = {
        f"class_{name}": np.repeat(base.pop(f"target_{name}"), per_leaf).tolist()
        for name in ("treeids", "nodeids", "ids")
    }
    del base["target_weights"], base["n_targets"]
    weights = [w * (k + 1) for w in (1.0, -2.0, 10.0, 20.0) for k in range(per_leaf)]
    strings = isinstance(labels[0], str)
    return {
        **base,
        **repeated,
        "class_ids": class_ids * 4,
        "class_weights": weights,
        "classlabels_strings" if strings else "classlabels_int64s": list(labels),
        **changes,
    }


def tensor(values: Any, dtype: Any = np.float64) -> Any:
    return numpy_helper.from_array(np.array(values, dtype=dtype), "t")


def general(dtype: Any = np.float32, **changes: Any) -> dict[str, Any]:
    """The same stumps for the newest operator."""
    attributes: dict[str, Any] = {
        "nodes_splits": tensor([0.5, 1.5], dtype),
        "nodes_featureids": [0, 1],
        "nodes_modes": tensor([0, 0], np.uint8),
        "nodes_truenodeids": [0, 2],
        "nodes_falsenodeids": [1, 3],
        "nodes_trueleafs": [1, 1],
        "nodes_falseleafs": [1, 1],
        "leaf_targetids": [0, 0, 0, 0],
        "leaf_weights": tensor([1, 2, 10, 20], dtype),
        "tree_roots": [0, 1],
        "n_targets": 1,
    }
    return {name: value for name, value in {**attributes, **changes}.items() if value is not None}


def graph(
    attributes: dict[str, Any],
    *,
    operator: str | None = None,
    given: int = TensorProto.FLOAT,
    shape: Any = (None, 2),
    before: tuple[Any, ...] = (),
    after: tuple[Any, ...] = (),
    version: int | None = None,
) -> Any:
    if operator is None:
        kinds = {"class_ids": "TreeEnsembleClassifier", "tree_roots": "TreeEnsemble"}
        operator = next((kinds[name] for name in kinds if name in attributes), "TreeEnsembleRegressor")
    outputs = ["L", "Y"] if operator == "TreeEnsembleClassifier" else ["Y"]
    source = before[-1].output[0] if before else "X"
    node = helper.make_node(operator, [source], outputs, domain=ML, **attributes)
    last = after[-1].output[0] if after else "Y"
    table = helper.make_tensor_value_info("X", given, shape)
    made = helper.make_graph([*before, node, *after], "g", [table], [onnx.ValueInfoProto(name=last)])
    own = version or (5 if operator == "TreeEnsemble" else 3)
    versions = [helper.make_opsetid("", 15), helper.make_opsetid(ML, own)]
    return helper.make_model(made, opset_imports=versions, ir_version=8, producer_name="a test")


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
        assert ensemble.takes_infinity or np.isinf(value)
        values = [v for v in values_around(value, kind) if ensemble.takes_infinity or not np.isinf(v)]
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
CAST_DOWN = helper.make_node("Cast", ["X"], ["narrow"], to=TensorProto.FLOAT)


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
    assert ensemble.row_dtype == row_dtype
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
    assert ensemble.categories is not None
    assert ensemble.categories[0].codes.tolist() == codes
    assert ensemble.categories[1] is None
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
    assert ensemble.categories is not None
    assert ensemble.categories[0].codes.tolist() == [0, 3, 4, 9]
    rows = np.array([[0], [1], [3], [4], [9], [10], [-1], [np.nan]], dtype=np.float32)
    np.testing.assert_array_equal(ensemble.predict(rows), run(model, rows)[-1].ravel())


# ---- with and without packages ----


def test_files_load_without_onnx_and_onnxruntime(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(graph(stump(base_values=[0.5])), path)
    code = f"""
        import sys
        for name in ("onnx", "onnxruntime", "google.protobuf"):
            sys.modules[name] = None
        import predgap.loaders
        print(predgap.loaders.load({str(path)!r}).predict([[0.0, 2.0]]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[21.5]", done.stderr


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
    with pytest.raises(LoaderError, match=r"the ONNX model cannot be run \(division by zero\); is it sound"):
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


def test_a_thousand_trees_load_within_a_second(tmp_path: Path) -> None:
    """Or a quarter of them, since making them takes longer."""
    depth, n_trees = 8, 250
    n = 2 ** (depth + 1) - 1
    place = np.arange(n)
    inner = place < 2**depth - 1
    rng = np.random.default_rng(0)
    leaves = place[~inner]
    attributes = {
        "nodes_treeids": np.repeat(np.arange(n_trees), n).tolist(),
        "nodes_nodeids": np.tile(place, n_trees).tolist(),
        "nodes_featureids": rng.integers(0, 10, n * n_trees).tolist(),
        "nodes_modes": np.tile(np.where(inner, "BRANCH_LEQ", "LEAF"), n_trees).tolist(),
        "nodes_values": rng.normal(size=n * n_trees).tolist(),
        "nodes_truenodeids": np.tile(np.where(inner, 2 * place + 1, 0), n_trees).tolist(),
        "nodes_falsenodeids": np.tile(np.where(inner, 2 * place + 2, 0), n_trees).tolist(),
        "target_treeids": np.repeat(np.arange(n_trees), len(leaves)).tolist(),
        "target_nodeids": np.tile(leaves, n_trees).tolist(),
        "target_ids": [0] * (len(leaves) * n_trees),
        "target_weights": rng.normal(size=len(leaves) * n_trees).tolist(),
        "n_targets": 1,
    }
    path = tmp_path / "model.onnx"
    onnx.save(graph(attributes, shape=(None, 10)), path)
    start = time.process_time()
    assert load(path).n_trees == n_trees
    assert time.process_time() - start < 1.0  # some 0.2 s where this was written; machines differ


# ---- what is refused ----

DEEP = _MAX_DEPTH + 1


def chain(depth: int) -> dict[str, Any]:
    """A tree with one split per level."""
    n = 2 * depth + 1
    inner = [i % 2 == 0 and i < n - 1 for i in range(n)]
    leaves = [i for i in range(n) if not inner[i]]
    return stump(
        nodes_treeids=[0] * n,
        nodes_nodeids=list(range(n)),
        nodes_featureids=[0] * n,
        nodes_modes=["BRANCH_LEQ" if split else "LEAF" for split in inner],
        nodes_values=[float(i) for i in range(n)],
        nodes_truenodeids=[i + 1 if split else 0 for i, split in enumerate(inner)],
        nodes_falsenodeids=[i + 2 if split else 0 for i, split in enumerate(inner)],
        target_treeids=[0] * len(leaves),
        target_nodeids=leaves,
        target_ids=[0] * len(leaves),
        target_weights=[float(i) for i in leaves],
    )


def test_deep_trees() -> None:
    assert load(graph(chain(_MAX_DEPTH - 1))).predict([[9e9, 0.0]]) == 2 * (_MAX_DEPTH - 1)
    with pytest.raises(UnsupportedModelError, match=f"a tree of more than {_MAX_DEPTH} levels"):
        load(graph(chain(DEEP)))


def with_functions() -> Any:
    model = graph(stump())
    model.functions.add(name="Cast")
    return model


def with_external_data() -> Any:
    model = graph(general())
    found = next(a for a in model.graph.node[0].attribute if a.name == "leaf_weights")
    found.t.ClearField("raw_data")
    found.t.data_location = TensorProto.EXTERNAL
    found.t.external_data.add(key="location", value="/etc/passwd")
    return model


def with_two_inputs() -> Any:
    model = graph(stump())
    model.graph.input.append(helper.make_tensor_value_info("Z", TensorProto.FLOAT, [None, 1]))
    return model


MUL = helper.make_node("Mul", ["Y", "Y"], ["Z"])
REFUSED: dict[str, tuple[Any, str]] = {
    "no trees": (
        lambda: helper.make_model(helper.make_graph([MUL], "g", [], []), opset_imports=[]),
        "has 0 nodes with trees among its 1",
    ),
    "another node": (
        lambda: graph(stump(), after=(MUL,)),
        "has a node 'Mul' besides its trees; predgap passes",
    ),
    "another domain": (
        lambda: graph(stump(), before=(helper.make_node("Cast", ["X"], ["Z"], domain="mine", to=1),)),
        "has a node 'Cast' besides its trees",
    ),
    "not equal": (lambda: graph(stump("BRANCH_NEQ")), "splits with BRANCH_NEQ, where runtimes disagree"),
    "no category": (
        lambda: graph(stump("BRANCH_EQ")),
        r"asks whether feature 0 equals 0.5; predgap handles categories",
    ),
    "both kinds": (
        lambda: graph(
            stump(
                value=1.0,
                nodes_modes=["BRANCH_EQ", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"],
                nodes_featureids=[0] * 6,
            )
        ),
        "feature 0 is compared with a threshold in one split and with categories in another",
    ),
    "minimum": (lambda: graph(stump(aggregate_function="MIN")), "aggregate_function is MIN: the prediction"),
    "maximum": (lambda: graph(general(aggregate_function=3)), "aggregate_function is MAX: the prediction"),
    "integers": (
        lambda: graph(stump(), given=TensorProto.INT64),
        "rows of the ONNX model are INT64; predgap",
    ),
    "halves": (
        lambda: graph(stump(), before=(helper.make_node("Cast", ["X"], ["h"], to=TensorProto.FLOAT16),)),
        "rows of the ONNX model are FLOAT16; predgap handles",
    ),
    "mixed precision": (
        lambda: graph(stump(nodes_values=None, nodes_values_as_tensor=tensor([0.5, 0, 0, 1.5, 0, 0]))),
        "nodes_values_as_tensor is float64, but the rows need float32",
    ),
    "half weights": (
        lambda: graph(general(leaf_weights=tensor([1, 2, 3, 4], np.float16))),
        "'leaf_weights' is a tensor of FLOAT16; predgap handles FLOAT, DOUBLE",
    ),
    "a new attribute": (lambda: graph(stump(nodes_new=[1])), "has the attribute 'nodes_new', which predgap"),
    "a new version": (
        lambda: graph(general(), version=6),
        "has TreeEnsemble with version 6 of ai.onnx.ml; predgap knows 5: convert",
    ),
    "an old operator in a new version": (
        lambda: graph(stump(), version=5),
        "has TreeEnsembleRegressor with version 5 of ai.onnx.ml; predgap knows 1 to 4",
    ),
    "functions": (with_functions, "defines functions of its own"),
    "external data": (with_external_data, "'leaf_weights' is kept in another file; save the model with"),
    "inputs": (with_two_inputs, "has 2 inputs, or its trees get something else"),
    "dimensions": (lambda: graph(stump(), shape=(None, 2, 2)), "has 3 dimensions; predgap handles tables"),
    "shared nodes": (
        lambda: graph(stump(nodes_falsenodeids=[1, 0, 0, 2, 0, 0])),
        "node 1 of the ONNX model is reached in 2 ways; predgap handles trees",
    ),
    "a lone leaf of another number": (
        lambda: graph(general(nodes_truenodeids=[1, 2], nodes_falsenodeids=[1, 3])),
        "a tree is a single leaf, and its root has another number",
    ),
    "a base value that is left out": (
        lambda: graph(stump(n_targets=2, target_ids=[1, 0, 0, 1], base_values=[0.0, 1.0])),
        "some rows have no weight for target or class 1, where runtimes disagree about its score",
    ),
    "a class that is left out": (
        lambda: graph({**classifier([0]), "class_ids": [0, 0, 1, 0]}),
        "some rows have no weight for target or class 1, where runtimes disagree about its score",
    ),
    "a node in no tree": (
        lambda: graph(stump(nodes_modes=["LEAF"] * 3 + ["BRANCH_LT", "LEAF", "LEAF"])),
        "node 1 of the ONNX model is in no tree",
    ),
    "a split value for a weight": (
        lambda: graph(stump(nodes_values=[0.5, 7.0, 0.0, 1.5, 0.0, 0.0], target_nodeids=[0, 2, 1, 2])),
        "node 1 of the ONNX model is a leaf without weight and with something else in nodes_values",
    ),
    "thin weights": (
        lambda: graph(stump(n_targets=500_000, target_ids=[0, 1, 499_999, 3])),
        "the 4 weights of the ONNX model are spread over 500000 targets",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_sound_models_are_refused_by_name(name: str, tmp_path: Path) -> None:
    model, says = REFUSED[name]
    with pytest.raises(UnsupportedModelError, match=says):
        load(model())
    path = tmp_path / "model.onnx"
    path.write_bytes(model().SerializeToString())
    with pytest.raises(UnsupportedModelError, match=says):
        load(path)


DAMAGED: dict[str, tuple[dict[str, Any], str]] = {
    "too few values": ({"nodes_values": [0.5]}, "nodes_values has 1 entries, expected 6"),
    "no features": ({"nodes_featureids": None}, "nodes_featureids has 0 entries, expected 6"),
    "no nodes": (
        {name: [] for name in stump() if name.startswith("nodes_")},
        "or two have the same number, or there are none",
    ),
    "no modes": ({"nodes_modes": [1, 2, 3]}, "'nodes_modes' is of another type"),
    "an unknown mode": (
        {"nodes_modes": ["BRANCH_X", "LEAF", "LEAF"] * 2},
        "nodes_modes has 'BRANCH_X', which",
    ),
    "a feature beyond": ({"nodes_featureids": [9, 0, 0, 1, 0, 0]}, "has 2 features and uses feature 9"),
    "a negative feature": (
        {"nodes_featureids": [-1, 0, 0, 1, 0, 0]},
        "nodes_featureids has entries that are",
    ),
    "a child beyond": ({"nodes_truenodeids": [7, 0, 0, 1, 0, 0]}, "for a node that is not there"),
    "twice the same": ({"nodes_nodeids": [0, 1, 1, 0, 1, 2]}, "or two have the same number"),
    "mixed trees": ({"nodes_treeids": [0, 1, 0, 1, 0, 1]}, "not next to one another"),
    "a tree beyond": ({"target_treeids": [0, 0, 1, 5]}, "for a tree that is not there"),
    "a weight beyond": ({"target_nodeids": [1, 2, 1, 9]}, "for a node that is not there"),
    "a target beyond": ({"target_ids": [0, 0, 0, 1]}, "weights for no target or class of the 1"),
    "no weights": (
        {"target_ids": [], "target_weights": [], "target_nodeids": [], "target_treeids": []},
        "weights for no target or class of the 1",
    ),
    "too many weights": ({"target_weights": [1.0] * 5}, "target_treeids has 4 entries, expected 5"),
    "two weights": ({"target_nodeids": [1, 1, 1, 2]}, "a leaf has two weights for the same target"),
    "no number of targets": ({"n_targets": None}, "the attribute 'n_targets' is missing"),
    "no targets": ({"n_targets": 0}, "has 0 targets or classes"),
    "too many targets": ({"n_targets": 10**12}, "has 1000000000000 targets or classes"),
    "base": ({"base_values": [1.0, 2.0]}, "base_values has 2 entries, expected 1"),
    "both bases": (
        {"base_values": [1.0], "base_values_as_tensor": tensor([1.0], np.float32)},
        "base_values and base_values_as_tensor are both there",
    ),
    "an unknown aggregate": (
        {"aggregate_function": "MEDIAN"},
        "aggregate_function is 'MEDIAN', expected one",
    ),
    "an unknown transform": ({"post_transform": "TANH"}, "post_transform is 'TANH', expected one"),
    "not finite": ({"target_weights": [np.inf, 1.0, 1.0, 1.0]}, "a leaf value that is not finite"),
    "not a number": ({"nodes_values": [np.nan] + [0.0] * 5}, "a threshold that is not finite"),
    "missing": ({"nodes_missing_value_tracks_true": [2] * 6}, "entries that are not from 0 to 1"),
    "missing for some": ({"nodes_missing_value_tracks_true": [1]}, "true has 1 entries, expected 6"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_attributes_are_refused(name: str) -> None:
    changes, says = DAMAGED[name]
    attributes = {key: value for key, value in stump(**changes).items() if value != []}
    with pytest.raises(LoaderError, match=says):
        load(graph(attributes))


GENERAL_DAMAGE: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown mode": ({"nodes_modes": tensor([7, 0], np.uint8)}, "nodes_modes has 7, which ONNX does not"),
    "a leaf beyond": ({"nodes_truenodeids": [4, 2]}, "to a node or leaf that is not there"),
    "a node beyond": ({"nodes_trueleafs": [0, 1], "nodes_truenodeids": [2, 2]}, "a node or leaf that is not"),
    "a root beyond": ({"tree_roots": [0, 2]}, "tree_roots has entries that are not from 0 to 1"),
    "a set too few": ({"nodes_modes": tensor([6, 0], np.uint8)}, "membership_values has 0 sets, expected 1"),
    "a set that does not end": (
        {
            "nodes_modes": tensor([6, 0], np.uint8),
            "membership_values": tensor([1, np.nan, 2], np.float32),
        },
        "membership_values has 1 sets, expected 1",
    ),
    "modes of another kind": ({"nodes_modes": tensor([0, 0], np.float32)}, "nodes_modes is float32, but"),
}


@pytest.mark.parametrize("name", GENERAL_DAMAGE)
def test_damaged_attributes_of_the_newest_operator_are_refused(name: str) -> None:
    changes, says = GENERAL_DAMAGE[name]
    with pytest.raises(LoaderError, match=says):
        load(graph(general(**changes)))


def test_labels_of_two_kinds_are_refused() -> None:
    both = classifier([0, 1, 2], (0, 1, 2), classlabels_strings=["a", "b"])
    with pytest.raises(LoaderError, match="the classes have both numbers and texts for labels"):
        load(graph(both))


def test_a_circle_is_refused() -> None:
    circle = (
        helper.make_node("Identity", ["b"], ["a"]),
        helper.make_node("Identity", ["a"], ["b"]),
    )
    with pytest.raises(UnsupportedModelError, match="or its trees get something else"):
        load(graph(stump(), before=circle))
    with pytest.raises(UnsupportedModelError, match="reached in 3 ways"):
        load(graph(stump(nodes_modes=["BRANCH_LT"] * 2 + ["LEAF"] * 4, nodes_truenodeids=[1, 0, 0, 0, 0, 0])))


# ---- files ----


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    data = graph(stump()).SerializeToString()
    for size in range(len(data)):
        path = tmp_path / "short.onnx"
        path.write_bytes(data[:size])
        with pytest.raises(LoaderError):
            load(path)


def test_other_files_are_not_taken_for_onnx(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08")
    with pytest.raises(LoaderError, match="is no model file that predgap knows"):
        load(path)
    path.write_bytes(b"\x08\x08\x12\x03abc")
    with pytest.raises(LoaderError, match="not a sound ONNX file: field 7 is there 0 times, expected once"):
        load(path)


def message(tag: int, body: bytes) -> bytes:
    return protobuf.encode((tag >> 3, body))


BOMBS = {
    "nodes": message(0x3A, b"\x0a\x00" * 100_000),
    "attributes": message(0x3A, message(0x0A, b"\x2a\x00" * 100_000)),
    "tensors": message(0x3A, message(0x0A, message(0x2A, b"\x52\x00" * 100_000))),
    "integers": message(0x3A, message(0x0A, message(0x2A, b"\x40\x00" * 100_000))),
    "packed integers": message(0x3A, message(0x0A, message(0x2A, message(0x42, b"\x00" * 200_000)))),
    "versions": b"\x42\x00" * 100_000,
    "inputs": message(0x3A, b"\x5a\x02\x0a\x00" * 100_000),
    "alternating": message(0x3A, b"\x0a\x00\x12\x00" * 100_000),
    "numbers": b"\x08\x01\x10\x01" * 100_000,
    "floats": b"\x0d\x00\x00\x00\x00\x15\x00\x00\x00\x00" * 40_000,
    "functions": b"\xca\x01\x00" * 100_000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_would_blow_up_in_memory_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x08\x12\x00" + BOMBS[name])
    tracemalloc.start()
    start = time.process_time()
    with pytest.raises(LoaderError):
        load(path)
    seconds, (_, peak) = time.process_time() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * path.stat().st_size
    assert seconds < 10


def test_a_wide_table_is_not_checked_but_loads_within_bounds() -> None:
    tracemalloc.start()
    assert load(graph(stump(), shape=(None, 5_000_000))).n_features == 5_000_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000_000


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1)),
    st.lists(st.floats(width=32, allow_nan=False)),
    st.lists(st.binary(max_size=300)),
    st.binary(max_size=300),
)
def test_messages_are_read_as_the_library_writes_them(
    integers: list[int], floats: list[float], texts: list[bytes], raw: bytes
) -> None:
    tensor_ = onnx.TensorProto(dims=integers, raw_data=raw, double_data=floats)
    proto = onnx.AttributeProto(name="x", ints=integers, floats=floats, strings=texts, t=tensor_)
    found = protobuf.Message(proto.SerializeToString())
    assert found.text(1) == "x"
    assert found.integers(8).tolist() == integers
    assert found.floats(7, np.dtype("<f4")).tolist() == floats
    assert found.parts(9) == texts
    inner = protobuf.Message(found.part(5))
    assert inner.integers(1).tolist() == integers
    assert inner.part(9) == raw
    assert inner.floats(10, np.dtype("<f8")).tolist() == floats


def test_long_lists_are_read_in_pieces() -> None:
    many = np.random.default_rng(0).integers(-(2**40), 2**40, 300_000)
    proto = onnx.AttributeProto(ints=many.tolist(), floats=np.arange(300_000, dtype=np.float32).tolist())
    found = protobuf.Message(proto.SerializeToString())
    np.testing.assert_array_equal(found.integers(8), many)
    np.testing.assert_array_equal(found.floats(7, np.dtype("<f4")), np.arange(300_000))
    packed = b"".join(protobuf._encoded(int(i) & (2**64 - 1)) for i in many)
    np.testing.assert_array_equal(protobuf.Message(protobuf.encode((8, packed))).integers(8), many)


NUMBERS = [-1, 0, 1, 2, 3, 6, 2**31, 2**40, -(2**63)]
FLOATS = [0.0, -1.0, 0.5, 3e38, float("inf"), float("nan")]
NAMES = [b"LEAF", b"BRANCH_LT", b"BRANCH_GTE", b"BRANCH_EQ", b"SUM", b"AVERAGE", b"SOFTMAX", b""]


def with_other_values(data: bytes, rng: np.random.Generator) -> bytes:
    """The file with a value of an attribute changed or left out, or without the attribute."""
    model = onnx.ModelProto.FromString(data)
    attributes = next(node for node in model.graph.node if "Tree" in node.op_type).attribute
    found = attributes[int(rng.integers(len(attributes)))]
    for values, others in ((found.ints, NUMBERS), (found.floats, FLOATS), (found.strings, NAMES)):
        if values:
            at, other = int(rng.integers(len(values))), others[int(rng.integers(len(others)))]
            values[at] = values[int(rng.integers(len(values)))] if rng.random() < 0.5 else other
            if rng.random() < 0.1:
                del values[at]
            return model.SerializeToString()
    if found.HasField("t"):
        raw = bytearray(found.t.raw_data)
        raw[int(rng.integers(len(raw)))] = int(rng.integers(256))
        found.t.raw_data = bytes(raw)
    elif rng.random() < 0.5:
        found.i, found.s = NUMBERS[int(rng.integers(4))], NAMES[int(rng.integers(len(NAMES)))]
    else:
        attributes.remove(found)
    return model.SerializeToString()


def with_other_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """The file with a few bytes changed, left out, doubled or put elsewhere."""
    at, length = int(rng.integers(0, len(data))), int(rng.integers(1, 12))
    kind = rng.integers(0, 6)
    if kind <= 2:
        byte = rng.integers(0, 256) if kind else rng.choice([0, 1, 2, 3, 127, 128, 255])
        return data[:at] + bytes([int(byte)]) + data[at + 1 :]
    if kind == 3:
        return data[:at] + data[at + length :]
    if kind == 4:
        return data[:at] + data[at : at + length] + data[at:]
    to = int(rng.integers(0, len(data)))
    return data[:to] + data[at : at + length] + data[to + length :]


def mutations(data: bytes, rng: np.random.Generator, n: int) -> Iterator[bytes]:
    for i in range(n):
        changed = data
        for _ in range(rng.integers(1, 4)):
            changed = (with_other_values if i % 3 else with_other_bytes)(changed, rng)
        yield changed


def sound_files() -> list[bytes]:
    missing = {"nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0]}
    sets = {
        "nodes_modes": tensor([6, 0], np.uint8),
        "membership_values": tensor([1, 2, np.nan], np.float32),
    }
    models = (
        graph(stump(base_values=[0.5], **missing)),
        graph(stump("BRANCH_EQ", 1.0, aggregate_function="AVERAGE", nodes_values=[1.0, 0, 0, 4.0, 0, 0])),
        graph(classifier([0, 1, 2], (0, 1, 2))),
        graph(classifier([0]), given=TensorProto.DOUBLE, before=(CAST_DOWN,)),
        graph(general(np.float64), given=TensorProto.DOUBLE),
        graph(general(**sets)),
    )
    return [model.SerializeToString() for model in models]


def outcomes(n: int, seed: int) -> Counter[str]:
    """What becomes of n mutated files: loaded soundly, or refused with one of the two errors."""
    found: Counter[str] = Counter()
    files = sound_files()
    rng = np.random.default_rng(seed)
    for data in files:
        for changed in mutations(data, rng, n // len(files)):
            try:
                ensemble = loader._ensemble(changed)
            except LoaderError as error:
                found[type(error).__name__] += 1
                found["disagrees"] += "disagrees" in str(error)
                found["too long"] += len(str(error)) > 1000
                continue
            found["loaded"] += 1
            ensemble.validate()
            assert np.isfinite(ensemble.predict(np.zeros((1, ensemble.n_features)))).all()
            assert ((ensemble.feature == LEAF) | (ensemble.feature < ensemble.n_features)).all()
    return found


def test_mutated_files_give_a_sound_ensemble_or_a_named_error() -> None:
    found = outcomes(300, seed=11)
    assert min(found["loaded"], found["LoaderError"], found["UnsupportedModelError"]) > 15, found
    assert not found["too long"]
    assert not found["disagrees"]  # what is loaded is what onnxruntime does
