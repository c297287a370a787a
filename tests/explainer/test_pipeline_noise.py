"""Noise of a Pipeline that is explained in the features after its steps."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, PowerTransformer

from predgap import (
    Background,
    Clipped,
    Explainer,
    Marginal,
    Normal,
    PerFeature,
    Redraw,
    Relative,
    Rounded,
    Stay,
)
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


BUILT_FROM_A_TABLE = {
    "Relative": lambda table: Relative(table, 0.3),
    "Marginal": Marginal,
    "Redraw": lambda table: Redraw(table, 0.5),
    "Background": Background,
    "Normal.relative": lambda table: Normal.relative(table, 0.3),
    "of one feature": lambda table: PerFeature({"b": Marginal(table)}, default=Normal(0.3)),
    "default": lambda table: PerFeature({"b": Normal(0.3)}, default=Relative(table)),
    "Stay": lambda table: Stay(Marginal(table), 0.5),
    "nested": lambda table: PerFeature({"b": Rounded(Clipped(Marginal(table), -1, 1))}, default=Normal(0.3)),
}
from_a_table = pytest.mark.parametrize("made", BUILT_FROM_A_TABLE.values(), ids=BUILT_FROM_A_TABLE)
after_power = pytest.mark.filterwarnings("ignore:the Pipeline is explained after")


def same_names(first=None):
    """A pipeline whose features are called as the columns of X, but have other values."""
    first = PowerTransformer() if first is None else first
    return make_pipeline(first, GradientBoostingRegressor(n_estimators=5, random_state=0)).fit(X, Y)


@after_power
@from_a_table
def test_a_table_of_x_is_not_taken_for_one_of_features_of_the_same_names(made):
    pipeline = same_names()
    explainer = Explainer(pipeline, X)
    assert explainer.ensemble.names == ("a", "b", "c")
    words = r"columns of X: .*'b'.* after PowerTransformer are called so, too, .*explainer\.transform\(X\)"
    for table in (X, X.assign(other=X["a"]), pl.from_pandas(X)):
        with pytest.raises(NoiseError, match=words):
            Explainer(pipeline, made(table))
    transformed = explainer.transform(X)
    after = pd.DataFrame(transformed, columns=["a", "b", "c"])
    expected = Explainer(pipeline[-1], made(after), feature_names=["a", "b", "c"])
    found = Explainer(pipeline, made(transformed))
    np.testing.assert_array_equal(found.gap(X, ["b"]), expected.gap(transformed, [1]))


@after_power
def test_part_of_x_is_recognised_too():
    noise = PerFeature({"b": Marginal(X[["b"]])}, default=Normal(0.3))
    with pytest.raises(NoiseError, match=r"Marginal\(\) has columns of X: 'b'"):
        Explainer(same_names(), noise)


@after_power
def test_a_table_of_x_is_not_taken_for_features_without_names():
    steps = FunctionTransformer(np.cbrt)  # does not tell the names of its columns
    steps.fit(X)
    pipeline = make_pipeline(steps, GradientBoostingRegressor(n_estimators=5, random_state=0))
    pipeline.fit(X.to_numpy(), Y)
    pipeline[0].fit(X)
    with pytest.raises(NoiseError, match=r"columns of X: 'a', 'b', 'c'.*have no names"):
        Explainer(pipeline, Relative(X))
    assert Explainer(pipeline, Relative(np.cbrt(X.to_numpy()))).gap(X, [0]).shape == (120,)


@after_power
def test_a_table_of_features_that_x_does_not_have_is_one_of_after_the_steps():
    steps = ColumnTransformer(
        [("powers", PolynomialFeatures(2, include_bias=False), ["a", "b"])],
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipeline = same_names(steps)
    after = steps.transform(X)
    assert [*after.columns][:3] == ["a", "b", "a^2"]
    found = Explainer(pipeline, Marginal(after)).gap(X, ["a", "c"])
    expected = Explainer(pipeline[-1], Marginal(after)).gap(after, ["a", "c"])
    np.testing.assert_array_equal(found, expected)


def test_an_array_that_may_be_x_is_warned_of():
    """Without names nothing tells which of the two a table is."""
    pipeline = make_pipeline(PowerTransformer(), GradientBoostingRegressor(n_estimators=5))
    pipeline.fit(X.to_numpy(), Y)
    tables = (X.to_numpy(), pd.DataFrame(X.to_numpy()), X)
    for noise in (PerFeature({}, default=Marginal(table)) for table in tables[:2]):
        with pytest.warns(UserWarning, match=r"explained after .*; the table of the noise is read as theirs"):
            Explainer(pipeline, noise)
    with (
        pytest.warns(UserWarning, match="the table of the noise is read as theirs"),
        pytest.raises(NoiseError, match="lacks 3 features of the model: 'x0', 'x1', 'x2'"),
    ):
        Explainer(pipeline, Marginal(X))
    for plain in (Normal(0.3), X.to_numpy()):
        with pytest.warns(UserWarning, match=r"explained after .*transform\(X\) returns$"):
            Explainer(pipeline, plain)


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
