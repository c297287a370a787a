"""Infidelity: how far attributions, as a linear model of the noise, are from what the model does."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from predgap._engine.accuracy import EXACT
from predgap._engine.costs import refusing
from predgap._text import format_items
from predgap._typing import BoolArray, FloatArray
from predgap.errors import NoiseError, OutputError
from predgap.explainer import Explainer
from predgap.metrics._given import attributions_of
from predgap.noise import Background
from predgap.noise._combined_laws import StayLaw
from predgap.noise._laws import (
    DiscreteLaw,
    LaplaceLaw,
    Law,
    MarginalLaw,
    NormalLaw,
    StillLaw,
    StudentTLaw,
    UniformLaw,
)


def infidelity(explainer: Explainer, X: Any, attributions: Any) -> FloatArray:
    """The infidelity of attributions, E[(Σ a_i δ_i - (f(x') - f(x)))²], of each row; lower is better.

    δ = x' - x is the noise on all features, and a the attributions, read as slopes: how much the prediction
    changes per unit of each feature. SHAP values are not slopes, but differences to a baseline; divide them
    by the differences of the features to use them here.

    The score is exact, up to rounding relative to E[(Σ a_i δ_i)²] + PG².

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
    n, d = len(rows), len(laws)
    every = np.ones((1, d), dtype=np.bool_)
    with refusing("infidelity(explainer, X, attributions)", "it with a smaller model"):
        change, variance, _, _ = engine.moments(rows.values, every, EXACT)
        weights = engine.main_weights(rows.values, every, EXACT)[0]
    mean, spread, shared = np.zeros((n, d)), np.zeros((n, d)), np.zeros((n, d))
    for q, law in enumerate(laws):
        at = slice(*engine.kernels.threshold_begin[q : q + 2].tolist())
        thresholds = engine.kernels.thresholds[at]
        for r in np.flatnonzero(_moves(law, rows.values[:, q])).tolist():
            shift = shift_of(law, float(rows.values[r, q]), thresholds)
            mean[r, q], spread[r, q] = shift.mean, shift.variance
            shared[r, q] = (weights[r, at] * shift.covariance).sum()
    of_difference = (slopes**2 * spread - 2.0 * slopes * shared).sum(axis=1) + variance[:, 0, 0]
    found: FloatArray = np.maximum(of_difference, 0.0) + ((slopes * mean).sum(axis=1) - change[:, 0]) ** 2
    return found


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
        shift_of(law, 0.0, np.empty(0))  # NoiseError if it is not known
    return laws


def _moves(law: Law, x: FloatArray) -> BoolArray:
    """Which values (n,) the law moves: not missing ones, nor infinite ones if it adds to them."""
    moves: BoolArray = (~np.isnan(x) if law.replaces else np.isfinite(x)) & ~law.still(x)
    return moves


class Shift(NamedTuple):
    """Moments of δ = x' - x, and its covariance with 1[x' < t] for each threshold t."""

    mean: float
    variance: float
    covariance: FloatArray  # (k,)


@singledispatch
def shift_of(law: Law, x: float, thresholds: FloatArray) -> Shift:
    """The moments of a law at x."""
    raise NoiseError(
        f"the moments of {law!r} are not known; infidelity takes Normal, Uniform, Laplace, StudentT, "
        "Marginal and Discrete noise, and Stay of them"
    )


@shift_of.register
def _(law: StillLaw, x: float, thresholds: FloatArray) -> Shift:
    return Shift(0.0, 0.0, np.zeros(len(thresholds)))


@shift_of.register
def _(law: NormalLaw, x: float, thresholds: FloatArray) -> Shift:
    z = (thresholds - x) / law.scale
    return Shift(0.0, law.scale**2, -law.scale * np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi))


@shift_of.register
def _(law: UniformLaw, x: float, thresholds: FloatArray) -> Shift:
    h = law.half_width
    u = np.clip(thresholds - x, -h, h)
    return Shift(0.0, h**2 / 3.0, (u - h) * (u + h) / (4.0 * h))


@shift_of.register
def _(law: LaplaceLaw, x: float, thresholds: FloatArray) -> Shift:
    u = np.abs(thresholds - x)
    return Shift(0.0, 2.0 * law.scale**2, -0.5 * (u + law.scale) * np.exp(-u / law.scale))


@shift_of.register
def _(law: StudentTLaw, x: float, thresholds: FloatArray) -> Shift:
    if law.df <= 2:
        raise NoiseError(f"StudentT with {law.df:g} degrees of freedom has no variance; infidelity needs it")
    from scipy.special import gammaln

    z = (thresholds - x) / law.scale
    density = np.exp(
        gammaln((law.df + 1) / 2) - gammaln(law.df / 2) - (law.df + 1) / 2 * np.log1p(z**2 / law.df)
    ) / np.sqrt(law.df * np.pi)
    covariance = -law.scale * (law.df + z**2) / (law.df - 1.0) * density
    return Shift(0.0, law.scale**2 * law.df / (law.df - 2.0), covariance)


@shift_of.register
def _(law: MarginalLaw, x: float, thresholds: FloatArray) -> Shift:
    return _listed(law.values, np.full(len(law.values), 1.0 / len(law.values)), x, thresholds)


@shift_of.register
def _(law: DiscreteLaw, x: float, thresholds: FloatArray) -> Shift:
    return _listed(law._numbers(), np.asarray(law.probabilities), x, thresholds)


@shift_of.register
def _(law: StayLaw, x: float, thresholds: FloatArray) -> Shift:
    inner = shift_of(law.law, x, thresholds)
    below = law.law.tails(np.array([x]), thresholds)[0][0]
    # With a coin B that is 1 with probability m: δ is B times the shift, and 1[x' < t] that of either case.
    moves, at_x = law.moves, (x < thresholds).astype(np.float64)
    covariance = moves * inner.covariance + moves * (1.0 - moves) * inner.mean * (below - at_x)
    variance = moves * inner.variance + moves * (1.0 - moves) * inner.mean**2
    return Shift(moves * inner.mean, variance, covariance)


def _listed(values: FloatArray, probability: FloatArray, x: float, thresholds: FloatArray) -> Shift:
    mean = float((probability * (values - x)).sum())
    centred = probability * (values - x - mean)
    covariance = (centred[None, :] * (values[None, :] < thresholds[:, None])).sum(axis=1)
    return Shift(mean, float((centred * (values - x - mean)).sum()), covariance)
