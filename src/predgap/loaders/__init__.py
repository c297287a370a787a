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

from predgap.ensemble import Ensemble
from predgap.errors import LoaderError, UnsupportedModelError
from predgap.loaders import files

__all__ = ["load"]


@dataclass(frozen=True, slots=True)
class _Dialect:
    """A source library: how to tell its models, and the module that reads them.

    The module offers `from_object(model)` and, if there are files, `from_file(path)`, both to an `Ensemble`.
    """

    module: str
    package: str  # that defines the classes
    classes: frozenset[str]  # names to look for among a model's classes
    opening: re.Pattern[bytes] | None  # how its files begin; None if it has none that are safe to open
    ending: bytes  # the last byte of its files, but for white space
    supported: str  # for people


_DIALECTS: Final = (
    _Dialect(
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
    _Dialect(
        module="predgap.loaders.lightgbm",
        package="lightgbm",
        classes=frozenset({"Booster", "LGBMModel"}),
        opening=re.compile(rb"tree\r?\nversion=v"),
        ending=b"",  # the last lines may be anything; whether the trees are whole is seen on reading
        supported="a LightGBM Booster, LGBMRegressor, LGBMClassifier or LGBMRanker, or the path of a model "
        "that LightGBM saved as text",
    ),
    _Dialect(
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
    _Dialect(
        module="predgap.loaders.catboost",
        package="catboost",
        classes=frozenset(),
        opening=re.compile(rb"CBM1"),
        ending=b"",  # binary
        supported="where CatBoost is installed, the path of a model that it saved as .cbm",
    ),
    _Dialect(  # the last one: wrappers of other libraries are scikit-learn estimators too
        module="predgap.loaders.sklearn",
        package="sklearn",
        classes=frozenset({"BaseEstimator"}),
        opening=None,
        ending=b"",
        supported="a scikit-learn decision tree, forest, gradient boosting, bagging of trees or "
        "IsolationForest",
    ),
)

_SUPPORTED: Final = "; ".join(dialect.supported for dialect in _DIALECTS)


def load(model_or_path: Any) -> Ensemble:
    """The ensemble of a fitted model, or of a model file; an `Ensemble` is returned as it is.

    An object loads as its own `predict` works: an XGBoost wrapper stops at its `best_iteration` and
    treats its `missing=` value as missing; a `Booster` uses all of its trees. The load is then checked
    against the object's own predictions. A file loads as `xgboost.Booster(model_file=path)` would
    predict, with all trees, and XGBoost need not be installed; what a file does not hold (the wrapper's
    `missing=`) or `Booster.predict` does not use (`best_iteration`) has no effect, so load the wrapper
    where these matter. Files may have up to 256 MiB. A pickle is never opened.

    LightGBM and CatBoost models load as their raw scores; a LightGBM random forest as the average it
    predicts. A scikit-learn tree, forest, bagging or boosting model loads as `predict`, as `predict_proba`
    (two classes: the second one's), or as its margin; an IsolationForest as its mean path length.

    Parameters
    ----------
    model_or_path : object, str or os.PathLike
        A model of XGBoost, LightGBM, CatBoost or scikit-learn, or a path to a model file: JSON or UBJSON
        of XGBoost 1.3 to 3.x, LightGBM's text, CatBoost's JSON, or (if CatBoost is installed) its .cbm.

    Raises
    ------
    UnsupportedModelError
        For a sound model that uses something predgap does not handle, such as categorical splits.
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
    if isinstance(model_or_path, Ensemble):
        return model_or_path
    if isinstance(model_or_path, str | os.PathLike):
        return _load_file(model_or_path)
    for dialect in _DIALECTS:
        if _is_made_by(dialect, type(model_or_path)):
            return _loaded(dialect.module, "from_object", model_or_path)
    kind = type(model_or_path)
    raise UnsupportedModelError(
        f"cannot load a {kind.__module__}.{kind.__qualname__}; expected {_SUPPORTED}. "
        "From a pipeline or a search, pass the fitted model inside it"
    )


def _load_file(name: str | os.PathLike[Any]) -> Ensemble:
    path = Path(os.fsdecode(name))
    head, tail = files.ends(path)
    for dialect in _DIALECTS:
        if dialect.opening is not None and dialect.opening.match(head):
            if not tail.rstrip().endswith(dialect.ending):
                raise LoaderError(f"{str(path)!r} stops in the middle of the model; save or copy it again")
            return _loaded(dialect.module, "from_file", path)
    files.refuse(path, head, _SUPPORTED)


def _is_made_by(dialect: _Dialect, kind: type) -> bool:
    return any(
        cls.__name__ in dialect.classes and cls.__module__.partition(".")[0] == dialect.package
        for cls in kind.__mro__
    )


def _loaded(module: str, function: str, source: Any) -> Ensemble:
    try:
        ensemble = getattr(import_module(module), function)(source)
    except MemoryError as error:
        raise LoaderError("the model needs more memory than there is") from error
    assert isinstance(ensemble, Ensemble)
    return ensemble
