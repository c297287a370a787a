"""How accurate an answer must be: exact, with a proven error bound, or with an error known from tests."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any, Final, Literal

from predgap._text import shown
from predgap.errors import PredgapError

RTOL: Final = 1e-6
"""The default of `rtol`: the largest relative error of guaranteed answers."""

# How the two numbers below were calibrated: pruning skips terms that are smaller than `tolerance` times the
# row's scale. The resulting relative error was measured against exact answers, in multiples of `tolerance`:
# at most 65 on boosted models (median 6 to 20), 20 to 140 on unpruned random forests. So 150 tolerances are
# more than all measured errors, and a third of that is used as the standard error.
_TOLERANCES_IN_RTOL: Final = 150.0
_TOLERANCES_IN_STANDARD_ERROR: Final = 50.0


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The accuracy that is asked of a kernel.

    For "bounded", `tolerance` is the proven error relative to the answer. For "pruned", it is the size of the
    skipped terms relative to the row's scale, and no error is proven.
    """

    kind: Literal["exact", "bounded", "pruned"]
    tolerance: float = 0.0

    @property
    def rtol(self) -> float:
        """The relative error that this accuracy stands for."""
        return self.tolerance * (_TOLERANCES_IN_RTOL if self.kind == "pruned" else 1.0)

    @property
    def standard_error(self) -> float:
        """The standard error of a pruned answer, relative to the answer; 0 if the error is proven."""
        return _TOLERANCES_IN_STANDARD_ERROR * self.tolerance if self.kind == "pruned" else 0.0


EXACT: Final = Accuracy("exact")


def guaranteed(rtol: float) -> Accuracy:
    """The accuracy with a proven relative error of at most `rtol`; 0 is exact.

    Examples
    --------
    >>> guaranteed(1e-6).kind, guaranteed(0.0).kind
    ('bounded', 'exact')
    """
    return Accuracy("bounded", rtol) if rtol > 0 else EXACT


def pruned(rtol: float) -> Accuracy:
    """The accuracy whose relative error was at most about `rtol` in experiments; it is not proven."""
    return Accuracy("pruned", rtol / _TOLERANCES_IN_RTOL)


def checked_rtol(rtol: Any, *, zero: bool) -> float:
    """`rtol` as a float; PredgapError unless it is between 0 and 1, or 0 if `zero` allows that.

    An error as large as the answer would say nothing.

    Examples
    --------
    >>> checked_rtol(0, zero=True)
    0.0
    """
    is_number = isinstance(rtol, numbers.Real) and not isinstance(rtol, bool)
    if is_number and 0 <= rtol < 1 and (zero or rtol > 0):
        return float(rtol)
    expected = "a number from 0 to below 1" if zero else "a number between 0 and 1"
    advice = "; 0 asks for exact answers" if zero else ""
    raise PredgapError(f"rtol is {shown(rtol)}, expected {expected}, e.g. 1e-3{advice}")
