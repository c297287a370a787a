"""`python -m reproduction`: what `make reproduce` runs, with its options."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from predgap import DependencyError, PredgapError
from reproduction.helpers import n_threads, printable
from reproduction.run import GROUPS, Plan, Tell, reproduce

FAILED: Final = 1
INTERRUPTED: Final = 130  # 128 + SIGINT

_NEEDED: Final = {  # modules, and the packages that have them
    "xgboost": "xgboost",
    "sklearn": "scikit-learn",
    "matplotlib": "matplotlib",
    "jinja2": "jinja2",
    "pooch": "pooch",
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("what", type=click.Choice([*GROUPS, "all"]), default="all")
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
@click.option("--jobs", type=int, default=-1, show_default=True, help="Threads; -1: all cores.")
def command(
    what: str, models: Literal["authors", "train"], data: Path | None, out: Path, quick: bool, **numbers: Any
) -> None:
    """Recompute the paper's tables and figures.

    WHAT is one experiment, or all (the default). Writes reproduction.md and reproduction.html to the folder
    --out, with a verdict on each printed number. Finished parts are kept there: a run that was stopped
    continues when it is started again. All experiments take about a quarter of an hour on two cores.
    """
    _check_packages()
    from reproduction.sections import summary_lines, write_pages  # --help does not wait for them

    plan = Plan(
        out=out,
        what=what,
        models=models,
        data_dir=data,
        quick=quick,
        n_pairs=numbers["pairs"],
        n_jobs=n_threads(numbers["jobs"]),
    )
    out.mkdir(parents=True, exist_ok=True)
    try:
        with _shown() as tell:
            found = reproduce(plan, tell)
            if tell is not None:
                tell("writing the pages", 1.0)
            pages = write_pages(found)
    except KeyboardInterrupt:
        _complain(f"finished parts are kept in {str(out)!r}; run the same command to continue")
        raise
    for line in (*summary_lines(found), *(f"Page: {path}" for path in pages)):
        click.echo(printable(line))


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command; an error that is to be expected is one line on the standard error."""
    code = 0
    try:
        code = command.main(arguments, prog_name="python -m reproduction", standalone_mode=False) or 0
    except click.UsageError as error:
        _complain(f"{error.format_message()} (see --help)")
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _complain("interrupted")
        code = INTERRUPTED
    except PredgapError as error:
        _complain(str(error))
        code = FAILED
    except OSError as error:
        about = f"{error.filename}: " if error.filename else ""
        _complain(f"{about}{error.strerror or error}")
        code = FAILED
    sys.exit(code)


def _check_packages() -> None:
    """All packages must be there before long work begins, so that it does not fail at its end."""
    missing = [package for module, package in _NEEDED.items() if not _installed(module)]
    if missing:
        raise DependencyError(
            f"it needs {', '.join(missing)}, which is not installed; make reproduce installs what is needed, "
            "or try: pip install --group reproduce"
        )


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # set to None in sys.modules
        return False


def _complain(message: str) -> None:
    click.echo(f"reproduction: {printable(message)}", err=True)


@contextmanager
def _shown() -> Iterator[Tell | None]:
    """A function that shows a description and the share of work done as a bar, which is removed at the end;
    None without a terminal."""
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


if __name__ == "__main__":
    main()
