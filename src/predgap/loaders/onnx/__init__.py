"""Loads ONNX models with one TreeEnsembleRegressor, TreeEnsembleClassifier or (ai.onnx.ml 5) TreeEnsemble.

An ensemble predicts the margin: the sum of the trees (the average, with `aggregate_function` AVERAGE) and
`base_values`, without `post_transform`. Each target or class is an output. An exception are classifiers of
two classes whose weights are all for one class, which is how ONNX represents binary classifiers (with weights
for class 0): they have one output, the score of the second class. So do those of CatBoost, in which each leaf
has a weight for the second class and minus that for the first. Before the tree node there may be Cast and
Identity nodes, after it also ZipMap.

Files are read without the `onnx` package; an object is serialized and read like a file. If onnxruntime is
installed, the load is checked against it: it runs the tree node alone, without `post_transform`, and only
after our own checks have refused damaged models. (The evaluator in the `onnx` package supports neither
doubles nor all binary classifiers.) Models with more than 262,144 features are not checked, nor TreeEnsemble
models if the installed onnxruntime is too old for them.

Rows are FLOAT or DOUBLE like the model's input (FLOAT also if the model casts to it). A missing value, NaN,
goes to the true branch where `nodes_missing_value_tracks_true` is set, else to the false branch. A feature is
categorical if it is compared only by BRANCH_EQ or BRANCH_MEMBER. If the model does not state the number of
features, it is one more than the largest feature that a split uses.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from predgap import _files
from predgap._model.ensemble import ALL_OUTPUTS, LEAF, Ensemble
from predgap._model.links import Link
from predgap._typing import FloatArray
from predgap.errors import EnsembleError, LoaderError, UnsupportedModelError
from predgap.loaders import translation
from predgap.loaders.onnx.trees import (
    CLASSIFIER,
    EQ,
    GENERAL,
    GT,
    GTE,
    LEQ,
    MEMBER,
    UNUSED,
    TreeNode,
    Trees,
    read,
    read_trees,
    single_node_model,
    tree_of_node,
)
from predgap.loaders.translation import Integers, as_cuts, as_sets, class_names

__all__ = ["from_file", "from_object"]

_MAX_FEATURES: Final = 10_000_000
_MOST_CHECKED: Final = 1 << 18  # features; with more, the rows of the check would take too much memory
_CELLS_PER_WEIGHT: Final = 64  # limit for the values of vector leaves, most of which may be 0

_ask = partial(translation.ask_library, "ONNX", advice="is it valid? See onnx.checker.check_model")


def from_file(path: Path) -> Ensemble:
    """The ensemble of a .onnx file, checked against onnxruntime if it is installed."""
    return _ensemble(_files.read(path))


def from_object(model: Any) -> Ensemble:
    """The ensemble of an `onnx.ModelProto`, checked against onnxruntime if it is installed."""
    return _ensemble(_ask("be saved", model.SerializeToString))


def _ensemble(data: bytes) -> Ensemble:
    node = read(data)
    trees = _of_one_class(node, read_trees(node))
    n_features = _n_features(node, trees)
    bias, target_ids = _outputs(node, trees)
    value, target = _values(node, trees, target_ids, len(bias))
    feature, by_set = trees.feature, np.isin(trees.mode, (EQ, MEMBER))
    cuts = as_cuts(
        np.where(by_set | (feature == LEAF), 0.0, trees.split),
        trees.true,
        trees.false,
        trees.missing_true & (feature != LEAF),
        inclusive=np.isin(trees.mode, (LEQ, GT)),
        upward=np.isin(trees.mode, (GT, GTE)),
        kind=node.row_kind,
    )
    try:
        ensemble = Ensemble(
            **cuts.fields(node.row_kind),
            **as_sets(feature, by_set, *trees.member, n_features, node.row_kind),
            root=trees.root,
            feature=feature,
            value=value,
            target=target,
            bias=bias,
            n_features=n_features,
            class_names=_class_names(node, len(bias)),
            link=_link(node, trees, len(bias)),
            source=f"ONNX {node.operator} by {node.producer or 'an unknown program'}",
        )
    except EnsembleError as error:
        raise LoaderError(f"the ONNX model is damaged: {error}; save it again") from error
    _check(ensemble, node)
    return ensemble


def _n_features(node: TreeNode, trees: Trees) -> int:
    used = int(trees.feature.max(initial=-1)) + 1
    stated = max(1, used) if node.n_features is None else node.n_features
    if not used <= stated <= _MAX_FEATURES:
        raise LoaderError(
            f"the ONNX model has {stated} features and uses feature {used - 1}; expected up to "
            f"{_MAX_FEATURES}, and none beyond"
        )
    return stated


# ---- outputs ----


def _of_one_class(node: TreeNode, trees: Trees) -> Trees:
    """The trees without the weights for the first of two classes, if they are minus those for the second."""
    if node.operator != CLASSIFIER or trees.n_targets != 2 or trees.transform not in ("NONE", "LOGISTIC"):
        return trees
    first, second = (np.flatnonzero(trees.target == k) for k in (0, 1))
    first, second = (of[np.argsort(trees.leaf[of], kind="stable")] for of in (first, second))
    mirrored = np.array_equal(trees.leaf[first], trees.leaf[second]) and np.array_equal(
        trees.weight[first], -trees.weight[second]
    )
    if not mirrored or len(trees.base) or len(trees.target) > 2 * len(first):
        return trees
    return trees._replace(leaf=trees.leaf[second], target=trees.target[second], weight=trees.weight[second])


def _outputs(node: TreeNode, trees: Trees) -> tuple[FloatArray, Integers]:
    """The bias of each output, and the output of each weight."""
    n, base = trees.n_targets, trees.base
    if (trees.target >= n).any() or not len(trees.target):
        raise LoaderError(f"there are weights for no target or class of the {n}; the ONNX model is damaged")
    if node.operator == CLASSIFIER and n == 2:
        classes = np.unique(trees.target)
        if len(base) > (1 if classes.tolist() == [0] else 0):
            raise UnsupportedModelError(
                f"the ONNX model is a classifier of two classes with {len(base)} base_values and weights for "
                f"{len(classes)} of them, where runtimes disagree about what these are added to; "
                + (
                    "CatBoost writes this for boost_from_average: save the model as .cbm, "
                    "model.save_model('model.cbm'), and load that"
                    if node.producer.startswith("CatBoost")
                    else "convert it with weights for class 0 only, and one base value"
                )
            )
        if len(classes) == 1:
            return _bias(base, 1), np.zeros(len(trees.target), dtype=np.int64)
    return _bias(base, n), trees.target


def _class_names(node: TreeNode, n_outputs: int) -> tuple[str, ...] | None:
    """The labels of a classifier's classes; those that are no text in UTF-8 name nothing."""
    if node.operator != CLASSIFIER:
        return None
    texts, numbers = (node.attributes.get(f"classlabels_{kind}") for kind in ("strings", "int64s"))
    if isinstance(numbers, np.ndarray) and len(numbers):
        return class_names(numbers.tolist(), n_outputs)
    try:
        return class_names([text.decode() for text in texts], n_outputs) if isinstance(texts, list) else None
    except UnicodeDecodeError:
        return None


def _link(node: TreeNode, trees: Trees, n_outputs: int) -> Link | None:
    """The link from margins to predictions: `post_transform`, where runtimes do what ONNX says.

    onnxruntime leaves transforms of one target out.
    """
    if trees.transform == "NONE":
        return Link("identity") if node.operator == CLASSIFIER else None
    if node.operator != CLASSIFIER:
        return Link("other")
    if trees.transform == "LOGISTIC":
        return Link("logistic")
    return Link("softmax" if trees.transform == "SOFTMAX" and n_outputs > 1 else "other")


def _bias(base: FloatArray, n: int) -> FloatArray:
    if len(base) not in (0, n):
        raise LoaderError(f"base_values has {len(base)} entries, expected {n}; the ONNX model is damaged")
    return base if len(base) else np.zeros(n)


def _values(node: TreeNode, trees: Trees, output: Integers, n_outputs: int) -> tuple[FloatArray, Integers]:
    """The values of leaves, and the output that each tree adds to."""
    at_leaf = trees.feature[trees.leaf] == LEAF  # old converters wrote weights for splits too
    leaf, output, weight = trees.leaf[at_leaf], output[at_leaf], trees.weight[at_leaf]
    if (np.diff(np.sort((leaf << 32) | output)) == 0).any():
        raise LoaderError("a leaf has two weights for the same target or class; the ONNX model is damaged")
    tree_of = tree_of_node(trees)
    _refuse_split_values(trees, leaf)
    tree, n_trees = tree_of[leaf], len(trees.root)
    _refuse_lost_scores(node, trees, _always(tree_of[trees.feature == LEAF], tree, output), n_outputs)
    if trees.average:
        weight = weight / n_trees
    target = np.zeros(n_trees, dtype=np.int64)
    target[tree] = output
    n_nodes = len(tree_of)
    if (target[tree] == output).all():
        value = np.zeros((n_nodes, 1))
        value[leaf, 0] = weight
        return value, target
    if n_nodes * n_outputs > _CELLS_PER_WEIGHT * (len(weight) + n_nodes):
        raise UnsupportedModelError(
            f"the {len(weight)} weights of the ONNX model are spread over {n_outputs} targets or classes so "
            "thinly that predgap would need far more memory than the model"
        )
    value = np.zeros((n_nodes, n_outputs))
    value[leaf, output] = weight
    return value, np.full(n_trees, ALL_OUTPUTS)


def _refuse_split_values(trees: Trees, weighted: Integers) -> None:
    """Refuses leaves without a weight but with a split value.

    If there is one target, onnxruntime uses the split value as the weight.
    """
    strange = (trees.feature == LEAF) & (trees.split != 0)
    strange[weighted] = False
    if trees.n_targets == 1 and strange.any():
        raise UnsupportedModelError(
            f"node {np.argmax(strange)} of the ONNX model is a leaf without a weight, but not 0 in "
            "nodes_values, and runtimes disagree about its value; give it a weight (0 if it has none)"
        )


def _always(tree_of_leaf: Integers, tree: Integers, output: Integers) -> Integers:
    """The outputs for which every row gets a weight, because all leaves of some tree have one."""
    n_leaves = np.bincount(tree_of_leaf)
    pair, n_weights = np.unique((tree << 32) | output, return_counts=True)
    return np.unique((pair & 0xFFFFFFFF)[n_weights == n_leaves[pair >> 32]])


def _refuse_lost_scores(node: TreeNode, trees: Trees, always: Integers, n_outputs: int) -> None:
    """Refuses models in which some rows get no weight for an output: onnxruntime then deviates from ONNX.

    Of several targets it leaves out the base value; a classifier of two classes it treats as binary.
    """
    if n_outputs == 1:
        return
    if node.operator == CLASSIFIER:
        lost = np.setdiff1d([1] if n_outputs == 2 else [], always)
    else:
        lost = np.setdiff1d(np.flatnonzero(trees.base), always)
    if len(lost):
        raise UnsupportedModelError(
            f"some rows have no weight for target or class {int(lost[0])}, where runtimes disagree about its "
            "score; give each leaf of a tree a weight for it (0 if it has none)"
        )


# ---- check ----


def _check(ensemble: Ensemble, node: TreeNode) -> None:
    session = _session(node, ensemble.n_features) if ensemble.n_features <= _MOST_CHECKED else None
    if session is None:
        return

    def margins(rows: translation.Rows) -> Any:
        with np.errstate(over="ignore"):
            given = rows.astype(node.row_kind).astype(node.tree_kind)
        scores = _ask("be run", lambda: session.run(["Y"], {"X": given})[0])
        return scores[:, -ensemble.n_outputs :]  # of a binary classifier, the second class

    translation.check_predictions(
        ensemble,
        library="onnxruntime",
        margins=margins,
        double=node.operator == GENERAL and node.tree_kind is np.float64,
    )


def _session(node: TreeNode, n_features: int) -> Any:
    """An onnxruntime session of the tree node alone; None if onnxruntime is not installed or too old."""
    try:
        onnxruntime = import_module("onnxruntime")
    except ImportError:
        return None
    raw = {name: attribute for name, attribute in node.raw.items() if name not in UNUSED}
    model = single_node_model(node, raw, n_features)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised; do not print them too
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    try:
        return _ask("be run", lambda: onnxruntime.InferenceSession(model, options, providers=providers))
    except LoaderError as error:
        if type(error.__cause__).__name__ == "NotImplemented":
            return None
        raise
