"""Finds the node with the trees in an ONNX model, and builds a model of that node alone for the check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap.errors import LoaderError, UnsupportedModelError
from predgap.loaders._formats.protobuf import Message, encode, from_bytes

__all__ = ["CLASSIFIER", "GENERAL", "REGRESSOR", "TreeNode", "Value", "read", "single_node_model"]

REGRESSOR, CLASSIFIER, GENERAL = "TreeEnsembleRegressor", "TreeEnsembleClassifier", "TreeEnsemble"
_DOMAIN: Final = "ai.onnx.ml"
_VERSIONS: Final = {REGRESSOR: (1, 4), CLASSIFIER: (1, 4), GENERAL: (5, 5)}  # of ai.onnx.ml that have them
_AROUND: Final = frozenset({("", "Cast"), ("", "Identity"), (_DOMAIN, "ZipMap")})


# Field numbers of onnx.proto, which never change.
class _Model:
    PRODUCER, GRAPH, VERSIONS, FUNCTIONS = 2, 7, 8, 25


class _Graph:
    NODES, NAME, INPUTS, OUTPUTS = 1, 2, 11, 12


class _Node:
    INPUTS, OUTPUTS, OPERATOR, ATTRIBUTES, DOMAIN = 1, 2, 4, 5, 7


class _Attribute:
    NAME, INTEGER, TEXT, TENSOR, FLOATS, INTEGERS, TEXTS, TYPE = 1, 3, 4, 5, 7, 8, 9, 20


class _Tensor:
    TYPE, RAW, EXTERNAL, LOCATION = 2, 9, 13, 14


_FLOAT, _UINT8, _DOUBLE = 1, 2, 11
_ROW_KINDS: Final[dict[int, type[np.floating[Any]]]] = {_FLOAT: np.float32, _DOUBLE: np.float64}
_TYPE_NAMES: Final = (
    *("UNDEFINED", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL"),
    *("FLOAT16", "DOUBLE", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16"),
)
# For each element type of a tensor: the field with its numbers (unless they are raw bytes), and their dtype.
_TENSORS: Final[dict[int, tuple[int, np.dtype[Any]]]] = {
    _FLOAT: (4, np.dtype("<f4")),
    _UINT8: (5, np.dtype("u1")),
    _DOUBLE: (10, np.dtype("<f8")),
}

Value = int | str | NDArray[Any] | list[bytes]


@dataclass(frozen=True, slots=True)
class TreeNode:
    """The node with the trees, and the type of its rows."""

    operator: str
    version: int  # of ai.onnx.ml
    attributes: dict[str, Value]
    raw: dict[str, bytes]  # the same attributes, still encoded
    row_kind: type[np.floating[Any]]  # the narrowest type that rows pass through
    tree_kind: type[np.floating[Any]]  # the type that the node sees
    n_features: int | None  # None if the model does not state it
    producer: str


def read(data: bytes) -> TreeNode:
    """The node with the trees; UnsupportedModelError if other nodes do more than pass values on."""
    model = Message(data)
    if _Model.FUNCTIONS in model:
        raise UnsupportedModelError("the ONNX model defines functions of its own; inline them first")
    graph = Message(model.part(_Model.GRAPH))
    nodes = graph.messages(_Graph.NODES)
    node = _tree_node(nodes)
    types, n_features = _rows(node, nodes, graph)
    attributes = _attributes(node)
    return TreeNode(
        operator=node.text(_Node.OPERATOR),
        version=_version(model, node.text(_Node.OPERATOR)),
        attributes=attributes,
        raw=dict(zip(attributes, node.parts(_Node.ATTRIBUTES), strict=True)),
        row_kind=np.float32 if _FLOAT in types else np.float64,
        tree_kind=_ROW_KINDS[types[0]],
        n_features=n_features,
        producer=model.text(_Model.PRODUCER)[:60],
    )


def single_node_model(node: TreeNode, attributes: dict[str, bytes], n_features: int) -> bytes:
    """The bytes of a model of this node alone, with these attributes; its input is `X`, its output `Y`."""
    outputs = [b"L", b"Y"] if node.operator == CLASSIFIER else [b"Y"]
    trees = encode(
        (_Node.INPUTS, b"X"),
        *((_Node.OUTPUTS, name) for name in outputs),
        (_Node.OPERATOR, node.operator.encode()),
        *((_Node.ATTRIBUTES, attribute) for attribute in attributes.values()),
        (_Node.DOMAIN, _DOMAIN.encode()),
    )
    element = _FLOAT if node.tree_kind is np.float32 else _DOUBLE
    shape = encode((1, b""), (1, encode((1, n_features))))
    table = encode((1, b"X"), (2, encode((1, encode((1, element), (2, shape))))))
    graph = encode(
        (_Graph.NODES, trees),
        (_Graph.NAME, b"trees"),
        (_Graph.INPUTS, table),
        (_Graph.OUTPUTS, encode((1, b"Y"))),
    )
    version = encode((1, _DOMAIN.encode()), (2, node.version))
    return encode((1, 8), (_Model.GRAPH, graph), (_Model.VERSIONS, version))


# ---- the graph ----


def _tree_node(nodes: list[Message]) -> Message:
    names = [(node.text(_Node.DOMAIN), node.text(_Node.OPERATOR)) for node in nodes]
    names = [("" if domain == "ai.onnx" else domain, name) for domain, name in names]
    trees = [i for i, (domain, name) in enumerate(names) if domain == _DOMAIN and name in _VERSIONS]
    if len(trees) != 1:
        raise UnsupportedModelError(
            f"the ONNX model has {len(trees)} nodes with trees among its {len(nodes)}; predgap explains "
            f"models with one {REGRESSOR}, {CLASSIFIER} or {GENERAL}"
        )
    others = [name for i, name in enumerate(names) if i != trees[0] and name not in _AROUND]
    if others:
        raise UnsupportedModelError(
            f"the ONNX model has a node {others[0][1][:60]!r} besides its trees; predgap passes over Cast, "
            "Identity and ZipMap only, since another one may change what the trees get or give"
        )
    return nodes[trees[0]]


def _version(model: Message, operator: str) -> int:
    sets = model.messages(_Model.VERSIONS)
    version = next((entry.integer(2) for entry in sets if entry.text(1) == _DOMAIN), 0)
    oldest, newest = _VERSIONS[operator]
    if not oldest <= version <= newest:
        raise UnsupportedModelError(
            f"the ONNX model has {operator} with version {version} of {_DOMAIN}; predgap knows "
            f"{f'{oldest} to {newest}' if oldest < newest else oldest}: convert the model for that"
        )
    return version


def _rows(node: Message, nodes: list[Message], graph: Message) -> tuple[list[int], int | None]:
    """The types that rows are cast to, from the trees back to the input, and the number of columns."""
    makers = {name: maker for maker in nodes for name in maker.parts(_Node.OUTPUTS)}
    types, name = [], node.part(_Node.INPUTS)
    for _ in nodes:  # a longer path would be a cycle
        if name not in makers:
            break
        maker = makers[name]
        if maker.text(_Node.OPERATOR) == "Cast":
            types.append(_cast_type(maker))
        name = maker.part(_Node.INPUTS)
    inputs = {entry.part(1): entry for entry in graph.messages(_Graph.INPUTS)}
    if inputs.keys() != {name}:
        raise UnsupportedModelError(
            f"the ONNX model has {len(inputs)} inputs, or its trees get something else; predgap handles "
            "models with one input, a table of numbers that goes to the trees"
        )
    given, n_features = _table(inputs[name])
    types.append(given)
    for found in types:
        if found not in _ROW_KINDS:
            raise UnsupportedModelError(
                f"rows of the ONNX model are {_type_name(found)}; predgap handles FLOAT and DOUBLE: convert "
                "the model with an input of one of these"
            )
    return types, n_features


def _cast_type(node: Message) -> int:
    to = _attributes(node).get("to")
    if not isinstance(to, int):
        raise LoaderError("a Cast of the ONNX model has no type to cast to; the file is damaged")
    return to


def _table(entry: Message) -> tuple[int, int | None]:
    """The element type of an input, and its number of columns; None if the model does not state it."""
    tensor = Message(Message(entry.part(2)).part(1))
    element = tensor.integer(1)
    if 2 not in tensor:
        return element, None
    sizes = Message(tensor.part(2)).parts(1)
    if len(sizes) != 2:
        raise UnsupportedModelError(
            f"the input of the ONNX model has {len(sizes)} dimensions; predgap handles tables, which have 2"
        )
    width = Message(sizes[1]).integer(1)
    return element, width if width > 0 else None  # some converters write 0 for "not stated"


# ---- attributes ----


def _attributes(node: Message) -> dict[str, Value]:
    """The value of each attribute, in order."""
    values: dict[str, Value] = {}
    for attribute in node.messages(_Node.ATTRIBUTES):
        name = attribute.text(_Attribute.NAME)
        if name in values:
            raise LoaderError(f"the attribute {name[:40]!r} occurs twice; the file is damaged")
        values[name] = _value(name, attribute)
    return values


def _value(name: str, found: Message) -> Value:
    """The value of an attribute, by the type that it states."""
    match found.integer(_Attribute.TYPE):
        case 2:
            return found.integer(_Attribute.INTEGER)
        case 3:
            return found.text(_Attribute.TEXT)
        case 4:
            return _tensor(name, Message(found.part(_Attribute.TENSOR)))
        case 6:
            return found.floats(_Attribute.FLOATS, np.dtype("<f4"))
        case 7:
            return found.integers(_Attribute.INTEGERS)
        case 8:
            return found.parts(_Attribute.TEXTS)
        case other:
            raise LoaderError(f"the attribute {name[:40]!r} has type {other}, which it cannot have")


def _tensor(name: str, tensor: Message) -> NDArray[Any]:
    """The numbers of a tensor as a flat array."""
    if _Tensor.EXTERNAL in tensor or tensor.integer(_Tensor.LOCATION):
        raise UnsupportedModelError(
            f"the attribute {name[:40]!r} is kept in another file; save the model with all data inside"
        )
    stated = tensor.integer(_Tensor.TYPE)
    if stated not in _TENSORS:
        raise UnsupportedModelError(
            f"the attribute {name[:40]!r} is a tensor of {_type_name(stated)}; predgap handles FLOAT, DOUBLE "
            "and UINT8"
        )
    number, dtype = _TENSORS[stated]
    if _Tensor.RAW in tensor:
        return from_bytes(tensor.part(_Tensor.RAW), dtype)
    if stated != _UINT8:
        return tensor.floats(number, dtype)
    wide = tensor.integers(number)
    if ((wide < 0) | (wide > 255)).any():
        raise LoaderError(f"the attribute {name[:40]!r} has a number that is no byte; the file is damaged")
    return wide.astype(dtype)


def _type_name(number: int) -> str:
    return _TYPE_NAMES[number] if 0 <= number < len(_TYPE_NAMES) else f"of type {number}"
