"""How far apart are two rankings of a row? (In the authors' repository, not in the paper.)

The Cayley distance is the least number of swaps, of any two features, that turn one ranking into the other.
It is d minus the number of cycles of the permutation that takes a feature's place in one to its place in the
other: 0 for equal rankings, d - 1 at most. Two rankings that have nothing to do with each other are
`unrelated` = d - H_d apart on average, with H_d = 1 + 1/2 + ... + 1/d.

The mean over test rows is taken for SHAP and greedy at each scale σ, and for greedy at any two scales, with a
bootstrap interval from percentile to percentile. Two things limit what it says. All places count alike, and
moving one feature from the first place to the last is as far as can be, as it shifts all others. And where
trees do not use all features, those they do not use are tied, and fill places in the order of their indices.
So there are distances among `all` features, and among the `used` ones alone: rankings without the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Final

import numpy as np

from predgap import Ranking
from reproduction.experiments.entropy import among, choices
from reproduction.helpers import IndexArray, Progress
from reproduction.models import Subject, method_of, per_subject, rankings
from reproduction.published import SCALES
from reproduction.results import Resampled, Result, Value, interval, resampled_means

COLUMNS: Final = (
    *("kind", "dataset", "features", "n_features", "method", "scale", "other_method", "other_scale"),
    *("n_rows", "distance", "low", "high", "unrelated"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Resampled):
    """Scales σ of greedy, and how sure the averages are."""

    scales: tuple[float, ...] = SCALES


def run(
    config: Config, subjects: Iterable[Subject], *, n_jobs: int = 1, progress: Progress | None = None
) -> Result:
    """A row per subject, choice of features and pair of rankings."""
    rows = partial(_rows, config, n_jobs=n_jobs)
    return per_subject("cayley", COLUMNS, config, subjects, rows, progress)


def _rows(config: Config, subject: Subject, n_jobs: int) -> Iterator[tuple[Value, ...]]:
    ranked = rankings(subject, config.scales, n_jobs=n_jobs)
    for features, chosen in choices(subject.ensemble).items():
        m = int(chosen.sum())
        for one, other in combinations(ranked, 2):
            distance = distances(among(ranked[one], chosen), among(ranked[other], chosen)).astype(np.float64)
            ends = interval(resampled_means(distance, config.n_resamples, config.seed), config.confidence)
            yield (
                *(subject.kind, subject.dataset, features, m, method_of(one), one, method_of(other), other),
                *(len(distance), distance.mean(), *ends, unrelated(m)),
            )


def distances(one: Ranking, other: Ranking) -> IndexArray:
    """The Cayley distance of each row, (n,).

    Examples
    --------
    >>> distances(Ranking([[0, 1, 2], [0, 1, 2]]), Ranking([[2, 1, 0], [2, 0, 1]]))
    array([1, 2])
    """
    d = one.order.shape[1]
    return np.asarray(d - n_cycles(np.take_along_axis(other.ranks - 1, one.order, axis=1)))


def n_cycles(permutation: IndexArray) -> IndexArray:
    """The number of cycles of each permutation (n, d), fixed points included.

    Each cycle is counted at its lowest number, which all its members come to know: step by step they hear
    from members twice as far along.

    Examples
    --------
    >>> n_cycles(np.array([[1, 0, 2, 3], [1, 2, 3, 0]]))
    array([3, 1])
    """
    d = permutation.shape[1]
    lowest, ahead = np.broadcast_to(np.arange(d), permutation.shape), permutation
    for _ in range(d.bit_length()):
        lowest = np.minimum(lowest, np.take_along_axis(lowest, ahead, axis=1))
        ahead = np.take_along_axis(ahead, ahead, axis=1)
    return np.asarray(np.sum(lowest == np.arange(d), axis=1))


def unrelated(d: int) -> float:
    """The mean distance of a permutation of d numbers, all equally likely, from any one.

    Examples
    --------
    >>> unrelated(2)
    0.5
    """
    return math.fsum(1 - 1 / i for i in range(1, d + 1))
