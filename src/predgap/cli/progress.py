"""Progress bars on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

Progressing = Callable[[int, Any], object] | None


class Shown:
    """Rows done, through several calls, on a bar; without a bar, nothing is shown."""

    def __init__(self, update: Progressing, n_rows: int | None) -> None:
        self.whole, self._n_rows, self._before = update, n_rows, 0  # whole: for one call on all rows

    @property
    def tell(self) -> Progressing:
        """A function for the progress of one call, in its rows done and all its rows."""
        update = self.whole
        return None if update is None else lambda done, _: update(self._before + done, self._n_rows)

    def advance(self, rows: int) -> None:
        """A call on so many rows has ended."""
        self._before += rows


@contextmanager
def row_progress(what: str) -> Iterator[Progressing]:
    """A function that shows rows done and all rows (None: not known) as a bar, which is removed at the end;
    None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
