"""The trees of CatBoost's JSON: from text to flat arrays of nodes.

There are two kinds. Symmetric trees are lists of splits and of leaves. All others are objects within objects,
indented ever deeper: a thousand such trees are 100 MB of text and a million objects. So they are read one at
a time, into flat lists.
"""

from __future__ import annotations

import json
import re
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np

from predgap.ensemble import BoolArray, FloatArray, IntArray
from predgap.errors import LoaderError
from predgap.loaders.documents import Document, numbers

__all__ = ["Nodes", "Splits", "dense", "loads", "nodes", "objects"]

_MAX_DEPTH: Final = 16  # of symmetric trees, as in CatBoost; they have 2^depth leaves
_LEAF_KEYS: Final = {"value", "weight"}
_BLANK: Final = " \n\r\t"

Splits = dict[Any, Document]
"""The splits of a model by their split_index, which is not checked yet."""


class Nodes(NamedTuple):
    """The nodes of all trees."""

    root: IntArray  # (n_trees,)
    inner: BoolArray  # (n_nodes,)
    place: FloatArray  # (n_inner,) split_index, not checked yet
    left: IntArray  # (n_nodes,) the left child, at inner nodes; the right one comes next
    value: FloatArray  # (n_leaves, n_outputs), in the order of the nodes
    splits: Splits


def dense(data: bytes) -> bytes:
    """A file without the spaces that indent its trees, three quarters of it; those in names stay."""
    start = data.find(b'"trees"')
    if start < 0 or data.find(b'"features_info"', start) >= 0:
        return data
    head, blank = data[:start], _BLANK.encode()
    return head + data.translate(None, blank)[len(head.translate(None, blank)) :]


def loads(text: str) -> Any:
    """What a JSON text holds, but for its "trees": these are `_Grown`."""
    opening = re.search(r'"trees"\s*:\s*\[', text)
    if opening is None:
        return json.loads(text)
    grown = _Grown()
    end = grown.read(text, opening.end())
    found = json.loads(text[: opening.end()] + text[end:])
    if isinstance(found, dict) and found.get("trees") == []:
        found["trees"] = grown
    return found


def nodes(document: Document, width: int) -> Nodes:
    """The nodes of a document that `loads` made, with leaves of so many values."""
    grown, symmetric = document.get("trees"), objects(document, "oblivious_trees")
    if isinstance(grown, _Grown) and grown.sizes and not symmetric:
        return _from_grown(grown, width)
    if not symmetric or "trees" in document:  # CatBoost itself cannot predict with a model shrunk to none
        raise LoaderError("the model has no trees, or has two kinds; is it a CatBoost model saved as JSON?")
    return _from_symmetric(symmetric, width)


def objects(parent: Document, name: str) -> list[Document]:
    """A list of objects; CatBoost writes null for an empty one."""
    children = parent.get(name)
    if children is None:
        return []
    if not isinstance(children, list) or not set(map(type, children)) <= {dict}:
        raise LoaderError(f"{name} is not a list of objects; the file is damaged")
    return children


def _places(splits: list[Any], known: Splits) -> list[Any]:
    """The split_index of each split. It says all, so `known` keeps one split of each; others must agree."""
    try:
        places = [split["split_index"] for split in splits]
        agree = [*map(known.setdefault, places, splits)] == splits
    except (KeyError, TypeError):
        raise LoaderError("a split has no split_index; the file is damaged") from None
    if not agree:
        raise LoaderError("splits with the same split_index differ; the file is damaged")
    return places


# ---- symmetric trees ----


def _from_symmetric(trees: list[Document], width: int) -> Nodes:
    """Trees that ask one question per level: each a heap, its nodes level by level.

    Bit k of a leaf's number is the answer to split k. So the root asks the last split, which decides the
    highest bit: the leaves are then in the order of their numbers.
    """
    splits: Splits = {}
    places = [_places(objects(tree, "splits"), splits) for tree in trees]
    depth = np.array([len(part) for part in places], dtype=np.int32)
    if (depth > _MAX_DEPTH).any():
        raise LoaderError(f"a tree has {depth.max()} levels, CatBoost's symmetric trees up to {_MAX_DEPTH}")
    values = [numbers(tree.get("leaf_values"), "leaf_values") for tree in trees]
    for i, (part, levels) in enumerate(zip(values, depth.tolist(), strict=True)):
        if part.size != width << levels:
            raise LoaderError(f"tree {i} has {part.size} leaf_values, expected {width} * 2^{levels}")
    size = (2 << depth) - 1
    root = np.cumsum(size, dtype=np.int32) - size
    heap = np.arange(size.sum(), dtype=np.int32) - np.repeat(root, size)  # place in it
    level = np.frexp(heap + 1.0)[1] - 1
    inner, last = level < np.repeat(depth, size), np.repeat(np.cumsum(depth) - 1, size)
    return Nodes(
        root=root,
        inner=inner,
        place=numbers([*chain.from_iterable(places)], "split_index")[last[inner] - level[inner]],
        left=np.repeat(root, size) + 2 * heap + 1,
        value=np.concatenate(values).reshape(-1, width),
        splits=splits,
    )


# ---- trees of any shape ----


class _Grown:
    """Trees as flat lists; in a tree, the children of a node follow those of all nodes before it."""

    def __init__(self) -> None:
        self.sizes: list[int] = []  # number of nodes of each tree
        self.inner: list[bool] = []  # of each node
        self.places: list[Any] = []  # split_index of each inner node
        self.values: list[FloatArray] = []  # of the leaves of each tree, (n,) or (n, n_outputs)
        self.splits: Splits = {}

    def read(self, text: str, at: int) -> int:
        """Add the trees of the list whose first one begins at or after `at`; where the list ends."""
        decoder, blank = json.JSONDecoder(), re.compile(f"[{_BLANK}]*")

        def next_after(at: int) -> int:
            return blank.match(text, at).end()  # type: ignore[union-attr]  # which matches nothing, too

        at = next_after(at)
        while text[at : at + 1] != "]":
            tree, at = decoder.raw_decode(text, at)
            self._add(tree)
            at = next_after(at)
            if text[at : at + 1] != ",":
                break
            at = next_after(at + 1)
        return at

    def _add(self, tree: Any) -> None:
        queue, leaves, splits = [tree], [], []
        try:
            for node in queue:  # which grows meanwhile
                if len(node) == 3:
                    splits.append(node["split"])
                    queue += (node["left"], node["right"])
                else:
                    leaves.append(node)
            values = [leaf["value"] for leaf in leaves]
        except (KeyError, TypeError):
            raise LoaderError("a node has neither a value, nor left, right and split") from None
        if not _LEAF_KEYS.issuperset(chain.from_iterable(leaves)):
            raise LoaderError("a leaf has something else than a value and a weight")
        self.sizes.append(len(queue))
        self.inner += [len(node) == 3 for node in queue]
        self.places += _places(splits, self.splits)
        self.values.append(_leaf_values(values))


def _leaf_values(values: list[Any]) -> FloatArray:
    """One number for each leaf, (n,), or a list of equally many, (n, n_outputs)."""
    if not isinstance(values[0], list):
        return numbers(values, "the value of a leaf")
    width = len(values[0])
    if not all(isinstance(value, list) and len(value) == width for value in values):
        raise LoaderError("the leaves of a tree have different numbers of values; the file is damaged")
    return numbers([*chain.from_iterable(values)], "the value of a leaf").reshape(len(values), width)


def _from_grown(grown: _Grown, width: int) -> Nodes:
    expected = () if width == 1 else (width,)
    if any(part.shape[1:] != expected for part in grown.values):
        raise LoaderError(f"a leaf does not have {width} values, one per output; the file is damaged")
    size, inner = np.array(grown.sizes, dtype=np.int32), np.array(grown.inner)
    root = np.cumsum(size, dtype=np.int32) - size
    before = np.cumsum(inner, dtype=np.int32) - inner  # inner nodes in front of each node
    return Nodes(
        root=root,
        inner=inner,
        place=numbers(grown.places, "split_index"),
        left=np.repeat(root + 1 - 2 * before[root], size) + 2 * before,
        value=np.concatenate(grown.values).reshape(-1, width),
        splits=grown.splits,
    )
