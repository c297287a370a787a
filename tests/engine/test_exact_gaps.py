"""Exact gaps of compiled rows leave out what cannot show in them, however small the gaps are."""

from __future__ import annotations

import numpy as np
import pytest

from assertions import exactly
from predgap import Explainer, Normal
from strategies import chain, ensemble_of

D = 14  # boxes of more than 12 features: there is no shared plan


@pytest.fixture(scope="module")
def long_paths():
    """Six trees with paths over all features, in different orders, and many with short ones; and rows.

    Of few trees all would be counted, and nothing would be left out of exact gaps.
    """
    rng = np.random.default_rng(11)
    lengths = [D] * 6 + [3] * 114
    trees = [chain(rng, rng.permutation(D)[:length].tolist()) for length in lengths]
    return ensemble_of(trees, D), rng.normal(size=(6, D))


@pytest.mark.parametrize("scale", [0.05, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("n_moving", [2, 8, D])
def test_gaps_are_exact_by_the_criterion(long_paths, scale, n_moving):
    ensemble, X = long_paths
    subset = range(n_moving)
    right = exactly(ensemble, Normal(scale), "pairs").gap(X, subset)
    found = Explainer(ensemble, Normal(scale)).estimate(X, subset, "bounded", rtol=1e-6)
    assert set(found.method) == {"exact"}
    assert (found.error_bound == 0).all()
    assert (np.abs(found.value - right) <= 1e-12 * right).all()


def test_the_smallest_gaps_keep_their_digits(long_paths):
    ensemble, X = long_paths
    noise = Normal(0.001)
    right = exactly(ensemble, noise, "pairs").gap(X, range(D))
    assert 0 < right.min() < 1e-30, "the case must have a gap far out in a tail"
    assert (np.abs(Explainer(ensemble, noise).gap(X, range(D)) - right) <= 1e-12 * right).all()


def test_something_is_left_out_unless_rtol_is_0(long_paths):
    ensemble, X = long_paths
    exact, default = (Explainer(ensemble, Normal(0.3), rtol=rtol) for rtol in (0, 1e-6))
    gaps, all_terms = default.gap(X, range(D)), exact.gap(X, range(D))
    assert (gaps != all_terms).any(), "every bit is the same: nothing was left out"
    assert (np.abs(gaps - all_terms) <= 2e-13 * all_terms).all()
    assert default.cost(range(D), X=X).milliseconds < exact.cost(range(D), X=X).milliseconds
