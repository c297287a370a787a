"""The benchmarked models with rows to explain: the paper's when they are at hand, else stand-ins."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xgboost

MIN_ROWS = 1024


@dataclass(frozen=True)
class Case:
    name: str
    booster: xgboost.Booster
    X: np.ndarray  # (n, d) with n >= MIN_ROWS, float32 values


def shared_data() -> Path:
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("PREDGAP_SHARED_DATA", default))


def cases() -> list[Case]:
    root = shared_data()
    if (root / "models").is_dir():
        return [_saved(root, name) for name in ("winequality_red", "housing", "telemetry", "heloc")]
    return [_trained("standard 40 x d4", 11, 40), _trained("wide 500 x d4", 23, 500)]


def _saved(root: Path, name: str) -> Case:
    booster = xgboost.Booster(model_file=root / "models" / f"{name}.json")
    booster.feature_names = None
    table = np.loadtxt(root / "splits" / f"test_{name}_scaled.csv", delimiter=",", skiprows=1)
    return Case(name, booster, _enough(table[:, :-1]))


def _trained(name: str, d: int, n_trees: int) -> Case:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, d))
    y = (
        10 * np.sin(X[:, 0] * X[:, 1])
        + 20 * X[:, 2] ** 2
        + 10 * X[:, 3]
        + 5 * X[:, 4]
        + X @ rng.normal(size=d)
    )
    params = {"max_depth": 4, "eta": 0.1, "subsample": 0.8, "tree_method": "hist", "max_bin": 32, "seed": 0}
    return Case(name, xgboost.train(params, xgboost.DMatrix(X, y), n_trees), _enough(X))


def _enough(X: np.ndarray) -> np.ndarray:
    rows = np.resize(np.arange(len(X)), max(MIN_ROWS, min(len(X), 2 * MIN_ROWS)))
    return np.ascontiguousarray(X[rows].astype(np.float32))
