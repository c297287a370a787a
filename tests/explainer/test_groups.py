"""Groups: features that move at the same time and are ranked as one, against the definition."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assertions import STRATEGIES, rows_of
from effort import cases
from predgap import Explainer, Flip, Normal, PerFeature, Ranking
from predgap._inputs.subsets import read_units
from predgap.errors import RankingError, SubsetError
from reference import Row, SummedRow, tails_of
from strategies import WIDE, Split, ensemble_of, full_trees, mixed_problems, problems, random_ensemble

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)
RTOLS = st.sampled_from([1e-1, 1e-3, 1e-6])


class UnitRow(Row):
    """One row whose subsets are those of units: a unit stands for all its features."""

    def __init__(self, row, members):
        def features(units):
            return frozenset(q for u in units for q in members[u])

        self.d = len(members)
        self._gap = lambda units: row._gap(features(units))
        self._scale = lambda units: row._scale(features(units))


@st.composite
def groupings(draw, d):
    """Groups of some of the features, as a user gives them, and the members of all units."""
    label = draw(st.lists(st.integers(0, 3), min_size=d, max_size=d))  # 0: in no group
    groups = {f"group {g}": [j for j in range(d) if label[j] == g] for g in (3, 1, 2) if g in label}
    units = list(groups.values()) + [[j] for j in range(d) if label[j] == 0]
    return groups, sorted(units)


def explainer_of(problem, groups, strategy, rtol=0.0):
    return Explainer(problem.ensemble, problem.noise, groups=groups, rtol=rtol, _strategy=strategy)


def unit_rows(problem, members):
    return [UnitRow(row, members) for row in rows_of(problem)]


# ---- exact answers, against the definition -------------------------------------------------------


def assert_exact(problem, strategy, data):
    d = problem.ensemble.n_features
    groups, members = data.draw(groupings(d))
    top = data.draw(st.sampled_from([None, *range(1, len(members) + 1)]))
    explainer = explainer_of(problem, groups, strategy)
    subset = data.draw(st.lists(st.sampled_from(range(len(members))), unique=True))
    gaps = explainer.gap(problem.X, subset)
    greedy, single = (explainer.rank(problem.X, method, top=top) for method in ("greedy", "single"))
    order = np.array([data.draw(st.permutations(range(len(members)))) for _ in problem.X])[:, :top]
    curves = explainer.curve(problem.X, order)
    pgi2 = explainer.pgi2(problem.X, order)
    for r, row in enumerate(unit_rows(problem, members)):
        row.assert_gap(gaps[r], subset)
        row.assert_greedy(greedy.order[r])
        row.assert_single(single.order[r])
        for k in range(order.shape[1]):
            row.assert_gap(curves[r, k], order[r, : k + 1])
        np.testing.assert_allclose(pgi2[r], curves[r].mean(), rtol=1e-15)
        assert_scores(row, greedy, r, 0.0)
        for u in single.order[r]:
            row.assert_gap(single.scores[r, u], [u])
    assert (greedy.confidence == 1).all()
    assert (single.confidence == 1).all()
    assert greedy.scores.shape == (len(problem.X), len(members))


def assert_scores(row, greedy, r, rtol):
    """Scores are gains, which are differences of gaps: off by the rounding of these, and the tolerance."""
    order = greedy.order[r].tolist()
    allowed = rtol * (1 + rtol) * float(row.gap(order)) + sum(
        row.bound(order[:k]) for k in range(len(order) + 1)
    )
    for k, u in enumerate(order):
        gain = float(row.gap(order[: k + 1]) - row.gap(order[:k]))
        assert abs(greedy.scores[r, u] - gain) <= allowed
    assert np.isnan(np.delete(greedy.scores[r], order)).all()


@every_strategy
@given(problem=problems(), data=st.data())
def test_groups_by_the_definition(strategy, problem, data):
    assert_exact(problem, strategy, data)


@every_strategy
@given(problem=problems(values=st.sampled_from(WIDE)), data=st.data())
def test_groups_with_leaves_of_very_different_size(strategy, problem, data):
    assert_exact(problem, strategy, data)


@every_strategy
@given(problem=mixed_problems(), data=st.data())
def test_groups_with_categories(strategy, problem, data):
    assert_exact(problem, strategy, data)


@every_strategy
@given(problem=problems(), rtol=RTOLS, data=st.data())
def test_bounded_answers_about_groups_are_within_their_bound(strategy, problem, rtol, data):
    groups, members = data.draw(groupings(problem.ensemble.n_features))
    explainer = explainer_of(problem, groups, strategy, rtol)
    order = data.draw(st.permutations(range(len(members))))
    curves, greedy = explainer.curve(problem.X, order), explainer.rank(problem.X)
    single = explainer.rank(problem.X, "single")
    for r, row in enumerate(unit_rows(problem, members)):
        exact = np.array([float(row.gap(order[: k + 1])) for k in range(len(order))])
        rounding = max(row.bound(order[: k + 1]) for k in range(len(order)))
        assert (np.abs(curves[r] - exact) <= rtol * exact.mean() * (1 + rtol) + rounding).all()
        assert_scores(row, greedy, r, rtol)
        for u in range(len(members)):
            gap = float(row.gap([u]))
            assert abs(single.scores[r, u] - gap) <= rtol * (1 + rtol) * gap + row.bound([u])
        for ranking, bases in ((greedy, lambda order, k: order[:k]), (single, lambda order, k: [])):
            assert_proven(row, ranking.order[r].tolist(), ranking.confidence[r], bases)


def assert_proven(row, order, confidence, bases):
    for k in np.flatnonzero(confidence == 1).tolist():
        taken = [*bases(order, k), order[k]]
        for rival in ([*bases(order, k), other] for other in order[k + 1 :]):
            bound = max(row.bound(taken), row.bound(rival))
            assert float(row.gap(rival) - row.gap(taken)) <= 16 * bound


# ---- larger models, against gaps of features -----------------------------------------------------


def members_of(rng, d, n_units):
    """A random partition of d features, and as groups."""
    cuts = np.sort(rng.choice(np.arange(1, d), n_units - 1, replace=False))
    members = sorted(sorted(part.tolist()) for part in np.split(rng.permutation(d), cuts))
    return members, {f"g{i}": part for i, part in enumerate(members) if len(part) > 1}


def greedy_by_gaps(explainer, x, members):
    """The definition, with gaps of features."""
    order, scores, base, largest = [], {}, 0.0, 0.0
    for _ in members:
        gaps = {
            u: explainer.gap(x[None], [q for v in (*order, u) for q in members[v]])[0]
            for u in range(len(members))
            if u not in order
        }
        best = max(gaps, key=lambda u: gaps[u])
        scores[best], base = gaps[best] - base, gaps[best]
        largest = max(largest, base)
        order.append(best)
    return order, scores, largest


@pytest.mark.parametrize("strategy", ["compiled", "pairs", None])
def test_greedy_rankings_of_trees_with_many_terms(strategy):
    rng = np.random.default_rng(3)
    for _ in range(cases(60, 600)):
        ensemble, x = full_trees(rng, n_trees=6, depth=5, n_features=8), rng.normal(size=8)
        members, groups = members_of(rng, 8, int(rng.integers(3, 6)))
        features = Explainer(ensemble, Normal(0.7), rtol=0)
        grouped = Explainer(ensemble, Normal(0.7), rtol=0, groups=groups, _strategy=strategy)
        ranking = grouped.rank(x[None])
        order, scores, whole = greedy_by_gaps(features, x, members)
        assert ranking.order[0].tolist() == order
        for u, score in scores.items():  # differences of gaps: relative to the largest
            assert abs(ranking.scores[0, u] - score) <= 1e-12 * whole


def test_the_first_places_are_those_of_the_whole_ranking():
    """With few places only terms with at most one unlikely unit are compiled."""
    rng = np.random.default_rng(4)
    ensemble, X = random_ensemble(rng, n_trees=60, depth=6, n_features=24), rng.normal(size=(4, 24))
    _, groups = members_of(rng, 24, 12)
    explainer = Explainer(ensemble, Normal(0.3), groups=groups, _strategy="compiled")
    whole = explainer.rank(X)
    for top in (1, 2, 5):
        some = explainer.rank(X, top=top)
        np.testing.assert_array_equal(some.order, whole.order[:, :top])
        found, expected = (np.take_along_axis(r.scores, some.order, axis=1) for r in (some, whole))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.nansum(whole.scores, axis=1).max())


def test_a_group_whose_features_do_something_only_together_is_among_the_first_places():
    """It acts so rarely that a coarse ranking leaves it out, and so strongly that it leads."""
    steps = [Split(j, 0.5, 0.0, 1.0) for j in range(6)]
    together = Split(6, 0.5, 0.0, Split(7, 0.5, 0.0, 3e7))
    ensemble = ensemble_of([*steps, together], 8)
    noise = PerFeature({j: Flip(0.1 if j < 6 else 1e-7) for j in range(8)})
    explainer = Explainer(ensemble, noise, rtol=0, groups={"rare": [6, 7]}, _strategy="compiled")
    for top in (1, 2, 7):
        ranking = explainer.rank(np.zeros((1, 8)), top=top)
        assert ranking.order[0, 0] == 6
        np.testing.assert_allclose(ranking.scores[0, 6], 9e14 * 1e-14, rtol=1e-12)


def test_deep_trees_bounded_and_pruned():
    rng = np.random.default_rng(5)
    ensemble, X = random_ensemble(rng, n_trees=12, depth=9, n_features=6), rng.normal(size=(5, 6))
    groups = {"first": [0, 3], "second": [1, 2, 5]}
    exact = Explainer(ensemble, Normal(0.1), rtol=0, groups=groups, _strategy="pairs").rank(X)
    for rtol in (1e-2, 1e-6):
        found = Explainer(ensemble, Normal(0.1), rtol=rtol, groups=groups, _strategy="compiled").rank(X)
        assert found.estimator == "bounded"
        gap = exact.scores.sum(axis=1, keepdims=True)
        proven = found.confidence == 1
        np.testing.assert_array_equal(found.order[proven], exact.order[proven])
        same = (found.order == exact.order).all(axis=1)
        assert (np.abs(found.scores - exact.scores)[same] <= rtol * gap[same]).all()
    pruned = Explainer(ensemble, Normal(0.1), groups=groups, _strategy="compiled").approximate(
        1e-2, method="pruned"
    )
    ranking = pruned.rank(X)
    assert ranking.feature_names == ("first", "second", "f4")
    np.testing.assert_allclose(ranking.scores.sum(axis=1), exact.scores.sum(axis=1), rtol=1e-2)


@every_strategy
def test_several_outputs(strategy):
    from sklearn.ensemble import RandomForestRegressor

    X = np.random.default_rng(6).normal(size=(60, 4))
    forest = RandomForestRegressor(3, max_depth=3, random_state=0).fit(X, X[:, :2] * X[:, 2:])
    explainer = Explainer(forest, Normal(0.5), rtol=0, groups={"g": [0, 2]}, _strategy=strategy)
    ranking, curve = explainer.rank(X[:3]), explainer.curve(X[:3], [1, 0, 2])
    noise = tails_of(Normal(0.5), explainer.ensemble)
    for r, x in enumerate(explainer.ensemble.cast(X[:3])):
        row = UnitRow(SummedRow(explainer.ensemble, noise, x), [[0, 2], [1], [3]])
        row.assert_greedy(ranking.order[r])
        assert_scores(row, ranking, r, 0.0)
        for k in range(3):
            row.assert_gap(curve[r, k], [1, 0, 2][: k + 1])


def test_threads_and_batches_give_the_same_bits():
    rng = np.random.default_rng(7)
    ensemble, X = random_ensemble(rng, n_trees=30, depth=6, n_features=9), rng.normal(size=(12, 9))
    groups = {"a": [0, 4], "b": [1, 2, 8]}
    one, four = (Explainer(ensemble, Normal(0.4), groups=groups, n_jobs=n) for n in (1, 4))
    whole = one.rank(X)
    for other in (four.rank(X), pickle.loads(pickle.dumps(four)).rank(X)):
        assert whole.scores.tobytes() == other.scores.tobytes()
    assert one.rank(X[5:6]).scores.tobytes() == whole.scores[5:6].tobytes()
    assert one.curve(X, whole).tobytes() == four.curve(X, whole).tobytes()


# ---- groups that are as good as none -------------------------------------------------------------


@every_strategy
@given(problem=problems(), data=st.data())
def test_groups_of_one_feature_are_features_with_another_name(strategy, problem, data):
    d = problem.ensemble.n_features
    groups = {f"the {j}": [j] for j in data.draw(st.permutations(range(d)))}
    plain, grouped = (explainer_of(problem, g, strategy) for g in (None, groups))
    for method in ("greedy", "single"):
        a, b = (explainer.rank(problem.X, method) for explainer in (plain, grouped))
        assert a.order.tobytes() == b.order.tobytes()
        assert a.scores.tobytes() == b.scores.tobytes()
    assert b.names == tuple(f"the {j}" for j in range(d))
    assert explainer_of(problem, {}, strategy).rank(problem.X).names == plain.rank(problem.X).names


@every_strategy
@given(problem=problems())
def test_a_group_of_all_features(strategy, problem):
    explainer = explainer_of(problem, {"all": range(problem.ensemble.n_features)}, strategy)
    ranking = explainer.rank(problem.X)
    assert ranking.order.tolist() == [[0]] * len(problem.X)
    plain = explainer_of(problem, None, strategy).gap(problem.X, range(problem.ensemble.n_features))
    np.testing.assert_array_equal(explainer.gap(problem.X, "all"), plain)
    rows = unit_rows(problem, [range(problem.ensemble.n_features)])
    for row, score in zip(rows, ranking.scores, strict=True):
        row.assert_gap(score[0], [0])


def test_ties_go_to_the_unit_whose_first_feature_is_lower():
    from sklearn.tree import DecisionTreeRegressor

    bits = np.array([[a, b, c, d] for a in (0, 1) for b in (0, 1) for c in (0, 1) for d in (0, 1)])
    tree = DecisionTreeRegressor().fit(bits, bits.sum(axis=1))
    ranking = Explainer(tree, Flip(0.5), groups={"late": [2, 3], "early": [0, 1]}).rank(bits[:1])
    assert ranking.top(2).tolist() == [["early", "late"]]
    assert ranking.feature_names == ("early", "late")


# ---- names, subsets, rankings --------------------------------------------------------------------

NAMES = ("lat", "age", "lon", "sex")


@pytest.fixture
def place():
    rng = np.random.default_rng(8)
    ensemble = random_ensemble(rng, n_trees=10, depth=4, n_features=4).named(NAMES)
    X = pd.DataFrame(rng.normal(size=(3, 4)), columns=NAMES)
    return Explainer(ensemble, Normal(0.4), groups={"place": ["lat", "lon"]}), X


def test_units_have_names_and_indices(place):
    explainer, X = place
    ranking = explainer.rank(X)
    assert ranking.feature_names == ("place", "age", "sex")
    assert set(ranking.to_frame()["feature"]) == {"place", "age", "sex"}
    plain = Explainer(explainer.ensemble, Normal(0.4))
    expected = plain.gap(X, ["lat", "lon", "sex"])
    for subset in (["place", "sex"], [0, 2], [True, False, True], np.tile([True, False, True], (3, 1))):
        np.testing.assert_array_equal(explainer.gap(X, subset), expected)
    np.testing.assert_array_equal(
        explainer.expected_prediction(X, "place"), plain.expected_prediction(X, [0, 2])
    )
    np.testing.assert_array_equal(explainer.estimate(X, "place").value, plain.gap(X, [0, 2]))
    curve = explainer.curve(X, ["sex", "place"])
    np.testing.assert_allclose(
        curve, np.stack([plain.gap(X, [3]), plain.gap(X, [0, 2, 3])], axis=1), rtol=1e-12
    )
    np.testing.assert_array_equal(explainer.pgi2(X, ranking), explainer.curve(X, ranking).mean(axis=1))
    np.testing.assert_array_equal(explainer.pgu2(X, ranking), explainer.pgi2(X, ranking.order[:, ::-1]))
    with pytest.raises(RankingError, match="PGU² needs all 3"):
        explainer.pgu2(X, ["sex", "place"])
    with pytest.raises(RankingError, match="from 1 to 3, the number of groups and other features"):
        explainer.rank(X, top=4)


def test_a_model_without_names():
    rng = np.random.default_rng(9)
    ensemble, X = random_ensemble(rng, n_trees=4, depth=3, n_features=4), rng.normal(size=(2, 4))
    explainer = Explainer(ensemble, Normal(0.4), groups={"place": ["f0", "f2"]})
    for rows in (X, pd.DataFrame(X, columns=NAMES)):
        ranking = explainer.rank(rows)
        assert ranking.feature_names[0] == "place"
        expected = explainer.curve(rows, ranking.order).mean(axis=1)
        np.testing.assert_array_equal(explainer.pgi2(rows, ranking), expected)
        values = pd.DataFrame([[1.0, 0.1, 1.0, 3.0]] * 2, columns=NAMES)
        np.testing.assert_array_equal(explainer.curve(rows, values), explainer.curve(rows, [2, 0, 1]))
    assert explainer.rank(X).feature_names == ("place", "f1", "f3")


def test_attributions_are_summed_with_their_signs(place):
    explainer, X = place
    values = np.array([[3.0, 1.0, -3.5, 0.2], [1.0, -1.5, 1.0, 2.5], [0.0, 0.0, 0.0, 0.1]])
    frame = pd.DataFrame(values, columns=NAMES)
    ranking = Ranking.from_attributions(frame, groups={"place": ["lat", "lon"]})
    np.testing.assert_array_equal(ranking.scores, [[0.5, 1.0, 0.2], [2.0, 1.5, 2.5], [0.0, 0.0, 0.1]])
    assert ranking.feature_names == ("place", "age", "sex")
    assert ranking.top(1).ravel().tolist() == ["age", "sex", "sex"]
    score = explainer.pgi2(X, ranking)
    shuffled = frame[["sex", "lon", "lat", "age"]]
    np.testing.assert_array_equal(explainer.pgi2(X, shuffled), score)
    np.testing.assert_array_equal(explainer.pgi2(X, explanation(values)), score)
    np.testing.assert_array_equal(explainer.pgu2(X, frame), explainer.pgu2(X, ranking))
    by_index = Ranking.from_attributions(values, groups={"place": [0, 2]}, top=2)
    assert by_index.names == ("place", "f1", "f3")
    assert by_index.order.shape == (3, 2)
    with pytest.raises(SubsetError, match="no feature 'long'"):
        Ranking.from_attributions(frame, groups={"place": ["lat", "long"]})


def explanation(values):
    """What is read of a shap.Explanation."""

    class Explanation:
        feature_names, base_values, data = NAMES, np.zeros(len(values)), None

    Explanation.values = values
    return Explanation()


def test_a_ranking_of_features_is_refused_with_advice(place):
    explainer, X = place
    for ranking in (
        Ranking.from_attributions(np.ones((3, 4)), feature_names=NAMES),
        Ranking([[3, 2, 1, 0]] * 3),
        [3, 2, 1, 0],
        ["lat", "lon"],
    ):
        with pytest.raises(RankingError, match=r"groups 'place'.*from_attributions\(values, groups=\.\.\.\)"):
            explainer.pgi2(X, ranking)
    with pytest.raises(SubsetError, match=r"'lat'.*The explainer has the groups 'place'"):
        explainer.gap(X, ["lat"])


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([["lat", "lon"]], "groups is a list; expected a dict"),
        ({"place": ["lat", "long"]}, "group 'place': the model has no feature 'long'; did you mean 'lon'"),
        ({"place": [0, 4]}, "group 'place': no feature has index 4"),
        ({"place": []}, "group 'place' is empty"),
        ({"place": [[True] * 4]}, "group 'place' has one mask per row"),
        ({"place": ["lat", "lat"]}, "group 'place': the subset names 'lat' more than once"),
        ({"place": ["lat", "lon"], "who": ["age", "lon"]}, "'lon' is in the groups 'place' and 'who'"),
        ({"sex": ["lat", "lon"]}, "group 'sex' has the name of the feature 'sex', which is not in it"),
        ({"lat": ["age"], "place": ["lat", "lon"]}, "group 'lat' has the name of the feature 'lat'"),
        ({1: ["lat"]}, "groups has the name 1; expected a text"),
        ({"": ["lat"]}, "groups has the name ''; expected a text"),
    ],
)
def test_groups_that_do_not_fit(place, groups, message):
    with pytest.raises(SubsetError) as error:
        Explainer(place[0].ensemble, Normal(0.4), groups=groups)
    assert message in str(error.value)


def test_a_group_may_have_the_name_of_its_own_feature():
    units = read_units({"lon": ["lat", "lon"], "who": "sex"}, 4, NAMES)
    assert units.names == ("lon", "age", "who")
    assert units.members == ((0, 2), (1,), (3,))


# ---- costs and samples ---------------------------------------------------------------------------


def test_costs_of_groups(place):
    explainer, X = place
    for question in ("rank", explainer.rank(X), "place", ["place", "age"]):
        for rows in (None, X):
            assert explainer.cost(question, rows).milliseconds > 0


def test_curves_of_groups_from_samples(place):
    explainer, X = place
    ranking = explainer.rank(X, top=2)
    assert {tuple(row) for row in ranking.order.tolist()} != {(0, 1)}
    exact, scores = explainer.curve(X, ranking), explainer.pgi2(X, ranking)
    for method in ("qmc", "mc"):
        sampled = explainer.approximate(1e-3, method=method, n_samples=1 << 14)
        found, score = sampled.curve(X, ranking), sampled.pgi2(X, ranking)
        assert found.value.shape == (3, 2)
        assert score.value.shape == (3,)
        assert (np.abs(found.value - exact) <= 5 * found.standard_error + 1e-12).all()
        assert (np.abs(score.value - scores) <= 5 * score.standard_error + 1e-12).all()


@pytest.mark.parametrize("method", ["greedy", "single"])
@pytest.mark.parametrize("by", ["mc", "qmc"])
def test_groups_are_ranked_from_samples(place, method, by):
    """Places that the samples are sure of are those of the exact ranking, and scores are sampled gains."""
    explainer, X = place
    exact, found = (
        explainer.rank(X, method),
        explainer.approximate(method=by, n_samples=1 << 14).rank(X, method),
    )
    assert found.names == exact.names == ("place", "age", "sex")
    assert found.order.shape == exact.order.shape
    sure = found.confidence > 0.999
    assert sure.mean() > 0.5
    np.testing.assert_array_equal(found.order[sure], exact.order[sure])
    np.testing.assert_allclose(found.scores, exact.scores, rtol=0.2, atol=0.05 * np.abs(exact.scores).max())


def test_each_member_keeps_its_own_noise():
    """With independent members the gap of a sum of two steps is known: E[(a + b)²] = p + q + 2pq."""
    from sklearn.tree import DecisionTreeRegressor

    bits = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    tree = DecisionTreeRegressor().fit(bits, bits.sum(axis=1))
    noise = PerFeature({0: Flip(0.25), 1: Flip(0.5)})
    gap = Explainer(tree, noise, groups={"both": [0, 1]}).gap(bits[:1], "both")
    np.testing.assert_allclose(gap, 0.25 + 0.5 + 2 / 8, rtol=1e-15)
