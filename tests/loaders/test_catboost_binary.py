"""CatBoost's .cbm files, read without CatBoost: real ones, some made here, and what is none."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import catboost as cb
import numpy as np
import pytest

from catboost_models import (
    CLASSES,
    CatBoostFileTests,
    as_binary,
    assert_agrees,
    assert_same,
    margins_of,
    save,
    sound,
    train,
)
from conformance import Bomb, Damaged, mutated_bytes
from loading import memory_below, refused, rows_around_thresholds
from predgap import _files
from predgap.errors import LoaderError, UnsupportedModelError
from predgap.loaders import catboost as loader
from predgap.loaders import load
from predgap.loaders._formats import flatbuffers
from predgap.loaders._formats.flatbuffers import FlatBuffer
from predgap.loaders.catboost import binary_file
from predgap.loaders.catboost.categories import hash_of

# ---- real files ----


def test_metadata_may_be_anything(tmp_path: Path) -> None:
    model = train()
    for params in ("", "{", "[]", "null", '{"loss_function": 3}', "[" * 10_000, "ä\0", "0," * 1_000_000):
        model.get_metadata()["params"] = params
        assert "RMSE" not in load(save(model, tmp_path / "model.cbm")).source
    del model.get_metadata()["catboost_version_info"]
    assert load(save(model, tmp_path / "model.cbm")).source == "CatBoost"


def test_a_newer_catboost_is_refused_as_a_file_only() -> None:
    """An object is checked against its predictions."""
    data = cbm(core_of(trees_of(News=INT(1))))
    with pytest.raises(
        UnsupportedModelError, match=r"does not know \(it has 'a field after Embedd.*pass the object"
    ):
        loader._read(data)
    binary_file.read(data, known_only=False)


# ---- files made here ----

INT, DOUBLE, BYTE = (lambda value, form=form: struct.pack(form, value) for form in ("<i", "<d", "<b"))


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def written(part: Any, out: bytearray) -> int:
    """Add a part to a FlatBuffer; where it is.

    A dict is a table, whose fields are numbers packed as bytes, or other parts; None leaves one out. A text,
    an array or a list of parts is what it is.
    """
    if isinstance(part, dict):
        return written_table([*part.values()], out)
    if isinstance(part, list):
        at = written_vector(len(part), bytes(4 * len(part)), out)
        return pointed([at + 4 + 4 * i for i in range(len(part))], part, out) or at
    part = np.frombuffer(part.encode(), dtype=np.uint8) if isinstance(part, str) else np.asarray(part)
    return written_vector(len(part), part.tobytes(), out)


def written_vector(n: int, raw: bytes, out: bytearray) -> int:
    out += bytes(-(len(out) + 4) % 8)
    at = len(out)
    out += struct.pack("<I", n) + raw + b"\0"
    return at


def written_table(fields: list[Any], out: bytearray) -> int:
    stored = [field is not None for field in fields]
    offsets = [4 + 8 * sum(stored[:i]) if stored[i] else 0 for i in range(len(fields))]
    size = 4 + 8 * sum(stored)
    layout = struct.pack(f"<{len(fields) + 2}H", 4 + 2 * len(fields), size, *offsets)
    out += bytes(-(len(out) + len(layout) + 4) % 8) + layout
    at = len(out)
    out += struct.pack("<i", len(layout)) + bytes(size - 4)
    places, parts = [], []
    for field, offset in zip(fields, offsets, strict=True):
        if isinstance(field, bytes):
            out[at + offset : at + offset + len(field)] = field
        elif offset:
            places.append(at + offset)
            parts.append(field)
    return pointed(places, parts, out) or at


def pointed(places: list[int], parts: list[Any], out: bytearray) -> None:
    for place, part in zip(places, parts, strict=True):
        target = part.at if isinstance(part, Elsewhere) else written(part, out)
        out[place : place + 4] = struct.pack("<I", (target - place) % 2**32)


class Elsewhere:
    """A part that is said to be somewhere."""

    def __init__(self, at: int) -> None:
        self.at = at


def cbm(core: dict[str, Any], tail: bytes = b"") -> bytes:
    out = bytearray(4)
    out[:4] = struct.pack("<I", written(core, out))
    return b"CBM1" + struct.pack("<I", len(out)) + bytes(out) + tail


def cbm_with(part: Any, core: Callable[[Any], dict[str, Any]]) -> bytes:
    """A file at whose end is a part that any number of others may point to."""
    out = bytearray(4)
    written(core(Elsewhere(0)), out)
    at = written(part, out)  # from its beginning on, where others point to does not change
    out = bytearray(4)
    out[:4] = struct.pack("<I", written(core(Elsewhere(at)), out))
    assert written(part, out) == at
    return b"CBM1" + struct.pack("<I", len(out)) + bytes(out)


def core_of(trees: Any, **changes: Any) -> dict[str, Any]:
    core = {"FormatVersion": "FlabuffersModel_v1", "ModelTrees": trees, "InfoMap": None, "ModelPartIds": None}
    return core | changes


def number(i: int, borders: np.ndarray, **changes: Any) -> dict[str, Any]:
    feature = {"HasNans": None, "Index": INT(i), "FlatIndex": INT(i), "Borders": borders, "FeatureId": None}
    return feature | {"NanValueTreatment": None} | changes


def category(**changes: Any) -> dict[str, Any]:
    return {"Index": INT(0), "FlatIndex": INT(2), "FeatureId": None, "UsedInModel": None} | changes


def one_hot(**changes: Any) -> dict[str, Any]:
    hashes = np.array([hash_of("red"), hash_of("blue")], dtype=np.uint32)
    return {"Index": INT(0), "Values": hashes, "StringValues": None} | changes


FIRST = number(0, np.float32([-1, 0.5]))
SYMMETRIC: dict[str, Any] = {
    "ApproxDimension": INT(1),
    "TreeSplits": ints(0, 3, 2, 4),
    "TreeSizes": ints(2, 0, 2),
    "TreeStartOffsets": ints(0, 2, 2),
    "CatFeatures": [category()],
    "FloatFeatures": [FIRST, number(1, np.float32([0]))],
    "OneHotFeatures": [one_hot()],
    "CtrFeatures": [],
    "LeafValues": np.arange(9) / 8,
    "LeafWeights": None,
    "NonSymmetricStepNodes": None,
    "NonSymmetricNodeIdToLeafId": None,
    "TextFeatures": None,
    "EstimatedFeatures": None,
    "Scale": DOUBLE(2.0),
    "Bias": DOUBLE(0.25),
    "MultiBias": None,
    "RepackedBins": None,
    "EmbeddingFeatures": None,
}
# The first tree: node 0 ends on the left, node 1 on the right; the second one is a leaf.
GROWN = SYMMETRIC | {
    "TreeSplits": ints(0, 3, 1, 0),
    "TreeSizes": ints(3, 1),
    "TreeStartOffsets": ints(0, 3),
    "LeafValues": np.arange(1, 5) / 8,
    "NonSymmetricStepNodes": np.array([[0, 1], [1, 0], [0, 0], [0, 0]], dtype=np.uint16),
    "NonSymmetricNodeIdToLeafId": np.array([1, 0, 2, 3], dtype=np.uint32),
}


def trees_of(base: dict[str, Any] = SYMMETRIC, **changes: Any) -> dict[str, Any]:
    return base | changes


SOUND: dict[str, dict[str, Any]] = {
    "symmetric": SYMMETRIC,
    "grown": GROWN,
    "several biases": trees_of(MultiBias=np.array([7.0]), Bias=None),
    "two outputs": trees_of(
        GROWN,
        **{"ApproxDimension": INT(2), "LeafValues": np.arange(8) / 8, "Bias": None},
        NonSymmetricNodeIdToLeafId=np.array([2, 0, 4, 6], dtype=np.uint32),
    ),
    "no scale": trees_of(Scale=None),
    "missing goes right": trees_of(
        FloatFeatures=[
            number(0, np.float32([-1, 0.5]), HasNans=BYTE(1), NanValueTreatment=BYTE(2)),
            number(1, np.float32([0]), HasNans=BYTE(1), NanValueTreatment=BYTE(1), FeatureId="größe"),
        ]
    ),
    "leaves in another order": trees_of(
        GROWN, NonSymmetricNodeIdToLeafId=np.array([3, 2, 1, 0], dtype=np.uint32)
    ),
    "nodes level by level": trees_of(
        GROWN,
        TreeSplits=ints(0, 1, 3, 0, 0, 0, 0, 0),
        TreeSizes=ints(7, 1),
        TreeStartOffsets=ints(0, 7),
        LeafValues=np.arange(5) / 8,
        NonSymmetricStepNodes=np.array(
            [[1, 2], [2, 3], [3, 4], [0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], dtype=np.uint16
        ),
        NonSymmetricNodeIdToLeafId=np.array([9, 9, 9, 0, 1, 2, 3, 4], dtype=np.uint32),
    ),
}


@pytest.mark.parametrize("kind", SOUND)
def test_files_made_here_are_read_as_catboost_reads_them(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.cbm"
    path.write_bytes(cbm(core_of(SOUND[kind])))
    ensemble = load(path)
    model = cb.CatBoost().load_model(str(path))
    assert_same(load(model), ensemble)
    rows = rows_around_thresholds(ensemble)
    some = np.arange(len(rows)) % 4
    rows[:, 2] = ensemble.categorical()[2].codes[-1]
    labelled = rows.astype(object)
    labelled[:, 2] = np.array(["red", "blue", "mauve", ""])[some]
    assert_agrees(ensemble, labelled, margins_of(model, labelled))


DAMAGE: dict[str, dict[str, Any]] = {
    "no outputs": {"ApproxDimension": None},
    "negative outputs": {"ApproxDimension": INT(-1)},
    "two outputs": {"ApproxDimension": INT(2)},
    "giant outputs": {"ApproxDimension": INT(2**31 - 1)},
    "two biases": {"MultiBias": np.zeros(2)},
    "infinite bias": {"MultiBias": np.array([np.inf])},
    "infinite scale": {"Scale": DOUBLE(float("inf"))},
    "missing leaf": {"LeafValues": np.full(9, np.nan)},
    "leaf too few": {"LeafValues": np.zeros(8)},
    "leaf too many": {"LeafValues": np.zeros(10)},
    "no leaves": {"LeafValues": None},
    "no trees": {"TreeSizes": None, "TreeStartOffsets": None},
    "no splits": {"TreeSplits": None},
    "split too many": {"TreeSplits": ints(0, 3, 2, 4, 0)},
    "split beyond": {"TreeSplits": ints(0, 3, 2, 5)},
    "negative split": {"TreeSplits": ints(0, 3, 2, -1)},
    "so deep that the leaves overflow to none": {
        "TreeSizes": ints(64, 0),
        "TreeStartOffsets": ints(0, 64),
        "TreeSplits": np.zeros(64, dtype=np.int32),
        "LeafValues": np.zeros(1),
    },
    "negative depth": {"TreeSizes": ints(-1, 3, 2), "TreeStartOffsets": ints(0, -1, 2)},
    "depths that overflow": {
        "TreeSizes": ints(2**31 - 1, 2**31 - 1, 6),
        "TreeStartOffsets": ints(0, 2**31 - 1, -2),
    },
    "trees that begin elsewhere": {"TreeStartOffsets": ints(0, 1, 2)},
    "no beginnings": {"TreeStartOffsets": None},
    "another number": {"FloatFeatures": [FIRST, number(1, np.float32([0]), Index=INT(0))]},
    "another column": {"FloatFeatures": [FIRST, number(1, np.float32([0]), FlatIndex=INT(0))]},
    "no column": {"FloatFeatures": [FIRST, number(1, np.float32([0]), FlatIndex=None)]},
    "no features": {"FloatFeatures": None},
    "no borders": {"FloatFeatures": [number(0, ints()), number(1, ints())]},
    "borders that descend": {"FloatFeatures": [number(0, np.float32([1, 0])), number(1, np.float32([0]))]},
    "infinite border": {"FloatFeatures": [number(0, np.float32([1, np.inf])), number(1, np.float32([0]))]},
    "other treatment": {
        "FloatFeatures": [
            number(0, np.float32([0, 1]), NanValueTreatment=BYTE(3)),
            number(1, np.float32([0])),
        ]
    },
    "negative treatment": {
        "FloatFeatures": [
            number(0, np.float32([0, 1]), NanValueTreatment=BYTE(-1)),
            number(1, np.float32([0])),
        ]
    },
    "no such name": {
        "FloatFeatures": [
            number(0, np.float32([0, 1]), FeatureId=np.uint8([255])),
            number(1, np.float32([0])),
        ]
    },
    "equal hashes": {"OneHotFeatures": [one_hot(Values=ints(5, 5))]},
    "hashes of another feature": {"OneHotFeatures": [one_hot(Index=INT(1))]},
    "hashes of no feature": {"OneHotFeatures": [one_hot(Index=None)]},
    "hashes twice": {"OneHotFeatures": [one_hot(), one_hot()]},
    "texts of hashes": {"OneHotFeatures": [one_hot(StringValues=["red", "blue"])]},
    "no hashes": {"OneHotFeatures": None},
    "steps": {"NonSymmetricStepNodes": np.zeros((4, 2), dtype=np.uint16)},
    "leaves of steps": {"NonSymmetricNodeIdToLeafId": np.zeros(4, dtype=np.uint32)},
    "CTRs": {"CtrFeatures": [{}]},
    "texts": {"TextFeatures": [{}]},
    "embeddings": {"EmbeddingFeatures": [{}]},
    "estimates": {"EstimatedFeatures": [{}]},
}


def ways(*values: tuple[int, int]) -> dict[str, Any]:
    return {"NonSymmetricStepNodes": np.array(values, dtype=np.uint16)}


THREE_LEAVES = {"LeafValues": np.zeros(3), "NonSymmetricNodeIdToLeafId": np.uint32([9, 0, 1, 2])}
GROWN_DAMAGE: dict[str, dict[str, Any]] = {
    "no steps": ways(),
    "one step less": ways((0, 1), (1, 0), (0, 0)),
    "a way out of the tree": ways((0, 1), (2, 0), (0, 0), (0, 0)),
    "a way out of all trees": ways((0, 1), (1, 0), (0, 0), (0, 9)),
    "a node that is met twice": ways((1, 1), (1, 0), (0, 0), (0, 0)) | THREE_LEAVES,
    "two ways to a node": ways((2, 1), (1, 0), (0, 0), (0, 0)) | THREE_LEAVES,
    "a node that is never met": ways((0, 2), (1, 0), (0, 0), (0, 0)),
    "a tree of nothing": {"TreeSizes": ints(3, 0, 1), "TreeStartOffsets": ints(0, 3, 3)},
    "a leaf too far": {"NonSymmetricNodeIdToLeafId": np.uint32([1, 0, 2, 4])},
    "a giant leaf": {"NonSymmetricNodeIdToLeafId": np.uint32([1, 0, 2, 2**32 - 1])},
    "a leaf twice": {"NonSymmetricNodeIdToLeafId": np.uint32([1, 1, 2, 3])},
    "no leaves of steps": {"NonSymmetricNodeIdToLeafId": None},
    "a leaf too many": {"LeafValues": np.zeros(5)},
    "leaves between two": {"ApproxDimension": INT(2), "LeafValues": np.zeros(8), "Bias": None},
    "split beyond": {"TreeSplits": ints(9, 3, 1, 0)},
}


def test_splits_of_leaves_do_not_matter() -> None:
    """CatBoost has any number there."""
    assert sound(cbm(core_of(GROWN | {"TreeSplits": ints(0, 3, 99, -7)})))


@pytest.mark.parametrize(
    ("data", "kind", "says"),
    [
        (b"CBM1", LoaderError, "stops in the middle"),
        (b"CBM1\xff\xff\xff\xff", LoaderError, "stops in the middle"),
        (b"CBM1\0\0\0\0", LoaderError, "lie outside"),
        (cbm(core_of(SYMMETRIC), b"more"), LoaderError, "ends 4 bytes before the file does"),
        (cbm(core_of(None)), LoaderError, "it has no ModelTrees"),
        (cbm(core_of(SYMMETRIC, FormatVersion="News_v2")), UnsupportedModelError, "'format News_v2'"),
        (cbm(core_of(SYMMETRIC, FormatVersion=None)), UnsupportedModelError, "'format '"),
        (cbm(core_of(SYMMETRIC, ModelPartIds=["sounds_v1"])), UnsupportedModelError, "'sounds_v1'"),
        (cbm(core_of(SYMMETRIC | {"NewsA": None, "NewsB": INT(0)})), UnsupportedModelError, "a field after"),
    ],
)
def test_what_is_said_about_other_files(data: bytes, kind: type[LoaderError], says: str) -> None:
    with pytest.raises(kind, match=says):
        loader._read(data)


def test_parts_for_refused_features_do_not_matter_where_there_are_none() -> None:
    assert sound(cbm(core_of(SYMMETRIC, ModelPartIds=["static_provider_v1"]), b"CTRs"))


# ---- hostile files ----


BORDERS = np.arange(100_000, dtype=np.float32)
REPEATED: dict[str, tuple[Any, Callable[[Any], dict[str, Any]]]] = {
    "borders": (BORDERS, lambda at: {"FloatFeatures": [number(i, at) for i in range(1000)]}),
    "features": (number(0, BORDERS), lambda at: {"FloatFeatures": [at] * 1000}),
    "many small features": (number(0, ints()), lambda at: {"FloatFeatures": [at] * 100_000}),
    "names": ("a" * 100_000, lambda at: {"CatFeatures": [category(FeatureId=at)] * 1000}),
    "hashes": (BORDERS, lambda at: {"OneHotFeatures": [one_hot(Index=INT(i), Values=at) for i in range(99)]}),
}


def repeated(kind: str) -> Bomb:
    part, changes = REPEATED[kind]
    data = cbm_with(part, lambda at: core_of(trees_of(**changes(at))))
    return Bomb(data, "parts of it overlap", 13, more=1 << 16)  # 12 times, and the file


BOMBS = {kind: partial(repeated, kind) for kind in REPEATED}


@pytest.mark.parametrize("field", [name for name, part in SYMMETRIC.items() if not isinstance(part, bytes)])
@pytest.mark.parametrize("at", [0, 4, 8, 60, -4, 2**31, 2**32 - 1])
def test_parts_that_lie_anywhere(field: str, at: int) -> None:
    """Before, in or after all tables, or in a circle."""
    sound(cbm(core_of(trees_of())))  # what it imports does not count
    with memory_below(1 << 20):
        sound(cbm(core_of(trees_of(**{field: Elsewhere(at)}))))


@pytest.mark.parametrize("n", [2**32 - 1, 2**31, 2**29, 2**20])
@pytest.mark.parametrize(
    "field", ["TreeSplits", "LeafValues", "FloatFeatures", "NonSymmetricStepNodes", "MultiBias"]
)
def test_lists_that_are_said_to_be_long(field: str, n: int) -> None:
    data = cbm_with(ints(*[4321] * 10), lambda at: core_of(trees_of(**{field: at})))
    length, said = struct.pack("<II", 10, 4321), struct.pack("<II", n, 4321)
    assert data.count(length) == 1
    with memory_below(1 << 20), pytest.raises(LoaderError, match="lie outside"):
        loader._read(data.replace(length, said))


@pytest.mark.parametrize(
    ("layout", "size", "says"),
    [
        *((layout, 4, "impossible layout") for layout in (0, 2, 3, 5, 4 + 2 * 65, 0xFFFF)),
        *((4, size, "impossible layout") for size in (0, 3)),  # such tables would take no room
        (4, 0xFFFF, "lie outside"),
    ],
)
def test_strange_tables(layout: int, size: int, says: str) -> None:
    data = struct.pack("<IHH64xi", 72, layout, size, 68) + bytes(64)
    with pytest.raises(LoaderError, match=says):
        FlatBuffer(data).root(("Name",))


def test_lists_of_too_many_tables_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flatbuffers, "_MAX_ITEMS", 1)
    with pytest.raises(LoaderError, match="FloatFeatures has 2 items, predgap loads up to 1"):
        loader._read(cbm(core_of(SYMMETRIC)))


def test_fields_outside_of_their_table() -> None:
    for offset in (1, 3, 5, 8, 0xFFFF):
        data = struct.pack("<I3HxxiI", 12, 6, 8, offset, 8, 0) + bytes(64)
        with pytest.raises(LoaderError, match="Name lies outside of its table"):
            FlatBuffer(data).root(("Name",)).text("Name")


def test_deep_and_large_trees_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 20_000
    chain = np.tile(np.uint16([[0, 1]]), (n, 1))
    chain[-1] = 0
    changes = {
        "TreeSplits": np.zeros(n, dtype=np.int32),
        "TreeSizes": ints(n),
        "TreeStartOffsets": ints(0),
        "LeafValues": np.zeros(n),
        "NonSymmetricStepNodes": chain,
        "NonSymmetricNodeIdToLeafId": np.arange(n, dtype=np.uint32),
    }
    with pytest.raises(LoaderError, match="more than 10,000 levels"):
        loader._read(cbm(core_of(GROWN | changes)))
    monkeypatch.setattr(binary_file, "_MAX_VALUES", 1000)
    with pytest.raises(LoaderError, match="20,000 values, predgap loads up to 1,000"):
        loader._read(cbm(core_of(GROWN | changes)))


def test_damaged_files_say_so(tmp_path: Path) -> None:
    path = save(train(CLASSES, loss_function="MultiClass"), tmp_path / "model.cbm")
    data = path.read_bytes()
    for damaged in (b"CBM1", data[: len(data) // 2], data[:8] + bytes(len(data) - 8), data + data):
        path.write_bytes(damaged)
        refused(path, r"save or copy it again|invalid binary model")


# ---- what every loader passes ----


class TestBinary(CatBoostFileTests):
    suffix = ".cbm"
    damage = (*DAMAGE, *(f"grown: {kind}" for kind in GROWN_DAMAGE))
    bombs = BOMBS
    reads_nonsense = True
    nonsense = (1 << 23, _files.MAX_FILE_BYTES)

    def bytes_of(self, model: Any, folder: Path) -> bytes:
        return as_binary(model)

    def cut(self, data: bytes, end: int) -> Iterable[bytes]:
        """Whether or not the size still says how long it was."""
        for size in (data[4:8], struct.pack("<I", max(0, end - 8))):
            yield (data[:4] + size + data[8:])[: max(4, end)]

    def essential(self, data: bytes) -> int:
        return len(data) - 8  # the last bytes may be there for alignment only

    def damaged(self, kind: str, folder: Path) -> Damaged:
        _, grown, name = kind.rpartition("grown: ")
        base, changes = (GROWN, GROWN_DAMAGE) if grown else (SYMMETRIC, DAMAGE)
        return Damaged(cbm(core_of(base)), cbm(core_of(base | changes[name])))

    def mutated(self, data: bytes, rng: np.random.Generator) -> bytes:
        out = bytearray(mutated_bytes(data, rng))
        if rng.random() < 0.9:  # or it would be seen at once
            out[:8] = b"CBM1" + struct.pack("<I", max(0, len(out) - 8))
        return bytes(out)

    def disguised(self, data: bytes) -> Iterable[bytes]:
        return (b"CBM1" + struct.pack("<I", len(data)) + data,)

    def openings(self, data: bytes) -> Iterable[bytes]:
        return data[:100], b"CBM1", b"CBM1\xf8\xff\xff\x0f\x08\0\0\0"
