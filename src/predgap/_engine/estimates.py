"""Gaps with what is known about their error, and how they were obtained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from predgap._typing import FloatArray, IndexArray

OfRows = TypeVar("OfRows")
"""A dataclass of arrays with one entry per row."""


@dataclass(frozen=True, slots=True, eq=False)
class GapEstimate:
    """Gaps, how far they may be off, and how they were obtained.

    All arrays have the shape of the answer: (n,) for a gap, PGI² or PGU² of each row, (n, k) for curves.

    Parameters
    ----------
    value : array of floats
    standard_error : array of floats
        0 for numbers that are proven. That of a pruned number was calibrated on many models. That of a
        sampled one comes from the samples: what happens less often than there are samples may not be seen at
        all. 0 ± 0 says that no sample changed the prediction, and a gap of rare, large changes has too
        small a standard error.
    error_bound : array of floats
        The exact value lies within `value` ± `error_bound`, up to rounding. 0 for exact numbers, often far
        too large for pruned ones, infinite for samples.
    method : array of text
        "exact"; "bounded" (terms were left out that provably do not matter); "pruned" (the same without
        proof); "mc" (random samples) or "qmc" (quasi-random ones).
    n_samples : array of integers
        Perturbed rows that the model was asked about.
    """

    value: FloatArray
    standard_error: FloatArray
    error_bound: FloatArray
    method: NDArray[np.str_]
    n_samples: NDArray[np.int64]


def estimate_without_samples(
    value: FloatArray, error_bound: FloatArray, method: NDArray[np.str_], standard_error: FloatArray
) -> GapEstimate:
    """Gaps (n,) or (n, k), with their methods; bounds are those of rows, (n,)."""
    to_the_right = (len(value),) + (1,) * (value.ndim - 1)
    return GapEstimate(
        value,
        standard_error,
        np.broadcast_to(error_bound.reshape(to_the_right), value.shape).copy(),
        method,
        np.zeros(value.shape, dtype=np.int64),
    )


def exact_estimate(value: FloatArray) -> GapEstimate:
    """Exact gaps, in the form of an estimate."""
    zeros, exact = np.zeros(len(value)), np.full(len(value), "exact")
    return estimate_without_samples(value, zeros, exact, np.zeros(value.shape))


def assembled(n_rows: int, parts: Sequence[tuple[IndexArray, OfRows]]) -> OfRows:
    """What is known of all rows, from what is known of some of them; each row is in one part.

    Examples
    --------
    >>> some, others = exact_estimate(np.array([1.0])), exact_estimate(np.array([2.0, 3.0]))
    >>> assembled(3, [(np.array([1]), some), (np.array([0, 2]), others)]).value
    array([2., 1., 3.])
    """
    first = parts[0][1]
    if len(parts) == 1:
        return first
    columns: dict[str, NDArray[Any]] = {}
    for name in (field.name for field in fields(first)):  # type: ignore[arg-type]
        arrays = [getattr(known, name) for _, known in parts]
        columns[name] = np.empty((n_rows, *arrays[0].shape[1:]), dtype=np.result_type(*arrays))
        for (rows, _), array in zip(parts, arrays, strict=True):
            columns[name][rows] = array
    return type(first)(**columns)
