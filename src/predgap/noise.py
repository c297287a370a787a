"""Noise: how each feature is perturbed.

A `Noise` is what a user writes; it may speak of names or of all features at once. Meeting a model, it
becomes one `Law` per feature, and a law says with which probability x' = x + δ lies below a threshold.
"""

from __future__ import annotations

import reprlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap.categories import is_missing
from predgap.errors import NoiseError, TableError
from predgap.laws import (
    ColumnLaw,
    DiscreteLaw,
    FlipLaw,
    Law,
    NormalLaw,
    ScipyLaw,
    StillLaw,
    UniformLaw,
    positive,
    show_frozen,
)
from predgap.tables import Columns, by_name, count, listing, names_or_default, open_columns

FloatArray = NDArray[np.float64]
Names = tuple[str, ...] | None

# ---- noise: all features -------------------------------------------------------------------------


class Noise(ABC):
    """How a model's features are perturbed, independently of each other; immutable.

    A subclass says in `laws_of` which law each feature gets.
    """

    def laws(self, n_features: int, feature_names: Sequence[str] | None = None) -> tuple[Law, ...]:
        """One law per feature of a model; NoiseError if the noise does not fit it."""
        names = None if feature_names is None else tuple(feature_names)
        return self.laws_of(range(n_features), n_features, names)

    @abstractmethod
    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        """The laws of some features; what is given for other features does not matter."""


@dataclass(frozen=True)
class _Scaled(Noise):
    """Laws of one family, which differ by a positive number; a feature whose number is 0 stays."""

    _numbers: _Numbers

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        values = self._numbers.of(features, n_features, feature_names)
        return tuple(StillLaw() if value == 0 else self._law(value) for value in values)

    @staticmethod
    @abstractmethod
    def _law(value: float) -> Law: ...

    def __repr__(self) -> str:
        text = self._numbers.show()
        return f"{type(self).__name__}{text}" if text.startswith(".") else f"{type(self).__name__}({text})"


@dataclass(frozen=True, init=False, repr=False)
class Normal(_Scaled):
    """Each feature moves by a normal δ with mean 0.

    Parameters
    ----------
    scale : positive number, one per feature, or a mapping from feature name to number
        Standard deviation. A pandas Series labelled by feature counts as a mapping.

    Examples
    --------
    >>> Normal(0.3).laws(2)
    (NormalLaw(scale=0.3), NormalLaw(scale=0.3))
    >>> Normal({"bmi": 2.0, "age": 5.0}).laws(2, ("age", "bmi"))
    (NormalLaw(scale=5.0), NormalLaw(scale=2.0))
    """

    def __init__(self, scale: Any) -> None:
        object.__setattr__(self, "_numbers", _read_numbers(scale, "scale"))

    @classmethod
    def relative(cls, X: Any, factor: float) -> Normal:
        """A scale of `factor` times each column's standard deviation in X.

        The standard deviation is that of the population (ddof=0), over the values that are not missing.
        A column that is constant, or has no values, is not moved, with a warning. If X has column names
        they are matched to the model's features, and columns that the model does not know (the target)
        are not used; otherwise columns go by position.

        Parameters
        ----------
        X : (n, d) NumPy array, pandas or Polars DataFrame, PyArrow Table, or list of rows
        factor : positive number

        Examples
        --------
        >>> Normal.relative([[1.0, 10.0], [3.0, 30.0]], 0.5).laws(2)
        (NormalLaw(scale=0.5), NormalLaw(scale=5.0))
        """
        made = cls.__new__(cls)
        object.__setattr__(made, "_numbers", _measure(X, positive(factor, "factor")))
        return made

    @staticmethod
    def _law(value: float) -> Law:
        return NormalLaw(value)


@dataclass(frozen=True, init=False, repr=False)
class Uniform(_Scaled):
    """Each feature moves by a δ that is uniform on [-half_width, half_width].

    Parameters
    ----------
    half_width : positive number, one per feature, or a mapping from feature name to number

    Examples
    --------
    >>> Uniform([1.0, 0.5]).laws(2)
    (UniformLaw(half_width=1.0), UniformLaw(half_width=0.5))
    """

    def __init__(self, half_width: Any) -> None:
        object.__setattr__(self, "_numbers", _read_numbers(half_width, "half_width"))

    @staticmethod
    def _law(value: float) -> Law:
        return UniformLaw(value)


@dataclass(frozen=True, repr=False)
class FromScipy(Noise):
    """Each feature moves by a δ from a frozen univariate SciPy distribution.

    On a discrete distribution P(x' < t) is strict, and x' is the float64 sum x + δ: a δ that takes x onto
    a threshold is not below it.

    Examples
    --------
    >>> from scipy import stats
    >>> FromScipy(stats.t(df=5, scale=0.3))
    FromScipy(t(df=5, scale=0.3))
    """

    frozen: Any

    def __post_init__(self) -> None:
        ScipyLaw(self.frozen)

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        return (ScipyLaw(self.frozen),) * len(features)

    def __repr__(self) -> str:
        return f"FromScipy({show_frozen(self.frozen)})"


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Marginal(Noise):
    """Each feature is replaced by a value drawn from its own column of X; x itself does not matter.

    Missing values of X are left out, and the others rounded as the model rounds its rows; of a categorical
    feature they are its labels, or in an array its codes. Columns are matched as in `Normal.relative`.

    Parameters
    ----------
    X : (n, d) NumPy array, pandas or Polars DataFrame, PyArrow Table, or list of rows

    Examples
    --------
    >>> (law,) = Marginal([[1.0], [2.0], [4.0], [4.0]]).laws(1)
    >>> law.tails(np.zeros(1), np.array([2.0, 4.0]))[0]
    array([[0.25, 0.5 ]])
    """

    def __init__(self, X: Any) -> None:
        columns = _opened(X, "no marginal of X")
        object.__setattr__(self, "_table", columns)
        object.__setattr__(self, "_labels", _Labels.of(columns, "Marginal()"))

    _table: Columns
    _labels: _Labels

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        places = self._labels.places(features, n_features, feature_names)
        return tuple(ColumnLaw(self._table, j) for j in places)

    def __repr__(self) -> str:
        return f"Marginal(<{count(self._table.n_rows, 'row')}>)"


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Discrete(Noise):
    """Each feature is replaced by one of these values, whatever it was.

    Parameters
    ----------
    values : sequence of k different values
        Of a categorical feature, labels that the model knows; of a numeric one, numbers.
    probabilities : sequence of k numbers, or None
        Not negative, with the sum 1; without them all values are as likely.

    Examples
    --------
    >>> Discrete(["red", "blue"], [0.9, 0.1])
    Discrete(['red', 'blue'], [0.9, 0.1])
    """

    values: tuple[Any, ...]
    probabilities: FloatArray

    def __init__(self, values: Sequence[Any], probabilities: Sequence[float] | None = None) -> None:
        if (
            isinstance(values, str | bytes | Set | Mapping)
            or not hasattr(values, "__len__")
            or len(values) == 0
        ):
            raise NoiseError(f"values is {reprlib.repr(values)}, expected a list of at least one value")
        given = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
        if not all(isinstance(value, Hashable) for value in given):
            raise NoiseError(f"values is {reprlib.repr(values)}, expected labels or numbers")
        if any(is_missing(value) for value in given):
            raise NoiseError("values holds a missing one; a value does not become missing")
        if len(set(given)) < len(given):
            raise NoiseError(f"values holds one more than once: {listing(given)}")
        object.__setattr__(self, "values", given)
        object.__setattr__(self, "probabilities", _shares(probabilities, len(given)))

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        return (DiscreteLaw(self.values, self.probabilities),) * len(features)

    def __repr__(self) -> str:
        shares = _shortened(list(map(repr, self.probabilities.tolist())))
        return f"Discrete([{_shortened(list(map(repr, self.values)))}], [{shares}])"


def _shares(probabilities: Sequence[float] | None, n: int) -> FloatArray:
    """n probabilities, whose sum is 1 to the last digits."""
    if probabilities is None:
        return np.full(n, 1.0 / n)
    try:
        given = np.asarray(probabilities, dtype=np.float64)
    except (TypeError, ValueError):
        raise NoiseError(f"probabilities is {reprlib.repr(probabilities)}, expected {n} numbers") from None
    if given.shape != (n,) or not (given >= 0).all() or abs(given.sum() - 1.0) > 1e-9:
        raise NoiseError(
            f"probabilities is {reprlib.repr(probabilities)}, expected one for each of the {n} values, none "
            "negative, with the sum 1"
        )
    shares: FloatArray = given / given.sum()
    return shares


@dataclass(frozen=True, repr=False)
class Flip(Noise):
    """Each feature changes with probability p, to any other of its categories alike.

    A numeric feature must be 0 or 1, and becomes the other one. The categories are those that the model
    knows, and a row with one that it does not know is refused. A CatBoost model stores only categories that
    it splits on, so it takes Discrete or Marginal noise instead.

    Examples
    --------
    >>> Flip(0.1)
    Flip(0.1)
    """

    p: float

    def __post_init__(self) -> None:
        number = positive(self.p, "p")
        if number > 1:
            raise NoiseError(f"p is {self.p!r}, expected a probability")
        object.__setattr__(self, "p", number)

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        return (FlipLaw(self.p),) * len(features)

    def __repr__(self) -> str:
        return f"Flip({self.p!r})"


@dataclass(frozen=True, init=False, repr=False)
class PerFeature(Noise):
    """A noise of its own for some features.

    Parameters
    ----------
    noises : mapping from feature name or index to Noise
    default : Noise, or None
        For all other features; without it, every feature must be given.

    Examples
    --------
    >>> PerFeature({"age": Uniform(1)}, default=Normal(0.3)).laws(2, ("age", "bmi"))
    (UniformLaw(half_width=1.0), NormalLaw(scale=0.3))
    """

    noises: tuple[tuple[str | int, Noise], ...]
    default: Noise | None

    def __init__(self, noises: Mapping[Any, Noise], default: Noise | None = None) -> None:
        if not isinstance(noises, Mapping):
            raise NoiseError(
                f"PerFeature got a {type(noises).__name__}, expected a mapping such as {{'age': Normal(0.3)}}"
            )
        pairs = tuple((_feature_key(key), _noise(noise, f"of {key!r}")) for key, noise in noises.items())
        object.__setattr__(self, "noises", pairs)
        object.__setattr__(self, "default", None if default is None else _noise(default, "default"))

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        own = self._placed(n_features, feature_names)
        rest = [j for j in features if j not in own]
        if rest and self.default is None:
            names = names_or_default(n_features, feature_names)
            raise NoiseError(
                f"no noise for {count(len(rest), 'feature')}: {listing(names[j] for j in rest)}; "
                "add them, or give default="
            )
        others = self.default.laws_of(rest, n_features, feature_names) if self.default is not None else ()
        laws = dict(zip(rest, others, strict=True))
        for j in features:
            if j in own:
                (laws[j],) = own[j].laws_of([j], n_features, feature_names)
        return tuple(laws[j] for j in features)

    def _placed(self, n_features: int, feature_names: Names) -> dict[int, Noise]:
        """The given noises by feature index."""
        names = names_or_default(n_features, feature_names)
        place: dict[str | int, int] = {name: j for j, name in enumerate(names)}
        place |= {j: j for j in range(n_features)}
        unknown = [key for key, _ in self.noises if key not in place]
        if unknown:
            raise NoiseError(
                f"the model has no feature {listing(unknown)}; its {n_features} features are {listing(names)}"
            )
        placed: dict[int, Noise] = {}
        for key, noise in self.noises:
            if place[key] in placed:
                raise NoiseError(f"feature {names[place[key]]!r} is given twice, by name and by index")
            placed[place[key]] = noise
        return placed

    def __repr__(self) -> str:
        shown = ", ".join(f"{key!r}: {noise!r}" for key, noise in self.noises)
        default = "" if self.default is None else f", default={self.default!r}"
        return f"PerFeature({{{shown}}}{default})"


def _noise(noise: Any, which: str) -> Noise:
    if not isinstance(noise, Noise):
        raise NoiseError(f"the noise {which} is {noise!r}, expected a Noise such as Normal(0.3)")
    return noise


def _feature_key(key: Any) -> str | int:
    if isinstance(key, str):
        return key
    if isinstance(key, bool | np.bool_) or not isinstance(key, int | np.integer):
        raise NoiseError(f"PerFeature has the key {key!r}, expected feature names or indices")
    return int(key)


# ---- one number for all features, or one for each ------------------------------------------------


class _Numbers(ABC):
    """A positive number for each feature, 0 for one that stays."""

    @abstractmethod
    def of(self, features: Sequence[int], n_features: int, feature_names: Names) -> list[float]: ...

    @abstractmethod
    def show(self) -> str:
        """For `repr`: arguments of the class, or a call that begins with a dot."""


@dataclass(frozen=True, slots=True)
class _Same(_Numbers):
    value: float

    def of(self, features: Sequence[int], n_features: int, feature_names: Names) -> list[float]:
        return [self.value] * len(features)

    def show(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class _ByPlace(_Numbers):
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
        return f"[{_shortened(list(map(repr, self.values)))}]"


@dataclass(frozen=True, slots=True)
class _ByName(_Numbers):
    names: tuple[str, ...]
    values: tuple[float, ...]
    what: str

    def of(self, features: Sequence[int], n_features: int, feature_names: Names) -> list[float]:
        names = names_or_default(n_features, feature_names)
        value = dict(zip(self.names, self.values, strict=True))
        missing = [names[j] for j in features if names[j] not in value]
        unknown = [name for name in self.names if name not in set(names)]
        if missing or unknown:
            lacks = f"lacks the model's features {listing(missing)}" if missing else ""
            has = f"names {listing(unknown)}, which the model does not have" if unknown else ""
            raise NoiseError(
                f"{self.what} {' and '.join(filter(None, (lacks, has)))}; "
                f"the model's {n_features} features are {listing(names)}"
            )
        return [value[names[j]] for j in features]

    def show(self) -> str:
        pairs = zip(self.names, self.values, strict=True)
        return f"{{{_shortened([f'{name!r}: {value!r}' for name, value in pairs])}}}"


@dataclass(frozen=True, slots=True)
class _Labels:
    """The columns of a table that was given to a noise; they may be more than the model's features."""

    names: Names
    numbered: bool  # names are only 0, 1, 2, ...
    n_columns: int
    given_to: str

    @classmethod
    def of(cls, columns: Columns, given_to: str) -> _Labels:
        return cls(columns.names, columns.numbered, columns.n_columns, given_to)

    def places(self, features: Sequence[int], n_features: int, feature_names: Names) -> list[int]:
        """The column of each feature: by name where both sides have names, else by position."""
        own = self.names
        if own is not None and feature_names is not None and by_name(own, self.numbered, feature_names):
            place = {name: j for j, name in enumerate(own)}
            missing = [feature_names[j] for j in features if feature_names[j] not in place]
            if missing:
                raise NoiseError(
                    f"the table given to {self.given_to} lacks {count(len(missing), 'feature')} of the "
                    f"model: {listing(missing)}; it has {listing(own)}"
                )
            return [place[feature_names[j]] for j in features]
        if self.n_columns != n_features:
            raise NoiseError(
                f"the table given to {self.given_to} has {count(self.n_columns, 'column')}, the model "
                f"has {count(n_features, 'feature')}, and without names on both sides they go by position"
            )
        return list(features)


@dataclass(frozen=True, slots=True)
class _Measured(_Numbers):
    """Numbers found from the columns of a table."""

    columns: _Labels
    values: tuple[float, ...]
    refused: tuple[str, ...]  # why a column has no number, else ""; an error only if the model needs it
    factor: float

    def of(self, features: Sequence[int], n_features: int, feature_names: Names) -> list[float]:
        place = self.columns.places(features, n_features, feature_names)
        for j in place:
            if self.refused[j]:
                raise NoiseError(f"no scale relative to X: {self.refused[j]}")
        return [self.values[j] for j in place]

    def show(self) -> str:
        return f".relative(<{count(len(self.values), 'column')}>, {self.factor!r})"


_SHOWN: Final = 6


def _shortened(items: list[str]) -> str:
    return ", ".join(items if len(items) <= _SHOWN else [*items[:_SHOWN], "..."])


def _read_numbers(value: Any, what: str) -> _Numbers:
    labels: Any = getattr(value, "index", None)  # a method on lists, text labels on a pandas Series
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
        raise NoiseError(f"{what} names a feature more than once: {listing(names)}")
    return _ByName(names, tuple(positive(v, f"{what}[{name!r}]") for name, v in pairs), what)


# ---- scales relative to a table ------------------------------------------------------------------


def _opened(X: Any, what_fails: str) -> Columns:
    try:
        columns = open_columns(X)
    except TableError as error:
        raise NoiseError(f"{what_fails}: {error}") from None
    if columns.n_rows == 0:
        raise NoiseError(f"{what_fails}: it has no rows")
    return columns


def _measure(X: Any, factor: float) -> _Measured:
    columns = _opened(X, "no scale relative to X")
    labels = [repr(name) for name in columns.names or range(columns.n_columns)]
    found = [_scale(columns, j, factor, f"column {labels[j]}") for j in range(columns.n_columns)]
    still = [labels[j] for j, (scale, _) in enumerate(found) if scale == 0]
    if still:
        more = f", ... ({len(still)} in all)" if len(still) > _SHOWN else ""
        warnings.warn(
            f"{count(len(still), 'column')} of X, constant or without values, will not be moved: "
            f"{', '.join(still[:_SHOWN])}{more}",
            UserWarning,
            stacklevel=3,  # where the user called relative()
        )
    scales, refused = tuple(scale for scale, _ in found), tuple(reason for _, reason in found)
    return _Measured(_Labels.of(columns, "relative()"), scales, refused, factor)


def _scale(columns: Columns, j: int, factor: float, label: str) -> tuple[float, str]:
    """factor times the standard deviation, 0 if there is none, and why there cannot be a number."""
    try:
        values = columns.column(j)
    except TableError as error:
        return float("nan"), str(error)
    values = values[~np.isnan(values)]
    if np.isinf(values).any():
        return float("nan"), f"{label} holds an infinite value; mark it missing (NaN) or clip it"
    if len(values) == 0 or values.min() == values.max():  # the computed deviation might not be 0
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
