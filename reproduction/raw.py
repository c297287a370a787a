"""The long tables of a page, which are folded: one line for each number, with its verdict."""

from __future__ import annotations

from typing import Any, Final

from reproduction.common.published import SAMPLERS
from reproduction.report.page import Cell, Folded, Table
from reproduction.report.pivots import SIGNS, Row
from reproduction.reproduce import Reproduction

_PRINTED: Final = {ours: theirs for theirs, ours in SAMPLERS.items()}


def raw(found: Reproduction, experiment: str, table: Table) -> Folded:
    """A folded table of an experiment, with the file that has all of its numbers."""
    return Folded(table, f"results{found.plan.suffix}/{experiment}.csv")


def key(row: Row) -> tuple[Any, ...]:
    """What a number is about, whatever the protocol."""
    names = ("kind", "dataset", "k", "evaluation_scale", "method", "scale")
    return tuple(row.get(name) for name in names)


def cell_verdict(found: Reproduction, table: str, row: Row) -> Cell:
    """The verdict on the printed cell that belongs to a row; a dash if there is none."""
    if "cells" not in found.results:
        return Cell("–")
    method = row.get("method", "greedy")
    where = {name: row.get(name) for name in ("kind", "dataset", "scale", "evaluation_scale", "k")}
    where |= {"table": table, "method": _PRINTED.get(method, method)}
    cells = [cell for cell in found.results["cells"].where(**where) if cell["quantity"] != "iterations"]
    if not cells:
        return Cell("–")
    outcome = cells[0]["outcome"]
    why = "" if outcome == "matches" else f": {cells[0]['why']}"
    return Cell(f"{outcome}{why}", SIGNS[outcome][1])
