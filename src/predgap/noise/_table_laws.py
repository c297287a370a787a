"""The law of a feature that is drawn from a column of a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import Categories, is_missing
from predgap._inputs.tables import Columns
from predgap._text import format_items
from predgap._typing import BoolArray, FloatArray
from predgap.errors import NoiseError, TableError
from predgap.noise._laws import (
    Law,
    MarginalLaw,
    ReplacingLaw,
    kept_numbers,
    known_categories,
    objects_of,
)
from predgap.noise._tails import Tails


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
        """How often each known category occurs in the column, (m,), and the number of all its values."""
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
        """Which values of the column are not drawn."""
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
