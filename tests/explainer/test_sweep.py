"""Sweeps over strengths, against explainers that are built anew for each strength."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import predgap
from predgap import CostError, Explainer, Marginal, NoiseError, Normal, Ranking, RankingError, Uniform, _core
from predgap._engine.kernels import Kernel
from predgap.errors import LongCallWarning
from predgap.explainer.sweep import _spearman

RNG = np.random.default_rng(3)
X = RNG.normal(size=(120, 4)) * [1.0, 5.0, 0.1, 2.0]
X[:, 1] = X[:, 1].round(1)
Y = X[:, 0] + 0.3 * X[:, 1] * X[:, 3]
MODEL = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, Y)
ROWS = X[:15]
SHAP = Ranking.from_attributions(RNG.normal(size=(15, 4)))
RANKINGS = {"greedy": "greedy", "alone": "single", "SHAP": SHAP, "same for all": [3, 1, 0, 2]}
STRENGTHS = [0.05, 0.3, 2.0]


def by_hand(strength: float, name: str, model: Any = MODEL, rows: Any = ROWS) -> tuple[Any, np.ndarray]:
    """A ranking and its PGI², by a new explainer."""
    explainer = Explainer(model, Normal.relative(X, strength))
    ranking = {"greedy": explainer.rank(rows), "alone": explainer.rank(rows, "single")}.get(
        name, RANKINGS[name]
    )
    return ranking, explainer.pgi2(rows, ranking)


def order_of(ranking: Any) -> np.ndarray:
    return ranking.order if isinstance(ranking, Ranking) else np.tile(ranking, (len(ROWS), 1))


@pytest.fixture(scope="module")
def found() -> predgap.Sweep:
    return Explainer(MODEL, Normal.relative(X, 0.3)).sweep(ROWS, RANKINGS, STRENGTHS)


def test_scores_are_those_of_new_explainers(found: predgap.Sweep) -> None:
    assert found.strengths == (0.05, 0.3, 2.0)
    assert found.names == ("greedy", "alone", "SHAP", "same for all")
    assert found.scores.shape == (3, 4, 15)
    for (s, strength), (m, name) in itertools.product(enumerate(STRENGTHS), enumerate(RANKINGS)):
        # Scales are rounded once more than by `relative`, and tails are steep where noise is small.
        np.testing.assert_allclose(found.scores[s, m], by_hand(strength, name)[1], rtol=1e-11)
    np.testing.assert_allclose(found.mean, found.scores.mean(axis=2), rtol=1e-14)


def test_agreement_is_that_of_the_rows_one_by_one(found: predgap.Sweep) -> None:
    assert found.same_first.shape == found.correlation.shape == (3, 4, 4)
    own = [order_of(by_hand(0.3, name)[0]) for name in RANKINGS]
    for s, strength in enumerate(STRENGTHS):
        orders = [order_of(by_hand(strength, name)[0]) for name in RANKINGS]
        for a, b in itertools.product(range(4), repeat=2):
            first, correlation = agreement(orders[a], orders[b])
            assert found.same_first[s, a, b] == pytest.approx(first, abs=1e-14)
            assert found.correlation[s, a, b] == pytest.approx(correlation, abs=1e-14)
        kept = np.array([agreement(a, b) for a, b in zip(orders, own, strict=True)])
        np.testing.assert_allclose(found.same_first_as_own[s], kept[:, 0], atol=1e-14)
        np.testing.assert_allclose(found.correlation_with_own[s], kept[:, 1], atol=1e-14)
    assert (found.same_first_as_own[1] == 1).all()  # the explainer's own strength
    assert (found.correlation_with_own[0, :2] < 1).all()  # what is built depends on the strength
    assert (found.correlation_with_own[:, 2:] == 1).all()  # what is given does not


def agreement(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    same = [x[0] == y[0] for x, y in zip(a, b, strict=True)]
    return float(np.mean(same)), float(np.mean([correlation(x, y) for x, y in zip(a, b, strict=True)]))


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    places = [[list(order).index(j) for j in range(len(order))] for order in (a, b)]
    return float(spearmanr(*places).statistic)


@given(st.integers(2, 9).flatmap(lambda d: st.tuples(*[st.permutations(range(d))] * 2)))
def test_the_correlation_is_spearmans(orders: tuple[list[int], list[int]]) -> None:
    a, b = (np.array([order]) for order in orders)
    assert _spearman(a, b)[0] == pytest.approx(correlation(*orders), abs=1e-13)


def test_the_best_ranking_at_each_strength(found: predgap.Sweep) -> None:
    assert found.order.shape == (3, 4)
    for names, means in zip(found.order, found.mean, strict=True):
        by_score = sorted(zip(-means, range(4), strict=True))
        assert names.tolist() == [found.names[m] for _, m in by_score]
    twice = Explainer(MODEL, Normal.relative(X, 0.3)).sweep(ROWS, {"b": [0, 1, 2, 3], "a": [0, 1, 2, 3]})
    assert twice.strengths == (0.1, 0.2, 0.3, 0.5, 1.0)
    assert (twice.order == ["b", "a"]).all()  # equal: in the order in which they were given


def test_the_frame_and_the_table(found: predgap.Sweep) -> None:
    frame = found.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame["strength"].tolist() == [s for s in STRENGTHS for _ in range(4)]
    assert frame["ranking"].tolist() == list(RANKINGS) * 3
    np.testing.assert_array_equal(frame["pgi2"], found.mean.ravel())
    for strength, part in frame.groupby("strength"):
        best = part.sort_values("place")["ranking"].tolist()
        assert best == found.order[STRENGTHS.index(float(str(strength)))].tolist()
    np.testing.assert_array_equal(frame["same_first_as_own"], found.same_first_as_own.ravel())
    np.testing.assert_array_equal(frame["correlation_with_own"], found.correlation_with_own.ravel())
    lines = repr(found).splitlines()
    assert lines[0] == "Sweep of 15 rows: mean PGI² by strength of the noise"
    assert lines[1].split() == ["strength", "greedy", "alone", "SHAP", "same", "for", "all", "best"]
    assert [line.split()[0] for line in lines[2:]] == ["0.05", "0.3", "2"]
    assert [line.index("greedy") for line in lines[2:]] == [lines[1].index("best")] * 3
    polars = pl.DataFrame(ROWS, schema=["f0", "f1", "f2", "f3"])
    other = Explainer(MODEL, Normal.relative(X, 0.3)).sweep(polars, {"greedy": "greedy"}, [0.3])
    assert isinstance(other.to_frame(), pl.DataFrame)


def test_partial_rankings_are_compared_with_partial_ones() -> None:
    explainer = Explainer(MODEL, Normal.relative(X, 0.3))
    some = explainer.sweep(ROWS, {"greedy": "greedy", "given": [2, 0]}, STRENGTHS)
    for s, strength in enumerate(STRENGTHS):
        anew = Explainer(MODEL, Normal.relative(X, strength))
        first_two = anew.pgi2(ROWS, anew.rank(ROWS, top=2))
        np.testing.assert_allclose(some.scores[s, 0], first_two, rtol=1e-11)
    assert np.isnan(some.correlation).all()
    assert not np.isnan(some.same_first).any()
    with pytest.raises(RankingError, match=r"'a' has 2 places and 'b' has 4.*pass all with 2 places"):
        explainer.sweep(ROWS, {"a": [2, 0], "b": [0, 1, 2, 3]})


def test_several_outputs_and_pipelines() -> None:
    classes = np.digitize(Y, [-1.0, 1.0])
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(5, max_depth=4, random_state=0))
    pipeline.fit(X, classes)
    found = Explainer(pipeline, Normal.relative(X, 0.3)).sweep(ROWS, {"greedy": "greedy"}, STRENGTHS)
    for s, strength in enumerate(STRENGTHS):
        anew = Explainer(pipeline, Normal.relative(X, strength))
        np.testing.assert_allclose(found.scores[s, 0], anew.pgi2(ROWS, anew.rank(ROWS)), rtol=1e-11)


def test_no_rows() -> None:
    empty = Explainer(MODEL, Normal.relative(X, 0.3)).sweep(ROWS[:0], {"greedy": "greedy", "x": [0, 1, 2, 3]})
    assert empty.scores.shape == (5, 2, 0)
    assert np.isnan(empty.mean).all()
    assert np.isnan(empty.same_first).all()
    assert len(repr(empty).splitlines()) == 7


def test_the_model_is_loaded_once_and_the_explainer_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = Explainer(MODEL, Normal.relative(X, 0.3))
    before = explainer.pgi2(ROWS, SHAP)
    built: list[Any] = []
    made = Kernel.__init__

    def counting(self: Any, ensemble: Any, *rest: Any) -> None:
        built.append(ensemble)
        made(self, ensemble, *rest)

    monkeypatch.setattr(Kernel, "__init__", counting)
    explainer.sweep(ROWS, {"SHAP": SHAP, "greedy": "greedy"}, STRENGTHS)
    assert len(built) == 3
    assert all(ensemble is explainer.ensemble for ensemble in built)
    np.testing.assert_array_equal(explainer.pgi2(ROWS, SHAP), before)
    assert repr(explainer.noise) == "Normal.relative(<4 columns>, 0.3)"


def test_progress_counts_the_rows_of_all_calls() -> None:
    told: list[tuple[int, int]] = []
    explainer = Explainer(
        MODEL, Normal.relative(X, 0.3), progress=lambda done, total: told.append((done, total))
    )
    progress = explainer.progress
    explainer.sweep(ROWS, {"SHAP": SHAP, "greedy": "greedy"}, STRENGTHS)
    n_calls = 1 + 3 * 3  # greedy at the own strength; at each strength greedy and two scores
    assert {total for _, total in told} == {15 * n_calls}
    done = [done for done, _ in told]
    assert done == sorted(done)
    assert done[-1] == 15 * n_calls
    assert explainer.progress is progress


@pytest.mark.parametrize(
    ("rankings", "says"),
    [
        (SHAP, "rankings is a Ranking, expected a mapping"),
        (["greedy"], "rankings is a list, expected a mapping"),
        ({1: SHAP}, "expected a mapping from names"),
        ({}, "rankings is empty"),
        (
            {"a": "gready"},
            r"rankings\['a'\] is 'gready', expected a ranking, or one of the words 'greedy', 'single'",
        ),
        ({"a": [0, 9]}, "9"),
    ],
)
def test_rankings_that_are_none_are_refused(rankings: Any, says: str) -> None:
    with pytest.raises(RankingError, match=says):
        Explainer(MODEL, Normal.relative(X, 0.3)).sweep(ROWS, rankings)


@pytest.mark.parametrize(
    "strengths", [0.3, "0.3", [], [0.0], [-1.0], [float("nan")], ["a"], [[0.3]], [True], None]
)
def test_strengths_that_are_none_are_refused(strengths: Any) -> None:
    with pytest.raises(NoiseError, match="strength"):
        Explainer(MODEL, Normal.relative(X, 0.3)).sweep(ROWS, {"SHAP": SHAP}, strengths)


@pytest.mark.parametrize("noise", [Normal(0.3), Uniform(0.3), Marginal(X)])
def test_noise_without_a_strength_is_refused(noise: Any) -> None:
    with pytest.raises(NoiseError, match=r"has no strength to change; use Relative\(X, 0.1\)"):
        Explainer(MODEL, noise).sweep(ROWS, {"SHAP": SHAP})


def test_too_costly_says_at_which_strength(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise _core.TooCostly(0, 1e9, 1.0)

    monkeypatch.setattr(_core.Independent, "curve", refuse)
    with pytest.raises(CostError, match=r"sweep, at strength 0\.05: pgi2\(X, ranking\)") as refused:
        Explainer(MODEL, Normal.relative(X, 0.3)).sweep(ROWS, {"SHAP": SHAP}, STRENGTHS)
    assert str(refused.value).endswith("This works: explainer.approximate(rtol=1e-2).pgi2(X, ranking)")
    monkeypatch.setattr(_core.Independent, "rank", refuse)
    with pytest.raises(CostError) as refused:
        Explainer(MODEL, Normal.relative(X, 0.3)).sweep(ROWS, {"greedy": "greedy"}, STRENGTHS)
    message = str(refused.value)
    assert message.startswith("sweep, at the explainer's own noise: rank(X) at rtol=1e-06: row 0 would take")
    assert "Fewer places cost less: rank(X, top=k). " in message
    assert message.endswith("This works: explainer.approximate(rtol=1e-2).rank(X)")


def test_a_long_sweep_warns_once_with_the_rows_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    curve = _core.Independent.curve

    def slow(core: Any, rows: Any, order: Any, accuracy: Any, context: Any, units: Any) -> Any:
        context.look(0, 1e3)
        return curve(core, rows, order, accuracy, context, units)

    monkeypatch.setattr(_core.Independent, "curve", slow)
    message = (
        r"^sweep\(X, rankings\) of 15 rows is expected to take about 45 seconds\. "
        r"Fewer rows, strengths and rankings are faster\.$"
    )
    with pytest.warns(LongCallWarning, match=message) as warned:
        Explainer(MODEL, Normal.relative(X, 0.3)).sweep(ROWS, {"SHAP": SHAP}, STRENGTHS)
    assert len(warned) == 1


def test_a_changed_strength_is_that_of_relative() -> None:
    for strength in (0.01, 0.7, 3.0):
        changed, anew = Normal.relative(X, 0.3).with_strength(strength), Normal.relative(X, strength)
        scales = [[law.scale for law in noise.laws(4)] for noise in (changed, anew)]
        np.testing.assert_allclose(*scales, rtol=1e-15)
        assert repr(changed) == repr(anew)
