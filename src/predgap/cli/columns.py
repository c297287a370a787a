"""What the columns of a table are: features of the model, row labels, the target, or not wanted."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from predgap import Ensemble, TableError
from predgap._inputs.subsets import match_names
from predgap._text import did_you_mean, format_items
from predgap.cli.csvcolumns import CsvColumns


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of the columns of a table."""

    features: tuple[int, ...]
    label: int | None  # the row labels
    target: int | None

    def labels(self, block: pa.Table, first: int) -> pa.Array:
        """The labels of the rows of a block; without such a column their numbers, from `first`."""
        if self.label is None:
            return pa.array(range(first, first + block.num_rows), pa.int64())
        return pa.concat_arrays(block.column(self.label).chunks)


def split_names(given: Sequence[str], known: Sequence[str]) -> list[str]:
    """Names from a repeated option, separated by commas unless the whole text is a known name."""
    return [name for text in given for name in ([text] if text in known else text.split(","))]


@dataclass(frozen=True, slots=True)
class Roles:
    """The columns that are no features, by name."""

    drop: tuple[str, ...] = ()
    target: str | None = None
    index: str | None = None  # the row labels


def layout(name: str, columns: Sequence[str], ensemble: Ensemble, roles: Roles) -> Layout:
    """Which column of DATA is what; TableError if columns are left over, or the target or the row labels are
    not there.

    Without a column that is named for them, the first one is the row labels if it is named as pandas names an
    index without a name, and is no feature of the model. `name` is that of the table, for messages.
    """
    known = match_names(columns, ensemble.feature_names or (), TableError)
    check_roles(name, columns, known, roles)
    found = _laid_out(columns, ensemble, known, roles)
    extra = [columns[j] for j in found.features if columns[j] not in known]
    if known and extra and len(set(known.values())) == ensemble.n_features:
        options = " ".join(f"--drop {shlex.quote(column)}" for column in extra)
        one = " (or --target, if it has the true values; --index, if it has the row labels)"
        raise TableError(
            f"{name}: the model does not know {format_items(extra)}; leave out with {options}"
            f"{one if len(extra) == 1 else ''}"
        )
    return replace(found, target=None if roles.target is None else columns.index(roles.target))


def check_roles(name: str, columns: Sequence[str], known: Collection[str], roles: Roles) -> None:
    """TableError unless the target and the row labels are columns of their own; `known` are the features."""
    for what, column in (("target", roles.target), ("column of row labels", roles.index)):
        if column is not None and column not in columns:
            meant = did_you_mean(column, columns)
            raise TableError(f"{name} has no column {column!r}; {meant}it has {format_items(columns)}")
        if column in known:
            raise TableError(f"{name}: the {what} {column!r} is a feature of the model")
    if roles.index is not None and roles.index in (roles.target, *roles.drop):
        other = "--target" if roles.index == roles.target else "--drop"
        raise TableError(f"{name}: --index and {other} name the same column {roles.index!r}; leave one out")


def reference_layout(columns: Sequence[str], ensemble: Ensemble, roles: Roles) -> Layout:
    """Which columns of the reference table are features; the others are not needed."""
    known = match_names(columns, ensemble.feature_names or (), TableError)
    found = _laid_out(columns, ensemble, known, roles)
    if not ensemble.feature_names:
        return found
    return replace(found, features=tuple(j for j in found.features if columns[j] in known))


def _laid_out(columns: Sequence[str], ensemble: Ensemble, known: Mapping[str, int], roles: Roles) -> Layout:
    """All columns but the row labels, the target and those to drop as features."""
    rest = [j for j, column in enumerate(columns) if column not in (*roles.drop, roles.target)]
    if roles.index is not None:
        label = next((j for j in rest if columns[j] == roles.index), None)
    else:
        label = next((j for j in rest if _is_index(j, columns[j]) and columns[j] not in known), None)
        if not (ensemble.feature_names or len(rest) > ensemble.n_features):
            label = None
    return Layout(tuple(j for j in rest if j != label), label, None)


def _is_index(place: int, name: str) -> bool:
    """Is this what pandas writes for an index without a name? In CSV it comes first, in Parquet last."""
    return (place == 0 and name in ("", "Unnamed: 0")) or name == "__index_level_0__"


def csv_columns(schema: pa.Schema, places: Layout, ensemble: Ensemble) -> CsvColumns:
    """How to read the columns of a CSV file, given the types of its first block.

    A column that has only whole numbers there, or nothing, may have other numbers further down. What is
    neither a feature nor the target is text, which comes as it is written.
    """
    levels = ensemble.categorical()
    names = [schema.names[j] for j in places.features]
    at = match_names(names, ensemble.names, TableError) if ensemble.feature_names else {}
    read = {name: pa.string() for j, name in enumerate(schema.names) if j != places.target}
    categories, numbers = {}, set()
    for place, (j, name) in enumerate(zip(places.features, names, strict=True)):
        kind, q = schema.field(j).type, at.get(name) if ensemble.feature_names else place
        if q in levels:
            categories[name] = levels[q]
            continue
        numbers.add(name)
        read[name] = pa.float64() if pa.types.is_integer(kind) or pa.types.is_null(kind) else kind
    target = None if places.target is None or not ensemble.class_names else schema.names[places.target]
    if target is not None:
        read[target] = pa.string()
    return CsvColumns(read, categories, frozenset(numbers), target, ensemble.class_names or ())
