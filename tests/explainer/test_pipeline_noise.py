"""Noise of a Pipeline that is explained in the features after its steps."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures

from predgap import Background, Explainer, Normal, PerFeature, Relative
from predgap.errors import NoiseError

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(120, 3)), columns=["a", "b", "c"])
Y = X["a"] - X["b"] ** 2


def reduced():
    return make_pipeline(PCA(2), GradientBoostingRegressor(n_estimators=5)).fit(X, Y)


def test_the_default_noise_knows_the_names_of_the_features():
    with pytest.warns(UserWarning, match="explained after PCA"):
        explainer = Explainer(reduced(), X)
    described = explainer.noise.describe()
    assert isinstance(described, pd.DataFrame)
    assert described["column"].tolist() == ["pca0", "pca1"]
    np.testing.assert_allclose(described["move"], 0.3 * explainer.transform(X).std(axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    "noise",
    [Relative(X), Background(X), PerFeature({}, default=Relative(X)), Normal({"a": 1.0, "b": 1.0, "c": 1.0})],
    ids=repr,
)
def test_noise_of_the_columns_of_x_is_refused_with_a_way_out(noise):
    pipeline = reduced()
    words = (
        r"pca0.*features after PCA, not of the columns of X: pass X itself, Explainer\(model, X\), or noise"
    )
    with pytest.warns(UserWarning, match="explained after PCA"), pytest.raises(NoiseError, match=words):
        Explainer(pipeline, noise)
    with pytest.warns(UserWarning, match="explained after PCA"):
        explainer = Explainer(pipeline, X)
    with pytest.warns(UserWarning, match="explained after PCA"):
        again = Explainer(pipeline, Relative(explainer.transform(X)))
    np.testing.assert_array_equal(explainer.gap(X, [0]), again.gap(X, [0]))


def with_dummies(sparse: bool):
    """XGBoost after dummies and a step that cannot be undone, so that the features are those after it."""
    steps = ColumnTransformer(
        [
            ("jobs", OneHotEncoder(sparse_output=sparse), ["job"]),
            ("numbers", PolynomialFeatures(2, include_bias=False), ["a", "b"]),
        ],
        sparse_threshold=1.0 if sparse else 0.0,
    )
    table = X.assign(job=RNG.choice(["cook", "nurse", "smith"], len(X)))
    model = xgboost.XGBRegressor(n_estimators=10, n_jobs=1)
    return make_pipeline(steps, model).fit(table, Y + 3 * (table["job"] == "cook")), table


def test_dummies_that_are_absent_and_so_missing_are_warned_of_by_name():
    pipeline, table = with_dummies(sparse=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        explainer = Explainer(pipeline, table)
    (message,) = [str(w.message) for w in caught if "absent" in str(w.message)]
    assert "3 columns have one value or none, so that noise cannot move them, and their gaps are 0" in message
    assert "'jobs__job_cook', 'jobs__job_nurse', 'jobs__job_smith'" in message
    assert "OneHotEncoder(sparse_output=False)" in message
    assert {w.filename for w in caught} == {__file__}
    assert (explainer.gap(table, ["jobs__job_cook"]) == 0).all()


def test_dense_dummies_move():
    pipeline, table = with_dummies(sparse=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        explainer = Explainer(pipeline, table)
    assert not [w for w in caught if "absent" in str(w.message)]
    assert (explainer.gap(table, ["jobs__job_cook"]) > 0).all()
