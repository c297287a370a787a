"""The rules for the arrays of an `Ensemble`, on which the kernels rely; `Ensemble.validate` checks them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from predgap._inputs.categories import Categories
from predgap._text import format_items
from predgap._typing import BoolArray
from predgap.errors import EnsembleError

if TYPE_CHECKING:  # it imports this module
    from predgap._model.ensemble import Ensemble

LEAF: Final = -1
"""Marks a leaf in `feature`, `left` and `right`."""

ALL_OUTPUTS: Final = -1
"""Marks a tree in `target` whose leaves hold one value per output."""

NUMERIC: Final = -1
"""Marks a split in `category_set` that compares with a threshold."""

_LARGEST_VALUE: Final = 1e145
_MOST_FEATURES: Final = 10_000_000


def check_shapes(e: Ensemble) -> None:
    """EnsembleError unless the arrays have matching shapes and the feature names are different."""
    n_nodes, n_trees, n_outputs = np.size(e.feature), np.size(e.root), np.size(e.bias)
    if n_outputs < 1 or e.n_features < 0 or (n_nodes < 1 and n_trees > 0):
        raise EnsembleError(
            f"an ensemble needs an output and nodes for its trees; found {n_outputs} outputs, "
            f"{n_nodes} nodes, {n_trees} trees, {e.n_features} features"
        )
    if e.n_features > _MOST_FEATURES:
        raise EnsembleError(f"{e.n_features} features; at most {_MOST_FEATURES} are supported")
    width = e.value.shape[1] if e.value.ndim == 2 else -1
    expected = dict.fromkeys(
        ("feature", "threshold", "left", "right", "default_left", "category_set"), (n_nodes,)
    ) | {
        "root": (n_trees,),
        "target": (n_trees,),
        "bias": (n_outputs,),
        "value": (n_nodes, width if width in (1, n_outputs) else n_outputs),
    }
    for name, shape in expected.items():
        found = getattr(e, name).shape
        if found != shape:
            raise EnsembleError(f"{name} has shape {found}, expected {shape}")
    if e.feature_names is not None and len(e.feature_names) != e.n_features:
        raise EnsembleError(f"{len(e.feature_names)} feature names for {e.n_features} features")
    if e.feature_names is not None and len(set(e.feature_names)) < e.n_features:
        twice = [name for name, n in Counter(e.feature_names).items() if n > 1]
        raise EnsembleError(f"feature names must differ; {twice[0]!r} is given more than once")
    if e.class_names is not None:
        _check_class_names(e.class_names, n_outputs)
    _check_rows(e)


def _check_rows(e: Ensemble) -> None:
    span = e.missing_range
    if len(span) != 2 or not (span[0] <= e.missing <= span[1] or np.isnan([*span, e.missing]).all()):
        raise EnsembleError(
            f"missing is {e.missing}, and missing_range {span}; expected two numbers around it"
        )
    if not e.largest > 0:
        raise EnsembleError(f"largest is {e.largest}, expected a number above 0")


def _check_class_names(names: tuple[str, ...], n_outputs: int) -> None:
    if len(names) not in ({1, 2} if n_outputs == 1 else {n_outputs}):
        raise EnsembleError(
            f"{len(names)} class names for {n_outputs} outputs; expected one per output, or both of two "
            "classes if there is one output"
        )
    if len(set(names)) < len(names):
        twice = [name for name, n in Counter(names).items() if n > 1]
        raise EnsembleError(f"class names must differ; {twice[0]!r} is given more than once")


def check_ranges(e: Ensemble) -> None:
    """EnsembleError unless features, children, roots and targets exist, and numbers are finite."""
    inner = e.feature != LEAF
    rules = {
        f"a split feature outside 0 ... {e.n_features - 1}": inner
        & ((e.feature < 0) | (e.feature >= e.n_features)),
        "a child outside the nodes": inner
        & ((e.left < 0) | (e.left >= e.n_nodes) | (e.right < 0) | (e.right >= e.n_nodes)),
        "a leaf with children": ~inner & ((e.left != LEAF) | (e.right != LEAF)),
        "a threshold that is not finite": inner & ~np.isfinite(e.threshold),
        "a leaf value that is not finite": ~inner & ~np.isfinite(e.value).all(axis=1),
        f"a leaf value beyond ±{_LARGEST_VALUE:g}, whose square may overflow": ~inner
        & (np.abs(e.value) > _LARGEST_VALUE).any(axis=1),
    }
    for what, wrong in rules.items():
        if wrong.any():
            raise EnsembleError(f"node {int(np.flatnonzero(wrong)[0])} has {what}")
    if not np.isfinite(e.bias).all():
        raise EnsembleError(f"the bias is not finite: {format_items(e.bias.tolist())}")
    if ((e.root < 0) | (e.root >= max(1, e.n_nodes))).any():
        raise EnsembleError(f"a root lies outside the {e.n_nodes} nodes")
    vector = e.value.shape[1] > 1
    if vector and (e.target != ALL_OUTPUTS).any():
        raise EnsembleError("leaves are vectors, so every tree's target must be ALL_OUTPUTS")
    if not vector and ((e.target < 0) | (e.target >= e.n_outputs)).any():
        raise EnsembleError(f"a tree's target lies outside 0 ... {e.n_outputs - 1}")


def check_sets(e: Ensemble) -> None:
    """EnsembleError unless sets of categories are valid, and on categorical features only."""
    n_sets = e.set_begin.size - 1
    ordered = (
        e.set_begin.ndim == 1 and n_sets >= 0 and e.set_begin[0] == 0 and (np.diff(e.set_begin) >= 0).all()
    )
    if e.set_code.ndim != 1 or not ordered or e.set_begin[-1] != len(e.set_code):
        raise EnsembleError(f"set_begin must run from 0 to the {e.set_code.size} codes of the sets")
    rising = np.diff(e.set_code) > 0
    rising[e.set_begin[(e.set_begin > 0) & (e.set_begin < len(e.set_code))] - 1] = True  # between sets
    if not rising.all() or (e.set_code < 0).any():
        raise EnsembleError("the codes of a set must not be negative, and ascend")
    if e.categories is not None and len(e.categories) != e.n_features:
        raise EnsembleError(f"{len(e.categories)} entries of categories for {e.n_features} features")
    inner = e.feature != LEAF
    by_set = inner & (e.category_set != NUMERIC)
    levels = e.categorical()
    categorical = np.isin(e.feature, list(levels))
    rules = {
        f"a set of categories outside 0 ... {n_sets - 1}": by_set
        & ((e.category_set < 0) | (e.category_set >= n_sets)),
        "a set of categories on a numeric feature": by_set & ~categorical,
        "a threshold on a categorical feature": inner & ~by_set & categorical,
        "a set of categories, but is a leaf": ~inner & (e.category_set != NUMERIC),
    }
    for what, wrong in rules.items():
        if wrong.any():
            raise EnsembleError(f"node {int(np.flatnonzero(wrong)[0])} has {what}")
    _check_levels(e, levels, by_set)


def _check_levels(e: Ensemble, levels: dict[int, Categories], by_set: BoolArray) -> None:
    """EnsembleError unless every code in a feature's sets is one of its categories, and fits into rows."""
    if not by_set.any():
        return
    pairs = np.unique(np.stack([e.feature[by_set], e.category_set[by_set]], axis=1), axis=0)
    features, first = np.unique(pairs[:, 0], return_index=True)
    for q, sets in zip(features.tolist(), np.split(pairs[:, 1], first[1:]), strict=True):
        own = levels[q]
        codes = np.concatenate([e.set_code[e.set_begin[s] : e.set_begin[s + 1]] for s in sets])
        strange = codes[own.levels_of(codes) < 0]
        if len(strange):
            raise EnsembleError(
                f"feature {e.names[q]!r} is split on the category {int(strange[0])}, which is none of its "
                f"{len(own)} levels"
            )


def check_trees(e: Ensemble) -> None:
    """EnsembleError unless every node has at most one parent, and roots none: so there are no cycles."""
    inner = e.feature != LEAF
    children = np.concatenate([e.left[inner], e.right[inner], e.root])
    n_parents = np.bincount(children, minlength=e.n_nodes)
    if (n_parents > 1).any():
        raise EnsembleError(
            f"node {int(np.argmax(n_parents))} is reached in {int(n_parents.max())} ways; "
            "trees must not share nodes or contain cycles"
        )
