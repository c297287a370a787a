"""Tables as the paper has them: a block of rows for each model, and a printed number beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, Final

from reproduction.common.published import SAMPLERS
from reproduction.report.page import Cell, Group, Table, Tone
from reproduction.report.words import METHOD_NAMES, model_name, number, ranking_name

Row = Mapping[str, Any]
Column = tuple[str, str]  # what stands above, if anything, and the name itself

SIGNS: Final[Mapping[str, tuple[str, Tone]]] = {
    "matches": ("=", "good"),
    "explained": ("≈", "fair"),
    "differs": ("≠", "bad"),
    "not recomputed": ("–", "none"),
}
HOW_TO_READ: Final = (
    "Each cell has the printed number, a sign and our number: = the same digits, ≈ other digits for a reason "
    "that was measured, ≠ other digits, – not recomputed."
)
HOW_TO_READ_AHEAD: Final = (
    "+ greedy is ahead of SHAP, − behind, = neither: by 95 % bootstrap intervals of the difference over test "
    "rows."
)


def pivot(
    rows: Iterable[Row],
    corner: str,
    *,
    by: Callable[[Row], str],
    across: Callable[[Row], Column],
    cell: Callable[[Row], str | Cell],
    group: Callable[[Row], str] = model_name,
    caption: str = "",
) -> Table:
    """One cell per row, laid out by its group, its line and its column, each in order of appearance.

    Examples
    --------
    >>> rows = [{"model": "m", "k": k, "method": name, "n": k} for name in "ab" for k in (1, 2)]
    >>> table = pivot(
    ...     rows, "k", by=lambda row: f"{row['k']}", across=lambda row: ("", row["method"]),
    ...     cell=lambda row: f"{row['n']}", group=lambda row: row["model"],
    ... )
    >>> table.header, table.rows
    (('k', 'a', 'b'), (Group(text='m'), ('1', '1', '1'), ('2', '2', '2')))
    """
    cells = {(group(row), by(row), across(row)): cell(row) for row in rows}
    columns = list(dict.fromkeys(column for _, _, column in cells))
    made: list[tuple[str | Cell, ...] | Group] = []
    for name in dict.fromkeys(name for name, _, _ in cells):
        made.append(Group(name))
        for line in dict.fromkeys(line for owner, line, _ in cells if owner == name):
            made.append((line, *(cells.get((name, line, column), "") for column in columns)))
    above = [(text, len(list(same))) for text, same in groupby(("", *(text for text, _ in columns)))]
    return Table(
        (corner, *(name for _, name in columns)),
        tuple(made),
        caption=caption,
        above=tuple(above) if len(above) > 1 else (),
    )


# ---- lines and columns ---------------------------------------------------------------------------


def by_value(name: str) -> Callable[[Row], str]:
    """A line for each value of a column, a σ or a k."""
    return lambda row: f"{row[name]:g}"


def by_ranking(row: Row) -> Column:
    """A column for SHAP, and one for greedy at each σ."""
    return ("", "SHAP") if row["scale"] is None else ("greedy", f"σ = {row['scale']:g}")


def by_place(row: Row) -> Column:
    return ("", f"k = {row['k']}")


def by_sampling(row: Row) -> Column:
    """The columns of Table 1."""
    method = SAMPLERS.get(row["method"], row["method"])
    return (METHOD_NAMES[method], "NMAE" if row["quantity"] == "nmae" else "iterations")


# ---- cells ---------------------------------------------------------------------------------------


def judged(row: Row) -> Cell:
    """The printed number, ours, and what came out, of a row of `reproduction.verdicts.cells`."""
    sign, tone = SIGNS[row["outcome"]]
    value = row["recomputed"]
    ours = f"{value:.0f}" if value is not None and row["quantity"] == "iterations" else number(value)
    why = f"{row['outcome']}: {row['why']}"
    return Cell("" if value is None else ours, tone, sign, row["printed"], why)


def ahead(value: str) -> Callable[[Row], str | Cell]:
    """The number in a column; greedy's with a sign that says whether it is ahead of SHAP or behind."""

    def cell(row: Row) -> str | Cell:
        if row["advantage"] is None:
            return number(row[value])
        sign, tone = standing(row)
        interval = f"{number(row['low'])} – {number(row['high'])}"
        return Cell(
            number(row[value]), tone, sign, note=f"95 % bootstrap interval over test rows: {interval}"
        )

    return cell


def standing(row: Row) -> tuple[str, Tone]:
    """Whether greedy is ahead of SHAP, behind or neither, by the interval of its advantage.

    Examples
    --------
    >>> standing({"advantage_low": 0.1, "advantage_high": 0.3})
    ('+', 'ahead')
    >>> standing({"advantage_low": -0.1, "advantage_high": 0.3})
    ('=', 'none')
    """
    if row["advantage_low"] > 0:
        return "+", "ahead"
    return ("−", "behind") if row["advantage_high"] < 0 else ("=", "none")


def ranking_of(row: Row) -> str:
    return ranking_name(row["method"], row["scale"])
