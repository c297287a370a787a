"""How long do exact and sampled gaps take? Clocks for the paper's Table 1, on one thread.

The same kind of pairs (x, S) as in `precision`, a few hundred of them, each method with
the fastest code that predgap has. Seconds per pair are the total over the pairs, the least of some repeats
that take turns:

- "exact": a call of `Explainer.gap` for each pair; "exact, together": one call for all pairs;
- "algorithm 1" and "algorithm 1, float32": the paper's algorithm, one call for all pairs;
- "mc", "halton", "sobol": a call for each pair that draws the points and evaluates the ensemble at them, at
  few and at many iterations; time is a straight line through them;
- "evaluation": the same without the drawing.

All numbers of this table are timings: they differ from run to run.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

from predgap import Explainer, Normal, PredgapError
from predgap.algorithm1 import algorithm1_gap, instruction_set, sums_of_squares
from reproduction.experiments.precision import METHODS, draw_points
from reproduction.helpers import FloatArray, Progress, printable
from reproduction.models import Pairs, Subject, draw_pairs, per_subject
from reproduction.published import SCALES
from reproduction.results import Result, Steps, Value

EXACT: Final = "exact"
TOGETHER: Final = "exact, together"
EVALUATION: Final = "evaluation"
ALGORITHM_1: Final = "algorithm 1"
ALGORITHM_1_FLOAT32: Final = "algorithm 1, float32"

COLUMNS: Final = ("kind", "dataset", "scale", "method", "iterations", "n_pairs", "seconds", "machine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Which scales, how many pairs, at which numbers of iterations sampling is timed, how often."""

    scales: tuple[float, ...] = SCALES
    n_pairs: int = 200
    iterations: tuple[int, ...] = (100, 10000)
    repeats: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        counts = set(self.iterations)
        if self.n_pairs < 1 or self.repeats < 1 or len(counts) < 2 or min(counts) < 1:
            raise PredgapError(
                f"{self!r} is impossible; expected n_pairs and repeats from 1, and two or more different "
                "numbers of iterations from 1"
            )


def run(config: Config, subjects: Iterable[Subject], *, progress: Progress | None = None) -> Result:
    """A row per subject, σ, method and, if it samples, number of iterations.

    `progress` counts measurements.
    """
    chosen = tuple(subjects)
    steps = Steps(progress, len(chosen) * len(config.scales) * config.repeats)
    return per_subject("clocks", COLUMNS, config, chosen, partial(_rows, config, steps=steps))


def _rows(config: Config, subject: Subject, steps: Steps) -> Iterator[tuple[Value, ...]]:
    pairs = draw_pairs(subject, config.n_pairs, config.seed)
    draw_points("sobol", 1, 1, pairs.stream(0, 0))  # SciPy is imported now, not while a clock runs
    for scale in config.scales:
        work = dict(_work(config, Explainer(subject.ensemble, Normal(scale), progress=False), pairs))
        seconds = dict.fromkeys(work, float("inf"))
        for _ in range(config.repeats):
            for what, do in work.items():
                seconds[what] = min(seconds[what], _seconds(do))
            steps.add()
        for (method, iterations), least in seconds.items():
            where = (subject.kind, subject.dataset, scale, method, iterations)
            yield (*where, len(pairs), least / len(pairs), machine())


def machine() -> str:
    """The processor, and the instruction set that the kernels use."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:  # not Linux
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{printable(name)}, {instruction_set()}"


def _seconds(do: Callable[[], object]) -> float:
    start = perf_counter()
    do()
    return perf_counter() - start


def _work(
    config: Config, explainer: Explainer, pairs: Pairs
) -> Iterator[tuple[tuple[str, int | None], Callable[[], object]]]:
    """The calls that are timed, by method and number of iterations."""
    X, masks = pairs.X, pairs.masks
    yield (EXACT, None), lambda: [explainer.gap(X[p : p + 1], masks[p]) for p in range(len(pairs))]
    yield (TOGETHER, None), lambda: explainer.gap(X, masks)
    yield (ALGORITHM_1, None), lambda: algorithm1_gap(explainer, X, masks, float32=False)
    yield (ALGORITHM_1_FLOAT32, None), lambda: algorithm1_gap(explainer, X, masks, float32=True)
    for n in config.iterations:
        for use, method in enumerate(METHODS):
            draw = partial(_drawn, method, n, pairs.stream(0, use))  # one stream: making it takes time
            yield (method, n), partial(_sample, explainer, pairs, draw)
        ready = {k: np.random.default_rng(config.seed).random((n, k)) for k in range(1, X.shape[1] + 1)}
        yield (EVALUATION, n), partial(_sample, explainer, pairs, ready.__getitem__)


def _sample(explainer: Explainer, pairs: Pairs, points: Callable[[int], FloatArray]) -> None:
    """Estimate the gap of each pair; `points(k)` gives its points (n, k)."""
    rows = explainer.ensemble.cast(pairs.X)
    for pair, mask in enumerate(pairs.masks):
        drawn = points(int(mask.sum()))
        sums_of_squares(explainer, rows[pair : pair + 1], mask, drawn, np.array([len(drawn)]))


def _drawn(method: str, n: int, rng: np.random.Generator, k: int) -> FloatArray:
    return draw_points(method, k, n, rng)
