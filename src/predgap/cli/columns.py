"""What the columns of a table are: features of the model, row labels, the target, or not wanted."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from predgap import Ensemble, TableError
from predgap._inputs.names import match_names
from predgap._text import did_you_mean, format_items


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


def layout(
    name: str, columns: Sequence[str], ensemble: Ensemble, drop: Sequence[str], target: str | None
) -> Layout:
    """Which column of DATA is what; TableError if columns are left over, or `drop` names unknown ones.

    The first column is the row labels if it is named as pandas names an index without a name, and is no
    feature of the model. `name` is that of the table, for messages.
    """
    _check_known(name, columns, [*drop, *([] if target is None else [target])])
    known = match_names(columns, ensemble.feature_names or (), TableError)
    if target is not None and target in known:
        raise TableError(f"{name}: the target {target!r} is a feature of the model")
    found = _laid_out(columns, ensemble, known, (*drop, target))
    extra = [columns[j] for j in found.features if columns[j] not in known]
    if known and extra and len(set(known.values())) == ensemble.n_features:
        options = " ".join(f"--drop {shlex.quote(column)}" for column in extra)
        target = " (or --target, if it has the true values)" if len(extra) == 1 else ""
        raise TableError(
            f"{name}: the model does not know {format_items(extra)}; leave out with {options}{target}"
        )
    return replace(found, target=None if target is None else columns.index(target))


def reference_layout(
    columns: Sequence[str], ensemble: Ensemble, drop: Sequence[str], target: str | None
) -> Layout:
    """Which columns of the reference table are features; the others are not needed."""
    known = match_names(columns, ensemble.feature_names or (), TableError)
    found = _laid_out(columns, ensemble, known, (*drop, target))
    if not ensemble.feature_names:
        return found
    return replace(found, features=tuple(j for j in found.features if columns[j] in known))


def _laid_out(
    columns: Sequence[str], ensemble: Ensemble, known: Mapping[str, int], without: Sequence[str | None]
) -> Layout:
    """All columns but the row labels and those in `without` as features."""
    rest = [j for j, column in enumerate(columns) if column not in without]
    label = next((j for j in rest if _is_index(j, columns[j]) and columns[j] not in known), None)
    if label is None or not (ensemble.feature_names or len(rest) > ensemble.n_features):
        return Layout(tuple(rest), None, None)
    return Layout(tuple(j for j in rest if j != label), label, None)


def _is_index(place: int, name: str) -> bool:
    """Is this what pandas writes for an index without a name? In CSV it comes first, in Parquet last."""
    return (place == 0 and name in ("", "Unnamed: 0")) or name == "__index_level_0__"


def csv_types(schema: pa.Schema, places: Layout, ensemble: Ensemble) -> Mapping[str, pa.DataType]:
    """The types to read a CSV file with, given those of its first block.

    A column that has only whole numbers there, or nothing, may have other numbers further down.
    """
    levels = {ensemble.names[q] for q in ensemble.categorical()}
    names = [schema.names[j] for j in places.features]
    at = match_names(names, ensemble.names, TableError) if ensemble.feature_names else {}
    types = {}
    for place, (j, name) in enumerate(zip(places.features, names, strict=True)):
        kind = schema.field(j).type
        q = at.get(name) if ensemble.feature_names else place
        categorical = q is not None and q < ensemble.n_features and ensemble.names[q] in levels
        if not categorical and (pa.types.is_integer(kind) or pa.types.is_null(kind)):
            types[name] = pa.float64()
        elif categorical and pa.types.is_null(kind):
            types[name] = pa.string()
    return types


def _check_known(name: str, columns: Sequence[str], given: Sequence[str]) -> None:
    for column in given:
        if column not in columns:
            meant = did_you_mean(column, columns)
            raise TableError(f"{name} has no column {column!r}; {meant}it has {format_items(columns)}")
