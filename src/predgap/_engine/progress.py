"""Reports the progress of long calls, in rows done, to a function or as a bar; says first that they are long.

Kernels tell the rows done, and what a row is expected to take: what is planned of the rows that were begun,
and more where more was counted of those that are done. A call that is expected to be long warns, once.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from predgap._text import shown, warn
from predgap._typing import Progress
from predgap.errors import DependencyError, LongCallWarning, PredgapError

Tell = Callable[..., object] | None
"""A function that is called with the number of rows done and, if they are known, the milliseconds that a row
is expected to take (on all threads together); or None for no reports."""

LONG: Final = 10.0
"""Seconds: what is expected to take longer warns."""

PATIENCE: Final = 5.0
"""Seconds until a bar appears that was not asked for."""


@dataclass(frozen=True, slots=True)
class Within:
    """The progress of a call that is a part of another: it reports to that one, which warns.

    Parameters
    ----------
    tell : callable
        Is told the rows done of the part.
    n_rows : int
        How many the part has for `tell`. The call itself may count others.
    """

    tell: Callable[..., object]
    n_rows: int


Reports = Progress | Within | bool | None
"""A function of the rows done and all rows; True for a bar; None for a bar if the call is long; False for
neither a bar nor a warning."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What a warning says of a long call: what it is, and what takes less time."""

    call: str
    faster: str


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


def within(tell: Tell, n_rows: int) -> Within | bool:
    """The progress of a call that is a part of another one, of n_rows rows, which reports to `tell`."""
    return False if tell is None else Within(tell, n_rows)


class reporting:  # noqa: N801, used like a function
    """A context for one call on n_rows rows; gives the function to call with the number of rows done.

    The numbers that are reported never decrease, in whatever order the parts of the work are done. It is made
    for every call, so it does little before a kernel has run for some time.
    """

    __slots__ = ("_advice", "_bar", "_most", "_n_rows", "_progress")

    def __init__(self, progress: Reports, n_rows: int, advice: Callable[[], Advice] | None = None) -> None:
        self._progress, self._n_rows, self._advice = progress, n_rows, advice
        self._most = 0
        self._bar: _Bar | None = None

    def __enter__(self) -> Tell:
        progress = self._progress
        if progress is False:
            return None
        if isinstance(progress, Within):
            if progress.n_rows == self._n_rows:
                return progress.tell
            return share_of(progress.tell, 0.0, 1.0, self._n_rows, progress.n_rows)
        if progress is None or progress is True:
            self._bar = _Bar(0.0 if progress else PATIENCE)
        return self._tell

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def _tell(self, done: int, milliseconds: float = 0.0) -> None:
        if done > self._most:
            self._most = done
        if self._bar is not None:
            self._bar.show(self._most, self._n_rows)
        else:
            self._progress(self._most, self._n_rows)  # type: ignore[operator, misc]
        seconds = milliseconds * self._n_rows / 1e3
        if seconds > LONG and self._advice is not None:
            advice, self._advice = self._advice(), None
            warn_of_long(advice, seconds)


@contextmanager
def showing(progress: Reports) -> Iterator[Progress | None]:
    """A context for one call; gives the function that shows the rows done and all rows, if there is one."""
    if progress is None or progress is True:
        bar = _Bar(0.0 if progress else PATIENCE)
        try:
            yield bar.show
        finally:
            bar.close()
    elif progress is False or isinstance(progress, Within):
        yield None
    else:
        yield progress


def after(tell: Tell, n_before: int) -> Tell:
    """A function to report the rows done of a part that comes after `n_before` other rows."""
    if tell is None or n_before == 0:
        return tell
    return lambda done, milliseconds=0.0: tell(n_before + done, milliseconds)


def share_of(
    tell: Tell, begin: float, end: float, n_asked: int, n_rows: int, *, ends_early: bool = False
) -> Tell:
    """A function to report the rows done in one of several passes over n_rows rows.

    All passes together are the work from 0 to 1; this pass, over n_asked rows, is the part from `begin` to
    `end`. If the work may end early, nothing is expected of the passes that follow.
    """
    if tell is None:
        return None
    width = 1.0 if ends_early else max(end - begin, 1e-9)
    of_all = n_asked / max(1, n_rows) / width

    def tell_all(done: int, milliseconds: float = 0.0) -> None:
        tell(int(n_rows * (begin + (end - begin) * done / max(1, n_asked))), milliseconds * of_all)

    return tell_all


def never_backwards(progress: Progress, n_rows: int, advice: Advice | None = None) -> Tell:
    """A function to report rows done of n_rows, which never decrease, and to warn by `advice`, once."""
    most, is_quiet = 0, advice is None

    def tell(done: int, milliseconds: float = 0.0) -> None:
        nonlocal most, is_quiet
        most = max(most, done)
        progress(most, n_rows)
        if not is_quiet and advice is not None and milliseconds * n_rows > 1e3 * LONG:
            is_quiet = True
            warn_of_long(advice, milliseconds * n_rows / 1e3)

    return tell


def warn_of_long(advice: Advice, seconds: float) -> None:
    """Warns of a call that is expected to take so long."""
    warn(LongCallWarning(advice.call, in_words(seconds), advice.faster))


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


class _Bar:
    """A bar on the terminal that appears after some seconds, and is removed at the end.

    There is none without a terminal, nor without rich.
    """

    __slots__ = ("_begun", "_move", "_patience", "_stack")

    def __init__(self, patience: float) -> None:
        self._patience, self._begun = patience, time.monotonic()
        self._stack: ExitStack | None = None
        self._move: Progress | None = None

    def show(self, done: int, total: int) -> None:
        """Moves the bar, if it is there, or if it is time for it."""
        if self._stack is None and time.monotonic() - self._begun >= self._patience:
            self._open()
        if self._move is not None:
            self._move(done, total)

    def close(self) -> None:
        """Removes the bar."""
        if self._stack is not None:
            self._stack.close()
        self._stack, self._move = None, None

    def _open(self) -> None:
        self._stack = ExitStack()
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
        bar = self._stack.enter_context(rich.Progress(*columns, console=console, transient=True))
        task = bar.add_task("", total=None)
        self._move = lambda done, total: bar.update(task, completed=done, total=total)
