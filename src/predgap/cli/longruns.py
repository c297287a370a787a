"""Long runs of the commands: Parquet files or folders in, a folder of Parquet files out."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import Any, Final, cast, get_args

import click
from click.core import ParameterSource

import predgap
from predgap import Ensemble, RankingError, RunError, TableError
from predgap._engine.context import resolve_n_jobs
from predgap._engine.questions import RankMethod
from predgap._files import atomic_write
from predgap._inputs.subsets import match_names
from predgap._tables import text_table
from predgap._text import count, printable
from predgap.cli.app import complain
from predgap.cli.explainers import CommandRequest, OpenedCommand, opened
from predgap.cli.options import Command, Folder, decorated
from predgap.cli.tables import check_roles, json_text, split_names
from predgap.explainer.batches import WORDS, ColumnOrders, What
from predgap.runs import DataSet, Report, Run, RunOptions, open_dataset
from predgap.runs.aggregate import GREEDY, RANDOM, aggregated
from predgap.runs.dataset import ROW, batch_schema
from predgap.runs.run import FAILED

_PART_ROWS: Final = 20_000


@dataclass(frozen=True, slots=True)
class LongRun:
    """The options that only long runs have."""

    wide: bool
    part_rows: int | None
    restart: bool
    bad_rows: Path | None
    scheduler: str | None

    @property
    def columns(self) -> str:
        """The layout of the answers, as batch functions call it."""
        return "wide" if self.wide else "arrays"


def running(command: Command) -> Command:
    """Adds the options of long runs, which the command gets as `long`."""

    @wraps(command)
    def checked(**given: Any) -> Any:
        options = {each.name: given.pop(each.name) for each in fields(LongRun)}
        long, to_folder = LongRun(**options), isinstance(given["target_file"], Folder)
        context = click.get_current_context()
        unused = [f"--{name.replace('_', '-')}" for name, value in options.items() if value]
        if not to_folder and given["data"] != "-" and Path(given["data"]).is_dir():
            told = f"{given['data']!r} is a folder: its answers need a folder, too, -o FOLDER/"
            raise click.UsageError(told, context)
        if unused and not to_folder:
            raise click.UsageError(f"{unused[0]} is for answers in a folder: -o FOLDER/", context)
        if to_folder and (given["form"] is not None or (given["as_json"] and command.__name__ != "evaluate")):
            raise click.UsageError("answers in a folder are Parquet; leave out --format and --json", context)
        return command(long=long, **given)

    return decorated(
        cast(Command, checked),
        (
            click.option("--wide", is_flag=True, help="In a folder: a column for each place and feature."),
            click.option(
                "--part-rows",
                type=click.IntRange(min=1),
                metavar="N",
                help=f"In a folder: rows of a file; default: {_PART_ROWS:,}.",
            ),
            click.option(
                "--restart", is_flag=True, help="In a folder: delete the answers in it, and begin anew."
            ),
            click.option(
                "--bad-rows",
                type=click.Path(dir_okay=False, path_type=Path),
                metavar="FILE",
                help="In a folder: list rows that cannot be answered in FILE, as JSON lines, and go on.",
            ),
            click.option(
                "--scheduler",
                metavar="ADDRESS",
                help="In a folder: compute on the workers of a Dask scheduler, such as tcp://host:8786.",
            ),
        ),
    )


def check_guaranteed(estimator: str) -> None:
    """UsageError if answers are asked for from samples."""
    if estimator == "qmc":
        told = "--estimator qmc is not for folders: answers there are exact or bounded"
        raise click.UsageError(told, click.get_current_context())


def long_run(
    target: Folder,
    request: CommandRequest,
    long: LongRun,
    what: What,
    ask: Callable[[OpenedCommand], dict[str, Any]],
    *,
    exact: bool = False,
    judged: tuple[str, ...] = (),
) -> Run:
    """Answers all rows of a data set, or goes on with that; RunError if not all could be answered.

    `ask` gives the arguments of the batch function. The columns `judged` are only for it.
    """
    folder = target.path
    data = _opened_data(request, folder)
    columns, keys, request = _columns(data, request, judged)
    schema = batch_schema(data.schema, [name for name in columns if name not in judged])
    with opened(replace(request, jobs=1), "rows", exact=exact) as job:
        asked, plan = ask(job), request.plan(job.explainer.ensemble)
        function = job.explainer.batch_function(what, schema, keys=keys, **asked)
        settings = {
            "predgap": predgap.__version__,
            "command": what,
            "model": _digest(request.model.path),
            "best_iteration": request.model.best_iteration,
            "features": [name for name in schema.names if name not in keys],
            "noise": {
                **_text(asdict(plan) | {"default": str(plan.default)}),
                "flip": request.flip,
                "reference": _digest(request.reference),
            },
            "options": {**_text(asked), "output": _text(job.explainer.output), "rtol": job.explainer.rtol},
        }
        options = RunOptions(
            long.part_rows or _PART_ROWS,
            resolve_n_jobs(request.jobs),
            long.restart,
            long.bad_rows,
            long.scheduler,
        )
        made = Run(folder, data, function, columns, settings, options)
        update = job.shown.whole
        try:
            report = made.complete(None if update is None else lambda done: update(done, data.n_rows))
        except OSError as error:
            raise RunError(
                f"{error.filename or folder}: {error.strerror or error}. Parts that were written stay; when "
                "this is mended, the same command goes on"
            ) from error
    _tell(report, folder)
    return made


def evaluate_dataset(
    folder: Folder,
    long: LongRun,
    as_json: bool,
    rankings: dict[str, str] | None,
    top: int | None,
    strengths: Any,
    budget: float,
    metrics: tuple[str, ...],
    **asked: Any,
) -> None:
    """Scores rankings on all rows of a data set; prints the verdict and the table."""
    context = click.get_current_context()
    if any(
        context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in ("budget", "strengths")
    ):
        raise click.UsageError(
            "a folder gets the scores of all rows at one strength: leave out --budget, --strengths", context
        )
    strange = [name for name in metrics if name not in ("pgi2", "pgu2")]
    if strange:
        told = f"--metrics {strange[0]} is not for folders: the scores there are pgi2 and pgu2"
        raise click.UsageError(told, context)
    words = rankings or {word: word for word in ("shap", "gain", "greedy")}
    others = {RANDOM: "random"} if "greedy" in words.values() else {RANDOM: "random", GREEDY: "greedy"}
    scores = ("pgi2", "pgu2") if "pgu2" in metrics else ("pgi2",)
    if top is not None and "pgu2" in metrics:
        complain("PGU² needs all places and is left out", 0)
        scores = ("pgi2",)
    request = CommandRequest(**asked, own_model=True)
    judged = _judged(words, _opened_data(request, folder.path))
    given = {"rankings": judged | others, "metrics": scores, "top": top}
    in_columns = tuple(each.column for each in judged.values() if isinstance(each, ColumnOrders))
    run = long_run(folder, request, long, "scores", lambda job: given, judged=in_columns)
    found = aggregated(run.parts(), list(words))
    document = {"verdict": found.verdict(), **asdict(found)}
    atomic_write(folder.path / "_evaluation.json", json_text(document).encode() + b"\n")
    if as_json:
        click.echo(json_text(document))
        return
    head = list(found.summary[0])
    lines = [[line[name] for name in head] for line in found.summary]
    click.echo(f"{printable(found.verdict())}\n\n{text_table(head, lines, 'Scores of all rows')}")


def _judged(words: dict[str, str], data: DataSet) -> dict[str, Any]:
    """The rankings by name: a word, or those in a column of the data set; RankingError if it has none."""
    known = (*get_args(RankMethod), *WORDS, "random")
    found: dict[str, Any] = {}
    for name, word in words.items():
        if word in known:
            found[name] = word
        elif word in data.schema.names and ColumnOrders.can_read(data.schema.field(word).type):
            found[name] = ColumnOrders(word)
        else:
            what = str(data.schema.field(word).type) if word in data.schema.names else "absent"
            raise RankingError(
                f"the ranking {word!r} is not one of {', '.join(known)}, and the column {word!r} is {what}; "
                "expected a column with a list of numbers in each row"
            )
    return found


def _opened_data(request: CommandRequest, folder: Path) -> DataSet:
    path = Path(request.data)
    if not path.exists():
        raise TableError(f"there is no file or folder {request.data!r}; check the path of the data set")
    if path.is_dir() and folder.resolve().is_relative_to(path.resolve()):
        raise RunError(
            f"the answers cannot be written into the data set, {request.data!r}; choose another folder"
        )
    return open_dataset(path)


def _columns(
    data: DataSet, request: CommandRequest, judged: tuple[str, ...]
) -> tuple[list[str], list[str], CommandRequest]:
    """The columns to read, those to pass through, and the request, in which these and `judged` are no
    features."""
    names = data.schema.names
    drop = split_names(request.drop, names)
    columns = [name for name in names if name not in drop]
    if ROW in columns:
        raise RunError(
            f"the data set has a column {ROW!r}, but so is called the column with the numbers of the rows; "
            f"rename it, or leave it out: --drop {ROW}"
        )
    ensemble: Ensemble = predgap.load(request.model)
    known = match_names(columns, ensemble.feature_names or (), TableError)
    check_roles(repr(request.data), names, known, request.roles(names))
    extra = [name for name in columns if name in (request.target, request.index, *judged)]
    if ensemble.feature_names is not None:
        extra = [name for name in columns if name not in known]
    keys = [ROW, *(name for name in extra if name not in judged)]
    return columns, keys, replace(request, drop=(*request.drop, *extra), target=None, index=None)


def _digest(path: str | None) -> str | None:
    """The SHA-256 of a file, None if there is none."""
    if path is None or not Path(path).is_file():
        return path
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text(value: Any) -> Any:
    """A setting as JSON has it."""
    if isinstance(value, dict):
        return {str(key): _text(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_text(item) for item in value]
    is_number = isinstance(value, int | float) and math.isfinite(value)  # NaN would differ from itself
    return value if is_number or isinstance(value, str | None) else repr(value)


def _tell(report: Report, folder: Path) -> None:
    """Says what was done; RunError if something is missing."""
    before = f", of which {report.n_before:,} were there before" if report.n_before else ""
    if report.n_bad:
        complain(
            f"warning: {count(report.n_bad, 'row')} could not be answered; the file of --bad-rows says why", 0
        )
    if report.is_complete:
        complain(f"{count(report.n_rows, 'row')} in {count(report.n_parts, 'part')}{before}: {folder}", 0)
        return
    told = []
    for name, error in report.unreadable.items():
        told.append(f"the file {name!r} cannot be read ({error})")
    if report.failed:
        first = report.failed[0]
        told.append(
            f"{count(len(report.failed), 'part')} failed three times, first rows {first['first_row']} to "
            f"{first['first_row'] + first['rows'] - 1} of {first['file']!r} ({first['error']}); "
            f"{str(folder / FAILED)!r} has the keys of their rows. --bad-rows FILE sets aside only "
            "the rows that cannot be answered"
        )
    raise RunError(
        f"{'; '.join(told)}. All other rows are answered; the same command tries again what is missing"
    )
