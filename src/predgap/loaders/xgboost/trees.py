"""Converts XGBoost's trees to the node arrays of an ensemble."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._model.ensemble import ALL_OUTPUTS, LEAF, NUMERIC
from predgap._typing import BoolArray, FloatArray, IntArray
from predgap.errors import LoaderError
from predgap.loaders._formats.documents import Document, single
from predgap.loaders.xgboost.document import integers, numbers_of, tree_param

_DELETED: Final = 2**31 - 1  # the split feature of a node that pruning removed


def read_nodes(trees: list[Document], info: IntArray, weights: FloatArray, n_outputs: int) -> dict[str, Any]:
    """The node arrays of all trees, concatenated; the order of nodes within a tree is kept."""
    width = _leaf_width(trees, n_outputs)
    sizes = np.array([tree_param(tree, "num_nodes") for tree in trees], dtype=np.int64)
    left, right, split, default = (
        integers(_column(trees, name, sizes), name)
        for name in ("left_children", "right_children", "split_indices", "default_left")
    )
    condition = single(_column(trees, "split_conditions", sizes))
    inner = (left != LEAF) & (split != _DELETED)
    first = np.cumsum(sizes) - sizes
    offset = np.repeat(first, sizes)
    _check_links(left, right, inner, offset, np.repeat(sizes, sizes), split == _DELETED)
    value = condition[:, None] if width == 1 else _leaf_vectors(trees, sizes, width, right)
    value = np.where(inner[:, None] | (split == _DELETED)[:, None], 0.0, value)
    sets = _category_sets(trees, sizes, inner)
    swapped = sets["category_set"] != NUMERIC  # XGBoost sends the categories of a set to the right
    return {
        **sets,
        "root": first,
        "feature": np.where(inner, split, LEAF),
        "threshold": np.where(inner & ~swapped, condition, 0.0),
        "left": np.where(inner, np.where(swapped, right, left) + offset, LEAF),
        "right": np.where(inner, np.where(swapped, left, right) + offset, LEAF),
        "default_left": inner & ((default != 0) != swapped),
        "value": value * np.repeat(weights, sizes)[:, None],
        "target": info if width == 1 else np.full(len(trees), ALL_OUTPUTS),
    }


def _leaf_width(trees: list[Document], n_outputs: int) -> int:
    """How many values a leaf holds: 1, or one per output. Old files say 0 for 1."""
    widths = {max(1, tree_param(tree, "size_leaf_vector", 1)) for tree in trees} or {1}
    if widths not in ({1}, {n_outputs}):
        raise LoaderError(f"leaves hold {sorted(widths)} values, expected 1 or {n_outputs} in all trees")
    return widths.pop()


def _check_links(
    left: IntArray,
    right: IntArray,
    inner: BoolArray,
    offset: NDArray[np.int64],
    size: NDArray[np.int64],
    deleted: BoolArray,
) -> None:
    """LoaderError unless children lie within their tree and no row can reach a pruned node."""
    outside = inner & ((left < 0) | (left >= size) | (right < 0) | (right >= size))
    if outside.any():
        raise LoaderError(f"node {np.argmax(outside)} has a child outside its tree; the file is damaged")
    reached = np.zeros(len(left), dtype=bool)
    reached[offset] = True
    reached[(left + offset)[inner]] = True
    reached[(right + offset)[inner]] = True
    if (reached & deleted).any():
        raise LoaderError(
            f"node {np.argmax(reached & deleted)} was pruned but is in use; the file is damaged"
        )


def _category_sets(
    trees: list[Document], sizes: NDArray[np.int64], inner: BoolArray
) -> dict[str, NDArray[Any]]:
    """The set of each node that splits on categories, and the codes of each set."""
    split_type = integers(_column(trees, "split_type", sizes), "split_type")
    at = np.flatnonzero(split_type)
    category_set = np.full(len(split_type), NUMERIC)
    if not len(at):
        return {"category_set": category_set, "set_begin": np.zeros(1, int), "set_code": np.empty(0, int)}
    nodes, starts, counts, codes = (
        [integers(numbers_of(tree.get(name), name), name) for tree in trees]
        for name in ("categories_nodes", "categories_segments", "categories_sizes", "categories")
    )
    begin = np.concatenate([[0], np.cumsum(np.concatenate(counts), dtype=np.int64)])
    set_code = np.concatenate(codes)
    if (
        (split_type[at] != 1).any()
        or not list(map(len, nodes)) == list(map(len, starts)) == list(map(len, counts))
        or not np.array_equal(_shifted(nodes, sizes), at)
        or not np.array_equal(_shifted(starts, np.array(list(map(len, codes)))), begin[:-1])
        or begin[-1] != len(set_code)
        or (np.diff(begin) < 1).any()
    ):
        raise LoaderError("the sets of categories do not fit the splits; the file is damaged")
    category_set[at] = np.where(inner[at], np.arange(len(at)), NUMERIC)  # a pruned split keeps its set
    return {"category_set": category_set, "set_begin": begin, "set_code": set_code}


def _shifted(parts: list[IntArray], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices within each tree, as indices into the concatenated arrays of all trees."""
    shift: NDArray[np.int64] = np.repeat(np.cumsum(sizes) - sizes, list(map(len, parts)))
    return shift + np.concatenate(parts)


def _leaf_vectors(trees: list[Document], sizes: NDArray[np.int64], width: int, right: IntArray) -> FloatArray:
    """Leaf vectors (n_nodes, width); rows of other nodes have no meaning."""
    if not all("leaf_weights" in tree for tree in trees):  # before 3.2: a vector for every node
        return single(_column(trees, "base_weights", sizes * width)).reshape(-1, width)
    # Since 3.2 there are vectors for leaves only; `right_children` of a leaf is the number of its vector.
    blocks = [single(numbers_of(tree["leaf_weights"], "leaf_weights")) for tree in trees]
    counts = np.array([block.size // width for block in blocks])
    at = right + np.repeat(np.cumsum(counts) - counts, sizes)
    leaf = _column(trees, "left_children", sizes) == LEAF
    if (
        any(block.size % width for block in blocks)
        or (leaf & ((right < 0) | (right >= np.repeat(counts, sizes)))).any()
    ):
        raise LoaderError("leaf_weights does not fit the leaves; the file is damaged")
    return np.concatenate(blocks).reshape(-1, width)[np.where(leaf, at, 0)]


def _column(trees: list[Document], name: str, sizes: NDArray[np.int64]) -> NDArray[Any]:
    """One field of all trees, concatenated; LoaderError if its length in a tree is not that in `sizes`."""
    parts = [numbers_of(tree.get(name), name) for tree in trees]
    for i, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        if part.size != size:
            raise LoaderError(f"tree {i} has {part.size} {name}, expected {size}; the file is damaged")
    return np.concatenate(parts) if parts else np.empty(0)
