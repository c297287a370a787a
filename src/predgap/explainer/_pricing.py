"""Estimates the cost of a call for `Explainer.cost`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from predgap._engine.accuracy import Accuracy
from predgap._engine.costs import Cost, Prices
from predgap._engine.engine import Engine
from predgap._engine.questions import Curves, Gaps, Question, Rankings
from predgap._typing import FloatArray
from predgap.errors import RankingError, SubsetError, TableError
from predgap.explainer._arguments import Inputs, Rows
from predgap.ranking import Ranking

_MOST_ROWS: Final = 20  # of X; the cost is the mean over them
CALL: Final = 0.03  # milliseconds that a call takes beside its rows


def cost_of(engine: Engine, inputs: Inputs, question: Any, X: Any, accuracy: Accuracy) -> Cost:
    """The mean cost per row of a greedy ranking ("rank"), of a Ranking's curve, or of the gap of a subset.

    If X is None, the cost is estimated for rows made up from the model's thresholds, asked one at a time.
    Otherwise the rows of X share what the call takes by itself.
    """
    n_sharing = 1
    if X is None:
        typical = engine.typical_rows()
        outputs = inputs.outputs.of_made_up_rows(typical)
        asked = _on_typical_rows(engine, inputs, question, typical)
    else:
        rows = inputs.rows(X)
        outputs, asked = rows.outputs, _on_rows(engine, inputs, question, rows)
        n_sharing = max(len(rows), 1)
    if len(asked.rows) == 0:
        raise TableError("X has no rows to estimate the cost from; leave X out, or pass some rows")
    some = np.unique(np.linspace(0, len(asked.rows) - 1, _MOST_ROWS).astype(np.intp))
    prices: Prices = inputs.outputs.answer(
        asked.of_rows(some),
        None if outputs is None else outputs[some],
        lambda part, _: part.prices(accuracy),
    )
    cost = prices.mean()
    return replace(cost, milliseconds=cost.milliseconds + CALL / n_sharing)


def _on_rows(engine: Engine, inputs: Inputs, question: Any, rows: Rows) -> Question[Any]:
    if _is_rank(question):
        return Rankings(engine, rows.values, "greedy", inputs.n_units, inputs.members)
    if isinstance(question, Ranking):
        return Curves(engine, rows.values, inputs.order(rows, question), inputs.members)
    return Gaps(engine, rows.values, inputs.masks(len(rows), question))


def _on_typical_rows(engine: Engine, inputs: Inputs, question: Any, rows: FloatArray) -> Question[Any]:
    if _is_rank(question):
        return Rankings(engine, rows, "greedy", inputs.n_units, inputs.members)
    if isinstance(question, Ranking):
        order = inputs.order_of_any_rows(question)
        if len(order) == 0:
            raise RankingError("the ranking has no rows to estimate the cost from; pass one with rows")
        return Curves(engine, rows, order[np.arange(len(rows)) % len(order)], inputs.members)
    if getattr(question, "ndim", 1) == 2:
        raise SubsetError("the subset has one mask per row; pass these rows as X, or one mask for all")
    return Gaps(engine, rows, inputs.one_mask(len(rows), question)[None])


def _is_rank(question: Any) -> bool:
    if isinstance(question, str) and question in ("gap", "curve", "pgi2", "pgu2"):
        what = "the subset" if question == "gap" else "the ranking, as a predgap.Ranking"
        raise SubsetError(
            f"cost({question!r}) does not say of what; pass {what}, or 'rank' for a greedy ranking "
            f"(a feature of this name is [{question!r}])"
        )
    return isinstance(question, str) and question == "rank"
