"""Keeps an evaluation within a number of seconds: a larger tolerance first, less search, fewer rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

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
_MARGIN: Final = 0.8  # the share of the budget that the rows are chosen for
_FEWEST: Final = 50  # rows that must fit by the expected cost, else comparing all rankings is not tried
_TOO_FEW: Final = 10  # rows; if not as many fit, gaps are estimated
_FASTER: Final = 0.7  # the share of the time that a lesser way may take at most, to be worth it
_STEPS: Final = (1, 2, 5)

Examine = Callable[[Explainer, IndexArray, Effort], object]
"""Computes everything for some rows, by an explainer, with an effort."""

Price = Callable[[Explainer, Effort], Cost]
"""The expected cost of a row."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """With what tolerance and effort, and for which rows, an evaluation is made."""

    explainer: Explainer
    rows: IndexArray  # ascending
    effort: Effort = "full"
    notes: tuple[str, ...] = ()


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
    examine: Examine,
    price: Price,
    clock: Callable[[], float] = time.perf_counter,
) -> Plan:
    """What fits into a budget: all rows; else with a larger tolerance; else, if less than 100 rows would fit,
    without comparing all rankings for best and random; else, if less than 10 would, from estimated gaps; else
    some of the rows.

    Trials on a few rows tell how long a row takes. The number of rows is rounded down to 1, 2, 5, 10,
    20, ..., so that it is seldom different when the same call takes a little longer.
    """
    if budget is None or n_rows == 0:
        return Plan(explainer, np.arange(n_rows, dtype=np.intp))
    shuffled = np.random.default_rng(seed).permutation(n_rows).astype(np.intp)
    trial = _Trial(shuffled, budget, examine, price, clock)
    most = _MARGIN * budget
    taken, seconds = Plan(explainer, shuffled), np.inf
    for plan in _ladder(explainer, shuffled, budget):
        if plan.effort == "estimate" and seconds * _TOO_FEW <= most:
            break
        needs = trial.seconds_per_row(plan.explainer, plan.effort)
        if needs < _FASTER * seconds:
            taken, seconds = plan, needs
        if seconds * n_rows <= most or (plan.explainer.rtol >= LOOSE and seconds * ENOUGH <= most):
            break
    n = n_rows if seconds * n_rows <= most else min(n_rows, rounded_down(most / seconds))
    notes = taken.notes
    if n < n_rows:
        drawn = (
            f"To keep within {budget:g} s, {n:,} of {n_rows:,} rows were drawn at random (seed "
            f"{seed}). On a faster or slower computer it may be another number."
        )
        notes = (*notes, drawn)
    return Plan(taken.explainer, np.sort(shuffled[:n]), taken.effort, notes)


def _ladder(explainer: Explainer, rows: IndexArray, budget: float) -> Iterator[Plan]:
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
class _Trial:
    """Measures how long a row takes."""

    rows: IndexArray
    budget: float
    examine: Examine
    price: Price
    clock: Callable[[], float]

    def seconds_per_row(self, explainer: Explainer, effort: Effort) -> float:
        """From 1, 2, 4, ... rows, up to a tenth of the budget; infinite if a row alone is beyond it."""
        estimate = effort == "estimate"
        if not estimate:
            expected = self.price(explainer, effort)
            most = self.budget / (min(_FEWEST, len(self.rows)) if effort == "full" else 1)
            if expected.refused or expected.milliseconds > 1e3 * most:
                return np.inf
        begin, n, before = self.clock(), 1, None
        while True:
            start = self.clock()
            try:
                self.examine(explainer, self.rows[:n], effort)
            except CostError:
                if estimate:
                    raise
                return np.inf
            took, spent = self.clock() - start, self.clock() - begin
            if 2 * n > len(self.rows) or spent + 2 * took > _TRIAL * self.budget:
                return _per_row(n, took, before)
            n, before = 2 * n, took


def _per_row(n: int, took: float, before: float | None) -> float:
    """The time of one row more, from that of n rows and of half as many: what is done once is left out."""
    return took / n if before is None else max((took - before) / (n // 2), 0.2 * took / n)


def rounded_down(number: float) -> int:
    """The largest of 1, 2, 5, 10, 20, 50, ... that is not above a number; at least 1.

    Examples
    --------
    >>> [rounded_down(x) for x in (0.3, 4.9, 5, 99, 1234)]
    [1, 2, 5, 50, 1000]
    """
    most = max(1.0, number)
    power = 10 ** int(np.log10(most))
    return int(max(step * power for step in _STEPS if step * power <= most))
