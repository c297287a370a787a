"""The modules of the reproduction share these helpers: aliases, messages, CSV, files, threads."""

from __future__ import annotations

import csv
import difflib
import io
import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from predgap import PredgapError

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.intp]

Progress = Callable[[int, int], object]
"""A function that is called with the number of steps done, and the number of all."""

HEADER_IS: Final = "the header is row 1"
"""The way rows are counted in error messages."""


class DatasetError(PredgapError, ValueError):
    """A data set is unknown, absent or damaged, or cannot be split as asked."""


# ---- words for messages --------------------------------------------------------------------------

_LONGEST: Final = 300  # characters of an item in a message


def printable(text: str) -> str:
    r"""The text on one line, with control and invisible characters written out.

    Examples
    --------
    >>> print(printable("age\n\x1b[31mred"))
    age\n\x1b[31mred
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def format_items(items: Iterable[Any], limit: int = 8) -> str:
    """Items for an error message: the first few, and how many there are.

    Examples
    --------
    >>> format_items(["age", "bmi"])
    "'age', 'bmi'"
    >>> format_items(range(100), limit=3)
    '0, 1, 2, ... (100 in all)'
    """
    found = [repr(item) for item in items]
    cut = [text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..." for text in found[:limit]]
    first = ", ".join(cut)
    return first if len(found) <= limit else f"{first}, ... ({len(found)} in all)"


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """The name that may have been meant, as the beginning of a sentence; empty if there is none.

    Examples
    --------
    >>> did_you_mean("vine", ["wine", "housing"])
    "did you mean 'wine'? "
    """
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}? " if close else ""


def count(number: int, noun: str) -> str:
    """A number with its noun: '1 model', '2 models'."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# ---- CSV -----------------------------------------------------------------------------------------

_COLUMN: Final = re.compile(r"In CSV column #(\d+): ")
_ROW: Final = re.compile(r"Row #(\d+)")


def read_csv(content: bytes, where: str, types: Mapping[str, pa.DataType], delimiter: str = ",") -> pa.Table:
    r"""The table in CSV text with a header, in UTF-8; only empty fields are missing values.

    Parameters
    ----------
    content : bytes
    where : str
        The name of the source in error messages.
    types : mapping from column name to Arrow type
    delimiter : str, default=","

    Examples
    --------
    >>> read_csv(b"a;b\n1;\n", "here", {"a": pa.float64(), "b": pa.string()}, ";").to_pylist()
    [{'a': 1.0, 'b': None}]
    >>> read_csv(b"a\nhigh\n", "here", {"a": pa.float64()})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    reproduction.helpers.DatasetError: here: column 'a', row 2 (the header is row 1): CSV conversion error ...
    """
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(content),
            read_options=pyarrow.csv.ReadOptions(use_threads=False),  # errors then name the row
            parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                strings_can_be_null=True, column_types=dict(types), null_values=[""]
            ),
        )
        _ = table.column_names  # PyArrow decodes the names here, and fails if they are not UTF-8
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{where} has a column whose name is not text in UTF-8: {error.object!r}; save it in UTF-8"
        ) from None
    except pa.ArrowException as error:
        names = dict(enumerate(header(content, delimiter)))
        text = _COLUMN.sub(lambda found: f"column {names.get(int(found[1]))!r}, ", str(error))
        text = _ROW.sub(lambda found: f"row {found[1]} ({HEADER_IS})", text)
        raise DatasetError(f"{where}: {text}") from None
    return table


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


# ---- files and threads ---------------------------------------------------------------------------


def atomic_write(path: Path, content: bytes) -> None:
    """Writes a file so that it appears complete or not at all."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with beside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def n_threads(n_jobs: int) -> int:
    """The number of threads for `n_jobs`; -1 is all cores.

    Examples
    --------
    >>> n_threads(1)
    1
    """
    if n_jobs < 1 and n_jobs != -1:
        raise PredgapError(f"n_jobs is {n_jobs}, expected a number of threads, or -1 for all cores")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if n_jobs < 0 else min(n_jobs, 4 * cores)  # more threads would only wait for each other
