"""Loads the model and table of a command, builds the explainer, and writes the result."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa

import predgap
from predgap import (
    CostError,
    Ensemble,
    Explainer,
    Flip,
    Marginal,
    Noise,
    OutputError,
    PerFeature,
    Ranking,
    Relative,
    TableError,
)
from predgap._engine.accuracy import RTOL
from predgap._inputs.names import match_names
from predgap._inputs.tables import read_table
from predgap._text import format_items, printable
from predgap.cli.options import Estimator, NoiseOf, split_names
from predgap.cli.progress import row_progress
from predgap.cli.tablefiles import read_table_file, without, write_csv, write_table


@dataclass(frozen=True, slots=True)
class Request:
    """The options that `gap` and `rank` have in common."""

    model: str
    table: Path
    drop: tuple[str, ...]
    noise: NoiseOf
    flip: float | None
    output: int | str | None  # a position, or the label of a class
    jobs: int


def ranked(
    explainer: Explainer, rows: pa.Table, method: Literal["greedy", "single"], estimator: Estimator
) -> Ranking:
    if estimator == "qmc":
        return explainer.approximate(method="qmc").rank(rows, method)
    try:
        return explainer.rank(rows, method)
    except CostError:
        if estimator != "auto":
            raise
    return explainer.approximate().rank(rows, method)


@contextmanager
def explaining_rows(
    request: Request, what: str, *, exact: bool = False
) -> Iterator[tuple[Explainer, pa.Table]]:
    """A context with the explainer and the checked rows; progress is shown inside it."""
    ensemble = predgap.load(request.model)
    table = read_table_file(request.table)
    table = without(table, split_names(request.drop, table.column_names))
    _check_columns(request.table, table, ensemble)
    noise = _with_categories(request.noise(table), request.flip, ensemble, table)
    with row_progress(what) as tell:
        try:
            explainer = Explainer(
                ensemble,
                noise,
                output=request.output,
                rtol=0.0 if exact else RTOL,
                n_jobs=request.jobs,
                progress=tell,
            )
        except OutputError as error:
            raise OutputError(f"{error} (option --output)") from None
        yield explainer, table


def _with_categories(noise: Noise, flip: float | None, ensemble: Ensemble, table: pa.Table) -> Noise:
    """The noise with Flip or Marginal noise for categorical features, unless it moves them itself."""
    categorical = ensemble.categorical()
    if not categorical or (flip is None and isinstance(noise, Relative)):
        return noise
    other: Noise = Marginal(table) if flip is None else Flip(flip)
    return PerFeature(dict.fromkeys(categorical, other), default=noise)


def _check_columns(path: Path, table: pa.Table, ensemble: Ensemble) -> None:
    names, columns = ensemble.feature_names or (), table.column_names
    known = match_names(columns, names, TableError)
    extra = [name for name in columns if name not in known]
    if names and extra and len(set(known.values())) == len(names):
        options = " ".join(f"--drop {shlex.quote(name)}" for name in extra)
        raise TableError(f"{path}: the model does not know {format_items(extra)}; leave out with {options}")
    try:
        read_table(table, ensemble.n_features, ensemble.feature_names, ensemble.categories)
    except TableError as error:
        hint = " (--drop NAME)" if len(columns) > ensemble.n_features and not names else ""
        raise TableError(f"{path}: {error}{hint}") from None


def emit(table: pa.Table, target: Path | None) -> None:
    """Writes a table to the file, or as CSV to stdout. In CSV, names that look like formulas are escaped."""
    if target is not None and target.suffix.lower() == ".parquet":
        write_table(table, target)
        return
    table = _with_features(table, no_formula)
    if target is not None:
        write_table(table, target)
        return
    write_csv(_with_features(table, printable) if sys.stdout.isatty() else table, sys.stdout.buffer)


def no_formula(name: str) -> str:
    """The name, with an apostrophe in front if a spreadsheet would evaluate it as a formula.

    Examples
    --------
    >>> no_formula("=1+1"), no_formula("-x"), no_formula("-1.5")
    ("'=1+1", "'-x", '-1.5')
    """
    if not name.startswith(("=", "+", "-", "@", "\t", "\r")):
        return name
    try:
        float(name)
    except ValueError:
        return f"'{name}"
    return name


def _with_features(table: pa.Table, change: Callable[[str], str]) -> pa.Table:
    """The table with `change` applied to the names in its column `feature`, if it has one."""
    if "feature" not in table.column_names:
        return table
    names = pa.array([change(name) for name in table["feature"].to_pylist()], pa.string())
    return table.set_column(table.column_names.index("feature"), "feature", names)
