"""Reads the CTRs of CatBoost's binary files: what they are from the model, their counters from after it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from predgap._typing import FloatArray
from predgap.errors import LoaderError
from predgap.loaders._formats.documents import single
from predgap.loaders._formats.flatbuffers import Buffer, Table
from predgap.loaders.catboost.ctrs import KINDS, NO_HASH, Combination, Counters, Ctr, counters
from predgap.loaders.catboost.model import CategoricalFeature, FloatFeature, combination, no_counters

__all__ = ["read"]

# The fields of each table, in their order, as CatBoost 1.2 writes them
_CTR_FEATURE: Final = ("Ctr", "Borders")
_CTR: Final = ("Base", "TargetBorderIdx", "PriorNum", "PriorDenom", "Shift", "Scale")
_BASE: Final = ("FeatureCombination", "CtrType", "TargetBorderClassifierIdx")
_COMBINATION: Final = ("CatFeatures", "FloatSplits", "OneHotSplits")
_COUNTERS: Final = ("ModelCtrBase", "IndexHashRaw", "CTRBlob", "CounterDenominator", "TargetClassesCount")

_SIZE, _BYTE = struct.Struct("<I"), struct.Struct("<b")
_INT, _SINGLE = struct.Struct("<i"), struct.Struct("<f")
_INTS, _SINGLES, _BYTES = np.dtype("<i4"), np.dtype("<f4"), np.dtype("u1")
_BUCKETS: Final = np.dtype([("hash", "<u8"), ("row", "<u4")])  # of a hash table
_MEANS: Final = np.dtype([("sum", "<f4"), ("count", "<i4")])
_FLOAT_SPLITS: Final = np.dtype([("feature", "<i4"), ("border", "<f4")])
_ONE_HOT_SPLITS: Final = np.dtype([("feature", "<i4"), ("hash", "<i4")])

_FIRST_MEAN, _FIRST_FREQUENCY = KINDS.index("BinarizedTargetMeanValue"), KINDS.index("Counter")


class _Base(NamedTuple):
    """What CTRs with the same counters have in common."""

    of: Combination
    kind: int
    classifier: int  # how labels were made classes


def read(
    trees: Table, after: memoryview, floats: Sequence[FloatFeature], categorical: Sequence[CategoricalFeature]
) -> tuple[list[Ctr], int, str]:
    """The CTRs of a model; how many bytes come after the counters; and what is new in them, if anything.

    Parameters
    ----------
    trees : Table
        The model.
    after : memoryview
        The bytes after it. They are not read if the model has no CTRs.
    floats, categorical : sequences of features
        Those of the model, already checked.
    """
    described = [*_described(trees)]
    if not described:
        return [], len(after), ""
    for base, _, _ in described:
        combination(*base.of, floats, categorical)
    tables, rest, news = _tables(after)
    found = []
    for base, ctr, borders in described:
        if base not in tables:
            raise no_counters(base.of, floats, categorical)
        found.append(
            Ctr(
                kind=KINDS[base.kind],
                of=base.of,
                target=ctr.number("TargetBorderIdx", _INT, 0),
                prior=(ctr.number("PriorNum", _SINGLE, 0.0), ctr.number("PriorDenom", _SINGLE, 1.0)),
                shift=ctr.number("Shift", _SINGLE, 0.0),
                scale=ctr.number("Scale", _SINGLE, 1.0),
                borders=borders,
                counters=tables[base],
            )
        )
    return found, rest, news


def _described(trees: Table) -> Iterator[tuple[_Base, Table, FloatArray]]:
    """What CTRs have in common, what else they are, and their borders."""
    known: dict[int | None, _Base] = {}  # by place: CatBoost stores what several CTRs have in common once
    for feature in trees.tables("CtrFeatures", _CTR_FEATURE):
        ctr = feature.table("Ctr", _CTR)
        at = ctr.target("Base")
        base = known[at] if at in known else known.setdefault(at, _base(ctr.table("Base", _BASE)))
        yield base, ctr, single(feature.numbers("Borders", _SINGLES))


def _base(table: Table) -> _Base:
    parts = table.table("FeatureCombination", _COMBINATION)
    kind = table.number("CtrType", _BYTE, 0)
    if not 0 <= kind < len(KINDS):
        raise LoaderError(f"a CTR has the kind {kind}, CatBoost's have 0 to {len(KINDS) - 1}")
    return _Base(
        of=Combination(
            categories=tuple(parts.numbers("CatFeatures", _INTS).tolist()),
            borders=tuple(parts.numbers("FloatSplits", _FLOAT_SPLITS).tolist()),
            exact=tuple(parts.numbers("OneHotSplits", _ONE_HOT_SPLITS).tolist()),
        ),
        kind=kind,
        classifier=table.number("TargetBorderClassifierIdx", _INT, 0),
    )


# ---- counters ----


def _tables(data: memoryview) -> tuple[dict[_Base, Counters], int, str]:
    """The counters, each in a FlatBuffer of its own after its size; the bytes after them; what is new."""
    found: dict[_Base, Counters] = {}
    if not len(data):  # the model was trained without them
        return found, 0, ""
    n, at, news = _size(data, 0), _SIZE.size, ""
    for _ in range(n):
        begin = at + _SIZE.size
        at = begin + _size(data, at)
        if at > len(data):
            raise _stops()
        buffer = Buffer(data[begin:at])
        table = buffer.root(_COUNTERS)
        base = _base(table.table("ModelCtrBase", _BASE))
        if base in found:
            raise LoaderError("the model has the counters of a CTR twice; the file is damaged")
        found[base] = _counters(table, base.kind)
        news = news or buffer.unknown
    return found, len(data) - at, news


def _size(data: memoryview, at: int) -> int:
    if at + _SIZE.size > len(data):
        raise _stops()
    return int(_SIZE.unpack_from(data, at)[0])


def _stops() -> LoaderError:
    return LoaderError("the file stops in the middle of the counters of CTRs; save or copy it again")


def _counters(table: Table, kind: int) -> Counters:
    buckets, counts = _of_type(table, "IndexHashRaw", _BUCKETS), _counts(table, kind)
    buckets = buckets[buckets["hash"] != NO_HASH]
    if (buckets["row"] >= len(counts)).any():
        raise LoaderError("a category has no counters; the file is damaged")
    denominator = table.number("CounterDenominator", _INT, 0)
    return counters(buckets["hash"].astype(np.uint64), counts[buckets["row"]], denominator, KINDS[kind])


def _counts(table: Table, kind: int) -> FloatArray:
    """The counts of each row of the table, (n, k)."""
    if _FIRST_MEAN <= kind < _FIRST_FREQUENCY:
        means = _of_type(table, "CTRBlob", _MEANS)
        return np.stack([means["sum"], means["count"]], axis=1).astype(np.float64)
    found = _of_type(table, "CTRBlob", _INTS).astype(np.float64)
    width = 1 if kind >= _FIRST_FREQUENCY else table.number("TargetClassesCount", _INT, 0)
    if width < 1 or len(found) % width:
        raise LoaderError(f"{len(found)} counts for {width} classes; the file is damaged")
    return found.reshape(-1, width)


def _of_type(table: Table, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    found = table.numbers(name, _BYTES)
    if len(found) % dtype.itemsize:
        raise LoaderError(f"{name} has {len(found)} bytes, no multiple of {dtype.itemsize}")
    return np.frombuffer(found, dtype=dtype)
