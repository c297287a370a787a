"""LightGBM leaves rare categories out of a model, whose own training table holds them."""

from __future__ import annotations

import itertools

import lightgbm
import numpy as np
import pandas as pd
import pytest

import predgap
from predgap import Explainer, Marginal


@pytest.fixture(scope="module")
def trained():
    """A table with many categories, a few of which occur once, in labels and in codes."""
    rng = np.random.default_rng(0)
    n = 400
    town = rng.integers(0, 6, n)
    town[:8] = np.arange(20, 28)
    size = np.round(rng.normal(size=n), 1)
    y = size + (town % 3) * 2.0 + rng.normal(size=n) * 0.1
    codes = pd.DataFrame({"size": size, "town": town})
    params = {
        "verbose": -1,
        "num_threads": 1,
        "max_bin": 8,
        "min_data_per_group": 1,
        "cat_smooth": 1,
        "seed": 0,
    }
    data = lightgbm.Dataset(codes, y, categorical_feature=["town"], params=params)
    return codes, lightgbm.train(params | {"num_leaves": 8, "min_data_in_leaf": 5}, data, 5)


@pytest.mark.parametrize("source", ["object", "file"])
def test_marginal_takes_the_training_table(trained, source, tmp_path):
    X, booster = trained
    model = booster
    if source == "file":
        model = tmp_path / "model.txt"
        booster.save_model(model)
    known = set(predgap.load(model).categorical()[1].labels)
    rare = set(X["town"]) - known
    assert known
    assert rare
    rows = X[5:11]
    for noise in (Marginal(X), Marginal(X.to_numpy(float))):
        explainer = Explainer(model, noise)
        gaps = {1: explainer.gap(rows, ["town"]), 2: explainer.gap(rows, ["size", "town"])}
        for r, (size, town) in enumerate(rows.to_numpy(float)):
            here = booster.predict([[size, town]])[0]
            drawn = booster.predict(np.column_stack([np.full(len(X), size), X["town"]]))
            assert gaps[1][r] == pytest.approx(np.mean((drawn - here) ** 2), rel=1e-12)
            pairs = np.array([*itertools.product(X["size"], X["town"])])
            assert gaps[2][r] == pytest.approx(np.mean((booster.predict(pairs) - here) ** 2), rel=1e-12)
        assert explainer.rank(rows).order.shape == (6, 2)
