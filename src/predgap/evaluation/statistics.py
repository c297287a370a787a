"""How certain the comparison of rankings is: bootstrap intervals, paired tests, agreement."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._typing import BoolArray, FloatArray

CONFIDENCE: Final = 0.95
"""Of the intervals."""

_RESAMPLES: Final = 2000
_FEWEST: Final = 200  # resamples of very many rows
_DRAWS: Final = 1 << 26  # rows in all resamples together
_CELLS: Final = 1 << 22  # numbers that are drawn at the same time

TINY: Final = 1e-12
"""Scores whose relative difference is not larger than this are equal: they differ by rounding."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The paired comparison of two rankings over the rows: `mean` is that of a's score minus b's.

    `p` is the p-value of Wilcoxon's signed-rank test, corrected for the number of comparisons by Holm; NaN
    where there are fewer than two rows. `agrees` is whether the test and the mean point to the same side:
    one large difference may outweigh many small ones.
    """

    a: str
    b: str
    mean: float
    p: float
    agrees: bool = True

    @property
    def differs(self) -> bool:
        """Is the difference more than chance, at the level of 5 %?"""
        return bool(self.p < 1.0 - CONFIDENCE) and self.agrees


def interval(scores: FloatArray, seed: int) -> tuple[float, float]:
    """The bootstrap interval of the mean over rows, of scores (n,); NaN if there are fewer than two rows."""
    return _bootstrapped((scores,), np.mean, seed)


def interval_of_share(
    scores: FloatArray, low: FloatArray, high: FloatArray, seed: int
) -> tuple[float, float]:
    """The bootstrap interval of how far the mean score is from the mean `low` to the mean `high`."""
    return _bootstrapped((scores, low, high), share_of_way, seed)


def share_of_way(scores: FloatArray, low: FloatArray, high: FloatArray, axis: int = -1) -> Any:
    """How far the mean of scores is from that of `low` (0) to that of `high` (1); NaN if these are equal."""
    way, total = (np.mean(of, axis=axis) - np.mean(low, axis=axis) for of in (scores, high))
    # where nothing is between random and best, the share is not defined
    return np.divide(way, total, out=np.full(np.shape(total), np.nan), where=np.asarray(total) > 0)[()]


def _bootstrapped(data: tuple[FloatArray, ...], statistic: Any, seed: int) -> tuple[float, float]:
    n = len(data[0])
    if n < 2:
        return np.nan, np.nan
    if all((of == of[0]).all() for of in data):
        value = float(statistic(*data, axis=-1))
        return value, value
    from scipy.stats import bootstrap

    with warnings.catch_warnings(action="ignore"):  # of draws in which the statistic is not defined
        found = bootstrap(
            data,
            statistic,
            paired=True,
            vectorized=True,
            n_resamples=int(np.clip(_DRAWS // n, _FEWEST, _RESAMPLES)),
            batch=max(1, _CELLS // n),
            confidence_level=CONFIDENCE,
            method="percentile",
            rng=np.random.default_rng(seed),
        )
    defined = found.bootstrap_distribution[~np.isnan(found.bootstrap_distribution)]
    if not len(defined):
        return np.nan, np.nan
    low, high = np.percentile(defined, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return float(low), float(high)


def differences(names: Sequence[str], scores: FloatArray, tolerance: float = TINY) -> tuple[Difference, ...]:
    """Each two of m rankings compared by their scores, (m, n), row by row."""
    pairs = list(combinations(range(len(names)), 2))
    gaps = [without_rounding(scores[a], scores[b], tolerance) for a, b in pairs]
    ps = holm(np.array([wilcoxon_p(gap) for gap in gaps]))
    return tuple(
        Difference(names[a], names[b], float(gap.mean()) if gap.size else np.nan, float(p), _agrees(gap))
        for (a, b), gap, p in zip(pairs, gaps, ps, strict=True)
    )


def _agrees(difference: FloatArray) -> bool:
    """Do the mean and the signed ranks, which Wilcoxon's test adds up, point to the same side?"""
    from scipy.stats import rankdata

    moved = difference[difference != 0]
    return bool(np.sum(np.sign(moved) * rankdata(np.abs(moved))) * np.sum(moved) >= 0)


def without_rounding(a: FloatArray, b: FloatArray, tolerance: float = TINY) -> FloatArray:
    """a - b, exactly 0 where they are equal but for rounding or the tolerance of the scores."""
    difference = a - b
    return np.where(np.abs(difference) <= tolerance * np.maximum(np.abs(a), np.abs(b)), 0.0, difference)


def wilcoxon_p(difference: FloatArray) -> float:
    """The p-value of Wilcoxon's signed-rank test; rows without a difference are left out.

    1 if no row differs; NaN if there are fewer than two rows.
    """
    if len(difference) < 2:
        return float("nan")
    moved = difference[difference != 0]
    if len(moved) == 0:
        return 1.0
    from scipy.stats import wilcoxon

    return float(wilcoxon(moved).pvalue)


def holm(p: FloatArray) -> FloatArray:
    """p-values corrected for their number by Holm's step-down procedure.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    out = np.empty(len(p))
    out[order] = np.minimum(stepped, 1.0)
    return out


def highest(scores: FloatArray, tolerance: float = TINY) -> BoolArray:
    """Which of m rankings has the highest score in each row, (m, n); all that are equal to it have."""
    best = scores.max(axis=0, initial=-np.inf)
    found: NDArray[np.bool_] = scores >= best - tolerance * np.abs(best)
    return found
