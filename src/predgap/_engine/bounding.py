"""Bounds of expected values that follow from the mean and the mean square of a change alone.

They hold for every distribution, so they need no samples: Cantelli's and Chebyshev's inequalities for the
probability of crossing a line, and |E D| <= E |D| <= sqrt(E D²) for sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from predgap import _core
from predgap._engine.accuracy import Accuracy
from predgap._engine.context import Context
from predgap._engine.kernels import Kernel, as_bytes
from predgap._typing import BoolArray, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class ChangeOfRow:
    """What is known of the change D of one row's outputs: each array is (n_outputs,)."""

    mean: FloatArray  # NaN if it is not known
    mean_error: float  # the mean, as a vector, is off by at most this
    least: FloatArray  # at most 0; D is never below this,
    most: FloatArray  # at least 0; nor above this
    variance: float  # the sum over outputs is at most this
    least_square: float  # E |D|², the sum over outputs, is at least this
    square: float  # and at most this


def change_of_row(
    kernel: Kernel, row: FloatArray, mask: BoolArray, accuracy: Accuracy, context: Context
) -> ChangeOfRow:
    """The change of a row (1, d) when the features of a mask (1, d) move."""
    asked, subset, context = kernel.rows(row, mask), as_bytes(mask), context.quiet()
    core = kernel.independent("bounds")  # features that move together have outcomes that can be listed
    least, most = np.moveaxis(core.change_range(asked, subset, context)[0][0], 1, 0)
    largest = float((np.maximum(-least, most) ** 2).sum())
    try:
        mean, covariance, bound, _ = (
            part[0] for part in core.moments(asked, subset, kernel.accuracy(accuracy), context)
        )
    except _core.TooCostly:
        return ChangeOfRow(np.full(len(least), np.nan), 0.0, least, most, largest, 0.0, largest)
    variance, error = float(np.trace(covariance)), float(bound)
    square = variance + float((mean**2).sum())
    mean_error = error / np.sqrt(square) if error > 0 else 0.0  # see `Moments`
    return ChangeOfRow(
        mean,
        mean_error,
        least,
        most,
        variance + error,
        max(0.0, square - error),
        min(largest, square + error),
    )


def crossing_bounds(change: ChangeOfRow, distance: float) -> tuple[float, float]:
    """Bounds of the probability that the only output of a row rises by `distance` or more, if that is above
    0, or falls by more than its size otherwise."""
    sign = 1.0 if distance > 0 else -1.0
    mean, away = sign * float(change.mean[0]), abs(distance)
    farthest = float(change.most[0]) if distance > 0 else -float(change.least[0])
    if farthest < away:
        return 0.0, 0.0
    lower, upper = 0.0, 1.0
    if away > 0:
        upper = min(upper, change.square / away**2)
    beyond = max(0.0, abs(mean - away) - change.mean_error) ** 2
    if beyond > 0:  # not if the mean is not known
        cantelli = change.variance / (change.variance + beyond)
        if mean < away:
            upper = min(upper, cantelli)
        else:
            lower = 1.0 - cantelli
    return min(lower, upper), upper


def size_bounds(change: ChangeOfRow) -> tuple[float, float]:
    """Bounds of E |D|, the expected Euclidean norm of the change."""
    size = float(np.sqrt((change.mean**2).sum())) - change.mean_error
    upper = float(np.sqrt(change.square))
    return (min(size, upper) if size > 0 else 0.0), upper
