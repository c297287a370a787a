"""A data set: Parquet files in a fixed order, each cut into parts of a fixed number of rows."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from predgap._text import format_items
from predgap.errors import RunError
from predgap.explainer.batches import as_arrow

ROW: Final = "row"
"""The column with the number of a row in its file, from 0."""

_PART_NAME: Final = re.compile(r"part-\d{5}-\d{5}\.parquet")
_AT_ONCE: Final = 20_000  # rows that are read
_MOST: Final = 100_000  # files, and parts of a file: their numbers have five digits, so that names sort


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of a data set."""

    number: int
    path: Path
    name: str  # relative to the data set
    rows: int  # 0 if it cannot be read
    stamp: tuple[int, int]  # its size, and when it was changed last
    error: str = ""  # why it cannot be read

    def fingerprint(self) -> dict[str, Any]:
        """The name, size, number of rows and SHA-256 of the file, which tell that it has changed."""
        with self.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"name": self.name, "bytes": self.path.stat().st_size, "rows": self.rows, "sha256": digest}


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """Some consecutive rows of a file."""

    file: int
    number: int  # within the file
    first: int  # row
    rows: int

    @property
    def name(self) -> str:
        """The name of the file with the answers; names sort as the rows do."""
        return f"part-{self.file:05d}-{self.number:05d}.parquet"


@dataclass(frozen=True, slots=True)
class DataSet:
    """Parquet files with the same columns."""

    path: Path
    files: tuple[InputFile, ...]
    schema: pa.Schema

    @property
    def n_rows(self) -> int:
        return sum(file.rows for file in self.files)

    def parts(self, size: int) -> list[Part]:
        """All parts, each of `size` rows but for the last one of a file; RunError if these are too many."""
        if len(self.files) > _MOST:
            raise RunError(
                f"the data set has {len(self.files):,} files, at most {_MOST:,} are read; run its folders "
                "one by one, or join files"
            )
        largest = max(self.files, key=lambda file: file.rows)
        if largest.rows > _MOST * size:
            raise RunError(
                f"{largest.name} has {largest.rows:,} rows, more than {_MOST:,} parts of {size:,}; choose "
                f"--part-rows {-(-largest.rows // _MOST)} or more"
            )
        return [
            Part(file.number, number, first, min(size, file.rows - first))
            for file in self.files
            for number, first in enumerate(range(0, file.rows, size))
        ]

    def batches(
        self, parts: Collection[Part], columns: Sequence[str], unreadable: Callable[[InputFile, str], object]
    ) -> Iterator[tuple[Part, pa.RecordBatch]]:
        """The rows of some parts, in their order, with these columns and `ROW`.

        If a file cannot be read further, `unreadable` is told, and its other parts are left out.
        """
        for number, of_file in groupby(sorted(parts), key=lambda part: part.file):
            file = self.files[number]
            try:
                yield from _batches_of_file(file, list(of_file), columns)
            except (OSError, pa.ArrowException) as error:
                unreadable(file, str(error).partition("\n")[0][:300])


def open_dataset(path: Path) -> DataSet:
    """The data set at a path: a Parquet file, or a folder of them.

    Of a folder all files that end in .parquet are taken, in the order of their names, also in folders inside;
    names that begin with _ or . are left out. RunError if there are none, or if their columns differ.
    """
    paths = [path] if path.is_file() else sorted(filter(partial(_is_data, path), path.rglob("*.parquet")))
    if not paths:
        raise RunError(f"there are no .parquet files in {str(path)!r}")
    files, schemas = [], {}
    for number, each in enumerate(paths):
        name = each.name if path.is_file() else each.relative_to(path).as_posix()
        rows, stamp, reason = 0, _stamp(each), ""
        try:
            with pq.ParquetFile(each) as opened:
                rows, schemas[name] = opened.metadata.num_rows, opened.schema_arrow.remove_metadata()
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0][:300]
        files.append(InputFile(number, each, name, rows, stamp, reason))
    if not schemas:
        raise RunError(
            f"{files[0].name} cannot be read as Parquet ({files[0].error}); expected a Parquet file, or a "
            "folder of them. What is found for the rows of a CSV file goes to a file, such as -o found.csv"
        )
    first, schema = next(iter(schemas.items()))
    for name, other in schemas.items():
        if not other.equals(schema):
            raise RunError(_different(first, schema, name, other))
    return DataSet(path, tuple(files), schema)


def parts_in(folder: Path) -> list[Path]:
    """The files in a folder that are named as parts, in the order of the rows."""
    return sorted(path for path in folder.iterdir() if _PART_NAME.fullmatch(path.name))


def number_of_file(name: str) -> int:
    """The number of the input file that a part is of."""
    return int(name.split("-")[1])


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _is_data(folder: Path, path: Path) -> bool:
    hidden = any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)
    return path.is_file() and not hidden


def _different(first: str, schema: pa.Schema, name: str, other: pa.Schema) -> str:
    mine, theirs = ({field.name: str(field.type) for field in of} for of in (schema, other))
    changed = [n for n in {**mine, **theirs} if mine.get(n) != theirs.get(n)]
    told = [f"{n} ({mine.get(n, 'absent')} and {theirs.get(n, 'absent')})" for n in changed] or [
        "their order"
    ]
    return f"{first} and {name} have different columns: {format_items(told)}; all files need the same"


# ---- reading -------------------------------------------------------------------------------------


def _batches_of_file(
    file: InputFile, parts: list[Part], columns: Sequence[str]
) -> Iterator[tuple[Part, pa.RecordBatch]]:
    with pq.ParquetFile(file.path, pre_buffer=False, page_checksum_verification=True) as opened:
        _check_unchanged(file)
        for together in _consecutive(parts):
            rows = _rows(opened, together[0].first, together[-1].first + together[-1].rows, columns)
            for part in together:
                yield part, _with_numbers(rows.taken(part.rows), part)
        _check_unchanged(file)


def _check_unchanged(file: InputFile) -> None:
    if _stamp(file.path) != file.stamp:
        raise OSError("it has changed since the run began")


def _consecutive(parts: list[Part]) -> Iterator[list[Part]]:
    """The parts in runs without a gap between them."""
    cuts = [i for i, (a, b) in enumerate(pairwise(parts), 1) if a.number + 1 != b.number]
    for begin, end in pairwise([0, *cuts, len(parts)]):
        yield parts[begin:end]


class _BatchedRows:
    """Rows that come in batches of any size, and are taken in numbers that the caller chooses."""

    def __init__(self, batches: Iterator[pa.RecordBatch], skip: int) -> None:
        self._batches, self._skip = batches, skip
        self._kept: list[pa.RecordBatch] = []

    def taken(self, n_rows: int) -> pa.Table:
        """The next n_rows rows."""
        missing = self._skip + n_rows - sum(batch.num_rows for batch in self._kept)
        while missing > 0:
            batch = next(self._batches, None)
            if batch is None:
                raise OSError("it has fewer rows than its footer says")
            self._kept.append(batch)
            missing -= batch.num_rows
        table = pa.Table.from_batches(self._kept)
        taken, rest = table.slice(self._skip, n_rows), table.slice(self._skip + n_rows)
        self._kept, self._skip = rest.to_batches(), 0
        return taken


def _rows(opened: pq.ParquetFile, first: int, end: int, columns: Sequence[str]) -> _BatchedRows:
    """The rows from `first` to `end`; row groups outside of them are not read."""
    metadata = opened.metadata
    ends = [0]
    for group in range(metadata.num_row_groups):
        ends.append(ends[-1] + metadata.row_group(group).num_rows)
    groups = [g for g, (a, b) in enumerate(pairwise(ends)) if a < end and b > first]
    batches = opened.iter_batches(_AT_ONCE, row_groups=groups, columns=list(columns), use_threads=False)
    return _BatchedRows(batches, first - ends[groups[0]])


def _with_numbers(table: pa.Table, part: Part) -> pa.RecordBatch:
    """The rows as one batch, with their numbers; dictionaries become the values that they stand for, because
    the dictionary of a part would depend on where reading began."""
    columns = [_plain(column) for column in table.columns]
    numbers = as_arrow(np.arange(part.first, part.first + part.rows, dtype=np.int64))
    return pa.RecordBatch.from_arrays([numbers, *columns], [ROW, *table.schema.names])


def _plain(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return pa.concat_arrays(column.chunks)


def batch_schema(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """The schema of the batches of a data set with these columns."""
    fields = [pa.field(ROW, pa.int64())]
    for name in columns:
        kind = schema.field(name).type
        fields.append(pa.field(name, kind.value_type if pa.types.is_dictionary(kind) else kind))
    return pa.schema(fields)
