"""Matches the rows of two tables by their labels, the index of a pandas frame."""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np

from predgap._text import format_items
from predgap._typing import IndexArray
from predgap.errors import PredgapError

_SAME_ORDER = "if both are in the same order, pass an array, which has no index"
_SAME_LABELS = "write the labels of X into the file of the ranking, or use a table without labels"


class WrittenLabels(tuple[str, ...]):
    """Row labels from a file that does not tell their types: "7" may be a number or text, as X has it."""

    __slots__ = ()


def matching_rows(theirs: Any, mine: Any, what: str, error: type[PredgapError]) -> IndexArray | None:
    """For each row of X, the row of another table that has the same label; None: rows are in the same order.

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
    for kind, read in ((bool, None), (numbers.Real, _number), (datetime, datetime.fromisoformat)):
        if all(isinstance(label, kind) for label in labels):
            return read
    return date.fromisoformat if all(isinstance(label, date) for label in labels) else None


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _equal(theirs: Any, mine: Any) -> bool:
    if hasattr(theirs, "equals") and hasattr(mine, "equals"):
        return bool(theirs.equals(mine))
    return list(theirs) == list(mine)


def _is_default(index: Any) -> bool:
    """Is it pandas' RangeIndex from 0, which a frame has if none was set?"""
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
