"""Greedy rankings whose gains are brought up to date step by step, against sums over pairs of leaves."""

from __future__ import annotations

import numpy as np
import pytest

from assertions import exactly
from predgap import Ensemble, Noise, Normal
from strategies import full_trees

D = 9
X = np.random.default_rng(1).normal(size=(3, D))
GROUPS = {"pair": [0, 7], "three": [1, 4, 8]}


def ensemble_of(n_trees: int, depth: int) -> Ensemble:
    return full_trees(np.random.default_rng(depth), n_trees=n_trees, depth=depth, n_features=D)


def assert_gains(
    ensemble: Ensemble, noise: Noise, strategy: str, groups: dict[str, list[int]] | None
) -> None:
    """Each score is what its unit adds to the gap; each place has the largest one."""
    ranking = exactly(ensemble, noise, strategy, groups=groups).rank(X)
    pairs = exactly(ensemble, noise, "pairs", groups=groups)
    for row, order, scores in zip(X[:, None], ranking.order, ranking.scores, strict=True):
        taken: list[int] = []
        before = 0.0
        for unit in order:
            gaps = {u: pairs.gap(row, [*taken, u])[0] for u in range(len(order)) if u not in taken}
            np.testing.assert_allclose(before + scores[unit], gaps[unit], rtol=1e-12)
            assert gaps[unit] >= max(gaps.values()) * (1 - 1e-12)
            taken.append(unit)
            before = gaps[unit]


@pytest.mark.parametrize("strategy", ["plan", "compiled"])
@pytest.mark.parametrize(("n_trees", "depth"), [(60, 2), (30, 3), (8, 4), (3, 5)])
def test_scores_are_what_units_add(strategy, n_trees, depth):
    assert_gains(ensemble_of(n_trees, depth), Normal(0.6), strategy, None)


@pytest.mark.parametrize("strategy", ["plan", "compiled"])
def test_scores_of_groups(strategy):
    assert_gains(ensemble_of(30, 3), Normal(0.6), strategy, GROUPS)


@pytest.mark.parametrize("strategy", ["plan", "compiled"])
def test_the_smallest_gains_keep_their_digits(strategy):
    """Noise that hardly ever crosses a threshold: gaps far below the rounding of 1."""
    assert_gains(ensemble_of(30, 3), Normal(0.01), strategy, None)


def test_components_of_many_terms_beside_others():
    """Some have too many terms for a Gram matrix that is kept."""
    ensemble = full_trees(np.random.default_rng(0), n_trees=200, depth=2, n_features=3)
    order = exactly(ensemble, Normal(0.6), "plan").rank(X[:, :3])
    expected = exactly(ensemble, Normal(0.6), "compiled").rank(X[:, :3])
    np.testing.assert_array_equal(order.order, expected.order)
    np.testing.assert_allclose(order.scores, expected.scores, rtol=1e-11)
