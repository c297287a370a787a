"""The paper's Algorithm 1, and gaps at given sample points, for the reproduction of the paper.

It is all that the reproduction uses beside the public names. To explain a model nobody needs it:
`Explainer.gap` is faster than Algorithm 1, and `Explainer.estimate` draws its own points.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from predgap import _core
from predgap._engine.context import Call, Context
from predgap._engine.sampling import sums_of_changes
from predgap._typing import BoolArray, FloatArray
from predgap.errors import PredgapError
from predgap.explainer import Explainer
from predgap.noise.added import NormalLaw

__all__ = ["algorithm1_gap", "instruction_set", "sums_of_squares"]


def instruction_set() -> str:
    """The instruction set that the kernels use, e.g. "avx2"; times of one do not hold for another."""
    return _core.instruction_set()


def sums_of_squares(
    explainer: Explainer, row: FloatArray, mask: BoolArray, points: FloatArray, ends: NDArray[np.int64]
) -> FloatArray:
    """Sums of (f(x') - f(x))² over consecutive parts of given sample points, (s,).

    Parameters
    ----------
    explainer : Explainer
        Of a model with one output.
    row : (1, d) array
        A row from `ensemble.cast`.
    mask : (d,) booleans
        The k features that are perturbed.
    points : (m, k) array
        Samples in the unit cube, with one coordinate per perturbed feature.
    ends : (s,) integers
        Where each part of the points ends.

    Examples
    --------
    A step by 1 of a feature with the threshold 0.5, at x = 0, with one feature that moves by N(0, 1). Of the
    points 0.2, 0.6 and 0.8 only the last has x' above the threshold.

    >>> from predgap import Ensemble, Explainer, Normal
    >>> step = Ensemble(
    ...     root=[0], feature=[0, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1], right=[2, -1, -1],
    ...     default_left=[True, False, False], value=[[0.0], [0.0], [1.0]], target=[0], bias=[0.0],
    ...     n_features=1)
    >>> points, mask = np.array([[0.2], [0.6], [0.8]]), np.array([True])
    >>> sums_of_squares(Explainer(step, Normal(1.0)), np.zeros((1, 1)), mask, points, np.array([2, 3]))
    array([0., 1.])
    """
    context = Context(Call("sums_of_squares", instead="fewer points"))
    kernel = explainer.explained.kernel
    sums: FloatArray = sums_of_changes(kernel, row, mask, points[None], ends, 0, context)[0, :, 1]
    return sums


def algorithm1_gap(explainer: Explainer, X: FloatArray, masks: BoolArray, *, float32: bool) -> FloatArray:
    """Gaps (n,) by the paper's Algorithm 1, with its misprints corrected, on one thread.

    Parameters
    ----------
    explainer : Explainer
        With normal noise on every feature.
    X : (n, d) array
    masks : (n, d) booleans
        The subset of each row.
    float32 : bool
        All arithmetic in float32, as in the paper, or in float64. In float32 thresholds are rounded back to
        those that the model states; in float64 they are those of all other gaps: where the rounding of a row
        crosses the model's.

    Examples
    --------
    >>> from predgap import Ensemble, Explainer, Normal
    >>> step = Ensemble(
    ...     root=[0], feature=[0, -1, -1], threshold=[0.0, 0, 0], left=[1, -1, -1], right=[2, -1, -1],
    ...     default_left=[True, False, False], value=[[0.0], [0.0], [1.0]], target=[0], bias=[0.0],
    ...     n_features=1)
    >>> explainer, x, mask = Explainer(step, Normal(1.0)), np.zeros((1, 1)), np.ones((1, 1), dtype=bool)
    >>> algorithm1_gap(explainer, x, mask, float32=False), explainer.gap(x, mask)
    (array([0.5]), array([0.5]))
    """
    kernel = explainer.explained.kernel
    scale = {q: law.scale for q, law in kernel.laws.items() if isinstance(law, NormalLaw)}
    if len(scale) < len(kernel.laws):
        raise PredgapError(
            f"{len(kernel.laws) - len(scale)} of {len(kernel.laws)} features have noise that is not normal; "
            "expected Normal noise, the only one that Algorithm 1 supports"
        )
    scales = np.array([scale.get(q, 1.0) for q in range(explainer.ensemble.n_features)])
    rows, subsets = explainer.ensemble.cast(X), np.ascontiguousarray(masks).view(np.uint8)
    return _core.algorithm1(kernel.model, rows, scales, subsets, float32)
