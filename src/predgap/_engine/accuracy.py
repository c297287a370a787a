"""What is promised of a number: that it is exact, within a proven tolerance, or off by a calibrated error."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any, Final, Literal

from predgap.errors import PredgapError

RTOL: Final = 1e-6
"""The relative error that is guaranteed unless another one is asked for."""

# How the two numbers below were calibrated: pruning leaves out terms that are smaller than `tolerance` times
# the row's scale. The error that this makes was measured against exact answers, in multiples of `tolerance`:
# it was at most 65 on boosted models, with a median of 6 to 20, and 20 to 140 on unpruned random forests. So
# 150 tolerances are more than all errors that were seen, and a third of that serves as the standard error.
_TOLERANCES_IN_RTOL: Final = 150.0
_TOLERANCES_IN_STANDARD_ERROR: Final = 50.0


@dataclass(frozen=True, slots=True)
class Accuracy:
    """What a kernel shall promise.

    The tolerance of "bounded" is relative to the answer, that of "pruned" to the row's scale, and not proven.
    """

    kind: Literal["exact", "bounded", "pruned"]
    tolerance: float = 0.0

    @property
    def rtol(self) -> float:
        """The relative error that is meant."""
        return self.tolerance * (_TOLERANCES_IN_RTOL if self.kind == "pruned" else 1.0)

    @property
    def standard_error(self) -> float:
        """That of a pruned number, relative to it; 0 for those that are proven."""
        return _TOLERANCES_IN_STANDARD_ERROR * self.tolerance if self.kind == "pruned" else 0.0


EXACT: Final = Accuracy("exact")


def guaranteed(rtol: float) -> Accuracy:
    """A proven relative error of `rtol`; 0 is exact.

    Examples
    --------
    >>> guaranteed(1e-6).kind, guaranteed(0.0).kind
    ('bounded', 'exact')
    """
    return Accuracy("bounded", rtol) if rtol > 0 else EXACT


def pruned(rtol: float) -> Accuracy:
    """A relative error of about `rtol` at most, without proof."""
    return Accuracy("pruned", rtol / _TOLERANCES_IN_RTOL)


def checked_rtol(rtol: Any, *, zero: bool) -> float:
    """A relative tolerance as a float; PredgapError unless it is finite, and positive or, if allowed, 0.

    Examples
    --------
    >>> checked_rtol(0, zero=True)
    0.0
    """
    is_number = isinstance(rtol, numbers.Real) and not isinstance(rtol, bool)
    if is_number and 0 <= rtol < float("inf") and (zero or rtol > 0):
        return float(rtol)
    expected = "a finite number that is not negative" if zero else "a positive finite number"
    advice = "; 0 asks for exact answers" if zero else ""
    raise PredgapError(f"rtol is {rtol!r}, expected {expected}, e.g. 1e-3{advice}")
