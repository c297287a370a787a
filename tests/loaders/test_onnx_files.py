"""What the ONNX loader refuses: models of other kinds, damaged files, and any at all."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from conformance import Bomb, Damaged, FileTests, mutated_bytes
from loading import memory_below, rows_for
from onnx_models import CAST_DOWN, assert_scores, classifier, general, graph, run, stump, tensor
from predgap._model.ensemble import Ensemble
from predgap.errors import LoaderError, UnsupportedModelError
from predgap.loaders import load
from predgap.loaders import onnx as loader
from predgap.loaders._formats import protobuf
from predgap.loaders.onnx import trees
from predgap.loaders.onnx.trees import _MAX_DEPTH

# ---- models of other kinds ----

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
        "node 1 of the ONNX model is a leaf without a weight, but not 0 in nodes_values",
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


# ---- damaged attributes ----

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
    "a child beyond": ({"nodes_truenodeids": [7, 0, 0, 1, 0, 0]}, "to a node that does not exist"),
    "twice the same": ({"nodes_nodeids": [0, 1, 1, 0, 1, 2]}, "or two have the same number"),
    "mixed trees": ({"nodes_treeids": [0, 1, 0, 1, 0, 1]}, "not next to one another"),
    "a tree beyond": ({"target_treeids": [0, 0, 1, 5]}, "to a tree that does not exist"),
    "a weight beyond": ({"target_nodeids": [1, 2, 1, 9]}, "to a node that does not exist"),
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
        "base_values and base_values_as_tensor are both present",
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


GENERAL_DAMAGE: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown mode": ({"nodes_modes": tensor([7, 0], np.uint8)}, "nodes_modes has 7, which ONNX does not"),
    "a leaf beyond": ({"nodes_truenodeids": [4, 2]}, "to a node or leaf that does not exist"),
    "a node beyond": ({"nodes_trueleafs": [0, 1], "nodes_truenodeids": [2, 2]}, "leaf that does not exist"),
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


def test_other_files_are_not_taken_for_onnx(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08")
    with pytest.raises(LoaderError, match="is no model file that predgap knows"):
        load(path)
    path.write_bytes(b"\x08\x08\x12\x03abc")
    with pytest.raises(LoaderError, match="invalid ONNX file: field 7 occurs 0 times, expected 1"):
        load(path)


def message(tag: int, body: bytes) -> bytes:
    return protobuf.encode((tag >> 3, body))


PARTS = {
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
BOMBS = {kind: lambda data=data: Bomb(b"\x08\x08\x12\x00" + data) for kind, data in PARTS.items()}


def test_a_wide_table_is_not_checked_but_loads_within_bounds() -> None:
    with memory_below(100_000_000):
        assert load(graph(stump(), shape=(None, 5_000_000))).n_features == 5_000_000


# ---- messages ----


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


# ---- anything at all ----

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


def sets() -> dict[str, Any]:
    members = tensor([1, 2, np.nan], np.float32)
    return general(nodes_modes=tensor([6, 0], np.uint8), membership_values=members)


def large() -> dict[str, Any]:
    """Trees of 511 nodes, which are quick to make."""
    depth, n_trees = 8, 25
    n = 2 ** (depth + 1) - 1
    place = np.arange(n)
    inner = place < 2**depth - 1
    rng = np.random.default_rng(0)
    leaves = place[~inner]
    return {
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


EQUAL = {"aggregate_function": "AVERAGE", "nodes_values": [1.0, 0, 0, 4.0, 0, 0]}
MISSING = {"nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0]}
MODELS = {
    "missing": lambda: graph(stump(base_values=[0.5], **MISSING)),
    "equal": lambda: graph(stump("BRANCH_EQ", 1.0, **EQUAL)),
    "classes": lambda: graph(classifier([0, 1, 2], (0, 1, 2))),
    "two classes": lambda: graph(classifier([0]), given=TensorProto.DOUBLE, before=(CAST_DOWN,)),
    "doubles": lambda: graph(general(np.float64), given=TensorProto.DOUBLE),
    "sets": lambda: graph(sets()),
}


class TestOnnx(FileTests):
    suffix = ".onnx"
    packages = ("onnx", "onnxruntime", "google.protobuf")
    models = MODELS
    damage = (*DAMAGED, *(f"newest: {kind}" for kind in GENERAL_DAMAGE))
    bombs = BOMBS
    step = 1
    mutants = (60, 1000)  # those that load are run by onnxruntime
    outcomes = ("loaded", "LoaderError", "UnsupportedModelError")
    reads_nonsense = True

    def assert_agrees(self, model: Any, ensemble: Ensemble) -> None:
        rows = rows_for(ensemble)
        theirs = run(
            model,
            rows.astype(helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type)),
        )[-1]
        assert_scores(ensemble, rows, theirs if ensemble.n_outputs > 1 else theirs[:, -1])

    def save(self, model: Any, path: Path) -> None:
        onnx.save(model, path)

    def decode(self, data: bytes) -> Ensemble:
        return loader._ensemble(data)

    def large(self) -> Any:
        return graph(large(), shape=(None, 10))

    def damaged(self, kind: str, folder: Path) -> Damaged:
        _, newest, name = kind.rpartition("newest: ")
        changes, says = (GENERAL_DAMAGE if newest else DAMAGED)[name]
        make = general if newest else stump
        attributes = {key: value for key, value in make(**changes).items() if newest or value != []}
        files = (graph(each).SerializeToString() for each in (make(), attributes))
        return Damaged(*files, says)

    def mutated(self, data: bytes, rng: np.random.Generator) -> bytes:
        if rng.random() < 1 / 3:
            return mutated_bytes(data, rng)
        for _ in range(rng.integers(1, 4)):
            data = with_other_values(data, rng)
        return data

    def disguised(self, data: bytes) -> Iterable[bytes]:
        return b"\x08\x08" + message(0x3A, data), b"\x08\x08\x12\x00" + data


def test_a_field_without_a_number_is_refused() -> None:
    with pytest.raises(LoaderError, match="invalid ONNX file"):
        list(protobuf._runs(bytes(8)))


def test_numbers_of_damaged_files_give_no_warning() -> None:
    signalling = np.array([0x7FA00000], dtype=np.uint32).view(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(trees._widened(signalling))
