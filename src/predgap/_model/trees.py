"""Whole trees of an ensemble: which nodes are theirs, and which trees of two ensembles are equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from predgap._model.validation import LEAF, NUMERIC
from predgap._typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:  # it imports this module
    from predgap._model.ensemble import Ensemble

Ids = NDArray[np.int64]


def levels_of(e: Ensemble) -> Iterator[tuple[IntArray, IntArray]]:
    """The nodes at each depth, from the roots down, and the tree of each of them."""
    nodes, trees = e.root, np.arange(e.n_trees, dtype=np.int32)
    while len(nodes):
        yield nodes, trees
        inner = e.feature[nodes] != LEAF
        nodes, trees = (
            np.concatenate([e.left[nodes[inner]], e.right[nodes[inner]]]),
            np.tile(trees[inner], 2),
        )


def tree_of_node(e: Ensemble) -> IntArray:
    """The tree of each node, (n_nodes,); -1 for nodes of no tree."""
    out = np.full(e.n_nodes, -1, dtype=np.int32)
    for nodes, trees in levels_of(e):
        out[nodes] = trees
    return out


def pruned(e: Ensemble) -> Ensemble:
    """The same ensemble without the nodes that no tree contains any more."""
    kept = tree_of_node(e) >= 0
    number = np.append(np.cumsum(kept, dtype=np.int32) - 1, LEAF).astype(np.int32)  # LEAF stays LEAF
    by_node = ("feature", "threshold", "default_left", "value", "category_set")
    return replace(
        e,
        root=number[e.root],
        left=number[e.left[kept]],
        right=number[e.right[kept]],
        **{name: getattr(e, name)[kept] for name in by_node},
    )


def without_equal_trees(f: Ensemble, g: Ensemble) -> tuple[Ensemble, Ensemble]:
    """Both ensembles without the trees that they have in common, as often as both have them.

    Trees are equal if they have the same splits in the same places, the same leaf values, and add to the same
    output. Both ensembles have the same features.

    Examples
    --------
    >>> from predgap import Ensemble
    >>> def constants(*values):
    ...     n = len(values)
    ...     return Ensemble(
    ...         root=range(n), feature=[-1] * n, threshold=[0] * n, left=[-1] * n, right=[-1] * n,
    ...         default_left=[False] * n, value=[[v] for v in values], target=[0] * n, bias=[0.0],
    ...         n_features=1)
    >>> f, g = without_equal_trees(constants(1.0, 2.0, 2.0), constants(2.0, 3.0))
    >>> f.value.ravel(), g.value.ravel()
    (array([1., 2.]), array([3.]))
    """
    if f.value.shape[1] != g.value.shape[1]:
        return f, g
    ids = _numbers_of_trees(f, g)
    n_classes = int(ids.max(initial=-1)) + 1
    mine, theirs = ids[: f.n_trees], ids[f.n_trees :]
    common = np.minimum(*(np.bincount(some, minlength=n_classes) for some in (mine, theirs)))
    return _from_occurrence(f, mine, common), _from_occurrence(g, theirs, common)


def _from_occurrence(e: Ensemble, ids: Ids, first: Ids) -> Ensemble:
    """The ensemble without the first so many trees of each class of equal ones."""
    order = np.argsort(ids, kind="stable")
    sorted_ids = ids[order]
    occurrence = np.empty(len(ids), dtype=np.int64)
    occurrence[order] = np.arange(len(ids)) - np.searchsorted(sorted_ids, sorted_ids)
    kept: BoolArray = occurrence >= first[ids]
    return e if kept.all() else pruned(replace(e, root=e.root[kept], target=e.target[kept]))


def _numbers_of_trees(f: Ensemble, g: Ensemble) -> Ids:
    """Numbers of all trees of f, then of g; equal trees have the same one.

    From the deepest nodes up, nodes at the same depth get equal numbers if their subtrees are equal.
    """
    own = [_numbered_nodes(e) for e in (f, g)]
    feature, default_left = (np.concatenate([e[name] for e in own]) for name in ("feature", "default_left"))
    threshold = _numbered(np.concatenate([e["threshold"] for e in own]))
    value = _numbered(*np.concatenate([e["value"] for e in own]).T)
    sets = _numbered_sets([code for e in own for code in e["set"]])
    shift = f.n_nodes
    left, right = (np.concatenate([getattr(f, side), getattr(g, side) + shift]) for side in ("left", "right"))
    number = np.zeros(len(feature), dtype=np.int64)
    of_f, of_g = ([nodes for nodes, _ in levels_of(e)] for e in (f, g))
    for depth in reversed(range(max(len(of_f), len(of_g)))):
        parts = [of_f[depth : depth + 1], [nodes + shift for nodes in of_g[depth : depth + 1]]]
        nodes = np.concatenate([part for both in parts for part in both])
        is_leaf = feature[nodes] == LEAF
        number[nodes] = _numbered(
            feature[nodes],
            threshold[nodes],
            sets[nodes],
            default_left[nodes],
            np.where(is_leaf, value[nodes], number[left[nodes]]),
            np.where(is_leaf, 0, number[right[nodes]]),
        )
    roots = np.concatenate([f.root, g.root + shift])
    return _numbered(number[roots], np.concatenate([f.target, g.target]))


def _numbered_nodes(e: Ensemble) -> dict[str, Any]:
    """What nodes hold, with what does not matter set to 0."""
    is_leaf = e.feature == LEAF
    texts = [e.set_code[a:b].tobytes() for a, b in zip(e.set_begin, e.set_begin[1:], strict=False)]
    return {
        "feature": e.feature,
        "threshold": np.where(is_leaf | (e.category_set != NUMERIC), 0.0, e.threshold),
        "default_left": e.default_left & ~is_leaf,
        "value": np.where(is_leaf[:, None], e.value, 0.0),
        "set": [None if which == NUMERIC else texts[which] for which in e.category_set.tolist()],
    }


def _numbered_sets(sets: list[bytes | None]) -> Ids:
    known: dict[bytes | None, int] = {}
    return np.array([known.setdefault(each, len(known)) for each in sets], dtype=np.int64)


def _numbered(*columns: IntArray | FloatArray | Ids | BoolArray) -> Ids:
    """A number for each row of these columns, from 0; equal rows have the same one."""
    found: Ids = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        different, own = np.unique(column, return_inverse=True)
        found = np.unique(found * max(1, len(different)) + own, return_inverse=True)[1]
    return found
