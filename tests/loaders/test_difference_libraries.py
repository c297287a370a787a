"""Differences of models of the libraries: what each model predicts by itself, and sampling through it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

import predgap
from loading import rows_around_thresholds
from predgap import Ensemble, Explainer, UnsupportedModelError
from predgap.loaders.differences import paired


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"age": rng.normal(size=600), "bmi": rng.normal(27, 4, 600).round(1)})
    X["bmi"] = X["bmi"].where(rng.random(600) < 0.9)
    X["rooms"] = rng.integers(0, 5, 600).astype(float)
    X["job"] = rng.choice(list("abcde"), 600)
    return X


def target(X: pd.DataFrame) -> Any:
    return X["age"] * X["rooms"] + X["bmi"].fillna(20) / 5 + X["job"].astype(str).map("cadbe".index)


def xgboost_model(X: pd.DataFrame, n: int, start: Any = None) -> Any:
    import xgboost

    X = X.assign(job=X["job"].astype("category"))
    model = xgboost.XGBRegressor(n_estimators=n, max_depth=4, enable_categorical=True, n_jobs=1)
    return model.fit(X, target(X), xgb_model=None if start is None else start.get_booster())


def lightgbm_model(X: pd.DataFrame, n: int, start: Any = None) -> Any:
    import lightgbm

    X = X.assign(job=X["job"].astype("category"))
    model = lightgbm.LGBMRegressor(
        n_estimators=n, num_leaves=15, min_data_per_group=5, cat_smooth=1, verbose=-1, n_jobs=1
    )
    return model.fit(X, target(X), init_model=start)


def catboost_model(X: pd.DataFrame, n: int, start: Any = None) -> Any:
    import catboost

    model = catboost.CatBoostRegressor(
        n_estimators=n,
        depth=4,
        cat_features=["job"],
        one_hot_max_size=10,
        verbose=0,
        thread_count=1,
        allow_writing_files=False,
    )
    return model.fit(X, target(X), init_model=start)


def hist_model(X: pd.DataFrame, n: int, start: Any = None) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    if start is not None:
        return start.set_params(max_iter=n + start.max_iter, warm_start=True).fit(X, target(X))
    return HistGradientBoostingRegressor(max_iter=n, categorical_features=["job"]).fit(X, target(X))


MAKERS = {"xgboost": xgboost_model, "lightgbm": lightgbm_model, "catboost": catboost_model, "hgb": hist_model}


def ways(e: Ensemble, X: pd.DataFrame) -> pd.DataFrame:
    """Rows of X with values at, and one ulp around, the thresholds of the model."""
    rng = np.random.default_rng(0)
    rows = X.sample(400, replace=True, random_state=0).reset_index(drop=True)
    for name in ("age", "bmi", "rooms"):
        cuts = e.threshold[e.feature == (e.feature_names or ()).index(name)]
        near = np.concatenate([cuts, *(np.nextafter(cuts, end) for end in (-np.inf, np.inf))])
        near = np.append(near, [np.nan, 0.0])
        rows[name] = np.where(rng.random(400) < 0.6, rng.choice(near, 400), rows[name])
    rows["job"] = rows["job"].where(rng.random(400) < 0.8, "unknown")
    return rows


@pytest.mark.parametrize(("f", "g"), [*itertools.permutations(MAKERS, 2)])
def test_pairs_of_libraries(table: pd.DataFrame, f: str, g: str) -> None:
    """Other rows, other categories, another order of columns, and another column more."""
    first = MAKERS[f](table[:400], 12)
    rest = table[200:][table["job"][200:] != "a"]
    second = MAKERS[g](rest[["job", "rooms", "age", "bmi"]].assign(more=np.arange(len(rest)) % 7.0), 9)
    a, b = predgap.load(first), predgap.load(second)
    found = predgap.difference(first, second)
    assert found.feature_names == ("age", "bmi", "rooms", "job", "more")
    rows = pd.concat([ways(a, table), ways(b, table), ways(found, table)], ignore_index=True)
    rows = rows.assign(more=np.arange(len(rows)) % 9)
    own = [e.predict(rows[list(e.feature_names or ())]) for e in (a, b)]
    size = np.abs(a.value).sum() + np.abs(b.value).sum()
    np.testing.assert_allclose(found.predict(rows), own[0] - own[1], rtol=0, atol=1e-14 * size)


@pytest.mark.parametrize("library", MAKERS)
def test_more_trees_of_a_library_are_what_is_left(table: pd.DataFrame, library: str) -> None:
    start = MAKERS[library](table, 10)
    before = predgap.load(start)
    more = MAKERS[library](table, 7, start)
    pair = paired(more, before)
    assert pair.n_common == 10
    assert pair.difference.n_trees == 7
    # CatBoost and XGBoost keep the intercept; LightGBM has it in its first tree
    assert pair.difference.bias.tolist() == [0.0]


@pytest.mark.parametrize(("f", "g"), [("xgboost", "lightgbm"), ("hgb", "xgboost")])
def test_sampling_through_the_libraries_agrees(table: pd.DataFrame, f: str, g: str) -> None:
    """Expected squared differences are within five standard errors of those of the models' predictions."""
    first, second = MAKERS[f](table[:300], 15), MAKERS[g](table[300:], 10)
    noise = predgap.Relative(table, 0.5)
    moments = Explainer(predgap.difference(first, second), noise).moments(table[:5])
    squares = moments.mean**2 + moments.variance
    as_trained = pd.CategoricalDtype(sorted(table["job"].unique()))
    for r in range(5):
        copies = noise.sample(table.iloc[[r] * 4000], seed=r)
        copies = pd.DataFrame(copies, columns=table.columns).astype({"job": as_trained})
        copies = copies.astype(dict.fromkeys(("age", "bmi", "rooms"), float))
        own = [model.predict(copies).astype(float) for model in (first, second)]
        sampled = (own[0] - own[1]) ** 2
        assert abs(sampled.mean() - squares[r]) <= 5 * sampled.std() / np.sqrt(len(sampled)) + 1e-5


def test_single_and_double_precision_meet_at_every_threshold() -> None:
    """XGBoost rounds rows to single precision, LightGBM does not."""
    import lightgbm
    import xgboost

    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(300, 3)), rng.normal(size=300)
    f = xgboost.XGBRegressor(n_estimators=5, max_depth=4, n_jobs=1).fit(X, y)
    g = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(X, y)
    found, a, b = predgap.difference(f, g), predgap.load(f), predgap.load(g)
    rows = np.concatenate([rows_around_thresholds(e).astype(float) for e in (found, a, b)])
    rows = rows[~np.isinf(rows).any(axis=1)]  # which XGBoost refuses
    np.testing.assert_allclose(found.predict(rows), a.predict(rows) - b.predict(rows), rtol=0, atol=1e-12)


def test_catboost_with_and_without_the_labels_of_its_categories(table: pd.DataFrame) -> None:
    first, second = catboost_model(table[:300], 10), catboost_model(table[300:], 10)
    full = [predgap.load(model, levels=table) for model in (first, second)]
    rows = table.assign(job=np.where(np.arange(600) % 5, table["job"], "z"))
    a, b = predgap.load(first).predict(rows), predgap.load(second).predict(rows)
    for f in (first, full[0]):
        for g in (second, full[1]):
            found = predgap.difference(f, g).predict(rows[table["job"] == rows["job"]])
            np.testing.assert_allclose(found, (a - b)[table["job"] == rows["job"]], rtol=0, atol=1e-12)
    np.testing.assert_allclose(predgap.difference(first, second).predict(rows), a - b, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("f", "g"), [*itertools.permutations(("lightgbm", "catboost", "counted"), 2)])
def test_categories_may_be_whole_numbers(table: pd.DataFrame, f: str, g: str) -> None:
    """CatBoost hashes them; "counted" splits on their CTRs. 3 is known to the first model only."""
    import catboost
    import lightgbm

    def trained(library: str, X: pd.DataFrame) -> Any:
        if library == "lightgbm":
            model = lightgbm.LGBMRegressor(n_estimators=8, min_data_per_group=1, verbose=-1, n_jobs=1)
            return model.fit(X.astype({"job": "category"}), X["age"] * X["job"])
        size = 10 if library == "catboost" else 2
        model = catboost.CatBoostRegressor(
            n_estimators=8,
            cat_features=["job"],
            one_hot_max_size=size,
            verbose=0,
            thread_count=1,
            allow_writing_files=False,
        )
        return model.fit(X, X["age"] * X["job"])

    X = table[["age"]].assign(job=np.array([1, 3, 4, 7, 10])[table["job"].map("abcde".index)])
    first, second = trained(f, X), trained(g, X[X["job"] != 3])
    rows = X.assign(job=np.resize([1, 2, 3, 4, 7, 10, 99], len(X)))
    own = [predgap.load(model).predict(rows) for model in (first, second)]
    found = predgap.difference(first, second).predict(rows)
    np.testing.assert_allclose(found, own[0] - own[1], rtol=0, atol=1e-12)


# ---- links and pipelines ----


def test_probabilities_minus_log_odds_are_refused(table: pd.DataFrame) -> None:
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

    X, y = table[["age", "rooms"]], (target(table) > 8).map({True: "yes", False: "no"})
    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)
    booster = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, y)
    for f, g in ((forest, booster), (booster, forest)):
        with pytest.raises(UnsupportedModelError, match=r"probabilities.*would mean nothing"):
            predgap.difference(f, g)
    more = GradientBoostingClassifier(n_estimators=9, random_state=0).fit(X, y)
    assert predgap.difference(more, booster).n_trees == 4
    assert predgap.difference(forest, RandomForestClassifier(7, random_state=1).fit(X, y)).n_outputs == 1


def test_logarithms_minus_predictions_are_refused(table: pd.DataFrame) -> None:
    from lightgbm import LGBMRegressor

    X, y = table[["age", "rooms"]], target(table).abs()
    poisson, plain = (
        LGBMRegressor(n_estimators=3, objective=objective, verbose=-1).fit(X, y)
        for objective in ("poisson", "regression")
    )
    for f, g in ((poisson, plain), (plain, poisson)):
        with pytest.raises(UnsupportedModelError, match=r"logarithms.*would mean nothing.*same objective"):
            predgap.difference(f, g)
    assert predgap.difference(poisson, poisson).n_trees == 0


def test_a_pipeline_is_compared_in_its_raw_columns(table: pd.DataFrame) -> None:
    from sklearn.decomposition import PCA
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = table[["age", "rooms"]]
    pipeline = make_pipeline(StandardScaler(), RandomForestRegressor(4, random_state=0)).fit(X, target(table))
    alone = RandomForestRegressor(4, random_state=1).fit(X, target(table))
    found = predgap.difference(pipeline, alone)
    expected = pipeline.predict(X) - alone.predict(X)
    np.testing.assert_allclose(found.predict(X), expected, rtol=0, atol=1e-12)
    reduced = make_pipeline(PCA(2), RandomForestRegressor(4)).fit(X, target(table))
    with pytest.raises(UnsupportedModelError, match="columns of X"):
        predgap.difference(alone, reduced)


@pytest.mark.parametrize("library", MAKERS)
def test_a_model_minus_itself_is_exactly_nothing(table: pd.DataFrame, library: str) -> None:
    model = MAKERS[library](table, 8)
    nothing = predgap.difference(model, model)
    assert (nothing.n_trees, nothing.n_nodes) == (0, 0)
    explainer, rows = Explainer(nothing, table), table[:20]
    moments = explainer.moments(rows)
    for zeros in (
        nothing.predict(rows),
        explainer.gap(rows, ["age", "job"]),
        explainer.rank(rows).scores,
        explainer.curve(rows, ["age", "bmi", "rooms", "job"]),
        moments.mean,
        moments.variance,
    ):
        np.testing.assert_array_equal(zeros, np.zeros(np.shape(zeros)))


def test_files_are_loaded(table: pd.DataFrame, tmp_path: Any) -> None:
    model = lightgbm_model(table, 3)
    model.booster_.save_model(tmp_path / "model.txt")
    predgap.load(model).save(tmp_path / "model.predgap")
    assert predgap.difference(tmp_path / "model.txt", str(tmp_path / "model.predgap")).n_trees == 0
