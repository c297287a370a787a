"""Reads FlatBuffers, as far as CatBoost's .cbm files need them: tables whose fields have fixed numbers.

The files are not trusted. Everything that is read must lie within the buffer, and its total size must not
exceed the buffer's: parts of a valid file do not overlap, so a small damaged file cannot expand to a large
model.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap.errors import LoaderError

__all__ = ["FlatBuffer", "FlatTable"]

_MAX_FIELDS: Final = 64  # of a table: CatBoost's have up to 19
_MAX_ITEMS: Final = 1 << 18  # tables or texts in a list: each costs much more than its bytes

_WORD: Final = struct.Struct("<I")  # where a part is, from here on; how many items a list has
_BACK: Final = struct.Struct("<i")  # where the layout of a table is, from there back
_SIZES: Final = struct.Struct("<HH")  # of a layout, and of the tables that have it

_DAMAGED: Final = "invalid binary model file: parts of it {where}; save or copy it again"


class FlatBuffer:
    """The bytes of a FlatBuffer.

    Examples
    --------
    >>> layout, table = struct.pack("<4H", 6, 8, 4, 0), struct.pack("<iI", 8, 4)
    >>> text = struct.pack("<I3s", 2, b"hi")
    >>> FlatBuffer(struct.pack("<I", 12) + layout + table + text).root(("Name",)).text("Name")
    'hi'
    """

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._unread = len(data)
        self.unknown = ""  # the first field found that is not among the known names

    def root(self, names: tuple[str, ...]) -> FlatTable:
        """The outermost table, with the names of its fields."""
        return FlatTable(self, self.follow(0), names)

    def unpack(self, form: struct.Struct, at: int) -> tuple[Any, ...]:
        self._check(at, form.size)
        return form.unpack_from(self._data, at)

    def follow(self, at: int) -> int:
        """The position that the offset at `at` points to."""
        return int(at + self.unpack(_WORD, at)[0])

    def claim(self, at: int, size: int) -> memoryview:
        """A part of the buffer; counts its bytes, so that parts which overlap are noticed."""
        self._check(at, size)
        self._unread -= size
        if self._unread < 0:
            raise LoaderError(_DAMAGED.format(where="overlap"))
        return self._data[at : at + size]

    def items(self, at: int, size: int) -> memoryview:
        """The items of the list at `at`, each of `size` bytes."""
        (n,) = self.unpack(_WORD, at)
        return self.claim(at, _WORD.size + n * size)[_WORD.size :]

    def text(self, at: int) -> str:
        try:
            return str(self.items(at, 1), "utf-8")
        except UnicodeDecodeError:
            raise LoaderError("invalid binary model file: it has a text that is not UTF-8") from None

    def _check(self, at: int, size: int) -> None:
        if at < 0 or at + size > len(self._data):
            raise LoaderError(_DAMAGED.format(where="lie outside the file"))


class FlatTable:
    """A table with named fields. A field that is not stored has a default; a list is then empty."""

    def __init__(self, buffer: FlatBuffer, at: int, names: tuple[str, ...]) -> None:
        layout = at - buffer.unpack(_BACK, at)[0]
        layout_size, size = buffer.unpack(_SIZES, layout)
        n_fields, odd = divmod(layout_size - _SIZES.size, 2)
        if not 0 <= n_fields <= _MAX_FIELDS or odd or size < _BACK.size:
            raise LoaderError("invalid binary model file: a table has an impossible layout")
        buffer.claim(at, size)
        self._buffer, self._at, self._size, self._names = buffer, at, size, names
        self._offset = buffer.unpack(struct.Struct(f"<{n_fields}H"), layout + _SIZES.size)
        if any(self._offset[len(names) :]):
            buffer.unknown = buffer.unknown or f"a field after {names[-1]}"

    def number(self, name: str, form: struct.Struct, default: float) -> Any:
        at = self._place(name, form.size)
        return default if at is None else self._buffer.unpack(form, at)[0]

    def text(self, name: str) -> str:
        at = self.target(name)
        return "" if at is None else self._buffer.text(at)

    def table(self, name: str, names: tuple[str, ...]) -> FlatTable:
        """The table in a field; LoaderError if it is not stored."""
        at = self.target(name)
        if at is None:
            raise LoaderError(f"invalid binary model file: it has no {name}")
        return FlatTable(self._buffer, at, names)

    def numbers(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        """A list of numbers, as a view of the buffer."""
        at = self.target(name)
        return np.frombuffer(b"" if at is None else self._buffer.items(at, dtype.itemsize), dtype=dtype)

    def texts(self, name: str) -> Iterator[str]:
        return map(self._buffer.text, self._targets(name))

    def tables(self, name: str, names: tuple[str, ...]) -> Iterator[FlatTable]:
        return (FlatTable(self._buffer, at, names) for at in self._targets(name))

    def _place(self, name: str, size: int) -> int | None:
        """The position of a field of `size` bytes; None if it is not stored."""
        field = self._names.index(name)
        offset = self._offset[field] if field < len(self._offset) else 0
        if offset and not _BACK.size <= offset <= self._size - size:
            raise LoaderError(f"invalid binary model file: {name} lies outside of its table")
        return self._at + offset if offset else None

    def target(self, name: str) -> int | None:
        """The position that a field points to; None if it is not stored."""
        at = self._place(name, _WORD.size)
        return None if at is None else self._buffer.follow(at)

    def _targets(self, name: str) -> list[int]:
        """The positions that the items of a list point to."""
        at = self.target(name)
        if at is None:
            return []
        offsets = np.frombuffer(self._buffer.items(at, _WORD.size), dtype=np.dtype("<u4"))
        if len(offsets) > _MAX_ITEMS:
            raise LoaderError(f"{name} has {len(offsets):,} items, predgap loads up to {_MAX_ITEMS:,}")
        first = at + _WORD.size
        found: list[int] = (offsets + np.arange(first, first + 4 * len(offsets), 4)).tolist()
        return found
