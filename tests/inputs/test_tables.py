"""Tables: every library gives the same values, names are matched, and what is not numeric is refused."""

from __future__ import annotations

import datetime
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from predgap._inputs.categories import UNSEEN, Categories, of_labels
from predgap._inputs.tables import open_columns, read_table, to_native
from predgap._text import format_items
from predgap.errors import ShapeError, TableError

MAKERS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
each_library = pytest.mark.parametrize("backend", MAKERS)


def refused(kind, words, X, *model):
    with pytest.raises(kind) as caught:
        read_table(X, *model)
    assert type(caught.value) is kind
    assert all(word in str(caught.value) for word in words), str(caught.value)


# ---- values --------------------------------------------------------------------------------------


@each_library
def test_frames_are_read_in_the_models_order(backend):
    X = MAKERS[backend]({"b": [1, 2], "c": [0.5, None], "a": [True, False]})
    table = read_table(X, 3, ("a", "b", "c"))
    np.testing.assert_array_equal(table.values, [[1, 1, 0.5], [0, 2, np.nan]])
    assert table.values.dtype == np.float64
    assert table.backend == backend


@each_library
@given(
    values=st.lists(st.none() | st.floats(width=32), min_size=1, max_size=5),
    order=st.permutations(["a", "b", "c"]),
)
def test_float32_columns_convert_exactly(backend, values, order):
    column = pa.array(values, pa.float32())
    arrow = pa.table(dict.fromkeys(order, column))
    X = {"pandas": arrow.to_pandas, "polars": lambda: pl.from_arrow(arrow), "pyarrow": lambda: arrow}[
        backend
    ]()
    expected = np.array([np.nan if v is None else v for v in values])
    found = read_table(X, 3, ("a", "b", "c")).values
    np.testing.assert_array_equal(found, np.column_stack([expected] * 3))


BIG = [2**53 + 1, None, -(2**63), 2**63 - 1, 2**53 + 3]
BIG_FLOATS = [float(v) if v is not None else np.nan for v in BIG]


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"a": pd.array(BIG, dtype="Int64")}),
        pd.DataFrame({"a": pd.array(BIG, dtype="int64[pyarrow]")}),
        pl.DataFrame({"a": BIG}),
        pa.table({"a": BIG}),
        np.array([[v] for v in BIG], dtype=object),
        [[v] for v in BIG],
    ],
    ids=["Int64", "int64[pyarrow]", "polars", "pyarrow", "object array", "list"],
)
def test_large_integers_round_as_float_does(X):
    np.testing.assert_array_equal(read_table(X, 1).values[:, 0], BIG_FLOATS)


NUMERIC = {
    "uint64": (pd.DataFrame({"a": np.array([2**64 - 1], dtype=np.uint64)}), [2.0**64]),
    "polars uint64": (pl.DataFrame({"a": [2**64 - 1]}, schema={"a": pl.UInt64}), [2.0**64]),
    "arrow uint64": (pa.table({"a": pa.array([2**64 - 1], pa.uint64())}), [2.0**64]),
    "polars int128": (pl.DataFrame({"a": [2**100, None]}, schema={"a": pl.Int128}), [2.0**100, np.nan]),
    "nullable boolean": (pd.DataFrame({"a": pd.array([True, None, False], dtype="boolean")}), [1, np.nan, 0]),
    "polars boolean": (pl.DataFrame({"a": [True, None, False]}), [1, np.nan, 0]),
    "arrow boolean": (pa.table({"a": [True, None, False]}), [1, np.nan, 0]),
    "nullable float": (pd.DataFrame({"a": pd.array([0.1, None], dtype="Float64")}), [0.1, np.nan]),
    "arrow float in pandas": (
        pd.DataFrame({"a": pd.array([0.1, None], dtype="double[pyarrow]")}),
        [0.1, np.nan],
    ),
    "float16": (pd.DataFrame({"a": np.array([0.1], dtype=np.float16)}), [float(np.float16(0.1))]),
    "arrow float16": (pa.table({"a": np.array([0.1], dtype=np.float16)}), [float(np.float16(0.1))]),
    "sparse column": (pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 2.0])}), [0, 2]),
    "decimal objects": (pd.DataFrame({"a": [Decimal("0.1"), None]}), [0.1, np.nan]),
    "polars decimal": (pl.DataFrame({"a": [Decimal("0.1"), None]}), [0.1, np.nan]),
    "arrow decimal": (
        pa.table({"a": [Decimal("1234567890123456789.123456789"), None]}),
        [float("1234567890123456789.123456789"), np.nan],
    ),
    "mixed objects": (
        pd.DataFrame(
            {"a": pd.Series([1, 2.5, True, None, pd.NA, np.float32(0.5), Fraction(1, 4)], dtype=object)}
        ),
        [1, 2.5, 1, np.nan, np.nan, 0.5, 0.25],
    ),
    "all null, pandas": (pd.DataFrame({"a": [None, None]}), [np.nan, np.nan]),
    "all null, polars": (pl.DataFrame({"a": [None, None]}), [np.nan, np.nan]),
    "all null, arrow": (pa.table({"a": pa.nulls(2)}), [np.nan, np.nan]),
    "all null text": (pl.DataFrame({"a": [None, None]}, schema={"a": pl.String}), [np.nan, np.nan]),
    "infinity is not judged here": (pl.DataFrame({"a": [np.inf, -np.inf]}), [np.inf, -np.inf]),
    "record batch": (pa.record_batch({"a": [1, None]}), [1, np.nan]),
    "chunked": (pa.concat_tables([pa.table({"a": [1]}), pa.table({"a": [2]})]), [1, 2]),
    "bool array": (np.array([[True], [False]]), [1, 0]),
    "float32 array": (np.array([[0.1]], dtype=np.float32), [float(np.float32(0.1))]),
    "Fortran order": (np.asfortranarray([[1.0], [2.0]]), [1, 2]),
    "masked array": (np.ma.array([[1], [2]], mask=[[False], [True]]), [1, np.nan]),
    "masked objects": (np.ma.array([[1.5], ["x"]], mask=[[0], [1]], dtype=object), [1.5, np.nan]),
    "object array": (np.array([[1], [None], [2.5]], dtype=object), [1, np.nan, 2.5]),
    "tuples": (((1,), (None,)), [1, np.nan]),
    "list of arrays": ([np.array([1.0]), np.array([2.0])], [1, 2]),
}


@pytest.mark.parametrize(("X", "expected"), NUMERIC.values(), ids=NUMERIC)
def test_numbers_of_any_kind(X, expected):
    table = read_table(X, 1)
    np.testing.assert_array_equal(table.values, np.array(expected, dtype=float)[:, None])
    assert table.values.dtype == np.float64


def test_reading_does_not_change_the_users_table():
    X = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [1.0, np.nan]})
    before = X.copy()
    read_table(X, 2, ("b", "a"))
    pd.testing.assert_frame_equal(X, before)


# ---- rows ----------------------------------------------------------------------------------------


def test_the_pandas_index_is_kept():
    index = pd.Index(["p", "q"], name="patient")
    assert read_table(pd.DataFrame({"a": [1, 2]}, index=index), 1).index.equals(index)


@pytest.mark.parametrize(
    "X", [np.ones((2, 1)), [[1], [2]], pl.DataFrame({"a": [1, 2]}), pa.table({"a": [1, 2]})]
)
def test_other_tables_have_no_index(X):
    assert read_table(X, 1).index is None


@pytest.mark.parametrize("X", [np.ones((2, 1)), [[1], [2]]])
def test_arrays_have_no_backend(X):
    assert read_table(X, 1).backend is None


@pytest.mark.parametrize(
    "X",
    [
        np.empty((0, 2)),
        np.empty((0, 2), dtype=object),
        pd.DataFrame(columns=["b", "a"]),
        pd.DataFrame({"b": pd.Series(dtype="category"), "a": pd.Series(dtype=str)}),
        pl.DataFrame({"b": [], "a": []}),
        pa.table({"b": pa.nulls(0), "a": pa.nulls(0)}),
    ],
)
def test_no_rows(X):
    assert read_table(X, 2, ("a", "b")).values.shape == (0, 2)


# ---- columns -------------------------------------------------------------------------------------


@each_library
def test_without_model_names_columns_go_by_position(backend):
    X = MAKERS[backend]({"b": [1], "a": [2]})
    np.testing.assert_array_equal(read_table(X, 2).values, [[1, 2]])


def test_arrays_go_by_position():
    np.testing.assert_array_equal(read_table([[1, 2]], 2, ("b", "a")).values, [[1, 2]])


def test_default_pandas_labels_go_by_position_unless_they_are_the_models_names():
    X = pd.DataFrame([[1.0, 2.0]])
    np.testing.assert_array_equal(read_table(X, 2, ("a", "b")).values, [[1, 2]])
    np.testing.assert_array_equal(read_table(X, 2, ("1", "0")).values, [[2, 1]])
    np.testing.assert_array_equal(read_table(X[[1, 0]], 2, ("0", "1")).values, [[1, 2]])


@each_library
def test_missing_columns_are_named(backend):
    X = MAKERS[backend]({"a": [1], "d": [2]})
    words = ["lacks 2 columns: 'b', 'c'", "has 'd' which", "X has 'a', 'd'", "needs 'a', 'b', 'c'"]
    refused(TableError, words, X, 3, ("a", "b", "c"))


@each_library
def test_extra_columns_are_named_and_the_target_suspected(backend):
    X = MAKERS[backend]({"y": [1], "a": [2], "b": [3]})
    words = ["1 column that the model does not know: 'y'", "drop the target", "needs 'a', 'b'"]
    refused(ShapeError, words, X, 2, ("a", "b"))


def test_default_labels_with_too_many_columns():
    refused(
        ShapeError, ["3 columns", "needs 2: 'a', 'b'", "target"], pd.DataFrame([[1, 2, 3]]), 2, ("a", "b")
    )


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.ones((5, 4)), ["4 columns", "needs 3", "drop the target column?"]),
        (pl.DataFrame({"a": [1], "b": [2]}), ["2 columns: 'a', 'b'", "needs 3"]),
        (np.ones((5, 1)), ["1 column;", "needs 3"]),
        (pd.DataFrame(), ["0 columns", "needs 3"]),
        (np.ones(3), ["1-dimensional, shape (3,)", "X[None, :]"]),
        ([1.0, 2.0, 3.0], ["1-dimensional, shape (3,)", "[row]"]),
        (np.ones((2, 3, 1)), ["3-dimensional, shape (2, 3, 1)"]),
        (pd.Series([1, 2, 3]), ["Series of 3 values", "X.to_frame()"]),
        (pl.Series([1, 2, 3]), ["Series of 3 values"]),
        ([], ["empty list", "np.empty((0, d))"]),
        (np.zeros(2, dtype=[("a", float), ("b", int)]), ["structured", "'a', 'b'", "DataFrame"]),
    ],
)
def test_wrong_shapes(X, words):
    refused(ShapeError, words, X, 3)


def test_long_lists_of_names_are_shortened():
    names = tuple(f"feature{j}" for j in range(300))
    with pytest.raises(TableError) as caught:
        read_table(pd.DataFrame({"x": [1]}), 300, names)
    assert "(300 in all)" in str(caught.value)
    assert len(str(caught.value)) < 500


REFUSED = {
    "text": (pd.DataFrame({"a": [1, 2], "b": ["u", "v"]}), ["column 'b'", "text", "'u' in row 0"]),
    "text after numbers": (
        pd.DataFrame({"a": [1, 2, 3], "b": pd.Series([1.5, None, "v"], dtype=object)}),
        ["column 'b'", "text", "'v' in row 2"],
    ),
    "polars text": (pl.DataFrame({"a": [1, 2], "b": [None, "v"]}), ["column 'b'", "text", "'v' in row 1"]),
    "arrow text": (pa.table({"a": [1], "b": ["v"]}), ["column 'b'", "text", "'v' in row 0"]),
    "numbers as text": (pd.DataFrame({"a": [1], "b": ["1.5"]}), ["column 'b'", "text", "'1.5'"]),
    "text array": (np.array([["1", "x"]]), ["column 0", "text", "'1'"]),
    "text in a list": ([[1.5, 2], [2.5, "x"]], ["column 1", "text", "'x' in row 1"]),
    "bytes": (pa.table({"a": [1], "b": [b"v"]}), ["column 'b'", "text", "b'v'"]),
    "pandas category": (
        pd.DataFrame({"a": [1, 2], "b": pd.Categorical(["u", "v"])}),
        ["column 'b'", "categorical", "numbers are needed"],
    ),
    "numeric category": (pd.DataFrame({"a": [1], "b": pd.Categorical([7])}), ["column 'b'", "categorical"]),
    "polars category": (
        pl.DataFrame({"a": [1], "b": ["u"]}, schema={"a": pl.Int8, "b": pl.Categorical}),
        ["column 'b'", "categorical"],
    ),
    "polars enum": (
        pl.DataFrame({"a": [1], "b": ["u"]}, schema={"a": pl.Int8, "b": pl.Enum(["u"])}),
        ["column 'b'", "categorical"],
    ),
    "arrow dictionary": (
        pa.table({"a": [1], "b": pa.array(["u"]).dictionary_encode()}),
        ["column 'b'", "categorical"],
    ),
    "datetime": (
        pd.DataFrame({"a": [1], "b": pd.to_datetime(["2024-02-01"])}),
        ["column 'b'", "Datetime", "2024", "expected numbers"],
    ),
    "date": (pl.DataFrame({"a": [1], "b": [datetime.date(2024, 2, 1)]}), ["column 'b'", "Date", "2024"]),
    "duration": (pl.DataFrame({"a": [1], "b": [datetime.timedelta(1)]}), ["column 'b'", "Duration"]),
    "lists": (pl.DataFrame({"a": [1], "b": [[1, 2]]}), ["column 'b'", "List", "[1, 2]"]),
    "list objects": (pd.DataFrame({"a": [1], "b": [[1, 2]]}), ["column 'b'", "list", "[1, 2]"]),
    "structs": (pl.DataFrame({"a": [1], "b": [{"u": 1}]}), ["column 'b'", "Struct"]),
    "complex": (pd.DataFrame({"a": [1], "b": [1j]}), ["column 'b'", "complex", "1j"]),
    "complex array": (np.array([[1j, 2]]), ["complex128", "expected numbers"]),
    "datetime array": (np.array([["2024", "2025"]], dtype="datetime64[D]"), ["datetime64[D]"]),
    "timedelta objects": (
        np.array([[1, np.timedelta64(1, "ns")]], dtype=object),
        ["column 1", "timedelta64"],
    ),
    "an object": (np.array([[1, object()]], dtype=object), ["column 1", "a object"]),
    "too large": (np.array([[1, 10**400]], dtype=object), ["column 1", "too large"]),
    "sparse matrix": (sparse.csr_matrix(np.eye(2)), ["sparse csr_matrix", "toarray()"]),
    "sparse array": (sparse.coo_array(np.eye(2)), ["sparse coo_array", "toarray()"]),
    "lazy frame": (pl.LazyFrame({"a": [1], "b": [2]}), ["lazy LazyFrame", "X.collect()"]),
    "repeated names": (pd.DataFrame([[1, 2]], columns=["a", "a"]), ["more than one column called 'a'"]),
    "repeated arrow names": (
        pa.table([pa.array([1])] * 2, names=["a", "a"]),
        ["more than one column called 'a'"],
    ),
    "1 and '1'": (pd.DataFrame([[1, 2]], columns=[1, "1"]), ["more than one column called '1'"]),
    "ragged": ([[1, 2], [3]], ["differ in length"]),
    "a path": ("data.csv", ["is a str", "expected a NumPy array"]),
    "a dict": ({"a": [1], "b": [2]}, ["is a dict", "expected a NumPy array"]),
    "nothing": (None, ["is a NoneType", "expected a NumPy array"]),
    "a number": (3.0, ["is a float", "expected a NumPy array"]),
}


@pytest.mark.parametrize(("X", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_a_table_of_numbers_is_refused(X, words):
    refused(TableError, words, X, 2)


def test_the_row_of_the_first_offence_is_that_of_the_table():
    X = pd.DataFrame({"a": pd.Series([1, "x", "y"], dtype=object, index=[10, 20, 30])})
    refused(TableError, ["'x' in row 1"], X, 1)


def test_columns_are_converted_only_when_asked_for():
    columns = open_columns(pd.DataFrame({"a": [1.0], "label": ["no"]}))
    assert columns.column(0).tolist() == [1.0]
    with pytest.raises(TableError, match="'label'"):
        columns.column(1)


# ---- frames out ----------------------------------------------------------------------------------

COLUMNS = {
    "row": ["p", "q"],
    "place": np.array([1, 2]),
    "feature": np.array(["a", "b"]),
    "score": [0.5, np.nan],
}


@each_library
def test_frames_of_each_library(backend):
    frame = to_native(COLUMNS, backend)
    assert type(frame) is {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}[backend]
    names = frame.column_names if backend == "pyarrow" else list(frame.columns)
    assert names == list(COLUMNS)
    assert np.asarray(frame["place"]).tolist() == [1, 2]
    assert list(np.asarray(frame["feature"])) == ["a", "b"]


# A library that was imported once cannot be hidden again, so these ask a new interpreter.
WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from predgap.errors import DependencyError
from predgap._inputs.tables import to_native
try:
    print(type(to_native({{"a": [1]}}, {backend!r})).__module__.split(".")[0])
except DependencyError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("absent", "backend", "printed"),
    [
        ([], None, "pandas"),
        (["pandas"], None, "polars"),
        (["pandas", "polars"], None, "pyarrow"),
        (
            ["pandas", "polars", "pyarrow"],
            None,
            "needs pandas or polars or pyarrow, not installed; try: pip install",
        ),
        (["polars"], "polars", "needs polars, not installed; try: pip install polars"),
    ],
)
def test_a_library_that_is_not_installed(absent, backend, printed):
    code = WITHOUT.format(absent=absent, backend=backend)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed in done.stdout


def test_importing_loads_no_frame_library():
    code = (
        "import sys, predgap.noise, predgap._inputs.tables, predgap._inputs.subsets, predgap.ranking\n"
        "heavy = {'pandas', 'polars', 'pyarrow', 'shap', 'scipy.stats', 'scipy.special'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_listing_shows_the_first_few():
    assert format_items([]) == ""
    assert format_items(["a"] * 9, limit=2) == "'a', 'a', ... (9 in all)"


# ---- labels of categories ------------------------------------------------------------------------

TENS = of_labels([10, 20, 30])
COLOURS = of_labels(["red", "green"])


@each_library
@pytest.mark.parametrize(
    ("levels", "values", "words"),
    [
        (TENS, ["10", "20"], ["column 'k' holds '10' (str)", "are numbers: 10, 20, 30", "astype(int)"]),
        (TENS, ["40"], ["column 'k' holds '40' (str)"]),
        (
            COLOURS,
            [0, 1],
            ["column 'k' holds 0 (int)", "are text: 'red', 'green'", "these labels, no codes"],
        ),
    ],
)
def test_labels_of_another_kind_are_refused(backend, levels, values, words):
    refused(TableError, words, MAKERS[backend]({"k": values}), 1, ("k",), [levels])


def test_text_beside_known_numbers_is_refused():
    column = pd.Series([10, "20"], dtype=object)
    refused(TableError, ["column 'k' holds '20' (str)"], pd.DataFrame({"k": column}), 1, ("k",), [TENS])
    refused(TableError, ["column 0 holds '20' (str)"], [["20"]], 1, None, [TENS])
    mixed = of_labels([10, "20"])
    codes = read_table(pd.DataFrame({"k": column}), 1, ("k",), [mixed]).values
    assert codes.ravel().tolist() == [0, 1]


@each_library
def test_an_unseen_number_is_unseen_whatever_else_is_in_the_batch(backend):
    alone, beside = (
        read_table(MAKERS[backend]({"k": values}), 1, ("k",), [TENS]).values.ravel().tolist()
        for values in ([99], [99, 10])
    )
    assert (alone, beside) == ([UNSEEN], [UNSEEN, 0.0])


@each_library
def test_codes_in_a_frame_of_labels_are_warned_of(backend):
    with pytest.warns(UserWarning, match=r"column 'k' holds 0, 2, none of the model's categories 10, 20, 30"):
        read_table(MAKERS[backend]({"k": [2, 0, 2]}), 1, ("k",), [TENS])
    without_labels = Categories([10, 20])
    assert read_table(MAKERS[backend]({"k": [0]}), 1, ("k",), [without_labels]).values.tolist() == [[UNSEEN]]


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("library", MAKERS)
def test_wide_frames_are_read_column_by_column(library, mixed):
    d = 20_000  # to look at all names for each column would take minutes
    names = [f"c{j}" for j in range(d)]
    expected = np.arange(2.0 * d).reshape(2, d) + (0.0 if mixed else 0.5)
    columns = {name: expected[:, j] for j, name in enumerate(names)}
    if mixed:
        columns["c7"] = expected[:, 7].astype(np.int64)
    table = read_table(MAKERS[library](columns), d, names[::-1])
    np.testing.assert_array_equal(table.values, expected[:, ::-1])
    assert table.values.flags.writeable
