"""Finds the raw number from which on a transformed column is beyond a threshold, to the last float."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from predgap._typing import BoolArray, FloatArray, IndexArray
from predgap.errors import TableError
from predgap.loaders.pipelines.lineage import NotRaw
from predgap.loaders.pipelines.probes import Probe

__all__ = ["Asking", "Question", "first_on_the_other_side"]

_ENDS: Final = (float(np.finfo(np.float64).max), 1e300, 1e100, 1e30)  # some steps refuse what overflows
_BRACKETS: Final = (1 << 10, 1 << 34)  # floats around a guess: for models of float64, of float32
_MOST_AT_ONCE: Final = 15  # points between two ends: a table of many rows takes hardly longer than of one
_ROWS_AT_ONCE: Final = 20_000


class Question(NamedTuple):
    """From which number of a raw column on is a transformed column at or above a threshold?"""

    raw: int
    column: int
    threshold: float


class Asking:
    """Many questions at once, ordered by raw column."""

    def __init__(self, probe: Probe, zero_is_missing: bool, questions: list[Question]) -> None:
        self._probe, self._zero_is_missing = probe, zero_is_missing
        self._raw, self._column, self.thresholds = (np.array(field) for field in zip(*questions, strict=True))
        starts = np.flatnonzero(np.diff(self._raw, prepend=-1))
        self._row = np.arange(len(questions)) - np.repeat(starts, np.diff([*starts, len(questions)]))
        self._n = int(self._row.max()) + 1

    def places(self, column: int) -> IndexArray:
        """Which of the questions are about this transformed column."""
        found: IndexArray = np.flatnonzero(self._column == column)
        return found

    def cuts(self) -> tuple[FloatArray, BoolArray]:
        """The answers, infinite where a column never crosses the threshold; and whether columns rise."""
        low, high = self._ends()
        at_low, at_high, at_0, at_1 = map(self._values, (low, high, 0.0 * low, 0.0 * low + 1.0))
        with np.errstate(all="ignore"):
            guess = np.nan_to_num((self.thresholds - at_0) / (at_1 - at_0), nan=0.0)
        found = first_on_the_other_side(lambda x: self._values(x) < self.thresholds, low, high, guess)
        rising = at_low <= at_high
        always = np.where((at_low < self.thresholds) == rising, np.inf, -np.inf)
        return np.where(np.isnan(found), always, found), rising

    def _values(self, x: FloatArray) -> FloatArray:
        """The transformed column of each question at one raw number for each, (n,), or several, (m, n)."""
        blocks = np.atleast_2d(x)
        columns = {}
        for q in np.unique(self._raw).tolist():
            filled = np.zeros((len(blocks), self._n))
            filled[:, self._row[self._raw == q]] = blocks[:, self._raw == q]
            columns[q] = filled.ravel()
        made = self._probe.transformed(columns, len(blocks) * self._n)
        found: FloatArray = made.reshape(len(blocks), self._n, -1)[:, self._row, self._column].reshape(
            x.shape
        )
        if self._zero_is_missing:
            found = np.where(np.isnan(found), 0.0, found)
        if np.isnan(found).any():
            raise NotRaw("its steps make missing values of numbers")
        return found

    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest number that the steps take."""
        for end in _ENDS:
            low, high = np.full(len(self._raw), -end), np.full(len(self._raw), end)
            try:
                self._values(low)
                self._values(high)
            except TableError as error:
                reason = error
            else:
                return low, high
        raise NotRaw(str(reason))


def first_on_the_other_side(
    side: Callable[[FloatArray], BoolArray], low: FloatArray, high: FloatArray, guess: FloatArray
) -> FloatArray:
    """The smallest float64 in (low, high] at which `side` differs from its value at low; nan if none does.

    `side` takes one number for each of n questions, (n,), or several, (m, n), and changes at most once
    between low and high. So the answer is exact, whatever `guess` is: a good guess only makes it faster.

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
    for reach in _BRACKETS:
        lower, upper = np.maximum(near, first + reach) - reach, np.minimum(near, last - reach) + reach
        fits = open_ & (side(_float(lower)) == at_low) & (side(_float(upper)) != at_low)
        a, b = np.where(fits, lower, a), np.where(fits, upper, b)
        open_ &= ~fits
    b = np.where(never, a, b)
    parts = np.uint64(1 + max(1, min(_MOST_AT_ONCE, _ROWS_AT_ONCE // max(1, len(a)))))
    at = np.arange(1, int(parts), dtype=np.uint64)[:, None]
    while (width := b.astype(np.uint64) - a.astype(np.uint64)).max(initial=0) > 1:  # exact, modulo 2^64
        offsets = width // parts * at + width % parts * at // parts
        points = (a.astype(np.uint64) + offsets).astype(np.int64)
        n_before = (side(_float(points)) == at_low).sum(axis=0)
        ends = np.concatenate([a[None], points, b[None]])
        a, b = (np.take_along_axis(ends, (n_before + k)[None], axis=0)[0] for k in (0, 1))
    return np.where(never, np.nan, _float(b))


def _order(x: FloatArray) -> NDArray[np.int64]:
    """Whole numbers in the order of the floats, one apart for neighbours; the same for 0.0 and -0.0."""
    bits = np.ascontiguousarray(x, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, -(bits & np.iinfo(np.int64).max), bits)


def _float(order: NDArray[np.int64]) -> FloatArray:
    """The reverse of `_order`."""
    return np.where(order < 0, -np.abs(order).view(np.float64), np.abs(order).view(np.float64))
