"""What a question costs per row, and the refusal of one that costs too much."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from predgap import _core
from predgap._typing import FloatArray
from predgap.errors import CostError


@dataclass(frozen=True, slots=True)
class Cost:
    """What an answer is expected to take per row, on one thread.

    Parameters
    ----------
    method : "exact" or "bounded"
        How the answer would be obtained; "bounded" if that holds for some of the rows.
    milliseconds : float
    megabytes : float
        Memory while a row is worked on; as much for each thread.
    """

    method: str
    milliseconds: float
    megabytes: float


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """What kernels expect a question to take, row by row."""

    method: NDArray[np.uint8]  # (n,) codes of `_core.METHODS`
    milliseconds: FloatArray  # (n,)
    megabytes: FloatArray  # (n,)

    def within(self, milliseconds: float = 1e3 * _core.MOST_SECONDS) -> NDArray[np.bool_]:
        """Which rows may be asked about, (n,), and take no longer than this."""
        return (self.milliseconds <= milliseconds) & (self.megabytes <= _core.MOST_BYTES / 1e6)

    def mean(self) -> Cost:
        """The mean over the rows."""
        method = _core.METHODS[int(self.method.max())]
        return Cost(method, float(self.milliseconds.mean()), float(self.megabytes.mean()))


@contextmanager
def refusing(asked: str, instead: str) -> Iterator[None]:
    """Turn the kernels' refusal of a row into CostError: what was asked, and the call that works instead."""
    try:
        yield
    except _core.TooCostly as refused:
        row, milliseconds, megabytes = refused.args
        raise CostError(
            f"{asked}: row {row} would take about {milliseconds:,.0f} ms and {megabytes:,.0f} MB; the limits "
            f"per row are {1e3 * _core.MOST_SECONDS:,.0f} ms and {_core.MOST_BYTES / 1e6:,.0f} MB. "
            f"This works: {instead}"
        ) from None
