"""From a model object or a model file to an `Ensemble`: one module per source library.

Which library made an object is read off the names of its classes, and which one made a file off its
first bytes, so that nothing is imported but what the model needs.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from predgap import _files
from predgap._model import serialization
from predgap._model.ensemble import Ensemble
from predgap.errors import LoaderError, UnsupportedModelError
from predgap.loaders import pickles
from predgap.loaders._formats import sniff

__all__ = ["load"]


@dataclass(frozen=True, slots=True)
class _ModelSource:
    """A source library: how to tell its models, and the module that reads them.

    The module offers `from_object(model)` and, if there are files, `from_file(path)`, both to an `Ensemble`.
    """

    module: str
    package: str  # that defines the classes
    classes: frozenset[str]  # names to look for among a model's classes
    supported: str  # for people
    opening: re.Pattern[bytes] | None = None  # how its files begin; None if it has none that are safe to open
    ending: bytes = b""  # the last byte of its files, but for white space; empty if that may be any


_SOURCES: Final = (
    _ModelSource(
        module="predgap.loaders.xgboost",
        package="xgboost",
        classes=frozenset({"Booster", "XGBModel"}),
        opening=re.compile(
            rb'\s*\{\s*"(?:learner|version)"\s*:'  # JSON
            rb"|\{(?:L\0{7}|l\0{3}|I\0|[iU])\x07(?:learner|version)"  # UBJSON
        ),
        ending=b"}",
        supported="an XGBoost Booster, XGBRegressor, XGBClassifier, XGBRanker, XGBRFRegressor or "
        "XGBRFClassifier, or the path of a model that XGBoost saved as .json or .ubj",
    ),
    _ModelSource(
        module="predgap.loaders.lightgbm",
        package="lightgbm",
        classes=frozenset({"Booster", "LGBMModel"}),
        opening=re.compile(rb"tree\r?\nversion=v"),  # whether the trees are whole is seen on reading
        supported="a LightGBM Booster, LGBMRegressor, LGBMClassifier or LGBMRanker, or the path of a model "
        "that LightGBM saved as text",
    ),
    _ModelSource(
        module="predgap.loaders.catboost",
        package="catboost",
        classes=frozenset({"CatBoost"}),
        opening=re.compile(
            rb'\s*\{\s*"(?:ctr_data|features_info|model_info|oblivious_trees|scale_and_bias|trees)"\s*:'
        ),
        ending=b"}",
        supported="a CatBoost, CatBoostRegressor, CatBoostClassifier or CatBoostRanker, or the path of a "
        "model that CatBoost saved as JSON",
    ),
    _ModelSource(
        module="predgap.loaders.catboost",
        package="catboost",
        classes=frozenset(),
        opening=re.compile(rb"CBM1"),
        supported="the path of a model that CatBoost saved as .cbm",
    ),
    _ModelSource(
        module="predgap.loaders.treelite",
        package="treelite",
        classes=frozenset({"Model"}),
        supported="a treelite Model",
    ),
    _ModelSource(
        module="predgap.loaders.onnx",
        package="onnx",
        classes=frozenset({"ModelProto"}),
        # ONNX has no mark: files begin with the version of the format, and the tag of another field
        opening=re.compile(rb"\x08[\x01-\x1f](?:[\x12\x1a\x22\x28\x32\x3a\x42\x72]|[\xa2\xca]\x01)"),
        supported="an ONNX ModelProto with one tree ensemble, or the path of a .onnx file of it",
    ),
    _ModelSource(  # before scikit-learn, of which it is a part
        module="predgap.loaders.pipelines",
        package="sklearn",
        classes=frozenset({"Pipeline"}),
        supported="a scikit-learn Pipeline that ends in one of all these",
    ),
    _ModelSource(  # the last one: wrappers of other libraries are scikit-learn estimators too
        module="predgap.loaders.sklearn",
        package="sklearn",
        classes=frozenset({"BaseEstimator"}),
        supported="a scikit-learn decision tree, forest, gradient boosting, bagging of trees or "
        "IsolationForest",
    ),
)

_SUPPORTED: Final = "; ".join(
    [*(source.supported for source in _SOURCES), "or the path of what Ensemble.save wrote"]
)


def load(model_or_path: Any, *, allow_pickle: bool = False) -> Ensemble:
    """The ensemble of a fitted model, or of a model file; an `Ensemble` is returned as it is.

    An object loads as its own `predict` works: an XGBoost wrapper stops at its `best_iteration` and
    treats its `missing=` value as missing; a `Booster` uses all of its trees. The load is then checked
    against the object's own predictions. A file loads as `xgboost.Booster(model_file=path)` would
    predict, with all trees, and XGBoost need not be installed; what a file does not hold (the wrapper's
    `missing=`) or `Booster.predict` does not use (`best_iteration`) has no effect, so load the wrapper
    where these matter. Files may have up to 256 MiB, but for those of `Ensemble.save`.

    LightGBM and CatBoost models load as their raw scores; a LightGBM random forest as the average it
    predicts. A scikit-learn tree, forest, bagging or boosting model loads as `predict`, as `predict_proba`
    (two classes: the second one's), or as its margin; an IsolationForest as its mean path length.

    A treelite or ONNX model loads as what its trees add up to, before any postprocessor or `post_transform`;
    ONNX files need no package, and if onnxruntime is installed, they are checked with it.

    A scikit-learn Pipeline loads as its last step: X is then `pipeline[:-1].transform(X)`, and the feature
    names are those after these steps. An `Explainer` of the pipeline itself takes the raw X.

    Parameters
    ----------
    model_or_path : object, str or os.PathLike
        A model of XGBoost, LightGBM, CatBoost, scikit-learn, treelite or ONNX, or a path to a model file:
        JSON or UBJSON of XGBoost 1.3 to 3.x, LightGBM's text, CatBoost's JSON or .cbm, ONNX, or what
        `Ensemble.save` wrote.
    allow_pickle : bool
        Open a pickle or joblib file too, and load the model in it. Opening one runs the code in it, so ask
        for this only where you trust the file.

    Raises
    ------
    UnsupportedModelError
        For a sound model that uses something predgap does not handle, such as linear leaves.
    LoaderError
        For anything else that is not a model, or is a damaged one.

    Examples
    --------
    >>> import predgap.loaders, xgboost, numpy as np
    >>> X = np.arange(8.0)[:, None]
    >>> model = xgboost.XGBRegressor(n_estimators=2, max_depth=1, base_score=0.0).fit(X, X[:, 0])
    >>> ensemble = predgap.loaders.load(model)
    >>> ensemble.n_trees, ensemble.n_features
    (2, 1)
    >>> bool(np.allclose(ensemble.predict(X), model.predict(X)))
    True
    """
    if isinstance(model_or_path, str | os.PathLike):
        return _load_file(model_or_path, allow_pickle)
    return _load_object(model_or_path)


def _load_object(model: Any) -> Ensemble:
    if isinstance(model, Ensemble):
        return model
    for source in _SOURCES:
        if _is_made_by(source, type(model)):
            return _loaded(source.module, "from_object", model)
    kind = type(model)
    raise UnsupportedModelError(
        f"cannot load a {kind.__module__}.{kind.__qualname__}; expected {_SUPPORTED}. "
        "From a search or a dict, pass the fitted model inside it"
    )


def _load_file(name: str | os.PathLike[Any], allow_pickle: bool) -> Ensemble:
    path = Path(os.fsdecode(name))
    head, tail, _ = _files.read_head_and_tail(path)
    if head.startswith(serialization.NAME):
        return Ensemble.load(path)
    for source in _SOURCES:
        if source.opening is not None and source.opening.match(head):
            if not tail.rstrip().endswith(source.ending):
                raise LoaderError(f"{str(path)!r} stops in the middle of the model; save or copy it again")
            return _loaded(source.module, "from_file", path)
    if allow_pickle and sniff.is_pickle(head):
        return _load_object(pickles.opened(path))
    sniff.refuse(path, head, _SUPPORTED)


def _is_made_by(source: _ModelSource, kind: type) -> bool:
    return any(
        cls.__name__ in source.classes and cls.__module__.partition(".")[0] == source.package
        for cls in kind.__mro__
    )


def _loaded(module: str, function: str, source: Any) -> Ensemble:
    try:
        ensemble = getattr(import_module(module), function)(source)
    except MemoryError as error:
        raise LoaderError("the model needs more memory than there is") from error
    assert isinstance(ensemble, Ensemble)
    return ensemble
