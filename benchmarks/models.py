"""XGBoost models: the paper's when they are at hand, else stand-ins; and ensembles that grow."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xgboost

MIN_ROWS = 1024
PAPER = ("winequality_red", "housing", "telemetry", "heloc")


@dataclass(frozen=True)
class Case:
    name: str
    booster: xgboost.Booster
    X: np.ndarray  # (n, d) with n >= MIN_ROWS, float32 values


def shared_data() -> Path:
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("PREDGAP_SHARED_DATA", default))


def cases() -> list[Case]:
    found = [case for case in map(saved, PAPER) if case is not None]
    return found or [_trained("standard 40 x d4", 11, 40), _trained("wide 500 x d4", 23, 500)]


def saved(name: str) -> Case | None:
    """One of the paper's models with its test rows, or None where they are not at hand."""
    root = shared_data()
    path = root / "models" / f"{name}.json"
    if not path.is_file():
        return None
    booster = xgboost.Booster(model_file=path)
    booster.feature_names = None
    table = np.loadtxt(root / "splits" / f"test_{name}_scaled.csv", delimiter=",", skiprows=1)
    return Case(name, booster, _enough(table[:, :-1]))


def _trained(name: str, d: int, n_trees: int) -> Case:
    X, y = _table(d)
    params = {"max_depth": 4, "eta": 0.1, "subsample": 0.8, "tree_method": "hist", "max_bin": 32, "seed": 0}
    return Case(name, xgboost.train(params, xgboost.DMatrix(X, y), n_trees), _enough(X))


def grown(n_trees: int, n_rows: int) -> Case:
    """An ensemble of depth 6 on 20 features."""
    X, y = _table(20)
    params = {"max_depth": 6, "eta": 0.1, "tree_method": "hist", "seed": 0}
    booster = xgboost.train(params, xgboost.DMatrix(X, y), n_trees)
    return Case(f"{n_trees} x d6", booster, np.ascontiguousarray(X[:n_rows].astype(np.float32)))


def deep() -> Case:
    """20 trees of depth 12 on 8 features; on the housing data, where it is."""
    path = shared_data() / "splits" / "test_housing_scaled.csv"
    if path.is_file():
        table = np.loadtxt(path, delimiter=",", skiprows=1)
        X, y = table[:, :-1], table[:, -1]
    else:
        X, y = _table(8)
    params = {"max_depth": 12, "eta": 0.3, "tree_method": "hist", "seed": 0}
    booster = xgboost.train(params, xgboost.DMatrix(X, y), 20)
    return Case("20 x d12", booster, np.ascontiguousarray(X[:8].astype(np.float32)))


def _table(d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, d))
    y = (
        10 * np.sin(X[:, 0] * X[:, 1])
        + 20 * X[:, 2] ** 2
        + 10 * X[:, 3]
        + 5 * X[:, 4]
        + X @ rng.normal(size=d)
    )
    return X, y


def _enough(X: np.ndarray) -> np.ndarray:
    rows = np.resize(np.arange(len(X)), max(MIN_ROWS, min(len(X), 2 * MIN_ROWS)))
    return np.ascontiguousarray(X[rows].astype(np.float32))
