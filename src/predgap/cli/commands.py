"""The commands of `predgap`: each parses its options, calls the library, and prints the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
from rich.table import Table
from rich.text import Text

import predgap
from predgap._engine.engine import resolve_n_jobs
from predgap._inputs.frames import to_native
from predgap._model.ensemble import LEAF
from predgap._optional import require
from predgap._text import printable
from predgap.cli.app import OutputConsole, app, complain
from predgap.cli.facts import facts
from predgap.cli.options import Estimator, checked_jobs, estimator_option, explaining, split_names
from predgap.cli.progress import share_progress
from predgap.cli.requests import Request, emit, explaining_rows, ranked

__all__ = ["app"]


@app.command()
@click.argument("model", type=click.Path())
def info(model: str) -> None:
    """Show the trees and features of a model, and the cost of an exact gap."""
    ensemble = predgap.load(model)
    inner = ensemble.feature != LEAF
    splits = np.bincount(ensemble.feature[inner], minlength=ensemble.n_features)
    console = OutputConsole()
    for key, value in facts(ensemble, int(inner.sum()), int((splits > 0).sum())):
        console.print(Text(f"{key:<9} {printable(value)}"), soft_wrap=True)
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("feature", overflow="fold")
    table.add_column("splits", justify="right")
    table.add_column("thresholds", justify="right")
    pairs = np.unique(np.column_stack([ensemble.feature[inner], ensemble.threshold[inner]]), axis=0)
    levels = ensemble.categorical()
    thresholds = np.bincount(pairs[:, 0].astype(np.intp), minlength=ensemble.n_features)
    for q, name in enumerate(ensemble.names):
        cuts = f"{len(levels[q])} categories" if q in levels else str(thresholds[q])
        table.add_row(Text(printable(name)), str(splits[q]), cuts)
    console.print(table)


@app.command()
@explaining
@click.option("--features", multiple=True, required=True, metavar="NAMES", help="Features to perturb.")
@estimator_option
def gap(features: tuple[str, ...], estimator: Estimator, target: Path | None, **asked: Any) -> None:
    """Compute the gap of each row of TABLE when some features are perturbed.

    Prints row and gap as CSV. If some gaps are not exact, also their standard error, error bound and method.
    --features and --drop take names separated by commas, and can be repeated. Give a name that contains a
    comma in an option of its own.
    """
    with explaining_rows(Request(**asked), "gaps") as (explainer, rows):
        found = explainer.estimate(rows, split_names(features, explainer.ensemble.names), estimator)
    columns: dict[str, Any] = {"row": np.arange(len(found.value)), "gap": found.value}
    if (found.method != "exact").any():
        columns |= {name: getattr(found, name) for name in ("standard_error", "error_bound", "method")}
    emit(to_native(columns, "pyarrow"), target)


@app.command()
@explaining
@click.option(
    "--method",
    type=click.Choice(["greedy", "single"]),
    default="greedy",
    show_default=True,
    help="greedy: each place goes to the feature that raises the gap most; single: by the gap of each "
    "feature alone.",
)
@estimator_option
def rank(
    method: Literal["greedy", "single"], estimator: Estimator, target: Path | None, **asked: Any
) -> None:
    """Rank the features for each row of TABLE, most important first.

    Prints row, place, feature and score as CSV. If some rows are not exact, also the confidence in each
    place: nan if error bounds do not prove it. In CSV, a name that a spreadsheet would take for a formula,
    such as =1+1, gets an apostrophe in front. --drop takes names separated by commas, and can be repeated.
    Give a name that contains a comma in an option of its own.
    """
    with explaining_rows(Request(**asked), "rankings", exact=estimator == "exact") as (explainer, rows):
        ranking = ranked(explainer, rows, method, estimator)
    confidence = ranking.confidence
    if ranking.estimator != "exact" and confidence is not None and confidence.size:
        by = {"bounded": "bounds", "pruned": "pruned gaps"}.get(ranking.estimator or "", "samples")
        unproven = int(np.isnan(confidence).sum())
        if unproven < confidence.size and by == "samples":
            lowest = np.nanmin(confidence)
            complain(f"ranked by samples; the lowest confidence in a place is {lowest:.3f}", 0)
        else:
            complain(f"ranked by {by}; {unproven} of {confidence.size} places are not proven", 0)
    emit(ranking.to_frame(), target)


@app.command()
def demo() -> None:
    """Rank the features of the diabetes data by greedy and TreeSHAP, compare both, and save a picture."""
    from predgap.cli.demo import run

    run(OutputConsole(), Path("predgap-demo"))


@app.command()
@click.argument(
    "what",
    type=click.Choice(["precision", "agreement", "pgi", "randomising", "retraining", "all"]),
    default="all",
)
@click.option(
    "--models",
    type=click.Choice(["authors", "train"]),
    default="authors",
    show_default=True,
    help="authors: the models that the paper's authors saved; train: train new ones by grid search.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder with models/, splits/ and raw/; default: the environment variable PREDGAP_DATA.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("predgap-reproduction"),
    show_default=True,
    help="Folder for results and pages; a run that was stopped is continued there.",
)
@click.option(
    "--quick", is_flag=True, help="Takes about a minute; without --data, on the bundled diabetes data."
)
@click.option(
    "--pairs",
    type=click.IntRange(min=2),
    metavar="N",
    help="Pairs of a row and a subset in the precision experiment: default 2000, or 60 with --quick; the "
    "paper has 20000.",
)
@click.option("--jobs", default=-1, callback=checked_jobs, show_default=True, help="Threads; -1: all cores.")
def reproduce(
    what: str, models: Literal["authors", "train"], data: Path | None, out: Path, quick: bool, **numbers: Any
) -> None:
    """Recompute the paper's tables and figures.

    WHAT is one experiment, or all (the default). Writes reproduction.md and reproduction.html to the folder
    --out, with a verdict on each printed number. Finished parts are kept there: a run that was stopped
    continues when it is started again. All experiments take about a quarter of an hour on two cores.
    """
    require("the reproduction", "reproduce")
    from predgap.paper.report.reproduction import summary_lines, write_pages
    from predgap.paper.reproduce import Plan, reproduce

    plan = Plan(
        out=out,
        what=what,
        models=models,
        data_dir=data,
        quick=quick,
        n_pairs=numbers["pairs"],
        n_jobs=resolve_n_jobs(numbers["jobs"]),
    )
    out.mkdir(parents=True, exist_ok=True)
    try:
        with share_progress() as tell:
            found = reproduce(plan, tell)
            if tell is not None:
                tell("writing the pages", 1.0)
            pages = write_pages(found)
    except KeyboardInterrupt:
        complain(f"finished parts are kept in {str(out)!r}; run the same command to continue", 0)
        raise
    for line in (*summary_lines(found), *(f"Page: {path}" for path in pages)):
        click.echo(printable(line))
