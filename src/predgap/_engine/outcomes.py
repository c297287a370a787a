"""Expected values of any function of the changed prediction, such as the probability that it crosses a line.

Gaps follow from row terms because they are squares. Other functions need the distribution of f(x'). Where the
cells that the features can be in have few combinations, or one tree only changes, all outcomes are listed,
and the expected value is their sum. Otherwise the function is averaged over quasi-random samples, whose
spread over replicates gives a standard error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import numpy as np

from predgap import _core
from predgap._engine.accuracy import sampler_for
from predgap._engine.context import Context
from predgap._engine.kernels import Kernel, as_bytes
from predgap._engine.points import REPLICATES, Replicates, Sequence, balanced, checked_seed
from predgap._engine.sampling import Budget
from predgap._typing import BoolArray, FloatArray

SAMPLES: Final = 16384
"""The default number of samples per row."""

Function = Callable[[int, FloatArray], FloatArray]
"""Of the number of a row among those that are asked about, and the changes of its outputs (n_outputs, m): the
value of each change, (m,)."""


def listed_outcomes(
    kernel: Kernel, row: FloatArray, mask: BoolArray, context: Context
) -> tuple[FloatArray, FloatArray] | None:
    """All values of f(x') - f(x) of one row (1, d) if the features of a mask (1, d) move: probabilities (m,) and
    changes (n_outputs, m). None if there are too many to list."""
    context, asked = context.quiet(), kernel.rows(row, mask)
    if isinstance(kernel.core, _core.Independent):
        return kernel.core.outcomes(asked, as_bytes(mask), context)
    change = kernel.core.changes(asked, as_bytes(mask), context)[0][0]
    return np.full(change.shape[1], 1.0 / change.shape[1]), change


def sampled_mean(
    kernel: Kernel,
    row: FloatArray,
    mask: BoolArray,
    value: Callable[[FloatArray], FloatArray],
    n_samples: int,
    seed: int,
    context: Context,
) -> tuple[float, float, Literal["mc", "qmc"], int]:
    """The mean over samples of a function of the changes (n_outputs, m) of one row (1, d), which gives (m,), if
    the features of a mask (d,) move: the mean, its standard error, the method, the number of samples."""
    core, context = kernel.independent("sampling"), context.quiet()
    asked = mask & kernel.used
    k = int(asked.sum())
    n_points = balanced(Budget(n_samples).n_samples) // REPLICATES
    method = sampler_for(k)
    sequence: Sequence = "sobol" if method == "qmc" else "random"
    replicates = Replicates(sequence, k, checked_seed(seed))
    rows, sums = kernel.rows(row, asked[None]), np.zeros(REPLICATES)
    for begin, end in replicates.blocks(0, n_points):
        points = replicates.points(begin, end)[:, :, :k].reshape(1, REPLICATES * (end - begin), k)
        change = core.sample_changes(rows, as_bytes(asked), np.ascontiguousarray(points), context)[0][0]
        sums += value(change).reshape(REPLICATES, -1).sum(axis=1)
    means = sums / n_points
    mean, error = means.mean(), means.std(ddof=1) / np.sqrt(REPLICATES)
    # All replicates may agree by chance; the error is still up to the weight of one point.
    floor = abs(mean) / (n_points * (REPLICATES + 1))
    return float(mean), float(max(error, floor)), method, n_points * REPLICATES
