"""Keeps an evaluation within a number of seconds: a larger tolerance first, less search, fewer rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import numpy as np

from predgap._engine.costs import Cost
from predgap._text import shown
from predgap._typing import IndexArray
from predgap.errors import CostError, PredgapError
from predgap.evaluation.answers import Effort
from predgap.explainer import Explainer

LOOSE: Final = 1e-3
"""The tolerance that is taken if the explainer's own takes too long."""

ENOUGH: Final = 100
"""If so many rows fit, the best ranking of each is still looked for among all."""

_TRIAL: Final = 0.1  # the share of the budget that a trial may take
_MARGIN: Final = 0.95  # the share of the budget that trials and the rows are chosen for
_SPREAD: Final = 0.5  # of the times of rows, relative to their mean: a trial of few rows may be too short
_FEWEST: Final = 50  # rows that must fit by the expected cost, else comparing all rankings is not tried
_FEW: Final = 5  # rows that must fit by the expected cost of their greedy rankings, else gaps are estimated
_TOO_FEW: Final = 10  # rows; if not as many fit, gaps are estimated
_FASTER: Final = 0.7  # the share of the time that a lesser way may take at most, to be worth it
_STEPS: Final = (1, 1.5, 2, 3, 4, 5, 7)

Found = TypeVar("Found")
Examine = Callable[[Explainer, IndexArray, Effort], Found]
"""Computes everything for some rows, by an explainer, with an effort."""

Price = Callable[[Explainer, Effort], Cost]
"""The expected cost of a row."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan(Generic[Found]):
    """With what tolerance and effort, and for which rows, an evaluation is made."""

    explainer: Explainer
    rows: IndexArray  # ascending
    effort: Effort = "full"
    notes: tuple[str, ...] = ()
    found: Found | None = None  # if a trial has examined just these rows


def checked_budget(budget: Any) -> float | None:
    """A positive number of seconds, or None; PredgapError for anything else."""
    if budget is None:
        return None
    number = isinstance(budget, int | float | np.number) and not isinstance(budget, bool)
    if not number or not budget > 0 or not np.isfinite(budget):
        raise PredgapError(
            f"budget is {shown(budget)}, expected a number of seconds above 0, or None for no limit"
        )
    return float(budget)


def planned(
    explainer: Explainer,
    n_rows: int,
    budget: float | None,
    seed: int,
    examine: Examine[Found],
    price: Price,
    prepare: Callable[[], object],
    clock: Callable[[], float] = time.perf_counter,
) -> Plan[Found]:
    """What fits into a budget: all rows; else with a larger tolerance; else, if less than 100 rows would fit,
    without comparing all rankings for best and random; else, if less than 10 would, from estimated gaps; else
    some of the rows.

    Trials on a few rows tell how long a row takes; `prepare` first does what is done once, whatever the rows.
    The time of both counts, too. The number of rows is rounded down
    (see `rounded_down`), so that it is seldom different when the same call takes a little longer.
    """
    if budget is None or n_rows == 0:
        return Plan(explainer, np.arange(n_rows, dtype=np.intp))
    shuffled = np.random.default_rng(seed).permutation(n_rows).astype(np.intp)
    trial, end = _Trial(shuffled, budget, examine, price, clock), clock() + _MARGIN * budget
    prepare()
    taken: Plan[Found] = Plan(explainer, shuffled)
    pace: _Pace[Found] = _Pace()
    for plan in _ladder(explainer, shuffled, budget):
        if plan.effort == "estimate" and pace.seconds(_TOO_FEW) <= end - clock():
            break
        tried = trial.pace(plan.explainer, plan.effort)
        if tried.per_row < _FASTER * pace.per_row:
            taken, pace = plan, tried
        left = end - clock()
        if pace.seconds(n_rows) <= left or (plan.explainer.rtol >= LOOSE and pace.seconds(ENOUGH) <= left):
            break
    n = pace.rows_within(end - clock(), n_rows)
    notes = taken.notes
    if n < n_rows:
        drawn = (
            f"To keep within {budget:g} s, {n:,} of {n_rows:,} rows were drawn at random (seed "
            f"{seed}). On a faster or slower computer it may be another number."
        )
        notes = (*notes, drawn)
    found = pace.found if n == pace.n_tried else None
    return Plan(taken.explainer, np.sort(shuffled[:n]), taken.effort, notes, found)


def _ladder(explainer: Explainer, rows: IndexArray, budget: float) -> Iterator[Plan[Any]]:
    """Ways to evaluate, each faster than the one before it."""
    yield Plan(explainer, rows)
    notes: tuple[str, ...] = ()
    if explainer.rtol < LOOSE:
        explainer = explainer._with_rtol(LOOSE)
        notes = (f"To keep within {budget:g} s, gaps have a proven relative error of up to {LOOSE:g}.",)
        yield Plan(explainer, rows, "full", notes)
    found = (
        f"To keep within {budget:g} s, the best ranking of a row is the best that was found by a greedy "
        "search, and the score of a random one is the mean of 8; not all rankings were compared."
    )
    yield Plan(explainer, rows, "search", (*notes, found))
    estimated = (
        f"To keep within {budget:g} s, gaps are estimated, the best ranking of a row is the best that was "
        "found by a greedy search, and the score of a random one is the mean of 8."
    )
    yield Plan(explainer, rows, "estimate", (estimated,))


@dataclass(frozen=True, slots=True, eq=False)
class _Pace(Generic[Found]):
    """How long rows take, from a trial: `once`, and each row more; without a trial, for ever."""

    once: float = 0.0
    per_row: float = np.inf
    n_tried: int = 0
    found: Found | None = None  # for the rows that were tried

    def seconds(self, n_rows: int) -> float:
        """What so many rows may take, if the trial met quicker ones; nothing more if these were tried."""
        if n_rows == self.n_tried:
            return 0.0
        return self.once + self.per_row * n_rows * (1.0 + _SPREAD / math.sqrt(max(1, self.n_tried)))

    def rows_within(self, seconds: float, n_rows: int) -> int:
        """How many of n rows can be examined in the time, rounded down; at least those of the trial."""
        if self.seconds(n_rows) <= seconds:
            return n_rows
        each = (self.seconds(self.n_tried + 1) - self.once) / (self.n_tried + 1)
        return min(n_rows, max(rounded_down((seconds - self.once) / each), self.n_tried))


@dataclass(frozen=True, slots=True, eq=False)
class _Trial(Generic[Found]):
    """Measures how long a row takes."""

    rows: IndexArray
    budget: float
    examine: Examine[Found]
    price: Price
    clock: Callable[[], float]

    def pace(self, explainer: Explainer, effort: Effort) -> _Pace[Found]:
        """From 1, 2, 4, ... rows a thread, up to a tenth of the budget; if a row alone is beyond it, none."""
        estimate = effort == "estimate"
        if not estimate:
            expected = self.price(explainer, effort)
            fewest = _FEWEST if effort == "full" else _FEW
            most = self.budget / min(fewest, len(self.rows))
            if expected.refused or expected.milliseconds > 1e3 * most:
                return _Pace()
        begin, n, before = self.clock(), min(len(self.rows), explainer._engine.n_threads), None
        while True:
            start = self.clock()
            try:
                found = self.examine(explainer, np.sort(self.rows[:n]), effort)
            except CostError:
                if estimate:
                    raise
                return _Pace()
            took, spent = self.clock() - start, self.clock() - begin
            if 2 * n > len(self.rows) or spent + 2 * took > _TRIAL * self.budget:
                per_row = _per_row(n, took, before)
                return _Pace(max(0.0, took - n * per_row), per_row, n, found)
            n, before = 2 * n, took


def _per_row(n: int, took: float, before: float | None) -> float:
    """The time of one row more, from that of n rows and of half as many: what is done once is left out."""
    return took / n if before is None else max((took - before) / (n // 2), 0.2 * took / n)


def rounded_down(number: float) -> int:
    """The largest of 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, ... that is not above a number; at least 1.

    Examples
    --------
    >>> [rounded_down(x) for x in (0.3, 4.9, 5, 99, 1634)]
    [1, 4, 5, 70, 1500]
    """
    most = max(1.0, number)
    power = 10 ** int(np.log10(most))
    return int(max(step * power for step in _STEPS if step * power <= most))
