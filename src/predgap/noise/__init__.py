"""Noise: how the features of a row are perturbed. An `Explainer` takes one.

A `Noise` may be the same for all features, or given by feature name or index. For a given model it becomes
one `Law` per feature, which gives the probability that the perturbed value x' is below a threshold, or is a
given category.
"""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from predgap._inputs.categories import is_missing
from predgap._inputs.names import match_names
from predgap._inputs.tables import Columns
from predgap._text import count, format_items, names_or_default
from predgap._typing import FloatArray
from predgap.errors import NoiseError
from predgap.noise._laws import (
    ColumnLaw,
    DiscreteLaw,
    FlipLaw,
    Law,
    NormalLaw,
    StillLaw,
    UniformLaw,
    positive,
)
from predgap.noise._scales import ColumnLabels, Names, Numbers, measure, open_table, read_numbers, shortened
from predgap.noise._scipy_laws import ScipyLaw, show_frozen


class Noise(ABC):
    """Base class of all noises: how features are perturbed, independently of each other. Immutable.

    To write a noise of your own, subclass it and define `laws_of`, which returns one `Law` per feature. An
    `Explainer` asks only for the features that the model splits on; perturbing the others changes nothing.
    """

    def laws(self, n_features: int, feature_names: Sequence[str] | None = None) -> tuple[Law, ...]:
        """The law of each feature of a model.

        Parameters
        ----------
        n_features : int
            The number of features of the model, d.
        feature_names : sequence of d strings, or None, default=None
            Their names. Without them, a noise that is given by name expects f0, f1, ...

        Returns
        -------
        tuple of d Law

        Raises
        ------
        NoiseError
            If the noise does not fit these features.
        """
        names = None if feature_names is None else tuple(feature_names)
        return self.laws_of(range(n_features), n_features, names)

    @abstractmethod
    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        """The laws of the features with these indices. Errors of other features must not be raised."""


@dataclass(frozen=True)
class _Scaled(Noise):
    """One family of laws with a positive number per feature. A feature whose number is 0 does not move."""

    _numbers: Numbers

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

        The standard deviation is the population's (ddof=0), over the values that are not missing. A column
        that is constant or has no values is not perturbed, and a warning says so. If X has column names, they
        are matched to the model's feature names, and other columns (such as the target) are ignored;
        otherwise columns are matched by position.

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
        made = cls.__new__(cls)
        object.__setattr__(made, "_numbers", measure(X, positive(factor, "factor")))
        return made

    @staticmethod
    def _law(value: float) -> Law:
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

    @staticmethod
    def _law(value: float) -> Law:
        return UniformLaw(value)


@dataclass(frozen=True, repr=False)
class FromScipy(Noise):
    """Adds noise from a SciPy distribution to each feature.

    Use it for noise that predgap has no class for, e.g. heavy tails (`scipy.stats.t`) or whole steps
    (`scipy.stats.randint`). Use `PerFeature` to give features different distributions.

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


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Marginal(Noise):
    """Replaces each feature by a value drawn from its own column of X, independently of its old value.

    Use it to ask what happens if a feature is unknown. Each column is drawn from independently, so the
    perturbed row may combine values that never occur together in X.

    Missing values of X are not drawn, and numbers are rounded as the model rounds its rows. Categories are
    labels if X is a frame, codes if it is an array. Categories that the model does not know (such as those
    that were too rare for LightGBM) go the way that the model sends unknown ones. Columns are matched as in
    `Normal.relative`. X is copied, so later changes of it have no effect.

    Parameters
    ----------
    X : (n, d) NumPy array, pandas or Polars DataFrame, PyArrow Table, or list of rows
        The table to draw from, usually the training table.

    Examples
    --------
    >>> (law,) = Marginal([[1.0], [2.0], [4.0], [4.0]]).laws(1)
    >>> law.tails(np.zeros(1), np.array([2.0, 4.0]))[0]
    array([[0.25, 0.5 ]])
    """

    def __init__(self, X: Any) -> None:
        columns = open_table(X, "Marginal cannot use X").copied()
        object.__setattr__(self, "_table", columns)
        object.__setattr__(self, "_labels", ColumnLabels.of(columns, "Marginal()"))

    _table: Columns
    _labels: ColumnLabels

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        places = self._labels.places(features, n_features, feature_names)
        return tuple(ColumnLaw(self._table, j) for j in places)

    def __repr__(self) -> str:
        return f"Marginal(<{count(self._table.n_rows, 'row')}>)"


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Discrete(Noise):
    """Replaces each feature by one of the given values, independently of its old value.

    Use it, inside `PerFeature`, for a feature with few possible values whose probabilities you know.

    Parameters
    ----------
    values : sequence of k different values
        For a categorical feature, labels that the model knows; for a numeric feature, numbers. None and NaN
        are not allowed: noise cannot make a value missing.
    probabilities : sequence of k numbers, or None, default=None
        The probability of each value; not negative, with sum 1. None makes all values equally likely.

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
            raise NoiseError(
                f"values is {reprlib.repr(values)}; Discrete values must not contain None or NaN, because "
                "noise cannot make a value missing"
            )
        if len(set(given)) < len(given):
            raise NoiseError(f"values contains a value more than once: {format_items(given)}")
        object.__setattr__(self, "values", given)
        object.__setattr__(self, "probabilities", _shares(probabilities, len(given)))

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        return (DiscreteLaw(self.values, self.probabilities),) * len(features)

    def __repr__(self) -> str:
        shares = shortened(list(map(repr, self.probabilities.tolist())))
        return f"Discrete([{shortened(list(map(repr, self.values)))}], [{shares}])"


def _shares(probabilities: Sequence[float] | None, n: int) -> FloatArray:
    """n probabilities, divided by their sum so that it is 1 up to rounding."""
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
    """Changes each feature with probability p: to another of its categories, all equally likely.

    Use it for categorical features, and for numeric ones that are 0 or 1, which change to the other value.

    The categories are those that the model knows. A row with an unknown category raises `NoiseError`. A
    CatBoost model stores only the categories that it splits on, not all of them: give its categorical
    features `Discrete` or `Marginal` noise instead.

    Parameters
    ----------
    p : number above 0, at most 1
        The probability that a feature changes.

    Examples
    --------
    >>> Flip(0.1)
    Flip(0.1)
    """

    p: float

    def __post_init__(self) -> None:
        number = positive(self.p, "p")
        if number > 1:
            raise NoiseError(f"p is {self.p!r}, expected a probability, above 0 and at most 1")
        object.__setattr__(self, "p", number)

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        return (FlipLaw(self.p),) * len(features)

    def __repr__(self) -> str:
        return f"Flip({self.p!r})"


@dataclass(frozen=True, init=False, repr=False)
class PerFeature(Noise):
    """Combines noises: a different one for some features, and a default for the rest.

    Use it for tables with both numeric and categorical columns.

    Parameters
    ----------
    noises : mapping from feature name or index to Noise
        The noise of these features.
    default : Noise, or None, default=None
        The noise of all other features. Without it, `noises` must have every feature that the model splits
        on.

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
                f"no noise for {count(len(rest), 'feature')}: {format_items(names[j] for j in rest)}; "
                "add them, or give default="
            )
        others = self.default.laws_of(rest, n_features, feature_names) if self.default is not None else ()
        laws = dict(zip(rest, others, strict=True))
        for j in features:
            if j in own:
                (laws[j],) = own[j].laws_of([j], n_features, feature_names)
        return tuple(laws[j] for j in features)

    def _placed(self, n_features: int, feature_names: Names) -> dict[int, Noise]:
        """The noises that were given, by feature index."""
        place = self._places(n_features, feature_names)
        unknown = [key for key, _ in self.noises if key not in place]
        if unknown:
            raise NoiseError(
                f"the model has no feature {format_items(unknown)}; its {n_features} features are "
                f"{format_items(names_or_default(n_features, feature_names))}"
            )
        placed: dict[int, Noise] = {}
        for key, noise in self.noises:
            if place[key] in placed:
                name = names_or_default(n_features, feature_names)[place[key]]
                raise NoiseError(f"feature {name!r} is given twice, by name and by index")
            placed[place[key]] = noise
        return placed

    def _places(self, n_features: int, feature_names: Names) -> dict[str | int, int]:
        """The feature that each of the keys means, if there is one."""
        place: dict[str | int, int] = {
            key: key for key, _ in self.noises if isinstance(key, int) and 0 <= key < n_features
        }
        names = [key for key, _ in self.noises if isinstance(key, str)]
        if names:
            place.update(match_names(names, names_or_default(n_features, feature_names), NoiseError))
        return place

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
