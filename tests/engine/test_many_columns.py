"""Columns that no tree uses: they rank where the definition puts them, and cost next to nothing."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assertions import STRATEGIES
from predgap import Background, Discrete, Explainer, Normal, evaluate
from predgap._engine.subsets import TIE, _by_value
from strategies import ensemble_of

SMALL = 40
MANY = 1_000_003  # work for each pair of columns would be 10¹² steps: it would not end
USED = (7, 500_000, MANY - 1)


def stumps_of(columns, d):
    """x_a and x_b cancel where both move (f is their product), x_c counts alone."""
    a, b, c = columns
    product = [(a, 0.0, 1, 2), (b, 0.0, 3, 4), (b, 0.0, 5, 6), 1.0, -1.0, -1.0, 1.0]
    alone = [(c, 0.5, 1, 2), 0.0, 0.25]
    return _ensemble([product, alone], d)


def _ensemble(trees, d):
    """Trees as lists of nodes: (feature, threshold, left, right) or the value of a leaf."""
    nodes = [(node, start) for tree, start in zip(trees, _starts(trees), strict=True) for node in tree]
    is_split = np.array([isinstance(node, tuple) for node, _ in nodes])

    def of(k, leaf):
        return [node[k] if isinstance(node, tuple) else leaf for node, _ in nodes]

    start = np.array([start for _, start in nodes])
    return replace(
        ensemble_of([], 1),
        root=np.array(_starts(trees)),
        feature=np.array(of(0, -1)),
        threshold=np.array(of(1, 0.0), dtype=float),
        left=np.where(is_split, np.array(of(2, 0)) + start, -1),
        right=np.where(is_split, np.array(of(3, 0)) + start, -1),
        default_left=np.zeros(len(nodes), dtype=bool),
        value=np.array([[0.0] if isinstance(node, tuple) else [node] for node, _ in nodes]),
        target=np.zeros(len(trees), dtype=int),
        category_set=np.full(len(nodes), -1),
        n_features=d,
    )


def _starts(trees):
    return np.cumsum([0, *map(len, trees)])[:-1].tolist()


def greedy_by_definition(explainer, x, d):
    """One feature after the other, by the gaps themselves; ties to the lower index."""
    order, scores, base = [], np.zeros(d), 0.0
    while len(order) < d:
        gaps = {q: float(explainer.gap(x, [*order, q])[0]) for q in range(d) if q not in order}
        largest = max(gaps.values())
        best = min(q for q, gap in gaps.items() if gap >= largest - 1e-12 * abs(largest) - 1e-15)
        order.append(best)
        scores[best], base = gaps[best] - base, gaps[best]
    return order, scores


def check_greedy(explainer, x, columns):
    d = len(x)
    order, scores = greedy_by_definition(explainer, [x], d)
    found = explainer.rank([x])
    assert found.order[0].tolist() == order
    np.testing.assert_allclose(found.scores[0], scores, rtol=0, atol=1e-14)
    curve = explainer.curve([x], found)[0]
    np.testing.assert_allclose(np.diff(curve, prepend=0), scores[order], rtol=0, atol=1e-14)
    unused = [q for q in range(d) if q not in columns]
    assert (found.scores[0, unused] == 0).all()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("columns", [(0, 1, 2), (3, 7, 8), (8, 5, 1), (2, 4, 6)])
def test_they_come_before_a_feature_that_lowers_the_gap(columns, strategy):
    d = 9
    likely = Discrete([-1.0, 1.0], [0.9, 0.1])  # a and b cross so often that both together change f less
    explainer = Explainer(stumps_of(columns, d), likely, rtol=0, _strategy=strategy)
    assert explainer.rank([[1.0] * d]).scores.min() < -0.1
    for x in ([1.0] * d, [-1.0] * d, [1.0, -1.0, 1.0] * 3):
        check_greedy(explainer, x, columns)
    explainer = Explainer(stumps_of(columns, d), Normal(1.0), rtol=0, _strategy=strategy)
    for x in ([0.0] * d, [0.3] * d, [-40.0] * d, [0.01] * 4 + [-0.02] * 5):
        check_greedy(explainer, x, columns)


@pytest.mark.parametrize("noise", [Normal(1.0), Background(np.eye(SMALL)[:9])], ids=["Normal", "Background"])
@pytest.mark.parametrize("method", ["greedy", "single", "shapley", "optimal"])
def test_answers_are_those_of_the_used_columns_alone(method, noise):
    columns = (3, 17, 38)
    wide, alone = stumps_of(columns, SMALL), stumps_of((0, 1, 2), 3)
    rows = np.random.default_rng(0).normal(size=(5, SMALL))
    joint = isinstance(noise, Background)
    of_used = Background(np.eye(SMALL)[:9][:, columns]) if joint else noise
    first, second = Explainer(wide, noise, rtol=0), Explainer(alone, of_used, rtol=0)
    found, expected = first.rank(rows, method), second.rank(rows[:, columns], method)
    np.testing.assert_array_equal(found.scores[:, columns], expected.scores)
    for mine, own in zip(found.order.tolist(), expected.order.tolist(), strict=True):
        assert [columns.index(q) for q in mine if q in columns] == own
        unused = [q for q in mine if q not in columns]
        assert unused == sorted(unused)
    spread = np.argsort(np.random.default_rng(1).random((5, SMALL)), axis=1)
    places = [[q for q in order if q in columns] for order in spread.tolist()]
    own = second.curve(rows[:, columns], np.searchsorted(columns, places))
    n_before = np.cumsum(np.isin(spread, columns), axis=1)
    by_place = np.concatenate([np.zeros((5, 1)), own], axis=1)
    np.testing.assert_array_equal(first.curve(rows, spread), np.take_along_axis(by_place, n_before, axis=1))


@pytest.fixture(scope="module")
def million():
    return Explainer(stumps_of(USED, MANY), Normal(1.0), rtol=0), np.full((1, MANY), 0.3)


@pytest.mark.parametrize("method", ["greedy", "single", "shapley", "optimal"])
def test_a_million_of_them_are_ranked(million, method):
    explainer, x = million
    tracemalloc.start()
    found = explainer.rank(x, method)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400 * MANY  # bytes
    alone = Explainer(stumps_of((0, 1, 2), 3), Normal(1.0), rtol=0).rank([[0.3] * 3], method)
    np.testing.assert_array_equal(found.scores[0, USED], alone.scores[0])
    order = found.order[0]
    assert np.array_equal(np.sort(order), np.arange(MANY))
    assert [USED.index(q) for q in order[np.isin(order, USED)]] == alone.order[0].tolist()
    unused = order[~np.isin(order, USED)]
    assert (np.diff(unused) > 0).all()


def test_a_million_of_them_are_scored(million):
    explainer, x = million
    alone = Explainer(stumps_of((0, 1, 2), 3), Normal(1.0), rtol=0)
    order = np.arange(MANY)[::-1][None]
    places = [MANY - 1 - q for q in sorted(USED, reverse=True)]
    gaps = alone.curve([[0.3] * 3], [[2, 1, 0]])[0]
    expected = (gaps * np.diff([*places, MANY])).sum() / MANY
    assert explainer.pgi2(x, order)[0] == pytest.approx(expected, rel=1e-12)
    reverse = alone.curve([[0.3] * 3], [[0, 1, 2]])[0]
    expected = (reverse * np.diff([*USED, MANY])).sum() / MANY
    assert explainer.pgu2(x, order)[0] == pytest.approx(expected, rel=1e-12)
    # The three are in a random order, at random places: each number of them is before a place as often.
    sizes = [[[0], [1], [2]], [[0, 1], [0, 2], [1, 2]], [[0, 1, 2]]]
    means = [np.mean([alone.gap([[0.3] * 3], subset)[0] for subset in each]) for each in sizes]
    assert explainer.random_pgi2(x)[0] == pytest.approx(sum(means) * (MANY + 1) / (4 * MANY), rel=1e-9)


def test_a_million_of_them_are_evaluated(million):
    explainer, x = million
    found = evaluate(explainer, x, ["greedy", "single", "random"], budget=1000)
    scores = {row["ranking"]: row["mean"] for row in found.summary}
    assert scores["greedy"] == pytest.approx(explainer.pgi2(x, explainer.rank(x))[0], rel=1e-9)
    assert scores["single"] == pytest.approx(explainer.pgi2(x, explainer.rank(x, "single"))[0], rel=1e-9)


def by_value(values):
    """`_by_value` as it reads: one place after the other, over all columns."""
    left, slack = values.copy(), TIE * np.abs(values).sum(axis=1)
    order = np.zeros(values.shape, dtype=np.intp)
    for place in range(values.shape[1]):
        order[:, place] = (left >= (left.max(axis=1) - slack)[:, None]).argmax(axis=1)
        left[np.arange(len(values)), order[:, place]] = -np.inf
    return order


values = st.sampled_from([0.0, 0.0, 0.0, 1.0, -1.0, 0.5, 1e-15, -1e-15, 5e-13, -5e-13, 1e-12, -1e-12, -2e-12])


@given(st.integers(1, 8).flatmap(lambda d: st.lists(st.lists(values, min_size=d, max_size=d), min_size=1)))
def test_values_are_ordered_as_the_rule_reads(rows):
    np.testing.assert_array_equal(_by_value(np.array(rows)), by_value(np.array(rows)))


N_USED, N_UNUSED = 90, 15  # of so many features the parts of gains are kept from place to place


def many_features(seed):
    """Trees of up to three features; six of the features are in half of the trees."""
    rng = np.random.default_rng(seed)
    trees = []
    for t in range(240):
        among = 6 if t % 2 else N_USED
        split = [(int(rng.integers(among)), float(rng.normal())) for _ in range(7)]
        split[0] = (t % N_USED, split[0][1])  # each is used
        trees.append(
            [(q, threshold, 2 * k + 1, 2 * k + 2) for k, (q, threshold) in enumerate(split)]
            + rng.normal(size=8).tolist()
        )
    d = N_USED + N_UNUSED
    return replace(_ensemble(trees, d), feature_names=tuple(f"f{q}" for q in range(d)))


@pytest.mark.parametrize("strategy", ["plan", "compiled"])
@pytest.mark.parametrize(
    "groups", [None, {"first": ["f0", "f3", "f50"], "second": ["f1", "f70"]}], ids=["alone", "groups"]
)
def test_every_place_of_many_features_has_the_largest_gap(groups, strategy):
    explainer = Explainer(many_features(1), Normal(0.4), rtol=0, groups=groups, _strategy=strategy)
    x = np.random.default_rng(2).normal(size=(1, N_USED + N_UNUSED))
    still = [8, 20, 89]
    x[0, still] = np.nan  # no noise moves what is missing
    found = explainer.rank(x)
    order, scores = found.order[0].tolist(), found.scores[0]
    names = found.feature_names
    curve = explainer.curve(x, found)[0]
    np.testing.assert_allclose(np.diff(curve, prepend=0), scores[order], rtol=0, atol=1e-12 * curve.max())
    for place in (0, 1, 7, 30, len(order) // 2, len(order) - 20, len(order) - 2):
        subset = [names[u] for u in order[:place]]
        gaps = {u: float(explainer.gap(x, [*subset, names[u]])[0]) for u in order[place:]}
        assert gaps[order[place]] >= max(gaps.values()) - 1e-12 * curve.max()
    idle = [u for u in order if scores[u] == 0.0]
    assert len(idle) >= N_UNUSED + len(still)
    assert idle == sorted(idle)


def test_first_places_and_orders_that_are_searched_for_are_those_of_all_of_many_features():
    explainer = Explainer(many_features(3), Normal(0.4), rtol=0)
    rows = np.random.default_rng(4).normal(size=(2, N_USED + N_UNUSED))
    whole = explainer.rank(rows)
    np.testing.assert_array_equal(explainer.rank(rows, top=9).order, whole.order[:, :9])
    best = explainer.rank(rows, "optimal", top=9)
    assert (explainer.pgi2(rows, best) >= explainer.pgi2(rows, whole.order[:, :9]) * (1 - 1e-12)).all()
