"""Asks the steps of a pipeline what they make of values of raw columns, with their own arithmetic."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.tables import to_native
from predgap._model.ensemble import Ensemble
from predgap._typing import BoolArray, FloatArray
from predgap.errors import PredgapError
from predgap.loaders.pipelines.lineage import NotRaw
from predgap.loaders.pipelines.steps import Preparation

__all__ = ["Probe", "first_on_the_other_side"]

_CELLS: Final = 1 << 22  # of a transformed table at a time
_BRACKETS: Final = (1 << 10, 1 << 34)  # floats around a guess: for models of float64, of float32


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """Makes raw tables in which most columns have a value that the steps accept, and transforms them."""

    steps: Preparation
    old: Ensemble  # of the transformed columns
    names: tuple[str, ...] | None  # of the raw columns; None if the pipeline was fitted without names
    base: tuple[Any, ...]  # one value per raw column

    def table(self, columns: Mapping[int, Any], n: int) -> Any:
        """A raw table of n rows with these columns; the others have their base value."""
        filled = [_array(columns.get(q, [value] * n)) for q, value in enumerate(self.base)]
        if self.names is not None:
            return _frame(dict(zip(self.names, filled, strict=True)))
        numbers = all(column.dtype.kind in "biuf" for column in filled)
        out = np.empty((n, len(filled)), dtype=np.float64 if numbers else object)
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


def _array(values: Any) -> NDArray[Any]:
    """A column: numbers as such, anything else as objects."""
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


# ---- bisection over floats -----------------------------------------------------------------------


def first_on_the_other_side(
    side: Callable[[FloatArray], BoolArray], low: FloatArray, high: FloatArray, guess: FloatArray
) -> FloatArray:
    """The smallest float64 in (low, high] at which `side` differs from its value at low; nan if none does.

    `side` takes one number for each of n questions and changes at most once between low and high. So the
    answer is exact, whatever `guess` is: a good guess only makes it faster.

    Examples
    --------
    >>> ends = np.array([-10.0]), np.array([10.0])
    >>> first_on_the_other_side(lambda x: 3.0 * x < 1.0, *ends, np.array([0.3]))
    array([0.33333333])
    """
    at_low = side(low)
    never = side(high) == at_low
    a, b, near = _order(low), _order(high), np.clip(_order(guess), _order(low), _order(high))
    first, last = a, b
    open_ = ~never
    for width in _BRACKETS:
        lower, upper = np.maximum(near, first + width) - width, np.minimum(near, last - width) + width
        fits = open_ & (side(_float(lower)) == at_low) & (side(_float(upper)) != at_low)
        a, b = np.where(fits, lower, a), np.where(fits, upper, b)
        open_ &= ~fits
    b = np.where(never, a, b)
    while True:
        middle = (a >> 1) + (b >> 1) + (a & b & 1)
        if (middle == a).all():
            break
        same = side(_float(middle)) == at_low
        a, b = np.where(same, middle, a), np.where(same, b, np.where(middle == a, b, middle))
    return np.where(never, np.nan, _float(b))


def _order(x: FloatArray) -> NDArray[np.int64]:
    """Whole numbers in the order of the floats, one apart for neighbours; the same for 0.0 and -0.0."""
    bits = np.ascontiguousarray(x, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, -(bits & np.iinfo(np.int64).max), bits)


def _float(order: NDArray[np.int64]) -> FloatArray:
    """The reverse of `_order`."""
    return np.where(order < 0, -np.abs(order).view(np.float64), np.abs(order).view(np.float64))
