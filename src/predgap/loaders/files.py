"""Opening model files that may be anything: look before reading, read within a limit, refuse by name."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from predgap.errors import LoaderError, UnsupportedModelError

MAX_FILE_BYTES: Final = 1 << 28
"""Larger model files are refused: 256 MiB is some 13,000 trees of depth 8 as JSON, 20,000 as UBJSON.

A sound file takes about four times its size in memory while it is read, a malicious one up to sixteen.
"""

_HEAD_BYTES: Final = 4096
_TAIL_BYTES: Final = 64

_AS_JSON: Final = "in Python with the library that wrote it, and pass the model itself to predgap"

# Formats that people do hand over, by how they begin, and what to do about each.
_REFUSED: Final[tuple[tuple[re.Pattern[bytes], str], ...]] = (
    (
        re.compile(rb"\x80[\x02-\x08]|c[\w.]+\r?\n[\w.]+\r?\n|\([dl]p?\d*\r?\n|[\]}]q\0"),
        "a Python pickle (or joblib) file; predgap never opens these, because opening one runs the code "
        f"in it. If you trust it, load it {_AS_JSON}",
    ),
    (
        # either a mark, or a block of numbers, then the names of the objective and the booster
        re.compile(
            rb"binf|bs64|CONFIG-offset:|(?s:.{8,400}?)(?:\x06\0{7}gbtree|\x08\0{7}gblinear|\x04\0{7}dart)"
        ),
        "XGBoost's old binary format; load it with xgboost.Booster(model_file=...) of XGBoost 3.0 or "
        "older, then save it with save_model('model.json')",
    ),
    (
        re.compile(
            rb"\x1f\x8b|BZh|\xfd7zXZ|PK\x03\x04|\x28\xb5\x2f\xfd|\x04\x22\x4d\x18|x[\x01\x5e\x9c\xda]"
        ),
        "a compressed file; if there is a model inside, decompress it first; if it is a joblib file, load "
        f"it {_AS_JSON}",
    ),
    (
        re.compile(rb"\s*booster\[0\]:|\s*\[\s*\{\s*\"nodeid\""),
        "the output of XGBoost's dump_model, which lacks the intercept; use save_model('model.json')",
    ),
)


class Ends(NamedTuple):
    """The first and last bytes of a file."""

    head: bytes
    tail: bytes


def ends(path: Path) -> Ends:
    """The two ends of a regular, not too large file; nothing else of it is read."""
    try:
        found = path.stat()
        _check_kind(path, found.st_mode, found.st_size)
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            file.seek(max(0, found.st_size - _TAIL_BYTES))
            return Ends(head, file.read(_TAIL_BYTES))
    except LoaderError:
        raise
    except FileNotFoundError:
        raise LoaderError(f"there is no file {_show(path)}; check the path of the model") from None
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        raise LoaderError(f"{_show(path)} cannot be read ({_reason(error)})") from error


def read(path: Path) -> bytes:
    """All of a file whose `ends` were found good."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            _check_kind(path, stat.S_IFREG, size)  # it may have grown since it was looked at
            return file.read(size)
    except OSError as error:
        raise LoaderError(f"{_show(path)} cannot be read ({_reason(error)})") from error


def refuse(path: Path, head: bytes, supported: str) -> NoReturn:
    """Raise the error that names what begins with `head`, if that is known."""
    for opening, what in _REFUSED:
        if opening.match(head):
            raise UnsupportedModelError(f"{_show(path)} is {what}")
    raise LoaderError(
        f"{_show(path)} is no model file that predgap knows: it begins with {head[:24]!r}; "
        f"expected {supported}"
    )


def _check_kind(path: Path, mode: int, size: int) -> None:
    if stat.S_ISDIR(mode):
        raise LoaderError(f"{_show(path)} is a directory; give the model file inside it")
    if not stat.S_ISREG(mode):  # a pipe or a device may block, or never end
        raise LoaderError(f"{_show(path)} is not a regular file; save the model to one")
    if size == 0:
        raise LoaderError(f"{_show(path)} is empty; save the model again")
    if size > MAX_FILE_BYTES:
        raise LoaderError(
            f"{_show(path)} has {size:,} bytes, predgap reads model files of up to {MAX_FILE_BYTES:,}; "
            "load it with its own library and pass the object"
        )


def _reason(error: Exception) -> str:
    return error.strerror or "unknown reason" if isinstance(error, OSError) else str(error)


def _show(path: Path) -> str:
    text = str(path)
    return repr(text if len(text) <= 200 else f"{text[:200]}...")
