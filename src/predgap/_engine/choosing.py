"""Which way to answer each row: exactly, within a proven tolerance, pruned, or from samples.

A row's choice depends on its own price only, so its answer does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from predgap._engine.accuracy import EXACT, Accuracy, pruned
from predgap._engine.estimates import assembled
from predgap._engine.points import SOBOL_DIMENSIONS
from predgap._engine.progress import Tell, after
from predgap._engine.questions import Draws, Question

Found = TypeVar("Found")
Choice = Callable[[Question[Any]], NDArray[np.str_]]
"""Names the way to answer each row, (n,)."""

_AFFORDABLE: Final = 5000.0  # milliseconds of a row that are spent on a guarantee before sampling


def cheapest(question: Question[Any], rtol: float, sampler: str) -> NDArray[np.str_]:
    """For each row, (n,): "pruned", or the sampler where that is not affordable.

    Nothing is cheaper than a pruned answer; it is exact where that is cheap, too, and proven where its bound
    happens to be within `rtol`.
    """
    return np.where(question.prices(pruned(rtol)).within(), "pruned", sampler)


def guaranteed_if_affordable(question: Question[Any], bounded: Accuracy, sampler: str) -> NDArray[np.str_]:
    """For each row, (n,): the first of "exact", "bounded" and the sampler that is affordable."""
    chosen = np.where(question.prices(EXACT).within(_AFFORDABLE), "exact", "bounded")
    dear = np.flatnonzero(chosen == "bounded")
    if len(dear):
        affordable = question.of_rows(dear).prices(bounded).within(_AFFORDABLE)
        chosen[dear[~affordable]] = sampler
    return chosen


def sampler_for(n_used: int) -> Literal["mc", "qmc"]:
    """What "auto" samples with, if n_used features that the model uses are perturbed."""
    return "qmc" if n_used <= SOBOL_DIMENSIONS else "mc"


def answer_by(
    method: str,
    question: Question[Found],
    accuracies: Mapping[str, Accuracy],
    draws: Draws,
    choose: Choice,
    tell: Tell = None,
) -> Found:
    """Answers by a method, or, if that is "auto", by the one chosen for each row.

    The method is one of `accuracies`, or that of `draws`.
    """

    def answer(way: str, some: Question[Found], tell: Tell) -> Found:
        return some.answer(accuracies[way], tell) if way in accuracies else some.estimate(draws, tell)

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
