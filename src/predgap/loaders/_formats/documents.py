"""Model files that are JSON: from bytes to a document, and the parts of it, none of which can be trusted."""

from __future__ import annotations

import json
from collections.abc import Callable, Set
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._typing import FloatArray
from predgap.errors import LoaderError

__all__ = ["Document", "as_document", "numbers", "object_in", "parse", "single"]

Document = dict[str, Any]

# A container costs 64 bytes of memory or more, but only 2 of text; models have one in 20 bytes at most.
_BYTES_PER_CONTAINER: Final = 8
_FREE_CONTAINERS: Final = 1024


def parse(data: bytes, loads: Callable[[str], Any] = json.loads) -> Any:
    """What JSON bytes hold, as `loads` reads it; what is damaged, or would blow up in memory, is refused.

    Examples
    --------
    >>> parse(b'{"trees": []}')
    {'trees': []}
    """
    if data.count(b"[") + data.count(b"{") > len(data) // _BYTES_PER_CONTAINER + _FREE_CONTAINERS:
        raise LoaderError("not a sound JSON model file: it has far more lists than a model of its size")
    try:
        return loads(data.decode())
    except RecursionError:
        raise LoaderError("not a sound JSON model file: it is nested far deeper than a model") from None
    except LoaderError:
        raise
    except ValueError as error:  # bad JSON, bad UTF-8, or an integer of thousands of digits
        raise LoaderError(f"not a sound JSON model file ({error}); save it again") from error


def as_document(found: Any) -> Document:
    """What a file holds, which must be an object."""
    if not isinstance(found, dict):
        raise LoaderError(f"the model file holds a {type(found).__name__}, expected an object")
    return found


def object_in(parent: Document, name: str, *, model: str) -> Document:
    """An object within an object; `model` says what has one of that name, if this has not."""
    child = parent.get(name)
    if not isinstance(child, dict):
        raise LoaderError(f"the model has no part {name!r}; is it {model}?")
    return child


def numbers(value: Any, name: str, kinds: Set[type] = frozenset({int, float})) -> FloatArray:
    """A list of numbers of these kinds; others, texts and lists are damage."""
    if not isinstance(value, list) or not set(map(type, value)) <= kinds:
        found = "missing" if value is None else f"a {type(value).__name__} of other things"
        raise LoaderError(f"{name} is {found}, expected a list of numbers; the file is damaged")
    try:
        return np.array(value, dtype=np.float64)
    except OverflowError:
        raise LoaderError(f"{name} holds an integer that no float can; the file is damaged") from None


def single(values: NDArray[Any]) -> FloatArray:
    """Rounded to single precision.

    Decimals come here as float64, the way that the libraries read them too: so both round twice.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused later
        return values.astype(np.float32).astype(np.float64)
