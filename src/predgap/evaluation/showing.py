"""An evaluation as a small table: in text, and in HTML for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from predgap._text import count, printable
from predgap.evaluation.verdict import percent

if TYPE_CHECKING:  # it imports this module
    from predgap.evaluation.result import Evaluation

_HEAD: Final = ("ranking", "PGI²", "95 % interval", "random to best", "PGU²", "won", "first moves most")


def as_text(evaluation: Evaluation) -> str:
    """The table, one line per ranking, then random and best, then notes."""
    lines = [_HEAD, *_cells(evaluation)]
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = [
        "  ".join([line[0].ljust(wide[0]), *(c.rjust(w) for c, w in zip(line[1:], wide[1:], strict=True))])
        for line in lines
    ]
    return "\n".join([_title(evaluation), *(line.rstrip() for line in table), *_remarks(evaluation)])


def as_html(evaluation: Evaluation) -> str:
    """The same for a notebook; names are escaped."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in _HEAD)
    body = "".join(
        f"<tr><th>{escape(line[0])}</th>" + "".join(f"<td>{escape(cell)}</td>" for cell in line[1:]) + "</tr>"
        for line in _cells(evaluation)
    )
    remarks = "".join(f"<p>{escape(remark)}</p>" for remark in _remarks(evaluation))
    return (
        f"<div><p>{escape(_title(evaluation))}</p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{remarks}</div>"
    )


def _title(evaluation: Evaluation) -> str:
    n, of = len(evaluation.best), evaluation.description.get("of_rows")
    drawn = f" of {of:,}" if of and of > n else ""
    return f"Evaluation of {count(len(evaluation.names), 'ranking')} in {count(n, 'row')}{drawn}"


def _cells(evaluation: Evaluation) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            printable(row["ranking"]),
            _number(row["mean"]),
            f"{_number(row['low'])} to {_number(row['high'])}" if np.isfinite(row["low"]) else "–",
            _percent(row["normalized"]),
            _number(row["pgu2"]),
            _percent(row["share_won"]),
            _percent(row["first_moves_most"]),
        )
        for row in evaluation.summary
    ]
    proven = "best" if evaluation.best_is_proven.all() else "best found"
    scale = (("random", evaluation.random, "0 %"), (proven, evaluation.best, "100 %"))
    return rows + [
        (f"({name})", _number(float(scores.mean())), "", share, "", "", "") for name, scores, share in scale
    ]


def _remarks(evaluation: Evaluation) -> list[str]:
    how = "; ".join(
        f"{key}: {evaluation.obtained[key]}"
        for key in ("pgi2", "random", "best")
        if key in evaluation.obtained
    )
    return [how, *evaluation.notes]


def _number(number: float) -> str:
    return f"{number:.4g}" if np.isfinite(number) else "–"


def _percent(share: float) -> str:
    return f"{percent(share)} %" if np.isfinite(share) else "–"
