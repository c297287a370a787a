"""The labels of classes: every loader that can know them does, and no loader makes them up."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.ensemble as se
from hypothesis import given
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from predgap import Ensemble, EnsembleError, Explainer, Marginal, load
from predgap._model import files
from predgap.loaders.translation import class_names
from strategies import ensemble_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
THREE = np.array(["x", "y", "z"])[np.digitize(X[:, 0], [-0.4, 0.4])]
NUMBERS = np.digitize(X[:, 0], [-0.4, 0.4])
TARGETS = {
    ("x", "y", "z"): THREE,
    ("other", "x"): np.where(THREE == "x", "x", "other"),
    ("False", "True"): THREE == "x",
    ("0", "1", "2"): NUMBERS,
    ("3", "5"): np.where(NUMBERS == 1, 5, 3),
    ("0.0", "2.0"): 2.0 * (NUMBERS == 1),
}
targets = pytest.mark.parametrize("labels", TARGETS, ids=" ".join)


def check(ensemble: Ensemble, labels: tuple[str, ...]) -> None:
    assert ensemble.class_names == labels
    assert ensemble.n_outputs == (1 if len(labels) == 2 else len(labels))


@targets
@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(),
        se.RandomForestClassifier(3),
        se.GradientBoostingClassifier(n_estimators=3),
        se.HistGradientBoostingClassifier(max_iter=3),
        se.BaggingClassifier(n_estimators=3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_scikit_learn(model: Any, labels: tuple[str, ...]) -> None:
    check(load(model.fit(X, TARGETS[labels])), labels)
    check(load(make_pipeline(StandardScaler(), model).fit(X, TARGETS[labels])), labels)


@targets
def test_lightgbm(labels: tuple[str, ...], tmp_path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1).fit(X, TARGETS[labels])
    check(load(model), labels)
    numbers = tuple(map(str, range(len(labels))))  # the wrapper numbers the classes
    check(load(model.booster_), numbers)
    model.booster_.save_model(tmp_path / "model.txt")
    check(load(tmp_path / "model.txt"), numbers)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_xgboost(n_classes: int, tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost")
    labels = tuple(map(str, range(n_classes)))
    model = xgboost.XGBClassifier(n_estimators=2).fit(X, NUMBERS % n_classes)
    check(load(model), labels)
    check(load(model.get_booster()), labels)
    for name in ("model.json", "model.ubj"):
        model.save_model(tmp_path / name)
        check(load(tmp_path / name), labels)


@targets
def test_catboost(labels: tuple[str, ...], tmp_path: Path) -> None:
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostClassifier(iterations=2, verbose=0, allow_writing_files=False)
    check(load(model.fit(X, TARGETS[labels])), labels)
    for kind in ("json", "cbm"):
        model.save_model(tmp_path / f"model.{kind}", format=kind)
        check(load(tmp_path / f"model.{kind}"), labels)


LACKING: dict[str, tuple[dict[str, Any], Any, list[int], tuple[str, ...], str]] = {
    "text": ({"class_names": ["z", "w", "x", "y"]}, THREE, [0, 2, 3], ("z", "x", "y"), "'w'"),
    "whole numbers": ({"class_names": [0, 7, 1, 2]}, NUMBERS, [0, 2, 3], ("0", "1", "2"), "'7'"),
    "fractions": ({"class_names": [0.0, 1.0, 1.5, 2.0]}, NUMBERS, [0, 1, 3], ("0.0", "1.0", "2.0"), "'1.5'"),
    "count": ({"classes_count": 5}, NUMBERS * 2, [0, 2, 4], ("0", "2", "4"), "'1', '3'"),
    "weights": (
        {"class_weights": {"x": 1, "y": 1, "z": 1, "w": 1}},
        THREE,
        [0, 1, 2],
        ("x", "y", "z"),
        "'w'",
    ),
}


@pytest.mark.filterwarnings("ignore:.*Found only")
@pytest.mark.parametrize("loss", ["MultiClass", "MultiClassOneVsAll"])
@pytest.mark.parametrize("case", LACKING)
def test_classes_that_the_data_of_catboost_lack(case: str, loss: str, tmp_path: Path) -> None:
    """CatBoost predicts -inf for them; its trees and SHAP values have one output for each of the others."""
    catboost = pytest.importorskip("catboost")
    options, y, present, labels, absent = LACKING[case]
    quiet = {"iterations": 3, "depth": 3, "verbose": 0, "allow_writing_files": False}
    model = catboost.CatBoostClassifier(loss_function=loss, **options, **quiet).fit(X, y)
    margins = model.predict(X, prediction_type="RawFormulaVal")
    assert np.isneginf(np.delete(margins, present, axis=1)).all()
    for kind in ("json", "cbm"):
        model.save_model(tmp_path / f"model.{kind}", format=kind)
    for source in (model, tmp_path / "model.json", tmp_path / "model.cbm"):
        with pytest.warns(UserWarning, match=rf"lack {absent} of its classes. .*-inf.* {labels[-1]!r}$"):
            found = load(source)
        assert found.class_names == labels
        np.testing.assert_allclose(found.predict(X), margins[:, present], rtol=1e-12, atol=1e-12)
        explainer = Explainer(found, Marginal(X), rtol=0)
        drawn = np.repeat(X[:3], len(X), axis=0)
        drawn[:, 0] = np.tile(X[:, 0], 3)
        change = model.predict(drawn, prediction_type="RawFormulaVal")[:, present].reshape(3, len(X), -1)
        expected = ((change - margins[:3, None, present]) ** 2).mean(axis=1)
        np.testing.assert_allclose(explainer.gap(X[:3], [0]), expected.sum(axis=1), rtol=1e-10)
        last = Explainer(found, Marginal(X), rtol=0, output=labels[-1])
        np.testing.assert_allclose(last.gap(X[:3], [0]), expected[:, -1], rtol=1e-10)


@pytest.mark.parametrize("places", [None, "x", [0, 1, 4], [0, 1, 1], [0, 1, -1], [0, 1, True], [0, 1]])
def test_strange_places_of_classes_in_a_file_name_nothing(places: Any, tmp_path: Path) -> None:
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostClassifier(iterations=2, verbose=0, allow_writing_files=False).fit(X, THREE)
    model.save_model(tmp_path / "model.json", format="json")
    document = json.loads((tmp_path / "model.json").read_text())
    for names, n in ((["a", "b", "c", "d"], 0), ([], 4), ([], 2**40), ([], "4")):
        document["model_info"]["class_params"] = {
            "class_names": names,
            "classes_count": n,
            "class_to_label": places,
        }
        (tmp_path / "model.json").write_text(json.dumps(document))
        assert load(tmp_path / "model.json").class_names is None


@pytest.mark.parametrize("labels", [("x", "y", "z"), ("other", "x"), ("0", "1", "2")], ids=" ".join)
def test_onnx(labels: tuple[str, ...]) -> None:
    to_onnx = pytest.importorskip("skl2onnx").to_onnx
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in (se.RandomForestClassifier, se.GradientBoostingClassifier):
            model = kind(n_estimators=2).fit(X, TARGETS[labels])
            found = load(to_onnx(model, X[:1].astype(np.float32)))
            assert found.class_names == labels


def test_treelite_numbers_classes() -> None:
    treelite = pytest.importorskip("treelite")
    forest = se.RandomForestClassifier(3).fit(X, THREE)
    check(load(treelite.sklearn.import_model(forest)), ("0", "1", "2"))
    assert (
        load(treelite.sklearn.import_model(se.RandomForestRegressor(3).fit(X, NUMBERS))).class_names is None
    )


def test_outputs_that_are_no_classes_have_no_labels() -> None:
    catboost, lightgbm, xgboost = map(pytest.importorskip, ("catboost", "lightgbm", "xgboost"))
    two = np.stack([NUMBERS == 0, NUMBERS == 1], axis=1).astype(int)
    quiet = {"verbose": 0, "allow_writing_files": False, "iterations": 2}
    for model in (
        se.RandomForestRegressor(3).fit(X, NUMBERS),
        se.RandomForestRegressor(3).fit(X, two),
        se.RandomForestClassifier(3).fit(X, two),  # two targets
        se.IsolationForest(n_estimators=3).fit(X),
        xgboost.XGBRegressor(n_estimators=2).fit(X, NUMBERS),
        xgboost.XGBClassifier(n_estimators=2).fit(X, two),  # two targets
        lightgbm.LGBMRegressor(n_estimators=2, verbose=-1).fit(X, NUMBERS),
        catboost.CatBoostRegressor(**quiet).fit(X, NUMBERS),
        catboost.CatBoostRegressor(**quiet, loss_function="MultiRMSE").fit(X, two),
        catboost.CatBoostClassifier(**quiet, loss_function="MultiLogloss").fit(X, two),  # two targets
    ):
        assert load(model).class_names is None, model


@pytest.mark.parametrize(
    "classes",
    [
        *([], None, {}),
        *({"class_names": labels} for labels in (["x"], 5, [[], {}, None], ["x", "x", "y"])),
        {"class_names": ["a", "b", "c"], "class_label_type": "Float"},
    ],
)
def test_strange_labels_in_a_file_name_nothing(classes: Any, tmp_path: Path) -> None:
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostClassifier(iterations=2, verbose=0, allow_writing_files=False).fit(X, THREE)
    model.save_model(tmp_path / "model.json", format="json")
    document = json.loads((tmp_path / "model.json").read_text())
    document["model_info"]["class_params"] = classes
    (tmp_path / "model.json").write_text(json.dumps(document))
    found = load(tmp_path / "model.json").class_names
    assert found == (("a", "b", "c") if classes and len(classes) == 2 else None)


# ---- an ensemble's own ---------------------------------------------------------------------------


@given(st.lists(st.one_of(st.text(max_size=3), st.integers(0, 3)), max_size=4), st.integers(1, 4))
def test_labels_that_fit_are_those_that_an_ensemble_takes(labels: list[Any], n_outputs: int) -> None:
    names = class_names(labels, n_outputs)
    plain = ensemble_of([], 1, n_outputs=n_outputs)
    if names is None:
        with pytest.raises(EnsembleError, match=r"class names (for \d outputs|must differ)"):
            replace(plain, class_names=labels)
    else:
        assert replace(plain, class_names=labels).class_names == names == tuple(map(str, labels))


def test_labels_are_kept_by_what_is_done_to_an_ensemble() -> None:
    ensemble = load(se.RandomForestClassifier(3, random_state=0).fit(X, THREE))
    assert [ensemble.select(k).class_names for k in range(3)] == [("x",), ("y",), ("z",)]
    assert ensemble.named(["a", "b", "c"]).class_names == ("x", "y", "z")
    assert Ensemble(**files.decode(files.encode(ensemble))).class_names == ("x", "y", "z")
