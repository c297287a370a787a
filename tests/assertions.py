"""Assertions that tests share: the engine gives what its slow reference gives; and Ctrl-C stops it."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from predgap import Explainer, Normal
from predgap._model.ensemble import Ensemble
from predgap.errors import LongCallWarning
from reference import Row, gap_by_pairs, gap_in_longdouble, tails_of
from strategies import Problem

STRATEGIES = ("plan", "compiled", "pairs", None)
"""Terms of a shared plan, terms compiled for the row, pairs of leaves, or whichever the planner picks."""


def exactly(ensemble: Ensemble, noise: Any, strategy: str | None = None, **options: Any) -> Explainer:
    """An explainer that answers exactly, by one of the strategies."""
    return Explainer(ensemble, noise, rtol=0, _strategy=strategy, **options)


def explainer_of(problem: Problem, strategy: str | None, **options: Any) -> Explainer:
    return exactly(problem.ensemble, problem.noise, strategy, **options)


def rows_of(problem: Problem) -> list[Row]:
    return [row_of(problem.ensemble, problem.noise, x) for x in problem.X]


def row_of(ensemble: Ensemble, noise: Any, x: np.ndarray, twin: Callable[..., Any] = gap_by_pairs) -> Row:
    return Row(ensemble, tails_of(noise, ensemble), x, twin)


def assert_gaps(problem: Problem, explainer: Explainer) -> None:
    """The gaps of the problem's rows and subset are those of the definition."""
    found = explainer.gap(problem.X, problem.mask)
    assert found.shape == (len(problem.X),)
    for row, gap in zip(rows_of(problem), found, strict=True):
        row.assert_gap(gap, problem.subset)


def assert_gaps_of_model(ensemble: Ensemble, X: np.ndarray) -> None:
    """So are some of the gaps of a model with four features, as large as those that libraries train."""
    noise = Normal(0.3)
    explainer = Explainer(ensemble, noise)
    for x in X:
        row = row_of(ensemble, noise, x, gap_in_longdouble)
        for subset in ([0], [1, 2], [0, 1, 2, 3]):
            row.assert_gap(float(explainer.gap(x[None, :], subset)[0]), subset)


def interrupted(work: Callable[[], Any], after: float) -> float:
    """Seconds of work from Ctrl-C, pressed some time after the work began, to the KeyboardInterrupt.

    The work is meant to be long, so it may say that it is.
    """
    pressed: list[float] = []

    def press() -> None:
        pressed.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after, press)
    timer.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LongCallWarning)
            with pytest.raises(KeyboardInterrupt):
                work()
    finally:
        timer.cancel()  # the work was too small
    return time.process_time() - pressed[0]
