"""Rankings from sampled gaps, and how sure each of their places is.

All candidates for a place are evaluated at the same points, so that they differ by what they do and not by
luck. They race: those that are clearly behind drop out, and more points are drawn until one is left.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from predgap import _core
from predgap.errors import PredgapError
from predgap.sampling import REPLICATES, Engines, balanced, common_points

FloatArray = NDArray[np.float64]

_FIRST: Final = 64  # points of each replicate before candidates are first compared
_CLEAR: Final = 0.999  # the confidence at which a candidate drops out
_MOST_DOUBLES: Final = 1 << 26  # coordinates of all points


def race(
    engines: Engines, rows: FloatArray, method: Literal["greedy", "single"], n_samples: int, seed: int
) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
    """Order, scores and sureness, all (n, d), by the sum of the gaps of a model's outputs.

    A place is as sure as the closest rival of its feature allows: the one-sided confidence, by Student's t
    over the replicates, that its gap is the larger one of the two.
    """
    from scipy.stats import t as student  # slow to import

    column, points, look_end = _looks(engines, n_samples, seed)
    freedom = REPLICATES - 1
    clear = float(student.ppf(_CLEAR, freedom))
    order, scores, lead = np.empty(rows.shape, dtype=np.intp), np.empty(rows.shape), np.empty(rows.shape)
    at_once = min((n for n in (engine.rows_at_once() for engine in engines) if n), default=None)
    kernels, n_threads = [engine.kernels for engine in engines], engines[0].n_threads
    for chunk in zip(*(engine.chunks(rows, at_once) for engine in engines), strict=True):
        part, _, _, progress = chunk[0]
        rows_of, noises = [x for _, x, _, _ in chunk], [noise for _, _, noise, _ in chunk]
        order[part], scores[part], lead[part] = _core.race(
            kernels, rows_of, noises, method, points, column, look_end, REPLICATES, clear, n_threads, progress
        )
    return order, scores, student.cdf(lead, freedom)


def _looks(
    engines: Engines, n_samples: int, seed: int
) -> tuple[NDArray[np.int32], FloatArray, NDArray[np.int64]]:
    """The coordinate of each feature; points, ordered by look and then replicate; where the looks end."""
    (column, replicates), n = common_points(engines, seed), balanced(n_samples)
    k = int(column.max(initial=0)) + 1
    if n * k > _MOST_DOUBLES:
        most = balanced(_MOST_DOUBLES // k)
        raise PredgapError(f"n_samples is {n_samples}, expected at most {most} for a ranking by this model")
    end = [n]
    while end[0] > REPLICATES * _FIRST:
        end.insert(0, end[0] // 2)
    looks = [replicates.draw(m // REPLICATES) for m in np.diff([0, *end]).tolist()]
    points = np.concatenate([look.reshape(-1, k) for look in looks])
    return column, points, np.array(end, dtype=np.int64)
