"""Feature randomising: by enumeration on tiny models, and the paper's table."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xgboost

from predgap import Explainer, Marginal, Normal, PredgapError
from reproduction import published
from reproduction.experiments import randomising
from reproduction.experiments.randomising import Config, Errors
from reproduction.models import Subject, Training, authors_subjects, read_subject, shap_ranking
from reproduction.results import Result

D, N_TEST, N_TRAIN = 4, 8, 11
CONFIG = Config(scales=(0.3, 1.0), described_samples=3, published_samples=5, n_resamples=50)


def train(path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, D))
    y = X[:, 0] + 0.7 * (X[:, 1] > 0.3) - X[:, 2] * (X[:, 0] > 0) + 0.4 * X[:, 3]
    data = xgboost.DMatrix(X, y, nthread=1)
    xgboost.train({"max_depth": 3, "eta": 0.5, "seed": 0, "nthread": 1}, data, 6).save_model(path)


def just_below_thresholds(ensemble, X: np.ndarray) -> None:
    """Move half of the values to just below a threshold, and equal to it in float32."""
    rng = np.random.default_rng(2)
    for j in range(D):
        cuts = np.float32(ensemble.threshold[ensemble.feature == j]).astype(np.float64)
        chosen = rng.random(len(X)) < 0.5
        X[chosen, j] = np.nextafter(rng.choice(cuts, chosen.sum()), -np.inf)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Subject:
    """Named as one of the paper's, so that there are cells to compare with."""
    path = tmp_path_factory.mktemp("models") / "tiny.json"
    train(path)
    rng = np.random.default_rng(1)
    ensemble = read_subject("Bigger", "wine", path, np.zeros((1, D)), [0.0]).ensemble
    parts = [rng.normal(size=(n, D)) for n in (N_TEST, N_TRAIN)]
    for part in parts:
        just_below_thresholds(ensemble, part)
    y = rng.normal(size=N_TEST)
    training = Training(parts[1], np.zeros(N_TRAIN))
    return read_subject("Bigger", "wine", path, parts[0], y, training=training)


@pytest.fixture(scope="module")
def table(tiny) -> Result:
    return randomising.run(CONFIG, [tiny])


def outcomes(predict, x: np.ndarray, features, pool: np.ndarray) -> np.ndarray:
    """f(X) for every way to draw the features from their columns, all equally likely."""
    columns = [pool[:, j] for j in features]
    points = []
    for values in itertools.product(*columns):
        point = x.copy()
        point[list(features)] = values
        points.append(point)
    return predict(np.array(points))


def orders(tiny: Subject) -> dict[float | None, np.ndarray]:
    subject = tiny
    greedy = {s: Explainer(subject.ensemble, Normal(s)).rank(subject.X).order for s in CONFIG.scales}
    return {None: shap_ranking(subject).order} | greedy


# ---- against enumeration -------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["as described", "as published"])
def test_errors_are_those_of_all_draws(tiny, table, protocol):
    """By xgboost's own predictions, over every combination of the columns' values."""
    booster = xgboost.Booster({"nthread": 1}, model_file=tiny.model)
    described = protocol == "as described"
    rows, pool = (tiny.X, tiny.X) if described else (tiny.training.X[:N_TEST], tiny.training.X)
    n_samples = 3 if described else 5
    first = orders(tiny)  # of test rows, in both protocols
    found = table.where(protocol=protocol)
    assert len(found) == 3 * 3
    for row in found:
        order = first[row["scale"]]
        draws = [
            outcomes(booster.inplace_predict, x, features[: row["k"]], pool).astype(float)
            for x, features in zip(rows, order, strict=True)
        ]
        residual = np.array([draw.mean() for draw in draws]) - tiny.y
        variance = np.array([draw.var() for draw in draws])
        single = [np.mean((draw - label) ** 2) for draw, label in zip(draws, tiny.y, strict=True)]
        assert row["n_rows"] == N_TEST
        assert row["n_samples"] == n_samples
        assert row["rmse"] == pytest.approx(np.sqrt(np.mean(residual**2)), rel=1e-6)
        assert row["rmse_of_draws"] == pytest.approx(np.sqrt(np.mean(single)), rel=1e-6)
        expected = np.sqrt(np.mean(residual**2 + variance / n_samples))
        assert row["expected"] == pytest.approx(expected, rel=1e-6)


def test_columns_are_rounded_as_the_model_rounds_rows(tiny):
    subject = tiny
    explainer = Explainer(subject.ensemble, Marginal(tiny.training.X))
    for j in range(D):
        cuts = np.float32(subject.ensemble.threshold[subject.ensemble.feature == j])
        column = tiny.training.X[:, j, None]
        assert ((column < cuts) & (np.float32(column) == cuts)).any()  # it matters here
        every = [outcomes(subject.ensemble.predict, x, [j], tiny.training.X).mean() for x in subject.X]
        np.testing.assert_allclose(explainer.expected_prediction(subject.X, [j]), every, rtol=1e-13)


def test_moments_of_many_subsets_at_once(tiny):
    subject = tiny
    masks = np.random.default_rng(3).random((N_TEST, D)) < 0.5
    masks[0], masks[1:3] = False, masks[3]  # nothing to draw; and a subset that several rows share
    explainer = Explainer(subject.ensemble, Marginal(tiny.training.X))
    mean, variance = randomising.moments(explainer, subject.X, masks)
    for i, x in enumerate(subject.X):
        every = outcomes(subject.ensemble.predict, x, np.flatnonzero(masks[i]), tiny.training.X)
        assert mean[i] == pytest.approx(every.mean(), rel=1e-12)
        assert variance[i] == pytest.approx(every.var(), rel=1e-9, abs=1e-12)
    assert variance[0] == 0


# ---- sampling ------------------------------------------------------------------------------------


def test_sampling_errs_as_much_as_is_said(tiny, monkeypatch):
    """4,000 runs of the protocol: their mean and spread are `expected` and `standard_error`."""
    monkeypatch.setattr(randomising, "_DRAWN_AT_ONCE", 100_001)
    subject, runs, n_samples, k = tiny, 4000, 40, 2
    order = shap_ranking(subject).order[:, :k]
    masks = np.array([np.isin(np.arange(D), features) for features in order])
    explainer = Explainer(subject.ensemble, Marginal(tiny.training.X))
    mean, variance = randomising.moments(explainer, subject.X, masks)
    booster = xgboost.Booster({"nthread": 1}, model_file=subject.model)
    drawn = randomising.sampled_mean(
        *(booster.inplace_predict, np.tile(subject.X, (runs, 1)), tiny.training.X, np.tile(order, (runs, 1))),
        *(n_samples, np.random.default_rng(0)),
    ).reshape(runs, N_TEST)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=5 * np.sqrt(variance.max() / n_samples / runs))
    np.testing.assert_allclose(drawn.var(axis=0), variance / n_samples, rtol=0.15)
    errors = Errors(mean - tiny.y, variance)
    squares = np.mean((drawn - tiny.y) ** 2, axis=1)
    assert np.sqrt(squares.mean()) == pytest.approx(errors.rmse(n_samples), rel=0.005)
    assert np.sqrt(squares).std() == pytest.approx(errors.standard_error(n_samples), rel=0.06)


def test_sampled_cells_are_near_what_is_expected(tiny):
    many = replace(CONFIG, described_samples=2000, published_samples=2000)
    rows = randomising.run(many, [tiny]).records()
    z = [(row["sampled"] - row["expected"]) / row["standard_error"] for row in rows]
    assert len(z) == 18
    assert max(map(abs, z)) < 4
    assert len({row["sampled"] for row in rows}) == 18
    other = randomising.run(replace(many, seed=1), [tiny]).column("sampled")
    assert not {row["sampled"] for row in rows} & set(other)


def test_nothing_to_draw_is_no_error():
    errors = Errors(np.zeros(3), np.zeros(3))
    assert errors.rmse() == errors.rmse(5) == errors.standard_error(5) == 0


# ---- the table -----------------------------------------------------------------------------------


def test_intervals_and_advantages(table):
    for row in table.where(protocol="as described"):
        assert row["low"] < row["rmse"] < row["high"]
        (shap,) = table.where(protocol="as described", k=row["k"], method="shap")
        if row["method"] == "shap":
            assert row["scale"] is row["advantage"] is row["advantage_low"] is row["advantage_high"] is None
        else:
            assert row["advantage"] == pytest.approx(row["rmse"] - shap["rmse"], abs=1e-14)
            assert row["advantage_low"] <= row["advantage_high"]
    for row in table.where(protocol="as published"):
        assert row["low"] is row["high"] is row["advantage"] is None


def test_published_cells_are_judged_by_standard_errors(table):
    for row in table.records():
        assert row["published"] == published.printed(
            *("randomising",),
            **{name: row[name] for name in ("kind", "dataset", "method", "scale", "k")},
        )
        error, expected, number = row["standard_error"], row["expected"], float(row["published"])
        assert row["z"] == pytest.approx((number - expected) / error)
        assert row["verdict"] == published.judge(row["published"], expected)
        for column, z in (("within", 1.959964), ("within_jointly", 2.766)):  # 0.95, and its 9th root
            inside = abs(number - expected) <= z * error + 0.0005
            assert row[column] == ("inside" if inside else "outside")
    assert {row["within"] for row in table.records()} == {"inside", "outside"}


def test_without_training_rows_and_sampling(tiny):
    subject = replace(tiny, dataset="unpublished", training=None)
    result = randomising.run(replace(CONFIG, sampled=False), [subject])
    assert set(result.column("protocol")) == {"as described"}
    for column in ("sampled", "published", "verdict", "z", "within", "within_jointly"):
        assert set(result.column(column)) == {None}


def test_the_same_for_any_number_of_threads_and_after_saving(tiny, table, tmp_path):
    assert randomising.run(CONFIG, [tiny], n_jobs=2).rows == table.rows
    table.save(tmp_path)
    assert Result.load(tmp_path, "randomising").rows == table.rows
    manifest = json.loads((tmp_path / "randomising.json").read_text())
    assert manifest["config"]["published_samples"] == 5
    assert manifest["seed"] == 0


@pytest.mark.parametrize(
    "wrong",
    [{"places": ()}, {"places": (0, 1)}, {"published_samples": 0}, {"n_resamples": 0}, {"confidence": 1.0}],
)
def test_impossible_configs_are_refused(wrong):
    with pytest.raises(PredgapError, match="impossible"):
        Config(**wrong)


def test_what_does_not_fit_together_is_refused(tiny):
    with pytest.raises(PredgapError, match="has 4 features"):
        randomising.run(Config(places=(1, 5)), [tiny])


# ---- the paper's table ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authors(shared_data) -> tuple[Subject, ...]:
    return authors_subjects(shared_data, kinds=["Bigger"])


@pytest.fixture(scope="module")
def paper(authors) -> Result:
    return randomising.run(Config(sampled=False), authors)


@pytest.mark.slow_paper
def test_the_table_as_published_is_within_sampling_error_for_wine_and_parkinson(paper):
    rows = paper.where(protocol="as published")
    assert {row["dataset"] for row in rows} == {"wine", "telemetry"}
    assert len(rows) == 24
    assert all(row["within_jointly"] == "inside" for row in rows)
    outside = [(row["dataset"], row["k"], row["scale"]) for row in rows if row["within"] == "outside"]
    assert outside == [("telemetry", 1, 0.3)]  # one of 24 intervals of 95 % may be
    z = np.array([row["z"] for row in rows])
    assert np.sum(z**2) < 36.4  # 95 % of χ² with 24 degrees of freedom
    assert np.sum(z**2) > 13.8  # 5 %: the errors are not too large either
    assert sum(row["verdict"] == "matches" for row in rows) == 10


@pytest.mark.slow_paper
def test_no_cell_is_what_the_text_describes(paper):
    rows = paper.where(protocol="as described")
    assert len(rows) == 36
    assert all(row["within_jointly"] == "outside" for row in rows)


@pytest.mark.slow_paper
def test_done_right_shap_wins_at_first_and_at_small_scales(paper):
    """The paper: no significant difference for wine and Parkinson, σ of 0.1 and 0.3 better for Housing."""
    greedy = paper.where(protocol="as described", method="greedy")
    assert all(row["advantage_high"] < 0 for row in greedy if row["k"] == 1 or row["scale"] < 1)
    better = [(row["dataset"], row["k"], row["scale"]) for row in greedy if row["advantage_low"] > 0]
    assert better == [("housing", 3, 1.0), ("telemetry", 3, 1.0)]


@pytest.mark.slow_paper
def test_files_of_training_rows_are_named(authors, paper):
    assert [one.training.in_order for one in authors] == [True, False, True]
    splits = [name for name in paper.files if not name.startswith(("models/", "splits/test"))]
    assert splits == [
        "raw/housing.csv",
        "splits/housing_scaling_params.csv",
        "splits/train_telemetry_scaled.csv",
        "splits/train_winequality_red_scaled.csv",
    ]
    assert len(paper.files) == 10
