"""Estimates the cost of a call for `Explainer.cost`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from predgap._engine.accuracy import Accuracy, Prices
from predgap._engine.questions import Curve, Gap, Question, Rank, Rows
from predgap._engine.results import Cost, assembled
from predgap.errors import RankingError, SubsetError, TableError
from predgap.explainer.explained import Explained
from predgap.ranking import Ranking

_MOST_ROWS: Final = 20  # of X; the cost is the mean over them
CALL: Final = 0.03  # milliseconds that a call takes beside its rows


def cost_of(explained: Explained, question: Any, X: Any, accuracy: Accuracy) -> Cost:
    """The mean cost per row of a greedy ranking ("rank"), of a Ranking's curve, or of the gap of a subset.

    If X is None, the cost is estimated for rows made up from the model's thresholds, asked one at a time.
    Otherwise the rows of X share what the call takes by itself.
    """
    n_sharing = 1
    if X is None:
        asked = _on_typical_rows(explained, question)
    else:
        rows = explained.rows(X)
        asked, n_sharing = _on_rows(explained, question, rows), max(len(rows), 1)
    if len(asked.rows) == 0:
        raise TableError("X has no rows to estimate the cost from; leave X out, or pass some rows")
    some = np.unique(np.linspace(0, len(asked.rows) - 1, _MOST_ROWS).astype(np.intp))
    cost = prices_of(explained, asked.at(some), accuracy).mean()
    return replace(cost, milliseconds=cost.milliseconds + CALL / n_sharing)


def prices_of(explained: Explained, question: Question[Any], accuracy: Accuracy) -> Prices:
    """What the answer of each row would cost."""
    parts = []
    for kernel, some in explained.kernels(question.rows):
        mine = question if some is None else question.at(some)
        parts.append((some, mine.prices(kernel, accuracy)))
    return assembled(len(question.rows), parts)


def _on_rows(explained: Explained, question: Any, rows: Rows) -> Question[Any]:
    if _is_rank(question):
        return Rank(rows, "greedy", explained.n_units)
    if isinstance(question, Ranking):
        return Curve(rows, explained.order(rows, question))
    return Gap(rows, explained.masks(rows, question))


def _on_typical_rows(explained: Explained, question: Any) -> Question[Any]:
    rows = explained.typical_rows()
    if _is_rank(question):
        return Rank(rows, "greedy", explained.n_units)
    if isinstance(question, Ranking):
        order = explained.order_of_any_rows(question)
        if len(order) == 0:
            raise RankingError("the ranking has no rows to estimate the cost from; pass one with rows")
        return Curve(rows, order[np.arange(len(rows)) % len(order)])
    if getattr(question, "ndim", 1) == 2:
        raise SubsetError("the subset has one mask per row; pass these rows as X, or one mask for all")
    return Gap(rows, explained.one_mask(len(rows), question)[None])


def _is_rank(question: Any) -> bool:
    if isinstance(question, str) and question in ("gap", "curve", "pgi2", "pgu2"):
        what = "the subset" if question == "gap" else "the ranking, as a predgap.Ranking"
        raise SubsetError(
            f"cost({question!r}) does not say of what; pass {what}, or 'rank' for a greedy ranking "
            f"(a feature of this name is [{question!r}])"
        )
    return isinstance(question, str) and question == "rank"
