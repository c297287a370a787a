"""Finds the node with the trees in an ONNX model, and makes arrays of nodes and leaf weights of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from predgap._model.ensemble import LEAF
from predgap._typing import BoolArray, FloatArray
from predgap.errors import LoaderError, UnsupportedModelError
from predgap.loaders._formats.protobuf import Message, encode, from_bytes
from predgap.loaders.translation import Integers

__all__ = [
    "CLASSIFIER",
    "EQ",
    "GENERAL",
    "GT",
    "GTE",
    "LEQ",
    "LT",
    "MEMBER",
    "TreeNode",
    "Trees",
    "read",
    "read_trees",
    "single_node_model",
    "tree_of_node",
]

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, NO_SPLIT = range(8)  # as TreeEnsemble numbers them, and one for leaves
_MODES: Final = {
    **{b"BRANCH_LEQ": LEQ, b"BRANCH_LT": LT, b"BRANCH_GTE": GTE, b"BRANCH_GT": GT},
    **{b"BRANCH_EQ": EQ, b"BRANCH_NEQ": NEQ, b"LEAF": NO_SPLIT},
}
_AGGREGATES: Final = ("AVERAGE", "SUM", "MIN", "MAX")  # as TreeEnsemble numbers them
_TRANSFORMS: Final = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
UNUSED: Final = ("nodes_hitrates", "nodes_hitrates_as_tensor", "post_transform")
"""Attributes that do not change margins."""

_LISTED: Final = frozenset(
    {"nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_values"}
    | {"nodes_values_as_tensor", "nodes_truenodeids", "nodes_falsenodeids", "nodes_missing_value_tracks_true"}
    | {"base_values", "base_values_as_tensor", *UNUSED}
)
_WEIGHTS: Final = ("treeids", "nodeids", "ids", "weights", "weights_as_tensor")
_KNOWN: Final = {
    "TreeEnsembleRegressor": _LISTED
    | {"n_targets", "aggregate_function", *(f"target_{name}" for name in _WEIGHTS)},
    "TreeEnsembleClassifier": _LISTED
    | {"classlabels_int64s", "classlabels_strings", *(f"class_{name}" for name in _WEIGHTS)},
    "TreeEnsemble": frozenset(
        {"aggregate_function", "leaf_targetids", "leaf_weights", "membership_values", "n_targets"}
        | {"nodes_falseleafs", "nodes_falsenodeids", "nodes_featureids", "nodes_missing_value_tracks_true"}
        | {"nodes_modes", "nodes_splits", "nodes_trueleafs", "nodes_truenodeids", "tree_roots", *UNUSED}
    ),
}
_MAX_TARGETS: Final = 1_000_000  # so that a damaged number does not allocate all memory
_MAX_DEPTH: Final = 1_000  # onnxruntime crashes on trees that are much deeper

_T = TypeVar("_T")


class Trees(NamedTuple):
    """The nodes of all trees, and the weights that their leaves add to targets."""

    root: Integers  # (n_trees,)
    feature: Integers  # (n_nodes,) LEAF at leaves
    mode: Integers  # (n_nodes,)
    split: FloatArray  # (n_nodes,)
    true: Integers  # (n_nodes,) child if the comparison is true, LEAF at leaves
    false: Integers
    missing_true: BoolArray
    member: tuple[Integers, FloatArray]  # members of sets of categories: node and code
    leaf: Integers  # (n_weights,) node
    target: Integers  # (n_weights,)
    weight: FloatArray  # (n_weights,)
    n_targets: int
    base: FloatArray  # (0,) or (n_targets,), or one for a binary classifier
    average: bool
    transform: str  # post_transform


def read_trees(node: TreeNode) -> Trees:
    """The trees of a node; names of attributes are those of ONNX."""
    news = node.attributes.keys() - _KNOWN[node.operator]
    if news:
        raise UnsupportedModelError(
            f"{node.operator} has the attribute {min(news)[:40]!r}, which predgap does not know"
        )
    attributes = _Attributes(node)
    trees = _general(attributes) if node.operator == GENERAL else _listed(attributes)
    return _with_sets(trees)


class _Attributes:
    """The attributes of a node, read by name and type; LoaderError if one has another type."""

    def __init__(self, node: TreeNode) -> None:
        self.classifies = node.operator == CLASSIFIER
        self._found = node.attributes
        self._kind = node.tree_kind

    def _get(self, name: str, kind: type[_T], default: Value | None) -> _T:
        found = self._found.get(name, default)
        if not isinstance(found, kind):
            what = "missing" if found is None else "of another type than ONNX has for it"
            raise LoaderError(f"the attribute {name!r} is {what}; the ONNX model is damaged")
        return found

    def integers(self, name: str, n: int | None = None, *, most: int = 2**31 - 1) -> Integers:
        """Numbers from 0 to `most`, n of them if that is given."""
        found = _sized(self._get(name, np.ndarray, np.empty(0, dtype=np.int64)), name, n)
        if found.dtype != np.int64 or ((found < 0) | (found > most)).any():
            raise LoaderError(f"{name} has entries that are not from 0 to {most}; the ONNX model is damaged")
        return found

    def flags(self, name: str, n: int) -> BoolArray:
        """n booleans, stored as 0 and 1; all False if the attribute is absent."""
        found = self.integers(name, most=1)
        return _sized(found, name, n).astype(np.bool_) if len(found) else np.zeros(n, dtype=np.bool_)

    def floats(self, name: str, n: int | None = None) -> FloatArray:
        """Numbers from the list or the tensor of this name (older operators have both forms)."""
        both = [key for key in (name, f"{name}_as_tensor") if key in self._found]
        if len(both) > 1:
            raise LoaderError(f"{both[0]} and {both[1]} are both present; the ONNX model is damaged")
        return self.tensor(both[0], n) if both and both[0] != name else self._singles(name, n)

    def _singles(self, name: str, n: int | None) -> FloatArray:
        found = _sized(self._get(name, np.ndarray, np.empty(0, dtype=np.float32)), name, n)
        if found.dtype != np.float32:
            raise LoaderError(f"{name} is no list of floats; the ONNX model is damaged")
        return _widened(found)

    def tensor(self, name: str, n: int | None = None, kind: type[Any] | None = None) -> NDArray[Any]:
        """Numbers of type `kind`; None is the type of rows."""
        kind = kind or self._kind
        found = _sized(self._get(name, np.ndarray, np.empty(0, dtype=kind)), name, n)
        if found.dtype != kind:
            raise UnsupportedModelError(
                f"{name} is {found.dtype}, but the rows need {np.dtype(kind)}, and no runtime takes both"
            )
        return found if kind is np.uint8 else _widened(found)

    def texts(self, name: str) -> list[bytes]:
        return self._get(name, list, [])

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """One of the choices; older operators store it as text, the newest as a number."""
        found = self._found.get(name, default)
        if isinstance(found, int) and 0 <= found < len(choices):
            return choices[found]
        if found not in choices:
            raise LoaderError(f"{name} is {str(found)[:40]!r}, expected one of {', '.join(choices)}")
        return str(found)

    def n_targets(self) -> int:
        n = self._n_classes() if self.classifies else self._get("n_targets", int, None)
        if not 1 <= n <= _MAX_TARGETS:
            raise LoaderError(f"the ONNX model has {n} targets or classes, expected 1 to {_MAX_TARGETS}")
        return n

    def _n_classes(self) -> int:
        numbers = self._get("classlabels_int64s", np.ndarray, np.empty(0))
        texts = self.texts("classlabels_strings")
        if len(numbers) and texts:
            raise LoaderError("the classes have both numbers and texts for labels; the ONNX model is damaged")
        return len(numbers) + len(texts)

    def average(self) -> bool:
        """True if the prediction is an average, False if it is a sum."""
        aggregate = self.choice("aggregate_function", _AGGREGATES, "SUM")
        if aggregate not in ("SUM", "AVERAGE"):
            raise UnsupportedModelError(
                f"aggregate_function is {aggregate}: the prediction is not a sum of trees; predgap handles "
                "SUM and AVERAGE"
            )
        return aggregate == "AVERAGE"

    def transform(self) -> str:
        """The transform that is applied to the sum, one of _TRANSFORMS."""
        return self.choice("post_transform", _TRANSFORMS, "NONE")


def _widened(numbers: NDArray[Any]) -> FloatArray:
    """The numbers as float64. NumPy warns of signalling NaN, which damaged files may hold."""
    with np.errstate(invalid="ignore"):
        return numbers.astype(np.float64)


def _sized(found: NDArray[Any], name: str, n: int | None) -> NDArray[Any]:
    if n is not None and len(found) != n:
        raise LoaderError(f"{name} has {len(found)} entries, expected {n}; the ONNX model is damaged")
    return found


# ---- TreeEnsembleRegressor and TreeEnsembleClassifier ----


def _listed(a: _Attributes) -> Trees:
    """The older operators: nodes and leaves in one list, each with the id of its tree and its own id."""
    mode = np.array(list(map(_MODES.get, a.texts("nodes_modes"), repeat(-1))), dtype=np.int32)
    n, inner = len(mode), mode != NO_SPLIT
    if (mode < 0).any():
        name = a.texts("nodes_modes")[int(np.argmin(mode))][:40].decode(errors="replace")
        raise LoaderError(f"nodes_modes has {name!r}, which ONNX does not have; the model is damaged")
    _refuse_modes(mode[inner])
    places = _Places(a.integers("nodes_treeids", n), a.integers("nodes_nodeids", n))
    true, false = np.full((2, n), LEAF)
    true[inner] = places.find(places.tree[inner], a.integers("nodes_truenodeids", n)[inner])
    false[inner] = places.find(places.tree[inner], a.integers("nodes_falsenodeids", n)[inner])
    prefix = "class" if a.classifies else "target"
    weight = a.floats(f"{prefix}_weights")
    trees, nodes, target = (
        a.integers(f"{prefix}_{name}", len(weight)) for name in ("treeids", "nodeids", "ids")
    )
    return Trees(
        root=places.first,
        feature=np.where(inner, a.integers("nodes_featureids", n), LEAF),
        mode=mode,
        split=a.floats("nodes_values", n),
        true=true,
        false=false,
        missing_true=a.flags("nodes_missing_value_tracks_true", n),
        member=(np.empty(0, dtype=np.int64), np.empty(0)),
        leaf=places.find(places.tree_of(trees), nodes),
        target=target,
        weight=weight,
        n_targets=a.n_targets(),
        base=a.floats("base_values"),
        average=a.average(),
        transform=a.transform(),
    )


class _Places:
    """Finds the index of a node in the list by its tree and its id within the tree."""

    def __init__(self, tree_id: Integers, node_id: Integers) -> None:
        self.first = np.flatnonzero(np.diff(tree_id, prepend=-1))
        self.tree = np.cumsum(np.diff(tree_id, prepend=-1) != 0) - 1
        self._ids = tree_id[self.first]
        self._order = np.argsort(self._ids, kind="stable")
        key = (self.tree << 32) | node_id
        self._by_key = np.argsort(key, kind="stable")
        self._keys = key[self._by_key]
        if not len(key) or (np.diff(self._ids[self._order]) == 0).any() or (np.diff(self._keys) == 0).any():
            raise LoaderError(
                "the nodes of a tree are not next to one another, or two have the same number, or there are "
                "none; the ONNX model is damaged"
            )

    def tree_of(self, ids: Integers) -> Integers:
        """The trees with these ids, as indices 0, 1, ..."""
        at = np.minimum(np.searchsorted(self._ids, ids, sorter=self._order), len(self._ids) - 1)
        trees = self._order[at]
        if (self._ids[trees] != ids).any():
            raise LoaderError("a leaf weight refers to a tree that does not exist; the ONNX model is damaged")
        return trees

    def find(self, tree: Integers, node: Integers) -> Integers:
        """The indices in the list of nodes, given by tree index and node id."""
        key = (tree << 32) | node
        at = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        if (self._keys[at] != key).any():
            raise LoaderError(
                "a branch or weight refers to a node that does not exist; the ONNX model is damaged"
            )
        return self._by_key[at]


# ---- TreeEnsemble ----


def _general(a: _Attributes) -> Trees:
    """TreeEnsemble: nodes and leaves in two lists. A leaf is copied for each branch that leads to it."""
    mode = a.tensor("nodes_modes", kind=np.uint8).astype(np.int32)
    n = len(mode)
    _refuse_modes(mode)
    weight = a.tensor("leaf_weights")
    sides = [
        (a.integers(f"nodes_{side}nodeids", n), a.integers(f"nodes_{side}leafs", n, most=1) == 1)
        for side in ("true", "false")
    ]
    child = np.concatenate([to for to, _ in sides])
    to_leaf = np.concatenate([is_leaf for _, is_leaf in sides])
    if (child >= np.where(to_leaf, len(weight), n)).any():
        raise LoaderError("a branch leads to a node or leaf that does not exist; the ONNX model is damaged")
    root = a.integers("tree_roots", most=n - 1)
    _refuse_single_leaves(root, child.reshape(2, n), to_leaf.reshape(2, n))
    leaf = n - 1 + np.cumsum(to_leaf)
    true, false = np.split(np.where(to_leaf, leaf, child), 2)
    origin = child[to_leaf]

    def padded(values: NDArray[Any], filler: int) -> NDArray[Any]:
        return np.concatenate([values, np.full(len(origin), filler)])

    return Trees(
        root=root,
        feature=padded(a.integers("nodes_featureids", n), LEAF),
        mode=padded(mode, NO_SPLIT),
        split=padded(a.tensor("nodes_splits", n), 0),
        true=padded(true, LEAF),
        false=padded(false, LEAF),
        missing_true=padded(a.flags("nodes_missing_value_tracks_true", n), 0) != 0,
        member=_members(mode, a.tensor("membership_values")),
        leaf=leaf[to_leaf],
        target=a.integers("leaf_targetids", len(weight))[origin],
        weight=weight[origin],
        n_targets=a.n_targets(),
        base=np.empty(0),
        average=a.average(),
        transform=a.transform(),
    )


def _refuse_single_leaves(root: Integers, child: Integers, to_leaf: BoolArray) -> None:
    """Refuses trees of a single leaf whose root has another number than the leaf: runtimes then disagree."""
    true, false = child[:, root]
    if (to_leaf[:, root].all(axis=0) & (true == false) & (true != root)).any():
        raise UnsupportedModelError(
            "a tree is a single leaf, and its root has another number than that leaf, which runtimes read "
            "differently; give both the same number"
        )


def _members(mode: Integers, values: FloatArray) -> tuple[Integers, FloatArray]:
    """The members of the sets of BRANCH_MEMBER nodes, as node and category; a set ends with NaN."""
    nodes = np.flatnonzero(mode == MEMBER)
    end = np.isnan(values)
    if end.sum() != len(nodes) or (len(end) and not end[-1]):
        raise LoaderError(
            f"membership_values has {end.sum()} sets, expected {len(nodes)}; the ONNX model is damaged"
        )
    which = np.cumsum(end) - end
    return nodes[which[~end]], values[~end]


# ---- both ----


def _with_sets(trees: Trees) -> Trees:
    """The trees with sets of categories in place of BRANCH_EQ, or of chains of BRANCH_EQ.

    Converters write a set of categories as a chain of nodes: each compares with one category, and all have
    the same true branch. The first node of the chain gets the whole set, and the others are removed.
    """
    here = np.flatnonzero(trees.mode == EQ)
    joins = _joins_the_next(trees, here)
    joined = trees.false[here[joins]]
    head = np.arange(len(trees.mode))
    head[joined] = here[joins]
    for _ in range(len(head).bit_length()):  # each round halves the distance to the first node
        head = head[head]
    false, missing_true = trees.false.copy(), trees.missing_true.copy()
    false[head[here[~joins]]] = trees.false[here[~joins]]
    np.logical_or.at(missing_true, head[here], trees.missing_true[here])
    node = np.concatenate([head[here], trees.member[0]])
    code = np.concatenate([trees.split[here], trees.member[1]])
    changed = trees._replace(false=false, missing_true=missing_true, member=(node, code))
    return _without(changed, joined) if len(joined) else changed


def _without(trees: Trees, left_out: Integers) -> Trees:
    """The trees without these nodes, which no branch leads to any more."""
    keep = np.ones(len(trees.mode), dtype=np.bool_)
    keep[left_out] = False
    place = np.cumsum(keep) - 1
    weighs = keep[trees.leaf]
    return trees._replace(
        root=place[trees.root],
        feature=trees.feature[keep],
        mode=trees.mode[keep],
        split=trees.split[keep],
        true=np.where(trees.true == LEAF, LEAF, place[trees.true])[keep],
        false=np.where(trees.false == LEAF, LEAF, place[trees.false])[keep],
        missing_true=trees.missing_true[keep],
        member=(place[trees.member[0]], trees.member[1]),
        leaf=place[trees.leaf[weighs]],
        target=trees.target[weighs],
        weight=trees.weight[weighs],
    )


def _joins_the_next(trees: Trees, here: Integers) -> BoolArray:
    """True for the nodes that form a chain with the node at their false branch, which has no other parent."""
    then = trees.false[here]
    alike = (trees.mode[then] == EQ) & (trees.feature[then] == trees.feature[here])
    alike &= (trees.true[then] == trees.true[here]) & (_n_parents(trees)[then] == 1)
    return np.asarray(alike)


def _n_parents(trees: Trees) -> Integers:
    """The number of parents of each node; being a root counts as one."""
    inner = trees.feature != LEAF
    ways = np.concatenate([trees.root, trees.true[inner], trees.false[inner]])
    return np.bincount(ways, minlength=len(inner))


def _refuse_modes(mode: Integers) -> None:
    if (mode > MEMBER).any():
        raise LoaderError(f"nodes_modes has {mode.max()}, which ONNX does not have; the model is damaged")
    if (mode == NEQ).any():
        raise UnsupportedModelError(
            "the ONNX model splits with BRANCH_NEQ, where runtimes disagree about missing values; write it "
            "as BRANCH_EQ with the branches exchanged"
        )


def tree_of_node(trees: Trees) -> Integers:
    """The tree that each node is part of, (n_nodes,)."""
    inner, n_parents = trees.feature != LEAF, _n_parents(trees)
    if (n_parents > 1).any():
        raise UnsupportedModelError(
            f"node {np.argmax(n_parents)} of the ONNX model is reached in {n_parents.max()} ways; predgap "
            "handles trees, in which each node has one parent"
        )
    tree = np.full(len(inner), -1)
    tree[trees.root] = np.arange(len(trees.root))
    level = trees.root
    for _ in range(_MAX_DEPTH):
        level = level[inner[level]]
        if not len(level):
            break
        for child in (trees.true[level], trees.false[level]):
            tree[child] = tree[level]
        level = np.concatenate([trees.true[level], trees.false[level]])
    else:
        raise UnsupportedModelError(f"the ONNX model has a tree of more than {_MAX_DEPTH} levels")
    if (tree < 0).any():
        raise UnsupportedModelError(
            f"node {np.argmin(tree)} of the ONNX model is in no tree, and runtimes then mix up weights; "
            "leave it out"
        )
    return tree


# ------------------------------------------------------------------------------------------------------------
# The graph of a model has one node with trees. A model of that node alone is built for the check.

REGRESSOR, CLASSIFIER, GENERAL = "TreeEnsembleRegressor", "TreeEnsembleClassifier", "TreeEnsemble"
_DOMAIN: Final = "ai.onnx.ml"
_VERSIONS: Final = {REGRESSOR: (1, 4), CLASSIFIER: (1, 4), GENERAL: (5, 5)}  # of ai.onnx.ml that have them
_AROUND: Final = frozenset({("", "Cast"), ("", "Identity"), (_DOMAIN, "ZipMap")})


# Field numbers of onnx.proto, which never change.
class _ModelFields:
    PRODUCER, GRAPH, VERSIONS, FUNCTIONS = 2, 7, 8, 25


class _GraphFields:
    NODES, NAME, INPUTS, OUTPUTS = 1, 2, 11, 12


class _NodeFields:
    INPUTS, OUTPUTS, OPERATOR, ATTRIBUTES, DOMAIN = 1, 2, 4, 5, 7


class _AttributeFields:
    NAME, INTEGER, TEXT, TENSOR, FLOATS, INTEGERS, TEXTS, TYPE = 1, 3, 4, 5, 7, 8, 9, 20


class _TensorFields:
    TYPE, RAW, EXTERNAL, LOCATION = 2, 9, 13, 14


_FLOAT, _UINT8, _DOUBLE = 1, 2, 11
_ROW_KINDS: Final[dict[int, type[np.floating[Any]]]] = {_FLOAT: np.float32, _DOUBLE: np.float64}
_TYPE_NAMES: Final = (
    *("UNDEFINED", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL"),
    *("FLOAT16", "DOUBLE", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16"),
)
# Each element type of a tensor has a field with its numbers (unless they are raw bytes), and a dtype.
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
    if _ModelFields.FUNCTIONS in model:
        raise UnsupportedModelError("the ONNX model defines functions of its own; inline them first")
    graph = Message(model.part(_ModelFields.GRAPH))
    nodes = graph.messages(_GraphFields.NODES)
    node = _tree_node(nodes)
    types, n_features = _rows(node, nodes, graph)
    attributes = _attributes(node)
    return TreeNode(
        operator=node.text(_NodeFields.OPERATOR),
        version=_version(model, node.text(_NodeFields.OPERATOR)),
        attributes=attributes,
        raw=dict(zip(attributes, node.parts(_NodeFields.ATTRIBUTES), strict=True)),
        row_kind=np.float32 if _FLOAT in types else np.float64,
        tree_kind=_ROW_KINDS[types[0]],
        n_features=n_features,
        producer=model.text(_ModelFields.PRODUCER)[:60],
    )


def single_node_model(node: TreeNode, attributes: dict[str, bytes], n_features: int) -> bytes:
    """The bytes of a model of this node alone, with these attributes; its input is `X`, its output `Y`."""
    outputs = [b"L", b"Y"] if node.operator == CLASSIFIER else [b"Y"]
    trees = encode(
        (_NodeFields.INPUTS, b"X"),
        *((_NodeFields.OUTPUTS, name) for name in outputs),
        (_NodeFields.OPERATOR, node.operator.encode()),
        *((_NodeFields.ATTRIBUTES, attribute) for attribute in attributes.values()),
        (_NodeFields.DOMAIN, _DOMAIN.encode()),
    )
    element = _FLOAT if node.tree_kind is np.float32 else _DOUBLE
    shape = encode((1, b""), (1, encode((1, n_features))))
    table = encode((1, b"X"), (2, encode((1, encode((1, element), (2, shape))))))
    graph = encode(
        (_GraphFields.NODES, trees),
        (_GraphFields.NAME, b"trees"),
        (_GraphFields.INPUTS, table),
        (_GraphFields.OUTPUTS, encode((1, b"Y"))),
    )
    version = encode((1, _DOMAIN.encode()), (2, node.version))
    return encode((1, 8), (_ModelFields.GRAPH, graph), (_ModelFields.VERSIONS, version))


# ---- the graph ----


def _tree_node(nodes: list[Message]) -> Message:
    names = [(node.text(_NodeFields.DOMAIN), node.text(_NodeFields.OPERATOR)) for node in nodes]
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
    sets = model.messages(_ModelFields.VERSIONS)
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
    makers = {name: maker for maker in nodes for name in maker.parts(_NodeFields.OUTPUTS)}
    types, name = [], node.part(_NodeFields.INPUTS)
    for _ in nodes:  # a longer path would be a cycle
        if name not in makers:
            break
        maker = makers[name]
        if maker.text(_NodeFields.OPERATOR) == "Cast":
            types.append(_cast_type(maker))
        name = maker.part(_NodeFields.INPUTS)
    inputs = {entry.part(1): entry for entry in graph.messages(_GraphFields.INPUTS)}
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
    for attribute in node.messages(_NodeFields.ATTRIBUTES):
        name = attribute.text(_AttributeFields.NAME)
        if name in values:
            raise LoaderError(f"the attribute {name[:40]!r} occurs twice; the file is damaged")
        values[name] = _value(name, attribute)
    return values


def _value(name: str, found: Message) -> Value:
    """The value of an attribute, by the type that it states."""
    match found.integer(_AttributeFields.TYPE):
        case 2:
            return found.integer(_AttributeFields.INTEGER)
        case 3:
            return found.text(_AttributeFields.TEXT)
        case 4:
            return _tensor(name, Message(found.part(_AttributeFields.TENSOR)))
        case 6:
            return found.floats(_AttributeFields.FLOATS, np.dtype("<f4"))
        case 7:
            return found.integers(_AttributeFields.INTEGERS)
        case 8:
            return found.parts(_AttributeFields.TEXTS)
        case other:
            raise LoaderError(f"the attribute {name[:40]!r} has type {other}, which it cannot have")


def _tensor(name: str, tensor: Message) -> NDArray[Any]:
    """The numbers of a tensor as a flat array."""
    if _TensorFields.EXTERNAL in tensor or tensor.integer(_TensorFields.LOCATION):
        raise UnsupportedModelError(
            f"the attribute {name[:40]!r} is kept in another file; save the model with all data inside"
        )
    stated = tensor.integer(_TensorFields.TYPE)
    if stated not in _TENSORS:
        raise UnsupportedModelError(
            f"the attribute {name[:40]!r} is a tensor of {_type_name(stated)}; predgap handles FLOAT, DOUBLE "
            "and UINT8"
        )
    number, dtype = _TENSORS[stated]
    if _TensorFields.RAW in tensor:
        return from_bytes(tensor.part(_TensorFields.RAW), dtype)
    if stated != _UINT8:
        return tensor.floats(number, dtype)
    wide = tensor.integers(number)
    if ((wide < 0) | (wide > 255)).any():
        raise LoaderError(f"the attribute {name[:40]!r} has a number that is no byte; the file is damaged")
    return wide.astype(dtype)


def _type_name(number: int) -> str:
    return _TYPE_NAMES[number] if 0 <= number < len(_TYPE_NAMES) else f"of type {number}"
