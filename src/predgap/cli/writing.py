"""Writes tables block by block: as CSV, Parquet, JSON lines or Arrow, to a file or to standard output."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from predgap._files import atomic_file
from predgap._text import no_formula, printable

FORMATS: Final = ("csv", "parquet", "jsonl", "arrow")
"""What `--format` takes; also the endings of files."""

Write = Callable[[pa.Table], object]
"""Writes one more block of a table; all blocks have the same columns."""

_ROWS_AT_ONCE: Final = 20_000


class _Writer(Protocol):
    def write(self, table: pa.Table) -> object: ...
    def close(self) -> object: ...


@contextmanager
def writing(target: Path | None, form: str, schema: pa.Schema) -> Iterator[Write]:
    """A function that writes blocks of a table to the file, or to stdout if there is none.

    A file appears complete or not at all. In CSV, text that looks like a formula gets an apostrophe in front;
    on a terminal, control characters are written out.
    """
    if target is None:
        with _naming("standard output"):
            file = sys.stdout.buffer
            yield from _open(file, form, schema, on_terminal=sys.stdout.isatty())
            file.flush()
        return
    with _naming(str(target)), _destination(target) as file:
        yield from _open(file, form, schema)


def _open(file: BinaryIO, form: str, schema: pa.Schema, on_terminal: bool = False) -> Iterator[Write]:
    """A function that writes blocks; nothing is written before the first one, or else the end."""
    forward = _Forward(file)
    make = partial(_WRITERS[form], forward, schema)
    if form == "csv" and on_terminal:
        make = partial(make, change=lambda text: printable(no_formula(text)))
    writer: _Writer | None = None

    def write(table: pa.Table) -> None:
        nonlocal writer
        writer = make() if writer is None else writer
        writer.write(table)

    try:
        yield write
        (make() if writer is None else writer).close()
    finally:
        forward.close()  # PyArrow's writers would go on writing when they are deleted


@contextmanager
def _destination(path: Path) -> Iterator[BinaryIO]:
    """A file to write to: a new one that replaces a regular file at the end, or a pipe or device itself."""
    path = Path(os.path.realpath(path))  # if it is a link, write to its target
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
    else:
        with atomic_file(path) as file:
            yield file


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Gives errors of writing the name that the user knows, not that of a temporary file."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), name) from None


# ---- formats -------------------------------------------------------------------------------------


class _Forward:
    """A file that can only be written on: all that PyArrow needs, also of a pipe."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._at, self.closed = file, 0, False

    def write(self, data: Any) -> int:
        if not self.closed:
            self._file.write(data)
            self._at += len(data)
        return len(data)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        if not self.closed:
            self._file.flush()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """What comes later is thrown away; the file itself stays open."""
        self.closed = True


class CsvWriter:
    """CSV in UTF-8, with all digits of numbers, and quotes only where they are needed."""

    def __init__(self, file: Any, schema: pa.Schema, change: Callable[[str], str] | None = None) -> None:
        self._file, self._change = file, no_formula if change is None else change
        self._rows([schema.names])

    def write(self, table: pa.Table) -> None:
        for batch in with_text(table, self._change).to_batches(max_chunksize=_ROWS_AT_ONCE):
            columns = [column.to_pylist() for column in batch.columns]
            self._rows(zip(*columns, strict=True))

    def close(self) -> None:
        self._file.flush()

    def _rows(self, rows: Any) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        self._file.write(text.getvalue().encode())


class _JsonLines:
    """One JSON object per row; numbers that are not finite are null."""

    def __init__(self, file: Any, schema: pa.Schema) -> None:
        self._file = file

    def write(self, table: pa.Table) -> None:
        for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
            self._file.write("".join(f"{json_text(row)}\n" for row in batch.to_pylist()).encode())

    def close(self) -> None:
        self._file.flush()


_WRITERS: Final[dict[str, Callable[..., Any]]] = {
    "csv": CsvWriter,
    "parquet": pyarrow.parquet.ParquetWriter,
    "jsonl": _JsonLines,
    "arrow": pyarrow.ipc.new_stream,
}


# ---- text ----------------------------------------------------------------------------------------


def with_text(table: pa.Table, change: Callable[[str], str]) -> pa.Table:
    """The table with `change` applied to all text in it."""
    for j, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            texts = table.column(j).to_pylist()
            changed = {text: None if text is None else change(text) for text in set(texts)}
            table = table.set_column(j, field.name, pa.array([changed[text] for text in texts], field.type))
    return table


def json_text(value: Any) -> str:
    """JSON on one line, in ASCII so that no name acts on a terminal; numbers that are not finite are null.

    Examples
    --------
    >>> json_text({"gap": float("nan")})
    '{"gap": null}'
    """
    return json.dumps(_finite(value), allow_nan=False, default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
