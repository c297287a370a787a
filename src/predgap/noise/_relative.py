"""The noise `Relative`: one strength for all kinds of columns, and values that the columns can take."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from predgap._inputs.categories import is_missing
from predgap._inputs.one_hot import OneHot, places_before
from predgap._text import count, format_items, shown, warn
from predgap.errors import NoiseError
from predgap.noise._column_noise import ColumnNoise
from predgap.noise._kinds import Column, read_column
from predgap.noise._laws import Law, positive
from predgap.noise._noise import ModelFeatures, TableNoise
from predgap.noise._scales import ColumnLabels, Names, Ranges, open_table, warn_of_still
from predgap.noise._table_laws import ColumnLaw

STRENGTH: Final = 0.3
"""The strength if none is given."""

_STRONGEST: Final = math.sqrt(2.0)  # then all values are redrawn


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Relative(TableNoise):
    """Moves every column by the same share of its spread, to values that it can take.

    This is the noise to begin with: `Explainer(model, X)` uses `Relative(X, 0.3)`. Over the rows of X the
    mean squared move of each column is strength² times its variance. How it moves depends on its kind:

    - continuous: a normal number with `strength` times the standard deviation of the column is added.
    - binary, categorical, discrete (at most 20 different numbers) and integer with at most 20 different
      values: with probability strength² / 2 the value is redrawn from the column, otherwise it stays. (Two
      values drawn independently differ by 2 variances in the mean square.)
    - integer and lattice (numbers in equal steps, such as one decimal or half units) with more than 20
      values: a normal number is added, and the sum is rounded to the lattice and kept in the range of the
      column. The scale of the normal number is solved for, so that the move has the same size. If no scale
      gives it, or a kept value is among those that could be reached, the value is redrawn as above.

    Missing values stay missing. Standard deviations, ranges and values are those of X without missing values
    and kept ones. A column that is constant or has no values does not move, and a warning says so. Where
    numbers are kept in the range of the column, a row beyond it may move towards the range, not further away.

    An `Explainer` reads X as its model does; its attribute `noise` describes and samples the result. A
    feature that the model splits on by categories is redrawn, whatever the column looks like; and a number
    that means missing to the model (such as XGBoost's `missing=-999`) is missing here, too. If X has column
    names, they are matched to the model's feature names, and other columns (such as the target) are ignored;
    otherwise columns are matched by position, and a model without names takes those of X. X is copied.

    Parameters
    ----------
    X : (n, d) NumPy array, pandas or Polars DataFrame, PyArrow Table, or list of rows
        Usually the training table.
    strength : number above 0, at most √2, default=0.3
        The root of the mean squared move, in standard deviations of a column. √2 redraws every value that is
        redrawn at all.
    kinds : mapping from column name or index to kind, or None, default=None
        The kinds of columns that should not be told from their values: "continuous", "integer", "lattice",
        "discrete", "binary" or "categorical".
    keep : collection of values, default=()
        Special codes, such as {-9, -8, -7} for "no answer", in any column: they do not move, and no other
        value is moved to one of them. In columns that hold such a code, the noise of other numbers is kept in
        their own range.

    Examples
    --------
    >>> import pandas as pd
    >>> from predgap import Relative
    >>> X = pd.DataFrame({"age": range(18, 80), "smoker": [0, 1] * 31, "job": ["nurse", "cook"] * 31})
    >>> print(Relative(X, 0.3).describe()[["column", "kind", "law"]].to_string(index=False))
    column        kind                                                        law
       age     integer normal with sd 5.668, rounded to 1, kept between 18 and 79
    smoker      binary                             redrawn with probability 0.045
       job categorical                             redrawn with probability 0.045
    """

    strength: float
    keep: tuple[Any, ...]
    _columns: tuple[Column, ...]
    _missing: tuple[float, ...]  # the number that means missing to the model, if there is one
    _found: dict[int, ColumnNoise]  # how columns move, once it was asked

    def __init__(
        self,
        X: Any,
        strength: float = STRENGTH,
        *,
        kinds: Mapping[Any, str] | None = None,
        keep: Iterable[Any] = (),
    ) -> None:
        self._use(open_table(X, "Relative cannot use X").copied())
        stated = _stated(kinds, self._labels)
        kept, label = _kept(keep), self._labels.label
        columns = tuple(
            read_column(self._table, j, kept, stated.get(j), label(j)) for j in range(self._table.n_columns)
        )
        warn_of_still([label(j) for j, column in enumerate(columns) if column.is_still])
        object.__setattr__(self, "strength", _checked_strength(strength))
        object.__setattr__(self, "keep", kept)
        object.__setattr__(self, "_columns", columns)
        object.__setattr__(self, "_missing", ())
        object.__setattr__(self, "_found", {})

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        places = self._labels.places(features, n_features, feature_names)
        for j in places:
            if self._columns[j].refused:
                raise NoiseError(f"Relative cannot use X: {self._columns[j].refused}")
        return tuple(self._noise_of(j).law(self._redrawn(j)) for j in places)

    def ranges_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> Ranges:
        return tuple(
            self._noise_of(j).range() for j in self._labels.places(features, n_features, feature_names)
        )

    def with_strength(self, strength: float) -> Relative:
        """The same noise with another strength; X is not read again.

        Parameters
        ----------
        strength : number above 0, at most √2

        Returns
        -------
        Relative
        """
        return self._with(strength=_checked_strength(strength), _found={})

    def with_one_hot(self, one_hot: OneHot) -> Relative:
        made = super().with_one_hot(one_hot)
        columns = tuple(
            self._columns[old[0]]
            if len(old) == 1
            else read_column(made._table, j, self.keep, "categorical", made._labels.label(j))
            for j, old in enumerate(places_before(made._table))
        )
        return made._with(_columns=columns, _found={})

    def for_model(self, features: ModelFeatures) -> Relative:
        """Columns that are categories to the model are redrawn, and the number that means missing to it is
        no value of a column."""
        columns = list(self._columns)
        for j, q in self._labels.features(features.n_features, features.names).items():
            columns[j] = self._read_again(j, features, q in features.categorical)
        lost = [
            self._labels.label(j)
            for j, (before, now) in enumerate(zip(self._columns, columns, strict=True))
            if now.is_still and not before.is_still
        ]
        if lost:
            warn(
                f"{count(len(lost), 'column')} of X with one value only beside {features.missing:g}, which "
                f"means missing to the model, will not be perturbed: {format_items(lost)}. Noise cannot make "
                "a value missing or present; train with missing=nan if this is a value like others"
            )
        missing = () if math.isnan(features.missing) else (float(features.missing),)
        if columns == list(self._columns) and missing == self._missing:
            return self
        return self._with(_columns=tuple(columns), _missing=missing, _found={})

    def _read_again(self, j: int, features: ModelFeatures, categorical: bool) -> Column:
        column = self._columns[j]
        if categorical:
            as_it_is = column.refused or column.kind == "categorical"
            return column if as_it_is else replace(column, kind="categorical", lattice=None)
        if not features.is_missing(column.values).any():
            return column
        label = self._labels.label(j)
        return read_column(self._table, j, self.keep, column.stated, label, features.is_missing)

    def describe(self) -> Any:
        """What happens to each column.

        Returns
        -------
        frame
            With one row for each column of X and the columns `column` (its name or number), `kind`, `law`
            (in words), `move` (the root of the mean squared move over X, in units of the column; NaN for
            categories), `relative_move` (the same in standard deviations) and `outside` (the share of
            perturbed values that are outside the range of the column). It is a frame of the library of X; for
            arrays of pandas, Polars or PyArrow, whichever is installed.
        """
        return self._as_frame([self._noise_of(j).described() for j in range(len(self._columns))])

    def __repr__(self) -> str:
        keep = f", keep={{{format_items(self.keep)}}}" if self.keep else ""
        return f"Relative(<{count(len(self._columns), 'column')}>, {self.strength!r}{keep})"

    def _noise_of(self, j: int) -> ColumnNoise:
        """How column j moves; scales take a while to solve for, so it is kept."""
        if j not in self._found:
            self._found[j] = ColumnNoise.of(self._columns[j], self.strength, self._kept_in(j))
        return self._found[j]

    def _kept_in(self, j: int) -> tuple[Any, ...]:
        """The values that do not move; in a column of categories the missing one is a code, not a value."""
        return self.keep if self._columns[j].kind == "categorical" else (*self.keep, *self._missing)

    def _redrawn(self, j: int) -> Law:
        return ColumnLaw(self._table, j, self.keep, "Relative", *self._missing)


def _checked_strength(strength: Any) -> float:
    number = positive(strength, "strength")
    if number > _STRONGEST * (1 + 1e-12):
        raise NoiseError(
            f"strength is {strength!r}, expected at most √2 = {_STRONGEST:.4f}: then values are redrawn, and "
            "nothing that stays among the values of a column moves further"
        )
    return min(number, _STRONGEST)


def _kept(keep: Any) -> tuple[Any, ...]:
    if isinstance(keep, str | bytes | Mapping) or not isinstance(keep, Iterable):
        raise NoiseError(f"keep is {shown(keep)}, expected a collection of values such as {{-9, -8}}")
    values = [value.item() if isinstance(value, np.generic) else value for value in keep]
    for value in values:
        if not isinstance(value, Hashable) or is_missing(value):
            raise NoiseError(
                f"keep holds {shown(value)}; expected numbers or labels (missing values always stay)"
            )
    return tuple(dict.fromkeys(values))


def _stated(kinds: Mapping[Any, str] | None, labels: ColumnLabels) -> dict[int, str]:
    """The kinds that were given, by column."""
    if kinds is None:
        return {}
    if not isinstance(kinds, Mapping):
        raise NoiseError(f"kinds is {shown(kinds)}, expected a mapping such as {{'age': 'integer'}}")
    place: dict[Any, int] = {name: j for j, name in enumerate(labels.names or ())}
    place |= {j: j for j in range(labels.n_columns)}
    unknown = [key for key in kinds if key not in place]
    if unknown:
        raise NoiseError(
            f"kinds names {format_items(unknown)}, which X does not have; its {labels.n_columns} columns are "
            f"{format_items(labels.names or range(labels.n_columns))}"
        )
    stated = {place[key]: kind for key, kind in kinds.items()}
    if len(stated) < len(kinds):
        twice = next(j for j in stated if sum(place[key] == j for key in kinds) > 1)
        raise NoiseError(f"kinds has column {labels.label(twice)} twice, by name and by index")
    return stated
