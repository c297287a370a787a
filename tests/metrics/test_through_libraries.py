"""Decisions and metrics within five standard errors of samples that go through the library's own predict."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import catboost
import lightgbm
import numpy as np
import pytest
import xgboost
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from predgap import Background, Explainer, Marginal, Normal, OutputError, metrics
from predgap._typing import FloatArray

N = 20_000
QUIET: dict[str, Any] = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
REGRESSORS: dict[str, Callable[[], Any]] = {
    "XGBoost": lambda: xgboost.XGBRegressor(n_estimators=30, n_jobs=1),
    "LightGBM": lambda: lightgbm.LGBMRegressor(n_estimators=30, n_jobs=1, verbose=-1),
    "CatBoost": lambda: catboost.CatBoostRegressor(iterations=30, **QUIET),
    "forest": lambda: RandomForestRegressor(10, max_depth=6, random_state=0),
}
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "XGBoost": lambda: xgboost.XGBClassifier(n_estimators=20, n_jobs=1),
    "LightGBM": lambda: lightgbm.LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1),
    "CatBoost": lambda: catboost.CatBoostClassifier(iterations=20, **QUIET),
    "forest": lambda: RandomForestClassifier(10, max_depth=6, random_state=0),
}


def single(X: FloatArray) -> FloatArray:
    """Numbers that single precision holds, so that all libraries see the same."""
    return X.astype(np.float32).astype(np.float64)


def assert_near(value: float, samples: FloatArray, error: float = 0.0) -> None:
    assert abs(value - samples.mean()) <= 5 * (samples.std() / np.sqrt(len(samples)) + error) + 1e-6


@pytest.mark.parametrize("library", CLASSIFIERS)
def test_decisions(library: str) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X, rng = single(X[:, [0, 1, 20, 27]]), np.random.default_rng(0)
    model, scale, moved = CLASSIFIERS[library]().fit(X, y), 0.5 * X.std(axis=0), [0, 2, 3]
    explainer = Explainer(model, Normal(scale))
    uncertain = np.argsort(np.abs(model.predict_proba(X)[:, 1] - 0.5))[:3]
    flips = explainer.flip(X[uncertain], 0.5, moved)
    sizes = explainer.absolute_gap(X[uncertain], moved, space="probability")
    squares = explainer.probability_gap(X[uncertain], moved)
    for r, x in enumerate(X[uncertain]):
        copies = np.tile(x, (N, 1))
        copies[:, moved] += rng.normal(size=(N, 3)) * scale[moved]
        before, after = model.predict_proba(x[None])[0, 1], model.predict_proba(copies)[:, 1]
        crossed = (after >= 0.5) != (before >= 0.5)
        for found, samples in (
            (flips, crossed.astype(float)),
            (sizes, np.abs(after - before)),
            (squares, (after - before) ** 2),
        ):
            assert_near(float(found.value[r]), samples, float(found.standard_error[r]))


@pytest.mark.parametrize("library", CLASSIFIERS)
def test_one_of_three_classes(library: str) -> None:
    X, y = load_iris(return_X_y=True)
    X, rng = single(X), np.random.default_rng(4)
    model, scale = CLASSIFIERS[library]().fit(X, y), 0.5 * X.std(axis=0)
    rows = X[[60, 110]]
    explainer = Explainer(model, Normal(scale), output=1)
    flips = explainer.flip(rows, 0.4)
    sizes = explainer.absolute_gap(rows, [0, 2, 3], space="probability")
    squares = explainer.probability_gap(rows, [0, 2, 3])
    all_three = Explainer(model, Normal(scale)).probability_gap(rows, [0, 2, 3])
    for r, x in enumerate(rows):
        before, noise = model.predict_proba(x[None])[0], rng.normal(size=(N, 4)) * scale
        after, some = (model.predict_proba(x + noise * moved) for moved in (1, [1, 0, 1, 1]))
        crossed = (after[:, 1] >= 0.4) != (before[1] >= 0.4)
        for found, samples in (
            (flips, crossed.astype(float)),
            (sizes, np.abs(some - before)[:, 1]),
            (squares, (some - before)[:, 1] ** 2),
            (all_three, ((some - before) ** 2).sum(axis=1)),
        ):
            assert_near(float(found.value[r]), samples, float(found.standard_error[r]))


@pytest.mark.parametrize("library", REGRESSORS)
def test_moments_and_absolute_gaps(library: str) -> None:
    X, y = load_diabetes(return_X_y=True)
    X, rng = single(X[:, [2, 3, 8]]), np.random.default_rng(5)
    model = REGRESSORS[library]().fit(X, y)
    explainer = Explainer(model, Normal(0.02))
    moments, sizes = explainer.moments(X[:2]), explainer.absolute_gap(X[:2], [0, 1, 2])
    for r, x in enumerate(X[:2]):
        after = np.asarray(model.predict(x + rng.normal(0.0, 0.02, size=(N, 3))), dtype=np.float64)
        assert_near(float(moments.mean[r]), after)
        assert_near(float(moments.variance[r]), (after - after.mean()) ** 2)
        assert_near(float(sizes.value[r]), np.abs(after - model.predict(x[None])[0]), sizes.standard_error[r])


@pytest.mark.parametrize("library", CLASSIFIERS)
def test_covariances_of_classes(library: str) -> None:
    X, y = load_iris(return_X_y=True)
    X, rng = single(X), np.random.default_rng(6)
    model, scale = CLASSIFIERS[library]().fit(X, y), 0.5 * X.std(axis=0)
    found = Explainer(model, Normal(scale)).moments(X[60:61], covariance=True).covariance[0]
    after = own_margins(model, X[60] + rng.normal(size=(N, 4)) * scale)
    centred = after - after.mean(axis=0)
    for i in range(3):
        for j in range(3):
            assert_near(float(found[i, j]), centred[:, i] * centred[:, j])


def own_margins(model: Any, rows: FloatArray) -> FloatArray:
    """What the library says before the softmax; a forest says probabilities."""
    if isinstance(model, xgboost.XGBClassifier):
        found = model.predict(rows, output_margin=True)
    elif isinstance(model, lightgbm.LGBMClassifier):
        found = model.predict(rows, raw_score=True)
    elif isinstance(model, catboost.CatBoostClassifier):
        found = model.predict(rows, prediction_type="RawFormulaVal")
    else:
        found = model.predict_proba(rows)
    return np.asarray(found, dtype=np.float64)


@pytest.mark.parametrize("library", REGRESSORS)
def test_shares_of_the_variance(library: str) -> None:
    """A product of f(x') and of f with only the features of S kept has the mean that S alone explains."""
    X, y = load_diabetes(return_X_y=True)
    X, rng = single(X[:, [2, 3, 8]]), np.random.default_rng(7)
    model = REGRESSORS[library]().fit(X, y)
    one, other = X[10] + rng.normal(0.0, 0.03, size=(2, N, 3))
    after = np.asarray(model.predict(one), dtype=np.float64)
    mean, variance = after.mean(), after.var()

    def explained(*kept: int) -> FloatArray:
        """What is explained by the features that are kept, as shares; samples."""
        mixed = np.where(np.isin(np.arange(3), kept), one, other)
        return (after - mean) * (np.asarray(model.predict(mixed), dtype=np.float64) - mean) / variance

    part = {kept: explained(*kept) for n in (1, 2, 3) for kept in combinations(range(3), n)}
    found = Explainer(model, Normal(0.03)).sensitivity(X[10:11])
    for q in range(3):
        a, b = (r for r in range(3) if r != q)
        first, rest = part[(q,)], part[(a, b)]
        pairs = {r: part[tuple(sorted((q, r)))] - part[(q,)] - part[(r,)] for r in (a, b)}
        gained = (
            2 * first + part[tuple(sorted((q, a)))] - part[(a,)] + part[tuple(sorted((q, b)))] - part[(b,)]
        )
        assert_near(float(found.first[0, q]), first)
        assert_near(float(found.total[0, q]), part[(0, 1, 2)] - rest)
        assert_near(float(found.shapley[0, q]), (gained + 2 * (part[(0, 1, 2)] - rest)) / 6)
        for r, samples in pairs.items():
            assert_near(float(found.interactions[0, q, r]), samples)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("library", REGRESSORS)
def test_redrawn_features(library: str, together: bool) -> None:
    X, y = load_diabetes(return_X_y=True)
    X, rng = single(X), np.random.default_rng(1)
    model = REGRESSORS[library]().fit(X, y)
    table, rows, order = X[:60], X[100:102], [8, 2, 3]
    explainer = Explainer(model, Background(table) if together else Marginal(table))

    def redrawn(x: FloatArray, features: list[int]) -> FloatArray:
        copies, chosen = (
            np.tile(x, (N, 1)),
            rng.integers(0, len(table), (N, 1 if together else len(features))),
        )
        copies[:, features] = table[chosen, features]
        return np.asarray(model.predict(copies), dtype=np.float64)

    deleted = [
        metrics.deletion_curve(explainer, rows, order),
        metrics.comprehensiveness(explainer, rows, order),
    ]
    inserted = [metrics.insertion_curve(explainer, rows, order), metrics.sufficiency(explainer, rows, order)]
    random = metrics.feature_randomising(explainer, rows, order, y[100:102])
    for r, x in enumerate(rows):
        before, rest = float(model.predict(x[None])[0]), [q for q in range(10) if q not in order]
        first = [redrawn(x, order[:k]) for k in (1, 2, 3)]
        last = [redrawn(x, rest + order[k:]) for k in (1, 2, 3)]
        for (curve, mean_fall), parts in ((deleted, first), (inserted, last)):
            for k, samples in enumerate(parts, 1):
                assert_near(float(curve[r, k]), samples)
            assert_near(float(mean_fall[r]), before - np.mean(parts, axis=0))
        mean, error = first[2].mean(), first[2].std() / np.sqrt(N)
        assert abs(np.sqrt(random[r]) - abs(mean - y[100 + r])) <= 5 * error + 1e-4


@pytest.mark.parametrize("library", REGRESSORS)
def test_scores_of_attributions(library: str) -> None:
    X, y = load_diabetes(return_X_y=True)
    X, rng = single(X), np.random.default_rng(2)
    model = REGRESSORS[library]().fit(X, y)
    slopes, rows = 300.0 * rng.normal(size=(2, 10)), X[5:7]
    explainer = Explainer(model, Normal(0.015))
    found = metrics.infidelity(explainer, rows, slopes)
    correlation = metrics.monotonicity_correlation(explainer, rows, slopes)
    for r, x in enumerate(rows):
        before = model.predict(x[None])[0]
        noise = rng.normal(0.0, 0.015, size=(N, 10))
        assert_near(float(found[r]), (noise @ slopes[r] - (model.predict(x + noise) - before)) ** 2)
        alone = [model.predict(x + noise * (np.arange(10) == q)) - before for q in range(10)]
        gaps = [float((change**2).mean()) for change in alone]
        assert correlation[r] == pytest.approx(stats.spearmanr(np.abs(slopes[r]), gaps)[0], abs=0.1)


def test_openxai_is_about_one_output() -> None:
    X = np.random.default_rng(3).normal(size=(90, 2))
    forest = RandomForestClassifier(3, random_state=0).fit(X, np.arange(90) % 3)
    noise = metrics.openxai_noise(X)
    for score in (metrics.openxai_pgi, metrics.openxai_pgu):
        with pytest.raises(OutputError, match=r"3 outputs.*output=0\), which is their class"):
            score(Explainer(forest, noise), X[:2], [0, 1])
        assert score(Explainer(forest, noise, output=0), X[:2], [0, 1], k=1).value.shape == (2,)
