"""The XGBoost loader against XGBoost: every kind of model, one ulp around every threshold."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.linear_model import LinearRegression

from loading import Tampered, assert_same, fail, refused, rows_around_thresholds, wrong_answers
from predgap._model.ensemble import LEAF
from predgap.errors import LoaderError, TableError, UnsupportedModelError
from predgap.loaders import load, translation
from predgap.loaders import xgboost as loader
from xgboost_models import (
    CLASSES,
    RELEASE,
    TWO,
    X_,
    Y_,
    assert_agrees,
    assert_booster_agrees,
    save,
    single_sum,
    train,
)

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # XGBoost's own


# ---- models trained here ----

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
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(load(booster, best_iteration=True), load(booster[: model.best_iteration + 1]))
        assert_same(load(model, best_iteration=False), ensemble)
    for kind in ("json", "ubj"):
        path = save(booster, tmp_path, kind)
        n = booster.num_boosted_rounds()
        says = rf"best_iteration is {model.best_iteration}, but it has {n} iterations, and all are loaded"
        with pytest.warns(UserWarning, match=says):
            whole = load(path)
        assert whole.n_trees == n * per_round
        assert_booster_agrees(xgb.Booster(model_file=str(path)), whole, 8.0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_same(load(path, best_iteration=False), whole)
            best = load(path, best_iteration=True)
        assert best.n_trees == ensemble.n_trees
        np.testing.assert_array_equal(best.predict(rows), ensemble.predict(rows))
    again = xgb.XGBRegressor()
    again.load_model(str(path))
    assert load(again).n_trees == ensemble.n_trees


@pytest.mark.parametrize("attribute", [None, "none", "59", "2147483648", "-1"])
def test_files_without_later_iterations_are_not_warned_of(attribute: str | None, tmp_path: Path) -> None:
    """The last iteration is the best one, or the attribute is of the user's own making."""
    booster = train()
    booster.set_attr(best_iteration=attribute)
    path = save(booster, tmp_path, "json")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = load(path)
    assert whole.n_trees == booster.num_boosted_rounds()
    if attribute is None:
        assert_same(load(path, best_iteration=True), whole)
    else:
        with pytest.raises(LoaderError, match="best_iteration is"):
            load(path, best_iteration=True)


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
        with pytest.raises(UnsupportedModelError, match=r"this is (an?|the class) \w+\. Expected an XGBoost"):
            load(thing)
    with pytest.raises(UnsupportedModelError, match="this is a LinearRegression"):
        load(LinearRegression())


# ---- the check of a load against its object ----


@pytest.mark.parametrize(("leaf", "margin", "says"), wrong_answers(1e-4))
def test_a_disagreement_is_refused(leaf: Any, margin: Any, says: str) -> None:
    with pytest.raises(LoaderError, match=says):
        loader.from_object(Tampered(train(), leaf, margin))


def test_an_object_that_cannot_predict_is_refused() -> None:
    with pytest.raises(LoaderError, match="out of order"):
        loader.from_object(Tampered(train(), fail, fail))


def test_check_rows_are_few_and_hold_every_threshold_of_a_small_model() -> None:
    ensemble = load(train())
    rows = translation.rows_at_thresholds(ensemble)
    assert rows.shape == (translation.MAX_ROWS, 4)
    np.testing.assert_array_equal(rows, translation.rows_at_thresholds(ensemble))
    inner = ensemble.feature != LEAF
    for j, cut in zip(ensemble.feature[inner], ensemble.threshold[inner], strict=True):
        column = rows[:, j]
        assert np.isnan(column).any()
        for value in (cut, np.nextafter(cut, -np.inf), np.nextafter(cut, np.inf)):
            assert (column == value).any()
    wide = replace(ensemble, n_features=1_000_000)
    assert translation.rows_at_thresholds(wide).shape == (16, 1_000_000)
