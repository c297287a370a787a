"""Loads LightGBM models: a Booster, its scikit-learn wrappers, and text files written by `save_model`.

Objects are written as text in memory and then read like a file; afterwards they are checked against their own
predictions. LightGBM itself is never imported.

Margins are raw scores: the sum of all trees before any link function. The intercept and the weights of DART
are already in the leaves. Random forests (`boosting="rf"`) are an exception: `predict` averages over
iterations, while `raw_score=True` adds up. Here their leaves are divided by the number of iterations, so the
margin is what `predict` returns for a regressor, and what it passes to the link function for a classifier.

A row goes left where `x <= t`, in double precision, with two additional rules. Values within ±1e-35 become 0
before any comparison. And each split treats missing values in one of three ways: with None, NaN counts as 0;
with NaN, NaN goes the default way; with Zero (from `zero_as_missing`), both 0 and NaN go the default way. In
the last case 0 may go left while its neighbours on both sides go right, or the reverse: such a split is
replaced by several (it is unfolded). A threshold of infinity separates missing values from all others; a
model with such a split does not accept infinite values in rows here.

A split on categories sends the codes of a set left. All other codes, negative ones and missing values go
right, however the split treats missing values.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap import _files
from predgap._inputs.categories import Categories
from predgap._model.ensemble import LEAF, NUMERIC, Ensemble
from predgap._model.links import Link
from predgap._typing import IntArray
from predgap.errors import EnsembleError, LoaderError, UnsupportedModelError
from predgap.loaders import selfcheck
from predgap.loaders.labels import class_names, numbered
from predgap.loaders.lightgbm.categories import Sets, check_labels, read_levels, read_sets
from predgap.loaders.lightgbm.text import Counts, Fields, count, field, floats, integers, parts, read

__all__ = ["from_file", "from_object"]

Nodes = NDArray[np.void]  # of _NODE

_VERSIONS: Final = frozenset({"version=v3", "version=v4"})  # LightGBM 2.3 to 3.3, and 4
_HEADER_KEYS: Final = frozenset(
    {"version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective"}
    | {"average_output", "feature_names", "monotone_constraints", "feature_infos", "tree_sizes"}
)
_TREE_KEYS: Final = frozenset(
    {"num_leaves", "num_cat", "split_feature", "split_gain", "threshold", "decision_type", "left_child"}
    | {"right_child", "leaf_value", "leaf_weight", "leaf_count", "internal_value", "internal_weight"}
    | {"internal_count", "is_linear", "shrinkage", "cat_boundaries", "cat_threshold"}
)

# A damaged file must not make us allocate or work without end.
_MAX_LEAVES: Final = 1 << 17  # of a tree: LightGBM's own limit
_MAX_FEATURES: Final = 10_000_000
_MAX_OUTPUTS: Final = 1_000_000
_MAX_UNFOLDING: Final = 1 << 21  # steps for a model: some seconds, and up to a million nodes

_CATEGORICAL, _DEFAULT_LEFT = 1, 2  # bits of a decision type; the higher bits: how missing values are treated
_KIND_ZERO, _KIND_NAN = 1, 2

_ZERO: Final = float(np.float32(1e-35))  # LightGBM keeps it in single precision
_ABOVE_ZERO: Final = float(np.nextafter(_ZERO, 1.0))  # so what counts as 0 is [-_ZERO, _ABOVE_ZERO)
_EVERYWHERE: Final = (-np.inf, np.inf)

_TREES_AT_ONCE: Final = 16

_ask = partial(selfcheck.ask, "LightGBM")


def from_file(path: Path) -> Ensemble:
    """The ensemble of a text file, with all of its trees."""
    return _loaded([_files.read(path)], known_only=True).ensemble


def from_object(model: Any) -> Ensemble:
    """The ensemble of a Booster or wrapper, checked against the object's own leaves and raw scores.

    After early stopping it ends with the best iteration, as the `predict` of both does.
    """
    kinds = type(model).__mro__
    if any(kind.__module__.startswith("lightgbm.dask") for kind in kinds):
        raise UnsupportedModelError(f"{type(model).__name__} predicts on a cluster; pass its to_local()")
    booster = model
    if any(kind.__name__ == "LGBMModel" for kind in kinds):
        if model.get_params().get("pred_early_stop"):
            raise UnsupportedModelError(
                "the model has pred_early_stop, which leaves trees out of a prediction when the others seem "
                "to settle it; pass its booster_, which predicts with all of them"
            )
        booster = _ask("give its booster", lambda: model.booster_)
    check_labels(booster.pandas_categorical or [])
    texts = _ask("be written", lambda: list(_texts(booster)))
    ensemble = _checked(_loaded(texts, known_only=False), booster)
    classes = getattr(model, "classes_", None)  # of LGBMClassifier, which numbers its classes for the booster
    if classes is None:
        return ensemble
    return replace(ensemble, class_names=class_names(np.ravel(classes).tolist(), ensemble.n_outputs))


def _texts(booster: Any) -> Iterator[bytes]:
    """Texts of a few trees each, up to the best iteration: LightGBM writes all beyond 1 MB twice."""
    n = booster.current_iteration()
    if booster.best_iteration > 0:
        n = min(n, booster.best_iteration)
    step = max(1, _TREES_AT_ONCE // booster.num_model_per_iteration())
    for start in range(0, max(1, n), step):
        yield booster.model_to_string(start_iteration=start, num_iteration=min(step, n - start)).encode()


@dataclass(frozen=True, slots=True)
class _Loaded:
    """An ensemble, and what the check against its booster needs."""

    ensemble: Ensemble
    leaf: IntArray  # (n_nodes,) the number that LightGBM gives a leaf in its tree; LEAF at splits
    unfolded: bool  # may a leaf occur several times in its tree?
    divisor: int  # of raw scores


def _checked(loaded: _Loaded, booster: Any) -> Ensemble:
    """The ensemble, after a check against its booster."""
    ensemble = loaded.ensemble

    def leaves(rows: selfcheck.Rows) -> Any:
        theirs = np.asarray(_ask("predict", lambda: booster.predict(rows, pred_leaf=True)))
        if theirs.size != len(rows) * ensemble.n_trees:
            return theirs
        theirs = theirs.reshape(len(rows), ensemble.n_trees).astype(np.int64)
        if not loaded.unfolded:
            return theirs + np.diff(ensemble.root, append=ensemble.n_nodes) // 2  # leaves follow the splits
        # Unfolding copies leaves, and any copy is right. A wrong leaf is reported as negative, by `~`.
        mine = ensemble.leaves(rows)
        return np.where(loaded.leaf[mine] == theirs, mine - ensemble.root, ~theirs)

    def margins(rows: selfcheck.Rows) -> Any:
        return np.asarray(_ask("predict", lambda: booster.predict(rows, raw_score=True))) / loaded.divisor

    selfcheck.check(ensemble, library="LightGBM", margins=margins, leaves=leaves, double=True)
    return ensemble


# ---- text to an ensemble ----


def _loaded(texts: list[bytes], *, known_only: bool) -> _Loaded:
    """The ensemble of the trees in all texts. `known_only`: refuse keys that are not known."""
    found = [read(text) for text in texts]
    header, tail = found[0].header, found[0].tail
    if known_only:
        _refuse_news({f"version={field(header, 'version')}"} - _VERSIONS | header.keys() - _HEADER_KEYS)
    trees = []
    for tree in (tree for text in found for tree in text.trees):
        _refuse_linear(tree)
        if known_only:
            _refuse_news(tree.keys() - _TREE_KEYS)
        trees.append(tree)
    names = parts(header, "feature_names", count(header, "max_feature_idx", 0, _MAX_FEATURES - 1) + 1)
    sets = read_sets(trees)
    nodes, sizes = _nodes(trees, sets)
    splits = nodes[nodes["feature"] != LEAF]
    if splits["feature"].max(initial=0) >= len(names):
        raise LoaderError(f"split_feature goes beyond the {len(names)} features; the file is damaged")
    levels = read_levels(header, tail, names, splits["feature"], splits["set"], sets)
    return _ensemble(header, names, nodes, sizes, sets, levels)


def _refuse_news(news: Set[str]) -> None:
    """UnsupportedModelError for unknown keys: they may change the meaning of the trees, and a file has no
    predictions to check against."""
    if news:
        raise UnsupportedModelError(
            f"the model file has {min(news)[:40]!r}, which predgap does not know; load it with LightGBM and "
            "pass the object, which is then checked against its predictions"
        )


def _refuse_linear(tree: Fields) -> None:
    if count(tree, "is_linear", 0, 1, default="0"):
        raise UnsupportedModelError(
            "the model has linear models in its leaves (linear_tree), which predgap does not handle; "
            "train without linear_tree"
        )


def _ensemble(
    header: Fields, names: list[str], nodes: Nodes, sizes: Counts, sets: Sets, levels: list[Categories | None]
) -> _Loaded:
    n_trees = len(sizes)
    n_outputs = count(header, "num_tree_per_iteration", 1, _MAX_OUTPUTS)
    n_classes = count(header, "num_class", 1, _MAX_OUTPUTS)
    if n_outputs != n_classes or n_trees % n_outputs:
        raise LoaderError(
            f"{n_trees} trees, {n_outputs} in an iteration, do not fit {n_classes} classes; "
            "the file is damaged"
        )
    forest = "average_output" in header
    divisor = max(1, n_trees // n_outputs) if forest else 1
    accepts_infinity, unfolded = not np.isinf(nodes["cut"]).any(), bool(nodes["folded"].any())
    nodes, sizes = _unfolded(nodes, sizes) if unfolded else (nodes, sizes)
    nodes, root = _turned(nodes), np.cumsum(sizes) - sizes
    shift = np.where(nodes["feature"] == LEAF, 0, np.repeat(root, sizes))
    objective = header.get("objective", "custom").partition(" ")[0]  # its parameters follow
    try:
        ensemble = Ensemble(
            root=root,
            feature=nodes["feature"],
            threshold=nodes["cut"],
            left=nodes["left"] + shift,
            right=nodes["right"] + shift,
            default_left=nodes["missing_left"],
            value=nodes["value"][:, None] / divisor,
            target=np.arange(n_trees, dtype=np.int32) % n_outputs,
            bias=np.zeros(n_outputs),
            n_features=len(names),
            category_set=nodes["set"],
            set_begin=sets.begin,
            set_code=sets.code,
            categories=tuple(levels),
            feature_names=None if names == [f"Column_{j}" for j in range(len(names))] else tuple(names),
            class_names=numbered(n_outputs, binary=objective == "binary")
            if objective in ("binary", "multiclass", "multiclassova")
            else None,
            link=_link(header.get("objective", "")),
            largest=np.inf if accepts_infinity else np.finfo(np.float64).max,
            source=f"LightGBM {'rf ' if forest else ''}{objective[:60]}",
        )
    except EnsembleError as error:
        raise LoaderError(f"the LightGBM model is damaged: {error}; save it again") from error
    return _Loaded(ensemble, nodes["leaf"], unfolded, divisor)


def _link(objective: str) -> Link | None:
    """How probabilities follow from margins; an objective is its name and parameters, "binary sigmoid:1".

    None if the model predicts margins. A forest (boosting=rf) applies the link to the average of its trees.
    """
    name, *parameters = objective.split() or [""]
    if name == "multiclass":
        return Link("softmax")
    stated = [text.partition(":")[2] for text in parameters if text.startswith("sigmoid:")]
    if name in ("poisson", "gamma", "tweedie", "cross_entropy_lambda") or "sqrt" in parameters:
        return Link("other")
    if name not in ("binary", "multiclassova", "cross_entropy") or len(stated) > 1:
        return None
    try:
        return Link("logistic", float(stated[0]) if stated else 1.0)
    except ValueError:
        raise LoaderError(
            f"the objective {objective[:60]!r} has no valid sigmoid; the file is damaged"
        ) from None


# ---- trees to nodes ----

# The nodes of all trees, concatenated; a tree begins with its root. Children are indices within their tree.
_NODE: Final = np.dtype(
    [
        ("feature", np.int32),  # LEAF at leaves
        ("cut", np.float64),  # left iff x < cut
        ("set", np.int32),  # or iff x is in this set; NUMERIC for a cut
        ("folded", np.bool_),  # or also around 0: see `_unfolded_tree`
        ("fixed", np.bool_),  # NaN goes another way than 0, or x is a category
        ("missing_left", np.bool_),
        ("left", np.int32),  # LEAF at leaves
        ("right", np.int32),
        ("value", np.float64),
        ("leaf", np.int32),  # the number that LightGBM gives a leaf within its tree; LEAF at splits
    ]
)


def _nodes(trees: list[Fields], sets: Sets) -> tuple[Nodes, Counts]:
    """All nodes, and the number of nodes of each tree: splits before leaves, both in LightGBM's order."""
    n_leaves = np.array([count(tree, "num_leaves", 1, _MAX_LEAVES) for tree in trees], dtype=np.int64)
    n_splits = n_leaves - 1
    order = np.stack([n_splits, n_leaves], axis=1).ravel()
    is_leaf = np.repeat(np.tile([False, True], len(trees)), order)
    nodes = np.zeros(len(is_leaf), dtype=_NODE)
    for name in ("feature", "left", "right", "leaf"):
        nodes[name] = LEAF
    nodes["set"] = NUMERIC
    nodes["value"][is_leaf] = floats(trees, "leaf_value", n_leaves)
    nodes["leaf"][is_leaf] = _places(n_leaves)
    nodes[~is_leaf] = _splits(trees, n_splits, sets)
    return nodes, n_splits + n_leaves


def _splits(trees: list[Fields], n_splits: Counts, sets: Sets) -> Nodes:
    feature, decision = (integers(trees, name, n_splits) for name in ("split_feature", "decision_type"))
    threshold = floats(trees, "threshold", n_splits)
    kind, default_left, by_set = decision >> 2, decision & _DEFAULT_LEFT != 0, decision & _CATEGORICAL != 0
    if (feature < 0).any() or (kind < 0).any() or (kind > _KIND_NAN).any():
        raise LoaderError("split_feature or decision_type has a number that is none; the file is damaged")
    with np.errstate(over="ignore"):
        above = np.nextafter(threshold, np.inf)  # x <= threshold is x < above
    zero_left = np.where(kind == _KIND_ZERO, default_left, threshold >= 0)
    folded = np.where(zero_left, threshold < -_ZERO, threshold > _ZERO) & ~by_set
    # Values that count as 0 go where 0 goes. Unless the split is folded, moving the cut past them does this.
    cut = np.where(zero_left, np.maximum(above, _ABOVE_ZERO), np.minimum(above, -_ZERO))
    splits = np.zeros(len(feature), dtype=_NODE)
    splits["feature"] = feature
    splits["cut"] = np.where(by_set, 0.0, np.where(folded, above, cut))
    splits["set"] = sets.of_splits(threshold, by_set, n_splits)
    splits["folded"] = folded
    splits["fixed"] = by_set | (kind == _KIND_NAN)
    splits["missing_left"] = np.where(kind == _KIND_NAN, default_left, zero_left) & ~by_set
    splits["left"], splits["right"] = _children(trees, n_splits)
    splits["leaf"] = LEAF
    return splits


def _children(trees: list[Fields], n_splits: Counts) -> list[Counts]:
    """Left and right children as indices within their tree; in the text leaves are -1, -2, ..."""
    n, own = np.repeat(n_splits, n_splits), _places(n_splits)
    sizes = 2 * n_splits + 1
    root = np.repeat(np.cumsum(sizes) - sizes, n_splits)
    children = []
    for name in ("left_child", "right_child"):
        child = integers(trees, name, n_splits).astype(np.int64)
        # LightGBM numbers a split after its parent, so children have higher numbers, and there are no cycles.
        if ((child >= n) | (child < -n - 1) | ((child >= 0) & (child <= own))).any():
            raise LoaderError(f"{name} names a node that is not below its parent; the file is damaged")
        children.append(np.where(child < 0, n + ~child, child))
    if np.bincount(np.concatenate([root + child for child in children]), minlength=1).max() > 1:
        raise LoaderError("a node is the child of two splits; the file is damaged")
    return children


def _places(counts: Counts) -> Counts:
    """0, ..., n - 1 for each of the counts n, one after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def _turned(nodes: Nodes) -> Nodes:
    """The nodes with infinite cuts replaced by the smallest finite one, and their children exchanged.

    An infinite cut separates missing values from all others. A finite one does so only for finite values, so
    infinite values must not occur in rows.
    """
    turned = np.isinf(nodes["cut"])
    if not turned.any():
        return nodes
    swapped = nodes.copy()
    swapped["cut"][turned] = np.finfo(np.float64).min
    swapped["left"][turned], swapped["right"][turned] = nodes["right"][turned], nodes["left"][turned]
    swapped["missing_left"][turned] = ~nodes["missing_left"][turned]
    return swapped


# ---- zero as missing ----


def _unfolded(nodes: Nodes, sizes: Counts) -> tuple[Nodes, Counts]:
    """The same trees with folded splits replaced, and their sizes."""
    room = _Room(_MAX_UNFOLDING)
    trees = np.split(nodes, np.cumsum(sizes)[:-1])
    trees = [_unfolded_tree(tree, room) if tree["folded"].any() else tree for tree in trees]
    return np.concatenate(trees), np.array([len(tree) for tree in trees])


def _unfolded_tree(tree: Nodes, room: _Room) -> Nodes:
    """The tree with several splits in place of each folded one.

    A folded split has three cuts: as x grows, it goes left, right, left and right again. It becomes three
    splits, with two copies of each subtree; of a copy, only the nodes are kept that x can reach.
    """
    feature, left, right = tree["feature"].tolist(), tree["left"].tolist(), tree["right"].tolist()
    cuts = [
        sorted([cut, -_ZERO, _ABOVE_ZERO]) if folded else [cut]
        for cut, folded in zip(tree["cut"].tolist(), tree["folded"].tolist(), strict=True)
    ]
    origin: list[int] = []  # the node of `tree` that each new one stems from
    changes: list[tuple[float, bool]] = []  # its cut, and whether missing goes left
    children: tuple[list[int], list[int]] = [], []
    # nodes to copy, each for a region low <= x < high of some features, as which child of which new node
    todo: list[tuple[int, dict[int, tuple[float, float]], int, int]] = [(0, {}, 0, LEAF)]
    while todo:
        node, region, side, parent = todo.pop()
        room.take(1 + len(region) // 16)
        j, new = feature[node], len(origin)
        low, high = region.get(j, _EVERYWHERE)
        if j == LEAF:
            changes.append((0.0, False))
        elif tree["fixed"][node]:  # the split stays, whatever is known of x
            changes.append((cuts[node][0], bool(tree["missing_left"][node])))
            todo += [(left[node], region, 0, new), (right[node], region, 1, new)]
        elif within := [c for c in cuts[node] if low < c < high]:
            c = within[len(within) // 2]
            changes.append((c, c > 0))  # NaN goes where 0 goes
            todo += [(node, region | {j: (low, c)}, 0, new), (node, region | {j: (c, high)}, 1, new)]
        else:  # the whole region goes one way
            passed = sum(c <= low for c in cuts[node])
            todo.append(((right if passed % 2 else left)[node], region, side, parent))
            continue
        origin.append(node)
        for links in children:
            links.append(LEAF)
        if parent != LEAF:
            children[side][parent] = new
    copy = tree[origin]
    copy["cut"], copy["missing_left"] = zip(*changes, strict=True)
    copy["left"], copy["right"] = children
    return copy


class _Room:
    """The remaining steps for unfolding a model: without a limit, copies of copies might explode."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def take(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise UnsupportedModelError(
                "the model was trained with zero_as_missing, and sends zeros another way than their "
                "neighbours so often that its trees would grow beyond bounds; train it without "
                "zero_as_missing, with missing values as NaN, or with fewer leaves"
            )
