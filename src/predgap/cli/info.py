"""The command `predgap info`."""

from __future__ import annotations

import click
from rich.table import Table
from rich.text import Text

import predgap
from predgap._text import printable
from predgap.cli.app import OutputConsole, app
from predgap.cli.facts import as_lines, facts
from predgap.cli.options import json_option, reading_models
from predgap.cli.writing import json_text
from predgap.loaders import ModelFile


@app.command()
@reading_models("model")
@json_option
def info(model: ModelFile, as_json: bool) -> None:
    """Show the trees and features of a model, and the cost of an exact gap.

    \b
    Example:
      predgap info model.txt
    """
    found = facts(predgap.load(model))
    if as_json:
        click.echo(json_text(found))
        return
    console = OutputConsole()
    for key, value in as_lines(found):
        console.print(Text(f"{key:<9} {printable(value)}"), soft_wrap=True)
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("feature", overflow="fold")
    table.add_column("splits", justify="right")
    table.add_column("thresholds", justify="right")
    for feature in found["features"]:
        cuts = f"{feature['categories']} categories" if "categories" in feature else feature["thresholds"]
        table.add_row(Text(printable(feature["name"])), str(feature["splits"]), str(cuts))
    console.print(table)
