"""Reads the tables that a command is given, in blocks: CSV, Parquet and Arrow, from files and pipes."""

from __future__ import annotations

import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from predgap._csv import csv_blocks, csv_schema, delimiter_of, read_head
from predgap.cli.csvcolumns import CsvColumns
from predgap.errors import TableError
from predgap.runs import open_dataset

STDIN: Final = "-"
"""The path that means standard input."""

_ROWS_AT_ONCE: Final = 20_000  # of a Parquet file
_COPIED_AT_ONCE: Final = 1 << 20
_FOLDER: Final = "Parquet folder"
_FORMATS: Final = {b"PAR1": "Parquet", b"ARROW1": "Arrow file", b"\xff\xff\xff\xff": "Arrow stream"}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A table in a file, which is read block by block, as often as needed."""

    path: Path
    name: str  # in messages: the path as given, or standard input
    format: str  # "CSV", _FOLDER, or a value of _FORMATS
    schema: pa.Schema  # of CSV: as far as the first block tells
    n_rows: int | None = None  # if it is known before reading
    delimiter: str = ","

    def blocks(self, csv: CsvColumns) -> Iterator[pa.Table]:
        """The rows in blocks, all with the same columns. `csv` says how to read those of a CSV file."""
        with _readable(self.name):
            if self.format == "CSV":
                first = 0
                for block in csv_blocks(self.path, self.name, self.delimiter, csv.types):
                    yield csv.read(block, self.name, first)
                    first += block.num_rows
            elif self.format == _FOLDER:
                for each in open_dataset(self.path).files:
                    yield from _recognised(each.path, repr(str(each.path))).blocks(csv)
            else:
                with self.path.open("rb") as file:
                    yield from (pa.Table.from_batches([batch]) for batch in _batches(file, self.format))


@contextmanager
def open_data(path: str) -> Iterator[DataFile]:
    """The table at a path, or on standard input if it is "-"; of a folder, that of its Parquet files.

    The format is told by the first bytes. The delimiter of CSV is, of comma, semicolon and tab, the one that
    gives the most column names. What is not a regular file, and can be read only once, is copied to a
    temporary file, which is gone when the context ends.
    """
    name = "standard input" if path == STDIN else repr(path)
    with ExitStack() as until_the_end:
        if path != STDIN and Path(path).is_dir():
            data = open_dataset(Path(path))
            yield DataFile(data.path, name, _FOLDER, data.schema, data.n_rows)
            return
        with _readable(name):
            opened = _recognised(until_the_end.enter_context(_regular(path)), name)
        yield opened


@contextmanager
def _regular(path: str) -> Iterator[Path]:
    """A regular file with the content of this one."""
    if path != STDIN and not stat.S_ISFIFO(Path(path).stat().st_mode):
        yield Path(path)
        return
    with tempfile.NamedTemporaryFile(prefix="predgap-") as copy:
        with nullcontext(sys.stdin.buffer) if path == STDIN else Path(path).open("rb") as given:
            shutil.copyfileobj(given, copy, _COPIED_AT_ONCE)
        copy.flush()
        yield Path(copy.name)


def _recognised(path: Path, name: str) -> DataFile:
    head = read_head(path)
    form = next((form for magic, form in _FORMATS.items() if head.startswith(magic)), "CSV")
    if form == "CSV":
        if b"\0" in head:
            raise TableError(f"{name} is not text; expected CSV in UTF-8, Parquet or Arrow")
        delimiter = delimiter_of(head)
        return DataFile(path, name, form, csv_schema(path, name, delimiter), delimiter=delimiter)
    with path.open("rb") as file:
        if form == "Parquet":
            parquet = pyarrow.parquet.ParquetFile(file)
            schema, n_rows = parquet.schema_arrow, parquet.metadata.num_rows
        else:
            opened = pyarrow.ipc.open_stream if form == "Arrow stream" else pyarrow.ipc.open_file
            schema, n_rows = opened(file).schema, None
        _ = schema.names  # PyArrow decodes the names here: raises if they are not UTF-8
    return DataFile(path, name, form, schema, n_rows)


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turns what goes wrong when a file is read into a TableError."""
    try:
        yield
    except TableError:
        raise
    except FileNotFoundError:
        raise TableError(f"there is no file {name}; check the path of the table") from None
    except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: a path that no file can have
        reason = getattr(error, "strerror", None) or error
        raise TableError(f"{name} cannot be read as CSV, Parquet or Arrow ({reason})") from None


def _batches(file: Any, form: str) -> Iterator[pa.RecordBatch]:
    if form == "Parquet":
        yield from pyarrow.parquet.ParquetFile(file).iter_batches(_ROWS_AT_ONCE)
    elif form == "Arrow stream":
        yield from pyarrow.ipc.open_stream(file)
    else:
        reader = pyarrow.ipc.open_file(file)
        yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
