"""Converts the cells of a column, which may be any objects, to numbers or codes of categories."""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from predgap._inputs.categories import UNSEEN, Categories, check_unseen, is_missing, warn_of_unknown
from predgap._text import shown
from predgap._typing import FloatArray
from predgap.errors import TableError


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
    warn_of_unknown(labels, codes, levels, what)
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
