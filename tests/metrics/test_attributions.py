"""Infidelity and monotonicity: the definitions, and what is refused."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from assertions import STRATEGIES, explainer_of, rows_of
from metrics_reference import infidelity, parts, spearman
from predgap import (
    Categories,
    Clipped,
    Discrete,
    Ensemble,
    Explainer,
    Flip,
    FromScipy,
    Laplace,
    Marginal,
    NoiseError,
    Normal,
    OutputError,
    PerFeature,
    Ranking,
    RankingError,
    Relative,
    Rounded,
    Stay,
    StudentT,
    Uniform,
    metrics,
)
from reference import ULP
from strategies import (
    GRID,
    REPLACING,
    VALUES,
    WIDE,
    Problem,
    Split,
    Tree,
    dyadic_problems,
    ensemble_of,
    ensembles,
    points,
    problems,
    random_ensemble,
    trees,
)

NUMBERS = st.sampled_from([-3.0, -1.0, -0.3, 0.0, 0.0, 0.1, 0.5, 2.0, 1e4])


RANGES = ((-1.0, 0.25), (0.1, 0.1), (-np.inf, 0.0), (0.1, np.inf), (-20.0, 20.0), (3.0, 4.0))
ROUNDING = st.sampled_from([0.25, 0.5, 1.0, 0.1])
STRENGTHS = st.sampled_from([0.3, 1.0])
COLUMNS = (
    np.arange(-9.0, 21.0),  # whole numbers, rounded and kept in their range
    np.arange(-9.0, 21.0) / 4,
    np.random.default_rng(0).normal(size=30),  # continuous
    np.array([0.0, 1.0] * 15),  # redrawn
)


@st.composite
def known_noises(draw: st.DrawFn, ensemble: Ensemble) -> Any:
    """Noise whose moments are known, of its own for each feature; values on thresholds among others."""
    d, scale = ensemble.n_features, st.sampled_from([1e-3, 0.3, 1.0, 7.0])
    table = st.lists(st.lists(st.sampled_from(VALUES), min_size=d, max_size=d), min_size=1, max_size=4)
    one = st.one_of(
        REPLACING,
        scale.map(Normal),
        scale.map(Uniform),
        scale.map(Laplace),
        st.builds(StudentT, st.sampled_from([2.5, 4.0, 30.0]), scale),
        table.map(Marginal),
    )
    clipped = st.builds(lambda noise, ends: Clipped(noise, *ends), one, st.sampled_from(RANGES))
    rounded = st.builds(Rounded, st.sampled_from([Normal(0.5), Laplace(0.3), Uniform(1.5)]), ROUNDING)
    either = st.one_of(one, st.builds(Stay, one, st.sampled_from([0.0, 0.25, 0.955, 1 - 1e-9])))
    tables = st.sampled_from(COLUMNS).map(lambda column: np.tile(column, (d, 1)).T)
    relative = st.builds(Relative, tables, STRENGTHS)
    return PerFeature({q: draw(st.one_of(either, clipped, rounded, relative)) for q in range(d)})


@st.composite
def scored_slopes(draw: st.DrawFn, **options: Any) -> tuple[Ensemble, np.ndarray, np.ndarray, Any]:
    ensemble = draw(ensembles(n_features=st.integers(1, 4), max_used=3, **options))
    x, d = draw(points(ensemble)), ensemble.n_features
    slopes = np.array(draw(st.lists(NUMBERS, min_size=d, max_size=d)))
    return ensemble, x, slopes, draw(known_noises(ensemble))


def assert_infidelity(ensemble: Ensemble, x: np.ndarray, slopes: np.ndarray, noise: Any) -> None:
    """Up to rounding, and to what is below the smallest number that keeps its digits.

    The score is a few hundred sums and products of numbers that are right to a few ulps.
    """
    found = metrics.infidelity(Explainer(ensemble, noise), x[None], slopes[None])[0]
    wanted, scale = infidelity(ensemble, x, slopes, noise)
    assert found == wanted or abs(found - wanted) <= 64 * ULP * scale + sys.float_info.min


@given(scored_slopes())
def test_infidelity_is_that_of_the_definition(case: Any) -> None:
    assert_infidelity(*case)


@given(scored_slopes(values=st.sampled_from(WIDE)))
def test_infidelity_of_leaves_of_very_different_size(case: Any) -> None:
    assert_infidelity(*case)


@pytest.mark.parametrize(
    ("noise", "x"),
    [
        (Discrete([0.0, 1.0]), np.inf),
        (Discrete([0.0, np.inf]), 0.0),
        (Stay(Marginal([[0.0, 0.0], [-np.inf, 0.0]]), 0.5), 0.0),
        (Discrete([0.0, 1e200]), 0.0),
        (Laplace(1e300), 0.0),
    ],
)
def test_a_shift_without_limits_makes_the_score_infinite(noise: Any, x: float) -> None:
    """Of squares that are too large for a float, too; but not where the slope is 0."""
    stump = ensemble_of([Split(0, 0.5, 0.0, 1.0)], 2)
    explainer, X = Explainer(stump, PerFeature({0: noise, 1: Normal(1.0)})), np.array([[x, 0.0]])
    for slopes in ([1.0, 0.0], [-1.0, 3.0]):
        assert metrics.infidelity(explainer, X, np.array([slopes]))[0] == np.inf
    wanted = 9.0 + explainer.gap(X, [0])[0]
    assert metrics.infidelity(explainer, X, np.array([[0.0, 3.0]]))[0] == pytest.approx(wanted, rel=1e-14)


@pytest.mark.parametrize("noise", [Normal(0.6), Uniform(1.0), Laplace(0.5), StudentT(5.0, 0.5)])
def test_infidelity_is_near_its_samples(noise: Any) -> None:
    rng = np.random.default_rng(3)
    ensemble = random_ensemble(rng, n_trees=8, depth=3, n_features=3)
    X, slopes = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    found = metrics.infidelity(Explainer(ensemble, noise), X, slopes)
    for x, a, value in zip(X, slopes, found, strict=True):
        moved = noise.sample(np.tile(x, (20_000, 1)), rng)
        change = ensemble.predict(moved) - ensemble.predict(x[None])
        errors = ((moved - x) @ a - change) ** 2
        assert abs(errors.mean() - value) < 5 * errors.std() / np.sqrt(len(errors))


def test_special_codes_do_not_move_nor_count() -> None:
    """-9 stays; the noise of other values is kept in their range."""
    rng = np.random.default_rng(4)
    column = rng.normal(size=60)
    table = np.where(np.arange(60) < 6, -9.0, column)[:, None]
    noise = Relative(table, 0.5, keep={-9})
    stump = ensemble_of([Split(0, 0.1, 0.0, 1.0)], 1)
    found = metrics.infidelity(Explainer(stump, noise), [[-9.0], [0.3]], np.array([[2.0], [2.0]]))
    assert found[0] == 0.0
    law = noise.laws(1)[0]
    (p, *_), (q, *_) = parts(law, 0.3, -np.inf, 0.1), parts(law, 0.3, 0.1, np.inf)
    assert 0.2 < p < 0.5
    assert p + q == pytest.approx(1.0)
    assert found[1] == pytest.approx(float(infidelity(stump, [0.3], [2.0], noise)[0]), rel=1e-12)


@pytest.mark.parametrize("output", ["predicted", np.array([2, 0, 0, 1, 2])])
def test_each_row_has_its_own_output(output: Any) -> None:
    rng = np.random.default_rng(24)
    trees = [Split(k % 4, *map(float, row)) for k, row in enumerate(rng.normal(size=(12, 3)))]
    targets = [k % 3 for k in range(12)]
    ensemble = ensemble_of(trees, 4, n_outputs=3, targets=targets, class_names=("a", "b", "c"))
    X, values = rng.normal(size=(5, 4)), rng.normal(size=(5, 4, 3))
    found = metrics.infidelity(Explainer(ensemble, Normal(0.5), output=output), X, values)
    own = ensemble.predict(X).argmax(axis=1) if isinstance(output, str) else output
    assert len(set(own.tolist())) > 1
    for k in range(3):
        alone = metrics.infidelity(Explainer(ensemble, Normal(0.5), output=k), X, values)
        np.testing.assert_array_equal(found[own == k], alone[own == k])
    with pytest.raises(OutputError, match="has 3 outputs, and infidelity is about one; choose it"):
        metrics.infidelity(Explainer(ensemble, Normal(0.5)), X, values)


def test_redrawn_features_that_the_model_does_not_use_count() -> None:
    table = np.array([[0.0, 0.0], [1.0, 4.0]])
    stump = ensemble_of([Split(0, 0.5, 0.0, 1.0)], 2)
    found = metrics.infidelity(Explainer(stump, Marginal(table)), [[0.0, 0.0]], np.array([[1.0, 1.0]]))
    assert found[0] == pytest.approx(8.0, rel=1e-12)  # 4², half the time


def test_missing_values_do_not_move() -> None:
    stump = ensemble_of([Split(0, 0.5, 0.0, 1.0)], 1)
    found = metrics.infidelity(Explainer(stump, Normal(1.0)), [[np.nan]], np.array([[5.0]]))
    np.testing.assert_array_equal(found, [0.0])


def test_infidelity_shows_no_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`evaluate` shows its own; there may be one only."""
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes any stream for a terminal
    monkeypatch.setattr("predgap._engine.context.PATIENCE", 0.0)
    explainer = Explainer(ensemble_of([Split(0, 0.5, 0.0, 1.0)], 1), Normal(1.0))
    metrics.infidelity(explainer, [[0.0]], np.array([[5.0]]))
    assert capsys.readouterr() == ("", "")


def test_infidelity_refuses_what_has_no_slope() -> None:
    coloured = ensemble_of([Split(0, 0.0, 0.0, 1.0, categories=(1,))], 1, categories=[Categories([0, 1])])
    with pytest.raises(NoiseError, match="'f0' are categories"):
        metrics.infidelity(Explainer(coloured, Flip(0.5)), [[0]], np.array([[1.0]]))
    stump = ensemble_of([Split(0, 0.5, 0.0, 1.0)], 1)
    skewed = Clipped(FromScipy(stats.expon()), 0.0, 1.0)
    told = r"the noise of 'f0': .* FromScipy\(expon\(\)\) are not known. infidelity knows Relative, Normal"
    with pytest.raises(NoiseError, match=told) as refused:
        metrics.infidelity(Explainer(stump, skewed), [[0.0]], np.array([[1.0]]))
    assert "Law" not in str(refused.value)
    with pytest.raises(NoiseError, match="the noise of 'f0': it is rounded to steps of 1 and reaches more"):
        metrics.infidelity(Explainer(stump, Rounded(StudentT(3.0, 1.0))), [[0.0]], np.array([[1.0]]))
    moved = Explainer(stump, Normal(1.0))
    with pytest.raises(RankingError, match="found a Ranking, which has no signs; expected attributions"):
        metrics.infidelity(moved, [[0.0]], moved.rank([[0.0]]))
    with pytest.raises(NoiseError, match="no variance"):
        metrics.infidelity(Explainer(stump, StudentT(2.0, 1.0)), [[0.0]], np.array([[1.0]]))
    with pytest.raises(RankingError, match="the ranking has 2 rows, X has 1"):
        metrics.infidelity(Explainer(stump, Normal(1.0)), [[0.0]], np.ones((2, 1)))
    with pytest.raises(RankingError, match="needs an attribution of each feature"):
        metrics.monotonicity_correlation(Explainer(stump, Normal(1.0)), [[0.0]], Ranking([[0]]))


def sizes(d: int) -> st.SearchStrategy[np.ndarray]:
    """Attributions of d features, some of the same size."""
    return st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0]), min_size=d, max_size=d).map(np.array)


def assert_monotonicity(problem: Problem, values: np.ndarray, strategy: str | None) -> None:
    given_to_all = np.tile(values, (len(problem.X), 1))
    found = metrics.monotonicity_correlation(explainer_of(problem, strategy), problem.X, given_to_all)
    for row, correlation in zip(rows_of(problem), found, strict=True):
        gaps = [row.gap([q]) for q in range(problem.ensemble.n_features)]
        wanted = spearman([abs(v) for v in values.tolist()], gaps)
        assert correlation == pytest.approx(wanted, rel=8 * ULP, abs=8 * ULP, nan_ok=True)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(problem=dyadic_problems(), data=st.data())
def test_monotonicity_is_that_of_the_definition(
    strategy: str | None, problem: Problem, data: st.DataObject
) -> None:
    """Sums of such numbers are exact, so that equal gaps are equal."""
    assert_monotonicity(problem, data.draw(sizes(problem.ensemble.n_features)), strategy)


@st.composite
def twin_features(draw: st.DrawFn) -> Problem:
    """The trees of feature 0 again on feature 1, in another order, and so perhaps with other rounding."""
    grown = draw(
        st.lists(trees([0], GRID, st.integers(-30, 30).map(lambda k: k / 10), 2), min_size=4, max_size=8)
    )
    again = [on_feature(1, tree) for tree in draw(st.permutations(grown))]
    ensemble = ensemble_of([*grown, *again], 3)
    x = draw(st.sampled_from(GRID))
    return Problem(ensemble, np.array([[x, x, x]]), [], Normal(draw(st.sampled_from([0.3, 1.0]))))


def on_feature(feature: int, tree: Tree) -> Tree:
    if not isinstance(tree, Split):
        return tree
    left, right = (on_feature(feature, child) for child in (tree.left, tree.right))
    return replace(tree, feature=feature, left=left, right=right)


def assert_monotonicity_if_gaps_differ_clearly(problem: Problem, values: np.ndarray) -> None:
    """Not of gaps that are what is left of larger ones that cancel: their rounding is more than 1e-12."""
    for row in rows_of(problem):
        single = [[q] for q in range(problem.ensemble.n_features)]
        assume(all(row.bound(q) <= 2e-12 * row.gap(q) for q in single))
        gaps = sorted(row.gap(q) for q in single)
        assume(all(a == b or b - a > 4e-12 * b for a, b in pairwise(gaps)))
    assert_monotonicity(problem, values, None)


@given(problem=problems(), data=st.data())
def test_monotonicity_of_any_gaps(problem: Problem, data: st.DataObject) -> None:
    assert_monotonicity_if_gaps_differ_clearly(problem, data.draw(sizes(problem.ensemble.n_features)))


@given(problem=twin_features(), values=sizes(3))
def test_equal_gaps_share_their_place_whatever_their_rounding(problem: Problem, values: np.ndarray) -> None:
    assert_monotonicity_if_gaps_differ_clearly(problem, values)
