"""A page: headings, paragraphs, lists, tables and figures, written as Markdown or as one HTML file.

All text is data. It is escaped in both forms, so that no name can become markup or a script.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

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

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #c62828; --soft: #8882; }
@media (prefers-color-scheme: dark) { :root { --good: #5fd38a; --bad: #ff8a80; } }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.25; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .3rem 0; font-weight: 600; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th.text, td.text { text-align: left; white-space: normal; min-width: 3rem; }
tbody tr:hover { background: var(--soft); }
.good { color: var(--good); } .bad { color: var(--bad); }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; background: #fff; }
figcaption { font-size: .9rem; } nav ul { columns: 2; }
"""


def to_html(page: Page) -> str:
    """The page as one HTML file: style and figures are inside, nothing is fetched, no script runs.

    Examples
    --------
    >>> "&lt;b&gt;" in to_html(Page("<b>", ()))
    True
    """
    sections = [block.text for block in page.blocks if isinstance(block, Heading) and block.level == 2]
    links = "".join(f'<li><a href="#section-{i}">{_safe(text)}</a></li>' for i, text in enumerate(sections))
    body = "\n".join(_html_block(block) for block in page.blocks)
    for i in range(len(sections)):
        body = body.replace("<h2>", f'<h2 id="section-{i}">', 1)
    title = _safe(page.title)
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        f"<nav><ul>{links}</ul></nav>\n{body}\n</body>\n</html>\n"
    )


def _safe(text: str) -> str:
    return html.escape(printable(text))


def _html_block(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_safe(text)}</h{level}>"
        case Paragraph(text):
            return f"<p>{_safe(text)}</p>"
        case Bullets(items):
            return "<ul>" + "".join(f"<li>{_safe(item)}</li>" for item in items) + "</ul>"
        case Table():
            return _html_table(block)
        case Figure(name, svg, caption):
            image = base64.b64encode(svg).decode()
            return (
                f'<figure><img alt="{_safe(name)}" src="data:image/svg+xml;base64,{image}">'
                f"<figcaption>{_safe(caption)}</figcaption></figure>"
            )


def _html_table(table: Table) -> str:
    caption = f"<caption>{_safe(table.caption)}</caption>" if table.caption else ""
    verdicts = [isinstance(cell, Cell) for cell in table.rows[0]] if table.rows else []
    header = [Cell(name) if verdict else name for name, verdict in zip(table.header, verdicts, strict=False)]
    head = _html_row(header or table.header, table.n_text, "th")
    rows = "\n".join(_html_row(row, table.n_text, "td") for row in table.rows)
    return (
        f'<div class="scroll"><table>{caption}<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody></table></div>'
    )


def _html_row(cells: Sequence[str | Cell], n_text: int, tag: str) -> str:
    return f"<tr>{''.join(_html_cells(cells, n_text, tag))}</tr>"


def _html_cells(cells: Sequence[str | Cell], n_text: int, tag: str) -> Iterable[str]:
    for place, cell in enumerate(cells):
        classes = ["text"] if place < n_text or isinstance(cell, Cell) else []
        if isinstance(cell, Cell) and cell.tone != "none":
            classes.append(cell.tone)
        names = f' class="{" ".join(classes)}"' if classes else ""
        yield f"<{tag}{names}>{_safe(_text(cell))}</{tag}>"
