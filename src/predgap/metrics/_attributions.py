"""Scores attributions by `monotonicity_correlation`, and reads those that other scores take.

Attributions of any form come in the order of an explainer's rows and features.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from predgap._engine.questions import Rows
from predgap._inputs.tables import matching_rows
from predgap._text import names_or_default
from predgap._typing import FloatArray, IndexArray
from predgap.errors import OutputError, RankingError
from predgap.explainer import Explainer
from predgap.ranking import Ranking
from predgap.ranking.reading import read_attributions, summed_over


def monotonicity_correlation(explainer: Explainer, X: Any, ranking: Any) -> FloatArray:
    """Spearman's correlation of the sizes of attributions and the gaps of single features, row by row.

    1 if features with larger attributions move the prediction more, without exception. The gaps are those of
    `Explainer.rank(X, "single")`, exact or within `rtol`; equal sizes share their place, and so do gaps that
    differ by no more than rounding, 1e-12 of themselves.

    Parameters
    ----------
    explainer : Explainer
    X : (n, d) array or frame of the rows
    ranking : Ranking with scores, or what `Ranking.from_attributions` takes
        The attributions of all features.

    Returns
    -------
    (n,) array; NaN in rows in which all sizes, or all gaps, are equal

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Uniform, metrics
    >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])
    >>> explainer = Explainer(tree, Uniform(1.0))
    >>> metrics.monotonicity_correlation(explainer, [[0, 7]], np.array([[-0.5, 0.0]])).round(6)
    array([1.])
    """
    from scipy.stats import rankdata  # slow to import

    rows = explainer.explained.rows(X)
    sizes = sizes_of(explainer, rows, ranking)
    gaps = explainer.rank(rows, "single").scores
    assert gaps is not None
    a, b = (rankdata(each, axis=1) for each in (sizes, _steps(gaps)))
    a, b = (each - each.mean(axis=1, keepdims=True) for each in (a, b))
    norms = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation: FloatArray = np.where(norms > 0, (a * b).sum(axis=1) / norms, np.nan)
    return correlation


def _steps(gaps: FloatArray) -> IndexArray:
    """The number, for each gap (n, d), of clearly different smaller gaps in its row."""
    order = np.argsort(gaps, axis=1, kind="stable")
    ascending = np.take_along_axis(gaps, order, axis=1)
    steps = np.zeros(gaps.shape, dtype=np.intp)
    np.cumsum(np.diff(ascending, axis=1) > 1e-12 * ascending[:, 1:], axis=1, out=steps[:, 1:])
    found = np.empty_like(steps)
    np.put_along_axis(found, order, steps, axis=1)
    return found


# ------------------------------------------------------------------------------------------------------------
# Attributions that a user gives come in the order of an explainer's rows and features.


def check_one_output(explainer: Explainer, what: str) -> None:
    """OutputError, which calls the score `what`, if several outputs are explained together."""
    if explainer.output is None and explainer.ensemble.n_outputs > 1:
        raise OutputError(
            f"the explainer has {explainer.ensemble.n_outputs} outputs, and {what} is about one; choose it: "
            "Explainer(..., output=0), the label of a class, or output='predicted'"
        )


def attributions_of(explainer: Explainer, rows: Rows, values: Any) -> FloatArray:
    """Attributions with their signs, (n, d); with groups, their sums over each.

    Frames and Explanations are matched by the names of features and the labels of rows, arrays by position;
    of several outputs the explained one is taken. RankingError if they do not fit, or miss a feature.
    """
    inputs = explainer.explained
    by_position = isinstance(values, np.ndarray | list | tuple) or inputs.units is not None
    read = read_attributions(values, inputs.ensemble.names if by_position else None)
    explained = inputs.outputs.in_rows(rows.outputs)
    signs = explained.signs_of(read.n_outputs)
    read = read.of(explained.output_of(read.n_outputs))
    if inputs.units is not None:
        read = summed_over(read, inputs.units)
    inputs.check_data(values, rows)
    of_one = read.values[:, :, 0]
    ranking = Ranking(_columns(of_one), feature_names=read.names, index=read.index, output=read.output)
    return signs[:, None] * _aligned(explainer, rows, ranking, of_one)


def sizes_of(explainer: Explainer, rows: Rows, ranking: Any) -> FloatArray:
    """The sizes of the attributions behind a ranking, (n, d); RankingError if there are none."""
    if not isinstance(ranking, Ranking):
        return np.abs(attributions_of(explainer, rows, ranking))
    if ranking.scores is None:
        raise RankingError(
            f"this score needs an attribution of each feature, a ranking by {ranking.method or 'order'} has "
            "none; use Ranking.from_attributions(values)"
        )
    whole = replace(ranking, order=_columns(ranking.scores), confidence=None)
    return np.abs(_aligned(explainer, rows, whole, ranking.scores))


def _columns(values: FloatArray) -> IndexArray:
    """The order of n rows that has the features in the order of their columns."""
    return np.tile(np.arange(values.shape[1]), (len(values), 1))


def _aligned(explainer: Explainer, rows: Rows, in_order: Ranking, values: FloatArray) -> FloatArray:
    """Values by the explainer's rows and units, from those by a ranking's rows and features."""
    inputs = explainer.explained
    place = inputs.order(rows, in_order)[:1].reshape(-1)
    own = matching_rows(in_order.index, rows.table.index, "the ranking", RankingError)
    out = np.full((len(rows), inputs.n_units), np.nan)
    out[:, place] = values if own is None else values[own]
    if not np.isfinite(out).all():
        names = names_or_default(inputs.n_units, inputs.unit_names)
        missing = names[int(np.flatnonzero(~np.isfinite(out).all(axis=0))[0])]
        raise RankingError(
            f"this score needs an attribution of each feature; {missing!r} has none in some rows"
        )
    return out
