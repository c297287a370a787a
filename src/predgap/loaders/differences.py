"""The difference of two models, as an ensemble: f − g, without the trees that both have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from predgap._inputs.subsets import match_names
from predgap._model.ensemble import Ensemble, without_equal_trees
from predgap._text import count, format_items
from predgap.errors import UnsupportedModelError
from predgap.loaders.combining import Member, aligned, combined
from predgap.loaders.pipelines import load_with_reader

__all__ = ["Pair", "difference", "paired"]

_NAMES: Final = ("the first model", "the second model")
_OF_LINK: Final = {
    "identity": "probabilities",
    "logistic": "log-odds",
    "softmax": "logarithms of odds of many classes",
    "other": "margins that it turns into predictions, such as logarithms",
}


def difference(f: Any, g: Any) -> Ensemble:
    """The difference of two models, f − g, as an `Ensemble`.

    Use it to see what changed when a model was trained anew: the ensemble predicts f(x) − g(x), and
    `Explainer(difference(f, g), noise)` tells how far that difference moves under noise, and which features
    move it.

    Both models are loaded by `predgap.load`. Then they are brought to the same rows:

    - Features are matched by name, in any order; by position if one of the models has no names, and then both
      need the same number. A feature that one model lacks is kept: that model does not depend on it. So a
      model that was trained with one more column can be compared, and rows need the columns of both. The
      features of f come first, then those that only g has.
    - Outputs are matched by the labels of classes, in any order, or by position if a model has no labels.
    - Categories are matched by label. One that a model does not know is an unseen category to it, as in its
      own predictions. Arrays hold the codes of f; categories that only g has come after these.

    Trees that are equal in both, with the same splits and leaves, are left out before anything is summed. So
    `difference(f, f)` has no trees and predicts exactly 0, and if f is g with 100 more boosted trees, just
    these are left. (A forest is an average: with more trees all its leaves change.)

    The difference is that of raw margins, before any link function. So log-odds are compared with log-odds,
    and probabilities (of forests) with probabilities: if `Ensemble.link` of the two is known and differs,
    they are refused. Where it is not known (treelite, ONNX, arrays), this is up to you.

    Parameters
    ----------
    f, g : model object, path of a model file, or Ensemble
        Anything that `predgap.load` takes.

    Returns
    -------
    Ensemble
        With the class names of the models, and the features of both.

    Raises
    ------
    UnsupportedModelError
        If outputs, features or categories cannot be matched, if the models take different numbers for
        missing, or if one of them is a Pipeline that is not loaded in the columns of X.

    Examples
    --------
    >>> import predgap
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = [[0.0], [1.0], [2.0]]
    >>> old = DecisionTreeRegressor().fit(X, [1.0, 2.0, 3.0])
    >>> new = DecisionTreeRegressor().fit(X, [1.0, 2.0, 5.0])
    >>> changed = predgap.difference(new, old)
    >>> changed.predict(X)
    array([0., 0., 2.])
    >>> predgap.Explainer(changed, predgap.Discrete([0.0, 1.0, 2.0])).gap([[0.0]], [0]).round(6)
    array([1.333333])
    >>> predgap.difference(old, old).n_trees
    0
    """
    return paired(f, g).difference


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two models that take the same rows."""

    first: Ensemble
    second: Ensemble
    difference: Ensemble  # first minus second, without common trees
    lacking: tuple[tuple[str, ...], tuple[str, ...]]  # the features that each of them does not have

    @property
    def n_common(self) -> int:
        """The number of trees of each model that are equal to one of the other."""
        return (self.first.n_trees + self.second.n_trees - self.difference.n_trees) // 2


def paired(f: Any, g: Any, names: tuple[str, str] = _NAMES) -> Pair:
    """Both models with the same features and outputs, and their difference; see `difference`.

    Messages call them by these names.
    """
    first, second = (_opened(model, name) for model, name in zip((f, g), names, strict=True))
    second = _with_outputs_of(first, second, names)
    _check_links(first, second, names)
    given, one = (first, second), np.eye(first.n_outputs)
    first, second = aligned(first, second)
    members = without_equal_trees(first, second)
    summed = combined(
        [Member(name, e, sign * one) for name, e, sign in zip(names, members, (1.0, -1.0), strict=True)],
        np.zeros(first.n_outputs),
        f"the difference of {first.source} and {second.source}",
    )
    found = replace(summed, class_names=first.class_names or second.class_names)
    return Pair(first, second, found, (_lacking(given[0], found), _lacking(given[1], found)))


def _lacking(own: Ensemble, both: Ensemble) -> tuple[str, ...]:
    """The features of both models that one of them does not have."""
    if own.n_features == both.n_features:
        return ()
    known = match_names(own.names, both.names, UnsupportedModelError).values()
    return tuple(name for q, name in enumerate(both.names) if q not in known)


def _opened(model: Any, name: str) -> Ensemble:
    """The ensemble; UnsupportedModelError if its features are those after the steps of a Pipeline: they may
    have the names of the columns, but other values."""
    ensemble, _, not_raw = load_with_reader(model)
    if not_raw is not None:
        raise UnsupportedModelError(
            f"{name} is a Pipeline that cannot be loaded in the columns of X, because {not_raw}; if both "
            "have the same steps, pass their last steps, pipeline[-1], and X after the steps"
        )
    return ensemble


# ---- outputs -------------------------------------------------------------------------------------


def _with_outputs_of(first: Ensemble, second: Ensemble, names: tuple[str, str]) -> Ensemble:
    """The second model with its outputs in the order of the first."""
    n = first.n_outputs
    if second.n_outputs != n:
        raise UnsupportedModelError(
            f"{names[0]} has {count(n, 'output')}, {names[1]} {second.n_outputs}"
            f"{_classes(first, second)}; of each, choose the same with predgap.load(model).select(k)"
        )
    if first.class_names is None or second.class_names is None:
        return second
    mine, theirs = first.class_names, second.class_names
    others_agree = len({labels[0] for labels in (mine, theirs) if len(labels) == n + 1}) < 2
    if {*mine[-n:]} != {*theirs[-n:]} or not others_agree:
        raise UnsupportedModelError(
            f"{names[0]} and {names[1]} have different classes{_classes(first, second)}"
        )
    order = [theirs[-n:].index(label) for label in mine[-n:]]
    if order == [*range(n)]:
        return second
    moved = combined([Member(names[1], second, np.eye(n)[order])], np.zeros(n), second.source)
    return replace(moved, class_names=mine)


def _classes(first: Ensemble, second: Ensemble) -> str:
    lists = [format_items(e.class_names) if e.class_names else "no labels" for e in (first, second)]
    return "" if lists == ["no labels"] * 2 else f": {lists[0]}; and {lists[1]}"


# ---- links ---------------------------------------------------------------------------------------


def _check_links(first: Ensemble, second: Ensemble, names: tuple[str, str]) -> None:
    """UnsupportedModelError if what the two predict follows from their margins in different ways."""
    a, b = first.link, second.link
    either = {None if link is None else link.kind for link in (a, b)}
    classes = first.class_names is not None or second.class_names is not None
    if a == b or (None in either and (classes or either != {None, "other"})):
        return  # the same, or not known
    shown = [
        f"{name} has {'predictions' if link is None else _OF_LINK[link.kind]}"
        for name, link in zip(names, (a, b), strict=True)
    ]
    scales = "" if a is None or b is None else f" (scales {a.scale:g} and {b.scale:g})"
    raise UnsupportedModelError(
        f"{shown[0]}, {shown[1]}{scales}; their difference would mean nothing. Compare models of one kind, "
        "such as two forests, two boosted classifiers, or two regressors with the same objective"
    )
