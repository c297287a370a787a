"""Pickle and joblib files: refused, unless they are asked for; then the model in them loads."""

from __future__ import annotations

import collections
import pickle
import sys
from pathlib import Path
from typing import Any

import catboost
import joblib
import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import predgap
from conformance import PickleTests
from effort import cases
from loading import Bomb, assert_same
from predgap import Ensemble, Explainer, LoaderError, Normal, UnsupportedModelError

X = np.random.default_rng(0).normal(size=(80, 3))
Y = X[:, 0] - X[:, 1] * X[:, 2]

MODELS = {
    "forest": lambda: RandomForestRegressor(3, max_depth=3).fit(X, Y),
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=3, max_depth=2).fit(X, Y),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=3, num_leaves=4, verbose=-1).fit(X, Y),
    "catboost": lambda: catboost.CatBoostRegressor(
        iterations=3, depth=2, verbose=False, allow_writing_files=False
    ).fit(X, Y),
}


class TestWrappers(PickleTests):
    """The other tests of loaders pickle what these wrap."""

    models = MODELS

    def assert_agrees(self, model: Any, ensemble: Ensemble) -> None:
        np.testing.assert_allclose(ensemble.predict(X), model.predict(X), rtol=1e-5)


PIPELINES = {
    "forest": lambda: make_pipeline(StandardScaler(), RandomForestRegressor(3, max_depth=3)).fit(X, Y),
    "xgboost": lambda: make_pipeline(StandardScaler(), xgboost.XGBRegressor(n_estimators=3)).fit(X, Y),
}


class TestPipelines(PickleTests):
    models = PIPELINES

    def assert_agrees(self, model: Any, ensemble: Ensemble) -> None:
        np.testing.assert_allclose(ensemble.predict(X), model.predict(X), rtol=1e-5)


@pytest.mark.parametrize(
    "save", [lambda model, path: pickled(model, path), joblib.dump], ids=["pickle", "joblib"]
)
def test_every_truncation_is_refused(save: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.pkl"
    save(MODELS["forest"](), path)
    whole = path.read_bytes()
    for end in (*range(1, len(whole), max(1, len(whole) // cases(60, 600))), len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(LoaderError):
            predgap.load(path, allow_pickle=True)
        with pytest.raises(LoaderError):
            predgap.load(path)


def pickled(model: Any, path: Path, protocol: int = pickle.DEFAULT_PROTOCOL) -> Path:
    path.write_bytes(pickle.dumps(model, protocol))
    return path


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_is_opened(protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["forest"]()
    path = pickled(model, tmp_path / "m", protocol)
    assert_same(predgap.load(path, allow_pickle=True), predgap.load(model))
    monkeypatch.setitem(sys.modules, "joblib", None)
    assert_same(predgap.load(path, allow_pickle=True), predgap.load(model))


@pytest.mark.parametrize("compress", [("zlib", 1), ("zlib", 9), ("gzip", 3), ("bz2", 3), ("xz", 3)])
def test_compressed_joblib_files_are_opened(compress: tuple[str, int], tmp_path: Path) -> None:
    model = MODELS["forest"]()
    joblib.dump(model, tmp_path / "m", compress=compress)
    assert_same(predgap.load(tmp_path / "m", allow_pickle=True), predgap.load(model))
    with pytest.raises(UnsupportedModelError, match=r"compressed file; .*runs the code .*allow_pickle=True"):
        predgap.load(tmp_path / "m")


def test_without_the_flag_nothing_is_opened(tmp_path: Path) -> None:
    path = pickled(Bomb(), tmp_path / "m.pkl")
    says = r"'.*m\.pkl' is a Python pickle \(or joblib\) file, and opening one runs the code in it; "
    for attempt in (predgap.load, lambda path: Explainer(path, Normal(0.3))):
        with pytest.raises(UnsupportedModelError, match=says + r".*predgap\.load\(path, allow_pickle=True\)"):
            attempt(path)
    joblib.dump(Bomb(), path, compress=True)
    with pytest.raises(UnsupportedModelError, match="allow_pickle=True"):
        predgap.load(path, allow_pickle=False)


def test_other_files_load_as_ever_with_the_flag(tmp_path: Path) -> None:
    model = MODELS["xgboost"]()
    model.save_model(tmp_path / "m.json")
    assert_same(predgap.load(tmp_path / "m.json", allow_pickle=True), predgap.load(tmp_path / "m.json"))
    (tmp_path / "m.txt").write_text("hello")
    with pytest.raises(LoaderError, match="no model file that predgap knows"):
        predgap.load(tmp_path / "m.txt", allow_pickle=True)
    assert_same(predgap.load(model, allow_pickle=True), predgap.load(model))


@pytest.mark.parametrize(
    ("held", "kind"),
    [
        ({"model": 1}, "dict"),
        ([Y], "list"),
        ("/etc/hostname", "str"),
        (Path("x"), r"\w*Path"),
        (Y, "ndarray"),
    ],
)
def test_what_is_no_model_is_refused_by_name(held: Any, kind: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match=rf"tree ensembles; this is an? {kind}\. Expected"):
        predgap.load(pickled(held, tmp_path / "m.pkl"), allow_pickle=True)


def test_files_that_cannot_be_opened_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pickled(MODELS["forest"](), tmp_path / "m.pkl")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LoaderError, match=r"m\.pkl' cannot be opened as a pickle \(\w+: "):
        predgap.load(path, allow_pickle=True)
    path.write_bytes(pickle.dumps(collections.Counter, 0).replace(b"Counter", b"Strange"))
    with pytest.raises(LoaderError, match=r"\(AttributeError: .*Strange.*packages that it was saved with"):
        predgap.load(path, allow_pickle=True)
    joblib.dump(MODELS["forest"](), path)
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(LoaderError, match=r"\(ModuleNotFoundError: .*joblib.*and joblib if joblib saved it"):
        predgap.load(path, allow_pickle=True)
    (tmp_path / "m.zip").write_bytes(b"PK\x03\x04" + bytes(50))
    with pytest.raises(LoaderError, match="cannot be opened as a pickle"):
        predgap.load(tmp_path / "m.zip", allow_pickle=True)
