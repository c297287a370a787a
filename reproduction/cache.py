"""Finished pieces of work, kept in a folder so that a run that was stopped can go on.

A piece is kept under a key, everything that its value depends on. A file that is damaged, or belongs to
another key, is as good as none.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predgap._files import atomic_write

Folder = str | os.PathLike[str] | None


def remembered(
    folder: Folder, key: Mapping[str, Any], compute: Callable[[], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """The array under the key (what JSON can hold); computed, and kept, if the folder does not have it.

    Examples
    --------
    >>> remembered(None, {"what": "ones"}, lambda: np.ones(2))
    array([1., 1.])
    """
    if folder is None:
        return compute()
    path = Path(folder) / f"{digest(key)}.npy"
    kept = _read(path)
    if kept is None:
        kept = compute()
        file = io.BytesIO()
        np.save(file, kept, allow_pickle=False)
        content = file.getvalue()
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, content + _checksum(path, content))
    return kept


def digest(key: Mapping[str, Any]) -> str:
    """A name for a key: the same for equal keys, in any order."""
    return hashlib.sha256(json.dumps(key, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _read(path: Path) -> NDArray[np.float64] | None:
    try:
        whole = path.read_bytes()
    except FileNotFoundError:
        return None
    content, checksum = whole[:-32], whole[-32:]
    if _checksum(path, content) != checksum:
        return None
    return np.asarray(np.load(io.BytesIO(content), allow_pickle=False))


def _checksum(path: Path, content: bytes) -> bytes:
    """Of the content and of the key, which the file is named after."""
    return hashlib.sha256(path.stem.encode() + content).digest()
