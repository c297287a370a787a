"""Estimates against exact gaps: their errors are what they say they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from asking import Core, rows_at_once
from assertions import STRATEGIES, exactly
from predgap import Explainer, Marginal, Normal, PredgapError, SubsetError
from predgap._engine.sampling import REPLICATES, Replicates, _sequence, row_stream
from reference import replaces, tails_of
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
    for room in ("_POINT_DOUBLES", "_CUBE_DOUBLES"):
        monkeypatch.setattr(f"predgap._engine.sampling.{room}", 100 * 16 * len(subset))  # no power of 2
    np.testing.assert_allclose(
        ask(explainer, X, subset, name, n_samples=2048).value, at_once.value, rtol=1e-13
    )


@pytest.mark.parametrize("name", ["sobol", "halton"])
def test_more_points_repeat_fewer(name):
    draw, again = (_sequence(name, 3, np.random.SeedSequence(1)) for _ in range(2))
    parts = np.concatenate([draw(64), draw(64), draw(128)])
    assert (parts == again(256)).all()
    assert parts.min() >= 0
    assert parts.max() < 1


@pytest.mark.parametrize("sequence", ["sobol", "halton", "random"])
def test_points_may_be_asked_for_again(sequence, monkeypatch):
    """Chunks of rows need the same points, whether these were kept or not."""
    places = ((0, 64), (64, 128), (128, 256))
    kept = Replicates(sequence, 3, seed=1)
    once = [kept.points(*place) for place in places]
    assert all(block.shape[0] == REPLICATES for block in once)
    monkeypatch.setattr(
        "predgap._engine.sampling._CUBE_DOUBLES", REPLICATES * 3 * 64
    )  # room for the first block
    forgotten = Replicates(sequence, 3, seed=1)
    for _ in range(2):
        for block, place in zip(once, places, strict=True):
            assert (forgotten.points(*place) == block).all()
            assert (kept.points(*place) == block).all()
    assert (forgotten.points(64, 128) == once[1]).all()


def test_the_first_samples_of_a_stream_are_the_same(case):
    """One row, by hand: the mean of the first n of the stream's squares."""
    explainer, X, subset = case
    for n in (64, 128):
        points = row_stream(7, explainer.ensemble.cast(X[:1])[0]).random((n, 4))
        sums = Core(explainer).sample(
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
def test_a_row_does_not_depend_on_its_neighbours(case, name):
    """Neither on their number, nor on its place among them, nor on how many fit into memory."""
    explainer, X, subset = case
    asked = {"n_samples": 2048, "seed": 5, "rtol": 0.03}
    whole = ask(explainer, X, subset, name, **asked)
    shuffle = np.random.default_rng(0).permutation(len(X))
    shuffled = ask(explainer, X[shuffle], subset, name, **asked)
    for column in ("value", "standard_error", "n_samples"):
        assert getattr(whole, column)[shuffle].tobytes() == getattr(shuffled, column).tobytes()
    alone = ask(explainer, X[7:8], subset, name, **asked)
    assert alone.value[0] == whole.value[7]


@each_method
def test_rows_come_in_chunks(case, name, monkeypatch):
    explainer, X, subset = case
    whole = ask(explainer, X, subset, name, n_samples=2048)
    monkeypatch.setattr("predgap._engine.sampling._SUM_DOUBLES", 3 * REPLICATES * 7)
    monkeypatch.setattr("predgap._engine.sampling._POINT_DOUBLES", 2048 * len(subset) * 7)
    at_once = rows_at_once(explainer, monkeypatch)
    chunked = ask(explainer, X, subset, name, n_samples=2048)
    assert max(at_once) == 7
    np.testing.assert_allclose(chunked.value, whole.value, rtol=1e-13)


def test_sampled_curves_never_hold_the_sums_of_all_rows(case, monkeypatch):
    explainer, X, _ = case
    sampled = explainer.approximate(method="qmc", n_samples=1024)
    whole, mean = sampled.curve(X, range(6)), sampled.pgi2(X, range(6))
    monkeypatch.setattr("predgap._engine.sampling._SUM_DOUBLES", REPLICATES * 6 * 3)
    at_once = rows_at_once(explainer, monkeypatch)
    assert sampled.curve(X, range(6)).value.tobytes() == whole.value.tobytes()
    assert sampled.pgi2(X, range(6)).value.tobytes() == mean.value.tobytes()
    assert max(at_once) == 3


@each_method
@pytest.mark.parametrize("n_features", [1, 30_000])
def test_only_features_that_the_model_uses_need_coordinates(name, n_features):
    """Sobol's points have at most 21,201."""
    stump = ensemble_of([Split(n_features - 1, 0.5, 1.0, 3.0)], n_features)
    explainer = Explainer(stump, Normal(1.0))
    x = np.zeros((2, n_features))
    found = ask(explainer, x, range(n_features), name, n_samples=4096)
    exact = explainer.gap(x, range(n_features))
    assert (np.abs(found.value - exact) <= 5 * found.standard_error).all()


def test_too_many_features_for_sobol_are_refused():
    d = 21_202
    stumps = ensemble_of([Split(q, 0.5, 1.0, 3.0) for q in range(d)], d)
    explainer = Explainer(stumps, Normal(1.0))
    with pytest.raises(PredgapError, match=r"21,202 features .* at most 21,201 .*sequence='halton'"):
        explainer.estimate(np.zeros((1, d)), range(d), "qmc", n_samples=32)


@each_method
def test_no_rows_and_no_features(name):
    stump = ensemble_of([Split(0, 0.5, 1.0, 3.0)], 2)
    explainer = Explainer(stump, Normal(1.0))
    assert ask(explainer, np.empty((0, 2)), [0], name).value.shape == (0,)
    for subset in ([], [1]):  # which the model does not use
        found = ask(explainer, np.zeros((3, 2)), subset, name)
        assert found.value.tolist() == found.error_bound.tolist() == [0.0] * 3
        assert set(found.method) == {"exact"}


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
        found = Core(explainer).sample(
            rows, mask_of(subset, rows.shape[1]), points[:, i : i + 1].copy(), np.array([1])
        )
        for r, x in enumerate(rows):
            moved = x.copy()
            for j, u in zip(subset, points[0, i], strict=True):
                thresholds = np.unique(problem.ensemble.threshold[problem.ensemble.feature == j])
                moves = np.isfinite(x[j]) or (np.isinf(x[j]) and replaces(tails, j))
                if moves and len(thresholds):
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
    monkeypatch.setattr("predgap.explainer.explainer.AFFORDABLE", 1e-6)
    rng = np.random.default_rng(0)
    forest = random_ensemble(rng, n_trees=20, depth=9, n_features=30)
    explainer = Explainer(forest, Normal(0.3))
    found = explainer.estimate(rng.normal(size=(2, 30)), range(30), n_samples=2048)
    assert set(found.method) == {"qmc"}
    assert (found.standard_error > 0).all()
    assert np.isinf(found.error_bound).all()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_expected_prediction_is_exact(case, strategy):
    explainer, X, subset = case
    asked = exactly(explainer.ensemble, explainer.noise, strategy)
    found = asked.expected_prediction(X, subset)
    sums = Core(explainer).sample(
        explainer.ensemble.cast(X),
        mask_of(subset, 6),
        np.random.default_rng(0).random((1, 40_000, 4)),
        np.array([40_000]),
    )
    error = np.sqrt(sums[:, 0, 1] / 40_000 / 40_000)
    assert (np.abs(explainer.ensemble.predict(X) + sums[:, 0, 0] / 40_000 - found) < 5 * error).all()
    assert found == pytest.approx(explainer.expected_prediction(X, subset), rel=1e-13)
    assert (asked.expected_prediction(X, []) == explainer.ensemble.predict(X)).all()
    masks = np.random.default_rng(1).random(X.shape) < 0.5
    each = [asked.expected_prediction(x[None], mask)[0] for x, mask in zip(X, masks, strict=True)]
    assert asked.expected_prediction(X, masks).tolist() == each


def test_marginal_noise_replaces_values_by_those_of_the_column():
    """By hand: three of four values send the row across."""
    stump = ensemble_of([Split(0, 2.0, 0.0, 10.0)], 2)
    explainer = Explainer(stump, Marginal([[1.0, 0], [2.0, 0], [3.0, 0], [np.nan, 0], [5.0, 0]]))
    assert explainer.gap([[0.0, 0.0], [9.0, 0.0]], [0]).tolist() == [75.0, 25.0]
    assert explainer.expected_prediction([[0.0, 0.0]], [0]).tolist() == [1.0 + 7.5]


def test_marginal_values_are_rounded_as_the_model_rounds_rows():
    """0.1 in float32 lies above 0.1: a row with 0.1 goes right, and so must a value drawn from the column."""
    stump = ensemble_of([Split(0, float(np.float32(0.1)), 0.0, 10.0)], 1, rows=np.float32)
    assert stump.predict([[0.1]]) == 1.0 + 10.0
    assert Explainer(stump, Marginal([[0.1]])).gap([[0.0]], [0]).tolist() == [100.0]


BAD = {
    "method": ({"method": "magic"}, "'magic' is unknown; expected 'auto'"),
    "sequence": ({"method": "qmc", "sequence": "faure"}, "'faure' is unknown; expected 'sobol'"),
    "too few samples": ({"method": "mc", "n_samples": 3}, "n_samples is 3, expected at least"),
    "half a sample": ({"method": "mc", "n_samples": 64.5}, "n_samples is 64.5, expected a whole number"),
    "half a seed": ({"method": "mc", "seed": 0.5}, "seed is 0.5, expected a whole number"),
    "no tolerance": ({"method": "mc", "rtol": 0.0}, "rtol is 0.0, expected a number between 0 and 1"),
    "no number": ({"method": "bounded", "rtol": "a"}, "rtol is 'a', expected a number between 0 and 1"),
    "half a true": ({"method": "qmc", "rtol": True}, "rtol is True, expected a number between 0 and 1"),
    "endless": ({"method": "bounded", "rtol": np.inf}, "rtol is inf, expected a number between 0 and 1"),
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
            found = explainer.approximate(0.01, "qmc", n_samples=4096, seed=seed).curve(x, [0, 1])
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
