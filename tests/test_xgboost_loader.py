"""The XGBoost loader against XGBoost: one ulp around every threshold, and on files that are not models."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from loading import (
    assert_json_bombs_are_refused,
    memory_below,
    printed_without,
    refused,
    rows_around_thresholds,
)
from predgap.ensemble import ALL_OUTPUTS, LEAF, NUMERIC, Ensemble
from predgap.errors import LoaderError, TableError, UnsupportedModelError
from predgap.loaders import files, load, selfcheck, ubjson
from predgap.loaders import xgboost as loader

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # XGBoost's own

GOLDEN = Path(__file__).parent / "golden"
RELEASE = tuple(map(int, xgb.__version__.split(".")[:2]))


# ---- data, models, and what they must agree on ----


def make_data(n: int = 200, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d)).astype(np.float32)
    X[:, 1] = np.round(X[:, 1], 1)
    y = X[:, 0] + X[:, 1] * X[:, 2]
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, np.nan_to_num(y)


def train(
    y: np.ndarray | None = None, *, names: list[str] | None = None, rounds: int = 6, **params: Any
) -> Any:
    X, default = make_data()
    label = default if y is None else np.asarray(y, dtype=np.float32)
    matrix = xgb.DMatrix(X, label=label, feature_names=names)
    if params.get("objective", "").startswith("rank:"):
        matrix.set_group([50] * 4)
    if params.get("objective") == "survival:aft":
        matrix.set_float_info("label_lower_bound", np.abs(default) + 0.5)
        matrix.set_float_info("label_upper_bound", np.abs(default) + 1.0)
    return xgb.train({"max_depth": 3, "nthread": 1, "verbosity": 0, **params}, matrix, rounds)


def single_sum(ensemble: Ensemble, rows: np.ndarray) -> np.ndarray:
    """Margins added up in float32, tree by tree, as XGBoost does on a CPU."""
    total = np.tile(ensemble.bias.astype(np.float32), (len(rows), 1))
    leaves = ensemble.leaves(rows)
    for tree, target in enumerate(ensemble.target):
        value = ensemble.value[leaves[:, tree]].astype(np.float32)
        total[:, slice(None) if target == ALL_OUTPUTS else [target]] += value
    return total


def assert_agrees(
    ensemble: Ensemble, rows: np.ndarray, leaves: np.ndarray, margins: np.ndarray, ulps: float = 2.0
) -> None:
    """Leaves equal; margins equal to the float32 sum but for `ulps` units of its largest partial sum."""
    mine = ensemble.leaves(rows) - ensemble.root
    np.testing.assert_array_equal(mine, leaves.reshape(mine.shape))
    expected = margins.reshape(len(rows), -1)
    scale = np.abs(ensemble.value).max(initial=0.0) + np.abs(expected).max() + np.abs(ensemble.bias).max()
    tolerance = ulps * 2.0**-23 * scale
    np.testing.assert_allclose(single_sum(ensemble, rows), expected, rtol=0, atol=tolerance)
    exact = ensemble.predict(rows).reshape(expected.shape)
    np.testing.assert_allclose(exact, expected, rtol=0, atol=tolerance + ensemble.n_trees * 2.0**-24 * scale)


def assert_booster_agrees(booster: Any, ensemble: Ensemble, ulps: float = 2.0) -> None:
    rows = rows_around_thresholds(ensemble)
    matrix = xgb.DMatrix(rows)
    assert_agrees(
        ensemble,
        rows,
        booster.predict(matrix, pred_leaf=True, validate_features=False),
        booster.predict(matrix, output_margin=True, validate_features=False),
        ulps,
    )


ARRAYS = (
    "root", "feature", "threshold", "left", "right", "default_left", "value", "target", "bias",
    "category_set", "set_begin", "set_code",
)  # fmt: skip


def assert_same(first: Ensemble, second: Ensemble) -> None:
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)
    assert labels_of(first) == labels_of(second)


def labels_of(ensemble: Ensemble) -> dict[int, tuple[Any, ...]]:
    """The labels of each categorical feature, whose codes are 0, 1, 2, ..."""
    levels = ensemble.categorical()
    assert all(found.codes.tolist() == list(range(len(found))) for found in levels.values())
    return {q: found.labels or () for q, found in levels.items()}


def save(booster: Any, folder: Path, suffix: str) -> Path:
    path = folder / f"model.{suffix}"
    booster.save_model(str(path))
    return path


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


# ---- models trained here ----


X_, Y_ = make_data()
CLASSES = np.digitize(Y_, [-0.7, 0.7])
TWO = np.c_[Y_, X_[:, 3] + 2.0 * np.nan_to_num(X_[:, 0])]
TWO = np.nan_to_num(TWO)

KINDS: dict[str, dict[str, Any]] = {
    "hist": {"tree_method": "hist"},
    "exact": {"tree_method": "exact"},
    "approx": {"tree_method": "approx"},
    "pruned": {"tree_method": "exact", "gamma": 3.0, "max_depth": 5},
    "leafwise": {"tree_method": "hist", "grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0},
    "single leaves": {"gamma": 1e9},
    "base score": {"base_score": -3.456},
    "base score of all classes": {
        "y": CLASSES, "objective": "multi:softprob", "num_class": 3, "base_score": 0.3,
    },
    "base score of all targets": {"y": TWO, "base_score": -0.7},
    "forest": {"num_parallel_tree": 3, "subsample": 0.7, "rounds": 2},
    "dart": {"booster": "dart", "rate_drop": 0.4, "seed": 2},
    "dart forest": {"booster": "dart", "rate_drop": 0.4, "num_parallel_tree": 2, "subsample": 0.8, "seed": 2},
    "multiclass": {"y": CLASSES, "objective": "multi:softprob", "num_class": 3},
    "multiclass forest": {
        "y": CLASSES, "objective": "multi:softmax", "num_class": 3, "num_parallel_tree": 2, "subsample": 0.7,
    },
    "multiclass dart": {
        "y": CLASSES, "objective": "multi:softmax", "num_class": 3, "booster": "dart", "rate_drop": 0.4,
    },
    "targets": {"y": TWO},
    "quantiles": {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.5, 0.9]},
    "vector": {"y": TWO, "multi_strategy": "multi_output_tree", "tree_method": "hist"},
    "vector single leaves": {
        "y": TWO, "multi_strategy": "multi_output_tree", "tree_method": "hist", "min_child_weight": 1e6,
    },
    "vector classes": {
        "y": CLASSES, "objective": "multi:softprob", "num_class": 3, "multi_strategy": "multi_output_tree",
        "tree_method": "hist",
    },
}  # fmt: skip


def unavailable(kind: str) -> bool:
    return RELEASE < (2, 0) and (kind.startswith("vector") or kind == "quantiles")


@pytest.mark.parametrize("kind", KINDS)
def test_object_json_and_ubjson_agree_with_the_library(kind: str, tmp_path: Path) -> None:
    if unavailable(kind):
        pytest.skip(f"XGBoost {xgb.__version__} has no such model")
    booster = train(**KINDS[kind])
    ulps = 8.0 if "dart" in kind else 2.0  # XGBoost rounds weighted leaves too
    loaded = load(booster)
    assert_booster_agrees(booster, loaded, ulps)
    for suffix in ("json", "ubj"):
        path = save(booster, tmp_path, suffix)
        from_file = load(path)
        assert_booster_agrees(xgb.Booster(model_file=str(path)), from_file, ulps)
        assert_same(from_file, loaded)


@pytest.mark.parametrize("kind", ["hist", "exact", "forest", "multiclass", "targets", "base score"])
def test_margins_are_the_single_precision_sum_bit_for_bit(kind: str) -> None:
    booster = train(**KINDS[kind])
    ensemble = load(booster)
    rows = rows_around_thresholds(ensemble)
    theirs = booster.predict(xgb.DMatrix(rows), output_margin=True)
    np.testing.assert_array_equal(single_sum(ensemble, rows), theirs.reshape(len(rows), -1))


POSITIVE = np.abs(Y_) + 0.1
OBJECTIVES: dict[str, np.ndarray] = {
    "reg:squarederror": Y_, "reg:squaredlogerror": POSITIVE, "reg:logistic": Y_ > 0,
    "reg:pseudohubererror": Y_, "reg:absoluteerror": Y_, "reg:gamma": POSITIVE, "reg:tweedie": POSITIVE,
    "count:poisson": POSITIVE, "survival:cox": POSITIVE, "survival:aft": POSITIVE, "binary:logistic": Y_ > 0,
    "binary:logitraw": Y_ > 0, "binary:hinge": Y_ > 0, "rank:pairwise": Y_ > 0, "rank:ndcg": Y_ > 0,
    "rank:map": Y_ > 0, "reg:linear": Y_,
}  # fmt: skip


@pytest.mark.parametrize("base_score", [None, 0.2])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_has_its_link(objective: str, base_score: float | None, tmp_path: Path) -> None:
    params = {} if base_score is None else {"base_score": base_score}
    booster = train(OBJECTIVES[objective], objective=objective, rounds=2, **params)
    loaded = load(booster)
    assert_booster_agrees(booster, loaded)
    assert_same(load(save(booster, tmp_path, "json")), loaded)


@pytest.mark.skipif(RELEASE < (3, 2), reason="older releases refuse such labels")
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_a_base_score_of_zero_or_one_is_clipped_before_its_logit(label: float, tmp_path: Path) -> None:
    booster = train(np.full(200, label), objective="binary:logistic", rounds=1)
    assert_booster_agrees(booster, load(booster))
    path = save(booster, tmp_path, "json")
    written = path.read_text()
    assert abs(load(path).bias[0]) < 14
    path.write_text(written.replace(f'"version":[{RELEASE[0]},{RELEASE[1]}', '"version":[3,1'))
    with pytest.raises(LoaderError, match="base_score"):  # 3.1 does not clip, and fails on it
        load(path)


def test_several_expectiles_are_refused_by_name(tmp_path: Path) -> None:
    path = save(train(y=TWO, rounds=1), tmp_path, "json")
    path.write_text(path.read_text().replace('"name":"reg:squarederror"', '"name":"reg:expectileerror"'))
    refused(path, "objective 'reg:expectileerror' with several alphas", UnsupportedModelError)


# ---- wrappers ----


def wrappers() -> dict[str, Any]:
    few = {"n_estimators": 4, "max_depth": 3, "n_jobs": 1}
    return {
        "XGBRegressor": xgb.XGBRegressor(**few).fit(X_, Y_),
        "XGBRegressor of two": xgb.XGBRegressor(**few).fit(X_, TWO),
        "XGBClassifier": xgb.XGBClassifier(**few).fit(X_, Y_ > 0),
        "XGBClassifier of three": xgb.XGBClassifier(**few).fit(X_, CLASSES),
        "XGBRanker": xgb.XGBRanker(**few).fit(X_, Y_ > 0, group=[50] * 4),
        "XGBRFRegressor": xgb.XGBRFRegressor(**few).fit(X_, Y_),
        "XGBRFClassifier": xgb.XGBRFClassifier(**few).fit(X_, CLASSES),
        "dart": xgb.XGBRegressor(**few, booster="dart", rate_drop=0.5).fit(X_, Y_),
        "vector": xgb.XGBRegressor(**few, multi_strategy="multi_output_tree").fit(X_, TWO),
        "quantiles": xgb.XGBRegressor(
            **few, objective="reg:quantileerror", quantile_alpha=[0.2, 0.9], base_score=0.4
        ).fit(X_, Y_),
        "poisson": xgb.XGBRegressor(**few, objective="count:poisson").fit(X_, POSITIVE),
    }


def test_wrappers_agree_with_their_own_margins() -> None:
    for name, model in wrappers().items():
        ensemble = load(model)
        rows = rows_around_thresholds(ensemble)
        margins = model.predict(rows, output_margin=True)
        ulps = 8.0 if name == "dart" else 2.0
        assert_agrees(ensemble, rows, model.apply(rows), margins, ulps)


@pytest.mark.parametrize("missing", [0.0, -0.5, 0.1, np.inf, -np.inf])
def test_the_missing_value_of_a_wrapper_is_missing(missing: float) -> None:
    X = np.where(np.isnan(X_), np.float32(missing), X_)
    X[::5, 1] = missing
    model = xgb.XGBRegressor(n_estimators=5, max_depth=3, missing=missing, n_jobs=1).fit(X, Y_)
    ensemble = load(model)
    assert ensemble.missing == missing
    rows = rows_around_thresholds(ensemble)
    rows[::3, 1] = missing
    if np.isinf(missing):
        rows[::4, 0] = -missing  # XGBoost then lets the other infinity through, as a value
    assert_agrees(ensemble, rows, model.apply(rows), model.predict(rows, output_margin=True))
    if not np.isinf(missing):
        with pytest.raises(TableError, match="infinite"):
            ensemble.predict(np.full((1, 4), np.inf))


def early_stopped(**params: Any) -> Any:
    rng = np.random.default_rng(0)
    y = Y_ + rng.normal(size=len(Y_)) * 2
    model = xgb.XGBRegressor(
        n_estimators=60, early_stopping_rounds=15, eval_metric="rmse", learning_rate=0.5, n_jobs=1, **params
    )
    return model.fit(X_[:100], y[:100], eval_set=[(X_[100:], y[100:])], verbose=False)


@pytest.mark.parametrize("params", [{}, {"num_parallel_tree": 2, "subsample": 0.8}, {"booster": "dart"}])
def test_a_wrapper_stops_at_its_best_iteration_and_a_booster_does_not(
    params: dict[str, Any], tmp_path: Path
) -> None:
    model = early_stopped(**params)
    booster = model.get_booster()
    per_round = params.get("num_parallel_tree", 1)
    assert model.best_iteration + 1 < booster.num_boosted_rounds()
    ensemble = load(model)
    assert ensemble.n_trees == (model.best_iteration + 1) * per_round
    rows = rows_around_thresholds(ensemble)
    assert_agrees(ensemble, rows, model.apply(rows), model.predict(rows, output_margin=True), 8.0)
    assert load(booster).n_trees == booster.num_boosted_rounds() * per_round
    path = save(booster, tmp_path, "json")
    assert load(path).n_trees == booster.num_boosted_rounds() * per_round
    assert_booster_agrees(xgb.Booster(model_file=str(path)), load(path), 8.0)
    again = xgb.XGBRegressor()
    again.load_model(str(path))
    assert load(again).n_trees == ensemble.n_trees


def test_a_slice_is_a_booster() -> None:
    booster = train(y=CLASSES, objective="multi:softprob", num_class=3)
    part = booster[1:4]
    ensemble = load(part)
    assert ensemble.n_trees == 9
    assert_booster_agrees(part, ensemble)


def test_names_come_from_the_model() -> None:
    frame = pd.DataFrame(X_, columns=["age", "größe", "a b", "x"])
    model = xgb.XGBRegressor(n_estimators=2, n_jobs=1).fit(frame, Y_)
    assert load(model).feature_names == ("age", "größe", "a b", "x")
    assert load(train()).feature_names is None
    assert load(train(objective="binary:logistic", y=Y_ > 0)).source == (
        f"XGBoost {xgb.__version__} gbtree binary:logistic"
    )


def test_a_subclass_of_a_wrapper_is_a_wrapper() -> None:
    class Mine(xgb.XGBRegressor):  # type: ignore[misc, name-defined]
        pass

    assert load(Mine(n_estimators=2, n_jobs=1).fit(X_, Y_)).n_trees == 2


def test_no_trees_and_an_ensemble_pass() -> None:
    model = load(train(rounds=2))
    assert load(model) is model
    empty = load(train(rounds=0, base_score=3.0))
    assert empty.n_trees == 0
    assert empty.predict(np.zeros((2, 4))).tolist() == [3.0, 3.0]


# ---- categories ----


COLOURS = tuple("rgbcmyk")
SIZES = tuple(int(size) for size in np.random.default_rng(1).permutation(40) * 10 - 50)
TYPES = ["c", "q", "c", "q", "c"]


def make_codes(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Colours, a number, sizes, a number, and a categorical column that no tree splits on."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n, 5)).astype(np.float32)
    X[:, 0] = rng.integers(0, len(COLOURS), n)
    X[:, 2] = rng.integers(0, len(SIZES), n)
    X[:, 4] = 0
    y = np.sin(5 * X[:, 0]) + np.cos(7 * X[:, 2]) * np.maximum(X[:, 1], 0) + 0.1 * X[:, 3]
    X[:, :4][rng.random((n, 4)) < 0.1] = np.nan
    return X, y


CODES_, AIM_ = make_codes()


def categorical(codes: np.ndarray, labels: tuple[Any, ...]) -> pd.Categorical:
    return pd.Categorical.from_codes(
        np.where(np.isnan(codes), -1, codes).astype(int), categories=pd.Index(labels)
    )


def make_frame(codes: np.ndarray = CODES_) -> pd.DataFrame:
    return pd.DataFrame({
        "colour": categorical(codes[:, 0], COLOURS), "x": codes[:, 1],
        "size": categorical(codes[:, 2], SIZES), "z": codes[:, 3], "same": categorical(codes[:, 4], ("one",)),
    })  # fmt: skip


def train_on(data: Any, y: np.ndarray = AIM_, *, rounds: int = 4, **params: Any) -> Any:
    """A booster of categories: of codes in an array, or of labels in a frame."""
    types = TYPES if isinstance(data, np.ndarray) else None
    matrix = xgb.DMatrix(data, label=y, feature_types=types, enable_categorical=True)
    return xgb.train({"max_depth": 4, "nthread": 1, "tree_method": "hist", **params}, matrix, rounds)


def rows_of_codes(ensemble: Ensemble, n: int = 600) -> np.ndarray:
    """Rows at and around thresholds, with all codes, and with codes that are none."""
    rng = np.random.default_rng(2)
    rows = selfcheck.rows_at_thresholds(ensemble, n).copy()
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


def test_unsigned_labels_are_stored_as_signed_ones(
    categorical_bytes: dict[str, bytes], tmp_path: Path
) -> None:
    def change(_: Any, __: Any, model: Any) -> None:
        column = model["cats"]["enc"][2]
        column.update(type=12, values=[-1, -5536, *column["values"][2:]])

    path = tmp_path / "model.json"
    damaged(change, categorical_bytes, path)
    assert labels_of(load(path))[2][:2] == (65535, 60000)


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


def test_splits_on_categories_of_older_releases_are_refused_by_name(
    categorical_bytes: dict[str, bytes], model_bytes: dict[str, bytes], tmp_path: Path
) -> None:
    path = tmp_path / "model.json"
    damaged(lambda d, le, m: d.update(version=[1, 6, 2]), categorical_bytes, path)
    says = r"splits on categories and was saved by XGBoost 1\.6\.2; load it with XGBoost 1\.7 or newer"
    refused(path, says, UnsupportedModelError)
    damaged(lambda d, le, m: d.update(version=[1, 6, 2]), model_bytes, path)
    assert load(path).n_trees == 2


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


# ---- models that are refused by name ----


def test_linear_boosters_are_refused_by_name(tmp_path: Path) -> None:
    booster = train(booster="gblinear")
    with pytest.raises(UnsupportedModelError, match="gblinear"):
        load(booster)
    with pytest.raises(UnsupportedModelError, match="gblinear"):
        load(save(booster, tmp_path, "json"))
    with pytest.raises(UnsupportedModelError, match="gblinear"):
        load(xgb.XGBRegressor(booster="gblinear", n_estimators=2).fit(np.nan_to_num(X_), Y_))


def test_unfitted_and_unknown_objects_are_refused() -> None:
    with pytest.raises(LoaderError, match="fitted"):
        load(xgb.XGBRegressor())
    with pytest.raises(LoaderError):
        load(xgb.Booster())
    for thing in (None, 3, b"{}", [1], X_, xgb.XGBRegressor, object()):
        with pytest.raises(UnsupportedModelError, match=r"cannot load a .*expected an XGBoost"):
            load(thing)
    with pytest.raises(UnsupportedModelError, match=r"sklearn.*LinearRegression"):
        load(LinearRegression())


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
        assert ensemble.feature_names is not None
        assert_booster_agrees(booster, ensemble, 2.0)
        np.testing.assert_array_equal(load(booster).value, ensemble.value)


def test_files_load_without_xgboost(model_bytes: dict[str, bytes], tmp_path: Path) -> None:
    for suffix, data in model_bytes.items():
        (tmp_path / f"m.{suffix}").write_bytes(data)
    code = """
        from predgap.loaders import load
        first, second = (load(f"m.{suffix}") for suffix in ("json", "ubj"))
        assert first.predict([[0.0] * 4]) == second.predict([[0.0] * 4])
        print(first.n_trees)
    """
    assert printed_without("xgboost", code, tmp_path) == "2"


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
    np.testing.assert_array_equal(ensemble.threshold[ensemble.root], cuts.astype(np.float64))
    booster = xgb.Booster(model_file=str(path))
    sample = rng.choice(cuts, 60)
    rows = np.concatenate(
        [sample, np.nextafter(sample, np.float32(0)), np.nextafter(sample, np.float32(1e38))]
    )
    rows = np.repeat(rows[:, None], 4, axis=1)
    theirs = booster.predict(xgb.DMatrix(rows), pred_leaf=True)
    np.testing.assert_array_equal(ensemble.leaves(rows) - ensemble.root, theirs)


# ---- the check of a load against its object ----


class Tampered:
    """A booster whose answers differ from its trees."""

    def __init__(self, booster: Any, **answers: Any) -> None:
        self.booster, self.answers = booster, answers

    def save_raw(self, form: str) -> Any:
        return self.booster.save_raw(form)

    def predict(self, matrix: Any, **options: Any) -> np.ndarray:
        found = np.array(self.booster.predict(matrix, **options))
        return self.answers["leaf" if options.get("pred_leaf") else "margin"](found)


@pytest.mark.parametrize(
    ("leaf", "margin", "says"),
    [
        (lambda a: np.where(np.arange(len(a))[:, None] == 77, a + 1, a), lambda m: m, "reaches leaf"),
        (lambda a: a[:, :-1], lambda m: m, "5 trees|6 trees"),
        (lambda a: a, lambda m: m + 1e-4, "output 0"),
        (lambda a: a, lambda m: m * np.nan, "output 0"),
        (lambda a: a, lambda m: np.c_[m, m], "1 outputs here"),
    ],
)
def test_a_disagreement_is_refused(leaf: Any, margin: Any, says: str) -> None:
    tampered = Tampered(train(), leaf=leaf, margin=margin)
    with pytest.raises(LoaderError, match=says):
        loader.from_object(tampered)


def test_an_object_that_cannot_predict_is_refused() -> None:
    def fail(_: np.ndarray) -> np.ndarray:
        raise RuntimeError("out of order")

    with pytest.raises(LoaderError, match="out of order"):
        loader.from_object(Tampered(train(), leaf=fail, margin=fail))


def test_check_rows_are_few_and_hold_every_threshold_of_a_small_model() -> None:
    ensemble = load(train())
    rows = selfcheck.rows_at_thresholds(ensemble)
    assert rows.shape == (selfcheck.MAX_ROWS, 4)
    np.testing.assert_array_equal(rows, selfcheck.rows_at_thresholds(ensemble))
    inner = ensemble.feature != LEAF
    for j, cut in zip(ensemble.feature[inner], ensemble.threshold[inner].astype(np.float32), strict=True):
        column = rows[:, j]
        assert np.isnan(column).any()
        for value in (cut, np.nextafter(cut, np.float32(-np.inf)), np.nextafter(cut, np.float32(np.inf))):
            assert (column == value).any()
    wide = replace(ensemble, n_features=1_000_000)
    assert selfcheck.rows_at_thresholds(wide).shape == (16, 1_000_000)


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


class Bomb:
    def __reduce__(self) -> Any:
        return (os._exit, (3,))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_are_never_opened(protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_bytes(pickle.dumps(Bomb(), protocol))
    refused(path, "pickle", UnsupportedModelError)
    path.write_bytes(pickle.dumps({"model": Bomb()}, protocol))
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


def test_gigabytes_of_nonsense_are_refused_at_once(model_bytes: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    for opening in (b"", b"nonsense", *(data[:100] for data in model_bytes.values())):
        path.write_bytes(opening)
        for size in (1 << 40, files.MAX_FILE_BYTES):  # sparse: takes no room on the disk
            os.truncate(path, size)
            start = time.perf_counter()
            with memory_below(1 << 20):
                refused(path)
            assert time.perf_counter() - start < 1.0


@pytest.mark.parametrize("suffix", ["json", "ubj"])
@pytest.mark.parametrize("kind", ["model_bytes", "categorical_bytes"])
def test_every_truncation_is_refused(
    kind: str, suffix: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    data = request.getfixturevalue(kind)[suffix]
    path = tmp_path / "model"
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        refused(path)
        with pytest.raises(LoaderError):
            loader._ensemble(loader._decode(data[:end]))
    path.write_bytes(data[:-50] + b"}")
    refused(path)
    path.write_bytes(data + data)
    refused(path)


@pytest.mark.parametrize("opening", ['{"learner":', '{"learner":{"x":', '{"version":[1,7,6],"learner":'])
@pytest.mark.parametrize("nest", ["[", '{"a":', "[[1],"])
def test_deep_json_is_refused(opening: str, nest: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    padding = " " * 2_000_000  # so that the number of brackets alone does not give it away
    path.write_text(f"{opening}{padding}{nest * 100_000}}}")
    refused(path, "JSON")


def test_json_that_would_blow_up_in_memory_is_refused(tmp_path: Path) -> None:
    assert_json_bombs_are_refused(tmp_path / "model.json", "learner")


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


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_refused(kind: str, model_bytes: dict[str, bytes], tmp_path: Path) -> None:
    damaged(DAMAGE[kind], model_bytes, tmp_path / "model.json")
    refused(tmp_path / "model.json")


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


@pytest.mark.parametrize("kind", DAMAGE_OF_CATEGORIES)
def test_damage_of_categories_is_refused(
    kind: str, categorical_bytes: dict[str, bytes], tmp_path: Path
) -> None:
    path = tmp_path / "model.json"
    damaged(lambda d, le, m: None, categorical_bytes, path)
    assert load(path).n_trees == 2
    damaged(DAMAGE_OF_CATEGORIES[kind], categorical_bytes, path)
    refused(path)


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
    text = loader._decode(path.read_bytes())["learner"]["attributes"]["note"]
    assert text == note
    assert load(path).n_trees == 2


# ---- UBJSON ----


def ubj_document(body: bytes) -> bytes:
    return b"{L" + struct.pack(">q", 7) + b"learner" + body + b"}"


@pytest.mark.parametrize(
    "body",
    [
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
    ],
)
def test_bad_ubjson_is_refused(body: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.ubj"
    path.write_bytes(ubj_document(body))
    refused(path)


@pytest.mark.parametrize("item", [b"[]", b"{}", b"i\x80", b"Z", b"Si\x02ab"])
def test_ubjson_that_would_blow_up_in_memory_is_refused(item: bytes) -> None:
    data = ubj_document(b"[" + item * 100_000 + b"]")
    with memory_below(10 * len(data) + (1 << 20)), pytest.raises(LoaderError, match="more values"):
        ubjson.decode(data)


def test_ubjson_values() -> None:
    body = b"[#U\x09" + b"ZTFi\xffU\xffI\x01\0CxD" + struct.pack(">d", 0.1) + b"Si\x02\xc3\xb6"
    assert ubjson.decode(ubj_document(body)) == {"learner": [None, True, False, -1, 255, 256, "x", 0.1, "ö"]}
    array = ubjson.decode(b"[$l#L" + struct.pack(">q3i", 3, 1, -2, 3))
    assert array.tolist() == [1, -2, 3]
    assert not array.flags.writeable


# ---- anything at all ----


def loads_or_refuses(data: bytes) -> Ensemble | None:
    try:
        return loader._ensemble(loader._decode(data))
    except LoaderError:
        return None


@st.composite
def mutations(draw: st.DrawFn) -> list[tuple[float, int, bytes]]:
    """(where, bytes to remove, bytes to put there), a few times."""
    one = st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 4), st.binary(max_size=4))
    return draw(st.lists(one, min_size=1, max_size=4))


@pytest.mark.parametrize("suffix", ["json", "ubj"])
@pytest.mark.parametrize("of_categories", [False, True])
@given(changes=mutations())
@settings(max_examples=200)
def test_mutated_files_load_or_are_refused(
    suffix: str,
    of_categories: bool,
    model_bytes: dict[str, bytes],
    categorical_bytes: dict[str, bytes],
    changes: list[tuple[float, int, bytes]],
) -> None:
    data = bytearray((categorical_bytes if of_categories else model_bytes)[suffix])
    for where, gone, put in changes:
        at = int(where * len(data))
        data[at : at + gone] = put
    ensemble = loads_or_refuses(bytes(data))
    if ensemble is not None:
        ensemble.predict(np.zeros((2, ensemble.n_features))[:, : ensemble.n_features])


@given(st.binary(max_size=300))
def test_any_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(data)
    refused(path)
    loads_or_refuses(data)
    loads_or_refuses(ubj_document(data))


def test_a_large_model_loads_fast(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 10)).astype(np.float32)
    booster = xgb.train({"max_depth": 8, "nthread": 1}, xgb.DMatrix(X, label=X @ rng.normal(size=10)), 100)
    for suffix in ("json", "ubj"):
        path = save(booster, tmp_path, suffix)
        best = min(timed(path) for _ in range(3))
        assert best < 0.5  # a tenth of 1000 trees in a second, with room for a slow machine


def timed(path: Path) -> float:
    start = time.perf_counter()
    load(path)
    return time.perf_counter() - start


def test_buffers_are_not_paths() -> None:
    with pytest.raises(UnsupportedModelError, match="BytesIO"):
        load(io.BytesIO(b"{}"))
