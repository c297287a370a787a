"""How sure is a mean over rows? Bootstrap: the rows are drawn anew, with replacement.

The same seed draws the same rows, so what is computed from the same rows can be compared draw by draw.
Intervals go from percentile to percentile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from predgap._typing import FloatArray
from predgap.errors import PredgapError

_RESAMPLED_AT_ONCE: Final = 1 << 20  # row numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampled:
    """How often rows are drawn, and which intervals are asked for; configs of experiments have it."""

    n_resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n_resamples < 1 or not 0 < self.confidence < 1 or self.seed < 0:
            raise PredgapError(
                f"{self!r} is impossible; expected n_resamples from 1, confidence in (0, 1), seed from 0"
            )


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


class Spread(NamedTuple):
    """A ranking's score, and its advantage over SHAP's, with their intervals; SHAP has no advantage."""

    score: float
    low: float
    high: float
    advantage: float | None = None
    advantage_low: float | None = None
    advantage_high: float | None = None


def spreads(
    values: FloatArray,
    config: Resampled,
    *,
    score: Callable[[FloatArray], FloatArray] = lambda means: means,
    lower_is_better: bool = False,
) -> list[Spread]:
    """The score of each ranking, its advantage, and how sure they are.

    Parameters
    ----------
    values : (m, ..., n) array
        Of m rankings, SHAP's first, and n rows.
    config : Resampled
    score : function from (m, ..., *rest) to (m, *rest)
        What is made of the means over rows; the means themselves if it is not given.
    lower_is_better : bool
        Whether an advantage is a score below SHAP's.

    Examples
    --------
    >>> config = Resampled(n_resamples=10, confidence=0.9)
    >>> spreads(np.array([[1.0, 1.0], [3.0, 3.0]]), config)[1]
    Spread(score=3.0, low=3.0, high=3.0, advantage=2.0, advantage_low=2.0, advantage_high=2.0)
    """

    def ahead(scores: FloatArray) -> FloatArray:
        return np.asarray(scores[0] - scores if lower_is_better else scores - scores[0])

    found = score(values.mean(axis=-1))
    resampled = score(resampled_means(values, config.n_resamples, config.seed))
    own = np.stack([found, *interval(resampled, config.confidence)])  # (3, m)
    over = np.stack([ahead(found), *interval(ahead(resampled), config.confidence)])
    shap, *greedy = (Spread(*one) for one in np.concatenate([own, over]).T.tolist())
    return [Spread(*shap[:3]), *greedy]
