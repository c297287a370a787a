"""All subsets under joint redraws: their gaps, means and Shapley values, against exact sums over all."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import Core, context_of
from assertions import interrupted
from predgap import Background, CostError, Explainer
from predgap._engine import subsets
from predgap._engine.accuracy import EXACT
from predgap._engine.subsets import JointMeans
from redrawn import RedrawnRow, cases, partitions
from strategies import Split, ensemble_of, full_trees, random_ensemble


def all_subsets(units: Any) -> list[tuple[int, ...]]:
    units = list(units)
    return [*chain.from_iterable(combinations(units, k) for k in range(len(units) + 1))]


def random_score(row: RedrawnRow, top: int) -> Fraction:
    """The mean over 1, ..., top places of the mean gap of as many units."""
    sizes = [[*combinations(range(row.d), k)] for k in range(1, top + 1)]
    return sum((sum(map(row.gap, same)) / Fraction(len(same)) for same in sizes), Fraction(0)) / top


def shapley_value(row: RedrawnRow, i: int) -> Fraction:
    """The mean of what the unit adds to the units before it, over all orders of all units."""
    total = Fraction(0)
    for before in all_subsets(j for j in range(row.d) if j != i):
        ways = math.factorial(len(before)) * math.factorial(row.d - 1 - len(before))
        total += ways * (row.gap([*before, i]) - row.gap(before))
    return total / math.factorial(row.d)


def largest_bound(row: RedrawnRow) -> float:
    """How far the gaps of the row may be off: 1e-12 of the largest, and rounding where trees cancel."""
    return max(map(row.bound, all_subsets(range(row.d))))


@given(case=cases(), data=st.data())
def test_the_gaps_of_all_subsets(case, data):
    units = data.draw(partitions(case.ensemble.n_features))
    chosen = data.draw(st.permutations(range(len(units))))[: data.draw(st.integers(0, len(units)))]
    core, rows = Core(case.explainer(), units), case.ensemble.cast(case.X)
    numbers = np.array([chosen] * len(rows), dtype=np.int32).reshape(len(rows), len(chosen))
    gaps, bound, _ = core.subset_gaps(rows, numbers, np.ones(len(chosen) + 1), EXACT)
    assert not bound.any()
    for row, own in zip(case.rows(units), gaps, strict=True):
        for number, gap in enumerate(own):
            row.assert_gap(gap, [unit for i, unit in enumerate(chosen) if number >> i & 1])


@given(case=cases(), data=st.data())
def test_random_scores_and_shapley_values(case, data):
    units = tuple(map(tuple, data.draw(partitions(case.ensemble.n_features))))
    top = data.draw(st.integers(1, len(units)))
    engine, rows = Core(case.explainer(), units).subsets, case.ensemble.cast(case.X)
    means, context = JointMeans(engine, top), context_of()
    expected, values = means.expected(rows, EXACT, context)[0], means.shapley(rows, EXACT, context)[0]
    for r, row in enumerate(case.rows(units)):
        allowed = largest_bound(row)
        assert abs(expected[r] - float(random_score(row, top))) <= allowed
        exact = [float(shapley_value(row, i)) for i in range(row.d)]
        np.testing.assert_allclose(values[r], exact, rtol=0, atol=2 * allowed)
        assert abs(values[r].sum() - float(row.gap(range(row.d)))) <= 2 * allowed


def test_twelve_features_by_subsets_and_by_pairs(monkeypatch):
    rng = np.random.default_rng(21)
    ensemble = random_ensemble(rng, n_trees=60, depth=5, n_features=12)
    explainer, X = Explainer(ensemble, Background(rng.normal(size=(30, 12)))), rng.normal(size=(3, 12))
    answers = []
    for most in (14, -1):  # units of which all subsets are taken
        monkeypatch.setattr(subsets, "MOST_UNITS", most)
        monkeypatch.setattr(JointMeans, "milliseconds", lambda *_, **__: np.full(3, np.inf))
        random = [explainer.random_pgi2(X, top=top) for top in (None, 1, 5)]
        answers.append((random, explainer.rank(X, "shapley").scores))
    (random, values), (same, same_values) = answers
    largest = explainer.curve(X, explainer.rank(X, "optimal")).max(axis=1)
    assert (np.abs(np.array(random) - same) <= 1e-12 * largest).all()
    assert (np.abs(values - same_values) <= 1e-12 * largest[:, None]).all()


@pytest.mark.parametrize("n_features", [30, 150])  # one word of bits, and three
def test_many_features(n_features):
    """The first places, one feature a tree: sums of the definition are then possible."""
    rng = np.random.default_rng(22)
    trees = [Split(q, 0.0, 0.0, float(rng.normal())) for q in range(n_features)]
    pairs = [
        Split(q, 0.0, Split(p, 0.0, 0.0, 1.0), Split(p, 0.0, 0.5, 0.0))
        for q, p in zip(range(n_features), range(1, n_features), strict=False)
    ]
    ensemble = ensemble_of([*trees, *pairs], n_features)
    table, X = rng.normal(size=(5, n_features)), rng.normal(size=(2, n_features))
    explainer = Explainer(ensemble, Background(table))
    alone = np.array([explainer.gap(X, [q]) for q in range(n_features)])
    both = [explainer.gap(X, list(two)) for two in combinations(range(n_features), 2)]
    np.testing.assert_allclose(explainer.random_pgi2(X, top=1), alone.mean(axis=0), rtol=1e-12)
    two = (alone.mean(axis=0) + np.mean(both, axis=0)) / 2
    np.testing.assert_allclose(explainer.random_pgi2(X, top=2), two, rtol=1e-12)
    whole, values = explainer.gap(X, range(n_features)), explainer.rank(X, "shapley").scores
    np.testing.assert_allclose(values.sum(axis=1), whole, rtol=1e-12)
    assert (explainer.random_pgi2(X) < explainer.pgi2(X, explainer.rank(X))).all()


def test_the_same_bits_for_threads_and_batches(monkeypatch):
    monkeypatch.setattr(subsets, "MOST_UNITS", -1)
    rng = np.random.default_rng(23)
    ensemble, X = full_trees(rng, n_trees=20, depth=4, n_features=20), rng.normal(size=(5, 20))
    noise = Background(rng.normal(size=(9, 20)))
    one, two = (Explainer(ensemble, noise, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.random_pgi2(X), two.random_pgi2(X))
    np.testing.assert_array_equal(one.random_pgi2(X)[3:4], one.random_pgi2(X[3:4]))
    values = one.rank(X, "shapley").scores
    np.testing.assert_array_equal(values, two.rank(X, "shapley").scores)
    np.testing.assert_array_equal(values[3:4], one.rank(X[3:4], "shapley").scores)


def test_what_takes_too_long_is_refused_with_advice(monkeypatch):
    rng = np.random.default_rng(24)
    ensemble = full_trees(rng, n_trees=20, depth=4, n_features=20)
    explainer = Explainer(ensemble, Background(rng.normal(size=(9, 20))))
    monkeypatch.setattr("predgap._engine.subsets.MOST_MILLISECONDS", 1e-6)
    for ask in (explainer.random_pgi2, lambda X: explainer.rank(X, "shapley")):
        with pytest.raises(
            CostError, match=r"with 9 background rows .*Background\(X, max_rows=...\) with fewer"
        ):
            ask(rng.normal(size=(1, 20)))


def test_ctrl_c_stops_within_a_row():
    rng = np.random.default_rng(25)
    ensemble = full_trees(rng, n_trees=300, depth=8, n_features=40)
    table = rng.normal(size=(4000, 40))
    core = Core(Explainer(ensemble, Background(table, max_rows=4000)))
    means = JointMeans(core.subsets, 40)
    X = rng.normal(size=(1, 40))
    assert means.milliseconds(X, EXACT, values=False)[0] > 4000  # it would not end by itself
    assert (
        interrupted(
            lambda: core.core.mean_gap(core.rows(X), np.ones((41, 41)), context_of()),
            after=0.5,
        )
        < 1.5
    )
