"""Scales of noise: one number for all features, one per feature, by name, or measured from a table."""

from __future__ import annotations

import reprlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from predgap._inputs.names import match_names
from predgap._inputs.tables import Columns, by_name, open_columns
from predgap._text import count, format_items, names_or_default
from predgap._typing import FloatArray
from predgap.errors import NoiseError, TableError
from predgap.noise._laws import positive

Names = tuple[str, ...] | None

_SHOWN: Final = 6  # items of a long list, in `repr` and warnings


class Numbers(ABC):
    """A positive number for each feature; 0 for a feature that is not perturbed."""

    @abstractmethod
    def of(self, features: Sequence[int], n_features: int, feature_names: Names) -> list[float]: ...

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
                "position, so these numbers must be equal"
            )
        return list(features)


@dataclass(frozen=True, slots=True)
class Measured(Numbers):
    """A factor times the standard deviation of each column of a table."""

    columns: ColumnLabels
    values: tuple[float, ...]
    refused: tuple[str, ...]  # why a column has no number, else ""; an error only if the model needs it
    factor: float

    def of(self, features: Sequence[int], n_features: int, feature_names: Names) -> list[float]:
        place = self.columns.places(features, n_features, feature_names)
        for j in place:
            if self.refused[j]:
                raise NoiseError(f"Normal.relative cannot use X: {self.refused[j]}")
        return [self.values[j] for j in place]

    def with_factor(self, factor: float) -> Measured:
        """The same with another factor; up to rounding, what `measure` gives with it."""
        values = tuple(value * (factor / self.factor) for value in self.values)
        return replace(self, values=values, factor=factor)

    def show(self) -> str:
        return f".relative(<{count(len(self.values), 'column')}>, {self.factor!r})"


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


def measure(X: Any, factor: float) -> Numbers:
    """`factor` times the standard deviation of each column. Warns of columns that are constant or empty."""
    columns = open_table(X, "Normal.relative cannot use X")
    labels = [repr(name) for name in columns.names or range(columns.n_columns)]
    found = [_scale(columns, j, factor, f"column {labels[j]}") for j in range(columns.n_columns)]
    still = [labels[j] for j, (scale, _) in enumerate(found) if scale == 0]
    if still:
        more = f", ... ({len(still)} in all)" if len(still) > _SHOWN else ""
        warnings.warn(
            f"{count(len(still), 'column')} of X, constant or without values, will not be perturbed: "
            f"{', '.join(still[:_SHOWN])}{more}",
            UserWarning,
            stacklevel=3,  # where the user called relative()
        )
    scales, refused = tuple(scale for scale, _ in found), tuple(reason for _, reason in found)
    return Measured(ColumnLabels.of(columns, "relative()"), scales, refused, factor)


def _scale(columns: Columns, j: int, factor: float, label: str) -> tuple[float, str]:
    """The scale of column j, 0 if it is constant or empty; and why it has no scale, else ""."""
    try:
        values = columns.column(j)
    except TableError as error:
        return float("nan"), str(error)
    values = values[~np.isnan(values)]
    if np.isinf(values).any():
        return float("nan"), f"{label} holds an infinite value; mark it missing (NaN) or clip it"
    if len(values) == 0 or values.min() == values.max():  # np.std of equal values may not be exactly 0
        return 0.0, ""
    scale = factor * _deviation(values)
    if not 0 < scale < float("inf"):
        return float("nan"), f"{label} has the scale {scale}, beyond the range of float64"
    return scale, ""


def _deviation(values: FloatArray) -> float:
    """Population standard deviation; dividing by a power of 2 is exact and keeps squares in range."""
    _, exponent = np.frexp(np.abs(values).max())
    scaled = np.ldexp(values, -int(exponent))
    return float(np.ldexp(scaled.std(), int(exponent)))
