"""Scales of noise: one number for all features, one per feature, by name, or measured from a table."""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from predgap._inputs.names import NAMELESS, are_default, match_names
from predgap._inputs.one_hot import OneHot
from predgap._inputs.tables import Columns, by_name, open_columns
from predgap._text import count, format_items, names_or_default, warn
from predgap._typing import FloatArray
from predgap.errors import NoiseError, TableError
from predgap.noise._laws import positive

Names = tuple[str, ...] | None
Ranges = tuple["Range | None", ...]

FEWEST_WHOLE: Final = 20
"""A column of fewer whole numbers may be one of continuous numbers by chance: it gives no warning."""

_SHOWN: Final = 6  # items of a long list, in `repr` and warnings


@dataclass(frozen=True, slots=True)
class Range:
    """The smallest and the largest number of a column, but for values that are kept."""

    low: float
    high: float
    kept: tuple[float, ...] = ()  # values that do not move, which may be anywhere


class Numbers(ABC):
    """A positive number for each feature; 0 for a feature that is not perturbed."""

    @abstractmethod
    def of(self, features: Sequence[int], n_features: int, feature_names: Names) -> list[float]: ...

    def ranges_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> Ranges:
        """The ranges of these columns; see `Noise.ranges_of`."""
        return (None,) * len(features)

    def with_one_hot(self, one_hot: OneHot) -> Numbers:
        """The numbers for a model in which dummies became categories. Those given by name stay."""
        return self

    @abstractmethod
    def show(self) -> str:
        """For `repr`: arguments of the class, or a call that begins with a dot."""


@dataclass(frozen=True, slots=True)
class _Same(Numbers):
    value: float

    def of(self, features: Sequence[int], n_features: int, feature_names: Names) -> list[float]:
        return [self.value] * len(features)

    def show(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class _ByPlace(Numbers):
    values: tuple[float, ...]
    what: str

    def of(self, features: Sequence[int], n_features: int, feature_names: Names) -> list[float]:
        if len(self.values) != n_features:
            raise NoiseError(
                f"{self.what} has {count(len(self.values), 'value')}, the model has "
                f"{count(n_features, 'feature')}; give one for all, or one per feature"
            )
        return [self.values[j] for j in features]

    def with_one_hot(self, one_hot: OneHot) -> Numbers:
        if len(self.values) != len(one_hot.names):
            return self
        return _ByPlace(tuple(self.values[old[0]] for old in one_hot.places), self.what)

    def show(self) -> str:
        return f"[{shortened(list(map(repr, self.values)))}]"


@dataclass(frozen=True, slots=True)
class _ByName(Numbers):
    names: tuple[str, ...]
    values: tuple[float, ...]
    what: str

    def of(self, features: Sequence[int], n_features: int, feature_names: Names) -> list[float]:
        names = names_or_default(n_features, feature_names)
        place = match_names(self.names, names, NoiseError)
        value = {place[name]: v for name, v in zip(self.names, self.values, strict=True) if name in place}
        missing = [names[j] for j in features if j not in value]
        unknown = [name for name in self.names if name not in place]
        if missing or unknown:
            lacks = f"lacks the model's features {format_items(missing)}" if missing else ""
            has = f"names {format_items(unknown)}, which the model does not have" if unknown else ""
            raise NoiseError(
                f"{self.what} {' and '.join(filter(None, (lacks, has)))}; "
                f"the model's {n_features} features are {format_items(names)}"
                f"{NAMELESS if feature_names is None else ''}"
            )
        return [value[j] for j in features]

    def show(self) -> str:
        pairs = zip(self.names, self.values, strict=True)
        return f"{{{shortened([f'{name!r}: {value!r}' for name, value in pairs])}}}"


@dataclass(frozen=True, slots=True)
class ColumnLabels:
    """The column names of a table that was given to a noise; not all need be features of the model."""

    names: Names
    numbered: bool  # names are only 0, 1, 2, ...
    n_columns: int
    given_to: str

    @classmethod
    def of(cls, columns: Columns, given_to: str) -> ColumnLabels:
        return cls(columns.names, columns.numbered, columns.n_columns, given_to)

    def label(self, j: int) -> str:
        """What to call column j in a message."""
        return repr(self.names[j]) if self.names else str(j)

    def names_for(self, n_features: int) -> Names:
        """The names that a model of so many features without names takes from this table; else None."""
        own = self.names
        return None if own is None or len(own) != n_features or are_default(own) else own

    def features(self, n_features: int, feature_names: Names) -> dict[int, int]:
        """The feature of each column that is one of the model's; none if columns cannot be matched."""
        own = self.names
        if own is not None and feature_names is not None and by_name(own, self.numbered, feature_names):
            feature = match_names(own, feature_names, NoiseError)
            return {j: feature[name] for j, name in enumerate(own) if name in feature}
        return {j: j for j in range(n_features)} if self.n_columns == n_features else {}

    def places(self, features: Sequence[int], n_features: int, feature_names: Names) -> list[int]:
        """The column of each feature: by name if table and model both have names, else by position."""
        own = self.names
        if own is not None and feature_names is not None and by_name(own, self.numbered, feature_names):
            feature = match_names(own, feature_names, NoiseError)
            column = {feature[name]: j for j, name in enumerate(own) if name in feature}
            missing = [feature_names[j] for j in features if j not in column]
            if missing:
                raise NoiseError(
                    f"the table given to {self.given_to} lacks {count(len(missing), 'feature')} of the "
                    f"model: {format_items(missing)}; it has {format_items(own)}"
                )
            return [column[j] for j in features]
        if self.n_columns != n_features:
            raise NoiseError(
                f"the table given to {self.given_to} has {count(self.n_columns, 'column')}, the model "
                f"has {count(n_features, 'feature')}; without names on both sides columns are matched by "
                "position, so these numbers must be equal: drop the target and other columns that are not "
                "features"
            )
        return list(features)


@dataclass(frozen=True, slots=True)
class Measured(Numbers):
    """A factor times the standard deviation of each column of a table."""

    columns: ColumnLabels
    deviations: tuple[float, ...]
    refused: tuple[str, ...]  # why a column has no number, else ""; an error only if the model needs it
    ranges: Ranges
    factor: float

    def of(self, features: Sequence[int], n_features: int, feature_names: Names) -> list[float]:
        place = self.columns.places(features, n_features, feature_names)
        for j in place:
            if self.refused[j]:
                raise NoiseError(f"Normal.relative cannot use X: {self.refused[j]}")
            if self.deviations[j] > 0 and not 0 < self.factor * self.deviations[j] < float("inf"):
                raise NoiseError(
                    f"Normal.relative cannot use X: column {self.columns.label(j)} has the scale "
                    f"{self.factor * self.deviations[j]}, beyond the range of float64"
                )
        return [self.factor * self.deviations[j] for j in place]

    def ranges_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> Ranges:
        return tuple(self.ranges[j] for j in self.columns.places(features, n_features, feature_names))

    def with_one_hot(self, one_hot: OneHot) -> Numbers:
        if self.columns.names is not None or self.columns.n_columns != len(one_hot.names):
            return self
        columns = replace(self.columns, n_columns=len(one_hot.places))
        first = [old[0] for old in one_hot.places]
        return replace(
            self,
            columns=columns,
            deviations=tuple(self.deviations[j] for j in first),
            refused=tuple(self.refused[j] for j in first),
            ranges=tuple(self.ranges[j] for j in first),
        )

    def show(self) -> str:
        return f".relative(<{count(len(self.deviations), 'column')}>, {self.factor!r})"


def all_whole(values: FloatArray) -> bool:
    """Are all of at least 20 values whole numbers? Missing values do not count."""
    is_whole, missing = values == np.floor(values), np.isnan(values)
    return bool((is_whole | missing).all()) and len(values) - int(missing.sum()) >= FEWEST_WHOLE


def shortened(items: list[str]) -> str:
    """The first few items, for `repr`."""
    return ", ".join(items if len(items) <= _SHOWN else [*items[:_SHOWN], "..."])


def read_numbers(value: Any, what: str) -> Numbers:
    """Numbers that a user gave: one, one per feature, or by feature name."""
    labels: Any = getattr(value, "index", None)  # of a pandas Series, its labels; of a list, a method
    if isinstance(value, Mapping) or (hasattr(labels, "dtype") and all(isinstance(v, str) for v in labels)):
        return _read_named(list(value.items()), what)
    try:
        dimensions = np.ndim(value)
    except ValueError:  # a ragged list
        dimensions = 2
    if dimensions > 1 or isinstance(value, str | bytes | Set):
        raise NoiseError(f"{what} is {reprlib.repr(value)}, expected a positive number, or one per feature")
    if dimensions == 1:
        return _ByPlace(tuple(positive(v, f"{what}[{j}]") for j, v in enumerate(value)), what)
    return _Same(positive(value, what))


def _read_named(pairs: list[tuple[Any, Any]], what: str) -> _ByName:
    strange = [name for name, _ in pairs if not isinstance(name, str)]
    if strange:
        raise NoiseError(f"{what} has the key {strange[0]!r}, expected feature names")
    names = tuple(name for name, _ in pairs)
    if len(set(names)) < len(names):
        raise NoiseError(f"{what} names a feature more than once: {format_items(names)}")
    return _ByName(names, tuple(positive(v, f"{what}[{name!r}]") for name, v in pairs), what)


# ---- scales relative to a table ------------------------------------------------------------------


def open_table(X: Any, what_fails: str) -> Columns:
    """The columns of a table; NoiseError, which begins with `what_fails`, if X is not a table or empty."""
    try:
        columns = open_columns(X)
    except TableError as error:
        raise NoiseError(f"{what_fails}: {error}") from None
    if columns.n_rows == 0:
        raise NoiseError(f"{what_fails}: it has no rows")
    return columns


def measure(X: Any, factor: float) -> Measured:
    """`factor` times the standard deviation of each column. Warns of columns that are constant or empty."""
    columns = open_table(X, "Normal.relative cannot use X")
    names = ColumnLabels.of(columns, "relative()")
    labels = [names.label(j) for j in range(columns.n_columns)]
    found = [_measured(columns, j, f"column {labels[j]}") for j in range(columns.n_columns)]
    warn_of_still([labels[j] for j, (size, _) in enumerate(found) if size == 0])
    in_steps = [labels[j] for j, (size, _) in enumerate(found) if size > 0 and _has_steps(columns.column(j))]
    if in_steps:
        warn(
            f"{count(len(in_steps), 'column')} of X with only two values or only whole numbers: "
            f"{_first(in_steps)}. Normal noise takes them to values between, where it depends on the library "
            "which way a row goes; use Relative(X, factor), which moves every column to values that it has",
        )
    sizes, reasons = zip(*found, strict=True)
    ranges = tuple(_range(columns.column(j)) if size > 0 else None for j, size in enumerate(sizes))
    return Measured(names, sizes, reasons, ranges, factor)


def warn_of_still(labels: list[str]) -> None:
    """Warns of columns, if any, that a noise will not move."""
    if labels:
        warn(
            f"{count(len(labels), 'column')} of X, constant or without values, will not be perturbed: "
            f"{_first(labels)}",
        )


def _first(labels: list[str]) -> str:
    more = f", ... ({len(labels)} in all)" if len(labels) > _SHOWN else ""
    return f"{', '.join(labels[:_SHOWN])}{more}"


def _has_steps(values: FloatArray) -> bool:
    """Has a column of at least 20 values only two different ones, or only whole numbers?"""
    present = values[~np.isnan(values)]
    if len(present) < FEWEST_WHOLE:
        return False
    return all_whole(present) or bool(((present == present.min()) | (present == present.max())).all())


def _range(values: FloatArray) -> Range:
    return Range(float(np.nanmin(values)), float(np.nanmax(values)))


def _measured(columns: Columns, j: int, label: str) -> tuple[float, str]:
    """The standard deviation of column j, 0 if it is constant or empty; and why it has none, else ""."""
    try:
        values = columns.column(j)
    except TableError as error:
        return float("nan"), str(error)
    values = values[~np.isnan(values)]
    if np.isinf(values).any():
        return (
            float("nan"),
            f"{label} holds an infinite value, so that it has no spread; mark it missing (NaN) or clip it",
        )
    if len(values) == 0 or values.min() == values.max():  # np.std of equal values may not be exactly 0
        return 0.0, ""
    size = deviation(values)
    if not 0 < size < float("inf"):
        return float("nan"), f"{label} has the standard deviation {size}, beyond the range of float64"
    return size, ""


def deviation(values: FloatArray) -> float:
    """Population standard deviation; dividing by a power of 2 is exact and keeps squares in range."""
    _, exponent = np.frexp(np.abs(values).max())
    scaled = np.ldexp(values, -int(exponent))
    return float(np.ldexp(scaled.std(), int(exponent)))
