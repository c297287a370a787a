"""CTRs: numbers that CatBoost computes from how often a category occurred in training, and with which labels.

The model stores the counters of all categories, by a hash. A split compares a CTR with a border. The CTR of
one feature is a function of its category, so such a split is a set of categories. Combinations are counted
too: of several categorical features, of numbers that are above a border or not, and of features that have one
category or not. What has no counters has the CTR of counters that are all zero.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from predgap._typing import FloatArray, IntArray
from predgap.errors import LoaderError, UnsupportedModelError

__all__ = ["KINDS", "NO_HASH", "Combination", "Counters", "Ctr", "counters", "ranks"]

KINDS: Final = (
    *("Borders", "Buckets", "BinarizedTargetMeanValue", "FloatTargetMeanValue", "Counter", "FeatureFreq"),
)
"""The kinds of CTRs, in the order of their numbers in binary files."""

NO_HASH: Final = 2**64 - 1
"""Marks an empty place of a hash table."""

_MEANS: Final = {"BinarizedTargetMeanValue", "FloatTargetMeanValue"}
_FREQUENCIES: Final = {"Counter", "FeatureFreq"}


class Combination(NamedTuple):
    """What a CTR counts: rows with the same categories of some features, and the same answers."""

    categories: tuple[int, ...]  # categorical features, by their numbers
    borders: tuple[tuple[int, float], ...] = ()  # numeric features and borders: is it above?
    exact: tuple[tuple[int, int], ...] = ()  # categorical features and hashes, signed: is it this one?

    @property
    def is_single(self) -> bool:
        return len(self.categories) == 1 and not self.borders and not self.exact


class Counters(NamedTuple):
    """What was counted in training for each category of a feature, or each combination of several."""

    hashes: NDArray[np.uint64]  # (n,) all different
    counts: FloatArray  # (n, k): rows per class; or the sum of labels and their number; or the number of rows
    denominator: int  # of frequencies


class Ctr(NamedTuple):
    """A CTR, and the borders that splits compare it with."""

    kind: str
    of: Combination
    target: int  # the class, or the border between classes, that is counted
    prior: tuple[float, float]  # added to the numerator and the denominator
    shift: float
    scale: float
    borders: FloatArray  # single precision
    counters: Counters


def counters(hashes: NDArray[np.uint64], counts: FloatArray, denominator: Any, kind: Any) -> Counters:
    """The counters with these hashes (n,), as CatBoost stores them, and counts (n, k), if they are valid."""
    if kind not in KINDS:
        raise UnsupportedModelError(f"the model has a CTR of the kind {str(kind)[:40]!r}, which is not known")
    found = hashes != NO_HASH
    whole = counts[found] if kind not in _MEANS else counts[found, 1:]
    n_columns = counts.shape[1]
    expected = n_columns == 1 if kind in _FREQUENCIES else n_columns == 2 if kind in _MEANS else n_columns > 1
    sound = expected and type(denominator) is int and 0 <= denominator < 2**31
    if not sound or not np.isfinite(counts[found]).all() or (whole != np.trunc(whole)).any():
        raise LoaderError("the counters of a CTR are not counts; the file is damaged")
    if (whole < 0).any() or whole.sum(axis=1).max(initial=0) >= 2**31:
        raise LoaderError("the counters of a CTR are negative or too large; the file is damaged")
    if len(np.unique(hashes[found])) < found.sum():
        raise LoaderError("the counters of a CTR are not those of different categories; the file is damaged")
    return Counters(hashes[found], counts[found], denominator)


def ranks(ctr: Ctr) -> IntArray:
    """How many borders the CTR is above, (n + 1,): of what has counters; the last, of all else."""
    good, total = _fraction(ctr)
    with np.errstate(all="ignore"):  # in single precision and in this order, as in CatBoost
        above, below = map(np.float32, ctr.prior)
        value = (good.astype(np.float32) + above) / (total.astype(np.float32) + below)
        value = (value + np.float32(ctr.shift)) * np.float32(ctr.scale)
    found = np.searchsorted(ctr.borders.astype(np.float32), value, side="left")
    found[np.isnan(value)] = 0
    return found.astype(np.int32)


def _fraction(ctr: Ctr) -> tuple[FloatArray, FloatArray]:
    """Numerator and denominator for each category, both (n + 1,); the last is for those without counters."""
    counts = np.vstack([ctr.counters.counts, np.zeros(ctr.counters.counts.shape[1])])
    if ctr.kind in _FREQUENCIES:
        return counts[:, 0], np.full(len(counts), float(ctr.counters.denominator))
    if ctr.kind in _MEANS:
        return counts[:, 0], counts[:, 1]
    n_targets = counts.shape[1] - (ctr.kind == "Borders")
    if not 0 <= ctr.target < n_targets:
        raise LoaderError(f"a CTR counts class {ctr.target} of {n_targets}; the file is damaged")
    end = None if ctr.kind == "Borders" else ctr.target + 1
    begin = ctr.target + (ctr.kind == "Borders")
    return counts[:, begin:end].sum(axis=1), counts.sum(axis=1)
