"""The commands of `predgap`: they parse, call the library, and print."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
from rich.table import Table
from rich.text import Text

import predgap
from predgap._engine.engine import resolve_n_jobs
from predgap._inputs.tables import to_native
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
    """What a model consists of, and what an exact gap costs."""
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
@click.option("--features", multiple=True, required=True, metavar="NAMES", help="Features that move.")
@estimator_option
def gap(features: tuple[str, ...], estimator: Estimator, target: Path | None, **asked: Any) -> None:
    """The gap of each row of TABLE when some features move.

    Prints row and gap as CSV, and of gaps that are not exact how they were obtained and how far they may be
    off. --features and --drop take names separated by commas, and can be repeated; a name with a comma in it
    goes alone.
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
    help="greedy: each place to the feature that raises the gap most; single: by the gap of each alone.",
)
@estimator_option
def rank(
    method: Literal["greedy", "single"], estimator: Estimator, target: Path | None, **asked: Any
) -> None:
    """Rank the features for each row of TABLE, most important first.

    Prints row, place, feature and score as CSV, and of rankings that are not exact the confidence in each
    place: nan where bounds do not prove it. A name that a spreadsheet would take for a formula, such as
    =1+1, has an apostrophe before it in CSV. --drop takes names separated by commas, and can be repeated; a
    name with a comma in it goes alone.
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
    """Rank the diabetes data greedily and by TreeSHAP, compare, and draw a picture."""
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
    help="The models that the paper's authors saved, or new ones by grid search.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder with models/, splits/ and raw/ (else PREDGAP_DATA is looked at).",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("predgap-reproduction"),
    show_default=True,
    help="Folder for results and pages; a run that was stopped goes on there.",
)
@click.option("--quick", is_flag=True, help="A minute's version; without data, on the bundled diabetes data.")
@click.option(
    "--pairs",
    type=click.IntRange(min=2),
    metavar="N",
    help="Pairs (x, S) of the precision experiment: 2000, or 60 if quick; the paper has 20000.",
)
@click.option("--jobs", default=-1, callback=checked_jobs, show_default=True, help="Threads; -1: all cores.")
def reproduce(
    what: str, models: Literal["authors", "train"], data: Path | None, out: Path, quick: bool, **numbers: Any
) -> None:
    """Recompute the paper's tables and figures.

    Give one experiment, or all (the default). Ends in reproduction.md and reproduction.html in the folder
    --out, with a verdict on each printed number. What is finished is kept there: a run that was stopped goes
    on when it is started again. All of it takes about a quarter of an hour on two cores.
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
        complain(f"what is finished is kept in {str(out)!r}; the same command goes on with it", 0)
        raise
    for line in (*summary_lines(found), *(f"Page: {path}" for path in pages)):
        click.echo(printable(line))
