"""A deadline for all that kernels compute in a context; they give up soon after it has passed.

Kernels call back now and then, to tell the rows done and to answer Ctrl-C, and stop if that raises. A
deadline is looked at in the same call. So it ends a computation or it does not; it never changes a number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from predgap._engine.progress import Tell

Clock = Callable[[], float]


class DeadlineError(Exception):
    """A computation was given up, as its deadline has passed."""


_passed: Final[ContextVar[Callable[[], bool] | None]] = ContextVar("passed", default=None)


@contextmanager
def deadline(end: float, clock: Clock = time.perf_counter) -> Iterator[None]:
    """A context in which whatever calls kernels raises `DeadlineError` once clock() is above `end`."""
    token = _passed.set(lambda: clock() > end)
    try:
        yield
    finally:
        _passed.reset(token)


def watching(tell: Tell) -> Tell:
    """`tell`, which also looks at the deadline; without one, `tell` itself. Looks at it at once, too."""
    has_passed = _passed.get()
    if has_passed is None:
        return tell

    def look(done: int, milliseconds: float = 0.0) -> None:
        if has_passed():
            raise DeadlineError
        if tell is not None:
            tell(done, milliseconds)

    look(0)
    return look
