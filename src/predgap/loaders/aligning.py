"""Rewrites two ensembles in the same features, so that both read the same rows.

Features are matched by name, and categories by label. What one model lacks, the other one keeps: a feature
that a model does not have does not change what it predicts, and a category that it does not know is unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from predgap._inputs.categories import Categories
from predgap._inputs.names import match_names
from predgap._model.ensemble import Ensemble
from predgap._model.rewriting import Levels, Line, rewritten
from predgap._text import format_items
from predgap.errors import TableError, UnsupportedModelError
from predgap.loaders.selfcheck import thresholds_by_feature

__all__ = ["aligned"]


def aligned(f: Ensemble, g: Ensemble) -> tuple[Ensemble, Ensemble]:
    """The same functions of rows that have the features of both; those of f come first.

    Raises
    ------
    UnsupportedModelError
        If features or categories cannot be matched.

    Examples
    --------
    >>> def stump(names, feature):
    ...     return Ensemble(
    ...         root=[0], feature=[feature, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1],
    ...         right=[2, -1, -1], default_left=[True, False, False], value=[[0.0], [1.0], [3.0]],
    ...         target=[0], bias=[0.0], n_features=len(names), feature_names=names)
    >>> f, g = aligned(stump(["age", "bmi"], 0), stump(["job", "age"], 1))
    >>> f.feature_names, g.feature_names, bool(f.feature[0] == g.feature[0])
    (('age', 'bmi', 'job'), ('age', 'bmi', 'job'), True)
    """
    features = _features(f, g)
    unseen_is_missing = all(e.unseen_is_missing for e in (f, g) if e.categories is not None)
    categories = _categories(f, g, features)
    return (
        _in_features(f, range(f.n_features), features, categories, unseen_is_missing),
        _in_features(g, features.of_second, features, categories, unseen_is_missing),
    )


@dataclass(frozen=True, slots=True)
class _Features:
    """The features of both models; those of the first one come first, in its order."""

    n: int
    names: tuple[str, ...] | None
    of_second: Sequence[int]  # the place of each feature of the second model

    def show(self, q: int) -> str:
        return f"feature {q if self.names is None else repr(self.names[q])}"


def _features(f: Ensemble, g: Ensemble) -> _Features:
    mine, theirs = f.feature_names, g.feature_names
    if mine is None or theirs is None:
        if f.n_features != g.n_features:
            raise UnsupportedModelError(
                f"the models have {f.n_features} and {g.n_features} features, and not both have names to "
                "match them by; give them names: predgap.load(model).named([...])"
            )
        return _Features(f.n_features, mine or theirs, range(f.n_features))
    place = match_names(theirs, mine, UnsupportedModelError)
    if not place and mine and theirs:
        raise UnsupportedModelError(
            f"the models have no feature in common: {format_items(mine)}; and {format_items(theirs)}"
        )
    new = [name for name in theirs if name not in place]
    place |= {name: f.n_features + i for i, name in enumerate(new)}
    return _Features(f.n_features + len(new), (*mine, *new), [place[name] for name in theirs])


def _categories(f: Ensemble, g: Ensemble, features: _Features) -> list[Categories | None]:
    """The categories of each feature of both models, None if it is numeric."""
    mine, theirs = f.categorical(), g.categorical()
    found = [mine.get(q) for q in range(features.n)]
    in_f, in_g = set(f.feature.tolist()), set(g.feature.tolist())  # features that are split on
    for j, q in enumerate(features.of_second):
        a, b = mine.get(q), theirs.get(j)
        if a is not None and b is not None:
            found[q] = _merged(a, b, features.show(q))
        elif q >= f.n_features or (q not in in_f and j in in_g):  # only g tells what it is
            found[q] = b
        elif (a is None) != (b is None) and j in in_g:
            raise UnsupportedModelError(
                f"{features.show(q)} is categorical in one model and a number in the other one; train both "
                "on the same kind of column"
            )
    return found


def _merged(a: Categories, b: Categories, what: str) -> Categories:
    try:
        return a.merged(b, what)
    except TableError as error:  # a label that the other model cannot have
        raise UnsupportedModelError(f"the categories of {what} do not match: {error}") from None


def _in_features(
    e: Ensemble,
    places: Sequence[int],
    features: _Features,
    categories: Sequence[Categories | None],
    unseen_is_missing: bool,
) -> Ensemble:
    """The ensemble in the features of both; `places` has the new place of each of its features."""
    columns: list[Levels | Line | None] = [None] * e.n_features
    for j, cuts in thresholds_by_feature(e).items():
        columns[j] = Line(places[j], np.unique(cuts), np.unique(cuts))
    for j, own in e.categorical().items():
        new = categories[places[j]]
        columns[j] = None if new is None else _as_levels(e, own, places[j], new, unseen_is_missing)
    return rewritten(
        e,
        columns,
        n_features=features.n,
        categories=categories,
        feature_names=features.names,
        unseen_is_missing=unseen_is_missing,
    )


def _as_levels(e: Ensemble, own: Categories, place: int, new: Categories, unseen_is_missing: bool) -> Levels:
    """A categorical column of a model as a function of the categories of both."""
    unknown = np.nan if e.unseen_is_missing else own.unknown
    values = np.full(len(new), unknown)
    codes = new.codes_of(own.labels or ())  # -1 for categories that were left out
    at = new.levels_of(codes)
    values[at[at >= 0]] = own.codes[at >= 0]
    can_be_unseen = not (new.closed or unseen_is_missing)
    return Levels(place, new.codes, values, unknown if can_be_unseen else None, np.nan)
