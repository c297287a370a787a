"""The paper's own algorithm, with its printed slips mended, for comparison."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from predgap import _core
from predgap.errors import PredgapError
from predgap.explainer import Explainer
from predgap.noise._laws import NormalLaw


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
    scale = {q: law.scale for q, law in engine.laws.items() if isinstance(law, NormalLaw)}
    if len(scale) < len(engine.laws):
        raise PredgapError(
            f"{len(engine.laws) - len(scale)} of {len(engine.laws)} features have noise that is not normal; "
            "expected Normal noise, the only one that Algorithm 1 knows"
        )
    scales = np.array([scale.get(q, 1.0) for q in range(explainer.ensemble.n_features)])
    rows, subsets = explainer.ensemble.cast(X), np.ascontiguousarray(masks).view(np.uint8)
    return _core.algorithm1(engine.kernels, rows, scales, subsets, float32)
