"""The CatBoost loader against CatBoost, one ulp around every border."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import catboost as cb
import numpy as np
import pandas as pd
import pytest

import predgap
from catboost_models import (
    CLASSES,
    GREATEST,
    GROUPS,
    POLICIES,
    POSITIVE,
    TWO,
    WHOLE,
    X_,
    Y_,
    assert_agrees,
    assert_files_load_as,
    assert_loads,
    assert_same,
    margins_of,
    save,
    train,
)
from loading import rounds_to_single, rows_around_thresholds
from predgap._model.ensemble import ALL_OUTPUTS, LEAF
from predgap.errors import LoaderError, UnsupportedModelError
from predgap.loaders import load, translation
from reference import Row, tails_of

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
    assert_files_load_as(ensemble, model, tmp_path)
    assert ensemble.source in (f"CatBoost {cb.__version__} RMSE", "CatBoost RMSE")  # early 1.2 does not tell
    assert rounds_to_single(ensemble)
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
    assert_files_load_as(ensemble, model, tmp_path)


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
    assert_files_load_as(ensemble, model, tmp_path)


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
    assert_files_load_as(ensemble, model, tmp_path)


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
    assert_files_load_as(ensemble, model, tmp_path)


# ---- wrappers ----


class Mine(cb.CatBoostRegressor):
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
    assert_files_load_as(load(model), model, tmp_path)
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
    if kind == "text":
        return train_on([f"word{c} more words" for c in CLASSES], text_features=["k"])
    return train_on([list(rng.normal(size=3) + c) for c in CLASSES], embedding_features=["k"])


@pytest.mark.parametrize(
    ("kind", "says"),
    [
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


def test_models_without_trees_are_refused(tmp_path: Path) -> None:
    for unfitted in (cb.CatBoost(), cb.CatBoostRegressor(), cb.CatBoostClassifier()):
        with pytest.raises(LoaderError, match=r"no trained model.*is it fitted"):
            load(unfitted)
    model = train()
    model.shrink(0)
    with pytest.raises(LoaderError, match="no trees"):
        load(model)
    for name in ("model.json", "model.cbm"):
        with pytest.raises(LoaderError, match="no trees"):
            load(save(model, tmp_path / name))


# ---- the check of a load against its object ----


class Tampered(cb.CatBoost):
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
    rows = translation.rows_at_thresholds(ensemble)
    with np.errstate(over="ignore"):
        assert (rows.astype(np.float32) == GREATEST).any()
    assert np.isposinf(rows).any()
