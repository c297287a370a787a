"""Saved ensembles: what is loaded is what was saved, bit for bit, and nothing else is loaded."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import predgap
from conformance import Bomb, Damaged, FileTests, mutated_bytes, mutated_document
from effort import cases
from loading import assert_same, bits
from predgap import Categories, Ensemble, EnsembleError, Link, LoaderError, UnsupportedModelError
from predgap._model import files
from predgap._model.rounding import fields_of_rows
from strategies import Split, ensemble_of, ensembles, mixed_ensembles, random_ensemble


def rich() -> Ensemble:
    """An ensemble in which nothing is as it is by default."""
    nan = np.array([0x7FF8_0000_DEAD_BEEF], dtype=np.uint64).view(np.float64)[0]
    ensemble = ensemble_of(
        [
            Split(0, -0.0, (1.0, 2.0), Split(1, 0.0, (3.0, 4.0), (-0.0, 1e-310), categories=(1, 900))),
            (0.1, 1e144),
        ],
        4,
        targets=[-1, -1],
        n_outputs=2,
        categories=[
            None,
            Categories([0, 1, 900], ("red", "", "crème\n\U0001f600\x00[{")),
            Categories([3, 7]),
            Categories([0, 1, 2, 3, 4, 9], (True, 10**40, 1.5, "1.5", -0.0, math.inf)),
        ],
        feature_names=["age", "colour", 'x"[0]', "\u2028"],
        class_names=["no", "crème\n\x00"],
        link=Link("logistic", 0.7),
        rows=np.float32,
        missing=-999.25,
        accepts_infinity=False,
        unseen_is_missing=True,
        source="a test, “quoted”",
    )
    return dataclasses.replace(ensemble, threshold=np.where(ensemble.feature < 0, nan, ensemble.threshold))


def saved(ensemble: Ensemble, path: Path) -> Path:
    ensemble.save(path)
    return path


def refused(path: Path, match: str, kind: type[LoaderError] = LoaderError) -> None:
    for load in (predgap.load, Ensemble.load):
        with pytest.raises(kind, match=match) as caught:
            load(path)
        assert type(caught.value) is kind
        assert len(str(caught.value)) < 1000


# ---- what is saved is loaded ----


def test_everything_survives(tmp_path: Path) -> None:
    path = saved(rich(), tmp_path / "rich.predgap")
    assert_same(Ensemble.load(path), rich())
    assert_same(predgap.load(str(path)), rich())
    assert_same(predgap.load(os.fsencode(path).decode()), rich())
    assert os.listdir(tmp_path) == ["rich.predgap"]


def test_no_field_is_forgotten() -> None:
    stored = {*files._ARRAYS, *files._PLAIN} - files._UNTIL.keys()
    assert {f.name for f in dataclasses.fields(Ensemble)} == stored
    plain = ensemble_of([1.0], 4)
    for field in dataclasses.fields(Ensemble):
        if field.name not in ("n_features", "target", "bias"):
            assert bits(getattr(rich(), field.name)) != bits(getattr(plain, field.name)), field.name


@given(st.one_of(ensembles(), mixed_ensembles()), st.sampled_from([math.nan, 0.0, -0.0, -999.0, math.inf]))
def test_the_round_trip_is_the_identity(ensemble: Ensemble, missing: float) -> None:
    ensemble = dataclasses.replace(ensemble, missing=missing)
    data = files.encode(ensemble)
    back = Ensemble(**files.decode(data))
    assert_same(back, ensemble)
    assert files.encode(back) == data


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("infinite", [False, True])
@pytest.mark.parametrize(
    ("version", "absent"), [(1, ["class_names", "link"]), (2, ["link"]), (3, [])], ids=["1", "2", "3"]
)
def test_files_of_older_versions_are_read(
    tmp_path: Path, version: int, absent: list[str], infinite: bool, kind: type
) -> None:
    """They lack some fields, and have thresholds of rows in the precision that they state."""
    given = dataclasses.replace(rich(), threshold=np.where(rich().feature == 0, 0.1, 0.0))
    header, arrays = parts(files.encode(given))
    path = tmp_path / "model"
    path.write_bytes(sealed(json.dumps(header, ensure_ascii=False).encode(), arrays, version=version))
    refused(path, "no object with the parts")
    for field in absent:
        del header[field]
    header |= {"row_dtype": np.dtype(kind).name, "takes_infinity": infinite}
    del header["arrays"]["missing_range"], header["arrays"]["largest"]
    text, arrays = json.dumps(header, ensure_ascii=False).encode(), arrays[: -3 * 8]
    path.write_bytes(sealed(text, arrays, version=version))
    reading = fields_of_rows(kind, given.threshold, missing=given.missing, accepts_infinity=infinite)
    assert_same(Ensemble.load(path), dataclasses.replace(given, **reading, **dict.fromkeys(absent)))
    path.write_bytes(sealed(text, arrays))
    refused(path, "no object with the parts")
    header["row_dtype"] = "float16"
    path.write_bytes(sealed(json.dumps(header, ensure_ascii=False).encode(), arrays, version=version))
    refused(path, "row_dtype is neither float32 nor float64")


NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True, min_size=3, max_size=3)
LABEL = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(),
    st.floats(allow_nan=False),
    st.booleans(),
)


@given(NAMES, st.lists(LABEL, unique=True, max_size=6), st.text(st.characters(exclude_categories=["Cs"])))
def test_names_and_labels_survive_with_their_types(names: list[str], labels: list[Any], source: str) -> None:
    levels = Categories(range(len(labels)), tuple(labels))
    ensemble = ensemble_of([1.0], 3, categories=[None, levels, None], feature_names=names, source=source)
    assert_same(Ensemble(**files.decode(files.encode(ensemble))), ensemble)


def test_labels_of_numpy_become_the_python_values_they_equal() -> None:
    labels = (np.int64(3), np.float32(0.1), np.str_("a"), np.bool_(False))
    ensemble = ensemble_of([1.0], 1, categories=[Categories(range(4), labels)])
    back = Ensemble(**files.decode(files.encode(ensemble)))
    found = back.categories[0].labels
    assert found == labels
    assert [type(label) for label in found] == [int, float, str, bool]
    assert back.categories[0].codes_of(labels).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        (datetime.date(2026, 1, 1), r"a datetime\.date;"),
        (("a", 1), r"a builtins\.tuple;"),
        (None, r"a builtins\.NoneType;"),
        (b"a", r"a builtins\.bytes;"),
        (Decimal(1), r"a decimal\.Decimal;"),
        (np.datetime64("2026-01-01"), r"a numpy\.datetime64;"),
    ],
)
def test_other_labels_are_refused_by_name(label: Any, kind: str, tmp_path: Path) -> None:
    ensemble = ensemble_of([1.0], 1, categories=[Categories([0, 1], ("a", label))], feature_names=["day"])
    with pytest.raises(EnsembleError, match=rf"feature 'day' has the label .*{kind}.*text, numbers or bool"):
        ensemble.save(tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_text_that_is_no_unicode_is_refused(tmp_path: Path) -> None:
    for options in ({"feature_names": ["\ud83d\ude00"]}, {"source": "\ud800"}):
        with pytest.raises(EnsembleError, match=r"cannot be written to a file: .*surrogates not allowed"):
            ensemble_of([1.0], 1, **options).save(tmp_path / "model")
    huge = ensemble_of([1.0], 1, categories=[Categories([0], (10**5000,))])
    with pytest.raises(EnsembleError, match=r"cannot be written to a file: .*4300 digits"):
        huge.save(tmp_path / "model")


def test_saving_replaces_the_file_or_leaves_it_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(ensemble_of([1.0], 1), tmp_path / "model")
    ensemble_of([2.0], 1).save(path)
    assert Ensemble.load(path).predict([[0.0]]) == [3.0]

    def fail(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        ensemble_of([5.0], 1).save(path)
    assert Ensemble.load(path).predict([[0.0]]) == [3.0]
    assert os.listdir(tmp_path) == ["model"]


def test_files_may_be_larger_than_those_of_other_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(rich(), tmp_path / "model")
    monkeypatch.setattr(predgap._files, "MAX_FILE_BYTES", 10)
    assert_same(predgap.load(path), rich())


# ---- what was not saved is refused ----


def test_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model"
    for version in (b"0", b"5", b"17", b"999999999999999999999999"):
        path.write_bytes(b"predgap ensemble " + version + b" whatever comes then")
        refused(
            path,
            rf"'.*model' is an ensemble in version {version[:20].decode()} of the format, this predgap reads "
            "versions 1 to 4; .*pip install --upgrade predgap",
            UnsupportedModelError,
        )


def test_things_that_are_no_saved_ensembles(tmp_path: Path) -> None:
    with pytest.raises(LoaderError, match="is a directory"):
        Ensemble.load(tmp_path)
    with pytest.raises(LoaderError, match="there is no file"):
        Ensemble.load(tmp_path / "absent")
    path = tmp_path / "model.json"
    path.write_bytes(b'{"learner": {}}')
    with pytest.raises(LoaderError, match=r"begins with b'\{.*expected a file that Ensemble.save wrote"):
        Ensemble.load(path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LoaderError, match="not a regular file"):
        Ensemble.load(tmp_path / "pipe")


def test_every_flipped_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model"
    data = files.encode(rich())
    for place in range(len(files.NAME), len(data), cases(17, 1)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])
        with pytest.raises(LoaderError):
            predgap.load(path)


def test_a_file_of_another_length_says_so(tmp_path: Path) -> None:
    path = tmp_path / "model"
    data = files.encode(rich())
    for other in (data[:300], data[:-1], data + b"\n"):
        path.write_bytes(other)
        refused(path, "bytes, its first line says .*; save or copy it again")


def parts(data: bytes) -> tuple[Any, bytes]:
    """The header and the arrays of a file."""
    _, header, arrays = data.split(b"\n", 2)
    return json.loads(header), arrays


def sealed(header: bytes, arrays: bytes, version: int = files.VERSION) -> bytes:
    """A file with a first line that fits."""
    digest = hashlib.sha256(header + arrays).hexdigest()
    return f"predgap ensemble {version} {len(header)} {len(arrays)} {digest}\n".encode() + header + arrays


def change(*place: Any, to: Any) -> Callable[[Any], None]:
    def apply(header: Any) -> None:
        for key in place[:-1]:
            header = header[key]
        header[place[-1]] = to

    return apply


DAMAGE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a part is missing": (lambda h: h.pop("source"), "no object with the parts arrays, n_features"),
    "a part is new": (change("news", to=1), "no object with the parts"),
    "a count is text": (change("n_features", to="4"), "n_features is a str, expected int"),
    "a count is true": (change("n_features", to=True), "n_features is a bool"),
    "a count is negative": (change("n_features", to=-4), "n_features is not a count"),
    "a count is giant": (change("n_features", to=10**4000), "n_features is not a count"),
    "a count is large": (change("n_features", to=2**31 - 1), "at most 10000000 are supported"),
    "a count is wrong": (change("n_features", to=3), "4 feature names for 3 features"),
    "names are numbers": (change("feature_names", 0, to=1), "feature_names are not all text"),
    "names are text": (change("feature_names", to="abcd"), "feature_names is a str, expected list"),
    "a name is repeated": (change("feature_names", 0, to="colour"), "'colour' is given more than once"),
    "class names are numbers": (change("class_names", 0, to=1), "class_names are not all text"),
    "class names are text": (change("class_names", to="ab"), "class_names is a str, expected list"),
    "an unknown link": (change("link", to=["probit", 1.0]), "a link is 'probit', expected one of identity"),
    "a link without a scale": (change("link", to=["logistic"]), "expected a name and a scale"),
    "a link of scale 0": (change("link", to=["logistic", 0.0]), "the link 'logistic' has the scale 0"),
    "a link is a list": (change("link", to=[["logistic"], 1.0]), "expected one of identity"),
    "a scale is text": (change("link", to=["logistic", "1"]), "the link 'logistic' has the scale '1'"),
    "a class too many": (change("class_names", to=["a", "b", "c"]), "3 class names for 2 outputs"),
    "a class is repeated": (change("class_names", to=["a", "a"]), "'a' is given more than once"),
    "a truth value is a number": (change("unseen_is_missing", to=1), "unseen_is_missing is a int, expected"),
    "no arrays": (change("arrays", to=None), "describes other arrays than root, feature"),
    "fewer arrays": (lambda h: h["arrays"].pop("bias"), "describes other arrays"),
    "arrays in another order": (
        lambda h: h["arrays"].update(root=h["arrays"].pop("root")),
        "describes other arrays",
    ),
    "an array of objects": (
        change("arrays", "bias", 0, to="|O"),
        r"bias is \['\|O', \[2\]\], expected",
    ),
    "an array of another width": (change("arrays", "bias", 0, to="<f4"), "array bias is"),
    "a big-endian array": (change("arrays", "bias", 0, to=">f8"), "array bias is"),
    "a dimension too many": (change("arrays", "bias", 1, to=[2, 1]), "array bias is .* 1 lengths"),
    "no shape": (change("arrays", "bias", to="<f8"), "array bias is '<f8', expected"),
    "a negative length": (change("arrays", "value", 1, to=[-6, -2]), "array value is"),
    "a fractional length": (change("arrays", "bias", 1, to=[2.0]), "array bias is"),
    "a giant length": (change("arrays", "bias", 1, to=[2**31 - 1]), "its arrays take 17,179,869"),
    "a length beyond int32": (change("arrays", "bias", 1, to=[2**31]), "array bias is"),
    "nothing times a giant": (change("arrays", "value", 1, to=[0, 2**31 - 1]), "its arrays take"),
    "a longer array": (change("arrays", "bias", 1, to=[3]), "its arrays take"),
    "categories of fewer features": (lambda h: h["categories"].pop(), "3 entries of categories for 4"),
    "levels are a list": (change("categories", 1, to=[0, 1]), r"categories hold \[0, 1\], expected codes"),
    "levels without labels": (lambda h: h["categories"][1].pop("labels"), "expected codes and labels"),
    "levels with news": (change("categories", 1, "news", to=1), "expected codes and labels"),
    "a code is text": (change("categories", 1, "codes", 0, to="0"), "expected codes and labels"),
    "a code is true": (change("categories", 1, "codes", 1, to=True), "expected codes and labels"),
    "a code is giant": (change("categories", 1, "codes", 2, to=2**31), "expected codes and labels"),
    "codes descend": (change("categories", 1, "codes", 0, to=5), "in ascending order"),
    "a label is a list": (change("categories", 1, "labels", 0, to=[]), "expected codes and labels"),
    "a label is null": (change("categories", 1, "labels", 0, to=None), "expected codes and labels"),
    "a label is repeated": (change("categories", 1, "labels", 0, to=""), "not all different"),
    "a label too many": (lambda h: h["categories"][1]["labels"].append("x"), "4 labels for 3 categories"),
    "a level less": (
        change("categories", 1, to={"codes": [0, 1], "labels": None, "closed": False, "complete": True}),
        "the category 900",
    ),
    "a numeric feature": (change("categories", 1, to=None), "a set of categories on a numeric feature"),
}


DAMAGED_ARRAYS: dict[str, tuple[int | tuple[int, ...], float, str]] = {
    "root": (1, 99, "a root lies outside"),
    "feature": (0, 4, "node 0 has a split feature outside"),
    "threshold": (0, math.nan, "node 0 has a threshold that is not finite"),
    "left": (0, 0, "is reached in 2 ways"),
    "right": (0, -5, "node 0 has a child outside"),
    "default_left": (0, 2, "default_left holds values that bool cannot"),
    "value": ((1, 0), math.inf, "node 1 has a leaf value that is not finite"),
    "target": (0, 0, "target must be ALL_OUTPUTS"),
    "bias": (0, math.nan, "the bias is not finite"),
    "category_set": (2, 7, "node 2 has a set of categories outside"),
    "set_begin": (0, 1, "set_begin must run from 0"),
    "set_code": (0, -1, "must not be negative, and ascend"),
}


def unchecked(**changed: Any) -> bytes:
    """The file of an ensemble like `rich`, sound or not."""
    fields = {f.name: getattr(rich(), f.name) for f in dataclasses.fields(Ensemble)}
    return files.encode(SimpleNamespace(**fields | changed, names=rich().names))  # type: ignore[arg-type]


def test_every_loader_says_what_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "model"
    for says, data in (
        ("source", sealed(b"{}", b"")),
        ("bias is not finite", unchecked(bias=np.array([math.nan, 0.0]))),
    ):
        path.write_bytes(data)
        refused(path, f"model' is not a valid predgap ensemble: .*{says}")


BOMBS = {
    kind: lambda text=text: Bomb(sealed(f'{{"arrays":[{text}0]}}'.encode(), b""), "far more lists", 5)
    for kind, text in {
        "lists": "[]," * 300_000,
        "objects": '{"a":{}},' * 100_000,
        "nested": "[[[[[]]]]]," * 100_000,
        "texts like lists": '"[",' * 100_000 + "{}," * 99_999,
    }.items()
}


def test_headers_that_are_no_headers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model"
    for text in (b"[" * 100_000, b'{"a":' * 100_000):
        path.write_bytes(sealed(b" " * 2_000_000 + text, b""))
        refused(path, "not valid JSON")
    for text in (b"", b"\xff", b"{}{}", b'{"arrays": ' + b"9" * 5000 + b"}"):
        path.write_bytes(sealed(text, b""))
        refused(path, "not valid JSON")
    for text in (b"1", b"[]", b"null", b'"arrays"'):
        path.write_bytes(sealed(text, b""))
        refused(path, "no object with the parts")


def test_names_full_of_brackets_are_no_lists() -> None:
    names = [f"[{{{j}" for j in range(5000)]
    ensemble = ensemble_of([1.0], 5000, feature_names=names)
    assert_same(Ensemble(**files.decode(files.encode(ensemble))), ensemble)
    every = ensemble_of([1.0], 500, categories=[Categories([])] * 500)
    assert_same(Ensemble(**files.decode(files.encode(every))), every)


# ---- mutations ----


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Other values in the header, other bytes anywhere; most have a first line that fits nevertheless."""
    header, arrays = parts(data)
    if rng.random() < 0.5:
        header = mutated_document(header, rng)
    text = json.dumps(header, ensure_ascii=False).encode()
    if rng.random() < 0.3:
        text = mutated_bytes(text, rng)
    if rng.random() < 0.6:
        arrays = mutated_bytes(arrays, rng)
    whole = sealed(text, arrays)
    return mutated_bytes(whole, rng) if rng.random() < 0.2 else whole


# ---- what every loader passes ----

TREES = [Split(0, 0.5, 1.0, Split(1, -1.0, 2.0, 3.0)), Split(2, 0.0, -1.0, 1.0)]
MODELS = {"rich": rich, "numeric": lambda: ensemble_of(TREES, 3, source="mutations")}
SOUND = "model.predgap' is not a valid predgap ensemble: .*"


class TestSavedEnsembles(FileTests):
    suffix = ".predgap"
    packages = ("xgboost", "lightgbm", "catboost", "onnx", "treelite")
    models = MODELS
    damage = (*DAMAGE, *(f"array: {name}" for name in DAMAGED_ARRAYS))
    bombs = BOMBS
    large_memory = 6.0

    def assert_agrees(self, model: Any, ensemble: Ensemble) -> None:
        rows = np.array([[0.0, 1.0, 3.0, 9.0], [-1.0, 900.0, 7.0, 0.0], [math.nan] * 4])[
            :, : model.n_features
        ]
        np.testing.assert_array_equal(ensemble.predict(rows), model.predict(rows))

    def save(self, model: Ensemble, path: Path) -> None:
        model.save(path)

    def decode(self, data: bytes) -> Ensemble:
        with NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            return Ensemble.load(file.name)

    def large(self) -> Ensemble:
        return random_ensemble(np.random.default_rng(0), n_trees=100, depth=8, n_features=20)

    def damaged(self, kind: str, folder: Path) -> Damaged:
        sound = files.encode(rich())
        _, of_arrays, name = kind.rpartition("array: ")
        if of_arrays:
            at, value, says = DAMAGED_ARRAYS[name]
            array = np.array(getattr(rich(), name), dtype=files._ARRAYS[name][0])
            array[at] = value
            return Damaged(sound, unchecked(**{name: array}), SOUND + says)
        apply, says = DAMAGE[name]
        header, arrays = parts(sound)
        apply(header)
        return Damaged(sound, sealed(json.dumps(header).encode(), arrays), SOUND + says)

    def mutated(self, data: bytes, rng: np.random.Generator) -> bytes:
        return mutated(data, rng)

    def disguised(self, data: bytes) -> Iterable[bytes]:
        return b"predgap ensemble 1 " + data, sealed(data, b""), sealed(b"{}", data)

    def openings(self, data: bytes) -> Iterable[bytes]:
        return data[:300], f"predgap ensemble 1 100 {1 << 39} {'0' * 64}\n".encode()
