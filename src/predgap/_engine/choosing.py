"""Chooses the method for each row ("auto"): exact, bounded, pruned or sampled.

The choice depends only on the expected cost of the row itself, so other rows do not change its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from predgap import _core
from predgap._engine.accuracy import EXACT, Accuracy, pruned
from predgap._engine.estimates import assembled
from predgap._engine.points import SOBOL_DIMENSIONS
from predgap._engine.progress import Tell, after
from predgap._engine.questions import Draws, Question

Found = TypeVar("Found")
Choice = Callable[[Question[Any]], NDArray[np.str_]]
"""A function that names the method for each row, (n,)."""

_AFFORDABLE: Final = 5000.0  # milliseconds per row that a guaranteed answer may take, else sample


def cheapest(question: Question[Any], rtol: float, sampler: str) -> NDArray[np.str_]:
    """The method for each row, (n,): "pruned", or `sampler` if "pruned" would exceed the limits.

    Among the methods without sampling, "pruned" is always the cheapest. Kernels answer it exactly where that
    is as cheap, and a pruned answer counts as "bounded" if its error bound is within `rtol`.
    """
    return np.where(question.prices(pruned(rtol)).within(), "pruned", sampler)


def guaranteed_if_affordable(question: Question[Any], bounded: Accuracy, sampler: str) -> NDArray[np.str_]:
    """The method for each row, (n,): "exact" or "bounded" if it takes at most 5 s, else `sampler`."""
    chosen = np.where(question.prices(EXACT).within(_AFFORDABLE), "exact", "bounded")
    dear = np.flatnonzero(chosen == "bounded")
    if len(dear):
        affordable = question.of_rows(dear).prices(bounded).within(_AFFORDABLE)
        chosen[dear[~affordable]] = sampler
    return chosen


def _row_by_row(question: Question[Found], accuracy: Accuracy, draws: Draws) -> Found:
    """Rows that take more than was expected, and more than they may, are sampled."""
    parts = []
    for row in range(len(question.rows)):
        some = np.array([row], dtype=np.intp)
        one = question.of_rows(some)
        try:
            parts.append((some, one.answer(accuracy)))
        except _core.TooCostly:
            parts.append((some, one.estimate(draws)))
    return assembled(len(question.rows), parts)


def sampler_for(n_used: int) -> Literal["mc", "qmc"]:
    """The sampling method of "auto" if `n_used` features are perturbed that the model splits on."""
    return "qmc" if n_used <= SOBOL_DIMENSIONS else "mc"


def answer_by(
    method: str,
    question: Question[Found],
    accuracies: Mapping[str, Accuracy],
    draws: Draws,
    choose: Choice,
    tell: Tell = None,
) -> Found:
    """Answers a question by `method`; if that is "auto", by the method that `choose` names for each row.

    A method is a key of `accuracies` (computed by kernels), or `draws.method` (sampled).
    """

    def answer(way: str, some: Question[Found], tell: Tell) -> Found:
        if way not in accuracies:
            return some.estimate(draws, tell)
        try:
            return some.answer(accuracies[way], tell)
        except _core.TooCostly:
            if method != "auto":
                raise
        return _row_by_row(some, accuracies[way], draws)

    chosen = np.full(len(question.rows), method) if method != "auto" else choose(question)
    ways = [way for way in (*accuracies, draws.method) if (chosen == way).any()]
    if len(ways) < 2:
        return answer(ways[0] if ways else draws.method, question, tell)
    parts, n_before = [], 0
    for way in ways:
        some = np.flatnonzero(chosen == way)
        parts.append((some, answer(way, question.of_rows(some), after(tell, n_before))))
        n_before += len(some)
    return assembled(len(chosen), parts)
