"""CatBoost models for tests, and what they must agree on."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import catboost as cb
import numpy as np
import pandas as pd

from conformance import FileTests, loads_or_refuses
from loading import rows_around_thresholds
from predgap._model.ensemble import Ensemble
from predgap.loaders import catboost as loader
from predgap.loaders import load

GREATEST = np.finfo(np.float32).max
POLICIES = ("SymmetricTree", "Depthwise", "Lossguide")
COLUMNS = (
    *("root", "feature", "threshold", "left", "right", "default_left", "value", "target", "bias"),
    *("category_set", "set_begin", "set_code"),
)


# ---- data, models, and what they must agree on ----


def make_data(n: int = 200, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Rows with missing values in all but the last column, and labels that depend on these too."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d)).astype(np.float32)
    X[:, 1] = np.round(X[:, 1], 1)
    y = X[:, 0] + X[:, 1] * X[:, 2] + X[:, 3]
    gone = rng.random(X.shape) < 0.1
    gone[:, -1] = False
    return np.where(gone, np.float32(np.nan), X), y + 4 * gone[:, 0]


X_, Y_ = make_data()
WHOLE = np.nan_to_num(X_)
CLASSES = np.digitize(Y_, [-0.7, 0.7])
POSITIVE = np.abs(Y_) + 0.1
TWO = np.c_[Y_, WHOLE[:, 3] + 10.0]
GROUPS = np.repeat(np.arange(20), 10)


def train(
    y: np.ndarray | None = None,
    X: Any = X_,
    *,
    kind: Any = cb.CatBoost,
    group_id: np.ndarray | None = None,
    names: list[str] | None = None,
    fit: dict[str, Any] | None = None,
    **params: Any,
) -> Any:
    few = {"iterations": 5, "depth": 3, "thread_count": 1, "verbose": 0, "allow_writing_files": False}
    pool = cb.Pool(X, Y_ if y is None else y, group_id=group_id, feature_names=names)
    return kind(few | params).fit(pool, **(fit or {}))


def margins_of(model: Any, rows: np.ndarray) -> np.ndarray:
    found = cb.CatBoost.predict(model, rows, prediction_type="RawFormulaVal", thread_count=1)
    return np.asarray(found).reshape(len(rows), -1)


def assert_agrees(ensemble: Ensemble, rows: np.ndarray, margins: np.ndarray) -> None:
    """Within 1e-12 of the sum of the sizes of all that is added."""
    size = np.tile(np.abs(ensemble.bias), (len(rows), 1))
    leaves = ensemble.leaves(rows)
    for tree in range(ensemble.n_trees):
        size += np.abs(ensemble.value[leaves[:, tree]])
    error = np.abs(ensemble.predict(rows).reshape(margins.shape) - margins)
    assert (error <= 1e-12 * size).all(), f"off by {(error / size).max():.1e} of the sizes"


def assert_loads(model: Any) -> Ensemble:
    ensemble = load(model)
    rows = np.concatenate([rows_around_thresholds(ensemble), np.resize(X_, (50, ensemble.n_features))])
    assert_agrees(ensemble, rows, margins_of(model, rows))
    assert ensemble.n_trees == model.tree_count_
    return ensemble


def assert_same(one: Ensemble, other: Ensemble) -> None:
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.feature_names == other.feature_names
    assert one.source == other.source
    mine, theirs = one.categorical(), other.categorical()
    assert mine.keys() == theirs.keys()
    for q, known in mine.items():
        np.testing.assert_array_equal(known.codes, theirs[q].codes)
        assert known.labels == theirs[q].labels


def save(model: Any, path: Path) -> Path:
    model.save_model(str(path), format="cbm" if path.suffix == ".cbm" else "json")
    return path


def assert_files_load_as(ensemble: Ensemble, model: Any, folder: Path) -> None:
    """Files of both formats give the same ensemble."""
    for name in ("model.json", "model.cbm"):
        assert_same(load(save(model, folder / name)), ensemble)


@cache
def small_model(policy: str = "SymmetricTree", classes: bool = False) -> Any:
    params = {"loss_function": "MultiClass"} if classes else {}
    y = CLASSES if classes else Y_
    return train(y, names=list("abcd"), grow_policy=policy, iterations=3, **params)


@cache
def model_text(policy: str = "SymmetricTree", classes: bool = False) -> str:
    """A small model as JSON, without the long list of training options."""
    return text_of(small_model(policy, classes))


def text_of(model: Any) -> str:
    """A model as JSON, without the long list of training options."""
    with TemporaryDirectory() as folder:
        document = json.loads(save(model, Path(folder, "model.json")).read_text())
    loss = document["model_info"]["params"]["loss_function"]
    document["model_info"] = {"params": {"loss_function": loss}}
    return json.dumps(document)


def as_binary(model: Any) -> bytes:
    """A .cbm file without the long list of training options."""
    model = model.copy()
    for key in [*model.get_metadata().keys()]:
        if key != "catboost_version_info":
            del model.get_metadata()[key]
    with TemporaryDirectory() as folder:
        return save(model, Path(folder, "model.cbm")).read_bytes()


# ---- models with categories ----

COLOURS = ("blue", "green", "red")
SIZES = (0, 3, 7, 200)
RNG = np.random.default_rng(8)
COLOUR, SIZE, FLAG = RNG.choice(COLOURS, 200), RNG.choice(SIZES, 200), RNG.random(200) < 0.4
EFFECT = (
    WHOLE[:, 0]
    + 3 * (COLOUR == "green") * (SIZE == 7)
    - 2 * (SIZE == 0)
    + FLAG * WHOLE[:, 1]
    + (COLOUR == "red")
)
THIRDS = np.digitize(EFFECT, [-1.0, 1.0])


def mixed(x: Any, colour: Any, size: Any, flag: Any) -> pd.DataFrame:
    """Numbers and categories of text, numbers and truth values, in turns; "idle" is categorical, constant."""
    columns = {
        "x": np.asarray(x, dtype=np.float32),
        "colour": colour,
        "z": np.resize(WHOLE[:, 1], len(colour)),
    }
    return pd.DataFrame({**columns, "size": size, "flag": flag, "idle": "one"})


TRAINED_ON = mixed(WHOLE[:, 0], COLOUR, SIZE, FLAG)
CATEGORICAL = ["colour", "size", "flag", "idle"]


def train_mixed(policy: str = "SymmetricTree", y: Any = EFFECT, X: Any = TRAINED_ON, **params: Any) -> Any:
    few = {"iterations": 12, "depth": 4, "one_hot_max_size": 255, "grow_policy": policy, "learning_rate": 0.5}
    quiet = {"thread_count": 1, "verbose": 0, "allow_writing_files": False}
    which = CATEGORICAL if isinstance(X, pd.DataFrame) else [1]
    return cb.CatBoost(few | quiet | params).fit(cb.Pool(X, y, cat_features=which))


def save_with_names(model: Any, path: Path, X: Any = TRAINED_ON) -> Path:
    which = CATEGORICAL if isinstance(X, pd.DataFrame) else [1]
    model.save_model(str(path), format="json", pool=cb.Pool(X, cat_features=which))
    return path


@cache
def small_mixed(policy: str = "SymmetricTree") -> Any:
    return train_mixed(policy, iterations=6)


@cache
def small_ctrs(policy: str = "SymmetricTree", classes: bool = False) -> Any:
    """A model that splits on CTRs of each categorical feature alone."""
    kinds = [
        "Borders",
        "Buckets:TargetBorderCount=2",
        "BinarizedTargetMeanValue:TargetBorderCount=3",
        "Counter",
    ]
    loss = {"loss_function": "MultiClass"} if classes else {"simple_ctr": kinds}
    own = {"one_hot_max_size": 2, "max_ctr_complexity": 1, "iterations": 8, **loss}
    return train_mixed(policy, THIRDS if classes else EFFECT, **own)


@cache
def mixed_text(policy: str = "SymmetricTree") -> str:
    """A small model with categories as JSON, with their names."""
    with TemporaryDirectory() as folder:
        document = json.loads(save_with_names(small_mixed(policy), Path(folder, "m.json")).read_text())
    document["model_info"] = {}
    return json.dumps(document)


# ---- files ----


def read(data: bytes) -> Ensemble:
    """What the loader makes of the bytes of a file of either format."""
    return loader._ensemble(loader._read(data))


def sound(data: bytes) -> bool:
    """Is it a sound model, and not refused with a typed error?"""
    return loads_or_refuses(read, data) == "loaded"


class CatBoostFileTests(FileTests):
    models = MappingProxyType(
        {
            "symmetric": small_model,
            "Depthwise": lambda: small_model("Depthwise"),
            "classes": lambda: small_model("Lossguide", classes=True),
            "categories": small_mixed,
            "Depthwise categories": lambda: small_mixed("Depthwise"),
            "CTRs": small_ctrs,
            "Depthwise CTRs": lambda: small_ctrs("Depthwise"),
            "CTRs of classes": lambda: small_ctrs("Lossguide", classes=True),
        }
    )
    packages = ("catboost",)

    def assert_agrees(self, model: Any, ensemble: Ensemble) -> None:
        rows = TRAINED_ON if ensemble.categorical() else rows_around_thresholds(ensemble)
        found = ensemble.predict(rows).reshape(len(rows), -1)
        largest = np.abs(ensemble.bias).max() + np.abs(ensemble.value).max() * ensemble.n_trees
        np.testing.assert_allclose(found, margins_of(model, rows), rtol=0, atol=1e-12 * largest)

    def save(self, model: Any, path: Path) -> None:
        save(model, path)

    def decode(self, data: bytes) -> Ensemble:
        return read(data)

    def large(self) -> Any:
        return train(iterations=60, depth=6)
