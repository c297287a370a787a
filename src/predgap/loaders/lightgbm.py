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

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from predgap import _files
from predgap._inputs.categories import Categories, of_labels
from predgap._model.ensemble import LEAF, NUMERIC, Ensemble
from predgap._model.links import Link
from predgap._text import count as counted
from predgap._text import warn
from predgap._typing import BoolArray, FloatArray, IntArray
from predgap.errors import EnsembleError, LoaderError, UnsupportedModelError
from predgap.loaders import translation
from predgap.loaders._formats.json import parse
from predgap.loaders.translation import class_names, numbered

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

_ask = partial(translation.ask_library, "LightGBM")


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

    def leaves(rows: translation.Rows) -> Any:
        theirs = np.asarray(_ask("predict", lambda: booster.predict(rows, pred_leaf=True)))
        if theirs.size != len(rows) * ensemble.n_trees:
            return theirs
        theirs = theirs.reshape(len(rows), ensemble.n_trees).astype(np.int64)
        if not loaded.unfolded:
            return theirs + np.diff(ensemble.root, append=ensemble.n_nodes) // 2  # leaves follow the splits
        # Unfolding copies leaves, and any copy is right. A wrong leaf is reported as negative, by `~`.
        mine = ensemble.leaves(rows)
        return np.where(loaded.leaf[mine] == theirs, mine - ensemble.root, ~theirs)

    def margins(rows: translation.Rows) -> Any:
        return np.asarray(_ask("predict", lambda: booster.predict(rows, raw_score=True))) / loaded.divisor

    translation.check_predictions(ensemble, library="LightGBM", margins=margins, leaves=leaves, double=True)
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
    header: Fields,
    names: list[str],
    nodes: Nodes,
    sizes: Counts,
    sets: SetsOfTrees,
    levels: list[Categories | None],
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
    """The link from margins to probabilities; an objective is its name and parameters, "binary sigmoid:1".

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


def _nodes(trees: list[Fields], sets: SetsOfTrees) -> tuple[Nodes, Counts]:
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


def _splits(trees: list[Fields], n_splits: Counts, sets: SetsOfTrees) -> Nodes:
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


# ------------------------------------------------------------------------------------------------------------
# The categories of a model are the codes in the sets of its splits, and those listed for its features.
#
# A set is a sequence of 32-bit words in `cat_threshold`, whose bits say which of the codes 0, 1, 2, ... are
# in it. The categories of a feature are listed in `feature_infos`: those that are not too rare, and -1 for
# missing values. A feature that LightGBM did not use has "none" there; whether it is categorical is then only
# known from the training parameters.
#
# Labels come from pandas: the last line has one list for each column of a categorical dtype, in the order of
# the columns. It does not say which columns these are, and they need not be the categorical features: an
# ordered column is numeric, and `categorical_feature=` may choose other columns. So the lists are assigned to
# the categorical features in order, if there are as many lists as features and they are long enough. If that
# is wrong, one of these columns is a numeric feature, and a frame with its labels is refused.

# A damaged file must not make us allocate or work without end.
_MAX_SETS: Final = 1 << 17  # of a tree: it has no more splits
_MAX_CODES: Final = 1 << 24  # in all sets
_MAX_LEVELS: Final = 1 << 21  # of all features
_MAX_CATEGORICAL: Final = 1 << 14  # features

_WORD_BITS: Final = 32
_WORDS_AT_ONCE: Final = 1 << 14  # bounds the memory for their bits

_LABELS: Final = b"pandas_categorical:"
_ENDINGS: Final = (b"end of parameters", b"end of parser")  # the last line, if Python did not write the file
_ONLY_IMPORTANCES: Final = re.compile(rb"\s*feature[_ ]importances:\n(?:[^\n]*=[0-9]+\n)*\s*")
_PARAMETER: Final = re.compile(rb"(?m)^\[categorical_feature: ([0-9]{1,9}(?:,[0-9]{1,9})*)\]$")


# ---- sets ----


class SetsOfTrees(NamedTuple):
    """The sets of all trees, concatenated."""

    counts: Counts  # (n_trees,) number of sets of each tree
    begin: IntArray  # (n_sets + 1,) where each begins in `code`
    code: IntArray

    def of_splits(self, threshold: FloatArray, by_set: BoolArray, n_splits: Counts) -> IntArray:
        """The set of each split, NUMERIC if it has none. Its threshold is the set's number in the tree."""
        first, n = np.cumsum(self.counts) - self.counts, self.counts
        first, n = (np.repeat(each, n_splits)[by_set] for each in (first, n))
        number = threshold[by_set]
        known = (number >= 0) & (number < n) & (number == np.trunc(number))
        chosen = first + np.where(known, number, 0).astype(np.int64)
        if not known.all() or np.bincount(chosen, minlength=1).max() > 1:
            raise LoaderError("a split has no set of categories of its own; the file is damaged")
        found = np.full(len(threshold), NUMERIC, dtype=np.int32)
        found[by_set] = chosen
        return found


def read_sets(trees: list[Fields]) -> SetsOfTrees:
    """The sets of all trees."""
    counts = np.array([count(tree, "num_cat", 0, _MAX_SETS) for tree in trees], dtype=np.int64)
    trees = [tree for tree, n in zip(trees, counts.tolist(), strict=True) if n]
    n_bounds = counts[counts > 0] + 1
    bound = integers(trees, "cat_boundaries", n_bounds).astype(np.int64)
    last = np.cumsum(n_bounds) - 1
    first = last + 1 - n_bounds
    rises = np.diff(bound, prepend=0) >= 0
    rises[first] = bound[first] == 0
    if not rises.all():
        raise LoaderError("cat_boundaries do not ascend from 0; the file is damaged")
    n_words = bound[last]
    word = words(trees, "cat_threshold", n_words)
    start = bound + np.repeat(np.cumsum(n_words) - n_words, n_bounds)
    return SetsOfTrees(counts, *_members(word, np.append(np.delete(start, last), len(word))))


def _members(word: NDArray[np.uint32], edges: Counts) -> tuple[IntArray, IntArray]:
    """Finds where each set begins among all codes, and these codes; `edges` separate the sets in `word`."""
    used = np.flatnonzero(word)
    place = used - edges[np.searchsorted(edges, used, side="right") - 1]
    if place.max(initial=0) >= 2**31 // _WORD_BITS:
        raise LoaderError("cat_threshold holds a category beyond 31 bits; the file is damaged")
    members: list[IntArray] = [np.empty(0, dtype=np.int32)]
    before = np.zeros(len(used) + 1, dtype=np.int64)  # number of members before each word
    for start in range(0, len(used), _WORDS_AT_ONCE):
        part = slice(start, start + _WORDS_AT_ONCE)
        bits = _bits(word[used[part]])
        n = bits.sum(axis=1)
        before[1:][part] = before[start] + np.cumsum(n)
        if before[start] + n.sum() > _MAX_CODES:
            raise UnsupportedModelError(
                f"the sets of categories in the model's splits have more than {_MAX_CODES:,} members, which "
                "predgap does not handle; train with a lower max_cat_threshold, or fewer trees"
            )
        shift = (place[part] - np.arange(len(n))) * _WORD_BITS
        members.append((np.flatnonzero(bits) + np.repeat(shift, n)).astype(np.int32))
    return before[np.searchsorted(used, edges)].astype(np.int32), np.concatenate(members)


def _bits(word: NDArray[np.uint32]) -> BoolArray:
    """The bits of each word, (n, 32), lowest bit first."""
    octets = word.astype("<u4").view(np.uint8).reshape(-1, _WORD_BITS // 8)
    return np.unpackbits(octets, axis=1, bitorder="little").view(np.bool_)


# ---- levels ----


def read_levels(
    header: Fields,
    tail: bytes,
    names: list[str],
    feature: IntArray,
    category_set: IntArray,
    sets: SetsOfTrees,
) -> list[Categories | None]:
    """The categories of each feature, None if numeric. `feature` and `category_set` describe the splits."""
    known, categorical = _known(header, tail, len(names), feature, category_set, sets)
    found: list[Categories | None] = [None] * len(names)
    if not categorical:
        return found
    both = categorical.intersection(np.unique(feature[category_set == NUMERIC]).tolist())
    if both:
        raise UnsupportedModelError(
            f"feature {names[min(both)]!r} is categorical, but some splits compare it with a threshold: "
            "training was continued with another categorical_feature, which predgap does not handle; train "
            "the model in one go"
        )
    if len(known) > _MAX_LEVELS or len(categorical) > _MAX_CATEGORICAL:
        raise UnsupportedModelError(
            f"the model has {len(categorical):,} categorical features with {len(known):,} levels; predgap "
            f"handles up to {_MAX_CATEGORICAL:,} with {_MAX_LEVELS:,}: merge rare categories"
        )
    labels = _labels(tail, len(categorical))
    for i, q in enumerate(sorted(categorical)):
        own = known[slice(*np.searchsorted(known, [q << 32, (q + 1) << 32]))] & (2**32 - 1)
        found[q] = _named(own, labels[i], names[q]) if labels else Categories(own.astype(np.int32))
    return found


def _known(
    header: Fields, tail: bytes, n_features: int, feature: IntArray, category_set: IntArray, sets: SetsOfTrees
) -> tuple[NDArray[np.int64], set[int]]:
    """All known categories as (feature << 32) | code, ascending; and the set of categorical features."""
    by_set = category_set != NUMERIC
    asker = np.full(len(sets.begin) - 1, -1, dtype=np.int64)
    asker[category_set[by_set]] = feature[by_set]
    infos = parts(header, "feature_infos", n_features)
    listed = [q for q, info in enumerate(infos) if info != "none" and not info.startswith("[")]
    code = codes([infos[q] for q in listed], "feature_infos")
    owner = np.repeat(np.array(listed, dtype=np.int64), [infos[q].count(":") + 1 for q in listed])
    asked = np.repeat(asker << 32, np.diff(sets.begin))
    asked |= sets.code
    asked = _distinct(asked)  # many sets hold the same codes
    known = _distinct(np.append((owner << 32 | code)[code >= 0], asked))
    parameter = _PARAMETER.search(tail)
    stated = set(map(int, parameter[1].split(b","))) if parameter else set()
    useless = {q for q in stated if q < n_features and infos[q] == "none"}  # of others, more is known
    categorical = {*listed, *np.unique(feature[by_set]).tolist(), *useless}
    return known[known >= 0], categorical  # keys below 0 belong to sets that no split uses


def _distinct(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The distinct keys, ascending. Sorts `keys` in place. (`np.unique` is ten times slower.)"""
    keys.sort()
    first = np.ones(len(keys), dtype=np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    return keys[first]


def _named(known: NDArray[np.int64], labels: list[Any], name: str) -> Categories:
    """Categories with labels; the code of a label is its index in the list."""
    if known.max(initial=-1) >= len(labels):
        raise UnsupportedModelError(
            f"feature {name!r} has the category {known.max()}, but its labels end with that of "
            f"{len(labels) - 1}: {_UNCLEAR}"
        )
    try:
        return of_labels(labels)
    except EnsembleError as error:
        raise LoaderError(f"pandas_categorical of feature {name!r} is damaged: {error}") from error


# ---- labels ----

_UNCLEAR: Final = (
    "predgap cannot tell whose labels they are; make all categorical features, and no others, unordered "
    "categories of the frame, or train on their codes"
)


def check_labels(lists: Iterable[Iterable[Any]]) -> None:
    """Refuses labels other than text and numbers, which LightGBM cannot save and restore."""
    for label in (label for labels in lists for label in labels):
        if not isinstance(label, str | Real | np.bool_) or label != label:
            raise UnsupportedModelError(
                f"a category is called {str(label)[:40]!r}, a {type(label).__name__}; predgap handles text "
                "and numbers: convert the categories, e.g. by astype(str).astype('category')"
            )


def _labels(tail: bytes, n: int) -> list[list[Any]]:
    """The labels of each of the n categorical features; [] if the model was not trained on a frame."""
    line = tail.rstrip().rpartition(b"\n")[2]
    if line in _ENDINGS:
        return []
    if not line.startswith(_LABELS):
        if _ONLY_IMPORTANCES.fullmatch(tail):
            warn(
                "the model file has neither parameters nor labels of its "
                f"{counted(n, 'categorical feature')} (pandas_categorical), so categories are codes, as to "
                "LightGBM; if the model was trained on labels, the file was cut off: save or copy it again"
            )
            return []
        raise LoaderError(
            "the model file stops before the labels of its categories (pandas_categorical); save or copy it "
            "again"
        )
    try:
        lists = parse(line[len(_LABELS) :]) or []
    except LoaderError as error:
        raise LoaderError(f"the labels of categories (pandas_categorical) are damaged: {error}") from error
    if not isinstance(lists, list) or not all(isinstance(labels, list) for labels in lists):
        raise LoaderError("pandas_categorical is not a list of lists; the file is damaged")
    check_labels(lists)
    if sum(map(len, lists)) > _MAX_LEVELS:
        raise UnsupportedModelError(
            f"the model has {sum(map(len, lists)):,} labels of categories; predgap handles up to "
            f"{_MAX_LEVELS:,}: merge rare categories"
        )
    if lists and len(lists) != n:
        raise UnsupportedModelError(
            f"the model has {counted(n, 'categorical feature')}, but labels of "
            f"{counted(len(lists), 'column')} of the frame that it was trained on: {_UNCLEAR}"
        )
    return lists


# ------------------------------------------------------------------------------------------------------------
# The text of a model is not trusted. It has a header and trees, each of lines `key=value`.
#
# Values stay text until they are read, as one number or as the numbers of all trees. After the trees come
# importances, training parameters and the labels of categories from pandas.

Fields = dict[str, str]
Counts = NDArray[np.int64]  # (n_trees,)

# A damaged file must not make us allocate or work without end.
_MAX_LINES: Final = 64  # of the header or a tree; LightGBM reads up to 22 of a tree
_MAX_LENGTH: Final = 32  # of a number, on average

_IN_NUMBERS: Final = b"-+.0123456789einf"  # not nan, nor other texts that NumPy accepts


# ---- bytes to fields ----


class Text(NamedTuple):
    """The parts of a model's text."""

    header: Fields
    trees: Iterator[Fields]  # read one by one
    tail: bytes  # what follows the trees


def read(data: bytes) -> Text:
    """The fields of the header, those of each tree (parsed lazily), and the text after the trees."""
    head, blank, _ = data.partition(b"\n\n")
    if b"\r" in head:
        raise LoaderError(
            "the model file has carriage returns, with which LightGBM cannot read it either; restore its "
            "line ends (\\n), or save it again"
        )
    if not blank:
        raise LoaderError("the model file stops within its header; save or copy it again")
    header = _fields(head.removeprefix(b"tree\n"), "the header")
    start = len(head) + len(blank)
    end = data.find(b"\nend of trees\n", start - 1) + 1
    if end == 0:
        raise LoaderError("the model file stops within its trees; save or copy it again")
    blocks = _tree_blocks(data, start, end, header)
    trees = (_fields(block, f"tree {i}") for i, block in enumerate(blocks))
    return Text(header, trees, data[end + len(b"end of trees") :])


def _tree_blocks(data: bytes, at: int, end: int, header: Fields) -> Iterator[bytes]:
    """The text of each tree; LoaderError if it does not have the number of bytes that the header states."""
    n_trees = data.count(b"\nTree=", at - 1, end)
    for i, size in enumerate(parts(header, "tree_sizes", n_trees)):
        stop = at + int(size) if re.fullmatch("[0-9]{1,9}", size) else at
        opening, closing = b"Tree=%d\n" % i, b"\n\n\n"
        if stop > end or not (data.startswith(opening, at, stop) and data.endswith(closing, at, stop)):
            raise LoaderError(
                f"tree {i} does not fill the {size[:20]} bytes that tree_sizes states; if the file was "
                "edited, save it again"
            )
        yield data[at + len(opening) : stop - len(closing)]
        at = stop
    if at != end:
        raise LoaderError(f"{end - at} bytes follow the last tree, expected none; the file is damaged")


def _fields(text: bytes, where: str) -> Fields:
    """The values of lines `key=value` by key; a line may be a key alone."""
    if text.count(b"\n") >= _MAX_LINES:
        raise LoaderError(f"{where} has more than {_MAX_LINES} lines; the file is damaged")
    try:
        lines = [line.partition("=") for line in text.decode().split("\n")]
    except UnicodeDecodeError as error:
        raise LoaderError(f"{where} is no UTF-8 text ({error.reason}); the file is damaged") from error
    fields = {key: value for key, _, value in lines}
    if len(fields) < len(lines):
        raise LoaderError(f"{where} has a field twice; the file is damaged")
    return fields


# ---- fields to numbers ----


def field(fields: Fields, name: str) -> str:
    """The text of a field; LoaderError if it is absent."""
    if name not in fields:
        raise LoaderError(f"there is no {name}; is it a LightGBM model saved by save_model?")
    return fields[name]


def count(fields: Fields, name: str, least: int, most: int, default: str | None = None) -> int:
    """A field that is a whole number from `least` to `most`."""
    text = field(fields, name) if default is None else fields.get(name, default)
    if not re.fullmatch("[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise LoaderError(f"{name} is {text[:40]!r}, expected a number from {least} to {most}")
    return int(text)


def parts(fields: Fields, name: str, n: int) -> list[str]:
    """The n parts of a field, separated by spaces. They are counted before splitting, to limit memory."""
    text = field(fields, name)
    found = text.count(" ") + 1 if text else 0
    if found != n:
        raise LoaderError(f"{name} has {found} entries, expected {n}; the file is damaged")
    return text.split(" ") if text else []


def floats(trees: list[Fields], name: str, counts: Counts) -> FloatArray:
    """The numbers of one field of all trees, concatenated; tree i must have `counts[i]`."""
    return _numbers(_joined(trees, name, counts), name, np.float64)


def integers(trees: list[Fields], name: str, counts: Counts) -> IntArray:
    """The signed 32-bit integers of one field of all trees, concatenated; `counts` are as in `floats`."""
    return _within(_joined(trees, name, counts), name, 1 - 2**31, 2**31 - 1).astype(np.int32)


def words(trees: list[Fields], name: str, counts: Counts) -> NDArray[np.uint32]:
    """The unsigned 32-bit integers of one field of all trees, concatenated; `counts` are as in `floats`."""
    return _within(_joined(trees, name, counts), name, 0, 2**32 - 1).astype(np.uint32)


def codes(texts: list[str], name: str) -> IntArray:
    """The 32-bit integers of all texts, concatenated; in a text they are separated by colons."""
    return _within(":".join(texts), name, 1 - 2**31, 2**31 - 1, separator=":").astype(np.int32)


def _joined(trees: list[Fields], name: str, counts: Counts) -> str:
    """The texts of one field of all trees, joined; tree i must have `counts[i]` numbers."""
    texts = [field(tree, name) for tree in trees]
    for i, (text, n) in enumerate(zip(texts, counts.tolist(), strict=True)):
        found = text.count(" ") + 1 if text else 0
        if found != n or len(text) > n * _MAX_LENGTH:
            raise LoaderError(
                f"{name} of tree {i} has {found} entries in {len(text)} characters, expected {n} numbers; "
                "the file is damaged"
            )
    return " ".join(filter(None, texts))


def _within(text: str, name: str, least: int, most: int, separator: str = " ") -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = _numbers(text, name, np.int64, separator)
    if len(numbers) and (numbers.min() < least or numbers.max() > most):
        raise LoaderError(f"{name} holds a number beyond 32 bits; the file is damaged")
    return numbers


def _numbers(text: str, name: str, kind: type[np.generic], separator: str = " ") -> NDArray[Any]:
    if not text:
        return np.empty(0, dtype=kind)
    strange = text.encode().translate(None, _IN_NUMBERS + separator.encode())
    try:
        numbers = np.fromstring("" if strange else text, dtype=kind, sep=separator)
    except (ValueError, DeprecationWarning):  # an older NumPy warns, and stops at what is no number
        numbers = np.empty(0, dtype=kind)
    if len(numbers) != text.count(separator) + 1:
        found = f" ({strange[:20].decode(errors='replace')!r})" if strange else ""
        raise LoaderError(f"{name} holds something that is no number{found}; the file is damaged")
    return numbers
