"""The models that the benchmark of production models asks, by name; each is trained the same way every time.

A trained model is kept in `results/models`, and trained again when this code or its library has changed.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import models
import numpy as np
import tables

KEPT = Path(__file__).parent / "results" / "models"


@dataclass(frozen=True)
class Trained:
    name: str
    title: str
    model: Any
    X: np.ndarray  # (n, d) the table whose columns set the noise; rows to explain are taken from it
    categorical: tuple[int, ...] = ()
    standardised: bool = False  # columns were scaled by those of the training set: the noise is, too

    def rows(self, n: int) -> np.ndarray:
        """n rows from all over the table."""
        return np.ascontiguousarray(self.X[np.linspace(0, len(self.X) - 1, n).astype(int)])


Maker = Callable[[float], Trained | None]
"""Trains with this part of the usual number of trees; None where the data is not at hand."""


def _count(usual: int, part: float) -> int:
    return max(1, round(usual * part))


# --- LightGBM -------------------------------------------------------------------------------------------


def _lightgbm(X: np.ndarray, y: np.ndarray, n_trees: int, **options: Any) -> Any:
    import lightgbm

    params = {
        "objective": "regression",
        "num_leaves": 31,
        "learning_rate": 0.05,
        "deterministic": True,
        "force_col_wise": True,
        "num_threads": 1,
        "seed": 0,
        "verbose": -1,
    }
    return lightgbm.train(params, lightgbm.Dataset(X, y, **options), n_trees)


def lightgbm_30(part: float) -> Trained:
    X, y = tables.correlated(20_000, 30, seed=1)
    model = _lightgbm(X, y, _count(1000, part))
    return Trained("lightgbm-30", "LightGBM 1000 × 31 leaves, 30 features", model, X)


def lightgbm_housing(part: float) -> Trained | None:
    path = models.shared_data() / "raw" / "housing.csv"
    if not path.is_file():
        return None
    X, y = tables.california(path)
    model = _lightgbm(X, y, _count(1000, part))
    return Trained("lightgbm-housing", "LightGBM 1000 × 31 leaves on housing, 8 features", model, X)


def lightgbm_categories(part: float) -> Trained:
    X, y = tables.with_categories(20_000, 8, seed=4)
    categorical = (8, 9)
    model = _lightgbm(X, y, _count(200, part), categorical_feature=list(categorical))
    title = "LightGBM 200 × 31 leaves, 8 numbers and categories of 20 and 200 levels"
    return Trained("categories", title, model, X, categorical=categorical)


# --- XGBoost --------------------------------------------------------------------------------------------


def _xgboost(X: np.ndarray, y: np.ndarray, n_trees: int, depth: int) -> Any:
    import xgboost

    params = {"max_depth": depth, "eta": 0.1, "tree_method": "hist", "nthread": 1, "seed": 0}
    return xgboost.train(params, xgboost.DMatrix(X, y, nthread=1), n_trees)


def xgboost_30(part: float) -> Trained:
    X, y = tables.correlated(20_000, 30, seed=1)
    model = _xgboost(X, y, _count(500, part), depth=6)
    return Trained("xgboost-30", "XGBoost 500 × depth 6, 30 features", model, X)


def xgboost_8(part: float) -> Trained:
    X, y = tables.correlated(20_000, 8, seed=3)
    model = _xgboost(X, y, _count(1000, part), depth=8)
    return Trained("xgboost-8", "XGBoost 1000 × depth 8, 8 features", model, X)


def stump(part: float) -> Trained:
    X, y = tables.correlated(2_000, 8, seed=5)
    model = _xgboost(X, y, 1, depth=1)
    return Trained("stump", "One split: what a call costs around its kernel", model, X)


def paper(name: str, saved_as: str) -> Maker:
    def load(part: float) -> Trained | None:
        case = models.saved(saved_as)
        if case is None:
            return None
        n_trees, d = case.booster.num_boosted_rounds(), case.X.shape[1]
        title = f"The paper's {name}: XGBoost {n_trees} × depth 4, {d} features"
        return Trained(name, title, case.booster, case.X.astype(np.float64), standardised=True)

    return load


def grown(n_trees: int) -> Maker:
    def train(part: float) -> Trained:
        case = models.grown(_count(n_trees, part), models.MIN_ROWS)
        title = f"XGBoost {n_trees} × depth 6, 20 features"
        return Trained(f"grown-{n_trees}", title, case.booster, case.X.astype(np.float64), standardised=True)

    return train


# --- scikit-learn ---------------------------------------------------------------------------------------


def forest(part: float) -> Trained:
    from sklearn.ensemble import RandomForestRegressor

    X, y = tables.correlated(3_000, 12, seed=2)
    model = RandomForestRegressor(_count(100, part), random_state=0, n_jobs=1).fit(X, y)
    return Trained("forest", "Random forest, 100 unpruned trees, 3,000 × 12", model, X)


def digits(part: float) -> Trained:
    from sklearn.ensemble import RandomForestClassifier

    X, y = tables.digits()
    model = RandomForestClassifier(_count(100, part), random_state=0, n_jobs=1).fit(X, y)
    return Trained("digits", "Random forest of 100 trees on digits, 10 classes, 64 features", model, X)


# --- all of them ----------------------------------------------------------------------------------------

ROW_BY_ROW: dict[str, Maker] = {
    "lightgbm-30": lightgbm_30,
    "xgboost-30": xgboost_30,
    "lightgbm-housing": lightgbm_housing,
    "xgboost-8": xgboost_8,
    "forest": forest,
    "categories": lightgbm_categories,
    "digits": digits,
    "stump": stump,
}
PAPER: dict[str, Maker] = {
    "wine": paper("wine", "winequality_red"),
    "housing": paper("housing", "housing"),
    "telemetry": paper("telemetry", "telemetry"),
    "heloc": paper("heloc", "heloc"),
}
GROWN: dict[str, Maker] = {f"grown-{n}": grown(n) for n in (100, 400, 1600)}
MAKERS = ROW_BY_ROW | PAPER | GROWN


def kept(name: str, part: float = 1.0) -> Path:
    """Where the pickled model is; the name of the file changes with this code and with the libraries."""
    import lightgbm
    import sklearn
    import xgboost

    sources = [Path(file).read_bytes() for file in (__file__, tables.__file__, models.__file__)]
    versions = [lightgbm.__version__, xgboost.__version__, sklearn.__version__, np.__version__, repr(part)]
    key = hashlib.sha256(b"\0".join([*sources, *(version.encode() for version in versions)]))
    return KEPT / f"{name}-{key.hexdigest()[:12]}.pickle"


def trained(name: str, part: float = 1.0) -> Trained | None:
    """The model of this name, trained unless it was before."""
    path = kept(name, part)
    if path.is_file():
        return pickle.loads(path.read_bytes())
    case = MAKERS[name](part)
    if case is not None:
        KEPT.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(case))
    return case
