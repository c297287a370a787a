"""Monotonicity: do features with larger attributions move the prediction more?"""

from __future__ import annotations

from typing import Any

import numpy as np

from predgap._typing import FloatArray, IndexArray
from predgap.explainer import Explainer
from predgap.metrics._given import sizes_of


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
    """How many clearly different gaps of its row are smaller than each gap, (n, d)."""
    order = np.argsort(gaps, axis=1, kind="stable")
    ascending = np.take_along_axis(gaps, order, axis=1)
    steps = np.zeros(gaps.shape, dtype=np.intp)
    np.cumsum(np.diff(ascending, axis=1) > 1e-12 * ascending[:, 1:], axis=1, out=steps[:, 1:])
    found = np.empty_like(steps)
    np.put_along_axis(found, order, steps, axis=1)
    return found
