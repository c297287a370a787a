"""The planner: what it says of an answer is what the answer does."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from asking import kernel_of
from predgap import Ensemble, Explainer, Normal, _core
from predgap._engine.accuracy import EXACT, Accuracy, guaranteed, pruned
from predgap._engine.kernels import QUIET, as_bytes
from strategies import full_trees

N_ROWS = 2


def _table(d: int, n: int = 600) -> np.ndarray:
    rng = np.random.default_rng(d)
    return rng.normal(size=(n, d)) + rng.normal(size=(n, 1))


def _target(X: np.ndarray) -> np.ndarray:
    return X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + np.abs(X[:, 3]) + 0.3 * X[:, 4:].sum(axis=1)


def _boosted(n_trees: int, n_leaves: int, d: int) -> tuple[Any, np.ndarray]:
    from sklearn.ensemble import HistGradientBoostingRegressor

    X = _table(d, 2000)
    options = {"max_iter": n_trees, "max_leaf_nodes": n_leaves, "early_stopping": False, "random_state": 0}
    return HistGradientBoostingRegressor(**options).fit(X, _target(X)), X


def _forest(n_trees: int, d: int, depth: int | None) -> tuple[Any, np.ndarray]:
    from sklearn.ensemble import RandomForestRegressor

    X = _table(d)
    return RandomForestRegressor(n_trees, max_depth=depth, random_state=0).fit(X, _target(X)), X


def _full(n_trees: int, depth: int, d: int) -> tuple[Ensemble, np.ndarray]:
    rng = np.random.default_rng(0)
    return full_trees(rng, n_trees=n_trees, depth=depth, n_features=d), _table(d)


MODELS: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {
    "a cheap plan": lambda: _boosted(10, 4, 6),
    "a plan": lambda: _boosted(60, 15, 8),
    "compiled": lambda: _boosted(150, 31, 14),
    "few features, deep trees": lambda: _boosted(60, 60, 5),
    "forest": lambda: _forest(30, 8, None),
    "pruned forest": lambda: _forest(40, 10, 7),
    "full trees": lambda: _full(30, 6, 12),
}
ACCURACIES = {
    "exact": EXACT,
    "1e-9": guaranteed(1e-9),
    "1e-6": guaranteed(1e-6),
    "1e-2": guaranteed(1e-2),
    "pruned": pruned(1e-2),
}


@cache
def _case(name: str) -> tuple[Explainer, np.ndarray]:
    model, X = MODELS[name]()
    return Explainer(model, Normal(0.3)), X[:N_ROWS]


def _questions(d: int) -> dict[str, tuple[str, int, np.ndarray | None]]:
    """The kind, the number of places, and the order of features; the features move that the order names."""
    order = np.random.default_rng(1).permutation(d).astype(np.int32)
    few = {f"gap of {n}": ("gap", 0, order[None, :n]) for n in (1, d // 2, d)}
    curves = {f"curve of {n}": ("curve", n, order[None, :n]) for n in (d // 2, d)}
    return few | curves | {f"top {n}": ("greedy", n, None) for n in (1, d // 2, d)}


def _asked(explainer: Explainer, X: np.ndarray, question: str, accuracy: Accuracy) -> tuple[Any, tuple]:
    """The kernel, and the arguments of `cost` and of `way_taken`."""
    kernel = kernel_of(explainer)
    kind, n, order = _questions(X.shape[1])[question]
    moved = kernel.every if order is None else kernel.features_of(order)
    rows = kernel.rows(explainer.explained.rows(X).values, moved)
    places = order if kind == "curve" else None
    return kernel.core, (
        rows,
        kind,
        as_bytes(moved),
        n,
        kernel.accuracy(accuracy),
        QUIET,
        kernel.units,
        places,
    )


@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("name", MODELS)
def test_answers_take_the_way_that_their_cost_names(name, accuracy):
    explainer, X = _case(name)
    for question in _questions(X.shape[1]):
        for row in range(N_ROWS):
            core, asked = _asked(explainer, X[row : row + 1], question, ACCURACIES[accuracy])
            said = core.cost(*asked)
            if said[3][0] > 1e3 * _core.MOST_SECONDS or said[4][0] > _core.MOST_BYTES / 1e6:
                with pytest.raises(_core.TooCostly):
                    core.way_taken(*asked)
                continue
            for of_cost, of_answer in zip(said[:3], core.way_taken(*asked), strict=True):
                assert of_cost.tolist() == of_answer.tolist(), (question, row)


def test_all_routes_and_methods_are_among_these():
    """The test above would say little of a zoo in which all goes one way."""
    ways = set()
    for name in MODELS:
        for accuracy in ACCURACIES.values():
            for question in _questions(_case(name)[1].shape[1]):
                core, asked = _asked(*_case(name), question, accuracy)
                method, route, *_ = core.cost(*asked)
                ways |= {(_core.ROUTES[r], _core.METHODS[m]) for r, m in zip(route, method, strict=True)}
    assert ways >= {
        ("plan", "exact"),
        ("compiled", "exact"),
        ("compiled", "bounded"),
        ("compiled", "pruned"),
        ("pairs", "exact"),
    }


@pytest.mark.parametrize("name", MODELS)
def test_milliseconds_are_the_sum_of_what_is_counted(name):
    explainer, X = _case(name)
    nanoseconds = np.array([speed for speed, _ in _core.SPEEDS.values()])
    for question in _questions(X.shape[1]):
        core, asked = _asked(explainer, X, question, guaranteed(1e-6))
        _, _, _, milliseconds, _, work = core.cost(*asked)
        np.testing.assert_allclose(1e-6 * work @ nanoseconds, milliseconds, rtol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_an_examination_takes_as_much_as_its_ranking_and_curves_at_most(name):
    """It puts the terms in place once."""
    explainer, X = _case(name)
    kernel = kernel_of(explainer)
    rows, every = kernel.rows(X, kernel.every), as_bytes(kernel.every)
    d = X.shape[1]

    def milliseconds(kind: str, n: int) -> np.ndarray:
        return kernel.core.cost(rows, kind, every, n, kernel.accuracy(EXACT), QUIET, kernel.units)[3]

    ranking, curve = milliseconds("greedy", d), milliseconds("curve", d)
    for n_curves in (0, 1, 6):
        examined = milliseconds("examine", n_curves)
        assert (examined >= ranking - 1e-9).all()
        assert (examined <= 1.1 * (ranking + n_curves * curve)).all()  # counts of some trees differ


@pytest.mark.parametrize("name", MODELS)
def test_fewer_places_cost_less(name):
    explainer, X = _case(name)
    whole = explainer.cost("rank", X).milliseconds
    assert explainer.cost("rank", X, top=1).milliseconds <= 1.05 * whole
    assert explainer.cost("rank", X, top=X.shape[1]).milliseconds == whole
