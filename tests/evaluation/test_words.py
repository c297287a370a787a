"""The rankings by a word: SHAP values, gains and permutations of real models of every library."""

from __future__ import annotations

import pickle
import sys
import warnings

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import predgap
from predgap import Explainer, Relative, evaluate
from predgap.errors import DependencyError, RankingError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # shap's own
    import shap

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.normal(size=(150, 4)), columns=["a", "b", "c", "d"])
Y = 3 * TABLE.a + TABLE.b * TABLE.c + 0.2 * TABLE.d
ROWS = TABLE[:12]
JOBS = pd.DataFrame(
    {
        "x": RNG.normal(size=150),
        "job": RNG.choice(["clerk", "cook", "nurse"], 150),
        "z": RNG.normal(size=150),
    }
)
JOBS_Y = JOBS.x + 2.0 * (JOBS.job == "nurse") + JOBS.z * (JOBS.job == "cook")
IRIS, SPECIES = load_iris(return_X_y=True, as_frame=True)
KINDS = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
OUT = {"verbose": 0, "allow_writing_files": False}


def by_size(values):
    return np.argsort(-np.abs(values), axis=-1, kind="stable").tolist()


def made(explainer, rows, word, **options):
    return evaluate(explainer, rows, [word], **options).rankings[word].order.tolist()


def xgb(**options):
    return xgboost.XGBRegressor(n_estimators=15, max_depth=3, **options)


def lgb(kind=lightgbm.LGBMRegressor, **options):
    return kind(n_estimators=15, num_leaves=6, verbose=-1, min_child_samples=5, **options)


# ---- SHAP values and gains of one output ----


def test_xgboost():
    model = xgb().fit(TABLE, Y)
    explainer = Explainer(model, Relative(TABLE))
    booster = model.get_booster()
    expected = booster.predict(xgboost.DMatrix(ROWS), pred_contribs=True)[:, :-1]
    assert made(explainer, ROWS, "shap") == by_size(expected)
    assert made(explainer, ROWS[["d", "c", "b", "a"]], "shap") == by_size(expected)  # by name
    gain = booster.get_score(importance_type="gain")
    assert made(explainer, ROWS, "gain") == [by_size([gain[name] for name in TABLE])] * 12


def test_xgboost_stopped_early():
    model = xgb(early_stopping_rounds=1, learning_rate=1.0)
    model.fit(TABLE[:100], Y[:100], eval_set=[(TABLE[100:], Y[100:])], verbose=False)
    booster, best = model.get_booster(), model.best_iteration + 1
    assert best < booster.num_boosted_rounds()
    explainer = Explainer(model, Relative(TABLE))
    expected = booster.predict(xgboost.DMatrix(ROWS), pred_contribs=True, iteration_range=(0, best))[:, :-1]
    assert made(explainer, ROWS, "shap") == by_size(expected)
    gain = booster[:best].get_score(importance_type="gain")
    assert made(explainer, ROWS, "gain")[0] == by_size([gain.get(name, 0.0) for name in TABLE])


def test_xgboost_with_a_value_for_missing():
    table = TABLE.mask(TABLE > 1.5, -999.0)
    model = xgb(missing=-999.0).fit(table, Y)
    rows = xgboost.DMatrix(table[:12], missing=-999.0)
    expected = model.get_booster().predict(rows, pred_contribs=True)[:, :-1]
    assert made(Explainer(model, Relative(TABLE)), table[:12], "shap") == by_size(expected)


@pytest.mark.parametrize("options", [{}, {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}])
def test_lightgbm(options):
    model = lgb(**options).fit(TABLE, Y)
    explainer = Explainer(model, Relative(TABLE))
    assert made(explainer, ROWS, "shap") == by_size(model.predict(ROWS, pred_contrib=True)[:, :-1])
    gain = model.booster_.feature_importance("gain")
    assert made(explainer, ROWS, "gain") == [by_size(gain)] * 12


def test_catboost():
    model = catboost.CatBoostRegressor(iterations=15, depth=3, **OUT).fit(TABLE, Y)
    explainer = Explainer(model, Relative(TABLE))
    expected = model.get_feature_importance(catboost.Pool(ROWS), type="ShapValues")[:, :-1]
    assert made(explainer, ROWS, "shap") == by_size(expected)
    assert made(explainer, ROWS, "gain")[0] == by_size(model.get_feature_importance())


def test_scikit_learn():
    model = RandomForestRegressor(8, max_depth=4, random_state=0).fit(TABLE, Y)
    for given in (model, GridSearchCV(model, {"max_depth": [4]}, cv=2).fit(TABLE, Y)):
        explainer = Explainer(given, Relative(TABLE))
        forest = getattr(given, "best_estimator_", given)
        expected = shap.TreeExplainer(forest).shap_values(ROWS)
        assert made(explainer, ROWS, "shap") == by_size(expected)
        assert made(explainer, ROWS, "gain")[0] == by_size(forest.feature_importances_)


@pytest.mark.parametrize("name", ["m.json", "m.ubj", "m.txt", "m.cbm", "c.json"])
def test_model_files_are_opened_with_their_library(name, tmp_path):
    path = tmp_path / name
    if name.startswith("m.") and name != "m.cbm":
        model = lgb().fit(TABLE, Y) if name == "m.txt" else xgb().fit(TABLE, Y)
        (model.booster_ if name == "m.txt" else model).save_model(path)
    else:
        model = catboost.CatBoostRegressor(iterations=15, depth=3, **OUT).fit(TABLE, Y)
        model.save_model(path, format=name.partition(".")[2])
    from_file, from_object = (Explainer(it, Relative(TABLE)) for it in (path, model))
    for word in ("shap", "gain"):
        assert made(from_file, ROWS, word) == made(from_object, ROWS, word)


def test_categories():
    labels = JOBS.assign(job=JOBS.job.astype("category"))
    for model in (lgb().fit(labels, JOBS_Y), xgb(enable_categorical=True).fit(labels, JOBS_Y)):
        if isinstance(model, xgboost.XGBModel):
            rows = xgboost.DMatrix(labels[:12], enable_categorical=True)
            expected = model.get_booster().predict(rows, pred_contribs=True)[:, :-1]
        else:
            expected = model.predict(labels[:12], pred_contrib=True)[:, :-1]
        assert made(Explainer(model, Relative(labels)), labels[:12], "shap") == by_size(expected)
    model = catboost.CatBoostRegressor(
        iterations=15, depth=3, cat_features=["job"], one_hot_max_size=9, **OUT
    )
    model.fit(JOBS, JOBS_Y)
    pool = catboost.Pool(JOBS[:12], cat_features=["job"])
    expected = model.get_feature_importance(pool, type="ShapValues")[:, :-1]
    explainer = Explainer(model, Relative(JOBS))
    assert made(explainer, JOBS[:12], "shap") == by_size(expected)
    assert made(explainer, JOBS[:12][["z", "job", "x"]], "shap") == by_size(expected)


# ---- several outputs ----


def classifiers():
    trees = catboost.CatBoostClassifier(iterations=4, depth=2, **OUT).fit(IRIS, KINDS)
    yield trees, trees.get_feature_importance(catboost.Pool(IRIS[::9]), type="ShapValues")[:, :, :-1]
    trees = xgboost.XGBClassifier(n_estimators=4, max_depth=2).fit(IRIS, SPECIES)
    yield trees, trees.get_booster().predict(xgboost.DMatrix(IRIS[::9]), pred_contribs=True)[:, :, :-1]
    trees = lgb(lightgbm.LGBMClassifier).fit(IRIS, KINDS)
    yield trees, trees.predict(IRIS[::9], pred_contrib=True).reshape(17, 3, 5)[:, :, :-1]
    trees = RandomForestClassifier(5, max_depth=3, random_state=0).fit(IRIS, KINDS)
    yield trees, np.moveaxis(shap.TreeExplainer(trees).shap_values(IRIS[::9]), 2, 1)


@pytest.mark.parametrize("number", range(4))
def test_contributions_are_those_of_the_explained_output(number):
    model, values = list(classifiers())[number]  # values: (n, k, d)
    rows = IRIS[::9]
    assert made(Explainer(model, Relative(IRIS), output=1), rows, "shap") == by_size(values[:, 1])
    together = np.abs(values).sum(axis=1)
    assert made(Explainer(model, Relative(IRIS)), rows, "shap") == by_size(together)
    predicted = predgap.load(model).predict(rows).argmax(axis=1)
    explainer = Explainer(model, Relative(IRIS), output="predicted")
    assert made(explainer, rows, "shap") == by_size(values[np.arange(17), predicted])


def test_two_classes():
    two = KINDS == "virginica"
    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(IRIS, two)
    boosted = GradientBoostingClassifier(n_estimators=5).fit(IRIS, two)
    for model in (forest, boosted):
        values = shap.TreeExplainer(model).shap_values(IRIS[::9])
        values = values[..., 1] if values.ndim == 3 else values
        assert made(Explainer(model, Relative(IRIS)), IRIS[::9], "shap") == by_size(values)


# ---- pipelines, dummies, groups ----


def prepared():
    return make_column_transformer((OneHotEncoder(), ["job"]), (StandardScaler(), ["x", "z"]))


@pytest.mark.parametrize("model", [lgb(), RandomForestRegressor(6, max_depth=4, random_state=0)])
def test_contributions_of_a_pipeline_are_added_up_for_each_raw_column(model):
    pipeline = make_pipeline(prepared(), model).fit(JOBS, JOBS_Y)
    explainer = Explainer(pipeline, Relative(JOBS))
    assert explainer.ensemble.feature_names == ("x", "job", "z")
    after = pipeline[:-1].transform(JOBS[:12])  # clerk, cook, nurse, x, z
    if isinstance(model, lightgbm.LGBMModel):
        values = pipeline[-1].predict(after, pred_contrib=True)[:, :-1]
    else:
        values = shap.TreeExplainer(pipeline[-1]).shap_values(after)
    raw = np.stack([values[:, 3], values[:, :3].sum(axis=1), values[:, 4]], axis=1)
    assert made(explainer, JOBS[:12], "shap") == by_size(raw)
    gain = (
        pipeline[-1].booster_.feature_importance("gain")
        if isinstance(model, lightgbm.LGBMModel)
        else pipeline[-1].feature_importances_
    )
    assert made(explainer, JOBS[:12], "gain")[0] == by_size([gain[3], gain[:3].sum(), gain[4]])


def test_columns_that_a_pipeline_does_not_use_are_shown_all_the_same():
    table = JOBS.assign(note="none", z=1.5)
    pipeline = make_pipeline(prepared(), lgb()).fit(table, JOBS_Y)
    explainer = Explainer(pipeline, predgap.Marginal(table))
    found = evaluate(explainer, table[:6], ["shap"])
    assert found.feature_names == ("x", "job", "z", "note")
    assert found.table[:, 1].tolist() == JOBS.job[:6].tolist()
    assert found.table[:, 2:].tolist() == [[1.5, "none"]] * 6
    drawn = evaluate(explainer, table[:6], ["shap"], budget=1e-9)
    assert drawn.table.tolist() == found.table[drawn.rows].tolist()


def test_a_pipeline_that_mixes_columns_is_ranked_after_its_steps():
    pipeline = make_pipeline(PCA(3, random_state=0), lgb()).fit(TABLE.to_numpy(), Y)
    with pytest.warns(UserWarning, match="after PCA"):
        explainer = Explainer(pipeline, TABLE.to_numpy())
    after = pipeline[:-1].transform(ROWS.to_numpy())
    expected = pipeline[-1].predict(after, pred_contrib=True)[:, :-1]
    assert made(explainer, ROWS.to_numpy(), "shap") == by_size(expected)


def test_contributions_of_dummies_and_groups_are_added_up():
    dummies = pd.get_dummies(JOBS, columns=["job"], dtype=float)
    names = [name for name in dummies if name.startswith("job_")]
    model = xgb().fit(dummies, JOBS_Y)
    booster, rows = model.get_booster(), dummies[:12]
    values = booster.predict(xgboost.DMatrix(rows), pred_contribs=True)[:, :-1]
    assert list(dummies) == ["x", "z", *names]
    raw = np.stack([values[:, 0], values[:, 1], values[:, 2:].sum(axis=1)], axis=1)
    total, weight = (booster.get_score(importance_type=kind) for kind in ("total_gain", "weight"))
    job = sum(total.get(name, 0) for name in names) / sum(weight.get(name, 0) for name in names)
    gain = [total["x"] / weight["x"], total["z"] / weight["z"], job]
    for options in ({"one_hot": {"job": names}}, {"groups": {"job": names}}):
        explainer = Explainer(model, Relative(dummies), **options)
        assert made(explainer, rows, "shap") == by_size(raw)
        assert made(explainer, rows, "gain")[0] == by_size(gain)


# ---- permutation ----


def test_permutation_importances_are_those_of_scikit_learn():
    model = RandomForestRegressor(20, random_state=0).fit(TABLE, Y)
    expected = permutation_importance(model, TABLE, Y, n_repeats=20, random_state=1).importances_mean
    explainer = Explainer(model, Relative(TABLE), rtol=0.1)
    found = evaluate(explainer, TABLE[:150], ["permutation"], y=Y, budget=0.5).rankings["permutation"]
    assert found.order[0].tolist() == by_size(expected)
    assert found.scores[0] == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (RandomForestClassifier(9, max_depth=3, random_state=0).fit(IRIS, KINDS), KINDS),
        (xgboost.XGBClassifier(n_estimators=4, max_depth=2).fit(IRIS, SPECIES), SPECIES),
        (
            xgboost.XGBClassifier(n_estimators=4, max_depth=2).fit(IRIS, KINDS == "virginica"),
            KINDS == "virginica",
        ),
        (RandomForestClassifier(9, max_depth=3, random_state=0).fit(IRIS, SPECIES > 1), SPECIES > 1),
        (lgb(lightgbm.LGBMClassifier).fit(IRIS, KINDS), KINDS),
        (lgb(lightgbm.LGBMClassifier).fit(IRIS, KINDS).booster_, SPECIES),
    ],
)
def test_permutation_of_classes_finds_what_tells_them_apart(model, y):
    order = made(Explainer(model, Relative(IRIS)), IRIS[::3], "permutation", y=np.asarray(y)[::3])
    assert {*order[0][:2]} == {2, 3}  # the petals


def test_outcomes_are_matched_by_their_index():
    explainer = Explainer(lgb().fit(TABLE, Y), Relative(TABLE))
    rows = TABLE[::-3]
    one, other = (made(explainer, rows, "permutation", y=y) for y in (Y[::-3], Y[::-3].sort_index()))
    assert one == other == made(explainer, rows, "permutation", y=Y[::-3].to_numpy())
    with pytest.raises(RankingError, match="so their rows cannot be matched"):
        made(explainer, rows, "permutation", y=Y[: len(rows)])


def test_permutation_shuffles_groups_together():
    table = TABLE.assign(e=TABLE.a)
    model = RandomForestRegressor(10, max_depth=5, max_features=1, random_state=0).fit(table, Y)
    explainer = Explainer(model, Relative(table), groups={"twins": ["a", "e"]}, rtol=0.1)
    found = evaluate(explainer, table[:60], ["permutation"], y=Y[:60], budget=0.5).rankings["permutation"]
    assert found.names[found.order[0, 0]] == "twins"


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (Y[:3], r"shape \(3,\), expected one entry for each of the 12 rows"),
        (np.full(12, np.nan), "NaN or infinite"),
        (-100 * Y[:12], "do not predict y"),
        (np.ones((12, 2)), "2 columns, the model 1 outputs"),
        (["low", "mid", "high"] * 4, "3 classes, the model 1 outputs"),
    ],
)
def test_outcomes_that_do_not_fit(y, message):
    with pytest.raises(RankingError, match=message):
        evaluate(Explainer(lgb().fit(TABLE, Y), Relative(TABLE)), ROWS, ["permutation"], y=y)


def test_classes_that_do_not_fit():
    explainer = Explainer(lgb(lightgbm.LGBMClassifier).fit(IRIS, KINDS), Relative(IRIS))
    with pytest.raises(RankingError, match="'rosa', which is no class of the model"):
        evaluate(explainer, IRIS[:3], ["permutation"], y=["rosa", "setosa", "setosa"])
    with pytest.raises(RankingError, match="'setosa' in all rows, so that no feature tells classes apart"):
        evaluate(explainer, IRIS[:3], ["permutation"], y=["setosa"] * 3)


# ---- random ----


def test_random_orders_are_orders_and_differ():
    explainer = Explainer(lgb().fit(TABLE, Y), Relative(TABLE))
    order = np.array(made(explainer, TABLE[:50], "random", seed=4))
    assert np.sort(order, axis=1).tolist() == [[0, 1, 2, 3]] * 50
    assert len({tuple(row) for row in order.tolist()}) > 10
    assert made(explainer, TABLE[:20], "random", seed=4) != made(explainer, TABLE[:20], "random", seed=5)


# ---- models that do not tell ----


def test_an_explainer_of_a_treelite_model_can_be_pickled():
    treelite = pytest.importorskip("treelite")
    model = treelite.frontend.from_lightgbm(lgb().fit(TABLE, Y).booster_)
    explainer = Explainer(model, Relative(TABLE))
    copy = pickle.loads(pickle.dumps(explainer))
    assert copy.rank(ROWS).order.tolist() == explainer.rank(ROWS).order.tolist()
    with pytest.raises(RankingError, match="a treelite Model gives no contributions, and shap"):
        evaluate(explainer, ROWS, ["shap"])


@pytest.mark.parametrize("word", ["shap", "gain"])
def test_an_ensemble_does_not_tell(word, tmp_path):
    ensemble = predgap.load(lgb().fit(TABLE, Y))
    ensemble.save(tmp_path / "it.predgap")
    for model in (ensemble, tmp_path / "it.predgap"):
        with pytest.raises(RankingError, match=rf"'{word}' cannot be made.*or pass .*\{{'{word}': "):
            evaluate(Explainer(model, Relative(TABLE)), ROWS, [word])


def test_contributions_of_something_else_are_refused(monkeypatch):
    model = lgb().fit(TABLE, Y)
    explainer = Explainer(model, Relative(TABLE))
    explainer.model = lgb(random_state=1).fit(TABLE, -5 * Y)
    with pytest.raises(RankingError, match="miss the predictions by up to"):
        evaluate(explainer, ROWS, ["shap"])


def test_a_library_that_is_not_installed(monkeypatch, tmp_path):
    forest = RandomForestRegressor(3, max_depth=2, random_state=0).fit(TABLE, Y)
    lgb().fit(TABLE, Y).booster_.save_model(tmp_path / "m.txt")
    from_file, from_object = (Explainer(it, Relative(TABLE)) for it in (tmp_path / "m.txt", forest))
    monkeypatch.setitem(sys.modules, "shap", None)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(DependencyError, match="pip install shap"):
        evaluate(from_object, ROWS, ["shap"])
    with pytest.raises(DependencyError, match="needs LightGBM, not installed; try: pip install lightgbm"):
        evaluate(from_file, ROWS, ["gain"])
