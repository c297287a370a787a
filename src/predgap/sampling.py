"""Gaps by sampling, with their standard errors: plain Monte Carlo and randomised quasi-Monte Carlo.

Both draw points of the unit cube, one coordinate per perturbed feature, and the kernels turn them into
perturbed rows by the inverse transform. More samples repeat the draws of fewer, and add to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from predgap.engine import Engine
from predgap.errors import PredgapError

FloatArray = NDArray[np.float64]
Engines = tuple[Engine, ...]  # one for each output; gaps are summed
Sequence = Literal["sobol", "halton"]

REPLICATES: Final = 16  # independent randomisations of a quasi-random sequence; their spread is the error

_FIRST: Final = 1024  # samples before a tolerance is first looked at
_POINT_DOUBLES: Final = 8 << 20  # coordinates held at once


@dataclass(frozen=True, slots=True, eq=False)
class GapEstimate:
    """Gaps (n,), how sure they are, and how they were obtained; everything has one entry per row.

    An exact gap has no standard error and an error bound of 0 (up to rounding). A sampled one has a standard
    error, and an infinite bound: nothing is guaranteed.
    """

    value: FloatArray
    standard_error: FloatArray
    error_bound: FloatArray
    method: NDArray[np.str_]  # "exact", "mc" or "qmc"
    n_samples: NDArray[np.int64]  # model evaluations spent


@dataclass(frozen=True, slots=True)
class Budget:
    """When to stop: at `rtol` (standard error over value), at the latest after `n_samples`."""

    n_samples: int
    rtol: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.n_samples, bool) or not isinstance(self.n_samples, int | np.integer):
            raise PredgapError(f"n_samples is {self.n_samples!r}, expected a whole number")
        if self.n_samples < 2 * REPLICATES:
            raise PredgapError(f"n_samples is {self.n_samples}, expected at least {2 * REPLICATES}")
        if self.rtol is not None and not 0 < self.rtol < float("inf"):
            raise PredgapError(f"rtol is {self.rtol!r}, expected a positive number, e.g. 0.01")

    def steps(self) -> Iterator[int]:
        """Numbers of samples at which to look: the last one only, or doubling towards it."""
        n = self.n_samples if self.rtol is None else min(_FIRST, self.n_samples)
        while n < self.n_samples:
            yield n
            n *= 2
        yield self.n_samples


def exact_estimate(value: FloatArray) -> GapEstimate:
    """Exact gaps, in the form of an estimate."""
    zero = np.zeros(len(value))
    return GapEstimate(value, zero, zero, np.full(len(value), "exact"), np.zeros(len(value), dtype=np.int64))


def estimate_mc(
    engines: Engines, rows: FloatArray, subset: NDArray[np.bool_], budget: Budget, seed: int
) -> GapEstimate:
    """Independent samples; row r draws from its own stream, `SeedSequence(seed, spawn_key=(r,))`.

    With several engines, one for each output, the standard error is an upper bound.
    """
    k = int(subset.sum())
    streams = [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(r,))) for r in range(len(rows))]

    def add(open_rows: NDArray[np.intp], n: int) -> FloatArray:
        def sums_of(some: NDArray[np.intp]) -> FloatArray:
            return _summed(engines, rows[some], subset, lambda m: _drawn(streams, some, m, k), n)

        return np.concatenate([sums_of(some) for some in _parts(open_rows, _POINT_DOUBLES // (n * k) + 1)])

    def judge(sums: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
        mean = sums[:, 1] / n
        return mean, np.sqrt(np.maximum(sums[:, 2] / n - mean**2, 0.0) / (n - 1))

    return _run("mc", len(rows), budget, lambda n: n, np.zeros((len(rows), 3)), add, judge)


def estimate_qmc(
    engines: Engines,
    rows: FloatArray,
    subset: NDArray[np.bool_],
    budget: Budget,
    seed: int,
    sequence: Sequence,
) -> GapEstimate:
    """Randomised quasi-random points, the same for all rows; each replicate is randomised by its own seed."""
    seeds = np.random.SeedSequence(seed).spawn(REPLICATES)
    replicates = [_sequence(sequence, int(subset.sum()), own) for own in seeds]

    def add(open_rows: NDArray[np.intp], n: int) -> FloatArray:
        some = rows[open_rows]
        sums = [_summed(engines, some, subset, draw, n // REPLICATES)[:, 1] for draw in replicates]
        return np.stack(sums, axis=1)

    def judge(sums: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
        means = sums / (n // REPLICATES)
        return means.mean(axis=1), means.std(axis=1, ddof=1) / np.sqrt(REPLICATES)

    def usable(n: int) -> int:  # Sobol's points are balanced only in powers of 2
        points = n // REPLICATES
        return REPLICATES * (1 << (points.bit_length() - 1) if sequence == "sobol" else points)

    return _run("qmc", len(rows), budget, usable, np.zeros((len(rows), REPLICATES)), add, judge)


def _run(
    method: str,
    n_rows: int,
    budget: Budget,
    usable: Callable[[int], int],
    sums: FloatArray,
    add: Callable[[NDArray[np.intp], int], FloatArray],
    judge: Callable[[FloatArray, int], tuple[FloatArray, FloatArray]],
) -> GapEstimate:
    """Adds samples to the rows that are not sure enough, until all are or the budget is spent."""
    value, error = np.zeros(n_rows), np.full(n_rows, np.inf)
    spent = np.zeros(n_rows, dtype=np.int64)
    open_rows, drawn = np.arange(n_rows), 0
    for n in map(usable, budget.steps()):
        if n > drawn:
            sums[open_rows] += add(open_rows, n - drawn)
            drawn = n
        value[open_rows], error[open_rows] = judge(sums[open_rows], n)
        spent[open_rows] = n
        if budget.rtol is not None:
            open_rows = open_rows[error[open_rows] > budget.rtol * value[open_rows]]
        if len(open_rows) == 0:
            break
    return GapEstimate(value, error, np.full(n_rows, np.inf), np.full(n_rows, method), spent)


def _summed(
    engines: Engines, rows: FloatArray, subset: NDArray[np.bool_], draw: Callable[[int], FloatArray], n: int
) -> FloatArray:
    """Sums (n_rows, 3) of f(x') - f(x), its square and its fourth power over n points.

    `draw(m)` gives the next m points, (1, m, k) for all rows or (n_rows, m, k); all outputs get the same.
    """
    step = max(1, _POINT_DOUBLES // max(1, int(subset.sum())))
    total = np.zeros((len(rows), 3))
    for start in range(0, n, step):
        m = min(step, n - start)
        points = draw(m)
        total += _over_outputs(
            [engine.sample(rows, subset, points, np.array([m]))[:, 0] for engine in engines]
        )
    return total


def _over_outputs(moments: list[FloatArray]) -> FloatArray:
    """Moments (n_rows, 3) of the outputs as those of D with D² = Σ D_k²; the fourth is an upper bound."""
    if len(moments) == 1:
        return moments[0]
    first, second = sum(m[:, 0] for m in moments), sum(m[:, 1] for m in moments)
    fourth = sum(np.sqrt(m[:, 2]) for m in moments) ** 2  # Minkowski's inequality
    return np.stack([first, second, fourth], axis=1)


def _parts(items: NDArray[np.intp], size: int) -> list[NDArray[np.intp]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _drawn(streams: list[np.random.Generator], rows: NDArray[np.intp], m: int, k: int) -> FloatArray:
    return np.stack([streams[r].random((m, k)) for r in rows])


def _sequence(name: Sequence, k: int, seed: np.random.SeedSequence) -> Callable[[int], FloatArray]:
    from scipy.stats import qmc  # slow to import

    kind = qmc.Sobol if name == "sobol" else qmc.Halton
    points = kind(k, scramble=True, rng=np.random.default_rng(seed))

    def draw(n: int) -> FloatArray:
        drawn = points.random(n)[None]
        return np.minimum(np.ascontiguousarray(drawn), np.nextafter(1.0, 0.0))

    return draw
