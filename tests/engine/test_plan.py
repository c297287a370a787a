"""The shared plan: boxes and components are looked up by bits, which must not lose any."""

from __future__ import annotations

import numpy as np
import pytest

from assertions import exactly
from predgap import Normal
from reference import error_scale, gap_in_longdouble, normal_tails, rounding_bound
from strategies import full_trees

SCALE = 0.4


@pytest.fixture(
    scope="module", params=[(5, 60), (64, 90), (65, 90), (150, 120)], ids=lambda p: f"{p[0]} features"
)
def model(request):
    """Features share bits of a component's signature past 64; 60 trees have far more than 64 boxes, and with
    five features more thresholds of each than the index of the boxes has groups.
    """
    n_features, n_trees = request.param
    rng = np.random.default_rng(n_features)
    return full_trees(rng, n_trees=n_trees, depth=3, n_features=n_features), rng


def rows_and_subsets(ensemble, rng, n):
    X = rng.normal(size=(n, ensemble.n_features))
    X[::3, ::4] = np.nan
    for i, x in enumerate(X):
        n_moving = int(rng.integers(1, ensemble.n_features + 1)) if i % 2 else int(rng.integers(1, 4))
        yield x, rng.permutation(ensemble.n_features)[:n_moving]


def assert_gap(ensemble, x, subset, right):
    found = exactly(ensemble, Normal(SCALE), "plan").gap(x[None], subset)[0]
    bound = rounding_bound(right, error_scale(ensemble, x, subset, normal_tails(SCALE)))
    assert abs(found - right) <= bound


def test_gaps_of_subsets(model):
    ensemble, rng = model
    by_pairs = exactly(ensemble, Normal(SCALE), "pairs")
    for x, subset in rows_and_subsets(ensemble, rng, 40):
        assert_gap(ensemble, x, subset, by_pairs.gap(x[None], subset)[0])


def test_gaps_by_the_definition(model):
    ensemble, rng = model
    for x, subset in rows_and_subsets(ensemble, rng, 4):
        few = subset[:3]
        assert_gap(ensemble, x, few, gap_in_longdouble(ensemble, x, few, normal_tails(SCALE)))


def test_curves_end_in_the_gap(model):
    ensemble, rng = model
    by_plan = exactly(ensemble, Normal(SCALE), "plan")
    for x, subset in rows_and_subsets(ensemble, rng, 6):
        gaps = [by_plan.gap(x[None], subset[:k])[0] for k in range(1, len(subset) + 1)]
        curve = by_plan.curve(x[None], subset[None])[0]
        assert curve == pytest.approx(gaps, rel=1e-12, abs=1e-14 * max(gaps))
