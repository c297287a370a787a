"""What explainers hold inside, for tests of it."""

from __future__ import annotations

from typing import Any

from predgap import Explainer
from predgap._engine.kernels import Kernel, NoiseOfModel


def kernel_of(explainer: Explainer, output: int | None = None) -> Kernel:
    """The kernel that answers, or that of one output, where rows have their own."""
    return explainer.explained._kernel(output)


def n_kernels_of(explainer: Explainer) -> int:
    """How many kernels the explainer has built."""
    return len(explainer.explained._kernels)


def noise_of(explainer: Explainer) -> NoiseOfModel:
    """What the explainer has read off its noise."""
    moves: Any = explainer.explained._moves
    assert isinstance(moves, NoiseOfModel)
    return moves
