"""The command `predgap completion`: the script that completes commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from predgap.cli.app import app


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
