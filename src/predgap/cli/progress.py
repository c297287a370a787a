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


@contextmanager
def row_progress(what: str) -> Iterator[Callable[[int, int], object] | None]:
    """A function that shows rows done and all rows as a bar, which is removed at the end; None without a
    terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


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
