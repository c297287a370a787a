"""Categorical features: the engine against its twins on mixed boxes."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from functools import cache, reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import reference
from asking import Core, kernel_of
from assertions import STRATEGIES, assert_gaps, exactly, explainer_of, row_of, rows_of
from predgap import Discrete, Explainer, Flip, Normal, PerFeature, Stay, _core
from predgap._engine.accuracy import EXACT
from predgap._inputs.categories import Categories, of_labels
from predgap._model.ensemble import Ensemble
from reference import gap_by_definition, gap_by_pairs, gap_in_longdouble, tails_of
from strategies import WIDE, Split, cities, ensemble_of, mask_of, mixed_problems

every_strategy = pytest.mark.parametrize("strategy", [*STRATEGIES, "cells"])
"""With forms over cells where they are cheaper than pairs of terms, or, "cells", wherever they can be."""


# --- the engine -----------------------------------------------------------------------------------------


@every_strategy
def test_large_values_that_are_hardly_ever_reached_are_not_added_and_subtracted(strategy):
    """The second split is asked only where x' has left the category of x."""
    rare = 1e-30
    noise = PerFeature({0: Discrete([2, 3], [rare, 1 - rare])})
    tree = Split(0, 0.0, 0.0, Split(0, 0.0, 1e3, 1e-11, True, (1, 2)), True, (1,))
    ensemble = ensemble_of([tree], 1, categories=[Categories(np.arange(4))])
    (gap,) = exactly(ensemble, noise, strategy).gap([[1.0]], [0])
    assert gap == pytest.approx(1e-22 + rare * 1e6, rel=1e-12, abs=0.0)


@given(mixed_problems(max_rows=1, max_depth=3))
def test_the_twins_agree_on_categories(problem):
    inputs = problem.ensemble, problem.X[0], problem.subset[:3], tails_of(problem.noise, problem.ensemble)
    assert gap_by_pairs(*inputs) == gap_by_definition(*inputs)


@every_strategy
@given(problem=mixed_problems())
def test_gap_equals_the_definition(strategy, problem):
    assert_gaps(problem, explainer_of(problem, strategy))


@every_strategy
@given(problem=mixed_problems(values=st.sampled_from(WIDE)))
def test_gap_with_leaves_of_very_different_size(strategy, problem):
    assert_gaps(problem, explainer_of(problem, strategy))


@every_strategy
@given(problem=mixed_problems(), seed=st.integers(0, 99))
def test_curve_equals_the_definition(strategy, problem, seed):
    order = np.random.default_rng(seed).permutation(problem.ensemble.n_features)
    found = explainer_of(problem, strategy).curve(problem.X, order)
    for row, gaps in zip(rows_of(problem), found, strict=True):
        for k, gap in enumerate(gaps, 1):
            row.assert_gap(gap, order[:k])


@every_strategy
@given(problem=mixed_problems())
def test_rankings_equal_the_definition(strategy, problem):
    explainer = explainer_of(problem, strategy)
    greedy, single = explainer.rank(problem.X), explainer.rank(problem.X, "single")
    for r, row in enumerate(rows_of(problem)):
        row.assert_greedy(greedy.order[r])
        row.assert_single(single.order[r])
        for j in range(problem.ensemble.n_features):
            row.assert_gap(single.scores[r, j], [j])


@every_strategy
@given(problem=mixed_problems(max_rows=1))
def test_expected_prediction_equals_the_definition(strategy, problem):
    ensemble, x = problem.ensemble, problem.X[0]
    axes = reference.perturbed(
        ensemble, ensemble.cast(x[None])[0], problem.subset, tails_of(problem.noise, ensemble), float
    )
    change, size = 0.0, 0.0
    for residual, box in reference.reachable(ensemble, ensemble.cast(x[None])[0], axes, float):
        mass = np.prod([float(axes[j].mass(region)) for j, region in box.items()])
        change, size = change + residual * mass, size + abs(residual)
    found = explainer_of(problem, strategy).expected_prediction(problem.X, problem.mask)[0]
    assert abs(found - ensemble.predict(problem.X)[0] - change) <= 1e-13 * (size + np.abs(found) + 1)


@pytest.mark.parametrize("stays", [0.0, 0.3])
def test_a_row_gives_the_same_bits_alone_and_among_others(stays):
    """Solvers keep what pairs of sets have in common in all rows, in the order in which the rows came."""
    rng = np.random.default_rng(3)
    ensemble, noise = cities(rng, n_trees=30, sizes=(40, 5), depth=4)
    noise = Stay(noise, stays)
    X = np.column_stack([rng.integers(0, 41, 50), rng.integers(0, 5, 50), rng.normal(size=(50, 2))])
    whole, threaded = Explainer(ensemble, noise), Explainer(ensemble, noise, n_jobs=4)
    for ask in (
        lambda e, X: e.gap(X, [0, 2]),
        lambda e, X: e.curve(X, [3, 0, 1, 2]),
        lambda e, X: e(X).scores,
    ):
        together = ask(whole, X)
        assert together.tobytes() == ask(threaded, X).tobytes()
        assert together.tobytes() == np.concatenate([ask(whole, x[None]) for x in X]).tobytes()
        assert together.tobytes() == ask(Explainer(ensemble, noise), X[::-1])[::-1].tobytes()


@every_strategy
def test_gap_of_larger_ensembles(strategy):
    rng = np.random.default_rng(4)
    ensemble, noise = cities(rng, n_trees=20, sizes=(200, 5), depth=4)
    X = np.column_stack([[3, 199, 1000], [0, 4, np.nan], rng.normal(size=(3, 2))])
    explainer = exactly(ensemble, noise, strategy)
    for subset in ([0], [1], [0, 1], [0, 2], [0, 1, 2, 3]):
        found = explainer.gap(X, mask_of(subset, 4))
        for x, gap in zip(X, found, strict=True):
            row_of(ensemble, noise, x, gap_in_longdouble).assert_gap(gap, subset)


@pytest.mark.parametrize("stays", [0.0, 0.4, 1 - 1e-9])
@pytest.mark.parametrize("strategy", ["plan", "compiled", "cells"])
def test_curves_and_rankings_of_components_of_many_blocks(strategy, stays):
    """Pairs of leaves know nothing of terms; components here have up to a thousand of them."""
    rng = np.random.default_rng(9)
    ensemble, noise = cities(rng, n_trees=120, sizes=(9, 120), depth=4)
    noise = Stay(noise, stays)
    X = np.column_stack([[3.0, 8.0], [0.0, 70.0], rng.normal(size=(2, 2))])
    explainer, twin = exactly(ensemble, noise, strategy), exactly(ensemble, noise, "pairs")
    for order in ([1, 0, 2, 3], [2, 1, 3, 0]):
        np.testing.assert_allclose(explainer.curve(X, order), twin.curve(X, order), rtol=1e-11)
    ranking, expected = explainer.rank(X), twin.rank(X)
    np.testing.assert_array_equal(ranking.order, expected.order)
    np.testing.assert_allclose(ranking.scores, expected.scores, rtol=1e-9)


@every_strategy
@pytest.mark.parametrize("far", [9.0, 21.0])
def test_rare_categories_keep_their_digits(strategy, far):
    """Masses of 1e-30 on either side of the sets, together with tails of a number, down to 1e-98."""
    ensemble = ensemble_of(
        [
            Split(0, 0.0, 1.0, Split(1, far, 0.0, 7.0), categories=(0, 1)),
            Split(0, 0.0, 3.0, 0.5, categories=(2,)),
            Split(1, far, Split(0, 0.0, 0.0, 1.0, categories=(1, 2)), 2.0),
        ],
        2,
        categories=[of_labels("xyz"), None],
    )
    noise = PerFeature({0: Discrete(["x", "y", "z"], [1.0, 1e-30, 1e-25]), 1: Normal(1.0)})
    X = np.array([[0.0, 0.0]])
    explainer = exactly(ensemble, noise, strategy)
    for subset in ([0], [0, 1]):
        exact = gap_by_pairs(ensemble, X[0], subset, tails_of(noise, ensemble))
        assert explainer.gap(X, subset)[0] == pytest.approx(float(exact), rel=1e-12, abs=0)


@every_strategy
def test_gaps_of_1e_minus_100_keep_their_digits(strategy):
    """Everything that changes the prediction needs a rare category and, or, a far tail of a number."""
    trees = [
        Split(0, 0.0, Split(1, 9.0 + k, 0.0, 1.0 + k), 0.0, categories=tuple(range(1, 2 + k)))
        for k in range(3)
    ] + [Split(2, 0.0, Split(0, 0.0, 0.0, 2.0, categories=(0, 3)), 0.0, categories=(1,))]
    levels = of_labels("wxyz")
    ensemble = ensemble_of(trees, 3, categories=[levels, None, of_labels("ab")])
    rare = Discrete(["w", "x", "y", "z"], [1.0, 1e-80, 3e-81, 2e-79])
    noise = PerFeature({0: rare, 1: Normal(1.0), 2: Discrete(["a", "b"], [1.0, 1e-21])})
    explainer, X = exactly(ensemble, noise, strategy), np.zeros((1, 3))
    for subset in ([0, 1], [0, 2], [0, 1, 2]):
        exact = gap_by_pairs(ensemble, X[0], subset, tails_of(noise, ensemble))
        assert 0 < exact < 1e-90
        assert explainer.gap(X, subset)[0] == pytest.approx(float(exact), rel=1e-12, abs=0)


STAYS = {  # how likely a category stays what it is, and what is left of it beside noise
    "replaced, 1e-9": (Discrete(["x", "y", "z"], [1e-9, 0.5, 0.5 - 1e-9]), 1e-9),
    "replaced, 1e-17": (Discrete(["x", "y"], [1e-17, 1.0]), 1e-17),
    "replaced, 1e-100": (Discrete(["x", "y", "z"], [1e-100, 0.25, 0.75]), 1e-100),
    "flipped": (Flip(1.0 - 2.0**-40), 2.0**-40),
    "flipped for sure": (Flip(1.0), 0.0),
}


@every_strategy
@pytest.mark.parametrize("kind", STAYS)
def test_a_category_that_hardly_ever_stays(strategy, kind):
    """The prediction changes only if the category stays and the number crosses its threshold."""
    noise, stays = STAYS[kind]
    tree = Split(0, 0.0, Split(1, 0.5, 0.0, 5.0), 0.0, categories=(0,))
    ensemble, X = ensemble_of([tree], 2, categories=[of_labels("xyz"), None]), np.zeros((1, 2))
    noise = PerFeature({0: noise, 1: Normal(1.0)})
    explainer = exactly(ensemble, noise, strategy)
    for gap in (explainer.gap(X, [0, 1])[0], explainer.curve(X, [1, 0])[0, 1]):
        row_of(ensemble, noise, X[0]).assert_gap(gap, [0, 1])
        if strategy == "pairs":  # terms add up what happens if it stays and if it does not, and lose digits
            assert gap == pytest.approx(25 * stays * stats.norm.sf(0.5), rel=1e-12, abs=0)


@pytest.mark.parametrize("kind", STAYS)
def test_kernels_are_told_directly_how_likely_a_category_stays(kind, monkeypatch):
    """Not as 1 minus the rest, which leaves nothing of 1e-17."""
    noise, stays = STAYS[kind]
    ensemble = ensemble_of([Split(0, 0.0, 3.0, 1.0, categories=(0,))], 1, categories=[of_labels("xyz")])
    told = []
    make = _core.Independent
    monkeypatch.setattr(_core, "Independent", lambda *given: told.append(given) or make(*given))
    kernel = kernel_of(Explainer(ensemble, noise))
    ((model, *_, mass, stay),) = told
    own = model.cell_of_level[0]
    assert stay[own] == stays
    assert kernel.model is model
    if isinstance(noise, Discrete):
        assert mass.tolist() == stay.tolist()


@every_strategy
def test_levels_that_no_split_tells_apart_share_a_cell(strategy):
    """Flip: to stay in the cell is to stay, or to flip to another level of it."""
    levels = of_labels("abcdefg")
    ensemble = ensemble_of([Split(0, 0.0, 1.0, 3.0, categories=(0, 1, 2))], 1, categories=[levels])
    explainer = exactly(ensemble, Flip(0.6), strategy)
    assert explainer.gap([[0.0]], [0])[0] == pytest.approx(4 * 0.6 * 4 / 6, rel=1e-14)
    assert explainer.gap([[6.0]], [0])[0] == pytest.approx(4 * 0.6 * 3 / 6, rel=1e-14)


@pytest.mark.parametrize("method", ["mc", "qmc"])
def test_sampling_agrees_with_the_exact_gap(method):
    rng = np.random.default_rng(6)
    ensemble, noise = cities(rng, n_trees=10, sizes=(12, 5), depth=3)
    X = np.column_stack([[3, 11, 99], [0, 4, 2], rng.normal(size=(3, 2))])
    explainer = Explainer(ensemble, noise)
    for subset in ([0], [0, 1, 2]):
        exact = explainer.gap(X, mask_of(subset, 4))
        found = explainer.estimate(X, mask_of(subset, 4), method, n_samples=1 << 15)
        assert (np.abs(found.value - exact) <= 5 * found.standard_error + 1e-12).all()
        assert (found.standard_error <= 0.1 * exact + 1e-12).all()


# --- components with far more terms than cells ---------------------------------------------------------

SIZES = (5, 9)
GRID = np.array([-0.8, -0.1, 0.3, 1.1])
CROWDED_X = np.array(
    [
        [0.0, 3.0, 0.0, 0.5],
        [4.0, 1000.0, -2.0, GRID[2]],  # a category that the model does not know; a number at a threshold
        [2.0, 8.0, np.nan, 40.0],
        [np.nan, 0.0, 0.2, -0.3],
    ]
)
MOVED = [subset for size in (1, 2, 3, 4) for subset in itertools.combinations(range(4), size)]


@cache
def crowded(n_outputs: int) -> tuple[Ensemble, PerFeature, list[np.ndarray]]:
    """Many trees on two categories and two numbers of four thresholds; the shares of the categories."""
    rng = np.random.default_rng(n_outputs)
    ensemble, _ = cities(rng, n_trees=60, sizes=SIZES, depth=4)
    is_number = (ensemble.feature >= 2) & (ensemble.left >= 0)
    n_nodes = len(ensemble.feature)
    ensemble = dataclasses.replace(
        ensemble,
        threshold=np.where(is_number, rng.choice(GRID, size=n_nodes), 0.0),
        value=rng.normal(size=(n_nodes, n_outputs)),
        target=np.full(len(ensemble.root), -1 if n_outputs > 1 else 0),
        bias=np.zeros(n_outputs),
    )
    shares = [rng.dirichlet(np.ones(size)) for size in SIZES]
    drawn = {j: Discrete(range(size), shares[j]) for j, size in enumerate(SIZES)}
    return ensemble, PerFeature(drawn, default=Normal(0.7)), shares


@cache
def crowded_gaps(n_outputs: int) -> dict[tuple[int, ...], np.ndarray]:
    """E[(f(x') - f(x))^2] of each row, summed over outputs and over all places where x' can be."""
    ensemble, _, shares = crowded(n_outputs)
    ends, places = np.concatenate([[-np.inf], GRID, [np.inf]]), np.concatenate([[-9.0], GRID])

    def axis(x: np.ndarray, j: int) -> tuple[np.ndarray, np.ndarray]:
        if j < 2:
            return np.arange(float(SIZES[j])), shares[j]
        return places, np.diff(stats.norm.cdf(ends, x[j], 0.7))

    def gap(x: np.ndarray, subset: tuple[int, ...]) -> float:
        moved = [axis(x, j) if j in subset and x[j] == x[j] else (x[j : j + 1], np.ones(1)) for j in range(4)]
        points = np.array(list(itertools.product(*(values for values, _ in moved))))
        mass = reduce(np.multiply.outer, (p for _, p in moved)).ravel()
        change = (ensemble.predict(points) - ensemble.predict(x[None])).reshape(len(points), -1)
        return float(mass @ (change**2).sum(axis=1))

    return {subset: np.array([gap(x, subset) for x in CROWDED_X]) for subset in MOVED} | {
        (): np.zeros(len(CROWDED_X))
    }


def gap_after(n_outputs: int, row: int, moved: Iterable[int]) -> float:
    return float(crowded_gaps(n_outputs)[tuple(sorted(map(int, moved)))][row])


crowded_cases = pytest.mark.parametrize(
    ("strategy", "n_outputs"),
    [(strategy, n) for strategy in ("plan", "compiled", "cells", None) for n in (1, 3)],
)


@crowded_cases
def test_gaps_and_curves_of_crowded_components(strategy, n_outputs):
    ensemble, noise, _ = crowded(n_outputs)
    explainer = exactly(ensemble, noise, strategy)
    for subset in MOVED:
        found = explainer.gap(CROWDED_X, mask_of(subset, 4))
        np.testing.assert_allclose(found, crowded_gaps(n_outputs)[subset], rtol=1e-12)
    for order in itertools.permutations(range(4)):
        for r, curve in enumerate(explainer.curve(CROWDED_X, np.array(order))):
            expected = [gap_after(n_outputs, r, order[: k + 1]) for k in range(4)]
            np.testing.assert_allclose(curve, expected, rtol=1e-12)


@crowded_cases
@pytest.mark.parametrize("groups", [None, {"both": [0, 2]}, {"first": [0, 1], "last": [2, 3]}])
def test_rankings_of_crowded_components(strategy, n_outputs, groups):
    ensemble, noise, _ = crowded(n_outputs)
    ranking = exactly(ensemble, noise, strategy, groups=groups).rank(CROWDED_X)
    grouped = list((groups or {}).values())
    members = sorted([*grouped, *([j] for j in range(4) if not any(j in own for own in grouped))])
    for r, order in enumerate(ranking.order):
        taken: list[int] = []
        for unit in order:
            before = gap_after(n_outputs, r, taken)
            gains = {
                u: gap_after(n_outputs, r, [*taken, *own]) - before
                for u, own in enumerate(members)
                if not set(own) <= set(taken)
            }
            scale = crowded_gaps(n_outputs)[0, 1, 2, 3][r]
            assert gains[unit] >= max(gains.values()) - 1e-12 * scale
            assert ranking.scores[r, unit] == pytest.approx(gains[unit], abs=1e-12 * scale)
            taken += members[unit]


@crowded_cases
def test_all_subsets_of_crowded_components(strategy, n_outputs):
    ensemble, noise, _ = crowded(n_outputs)
    core = Core(exactly(ensemble, noise, strategy))
    rows = ensemble.cast(CROWDED_X)
    chosen = np.tile(np.arange(4, dtype=np.int32), (len(rows), 1))
    gaps, _, _ = core.subset_gaps(rows, chosen, np.full(5, 0.2), EXACT)
    for r, number in itertools.product(range(len(rows)), range(1 << 4)):
        expected = gap_after(n_outputs, r, [j for j in range(4) if number >> j & 1])
        assert gaps[r, number] == pytest.approx(expected, rel=1e-12, abs=0)
