"""XGBoost models for the tests of its loader: data, training, and what must agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xgboost as xgb

from loading import rows_around_thresholds
from predgap._model.ensemble import ALL_OUTPUTS, Ensemble

RELEASE = tuple(map(int, xgb.__version__.split(".")[:2]))


# ---- data and models ----


def make_data(n: int = 200, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d)).astype(np.float32)
    X[:, 1] = np.round(X[:, 1], 1)
    y = X[:, 0] + X[:, 1] * X[:, 2]
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, np.nan_to_num(y)


X_, Y_ = make_data()
CLASSES = np.digitize(Y_, [-0.7, 0.7])
TWO = np.nan_to_num(np.c_[Y_, X_[:, 3] + 2.0 * np.nan_to_num(X_[:, 0])])


def train(
    y: np.ndarray | None = None, *, names: list[str] | None = None, rounds: int = 6, **params: Any
) -> Any:
    X, default = make_data()
    label = default if y is None else np.asarray(y, dtype=np.float32)
    matrix = xgb.DMatrix(X, label=label, feature_names=names)
    if params.get("objective", "").startswith("rank:"):
        matrix.set_group([50] * 4)
    if params.get("objective") == "survival:aft":
        matrix.set_float_info("label_lower_bound", np.abs(default) + 0.5)
        matrix.set_float_info("label_upper_bound", np.abs(default) + 1.0)
    return xgb.train({"max_depth": 3, "nthread": 1, "verbosity": 0, **params}, matrix, rounds)


def save(booster: Any, folder: Path, suffix: str) -> Path:
    path = folder / f"model.{suffix}"
    booster.save_model(str(path))
    return path


# ---- categories ----

COLOURS = tuple("rgbcmyk")
SIZES = tuple(int(size) for size in np.random.default_rng(1).permutation(40) * 10 - 50)
TYPES = ["c", "q", "c", "q", "c"]


def make_codes(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Colours, a number, sizes, a number, and a categorical column that no tree splits on."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n, 5)).astype(np.float32)
    X[:, 0] = rng.integers(0, len(COLOURS), n)
    X[:, 2] = rng.integers(0, len(SIZES), n)
    X[:, 4] = 0
    y = np.sin(5 * X[:, 0]) + np.cos(7 * X[:, 2]) * np.maximum(X[:, 1], 0) + 0.1 * X[:, 3]
    X[:, :4][rng.random((n, 4)) < 0.1] = np.nan
    return X, y


CODES_, AIM_ = make_codes()


def categorical(codes: np.ndarray, labels: tuple[Any, ...]) -> pd.Categorical:
    return pd.Categorical.from_codes(
        np.where(np.isnan(codes), -1, codes).astype(int), categories=pd.Index(labels)
    )


def make_frame(codes: np.ndarray = CODES_) -> pd.DataFrame:
    return pd.DataFrame({
        "colour": categorical(codes[:, 0], COLOURS), "x": codes[:, 1],
        "size": categorical(codes[:, 2], SIZES), "z": codes[:, 3], "same": categorical(codes[:, 4], ("one",)),
    })  # fmt: skip


def train_on(data: Any, y: np.ndarray = AIM_, *, rounds: int = 4, **params: Any) -> Any:
    """A booster of categories: of codes in an array, or of labels in a frame."""
    types = TYPES if isinstance(data, np.ndarray) else None
    matrix = xgb.DMatrix(data, label=y, feature_types=types, enable_categorical=True)
    return xgb.train({"max_depth": 4, "nthread": 1, "tree_method": "hist", **params}, matrix, rounds)


# ---- what must agree ----


def single_sum(ensemble: Ensemble, rows: np.ndarray) -> np.ndarray:
    """Margins added up in float32, tree by tree, as XGBoost does on a CPU."""
    total = np.tile(ensemble.bias.astype(np.float32), (len(rows), 1))
    leaves = ensemble.leaves(rows)
    for tree, target in enumerate(ensemble.target):
        value = ensemble.value[leaves[:, tree]].astype(np.float32)
        total[:, slice(None) if target == ALL_OUTPUTS else [target]] += value
    return total


def assert_agrees(
    ensemble: Ensemble, rows: np.ndarray, leaves: np.ndarray, margins: np.ndarray, ulps: float = 2.0
) -> None:
    """Leaves equal; margins equal to the float32 sum but for `ulps` units of its largest partial sum."""
    mine = ensemble.leaves(rows) - ensemble.root
    np.testing.assert_array_equal(mine, leaves.reshape(mine.shape))
    expected = margins.reshape(len(rows), -1)
    scale = np.abs(ensemble.value).max(initial=0.0) + np.abs(expected).max() + np.abs(ensemble.bias).max()
    tolerance = ulps * 2.0**-23 * scale
    np.testing.assert_allclose(single_sum(ensemble, rows), expected, rtol=0, atol=tolerance)
    exact = ensemble.predict(rows).reshape(expected.shape)
    np.testing.assert_allclose(exact, expected, rtol=0, atol=tolerance + ensemble.n_trees * 2.0**-24 * scale)


def assert_booster_agrees(booster: Any, ensemble: Ensemble, ulps: float = 2.0) -> None:
    rows = rows_around_thresholds(ensemble)
    matrix = xgb.DMatrix(rows)
    assert_agrees(
        ensemble,
        rows,
        booster.predict(matrix, pred_leaf=True, validate_features=False),
        booster.predict(matrix, output_margin=True, validate_features=False),
        ulps,
    )


def labels_of(ensemble: Ensemble) -> dict[int, tuple[Any, ...]]:
    """The labels of each categorical feature, whose codes are 0, 1, 2, ..."""
    levels = ensemble.categorical()
    assert all(found.codes.tolist() == list(range(len(found))) for found in levels.values())
    return {q: found.labels or () for q, found in levels.items()}
