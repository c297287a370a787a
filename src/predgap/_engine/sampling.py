"""Gaps from samples, with standard errors: Monte Carlo and randomised quasi-Monte Carlo.

Both draw points in the unit cube, with one coordinate per perturbed feature that the model uses; the kernels
turn them into perturbed rows by the inverse transform. With more samples, the first ones stay the same. All
subsets of a curve are evaluated at the same points, so that their gaps can be compared. Rows are processed in
chunks to limit memory; the numbers of a row do not depend on the other rows.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from predgap._engine.accuracy import N_SAMPLES, Draws, Sequence, checked_rtol
from predgap._engine.context import Context
from predgap._engine.kernels import Kernel, as_bytes
from predgap._engine.points import REPLICATES, Replicates, balanced, checked_seed, common_points
from predgap._engine.results import GapEstimate, exact_estimate
from predgap._text import shown
from predgap._typing import FloatArray, IndexArray
from predgap.errors import PredgapError

_FIRST: Final = 1024  # samples before the standard error is first compared with `rtol`
_POINT_DOUBLES: Final = 8 << 20  # coordinates of samples in memory at the same time
_SUM_DOUBLES: Final = 4 << 20  # sums over samples in memory at the same time


@dataclass(frozen=True, slots=True)
class Budget:
    """When to stop sampling: when standard error / value is at most `rtol`, or after `n_samples`."""

    n_samples: int
    rtol: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.n_samples, bool) or not isinstance(self.n_samples, int | np.integer):
            raise PredgapError(f"n_samples is {shown(self.n_samples)}, expected a whole number")
        if self.n_samples < 2 * REPLICATES:
            raise PredgapError(f"n_samples is {self.n_samples}, expected at least {2 * REPLICATES}")
        if self.rtol is not None:
            checked_rtol(self.rtol, zero=False)

    @classmethod
    def of(cls, draws: Draws) -> Budget:
        """The budget of gaps and curves."""
        return cls(N_SAMPLES if draws.n_samples is None else draws.n_samples, draws.rtol)

    def steps(self) -> Iterator[int]:
        """The numbers of samples after which to check `rtol`: doubling up to `n_samples`, which is the only
        one without `rtol`."""
        n = self.n_samples if self.rtol is None else min(_FIRST, self.n_samples)
        while n < self.n_samples:
            yield n
            n *= 2
        yield self.n_samples


def estimate_mc(
    kernel: Kernel,
    rows: FloatArray,
    mask: NDArray[np.bool_],
    budget: Budget,
    seed: int,
    context: Context,
) -> GapEstimate:
    """Gaps (n,) of a mask (d,) by Monte Carlo; each row has its own independent random numbers.

    For several outputs the standard error is an upper bound.
    """
    asked, seed = mask & kernel.used, checked_seed(seed)
    if not asked.any():
        return exact_estimate(np.zeros(len(rows)))
    return _Independent(kernel, rows, asked, budget, seed).run("mc", context)


def estimate_qmc(
    kernel: Kernel,
    rows: FloatArray,
    mask: NDArray[np.bool_],
    budget: Budget,
    seed: int,
    sequence: Sequence,
    context: Context,
) -> GapEstimate:
    """Gaps (n,) of a mask (d,) by randomised quasi-Monte Carlo, at the same points for all rows."""
    asked, seed = mask & kernel.used, checked_seed(seed)
    if not asked.any():
        return exact_estimate(np.zeros(len(rows)))
    return _Shared(kernel, rows, asked, budget, seed, sequence).run("qmc", context)


def estimate_curve(
    kernel: Kernel,
    rows: FloatArray,
    order: NDArray[np.int32],
    budget: Budget,
    seed: int,
    method: Literal["mc", "qmc"],
    *,
    average: bool,
    context: Context,
) -> GapEstimate:
    """Gaps (n, k) of the first 1, ..., k units of order (1 or n, k), or, if `average`, their mean, (n,).

    All are evaluated at the same points, so their errors are correlated. The error of the mean is therefore
    computed from the means of the replicates, not from the errors of the gaps.
    """
    sequence: Sequence = "random" if method == "mc" else "sobol"
    prefixes = _Prefixes(kernel, rows, order, budget, checked_seed(seed), sequence, average=average)
    return prefixes.run(method, context)


def sums_of_changes(
    kernel: Kernel,
    rows: FloatArray,
    mask: NDArray[np.bool_],
    points: FloatArray,
    ends: NDArray[np.int64],
    output: int,
    context: Context,
) -> FloatArray:
    """Sums over samples of f(x') - f(x), of its square and of its fourth power, (n, s, 3).

    `points` (1 or n, m, k) are samples in the unit cube with one coordinate per feature in the mask (d,). The
    m points are summed in s consecutive parts, which end at `ends` (s,).
    """
    core, asked = kernel.independent("sampling"), kernel.rows(rows, mask[None])
    found: FloatArray = core.sample(asked, output, as_bytes(mask), points, ends, context)[0]
    return found


def row_stream(seed: int, row: FloatArray) -> np.random.Generator:
    """The random numbers of a row (d,), which depend on the seed and its values, not on its position."""
    values = row + 0.0  # -0.0 is 0.0
    values[np.isnan(values)] = np.nan  # one bit pattern for all NaNs
    content = int.from_bytes(hashlib.blake2b(values.tobytes(), digest_size=16).digest(), "little")
    return np.random.default_rng(np.random.SeedSequence([seed, content]))


class _Sampler(ABC):
    """Adds up samples for each row, and computes values and standard errors from the sums."""

    rows_at_once: int
    width: tuple[int, ...] = ()  # shape of one row's answer
    sums: tuple[int, ...]  # shape of one row's sums

    def __init__(self, kernel: Kernel, rows: FloatArray, budget: Budget) -> None:
        self.kernel, self.rows, self.budget = kernel, rows, budget
        self.core = kernel.independent("sampling")

    @abstractmethod
    def usable(self, n: int) -> int:
        """n rounded down to a number of samples that this sampler can draw."""

    def begin(self, chunk: slice) -> None:  # noqa: B027 (optional to override)
        """Called before the first samples of these rows are drawn."""

    @abstractmethod
    def add(self, which: IndexArray, drawn: int, n: int, context: Context) -> FloatArray:
        """The sums of rows `which` over the samples number drawn, ..., n - 1."""

    @abstractmethod
    def judge(self, sums: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
        """Values and standard errors, from sums over n samples."""

    def run(self, method: str, context: Context) -> GapEstimate:
        """The estimates of all rows, chunk by chunk."""
        n_rows = len(self.rows)
        shape = (n_rows, *self.width)
        value, error, spent = np.zeros(shape), np.full(shape, np.inf), np.zeros(shape, dtype=np.int64)
        for first in range(0, n_rows, self.rows_at_once):
            chunk = slice(first, min(first + self.rows_at_once, n_rows))
            part = context.part(first, chunk.stop, n_rows, chunk.stop - first)
            value[chunk], error[chunk], spent[chunk] = self._run(chunk, part)
            part.look(chunk.stop - first)
        return GapEstimate(value, error, np.full(shape, np.inf), np.full(shape, method), spent)

    def _run(self, chunk: slice, context: Context) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
        """Draws samples for the rows whose error is above `rtol`, until none is or the budget is spent."""
        n_rows, most = chunk.stop - chunk.start, self.usable(self.budget.n_samples)
        shape = (n_rows, *self.width)
        value, error, spent = np.zeros(shape), np.full(shape, np.inf), np.zeros(shape, dtype=np.int64)
        sums, open_rows, drawn = np.zeros((n_rows, *self.sums)), np.arange(n_rows), 0
        self.begin(chunk)
        for n in map(self.usable, self.budget.steps()):
            if n > drawn:
                part = context.part(drawn, n, most, len(open_rows), ends_early=True)
                sums[open_rows] += self.add(chunk.start + open_rows, drawn, n, part)
                drawn = n
            value[open_rows], error[open_rows] = self.judge(sums[open_rows], n)
            spent[open_rows] = n
            if self.budget.rtol is not None:
                open_rows = open_rows[_unsure(value[open_rows], error[open_rows], self.budget.rtol)]
            if len(open_rows) == 0:
                break
        return value, error, spent


def _unsure(value: FloatArray, error: FloatArray, rtol: float) -> NDArray[np.bool_]:
    """Which rows need more samples, (n,). For a curve, the largest error is compared with the mean."""
    scale, largest = value, error
    if value.ndim > 1:
        scale, largest = value.sum(axis=1) / max(1, value.shape[1]), error.max(axis=1, initial=0.0)
    # 0 ± 0 means that no sample changed the prediction: keep sampling.
    unsure: NDArray[np.bool_] = (largest > rtol * scale) | (scale == 0)
    return unsure


class _Independent(_Sampler):
    """Gaps of one subset by Monte Carlo; each row draws its own points."""

    sums = (3,)  # of f(x') - f(x), its square and its fourth power

    def __init__(
        self, kernel: Kernel, rows: FloatArray, mask: NDArray[np.bool_], budget: Budget, seed: int
    ) -> None:
        super().__init__(kernel, rows, budget)
        self._mask, self._k, self._seed = mask, int(mask.sum()), seed
        self.rows_at_once = max(1, _POINT_DOUBLES // (budget.n_samples * self._k))
        self._streams: dict[int, np.random.Generator] = {}

    def usable(self, n: int) -> int:
        return n

    def begin(self, chunk: slice) -> None:
        self._streams = {r: row_stream(self._seed, self.rows[r]) for r in range(chunk.start, chunk.stop)}

    def add(self, which: IndexArray, drawn: int, n: int, context: Context) -> FloatArray:
        rows, n_outputs = self.rows[which], self.kernel.ensemble.n_outputs
        step = max(1, _POINT_DOUBLES // (len(which) * self._k))
        total = np.zeros((len(which), 3))
        for begin in range(drawn, n, step):
            end = min(begin + step, n)
            points = np.stack([self._streams[r].random((end - begin, self._k)) for r in which.tolist()])
            part = context.part(begin - drawn, end - drawn, n - drawn)
            moments = [
                sums_of_changes(
                    self.kernel,
                    rows,
                    self._mask,
                    points,
                    np.array([end - begin]),
                    output,
                    part.part(output, output + 1, n_outputs),
                )[:, 0]
                for output in range(n_outputs)
            ]
            total += _over_outputs(moments)
        return total

    def judge(self, sums: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
        mean = sums[:, 1] / n
        return mean, np.sqrt(np.maximum(sums[:, 2] / n - mean**2, 0.0) / (n - 1))


def _over_outputs(moments: list[FloatArray]) -> FloatArray:
    """The moments (n_rows, 3) of several outputs as those of one number D with D² = Σ D_k².

    D_k is the change of output k. The fourth moment is an upper bound.
    """
    if len(moments) == 1:
        return moments[0]
    first, second = sum(m[:, 0] for m in moments), sum(m[:, 1] for m in moments)
    fourth = sum(np.sqrt(m[:, 2]) for m in moments) ** 2  # Minkowski's inequality
    return np.stack([first, second, fourth], axis=1)


class _Replicated(_Sampler):
    """Samples at points that are the same for all rows; the spread of the replicates gives the error."""

    replicates: Replicates

    def usable(self, n: int) -> int:
        return balanced(n) if self.replicates.sequence == "sobol" else n // REPLICATES * REPLICATES

    def judge(self, sums: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
        points = n // REPLICATES
        means = sums / points
        mean, error = means.mean(axis=1), means.std(axis=1, ddof=1) / np.sqrt(REPLICATES)
        # Quasi-random points are so even that all replicates may agree by chance. The error is then still up
        # to the weight of one point, so it is not stated as smaller.
        return mean, np.maximum(error, mean / (points * (REPLICATES + 1)))

    def blocks(self, drawn: int, n: int, context: Context) -> Iterator[tuple[FloatArray, Context]]:
        """Blocks of points for the samples number drawn, ..., n - 1, and the context of each."""
        first, last = drawn // REPLICATES, n // REPLICATES
        for begin, end in self.replicates.blocks(first, last):
            part = context.part(begin - first, end - first, last - first)
            yield self.replicates.points(begin, end), part


class _Shared(_Replicated):
    """Gaps of one subset by quasi-Monte Carlo, at points that are the same for all rows."""

    sums = (REPLICATES,)

    def __init__(
        self,
        kernel: Kernel,
        rows: FloatArray,
        mask: NDArray[np.bool_],
        budget: Budget,
        seed: int,
        sequence: Sequence,
    ) -> None:
        super().__init__(kernel, rows, budget)
        self._mask = mask
        self.replicates = Replicates(sequence, int(mask.sum()), seed)
        self.rows_at_once = max(1, _SUM_DOUBLES // (3 * REPLICATES))

    def add(self, which: IndexArray, drawn: int, n: int, context: Context) -> FloatArray:
        rows, total = self.rows[which], np.zeros((len(which), REPLICATES))
        n_outputs = self.kernel.ensemble.n_outputs
        for points, own in self.blocks(drawn, n, context):
            ends = points.shape[1] * np.arange(1, REPLICATES + 1)
            cube = points.reshape(1, -1, points.shape[2])
            for output in range(n_outputs):
                part = own.part(output, output + 1, n_outputs)
                sums = sums_of_changes(self.kernel, rows, self._mask, cube, ends, output, part)
                total += sums[:, :, 1]
        return total


class _Prefixes(_Replicated):
    """Gaps of the first 1, ..., k units of an order, or their mean."""

    def __init__(
        self,
        kernel: Kernel,
        rows: FloatArray,
        order: NDArray[np.int32],
        budget: Budget,
        seed: int,
        sequence: Sequence,
        *,
        average: bool,
    ) -> None:
        super().__init__(kernel, rows, budget)
        k = order.shape[1]
        self._order, self._average = order, average
        self._column, self.replicates = common_points(kernel.used, seed, sequence)
        self.width = () if average else (k,)
        self.sums = (REPLICATES, *self.width)
        self.rows_at_once = max(1, _SUM_DOUBLES // (REPLICATES * max(1, k)))

    def add(self, which: IndexArray, drawn: int, n: int, context: Context) -> FloatArray:
        rows, k = self.rows[which], self._order.shape[1]
        order = self._order if len(self._order) == 1 else self._order[which]
        total = np.zeros((len(which), REPLICATES, k))
        asked, kernel = self.kernel.rows(rows, self.kernel.features_of(order)), self.kernel
        for points, part in self.blocks(drawn, n, context):
            cube = points.reshape(-1, points.shape[2])
            total += self.core.sample_curve(asked, order, cube, self._column, REPLICATES, part, kernel.units)[
                0
            ]
        return total.sum(axis=2) / max(1, k) if self._average else total
