"""Converts the law of a numeric feature to the form of the kernels, if they can evaluate it.

The kernels know x' = x + δ with a normal or uniform δ, and laws that are the same for all x. Four additions
cover what is made from these: x may stay with some probability; x' >= t may mean x + δ >= another number,
which is how rounding and clipping look; x' may be kept in a range; and some values may not move.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from predgap._typing import FloatArray
from predgap.noise._added_laws import NormalLaw, UniformLaw
from predgap.noise._combined_laws import KeptLaw, MappedLaw, StayLaw, WithinLaw
from predgap.noise._laws import Law, StillLaw


@dataclass(frozen=True, slots=True, eq=False)
class KernelLaw:
    """A law at the thresholds (k,) of its feature."""

    kind: str  # a name of `_core.LAWS`; "table" if the kernels need its tails computed
    at: FloatArray  # (k,) x' >= t where x plus the law's number is at least this; may be infinite
    parameter: float = 0.0
    stays: float = 0.0  # P(x' = x) by staying
    moves: float = 1.0  # the rest
    low: float = -math.inf  # x' is not below this, or x if that is less
    high: float = math.inf  # x' is not above this, or x if that is more
    fixed: Law | None = None  # if it is "fixed": the law whose tails are the same for all x


def kernel_law(law: Law, thresholds: FloatArray) -> KernelLaw:
    """The form of a law for the kernels. Values that are `law.still` do not count: they do not move."""
    match law:
        case StillLaw():
            return KernelLaw("still", thresholds)
        case NormalLaw(scale):
            return KernelLaw("normal", thresholds, scale)
        case UniformLaw(half_width):
            return KernelLaw("uniform", thresholds, half_width)
        case StayLaw(inner, stays, moves):
            found = kernel_law(inner, thresholds)
            if found.kind in ("table", "still"):
                return found
            return replace(found, stays=stays + moves * found.stays, moves=moves * found.moves)
        case KeptLaw(inner):
            return kernel_law(inner, thresholds)
        case WithinLaw(inner, low, high):
            return replace(kernel_law(inner, thresholds), low=low, high=high)
        case MappedLaw(inner) if isinstance(inner, NormalLaw | UniformLaw | MappedLaw):
            found = kernel_law(inner, law.before(thresholds))
            if found.kind in ("normal", "uniform") and found.stays == 0:
                return found
    return KernelLaw("fixed", thresholds, fixed=law) if law.forgets else KernelLaw("table", thresholds)
