"""Reads and writes tables as CSV and Parquet files, through PyArrow."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet

from predgap._csv import delimiter_of, read_csv, read_head
from predgap._files import atomic_write
from predgap._text import did_you_mean, format_items
from predgap.errors import TableError

SUFFIXES: Final = (".csv", ".parquet")
"""Endings of files that `write_table` can write."""

_ROWS_AT_ONCE: Final = 20_000


def read_table_file(path: Path) -> pa.Table:
    """The table in a CSV or Parquet file, which are recognised by their first bytes.

    The delimiter of a CSV file is, of comma, semicolon and tab, the one that gives the most column names.
    Empty fields, and the usual marks such as NA and NaN, are missing values.
    """
    try:
        head = read_head(path)
        if head.startswith(b"PAR1"):
            table = pyarrow.parquet.ParquetFile(path).read()
            _ = table.column_names  # PyArrow decodes the names here: raises if they are not UTF-8
            return table
        if b"\0" in head:
            raise TableError(f"{str(path)!r} is not text; expected a CSV file in UTF-8, or a Parquet file")
        return read_csv(path, repr(str(path)), delimiter=delimiter_of(head))
    except TableError:
        raise
    except FileNotFoundError:
        raise TableError(f"there is no file {str(path)!r}; check the path of the table") from None
    except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: a path that no file can have
        reason = getattr(error, "strerror", None) or error
        raise TableError(f"{str(path)!r} cannot be read as CSV or Parquet ({reason})") from None


def without(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The table without these columns; TableError if it does not have one of them."""
    names = table.column_names
    for name in columns:
        if name not in names:
            meant = did_you_mean(name, names)
            raise TableError(
                f"there is no column {name!r} to drop; {meant}The table has {format_items(names)}"
            )
    return table.select([j for j, name in enumerate(names) if name not in set(columns)])


def write_table(table: pa.Table, path: Path) -> None:
    """Writes CSV or Parquet, by the suffix of `path`; the file appears complete or not at all."""
    file = io.BytesIO()
    if path.suffix.lower() == ".parquet":
        pyarrow.parquet.write_table(table, file)
    else:
        write_csv(table, file)
    atomic_write(Path(os.path.realpath(path)), file.getvalue())  # if it is a link, write to its target


def write_csv(table: pa.Table, file: IO[bytes]) -> None:
    """Writes CSV in UTF-8, with all digits of numbers, and quotes only where they are needed."""
    file.write(_csv([table.column_names]))
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        columns = [column.to_pylist() for column in batch.columns]
        file.write(_csv(zip(*columns, strict=True)))
    file.flush()


def _csv(rows: Any) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
