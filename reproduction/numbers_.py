"""Numbers in CSV files, read strictly: all must be finite, and where one may be missing the cell is empty."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from predgap._csv import HEADER_IS, header, read_csv
from predgap._text import format_items
from predgap._typing import BoolArray, FloatArray
from predgap.errors import DatasetError, TableError


@dataclass(frozen=True, slots=True)
class Numbers:
    """A table whose columns hold numbers, but for some that hold text."""

    where: str  # for messages
    table: pa.Table

    @property
    def header(self) -> tuple[str, ...]:
        return tuple(self.table.column_names)

    def check_header(self, expected: Sequence[str]) -> None:
        if self.header != tuple(expected):
            raise self.wrong_header(expected)

    def wrong_header(self, expected: Sequence[str]) -> DatasetError:
        return DatasetError(
            f"{self.where} has the header {format_items(self.header)}; expected {format_items(expected, 30)}"
        )

    def columns(self, names: Sequence[str]) -> FloatArray:
        """Columns by name, (n, len(names)); NaN where a cell is empty."""
        columns = [self.table[name] for name in names]
        values: FloatArray = np.column_stack([column.to_numpy() for column in columns])
        empty = np.column_stack([column.is_null().to_numpy() for column in columns])
        self._refuse(~(np.isfinite(values) | empty), names, "not a finite number")
        return values

    def complete(self, names: Sequence[str]) -> FloatArray:
        """Columns by name, (n, len(names)), none of whose cells may be empty."""
        values = self.columns(names)
        self._refuse(np.isnan(values), names, "an empty cell; expected a number")
        return values

    def _refuse(self, wrong: BoolArray, names: Sequence[str], why: str) -> None:
        for row, j in np.argwhere(wrong)[:1]:
            raise DatasetError(f"{self.where}: column {names[j]!r}, row {row + 2} ({HEADER_IS}): {why}")


def read_numbers(content: bytes, path: Path, delimiter: str = ",", text: Collection[str] = ()) -> Numbers:
    """The table in the content of a CSV file; columns named in `text` hold text, all others numbers."""
    types = {n: pa.string() if n in text else pa.float64() for n in header(content, delimiter)}
    try:
        table = read_csv(content, repr(str(path)), delimiter=delimiter, types=types)
    except TableError as error:
        raise DatasetError(str(error)) from None
    if not len(table):
        raise DatasetError(f"{str(path)!r} has no rows; expected a header and rows of numbers")
    return Numbers(repr(str(path)), table)


def read_bytes(path: Path) -> bytes:
    """What is in a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{str(path)!r} cannot be read ({error.strerror or error})") from None
