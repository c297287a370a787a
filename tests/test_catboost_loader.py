"""The CatBoost loader against CatBoost: one ulp around every border, and on files that are not models."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import sys
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import catboost as cb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import predgap
from loading import assert_json_bombs_are_refused, printed_without, refused, rows_around_thresholds
from predgap.ensemble import ALL_OUTPUTS, LEAF, Ensemble
from predgap.errors import DependencyError, LoaderError, TableError, UnsupportedModelError
from predgap.loaders import catboost as loader
from predgap.loaders import catboost_categories, files, load, selfcheck
from predgap.loaders.catboost_categories import OTHERS, HashedCategories, Unnamed
from reference import Row, tails_of

GREATEST = np.finfo(np.float32).max
POLICIES = ("SymmetricTree", "Depthwise", "Lossguide")
COLUMNS = ("root", "feature", "threshold", "left", "right", "default_left", "value", "target", "bias")


# ---- data, models, and what they must agree on ----


def make_data(n: int = 200, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Rows with missing values in all but the last column, and labels that depend on these too."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d)).astype(np.float32)
    X[:, 1] = np.round(X[:, 1], 1)
    y = X[:, 0] + X[:, 1] * X[:, 2] + X[:, 3]
    gone = rng.random(X.shape) < 0.1
    gone[:, -1] = False
    return np.where(gone, np.float32(np.nan), X), y + 4 * gone[:, 0]


X_, Y_ = make_data()
WHOLE = np.nan_to_num(X_)
CLASSES = np.digitize(Y_, [-0.7, 0.7])
POSITIVE = np.abs(Y_) + 0.1
TWO = np.c_[Y_, WHOLE[:, 3] + 10.0]
GROUPS = np.repeat(np.arange(20), 10)


def train(
    y: np.ndarray | None = None,
    X: Any = X_,
    *,
    kind: Any = cb.CatBoost,
    group_id: np.ndarray | None = None,
    names: list[str] | None = None,
    fit: dict[str, Any] | None = None,
    **params: Any,
) -> Any:
    few = {"iterations": 5, "depth": 3, "thread_count": 1, "verbose": 0, "allow_writing_files": False}
    pool = cb.Pool(X, Y_ if y is None else y, group_id=group_id, feature_names=names)
    return kind(few | params).fit(pool, **(fit or {}))


def margins_of(model: Any, rows: np.ndarray) -> np.ndarray:
    found = cb.CatBoost.predict(model, rows, prediction_type="RawFormulaVal", thread_count=1)
    return np.asarray(found).reshape(len(rows), -1)


def assert_agrees(ensemble: Ensemble, rows: np.ndarray, margins: np.ndarray) -> None:
    """Within 1e-12 of the sum of the sizes of all that is added."""
    size = np.tile(np.abs(ensemble.bias), (len(rows), 1))
    leaves = ensemble.leaves(rows)
    for tree in range(ensemble.n_trees):
        size += np.abs(ensemble.value[leaves[:, tree]])
    error = np.abs(ensemble.predict(rows).reshape(margins.shape) - margins)
    assert (error <= 1e-12 * size).all(), f"off by {(error / size).max():.1e} of the sizes"


def assert_loads(model: Any) -> Ensemble:
    ensemble = load(model)
    rows = np.concatenate([rows_around_thresholds(ensemble), np.resize(X_, (50, ensemble.n_features))])
    assert_agrees(ensemble, rows, margins_of(model, rows))
    assert ensemble.n_trees == model.tree_count_
    return ensemble


def assert_same(one: Ensemble, other: Ensemble) -> None:
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.feature_names == other.feature_names
    assert one.source == other.source


def save(model: Any, path: Path) -> Path:
    model.save_model(str(path), format="cbm" if path.suffix == ".cbm" else "json")
    return path


@cache
def model_text(policy: str = "SymmetricTree", classes: bool = False) -> str:
    """A small model as JSON, without the long list of training options."""
    params = {"loss_function": "MultiClass"} if classes else {}
    model = train(CLASSES if classes else Y_, names=list("abcd"), grow_policy=policy, iterations=3, **params)
    with TemporaryDirectory() as folder:
        document = json.loads(save(model, Path(folder, "model.json")).read_text())
    loss = document["model_info"]["params"]["loss_function"]
    document["model_info"] = {"params": {"loss_function": loss}}
    return json.dumps(document)


# ---- models trained here ----


@pytest.mark.parametrize("depth", [1, 3, 6])
@pytest.mark.parametrize("nan_mode", ["Min", "Max", "Forbidden"])
@pytest.mark.parametrize("policy", POLICIES)
def test_trees_of_all_shapes_agree_with_the_library(
    policy: str, nan_mode: str, depth: int, tmp_path: Path
) -> None:
    rows = WHOLE if nan_mode == "Forbidden" else X_
    model = train(X=rows, grow_policy=policy, nan_mode=nan_mode, depth=depth)
    ensemble = assert_loads(model)
    from_file = load(save(model, tmp_path / "model.json"))
    assert_same(from_file, ensemble)
    assert ensemble.source in (f"CatBoost {cb.__version__} RMSE", "CatBoost RMSE")  # early 1.2 does not tell
    assert ensemble.row_dtype == np.float32
    if policy == "SymmetricTree":
        assert ensemble.n_nodes == ensemble.n_trees * (2 ** (depth + 1) - 1)


LOSSES: dict[str, Any] = {
    **dict.fromkeys(("RMSE", "MAE", "Quantile:alpha=0.3", "LogLinQuantile", "MAPE", "Lq:q=3"), Y_),
    **dict.fromkeys(("Huber:delta=1", "Expectile:alpha=0.3", "LogCosh", "RMSEWithUncertainty"), Y_),
    **dict.fromkeys(("Poisson", "Tweedie:variance_power=1.5", "Cox"), POSITIVE),
    **dict.fromkeys(("MultiRMSE", "MultiRMSEWithMissingValues"), TWO),
    "SurvivalAft:dist=Normal": np.c_[POSITIVE, np.where(Y_ > 1, -1, POSITIVE + 1)],
    "MultiQuantile:alpha=0.1,0.5,0.9": Y_,
    **dict.fromkeys(("Logloss", "CrossEntropy", "Focal:focal_alpha=0.3;focal_gamma=2"), 1.0 * (Y_ > 0)),
    **dict.fromkeys(("MultiClass", "MultiClassOneVsAll"), CLASSES),
    **dict.fromkeys(("MultiLogloss", "MultiCrossEntropy"), 1 * (TWO > [0, 10])),
    **dict.fromkeys(("YetiRank", "QueryRMSE", "QuerySoftMax", "LambdaMart", "PairLogit"), 1.0 * (Y_ > 0)),
    **dict.fromkeys(("YetiRankPairwise", "PairLogitPairwise"), 1.0 * (Y_ > 0)),
}
LOSSES_AND_POLICIES = [
    (loss, policy)
    for loss in LOSSES
    for policy in POLICIES
    if policy == "SymmetricTree" or not loss.endswith("Pairwise")  # CatBoost has no such model
]


@pytest.mark.parametrize(("loss", "policy"), LOSSES_AND_POLICIES)
def test_margins_of_every_loss_are_sums(loss: str, policy: str, tmp_path: Path) -> None:
    name = loss.partition(":")[0]
    y = LOSSES[loss]
    groups = GROUPS if name.startswith(("Yeti", "Query", "Lambda", "Pair")) else None
    model = train(y, loss_function=loss, grow_policy=policy, group_id=groups, iterations=3, random_seed=1)
    ensemble = assert_loads(model)
    outputs = {"RMSEWithUncertainty": 2, "MultiQuantile": 3, "MultiClass": 3, "MultiClassOneVsAll": 3}
    several = 2 if name.startswith("Multi") else 1
    assert ensemble.n_outputs == outputs.get(name, several)
    assert (ensemble.target == (ALL_OUTPUTS if ensemble.n_outputs > 1 else 0)).all()
    assert ensemble.source.endswith(name)
    assert_same(load(save(model, tmp_path / "model.json")), ensemble)


class SquaredError:
    def calc_ders_range(self, approxes: Any, targets: Any, weights: Any) -> list[tuple[float, float]]:
        return [(targets[i] - approxes[i], -1.0) for i in range(len(targets))]


OPTIONS: dict[str, dict[str, Any]] = {
    "ordered": {"boosting_type": "Ordered"},
    "plain": {"boosting_type": "Plain"},
    "no average": {"boost_from_average": False},
    "bayesian": {"bootstrap_type": "Bayesian"},
    "bernoulli": {"bootstrap_type": "Bernoulli", "subsample": 0.5},
    "langevin": {"langevin": True, "diffusion_temperature": 100.0},
    "posterior sampling": {"posterior_sampling": True},
    "shrinking": {"model_shrink_rate": 0.2, "learning_rate": 0.1},
    "monotone": {"monotone_constraints": [1, 0, -1, 0]},
    "one border": {"border_count": 1},
    "many borders": {"border_count": 1000, "iterations": 60},
    "uniform borders": {"feature_border_type": "Uniform"},
    "median borders": {"feature_border_type": "Median"},
    "borders per feature": {
        "per_float_feature_quantization": ["0:border_count=3,nan_mode=Max", "1:nan_mode=Min"]
    },
    "sixteen levels": {"depth": 16, "iterations": 1},
    "many trees": {"iterations": 200},
    "ignored": {"ignored_features": [0, 3]},
    "few features": {"rsm": 0.3},
    "nothing to split": {"grow_policy": "Depthwise", "min_data_in_leaf": 500},
    "many levels": {"grow_policy": "Lossguide", "depth": 40, "max_leaves": 60, "l2_leaf_reg": 0.01},
    "leaf by gradient": {"leaf_estimation_method": "Gradient", "leaf_estimation_iterations": 5},
    "own loss": {"loss_function": SquaredError(), "eval_metric": "RMSE"},
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*(numba|optimze):UserWarning")  # about speed, for "own loss"
@pytest.mark.parametrize("option", OPTIONS)
def test_training_options_do_not_matter(option: str, tmp_path: Path) -> None:
    model = train(**OPTIONS[option])
    ensemble = assert_loads(model)
    assert ensemble.n_features == 4
    assert_same(load(save(model, tmp_path / "model.json")), ensemble)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("loss", ["RMSE", "MultiClass"])
def test_scale_and_bias(loss: str, policy: str, tmp_path: Path) -> None:
    model = train(CLASSES, loss_function=loss, grow_policy=policy)
    plain = load(model)
    bias = [0.5, -1e6, 3e-9][: plain.n_outputs]
    model.set_scale_and_bias(-2.5, bias)
    ensemble = assert_loads(model)
    np.testing.assert_array_equal(ensemble.bias, bias)
    np.testing.assert_array_equal(ensemble.value, plain.value * -2.5)
    assert_same(load(save(model, tmp_path / "model.json")), ensemble)


@pytest.mark.parametrize("policy", POLICIES)
def test_sums_of_models(policy: str) -> None:
    first, second = (train(grow_policy=policy, random_seed=i, rsm=0.5) for i in range(2))
    first.set_scale_and_bias(2.0, 7.0)
    total = cb.sum_models([first, second], weights=[0.3, -2.0])
    assert_loads(total)


def test_continued_and_shrunk_models() -> None:
    model = train(fit={"init_model": train()})
    assert assert_loads(model).n_trees == 10
    model.shrink(7, 2)
    assert assert_loads(model).n_trees == 5


@pytest.mark.parametrize("best", [True, False])
def test_a_model_has_the_trees_that_it_predicts_with(best: bool, tmp_path: Path) -> None:
    noisy = Y_ + np.random.default_rng(0).normal(size=len(Y_)) * 2
    model = cb.CatBoostRegressor(
        iterations=60, depth=3, learning_rate=0.5, use_best_model=best, verbose=0, allow_writing_files=False
    )
    model.fit(X_[:100], noisy[:100], eval_set=(X_[100:], noisy[100:]), early_stopping_rounds=10)
    assert model.best_iteration_ + 1 < 50
    ensemble = assert_loads(model)
    assert (ensemble.n_trees == model.best_iteration_ + 1) is best
    assert_same(load(save(model, tmp_path / "model.json")), ensemble)


# ---- wrappers ----


class Mine(cb.CatBoostRegressor):  # type: ignore[misc, name-defined]
    pass


@pytest.mark.parametrize(
    ("kind", "y", "params"),
    [
        (cb.CatBoost, Y_, {}),
        (cb.CatBoostRegressor, Y_, {}),
        (cb.CatBoostRegressor, POSITIVE, {"loss_function": "Poisson"}),  # predicts exp of the margin
        (cb.CatBoostRegressor, TWO, {"loss_function": "MultiRMSE"}),
        (cb.CatBoostClassifier, Y_ > 0, {}),
        (cb.CatBoostClassifier, Y_ > 0, {"loss_function": "MultiClass"}),
        (cb.CatBoostClassifier, CLASSES, {}),
        (cb.CatBoostClassifier, np.array(["a", "b", "c"])[CLASSES], {"auto_class_weights": "Balanced"}),
        (cb.CatBoostRanker, Y_ > 0, {"loss_function": "YetiRank"}),
        (Mine, Y_, {}),
    ],
)
def test_wrappers_load_their_margins(kind: Any, y: np.ndarray, params: dict[str, Any]) -> None:
    few = {"iterations": 4, "depth": 3, "thread_count": 1, "verbose": 0, "allow_writing_files": False}
    model = kind(few | params) if kind is cb.CatBoost else kind(**few, **params)
    model.fit(X_, y, **({"group_id": GROUPS} if kind is cb.CatBoostRanker else {}))
    ensemble = assert_loads(model)
    assert_same(load(pickle.loads(pickle.dumps(model))), ensemble)


def test_names_come_from_the_model(tmp_path: Path) -> None:
    frame = pd.DataFrame(X_, columns=["age", "größe", "a b", 'x"\\'])
    model = train(X=frame)
    names = ("age", "größe", "a b", 'x"\\')
    assert assert_loads(model).feature_names == names
    assert load(save(model, tmp_path / "model.json")).feature_names == names
    assert load(train()).feature_names is None
    some = train(names=["age", "", "", "x"])
    assert load(some).feature_names == ("age", "1", "2", "x") == tuple(some.feature_names_)


def test_equal_names_are_refused() -> None:
    model = train(names=list("abcd"))
    model.set_feature_names(["a", "a", "c", "d"])
    with pytest.raises(LoaderError, match="'a' is given more than once"):
        load(model)


def test_a_frame_is_matched_by_name() -> None:
    frame = pd.DataFrame(X_, columns=list("abcd"))
    model = train(X=frame)
    np.testing.assert_allclose(
        load(model).predict(frame[["c", "a", "d", "b"]]), model.predict(frame), rtol=0, atol=1e-12
    )


# ---- missing values, infinities and borders ----


@pytest.mark.parametrize("policy", POLICIES)
def test_missing_values_go_where_catboost_sends_them(policy: str) -> None:
    """Min: left; Max: right, where there were any in training, else left; the last column had none."""
    for nan_mode, left in (("Min", True), ("Max", False)):
        ensemble = load(train(grow_policy=policy, nan_mode=nan_mode, iterations=20))
        inner = ensemble.feature != LEAF
        assert {0, 3} <= set(ensemble.feature[inner])
        assert (ensemble.default_left[inner] == (left | (ensemble.feature[inner] == 3))).all()
        apart = np.float32(-GREATEST) if left else GREATEST  # CatBoost's border around missing values
        assert np.isclose(ensemble.threshold[inner], apart, rtol=1e-6).any()
        rows = np.array([[np.nan] * 4, [np.inf] * 4, [-np.inf] * 4, [GREATEST] * 4, [-GREATEST] * 4])
        model = train(grow_policy=policy, nan_mode=nan_mode, iterations=20)
        assert_agrees(ensemble, rows, margins_of(model, rows.astype(np.float32)))


def test_rows_are_cast_to_single_precision() -> None:
    model = train(X=WHOLE)
    ensemble = load(model)
    inner = ensemble.feature != LEAF
    rng = np.random.default_rng(2)
    rows = rng.choice(ensemble.threshold[inner], size=(200, 4)) * (1 + rng.choice([-1e-9, 0, 1e-9], (200, 4)))
    assert_agrees(ensemble, rows, margins_of(model, rows))
    rows = np.array([[1e300, -1e300, 1e-300, 0.0]])
    assert_agrees(ensemble, rows, margins_of(model, rows))


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
    assert ends == {
        float(np.nextafter(np.float32(b), np.float32(np.inf)))
        for bs in model.get_borders().values()
        for b in bs
    }


# ---- categories ----

COLOURS = ("blue", "green", "red")
SIZES = (0, 3, 7, 200)
RNG = np.random.default_rng(8)
COLOUR, SIZE, FLAG = RNG.choice(COLOURS, 200), RNG.choice(SIZES, 200), RNG.random(200) < 0.4
EFFECT = (
    WHOLE[:, 0]
    + 3 * (COLOUR == "green") * (SIZE == 7)
    - 2 * (SIZE == 0)
    + FLAG * WHOLE[:, 1]
    + (COLOUR == "red")
)
THIRDS = np.digitize(EFFECT, [-1.0, 1.0])


def mixed(x: Any, colour: Any, size: Any, flag: Any) -> pd.DataFrame:
    """Numbers and categories of text, numbers and truth values, in turns; "idle" is categorical, constant."""
    columns = {
        "x": np.asarray(x, dtype=np.float32),
        "colour": colour,
        "z": np.resize(WHOLE[:, 1], len(colour)),
    }
    return pd.DataFrame({**columns, "size": size, "flag": flag, "idle": "one"})


TRAINED_ON = mixed(WHOLE[:, 0], COLOUR, SIZE, FLAG)
CATEGORICAL = ["colour", "size", "flag", "idle"]


def train_mixed(policy: str = "SymmetricTree", y: Any = EFFECT, X: Any = TRAINED_ON, **params: Any) -> Any:
    few = {"iterations": 12, "depth": 4, "one_hot_max_size": 255, "grow_policy": policy, "learning_rate": 0.5}
    quiet = {"thread_count": 1, "verbose": 0, "allow_writing_files": False}
    which = CATEGORICAL if isinstance(X, pd.DataFrame) else [1]
    return cb.CatBoost(few | quiet | params).fit(cb.Pool(X, y, cat_features=which))


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


def save_with_names(model: Any, path: Path, X: Any = TRAINED_ON) -> Path:
    which = CATEGORICAL if isinstance(X, pd.DataFrame) else [1]
    model.save_model(str(path), format="json", pool=cb.Pool(X, cat_features=which))
    return path


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
    for name in ("m.json", "m.cbm")[: 2 if loss == "RMSE" else 1]:
        from_file = load(save(model, tmp_path / name))
        assert_same(from_file, ensemble)
        assert_agrees(from_file, rows, expected)
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
    hashes = sorted((Unnamed(catboost_categories.hash_of(colour)) for colour in colours), key=repr)
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
        with pytest.raises(TableError, match=r"holds a missing value; CatBoost takes text and whole numbers"):
            ensemble.predict(rows)
    with pytest.raises(TableError, match=r"holds 2\.5 \(float\); CatBoost takes text and whole numbers"):
        ensemble.predict(mixed([0.0], ["red"], [2.5], [False]))
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
        assert catboost_categories.hash_of(entry["value"]) == entry["hash"]
    for value in (0, 1, 2**31, 2**32 - 1, *rng.integers(0, 2**32, 100).tolist()):
        assert catboost_categories.hash_of(catboost_categories.text_with(value)) == value


def test_the_check_finds_another_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    model = train_mixed()
    right = catboost_categories.text_with
    monkeypatch.setattr(catboost_categories, "text_with", lambda value: right(value) + b"?")
    refused(model, "disagrees with CatBoost")


# ---- gaps of loaded models ----


@pytest.mark.parametrize("policy", POLICIES)
def test_gaps_are_those_of_the_definition(policy: str) -> None:
    noise = predgap.Normal(0.3)
    ensemble = load(train(grow_policy=policy, depth=2, iterations=3))
    rows = np.concatenate([X_[:3], rows_around_thresholds(ensemble)[40:44]])
    for subset in ([0], [1, 2], [0, 1, 2, 3]):
        found = predgap.Explainer(ensemble, noise).gap(rows, subset)
        for row, gap in zip(rows, found, strict=True):
            Row(ensemble, tails_of(noise, ensemble), row).assert_gap(gap, subset)


def test_gaps_of_one_of_several_outputs() -> None:
    noise = predgap.Normal(0.3)
    model = train(CLASSES, loss_function="MultiClass", depth=2, iterations=2)
    for k in range(3):
        found = predgap.Explainer(model, noise, output=k).gap(X_[:2], [0, 3])
        one = load(model).select(k)
        for row, gap in zip(X_[:2], found, strict=True):
            Row(one, tails_of(noise, one), row).assert_gap(gap, [0, 3])


# ---- models that are refused by name ----


def frame_with(column: Any) -> Any:
    return pd.DataFrame({"x": WHOLE[:, 0], "k": column})


def train_on(column: Any, **params: Any) -> Any:
    model = cb.CatBoostClassifier(iterations=5, verbose=0, allow_writing_files=False, **params)
    return model.fit(frame_with(column), CLASSES == 1)


def refused_model(kind: str) -> Any:
    rng = np.random.default_rng(0)
    letters = np.array(["a", "b", "c"])[CLASSES]
    if kind == "CTR":
        return train_on(
            [f"{letter}{i % 9}" for i, letter in enumerate(letters)], cat_features=["k"], one_hot_max_size=1
        )
    if kind == "text":
        return train_on([f"word{c} more words" for c in CLASSES], text_features=["k"])
    return train_on([list(rng.normal(size=3) + c) for c in CLASSES], embedding_features=["k"])


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("CTR", r"splits on statistics of categories \(CTR splits\).*; train with one_hot_max_size=255, or"),
        ("text", "text features.*text_features"),
        ("embedding", "embedding features.*embedding_features"),
    ],
)
def test_features_that_are_no_numbers_are_refused_by_name(kind: str, says: str, tmp_path: Path) -> None:
    model = refused_model(kind)
    with pytest.raises(UnsupportedModelError, match=says):
        load(model)
    with pytest.raises(UnsupportedModelError, match=says):
        load(save(model, tmp_path / "model.cbm"))
    if kind not in ("text", "embedding"):  # which CatBoost does not save as JSON
        with pytest.raises(UnsupportedModelError, match=says):
            load(save(model, tmp_path / "model.json"))


def test_models_without_trees_are_refused(tmp_path: Path) -> None:
    for unfitted in (cb.CatBoost(), cb.CatBoostRegressor(), cb.CatBoostClassifier()):
        with pytest.raises(LoaderError, match=r"no trained model.*is it fitted"):
            load(unfitted)
    model = train()
    model.shrink(0)
    with pytest.raises(LoaderError, match="no trees"):
        load(model)
    with pytest.raises(LoaderError, match="no trees"):
        load(save(model, tmp_path / "model.json"))


# ---- the check of a load against its object ----


class Tampered(cb.CatBoost):  # type: ignore[misc, name-defined]
    """A model that predicts with another one's trees than it saves."""

    def save_model(self, path: str, **options: Any) -> None:
        train(random_seed=3, rsm=0.4, depth=2).save_model(path, **options)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_disagreement_is_refused(policy: str) -> None:
    with pytest.raises(LoaderError, match="disagrees with CatBoost"):
        load(train(kind=Tampered, grow_policy=policy, random_seed=3, rsm=0.4, depth=2, learning_rate=0.1))
    load(train(kind=Tampered, random_seed=3, rsm=0.4, depth=2))


@pytest.mark.parametrize(
    ("leaf", "margin", "says"),
    [
        (lambda a: np.where(np.arange(len(a))[:, None] == 77, a ^ 1, a), lambda m: m, "reaches leaf"),
        (lambda a: a, lambda m: m + 1e-9, "output 0"),
        (lambda a: a, lambda m: m * np.nan, "output 0"),
        (lambda a: a, lambda m: np.c_[m, m], "1 outputs here"),
    ],
)
def test_small_disagreements_are_seen(
    leaf: Any, margin: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = train()
    leaves, predict = cb.CatBoost.calc_leaf_indexes, cb.CatBoost.predict
    monkeypatch.setattr(cb.CatBoost, "calc_leaf_indexes", lambda *a, **k: leaf(leaves(*a, **k)))
    monkeypatch.setattr(cb.CatBoost, "predict", lambda *a, **k: margin(predict(*a, **k)))
    with pytest.raises(LoaderError, match=says):
        load(model)


def test_an_object_that_cannot_predict_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of order")

    model = train(grow_policy="Depthwise")
    monkeypatch.setattr(cb.CatBoost, "predict", fail)
    with pytest.raises(LoaderError, match=r"cannot predict \(out of order\)"):
        load(model)


def test_the_check_has_rows_at_the_border_of_missing_values() -> None:
    ensemble = load(train(nan_mode="Max", iterations=20))
    rows = selfcheck.rows_at_thresholds(ensemble)
    assert (rows == GREATEST).any()
    assert np.isposinf(rows).any()


# ---- .cbm files ----


@pytest.mark.parametrize(("policy", "loss"), [("SymmetricTree", "RMSE"), ("Lossguide", "MultiClass")])
def test_binary_files_load_as_their_objects_do(policy: str, loss: str, tmp_path: Path) -> None:
    model = train(CLASSES, loss_function=loss, grow_policy=policy, names=list("abcd"))
    assert_same(load(save(model, tmp_path / "modèle 1.cbm")), load(model))


def test_damaged_binary_files_are_refused(tmp_path: Path) -> None:
    path = save(train(), tmp_path / "model.cbm")
    data = path.read_bytes()
    for damaged in (b"CBM1", data[: len(data) // 2], data[:8] + bytes(len(data))):
        path.write_bytes(damaged)
        refused(path, "cannot be read")


@pytest.mark.parametrize(
    ("program", "kind", "says"),
    [
        ("import os; os.kill(os.getpid(), 9)", LoaderError, "crashed with signal 9"),
        ("import time; time.sleep(60)", LoaderError, "took more than 0.5 seconds"),
        ("raise ValueError('a\\nb/c.cpp:7: no good')", LoaderError, r"\(no good\); the file is damaged"),
        ("import sys; sys.exit(1)", LoaderError, r"\(unknown reason\)"),
        ("pass", LoaderError, "cannot be read"),
        ("import sys; sys.stderr.write('none'); sys.exit(3)", DependencyError, r"\(none\).*pip install cat"),
    ],
)  # fmt: skip
def test_the_other_process_may_fail(
    program: str, kind: type[Exception], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.cbm").write_bytes(b"CBM1")
    monkeypatch.setattr(loader, "_CONVERTER", program)
    monkeypatch.setattr(loader, "_CONVERTER_SECONDS", 0.5 if "sleep" in program else 60)
    with pytest.raises(kind, match=says):
        load(tmp_path / "model.cbm")


def test_no_other_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.cbm").write_bytes(b"CBM1")
    for missing in ("", None, str(tmp_path / "python")):
        monkeypatch.setattr(sys, "executable", missing)
        refused(tmp_path / "model.cbm", "no process for it")


def test_without_catboost_a_binary_file_asks_for_it_and_a_json_file_loads(tmp_path: Path) -> None:
    model = train(names=list("abcd"))
    save(model, tmp_path / "m.cbm")
    save(model, tmp_path / "m.json")
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "catboost.py").write_text("raise ImportError('it is hidden')")
    code = """
        from predgap.errors import DependencyError
        from predgap.loaders import load
        print(load("m.json").n_trees)
        try:
            load("m.cbm")
        except DependencyError as error:
            print(error)
    """
    assert printed_without("catboost", code, tmp_path, ahead=(tmp_path / "hidden",)).startswith(
        "5\nonly CatBoost reads .cbm files, and it cannot be imported (it is hidden)"
    )


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


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_refused(kind: str, tmp_path: Path) -> None:
    document = json.loads(model_text())
    DAMAGE[kind](document)
    (tmp_path / "model.json").write_text(json.dumps(document))
    refused(tmp_path / "model.json")


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


@pytest.mark.parametrize("kind", GROWN_DAMAGE)
def test_damage_of_other_trees_is_refused(kind: str, tmp_path: Path) -> None:
    document = json.loads(model_text("Depthwise"))
    GROWN_DAMAGE[kind](document["trees"][1])
    (tmp_path / "model.json").write_text(json.dumps(document))
    refused(tmp_path / "model.json")


@cache
def mixed_text(policy: str = "SymmetricTree") -> str:
    """A small model with categories as JSON, with their names."""
    with TemporaryDirectory() as folder:
        model = train_mixed(policy, iterations=6)
        document = json.loads(save_with_names(model, Path(folder, "m.json")).read_text())
    document["model_info"] = {}
    return json.dumps(document)


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


MIXED_DAMAGE: dict[str, Any] = {
    "equal values": lambda d: colour(d, values=[5, 5]),
    "value too large": lambda d: colour(d, values=[2**31]),
    "value too small": lambda d: colour(d, values=[-(2**31) - 1]),
    "giant value": lambda d: colour(d, values=[10**400]),
    "fractional value": lambda d: colour(d, values=[0.5]),
    "text for a value": lambda d: colour(d, values=["red"]),
    "number for values": lambda d: colour(d, values=5),
    "other values": lambda d: colour(d, values=[1, 2]),
    "no values": lambda d: colour(d, values=None),
    "another column": lambda d: colour(d, flat_feature_index=0),
    "a column too far": lambda d: colour(d, flat_feature_index=6),
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


@pytest.mark.parametrize("kind", MIXED_DAMAGE)
def test_damage_of_categories_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(mixed_text())
    load(path)
    document = json.loads(mixed_text())
    MIXED_DAMAGE[kind](document)
    path.write_text(json.dumps(document))
    refused(path)


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
    for i, name in enumerate(("a b", ' "trees" : [ ', "tr ees", "d")):
        document["features_info"]["float_features"][i]["feature_id"] = name
    path.write_text(json.dumps(document))
    expected = load(path)
    assert expected.feature_names == ("a b", ' "trees" : [ ', "tr ees", "d")
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


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    for policy in POLICIES[:2]:
        text = model_text(policy)
        for end in range(0, len(text), 61):
            path.write_text(text[:end])
            refused(path)
            with pytest.raises(LoaderError):
                loader._decode(text[:end].encode())
        path.write_text(text[:-50] + "}")
        refused(path)
        path.write_text(text + text)
        refused(path)


def test_gigabytes_of_nonsense_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(model_text()[:100])
    for size in (1 << 40, files.MAX_FILE_BYTES):  # sparse: takes no room on the disk
        os.truncate(path, size)
        start = time.perf_counter()
        refused(path)
        assert time.perf_counter() - start < 1.0


@pytest.mark.parametrize("nest", ["[", '{"left":', "[[1],"])
def test_deep_json_is_refused(nest: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    padding = " " * 2_000_000  # so that the number of brackets alone does not give it away
    path.write_text(f'{{"trees":{padding}{nest * 100_000}}}')
    refused(path, "JSON")


def test_json_that_would_blow_up_in_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.json"
    assert_json_bombs_are_refused(path, "trees")
    monkeypatch.setattr(loader, "_MAX_NUMBERS", 1000)
    path.write_text(f'{{"trees":[{"0," * 1001}0]}}')
    refused(path, "more than 1,000 numbers")


# ---- anything at all ----


def loads_or_refuses(data: bytes) -> bool:
    """A mutated model is a sound ensemble, or is refused with a typed error."""
    try:
        document = loader._decode(data)
        loader._unknown_parts(document)
        ensemble = loader._ensemble(document)
    except LoaderError:
        return False
    ensemble.predict(np.zeros((2, ensemble.n_features)))
    return True


def mutated_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes are changed, removed, doubled or put in, some of them such that they mean something."""
    out = bytearray(data)
    telling = [
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b'"',
        b"-",
        b"1e999",
        b"9" * 400,
        b"null",
        b"true",
        b"NaN",
        b"\xff",
    ]
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(out)))
        piece = telling[rng.integers(len(telling))] if rng.random() < 0.5 else rng.bytes(rng.integers(1, 4))
        if rng.random() < 0.2:
            piece = bytes(out[at : at + int(rng.integers(200))]) * 2
        out[at : at + int(rng.integers(0, 5))] = piece
    return bytes(out)


def mutated_document(data: bytes, rng: np.random.Generator) -> bytes:
    """One value somewhere is another one, or gone, or twice there."""
    document = json.loads(data)
    at: Any = document
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = keys[rng.integers(len(keys))]
        if not isinstance(at[key], dict | list) or not at[key] or rng.random() < 0.1:
            break
        at = at[key]
    others = [
        None,
        True,
        -1,
        0,
        1,
        2,
        3.5,
        1e308,
        -1e39,
        10**30,
        "",
        "AsTrue",
        [],
        {},
        [[]],
        [0.5] * 8,
        at[key],
    ]
    choice = rng.integers(len(others) + 2)
    if choice < len(others):
        at[key] = others[choice]
    elif choice == len(others):
        del at[key]
    elif isinstance(at, list):
        at.append(at[key])
    else:
        at["new"] = at[key]
    return json.dumps(document).encode()


@pytest.mark.parametrize("mutated", [mutated_bytes, mutated_document])
@pytest.mark.parametrize(
    "text",
    [
        model_text,
        lambda: model_text("Lossguide", classes=True),
        mixed_text,
        lambda: mixed_text("Depthwise"),
    ],
)
def test_mutated_files_load_or_are_refused(mutated: Any, text: Any) -> None:
    data = text().encode()
    assert loads_or_refuses(data)
    rng = np.random.default_rng(0)
    loaded = sum(loads_or_refuses(mutated(data, rng)) for _ in range(500))
    assert 0 < loaded < 500


def test_any_bytes_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for size in range(200):
        data = rng.bytes(size)
        assert not loads_or_refuses(data)
        assert not loads_or_refuses(b'{"trees":' + data + b"}")
    (tmp_path / "model.json").write_bytes(b'{"trees":\xff}')
    refused(tmp_path / "model.json")
