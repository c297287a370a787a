"""The scale of a score: random and best rankings, Shapley values, against enumeration of all rankings."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import kernel_of
from assertions import interrupted
from predgap import Background, Explainer, Flip, Normal, StudentT, Uniform, evaluate
from predgap._engine import kernels, subsets
from predgap._engine.subsets import SubsetEngine
from predgap.errors import CostError, PredgapError, RankingError
from strategies import Split, ensemble_of, full_trees, mixed_problems, problems, random_ensemble

TOLERANCE = 1e-12  # of the largest gap: what a gap may be off


class ByEnumeration:
    """One row: its gaps of all subsets of units, and what follows from all rankings."""

    def __init__(self, explainer, x):
        self.d = explainer.explained.n_units
        masks = [[bool(s >> i & 1) for i in range(self.d)] for s in range(1 << self.d)]
        row = np.asarray(x, dtype=float)[None]
        self._gap = np.array([explainer.gap(row, np.array(mask, dtype=bool))[0] for mask in masks])
        self.largest = self._gap.max()

    def curve(self, order):
        return [self._gap[sum(1 << int(i) for i in order[: k + 1])] for k in range(len(order))]

    def scores(self, k):
        """PGI² of each ranking of k places."""
        return {order: np.mean(self.curve(order)) for order in permutations(range(self.d), k)}

    def shapley(self):
        """The mean over all rankings of what each unit adds when its turn comes."""
        added = np.zeros(self.d)
        orders = list(permutations(range(self.d)))
        for order in orders:
            added[list(order)] += np.diff([0.0, *self.curve(order)])
        return added / len(orders)


def assert_scale(explainer, X, data):
    d = explainer.explained.n_units
    top = data.draw(st.sampled_from([None, *range(1, d + 1)]), label="top")
    k = top or d
    random, best = explainer.random_pgi2(X, top=top), explainer.rank(X, "optimal", top=top)
    shapley = explainer.rank(X, "shapley")
    assert best.order.shape == (len(X), k)
    score = explainer.pgi2(X, best)
    for r, x in enumerate(X):
        row = ByEnumeration(explainer, x)
        allowed = TOLERANCE * row.largest
        scores = row.scores(k)
        assert abs(random[r] - np.mean(list(scores.values()))) <= allowed
        assert abs(scores[tuple(best.order[r].tolist())] - score[r]) <= allowed
        assert score[r] <= max(scores.values()) + allowed
        if best.method == "optimal":
            assert max(scores.values()) <= score[r] + allowed
            assert (best.confidence[r] == 1).all()
        gains = np.diff([0.0, *row.curve(best.order[r].tolist())])
        np.testing.assert_allclose(best.scores[r, best.order[r]], gains, rtol=0, atol=2 * allowed)
        np.testing.assert_allclose(shapley.scores[r], row.shapley(), rtol=0, atol=2 * allowed)
        assert abs(shapley.scores[r].sum() - row.curve(range(row.d))[-1]) <= allowed
        values = shapley.scores[r, shapley.order[r]]
        assert (np.diff(values) <= 2 * d * allowed).all()
    greedy = explainer.pgi2(X, explainer.rank(X, top=top))
    assert (greedy <= score * (1 + TOLERANCE)).all()


@st.composite
def groupings(draw, d):
    label = draw(st.lists(st.integers(0, 2), min_size=d, max_size=d))
    return {f"group {g}": [j for j in range(d) if label[j] == g] for g in (1, 2) if g in label} or None


@given(problem=problems(), data=st.data())
def test_independent_features(problem, data):
    assert_scale(Explainer(problem.ensemble, problem.noise, rtol=0), problem.X, data)


@given(problem=problems(max_rows=1), data=st.data())
def test_groups(problem, data):
    groups = data.draw(groupings(problem.ensemble.n_features))
    assert_scale(Explainer(problem.ensemble, problem.noise, groups=groups, rtol=0), problem.X, data)


@given(problem=mixed_problems(max_rows=1), data=st.data())
def test_categories(problem, data):
    groups = data.draw(groupings(problem.ensemble.n_features))
    assert_scale(Explainer(problem.ensemble, problem.noise, groups=groups, rtol=0), problem.X, data)


@given(problem=problems(), data=st.data())
def test_background(problem, data):
    groups = data.draw(groupings(problem.ensemble.n_features))
    rows = np.array([*problem.X, *np.random.default_rng(0).normal(size=(3, problem.ensemble.n_features))])
    assert_scale(Explainer(problem.ensemble, Background(rows), groups=groups), problem.X, data)


@pytest.mark.parametrize("noise", ["normal", "background"])
def test_all_rankings_of_seven_features(noise):
    rng = np.random.default_rng(14)
    ensemble = random_ensemble(rng, n_trees=12, depth=4, n_features=7)
    law = Normal(0.6) if noise == "normal" else Background(rng.normal(size=(15, 7)))
    explainer, X = Explainer(ensemble, law, rtol=0), rng.normal(size=(2, 7))
    best, random = explainer.pgi2(X, explainer.rank(X, "optimal")), explainer.random_pgi2(X)
    for r, x in enumerate(X):
        scores = list(ByEnumeration(explainer, x).scores(7).values())
        np.testing.assert_allclose(best[r], max(scores), rtol=TOLERANCE)
        np.testing.assert_allclose(random[r], np.mean(scores), rtol=TOLERANCE)


@pytest.fixture
def without_tables(monkeypatch):
    """As if so many units mattered in every row that the gaps of all subsets are too many."""
    monkeypatch.setattr(subsets, "MOST_UNITS", -1)


PROBLEMS = st.one_of(problems(max_rows=1), mixed_problems(max_rows=1))


@pytest.mark.usefixtures("without_tables")
@given(problem=PROBLEMS, data=st.data())
def test_without_the_gaps_of_all_subsets(problem, data):
    groups = data.draw(groupings(problem.ensemble.n_features))
    explainer = Explainer(problem.ensemble, problem.noise, groups=groups, rtol=0)
    assert_scale(explainer, problem.X, data)
    assert explainer.rank(problem.X, "optimal").method == "best found"


@pytest.mark.parametrize("strategy", ["plan", "compiled", "pairs"])
@pytest.mark.parametrize("groups", [None, {"a": [0, 3], "b": [1, 2]}])
@pytest.mark.parametrize("most", [-1, 14])
def test_every_strategy_with_and_without_tables(strategy, groups, most, monkeypatch):
    monkeypatch.setattr(subsets, "MOST_UNITS", most)
    rng = np.random.default_rng(5)
    ensemble = random_ensemble(rng, n_trees=6, depth=4, n_features=6)
    X = rng.normal(size=(3, 6))
    X[1, 2] = np.nan
    expected = Explainer(ensemble, Normal(0.6), groups=groups, rtol=0)
    forced = Explainer(ensemble, Normal(0.6), groups=groups, rtol=0, _strategy=strategy)
    np.testing.assert_allclose(forced.random_pgi2(X), expected.random_pgi2(X), rtol=TOLERANCE)
    values, same = (e.rank(X, "shapley") for e in (forced, expected))
    np.testing.assert_allclose(values.scores, same.scores, rtol=0, atol=TOLERANCE * same.scores.max())
    np.testing.assert_array_equal(values.order, same.order)
    best = forced.rank(X, "optimal")
    assert best.method == ("optimal" if most > 0 else "best found")
    assert (forced.pgi2(X, best) >= forced.pgi2(X, forced.rank(X))).all()


@pytest.mark.usefixtures("without_tables")
def test_a_search_with_background_is_never_below_greedy_and_says_that_it_is_a_search():
    rng = np.random.default_rng(6)
    ensemble = random_ensemble(rng, n_trees=8, depth=4, n_features=8)
    explainer = Explainer(ensemble, Background(rng.normal(size=(20, 8))), groups={"g": [1, 5]})
    X = rng.normal(size=(6, 8))
    for top in (None, 3):
        found = explainer.rank(X, "optimal", top=top)
        assert found.method == "best found"
        assert np.isnan(found.confidence).all()
        assert (explainer.pgi2(X, found) >= explainer.pgi2(X, explainer.rank(X, top=top))).all()
        assert (explainer.normalized_pgi2(X[:2], found.order[:2, :2]) <= 1).all()


@pytest.mark.usefixtures("without_tables")
def test_what_is_too_many_is_refused_with_a_call_that_works(monkeypatch):
    monkeypatch.setattr(subsets, "_MOST_SMALL_SUBSETS", 10)
    rng = np.random.default_rng(7)
    ensemble = random_ensemble(rng, n_trees=20, depth=4, n_features=14)
    explainer, X = Explainer(ensemble, Normal(1.0)), rng.normal(size=(1, 14))
    with pytest.raises(CostError, match=r"have 105 subsets of at most 2; the limit is 10.*random_pgi2\(X\)"):
        explainer.random_pgi2(X, top=2)
    assert explainer.random_pgi2(X).shape == (1,)
    pairs = {f"g{i}": [2 * i, 2 * i + 1] for i in range(7)}
    with pytest.raises(CostError, match="7 groups of several features, and at most 6"):
        Explainer(ensemble, Normal(1.0), groups=pairs).random_pgi2(X)


def test_approximations_refuse():
    tree = ensemble_of([Split(0, 0.5, 1.0, 3.0)], 2)
    sampled = Explainer(tree, Uniform(1.0)).approximate()
    for method in ("optimal", "shapley"):
        with pytest.raises(PredgapError, match=rf"is not estimated.*use explainer.rank\(X, '{method}'\)"):
            sampled.rank([[0.0, 0.0]], method)
    with pytest.raises(PredgapError, match="'greedy', 'single', 'optimal' or 'shapley'"):
        Explainer(tree, Uniform(1.0)).rank([[0.0, 0.0]], "best")
    with pytest.raises(RankingError, match="top is 3"):
        Explainer(tree, Uniform(1.0)).random_pgi2([[0.0, 0.0]], top=3)


# ---- ties, and units that change nothing ---------------------------------------------------------

DIFFER = Split(
    0, 0.5, Split(2, 0.5, 0.0, 1.0), Split(2, 0.5, 1.0, 0.0)
)  # features 0 and 2: are they unequal?


def test_features_that_change_nothing_come_where_the_gap_is_largest():
    """Flipping one of two changes the prediction, flipping both does not: 1, 0, or 1, 1, 1, 0."""
    explainer = Explainer(ensemble_of([DIFFER], 4), Flip(1.0))
    X = np.zeros((1, 4))
    best = explainer.rank(X, "optimal")
    assert best.order.tolist() == [[0, 1, 3, 2]]
    assert best.scores.tolist() == [[1.0, 0.0, -1.0, 0.0]]
    assert explainer.rank(X, "optimal", top=2).order.tolist() == [[0, 1]]
    assert explainer.rank(X, "shapley").scores.tolist() == [[0.0, 0.0, 0.0, 0.0]]
    assert explainer.pgi2(X, best)[0] == 0.75
    sum_of_two = ensemble_of([Split(2, 0.5, 0.0, 1.0), Split(1, 0.5, 0.0, 1.0)], 4)
    assert Explainer(sum_of_two, Flip(1.0)).rank(X, "optimal").order.tolist() == [[1, 2, 0, 3]]


def test_equal_totals_go_to_the_lower_index():
    """Three features that do the same, up to rounding."""
    trees = [Split(j, 0.5, 0.0, value) for j in range(3) for value in (0.1, 0.2, 0.3)]
    explainer = Explainer(ensemble_of(trees[::-1], 3), Flip(0.3))
    for method in ("optimal", "shapley"):
        assert explainer.rank(np.zeros((1, 3)), method).order.tolist() == [[0, 1, 2]]


# ---- normalised scores ---------------------------------------------------------------------------


@given(problem=problems(), data=st.data())
def test_normalized_scores_by_the_definition(problem, data):
    explainer = Explainer(problem.ensemble, problem.noise, rtol=0)
    d = problem.ensemble.n_features
    order = data.draw(st.permutations(range(d)))[: data.draw(st.integers(1, d))]
    found = explainer.normalized_pgi2(problem.X, order)
    score = explainer.pgi2(problem.X, order)
    for r, x in enumerate(problem.X):
        row = ByEnumeration(explainer, x)
        scores = list(row.scores(len(order)).values())
        random, best = np.mean(scores), max(scores)
        if best - random <= 10 * TOLERANCE * row.largest:
            assert np.isnan(found[r]) or best > random
        else:
            assert found[r] <= 1
            error = 4 * TOLERANCE * row.largest / (best - random)
            np.testing.assert_allclose(found[r], (score[r] - random) / (best - random), rtol=1e-9, atol=error)


@pytest.mark.usefixtures("without_tables")
def test_what_beats_the_best_found_is_the_best(monkeypatch):
    rng = np.random.default_rng(8)
    ensemble, X = random_ensemble(rng, n_trees=8, depth=4, n_features=6), rng.normal(size=(9, 6))
    explainer = Explainer(ensemble, Normal(0.6))
    monkeypatch.setattr(subsets, "MOST_UNITS", 14)
    best = explainer.rank(X, "optimal")
    monkeypatch.setattr(subsets, "MOST_UNITS", -1)
    np.testing.assert_array_equal(explainer.normalized_pgi2(X, best), np.ones(9))
    assert np.isnan(explainer.normalized_pgi2(X, [0])).sum() == 0
    flat = Explainer(ensemble_of([], 3), Normal(1.0))
    assert np.isnan(flat.normalized_pgi2(np.zeros((2, 3)), [0, 1, 2])).all()


def test_random_and_best_share_the_gaps_of_all_subsets(monkeypatch):
    rng = np.random.default_rng(15)
    ensemble, X = random_ensemble(rng, n_trees=8, depth=4, n_features=6), rng.normal(size=(9, 6))
    explainer, asked = Explainer(ensemble, Normal(0.6)), []
    subset_gaps = SubsetEngine.subset_gaps
    monkeypatch.setattr(
        SubsetEngine,
        "subset_gaps",
        lambda self, rows, *a: asked.append(len(rows)) or subset_gaps(self, rows, *a),
    )
    explainer.normalized_pgi2(X, range(6))
    assert sum(asked) == len(X)
    asked.clear()
    found = evaluate(explainer, X, ["greedy", "single"])
    assert sum(asked) == len(X)
    np.testing.assert_allclose(found.random, explainer.random_pgi2(X), rtol=TOLERANCE)


# ---- outputs, tolerances, threads, progress ------------------------------------------------------


def several_outputs(rng, n_outputs=3):
    grown = [random_ensemble(rng, n_trees=3, depth=3, n_features=5) for _ in range(n_outputs)]
    trees = [_tree(e, int(root)) for e in grown for root in e.root]
    targets = np.repeat(range(n_outputs), 3)
    return ensemble_of(trees, 5, targets=targets, n_outputs=n_outputs, class_names=("a", "b", "c"))


def _tree(e, node):
    if e.feature[node] < 0:
        return float(e.value[node, 0])
    sides = (_tree(e, int(child[node])) for child in (e.left, e.right))
    return Split(int(e.feature[node]), float(e.threshold[node]), *sides)


def test_several_outputs():
    rng = np.random.default_rng(9)
    ensemble, X = several_outputs(rng), rng.normal(size=(8, 5))
    together = Explainer(ensemble, Normal(0.6), rtol=0)
    alone = [Explainer(ensemble, Normal(0.6), rtol=0, output=k) for k in range(3)]
    np.testing.assert_allclose(together.random_pgi2(X), sum(e.random_pgi2(X) for e in alone), rtol=TOLERANCE)
    summed = sum(e.rank(X, "shapley").scores for e in alone)
    np.testing.assert_allclose(together.rank(X, "shapley").scores, summed, rtol=0, atol=1e-12 * summed.max())
    predicted = ensemble.predict(X).argmax(axis=1)
    for output in ("predicted", predicted):
        own = Explainer(ensemble, Normal(0.6), rtol=0, output=output)
        ranked, order = own.rank(X, "optimal"), own.rank(X)
        assert ranked.method == "optimal"
        for r, k in enumerate(predicted):
            x = X[r : r + 1]
            assert own.random_pgi2(X)[r] == alone[k].random_pgi2(x)[0]
            assert ranked.order[r].tolist() == alone[k].rank(x, "optimal").order[0].tolist()
            expected = alone[k].normalized_pgi2(x, order.order[r])[0]
            assert own.normalized_pgi2(X, order)[r] == expected


@pytest.mark.parametrize("most", [-1, 14])
def test_bounded_answers_are_within_the_tolerance(most, monkeypatch):
    monkeypatch.setattr(subsets, "MOST_UNITS", most)
    rng = np.random.default_rng(10)
    ensemble, X = full_trees(rng, n_trees=30, depth=6, n_features=6), rng.normal(size=(3, 6))
    exact = Explainer(ensemble, Normal(0.4), rtol=0)
    bounded = Explainer(ensemble, Normal(0.4), rtol=1e-2, _strategy="compiled")
    np.testing.assert_allclose(bounded.random_pgi2(X), exact.random_pgi2(X), rtol=1e-2)
    values, found = exact.rank(X, "shapley"), bounded.rank(X, "shapley")
    assert found.estimator == "bounded"
    assert np.isnan(found.confidence).all()
    whole = exact.gap(X, range(6))
    assert (np.abs(found.scores - values.scores).max(axis=1) <= 1e-2 * whole).all()
    best, good = exact.rank(X, "optimal"), bounded.rank(X, "optimal")
    assert good.estimator == "bounded"
    assert (exact.pgi2(X, good) >= 0.98 * exact.pgi2(X, best)).all()


@pytest.mark.parametrize("most", [-1, 14])
def test_the_same_bits_for_threads_and_batches(most, monkeypatch):
    monkeypatch.setattr(subsets, "MOST_UNITS", most)
    rng = np.random.default_rng(11)
    ensemble, X = full_trees(rng, n_trees=20, depth=4, n_features=9), rng.normal(size=(5, 9))
    one, two = (Explainer(ensemble, Normal(0.5), n_jobs=n) for n in (1, 2))
    for method in ("optimal", "shapley"):
        a, b, c = one.rank(X, method), two.rank(X, method), one.rank(X[3:4], method)
        np.testing.assert_array_equal(a.scores, b.scores)
        np.testing.assert_array_equal(a.order, b.order)
        np.testing.assert_array_equal(a.scores[3:4], c.scores)
    np.testing.assert_array_equal(one.random_pgi2(X), two.random_pgi2(X))
    np.testing.assert_array_equal(one.random_pgi2(X)[3:4], one.random_pgi2(X[3:4]))


@pytest.mark.parametrize("most", [-1, 14])
def test_progress_ends_with_all_rows(most, monkeypatch):
    monkeypatch.setattr(subsets, "MOST_UNITS", most)
    rng = np.random.default_rng(12)
    told: list[tuple[int, int]] = []
    explainer = Explainer(
        full_trees(rng, n_trees=9, depth=3, n_features=6), Normal(0.5), progress=lambda *n: told.append(n)
    )
    X = rng.normal(size=(30, 6))
    X[::2, 3] = np.nan
    asks = [lambda X, m=m: explainer.rank(X, m) for m in ("optimal", "shapley")]
    for ask in (*asks, explainer.random_pgi2, lambda X: explainer.normalized_pgi2(X, list(range(6)))):
        told.clear()
        ask(X)
        assert told == sorted(told)
        assert told[-1] == (30, 30)


def test_ctrl_c_stops_a_search():
    rng = np.random.default_rng(13)
    ensemble = full_trees(rng, n_trees=150, depth=6, n_features=25)
    explainer = Explainer(ensemble, Normal(1.0))
    assert interrupted(lambda: explainer.rank(rng.normal(size=(99, 25)), "optimal"), after=1.0) < 2.0


@pytest.fixture
def few_and_many():
    """An explainer that is given its rows one at a time, and four rows: most move in the last one only."""
    rng = np.random.default_rng(14)
    X = rng.normal(size=(4, 20))
    X[:3, 1:] = np.nan
    return Explainer(full_trees(rng, n_trees=20, depth=5, n_features=20), StudentT(1.0, 5)), X


def test_a_refused_row_has_its_number_in_the_table(few_and_many, monkeypatch):
    monkeypatch.setattr(kernels, "_TABLE_BYTES", 1)
    explainer, X = few_and_many
    explainer = Explainer(explainer.ensemble, explainer.noise)
    with pytest.raises(CostError, match="in row 3, 20 features matter"):
        explainer.random_pgi2(X, top=10)


@pytest.mark.parametrize("method", ["optimal", "shapley"])
def test_a_row_that_turns_out_too_costly_has_its_number_in_the_table(few_and_many, method):
    explainer, X = few_and_many
    X[3, 8:] = np.nan
    kernel_of(explainer).model.limit_work(0.02, 1e3)
    with pytest.raises(CostError, match="row 3 would take"):
        explainer.rank(X, method)
    assert len(explainer.rank(X[:3], method)) == 3


def test_no_rows():
    explainer = Explainer(ensemble_of([Split(0, 0.5, 1.0, 3.0)], 2), Uniform(1.0))
    X = np.zeros((0, 2))
    assert explainer.random_pgi2(X).shape == (0,)
    assert explainer.normalized_pgi2(X, [0, 1]).shape == (0,)
    assert explainer.rank(X, "optimal").order.shape == explainer.rank(X, "shapley").order.shape == (0, 2)
