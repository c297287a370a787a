"""Reads model files, which may be anything, with a limit of size; writes files atomically."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from predgap.errors import LoaderError

__all__ = ["MAX_FILE_BYTES", "FileEnds", "atomic_file", "atomic_write", "read", "read_head_and_tail", "show"]

MAX_FILE_BYTES: Final = 1 << 28
"""The largest model file that is read: 256 MiB is about 13,000 trees of depth 8 as JSON, 20,000 as UBJSON.

Reading takes about four times the size of a file in memory; up to sixteen times for a malicious file.
"""

_HEAD_BYTES: Final = 4096
_TAIL_BYTES: Final = 64


class FileEnds(NamedTuple):
    """The first and last bytes of a file, and its size."""

    head: bytes
    tail: bytes
    size: int


def read_head_and_tail(path: Path) -> FileEnds:
    """The first and last bytes of a regular file, and its size, without reading the rest."""
    try:
        found = path.stat()
        _check_kind(path, found.st_mode, found.st_size)
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            file.seek(max(0, found.st_size - _TAIL_BYTES))
            return FileEnds(head, file.read(_TAIL_BYTES), found.st_size)
    except LoaderError:
        raise
    except FileNotFoundError:
        raise LoaderError(f"there is no file {show(path)}; check the path of the model") from None
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        raise LoaderError(f"{show(path)} cannot be read ({_reason(error)})") from error


def read(path: Path, most: int | None = MAX_FILE_BYTES) -> bytes:
    """The content of a file; LoaderError if it has more than `most` bytes (None: no limit)."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if most is not None and size > most:
                raise LoaderError(
                    f"{show(path)} has {size:,} bytes, predgap reads model files of up to {most:,}; "
                    "load it with its own library and pass the object"
                )
            return file.read(size)
    except OSError as error:
        raise LoaderError(f"{show(path)} cannot be read ({_reason(error)})") from error


def atomic_write(path: Path, content: bytes) -> None:
    """Writes a file so that it appears complete or not at all."""
    with atomic_file(path) as file:
        file.write(content)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A new file that appears at `path` when the context ends without an error, complete or not at all.

    It is written to a temporary file in the same folder, which is then renamed.
    """
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {show(path.parent)}; make it first")
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    new = beside.open("xb")  # "x": fails if it exists, and so never follows a link
    try:
        with new as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def show(path: Path) -> str:
    """A path for an error message."""
    text = str(path)
    return repr(text if len(text) <= 200 else f"{text[:200]}...")


def _check_kind(path: Path, mode: int, size: int) -> None:
    if stat.S_ISDIR(mode):
        raise LoaderError(f"{show(path)} is a directory; give the model file inside it")
    if not stat.S_ISREG(mode):  # a pipe or a device may block, or never end
        raise LoaderError(f"{show(path)} is not a regular file; save the model to one")
    if size == 0:
        raise LoaderError(f"{show(path)} is empty; save the model again")


def _reason(error: Exception) -> str:
    return error.strerror or "unknown reason" if isinstance(error, OSError) else str(error)
