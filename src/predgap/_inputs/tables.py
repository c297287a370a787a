"""Converts a user's table to float64 columns, and matches its columns to a model's features.

Columns of NumPy arrays and lists are matched by position; columns of frames (pandas, Polars, PyArrow) by
name, if the model has names. Frames are read through narwhals: none of these libraries is imported here.
"""

from __future__ import annotations

import itertools
import numbers
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, Protocol

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import UNSEEN, Categories, check_unseen, is_missing, warn_of_codes
from predgap._inputs.subsets import are_default, order_by_name
from predgap._text import count, format_items, shown
from predgap._typing import BoolArray, FloatArray, IndexArray
from predgap.errors import DependencyError, PredgapError, ShapeError, TableError

ByFeature = Sequence[Categories | None] | None
"""The categories of each feature of a model, None for a numeric one; or None if all are numeric."""

FEWEST_WHOLE: Final = 20
"""A column of fewer whole numbers may be one of continuous numbers by chance: it gives no warning."""

_ACCEPTED: Final = "a NumPy array, a pandas or Polars DataFrame, a PyArrow Table or a list of rows"


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A user's X with one column per feature of the model."""

    values: FloatArray  # (n, d) in the model's order, NaN where missing; may share memory with X
    index: Any = None  # row labels: the pandas index, else None
    backend: str | None = None  # library of X, for frames that are returned; None for arrays
    names: tuple[str, ...] | None = None  # (d,) what X calls the features; None if the model has other names

    def at(self, some: IndexArray) -> Table:
        """Some of the rows, in this order."""
        return replace(self, values=self.values[some], index=labels_at(self.index, some))


class _Source(Protocol):
    """Gives the columns of a table one by one; it can be pickled."""

    def column(self, j: int) -> FloatArray:
        """Column j as numbers, (n_rows,), or TableError."""

    def codes(self, j: int, levels: Categories) -> FloatArray:
        """Column j as codes of categories, (n_rows,), or TableError."""

    def labels(self, j: int) -> list[Any]:
        """Column j as it is, (n_rows,)."""

    def copied(self) -> _Source:
        """A copy that does not change when the caller's table does."""

    def at(self, rows: IndexArray) -> _Source:
        """A copy of these rows."""

    def only(self, some: Sequence[int]) -> _Source:
        """A source that has only some of the columns, in this order."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The columns of a table, not matched to a model yet. A column is converted, or refused, on demand."""

    n_rows: int
    n_columns: int
    names: tuple[str, ...] | None  # None for arrays and lists
    numbered: bool  # names are only pandas' default 0, 1, 2, ...
    source: _Source
    index: Any = None
    backend: str | None = None

    def column(self, j: int) -> FloatArray:
        """Column j as numbers, (n_rows,); TableError if it holds anything else."""
        return self.source.column(j)

    def codes(self, j: int, levels: Categories) -> FloatArray:
        """Column j as codes of these categories, (n_rows,); TableError if that is not possible."""
        return self.source.codes(j, levels)

    def labels(self, j: int) -> list[Any]:
        """Column j as it is, (n_rows,): numbers, labels of categories, None or NaN."""
        return self.source.labels(j)

    def copied(self) -> Columns:
        """The same columns, which do not change when the caller's table does."""
        return replace(self, source=self.source.copied())

    def at(self, rows: IndexArray) -> Columns:
        """A copy of the rows with these numbers, in this order, without their labels."""
        return replace(self, n_rows=len(rows), source=self.source.at(rows), index=None)

    def only(self, some: Sequence[int]) -> Columns:
        """Some of the columns, in this order, without the labels of the rows."""
        names = None if self.names is None else tuple(self.names[j] for j in some)
        source = self.source.only(some)
        return replace(self, n_columns=len(some), names=names, source=source, index=None)

    def values(self, order: Sequence[int], categories: ByFeature = None) -> FloatArray:
        """The columns `order` as one array (n_rows, len(order))."""
        if isinstance(self.source, _NumberArray):
            whole = self.source.whole
            return whole if order == range(self.n_columns) else whole[:, list(order)]
        out = np.empty((self.n_rows, len(order)))
        floats = self.source.floats() if categories is None and isinstance(self.source, _Frame) else None
        if floats is not None:
            for place, j in enumerate(order):
                out[:, place] = floats[:, j]
            return out
        for place, j in enumerate(order):
            levels = None if categories is None else categories[place]
            out[:, place] = self.source.column(j) if levels is None else self.source.codes(j, levels)
        return out


def read_table(
    X: Any, n_features: int, feature_names: Sequence[str] | None = None, categories: ByFeature = None
) -> Table:
    """X as float64, with one column per feature in the model's order; null and NaN become NaN.

    Named columns are matched to `feature_names` in any order; spaces and underscores count as equal, because
    LightGBM stores underscores in place of spaces. If either side has no names, columns are matched by
    position. pandas' default column labels 0, 1, 2, ... count as no names, unless the model's features have
    these names. Categorical columns become codes: a frame holds labels, an array of numbers holds the codes
    themselves, and text is always a label.

    Parameters
    ----------
    X : (n, d) NumPy array, pandas or Polars DataFrame, PyArrow Table, or list of rows
        The user's table.
    n_features : int
        d, the number of features of the model.
    feature_names : sequence of d strings, or None, default=None
        The names of the model's features.
    categories : sequence of d `Categories` or None, or None, default=None
        The categories of each feature, None for a numeric one.

    Returns
    -------
    Table

    Raises
    ------
    TableError
        If a column is missing, or holds values that are not numbers or categories of the model.
    ShapeError
        If X has the wrong number of columns or dimensions.

    Examples
    --------
    >>> read_table([[1, None], [True, 2.5]], 2).values
    array([[1. , nan],
           [1. , 2.5]])
    """
    if type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.shape[1] == n_features:
        return Table(X)  # the same result as below, ten times faster
    columns = open_columns(X)
    order, matched = column_order(columns, n_features, feature_names)
    own = columns.names if matched or (feature_names is None and not columns.numbered) else None
    names = None if own is None else tuple(map(own.__getitem__, order))
    return Table(columns.values(order, categories), columns.index, columns.backend, names)


def open_columns(X: Any) -> Columns:
    """The columns of a table; TableError if X is not a table."""
    if isinstance(X, Columns):
        return X
    if isinstance(X, np.ma.MaskedArray):
        X = _unmasked(X)
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TableError(
            f"X is a sparse {type(X).__name__}, in which an absent entry may mean 0 or missing; "
            "pass X.toarray() if it means 0"
        )
    if isinstance(X, np.ndarray | list | tuple):
        return _open_array(X)
    of_frame = _open_frame(X)
    return _open_array(X) if of_frame is None else of_frame


def whole_columns(values: FloatArray) -> BoolArray:
    """True for the columns (k,) of numbers (n, k) that have at least 20 whole numbers, and no others."""
    missing = np.isnan(values)
    is_whole = ((values == np.floor(values)) | missing).all(axis=0)
    found: BoolArray = is_whole & (len(values) - missing.sum(axis=0) >= FEWEST_WHOLE)
    return found


def names_of(X: Any) -> tuple[str, ...] | None:
    """The names of the columns of a table; None if they have none, or only pandas' default 0, 1, 2, ..."""
    names = open_columns(X).names
    return None if names is None or are_default(names) else names


def in_order(X: Any, names: Sequence[str]) -> Any:
    """A frame with its columns in the order of these names; any other table, or one without names, as it is.

    TableError if the frame has other columns.
    """
    own = _open_frame(X)
    if own is None or own.names is None or not by_name(own.names, own.numbered, names):
        return X
    order = order_by_name(own.names, names)
    assert isinstance(own.source, _Frame)
    return X if order == tuple(range(len(order))) else own.source.only(order).frame.to_native()


def columns_of(table: Table, names: tuple[str, ...] | None) -> Columns:
    """The columns of a table that was read, with these names."""
    n, d = table.values.shape
    return Columns(n, d, names, False, _NumberArray(table.values), table.index, table.backend)


def column_order(
    columns: Columns, n_features: int, feature_names: Sequence[str] | None
) -> tuple[Sequence[int], bool]:
    """The column of each feature, (d,), and whether it was found by name; TableError if they do not fit."""
    names = columns.names
    if (
        names is not None
        and feature_names is not None
        and (not columns.numbered or by_name(names, True, feature_names))
    ):
        return order_by_name(names, tuple(feature_names)), True
    if columns.n_columns != n_features:
        raise ShapeError(_wrong_count(columns, n_features, feature_names))
    return range(n_features), False


def by_name(names: Sequence[str], numbered: bool, feature_names: Sequence[str]) -> bool:
    """True if a frame's columns are to be matched to the model's features by name, False if by position."""
    return not numbered or set(feature_names) <= set(names)


# ---- matching ------------------------------------------------------------------------------------


def _wrong_count(columns: Columns, n_features: int, feature_names: Sequence[str] | None) -> str:
    has = f": {format_items(columns.names)}" if columns.names and not columns.numbered else ""
    needs = f": {format_items(feature_names)}" if feature_names is not None else ""
    hint = "; drop the target column?" if columns.n_columns > n_features else ""
    return f"X has {count(columns.n_columns, 'column')}{has}; the model needs {n_features}{needs}{hint}"


# ---- frames --------------------------------------------------------------------------------------


def _open_frame(X: Any) -> Columns | None:
    """The columns of an eager frame; None if X is not a frame."""
    if type(X).__name__ == "RecordBatch" and type(X).__module__.startswith("pyarrow"):
        import pyarrow as pa  # loaded already: X is one of its objects

        X = pa.Table.from_batches([X])
    try:
        frame = nw.from_native(X, pass_through=True, allow_series=True)
        if not isinstance(frame, nw.DataFrame):
            _refuse_part_of_frame(frame, X)
            return None
        labels: list[Any] = list(frame.columns)  # some libraries find repeated names only here
    except nw.exceptions.DuplicateError:
        raise _duplicates(X) from None
    names = tuple(map(str, labels))
    if len(set(names)) < len(names):  # labels that differ only in type: 1 and "1"
        raise _repeated_names(names)
    return Columns(
        n_rows=len(frame),
        n_columns=len(names),
        names=names,
        numbered=labels == list(range(len(labels))) and isinstance(next(iter(labels), None), int),
        source=_Frame(frame, names, tuple(labels)),
        index=nw.maybe_get_index(frame),
        backend=str(frame.implementation),
    )


def _refuse_part_of_frame(found: Any, X: Any) -> None:
    """TableError if narwhals found X to be a lazy frame or a Series, not a table."""
    if isinstance(found, nw.LazyFrame):
        raise TableError(f"X is a lazy {type(X).__name__}; collect it first, e.g. X.collect()")
    if isinstance(found, nw.Series):
        row = "one row with its names as X.to_frame().T, " if found.implementation.is_pandas_like() else ""
        column = "X.to_frame()" if hasattr(X, "to_frame") else "pa.table({name: X})"
        raise ShapeError(
            f"X is a {type(X).__name__} of {count(len(found), 'value')}, expected a table (n, d); "
            f"pass {row}one column as {column}"
        )


def _duplicates(X: Any) -> TableError:
    labels = X.column_names if hasattr(X, "column_names") else X.columns
    return _repeated_names(map(str, labels))


def _repeated_names(names: Iterable[str]) -> TableError:
    twice = [name for name, times in Counter(names).items() if times > 1]
    return TableError(f"X has more than one column called {format_items(twice)}; rename or drop all but one")


@dataclass(frozen=True, slots=True, eq=False)
class _Frame:
    """The columns of a frame; categorical ones hold labels."""

    frame: nw.DataFrame[Any]
    names: tuple[str, ...]
    keys: tuple[Any, ...]  # the names as the frame has them

    def _series(self, j: int) -> nw.Series[Any]:
        return self.frame.get_column(self.keys[j])  # by number it would look at all names

    def floats(self) -> FloatArray | None:
        """All columns as one array, if this is a pandas frame of float64 and nothing else."""
        if not self.frame.implementation.is_pandas():
            return None
        frame = self.frame.to_native()
        whole: FloatArray | None = frame.to_numpy() if set(frame.dtypes) == {np.dtype(np.float64)} else None
        return whole

    def column(self, j: int) -> FloatArray:
        series, what = self._series(j), f"column {self.names[j]!r}"
        dtype = series.dtype
        if len(series) == 0:  # an empty frame has no meaningful dtypes
            return np.empty(0)
        if isinstance(dtype, nw.Categorical | nw.Enum):
            raise TableError(
                f"{what} is categorical ({dtype}), where numbers are needed: pass the numbers that the model "
                "was trained on, or, if it splits on categories, give this feature Discrete, Flip or "
                "Marginal noise"
            )
        if dtype.is_temporal() or dtype.is_nested():
            raise TableError(
                f"{what} has type {dtype}, first {shown(_first(series))}; expected numbers: convert or "
                "drop it"
            )
        if dtype.is_integer() or dtype == nw.Boolean:
            return _whole_numbers(series, what)
        if dtype.is_float() or dtype == nw.Unknown:
            values = _arrow_values(series) if series.implementation.is_pyarrow() else series.to_numpy()
            if values.ndim == 1 and values.dtype.kind in "biuf":
                return values.astype(np.float64)
        return numbers_from(series.to_list(), what)

    def codes(self, j: int, levels: Categories) -> FloatArray:
        return codes_of_labels(self._series(j).to_list(), levels, f"column {self.names[j]!r}")

    def labels(self, j: int) -> list[Any]:
        return list(self._series(j).to_list())

    def copied(self) -> _Frame:
        return _Frame(self.frame.clone(), self.names, self.keys)

    def at(self, rows: IndexArray) -> _Frame:
        return _Frame(self.frame[rows, :], self.names, self.keys)

    def only(self, some: Sequence[int]) -> _Frame:
        names, keys = (tuple(of[j] for j in some) for of in (self.names, self.keys))
        return _Frame(self.frame[:, list(some)], names, keys)


def _arrow_values(series: nw.Series[Any]) -> NDArray[Any]:
    """The numbers of a column of an Arrow table, whose own to_numpy imports pandas."""
    column = series.to_native()
    if column.null_count or not column.num_chunks:
        return series.to_numpy()
    return np.concatenate([np.from_dlpack(chunk) for chunk in column.chunks])


def _whole_numbers(series: nw.Series[Any], what: str) -> FloatArray:
    """Integers and booleans as floats. Nulls are handled here, as each library converts them differently."""
    if series.dtype in (nw.Int128, nw.UInt128):
        return numbers_from(series.to_list(), what)
    missing = series.is_null().to_numpy()
    filler: Any = False if series.dtype == nw.Boolean else 0
    filled = series.fill_null(filler) if missing.any() else series
    values = filled.to_numpy().astype(np.float64)
    values[missing] = np.nan
    return values


def _first(series: nw.Series[Any]) -> Any:
    present = series.drop_nulls()
    return present.head(1).to_list()[0] if len(present) else None


# ---- arrays --------------------------------------------------------------------------------------


def _open_array(X: Any) -> Columns:
    if isinstance(X, list | tuple) and len(X) == 0:
        raise ShapeError("X is an empty list, which has no columns; for no rows pass np.empty((0, d))")
    array = _as_array(X)
    if array.ndim != 2:
        raise ShapeError(_wrong_ndim(X, array))
    if array.dtype.kind in "biuf":
        return _unnamed(array, _NumberArray(np.asarray(array, dtype=np.float64)))
    if array.dtype.kind not in "OUST":
        raise TableError(f"X has dtype {array.dtype}; expected numbers: convert it, or pass a DataFrame")
    return _unnamed(array, _ObjectArray(array.astype(object)))


@dataclass(frozen=True, slots=True, eq=False)
class _NumberArray:
    """The columns of an array of numbers; categorical ones hold codes."""

    whole: FloatArray  # (n_rows, n_columns); may share memory with X

    def column(self, j: int) -> FloatArray:
        return self.whole[:, j]

    def codes(self, j: int, levels: Categories) -> FloatArray:
        return self.whole[:, j]

    def labels(self, j: int) -> list[Any]:
        return list(self.whole[:, j].tolist())

    def copied(self) -> _NumberArray:
        return _NumberArray(self.whole.copy())

    def at(self, rows: IndexArray) -> _NumberArray:
        return _NumberArray(self.whole[rows])

    def only(self, some: Sequence[int]) -> _NumberArray:
        return _NumberArray(self.whole[:, list(some)])


@dataclass(frozen=True, slots=True, eq=False)
class _ObjectArray:
    """The columns of an array of objects; text is always a label."""

    objects: NDArray[Any]  # (n_rows, n_columns), a copy of X

    def column(self, j: int) -> FloatArray:
        return numbers_from(self.objects[:, j].tolist(), f"column {j}")

    def codes(self, j: int, levels: Categories) -> FloatArray:
        return codes_of_objects(self.objects[:, j].tolist(), levels, f"column {j}")

    def labels(self, j: int) -> list[Any]:
        return list(self.objects[:, j].tolist())

    def copied(self) -> _ObjectArray:
        return self

    def at(self, rows: IndexArray) -> _ObjectArray:
        return _ObjectArray(self.objects[rows])

    def only(self, some: Sequence[int]) -> _ObjectArray:
        return _ObjectArray(self.objects[:, list(some)])


def _unnamed(array: NDArray[Any], source: _Source) -> Columns:
    n, d = array.shape
    return Columns(n_rows=n, n_columns=d, names=None, numbered=False, source=source)


def _as_array(X: Any) -> NDArray[Any]:
    try:
        array = np.asarray(X)
    except (ValueError, TypeError) as error:
        raise TableError(f"X is a {type(X).__name__} whose rows differ in length or form: {error}") from None
    if array.dtype.kind in "USTO" and not isinstance(X, np.ndarray):
        array = np.asarray(X, dtype=object)  # NumPy turned numbers beside text into text: undo that
    if array.ndim == 0 or (array.ndim == 1 and isinstance(X, Mapping)):
        raise TableError(f"X is a {type(X).__name__}; expected {_ACCEPTED}")
    return array


def _wrong_ndim(X: Any, array: NDArray[Any]) -> str:
    if array.ndim == 1 and array.dtype.names is not None:
        return f"X is a structured array with fields {format_items(array.dtype.names)}; pass pd.DataFrame(X)"
    found = f"X is {array.ndim}-dimensional, shape {array.shape}; expected (n, d)"
    if array.ndim > 1:
        return found
    return f"{found}; pass one row as {'X[None, :]' if isinstance(X, np.ndarray) else '[row]'}"


def _unmasked(X: np.ma.MaskedArray[Any, Any]) -> NDArray[Any]:
    if X.dtype.kind in "biuf":
        return np.ma.filled(X.astype(np.float64), np.nan)
    objects: NDArray[Any] = X.data.astype(object)
    objects[np.ma.getmaskarray(X)] = None
    return objects


# ------------------------------------------------------------------------------------------------------------
# The cells of a column may be any objects; they become numbers, or codes of categories.


def numbers_from(values: Sequence[Any], what: str) -> FloatArray:
    """Objects as numbers, NaN where missing; TableError, which calls the column `what`, names the first that
    is none."""
    out = []
    for value in values:
        try:
            out.append(_number(value))
        except (TypeError, ValueError, OverflowError) as error:
            row, culprit = _culprit(values, len(out))
            kind = "text" if isinstance(culprit, str | bytes) else f"a {type(culprit).__name__}"
            reason = f" ({error})" if isinstance(error, OverflowError) else ""
            raise TableError(
                f"{what} holds {kind}, first {shown(culprit)} in row {row}{reason}; expected numbers: "
                "encode or drop it"
            ) from None
    return np.array(out, dtype=np.float64)


def codes_of_objects(values: Sequence[Any], levels: Categories, what: str) -> FloatArray:
    """Codes of a column of an array: numbers are codes, anything else is a label."""
    is_label = [_is_label(value, levels) for value in values]
    rows = list(itertools.compress(range(len(values)), is_label))
    labelled = codes_of_labels([values[r] for r in rows], levels, what, rows)
    out = numbers_from([None if yes else v for v, yes in zip(values, is_label, strict=True)], what)
    out[np.array(is_label, dtype=bool)] = labelled
    return out


def _is_label(value: Any, levels: Categories) -> bool:
    if is_missing(value):
        return value is None and None in levels.place  # None is a category in some libraries
    return not isinstance(value, numbers.Real)


def codes_of_labels(
    labels: Sequence[Any], levels: Categories, what: str, rows: Sequence[int] | None = None
) -> FloatArray:
    """Codes of a column of labels; TableError if the model does not know labels, or refuses one.

    `rows` are the numbers of the rows that have them; None: 0, 1, 2, ...
    """
    text = next((label for label in labels if isinstance(label, str)), None)
    if text is not None and not levels.labelled:
        raise TableError(
            f"{what} holds text, first {shown(text)}, but the model has only the codes of its categories, "
            "not their labels; the column must hold the codes that the categories had in training, as numbers"
        )
    try:
        codes = levels.codes_of(labels)
    except TableError:
        raise _refused(labels, levels, what, range(len(labels)) if rows is None else rows) from None
    unseen = [label for label, code in zip(labels, codes.tolist(), strict=True) if code == UNSEEN]
    if unseen:
        check_unseen(unseen, levels, what)
        if len(unseen) == len(labels):
            warn_of_codes(unseen, levels, what)
    return codes


def _refused(labels: Sequence[Any], levels: Categories, what: str, rows: Sequence[int]) -> TableError:
    """The error about the first label that a model refuses, which names its row."""
    for row, label in zip(rows, labels, strict=True):
        try:
            levels.code_of(label)
        except TableError as error:
            return TableError(f"row {row} of {what}: {error}")
    raise AssertionError("no label is refused")


def _culprit(values: Sequence[Any], failed: int) -> tuple[int, Any]:
    """The row and value to name in the error: if they are texts, the first that is not even a number."""
    for row in range(failed, len(values)):
        try:
            if isinstance(values[row], str):
                float(values[row])
        except ValueError:
            return row, values[row]
    return failed, values[failed]


def _number(value: Any) -> float:
    """A Python, NumPy or pandas scalar as float; TypeError if it is not a real number."""
    if is_missing(value):
        return float("nan")
    is_time = isinstance(value, np.timedelta64)  # which NumPy counts among the integers
    if is_time or not isinstance(value, numbers.Real | Decimal | np.bool_):
        raise TypeError("not a real number")
    return float(value)


# ------------------------------------------------------------------------------------------------------------
# Frames are made of the library that a caller uses: pandas, Polars or PyArrow.

BACKENDS: Final = ("pandas", "polars", "pyarrow")
"""The libraries, first choice first."""


def repeated_labels(labels: Any, times: int, backend: str | None) -> Any:
    """Each label `times` times; a pandas index keeps its dtype (time zones, categories)."""
    if hasattr(labels, "to_flat_index") and backend in (None, "pandas"):
        return labels.to_flat_index().repeat(times)
    return [label for label in labels for _ in range(times)]


def to_native(columns: Mapping[str, Any], backend: str | None = None) -> Any:
    """A frame of `backend` ("pandas", "polars", "pyarrow") with these columns of equal length.

    Without a backend, the first installed of pandas, Polars and PyArrow is taken.

    Examples
    --------
    >>> to_native({"feature": ["age", "bmi"], "place": [2, 1]}, "polars").columns
    ['feature', 'place']
    """
    candidates: tuple[Any, ...] = (backend,) if backend else BACKENDS
    for name in candidates:
        try:
            return nw.from_dict(dict(columns), backend=name).to_native()
        except ImportError:
            continue
    wanted = " or ".join(candidates)
    raise DependencyError(f"a frame needs {wanted}, not installed; try: pip install {candidates[0]}")


# ------------------------------------------------------------------------------------------------------------
# New values go into a table so that an array stays an array, and a frame one of the same library.


def replaced(X: Any, columns: Columns, values: Sequence[NDArray[Any]]) -> Any:
    """X with these columns (n,): floats, or objects that are labels.

    Categorical columns of a frame keep their type; TableError if one does not have a new label. Row labels
    are kept.
    """
    if columns.backend is None:
        is_labelled = any(column.dtype == object for column in values)
        return np.stack(values, axis=1).astype(object if is_labelled else np.float64)
    old: nw.DataFrame[Any] = nw.from_native(X, eager_only=True)
    names = list(old.columns)
    made: dict[str, Any] = {
        name: new.tolist() if new.dtype == object else new
        for name, new in zip(map(str, names), values, strict=True)
    }
    frame: nw.DataFrame[Any] = nw.from_native(to_native(made, columns.backend), eager_only=True)
    typed = [
        _categorical(frame[str(name)], old[:, j]) if values[j].dtype == object else frame[str(name)]
        for j, name in enumerate(names)
    ]
    native = frame.select(*typed).to_native()
    if columns.backend == "pandas":
        native.index, native.columns = X.index, X.columns
    return native


def _categorical(new: nw.Series[Any], old: nw.Series[Any]) -> nw.Series[Any]:
    """A column of labels with the type of the old column."""
    if not isinstance(old.dtype, nw.Categorical | nw.Enum):
        return new
    if old.implementation.is_pandas():
        known = old.to_native().cat.categories
        strange = [v for v in new.to_list() if not is_missing(v) and v not in known]
        if strange:
            raise TableError(
                f"column {old.name!r} would get {strange[0]!r}, which is none of its categories; add it to "
                "them, e.g. with X[name].cat.add_categories"
            )
        return nw.from_native(new.to_native().astype(old.to_native().dtype), series_only=True)
    return new.cast(old.dtype)


# ------------------------------------------------------------------------------------------------------------
# The rows of two tables are matched by their labels, the index of a pandas frame.

_SAME_ORDER = "if both are in the same order, pass an array, which has no index"
_SAME_LABELS = "write the labels of X into the file of the ranking, or use a table without labels"


class WrittenLabels(tuple[str, ...]):
    """Row labels from a file that does not tell their types: "7" may be a number or text, as X has it."""

    __slots__ = ()


def matching_rows(theirs: Any, mine: Any, what: str, error: type[PredgapError]) -> IndexArray | None:
    """Finds the row of another table with the label of each row of X; None if rows are in the same order.

    Rows are in the same order if one side has no labels at all (arrays, Polars and Arrow frames), if both
    have the default 0, 1, ..., or if all labels are equal. The number of rows is not checked.
    `WrittenLabels` are read as labels of X's kind; if X has none, rows are matched by their numbers, if these
    are the labels.

    Parameters
    ----------
    theirs, mine : n row labels, or None
        The index of the other table, and of X.
    what : str
        What the other table is, for messages.
    error : class of errors
        Raised if labels repeat or differ, or if one side only has the default.

    Examples
    --------
    >>> matching_rows(["a", "b", "c"], ["c", "a", "b"], "the ranking", PredgapError)
    array([2, 0, 1])
    """
    advice = _SAME_ORDER
    if isinstance(theirs, WrittenLabels):
        theirs, mine = _of_one_kind(theirs, mine)
        advice = _SAME_LABELS
    if theirs is None or mine is None or len(theirs) != len(mine) or _equal(theirs, mine):
        return None
    for default, other, side in ((mine, theirs, "X"), (theirs, mine, what)):
        if _is_default(default) and not _is_default(other):
            own, none = (what, "X") if side == "X" else ("X", what)
            raise error(
                f"{own} has an index of its own (it begins with {format_items(list(other[:3]))}), {none} the "
                "default 0, 1, ..., so their rows cannot be matched. Set the same index on both; "
                f"{advice}"
            )
    return _found(list(theirs), list(mine), what, advice, error)


def labels_at(index: Any, some: IndexArray) -> Any:
    """The labels of some rows; None if there are none."""
    if index is None:
        return None
    if isinstance(index, WrittenLabels):
        return WrittenLabels(index[r] for r in some)
    return index[some] if hasattr(index, "dtype") else [index[r] for r in some]


def _of_one_kind(theirs: WrittenLabels, mine: Any) -> tuple[Any, Any]:
    """Both as labels that can be compared."""
    numbered = {str(r): r for r in range(len(theirs))}
    if mine is None or _is_default(mine):
        if numbered.keys() == {*theirs}:
            return [numbered[label] for label in theirs], [*numbered.values()]
        return [*theirs], mine
    labels = [*mine]
    read = _reader_of(labels)
    try:
        if read is None:
            raise ValueError
        found = [*map(read, theirs)]
    except ValueError:  # compared as text
        found, labels = [*theirs], [*map(str, labels)]
    is_default = [*numbered] == [*theirs] and not {*found} & {*labels}
    return (range(len(theirs)) if is_default else found), (mine if is_default else labels)


def _reader_of(labels: list[Any]) -> Callable[[str], Any] | None:
    """A function that reads a text as a label of this kind, or raises ValueError; None for text."""
    for kind, read in ((bool, None), (numbers.Real, _number_of_label), (datetime, datetime.fromisoformat)):
        if all(isinstance(label, kind) for label in labels):
            return read
    return date.fromisoformat if all(isinstance(label, date) for label in labels) else None


def _number_of_label(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _equal(theirs: Any, mine: Any) -> bool:
    if hasattr(theirs, "equals") and hasattr(mine, "equals"):
        return bool(theirs.equals(mine))
    return list(theirs) == list(mine)


def _is_default(index: Any) -> bool:
    """True if the index is pandas' RangeIndex from 0, which a frame has if none was set."""
    return getattr(index, "start", None) == 0 and getattr(index, "step", None) == 1


def _found(
    theirs: Sequence[Any], mine: Sequence[Any], what: str, advice: str, error: type[PredgapError]
) -> IndexArray:
    try:
        place = {label: r for r, label in enumerate(theirs)}
        absent = [label for label in mine if label not in place]
    except TypeError:
        raise error(f"the row labels of {what} or of X cannot be compared; {advice}") from None
    for labels, side in ((theirs, what), (mine, "X")):
        twice = [label for label, times in Counter(labels).items() if times > 1]
        if twice:
            raise error(
                f"{what} and X have different row labels, and {side} has {format_items(twice, 3)} more than "
                f"once, so rows cannot be matched; {advice}"
            )
    if absent:
        raise error(
            f"{what} and X are of different rows: {len(absent)} of the {len(mine)} row labels of X "
            f"({format_items(absent, 3)}) do not occur in {what}; {advice}"
        )
    return np.array([place[label] for label in mine], dtype=np.intp)


# ------------------------------------------------------------------------------------------------------------
# People see the values of features as numbers, or as the labels of categories.


def feature_values(
    X: Any, n_rows: int, n_features: int, feature_names: Sequence[str] | None = None, index: Any = None
) -> list[NDArray[Any]]:
    """The values of each feature, d arrays (n,): floats, or objects where a column holds labels.

    Missing numbers are NaN, missing labels None. Named columns are matched to the features, and rows by their
    labels if both sides have them.

    Examples
    --------
    >>> feature_values([[1, "a"], [None, None]], 2, 2)
    [array([ 1., nan]), array(['a', None], dtype=object)]
    """
    columns = open_columns(X)
    if columns.n_rows != n_rows:
        raise ShapeError(f"the table of values has {count(columns.n_rows, 'row')}, expected {n_rows}")
    order, _ = column_order(columns, n_features, feature_names)
    values = [_column(columns, j) for j in order]
    rows = matching_rows(columns.index, index, "the table of values", TableError)
    return values if rows is None else [column[rows] for column in values]


def _column(columns: Columns, j: int) -> NDArray[Any]:
    try:
        return columns.column(j)
    except TableError:
        labels = np.empty(columns.n_rows, dtype=object)
        labels[:] = [None if is_missing(value) else value for value in columns.labels(j)]
        return labels
