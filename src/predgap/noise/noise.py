"""All noises inherit from `Noise`, and those that have a table from `TableNoise`.

A noise becomes one law per feature of a model (`noise.law`). `ColumnLabels` matches the columns of a noise's
table to the features of the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import is_missing
from predgap._inputs.one_hot import OneHot
from predgap._inputs.subsets import are_default, match_names
from predgap._inputs.tables import Columns, by_name, open_columns, replaced, to_native
from predgap._text import count, format_items
from predgap._typing import BoolArray, FloatArray
from predgap.errors import NoiseError, TableError
from predgap.noise.law import Law


@dataclass(frozen=True, slots=True)
class ModelFeatures:
    """The facts that a noise with a table needs about a model, to read the table as the model does."""

    n_features: int
    names: Names
    categorical: frozenset[int]  # the features that the model splits on by categories
    missing: float  # the number that means missing to the model, beside NaN
    is_missing: Callable[[FloatArray], BoolArray]  # which numbers the model takes for missing


class Noise(ABC):
    """Base class of all noises: how features are perturbed. Immutable.

    Features are perturbed independently of each other, but for `Background`.

    To write a noise of your own, subclass it and define `laws_of`, which returns one `Law` per feature. An
    `Explainer` asks only for the features that the model splits on; perturbing the others changes nothing.
    """

    joint: ClassVar[bool] = False
    """Do features move together, so that there is no noise of a single one? Only of `Background`."""

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

    def with_strength(self, strength: float) -> Noise:
        """The same noise with another strength.

        Raises
        ------
        NoiseError
            If the noise has no strength: `Relative` and `Normal.relative` have one.
        """
        raise NoiseError(
            f"{self!r} has no strength to change; use Relative(X, {strength!r}), or Normal.relative"
        )

    def sample(self, X: Any, seed: int | np.random.Generator = 0) -> Any:
        """Draws x' for every row x of X: all columns are perturbed, each independently.

        Use it to look at perturbed rows, or to check a gap with the model's own predictions. A missing value
        stays missing, and so does an infinite one unless the noise replaces it. Text and categorical columns
        of a frame are labels.

        Parameters
        ----------
        X : (n, d) NumPy array, pandas or Polars DataFrame, PyArrow Table, or list of rows
            The rows to perturb.
        seed : int or numpy.random.Generator, default=0
            The same seed gives the same rows.

        Returns
        -------
        array (n, d) or frame
            A frame of the same library if X is one, else an array. All numbers are float64, those of columns
            of integers and booleans, too.

        Examples
        --------
        >>> from predgap import Rounded, Uniform
        >>> Rounded(Uniform(2.0)).sample([[10.0, None], [20.0, 5.0]], seed=1)
        array([[10., nan],
               [22.,  4.]])
        """
        columns = open_columns(X)
        rng = np.random.default_rng(seed)
        names = None if columns.numbered else columns.names
        laws = self.laws(columns.n_columns, names)
        return replaced(X, columns, [_drawn(law, columns, j, rng) for j, law in enumerate(laws)])

    @abstractmethod
    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        """The laws of the features with these indices. Errors of other features must not be raised."""

    def names_for(self, n_features: int) -> Names:
        """The names that a model of so many features without names takes from the table of the noise; None if
        there is no table, or its columns have no names, or they are not as many. NoiseError if there are
        several tables that do not agree."""
        found = {
            names: None for table in self._tables() if (names := table.names_for(n_features)) is not None
        }
        if len(found) > 1:
            one, other, *_ = found
            raise NoiseError(
                f"the tables given to the noises of {type(self).__name__} have different columns, or the "
                f"same in another order: {format_items(one)}, and {format_items(other)}. The model has no "
                "names, so that the order of its features is not known: pass feature_names=, or tables with "
                "the same columns"
            )
        return next(iter(found), None)

    def ranges_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> Ranges:
        """The range of each of these features in the table of the noise, if numbers are added to it; else
        None."""
        return (None,) * len(features)

    def with_one_hot(self, one_hot: OneHot) -> Noise:
        """The noise for a model in which dummies became categories; a noise with a table reads it so."""
        return self

    def for_model(self, features: ModelFeatures) -> Noise:
        """The noise for a model with these features; a noise with a table reads it as the model does."""
        return self

    def _tables(self) -> tuple[ColumnLabels, ...]:
        """The columns of the tables that the noise was built from."""
        return ()

    def _with(self, **changes: Any) -> Self:
        """The same noise with other values of some attributes."""
        made = object.__new__(type(self))
        for name, value in (vars(self) | changes).items():
            object.__setattr__(made, name, value)
        return made


class TableNoise(Noise):
    """A noise that is read off a table."""

    DESCRIBED: ClassVar = ("column", "kind", "law", "move", "relative_move", "outside")

    _table: Columns
    _labels: ColumnLabels

    def _use(self, table: Columns) -> None:
        """Remembers the table."""
        object.__setattr__(self, "_table", table)
        object.__setattr__(self, "_labels", ColumnLabels.of(table, f"{type(self).__name__}()"))

    def _tables(self) -> tuple[ColumnLabels, ...]:
        return (self._labels,)

    def with_one_hot(self, one_hot: OneHot) -> Self:
        try:
            table = one_hot.columns(self._table)
        except TableError as error:
            raise self.unusable(error) from None
        made = self._with()
        made._use(table)
        return made

    def _as_frame(self, rows: Sequence[tuple[Any, ...]]) -> Any:
        """Makes a frame of what is told of each column, in the library of the table."""
        named = [(self._labels.names[j] if self._labels.names else j, *row) for j, row in enumerate(rows)]
        columns = dict(zip(self.DESCRIBED, map(list, zip(*named, strict=True)), strict=True))
        return to_native(columns, self._table.backend)

    def unusable(self, error: TableError) -> NoiseError:
        """The error to raise if the table does not fit the model."""
        return NoiseError(f"{type(self).__name__} cannot use X: {error}")


def _drawn(law: Law, columns: Columns, j: int, rng: np.random.Generator) -> NDArray[Any]:
    """Column j after the noise, (n,): floats, or objects if it holds labels."""
    try:
        old: NDArray[Any] = columns.column(j)
        moves = ~np.isnan(old) if law.replaces else np.isfinite(old)
    except TableError:
        old = np.empty(columns.n_rows, dtype=object)
        old[:] = columns.labels(j)
        moves = np.array([not is_missing(value) for value in old], dtype=np.bool_)
    new = old.copy()
    if moves.any():
        new[moves] = law.sample(old[moves], rng)
    return new


def check_single(noise: Noise, given_to: str) -> None:
    """NoiseError if it is no noise of single features."""
    if noise.joint:
        raise NoiseError(
            f"{given_to} got {noise!r}, which moves features together and has no noise of a single one; use "
            "Marginal(X), which draws each feature by itself, or Background alone"
        )


# ------------------------------------------------------------------------------------------------------------
# The columns of a table that was given to a noise have labels.

Names = tuple[str, ...] | None
Ranges = tuple["Range | None", ...]


@dataclass(frozen=True, slots=True)
class Range:
    """The smallest and the largest number of a column, but for values that are kept."""

    low: float
    high: float
    kept: tuple[float, ...] = ()  # values that do not move, which may be anywhere


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
        """The text that names column j in a message."""
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


def open_table(X: Any, what_fails: str) -> Columns:
    """The columns of a table; NoiseError, which begins with `what_fails`, if X is not a table or empty."""
    try:
        columns = open_columns(X)
    except TableError as error:
        raise NoiseError(f"{what_fails}: {error}") from None
    if columns.n_rows == 0:
        raise NoiseError(f"{what_fails}: it has no rows")
    return columns
