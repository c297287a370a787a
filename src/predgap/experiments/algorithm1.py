"""The paper's own algorithm, with its printed slips mended, for comparison."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from predgap.errors import PredgapError
from predgap.explainer import Explainer
from predgap.laws import NormalLaw


def algorithm1_gap(
    explainer: Explainer, X: NDArray[np.float64], masks: NDArray[np.bool_], *, float32: bool
) -> NDArray[np.float64]:
    """Gaps (n,) by Algorithm 1, on one thread; all arithmetic in float32 (as in the paper) or in float64.

    Parameters
    ----------
    explainer : Explainer
        With normal noise on every feature.
    X : (n, d) array
    masks : (n, d) array
        The subset of each row.
    float32 : bool
    """
    engine = explainer._engine
    scales = [law.scale for law in engine.laws if isinstance(law, NormalLaw)]
    if len(scales) < explainer.ensemble.n_features:
        raise PredgapError(
            f"{explainer.ensemble.n_features - len(scales)} of {explainer.ensemble.n_features} features have "
            "noise that is not normal; expected Normal noise, the only one that Algorithm 1 knows"
        )
    rows = explainer.ensemble.cast(X)
    return engine.kernels.algorithm1(
        rows, np.array(scales), np.ascontiguousarray(masks).view(np.uint8), float32
    )
