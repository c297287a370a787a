"""Sampled rankings and curves: what they are by definition, how sure they are, and that they say so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from predgap import CostError, Explainer, Normal, PerFeature, PredgapError, Ranking
from predgap.racing import race
from predgap.sampling import REPLICATES, _curve_sums, common_points
from strategies import Split, Tree, ensemble_of, mask_of, mixed_problems, problems, random_ensemble
from test_kernels import interrupted

ONE_LOOK = 1024  # samples before candidates are first compared


def squares(explainer: Explainer, x, subset, column, drawn) -> np.ndarray:
    """Sums of squared changes (REPLICATES,) of one row by `Engine.sample`, over the outputs."""
    subset = [q for q in sorted(subset) if column[q] >= 0]
    if not subset:
        return np.zeros(REPLICATES)
    cube = drawn.reshape(1, -1, drawn.shape[2])[:, :, column[subset]].copy()
    ends = np.arange(1, REPLICATES + 1) * drawn.shape[1]
    mask = mask_of(subset, len(x))
    return sum(engine.sample(x[None], mask, cube, ends)[0, :, 1] for engine in explainer._engines)


def common(explainer: Explainer, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
    column, replicates = common_points(explainer._engines, 0)
    return column, replicates.draw(n_samples // REPLICATES)


@st.composite
def ordered(draw, some) -> tuple:
    problem = draw(some)
    return problem, np.array(draw(st.permutations(range(problem.ensemble.n_features))), dtype=np.intp)


# ---- by definition -------------------------------------------------------------------------------


@given(ordered(st.one_of(problems(), mixed_problems())))
def test_a_sampled_curve_is_that_of_its_prefixes(case):
    problem, order = case
    explainer = Explainer(problem.ensemble, problem.noise)
    rows = problem.ensemble.cast(problem.X)
    column, drawn = common(explainer, 64)
    orders = np.tile(order, (len(rows), 1)).astype(np.int32)
    found = _curve_sums(explainer._engine, rows, orders, column, drawn)
    for r, x in enumerate(rows):
        for k in range(len(x)):
            expected = squares(explainer, x, order[: k + 1].tolist(), column, drawn)
            np.testing.assert_allclose(found[r, :, k], expected, rtol=1e-10, atol=1e-18)


@given(st.one_of(problems(max_rows=1), mixed_problems(max_rows=1)), st.sampled_from(["greedy", "single"]))
def test_a_sampled_ranking_takes_the_largest_gain(problem, method):
    (x,) = problem.ensemble.cast(problem.X)
    check_places(Explainer(problem.ensemble, problem.noise), x, method)


@pytest.mark.parametrize("method", ["greedy", "single"])
def test_several_outputs_are_ranked_by_their_sum(method):
    rng = np.random.default_rng(1)
    trees = [Split(q, 0.1 * k, float(k), Split(3 - q, 0.2, q, 1.0)) for k in range(3) for q in range(4)]
    ensemble = ensemble_of(trees, 4, targets=np.repeat(range(3), 4), n_outputs=3)
    explainer, X = Explainer(ensemble, Normal(0.5)), rng.normal(size=(5, 4))
    for x in X:
        check_places(explainer, x, method)
    found, exact = explainer.curve(X, range(4), estimator="qmc"), explainer.curve(X, range(4))
    assert (np.abs(found.value - exact) <= 6 * found.standard_error + 1e-3).all()


def check_places(explainer: Explainer, x: np.ndarray, method: str) -> None:
    """Whatever came first, each place holds the feature whose gap is the largest at the common points."""
    column, drawn = common(explainer, ONE_LOOK)
    (order,), (scores,), (sureness,) = race(explainer._engines, x[None], method, ONE_LOOK, 0)
    for place, chosen in enumerate(order.tolist()):
        base = order[:place].tolist() if method == "greedy" else []
        before = squares(explainer, x, base, column, drawn)
        gain = {q: squares(explainer, x, [*base, q], column, drawn) - before for q in order[place:].tolist()}
        scale = 1e-9 * max(1.0, before.sum(), *(of.sum() for of in gain.values()))
        own = gain.pop(chosen)
        assert scores[chosen] == pytest.approx(own.sum() / ONE_LOOK, abs=scale)
        assert all(own.sum() >= of.sum() - scale for of in gain.values())
        if all(np.abs(own - of).max() > scale for of in gain.values()):
            closest = min((lead(own - of) for of in gain.values()), default=np.inf)
            assert sureness[place] == pytest.approx(stats.t.cdf(closest, REPLICATES - 1), abs=1e-6)


def lead(difference: np.ndarray) -> float:
    """The t statistic."""
    error = difference.std(ddof=1) / np.sqrt(REPLICATES)
    return difference.mean() / error if error > 0 else np.inf


# ---- against exact answers -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def case() -> tuple[Explainer, np.ndarray]:
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_trees=12, depth=4, n_features=7, used=range(6))
    return Explainer(ensemble, Normal(0.5)), rng.normal(size=(60, 7))


@pytest.mark.parametrize("method", ["greedy", "single"])
def test_a_sampled_ranking_is_the_exact_one_where_it_is_sure(case, method):
    explainer, X = case
    exact = explainer.rank(X, method, estimator="exact")
    sampled = explainer.rank(X, method, estimator="qmc")
    assert sampled.estimator == "qmc"
    sure = np.logical_and.accumulate(sampled.sureness > 0.999, axis=1)
    assert (sampled.order == exact.order)[sure].mean() > 0.995
    assert sure.mean() > 0.5
    assert ((sampled.sureness >= 0.5) & (sampled.sureness <= 1)).all()
    assert (sampled.sureness[:, -1] == 1).all()  # nobody is left to be confused with


@pytest.mark.parametrize("n_samples", [ONE_LOOK, 4 * ONE_LOOK])  # to look more than once is to stop by luck
def test_sureness_is_calibrated(n_samples):
    """Places that claim to be right with some confidence are right about that often, given those before."""
    rng = np.random.default_rng(2)
    right, claimed = [], []
    for seed in range(6):
        explainer = Explainer(random_ensemble(rng, n_trees=12, depth=4, n_features=7), Normal(0.5))
        X = rng.normal(size=(100, 7))
        sampled = explainer.rank(X, estimator="qmc", n_samples=n_samples, seed=seed)
        right.append(is_best(explainer, X, sampled.order)[:, :-1])
        claimed.append(sampled.sureness[:, :-1])
    right, claimed = np.concatenate(right), np.concatenate(claimed)
    for low, high in ((0.5, 0.7), (0.7, 0.9), (0.9, 0.99), (0.99, 1.1)):
        some = (claimed >= low) & (claimed < high)
        error = np.sqrt(np.mean(claimed[some] * (1 - claimed[some])) / some.sum())
        assert some.sum() > 50
        assert right[some].mean() > claimed[some].mean() - 3 * error


def is_best(explainer: Explainer, X: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Which places (n, d) hold the feature with the largest exact gap, given the places before them?"""
    best, taken = np.empty(order.shape, dtype=bool), np.zeros(order.shape, dtype=bool)
    for place, chosen in enumerate(order.T):
        joined = taken[:, None] | np.eye(order.shape[1], dtype=bool)
        gaps = np.stack([explainer.gap(X, joined[:, q]) for q in range(order.shape[1])], axis=1)
        own = np.take_along_axis(gaps, chosen[:, None], axis=1)
        best[:, place] = (own >= (1 - 1e-12) * np.where(taken, 0, gaps)).all(axis=1)
        np.put_along_axis(taken, chosen[:, None], True, axis=1)
    return best


def test_a_feature_that_does_nothing_gains_exactly_nothing(case):
    """At common points, an unused feature and one that is missing change nothing at all."""
    explainer, X = case
    X = X.copy()
    X[:, 2] = np.nan
    for method in ("greedy", "single"):
        sampled = explainer.rank(X, method, estimator="qmc", n_samples=ONE_LOOK)
        assert (sampled.scores[:, [2, 6]] == 0).all()
        assert (sampled.ranks[:, 2] < sampled.ranks[:, 6]).all()  # a tie goes to the lower index
    others_move = (np.delete(sampled.scores, [2, 6], axis=1) > 0).all(axis=1)
    assert others_move.any()
    assert (sampled.sureness[others_move, -2] == 1).all()  # and is certain


@pytest.mark.parametrize("threshold", [6.0, -6.0, 9.0, -9.0])  # P(x' < 9) is 1 in double precision
def test_a_tie_by_luck_is_not_certain(threshold):
    """Neither feature ever moved in the sample, but one could."""
    explainer = Explainer(ensemble_of([Split(1, threshold, 0.0, 1.0)], 2), Normal(1.0))
    sampled = explainer.rank([[0.0, 0.0]], estimator="qmc")
    assert sampled.sureness.tolist() == [[0.5, 1.0]]
    assert explainer.rank([[0.0, 0.0]]).order.tolist() == [[1, 0]]


@pytest.mark.parametrize("name", ["pgi2", "pgu2", "curve"])
def test_errors_are_what_they_say(case, name):
    explainer, X = case
    order = explainer.rank(X).order
    ask = getattr(explainer, name)
    exact = ask(X, order)
    some = exact > 1e-3
    if name == "curve":
        some[:, :2] = False  # lines and squares are divided so evenly that replicates tell little
    z = []
    for seed in range(40):
        found = ask(X, order, estimator="qmc", n_samples=1024, seed=seed)
        assert found.value.shape == found.method.shape == found.n_samples.shape == exact.shape
        z.append(((found.value - exact) / found.standard_error)[some])
    assert 0.8 < np.sqrt(np.mean(np.square(z))) < 1.25


def test_a_curve_stops_at_the_tolerance(case):
    explainer, X = case
    for ask in (explainer.curve, explainer.pgi2):
        found = ask(X, range(7), estimator="qmc", rtol=0.02, n_samples=1 << 16)
        sure = found.standard_error <= 0.02 * found.value
        assert (sure | (found.n_samples == 1 << 16)).all()
        assert sure.mean() > 0.9
        assert found.n_samples.min() < found.n_samples.max()
    at_once = explainer.pgi2(X, range(7), estimator="qmc", n_samples=4096)
    with_looks = explainer.pgi2(X, range(7), estimator="qmc", n_samples=4096, rtol=1e-12)
    np.testing.assert_allclose(with_looks.value, at_once.value, rtol=1e-12)


# ---- bounds --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def deep() -> tuple[Explainer, np.ndarray]:
    """Deep enough for bounds to be worth it, but not too deep for exact answers."""
    rng = np.random.default_rng(3)
    ensemble = random_ensemble(rng, n_trees=8, depth=9, n_features=6)
    return Explainer(ensemble, Normal(0.3), _strategy="pairs"), rng.normal(size=(5, 6))


def test_bounds_hold_the_exact_answer(deep):
    explainer, X = deep
    order = np.arange(6)
    for ask, answer in (
        (lambda **o: explainer.estimate(X, range(6), "bounded", **o), explainer.gap(X, range(6))),
        (lambda **o: explainer.curve(X, order, estimator="bounded", **o), explainer.curve(X, order)),
        (lambda **o: explainer.pgi2(X, order, estimator="bounded", **o), explainer.pgi2(X, order)),
        (lambda **o: explainer.pgu2(X, order, estimator="bounded", **o), explainer.pgu2(X, order)),
    ):
        for rtol in (None, 1e-2):
            found = ask(rtol=rtol)
            assert set(found.method.ravel()) == {"bounded"}
            assert (found.error_bound > 0).any(), "nothing was left out"
            assert (np.abs(found.value - answer) <= found.error_bound + 1e-12 * answer).all()
            assert (found.error_bound <= (rtol or 1e-6) * 1.001 * answer + 1e-300).all()
            assert (found.standard_error == 0).all()


@pytest.mark.parametrize("method", ["greedy", "single"])
def test_a_ranking_by_bounds_is_the_exact_one_where_they_prove_it(deep, method):
    explainer, X = deep
    exact = explainer.rank(X, method, estimator="exact")
    bounded = explainer.rank(X, method, estimator="bounded")
    assert bounded.estimator == "bounded"
    assert set(bounded.sureness.ravel()) <= {0.5, 1.0}
    proven = np.logical_and.accumulate(bounded.sureness == 1, axis=1)
    assert (bounded.order == exact.order)[proven].all()
    assert proven.mean() > 0.8
    np.testing.assert_allclose(bounded.scores[:, 0], exact.scores[:, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["greedy", "single"])
def test_equal_gaps_go_to_the_lower_index_by_bounds_too(method):
    """Features 0 and 1 do the same, up to the order in which it is added up."""
    rng = np.random.default_rng(4)

    def pair(levels: int) -> tuple[Tree, Tree]:
        if levels == 0:
            return (rng.normal(),) * 2
        feature, threshold = int(rng.integers(3)), rng.normal()
        (left, left_mirrored), (right, right_mirrored) = pair(levels - 1), pair(levels - 1)
        mirrored = Split((1, 0, 2)[feature], threshold, left_mirrored, right_mirrored)
        return Split(feature, threshold, left, right), mirrored

    trees = [tree for _ in range(4) for tree in pair(5)]
    explainer = Explainer(ensemble_of(trees, 3), Normal(0.5), _strategy="pairs")
    X = rng.normal(size=(20, 2))[:, [0, 0, 1]]
    bounded = explainer.rank(X, method, estimator="bounded")
    np.testing.assert_array_equal(bounded.order, explainer.rank(X, method, estimator="exact").order)
    adjacent = np.abs(bounded.ranks[:, 0] - bounded.ranks[:, 1]) == 1
    assert adjacent.any()
    assert (bounded.ranks[adjacent, 0] < bounded.ranks[adjacent, 1]).all()


# ---- promises ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["greedy", "single"])
def test_the_same_bits_for_any_threads_and_neighbours(case, method):
    explainer, X = case
    two = Explainer(explainer.ensemble, explainer.noise, n_jobs=2)
    asked = {"method": method, "estimator": "qmc", "n_samples": 2048, "seed": 3}
    whole, threads = explainer.rank(X, **asked), two.rank(X, **asked)
    parts = [explainer.rank(part, **asked) for part in (X[:7], X[7:8], X[8:])]
    for name in ("order", "scores", "sureness"):
        assert getattr(whole, name).tobytes() == getattr(threads, name).tobytes()
        assert getattr(whole, name).tobytes() == b"".join(getattr(part, name).tobytes() for part in parts)
    assert (whole.scores != explainer.rank(X, **(asked | {"seed": 4})).scores).any()


def test_a_sampled_curve_has_the_same_bits_for_any_threads_and_neighbours(case):
    explainer, X = case
    two = Explainer(explainer.ensemble, explainer.noise, n_jobs=2)
    asked = {"estimator": "qmc", "n_samples": 2048, "rtol": 0.05}
    whole, threads = explainer.pgi2(X, range(7), **asked), two.pgi2(X, range(7), **asked)
    parts = [explainer.pgi2(part, range(7), **asked) for part in (X[:7], X[7:])]
    assert whole.value.tobytes() == threads.value.tobytes()
    assert whole.value.tobytes() == b"".join(part.value.tobytes() for part in parts)


def test_laws_that_only_python_knows_are_sampled(case):
    from predgap import FromScipy

    explainer, X = case
    laplace = Explainer(
        explainer.ensemble, PerFeature({0: FromScipy(stats.laplace(scale=0.4))}, default=Normal(0.5))
    )
    exact, sampled = (laplace.rank(X, estimator=how) for how in ("exact", "qmc"))
    assert exact.agreement(sampled, k=1) > 0.9


@pytest.fixture(scope="module")
def forest() -> tuple[RandomForestRegressor, pd.DataFrame]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(3000, 12)), columns=[f"x{j}" for j in range(12)])
    y = np.sin(2 * X["x0"] * X["x1"]) + X["x2"] ** 2 + X["x3"] + 0.3 * rng.normal(size=3000)
    return RandomForestRegressor(30, random_state=0, n_jobs=2).fit(X, y), X


def test_an_unpruned_forest_is_ranked_and_says_how(forest, monkeypatch):
    for limit in ("_SECONDS_PER_ROW", "_SECONDS_UNASKED"):
        monkeypatch.setattr(f"predgap.engine.{limit}", 0.1)
    model, X = forest
    explainer = Explainer(model, Normal.relative(X, 0.3))
    rows = X[:4]
    with pytest.raises(CostError, match="estimator='auto'"):
        explainer.rank(rows, estimator="exact")
    ranking = explainer.rank(rows)
    assert ranking.estimator == "qmc"
    assert set(ranking.top(1).ravel()) <= {"x0", "x1", "x2", "x3"}
    assert (ranking.sureness[:, 0] > 0.99).any()
    frame = ranking.to_frame()
    assert list(frame.columns) == ["row", "place", "feature", "score", "sureness"]
    assert frame["sureness"].tolist() == ranking.sureness.ravel().tolist()
    assert ranking[1:3].sureness.tolist() == ranking.sureness[1:3].tolist()
    assert ranking[0].estimator == "qmc"
    with pytest.raises(CostError, match="estimator='auto'"):
        explainer.pgi2(rows, ranking)
    score = explainer.pgi2(rows, ranking, estimator="auto")
    assert set(score.method) == {"qmc"}
    assert (
        score.value - 3 * score.standard_error > explainer.pgu2(rows, ranking, estimator="auto").value
    ).all()
    again = explainer.pgi2(rows, Ranking(ranking.order), estimator="qmc")
    assert again.value.tobytes() == score.value.tobytes()


def test_a_pipeline_is_ranked_by_samples(forest):
    _, X = forest
    pipeline = make_pipeline(StandardScaler(), RandomForestRegressor(5, random_state=0)).fit(X, X["x2"])
    sampled = Explainer(pipeline, Normal(0.3)).rank(X[:3], estimator="qmc")
    assert (sampled.space, sampled.estimator) == ("after StandardScaler", "qmc")
    assert sampled.top(1).ravel().tolist() == ["x2"] * 3


def test_auto_is_exact_when_it_can_be_and_says_so(case):
    explainer, X = case
    ranking = explainer.rank(X)
    assert (ranking.estimator, ranking.sureness) == ("exact", None)
    assert "sureness" not in ranking.to_frame().columns
    for ask in (explainer.curve, explainer.pgi2, explainer.pgu2):
        found = ask(X, ranking, estimator="auto")
        assert (found.value == ask(X, ranking)).all()
        assert set(found.method.ravel()) == {"exact"}
        assert (found.error_bound == 0).all()
    assert Ranking.from_attributions(X).estimator is None


def test_an_empty_table_and_a_model_without_features_are_answered(case):
    explainer, _ = case
    assert explainer.rank(np.empty((0, 7)), estimator="qmc").sureness.shape == (0, 7)
    assert explainer.curve(np.empty((0, 7)), range(7), estimator="qmc").value.shape == (0, 7)
    constant = Explainer(ensemble_of([1.0], 0), Normal(1.0))
    X = np.empty((3, 0))
    assert constant.rank(X, estimator="qmc").order.shape == (3, 0)
    assert constant.pgi2(X, X.astype(int), estimator="qmc").value.tolist() == [0] * 3


def test_ctrl_c_answers_and_progress_is_told_by_rows(forest):
    model, X = forest
    told: list[tuple[int, int]] = []
    noise = Normal.relative(X, 0.3)
    explainer = Explainer(model, noise, n_jobs=2)
    assert interrupted(lambda: explainer.rank(X, estimator="qmc"), after=1.0) < 1.0
    assert interrupted(lambda: explainer.curve(X, range(12), estimator="qmc"), after=1.0) < 1.0
    watched = Explainer(model, noise, progress=lambda done, total: told.append((done, total)))
    watched.rank(X[:6], estimator="qmc")
    assert {total for _, total in told} == {6}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] > 0


BAD = {
    "estimator": ({"estimator": "magic"}, "estimator='magic' is unknown; expected 'auto', 'exact'"),
    "too few samples": ({"estimator": "qmc", "n_samples": 3}, "n_samples is 3, expected at least 32"),
    "half a sample": ({"estimator": "qmc", "n_samples": 64.5}, "n_samples is 64.5, expected a whole number"),
    "no tolerance": ({"estimator": "qmc", "rtol": -1.0}, "rtol is -1.0, expected a positive number"),
    "no seed": ({"estimator": "qmc", "seed": -1}, "seed is -1, expected a whole number"),
    "too many": ({"estimator": "qmc", "n_samples": 1 << 40}, "n_samples is 1099511627776, expected at most"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD)
def test_a_bad_request_is_refused(case, options, message):
    explainer, X = case
    if "at most" not in message:
        with pytest.raises(PredgapError, match=message):
            explainer.pgi2(X, range(7), **options)
    if "rtol" not in options:
        with pytest.raises(PredgapError, match=message):
            explainer.rank(X, **options)


def test_a_ranking_checks_its_sureness():
    with pytest.raises(PredgapError, match=r"sureness have shape \(2,\), order has \(1, 2\)"):
        Ranking([[0, 1]], sureness=[1.0, 1.0])
