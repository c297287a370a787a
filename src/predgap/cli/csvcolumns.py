"""How the columns of a CSV file are read: a file of text does not tell types, so the model does.

Categories are matched by their text, or by their value if they are numbers; of categories only empty cells
are missing. In columns of numbers NA, NaN, null and the like are missing, too. What is no feature is text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from predgap._csv import HEADER_IS, MISSING
from predgap._inputs.categories import UNSEEN, Categories, is_missing
from predgap._text import format_items, shown
from predgap.errors import TableError

_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WHOLE: Final = re.compile(r"([+-]?\d+)(\.0*)?", re.ASCII)
_CODE: Final = re.compile(r"([+-]?(?:0|[1-9]\d*))(\.0*)?", re.ASCII)
_MOST_DIGITS: Final = 400  # of a float, and more than any label has
_TRUTHS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_TYPES: Final = (
    (pa.float64(), -(2**53), 2**53),
    (pa.int64(), -(2**63), 2**63 - 1),
    (pa.uint64(), 0, 2**64 - 1),
)  # with the whole numbers that they tell apart


@dataclass(frozen=True, slots=True)
class CsvColumns:
    """What to read the columns of a CSV file as, by name; others as PyArrow finds them."""

    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    categories: Mapping[str, Categories] = field(default_factory=dict)  # of columns that are read as text
    numbers: frozenset[str] = frozenset()  # features that are none
    target: str | None = None  # the column of classes
    classes: tuple[str, ...] = ()

    def read(self, block: pa.Table, where: str, first: int) -> pa.Table:
        """A block of the file `where`, with its columns as they are meant; `first` is the number of its first
        row."""
        for j, column in enumerate(block.schema):
            text = block.column(j)
            if column.name in self.categories:
                what = f"{where}: column {column.name!r}"
                found = _labels(_without(text, [""]), self.categories[column.name], what, first)
            elif column.name in self.numbers and pa.types.is_string(column.type):
                found = _without(text, MISSING)
            elif column.name == self.target:
                classes = [_class(each, self.classes) for each in text.to_pylist()]
                found = pa.chunked_array([pa.array(classes, pa.string())])
            else:
                continue
            block = block.set_column(j, column.name, found)
        return block


def _without(text: pa.ChunkedArray, missing: Any) -> pa.ChunkedArray:
    """Text with these values as missing ones."""
    gone = pc.is_in(text, value_set=pa.array(missing, text.type))
    return pc.if_else(gone, pa.scalar(None, text.type), text)


def _labels(text: pa.ChunkedArray, levels: Categories, what: str, first: int) -> pa.ChunkedArray:
    """The labels that texts stand for; TableError for a text that can be none of the model's."""
    known = [label for label in levels.labels or () if not (isinstance(label, str) or is_missing(label))]
    if levels.holds_text:
        _check_one_kind(levels, known, what)
        return _truths_as_numbers(text, levels) if type(levels) is not Categories else text
    kind, smallest, largest = _kind_of(known, what)
    read = _reader(levels, known, kind, range(smallest, largest + 1))
    encoded = pa.concat_arrays(text.chunks).dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    values = [read(each) for each in texts]
    if None in values:
        wrong = values.index(None)
        row = encoded.indices.index(wrong).as_py() + first + 2
        raise TableError(
            f"{what} holds {shown(texts[wrong])} in row {row} ({HEADER_IS}), but {_expected(levels, known)}"
        )
    return pa.chunked_array([pa.array(values, kind).take(encoded.indices)], kind)


def _truths_as_numbers(text: pa.ChunkedArray, levels: Categories) -> pa.ChunkedArray:
    """Text with 1 and 0 for those truth values that the model does not know, if it knows 1 and 0 instead.

    CatBoost takes truth values as these numbers.
    """
    for each, truth in _TRUTHS.items():
        number = str(int(truth))
        if levels.own_code(each) == UNSEEN != levels.own_code(number):
            text = pc.if_else(pc.equal(text, each), number, text)
    return text


def _class(text: str, classes: tuple[str, ...]) -> str:
    """The class that a text stands for: 1.0 is the class 1, true is True or 1; else the text itself."""
    found, truth = _WHOLE.fullmatch(text), _TRUTHS.get(text)
    other = [] if found is None else [found[1].lstrip("+")]
    other += [] if truth is None else [str(truth), str(int(truth))]
    return next((each for each in (text, *other) if each in classes), text)


def _check_one_kind(levels: Categories, numbers: list[Any], what: str) -> None:
    """TableError if some labels are text, and others numbers, which text cannot tell apart."""
    if numbers and all(type(label) in (bool, int, float) for label in numbers) and type(levels) is Categories:
        raise TableError(
            f"{what}: the model's categories are text and numbers: {format_items(levels.labels or ())}. CSV "
            "does not tell them apart; train the model on one kind"
        )


def _kind_of(known: list[Any], what: str) -> tuple[pa.DataType, int, int]:
    """A type that holds all these numbers and tells them apart, its smallest and its largest whole number."""
    whole = [label for label in known if isinstance(label, int)]
    for kind, smallest, largest in _TYPES:
        if smallest <= min(whole, default=0) and max(whole, default=0) <= largest:
            return kind, smallest, largest
    raise TableError(f"{what}: the model's categories {format_items(known)} are too large; train it on text")


def _reader(
    levels: Categories, known: list[Any], kind: pa.DataType, exact: range
) -> Callable[[str], float | None]:
    """A function that reads a number; None if it is none that could be a category."""
    has_truths = any(isinstance(label, bool) for label in known)
    whole_only = not levels.labelled or not pa.types.is_floating(kind)
    whole = _WHOLE if levels.labelled else _CODE

    def read(text: str) -> float | None:
        text = text.strip(" \t")
        if has_truths and text in _TRUTHS:
            return float(_TRUTHS[text])
        if len(text) > _MOST_DIGITS or not _NUMBER.fullmatch(text):
            return None
        if not whole_only:
            number = float(text)
            return number if math.isfinite(number) else None
        found = whole.fullmatch(text)
        return int(found[1]) if found is not None and int(found[1]) in exact else None

    return read


def _expected(levels: Categories, known: list[Any]) -> str:
    cells = "cells of missing values are empty"
    if levels.labelled:
        return f"the model's categories are numbers: {format_items(known)}; write these; {cells}"
    return (
        "the model has only the codes of its categories, not their labels; write the codes that the "
        f"categories had in training, whole numbers from 0, such as 3; {cells}"
    )
