"""`Ranking.to_shap`: what it holds, and that shap's own plots take it."""

from __future__ import annotations

import sys
import warnings

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

from predgap import Explainer, Normal, Ranking
from predgap.errors import DependencyError, RankingError, ShapeError, TableError

mpl.use("Agg")

NAMES = ("age", "job", "bmi")
TABLE = pd.DataFrame({"bmi": [20.0, np.nan, 30.0], "age": [40.0, 50.0, 60.0], "job": ["a", "b", None]})


def ranking(**known):
    scores = np.array([[0.5, 2.0, -1.0], [3.0, 1.0, 0.0], [0.1, 0.2, 0.3]])
    return Ranking(np.argsort(-scores, axis=1), scores=scores, feature_names=NAMES, method="greedy", **known)


def test_values_are_the_scores_as_they_are():
    explanation = ranking().to_shap()
    np.testing.assert_array_equal(explanation.values, ranking().scores)
    np.testing.assert_array_equal(explanation.base_values, np.zeros(3))
    assert explanation.feature_names == [*NAMES]
    assert explanation.data is None


def test_a_feature_without_a_score_has_0():
    partial = Ranking([[1]], scores=[[np.nan, 2.0]])
    assert partial.to_shap().values.tolist() == [[0.0, 2.0]]


def test_gains_add_up_to_the_gap_of_all_features():
    from sklearn.tree import DecisionTreeRegressor

    X = np.random.default_rng(0).normal(size=(40, 3))
    explainer = Explainer(DecisionTreeRegressor(max_depth=4).fit(X, X @ [1.0, 2.0, 3.0]), Normal(0.5))
    explanation = explainer.rank(X).to_shap(X)
    np.testing.assert_allclose(
        explanation.base_values + explanation.values.sum(axis=1), explainer.gap(X, [0, 1, 2]), rtol=1e-9
    )
    np.testing.assert_array_equal(explanation.data, X)


def test_data_are_found_by_name_and_by_row():
    data = ranking(index=["p", "q", "r"]).to_shap(TABLE.set_axis(["r", "p", "q"]).loc[["q", "p", "r"]]).data
    assert data.dtype == object
    assert data[:, 1].tolist() == ["b", None, "a"]
    assert data[:, 0].tolist() == [50.0, 60.0, 40.0]
    numbers = ranking().to_shap(np.arange(9.0).reshape(3, 3)).data
    assert numbers.dtype == np.float64


def test_an_explanation_is_read_back_as_the_same_order():
    known = Ranking.from_attributions([[0.5, -2.0, 1.0]], feature_names=NAMES)
    again = Ranking.from_attributions(known.to_shap(np.zeros((1, 3))))
    assert again.order.tolist() == known.order.tolist()


def test_what_cannot_be_shown_is_refused(monkeypatch):
    with pytest.raises(RankingError, match="has no scores"):
        Ranking([[0, 1]]).to_shap()
    with pytest.raises(ShapeError, match="has 2 rows, expected 3"):
        ranking().to_shap(TABLE[:2])
    with pytest.raises(TableError, match="lacks 1 column: 'job'"):
        ranking().to_shap(TABLE.rename(columns={"job": "work"}))
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(DependencyError, match="pip install shap"):
        ranking().to_shap()


@pytest.mark.parametrize("X", [None, TABLE, np.arange(9.0).reshape(3, 3)], ids=["none", "frame", "array"])
@pytest.mark.parametrize("plot", ["waterfall", "bar", "bar of one row", "beeswarm", "heatmap"])
def test_the_plots_of_shap_take_it(X, plot):
    explanation = ranking().to_shap(X)
    import shap

    one = plot in ("waterfall", "bar of one row")
    with warnings.catch_warnings(action="ignore"):  # those of shap about matplotlib and its own colours
        getattr(shap.plots, plot.partition(" ")[0])(explanation[0] if one else explanation, show=False)
        pyplot.gcf().canvas.draw()
    drawn = " ".join(text.get_text() for ax in pyplot.gcf().axes for text in ax.get_yticklabels())
    pyplot.close("all")
    assert all(name in drawn for name in NAMES)
