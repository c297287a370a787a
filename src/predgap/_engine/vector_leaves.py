"""Gives the trees of a model with several outputs leaves that are vectors: outputs then share their terms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from predgap import _core
from predgap._model.ensemble import ALL_OUTPUTS, LEAF, Ensemble
from predgap._typing import IndexArray
from predgap.errors import CostError


def with_vector_leaves(ensemble: Ensemble) -> Ensemble:
    """The same model, whose leaves have one value per output: 0 for those that their tree does not add to."""
    e = ensemble
    size = 8.0 * e.n_nodes * e.n_outputs
    if size > _core.MOST_BYTES:
        raise CostError(
            f"{e.n_nodes:,} nodes with values for {e.n_outputs} outputs need {size / 1e6:,.0f} MB; the limit "
            f"is {_core.MOST_BYTES / 1e6:,.0f} MB. Explain one output at a time: Explainer(..., output=...)"
        )
    tree = _tree_of_node(e)
    leaves = np.flatnonzero((e.feature == LEAF) & (tree >= 0))
    value = np.zeros((e.n_nodes, e.n_outputs))
    value[leaves, e.target[tree[leaves]]] = e.value[leaves, 0]
    return replace(e, value=value, target=np.full_like(e.target, ALL_OUTPUTS))


def _tree_of_node(e: Ensemble) -> IndexArray:
    """The tree of each node, (n_nodes,); -1 for a node of none."""
    tree = np.full(e.n_nodes, -1, dtype=np.intp)
    tree[e.root] = np.arange(len(e.root))
    level = e.root
    while len(level):
        splits = level[e.feature[level] != LEAF]
        for children in (e.left, e.right):
            tree[children[splits]] = tree[splits]
        level = np.concatenate([e.left[splits], e.right[splits]])
    return tree
