"""Keeps an evaluation within a number of seconds: a larger tolerance first, less search, fewer rows.

There is a ladder of ways to examine rows, each with less effort. Trials on a few rows choose one of them.
Then rows are examined in a random order, part by part, and what is examined is kept. The time that parts took
tells how many more rows fit. A deadline ends what takes longer than expected, so no expectation is trusted.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import numpy as np

from predgap._engine.context import Call, Clock, Context, DeadlineError, Reports, Shown, deadline
from predgap._engine.results import Cost
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
_SHARES: Final = 3  # or more, by the rows: the first rows of a trial may take one share of the time left
_MARGIN: Final = 0.95  # the share of the budget that rows are chosen for; the rest is for what comes after
_SPREAD: Final = 0.5  # of the times of rows, relative to their mean: a trial of few rows may be too short
_TOO_FEW: Final = 10  # rows; if not as many fit, gaps are estimated
_FASTER: Final = 0.7  # the share of the time that a lesser way may take at most, to be worth it
_HOPELESS: Final = 4.0  # expected to take so many times what a trial may: not even tried
_PART: Final = 0.3  # the share of the time left that a part of the rows may take
_STEPS: Final = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)

Found = TypeVar("Found")
Examine = Callable[[Explainer, IndexArray, Effort, Context | None], Found]
"""Computes everything for some rows, by an explainer, with an effort, and reports to a context."""

Price = Callable[[Explainer, Effort], Cost]
"""The expected cost of a row."""


@dataclass(frozen=True, slots=True)
class Way:
    """With what tolerance and effort rows are examined, and what is to be said of it."""

    explainer: Explainer
    effort: Effort = "full"
    notes: tuple[str, ...] = ()


_CALL: Final = Call("evaluate(explainer, X, rankings)", faster="This is faster: evaluate(..., budget=60).")


@dataclass(frozen=True, slots=True, eq=False)
class Job(Generic[Found]):
    """What is to be examined, and how it is asked."""

    explainer: Explainer
    n_rows: int
    seed: int
    examine: Examine[Found]
    price: Price
    prepare: Callable[[], object]  # does what is done once, whatever the rows
    has_more: bool = False  # is anything asked that cannot be estimated?
    progress: Reports = None
    clock: Clock = time.perf_counter


@dataclass(frozen=True, slots=True, eq=False)
class Outcome(Generic[Found]):
    """What was examined, and in which way."""

    way: Way
    parts: list[Found]  # each of some of the rows; each row is in one of them at most
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


def examined_within(budget: float | None, job: Job[Found]) -> Outcome[Found]:
    """All rows, if they fit into the budget; else with a larger tolerance; else, if less than 100 rows would
    fit, without comparing all rankings for best and random; else, if less than 10 would, from estimated gaps,
    and at last without what cannot be estimated; some of the rows if not all fit.

    The last way is not given up before it has examined a row a thread, so that there is a result, however
    small the budget. The number of rows is rounded down, so that it is seldom different when the same call
    takes a little longer.
    """
    if budget is None:
        attempt = _Attempt(job, Way(job.explainer), np.arange(job.n_rows, dtype=np.intp))
        with _reporting(job, _CALL) as shown_rows:
            attempt.advance(job.n_rows, math.inf, shown_rows, job.n_rows)
        return Outcome(attempt.way, attempt.parts)
    start, rows = job.clock(), np.random.default_rng(job.seed).permutation(job.n_rows)
    end, at_latest = start + _MARGIN * budget, start + budget
    job.prepare()
    *ways, last = _ladder(job, budget)
    with _reporting(job) as show:
        try:
            taken = _chosen([_Attempt(job, way, rows) for way in ways], end, _TRIAL * budget)
            if taken is None or not taken.fits(min(_TOO_FEW, job.n_rows), end - job.clock()):
                taken = _faster(taken, _Attempt(job, last, rows).tried(_TRIAL * budget))
            taken.go_on(end, at_latest, show)
        except CostError:  # of a row that no trial met
            taken = _Attempt(job, last, rows).tried(_TRIAL * budget)
            taken.go_on(end, at_latest, show)
    notes = taken.way.notes
    if taken.n < job.n_rows:
        drawn = (
            f"To keep within {budget:g} s, {taken.n:,} of {job.n_rows:,} rows were drawn at random (seed "
            f"{job.seed}). On a faster or slower computer it may be another number."
        )
        notes = (*notes, drawn)
    return Outcome(taken.way, taken.parts, notes)


def _chosen(attempts: list[_Attempt[Found]], end: float, trial: float) -> _Attempt[Found] | None:
    """The first attempt by which all rows fit, or 100 at least if the tolerance is loose; else the fastest.

    Each has examined some rows, in about `trial` seconds; None if all take too long for that.
    """
    taken: _Attempt[Found] | None = None
    for attempt in attempts:
        n_rows = attempt.job.n_rows
        if attempt.way.effort == "estimate" and taken and taken.fits(min(_TOO_FEW, n_rows), taken.left(end)):
            break
        if attempt.try_out(end, trial):
            taken = _faster(taken, attempt)
        if taken is not None and (
            taken.fits(n_rows, taken.left(end))
            or (attempt.way.explainer.rtol >= LOOSE and taken.fits(ENOUGH, taken.left(end)))
        ):
            break
    return taken


def _faster(attempt: _Attempt[Found] | None, lesser: _Attempt[Found]) -> _Attempt[Found]:
    """The lesser of two ways only if it is worth it."""
    if attempt is None or lesser.pace.per_row < _FASTER * attempt.pace.per_row:
        return lesser
    return attempt


def _ladder(job: Job[Any], budget: float) -> Iterator[Way]:
    """Ways to evaluate, each faster than the one before it, as a rule; the last one always gives a result."""
    explainer, notes = job.explainer, tuple[str, ...]()
    yield Way(explainer)
    if explainer.rtol < LOOSE:
        explainer = copy.copy(explainer)
        explainer.rtol = LOOSE
        notes = (f"To keep within {budget:g} s, gaps have a proven relative error of up to {LOOSE:g}.",)
        yield Way(explainer, "full", notes)
    found = (
        f"To keep within {budget:g} s, the best ranking of a row is the best that was found by a greedy "
        "search, and the score of a random one is the mean of 8; not all rankings were compared."
    )
    yield Way(explainer, "search", (*notes, found))
    estimated = (
        f"To keep within {budget:g} s, gaps are estimated, the best ranking of a row is the best that was "
        "found by a greedy search, and the score of a random one is the mean of 8."
    )
    yield Way(explainer, "estimate", (estimated,))
    if job.has_more:
        yield Way(explainer, "bare", (estimated,))


@dataclass(frozen=True, slots=True)
class _Pace:
    """How long some rows take: `once`, and each of them; without a trial, for ever."""

    once: float = 0.0
    per_row: float = math.inf

    @classmethod
    def of(cls, times: list[tuple[int, float]]) -> _Pace:
        """From the numbers of rows of parts, and their seconds.

        What a part takes longer than the first one is due to the rows that it has more; as times vary, each
        of its rows counts half its share at least.
        """
        if not times:
            return cls()
        (few, before), (n, took) = times[0], times[-1]
        per_row = took / n if n < 2 * few else max((took - before) / (n - few), 0.5 * took / n)
        return cls(max(0.0, took - n * per_row), per_row)


class _Attempt(Generic[Found]):
    """The rows that were examined in one way."""

    def __init__(self, job: Job[Found], way: Way, rows: IndexArray) -> None:
        self.job, self.way, self._rows = job, way, rows
        self.parts: list[Found] = []
        self.n = 0  # rows that are examined
        self._times: list[tuple[int, float]] = []

    @property
    def pace(self) -> _Pace:
        return _Pace.of(self._times)

    def seconds(self, n_rows: int) -> float:
        """What all up to so many rows may still take, if those before them were quick ones."""
        more = max(0, n_rows - self.n)
        longer = 1.0 + _SPREAD / math.sqrt(max(1, self.n))
        return self.pace.once + self.pace.per_row * more * longer if more else 0.0

    def fits(self, n_rows: int, left: float) -> bool:
        """May so many rows be examined in the seconds left?"""
        return self.n > 0 and self.seconds(n_rows) <= left

    def left(self, end: float) -> float:
        """The seconds up to an end."""
        return end - self.job.clock()

    def try_out(self, end: float, most: float) -> bool:
        """Examines some rows, in about `most` seconds; False if the first take too long or are too costly."""
        limit = self.left(end) / max(_SHARES, min(self.job.n_rows, _TOO_FEW))
        try:
            if not self._is_hopeless(limit):
                self.tried(most, limit)
        except CostError:
            return False
        return self.n > 0

    def tried(self, most: float, limit: float = math.inf) -> _Attempt[Found]:
        """Itself, after 1, 2, 4, ... rows a thread, in about `most` seconds; gives up after `limit`."""
        clock, n_rows = self.job.clock, self.job.n_rows
        begin, to = clock(), min(n_rows, self.way.explainer.n_threads)
        while self.advance(to, begin + max(limit, 2 * most) if self.n else begin + limit):
            if self.n == n_rows or clock() - begin + 2 * self._times[-1][1] > most:
                break
            to = min(n_rows, 2 * self.n)
        return self

    def _is_hopeless(self, seconds: float) -> bool:
        """Is a row expected to take far longer than that?"""
        if self.way.effort in ("estimate", "bare"):
            return False
        expected = self.job.price(self.way.explainer, self.way.effort)
        return expected.refused or expected.milliseconds > 1e3 * _HOPELESS * seconds

    def go_on(self, end: float, at_latest: float, show: Shown | None) -> None:
        """Examines more rows, as many as are expected to be done before the end, a part at a time.

        A part has no more rows than there were before, as these say little of many more.
        """
        while self.n < self.job.n_rows:
            left = end - self.job.clock()
            more = [n for n in _steps(self.job.n_rows) if n > self.n]
            fitting = [n for n in more if self.fits(n, left)]
            near = [n for n in fitting if self.seconds(n) <= _PART * left and n <= 2 * self.n]
            near = near or fitting[:1]
            if not near or not self.advance(near[-1], at_latest, show, fitting[-1]):
                break
        if show is not None:
            show.n_rows = self.n
            show.show(self.n)

    def advance(
        self,
        to: int,
        ends_by: float,
        show: Shown | None = None,
        aim: int = 0,
    ) -> bool:
        """Examines the rows up to a number of them; False if that was given up.

        Shows the rows done, of those that are aimed at.
        """
        clock, begin = self.job.clock, self.job.clock()
        context = None
        if show is not None:
            show.n_rows = aim
            context = Context(_CALL, 1, show, float(self.n), float(to), to - self.n, aim / (to - self.n))
        rows = np.sort(self._rows[self.n : to])
        try:
            with deadline(ends_by, clock):
                found = self.job.examine(self.way.explainer, rows, self.way.effort, context)
        except DeadlineError:
            return False
        if context is not None:
            context.look(len(rows))
        self.parts.append(found)
        self._times.append((to - self.n, clock() - begin))
        self.n = to
        return True


@contextmanager
def _reporting(job: Job[Any], call: Call | None = None) -> Iterator[Shown | None]:
    """A context in which the rows done are shown, if anyone asks; with a call, it warns if it is long."""
    if job.progress is False or isinstance(job.progress, Context):
        yield None
    else:
        reported = Shown(job.progress, job.n_rows, call)
        try:
            yield reported
        finally:
            reported.close()


def _steps(n_rows: int) -> list[int]:
    """1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, ... up to a number, and that number itself.

    Examples
    --------
    >>> _steps(37)
    [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 37]
    """
    powers = 10 ** np.arange(len(str(n_rows)))
    numbers = np.unique(np.outer(powers, _STEPS).astype(int))
    return [*numbers[numbers < n_rows].tolist(), n_rows]
