"""Write the golden models of the XGBoost release that is installed, next to this script.

    python tests/golden/make.py

Run it once per release, each in its own environment (NumPy below 2 for XGBoost 1.x and 2.0). It writes
`xgboost-<release>.npz`. For each kind of model that holds the bytes of the model file (`<kind>.json`, for
some kinds `<kind>.ubj` too), rows at and around every threshold, and the leaves and raw margins that this
release itself predicts for them.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import xgboost as xgb

HERE = Path(__file__).parent
RELEASE = tuple(map(int, xgb.__version__.split(".")[:2]))
NAMES = ["age", "höhe", "a b", "d"]
AS_UBJSON = ("regression", "dart", "forest", "vector")
N_ROWS = 40


def main() -> None:
    found: dict[str, np.ndarray] = {}
    for kind, booster in boosters().items():
        for suffix in ("json", "ubj") if kind in AS_UBJSON and RELEASE >= (1, 7) else ("json",):
            found[f"{kind}.{suffix}"] = np.frombuffer(saved(booster, suffix), dtype=np.uint8)
        rows = rows_around(thresholds(saved(booster, "json")))
        matrix = xgb.DMatrix(rows, feature_names=booster.feature_names)
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
    if RELEASE >= (2, 0):
        found["vector"] = train(X, Y, tree_method="hist", multi_strategy="multi_output_tree")
    return found


def train(
    X: np.ndarray, y: np.ndarray, *, names: list[str] | None = None, rounds: int = 3, **params: object
) -> xgb.Booster:
    matrix = xgb.DMatrix(X, label=np.asarray(y, dtype=np.float32), feature_names=names)
    return xgb.train({"max_depth": 2, "nthread": 1, **params}, matrix, rounds)


def thresholds(model: bytes) -> list[list[float]]:
    booster = json.loads(model)["learner"]["gradient_booster"]
    trees = (booster.get("gbtree") or booster)["model"]["trees"]
    found: list[list[float]] = [[], [], [], []]
    for tree in trees:
        for left, feature, value in zip(
            tree["left_children"], tree["split_indices"], tree["split_conditions"], strict=True
        ):
            if left != -1:
                found[feature].append(value)
    return found


def rows_around(cuts: list[list[float]]) -> np.ndarray:
    rng = np.random.default_rng(11)
    rows = np.zeros((N_ROWS, 4), dtype=np.float32)
    for j, column in enumerate(cuts):
        at = np.unique(np.array(column, dtype=np.float32))
        below, above = np.nextafter(at, np.float32(-np.inf)), np.nextafter(at, np.float32(np.inf))
        values = np.concatenate([below, at, above, np.array([np.nan, np.nan, 0.0], dtype=np.float32)])
        rows[:, j] = np.resize(rng.permutation(values), N_ROWS)
    return rows


if __name__ == "__main__":
    main()
