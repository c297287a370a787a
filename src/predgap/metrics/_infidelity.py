"""Infidelity: how far attributions, as a linear model of the noise, are from what the model does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from predgap import _core
from predgap._engine.accuracy import EXACT, Accuracy
from predgap._engine.context import Call, Context, calling
from predgap._engine.kernels import Kernel, as_bytes
from predgap._engine.questions import Question, Rows, ask
from predgap._text import format_items
from predgap._typing import BoolArray, FloatArray, IndexArray
from predgap.errors import NoiseError, RankingError
from predgap.explainer import Explainer
from predgap.metrics._attributions import attributions_of, check_one_output
from predgap.noise import Background
from predgap.noise.law import Law
from predgap.ranking import Ranking

_KNOWN: Final = (
    "infidelity knows Relative, Normal, Uniform, Laplace, StudentT with more than 2 degrees of freedom, "
    "Marginal, Redraw, Discrete and Flip, and Stay, Clipped and Rounded of these"
)


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
        Of one output, or of one per row (`output="predicted"`), with numeric features and independent noise
        whose moments are known: `Relative`, `Normal`, `Uniform`, `Laplace`, `StudentT` (more than 2 degrees
        of freedom), `Marginal`, `Redraw`, `Discrete`, `Flip`, and `Stay`, `Clipped` and `Rounded` of them.
    X : (n, d) array or frame of the rows
    attributions : what `Ranking.from_attributions` takes
        The attributions of all features, (n, d), with their signs; those of several outputs if one is
        explained in each row.

    Returns
    -------
    (n,) array

    Raises
    ------
    NoiseError
        If a feature is categorical, or its noise is another one; or if it is rounded to a lattice of which
        it reaches more than a million points.
    RankingError
        If a `Ranking` is given: it has no signs.
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
    rows, laws = explainer.explained.rows(X), known_laws(explainer)
    if isinstance(attributions, Ranking):
        raise RankingError(
            "found a Ranking, which has no signs; expected attributions (n, d) that are slopes, such as SHAP "
            "values divided by the differences of the features to their baseline"
        )
    return infidelity_of_slopes(explainer, rows, attributions_of(explainer, rows, attributions), laws)


def infidelity_of_slopes(explainer: Explainer, rows: Rows, slopes: FloatArray, laws: list[Law]) -> FloatArray:
    """The infidelity of slopes (n, d) of what is explained in each row, by the laws of all features."""
    question = _Infidelities(rows, slopes, laws, explainer.ensemble.names)
    call = Call("infidelity(explainer, X, attributions)", instead="it with a smaller model")
    with calling(call, len(rows), explainer.n_threads, progress=False) as context:
        (found,) = ask(explainer.explained, question, EXACT, context)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Infidelities(Question[tuple[FloatArray]]):
    """The infidelity of slopes, (n,), to the only output of a kernel."""

    slopes: FloatArray  # (n, d)
    laws: list[Law]  # of all features
    names: tuple[str, ...]

    def at(self, some: IndexArray) -> _Infidelities:
        return replace(self, rows=self.rows.at(some), slopes=self.slopes[some])

    def answer(
        self, kernel: Kernel, rows: _core.Rows, accuracy: Accuracy, context: Context
    ) -> tuple[FloatArray]:
        core, slopes = kernel.independent("infidelity"), self.slopes
        asked = as_bytes(kernel.every), kernel.accuracy(accuracy), context
        change, variance, _, _ = core.moments(rows, *asked)
        mean, spread, shared = self._shifts(kernel.model, core.main_weights(rows, *asked)[0])
        endless = ~np.isfinite(spread)
        for each in (mean, spread, shared):
            each[endless] = 0.0
        with np.errstate(over="ignore"):
            of_difference = (slopes**2 * spread - 2.0 * slopes * shared).sum(axis=1) + variance[:, 0, 0]
            of_means = ((slopes * mean).sum(axis=1) - change[:, 0]) ** 2
            found: FloatArray = np.maximum(of_difference, 0.0) + of_means
        found[(endless & (slopes != 0)).any(axis=1)] = np.inf
        return (found,)

    def _shifts(self, model: _core.Model, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean and variance of each shift δ, and its covariance with the change of f, all (n, d).

        The weights (n, thresholds) are those of the thresholds in the change that δ alone explains. The
        variance is infinite where an infinite value moves.
        """
        X = self.rows.values
        mean, spread, shared = np.zeros(X.shape), np.zeros(X.shape), np.zeros(X.shape)
        for q, law in enumerate(self.laws):
            at = slice(*model.threshold_begin[q : q + 2].tolist())
            moves, finite = _moves(law, X[:, q]), np.isfinite(X[:, q])
            spread[moves & ~finite, q] = np.inf
            for r in np.flatnonzero(moves & finite).tolist():
                with _noise_of(self.names[q]):
                    shift = law.shift(float(X[r, q]), model.thresholds[at])
                mean[r, q], spread[r, q] = shift.mean, shift.variance
                shared[r, q] = (weights[r, at] * shift.covariance).sum()
        return mean, spread, shared


def known_laws(explainer: Explainer) -> list[Law]:
    """The law of each feature, also of those that the model does not use: attributions may name them.

    Raises what `infidelity` does if the noise or the model has no moments.
    """
    e, own = explainer.ensemble, explainer.explained.kernel.laws
    check_one_output(explainer, "infidelity")
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
    laws = [own[q] if q in own else law.avoiding(np.nan, np.nan) for q, law in enumerate(given)]
    for q, law in enumerate(laws):
        with _noise_of(e.names[q]):
            law.shift(0.0, np.empty(0))
    return laws


@contextmanager
def _noise_of(feature: str) -> Iterator[None]:
    """A context in which an error about a noise names the feature, and the noises that are known."""
    try:
        yield
    except NoiseError as error:
        raise NoiseError(f"the noise of {feature!r}: {error}. {_KNOWN}") from None


def _moves(law: Law, x: FloatArray) -> BoolArray:
    """True for the values (n,) that the law moves: not missing ones, nor infinite ones if it adds to them."""
    moves: BoolArray = (~np.isnan(x) if law.replaces else np.isfinite(x)) & ~law.still(x)
    return moves
