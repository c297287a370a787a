"""Rankings that users give: attributions of other rows, of a named output, and what is not a ranking."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from predgap import Explainer, Normal, Ranking
from predgap.errors import RankingError
from predgap.ranking import ranking_order
from strategies import Split, ensemble_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of shap and matplotlib, about each other
    import shap


def explanation_of(X, **fields):
    return shap.Explanation(np.ones((len(X), 2)), data=X, feature_names=["age", "bmi"], **fields)


def test_an_explanation_of_other_rows_is_refused():
    ensemble = ensemble_of([Split(0, 0.5, 0.0, 1.0)], 2).named(("age", "bmi"))
    explainer = Explainer(ensemble, Normal(1.0))
    X = pd.DataFrame({"bmi": [1.1, np.nan, 3.0], "age": [0.1, 0.2, 0.7]})
    given = X[["age", "bmi"]].to_numpy()
    assert explainer.pgi2(X, explanation_of(given)).shape == (3,)
    assert explainer.pgi2(X, explanation_of(given.astype(np.float32))).shape == (3,)
    mixed = given.astype(object)
    mixed[:, 1] = "text"  # is not compared
    assert explainer.pgi2(X, explanation_of(mixed)).shape == (3,)
    with pytest.raises(RankingError, match="in 2 of 3 rows 'age' differs, first in row 0"):
        explainer.pgi2(X, explanation_of(given[::-1]))


def test_attributions_of_one_output_remember_which():
    values = np.ones((2, 3))
    assert Ranking.from_attributions(values, output="mid").output == "mid"
    assert Ranking.from_attributions(values, output=2).output == 2
    assert Ranking.from_attributions(values).output is None
    cut = explanation_of(np.zeros((2, 2)), output_names="mid")
    assert Ranking.from_attributions(cut, output="mid").output == "mid"
    with pytest.raises(RankingError, match="output='low', but the attributions are of output 'mid'"):
        Ranking.from_attributions(cut, output="low")


def test_messages_say_what_to_pass_instead():
    names = ("age", "bmi")
    with pytest.raises(RankingError, match=r"importances need the names of features: pd.Series"):
        ranking_order(np.array([115, 162]), 3, 2, names)
    with pytest.raises(RankingError, match=r"from_attributions\(values, output=\.\.\.\)"):
        ranking_order(np.zeros((3, 2, 4), dtype=int), 3, 2, names)
    with pytest.raises(RankingError, match="the ranking has 'zzz', which the model does not have"):
        ranking_order(Ranking([[0, 1, 2]] * 3, feature_names=("age", "bmi", "zzz")), 3, 2, names)
