"""Joint redraws: gaps, curves and rankings are those of the definition, a mean over the rows of a table."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import Core, kernel_of, units_of
from assertions import interrupted
from predgap import Background, Cost, CostError, Explainer, Marginal, PredgapError, Ranking, _core
from predgap._engine.accuracy import EXACT
from predgap._model.ensemble import LEAF, Ensemble
from redrawn import Case, RedrawnRow, cases, partitions
from reference import rounding_bound
from strategies import (
    Split,
    ensemble_of,
    full_trees,
    random_ensemble,
    subsets,
)

# ---- by definition -------------------------------------------------------------------------------


@given(case=cases(), data=st.data())
def test_a_gap_is_a_mean_over_the_background(case, data):
    subset = data.draw(subsets(case.ensemble))
    found = case.explainer().gap(case.X, subset)
    for row, gap in zip(case.rows(), found, strict=True):
        row.assert_gap(gap, subset)
        assert gap > 0 or row.gap(subset) <= row.bound(subset)
        if row.gap(subset) == 0 and row._scale(frozenset(subset)) == 0:
            assert gap == 0


@given(case=cases(), data=st.data())
def test_each_row_may_have_its_own_subset(case, data):
    d = case.ensemble.n_features
    masks = np.array([data.draw(st.lists(st.booleans(), min_size=d, max_size=d)) for _ in case.X])
    explainer = case.explainer()
    found = explainer.gap(case.X, masks)
    for r, gap in enumerate(found):
        assert gap == explainer.gap(case.X[r : r + 1], masks[r])[0]


@given(case=cases(), data=st.data())
def test_a_curve_is_that_of_its_prefixes(case, data):
    d = case.ensemble.n_features
    order = data.draw(st.permutations(range(d)))[: data.draw(st.integers(1, d))]
    explainer = case.explainer()
    found = explainer.curve(case.X, order)
    for row, curve in zip(case.rows(), found, strict=True):
        for k, gap in enumerate(curve):
            row.assert_gap(gap, order[: k + 1])
    np.testing.assert_array_equal(explainer.pgi2(case.X, order), found.mean(axis=1))
    full = data.draw(st.permutations(range(d)))
    np.testing.assert_array_equal(explainer.pgu2(case.X, full), explainer.pgi2(case.X, full[::-1]))


@given(case=cases(), data=st.data())
def test_an_expected_prediction_is_a_mean_of_predictions(case, data):
    subset = data.draw(subsets(case.ensemble))
    found = case.explainer().expected_prediction(case.X, subset).reshape(len(case.X), -1)
    start = case.ensemble.predict(case.X).reshape(found.shape)
    for r, row in enumerate(case.rows()):
        mean = np.array([[float(c) for c in change] for change in row.changes(subset)]).mean(axis=0)
        scale = 1.0 + np.abs(start[r]) + np.abs(case.ensemble.value).max(initial=0.0)
        np.testing.assert_allclose(found[r], start[r] + mean, rtol=0, atol=1e-13 * scale.max())


@pytest.mark.parametrize("method", ["greedy", "single"])
@given(case=cases(), data=st.data())
def test_a_ranking_takes_the_largest_gap_and_of_equal_ones_the_first(method, case, data):
    d = case.ensemble.n_features
    top = data.draw(st.integers(1, d))
    found = case.explainer().rank(case.X, method, top=top)
    assert (found.estimator, found.order.shape) == ("exact", (len(case.X), top))
    assert (found.confidence == 1).all()
    for row, order, scores in zip(case.rows(), found.order.tolist(), found.scores, strict=True):
        (row.assert_greedy if method == "greedy" else row.assert_single)(order)
        assert_scores(row, method, order, scores)


@pytest.mark.parametrize("method", ["greedy", "single"])
@given(case=cases(), data=st.data())
def test_units_move_together_and_are_ranked_as_one(method, case, data):
    units = data.draw(partitions(case.ensemble.n_features))
    core, rows = Core(case.explainer(), units), case.ensemble.cast(case.X)
    top = data.draw(st.integers(1, len(units)))
    order, scores, proven, bounds, _ = core.rank(rows, method, top, EXACT)
    assert (order.shape, scores.shape) == ((len(rows), top), (len(rows), len(units)))
    assert proven.all()
    assert not bounds.any()
    curves, *_ = core.curve(rows, order, EXACT)
    for r, row in enumerate(case.rows(units)):
        own = order[r].tolist()
        (row.assert_greedy if method == "greedy" else row.assert_single)(own)
        assert_scores(row, method, own, scores[r])
        for k, gap in enumerate(curves[r]):
            row.assert_gap(gap, own[: k + 1])


def assert_scores(row: RedrawnRow, method: str, order: list[int], scores: np.ndarray) -> None:
    """Gains of the greedy order, or gaps of each alone; NaN without a place."""
    assert np.isnan(np.delete(scores, order)).all()
    for place, chosen in enumerate(order):
        before = order[:place] if method == "greedy" else []
        gain = float(row.gap([*before, chosen]) - row.gap(before))
        allowed = row.bound([*before, chosen]) + row.bound(before)
        assert abs(scores[chosen] - gain) <= allowed


def test_gaps_that_differ_by_rounding_are_ties():
    """Moving feature 1 changes three trees by 0.1, 0.2 and -0.3: in floats, not by 0 in all."""
    by = [Split(1, at, 0.0, change) for at, change in ((0.4, 0.1), (0.5, 0.2), (0.6, -0.3))]
    ensemble = ensemble_of([*by, Split(0, 0.5, 1.0, 1.0)], 2)
    explainer = Explainer(ensemble, Background([[1.0, 1.0], [1.0, 1.0]]))
    assert explainer.gap([[0.0, 0.0]], [1])[0] > 0
    for method in ("greedy", "single"):
        assert explainer.rank([[0.0, 0.0]], method).order.tolist() == [[0, 1]]


def test_features_move_together():
    """A model of "are the two different?" on a table where they never are."""
    differ = Split(0, 0.5, Split(1, 0.5, 0.0, 1.0), Split(1, 0.5, 1.0, 0.0))
    ensemble, X = ensemble_of([differ], 2), [[0.0, 0.0], [1.0, 1.0]]
    assert Explainer(ensemble, Background(X)).curve(X, [0, 1]).tolist() == [[0.5, 0.0], [0.5, 0.0]]
    assert Explainer(ensemble, Marginal(X)).curve(X, [0, 1]).tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_a_missing_value_is_taken_over_and_replaced():
    ensemble = ensemble_of([Split(0, 0.5, 1.0, 2.0, default_left=False)], 1)
    explainer = Explainer(ensemble, Background([[0.0], [np.nan]]))
    # 1 becomes 2 where 0 becomes missing; 2 becomes 1 where what is missing becomes 0
    assert explainer.gap([[0.0], [np.nan]], [0]).tolist() == [0.5, 0.5]


def test_what_becomes_missing_turns_at_splits_only():
    """At a leaf nothing turns: there is room for one turn at each split of a path, for each row."""
    trees_of_depth_1 = [Split(q, 0.5, 1.0, 2.0, default_left=False) for q in (0, 1)]
    explainer = Explainer(ensemble_of(trees_of_depth_1, 2), Background(np.full((200, 2), np.nan)))
    found = explainer.rank([[0.0, 0.0]])
    assert (found.order.tolist(), found.scores.tolist()) == ([[0, 1]], [[1.0, 3.0]])


# ---- larger models -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large() -> Case:
    """More rows in the background than are walked at once, some of them missing values."""
    rng = np.random.default_rng(3)
    ensemble = random_ensemble(rng, n_trees=30, depth=6, n_features=9, used=range(8))
    X, background = rng.normal(size=(40, 9)), rng.normal(size=(600, 9))
    background[rng.random(background.shape) < 0.1] = np.nan
    return Case(ensemble, X, background)


def redrawn(case: Case, x: np.ndarray, features: Sequence[int]) -> np.ndarray:
    """x with the values that these features have in each row of the background."""
    rows = np.repeat(x[None], len(case.background), axis=0)
    rows[:, features] = case.background[:, features]
    return rows


def test_a_large_background_is_the_mean_of_predictions(large):
    explainer = Explainer(large.ensemble, Background(large.background, max_rows=600))
    order = [4, 2, 8, 0, 1, 7, 3]
    found = explainer.curve(large.X, order)
    for r, x in enumerate(large.X[:5]):
        start = large.ensemble.predict(x[None])
        for k in range(len(order)):
            by = large.ensemble.predict(redrawn(large, x, order[: k + 1])) - start
            assert found[r, k] == pytest.approx((by**2).mean(), rel=1e-12)
            assert found[r, k] == pytest.approx(explainer.gap(x[None], order[: k + 1])[0], rel=1e-12)


def test_bits_do_not_depend_on_threads_or_batch(large):
    one, three = large.explainer(), large.explainer(n_jobs=3)
    order = one.rank(large.X[:1]).order[0]
    for ask in (
        lambda explainer, X: explainer.gap(X, [0, 3, 5]),
        lambda explainer, X: explainer.curve(X, order),
        lambda explainer, X: explainer.expected_prediction(X, [1, 2]),
        lambda explainer, X: explainer.rank(X).scores,
        lambda explainer, X: explainer.rank(X, "single").scores,
    ):
        whole = ask(one, large.X)
        np.testing.assert_array_equal(ask(three, large.X), whole)
        parts = [ask(one, large.X[r : r + 1]) for r in range(len(large.X))]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_there_may_be_no_rows(large):
    explainer, none = large.explainer(), np.empty((0, 9))
    assert explainer.gap(none, [0]).shape == (0,)
    assert explainer.rank(none).order.shape == (0, 9)


def test_no_rows_are_never_too_costly():
    d = 60_000
    explainer = Explainer(ensemble_of([Split(0, 0.5, 1.0, 3.0)], d), Background(np.zeros((8, d))))
    with pytest.raises(CostError):
        explainer.rank(np.zeros((1, d)))
    assert explainer.rank(np.empty((0, d))).order.shape == (0, d)


def test_more_features_than_fit_into_a_batch():
    rng = np.random.default_rng(4)
    d = 20000  # eight rows are walked at once
    ensemble = random_ensemble(rng, n_trees=5, depth=4, n_features=d, used=[0, 17, d - 1])
    X, background = rng.normal(size=(2, d)), rng.normal(size=(21, d))
    explainer = Explainer(ensemble, Background(background))
    found = explainer.rank(X, "single", top=3)
    used = [0, 17, d - 1]
    for x, order, scores in zip(X, found.order.tolist(), found.scores, strict=True):
        row = RedrawnRow(ensemble, background, x, [[q] for q in used])
        row.assert_single([used.index(q) for q in order])
        assert_scores(row, "single", [0, 1, 2], scores[used])


# ---- methods, costs, interruption ----------------------------------------------------------------


def test_all_methods_that_apply_are_exact(large):
    explainer, X = large.explainer(), large.X[:3]
    gaps = explainer.gap(X, [0, 1])
    for found in (
        explainer.estimate(X, [0, 1]),
        explainer.estimate(X, [0, 1], "exact"),
        explainer.approximate().gap(X, [0, 1]),
    ):
        np.testing.assert_array_equal(found.value, gaps)
        assert (found.method == "exact").all()
        assert not found.standard_error.any()
        assert not found.error_bound.any()
    ranked = explainer.approximate().rank(X)
    assert ranked.estimator == "exact"
    np.testing.assert_array_equal(ranked.order, explainer.rank(X).order)


@pytest.mark.parametrize("method", ["mc", "qmc", "bounded", "pruned"])
def test_methods_that_need_independent_features_are_refused(large, method):
    explainer = large.explainer()
    words = f"method='{method}' needs features that move independently.*leave method out"
    asks = {
        "estimate": lambda: explainer.estimate(large.X, [0], method),
        "approximate": lambda: explainer.approximate(method=method),
    }
    for name in {"bounded": ["estimate"], "pruned": ["approximate"]}.get(method, asks):
        with pytest.raises(PredgapError, match=words):
            asks[name]()
    with pytest.raises(PredgapError, match="sampling needs features that move independently"):
        Core(explainer).sample(large.X, np.ones(9, dtype=bool), np.zeros((1, 1, 9)), np.array([1]))


def test_costs_grow_with_the_background_and_the_places(large):
    def cost(n: int, question: Any) -> Cost:
        return Explainer(large.ensemble, Background(large.background[:n])).cost(question, large.X)

    full = Ranking(order=np.tile(np.arange(9), (40, 1)), scores=np.zeros((40, 9)))
    for question in ("rank", [0, 1], full):
        few, many = cost(50, question), cost(200, question)
        assert few.method == many.method == "exact"
        assert few.milliseconds * 3 < many.milliseconds < few.milliseconds * 5
        assert 0 < few.megabytes < many.megabytes
    assert cost(50, [0]).milliseconds < cost(50, full).milliseconds < cost(50, "rank").milliseconds
    assert large.explainer().cost("rank").milliseconds > 0  # on rows made up from thresholds


def test_a_row_over_the_limit_is_refused():
    n_trees, n_rows = 120_000, 300_000  # minutes, if all rows walked through all trees
    root = 3 * np.arange(n_trees)
    ensemble = Ensemble(
        root=root,
        feature=np.tile([0, -1, -1, 1, -1, -1], n_trees // 2),
        threshold=np.repeat(np.linspace(-2.0, 2.0, n_trees), 3),
        left=np.where(np.arange(3 * n_trees) % 3 == 0, np.arange(3 * n_trees) + 1, -1),
        right=np.where(np.arange(3 * n_trees) % 3 == 0, np.arange(3 * n_trees) + 2, -1),
        default_left=np.zeros(3 * n_trees, dtype=np.bool_),
        value=np.tile([[0.0], [0.0], [1.0]], (n_trees, 1)),
        target=np.zeros(n_trees, dtype=np.int32),
        bias=[0.0],
        n_features=2,
    )
    table = np.random.default_rng(6).normal(size=(n_rows, 2))
    explainer, X = Explainer(ensemble, Background(table, max_rows=n_rows)), np.zeros((3, 2))
    assert explainer.cost([0], X).refused
    words = r"with 300,000 background rows a row would take .* fewer rows\."
    for ask in (
        lambda: explainer.gap(X, [0]),
        lambda: explainer.curve(X, [0, 1]),
        lambda: explainer.expected_prediction(X, [0]),
        lambda: explainer.rank(X, "single"),
        lambda: explainer.estimate(X, [0]),
        lambda: explainer.approximate().curve(X, [0]),
    ):
        with pytest.raises(CostError, match=f"{words}$"):
            ask()
    with pytest.raises(CostError, match=rf"{words} Fewer places cost less: rank\(X, top=k\)\.$"):
        explainer.rank(X)


def test_ctrl_c_stops_within_a_row():
    rng = np.random.default_rng(5)
    ensemble = full_trees(rng, n_trees=400, depth=8, n_features=40)
    explainer = Explainer(ensemble, Background(rng.normal(size=(8000, 40)), max_rows=8000))
    assert explainer.cost("rank").milliseconds > 5000
    assert interrupted(lambda: explainer.rank(rng.normal(size=(1, 40))), after=0.3) < 1.0


def test_progress_is_told(large):
    told: list[tuple[int, int]] = []
    explainer = large.explainer(progress=lambda done, n: told.append((done, n)))
    explainer.rank(large.X)
    assert told[-1] == (40, 40)
    assert told == sorted(told)


def test_a_kernel_comes_back_after_a_pickle(large):
    explainer = large.explainer()
    again = pickle.loads(pickle.dumps(explainer))
    assert isinstance(kernel_of(again).core, _core.Joint)
    np.testing.assert_array_equal(again.gap(large.X, [0, 1]), explainer.gap(large.X, [0, 1]))


def test_the_kernels_check_what_they_are_given(large):
    core, values = Core(large.explainer()), large.ensemble.cast(large.X)
    rows, order = core.rows(values), np.array([[0, 1]], dtype=np.int32)
    how = core.kernel.accuracy(EXACT), core.context
    for members, words in (
        ([[0], []], "empty"),
        ([range(8)], "units of another model"),
        ([range(8), [7]], "two units"),
        ([[0, 9], range(1, 8)], "no feature"),
    ):
        with pytest.raises(ValueError, match=words):
            core.core.curve(rows, order, *how, units_of(members))
    with pytest.raises(ValueError, match="at most once"):
        core.core.curve(rows, order, *how, units_of([range(9)]))
    with pytest.raises(ValueError, match="at most the number of units"):
        core.core.rank(rows, "greedy", 2, *how, units_of([range(9)]))
    with pytest.raises(ValueError, match="another"):
        core.core.gap(Core(large.explainer()).rows(values), np.ones((1, 9), dtype=np.uint8), *how)


def test_the_twin_reads_like_the_definition(large):
    """On a small part of it, its fractions are what predictions give."""
    few = Case(large.ensemble, large.X[:1], large.background[:4])
    (row,) = few.rows()
    by = few.ensemble.predict(redrawn(few, few.X[0], [1, 2])) - few.ensemble.predict(few.X)
    assert float(row.gap([1, 2])) == pytest.approx((by**2).mean(), rel=1e-12)
    assert rounding_bound(row.gap([1, 2]), row._scale(frozenset([1, 2]))) < 1e-10 * float(row.gap([1, 2]))
    assert (few.ensemble.feature != LEAF).any()
