"""Gaps by sampling, with their standard errors: plain Monte Carlo and randomised quasi-Monte Carlo.

Both draw points of the unit cube, one coordinate per perturbed feature, and the kernels turn them into
perturbed rows by the inverse transform. More samples repeat the draws of fewer, and add to them. Many subsets
of a row are evaluated at common points, so that their gaps can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from predgap.engine import Engine
from predgap.ensemble import LEAF
from predgap.errors import PredgapError

FloatArray = NDArray[np.float64]
Engines = tuple[Engine, ...]  # one for each output; gaps are summed
Sequence = Literal["sobol", "halton"]

REPLICATES: Final = 16  # independent randomisations of a quasi-random sequence; their spread is the error

_SOBOL_DIMENSIONS: Final = 21201  # scipy.stats.qmc.Sobol.MAXDIM, which is slow to import
_FIRST: Final = 1024  # samples before a tolerance is first looked at
_POINT_DOUBLES: Final = 8 << 20  # coordinates held at once


@dataclass(frozen=True, slots=True, eq=False)
class GapEstimate:
    """Gaps, how sure they are, and how they were obtained.

    All arrays have the shape of the answer: (n,) for a gap, PGI² or PGU² of each row, (n, d) for curves. An
    exact gap has no standard error and an error bound of 0. A bounded one lies within `value` ±
    `error_bound`. Both are meant up to rounding. A sampled one has a standard error, and an infinite bound:
    nothing is guaranteed. What happens less often than there are samples may not be seen at all: 0 ± 0 says
    that no sample changed the prediction, and a gap of rare, large changes has too small a standard error.
    """

    value: FloatArray
    standard_error: FloatArray
    error_bound: FloatArray
    method: NDArray[np.str_]  # "exact", "bounded", "mc" or "qmc"
    n_samples: NDArray[np.int64]  # perturbed rows that the model was asked about


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
    return _unsampled(value, np.zeros(value.shape), "exact")


def bounded_estimate(value: FloatArray, error_bound: FloatArray) -> GapEstimate:
    """Gaps that are known up to a bound, in the form of an estimate."""
    return _unsampled(value, error_bound, "bounded")


def _unsampled(value: FloatArray, error_bound: FloatArray, method: str) -> GapEstimate:
    n_samples = np.zeros(value.shape, dtype=np.int64)
    return GapEstimate(value, np.zeros(value.shape), error_bound, np.full(value.shape, method), n_samples)


def estimate_mc(
    engines: Engines, rows: FloatArray, subset: NDArray[np.bool_], budget: Budget, seed: int
) -> GapEstimate:
    """Independent samples; row r draws from its own stream, `SeedSequence(seed, spawn_key=(r,))`.

    With several engines, one for each output, the standard error is an upper bound.
    """
    k, seed = int(subset.sum()), _checked_seed(seed)
    streams = [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(r,))) for r in range(len(rows))]

    def add(open_rows: NDArray[np.intp], n: int) -> FloatArray:
        def sums_of(some: NDArray[np.intp]) -> FloatArray:
            return _summed(engines, rows[some], subset, lambda m: _drawn(streams, some, m, k), n)

        return np.concatenate([sums_of(some) for some in _parts(open_rows, _POINT_DOUBLES // (n * k) + 1)])

    def judge(sums: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
        mean = sums[:, 1] / n
        return mean, np.sqrt(np.maximum(sums[:, 2] / n - mean**2, 0.0) / (n - 1))

    return _run("mc", (len(rows),), budget, lambda n: n, np.zeros((len(rows), 3)), add, judge)


def estimate_qmc(
    engines: Engines,
    rows: FloatArray,
    subset: NDArray[np.bool_],
    budget: Budget,
    seed: int,
    sequence: Sequence,
) -> GapEstimate:
    """Randomised quasi-random points, the same for all rows."""
    replicates = Replicates(sequence, int(subset.sum()), seed)

    def add(open_rows: NDArray[np.intp], n: int) -> FloatArray:
        some, total = rows[open_rows], np.zeros((len(open_rows), REPLICATES))
        for drawn in replicates.parts(n // REPLICATES):
            ends = drawn.shape[1] * np.arange(1, REPLICATES + 1)
            points = drawn.reshape(1, -1, drawn.shape[2])
            for engine in engines:
                total += engine.sample(some, subset, points, ends)[:, :, 1]
        return total

    def usable(n: int) -> int:
        return balanced(n) if sequence == "sobol" else n // REPLICATES * REPLICATES

    sums = np.zeros((len(rows), REPLICATES))
    return _run("qmc", (len(rows),), budget, usable, sums, add, _judge_replicates)


def estimate_curve(
    engines: Engines, rows: FloatArray, order: NDArray[np.intp], budget: Budget, seed: int, *, average: bool
) -> GapEstimate:
    """Gaps (n, d) of the prefixes of order (n, d), at common points; or their average over the prefixes (n,).

    The error of the average comes from its own replicates: the gaps of a curve err together.
    """
    n_rows, d = rows.shape
    column, replicates = common_points(engines, seed)
    orders = np.ascontiguousarray(order, dtype=np.int32)

    def add(open_rows: NDArray[np.intp], n: int) -> FloatArray:
        total = np.zeros((len(open_rows), REPLICATES, d))
        for drawn in replicates.parts(n // REPLICATES):
            for engine in engines:
                total += _curve_sums(engine, rows[open_rows], orders[open_rows], column, drawn)
        return total.sum(axis=2) / max(1, d) if average else total

    shape = (n_rows,) if average else (n_rows, d)
    sums = np.zeros((n_rows, REPLICATES, *shape[1:]))
    return _run("qmc", shape, budget, balanced, sums, add, _judge_replicates)


def _curve_sums(
    engine: Engine,
    rows: FloatArray,
    orders: NDArray[np.int32],
    column: NDArray[np.int32],
    drawn: FloatArray,
) -> FloatArray:
    """Sums (n, REPLICATES, d) of the squared changes of the prefixes over points (REPLICATES, m, k)."""
    points = drawn.reshape(-1, drawn.shape[2])
    out = np.empty((len(rows), REPLICATES, rows.shape[1]))
    for part, x, noise, progress in engine.chunks(rows, engine.rows_at_once()):
        out[part] = engine.kernels.sample_curve(
            x, noise, orders[part], points, column, REPLICATES, engine.n_threads, progress
        )
    return out


class Replicates:
    """Points of a quasi-random sequence in k dimensions; each replicate is randomised by its own seed."""

    def __init__(self, sequence: Sequence, k: int, seed: int) -> None:
        seeds = np.random.SeedSequence(_checked_seed(seed)).spawn(REPLICATES)
        self._draws = [_sequence(sequence, k, own) for own in seeds]
        self._at_once = _power_of_two(max(1, _POINT_DOUBLES // (REPLICATES * k)))

    def draw(self, m: int) -> FloatArray:
        """The next m points of each, (REPLICATES, m, k)."""
        return np.concatenate([draw(m) for draw in self._draws])

    def parts(self, m: int) -> Iterator[FloatArray]:
        """The next m points of each, in parts that fit into memory."""
        for start in range(0, m, self._at_once):
            yield self.draw(min(self._at_once, m - start))


def _checked_seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise PredgapError(f"seed is {seed!r}, expected a whole number that is not negative")
    return int(seed)


def common_points(engines: Engines, seed: int) -> tuple[NDArray[np.int32], Replicates]:
    """Sobol points for all subsets: the coordinate of each feature, (d,), -1 if the model does not use it."""
    used = np.zeros(engines[0].ensemble.n_features, dtype=np.bool_)
    for engine in engines:
        used[engine.ensemble.feature[engine.ensemble.feature != LEAF]] = True
    k = int(used.sum())
    if k > _SOBOL_DIMENSIONS:
        raise PredgapError(
            f"the model uses {k:,} features, and Sobol's points have at most {_SOBOL_DIMENSIONS:,} "
            "coordinates; estimate(sequence='halton') takes any number"
        )
    column = np.where(used, np.cumsum(used) - 1, -1).astype(np.int32)
    return column, Replicates("sobol", max(1, k), seed)


def balanced(n: int) -> int:
    """The largest number of Sobol points up to n that is balanced: a power of 2 in each replicate."""
    return REPLICATES * _power_of_two(n // REPLICATES)


def _power_of_two(n: int) -> int:
    """The largest one up to n."""
    return 1 << (int(n).bit_length() - 1)


def _judge_replicates(sums: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    """Mean and standard error from sums (n_rows, REPLICATES, ...) over n points in all."""
    points = n // REPLICATES
    means = sums / points
    mean, error = means.mean(axis=1), means.std(axis=1, ddof=1) / np.sqrt(REPLICATES)
    # Points are so even that all replicates may agree, and be off by a share of one point.
    return mean, np.maximum(error, mean / (points * (REPLICATES + 1)))


def _run(
    method: str,
    shape: tuple[int, ...],
    budget: Budget,
    usable: Callable[[int], int],
    sums: FloatArray,
    add: Callable[[NDArray[np.intp], int], FloatArray],
    judge: Callable[[FloatArray, int], tuple[FloatArray, FloatArray]],
) -> GapEstimate:
    """Adds samples to the rows that are not sure enough, until all are or the budget is spent."""
    value, error = np.zeros(shape), np.full(shape, np.inf)
    spent = np.zeros(shape, dtype=np.int64)
    open_rows, drawn = np.arange(shape[0]), 0
    for n in map(usable, budget.steps()):
        if n > drawn:
            sums[open_rows] += add(open_rows, n - drawn)
            drawn = n
        value[open_rows], error[open_rows] = judge(sums[open_rows], n)
        spent[open_rows] = n
        if budget.rtol is not None:
            sure = error[open_rows] <= budget.rtol * value[open_rows]
            unsure = ~sure | (value[open_rows] == 0)  # of what was not seen to move, nothing is known
            open_rows = open_rows[unsure.reshape(len(open_rows), -1).any(axis=1)]
        if len(open_rows) == 0:
            break
    return GapEstimate(value, error, np.full(shape, np.inf), np.full(shape, method), spent)


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
