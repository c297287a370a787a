"""Questions about how noise spreads in the prediction: moments, and the parts of the variance."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from predgap import _core
from predgap._engine.accuracy import Accuracy
from predgap._engine.engine import Members, MomentArrays, ShareArrays
from predgap._engine.progress import Tell
from predgap._engine.questions import Computed
from predgap._typing import BoolArray, FloatArray, IndexArray
from predgap.errors import CostError


@dataclass(frozen=True, slots=True, eq=False)
class OutputMoments(Computed[MomentArrays]):
    """Mean changes and covariances of the outputs when a subset moves, or one subset per row."""

    masks: BoolArray  # (1 or n, d)
    jointly: bool  # with the covariances of outputs that have trees of their own, else NaN

    def of_rows(self, some: IndexArray) -> OutputMoments:
        masks = self.masks if len(self.masks) == 1 else self.masks[some]
        return replace(self, rows=self.rows[some], masks=masks)

    def answer(self, accuracy: Accuracy, tell: Tell = None) -> MomentArrays:
        ask = self.engine.joint_moments if self.jointly else self.engine.moments
        return ask(self.rows, self.masks, accuracy, tell)


@dataclass(frozen=True, slots=True, eq=False)
class VarianceShares(Computed[ShareArrays]):
    """Which share of the variance comes from each unit, when all of them move; NaN where nothing varies."""

    members: Members | None = None  # the features of each unit; None: each feature is one

    def of_rows(self, some: IndexArray) -> VarianceShares:
        return replace(self, rows=self.rows[some])

    def answer(self, accuracy: Accuracy, tell: Tell = None) -> ShareArrays:
        self._refuse_if_too_large()
        variance, *parts, bound, method = self.engine.sensitivity(self.rows, accuracy, tell, self.members)
        first, total, shapley, pairs = (_shares(part, variance) for part in parts)
        return variance, first, total, shapley, pairs, bound, method

    def _refuse_if_too_large(self) -> None:
        n, m = len(self.rows), self.engine.ensemble.n_features if self.members is None else len(self.members)
        if (size := 8.0 * n * m * m) > _core.MOST_BYTES:
            raise CostError(
                f"the interactions of {n:,} rows and {m:,} features need {size / 1e6:,.0f} MB; the limit is "
                f"{_core.MOST_BYTES / 1e6:,.0f} MB. Pass at most {_core.MOST_BYTES // (8 * m * m):,} rows "
                "at a time, or put features into groups"
            )


def _shares(part: FloatArray, variance: FloatArray) -> FloatArray:
    """Parts of variances (n,) as shares; NaN where the variance is 0."""
    whole = np.where(variance > 0, variance, np.nan).reshape(-1, *[1] * (part.ndim - 1))
    shares: FloatArray = part / whole
    return shares
