"""The engine against its slow twins: every strategy, and whatever the planner picks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

import reference
from assertions import STRATEGIES, assert_gaps, exactly, explainer_of, row_of, rows_of
from effort import cases
from predgap import Discrete, Explainer, FromScipy, Marginal, Normal, Ranking, Uniform
from predgap._model.ensemble import LEAF, Ensemble
from reference import SummedRow, gap_by_definition, gap_by_pairs, gap_in_longdouble, tails_of
from strategies import (
    MANY_FEATURES,
    WIDE,
    Split,
    chain,
    dyadic_problems,
    ensemble_of,
    mask_of,
    problems,
    random_ensemble,
)

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)
any_strategy = st.sampled_from(STRATEGIES)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


# --- the twins themselves -------------------------------------------------------------------------------


@given(problems(max_rows=1), st.sampled_from([abs, lambda g: g]))
def test_the_twins_agree_to_the_last_digit(problem, of):
    for x in problem.X:
        inputs = problem.ensemble, x, problem.subset[:3], tails_of(problem.noise, problem.ensemble)
        exact = gap_by_definition(*inputs, of=of)
        assert gap_by_pairs(*inputs, of=of) == exact
        fast = gap_in_longdouble(*inputs, number=Fraction, of=of)
        size = gap_by_pairs(*inputs, of=abs)
        assert abs(fast - reference.to_longdouble(exact)) <= 1e-16 * reference.to_longdouble(size)


def test_the_definition_on_a_stump_done_by_hand():
    stump = ensemble_of([Split(0, 1.0, 2.0, 5.0)], 2)
    x = np.zeros(2)
    beyond = math.erfc(1.0 / (0.5 * math.sqrt(2))) / 2  # P(N(0, 0.5²) >= 1)
    tails = reference.normal_tails(0.5)
    for twin in (gap_by_definition, gap_by_pairs, gap_in_longdouble):
        found = twin(stump, x, [0], tails, number=reference.HIGH.mpf)
        assert float(found) == pytest.approx(9 * beyond, rel=1e-14)
        assert twin(stump, x, [1], tails, number=reference.HIGH.mpf) == 0


# --- gaps -----------------------------------------------------------------------------------------------


@every_strategy
@given(problem=problems())
def test_gap_equals_the_definition(strategy, problem):
    assert_gaps(problem, explainer_of(problem, strategy))


@every_strategy
@given(problem=problems(values=st.sampled_from(WIDE)))
def test_gap_with_leaves_of_very_different_size(strategy, problem):
    assert_gaps(problem, explainer_of(problem, strategy))


@every_strategy
@given(problem=problems(n_features=MANY_FEATURES))
def test_gap_with_more_features_than_a_word_has_bits(strategy, problem):
    assert_gaps(problem, explainer_of(problem, strategy))


@every_strategy
@given(problem=dyadic_problems())
def test_gap_of_dyadic_numbers_has_no_rounding_error(strategy, problem):
    found = explainer_of(problem, strategy).gap(problem.X, problem.mask)
    assert [Fraction(gap) for gap in found] == [row.gap(problem.subset) for row in rows_of(problem)]


LARGER = {  # long lists of terms on one and two features, tiles, many components, deep paths
    "stumps": {"n_trees": 200, "depth": 1, "n_features": 2},
    "one feature": {"n_trees": 20, "depth": 4, "n_features": 1},
    "two features": {"n_trees": 60, "depth": 2, "n_features": 2},
    "long pairs": {"n_trees": 400, "depth": 2, "n_features": 3},
    "boosted": {"n_trees": 40, "depth": 4, "n_features": 8},
    "deep": {"n_trees": 6, "depth": 7, "n_features": 10},
    "wide": {"n_trees": 30, "depth": 3, "n_features": 130, "used": [0, 1, 62, 63, 64, 65, 127, 128, 129]},
}


@every_strategy
@pytest.mark.parametrize("shape", LARGER)
def test_gap_of_larger_ensembles(strategy, shape):
    rng = np.random.default_rng(7)
    ensemble = random_ensemble(rng, **LARGER[shape])
    d = ensemble.n_features
    used = np.unique(ensemble.feature[ensemble.feature != LEAF])
    X = rng.normal(size=(2, d))
    for noise in (Normal(0.3), Uniform(1.5)):
        explainer = exactly(ensemble, noise, strategy)
        for size in {1, 2, len(used) // 2, len(used)}:
            subset = [int(j) for j in rng.choice(used, min(size, len(used)), replace=False)]
            found = explainer.gap(X, mask_of(subset, d))
            for x, gap in zip(X, found, strict=True):
                row_of(ensemble, noise, x, fraction_pairs_in_longdouble).assert_gap(gap, subset)


@pytest.mark.parametrize("n_levels", [7, 8, 9, 63, 64, 65, 80])
def test_two_features_with_any_number_of_levels(n_levels):
    """Long lists of terms on two features, with as many thresholds each."""
    rng = np.random.default_rng(n_levels)
    cuts = np.linspace(-1.0, 1.0, n_levels)
    grid = [(a, b) for a in cuts for b in cuts]
    pairs = grid if n_levels < 10 else list(zip(cuts, rng.permutation(cuts), strict=True))
    trees = [Split(0, a, rng.normal(), Split(1, b, rng.normal(), rng.normal())) for a, b in pairs]
    ensemble, X, noise = ensemble_of(trees, 2), rng.normal(scale=0.7, size=(3, 2)), Normal(0.6)
    by_pairs = exactly(ensemble, noise, "pairs")
    for terms in (exactly(ensemble, noise, "plan"), exactly(ensemble, noise, "compiled")):
        np.testing.assert_allclose(terms.gap(X, [0, 1]), by_pairs.gap(X, [0, 1]), rtol=1e-12)
        for ask in (lambda e: e.curve(X, [1, 0]), lambda e: e.rank(X).scores):
            np.testing.assert_allclose(ask(terms), ask(by_pairs), rtol=1e-11)


def test_outputs_of_very_different_size_are_ranked_together():
    rng, d = np.random.default_rng(9), 20
    trees = [Split(0, 0.0, 1.0, 2.0), chain(rng, rng.permutation(d).tolist())]
    several = ensemble_of(trees, d, targets=[0, 1], n_outputs=2)
    X = rng.normal(size=(1, d))
    order = exactly(several, Normal(0.5)).rank(X).order
    SummedRow(several, tails_of(Normal(0.5), several), X[0]).assert_greedy(order[0, :3])


def fraction_pairs_in_longdouble(*inputs: Any, **options: Any) -> np.longdouble:
    return gap_in_longdouble(*inputs, number=Fraction, **options)


@every_strategy
@pytest.mark.parametrize("n_features", [2, 3])
def test_gap_of_deep_narrow_trees(strategy, n_features):
    rng = np.random.default_rng(30 + n_features)
    ensemble = ensemble_of([chain(rng, [k % n_features for k in range(30)]) for _ in range(3)], n_features)
    X = rng.normal(size=(3, n_features))
    noise = Normal(0.7)
    explainer = exactly(ensemble, noise, strategy)
    for subset in ([0], [0, 1], list(range(n_features))):
        for x, gap in zip(X, explainer.gap(X, mask_of(subset, n_features)), strict=True):
            row_of(ensemble, noise, x).assert_gap(gap, subset)


@pytest.mark.parametrize("strategy", ["pairs", None])
def test_paths_of_thirty_features_do_not_explode(strategy):
    rng = np.random.default_rng(31)
    d = 30
    ensemble = ensemble_of([chain(rng, rng.permutation(d).tolist()) for _ in range(3)], d)
    X = rng.normal(size=(2, d))
    noise = Normal(0.7)
    explainer = exactly(ensemble, noise, strategy)
    for size in (1, 10, d):
        subset = [int(j) for j in rng.choice(d, size, replace=False)]
        for x, gap in zip(X, explainer.gap(X, mask_of(subset, d)), strict=True):
            row_of(ensemble, noise, x, fraction_pairs_in_longdouble).assert_gap(gap, subset)
    order = explainer.rank(X, method="greedy").order
    row_of(ensemble, noise, X[0], fraction_pairs_in_longdouble).assert_greedy(order[0, :3])


@every_strategy
@pytest.mark.parametrize("distance", [5.0, 21.2, 37.0])
def test_tails_keep_their_digits(strategy, distance):
    """A box that is hard to reach, on either side and in two features: gaps from 1e-6 to 1e-299 and less."""
    corner = ensemble_of(
        [
            Split(0, distance, Split(1, -0.5, 1.0, 2.0), 4.0),
            Split(0, -distance, 3.0, Split(1, 0.5, 0.25, 1.0)),
            Split(1, distance, 0.0, Split(0, distance, 0.0, 7.0)),
        ],
        2,
    )
    x, noise = np.array([[0.0, 0.0]]), Normal(1.0)
    for subset in ([0], [1], [0, 1]):
        exact = gap_in_longdouble(corner, x[0], subset, reference.normal_tails(1.0))
        found = exactly(corner, noise, strategy).gap(x, mask_of(subset, 2))[0]
        assert exact > 0
        assert abs(found - exact) <= 1e-12 * exact


@every_strategy
def test_a_product_of_two_tails_keeps_its_digits(strategy):
    far = ensemble_of([Split(0, 15.0, 0.0, Split(1, -14.0, 3.0, 0.0))], 2)
    x = np.zeros((1, 2))
    exact = gap_in_longdouble(far, x[0], [0, 1], reference.normal_tails(1.0))
    assert 1e-96 < exact < 1e-93
    found = exactly(far, Normal(1.0), strategy).gap(x, [0, 1])[0]
    assert abs(found - exact) <= 1e-12 * exact


@every_strategy
def test_a_small_tree_beside_a_large_one_keeps_its_digits(strategy):
    trees = [Split(0, 0.5, 1e8, -3e8), Split(1, 0.5, 1e-8, 4e-8)]
    ensemble, x, noise = ensemble_of(trees, 2), np.zeros((1, 2)), Normal(1.0)
    explainer = exactly(ensemble, noise, strategy)
    for subset in ([0], [1], [0, 1]):
        row_of(ensemble, noise, x[0]).assert_gap(explainer.gap(x, subset)[0], subset)


@every_strategy
@pytest.mark.parametrize("width", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize("n_features", [1, 2, 3, 4])
def test_narrow_boxes_keep_their_digits(strategy, width, n_features):
    """A leaf that only a sliver of the noise can reach, in each of several features."""
    tree: Any = 1.0
    for j in range(n_features):
        start = 1.0 - 0.3 * j
        tree = Split(j, start, 0.0, Split(j, start + width, tree, 0.0))
    ensemble, x, noise = ensemble_of([tree], n_features), np.zeros((1, n_features)), Normal(1.0)
    subset = range(n_features)
    found = exactly(ensemble, noise, strategy).gap(x, mask_of(subset, n_features))[0]
    row_of(ensemble, noise, x[0]).assert_gap(found, subset)


# --- what must not change anything ----------------------------------------------------------------------


@every_strategy
@given(problem=problems())
def test_the_empty_subset_gives_exactly_zero(strategy, problem):
    d = problem.ensemble.n_features
    assert (explainer_of(problem, strategy).gap(problem.X, np.zeros(d, dtype=bool)) == 0).all()


@every_strategy
@given(problem=problems())
def test_unused_features_change_nothing(strategy, problem):
    ensemble = problem.ensemble
    used = np.isin(np.arange(ensemble.n_features), ensemble.feature)
    explainer = explainer_of(problem, strategy)
    without, with_all = problem.mask & used, problem.mask | ~used
    assert same_bits(explainer.gap(problem.X, without), explainer.gap(problem.X, with_all))


@every_strategy
@given(problem=problems())
def test_missing_values_stay_put_and_infinite_ones_unless_they_are_replaced(strategy, problem):
    rows, d = problem.ensemble.cast(problem.X), problem.ensemble.n_features
    replaced = np.array([law.replaces for law in problem.noise.laws(d, problem.ensemble.names)])
    moving = (np.isfinite(rows) | (np.isinf(rows) & replaced)) & problem.mask
    explainer = explainer_of(problem, strategy)
    asked = explainer.gap(problem.X, np.broadcast_to(problem.mask, problem.X.shape).copy())
    assert same_bits(asked, explainer.gap(problem.X, moving))


@every_strategy
@given(problem=problems(), seed=st.integers(0, 99))
def test_the_order_of_trees_does_not_matter(strategy, problem, seed):
    ensemble = problem.ensemble
    order = np.random.default_rng(seed).permutation(ensemble.n_trees)
    shuffled = replace(ensemble, root=ensemble.root[order])
    assert_gaps(problem, exactly(shuffled, problem.noise, strategy))


@every_strategy
@given(problem=dyadic_problems(), constant=st.sampled_from([-4.0, 0.5, 64.0]))
def test_constants_do_not_matter(strategy, problem, constant):
    """Neither a tree of one leaf, nor a constant added to all leaves and the bias."""
    ensemble = problem.ensemble
    if ensemble.n_trees:
        lone = int(ensemble.n_nodes)
        grown = replace(
            ensemble,
            root=[*ensemble.root, lone],
            target=[*ensemble.target, 0],
            value=np.concatenate([ensemble.value + constant, [[constant]]]),
            bias=ensemble.bias + constant,
            **{
                name: np.append(getattr(ensemble, name), last)
                for name, last in [
                    ("feature", LEAF), ("threshold", 0.0), ("left", LEAF), ("right", LEAF),
                    ("default_left", False), ("category_set", -1),
                ]
            },
        )  # fmt: skip
        before = explainer_of(problem, strategy).gap(problem.X, problem.mask)
        after = exactly(grown, problem.noise, strategy).gap(problem.X, problem.mask)
        assert same_bits(before, after)


@every_strategy
@given(problem=problems(), factor=st.sampled_from([-2.0, 0.25, 2.0**20, -(2.0**-30)]))
def test_scaling_the_leaves_scales_the_gap_by_the_square(strategy, problem, factor):
    scaled = replace(problem.ensemble, value=problem.ensemble.value * factor)
    before = explainer_of(problem, strategy).gap(problem.X, problem.mask)
    after = exactly(scaled, problem.noise, strategy).gap(problem.X, problem.mask)
    assert (after == before * factor**2).all()


@every_strategy
@given(problem=problems(values=st.sampled_from(WIDE)))
def test_no_gap_is_negative(strategy, problem):
    d = problem.ensemble.n_features
    explainer = explainer_of(problem, strategy)
    assert (explainer.gap(problem.X, problem.mask) >= 0).all()
    assert (explainer.curve(problem.X, np.arange(d)) >= 0).all()


N_OUTPUTS = 3


def several_outputs(leaves: str, rng: np.random.Generator, d: int) -> tuple[Ensemble, list[tuple[Any, int]]]:
    """An ensemble of trees whose leaves are vectors, or that belong to one output each.

    And these trees, each with its target.
    """

    def grow(levels: int) -> Any:
        if levels == 0:
            return tuple(rng.normal(size=N_OUTPUTS)) if leaves == "vector" else rng.normal()
        return Split(int(rng.integers(d)), rng.normal(), grow(levels - 1), grow(levels - 1))

    trees = [grow(3) for _ in range(6)]
    targets = [-1] * 6 if leaves == "vector" else [0, 1, 2, 2, 1, 0]
    several = ensemble_of(trees, d, targets=targets, n_outputs=N_OUTPUTS)
    return several, list(zip(trees, targets, strict=True))


@every_strategy
@pytest.mark.parametrize("leaves", ["scalar", "vector"])
def test_one_output_of_several(strategy, leaves):
    rng, d = np.random.default_rng(5), 4
    several, trees = several_outputs(leaves, rng, d)
    X = rng.normal(size=(3, d))
    noise = Normal(0.8)
    for output in range(N_OUTPUTS):
        found = exactly(several, noise, strategy, output=output).gap(X, [0, 2, 3])
        one = ensemble_of([component(tree, output) for tree, target in trees if target in (-1, output)], d)
        for x, gap in zip(X, found, strict=True):
            row_of(one, noise, x).assert_gap(gap, [0, 2, 3])


@every_strategy
@pytest.mark.parametrize("leaves", ["scalar", "vector"])
def test_all_outputs_together_are_the_sum_of_their_gaps(strategy, leaves):
    rng, d = np.random.default_rng(6), 4
    several, _ = several_outputs(leaves, rng, d)
    X, noise, order = rng.normal(size=(20, d)), Normal(0.8), [2, 0, 3, 1]
    explainer = exactly(several, noise, strategy)
    gaps, curves = explainer.gap(X, [0, 2, 3]), explainer.curve(X, order)
    greedy, single = explainer.rank(X), explainer.rank(X, "single")
    for r, x in enumerate(X[: cases(6, 20)]):
        row = SummedRow(several, tails_of(noise, several), x)
        row.assert_gap(gaps[r], [0, 2, 3])
        for k in range(d):
            row.assert_gap(curves[r, k], order[: k + 1])
            row.assert_gap(single.scores[r, k], [k])
        row.assert_greedy(greedy.order[r])
        row.assert_single(single.order[r])
    assert explainer.pgi2(X, order) == pytest.approx(curves.mean(axis=1), rel=1e-15)
    total = greedy.scores.sum(axis=1)  # gains add up to the gap of all features
    assert total == pytest.approx(explainer.gap(X, range(d)), rel=1e-12)


@pytest.mark.parametrize("method", ["mc", "qmc"])
def test_all_outputs_together_by_sampling(method):
    rng, d = np.random.default_rng(7), 4
    several, _ = several_outputs("scalar", rng, d)
    X, subset = rng.normal(size=(6, d)), [0, 1, 3]
    explainer = Explainer(several, Normal(0.8))
    gap, found = explainer.gap(X, subset), explainer.estimate(X, subset, method)
    assert (np.abs(found.value - gap) <= 5 * found.standard_error).all()
    assert (found.standard_error <= 0.05 * gap).all()
    mean = explainer.expected_prediction(X, subset)
    each = [
        Explainer(several, Normal(0.8), output=k).expected_prediction(X, subset) for k in range(N_OUTPUTS)
    ]
    np.testing.assert_allclose(mean, np.stack(each, axis=1), rtol=1e-13)


@every_strategy
def test_several_outputs_give_the_same_bits_for_any_number_of_threads(strategy):
    rng, d = np.random.default_rng(8), 5
    several, _ = several_outputs("vector", rng, d)
    X = rng.normal(size=(40, d))
    alone, threaded = (exactly(several, Normal(0.8), strategy, n_jobs=n).rank(X) for n in (1, 4))
    assert same_bits(alone.order, threaded.order)
    assert same_bits(alone.scores, threaded.scores)


def component(tree: Any, output: int) -> Any:
    if isinstance(tree, Split):
        return Split(
            tree.feature, tree.threshold, component(tree.left, output), component(tree.right, output)
        )
    return tree[output] if isinstance(tree, tuple) else tree


# --- curves and scores ----------------------------------------------------------------------------------


@every_strategy
@given(problem=problems(), data=st.data())
def test_a_curve_holds_the_gaps_of_the_prefixes(strategy, problem, data):
    d = problem.ensemble.n_features
    ranking = np.array([data.draw(st.permutations(range(d))) for _ in problem.X])
    explainer = explainer_of(problem, strategy)
    curves = explainer.curve(problem.X, ranking)
    assert curves.shape == (len(problem.X), d)
    for row, order, found in zip(rows_of(problem), ranking, curves, strict=True):
        for k, gap in enumerate(found, start=1):
            row.assert_gap(gap, order[:k])
    np.testing.assert_allclose(explainer.pgi2(problem.X, ranking), curves.mean(axis=1), rtol=1e-14, atol=0)
    assert same_bits(explainer.pgu2(problem.X, ranking), explainer.pgi2(problem.X, ranking[:, ::-1]))


@every_strategy
@given(problem=problems(), data=st.data())
def test_a_partial_curve_is_the_beginning_of_the_whole_one(strategy, problem, data):
    d = problem.ensemble.n_features
    k = data.draw(st.integers(1, d))
    ranking = np.array([data.draw(st.permutations(range(d)))[:k] for _ in problem.X])
    explainer = explainer_of(problem, strategy)
    curves = explainer.curve(problem.X, Ranking(ranking, n_features=d))
    assert curves.shape == (len(problem.X), k)
    for row, order, found in zip(rows_of(problem), ranking, curves, strict=True):
        for place, gap in enumerate(found, start=1):
            row.assert_gap(gap, order[:place])
    scores = explainer.pgi2(problem.X, Ranking(ranking, n_features=d))
    np.testing.assert_allclose(scores, curves.mean(axis=1), rtol=1e-14, atol=0)


@every_strategy
@given(problem=dyadic_problems(n_features=st.sampled_from([1, 2, 4])), data=st.data())
def test_curves_and_scores_of_dyadic_numbers_have_no_rounding_error(strategy, problem, data):
    d = problem.ensemble.n_features
    ranking = data.draw(st.permutations(range(d)))
    explainer = explainer_of(problem, strategy)
    curves = explainer.curve(problem.X, np.array(ranking))
    inside = explainer.pgi2(problem.X, np.array(ranking))
    outside = explainer.pgu2(problem.X, np.array(ranking))
    for r, row in enumerate(rows_of(problem)):
        assert [Fraction(gap) for gap in curves[r]] == reference.curve(row.gap, ranking)
        assert Fraction(inside[r]) == reference.pgi2(row.gap, ranking)
        assert Fraction(outside[r]) == reference.pgu2(row.gap, ranking)


# --- rankings -------------------------------------------------------------------------------------------


@every_strategy
@given(problem=problems())
def test_greedy_takes_the_largest_gap_and_scores_its_gain(strategy, problem):
    d = problem.ensemble.n_features
    ranking = explainer_of(problem, strategy).rank(problem.X, method="greedy")
    assert ranking.order.shape == ranking.scores.shape == (len(problem.X), d)
    for row, order, scores in zip(rows_of(problem), ranking.order, ranking.scores, strict=True):
        assert sorted(order) == list(range(d))
        row.assert_greedy(order)
        for k, feature in enumerate(order):
            before, after = order[:k], order[: k + 1]
            error = abs(scores[feature] - float(row.gap(after) - row.gap(before)))
            assert error <= sum(row.bound(s) for s in (before, after))


@every_strategy
@given(problem=problems())
def test_single_sorts_by_own_gap(strategy, problem):
    d = problem.ensemble.n_features
    ranking = explainer_of(problem, strategy).rank(problem.X, method="single")
    for row, order, scores in zip(rows_of(problem), ranking.order, ranking.scores, strict=True):
        assert sorted(order) == list(range(d))
        for feature in range(d):
            row.assert_gap(scores[feature], [feature])
        row.assert_single(order)


@every_strategy
@pytest.mark.parametrize("method", ["greedy", "single"])
@given(problem=problems(), data=st.data())
def test_the_first_places_are_those_of_the_full_ranking(strategy, method, problem, data):
    k = data.draw(st.integers(1, problem.ensemble.n_features))
    explainer = explainer_of(problem, strategy)
    whole, first = explainer.rank(problem.X, method), explainer.rank(problem.X, method, top=k)
    assert (whole.confidence == 1).all()
    assert (first.confidence == 1).all()
    assert first.order.shape == (len(problem.X), k)
    np.testing.assert_array_equal(first.order, whole.order[:, :k])
    for row, order, scores in zip(rows_of(problem), first.order, first.scores, strict=True):
        assert set(np.flatnonzero(~np.isnan(scores))) == set(order.tolist())
        for place, feature in enumerate(order if method == "greedy" else []):
            before, after = order[:place], order[: place + 1]
            error = abs(scores[feature] - float(row.gap(after) - row.gap(before)))
            assert error <= row.bound(before) + row.bound(after)


@every_strategy
@given(problem=dyadic_problems())
def test_rankings_of_dyadic_numbers_equal_their_twins(strategy, problem):
    d = problem.ensemble.n_features
    explainer = explainer_of(problem, strategy)
    for method, twin in (("greedy", reference.greedy), ("single", reference.single)):
        ranking = explainer.rank(problem.X, method=method)
        for r, row in enumerate(rows_of(problem)):
            order, scores = twin(row.gap, row.bound, d)
            assert ranking.order[r].tolist() == order
            assert [Fraction(score) for score in ranking.scores[r]] == scores


def twins_and_shifts(shifts: Sequence[float]) -> tuple[Ensemble, np.ndarray]:
    """Features of equal importance whose thresholds, distances and sums all round differently."""
    d = len(shifts)
    stumps = [Split(j, shift + 0.3, 0.1 + j / 7, 1.3 + j / 7) for j, shift in enumerate(shifts)]
    pairs = [
        Split(i, shifts[i] - 0.7, 0.0, Split(j, shifts[j] - 0.7, 0.0, 0.9))
        for i, j in itertools.combinations(range(d), 2)
    ]
    return ensemble_of([*pairs[::-1], *stumps[::-1]], d), np.array([shifts])


@every_strategy
@pytest.mark.parametrize("method", ["greedy", "single"])
@pytest.mark.parametrize("shifts", [(0.1, 0.7, 12.3, 3.3), (5.1, 1e-3, 0.2, 3.7, 1 / 3)])
def test_near_ties_go_to_the_lower_index(strategy, method, shifts):
    ensemble, X = twins_and_shifts(shifts)
    d = len(shifts)
    row = row_of(ensemble, Normal(1.1), X[0])
    gaps = [row.gap([j]) for j in range(d)]
    assert len(set(gaps)) > 1  # they do differ,
    assert max(gaps) - min(gaps) < row.bound([0]) / 16  # but by rounding only
    ranking = exactly(ensemble, Normal(1.1), strategy).rank(X, method=method)
    assert ranking.order[0].tolist() == list(range(d))


@every_strategy
@pytest.mark.parametrize("method", ["greedy", "single"])
@pytest.mark.parametrize(("excess", "order"), [(1e-14, [0, 1]), (1e-10, [1, 0])])
def test_a_tie_ends_where_the_bound_ends(strategy, method, excess, order):
    two = ensemble_of([Split(0, 0.5, 0.0, 1.0), Split(1, 0.5, 0.0, 1.0 + excess)], 2)
    ranking = exactly(two, Normal(1.0), strategy).rank(np.zeros((1, 2)), method=method)
    assert ranking.order[0].tolist() == order


@every_strategy
@pytest.mark.parametrize("method", ["greedy", "single"])
def test_a_crossing_that_changes_nothing_makes_no_tie(strategy, method):
    """Half the noise crosses the first threshold, to an equal leaf; only the second one matters."""
    tree = Split(1, 0.0, 1.0, Split(1, 1.0, 1.0, 2.0))
    ranking = exactly(ensemble_of([tree], 2), Normal(0.1), strategy).rank([[0.0, 0.0]], method=method)
    assert 0 < ranking.scores[0, 1] < 1e-20
    assert ranking.order[0].tolist() == [1, 0]


@every_strategy
@pytest.mark.parametrize(("method", "order"), [("single", [2, 1, 0]), ("greedy", [2, 0, 1])])
def test_features_in_the_far_tail_are_ranked_all_the_same(strategy, method, order):
    """Gaps of 1e-100, 1e-60 and 0 are no ties; 1e-60 + 1e-100 and 1e-60 are."""
    trees = [Split(1, 21.0, 0.0, 1.0), Split(2, 16.0, 0.0, 1.0)]
    explainer = exactly(ensemble_of(trees, 3), Normal(1.0), strategy)
    assert explainer.rank(np.zeros((1, 3)), method=method).order[0].tolist() == order


# --- rows and threads ----------------------------------------------------------------------------------


BATCHES = {
    "shallow": {"n_trees": 12, "depth": 4, "n_features": 6},
    "deep": {
        "n_trees": 6,
        "depth": 7,
        "n_features": 10,
    },  # pairs are cheaper for few features, terms for many
}
either_batch = pytest.mark.parametrize("shape", BATCHES)


def batch(shape: str, n_rows: int) -> tuple[Ensemble, np.ndarray, np.ndarray]:
    """An ensemble and rows of all sorts, with a subset for each."""
    rng = np.random.default_rng(n_rows)
    ensemble = random_ensemble(rng, **BATCHES[shape])
    X = rng.normal(size=(n_rows, ensemble.n_features))
    X[rng.random(X.shape) < 0.05] = math.nan
    X[rng.random(X.shape) < 0.02] = math.inf
    on_threshold = rng.random(X.shape) < 0.1
    X[on_threshold] = rng.choice(ensemble.threshold[ensemble.feature != LEAF], on_threshold.sum())
    return ensemble, X, rng.random(X.shape) < rng.random((n_rows, 1))


def answers(explainer: Explainer, X: np.ndarray, masks: np.ndarray) -> list[np.ndarray]:
    """All that the engine computes, for the rows of X."""
    ranking = explainer.rank(X, method="greedy")
    return [
        explainer.gap(X, masks),
        explainer.gap(X, [0, 2, 5]),
        explainer.gap(X, [3]),
        explainer.curve(X, ranking.order),
        explainer.pgi2(X, ranking.order),
        explainer.pgu2(X, ranking.order),
        ranking.order,
        ranking.scores,
        explainer.rank(X, method="single").order,
        explainer.rank(X, method="single").scores,
        explainer.curve(X, ranking.order[:, :2]),
        explainer.rank(X, top=2).order,
        explainer.rank(X, top=2).scores,
        explainer.expected_prediction(X, masks),
    ]


@every_strategy
@either_batch
@pytest.mark.parametrize("n_rows", [1, 7, 8, 9, 29])
def test_a_row_does_not_depend_on_its_neighbours(strategy, shape, n_rows):
    ensemble, X, masks = batch(shape, n_rows)
    explainer = exactly(ensemble, Normal(0.6), strategy)
    together = answers(explainer, X, masks)
    for r in range(n_rows):
        for whole, alone in zip(together, answers(explainer, X[r : r + 1], masks[r : r + 1]), strict=True):
            assert same_bits(whole[r : r + 1], alone)


@every_strategy
@either_batch
def test_a_row_does_not_depend_on_its_place(strategy, shape):
    ensemble, X, masks = batch(shape, 19)
    explainer = exactly(ensemble, Normal(0.6), strategy)
    shuffle = np.random.default_rng(0).permutation(len(X))
    for whole, shuffled in zip(
        answers(explainer, X, masks), answers(explainer, X[shuffle], masks[shuffle]), strict=True
    ):
        assert same_bits(whole[shuffle], shuffled)


@every_strategy
@either_batch
def test_one_mask_for_all_rows_or_one_for_each_is_the_same(strategy, shape):
    ensemble, X, masks = batch(shape, 11)
    explainer = exactly(ensemble, Normal(0.6), strategy)
    for mask in masks:
        common = explainer.gap(X, mask)
        assert same_bits(common, explainer.gap(X, np.tile(mask, (len(X), 1))))
        mixed = np.where(np.arange(len(X))[:, None] % 2 == 0, mask, ~mask)
        assert same_bits(common[::2], explainer.gap(X, mixed)[::2])


@every_strategy
@either_batch
@pytest.mark.parametrize("n_jobs", [2, 3, 5])
def test_any_number_of_threads_gives_the_same_bits(strategy, shape, n_jobs):
    ensemble, X, masks = batch(shape, 41)
    serial = answers(exactly(ensemble, Normal(0.6), strategy), X, masks)
    threaded = answers(exactly(ensemble, Normal(0.6), strategy, n_jobs=n_jobs), X, masks)
    assert all(same_bits(a, b) for a, b in zip(serial, threaded, strict=True))


@every_strategy
@either_batch
def test_no_rows_give_empty_answers(strategy, shape):
    ensemble, X, masks = batch(shape, 1)
    found = answers(exactly(ensemble, Normal(0.6), strategy), X[:0], masks[:0])
    d = ensemble.n_features
    whole, first = (0, d), (0, 2)
    assert [a.shape for a in found] == [
        (0,), (0,), (0,), whole, (0,), (0,), whole, whole, whole, whole, first, first, whole, (0,)
    ]  # fmt: skip


@every_strategy
@pytest.mark.parametrize("trees", [[], [3.5], [3.5, Split(1, 0.0, 2.0, 2.0)]])
def test_models_that_never_change_have_gap_zero(strategy, trees):
    explainer = exactly(ensemble_of(trees, 3), Normal(1.0), strategy)
    X = np.zeros((2, 3))
    assert (explainer.gap(X, [0, 1, 2]) == 0).all()
    assert (explainer.curve(X, np.arange(3)) == 0).all()
    for method in ("greedy", "single"):
        ranking = explainer.rank(X, method=method)
        assert (ranking.order == np.arange(3)).all()
        assert (ranking.scores == 0).all()


@every_strategy
def test_trees_that_cancel_have_gap_zero(strategy):
    """Two trees, one the negative of the other: nothing ever changes."""
    rng = np.random.default_rng(1)
    tree = chain(rng, [0, 1, 2, 0, 1])
    explainer = exactly(ensemble_of([tree, negated(tree)], 3), Normal(0.7), strategy)
    X = rng.normal(size=(20, 3))
    assert (explainer.gap(X, range(3)) == 0).all()
    assert (explainer.curve(X, range(3)) == 0).all()
    assert (np.abs(explainer.rank(X).scores) <= 1e-30).all()


def negated(tree: Any) -> Any:
    if not isinstance(tree, Split):
        return -tree
    return replace(tree, left=negated(tree.left), right=negated(tree.right))


@given(problem=problems())
def test_what_is_cheap_is_exact_without_being_asked_to(problem):
    """The default tolerance is not used up where exact answers take no longer than a moment."""
    default = Explainer(problem.ensemble, problem.noise)
    assert_gaps(problem, default)
    assert default.rank(problem.X).estimator == "exact"
    found = default.estimate(problem.X, problem.mask, "bounded", rtol=0.1)
    assert set(found.method) == {"exact"}
    assert (found.error_bound == 0).all()


INFINITE = {  # gaps of 1e308, inf and -inf on a stump at 0.5 with the leaves 1 and 3, by hand
    "discrete": (Discrete([0.0]), [4.0, 4.0, 0.0]),
    "discrete, two": (Discrete([0.0, 9.0], [0.25, 0.75]), [1.0, 1.0, 3.0]),
    "marginal": (Marginal([[0.0], [0.0], [0.0], [7.0]]), [3.0, 3.0, 1.0]),
    "normal": (Normal(1.0), [0.0, 0.0, 0.0]),
    "uniform": (Uniform(1.0), [0.0, 0.0, 0.0]),
    "scipy": (FromScipy(stats.laplace()), [0.0, 0.0, 0.0]),
}


@every_strategy
@pytest.mark.parametrize("kind", INFINITE)
def test_infinite_values_move_only_if_they_are_replaced(strategy, kind):
    noise, gaps = INFINITE[kind]
    explainer = exactly(ensemble_of([Split(0, 0.5, 1.0, 3.0)], 1), noise, strategy)
    X = np.array([[1e308], [np.inf], [-np.inf]])
    assert explainer.gap(X, [0]) == pytest.approx(gaps, rel=1e-15)
    assert explainer.curve(X, [0])[:, 0] == pytest.approx(gaps, rel=1e-15)
    assert explainer.rank(X).scores[:, 0] == pytest.approx(gaps, rel=1e-15)
    change = np.array([-0.5, -0.5, 0.5]) * np.array(gaps)
    expected = explainer.ensemble.predict(X) + change
    assert explainer.expected_prediction(X, [0]) == pytest.approx(expected, rel=1e-15)
    sampled = explainer.estimate(X, [0], "qmc", n_samples=4096)
    assert sampled.value == pytest.approx(gaps, abs=0.02)


@given(problem=problems(), strategy=any_strategy)
@settings(max_examples=30)
def test_asking_twice_gives_the_same_bits(problem, strategy):
    assume(problem.ensemble.n_trees)
    explainer = explainer_of(problem, strategy)
    once = explainer.gap(problem.X, problem.mask)
    explainer.rank(problem.X, method="greedy")  # leaves nothing behind in the workspace
    assert same_bits(once, explainer.gap(problem.X, problem.mask))
