"""A small model of named features that several tests of explainers ask."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xgboost

from predgap import Explainer, Normal


@pytest.fixture(scope="session")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    names, labels = ["age", "bmi", "bp"], [f"p{i}" for i in range(60)]
    return pd.DataFrame(rng.normal(size=(60, 3)), columns=names, index=labels)


@pytest.fixture(scope="session")
def model(table) -> xgboost.XGBRegressor:
    y = table["age"] ** 2 + table["bmi"] * table["bp"]
    return xgboost.XGBRegressor(n_estimators=8, max_depth=3).fit(table, y)


@pytest.fixture(scope="session")
def explainer(model) -> Explainer:
    return Explainer(model, Normal(0.5))
