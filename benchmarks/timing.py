"""Interleaved timing: every contender in turn, so that the noise of the machine hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np


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
