"""Starts the command line `predgap`. Commands are in modules of their own, which need the extra `cli`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from click import Group

_EXTRA: Final = ("click", "rich", "pyarrow")  # the packages of the extra `cli`


def main() -> None:
    """Runs the command line and exits; the help of `predgap` says with which code."""
    try:
        app = commands()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRA:
            raise
        sys.exit(f"predgap: the command line needs {package}: pip install 'predgap[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)
    app.main(prog_name="predgap")


def commands() -> Group:
    """The command `predgap` with all its commands: their modules add them when they are imported."""
    from predgap.cli import demo, diff, evaluate, info, rank  # noqa: F401
    from predgap.cli.app import app

    return app
