"""The command group `predgap`: prints errors as one line on stderr, exits with 0, 1, 2 or 130."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click
from rich.console import Console

import predgap
from predgap import PredgapError
from predgap._text import printable


class _App(click.Group):
    """A command group that prints errors as one line on stderr and exits with 0, 1, 2 or 130."""

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Runs a command and exits."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # escape characters that the terminal cannot show
                stream.reconfigure(errors="backslashreplace")
        try:
            with _warnings_as_lines():
                code = super().main(*args, **(kwargs | {"standalone_mode": False})) or 0
        except click.Abort:
            code = complain("interrupted", 130)
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx else "predgap"
            code = complain(f"{error.format_message()} (see {where} --help)", 2)
        except PredgapError as error:
            code = complain(str(error), 1)
        except OSError as error:
            about = f"{error.filename!r}: " if error.filename else ""
            code = complain(f"{about}{error.strerror or error}", 1)
        sys.exit(code)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _stopping_with_the_reader():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _stopping_with_the_reader():
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result


@contextmanager
def _stopping_with_the_reader() -> Iterator[None]:
    """Exits with 0 if the reader of the output, such as `head`, has closed the pipe."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # buffered output goes there at exit
        raise click.exceptions.Exit(0) from None


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
        warnings.showwarning = _show_warning
        yield


def _show_warning(message: Warning | str, category: object, *_: object, **__: object) -> None:
    complain(f"warning: {message}", 0)


@click.group(cls=_App, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(predgap.__version__, message="predgap %(version)s")
@click.pass_context
def app(context: click.Context) -> None:
    """Squared prediction gaps of tree ensembles: how much do features move a prediction?

    MODEL is a model file of XGBoost (JSON, UBJSON), LightGBM (text) or CatBoost (JSON, cbm). TABLE is a CSV
    file (delimited by comma, semicolon or tab, with a header) or a Parquet file; its columns are matched to
    the model's features by name. In a CSV file empty cells, NA, N/A, NaN, null and the like are missing
    values.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
