"""A page: headings, paragraphs, lists, tables and figures, written as Markdown or as one HTML file.

All text is data. It is escaped in both forms, so that no name can become markup or a script.

Tables are laid out as the paper has them, with a printed number beside ours. Long ones have a line for each
number, and are folded.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined

from reproduction.helpers import printable
from reproduction.published import SAMPLERS
from reproduction.results import Value
from reproduction.run import Reproduction

Tone = Literal["good", "fair", "bad", "ahead", "behind", "none"]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; `short` is what the list of sections calls it, if not the same."""

    text: str
    level: int = 2
    short: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell with a colour in HTML, and a word or a sign that says the same.

    With a published number it reads "published sign text", else "text sign". `note` is a remark, shown in
    HTML when one points at the cell.
    """

    text: str
    tone: Tone = "none"
    sign: str = ""
    published: str = ""
    note: str = ""

    def __str__(self) -> str:
        parts = (self.published, self.sign, self.text) if self.published else (self.text, self.sign)
        return " ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class Group:
    """A row of a table that names the rows below it."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """The first columns are of text, the others of numbers.

    `above` has a second line of header above the first: texts, and over how many columns each goes. A table
    that `stacks` becomes a list of cards on a narrow screen; others scroll in their box.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str | Cell, ...] | Group, ...] = field(repr=False)
    n_text: int = 1
    caption: str = ""
    above: tuple[tuple[str, int], ...] = ()
    stacks: bool = False

    def is_text(self, column: int) -> bool:
        """True if a column is of text: one of the first, or one of verdicts."""
        first = next((row for row in self.rows if not isinstance(row, Group)), self.header)
        entry = first[column]
        return column < self.n_text or (isinstance(entry, Cell) and not entry.sign)


@dataclass(frozen=True, slots=True)
class Folded:
    """A long table that is shown when asked for: in HTML it unfolds, in Markdown it is a link to its file."""

    table: Table
    file: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture, in SVG, with the name of its file, what it is about, and what is seen in it.

    `narrow` is the same picture for narrow screens.
    """

    name: str
    svg: bytes = field(repr=False)
    narrow: bytes = field(repr=False)
    caption: str
    alt: str


Block = Heading | Paragraph | Bullets | Table | Folded | Figure


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    blocks: tuple[Block, ...]

    def figures(self) -> tuple[Figure, ...]:
        return tuple(block for block in self.blocks if isinstance(block, Figure))

    def sections(self) -> tuple[Heading, ...]:
        return tuple(block for block in self.blocks if isinstance(block, Heading) and block.level == 2)


# ---- Markdown ------------------------------------------------------------------------------------

_START: Final = re.compile(r"^(\d*)([-+.)](?=\s)|[-=]+$)")  # of a list, or a rule
_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>|#~&$!])")


def to_markdown(page: Page) -> str:
    r"""The page as Markdown; figures are files in `figures/` beside it.

    Examples
    --------
    >>> print(to_markdown(Page("A & B", (Paragraph("x_1 <b>"),))), end="")
    # A \& B
    <BLANKLINE>
    x\_1 \<b\>
    """
    parts = [f"# {_plain(page.title)}"]
    for block in page.blocks:
        match block:
            case Heading(text, level):
                parts.append(f"{'#' * level} {_plain(text)}")
            case Paragraph(text):
                parts.append(_plain(text))
            case Bullets(items):
                parts.append("\n".join(f"- {_plain(item)}" for item in items))
            case Table():
                parts.append(_markdown_table(block))
            case Folded(table, file):
                parts.append(f"[{_plain(table.caption)}]({file})")
            case Figure():
                parts.append(f"![{_plain(block.alt)}](figures/{block.name}.svg)")
                parts.append(_plain(block.caption))
    return "\n\n".join(parts) + "\n"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    escaped = _MARKUP.sub(r"\\\1", printable(text).strip())
    return _START.sub(r"\1\\\2", escaped)


def _markdown_table(table: Table) -> str:
    rule = ["---" if table.is_text(column) else "---:" for column in range(len(table.header))]
    rows = [_markdown_row(row, len(table.header)) for row in table.rows]
    lines = [
        "| " + " | ".join(row) + " |" for row in ([_plain(name) for name in _one_line(table)], rule, *rows)
    ]
    caption = [_plain(table.caption), ""] if table.caption else []
    return "\n".join([*caption, *lines])


def _markdown_row(row: tuple[str | Cell, ...] | Group, width: int) -> list[str]:
    if isinstance(row, Group):
        return [f"**{_plain(row.text)}**", *[""] * (width - 1)]
    return [_plain(str(cell)) for cell in row]


def _one_line(table: Table) -> tuple[str, ...]:
    """The header, with the line above it in the same line, as Markdown has no second one."""
    above = [text for text, width in table.above for _ in range(width)] or [""] * len(table.header)
    return tuple(f"{first} {second}".strip() for first, second in zip(above, table.header, strict=True))


# ---- HTML ----------------------------------------------------------------------------------------


def to_html(page: Page) -> str:
    """The page as one HTML file: style and figures are inside, nothing is fetched, no script runs.

    Examples
    --------
    >>> "&lt;b&gt;" in to_html(Page("<b>", ()))
    True
    """
    return _environment().get_template("page.html.j2").render(page=page)


@cache
def _environment() -> Environment:
    """Templates beside this module; all that they show is escaped, and control characters are written out."""
    made = Environment(
        loader=PackageLoader("reproduction", ""),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["kind"] = lambda block: type(block).__name__
    made.filters["base64"] = lambda content: base64.b64encode(content).decode()
    return made


def _shown(value: Any) -> Any:
    return printable(value) if type(value) is str else value  # a subclass of str is finished HTML


# ---- names and numbers ---------------------------------------------------------------------------

DATASET_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "wine": "Red Wine Quality",
        "housing": "California Housing",
        "telemetry": "Parkinson Telemonitoring",
        "diabetes": "Diabetes",
    }
)
METHOD_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"mc": "Monte Carlo", "halton": "Halton", "sobol": "Sobol", "shap": "SHAP", "greedy": "greedy"}
)


def ranking_name(method: Value, scale: Value) -> str:
    """The name of a ranking.

    Examples
    --------
    >>> ranking_name("shap", None), ranking_name("greedy", 0.1)
    ('SHAP', 'greedy σ = 0.1')
    """
    return "SHAP" if scale is None else f"{METHOD_NAMES[str(method)]} σ = {scale:g}"


def dataset_name(name: Value) -> str:
    """The name of a data set.

    Examples
    --------
    >>> dataset_name("wine"), dataset_name("tiny")
    ('Red Wine Quality', 'tiny')
    """
    return DATASET_NAMES.get(str(name), str(name))


def model_name(row: Mapping[str, Any]) -> str:
    """The name of the model of a row.

    Examples
    --------
    >>> model_name({"kind": "Bigger", "dataset": "wine"})
    'Bigger, Red Wine Quality'
    """
    return f"{row['kind']}, {dataset_name(row['dataset'])}"


def number(value: Value) -> str:
    """Three decimals or four digits, as the paper writes numbers; a dash for none.

    Examples
    --------
    >>> number(0.13125), number(334_643_000.0), number(1e-5), number(None), number(7), number(0.0)
    ('0.131', '3.346e+08', '1e-05', '–', '7', '0')
    """
    if value is None:
        return "–"
    if isinstance(value, int | str):
        return str(value)
    if value == 0:
        return "0"
    return f"{value:.3f}" if 0.001 <= abs(value) < 10_000 else f"{value:.4g}"


def share(value: Value) -> str:
    """A share as per cent.

    Examples
    --------
    >>> share(0.123), share(None), share(0.0004)
    ('12.3 %', '–', '0.04 %')
    """
    if value is None:
        return "–"
    percent = 100 * float(value)
    return f"{percent:.1f} %" if percent == 0 or abs(percent) >= 0.1 else f"{percent:.1g} %"


def duration(seconds: Value) -> str:
    """A time with its unit.

    Examples
    --------
    >>> duration(1.5e-5), duration(0.0042), duration(3.0), duration(None)
    ('15 µs', '4.2 ms', '3 s', '–')
    """
    if seconds is None:
        return "–"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if float(seconds) >= size:
            return f"{float(seconds) / size:.3g} {unit}"
    return f"{float(seconds) * 1e6:.3g} µs"


# ---- tables as in the paper ----------------------------------------------------------------------

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
    """The printed number, ours, and what came out, of a row of `reproduction.cells`."""
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


# ---- long tables ---------------------------------------------------------------------------------

_PRINTED: Final = {ours: theirs for theirs, ours in SAMPLERS.items()}


def raw(found: Reproduction, experiment: str, table: Table) -> Folded:
    """A folded table of an experiment, with the file that has all of its numbers."""
    return Folded(table, f"results{found.plan.suffix}/{experiment}.csv")


def key(row: Row) -> tuple[Any, ...]:
    """The subject of a number, whatever the protocol."""
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
