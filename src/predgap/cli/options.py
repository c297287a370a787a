"""Arguments and options of the commands, and their checks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args

import click

from predgap import NoiseError
from predgap.cli.noise import NoisePlan, noise_plan
from predgap.cli.tables import FORMATS
from predgap.loaders import ModelFile

Estimator = Literal["auto", "exact", "bounded", "qmc"]
Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Any], Any]
"""Adds an option or an argument to a command."""


def decorated(command: Command, decorators: tuple[Callable[[Command], Command], ...]) -> Command:
    """The command with all of these decorators, the first one outermost."""
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


# ---- checks --------------------------------------------------------------------------------------


def _noise(context: click.Context, parameter: click.Parameter, value: str) -> NoisePlan:
    try:
        return noise_plan(value)
    except NoiseError as error:
        raise click.BadParameter(str(error)) from None


def _keep(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    return () if value is None else tuple(text.strip() for text in value.split(","))


def _group(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for text in value:
        name, equals, members = text.partition("=")
        if not (name and equals and members):
            raise click.BadParameter(f"{text!r}; expected a name and features, such as place=lat,lon")
        if name in groups:
            raise click.BadParameter(f"there are two groups {name!r}")
        groups[name] = members.split(",")
    return groups


def checked_jobs(context: click.Context, parameter: click.Parameter, value: int) -> int:
    if value < 1 and value != -1:
        raise click.BadParameter(f"{value}; expected a number of threads, or -1 for all cores")
    return value


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder to write to."""

    path: Path


def _file_or_folder(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> Path | Folder | None:
    """The file to write, or the folder, which ends in / or is there already; None for standard output."""
    if value is None or value == "-" or not (value.endswith("/") or Path(value).is_dir()):
        return checked_target(context, parameter, value)
    if not Path(value).absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(Path(value).parent)!r}; make it first")
    return Folder(Path(value))


def checked_target(context: click.Context, parameter: click.Parameter, value: str | None) -> Path | None:
    """The file to write; None for standard output."""
    if value is None or value == "-":
        return None
    path = Path(value)
    if not path.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(path.parent)!r}; make it first")
    if path.is_dir():
        raise click.BadParameter(f"{value!r} is a folder")
    return path


def chosen_format(target: Path | None, form: str | None, as_json: bool) -> str:
    """The format to write: as asked for, else by the ending of the file, else CSV."""
    context = click.get_current_context()
    if as_json and form not in (None, "jsonl"):
        raise click.UsageError(f"--json writes jsonl; leave out --format {form}", context)
    if target is None and form in ("parquet", "arrow") and sys.stdout.isatty():
        raise click.UsageError(f"{form} is not for a terminal; write a file, with -o FILE", context)
    if as_json or form is not None:
        return form or "jsonl"
    ending = "csv" if target is None else target.suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        known = ", ".join(f".{form}" for form in FORMATS)
        raise click.UsageError(f"{str(target)!r} ends in none of {known}; or give --format", context)
    return ending


def numbers(context: click.Context, parameter: click.Parameter, value: str | None) -> list[float] | None:
    """Positive numbers, separated by commas."""
    if value is None:
        return None
    try:
        found = [float(text) for text in value.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < number < float("inf") for number in found):
        raise click.BadParameter(f"{value!r}; expected positive numbers such as 0.1,0.3,1")
    return found


# ---- groups of options ---------------------------------------------------------------------------

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")


best_iteration_option = click.option(
    "--best-iteration/--no-best-iteration",
    default=None,
    help="Of an XGBoost model that was trained with early stopping, take the trees up to the best iteration, "
    "as XGBRegressor does, or all. Default: all, with a warning.",
)


def reading_models(*names: str) -> Callable[[Command], Command]:
    """Adds arguments that are model files, which the command gets as `ModelFile`s, and how these are read."""

    def adding(command: Command) -> Command:
        @wraps(command)
        def with_models(best_iteration: bool | None, **given: Any) -> Any:
            return command(**given | {name: ModelFile(given[name], best_iteration) for name in names})

        arguments = (click.argument(name, type=click.Path()) for name in names)
        return decorated(cast(Command, with_models), (*arguments, best_iteration_option))

    return adding


def explaining(command: Command) -> Command:
    """Adds MODEL, DATA, and how they are read and DATA is perturbed."""
    return reading_models("model")(perturbing(command))


def perturbing(command: Command) -> Command:
    """Adds DATA, and how it is read and perturbed."""
    data = click.argument("data", type=click.Path(allow_dash=True))
    return decorated(command, (data, *_of_noise(), *_of_columns(), *_of_answers()))


def _of_noise() -> tuple[Option, ...]:
    """Options that say how DATA is perturbed."""
    return (
        click.option(
            "--reference",
            type=click.Path(allow_dash=True),
            metavar="FILE",
            help="Table that the noise takes scales and values from, usually the training table; "
            "default: DATA, or of a longer table 100,000 rows of it, drawn at random. The noise is the "
            "same for all rows.",
        ),
        click.option(
            "--noise",
            callback=_noise,
            metavar="NOISE",
            default="relative:0.3",
            show_default=True,
            help="relative:0.3: every column, number or category, moves by 0.3 of its spread, to values "
            "that it can take. marginal: values drawn from the column; background: from a row, together. "
            "Of numbers only: normal:0.3std (0.3 standard deviations), or for all alike normal:0.3, "
            "uniform:0.5 (half-width), laplace:0.3. A .toml file gives columns noise of their own.",
        ),
        click.option(
            "--keep",
            callback=_keep,
            metavar="VALUES",
            help="Special codes such as -9,-8 that relative noise does not move.",
        ),
        click.option(
            "--flip",
            type=click.FloatRange(0, 1, min_open=True),
            metavar="P",
            help="Noise of categorical features: with this probability they change to another category; "
            "default: as --noise says, or where it is of numbers only, drawn from the column.",
        ),
    )


def _of_columns() -> tuple[Option, ...]:
    """Options that say what the columns of DATA are."""
    return (
        click.option("--drop", multiple=True, metavar="NAMES", help="Columns that are not features."),
        click.option("--target", metavar="NAME", help="Column with the true values; it is no feature."),
        click.option(
            "--index",
            metavar="NAME",
            help="Column with the labels of the rows, such as keys, which come back as they are written; "
            "default: a first column without a name, as pandas writes its index.",
        ),
        click.option(
            "--group",
            multiple=True,
            callback=_group,
            metavar="NAME=NAMES",
            help="Features that move together and rank as one, such as place=lat,lon.",
        ),
    )


def _of_answers() -> tuple[Option, ...]:
    """Options that say what is explained, and how exactly."""
    return (
        click.option(
            "--output",
            metavar="CLASS",
            help="Which output to explain, if the model has several: the label of a class; else its "
            "position, from 0; or predicted, for the class predicted in each row; default: all together.",
        ),
        click.option(
            "--rtol",
            type=click.FloatRange(0, 1, max_open=True),
            metavar="R",
            help="Largest relative error; 0: exact. Default: 1e-6.",
        ),
        click.option(
            "--jobs", default=-1, callback=checked_jobs, show_default=True, help="Threads; -1: all cores."
        ),
    )


format_option = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Default: by the ending of the file; else csv. arrow is a stream.",
)


def writing_table(command: Command) -> Command:
    """Adds where a table goes, and in which format."""
    return decorated(
        command,
        (
            click.option(
                "-o",
                "--out",
                "target_file",
                metavar="FILE",
                callback=_file_or_folder,
                help="Write to a file, or to standard output with - (the default); or with a / at the end to "
                "a folder, as Parquet files: then DATA is a Parquet file or a folder of them, of any size, "
                "and the same command goes on where it was stopped.",
            ),
            format_option,
            json_option,
        ),
    )


estimator_option = click.option(
    "--estimator",
    type=click.Choice(get_args(Estimator)),
    default="auto",
    show_default=True,
    help="How gaps are computed: exact; bounded, with a proven relative error of at most --rtol; qmc, from "
    "samples; auto, exact or bounded unless that takes too long, then approximate.",
)
