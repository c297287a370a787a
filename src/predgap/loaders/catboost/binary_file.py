"""Reads CatBoost's own binary files (.cbm): a mark, a size, and a FlatBuffer with the model.

After these come the counters of CTRs, and parts for kinds of features that predgap does not support. CatBoost
need not be installed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from predgap._typing import BoolArray, FloatArray
from predgap.errors import LoaderError, UnsupportedModelError
from predgap.loaders._formats.flatbuffers import FlatBuffer, FlatTable
from predgap.loaders._formats.json import parse, single
from predgap.loaders.catboost import model as shared
from predgap.loaders.catboost.categories import known_hashes
from predgap.loaders.catboost.model import (
    KINDS,
    NO_HASH,
    CatBoostModel,
    CategoricalFeature,
    Combination,
    Counters,
    Ctr,
    FloatFeature,
    Nodes,
    combination,
    counters,
    no_counters,
)

__all__ = ["MARK", "read"]

MARK: Final = b"CBM1"

# The fields of each table, in their order, as CatBoost 1.2 writes them
_CORE: Final = ("FormatVersion", "ModelTrees", "InfoMap", "ModelPartIds")
_TREES: Final = (
    *("ApproxDimension", "TreeSplits", "TreeSizes", "TreeStartOffsets"),
    *("CatFeatures", "FloatFeatures", "OneHotFeatures", "CtrFeatures", "LeafValues", "LeafWeights"),
    *("NonSymmetricStepNodes", "NonSymmetricNodeIdToLeafId", "TextFeatures", "EstimatedFeatures"),
    *("Scale", "Bias", "MultiBias", "RepackedBins", "EmbeddingFeatures"),
)
_FLOAT_FEATURE: Final = ("HasNans", "Index", "FlatIndex", "Borders", "FeatureId", "NanValueTreatment")
_CATEGORICAL_FEATURE: Final = ("Index", "FlatIndex", "FeatureId", "UsedInModel")
_ONE_HOT_FEATURE: Final = ("Index", "Values", "StringValues")
_KEY_VALUE: Final = ("Key", "Value")

_FORMAT: Final = "FlabuffersModel_v1"
_PARTS: Final = {"static_provider_v1", "text_process_v2\0", "embed_process_1\0"}
_TREATMENTS: Final = ("AsIs", "AsFalse", "AsTrue")

_HEAD: Final = struct.Struct(f"<{len(MARK)}xI")  # the mark, and the size of the FlatBuffer
_BYTE, _INT, _DOUBLE = struct.Struct("<b"), struct.Struct("<i"), struct.Struct("<d")
_INTS, _UNSIGNED = np.dtype("<i4"), np.dtype("<u4")
_SINGLES, _DOUBLES = np.dtype("<f4"), np.dtype("<f8")
_WAYS: Final = np.dtype(("<u2", (2,)))  # left and right

_MAX_VALUES: Final = 1 << 23  # of leaves; each takes 8 bytes of the file, about 200 of memory while loading
_MAX_LEVELS: Final = 10_000
_MAX_PARAMS: Final = 1 << 20  # characters; CatBoost writes a few thousand


def read(data: bytes, *, known_only: bool) -> CatBoostModel:
    """The model in the bytes of a file. `known_only`: refuse parts that CatBoost 1.2 does not write."""
    buffer, after = _core(data)
    core = buffer.root(_CORE)
    version, parts = core.text("FormatVersion"), [*core.texts("ModelPartIds")]
    if version != _FORMAT:
        raise shared.unknown(f"format {version}")
    trees = core.table("ModelTrees", _TREES)
    _refuse(trees)
    floats, categorical = _float_features(trees), _categorical_features(trees)
    shared.check_features(floats, categorical)
    ctrs, rest, news = _read_ctrs(trees, after, floats, categorical)
    asked = shared.questions(floats, categorical, ctrs)
    leaves = _leaves(trees)
    nodes = _nodes(trees, leaves)
    shared.check_places(nodes.place, asked)
    info = _info(core)
    model = CatBoostModel(
        floats=floats,
        categorical=categorical,
        ctrs=ctrs,
        asked=asked,
        hashes=known_hashes(floats, categorical, ctrs),
        texts={},  # only JSON has them
        nodes=nodes,
        scale=trees.number("Scale", _DOUBLE, 1.0),
        bias=_bias(trees, leaves.shape[1]),
        source=shared.source_of(info),
        classes=shared.classes_of(info, leaves.shape[1]),
        link=shared.link_of(info),
    )
    news = buffer.unknown or news or next((part for part in parts if part not in _PARTS), "")
    if known_only and news:
        raise shared.unknown(news)
    if rest and (not parts or (ctrs and len(parts) == 1)):
        raise LoaderError(f"the model ends {rest} bytes before the file does; save or copy it again")
    return model


def _core(data: bytes) -> tuple[FlatBuffer, memoryview]:
    """The FlatBuffer with the model, and the bytes after it."""
    (size,) = _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (0,)
    if len(data) < _HEAD.size + size:
        raise LoaderError("the file stops in the middle of the model; save or copy it again")
    whole = memoryview(data)[_HEAD.size :]
    return FlatBuffer(whole[:size]), whole[size:]


def _refuse(trees: FlatTable) -> None:
    """UnsupportedModelError for features that are neither numbers nor categories."""
    for kind in ("text", "embedding", "estimated"):
        if len(trees.numbers(f"{kind.title()}Features", _UNSIGNED)):
            raise UnsupportedModelError(f"the model has {kind} features, {shared.AS_NUMBERS} {kind}_features")


def _info(core: FlatTable) -> dict[str, Any]:
    """The metadata that predgap uses."""
    found: dict[str, Any] = {}
    for entry in core.tables("InfoMap", _KEY_VALUE):
        key = entry.text("Key")
        if key == "catboost_version_info":
            found[key] = entry.text("Value")
        elif key in ("params", "class_params"):
            found[key] = _params(entry.text("Value"))
    return found


def _params(text: str) -> Any:
    """The training options, for information only; None if they cannot be read."""
    try:
        return parse(text.encode()) if len(text) <= _MAX_PARAMS else None
    except LoaderError:
        return None


# ---- features ----


def _float_features(trees: FlatTable) -> list[FloatFeature]:
    found = []
    for feature in trees.tables("FloatFeatures", _FLOAT_FEATURE):
        treatment = feature.number("NanValueTreatment", _BYTE, 0)
        named = _TREATMENTS[treatment] if 0 <= treatment < len(_TREATMENTS) else treatment
        found.append(
            FloatFeature(
                number=feature.number("Index", _INT, -1),
                column=feature.number("FlatIndex", _INT, -1),
                name=feature.text("FeatureId"),
                borders=single(feature.numbers("Borders", _SINGLES)),
                missing_left=shared.missing_goes_left(named, feature.number("HasNans", _BYTE, 0) != 0),
            )
        )
    return found


def _categorical_features(trees: FlatTable) -> list[CategoricalFeature]:
    hashes = _hashes(trees)
    found = [
        CategoricalFeature(
            number=feature.number("Index", _INT, -1),
            column=feature.number("FlatIndex", _INT, -1),
            name=feature.text("FeatureId"),
            hashes=hashes.get(i, np.empty(0)),
        )
        for i, feature in enumerate(trees.tables("CatFeatures", _CATEGORICAL_FEATURE))
    ]
    if not hashes.keys() <= {*range(len(found))}:
        raise LoaderError(
            "the model splits on a categorical feature that does not exist; the file is damaged"
        )
    return found


def _hashes(trees: FlatTable) -> dict[int, FloatArray]:
    """The hashes of categories in splits, by the index of the feature among the categorical ones."""
    found: dict[int, FloatArray] = {}
    last = -1
    for feature in trees.tables("OneHotFeatures", _ONE_HOT_FEATURE):
        if len(feature.numbers("StringValues", _UNSIGNED)):
            raise shared.unknown("StringValues")
        number = feature.number("Index", _INT, -1)
        if number <= last:  # their order is that of the questions
            raise LoaderError("the categorical features of splits do not ascend; the file is damaged")
        found[number] = feature.numbers("Values", _INTS).astype(np.float64)
        last = number
    return found


# ---- trees ----


def _leaves(trees: FlatTable) -> FloatArray:
    """The values of all leaves, (n_leaves, n_outputs)."""
    values, width = trees.numbers("LeafValues", _DOUBLES), trees.number("ApproxDimension", _INT, 0)
    if not len(values):  # CatBoost itself cannot predict without trees
        raise LoaderError("the model has no trees; is it fitted?")
    if len(values) > _MAX_VALUES:
        raise LoaderError(
            f"the leaves have {len(values):,} values, predgap loads up to {_MAX_VALUES:,}; train fewer or "
            "shallower trees"
        )
    if width < 1 or len(values) % width:
        raise LoaderError(f"{len(values)} values of leaves for {width} outputs; the file is damaged")
    return values.reshape(-1, width)


def _bias(trees: FlatTable, width: int) -> FloatArray:
    """The bias of each output; old files have a single number."""
    several, one = trees.numbers("MultiBias", _DOUBLES), trees.number("Bias", _DOUBLE, 0.0)
    if not len(several) and (width == 1 or one == 0.0):
        return np.full(width, one)
    if len(several) != width:
        raise LoaderError(
            f"a bias of {max(1, len(several))} numbers for {width} outputs; the file is damaged"
        )
    return several


def _nodes(trees: FlatTable, leaves: FloatArray) -> Nodes:
    size, splits = trees.numbers("TreeSizes", _INTS), trees.numbers("TreeSplits", _INTS)
    ways = trees.numbers("NonSymmetricStepNodes", _WAYS)
    leaf = trees.numbers("NonSymmetricNodeIdToLeafId", _UNSIGNED)
    begin = np.cumsum(size, dtype=np.int64) - size
    if not np.array_equal(trees.numbers("TreeStartOffsets", _INTS), begin):
        raise LoaderError("the trees do not follow one another; the file is damaged")
    if not len(ways) and not len(leaf):
        return shared.symmetric(size, splits, leaves)
    if (size < 1).any() or not size.sum(dtype=np.int64) == len(ways) == len(leaf) == len(splits):
        raise LoaderError("the trees have other numbers of nodes than they say; the file is damaged")
    return _grown(begin, ways, splits, leaf, leaves)


def _grown(
    begin: NDArray[np.int64],
    ways: NDArray[np.uint16],
    splits: NDArray[np.int32],
    leaf: NDArray[np.uint32],
    leaves: FloatArray,
) -> Nodes:
    """Trees of any shape.

    A node has two steps, left and right: the child is so many nodes further on. A step of 0 ends in the
    node's own leaf. `leaf` is, for each node, the index of that leaf's first value among all values.
    """
    goes_on = ways > 0
    inner, ends = goes_on[:, 0] | goes_on[:, 1], ~(goes_on[:, 0] & goes_on[:, 1])
    width = leaves.shape[1]
    used = leaf[ends]
    if len(used) != len(leaves) or (np.sort(used) != np.arange(0, leaves.size, width)).any():
        raise LoaderError("the nodes do not have one leaf each; the file is damaged")
    child = np.arange(len(ways))[:, None] + ways
    _check_ways(begin, child, goes_on)
    nodes = _level_by_level(begin, child, goes_on, inner)
    tree = np.searchsorted(begin, nodes >> 1, side="right")
    nodes = nodes[np.argsort(tree, kind="stable")]
    at = nodes >> 1
    splitting = (nodes & 1 == 0) & inner[at]
    return shared.grown(
        size=np.bincount(tree - 1, minlength=len(begin)).astype(np.int32),
        inner=splitting,
        place=splits[at[splitting]],
        value=leaves[leaf[at[~splitting]] // width],
    )


def _check_ways(begin: NDArray[np.int64], child: NDArray[np.int64], goes_on: BoolArray) -> None:
    """LoaderError unless each node but the roots has one parent, in the same tree."""
    end = np.append(begin[1:], len(child))
    expected = np.ones(len(child), dtype=np.int64)
    expected[begin] = 0
    inside = (child < np.repeat(end, end - begin)[:, None]).all()
    if not inside or (np.bincount(child[goes_on], minlength=len(child)) != expected).any():
        raise LoaderError("the nodes of a tree are not connected as a tree; the file is damaged")


def _level_by_level(
    begin: NDArray[np.int64], child: NDArray[np.int64], goes_on: BoolArray, inner: BoolArray
) -> NDArray[np.int64]:
    """All nodes in breadth-first order: 2 i for node i, 2 i + 1 for the leaf of an inner node i."""
    level, found = 2 * begin, list[NDArray[np.int64]]()
    while len(level):
        if len(found) == _MAX_LEVELS:
            raise LoaderError(f"a tree has more than {_MAX_LEVELS:,} levels; the file is damaged")
        found.append(level)
        at = level[level & 1 == 0] >> 1
        at = at[inner[at]]
        level = (2 * child[at] + ~goes_on[at]).ravel()
    return np.concatenate(found)


# ------------------------------------------------------------------------------------------------------------
# The model says what its CTRs are, and their counters come after it.

# The fields of each table, in their order, as CatBoost 1.2 writes them
_CTR_FEATURE: Final = ("Ctr", "Borders")
_CTR: Final = ("Base", "TargetBorderIdx", "PriorNum", "PriorDenom", "Shift", "Scale")
_BASE: Final = ("FeatureCombination", "CtrType", "TargetBorderClassifierIdx")
_COMBINATION: Final = ("CatFeatures", "FloatSplits", "OneHotSplits")
_COUNTERS: Final = ("ModelCtrBase", "IndexHashRaw", "CTRBlob", "CounterDenominator", "TargetClassesCount")

_SIZE, _SINGLE = struct.Struct("<I"), struct.Struct("<f")
_BYTES = np.dtype("u1")
_BUCKETS: Final = np.dtype([("hash", "<u8"), ("row", "<u4")])  # of a hash table
_MEANS: Final = np.dtype([("sum", "<f4"), ("count", "<i4")])
_FLOAT_SPLITS: Final = np.dtype([("feature", "<i4"), ("border", "<f4")])
_ONE_HOT_SPLITS: Final = np.dtype([("feature", "<i4"), ("hash", "<i4")])

_FIRST_MEAN, _FIRST_FREQUENCY = KINDS.index("BinarizedTargetMeanValue"), KINDS.index("Counter")


class _Base(NamedTuple):
    """The fields that CTRs with the same counters have in common."""

    of: Combination
    kind: int
    classifier: int  # how labels were made classes


def _read_ctrs(
    trees: FlatTable,
    after: memoryview,
    floats: Sequence[FloatFeature],
    categorical: Sequence[CategoricalFeature],
) -> tuple[list[Ctr], int, str]:
    """The CTRs of a model; how many bytes come after the counters; and what is new in them, if anything.

    Parameters
    ----------
    trees : FlatTable
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


def _described(trees: FlatTable) -> Iterator[tuple[_Base, FlatTable, FloatArray]]:
    """Yields for each CTR what it has in common with others, what else it is, and its borders."""
    known: dict[int | None, _Base] = {}  # by place: CatBoost stores what several CTRs have in common once
    for feature in trees.tables("CtrFeatures", _CTR_FEATURE):
        ctr = feature.table("Ctr", _CTR)
        at = ctr.target("Base")
        base = known[at] if at in known else known.setdefault(at, _base(ctr.table("Base", _BASE)))
        yield base, ctr, single(feature.numbers("Borders", _SINGLES))


def _base(table: FlatTable) -> _Base:
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
        buffer = FlatBuffer(data[begin:at])
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


def _counters(table: FlatTable, kind: int) -> Counters:
    buckets, counts = _of_type(table, "IndexHashRaw", _BUCKETS), _counts(table, kind)
    buckets = buckets[buckets["hash"] != NO_HASH]
    if (buckets["row"] >= len(counts)).any():
        raise LoaderError("a category has no counters; the file is damaged")
    denominator = table.number("CounterDenominator", _INT, 0)
    return counters(buckets["hash"].astype(np.uint64), counts[buckets["row"]], denominator, KINDS[kind])


def _counts(table: FlatTable, kind: int) -> FloatArray:
    """The counts of each row of the table, (n, k)."""
    if _FIRST_MEAN <= kind < _FIRST_FREQUENCY:
        means = _of_type(table, "CTRBlob", _MEANS)
        return np.stack([means["sum"], means["count"]], axis=1).astype(np.float64)
    found = _of_type(table, "CTRBlob", _INTS).astype(np.float64)
    width = 1 if kind >= _FIRST_FREQUENCY else table.number("TargetClassesCount", _INT, 0)
    if width < 1 or len(found) % width:
        raise LoaderError(f"{len(found)} counts for {width} classes; the file is damaged")
    return found.reshape(-1, width)


def _of_type(table: FlatTable, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    found = table.numbers(name, _BYTES)
    if len(found) % dtype.itemsize:
        raise LoaderError(f"{name} has {len(found)} bytes, no multiple of {dtype.itemsize}")
    return np.frombuffer(found, dtype=dtype)
