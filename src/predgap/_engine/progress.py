"""Progress of long calls: how many of their rows are done, told to a function or shown as a bar."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from predgap._typing import Progress
from predgap.errors import DependencyError, PredgapError

Tell = Callable[[int], object] | None
"""What kernels get: told the rows done; None if nobody listens."""


def checked_progress(progress: Any) -> Progress | bool | None:
    """A function, True for a bar, or None; PredgapError for anything else, or if the bar's package lacks."""
    if progress is None or progress is False:
        return None
    if progress is True:
        if importlib.util.find_spec("rich") is None:
            raise DependencyError("progress=True needs rich, not installed; try: pip install 'predgap[cli]'")
        return True
    if not callable(progress):
        raise PredgapError(
            f"progress is {progress!r}, expected a function of the rows done and their number, or True for a "
            "bar"
        )
    told: Progress = progress
    return told


@contextmanager
def reporting(progress: Progress | bool | None, n_rows: int) -> Iterator[Tell]:
    """For the time of one call about n_rows rows: a function to tell the rows done.

    It passes on no smaller number than it did before, in whatever order the parts of the work are done.
    """
    if progress is None or progress is False:
        yield None
    elif progress is True:
        with _bar(n_rows) as shown:
            yield None if shown is None else _never_backwards(shown, n_rows)
    else:
        yield _never_backwards(progress, n_rows)


def after(tell: Tell, n_before: int) -> Tell:
    """For work on rows that come after n_before others."""
    return tell if tell is None or n_before == 0 else lambda done: tell(n_before + done)


def share_of(tell: Tell, begin: float, end: float, n_asked: int, n_rows: int) -> Tell:
    """For one of several passes over n_rows rows, which asks about n_asked of them.

    The passes together are 1, and this one is the share from `begin` to `end`.
    """
    if tell is None:
        return None
    return lambda done: tell(int(n_rows * (begin + (end - begin) * done / max(1, n_asked))))


def _never_backwards(progress: Progress, n_rows: int) -> Tell:
    most = 0

    def tell(done: int) -> None:
        nonlocal most
        most = max(most, done)
        progress(most, n_rows)

    return tell


@contextmanager
def _bar(n_rows: int) -> Iterator[Progress | None]:
    """A bar on the terminal, which is gone when done; None if there is no terminal."""
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
        rich.TimeElapsedColumn(),  # moves every second, however long a row takes
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=n_rows)
        yield lambda done, total: bar.update(task, completed=done, total=total)
