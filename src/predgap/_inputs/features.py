"""The values of features as people see them: numbers, or the labels of categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import is_missing
from predgap._inputs.row_labels import matching_rows
from predgap._inputs.tables import Columns, column_order, open_columns
from predgap._text import count
from predgap.errors import ShapeError, TableError


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
