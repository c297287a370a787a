"""These noises add a random number to a feature; their laws are here, too.

They are `Normal`, `Uniform`, `Laplace`, `StudentT` and `FromScipy`.
"""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.one_hot import OneHot
from predgap._inputs.subsets import NAMELESS, match_names
from predgap._inputs.tables import Columns
from predgap._text import count, format_items, names_or_default, shown, warn
from predgap._typing import FloatArray
from predgap.errors import NoiseError, TableError
from predgap.noise.columns import deviation, has_steps
from predgap.noise.law import Law, StillLaw, may_be_missing, positive
from predgap.noise.noise import ColumnLabels, Names, Noise, Range, Ranges, open_table
from predgap.noise.shifts import (
    Areas,
    Beyond,
    Shift,
    laplace_beyond,
    laplace_shift,
    normal_beyond,
    normal_shift,
    student_beyond,
    student_shift,
    symmetric_areas,
    uniform_beyond,
    uniform_shift,
)
from predgap.noise.tails import Tails, laplace_tails, normal_tails, student_tails, tails_from, uniform_tails


@dataclass(frozen=True)
class _Scaled(Noise):
    """One family of laws with a positive number per feature. A feature whose number is 0 does not move."""

    _numbers: Numbers

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        values = self._numbers.of(features, n_features, feature_names)
        return tuple(StillLaw() if value == 0 else self._law(value) for value in values)

    def ranges_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> Ranges:
        return self._numbers.ranges_of(features, n_features, feature_names)

    def with_one_hot(self, one_hot: OneHot) -> Noise:
        made = copy(self)
        object.__setattr__(made, "_numbers", self._numbers.with_one_hot(one_hot))
        return made

    def _tables(self) -> tuple[ColumnLabels, ...]:
        return (self._numbers.columns,) if isinstance(self._numbers, Measured) else ()

    @abstractmethod
    def _law(self, value: float) -> Law: ...

    def __repr__(self) -> str:
        text = self._numbers.show()
        return f"{type(self).__name__}{text}" if text.startswith(".") else f"{type(self).__name__}({text})"


@dataclass(frozen=True, init=False, repr=False)
class Normal(_Scaled):
    """Adds normal noise with mean 0 to each feature.

    Use it for numeric features that may vary a little around their value. With `Normal.relative` the noise is
    proportional to the spread of each column, which suits tables whose columns have different units.

    Parameters
    ----------
    scale : positive number, one per feature, or a mapping from feature name to number
        Standard deviation of the noise. A pandas Series labelled by feature counts as a mapping.

    Examples
    --------
    >>> Normal(0.3).laws(2)
    (NormalLaw(scale=0.3), NormalLaw(scale=0.3))
    >>> Normal({"bmi": 2.0, "age": 5.0}).laws(2, ("age", "bmi"))
    (NormalLaw(scale=5.0), NormalLaw(scale=2.0))
    """

    def __init__(self, scale: Any) -> None:
        object.__setattr__(self, "_numbers", read_numbers(scale, "scale"))

    @classmethod
    def relative(cls, X: Any, factor: float) -> Normal:
        """Normal noise whose scale is `factor` times the standard deviation of each column of X.

        Use it for tables of continuous numbers; `Relative` also moves whole numbers and categories, to values
        that they can take. A warning names the columns of at least 20 values that have only two different
        ones, or only whole numbers.

        The standard deviation is the population's (ddof=0), over the values that are not missing. A column
        that is constant or has no values is not perturbed, and a warning says so. If X has column names, they
        are matched to the model's feature names, and other columns (such as the target) are ignored;
        otherwise columns are matched by position, and a model without names takes those of X.

        Parameters
        ----------
        X : (n, d) NumPy array, pandas or Polars DataFrame, PyArrow Table, or list of rows
            Usually the training table.
        factor : positive number
            The strength of the noise, e.g. 0.3.

        Returns
        -------
        Normal

        Examples
        --------
        >>> Normal.relative([[1.0, 10.0], [3.0, 30.0]], 0.5).laws(2)
        (NormalLaw(scale=0.5), NormalLaw(scale=5.0))
        """
        return cls._of(measure(X, positive(factor, "factor")))

    @classmethod
    def _of(cls, numbers: Numbers) -> Normal:
        made = cls.__new__(cls)
        object.__setattr__(made, "_numbers", numbers)
        return made

    def with_strength(self, strength: float) -> Noise:
        if not isinstance(self._numbers, Measured):
            return super().with_strength(strength)
        return self._of(replace(self._numbers, factor=positive(strength, "strength")))

    def _law(self, value: float) -> Law:
        return NormalLaw(value)


@dataclass(frozen=True, init=False, repr=False)
class Uniform(_Scaled):
    """Adds noise that is uniform on [-half_width, half_width] to each feature.

    Use it for numeric features whose values are known up to a fixed error.

    Parameters
    ----------
    half_width : positive number, one per feature, or a mapping from feature name to number
        The largest change of a value. A pandas Series labelled by feature counts as a mapping.

    Examples
    --------
    >>> Uniform([1.0, 0.5]).laws(2)
    (UniformLaw(half_width=1.0), UniformLaw(half_width=0.5))
    """

    def __init__(self, half_width: Any) -> None:
        object.__setattr__(self, "_numbers", read_numbers(half_width, "half_width"))

    def _law(self, value: float) -> Law:
        return UniformLaw(value)


@dataclass(frozen=True, init=False, repr=False)
class Laplace(_Scaled):
    """Adds Laplace noise to each feature: mostly small, now and then large.

    Its density is exp(-|δ| / scale) / (2 scale), its standard deviation √2 · scale.

    Parameters
    ----------
    scale : positive number, one per feature, or a mapping from feature name to number
        The mean absolute change. A pandas Series labelled by feature counts as a mapping.

    Examples
    --------
    >>> Laplace(0.3).laws(1)
    (LaplaceLaw(scale=0.3),)
    """

    def __init__(self, scale: Any) -> None:
        object.__setattr__(self, "_numbers", read_numbers(scale, "scale"))

    def _law(self, value: float) -> Law:
        return LaplaceLaw(value)


@dataclass(frozen=True, init=False, repr=False)
class StudentT(_Scaled):
    """Adds noise from Student's t distribution to each feature: like `Normal`, with heavier tails.

    Parameters
    ----------
    df : positive number
        Degrees of freedom: 1 is the Cauchy distribution, and the larger, the closer to the normal one. The
        standard deviation is scale · √(df / (df - 2)) if df is above 2, else infinite.
    scale : positive number, one per feature, or a mapping from feature name to number
        What the noise is multiplied by. A pandas Series labelled by feature counts as a mapping.

    Examples
    --------
    >>> StudentT(5, 0.3).laws(1)
    (StudentTLaw(df=5.0, scale=0.3),)
    """

    df: float

    def __init__(self, df: float, scale: Any) -> None:
        object.__setattr__(self, "df", positive(df, "df"))
        object.__setattr__(self, "_numbers", read_numbers(scale, "scale"))

    def _law(self, value: float) -> Law:
        return StudentTLaw(self.df, value)

    def __repr__(self) -> str:
        return f"StudentT({self.df!r}, {self._numbers.show()})"


@dataclass(frozen=True, repr=False)
class FromScipy(Noise):
    """Adds noise from a SciPy distribution to each feature.

    Use it for noise that predgap has no class for, e.g. skewed noise (`scipy.stats.gumbel_r`) or whole
    steps (`scipy.stats.randint`). Use `PerFeature` to give features different distributions.

    A perturbed value is the float64 sum x' = x + δ. If it is equal to a threshold t, it is not below it: for
    a discrete distribution P(x' < t) does not include P(x' = t).

    Parameters
    ----------
    frozen : frozen univariate SciPy distribution
        A distribution with its parameters, e.g. `scipy.stats.norm(scale=0.3)`.

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


# ------------------------------------------------------------------------------------------------------------
# The scale is one number for all features, one per feature, by name, or measured from a table.

_SHOWN: Final = 6  # items of a long list, in `repr` and warnings


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
        """The text for `repr`: arguments of the class, or a call that begins with a dot."""


@dataclass(frozen=True, slots=True)
class _ForAll(Numbers):
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
    return _ForAll(positive(value, what))


def _read_named(pairs: list[tuple[Any, Any]], what: str) -> _ByName:
    strange = [name for name, _ in pairs if not isinstance(name, str)]
    if strange:
        raise NoiseError(f"{what} has the key {strange[0]!r}, expected feature names")
    names = tuple(name for name, _ in pairs)
    if len(set(names)) < len(names):
        raise NoiseError(f"{what} names a feature more than once: {format_items(names)}")
    return _ByName(names, tuple(positive(v, f"{what}[{name!r}]") for name, v in pairs), what)


def measure(X: Any, factor: float) -> Measured:
    """`factor` times the standard deviation of each column. Warns of columns that are constant or empty."""
    columns = open_table(X, "Normal.relative cannot use X")
    names = ColumnLabels.of(columns, "relative()")
    labels = [names.label(j) for j in range(columns.n_columns)]
    found = [_measured(columns, j, f"column {labels[j]}") for j in range(columns.n_columns)]
    warn_of_still([labels[j] for j, (size, _) in enumerate(found) if size == 0])
    in_steps = [labels[j] for j, (size, _) in enumerate(found) if size > 0 and has_steps(columns.column(j))]
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


# ------------------------------------------------------------------------------------------------------------
# These laws add a number with a symmetric density to x.


class ContinuousLaw(Law):
    """x' = x + δ, where δ has a density, the same for -δ."""

    __slots__ = ()

    @property
    def continuous(self) -> bool:
        return True

    def areas(self, x: float, low: FloatArray, high: FloatArray) -> Areas:
        return symmetric_areas(lambda u: self._tails_of(0.0, u)[1], self.beyond, x, low, high)

    @abstractmethod
    def beyond(self, u: FloatArray) -> Beyond:
        """The expectations beyond distances u (k,), at least 0; see `Beyond`."""

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        if x.dtype == object:
            raise NoiseError(f"{self!r} is for numbers, but a column holds {x[0]!r}")
        return x + self.draw(len(x), rng)

    @abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """n independent δ."""


@dataclass(frozen=True, slots=True)
class NormalLaw(ContinuousLaw):
    """δ is normal with mean 0 and standard deviation `scale`."""

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive(self.scale, "scale"))

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        return normal_tails(x, thresholds, self.scale)

    def shift(self, x: float, thresholds: FloatArray) -> Shift:
        return normal_shift(x, thresholds, self.scale)

    def beyond(self, u: FloatArray) -> Beyond:
        return normal_beyond(u, self.scale)

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        return rng.normal(0.0, self.scale, n)


@dataclass(frozen=True, slots=True)
class UniformLaw(ContinuousLaw):
    """δ is uniform on [-half_width, half_width]."""

    half_width: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "half_width", positive(self.half_width, "half_width"))

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        return uniform_tails(x, thresholds, self.half_width)

    def shift(self, x: float, thresholds: FloatArray) -> Shift:
        return uniform_shift(x, thresholds, self.half_width)

    def beyond(self, u: FloatArray) -> Beyond:
        return uniform_beyond(u, self.half_width)

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        return self.half_width * rng.uniform(-1.0, 1.0, n)  # the width of the interval may overflow


@dataclass(frozen=True, slots=True)
class LaplaceLaw(ContinuousLaw):
    """δ has the density exp(-|δ| / scale) / (2 scale)."""

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive(self.scale, "scale"))

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        return laplace_tails(x, thresholds, self.scale)

    def shift(self, x: float, thresholds: FloatArray) -> Shift:
        return laplace_shift(x, thresholds, self.scale)

    def beyond(self, u: FloatArray) -> Beyond:
        return laplace_beyond(u, self.scale)

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        return rng.laplace(0.0, self.scale, n)


@dataclass(frozen=True, slots=True)
class StudentTLaw(ContinuousLaw):
    """δ is `scale` times a number from Student's t distribution with `df` degrees of freedom."""

    df: float
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "df", positive(self.df, "df"))
        object.__setattr__(self, "scale", positive(self.scale, "scale"))

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        return student_tails(x, thresholds, self.df, self.scale)

    def shift(self, x: float, thresholds: FloatArray) -> Shift:
        self._check_variance()
        return student_shift(x, thresholds, self.df, self.scale)

    def beyond(self, u: FloatArray) -> Beyond:
        self._check_variance()
        return student_beyond(u, self.df, self.scale)

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        return self.scale * rng.standard_t(self.df, n)

    def _check_variance(self) -> None:
        if self.df <= 2:
            raise NoiseError(f"StudentT with {self.df:g} degrees of freedom has no variance; use more than 2")


# ------------------------------------------------------------------------------------------------------------
# SciPy's distributions are recognised by their attributes, because importing scipy.stats is slow.

_FREEZE: Final = "expected a frozen univariate SciPy distribution such as scipy.stats.norm(scale=0.3)"


@dataclass(frozen=True, slots=True)
class ScipyLaw(Law):
    """x' = x + δ, where δ has a frozen SciPy distribution. Tails are as accurate as its cdf and sf."""

    frozen: Any

    def __post_init__(self) -> None:
        _check_frozen(self.frozen)
        self.tails(np.zeros(1), np.array([-1.0, 0.0, 1.0]))  # raises now if the parameters are invalid

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        if not hasattr(self.frozen, "pmf"):
            with np.errstate(over="ignore"):  # an overflow to infinity gives the right tails, 0 and 1
                delta = thresholds[None, :] - x[:, None]
            below, above = self.frozen.cdf(delta), self.frozen.sf(delta)
        elif hasattr(self.frozen.dist, "xk"):
            below, above = _listed_tails(self.frozen, x, thresholds)
        else:
            below, above = _lattice_tails(self.frozen, x[:, None], thresholds[None, :])
        if np.isnan(below).any() or np.isnan(above).any():
            raise NoiseError(
                f"{show_frozen(self.frozen)} has probabilities that are NaN; check its parameters"
            )
        return np.asarray(below, dtype=np.float64), np.asarray(above, dtype=np.float64)

    @property
    def continuous(self) -> bool:
        return not hasattr(self.frozen, "pmf")

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        if x.dtype == object:
            raise NoiseError(f"{show_frozen(self.frozen)} is for numbers, but a column holds {x[0]!r}")
        drawn: FloatArray = x + self.frozen.rvs(size=len(x), random_state=rng)
        return drawn

    def avoiding(self, low: float, high: float) -> Law:
        if hasattr(self.frozen, "pmf") and low <= high:
            raise may_be_missing(repr(self), 0.5 * low + 0.5 * high)
        return self

    def __repr__(self) -> str:
        return f"FromScipy({show_frozen(self.frozen)})"


def show_frozen(frozen: Any) -> str:
    """A frozen distribution as a user would write it, e.g. t(df=5, scale=0.3)."""
    name = getattr(frozen.dist, "name", None) or type(frozen.dist).__name__
    parts = [repr(value) for value in frozen.args] + [
        f"{key}={value!r}" for key, value in frozen.kwds.items()
    ]
    return f"{name}({', '.join(parts)})"


def _check_frozen(frozen: Any) -> None:
    if hasattr(frozen, "freeze") and not hasattr(frozen, "dist"):
        name = getattr(frozen, "name", None) or type(frozen).__name__
        raise NoiseError(f"the distribution {name} is not frozen; call it first, as in {name}(...)")
    if not all(hasattr(frozen, part) for part in ("cdf", "sf", "dist", "args", "kwds")):
        raise NoiseError(f"FromScipy got {shown(frozen)} ({type(frozen).__name__}), {_FREEZE}")
    shape = np.shape(frozen.cdf(0.0))
    if shape:
        raise NoiseError(
            f"{show_frozen(frozen)} has parameters of shape {shape}, expected single numbers; to give each "
            "feature its own distribution, use PerFeature"
        )
    with np.errstate(invalid="ignore"):  # loc=inf
        support = frozen.support()
    if np.isnan(support).any():
        raise NoiseError(f"the support of {show_frozen(frozen)} is NaN; check its parameters")


def _location(frozen: Any) -> tuple[tuple[Any, ...], dict[str, Any], float]:
    """Shape parameters and loc of a frozen discrete distribution."""
    n_shapes = frozen.dist.numargs
    shapes, rest = frozen.args[:n_shapes], frozen.args[n_shapes:]
    named = {key: value for key, value in frozen.kwds.items() if key != "loc"}
    return shapes, named, float(rest[0] if rest else frozen.kwds.get("loc", 0.0))


def _lattice_tails(frozen: Any, x: FloatArray, thresholds: FloatArray) -> tuple[Any, Any]:
    """Tails of x + δ for δ = loc + k with integers k, from SciPy's tails at the first k with x + δ >= t."""
    shapes, named, loc = _location(frozen)
    first = np.ceil(thresholds - x - loc)
    # t - x - loc may have been rounded across an integer. What counts is the rounded sum x + (k + loc).
    first = np.where(x + (first - 1 + loc) >= thresholds, first - 1, first)
    first = np.where(x + (first + loc) < thresholds, first + 1, first)
    # Without loc, because SciPy's floor(k + loc - loc) may round to k - 1.
    return frozen.dist.cdf(first - 1, *shapes, **named), frozen.dist.sf(first - 1, *shapes, **named)


def _listed_tails(frozen: Any, x: FloatArray, thresholds: FloatArray) -> Tails:
    """Tails of a distribution that is given by its values and probabilities, rv_discrete(values=...)."""
    *_, loc = _location(frozen)
    delta, p = np.asarray(frozen.dist.xk) + loc, np.asarray(frozen.dist.pk, dtype=np.float64)
    first = np.array([np.searchsorted(row + delta, thresholds) for row in x], dtype=np.intp)
    return tails_from(p, first.reshape(len(x), len(thresholds)))
