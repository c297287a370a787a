"""Over how many features do rankings spread? (In the authors' repository, not in the paper.)

Each row's ranking gives every feature a reward: 1 to each of the first k and 0 to the rest, or 2^-p to the
feature at place p, from 1. Summed over the test rows and divided by their total, the rewards are a
distribution p over the features, with the base-2 entropy -Σ p_j log2 p_j. It is `largest`, the logarithm of
the number of features, if all are rewarded alike, and `smallest` if all rows have the same ranking: log2 k
for the first k. The entropy describes these rows; it is not an estimate for others.

Ties go to the lower index. That matters little where trees use all features. Features that no tree uses are
always tied, and greedy takes them before features that lower the gap, or change it by less than rounding
does: in a single tree they are often among the first three. So there are entropies among `all` features,
which depend on the order of the columns then, and among the `used` ones alone: rankings without the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Final

import numpy as np

from predgap import Ensemble, PredgapError, Ranking
from reproduction.helpers import BoolArray, FloatArray, Progress
from reproduction.models import Subject, method_of, per_subject, rankings
from reproduction.published import PLACES, SCALES
from reproduction.results import Result, Value

COLUMNS: Final = (
    *("kind", "dataset", "features", "n_features", "method", "scale", "reward", "k", "n_rows"),
    *("entropy", "smallest", "largest"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Scales σ of greedy, and the numbers k of features that share a reward."""

    scales: tuple[float, ...] = SCALES
    places: tuple[int, ...] = PLACES

    def __post_init__(self) -> None:
        if min(self.places, default=1) < 1:
            raise PredgapError(f"places={self.places!r} is impossible; expected numbers of features, from 1")


def run(
    config: Config, subjects: Iterable[Subject], *, n_jobs: int = 1, progress: Progress | None = None
) -> Result:
    """A row per subject, choice of features, ranking and reward."""
    rows = partial(_rows, config, n_jobs=n_jobs)
    return per_subject("entropy", COLUMNS, config, subjects, rows, progress)


def _rows(config: Config, subject: Subject, n_jobs: int) -> Iterator[tuple[Value, ...]]:
    d = subject.X.shape[1]
    if max(config.places, default=1) > d:
        raise PredgapError(f"places={config.places!r} is impossible; {subject.name} has {d} features")
    ranked = rankings(subject, config.scales, n_jobs=n_jobs)
    for features, chosen in choices(subject.ensemble).items():
        m = int(chosen.sum())
        same = Ranking(np.arange(m)[None])
        for (scale, ranking), k in product(ranked.items(), (*config.places, None)):
            yield (
                *(subject.kind, subject.dataset, features, m, method_of(scale), scale),
                *("2^-place" if k is None else "top k", k, len(subject.X)),
                *(entropy(rewards(among(ranking, chosen), k)), entropy(rewards(same, k)), np.log2(max(m, 1))),
            )


def choices(ensemble: Ensemble) -> dict[str, BoolArray]:
    """Masks (d,) of all features, and of those that a tree uses."""
    features = np.arange(ensemble.n_features)
    return {"all": features >= 0, "used": np.isin(features, ensemble.feature)}


def among(ranking: Ranking, chosen: BoolArray) -> Ranking:
    """The ranking of the m features in the mask `chosen` (d,) alone, as 0 ... m - 1.

    Examples
    --------
    >>> among(Ranking([[3, 0, 2, 1]]), np.array([True, False, True, True])).order
    array([[2, 0, 1]])
    """
    kept = ranking.order[chosen[ranking.order]].reshape(len(ranking), -1)
    return Ranking((np.cumsum(chosen) - 1)[kept])


def rewards(ranking: Ranking, k: int | None) -> FloatArray:
    """The reward of each feature in each row, (n, d): 1 in the first k places, or 2^-place if k is None.

    Examples
    --------
    >>> ranking = Ranking([[2, 0, 1]])
    >>> rewards(ranking, 1), rewards(ranking, None)
    (array([[0., 0., 1.]]), array([[0.25 , 0.125, 0.5  ]]))
    """
    return np.exp2(-ranking.ranks) if k is None else (ranking.ranks <= k).astype(np.float64)


def entropy(reward: FloatArray) -> float:
    """The base-2 entropy of rewards (n, d) that are summed over rows.

    Examples
    --------
    >>> entropy(np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
    1.0
    """
    total = reward.sum(axis=0)
    share = total[total > 0] / total.sum()
    return float(np.sum(share * -np.log2(share)))
