"""Remove and retrain: how much worse is a model that is trained without the features of a ranking?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from predgap._text import count, shown
from predgap._typing import FloatArray
from predgap.errors import RankingError, TableError
from predgap.ranking import Ranking

Fit = Callable[[FloatArray, Any], Any]
Score = Callable[[Any, FloatArray, Any], float]


def remove_and_retrain(
    X_train: Any,
    y_train: Any,
    X_test: Any,
    y_test: Any,
    ranking_train: Ranking,
    ranking_test: Ranking,
    *,
    fit: Fit,
    score: Score,
    places: Sequence[int],
) -> FloatArray:
    """Scores of models that are trained without the first k features of each row's ranking.

    In each row the first k features of its ranking are replaced by the mean of their columns in the training
    table; a model is trained on the new training table, and scored on the new test table. If the ranking is
    good, the score falls quickly. One model is trained for each k: this takes as long as that does.

    Parameters
    ----------
    X_train, X_test : (n, d) and (m, d) arrays of numbers, without missing values
    y_train, y_test : (n,) and (m,) arrays
    ranking_train, ranking_test : Ranking
        Of the rows of both tables.
    fit : callable
        `fit(X, y)` trains a model.
    score : callable
        `score(model, X, y)` gives a number.
    places : sequence of int
        The numbers k of features to remove, from 0 to the places of the rankings.

    Returns
    -------
    (len(places),) array of scores

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from predgap import Ranking, metrics
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> first = Ranking(np.tile([0, 1], (50, 1)))
    >>> metrics.remove_and_retrain(X, X[:, 0], X, X[:, 0], first, first, places=[0, 2],
    ...     fit=LinearRegression().fit, score=lambda model, X, y: model.score(X, y)).round(6)
    array([1., 0.])
    """
    tables = [_numbers(X, name) for X, name in ((X_train, "X_train"), (X_test, "X_test"))]
    for X, y, name in zip(tables, (y_train, y_test), ("y_train", "y_test"), strict=True):
        if len(y) != len(X):
            raise TableError(f"{name} has {count(len(y), 'number')}, its table {count(len(X), 'row')}")
    means = tables[0].mean(axis=0)
    orders = []
    for X, ranking, name in zip(tables, (ranking_train, ranking_test), ("X_train", "X_test"), strict=True):
        if len(ranking) != len(X) or ranking.n_features != X.shape[1]:
            raise RankingError(
                f"the ranking of {name} has {count(len(ranking), 'row')} and "
                f"{count(ranking.n_features, 'feature')}, the table {count(len(X), 'row')} and {X.shape[1]}"
            )
        orders.append(ranking.order)
    most = min(order.shape[1] for order in orders)
    found = []
    for k in places:
        if not 0 <= k <= most:
            raise RankingError(f"places has {shown(k)}, expected numbers from 0 to {most}")
        train, test = (_without(X, order[:, :k], means) for X, order in zip(tables, orders, strict=True))
        found.append(float(score(fit(train, y_train), test, y_test)))
    return np.array(found)


def _numbers(X: Any, name: str) -> FloatArray:
    values = np.asarray(X, dtype=np.float64)
    if values.ndim != 2 or len(values) == 0 or not np.isfinite(values).all():
        raise TableError(f"{name} is {shown(X)}, expected a table of finite numbers")
    return values


def _without(X: FloatArray, removed: Any, means: FloatArray) -> FloatArray:
    out = X.copy()
    np.put_along_axis(out, removed, means[removed], axis=1)
    return out
