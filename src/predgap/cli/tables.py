"""Reads the tables that a command is given, in blocks, and writes those that it makes.

They are CSV, Parquet or Arrow, files or pipes. Columns are features of the model, row labels, the target, or
not wanted. CSV is read with PyArrow, and messages name the row and the column.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shlex
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from predgap import Ensemble
from predgap._files import atomic_file
from predgap._inputs.categories import UNSEEN, Categories, is_missing
from predgap._inputs.subsets import match_names
from predgap._text import did_you_mean, format_items, no_formula, printable, shown
from predgap.errors import TableError
from predgap.runs import open_dataset

STDIN: Final = "-"
"""The path that means standard input."""

_ROWS_READ_AT_ONCE: Final = 20_000  # of a Parquet file
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
        yield from pyarrow.parquet.ParquetFile(file).iter_batches(_ROWS_READ_AT_ONCE)
    elif form == "Arrow stream":
        yield from pyarrow.ipc.open_stream(file)
    else:
        reader = pyarrow.ipc.open_file(file)
        yield from (reader.get_batch(i) for i in range(reader.num_record_batches))


# ------------------------------------------------------------------------------------------------------------
# The columns of a table are features of the model, row labels, the target, or not wanted.


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The places of the columns of a table."""

    features: tuple[int, ...]
    label: int | None  # the row labels
    target: int | None

    def labels(self, block: pa.Table, first: int) -> pa.Array:
        """The labels of the rows of a block; without such a column their numbers, from `first`."""
        if self.label is None:
            return pa.array(range(first, first + block.num_rows), pa.int64())
        return pa.concat_arrays(block.column(self.label).chunks)


def split_names(given: Sequence[str], known: Sequence[str]) -> list[str]:
    """Names from a repeated option, separated by commas unless the whole text is a known name."""
    return [name for text in given for name in ([text] if text in known else text.split(","))]


@dataclass(frozen=True, slots=True)
class Roles:
    """The columns that are no features, by name."""

    drop: tuple[str, ...] = ()
    target: str | None = None
    index: str | None = None  # the row labels


def layout(name: str, columns: Sequence[str], ensemble: Ensemble, roles: Roles) -> TableLayout:
    """Finds out which column of DATA is what; TableError if columns are left over, or the target or the row
    labels are not there.

    Without a column that is named for them, the first one is the row labels if it is named as pandas names an
    index without a name, and is no feature of the model. `name` is that of the table, for messages.
    """
    known = match_names(columns, ensemble.feature_names or (), TableError)
    check_roles(name, columns, known, roles)
    found = _laid_out(columns, ensemble, known, roles)
    extra = [columns[j] for j in found.features if columns[j] not in known]
    if known and extra and len(set(known.values())) == ensemble.n_features:
        options = " ".join(f"--drop {shlex.quote(column)}" for column in extra)
        one = " (or --target, if it has the true values; --index, if it has the row labels)"
        raise TableError(
            f"{name}: the model does not know {format_items(extra)}; leave out with {options}"
            f"{one if len(extra) == 1 else ''}"
        )
    return replace(found, target=None if roles.target is None else columns.index(roles.target))


def check_roles(name: str, columns: Sequence[str], known: Collection[str], roles: Roles) -> None:
    """TableError unless the target and the row labels are columns of their own; `known` are the features."""
    for what, column in (("target", roles.target), ("column of row labels", roles.index)):
        if column is not None and column not in columns:
            meant = did_you_mean(column, columns)
            raise TableError(f"{name} has no column {column!r}; {meant}it has {format_items(columns)}")
        if column in known:
            raise TableError(f"{name}: the {what} {column!r} is a feature of the model")
    if roles.index is not None and roles.index in (roles.target, *roles.drop):
        other = "--target" if roles.index == roles.target else "--drop"
        raise TableError(f"{name}: --index and {other} name the same column {roles.index!r}; leave one out")


def reference_layout(columns: Sequence[str], ensemble: Ensemble, roles: Roles) -> TableLayout:
    """Finds the columns of the reference table that are features; the others are not needed."""
    known = match_names(columns, ensemble.feature_names or (), TableError)
    found = _laid_out(columns, ensemble, known, roles)
    if not ensemble.feature_names:
        return found
    return replace(found, features=tuple(j for j in found.features if columns[j] in known))


def _laid_out(
    columns: Sequence[str], ensemble: Ensemble, known: Mapping[str, int], roles: Roles
) -> TableLayout:
    """All columns but the row labels, the target and those to drop as features."""
    rest = [j for j, column in enumerate(columns) if column not in (*roles.drop, roles.target)]
    if roles.index is not None:
        label = next((j for j in rest if columns[j] == roles.index), None)
    else:
        label = next((j for j in rest if _is_index(j, columns[j]) and columns[j] not in known), None)
        if not (ensemble.feature_names or len(rest) > ensemble.n_features):
            label = None
    return TableLayout(tuple(j for j in rest if j != label), label, None)


def _is_index(place: int, name: str) -> bool:
    """True if pandas writes this for an index without a name: in CSV it comes first, in Parquet last."""
    return (place == 0 and name in ("", "Unnamed: 0")) or name == "__index_level_0__"


def csv_columns(schema: pa.Schema, places: TableLayout, ensemble: Ensemble) -> CsvColumns:
    """Chooses how to read the columns of a CSV file, given the types of its first block.

    A column that has only whole numbers there, or nothing, may have other numbers further down. What is
    neither a feature nor the target is text, which comes as it is written.
    """
    levels = ensemble.categorical()
    names = [schema.names[j] for j in places.features]
    at = match_names(names, ensemble.names, TableError) if ensemble.feature_names else {}
    read = {name: pa.string() for j, name in enumerate(schema.names) if j != places.target}
    categories, numbers = {}, set()
    for place, (j, name) in enumerate(zip(places.features, names, strict=True)):
        kind, q = schema.field(j).type, at.get(name) if ensemble.feature_names else place
        if q in levels:
            categories[name] = levels[q]
            continue
        numbers.add(name)
        read[name] = pa.float64() if pa.types.is_integer(kind) or pa.types.is_null(kind) else kind
    target = None if places.target is None or not ensemble.class_names else schema.names[places.target]
    if target is not None:
        read[target] = pa.string()
    return CsvColumns(read, categories, frozenset(numbers), target, ensemble.class_names or ())


# ------------------------------------------------------------------------------------------------------------
# A CSV file is text and does not tell types, so the model says how its columns are read.
#
# Categories are matched by their text, or by their value if they are numbers; of categories only empty cells
# are missing. In columns of numbers NA, NaN, null and the like are missing, too. What is no feature is text.

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
    """The types to read the columns of a CSV file as, by name; PyArrow finds the types of others."""

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


# ------------------------------------------------------------------------------------------------------------
# CSV files are read with PyArrow; error messages name the row and the column.

HEADER_IS: Final = "the header is row 1"
"""How rows are counted in error messages."""

MISSING: Final[tuple[str, ...]] = tuple(pyarrow.csv.ConvertOptions().null_values)
"""What means a missing value in a column of numbers, such as NA, NaN, null and nothing."""

_DELIMITERS: Final = ",;\t"
_HEAD_BYTES: Final = 1 << 16
_BLOCK_BYTES: Final = 1 << 20  # PyArrow reads up to 32 blocks ahead
_COLUMN: Final = re.compile(r"In CSV column #(\d+): ")
_ROW: Final = re.compile(r"Row #(\d+)")


def read_csv(
    source: Path | bytes,
    where: str,
    *,
    delimiter: str = ",",
    types: Mapping[str, pa.DataType] | None = None,
) -> pa.Table:
    r"""The table in CSV text with a header, in UTF-8.

    Parameters
    ----------
    source : Path or bytes
        The file, or its content.
    where : str
        The name of the source in error messages.
    delimiter : str, default=","
        The character between fields.
    types : mapping from column name to Arrow type, or None, default=None
        The types of the columns; only empty fields are then missing values. None infers the types, and the
        usual marks such as NA and NaN are missing values, too.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    TableError
        If the text is not valid CSV, or a field does not have the type of its column.

    Examples
    --------
    >>> read_csv(b"a;b\n1;\n", "here", delimiter=";", types={"a": pa.float64(), "b": pa.string()}).to_pylist()
    [{'a': 1.0, 'b': None}]
    >>> read_csv(b"a\nhigh\n", "here", types={"a": pa.float64()})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    predgap.errors.TableError: here: column 'a', row 2 (the header is row 1): CSV conversion error ...
    """
    given = {} if types is None else {"column_types": dict(types), "null_values": [""]}
    options = {"strings_can_be_null": True, **given}
    with _readable_errors(source, where, delimiter):
        table = pyarrow.csv.read_csv(
            source if isinstance(source, Path) else pa.BufferReader(source),
            read_options=pyarrow.csv.ReadOptions(use_threads=False),  # errors then name the row
            **_options(delimiter, options),
        )
        _ = table.column_names  # PyArrow decodes the names here: raises if they are not UTF-8
    return table


def csv_schema(path: Path, where: str, delimiter: str) -> pa.Schema:
    """The names and types of the columns, as far as the first MB of a file tells."""
    with _readable_errors(path, where, delimiter), _block_reader(path, delimiter, {}) as reader:
        _ = reader.schema.names
        return reader.schema


def csv_blocks(
    path: Path, where: str, delimiter: str, types: Mapping[str, pa.DataType]
) -> Iterator[pa.Table]:
    """The table in a CSV file in blocks of about 1 MB, so that memory does not grow with the file.

    Types that are not given are those of `csv_schema`. Text comes as it is written, also "" and "NA"; in
    columns of other types the usual marks such as NA (`MISSING`) are missing values.
    """
    with _readable_errors(path, where, delimiter), _block_reader(path, delimiter, types) as reader:
        for batch in reader:
            yield pa.Table.from_batches([batch])


def _block_reader(path: Path, delimiter: str, types: Mapping[str, pa.DataType]) -> Any:
    return pyarrow.csv.open_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
        **_options(delimiter, {"column_types": dict(types)}),
    )


def _options(delimiter: str, convert: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "parse_options": pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        "convert_options": pyarrow.csv.ConvertOptions(**convert),
    }


@contextmanager
def _readable_errors(source: Path | bytes, where: str, delimiter: str) -> Iterator[None]:
    """Turns PyArrow's errors into a TableError that names the column and the row."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise TableError(
            f"{where} has a column whose name is not text in UTF-8: {error.object!r}; save it in UTF-8"
        ) from None
    except pa.ArrowException as error:
        names = dict(enumerate(header(read_head(source), delimiter)))
        text = _COLUMN.sub(lambda found: f"column {names.get(int(found[1]))!r}, ", str(error))
        text = _ROW.sub(lambda found: f"row {found[1]} ({HEADER_IS})", text)
        raise TableError(f"{where}: {text}") from None


def header(text: bytes, delimiter: str = ",") -> tuple[str, ...]:
    r"""The names in the first record of a CSV text.

    Examples
    --------
    >>> header(b'"citric acid, g/l",pH\n0.3,3.1\n')
    ('citric acid, g/l', 'pH')
    """
    lines = io.StringIO(text.decode("utf-8-sig", "replace"), newline="")
    try:
        return tuple(next(csv.reader(lines, delimiter=delimiter), ()))
    except csv.Error:
        return ()


def delimiter_of(text: bytes) -> str:
    r"""The delimiter of a CSV text: of comma, semicolon and tab, the one that gives the most column names.

    Examples
    --------
    >>> delimiter_of(b'"citric acid, g/l";pH\n0.3;3.1\n')
    ';'
    """
    return max(_DELIMITERS, key=lambda delimiter: len(header(text, delimiter)))


def read_head(source: Path | bytes) -> bytes:
    """The first bytes of a file or text, enough for its header."""
    if isinstance(source, bytes):
        return source[:_HEAD_BYTES]
    with source.open("rb") as file:
        return file.read(_HEAD_BYTES)


# ------------------------------------------------------------------------------------------------------------
# Tables are written block by block: as CSV, Parquet, JSON lines or Arrow, to a file or to standard output.

FORMATS: Final = ("csv", "parquet", "jsonl", "arrow")
"""What `--format` takes; also the endings of files."""

Write = Callable[[pa.Table], object]
"""Writes one more block of a table; all blocks have the same columns."""

_ROWS_WRITTEN_AT_ONCE: Final = 20_000


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
        """Throws away what comes later; the file itself stays open."""
        self.closed = True


class CsvWriter:
    """CSV in UTF-8, with all digits of numbers, and quotes only where they are needed."""

    def __init__(self, file: Any, schema: pa.Schema, change: Callable[[str], str] | None = None) -> None:
        self._file, self._change = file, no_formula if change is None else change
        self._rows([schema.names])

    def write(self, table: pa.Table) -> None:
        for batch in with_text(table, self._change).to_batches(max_chunksize=_ROWS_WRITTEN_AT_ONCE):
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
        for batch in table.to_batches(max_chunksize=_ROWS_WRITTEN_AT_ONCE):
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
    for j, column in enumerate(table.schema):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            texts = table.column(j).to_pylist()
            changed = {text: None if text is None else change(text) for text in set(texts)}
            table = table.set_column(j, column.name, pa.array([changed[text] for text in texts], column.type))
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
