"""CatBoost's JSON files: any of them, and what is none."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import catboost as cb
import numpy as np
import pandas as pd
import pytest

import predgap
from catboost_models import (
    CLASSES,
    COLOURS,
    GREATEST,
    POLICIES,
    CatBoostFileTests,
    assert_loads,
    assert_same,
    mixed_text,
    model_text,
    read,
    save,
    text_of,
    train,
)
from conformance import Damaged, deep_json, json_bombs, loads_or_refuses, mutated_json
from effort import cases
from loading import refused
from predgap._model.ensemble import LEAF
from predgap._model.rounding import least_rounding_to
from predgap.loaders import load
from predgap.loaders.catboost import json_file
from predgap.loaders.catboost.categories import OTHERS, HashedCategories


@pytest.mark.parametrize(("numbered", "complexity"), [("as in the table", 4), ("anew", 1)])
def test_a_file_may_list_only_the_numeric_features_that_are_used(
    numbered: str, complexity: int, tmp_path: Path
) -> None:
    """As old releases wrote them; CatBoost reads such files, and needs the columns up to the last one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 12)).astype(np.float32).astype(object)
    job = rng.integers(0, 6, 300)
    X[:, 5] = np.array([*"abcdef"])[job]
    y = X[:, 3] + X[:, 9] + 2 * np.where(X[:, 7] > 0.3, 1, -1) * rng.normal(size=6)[job]
    options = {"iterations": 60, "depth": 4, "verbose": 0, "allow_writing_files": False}
    options |= {
        "cat_features": [5],
        "max_ctr_complexity": complexity,
        "ignored_features": [0, 1, 4, 6, 10, 11],
    }
    model = cb.CatBoostRegressor(**options).fit(X, y)
    document = json.loads(text_of(model))
    used = [part for part in document["features_info"]["float_features"] if part["borders"]]
    new = {
        part["feature_index"]: part["feature_index"] if numbered == "as in the table" else i
        for i, part in enumerate(used)
    }
    document["features_info"]["float_features"] = used
    splits = [split for tree in document["oblivious_trees"] for split in tree["splits"]]
    elements = [part for ctr in document["features_info"]["ctrs"] for part in ctr["elements"]]
    assert any("float_feature_index" in part for part in elements) == (complexity > 1)
    for part in [*used, *splits, *elements]:
        for key in ("feature_index", "float_feature_index"):
            if key in part:
                part[key] = new[part[key]]
    n = 1 + max(part["flat_feature_index"] for part in used)
    assert n == 10
    assert len(used) < 6
    (tmp_path / "model.json").write_text(json.dumps(document))
    read_by_catboost = cb.CatBoost().load_model(str(tmp_path / "model.json"), format="json")
    read_by_catboost.save_model(str(tmp_path / "model.cbm"))
    for source in (tmp_path / "model.json", tmp_path / "model.cbm", read_by_catboost):
        found = load(source)
        assert (found.n_features, [*found.categorical()]) == (n, [5])
        rows = pd.DataFrame({q: X[:, q] if q == 5 else X[:, q].astype(float) for q in range(n)})
        explainer = predgap.Explainer(found, rows)
        np.testing.assert_allclose(
            found.predict(explainer.transform(rows)), read_by_catboost.predict(rows), rtol=1e-10
        )


def stumps(borders: np.ndarray, policy: str = "SymmetricTree", **feature: Any) -> dict[str, Any]:
    """A document with one feature and a stump for each of its borders."""
    document = json.loads(model_text())
    one = document["features_info"]["float_features"][0]
    document["features_info"]["float_features"] = [{**one, "borders": borders.tolist(), **feature}]
    splits = [
        {"border": border, "float_feature_index": 0, "split_index": i, "split_type": "FloatFeature"}
        for i, border in enumerate(borders.tolist())
    ]
    del document["oblivious_trees"]
    if policy == "SymmetricTree":
        document["oblivious_trees"] = [
            {"leaf_values": [-1.0, 1.0], "leaf_weights": [1, 1], "splits": [split]} for split in splits
        ]
    else:
        ends = [{"value": -1.0, "weight": 1}, {"value": 1.0, "weight": 1}]
        document["trees"] = [{"left": ends[0], "right": ends[1], "split": split} for split in splits]
    return document


@pytest.mark.parametrize("policy", POLICIES[:2])
@pytest.mark.parametrize("treatment", ["AsIs", "AsFalse", "AsTrue"])
@pytest.mark.parametrize("has_nans", [True, False])
def test_any_border_is_read_as_catboost_reads_it(
    policy: str, treatment: str, has_nans: bool, tmp_path: Path
) -> None:
    """The smallest and largest singles, zero, and several hundred others: more than a byte can count."""
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, 300, dtype=np.uint32).view(np.float32)
    some = np.float32([1e-45, -1e-45, 0.0, 1.0, 0.1, 2.0**-126, GREATEST, -GREATEST])
    borders = np.unique(
        np.concatenate([bits[np.isfinite(bits)], some, rng.normal(size=300).astype(np.float32)])
    )
    path = tmp_path / "model.json"
    document = stumps(borders.astype(np.float64), policy, has_nans=has_nans, nan_value_treatment=treatment)
    path.write_text(json.dumps(document))
    ensemble = load(path)
    model = cb.CatBoost().load_model(str(path), format="json")
    low, high = np.float32(-np.inf), np.float32(np.inf)
    with np.errstate(over="ignore"):
        rows = np.concatenate([borders, np.nextafter(borders, low), np.nextafter(borders, high), [np.nan]])
    rows = rows.astype(np.float32)[:, None]
    theirs = model.calc_leaf_indexes(rows)
    np.testing.assert_array_equal(ensemble.leaves(rows) == ensemble.right[ensemble.root], theirs)
    assert_same(load(model), ensemble)


def test_numbers_are_saved_and_read_without_loss(tmp_path: Path) -> None:
    model = train(CLASSES, loss_function="MultiClass", iterations=20)
    ensemble = load(save(model, tmp_path / "model.json"))
    np.testing.assert_array_equal(
        ensemble.value[ensemble.feature == LEAF].ravel(), np.ravel(model.get_leaf_values())
    )
    ends = set(ensemble.threshold[ensemble.feature != LEAF].tolist())
    borders = [np.float32(b) for of_feature in model.get_borders().values() for b in of_feature]
    above = np.nextafter(borders, np.float32(np.inf))
    assert ends == set(least_rounding_to(above.astype(np.float64)).tolist())


# ---- files that are not models ----


def first_feature(document: Any, **changes: Any) -> None:
    document["features_info"]["float_features"][0].update(changes)


def first_split(document: Any, **changes: Any) -> None:
    document["oblivious_trees"][0]["splits"][0].update(changes)


def first_tree(document: Any, **changes: Any) -> None:
    document["oblivious_trees"][0].update(changes)


def leaf_value(document: Any, value: Any) -> None:
    document["oblivious_trees"][1]["leaf_values"][3] = value


DAMAGE: dict[str, Any] = {
    "infinite border": lambda d: first_feature(d, borders=[float("inf")]),
    "infinite borders": lambda d: first_feature(d, borders=[float("inf")] * 2),
    "border beyond float32": lambda d: first_feature(d, borders=[1e300]),
    "missing border": lambda d: first_feature(d, borders=[float("nan")]),
    "text for a border": lambda d: first_feature(d, borders=["0.5"]),
    "borders that descend": lambda d: d["features_info"]["float_features"][0]["borders"].reverse(),
    "equal borders": lambda d: first_feature(d, borders=[0.5, 0.5]),
    "borders equal as singles": lambda d: first_feature(d, borders=[0.5, 0.5 + 1e-12]),
    "no borders": lambda d: first_feature(d, borders=None),
    "fewer borders": lambda d: d["features_info"]["float_features"][0]["borders"].pop(),
    "more borders": lambda d: d["features_info"]["float_features"][0]["borders"].append(1e9),
    "number for has_nans": lambda d: first_feature(d, has_nans=1),
    "other treatment": lambda d: first_feature(d, nan_value_treatment="AsNew"),
    "list for the treatment": lambda d: first_feature(d, nan_value_treatment=[]),
    "another column": lambda d: first_feature(d, flat_feature_index=1),
    "another number": lambda d: first_feature(d, feature_index=7),
    "number for a name": lambda d: first_feature(d, feature_id=3),
    "equal names": lambda d: first_feature(d, feature_id="b"),
    "new part of a feature": lambda d: first_feature(d, news=1),
    "no features": lambda d: d["features_info"].pop("float_features"),
    "text for features": lambda d: d["features_info"].update(float_features="x"),
    "number for a feature": lambda d: d["features_info"].update(float_features=[1]),
    "one feature less": lambda d: d["features_info"]["float_features"].pop(0),
    "no feature info": lambda d: d.pop("features_info"),
    "new feature info": lambda d: d["features_info"].update(sounds=[]),
    "text features": lambda d: d["features_info"].update(text_features=[{}]),
    "infinite leaf": lambda d: leaf_value(d, float("inf")),
    "giant leaf": lambda d: leaf_value(d, 1e300),
    "giant integer": lambda d: leaf_value(d, 10**400),
    "text for a leaf": lambda d: leaf_value(d, "1"),
    "null leaf": lambda d: leaf_value(d, None),
    "true leaf": lambda d: leaf_value(d, True),
    "list for a leaf": lambda d: leaf_value(d, [1.0]),
    "leaf too few": lambda d: d["oblivious_trees"][1]["leaf_values"].pop(),
    "leaf too many": lambda d: d["oblivious_trees"][1]["leaf_values"].append(1.0),
    "no leaves": lambda d: first_tree(d, leaf_values=None),
    "no splits": lambda d: first_tree(d, splits=None),
    "object for splits": lambda d: first_tree(d, splits={}),
    "text for a split": lambda d: first_tree(d, splits=["x"] * 3),
    "too deep": lambda d: first_tree(d, splits=d["oblivious_trees"][0]["splits"] * 20),
    "new part of a tree": lambda d: first_tree(d, news=1),
    "split index outside": lambda d: first_split(d, split_index=10**6),
    "negative split index": lambda d: first_split(d, split_index=-1),
    "fractional split index": lambda d: first_split(d, split_index=0.5),
    "giant split index": lambda d: first_split(d, split_index=1e300),
    "missing split index": lambda d: first_split(d, split_index=None),
    "no split index": lambda d: d["oblivious_trees"][0]["splits"][0].pop("split_index"),
    "another border": lambda d: first_split(d, border=0.123),
    "another feature": lambda d: first_split(d, float_feature_index=99),
    "no split type": lambda d: first_split(d, split_type=None),
    "new split type": lambda d: first_split(d, split_type="News"),
    "no trees": lambda d: d.pop("oblivious_trees"),
    "null for trees": lambda d: d.update(oblivious_trees=None),
    "empty trees": lambda d: d.update(oblivious_trees=[]),
    "text for trees": lambda d: d.update(oblivious_trees="x"),
    "number for a tree": lambda d: d.update(oblivious_trees=[3]),
    "two kinds of trees": lambda d: d.update(trees=[{"value": 1.0}]),
    "no bias": lambda d: d.pop("scale_and_bias"),
    "old bias": lambda d: d.update(scale_and_bias=[1, 0.5]),
    "empty bias": lambda d: d.update(scale_and_bias=[1, []]),
    "two biases": lambda d: d.update(scale_and_bias=[1, [0, 0]]),
    "infinite bias": lambda d: d.update(scale_and_bias=[1, [float("inf")]]),
    "infinite scale": lambda d: d.update(scale_and_bias=[float("-inf"), [0]]),
    "giant scale": lambda d: d.update(scale_and_bias=[1e308, [0]]),
    "text for a scale": lambda d: d.update(scale_and_bias=["1", [0]]),
    "new part": lambda d: d.update(news=[]),
}  # fmt: skip


def test_one_bias_for_all_outputs_is_of_an_old_catboost(tmp_path: Path) -> None:
    document = json.loads(model_text())
    DAMAGE["old bias"](document)
    (tmp_path / "model.json").write_text(json.dumps(document))
    refused(tmp_path / "model.json", "load it with CatBoost 1.2 and save it again")


GROWN_DAMAGE: dict[str, Any] = {
    "no left": lambda t: t.pop("left"),
    "null right": lambda t: t.update(right=None),
    "list for a child": lambda t: t.update(right=[]),
    "text for a child": lambda t: t.update(left="value"),
    "no split": lambda t: t.pop("split"),
    "list for a split": lambda t: t.update(split=[1]),
    "split and value": lambda t: t.update(value=1.0),
    "new part": lambda t: t.update(news=1),
    "new part of a leaf": lambda t: t.update(left={"value": 1.0, "news": 1}),
    "weight only": lambda t: t.update(left={"weight": 1.0}),
    "empty child": lambda t: t.update(left={}),
    "text for a value": lambda t: t.update(left={"value": "1"}),
    "values for a value": lambda t: t.update(left={"value": [1.0]}),
    "split index outside": lambda t: t["split"].update(split_index=10**6),
    "other type": lambda t: t["split"].update(split_type="OneHotFeature"),
    "no split index": lambda t: t["split"].pop("split_index"),
    "list for a split index": lambda t: t["split"].update(split_index=[1]),
    "missing split index": lambda t: t["split"].update(split_index=float("nan")),
    "true split index": lambda t: t["split"].update(split_index=True),
    "text for a tree": lambda t: t.update(left="abc", right="abc"),
}


def colour(document: Any, **changes: Any) -> None:
    document["features_info"]["categorical_features"][0].update(changes)


def name_of_colour(document: Any, **changes: Any) -> None:
    value = document["features_info"]["categorical_features"][0]["values"][0] & 0xFFFFFFFF
    entries = document["features_info"]["cat_features_hash"]
    next(entry for entry in entries if entry["hash"] == value).update(changes)


def one_hot(document: Any, **changes: Any) -> None:
    splits = (split for tree in document["oblivious_trees"] for split in tree["splits"])
    place = next(split for split in splits if split["split_type"] == "OneHotFeature")["split_index"]
    for tree in document["oblivious_trees"]:
        for split in tree["splits"]:
            if split["split_index"] == place:
                split.update(changes)


def add_to_colours(document: Any, number: int) -> None:
    values = document["features_info"]["categorical_features"][0]["values"]
    values[:] = [value + number for value in values]
    for tree in document["oblivious_trees"]:
        for split in tree["splits"]:
            if split.get("cat_feature_index") == 0:
                split["value"] += number


MIXED_DAMAGE: dict[str, Any] = {
    "equal values": lambda d: colour(d, values=[5, 5]),
    "values too large": lambda d: add_to_colours(d, 2**32),
    "values too small": lambda d: add_to_colours(d, -(2**32)),
    "giant value": lambda d: colour(d, values=[10**400]),
    "fractional value": lambda d: colour(d, values=[0.5]),
    "text for a value": lambda d: colour(d, values=["red"]),
    "number for values": lambda d: colour(d, values=5),
    "other values": lambda d: colour(d, values=[1, 2]),
    "no values": lambda d: colour(d, values=None),
    "another column": lambda d: colour(d, flat_feature_index=0),
    "a column too far": lambda d: colour(d, flat_feature_index=2**20),
    "text for a column": lambda d: colour(d, flat_feature_index="1"),
    "no column": lambda d: colour(d, flat_feature_index=None),
    "another number": lambda d: colour(d, feature_index=1),
    "equal names": lambda d: colour(d, feature_id="x"),
    "new part of a feature": lambda d: colour(d, news=1),
    "text for features": lambda d: d["features_info"].update(categorical_features="x"),
    "one feature less": lambda d: d["features_info"]["categorical_features"].pop(0),
    "another name": lambda d: name_of_colour(d, value="mauve"),
    "number for a name": lambda d: name_of_colour(d, value=3),
    "new part of a name": lambda d: name_of_colour(d, news=3),
    "text for names": lambda d: d["features_info"].update(cat_features_hash="x"),
    "split on another value": lambda d: one_hot(d, value=1),
    "split on another feature": lambda d: one_hot(d, cat_feature_index=3),
    "split on a number": lambda d: one_hot(d, split_type="FloatFeature"),
    "split elsewhere": lambda d: one_hot(d, split_index=0),
    "split beyond": lambda d: one_hot(d, split_index=10**6),
    "split on nothing": lambda d: one_hot(d, value=None),
    "CTRs": lambda d: d["features_info"].update(ctrs=[{}]),
}


def test_unknown_names_do_not_matter(tmp_path: Path) -> None:
    document = json.loads(mixed_text())
    entries = document["features_info"]["cat_features_hash"]
    entries += [{"hash": 1, "value": "no category of the model"}, {"hash": None, "value": None}]
    (tmp_path / "model.json").write_text(json.dumps(document))
    known = load(tmp_path / "model.json").categorical()[1]
    assert isinstance(known, HashedCategories)
    assert set(known.labels or ()) < {*COLOURS, OTHERS}


@pytest.mark.parametrize("value", [1.0, [1.0], [1.0, 2.0], [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, "3"], "abc"])
def test_leaves_with_other_values_than_outputs_are_refused(value: Any, tmp_path: Path) -> None:
    document = json.loads(model_text("Lossguide", classes=True))
    document["trees"][0]["left"] = {"value": value, "weight": 1}
    (tmp_path / "model.json").write_text(json.dumps(document))
    refused(tmp_path / "model.json")


def test_what_does_not_matter_may_differ(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    document = json.loads(model_text())
    path.write_text("\n" + json.dumps(document, indent=3) + "\n ")
    expected = load(path)
    for tree in document["oblivious_trees"]:
        del tree["leaf_weights"]
    for info in (None, 3, {"params": {"loss_function": []}}, {"catboost_version_info": 4}):
        document["model_info"] = info
        path.write_text(json.dumps({key: document[key] for key in sorted(document, reverse=True)}))
        found = load(path)
        assert found.source == "CatBoost"
        np.testing.assert_array_equal(found.value, expected.value)


def test_trees_may_have_any_number_of_levels(tmp_path: Path) -> None:
    """Symmetric trees of different depths, one of a single leaf, as CatBoost reads them."""
    document = json.loads(model_text())
    trees = document["oblivious_trees"]
    trees[0].update(splits=[], leaf_values=[0.25], leaf_weights=[1])
    trees[1].update(splits=trees[1]["splits"][:1], leaf_values=[1.0, 2.0], leaf_weights=[1, 1])
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    ensemble = load(path)
    assert ensemble.n_nodes == 1 + 3 + 15
    assert_loads(cb.CatBoost().load_model(str(path), format="json"))


def test_spaces_and_order_do_not_matter_to_other_trees(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    document = json.loads(model_text("Lossguide"))
    names = ("trees", ' "trees" : [ ', "tr ees", "x y")
    for feature, name in zip(document["features_info"]["float_features"], names, strict=True):
        feature["feature_id"] = name
    path.write_text(json.dumps(document))
    expected = load(path)
    assert expected.feature_names == names
    for indent, keys in (
        (1, sorted(document)),
        (None, sorted(document, reverse=True)),
        (40, sorted(document)),
    ):
        path.write_text(json.dumps({key: document[key] for key in keys}, indent=indent))
        assert_same(load(path), expected)


@pytest.mark.parametrize(
    "trees",
    [
        "[]",
        "[ ]",
        "{}",
        "null",
        "3",
        "[{}]",
        "[{},]",
        "[1,2]",
        "[null]",
        "[[]]",
        '["abc"]',
        "[,]",
        "[",
        "[{",
        "",
    ],
)
def test_other_things_than_trees_are_refused(trees: str, tmp_path: Path) -> None:
    document = json.loads(model_text("Depthwise"))
    del document["trees"]
    (tmp_path / "model.json").write_text(f'{json.dumps(document)[:-1]}, "trees": {trees}}}')
    refused(tmp_path / "model.json")


def test_trees_elsewhere_or_twice_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    document = json.loads(model_text("Depthwise"))
    document["model_info"]["trees"] = document["trees"]
    path.write_text(json.dumps({key: document[key] for key in ("model_info", *sorted(document))}))
    refused(path, "no trees")
    del document["trees"]
    path.write_text(json.dumps(document))
    refused(path, "no trees")


def test_files_of_too_many_numbers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.json"
    monkeypatch.setattr(json_file, "_MAX_NUMBERS", 1000)
    path.write_text(f'{{"trees":[{"0," * 1001}0]}}')
    refused(path, "more than 1,000 numbers")


# ---- what every loader passes ----


class TestJson(CatBoostFileTests):
    suffix = ".json"
    damage = (
        *DAMAGE,
        *(f"grown: {kind}" for kind in GROWN_DAMAGE),
        *(f"categories: {kind}" for kind in MIXED_DAMAGE),
    )
    bombs = json_bombs("trees") | deep_json('{"trees":')

    def bytes_of(self, model: Any, folder: Path) -> bytes:
        return text_of(model).encode()

    def damaged(self, kind: str, folder: Path) -> Damaged:
        what, _, name = kind.rpartition(": ")
        text = {"": model_text, "grown": partial(model_text, "Depthwise"), "categories": mixed_text}[what]()
        document = json.loads(text)
        if what == "grown":
            GROWN_DAMAGE[name](document["trees"][1])
        else:
            (MIXED_DAMAGE if what else DAMAGE)[name](document)
        return Damaged(text.encode(), json.dumps(document).encode())

    def mutated(self, data: bytes, rng: np.random.Generator) -> bytes:
        return mutated_json(data, rng)

    def disguised(self, data: bytes) -> Iterable[bytes]:
        return (
            b'{"trees":' + data + b"}",
            b'{"oblivious_trees":' + data + b"}",
            b'{"trees":\xff' + data + b"}",
        )


@pytest.mark.parametrize("policy", POLICIES[:2])
def test_mutated_names_of_categories_load_or_are_refused(policy: str) -> None:
    data, rng = mixed_text(policy).encode(), np.random.default_rng(0)
    found = Counter(loads_or_refuses(read, mutated_json(data, rng)) for _ in range(cases(*TestJson.mutants)))
    assert found["loaded"]
    assert found["LoaderError"]
