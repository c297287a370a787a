"""Write the golden models of the XGBoost release that is installed, next to this script.

    python tests/loaders/golden/make.py

Run it once per release, each in its own environment with pandas (NumPy below 2 for XGBoost 1.x and 2.0,
pandas below 3 for 2.1 to 3.1). It writes `xgboost-<release>.npz`. For each kind of model that holds the bytes
of the model file (`<kind>.json`, for some kinds `<kind>.ubj` too), rows at and around every threshold and
with all kinds of categories, and the leaves and raw margins that this release itself predicts for them.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost as xgb

HERE = Path(__file__).parent
RELEASE = tuple(map(int, xgb.__version__.split(".")[:2]))
NAMES = ["age", "höhe", "a b", "d"]
AS_UBJSON = ("regression", "dart", "forest", "vector", "onehot", "partition", "labels")
TYPES = ["c", "q", "c", "q"]
CODES = [*range(9), 9, 40, 2**24, -1, np.nan]  # nine categories, and what is none of them
N_ROWS = 40


def main() -> None:
    found: dict[str, np.ndarray] = {}
    for kind, booster in boosters().items():
        for suffix in ("json", "ubj") if kind in AS_UBJSON and RELEASE >= (1, 7) else ("json",):
            found[f"{kind}.{suffix}"] = np.frombuffer(saved(booster, suffix), dtype=np.uint8)
        rows = rows_around(thresholds(saved(booster, "json")), booster.feature_types or [])
        matrix = xgb.DMatrix(
            rows,
            feature_names=booster.feature_names,
            feature_types=booster.feature_types,
            enable_categorical=True,
        )
        found[f"{kind}_rows"] = rows
        found[f"{kind}_margins"] = booster.predict(matrix, output_margin=True)
        found[f"{kind}_leaves"] = booster.predict(matrix, pred_leaf=True).astype(np.uint8)
    np.savez_compressed(HERE / f"xgboost-{xgb.__version__}.npz", **found)


def saved(booster: xgb.Booster, suffix: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model.{suffix}"
        booster.save_model(str(path))
        return path.read_bytes()


def boosters() -> dict[str, xgb.Booster]:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(120, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.15] = np.nan
    Z = np.nan_to_num(X)
    y = Z[:, 0] + Z[:, 1] * Z[:, 2]
    Y = np.c_[y, Z[:, 3] + 1.0]
    classes = np.digitize(y, [-0.5, 0.8])
    found = {
        "regression": train(X, y, names=NAMES),
        "logistic": train(X, y > 0.5, objective="binary:logistic", base_score=0.3),
        "poisson": train(X, np.exp(np.clip(y, -2, 2)), objective="count:poisson"),
        "multiclass": train(X, classes, rounds=2, objective="multi:softprob", num_class=3),
        "dart": train(X, y, booster="dart", rate_drop=0.5, seed=3, rounds=5),
        "forest": train(X, classes, rounds=1, objective="multi:softmax", num_class=3, num_parallel_tree=2,
                        subsample=0.7, seed=1),
        "pruned": train(X, y, tree_method="exact", gamma=4.0, max_depth=4),
    }  # fmt: skip
    found["regression"].set_attr(best_iteration="0")  # must not matter: Booster.predict ignores it
    if RELEASE >= (1, 7):
        found["targets"] = train(X, Y, rounds=2)
        found |= of_categories()
    if RELEASE >= (2, 0):
        found["vector"] = train(X, Y, tree_method="hist", multi_strategy="multi_output_tree")
    return found


def of_categories() -> dict[str, xgb.Booster]:
    rng = np.random.default_rng(13)
    X = rng.normal(size=(150, 4)).astype(np.float32)
    X[:, [0, 2]] = rng.integers(0, 9, size=(150, 2))
    y = np.sin(5 * X[:, 0]) + np.cos(7 * X[:, 2]) * X[:, 1]
    X[rng.random(X.shape) < 0.15] = np.nan
    frame = pd.DataFrame(X, columns=["colour", "x", "size", "z"])
    for name, labels in {"colour": list("rgbcmykwo"), "size": [30, 10, 20, 50, 40, 90, 80, 70, 60]}.items():
        frame[name] = pd.Categorical.from_codes(frame[name].fillna(-1).astype(int), categories=labels)
    hist = {"tree_method": "hist", "max_depth": 3}
    return {
        "onehot": train(X, y, types=TYPES, max_cat_to_onehot=99, **hist),
        "partition": train(X, y, types=TYPES, max_cat_to_onehot=1, **hist),
        "labels": train(frame, y, max_cat_to_onehot=1, **hist),
    }


def train(
    X: np.ndarray | pd.DataFrame,
    y: np.ndarray,
    *,
    names: list[str] | None = None,
    types: list[str] | None = None,
    rounds: int = 3,
    **params: object,
) -> xgb.Booster:
    matrix = xgb.DMatrix(
        X,
        label=np.asarray(y, dtype=np.float32),
        feature_names=names,
        feature_types=types,
        enable_categorical=True,
    )
    return xgb.train({"max_depth": 2, "nthread": 1, **params}, matrix, rounds)


def thresholds(model: bytes) -> list[list[float]]:
    booster = json.loads(model)["learner"]["gradient_booster"]
    trees = (booster.get("gbtree") or booster)["model"]["trees"]
    found: list[list[float]] = [[], [], [], []]
    for tree in trees:
        for left, feature, value, by_category in zip(
            *(tree[name] for name in ("left_children", "split_indices", "split_conditions", "split_type")),
            strict=True,
        ):
            if left != -1 and not by_category:
                found[feature].append(value)
    return found


def rows_around(cuts: list[list[float]], types: list[str]) -> np.ndarray:
    rng = np.random.default_rng(11)
    rows = np.zeros((N_ROWS, 4), dtype=np.float32)
    for j, column in enumerate(cuts):
        at = np.unique(np.array(column, dtype=np.float32))
        below, above = np.nextafter(at, np.float32(-np.inf)), np.nextafter(at, np.float32(np.inf))
        values = np.concatenate([below, at, above, np.array([np.nan, np.nan, 0.0], dtype=np.float32)])
        if types and types[j] == "c":
            values = np.array(CODES, dtype=np.float32)
        rows[:, j] = np.resize(rng.permutation(values), N_ROWS)
    return rows


if __name__ == "__main__":
    main()
