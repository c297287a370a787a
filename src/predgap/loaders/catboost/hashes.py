"""The hashes of combinations of categories, and the categories that a model has counters of.

The hash of a combination is made of the hashes h of its categories and of the answers (0 or 1) to its other
questions, one after the other: hash <- m (hash + m h), modulo 2^64. The constant m is odd, so that one
category is known if the hash and all others are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from predgap.errors import LoaderError, UnsupportedModelError
from predgap.loaders.catboost.ctrs import Combination, Ctr
from predgap.loaders.catboost.model import CategoricalFeature, FloatFeature, shown_combination

__all__ = ["combined", "found_at", "known_hashes"]

_MULTIPLIER: Final = 0x4906BA494954CB65
_MAX_COMBINATIONS: Final = 1 << 22  # of categories and answers, of one CTR
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

    With them, whatever has counters is a combination of known categories. UnsupportedModelError, which names
    the features, if there are too many combinations, or categories that are not known.
    """
    found = [feature.hashes.astype(np.int64) for feature in categorical]
    tables = {id(ctr.counters): (ctr.of, ctr.counters.hashes) for ctr in ctrs}
    for of, _ in tables.values():
        for number, value in of.exact:
            found[number] = np.union1d(found[number], [value])
    for of, hashes in sorted(tables.values(), key=lambda table: len(table[0].categories)):
        _check_size(of, found, shown_combination(of, floats, categorical))
        rest = hashes[~np.isin(hashes, combined(_all_parts(of, found)))]
        for i, number in enumerate(of.categories):
            if len(rest):
                found[number] = np.union1d(found[number], _solved(of, i, rest, found))
                _check_size(of, found, shown_combination(of, floats, categorical))
                rest = rest[~np.isin(rest, combined(_all_parts(of, found)))]
        if len(rest):
            raise _not_found(of, shown_combination(of, floats, categorical))
    return found


def _check_size(of: Combination, known: Sequence[Hashes], shown: str) -> None:
    n = 2 ** len(of.borders + of.exact) * math.prod(max(2, len(known[k]) + 1) for k in of.categories)
    if n > _MAX_COMBINATIONS and not of.is_single:
        raise UnsupportedModelError(
            f"the model splits on statistics (CTRs) of the combination {shown}, which has {n:,} combinations "
            f"of categories, predgap takes up to {_MAX_COMBINATIONS:,}; train with max_ctr_complexity=1"
        )


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


def _not_found(of: Combination, shown: str) -> LoaderError:
    if of.is_single:
        return LoaderError("the counters of a CTR are not those of categories; the file is damaged")
    return UnsupportedModelError(
        f"the model splits on statistics (CTRs) of the combination {shown}, and does not tell of which "
        "categories they are; train with max_ctr_complexity=1"
    )
