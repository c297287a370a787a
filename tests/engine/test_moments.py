"""Moments: mean and variance of a prediction under noise are those of the definition, by every algorithm."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier

from assertions import STRATEGIES, exactly, explainer_of, interrupted, rows_of
from predgap import Background, Explainer, Flip, Moments, Normal, Uniform
from predgap._engine.kernels import with_vector_leaves
from predgap.errors import SubsetError
from reference import ULP, SummedRow, tails_of
from spread_reference import conditional_product, mean_change
from strategies import (
    GRID,
    PLAIN,
    WIDE,
    Problem,
    Split,
    dyadic_problems,
    ensemble_of,
    full_trees,
    mixed_problems,
    noises,
    points,
    problems,
    subsets,
    trees,
)

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)
TOLERANCES = st.sampled_from([1e-1, 1e-3, 1e-6])


def assert_moments(problem, found, bounded=False):
    """Mean changes and variances of the definition, up to rounding and the error bound."""
    e, tails = problem.ensemble, tails_of(problem.noise, problem.ensemble)
    for r, (x, row) in enumerate(zip(problem.X, rows_of(problem), strict=True)):
        mean, scale = mean_change(e, x, problem.subset, tails)
        gap = float(row.gap(problem.subset))
        variance = float(row.gap(problem.subset) - mean**2)
        off = float(found.error_bound[r])
        rounding = 1e-12 * math.sqrt(gap) + 8 * ULP * scale
        of_mean = off / math.sqrt(found.gap[r]) if off else 0.0
        assert abs(found.mean_change[r] - float(mean)) <= rounding + of_mean
        assert abs(found.variance[r] - variance) <= row.bound(problem.subset) + off
        assert abs(found.gap[r] - gap) <= row.bound(problem.subset) + off
        assert bounded or off == 0


@every_strategy
@given(problem=problems())
def test_moments_equal_the_definition(strategy, problem):
    assert_moments(problem, explainer_of(problem, strategy).moments(problem.X, problem.mask))


@every_strategy
@given(problem=problems(values=st.sampled_from(WIDE)))
def test_moments_of_leaves_of_very_different_size(strategy, problem):
    assert_moments(problem, explainer_of(problem, strategy).moments(problem.X, problem.mask))


@every_strategy
@given(problem=mixed_problems())
def test_moments_with_categories(strategy, problem):
    assert_moments(problem, explainer_of(problem, strategy).moments(problem.X, problem.mask))


@pytest.mark.parametrize("strategy", ["compiled", None])
@given(problem=st.one_of(problems(), mixed_problems()), rtol=TOLERANCES)
def test_bounded_moments_are_within_their_bound(strategy, problem, rtol):
    explainer = Explainer(problem.ensemble, problem.noise, rtol=rtol, _strategy=strategy)
    found = explainer.moments(problem.X, problem.mask)
    assert (found.error_bound <= rtol * found.gap).all()
    assert_moments(problem, found, bounded=True)


@every_strategy
@given(problem=dyadic_problems())
def test_sums_without_rounding_give_the_very_moments(strategy, problem):
    found = explainer_of(problem, strategy).moments(problem.X, problem.mask)
    tails = tails_of(problem.noise, problem.ensemble)
    for r, (x, row) in enumerate(zip(problem.X, rows_of(problem), strict=True)):
        mean, _ = mean_change(problem.ensemble, x, problem.subset, tails)
        assert found.mean_change[r] == float(mean)
        assert found.variance[r] == float(row.gap(problem.subset) - mean**2)


@st.composite
def several_outputs(draw, n_outputs=3):
    """A problem with trees of three outputs, some of which share their splits."""
    d, values = draw(st.integers(1, 4)), st.sampled_from(PLAIN)
    grown = draw(st.lists(trees(range(d), GRID, values, 3), min_size=1, max_size=5))
    targets = draw(st.lists(st.integers(0, n_outputs - 1), min_size=len(grown), max_size=len(grown)))
    ensemble = ensemble_of(grown, d, targets=targets, n_outputs=n_outputs)
    rows = draw(st.lists(points(ensemble), min_size=1, max_size=2))
    return Problem(ensemble, np.array(rows), draw(subsets(ensemble)), draw(noises(ensemble)))


def exact_covariances(problem, x):
    """The covariances of the outputs, and how far the engine may be off."""
    tails, n = tails_of(problem.noise, problem.ensemble), problem.ensemble.n_outputs
    outputs = [problem.ensemble.select(k) for k in range(n)]
    means = [mean_change(own, x, problem.subset, tails)[0] for own in outputs]
    found = np.empty((n, n))
    for i, j in np.ndindex(n, n):
        both = conditional_product((outputs[i], outputs[j]), x, problem.subset, tails, problem.subset)
        found[i, j] = float(both - means[i] * means[j])
    return found, SummedRow(problem.ensemble, tails, x).bound(problem.subset)


@pytest.mark.parametrize("strategy", ["plan", "compiled", None])
@given(problem=several_outputs())
def test_covariances_equal_the_definition(strategy, problem):
    found = explainer_of(problem, strategy).moments(problem.X, problem.mask, covariance=True)
    assert (found.covariance == found.covariance.transpose(0, 2, 1)).all()
    assert (np.diagonal(found.covariance, axis1=1, axis2=2) == found.variance).all()
    for x, covariance in zip(problem.X, found.covariance, strict=True):
        exact, bound = exact_covariances(problem, x)
        assert (np.abs(covariance - exact) <= bound).all()


@every_strategy
@given(problem=several_outputs(), rtol=st.sampled_from([0.0, 1e-3]))
def test_variances_of_outputs_with_trees_of_their_own(strategy, problem, rtol):
    explainer = Explainer(problem.ensemble, problem.noise, rtol=rtol, _strategy=strategy)
    found = explainer.moments(problem.X, problem.mask)
    tails = tails_of(problem.noise, problem.ensemble)
    assert found.covariance is None
    assert (found.error_bound <= rtol * found.gap).all()
    for r, x in enumerate(problem.X):
        exact, rounding = exact_covariances(problem, x)
        off = found.error_bound[r]
        assert (np.abs(found.variance[r] - np.diagonal(exact)) <= rounding + off).all()
        for k in range(3):
            mean, scale = mean_change(problem.ensemble.select(k), x, problem.subset, tails)
            of_mean = off / math.sqrt(found.gap[r]) if off else 0.0
            allowed = 1e-12 * abs(float(mean)) + 8 * ULP * scale + of_mean
            assert abs(found.mean_change[r, k] - float(mean)) <= allowed + 1e-12 * math.sqrt(found.gap[r])


@given(problem=several_outputs(), rtol=TOLERANCES)
def test_bounded_covariances_are_within_their_bound(problem, rtol):
    explainer = Explainer(problem.ensemble, problem.noise, rtol=rtol, _strategy="compiled")
    found = explainer.moments(problem.X, problem.mask, covariance=True)
    for r, x in enumerate(problem.X):
        exact, rounding = exact_covariances(problem, x)
        assert (np.abs(found.covariance[r] - exact) <= rounding + found.error_bound[r]).all()


@given(problem=several_outputs())
def test_leaves_that_are_vectors_give_the_same_model(problem):
    vectors = with_vector_leaves(problem.ensemble)
    assert vectors.value.shape == (vectors.n_nodes, 3)
    assert np.allclose(vectors.predict(problem.X), problem.ensemble.predict(problem.X), rtol=1e-14, atol=0)


# ---- joint redraws --------------------------------------------------------------------------------


@given(problem=several_outputs(), n_rows=st.integers(1, 40), seed=st.integers(0, 99))
def test_moments_over_the_rows_of_a_background(problem, n_rows, seed):
    rng = np.random.default_rng(seed)
    table = rng.choice([-1.5, -0.5, 0.0, 0.5, 2.0], size=(n_rows, problem.ensemble.n_features))
    X = np.nan_to_num(problem.X, posinf=9.0, neginf=-9.0)
    found = Explainer(problem.ensemble, Background(table)).moments(X, problem.mask, covariance=True)
    for r, x in enumerate(X):
        predictions = problem.ensemble.predict(np.where(problem.mask, table, x))
        assert np.allclose(found.mean[r], predictions.mean(axis=0), rtol=1e-12, atol=1e-12)
        exact = np.atleast_2d(np.cov(predictions.T, bias=True))
        assert np.allclose(found.covariance[r], exact, rtol=1e-12, atol=1e-12)
        assert found.method[r] == "exact"
        assert found.error_bound[r] == 0


def test_batches_of_a_large_background_are_joined():
    X, y = load_diabetes(return_X_y=True)
    model = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, y)
    table = np.tile(X, (25, 1)) + np.random.default_rng(0).normal(0, 0.01, (25 * len(X), X.shape[1]))
    found = Explainer(model, Background(table, max_rows=len(table))).moments(X[:2], [2, 8])
    for x, variance in zip(X[:2], found.variance, strict=True):
        moved = np.tile(x, (len(table), 1))
        moved[:, [2, 8]] = table[:, [2, 8]]
        assert variance == pytest.approx(model.predict(moved).var(), rel=1e-10)


# ---- models of libraries --------------------------------------------------------------------------


def test_moments_within_five_standard_errors_of_sampling():
    X, y = load_diabetes(return_X_y=True)
    model = GradientBoostingRegressor(n_estimators=100, random_state=0).fit(X, y)
    scale = 0.3 * X.std(axis=0)
    found = Explainer(model, Normal(scale)).moments(X[:3])
    rng, n = np.random.default_rng(0), 40_000
    for r in range(3):
        drawn = model.predict(X[r] + rng.normal(size=(n, X.shape[1])) * scale)
        spread = drawn - drawn.mean()
        assert abs(found.mean[r] - drawn.mean()) <= 5 * drawn.std() / math.sqrt(n)
        assert abs(found.variance[r] - drawn.var()) <= 5 * (spread**2).std() / math.sqrt(n)


@pytest.mark.parametrize(
    "model",
    [GradientBoostingClassifier(n_estimators=20, random_state=0), RandomForestClassifier(8, random_state=0)],
)
def test_covariances_of_classes_within_five_standard_errors(model):
    X, y = load_iris(return_X_y=True)
    model.fit(X, y)
    scale = 0.5 * X.std(axis=0)
    explainer = Explainer(model, Normal(scale))
    found = explainer.moments(X[70:72], covariance=True)
    assert found.output_names == ("0", "1", "2")
    rng, n = np.random.default_rng(0), 40_000
    for r, x in enumerate(X[70:72]):
        drawn = explainer.ensemble.predict(x + rng.normal(size=(n, 4)) * scale)
        spread = drawn - drawn.mean(axis=0)
        products = spread[:, :, None] * spread[:, None, :]
        assert (
            np.abs(found.covariance[r] - products.mean(axis=0)) <= 5 * products.std(axis=0) / math.sqrt(n)
        ).all()
    assert found.gap == pytest.approx(explainer.gap(X[70:72], range(4)), rel=1e-12)


# ---- what it takes and gives ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(as_frame=True, return_X_y=True)
    return GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, y), X


def test_a_variance_of_certain_changes_is_exactly_zero():
    ensemble = ensemble_of([Split(0, 0.5, 1.0, 3.0), Split(1, 0.5, 0.1, 0.7)], 2)
    for strategy in STRATEGIES:
        found = exactly(ensemble, Flip(1.0), strategy).moments([[0.0, 1.0]])
        assert found.variance == [0.0]
        assert found.mean_change == pytest.approx([1.4], rel=1e-15)


def test_a_tiny_variance_keeps_its_digits_beside_a_large_change():
    ensemble = ensemble_of([Split(0, 0.5, 0.0, 1.0)], 1)
    for strategy in STRATEGIES:
        found = exactly(ensemble, Flip(1.0 - 1e-12), strategy).moments([[0.0]])
        stays = 1.0 - (1.0 - 1e-12)
        assert found.variance[0] == pytest.approx(stays * (1.0 - stays), rel=1e-3)


def test_no_subset_is_all_features(iris):
    model, X = iris
    explainer = Explainer(model, X)
    every, all_names = (explainer.moments(X.iloc[:3], s, covariance=True) for s in (None, list(X.columns)))
    assert (every.covariance == all_names.covariance).all()
    nothing = explainer.moments(X.iloc[:3], [])
    assert (nothing.variance == 0).all()
    assert (nothing.mean_change == 0).all()
    with pytest.raises(SubsetError, match="no feature"):
        explainer.moments(X.iloc[:3], ["no feature"])


def test_a_group_moves_as_one(iris):
    model, X = iris
    names = list(X.columns)
    grouped = Explainer(model, X, groups={"petal": names[2:]}).moments(X.iloc[:3], ["petal"], covariance=True)
    alone = Explainer(model, X).moments(X.iloc[:3], names[2:], covariance=True)
    assert (grouped.covariance == alone.covariance).all()


def test_each_row_has_its_own_output(iris):
    model, X = iris
    rows = X.iloc[[0, 60, 130]]
    found = Explainer(model, X, output="predicted").moments(rows, covariance=True)
    assert found.variance.shape == (3,)
    assert found.covariance is None
    for r, output in enumerate([0, 1, 2]):
        alone = Explainer(model, X, output=output).moments(rows.iloc[[r]])
        assert found.variance[r] == alone.variance[0]
        assert found.mean[r] == alone.mean[0]


def test_the_mean_is_the_expected_prediction(iris):
    model, X = iris
    explainer = Explainer(model, X)
    found = explainer.moments(X.iloc[:5])
    assert found.mean == pytest.approx(explainer.expected_prediction(X.iloc[:5], range(4)), rel=1e-12)
    assert found.mean - found.mean_change == pytest.approx(explainer.ensemble.predict(X.iloc[:5]), rel=1e-12)


def test_moments_as_tables(iris):
    model, X = iris
    rows = X.iloc[[3, 1]]
    found = Explainer(model, X).moments(rows)
    frame = found.to_frame()
    assert list(frame["row"]) == [3, 3, 3, 1, 1, 1]
    assert list(frame["output"]) == ["0", "1", "2"] * 2
    assert (frame["variance"].to_numpy() == found.variance.ravel()).all()
    assert repr(found).startswith("Moments of 2 rows and 3 outputs; the first 5 lines\nrow  output")
    assert found._repr_html_().startswith("<table>")
    one = Explainer(model, X, output=1).moments(rows)
    assert list(one.to_frame().columns) == ["row", "mean", "mean_change", "variance", "error_bound", "method"]
    assert "Moments of 2 rows\n" in repr(one)
    assert isinstance(one, Moments)


def test_no_rows_give_an_empty_answer(iris):
    model, X = iris
    found = Explainer(model, X).moments(X.iloc[:0], covariance=True)
    assert (found.variance.shape, found.covariance.shape, found.gap.shape) == ((0, 3), (0, 3, 3), (0,))
    assert repr(found).startswith("Moments of 0 rows and 3 outputs")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_bits_do_not_depend_on_threads_or_batches(iris, n_jobs):
    model, X = iris
    one, several = Explainer(model, Uniform(0.7)), Explainer(model, Uniform(0.7), n_jobs=n_jobs)
    for covariance, name in ((True, "covariance"), (False, "variance")):
        whole = one.moments(X.iloc[:9], covariance=covariance)
        parts = [several.moments(X.iloc[i : i + 3], covariance=covariance) for i in (0, 3, 6)]
        assert (np.concatenate([getattr(part, name) for part in parts]) == getattr(whole, name)).all()


def test_ctrl_c_stops_covariances():
    rng = np.random.default_rng(4)
    ensemble = full_trees(rng, n_trees=300, depth=7, n_features=14)
    vectors = replace(
        ensemble,
        value=rng.normal(size=(ensemble.n_nodes, 4)),
        bias=np.zeros(4),
        target=0 * ensemble.target - 1,
    )
    explainer = Explainer(vectors, Normal(1.0), rtol=1e-3)
    assert interrupted(lambda: explainer.moments(rng.normal(size=(200, 14))), after=1.0) < 2.0
