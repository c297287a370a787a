"""Adds the commands `predgap rank` and `predgap gap`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np
import pyarrow as pa

from predgap import CostError, Explainer, Ranking
from predgap._engine.questions import RankMethod
from predgap.cli.app import app, complain
from predgap.cli.explainers import CommandRequest, opened
from predgap.cli.longruns import LongRun, check_guaranteed, long_run, running
from predgap.cli.options import Estimator, Folder, chosen_format, estimator_option, explaining, writing_table
from predgap.cli.tables import split_names, writing


@app.command()
@explaining
@click.option(
    "--method",
    type=click.Choice(get_args(RankMethod)),
    default="greedy",
    show_default=True,
    help="greedy: each place goes to the feature that raises the gap most; single: by the gap of each "
    "feature alone; optimal: with the highest PGI²; shapley: by Shapley values of the gap.",
)
@click.option("--top", type=click.IntRange(min=1), metavar="K", help="Only the first K places.")
@estimator_option
@writing_table
@running
def rank(
    method: RankMethod,
    top: int | None,
    estimator: Estimator,
    target_file: Path | Folder | None,
    form: str | None,
    as_json: bool,
    long: LongRun,
    **asked: Any,
) -> None:
    """Rank the features for each row of DATA, most important first.

    Writes row, place, feature, score and confidence: the confidence is 1 where a place is proven, nan where
    error bounds do not prove it. In CSV, text that a spreadsheet would take for a formula, such as =1+1, gets
    an apostrophe in front. --drop takes names separated by commas, and can be repeated. Rows are read and
    written in blocks, so that memory does not grow with the table.

    \b
    Examples:
      predgap rank model.txt rows.csv --reference train.csv --top 3 -o ranking.csv
      cat rows.csv | predgap rank model.txt - --format jsonl | head -n 1
    """
    if isinstance(target_file, Folder):
        given = {"method": method, "top": top, "columns": long.columns}
        check_guaranteed(estimator)
        long_run(
            target_file, CommandRequest(**asked), long, "rank", lambda job: given, exact=estimator == "exact"
        )
        return
    form = chosen_format(target_file, form, as_json)
    proof = _Proof()
    with opened(CommandRequest(**asked), "rankings", exact=estimator == "exact") as job:
        schema = pa.schema(
            [
                ("row", job.table.label_type),
                ("place", pa.int64()),
                ("feature", pa.string()),
                ("score", pa.float64()),
                ("confidence", pa.float64()),
            ]
        )
        with writing(target_file, form, schema) as write:
            for labels, ranking in job.answers(lambda X: _ranked(job.explainer, X, method, top, estimator)):
                proof.add(ranking)
                write(_as_table(ranking, labels, schema))
    proof.tell()


def _ranked(
    explainer: Explainer, X: pa.Table, method: RankMethod, top: int | None, estimator: Estimator
) -> Ranking:
    by_samples: Any = method  # which refuse optimal and shapley
    if estimator == "qmc":
        return explainer.approximate(method="qmc").rank(X, by_samples, top=top)
    try:
        return explainer.rank(X, method, top=top)
    except CostError:
        if estimator != "auto":
            raise
    return explainer.approximate().rank(X, by_samples, top=top)


def _as_table(ranking: Ranking, labels: pa.Array, schema: pa.Schema) -> pa.Table:
    n, k = ranking.order.shape
    names = pa.array(ranking.names, pa.string())
    scores = np.full((n, ranking.n_features), np.nan) if ranking.scores is None else ranking.scores
    confidence = np.full((n, k), np.nan) if ranking.confidence is None else ranking.confidence
    columns = [
        labels.take(pa.array(np.repeat(np.arange(n), k))),
        np.tile(np.arange(1, k + 1), n),
        names.take(pa.array(ranking.order.ravel())),
        np.take_along_axis(scores, ranking.order, axis=1).ravel(),
        confidence.ravel(),
    ]
    return pa.table(columns, schema=schema)


@dataclass(slots=True)
class _Proof:
    """Collects how certain the places of all blocks are."""

    places: int = 0  # of rankings that are not exact
    unproven: int = 0
    lowest: float = 1.0
    how: str | None = None

    def add(self, ranking: Ranking) -> None:
        confidence = ranking.confidence
        if ranking.estimator == "exact" or confidence is None or not confidence.size:
            return
        by = {"bounded": "bounds", "pruned": "pruned gaps"}.get(ranking.estimator or "", "samples")
        self.how = by if self.how in (None, by) else "bounds or samples"
        self.places += confidence.size
        self.unproven += int(np.isnan(confidence).sum())
        if not np.isnan(confidence).all():
            self.lowest = min(self.lowest, float(np.nanmin(confidence)))

    def tell(self) -> None:
        """A line on stderr, if not all rankings are exact."""
        if self.how == "samples" and self.unproven < self.places:
            complain(f"ranked by samples; the lowest confidence in a place is {self.lowest:.3f}", 0)
        elif self.how is not None:
            complain(f"ranked by {self.how}; {self.unproven} of {self.places} places are not proven", 0)


# ------------------------------------------------------------------------------------------------------------
# This is the command `predgap gap`.


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
    request = CommandRequest(**asked)
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
