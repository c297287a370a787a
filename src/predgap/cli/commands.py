"""The commands of `predgap`: they parse, call the library, and print."""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, get_args

import click
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

import predgap
from predgap import (
    CostError,
    Discrete,
    Ensemble,
    Explainer,
    Flip,
    Marginal,
    Noise,
    Normal,
    OutputError,
    PerFeature,
    PredgapError,
    Ranking,
    TableError,
    Uniform,
)
from predgap._engine.accuracy import RTOL
from predgap._engine.engine import resolve_n_jobs
from predgap._inputs.tables import read_table, to_native
from predgap._model.ensemble import LEAF
from predgap._optional import require
from predgap._text import format_items, printable
from predgap.cli.tablefiles import SUFFIXES, read_table_file, without, write_csv, write_table

Estimator = Literal["auto", "exact", "bounded", "qmc"]
Command = TypeVar("Command", bound=Callable[..., Any])
NoiseOf = Callable[[pa.Table], Noise]
Tell = Callable[[int, int], object]

# ---- the application -----------------------------------------------------------------------------


class _App(click.Group):
    """A group whose errors are one line on stderr, and whose exit codes are 0, 1, 2 and 130."""

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run, and exit."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # "µ" on a terminal that does not know it is no error
                stream.reconfigure(errors="backslashreplace")
        try:
            with _warnings_as_lines():
                code = super().main(*args, **(kwargs | {"standalone_mode": False})) or 0
        except click.Abort:
            code = _complain("interrupted", 130)
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx else "predgap"
            code = _complain(f"{error.format_message()} (see {where} --help)", 2)
        except PredgapError as error:
            code = _complain(str(error), 1)
        except OSError as error:
            about = f"{error.filename!r}: " if error.filename else ""
            code = _complain(f"{about}{error.strerror or error}", 1)
        sys.exit(code)


def _complain(message: str, code: int) -> int:
    click.echo(f"predgap: {printable(message)}", err=True)
    return code


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Show warnings as one line each, without the place in the source."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = _show_warning
        yield


def _show_warning(message: Warning | str, category: object, *_: object, **__: object) -> None:
    _complain(f"warning: {message}", 0)


@click.group(cls=_App, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(predgap.__version__, message="predgap %(version)s")
@click.pass_context
def app(context: click.Context) -> None:
    """Exact squared prediction gaps for tree ensembles.

    MODEL is a model file of XGBoost (JSON, UBJSON), LightGBM (text) or CatBoost (JSON, cbm). TABLE is a CSV
    file (delimited by comma, semicolon or tab, with a header) or a Parquet file; its columns are matched to
    the model's features by name. In a CSV file empty cells, NA, N/A, NaN, null and the like are missing
    values.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


# ---- options -------------------------------------------------------------------------------------


def _noise(context: click.Context, parameter: click.Parameter, value: str) -> NoiseOf:
    """The noise that a text such as `normal:0.3std` asks for, once there is a table."""
    found = re.fullmatch(r"(normal|uniform):([^:]+?)(std)?", value)
    if found is None:
        raise click.BadParameter(f"{value!r}; expected normal:0.3std, normal:0.3 or uniform:0.5")
    law, number, relative = found.groups()
    if relative and law == "uniform":
        raise click.BadParameter(f"{value!r}; a uniform noise has an absolute half-width: uniform:0.5")
    try:
        size = float(number)
        fixed = Normal(size) if law == "normal" else Uniform(size)
    except ValueError:  # NoiseError is one
        raise click.BadParameter(f"{value!r}; {number!r} is not a positive finite number") from None
    return (lambda table: _relative(table, size)) if relative else (lambda table: fixed)


def _relative(table: pa.Table, factor: float) -> Noise:
    if table.num_rows < 2:
        rows = "1 row" if table.num_rows else "no rows"
        raise TableError(
            f"the table has {rows}, so its columns have no standard deviation to scale the noise by; give an "
            "absolute scale, such as --noise normal:0.3"
        )
    return Normal.relative(table, factor)


def _jobs(context: click.Context, parameter: click.Parameter, value: int) -> int:
    if value < 1 and value != -1:
        raise click.BadParameter(f"{value}; expected a number of threads, or -1 for all cores")
    return value


def _target(context: click.Context, parameter: click.Parameter, value: str | None) -> Path | None:
    if value is None:
        return None
    path = Path(value)
    if path.suffix.lower() not in SUFFIXES:
        raise click.BadParameter(f"{value!r} ends in neither {' nor '.join(SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(path.parent)!r}; make it first")
    if path.is_dir():
        raise click.BadParameter(f"{value!r} is a folder")
    return path


def _explaining(command: Command) -> Command:
    """The arguments and options that `gap` and `rank` share."""
    for decorate in (
        click.option("-o", "target", metavar="FILE", callback=_target, help="Write here, .csv or .parquet."),
        click.option("--jobs", default=1, callback=_jobs, show_default=True, help="Threads; -1: all cores."),
        click.option(
            "--output",
            type=int,
            metavar="K",
            help="Which output of a model with several, from 0; without it, all together.",
        ),
        click.option(
            "--noise",
            callback=_noise,
            metavar="NOISE",
            default="normal:0.3std",
            show_default=True,
            help="How features move: normal:0.3std (0.3 times each column's standard deviation in TABLE), "
            "or for all features alike normal:0.3 (standard deviation) or uniform:0.5 (half-width).",
        ),
        click.option(
            "--flip",
            type=click.FloatRange(0, 1, min_open=True),
            metavar="P",
            help="Categories change with this probability, to any other; without it, they are drawn from "
            "their column of TABLE.",
        ),
        click.option("--drop", multiple=True, metavar="NAMES", help="Columns that are not features."),
        click.argument("table", type=click.Path(path_type=Path)),
        click.argument("model", type=click.Path()),
    ):
        command = decorate(command)
    return command


def _names(given: Sequence[str], known: Sequence[str]) -> list[str]:
    """Names from a repeated option; commas separate, unless the whole is a name."""
    return [name for text in given for name in ([text] if text in known else text.split(","))]


# ---- commands ------------------------------------------------------------------------------------


@app.command()
@click.argument("model", type=click.Path())
def info(model: str) -> None:
    """What a model consists of, and what an exact gap costs."""
    ensemble = predgap.load(model)
    inner = ensemble.feature != LEAF
    splits = np.bincount(ensemble.feature[inner], minlength=ensemble.n_features)
    console = Console(highlight=False)
    for key, value in _facts(ensemble, int(inner.sum()), int((splits > 0).sum())):
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


_estimator = click.option(
    "--estimator",
    type=click.Choice(get_args(Estimator)),
    default="auto",
    show_default=True,
    help="How gaps are obtained: bounded is within a millionth, guaranteed; qmc samples; auto is guaranteed, "
    "or approximate where that takes too long.",
)


@app.command()
@_explaining
@click.option("--features", multiple=True, required=True, metavar="NAMES", help="Features that move.")
@_estimator
def gap(features: tuple[str, ...], estimator: Estimator, target: Path | None, **asked: Any) -> None:
    """The gap of each row of TABLE when some features move.

    Prints row and gap as CSV, and of gaps that are not exact how they were obtained and how far they may be
    off. --features and --drop take names separated by commas, and can be repeated; a name with a comma in it
    goes alone.
    """
    with _explainer(_Request(**asked), "gaps") as (explainer, rows):
        found = explainer.estimate(rows, _names(features, explainer.ensemble.names), estimator)
    columns: dict[str, Any] = {"row": np.arange(len(found.value)), "gap": found.value}
    if (found.method != "exact").any():
        columns |= {name: getattr(found, name) for name in ("standard_error", "error_bound", "method")}
    _emit(to_native(columns, "pyarrow"), target)


@app.command()
@_explaining
@click.option(
    "--method",
    type=click.Choice(["greedy", "single"]),
    default="greedy",
    show_default=True,
    help="greedy: each place to the feature that raises the gap most; single: by the gap of each alone.",
)
@_estimator
def rank(
    method: Literal["greedy", "single"], estimator: Estimator, target: Path | None, **asked: Any
) -> None:
    """Rank the features for each row of TABLE, most important first.

    Prints row, place, feature and score as CSV, and of rankings that are not exact the confidence in each
    place: nan where bounds do not prove it. --drop takes names separated by commas, and can be repeated; a
    name with a comma in it goes alone.
    """
    with _explainer(_Request(**asked), "rankings", exact=estimator == "exact") as (explainer, rows):
        ranking = _ranked(explainer, rows, method, estimator)
    confidence = ranking.confidence
    if ranking.estimator != "exact" and confidence is not None and confidence.size:
        by = {"bounded": "bounds", "pruned": "pruned gaps"}.get(ranking.estimator or "", "samples")
        unproven = int(np.isnan(confidence).sum())
        if unproven < confidence.size and by == "samples":
            lowest = np.nanmin(confidence)
            _complain(f"ranked by samples; the lowest confidence in a place is {lowest:.3f}", 0)
        else:
            _complain(f"ranked by {by}; {unproven} of {confidence.size} places are not proven", 0)
    _emit(ranking.to_frame(), target)


@app.command()
def demo() -> None:
    """Rank the diabetes data greedily and by TreeSHAP, compare, and draw a picture."""
    from predgap.cli.demo import run

    run(Console(highlight=False), Path("predgap-demo"))


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
@click.option("--jobs", default=-1, callback=_jobs, show_default=True, help="Threads; -1: all cores.")
def reproduce(
    what: str, models: Literal["authors", "train"], data: Path | None, out: Path, quick: bool, **numbers: Any
) -> None:
    """Recompute the paper's tables and figures.

    Give one experiment, or all (the default). Ends in reproduction.md and reproduction.html in the folder
    --out, with a verdict on each printed number. What is finished is kept there: a run that was stopped goes
    on when it is started again. All of it takes about a quarter of an hour on two cores.
    """
    from predgap.paper.report.reproduction import summary_lines, write_pages
    from predgap.paper.reproduce import Plan, reproduce

    require("the reproduction", "reproduce")
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
        with _share_progress() as tell:
            found = reproduce(plan, tell)
            if tell is not None:
                tell("writing the pages", 1.0)
            pages = write_pages(found)
    except KeyboardInterrupt:
        _complain(f"what is finished is kept in {str(out)!r}; the same command goes on with it", 0)
        raise
    for line in (*summary_lines(found), *(f"Page: {path}" for path in pages)):
        click.echo(printable(line))


# ---- between options and library -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Request:
    """The options that `gap` and `rank` share."""

    model: str
    table: Path
    drop: tuple[str, ...]
    noise: NoiseOf
    flip: float | None
    output: int | None
    jobs: int


def _ranked(
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
def _explainer(request: _Request, what: str, *, exact: bool = False) -> Iterator[tuple[Explainer, pa.Table]]:
    """An explainer and the rows, checked; inside, progress is shown."""
    ensemble = predgap.load(request.model)
    table = read_table_file(request.table)
    table = without(table, _names(request.drop, table.column_names))
    _check_columns(request.table, table, ensemble)
    noise = _with_categories(request.noise(table), request.flip, ensemble, table)
    with _progress(what) as tell:
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
    """The noise, but for categorical features."""
    categorical = ensemble.categorical()
    if not categorical:
        return noise
    other: Noise = Marginal(table) if flip is None else Flip(flip)
    return PerFeature(dict.fromkeys(categorical, other), default=noise)


def _check_columns(path: Path, table: pa.Table, ensemble: Ensemble) -> None:
    names, columns = ensemble.feature_names or (), table.column_names
    extra = [name for name in columns if name not in names]
    if names and extra and set(names) <= set(columns):
        options = " ".join(f"--drop {shlex.quote(name)}" for name in extra)
        raise TableError(f"{path}: the model does not know {format_items(extra)}; leave out with {options}")
    try:
        read_table(table, ensemble.n_features, ensemble.feature_names, ensemble.categories)
    except TableError as error:
        hint = " (--drop NAME)" if len(columns) > ensemble.n_features and not names else ""
        raise TableError(f"{path}: {error}{hint}") from None


@contextmanager
def _progress(what: str) -> Iterator[Tell | None]:
    """A function to tell the progress to, on a terminal; it is gone when done."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def _share_progress() -> Iterator[Callable[[str, float], object] | None]:
    """A function to tell what is done, and the share of all work, on a terminal; it is gone when done."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("remaining"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=300) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda what, share: bar.update(task, description=printable(what), completed=share)


def _emit(table: pa.Table, target: Path | None) -> None:
    """To the file, or as CSV to stdout."""
    if target is not None:
        write_table(table, target)
        return
    if sys.stdout.isatty() and "feature" in table.column_names:
        names = [printable(name) for name in table["feature"].to_pylist()]
        table = table.set_column(table.column_names.index("feature"), "feature", pa.array(names, pa.string()))
    write_csv(table, sys.stdout.buffer)


# ---- facts about a model -------------------------------------------------------------------------


def _facts(ensemble: Ensemble, n_splits: int, n_used: int) -> Iterator[tuple[str, str]]:
    yield "source", ensemble.source
    yield "trees", f"{ensemble.n_trees:,}, up to {_depth(ensemble)} splits deep"
    yield "nodes", f"{ensemble.n_nodes:,}, of which {n_splits:,} splits"
    yield "outputs", str(ensemble.n_outputs)
    yield "features", f"{ensemble.n_features:,}, of which {n_used:,} are used"
    yield "one gap", _cost(ensemble)


def _depth(ensemble: Ensemble) -> int:
    """Splits on the longest path from a root."""
    depth, level = 0, ensemble.root
    while len(level := level[ensemble.feature[level] != LEAF]):
        depth += 1
        level = np.concatenate([ensemble.left[level], ensemble.right[level]])
    return depth


def _cost(ensemble: Ensemble) -> str:
    """What an exact gap takes when all features are perturbed by noise of a third of their spread."""
    used = np.unique(ensemble.feature[ensemble.feature != LEAF]).tolist()
    try:
        explainer = Explainer(ensemble, PerFeature({q: _noise_of(ensemble, q) for q in used}), rtol=0.0)
        cost = explainer.cost(used)
    except PredgapError as error:
        return f"unknown: {error}"
    takes = _duration(1e6 * cost.milliseconds)
    return f"about {takes} and {cost.megabytes:,.3g} MB per row if all features move (estimate)"


def _noise_of(ensemble: Ensemble, q: int) -> Noise:
    levels = ensemble.categorical().get(q)
    if levels is not None:
        return Discrete(levels.labels or ())
    spread = float(np.unique(ensemble.threshold[ensemble.feature == q]).std())
    return Normal(0.3 * spread if 0 < spread < float("inf") else 1.0)


def _duration(nanoseconds: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:,.3g} {unit}"
    return f"{nanoseconds / 1e3:,.3g} µs"
