"""How an answer is obtained: exact, within a proven error, with an error known from tests, or from samples.

An `Accuracy` is computed by the core, `Draws` are samples, and `Auto` chooses between them for each row.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from predgap import _core
from predgap._engine.results import Cost
from predgap._text import shown
from predgap._typing import FloatArray, IndexArray
from predgap.errors import PredgapError

if TYPE_CHECKING:  # they import this module
    from predgap._engine.kernels import Kernel
    from predgap._engine.questions import Question

Sequence = Literal["sobol", "halton", "random"]
"""The points of samples."""

SOBOL_DIMENSIONS: Final = 21201
"""The largest dimension of Sobol points, scipy.stats.qmc.Sobol.MAXDIM; a copy, as SciPy is slow to import."""

RTOL: Final = 1e-6
"""The default of `rtol`: the largest relative error of guaranteed answers."""

N_SAMPLES: Final = 16384
"""The default number of samples per row, for gaps and curves."""

AFFORDABLE: Final = 5000.0
"""Milliseconds per row that a guaranteed answer of `estimate` may take, else it is sampled."""

MOST_MILLISECONDS: Final = 1e3 * _core.MOST_SECONDS
"""A row that would take longer is refused."""

# Experiments gave the two numbers below: pruning skips terms that are smaller than `tolerance` times the
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


@dataclass(frozen=True, slots=True)
class Draws:
    """The options of sampling. Without a method it is chosen by the number of features that move."""

    method: Literal["mc", "qmc"] | None
    n_samples: int | None  # None for the default: `N_SAMPLES`, or 4096 for rankings
    rtol: float | None  # stop early at this relative standard error; None draws all
    seed: int
    sequence: Sequence = "sobol"

    def for_features(self, n: int) -> Literal["mc", "qmc"]:
        """The method, if n features move that the model splits on."""
        return self.method or sampler_for(n)


@dataclass(frozen=True, slots=True)
class Auto:
    """Each row by its own price, so that other rows never change its answer."""

    ladder: tuple[tuple[Accuracy, float], ...]  # an accuracy, and the most milliseconds that it may take
    otherwise: Draws

    def ways(self, question: Question[Any], kernel: Kernel) -> Iterator[Way]:
        """Yields each accuracy with the rows that it is affordable for, and the samples with the others.

        Features that move together are always exact.
        """
        if kernel.moves_together:
            yield EXACT, None
            return
        left = np.arange(len(question.rows))
        for accuracy, most in self.ladder:
            fits = question.at(left).prices(kernel, accuracy).within(most)
            if fits.any():
                yield accuracy, left[fits]
            left = left[~fits]
            if len(left) == 0:
                break
        if len(left) or len(question.rows) == 0:
            yield self.otherwise, left


How = Accuracy | Draws | Auto
Way = tuple[Accuracy | Draws, IndexArray | None]
"""How some rows are answered, and which; None: all."""


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """The expected cost of an answer, row by row."""

    method: NDArray[np.uint8]  # (n,) codes of `_core.METHODS`
    milliseconds: FloatArray  # (n,)
    megabytes: FloatArray  # (n,)

    def within(self, milliseconds: float = MOST_MILLISECONDS) -> NDArray[np.bool_]:
        """Which rows, (n,), take at most this long and are within the memory limit."""
        return (self.milliseconds <= milliseconds) & (self.megabytes <= _core.MOST_BYTES / 1e6)

    def mean(self) -> Cost:
        """The mean over the rows; "bounded" if one row is, and refused if one row is."""
        method = _core.METHODS[int(self.method.max())]
        refused = not bool(self.within().all())
        return Cost(method, float(self.milliseconds.mean()), float(self.megabytes.mean()), refused)


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


def sampler_for(n_used: int) -> Literal["mc", "qmc"]:
    """The method of sampling if `n_used` features are perturbed that the model splits on."""
    return "qmc" if n_used <= SOBOL_DIMENSIONS else "mc"
