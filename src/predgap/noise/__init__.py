"""Noise: how each feature is perturbed.

A `Noise` is what a user writes; it may speak of names or of all features at once. Meeting a model, it
becomes one `Law` per feature, and a law says with which probability x' = x + δ lies below a threshold.
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
    """How a model's features are perturbed, independently of each other; immutable.

    A subclass says in `laws_of` which law each feature gets. An `Explainer` asks for the laws of those
    features that some split of the model uses: the others change nothing, and need no noise.
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
        object.__setattr__(self, "_numbers", read_numbers(scale, "scale"))

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
        object.__setattr__(made, "_numbers", measure(X, positive(factor, "factor")))
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
        object.__setattr__(self, "_numbers", read_numbers(half_width, "half_width"))

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
    feature they are its labels, or in an array its codes. Those that the model does not know, such as
    categories that were too rare for LightGBM, go where it sends unseen ones. Columns are matched as in
    `Normal.relative`. X is copied: changing it later changes nothing.

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
        columns = open_table(X, "no marginal of X").copied()
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
            raise NoiseError(
                f"values is {reprlib.repr(values)}: they must not contain None or NaN, for a value does not "
                "become missing"
            )
        if len(set(given)) < len(given):
            raise NoiseError(f"values holds one more than once: {format_items(given)}")
        object.__setattr__(self, "values", given)
        object.__setattr__(self, "probabilities", _shares(probabilities, len(given)))

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        return (DiscreteLaw(self.values, self.probabilities),) * len(features)

    def __repr__(self) -> str:
        shares = shortened(list(map(repr, self.probabilities.tolist())))
        return f"Discrete([{shortened(list(map(repr, self.values)))}], [{shares}])"


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
        For all other features; without it, every feature that the model uses must be given.

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
        """The given noises by feature index."""
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
