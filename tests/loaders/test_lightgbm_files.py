"""LightGBM's files: those of older releases, damaged ones, and any at all."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

from conformance import Bomb, Damaged, FileTests, mutated_bytes
from lightgbm_models import (
    CLASSES,
    COLOURS,
    CY_,
    EAGER,
    GAPS,
    HOLES,
    WAYS,
    assert_agrees,
    chain,
    make_frame,
    text_of,
    train,
)
from loading import assert_same, levels_of, memory_below, refused
from predgap._model.ensemble import Ensemble
from predgap.errors import UnsupportedModelError
from predgap.loaders import lightgbm as loader
from predgap.loaders import load

# ---- files of older releases, and without the library ----

OLD = b"""tree
version=v3
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=regression
average_output
feature_names=a b
feature_infos=[-2.3250307746388343:1.8016348698661251] [-2.3982328653977714:1.6891074524436731]
tree_sizes=590 606

Tree=0
num_leaves=5
num_cat=0
split_feature=1 0 0 1
split_gain=49.0722 20.0441 10.9073 6.88228
threshold=-0.17064021908150745 -0.28807710690202187 -0.44525583642496791 0.67355582124393187
decision_type=4 6 6 6
left_child=2 -2 -1 -3
right_child=1 3 -4 -5
leaf_value=-2.4318638981785621 -0.4921414033975452 0.52077482626773397 -0.91441682326193485 1.7684552412679686
leaf_weight=10.000000000000002 18 12.000000000000002 8.9999999999999982 6.9999999999999991
leaf_count=10 18 12 9 7
internal_value=0 0.598525 -1.3786 1.31492
internal_weight=0 37 19 19
internal_count=56 37 19 19
shrinkage=1


Tree=1
num_leaves=5
num_cat=0
split_feature=0 1 1 1
split_gain=56.1406 14.7313 11.3097 5.81663
threshold=-0.28807710690202187 -0.17064021908150745 0.67355582124393187 1.0366464220411473
decision_type=6 4 6 6
left_child=1 -1 -2 -3
right_child=2 3 -4 -5
leaf_value=-2.2745742382016032 0.29167268921032929 -1.0146720997523513 1.7090494035277515 0.50269875909822681
leaf_weight=9.9999999999999982 19.000000000000004 16.000000000000007 7.9999999999999991 2.9999999999999991
leaf_count=10 19 16 8 3
internal_value=0 -0.957679 1.04611 -0.440615
internal_weight=0 29 27 19
internal_count=56 29 27 19
shrinkage=1


end of trees

feature importances:
b=5
a=3

"""


def test_a_forest_of_lightgbm_2_gives_what_that_predicted(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(OLD)
    ensemble = load(path)
    nan = np.nan
    rows = [[0.0, 0.0], [nan, 1.0], [-1.0, -1.0], [-0.5, 0.3], [1e-36, -0.2], [0.7, nan], [2.0, -2.0]]
    predicted = [-0.7534067515749483, -0.7534067515749483, -2.3532190681900826, -0.7534067515749483]
    predicted += [-2.3532190681900826, 0.40622375773903163, -0.3113720670258028]
    np.testing.assert_allclose(ensemble.predict(rows), predicted, rtol=1e-15)
    assert ensemble.feature_names == ("a", "b")
    assert_agrees(lgb.Booster(model_file=str(path)), ensemble, n_iterations=2)


# ---- damaged files ----


def fixed(data: bytes) -> bytes:
    """The text with tree sizes that are right again, so that what else was changed is met."""
    head, blank, rest = data.partition(b"\n\n")
    trees, end, tail = rest.partition(b"end of trees\n")
    blocks = re.split(rb"(?<=\n)(?=Tree=)", trees) if trees else []
    sizes = b"tree_sizes=" + b" ".join(b"%d" % len(block) for block in blocks)
    return re.sub(rb"(?m)^tree_sizes=.*$", sizes, head) + blank + trees + end + tail


@pytest.fixture(scope="module")
def model_bytes() -> dict[str, bytes]:
    return {
        "plain": MODELS["plain"]().model_to_string().encode(),
        "categories": without_tail(MODELS["categories"]().model_to_string()),
    }


def without_tail(text: str) -> bytes:
    """The text with none of the importances, and only that parameter of training that matters."""
    return re.sub(
        r"(?s)(?<=end of trees\n).*(\[categorical_feature:[^\n]*\n).*?(?=end of)", r"\n\1", text
    ).encode()


def test_what_is_new_in_a_text_is_taken_from_an_object_only(tmp_path: Path) -> None:
    booster = train()
    text = booster.model_to_string()
    news = text.replace("=v4", "=v9").encode()
    assert_same(loader._loaded([news], known_only=False).ensemble, load(booster))
    path = tmp_path / "model.txt"
    for old, new in {
        "=v4": "=v9",
        "label_index": "news=1\nlabel_index",
        "num_cat": "news=1\nnum_cat",
    }.items():
        path.write_bytes(fixed(text.replace(old, new).encode()))
        refused(path, "news|v9", UnsupportedModelError)
        np.testing.assert_array_equal(
            loader._loaded([path.read_bytes()], known_only=False).ensemble.value, load(booster).value
        )


def test_every_truncation_within_the_labels_is_refused(model_bytes: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    data = model_bytes["categories"]
    assert data.endswith(b"]]\n")
    written = data.index(b"end of parameters\n") + len(b"end of parameters\n\n")
    for end in (*range(data.index(b"end of trees\n"), written - 2), *range(written + 1, len(data) - 1, 3)):
        path.write_bytes(data[:end])
        refused(path, "stops|labels of categories" if end > written - 9 else None)
    path.write_bytes(data[:-1])
    assert levels_of(load(path))[1] == dict(enumerate(sorted(COLOURS)))


def change(old: str, new: str, count: int = 1) -> Any:
    def changed(text: str) -> str:
        found = re.sub(old, new, text, count=count, flags=re.MULTILINE)
        assert found != text
        return found

    return changed


DAMAGE: dict[str, Any] = {
    "threshold of text": change(r"^threshold=\S+", "threshold=x"),
    "threshold that is missing": change(r"^threshold=\S+", "threshold=nan"),
    "threshold in words": change(r"^threshold=\S+", "threshold=infinity"),
    "threshold with an underscore": change(r"^threshold=\S+", "threshold=1_0"),
    "threshold of two signs": change(r"^threshold=\S+", "threshold=--1"),
    "threshold of digits of another script": change(r"^threshold=\S+", "threshold=\u0661"),
    "threshold of nothing": change(r"^threshold=\S+", "threshold="),
    "threshold too long": change(r"^threshold=\S+", "threshold=" + "1" * 1000),
    "threshold too few": change(r"^threshold=\S+ ", "threshold="),
    "threshold too many": change(r"^threshold=", "threshold=1 "),
    "threshold absent": change(r"^threshold=.*\n", ""),
    "threshold twice": change(r"^(threshold=.*\n)", r"\1\1"),
    "leaf infinite": change(r"^leaf_value=\S+", "leaf_value=-inf"),
    "leaf too large": change(r"^leaf_value=\S+", "leaf_value=1e200"),
    "leaves too few": change(r"^leaf_value=\S+ ", "leaf_value="),
    "feature outside": change(r"^split_feature=\S+", "split_feature=4"),
    "feature negative": change(r"^split_feature=\S+", "split_feature=-1"),
    "feature of a fraction": change(r"^split_feature=\S+", "split_feature=0.5"),
    "feature giant": change(r"^split_feature=\S+", "split_feature=99999999999999999999"),
    "feature beyond 32 bits": change(r"^split_feature=\S+", "split_feature=4294967296"),
    "decision of category": change(r"^decision_type=\S+", "decision_type=1"),
    "decision unknown": change(r"^decision_type=\S+", "decision_type=12"),
    "decision beyond": change(r"^decision_type=\S+", "decision_type=16"),
    "decision negative": change(r"^decision_type=\S+", "decision_type=-2"),
    "child outside": change(r"^left_child=\S+", "left_child=99"),
    "child leaf outside": change(r"^left_child=\S+", "left_child=-99"),
    "child of its own": change(r"^left_child=\S+", "left_child=0"),
    "child twice": change(r"^left_child=\S+( .*\nright_child=)(\S+)", r"left_child=\2\1\2"),
    "cycle": change(r"^left_child=(\S+) \S+", r"left_child=\1 0"),
    "leaves none": change(r"^num_leaves=\d+", "num_leaves=0"),
    "leaves fewer": change(r"^num_leaves=\d+", "num_leaves=2"),
    "leaves giant": change(r"^num_leaves=\d+", "num_leaves=999999999"),
    "leaves of text": change(r"^num_leaves=\d+", "num_leaves=x"),
    "linear": change(r"^is_linear=0", "is_linear=1"),
    "linear unknown": change(r"^is_linear=0", "is_linear=2"),
    "category": change(r"^num_cat=0", "num_cat=1"),
    "category unknown": change(r"^num_cat=0", "num_cat=-1"),
    "tree out of order": change(r"^Tree=0", "Tree=1"),
    "tree of many lines": change(r"^shrinkage", "\n".join(f"k{i}=" for i in range(100)) + "\nshrinkage"),
    "tree with a blank line": change(r"^num_cat", "\nnum_cat"),
    "text between trees": change(r"^Tree=1", "hello\nTree=1"),
    "text after trees": change(r"^end of trees", "hello\nend of trees"),
    "new part of a tree": change(r"^shrinkage", "news=1\nshrinkage"),
    "new part of the header": change(r"^label_index", "news=1\nlabel_index"),
    "header of many lines": change(r"^label", "\n".join(f"k{i}=" for i in range(100)) + "\nlabel"),
    "header line twice": change(r"^(num_class=.*\n)", r"\1\1"),
    "no classes": change(r"^num_class=1\n", ""),
    "other classes": change(r"^num_class=1", "num_class=3"),
    "giant classes": change(
        r"^num_class=1\nnum_tree_per_iteration=1", "num_class=999999999\nnum_tree_per_iteration=999999999"
    ),
    "trees in part of an iteration": change(
        r"^num_class=1\nnum_tree_per_iteration=1", "num_class=2\nnum_tree_per_iteration=2"
    ),
    "fewer features": change(r"^max_feature_idx=3", "max_feature_idx=2"),
    "giant features": change(r"^max_feature_idx=3", "max_feature_idx=99999999999"),
    "no features": change(r"^max_feature_idx=3", "max_feature_idx=-1"),
    "no names": change(r"^feature_names=.*\n", ""),
    "same names": change(r"^feature_names=a b", "feature_names=a a"),
    "future version": change(r"^version=v4", "version=v5"),
    "ancient version": change(r"^version=v4", "version=v2"),
}  # fmt: skip
CATEGORY_DAMAGE: dict[str, tuple[Any, str]] = {
    "no set": (change(r"^num_cat=.*", "num_cat=0"), "no set of categories of its own"),
    "set too few": (change(r"^num_cat=.*", "num_cat=1"), "cat_boundaries of tree 0 has"),
    "set of another": (change(r"^(threshold=.*)\b1\b(?!\.)", r"\g<1>0"), "no set of categories of its own"),
    "set beyond": (change(r"^(threshold=.*)\b1\b(?!\.)", r"\g<1>99"), "no set of categories of its own"),
    "set negative": (change(r"^(threshold=.*)\b1\b(?!\.)", r"\g<1>-1"), "no set of categories of its own"),
    "set of a fraction": (change(r"^(threshold=.*)\b1\b(?!\.)", r"\g<1>0.5"), "no set of categories"),
    "set infinite": (change(r"^(threshold=.*)\b1\b(?!\.)", r"\g<1>inf"), "no set of categories of its own"),
    "bounds absent": (change(r"^cat_boundaries=.*\n", ""), "there is no cat_boundaries"),
    "bounds not from 0": (change(r"^cat_boundaries=0", "cat_boundaries=1"), "do not ascend from 0"),
    "bounds below 0": (change(r"^cat_boundaries=0", "cat_boundaries=-1"), "do not ascend from 0"),
    "bounds falling": (change(r"^cat_boundaries=0 \d+", "cat_boundaries=0 99"), "do not ascend from 0"),
    "bounds too far": (change(r"^(cat_boundaries=.*) \d+$", r"\1 999999999"), "expected 999999999 numbers"),
    "bounds giant": (change(r"^(cat_boundaries=.*) \d+$", r"\1 4294967296"), "beyond 32 bits"),
    "words absent": (change(r"^cat_threshold=.*\n", ""), "there is no cat_threshold"),
    "words too few": (change(r"^cat_threshold=\d+ ", "cat_threshold="), "cat_threshold of tree 0 has"),
    "word negative": (change(r"^cat_threshold=\d+", "cat_threshold=-1"), "cat_threshold holds .* beyond 32"),
    "word too large": (change(r"^cat_threshold=\d+", "cat_threshold=4294967296"), "beyond 32 bits"),
    "word of text": (change(r"^cat_threshold=\d+", "cat_threshold=x"), "cat_threshold holds .* no number"),
    "word of a fraction": (change(r"^cat_threshold=\d+", "cat_threshold=0.5"), "holds .* no number"),
    "numeric": (change(r"^decision_type=(.*)1\b", r"decision_type=\g<1>2"), "compare it with a thr"),
    "infos absent": (change(r"^feature_infos=.*\n", ""), "there is no feature_infos"),
    "infos too few": (change(r"^feature_infos=\S+ ", "feature_infos="), "feature_infos has 3 entries"),
    "infos of text": (change(r"^feature_infos=\S+", "feature_infos=x"), "infos holds .* no number .'x'"),
    "infos giant": (change(r"^feature_infos=\S+", "feature_infos=1:99999999999"), "beyond 32 bits"),
    "infos empty": (change(r"^feature_infos=\S+", "feature_infos="), "feature_infos holds .* no number"),
    "infos of nothing": (change(r"^feature_infos=\S+", "feature_infos=1::2"), "holds .* no number"),
    "feature outside": (change(r"^split_feature=\S+", "split_feature=4"), "beyond the 4 features"),
    "labels no JSON": (change(r"categorical:.*", "categorical:[["), "labels of categories .* are damaged"),
    "labels of text": (change(r"categorical:.*", 'categorical:"ab"'), "not a list of lists"),
    "labels unlisted": (change(r"categorical:.*", 'categorical:["a", "b"]'), "not a list of lists"),
    "labels twice": (change('"green"', '"red"'), "'colour' is damaged: .* not all different"),
    "labels alike": (change('"green", "red"', "1, true"), "not all different"),
    "labels of lists": (change('"green"', '["green"]'), "called .*green.* a list"),
    "labels missing": (change('"green"', "null"), "called 'None', a NoneType"),
    "labels not a number": (change('"green"', "NaN"), "called 'nan', a float"),
    "labels of one column": (change(r"categorical:.*", 'categorical:[["a"]]'), "labels of 1 column of"),
    "labels too few": (change('"blue", "green", "red", ', ""), "'colour' has the category 3, .* that of 0"),
}  # fmt: skip


@pytest.mark.parametrize("stated", ["1", "0,1,3", "1,99,3", "name:colour", ""])
def test_what_training_was_told_counts_for_unused_features_only(
    stated: str, model_bytes: dict[str, bytes], tmp_path: Path
) -> None:
    """LightGBM also writes down what it did not heed."""
    path = tmp_path / "model.txt"
    path.write_bytes(model_bytes["categories"])
    whole = load(path)
    told = change(r"^\[categorical_feature: 1,3\]", f"[categorical_feature: {stated}]")
    path.write_text(told(model_bytes["categories"].decode()))
    assert_same(load(path), whole)


def test_damage_of_sizes_and_bytes_is_refused(model_bytes: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    data = model_bytes["plain"]
    path.write_bytes(data.replace(b"\n", b"\r\n"))
    refused(path, "carriage returns")
    for sizes in (
        b"",
        b"1 2 3",
        b"1 2",
        b"0 0 0",
        b"-1 0 0",
        b"x x x",
        b"99999999999 1 1",
        b" ".join([b"1"] * 99),
    ):
        path.write_bytes(re.sub(rb"(?m)^tree_sizes=.*$", b"tree_sizes=" + sizes, data))
        refused(path, "tree_sizes")
    path.write_bytes(data.replace(b"\nnum_cat=0", b"\nnum_cat=00", 1))
    refused(path, "tree_sizes")
    path.write_bytes(data.replace(b"feature_names=a", b"feature_names=\xff"))
    refused(path, "UTF-8")
    for opening in (b"tree\nversion=v4\n", b"tree\nversion=v4\n\n", b"tree\nversion=v\n\nend of trees\n"):
        path.write_bytes(opening)
        refused(path)


HEADER = b"tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\n"
LONG = {
    "sizes": lambda: b"tree_sizes=" + b"1 " * 1_500_000,
    "trees": lambda: b"tree_sizes=" + b"1 " * 400_000 + b"1\n\n" + b"\nTree=" * 400_001 + b"\nend of trees",
    "names": lambda: b"max_feature_idx=9999998\ntree_sizes=\nfeature_names=" + b"a " * 1_500_000,
    "lines": lambda: b"\n".join(b"k%d" % i for i in range(400_000)),
    "lines of a tree": lambda: b"tree_sizes=3000007\n\nTree=0\n" + b"a\n" * 1_500_000,
}
BOMBS = {
    kind: lambda text=text: Bomb(HEADER + text() + b"\n\nend of trees\n", times=12)
    for kind, text in LONG.items()
}


@pytest.mark.parametrize("kind", ["features", "levels", "labels", "stated"])
def test_what_would_blow_up_in_categories_is_refused_or_loads_within_bounds(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.txt"
    data = text_of([chain([[0]])], 1)
    many = [b"%d" % i for i in range(100_000)]
    if kind == "features":
        data = re.sub(rb"(?m)^max_feature_idx=0$", b"max_feature_idx=99999", data)
        data = re.sub(rb"(?m)^(feature_infos|feature_names)=.*$", rb"\1=" + b" ".join(many), data)
    elif kind == "levels":
        data = data.replace(b"=none", b"=" + b":".join(many))
    elif kind == "labels":
        data = data.replace(b":null", b':[["' + b'","'.join(many) + b'"]]')
    else:
        data = data.replace(b"\npandas", b"\n[categorical_feature: " + b",".join(many) + b"]\npandas")
    path.write_bytes(data)
    with memory_below(40 * len(data)):
        if kind == "features":
            refused(path, "100,000 categorical features", UnsupportedModelError)
        else:
            assert len(load(path).categorical()[0]) == (1 if kind == "stated" else 100_000)


# ---- what every loader passes ----

MODELS = {
    "plain": lambda: train(X=HOLES, rounds=3, feature_name=["a", "b", "c", "d"]),
    "classes": lambda: train(
        {"objective": "multiclass", "num_class": 3, "num_leaves": 5}, HOLES, CLASSES, rounds=1
    ),
    "zero": lambda: train({"zero_as_missing": True}, HOLES, rounds=2),
    "old": lambda: lgb.Booster(model_str=OLD.decode()),
    "categories": lambda: train(WAYS["partition"], make_frame(), CY_, rounds=2),
    "codes": lambda: train({**EAGER, "zero_as_missing": True}, GAPS, CY_, 2, categorical_feature=[1, 3]),
}
NUMBERS = (
    b"0",
    b"-1",
    b"1",
    b"2",
    b"-3",
    b"8",
    b"1e-35",
    b"-1e-35",
    b"1e300",
    b"nan",
    b"",
    b"4294967297",
    b"4294967295",
    b"2147483647",
    b"33",
)


class TestText(FileTests):
    suffix = ".txt"
    packages = ("lightgbm",)
    models = MODELS
    damage = (*DAMAGE, *(f"categories: {kind}" for kind in CATEGORY_DAMAGE))
    bombs = BOMBS
    ends = False  # what follows the trees does not matter
    reads_nonsense = True

    def assert_agrees(self, model: Any, ensemble: Ensemble) -> None:
        assert_agrees(model, ensemble, n_iterations=2 if model is self.model("old") else None)

    def save(self, model: Any, path: Path) -> None:
        model.save_model(str(path))

    def bytes_of(self, model: Any, folder: Path) -> bytes:
        if model is self.model("old"):
            return OLD
        text = model.model_to_string()
        return without_tail(text) if "cat_threshold" in text else text.encode()

    def decode(self, data: bytes) -> Ensemble:
        return loader._loaded([data], known_only=True).ensemble

    def large(self) -> Any:
        return train({"num_leaves": 60, "min_data_in_leaf": 1}, rounds=40)

    def essential(self, data: bytes) -> int:
        """The trees, and the labels of categories if there are splits on some."""
        if b"\npandas_categorical:[[" in data:
            return len(data) - 1
        return data.index(b"end of trees\n") + len(b"end of trees\n")

    def test_after_the_trees_only_labels_of_categories_matter(
        self, name: str, path: Path, tmp_path: Path
    ) -> None:
        data = self.small(name, tmp_path)
        path.write_bytes(data[: data.index(b"end of trees\n") + len(b"end of trees\n")])
        if b"\ncat_threshold" in data:
            refused(path, "before the labels of its categories")
        else:
            assert load(path).n_trees > 0

    def damaged(self, kind: str, folder: Path) -> Damaged:
        _, of_categories, name = kind.rpartition("categories: ")
        text = self.small("categories" if of_categories else "plain", folder).decode()
        damage, says = CATEGORY_DAMAGE[name] if of_categories else (DAMAGE[name], None)
        return Damaged(fixed(text.encode()), fixed(damage(text).encode()), says)

    def mutated(self, data: bytes, rng: np.random.Generator) -> bytes:
        """The text with a few bytes, numbers or lines changed; often with sizes that fit again."""
        text = data if b"\ncat_threshold" in data else data[: data.index(b"end of trees\n") + 60]
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(0, len(text)))
            match rng.integers(0, 7):
                case 0:
                    text = text[:at] + bytes([rng.integers(0, 256)]) + text[at + 1 :]
                case 1:
                    text = text[:at] + text[at + int(rng.integers(1, 30)) :]
                case 2:
                    other = int(rng.integers(0, len(text)))
                    text = text[:at] + text[other : other + 40] + text[at:]
                case 3:
                    lines = text.split(b"\n")
                    i, k = rng.integers(0, len(lines), 2)
                    lines[i] = lines[k]
                    text = b"\n".join(lines)
                case 4:
                    text = mutated_bytes(text, rng)
                case _:
                    spans = [match.span() for match in re.finditer(rb"(?<=[ =])[-0-9.e]+", text)]
                    start, stop = spans[rng.integers(0, len(spans))] if spans else (0, 0)
                    text = text[:start] + NUMBERS[rng.integers(0, len(NUMBERS))] + text[stop:]
        return fixed(text) if rng.random() < 0.8 else text

    def disguised(self, data: bytes) -> Iterable[bytes]:
        return b"tree\nversion=v4\n" + data, HEADER + data + b"\n\nend of trees\n"

    def openings(self, data: bytes) -> Iterable[bytes]:
        return data[:100], data[: data.index(b"end of trees") - 60]
