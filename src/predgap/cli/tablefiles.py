"""Tables in files: CSV and Parquet, read and written through PyArrow."""

from __future__ import annotations

import csv
import difflib
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from predgap._text import format_items
from predgap.errors import TableError

SUFFIXES: Final = (".csv", ".parquet")
"""Endings of files that `write_table` can write."""

_DELIMITERS: Final = ",;\t"
_HEAD_BYTES: Final = 1 << 16
_ROWS_AT_ONCE: Final = 20_000


def read_table_file(path: Path) -> pa.Table:
    """The table in a CSV or Parquet file; which of the two is told by its first bytes.

    The delimiter of a CSV file is the one of comma, semicolon and tab that cuts its header into most
    names. Empty fields, and the usual marks such as NA and NaN, are missing values.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        if head.startswith(b"PAR1"):
            return pyarrow.parquet.ParquetFile(path).read()
        if b"\0" in head:
            raise TableError(f"{str(path)!r} is not text; expected a CSV file in UTF-8, or a Parquet file")
        return _read_csv(path, delimiter_of(head.decode("utf-8", "replace")))
    except FileNotFoundError:
        raise TableError(f"there is no file {str(path)!r}; check the path of the table") from None
    except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: a path that no file can have
        if isinstance(error, TableError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise TableError(f"{str(path)!r} cannot be read as CSV or Parquet ({reason})") from None


def delimiter_of(text: str) -> str:
    r"""The delimiter that cuts the first record of a CSV text into most fields.

    Examples
    --------
    >>> delimiter_of('"citric acid, g/l";pH\n0.3;3.1\n')
    ';'
    """

    def n_fields(delimiter: str) -> int:
        lines = io.StringIO(text.removeprefix("\ufeff"), newline="")
        try:
            return len(next(csv.reader(lines, delimiter=delimiter), []))
        except csv.Error:
            return 0

    return max(_DELIMITERS, key=n_fields)


def _read_csv(path: Path, delimiter: str) -> pa.Table:
    return pyarrow.csv.read_csv(
        path,
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True),
    )


def without(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The table without some columns; TableError if it does not have them."""
    names = table.column_names
    for name in columns:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            meant = f"did you mean {close[0]!r}? " if close else ""
            raise TableError(
                f"there is no column {name!r} to drop; {meant}The table has {format_items(names)}"
            )
    return table.select([j for j, name in enumerate(names) if name not in set(columns)])


def write_table(table: pa.Table, path: Path) -> None:
    """Write CSV or Parquet, by the ending of `path`; the file appears complete or not at all."""
    with _replacing(path) as file:
        if path.suffix.lower() == ".parquet":
            pyarrow.parquet.write_table(table, file)
        else:
            write_csv(table, file)


def write_csv(table: pa.Table, file: IO[bytes]) -> None:
    """Write CSV in UTF-8: numbers with all their digits, quotes only where they are needed."""
    file.write(_csv([table.column_names]))
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        columns = [column.to_pylist() for column in batch.columns]
        file.write(_csv(zip(*columns, strict=True)))
    file.flush()


def _csv(rows: Any) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file beside `path` that takes its place once everything is written."""
    target = Path(os.path.realpath(path))  # a link stays a link
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with beside.open("xb") as file:
            yield file
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
