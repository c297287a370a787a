"""The LightGBM loader against LightGBM: every kind of model, one ulp around thresholds."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from assertions import assert_gaps_of_model
from lightgbm_models import (
    BOOSTING,
    CLASSES,
    FEW,
    HOLES,
    MISSING,
    POSITIVE,
    SMALL,
    TARGETS,
    X_,
    Y_,
    ZERO,
    assert_agrees,
    loaded_both_ways,
    rows_for,
    save,
    text_of,
    train,
)
from loading import Tampered, assert_same, fail, memory_below, refused, wrong_answers
from predgap.errors import LoaderError, TableError, UnsupportedModelError
from predgap.loaders import lightgbm as loader
from predgap.loaders import load

# ---- models trained here ----


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("boosting", BOOSTING)
def test_object_and_file_agree_with_the_library(
    boosting: str, missing: str, target: str, tmp_path: Path
) -> None:
    X, absent = MISSING[missing]
    y, objective = TARGETS[target]
    booster = train({**BOOSTING[boosting], **absent, **objective}, X, y)
    ensemble = loaded_both_ways(booster, tmp_path, n_iterations=6 if boosting == "rf" else None)
    assert ensemble.n_outputs == (3 if target == "multiclass" else 1)
    assert ensemble.n_trees == 6 * ensemble.n_outputs
    assert ensemble.target.tolist() == list(range(ensemble.n_outputs)) * 6
    assert ensemble.source == f"LightGBM {'rf ' if boosting == 'rf' else ''}{target}"
    assert ensemble.feature_names is None


OPTIONS: dict[str, dict[str, Any]] = {
    "extra trees": {"extra_trees": True},
    "leaves": {"num_leaves": 60, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0},
    "depth": {"max_depth": 2},
    "stumps": {"num_leaves": 2},
    "bins": {"max_bin": 7},
    "one sample in a bin": {"min_data_in_bin": 1, "num_leaves": 30},
    "columns": {"feature_fraction": 0.5, "feature_fraction_bynode": 0.5},
    "bagging": {"bagging_freq": 1, "bagging_fraction": 0.5},
    "monotone": {"monotone_constraints": [1, -1, 0, 0]},
    "monotone, advanced": {"monotone_constraints": [1, -1, 0, 0], "monotone_constraints_method": "advanced"},
    "interactions": {"interaction_constraints": "[0,1],[2,3]"},
    "smooth": {"path_smooth": 2.0, "lambda_l1": 0.1, "lambda_l2": 0.1, "max_delta_step": 0.7},
    "quantised": {"use_quantized_grad": True, "quant_train_renew_leaf": True},
    "from zero": {"boost_from_average": False},
    "square roots": {"reg_sqrt": True},
    "no bundles": {"enable_bundle": False, "force_row_wise": True},
    "no gain": {"min_gain_to_split": 1e9},
    "dart of xgboost": {"boosting": "dart", "xgboost_dart_mode": True, "drop_rate": 0.5, "skip_drop": 0.0},
}


@pytest.mark.parametrize("missing", ["nan", "zero and nan"])
@pytest.mark.parametrize("option", OPTIONS)
def test_options_of_training_agree_with_the_library(option: str, missing: str) -> None:
    X, absent = MISSING[missing]
    booster = train({**OPTIONS[option], **absent}, X)
    assert_agrees(booster, load(booster))


def squares(margin: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
    return margin - data.get_label(), np.ones_like(margin)


OBJECTIVES: dict[Any, tuple[Any, dict[str, Any]]] = {
    **dict.fromkeys(("regression_l1", "huber", "fair", "quantile", "mape"), (Y_, {})),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), (POSITIVE, {})),
    **dict.fromkeys(("cross_entropy", "cross_entropy_lambda"), (POSITIVE / POSITIVE.max(), {})),
    "binary": (Y_ > 0, {"is_unbalance": True}),
    "multiclassova": (CLASSES, {"num_class": 3}),
    **dict.fromkeys(("lambdarank", "rank_xendcg"), (CLASSES, {})),
    squares: (Y_, {}),
}


@pytest.mark.parametrize("boosting", ["gbdt", "rf"])
@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda name: "custom" if callable(name) else name)
def test_every_objective_agrees_with_the_library(objective: Any, boosting: str, tmp_path: Path) -> None:
    y, params = OBJECTIVES[objective]
    if objective is squares and boosting == "rf":
        with pytest.raises(lgb.basic.LightGBMError, match="custom objective"):
            train({"objective": objective, **BOOSTING["rf"]})
        return
    ranks = objective in ("lambdarank", "rank_xendcg")
    if ranks and boosting == "rf":
        params = {**params, "bagging_by_query": True}
    options = {"group": [40] * 6} if ranks else {}
    booster = train({"objective": objective, **BOOSTING[boosting], **params}, HOLES, y, **options)
    ensemble = load(booster)
    assert_agrees(booster, ensemble, n_iterations=6 if boosting == "rf" else None)
    assert_same(load(save(booster, tmp_path)), ensemble)
    assert ensemble.source.endswith("custom" if objective is squares else objective)


@pytest.mark.parametrize("objective", ["regression", "binary"])
def test_a_forest_is_its_average(objective: str) -> None:
    booster = train({**BOOSTING["rf"], "objective": objective}, HOLES, Y_ > 0)
    predicted = load(booster).predict(HOLES)
    if objective == "binary":
        predicted = 1 / (1 + np.exp(-predicted))
    np.testing.assert_allclose(predicted, booster.predict(HOLES), rtol=1e-14)


def test_constant_targets_give_trees_of_one_leaf(tmp_path: Path) -> None:
    booster = train(y=np.full(len(Y_), 3.7))
    ensemble = load(save(booster, tmp_path))
    assert ensemble.n_nodes == ensemble.n_trees > 0
    assert_agrees(booster, ensemble)
    few = train({"objective": "multiclass", "num_class": 4}, y=np.minimum(CLASSES, 1))  # two without examples
    assert_agrees(few, load(few))


def test_a_booster_that_was_not_trained_has_no_trees(tmp_path: Path) -> None:
    booster = lgb.Booster(SMALL, lgb.Dataset(X_, Y_))
    for ensemble in (load(booster), load(save(booster, tmp_path))):
        assert (ensemble.n_trees, ensemble.n_features) == (0, 4)
        assert ensemble.predict(X_[:2]).tolist() == [0.0, 0.0]
    forest = lgb.Booster({**SMALL, **BOOSTING["rf"]}, lgb.Dataset(X_, Y_))
    assert load(forest).predict(X_[:1]).tolist() == [0.0]


def test_trees_of_different_trainings_stand_together() -> None:
    first = train({"zero_as_missing": True})
    for params, X in (({}, HOLES), ({"use_missing": False}, HOLES), ({"zero_as_missing": True}, HOLES)):
        first = train(params, X, init_model=first)
    assert first.num_trees() == 24
    assert_agrees(first, load(first))
    again = first.refit(HOLES, Y_ * 2)
    assert_agrees(again, load(again))
    shuffled = first.shuffle_models()
    assert_agrees(shuffled, load(shuffled))


@pytest.mark.parametrize("zero_as_missing", [False, True])
def test_numbers_of_all_sizes(zero_as_missing: bool) -> None:
    n = len(Y_)
    sizes = np.geomspace(1e-44, 1e38, n // 2)
    X = np.c_[np.r_[-sizes, sizes], np.arange(n) + 2.0**53, np.r_[-sizes, sizes] * 1e-30, Y_ * 1e300]
    X[::7, 1] = np.inf
    X[::11, 0] = 0.0
    booster = train(
        {"zero_as_missing": zero_as_missing, "num_leaves": 40, "min_data_in_bin": 1, "min_data_in_leaf": 1},
        X,
        np.random.default_rng(0).normal(size=n),
    )
    assert_agrees(booster, load(booster))


@pytest.mark.parametrize("missing", ["nan", "zero"])
def test_splits_between_missing_and_present(missing: str) -> None:
    """Their thresholds are infinite; no finite one has an infinite value on the right side."""
    X, absent = MISSING[missing]
    gone = np.isnan(X[:, 0]) if missing == "nan" else X[:, 0] == 0.0
    booster = train(absent, X[:, [0, 3]], gone + 0.1 * X_[:, 3])
    assert re.search("(?m)^threshold=.*inf", booster.model_to_string()) or missing == "zero"
    ensemble = load(booster)
    assert_agrees(booster, ensemble)
    if missing == "nan":
        with pytest.raises(TableError, match="infinite"):
            ensemble.predict([[np.inf, 0.0]])


def test_single_precision_sparse_and_unused_columns() -> None:
    wide = np.zeros((len(Y_), 9))
    wide[:, [1, 4, 5, 8]] = X_
    wide[::3, 2] = 1.0
    wide[1::3, 3] = 1.0
    for X in (wide, wide.astype(np.float32), sparse.csr_matrix(wide), wide[:, [1, 0]]):
        booster = train(X=X)
        ensemble = load(booster)
        assert ensemble.n_features == X.shape[1]
        assert_agrees(booster, ensemble)


# ---- wrappers and early stopping ----


def test_wrappers_agree_with_their_own_raw_scores() -> None:
    models = {
        "regressor": lgb.LGBMRegressor(**FEW).fit(HOLES, Y_),
        "classifier": lgb.LGBMClassifier(**FEW).fit(HOLES, np.where(Y_ > 0, "yes", "no")),
        "classifier of three": lgb.LGBMClassifier(**FEW, zero_as_missing=True).fit(HOLES, CLASSES),
        "ranker": lgb.LGBMRanker(**FEW).fit(HOLES, CLASSES, group=[40] * 6),
        "dart": lgb.LGBMRegressor(**FEW, boosting_type="dart").fit(HOLES, Y_),
        "model": lgb.LGBMModel(**FEW, objective="poisson").fit(HOLES, POSITIVE),
    }
    for model in models.values():
        ensemble = load(model)
        rows = rows_for(ensemble)
        np.testing.assert_array_equal(ensemble.predict(rows), model.predict(rows, raw_score=True))
        for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            assert_same(load(other), ensemble)
        booster = load(model.booster_)  # which numbers the classes
        assert_same(replace(booster, class_names=ensemble.class_names), ensemble)


def test_a_wrapper_of_a_forest_gives_what_it_predicts() -> None:
    options = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1}
    model = lgb.LGBMRegressor(**FEW, **options).fit(HOLES, Y_)
    np.testing.assert_allclose(load(model).predict(HOLES), model.predict(HOLES), rtol=1e-14)
    classifier = lgb.LGBMClassifier(**FEW, **options).fit(HOLES, CLASSES)
    margin = np.exp(load(classifier).predict(HOLES))
    shares = margin / margin.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, classifier.predict_proba(HOLES), rtol=1e-13)


def test_a_subclass_of_a_wrapper_is_a_wrapper() -> None:
    class Mine(lgb.LGBMRegressor):  # type: ignore[misc, name-defined]
        pass

    assert load(Mine(**FEW).fit(X_, Y_)).n_trees == 5


@pytest.mark.parametrize("boosting", ["gbdt", "rf"])
def test_early_stopping_ends_with_the_best_iteration(boosting: str, tmp_path: Path) -> None:
    noisy = Y_ + np.random.default_rng(0).normal(size=len(Y_)) * 3
    booster = train(
        {**BOOSTING[boosting], "learning_rate": 0.5, "metric": "l2"},
        X_[:120],
        noisy[:120],
        rounds=80,
        valid_sets=[lgb.Dataset(X_[120:], noisy[120:])],
        callbacks=[lgb.early_stopping(10, verbose=False)],
        keep_training_booster=True,  # else the other trees are gone at once
    )
    assert 0 < booster.best_iteration < booster.current_iteration()
    ensemble = load(booster)
    assert ensemble.n_trees == booster.best_iteration
    assert_agrees(booster, ensemble, n_iterations=booster.best_iteration if boosting == "rf" else None)
    path = save(booster, tmp_path)  # has no more trees than these
    assert_same(load(path), ensemble)
    booster.save_model(str(path), num_iteration=-1)
    assert load(path).n_trees == booster.current_iteration()
    np.testing.assert_allclose(
        load(path).predict(X_), lgb.Booster(model_file=str(path)).predict(X_), rtol=1e-14, atol=1e-15
    )
    assert_same(load(pickle.loads(pickle.dumps(booster))), ensemble)


@pytest.mark.filterwarnings("ignore:The argument 'eval_set'")  # whose replacement is new in LightGBM 4.7
def test_an_early_stopped_wrapper_ends_with_its_best_iteration() -> None:
    noisy = np.where(np.random.default_rng(0).random(len(Y_)) < 0.3, 2 - CLASSES, CLASSES)
    model = lgb.LGBMClassifier(n_estimators=80, learning_rate=0.5, num_leaves=7, verbose=-1, n_jobs=1)
    model.fit(
        X_[:120],
        noisy[:120],
        eval_set=[(X_[120:], noisy[120:])],
        callbacks=[lgb.early_stopping(10, verbose=False)],
    )
    ensemble = load(model)
    assert ensemble.n_trees == 3 * model.best_iteration_ < 3 * 70
    np.testing.assert_array_equal(ensemble.predict(HOLES), model.predict(HOLES, raw_score=True))


# ---- names ----


def test_names_come_from_the_model_and_loading_says_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    names = ("age", "größe", "a=b", "Tree\xa0=")
    frame = pd.DataFrame(X_, columns=list(names))
    model = lgb.LGBMRegressor(**FEW).fit(frame, Y_)
    assert load(model).feature_names == names
    assert load(save(model.booster_, tmp_path)).feature_names == names
    backwards = frame[list(reversed(names))]
    np.testing.assert_array_equal(load(model).predict(backwards), model.predict(frame))
    assert capfd.readouterr() == ("", "")


def test_generated_names_are_no_names() -> None:
    assert load(train()).feature_names is None
    given = ["Column_1", "Column_0", "a", "b"]
    assert load(train(feature_name=given)).feature_names == tuple(given)
    assert load(train(X=pd.DataFrame(X_))).feature_names == ("0", "1", "2", "3")


# ---- zero as missing ----


def test_zeros_cross_over_without_their_neighbours() -> None:
    """A zero goes its default way; what is next to it on either side does not."""
    booster = train({"zero_as_missing": True, "num_leaves": 30, "learning_rate": 0.7}, rounds=20)
    ensemble = load(booster)
    assert ensemble.n_nodes > 20 * 59  # splits were unfolded
    plain = train({"num_leaves": 30, "learning_rate": 0.7}, rounds=20)
    assert ensemble.n_nodes < 6 * load(plain).n_nodes
    around = np.repeat(X_[:12], 5, axis=0)
    around[:, 0] = np.tile([-np.nextafter(ZERO, 1), -ZERO, 0.0, ZERO, np.nextafter(ZERO, 1)], 12)
    mine = ensemble.predict(around)
    np.testing.assert_array_equal(mine, booster.predict(around))
    assert (mine.reshape(12, 5)[:, [1, 3]] == mine.reshape(12, 5)[:, [2]]).all()
    assert len(np.unique(mine.reshape(12, 5)[:, [0, 2, 4]])) > 12


def test_unfolding_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    booster = train({"zero_as_missing": True, "num_leaves": 30}, rounds=20)
    monkeypatch.setattr(loader, "_MAX_UNFOLDING", 5000)
    with pytest.raises(UnsupportedModelError, match="zero_as_missing"):
        load(booster)
    assert load(train(rounds=20)).n_trees == 20  # nothing to unfold there


def test_unfolding_that_would_explode_is_refused_within_bounds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    depth = 11  # a feature for each level, and each split folded: 4^11 leaves
    n = 2**depth - 1
    inner = np.arange(n)
    tree = {
        "feature": np.log2(inner + 1).astype(int),
        "threshold": np.full(n, -1.0),
        "decision": np.full(n, 6),
        "left": np.where(2 * inner + 1 < n, 2 * inner + 1, n - (2 * inner + 2)),
        "right": np.where(2 * inner + 2 < n, 2 * inner + 2, n - (2 * inner + 3)),
        "value": np.arange(n + 1.0),
    }
    path = tmp_path / "model.txt"
    path.write_bytes(text_of([tree], n_features=depth))
    monkeypatch.setattr(loader, "_MAX_UNFOLDING", 50_000)
    with memory_below(100 << 20):
        refused(path, "zero_as_missing", UnsupportedModelError)


# ---- random texts, read by both ----

POINTS = np.array([5e-324, 1e-36, ZERO, np.nextafter(ZERO, 1), 1e-30, 1.0, 2.0, 1e300])
CUTS = np.concatenate([-POINTS, [-0.0, 0.0], POINTS])
CODES = [0, 1, 2, 5, 30, 31, 32, 33, 63, 64, 1000]


def random_tree(
    rng: np.random.Generator, n_features: int, kinds: list[int], infinite: bool, n_categorical: int = 0
) -> dict[str, Any]:
    """A tree whose last features are categorical."""
    n = int(rng.integers(0, 12))
    left, right = np.zeros(n, dtype=int), np.zeros(n, dtype=int)
    if n:
        left[0], right[0] = -1, -2
    for i in range(1, n):  # split i takes the place of a leaf, which becomes its left child
        side, parent = [(side, k) for side in (left, right) for k in range(i) if side[k] < 0][
            rng.integers(0, i + 1)
        ]
        left[i], right[i], side[parent] = side[parent], -(i + 2), i
    feature = rng.integers(0, n_features, n)
    threshold = rng.choice(np.append(CUTS, np.inf) if infinite else CUTS, n)
    by_set = feature >= n_features - n_categorical
    threshold[by_set] = np.arange(by_set.sum())
    return {
        "feature": feature,
        "threshold": threshold,
        "decision": rng.choice([4 * kind + way for kind in kinds for way in (0, 2)], n) + by_set,
        "left": left,
        "right": right,
        "value": rng.normal(size=n + 1),
        "sets": [rng.choice(CODES, rng.integers(0, 6), replace=False).tolist() for _ in range(by_set.sum())],
    }


@pytest.mark.parametrize("kinds", [[0], [1], [2], [0, 1, 2]])
@pytest.mark.parametrize("seed", range(12))
def test_random_trees_are_read_as_lightgbm_reads_them(seed: int, kinds: list[int], tmp_path: Path) -> None:
    """Thresholds around 0, sets of categories, and all kinds of missing values, even of one feature."""
    rng = np.random.default_rng(seed)
    n_features, per_iteration = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    n_categorical = int(rng.integers(0, n_features + 1))
    trees = [
        random_tree(rng, n_features, kinds, seed % 3 == 0, n_categorical) for _ in range(6 * per_iteration)
    ]
    path = tmp_path / "model.txt"
    path.write_bytes(text_of(trees, n_features, per_iteration=per_iteration))
    ensemble = load(path)
    booster = lgb.Booster(model_file=str(path))
    assert_agrees(booster, ensemble)
    assert_same(load(booster), ensemble)
    values = [[0.0, np.nan, -1.0, -1.5, 1.5, -ZERO, 1e-33, -1e-33]] * (n_features - n_categorical)
    values += [[0.0, np.nan, -1.0, 1.0, 2.0, 31.0, 32.0, 3.0]] * n_categorical
    rows = np.array(list(itertools.product(*values)))
    mine = ensemble.predict(rows)
    np.testing.assert_array_equal(mine, booster.predict(rows, raw_score=True).reshape(mine.shape))


# ---- gaps ----


@pytest.mark.parametrize(
    ("boosting", "missing", "target"),
    [
        ("gbdt", "nan", "regression"),
        ("gbdt", "zero", "regression"),
        ("dart", "zero and nan", "binary"),
        ("rf", "nan", "regression"),
        ("rf", "zero and nan", "multiclass"),
        ("goss", "none", "multiclass"),
    ],
)
def test_gaps_are_those_of_the_definition(boosting: str, missing: str, target: str) -> None:
    X, absent = MISSING[missing]
    y, objective = TARGETS[target]
    booster = train({**BOOSTING[boosting], **absent, **objective}, X, y)
    ensemble = load(booster).select(1 if target == "multiclass" else 0)
    assert_gaps_of_model(ensemble, np.array([X[0], X[3], X[7], np.zeros(4)]))


# ---- models that are refused by name ----


def test_linear_trees_are_refused_by_name(tmp_path: Path) -> None:
    booster = train({"linear_tree": True})
    with pytest.raises(UnsupportedModelError, match="linear_tree"):
        load(booster)
    refused(save(booster, tmp_path), "linear_tree", UnsupportedModelError)


def test_prediction_early_stopping_is_refused_by_name() -> None:
    model = lgb.LGBMClassifier(**FEW, pred_early_stop=True).fit(X_, Y_ > 0)
    with pytest.raises(UnsupportedModelError, match="pred_early_stop"):
        load(model)
    assert load(model.booster_).n_trees == 5


def test_models_on_a_cluster_are_refused_by_name() -> None:
    kind = type("DaskLGBMRegressor", (lgb.LGBMRegressor,), {"__module__": "lightgbm.dask"})
    with pytest.raises(UnsupportedModelError, match="to_local"):
        load(kind())


def test_unfitted_and_unknown_objects_are_refused() -> None:
    with pytest.raises(LoaderError, match="fitted"):
        load(lgb.LGBMRegressor())
    for thing in (lgb.LGBMRegressor, lgb.Dataset(X_, Y_), lgb.CVBooster()):
        with pytest.raises(UnsupportedModelError, match="LightGBM Booster"):
            load(thing)


# ---- the check of a load against its object ----


@pytest.mark.parametrize("missing", ["nan", "zero"])
@pytest.mark.parametrize(("leaf", "margin", "says"), wrong_answers(1e-10))
def test_a_disagreement_is_refused(leaf: Any, margin: Any, says: str, missing: str) -> None:
    X, absent = MISSING[missing]
    with pytest.raises(LoaderError, match=says):
        loader.from_object(Tampered(train(absent, X), leaf, margin))


def test_an_object_that_cannot_predict_is_refused() -> None:
    with pytest.raises(LoaderError, match="out of order"):
        loader.from_object(Tampered(train(), fail, fail))
