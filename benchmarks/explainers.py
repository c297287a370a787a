"""The explainers of a model by their tolerance, under noise of 0.3 standard deviations of each column."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
from trained import Trained

import predgap

SIGMA = 0.3


class Explainers:
    def __init__(self, case: Trained) -> None:
        self.case = case
        self.noise = noise_of(case)
        self.within = cache(self._within)
        self.about = cache(self._about)

    def _within(self, rtol: float) -> predgap.Explainer:
        """The one whose answers are guaranteed to this tolerance."""
        return predgap.Explainer(self.case.model, self.noise, rtol=rtol, n_jobs=1)

    def _about(self, rtol: float, method: str = "auto") -> Any:
        """The one whose answers only aim at it."""
        return self.within(1e-6).approximate(rtol=rtol, method=method)


def noise_of(case: Trained) -> predgap.Noise:
    """Numbers move by 0.3 of their column's deviation; a category is drawn anew from its column."""
    if case.standardised:
        return predgap.Normal(SIGMA)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some pixels of the digits are the same everywhere
        normal = predgap.Normal.relative(case.X, SIGMA)
    if not case.categorical:
        return normal
    drawn = {j: predgap.Marginal(case.X[is_known(case, j)]) for j in case.categorical}
    return predgap.PerFeature(drawn, default=normal)


def is_known(case: Trained, feature: int) -> np.ndarray:
    """Which rows have a category that the model knows; LightGBM leaves out the rarest ones."""
    levels = predgap.load(case.model).categories[feature]
    return np.isin(case.X[:, feature], levels.codes)
