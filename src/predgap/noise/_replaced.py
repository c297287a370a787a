"""Noises that replace a feature by another value: `Marginal`, `Discrete`, `Flip`."""

from __future__ import annotations

import reprlib
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from predgap._inputs.categories import is_missing
from predgap._text import count, format_items
from predgap._typing import FloatArray
from predgap.errors import NoiseError
from predgap.noise._laws import DiscreteLaw, FlipLaw, Law, positive
from predgap.noise._noise import Noise, TableNoise
from predgap.noise._scales import Names, open_table, shortened
from predgap.noise._table_laws import ColumnLaw


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Marginal(TableNoise):
    """Replaces each feature by a value drawn from its own column of X, independently of its old value.

    Use it to ask what happens if a feature is unknown. Each column is drawn from independently, so the
    perturbed row may combine values that never occur together in X.

    Missing values of X are not drawn. Categories are labels if X is a frame, codes if it is an array. Those
    that the model does not know (such as those that were too rare for LightGBM) go the way that the model
    sends unknown ones. Columns are matched as in `Normal.relative`. X is copied, so later changes of it have
    no effect.

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
        self._use(open_table(X, "Marginal cannot use X").copied())

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
    CatBoost model does not store its categories: load it with those of the training table,
    `predgap.load(model, levels=X)`, or give its categorical features `Discrete` or `Marginal` noise.

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
