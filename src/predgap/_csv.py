"""Reads CSV files with PyArrow; its error messages name the row and the column."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv

from predgap.errors import TableError

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
