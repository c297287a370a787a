"""Reads and writes Protocol Buffers messages, as far as ONNX files need them.

The files are not trusted. A general parser makes an object of every message, which may take a hundred times
the memory of the file. Here a message is parsed only when it is asked for, and numbers become arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap.errors import LoaderError

__all__ = ["Message", "encode", "from_bytes"]

_VARINT, _DOUBLE, _BYTES, _SINGLE = 0, 1, 2, 5  # wire types; 3 and 4 are obsolete
_FIXED: Final[dict[int, np.dtype[Any]]] = {_DOUBLE: np.dtype("<f8"), _SINGLE: np.dtype("<f4")}

_MAX_RUNS: Final = 1_000  # of consecutive values of one field, in a message
_MAX_MESSAGES: Final = 10_000  # of one field that are parsed: a message takes much more memory than its bytes
_MAX_ITEMS: Final = 1 << 23  # texts or messages in a run, which are not parsed
_CHUNK: Final = 1 << 20  # bytes decoded at the same time, to limit memory
_LONGEST: Final = 10  # bytes of a varint

Run = NDArray[Any] | list[bytes]  # whole numbers, floats, or texts and messages

_DAMAGED: Final = "invalid ONNX file: it is cut off or damaged; save or copy it again"


class Message:
    """The fields of a message by number. A method reads a field as one type; LoaderError if it has another.

    Examples
    --------
    >>> found = Message(b"\\x08\\x07\\x08\\x01\\x12\\x02hi")
    >>> found.integers(1), found.text(2), found.parts(3)
    (array([7, 1]), 'hi', [])
    """

    def __init__(self, data: bytes) -> None:
        self._runs: dict[int, list[Run]] = {}
        for number, run in _runs(data):
            self._runs.setdefault(number, []).append(run)

    def __contains__(self, number: int) -> bool:
        return number in self._runs

    def parts(self, number: int) -> list[bytes]:
        """The texts or messages of a field, as bytes."""
        return [part for run in self._runs.get(number, []) for part in _as_bytes(run)]

    def part(self, number: int) -> bytes:
        """The text or message of a field that must occur once."""
        found = self.parts(number)
        if len(found) != 1:
            raise LoaderError(f"invalid ONNX file: field {number} occurs {len(found)} times, expected 1")
        return found[0]

    def messages(self, number: int) -> list[Message]:
        """The messages of a field, parsed; LoaderError if there are more than `_MAX_MESSAGES`."""
        found = self.parts(number)
        if len(found) > _MAX_MESSAGES:
            raise LoaderError(
                f"invalid ONNX model of trees: field {number} occurs {len(found)} times, expected at "
                f"most {_MAX_MESSAGES}"
            )
        return [Message(part) for part in found]

    def text(self, number: int) -> str:
        """The text of a field, "" if it is absent; the last one if it is repeated, as for numbers."""
        found = self.parts(number)
        try:
            return found[-1].decode() if found else ""
        except UnicodeDecodeError:
            raise LoaderError(f"invalid ONNX file: field {number} is not UTF-8 text") from None

    def integers(self, number: int) -> NDArray[np.int64]:
        return self._numbers(number, np.dtype(np.int64), _varints)

    def integer(self, number: int, default: int = 0) -> int:
        found = self.integers(number)
        return int(found[-1]) if len(found) else default

    def floats(self, number: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        return self._numbers(number, dtype, lambda data: from_bytes(data, dtype))

    def _numbers(
        self, number: int, dtype: np.dtype[Any], unpack: Callable[[bytes], NDArray[Any]]
    ) -> NDArray[Any]:
        """The numbers of a field, either each with its own tag or packed into one byte string."""
        runs = self._runs.get(number, [])
        arrays = [unpack(b"".join(run)) if isinstance(run, list) else run for run in runs]
        if any(array.dtype != dtype for array in arrays):
            raise LoaderError(f"invalid ONNX file: field {number} has numbers of another kind")
        return arrays[0] if len(arrays) == 1 else np.concatenate([np.empty(0, dtype=dtype), *arrays])


def from_bytes(data: bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array of numbers of fixed size from its bytes."""
    if len(data) % dtype.itemsize:
        raise LoaderError(_DAMAGED)
    return np.frombuffer(data, dtype=dtype)


def encode(*parts: tuple[int, int | bytes]) -> bytes:
    """The bytes of a message with these fields: (number, value), where a value is an int from 0, or bytes.

    Examples
    --------
    >>> encode((1, 300), (2, b"hi"))
    b'\\x08\\xac\\x02\\x12\\x02hi'
    """
    out = bytearray()
    for number, value in parts:
        if isinstance(value, int):
            out += _encoded(number << 3 | _VARINT) + _encoded(value)
        else:
            out += _encoded(number << 3 | _BYTES) + _encoded(len(value)) + value
    return bytes(out)


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _as_bytes(run: Run) -> list[bytes]:
    if not isinstance(run, list):
        raise LoaderError("invalid ONNX file: it has numbers where there should be texts or messages")
    return run


def _runs(data: bytes) -> Iterator[tuple[int, Run]]:
    """The fields of a message in order: the number, and all consecutive values of that field."""
    at = 0
    for _ in range(_MAX_RUNS):
        if at == len(data):
            return
        tag, _ = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if number == 0:  # a file of zeros, for example
            raise LoaderError(_DAMAGED)
        run: Run
        if kind == _VARINT:
            run, at = _varint_run(data, at, tag)
        elif kind == _BYTES:
            run, at = _bytes_run(data, at, tag)
        elif kind in _FIXED:
            run, at = _fixed_run(data, at, tag, _FIXED[kind])
        else:
            raise LoaderError(_DAMAGED)
        yield number, run
    raise LoaderError(f"invalid ONNX file: a message has more than {_MAX_RUNS} parts")


def _varints(data: bytes) -> NDArray[np.int64]:
    """The variable-length integers (varints) that fill the data."""
    found = np.empty(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) < 0x80), dtype=np.int64)
    n = at = 0
    while at < len(data):
        values, starts, sound = _decode(data[at : at + _CHUNK])
        if not sound.all() or not len(values):
            raise LoaderError(_DAMAGED)
        found[n : n + len(values)] = values
        n += len(values)
        at += int(starts[-1])
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at a position, as a number from 0, and where it ends."""
    value = 0
    for k, byte in enumerate(data[at : at + _LONGEST]):
        value |= (byte & 0x7F) << (7 * k)
        if byte < 0x80:
            return value, at + k + 1
    raise LoaderError(_DAMAGED)


def _decode(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """All complete varints in the data, where each starts (and the last ends), and which are valid."""
    raw = np.frombuffer(data, dtype=np.uint8)
    starts = np.concatenate([[0], np.flatnonzero(raw < 0x80) + 1])
    length = np.diff(starts)
    value = (raw[starts[:-1]] & 0x7F).astype(np.uint64)
    for k in range(1, min(int(length.max(initial=0)), _LONGEST)):
        longer = np.flatnonzero(length > k)
        value[longer] |= (raw[starts[longer] + k] & 0x7F).astype(np.uint64) << np.uint64(7 * k)
    return value.view(np.int64), starts, length <= _LONGEST


def _varint_run(data: bytes, at: int, tag: int) -> tuple[NDArray[np.int64], int]:
    """Consecutive varints, each after the tag; and where they end."""
    parts = []
    for size in _growing():
        found, starts, sound = _decode(data[at : at + size])
        n = _how_many(found[::2] == tag)
        n = min(n, len(found) // 2)  # the last number may not end here
        if n == 0:
            break
        if not sound[: 2 * n].all():
            raise LoaderError(_DAMAGED)
        parts.append(found[1 : 2 * n : 2])
        at += int(starts[2 * n])
    if not parts:
        raise LoaderError(_DAMAGED)
    return np.concatenate(parts), at


def _fixed_run(data: bytes, at: int, tag: int, dtype: np.dtype[Any]) -> tuple[NDArray[Any], int]:
    """Consecutive floats, each after the tag; and where they end."""
    if tag > 0x7F:  # a tag of two bytes; ONNX has none for floats
        raise LoaderError(_DAMAGED)
    record = np.dtype([("tag", np.uint8), ("value", dtype)])
    parts = []
    for size in _growing():
        count = min(len(data) - at, size) // record.itemsize
        found = np.frombuffer(data, dtype=record, offset=at, count=count) if count else np.empty(0, record)
        n = _how_many(found["tag"] == tag)
        if n == 0:
            break
        parts.append(found["value"][:n])
        at += n * record.itemsize
    if not parts:
        raise LoaderError(_DAMAGED)
    return np.concatenate(parts), at


def _growing() -> Iterator[int]:
    """Yields the numbers of bytes to decode next: few at first, because most runs are short."""
    size = 64
    while True:
        yield size
        size = min(8 * size, _CHUNK)


def _how_many(alike: NDArray[np.bool_]) -> int:
    """The number of True values before the first False."""
    return len(alike) if alike.all() else int(np.argmin(alike))


def _bytes_run(data: bytes, at: int, tag: int) -> tuple[list[bytes], int]:
    """Consecutive texts or messages, each after the tag; and where they end."""
    _, after = _varint(data, at)
    mark = data[at:after]
    first, skip, end = mark[0], len(mark), len(data)
    found: list[bytes] = []
    for _ in range(_MAX_ITEMS):
        # Half a million short texts are common: a byte is compared before a slice is taken.
        if at == end or data[at] != first or (skip > 1 and not data.startswith(mark, at)):
            return found, at
        at += skip
        if at < end and data[at] < 0x80:
            stop = at + 1 + data[at]
            at += 1
        else:
            size, at = _varint(data, at)
            stop = at + size
        if stop > end:
            raise LoaderError(_DAMAGED)
        found.append(data[at:stop])
        at = stop
    raise LoaderError(f"invalid ONNX file: field {tag >> 3} occurs more than {_MAX_ITEMS} times")
