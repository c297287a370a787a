"""Options of an explainer that are tested elsewhere alone, used together."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from predgap import (
    Background,
    Clipped,
    Explainer,
    Marginal,
    NoiseError,
    Normal,
    Ranking,
    Redraw,
    Relative,
    Stay,
)

RNG = np.random.default_rng(0)
N = 300
JOB = RNG.integers(0, 3, N)  # 2: no dummy is set
X = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, N).astype(float),
        "job_cook": (JOB == 0).astype(float),
        "weight": RNG.normal(75, 12, N),
        "job_nurse": (JOB == 1).astype(float),
    }
)
Y = X["age"] / 20 + 2 * X["job_cook"] - X["job_nurse"] * (X["weight"] > 75) + RNG.normal(0, 0.1, N)
MODEL = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, Y)
ONE_HOT = {"job": ["job_cook", "job_nurse"]}
DUMMIES = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])


def gap_of_job(row: pd.Series, shares: np.ndarray) -> float:
    """The mean squared change of the prediction if the dummies become those of a job, with these shares."""
    jobs = pd.DataFrame([row] * 3)
    jobs[["job_cook", "job_nurse"]] = DUMMIES
    before = MODEL.predict(pd.DataFrame([row]))[0]
    return float(shares @ (MODEL.predict(jobs) - before) ** 2)


@pytest.mark.parametrize(
    ("noise", "p"),
    [
        (Marginal(X), 1.0),
        (Redraw(X, 0.25), 0.25),
        (Stay(Redraw(X, 0.5), 0.5), 0.25),
        (Relative(X, 0.3), 0.045),
        (X, 0.045),
        (Background(X, max_rows=N), 1.0),
    ],
)
def test_dummies_are_redrawn_together(noise, p):
    explainer = Explainer(MODEL, noise, one_hot=ONE_HOT)
    shares = np.bincount(JOB, minlength=3) / N
    expected = [p * gap_of_job(row, shares) for _, row in X.head(9).iterrows()]
    np.testing.assert_allclose(explainer.gap(X.head(9), ["job"]), expected, rtol=1e-11)


def test_a_group_with_dummies_under_a_background():
    explainer = Explainer(
        MODEL, Background(X, max_rows=N), one_hot=ONE_HOT, groups={"person": ["age", "weight"]}
    )
    row, moved = X.head(1), X.copy()
    moved["job_cook"], moved["job_nurse"] = row["job_cook"].item(), row["job_nurse"].item()
    expected = np.mean((MODEL.predict(moved) - MODEL.predict(row)) ** 2)
    np.testing.assert_allclose(explainer.gap(row, ["person"]), [expected], rtol=1e-11)
    assert {*explainer.rank(row).top(2)[0]} == {"person", "job"}


def test_a_sweep_with_groups_and_each_rows_own_class():
    classes = np.digitize(Y, [1.5, 3.0])
    model = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, classes)
    options = {"output": "predicted", "groups": {"job": ["job_cook", "job_nurse"]}}
    explainer = Explainer(model, Relative(X, 0.3), **options)
    rows = X.head(12)
    rankings = {"greedy": "greedy", "given": ["job", "weight", "age"]}
    found = explainer.sweep(rows, rankings, strengths=[0.2, 1.0])
    for k, strength in enumerate((0.2, 1.0)):
        other = Explainer(model, Relative(X, strength), **options)
        np.testing.assert_array_equal(found.scores[k, 0], other.pgi2(rows, other.rank(rows)))
        np.testing.assert_array_equal(found.scores[k, 1], other.pgi2(rows, rankings["given"]))


def test_attributions_of_classes_are_summed_over_groups():
    classes = np.digitize(Y, [1.5, 3.0])
    model = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, classes)
    groups = {"job": ["job_cook", "job_nurse"]}
    explainer = Explainer(model, Relative(X, 0.3), output=1, groups=groups)
    rows, values = X.head(5), RNG.normal(size=(5, 4, 3))
    ranking = Ranking.from_attributions(values, output=1, feature_names=list(X), groups=groups)
    sums = np.stack([values[:, 0, 1], values[:, 1, 1] + values[:, 3, 1], values[:, 2, 1]], axis=1)
    np.testing.assert_array_equal(ranking.order, np.argsort(-np.abs(sums), axis=1, kind="stable"))
    frame = pd.DataFrame(values[:, :, 1], columns=list(X), index=rows.index)
    np.testing.assert_array_equal(explainer.pgi2(rows, ranking), explainer.pgi2(rows, frame))


def test_noise_that_adds_to_dummies_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noise = Clipped(Normal.relative(X, 0.3), 0.0, 100.0)
    with pytest.raises(NoiseError, match="'job'"):
        Explainer(MODEL, noise, one_hot=ONE_HOT)
