"""Reads JSON model files and their parts. The files are not trusted: every part is checked."""

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

# A list or object takes 64 bytes of memory or more, but only 2 of text. Models have at most one per 20 bytes
# of text; files with many more are refused before they are parsed.
_BYTES_PER_CONTAINER: Final = 8
_FREE_CONTAINERS: Final = 1024


def parse(data: bytes, loads: Callable[[str], Any] = json.loads) -> Any:
    """Parses JSON bytes with `loads`; LoaderError if they are damaged, or would need far too much memory.

    Examples
    --------
    >>> parse(b'{"trees": []}')
    {'trees': []}
    """
    if data.count(b"[") + data.count(b"{") > len(data) // _BYTES_PER_CONTAINER + _FREE_CONTAINERS:
        raise LoaderError("invalid JSON model file: it has far more lists than a model of its size")
    try:
        return loads(data.decode())
    except RecursionError:
        raise LoaderError("invalid JSON model file: it is nested far deeper than a model") from None
    except LoaderError:
        raise
    except ValueError as error:  # bad JSON, bad UTF-8, or an integer of thousands of digits
        raise LoaderError(f"invalid JSON model file ({error}); save it again") from error


def as_document(found: Any) -> Document:
    """The content of a file as a dict; LoaderError if it is not a JSON object."""
    if not isinstance(found, dict):
        raise LoaderError(f"the model file holds a {type(found).__name__}, expected an object")
    return found


def object_in(parent: Document, name: str, *, model: str) -> Document:
    """The JSON object `name` within another; LoaderError, which asks "is it `model`?", if there is none."""
    child = parent.get(name)
    if not isinstance(child, dict):
        raise LoaderError(f"the model has no part {name!r}; is it {model}?")
    return child


def numbers(value: Any, name: str, kinds: Set[type] = frozenset({int, float})) -> FloatArray:
    """A list of numbers as an array; LoaderError if an item has a type other than `kinds`."""
    if not isinstance(value, list) or not set(map(type, value)) <= kinds:
        found = "missing" if value is None else f"a {type(value).__name__} of other things"
        raise LoaderError(f"{name} is {found}, expected a list of numbers; the file is damaged")
    try:
        return np.array(value, dtype=np.float64)
    except OverflowError:
        raise LoaderError(f"{name} holds an integer that no float can; the file is damaged") from None


def single(values: NDArray[Any]) -> FloatArray:
    """The values rounded to single precision, as float64.

    Libraries also read decimals as float64 and then round to float32, so both round in the same two steps.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # values that are not finite are refused later
        return values.astype(np.float32).astype(np.float64)
