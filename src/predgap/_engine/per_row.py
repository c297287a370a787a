"""Answers a question about rows that have engines of their own, such as one per output of the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from predgap import _core
from predgap._engine.engine import Engine
from predgap._engine.estimates import assembled
from predgap._engine.progress import Tell, after
from predgap._engine.questions import Computed
from predgap._typing import IndexArray

Found = TypeVar("Found")


def answer_per_row(
    question: Computed[Any],
    which: IndexArray,
    engine: Callable[[int], Engine],
    ask: Callable[[Any, Tell], Found],
    tell: Tell = None,
) -> Found:
    """The answer to a question, row by row that of the row's own engine, to the last bit.

    Parameters
    ----------
    question : Computed
        About n rows; its own engine is not used.
    which : (n,) integers
        The number of each row's engine.
    engine : callable
        Gives the engine of a number.
    ask : callable
        Answers a question about rows of one engine: a dataclass or a tuple of arrays, one entry per row.
    tell : callable or None
        Is called with the number of rows done.
    """
    parts, n_before = [], 0
    for number in np.unique(which).tolist() or [0]:  # without rows, any engine gives the empty answer
        some = np.flatnonzero(which == number)
        part = replace(question.of_rows(some), engine=engine(number))
        try:
            parts.append((some, ask(part, after(tell, n_before))))
        except _core.TooCostly as refused:
            row, *takes = refused.args
            raise _core.TooCostly(int(some[row]), *takes) from None
        n_before += len(some)
    return assembled(len(which), parts)
