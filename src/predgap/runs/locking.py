"""A lock on a folder: one process writes to it. A process that is killed does not leave it behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from predgap.errors import RunError

LOCK: Final = "_lock"
"""The name of the locked file; it stays when the lock is gone."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A context in which no other process has the lock of the folder; RunError if one has it already."""
    try:
        import fcntl
    except ImportError:
        raise RunError("long runs need the file locks of Linux, macOS or another Unix") from None
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"another process is writing to {str(folder)!r}; wait until it has ended, or choose another "
                "folder"
            ) from None
        yield
    finally:
        os.close(descriptor)  # this ends the lock
