"""Kinds of columns: continuous, integer, lattice, discrete, binary, categorical; found or stated."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import is_missing as no_label
from predgap._inputs.tables import Columns
from predgap._text import shown
from predgap._typing import BoolArray, FloatArray
from predgap.errors import NoiseError, TableError
from predgap.noise._lattice import Lattice, lattice_of
from predgap.noise._laws import kept_numbers
from predgap.noise._scales import deviation

Kind = Literal["continuous", "integer", "lattice", "discrete", "binary", "categorical"]

FEW: Final = 20
"""A column of at most so many different values has few."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """What a noise needs to know of a column: its kind, and its numbers without missing and kept ones."""

    kind: Kind
    values: FloatArray  # (m,) the different numbers, ascending; empty if it holds labels
    counts: NDArray[np.intp]  # (m,) how often each occurs
    n_different: int  # of numbers or labels
    deviation: float = 0.0  # of the population; 0 for labels
    lattice: Lattice | None = None  # of a lattice or of more than 20 whole numbers
    stated: Kind | None = None  # the kind that was given, if any
    holds_kept: bool = False  # are kept values among its numbers?
    refused: str = ""  # why it cannot be used; an error only if the model needs it

    @property
    def moves(self) -> bool:
        return self.n_different > 1

    @property
    def is_still(self) -> bool:
        """Is it constant, or without values?"""
        return not (self.refused or self.moves)


def read_column(
    columns: Columns,
    j: int,
    keep: tuple[Any, ...],
    stated: Any,
    label: str,
    is_missing: Callable[[FloatArray], BoolArray] = np.isnan,
) -> Column:
    """Column j, of the stated kind or, if that is None, of the kind that its values suggest.

    `is_missing` says which numbers count as missing. NoiseError if the values do not fit the stated kind.
    """
    if stated is not None and not _is_kind(stated):
        known = ", ".join(map(repr, get_args(Kind)))
        raise NoiseError(f"the kind of column {label} is {shown(stated)}; expected one of {known}")
    try:
        numbers_of = columns.column(j)
    except TableError as error:
        return _of_labels(columns.labels(j), keep, stated, label, str(error))
    missing, kept = is_missing(numbers_of), np.isin(numbers_of, kept_numbers(keep))
    numbers_of = numbers_of[~(missing | kept)]
    values, counts = np.unique(numbers_of, return_counts=True)
    if np.isinf(values).any():
        return _refused(
            f"column {label} holds an infinite value, so that it has no spread; mark it missing (NaN) or "
            "clip it"
        )
    lattice = lattice_of(values)
    kind: Kind = _inferred(values, counts, lattice) if stated is None else stated
    if stated is not None:
        _check(kind, values, lattice, label)
    size = deviation(numbers_of) if len(values) > 1 else 0.0
    if len(values) > 1 and not 0 < size < np.inf:
        return _refused(f"column {label} has the standard deviation {size}, beyond the range of float64")
    stepped = kind == "lattice" or (kind == "integer" and len(values) > FEW)
    return Column(
        kind,
        values,
        counts,
        len(values),
        size,
        lattice if stepped else None,
        stated,
        holds_kept=bool((kept & ~missing).any()),
    )


def _is_kind(stated: Any) -> bool:
    return isinstance(stated, str) and stated in get_args(Kind)


def _inferred(values: FloatArray, counts: NDArray[np.intp], lattice: Lattice | None) -> Kind:
    if len(values) <= 2:
        return "binary"
    if (values == np.floor(values)).all() and lattice is not None:
        return "integer"
    if len(values) <= FEW:  # if all differ, these may be a few rows of continuous numbers
        return "discrete" if (counts > 1).any() else "continuous"
    return "continuous" if lattice is None else "lattice"


def _check(kind: Kind, values: FloatArray, lattice: Lattice | None, label: str) -> None:
    """NoiseError if the numbers of a column do not fit its stated kind."""
    not_whole = values[values != np.floor(values)]
    found = ""
    if kind == "binary" and len(values) > 2:
        found = f"has {len(values)} different values, expected at most 2"
    elif kind == "integer" and len(not_whole):
        found = f"holds {not_whole[0]:g}, expected whole numbers"
    elif kind in ("integer", "lattice") and lattice is None and len(values) > 1:
        found = "has no common step between its values"
    if found:
        raise NoiseError(f"column {label} is stated to be {kind}, but {found}")


def _of_labels(labels: list[Any], keep: tuple[Any, ...], stated: Any, label: str, reason: str) -> Column:
    """A column that does not hold numbers: categorical if it holds labels, else refused."""
    present = [value for value in labels if not no_label(value)]
    if not all(isinstance(value, str | numbers.Real) for value in present):
        return _refused(reason)
    if stated not in (None, "categorical", "binary"):
        raise NoiseError(f"column {label} is stated to be {stated}, but {reason}")
    different = set(present) - set(keep)
    if stated == "binary" and len(different) > 2:
        raise NoiseError(
            f"column {label} is stated to be binary, but has {len(different)} different values, expected at "
            "most 2"
        )
    nothing = np.empty(0)
    return Column("categorical", nothing, nothing.astype(np.intp), len(different), stated=stated)


def _refused(reason: str) -> Column:
    return Column("continuous", np.empty(0), np.empty(0, dtype=np.intp), 0, refused=reason)
