"""The hashes of combinations of categories, and the categories that a model has counters of.

The hash of a combination is made of the hashes h of its categories and of the answers (0 or 1) to its other
questions, one after the other: hash <- m (hash + m h), modulo 2^64. The constant m is odd, so that one
category is known if the hash and all others are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from predgap.errors import LoaderError, UnsupportedModelError
from predgap.loaders.catboost.ctrs import Combination, Ctr
from predgap.loaders.catboost.model import CategoricalFeature, FloatFeature, shown_combination

__all__ = ["MAX_CELLS", "combined", "found_at", "known_hashes", "too_many"]

MAX_CELLS: Final = 1 << 24
"""So many combinations of categories of one CTR are told apart."""

_MULTIPLIER: Final = 0x4906BA494954CB65
_MAX_WORK: Final = 1 << 28  # combinations x counters when categories are looked for
_STEP: Final = 1 << 20  # of these at the same time
_BITS: Final = np.arange(2)

Hashes = NDArray[np.int64]


def combined(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.uint64]:
    """The hashes of combinations; the parts are hashes, signed, or answers, and are broadcast."""
    found = np.zeros(1, dtype=np.uint64)
    for part in parts:
        found = np.uint64(_MULTIPLIER) * (found + np.uint64(_MULTIPLIER) * part.astype(np.uint64))
    return found


def found_at(values: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> NDArray[np.intp]:
    """The index of each value among the hashes, -1 if it is not there."""
    if not len(hashes):
        return np.full(values.shape, -1)
    order = np.argsort(hashes)
    at = order[np.minimum(np.searchsorted(hashes, values, sorter=order), len(hashes) - 1)]
    return np.where(hashes[at] == values, at, -1)


def known_hashes(
    floats: Sequence[FloatFeature], categorical: Sequence[CategoricalFeature], ctrs: Sequence[Ctr]
) -> list[Hashes]:
    """The hashes, signed, of all categories that the model knows, for each categorical feature.

    With them, whatever has counters is a combination of known categories.
    """
    found = [feature.hashes.astype(np.int64) for feature in categorical]
    tables = {id(ctr.counters): (ctr.of, ctr.counters.hashes) for ctr in ctrs}
    for of, _ in tables.values():
        for number, value in of.exact:
            found[number] = np.union1d(found[number], [value])
    for of, hashes in sorted(tables.values(), key=lambda table: len(table[0].categories)):
        rest = hashes
        for i, number in enumerate((*of.categories, -1)):
            n_cells = np.prod([2.0 ** len(of.borders + of.exact), *(len(found[k]) for k in of.categories)])
            if n_cells > MAX_CELLS:
                raise too_many(of, int(n_cells), floats, categorical)
            rest = rest[~np.isin(rest, combined(_all_parts(of, found)))]
            if not len(rest):
                break
            if number < 0:
                raise _not_found(of, floats, categorical)
            found[number] = np.union1d(found[number], _solved(of, i, rest, found))
    return found


def _all_parts(of: Combination, known: Sequence[Hashes]) -> list[Hashes]:
    """The parts of all combinations of known categories and answers, one axis each."""
    parts = [*(known[number] for number in of.categories), *[_BITS] * len(of.borders + of.exact)]
    return [part.reshape(-1, *[1] * (len(parts) - 1 - i)) for i, part in enumerate(parts)]


def _solved(of: Combination, i: int, hashes: NDArray[np.uint64], known: Sequence[Hashes]) -> Hashes:
    """The categories of the i-th categorical feature that make one of these hashes with known others."""
    parts = _all_parts(of, known)
    factor = pow(_MULTIPLIER, -(len(parts) - i + 1), 2**64)
    parts[i] = np.zeros((1,) * parts[i].ndim, dtype=np.int64)
    others = combined(parts).reshape(-1)
    if len(others) * len(hashes) > _MAX_WORK:
        return np.empty(0, dtype=np.int64)
    step = max(1, _STEP // max(1, len(others)))
    found = [np.empty(0, dtype=np.int64)]
    for begin in range(0, len(hashes), step):
        tried = ((hashes[begin : begin + step, None] - others) * np.uint64(factor)).view(np.int64)
        found.append(tried[tried == tried.astype(np.int32)])
    return np.unique(np.concatenate(found))


def _not_found(
    of: Combination, floats: Sequence[FloatFeature], categorical: Sequence[CategoricalFeature]
) -> LoaderError:
    if of.is_single:
        return LoaderError("the counters of a CTR are not those of categories; the file is damaged")
    return UnsupportedModelError(
        f"the model splits on statistics (CTRs) of the combination {shown_combination(of, floats, categorical)}"
        ", and does not tell of which categories they are; train with max_ctr_complexity=1"
    )


def too_many(
    of: Combination, n: int, floats: Sequence[FloatFeature], categorical: Sequence[CategoricalFeature]
) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"the model splits on statistics (CTRs) of the combination {shown_combination(of, floats, categorical)}"
        f", which has {n:,} combinations of categories, predgap takes up to {MAX_CELLS:,}; train with "
        "max_ctr_complexity=1"
    )
