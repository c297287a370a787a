"""Infidelity: how far attributions, as a linear model of the noise, are from what the model does."""

from __future__ import annotations

from typing import Any

import numpy as np

from predgap._engine.accuracy import EXACT
from predgap._engine.costs import refusing
from predgap._engine.engine import Engine
from predgap._text import format_items
from predgap._typing import BoolArray, FloatArray
from predgap.errors import NoiseError, OutputError
from predgap.explainer import Explainer
from predgap.metrics._given import attributions_of
from predgap.noise import Background
from predgap.noise._laws import Law


def infidelity(explainer: Explainer, X: Any, attributions: Any) -> FloatArray:
    """The infidelity of attributions, E[(Σ a_i δ_i - (f(x') - f(x)))²], of each row; lower is better.

    δ = x' - x is the noise on all features, and a the attributions, read as slopes: how much the prediction
    changes per unit of each feature. SHAP values are not slopes, but differences to a baseline; divide them
    by the differences of the features to use them here.

    The score is exact, up to rounding relative to Σ a_i² E[δ_i²] + PG². It is infinite where a
    feature moves from or to an infinite value, unless its slope is 0.

    Parameters
    ----------
    explainer : Explainer
        Of one output, with independent noise on numeric features whose moments are known: `Normal`,
        `Uniform`, `Laplace`, `StudentT` (more than 2 degrees of freedom), `Marginal`, `Discrete`, and `Stay`
        of them.
    X : (n, d) array or frame of the rows
    attributions : what `Ranking.from_attributions` takes
        The attributions of all features, (n, d), with their signs.

    Returns
    -------
    (n,) array

    Raises
    ------
    NoiseError
        If a feature is categorical, or its noise is another one.
    CostError
        If a row would take more than two minutes or 1 GiB.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Discrete, metrics
    >>> tree = DecisionTreeRegressor().fit([[0, 7], [1, 7]], [1, 3])  # rises by 2 from 0 to 1
    >>> explainer = Explainer(tree, Discrete([0.0, 1.0]))
    >>> slopes = np.array([[2.0, 0.0]]), np.array([[0.0, 0.0]])
    >>> [metrics.infidelity(explainer, [[0, 7]], a).round(6) for a in slopes]
    [array([0.]), array([2.])]
    """
    rows = explainer._inputs.rows(X)
    engine, laws = explainer._engine, known_laws(explainer)
    slopes = attributions_of(explainer, rows, attributions)
    every = np.ones((1, len(laws)), dtype=np.bool_)
    with refusing("infidelity(explainer, X, attributions)", "it with a smaller model"):
        change, variance, _, _ = engine.moments(rows.values, every, EXACT)
        weights = engine.main_weights(rows.values, every, EXACT)[0]
    mean, spread, shared = _shifts(laws, rows.values, engine, weights)
    endless = ~np.isfinite(spread)
    for each in (mean, spread, shared):
        each[endless] = 0.0
    with np.errstate(over="ignore"):
        of_difference = (slopes**2 * spread - 2.0 * slopes * shared).sum(axis=1) + variance[:, 0, 0]
        found: FloatArray = np.maximum(of_difference, 0.0) + ((slopes * mean).sum(axis=1) - change[:, 0]) ** 2
    found[(endless & (slopes != 0)).any(axis=1)] = np.inf
    return found


def _shifts(
    laws: list[Law], X: FloatArray, engine: Engine, weights: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean and variance of each shift δ, and its covariance with the change of the prediction, all (n, d).

    The weights (n, thresholds) are those of the thresholds in the change that δ alone explains. The variance
    is infinite where an infinite value moves.
    """
    mean, spread, shared = np.zeros(X.shape), np.zeros(X.shape), np.zeros(X.shape)
    for q, law in enumerate(laws):
        at = slice(*engine.kernels.threshold_begin[q : q + 2].tolist())
        moves, finite = _moves(law, X[:, q]), np.isfinite(X[:, q])
        spread[moves & ~finite, q] = np.inf
        for r in np.flatnonzero(moves & finite).tolist():
            shift = law.shift(float(X[r, q]), engine.kernels.thresholds[at])
            mean[r, q], spread[r, q] = shift.mean, shift.variance
            shared[r, q] = (weights[r, at] * shift.covariance).sum()
    return mean, spread, shared


def known_laws(explainer: Explainer) -> list[Law]:
    """The law of each feature, also of those that the model does not use: attributions may name them.

    Raises what `infidelity` does if the noise or the model has no moments.
    """
    e, engine = explainer.ensemble, explainer._engine
    if e.n_outputs > 1:
        raise OutputError(f"infidelity is about one of {e.n_outputs} outputs: Explainer(..., output=0)")
    if isinstance(explainer.noise, Background):
        raise NoiseError("infidelity needs features that move independently; Background moves them together")
    categorical = e.categorical()
    if categorical:
        raise NoiseError(
            f"infidelity is about numbers; {format_items(e.names[q] for q in categorical)} "
            "are categories, which have no slope"
        )
    if explainer.groups is not None:
        raise NoiseError("infidelity is about single features; use an Explainer without groups")
    given = explainer.noise.laws_of(list(range(e.n_features)), e.n_features, e.feature_names)
    laws = [engine.laws[q] if q in engine.laws else law.rounded(e.row_dtype) for q, law in enumerate(given)]
    for law in laws:
        law.shift(0.0, np.empty(0))  # NoiseError if it is not known
    return laws


def _moves(law: Law, x: FloatArray) -> BoolArray:
    """Which values (n,) the law moves: not missing ones, nor infinite ones if it adds to them."""
    moves: BoolArray = (~np.isnan(x) if law.replaces else np.isfinite(x)) & ~law.still(x)
    return moves
