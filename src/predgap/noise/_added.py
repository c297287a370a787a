"""Noises that add a random number to a feature: `Normal`, `Uniform`, `Laplace`, `StudentT`, `FromScipy`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from predgap._inputs.one_hot import OneHot
from predgap.noise._added_laws import LaplaceLaw, NormalLaw, StudentTLaw, UniformLaw
from predgap.noise._laws import Law, StillLaw, positive
from predgap.noise._noise import Noise
from predgap.noise._scales import (
    ColumnLabels,
    Measured,
    Names,
    Numbers,
    Ranges,
    measure,
    read_numbers,
)
from predgap.noise._scipy_laws import ScipyLaw, show_frozen


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
