"""The class `Bracket`: numbers between proven bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.frames import repeated_labels, to_native
from predgap._tables import ShownAsTable
from predgap._text import count
from predgap._typing import FloatArray

_SHOWN: Final = 5  # rows in a table


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bracket(ShownAsTable):
    """A number for each row, bounds that it is proven to lie between, and how it was obtained.

    `Explainer.flip`, `Explainer.absolute_gap` and `Explainer.probability_gap` return it. All arrays are (n,).

    Parameters
    ----------
    value : array of floats
        The number: exact, or an estimate from samples that lies between the bounds.
    lower, upper : arrays of floats
        The true number lies between them, up to rounding. Equal to `value` where it is exact.
    standard_error : array of floats
        Of an estimate; 0 where the value is exact. Too small if the value comes from rare, large changes that
        few samples hit; the bounds hold all the same.
    method : array of text
        "exact": all outcomes were listed, or the bounds are equal. "qmc", "mc": quasi-random, random samples
        between proven bounds.
    n_samples : array of integers
        The number of samples; 0 where the value is exact.
    index : row labels, or None
        Those of X, if it had any.
    backend : "pandas", "polars", "pyarrow" or None
        The library whose frame `to_frame` returns; None takes the first one that is installed.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Uniform
    >>> tree = DecisionTreeRegressor().fit([[0], [1]], [1, 3])
    >>> Explainer(tree, Uniform(1.0)).flip([[0.0]], 2.0)
    Bracket of 1 row (exact)
    row  value  lower  upper  standard error  method  samples
      0   0.25   0.25   0.25               0  exact         0
    """

    value: FloatArray
    lower: FloatArray
    upper: FloatArray
    standard_error: FloatArray
    method: NDArray[np.str_]
    n_samples: NDArray[np.int64]
    index: Any = None
    backend: str | None = None

    def to_frame(self) -> Any:
        """The rows as a frame.

        Returns
        -------
        frame
            With the columns `row` (its label), `value`, `lower`, `upper`, `standard_error`, `method` and
            `n_samples`.
        """
        labels = range(len(self.value)) if self.index is None else self.index
        columns: dict[str, Any] = {"row": repeated_labels(labels, 1, self.backend)}
        for name in ("value", "lower", "upper", "standard_error", "method", "n_samples"):
            columns[name] = getattr(self, name)
        return to_native(columns, self.backend)

    def _table(self) -> tuple[list[str], list[list[Any]], str]:
        n = len(self.value)
        head = ["row", "value", "lower", "upper", "standard error", "method", "samples"]
        columns = (self.value, self.lower, self.upper, self.standard_error, self.method, self.n_samples)
        labels = range(n) if self.index is None else self.index
        rows = [[labels[r], *(column[r] for column in columns)] for r in range(min(n, _SHOWN))]
        how = f" ({', '.join(np.unique(self.method))})" if n else ""
        first = f"; the first {_SHOWN} rows" if n > _SHOWN else ""
        return head, rows, f"Bracket of {count(n, 'row')}{how}{first}"
