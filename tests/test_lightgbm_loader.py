"""The LightGBM loader against LightGBM: every kind of model, one ulp around thresholds, and damaged files."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import reference
from loading import memory_below, printed_without, refused
from predgap import Explainer, Normal
from predgap.ensemble import LEAF, Ensemble
from predgap.errors import LoaderError, TableError, UnsupportedModelError
from predgap.loaders import lightgbm as loader
from predgap.loaders import lightgbm_categories as categories
from predgap.loaders import load, selfcheck

ZERO = float(np.float32(1e-35))  # what is no farther from 0 is 0 to LightGBM
COLUMNS = ("root", "feature", "threshold", "left", "right", "default_left", "value", "target", "bias")
COLUMNS += ("category_set", "set_begin", "set_code")

# ---- data ----


def make_data(n: int = 240, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Columns of both signs, of tenths with many zeros, of counts, and one that hardly matters."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d))
    X[:, 1] = np.round(X[:, 1], 1)
    X[:, 2] = rng.poisson(1.0, n)
    y = X[:, 0] + X[:, 1] * X[:, 2] - np.abs(X[:, 1])
    X[rng.random(n) < 0.3, 1] = 0.0
    X[rng.random(n) < 0.2, 0] = 0.0
    return X, y + (X[:, 0] == 0.0) - 2.0 * (X[:, 1] == 0.0)


X_, Y_ = make_data()
HOLES = np.where(np.random.default_rng(4).random(X_.shape) < 0.15, np.nan, X_)
CLASSES = np.digitize(Y_, [-1.5, 0.5])
POSITIVE = np.abs(Y_) + 0.1
SMALL: dict[str, Any] = {"verbose": -1, "num_threads": 1, "num_leaves": 7, "min_data_in_leaf": 3, "seed": 1}


def train(
    params: dict[str, Any] | None = None, X: Any = X_, y: Any = Y_, rounds: int = 6, **options: Any
) -> Any:
    data = {
        key: options.pop(key) for key in ("feature_name", "categorical_feature", "group") if key in options
    }
    return lgb.train({**SMALL, **(params or {})}, lgb.Dataset(X, y, **data), rounds, **options)


# ---- what must agree ----


def special(ensemble: Ensemble, j: int) -> np.ndarray:
    """Values at, and one ulp around, the thresholds of a feature and the bounds of zero; and the odd ones.

    Of a categorical feature, all levels and much that is none.
    """
    levels = ensemble.categorical().get(j)
    if levels is not None:
        odd = [0, 31, 32, 63, 64, 2**31 - 1, 2**31, 2**32, 1e300, -1, -(2.0**31), -1e300, np.nan, np.nan]
        return np.concatenate([levels.codes, levels.codes + 1.0, odd])
    cuts = np.append(ensemble.threshold[ensemble.feature == j], [-ZERO, ZERO])
    with np.errstate(over="ignore"):
        below, above = np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf)
    odd = [0.0, -0.0, 1e-36, -1e-36, 5e-324, 1e300, -1e300, 1.7976931348623157e308, np.nan, np.nan]
    values = np.concatenate([below, cuts, above, odd])
    return np.append(values, [np.inf, -np.inf]) if ensemble.takes_infinity else values[~np.isinf(values)]


def rows_for(ensemble: Ensemble, n: int = 1500) -> np.ndarray:
    """Random rows, half of their values special; and for each feature all special ones in turn."""
    rng = np.random.default_rng(7)
    rows = [
        np.where(rng.random((n, ensemble.n_features)) < 0.2, 0.0, rng.normal(size=(n, ensemble.n_features)))
    ]
    for j in ensemble.categorical():
        rows[0][:, j] = rng.choice(special(ensemble, j), n)
    some = rows[0].copy()
    for j in range(ensemble.n_features):
        values = special(ensemble, j)
        rows[0][:, j] = np.where(rng.random(n) < 0.5, rng.choice(values, n), rows[0][:, j])
        rows.append(some[rng.integers(0, n, len(values))])
        rows[-1][:, j] = values
    return np.concatenate(rows)


def assert_agrees(booster: Any, ensemble: Ensemble, *, n_iterations: int | None = None) -> None:
    """Leaves equal; raw scores equal bit for bit, or for a forest, to 1e-15 of the sizes of its leaves."""
    rows = rows_for(ensemble)
    theirs = np.asarray(booster.predict(rows, raw_score=True)).reshape(len(rows), -1)
    mine = ensemble.predict(rows).reshape(len(rows), -1)
    if n_iterations is None:
        np.testing.assert_array_equal(mine, theirs)
    else:
        largest = np.abs(ensemble.value).max() * ensemble.n_trees
        np.testing.assert_allclose(mine, theirs / n_iterations, rtol=0, atol=1e-15 * largest)
    numbers = loader._loaded([booster.model_to_string().encode()], known_only=True).leaf
    leaves = np.asarray(booster.predict(rows, pred_leaf=True)).reshape(len(rows), -1)
    np.testing.assert_array_equal(numbers[ensemble.leaves(rows)], leaves)


def assert_same(first: Ensemble, second: Ensemble) -> None:
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)
    for name in ("n_features", "feature_names", "source", "takes_infinity"):
        assert getattr(first, name) == getattr(second, name), name
    assert levels_of(first) == levels_of(second)


def levels_of(ensemble: Ensemble) -> dict[int, dict[int, Any]]:
    """The code and the label of each level of the categorical features."""
    return {
        q: dict(zip(levels.codes.tolist(), levels.labels, strict=True))
        for q, levels in ensemble.categorical().items()
    }


def save(booster: Any, folder: Path) -> Path:
    path = folder / "model.txt"
    booster.save_model(str(path))
    return path


# ---- models trained here ----

BOOSTING: dict[str, dict[str, Any]] = {
    "gbdt": {},
    "goss": {"data_sample_strategy": "goss", "learning_rate": 0.5},
    "dart": {"boosting": "dart", "drop_rate": 0.5, "skip_drop": 0.0},
    "rf": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
}
MISSING: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
    "none": (X_, {}),
    "unused": (HOLES, {"use_missing": False}),
    "nan": (HOLES, {}),
    "zero": (X_, {"zero_as_missing": True}),
    "zero and nan": (HOLES, {"zero_as_missing": True}),
}
TARGETS: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
    "regression": (Y_, {"objective": "regression"}),
    "binary": (Y_ > 0, {"objective": "binary", "sigmoid": 2.0}),
    "multiclass": (CLASSES, {"objective": "multiclass", "num_class": 3}),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("boosting", BOOSTING)
def test_object_and_file_agree_with_the_library(
    boosting: str, missing: str, target: str, tmp_path: Path
) -> None:
    X, absent = MISSING[missing]
    y, objective = TARGETS[target]
    booster = train({**BOOSTING[boosting], **absent, **objective}, X, y)
    ensemble = load(booster)
    n_iterations = 6 if boosting == "rf" else None
    assert_agrees(booster, ensemble, n_iterations=n_iterations)
    path = save(booster, tmp_path)
    assert_same(load(path), ensemble)
    assert_agrees(lgb.Booster(model_file=str(path)), load(path), n_iterations=n_iterations)
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

FEW: dict[str, Any] = {"n_estimators": 5, "num_leaves": 7, "min_child_samples": 3, "verbose": -1, "n_jobs": 1}


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
        for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model.booster_):
            assert_same(load(other), ensemble)


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


def text_of(trees: list[dict[str, Any]], n_features: int, *, per_iteration: int = 1) -> bytes:
    """A model file as LightGBM writes it; the sets of a tree are lists of codes."""

    def line(name: str, values: Any) -> str:
        return f"{name}={' '.join(repr(value) for value in np.asarray(values).tolist())}\n"

    blocks = []
    for i, tree in enumerate(trees):
        blocks.append(
            f"Tree={i}\nnum_leaves={len(tree['value'])}\nnum_cat={len(tree.get('sets', []))}\n"
            + line("split_feature", tree["feature"])
            + line("threshold", tree["threshold"])
            + line("decision_type", tree["decision"])
            + line("left_child", tree["left"])
            + line("right_child", tree["right"])
            + line("leaf_value", tree["value"])
            + "".join(line(name, values) for name, values in bitsets(tree.get("sets", [])).items())
            + "is_linear=0\nshrinkage=1\n\n\n"
        )
    header = (
        f"tree\nversion=v4\nnum_class={per_iteration}\nnum_tree_per_iteration={per_iteration}\n"
        f"label_index=0\nmax_feature_idx={n_features - 1}\n"
        f"feature_names={' '.join(f'Column_{j}' for j in range(n_features))}\n"
        f"feature_infos={' '.join(['none'] * n_features)}\n"
        f"tree_sizes={' '.join(str(len(block)) for block in blocks)}\n\n"
    )
    return (header + "".join(blocks) + "end of trees\n\npandas_categorical:null\n").encode()


def bitsets(sets: list[list[int]]) -> dict[str, list[int]]:
    """The fields of a tree for its sets of codes."""
    words = [[0] * (max(codes, default=0) // 32 + 1) for codes in sets]
    for own, codes in zip(words, sets, strict=True):
        for code in codes:
            own[code // 32] |= 1 << code % 32
    if not sets:
        return {}
    bounds = [0, *itertools.accumulate(map(len, words))]
    return {"cat_boundaries": bounds, "cat_threshold": [word for own in words for word in own]}


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


# ---- categories ----

COLOURS = ["red", "green", "blue", "white"]
TOWNS = [f"town {i}" for i in range(40)]


def make_codes() -> np.ndarray:
    """A number, four colours, a number with zeros, and forty towns whose codes are 7 apart."""
    rng = np.random.default_rng(5)
    return np.c_[X_[:, 0], rng.integers(0, 4, len(Y_)), X_[:, 1], 7 * rng.integers(0, 40, len(Y_))]


C_ = make_codes()
CY_ = Y_ + np.array([0.0, 2.0, -1.0, 3.0])[C_[:, 1].astype(int)] + 2.0 * np.sin(C_[:, 3])
GAPS = np.where(np.random.default_rng(6).random(C_.shape) < 0.15, np.nan, C_)
EAGER: dict[str, Any] = {"min_data_per_group": 1, "cat_smooth": 1.0, "cat_l2": 0.1, "min_data_in_bin": 1}
WAYS: dict[str, dict[str, Any]] = {
    "one-hot": {**EAGER, "max_cat_to_onehot": 100},
    "partition": {**EAGER, "max_cat_to_onehot": 1, "num_leaves": 15},
}
CODED: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
    "none": (C_, {}),
    "unused": (GAPS, {"use_missing": False}),
    "nan": (GAPS, {}),
    "zero": (C_, {"zero_as_missing": True}),
    "zero and nan": (GAPS, {"zero_as_missing": True}),
    "negative": (np.where(np.isnan(GAPS), -5.0, GAPS), {}),
}


def set_sizes(ensemble: Ensemble) -> list[int]:
    return np.diff(ensemble.set_begin).tolist()


@pytest.mark.parametrize("missing", CODED)
@pytest.mark.parametrize("boosting", ["gbdt", "dart", "rf"])
@pytest.mark.parametrize("way", WAYS)
def test_codes_of_categories_agree_with_the_library(
    way: str, boosting: str, missing: str, tmp_path: Path
) -> None:
    X, absent = CODED[missing]
    booster = train({**WAYS[way], **BOOSTING[boosting], **absent}, X, CY_, categorical_feature=[1, 3])
    ensemble = load(booster)
    n_iterations = 6 if boosting == "rf" else None
    assert_agrees(booster, ensemble, n_iterations=n_iterations)
    path = save(booster, tmp_path)
    assert_same(load(path), ensemble)
    assert_agrees(lgb.Booster(model_file=str(path)), load(path), n_iterations=n_iterations)
    assert levels_of(ensemble)[1] == {code: code for code in range(4)}
    assert set(levels_of(ensemble)[3]) <= set(range(0, 280, 7))
    assert len(levels_of(ensemble)[3]) > 30  # without the rarest
    assert (max(set_sizes(ensemble)) == 1) == (way == "one-hot")
    assert min(set_sizes(ensemble)) > 0


@pytest.mark.parametrize("target", ["binary", "multiclass"])
def test_categories_of_classifiers_agree_with_the_library(target: str) -> None:
    y, objective = TARGETS[target]
    booster = train({**WAYS["partition"], **objective}, GAPS, y, categorical_feature=[1, 3])
    ensemble = load(booster)
    assert len(ensemble.set_code) > 0
    assert_agrees(booster, ensemble)


def make_frame(n: int = len(Y_)) -> pd.DataFrame:
    """The same as a frame with labels; some are missing, and one town has no row."""
    town = pd.Categorical.from_codes((C_[:, 3] // 7).astype(int), categories=[*TOWNS, "nowhere"])
    frame = pd.DataFrame(
        {
            "size": C_[:, 0],
            "colour": np.array(COLOURS)[C_[:, 1].astype(int)],
            "weight": C_[:, 2],
            "town": town,
        }
    )
    frame.loc[::9, "town"] = None
    frame["colour"] = frame["colour"].astype("category")  # in alphabetical order
    return frame[:n]


def strange_rows() -> pd.DataFrame:
    """Rows with labels that no model has seen, and missing ones."""
    frame = make_frame(60).astype({"colour": object, "town": object})
    frame.loc[0:20:2, "colour"] = "mauve"
    frame.loc[1:21:2, "colour"] = None
    frame.loc[10:30:3, "town"] = "elsewhere"
    frame.loc[31:40, "town"] = "nowhere"
    return frame


def as_categories(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype({"colour": "category", "town": "category"})


@pytest.mark.parametrize("way", WAYS)
def test_labels_of_a_frame_agree_with_the_library(way: str, tmp_path: Path) -> None:
    frame = make_frame()
    booster = train(WAYS[way], frame, CY_)
    path = save(booster, tmp_path)
    for ensemble in (load(booster), load(path), load(pickle.loads(pickle.dumps(booster)))):
        assert levels_of(ensemble) == {
            1: dict(enumerate(sorted(COLOURS))),
            3: dict(enumerate([*TOWNS, "nowhere"])),
        }
        assert_agrees(booster, ensemble)  # codes
        np.testing.assert_array_equal(ensemble.predict(frame), booster.predict(frame))
        strange = strange_rows()
        expected = booster.predict(as_categories(strange))
        assert len(set(expected)) > 20
        for rows in (
            strange,
            as_categories(strange),
            strange[["town", "size", "weight", "colour"]],
            pl.from_pandas(strange),
            pl.from_pandas(strange).with_columns(pl.col("town", "colour").cast(pl.Categorical)),
            pl.from_pandas(strange).to_arrow(),
            strange.to_numpy(),  # of objects
        ):
            np.testing.assert_array_equal(ensemble.predict(rows), expected)


@pytest.mark.parametrize(
    "labels",
    [[10, 20, 30, 40], [0.5, 1.5, 2.5, 3.5], [False, True], ["", "ü", '"', "a,b\n"], [3, 2, 1, 0], [1, 0]],
    ids=str,
)
def test_labels_may_be_numbers_and_any_text(labels: list[Any], tmp_path: Path) -> None:
    codes = C_[:, 1].astype(int) % len(labels)
    frame = pd.DataFrame({"size": C_[:, 0], "kind": pd.Categorical.from_codes(codes, categories=labels)})
    booster = train(EAGER, frame, CY_ + 3 * codes)
    for ensemble in (load(booster), load(save(booster, tmp_path))):
        assert levels_of(ensemble) == {1: dict(enumerate(labels))}
        assert len(ensemble.set_code) > 0
        np.testing.assert_array_equal(ensemble.predict(frame), booster.predict(frame))
        np.testing.assert_array_equal(ensemble.predict(np.c_[C_[:, 0], codes]), booster.predict(frame))


def test_wrappers_with_categories_agree_with_the_library() -> None:
    frame, few = make_frame(), {**FEW, **EAGER}
    models = [
        lgb.LGBMRegressor(**few).fit(frame, CY_),
        lgb.LGBMClassifier(**few).fit(frame, CLASSES),
        lgb.LGBMRanker(**few).fit(frame, CLASSES, group=[40] * 6),
        lgb.LGBMRegressor(**few, boosting_type="dart").fit(frame, CY_),
    ]
    for model in models:
        ensemble = load(model)
        assert len(ensemble.set_code) > 0
        rows = as_categories(strange_rows())
        np.testing.assert_array_equal(ensemble.predict(rows), model.predict(rows, raw_score=True))
        assert_same(load(model.booster_), ensemble)
    forest = lgb.LGBMRegressor(**few, boosting_type="rf", subsample=0.6, subsample_freq=1).fit(frame, CY_)
    np.testing.assert_allclose(load(forest).predict(rows), forest.predict(rows), rtol=1e-12)


def test_polars_and_arrow_frames_of_codes_agree_with_the_library() -> None:
    frame = pl.DataFrame(C_, schema=["size", "colour", "weight", "town"], orient="row")
    frame = frame.with_columns(pl.col("colour", "town").cast(pl.Int64))
    frame = frame.with_columns(pl.when(pl.col("town") != 7).then(pl.col("town")))  # null for 7
    for data in (frame, frame.to_arrow()):
        booster = train(EAGER, data, CY_, categorical_feature=["colour", "town"])
        ensemble = load(booster)
        assert sorted(ensemble.categorical()) == [1, 3]
        assert_agrees(booster, ensemble)
        np.testing.assert_array_equal(ensemble.predict(data), booster.predict(data))


def test_categorical_features_of_no_use_are_known_all_the_same(tmp_path: Path) -> None:
    """LightGBM drops what it cannot split; the labels of the others are still theirs."""
    frame = make_frame()
    frame.insert(0, "country", pd.Categorical(["here"] * len(frame)))
    booster = train(WAYS["partition"], frame, CY_)
    assert "feature_infos=none " in booster.model_to_string()
    for ensemble in (load(booster), load(save(booster, tmp_path))):
        assert levels_of(ensemble)[0] == {0: "here"}
        assert levels_of(ensemble)[2] == dict(enumerate(sorted(COLOURS)))
        np.testing.assert_array_equal(ensemble.predict(frame), booster.predict(frame))
    codes = np.c_[np.full(len(C_), 6.0), C_]
    plain = load(train(EAGER, codes, CY_, categorical_feature=[0, 2]))
    assert levels_of(plain) == {0: {}, 2: {code: code for code in range(4)}}
    assert not load(train(X=np.c_[X_, np.ones(len(Y_))])).categorical()


def test_rare_categories_are_like_unseen_ones() -> None:
    """They are left out of the levels; no set holds them."""
    codes = C_.copy()
    codes[:2, 1] = [77, 78]
    booster = train({**EAGER, "min_data_in_bin": 3, "max_bin": 3}, codes, CY_, categorical_feature=[1])
    ensemble = load(booster)
    assert set(levels_of(ensemble)[1]) == {0, 1, 2, 3}
    np.testing.assert_array_equal(ensemble.predict(codes), booster.predict(codes))
    assert_agrees(booster, ensemble)


def test_giant_codes_take_no_more_memory_than_their_text(tmp_path: Path) -> None:
    codes = C_.copy()
    codes[:, 1] = np.array([0, 4_000_000, 7_999_999, 8_000_000])[C_[:, 1].astype(int)]
    booster = train(WAYS["partition"], codes, CY_, rounds=1, categorical_feature=[1])
    path = save(booster, tmp_path)
    with memory_below(16 * path.stat().st_size):
        ensemble = load(path)
    assert set(levels_of(ensemble)[1]) == {0, 4_000_000, 7_999_999, 8_000_000}
    assert max(set_sizes(ensemble)) < 4
    assert_agrees(booster, ensemble)


def test_no_category_lies_beyond_31_bits() -> None:
    word = np.zeros(2**26 + 1, dtype=np.uint32)
    word[2**26 - 1] = 2**31 + 1
    begin, code = categories._members(word, np.array([0, len(word)]))
    assert (begin.tolist(), code.tolist()) == ([0, 2], [2**31 - 32, 2**31 - 1])
    word[2**26] = 1
    with pytest.raises(LoaderError, match="cat_threshold holds a category beyond 31 bits"):
        categories._members(word, np.array([0, len(word)]))
    begin, code = categories._members(word, np.array([0, 1, 1, len(word)]))  # the first set is empty
    assert (begin.tolist(), code.tolist()) == ([0, 0, 0, 3], [2**31 - 64, 2**31 - 33, 2**31 - 32])


def test_other_frames_than_those_with_all_features_as_categories_are_refused(tmp_path: Path) -> None:
    """The file does not say whose labels it holds."""
    frame = make_frame()
    ordered = frame.assign(size=pd.Categorical(np.digitize(frame["size"], [-1, 1]), ordered=True))
    numbered = frame.assign(colour=C_[:, 1].astype(int))
    unclear = "cannot tell whose labels they are; make all categorical features"
    for X, chosen, says in (
        (ordered, "auto", f"2 categorical features, but labels of 3 columns .* {unclear}"),
        (frame, ["town"], f"1 categorical feature, but labels of 2 columns .* {unclear}"),
        (numbered, ["colour", "town"], f"2 categorical features, but labels of 1 column .* {unclear}"),
        (
            frame.assign(k=C_[:, 3].astype(int)),
            ["colour", "k"],
            "'k' has the category 273, .* end .* of 40: ",
        ),
    ):
        booster = train(EAGER, X, CY_, categorical_feature=chosen)
        refused(booster, says, UnsupportedModelError)
        refused(save(booster, tmp_path), says, UnsupportedModelError)


def test_labels_given_to_the_wrong_feature_meet_no_table() -> None:
    """As many columns with labels as categorical features, but others: then one of them is numeric."""
    frame = make_frame().assign(k=C_[:, 1].astype(int))[["k", "size", "colour", "weight"]]
    booster = train(EAGER, frame, CY_, categorical_feature=["k"])
    ensemble = load(booster)
    assert_agrees(booster, ensemble)  # codes are right
    for rows in (frame, frame.astype({"colour": object}), pl.from_pandas(frame)):
        with pytest.raises(TableError, match="column 'k' holds none of the model's categories"):
            ensemble.predict(rows)


def test_a_model_without_categorical_features_needs_no_labels(tmp_path: Path) -> None:
    """An ordered column is numeric to LightGBM."""
    frame = pd.DataFrame({"size": C_[:, 0], "grade": pd.Categorical(C_[:, 1], ordered=True)})
    booster = train(X=frame, y=CY_)
    ensemble = load(booster)
    assert_same(load(save(booster, tmp_path)), ensemble)
    assert not ensemble.categorical()
    np.testing.assert_array_equal(ensemble.predict(C_[:, :2]), booster.predict(frame))


@pytest.mark.parametrize("first", [[1], [3], []])
def test_features_of_both_kinds_are_refused_by_name(first: list[int]) -> None:
    start = train(EAGER, C_, CY_, categorical_feature=first)
    both = train(EAGER, C_, CY_, init_model=start, categorical_feature=[1])
    if first == [1]:
        assert_agrees(both, load(both))
    else:
        refused(
            both, r"'Column_1' is categorical, but some splits compare it .* in one go", UnsupportedModelError
        )


def test_labels_other_than_text_and_numbers_are_refused_by_name(tmp_path: Path) -> None:
    days = pd.Categorical(pd.to_datetime("2026-01-01") + pd.to_timedelta(C_[:, 1], "D"))
    dated = train(EAGER, pd.DataFrame({"a": C_[:, 0], "day": days}), CY_, keep_training_booster=True)
    refused(dated, "called '2026-01-01 00:00:00', a Timestamp; .* text and numbers", UnsupportedModelError)
    pairs = pd.Categorical([(1, 2) if code else (2, 3) for code in C_[:, 1]])
    paired = train(EAGER, pd.DataFrame({"a": C_[:, 0], "pair": pairs}), CY_)
    refused(paired, "called .*1, 2.*text and numbers", UnsupportedModelError)
    refused(save(paired, tmp_path), "called .*1, 2.*text and numbers", UnsupportedModelError)


def test_a_file_that_python_did_not_write_has_codes_for_labels(tmp_path: Path) -> None:
    path = save(train(EAGER, C_, CY_, categorical_feature=[1]), tmp_path)
    whole = load(path)
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"\npandas_categorical")])
    assert_same(load(path), whole)
    path.write_bytes(data[: data.index(b"end of parameters")])
    refused(path, "stops before the labels of its categories")


def chain(sets: list[list[int]]) -> dict[str, Any]:
    """A chain of splits of feature 0, one for each set."""
    n = len(sets)
    return {
        "feature": [0] * n,
        "threshold": range(n),
        "decision": [1] * n,
        "left": [-1 - i for i in range(n)],
        "right": [*range(1, n), -1 - n],
        "value": np.arange(1.0, n + 2),
        "sets": sets,
    }


def test_limits_of_categories_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(text_of([chain([list(range(100)), list(range(50, 120))])], 1))
    assert len(load(path).set_code) == 170
    for name, limit, says in (
        ("_MAX_CODES", 169, "more than 169 members, .* lower max_cat_threshold"),
        (
            "_MAX_LEVELS",
            119,
            "1 categorical features with 120 levels; predgap handles up to 16,384 with 119",
        ),
        ("_MAX_CATEGORICAL", 0, "handles up to 0 with"),
    ):
        with monkeypatch.context() as limited:
            limited.setattr(categories, name, limit)
            refused(path, says, UnsupportedModelError)
    path.write_bytes(path.read_bytes().replace(b":null", b':[["a", "b"]]'))
    with monkeypatch.context() as limited:
        limited.setattr(categories, "_WORDS_AT_ONCE", 1)
        refused(
            path, "'Column_0' has the category 119, but its labels end with that of 1", UnsupportedModelError
        )


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
    noise = Normal(0.3)
    explainer = Explainer(ensemble, noise)
    tails = reference.tails_of(noise, ensemble)
    for x in (X[0], X[3], X[7], np.zeros(4)):
        row = reference.Row(ensemble, tails, x, twin=reference.gap_in_longdouble)
        for subset in ([0], [1, 2], [0, 1, 2, 3]):
            row.assert_gap(float(explainer.gap(x[None, :], subset)[0]), subset)


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


def test_files_load_without_lightgbm(tmp_path: Path) -> None:
    save(train({"zero_as_missing": True}), tmp_path)
    code = "from predgap.loaders import load; print(load('model.txt').n_trees)"
    assert printed_without("lightgbm", code, tmp_path) == "6"


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


class Tampered:
    """A booster whose answers differ from its trees."""

    def __init__(self, booster: Any, leaf: Any, score: Any) -> None:
        self.booster, self.leaf, self.score = booster, leaf, score

    def __getattr__(self, name: str) -> Any:
        return getattr(self.booster, name)

    def predict(self, rows: np.ndarray, **options: Any) -> np.ndarray:
        found = np.array(self.booster.predict(rows, **options))
        return self.leaf(found) if options.get("pred_leaf") else self.score(found)


@pytest.mark.parametrize("missing", ["nan", "zero"])
@pytest.mark.parametrize(
    ("leaf", "score", "says"),
    [
        (lambda a: np.where(np.arange(len(a))[:, None] == 77, a + 1, a), lambda m: m, "reaches leaf"),
        (lambda a: a[:, :-1], lambda m: m, "6 trees"),
        (lambda a: a, lambda m: m + 1e-10, "output 0"),
        (lambda a: a, lambda m: m * np.nan, "output 0"),
        (lambda a: a, lambda m: np.c_[m, m], "1 outputs here"),
    ],
)
def test_a_disagreement_is_refused(leaf: Any, score: Any, says: str, missing: str) -> None:
    X, absent = MISSING[missing]
    with pytest.raises(LoaderError, match=says):
        loader.from_object(Tampered(train(absent, X), leaf, score))


def test_an_object_that_cannot_predict_is_refused() -> None:
    def fail(_: np.ndarray) -> np.ndarray:
        raise RuntimeError("out of order")

    with pytest.raises(LoaderError, match="out of order"):
        loader.from_object(Tampered(train(), fail, fail))


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
    params = {"objective": "multiclass", "num_class": 3, "num_leaves": 5}
    return {
        "plain": train(X=HOLES, rounds=3, feature_name=["a", "b", "c", "d"]).model_to_string().encode(),
        "classes": train(params, HOLES, CLASSES, rounds=1).model_to_string().encode(),
        "zero": train({"zero_as_missing": True}, HOLES, rounds=2).model_to_string().encode(),
        "old": OLD,
        "categories": without_tail(train(WAYS["partition"], make_frame(), CY_, rounds=2).model_to_string()),
        "codes": without_tail(
            train(
                {**EAGER, "zero_as_missing": True}, GAPS, CY_, 2, categorical_feature=[1, 3]
            ).model_to_string()
        ),
    }


def without_tail(text: str) -> bytes:
    """The text with none of the importances, and only that parameter of training that matters."""
    return re.sub(
        r"(?s)(?<=end of trees\n).*(\[categorical_feature:[^\n]*\n).*?(?=end of)", r"\n\1", text
    ).encode()


def test_every_truncation_is_refused(model_bytes: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    for data in model_bytes.values():
        whole = data.index(b"end of trees\n") + len(b"end of trees\n")
        for end in range(0, whole, 7):
            path.write_bytes(data[:end])
            refused(path)
            with pytest.raises(LoaderError):
                loader._loaded([data[:end]], known_only=True)
        path.write_bytes(data[:whole])
        if b"\ncat_threshold" in data:
            refused(path, "stops before the labels of its categories")
        else:  # what follows does not matter
            assert load(path).n_trees > 0


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


@pytest.mark.parametrize("kind", CATEGORY_DAMAGE)
def test_damage_of_categories_is_refused(kind: str, model_bytes: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    text = model_bytes["categories"].decode()
    path.write_bytes(fixed(text.encode()))
    assert load(path).n_trees == 2
    damage, says = CATEGORY_DAMAGE[kind]
    path.write_bytes(fixed(damage(text).encode()))
    refused(path, says)


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


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_refused(kind: str, model_bytes: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    text = model_bytes["plain"].decode()
    path.write_bytes(fixed(text.encode()))
    assert load(path).n_trees == 3
    path.write_bytes(fixed(DAMAGE[kind](text).encode()))
    refused(path)


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


@pytest.mark.parametrize(
    "text",
    [
        b"tree_sizes=" + b"1 " * 1_500_000 + b"\n\nend of trees\n",
        b"tree_sizes=" + b"1 " * 400_000 + b"1\n\n" + b"\nTree=" * 400_001 + b"\nend of trees\n",
        b"max_feature_idx=9999998\ntree_sizes=\nfeature_names=" + b"a " * 1_500_000 + b"\n\nend of trees\n",
        b"\n".join(b"k%d" % i for i in range(400_000)) + b"\n\nend of trees\n",
        b"tree_sizes=3000007\n\nTree=0\n" + b"a\n" * 1_500_000 + b"\n\nend of trees\n",
    ],
    ids=["sizes", "trees", "names", "lines", "lines of a tree"],
)
def test_what_would_blow_up_in_memory_is_refused(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(b"tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\n" + text)
    with memory_below(12 * path.stat().st_size):
        refused(path)


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


def mutations(data: bytes, rng: np.random.Generator, n: int) -> Iterator[bytes]:
    """The text with a few bytes, numbers or lines changed; often with sizes that fit again."""
    numbers = [
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
    ]
    for _ in range(n):
        text = data if b"\ncat_threshold" in data else data[: data.index(b"end of trees\n") + 60]
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(0, len(text)))
            kind = rng.integers(0, 6)
            if kind == 0:
                text = text[:at] + bytes([rng.integers(0, 256)]) + text[at + 1 :]
            elif kind == 1:
                text = text[:at] + text[at + int(rng.integers(1, 30)) :]
            elif kind == 2:
                other = int(rng.integers(0, len(text)))
                text = text[:at] + text[other : other + 40] + text[at:]
            elif kind == 3:
                lines = text.split(b"\n")
                i, k = rng.integers(0, len(lines), 2)
                lines[i] = lines[k]
                text = b"\n".join(lines)
            else:
                spans = [match.span() for match in re.finditer(rb"(?<=[ =])[-0-9.e]+", text)]
                start, stop = spans[rng.integers(0, len(spans))] if spans else (0, 0)
                text = text[:start] + numbers[rng.integers(0, len(numbers))] + text[stop:]
        yield fixed(text) if rng.random() < 0.8 else text


@pytest.mark.parametrize("kind", ["plain", "classes", "zero", "old", "categories", "codes"])
def test_mutated_texts_give_a_sound_ensemble_or_a_named_error(
    kind: str, model_bytes: dict[str, bytes]
) -> None:
    loads = longest = 0
    for text in mutations(model_bytes[kind], np.random.default_rng(11), 2000):
        try:
            ensemble = loader._loaded([text], known_only=True).ensemble
        except LoaderError as error:
            longest = max(longest, len(str(error)))
        else:
            loads += 1
            ensemble.validate()
            assert np.isfinite(ensemble.predict(selfcheck.rows_at_thresholds(ensemble, 16))).all()
            assert ((ensemble.feature == LEAF) | (ensemble.feature < ensemble.n_features)).all()
    assert longest < 1000
    assert 20 < loads < 1900  # neither is everything refused, nor nothing
