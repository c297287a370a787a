"""The user's model with its library: what is asked for its own SHAP values and importances."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from predgap._model.ensemble import Ensemble
from predgap._typing import FloatArray
from predgap.errors import DependencyError, RankingError
from predgap.loaders import ModelFile, package_of
from predgap.loaders.pipelines import is_pipeline, opened_pipeline
from predgap.loaders.wrappers import unwrapped

if TYPE_CHECKING:  # it imports this module
    from predgap.explainer.explainer import Explainer

_LIBRARIES: Final = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "catboost": "CatBoost"}


@dataclass(frozen=True, slots=True, eq=False)
class OwnModel:
    """A model of a library without the steps of a pipeline, and how its features become those explained."""

    package: str  # "xgboost", "lightgbm", "catboost" or "sklearn"
    model: Any
    explainer: Explainer
    word: str  # the ranking that was asked for, for messages

    def values(self, X: Any) -> FloatArray:
        """X with one column per feature of the model itself; NaN where missing, codes for categories."""
        inputs = self.explainer.explained
        return (
            inputs.table(X).values if inputs.reader is None else inputs.reader.own_values(X, inputs.ensemble)
        )

    @property
    def features(self) -> Sequence[Sequence[int]]:
        """The features of the model itself that each explained feature stands for."""
        inputs = self.explainer.explained
        if inputs.reader is None:
            return [(j,) for j in range(inputs.ensemble.n_features)]
        return inputs.reader.own_features(inputs.ensemble)

    def units(self) -> list[list[int]]:
        """The features of the model itself that each ranked unit, a feature or a group, stands for."""
        features, members = self.features, self.explainer.explained.members
        of_units = [(j,) for j in range(len(features))] if members is None else members
        return [[own for feature in unit for own in features[feature]] for unit in of_units]

    @property
    def library(self) -> str:
        """What computes SHAP values, for messages."""
        return _LIBRARIES.get(self.package, "shap's TreeExplainer")

    def member(self, model: Any) -> OwnModel:
        """A model inside this one, of the same features."""
        inside = unwrapped(model)
        return replace(self, package=_package(inside, self.word), model=inside)

    def refused(self, reason: str) -> RankingError:
        """The error that this model does not have the ranking, and what to pass instead."""
        return refused(self.word, reason)


def refused(word: str, reason: str) -> RankingError:
    """The error that there is no ranking of this word, and what to pass instead."""
    instead = {
        "shap": "the SHAP values themselves, {'shap': explanation} (a shap.Explanation, such as "
        "that of shap.PermutationExplainer, a frame or an array)",
        "gain": "the importances themselves, {'gain': pd.Series(importances, index=names)}",
    }[word]
    return RankingError(f"the ranking {word!r} cannot be made: {reason}. Leave it out, or pass {instead}")


def own_model(explainer: Explainer, word: str) -> OwnModel:
    """The model of an explainer, with its library; RankingError if there is none to ask.

    A file is opened with the library that wrote it.
    """
    given = explainer.model
    if isinstance(given, Ensemble):
        raise refused(
            word, "the Explainer was given an Ensemble, which keeps the trees only; give it the model"
        )
    if isinstance(given, str | os.PathLike):
        return OwnModel(*_from_file(given, word), explainer, word)
    model = unwrapped(given)
    if is_pipeline(model):
        model = opened_pipeline(model).model
    return OwnModel(_package(model, word), model, explainer, word)


def _package(model: Any, word: str) -> str:
    """The library of the model; RankingError if it cannot be asked."""
    package = package_of(model)
    if package in (*_LIBRARIES, "sklearn"):
        return package
    kind = f"a {type(model).__module__.partition('.')[0]} {type(model).__name__}"
    if word == "shap":
        raise refused(word, f"{kind} gives no contributions, and shap's TreeExplainer does not take it")
    raise refused(word, f"{kind} has no gains")


def _from_file(given: str | os.PathLike[Any], word: str) -> tuple[str, Any]:
    path, package = os.fsdecode(given), package_of(given)
    if package not in _LIBRARIES:
        raise refused(word, "the file of the model does not tell it")
    try:
        library = import_module(package)
    except ImportError:
        raise DependencyError(
            f"the ranking {word!r} of a model file needs {_LIBRARIES[package]}, not installed; "
            f"try: pip install {package}"
        ) from None
    if package == "catboost":
        form = "cbm" if _begins_with(path, b"CBM1") else "json"
        return package, library.CatBoost().load_model(path, format=form)
    booster = library.Booster(model_file=path)
    if package == "xgboost" and isinstance(given, ModelFile) and given.best_iteration:
        best = booster.attr("best_iteration")
        booster = booster if best is None else booster[: int(best) + 1]
    return package, booster


def _begins_with(path: str, head: bytes) -> bool:
    with open(path, "rb") as file:
        return file.read(len(head)) == head


def booster_of(model: Any) -> tuple[Any, tuple[int, int]]:
    """The Booster of an XGBoost model, and the range of rounds that the model predicts with."""
    if not hasattr(model, "get_booster"):
        return model, (0, 0)
    best = getattr(model, "best_iteration", None) if _stopped_early(model) else None
    return model.get_booster(), (0, 0 if best is None else int(best) + 1)


def _stopped_early(model: Any) -> bool:
    try:
        return model.best_iteration is not None
    except AttributeError:  # which XGBoost raises if there was no early stopping
        return False


def without_unseen(values: FloatArray, explainer: Explainer) -> FloatArray:
    """The table with NaN for categories that the model does not know."""
    out = values.copy()
    for j in explainer.ensemble.categorical():
        if explainer.explained.reader is None:
            out[out[:, j] < 0, j] = np.nan
    return out
