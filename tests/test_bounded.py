"""Certified truncation: the exact gap is within the bound, and the bound is as small as was asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predgap import Explainer, Normal
from strategies import WIDE, Split, ensemble_of, mixed_problems, problems, random_ensemble
from twins import explainer_of, rows_of

TOLERANCES = st.sampled_from([1e-1, 1e-3, 1e-6, 1e-9])


def assert_bounded(problem, rtol):
    """The definition's gap lies within the bound, which is within the tolerance."""
    found = explainer_of(problem, "pairs").estimate(problem.X, problem.mask, "bounded", rtol=rtol)
    assert (found.error_bound <= rtol * found.value).all()
    for row, value, bound in zip(rows_of(problem), found.value, found.error_bound, strict=True):
        exact = float(row.gap(problem.subset))
        assert abs(value - exact) <= bound + row.bound(problem.subset)


@given(problem=problems(), rtol=TOLERANCES)
def test_the_exact_gap_is_within_the_bound(problem, rtol):
    assert_bounded(problem, rtol)


@given(problem=problems(values=st.sampled_from(WIDE)), rtol=TOLERANCES)
def test_the_bound_with_leaves_of_very_different_size(problem, rtol):
    assert_bounded(problem, rtol)


@given(problem=mixed_problems(), rtol=TOLERANCES)
def test_the_bound_with_categories(problem, rtol):
    assert_bounded(problem, rtol)


@pytest.fixture(scope="module")
def deep():
    """Trees with many leaves that are next to impossible to reach."""
    rng = np.random.default_rng(5)
    ensemble = random_ensemble(rng, n_trees=12, depth=9, n_features=6)
    return ensemble, rng.normal(size=(9, 6))


@pytest.mark.parametrize("rtol", [1e-2, 1e-4, 1e-6, 1e-10])
def test_branches_are_left_out_of_deep_trees(deep, rtol):
    ensemble, X = deep
    explainer = Explainer(ensemble, Normal(0.1), _strategy="pairs")
    exact = explainer.gap(X, range(6))
    found = explainer.estimate(X, range(6), "bounded", rtol=rtol)
    assert (found.error_bound > 0).all(), "nothing was left out"
    assert (found.error_bound <= rtol * found.value).all()
    assert (np.abs(found.value - exact) <= found.error_bound + 1e-13 * exact).all()
    assert set(found.method) == {"bounded"}


def test_a_tolerance_beyond_all_numbers_ends():
    explainer = Explainer(ensemble_of([Split(0, 0.0, -1e6, 1e6)], 1), Normal(1.0), _strategy="pairs")
    for rtol in (1e300, 1e-300):
        found = explainer.estimate([[1.0]], [0], "bounded", rtol=rtol)
        assert abs(found.value - explainer.gap([[1.0]], [0]))[0] <= found.error_bound[0]


def test_more_features_than_a_word_has_bits():
    rng = np.random.default_rng(8)
    ensemble = random_ensemble(rng, n_trees=30, depth=4, n_features=80, used=[*range(80), *range(58, 70)] * 2)
    X = rng.normal(size=(4, 80))
    terms, pairs = (
        Explainer(ensemble, Normal(0.7), _strategy=s).gap(X, range(80)) for s in ("terms", "pairs")
    )
    np.testing.assert_allclose(pairs, terms, rtol=1e-12)


def test_the_same_bits_for_any_number_of_threads_and_any_batch(deep):
    ensemble, X = deep
    ask = {jobs: Explainer(ensemble, Normal(0.3), _strategy="pairs", n_jobs=jobs) for jobs in (1, 2, 3)}
    one = ask[1].estimate(X, range(6), "bounded", rtol=1e-4)
    for explainer in ask.values():
        again = explainer.estimate(X, range(6), "bounded", rtol=1e-4)
        np.testing.assert_array_equal(again.value, one.value)
        np.testing.assert_array_equal(again.error_bound, one.error_bound)
    alone = ask[1].estimate(X[4:5], range(6), "bounded", rtol=1e-4)
    assert (alone.value[0], alone.error_bound[0]) == (one.value[4], one.error_bound[4])


def test_what_cannot_move_has_no_gap(deep):
    ensemble, X = deep
    explainer = Explainer(ensemble, Normal(0.3), _strategy="pairs")
    found = explainer.estimate(np.full_like(X, np.nan), range(6), "bounded")
    assert (found.value == 0).all()
    assert (found.error_bound == 0).all()
