"""Puts new values into a table: an array stays an array, and a frame a frame of the same library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import is_missing
from predgap._inputs.frames import to_native
from predgap._inputs.tables import Columns
from predgap.errors import TableError


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
