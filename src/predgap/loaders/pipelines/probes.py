"""Asks the steps of a pipeline what they make of values of raw columns, with their own arithmetic."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.frames import to_native
from predgap._model.ensemble import Ensemble
from predgap._typing import FloatArray
from predgap.errors import PredgapError
from predgap.loaders.pipelines.lineage import NotRaw
from predgap.loaders.pipelines.steps import Preparation

__all__ = ["Probe"]

_CELLS: Final = 1 << 22  # of a transformed table at a time


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """Makes raw tables in which most columns have a value that the steps accept, and transforms them."""

    steps: Preparation
    old: Ensemble  # of the transformed columns
    names: tuple[str, ...] | None  # of the raw columns; None if the pipeline was fitted without names
    base: tuple[Any, ...]  # one value per raw column

    def table(self, columns: Mapping[int, Any], n: int) -> Any:
        """A raw table of n rows with these columns; the others have their base value."""
        filled = [_array(columns.get(q, [value] * n), value) for q, value in enumerate(self.base)]
        if self.names is not None:
            return _frame(dict(zip(self.names, filled, strict=True)))
        plain = all(column.dtype.kind in "biuf" for column in filled)
        out = np.empty((n, len(filled)), dtype=np.float64 if plain else object)
        for q, column in enumerate(filled):
            out[:, q] = column
        return out

    def transformed(self, columns: Mapping[int, Any], n: int) -> FloatArray:
        """What the steps make of it, (n, d) with one column per feature of the model."""
        step = max(1, _CELLS // max(1, self.old.n_features))
        parts = []
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for start in range(0, n, step):
                stop = min(n, start + step)
                part = {q: column[start:stop] for q, column in columns.items()}
                parts.append(self.steps.table(self.table(part, stop - start), self.old).values)
        found = np.concatenate(parts) if parts else np.empty((0, self.old.n_features))
        if len(found) != n:
            raise NotRaw(f"its steps turn {n} rows into {len(found)}")
        return found

    def try_value(self, q: int, value: Any) -> FloatArray | None:
        """What the steps make of one value of column q, (d,); None if they refuse it."""
        try:
            found: FloatArray = self.transformed({q: [value]}, 1)[0]
        except PredgapError:
            return None
        return found


def _array(values: Any, like: Any) -> NDArray[Any]:
    """A column of the kind of its base value: numbers, or objects."""
    if isinstance(like, numbers.Real):
        array = np.asarray(values)
        if array.dtype.kind in "biuf":
            return array
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def _frame(columns: Mapping[str, NDArray[Any]]) -> Any:
    try:
        import pandas as pd
    except ImportError:
        return to_native({name: column.tolist() for name, column in columns.items()})
    # an object column stays one, so that None and NaN stay what they are
    return pd.DataFrame({name: pd.Series(column, dtype=column.dtype) for name, column in columns.items()})
