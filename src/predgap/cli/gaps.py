"""The command `predgap gap`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from predgap.cli.app import app
from predgap.cli.columns import split_names
from predgap.cli.longruns import LongRun, check_guaranteed, long_run, running
from predgap.cli.options import Estimator, Folder, chosen_format, estimator_option, explaining, writing_table
from predgap.cli.requests import Request, opened
from predgap.cli.writing import writing


@app.command()
@explaining
@click.option("--features", multiple=True, required=True, metavar="NAMES", help="Features to perturb.")
@estimator_option
@writing_table
@running
def gap(
    features: tuple[str, ...],
    estimator: Estimator,
    target_file: Path | Folder | None,
    form: str | None,
    as_json: bool,
    long: LongRun,
    **asked: Any,
) -> None:
    """Compute the gap of each row of DATA when some features are perturbed.

    Writes row, gap, standard_error, error_bound and method. --features and --drop take names separated by
    commas, and can be repeated. Give a name that contains a comma in an option of its own. Rows are read and
    written in blocks, so that memory does not grow with the table.

    \b
    Example:
      predgap gap model.txt rows.csv --features age,bmi --reference train.csv
    """
    request = Request(**asked)
    if isinstance(target_file, Folder):
        check_guaranteed(estimator)
        long_run(
            target_file,
            request,
            long,
            "gap",
            lambda job: {"subset": split_names(features, job.names), "columns": long.columns},
            exact=estimator == "exact",
        )
        return
    form = chosen_format(target_file, form, as_json)
    with opened(request, "gaps") as job:
        subset = split_names(features, job.names)
        schema = pa.schema(
            [
                ("row", job.table.label_type),
                *((name, pa.float64()) for name in ("gap", "standard_error", "error_bound")),
                ("method", pa.string()),
            ]
        )

        def answer(X: pa.Table) -> list[Any]:
            found = job.explainer.estimate(X, subset, estimator, rtol=request.rtol)
            return [found.value, found.standard_error, found.error_bound, found.method.tolist()]

        with writing(target_file, form, schema) as write:
            for labels, columns in job.answers(answer):
                write(pa.table([labels, *columns], schema=schema))
