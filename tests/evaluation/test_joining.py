"""Parts of the rows that are examined one by one give the numbers of all rows together, bit by bit."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor

from predgap import Explainer, Marginal, Relative
from predgap.evaluation.evaluation import _task
from predgap.evaluation.examination import examined
from predgap.evaluation.joining import joined, notes, obtained
from predgap.evaluation.requests import read_requests

N = 14


@pytest.fixture(scope="module")
def fitted():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    return GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, y), X


def task_of(explainer, X, metrics=("pgi2", "pgu2"), strengths=None, top=None):
    rankings = {
        "shap": "shap",
        "gain": "gain",
        "random": "random",
        "greedy": "greedy",
        "single": "single",
        "shapley": "shapley",
        "optimal": "optimal",
        "mine": np.random.default_rng(0).normal(size=X.shape),
    }
    rows = explainer.explained.rows(X)
    return _task(explainer, X, rows, read_requests(rankings), None, metrics, strengths, top, 3)


def same(a, b):
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if is_dataclass(a):
        return all(same(getattr(a, field.name), getattr(b, field.name)) for field in fields(a))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    return str(a) == str(b)


@pytest.mark.parametrize("effort", ["full", "search", "estimate", "bare"])
@pytest.mark.parametrize(("top", "strengths"), [(None, [0.1, 0.5]), (3, None)])
def test_parts_give_the_bits_of_the_whole(fitted, effort, top, strengths):
    model, X = fitted
    explainer = Explainer(model, Relative(X))
    task = task_of(explainer, X[:N], strengths=strengths, top=top)
    rows = np.random.default_rng(1).permutation(N)
    parts = [examined(task, explainer, np.sort(some), effort) for some in np.split(rows, [1, 4, 9])]
    found, whole = joined(task, explainer, parts), examined(task, explainer, np.arange(N), effort)
    for field in fields(whole):
        assert same(getattr(found, field.name), getattr(whole, field.name)), field.name
    assert obtained(found, 1e-6) == obtained(whole, 1e-6)
    assert notes(found) == notes(whole)
    if found.swept is not None:
        assert same(found.swept.sweep(), whole.swept.sweep())


def test_metrics_that_are_undefined_or_left_out_in_a_part(fitted):
    model, X = fitted
    explainer = Explainer(model, Marginal(X))
    task = task_of(explainer, X[:N], metrics=("pgi2", "deletion", "monotonicity_correlation"))
    parts = [examined(task, explainer, some, "search") for some in np.split(np.arange(N), [5])]
    parts[1].left_out["deletion", "shap"] = "deletion of 'shap' was left out."
    parts[0].scores["deletion"][1, 2] = np.nan
    found = joined(task, explainer, parts)
    assert np.isnan(found.scores["deletion"][0]).all()
    said = notes(found)
    assert "deletion of 'shap' was left out." in said
    assert "deletion of 'gain' is not defined in 1 row, left out of its mean." in said
    assert sum("'shap'" in note for note in said) == 1


def test_what_cannot_be_estimated_is_left_out_of_the_least_effort(fitted):
    model, X = fitted
    explainer = Explainer(model, Marginal(X))
    task = task_of(explainer, X[:3], metrics=("pgi2", "deletion"), strengths=[0.5])
    assert task.has_more
    found = examined(task, explainer, np.arange(3), "bare")
    assert found.swept is None
    assert np.isnan(found.scores["deletion"]).all()
    assert "Scores at other strengths were left out, to keep within the budget." in notes(found)
