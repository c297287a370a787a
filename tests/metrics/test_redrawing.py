"""Deletion, insertion and what follows from them are means over all redraws."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predgap import (
    Background,
    Ensemble,
    Explainer,
    Marginal,
    NoiseError,
    Normal,
    OutputError,
    TableError,
    metrics,
)
from predgap._typing import FloatArray
from strategies import ensemble_of, ensembles, full_trees, points


def expected(
    ensemble: Ensemble, table: FloatArray, x: FloatArray, redrawn: list[int], together: bool
) -> float:
    """The mean prediction over all ways to redraw these features, from one row of the table or each alone."""
    alone = list(product(*(table[:, q] for q in redrawn)))
    ways = [b[redrawn] for b in table] if together else alone
    total = 0.0
    for way in ways:
        other = x.copy()
        other[redrawn] = way
        total += float(ensemble.predict(other[None])[0])
    return total / len(ways)


@st.composite
def cases(draw: Any) -> tuple[Ensemble, FloatArray, FloatArray, list[int]]:
    ensemble = draw(ensembles(n_features=st.integers(1, 3)))
    table = np.array([draw(points(ensemble, missing=False)) for _ in range(3)])
    table[~np.isfinite(table)] = 0.25
    x = draw(points(ensemble, missing=False))
    return ensemble, table, x, draw(st.permutations(range(ensemble.n_features)))


@given(cases(), st.booleans())
def test_curves_are_means_over_all_redraws(case: Any, together: bool) -> None:
    ensemble, table, x, order = case
    explainer = Explainer(ensemble, Background(table) if together else Marginal(table))
    scale = 1.0 + np.abs(ensemble.value).sum()
    deleted, inserted = (
        curve(explainer, x[None], order)[0] for curve in (metrics.deletion_curve, metrics.insertion_curve)
    )
    for k in range(len(order) + 1):
        wanted = expected(ensemble, table, x, list(order[:k]), together)
        assert deleted[k] == pytest.approx(wanted, rel=1e-12, abs=1e-13 * scale)
        wanted = expected(ensemble, table, x, list(order[k:]), together)
        assert inserted[k] == pytest.approx(wanted, rel=1e-12, abs=1e-13 * scale)


@pytest.fixture
def explained() -> tuple[Explainer, FloatArray, Ensemble]:
    rng = np.random.default_rng(0)
    forest, X = full_trees(rng, n_trees=5, depth=3, n_features=4), rng.normal(size=(6, 4))
    return Explainer(forest, Marginal(X)), X, forest


def test_scores_follow_from_the_curves(explained: tuple[Explainer, FloatArray, Ensemble]) -> None:
    explainer, X, forest = explained
    ranking = explainer.rank(X)
    deleted, inserted = (
        metrics.deletion_curve(explainer, X, ranking),
        metrics.insertion_curve(explainer, X, ranking),
    )
    f = forest.predict(X)
    np.testing.assert_allclose(deleted[:, 0], f, rtol=1e-12)
    np.testing.assert_allclose(inserted[:, -1], f, rtol=1e-12)
    np.testing.assert_allclose(deleted[:, -1], inserted[:, 0], rtol=1e-12)
    area = (deleted.sum(axis=1) - (deleted[:, 0] + deleted[:, -1]) / 2) / 4
    np.testing.assert_allclose(metrics.deletion(explainer, X, ranking), area, rtol=1e-12)
    falls = (f[:, None] - deleted[:, 1:]).mean(axis=1)
    np.testing.assert_allclose(metrics.comprehensiveness(explainer, X, ranking), falls, atol=1e-12)
    falls = (f[:, None] - inserted[:, 1:]).mean(axis=1)
    np.testing.assert_allclose(metrics.sufficiency(explainer, X, ranking), falls, atol=1e-12)
    y = np.arange(6.0)
    top = explainer.rank(X, top=2)
    wrong = (metrics.deletion_curve(explainer, X, top)[:, 2] - y) ** 2
    np.testing.assert_allclose(metrics.feature_randomising(explainer, X, top, y), wrong, rtol=1e-12)


def test_what_cannot_be_answered_is_refused(explained: tuple[Explainer, FloatArray, Ensemble]) -> None:
    explainer, X, forest = explained
    with pytest.raises(NoiseError, match=r"Normal\(1.0\).*Explainer\(model, Marginal\(X\)\)"):
        metrics.deletion(Explainer(forest, Normal(1.0)), X, [0, 1, 2, 3])
    with pytest.raises(TableError, match="y has 1 number, X has 6 rows"):
        metrics.feature_randomising(explainer, X, [0, 1, 2, 3], [1.0])
    two = ensemble_of([(1.0, 2.0)], 1, targets=[-1], n_outputs=2)
    with pytest.raises(OutputError, match=r"2 outputs.*choose it"):
        metrics.insertion(Explainer(two, Marginal([[0.0]])), [[0.0]], [0])
