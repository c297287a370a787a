"""Rankings made from attributions: arrays, frames, shap's and the libraries' own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st

from predgap.ranking import Ranking, ranking_order
from rankings import CUBE, MATRICES, NAMES, explanation, refused

# ---- from attributions ---------------------------------------------------------------------------


@given(MATRICES)
def test_attributions_rank_by_size_and_ties_go_to_the_lower_index(values):
    ranking = Ranking.from_attributions(values)
    for r, row in enumerate(values):
        assert ranking.order[r].tolist() == sorted(range(len(row)), key=lambda j: (-abs(row[j]), j))
    np.testing.assert_array_equal(ranking.scores, np.abs(values))
    assert (ranking.method, ranking.estimator, ranking.confidence) == ("attributions", None, None)


@given(MATRICES, st.data())
def test_the_top_of_attributions(values, data):
    d = values.shape[1]
    k = data.draw(st.integers(1, d))
    full, top = Ranking.from_attributions(values), Ranking.from_attributions(values, top=k)
    assert top.order.tolist() == full.order[:, :k].tolist()
    assert top.scores.tolist() == full.scores.tolist()
    assert top.n_features == d
    for wrong in (0, d + 1, -1, 1.0, True, "1"):
        words = [f"top={wrong!r}", f"from 1 to {d}, the number of features"]
        refused(words, Ranking.from_attributions, values, top=wrong)


@given(MATRICES)
def test_the_bias_column_is_dropped_when_the_features_are_known(values):
    d = values.shape[1]
    names = [f"n{j}" for j in range(d)]
    with_bias = np.column_stack([values, np.full(len(values), 99.0)])
    ranking = Ranking.from_attributions(with_bias, feature_names=names)
    assert ranking.order.tolist() == Ranking.from_attributions(values).order.tolist()
    assert ranking.feature_names == tuple(names)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (CUBE, None),
        (CUBE, NAMES),
        (np.concatenate([CUBE, [[[99.0, 99.0]]]], axis=1), NAMES),  # (n, d + 1, k)
        (
            np.concatenate([np.swapaxes(CUBE, 1, 2), [[[99.0], [99.0]]]], axis=2),
            NAMES,
        ),  # XGBoost: (n, k, d + 1)
        ([CUBE[:, :, 0], CUBE[:, :, 1]], None),  # older shap: a list of outputs
    ],
    ids=["shap", "shap, named", "with bias", "xgboost", "list"],
)
def test_one_of_several_outputs(values, names):
    assert Ranking.from_attributions(values, 0, feature_names=names).order.tolist() == [[2, 1, 0]]
    assert Ranking.from_attributions(values, output=1, feature_names=names).order.tolist() == [[0, 2, 1]]
    refused(["2 outputs", "output=0 ... output=1"], Ranking.from_attributions, values, feature_names=names)
    for output, words in (
        (2, "does not exist; the attributions have 2 (0 to 1)"),
        (-1, "does not exist; the attributions have 2 (0 to 1)"),
        (True, "expected the position of an output, the label of a class, or an array"),
        (0.0, "expected the position of an output, the label of a class, or an array"),
        ("a", "does not exist; the attributions have no names of outputs; pass a position (0 to 1)"),
    ):
        refused([f"output={output!r}", words], Ranking.from_attributions, values, output, feature_names=names)


def test_a_single_output_needs_no_choice():
    assert Ranking.from_attributions(CUBE[:, :, :1]).order.tolist() == [[2, 1, 0]]
    assert Ranking.from_attributions(CUBE[:, :, 0], output=0).order.tolist() == [[2, 1, 0]]


FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("backend", FRAMES)
def test_frames_of_attributions_keep_their_names(backend):
    frame = FRAMES[backend]({"bmi": [1.0, -5.0], "age": [2, 3]})
    ranking = Ranking.from_attributions(frame)
    assert ranking.feature_names == ("bmi", "age")
    assert ranking.order.tolist() == [[1, 0], [0, 1]]
    assert ranking.backend == backend
    assert ranking_order(ranking, 2, 2, ("age", "bmi")).tolist() == [[0, 1], [1, 0]]


def test_frames_are_aligned_to_given_names_and_a_bias_is_dropped():
    frame = pd.DataFrame({"bmi": [1.0], "age": [2.0], "bias": [9.0]}, index=["p"])
    ranking = Ranking.from_attributions(frame, feature_names=("age", "bmi"))
    assert ranking.feature_names == ("age", "bmi")
    assert ranking.order.tolist() == [[0, 1]]
    assert list(ranking.index) == ["p"]


def test_frames_with_default_labels_have_no_names():
    frame = pd.DataFrame([[1.0, 2.0, 9.0]])
    assert Ranking.from_attributions(frame).feature_names is None
    assert Ranking.from_attributions(frame, feature_names=("a", "b")).order.tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("values", "names", "words"),
    [
        (
            [[1.0, np.nan]],
            None,
            ["row 0", "'f1'", "nan", "cannot be ranked", "fill with 0 if the method leaves"],
        ),
        ([[1.0, 2.0], [-np.inf, np.nan]], ("a", "b"), ["row 1", "'a'", "-inf", "2 are NaN or infinite"]),
        (pd.DataFrame({"a": [1.0], "b": [None]}), None, ["row 0", "'b'", "nan"]),
        ([1.0, 2.0], None, ["shape (2,)", "values[None, :]"]),
        (np.ones((1, 2, 3, 4)), None, ["shape (1, 2, 3, 4)", "(n, d, k)"]),
        ([[1.0, 2.0]], ("a", "b", "c"), ["2 columns", "expected 3", "'a', 'b', 'c'"]),
        ([[1.0, 2.0, 3.0]], ("a",), ["3 columns", "expected 1"]),
        ([["a", "b"]], None, ["dtype <U1", "numbers"]),
        ([[True, False]], None, ["dtype bool"]),
        (np.array([[1.0, "a"]], dtype=object), None, ["not numbers"]),
        ([[1j]], None, ["complex128"]),
        ([[1.0], [1.0, 2.0]], None, ["differ in length"]),
        (pd.DataFrame({"a": ["x"]}), None, ["attributions", "'a'", "text", "'x'"]),
        (pd.DataFrame({"a": [1.0]}), ("b",), ["lack 'b'", "have 'a'"]),
        (None, None, ["NoneType"]),
        (np.ones((1, 2, 3)), ("a", "b"), ["shape (1, 2, 3)", "may be (n, d, k)", "(n, k, d + 1)"]),
        (np.ma.masked_array([[1.0, 5.0]], mask=[[0, 1]]), None, ["1 of the attributions are masked", "fill"]),
        ([np.ma.masked_array([[1.0, 5.0]], mask=[[0, 1]])], None, ["1 of the attributions are masked"]),
        ([np.ma.masked_array([1.0, 5.0], mask=[0, 1])], None, ["1 of the attributions are masked"]),
    ],
    ids=repr,
)
def test_what_is_not_attributions_is_refused(values, names, words):
    refused(words, Ranking.from_attributions, values, feature_names=names)


def test_a_mask_that_masks_nothing_does_not_matter():
    values = np.ma.masked_array([[1.0, 5.0]], mask=[[False, False]])
    assert Ranking.from_attributions(values).order.tolist() == [[1, 0]]


@pytest.mark.parametrize("n_classes", [3, 5])
def test_pred_contribs_of_several_classes_need_names(n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    model = xgboost.XGBClassifier(n_estimators=4, max_depth=3).fit(X, np.arange(60) % n_classes)
    contribs = model.get_booster().predict(xgboost.DMatrix(X), pred_contribs=True)
    assert contribs.shape == (60, n_classes, 4)
    refused(["may be (n, d, k)", "pred_contribs", "feature_names="], Ranking.from_attributions, contribs, 0)
    if n_classes == 5:  # three classes, or four, might be three features with or without a bias
        assert Ranking.from_attributions(contribs, 0, feature_names=NAMES).n_features == 3
    assert Ranking.from_attributions(contribs[:, 0], feature_names=NAMES).n_features == 3


def test_one_row_of_as_many_outputs_as_columns_needs_names():
    values = np.random.default_rng(0).normal(size=(1, 3, 4))
    refused(["shape (1, 3, 4)", "feature_names="], Ranking.from_attributions, values, 0)
    assert Ranking.from_attributions(values[:, :, :3], 0).n_features == 3
    assert Ranking.from_attributions(np.zeros((2, 3, 2)), 0).order.tolist() == [[0, 1, 2]] * 2
    assert Ranking.from_attributions(explanation(values, data=np.ones((1, 3))), 0).n_features == 3


def test_output_of_attributions_without_outputs():
    words = ["output=1 does not exist", "have 1 (0 to 0)"]
    refused(words, Ranking.from_attributions, [[[1.0], [2.0]]], 1)


def test_bias_cannot_be_recognised_without_names_but_is_explained_later():
    ranking = Ranking.from_attributions([[1.0, 2.0, 9.0]])
    words = ["of 3 features; the model has 2", "pred_contribs", "bias", "feature_names="]
    refused(words, ranking_order, ranking, 1, 2, ("a", "b"))


# ---- shap and XGBoost ----------------------------------------------------------------------------


def test_an_explanation_keeps_its_names():
    e = explanation(
        [[1.0, -2.0], [4.0, 3.0]], base_values=0.5, data=np.ones((2, 2)), feature_names=["a", "b"]
    )
    ranking = Ranking.from_attributions(e)
    assert (ranking.order.tolist(), ranking.feature_names) == ([[1, 0], [0, 1]], ("a", "b"))
    assert Ranking.from_attributions(e[1]).order.tolist() == [[0, 1]]
    assert Ranking.from_attributions(e[:1]).order.tolist() == [[1, 0]]


def test_an_explanation_without_names_or_data():
    assert Ranking.from_attributions(explanation([[1.0, -2.0]])).feature_names is None
    assert Ranking.from_attributions(explanation([1.0, -2.0])).order.tolist() == [[1, 0]]


def test_an_explanation_of_several_outputs():
    e = explanation(np.repeat(CUBE, 2, axis=0), data=np.ones((2, 3)), feature_names=list(NAMES))
    refused(["2 outputs"], Ranking.from_attributions, e)
    assert Ranking.from_attributions(e, 1).order.tolist() == [[0, 2, 1]] * 2
    assert Ranking.from_attributions(e[0], 1).order.tolist() == [[0, 2, 1]]
    assert Ranking.from_attributions(e[:, :, 1]).order.tolist() == [[0, 2, 1]] * 2


def test_an_explanation_of_one_feature_is_refused():
    e = explanation([[1.0, -2.0], [4.0, 3.0]], data=np.ones((2, 2)), feature_names=["a", "b"])
    refused(["only the feature 'a'"], Ranking.from_attributions, e[:, "a"])


def test_pred_contribs_and_shap_give_the_same_ranking():
    shap = pytest.importorskip("shap")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=NAMES)
    model = xgboost.XGBClassifier(n_estimators=4, max_depth=3).fit(X, rng.integers(0, 3, 60))
    contribs = model.get_booster().predict(xgboost.DMatrix(X), pred_contribs=True)
    assert contribs.shape == (60, 3, 4)
    e = shap.TreeExplainer(model)(X)
    for output in range(3):
        with_bias = contribs[:, output]
        ours = Ranking.from_attributions(with_bias, feature_names=NAMES)
        assert ours.order.tolist() == np.argsort(-np.abs(with_bias[:, :3]), axis=1, kind="stable").tolist()
        assert Ranking.from_attributions(e, output).agreement(ours, 1) > 0.9  # shap sums in another order
