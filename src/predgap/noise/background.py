"""`Background` gives the perturbed features the values of a random row of a table, together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import Categories
from predgap._inputs.tables import open_columns, replaced
from predgap._text import count, shown
from predgap._typing import FloatArray
from predgap.errors import NoiseError, TableError
from predgap.noise.columns import read_column
from predgap.noise.law import Law, objects_of
from predgap.noise.noise import Names, TableNoise, open_table

_MAX_ROWS: Final = 200


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Background(TableNoise):
    """Gives the perturbed features the values that they have in a random row of X, all from the same row.

    PG²(x, S) is then the mean, over the rows b of X, of (f(x with x_S := b_S) - f(x))². Use it if independent
    noise makes rows that are unlike the data: features of S that depend on each other stay as they occur
    together. What is in S still need not fit to what is not. Answers are exact; nothing is sampled, so
    `Explainer.estimate` and `Explainer.approximate` have only the method "exact".

    A missing value of b is taken over like any other value, so a feature may become missing, and a missing
    value of x is replaced like any other. Categories are labels if X is a frame, codes if it is an array;
    those that the model does not know go the way that the model sends unknown ones. Columns are matched as in
    `Normal.relative`. Background cannot be part of another noise, such as `PerFeature` or `Stay`, because it
    has no noise of single features.

    Parameters
    ----------
    X : (n, d) NumPy array, pandas or Polars DataFrame, PyArrow Table, or list of rows
        The table to draw from, usually the training table. It is copied.
    max_rows : int, default=200
        If X has more rows, so many of them are drawn once, without replacement, and used for all answers: the
        mean over them is then the definition. Time grows in proportion to the number of rows that are used.
    seed : int, default=0
        The seed of this draw: the same seed, X and `max_rows` give the same rows.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Marginal
    >>> X = [[0, 0], [0, 0], [1, 1], [1, 1]]  # the two features are always equal
    >>> model = DecisionTreeRegressor(random_state=0).fit([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 9, 9, 1])
    >>> Explainer(model, Background(X)).gap([[0, 0]], [0, 1])  # 0 becomes 0 or 1
    array([0.5])
    >>> Explainer(model, Marginal(X)).gap([[0, 0]], [0, 1])  # or 9, where they differ
    array([40.75])
    """

    def __init__(self, X: Any, *, max_rows: int = _MAX_ROWS, seed: int = 0) -> None:
        most, seed = _whole(max_rows, "max_rows", 1), _whole(seed, "seed", 0)
        columns = open_table(X, "Background cannot use X")
        if columns.n_rows > most:
            drawn = np.random.default_rng(seed).choice(columns.n_rows, most, replace=False)
            table = columns.at(np.sort(drawn))
        else:
            table = columns.copied()
        object.__setattr__(self, "seed", seed)
        object.__setattr__(self, "_n_given", columns.n_rows)
        self._use(table)

    joint: ClassVar[bool] = True
    seed: int
    _n_given: int  # rows of X; the table has those that are used

    @property
    def n_rows(self) -> int:
        """The number of rows that are used."""
        return self._table.n_rows

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        raise NoiseError(
            "Background moves features together, so there is no law of a single feature; use Marginal(X), "
            "which draws each feature by itself"
        )

    def sample(self, X: Any, seed: int | np.random.Generator = 0) -> Any:
        """Draws x' for every row x of X: all columns have the values of a random row of the background.

        Parameters
        ----------
        X : (n, d) NumPy array, pandas or Polars DataFrame, PyArrow Table, or list of rows
            The rows to perturb. Its columns are those of the background, by name or else by position.
        seed : int or numpy.random.Generator, default=0
            The same seed gives the same rows.

        Returns
        -------
        array (n, d) or frame
            A frame of the same library if X is one, else an array. All numbers are float64.

        Examples
        --------
        >>> Background([[0, 0], [1, 1]]).sample([[5, 7], [5, 7], [5, 7]], seed=1)
        array([[0., 0.],
               [1., 1.],
               [1., 1.]])
        """
        columns = open_columns(X)
        d, names = columns.n_columns, None if columns.numbered else columns.names
        drawn = np.random.default_rng(seed).integers(self.n_rows, size=columns.n_rows)
        return replaced(X, columns, [self._values(p)[drawn] for p in self._labels.places(range(d), d, names)])

    def describe(self) -> Any:
        """Describes what happens to each column.

        Returns
        -------
        frame
            With the columns of `Relative.describe`. The size of the move is that over the rows of the
            background, which is √2 standard deviations for all columns.
        """
        rows = f"that of one of {count(self.n_rows, 'row')}, together with all other columns"
        found = [
            read_column(self._table, j, (), None, self._labels.label(j)) for j in range(self._table.n_columns)
        ]
        size = math.sqrt(2.0)
        return self._as_frame(
            [
                (
                    c.kind,
                    rows,
                    math.nan if c.kind == "categorical" else size * c.deviation,
                    size * c.moves,
                    0.0,
                )
                for c in found
            ]
        )

    def _values(self, j: int) -> NDArray[Any]:
        """Column j of the background: floats, or objects that are labels."""
        try:
            return self._table.column(j)
        except TableError:
            return objects_of(self._table.labels(j))

    def rows_for(
        self,
        features: Sequence[int],
        n_features: int,
        feature_names: Names,
        categories: Mapping[int, Categories],
    ) -> FloatArray:
        """The rows that are used, (n_rows, n_features), with the codes of categories; NaN where missing.

        All columns but those of `features` are NaN. `categories` are those of the categorical features.
        """
        rows = np.full((self.n_rows, n_features), np.nan)
        places = self._labels.places(features, n_features, feature_names)
        for q, j in zip(features, places, strict=True):
            try:
                rows[:, q] = self._table.codes(j, categories[q]) if q in categories else self._table.column(j)
            except TableError as error:
                raise self.unusable(error) from None
            if q in categories:
                self._check_known(rows[:, q], j, categories[q])
        return rows

    def unusable(self, error: TableError) -> NoiseError:
        """The error to raise if the rows do not fit the model."""
        drawn = "" if self.n_rows == self._n_given else f" (row numbers are those of the {self.n_rows} drawn)"
        return NoiseError(f"Background cannot use X: {error}{drawn}")

    def _check_known(self, codes: FloatArray, j: int, levels: Categories) -> None:
        """NoiseError if the model knows none of a column's categories: it is not what the model expects."""
        present = codes[~np.isnan(codes)]
        if len(present) and len(levels) and (levels.levels_of(present) < 0).all():
            label = repr(self._table.names[j]) if self._table.names else str(j)
            raise NoiseError(
                f"Background cannot use X: the model knows none of the categories in column {label}; a frame "
                "must hold labels, an array codes"
            )

    def __repr__(self) -> str:
        if self.n_rows == self._n_given:
            return f"Background(<{count(self.n_rows, 'row')}>)"
        return f"Background(<{count(self._n_given, 'row')}>, max_rows={self.n_rows}, seed={self.seed})"


def _whole(value: Any, what: str, least: int) -> int:
    """`value` as an int; NoiseError, which calls it `what`, unless it is a whole number from `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise NoiseError(f"{what} is {shown(value)}, expected a whole number from {least}")
    return int(value)
