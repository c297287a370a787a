"""Loads XGBoost models: a Booster, its scikit-learn wrappers, and files saved as JSON or UBJSON.

A row goes left where x < threshold, in single precision; a missing value goes the default way. A split on
categories sends the categories of its set to the right. Margins are the sum of the leaves plus the intercept,
which is computed from `base_score`.

Objects are saved as UBJSON in memory and then read like a file; afterwards they are checked against their own
predictions. XGBoost itself is imported only for this check.
"""

from __future__ import annotations

import json
import re
from collections.abc import Set
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap import _files
from predgap._inputs.categories import Categories
from predgap._model.ensemble import ALL_OUTPUTS, LEAF, NUMERIC, Ensemble
from predgap._model.links import Link
from predgap._model.rounding import fields_of_rows
from predgap._text import warn
from predgap._typing import BoolArray, FloatArray, IntArray
from predgap.errors import EnsembleError, LoaderError, UnsupportedModelError
from predgap.loaders import translation
from predgap.loaders._formats.json import (
    Document,
    as_document,
    decode_ubjson,
    numbers,
    object_in,
    parse,
    single,
)
from predgap.loaders.translation import class_names, numbered

__all__ = ["decode", "from_file", "from_object"]

TREE_ARRAYS: Final = frozenset(
    {"left_children", "right_children", "split_indices", "split_conditions"}
    | {"default_left", "split_type", "base_weights", "leaf_weights"}
    | {f"categories{suffix}" for suffix in ("", "_nodes", "_segments", "_sizes")}
)

_OLDEST: Final = (1, 3)
_NEWEST_MAJOR: Final = 3
_MAX_FEATURES: Final = 10_000_000
_MAX_OUTPUTS: Final = 1_000_000  # so that a damaged number does not allocate all memory

_TREE_KEYS: Final = TREE_ARRAYS | {"id", "loss_changes", "parents", "sum_hessian", "tree_param"}
_MODEL_KEYS: Final = frozenset(
    {"cats", "gbtree_model_param", "iteration_indptr", "tree_info", "trees", "weight_drop"}
)
_BOOSTER_KEYS: Final = frozenset({"gbtree", "model", "name", "weight_drop"})
_LABEL_KEYS: Final = frozenset({"enc", "feature_segments", "is_ref", "sorted", "sorted_idx"})

_ask = partial(translation.ask_library, "XGBoost")


def from_file(path: Path, best_iteration: bool | None = None) -> Ensemble:
    """The ensemble of a JSON or UBJSON file, up to the best iteration or with all of its trees; None is all,
    with a warning if these are more."""
    document = decode(_files.read(path))
    version = _version(document)
    news = _unknown_parts(document)
    if version[0] > _NEWEST_MAJOR or news:
        raise UnsupportedModelError(
            f"the file was written by XGBoost {dotted(version)} in a way that predgap does not know"
            f"{f' (it has {news[0][:40]!r})' if news else ''}; load it with XGBoost and pass the object, "
            "which is then checked against its predictions"
        )
    if best_iteration is None:
        _warn_of_later_trees(document, path)
    return _ensemble(document, iterations=_best_iterations(document) if best_iteration else None)


def from_object(model: Any, best_iteration: bool | None = None) -> Ensemble:
    """The ensemble of a Booster or wrapper, checked against the object's own leaves and margins.

    It has the trees up to the best iteration if it is a wrapper, or `best_iteration` is True; else all.
    """
    kinds = type(model).__mro__
    if any(kind.__module__.startswith("xgboost.dask") for kind in kinds):
        raise UnsupportedModelError(f"{type(model).__name__} predicts on a cluster; pass its get_booster()")
    if not any(kind.__name__ == "XGBModel" for kind in kinds):
        document = _saved(model)
        iterations = _best_iterations(document) if best_iteration else None
        return _checked(_ensemble(document, iterations=iterations), model, model, iterations)
    booster = _ask("give its booster", model.get_booster)
    document = _saved(booster)
    iterations = _best_iterations(document)
    missing = float("nan") if model.missing is None else float(model.missing)
    classes = getattr(model, "classes_", None)  # of classifiers
    ensemble = _ensemble(document, iterations=iterations, missing=missing, classes=classes)
    return _checked(ensemble, model, booster, iterations)


def _checked(ensemble: Ensemble, model: Any, booster: Any, iterations: int | None) -> Ensemble:
    """The ensemble, after a check against the predictions of the object (a wrapper's, if it is one)."""
    from xgboost import DMatrix

    def matrix(rows: translation.Rows) -> Any:
        return DMatrix(rows, missing=ensemble.missing)

    span = (0, iterations or 0)

    def leaves(rows: translation.Rows) -> Any:  # a wrapper's `apply` would require feature names
        return booster.predict(matrix(rows), pred_leaf=True, iteration_range=span, validate_features=False)

    def margins(rows: translation.Rows) -> Any:
        options = {"output_margin": True, "validate_features": False}
        if model is booster:
            return booster.predict(matrix(rows), iteration_range=span, **options)
        return model.predict(rows, **options)

    translation.check_predictions(
        ensemble,
        library="XGBoost",
        margins=lambda rows: _ask("predict", lambda: margins(rows)),
        leaves=(lambda rows: _ask("predict", lambda: leaves(rows))) if ensemble.n_trees else None,
    )
    return ensemble


def _saved(booster: Any) -> Document:
    return decode(bytes(_ask("be saved", lambda: booster.save_raw("ubj"))))


def _ensemble(
    document: Document, *, iterations: int | None = None, missing: float = float("nan"), classes: Any = None
) -> Ensemble:
    learner = section(document, "learner")
    version = _version(document)
    objective = text(section(learner, "objective"), "name")
    name, model, weights = _tree_model(section(learner, "gradient_booster"))
    param = section(learner, "learner_model_param")
    n_outputs = _n_outputs(param)
    several_targets = count(param, "num_target", 1, _MAX_OUTPUTS) > 1
    trees = _trees(model)
    info = integers(numbers_of(model.get("tree_info"), "tree_info"), "tree_info")
    if len(info) != len(trees):
        raise LoaderError(f"tree_info has {len(info)} entries for {len(trees)} trees; the file is damaged")
    if weights is None:
        weights = np.ones(len(trees))
    elif len(weights) != len(trees) or not np.isfinite(weights).all():
        raise LoaderError(
            f"weight_drop is not {len(trees)} finite numbers, one per tree; the file is damaged"
        )
    n_trees = len(trees) if iterations is None else _trees_within(model, iterations, n_outputs)
    nodes = read_nodes(trees[:n_trees], info[:n_trees], weights[:n_trees], n_outputs)
    n_features = count(param, "num_feature", most=_MAX_FEATURES)
    accepts_infinity = bool(np.isinf(missing))  # XGBoost's own rule
    threshold = nodes.pop("threshold")
    try:
        return Ensemble(
            **nodes,
            **fields_of_rows(np.float32, threshold, missing=missing, accepts_infinity=accepts_infinity),
            bias=read_bias(text(param, "base_score"), objective, version, n_outputs),
            n_features=n_features,
            categories=read_categories(learner, model, nodes, n_features, version),
            feature_names=texts(learner, "feature_names"),
            class_names=_class_names(classes, objective, n_outputs, several_targets),
            link=_link(objective),
            source=f"XGBoost {dotted(version)} {name} {objective}",
        )
    except EnsembleError as error:
        raise LoaderError(f"the XGBoost model is damaged: {error}; save it again") from error


def _class_names(
    classes: Any, objective: str, n_outputs: int, several_targets: bool
) -> tuple[str, ...] | None:
    """The labels of the classes: a wrapper's, or else the numbers from 0 that XGBoost is trained on."""
    if several_targets:
        return None
    if classes is not None:
        return class_names(np.ravel(classes).tolist(), n_outputs)
    binary = objective.startswith("binary:")
    return numbered(n_outputs, binary=binary) if binary or objective.startswith("multi:") else None


def _link(objective: str) -> Link | None:
    """The link from margins to probabilities; None if the model predicts margins."""
    if objective in ("binary:logistic", "binary:logitraw", "reg:logistic"):
        return Link("logistic")
    if objective == "binary:hinge" or predicts_exponentials(objective):
        return Link("other")
    return Link("softmax") if objective.startswith("multi:") else None


def _unknown_parts(document: Document) -> list[str]:
    """Keys that no version up to 3.4 writes, in parts where they could change the meaning of the trees.

    XGBoost moved or added such keys in 3.2, 3.3 and 3.4. A file has no predictions to check against, so a
    file with unknown keys is refused.
    """
    booster = section(section(document, "learner"), "gradient_booster")
    _, model, _ = _tree_model(booster)
    parts = [(booster, _BOOSTER_KEYS), (model, _MODEL_KEYS), *((tree, _TREE_KEYS) for tree in _trees(model))]
    if "cats" in model:
        parts.append((section(model, "cats"), _LABEL_KEYS))
    return [key for part, known in parts for key in part.keys() - known]


def _version(document: Document) -> tuple[int, ...]:
    parts = integers(numbers_of(document.get("version"), "version"), "version")
    if len(parts) != 3 or (parts < 0).any():
        raise LoaderError(f"the version is {parts.tolist()}, expected three numbers")
    version = tuple(parts.tolist())
    if version < _OLDEST:
        raise UnsupportedModelError(
            f"the model was saved by XGBoost {dotted(version)}; load it with XGBoost "
            f"{dotted(_OLDEST)} or newer and save it again"
        )
    return version


def _tree_model(booster: Document) -> tuple[str, Document, FloatArray | None]:
    """The name of the booster, the part with its trees, and for DART the weights of the trees."""
    name = text(booster, "name")
    if name == "gblinear":
        raise UnsupportedModelError("the booster is gblinear, a linear model; predgap explains trees")
    if name not in ("gbtree", "dart"):
        raise UnsupportedModelError(f"the booster is {name[:40]!r}; predgap knows gbtree and dart")
    model = section(section(booster, "gbtree") if name == "dart" else booster, "model")
    # The weights are next to "dart" up to 3.2, next to "gbtree" in 3.3, and inside the model since 3.4.
    weights = [part["weight_drop"] for part in (booster, model) if "weight_drop" in part]
    if len(weights) != 1 and (weights or name == "dart"):
        raise LoaderError(f"the DART weights occur {len(weights)} times, expected once; the file is damaged")
    return ("dart", model, single(numbers_of(weights[0], "weight_drop"))) if weights else (name, model, None)


def _trees(model: Document) -> list[Document]:
    """The trees in the order of their ids, which is the order of `tree_info` and of the weights."""
    trees = model.get("trees")
    if not isinstance(trees, list) or not all(isinstance(tree, dict) for tree in trees):
        raise LoaderError("the model has no list of trees; was it saved with save_model?")
    stated = count(section(model, "gbtree_model_param"), "num_trees")
    by_id = {tree.get("id"): tree for tree in trees if isinstance(tree.get("id"), int)}
    if len(trees) != stated or by_id.keys() != set(range(stated)):
        raise LoaderError(
            f"the model states {stated} trees and has {len(trees)}, or their ids are not in order"
        )
    return [by_id[i] for i in range(stated)]


def _best_iterations(document: Document) -> int | None:
    """The number of iterations that a wrapper uses: up to the best after early stopping, else None (all)."""
    attributes = section(document, "learner").get("attributes")
    if not isinstance(attributes, dict) or "best_iteration" not in attributes:
        return None
    return count(attributes, "best_iteration") + 1


def _warn_of_later_trees(document: Document, path: Path) -> None:
    """Warns of a file that has more iterations than the wrappers of XGBoost would use."""
    learner = section(document, "learner")
    _, model, _ = _tree_model(section(learner, "gradient_booster"))
    try:
        best = _best_iterations(document)
        all_of_them = len(_ends(model, _n_outputs(section(learner, "learner_model_param")))) - 1
    except LoaderError:  # an attribute of the user's, or damage, which is found when trees are read
        return
    if best is not None and best < all_of_them:
        warn(
            f"{path.name!r} was trained with early stopping: its best_iteration is {best - 1}, but it has "
            f"{all_of_them} iterations, and all are loaded. XGBRegressor and the like predict with the first "
            f"{best}: for that, pass predgap.load(path, best_iteration=True), or --best-iteration on the "
            "command line. False, or --no-best-iteration, takes all without this warning"
        )


def _trees_within(model: Document, iterations: int, n_outputs: int) -> int:
    """The number of trees in the first iterations."""
    ends = _ends(model, n_outputs)
    if iterations >= len(ends) or ends[iterations] < 0:
        raise LoaderError(
            f"best_iteration is {iterations - 1}, but there are only {len(ends) - 1} iterations"
        )
    return int(ends[iterations])


def _ends(model: Document, n_outputs: int) -> IntArray:
    """The number of trees before each iteration, and of all."""
    if "iteration_indptr" in model:
        return integers(numbers_of(model["iteration_indptr"], "iteration_indptr"), "iteration_indptr")
    param = section(model, "gbtree_model_param")  # before 2.0 every iteration built the same number
    step = n_outputs * max(1, count(param, "num_parallel_tree", 1))
    return np.arange(0, count(param, "num_trees") + 1, step, dtype=np.int32)


def _n_outputs(param: Document) -> int:
    return max(1, *(count(param, key, 1, _MAX_OUTPUTS) for key in ("num_class", "num_target")))


# ------------------------------------------------------------------------------------------------------------
# The trees of a model become the node arrays of an ensemble.

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
    """The number of values that a leaf holds: 1, or one per output. Old files say 0 for 1."""
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


# ------------------------------------------------------------------------------------------------------------
# The categories of features are read from the model, or follow from its splits.
#
# Since 3.1 XGBoost stores the categories of the frame that the model was trained on, with their labels. For
# older models the categories are the codes from 0 to the largest one that occurs in the trees, without
# labels.

_ROUTES_CATEGORIES: Final = (1, 7)  # older versions send some categories the way of missing values
_STORES_LETTERS: Final = (3, 4)  # older versions damage labels of pandas with letters beyond ASCII
_FREE_LEVELS: Final = 1 << 17  # how many more unlabelled categories there may be than codes in the file
# The number for a type of integers is 0 if they are signed, and the number of bits if they are unsigned,
# which UBJSON stores as signed.
_INTEGER_BITS: Final = {9: 0, 10: 8, 11: 0, 12: 16, 13: 0, 14: 32, 15: 0, 16: 64}


def read_categories(
    learner: Document, model: Document, nodes: dict[str, Any], n_features: int, version: tuple[int, ...]
) -> tuple[Categories | None, ...] | None:
    """The categories of each feature. A feature is categorical by its type, its labels, or splits on sets."""
    types = texts(learner, "feature_types") or ()
    if types and len(types) != n_features:
        raise LoaderError(f"{len(types)} feature_types for {n_features} features; the file is damaged")
    largest = _largest_codes(nodes)
    if largest and version < _ROUTES_CATEGORIES:
        raise UnsupportedModelError(
            f"the model splits on categories and was saved by XGBoost {dotted(version)}; load it with "
            f"XGBoost {dotted(_ROUTES_CATEGORIES)} or newer, which treats unknown categories differently, "
            "and save it again"
        )
    labels = _labels(model, n_features, version)
    categorical = {q for q, kind in enumerate(types) if kind == "c"} | labels.keys() | largest.keys()
    _refuse_thresholds(categorical, nodes)
    n_levels = {q: len(labels[q]) if q in labels else largest.get(q, -1) + 1 for q in categorical}
    _refuse_gaps({q: n for q, n in n_levels.items() if q not in labels}, len(nodes["set_code"]))
    levels = {q: Categories(np.arange(n, dtype=np.int32), labels.get(q)) for q, n in n_levels.items()}
    return tuple(levels.get(q) for q in range(n_features)) if levels else None


def _largest_codes(nodes: dict[str, Any]) -> dict[int, int]:
    """The largest code in the sets of each feature that is split by sets."""
    split = np.flatnonzero(nodes["category_set"] != NUMERIC)
    ends = nodes["set_begin"][nodes["category_set"][split] + 1]
    largest = nodes["set_code"][ends - 1]  # codes ascend in a set
    order = np.argsort(largest, kind="stable")  # the largest code of a feature comes last: `dict` keeps it
    return dict(zip(nodes["feature"][split][order].tolist(), largest[order].tolist(), strict=True))


def _refuse_thresholds(categorical: Set[int], nodes: dict[str, Any]) -> None:
    compared = nodes["feature"][(nodes["feature"] != LEAF) & (nodes["category_set"] == NUMERIC)]
    both = categorical & set(np.unique(compared).tolist())
    if both:
        raise UnsupportedModelError(
            f"feature {min(both)} is categorical, but a tree compares it with a threshold; train the model "
            "anew, with the same feature_types all along"
        )


def _refuse_gaps(n_levels: dict[int, int], n_codes: int) -> None:
    """Refuses models in which a few codes would make a list of millions of categories."""
    if sum(n_levels.values()) > _FREE_LEVELS + n_codes:
        q = max(n_levels, key=lambda q: n_levels[q])
        raise UnsupportedModelError(
            f"the categories of feature {q} have codes up to {n_levels[q] - 1}, but the trees use only "
            f"{n_codes} codes in all; number the categories 0, 1, 2, ... and train the model anew"
        )


def _labels(model: Document, n_features: int, version: tuple[int, ...]) -> dict[int, tuple[Any, ...]]:
    """The labels of each feature that was a categorical column of a frame, in the order of their codes."""
    stored = section(model, "cats") if "cats" in model else {"enc": []}
    columns = stored.get("enc")
    if not isinstance(columns, list) or not all(isinstance(column, dict) for column in columns):
        raise LoaderError("the labels of categories are no list of objects; the file is damaged")
    if not columns:  # trained on codes
        return {}
    labels = [
        _text_labels(column, q, version) if "offsets" in column else _number_labels(column, q)
        for q, column in enumerate(columns)
    ]
    ends = integers(numbers_of(stored.get("feature_segments"), "feature_segments"), "feature_segments")
    if len(columns) != n_features or np.diff(ends).tolist() != list(map(len, labels)):
        raise LoaderError("the labels of categories do not fit the features; the file is damaged")
    return {q: found for q, found in enumerate(labels) if found}


def _text_labels(column: Document, q: int, version: tuple[int, ...]) -> tuple[str, ...]:
    """Texts one after the other as bytes; a numeric feature has none."""
    ends = integers(numbers_of(column["offsets"], "offsets"), "offsets").tolist()
    values = integers(numbers_of(column.get("values"), "values"), "values")
    in_order = ends == sorted(ends) and ends[:1] in ([], [0]) and ends[-1:] <= [len(values)]
    if not in_order or ((values < -128) | (values > 255)).any():
        raise LoaderError(f"the labels of feature {q} are not whole; the file is damaged")
    data = values.astype(np.uint8).tobytes()
    try:
        if data.isascii() or version >= _STORES_LETTERS:
            return tuple(data[start:end].decode() for start, end in pairwise(ends))
    except UnicodeDecodeError:  # trained by an older version, and saved again by a newer one
        pass
    raise UnsupportedModelError(
        f"the categories of feature {q} have letters beyond ASCII, which XGBoost before "
        f"{dotted(_STORES_LETTERS)} does not store reliably; train the model with a newer one, or on codes "
        "(a numeric array and feature_types), or rename the categories"
    )


def _number_labels(column: Document, q: int) -> tuple[int, ...]:
    values, kind = column.get("values"), column.get("type")
    found = values.tolist() if isinstance(values, np.ndarray) else values
    n_bits = _INTEGER_BITS.get(kind) if isinstance(kind, int) else None
    if n_bits is None or not isinstance(found, list) or not set(map(type, found)) <= {int}:
        raise LoaderError(f"the labels of feature {q} are neither texts nor integers; the file is damaged")
    return tuple(value % 2**n_bits for value in found) if n_bits else tuple(found)


# ------------------------------------------------------------------------------------------------------------
# The intercepts are `base_score` as a margin.

# The link function of each objective: files store `base_score` as a prediction, and the link turns it into a
# margin. All objectives of XGBoost 1.3 to 3.4 are here. Others are refused, since a wrong link shifts all
# margins.
_LINK_OF: Final = {
    **dict.fromkeys(("binary:logistic", "reg:logistic"), "logit"),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox"), "log"),
    **dict.fromkeys(
        (
            "binary:hinge",
            "binary:logitraw",
            "multi:softmax",
            "multi:softprob",
            "rank:map",
            "rank:ndcg",
            "rank:pairwise",
            "reg:absoluteerror",
            "reg:expectileerror",
            "reg:linear",
            "reg:pseudohubererror",
            "reg:quantileerror",
            "reg:squarederror",
            "reg:squaredlogerror",
        ),
        "identity",
    ),
}
_CLIPS_LOGIT: Final = (3, 2)  # the first version that clips the probability before taking its logit


def read_bias(text: str, objective: str, version: tuple[int, ...], n_outputs: int) -> FloatArray:
    """The intercepts as margins, computed in single precision as XGBoost does."""
    link = _LINK_OF.get(objective)
    if link is None or (objective == "reg:expectileerror" and n_outputs > 1):
        raise UnsupportedModelError(
            f"the objective {objective[:60]!r}{' with several alphas' if link else ''} is not known to "
            f"predgap, nor how it turns base_score into a margin; known are {', '.join(sorted(_LINK_OF))}"
        )
    score = _base_score(text, n_outputs)
    one = np.float32(1)
    with np.errstate(all="ignore"):
        if link == "log":
            score = np.log(score)
        elif link == "logit":
            if version >= _CLIPS_LOGIT and ((score >= 0) & (score <= 1)).all():
                score = np.clip(score, np.float32(1e-6), one - np.float32(1e-6))
            score = -np.log(one / score - one)
    if not np.isfinite(score).all():
        raise LoaderError(
            f"base_score {text[:60]} gives no finite margin for {objective}; set it and train again"
        )
    return np.broadcast_to(score, n_outputs) + np.float64(0)  # turns -0.0 into 0.0


def predicts_exponentials(objective: str) -> bool:
    """True if the prediction of this objective is the exponential of the margin."""
    return _LINK_OF.get(objective) == "log"


def _base_score(text: str, n_outputs: int) -> NDArray[np.float32]:
    """The number in the text, or (since XGBoost 3.1) the list of numbers."""
    try:
        score = np.array([float(part) for part in text.strip("[]").split(",")])
    except ValueError:
        score = np.empty(0)
    if score.size not in (1, n_outputs):
        raise LoaderError(f"base_score is {text[:60]!r}, expected one number or {n_outputs}")
    with np.errstate(over="ignore"):  # an overflow to infinity is refused later
        return score.astype(np.float32)


# ------------------------------------------------------------------------------------------------------------
# JSON or UBJSON becomes a dict, of which these functions read typed parts.

# Arrays of trees that are not needed. Removing them from the text halves the time of parsing. Within a JSON
# string a quote has a backslash before it, so these patterns match keys only.
_UNUSED: Final = re.compile(r'("(?:loss_changes|parents|sum_hessian)"\s*:\s*)\[[^\]"]*\]')
_UNUSED_BY_SCALARS: Final = re.compile(_UNUSED.pattern.replace("parents", "parents|base_weights"))
_HAS_VECTORS: Final = re.compile(r'"size_leaf_vector"\s*:\s*"(?![01]")')

section = partial(object_in, model="an XGBoost model saved by save_model")
"""A JSON object within an object of the document."""


def decode(data: bytes) -> Document:
    """The content of a model file, with NumPy arrays for the lists in its trees."""
    is_json = re.match(rb"\s*\{\s*\"", data)
    return as_document(parse(data, _without_unused) if is_json else decode_ubjson(data))


def _without_unused(text: str) -> Any:
    unused = _UNUSED if _HAS_VECTORS.search(text) else _UNUSED_BY_SCALARS
    return json.loads(unused.sub(r"\1[]", text), object_hook=_compact_tree)


def _compact_tree(found: Document) -> Document:
    """Turns the lists of a tree into arrays as soon as it is parsed, to save memory."""
    if "left_children" in found:
        for name in TREE_ARRAYS & found.keys():
            found[name] = numbers_of(found[name], name)
    return found


def text(parent: Document, name: str) -> str:
    value = parent.get(name)
    if not isinstance(value, str):
        raise LoaderError(f"{name} is a {type(value).__name__}, expected a text; the file is damaged")
    return value


def count(parent: Document, name: str, default: int | None = None, most: int = 2**31 - 1) -> int:
    """A whole number from 0 to `most`, which XGBoost stores as text."""
    value = parent.get(name, default)
    text = str(value) if isinstance(value, str | int) else f"a {type(value).__name__}"
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > most:
        raise LoaderError(f"{name} is {text[:40]!r}, expected a number from 0 to {most}")
    return int(text)


def tree_param(tree: Document, name: str, default: int | None = None) -> int:
    return count(section(tree, "tree_param"), name, default)


def numbers_of(value: Any, name: str) -> NDArray[Any]:
    """Numbers as an array: from a JSON list, or the array that UBJSON gave."""
    return value if isinstance(value, np.ndarray) else numbers(value, name, {int, float, bool})


def integers(values: NDArray[Any], name: str) -> IntArray:
    with np.errstate(invalid="ignore"):
        integers = values.astype(np.int32)
    if not np.array_equal(integers, values):
        raise LoaderError(f"{name} holds numbers that are no 32-bit integers; the file is damaged")
    return integers


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def texts(learner: Document, name: str) -> tuple[str, ...] | None:
    """A list of texts; None if it is empty or absent."""
    texts = learner.get(name)
    if texts is None or texts == []:
        return None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise LoaderError(f"{name} is not a list of texts; the file is damaged")
    return tuple(texts)
