"""Categories of XGBoost: sets of codes, and labels of frames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost as xgb

from loading import assert_same, memory_below, refused
from predgap._model.ensemble import LEAF, NUMERIC, Ensemble
from predgap.errors import UnsupportedModelError
from predgap.loaders import load, translation
from xgboost_models import (
    AIM_,
    CODES_,
    COLOURS,
    RELEASE,
    SIZES,
    TYPES,
    assert_agrees,
    categorical,
    labels_of,
    make_frame,
    save,
    train,
    train_on,
)

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # XGBoost's own


# ---- trees that split on codes ----


def rows_of_codes(ensemble: Ensemble, n: int = 600) -> np.ndarray:
    """Rows at and around thresholds, with all codes, and with codes that are none."""
    rng = np.random.default_rng(2)
    rows = translation.rows_at_thresholds(ensemble, n).copy()
    for q, levels in ensemble.categorical().items():
        strange = [-1, -7, len(levels), 31, 32, 64, 1000, 2**24 - 1, 2**24, 2**30, np.nan, np.nan]
        rows[:, q] = rng.choice([*levels.codes, *strange], n)
    return rows


def assert_codes_agree(booster: Any, ensemble: Ensemble, ulps: float = 2.0) -> None:
    rows = rows_of_codes(ensemble)
    matrix = xgb.DMatrix(rows, feature_types=TYPES, enable_categorical=True)
    leaves, margins = (
        booster.predict(matrix, validate_features=False, **{what: True})
        for what in ("pred_leaf", "output_margin")
    )
    assert_agrees(ensemble, rows, leaves, margins, ulps)


OF_CATEGORIES: dict[str, dict[str, Any]] = {
    "one-hot": {"max_cat_to_onehot": 99},
    "partition": {"max_cat_to_onehot": 1},
    "both": {"max_cat_to_onehot": 20},
    "approx": {"max_cat_to_onehot": 1, "tree_method": "approx"},
    "pruned": {"max_cat_to_onehot": 1, "tree_method": "approx", "gamma": 2.0, "max_depth": 6},
    "leafwise": {"max_cat_to_onehot": 20, "grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0},
    "dart": {"max_cat_to_onehot": 1, "booster": "dart", "rate_drop": 0.5, "seed": 2},
    "forest": {"max_cat_to_onehot": 1, "num_parallel_tree": 2, "subsample": 0.7},
    "classes": {"y": np.digitize(AIM_, [-0.5, 0.5]), "objective": "multi:softprob", "num_class": 3},
    "logistic": {"y": (AIM_ > 0).astype(float), "objective": "binary:logistic"},
    "poisson": {"y": np.abs(AIM_), "objective": "count:poisson", "base_score": 0.3},
}


@pytest.mark.parametrize("kind", OF_CATEGORIES)
def test_categories_agree_with_the_library(kind: str, tmp_path: Path) -> None:
    ulps = 8.0 if kind == "dart" else 2.0
    for data in (CODES_, make_frame()):
        booster = train_on(data, **OF_CATEGORIES[kind])
        loaded = load(booster)
        used = set(loaded.feature[loaded.category_set != NUMERIC])
        assert used == {0, 2}
        assert_codes_agree(booster, loaded, ulps)
        for suffix in ("json", "ubj"):
            path = save(booster, tmp_path, suffix)
            assert_same(load(path), loaded)
            assert_codes_agree(xgb.Booster(model_file=str(path)), load(path), ulps)


def test_a_pruned_split_on_categories_is_a_leaf(tmp_path: Path) -> None:
    grown = train_on(CODES_, max_depth=6, max_cat_to_onehot=1)
    matrix = xgb.DMatrix(CODES_, label=AIM_, feature_types=TYPES, enable_categorical=True)
    params = {"process_type": "update", "updater": "prune", "gamma": 3.0, "nthread": 1}
    booster = xgb.train(params, matrix, 4, xgb_model=grown)
    ensemble = load(booster)
    trees = json.loads(save(booster, tmp_path, "json").read_text())["learner"]["gradient_booster"]["model"][
        "trees"
    ]
    kinds = np.concatenate([tree["split_type"] for tree in trees])
    assert (kinds[ensemble.feature == LEAF] == 1).any()
    assert (ensemble.category_set[ensemble.feature == LEAF] == NUMERIC).all()
    assert_codes_agree(booster, ensemble)


# ---- labels ----


def test_levels_are_the_labels_of_the_frame_or_else_the_codes_of_the_trees() -> None:
    ensemble = load(train_on(make_frame()))
    assert labels_of(ensemble) == {0: COLOURS, 2: SIZES, 4: ("one",)}
    assert [levels is None for levels in ensemble.categories or ()] == [False, True, False, True, False]
    ensemble = load(train_on(CODES_))
    largest = {
        q: max(
            ensemble.set_code[ensemble.set_begin[i + 1] - 1]
            for i in ensemble.category_set[ensemble.feature == q]
        )
        for q in (0, 2)
    }
    assert labels_of(ensemble) == {q: tuple(range(code + 1)) for q, code in largest.items()} | {4: ()}
    assert load(train()).categories is None


def test_frames_with_other_orders_of_categories_agree() -> None:
    rng = np.random.default_rng(4)
    frame = make_frame()
    booster = train_on(frame, max_cat_to_onehot=20)
    ensemble = load(booster)
    expected = booster.predict(xgb.DMatrix(frame, enable_categorical=True))
    np.testing.assert_allclose(ensemble.predict(frame), expected, rtol=1e-5, atol=1e-6)
    other = frame.copy()
    for name in ("colour", "size"):
        other[name] = other[name].cat.reorder_categories(rng.permutation(other[name].cat.categories))
    some = frame[frame["colour"].isin(["m", "k"])].copy()
    some["colour"] = some["colour"].cat.remove_unused_categories()
    for changed in (other, some, other.iloc[::-1]):
        theirs = booster.predict(xgb.DMatrix(changed, enable_categorical=True))
        np.testing.assert_allclose(ensemble.predict(changed), theirs, rtol=1e-5, atol=1e-6)
        texts = changed.assign(colour=changed["colour"].astype(object))  # the dtype does not matter here
        np.testing.assert_array_equal(ensemble.predict(texts), ensemble.predict(changed))
        assert len(np.unique(theirs.round(5))) > 8
    unknown, unseen = frame.assign(colour="no colour"), CODES_.copy()
    unseen[:, 0] = 99
    np.testing.assert_array_equal(ensemble.predict(unknown), ensemble.predict(unseen))
    assert ensemble.predict(unknown).tolist() != ensemble.predict(frame.assign(colour=None)).tolist()


@pytest.mark.parametrize("library", ["categorical", "enum", "arrow"])
def test_frames_of_other_libraries_agree(library: str) -> None:
    frame = make_frame()
    texts = frame["colour"].astype(object).where(frame["colour"].notna(), None).to_list()
    kind = pl.Enum([*COLOURS, "unused"]) if library == "enum" else pl.Categorical()
    data: Any = pl.DataFrame({"x": CODES_[:, 1], "colour": pl.Series(texts, dtype=kind)})
    if library == "arrow":
        data = pa.table({"x": CODES_[:, 1], "colour": pa.array(texts).dictionary_encode()})
    matrix = xgb.DMatrix(data, label=AIM_, enable_categorical=True)
    booster = xgb.train({"max_depth": 4, "nthread": 1, "max_cat_to_onehot": 1}, matrix, 4)
    ensemble = load(booster)
    (labels,) = labels_of(ensemble).values()
    assert set(labels) == {*COLOURS, *(["unused"] if library == "enum" else [])}
    theirs = booster.predict(matrix)
    np.testing.assert_allclose(ensemble.predict(data), theirs, rtol=1e-5, atol=1e-6)
    as_pandas = pd.DataFrame({"x": CODES_[:, 1], "colour": texts})
    np.testing.assert_array_equal(ensemble.predict(as_pandas), ensemble.predict(data))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
def test_labels_may_be_integers_of_any_size(dtype: Any, tmp_path: Path) -> None:
    limits = np.iinfo(dtype)
    labels = tuple(int(v) for v in np.linspace(float(limits.min) / 2, float(limits.max) / 2, 7).astype(dtype))
    labels = (*labels[:-1], int(limits.max))  # no float holds the largest one of 64 bits
    codes = np.nan_to_num(CODES_[:, 0])
    frame = pd.DataFrame({"c": categorical(codes, labels).rename_categories(np.array(labels, dtype=dtype))})
    booster = train_on(frame, rounds=1)
    for source in (booster, *(save(booster, tmp_path, suffix) for suffix in ("json", "ubj"))):
        assert labels_of(load(source)) == {0: labels}
    theirs = booster.predict(xgb.DMatrix(frame, enable_categorical=True))
    np.testing.assert_allclose(load(booster).predict(frame), theirs, rtol=1e-5, atol=1e-6)


def test_letters_beyond_ascii_are_refused_unless_they_are_stored_well(tmp_path: Path) -> None:
    labels = np.array(["grün", "rot", "blau"])
    codes = np.nan_to_num(CODES_[:, 0]).astype(int) % 3
    says = "categories of feature 0 have letters beyond ASCII, which XGBoost before 3.4"
    if RELEASE < (3, 4):
        with pytest.raises(UnsupportedModelError, match=says):
            load(train_on(pd.DataFrame({"c": categorical(codes, tuple(labels))}), rounds=1))
    path = save(
        train_on(pl.DataFrame({"c": pl.Series(labels[codes], dtype=pl.Categorical())})), tmp_path, "json"
    )
    document = json.loads(path.read_text())
    document["version"] = [3, 4, 0]
    path.write_text(json.dumps(document))
    assert set(labels_of(load(path))[0]) == set(labels)
    (column,) = document["learner"]["gradient_booster"]["model"]["cats"]["enc"]
    column["offsets"] = [0, 3, 7, 12]  # one of these is within the letter
    column["values"] = list(np.frombuffer("grünrotblau".encode(), dtype=np.int8).tolist())
    path.write_text(json.dumps(document))
    refused(path, says, UnsupportedModelError)


# ---- wrappers ----


def wrappers_of_categories() -> dict[str, Any]:
    few: dict[str, Any] = {"n_estimators": 4, "max_depth": 4, "n_jobs": 1, "enable_categorical": True}
    frame = make_frame()
    stopped = xgb.XGBRegressor(**(few | {"n_estimators": 60}), learning_rate=0.8, early_stopping_rounds=3)
    noisy = AIM_ + np.random.default_rng(0).normal(size=len(AIM_))
    return {
        "frame": xgb.XGBRegressor(**few, max_cat_to_onehot=20).fit(frame, AIM_),
        "codes": xgb.XGBRegressor(**few, feature_types=TYPES).fit(CODES_, AIM_),
        "classes": xgb.XGBClassifier(**few).fit(frame, np.digitize(AIM_, [-0.5, 0.5])),
        "forest": xgb.XGBRFClassifier(**few).fit(frame, AIM_ > 0),
        "ranker": xgb.XGBRanker(**few).fit(frame, AIM_ > 0, group=[100] * 3),
        "dart": xgb.XGBRegressor(**few, booster="dart", rate_drop=0.5).fit(frame, AIM_),
        "stopped": stopped.fit(
            frame[:200], noisy[:200], eval_set=[(frame[200:], noisy[200:])], verbose=False
        ),
    }


def test_wrappers_of_categories_agree_with_their_own_margins() -> None:
    for name, model in wrappers_of_categories().items():
        ensemble = load(model)
        rows = rows_of_codes(ensemble)
        booster = model.get_booster()
        span = (0, model.best_iteration + 1) if name == "stopped" else (0, 0)
        leaves = booster.predict(
            xgb.DMatrix(rows), pred_leaf=True, iteration_range=span, validate_features=False
        )
        margins = model.predict(rows, output_margin=True, validate_features=False)
        assert_agrees(ensemble, rows, leaves, margins, 8.0 if name in ("dart", "stopped") else 2.0)
        X = CODES_ if name == "codes" else make_frame()
        theirs = model.predict(X, output_margin=True)
        np.testing.assert_allclose(ensemble.predict(X), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("missing", [0.0, 3.0])
def test_a_missing_value_of_a_wrapper_may_be_a_code(missing: float) -> None:
    data = np.where(np.isnan(CODES_), np.float32(missing), CODES_)
    model = xgb.XGBRegressor(
        n_estimators=4, n_jobs=1, missing=missing, feature_types=TYPES, enable_categorical=True
    )
    model.fit(data, AIM_)
    ensemble = load(model)
    rows = rows_of_codes(ensemble)
    rows[::3, 2] = missing
    margins = model.predict(rows, output_margin=True)
    assert_agrees(ensemble, rows, model.apply(rows), margins)
    gone = rows.copy()
    gone[rows == missing] = np.nan
    np.testing.assert_array_equal(ensemble.predict(gone), ensemble.predict(rows))


# ---- odd models ----


def test_a_feature_with_thresholds_and_categories_is_refused_by_name() -> None:
    first = train_on(CODES_, rounds=2)
    numeric = xgb.DMatrix(CODES_, label=AIM_)
    booster = xgb.train({"max_depth": 4, "nthread": 1}, numeric, 2, xgb_model=first)
    booster.feature_types = None
    with pytest.raises(UnsupportedModelError, match=r"feature 0 is categorical, but .* a threshold"):
        load(booster)


def test_types_may_be_gone() -> None:
    booster = train_on(CODES_)
    expected = load(booster)
    booster.feature_types = None
    ensemble = load(booster)
    assert labels_of(ensemble).keys() == {0, 2}  # nothing tells that the last one is categorical
    np.testing.assert_array_equal(ensemble.predict(CODES_), expected.predict(CODES_))
    booster = train_on(make_frame())
    booster.feature_types = None
    assert labels_of(load(booster)) == {0: COLOURS, 2: SIZES, 4: ("one",)}


def test_huge_codes_do_not_take_huge_memory(tmp_path: Path) -> None:
    codes = np.where(np.arange(300)[:, None] % 2 == 0, 100_000, 3)
    matrix = xgb.DMatrix(codes, label=codes[:, 0] / 1e5, feature_types=["c"], enable_categorical=True)
    booster = xgb.train({"max_depth": 1, "nthread": 1, "max_cat_to_onehot": 1 << 20}, matrix, 1)
    ensemble = load(booster)
    assert len(ensemble.categorical()[0]) in (4, 100_001)
    path = save(booster, tmp_path, "json")
    document = json.loads(path.read_text())
    (tree,) = document["learner"]["gradient_booster"]["model"]["trees"]
    tree["categories"] = [2**24 - 1]
    path.write_text(json.dumps(document))
    with memory_below(1 << 20):
        refused(path, "feature 0 have codes up to 16777215, but the trees use only 1", UnsupportedModelError)
