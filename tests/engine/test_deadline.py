"""Deadlines: kernels give up after one, in the same way as after Ctrl-C; before it, nothing changes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from predgap import Background, Explainer, Normal
from predgap._engine.context import Call, Context, DeadlineError, Shown, calling, deadline


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
    shown = Shown(lambda done, _: seen.append(done), n)
    explainer.progress = Context(Call(""), shown=shown, end=n, n=n)  # as a budget has it
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


def test_a_deadline_that_has_passed_is_seen_at_once(forest):
    model, X = forest
    explainer, told = Explainer(model, Normal(0.5), progress=lambda *what: told.append(what)), []
    for ask in QUESTIONS.values():
        clock = Clock()
        with deadline(0, clock), pytest.raises(DeadlineError):
            ask(explainer, X[:1])
        assert clock.now == 1
    assert told == []
    with calling(Call(""), 4, progress=explainer.progress) as context:
        assert context.has_passed is None


@pytest.mark.parametrize("progress", ["function", "part", False])
def test_rows_done_are_told_on(progress):
    told, clock = [], Clock()
    shown = Shown(lambda *what: told.append(what), 8)
    progress = {
        "function": lambda *what: told.append(what),
        "part": Context(Call(""), shown=shown, begin=4.0, end=8.0),
        False: False,
    }[progress]
    with deadline(2, clock), calling(Call(""), 8, progress=progress) as context:
        context.look(4, 2.5)
        with pytest.raises(DeadlineError):
            context.look(6)
    assert clock.now == 3
    assert told == {False: []}.get(progress, [(6 if isinstance(progress, Context) else 4, 8)])
