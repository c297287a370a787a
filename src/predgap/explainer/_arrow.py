"""Answers as Arrow arrays: pa.array would import pandas, which takes a worker longer than all else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from predgap._engine.results import METHODS

if TYPE_CHECKING:  # optional
    import pyarrow as pa


def as_words(how: NDArray[np.str_]) -> pa.Array:
    """Names of methods as an Arrow array; faster than pa.array, which converts each of them."""
    codes = (how[:, None] == METHODS).argmax(axis=1)
    return as_texts(METHODS.tolist()).take(as_arrow(codes))


def as_arrow(values: NDArray[Any]) -> pa.Array:
    """Numbers or truth values, (n,), as an Arrow array."""
    import pyarrow as pa

    if values.dtype == np.bool_:
        return pa.Array.from_buffers(
            pa.bool_(), len(values), [None, _buffer(np.packbits(values, bitorder="little"))]
        )
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, _buffer(values)])


def as_texts(words: Sequence[str]) -> pa.Array:
    """Texts as an Arrow array."""
    import pyarrow as pa

    encoded = [word.encode() for word in words]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(words), _buffer(ends), pa.py_buffer(b"".join(encoded)))


def _buffer(values: NDArray[Any]) -> pa.Buffer:
    import pyarrow as pa

    return pa.py_buffer(np.ascontiguousarray(values))


def as_lists(rows: NDArray[Any]) -> pa.Array:
    """The rows of an array (n, k) as an Arrow array of n lists."""
    import pyarrow as pa

    n, k = rows.shape
    offsets = np.arange(0, n * k + 1, k, dtype=np.int32) if k else np.zeros(n + 1, dtype=np.int32)
    return pa.ListArray.from_arrays(as_arrow(offsets), as_arrow(rows.reshape(-1)))
