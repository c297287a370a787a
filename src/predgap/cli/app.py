"""Makes the command group `predgap`: errors are one line on stderr, and the exit code says how it ended.

Here are also the progress bars of all commands, and the command `completion`.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import click
from click.shell_completion import get_completion_class
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

import predgap
from predgap import PredgapError
from predgap._text import printable
from predgap.errors import LongCallWarning, OutsideWarning

FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130  # 128 + SIGINT
NO_READER: Final = 141  # 128 + SIGPIPE, as a program that is ended by it


class _App(click.Group):
    """A command group that prints errors as one line on stderr; with --debug, after the traceback."""

    debug = False
    arguments: Sequence[str] = ()  # of the command line

    def main(self, args: Sequence[str] | None = None, *rest: Any, **kwargs: Any) -> NoReturn:
        """Runs a command and exits."""
        self.debug, self.arguments = False, sys.argv[1:] if args is None else args
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # escape characters that the terminal cannot show
                stream.reconfigure(errors="backslashreplace")
        try:
            with _warnings_as_lines():
                code = super().main(args, *rest, **(kwargs | {"standalone_mode": False})) or 0
        except (Exception, KeyboardInterrupt) as error:
            if self.debug:
                traceback.print_exc()
            code = _ending(error)
        _drop_output()
        sys.exit(code)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[:1] == ["reproduce"]:
            ctx.fail(
                "No such command 'reproduce'. The reproduction of the paper is beside the package, in the "
                "repository of predgap; try there: make reproduce"
            )
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _kept_broken_pipes():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _kept_broken_pipes():
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result


class _NoReaderError(Exception):
    """The reader of the output, such as `head`, has closed the pipe."""


@contextmanager
def _kept_broken_pipes() -> Iterator[None]:
    """Lets a closed pipe through click, which would exit with 1."""
    try:
        yield
    except BrokenPipeError:
        raise _NoReaderError from None


def _ending(error: BaseException) -> int:
    """Says what went wrong; the exit code."""
    if isinstance(error, _NoReaderError):
        return NO_READER
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return complain("interrupted", INTERRUPTED)
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx else "predgap"
        return complain(f"{error.format_message()} (see {where} --help)", WRONG_USAGE)
    if isinstance(error, PredgapError):
        return complain(str(error), FAILED)
    if isinstance(error, OSError):
        about = f"{error.filename}: " if error.filename else ""
        return complain(f"{about}{error.strerror or error}", FAILED)
    if isinstance(error, MemoryError):
        return complain("there is not enough memory", FAILED)
    what = f"{type(error).__name__}: {error}"
    return complain(f"{what} (this is a fault of predgap; --debug shows where it happened)", FAILED)


def _drop_output() -> None:
    """Writes what is left for stdout, and if that is not possible, throws it away: nothing fails at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class OutputConsole(Console):
    """A console on stdout that raises BrokenPipeError if the pipe is closed, where rich would exit with 1."""

    def __init__(self) -> None:
        super().__init__(highlight=False)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def complain(message: str, code: int) -> int:
    click.echo(f"predgap: {printable(message)}", err=True)
    return code


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Prints warnings as one line each, without file and line number."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = _Lines().show
        yield


class _Lines:
    """Shows warnings. Of those that come for each block of rows, only the first of its kind."""

    def __init__(self) -> None:
        self._shown: set[type[Warning]] = set()

    def show(self, message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        if isinstance(message, LongCallWarning | OutsideWarning):
            if category in self._shown:
                return
            self._shown.add(category)
        if isinstance(message, LongCallWarning):
            faster = "A larger --rtol, if the command has it, more --jobs and fewer rows are faster."
            message = f"this is expected to take about {message.duration} or more. {faster}"
        elif isinstance(message, OutsideWarning):
            message = f"{message} This is said of the first such rows only."
        complain(f"warning: {message}", 0)


def _debug(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        app.debug = True


class Verb(click.Command):
    """A command with the option --debug."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(
            click.Option(
                ["--debug"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_debug,
                help="Show the traceback of an error.",
            )
        )


@click.group(cls=_App, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(predgap.__version__, message="predgap %(version)s")
@click.pass_context
def app(context: click.Context) -> None:
    """Squared prediction gaps of tree ensembles: how much do features move a prediction?

    MODEL is a model file of XGBoost (JSON, UBJSON), LightGBM (text), CatBoost (JSON, cbm) or ONNX. DATA is a
    table: CSV (delimited by comma, semicolon or tab, with a header), Parquet or Arrow; - reads it from
    standard input. Its columns are matched to the model's features by name. In CSV categories are read as
    they are written, and of these only empty cells are missing; in columns of numbers so are NA, N/A, NaN,
    null and the like. A first column without a name, as pandas writes its index, has the labels of the rows;
    or --index names their column.

    \b
    Example:
      predgap rank model.txt rows.csv --reference train.csv --top 3

    Exit codes: 0 done, 1 error, 2 wrong usage, 130 interrupted, 141 the reader of the output has gone.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


app.command_class = Verb


# ------------------------------------------------------------------------------------------------------------
# The command `predgap completion` prints the script that completes commands and options in a shell.


@app.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands, options and files of predgap in SHELL.

    \b
    Examples:
      predgap completion bash > predgap.bash    # then: source predgap.bash
      predgap completion zsh > predgap.zsh      # then: source predgap.zsh
      predgap completion fish > predgap.fish    # goes to ~/.config/fish/completions
    """
    script = get_completion_class(shell)
    assert script is not None  # click has all three
    click.echo(script(app, {}, "predgap", "_PREDGAP_COMPLETE").source())


# ------------------------------------------------------------------------------------------------------------
# Progress bars are shown on the terminal.

Progressing = Callable[[int, Any], object] | None


class RowsDone:
    """Rows done, through several calls, on a bar; without a bar, nothing is shown."""

    def __init__(self, update: Progressing, n_rows: int | None) -> None:
        self.whole, self._n_rows, self._before = update, n_rows, 0  # whole: for one call on all rows

    @property
    def tell(self) -> Progressing:
        """A function for the progress of one call, in its rows done and all its rows."""
        update = self.whole
        return None if update is None else lambda done, _: update(self._before + done, self._n_rows)

    def advance(self, rows: int) -> None:
        """A call on so many rows has ended."""
        self._before += rows


@contextmanager
def row_progress(what: str) -> Iterator[Progressing]:
    """A function that shows rows done and all rows (None: not known) as a bar, which is removed at the end;
    None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
