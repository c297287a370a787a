"""One TreeSHAP row of a model, by its own library where that has one: the unit of every ratio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Ask = Callable[[], np.ndarray]


def own(model: Any, rows: np.ndarray) -> tuple[str, list[Ask]]:
    """The name of the library's TreeSHAP, and a call for each row alone; its input is made before."""
    library = type(model).__module__.split(".")[0]
    if library == "lightgbm":
        return "LightGBM pred_contrib", [_lightgbm(model, x[None]) for x in rows]
    if library == "xgboost":
        return "XGBoost pred_contribs", [contributions(model, x[None]) for x in rows]
    return "shap.TreeExplainer", by_shap(model, [x[None] for x in rows])


def _lightgbm(booster: Any, x: np.ndarray) -> Ask:
    return lambda: booster.predict(x, pred_contrib=True, num_threads=1)[:, :-1]


def contributions(booster: Any, X: np.ndarray) -> Ask:
    """XGBoost's own, of all rows of X at once."""
    import xgboost

    booster.set_param({"nthread": 1})
    matrix = xgboost.DMatrix(X, nthread=1)
    return lambda: booster.predict(matrix, pred_contribs=True)[:, :-1]


def by_shap(model: Any, tables: list[np.ndarray]) -> list[Ask]:
    """The shap package's, of each table at once; without its check of the sum, which costs time."""
    import shap

    explainer = shap.TreeExplainer(model, feature_perturbation="tree_path_dependent")

    def asking(X: np.ndarray) -> Ask:
        return lambda: explainer.shap_values(X, check_additivity=False)

    return [asking(X) for X in tables]


def order_of(attributions: np.ndarray) -> np.ndarray:
    """Features of each row by falling size, (n, d); of several outputs the sizes are added."""
    sizes = np.abs(attributions)
    if sizes.ndim == 3:
        sizes = sizes.sum(axis=2)
    return np.argsort(-sizes, axis=1, kind="stable")
