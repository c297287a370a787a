"""The commands `predgap demo` and `predgap reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from predgap._engine.context import resolve_n_jobs
from predgap._optional import require
from predgap._text import printable
from predgap.cli.app import OutputConsole, app, complain
from predgap.cli.options import checked_jobs
from predgap.cli.progress import share_progress


@app.command()
def demo() -> None:
    """Train a model of the diabetes data, judge SHAP and other rankings of it; write a page and a picture."""
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
