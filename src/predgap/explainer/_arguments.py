"""Converts the arguments of an explainer (tables, subsets, rankings) to arrays, and results back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._attributions import is_explanation
from predgap._engine.engine import Members
from predgap._engine.questions import Ranked
from predgap._inputs.subsets import subset_mask
from predgap._inputs.tables import Table, names_of, read_table
from predgap._inputs.units import Units, grouping_hint
from predgap._model.ensemble import Ensemble
from predgap._text import names_or_default, shown
from predgap._typing import BoolArray, FloatArray, IndexArray
from predgap.errors import PredgapError, RankingError, SubsetError, TableError
from predgap.explainer._outputs import ExplainedOutputs
from predgap.explainer._ranges import ReferenceRanges
from predgap.loaders.pipelines import TableReader
from predgap.ranking import Ranking, check_same_rows, ranking_order

_BY_CERTAINTY: Final = ("exact", "bounded", "pruned", "qmc", "mc")


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows of one call: as the model sees them, as a table, and what is explained in each."""

    values: FloatArray  # (n, d), NaN where missing
    table: Table
    outputs: IndexArray | None  # (n,) the output of each row; None if all have the same

    def __len__(self) -> int:
        return len(self.values)

    def at(self, some: IndexArray) -> Rows:
        """Some of the rows, in this order."""
        outputs = None if self.outputs is None else self.outputs[some]
        return Rows(self.values[some], self.table.at(some), outputs)


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Converts arguments for a model, which may be a pipeline."""

    ensemble: Ensemble
    reader: TableReader | None  # reads X, where its columns are not simply the model's features
    outputs: ExplainedOutputs
    units: Units | None  # what subsets and rankings are of; None: each feature alone
    takes_names: bool  # are the columns of X called as those of the noise's table, as the model has no names?
    ranges: ReferenceRanges | None  # of the features that move, if they are known

    def __reduce__(self) -> tuple[Any, ...]:
        rest = (self.reader, self.outputs, self.units, self.takes_names, self.ranges)
        return _inputs, rest  # the trees once: the outputs have them

    @property
    def members(self) -> Members | None:
        """The features of each unit."""
        return None if self.units is None else self.units.members

    @property
    def n_units(self) -> int:
        """The number of units."""
        return self.ensemble.n_features if self.units is None else len(self.units.members)

    @property
    def unit_names(self) -> tuple[str, ...] | None:
        """The names of the units."""
        return self.ensemble.feature_names if self.units is None else self.units.names

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """What the columns of X are called; None if that is not known, so that they go by position."""
        return self.ensemble.feature_names if self.reader is None else self.reader.column_names

    def table(self, X: Any) -> Table:
        """X with one column per feature of the model."""
        try:
            if self.reader is not None:
                return self.reader.table(X, self.ensemble)
            e = self.ensemble
            return read_table(X, e.n_features, e.feature_names, e.categories)
        except TableError as error:
            hint = self._whose_names(X)
            if not hint:
                raise
            raise type(error)(f"{error}{hint}") from None

    def _whose_names(self, X: Any) -> str:
        """What to add to an error about a table that has other columns than the noise's table."""
        if not self.takes_names or (names := names_of(X)) is None or {*names} == {*(self.column_names or ())}:
            return ""
        return (
            ". The model has no names of its own; these are those of the table that the noise was given: "
            "name the columns of X alike, pass an array to go by position, or give feature_names="
        )

    def rows(self, X: Any) -> Rows:
        """X as the model sees it, and the output of each row; rows that were read before are returned."""
        if isinstance(X, Rows):
            return X
        table = self.table(X)
        values = self.ensemble.cast(table.values)
        if self.ranges is not None:
            self.ranges.check(values)
        return Rows(values, table, self.outputs.of_rows(values, table.index))

    def masks(self, n_rows: int, subset: Any) -> BoolArray:
        """The perturbed features, (1, d) for all rows or (n, d)."""
        mask = self._mask(n_rows, subset)
        return mask[None] if mask.ndim == 1 else mask

    def one_mask(self, n_rows: int, subset: Any) -> BoolArray:
        """The perturbed features, (d,), the same in all rows; SubsetError if there is one mask per row."""
        mask = self._mask(n_rows, subset)
        if mask.ndim == 2:
            raise SubsetError(
                f"the subset has one mask per row, shape {mask.shape}; expected one subset for all rows: "
                "names, indices or a mask (d,)"
            )
        return mask

    def _mask(self, n_rows: int, subset: Any) -> BoolArray:
        """The perturbed features, (d,) or (n, d)."""
        with self._naming_groups():
            mask = subset_mask(subset, n_rows, self.n_units, self.unit_names)
        return mask if self.units is None else self.units.features(mask)

    def order(self, rows: Rows, ranking: Any) -> NDArray[np.int32]:
        """A ranking's units, (n, k), most important first; attributions are summed over groups.

        If the model has no names, those of X's columns count; they are in the order of the model's features.
        """
        names = self.ensemble.feature_names or rows.table.names
        if self.units is not None and names is not None:
            names = self.units.named(names)
        index, explained = rows.table.index, self.outputs.in_rows(rows.outputs)
        self.check_data(ranking, rows)
        with self._naming_groups():
            order = ranking_order(
                ranking, len(rows), self.n_units, names, self.units, index=index, explained=explained
            )
        return np.ascontiguousarray(order, dtype=np.int32)

    def check_data(self, ranking: Any, rows: Rows) -> None:
        """RankingError if a ranking, a shap.Explanation, holds the data of other rows."""
        if not is_explanation(ranking):
            return
        categorical = self.ensemble.categorical()
        numbers = [q for q in range(self.ensemble.n_features) if q not in categorical]
        names = names_or_default(self.ensemble.n_features, self.ensemble.feature_names or rows.table.names)
        check_same_rows(ranking, [names[q] for q in numbers], rows.table.values[:, numbers])

    def order_of_any_rows(self, ranking: Ranking) -> NDArray[np.int32]:
        """The units of a ranking of rows that are not of a table, (n, k), most important first."""
        names = self.unit_names if self.ensemble.feature_names is not None else None
        with self._naming_groups():
            return ranking_order(ranking, len(ranking), self.n_units, names, self.units).astype(np.int32)

    @contextmanager
    def _naming_groups(self) -> Iterator[None]:
        """Errors about a subset or ranking say that there are groups."""
        try:
            yield
        except (SubsetError, RankingError) as error:
            if self.units is None:
                raise
            raise type(error)(f"{error}{grouping_hint(self.units)}") from None

    def reversed_order(self, rows: Rows, ranking: Any) -> NDArray[np.int32]:
        """A full ranking's units, (n, d), least important first; RankingError if it is partial."""
        order, d = self.order(rows, ranking), self.n_units
        if order.shape[1] < d:
            raise RankingError(
                f"the ranking has the first {order.shape[1]} places; PGU² needs all {d}, because it perturbs "
                "the least important features first. Pass a full ranking, or use pgi2"
            )
        return np.ascontiguousarray(order[:, ::-1])

    def places(self, top: Any) -> int:
        """How many places to rank, d if `top` is None; RankingError unless it is from 1 to d."""
        d = self.n_units
        if top is None:
            return d
        if isinstance(top, bool) or not isinstance(top, int | np.integer) or not 1 <= top <= d:
            raise RankingError(
                f"top is {shown(top)}, expected a whole number from 1 to {d}, the number of "
                f"{'features' if self.units is None else 'groups and other features'}, or None for all"
            )
        return int(top)

    def names_in(self, rows: Rows) -> tuple[str, ...] | None:
        """The names of the units in an answer about these rows; those of X's columns come first."""
        names = rows.table.names or self.ensemble.feature_names
        return names if self.units is None else self.units.named(names)

    def ranking(self, ranked: Ranked, method: str, rows: Rows) -> Ranking:
        """The `Ranking` of the rows. Its estimator is the least certain method of all rows."""
        table = rows.table
        return Ranking(
            order=ranked.order.astype(np.intp),
            scores=ranked.scores,
            feature_names=self.names_in(rows),
            index=table.index,
            backend=table.backend,
            feature_space=None if self.reader is None else self.reader.feature_space,
            method=method,
            output=self.outputs.of_ranking(rows.outputs),
            estimator=least_certain(ranked.method.tolist()),
            confidence=ranked.confidence,
        )


def least_certain(methods: Iterable[str]) -> str:
    """Of the ways in which numbers were obtained, the least certain; "exact" if there are none."""
    return max(methods, key=_BY_CERTAINTY.index, default="exact")


def _inputs(reader: TableReader | None, outputs: ExplainedOutputs, *rest: Any) -> Inputs:
    return Inputs(outputs.explained(), reader, outputs, *rest)


def check_choice(name: str, given: Any, choices: tuple[str, ...]) -> None:
    """Raises PredgapError unless `given` is one of `choices`; `name` is the name of the argument."""
    if not isinstance(given, str) or given not in choices:
        expected = " or ".join([", ".join(map(repr, choices[:-1])), repr(choices[-1])])
        raise PredgapError(f"{name}={shown(given)} is unknown; expected {expected}")


def ranking_call(method: str, top: int | None) -> str:
    """The call of `rank` as a user would write it, for error messages.

    Examples
    --------
    >>> ranking_call("single", 5)
    "rank(X, 'single', top=5)"
    """
    options = ["X", *([repr(method)] if method != "greedy" else []), *([f"top={top}"] if top else [])]
    return f"rank({', '.join(options)})"
