"""ONNX classifiers of two classes whose leaves have a weight for one class and minus that for the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import catboost
import numpy as np
import pytest

from onnx_models import classifier, graph
from predgap import Explainer, Normal
from predgap.errors import LoaderError, UnsupportedModelError
from predgap.loaders import load

OPTIONS: dict[str, Any] = {"iterations": 5, "depth": 3, "verbose": 0, "allow_writing_files": False}
X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
Y = (X[:, 0] > X[:, 1]).astype(int)


@pytest.mark.parametrize("labels", [["a", "c"], [0, 1]], ids=str)
def test_a_binary_classifier_of_catboost_is_as_its_cbm(labels: list[Any], tmp_path: Path) -> None:
    model = catboost.CatBoostClassifier(**OPTIONS).fit(X, np.array(labels)[Y])
    model.save_model(tmp_path / "m.onnx", format="onnx")
    model.save_model(tmp_path / "m.cbm")
    found, own = load(tmp_path / "m.onnx"), load(tmp_path / "m.cbm")
    assert (found.n_outputs, found.class_names, found.link) == (1, own.class_names, own.link)
    margins = model.predict(X, prediction_type="RawFormulaVal")
    np.testing.assert_allclose(found.predict(X), margins, rtol=0, atol=1e-6)  # ONNX has float32 weights
    first, second = (Explainer(e, Normal(0.3), rtol=0) for e in (found, own))
    np.testing.assert_allclose(first.gap(X[:5], [0]), second.gap(X[:5], [0]), rtol=1e-5)


def test_base_values_of_catboost_are_refused_with_a_way_out(tmp_path: Path) -> None:
    """onnxruntime adds them to something else than ONNX says, and predicts other classes than CatBoost."""
    model = catboost.CatBoostClassifier(boost_from_average=True, **OPTIONS).fit(
        X, (X[:, 0] > 0.4).astype(int)
    )
    model.save_model(tmp_path / "m.onnx", format="onnx")
    with pytest.raises(UnsupportedModelError, match=r"boost_from_average: save the model as \.cbm"):
        load(tmp_path / "m.onnx")
    other = classifier([0, 1], base_values=[-1.0, 1.0])
    with pytest.raises(UnsupportedModelError, match=r"weights for class 0 only, and one base value$"):
        load(graph(other))


MIRRORED = [-1.0, 1.0, 2.0, -2.0, 0.0, -0.0, -3.0, 3.0]
OTHERS = [w if abs(w) < 3 else 2 * w + 1 for w in MIRRORED]  # -5 and 7


@pytest.mark.parametrize(
    ("weights", "ids", "transform", "n_outputs"),
    [
        (MIRRORED, [0, 1], "LOGISTIC", 1),
        (MIRRORED, [1, 0], "LOGISTIC", 1),
        (MIRRORED, [0, 1], "NONE", 1),
        (MIRRORED, [0, 1], "SOFTMAX", 2),  # its margin is their difference
        (OTHERS, [0, 1], "LOGISTIC", 2),
    ],
)
def test_only_mirrored_weights_are_one_margin(
    weights: list[float], ids: list[int], transform: str, n_outputs: int
) -> None:
    found = load(graph(classifier(ids, class_weights=weights, post_transform=transform)))
    assert (found.n_outputs, found.class_names) == (n_outputs, ("0", "1"))
    rows = np.array([[0.0, 0.0], [0.0, 2.0], [1.0, 0.0], [1.0, 2.0]])  # both stumps go both ways
    margin = found.predict(rows).reshape(4, -1)[:, -1]
    of_second = weights[ids.index(1) :: 2]
    np.testing.assert_array_equal(margin, [a + b for a in of_second[:2] for b in of_second[2:]])


def test_a_class_that_does_not_exist_is_not_left_out() -> None:
    attributes = classifier([0, 1, 2], class_weights=[-1.0, 1.0, 5.0] * 4, post_transform="LOGISTIC")
    with pytest.raises(LoaderError, match="weights for no target or class of the 2"):
        load(graph(attributes))
