"""Opens pickle and joblib files, only if `load(..., allow_pickle=True)`: opening one runs the code in it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from predgap._files import show
from predgap.errors import LoaderError

__all__ = ["opened"]


def opened(path: Path) -> Any:
    """The object in a file. joblib is used if installed: it reads both its own files and plain pickles."""
    try:
        import joblib
    except ImportError:
        joblib = None
    try:
        if joblib is not None:
            return joblib.load(path)
        with path.open("rb") as file:
            return pickle.load(file)
    except Exception as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), "no reason given")
        raise LoaderError(
            f"{show(path)} cannot be opened as a pickle ({type(error).__name__}: {reason.strip()[:200]}); it "
            "needs the packages that it was saved with, and joblib if joblib saved it"
        ) from error
