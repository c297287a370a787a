"""Explains a pipeline in its raw columns: its ensemble is rewritten, and each row is checked.

The steps are asked what they make of raw values. Of a category they are asked for each level, of a number for
the first float64 that they send across a threshold. The result holds for float64 (and whole) numbers. Rows of
another type, such as float32, take another arithmetic through the steps: `RawColumns.table` compares where
each value goes, and moves one that lies within rounding of a threshold to the side that the steps chose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from predgap._inputs.categories import Categories, is_missing
from predgap._inputs.names import match_names
from predgap._inputs.tables import Columns, Table, by_name, open_columns
from predgap._model.ensemble import LEAF, Ensemble
from predgap._model.rewriting import Levels, Line, rewritten
from predgap._text import names_or_default
from predgap._typing import BoolArray, FloatArray
from predgap.errors import EnsembleError, PredgapError, TableError
from predgap.loaders.pipelines.lineage import Column, NotRaw, lineage
from predgap.loaders.pipelines.probes import Probe, first_on_the_other_side
from predgap.loaders.pipelines.steps import Preparation
from predgap.loaders.selfcheck import rows_at_thresholds

__all__ = ["RawColumns", "in_raw_columns"]

_LARGEST_CODE: Final = 2**31 - 1
_ENDS: Final = (float(np.finfo(np.float64).max), 1e300, 1e100, 1e30)  # some steps refuse what overflows
_ROUNDING: Final = 2.0**-20  # how far a value may be moved, relative to it and to the thresholds


@dataclass(frozen=True, slots=True, eq=False)
class _Feature:
    """A raw column that the model uses, and the transformed columns that are made of it."""

    raw: int
    levels: Categories | None  # None for a number
    columns: dict[int, Levels | Line]  # by transformed column


@dataclass(frozen=True, slots=True, eq=False)
class RawColumns:
    """Reads tables for an ensemble that was rewritten in the raw columns of a pipeline."""

    steps: Preparation
    old: Ensemble  # of the transformed columns
    names: tuple[str, ...] | None  # of the raw columns; None if the pipeline was fitted without names
    features: tuple[_Feature, ...]
    absent_is_missing: bool  # are zeros of the transformed table missing to the model?
    feature_space: None = None  # the features are the columns of X

    def table(self, X: Any, ensemble: Ensemble) -> Table:
        """X with one column per raw column of the pipeline. Columns that the model does not use are NaN.

        TableError if the steps refuse X, or send a value where the ensemble cannot send it.
        """
        found = self.steps.table(X, self.old)
        rounded, seen = _rounded(self.old, found.values), self.old.cast(found.values)
        columns = open_columns(X)
        at = self._places(columns)
        values = np.full((len(seen), ensemble.n_features), np.nan)
        for feature in self.features:
            q, levels = feature.raw, feature.levels
            if levels is None:
                values[:, q] = self._numbers(feature, columns.column(at[q]), rounded)
            else:
                values[:, q] = self._codes(feature, columns.codes(at[q], levels), seen)
        own = None
        if columns.names is not None and self.names is not None and self.names == ensemble.feature_names:
            own = tuple(columns.names[at[q]] if q in at else name for q, name in enumerate(self.names))
        return Table(values, columns.index, columns.backend, own)

    def _places(self, columns: Columns) -> dict[int, int]:
        """The column of X for each raw column; by name as the steps do it, else by position."""
        names = columns.names
        if names is None or self.names is None or not by_name(names, columns.numbered, self.names):
            return {q: q for q in range(columns.n_columns)}
        found = match_names(names, self.names, TableError)
        return {found[name]: j for j, name in enumerate(names) if name in found}

    def _numbers(self, feature: _Feature, x: FloatArray, old: FloatArray) -> FloatArray:
        """A raw column of numbers that go where the steps send them; `old` is the transformed table."""
        gone = np.isnan(x)
        low, high = np.full(len(x), -np.inf), np.full(len(x), np.inf)
        lost = np.zeros(len(x), dtype=np.bool_)
        reach = np.abs(x)
        for j, line in feature.columns.items():
            assert isinstance(line, Line)
            y = old[:, j]
            lost |= gone & ~_same_place(line, y, np.full(len(y), line.missing))
            if self.absent_is_missing:
                y = np.where(np.isnan(y), 0.0, y)
            lost |= ~gone & np.isnan(y)
            above, below = _between(line, y)
            low, high = np.maximum(low, above), np.minimum(high, below)
            finite = line.cuts[np.isfinite(line.cuts)]
            reach = np.maximum(reach, np.abs(finite).max(initial=0.0))
        inside = (low <= x) & ((x < high) | (high == np.inf))
        moved = np.where(gone | inside, x, np.where(x < low, low, np.nextafter(high, -np.inf)))
        with np.errstate(invalid="ignore"):
            far = ~gone & ~inside & ~((low < high) & (np.abs(moved - x) <= _ROUNDING * reach))
        self._refuse(feature, lost | far)
        return moved

    def _codes(self, feature: _Feature, codes: FloatArray, old: FloatArray) -> FloatArray:
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

    def _refuse(self, feature: _Feature, lost: BoolArray) -> None:
        if lost.any():
            name = names_or_default(feature.raw + 1, self.names and self.names[: feature.raw + 1])[-1]
            kind = "a number in float64" if feature.levels is None else "a category of the Pipeline's encoders"
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
        made: list[Column],
    ) -> None:
        self._old, self._names, self._made, self._n_raw = old, names, made, n_raw
        self._steps = steps
        self._native = old.categorical()
        used = np.unique(old.feature[old.feature != LEAF]).tolist()
        self._used: dict[int, list[int]] = {}  # by raw column
        for j in used:
            self._used.setdefault(made[j].raw, []).append(j)
        self._probe = Probe(steps, old, names, tuple(self._base(q) for q in range(n_raw)))
        self._zero_is_missing = steps.takes_zero_for_missing(self._probe.table({}, 1))

    def result(self) -> tuple[Ensemble, RawColumns]:
        numbers = {q: own for q, own in self._used.items() if not self._is_categorical(q, own)}
        lines = self._lines(numbers)
        features = [
            _Feature(q, None, dict(lines[q])) if q in numbers else self._category(q, own)
            for q, own in sorted(self._used.items())
        ]
        columns: list[Levels | Line | None] = [None] * self._old.n_features
        categories: list[Categories | None] = [None] * self._n_raw
        for feature in features:
            categories[feature.raw] = feature.levels
            for j, column in feature.columns.items():
                columns[j] = column
        endless = any(np.isinf(line.cuts).any() for own in lines.values() for line in own.values())
        new = rewritten(
            self._old,
            columns,
            n_features=self._n_raw,
            categories=categories,
            feature_names=self._names,
            row_dtype=np.dtype(np.float64),
            missing=float("nan"),
            unseen_is_missing=self._old.unseen_is_missing and any(map(self._is_native, self._used.values())),
            accepts_infinity=self._old.accepts_infinity and not endless,
            source=f"{self._old.source} in a Pipeline",
        )
        reader = RawColumns(self._steps, self._old, self._names, tuple(features), self._zero_is_missing)
        self._check(new, reader)
        return new, reader

    def _name(self, q: int) -> str:
        return names_or_default(self._n_raw, self._names)[q]

    # ---- categories ----

    def _is_native(self, own: list[int]) -> bool:
        """Does the model itself split on the categories of a raw column?"""
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
        native = [self._native[j].labels for j, c in enumerate(self._made) if c.raw == q and j in self._native]
        encoded = any(c.raw == q and c.labels is not None for c in self._made)
        known = self._labels(q) if encoded else (native[0] or ()) if native else (0.0,)
        return known[0] if known else float("nan")

    def _category(self, q: int, own: list[int]) -> _Feature:
        probe, native = self._probe, self._is_native(own)
        levels = self._native[own[0]] if native else _levels(self._labels(q), self._names is None, self._name(q))
        labels = list(levels.labels or ())
        at_levels = self._old.cast(probe.transformed({q: labels}, len(labels)))
        strange = probe.try_value(q, _other_than(labels))
        gone = probe.try_value(q, float("nan"))
        if gone is None:
            gone = probe.try_value(q, None)
        unseen, missing = (None if row is None else self._old.cast(row[None])[0] for row in (strange, gone))
        if native:
            unseen = None if levels.closed or self._old.unseen_is_missing else unseen
        elif unseen is None:
            levels = Categories(levels.codes, levels.labels, closed=True)
        elif self._old.unseen_is_missing and any(map(self._is_native, self._used.values())):
            raise NotRaw(f"unknown categories of {self._name(q)!r} are no missing values, as those of others")
        return _Feature(q, levels, {
            j: Levels(
                q,
                levels.codes,
                at_levels[:, j],
                None if unseen is None else float(unseen[j]),
                np.nan if missing is None else float(missing[j]),
            )
            for j in own
        })  # fmt: skip

    # ---- numbers ----

    def _lines(self, numbers: dict[int, list[int]]) -> dict[int, dict[int, Line]]:
        """For each raw column of numbers, what its transformed columns are."""
        asked = [(q, j, v) for q, own in numbers.items() for j in own for v in self._thresholds(j)]
        if not asked:
            return {}
        ask = _Asking(self._probe, self._zero_is_missing, asked)
        low, high = ask.ends()
        at_low, at_high = ask.values(low), ask.values(high)
        zero, one = ask.values(np.zeros(len(asked))), ask.values(np.ones(len(asked)))
        with np.errstate(all="ignore"):
            guess = np.nan_to_num((ask.thresholds - zero) / (one - zero), nan=0.0)
        cuts = first_on_the_other_side(lambda x: ask.values(x) < ask.thresholds, low, high, guess)
        rising = at_low <= at_high
        always = np.where((at_low < ask.thresholds) == rising, np.inf, -np.inf)
        cuts = np.where(np.isnan(cuts), always, cuts)
        found: dict[int, dict[int, Line]] = {}
        for q, own in numbers.items():
            gone = self._probe.try_value(q, float("nan"))
            missing = None if gone is None else self._old.cast(gone[None])[0]
            for j in own:
                mine = [i for i, (_, column, _) in enumerate(asked) if column == j]
                found.setdefault(q, {})[j] = Line(
                    q,
                    ask.thresholds[mine],
                    cuts[mine],
                    bool(rising[mine[0]]),
                    self._holes(ask.thresholds[mine], cuts[mine]),
                    np.nan if missing is None else float(missing[j]),
                )
        return found

    def _specials(self) -> list[float]:
        """Values of transformed columns that the model takes for missing, as it rounds them."""
        found = {0.0} if self._zero_is_missing else set()
        if not np.isnan(self._old.missing):
            found.add(float(self._old.row_dtype.type(self._old.missing)))
        return sorted(found)

    def _thresholds(self, j: int) -> list[float]:
        """All numbers that a transformed column is compared with, ascending."""
        kind = self._old.row_dtype.type
        ends = [end for v in self._specials() for end in (v, float(np.nextafter(kind(v), kind(np.inf))))]
        return sorted({*self._old.threshold[self._old.feature == j].tolist(), *ends})

    def _holes(self, thresholds: FloatArray, cuts: FloatArray) -> tuple[tuple[float, float], ...]:
        """Where a raw number becomes a value that the model takes for missing."""
        kind, found = self._old.row_dtype.type, []
        for value in self._specials():
            ends = [value, float(np.nextafter(kind(value), kind(np.inf)))]
            low, high = sorted(float(cuts[np.searchsorted(thresholds, end)]) for end in ends)
            if low < high:
                found.append((low, high))
        return tuple(found)

    # ---- check ----

    def _check(self, new: Ensemble, reader: RawColumns) -> None:
        """`NotRaw` unless the new ensemble predicts what the old one does, at and around its thresholds."""
        rows = rows_at_thresholds(new).astype(np.float64)
        for attempt in (rows, np.where(np.isinf(rows), 0.0, rows)):
            columns = {f.raw: self._accepted(f, attempt[:, f.raw]) for f in reader.features}
            try:
                expected = self._old.predict(self._probe.transformed(columns, len(rows)))
                found = new.predict(reader.table(self._probe.table(columns, len(rows)), new).values)
                break
            except TableError as error:
                reason: Exception = error
        else:
            raise NotRaw(f"the steps refuse rows that the rewritten model takes: {reason}")
        if not np.array_equal(expected, found):
            raise NotRaw("the rewritten model does not agree with the Pipeline")

    def _accepted(self, feature: _Feature, column: FloatArray) -> Any:
        """A column of codes or numbers as raw values, with a base value for what the steps refuse."""
        q, levels, base = feature.raw, feature.levels, self._probe.base[feature.raw]
        missing = self._probe.try_value(q, float("nan")) is not None
        if levels is None:
            return np.where(np.isnan(column) & ~np.bool_(missing), base, column)
        at, labels = levels.levels_of(column), levels.labels or ()
        gone = float("nan") if missing else base
        other = base if levels.closed else _other_than(list(labels))
        return [gone if np.isnan(c) else labels[k] if k >= 0 else other for c, k in zip(column, at, strict=True)]


class _Asking:
    """Many questions at once: where does transformed column j of raw column q cross a threshold?"""

    def __init__(self, probe: Probe, zero_is_missing: bool, asked: list[tuple[int, int, float]]) -> None:
        self._probe, self._zero_is_missing = probe, zero_is_missing
        self._raw = np.array([q for q, _, _ in asked])
        self._column = np.array([j for _, j, _ in asked])
        self.thresholds = np.array([v for _, _, v in asked])
        starts = np.flatnonzero(np.diff(self._raw, prepend=-1))
        self._row = np.arange(len(asked)) - np.repeat(starts, np.diff([*starts, len(asked)]))
        self._n = int(self._row.max()) + 1

    def values(self, x: FloatArray) -> FloatArray:
        """The transformed value for the raw number of each question, rounded as the model does."""
        columns = {int(q): np.zeros(self._n) for q in np.unique(self._raw)}
        for q, column in columns.items():
            mine = self._raw == q
            column[self._row[mine]] = x[mine]
        old = _rounded(self._probe.old, self._probe.transformed(columns, self._n))
        found: FloatArray = old[self._row, self._column]
        if self._zero_is_missing:
            found = np.where(np.isnan(found), 0.0, found)
        if np.isnan(found).any():
            raise NotRaw("its steps make missing values of numbers")
        return found

    def ends(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest number that the steps take."""
        for end in _ENDS:
            low, high = np.full(len(self._raw), -end), np.full(len(self._raw), end)
            try:
                self.values(low)
                self.values(high)
            except TableError as error:
                reason = error
            else:
                return low, high
        raise NotRaw(str(reason))


def _rounded(old: Ensemble, values: FloatArray) -> FloatArray:
    """Numbers as the model rounds them, before any counts as missing."""
    with np.errstate(over="ignore"):
        found: FloatArray = values.astype(old.row_dtype).astype(np.float64)
    return found


def _between(line: Line, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Where raw numbers are that become y: low <= x < high."""
    at = np.searchsorted(line.thresholds, y, side="right")
    ends = np.array([-np.inf, *line.cuts, np.inf]) if line.rising else np.array([np.inf, *line.cuts, -np.inf])
    return (ends[at], ends[at + 1]) if line.rising else (ends[at + 1], ends[at])


def _same_place(line: Line, y: FloatArray, other: FloatArray) -> BoolArray:
    """Are two transformed values on the same sides of all thresholds?"""
    places = [np.searchsorted(line.thresholds, values, side="right") for values in (y, other)]
    found: BoolArray = (np.isnan(y) & np.isnan(other)) | (places[0] == places[1])
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


