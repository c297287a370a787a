"""The command line `predgap`. The commands are in `commands`, which needs the extra `cli`."""

from __future__ import annotations

import sys
from typing import Final

_EXTRA: Final = ("click", "rich", "pyarrow")  # the packages of the extra `cli`


def main() -> None:
    """Runs the command line and exits; the help of `predgap` says with which code."""
    try:
        from predgap.cli.commands import app
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRA:
            raise
        sys.exit(f"predgap: the command line needs {package}: pip install 'predgap[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)
    app.main(prog_name="predgap")
