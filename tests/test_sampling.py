"""Estimates against exact gaps: their errors are what they say they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from predgap import Explainer, Marginal, Normal, PredgapError, SubsetError
from predgap.sampling import _sequence
from reference import tails_of
from strategies import Split, ensemble_of, mask_of, problems, random_ensemble

METHODS = {"mc": {}, "sobol": {"sequence": "sobol"}, "halton": {"sequence": "halton"}}
each_method = pytest.mark.parametrize("name", METHODS)


def ask(explainer, X, subset, name, **options):
    return explainer.estimate(X, subset, "mc" if name == "mc" else "qmc", **METHODS[name], **options)


@pytest.fixture(scope="module")
def case() -> tuple[Explainer, np.ndarray, list[int]]:
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_trees=10, depth=4, n_features=6)
    return Explainer(ensemble, Normal(0.5)), rng.normal(size=(40, 6)), [0, 2, 3, 5]


@each_method
def test_errors_are_what_they_say(case, name):
    """Over many seeds, 95 % intervals hold the exact gap about that often."""
    explainer, X, subset = case
    exact = explainer.gap(X, subset)
    z = []
    for seed in range(60):
        found = ask(explainer, X, subset, name, n_samples=1024, seed=seed)
        z.append((found.value - exact) / found.standard_error)
    z = np.array(z)
    covered = np.mean(np.abs(z) < 2.13, axis=0)  # 95 % of t with 15 degrees of freedom
    assert abs(z.mean()) < 0.15
    assert 0.9 < covered.mean() < 0.98
    assert covered.min() > 0.75


@each_method
def test_looking_in_between_changes_nothing(case, name):
    explainer, X, subset = case
    at_once = ask(explainer, X, subset, name, n_samples=8192)
    with_looks = ask(explainer, X, subset, name, n_samples=8192, rtol=1e-12)  # never reached
    assert with_looks.n_samples.tolist() == [8192] * 40
    np.testing.assert_allclose(with_looks.value, at_once.value, rtol=1e-13)


@each_method
def test_points_that_come_in_parts_change_nothing(case, name, monkeypatch):
    explainer, X, subset = case
    at_once = ask(explainer, X, subset, name, n_samples=np.int64(2048))
    monkeypatch.setattr("predgap.sampling._POINT_DOUBLES", 100 * 16 * len(subset))  # no power of 2
    np.testing.assert_allclose(
        ask(explainer, X, subset, name, n_samples=2048).value, at_once.value, rtol=1e-13
    )


@pytest.mark.parametrize("name", ["sobol", "halton"])
def test_more_points_repeat_fewer(name):
    draw, again = (_sequence(name, 3, np.random.SeedSequence(1)) for _ in range(2))
    parts = np.concatenate([draw(64), draw(64), draw(128)], axis=1)
    assert (parts == again(256)).all()
    assert parts.min() >= 0
    assert parts.max() < 1


def test_the_first_samples_of_a_stream_are_the_same(case):
    """One row, by hand: the mean of the first n of the stream's squares."""
    explainer, X, subset = case
    for n in (64, 128):
        points = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(0,))).random((n, 4))
        sums = explainer._engine.sample(
            explainer.ensemble.cast(X[:1]), mask_of(subset, 6), points[None], np.array([n])
        )
        found = ask(explainer, X[:1], subset, "mc", n_samples=n, seed=7)
        assert found.value[0] == sums[0, 0, 1] / n


@each_method
def test_the_same_bits_for_any_number_of_threads(case, name):
    explainer, X, subset = case
    threads = Explainer(explainer.ensemble, explainer.noise, n_jobs=3)
    one, three = (ask(e, X, subset, name, n_samples=2048, seed=5) for e in (explainer, threads))
    assert one.value.tobytes() == three.value.tobytes()
    assert one.standard_error.tobytes() == three.standard_error.tobytes()
    other = ask(explainer, X, subset, name, n_samples=2048, seed=6)
    assert (one.value != other.value).any()


@each_method
def test_sampling_stops_at_the_tolerance(case, name):
    explainer, X, subset = case
    found = ask(explainer, X, subset, name, rtol=0.01, n_samples=1 << 17)
    sure = found.standard_error <= 0.01 * found.value
    assert (sure | (found.n_samples == found.n_samples.max())).all()
    assert sure.mean() > 0.8
    assert found.n_samples.min() < found.n_samples.max()


@given(problems(max_rows=2), st.integers(0, 9))
def test_a_sample_is_the_model_at_the_perturbed_row(problem, seed):
    """Each point moves the row into the cell that the inverse transform says; the model is asked there."""
    subset = sorted(problem.subset)
    if not subset:
        return
    explainer = Explainer(problem.ensemble, problem.noise)
    rows = problem.ensemble.cast(problem.X)
    points = np.random.default_rng(seed).random((1, 5, len(subset)))
    tails = tails_of(problem.noise, problem.ensemble)
    for i in range(5):
        found = explainer._engine.sample(
            rows, mask_of(subset, rows.shape[1]), points[:, i : i + 1].copy(), np.array([1])
        )
        for r, x in enumerate(rows):
            moved = x.copy()
            for j, u in zip(subset, points[0, i], strict=True):
                thresholds = np.unique(problem.ensemble.threshold[problem.ensemble.feature == j])
                if np.isfinite(x[j]) and len(thresholds):
                    below, _ = tails(j, float(x[j]), list(thresholds))
                    cell = int(np.sum(np.array(below) <= u))
                    moved[j] = thresholds[cell - 1] if cell else np.nextafter(thresholds[0], -np.inf)
            values = [problem.ensemble.value[problem.ensemble._route(p[None])[0], 0] for p in (moved, x)]
            change = (values[0] - values[1]).sum()
            scale = np.abs(values).sum()
            assert found[r, 0, 0] == pytest.approx(change, rel=1e-12, abs=1e-13 * scale)


def test_auto_is_exact_when_it_can_be_and_says_so(case):
    explainer, X, subset = case
    found = explainer.estimate(X, subset)
    assert set(found.method) == {"exact"}
    assert (found.value == explainer.gap(X, subset)).all()
    assert (found.standard_error == 0).all()
    assert (found.error_bound == 0).all()


def test_auto_samples_what_is_out_of_reach(monkeypatch):
    monkeypatch.setattr("predgap.engine._SECONDS_UNASKED", 1e-3)
    rng = np.random.default_rng(0)
    forest = random_ensemble(rng, n_trees=20, depth=9, n_features=30)
    explainer = Explainer(forest, Normal(0.3))
    found = explainer.estimate(rng.normal(size=(2, 30)), range(30), n_samples=2048)
    assert set(found.method) == {"qmc"}
    assert (found.standard_error > 0).all()
    assert np.isinf(found.error_bound).all()


@pytest.mark.parametrize("strategy", ["terms", "pairs"])
def test_the_mean_is_exact(case, strategy):
    explainer, X, subset = case
    found = Explainer(explainer.ensemble, explainer.noise, _strategy=strategy).mean(X, subset)
    sums = explainer._engine.sample(
        explainer.ensemble.cast(X),
        mask_of(subset, 6),
        np.random.default_rng(0).random((1, 40_000, 4)),
        np.array([40_000]),
    )
    error = np.sqrt(sums[:, 0, 1] / 40_000 / 40_000)
    assert (np.abs(explainer.ensemble.predict(X) + sums[:, 0, 0] / 40_000 - found) < 5 * error).all()
    assert found == pytest.approx(explainer.mean(X, subset), rel=1e-13)
    assert (explainer.mean(X, []) == explainer.ensemble.predict(X)).all()


def test_marginal_noise_replaces_values_by_those_of_the_column():
    """By hand: three of four values send the row across."""
    stump = ensemble_of([Split(0, 2.0, 0.0, 10.0)], 2)
    explainer = Explainer(stump, Marginal([[1.0, 0], [2.0, 0], [3.0, 0], [np.nan, 0], [5.0, 0]]))
    assert explainer.gap([[0.0, 0.0], [9.0, 0.0]], [0]).tolist() == [75.0, 25.0]
    assert explainer.mean([[0.0, 0.0]], [0]).tolist() == [1.0 + 7.5]


def test_marginal_values_are_rounded_as_the_model_rounds_rows():
    """0.1 in float32 lies above 0.1: a row with 0.1 goes right, and so must a value drawn from the column."""
    stump = ensemble_of([Split(0, float(np.float32(0.1)), 0.0, 10.0)], 1, row_dtype=np.float32)
    assert stump.predict([[0.1]]) == 1.0 + 10.0
    assert Explainer(stump, Marginal([[0.1]])).gap([[0.0]], [0]).tolist() == [100.0]


BAD = {
    "method": ({"method": "magic"}, "'magic' is unknown; expected 'auto'"),
    "sequence": ({"method": "qmc", "sequence": "faure"}, "'faure' is unknown; expected 'sobol'"),
    "too few samples": ({"method": "mc", "n_samples": 3}, "n_samples is 3, expected at least"),
    "half a sample": ({"method": "mc", "n_samples": 64.5}, "n_samples is 64.5, expected a whole number"),
    "half a seed": ({"method": "mc", "seed": 0.5}, "seed is 0.5, expected a whole number"),
    "no tolerance": ({"method": "mc", "rtol": 0.0}, "rtol is 0.0, expected a positive number"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD)
def test_a_bad_request_is_refused(case, options, message):
    explainer, X, subset = case
    with pytest.raises(PredgapError, match=message):
        explainer.estimate(X, subset, **options)


def test_an_unknown_method_is_refused_for_no_features_too(case):
    explainer, X, _ = case
    with pytest.raises(PredgapError, match="unknown"):
        explainer.estimate(X, [], "magic")


def test_one_subset_for_all_rows_is_needed(case):
    explainer, X, _ = case
    with pytest.raises(SubsetError, match="one subset for all rows"):
        explainer.estimate(X, np.ones((40, 6), dtype=bool))


@pytest.mark.parametrize("ask", ["estimate qmc", "estimate mc", "curve"])
def test_what_was_not_seen_to_move_is_not_sure(ask):
    """A move that one sample in thousands makes: a tolerance must not be met by 0 ± 0."""
    rare = ensemble_of([Split(0, 1.2, 0.0, 100.0)], 2)
    explainer = Explainer(rare, Normal(0.3))
    x, options = np.zeros((1, 2)), {"rtol": 0.01, "n_samples": 4096}
    for seed in range(4):
        if ask == "curve":
            found = explainer.curve(x, [0, 1], estimator="qmc", seed=seed, **options)
        else:
            found = explainer.estimate(x, [0], ask.split()[1], seed=seed, **options)
        assert (found.n_samples[found.value == 0] == 4096).all()
        assert (found.standard_error[found.value > 0] > 0).all()


def test_replicates_that_agree_are_not_certain():
    """A quarter of all points, all but 1e-5 of them: every replicate counts the same."""
    quarter = ensemble_of([Split(0, float(norm.ppf(0.75 - 1e-5)), 0.0, 1.0)], 1)
    found = Explainer(quarter, Normal(1.0)).estimate([[0.0]], [0], "qmc", n_samples=1024)
    assert found.value[0] == 0.25
    assert 0 < found.standard_error[0] < 1e-3
    assert abs(found.value[0] - (0.25 + 1e-5)) <= 3 * found.standard_error[0]
