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

Tone = Literal["good", "bad", "none"]


@dataclass(frozen=True, slots=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """A verdict in a table: in HTML a good one is green, a bad one red; all say in words what they are."""

    text: str
    tone: Tone = "none"


@dataclass(frozen=True, slots=True)
class Table:
    """The first columns are of text, the others of numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str | Cell, ...], ...] = field(repr=False)
    n_text: int = 1
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture, in SVG, with the name of its file and what it shows."""

    name: str
    svg: bytes = field(repr=False)
    caption: str


Block = Heading | Paragraph | Bullets | Table | Figure


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
            case Figure(name, _, caption):
                parts.append(f"![{_plain(caption)}](figures/{name}.svg)")
    return "\n\n".join(parts) + "\n"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    escaped = _MARKUP.sub(r"\\\1", printable(text).strip())
    return _START.sub(r"\1\\\2", escaped)


def _markdown_table(table: Table) -> str:
    rule = ["---"] * table.n_text + ["---:"] * (len(table.header) - table.n_text)
    rows = [[_plain(_text(cell)) for cell in row] for row in table.rows]
    lines = ["| " + " | ".join(row) + " |" for row in ([_plain(name) for name in table.header], rule, *rows)]
    caption = [_plain(table.caption), ""] if table.caption else []
    return "\n".join([*caption, *lines])


def _text(cell: str | Cell) -> str:
    return cell.text if isinstance(cell, Cell) else cell


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
        loader=PackageLoader("predgap.paper.report", ""),
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
