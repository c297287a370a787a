"""Options and arguments of the commands, and their checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import click
import pyarrow as pa

from predgap import Noise, Normal, Relative, TableError, Uniform
from predgap.cli.tablefiles import SUFFIXES

Estimator = Literal["auto", "exact", "bounded", "qmc"]
Command = TypeVar("Command", bound=Callable[..., Any])
NoiseOf = Callable[[pa.Table], Noise]


def _noise(context: click.Context, parameter: click.Parameter, value: str) -> NoiseOf:
    """A function that makes the noise of a text such as `relative:0.3` for a table."""
    found = re.fullmatch(r"(relative|normal|uniform):([^:]+?)(std)?", value)
    if found is None:
        expected = "relative:0.3, normal:0.3std, normal:0.3 or uniform:0.5"
        raise click.BadParameter(f"{value!r}; expected {expected}")
    law, number, relative = found.groups()
    if relative and law != "normal":
        size_of = "a strength: relative:0.3" if law == "relative" else "an absolute half-width: uniform:0.5"
        raise click.BadParameter(f"{value!r}; {law} noise has {size_of}")
    try:
        size = float(number)
        fixed = Uniform(size) if law == "uniform" else Normal(size)
    except ValueError:  # NoiseError is one
        raise click.BadParameter(f"{value!r}; {number!r} is not a positive finite number") from None
    if law == "relative" and size > 2**0.5:
        raise click.BadParameter(f"{value!r}; expected a strength of at most 1.4142, the root of 2")
    if law == "relative":
        return lambda table: Relative(_with_rows(table), size)
    return (lambda table: Normal.relative(_with_rows(table), size)) if relative else (lambda table: fixed)


def _with_rows(table: pa.Table) -> pa.Table:
    """The table; TableError if it has fewer than two rows."""
    if table.num_rows < 2:
        rows = "1 row" if table.num_rows else "no rows"
        raise TableError(
            f"the table has {rows}, so its columns have no standard deviation to scale the noise by; give an "
            "absolute scale, such as --noise normal:0.3"
        )
    return table


def checked_jobs(context: click.Context, parameter: click.Parameter, value: int) -> int:
    if value < 1 and value != -1:
        raise click.BadParameter(f"{value}; expected a number of threads, or -1 for all cores")
    return value


def _output(context: click.Context, parameter: click.Parameter, value: str | None) -> int | str | None:
    return int(value) if value is not None and re.fullmatch(r"-?\d{1,9}", value) else value


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


def explaining(command: Command) -> Command:
    """Adds the arguments and options that `gap` and `rank` have in common."""
    for decorate in (
        click.option("-o", "target", metavar="FILE", callback=_target, help="Write a .csv or .parquet file."),
        click.option(
            "--jobs", default=1, callback=checked_jobs, show_default=True, help="Threads; -1: all cores."
        ),
        click.option(
            "--output",
            callback=_output,
            metavar="K",
            help="Which output to explain, if the model has several: its position, from 0, the label of a "
            "class, or predicted, for the class predicted in each row; default: all together.",
        ),
        click.option(
            "--noise",
            callback=_noise,
            metavar="NOISE",
            default="relative:0.3",
            show_default=True,
            help="relative:0.3: every feature, number or category, moves by 0.3 of its column's spread in "
            "TABLE, to values that it can take. Of numbers only: normal:0.3std (0.3 times each column's "
            "standard deviation), or for all alike normal:0.3 (standard deviation), uniform:0.5 (half-width)",
        ),
        click.option(
            "--flip",
            type=click.FloatRange(0, 1, min_open=True),
            metavar="P",
            help="Noise of categorical features: with this probability they change to another category; "
            "default: as --noise relative says, else they are drawn from their column of TABLE.",
        ),
        click.option("--drop", multiple=True, metavar="NAMES", help="Columns that are not features."),
        click.argument("table", type=click.Path(path_type=Path)),
        click.argument("model", type=click.Path()),
    ):
        command = decorate(command)
    return command


def split_names(given: Sequence[str], known: Sequence[str]) -> list[str]:
    """Names from a repeated option, separated by commas unless the whole text is a known name."""
    return [name for text in given for name in ([text] if text in known else text.split(","))]


estimator_option = click.option(
    "--estimator",
    type=click.Choice(get_args(Estimator)),
    default="auto",
    show_default=True,
    help="How gaps are computed: exact; bounded, with a proven relative error of 1e-6; qmc, from samples; "
    "auto, exact or bounded unless that takes too long, then approximate.",
)
