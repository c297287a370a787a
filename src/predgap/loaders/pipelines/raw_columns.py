"""Explains a pipeline in its raw columns: its ensemble is rewritten, and each row is checked.

The steps are asked what they make of raw values. Of a category they are asked for each level, of a number for
the first float64 that they send across a threshold. The result holds for float64 (and whole) numbers. Rows of
another type, such as float32, take another arithmetic through the steps: `RawColumns.table` compares where
each value goes, and moves one that lies within rounding of a threshold to the side that the steps chose.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import Categories
from predgap._inputs.subsets import match_names
from predgap._inputs.tables import Columns, Table, by_name, open_columns, to_native
from predgap._model.ensemble import Ensemble, used_features
from predgap._model.rewriting import Levels, Line, rewritten
from predgap._text import names_or_default
from predgap._typing import BoolArray, FloatArray, IndexArray
from predgap.errors import PredgapError, TableError
from predgap.loaders.pipelines.steps import NotRaw, Preparation, StepColumn, lineage
from predgap.loaders.translation import rows_at_thresholds

__all__ = ["RawColumns", "first_on_the_other_side", "in_raw_columns"]

_LARGEST_CODE: Final = 2**31 - 1
_LARGE: Final = 1e30  # well within single precision, whatever a step multiplies by
_ROUNDING: Final = 2.0**-20  # how far a value may be moved, relative to it and to the thresholds


@dataclass(frozen=True, slots=True, eq=False)
class _RawFeature:
    """A raw column that the model uses, and the transformed columns that are made of it."""

    raw: int
    levels: Categories | None  # None for a number
    columns: dict[int, Levels | Line]  # by transformed column
    absent: dict[int, tuple[float, float]]  # where numbers become 0, if zeros are missing to the model


@dataclass(frozen=True, slots=True, eq=False)
class RawColumns:
    """Reads tables for an ensemble that was rewritten in the raw columns of a pipeline."""

    steps: Preparation
    old: Ensemble  # of the transformed columns
    names: tuple[str, ...] | None  # of the raw columns; None if the pipeline was fitted without names
    features: tuple[_RawFeature, ...]
    feature_space: None = None  # the features are the columns of X

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """The names of the raw columns."""
        return self.names

    def named(self, names: tuple[str, ...] | None) -> RawColumns:
        """The same, where the raw columns are called so, and are put into this order for the steps."""
        return replace(self, names=names, steps=self.steps.named(names))

    def table(self, X: Any, ensemble: Ensemble) -> Table:
        """X with one column per raw column of the pipeline. Columns that the model does not use are NaN.

        TableError if the steps refuse X, or send a value where the ensemble cannot send it.
        """
        found = self.steps.table(X, self.old)
        seen = self.old.cast(found.values)
        columns = open_columns(X)
        at = self.places(columns)
        values = np.full((len(seen), ensemble.n_features), np.nan)
        for feature in self.features:
            q, levels = feature.raw, feature.levels
            if levels is None:
                values[:, q] = self._numbers(feature, columns.column(at[q]), found.values, seen)
            else:
                values[:, q] = self._codes(feature, columns.codes(at[q], levels), seen)
        own = None
        if columns.names is not None and self.names is not None and self.names == ensemble.feature_names:
            own = tuple(columns.names[at[q]] if q in at else name for q, name in enumerate(self.names))
        return Table(values, columns.index, columns.backend, own)

    def own_values(self, X: Any, ensemble: Ensemble) -> FloatArray:
        """X after the steps, (n, number of transformed columns)."""
        return self.steps.table(X, self.old).values

    def own_features(self, ensemble: Ensemble) -> Sequence[Sequence[int]]:
        """The transformed columns that are made of each raw column, and that the model uses."""
        made = {feature.raw: tuple(feature.columns) for feature in self.features}
        return [made.get(q, ()) for q in range(ensemble.n_features)]

    def places(self, columns: Columns) -> dict[int, int]:
        """The column of X for each raw column; by name as the steps do it, else by position."""
        names = columns.names
        if names is None or self.names is None or not by_name(names, columns.numbered, self.names):
            return {q: q for q in range(columns.n_columns)}
        found = match_names(names, self.names, TableError)
        return {found[name]: j for j, name in enumerate(names) if name in found}

    def _numbers(self, feature: _RawFeature, x: FloatArray, old: FloatArray, seen: FloatArray) -> FloatArray:
        """A raw column of numbers that go where the steps send them; `old` is the transformed table, `seen`
        the same as the model casts it."""
        gone = np.isnan(x)
        low, high = np.full(len(x), -np.inf), np.full(len(x), np.inf)
        lost = np.zeros(len(x), dtype=np.bool_)
        reach = np.abs(x)
        for j, line in feature.columns.items():
            assert isinstance(line, Line)
            y = old[:, j]
            lost |= gone & ~_same_place(line, seen[:, j])
            start, stop = feature.absent.get(j, (np.nan, np.nan))
            absent = ~gone & np.isnan(y)
            lost |= absent & np.isnan(start)
            before, after = _between(line, np.where(absent, 0.0, y))
            in_hole = ~absent & (start <= x) & (x < stop)
            beyond = (y > 0) == line.rising
            low = np.maximum(low, np.where(absent, start, np.where(in_hole & beyond, stop, before)))
            high = np.minimum(high, np.where(absent, stop, np.where(in_hole & ~beyond, start, after)))
            finite = line.cuts[np.isfinite(line.cuts)]
            reach = np.maximum(reach, np.abs(finite).max(initial=0.0))
        inside = (low <= x) & ((x < high) | (high == np.inf))
        moved = np.where(gone | inside, x, np.where(x < low, low, np.nextafter(high, -np.inf)))
        with np.errstate(invalid="ignore"):
            far = ~gone & ~inside & ~((low < high) & (np.abs(moved - x) <= _ROUNDING * reach))
        self._refuse(feature, lost | far)
        return moved

    def _codes(self, feature: _RawFeature, codes: FloatArray, old: FloatArray) -> FloatArray:
        """A raw column of codes; TableError if the steps make something else of a category."""
        assert feature.levels is not None
        place = np.where(np.isnan(codes), len(feature.levels) + 1, feature.levels.levels_of(codes))
        lost = np.zeros(len(codes), dtype=np.bool_)
        for j, column in feature.columns.items():
            assert isinstance(column, Levels)
            unseen = np.nan if column.unseen is None else column.unseen
            expected = np.array([*column.values, unseen, column.missing])[np.where(place < 0, -2, place)]
            lost |= ~((expected == old[:, j]) | (np.isnan(expected) & np.isnan(old[:, j])))
        self._refuse(feature, lost)
        return codes

    def _refuse(self, feature: _RawFeature, lost: BoolArray) -> None:
        if lost.any():
            name = names_or_default(feature.raw + 1, self.names and self.names[: feature.raw + 1])[-1]
            kind = (
                "a number in float64" if feature.levels is None else "a category of the Pipeline's encoders"
            )
            raise TableError(
                f"row {int(np.flatnonzero(lost)[0])} of X: the steps of the Pipeline make something else of "
                f"column {name!r} than of {kind}; pass the table as the Pipeline was fitted on it, with "
                "numbers as float64 and categories as their labels"
            )


def in_raw_columns(steps: Preparation, old: Ensemble) -> tuple[Ensemble, RawColumns]:
    """The ensemble of a pipeline's model, rewritten in the raw columns of the pipeline.

    Parameters
    ----------
    steps : Preparation
        The steps of the pipeline before its model.
    old : Ensemble
        The model, whose features are the columns after these steps.

    Returns
    -------
    Ensemble, RawColumns
        The new ensemble, and what reads tables for it.

    Raises
    ------
    NotRaw
        If that is not possible; its text is the reason.
    """
    first = steps.steps[0][1]
    n_raw = getattr(first, "n_features_in_", None)
    if n_raw is None:
        raise NotRaw(f"{type(first).__name__} does not tell its number of columns; is it fitted?")
    given = getattr(first, "feature_names_in_", None)
    names = None if given is None else tuple(map(str, given))
    try:
        made = lineage([step for _, step in steps.steps], n_raw)
        if len(made) != old.n_features:
            raise NotRaw(f"its steps make {len(made)} columns, the model has {old.n_features}")
        return _Rewriting(steps, old, names, n_raw, made).result()
    except (PredgapError, AttributeError) as error:  # AttributeError: a step that is not fitted
        raise NotRaw(str(error)) from error


class _Rewriting:
    def __init__(
        self,
        steps: Preparation,
        old: Ensemble,
        names: tuple[str, ...] | None,
        n_raw: int,
        made: list[StepColumn],
    ) -> None:
        self._old, self._names, self._made, self._n_raw = old, names, made, n_raw
        self._steps = steps
        self._native = old.categorical()
        self._used: dict[int, list[int]] = {}  # by raw column
        for j in used_features(old):
            self._used.setdefault(made[j].raw, []).append(j)
        self._probe = Probe(steps, old, names, tuple(self._base(q) for q in range(n_raw)))
        self._zero_is_missing = steps.takes_zero_for_missing(self._probe.table({}, 1))
        self._at_missing = self._ask_for_missing(sorted(self._used))  # transformed rows; None: refused

    def result(self) -> tuple[Ensemble, RawColumns]:
        numbers = {q: own for q, own in self._used.items() if not self._is_categorical(q, own)}
        lines = self._lines(numbers)
        features = [
            lines[q] if q in numbers else self._category(q, own) for q, own in sorted(self._used.items())
        ]
        columns: list[Levels | Line | None] = [None] * self._old.n_features
        categories: list[Categories | None] = [None] * self._n_raw
        for feature in features:
            categories[feature.raw] = feature.levels
            for j, column in feature.columns.items():
                columns[j] = column
        endless = any(isinstance(c, Line) and np.isinf(c.cuts).any() for c in columns)
        new = rewritten(
            self._old,
            columns,
            n_features=self._n_raw,
            categories=categories,
            feature_names=self._names,
            missing=np.nan,
            missing_range=(np.nan, np.nan),
            unseen_is_missing=self._old.unseen_is_missing and any(map(self._is_native, self._used.values())),
            largest=np.inf if self._old.accepts_infinity and not endless else np.finfo(np.float64).max,
            source=f"{self._old.source} in a Pipeline",
        )
        reader = RawColumns(self._steps, self._old, self._names, tuple(features))
        self._check(new, reader)
        return new, reader

    def _name(self, q: int) -> str:
        return names_or_default(self._n_raw, self._names)[q]

    # ---- categories ----

    def _is_native(self, own: list[int]) -> bool:
        """True if the model itself splits on the categories of a raw column."""
        return any(j in self._native and self._made[j].labels is None for j in own)

    def _is_categorical(self, q: int, own: list[int]) -> bool:
        encoded = {self._made[j].labels is not None for j in own}
        native = {j in self._native and self._made[j].labels is None for j in own}
        if len(encoded) > 1 or len(native) > 1:
            raise NotRaw(f"column {self._name(q)!r} is used both as a number and as a category")
        if True in native and (len(own) > 1 or not self._made[own[0]].same):
            raise NotRaw(f"column {self._name(q)!r} is changed before the model takes it for a category")
        return encoded == {True} or native == {True}

    def _labels(self, q: int) -> tuple[Any, ...]:
        """The raw values that encoders of column q know."""
        labels: dict[Any, None] = {}
        for column in self._made:
            if column.raw == q and column.labels is not None:
                labels |= dict.fromkeys(column.labels)
        return tuple(labels)

    def _base(self, q: int) -> Any:
        """A value of column q that all steps accept."""
        native = [
            self._native[j].labels for j, c in enumerate(self._made) if c.raw == q and j in self._native
        ]
        encoded = any(c.raw == q and c.labels is not None for c in self._made)
        known = self._labels(q) if encoded else (native[0] or ()) if native else (0.0,)
        return known[0] if known else float("nan")

    def _missing(self, q: int) -> Any:
        """A missing value of column q, as its encoders know it."""
        return None if any(c.raw == q and c.none_is_missing for c in self._made) else float("nan")

    def _ask_for_missing(self, asked: list[int]) -> dict[int, FloatArray | None]:
        """The row (d,) that the model sees where each column is missing; None if the steps refuse it."""
        try:
            row = self._probe.transformed({q: [self._missing(q)] for q in asked}, 1)
        except PredgapError:
            half = len(asked) // 2
            if half == 0:
                return dict.fromkeys(asked)
            return self._ask_for_missing(asked[:half]) | self._ask_for_missing(asked[half:])
        return dict.fromkeys(asked, self._old.cast(row)[0])

    def _category(self, q: int, own: list[int]) -> _RawFeature:
        probe, native = self._probe, self._is_native(own)
        levels = (
            self._native[own[0]] if native else _levels(self._labels(q), self._names is None, self._name(q))
        )
        labels = list(levels.labels or ())
        at_levels = self._old.cast(probe.transformed({q: labels}, len(labels)))
        strange = probe.try_value(q, _other_than(labels))
        missing = self._at_missing[q]
        unseen = None if strange is None else self._old.cast(strange[None])[0]
        if native:
            unseen = None if levels.closed or self._old.unseen_is_missing else unseen
        elif unseen is None:
            levels = Categories(levels.codes, levels.labels, closed=True)
        elif self._old.unseen_is_missing and any(map(self._is_native, self._used.values())):
            raise NotRaw(f"unknown categories of {self._name(q)!r} are no missing values, as those of others")
        return _RawFeature(q, levels, {
            j: Levels(
                q,
                levels.codes,
                at_levels[:, j],
                None if unseen is None else float(unseen[j]),
                np.nan if missing is None else float(missing[j]),
            )
            for j in own
        }, {})  # fmt: skip

    # ---- numbers ----

    def _lines(self, numbers: dict[int, list[int]]) -> dict[int, _RawFeature]:
        """The raw columns of numbers, with what their transformed columns are."""
        questions = [
            SplitQuestion(q, j, v) for q, own in numbers.items() for j in own for v in self._thresholds(j)
        ]
        if not questions:
            return {}
        ask = Asking(self._probe, self._zero_is_missing, questions)
        cuts, rising = ask.cuts()
        found: dict[int, _RawFeature] = {}
        for q, own in numbers.items():
            missing = self._at_missing[q]
            found[q] = _RawFeature(q, None, {}, {})
            for j in own:
                mine = ask.places(j)
                thresholds = ask.thresholds[mine]
                holes = self._holes(thresholds, cuts[mine], self._around_missing())
                absent = self._holes(thresholds, cuts[mine], self._around_zero())
                found[q].absent.update((j, hole) for hole in absent)
                at_missing = np.nan if missing is None else float(missing[j])
                found[q].columns[j] = Line(
                    q, thresholds, cuts[mine], bool(rising[mine[0]]), (*holes, *absent), at_missing
                )
        return found

    def _around_zero(self) -> list[float]:
        """0 and the next float, if zeros are missing to the model because a sparse table lacks them."""
        return [0.0, float(np.nextafter(0.0, 1.0))] if self._zero_is_missing else []

    def _around_missing(self) -> list[float]:
        """The first number that is missing to the model, and the first one after those that are."""
        low, high = self._old.missing_range
        return [] if np.isnan(low) else [low, float(np.nextafter(high, np.inf))]

    def _thresholds(self, j: int) -> list[float]:
        """All numbers that a transformed column is compared with, ascending."""
        own = self._old.threshold[self._old.feature == j].tolist()
        return sorted({*own, *self._around_missing(), *self._around_zero()})

    def _holes(
        self, thresholds: FloatArray, cuts: FloatArray, around: list[float]
    ) -> list[tuple[float, float]]:
        """The range of the raw numbers that become one of those from the first to before the second of
        `around`, if any does."""
        ends = cuts[np.searchsorted(thresholds, around)]
        return [(float(ends.min()), float(ends.max()))] if len(ends) and ends[0] != ends[1] else []

    # ---- check ----

    def _check(self, new: Ensemble, reader: RawColumns) -> None:
        """`NotRaw` unless the new ensemble predicts what the old one does, at and around its thresholds."""
        rows = rows_at_thresholds(new).astype(np.float64)
        small = np.abs(rows) < _LARGE  # steps and models may refuse others
        for attempt in (rows, np.where(small | np.isnan(rows), rows, 0.0)):
            columns = {f.raw: self._accepted(f, attempt[:, f.raw]) for f in reader.features}
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    expected = self._old.predict(self._probe.transformed(columns, len(rows)))
                    found = new.predict(reader.table(self._probe.table(columns, len(rows)), new).values)
                break
            except TableError as error:
                reason: Exception = error
        else:
            raise NotRaw(f"the steps refuse rows that the rewritten model takes: {reason}")
        if not np.array_equal(expected, found):
            raise NotRaw("the rewritten model does not agree with the Pipeline")

    def _accepted(self, feature: _RawFeature, column: FloatArray) -> Any:
        """A column of codes or numbers as raw values, with a base value for what the steps refuse."""
        q, levels, base = feature.raw, feature.levels, self._probe.base[feature.raw]
        missing = base if self._at_missing[q] is None else self._missing(q)
        if levels is None:
            return np.where(np.isnan(column), missing, column)
        at, labels = levels.levels_of(column), levels.labels or ()
        other = base if levels.closed else _other_than(list(labels))
        return [
            missing if np.isnan(c) else labels[k] if k >= 0 else other
            for c, k in zip(column, at, strict=True)
        ]


def _between(line: Line, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The ranges of the raw numbers that become y: low <= x < high."""
    at = np.searchsorted(line.thresholds, y, side="right")
    ends = np.array([-np.inf, *line.cuts, np.inf]) if line.rising else np.array([np.inf, *line.cuts, -np.inf])
    return (ends[at], ends[at + 1]) if line.rising else (ends[at + 1], ends[at])


def _same_place(line: Line, y: FloatArray) -> BoolArray:
    """True for transformed values on the same sides of all thresholds as that of a missing one."""
    at = np.searchsorted(line.thresholds, y, side="right")
    expected = np.searchsorted(line.thresholds, line.missing, side="right")
    found: BoolArray = np.isnan(y) if np.isnan(line.missing) else ~np.isnan(y) & (at == expected)
    return found


def _levels(labels: Sequence[Any], by_position: bool, name: str) -> Categories:
    """Categories with codes equal to the labels where these are whole numbers, as arrays hold them."""
    if all(isinstance(v, bool | int | float) and v == int(v) and 0 <= v <= _LARGEST_CODE for v in labels):
        ordered = sorted(labels)
        return Categories(np.array([int(v) for v in ordered], dtype=np.int32), tuple(ordered))
    if by_position and not all(isinstance(label, str) for label in labels):
        raise NotRaw(
            f"the categories of {name!r} are numbers, but not whole ones from 0 on; in arrays, such numbers "
            "cannot be told from codes"
        )
    return Categories(np.arange(len(labels), dtype=np.int32), tuple(labels))


def _other_than(labels: list[Any]) -> Any:
    """A label of the same kind that is none of these."""
    if labels and all(isinstance(label, bool | int | float) for label in labels):
        return max(labels) + 1
    other = "another"
    while other in labels:
        other += "_"
    return other


# ------------------------------------------------------------------------------------------------------------
# A crossing is the raw number from which on a transformed column is beyond a threshold, to the last float.

_ENDS: Final = (float(np.finfo(np.float64).max), 1e300, 1e100, 1e30)  # some steps refuse what overflows
_BRACKETS: Final = (1 << 10, 1 << 34)  # floats around a guess: for models of float64, of float32
_MOST_AT_ONCE: Final = 15  # points between two ends: a table of many rows takes hardly longer than of one
_ROWS_AT_ONCE: Final = 20_000


class SplitQuestion(NamedTuple):
    """A question: from which number of a raw column on is a transformed column at or above a threshold?"""

    raw: int
    column: int
    threshold: float


class Asking:
    """Many questions at once, ordered by raw column."""

    def __init__(self, probe: Probe, zero_is_missing: bool, questions: list[SplitQuestion]) -> None:
        self._probe, self._zero_is_missing = probe, zero_is_missing
        self._raw, self._column, self.thresholds = (np.array(field) for field in zip(*questions, strict=True))
        starts = np.flatnonzero(np.diff(self._raw, prepend=-1))
        self._row = np.arange(len(questions)) - np.repeat(starts, np.diff([*starts, len(questions)]))
        self._n = int(self._row.max()) + 1

    def places(self, column: int) -> IndexArray:
        """The places of the questions that are about this transformed column."""
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


# ------------------------------------------------------------------------------------------------------------
# A probe asks the steps what they make of values of raw columns, with their own arithmetic.

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
        """The rows of `table` after the steps, (n, d) with one column per feature of the model."""
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
        """The result of the steps for one value of column q, (d,); None if they refuse it."""
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
