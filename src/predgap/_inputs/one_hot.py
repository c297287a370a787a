"""One-hot columns: which columns of a table are the dummies of one category, and the level of each row."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import Categories
from predgap._inputs.subsets import match_names
from predgap._inputs.tables import Columns, Table, by_name
from predgap._text import count, format_items, names_or_default
from predgap._typing import FloatArray
from predgap.errors import PredgapError, TableError

NO_DUMMY: Final = "(none)"
"""The label of the level at which all dummies are 0."""


@dataclass(frozen=True, slots=True, eq=False)
class OneHot:
    """The features of a model that are dummies, and the features that take their place.

    A group of dummies becomes one categorical feature, at the place of its first dummy. Its levels are the
    names of the dummies, and `NO_DUMMY`.
    """

    names: tuple[str, ...]  # (d_old,) names of the model's features, dummies included
    named: bool  # has the model names of its own?
    places: tuple[tuple[int, ...], ...]  # (d,) the old features of each new one: itself, or its dummies
    new_names: tuple[str, ...]  # (d,)
    levels: tuple[Categories | None, ...]  # (d,) of the groups; None for other features

    @classmethod
    def of(
        cls,
        groups: Mapping[str, Sequence[Any]],
        n_features: int,
        feature_names: Sequence[str] | None,
        missing: float = float("nan"),
    ) -> OneHot:
        """Reads what a user declares: the dummies of each group, by name or index.

        Parameters
        ----------
        groups : mapping from the name of a category to the names or indices of its dummies
        n_features : int
            The number of features of the model.
        feature_names : sequence of strings, or None
            Their names, None for f0, f1, ...
        missing : float, default=nan
            The value that counts as missing: it will be no code of a level.

        Raises
        ------
        PredgapError
            If a dummy does not exist or is given twice, or a name is taken.
        """
        if not isinstance(groups, Mapping):
            raise PredgapError(
                f"one_hot is a {type(groups).__name__}, expected a mapping such as "
                "{'job': ['job_clerk', 'job_nurse']}"
            )
        names = names_or_default(n_features, None if feature_names is None else tuple(feature_names))
        group_of: dict[int, str] = {}
        members: dict[str, tuple[int, ...]] = {}
        for group, dummies in groups.items():
            members[str(group)] = _dummies(str(group), dummies, names)
            for j in members[str(group)]:
                if j in group_of:
                    raise PredgapError(
                        f"one_hot gives {names[j]!r} twice, to {group_of[j]!r} and to {str(group)!r}; a "
                        "dummy belongs to one category"
                    )
                group_of[j] = str(group)
        places, new_names, levels = [], [], []
        for j, name in enumerate(names):
            dummies_here = members[group_of[j]] if j in group_of else (j,)
            if j != min(dummies_here):
                continue
            places.append(dummies_here)
            new_names.append(group_of.get(j, name))
            levels.append(_levels([names[k] for k in dummies_here], missing) if j in group_of else None)
        taken = [name for name in members if new_names.count(name) > 1]
        if taken:
            raise PredgapError(f"one_hot calls a category {taken[0]!r}, but a feature has this name already")
        return cls(names, feature_names is not None, tuple(places), tuple(new_names), tuple(levels))

    def table(self, found: Table) -> Table:
        """A table of the model's old features in the new ones; TableError names a row with two dummies."""
        values = np.empty((len(found.values), len(self.places)))
        for place, (old, levels) in enumerate(zip(self.places, self.levels, strict=True)):
            columns = found.values[:, list(old)]
            values[:, place] = columns[:, 0] if levels is None else self._codes(columns, place)
        names = (
            None
            if found.names is None
            else tuple(self._name(k, found.names) for k in range(len(self.places)))
        )
        return Table(values, found.index, found.backend, names)

    def _name(self, place: int, own: Sequence[str]) -> str:
        return own[self.places[place][0]] if self.levels[place] is None else self.new_names[place]

    def _codes(self, dummies: FloatArray, place: int) -> FloatArray:
        levels = self.levels[place]
        assert levels is not None
        return level_codes(dummies, levels, [self.names[j] for j in self.places[place]])

    def columns(self, table: Columns) -> Columns:
        """A table with dummies, e.g. that of a noise, with one column for the dummies of each category.

        Columns that are no features of the model are left out. TableError if it has only some of the dummies
        of a category.
        """
        matched = table.names is not None and self.named and by_name(table.names, table.numbered, self.names)
        if matched:
            feature = match_names(table.names or (), self.names, TableError)
            at = {feature[name]: j for j, name in enumerate(table.names or ()) if name in feature}
        elif table.n_columns == len(self.names):
            at = {j: j for j in range(table.n_columns)}
        else:
            raise TableError(
                f"the table has {count(table.n_columns, 'column')}, the model needs {len(self.names)}, the "
                f"dummies of one_hot included: {format_items(self.names)}"
            )
        has = [sum(j in at for j in old) / len(old) for old in self.places]
        torn = [name for name, share in zip(self.new_names, has, strict=True) if 0 < share < 1]
        if torn:
            raise TableError(f"the table lacks some of the dummies of {format_items(torn)}; pass all of them")
        kept = [place for place, share in enumerate(has) if share == 1]
        source = _Collapsed(
            table,
            tuple(tuple(at[j] for j in self.places[k]) for k in kept),
            tuple(tuple(self.names[j] for j in self.places[k]) for k in kept),
            tuple(self.levels[k] for k in kept),
        )
        names = tuple(self.new_names[k] for k in kept) if matched else None
        return replace(table, n_columns=len(kept), names=names, numbered=False, source=source)


def places_before(columns: Columns) -> tuple[tuple[int, ...], ...]:
    """The columns that each column of a table made by `OneHot.columns` was made of."""
    assert isinstance(columns.source, _Collapsed)
    return columns.source.places


@dataclass(frozen=True, slots=True, eq=False)
class _Collapsed:
    """The columns of a table in which dummies are one column."""

    table: Columns
    places: tuple[tuple[int, ...], ...]  # the columns of the table for each column here
    names: tuple[tuple[str, ...], ...]  # what the model calls them
    levels: tuple[Categories | None, ...]

    def column(self, j: int) -> FloatArray:
        levels = self.levels[j]
        if levels is not None:
            raise TableError(
                f"{format_items(self.names[j])} are the dummies of one category: give them Discrete, Flip "
                "or Marginal noise"
            )
        return self.table.column(self.places[j][0])

    def codes(self, j: int, levels: Categories) -> FloatArray:
        if self.levels[j] is None:
            return self.table.codes(self.places[j][0], levels)
        dummies = np.stack([self.table.column(k) for k in self.places[j]], axis=1)
        return level_codes(dummies, levels, self.names[j])

    def labels(self, j: int) -> list[Any]:
        levels = self.levels[j]
        if levels is None:
            return self.table.labels(self.places[j][0])
        at = levels.levels_of(self.codes(j, levels))
        return [None if level < 0 else (levels.labels or ())[level] for level in at.tolist()]

    def at(self, rows: NDArray[np.intp]) -> _Collapsed:
        return replace(self, table=self.table.at(rows))

    def copied(self) -> _Collapsed:
        return replace(self, table=self.table.copied())

    def only(self, some: Sequence[int]) -> _Collapsed:
        ends = np.cumsum([0, *(len(self.places[j]) for j in some)]).tolist()
        return _Collapsed(
            self.table.only([k for j in some for k in self.places[j]]),
            tuple(tuple(range(*span)) for span in itertools.pairwise(ends)),
            tuple(self.names[j] for j in some),
            tuple(self.levels[j] for j in some),
        )


def level_codes(dummies: FloatArray, levels: Categories, names: Sequence[str]) -> FloatArray:
    """The code of each row's level, (n,), from its dummies (n, k), which are 0, 1 or all missing.

    Examples
    --------
    >>> jobs = Categories([0, 1, 2], ("clerk", "nurse", NO_DUMMY))
    >>> level_codes(np.array([[0.0, 1.0], [0.0, 0.0], [np.nan, np.nan]]), jobs, ["clerk", "nurse"])
    array([ 1.,  2., nan])
    """
    gone = np.isnan(dummies)
    strange = ~gone & (dummies != 0) & (dummies != 1)
    if strange.any():
        r, k = np.argwhere(strange)[0]
        raise TableError(
            f"row {r} of X has {names[k]!r} = {dummies[r, k]:g}; a column that is declared with one_hot must "
            "be 0 or 1"
        )
    mixed = gone.any(axis=1) & ~gone.all(axis=1)
    if mixed.any():
        r = int(np.flatnonzero(mixed)[0])
        raise TableError(
            f"row {r} of X is missing {names[int(np.argmax(gone[r]))]!r}, but not all of the dummies of that "
            "category; they must be missing together"
        )
    ones = dummies == 1
    if (ones.sum(axis=1) > 1).any():
        r = int(np.flatnonzero(ones.sum(axis=1) > 1)[0])
        both = [names[k] for k in np.flatnonzero(ones[r]).tolist()]
        raise TableError(
            f"row {r} of X has {format_items(both)} = 1 at the same time; dummies of one category exclude "
            "each other, so declare with one_hot only columns that do"
        )
    level = np.where(ones.any(axis=1), np.argmax(ones, axis=1), ones.shape[1])
    return np.where(gone.all(axis=1), np.nan, levels.codes[level].astype(np.float64))


def _dummies(group: str, dummies: Any, names: tuple[str, ...]) -> tuple[int, ...]:
    if isinstance(dummies, str) or not hasattr(dummies, "__len__") or len(dummies) == 0:
        raise PredgapError(f"one_hot[{group!r}] is {dummies!r}, expected a list of the names of its dummies")
    place = match_names([d for d in dummies if isinstance(d, str)], names, PredgapError)
    found = []
    for dummy in dummies:
        is_index = isinstance(dummy, int | np.integer) and not isinstance(dummy, bool)
        if is_index and 0 <= dummy < len(names):
            found.append(int(dummy))
        elif isinstance(dummy, str) and dummy in place:
            found.append(place[dummy])
        else:
            raise PredgapError(
                f"one_hot[{group!r}] names {dummy!r}, which the model does not have; its {len(names)} "
                f"features are {format_items(names)}"
            )
    if len(set(found)) < len(found):
        raise PredgapError(f"one_hot[{group!r}] names a dummy more than once: {format_items(dummies)}")
    return tuple(found)


def _levels(names: Sequence[str], missing: float) -> Categories:
    label = NO_DUMMY
    while label in names:
        label = f"({label})"
    codes: NDArray[np.int32] = np.arange(len(names) + 2, dtype=np.int32)
    codes = codes[codes != missing][: len(names) + 1]
    return Categories(codes, (*names, label), closed=True)
