"""Guaranteed tolerances: the exact answer is within the bound, and the bound as small as was asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assertions import STRATEGIES, exactly, rows_of
from predgap import Explainer, Normal
from strategies import WIDE, Split, Tree, ensemble_of, full_trees, mixed_problems, problems, random_ensemble

RTOLS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-13)
TOLERANCES = st.sampled_from(RTOLS)
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)
not_planned = pytest.mark.parametrize("strategy", ["compiled", "pairs"])


def within(problem, rtol, strategy) -> Explainer:
    return Explainer(problem.ensemble, problem.noise, rtol=rtol, _strategy=strategy)


def assert_bounded(problem, rtol, strategy):
    """The definition's gap lies within the bound, which is within the tolerance."""
    found = within(problem, rtol, strategy).estimate(problem.X, problem.mask, "bounded", rtol=rtol)
    assert (found.error_bound <= rtol * found.value).all()
    assert set(found.method) <= {"exact", "bounded"}
    assert (found.error_bound[found.method == "exact"] == 0).all()
    for row, value, bound in zip(rows_of(problem), found.value, found.error_bound, strict=True):
        exact = float(row.gap(problem.subset))
        assert abs(value - exact) <= bound + row.bound(problem.subset)


# ---- small problems, against the definition ------------------------------------------------------


@every_strategy
@given(problem=problems(), rtol=TOLERANCES)
def test_the_exact_gap_is_within_the_bound(strategy, problem, rtol):
    assert_bounded(problem, rtol, strategy)


@every_strategy
@given(problem=problems(values=st.sampled_from(WIDE)), rtol=TOLERANCES)
def test_the_bound_with_leaves_of_very_different_size(strategy, problem, rtol):
    assert_bounded(problem, rtol, strategy)


@every_strategy
@given(problem=mixed_problems(), rtol=TOLERANCES)
def test_the_bound_with_categories(strategy, problem, rtol):
    assert_bounded(problem, rtol, strategy)


@every_strategy
@given(problem=problems(), rtol=TOLERANCES, data=st.data())
def test_every_gap_of_a_curve_is_within_the_tolerance_of_its_mean(strategy, problem, rtol, data):
    d = problem.ensemble.n_features
    order = data.draw(st.permutations(range(d)))
    explainer = within(problem, rtol, strategy)
    curves, scores = explainer.curve(problem.X, order), explainer.pgi2(problem.X, order)
    for row, curve, score in zip(rows_of(problem), curves, scores, strict=True):
        exact = np.array([float(row.gap(order[: k + 1])) for k in range(d)])
        rounding = max(row.bound(order[: k + 1]) for k in range(d))
        assert (np.abs(curve - exact) <= rtol * exact.mean() * (1 + rtol) + rounding).all()
        assert abs(score - exact.mean()) <= rtol * exact.mean() * (1 + rtol) + rounding


@every_strategy
@pytest.mark.parametrize("method", ["greedy", "single"])
@given(problem=problems(), rtol=TOLERANCES)
def test_places_that_are_proven_are_right_and_scores_within_the_tolerance(strategy, method, problem, rtol):
    ranking = within(problem, rtol, strategy).rank(problem.X, method)
    for r, row in enumerate(rows_of(problem)):
        order = ranking.order[r].tolist()
        assert sorted(order) == list(range(problem.ensemble.n_features))
        assert_proven(row, order, ranking.confidence[r], method)
        allowed = rtol * (1 + rtol) * float(row.gap(order)) + sum(
            row.bound(order[:k]) for k in range(len(order) + 1)
        )
        for k, feature in enumerate(order):
            base = order[:k] if method == "greedy" else []
            gain = float(row.gap([*base, feature]) - row.gap(base))
            scale = allowed if method == "greedy" else rtol * (1 + rtol) * gain + row.bound([feature])
            assert abs(ranking.scores[r, feature] - gain) <= scale


def assert_proven(row, order, confidence, method):
    """No candidate for a place that is proven is better, by more than rounding."""
    assert ((confidence == 1) | np.isnan(confidence)).all()
    for k in np.flatnonzero(confidence == 1).tolist():
        base = order[:k] if method == "greedy" else []
        taken = [*base, order[k]]
        for rival in ([*base, other] for other in order[k + 1 :]):
            bound = max(row.bound(taken), row.bound(rival))
            assert float(row.gap(rival) - row.gap(taken)) <= 16 * bound


# ---- deep trees, against exact answers -----------------------------------------------------------


@pytest.fixture(scope="module")
def deep():
    """Trees with many leaves that are next to impossible to reach."""
    rng = np.random.default_rng(5)
    ensemble = random_ensemble(rng, n_trees=12, depth=9, n_features=6)
    return ensemble, rng.normal(size=(9, 6))


@pytest.mark.parametrize("rtol", [1e-2, 1e-4, 1e-6, 1e-10])
def test_what_does_not_matter_is_left_out_of_deep_trees(deep, rtol):
    ensemble, X = deep
    gaps = exactly(ensemble, Normal(0.1), "pairs").gap(X, range(6))
    explainer = Explainer(ensemble, Normal(0.1), _strategy="compiled")
    found = explainer.estimate(X, range(6), "bounded", rtol=rtol)
    assert (found.error_bound > 0).all(), "nothing was left out"
    assert (found.error_bound <= rtol * found.value).all()
    assert (np.abs(found.value - gaps) <= found.error_bound + 1e-13 * gaps).all()
    assert set(found.method) == {"bounded"}
    assert (found.standard_error == 0).all()


@not_planned
@pytest.mark.parametrize("rtol", [1e-2, 1e-4, 1e-6])
def test_curves_and_scores_of_deep_trees_are_within_the_tolerance(deep, strategy, rtol):
    ensemble, X = deep
    order = np.random.default_rng(0).permuted(np.tile(np.arange(6), (9, 1)), axis=1)
    exact, bounded = (Explainer(ensemble, Normal(0.2), rtol=r, _strategy=strategy) for r in (0, rtol))
    curve = exact.curve(X, order)
    assert (np.abs(bounded.curve(X, order) - curve) <= rtol * curve.mean(axis=1, keepdims=True)).all()
    for name in ("pgi2", "pgu2"):
        right = getattr(exact, name)(X, order)
        assert (np.abs(getattr(bounded, name)(X, order) - right) <= rtol * right).all()


@not_planned
@pytest.mark.parametrize("method", ["greedy", "single"])
@pytest.mark.parametrize("rtol", [1e-2, 1e-6])
def test_a_bounded_ranking_is_the_exact_one_where_it_is_proven(deep, strategy, method, rtol):
    ensemble, X = deep
    exact, bounded = (
        Explainer(ensemble, Normal(0.3), rtol=r, _strategy=strategy).rank(X, method) for r in (0, rtol)
    )
    assert bounded.estimator in ("exact", "bounded")
    assert (exact.estimator, bounded.method) == ("exact", method)
    proven = np.logical_and.accumulate(bounded.confidence == 1, axis=1)
    assert (bounded.order == exact.order)[proven].all()
    assert proven.mean() > 0.5


@not_planned
@pytest.mark.parametrize("method", ["greedy", "single"])
@pytest.mark.parametrize("rtol", [0, 1e-6])
@pytest.mark.parametrize("top", [1, 2, 4, 6])
def test_the_first_places_are_those_of_the_full_ranking(deep, strategy, method, rtol, top):
    ensemble, X = deep
    explainer = Explainer(ensemble, Normal(0.3), rtol=rtol, _strategy=strategy)
    whole, first = explainer.rank(X, method), explainer.rank(X, method, top=top)
    proven = np.logical_and.accumulate((whole.confidence[:, :top] == 1) & (first.confidence == 1), axis=1)
    assert (first.order == whole.order[:, :top])[proven].all()
    assert proven.mean() > 0.5
    assert (np.isnan(first.scores).sum(axis=1) == 6 - top).all()


@pytest.fixture(scope="module")
def with_a_long_plan():
    """Terms that can be laid out once for all rows, but not evaluated within 50 ms."""
    rng = np.random.default_rng(0)
    ensemble = full_trees(rng, n_trees=60, depth=8, n_features=12)
    assert Explainer(ensemble, Normal(0.3), _strategy="plan").cost("rank").milliseconds > 50
    return ensemble, rng.normal(size=(4, 12))


@pytest.mark.parametrize("rtol", [1e-6, 1e-2])
@pytest.mark.parametrize("top", [1, 3, 8])
def test_first_places_that_are_guessed_beside_a_long_plan(with_a_long_plan, rtol, top):
    ensemble, X = with_a_long_plan
    explainer = Explainer(ensemble, Normal(0.3), rtol=rtol)
    whole, first = explainer.rank(X), explainer.rank(X, top=top)
    proven = np.logical_and.accumulate((whole.confidence[:, :top] == 1) & (first.confidence == 1), axis=1)
    assert (first.order == whole.order[:, :top])[proven].all()
    assert proven.mean() > 0.5
    exact = exactly(ensemble, Normal(0.3), "compiled").rank(X)
    total = np.nansum(exact.scores, axis=1, keepdims=True)
    assert (first.order == exact.order[:, :top])[proven].all()
    scores = np.take_along_axis(first.scores, first.order, axis=1)
    wanted = np.take_along_axis(exact.scores, first.order, axis=1)
    assert (np.abs(scores - wanted) <= rtol * total)[proven].all()


@pytest.mark.parametrize("top", [1, 2, 8])
def test_first_places_are_as_exact_as_the_whole_ranking(with_a_long_plan, top):
    """However few terms they need: its counts decide, and these are what `cost` looks at."""
    ensemble, X = with_a_long_plan
    found = set()
    for sigma in (0.02, 0.1, 0.3, 0.4):
        explainer = Explainer(ensemble, Normal(sigma))
        for x in X[:, None]:
            method = explainer.cost("rank", X=x).method
            assert explainer.rank(x).estimator == explainer.rank(x, top=top).estimator == method
            found.add(method)
    assert found == {"exact", "bounded"}


@pytest.mark.parametrize("sigma", [0.7, 1.0])
def test_a_long_plan_is_taken_where_bounded_terms_take_longer(with_a_long_plan, sigma):
    """As `cost` says."""
    ensemble, X = with_a_long_plan
    explainer = Explainer(ensemble, Normal(sigma))
    for x in X[:, None]:
        cost = explainer.cost("rank", X=x)
        assert cost.milliseconds > 50
        assert explainer.rank(x).estimator == cost.method == "exact"


@pytest.mark.parametrize("method", ["greedy", "single"])
def test_equal_gaps_go_to_the_lower_index(method):
    """Features 0 and 1 do the same, up to the order in which it is added up."""
    rng = np.random.default_rng(4)

    def pair(levels: int) -> tuple[Tree, Tree]:
        if levels == 0:
            return (rng.normal(),) * 2
        feature, threshold = int(rng.integers(3)), rng.normal()
        (left, left_mirrored), (right, right_mirrored) = pair(levels - 1), pair(levels - 1)
        mirrored = Split((1, 0, 2)[feature], threshold, left_mirrored, right_mirrored)
        return Split(feature, threshold, left, right), mirrored

    trees = [tree for _ in range(4) for tree in pair(5)]
    X = rng.normal(size=(20, 2))[:, [0, 0, 1]]
    ranking = Explainer(ensemble_of(trees, 3), Normal(0.5)).rank(X, method)
    adjacent = np.abs(ranking.ranks[:, 0] - ranking.ranks[:, 1]) == 1
    assert adjacent.any()
    assert (ranking.ranks[adjacent, 0] < ranking.ranks[adjacent, 1]).all()


# ---- promises ------------------------------------------------------------------------------------


@not_planned
def test_a_tolerance_of_any_size_ends(strategy):
    stump = ensemble_of([Split(0, 0.0, -1e6, 1e6)], 1)
    (gap,) = exactly(stump, Normal(1.0), strategy).gap([[1.0]], [0])
    for rtol in (np.nextafter(1.0, 0.0), 1e-300):
        found = Explainer(stump, Normal(1.0), _strategy=strategy).estimate([[1.0]], [0], "bounded", rtol=rtol)
        assert abs(found.value[0] - gap) <= found.error_bound[0] + 1e-13 * gap


def test_more_features_than_a_word_has_bits():
    rng = np.random.default_rng(8)
    ensemble = random_ensemble(rng, n_trees=30, depth=4, n_features=80, used=[*range(80), *range(58, 70)] * 2)
    X = rng.normal(size=(4, 80))
    pairs, *others = (
        exactly(ensemble, Normal(0.7), s).gap(X, range(80)) for s in ("pairs", "plan", "compiled")
    )
    for gaps in others:
        np.testing.assert_allclose(gaps, pairs, rtol=1e-12)


@not_planned
def test_the_same_bits_for_any_number_of_threads_and_any_batch(deep, strategy):
    ensemble, X = deep
    ask = {jobs: Explainer(ensemble, Normal(0.3), _strategy=strategy, n_jobs=jobs) for jobs in (1, 2, 3)}
    one = ask[1].estimate(X, range(6), "bounded", rtol=1e-4)
    for explainer in ask.values():
        again = explainer.estimate(X, range(6), "bounded", rtol=1e-4)
        np.testing.assert_array_equal(again.value, one.value)
        np.testing.assert_array_equal(again.error_bound, one.error_bound)
    alone = ask[1].estimate(X[4:5], range(6), "bounded", rtol=1e-4)
    assert (alone.value[0], alone.error_bound[0]) == (one.value[4], one.error_bound[4])


@not_planned
def test_what_cannot_move_has_no_gap(deep, strategy):
    ensemble, X = deep
    explainer = Explainer(ensemble, Normal(0.3), _strategy=strategy)
    found = explainer.estimate(np.full_like(X, np.nan), range(6), "bounded")
    assert (found.value == 0).all()
    assert (found.error_bound == 0).all()
