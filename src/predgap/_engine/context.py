"""The class `Context`: who is told of the progress of a call, how many threads it has, when it must end.

A public method makes one `Context` and hands it down to the core; parts of the work get parts of it. The core
tells the rows done, and what a row is expected to take: what is planned of the rows that were begun, and more
where more was counted of those that are done. A call that is expected to be long warns, once.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from predgap import _core
from predgap._text import count, shown, warn
from predgap._typing import IndexArray, Progress
from predgap.errors import CostError, DependencyError, LongCallWarning, PredgapError

Clock = Callable[[], float]

LONG: Final = 10.0
"""Seconds: what is expected to take longer warns."""

PATIENCE: Final = 5.0
"""Seconds until a bar appears that was not asked for."""

LIMITS: Final = (
    f"the limits per row are {1e3 * _core.MOST_SECONDS:,.0f} ms and {_core.MOST_BYTES / 1e6:,.0f} MB"
)
"""The limits of a row, for errors."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call as a user would write it, for the error of a row that is too costly, and for a long call."""

    name: str
    rtol: float | None = None
    instead: str | None = None  # a call that works; None: the same of `approximate`
    hint: str = ""  # what costs less
    faster: str | None = None  # what takes less time; None: the same of `approximate`
    n_passes: int = 1  # how often it goes through its rows; progress counts each time

    def refusal(
        self, row: int, milliseconds: float, megabytes: float, looser: tuple[float, float] | None = None
    ) -> CostError:
        """The error of a row that would exceed the limits; looser: an rtol that fits, its seconds."""
        works = self._approximated if self.instead is None else self.instead
        hints = [self.hint] if self.hint else []
        if looser is not None:
            rtol, seconds = looser
            takes = "less than a second" if seconds < 1 else f"about {in_words(seconds)}"
            hints.append(f"With Explainer(..., rtol={rtol:g}) this row would take {takes}.")
        return CostError(
            f"{self.described}: row {row} would take about {milliseconds:,.0f} ms and "
            f"{megabytes:,.0f} MB; {LIMITS}. {' '.join([*hints, f'This works: {works}'])}"
        )

    def is_long(self, seconds: float, n_rows: int, n_threads: int) -> LongCallWarning:
        """The warning that the call, about so many rows, is expected to take so long."""
        faster = f"This is faster: {self._approximated}." if self.faster is None else self.faster
        threads = " So are more threads, n_jobs=-1." if n_threads == 1 and self.rtol is not None else ""
        name = f"{self.name} of {count(n_rows // self.n_passes, 'row')}{self._tolerance}"
        return LongCallWarning(name, in_words(seconds), f"{faster}{threads}")

    @property
    def described(self) -> str:
        """The call with its tolerance."""
        return self.name + self._tolerance

    @property
    def _tolerance(self) -> str:
        return "" if self.rtol is None else f" at rtol={self.rtol:g}"

    @property
    def _approximated(self) -> str:
        return f"explainer.approximate(rtol=1e-2).{self.name}"


class DeadlineError(Exception):
    """A computation was given up, as its deadline has passed."""


_passed: Final[ContextVar[Callable[[], bool] | None]] = ContextVar("passed", default=None)


@contextmanager
def deadline(end: float, clock: Clock = time.perf_counter) -> Iterator[None]:
    """A context in which calls raise `DeadlineError` once clock() is above `end`.

    A deadline ends a computation or it does not; it never changes a number.
    """
    token = _passed.set(lambda: clock() > end)
    try:
        yield
    finally:
        _passed.reset(token)


class Shown:
    """Shows the rows done of all rows of a call to a function or as a bar, and warns if the call is long.

    `progress` is a function of the rows done and all rows; True for a bar on the terminal; None for a bar
    if call takes more than 5 seconds. The rows done never decrease, in whatever order parts are done. It is
    made for every call, so it does little before the core has run for some time. `close` removes the bar.
    """

    __slots__ = ("_begun", "_call", "_most", "_move", "_n_threads", "_patience", "bar", "n_rows")

    def __init__(
        self, progress: Progress | bool | None, n_rows: int, call: Call | None = None, n_threads: int = 1
    ) -> None:
        self.n_rows, self._call, self._n_threads, self._most = n_rows, call, n_threads, 0
        self._move: Progress | None = progress if callable(progress) else None
        self._patience = PATIENCE if progress is None else 0.0
        self.bar: ExitStack | None = None  # once it is there
        self._begun = time.monotonic()

    def show(self, done: int) -> None:
        """Shows that so many rows are done."""
        if done > self._most:
            self._most = done
        if self._move is not None:
            self._move(self._most, self.n_rows)
        elif self.bar is None and time.monotonic() - self._begun >= self._patience:
            self._open()

    def expect(self, seconds: float) -> None:
        """Warns, once, if the call is expected to take long."""
        if seconds > LONG and self._call is not None:
            call, self._call = self._call, None
            warn(call.is_long(seconds, self.n_rows, self._n_threads))

    def close(self) -> None:
        """Removes the bar, if there is one."""
        if self.bar is not None:
            self.bar.close()
            self.bar, self._move = None, None

    def _open(self) -> None:
        """Makes the bar; there is none without a terminal, nor without rich."""
        self.bar = ExitStack()
        if not _has_rich():
            return
        from rich import progress as rich  # optional, and slow to import
        from rich.console import Console

        console = Console(stderr=True)
        if not console.is_terminal:
            return
        columns = (
            rich.TextColumn("rows"),
            rich.BarColumn(),
            rich.MofNCompleteColumn(),
            rich.TimeElapsedColumn(),  # updated every second, however long a row takes
            rich.TimeRemainingColumn(),
        )
        bar = self.bar.enter_context(rich.Progress(*columns, console=console, transient=True))
        task = bar.add_task("", total=None)
        self._move = lambda done, total: bar.update(task, completed=done, total=total)
        self._move(self._most, self.n_rows)


@dataclass(frozen=True, slots=True)
class Context:
    """How a call, or a part of one, is run. The core reads `n_threads`, and calls `look` now and then.

    A part is the work from the row `begin` to the row `end` of all rows that are shown, and has n steps. All
    work takes `share` times as long as these steps.
    """

    call: Call
    n_threads: int = 1
    shown: Shown | None = None
    begin: float = 0.0
    end: float = 0.0
    n: int = 0
    share: float = 1.0
    has_passed: Callable[[], bool] | None = None
    numbers: IndexArray | None = None  # of the rows in X, for errors; None: they count from 0

    def part(
        self, begin: float, end: float, of: float = 1.0, n: int | None = None, *, ends_early: bool = False
    ) -> Context:
        """The context of the part of this work from begin / of to end / of, which has n steps.

        If the work may end early, nothing is expected of the parts that follow.
        """
        if self.shown is None:
            return self
        width = (self.end - self.begin) / max(of, 1e-9)
        return replace(
            self,
            begin=self.begin + width * begin,
            end=self.begin + width * end,
            n=self.n if n is None else n,
            share=self.share * (1.0 if ends_early else of / max(end - begin, 1e-9)),
        )

    def look(self, done: int, milliseconds: float = 0.0) -> None:
        """Shows that so many of the n steps are done. What it raises ends the call.

        `milliseconds` is what a step is expected to take, with all threads; 0 if that is not known.
        """
        if self.has_passed is not None and self.has_passed():
            raise DeadlineError
        if self.shown is not None:
            self.shown.show(round(self.begin + (self.end - self.begin) * done / max(self.n, 1)))
            if milliseconds > 0.0:
                self.shown.expect(1e-3 * milliseconds * self.n * self.share)

    def of_rows(self, some: IndexArray) -> Context:
        """The same for some of the rows, so that errors name their numbers in X."""
        return replace(self, numbers=some if self.numbers is None else self.numbers[some])

    def number(self, row: int) -> int:
        """The number in X of one of the rows."""
        return int(row if self.numbers is None else self.numbers[row])

    def quiet(self) -> Context:
        """The same without progress: for work that is not counted."""
        return self if self.shown is None else replace(self, shown=None)


Reports = Progress | Context | bool | None
"""A function of the rows done and all rows; a part of another call; True for a bar; None for a bar if the
call is long; False for neither a bar nor a warning."""


@contextmanager
def calling(call: Call, n_rows: int, n_threads: int = 1, progress: Reports = None) -> Iterator[Context]:
    """The context of one call about so many rows; DeadlineError if the deadline has passed already."""
    passed = _passed.get()
    if passed is not None and passed():
        raise DeadlineError
    if isinstance(progress, Context):
        yield replace(progress, call=call, n_threads=n_threads, n=n_rows, has_passed=passed)
    elif progress is False:
        yield Context(call, n_threads, n=n_rows, has_passed=passed)
    else:
        reported = Shown(progress, n_rows, call, n_threads)
        try:
            yield Context(call, n_threads, reported, 0.0, float(n_rows), n_rows, has_passed=passed)
        finally:
            if reported.bar is not None:
                reported.close()


def checked_progress(progress: Any) -> Progress | bool | None:
    """`progress` if it is a function, a truth value or None, else PredgapError; True needs rich."""
    if progress is None or progress is False:
        return None if progress is None else False
    if progress is True:
        if not _has_rich():
            raise DependencyError("progress=True needs rich, not installed; try: pip install 'predgap[cli]'")
        return True
    if not callable(progress):
        raise PredgapError(
            f"progress is {shown(progress)}, expected a function of two numbers (rows done, all rows), True "
            "for a bar, or False for none and no warning of long calls"
        )
    told: Progress = progress
    return told


def resolve_n_jobs(n_jobs: int) -> int:
    """The number of threads for `n_jobs`; -1 is all cores. PredgapError if it is not a valid number.

    Examples
    --------
    >>> resolve_n_jobs(1)
    1
    """
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or (n_jobs < 1 and n_jobs != -1):
        raise PredgapError(f"n_jobs is {shown(n_jobs)}, expected a number of threads, or -1 for all cores")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if n_jobs < 0 else min(int(n_jobs), 4 * cores)  # more threads would only wait for each other


def in_words(seconds: float) -> str:
    """A time that is roughly known.

    Examples
    --------
    >>> in_words(12.3), in_words(119), in_words(40 * 60), in_words(9000)
    ('12 seconds', '2 minutes', '40 minutes', '2.5 hours')
    """
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.2g} hours" if seconds < 100 * 3600 else f"{seconds / 86400:,.0f} days"


def _has_rich() -> bool:
    return importlib.util.find_spec("rich") is not None
