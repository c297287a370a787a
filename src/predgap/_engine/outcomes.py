"""Expected values of any function of the changed prediction, such as the probability that it crosses a line.

Gaps follow from row terms because they are squares. Other functions need the distribution of f(x'). Where the
cells that the features can be in have few combinations, or one tree only changes, all outcomes are listed,
and the expected value is their sum. Otherwise the function is averaged over quasi-random samples, whose
spread over replicates gives a standard error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from predgap._engine.accuracy import Accuracy
from predgap._engine.choosing import sampler_for
from predgap._engine.points import REPLICATES, Replicates, Sequence, balanced, checked_seed
from predgap._engine.progress import Tell
from predgap._engine.questions import Computed
from predgap._engine.sampling import Budget
from predgap._typing import BoolArray, FloatArray, IndexArray

SAMPLES: Final = 16384
"""The default number of samples per row."""

Function = Callable[[int, FloatArray], FloatArray]
"""Of the number of a row among those that are asked about, and the changes of its outputs (n_outputs, m): the
value of each change, (m,)."""


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedValues:
    """Expected values of rows, and how they were obtained; all arrays are (n,)."""

    value: FloatArray
    standard_error: FloatArray  # 0 where all outcomes were listed
    method: NDArray[np.str_]  # "exact", "qmc" or "mc"
    n_samples: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Expectations(Computed[ExpectedValues]):
    """The expected value of a function when the features of a subset, or of one subset per row, move."""

    masks: BoolArray  # (1 or n, d)
    function: Function
    numbers: IndexArray  # (n,) of the rows, for the function
    n_samples: int = SAMPLES
    seed: int = 0

    def __post_init__(self) -> None:
        Budget(self.n_samples)  # what is not valid is an error also where nothing is sampled
        checked_seed(self.seed)

    def of_rows(self, some: IndexArray) -> Expectations:
        masks = self.masks if len(self.masks) == 1 else self.masks[some]
        return replace(self, rows=self.rows[some], masks=masks, numbers=self.numbers[some])

    def answer(self, accuracy: Accuracy, tell: Tell = None) -> ExpectedValues:
        n = len(self.rows)
        found = ExpectedValues(np.zeros(n), np.zeros(n), np.full(n, "exact"), np.zeros(n, dtype=np.int64))
        for r in range(n):
            found.value[r], found.standard_error[r], found.method[r], found.n_samples[r] = self._row(r)
            if tell is not None:
                tell(r + 1)
        return found

    def _row(self, r: int) -> tuple[float, float, str, int]:
        row, mask = self.rows[r : r + 1], self.masks[r if len(self.masks) > 1 else 0][None]
        listed = self.engine.outcomes(row, mask)
        if listed is None:
            return self._sampled(row, mask[0], int(self.numbers[r]))
        probability, change = listed
        return float((probability * self.function(int(self.numbers[r]), change)).sum()), 0.0, "exact", 0

    def _sampled(self, row: FloatArray, mask: BoolArray, number: int) -> tuple[float, float, str, int]:
        asked = mask & self.engine.used
        k = int(asked.sum())
        n_points = balanced(Budget(self.n_samples).n_samples) // REPLICATES
        method = sampler_for(k)
        sequence: Sequence = "sobol" if method == "qmc" else "random"
        replicates = Replicates(sequence, k, checked_seed(self.seed))
        sums = np.zeros(REPLICATES)
        for begin, end in replicates.blocks(0, n_points):
            points = replicates.points(begin, end)[:, :, :k]
            change = self.engine.sample_changes(row, asked, points.reshape(1, REPLICATES * (end - begin), k))[
                0
            ]
            sums += self.function(number, change).reshape(REPLICATES, -1).sum(axis=1)
        means = sums / n_points
        value, error = means.mean(), means.std(ddof=1) / np.sqrt(REPLICATES)
        # All replicates may agree by chance; the error is still up to the weight of one point.
        floor = abs(value) / (n_points * (REPLICATES + 1))
        return float(value), float(max(error, floor)), method, n_points * REPLICATES
