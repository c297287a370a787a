"""These noises replace a feature by another value; their laws are here, too.

They are `Marginal`, `Discrete` and `Flip`.
"""

from __future__ import annotations

import math
import numbers
import reprlib
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import Categories, is_missing
from predgap._inputs.tables import Columns
from predgap._text import count, format_items, shown
from predgap._typing import BoolArray, FloatArray
from predgap.errors import NoiseError, TableError
from predgap.noise.added import shortened
from predgap.noise.law import Law, kept_numbers, may_be_missing, objects_of, positive
from predgap.noise.noise import Names, Noise, TableNoise, open_table
from predgap.noise.tails import Tails, listed_tails


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


# ------------------------------------------------------------------------------------------------------------
# These laws replace x by one of some values, or by another category.


class ReplacingLaw(Law):
    """x' is a new value, independent of x."""

    __slots__ = ()

    @property
    def replaces(self) -> bool:
        return True

    @property
    def forgets(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, eq=False)
class DiscreteLaw(ReplacingLaw):
    """x' is one of these values, independently of x; for a categorical feature they are labels."""

    values: tuple[Any, ...]
    probabilities: FloatArray  # sum to 1

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        below, above = listed_tails(self._numbers(), self.probabilities, thresholds)
        shape = (len(x), len(thresholds))
        return np.broadcast_to(below, shape), np.broadcast_to(above, shape)

    def points(self, x: float, low: float = -math.inf, high: float = math.inf) -> FloatArray:
        return self._numbers()

    def category_probabilities(self, levels: Categories) -> FloatArray:
        at = levels.levels_of(levels.codes_of(self.values))
        if (at < 0).any():
            strange = self.values[int(np.flatnonzero(at < 0)[0])]
            raise NoiseError(f"{strange!r} is not {known_categories(levels)}")
        return np.bincount(at, weights=self.probabilities, minlength=len(levels)).astype(np.float64)

    def avoiding(self, low: float, high: float) -> Law:
        for value in self._numbers().tolist():
            if low <= value <= high:
                raise may_be_missing("Discrete", value)
        return self

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        values = objects_of(self.values) if x.dtype == object else self._numbers()
        drawn: NDArray[Any] = values[rng.choice(len(values), len(x), p=self.probabilities)]
        return drawn

    def _numbers(self) -> FloatArray:
        strange = [v for v in self.values if isinstance(v, bool) or not isinstance(v, numbers.Real)]
        if strange:
            raise NoiseError(
                f"Discrete has the value {shown(strange[0])} for a numeric feature; expected numbers"
            )
        return np.array(self.values, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class FlipLaw(Law):
    """The law of an x' that is, with probability p, another category, all equally likely; numbers are 0 or
    1."""

    p: float

    @property
    def replaces(self) -> bool:
        return True

    @property
    def known_only(self) -> bool:
        return True

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        _check_flags(x)
        here, there = x[:, None] < thresholds, (1 - x)[:, None] < thresholds
        return _flipped(here, there, self.p), _flipped(~here, ~there, self.p)

    def points(self, x: float, low: float = -math.inf, high: float = math.inf) -> FloatArray:
        return np.array([0.0, 1.0])

    def avoiding(self, low: float, high: float) -> Law:
        for value in (0.0, 1.0):
            if low <= value <= high:
                raise may_be_missing("Flip", value)
        return self

    def movable(self, x: FloatArray) -> FloatArray:
        return np.where(np.isnan(x), x, x > 0.5)

    def category_probabilities(self, levels: Categories) -> FloatArray:
        if not levels.complete:
            raise NoiseError(
                "Flip needs all categories, but the model does not store them; use Relative, Marginal or "
                "Discrete noise, or load it with those of the training table: predgap.load(model, levels=X)"
            )
        if len(levels) < 2:
            return np.zeros(len(levels))
        return np.full(len(levels), self.p / (len(levels) - 1))

    def staying_probabilities(self, levels: Categories) -> FloatArray:
        return np.full(len(levels), 1.0 - self.p if len(levels) > 1 else 1.0)

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        changes = rng.random(len(x)) < self.p
        if x.dtype != object:
            _check_flags(x)
            return np.where(changes, 1.0 - x, x)
        labels = list(dict.fromkeys(x.tolist()))  # the categories are those of x
        place = {label: k for k, label in enumerate(labels)}
        own = np.array([place[label] for label in x.tolist()], dtype=np.intp)
        step = rng.integers(1, max(2, len(labels)), len(x)) * changes
        drawn: NDArray[Any] = objects_of(labels)[(own + step) % max(1, len(labels))]
        return drawn


@dataclass(frozen=True, slots=True, eq=False)
class MarginalLaw(ReplacingLaw):
    """x' is drawn from these values, independently of x."""

    values: FloatArray  # ascending

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        n = len(self.values)
        below = np.searchsorted(self.values, thresholds, side="left")
        shape = (len(x), len(thresholds))
        return np.broadcast_to(below / n, shape), np.broadcast_to((n - below) / n, shape)

    def points(self, x: float, low: float = -math.inf, high: float = math.inf) -> FloatArray:
        return self.values

    def avoiding(self, low: float, high: float) -> Law:
        present = self.values[~((low <= self.values) & (self.values <= high))]
        if len(present) == 0:
            raise NoiseError(
                f"Marginal cannot use X: a column holds nothing but {self.values[0]:g}, which means missing"
            )
        return MarginalLaw(present)

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        return rng.choice(self.values, len(x))


def _check_flags(x: FloatArray) -> None:
    strange = x[(x != 0) & (x != 1)]
    if len(strange):
        raise NoiseError(f"Flip switches a numeric feature between 0 and 1, but a row has {strange[0]:g}")


def known_categories(levels: Categories) -> str:
    shown = format_items(levels.labels or ())
    return f"among the {len(levels)} categories that the model knows: {shown}"


def _flipped(here: NDArray[np.bool_], there: NDArray[np.bool_], p: float) -> FloatArray:
    """The probability of an event after a flip; `here` and `there`: does it hold at x, at the other value?"""
    return np.where(here, np.where(there, 1.0, 1.0 - p), np.where(there, p, 0.0))


# ------------------------------------------------------------------------------------------------------------
# This law draws a feature from a column of a table.


@dataclass(frozen=True, slots=True, eq=False)
class ColumnLaw(ReplacingLaw):
    """x' is drawn from the values of a column of a table that are not missing, independently of x."""

    table: Columns
    j: int
    without: tuple[Any, ...] = ()  # values or labels that are not drawn, and do not move
    given_to: str = "Marginal"  # the noise, for messages
    missing: float = math.nan  # the number or code that means missing

    def __reduce__(self) -> tuple[Any, ...]:
        own = self.table.only([self.j])  # the rest of the table is not needed
        return ColumnLaw, (own, 0, self.without, self.given_to, self.missing)

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        return self._marginal().tails(x, thresholds)

    def avoiding(self, low: float, high: float) -> Law:
        return self._marginal().avoiding(low, high)

    def category_probabilities(self, levels: Categories) -> FloatArray:
        counts, n = self._counts(levels)
        return counts / n

    def unseen_probability(self, levels: Categories) -> float:
        counts, n = self._counts(levels)
        return (n - int(counts.sum())) / n

    def kept(self, levels: Categories) -> FloatArray:
        """The codes of the labels in `without`.

        NoiseError if one of them is also the code of another label in the column: the model does not tell the
        two apart, so one cannot stay while the other one moves.
        """
        if not self.without:
            return np.empty(0)
        codes, stays = self._codes(levels), self._is_without()
        known = np.array([levels.own_code(value) for value in self.without])
        kept = np.union1d(codes[stays & ~np.isnan(codes)], known[known >= 0])
        shared = np.isin(codes, kept) & ~stays & ~np.isin(codes, known[known >= 0])
        if shared.any():
            labels = self.table.labels(self.j)
            other = labels[int(np.flatnonzero(shared)[0])]
            same = stays & (codes == codes[int(np.flatnonzero(shared)[0])])
            advice = "; load it with its categories: predgap.load(model, levels=X)"
            raise NoiseError(
                f"keep holds {format_items([labels[int(np.flatnonzero(same)[0])]])}, but the model does not "
                f"tell it from {format_items([other])}{'' if levels.complete else advice}"
            )
        return kept

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        if x.dtype != object:
            return self._marginal().sample(x, rng)
        labels = [v for v in self.table.labels(self.j) if not is_missing(v) and v not in self.without]
        if not labels:
            raise self._empty()
        return objects_of(labels)[rng.integers(len(labels), size=len(x))]

    def _counts(self, levels: Categories) -> tuple[NDArray[np.int64], int]:
        """The counts (m,) of the known categories in the column, and the number of all its values."""
        codes = self._present(self._codes(levels), self.kept(levels))
        at = levels.levels_of(codes)
        unknown, n = int((at < 0).sum()), len(codes)
        if unknown == n or (unknown and levels.closed):
            raise NoiseError(
                f"{unknown} of {n} values of column {self._label()} are not {known_categories(levels)}"
            )
        if (codes != np.trunc(codes)).any():
            raise NoiseError(
                f"column {self._label()} holds {codes[codes != np.trunc(codes)][0]:g}; expected whole "
                "numbers, the codes of categories"
            )
        return np.bincount(at[at >= 0], minlength=len(levels)), n

    def _marginal(self) -> MarginalLaw:
        try:
            values = self.table.column(self.j)
        except TableError as error:
            raise self._cannot(str(error)) from None
        return MarginalLaw(np.sort(self._present(values, kept_numbers(self.without))))

    def _codes(self, levels: Categories) -> FloatArray:
        try:
            return self.table.codes(self.j, levels)
        except TableError as error:
            raise self._cannot(str(error)) from None

    def _is_without(self) -> BoolArray:
        """True for the values of the column that are not drawn."""
        try:
            return np.isin(self.table.column(self.j), kept_numbers(self.without))
        except TableError:  # labels
            labels = self.table.labels(self.j)
            return np.array([not is_missing(v) and v in self.without for v in labels], dtype=np.bool_)

    def _present(self, values: FloatArray, without: FloatArray) -> FloatArray:
        """The values that may be drawn, numbers or codes."""
        present: FloatArray = values[
            ~(np.isnan(values) | np.isin(values, without) | np.isin(values, kept_numbers([self.missing])))
        ]
        if len(present) == 0:
            raise self._empty()
        return present

    def _empty(self) -> NoiseError:
        return self._cannot(f"column {self._label()} has no values")

    def _cannot(self, reason: str) -> NoiseError:
        return NoiseError(f"{self.given_to} cannot use X: {reason}")

    def _label(self) -> str:
        return repr(self.table.names[self.j]) if self.table.names else str(self.j)
