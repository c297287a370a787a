"""ONNX models for the tests of their loader: graphs built by hand, and what onnxruntime says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from predgap._model.ensemble import Ensemble

ML = "ai.onnx.ml"
TYPES = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE}


# ---- running a model as it is ----


def run(model: Any, rows: np.ndarray) -> list[Any]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    with np.errstate(over="ignore"):  # what is too large becomes infinite
        rows = rows.astype(np.float32 if given.type == "tensor(float)" else rows.dtype)
    return session.run(None, {given.name: rows})


def assert_scores(ensemble: Ensemble, rows: np.ndarray, theirs: np.ndarray, error: float = 1e-6) -> None:
    mine = ensemble.predict(rows).reshape(len(rows), -1)
    size = np.abs(ensemble.value).max() * ensemble.n_trees + np.abs(ensemble.bias).max()
    np.testing.assert_allclose(mine, theirs.reshape(mine.shape), rtol=0, atol=error * size)


# ---- graphs built by hand ----


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


CAST_DOWN = helper.make_node("Cast", ["X"], ["narrow"], to=TensorProto.FLOAT)


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
