"""A table in place of the noise, the smoker example of the pages, and warnings of continuous noise."""

from __future__ import annotations

import itertools
import warnings

import catboost
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost
from scipy import stats
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import effort
from predgap import (
    Clipped,
    Explainer,
    FromScipy,
    Laplace,
    Marginal,
    Normal,
    PerFeature,
    Redraw,
    Relative,
    Rounded,
    Stay,
    StudentT,
    Uniform,
)
from predgap.errors import NoiseError, TableError
from strategies import Split, ensemble_of

# ---- the smoker example --------------------------------------------------------------------------

N = 3000
TREES = {"n_estimators": 100, "max_depth": 3, "learning_rate": 0.1}


def smokers() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(3)
    X = pd.DataFrame(
        {
            "smoker": (rng.random(N) < 0.3).astype(float),
            "kids": rng.poisson(1.2, N).astype(float),
            "age": rng.integers(18, 80, N).astype(float),
            "weight": rng.normal(75.0, 12.0, N),
        }
    )
    y = 10 * X["smoker"] + 2 * X["kids"] + 0.2 * X["age"] + 0.05 * X["weight"] + rng.normal(size=N)
    return X, y


MODELS = {
    "XGBoost hist": xgboost.XGBRegressor(**TREES, n_jobs=1),
    "XGBoost exact": xgboost.XGBRegressor(**TREES, n_jobs=1, tree_method="exact"),
    "LightGBM": lightgbm.LGBMRegressor(**TREES, n_jobs=1, verbose=-1),
    "CatBoost": catboost.CatBoostRegressor(
        iterations=200, verbose=0, thread_count=1, allow_writing_files=False
    ),
    "GradientBoosting": GradientBoostingRegressor(**TREES),
    "HistGradientBoosting": HistGradientBoostingRegressor(max_iter=100, max_depth=3),
}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def table():
    return smokers()[0]


@pytest.fixture(scope="module")
def models():
    X, y = smokers()
    return {name: model.fit(X, y) for name, model in MODELS.items()}


def test_all_libraries_tell_the_same_story_of_smokers(models, table):
    """With normal noise on 0 and 1, it depends on where a library puts its threshold; see the next test."""
    smokes = table["smoker"].to_numpy() == 1
    first, gaps = {}, {}
    for name, model in models.items():
        explainer = Explainer(model, table)
        leads = explainer.rank(table, top=1).top(1)[:, 0] == "smoker"
        gap = explainer.gap(table, ["smoker"])
        first[name] = leads[smokes].mean(), leads[~smokes].mean()
        gaps[name] = gap[smokes].mean(), gap[~smokes].mean()
    shares, sizes = np.array(list(first.values())), np.array(list(gaps.values()))
    assert (shares[:, 0] > 0.98).all(), first
    assert (np.ptp(shares, axis=0) < 0.12).all(), first
    assert (shares[:, 1] > 0.7).all(), first
    assert (sizes.max(axis=0) / sizes.min(axis=0) < 1.05).all(), gaps
    assert np.abs(sizes.mean(axis=0) / [3.1, 1.4] - 1).max() < 0.05, gaps


def test_normal_noise_tells_a_different_story_in_each_library(models, table):
    """Why the default is what it is, and that it is warned of."""
    with pytest.warns(UserWarning, match="3 columns of X with only two values or only whole numbers"):
        noise = Normal.relative(table, 0.3)
    smokes = table["smoker"].to_numpy() == 1
    shares = []
    for model in models.values():
        with pytest.warns(UserWarning, match="continuous noise moves 3 columns of whole numbers"):
            leads = Explainer(model, noise).rank(table, top=1).top(1)[:, 0] == "smoker"
        shares.append((leads[smokes].mean(), leads[~smokes].mean()))
    assert np.ptp(np.array(shares)[:, 0]) > 0.9, shares


def predict(model, rows: np.ndarray) -> np.ndarray:
    frame = pd.DataFrame(rows, columns=["smoker", "kids", "age", "weight"])
    return np.asarray(model.predict(frame), dtype=np.float64)


@pytest.mark.parametrize("name", MODELS)
def test_gaps_of_smoker_kids_and_age_by_enumeration_through_predict(models, table, name):
    """All values that the three columns may take together, and the library's own predictions there."""
    model, noise = models[name], Relative(table)
    smoker, kids, age, _ = noise.laws(4, tuple(table.columns))
    values = [np.unique(table[column]) for column in ("smoker", "kids", "age")]
    rows = table.to_numpy()[[0, 1, 7, 12]]
    grid = np.array(list(itertools.product(*values)))
    for x, gap in zip(rows, Explainer(model, noise, rtol=0).gap(rows, [0, 1, 2]), strict=True):
        probability = np.ones(len(grid))
        for j, law in enumerate((smoker, kids, age)):
            below, _ = law.tails(x[j : j + 1], np.append(values[j], np.inf)[1:] - 0.5)
            below = np.append(below[0, :-1], 1.0)
            probability *= np.diff(below, prepend=0.0)[np.searchsorted(values[j], grid[:, j])]
        there = predict(model, np.column_stack([grid, np.full(len(grid), x[3])]))
        change = there - predict(model, x[None])[0]
        # XGBoost and CatBoost predict in float32: errors of 1e-6 of predictions of about 30
        tolerance = 1e-4 if name.startswith(("XGBoost", "CatBoost")) else 1e-10
        assert gap == pytest.approx(float(probability @ change**2), rel=tolerance)


NOISES = {
    "Relative": lambda X: Relative(X, 0.5),
    "Relative, kept": lambda X: Relative(X, 0.5, keep={2.0, 20.0}),
    "Redraw": lambda X: Redraw(X, 0.4),
    "Marginal": Marginal,
    "Stay": lambda X: Stay(Marginal(X), 0.7),
    "Rounded": lambda X: Rounded(Laplace(3.0)),
    "Clipped": lambda X: PerFeature({"smoker": Redraw(X, 0.3)}, Clipped(Rounded(StudentT(3, 2.0)), 0, 60)),
    "Rounded to thirds": lambda X: Rounded(Uniform(3.0), 1 / 3),
    "SciPy": lambda X: FromScipy(stats.poisson(2.0)),
}


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("name", MODELS)
def test_gaps_by_sampling_through_predict(models, table, name, kind):
    model, noise = models[name], NOISES[kind](table)
    n = effort.cases(4000, 200_000)
    for k, row in enumerate([2, 5]):
        x = table.iloc[[row] * n]
        moved = noise.sample(x, seed=k)
        squares = (predict(model, moved.to_numpy()) - predict(model, x.to_numpy()[:1])[0]) ** 2
        gap = Explainer(model, noise).gap(x[:1], list(table.columns))[0]
        assert abs(squares.mean() - gap) <= 5 * squares.std() / np.sqrt(n) + 1e-9 * gap


# ---- a table in place of the noise ---------------------------------------------------------------


def test_a_table_means_relative_noise(models, table):
    model = models["LightGBM"]
    expected = Explainer(model, Relative(table, 0.3)).rank(table[:30])
    for X in (table, pl.DataFrame(table), table.to_numpy(), table.to_numpy().tolist(), table.assign(y=0.5)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the target y is constant
            explainer = Explainer(model, X)
        assert isinstance(explainer.noise, Relative)
        assert explainer.noise.strength == 0.3
        found = explainer.rank(table[:30])
        assert found.scores.tobytes() == expected.scores.tobytes()


def test_the_raw_table_of_a_pipeline(table):
    y = table["smoker"] * 10 + table["age"]
    pipeline = make_pipeline(StandardScaler(), GradientBoostingRegressor(n_estimators=5)).fit(table, y)
    found = Explainer(pipeline, table).gap(table[:5], [0, 2])
    plain = GradientBoostingRegressor(n_estimators=5).fit(table, y)
    np.testing.assert_allclose(
        found, Explainer(plain, table).gap(table[:5], [0, 2]), rtol=1e-6
    )  # rows are float32


@pytest.mark.parametrize("noise", [0.3, "normal", None, Normal, {"age": 1.0}], ids=repr)
def test_what_is_neither_noise_nor_table_is_refused(models, noise):
    with pytest.raises(NoiseError, match="expected a Noise such as"):
        Explainer(models["LightGBM"], noise)
    with pytest.raises((NoiseError, TableError), match="1-dimensional"):
        Explainer(models["LightGBM"], [1.0, 2.0])


# ---- warnings ------------------------------------------------------------------------------------

STUMPS = ensemble_of([Split(0, 0.5, 1.0, 3.0), Split(1, 0.25, 1.0, 2.0)], 2)
WHOLE = np.column_stack([np.arange(20) % 3, np.linspace(0, 1, 20)])


@pytest.mark.parametrize(
    "noise",
    [
        Normal(0.3),
        Uniform(0.3),
        Laplace(0.3),
        StudentT(3, 0.3),
        FromScipy(stats.norm()),
        Clipped(Normal(0.3), 0, 9),
        Stay(Normal(0.3), 0.5),
        Relative(WHOLE, kinds={0: "continuous"}),
    ],
    ids=repr,
)
def test_continuous_noise_on_whole_numbers_is_warned_of_once(noise):
    asks = [
        lambda e: e.gap(WHOLE, [0, 1]),
        lambda e: e.rank(WHOLE),
        lambda e: e.pgi2(WHOLE, [0, 1]),
        lambda e: e.approximate(method="qmc").gap(WHOLE, [0]),
        lambda e: e.estimate(WHOLE, [0]),
    ]
    for ask in asks:
        explainer = Explainer(STUMPS, noise)
        explainer.gap(WHOLE[:19], [0, 1])  # too few rows to tell
        explainer.gap(WHOLE, [1])  # not the column of whole numbers
        with pytest.warns(UserWarning, match=r"moves 1 column of whole numbers: 'f0'.*use Relative"):
            ask(explainer)
        for again in asks:
            again(explainer)


@pytest.mark.parametrize(
    "noise",
    [
        Relative(WHOLE),
        Redraw(WHOLE, 0.5),
        Rounded(Normal(0.3)),
        Clipped(Rounded(Normal(0.3)), 0, 2),
        Marginal(WHOLE),
    ],
    ids=repr,
)
def test_other_noise_on_whole_numbers_is_not(noise):
    Explainer(STUMPS, noise).rank(WHOLE)


def test_missing_values_do_not_hide_whole_numbers():
    rows = np.vstack([WHOLE, [[np.nan, np.nan]]])
    with pytest.warns(UserWarning, match="'f0'"):
        Explainer(STUMPS, Normal(0.3)).rank(rows)
    Explainer(STUMPS, Normal(0.3)).rank(np.where(np.arange(21)[:, None] < 2, np.nan, rows))


def test_warnings_name_the_line_of_the_user():
    X = np.column_stack([WHOLE, np.zeros(20)])
    three = ensemble_of([Split(0, 0.5, 1.0, 3.0), Split(2, 0.25, 1.0, 2.0)], 3)
    asks = [
        lambda: Explainer(three, X),  # a constant column
        lambda: Explainer(STUMPS, Normal(0.3)).gap(WHOLE, [0]),
        lambda: Explainer(STUMPS, Normal(0.3)).approximate().rank(WHOLE),
        lambda: Normal.relative(WHOLE, 0.3),
    ]
    for ask in asks:
        with pytest.warns(UserWarning, match="constant|whole numbers") as caught:
            ask()
        assert [warning.filename for warning in caught] == [__file__]
