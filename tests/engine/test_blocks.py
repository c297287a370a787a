"""Components of a thousand terms and more, which kernels take in blocks, against sums over all cells."""

from __future__ import annotations

import dataclasses
import itertools
from functools import cache

import numpy as np
import pytest
from scipy.stats import norm

from assertions import exactly
from predgap import Ensemble, Normal
from strategies import full_trees

SIGMA = 0.7
GRID = np.linspace(-2, 2, 25)
X = np.array([[0.1, -0.3, 0.8], [GRID[12], GRID[3], GRID[24]], [5.0, 0.2, -4.5]])
SUBSETS = [subset for size in (1, 2, 3) for subset in itertools.combinations(range(3), size)]


def trees_on_a_grid(n_outputs: int) -> Ensemble:
    """Full trees of depth 6, whose three features have 25 thresholds each."""
    rng = np.random.default_rng(n_outputs)
    trees = full_trees(rng, n_trees=100, depth=6, n_features=3)
    n_nodes = len(trees.feature)
    return dataclasses.replace(
        trees,
        threshold=np.where(trees.feature >= 0, rng.choice(GRID, size=n_nodes), 0.0),
        value=rng.normal(size=(n_nodes, n_outputs)),
        target=np.full(len(trees.root), -1 if n_outputs > 1 else 0),
        bias=np.zeros(n_outputs),
    )


def gap_over_cells(ensemble: Ensemble, x: np.ndarray, subset: tuple[int, ...]) -> float:
    """E[(f(x') - f(x))^2], summed over the outputs: between thresholds the prediction is constant."""
    ends = np.concatenate([[-np.inf], GRID, [np.inf]])
    places = np.concatenate([[-9.0], GRID])  # one in each cell; a threshold belongs to the cell above it
    masses = [np.diff(norm.cdf(ends, x[q], SIGMA)) if q in subset else np.ones(1) for q in range(3)]
    values = [places if q in subset else x[q : q + 1] for q in range(3)]
    points = np.array(list(itertools.product(*values)))
    probability = np.array([a * b * c for a, b, c in itertools.product(*masses)])
    change = ensemble.predict(points) - ensemble.predict(x[None, :])
    return float(probability @ (change.reshape(len(points), -1) ** 2).sum(axis=1))


@cache
def gaps_over_cells(n_outputs: int) -> dict[tuple[int, ...], np.ndarray]:
    ensemble = trees_on_a_grid(n_outputs)
    return {s: np.array([gap_over_cells(ensemble, x, s) for x in X]) for s in SUBSETS} | {
        (): np.zeros(len(X))
    }


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("strategy", ["plan", "compiled"])
def test_large_components(strategy, n_outputs):
    ensemble = trees_on_a_grid(n_outputs)
    explainer = exactly(ensemble, Normal(SIGMA), strategy)
    gaps = {s: np.array([gap_over_cells(ensemble, x, s) for x in X]) for s in SUBSETS} | {
        (): np.zeros(len(X))
    }
    scale = gaps[0, 1, 2]
    for subset in SUBSETS:
        np.testing.assert_allclose(
            explainer.gap(X, subset), gaps[subset], rtol=1e-12, atol=1e-12 * scale.max()
        )
    for order in itertools.permutations(range(3)):
        curve = explainer.curve(X, np.array(order))
        for k in range(3):
            expected = gaps[tuple(sorted(order[: k + 1]))]
            np.testing.assert_allclose(curve[:, k], expected, rtol=1e-12, atol=1e-12 * scale.max())
    ranking = explainer.rank(X)
    for r, order in enumerate(ranking.order):
        for k, feature in enumerate(order):
            before, after = (gaps[tuple(sorted(order[:n].tolist()))][r] for n in (k, k + 1))
            assert abs(ranking.scores[r, feature] - (after - before)) <= 1e-12 * scale[r]
