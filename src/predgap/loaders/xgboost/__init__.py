"""Loads XGBoost models: a Booster, its scikit-learn wrappers, and files saved as JSON or UBJSON.

A row goes left where x < threshold, in single precision; a missing value goes the default way. A split on
categories sends the categories of its set to the right. Margins are the sum of the leaves plus the intercept,
which is computed from `base_score`.

Objects are saved as UBJSON in memory and then read like a file; afterwards they are checked against their own
predictions. XGBoost itself is imported only for this check.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from predgap import _files
from predgap._model.ensemble import Ensemble
from predgap._model.links import Link
from predgap._model.rounding import fields_of_rows
from predgap._text import warn
from predgap._typing import FloatArray, IntArray
from predgap.errors import EnsembleError, LoaderError, UnsupportedModelError
from predgap.loaders import selfcheck
from predgap.loaders._formats.documents import Document, single
from predgap.loaders.labels import class_names, numbered
from predgap.loaders.xgboost.categories import read_categories
from predgap.loaders.xgboost.document import (
    TREE_ARRAYS,
    count,
    decode,
    dotted,
    integers,
    numbers_of,
    section,
    text,
    texts,
)
from predgap.loaders.xgboost.intercepts import predicts_exponentials, read_bias
from predgap.loaders.xgboost.trees import read_nodes

__all__ = ["from_file", "from_object"]

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

_ask = partial(selfcheck.ask, "XGBoost")


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

    def matrix(rows: selfcheck.Rows) -> Any:
        return DMatrix(rows, missing=ensemble.missing)

    span = (0, iterations or 0)

    def leaves(rows: selfcheck.Rows) -> Any:  # a wrapper's `apply` would require feature names
        return booster.predict(matrix(rows), pred_leaf=True, iteration_range=span, validate_features=False)

    def margins(rows: selfcheck.Rows) -> Any:
        options = {"output_margin": True, "validate_features": False}
        if model is booster:
            return booster.predict(matrix(rows), iteration_range=span, **options)
        return model.predict(rows, **options)

    selfcheck.check(
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
    """How probabilities follow from margins; None if the model predicts margins."""
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
    """How many iterations a wrapper uses: up to the best one after early stopping, else None (all)."""
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
