"""LightGBM models for the tests of its loader: data, training, texts written by hand, and what must agree."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd

from loading import assert_same
from predgap._model.ensemble import Ensemble
from predgap.loaders import lightgbm as loader
from predgap.loaders import load

ZERO = float(np.float32(1e-35))  # what is no farther from 0 is 0 to LightGBM


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
FEW: dict[str, Any] = {"n_estimators": 5, "num_leaves": 7, "min_child_samples": 3, "verbose": -1, "n_jobs": 1}


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
    return np.append(values, [np.inf, -np.inf]) if ensemble.accepts_infinity else values[~np.isinf(values)]


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


# ---- files ----


def save(booster: Any, folder: Path) -> Path:
    path = folder / "model.txt"
    booster.save_model(str(path))
    return path


def loaded_both_ways(booster: Any, folder: Path, *, n_iterations: int | None) -> Ensemble:
    """The ensemble of an object and of its file, which agree with each other and with the library."""
    ensemble, path = load(booster), save(booster, folder)
    assert_same(load(path), ensemble)
    for each in (booster, lgb.Booster(model_file=str(path))):
        assert_agrees(each, ensemble, n_iterations=n_iterations)
    return ensemble


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
