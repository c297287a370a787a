"""Reads JSON and UBJSON model files and their parts. The files are not trusted: every part is checked."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Set
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._typing import FloatArray
from predgap.errors import LoaderError

__all__ = ["Document", "as_document", "decode_ubjson", "numbers", "object_in", "parse", "single"]

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


# ------------------------------------------------------------------------------------------------------------
# Universal Binary JSON is read as far as model files use it; this is safe on any bytes.
#
# Typed arrays (`[$d#L...`), which hold the numbers of a model, become read-only NumPy arrays that share the
# memory of the input. Lengths are checked against the size of the input before anything is allocated, and
# nesting and the number of values are limited, so that memory and time are at most a small multiple of the
# input's size.

MAX_DEPTH: Final = 32
"""The deepest nesting that is read; XGBoost's models are nested nine deep."""

# A value outside typed arrays takes a Python object. Models have more than 20 bytes of file per value (with
# its key). A file with many more values would need far too much memory, and is refused.
_BYTES_PER_VALUE: Final = 8
_FREE_VALUES: Final = 1024

_SCALARS: Final = {
    ord(marker): struct.Struct(f">{code}")
    for marker, code in {"i": "b", "U": "B", "I": "h", "l": "i", "L": "q", "d": "f", "D": "d"}.items()
}
_DTYPES: Final = {marker: np.dtype(scalar.format) for marker, scalar in _SCALARS.items()}
_INTEGERS: Final = frozenset(b"iUIlL")
_CONSTANTS: Final = {ord("Z"): None, ord("T"): True, ord("F"): False}
_ARRAY, _ARRAY_END, _OBJECT, _OBJECT_END, _STRING, _CHAR, _TYPE, _COUNT = b"[]{}SC$#"


def decode_ubjson(data: bytes) -> Any:
    """The value in UBJSON `data`: dicts, lists, strings, numbers, and NumPy arrays for typed arrays.

    Examples
    --------
    >>> decode_ubjson(b"{U\\x01a[$U#U\\x03\\x05\\x06\\x07}")
    {'a': array([5, 6, 7], dtype=uint8)}
    """
    reader = _Reader(data)
    value = reader.value(0)
    if reader.at != len(data):
        raise reader.error(f"{len(data) - reader.at} bytes follow the end of the model")
    return value


class _Reader:
    """Reads values one after the other; `at` is the position in the data."""

    __slots__ = ("at", "data", "values_left")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.values_left = len(data) // _BYTES_PER_VALUE + _FREE_VALUES

    def value(self, depth: int) -> Any:
        marker = self.byte()
        self.values_left -= 1
        if self.values_left < 0:
            raise self.error("far more values than a model of this size has")
        if depth > MAX_DEPTH:
            raise self.error(f"nesting deeper than {MAX_DEPTH} levels")
        if marker == _OBJECT:
            return self.object(depth)
        if marker == _ARRAY:
            return self.array(depth)
        if marker == _STRING:
            return self.string()
        if marker == _CHAR:
            return chr(self.byte())
        if marker in _SCALARS:
            return self.scalar(marker)
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        raise self.error(f"unknown type {bytes([marker])!r}")

    def object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.peek() != _OBJECT_END:
            key = self.string()
            if key in found:
                raise self.error(f"the key {key[:40]!r} twice in one object")
            found[key] = self.value(depth + 1)
        self.at += 1
        return found

    def array(self, depth: int) -> Any:
        mark = self.peek()
        if mark == _TYPE:
            return self.typed_array()
        if mark == _COUNT:
            self.at += 1
            count = self.count()  # its elements take at least one byte each, so this loop is bounded
            return [self.value(depth + 1) for _ in range(count)]
        found = []
        while self.peek() != _ARRAY_END:
            found.append(self.value(depth + 1))
        self.at += 1
        return found

    def typed_array(self) -> np.ndarray[Any, Any]:
        self.at += 1
        dtype = _DTYPES.get(self.byte())
        if dtype is None:
            raise self.error("an array of a type that models do not use")
        if self.byte() != _COUNT:
            raise self.error("a typed array without its length")
        count = self.count(dtype.itemsize)
        found = np.frombuffer(self.data, dtype, count, self.at)
        self.at += found.nbytes
        return found

    def string(self) -> str:
        start = self.at
        count = self.count()
        self.at += count
        try:
            return self.data[self.at - count : self.at].decode()
        except UnicodeDecodeError as error:
            self.at = start
            raise self.error("text that is not UTF-8") from error

    def count(self, item_bytes: int = 1) -> int:
        """A length; LoaderError if so many items do not fit into the rest of the data."""
        marker = self.byte()
        if marker not in _INTEGERS:
            raise self.error(f"{bytes([marker])!r} where a length was expected")
        count = int(self.scalar(marker))
        left = (len(self.data) - self.at) // item_bytes
        if not 0 <= count <= left:
            raise self.error(f"a length of {count} where {left} is the most that the file can hold")
        return count

    def scalar(self, marker: int) -> Any:
        scalar = _SCALARS[marker]
        self.at += scalar.size
        if self.at > len(self.data):
            raise self.error("the end of the file in the middle of a number")
        return scalar.unpack_from(self.data, self.at - scalar.size)[0]

    def byte(self) -> int:
        byte = self.peek()
        self.at += 1
        return byte

    def peek(self) -> int:
        if self.at >= len(self.data):
            raise self.error("the end of the file in the middle of the model")
        return self.data[self.at]

    def error(self, what: str) -> LoaderError:
        return LoaderError(f"invalid UBJSON file: found {what}, near byte {self.at}; save it again")
