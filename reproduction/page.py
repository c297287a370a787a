"""A page: headings, paragraphs, lists, tables and figures, written as Markdown or as one HTML file.

All text is data. It is escaped in both forms, so that no name can become markup or a script.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined

from predgap._text import printable

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
        """Whether a column is of text: one of the first, or one of verdicts."""
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
        loader=PackageLoader("reproduction.report", ""),
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
