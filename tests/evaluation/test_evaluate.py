"""`evaluate`: every number against its definition; budgets, outputs, groups, progress, seeds."""

from __future__ import annotations

from functools import partial
from itertools import permutations

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, load_iris

import predgap
from predgap import Background, CostError, Explainer, Ranking, Relative, Uniform, evaluate
from predgap._engine.subsets import ShapleyRankings
from predgap.evaluation.answers import expected_cost, random_orders
from strategies import Split, ensemble_of, mixed_problems, problems


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    return X.iloc[:, :6], y


@pytest.fixture(scope="module")
def explainer(diabetes):
    X, y = diabetes
    model = lightgbm.LGBMRegressor(n_estimators=12, num_leaves=6, verbose=-1).fit(X, y)
    return Explainer(model, Relative(X, 0.3))


def slow_scale(explainer, X, k):
    """The mean and the highest PGI² of all rankings of k places, row by row."""
    d = explainer.explained.n_units
    scores = np.array([explainer.pgi2(X, list(order)) for order in permutations(range(d), k)])
    return scores.mean(axis=0), scores.max(axis=0)


# ---- numbers ----


def check(explainer, X, rankings, k=None, **options):
    found = evaluate(explainer, X, rankings, top=k, **options)
    d = explainer.explained.n_units
    random, best = slow_scale(explainer, X, k or d)
    scale = 1e-12 * best
    assert (np.abs(found.random - random) <= scale).all()
    assert (np.abs(found.best - best) <= scale).all()
    assert (np.abs(explainer.pgi2(X, found.best_ranking) - best) <= scale).all()
    for i, name in enumerate(found.names):
        ranking = found.rankings[name]
        assert (np.abs(found.curves[i] - explainer.curve(X, ranking)) <= scale[:, None]).all()
        assert (np.abs(found.scores["pgi2"][i] - explainer.pgi2(X, ranking)) <= scale).all()
        if k is None:
            assert (np.abs(found.scores["pgu2"][i] - explainer.pgu2(X, ranking)) <= scale).all()
        assert (found.scores["pgi2"][i] <= found.best).all()
    expected = (found.scores["pgi2"] - random) / np.where(best - random > 1e-9 * best, best - random, np.nan)
    clear = best - random > 1e-3 * best
    assert found.normalized[:, clear] == pytest.approx(expected[:, clear], rel=1e-7, abs=1e-7)
    assert np.isnan(found.normalized[:, best == 0]).all()
    assert found.single.tolist() == explainer.rank(X, "single").scores.tolist()
    return found


@given(problem=problems(max_rows=3), data=st.data())
def test_the_numbers_are_their_definitions(problem, data):
    explainer = Explainer(problem.ensemble, problem.noise)
    d = problem.ensemble.n_features
    if d > 4:
        return
    order = data.draw(st.permutations(range(d)))
    check(explainer, problem.X, {"it": order, "greedy": "greedy", "random": "random"})


@pytest.mark.filterwarnings("ignore:continuous noise moves")
@given(problem=mixed_problems(), data=st.data())
def test_the_numbers_are_their_definitions_with_categories_and_few_places(problem, data):
    d = problem.ensemble.n_features
    k = data.draw(st.integers(1, d))
    check(Explainer(problem.ensemble, problem.noise), problem.X, ["single", "optimal"], k)


def test_the_numbers_with_groups_and_joint_noise(diabetes):
    X, y = diabetes
    model = lightgbm.LGBMRegressor(n_estimators=5, num_leaves=5, verbose=-1).fit(X, y)
    groups = {"body": ["bmi", "bp"], "who": ["age", "sex"]}
    for noise in (Relative(X), Background(X[:40])):
        explainer = Explainer(model, noise, groups=groups)
        found = check(explainer, X[:5], ["shap", "gain", "greedy", "random"])
        assert found.feature_names == ("who", "body", "s1", "s2")
        assert found.table.shape == found.single.shape == found.values.shape == (5, 4)
        assert found.table[0, 1] == f"bmi={X.bmi.iloc[0]:g}, bp={X.bp.iloc[0]:g}"
        assert np.isnan(found.values[:, 1]).all()
        assert found.values[:, 2].tolist() == X.s1[:5].tolist()


def test_the_random_curve_is_of_two_orders_of_each_row(explainer, diabetes):
    X = diabetes[0][:6]
    found = evaluate(explainer, X, ["greedy"], seed=3)
    d = X.shape[1]
    orders = np.array([np.random.default_rng((3, row)).permutation(d) for row in range(6)])
    expected = (explainer.curve(X, orders) + explainer.curve(X, orders[:, ::-1])) / 2
    np.testing.assert_allclose(found.random_curve, expected, rtol=1e-12)
    assert found.obtained["random_curve"].startswith("estimated")


def test_the_table_is_made_of_the_scores(explainer, diabetes):
    X = diabetes[0][:40]
    found = evaluate(explainer, X, ["shap", "gain", "greedy", "single"])
    score = found.scores["pgi2"]
    for i, row in enumerate(found.summary):
        assert row["ranking"] == found.names[i]
        assert row["mean"] == score[i].mean()
        assert row["low"] < row["mean"] < row["high"]
        share = (score[i].mean() - found.random.mean()) / (found.best.mean() - found.random.mean())
        assert row["normalized"] == pytest.approx(share, rel=1e-12)
        assert row["normalized_low"] <= share <= row["normalized_high"]
        assert row["pgu2"] == found.scores["pgu2"][i].mean()
        others = np.delete(score, i, axis=0).max(axis=0)
        assert row["share_won"] == np.mean(score[i] >= others * (1 - 1e-12))
        first = found.rankings[found.names[i]].order[:, 0]
        assert row["first_moves_most"] == np.mean(found.single.argmax(axis=1) == first)
    assert found.agreement[0, 2] == Ranking.agreement(found.rankings["shap"], found.rankings["greedy"], 1)
    assert found.agreement.tolist() == found.agreement.T.tolist()
    places = [found.rankings[name].ranks for name in ("shap", "greedy")]
    spearman = np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(*places, strict=True)])
    assert found.correlation[0, 2] == pytest.approx(spearman, rel=1e-10)
    one, other = found.difference("shap", "greedy"), found.difference("greedy", "shap")
    assert (one.mean, one.p) == (-other.mean, other.p)
    with pytest.raises(KeyError):
        found.difference("shap", "shap")


def test_what_was_examined_is_described(explainer, diabetes):
    X = diabetes[0][10:15]
    found = evaluate(explainer, X, ["greedy"], seed=3)
    about = found.description
    assert (about["trees"], about["features"], about["rows"], about["of_rows"]) == (12, 6, 5, 5)
    assert (about["seed"], about["budget"], about["version"]) == (3, None, predgap.__version__)
    assert about["noise"] == repr(explainer.noise)
    assert about["noise_table"]["column"] == list(X.columns)
    assert about["model"].startswith("LightGBM")
    assert found.predictions.tolist() == explainer.ensemble.predict(X).tolist()
    assert found.table.tolist() == X.to_numpy().tolist()
    assert list(found.index) == list(X.index)
    assert found.rows.tolist() == list(range(5))
    assert found.obtained["pgi2"] == found.obtained["random"] == "exact"
    assert found.obtained["best"] == "exact; proven"
    assert found.notes == ()


def test_categories_are_shown_by_their_labels():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=80), "job": pd.Categorical(rng.choice(["nurse", "cook"], 80))})
    y = X.x + 3 * (X.job == "cook")
    model = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, min_child_samples=5).fit(X, y)
    rows = X[:4].copy()
    rows.loc[1, "job"] = None
    found = evaluate(Explainer(model, Relative(X)), rows, ["greedy"])
    assert found.table[:, 1].tolist() == [X.job[0], "", X.job[2], X.job[3]]


# ---- places ----


def test_few_places_of_all_rankings(explainer, diabetes):
    X = diabetes[0][:8]
    found = check(explainer, X, {"mine": ["bmi", "s2"], "shap": "shap", "full": [0, 1, 2, 3, 4, 5]}, k=2)
    assert all(ranking.order.shape == (8, 2) for ranking in found.rankings.values())
    assert list(found.scores) == ["pgi2"]
    assert np.isnan(found.summary[0]["pgu2"])
    assert np.isnan(found.correlation).all()
    (note,) = found.notes
    assert note.startswith(
        "Scores are those of the first 2 places of 6; random and best have as many. Of 'full'"
    )
    without = evaluate(explainer, X, {"mine": ["bmi", "s2"], "shap": "shap"})  # the shortest decides
    assert without.scores["pgi2"].tolist() == found.scores["pgi2"][:2].tolist()


# ---- strengths ----


def test_strengths_are_those_of_a_sweep(explainer, diabetes):
    X = diabetes[0][:6]
    found = evaluate(explainer, X, ["shap", "greedy"], strengths=[0.1, 0.5])
    named = {"shap": found.rankings["shap"], "greedy": "greedy"}
    expected = explainer.sweep(X, named, [0.1, 0.5])
    assert found.sweep.scores.tolist() == expected.scores.tolist()
    assert found.sweep.names == ("shap", "greedy")
    assert "sweep" in found.obtained
    few = evaluate(explainer, X, ["greedy"], strengths=[0.1], top=2)
    assert few.sweep.scores.shape == (1, 1, 6)


# ---- outputs ----


def test_outputs_per_row_are_those_of_an_explainer_of_each(diabetes):
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = lightgbm.LGBMClassifier(n_estimators=3, num_leaves=4, verbose=-1).fit(X, y)
    rows, outputs = X[::10], np.arange(15) % 3
    together = evaluate(Explainer(model, Relative(X), output=outputs), rows, ["shap", "greedy"])
    for k in range(3):
        alone = evaluate(Explainer(model, Relative(X), output=k), rows[outputs == k], ["shap", "greedy"])
        assert together.scores["pgi2"][:, outputs == k].tolist() == alone.scores["pgi2"].tolist()
        assert together.random[outputs == k].tolist() == alone.random.tolist()
        assert together.predictions[outputs == k].tolist() == alone.predictions.tolist()
    all_of_them = evaluate(Explainer(model, Relative(X)), rows, ["greedy"])
    assert all_of_them.predictions.tolist() == predgap.load(model).predict(rows).max(axis=1).tolist()


# ---- budgets ----


def test_rows_that_are_drawn_are_the_same_numbers_as_by_themselves(explainer, diabetes, monkeypatch):
    X = diabetes[0]
    monkeypatch.setattr("predgap.evaluation.budget._TRIAL", 0.0)  # one row
    monkeypatch.setattr("predgap.evaluation.budget._Attempt.fits", lambda self, n, left: n <= 20)
    given = {"shap": "shap", "random": "random", "mine": np.random.default_rng(0).normal(size=X.shape)}
    found = evaluate(explainer, X, given, budget=30, seed=5)
    assert len(found.rows) == 20
    assert found.description["rows"] == 20
    assert found.description["of_rows"] == len(X)
    assert found.obtained["pgi2"] in ("exact", "bounded (0.001)")
    assert "20 of 442 rows were drawn" in found.notes[-1]
    assert list(found.index) == list(X.index[found.rows])
    whole = evaluate(explainer, X, given, seed=5)
    assert found.scores["pgi2"] == pytest.approx(whole.scores["pgi2"][:, found.rows], rel=1e-3)
    for name in given:
        assert found.rankings[name].order.tolist() == whole.rankings[name].order[found.rows].tolist()


def test_a_budget_that_is_large_enough_changes_nothing(explainer, diabetes):
    X = diabetes[0][:10]
    one, other = (evaluate(explainer, X, ["shap", "greedy"], budget=budget) for budget in (None, 600))
    assert other.notes == ()
    assert one.scores["pgi2"].tolist() == other.scores["pgi2"].tolist()


def test_estimates_are_near_and_say_so(explainer, diabetes, monkeypatch):
    X = diabetes[0][:10]
    exact = evaluate(explainer, X, ["shap", "greedy", "optimal"])
    cost = predgap.Cost("bounded", 1.0, 1.0, refused=True)
    monkeypatch.setattr(Explainer, "cost", lambda *_: cost)
    sampled = partial(Explainer.approximate, method="qmc")
    monkeypatch.setattr(Explainer, "approximate", lambda self, **options: sampled(self, **options))
    found = evaluate(explainer, X, ["shap", "greedy", "optimal"], budget=60, strengths=[0.3])
    assert found.obtained["pgi2"] == found.obtained["random"] == "estimated"
    assert found.obtained["best"] == "estimated; the best found"
    assert not found.best_is_proven.any()
    assert found.best_ranking.method == "best found"
    assert found.scores["pgi2"].mean(axis=1) == pytest.approx(exact.scores["pgi2"].mean(axis=1), rel=0.05)
    assert found.random.mean() == pytest.approx(exact.random.mean(), rel=0.2)
    (note,) = found.notes
    assert "gaps are estimated" in note
    assert "estimates" in found.verdict()


@pytest.mark.parametrize("top", [None, 3])
def test_estimated_shapley_values_are_means_over_random_orders(explainer, diabetes, monkeypatch, top):
    """They are not asked of the explainer, where they may take minutes."""
    X, d = diabetes[0][:10], 6
    orders = random_orders(np.arange(10), d, 4, seed=7)
    gains = [np.diff(explainer.curve(X, order), axis=1, prepend=0.0) for order in orders]
    expected = np.mean(
        [np.take_along_axis(g, o.argsort(axis=1), axis=1) for g, o in zip(gains, orders, strict=True)], axis=0
    )
    monkeypatch.setattr(Explainer, "cost", lambda *_: predgap.Cost("bounded", 1.0, 1.0, refused=True))
    monkeypatch.setattr(ShapleyRankings, "answer", None)
    found = evaluate(explainer, X, ["shapley", "gain"], top=top, budget=60, seed=7)
    ranking = found.rankings["shapley"]
    assert (ranking.method, ranking.estimator, ranking.order.shape) == ("shapley", "mc", (10, top or d))
    for values, own, order in zip(expected, ranking.scores, ranking.order, strict=True):
        assert order.tolist() == np.argsort(-values, kind="stable")[:top].tolist()
        assert own[order] == pytest.approx(values[order], rel=1e-6, abs=1e-6 * values.max())
        assert np.isnan(own).sum() == d - len(order)
    assert found.notes[-1] == (
        "The Shapley values of 'shapley' are estimated, by means over 8 random orders of each row."
    )


def test_without_a_budget_too_costly_is_an_error(explainer, diabetes, monkeypatch):
    def refuse(*_):
        raise CostError("a row would take an hour")

    monkeypatch.setattr("predgap.evaluation.answers.ask", refuse)
    with pytest.raises(CostError, match=r"an hour\. Or pass budget=60 to evaluate"):
        evaluate(explainer, diabetes[0][:3], ["shap"])


# ---- seeds, threads, progress, frames ----


def numbers(found):
    return [
        found.scores["pgi2"].tobytes(),
        found.random.tobytes(),
        found.best.tobytes(),
        found.rankings["random"].order.tobytes(),
        str(found.summary),
        str(found.differences),
    ]


def test_the_same_seed_gives_the_same_bits(explainer, diabetes):
    X, y = diabetes
    words = ["shap", "permutation", "random", "greedy"]
    one, again, other = (evaluate(explainer, X[:30], words, y=y[:30], seed=seed) for seed in (1, 1, 2))
    assert numbers(one) == numbers(again)
    assert numbers(one)[3] != numbers(other)[3]
    threads = Explainer(explainer.model, explainer.noise, n_jobs=2)
    assert numbers(evaluate(threads, X[:30], words, y=y[:30], seed=1)) == numbers(one)


def test_progress_counts_rows_and_ends_at_all(explainer, diabetes):
    told = []
    X = diabetes[0][:30]
    options = {"strengths": [0.1, 0.3], "progress": lambda done, total: told.append((done, total))}
    evaluate(explainer, X, ["shap", "shapley", "optimal", "greedy"], **options)
    assert told == sorted(told)
    assert told[-1] == (30, 30)
    assert len({done for done, _ in told}) > 5


@pytest.mark.parametrize(("make", "kind"), [(pl.DataFrame, pl.DataFrame), (pd.DataFrame, pd.DataFrame)])
def test_frames_are_those_of_the_users_library(explainer, diabetes, make, kind):
    X = make(diabetes[0][:5].to_dict("list"))
    found = evaluate(explainer, X, ["greedy", "gain"])
    frame = found.to_frame()
    assert isinstance(frame, kind)
    assert list(frame.columns) == list(found.summary[0])
    assert list(frame["ranking"]) == ["greedy", "gain"]


def test_one_row_one_ranking(explainer, diabetes):
    found = evaluate(explainer, diabetes[0][:1], ["greedy"])
    assert found.differences == ()
    assert np.isnan(found.summary[0]["low"])
    assert found.agreement.tolist() == [[1.0]]
    assert "1 row" in repr(found)


def test_gaps_of_zero():
    stump = ensemble_of([Split(0, 0.5, 0.0, 1.0)], 2)
    found = evaluate(Explainer(stump, Uniform(1e-9)), [[5.0, 1.0]] * 3, {"a": [0, 1], "b": [1, 0]})
    assert (found.best == 0).all()
    assert np.isnan(found.normalized).all()
    assert np.isnan([row["normalized"] for row in found.summary]).all()
    assert np.isnan([row["share_won"] for row in found.summary]).all()
    assert found.differences[0].p == 1.0
    assert "No prediction changed in these 3 rows" in found.verdict()


def test_the_best_may_be_searched_only(explainer, diabetes, monkeypatch):
    X = diabetes[0][:12]
    whole = evaluate(explainer, X, ["shap", "greedy", "optimal"])
    slow = {"full": 900.0, "search": 0.1}
    monkeypatch.setattr(
        "predgap.evaluation.evaluation.expected_cost",
        lambda by, rows, places, effort, n_curves: predgap.Cost("exact", 1e3 * slow[effort], 1.0),
    )
    found = evaluate(explainer, X, ["shap", "greedy", "optimal"], budget=60)
    assert not found.best_is_proven.any()
    assert found.best_ranking.method == "best found"
    assert "by a greedy search, and the score of a random one is the mean of 8" in found.notes[1]
    assert (found.best <= whole.best * (1 + 1e-3)).all()
    assert found.best.mean() == pytest.approx(whole.best.mean(), rel=0.02)
    assert "the best ranking that was found" in found.verdict()
    assert found.obtained["random"] == "estimated"
    assert found.obtained["pgi2"] != "estimated"
    assert found.random.mean() == pytest.approx(whole.random.mean(), rel=0.1)


def test_the_expected_cost_counts_the_search_for_the_best(explainer, diabetes):
    rows = explainer.explained.rows(diabetes[0])
    asked = [("full", 9), ("search", 9), ("search", 0)]
    full, search, less = (expected_cost(explainer, rows, 6, *how) for how in asked)
    assert less == explainer.cost("rank", diabetes[0])
    assert search.milliseconds == pytest.approx(10 * less.milliseconds)
    assert full.milliseconds > less.milliseconds
