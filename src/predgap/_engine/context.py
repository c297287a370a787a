"""How a call is run: who is told of its progress, on how many threads, when it must end.

A public method makes one `Context` and hands it down to the core; parts of the work get parts of it.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from predgap import _core
from predgap._text import shown
from predgap._typing import Progress
from predgap.errors import CostError, DependencyError, PredgapError

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Call:
    """A call as a user would write it, for the error of a row that is too costly."""

    name: str
    rtol: float | None = None
    instead: str | None = None  # a call that works; None: the same of `approximate`
    hint: str = ""  # what costs less

    @property
    def text(self) -> str:
        """The call with its tolerance."""
        return self.name if self.rtol is None else f"{self.name} at rtol={self.rtol:g}"

    def refusal(self, row: int, milliseconds: float, megabytes: float) -> CostError:
        """The error of a row that would exceed the limits."""
        works = f"explainer.approximate(rtol=1e-2).{self.name}" if self.instead is None else self.instead
        return CostError(
            f"{self.text}: row {row} would take about {milliseconds:,.0f} ms and {megabytes:,.0f} MB; the limits "
            f"per row are {1e3 * _core.MOST_SECONDS:,.0f} ms and {_core.MOST_BYTES / 1e6:,.0f} MB. "
            f"{self.hint}{' ' if self.hint else ''}This works: {works}"
        )


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
    """Shows the rows done of all rows of a call; they never decrease, in whatever order parts are done."""

    __slots__ = ("_most", "_progress", "n_rows")

    def __init__(self, progress: Progress, n_rows: int) -> None:
        self._progress, self.n_rows, self._most = progress, n_rows, 0

    def show(self, done: int) -> None:
        """Shows that so many rows are done."""
        self._most = max(self._most, done)
        self._progress(self._most, self.n_rows)


@dataclass(frozen=True, slots=True)
class Context:
    """How a call, or a part of one, is run. The core reads `n_threads`, and calls `look` now and then.

    A part is the work from the row `begin` to the row `end` of all rows that are shown, and has n steps.
    """

    call: Call
    n_threads: int = 1
    shown: Shown | None = None
    begin: float = 0.0
    end: float = 0.0
    n: int = 0
    has_passed: Callable[[], bool] | None = None

    def part(self, begin: float, end: float, of: float = 1.0, n: int | None = None) -> Context:
        """The context of the part of this work from begin / of to end / of, which has n steps."""
        if self.shown is None:
            return self
        width = (self.end - self.begin) / max(of, 1e-300)
        return replace(
            self,
            begin=self.begin + width * begin,
            end=self.begin + width * end,
            n=self.n if n is None else n,
        )

    def look(self, done: int) -> None:
        """Shows that so many of the n steps are done. What it raises ends the call."""
        if self.has_passed is not None and self.has_passed():
            raise DeadlineError
        if self.shown is not None and done > 0:
            self.shown.show(round(self.begin + (self.end - self.begin) * done / max(self.n, 1)))

    def quiet(self) -> Context:
        """The same without progress: for work that is not counted."""
        return self if self.shown is None else replace(self, shown=None)


@contextmanager
def calling(
    call: Call, n_rows: int, n_threads: int = 1, progress: Progress | bool | None = None
) -> Iterator[Context]:
    """The context of one call about so many rows."""
    if progress is None or progress is False:
        yield Context(call, n_threads, n=n_rows, has_passed=_passed.get())
        return
    with showing(progress) as show:
        reported = None if show is None else Shown(show, n_rows)
        yield Context(call, n_threads, reported, 0.0, float(n_rows), n_rows, _passed.get())


@contextmanager
def showing(progress: Progress | bool | None) -> Iterator[Progress | None]:
    """A context for one call; gives the function that shows the rows done and all rows, if there is one."""
    if progress is True:
        with _bar() as bar:
            yield bar
    else:
        yield progress or None


def checked_progress(progress: Any) -> Progress | bool | None:
    """`progress` if it is a function, True (a bar) or None, else PredgapError; a bar needs rich."""
    if progress is None or progress is False:
        return None
    if progress is True:
        if importlib.util.find_spec("rich") is None:
            raise DependencyError("progress=True needs rich, not installed; try: pip install 'predgap[cli]'")
        return True
    if not callable(progress):
        raise PredgapError(
            f"progress is {shown(progress)}, expected a function of two numbers (rows done, all rows), or "
            "True for a bar"
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


@contextmanager
def _bar() -> Iterator[Progress | None]:
    """A function that moves a bar on the terminal, removed at the end; None if there is no terminal."""
    from rich import progress as rich  # optional, and slow to import
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (
        rich.TextColumn("rows"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),  # updated every second, however long a row takes
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
