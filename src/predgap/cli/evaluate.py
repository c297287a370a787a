"""Adds the commands `predgap evaluate` and `predgap report`."""

from __future__ import annotations

import hashlib
import shlex
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
import pyarrow as pa

import predgap
from predgap import DependencyError, Evaluation
from predgap._text import printable, require
from predgap.cli.app import OutputConsole, app, complain
from predgap.cli.explainers import Block, CommandRequest, opened
from predgap.cli.longruns import LongRun, evaluate_dataset, running
from predgap.cli.options import (
    Command,
    Folder,
    checked_target,
    chosen_format,
    decorated,
    explaining,
    json_option,
    numbers,
    writing_table,
)
from predgap.cli.tables import json_text, writing

_BUDGET: Final = 60.0
_STRENGTHS: Final = (0.1, 0.3, 1.0)


def _rankings(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> dict[str, str] | None:
    """Words and files by name; None if none are given."""
    found: dict[str, str] = {}
    for text in (part for each in value for part in each.split(",")):
        name, equals, given = text.partition("=")
        if not equals:
            name, given = (Path(text).stem if "." in text else text), text
        if not (name and given):
            raise click.BadParameter(f"{text!r}; expected a word, a file, or mine=file.csv")
        if name in found:
            raise click.BadParameter(f"two rankings are called {name!r}; write other={given}")
        found[name] = given
    return found or None


def _judging(command: Command) -> Command:
    """Adds which rankings are judged, and in which time."""
    return decorated(
        command,
        (
            click.option(
                "--rankings",
                multiple=True,
                callback=_rankings,
                metavar="NAMES",
                help="What is judged, separated by commas: shap, gain, permutation (needs --target), greedy, "
                "single, optimal, shapley, random; and .csv or .parquet files with row, place, feature, as "
                "rank writes, or one column of attributions per feature. mine=file.csv gives a file a name. "
                "Default: shap,gain,greedy; with --target also permutation.",
            ),
            click.option("--top", type=click.IntRange(min=1), metavar="K", help="Only the first K places."),
            click.option(
                "--strengths",
                callback=numbers,
                metavar="NUMBERS",
                help="Also at these strengths of relative noise, such as 0.1,0.3,1.",
            ),
            click.option(
                "--budget",
                type=click.FloatRange(0, min_open=True),
                default=_BUDGET,
                show_default=True,
                metavar="SECONDS",
                help="Time to take. What does not fit is done with a tolerance of 1e-3, then with less "
                "search for the best ranking, from estimates, and for fewer rows, drawn at random; the "
                "result says so.",
            ),
        ),
    )


def _metrics(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(","))


@app.command()
@explaining
@_judging
@click.option(
    "--metrics",
    callback=_metrics,
    default="pgi2,pgu2",
    show_default=True,
    metavar="NAMES",
    help="Scores, separated by commas: pgi2, pgu2; deletion, insertion, comprehensiveness, sufficiency and "
    "feature_randomising (needs --target and --top), all with --noise marginal or background; "
    "monotonicity_correlation; openxai_pgi, openxai_pgu.",
)
@writing_table
@running
def evaluate(
    target_file: Path | Folder | None, form: str | None, as_json: bool, long: LongRun, **asked: Any
) -> None:
    """Judge rankings: how faithful are SHAP, gain and others to the model?

    Prints a verdict and a table on a terminal; into a pipe or a file, the table as CSV. Scores are placed
    between those of a random ranking (0 %) and of the best one (100 %). -o FILE writes the table, or with the
    ending .json everything; --json prints the verdict, the table and what was examined.

    \b
    Example:
      predgap evaluate model.txt rows.csv --reference train.csv --rankings shap,gain,greedy
    """
    if isinstance(target_file, Folder):
        evaluate_dataset(target_file, long, as_json, **asked)
        return
    document = target_file if target_file is not None and target_file.suffix.lower() == ".json" else None
    form = form if document else chosen_format(target_file, form, as_json)
    found = _evaluated(**asked)
    if document is not None:
        found.save(document)
    elif as_json and target_file is None:
        click.echo(json_text(_document(found)))
        return
    elif target_file is None and form == "csv" and sys.stdout.isatty():
        _show(found)
        return
    else:
        table = pa.Table.from_pylist(found.summary)
        with writing(target_file, form or "csv", table.schema) as write:
            write(table)
    for note in found.notes:
        complain(note, 0)


@app.command()
@explaining
@_judging
@click.option("--title", help="Title of the page.")
@click.option(
    "-o",
    "--out",
    "target_file",
    default="report.html",
    show_default=True,
    callback=checked_target,
    metavar="FILE",
    help="The page; - writes it to standard output.",
)
@json_option
def report(title: str | None, target_file: Path | None, as_json: bool, **asked: Any) -> None:
    """Write a page about rankings: verdict, scores, curves, rows in dispute; one HTML file.

    Prints the path of the page and the verdict. The page loads nothing from a network.

    \b
    Example:
      predgap report model.txt rows.csv --reference train.csv -o report.html
    """
    require("a report", "report")
    if target_file is not None and target_file.exists() and not target_file.is_file():
        raise click.UsageError(f"{str(target_file)!r} is not a regular file", click.get_current_context())
    if asked["strengths"] is None and asked["noise"].has_strength:
        asked["strengths"] = _STRENGTHS
    found = _evaluated(**asked)
    command = shlex.join(["predgap", *app.arguments])
    if target_file is None:
        _write_page(found, command, title)
        complain(found.verdict(), 0)
        return
    from predgap.report import write_report

    path = write_report(found, target_file, command=command, title=title)
    if as_json:
        click.echo(json_text({"page": str(path), **_document(found)}))
    else:
        click.echo(f"{printable(str(path))}\n\n{_verdict(found)}")


def _evaluated(
    rankings: dict[str, str] | None,
    top: int | None,
    strengths: Any,
    budget: float,
    metrics: tuple[str, ...] = ("pgi2", "pgu2"),
    **asked: Any,
) -> Evaluation:
    request = CommandRequest(**asked, own_model=True)
    if rankings is None:
        words = ["shap", "gain", *(["permutation"] if request.target else []), "greedy"]
        rankings = {word: word for word in words}
    if "permutation" in rankings.values() and request.target is None:
        told = "the ranking permutation needs the column of true values, --target NAME"
        raise click.UsageError(told, click.get_current_context())
    with opened(request, "rows") as job:
        rows = job.whole()
        X, y = _labelled(rows), None if rows.target is None else np.array(rows.target.to_pylist())
        with job.table.named_errors():
            found = predgap.evaluate(
                job.explainer,
                X,
                rankings,
                y=y,
                metrics=metrics,
                strengths=strengths,
                top=top,
                budget=budget,
                progress=job.shown.whole,
            )
    return replace(found, description={**found.description, **_fingerprints(request)})


def _fingerprints(request: CommandRequest) -> dict[str, str]:
    """The files that were read, by what they are, with the first digits of their SHA-256."""
    files = {"model_file": request.model.path, "data": request.data, "reference": request.reference}
    return {what: _fingerprint(path) for what, path in files.items() if path is not None}


def _fingerprint(path: str) -> str:
    if not Path(path).is_file():
        return "standard input" if path == "-" else path
    with open(path, "rb") as file:
        return f"{Path(path).name}, SHA-256 {hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"


def _labelled(rows: Block) -> Any:
    """The rows as a frame that has their labels, if there are any: rankings in files are matched by them."""
    if not rows.has_labels:
        return rows.X
    try:
        import pandas as pd
    except ImportError:
        raise DependencyError(
            "labels of rows need pandas, not installed: pip install pandas, or --drop their column"
        ) from None
    frame = rows.X.to_pandas(integer_object_nulls=True)  # as floats, large ones would not be exact
    return frame.set_index(pd.Index(rows.labels.to_pylist()))


def _document(found: Evaluation) -> dict[str, Any]:
    return {
        "verdict": found.verdict(),
        "summary": found.summary,
        "pairs": found.pairs,
        "random": float(found.random.mean()),
        "best": float(found.best.mean()),
        "obtained": found.obtained,
        "notes": list(found.notes),
        "description": found.description,
    }


def _show(found: Evaluation) -> None:
    """The verdict and the table, for people."""
    console = OutputConsole()
    console.print(_verdict(found), markup=False)
    console.print()
    console.print(repr(found), markup=False, soft_wrap=True)


def _verdict(found: Evaluation) -> str:
    return "\n".join(printable(line) for line in found.verdict().splitlines())


def _write_page(found: Evaluation, command: str, title: str | None) -> None:
    """Writes the page to stdout."""
    from predgap.report import write_report

    with tempfile.TemporaryDirectory() as folder:
        page = write_report(found, Path(folder, "page.html"), command=command, title=title)
        sys.stdout.buffer.write(page.read_bytes())
