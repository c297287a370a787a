"""Recognises pickles, and formats that predgap does not read, by their first bytes, for error messages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NoReturn

from predgap._files import show
from predgap.errors import LoaderError, UnsupportedModelError

__all__ = ["is_pickle", "refuse"]

_PICKLE: Final = re.compile(rb"\x80[\x02-\x08]|c[\w.]+\r?\n[\w.]+\r?\n|\([dl]p?\d*\r?\n|[\]}]q\0")
_COMPRESSED: Final = re.compile(
    rb"\x1f\x8b|BZh|\xfd7zXZ|PK\x03\x04|\x28\xb5\x2f\xfd|\x04\x22\x4d\x18|x[\x01\x5e\x9c\xda]"
)
_TRUSTED: Final = "if you trust it, predgap.load(path, allow_pickle=True) in Python opens it"

# Formats that predgap does not read: how such files begin, and what to do instead.
_REFUSED: Final[tuple[tuple[re.Pattern[bytes], str], ...]] = (
    (
        _PICKLE,
        f"a Python pickle (or joblib) file, and opening one runs the code in it; {_TRUSTED}",
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
        _COMPRESSED,
        "a compressed file; if there is a model inside, decompress it first; if it is a joblib file, opening "
        f"it runs the code in it: {_TRUSTED}",
    ),
    (
        re.compile(rb"\s*booster\[0\]:|\s*\[\s*\{\s*\"nodeid\""),
        "the output of XGBoost's dump_model, which lacks the intercept; use save_model('model.json')",
    ),
)


def is_pickle(head: bytes) -> bool:
    """Could a file that begins with these bytes be a pickle or joblib file (which may be compressed)?"""
    return bool(_PICKLE.match(head) or _COMPRESSED.match(head))


def refuse(path: Path, head: bytes, supported: str) -> NoReturn:
    """Raises the error for a file that cannot be loaded; it names the format, if that is recognised."""
    for opening, what in _REFUSED:
        if opening.match(head):
            raise UnsupportedModelError(f"{show(path)} is {what}")
    raise LoaderError(
        f"{show(path)} is no model file that predgap knows: it begins with {head[:24]!r}; "
        f"expected {supported}"
    )
