"""Every source with its options: models to train for real, and their library's own predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import skl2onnx
import sklearn.ensemble
import sklearn.tree
import treelite
import xgboost
from numpy.typing import NDArray
from treelite import gtil

from onnx_models import run
from predgap._model.ensemble import Ensemble

RNG = np.random.default_rng(11)
N = 160
NUMBERS = RNG.normal(size=(N, 3)).round(2)
COLOURS = np.array(["red", "green", "blue", "grey", "pink"])[RNG.integers(5, size=N)]
SIGNAL = NUMBERS[:, 0] + np.sin(3 * NUMBERS[:, 1]) + 1.5 * (COLOURS == "blue") - (COLOURS == "red")
HOLES = np.where(RNG.random(NUMBERS.shape) < 0.15, np.nan, NUMBERS)
TARGETS: dict[str, NDArray[Any]] = {
    "number": SIGNAL,
    "count": np.floor(np.exp(SIGNAL / 2)),
    "two classes": (SIGNAL > 0).astype(int),
    "three classes": np.digitize(SIGNAL, [-0.5, 0.7]),
    "two numbers": np.stack([SIGNAL, -NUMBERS[:, 2]], axis=1),
}

Margin = Callable[[Any, Any], NDArray[Any]]
"""(model, X) -> what the ensemble must predict."""


@dataclass(frozen=True)
class Case:
    """A model to train: its class, its options, what it is trained on, and its own raw prediction."""

    model: Callable[..., Any]
    margin: Margin
    options: dict[str, Any] = field(default_factory=dict)
    target: str = "number"
    table: str = "numbers"  # "numbers", "holes" or "colours"
    tolerance: float = 1e-12
    fit: dict[str, Any] = field(default_factory=dict)

    def table_of(self) -> Any:
        if self.table == "colours":
            colours = pd.Categorical(COLOURS) if self.model not in CATBOOST else COLOURS
            return pd.DataFrame(NUMBERS, columns=["a", "b", "c"]).assign(colour=colours)
        return HOLES if self.table == "holes" else NUMBERS

    def train(self) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.model(**self.options).fit(self.table_of(), TARGETS[self.target], **self.fit)


CATBOOST = (catboost.CatBoostRegressor, catboost.CatBoostClassifier)


def predict(model: Any, X: Any) -> NDArray[Any]:
    return np.asarray(model.predict(X))


def probabilities(model: Any, X: Any) -> NDArray[Any]:
    found = model.predict_proba(X)
    return found[:, 1] if found.shape[1] == 2 else found


def decision(model: Any, X: Any) -> NDArray[Any]:
    return np.asarray(model.decision_function(X))


def raw(model: Any, X: Any) -> NDArray[Any]:
    if isinstance(model, CATBOOST):
        return np.asarray(model.predict(X, prediction_type="RawFormulaVal"))
    if isinstance(model, lightgbm.LGBMModel):  # the raw score of a forest is a sum, its prediction the mean
        return np.asarray(model.predict(X, raw_score=model.boosting_type != "rf"))
    return np.asarray(model.predict(X, output_margin=True))


class Exported:
    """A model that is trained and then written in the format of another library."""

    def __init__(self, export: Callable[[Any], Any], model: Any) -> None:
        self.export, self.model = export, model

    def fit(self, X: Any, y: Any) -> Any:
        return self.export(self.model.fit(X, y))


def to_treelite(model: Any) -> Any:
    return treelite.frontend.from_xgboost(model.get_booster())


def to_onnx(model: Any) -> Any:
    return skl2onnx.to_onnx(model, NUMBERS[:1].astype(np.float32))


def of_treelite(model: Any, X: Any) -> NDArray[Any]:
    return np.asarray(gtil.predict(model, np.asarray(X, dtype=np.float32), pred_margin=True)).reshape(len(X))


def of_onnx(model: Any, X: Any) -> NDArray[Any]:
    return np.asarray(run(model, np.asarray(X, dtype=np.float32))[0]).reshape(len(X))


# --- the matrix -----------------------------------------------------------------------------------------


def xgb(
    model: Any = xgboost.XGBRegressor, target: str = "number", table: str = "numbers", **options: Any
) -> Case:
    fixed = {"n_estimators": 5, "max_depth": 3, "n_jobs": 1, "tree_method": "hist"}
    return Case(model, raw, fixed | options, target, table, 1e-6)


def lgb(
    model: Any = lightgbm.LGBMRegressor, target: str = "number", table: str = "numbers", **options: Any
) -> Case:
    fixed = {"n_estimators": 5, "num_leaves": 6, "min_child_samples": 5, "verbose": -1, "n_jobs": 1}
    return Case(model, raw, fixed | options, target, table)


def cat(
    model: Any = catboost.CatBoostRegressor, target: str = "number", table: str = "numbers", **options: Any
) -> Case:
    fixed = {
        "iterations": 5, "depth": 3, "verbose": False, "thread_count": 1, "allow_writing_files": False,
        "boost_from_average": False,
    }  # fmt: skip
    fixed |= {"cat_features": ["colour"], "one_hot_max_size": 10} if table == "colours" else {}
    return Case(model, raw, fixed | options, target, table)


def skl(
    model: Any, margin: Margin = predict, target: str = "number", table: str = "numbers", **options: Any
) -> Case:
    fixed = {"random_state": 0}
    fixed |= {} if model in TREES else {"max_iter": 5} if model in HISTOGRAMS else {"n_estimators": 4}
    if model not in BAGS:
        fixed["max_depth"] = 3
    return Case(model, margin, fixed | options, target, table)


TREES = (
    sklearn.tree.DecisionTreeRegressor,
    sklearn.tree.DecisionTreeClassifier,
    sklearn.tree.ExtraTreeRegressor,
    sklearn.tree.ExtraTreeClassifier,
)
HISTOGRAMS = (
    sklearn.ensemble.HistGradientBoostingRegressor,
    sklearn.ensemble.HistGradientBoostingClassifier,
)
BAGS = (sklearn.ensemble.BaggingRegressor, sklearn.ensemble.BaggingClassifier)
SHALLOW_REGRESSOR = sklearn.tree.DecisionTreeRegressor(max_depth=3)
SHALLOW_CLASSIFIER = sklearn.tree.DecisionTreeClassifier(max_depth=3)
XGBC, LGBC, CATC = xgboost.XGBClassifier, lightgbm.LGBMClassifier, catboost.CatBoostClassifier
ONE_HOT, PARTITION = {"max_cat_to_onehot": 10}, {"max_cat_to_onehot": 1}
SMALL_GROUPS = {"min_data_per_group": 5, "cat_smooth": 1, "cat_l2": 1}
SMALL = {"n_estimators": 5, "max_depth": 3, "n_jobs": 1}
ENSEMBLES, DART = sklearn.ensemble, {"booster": "dart", "rate_drop": 0.5}

CASES = {
    "xgboost": xgb(),
    "xgboost, holes": xgb(table="holes"),
    "xgboost, missing=0": xgb(missing=0.0),
    "xgboost, exact": xgb(tree_method="exact"),
    "xgboost, lossguide": xgb(grow_policy="lossguide", max_leaves=6),
    "xgboost, dart": xgb(**DART),
    "xgboost, dart, three classes": xgb(XGBC, "three classes", **DART),
    "xgboost, two classes": xgb(XGBC, "two classes"),
    "xgboost, three classes": xgb(XGBC, "three classes"),
    "xgboost, two numbers": xgb(target="two numbers"),
    "xgboost, vector leaves": xgb(target="two numbers", multi_strategy="multi_output_tree"),
    "xgboost, poisson": xgb(target="count", objective="count:poisson"),
    "xgboost, tweedie": xgb(target="count", objective="reg:tweedie"),
    "xgboost, absolute error": xgb(objective="reg:absoluteerror"),
    "xgboost, quantiles": xgb(objective="reg:quantileerror", quantile_alpha=[0.2, 0.8]),
    "xgboost, parallel trees": xgb(num_parallel_tree=3, n_estimators=2, subsample=0.7),
    "xgboost, forest": xgb(xgboost.XGBRFRegressor),
    "xgboost, forest, two classes": xgb(xgboost.XGBRFClassifier, "two classes"),
    "xgboost, one-hot": xgb(table="colours", enable_categorical=True, **ONE_HOT),
    "xgboost, partition": xgb(table="colours", enable_categorical=True, **PARTITION),
    "xgboost, partition, three classes": xgb(
        XGBC, "three classes", "colours", enable_categorical=True, **PARTITION
    ),
    "xgboost, partition, dart": xgb(table="colours", enable_categorical=True, **PARTITION, **DART),
    "lightgbm": lgb(),
    "lightgbm, holes": lgb(table="holes"),
    "lightgbm, zero as missing": lgb(zero_as_missing=True),
    "lightgbm, missing not used": lgb(table="holes", use_missing=False),
    "lightgbm, dart": lgb(boosting_type="dart"),
    "lightgbm, goss": lgb(data_sample_strategy="goss"),
    "lightgbm, forest": lgb(boosting_type="rf", subsample=0.7, subsample_freq=1),
    "lightgbm, extra trees": lgb(extra_trees=True),
    "lightgbm, two classes": lgb(LGBC, "two classes"),
    "lightgbm, three classes": lgb(LGBC, "three classes"),
    "lightgbm, one against the rest": lgb(LGBC, "three classes", objective="multiclassova"),
    "lightgbm, poisson": lgb(target="count", objective="poisson"),
    "lightgbm, quantile": lgb(objective="quantile", alpha=0.8),
    "lightgbm, one-hot": lgb(table="colours", max_cat_to_onehot=10, **SMALL_GROUPS),
    "lightgbm, partition": lgb(table="colours", max_cat_to_onehot=1, **SMALL_GROUPS),
    "lightgbm, partition, three classes": lgb(
        LGBC, "three classes", "colours", max_cat_to_onehot=1, **SMALL_GROUPS
    ),
    "lightgbm, partition, dart": lgb(
        table="colours", max_cat_to_onehot=1, boosting_type="dart", **SMALL_GROUPS
    ),
    "catboost": cat(),
    "catboost, boost from average": cat(boost_from_average=True),
    "catboost, holes as min": cat(table="holes", nan_mode="Min"),
    "catboost, holes as max": cat(table="holes", nan_mode="Max"),
    "catboost, holes forbidden": cat(nan_mode="Forbidden"),
    "catboost, depthwise": cat(grow_policy="Depthwise"),
    "catboost, depthwise, holes": cat(table="holes", grow_policy="Depthwise", nan_mode="Max"),
    "catboost, lossguide": cat(grow_policy="Lossguide", max_leaves=6),
    "catboost, two classes": cat(CATC, "two classes"),
    "catboost, three classes": cat(CATC, "three classes"),
    "catboost, three classes, depthwise": cat(CATC, "three classes", grow_policy="Depthwise"),
    "catboost, two numbers": cat(target="two numbers", loss_function="MultiRMSE"),
    "catboost, poisson": cat(target="count", loss_function="Poisson"),
    "catboost, one-hot": cat(table="colours"),
    "catboost, one-hot, depthwise": cat(table="colours", grow_policy="Depthwise"),
    "catboost, one-hot, three classes": cat(CATC, "three classes", "colours"),
    "sklearn tree": skl(TREES[0]),
    "sklearn tree, holes": skl(TREES[0], table="holes"),
    "sklearn tree, two numbers": skl(TREES[0], target="two numbers"),
    "sklearn tree, two classes": skl(TREES[1], probabilities, "two classes"),
    "sklearn tree, three classes": skl(TREES[1], probabilities, "three classes"),
    "sklearn extra tree": skl(TREES[2]),
    "sklearn extra tree, three classes": skl(TREES[3], probabilities, "three classes"),
    "sklearn forest": skl(ENSEMBLES.RandomForestRegressor),
    "sklearn forest, holes": skl(ENSEMBLES.RandomForestRegressor, table="holes"),
    "sklearn forest, two numbers": skl(ENSEMBLES.RandomForestRegressor, target="two numbers"),
    "sklearn forest, two classes": skl(ENSEMBLES.RandomForestClassifier, probabilities, "two classes"),
    "sklearn forest, three classes": skl(ENSEMBLES.RandomForestClassifier, probabilities, "three classes"),
    "sklearn extra trees": skl(ENSEMBLES.ExtraTreesRegressor),
    "sklearn extra trees, three classes": skl(ENSEMBLES.ExtraTreesClassifier, probabilities, "three classes"),
    "sklearn boosting": skl(ENSEMBLES.GradientBoostingRegressor),
    "sklearn boosting, two classes": skl(ENSEMBLES.GradientBoostingClassifier, decision, "two classes"),
    "sklearn boosting, three classes": skl(ENSEMBLES.GradientBoostingClassifier, decision, "three classes"),
    "sklearn histograms": skl(HISTOGRAMS[0], min_samples_leaf=5),
    "sklearn histograms, holes": skl(HISTOGRAMS[0], table="holes", min_samples_leaf=5),
    "sklearn histograms, two classes": skl(HISTOGRAMS[1], decision, "two classes", min_samples_leaf=5),
    "sklearn histograms, three classes": skl(HISTOGRAMS[1], decision, "three classes", min_samples_leaf=5),
    "sklearn histograms, categories": skl(HISTOGRAMS[0], table="colours", min_samples_leaf=5),
    "sklearn histograms, categories, three classes": skl(
        HISTOGRAMS[1], decision, "three classes", "colours", min_samples_leaf=5
    ),
    "treelite": Case(
        Exported, of_treelite, {"export": to_treelite, "model": xgboost.XGBRegressor(**SMALL)}, tolerance=1e-6
    ),
    "onnx": Case(
        Exported,
        of_onnx,
        {"export": to_onnx, "model": sklearn.ensemble.RandomForestRegressor(n_estimators=4, max_depth=3)},
        tolerance=1e-6,
    ),
    "sklearn bag": skl(BAGS[0], estimator=SHALLOW_REGRESSOR),
    "sklearn bag, three classes": skl(BAGS[1], probabilities, "three classes", estimator=SHALLOW_CLASSIFIER),
}


def predictions(case: Case, model: Any, rows: pd.DataFrame) -> NDArray[np.float64]:
    """The library's own raw predictions, (n, n_outputs)."""
    X = rows if case.table == "colours" else rows.to_numpy()
    return np.asarray(case.margin(model, X), dtype=np.float64).reshape(len(rows), -1)


def codes_of(ensemble: Ensemble, rows: Any) -> NDArray[np.float64]:
    """Rows as arrays, with the codes of categories."""
    if not isinstance(rows, pd.DataFrame):
        return np.asarray(rows, dtype=np.float64)
    columns = [
        rows[name] if levels is None else levels.codes_of(rows[name])
        for name, levels in zip(rows.columns, ensemble.categories or [None] * rows.shape[1], strict=True)
    ]
    return np.column_stack(columns).astype(np.float64)
