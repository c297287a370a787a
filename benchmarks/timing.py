"""Interleaved timing: every contender in turn, so that the noise of the machine hits all alike."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

QUICK = 0.02  # seconds; a longer call fills the caches by itself


def medians(contenders: Mapping[str, Callable[[], object]], rounds: int = 7) -> dict[str, float]:
    """Median seconds of each contender over the rounds, after one round that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for round_number in range(rounds + 1):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            if round_number:
                seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}


@dataclass
class Timing:
    """What one contender took and said, row by row."""

    least: np.ndarray  # (rows,) seconds, the least of its repeats
    spent: np.ndarray  # (rows,) seconds of all repeats
    answers: list[Any]  # (rows,) the last answer, or the exception that stands for it

    @property
    def milliseconds(self) -> float:
        """The median over the rows."""
        return 1e3 * float(np.median(self.least))

    @property
    def refusal(self) -> Exception | None:
        """The first answer that is an exception."""
        return next((answer for answer in self.answers if isinstance(answer, Exception)), None)


def least(
    contenders: Mapping[str, Sequence[Callable[[], object]]],
    rounds: int,
    patience: float,
    refusals: tuple[type[Exception], ...] = (),
) -> dict[str, Timing]:
    """The least seconds of each call: `contenders[name][r]` asks about row r.

    At any moment the contenders are at different rows, so that none gains from what another left behind. Nor
    does one lose by it: a quick call is timed right after one about another row, as in a loop over rows.
    A call is repeated until it has taken `patience` seconds in all, at most `rounds` times. The exceptions in
    `refusals` are answers, too.
    """
    n_rows = {len(calls) for calls in contenders.values()}
    assert len(n_rows) == 1, f"contenders must have the same rows, not {n_rows}"
    (n,) = n_rows
    found = {name: Timing(np.full(n, np.inf), np.zeros(n), [None] * n) for name in contenders}
    for step in range(rounds * n):
        for place, (name, calls) in enumerate(contenders.items()):
            row = (step + place) % n
            if found[name].spent[row] >= patience:
                continue
            if found[name].least[row - 1] < QUICK:
                with contextlib.suppress(*refusals):
                    calls[row - 1]()
            _time(found[name], row, calls[row], refusals)
    return found


def _time(
    timing: Timing, row: int, call: Callable[[], object], refusals: tuple[type[Exception], ...]
) -> None:
    start = time.perf_counter()
    try:
        answer = call()
    except refusals as refusal:
        answer = refusal
    seconds = time.perf_counter() - start
    timing.least[row] = min(timing.least[row], seconds)
    timing.spent[row] += seconds
    timing.answers[row] = answer
