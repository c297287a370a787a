"""Rankings from samples, and the confidence in each of their places.

For each place, all candidate features are evaluated at the same sample points, so that differences between
them are not due to different samples. After each round of samples (a look), candidates whose gap is clearly
smaller drop out; rounds continue until one candidate is left or the samples are used up (a race).
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from predgap._engine.context import Context
from predgap._engine.kernels import Kernel
from predgap._engine.points import REPLICATES, balanced, checked_seed, common_points
from predgap._typing import FloatArray
from predgap.errors import PredgapError

_N_SAMPLES: Final = 4096  # the default number of samples per place
_FIRST: Final = 64  # points of each replicate in the first round
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
    n = min(_N_SAMPLES, most) if n_samples is None else balanced(n_samples)
    if n > most:
        raise PredgapError(f"n_samples is {n_samples}, expected at most {most} for a ranking by this model")
    end = [n]
    while end[0] > REPLICATES * _FIRST:
        end.insert(0, end[0] // 2)
    bounds = [0, *(m // REPLICATES for m in end)]
    looks = [replicates.points(*bounds[i : i + 2]).reshape(-1, k) for i in range(len(end))]
    return column, np.concatenate(looks), np.array(end, dtype=np.int64)
