"""Noise on columns with few float32 numbers per σ, against the libraries' own predictions.

The gap must be the sum, over the float32 numbers v that x' is rounded to, of P(x' is rounded to v) times the
squared change of the library's own prediction. Each model is one whose own sums have no rounding error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import pytest
import skl2onnx
import treelite
import xgboost
from catboost import CatBoostRegressor
from scipy import stats
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeRegressor

import effort
import predgap
from predgap import (
    Background,
    Clipped,
    Discrete,
    Explainer,
    FromScipy,
    Laplace,
    Marginal,
    NoiseError,
    Normal,
    PerFeature,
    Relative,
    Rounded,
    Stay,
    StudentT,
    TableError,
    Uniform,
)
from reference import first_rounded_to

# ---- columns -------------------------------------------------------------------------------------


class Column(NamedTuple):
    centre: float
    spread: float  # of the training data
    sigma: float  # of the noise
    rows: tuple[float, ...]  # as they are given; float32 cannot hold all of them


COLUMNS = {  # float32 numbers are 128 s, 2, 1/128 hPa, 4e-6 degrees apart
    "Unix seconds": Column(1.7e9, 3600.0, 1080.0, (1.7e9 + 512, 1.7e9 - 1000.5)),
    "ids": Column(20_000_047.0, 30.0, 3.0, (20_000_047.0, 20_000_048.0, 20_000_031.5)),
    "pressure": Column(101_325.0, 1.0, 0.05, (101_325.004, 101_324.3)),
    "latitude": Column(48.137, 1e-4, 3e-5, (48.137, 48.13705)),
}


@cache
def table(name: str) -> np.ndarray:
    """The column, and another one."""
    column, rng = COLUMNS[name], np.random.default_rng(7)
    first = column.centre + column.spread * rng.uniform(-1, 1, 300)
    return np.column_stack([np.round(first) if name == "ids" else first, rng.normal(size=300)])


@cache
def target(name: str) -> np.ndarray:
    X, rng = table(name), np.random.default_rng(8)
    return np.sin(5 * (X[:, 0] - X[:, 0].mean()) / X[:, 0].std()) + 0.1 * X[:, 1] + rng.normal(size=300) / 5


# ---- models, and how their users ask them --------------------------------------------------------

Predict = Callable[[np.ndarray], np.ndarray]
TREE = {"max_depth": 5, "random_state": 0}


def sklearn_model(model: Any, X: np.ndarray, y: np.ndarray) -> tuple[Any, Predict]:
    return model.fit(X, y), model.predict


def xgboost_model(X: np.ndarray, y: np.ndarray, **options: Any) -> tuple[Any, Predict]:
    """One tree and no intercept: nothing is added in single precision."""
    model = xgboost.XGBRegressor(n_estimators=1, base_score=0.0, max_depth=5, n_jobs=1, **options).fit(X, y)
    return model, lambda rows: model.predict(rows).astype(np.float64)


def catboost_model(X: np.ndarray, y: np.ndarray) -> tuple[Any, Predict]:
    model = CatBoostRegressor(iterations=4, depth=4, verbose=False, thread_count=1, random_seed=0).fit(X, y)
    return model, model.predict


def onnx_model(X: np.ndarray, y: np.ndarray) -> tuple[Any, Predict]:
    model = skl2onnx.to_onnx(
        DecisionTreeRegressor(**TREE).fit(X, y),
        X[:1].astype(np.float32),
        target_opset={"": 15, "ai.onnx.ml": 3},
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return model, lambda rows: session.run(None, {"X": rows.astype(np.float32)})[0].ravel().astype(np.float64)


def treelite_model(X: np.ndarray, y: np.ndarray) -> tuple[Any, Predict]:
    model = treelite.frontend.from_xgboost(xgboost_model(X, y)[0].get_booster())
    return (
        model,
        lambda rows: treelite.gtil.predict(model, rows.astype(np.float32)).ravel().astype(np.float64),
    )


def pipeline(X: np.ndarray, y: np.ndarray) -> tuple[Any, Predict]:
    """Carried to the columns of X: half of each number is rounded, once."""
    model = make_pipeline(FunctionTransformer(), DecisionTreeRegressor(**TREE)).fit(X, y)
    return model, model.predict


MODELS: dict[str, Callable[[np.ndarray, np.ndarray], tuple[Any, Predict]]] = {
    "XGBoost": xgboost_model,
    "XGBoost, -7.34 is missing": lambda X, y: xgboost_model(X, y, missing=-7.3456),
    "CatBoost": catboost_model,
    "tree": lambda X, y: sklearn_model(DecisionTreeRegressor(**TREE), X, y),
    "forest": lambda X, y: sklearn_model(RandomForestRegressor(5, **TREE), X, y),
    "extra trees": lambda X, y: sklearn_model(ExtraTreesRegressor(5, **TREE), X, y),
    "boosting": lambda X, y: sklearn_model(GradientBoostingRegressor(n_estimators=5, random_state=0), X, y),
    "ONNX": onnx_model,
    "treelite": treelite_model,
    "pipeline": pipeline,
}


@cache
def trained(model: str, column: str) -> tuple[Any, Predict]:
    return MODELS[model](table(column), target(column))


# ---- laws ----------------------------------------------------------------------------------------

LAWS: dict[str, Callable[[Column, np.ndarray], Any]] = {
    "normal": lambda c, X: Normal(c.sigma),
    "uniform": lambda c, X: Uniform(2 * c.sigma),
    "Laplace": lambda c, X: Laplace(c.sigma),
    "Student": lambda c, X: StudentT(3, c.sigma),
    "skewed": lambda c, X: FromScipy(stats.gamma(2.0, loc=-c.sigma, scale=c.sigma)),
    "counted": lambda c, X: FromScipy(stats.poisson(3.0, loc=-3)),
    "stays": lambda c, X: Stay(Normal(c.sigma), 0.3),
    "clipped": lambda c, X: Clipped(Normal(c.sigma), c.centre - c.sigma, c.centre + c.spread / 2),
    "rounded": lambda c, X: Rounded(Normal(3 * c.sigma), c.sigma / 4),
    "relative": lambda c, X: Relative(X),
    "relative, kept": lambda c, X: Relative(X, 0.5, keep={float(X[0, 0])}),
    "marginal": lambda c, X: Marginal(X),
    "discrete": lambda c, X: PerFeature({0: Discrete(np.unique(X[:50, 0]).tolist())}, default=Normal(1.0)),
}


def float32_around(low: float, high: float) -> np.ndarray:
    """All float32 numbers from low to high."""
    first, last = (int(np.float32(end).view(np.int32)) for end in (low, high))
    return np.arange(first, last + 1, dtype=np.int32).view(np.float32).astype(np.float64)


def sum_over_float32(
    predict: Predict, law: Any, x: np.ndarray, singles: np.ndarray, first: np.ndarray
) -> float:
    """Σ P(x' is rounded to v) · (f(v) - f(x))²; beyond the numbers v the prediction does not change.

    `first` are the least numbers that are rounded to each v but the first, or above.
    """
    if law.still(x[:1])[0]:
        return 0.0
    below, above = (tail[0] for tail in law.tails(x[:1], first))
    # the mass of a middle one from the tail in which less is lost
    mass = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
    mass = np.concatenate([below[:1], mass, above[-1:]])
    rows = np.tile(x, (len(singles), 1))
    rows[:, 0] = singles
    return float(mass @ (predict(rows) - predict(x[None])[0]) ** 2)


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("model", MODELS)
def test_gaps_are_sums_over_the_float32_numbers_that_a_law_reaches(model: str, column: str) -> None:
    given, (fitted, predict), X = COLUMNS[column], trained(model, column), table(column)
    wide = 3 * max(given.spread, given.sigma)
    singles = float32_around(given.centre - wide, given.centre + wide)
    first = first_rounded_to(singles[1:])
    rows = np.array([[x, X[0, 1]] for x in given.rows])
    for name, make in LAWS.items():
        if name == "counted" and "missing" in model:
            continue  # such noise could make a value missing: it is refused
        noise = make(given, X)
        law = noise.laws(2)[0].avoiding(np.nan, np.nan)
        found = Explainer(fitted, noise, rtol=0).gap(rows, [0])
        wanted = [sum_over_float32(predict, law, row, singles, first) for row in rows]
        assert max(wanted) > 0 or (name, column) == ("counted", "Unix seconds")
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("column", COLUMNS)
def test_the_columns_tell_rounding_from_no_rounding(column: str) -> None:
    """Else the test above would pass without it."""
    given, (model, _) = COLUMNS[column], trained("XGBoost", column)
    rounded = predgap.load(model)
    plain = replace(rounded, threshold=rounded.threshold.astype(np.float32))
    rows = np.array([[x, 0.0] for x in given.rows])
    gaps = [Explainer(ensemble, Normal(given.sigma)).gap(rows, [0]) for ensemble in (rounded, plain)]
    assert np.abs(gaps[0] / gaps[1] - 1).max() > 1e-3


# ---- samples -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "column", "law"),
    [
        ("XGBoost", "Unix seconds", "normal"),
        ("CatBoost", "ids", "relative"),
        ("forest", "ids", "rounded"),
        ("boosting", "pressure", "Student"),
        ("XGBoost", "latitude", "clipped"),
        ("pipeline", "ids", "counted"),
    ],
)
def test_samples_through_the_library_have_the_gap_for_their_mean(model: str, column: str, law: str) -> None:
    given, (fitted, predict), X = COLUMNS[column], trained(model, column), table(column)
    explainer = Explainer(fitted, LAWS[law](given, X), rtol=0)
    n = effort.cases(100_000, 1_000_000)
    for x in given.rows:
        row = np.array([[x, 0.0]])
        moved = explainer.noise.sample(np.repeat(row, n, axis=0), seed=3)
        moved[:, 1] = 0.0
        squares = (predict(moved) - predict(row)) ** 2
        error = squares.std() / np.sqrt(n)
        assert error > 0
        assert abs(explainer.gap(row, [0])[0] - squares.mean()) <= 4 * error


def test_noise_is_added_to_the_row_as_it_is_given() -> None:
    """float32 holds no odd number beyond 2^24, so that the row itself is rounded; its noise is not."""
    X = np.arange(20_000_000.0, 20_000_100.0)[:, None]
    tree = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, np.sin(X[:, 0] / 9))
    odd, even = np.array([[20_000_047.0]]), np.array([[20_000_048.0]])
    assert np.float32(odd) == np.float32(even)
    explainer = Explainer(tree, Normal(3.0), rtol=0)
    here, there = explainer.gap(odd, [0])[0], explainer.gap(even, [0])[0]
    assert abs(here - there) > 0.01 * there
    n = effort.cases(100_000, 1_000_000)
    drawn = odd + 3.0 * np.random.default_rng(0).normal(size=(n, 1))
    squares = (tree.predict(drawn) - tree.predict(odd)) ** 2
    assert abs(here - squares.mean()) <= 4 * squares.std() / np.sqrt(n)


# ---- ends ----------------------------------------------------------------------------------------

BEYOND = 2.0**128 - 2.0**103  # from here on float32 rounds to infinity


def refuses(predict: Predict, row: np.ndarray) -> bool:
    try:
        with np.errstate(over="ignore"):
            predict(row)
    except (ValueError, xgboost.core.XGBoostError):
        return True
    return False


@pytest.mark.parametrize("model", ["XGBoost", "CatBoost", "tree", "forest", "boosting"])
def test_what_float32_cannot_hold_is_refused_where_the_library_refuses_it(model: str) -> None:
    fitted, predict = trained(model, "pressure")
    if model == "XGBoost":  # of a wrapper only the training refuses them, which makes a DMatrix

        def predict(rows: np.ndarray) -> np.ndarray:
            return fitted.get_booster().predict(xgboost.DMatrix(rows))

    explainer = Explainer(fitted, Normal(1.0))
    for value in (np.nextafter(BEYOND, 0.0), BEYOND, 1e39, np.inf):
        for row in ([[value, 0.0]], [[-value, 0.0]]):
            if refuses(predict, np.array(row)):
                with pytest.raises(TableError, match=r"predgap takes numbers up to 3.40282357e\+38"):
                    explainer.gap(row, [1])
            else:
                assert explainer.ensemble.predict(row) == pytest.approx(predict(np.array(row)), rel=1e-12)
                explainer.gap(row, [1])
    assert not refuses(predict, np.array([[np.nextafter(BEYOND, 0.0), 0.0]]))


def test_values_of_a_law_that_the_library_would_refuse_are_refused() -> None:
    tree, _ = trained("tree", "pressure")
    for law in (
        Discrete([0.0, 1e39]),
        Marginal([[0.0, 0.0], [-1e39, 0.0]]),
        Stay(Discrete([0.0, np.inf]), 0.5),
    ):
        with pytest.raises(NoiseError, match=r"'f0' may give it the value .* predgap takes numbers up to"):
            Explainer(tree, PerFeature({0: law}, default=Normal(1.0)))
    with pytest.raises(NoiseError, match=r"Background cannot use X: .* takes numbers up to"):
        Explainer(tree, Background([[0.0, 0.0], [1e39, 0.0]]))
    boosted, _ = trained("CatBoost", "pressure")
    Explainer(boosted, PerFeature({0: Discrete([0.0, 1e39])}, default=Normal(1.0)))


@pytest.mark.parametrize("model", ["XGBoost", "CatBoost", "tree"])
def test_numbers_around_zero(model: str) -> None:
    """Those up to 2^-150 are rounded to 0 or -0, which are equal."""
    X = np.array([[-1.0, 0.0], [-1e-44, 0.0], [0.0, 0.0], [1e-44, 0.0], [1.0, 0.0]] * 20)
    y = np.array([0.0, 1.0, 3.0, 7.0, 15.0] * 20)
    fitted, predict = MODELS[model](X, y)
    tie = 2.0**-150
    values = [0.0, -0.0, 5e-324, -5e-324, 1e-46, tie, np.nextafter(tie, 1), 2e-45, 1e-44]
    rows = np.array([[sign * value, 0.0] for value in values for sign in (1, -1)])
    ensemble = predgap.load(fitted)
    np.testing.assert_allclose(ensemble.predict(rows), predict(rows), rtol=1e-12)
    chosen = PerFeature({0: Discrete(np.unique(rows[:, 0]).tolist())}, default=Normal(1.0))
    n = len(np.unique(rows[:, 0]))
    wanted = (
        (predict(np.array([[v, 0.0] for v in np.unique(rows[:, 0])])) - predict(rows[:1])) ** 2
    ).sum() / n
    assert Explainer(fitted, chosen, rtol=0).gap(rows[:1], [0])[0] == pytest.approx(
        wanted, rel=1e-12, abs=1e-300
    )


@pytest.mark.parametrize("missing", [0.1, -999.1, 20_000_001.0, 1e-46, np.inf, -np.inf])
def test_what_is_rounded_to_the_missing_number_is_missing(missing: float) -> None:
    """To XGBoost: at, and one float64 around, the ends of the range that is rounded to it."""
    X, y = table("latitude").copy(), target("latitude")
    X[::3, 0] = missing
    model = xgboost.XGBRegressor(n_estimators=3, max_depth=3, missing=missing, n_jobs=1).fit(X, y)
    ensemble = predgap.load(model)
    with np.errstate(over="ignore"):
        ends = [np.nextafter(end, to) for end in ensemble.missing_range for to in (-np.inf, np.inf)]
        tried = np.array([missing, np.float32(missing), *ensemble.missing_range, *ends, BEYOND, -BEYOND, 0.0])
    tried = tried[np.abs(tried) <= ensemble.largest] if np.isfinite(missing) else tried
    rows = np.column_stack([tried, np.zeros(len(tried))])
    np.testing.assert_allclose(ensemble.predict(rows), model.predict(rows), rtol=1e-6)
    gone = np.isnan(ensemble.cast(rows)[:, 0])
    assert gone.any()
    assert not gone.all()
    gaps = Explainer(model, Normal(1.0)).gap(rows, [0])
    assert (gaps[gone] == 0).all(), "what is missing stays missing"
