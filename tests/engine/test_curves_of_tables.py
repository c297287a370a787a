"""Curves of given orders that come along with the best ranking, from the gaps of all subsets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import Core
from assertions import explainer_of, rows_of
from predgap import Explainer, Normal, Uniform, evaluate
from predgap._engine import subsets
from predgap._engine.accuracy import EXACT, guaranteed
from predgap._engine.questions import Curve
from predgap._engine.subsets import BestRankings, SubsetEngine
from redrawn import cases, partitions
from strategies import MANY_FEATURES, Split, ensemble_of, full_trees, mixed_problems, problems


def groupings(d):
    """Units of the features, ordered by their first ones, as an explainer has them."""
    return partitions(d).map(lambda units: tuple(sorted(tuple(sorted(unit)) for unit in units)))


@st.composite
def orders_of(draw, n_rows, n_units):
    """Three orders of each row, (n_rows, 3, top), with top from 1 to all units, or 8."""
    top = draw(st.integers(1, min(n_units, 8)))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    drawn = rng.permuted(np.tile(np.arange(n_units, dtype=np.int32), (n_rows, 3, 1)), axis=2)
    return drawn[:, :, :top]


def ask(explainer, X, orders, members=None, accuracy=EXACT):
    engine = Core(explainer, members).subsets
    return BestRankings(engine, engine.ensemble.cast(X), orders.shape[2], orders).answer(accuracy)


def prefixes(order, members):
    """The features of each prefix of an order of units."""
    units = order.tolist()
    features = units if members is None else [q for u in units for q in members[u]]
    ends = range(1, len(units) + 1) if members is None else np.cumsum([len(members[u]) for u in units])
    return [features[:end] for end in ends]


def assert_curves(found, orders, rows, members, tolerance=0.0):
    """Each curve has the gaps of the definition; all but the best's may be missing, if they are not exact."""
    best = zip(found.order[:, None], found.curve[:, None], strict=True)
    for row, own, curves, (order, curve) in zip(rows, orders, found.curves, best, strict=True):
        for units, gaps in zip([*own, *order], [*curves, *curve], strict=True):
            if tolerance and np.isnan(gaps).all():
                continue
            for gap, features in zip(gaps, prefixes(units, members), strict=True):
                allowed = row.bound(features) + tolerance * gaps.mean()
                assert abs(gap - float(row.gap(features))) <= allowed


def check(explainer, X, rows, data):
    d = explainer.ensemble.n_features
    members = data.draw(st.none() | groupings(d))
    orders = data.draw(orders_of(len(X), d if members is None else len(members)))
    assert_curves(ask(explainer, X, orders, members), orders, rows, members)


@given(problem=st.one_of(problems(), mixed_problems()), data=st.data())
def test_curves_by_the_definition(problem, data):
    check(explainer_of(problem, None), problem.X, rows_of(problem), data)


@given(problem=problems(n_features=MANY_FEATURES, max_rows=1), data=st.data())
def test_most_units_do_not_matter(problem, data):
    explainer, d = explainer_of(problem, None), problem.ensemble.n_features
    orders = data.draw(orders_of(1, d))
    used = np.flatnonzero(Core(explainer).used)
    orders[0, 0] = [*dict.fromkeys([*used[-4:], *range(d)])][: orders.shape[2]]
    assert_curves(ask(explainer, problem.X, orders), orders, rows_of(problem), None)


@given(case=cases(), data=st.data())
def test_joint_noise(case, data):
    check(case.explainer(), case.X, case.rows(), data)


@pytest.mark.parametrize("rtol", [1e-6, 1e-2, 0.3])
@given(problem=problems(), data=st.data())
def test_curves_within_the_tolerance_of_their_means(rtol, problem, data):
    explainer, d = explainer_of(problem, "compiled"), problem.ensemble.n_features
    members = data.draw(st.none() | groupings(d))
    orders = data.draw(orders_of(len(problem.X), d if members is None else len(members)))
    found = ask(explainer, problem.X, orders, members, guaranteed(rtol))
    assert_curves(found, orders, rows_of(problem), members, rtol)
    is_missing = np.isnan(found.curves)
    assert (is_missing.all(axis=2) == is_missing.any(axis=2)).all()  # a curve is given as a whole
    assert not is_missing[found.method == "exact"].any()


# ---- what is not within the tolerance is asked of the kernel ----

RTOL = 1e-2
ORDERS = {"large": [1, 2], "small": [0, 1], "tiny": [0, 5]}  # feature 0 hardly moves, nor does 5


@pytest.fixture(scope="module")
def uneven():
    """Explainers with a tolerance and without one, and rows; some orders move the prediction far less."""
    rng = np.random.default_rng(1)
    ensemble, X = full_trees(rng, n_trees=40, depth=6, n_features=6), rng.normal(size=(4, 6))
    noise = Normal([0.01, 0.5, 0.5, 0.5, 0.5, 0.01])
    return [Explainer(ensemble, noise, rtol=rtol, _strategy="compiled") for rtol in (RTOL, 0)], X


def test_small_curves_do_not_come_along(uneven):
    (bounded, _), X = uneven
    orders = np.tile(np.array([*ORDERS.values()], dtype=np.int32), (len(X), 1, 1))
    found = ask(bounded, X, orders, accuracy=guaranteed(RTOL))
    assert set(found.method) == {"bounded"}
    assert np.isnan(found.curves[:, 2]).all()
    assert not np.isnan(found.curves[:, 0]).any()


def test_what_did_not_come_along_is_asked_of_the_kernel(uneven, monkeypatch):
    (bounded, exact), X = uneven
    asked, curve, answer = [], SubsetEngine.curve, Curve.answer
    monkeypatch.setattr(
        SubsetEngine, "curve", lambda self, rows, *a: asked.append(len(rows)) or curve(self, rows, *a)
    )
    monkeypatch.setattr(Curve, "answer", lambda self, *a: asked.append(len(self.rows)) or answer(self, *a))
    found = evaluate(bounded, X, ORDERS)
    assert sum(asked) >= len(X)  # at least "tiny" of each row
    asked.clear()
    evaluate(exact, X, ORDERS)
    assert asked == []
    for own, order in zip(found.curves, ORDERS.values(), strict=True):
        right = exact.curve(X, order)
        assert (np.abs(own - right) <= RTOL * right.mean(axis=1, keepdims=True)).all()


def test_without_tables_no_curve_comes_along(uneven, monkeypatch):
    monkeypatch.setattr(subsets, "MOST_UNITS", -1)
    (_, exact), X = uneven
    orders = np.tile(np.array([*ORDERS.values()], dtype=np.int32), (len(X), 1, 1))
    assert np.isnan(ask(exact, X, orders).curves).all()


def test_rows_in_which_nothing_moves():
    explainer = Explainer(ensemble_of([Split(0, 9.0, 1.0, 2.0)], 2), Uniform(1.0))
    found = ask(explainer, np.zeros((1, 2)), np.array([[[1, 0]]], dtype=np.int32), accuracy=guaranteed(RTOL))
    assert found.curves.tolist() == [[[0.0, 0.0]]]
