"""Reports the progress of long calls, in rows done, to a function or as a bar on the terminal."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from predgap._text import shown
from predgap._typing import Progress
from predgap.errors import DependencyError, PredgapError

Tell = Callable[[int], object] | None
"""A function that is called with the number of rows done, or None for no reports."""


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


@contextmanager
def reporting(progress: Progress | bool | None, n_rows: int) -> Iterator[Tell]:
    """A context for one call on n_rows rows; gives the function to call with the number of rows done.

    The numbers that are reported never decrease, in whatever order the parts of the work are done.
    """
    with showing(progress) as show:
        yield None if show is None else never_backwards(show, n_rows)


@contextmanager
def showing(progress: Progress | bool | None) -> Iterator[Progress | None]:
    """A context for one call; gives the function that shows the rows done and all rows, if there is one."""
    if progress is True:
        with _bar() as shown:
            yield shown
    else:
        yield progress or None


def after(tell: Tell, n_before: int) -> Tell:
    """A function to report the rows done of a part that comes after `n_before` other rows."""
    return tell if tell is None or n_before == 0 else lambda done: tell(n_before + done)


def share_of(tell: Tell, begin: float, end: float, n_asked: int, n_rows: int) -> Tell:
    """A function to report the rows done in one of several passes over n_rows rows.

    All passes together are the work from 0 to 1; this pass, over n_asked rows, is the part from `begin` to
    `end`.
    """
    if tell is None:
        return None
    return lambda done: tell(int(n_rows * (begin + (end - begin) * done / max(1, n_asked))))


def never_backwards(progress: Progress, n_rows: int) -> Tell:
    """A function to report rows done of n_rows, which never decrease."""
    most = 0

    def tell(done: int) -> None:
        nonlocal most
        most = max(most, done)
        progress(most, n_rows)

    return tell


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
