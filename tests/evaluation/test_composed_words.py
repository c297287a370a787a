"""The rankings "shap" and "gain" of models that no library takes as a whole: sums of models, and of trees."""

from __future__ import annotations

import warnings

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.linear_model import RidgeCV
from sklearn.multioutput import MultiOutputRegressor

from predgap import Explainer, Relative, evaluate
from predgap.errors import RankingError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # shap's own
    import shap

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.normal(size=(150, 4)), columns=["a", "b", "c", "d"])
Y = 3 * TABLE.a + TABLE.b * TABLE.c + 0.2 * TABLE.d
IRIS, KINDS = load_iris(return_X_y=True, as_frame=True)


def lgb():
    return lightgbm.LGBMRegressor(n_estimators=15, num_leaves=6, verbose=-1, min_child_samples=5)


def forest(kind=RandomForestRegressor):
    return kind(8, max_depth=4, random_state=0)


def shap_of(model, rows):
    """(n, d, k)"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = shap.TreeExplainer(model)(rows).values
    return found.reshape(*rows.shape, -1)


def sizes(model, rows, **options):
    found = evaluate(Explainer(model, Relative(rows), **options), rows[:12], ["shap"])
    return found.rankings["shap"].scores


def test_boosting_of_several_classes_is_the_sum_over_its_trees():
    model = GradientBoostingClassifier(n_estimators=6, random_state=0).fit(IRIS, KINDS)
    rows = IRIS[:12].to_numpy()
    by_class = [
        model.learning_rate * sum(shap_of(tree, rows)[..., 0] for tree in trees)
        for trees in model.estimators_.T
    ]
    for k, expected in enumerate(by_class):
        np.testing.assert_allclose(sizes(model, IRIS, output=k), np.abs(expected), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(sizes(model, IRIS), np.abs(by_class).sum(axis=0), rtol=1e-6, atol=1e-9)


def test_a_voting_is_the_mean_of_its_members():
    voting = VotingRegressor([("a", lgb()), ("b", forest())], weights=[3, 1]).fit(TABLE, Y)
    a, b = (shap_of(model, TABLE[:12].to_numpy())[..., 0] for model in voting.estimators_)
    np.testing.assert_allclose(sizes(voting, TABLE), np.abs(0.75 * a + 0.25 * b), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kinds", [KINDS, KINDS == 1])
def test_a_voting_of_classes(kinds):
    members = [("a", forest(RandomForestClassifier)), ("b", forest(ExtraTreesClassifier))]
    voting = VotingClassifier(members, voting="soft").fit(IRIS, kinds)
    mean = np.mean([shap_of(model, IRIS[:12].to_numpy()) for model in voting.estimators_], axis=0)
    np.testing.assert_allclose(
        sizes(voting, IRIS, output=0), np.abs(mean[..., -1 if kinds.max() == 1 else 0])
    )


def test_a_stacking_with_a_linear_model():
    stacking = StackingRegressor([("a", lgb()), ("b", forest())], RidgeCV()).fit(TABLE, Y)
    a, b = (shap_of(model, TABLE[:12].to_numpy())[..., 0] for model in stacking.estimators_)
    weights = stacking.final_estimator_.coef_
    np.testing.assert_allclose(
        sizes(stacking, TABLE), np.abs(weights[0] * a + weights[1] * b), rtol=1e-6, atol=1e-9
    )


def test_outputs_side_by_side():
    both = MultiOutputRegressor(lgb()).fit(TABLE, np.stack([Y, -TABLE.b], axis=1))
    second = shap_of(both.estimators_[1], TABLE[:12].to_numpy())[..., 0]
    np.testing.assert_allclose(sizes(both, TABLE, output=1), np.abs(second), rtol=1e-6, atol=1e-9)


def test_gains_of_histogram_gradient_boosting():
    jobs = TABLE.assign(job=pd.Categorical(RNG.choice(["clerk", "cook", "nurse"], len(TABLE))))
    model = HistGradientBoostingRegressor(max_iter=20, categorical_features="from_dtype")
    model.fit(jobs, 9.0 * (jobs.job == "cook") + TABLE.b)
    found = evaluate(Explainer(model, Relative(jobs)), jobs[:5], ["gain"]).rankings["gain"]
    assert found.order[0, :2].tolist() == [4, 1]  # in the trees, the categorical column comes first
    total = sum(tree.nodes["gain"][tree.nodes["is_leaf"] == 0].sum() for (tree,) in model._predictors)
    assert found.scores[0].sum() == pytest.approx(total, rel=1e-12)
    with pytest.raises(RankingError, match=r"does not know the categories .*or pass the SHAP values"):
        evaluate(Explainer(model, Relative(jobs)), jobs[:5], ["shap"])


def test_what_has_no_gains_says_what_to_pass_instead():
    voting = VotingRegressor([("a", lgb()), ("b", lgb())]).fit(TABLE, Y)
    with pytest.raises(RankingError, match=r"has no feature_importances_.*pass .*pd.Series\(importances"):
        evaluate(Explainer(voting, Relative(TABLE)), TABLE[:5], ["gain"])
