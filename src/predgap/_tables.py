"""Small tables, as HTML for notebooks and pages or as text for terminals. Names are data, and escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from predgap._text import printable

_LONGEST: Final = 40  # characters of a cell
_DIGITS: Final = 4


class ShownAsTable:
    """A result that is printed, and shown by Jupyter, as a small table."""

    __slots__ = ()

    def _table(self) -> tuple[list[str], list[list[Any]], str]:
        """The head, the rows and the caption of the table."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return text_table(*self._table())

    def _repr_html_(self) -> str:
        """The table, as Jupyter shows it."""
        return html_table(*self._table())


def html_table(head: Sequence[Any], rows: Sequence[Sequence[Any]], caption: str = "") -> str:
    """A table as HTML, without styles of its own but the side on which cells are aligned.

    Parameters
    ----------
    head : sequence of c cells
        The names of the columns.
    rows : sequence of rows of c cells
        A float is shown with 4 digits. Numbers are on the right, all else on the left. Every text is escaped,
        on one line, and cut in its middle if it is long; the whole text is then shown by the pointer.
    caption : str, default=""
        A line above the table.

    Returns
    -------
    str

    Examples
    --------
    >>> print(html_table(["name", "gap"], [["<b>", 0.5]], "Gaps"))
    <table>
    <caption style="text-align: left">Gaps</caption>
    <thead><tr><th scope="col" style="text-align: left">name</th>\
<th scope="col" style="text-align: right">gap</th></tr></thead>
    <tbody>
    <tr><td style="text-align: left">&lt;b&gt;</td><td style="text-align: right">0.5</td></tr>
    </tbody>
    </table>
    """
    sides = _sides(len(head), rows)
    top = "".join(_cell("th", cell, side) for cell, side in zip(head, sides, strict=True))
    body = [
        "<tr>" + "".join(_cell("td", cell, side) for cell, side in zip(row, sides, strict=True)) + "</tr>"
        for row in rows
    ]
    named = [f'<caption style="text-align: left">{_escaped(printable(caption))}</caption>'] if caption else []
    lines = ["<table>", *named, f"<thead><tr>{top}</tr></thead>", "<tbody>", *body, "</tbody>", "</table>"]
    return "\n".join(lines)


def text_table(head: Sequence[Any], rows: Sequence[Sequence[Any]], caption: str = "") -> str:
    """The same table as lines of text, without trailing spaces.

    Examples
    --------
    >>> print(text_table(["name", "gap"], [["age", 0.5], ["bmi", 12.25]], "Gaps"))
    Gaps
    name    gap
    age     0.5
    bmi   12.25
    """
    if not head:
        return printable(caption)
    sides = _sides(len(head), rows)
    lines = [[shortened(cell_text(cell)) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = [
        "  ".join(
            cell.rjust(width) if side == "right" else cell.ljust(width)
            for cell, width, side in zip(line, widths, sides, strict=True)
        ).rstrip()
        for line in lines
    ]
    return "\n".join([printable(caption), *table] if caption else table)


def cell_text(cell: Any) -> str:
    """A cell as text on one line: floats with 4 digits, characters that cannot be seen written out.

    Examples
    --------
    >>> cell_text(1 / 3), cell_text(12), cell_text(float("nan")), cell_text("a\\nb")
    ('0.3333', '12', 'nan', 'a\\\\nb')
    """
    return f"{cell:.{_DIGITS}g}" if isinstance(cell, float | np.floating) else printable(str(cell))


def shortened(text: str, longest: int = _LONGEST) -> str:
    """A text of at most `longest` characters, cut in the middle: names often differ at their ends.

    Examples
    --------
    >>> shortened("amount_of_all_payments_90_days", 20)
    'amount_of_…s_90_days'
    """
    if len(text) <= longest:
        return text
    end = (longest - 1) // 2
    return f"{text[: longest - 1 - end]}…{text[len(text) - end :]}"


def _sides(n_columns: int, rows: Sequence[Sequence[Any]]) -> list[str]:
    """The side to which each column is aligned: the right if it holds numbers only, else the left."""
    return [
        "right" if rows and all(_is_number(row[at]) for row in rows) else "left" for at in range(n_columns)
    ]


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float | np.number) and not isinstance(cell, bool)


def _cell(tag: str, cell: Any, side: str) -> str:
    text = cell_text(cell)
    short = shortened(text)
    scope = ' scope="col"' if tag == "th" else ""
    title = "" if short == text else f' title="{_escaped(text)}"'
    return f'<{tag}{scope}{title} style="text-align: {side}">{_escaped(short)}</{tag}>'


def _escaped(text: str) -> str:
    return html.escape(text, quote=True)
