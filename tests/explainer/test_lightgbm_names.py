"""LightGBM renames columns that have spaces; its models take the tables that they were trained on."""

from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import predgap
from predgap import Explainer, Normal, PerFeature, Ranking, Uniform
from predgap.errors import NoiseError, TableError


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = lightgbm.LGBMClassifier(n_estimators=8, num_leaves=7, n_jobs=1, verbose=-1).fit(X, y)
    return X, y, model


@pytest.fixture(scope="module", params=["object", "file", "saved"])
def loaded(request, cancer, tmp_path_factory):
    _, _, model = cancer
    if request.param == "object":
        return model
    path = tmp_path_factory.mktemp("names") / "model"
    if request.param == "file":
        model.booster_.save_model(path)
    else:
        predgap.load(model).save(path)
    return path


@pytest.fixture(scope="module")
def plain(cancer):
    """The same model without names, for which everything goes by position."""
    X, _, model = cancer
    return Explainer(model, Normal.relative(X.to_numpy(), 0.3), feature_names=[f"f{j}" for j in range(30)])


def test_a_model_takes_its_training_table(cancer, loaded, plain):
    X, _, _ = cancer
    rows = X[:5]
    explainer = Explainer(loaded, Normal.relative(X, 0.3))
    ranking = explainer.rank(rows)
    np.testing.assert_array_equal(ranking.order, plain.rank(rows.to_numpy()).order)
    assert ranking.feature_names == tuple(X.columns)
    assert set(ranking.to_frame()["feature"]) == set(X.columns)
    assert set(explainer.approximate().rank(rows).to_frame()["feature"]) == set(X.columns)
    shuffled = rows[sorted(rows.columns)]
    np.testing.assert_array_equal(explainer.gap(shuffled, range(30)), plain.gap(rows.to_numpy(), range(30)))
    assert explainer.rank(pl.from_pandas(shuffled)).feature_names == tuple(X.columns)


def test_subsets_rankings_and_noise_go_by_the_users_names(cancer, loaded, plain):
    X, _, _ = cancer
    rows, array = X[:5], X[:5].to_numpy()
    explainer = Explainer(loaded, Normal.relative(X, 0.3))
    for names in (
        ["worst area", "mean texture"],
        ["worst_area", "mean_texture"],
        ["worst area", "mean_texture"],
    ):
        np.testing.assert_array_equal(explainer.gap(rows, names), plain.gap(array, [23, 1]))
    order = [*X.columns[::-1]]
    np.testing.assert_array_equal(explainer.pgi2(rows, order), plain.pgi2(array, range(29, -1, -1)))
    ranking = explainer.rank(rows)
    np.testing.assert_array_equal(explainer.curve(rows, ranking), plain.curve(array, ranking.order))
    values = pd.DataFrame(np.abs(X[:5]).to_numpy(), columns=X.columns)[order]
    theirs = Ranking.from_attributions(values)
    np.testing.assert_array_equal(explainer.pgi2(rows, theirs), plain.pgi2(array, 29 - theirs.order))
    one = PerFeature({"worst area": Uniform(50.0)}, default=Normal.relative(X, 0.3))
    by_place = PerFeature({23: Uniform(50.0)}, default=Normal.relative(X, 0.3))
    gaps = [Explainer(loaded, noise).gap(rows, [23]) for noise in (one, by_place)]
    np.testing.assert_array_equal(*gaps)
    scales = Normal((0.3 * X.std(ddof=0)).to_dict())
    np.testing.assert_allclose(
        Explainer(loaded, scales).gap(rows, [23]), explainer.gap(rows, [23]), rtol=1e-9
    )


def test_without_a_frame_the_models_names_are_shown(cancer, loaded):
    X, _, _ = cancer
    explainer = Explainer(loaded, Normal.relative(X, 0.3))
    assert explainer.rank(X[:2].to_numpy()).feature_names == tuple(c.replace(" ", "_") for c in X.columns)


def test_columns_that_become_the_same_are_refused(cancer, loaded):
    X, _, _ = cancer
    twice = X.assign(mean_radius=X["mean area"])
    with pytest.raises(NoiseError, match="'mean radius', 'mean_radius' may each be"):
        Explainer(loaded, Normal.relative(twice, 0.3))
    with pytest.raises(TableError, match="'mean radius', 'mean_radius' may each be"):
        Explainer(loaded, Normal.relative(X, 0.3)).rank(twice)


@pytest.mark.parametrize("steps", [[], [StandardScaler().set_output(transform="pandas")]])
def test_a_pipeline_shows_the_users_names(cancer, steps):
    X, y, _ = cancer
    model = lightgbm.LGBMClassifier(n_estimators=3, num_leaves=7, n_jobs=1, verbose=-1)
    pipeline = make_pipeline(*steps, model).fit(X, y)
    explainer = Explainer(pipeline, Normal(0.3))
    assert explainer.rank(X[:2]).feature_names == tuple(X.columns)
