"""Sample points in the unit cube, shared by all rows: random or quasi-random, in independent replicates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._engine.accuracy import SOBOL_DIMENSIONS, Sequence
from predgap._text import shown
from predgap._typing import FloatArray
from predgap.errors import PredgapError

REPLICATES: Final = 16
"""Number of independent randomisations of a sequence; the standard error comes from their spread."""

_POINT_DOUBLES: Final = 8 << 20  # coordinates in memory at the same time


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
        self._at_once = _power_of_two(max(1, _POINT_DOUBLES // (REPLICATES * self._k)))
        self._draws: list[Callable[[int], FloatArray]] = []
        self._drawn = 0  # of each replicate
        self._kept: dict[tuple[int, int], FloatArray] = {}
        self._room = _POINT_DOUBLES

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
