"""Approximate answers: what they are by definition, how certain they are, and that they say so."""

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

from asking import Core, context_of, kernel_of
from assertions import exactly, interrupted
from predgap import Explainer, FromScipy, GapEstimate, Normal, PerFeature, PredgapError, Ranking, RankingError
from predgap._engine.accuracy import Prices
from predgap._engine.sampling import REPLICATES, common_points, race
from strategies import Split, ensemble_of, mask_of, mixed_problems, problems, random_ensemble

ONE_LOOK = 1024  # samples before candidates are first compared
SEQUENCE = {"qmc": "sobol", "mc": "random"}
each_sampler = pytest.mark.parametrize("by", ["qmc", "mc"])


def squares(explainer: Explainer, x, subset, column, drawn) -> np.ndarray:
    """Sums of squared changes (REPLICATES,) of one row by `Core.sample`, over the outputs."""
    subset = [q for q in sorted(subset) if column[q] >= 0]
    if not subset:
        return np.zeros(REPLICATES)
    cube = drawn.reshape(1, -1, drawn.shape[2])[:, :, column[subset]].copy()
    ends = np.arange(1, REPLICATES + 1) * drawn.shape[1]
    mask = mask_of(subset, len(x))
    return sum(
        Core(explainer).sample(x[None], mask, cube, ends, output)[0, :, 1]
        for output in range(explainer.ensemble.n_outputs)
    )


def common(explainer: Explainer, n_samples: int, by: str = "qmc") -> tuple[np.ndarray, np.ndarray]:
    column, replicates = common_points(kernel_of(explainer).used, 0, SEQUENCE[by])
    return column, replicates.points(0, n_samples // REPLICATES)


@st.composite
def ordered(draw, some) -> tuple:
    problem = draw(some)
    d = problem.ensemble.n_features
    order = draw(st.permutations(range(d)))[: draw(st.integers(1, d))]
    return problem, np.array(order, dtype=np.int32)


# ---- by definition -------------------------------------------------------------------------------


@each_sampler
@given(case=ordered(st.one_of(problems(), mixed_problems())))
def test_a_sampled_curve_is_that_of_its_prefixes(by, case):
    problem, order = case
    explainer = Explainer(problem.ensemble, problem.noise)
    rows = problem.ensemble.cast(problem.X)
    column, drawn = common(explainer, 64, by)
    points = drawn.reshape(-1, drawn.shape[2])
    found = Core(explainer).sample_curve(rows, order[None], points, column, REPLICATES)
    for r, x in enumerate(rows):
        for k in range(len(order)):
            expected = squares(explainer, x, order[: k + 1].tolist(), column, drawn)
            np.testing.assert_allclose(found[r, :, k], expected, rtol=1e-10, atol=1e-18)


@each_sampler
@pytest.mark.parametrize("method", ["greedy", "single"])
@given(problem=st.one_of(problems(max_rows=1), mixed_problems(max_rows=1)))
def test_a_sampled_ranking_takes_the_largest_gain(by, method, problem):
    (x,) = problem.ensemble.cast(problem.X)
    check_places(Explainer(problem.ensemble, problem.noise), x, method, by)


@each_sampler
@pytest.mark.parametrize("method", ["greedy", "single"])
@given(problem=st.one_of(problems(max_rows=1), mixed_problems(max_rows=1)), data=st.data())
def test_a_sampled_ranking_of_groups_takes_the_largest_gain(by, method, problem, data):
    (x,) = problem.ensemble.cast(problem.X)
    group_of = data.draw(st.lists(st.integers(0, 2), min_size=len(x), max_size=len(x)))
    firsts = dict.fromkeys(group_of)  # groups by their first features
    members = tuple(tuple(q for q in range(len(x)) if group_of[q] == group) for group in firsts)
    check_places(Explainer(problem.ensemble, problem.noise), x, method, by, members)


@pytest.mark.parametrize("method", ["greedy", "single"])
def test_several_outputs_are_ranked_by_their_sum(method):
    rng = np.random.default_rng(1)
    trees = [Split(q, 0.1 * k, float(k), Split(3 - q, 0.2, q, 1.0)) for k in range(3) for q in range(4)]
    ensemble = ensemble_of(trees, 4, targets=np.repeat(range(3), 4), n_outputs=3)
    explainer, X = Explainer(ensemble, Normal(0.5)), rng.normal(size=(5, 4))
    for x in X:
        check_places(explainer, x, method, "qmc")
    found, exact = explainer.approximate(method="qmc").curve(X, range(4)), explainer.curve(X, range(4))
    assert (np.abs(found.value - exact) <= 6 * found.standard_error + 1e-3).all()


def check_places(
    explainer: Explainer,
    x: np.ndarray,
    method: str,
    by: str,
    members: tuple[tuple[int, ...], ...] | None = None,
) -> None:
    """Whatever came first, each place holds the unit whose gap is the largest at the common points."""
    column, drawn = common(explainer, ONE_LOOK, by)
    units = tuple((q,) for q in range(len(x))) if members is None else members
    asked = (kernel_of(explainer, members), x[None], method, len(units), ONE_LOOK, 0, by)
    (order,), (scores,), (confidence,) = race(*asked, context_of())

    def sums(chosen: list[int]) -> np.ndarray:
        return squares(explainer, x, [q for u in chosen for q in units[u]], column, drawn)

    for place, chosen in enumerate(order.tolist()):
        base = order[:place].tolist() if method == "greedy" else []
        before = sums(base)
        gain = {u: sums([*base, u]) - before for u in order[place:].tolist()}
        scale = 1e-9 * max(1.0, before.sum(), *(of.sum() for of in gain.values()))
        own = gain.pop(chosen)
        assert scores[chosen] == pytest.approx(own.sum() / ONE_LOOK, abs=scale)
        assert all(own.sum() >= of.sum() - scale for of in gain.values())
        if all(np.abs(own - of).max() > scale for of in gain.values()):
            closest = min((lead(own, of) for of in gain.values()), default=np.inf)
            assert confidence[place] == pytest.approx(stats.t.cdf(closest, REPLICATES - 1), abs=1e-6)


def lead(own: np.ndarray, other: np.ndarray) -> float:
    """The t statistic. Replicates that agree may all be off by a share of one point."""
    difference = own - other
    one_point = (np.abs(own) + np.abs(other)).mean() / (ONE_LOOK / REPLICATES * (REPLICATES + 1))
    return difference.mean() / max(difference.std(ddof=1) / np.sqrt(REPLICATES), one_point)


# ---- against exact answers -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def case() -> tuple[Explainer, np.ndarray]:
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_trees=12, depth=4, n_features=7, used=range(6))
    return Explainer(ensemble, Normal(0.5)), rng.normal(size=(60, 7))


@each_sampler
@pytest.mark.parametrize("method", ["greedy", "single"])
def test_a_sampled_ranking_is_the_exact_one_where_it_is_sure(case, method, by):
    explainer, X = case
    exact, sampled = explainer.rank(X, method), explainer.approximate(method=by).rank(X, method)
    assert (sampled.estimator, sampled.method) == (by, method)
    sure = np.logical_and.accumulate(sampled.confidence > 0.999, axis=1)
    assert (sampled.order == exact.order)[sure].mean() > 0.995
    assert sure.mean() > {"qmc": 0.5, "mc": 0.3}[by]
    assert ((sampled.confidence >= 0.5) & (sampled.confidence <= 1)).all()
    assert (sampled.confidence[:, -1] == 1).all()  # nobody is left to be confused with


@pytest.mark.parametrize("method", ["greedy", "single"])
def test_the_first_places_by_samples_are_those_of_the_full_ranking(case, method):
    explainer, X = case
    sampled = explainer.approximate(method="qmc", n_samples=ONE_LOOK)
    whole = sampled.rank(X, method)
    for top in (1, 3, 7):
        first = sampled.rank(X, method, top=top)
        np.testing.assert_array_equal(first.order, whole.order[:, :top])
        np.testing.assert_array_equal(first.confidence, whole.confidence[:, :top])
        assert (np.isnan(first.scores).sum(axis=1) == 7 - top).all()


@pytest.mark.parametrize("n_samples", [ONE_LOOK, 4 * ONE_LOOK])  # to look more than once is to stop by luck
def test_confidence_is_calibrated(n_samples):
    """Places that claim to be right with some confidence are right about that often, given those before."""
    rng = np.random.default_rng(2)
    right, claimed = [], []
    for seed in range(6):
        explainer = Explainer(random_ensemble(rng, n_trees=12, depth=4, n_features=7), Normal(0.5))
        X = rng.normal(size=(100, 7))
        sampled = explainer.approximate(method="qmc", n_samples=n_samples, seed=seed).rank(X)
        right.append(is_best(explainer, X, sampled.order)[:, :-1])
        claimed.append(sampled.confidence[:, :-1])
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
        sampled = explainer.approximate(method="qmc", n_samples=ONE_LOOK).rank(X, method)
        assert (sampled.scores[:, [2, 6]] == 0).all()
        assert (sampled.ranks[:, 2] < sampled.ranks[:, 6]).all()  # a tie goes to the lower index
    others_move = (np.delete(sampled.scores, [2, 6], axis=1) > 0).all(axis=1)
    assert others_move.any()
    assert (sampled.confidence[others_move, -2] == 1).all()  # and is certain


@pytest.mark.parametrize("threshold", [6.0, -6.0, 9.0, -9.0])  # P(x' < 9) is 1 in double precision
def test_a_tie_by_luck_is_not_certain(threshold):
    """Neither feature ever moved in the sample, but one could."""
    explainer = Explainer(ensemble_of([Split(1, threshold, 0.0, 1.0)], 2), Normal(1.0))
    sampled = explainer.approximate(method="qmc").rank([[0.0, 0.0]])
    assert sampled.confidence.tolist() == [[0.5, 1.0]]
    assert explainer.rank([[0.0, 0.0]]).order.tolist() == [[1, 0]]


@each_sampler
@pytest.mark.parametrize("name", ["pgi2", "pgu2", "curve"])
def test_errors_are_what_they_say(case, name, by):
    explainer, X = case
    order = explainer.rank(X).order
    exact = getattr(explainer, name)(X, order)
    some = exact > 1e-3
    if name == "curve":
        some[:, :2] = False  # lines and squares are divided so evenly that replicates tell little
    z = []
    for seed in range(40):
        sampled = explainer.approximate(1e-9, by, n_samples=1024, seed=seed)  # which is never reached
        found = getattr(sampled, name)(X, order)
        assert found.value.shape == found.method.shape == found.n_samples.shape == exact.shape
        assert set(found.method.ravel()) == {by}
        z.append(((found.value - exact) / found.standard_error)[some])
    assert 0.8 < np.sqrt(np.mean(np.square(z))) < 1.25


def test_sampling_stops_at_the_tolerance(case):
    explainer, X = case
    sampled = explainer.approximate(0.02, "qmc", n_samples=1 << 16)
    for ask in (sampled.curve, sampled.pgi2):
        found = ask(X, range(7))
        scale = found.value.mean(axis=1, keepdims=True) if found.value.ndim > 1 else found.value
        sure = (found.standard_error <= 0.02 * scale).reshape(len(X), -1).all(axis=1)
        spent = found.n_samples.reshape(len(X), -1)[:, 0]
        assert (sure | (spent == 1 << 16)).all()
        assert sure.mean() > 0.9
        assert spent.min() < spent.max()
    at_once = explainer.approximate(0.999, "qmc", n_samples=1024).pgi2(X, range(7))
    with_looks = explainer.approximate(1e-12, "qmc", n_samples=1024).pgi2(X, range(7))
    np.testing.assert_allclose(with_looks.value, at_once.value, rtol=1e-12)


def test_rows_may_have_subsets_of_their_own(case):
    explainer, X = case
    masks = np.random.default_rng(4).random(X.shape) < 0.4
    masks[:9] = masks[0]
    exact = explainer.gap(X, masks)
    for method in ("pruned", "qmc", "mc"):
        approximate = explainer.approximate(method=method, n_samples=2048)
        found = approximate.gap(X, masks)
        assert set(found.method) <= {method, "exact"}  # those that move nothing are exact
        assert (np.abs(found.value - exact) <= 6 * found.standard_error + 0.02 * exact + 0.01).all()
        alone = [approximate.gap(x[None], mask).value[0] for x, mask in zip(X, masks, strict=True)]
        assert found.value.tolist() == alone


# ---- pruned --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def deep() -> tuple[Explainer, Explainer, np.ndarray]:
    """An exact explainer, and one that prunes though it need not, with rows."""
    rng = np.random.default_rng(3)
    ensemble, noise = random_ensemble(rng, n_trees=20, depth=7, n_features=8), Normal(0.3)
    return (
        exactly(ensemble, noise),
        Explainer(ensemble, noise, _strategy="compiled"),
        rng.normal(size=(25, 8)),
    )


@pytest.mark.parametrize("rtol", [1e-1, 1e-2, 1e-3, 1e-5])
def test_pruned_answers_are_within_what_they_aim_at(deep, rtol):
    explainer, pruning, X = deep
    order = explainer.rank(X).order
    pruned = pruning.approximate(rtol, "pruned")
    for name, question in (
        ("gap", range(8)),
        ("gap", [0, 3]),
        ("curve", order),
        ("pgi2", order),
        ("pgu2", order),
    ):
        found, exact = getattr(pruned, name)(X, question), getattr(explainer, name)(X, question)
        scale = exact.mean(axis=1, keepdims=True) if exact.ndim > 1 else exact
        assert (np.abs(found.value - exact) <= rtol * np.maximum(scale, exact)).all()
        assert set(found.method.ravel()) <= {"pruned", "bounded"}
        unproven = found.method == "pruned"
        assert (found.standard_error[unproven] >= 0.3 * rtol * found.value[unproven]).all()
        assert (found.standard_error[~unproven] == 0).all()
        assert (np.abs(found.value - exact) <= found.error_bound + 1e-12 * exact).all()
        assert (found.error_bound <= rtol * np.maximum(scale, found.value))[~unproven].all()
        assert (found.value != exact).any(), "nothing was left out"


@pytest.mark.parametrize("method", ["greedy", "single"])
def test_a_pruned_ranking_says_what_it_is(deep, method):
    explainer, pruning, X = deep
    exact, pruned = explainer.rank(X, method), pruning.approximate(1e-3, "pruned").rank(X, method)
    assert pruned.method == method
    assert pruned.estimator == "pruned" or method == "single"  # which main effects give, and none is left out
    assert ((pruned.confidence == 1) | np.isnan(pruned.confidence)).all()
    assert (pruned.order[:, 0] == exact.order[:, 0]).mean() > 0.9


# ---- which one "auto" takes ----------------------------------------------------------------------


def test_auto_is_guaranteed_where_that_is_cheap(case):
    explainer, X = case
    approximate, ranking = explainer.approximate(), explainer.rank(X)
    for name in ("curve", "pgi2", "pgu2"):
        found = getattr(approximate, name)(X, ranking)
        assert (found.value == getattr(explainer, name)(X, ranking)).all()
        assert set(found.method.ravel()) == {"exact"}
        assert (found.error_bound == 0).all()
    assert approximate.rank(X).estimator == "exact"
    assert approximate(X).order.tolist() == ranking.order.tolist()


def test_auto_samples_only_what_is_too_dear_even_if_pruned(case, monkeypatch):
    """By the price of each row alone: here, that of the rows that begin with 2 and 4 is beyond the limit."""
    exact = case[0]
    explainer = Explainer(
        exact.ensemble, exact.noise, _strategy="compiled"
    )  # which prunes though it need not

    def prices(rows, question, masks, n, accuracy, order=None, *, closely=False):
        milliseconds = np.where(np.isin(rows[:, 0], [2.0, 4.0]), 1e9, 1e3)
        return Prices(np.zeros(len(rows), dtype=np.uint8), milliseconds, np.ones(len(rows)))

    monkeypatch.setattr(kernel_of(explainer), "prices", prices)
    X = np.tile(np.arange(7.0)[:, None], (1, 7))
    approximate = explainer.approximate(n_samples=1024)
    found, kernels = approximate.gap(X, range(7)), {"exact", "bounded", "pruned"}
    assert set(found.method[[2, 4]]) == {"qmc"}
    assert set(found.method[[0, 1, 3, 5, 6]]) <= kernels
    assert (found.n_samples > 0).tolist() == (found.method == "qmc").tolist()
    for x, value in zip(X, found.value, strict=True):
        assert approximate.gap(x[None], range(7)).value[0] == value
    ranking = approximate.rank(X)
    assert ranking.estimator == "qmc"  # the least certain
    assert approximate.rank(X[:2]).estimator in kernels
    assert (ranking.confidence[[2, 4]] >= 0.5).all()
    assert approximate.rank(X[3:4]).order.tolist() == ranking.order[3:4].tolist()


# ---- promises ------------------------------------------------------------------------------------


@each_sampler
@pytest.mark.parametrize("method", ["greedy", "single"])
def test_the_same_bits_for_any_threads_and_neighbours(case, method, by):
    explainer, X = case
    two = Explainer(explainer.ensemble, explainer.noise, n_jobs=2)
    one, threaded = (e.approximate(method=by, n_samples=2048, seed=3) for e in (explainer, two))
    whole, threads = one.rank(X, method), threaded.rank(X, method)
    parts = [one.rank(part, method) for part in (X[:7], X[7:8], X[8:])]
    for name in ("order", "scores", "confidence"):
        assert getattr(whole, name).tobytes() == getattr(threads, name).tobytes()
        assert getattr(whole, name).tobytes() == b"".join(getattr(part, name).tobytes() for part in parts)
    other = explainer.approximate(method=by, n_samples=2048, seed=4)
    assert (whole.scores != other.rank(X, method).scores).any()


@each_sampler
def test_a_sampled_curve_has_the_same_bits_for_any_threads_and_neighbours(case, by):
    explainer, X = case
    two = Explainer(explainer.ensemble, explainer.noise, n_jobs=2)
    one, threaded = (e.approximate(0.05, by, n_samples=2048) for e in (explainer, two))
    whole, threads = one.pgi2(X, range(7)), threaded.pgi2(X, range(7))
    parts = [one.pgi2(part, range(7)) for part in (X[:7], X[7:])]
    assert whole.value.tobytes() == threads.value.tobytes()
    assert whole.value.tobytes() == b"".join(part.value.tobytes() for part in parts)


def test_laws_that_only_python_knows_are_sampled(case):
    explainer, X = case
    laplace = Explainer(
        explainer.ensemble, PerFeature({0: FromScipy(stats.laplace(scale=0.4))}, default=Normal(0.5))
    )
    exact, sampled = laplace.rank(X), laplace.approximate(method="qmc").rank(X)
    assert exact.agreement(sampled, k=1) > 0.9


@pytest.fixture(scope="module")
def forest() -> tuple[RandomForestRegressor, pd.DataFrame]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(3000, 12)), columns=[f"x{j}" for j in range(12)])
    y = np.sin(2 * X["x0"] * X["x1"]) + X["x2"] ** 2 + X["x3"] + 0.3 * rng.normal(size=3000)
    return RandomForestRegressor(30, random_state=0, n_jobs=2).fit(X, y), X


@pytest.mark.parametrize("method", ["auto", "pruned", "qmc"])
def test_an_unpruned_forest_is_ranked_and_says_how(forest, method):
    model, X = forest
    approximate = Explainer(model, Normal.relative(X, 0.3)).approximate(method=method)
    rows = X[:4]
    ranking = approximate.rank(rows)
    assert ranking.estimator == method or (method == "auto" and ranking.estimator in ("bounded", "pruned"))
    assert set(ranking.top(1).ravel()) <= {"x0", "x1", "x2", "x3"}
    frame = ranking.to_frame()
    assert list(frame.columns) == ["row", "place", "feature", "score", "confidence"]
    np.testing.assert_array_equal(frame["confidence"], ranking.confidence.ravel())
    if method == "qmc":
        assert (ranking.confidence[:, 0] > 0.99).any()
    score = approximate.pgi2(rows, ranking)
    assert isinstance(score, GapEstimate)
    assert (score.value - 3 * score.standard_error > approximate.pgu2(rows, ranking).value).all()
    again = approximate.pgi2(rows, Ranking(ranking.order))
    assert again.value.tobytes() == score.value.tobytes()


def test_a_pipeline_is_ranked_by_samples(forest):
    _, X = forest
    pipeline = make_pipeline(StandardScaler(), RandomForestRegressor(5, random_state=0)).fit(X, X["x2"])
    sampled = Explainer(pipeline, Normal(0.3)).approximate(method="qmc").rank(X[:3])
    assert (sampled.feature_space, sampled.estimator) == (None, "qmc")
    assert sampled.top(1).ravel().tolist() == ["x2"] * 3


@pytest.mark.parametrize("method", ["auto", "pruned", "qmc", "mc"])
def test_an_empty_table_and_a_model_without_features_are_answered(case, method):
    explainer, _ = case
    approximate, none = explainer.approximate(method=method), np.empty((0, 7))
    assert approximate.rank(none).confidence.shape == (0, 7)
    assert approximate.rank(none, top=2).order.shape == (0, 2)
    assert approximate.curve(none, range(7)).value.shape == (0, 7)
    assert approximate.gap(none, [0]).value.shape == approximate.pgi2(none, range(7)).value.shape == (0,)
    constant = Explainer(ensemble_of([1.0], 0), Normal(1.0)).approximate(method=method)
    X = np.empty((3, 0))
    assert constant.rank(X).order.shape == (3, 0)
    assert constant.pgi2(X, X.astype(int)).value.tolist() == [0] * 3
    assert constant.curve(X, X.astype(int)).value.shape == (3, 0)


def test_a_partial_ranking_has_no_pgu2(case):
    explainer, X = case
    first = explainer.rank(X, top=3)
    sampled = explainer.approximate(method="qmc", n_samples=1024)
    assert sampled.curve(X, first).value.shape == (60, 3)
    assert (np.abs(sampled.pgi2(X, first).value - explainer.pgi2(X, first)) < 0.5).all()
    for ask in (explainer, sampled):
        with pytest.raises(RankingError, match="the ranking has the first 3 places; PGU² needs all 7"):
            ask.pgu2(X, first)


def test_ctrl_c_answers_and_progress_is_told_by_rows(forest):
    model, X = forest
    told: list[tuple[int, int]] = []
    noise = Normal.relative(X, 0.3)
    sampled = Explainer(model, noise, n_jobs=2).approximate(1e-9, "qmc")
    assert interrupted(lambda: sampled.rank(X), after=1.0) < 1.0
    assert interrupted(lambda: sampled.curve(X, range(12)), after=1.0) < 1.0
    watched = Explainer(model, noise, progress=lambda done, total: told.append((done, total)))
    rows, masks = X[:6], np.eye(6, 12, dtype=bool)
    for method in ("qmc", "mc"):
        approximate = watched.approximate(0.02, method, n_samples=4096)
        for ask in (
            approximate.rank,
            lambda X: approximate.curve(X, range(12)),  # noqa: B023 (called at once)
            lambda X: approximate.gap(X, masks),  # noqa: B023
        ):
            told.clear()
            ask(rows)
            assert {total for _, total in told} == {6}
            assert [done for done, _ in told] == sorted(done for done, _ in told)
            assert told[-1][0] == 6


BAD = {
    "method": ({"method": "magic"}, "method='magic' is unknown; expected 'auto', 'pruned', 'qmc' or 'mc'"),
    "too few samples": ({"n_samples": 3}, "n_samples is 3, expected at least 32"),
    "half a sample": ({"n_samples": 64.5}, "n_samples is 64.5, expected a whole number"),
    "negative": ({"rtol": -1.0}, "rtol is -1.0, expected a number between 0 and 1"),
    "no tolerance": ({"rtol": 0}, "rtol is 0, expected a number between 0 and 1"),
    "as large as the answer": ({"rtol": 1.0}, "rtol is 1.0, expected a number between 0 and 1"),
    "no number": ({"rtol": "a"}, "rtol is 'a', expected a number between 0 and 1"),
    "no seed": ({"seed": -1}, "seed is -1, expected a whole number"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD)
def test_a_bad_request_is_refused(case, options, message):
    explainer, _ = case
    with pytest.raises(PredgapError, match=message):
        explainer.approximate(**options)


def test_too_many_samples_for_memory_are_refused(case):
    explainer, X = case
    with pytest.raises(PredgapError, match="n_samples is 1099511627776, expected at most"):
        explainer.approximate(method="qmc", n_samples=1 << 40).rank(X)
