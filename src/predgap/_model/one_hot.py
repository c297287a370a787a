"""Rewrites an ensemble so that dummies, which exclude each other, become one categorical feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from predgap._inputs.categories import UNSEEN, Categories
from predgap._inputs.one_hot import OneHot
from predgap._inputs.tables import Table, read_table
from predgap._model.ensemble import Ensemble
from predgap._model.rewriting import Levels, Line, rewritten
from predgap._typing import FloatArray

__all__ = ["DummyTables", "with_categories"]


@dataclass(frozen=True, slots=True, eq=False)
class DummyTables:
    """Reads tables with dummies for an ensemble in which they are categories."""

    one_hot: OneHot
    old: Ensemble  # with the dummies
    feature_space: None = None  # the features are the columns of X, but for dummies

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """The names of the features with the dummies."""
        return self.old.feature_names

    def table(self, X: Any, ensemble: Ensemble) -> Table:
        """X with one column per feature of the ensemble; TableError names a row with two dummies."""
        return self.one_hot.table(self._with_dummies(X))

    def own_values(self, X: Any, ensemble: Ensemble) -> FloatArray:
        """X with its dummies, (n, number of columns)."""
        return self._with_dummies(X).values

    def own_features(self, ensemble: Ensemble) -> Sequence[Sequence[int]]:
        """The dummies of each category; of any other feature, its column."""
        return self.one_hot.places

    def _with_dummies(self, X: Any) -> Table:
        old = self.old
        return read_table(X, old.n_features, old.feature_names, old.categories)


def with_categories(ensemble: Ensemble, one_hot: OneHot) -> Ensemble:
    """The ensemble with one categorical feature in place of the dummies of each category.

    A split on a dummy becomes a split on a set of levels. A level is a dummy that is 1 while the others of
    its category are 0, and one more level is that all are 0. Where the category is missing, all dummies are.

    Parameters
    ----------
    ensemble : Ensemble
        Its features include the dummies.
    one_hot : OneHot
        Which of them are dummies.

    Examples
    --------
    >>> stump = Ensemble(
    ...     root=[0], feature=[1, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1], right=[2, -1, -1],
    ...     default_left=[True, False, False], value=[[0.0], [1.0], [3.0]], target=[0], bias=[0.0],
    ...     n_features=3, feature_names=("age", "job_clerk", "job_nurse"))
    >>> one_hot = OneHot.of({"job": ["job_clerk", "job_nurse"]}, 3, stump.feature_names)
    >>> jobs = with_categories(stump, one_hot)
    >>> jobs.names, jobs.categories[1].labels
    (('age', 'job'), ('job_clerk', 'job_nurse', '(none)'))
    >>> jobs.predict([[40.0, 0], [40.0, 1], [40.0, 2]])
    array([3., 1., 1.])
    """
    columns: list[Levels | Line | None] = [None] * ensemble.n_features
    categories: list[Categories | None] = []
    old_levels = ensemble.categorical()
    for place, (old, levels) in enumerate(zip(one_hot.places, one_hot.levels, strict=True)):
        own = old_levels.get(old[0]) if levels is None else levels
        categories.append(own)
        if levels is not None:
            for j, column in zip(old, _dummies(ensemble, old, place, levels), strict=True):
                columns[j] = column
        elif own is not None:
            can_be_unseen = not own.closed and not ensemble.unseen_is_missing
            codes = own.codes.astype(np.float64)
            columns[old[0]] = Levels(place, own.codes, codes, UNSEEN if can_be_unseen else None, np.nan)
        else:
            thresholds = np.unique(ensemble.threshold[ensemble.feature == old[0]])
            columns[old[0]] = Line(place, thresholds, thresholds)
    return rewritten(
        ensemble,
        columns,
        n_features=len(one_hot.places),
        categories=categories,
        feature_names=one_hot.new_names
        if one_hot.named or len(one_hot.places) < len(one_hot.names)
        else None,
    )


def _dummies(ensemble: Ensemble, old: tuple[int, ...], place: int, levels: Categories) -> list[Levels]:
    """The dummies of one category, each as a function of its level."""
    rows = np.full((len(old) + 1, ensemble.n_features), np.nan)
    rows[:, list(old)] = np.eye(len(old) + 1, len(old))
    seen = ensemble.cast(rows)
    return [Levels(place, levels.codes, seen[:, j], None, np.nan) for j in old]
