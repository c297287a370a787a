"""Scores rankings by the expected prediction when features are redrawn, or by models without them.

Deletion, insertion and their kin remove a feature, which means to redraw it from data, `Marginal` or
`Background`. Other libraries average over some draws; here the expected prediction is exact. Remove and
retrain needs new models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from predgap._engine.questions import Rows
from predgap._inputs.tables import matching_rows
from predgap._text import count, shown
from predgap._typing import BoolArray, FloatArray
from predgap.errors import NoiseError, OutputError, RankingError, TableError
from predgap.explainer import Explainer
from predgap.metrics._attributions import check_one_output
from predgap.noise import Background, Marginal
from predgap.ranking import Ranking


def deletion_curve(explainer: Explainer, X: Any, ranking: Any) -> FloatArray:
    """The expected prediction of each row when its first 0, 1, ..., k features are redrawn.

    Parameters
    ----------
    explainer : Explainer
        Of one output, with `Marginal` or `Background` noise on all features.
    X : (n, d) array or frame of the rows
    ranking : Ranking, or another form of a ranking that `Explainer.curve` takes
        Most important first; k places.

    Returns
    -------
    (n, k + 1) array of raw margins; the first column is the prediction

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Marginal, metrics
    >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])
    >>> explainer = Explainer(tree, Marginal([[0, 7], [1, 7]]))
    >>> metrics.deletion_curve(explainer, [[1, 7]], [0, 1])  # 3; then 1 or 3, either as likely
    array([[3., 2., 2.]])
    """
    return _expected(explainer, X, ranking, "first")


def insertion_curve(explainer: Explainer, X: Any, ranking: Any) -> FloatArray:
    """The expected prediction of each row when all but its first 0, 1, ..., k features are redrawn.

    Parameters
    ----------
    explainer, X, ranking : as for `deletion_curve`

    Returns
    -------
    (n, k + 1) array of raw margins; the last column is the prediction if the ranking has all places

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Marginal, metrics
    >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])
    >>> explainer = Explainer(tree, Marginal([[0, 7], [1, 7]]))
    >>> metrics.insertion_curve(explainer, [[1, 7]], [0, 1])
    array([[2., 3., 3.]])
    """
    return _expected(explainer, X, ranking, "rest")


def deletion(explainer: Explainer, X: Any, ranking: Any) -> FloatArray:
    """The area under the deletion curve, (n,); the places are from 0 to 1, by the trapezoidal rule.

    Lower is better where the prediction is high because of the features that the ranking puts first.

    Parameters
    ----------
    explainer, X, ranking : as for `deletion_curve`

    Returns
    -------
    (n,) array

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Marginal, metrics
    >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])
    >>> explainer = Explainer(tree, Marginal([[0, 7], [1, 7]]))
    >>> metrics.deletion(explainer, [[1, 7]], [0, 1]), metrics.deletion(explainer, [[1, 7]], [1, 0])
    (array([2.25]), array([2.75]))
    """
    return _area(deletion_curve(explainer, X, ranking))


def insertion(explainer: Explainer, X: Any, ranking: Any) -> FloatArray:
    """The area under the insertion curve, (n,); the places are from 0 to 1, by the trapezoidal rule.

    Higher is better where the prediction is high because of the features that the ranking puts first.

    Parameters
    ----------
    explainer, X, ranking : as for `deletion_curve`

    Returns
    -------
    (n,) array

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Marginal, metrics
    >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])
    >>> explainer = Explainer(tree, Marginal([[0, 7], [1, 7]]))
    >>> metrics.insertion(explainer, [[1, 7]], [0, 1])
    array([2.75])
    """
    return _area(insertion_curve(explainer, X, ranking))


def comprehensiveness(explainer: Explainer, X: Any, ranking: Any) -> FloatArray:
    """The fall of the prediction when the first features are redrawn: f(x) - E[f(x')], (n,).

    It is the mean over the first 1, ..., k features, k the places of the ranking; pass a ranking of k places
    for the first k only. It has the sign of the change: a row whose prediction is low for good reasons has a
    negative one.

    Parameters
    ----------
    explainer, X, ranking : as for `deletion_curve`

    Returns
    -------
    (n,) array

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Marginal, metrics
    >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])
    >>> explainer = Explainer(tree, Marginal([[0, 7], [1, 7]]))
    >>> metrics.comprehensiveness(explainer, [[1, 7], [0, 7]], [0, 1])
    array([ 1., -1.])
    """
    curve = deletion_curve(explainer, X, ranking)
    return _mean_fall(curve[:, 0], curve)


def sufficiency(explainer: Explainer, X: Any, ranking: Any) -> FloatArray:
    """The fall of the prediction when all but the first features are redrawn: f(x) - E[f(x')], (n,).

    It is the mean over the first 1, ..., k features, k the places of the ranking. Close to 0 is good: the
    first features alone give the prediction.

    Parameters
    ----------
    explainer, X, ranking : as for `deletion_curve`

    Returns
    -------
    (n,) array

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Marginal, metrics
    >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])
    >>> explainer = Explainer(tree, Marginal([[0, 7], [1, 7]]))
    >>> metrics.sufficiency(explainer, [[1, 7]], [1, 0])  # the second feature alone says nothing
    array([0.5])
    """
    rows = explainer.explained.rows(X)
    curve = insertion_curve(explainer, rows, ranking)
    nothing = np.zeros(explainer.explained.n_units, dtype=np.bool_)
    return _mean_fall(explainer.expected_prediction(rows, nothing), curve)


def feature_randomising(explainer: Explainer, X: Any, ranking: Any, y: Any) -> FloatArray:
    """The squared error of the expected prediction when the features of a ranking are redrawn, (n,).

    The paper's test: redraw the first k features of each row, and see how wrong the model becomes. Higher is
    better; the paper reports the root of the mean over rows.

    Parameters
    ----------
    explainer, X : as for `deletion_curve`
    ranking : Ranking, or another form of a ranking that `Explainer.curve` takes
        Its k places are redrawn, all together; pass a ranking of few places, such as
        `explainer.rank(X, top=3)`.
    y : (n,) array or Series
        The outcomes, in the units of the model's margin; a model whose margins are not in units of
        outcomes, such as a boosted classifier, is refused.

    Returns
    -------
    (n,) array

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Marginal, metrics
    >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])
    >>> explainer = Explainer(tree, Marginal([[0, 7], [1, 7]]))
    >>> metrics.feature_randomising(explainer, [[1, 7]], [[0]], [3.0])  # 2 is expected instead of 3
    array([1.])
    """
    check_redrawn(explainer)
    rows = explainer.explained.rows(X)
    outcomes = read_outcomes(explainer, rows, y)
    order = explainer.explained.order(rows, ranking)
    masks = _first(order, order.shape[1], explainer.explained.n_units)
    error: FloatArray = explainer.expected_prediction(rows, masks) - outcomes
    return error**2


def _expected(explainer: Explainer, X: Any, ranking: Any, redrawn: Literal["first", "rest"]) -> FloatArray:
    """E[f(x')] when the first 0, ..., k places of each row, or all others, are redrawn, (n, k + 1)."""
    check_redrawn(explainer)
    rows = explainer.explained.rows(X)
    order = explainer.explained.order(rows, ranking)
    columns = []
    for k in range(order.shape[1] + 1):
        first = _first(order, k, explainer.explained.n_units)
        masks = first if redrawn == "first" else ~first
        columns.append(explainer.expected_prediction(rows, masks))
    return np.stack(columns, axis=1)


def _first(order: Any, k: int, n_units: int) -> BoolArray:
    """True for the units at the first k places, (n, n_units)."""
    masks = np.zeros((len(order), n_units), dtype=np.bool_)
    np.put_along_axis(masks, order[:, :k].astype(np.intp), True, axis=1)
    return masks


def check_redrawn(explainer: Explainer) -> None:
    """NoiseError if features are not redrawn from data, OutputError if several outputs are explained."""
    if not isinstance(explainer.noise, Marginal | Background):
        raise NoiseError(
            f"the noise is {shown(explainer.noise)}; a feature is removed by redrawing it: use "
            "Explainer(model, Marginal(X)), each feature by itself, or Background(X), all together (on the "
            "command line --noise marginal or --noise background)"
        )
    check_one_output(explainer, "this score")


def read_outcomes(explainer: Explainer, rows: Rows, y: Any) -> FloatArray:
    """The outcomes of the rows, (n,), of a pandas Series by its index; TableError if they do not fit."""
    link = explainer.explained.model.link
    if link is not None and link.kind != "identity":
        raise OutputError(
            "the model's margins are not in the units of y; feature randomising is about regressors that "
            "predict their margin, and forests of classes"
        )
    own = matching_rows(
        getattr(y, "index", None) if hasattr(y, "iloc") else None, rows.table.index, "y", TableError
    )
    try:
        outcomes = np.asarray(y, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise TableError(f"y is {shown(y)}, expected one number for each row") from None
    if len(outcomes) != len(rows):
        raise TableError(f"y has {count(len(outcomes), 'number')}, X has {count(len(rows), 'row')}")
    if not np.isfinite(outcomes).all():
        raise TableError("y has NaN or infinite entries; leave their rows out, of X too")
    return outcomes if own is None else outcomes[own]


def _mean_fall(prediction: FloatArray, curve: FloatArray) -> FloatArray:
    """The mean of prediction - expected prediction over the first 1, ..., k places."""
    if curve.shape[1] < 2:
        raise RankingError("the ranking has no places; pass at least one")
    fall: FloatArray = (prediction[:, None] - curve[:, 1:]).mean(axis=1)
    return fall


def _area(curve: FloatArray) -> FloatArray:
    if curve.shape[1] < 2:
        raise RankingError("the ranking has no places; pass at least one")
    area: FloatArray = ((curve[:, 1:] + curve[:, :-1]) / 2.0).mean(axis=1)
    return area


# ------------------------------------------------------------------------------------------------------------
# Remove and retrain asks how much worse a model is that is trained without the features of a ranking.

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
