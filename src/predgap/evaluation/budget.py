"""Keeps an evaluation within a number of seconds: a larger tolerance first, then fewer rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from predgap._engine.costs import Cost
from predgap._text import count, shown
from predgap._typing import IndexArray
from predgap.errors import CostError, PredgapError
from predgap.explainer import Explainer

LOOSE: Final = 1e-3
"""The tolerance that is taken if the explainer's own takes too long."""

_TRIAL: Final = 0.1  # the share of the budget that a trial may take
_MARGIN: Final = 0.8  # the share of the budget that the rows are chosen for
_STEPS: Final = (1, 2, 5)

Examine = Callable[[Explainer, IndexArray, bool], object]
"""Computes everything for some rows, by an explainer; the last argument says whether to estimate."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """With what tolerance, and for which rows, an evaluation is made."""

    explainer: Explainer
    rows: IndexArray  # ascending
    estimate: bool = False
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
    cost: Callable[[Explainer], Cost],
    clock: Callable[[], float] = time.perf_counter,
) -> Plan:
    """What fits into a budget: all rows if possible; else with a larger tolerance; else some of the rows.

    Trials on a few rows tell how long a row takes. The number of rows is rounded down to 1, 2, 5, 10,
    20, ..., so that it is seldom different when the same call takes a little longer.
    """
    every = np.arange(n_rows, dtype=np.intp)
    if budget is None or n_rows == 0:
        return Plan(explainer, every)
    shuffled = np.random.default_rng(seed).permutation(n_rows).astype(np.intp)
    trial = _Trial(shuffled, budget, examine, cost, clock)
    asked, estimate, notes = explainer, False, []
    seconds = trial.seconds_per_row(asked)
    if seconds * n_rows > _MARGIN * budget and explainer.rtol < LOOSE:
        asked = explainer._with_rtol(LOOSE)
        notes.append(f"To keep within {budget:g} s, gaps have a proven relative error of up to {LOOSE:g}.")
        seconds = trial.seconds_per_row(asked)
    if seconds == np.inf:
        estimate = True
        notes = ["A proven error is too costly for this model, so that gaps are estimated."]
        seconds = trial.seconds_per_row(asked, estimate)
    if seconds * n_rows <= _MARGIN * budget:
        return Plan(asked, every, estimate, tuple(notes))
    n = rounded_down(_MARGIN * budget / seconds)
    if n < n_rows:
        notes.append(
            f"To keep within {budget:g} s, {n:,} of {count(n_rows, 'row')} were drawn at random (seed "
            f"{seed}). On a faster or slower computer it may be another number."
        )
    return Plan(asked, np.sort(shuffled[:n]), estimate, tuple(notes))


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """Measures how long a row takes."""

    rows: IndexArray
    budget: float
    examine: Examine
    cost: Callable[[Explainer], Cost]
    clock: Callable[[], float]

    def seconds_per_row(self, explainer: Explainer, estimate: bool = False) -> float:
        """From 1, 2, 4, ... rows, up to a tenth of the budget; infinite if a row alone is beyond it."""
        if not estimate:
            expected = self.cost(explainer)
            if expected.refused or expected.milliseconds > 1e3 * self.budget:
                return np.inf
        begin, n, before = self.clock(), 1, None
        while True:
            start = self.clock()
            try:
                self.examine(explainer, self.rows[:n], estimate)
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
