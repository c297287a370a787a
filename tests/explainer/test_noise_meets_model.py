"""`Relative` reads its table as the model does: categories, missing values; values it keeps; rows outside."""

from __future__ import annotations

import itertools
import warnings

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from threadpoolctl import threadpool_limits

from predgap import Clipped, Explainer, Normal, PerFeature, Relative, Rounded, Stay, load
from predgap.errors import NoiseError
from strategies import Split, ensemble_of

RNG = np.random.default_rng(1)
N = 400
P = 0.3**2 / 2  # of a redraw


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield


def enumerated(model, row, laws, predict=None):
    """The mean squared change of the library's own prediction, over all values that the columns may take."""
    predict = predict or (lambda X: np.asarray(model.predict(X), dtype=np.float64))
    combinations = list(itertools.product(*(law.items() for law in laws.values())))
    moved = pd.concat([row] * len(combinations), ignore_index=True)
    for k, column in enumerate(laws):
        moved[column] = [values[k][0] for values in combinations]
    probability = np.array([np.prod([p for _, p in values]) for values in combinations])
    return float(probability @ (predict(moved) - predict(row)[0]) ** 2)


def redrawn(column, x, keep=()):
    """value -> probability, for a value x of a column that is redrawn with probability P."""
    if x in keep:
        return {x: 1.0}
    shares = column[~column.isin(list(keep))].value_counts(normalize=True)
    law = {value: P * share for value, share in shares.items()}
    return law | {x: law.get(x, 0.0) + 1 - P}


# ---- CatBoost stores no labels -------------------------------------------------------------------

LABELS = RNG.choice(
    np.array(["a", "b", "c", "d", "e", "zz"], dtype=object), N, p=[0.3, 0.3, 0.1, 0.1, 0.1, 0.1]
)
CODED = pd.DataFrame({"g": LABELS, "k": RNG.choice([0, 3, 7, 11], N), "x": RNG.normal(size=N)})
TARGET = 3.0 * (CODED.g == "a") + 1.0 * (CODED.g == "b") + 2.0 * (CODED.k == 7) + CODED.x
CATBOOSTS = {
    "one-hot, few trees": {"one_hot_max_size": 10, "iterations": 3, "depth": 2},
    "one-hot": {"one_hot_max_size": 10, "iterations": 30, "depth": 4},
    "counters": {"one_hot_max_size": 2, "max_ctr_complexity": 1, "iterations": 30, "depth": 4},
}


@pytest.fixture(scope="module", params=CATBOOSTS)
def catboosted(request):
    model = catboost.CatBoostRegressor(
        cat_features=["g", "k"],
        verbose=0,
        allow_writing_files=False,
        thread_count=1,
        **CATBOOSTS[request.param],
    )
    return model.fit(CODED, TARGET)


@pytest.mark.parametrize("keep", [(), (-9,), (-99.5,), ("never",), ("zz",), (3,), ("zz", 11)], ids=repr)
def test_kept_categories_of_catboost_by_enumeration_through_predict(catboosted, keep):
    explainer = Explainer(load(catboosted, levels=CODED), Relative(CODED, keep=keep), rtol=0)
    rows = CODED[:25].reset_index(drop=True)
    for subset in (["g"], ["k"], ["g", "k"]):
        for r, gap in enumerate(explainer.gap(rows, subset)):
            laws = {name: redrawn(CODED[name], rows[name][r], keep) for name in subset}
            assert gap == pytest.approx(enumerated(catboosted, rows[r : r + 1], laws), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("keep", [(-9,), (-99.5,), ("never",)], ids=repr)
def test_values_that_are_no_categories_change_nothing(catboosted, keep):
    plain, kept = (Explainer(catboosted, Relative(CODED, keep=each)) for each in ((), keep))
    np.testing.assert_array_equal(plain.gap(CODED[:40], ["g"]), kept.gap(CODED[:40], ["g"]))


def test_a_kept_category_that_the_model_does_not_tell_from_others_is_refused():
    model = catboost.CatBoostRegressor(
        one_hot_max_size=10, iterations=10, depth=2, cat_features=["g"], verbose=0, allow_writing_files=False
    ).fit(CODED[["g", "x"]], 3.0 * (CODED.g == "a") + (CODED.g == "b") + 0.01 * CODED.x)
    words = r"feature 'g' .*keep holds 'zz', .*does not tell it from '\w'; load it .*levels=X"
    with pytest.raises(NoiseError, match=words):
        Explainer(model, Relative(CODED, keep={"zz"}))
    others = Explainer(model, Relative(CODED, keep={"c", "d", "e", "zz"}))  # all that it does not tell apart
    rows = CODED[["g", "x"]]
    assert (others.gap(rows[CODED.g > "b"], ["g"]) == 0).all()
    assert (others.gap(rows[CODED.g <= "b"], ["g"]) > 0).all()


def test_a_kept_category_that_lightgbm_does_not_know():
    """It shares the way of unknown categories, which no other label of the table goes."""
    trained = CODED[CODED.g != "zz"].astype({"g": "category"})
    model = lightgbm.LGBMRegressor(n_estimators=5, min_child_samples=3, verbose=-1, n_jobs=1)
    model.fit(trained[["g", "x"]], TARGET[trained.index])
    explainer = Explainer(model, Relative(CODED, keep={"zz"}))
    gaps = explainer.gap(CODED[["g", "x"]], ["g"])
    assert (gaps[CODED.g == "zz"] == 0).all()
    assert (gaps[CODED.g == "a"] > 0).all()


# ---- categories as codes of an array -------------------------------------------------------------


def test_describe_and_sample_show_the_law_of_codes_that_are_categories():
    A = np.column_stack([RNG.integers(0, 40, 300), RNG.normal(size=300)])
    model = lightgbm.LGBMRegressor(
        n_estimators=20, verbose=-1, min_child_samples=3, min_data_per_group=3, cat_smooth=1, n_jobs=1
    ).fit(A, A[:, 0] % 7 + A[:, 1], categorical_feature=[0])
    row, n = A[3:4], 40_000
    for noise in (A, Relative(A), PerFeature({0: Relative(A)}, default=Relative(A))):
        explainer = Explainer(model, noise, rtol=0)
        moved = np.repeat(row, n, axis=0)
        moved[:, 0] = explainer.noise.sample(moved, 1)[:, 0]
        squares = (model.predict(moved) - model.predict(row)[0]) ** 2
        gap = explainer.gap(row, [0])[0]
        assert abs(squares.mean() - gap) < 5 * squares.std() / np.sqrt(n)
    described = Explainer(model, A).noise.describe()
    assert described["kind"].tolist() == ["categorical", "continuous"]
    assert described["law"][0] == "redrawn with probability 0.045"
    assert np.isnan(described["move"][0])
    assert described["relative_move"][0] == pytest.approx(0.3)
    assert Relative(A).describe()["kind"][0] == "integer"  # which is all that the table tells


# ---- a number that means missing -----------------------------------------------------------------


def test_the_models_missing_code_is_no_number_of_a_column():
    gone = RNG.random(N) < 0.2
    c, d = RNG.normal(size=N), RNG.normal(size=N)
    coded, plain = (pd.DataFrame({"c": np.where(gone, code, c), "d": d}) for code in (-999.0, np.nan))
    of_codes, of_nan = (
        xgboost.XGBRegressor(n_estimators=10, missing=code, n_jobs=1).fit(X, c + d)
        for X, code in ((coded, -999.0), (plain, np.nan))
    )
    np.testing.assert_array_equal(of_codes.predict(coded), of_nan.predict(plain))
    expected = Explainer(of_nan, plain).gap(plain, ["c"])
    for noise in (coded, Relative(coded), Stay(Relative(coded), 0), PerFeature({}, default=Relative(coded))):
        np.testing.assert_array_equal(Explainer(of_codes, noise).gap(coded, ["c"]), expected)
    own = Explainer(of_codes, coded).noise
    pd.testing.assert_frame_equal(own.describe(), Relative(plain).describe())
    drawn = own.sample(coded)
    assert (drawn["c"][gone] == -999).all()
    assert (drawn["c"][~gone] != coded["c"][~gone]).all()


@pytest.mark.parametrize("low", [1, -30], ids=["outside the range", "within the range"])
def test_zero_may_mean_missing_in_columns_of_whole_numbers(low):
    """Rounded noise must not land on it. By enumeration through predict; where it would, the law redraws."""
    values = RNG.integers(low, 60, N).astype(float)
    X = pd.DataFrame({"c": np.where(RNG.random(N) < 0.2, 0.0, values), "d": RNG.normal(size=N)})
    model = xgboost.XGBRegressor(n_estimators=20, missing=0, n_jobs=1).fit(X, 0.2 * X.c + X.d)
    explainer = Explainer(model, X, rtol=0)
    (law, _) = explainer.noise.laws(2, ("c", "d"))
    points = np.arange(-40.0, 70.0)
    rows = pd.DataFrame({"c": [5.0, 59.0, 30.0, 0.0, -7.0, 65.0], "d": [0.1] * 6})
    for r, gap in enumerate(explainer.gap(rows, ["c"])):
        below = law.tails(rows.c.to_numpy()[r : r + 1], np.append(points, 1e9) - 0.5)[0][0]
        mass = {x: p for x, p in zip(points, np.diff(below), strict=True) if p > 0}
        assert sum(mass.values()) == pytest.approx(1, rel=1e-12)
        assert (0.0 in mass) == (rows.c[r] == 0)
        wanted = enumerated(model, rows[r : r + 1], {"c": mass})
        assert gap == pytest.approx(wanted, rel=1e-5, abs=1e-12)  # XGBoost predicts in float32
    assert explainer.gap(rows[3:4], ["c"])[0] == 0
    assert ("redrawn" in explainer.noise.describe()["law"][0]) == (low < 0)


def test_a_column_that_is_constant_or_missing_is_warned_of():
    X = np.column_stack([RNG.random(N) < 0.3, RNG.normal(size=N)]).astype(float)
    model = xgboost.XGBRegressor(n_estimators=3, missing=0, n_jobs=1).fit(X, X.sum(axis=1))
    with pytest.warns(
        UserWarning, match="1 column of X with one value only beside 0.*perturbed: '?0"
    ) as caught:
        explainer = Explainer(model, X)
    assert caught[0].filename == __file__
    assert explainer.noise.describe()["law"][0] == "does not move"


# ---- rows outside the range seen -----------------------------------------------------------------


@pytest.mark.parametrize("seen", [(30, 60), (18, 79)])
def test_rows_outside_the_range_by_enumeration_through_predict(seen):
    """They may move towards the range, but are not thrown to its end."""
    D = pd.DataFrame({"age": RNG.integers(18, 80, N).astype(float), "w": RNG.normal(size=N)})
    model = xgboost.XGBRegressor(n_estimators=50, n_jobs=1).fit(D, 0.2 * D.age)
    table = D[D.age.between(*seen)]
    noise = Relative(table)
    sigma = float(noise.describe()["law"][0].split()[3].rstrip(","))  # four digits
    low, high = table.age.min(), table.age.max()
    points = np.arange(-50.0, 150.0)
    rows = pd.DataFrame({"age": [78.0, 19.0, 45.0, 61.0, 30.0], "w": [0.0] * 5})
    for r, gap in enumerate(Explainer(model, noise, rtol=0).gap(rows, ["age"])):
        x = rows.age[r]
        (rounded,) = Rounded(Normal(sigma)).laws(1)
        mass = np.diff(rounded.tails(np.array([x]), np.append(points, 1e9) - 0.5)[0][0])
        moved = pd.DataFrame({"age": np.clip(points, min(low, x), max(high, x)), "w": 0.0})
        changes = model.predict(moved).astype(float) - float(model.predict(rows[r : r + 1])[0])
        assert gap == pytest.approx(mass @ changes**2, rel=2e-3)  # of sigma


@pytest.mark.filterwarnings("ignore:.* outside the reference:UserWarning")
@pytest.mark.parametrize("strategy", ["plan", "compiled", "pairs"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_outside_the_range_in_every_kernel(strategy, dtype):
    """Also with values that are kept, staying, and numbers that are off the lattice."""
    ages = np.arange(30.0, 61.0)
    tree = Split(0, 20.5, 5.0, Split(0, 40.5, 1.0, Split(0, 77.5, 2.0, 7.0)))
    ensemble = ensemble_of([tree, Split(0, 78.0, 0.5, 3.0)], 1, rows=dtype)
    rows = np.array([[78.0], [78.5], [15.0], [20.0], [21.0], [45.0], [90.0], [-9.0], [np.inf], [np.nan]])
    table = np.append(ages, -9.0)[:, None]
    for noise in (Relative(table, keep={-9}), Stay(Relative(table, 1.0, keep={-9}), 0.25)):
        explainer = Explainer(ensemble, noise, rtol=0, _strategy=strategy)
        (law,) = noise.laws(1)
        cells = np.array([20.5, 40.5, 77.5, 78.0])
        value = np.array([ensemble.predict([[x]])[0] for x in (0.0, 30.0, 60.0, 77.75, 80.0)])
        for x, gap in zip(rows[:-2, 0], explainer.gap(rows, [0])[:-2], strict=True):
            below = np.concatenate([[0.0], law.tails(np.array([x]), cells)[0][0], [1.0]])
            wanted = np.diff(below) @ (value - ensemble.predict([[x]])[0]) ** 2
            assert gap == pytest.approx(wanted, rel=1e-12, abs=1e-13)
        assert explainer.gap(rows, [0])[-3:].tolist() == [0.0] * 3
        sampled = explainer.estimate(rows[:5], [0], "mc", n_samples=1 << 14)
        off = np.abs(sampled.value - explainer.gap(rows[:5], [0]))
        assert (off <= 6 * sampled.standard_error + 1e-9).all()
    x, ends = np.array([78.0, 15.0]), np.array([14.5, 15.0, 30.0, 60.5, 78.0, 78.5])
    below, above = Relative(table, keep={-9}).laws(1)[0].tails(x, ends)
    assert above[:, -1].tolist() == below[:, 0].tolist() == [0.0, 0.0]
    assert above[0, 4] > 0.4
    assert (Clipped(Normal(3.0), 30, 60).laws(1)[0].tails(x, ends)[0][0, 4:] == 1).all()  # as it was


def test_a_value_beyond_a_kept_code_does_not_jump_over_it():
    table = np.append(np.arange(0.0, 40.0), -9.0)[:, None]
    drawn = Relative(table, 1.4, keep={-9}).sample(np.repeat([[-12.0], [-9.0], [-3.0]], 500, axis=0))
    assert (drawn[:1000] == np.repeat([[-12.0], [-9.0]], 500, axis=0)).all()
    assert drawn[1000:].min() == -3
    assert len(np.unique(drawn[1000:])) > 10


# ---- single precision ----------------------------------------------------------------------------


@pytest.mark.parametrize("of", [np.float32, np.float64])
def test_a_fractional_code_is_found_in_single_precision_too(of):
    values = np.where(np.arange(N) % 5 == 0, -99.9, RNG.normal(size=N)).astype(of)
    X = pd.DataFrame({"c": values, "d": RNG.normal(size=N).astype(of)})
    row = Relative(X, keep={-99.9}).describe().iloc[0]
    assert row["move"] == pytest.approx(0.3 * values[values > -50].std(dtype=float), rel=1e-6)
    model = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(X, X.c)
    gaps = Explainer(model, Relative(X, keep={-99.9})).gap(X, ["c"])
    assert (gaps[values < -50] == 0).all()
    assert (gaps[values > -50] > 0).mean() > 0.5


# ---- columns without codes -----------------------------------------------------------------------


def test_codes_limit_only_columns_that_hold_them():
    X = pd.DataFrame({"with": np.append(RNG.normal(size=N), [-9.0] * 5), "without": RNG.normal(size=N + 5)})
    laws = Relative(X, keep={-9}).describe()["law"]
    assert "kept between" in laws[0]
    assert laws[1] == Relative(X).describe()["law"][1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Relative(X, keep={-9}).sample(X).shape == X.shape
