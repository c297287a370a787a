"""Parses the text of a LightGBM model, which is not trusted: a header and trees, each of lines `key=value`.

Values stay text until they are read, as one number or as the numbers of all trees. After the trees come
importances, training parameters and the labels of categories from pandas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from predgap._typing import FloatArray, IntArray
from predgap.errors import LoaderError

__all__ = [
    "Counts",
    "Fields",
    "Text",
    "codes",
    "count",
    "field",
    "floats",
    "integers",
    "parts",
    "read",
    "words",
]

Fields = dict[str, str]
Counts = NDArray[np.int64]  # (n_trees,)

# A damaged file must not make us allocate or work without end.
_MAX_LINES: Final = 64  # of the header or a tree; LightGBM reads up to 22 of a tree
_MAX_LENGTH: Final = 32  # of a number, on average

_IN_NUMBERS: Final = b"-+.0123456789einf"  # not nan, nor other texts that NumPy accepts


# ---- bytes to fields ----


class Text(NamedTuple):
    """The parts of a model's text."""

    header: Fields
    trees: Iterator[Fields]  # read one by one
    tail: bytes  # what follows the trees


def read(data: bytes) -> Text:
    """The fields of the header, those of each tree (parsed lazily), and the text after the trees."""
    head, blank, _ = data.partition(b"\n\n")
    if b"\r" in head:
        raise LoaderError(
            "the model file has carriage returns, with which LightGBM cannot read it either; restore its "
            "line ends (\\n), or save it again"
        )
    if not blank:
        raise LoaderError("the model file stops within its header; save or copy it again")
    header = _fields(head.removeprefix(b"tree\n"), "the header")
    start = len(head) + len(blank)
    end = data.find(b"\nend of trees\n", start - 1) + 1
    if end == 0:
        raise LoaderError("the model file stops within its trees; save or copy it again")
    blocks = _tree_blocks(data, start, end, header)
    trees = (_fields(block, f"tree {i}") for i, block in enumerate(blocks))
    return Text(header, trees, data[end + len(b"end of trees") :])


def _tree_blocks(data: bytes, at: int, end: int, header: Fields) -> Iterator[bytes]:
    """The text of each tree; LoaderError if it does not have the number of bytes that the header states."""
    n_trees = data.count(b"\nTree=", at - 1, end)
    for i, size in enumerate(parts(header, "tree_sizes", n_trees)):
        stop = at + int(size) if re.fullmatch("[0-9]{1,9}", size) else at
        opening, closing = b"Tree=%d\n" % i, b"\n\n\n"
        if stop > end or not (data.startswith(opening, at, stop) and data.endswith(closing, at, stop)):
            raise LoaderError(
                f"tree {i} does not fill the {size[:20]} bytes that tree_sizes states; if the file was "
                "edited, save it again"
            )
        yield data[at + len(opening) : stop - len(closing)]
        at = stop
    if at != end:
        raise LoaderError(f"{end - at} bytes follow the last tree, expected none; the file is damaged")


def _fields(text: bytes, where: str) -> Fields:
    """The values of lines `key=value` by key; a line may be a key alone."""
    if text.count(b"\n") >= _MAX_LINES:
        raise LoaderError(f"{where} has more than {_MAX_LINES} lines; the file is damaged")
    try:
        lines = [line.partition("=") for line in text.decode().split("\n")]
    except UnicodeDecodeError as error:
        raise LoaderError(f"{where} is no UTF-8 text ({error.reason}); the file is damaged") from error
    fields = {key: value for key, _, value in lines}
    if len(fields) < len(lines):
        raise LoaderError(f"{where} has a field twice; the file is damaged")
    return fields


# ---- fields to numbers ----


def field(fields: Fields, name: str) -> str:
    """The text of a field; LoaderError if it is absent."""
    if name not in fields:
        raise LoaderError(f"there is no {name}; is it a LightGBM model saved by save_model?")
    return fields[name]


def count(fields: Fields, name: str, least: int, most: int, default: str | None = None) -> int:
    """A field that is a whole number from `least` to `most`."""
    text = field(fields, name) if default is None else fields.get(name, default)
    if not re.fullmatch("[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise LoaderError(f"{name} is {text[:40]!r}, expected a number from {least} to {most}")
    return int(text)


def parts(fields: Fields, name: str, n: int) -> list[str]:
    """The n parts of a field, separated by spaces. They are counted before splitting, to limit memory."""
    text = field(fields, name)
    found = text.count(" ") + 1 if text else 0
    if found != n:
        raise LoaderError(f"{name} has {found} entries, expected {n}; the file is damaged")
    return text.split(" ") if text else []


def floats(trees: list[Fields], name: str, counts: Counts) -> FloatArray:
    """The numbers of one field of all trees, concatenated; tree i must have `counts[i]`."""
    return _numbers(_joined(trees, name, counts), name, np.float64)


def integers(trees: list[Fields], name: str, counts: Counts) -> IntArray:
    """As `floats`, for signed 32-bit integers."""
    return _within(_joined(trees, name, counts), name, 1 - 2**31, 2**31 - 1).astype(np.int32)


def words(trees: list[Fields], name: str, counts: Counts) -> NDArray[np.uint32]:
    """As `floats`, for unsigned 32-bit integers."""
    return _within(_joined(trees, name, counts), name, 0, 2**32 - 1).astype(np.uint32)


def codes(texts: list[str], name: str) -> IntArray:
    """The 32-bit integers of all texts, concatenated; in a text they are separated by colons."""
    return _within(":".join(texts), name, 1 - 2**31, 2**31 - 1, separator=":").astype(np.int32)


def _joined(trees: list[Fields], name: str, counts: Counts) -> str:
    """The texts of one field of all trees, joined; tree i must have `counts[i]` numbers."""
    texts = [field(tree, name) for tree in trees]
    for i, (text, n) in enumerate(zip(texts, counts.tolist(), strict=True)):
        found = text.count(" ") + 1 if text else 0
        if found != n or len(text) > n * _MAX_LENGTH:
            raise LoaderError(
                f"{name} of tree {i} has {found} entries in {len(text)} characters, expected {n} numbers; "
                "the file is damaged"
            )
    return " ".join(filter(None, texts))


def _within(text: str, name: str, least: int, most: int, separator: str = " ") -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = _numbers(text, name, np.int64, separator)
    if len(numbers) and (numbers.min() < least or numbers.max() > most):
        raise LoaderError(f"{name} holds a number beyond 32 bits; the file is damaged")
    return numbers


def _numbers(text: str, name: str, kind: type[np.generic], separator: str = " ") -> NDArray[Any]:
    if not text:
        return np.empty(0, dtype=kind)
    strange = text.encode().translate(None, _IN_NUMBERS + separator.encode())
    try:
        numbers = np.fromstring("" if strange else text, dtype=kind, sep=separator)
    except (ValueError, DeprecationWarning):  # an older NumPy warns, and stops at what is no number
        numbers = np.empty(0, dtype=kind)
    if len(numbers) != text.count(separator) + 1:
        found = f" ({strange[:20].decode(errors='replace')!r})" if strange else ""
        raise LoaderError(f"{name} holds something that is no number{found}; the file is damaged")
    return numbers
