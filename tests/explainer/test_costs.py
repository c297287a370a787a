"""What an answer costs, and what costs too much."""

from __future__ import annotations

import re
import time
from types import SimpleNamespace

import numpy as np
import pytest

import predgap
from asking import kernel_of
from predgap import (
    Cost,
    CostError,
    Discrete,
    Ensemble,
    Explainer,
    Flip,
    Laplace,
    Marginal,
    Normal,
    PerFeature,
    Ranking,
    Uniform,
    _core,
)
from predgap._engine.context import Call
from predgap.noise.added import NormalLaw
from strategies import Split, ensemble_of, full_trees


def test_the_cost_of_each_question(explainer, table):
    ranking = explainer.rank(table)
    masks = np.random.default_rng(0).random((60, 3)) < 0.5
    for question in (
        "rank",
        ranking,
        explainer.rank(table, top=1),
        ["age"],
        [0, 1],
        "bmi",
        np.array([True] * 3),
    ):
        for X in (None, table, table[:1] if not isinstance(question, Ranking) else None):
            cost = explainer.cost(question, X)
            assert isinstance(cost, Cost)
            assert cost.method == "exact"
            assert 0 < cost.milliseconds < 50
            assert 0 <= cost.megabytes < 100
    assert explainer.cost(masks, table).milliseconds > 0
    assert explainer.cost("rank").milliseconds >= explainer.cost(["age"]).milliseconds


def test_what_a_call_takes_is_shared_by_its_rows(explainer, table):
    alone, many = (explainer.cost("rank", X=table.iloc[[0] * n]).milliseconds for n in (1, 1000))
    assert alone - many == pytest.approx(0.03 * 0.999)
    assert explainer.cost("rank").milliseconds > 0.03


def test_a_cost_without_rows_is_like_that_of_rows_from_the_training_table():
    """Rows are made up where the last splits are; every call makes up the same."""
    from sklearn.ensemble import GradientBoostingRegressor

    rng = np.random.default_rng(0)
    X = np.exp(rng.normal(size=(2000, 6)))  # far from even
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + X[:, 3] * X[:, 4]
    model = GradientBoostingRegressor(n_estimators=150, max_leaf_nodes=24, max_depth=None, random_state=0)
    explainer = Explainer(model.fit(X, y), Normal.relative(X, 0.3))
    for question in ("rank", [0, 1, 4]):
        without = explainer.cost(question)
        assert without == explainer.cost(question)
        assert 0.5 < without.milliseconds / explainer.cost(question, X=X[:200]).milliseconds < 2


def test_a_cost_needs_no_rows_that_noise_cannot_move():
    """Rows that are made up hold levels of categories, and 0 or 1 where a number flips."""
    tree = Split(0, 0.0, Split(1, 7.0, 1.0, 2.0), Split(2, 0.0, 3.0, 4.0), categories=(1,))
    ensemble = ensemble_of([tree], 3, categories=[predgap.Categories([0, 1, 2]), None, None])
    for noise in (Flip(0.1), Discrete([2]), Marginal([[0, 1, 1], [1, 0, 0]])):
        explainer = Explainer(ensemble, PerFeature({2: Normal(1.0)}, default=noise))
        assert explainer.cost("rank").milliseconds > 0
        assert explainer.cost(range(3)).milliseconds > 0


BAD_COSTS = {
    "no rows": (lambda e, t: e.cost("rank", t[:0]), predgap.TableError, "X has no rows"),
    "no rows of a ranking": (lambda e, t: e.cost(e.rank(t[:0])), predgap.RankingError, "has no rows"),
    "another table": (lambda e, t: e.cost(e.rank(t), t[:3]), predgap.RankingError, "60 rows, X has 3"),
    "masks without rows": (
        lambda e, t: e.cost(np.ones((60, 3), dtype=bool)), predgap.SubsetError, "pass these rows as X",
    ),
    "a method": (lambda e, t: e.cost("pgi2"), predgap.SubsetError, "pass the ranking"),
    "an unknown name": (lambda e, t: e.cost("ranking"), predgap.SubsetError, "no feature 'ranking'"),
}  # fmt: skip


@pytest.mark.parametrize(("ask", "error", "message"), BAD_COSTS.values(), ids=BAD_COSTS)
def test_a_cost_that_cannot_be_told_is_refused(explainer, table, ask, error, message):
    with pytest.raises(error, match=message):
        ask(explainer, table)


@pytest.fixture(scope="module")
def forest() -> tuple[Explainer, np.ndarray]:
    """Far too deep for exact answers about all features: a million leaves, all within reach."""
    rng = np.random.default_rng(0)
    ensemble = full_trees(rng, n_trees=60, depth=14, n_features=20)
    return Explainer(ensemble, Normal(1.0), rtol=0), rng.normal(size=(2, 20))


TOO_COSTLY = {
    "gap": lambda e, X: e.gap(X, range(20)),
    "curve": lambda e, X: e.curve(X, range(20)),
    "pgi2": lambda e, X: e.pgi2(X, range(20)),
    "pgu2": lambda e, X: e.pgu2(X, range(20)),
    "rank": lambda e, X: e.rank(X),
    "rank, some": lambda e, X: e.rank(X, top=18),
    "rank, optimal": lambda e, X: e.rank(X, "optimal"),
    "rank, shapley": lambda e, X: e.rank(X, "shapley", top=18),
    "random_pgi2": lambda e, X: e.random_pgi2(X),
    "normalized_pgi2": lambda e, X: e.normalized_pgi2(X, range(20)),
    "estimate": lambda e, X: e.estimate(X, range(20), "exact"),
}


@pytest.mark.parametrize("asked", TOO_COSTLY)
def test_what_costs_too_much_is_refused_with_a_call_that_works(forest, asked):
    explainer, X = forest
    start = time.process_time()
    with pytest.raises(CostError) as refused:
        TOO_COSTLY[asked](explainer, X)
    assert time.process_time() - start < 20  # seconds of work; two on an idle machine
    message = str(refused.value)
    assert f"the limits per row are {1e3 * _core.MOST_SECONDS:,.0f} ms and" in message
    assert message.startswith(asked.split(",")[0] + "(X")
    assert ("Fewer places cost less: rank(X, top=k). " in message) == asked.startswith("rank")
    call = message.rpartition("This works: ")[2]
    assert call.startswith("explainer.")
    found = eval(call, {"explainer": explainer, "X": X[:1], "subset": range(20), "ranking": range(20)})
    if isinstance(found, Ranking):
        assert found.estimator in ("bounded", "pruned", "qmc")
    else:
        assert set(found.method.ravel()) <= {"bounded", "pruned", "qmc"}


def test_a_cost_says_whether_the_call_would_be_refused(forest, explainer):
    too_deep, X = forest
    assert too_deep.cost("rank", X).refused
    assert too_deep.cost("rank").refused
    assert "yes" in repr(too_deep.cost(range(20), X))
    assert not too_deep.cost([0], X).refused
    assert not explainer.cost("rank").refused


def test_a_refusal_names_the_row_and_what_it_would_take():
    refused = str(Call("rank(X)").refusal(3, 5e6, 2048.0))
    assert refused.startswith("rank(X): row 3 would take about 5,000,000 ms and 2,048 MB; the limits")
    assert refused.endswith("This works: explainer.approximate(rtol=1e-2).rank(X)")


def test_the_row_that_is_refused_is_counted_from_the_first(monkeypatch, explainer, table):
    """Rows come in parts when tables of tails would not fit into memory."""
    monkeypatch.setattr("predgap._engine.kernels._TABLE_BYTES", 1)
    tabulated = Explainer(explainer.ensemble, Laplace(0.5))
    calls = []

    def refuse(*_):
        calls.append(1)
        if len(calls) == 6:
            raise _core.TooCostly(0, 5e6, 1.0)
        return np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.uint8)

    kernel = kernel_of(tabulated)
    monkeypatch.setattr(kernel, "core", SimpleNamespace(gap=refuse, cost=kernel.core.cost))
    with pytest.raises(CostError, match="row 5 would take"):
        tabulated.gap(table, ["age"])


def test_a_feature_that_no_split_uses_costs_nothing():
    """A small file may declare ten million of them."""
    d = 10_000_000
    wide = Ensemble(
        root=[0], feature=[d - 1, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1], right=[2, -1, -1],
        default_left=[True, False, False], value=[[0.0], [1.0], [3.0]], target=[0], bias=[0.0], n_features=d,
    )  # fmt: skip
    start = time.process_time()
    explainer = Explainer(wide, PerFeature({d - 1: Uniform(1.0)}))
    assert list(kernel_of(explainer).laws) == [d - 1]
    x = np.zeros((1, d))
    assert explainer.gap(x, [d - 1]).tolist() == [1.0]
    assert explainer.gap(x, [0]).tolist() == [0.0]
    assert explainer.estimate(x, [0, d - 1], "qmc", n_samples=1024).value.tolist() == [1.0]
    assert time.process_time() - start < 20  # seconds of work: about one, 50 if all features have laws


def test_noise_is_needed_for_features_that_splits_use_only():
    explainer = Explainer(ensemble_of([Split(1, 0.5, 1.0, 3.0)], 3), PerFeature({1: Normal(0.5)}))
    assert kernel_of(explainer).laws == {1: NormalLaw(0.5)}
    assert explainer.rank(np.zeros((1, 3))).order.tolist() == [[1, 0, 2]]
    with pytest.raises(predgap.NoiseError, match="no noise for 1 feature: 'f2'"):
        Explainer(ensemble_of([Split(2, 0.5, 1.0, 3.0)], 3), PerFeature({1: Normal(0.5)}))


def test_a_refusal_names_a_tolerance_that_is_answered():
    """Exactly, the row would take minutes; with what hardly ever matters left out, seconds."""
    rng = np.random.default_rng(0)
    ensemble, X = full_trees(rng, n_trees=60, depth=13, n_features=20), rng.normal(size=(1, 20))
    with pytest.raises(CostError) as refused:
        Explainer(ensemble, Normal(0.3), rtol=0).pgi2(X, range(20))
    rtol = float(re.search(r"With Explainer\(..., rtol=(\S+)\) this row would take", str(refused.value))[1])
    assert 0 < rtol <= 1e-2
    assert Explainer(ensemble, Normal(0.3), rtol=rtol).pgi2(X, range(20)) > 0


def test_prices_that_are_counted_are_no_part_of_the_answer():
    """Trees that are tried for a price do not count for the limits of the row."""
    rng = np.random.default_rng(0)
    ensemble, X = full_trees(rng, n_trees=48, depth=9, n_features=20), rng.normal(size=(1, 20))
    explainer = Explainer(ensemble, Normal(0.5), rtol=0)
    kernel = kernel_of(explainer)
    core = kernel.independent("counted work")
    explainer.gap(X, range(20))
    milliseconds, megabytes = core.most_work()
    kernel.model.limit_work(1.2 * milliseconds, 1.2 * megabytes)
    explainer.gap(X, range(20))
    assert not explainer.cost(range(20), X).refused
