"""How sure is a mean over rows? Bootstrap: the rows are drawn anew, with replacement.

The same seed draws the same rows, so what is computed from the same rows can be compared draw by draw.
Intervals go from percentile to percentile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from predgap.experiments.results import Value

FloatArray = NDArray[np.float64]

_RESAMPLED_AT_ONCE: Final = 1 << 20  # row numbers


class Resampling(Protocol):
    """How often rows are drawn, and which intervals are asked for; a config of an experiment has it."""

    @property
    def n_resamples(self) -> int: ...
    @property
    def confidence(self) -> float: ...
    @property
    def seed(self) -> int: ...


def resampled_means(values: FloatArray, n_resamples: int, seed: int) -> FloatArray:
    """Means (..., n_resamples) of values (..., n) over n rows drawn with replacement.

    Examples
    --------
    >>> resampled_means(np.ones((2, 5)), 3, seed=0).shape
    (2, 3)
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    n = values.shape[-1]
    flat = np.ascontiguousarray(values.reshape(-1, n))
    out = np.empty((len(flat), n_resamples))
    step = max(1, _RESAMPLED_AT_ONCE // n)
    for start in range(0, n_resamples, step):
        drawn = rng.integers(n, size=(min(step, n_resamples - start), n))
        for i, row in enumerate(flat):
            out[i, start : start + step] = row[drawn].mean(axis=1)
    return out.reshape(*values.shape[:-1], n_resamples)


def interval(resampled: FloatArray, confidence: float) -> FloatArray:
    """Low and high percentile (2, ...) of means (..., n_resamples).

    Examples
    --------
    >>> interval(np.arange(101.0), 0.9)
    array([ 5., 95.])
    """
    tail = (1 - confidence) / 2
    return np.asarray(np.quantile(resampled, (tail, 1 - tail), axis=-1))


def spreads(
    values: FloatArray,
    config: Resampling,
    *,
    score: Callable[[FloatArray], FloatArray] = lambda means: means,
    lower_is_better: bool = False,
) -> list[tuple[Value, ...]]:
    """For each ranking its score with low and high, and its advantage over SHAP with low and high.

    Parameters
    ----------
    values : (m, ..., n) array
        Of m rankings and n rows; SHAP is the first, which has no advantage (three times None).
    config : Resampling
    score : function from (m, ..., *rest) to (m, *rest)
        What is made of the means over rows; the means themselves if it is not given.
    lower_is_better : bool
        Whether an advantage is a score below SHAP's.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> config = SimpleNamespace(n_resamples=10, confidence=0.9, seed=0)
    >>> [[None if x is None else float(x) for x in one] for one in spreads(np.array([[1, 1], [3, 3]]), config)]
    [[1.0, 1.0, 1.0, None, None, None], [3.0, 3.0, 3.0, 2.0, 2.0, 2.0]]
    """

    def ahead(scores: FloatArray) -> FloatArray:
        return scores[0] - scores if lower_is_better else scores - scores[0]

    found = score(values.mean(axis=-1))
    resampled = score(resampled_means(values, config.n_resamples, config.seed))
    advantage = ahead(found)
    ends, advantage_ends = (interval(some, config.confidence) for some in (resampled, ahead(resampled)))
    out: list[tuple[Value, ...]] = [(found[0], *ends[:, 0], None, None, None)]
    out += [(found[i], *ends[:, i], advantage[i], *advantage_ends[:, i]) for i in range(1, len(found))]
    return out
