"""The class `GapEstimate`: gaps, their errors, and how they were obtained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from predgap._tables import ShownAsTable
from predgap._text import count
from predgap._typing import FloatArray, IndexArray

OfRows = TypeVar("OfRows")
"""A dataclass or a tuple of arrays with one entry per row."""


_SHOWN: Final = 5  # rows and places in a table


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GapEstimate(ShownAsTable):
    """Gaps (or PGI², PGU²), how far they may be off, and how they were obtained.

    `Explainer.estimate` and the methods of `Explainer.approximate` return it. All its arrays have the same
    shape: (n,) if there is one number per row, (n, k) for curves.

    Parameters
    ----------
    value : array of floats
        The gaps.
    standard_error : array of floats
        0 if the error is proven ("exact", "bounded"). For "pruned" it was calibrated on many models. For "mc"
        and "qmc" it is estimated from the samples, and too small if the gap comes from rare, large changes
        that few samples hit. If both value and standard error are 0, no sample changed the prediction: draw
        more.
    error_bound : array of floats
        The exact value is proven to lie within `value` ± `error_bound`, up to rounding. 0 for "exact", often
        far larger than the true error for "pruned", infinite for "mc" and "qmc".
    method : array of text
        "exact": computed completely. "bounded": terms were skipped whose total effect is proven to be small.
        "pruned": small terms were skipped, without a proof. "mc", "qmc": random, quasi-random samples.
    n_samples : array of integers
        The number of perturbed rows at which the model was evaluated; 0 unless the method is "mc" or "qmc".

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Uniform
    >>> tree = DecisionTreeRegressor().fit([[0], [1]], [1, 3])
    >>> found = Explainer(tree, Uniform(1.0)).estimate([[0.0]], [0], "bounded", rtol=1e-3)
    >>> found.value.round(6), bool(found.error_bound[0] <= 1e-3), found.standard_error
    (array([1.]), True, array([0.]))
    >>> found
    GapEstimate of 1 row (exact)
    row  value  standard error  error bound  method  samples
      0      1               0            0  exact         0
    """

    value: FloatArray
    standard_error: FloatArray
    error_bound: FloatArray
    method: NDArray[np.str_]
    n_samples: NDArray[np.int64]

    def _table(self) -> tuple[list[str], list[list[Any]], str]:
        """The head, the rows and the caption of a table with the first rows and places; errors of a curve are
        the largest of its row."""
        n, *places = self.value.shape
        few = [f"place {place + 1}" for place in range(min(_SHOWN, places[0]))] if places else ["value"]
        more = ["…"] if places and places[0] > _SHOWN else []
        head = ["row", *few, *more, "standard error", "error bound", "method", "samples"]
        rows = [
            [
                r,
                *np.atleast_1d(self.value[r])[: len(few)],
                *more,
                np.max(self.standard_error[r], initial=0.0),
                np.max(self.error_bound[r], initial=0.0),
                " and ".join(np.unique(self.method[r])),
                np.max(self.n_samples[r], initial=0),
            ]
            for r in range(min(n, _SHOWN))
        ]
        curves = f" and {count(places[0], 'place')}" if places else ""
        how = f" ({', '.join(np.unique(self.method))})" if n else ""
        first = f"; the first {_SHOWN} rows" if n > _SHOWN else ""
        return head, rows, f"GapEstimate of {count(n, 'row')}{curves}{how}{first}"


def estimate_without_samples(
    value: FloatArray, error_bound: FloatArray, method: NDArray[np.str_], standard_error: FloatArray
) -> GapEstimate:
    """Gaps (n,) or (n, k) that were not sampled; `error_bound` has one entry per row, (n,)."""
    to_the_right = (len(value),) + (1,) * (value.ndim - 1)
    return GapEstimate(
        value,
        standard_error,
        np.broadcast_to(error_bound.reshape(to_the_right), value.shape).copy(),
        method,
        np.zeros(value.shape, dtype=np.int64),
    )


def exact_estimate(value: FloatArray) -> GapEstimate:
    """A `GapEstimate` of exact gaps."""
    zeros, exact = np.zeros(len(value)), np.full(len(value), "exact")
    return estimate_without_samples(value, zeros, exact, np.zeros(value.shape))


def assembled(n_rows: int, parts: Sequence[tuple[IndexArray, OfRows]]) -> OfRows:
    """Joins the results of parts of the rows; each part is the row numbers and their results.

    Each row must be in exactly one part.

    Examples
    --------
    >>> some, others = exact_estimate(np.array([1.0])), exact_estimate(np.array([2.0, 3.0]))
    >>> assembled(3, [(np.array([1]), some), (np.array([0, 2]), others)]).value
    array([2., 1., 3.])
    """
    first = parts[0][1]
    if len(parts) == 1:
        return first
    columns = []
    for arrays in zip(*(_arrays(known) for _, known in parts), strict=True):
        whole = np.empty((n_rows, *arrays[0].shape[1:]), dtype=np.result_type(*arrays))
        for (rows, _), array in zip(parts, arrays, strict=True):
            whole[rows] = array
        columns.append(whole)
    return cast(OfRows, tuple(columns)) if isinstance(first, tuple) else type(first)(*columns)


def _arrays(found: Any) -> tuple[NDArray[Any], ...]:
    return found if isinstance(found, tuple) else tuple(getattr(found, field.name) for field in fields(found))
