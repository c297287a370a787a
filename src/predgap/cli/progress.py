"""Progress bars on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from predgap._text import printable


class Shown:
    """A bar of rows done, through several calls; without a bar, nothing is shown."""

    def __init__(self, update: Callable[[int], object] | None = None) -> None:
        self._update, self._before = update, 0

    @property
    def tell(self) -> Callable[[int, int], object] | None:
        """A function for the progress of one call, in its rows done and all its rows."""
        update = self._update
        return None if update is None else lambda done, _: update(self._before + done)

    def advance(self, rows: int) -> None:
        """A call on so many rows has ended."""
        self._before += rows


@contextmanager
def row_progress(what: str, n_rows: int | None) -> Iterator[Shown]:
    """Shows rows done as a bar, which is removed at the end; only on a terminal. None: their number is not
    known."""
    if not sys.stderr.isatty():
        yield Shown()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=n_rows)
        yield Shown(lambda done: bar.update(task, completed=done))


@contextmanager
def share_progress() -> Iterator[Callable[[str, float], object] | None]:
    """A function that shows a description and the share of work done as a bar, which is removed at the end;
    None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("remaining"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=300) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda what, share: bar.update(task, description=printable(what), completed=share)
