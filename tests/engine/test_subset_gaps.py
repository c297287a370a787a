"""The gaps of all subsets of a row at once, by every strategy, against the definition."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import Core
from assertions import STRATEGIES, explainer_of, interrupted, rows_of
from predgap import Explainer, Normal, Uniform
from predgap._engine.accuracy import EXACT, guaranteed
from strategies import MANY_FEATURES, WIDE, Split, ensemble_of, full_trees, mixed_problems, problems

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


@st.composite
def partitions(draw, d):
    """Units of the features 0, ..., d - 1, ordered by their first features."""
    label = draw(st.lists(st.integers(0, d - 1), min_size=d, max_size=d))
    return tuple(tuple(q for q in range(d) if label[q] == own) for own in dict.fromkeys(label))


def subsets_of(units):
    """The subset with each number."""
    return [[u for i, u in enumerate(units) if number >> i & 1] for number in range(1 << len(units))]


def table(core, X, accuracy=EXACT):
    """The gaps of all subsets of all units, the bounds and the methods."""
    n_units = core.kernel.n_units
    rows = core.ensemble.cast(X)
    chosen = np.tile(np.arange(n_units, dtype=np.int32), (len(rows), 1))
    share = np.full(n_units + 1, 1 / (n_units + 1))
    return core.subset_gaps(rows, chosen, share, accuracy)


def assert_table(problem, strategy, members=None):
    core = Core(explainer_of(problem, strategy), members)
    gaps, bound, _ = table(core, problem.X)
    assert not bound.any()
    units = members or [(q,) for q in range(problem.ensemble.n_features)]
    moving = core.moving_units(problem.ensemble.cast(problem.X))
    for r, row in enumerate(rows_of(problem)):
        for found, subset in zip(gaps[r], subsets_of(range(len(units))), strict=True):
            row.assert_gap(found, [q for u in subset for q in units[u]])
            still = [u for u in subset if moving[r, u]]
            assert row.gap([q for u in still for q in units[u]]) == row.gap(
                [q for u in subset for q in units[u]]
            )


@every_strategy
@given(problem=problems())
def test_all_subsets_by_the_definition(strategy, problem):
    assert_table(problem, strategy)


@every_strategy
@given(problem=problems(values=st.sampled_from(WIDE), max_rows=1), data=st.data())
def test_groups_move_as_one(strategy, problem, data):
    assert_table(problem, strategy, data.draw(partitions(problem.ensemble.n_features)))


@every_strategy
@given(problem=mixed_problems(max_rows=1), data=st.data())
def test_categories(strategy, problem, data):
    d = problem.ensemble.n_features
    assert_table(problem, strategy, data.draw(st.one_of(st.none(), partitions(d))))


@given(problem=problems(n_features=MANY_FEATURES, max_rows=1), data=st.data())
def test_some_units_of_many(problem, data):
    """In any order, and the others stay."""
    core, d = Core(explainer_of(problem, None)), problem.ensemble.n_features
    units = data.draw(st.lists(st.integers(0, d - 1), min_size=0, max_size=4, unique=True))
    used = np.flatnonzero(core.used).tolist()
    units = list(dict.fromkeys([*used, *units]))[:6]
    rows = problem.ensemble.cast(problem.X)
    gaps, *_ = core.subset_gaps(
        rows, np.array([units], dtype=np.int32).reshape(1, -1), np.ones(len(units) + 1), EXACT
    )
    (row,) = rows_of(problem)
    for found, subset in zip(gaps[0], subsets_of(units), strict=True):
        row.assert_gap(found, subset)


@pytest.mark.parametrize("strategy", ["plan", "compiled"])
def test_large_components_are_those_of_single_gaps(strategy):
    """More terms on a set of features than have their factors in memory, and several blocks of subsets."""
    rng = np.random.default_rng(0)
    ensemble = full_trees(rng, n_trees=60, depth=4, n_features=8)
    explainer = Explainer(ensemble, Normal(0.7), rtol=0, _strategy=strategy)
    X = rng.normal(size=(2, 8))
    gaps, *_ = table(Core(explainer), X)
    for number in [1, 3, 17, 100, 128, 200, 254, 255]:
        subset = [q for q in range(8) if number >> q & 1]
        np.testing.assert_allclose(gaps[:, number], explainer.gap(X, subset), rtol=1e-12)


def test_bounded_gaps_are_within_their_bound():
    rng = np.random.default_rng(1)
    ensemble = full_trees(rng, n_trees=40, depth=6, n_features=6)
    explainer = Explainer(ensemble, Normal(0.3), _strategy="compiled")
    X = rng.normal(size=(3, 6))
    exact, *_ = table(Core(explainer), X)
    gaps, bound, method = table(Core(explainer), X, accuracy=guaranteed(1e-2))
    assert (method == 1).all()
    assert (bound > 0).all()
    assert (np.abs(gaps - exact).max(axis=1) <= bound).all()
    size = np.array([number.bit_count() for number in range(64)])
    means = np.array([[row[size == k].mean() for k in range(7)] for row in gaps])
    assert (bound <= 1e-2 * means.mean(axis=1)).all()


def test_the_same_bits_for_threads_and_batches():
    rng = np.random.default_rng(2)
    ensemble = full_trees(rng, n_trees=30, depth=4, n_features=9)
    X = rng.normal(size=(7, 9))
    one, two = (Core(Explainer(ensemble, Normal(0.5), n_jobs=n)) for n in (1, 2))
    found, *_ = table(one, X)
    np.testing.assert_array_equal(found, table(two, X)[0])
    np.testing.assert_array_equal(found[3:4], table(one, X[3:4])[0])


SCRIPT = """
import sys
import numpy as np
from asking import Core
from predgap import Explainer, Normal
from predgap._engine.accuracy import EXACT
from strategies import full_trees
rng = np.random.default_rng(3)
X = rng.normal(size=(3, 9))
core = Core(Explainer(full_trees(rng, n_trees=30, depth=4, n_features=9), Normal(0.5)))
chosen = np.tile(np.arange(9, dtype=np.int32), (3, 1))
sys.stdout.write(core.subset_gaps(X, chosen, np.ones(10), EXACT)[0].tobytes().hex())
"""


def test_the_same_bits_for_instruction_sets():
    found = set()
    for isa in ("baseline", "avx2", ""):
        environment = {**os.environ, "PREDGAP_ISA": isa, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        found.add(run.stdout)
    assert len(found) == 1
    assert len(found.pop()) == 3 * 512 * 16


def test_ctrl_c_stops_a_row():
    rng = np.random.default_rng(4)
    ensemble = full_trees(rng, n_trees=150, depth=6, n_features=14)
    core = Core(Explainer(ensemble, Normal(1.0), rtol=0))
    X = rng.normal(size=(40, 14))
    assert interrupted(lambda: table(core, X), after=1.0) < 2.0


def test_a_model_without_trees_or_moves():
    empty = Core(Explainer(ensemble_of([], 2), Normal(1.0)))
    np.testing.assert_array_equal(table(empty, np.zeros((1, 2)))[0], np.zeros((1, 4)))
    assert not empty.moving_units(np.zeros((1, 2))).any()
    far = Core(Explainer(ensemble_of([Split(0, 9.0, 1.0, 2.0), Split(1, 0.5, 1.0, 2.0)], 3), Uniform(1.0)))
    moving = far.moving_units(np.array([[0.0, 0.0, 0.0], [9.5, np.nan, 0.0]]))
    assert moving.tolist() == [[False, True, False], [True, False, False]]
