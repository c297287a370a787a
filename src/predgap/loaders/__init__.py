"""Loads a model object or a model file as an `Ensemble`; there is one module or folder per library.

The library of an object is recognised by the names of its classes, that of a file by its first bytes. So only
the loader that the model needs is imported.
"""

from __future__ import annotations

import os
import pickle
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn

from predgap import _files
from predgap._files import show
from predgap._model import files
from predgap._model.ensemble import Ensemble
from predgap._text import with_article
from predgap.errors import LoaderError, UnsupportedModelError

__all__ = ["ModelFile", "load"]


@dataclass(frozen=True, slots=True)
class ModelFile(os.PathLike[str]):
    """The path of a model file, and which of its trees to load; see `load`."""

    path: str
    best_iteration: bool | None

    def __fspath__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class _ModelSource:
    """A library whose models can be loaded: how to recognise them, and the module that loads them.

    The module has `from_object(model)` and, if `opening` is not None, `from_file(path)`; both return an
    `Ensemble`.
    """

    module: str
    package: str  # that defines the classes
    classes: frozenset[str]  # names of classes of which a model is an instance
    supported: str  # what can be loaded, for error messages
    opening: re.Pattern[bytes] | None = None  # matches the first bytes of its files; None if it has no files
    ending: bytes = b""  # the last byte of its files before white space; empty for any
    keeps_later_trees: bool = False  # those after the best iteration; its functions take `best_iteration`


_SOURCES: Final = (
    _ModelSource(
        module="predgap.loaders.xgboost",
        package="xgboost",
        classes=frozenset({"Booster", "XGBModel"}),
        keeps_later_trees=True,
        opening=re.compile(
            rb'\s*\{\s*"(?:learner|version)"\s*:'  # JSON
            rb"|\{(?:L\0{7}|l\0{3}|I\0|[iU])\x07(?:learner|version)"  # UBJSON
        ),
        ending=b"}",
        supported="an XGBoost Booster, XGBRegressor or the like, or the path of a model that XGBoost saved "
        "as .json or .ubj",
    ),
    _ModelSource(
        module="predgap.loaders.lightgbm",
        package="lightgbm",
        classes=frozenset({"Booster", "LGBMModel"}),
        opening=re.compile(rb"tree\r?\nversion=v"),  # whether the file is complete is checked on reading
        supported="a LightGBM Booster, LGBMRegressor or the like, or the path of a model that LightGBM saved "
        "as text",
    ),
    _ModelSource(
        module="predgap.loaders.catboost",
        package="catboost",
        classes=frozenset({"CatBoost"}),
        opening=re.compile(
            rb'\s*\{\s*"(?:ctr_data|features_info|model_info|oblivious_trees|scale_and_bias|trees)"\s*:'
        ),
        ending=b"}",
        supported="a CatBoost, CatBoostRegressor or the like, or the path of a model that CatBoost saved as "
        "JSON",
    ),
    _ModelSource(
        module="predgap.loaders.catboost",
        package="catboost",
        classes=frozenset(),
        opening=re.compile(rb"CBM1"),
        supported="the path of CatBoost's .cbm",
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
        # ONNX files have no signature: they begin with the version of the format and the tag of another
        # field.
        opening=re.compile(rb"\x08[\x01-\x1f](?:[\x12\x1a\x22\x28\x32\x3a\x42\x72]|[\xa2\xca]\x01)"),
        supported="an ONNX ModelProto with one tree ensemble, or the path of a .onnx file of it",
    ),
    _ModelSource(  # before scikit-learn, of which it is a part
        module="predgap.loaders.pipelines",
        package="sklearn",
        classes=frozenset({"Pipeline"}),
        supported="a scikit-learn Pipeline that ends in one of these",
    ),
    _ModelSource(  # before scikit-learn, too
        module="predgap.loaders.wrappers",
        package="sklearn",
        classes=frozenset(
            {
                "BaseSearchCV",
                "CalibratedClassifierCV",
                "ClassifierChain",
                "FixedThresholdClassifier",
                "FrozenEstimator",
                "MultiOutputClassifier",
                "MultiOutputRegressor",
                "OneVsOneClassifier",
                "OneVsRestClassifier",
                "OutputCodeClassifier",
                "RegressorChain",
                "StackingClassifier",
                "StackingRegressor",
                "TransformedTargetRegressor",
                "TunedThresholdClassifierCV",
                "VotingClassifier",
                "VotingRegressor",
            }
        ),
        supported="a scikit-learn search, voting or stacking of these",
    ),
    _ModelSource(  # the last one: wrappers of other libraries are scikit-learn estimators too
        module="predgap.loaders.sklearn",
        package="sklearn",
        classes=frozenset({"BaseEstimator"}),
        supported="a scikit-learn decision tree, forest, gradient boosting, bagging of trees, "
        "AdaBoostClassifier or IsolationForest",
    ),
)

_SUPPORTED: Final = "; ".join(
    [*(source.supported for source in _SOURCES), "or the path of what Ensemble.save wrote"]
)


def load(
    model_or_path: Any,
    *,
    allow_pickle: bool = False,
    levels: Any = None,
    best_iteration: bool | None = None,
) -> Ensemble:
    """Loads a fitted model, or a model file, as an `Ensemble`.

    `Explainer` does this by itself. Use `load` to look at a model, to load it once for several explainers, or
    to save it with `Ensemble.save` and use it where its library is not installed.

    What `Ensemble.predict` then returns:

    - XGBoost: the raw margin. An object is loaded with the trees that its own `predict` uses: a scikit-learn
      wrapper stops at its `best_iteration` and treats its `missing=` value as missing; a `Booster` uses all
      trees. A file is loaded with all trees, as `xgboost.Booster(model_file=path)` predicts, and with a
      warning if early stopping left trees in it that a wrapper does not use: see `best_iteration`. It does
      not hold the wrapper's `missing=`: load the wrapper if this matters.
    - LightGBM and CatBoost: the raw score; for a LightGBM random forest, the average that it predicts.
    - scikit-learn: `predict` for regression, `predict_proba` for trees, forests and bagging (for two classes
      only that of the second), the margin for boosted classifiers, the mean path length for IsolationForest.
      A search, a decision threshold or a frozen model is the model that it holds. Voting, stacking with a
      linear final estimator, and a target that was scaled are the sum that they predict (a stacked
      classifier: its margin); of several models for several outputs or classes, the outputs follow one
      another.
    - treelite and ONNX: the sum or average of the trees, before any postprocessor or `post_transform`.
    - a scikit-learn Pipeline: what its last step predicts, in the raw columns of the pipeline where every
      step allows it. Otherwise X is `pipeline[:-1].transform(X)`, with the feature names after these steps.
      (An `Explainer` takes the raw X in both cases.)

    An object is checked against its own predictions after loading. Files are read without the library that
    wrote them; if onnxruntime is installed, ONNX files are checked with it. Files may have up to 256 MiB;
    those of `Ensemble.save` have no limit.

    Parameters
    ----------
    model_or_path : object, str or os.PathLike
        A fitted model of XGBoost, LightGBM, CatBoost, scikit-learn, treelite or ONNX, or the path of a model
        file: XGBoost's JSON or UBJSON (1.3 to 3.x), LightGBM's text, CatBoost's JSON or .cbm, ONNX, or a file
        written by `Ensemble.save`. An `Ensemble` is returned unchanged.
    allow_pickle : bool, default=False
        Also open pickle and joblib files, and load the model in them. Opening such a file runs the code in
        it: do this only if you trust the file.
    levels : table, or mapping of feature names to lists of labels, or None, default=None
        The categories of a CatBoost model, which stores hashes in place of labels: usually the training
        table. With them, its categorical features take `Flip` noise, and `Ensemble.save` can write the
        ensemble. All categories that the model was trained on must be there.
    best_iteration : bool or None, default=None
        Which trees to load of an XGBoost file or Booster that was trained with early stopping. True: those up
        to its `best_iteration`, with which XGBRegressor and the other wrappers predict. False: all, with
        which a Booster predicts. None: all, with a warning if a file has more than True would load. Models
        without early stopping, wrappers, and models of other libraries are not affected.

    Returns
    -------
    Ensemble

    Raises
    ------
    UnsupportedModelError
        If the model is valid, but uses something that predgap does not support, such as linear leaves.
    LoaderError
        If it is not a model, or a damaged one, or disagrees with its own predictions after loading.
    TableError
        If `levels` lacks categories of the model, or the model stores the labels itself.

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
    if isinstance(model_or_path, ModelFile) and best_iteration is None:
        best_iteration = model_or_path.best_iteration
    if isinstance(model_or_path, str | os.PathLike):
        ensemble = _load_file(model_or_path, allow_pickle, best_iteration)
    else:
        ensemble = _load_object(model_or_path, best_iteration)
    if levels is None:
        return ensemble
    table = import_module("predgap.loaders.catboost.categories")
    completed: Ensemble = table.completed(ensemble, levels)
    return completed


def package_of(model_or_path: Any) -> str | None:
    """The package of a model, or of the file of one, e.g. "xgboost"; None if it is none of a library.

    It goes by what `load` goes by: the names of the classes, the first bytes of the file.
    """
    if not isinstance(model_or_path, str | os.PathLike):
        kind = type(model_or_path)
        return next((source.package for source in _SOURCES if _is_made_by(source, kind)), None)
    head, _, _ = _files.read_head_and_tail(Path(os.fsdecode(model_or_path)))
    return next((s.package for s in _SOURCES if s.opening is not None and s.opening.match(head)), None)


def _load_object(model: Any, best_iteration: bool | None = None) -> Ensemble:
    if isinstance(model, Ensemble):
        return model
    for source in _SOURCES:
        if _is_made_by(source, type(model)):
            return _loaded(source, "from_object", model, best_iteration)
    is_class = isinstance(model, type)
    what = f"the class {model.__name__}" if is_class else with_article(type(model).__name__)
    raise UnsupportedModelError(
        f"predgap explains tree ensembles; this is {what}. "
        f"Expected {_SUPPORTED}. From a dict or another container, pass the fitted model inside it"
    )


def _load_file(name: str | os.PathLike[Any], allow_pickle: bool, best_iteration: bool | None) -> Ensemble:
    path = Path(os.fsdecode(name))
    head, tail, _ = _files.read_head_and_tail(path)
    if head.startswith(files.NAME):
        return Ensemble.load(path)
    for source in _SOURCES:
        if source.opening is not None and source.opening.match(head):
            if not tail.rstrip().endswith(source.ending):
                raise LoaderError(f"{str(path)!r} stops in the middle of the model; save or copy it again")
            return _loaded(source, "from_file", path, best_iteration)
    if allow_pickle and _is_pickle(head):
        return _load_object(_open_pickle(path), best_iteration)
    _refuse_file(path, head, _SUPPORTED)


def _is_made_by(source: _ModelSource, kind: type) -> bool:
    return any(
        cls.__name__ in source.classes and cls.__module__.partition(".")[0] == source.package
        for cls in kind.__mro__
    )


def _loaded(source: _ModelSource, function: str, model: Any, best_iteration: bool | None) -> Ensemble:
    options = {"best_iteration": best_iteration} if source.keeps_later_trees else {}
    try:
        ensemble = getattr(import_module(source.module), function)(model, **options)
    except MemoryError as error:
        raise LoaderError("the model needs more memory than is available") from error
    assert isinstance(ensemble, Ensemble)
    return ensemble


# ------------------------------------------------------------------------------------------------------------
# The first bytes tell pickles, and formats that predgap does not read, for error messages.

_PICKLE: Final = re.compile(rb"\x80[\x02-\x08]|c[\w.]+\r?\n[\w.]+\r?\n|\([dl]p?\d*\r?\n|[\]}]q\0")
_COMPRESSED: Final = re.compile(
    rb"\x1f\x8b|BZh|\xfd7zXZ|PK\x03\x04|\x28\xb5\x2f\xfd|\x04\x22\x4d\x18|x[\x01\x5e\x9c\xda]"
)
_TRUSTED: Final = "if you trust it, predgap.load(path, allow_pickle=True) in Python opens it"

# Formats that predgap does not read: how such files begin, and what to do instead.
_REFUSED: Final[tuple[tuple[re.Pattern[bytes], str], ...]] = (
    (
        _PICKLE,
        f"a Python pickle (or joblib) file, and opening one runs the code in it; {_TRUSTED}",
    ),
    (
        # either a mark, or a block of numbers, then the names of the objective and the booster
        re.compile(
            rb"binf|bs64|CONFIG-offset:|(?s:.{8,400}?)(?:\x06\0{7}gbtree|\x08\0{7}gblinear|\x04\0{7}dart)"
        ),
        "XGBoost's old binary format; load it with xgboost.Booster(model_file=...) of XGBoost 3.0 or "
        "older, then save it with save_model('model.json')",
    ),
    (
        _COMPRESSED,
        "a compressed file; if there is a model inside, decompress it first; if it is a joblib file, opening "
        f"it runs the code in it: {_TRUSTED}",
    ),
    (
        re.compile(rb"\s*booster\[0\]:|\s*\[\s*\{\s*\"nodeid\""),
        "the output of XGBoost's dump_model, which lacks the intercept; use save_model('model.json')",
    ),
)


def _is_pickle(head: bytes) -> bool:
    """True if a file that begins with these bytes may be a pickle or joblib file, perhaps compressed."""
    return bool(_PICKLE.match(head) or _COMPRESSED.match(head))


def _refuse_file(path: Path, head: bytes, supported: str) -> NoReturn:
    """Raises the error for a file that cannot be loaded; it names the format, if that is recognised."""
    for opening, what in _REFUSED:
        if opening.match(head):
            raise UnsupportedModelError(f"{show(path)} is {what}")
    raise LoaderError(
        f"{show(path)} is no model file that predgap knows: it begins with {head[:24]!r}; "
        f"expected {supported}"
    )


# ------------------------------------------------------------------------------------------------------------
# Pickles are opened only by `load(..., allow_pickle=True)`, because opening one runs the code in it.


def _open_pickle(path: Path) -> Any:
    """The object in a file. joblib is used if installed: it reads both its own files and plain pickles."""
    try:
        import joblib
    except ImportError:
        joblib = None
    try:
        if joblib is not None:
            return joblib.load(path)
        with path.open("rb") as file:
            return pickle.load(file)
    except Exception as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), "no reason given")
        raise LoaderError(
            f"{show(path)} cannot be opened as a pickle ({type(error).__name__}: {reason.strip()[:200]}); it "
            "needs the packages that it was saved with, and joblib if joblib saved it"
        ) from error
