"""Intervals, paired tests, Holm's correction: against SciPy and the definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from predgap.evaluation import statistics as ours


def slow_holm(ps):
    """As the definition reads: the i-th smallest of m, times m - i + 1, never below the one before it."""
    out, last = [0.0] * len(ps), 0.0
    for step, at in enumerate(sorted(range(len(ps)), key=lambda i: (ps[i], i))):
        last = max(last, min(1.0, (len(ps) - step) * ps[at]))
        out[at] = last
    return out


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_is_its_definition(ps):
    assert ours.holm(np.array(ps)).tolist() == pytest.approx(slow_holm(ps), rel=1e-15)


def test_holm_rejects_at_most_as_many_as_single_tests_and_at_least_as_many_as_bonferroni():
    p = np.array([0.001, 0.012, 0.03, 0.04])
    rejected = ours.holm(p) < 0.05
    assert rejected.tolist() == [True, True, False, False]  # 4 · 0.001, 3 · 0.012; 2 · 0.03 is too much


def test_the_p_value_is_wilcoxons_without_the_rows_that_do_not_differ():
    rng = np.random.default_rng(1)
    difference = np.where(rng.random(40) < 0.3, 0.0, rng.normal(0.3, 1.0, 40))
    assert ours.wilcoxon_p(difference) == stats.wilcoxon(difference[difference != 0]).pvalue


@pytest.mark.parametrize(("difference", "p"), [([0.0, 0.0, 0.0], 1.0), ([1.0], None), ([], None)])
def test_the_p_value_where_there_is_nothing_to_test(difference, p):
    found = ours.wilcoxon_p(np.array(difference))
    assert np.isnan(found) if p is None else found == p


def test_differences_compare_each_two():
    rng = np.random.default_rng(0)
    base = rng.gamma(2.0, size=50)
    scores = np.stack([base, base + rng.normal(0.5, 0.1, 50), base * (1 + 1e-15)])
    found = {(f.a, f.b): f for f in ours.differences(["x", "y", "z"], scores)}
    assert list(found) == [("x", "y"), ("x", "z"), ("y", "z")]
    assert found["x", "y"].mean == pytest.approx((scores[0] - scores[1]).mean(), rel=1e-12)
    assert found["x", "y"].differs
    assert found["y", "z"].differs
    assert (found["x", "z"].mean, found["x", "z"].p) == (0.0, 1.0)  # equal but for rounding
    raw = [stats.wilcoxon(scores[0] - scores[1]).pvalue, 1.0, stats.wilcoxon(scores[1] - scores[2]).pvalue]
    assert [f.p for f in found.values()] == pytest.approx(slow_holm(raw), rel=1e-6)


def test_the_interval_is_scipys():
    scores = np.random.default_rng(0).gamma(2.0, size=60)
    expected = stats.bootstrap(
        (scores,), np.mean, n_resamples=2000, method="percentile", rng=np.random.default_rng(7)
    ).confidence_interval
    low, high = ours.interval(scores, 7)
    assert (low, high) == (pytest.approx(expected.low, rel=1e-12), pytest.approx(expected.high, rel=1e-12))
    assert ours.interval(scores, 7) == (low, high)
    assert ours.interval(scores, 8) != (low, high)


def test_intervals_of_many_rows_are_drawn_in_parts():
    scores = np.random.default_rng(0).normal(size=30_000)
    low, high = ours.interval(scores, 0)
    assert low < scores.mean() < high
    assert high - low == pytest.approx(2 * 1.96 / np.sqrt(30_000), rel=0.15)


def test_intervals_cover_the_mean_as_often_as_they_say():
    rng = np.random.default_rng(0)
    found = [ours.interval(rng.normal(5.0, 1.0, 40), seed) for seed in range(200)]
    assert 0.88 <= np.mean([low <= 5.0 <= high for low, high in found]) <= 0.99


@pytest.mark.parametrize(("scores", "expected"), [([2.0], None), ([2.0, 2.0, 2.0], (2.0, 2.0))])
def test_intervals_of_one_row_and_of_equal_rows(scores, expected):
    found = ours.interval(np.array(scores), 0)
    assert np.isnan(found).all() if expected is None else found == expected


def test_the_share_of_the_way_is_the_ratio_of_means():
    score, low, high = np.array([1.0, 5.0]), np.array([0.0, 4.0]), np.array([2.0, 12.0])
    assert ours.share_of_way(score, low, high) == pytest.approx((3 - 2) / (7 - 2))
    assert np.isnan(ours.share_of_way(low, low, low))
    assert ours.interval_of_share(high, low, high, 0) == (1.0, 1.0)
    between = ours.interval_of_share(score, low, high, 0)
    assert between[0] <= 0.2 <= between[1]


def test_all_that_are_equal_to_the_highest_win():
    scores = np.array([[1.0, 2.0, 0.0], [1.0 + 1e-15, 1.0, 0.0], [0.5, 3.0, 0.0]])
    assert ours.highest(scores).tolist() == [[True, False, True], [True, False, True], [False, True, True]]
