"""Deadlines: kernels give up after one, in the same way as after Ctrl-C; before it, nothing changes."""

from __future__ import annotations

import numpy as np
import pytest
from predgap._engine.deadline import DeadlineError, deadline, watching
from predgap._engine.progress import Within
from sklearn.ensemble import RandomForestRegressor

from predgap import Background, Explainer, Normal


class Clock:
    """Time that goes on by 1 at each look."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        self.now += 1
        return self.now


@pytest.fixture(scope="module")
def forest():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 8))
    y = X @ rng.normal(size=8) + X[:, 0] * X[:, 1]
    return RandomForestRegressor(n_estimators=60, random_state=0).fit(X, y), X


QUESTIONS = {
    "rank": lambda e, X: e.rank(X),
    "curve": lambda e, X: e.pgi2(X, np.arange(8)),
    "optimal": lambda e, X: e.rank(X, "optimal"),
    "shapley": lambda e, X: e.rank(X, "shapley"),
    "random": lambda e, X: e.random_pgi2(X),
}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("noise", [Normal(0.5), "background"])
def test_kernels_give_up_in_the_midst_of_the_rows(forest, ask, n_jobs, noise):
    model, X = forest
    law, n = (Background(X[:500]), 1000) if noise == "background" else (noise, 3)
    explainer, clock, seen = Explainer(model, law, n_jobs=n_jobs), Clock(), []
    explainer.progress = Within(lambda done, milliseconds=0.0: seen.append(done), n)  # as a budget has it
    with pytest.raises(DeadlineError), deadline(2, clock):
        ask(explainer, X[:n])
    assert max(seen, default=0) < n
    assert clock.now == 3  # looked at no more
    explainer.progress = None
    assert explainer.pgi2(X[:1], [0, 1]).shape == (1,)  # and the deadline is gone


def test_before_the_deadline_nothing_changes(forest):
    model, X = forest
    explainer = Explainer(model, Normal(0.5), rtol=1e-2)
    with deadline(1e9, Clock()):
        found = explainer.rank(X[:2], "single")
    assert found.scores.tobytes() == explainer.rank(X[:2], "single").scores.tobytes()


def test_a_deadline_that_has_passed_is_seen_at_once():
    told = []
    with deadline(0, Clock()), pytest.raises(DeadlineError):
        watching(told.append)
    assert told == []
    assert watching(None) is None
    assert watching(told.append) == told.append


def test_rows_done_are_told_on():
    told = []
    with deadline(10, Clock()):
        tell = watching(lambda *what: told.append(what))
        tell(4, 2.5)
    assert told == [(0, 0.0), (4, 2.5)]
