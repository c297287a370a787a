"""Listed outcomes are the distribution of the definition; changes are within the range that is said."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from asking import Core
from assertions import explainer_of
from predgap import Background, Explainer, Normal
from predgap._model.ensemble import Ensemble
from reference import outcomes, tails_of
from strategies import Problem, full_trees, mixed_problems, problems


def distribution(problem: Problem, x: np.ndarray) -> dict[Fraction, Fraction]:
    """The probability of each change of the prediction."""
    found: dict[Fraction, Fraction] = defaultdict(Fraction)
    tails = tails_of(problem.noise, problem.ensemble)
    for probability, here, there in outcomes(problem.ensemble, x, problem.subset, tails):
        found[sum(there, Fraction(0)) - sum(here, Fraction(0))] += probability
    return found


def assert_same_distribution(problem: Problem) -> None:
    explainer = explainer_of(problem, None)
    rows = problem.ensemble.cast(problem.X)
    for x in rows:
        probability, change = Core(explainer).outcomes(x[None], problem.mask[None])
        assert (probability >= 0).all()
        assert probability.sum() == pytest.approx(1.0, abs=1e-14)
        wanted = distribution(problem, x)
        scale = 1.0 + max((abs(float(by)) for by in wanted), default=0.0)
        at = np.array([float(by) for by in wanted])
        for by in at:
            own = sum(float(p) for other, p in wanted.items() if abs(float(other) - by) <= 1e-9 * scale)
            assert probability[np.abs(change[0] - by) <= 1e-9 * scale].sum() == pytest.approx(own, abs=1e-14)
        assert all(np.abs(at - by).min() <= 1e-9 * scale for by in change[0][probability > 0])
        least, most = Core(explainer).change_range(x[None], problem.mask[None])[0, 0]
        reached = change[0][probability > 0]
        assert least <= reached.min(initial=0.0)
        assert reached.max(initial=0.0) <= most


@given(problems())
def test_outcomes_are_those_of_the_definition(problem: Problem) -> None:
    assert_same_distribution(problem)


@given(mixed_problems())
def test_outcomes_of_categories_are_those_of_the_definition(problem: Problem) -> None:
    assert_same_distribution(problem)


@given(problems(max_trees=1))
def test_the_leaves_of_one_tree_are_its_outcomes(problem: Problem) -> None:
    assert_same_distribution(problem)


def test_too_many_outcomes_are_not_listed() -> None:
    rng = np.random.default_rng(0)
    forest = full_trees(rng, n_trees=60, depth=6, n_features=12)
    core = Core(Explainer(forest, Normal(1.0)))
    x, every = np.zeros((1, 12)), np.ones((1, 12), dtype=np.bool_)
    assert core.outcomes(x, every) is None
    few = every.copy()
    few[0, 2:] = False
    probability, change = core.outcomes(x, few)
    assert change.shape == (1, len(probability))


def of_vector_leaves(rng: np.random.Generator) -> Ensemble:
    one = full_trees(rng, n_trees=3, depth=3, n_features=3)
    leaves: Any = {name: getattr(one, name) for name in ("root", "feature", "threshold", "left", "right")}
    return Ensemble(
        **leaves,
        default_left=one.default_left,
        value=rng.integers(-4, 5, (one.n_nodes, 2)) / 2.0,
        target=np.full(3, -1),
        bias=np.zeros(2),
        n_features=3,
    )


def test_outcomes_of_several_outputs_are_joint() -> None:
    rng = np.random.default_rng(1)
    ensemble = of_vector_leaves(rng)
    x, mask = np.zeros((1, 3)), np.ones((1, 3), dtype=np.bool_)
    probability, change = Core(Explainer(ensemble, Normal(0.7))).outcomes(x, mask)
    for k in range(2):
        own = Core(Explainer(ensemble, Normal(0.7), output=k)).outcomes(x, mask)
        assert (probability * change[k] ** 2).sum() == pytest.approx(
            (own[0] * own[1][0] ** 2).sum(), rel=1e-12
        )
    gap = Explainer(ensemble, Normal(0.7)).gap(x, [0, 1, 2])[0]
    assert (probability * (change**2).sum(axis=0)).sum() == pytest.approx(gap, rel=1e-12)


def test_outcomes_of_a_background_are_its_rows() -> None:
    rng = np.random.default_rng(2)
    ensemble, table = of_vector_leaves(rng), rng.normal(size=(7, 3))
    explainer = Explainer(ensemble, Background(table))
    x, mask = rng.normal(size=(1, 3)), np.array([[True, False, True]])
    probability, change = Core(explainer).outcomes(x, mask)
    redrawn = np.where(mask, table, x)
    np.testing.assert_allclose(change, (ensemble.predict(redrawn) - ensemble.predict(x)).T, atol=1e-14)
    np.testing.assert_array_equal(probability, np.full(7, 1 / 7))


def test_sampled_changes_are_those_of_the_moments() -> None:
    rng = np.random.default_rng(3)
    core = Core(Explainer(of_vector_leaves(rng), Normal(0.7)))
    x, mask, points = rng.normal(size=(2, 3)), np.array([True, True, False]), rng.random((1, 50, 2))
    changes = core.sample_changes(x, mask, points)
    for k in range(2):
        sums = core.sample(x, mask, points, np.array([50]), k)[:, 0]
        np.testing.assert_allclose(changes[:, k].sum(axis=1), sums[:, 0], atol=1e-12)
        np.testing.assert_allclose((changes[:, k] ** 2).sum(axis=1), sums[:, 1], atol=1e-12)
