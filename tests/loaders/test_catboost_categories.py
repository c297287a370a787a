"""Categories of CatBoost models, which know them by a hash, against CatBoost."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import catboost as cb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from catboost_models import (
    COLOURS,
    EFFECT,
    FLAG,
    POLICIES,
    SIZE,
    SIZES,
    THIRDS,
    TRAINED_ON,
    assert_agrees,
    assert_files_load_as,
    margins_of,
    mixed,
    save_with_names,
    train_mixed,
)
from loading import refused
from predgap._model.ensemble import LEAF, Ensemble
from predgap.errors import TableError, UnsupportedModelError
from predgap.loaders import load
from predgap.loaders.catboost import categories
from predgap.loaders.catboost.categories import OTHERS, Unnamed


def mixed_rows(ensemble: Ensemble) -> pd.DataFrame:
    """All categories with numbers around thresholds; some that are new."""
    cuts = ensemble.threshold[ensemble.feature == 0][:4]
    some = itertools.product(
        [*cuts, *np.nextafter(np.float32(cuts), np.float32(-np.inf)), np.nan],
        [*COLOURS, "mauve", "nan", ""],
        [*SIZES, 5, -1, 201],
        [False, True],
    )
    return mixed(*zip(*some, strict=True))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("loss", ["RMSE", "MultiClass"])
def test_categories_go_where_catboost_sends_them(policy: str, loss: str, tmp_path: Path) -> None:
    model = train_mixed(policy, THIRDS if loss == "MultiClass" else EFFECT, loss_function=loss)
    ensemble = load(model)
    rows = mixed_rows(ensemble)
    expected = margins_of(model, rows)
    assert_agrees(ensemble, rows, expected)
    by_set = ensemble.category_set >= 0
    assert set(ensemble.feature[by_set]) == {1, 3, 4}
    assert set(ensemble.feature[~by_set]) <= {LEAF, 0, 2}
    assert not ensemble.threshold[by_set].any()
    assert_files_load_as(ensemble, model, tmp_path)
    named = load(save_with_names(model, tmp_path / "named.json"))
    assert_agrees(named, rows, expected)
    assert named.feature_names == ensemble.feature_names == tuple(TRAINED_ON.columns)


def test_levels_are_the_categories_of_splits_and_all_others(tmp_path: Path) -> None:
    model = train_mixed()
    path = save_with_names(model, tmp_path / "named.json")
    info = json.loads(path.read_text())["features_info"]
    text_of = {entry["hash"]: entry["value"] for entry in info["cat_features_hash"]}
    colours, sizes, flags, idle = (
        sorted(text_of[value & 0xFFFFFFFF] for value in feature.get("values", []))
        for feature in info["categorical_features"]
    )
    assert 0 < len(colours) < 3
    assert {"0", "7"} <= set(sizes)
    assert len(flags) == 1
    assert idle == []
    whole = {q: sorted(map(int, part)) for q, part in ((3, sizes), (4, flags))}
    numbers = {q: ([*part, part[-1] + 1], (*part, OTHERS)) for q, part in whole.items()}
    numbers[5] = ([0], (OTHERS,))
    named = load(path).categorical()
    places = [*range(len(colours) + 1)]
    assert {q: (own.codes.tolist(), own.labels) for q, own in named.items()} == {
        1: (places, (*colours, OTHERS)),
        **numbers,
    }
    unnamed = load(model).categorical()  # but numbers are found by trying
    hashes = sorted((Unnamed(categories.hash_of(colour)) for colour in colours), key=repr)
    assert {q: (own.codes.tolist(), own.labels) for q, own in unnamed.items()} == {
        1: (places, (*hashes, OTHERS)),
        **numbers,
    }
    assert sorted(unnamed[1].codes_of(colours)) == sorted(unnamed[1].codes_of(hashes)) == places[:-1]
    others = {*COLOURS, "mauve", OTHERS, Unnamed(3), str(OTHERS), str(hashes[0])} - {*colours}
    assert set(unnamed[1].codes_of(others)) == set(named[1].codes_of(others)) == {places[-1]}


def test_numbers_and_their_text_are_the_same_category() -> None:
    sizes = load(train_mixed()).categorical()[3]
    same = [7, "7", b"7", np.int8(7), np.uint64(7), 7.0]
    assert set(sizes.codes_of(same)) == {7.0}
    others = ["07", " 7", "7.0", -7, 5, 5.0, 10**30]
    assert set(sizes.codes_of(others)) == {float(sizes.codes[-1])}
    assert sizes.codes_of([False, np.False_, "0"]).tolist() == [0.0] * 3


def test_arrays_of_whole_numbers_are_categories_as_in_catboost() -> None:
    rng = np.random.default_rng(0)
    rows = rng.choice([0, 2, 5, 1000], size=(200, 2))
    model = train_mixed(y=(rows[:, 1] == 5) * 3.0 + (rows[:, 1] == 1000) + rows[:, 0] * 0.01, X=rows)
    ensemble = load(model)
    assert ensemble.feature_names is None
    assert {5.0, 1000.0} <= set(ensemble.categorical()[1].codes)
    tried = np.array([*itertools.product([0, 3, 5], [0, 1, 2, 5, 1000, 1001, 77])])
    for same in (tried, tried.astype(np.float64), tried.astype(object), pl.DataFrame(tried, ["0", "1"])):
        np.testing.assert_allclose(ensemble.predict(same), model.predict(tried), rtol=0, atol=1e-12)


def test_frames_of_any_library_hold_what_the_model_was_trained_on() -> None:
    model = train_mixed()
    ensemble = load(model)
    rows = mixed_rows(ensemble)
    expected = ensemble.predict(rows)
    forms = [
        rows.astype({"colour": "category", "size": "category"}),
        rows.astype({"size": str}),
        rows.astype({"size": "Int64", "flag": "boolean"})[rows.columns[::-1]],
        pl.from_dict(rows.to_dict("list")).with_columns(pl.col("colour").cast(pl.Categorical)),
    ]
    for form in forms:
        np.testing.assert_array_equal(ensemble.predict(form), expected)


def test_missing_categories() -> None:
    """Frames with them are refused, as by CatBoost; in arrays they are like categories that are new."""
    model = train_mixed()
    ensemble = load(model)
    for missing in (None, np.nan, pd.NA):
        rows = TRAINED_ON[:2].astype({"colour": object})
        rows.loc[0, "colour"] = missing
        with pytest.raises((cb.CatBoostError, TypeError)):
            model.predict(rows)
        is_none = "a missing value is no category; CatBoost takes text and whole numbers"
        with pytest.raises(TableError, match=f"^row 0 of column 'colour': {is_none}"):
            ensemble.predict(rows)
        with pytest.raises(TableError, match=f"^row 1 of column 'colour': {is_none}"):
            ensemble.predict(rows[::-1])
    with pytest.raises(TableError, match=r"^row 1 of column 'size': 2\.5 \(float\) is no category"):
        ensemble.predict(mixed([0.0, 0.0], ["red", "red"], [3, 2.5], [False, False]))
    objects = np.array([[0.1, None, 0.0, 7.0, 0.0, 0.0], [0.1, "red", 0.0, 2.5j, 0.0, 0.0]], dtype=object)
    with pytest.raises(TableError, match=r"^row 1 of column 3: 2\.5j \(complex\) is no category"):
        ensemble.predict(objects)
    other = ensemble.categorical()[1].codes[-1]
    codes = np.array([[0.1, code, 0.0, 7.0, 0.0, 0.0] for code in (np.nan, other)])
    assert len(set(ensemble.predict(codes))) == 1


@pytest.mark.parametrize("code", [99, -1])
def test_a_number_that_is_no_code_is_refused(code: int) -> None:
    """It may be a category to CatBoost, and its place in the model is not known."""
    with pytest.raises(
        TableError, match=rf"X\[0, 1\] is {code}, which is none of the codes .*'colour', 0 to 2"
    ):
        load(train_mixed()).predict(np.array([[0.1, code, 0.0, 7.0, 0.0, 0.0]]))


@pytest.mark.parametrize("number", [-1, 2**24, 10**15])
def test_numbers_that_are_no_codes_are_refused(number: int, tmp_path: Path) -> None:
    frame = TRAINED_ON.assign(size=np.where(SIZE == 7, number, 3))
    model = train_mixed(y=10.0 * (SIZE == 7) + 5 * (FLAG & (SIZE != 7)), X=frame)
    says = f"feature 'size' has the category {number}; predgap takes numbers from 0 to 16777214"
    with pytest.raises(UnsupportedModelError, match=says):
        load(save_with_names(model, tmp_path / "named.json", frame))
    if number == -1:
        with pytest.raises(UnsupportedModelError, match=says):
            load(model)


def test_models_of_categories_only_and_many_of_them() -> None:
    texts = np.array([f"level {i}" for i in range(255)])
    column = np.resize(texts, 2000)
    y = np.random.default_rng(0).normal(size=255)[np.arange(2000) % 255]
    model = cb.CatBoost(
        {"iterations": 40, "one_hot_max_size": 255, "verbose": 0, "allow_writing_files": False}
    )
    model.fit(cb.Pool(column[:, None], y, cat_features=[0]))
    ensemble = load(model)
    assert ensemble.n_features == 1
    assert len(ensemble.categorical()[0]) > 20
    np.testing.assert_allclose(
        ensemble.predict(texts[:, None]), model.predict(texts[:, None]), rtol=0, atol=1e-12
    )


def test_texts_are_hashed_as_catboost_hashes_them(tmp_path: Path) -> None:
    """Of all lengths that hashing tells apart, in bytes."""
    rng = np.random.default_rng(2)
    texts = ["".join(map(chr, rng.integers(1, 0xD7FF, n))) for n in range(60)]
    texts += ["".join(map(chr, rng.integers(32, 127, n))) for n in [*range(1, 140), 191, 192, 193, 1000]]
    column = pd.DataFrame({"c": texts, "x": np.arange(float(len(texts)))})
    pool = cb.Pool(column, column["x"], cat_features=["c"])
    model = cb.CatBoost({"iterations": 1, "verbose": 0, "allow_writing_files": False}).fit(pool)
    model.save_model(str(tmp_path / "model.json"), format="json", pool=pool)
    listed = json.loads((tmp_path / "model.json").read_text())["features_info"]["cat_features_hash"]
    assert len({entry["value"] for entry in listed}) == len(set(texts))
    for entry in listed:
        assert categories.hash_of(entry["value"]) == entry["hash"]
    for value in (0, 1, 2**31, 2**32 - 1, *rng.integers(0, 2**32, 100).tolist()):
        assert categories.hash_of(categories.text_with(value)) == value


def test_the_check_finds_another_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    model = train_mixed()
    right = categories.text_with
    monkeypatch.setattr(categories, "text_with", lambda value: right(value) + b"?")
    refused(model, "disagrees with CatBoost")
