"""Gaps and rankings from samples, with standard errors: Monte Carlo and randomised quasi-Monte Carlo."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from predgap._engine.accuracy import N_SAMPLES, SOBOL_DIMENSIONS, Draws, Sequence, checked_rtol
from predgap._engine.context import Context
from predgap._engine.kernels import Kernel, as_bytes
from predgap._engine.results import GapEstimate, exact_estimate
from predgap._text import shown
from predgap._typing import FloatArray, IndexArray
from predgap.errors import PredgapError

# ------------------------------------------------------------------------------------------------------------
# Points in the unit cube are shared by all rows: random or quasi-random, in independent replicates.

REPLICATES: Final = 16
"""Number of independent randomisations of a sequence; the standard error comes from their spread."""

_CUBE_DOUBLES: Final = 8 << 20  # coordinates in memory at the same time


class Replicates:
    """Points of a sequence in k dimensions; each replicate is randomised by its own seed.

    Examples
    --------
    >>> replicates = Replicates("sobol", 3, seed=0)
    >>> replicates.points(0, 8).shape
    (16, 8, 3)
    """

    def __init__(self, sequence: Sequence, k: int, seed: int) -> None:
        if sequence == "sobol" and k > SOBOL_DIMENSIONS:
            raise PredgapError(
                f"{k:,} features that the model uses are perturbed, but Sobol points have at most "
                f"{SOBOL_DIMENSIONS:,} coordinates; use estimate(..., sequence='halton'), which has no limit"
            )
        self.sequence = sequence
        self._k = max(1, k)
        self._seeds = np.random.SeedSequence(checked_seed(seed)).spawn(REPLICATES)
        self._at_once = _power_of_two(max(1, _CUBE_DOUBLES // (REPLICATES * self._k)))
        self._draws: list[Callable[[int], FloatArray]] = []
        self._drawn = 0  # of each replicate
        self._kept: dict[tuple[int, int], FloatArray] = {}
        self._room = _CUBE_DOUBLES

    def blocks(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Splits the points begin ... end - 1 of each replicate into blocks that fit into memory."""
        for first in range(begin, end, self._at_once):
            yield first, min(first + self._at_once, end)

    def points(self, begin: int, end: int) -> FloatArray:
        """The points begin ... end - 1 of each replicate, (REPLICATES, end - begin, k).

        The first blocks are kept in memory, because all chunks of rows need the same ones.
        """
        kept = self._kept.get((begin, end))
        if kept is not None:
            return kept
        if not self._draws or begin < self._drawn:
            self._draws = [_sequence(self.sequence, self._k, own) for own in self._seeds]
            self._drawn = 0
        for first, last in self.blocks(self._drawn, begin):
            self._draw(last - first)
        points = self._draw(end - begin)
        self._drawn = end
        if points.size <= self._room:
            self._kept[begin, end] = points
            self._room -= points.size
        return points

    def _draw(self, m: int) -> FloatArray:
        return np.stack([draw(m) for draw in self._draws])


def common_points(
    used: NDArray[np.bool_], seed: int, sequence: Sequence
) -> tuple[NDArray[np.int32], Replicates]:
    """Points that serve for all subsets of features, and which coordinate each feature has.

    Coordinates are (d,), -1 for features that the model does not use.
    """
    column = np.where(used, np.cumsum(used) - 1, -1).astype(np.int32)
    return column, Replicates(sequence, int(used.sum()), seed)


def balanced(n: int) -> int:
    """n rounded down to a power of 2 in each replicate, for which Sobol points are most even.

    Examples
    --------
    >>> balanced(1000)
    512
    """
    return REPLICATES * _power_of_two(n // REPLICATES)


def checked_seed(seed: Any) -> int:
    """`seed` as an int; PredgapError unless it is a whole number from 0."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise PredgapError(f"seed is {shown(seed)}, expected a whole number that is not negative")
    return int(seed)


def _power_of_two(n: int) -> int:
    """The largest power of 2 up to n."""
    return 1 << (int(n).bit_length() - 1)


def _sequence(name: Sequence, k: int, seed: np.random.SeedSequence) -> Callable[[int], FloatArray]:
    """A function that draws the next n points, (n, k)."""
    # SciPy changes the seed that it is given, so a second use would give other points: pass a copy.
    rng = np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key))
    if name == "random":
        return lambda n: rng.random((n, k))
    from scipy.stats import qmc  # slow to import

    points = (qmc.Sobol if name == "sobol" else qmc.Halton)(k, scramble=True, rng=rng)
    below_one = np.nextafter(1.0, 0.0)
    return lambda n: np.minimum(points.random(n), below_one)


# ------------------------------------------------------------------------------------------------------------
# Gaps from samples, with standard errors: Monte Carlo and randomised quasi-Monte Carlo.
#
# Both draw points in the unit cube, with one coordinate per perturbed feature that the model uses; the
# kernels turn them into perturbed rows by the inverse transform. With more samples, the first ones stay the
# same. All subsets of a curve are evaluated at the same points, so that their gaps can be compared. Rows are
# processed in chunks to limit memory; the numbers of a row do not depend on the other rows.

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
    return _OwnPoints(kernel, rows, asked, budget, seed).run("mc", context)


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


class _OwnPoints(_Sampler):
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


# ------------------------------------------------------------------------------------------------------------
# Rankings from samples, and the confidence in each of their places.
#
# For each place, all candidate features are evaluated at the same sample points, so that differences between
# them are not due to different samples. After each round of samples (a look), candidates whose gap is clearly
# smaller drop out; rounds continue until one candidate is left or the samples are used up (a race).

_SAMPLES_OF_PLACE: Final = 4096  # the default number of samples per place
_FIRST_ROUND: Final = 64  # points of each replicate in the first round
_CLEAR: Final = 0.999  # confidence at which a candidate drops out
_MOST_DOUBLES: Final = 1 << 26  # largest number of coordinates of all points together


def race(
    kernel: Kernel,
    rows: FloatArray,
    method: Literal["greedy", "single"],
    top: int,
    n_samples: int | None,
    seed: int,
    by: Literal["mc", "qmc"],
    context: Context,
) -> tuple[NDArray[np.int32], FloatArray, FloatArray]:
    """Rankings of units from samples: order (n, top), scores (n, n_units) and confidence (n, top).

    The gaps of several outputs are summed. The confidence in a place is the one-sided confidence, by
    Student's t over the replicates, that the gap of its unit is larger than that of the closest other
    candidate.
    """
    from scipy.stats import t as student  # slow to import

    column, points, look_end = _looks(kernel, n_samples, checked_seed(seed), by)
    freedom = REPLICATES - 1
    clear = float(student.ppf(_CLEAR, freedom))
    core, asked = kernel.independent("sampling"), kernel.rows(rows, kernel.every)
    order, scores, lead = core.race(
        asked, method, top, points, column, look_end, REPLICATES, clear, context, kernel.units
    )
    return order, scores, student.cdf(lead, freedom)


def _looks(
    kernel: Kernel, n_samples: int | None, seed: int, by: Literal["mc", "qmc"]
) -> tuple[NDArray[np.int32], FloatArray, NDArray[np.int64]]:
    """The coordinate of each feature, the points (by round, then replicate), and where each round ends."""
    column, replicates = common_points(kernel.used, seed, "random" if by == "mc" else "sobol")
    k = int(column.max(initial=0)) + 1
    most = balanced(max(2 * REPLICATES, _MOST_DOUBLES // k))
    n = min(_SAMPLES_OF_PLACE, most) if n_samples is None else balanced(n_samples)
    if n > most:
        raise PredgapError(f"n_samples is {n_samples}, expected at most {most} for a ranking by this model")
    end = [n]
    while end[0] > REPLICATES * _FIRST_ROUND:
        end.insert(0, end[0] // 2)
    bounds = [0, *(m // REPLICATES for m in end)]
    looks = [replicates.points(*bounds[i : i + 2]).reshape(-1, k) for i in range(len(end))]
    return column, np.concatenate(looks), np.array(end, dtype=np.int64)
