"""The noise `Relative`: one strength for all kinds of columns, and values that the columns can take."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from predgap._inputs.categories import is_missing
from predgap._inputs.frames import to_native
from predgap._inputs.one_hot import OneHot, places_before
from predgap._inputs.tables import Columns
from predgap._text import count, format_items
from predgap.errors import NoiseError, TableError
from predgap.noise._combined_laws import ByKindLaw, ClippedLaw, KeptLaw, RoundedLaw, StayLaw
from predgap.noise._kinds import Column, read_column
from predgap.noise._laws import ColumnLaw, Law, NormalLaw, StillLaw, kept_numbers, positive
from predgap.noise._noise import Noise
from predgap.noise._scales import ColumnLabels, Names, open_table, warn_of_still
from predgap.noise._sizes import mass_outside, mean_squared_move, solved_scale

STRENGTH: Final = 0.3
"""The strength if none is given."""

_STRONGEST: Final = math.sqrt(2.0)  # then all values are redrawn


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Relative(Noise):
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
    and kept ones. A column that is constant or has no values does not move, and a warning says so. A feature
    that the model splits on by categories is redrawn, whatever the column looks like. If X has column names,
    they are matched to the model's feature names, and other columns (such as the target) are ignored;
    otherwise columns are matched by position. X is copied.

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
        value is moved to one of them. The noise of other numbers is kept in their own range.

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
    _table: Columns
    _labels: ColumnLabels
    _columns: tuple[Column, ...]

    def __init__(
        self,
        X: Any,
        strength: float = STRENGTH,
        *,
        kinds: Mapping[Any, str] | None = None,
        keep: Iterable[Any] = (),
    ) -> None:
        columns = open_table(X, "Relative cannot use X").copied()
        labels = ColumnLabels.of(columns, "Relative()")
        kept = _kept(keep)
        stated = _stated(kinds, labels)
        found = tuple(
            read_column(columns, j, kept, stated.get(j), labels.label(j)) for j in range(columns.n_columns)
        )
        still = [labels.label(j) for j, column in enumerate(found) if not (column.refused or column.moves)]
        warn_of_still(still, stacklevel=3)
        object.__setattr__(self, "strength", _checked_strength(strength))
        object.__setattr__(self, "keep", kept)
        object.__setattr__(self, "_table", columns)
        object.__setattr__(self, "_labels", labels)
        object.__setattr__(self, "_columns", found)

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Names) -> tuple[Law, ...]:
        places = self._labels.places(features, n_features, feature_names)
        for j in places:
            if self._columns[j].refused:
                raise NoiseError(f"Relative cannot use X: {self._columns[j].refused}")
        return tuple(self._law(j) for j in places)

    def with_strength(self, strength: float) -> Relative:
        """The same noise with another strength; X is not read again.

        Parameters
        ----------
        strength : number above 0, at most √2

        Returns
        -------
        Relative
        """
        return self._with(strength=_checked_strength(strength))

    def with_one_hot(self, one_hot: OneHot) -> Relative:
        try:
            table = one_hot.columns(self._table)
        except TableError as error:
            raise NoiseError(f"Relative cannot use X: {error}") from None
        labels = ColumnLabels.of(table, "Relative()")
        columns = tuple(
            self._columns[old[0]]
            if len(old) == 1
            else read_column(table, j, self.keep, "categorical", labels.label(j))
            for j, old in enumerate(places_before(table))
        )
        return self._with(_table=table, _labels=labels, _columns=columns)

    def _with(self, **changes: Any) -> Relative:
        made = Relative.__new__(Relative)
        for name, value in (vars(self) | changes).items():
            object.__setattr__(made, name, value)
        return made

    def describe(self) -> Any:
        """What happens to each column.

        Returns
        -------
        frame
            With one row for each column of X and the columns `column` (its name or number), `kind`, `law`
            (in words), `move` (the root of the mean squared move over X, in units of the column; NaN for
            labels), `relative_move` (the same in standard deviations) and `outside` (the share of perturbed
            values that are outside the range of the column). It is a frame of the library of X; for arrays of
            pandas, Polars or PyArrow, whichever is installed.
        """
        rows = [self._described(j) for j in range(len(self._columns))]
        names = ("column", "kind", "law", "move", "relative_move", "outside")
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        return to_native({name: list(values) for name, values in columns.items()}, self._table.backend)

    def __repr__(self) -> str:
        keep = f", keep={{{format_items(self.keep)}}}" if self.keep else ""
        return f"Relative(<{count(len(self._columns), 'column')}>, {self.strength!r}{keep})"

    # ---- one column ------------------------------------------------------------------------------

    def _law(self, j: int) -> Law:
        column = self._columns[j]
        if not column.moves:
            return StillLaw()
        p = self._redraw_probability
        redrawn = StayLaw(ColumnLaw(self._table, j, self.keep, "Relative"), 1.0 - p, p)
        scale = self._scale(column)
        if scale is None:
            return self._keeping(redrawn)
        return ByKindLaw(self._keeping(self._moved(column, scale)), self._keeping(redrawn))

    def _keeping(self, law: Law) -> Law:
        return KeptLaw(law, self.keep) if self.keep else law

    def _moved(self, column: Column, scale: float) -> Law:
        """Normal noise with this scale that lands where the column can be."""
        law: Law = NormalLaw(scale)
        if column.lattice is not None:
            law = RoundedLaw(law, column.lattice)
        return ClippedLaw(law, *self._range(column)) if self._is_clipped(column) else law

    def _scale(self, column: Column) -> float | None:
        """The scale of the normal number that is added; None if the value is redrawn instead."""
        if column.kind in ("binary", "categorical", "discrete"):
            return None
        if column.kind == "integer" and column.lattice is None:
            return None
        if not self._is_clipped(column):
            return self.strength * column.deviation
        if column.lattice is not None and self._reaches_kept(column):
            return None
        return solved_scale(column, (self.strength * column.deviation) ** 2)

    def _is_clipped(self, column: Column) -> bool:
        return column.lattice is not None or bool(self.keep)

    def _reaches_kept(self, column: Column) -> bool:
        """Are there kept values among the points that the noise of other values may reach?"""
        low, high = self._range(column)
        lattice = column.lattice
        kept = kept_numbers(self.keep, None)
        return lattice is not None and any(low <= v <= high and lattice.holds(v) for v in kept.tolist())

    def _range(self, column: Column) -> tuple[float, float]:
        return float(column.values[0]), float(column.values[-1])

    @property
    def _redraw_probability(self) -> float:
        return min(1.0, 0.5 * self.strength**2)

    # ---- words -----------------------------------------------------------------------------------

    def _described(self, j: int) -> tuple[Any, ...]:
        """A row of `describe`."""
        column = self._columns[j]
        name = j if self._labels.names is None else self._labels.names[j]
        if column.refused:
            return name, "refused", column.refused, math.nan, math.nan, math.nan
        if not column.moves:
            return name, column.kind, "does not move", 0.0, 0.0, 0.0
        scale = self._scale(column)
        if scale is None:
            words = f"redrawn with probability {self._redraw_probability:.4g}"
            share = math.sqrt(2.0 * self._redraw_probability)
            unit = column.deviation if len(column.values) else math.nan
            return name, column.kind, words, share * unit, share, 0.0
        move, outside = scale, 0.0
        if self._is_clipped(column):
            move = math.sqrt(mean_squared_move(column, scale))
        else:
            outside = mass_outside(column, scale)
        return name, column.kind, self._in_words(column, scale), move, move / column.deviation, outside

    def _in_words(self, column: Column, scale: float) -> str:
        words = f"normal with sd {scale:.4g}"
        if column.lattice is not None:
            words += f", rounded to {column.lattice.step:.4g}"
        if self._is_clipped(column):
            low, high = self._range(column)
            words += f", kept between {low:.4g} and {high:.4g}"
        return words


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
        raise NoiseError(f"keep is {keep!r}, expected a collection of values such as {{-9, -8}}")
    values = [value.item() if isinstance(value, np.generic) else value for value in keep]
    for value in values:
        if not isinstance(value, Hashable) or is_missing(value):
            raise NoiseError(f"keep holds {value!r}; expected numbers or labels (missing values always stay)")
    return tuple(dict.fromkeys(values))


def _stated(kinds: Mapping[Any, str] | None, labels: ColumnLabels) -> dict[int, str]:
    """The kinds that were given, by column."""
    if kinds is None:
        return {}
    if not isinstance(kinds, Mapping):
        raise NoiseError(f"kinds is {kinds!r}, expected a mapping such as {{'age': 'integer'}}")
    place: dict[Any, int] = {name: j for j, name in enumerate(labels.names or ())}
    place |= {j: j for j in range(labels.n_columns)}
    unknown = [key for key in kinds if key not in place]
    if unknown:
        raise NoiseError(
            f"kinds names {format_items(unknown)}, which X does not have; its {labels.n_columns} columns are "
            f"{format_items(labels.names or range(labels.n_columns))}"
        )
    return {place[key]: kind for key, kind in kinds.items()}
