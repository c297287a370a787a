"""The cost of an answer per row, and `CostError` for rows that exceed the limits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predgap import _core
from predgap._tables import ShownAsTable
from predgap._typing import FloatArray
from predgap.errors import CostError


@dataclass(frozen=True, slots=True, repr=False)
class Cost(ShownAsTable):
    """The expected time and memory of an answer, per row; `Explainer.cost` returns it.

    Parameters
    ----------
    method : "exact" or "bounded"
        How the answer would be obtained; "bounded" if at least one of the rows would not be exact.
    milliseconds : float
        Time per row on one thread, the mean over the rows.
    megabytes : float
        Memory per row, the mean over the rows. Each thread needs as much.
    refused : bool, default=False
        Whether at least one of the rows would take more than two minutes or 1 GiB: the call would then raise
        `CostError`. Use `approximate`, a larger `rtol`, or fewer places (`rank(X, top=k)`).

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Uniform
    >>> tree = DecisionTreeRegressor().fit([[0], [1]], [1, 3])
    >>> cost = Explainer(tree, Uniform(1.0)).cost([0])
    >>> cost.method, cost.milliseconds < 50, cost.refused
    ('exact', True, False)
    """

    method: str
    milliseconds: float
    megabytes: float
    refused: bool = False

    def _table(self) -> tuple[list[str], list[list[Any]], str]:
        """The head, the row and the caption of a table."""
        head = ["method", "milliseconds", "megabytes", "refused"]
        row = [self.method, self.milliseconds, self.megabytes, "yes" if self.refused else "no"]
        return head, [row], "Expected cost of a row, on one thread"


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """The expected cost of an answer, row by row."""

    method: NDArray[np.uint8]  # (n,) codes of `_core.METHODS`
    milliseconds: FloatArray  # (n,)
    megabytes: FloatArray  # (n,)

    def within(self, milliseconds: float = 1e3 * _core.MOST_SECONDS) -> NDArray[np.bool_]:
        """Which rows, (n,), take at most this long and are within the memory limit."""
        return (self.milliseconds <= milliseconds) & (self.megabytes <= _core.MOST_BYTES / 1e6)

    def mean(self) -> Cost:
        """The mean over the rows; "bounded" if one row is, and refused if one row is."""
        method = _core.METHODS[int(self.method.max())]
        refused = not bool(self.within().all())
        return Cost(method, float(self.milliseconds.mean()), float(self.megabytes.mean()), refused)


@contextmanager
def refusing(asked: str, instead: str, hint: str = "") -> Iterator[None]:
    """A context in which a row that exceeds the limits raises CostError.

    Its message names the call `asked`, the cost, the limits, a `hint` at what costs less, and the call
    `instead` that works.
    """
    try:
        yield
    except _core.TooCostly as refused:
        row, milliseconds, megabytes = refused.args
        raise CostError(
            f"{asked}: row {row} would take about {milliseconds:,.0f} ms and {megabytes:,.0f} MB; the limits "
            f"per row are {1e3 * _core.MOST_SECONDS:,.0f} ms and {_core.MOST_BYTES / 1e6:,.0f} MB. "
            f"{hint}{' ' if hint else ''}This works: {instead}"
        ) from None
