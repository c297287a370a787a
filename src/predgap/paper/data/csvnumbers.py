"""Numbers in CSV, read strictly: whatever is not as expected is refused with its line and column."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from predgap._text import format_items
from predgap._typing import FloatArray
from predgap.errors import DatasetError


@dataclass(frozen=True, slots=True)
class Csv:
    where: str  # for messages
    header: tuple[str, ...]
    rows: list[tuple[int, list[str]]]  # line number, and as many cells as the header has


def parse_csv(content: bytes, where: str, delimiter: str = ",") -> Csv:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{where} is not text in UTF-8 ({error.reason} at byte {error.start})") from None
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows = []
    try:
        header = tuple(next(reader, ()))
        for cells in reader:
            if not cells:  # an empty line
                continue
            if len(cells) != len(header):
                raise DatasetError(
                    f"{where}, line {reader.line_num}: {len(cells)} cells, expected {len(header)} as in the "
                    f"header, separated by {delimiter!r}"
                )
            rows.append((reader.line_num, cells))
    except csv.Error as error:
        raise DatasetError(f"{where}, line {reader.line_num}: not CSV ({error})") from None
    if not rows:
        raise DatasetError(f"{where} has no rows; expected a header and rows of numbers")
    return Csv(where, header, rows)


def numbers(table: Csv, columns: Sequence[str]) -> FloatArray:
    """Columns by name, (n, len(columns)); NaN where a cell is empty."""
    places = [table.header.index(name) for name in columns]
    out = np.empty((len(table.rows), len(columns)))
    for row, (line, cells) in enumerate(table.rows):
        for j, place in enumerate(places):
            out[row, j] = number = _number(cells[place])
            if math.isinf(number):
                raise DatasetError(
                    f"{table.where}, line {line}, column {columns[j]!r}: {cells[place][:40]!r}; "
                    "expected a finite number"
                )
    return out


def _number(cell: str) -> float:
    """A cell's number, NaN if it is empty, infinity if it has none."""
    if not cell.strip():
        return math.nan
    try:
        number = float(cell) if "_" not in cell else math.inf  # Python would read 1_0 as 10
    except ValueError:
        return math.inf
    return number if math.isfinite(number) else math.inf


def complete(table: Csv, columns: Sequence[str]) -> FloatArray:
    values = numbers(table, columns)
    empty = np.argwhere(np.isnan(values))
    if len(empty):
        row, j = empty[0]
        raise DatasetError(
            f"{table.where}, line {table.rows[row][0]}, column {columns[j]!r}: an empty cell; "
            "expected a number"
        )
    return values


def wrong_header(table: Csv, expected: Sequence[str]) -> str:
    return f"{table.where} has the header {format_items(table.header)}; expected {format_items(expected, 30)}"
