"""PGI and PGU of OpenXAI: their definition by samples through the library, and their noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier

from metrics_reference import openxai
from predgap import Explainer, Link, NoiseError, RankingError, metrics
from reference import HIGH, ULP, tails_of
from strategies import Problem, mixed_problems, problems


def test_scores_are_near_those_of_samples_through_the_library() -> None:
    """OpenXAI's loop, with more samples: mask, perturb, mean absolute change of a class's probability."""
    X, y = load_breast_cancer(return_X_y=True)
    X = ((X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0)))[:, [0, 7, 20, 27]]
    X = np.column_stack([X, y == y[::-1]]).astype(np.float32).astype(np.float64)
    model = GradientBoostingClassifier(n_estimators=10, max_depth=2, random_state=0).fit(X, y)
    explainer, rng = Explainer(model, metrics.openxai_noise(X, 0.2)), np.random.default_rng(0)
    order, rows = [3, 1, 0, 4, 2], X[:3]
    for k in (1, 3):
        for score, moved in ((metrics.openxai_pgi, order[:k]), (metrics.openxai_pgu, order[k:])):
            found = score(explainer, rows, order, k=k)
            for x, value, error in zip(rows, found.value, found.standard_error, strict=True):
                copies = np.tile(x, (20_000, 1))
                for q in moved:
                    flips = rng.random(len(copies)) < np.sqrt(2 / np.pi) * 0.2
                    copies[:, q] = (
                        np.where(flips, 1 - x[q], x[q]) if q == 4 else x[q] + rng.normal(0, 0.2, len(copies))
                    )
                changes = np.abs(model.predict_proba(copies)[:, 0] - model.predict_proba(x[None])[0, 0])
                slack = 5 * (changes.std() / np.sqrt(len(changes)) + error) + 1e-12
                assert abs(changes.mean() - value) < slack


@st.composite
def scored_orders(draw: st.DrawFn) -> tuple[Problem, list[int], float | None]:
    """A ranking of all features or some, used or not, missing or not; and the scale of the link, if any."""
    small = problems(n_features=st.integers(3, 4), max_used=3)
    problem = draw(st.one_of(small, problems(n_features=st.integers(1, 3)), mixed_problems(max_depth=3)))
    d = problem.ensemble.n_features
    n_places = draw(st.sampled_from([d, d, *range(1, d)]))
    return problem, draw(st.permutations(range(d)))[:n_places], draw(st.sampled_from([None, 0.1, 1.0]))


@given(scored_orders())
def test_scores_are_those_of_the_definition(case: tuple[Problem, list[int], float | None]) -> None:
    """Up to rounding: of sums of leaves, which is relative to the largest, and of probabilities."""
    problem, order, scale = case
    size = np.abs(problem.ensemble.value).max(initial=0.0) * problem.ensemble.n_trees
    ensemble, of, rounding = problem.ensemble, lambda margin: margin, 16 * ULP * size
    if scale is not None:  # a classifier
        ensemble = replace(ensemble, link=Link("logistic", scale), class_names=("no", "yes"))
        of, rounding = lambda margin: 1 / (1 + HIGH.exp(-scale * margin)), 16 * ULP * (1.0 + scale * size)
    explainer, tails = Explainer(ensemble, problem.noise), tails_of(problem.noise, ensemble)
    first = [order[:k] for k in range(1, len(order) + 1)]
    rest = [[q for q in range(ensemble.n_features) if q not in chosen] for chosen in first]
    for score, moved in ((metrics.openxai_pgi, first), (metrics.openxai_pgu, rest)):
        for k, subsets in ((None, moved), (len(order), moved[-1:])):
            found = score(explainer, problem.X, order, k=k)
            assert set(found.method) == {"exact"}
            np.testing.assert_array_equal(found.lower, found.upper)
            for x, value in zip(problem.X, found.value, strict=True):
                wanted = float(openxai(ensemble, x, subsets, tails, of))
                assert abs(value - wanted) <= 1e-12 * wanted + rounding


def test_the_area_is_a_mean_over_places() -> None:
    X = np.array([[0.1, 0.9], [0.8, 0.3], [0.4, 0.6]])
    model = GradientBoostingClassifier(n_estimators=3, max_depth=1).fit(X, [0, 1, 0])
    explainer = Explainer(model, metrics.openxai_noise(X))
    parts = [metrics.openxai_pgi(explainer, X, [0, 1], k=k) for k in (1, 2)]
    area = metrics.openxai_pgi(explainer, X, [0, 1])
    np.testing.assert_allclose(area.value, (parts[0].value + parts[1].value) / 2, rtol=1e-12)
    assert set(area.method) == {"exact"}
    np.testing.assert_array_equal(metrics.openxai_pgu(explainer, X, [0, 1], k=2).value, np.zeros(3))
    for k in (3, 1.5, True):
        with pytest.raises(RankingError, match=f"k is {k}, expected a whole number of places from 1 to 2"):
            metrics.openxai_pgi(explainer, X, [0, 1], k=k)


def test_the_noise_names_its_limit() -> None:
    with pytest.raises(NoiseError, match=r"std is 2, expected a number above 0 and at most 1\.25"):
        metrics.openxai_noise([[0.0], [1.0]], 2)
    with pytest.raises(NoiseError, match=r"std is 'a' \(str\), expected a positive number"):
        metrics.openxai_noise([[0.0], [1.0]], "a")
