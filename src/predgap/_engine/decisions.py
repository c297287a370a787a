"""Expected values of functions of the change of a prediction: does it cross a line, how large is it?

Gaps follow from row terms because they are squares. Other functions need the distribution of f(x'). Where the
cells that the features can be in have few combinations, or one tree only changes, all outcomes are listed,
and the expected value is their sum. Otherwise the function is averaged over quasi-random samples, whose
spread over replicates gives a standard error. Bounds follow from the mean and the mean square of the change:
Cantelli's and Chebyshev's inequalities for the probability of crossing a line, and |E D| <= E |D| <= sqrt(E
D²) for sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from predgap import _core
from predgap._engine.accuracy import Accuracy, Sequence, sampler_for
from predgap._engine.context import Context
from predgap._engine.kernels import Kernel, as_bytes
from predgap._engine.results import Bracket
from predgap._engine.sampling import REPLICATES, Budget, Replicates, balanced, checked_seed
from predgap._model.ensemble import Ensemble
from predgap._model.links import ROUNDED, Link
from predgap._text import shown
from predgap._typing import BoolArray, FloatArray, IndexArray
from predgap.errors import PredgapError

Space = Literal["margin", "probability"]

SAMPLES: Final = 16384
"""The default number of samples per row."""

ROUNDING: Final = 1e-12
"""Predictions that differ by less than this share of the sizes that are added up are the same."""

Function = Callable[[int, FloatArray], FloatArray]
"""It gives the value of each change, (m,), from the number of a row among those that are asked about and the
changes of its outputs (n_outputs, m)."""

# ---- what is known of a row's change ---------------------------------------------------------------------


def listed_outcomes(
    kernel: Kernel, row: FloatArray, mask: BoolArray, context: Context
) -> tuple[FloatArray, FloatArray] | None:
    """All values of f(x') - f(x) of one row (1, d) if the features of a mask (1, d) move: probabilities (m,)
    and changes (n_outputs, m). None if there are too many to list."""
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
    """The mean over samples of a function of the changes (n_outputs, m) of one row (1, d), which gives (m,),
    if the features of a mask (d,) move: the mean, its standard error, the method, the number of samples."""
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


Bounds = Callable[[int, ChangeOfRow], tuple[float, float]]
"""Bounds of an expected value, from the number of a row and what is known of its change."""

# ---- predictions before and after a change ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """What is compared before and after a change: margins, or the probabilities that follow from them.

    `crossing`, `size` and `square` give a function of the change, and bounds of its expected value.
    """

    margins: FloatArray  # (n, k) of the outputs that the kernel changes
    link: Link | None  # None: margins
    column: IndexArray | None  # (n,) the output that counts, of several; None: all

    def difference(self, row: int, change: FloatArray) -> FloatArray:
        """How much the outputs that count change, (their number, m), for changes of margins (k, m)."""
        if self.link is None:
            return self._counted(row, change)
        return self._counted(row, self.link.differences(self.margins[row][:, None], change))

    def before(self, row: int) -> float:
        """The explained output of the unperturbed row."""
        now = self.margins[row][:, None]
        return float(self._counted(row, now if self.link is None else self.link.probabilities(now))[0, 0])

    def margin_of(self, output: float) -> float:
        """The margin of an output that is compared; infinite for probabilities that are never reached."""
        if self.link is None or self.link.kind == "identity":
            return output
        with np.errstate(divide="ignore"):
            share = np.clip(output, 0.0, 1.0)
            return float((np.log(share) - np.log1p(-share)) / self.link.scale)

    def slopes(self, row: int, change: ChangeOfRow) -> tuple[float, float]:
        """The smallest and the largest size of a difference, relative to the change of margins."""
        if self.link is None:
            return 1.0, 1.0
        now, column = self.margins[row], None if self.column is None else int(self.column[row])
        return self.link.slopes(now + change.least, now + change.most, column)

    def reached(self, row: int, change: ChangeOfRow) -> tuple[FloatArray, FloatArray]:
        """The smallest and the largest value of the outputs that count, (their number, 1)."""
        low, high = self.margins[row] + change.least, self.margins[row] + change.most
        if self.link is not None:
            low, high = self.link.ranges(low, high)
        return self._counted(row, low[:, None]), self._counted(row, high[:, None])

    def largest(self, row: int, change: ChangeOfRow) -> float:
        """The largest size of a difference, whatever the distribution of the change."""
        if self.link is None or self.link.kind == "identity":
            return np.inf
        if self.link.kind == "logistic":
            ends = np.stack([change.least, change.most], axis=1)
            farthest = np.abs(self.difference(row, ends)).max(axis=1)
            return float(np.sqrt((farthest**2).sum()))
        now = self._counted(row, self.link.probabilities(self.margins[row][:, None]))
        low, high = self.reached(row, change)
        size = float(np.sqrt(((np.maximum(high - now, now - low) + ROUNDED) ** 2).sum()))
        if self.column is None:  # at most all to the least likely class
            return min(size, float(np.sqrt((now**2).sum() - 2.0 * now.min() + 1.0)) + ROUNDED)
        return size

    def _counted(self, row: int, outputs: FloatArray) -> FloatArray:
        return outputs if self.column is None else outputs[[self.column[row]]]

    def crossing(self, line: float) -> tuple[Function, Bounds]:
        """Whether the prediction crosses a line. Predictions that differ by rounding only are equal."""

        def crosses(row: int, change: FloatArray) -> FloatArray:
            now, by = self.before(row), self.difference(row, change)[0]
            slack = ROUNDING * (abs(now) + abs(line) + np.abs(by).max(initial=0.0))
            is_above = now >= line - slack
            crossed: FloatArray = ((now + by >= line - slack) != is_above).astype(np.float64)
            return crossed

        def bounds(row: int, change: ChangeOfRow) -> tuple[float, float]:
            if self.column is not None:
                return 0.0, self.largest_crossing(row, change, line)
            now, margin = self.before(row), float(self.margins[row, 0])
            least_slack = ROUNDING * (abs(now) + abs(line))
            largest = float(change.most[0] - change.least[0]) if self.link is None else 1.0
            # twice what `crosses` can use, so that sums in another order are within it
            low, high = (self.margin_of(at) for at in (line - 2.0 * (least_slack + ROUNDING * largest), line))
            if now >= line - least_slack:
                near, far = min(high - margin, 0.0), low - margin
            elif margin < low:
                near, far = low - margin, high - margin
            else:
                return 0.0, 1.0  # the size of the change decides on which side the row is
            return crossing_bounds(change, far)[0], crossing_bounds(change, near)[1]

        return crosses, bounds

    def size(self) -> tuple[Function, Bounds]:
        """The size of the difference, the Euclidean norm if several outputs count."""

        def size(row: int, change: FloatArray) -> FloatArray:
            by = self.difference(row, change)
            sizes: FloatArray = np.abs(by[0]) if len(by) == 1 else np.sqrt((by**2).sum(axis=0))
            return sizes

        def bounds(row: int, change: ChangeOfRow) -> tuple[float, float]:
            least, most = size_bounds(change)
            low, high = self.slopes(row, change)
            return low * least, min(high * most, self.largest(row, change))

        return size, bounds

    def square(self) -> tuple[Function, Bounds]:
        """The square of the difference, summed over the outputs that count."""

        def square(row: int, change: FloatArray) -> FloatArray:
            squares: FloatArray = (self.difference(row, change) ** 2).sum(axis=0)
            return squares

        def bounds(row: int, change: ChangeOfRow) -> tuple[float, float]:
            low, high = self.slopes(row, change)
            return low**2 * change.least_square, min(high**2 * change.square, self.largest(row, change) ** 2)

        return square, bounds

    def largest_crossing(self, row: int, change: ChangeOfRow, line: float) -> float:
        """At most how likely the probability of one of several classes crosses a line."""
        away, (low, high) = abs(line - self.before(row)), self.reached(row, change)
        slack = 4.0 * ROUNDING  # of probabilities
        if high[0, 0] < line - slack or low[0, 0] > line + slack:
            return 0.0
        return min(1.0, self.slopes(row, change)[1] ** 2 * change.square / away**2 if away > 0 else 1.0)


def own_space(model: Ensemble) -> Space:
    """The space of predictions; PredgapError if they are neither margins nor known probabilities."""
    if model.link is not None and model.link.gives_probabilities:
        return "probability"
    if model.link is None and model.class_names is None:
        return "margin"
    raise PredgapError(
        f"a model of {model.source} predicts something else than the sum of its trees, and predgap does not "
        "know how it follows; so pass space='margin' and a threshold of that sum, which load(model).predict "
        "gives"
    )


def read_threshold(threshold: Any, space: str) -> float:
    is_number = isinstance(threshold, int | float | np.number) and not isinstance(threshold, bool)
    if not is_number or not np.isfinite(threshold) or (space == "probability" and not 0 <= threshold <= 1):
        expected = "a probability from 0 to 1" if space == "probability" else "a finite number"
        advice = "; space='margin' takes thresholds of the margin" if space == "probability" else ""
        raise PredgapError(f"threshold is {shown(threshold)}, expected {expected}{advice}")
    return float(threshold)


def as_probabilities(found: Bracket) -> Bracket:
    """The same with what rounding brought above 1 brought back, and errors of at least one sample's weight:
    an event that no sample hit may be as likely."""
    value, lower, upper = (np.minimum(each, 1.0) for each in (found.value, found.lower, found.upper))
    weight = np.divide(1.0, found.n_samples, out=np.zeros(len(value)), where=found.n_samples > 0)
    error = np.minimum(np.maximum(found.standard_error, weight), upper - lower)
    return replace(found, value=value, lower=lower, upper=upper, standard_error=error)
