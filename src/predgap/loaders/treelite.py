"""Loads treelite models (treelite 4), as objects.

An ensemble predicts what `treelite.gtil.predict(model, X, pred_margin=True)` predicts: the sum or average of
the trees plus the base scores, without the postprocessor (a sigmoid, a softmax, ...). Each class of each
target is an output, one target after the other. The load is checked against this prediction and against
`predict_leaf`.

Rows have the precision of treelite's thresholds, even if the library that trained the model uses another, and
whatever treelite changed when it imported the model stays changed. To explain the predictions of the original
library, pass its own model.

Files are not supported: treelite's checkpoints are a binary image of one version, and the JSON of
`dump_as_json` states no version and cannot be read by treelite itself.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._model.ensemble import ALL_OUTPUTS, LEAF, Ensemble
from predgap._model.links import Link
from predgap._typing import BoolArray, FloatArray
from predgap.errors import EnsembleError, LoaderError, UnsupportedModelError
from predgap.loaders import translation
from predgap.loaders.translation import Integers, as_cuts, as_sets, numbered

__all__ = ["from_object"]

_MAJOR_VERSION: Final = 4
_LEAF, _BY_THRESHOLD, _BY_SET = 0, 1, 2  # types of nodes
_LT, _LE, _GT, _GE = 2, 3, 4, 5  # comparisons; 1 is ==
_KINDS: Final[dict[str, type[np.floating[Any]]]] = {"float32": np.float32, "float64": np.float64}

_NODE_FIELDS: Final = (
    *("node_type", "cleft", "cright", "split_index", "default_left", "threshold", "cmp", "leaf_value"),
    *("leaf_vector_begin", "leaf_vector_end"),
    *("category_list_begin", "category_list_end", "category_list_right_child"),
)
_LIST_FIELDS: Final = ("leaf_vector", "category_list")

_ask = partial(translation.ask_library, "treelite")
Columns = dict[str, NDArray[Any]]


def from_object(model: Any) -> Ensemble:
    """The ensemble of a `treelite.Model`, checked against treelite's own leaves and margins."""
    kind = _ask("be read", lambda: _KINDS[model.input_type])  # first: on invalid objects accessors crash
    header = _header(model)
    trees = _ask("be read", lambda: _columns(model, int(header["num_tree"][0])))
    outputs = _TreeOutputs(header)
    try:
        ensemble = Ensemble(
            **_nodes(trees, outputs, int(header["num_feature"][0]), kind),
            bias=outputs.select(header["base_scores"]),
            n_features=int(header["num_feature"][0]),
            class_names=numbered(outputs.n, binary=False) if outputs.are_classes else None,
            link=_link(header),
            source=f"treelite {header['major_ver'][0]}.{header['minor_ver'][0]} {header['postprocessor']}",
        )
    except EnsembleError as error:
        raise LoaderError(f"the treelite model is damaged: {error}; import it again") from error
    _check(ensemble, model, outputs, kind)
    return ensemble


def _check(ensemble: Ensemble, model: Any, outputs: _TreeOutputs, kind: type[np.floating[Any]]) -> None:
    gtil = import_module("treelite.gtil")

    def rounded(rows: translation.Rows) -> NDArray[Any]:
        with np.errstate(over="ignore"):
            return rows.astype(kind)

    def margins(rows: translation.Rows) -> Any:
        found = _ask("predict", lambda: gtil.predict(model, rounded(rows), nthread=1, pred_margin=True))
        return found.reshape(len(rows), -1)[:, outputs.place.ravel() >= 0]

    def leaves(rows: translation.Rows) -> Any:
        return _ask("predict", lambda: gtil.predict_leaf(model, rounded(rows), nthread=1))

    translation.check_predictions(
        ensemble,
        library="treelite",
        margins=margins,
        leaves=leaves if ensemble.n_trees else None,
        double=kind == np.float64,
    )


# ---- from treelite's accessors ----


def _header(model: Any) -> dict[str, Any]:
    accessor = _ask("be read", model.get_header_accessor, "predgap needs treelite 4.3 or newer")

    def field(name: str) -> Any:
        found = _ask("be read", lambda: accessor.get_field(name))
        return found if isinstance(found, str) else found.copy()  # a view of memory that may be freed

    version = field("major_ver")
    if version[0] != _MAJOR_VERSION:
        raise UnsupportedModelError(
            f"the model was made by treelite {version[0]}; predgap knows treelite {_MAJOR_VERSION}"
        )
    names = ("num_tree", "num_feature", "num_target", "num_class", "target_id", "class_id", "base_scores")
    more = (
        "major_ver",
        "minor_ver",
        "leaf_vector_shape",
        "average_tree_output",
        "postprocessor",
        "sigmoid_alpha",
    )
    return {name: field(name) for name in names + more}


def _link(header: dict[str, Any]) -> Link | None:
    """The link from margins to predictions, which the postprocessor names."""
    name, alpha = header["postprocessor"], float(header["sigmoid_alpha"][0])
    if name in ("sigmoid", "multiclass_ova"):
        return Link("logistic", alpha)
    if name == "identity":
        return None
    if name == "identity_multiclass":
        return Link("identity")
    return Link("softmax" if name == "softmax" and len(header["num_class"]) == 1 else "other")


def _columns(model: Any, n_trees: int) -> Columns:
    """The fields of all trees, concatenated; `sizes` is the number of nodes of each tree.

    The begins and ends of lists are indices into the concatenated lists.
    """
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in _NODE_FIELDS + _LIST_FIELDS}
    for tree in range(n_trees):
        accessor = model.get_tree_accessor(tree)
        for name, found in parts.items():
            found.append(accessor.get_field(name).copy())
    columns = {name: np.concatenate(found) if found else np.empty(0, int) for name, found in parts.items()}
    columns["sizes"] = sizes = np.array([len(part) for part in parts["node_type"]], dtype=np.int64)
    for name in _LIST_FIELDS:
        lengths = np.array([len(part) for part in parts[name]], dtype=np.int64)
        before = np.repeat(np.cumsum(lengths) - lengths, sizes)
        for end in ("begin", "end"):
            columns[f"{name}_{end}"] = columns[f"{name}_{end}"].astype(np.int64) + before
    return columns


class _TreeOutputs:
    """The outputs that there are, and which of them each tree adds to."""

    def __init__(self, header: dict[str, Any]) -> None:
        n_classes = header["num_class"]
        self.place = np.full((int(header["num_target"][0]), int(n_classes.max())), -1)
        real = np.arange(self.place.shape[1]) < n_classes[:, None]  # targets may have fewer classes
        self.place[real] = np.arange(real.sum())
        self.n = int(real.sum())
        self.are_classes = len(n_classes) == 1 and self.n > 1  # treelite numbers them; one output may be any
        self.shape = tuple(header["leaf_vector_shape"].tolist())
        self.trees: dict[tuple[int, int], list[int]] = {}  # the trees of each (target, class)
        pairs = zip(header["target_id"].tolist(), header["class_id"].tolist(), strict=True)
        for tree, pair in enumerate(pairs):
            self.trees.setdefault(pair, []).append(tree)
        self.divisor = self._divisor() if header["average_tree_output"][0] else np.ones(self.n)

    def select(self, table: NDArray[Any]) -> NDArray[Any]:
        """Selects the entries of classes that exist from a table with an entry for every target and class."""
        if table.size != self.place.size:
            raise LoaderError(
                f"the treelite model has {table.size} base scores, expected {self.place.size}; "
                "import it again"
            )
        return table.reshape(self.place.shape)[self.place >= 0]

    def of(self, pair: tuple[int, int]) -> Integers:
        """The outputs of the values of a leaf, for a tree of this (target, class), where -1 means all."""
        rows, columns = (slice(None) if which == -1 else [which] for which in pair)
        try:
            block = self.place[rows][:, columns]
        except IndexError:
            block = np.empty((0, 0), dtype=np.int64)
        if block.shape != self.shape:
            raise LoaderError(
                f"a treelite tree for target {pair[0]} and class {pair[1]} has leaves of shape {self.shape}, "
                f"expected {block.shape}; import it again"
            )
        return block.ravel()

    def _divisor(self) -> FloatArray:
        """The number of trees that each output is the average of."""
        count = np.zeros(self.n)
        for pair, trees in self.trees.items():
            place = self.of(pair)
            count[place[place >= 0]] += len(trees)
        if (count == 0).any():
            raise UnsupportedModelError(
                f"output {np.argmin(count)} of the treelite model is an average of no trees"
            )
        return count


# ---- to node arrays ----


def _nodes(
    trees: Columns, outputs: _TreeOutputs, n_features: int, kind: type[np.floating[Any]]
) -> dict[str, Any]:
    sizes, node_type, compare = trees["sizes"], trees["node_type"], trees["cmp"]
    inner, by_set = node_type != _LEAF, node_type == _BY_SET
    numeric = inner & ~by_set
    _refuse_other_splits(node_type[inner], compare[numeric])
    root = np.cumsum(sizes) - sizes
    offset, size = np.repeat(root, sizes), np.repeat(sizes, sizes)
    for child in (trees["cleft"], trees["cright"]):
        if (inner & ((child <= 0) | (child >= size))).any():
            raise LoaderError("a treelite node has a child outside its tree; import the model again")
    cuts = as_cuts(
        np.where(numeric, trees["threshold"], 0.0),
        np.where(inner, trees["cleft"] + offset, LEAF),
        np.where(inner, trees["cright"] + offset, LEAF),
        inner & (trees["default_left"] != 0),
        inclusive=numeric & np.isin(compare, (_LE, _GT)),
        upward=np.where(by_set, trees["category_list_right_child"] != 0, np.isin(compare, (_GT, _GE)))
        & inner,
        kind=kind,
    )
    feature = np.where(inner, trees["split_index"], LEAF)
    value, target = _values(trees, outputs, root)
    return {
        **cuts.fields(kind),
        **as_sets(feature, by_set, *_categories(trees, by_set), n_features, kind),
        "root": root,
        "feature": feature,
        "value": value,
        "target": target,
    }


def _refuse_other_splits(node_type: NDArray[Any], compare: NDArray[Any]) -> None:
    if not np.isin(node_type, (_BY_THRESHOLD, _BY_SET)).all():
        raise UnsupportedModelError(
            f"the treelite model has nodes of type {node_type.max()}, which predgap does not know"
        )
    other = compare[~np.isin(compare, (_LT, _LE, _GT, _GE))]
    if len(other):
        name = "==" if other[0] == 1 else f"number {other[0]}"
        raise UnsupportedModelError(
            f"the treelite model splits with the comparison {name}; predgap handles <, <=, > and >=, and "
            "categorical splits"
        )


def _categories(trees: Columns, by_set: BoolArray) -> tuple[Integers, FloatArray]:
    """The members of all sets of categories: the node of the set, and the code."""
    begin, end = (np.where(by_set, trees[f"category_list_{which}"], 0) for which in ("begin", "end"))
    node = np.repeat(np.arange(len(by_set)), end - begin)
    within = np.arange(len(node)) - np.repeat(np.cumsum(end - begin) - (end - begin), end - begin)
    code = trees["category_list"][begin[node] + within].astype(np.float64)
    return node, code


def _values(trees: Columns, outputs: _TreeOutputs, root: Integers) -> tuple[FloatArray, Integers]:
    """The values of leaves, and the output that each tree adds to."""
    sizes = trees["sizes"]
    vectors = _leaf_vectors(trees, int(np.prod(outputs.shape)))
    target = np.full(len(sizes), ALL_OUTPUTS)
    if vectors.shape[1] == 1:
        for pair, members in outputs.trees.items():
            target[members] = outputs.of(pair)[0]
        return vectors / np.repeat(outputs.divisor[target], sizes)[:, None], target
    value = np.zeros((len(vectors), outputs.n))
    for pair, members in outputs.trees.items():
        place = outputs.of(pair)
        rows = np.repeat(np.isin(np.arange(len(sizes)), members), sizes)
        value[np.ix_(rows, place[place >= 0])] = vectors[np.ix_(rows, place >= 0)]
    return value / outputs.divisor, target


def _leaf_vectors(trees: Columns, width: int) -> FloatArray:
    """The values of each leaf, (n_nodes, width); 0 at other nodes."""
    leaf = trees["node_type"] == _LEAF
    begin, length = trees["leaf_vector_begin"], trees["leaf_vector_end"] - trees["leaf_vector_begin"]
    has_vector = leaf & (length > 0)
    if (leaf & (length != width) & (has_vector | (width > 1))).any():
        raise LoaderError(f"a treelite leaf does not have {width} values; import the model again")
    vectors = np.zeros((len(leaf), width))
    vectors[leaf & ~has_vector, 0] = trees["leaf_value"][leaf & ~has_vector]
    vectors[has_vector] = trees["leaf_vector"][begin[has_vector, None] + np.arange(width)]
    return vectors
