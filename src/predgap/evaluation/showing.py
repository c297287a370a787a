"""An evaluation as a small table: in text, and in HTML for notebooks."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Final

import numpy as np

from predgap._tables import html_table, text_table
from predgap._text import count, percent

if TYPE_CHECKING:  # it imports this module
    from predgap.evaluation.result import Evaluation

_HEAD: Final = ("ranking", "PGI²", "95 % interval", "random to best", "PGU²", "won", "first moves most")


def as_text(evaluation: Evaluation) -> str:
    """The table, one line per ranking, then random and best, then how it was obtained."""
    table = text_table(_head(evaluation), _cells(evaluation), _caption(evaluation))
    return "\n".join([table, *_remarks(evaluation)])


def as_html(evaluation: Evaluation) -> str:
    """The same for a notebook; names are escaped."""
    table = html_table(_head(evaluation), _cells(evaluation), _caption(evaluation))
    return "\n".join([table, *(f"<p>{html.escape(remark)}</p>" for remark in _remarks(evaluation))])


def _others(evaluation: Evaluation) -> list[str]:
    return [metric for metric in evaluation.scores if metric not in ("pgi2", "pgu2")]


def _head(evaluation: Evaluation) -> tuple[str, ...]:
    better = evaluation.better
    return (*_HEAD, *(f"{metric} ({better[metric]} is better)" for metric in _others(evaluation)))


def _caption(evaluation: Evaluation) -> str:
    n, of = len(evaluation.best), evaluation.description["of_rows"]
    drawn = f" of {of:,}" if of > n else ""
    return f"Evaluation of {count(len(evaluation.names), 'ranking')} in {count(n, 'row')}{drawn}"


def _cells(evaluation: Evaluation) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            row["ranking"],
            _number(row["mean"]),
            f"{_number(row['low'])} to {_number(row['high'])}" if np.isfinite(row["low"]) else "–",
            _percent(row["normalized"]),
            _number(row["pgu2"]),
            _percent(row["share_won"]),
            _percent(row["first_moves_most"]),
            *(_number(row[metric]) for metric in _others(evaluation)),
        )
        for row in evaluation.summary
    ]
    unknown = [""] * len(_others(evaluation))
    best = "(best)" if evaluation.best_is_proven.all() else "(best found)"
    for name, scores, share in (("(random)", evaluation.random, "0 %"), (best, evaluation.best, "100 %")):
        rows.append((name, _number(float(scores.mean())), "", share, "", "", "", *unknown))
    return rows


def _remarks(evaluation: Evaluation) -> list[str]:
    how = "; ".join(
        f"{key}: {evaluation.obtained[key]}" for key in ("pgi2", *_others(evaluation), "random", "best")
    )
    return [how, *evaluation.notes]


def _number(number: float) -> str:
    return f"{number:.4g}" if np.isfinite(number) else "–"


def _percent(share: float) -> str:
    return f"{percent(share)} %" if np.isfinite(share) else "–"
