"""Curves of many places: components change their weights more often than kernels take them together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import strategies
from assertions import exactly
from predgap import Categories, Discrete, Ensemble, Normal, PerFeature, Ranking
from strategies import Split, Tree, full_trees

D = 12
X = np.random.default_rng(1).normal(size=(3, D))
ORDERS = np.array([np.random.default_rng(seed).permutation(D) for seed in range(3)])
GROUPS = {"pair": [0, 7], "three": [1, 4, 11]}
NOISE = Normal(0.6)


def ensemble_of(n_trees: int, depth: int) -> Ensemble:
    return full_trees(np.random.default_rng(depth), n_trees=n_trees, depth=depth, n_features=D)


def assert_prefixes(curves: np.ndarray, gaps_of_prefix: Callable[[int, int], float]) -> None:
    """`gaps_of_prefix(r, k)`: the gap of row r and its first k units, by sums over pairs of leaves."""
    for r, curve in enumerate(curves):
        expected = [gaps_of_prefix(r, k) for k in range(1, len(curve) + 1)]
        np.testing.assert_allclose(curve, expected, rtol=1e-12)


@pytest.mark.parametrize("strategy", ["plan", "compiled"])
@pytest.mark.parametrize(("n_trees", "depth"), [(60, 2), (40, 3), (6, 5)])
def test_a_long_curve_holds_the_gaps_of_the_prefixes(strategy, n_trees, depth):
    ensemble = ensemble_of(n_trees, depth)
    pairs = exactly(ensemble, NOISE, "pairs")
    curves = exactly(ensemble, NOISE, strategy).curve(X, ORDERS)
    assert_prefixes(curves, lambda r, k: pairs.gap(X[r : r + 1], ORDERS[r, :k])[0])


@pytest.mark.parametrize("strategy", ["plan", "compiled"])
def test_a_long_curve_of_groups(strategy):
    ensemble = ensemble_of(40, 3)
    pairs = exactly(ensemble, NOISE, "pairs", groups=GROUPS)
    explainer = exactly(ensemble, NOISE, strategy, groups=GROUPS)
    order = explainer.rank(X).order[:, ::-1]
    curves = explainer.curve(X, order)
    assert_prefixes(curves, lambda r, k: pairs.gap(X[r : r + 1], order[r, :k])[0])


@pytest.mark.parametrize("strategy", ["plan", "compiled", "cells"])
def test_a_long_curve_with_categories(strategy):
    """The first two features become categories of six levels; pairs of leaves add up each prefix."""
    rng, levels = np.random.default_rng(7), Categories(np.arange(6))

    def grow(depth: int) -> Tree:
        if depth == 0:
            return rng.normal()
        q, children = int(rng.choice([0, 1, *range(D)])), (grow(depth - 1), grow(depth - 1))
        codes = tuple(map(int, rng.choice(6, int(rng.integers(1, 5)), replace=False))) if q < 2 else None
        return Split(q, 0.0 if q < 2 else rng.normal(), *children, bool(rng.integers(2)), codes)

    ensemble = strategies.ensemble_of(
        [grow(3) for _ in range(60)], D, categories=[levels, levels, *[None] * (D - 2)]
    )
    shares = Discrete(range(6), rng.dirichlet(np.ones(6)))
    noise = PerFeature({0: shares, 1: shares}, default=NOISE)
    rows = X.copy()
    rows[:, :2] = rng.integers(6, size=(3, 2))
    pairs = exactly(ensemble, noise, "pairs")
    curves = exactly(ensemble, noise, strategy).curve(rows, ORDERS)
    assert_prefixes(curves, lambda r, k: pairs.gap(rows[r : r + 1], ORDERS[r, :k])[0])


def test_a_curve_with_more_versions_than_there_is_room_for():
    """Components that come when the pool of versions is full are evaluated at once; see terms/curve.hpp."""
    d = 16
    ensemble = full_trees(np.random.default_rng(0), n_trees=120, depth=8, n_features=d)
    x, order = np.random.default_rng(1).normal(size=(1, d)), np.random.default_rng(2).permutation(d)
    explainer = exactly(ensemble, NOISE, "compiled")
    assert explainer.cost(Ranking(order[None]), X=x).megabytes > 64  # at least twice what the pool can keep
    curve = explainer.curve(x, order[None])[0]
    for k in (1, 5, 12, d):
        np.testing.assert_allclose(curve[k - 1], explainer.gap(x, order[:k])[0], rtol=1e-12)
