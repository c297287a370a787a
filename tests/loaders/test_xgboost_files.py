"""XGBoost's files: those of other releases, damaged ones, and what is no model at all."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost as xgb

from conformance import Bomb, Damaged, FileTests, deep_json, json_bombs, mutated_json
from loading import Bomb as Explosive
from loading import refused, rounds_to_single, rows_for
from predgap._model.ensemble import Ensemble
from predgap.errors import UnsupportedModelError
from predgap.loaders import load
from predgap.loaders import xgboost as loader
from predgap.loaders._formats.json import decode_ubjson
from xgboost_models import (
    CLASSES,
    assert_agrees,
    assert_booster_agrees,
    labels_of,
    make_frame,
    save,
    train,
    train_on,
)

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # XGBoost's own

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def model_bytes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A small model, as JSON and as UBJSON."""
    folder = tmp_path_factory.mktemp("models")
    booster = train(rounds=2, max_depth=2, names=["a", "b", "c", "d"])
    return {suffix: save(booster, folder, suffix).read_bytes() for suffix in ("json", "ubj")}


@pytest.fixture(scope="module")
def categorical_bytes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A small model with both kinds of splits on categories, as JSON and as UBJSON."""
    folder = tmp_path_factory.mktemp("models")
    booster = train_on(make_frame(), rounds=2, max_depth=2, max_cat_to_onehot=20)
    return {suffix: save(booster, folder, suffix).read_bytes() for suffix in ("json", "ubj")}


# ---- files of old and new releases ----


def golden_models() -> list[tuple[str, str]]:
    found = []
    for archive in sorted(GOLDEN.glob("xgboost-*.npz")):
        with np.load(archive) as data:
            found += [(archive.name, name) for name in data.files if "." in name]
    return found


@pytest.mark.parametrize(("archive", "name"), golden_models())
def test_files_of_other_releases_give_what_these_releases_predicted(
    archive: str, name: str, tmp_path: Path
) -> None:
    kind = name.partition(".")[0]
    path = tmp_path / name
    with np.load(GOLDEN / archive) as data:
        path.write_bytes(data[name].tobytes())
        rows, leaves, margins = (data[f"{kind}_{what}"] for what in ("rows", "leaves", "margins"))
    ensemble = load(path)
    assert_agrees(ensemble, rows, leaves, margins, 4.0 if kind == "dart" else 2.0)
    assert ensemble.source.startswith(f"XGBoost {archive[8:-4]} {'dart' if kind == 'dart' else 'gbtree'}")
    if "-1.3" not in archive:  # which did not save names
        assert (ensemble.feature_names is not None) == (kind in ("regression", "labels"))
    if kind in ("onehot", "partition", "labels"):
        used = labels_of(ensemble)
        assert used.keys() == {0, 2}
        stored = kind == "labels" and archive >= "xgboost-3.1"
        expected = {0: tuple("rgbcmykwo"), 2: (30, 10, 20, 50, 40, 90, 80, 70, 60)}
        assert used == expected if stored else all(0 < len(found) <= 9 for found in used.values())


def test_the_papers_models(shared_data: Path) -> None:
    for path in sorted((shared_data / "models").glob("*.json")):
        booster = xgb.Booster(model_file=str(path))
        ensemble = load(path)
        assert ensemble.feature_names == tuple(booster.feature_names)
        assert_booster_agrees(booster, ensemble, 2.0)
        np.testing.assert_array_equal(load(booster).value, ensemble.value)


def test_json_floats_are_read_as_xgboost_reads_them(tmp_path: Path) -> None:
    """Thresholds with all kinds of decimals: a stump for each, in one file, read by both."""
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, 3000, dtype=np.uint32).view(np.float32)
    cuts = np.concatenate([bits[np.isfinite(bits)], rng.normal(size=3000).astype(np.float32)])
    cuts = np.concatenate([cuts, np.float32([1e-45, -1e-45, 3.4028235e38, 16777216, 0.1])])
    document = json.loads(save(train(rounds=1, max_depth=1), tmp_path, "json").read_text())
    model = document["learner"]["gradient_booster"]["model"]
    stump = model["trees"][0]
    stump["split_indices"][0] = 0
    model["trees"] = [
        {**stump, "id": i, "split_conditions": [float(str(cut)), -1.0, 1.0]} for i, cut in enumerate(cuts)
    ]
    model["gbtree_model_param"]["num_trees"] = str(len(cuts))
    model["tree_info"] = [0] * len(cuts)
    model["iteration_indptr"] = list(range(len(cuts) + 1))
    path = tmp_path / "stumps.json"
    path.write_text(json.dumps(document))
    ensemble = load(path)
    np.testing.assert_array_equal(ensemble.threshold[ensemble.root].astype(np.float32), cuts)
    assert rounds_to_single(ensemble)
    booster = xgb.Booster(model_file=str(path))
    sample = rng.choice(cuts, 60)
    rows = np.concatenate(
        [sample, np.nextafter(sample, np.float32(0)), np.nextafter(sample, np.float32(1e38))]
    )
    rows = np.repeat(rows[:, None], 4, axis=1)
    theirs = booster.predict(xgb.DMatrix(rows), pred_leaf=True)
    np.testing.assert_array_equal(ensemble.leaves(rows) - ensemble.root, theirs)


# ---- files that are not models ----


def test_things_that_are_not_files(tmp_path: Path) -> None:
    refused(tmp_path, "is a directory")
    refused(tmp_path / "absent.json", "there is no file")
    refused(str(tmp_path / "absent.json"), "there is no file")
    refused("{}", "there is no file")
    refused("a\0b", "cannot be read")
    refused("x" * 100_000, "cannot be read|no file")
    (tmp_path / "empty").touch()
    refused(tmp_path / "empty", "is empty")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        refused(tmp_path / "pipe", "not a regular file")
        refused("/dev/zero", "not a regular file")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_are_never_opened(protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_bytes(pickle.dumps(Explosive(), protocol))
    refused(path, "pickle", UnsupportedModelError)
    path.write_bytes(pickle.dumps({"model": Explosive()}, protocol))
    refused(path, "pickle", UnsupportedModelError)


def test_other_formats_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model"
    header = struct.pack("<fIiiiII", 0.5, 11, 0, 0, 0, 1, 7) + bytes(108)
    names = b"".join(struct.pack("<Q", len(n)) + n for n in (b"reg:squarederror", b"gbtree"))
    for data in (header + names, b"binf" + header + names, b"CONFIG-offset:" + bytes(40)):
        path.write_bytes(data)
        refused(path, "old binary format.*save_model", UnsupportedModelError)
    booster = train(rounds=1)
    booster.dump_model(str(path))
    refused(path, "dump_model", UnsupportedModelError)
    booster.dump_model(str(path), dump_format="json")
    refused(path, "dump_model", UnsupportedModelError)
    path.write_bytes(b"\x1f\x8b\x08\0\0\0")
    refused(path, "compressed", UnsupportedModelError)
    for data in (
        b"\0" * 100,
        b"hello, a standard text",
        b"{}",
        b'{"a": 1}',
        b"[1, 2]",
        b"<?xml?>",
        bytes(range(256)),
    ):
        path.write_bytes(data)
        refused(path, "no model file that predgap knows")
    path.write_text(booster.save_config())
    refused(path, "saved by save_model")


def test_buffers_are_not_paths() -> None:
    with pytest.raises(UnsupportedModelError, match="BytesIO"):
        load(io.BytesIO(b"{}"))


# ---- damaged models ----


def damaged(change: Any, model_bytes: dict[str, bytes], path: Path) -> None:
    document = json.loads(model_bytes["json"])
    change(document, document["learner"], document["learner"]["gradient_booster"]["model"])
    path.write_text(json.dumps(document))


def tree_change(field: str, at: int, value: Any) -> Any:
    def change(_: Any, __: Any, model: Any) -> None:
        model["trees"][1][field][at] = value

    return change


DAMAGE: dict[str, Any] = {
    "infinite threshold": tree_change("split_conditions", 0, float("inf")),
    "missing threshold": tree_change("split_conditions", 0, float("nan")),
    "threshold beyond float32": tree_change("split_conditions", 0, 1e300),
    "infinite leaf": tree_change("split_conditions", -1, float("-inf")),
    "text for a threshold": tree_change("split_conditions", 0, "0.5"),
    "null threshold": tree_change("split_conditions", 0, None),
    "list for a threshold": tree_change("split_conditions", 0, [0.5]),
    "giant integer": tree_change("split_conditions", 0, 10**400),
    "child outside": tree_change("left_children", 0, 99),
    "negative child": tree_change("right_children", 0, -5),
    "fractional child": tree_change("left_children", 0, 1.5),
    "child twice": tree_change("left_children", 0, 2),
    "cycle": tree_change("left_children", 1, 0),
    "one child": tree_change("right_children", 0, -1),
    "feature outside": tree_change("split_indices", 0, 4),
    "negative feature": tree_change("split_indices", 0, -1),
    "pruned root": tree_change("split_indices", 0, 2**31 - 1),
    "category": tree_change("split_type", 0, 1),
    "another kind of split": tree_change("split_type", 0, 2),
    "numbers for types": lambda d, le, m: le.update(feature_types=[1, 2, 3, 4]),
    "fewer types": lambda d, le, m: le.update(feature_types=["q"]),
    "labels for a threshold": lambda d, le, m: le.update(feature_types=["c"] * 4),
    "short column": lambda d, le, m: m["trees"][0]["default_left"].pop(),
    "no column": lambda d, le, m: m["trees"][0].pop("split_indices"),
    "object for a column": lambda d, le, m: m["trees"][0].update(default_left={}),
    "giant tree": lambda d, le, m: m["trees"][0]["tree_param"].update(num_nodes="9999999999"),
    "no nodes": lambda d, le, m: m["trees"][0]["tree_param"].update(num_nodes="0"),
    "leaf vectors": lambda d, le, m: m["trees"][0]["tree_param"].update(size_leaf_vector="7"),
    "no trees": lambda d, le, m: m.pop("trees"),
    "text for trees": lambda d, le, m: m.update(trees="x"),
    "fewer trees": lambda d, le, m: m["trees"].pop(),
    "same id": lambda d, le, m: m["trees"][0].update(id=1),
    "new part of a tree": lambda d, le, m: m["trees"][0].update(news=[1]),
    "new part of the model": lambda d, le, m: m.update(news=[1]),
    "short tree_info": lambda d, le, m: m["tree_info"].pop(),
    "target outside": lambda d, le, m: m.update(tree_info=[0, 1]),
    "weights for no tree": lambda d, le, m: m.update(weight_drop=[1.0]),
    "infinite weight": lambda d, le, m: m.update(weight_drop=[1.0, float("inf")]),
    "no booster": lambda d, le, m: le.pop("gradient_booster"),
    "other booster": lambda d, le, m: le["gradient_booster"].update(name="gbforest"),
    "dart without weights": lambda d, le, m: le.update(
        gradient_booster={"name": "dart", "gbtree": le["gradient_booster"]}
    ),
    "other objective": lambda d, le, m: le["objective"].update(name="reg:mine"),
    "no objective": lambda d, le, m: le.pop("objective"),
    "no base score": lambda d, le, m: le["learner_model_param"].pop("base_score"),
    "bad base score": lambda d, le, m: le["learner_model_param"].update(base_score="[1,x]"),
    "two base scores": lambda d, le, m: le["learner_model_param"].update(base_score="[1,2]"),
    "infinite base score": lambda d, le, m: le["learner_model_param"].update(base_score="[inf]"),
    "giant base score": lambda d, le, m: le["learner_model_param"].update(base_score="[1e300]"),
    "giant class count": lambda d, le, m: le["learner_model_param"].update(num_class="999999999"),
    "giant feature count": lambda d, le, m: le["learner_model_param"].update(num_feature="999999999"),
    "negative feature count": lambda d, le, m: le["learner_model_param"].update(num_feature="-4"),
    "fewer names": lambda d, le, m: le["feature_names"].pop(),
    "number for a name": lambda d, le, m: le.update(feature_names=[1, 2, 3, 4]),
    "number for names": lambda d, le, m: le.update(feature_names=4),
    "no version": lambda d, le, m: d.pop("version"),
    "short version": lambda d, le, m: d.update(version=[1, 7]),
    "old version": lambda d, le, m: d.update(version=[0, 90, 0]),
    "future version": lambda d, le, m: d.update(version=[4, 0, 0]),
    "list for the learner": lambda d, le, m: d.update(learner=[]),
}  # fmt: skip


def of_tree(**fields: Any) -> Any:
    return lambda d, le, m: m["trees"][0].update(fields)


def of_label(q: int, **fields: Any) -> Any:
    return lambda d, le, m: m["cats"]["enc"][q].update(fields)


DAMAGE_OF_CATEGORIES: dict[str, Any] = {
    "another kind of split": lambda d, le, m: m["trees"][0]["split_type"].__setitem__(0, 2),
    "no sets": of_tree(categories_nodes=[], categories_segments=[], categories_sizes=[], categories=[]),
    "no codes": of_tree(categories=[]),
    "no list of codes": of_tree(categories=None),
    "text for codes": of_tree(categories="abc"),
    "empty set": lambda d, le, m: m["trees"][0]["categories_sizes"].__setitem__(0, 0),
    "negative size": lambda d, le, m: m["trees"][0]["categories_sizes"].__setitem__(0, -1),
    "giant size": lambda d, le, m: m["trees"][0]["categories_sizes"].__setitem__(0, 2**31 - 1),
    "one size more": lambda d, le, m: m["trees"][0]["categories_sizes"].append(1),
    "last set empty": lambda d, le, m: (
        m["trees"][-1].update(
            categories=m["trees"][-1]["categories"][: m["trees"][-1]["categories_segments"][-1]]
        ),
        m["trees"][-1]["categories_sizes"].__setitem__(-1, 0),
    ),
    "last code gone": lambda d, le, m: m["trees"][-1]["categories"].pop(),
    "one code more": lambda d, le, m: m["trees"][-1]["categories"].append(39),
    "size in another tree": lambda d, le, m: m["trees"][1]["categories_sizes"].insert(
        0, m["trees"][0]["categories_sizes"].pop()
    ),
    "set of another node": lambda d, le, m: m["trees"][0]["categories_nodes"].__setitem__(0, 5),
    "node outside": lambda d, le, m: m["trees"][0]["categories_nodes"].__setitem__(-1, 10**6),
    "sets that overlap": lambda d, le, m: m["trees"][0]["categories_segments"].__setitem__(-1, 0),
    "negative code": lambda d, le, m: m["trees"][0]["categories"].__setitem__(0, -1),
    "code without label": lambda d, le, m: m["trees"][0]["categories"].__setitem__(-1, 1000),
    "code too large": lambda d, le, m: m["trees"][0]["categories"].__setitem__(-1, 2**24),
    "fractional code": lambda d, le, m: m["trees"][0]["categories"].__setitem__(0, 0.5),
    "codes not ascending": lambda d, le, m: max((tree["categories"] for tree in m["trees"]), key=len).sort(
        reverse=True
    ),
    "list for labels": lambda d, le, m: m.update(cats=[]),
    "new part of labels": lambda d, le, m: m["cats"].update(news=1),
    "no columns of labels": lambda d, le, m: m["cats"].pop("enc"),
    "numbers for columns": lambda d, le, m: m["cats"].update(enc=[1, 2]),
    "one column less": lambda d, le, m: m["cats"]["enc"].pop(),
    "one feature less": lambda d, le, m: (m["cats"]["enc"].pop(), m["cats"]["feature_segments"].pop()),
    "one column more": lambda d, le, m: m["cats"]["enc"].append({"offsets": [], "values": []}),
    "no segments": lambda d, le, m: m["cats"].pop("feature_segments"),
    "other segments": lambda d, le, m: m["cats"]["feature_segments"].__setitem__(1, 1),
    "text beyond the end": of_label(0, offsets=[0, 1, 2, 3, 4, 5, 6, 8]),
    "text before the start": of_label(0, offsets=[-1, 1, 2, 3, 4, 5, 6, 7]),
    "texts not in order": of_label(0, offsets=[0, 2, 1, 3, 4, 5, 6, 7]),
    "text for offsets": of_label(0, offsets="abc"),
    "no letters": of_label(0, values=None),
    "large letters": of_label(0, values=[*range(300, 307)]),
    "small letters": of_label(0, values=[*range(-(2**31), 7 - 2**31)]),
    "label twice": of_label(0, values=[98] * 7),
    "number twice": of_label(2, values=[7] * 40),
    "fraction for a label": of_label(2, values=[0.5] * 40),
    "null for a label": of_label(2, values=[None] * 40),
    "null for all labels": of_label(2, values=None),
    "floats for labels": of_label(2, type=7),
    "list for a type": of_label(2, type=[13]),
    "no type": lambda d, le, m: m["cats"]["enc"][2].pop("type"),
}


def test_trees_go_by_their_id(model_bytes: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    damaged(lambda d, le, m: m["trees"].reverse(), model_bytes, path)
    shuffled = load(path)
    path.write_bytes(model_bytes["json"])
    np.testing.assert_array_equal(shuffled.value, load(path).value)


def test_json_with_white_space_loads(model_bytes: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text("\n" + json.dumps(json.loads(model_bytes["json"]), indent=2) + "\n")
    pretty = load(path)
    path.write_bytes(model_bytes["ubj"])
    np.testing.assert_array_equal(pretty.value, load(path).value)


def test_keys_within_texts_are_not_keys(model_bytes: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    note = '{"parents":[1,2],"loss_changes": [3]} \\"sum_hessian\\":[4]'
    damaged(lambda d, le, m: le["attributes"].update(note=note), model_bytes, path)
    text = loader.decode(path.read_bytes())["learner"]["attributes"]["note"]
    assert text == note
    assert load(path).n_trees == 2


def test_unsigned_labels_are_stored_as_signed_ones(
    categorical_bytes: dict[str, bytes], tmp_path: Path
) -> None:
    def change(_: Any, __: Any, model: Any) -> None:
        column = model["cats"]["enc"][2]
        column.update(type=12, values=[-1, -5536, *column["values"][2:]])

    path = tmp_path / "model.json"
    damaged(change, categorical_bytes, path)
    assert labels_of(load(path))[2][:2] == (65535, 60000)


def test_splits_on_categories_of_older_releases_are_refused_by_name(
    categorical_bytes: dict[str, bytes], model_bytes: dict[str, bytes], tmp_path: Path
) -> None:
    path = tmp_path / "model.json"
    damaged(lambda d, le, m: d.update(version=[1, 6, 2]), categorical_bytes, path)
    says = r"splits on categories and was saved by XGBoost 1\.6\.2; load it with XGBoost 1\.7 or newer"
    refused(path, says, UnsupportedModelError)
    damaged(lambda d, le, m: d.update(version=[1, 6, 2]), model_bytes, path)
    assert load(path).n_trees == 2


# ---- UBJSON ----


def ubj_document(body: bytes) -> bytes:
    return b"{L" + struct.pack(">q", 7) + b"learner" + body + b"}"


BAD_UBJSON = (
    b"[$d#L" + struct.pack(">q", 2**62),
    b"[$d#L" + struct.pack(">q", -1),
    b"[$L#l" + struct.pack(">i", 2**31 - 1),
    b"[#L" + struct.pack(">q", 2**62),
    b"[#i\x7f",
    b"[$Z#L" + struct.pack(">q", 2**40),
    b"[$T#L" + struct.pack(">q", 2**40),
    b"[$[#L" + struct.pack(">q", 3),
    b"[$dL" + struct.pack(">q", 3),
    b"{$d#L" + struct.pack(">q", 3),
    b"SL" + struct.pack(">q", 2**62),
    b"SL" + struct.pack(">q", -2),
    b"Si\x02\xff\xff",
    b"Sd\0\0\0\0",
    b"[" * 100,
    b"[" * 1_000_000,
    b"{i\x01a" * 100_000,
    b"[]" * 1000,
    b"H",
    b"q",
    b"",
    b"l\0",
    b"{i\x01aZi\x01aZ}",
)


def test_ubjson_values() -> None:
    body = b"[#U\x09" + b"ZTFi\xffU\xffI\x01\0CxD" + struct.pack(">d", 0.1) + b"Si\x02\xc3\xb6"
    assert decode_ubjson(ubj_document(body)) == {"learner": [None, True, False, -1, 255, 256, "x", 0.1, "ö"]}
    array = decode_ubjson(b"[$l#L" + struct.pack(">q3i", 3, 1, -2, 3))
    assert array.tolist() == [1, -2, 3]
    assert not array.flags.writeable


# ---- what every loader passes ----

MODELS = {
    "numbers": lambda: train(rounds=2, max_depth=2, names=["a", "b", "c", "d"]),
    "categories": lambda: train_on(make_frame(), rounds=2, max_depth=2, max_cat_to_onehot=20),
    "classes": lambda: train(CLASSES, rounds=2, max_depth=2, objective="multi:softprob", num_class=3),
    "dart": lambda: train(rounds=3, max_depth=2, booster="dart", rate_drop=0.4, seed=2),
}


class XGBoostFileTests(FileTests):
    models = MODELS
    packages = ("xgboost",)

    def assert_agrees(self, model: Any, ensemble: Ensemble) -> None:
        rows = rows_for(ensemble)
        types = ["c" if q in ensemble.categorical() else "q" for q in range(ensemble.n_features)]
        matrix = xgb.DMatrix(rows, feature_types=types, enable_categorical=True)
        leaves, margins = (
            model.predict(matrix, validate_features=False, **{what: True})
            for what in ("pred_leaf", "output_margin")
        )
        assert_agrees(ensemble, rows, leaves, margins, 8.0)

    def save(self, model: Any, path: Path) -> None:
        model.save_model(str(path))

    def decode(self, data: bytes) -> Ensemble:
        return loader._ensemble(loader.decode(data))

    def large(self) -> Any:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(1000, 10)).astype(np.float32)
        matrix = xgb.DMatrix(X, label=X @ rng.normal(size=10))
        return xgb.train({"max_depth": 8, "nthread": 1}, matrix, 30)


def unchanged(*_: Any) -> None:
    pass


class TestJson(XGBoostFileTests):
    suffix = ".json"
    damage = (*DAMAGE, *(f"categories: {kind}" for kind in DAMAGE_OF_CATEGORIES))
    bombs = json_bombs("learner") | deep_json(
        '{"learner":', '{"learner":{"x":', '{"version":[1,7,6],"learner":'
    )

    def damaged(self, kind: str, folder: Path) -> Damaged:
        _, of_categories, name = kind.rpartition("categories: ")
        sound = {"json": self.small("categories" if of_categories else "numbers", folder)}
        change = (DAMAGE_OF_CATEGORIES if of_categories else DAMAGE)[name]
        path = folder / "damaged.json"
        damaged(unchanged, sound, path)
        control = path.read_bytes()
        damaged(change, sound, path)
        return Damaged(control, path.read_bytes())

    def mutated(self, data: bytes, rng: np.random.Generator) -> bytes:
        return mutated_json(data, rng)

    def disguised(self, data: bytes) -> Iterable[bytes]:
        return b'{"learner":' + data + b"}", b'{"version":' + data + b"}"


UBJSON_ITEMS = {"lists": b"[]", "objects": b"{}", "numbers": b"i\x80", "nothings": b"Z", "texts": b"Si\x02ab"}
UBJSON_BOMBS = {
    kind: lambda item=item: Bomb(ubj_document(b"[" + item * 100_000 + b"]"), "more values", 10, 1 << 20)
    for kind, item in UBJSON_ITEMS.items()
}


class TestUbjson(XGBoostFileTests):
    suffix = ".ubj"
    damage = tuple(f"body {i}" for i in range(len(BAD_UBJSON)))
    bombs = UBJSON_BOMBS

    def damaged(self, kind: str, folder: Path) -> Damaged:
        return Damaged(self.small("numbers", folder), ubj_document(BAD_UBJSON[int(kind.split()[1])]))

    def disguised(self, data: bytes) -> Iterable[bytes]:
        return (ubj_document(data),)
