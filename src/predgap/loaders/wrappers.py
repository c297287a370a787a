"""Loads scikit-learn's wrappers: models that hold other models.

- Searches, decision thresholds and frozen models (`unwrapped`) are the model that they hold.
- Voting, stacking, transformed targets, multiple outputs and one-versus-rest are sums of their members' trees
  where what a member predicts is the sum of its own trees, and what is done with it is linear. Then one
  ensemble holds the trees of all members.
- All others are refused by name.

What an ensemble predicts: `predict` for regression, `predict_proba` for soft voting (of two classes only that
of the second), `decision_function` for stacked classifiers. MultiOutput and OneVsRest: the outputs of each
member, one after the other, as if it were loaded by itself. (OneVsRest divides probabilities by their sum
afterwards; that is left out.)
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._model.ensemble import Ensemble
from predgap._model.links import Link
from predgap._text import shown
from predgap._typing import FloatArray
from predgap.errors import LoaderError, UnsupportedModelError
from predgap.loaders import load, translation
from predgap.loaders.combining import Member, combined
from predgap.loaders.translation import class_names

__all__ = ["absent_is_missing", "from_object", "linear_members", "unwrapped"]

Rows = translation.Rows

_ONE_BY_ONE: Final = "explain its estimators_ one by one"

# Wrappers that predict with one model as it is, and where that model is.
_TRANSPARENT: Final = {
    "BaseSearchCV": "best_estimator_",
    "FixedThresholdClassifier": "estimator_",
    "TunedThresholdClassifierCV": "estimator_",
    "FrozenEstimator": "estimator",
}

_REFUSED: Final = {
    "CalibratedClassifierCV": "its probabilities are a curve on top of a model, not a sum of trees; pass "
    "that model, e.g. calibrated_classifiers_[0].estimator",
    "OneVsOneClassifier": f"its models vote, one for each pair of classes; {_ONE_BY_ONE}",
    "OutputCodeClassifier": f"it looks up a class by the labels of its models; {_ONE_BY_ONE}",
    **dict.fromkeys(
        ("RegressorChain", "ClassifierChain"),
        "the models in it take the predictions of those before them as features; explain its estimators_ one "
        "by one, or train a MultiOutputRegressor or MultiOutputClassifier",
    ),
}


def unwrapped(model: Any) -> Any:
    """The model that a wrapper of one model holds, or the model itself if it is no such wrapper.

    A transformed target around a pipeline becomes the same pipeline with the transformed target around its
    last step, so that the steps before it are found.

    Raises
    ------
    LoaderError
        If the wrapper is not fitted, or a search kept no model.

    Examples
    --------
    >>> unwrapped("no wrapper")
    'no wrapper'
    """
    bases = _bases(model)
    inside = next((_TRANSPARENT[base] for base in bases if base in _TRANSPARENT), None)
    if inside is not None:
        if not hasattr(model, inside):
            raise LoaderError(_why_empty(model))
        return unwrapped(getattr(model, inside))
    if "TransformedTargetRegressor" in bases and hasattr(model, "regressor_"):
        pipeline = unwrapped(model.regressor_)
        if "Pipeline" in _bases(pipeline) and pipeline.steps:
            *before, (name, last) = pipeline.steps
            model, pipeline = copy.copy(model), copy.copy(pipeline)
            model.regressor_ = last
            pipeline.steps = [*before, (name, model)]
            return unwrapped(pipeline)
    return model


def absent_is_missing(model: Any) -> bool:
    """True if the model takes what is absent in a sparse table for missing, as XGBoost does; others take 0.

    UnsupportedModelError if some models in a wrapper do, and others do not.
    """
    found = {
        any(cls.__module__.partition(".")[0] == "xgboost" for cls in type(each).__mro__)
        for each in _innermost(model)
    }
    if len(found) > 1:
        raise UnsupportedModelError(
            f"the {type(model).__name__} gets a sparse table: what is absent in it is missing to XGBoost and "
            "0 to its other members; make the table dense before it (sparse_output=False), and fit again"
        )
    return True in found


def from_object(model: Any) -> Ensemble:
    """The ensemble of a fitted wrapper, checked against the predictions of the wrapper and its members."""
    inner = unwrapped(model)
    if inner is not model:
        return load(inner)
    bases = _bases(model)
    read = next((_READERS[base] for base in bases if base in _READERS), None)
    if read is None:
        raise _refused(model, next(_REFUSED[base] for base in bases if base in _REFUSED))
    _check_fitted(model)
    parts = read(model)
    try:
        ensemble = combined(
            [Member(part.name, part.ensemble, part.matrix) for part in parts.members],
            parts.bias,
            f"{type(model).__name__} of {', '.join(dict.fromkeys(p.ensemble.source for p in parts.members))}",
        )
    except UnsupportedModelError as error:
        raise _refused(model, f"{error}; {_ONE_BY_ONE}") from error
    if parts.answer is not None:
        _check(parts, ensemble, parts.answer)
    ensemble = replace(ensemble, link=parts.link)
    classes = getattr(model, "classes_", None)  # members may have been trained on other labels
    if not isinstance(classes, np.ndarray) or classes.ndim != 1:
        return ensemble
    return replace(ensemble, class_names=class_names(classes.tolist(), ensemble.n_outputs))


def linear_members(model: Any) -> tuple[list[tuple[Any, FloatArray]], FloatArray] | None:
    """The members of a wrapper that loads as their sum, each with the matrix (n_outputs, n_outputs of the
    member) that its outputs are multiplied with; and what is added to it. None for any other model."""
    read = next((_READERS[base] for base in _bases(model) if base in _READERS), None)
    if read is None:
        return None
    parts = read(model)
    return [(part.model, part.matrix) for part in parts.members], parts.bias


# ---- which model it is ----


def _bases(model: Any) -> list[str]:
    """The names of scikit-learn's classes of which the model is an instance."""
    return [cls.__name__ for cls in type(model).__mro__ if cls.__module__.partition(".")[0] == "sklearn"]


def _why_empty(model: Any) -> str:
    name = type(model).__name__
    if getattr(model, "refit", True) is False and hasattr(model, "cv_results_"):
        return f"the {name} has refit=False, so it holds no model; fit it with refit=True, or pass a model"
    return f"the {name} is not fitted; call its fit first"


def _refused(model: Any, reason: str) -> UnsupportedModelError:
    kind = type(model)
    return UnsupportedModelError(f"cannot load a {kind.__module__}.{kind.__qualname__}: {reason}")


def _check_fitted(model: Any) -> None:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise LoaderError(_why_empty(model)) from error


def _innermost(model: Any) -> Iterator[Any]:
    model = unwrapped(model)
    inside = getattr(model, "estimators_", None) if set(_bases(model)) & set(_READERS) else None
    inside = [model.regressor_] if "TransformedTargetRegressor" in _bases(model) else inside
    if inside is None:
        yield model
        return
    for each in inside:
        yield from _innermost(each)


# ---- sums of members ----


@dataclass(frozen=True, slots=True)
class _AskedMember:
    """A member of a wrapper."""

    name: str  # for messages
    model: Any
    ensemble: Ensemble
    ask: Callable[[Rows], NDArray[Any]]  # what the wrapper asks the member for, (n, n_outputs of the member)
    matrix: FloatArray  # (n_outputs, n_outputs of the member): what the wrapper multiplies the answer with


@dataclass(frozen=True, slots=True)
class _MemberSum:
    """A wrapper that predicts bias + Σ matrix · answer of its members."""

    members: list[_AskedMember]
    bias: FloatArray  # (n_outputs,)
    answer: Callable[[Rows], Any] | None  # the wrapper's own prediction; None if that is something else
    link: Link | None = None  # how probabilities follow from the sum


def _read_voting_regressor(model: Any) -> _MemberSum:
    weights = _weights(model)
    members = [
        _summing(model, each, "predict", np.array([[weight]]))
        for each, weight in zip(_named_members(model), weights, strict=True)
    ]
    return _MemberSum(members, np.zeros(1), model.predict)


def _read_voting_classifier(model: Any) -> _MemberSum:
    if model.voting != "soft":
        raise _refused(
            model,
            f"its members vote by their labels (voting={model.voting!r}), which is no sum; {_ONE_BY_ONE}",
        )
    width = len(_shown(model.classes_))
    members = [
        _summing(model, each, "predict_proba", weight * np.eye(width))
        for each, weight in zip(_named_members(model), _weights(model), strict=True)
    ]
    answer = partial(_probabilities, model)
    return _MemberSum(members, np.zeros(width), answer, Link("identity"))


def _read_stacking(model: Any) -> _MemberSum:
    final, kinds = model.final_estimator_, set(_bases(model.final_estimator_))
    classifies = "ClassifierMixin" in _bases(model)
    if ("LinearClassifierMixin" if classifies else "LinearModel") not in kinds:
        raise _refused(
            model,
            f"its final estimator is a {type(final).__name__}, which is not linear in what the members "
            f"predict; {_ONE_BY_ONE}, or train it with "
            f"{'a LogisticRegression' if classifies else 'a RidgeCV'}",
        )
    if model.passthrough:
        raise _refused(
            model, "it passes X on to its linear final estimator (passthrough=True), and what is linear in X "
            f"is no sum of trees; {_ONE_BY_ONE}, or train it with passthrough=False",
        )  # fmt: skip
    weights, methods = np.atleast_2d(final.coef_).astype(np.float64), model.stack_method_
    members, first = [], 0
    for each, method in zip(_named_members(model), methods, strict=True):
        part = _summing(model, each, method, np.zeros((0, 0)))
        width = part.ensemble.n_outputs
        members.append(replace(part, matrix=weights[:, first : first + width]))
        first += width
    bias = np.broadcast_to(np.asarray(final.intercept_, dtype=np.float64), (len(weights),)).copy()
    if not classifies:
        return _MemberSum(members, bias, model.predict)
    return _MemberSum(members, bias, model.decision_function, _final_link(final))


def _final_link(final: Any) -> Link:
    """Finds by trying how the probabilities of a linear classifier follow from its decisions: that depends on
    its class, its options and scikit-learn's version."""
    if hasattr(final, "predict_proba"):
        rows = np.random.default_rng(0).normal(size=(8, final.n_features_in_))
        margins = np.asarray(final.decision_function(rows), dtype=np.float64).reshape(len(rows), -1).T
        own = _probabilities(final, rows).T
        for link in (Link("logistic"), Link("softmax")):
            if np.allclose(link.probabilities(margins), own, rtol=1e-9, atol=0.0):
                return link
    return Link("other")


def _read_transformed_target(model: Any) -> _MemberSum:
    transformer = model.transformer_
    read = next((_INVERSES[base] for base in _bases(transformer) if base in _INVERSES), None)
    inverse = None if read is None else read(transformer)
    if inverse is None:
        raise _refused(
            model,
            f"its {type(transformer).__name__} turns what the model predicts into the target, and only a "
            f"scaling ({', '.join(_SCALERS)}) leaves it a sum of trees; pass its regressor_, which predicts "
            "the transformed target",
        )
    member = _summing(model, ("its regressor_", model.regressor_), "predict", np.zeros((0, 0)))
    width = member.ensemble.n_outputs
    slope, shift = (np.broadcast_to(np.asarray(part, dtype=np.float64), (width,)) for part in inverse)
    return _MemberSum([replace(member, matrix=np.diag(slope))], shift.copy(), model.predict)


def _read_side_by_side(model: Any) -> _MemberSum:
    """The outputs of one member after the other. Each is loaded as if it were alone, so that nothing is left
    to check."""
    loaded = [(name, each, _member(model, name, each)) for name, each in _named_members(model)]
    first = np.cumsum([0, *(ensemble.n_outputs for _, _, ensemble in loaded)])
    every = np.eye(first[-1])
    members = [
        _AskedMember(name, each, ensemble, ensemble.predict, every[:, at : at + ensemble.n_outputs])
        for (name, each, ensemble), at in zip(loaded, first, strict=False)
    ]
    return _MemberSum(members, np.zeros(len(every)), None, _common_link(model, [e for _, _, e in loaded]))


def _common_link(model: Any, ensembles: list[Ensemble]) -> Link | None:
    """The link of outputs side by side: that of all members, if it is about each output alone."""
    links = {ensemble.link for ensemble in ensembles}
    divides = "OneVsRestClassifier" in _bases(model) and len(ensembles) > 1  # by the sum of probabilities
    link = links.pop()
    if links or divides or (link is not None and link.kind == "softmax"):
        return Link("other")
    return link


_READERS: Final[dict[str, Callable[[Any], _MemberSum]]] = {
    "VotingRegressor": _read_voting_regressor,
    "VotingClassifier": _read_voting_classifier,
    "StackingRegressor": _read_stacking,
    "StackingClassifier": _read_stacking,
    "TransformedTargetRegressor": _read_transformed_target,
    "MultiOutputRegressor": _read_side_by_side,
    "MultiOutputClassifier": _read_side_by_side,
    "OneVsRestClassifier": _read_side_by_side,
}

# The slope and the shift of a scaler's inverse.
_SCALERS: Final[dict[str, Callable[[Any], tuple[Any, Any] | None]]] = {
    "StandardScaler": lambda t: (t.scale_ if t.with_std else 1.0, t.mean_ if t.with_mean else 0.0),
    "MinMaxScaler": lambda t: (1.0 / t.scale_, -t.min_ / t.scale_),
    "MaxAbsScaler": lambda t: (t.scale_, 0.0),
    "RobustScaler": lambda t: (t.scale_ if t.with_scaling else 1.0, t.center_ if t.with_centering else 0.0),
}
_INVERSES: Final[dict[str, Callable[[Any], tuple[Any, Any] | None]]] = {
    **_SCALERS,
    "FunctionTransformer": lambda t: (1.0, 0.0) if t.inverse_func is None else None,  # None: the identity
}


def _named_members(model: Any) -> list[tuple[str, Any]]:
    names = [name for name, each in getattr(model, "estimators", ()) if not isinstance(each, str)]
    if len(names) == len(model.estimators_):
        return [(f"its member {name!r}", each) for name, each in zip(names, model.estimators_, strict=True)]
    return [(f"its estimators_[{j}]", each) for j, each in enumerate(model.estimators_)]


def _weights(model: Any) -> FloatArray:
    """The weights of the members of a voting, with the sum 1."""
    given = model._weights_not_none
    weights = np.ones(len(model.estimators_)) if given is None else np.asarray(given, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares: FloatArray = weights / weights.sum()
    if len(shares) != len(model.estimators_) or not np.isfinite(shares).all():
        raise LoaderError(f"the weights of the {type(model).__name__} are {shown(given)}, which have no mean")
    return shares


def _member(model: Any, name: str, each: Any) -> Ensemble:
    """The ensemble of one member. One that has steps of its own is refused: so its features are its own."""
    if "Pipeline" in _bases(unwrapped(each)) and len(unwrapped(each).steps) > 1:
        raise _refused(
            model,
            f"{name} is a Pipeline with steps of its own; put the steps before the {type(model).__name__}: "
            f"make_pipeline(..., {type(model).__name__}(...))",
        )
    try:
        return load(each)
    except LoaderError as error:
        raise type(error)(f"the {type(model).__name__}: {name}: {error}") from error


def _summing(model: Any, named: tuple[str, Any], method: str, matrix: FloatArray) -> _AskedMember:
    """A member whose answer is the sum of its trees; UnsupportedModelError if it is something else."""
    name, each = named
    ensemble = _member(model, name, each)

    def ask(rows: Rows) -> NDArray[Any]:
        answer = _probabilities(each, rows) if method == "predict_proba" else getattr(each, method)(rows)
        return np.asarray(answer).reshape(len(rows), -1)

    part = _AskedMember(name, each, ensemble, lambda rows: _ask(ask, rows), matrix)
    advice = "pass its regressor_" if "TransformedTargetRegressor" in _bases(model) else _ONE_BY_ONE
    try:
        double, takes_missing = _is_double(part), _takes_missing(part)
    except LoaderError as error:
        raise _refused(
            model, f"{name} takes no array of numbers ({error}), so it cannot be checked; {advice}"
        ) from error
    try:
        translation.check_predictions(
            ensemble, library=name, margins=part.ask, double=double, takes_missing=takes_missing
        )
    except LoaderError as error:
        raise _refused(
            model,
            f"what {name} ({type(each).__name__}) gives by {method} is not the sum of its trees: a link "
            f"function comes after it; {advice}",
        ) from error
    return part


# ---- asking wrappers and members ----


def _probabilities(model: Any, rows: Rows) -> NDArray[Any]:
    return np.asarray(model.predict_proba(rows)[:, _shown(model.classes_)])


def _shown(classes: Any) -> range:
    """The classes that become outputs: of two classes only the second, as the first is 1 minus it."""
    return range(1 if len(classes) == 2 else 0, len(classes))


def _ask(question: Callable[[Rows], Any], rows: Rows) -> NDArray[Any]:
    with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("ignore")  # that an array has no column names
        answer = translation.ask_library("wrapped", "predict", lambda: question(rows), advice="fit it again")
        return np.asarray(answer)


def _is_double(part: _AskedMember) -> bool:
    zeros = np.zeros((1, part.ensemble.n_features))
    return part.ask(zeros).dtype != np.float32


def _takes_missing(part: _AskedMember) -> bool:
    rows = np.full((1, part.ensemble.n_features), np.nan)
    try:
        part.ask(rows)
    except LoaderError:
        return False
    return True


def _check(parts: _MemberSum, ensemble: Ensemble, answer: Callable[[Rows], Any]) -> None:
    """LoaderError unless the wrapper gives what its members' own answers sum to, and the ensemble too."""
    missing = all(_takes_missing(part) for part in parts.members)
    rows = translation.rows_at_thresholds(ensemble, takes_missing=missing)
    answers = [part.ask(rows).astype(np.float64) @ part.matrix.T for part in parts.members]
    theirs = _ask(answer, rows).reshape(len(rows), -1).astype(np.float64)
    exact = all(map(_is_double, parts.members))
    tolerance = (1e-12 if exact else 1e-6) * (np.abs(parts.bias) + sum(map(np.abs, answers)))
    sums = parts.bias + sum(answers)
    if sums.shape != theirs.shape or not (np.abs(sums - theirs) <= tolerance).all():
        raise LoaderError(
            "the load disagrees with the wrapper's own predictions on rows made from its thresholds; please "
            "report this"
        )
    if exact:  # else the members' own rounding is larger than what is allowed
        translation.check_predictions(
            ensemble, library="the wrapper", margins=lambda rows: _ask(answer, rows), double=True, rows=rows
        )
