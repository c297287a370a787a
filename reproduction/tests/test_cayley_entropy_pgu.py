"""Entropy, Cayley distance and PGU² of rankings: by definition on tiny models, and on the paper's."""

from __future__ import annotations

import itertools
import math
from collections import deque
from dataclasses import replace

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st

from predgap import Explainer, Normal, PredgapError, Ranking
from predgap._model.ensemble import LEAF
from reproduction.experiments import cayley, entropy, pgu
from reproduction.models import Subject, read_subject, shap_ranking
from reproduction.results import Result
from tiny import N_FEATURES, tiny_subjects

D, N = N_FEATURES, 30
SCALES = (0.3, 1.0)
MODULES = {"entropy": entropy, "cayley": cayley, "pgu": pgu}
CONFIGS = {
    "entropy": entropy.Config(scales=SCALES),
    "cayley": cayley.Config(scales=SCALES, n_resamples=50),
    "pgu": pgu.Config(scales=SCALES, evaluation_scales=(0.1, 1.0), n_resamples=50),
}


@pytest.fixture(scope="module")
def subjects(tmp_path_factory) -> tuple[Subject, ...]:
    return tiny_subjects(tmp_path_factory.mktemp("models"), N)


@pytest.fixture(scope="module")
def tables(subjects) -> dict[str, Result]:
    return {name: module.run(CONFIGS[name], subjects) for name, module in MODULES.items()}


def orders(subject: Subject) -> dict[float | None, np.ndarray]:
    greedy = {s: Explainer(subject.ensemble, Normal(s)).rank(subject.X).order for s in SCALES}
    return {None: shap_ranking(subject).order} | greedy


def each(tables, subjects, name: str):
    """Rows of a table, each with the orders of its subject."""
    found = {subject.kind: (subject, orders(subject)) for subject in subjects}
    for row in tables[name].records():
        yield row, *found[row["kind"]]


def kept(order, features: str) -> list[int]:
    """The ranking of a row, without the feature that is not used if only used ones are asked for."""
    return [int(j) for j in order if features == "all" or j != 1]


# ---- entropy -------------------------------------------------------------------------------------


def slow_entropy(rows: list[list[int]], reward) -> float:
    total: dict[int, float] = {}
    for row in rows:
        for place, feature in enumerate(row, start=1):
            total[feature] = total.get(feature, 0.0) + reward(place)
    everything = math.fsum(total.values())
    shares = [value / everything for value in total.values() if value > 0]
    return -math.fsum(share * math.log2(share) for share in shares)


def test_entropies_are_those_of_the_definition(tables, subjects):
    values = set()
    for row, _, ranked in each(tables, subjects, "entropy"):
        k = row["k"]
        assert row["reward"] == ("2^-place" if k is None else "top k")
        reward = (lambda place: 2.0**-place) if k is None else (lambda place, k=k: float(place <= k))
        rows = [kept(order, row["features"]) for order in ranked[row["scale"]]]
        assert row["entropy"] == pytest.approx(slow_entropy(rows, reward), rel=1e-12)
        assert row["smallest"] == pytest.approx(slow_entropy(rows[:1], reward), rel=1e-12)
        assert row["n_features"] == len(rows[0])
        assert row["largest"] == math.log2(len(rows[0]))
        assert row["smallest"] <= row["entropy"] * (1 + 1e-12) <= row["largest"] * (1 + 2e-12)
        values.add(row["entropy"])
    assert len(tables["entropy"]) == 2 * 2 * 3 * 4  # subjects, choices, rankings, rewards
    assert len(values) > 30


def test_the_extremes_of_the_entropy_are_attained():
    same = Ranking([[2, 0, 1, 3]] * 5)
    turned = Ranking([[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]])
    for k, smallest in ((1, 0.0), (2, 1.0), (4, 2.0), (None, slow_entropy([[0, 1, 2, 3]], lambda p: 2**-p))):
        assert entropy.entropy(entropy.rewards(same, k)) == pytest.approx(smallest, abs=1e-15)
        assert entropy.entropy(entropy.rewards(turned, k)) == pytest.approx(2.0, abs=1e-15)
    assert math.copysign(1, entropy.entropy(entropy.rewards(same, 1))) == 1  # not -0.0


def test_a_model_that_uses_nothing(tmp_path):
    X = np.random.default_rng(0).normal(size=(N, D))
    data = xgboost.DMatrix(X, np.ones(N), nthread=1)
    xgboost.train({"nthread": 1}, data, 2).save_model(tmp_path / "constant.json")
    subject = read_subject("Single", "constant", tmp_path / "constant.json", X, np.ones(N))
    columns = ("n_features", "entropy", "smallest", "largest")
    rows = entropy.run(CONFIGS["entropy"], [subject]).where(features="used")
    assert {tuple(row[name] for name in columns) for row in rows} == {(0, 0, 0, 0)}
    rows = cayley.run(CONFIGS["cayley"], [subject]).where(features="used")
    assert {(row["distance"], row["unrelated"]) for row in rows} == {(0, 0)}


# ---- Cayley distance -----------------------------------------------------------------------------


def swaps_from_sorted(d: int) -> dict[tuple[int, ...], int]:
    """The least number of swaps that makes each permutation, by trying all."""
    start = tuple(range(d))
    found, queue = {start: 0}, deque([start])
    while queue:
        one = queue.popleft()
        for i, j in itertools.combinations(range(d), 2):
            other = list(one)
            other[i], other[j] = other[j], other[i]
            if tuple(other) not in found:
                found[tuple(other)] = found[one] + 1
                queue.append(tuple(other))
    return found


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
def test_distances_are_numbers_of_swaps(d):
    swaps = swaps_from_sorted(d)
    assert len(swaps) == math.factorial(d)
    sorted_ones = Ranking([list(range(d))] * len(swaps))
    np.testing.assert_array_equal(
        cayley.distances(Ranking([list(p) for p in swaps]), sorted_ones), list(swaps.values())
    )
    assert cayley.unrelated(d) == pytest.approx(np.mean(list(swaps.values())), abs=1e-12)


def slow_distance(one: list[int], other: list[int]) -> int:
    """d minus the number of cycles."""
    place = {feature: p for p, feature in enumerate(other)}
    leads_to = {p: place[feature] for p, feature in enumerate(one)}
    cycles, seen = 0, set()
    for start in leads_to:
        cycles += start not in seen
        while start not in seen:
            seen.add(start)
            start = leads_to[start]
    return len(one) - cycles


@given(st.integers(1, 40).flatmap(lambda d: st.tuples(*[st.permutations(range(d))] * 3)))
def test_distances_of_longer_rankings(three):
    one, other, third = (Ranking([p]) for p in three)
    (distance,) = cayley.distances(one, other)
    assert distance == slow_distance(three[0], three[1])
    assert cayley.distances(other, one) == distance
    assert cayley.distances(one, one) == 0
    relabelled = [Ranking(np.array(three[2])[ranking.order]) for ranking in (one, other)]
    assert cayley.distances(*relabelled) == distance
    assert distance <= cayley.distances(one, third) + cayley.distances(third, other)


def test_mean_distances_and_their_intervals(tables, subjects):
    pairs = {(None, 0.3), (None, 1.0), (0.3, 1.0)}
    for row, _, ranked in each(tables, subjects, "cayley"):
        assert (row["scale"], row["other_scale"]) in pairs
        assert row["method"] == ("shap" if row["scale"] is None else "greedy")
        assert row["other_method"] == "greedy"
        two = [
            [kept(order, row["features"]) for order in ranked[row[name]]] for name in ("scale", "other_scale")
        ]
        distance = [slow_distance(*both) for both in zip(*two, strict=True)]
        assert row["distance"] == pytest.approx(np.mean(distance), rel=1e-12)
        error = np.std(distance) / math.sqrt(N)
        assert row["low"] == pytest.approx(row["distance"] - 1.96 * error, abs=error)
        assert row["high"] == pytest.approx(row["distance"] + 1.96 * error, abs=error)
        assert row["unrelated"] == cayley.unrelated(row["n_features"])
        assert row["n_features"] == (5 if row["features"] == "all" else 4)
    assert len(tables["cayley"]) == 2 * 2 * 3


# ---- PGU² ----------------------------------------------------------------------------------------


def test_pgu_is_the_mean_gap_of_what_is_least_important(tables, subjects):
    for row, subject, ranked in each(tables, subjects, "pgu"):
        explainer = Explainer(subject.ensemble, Normal(row["evaluation_scale"]))
        last = [
            np.array([explainer.gap(subject.X[r : r + 1], order[-k:])[0] for k in range(1, D + 1)])
            for r, order in enumerate(ranked[row["scale"]])
        ]
        pgu2 = np.mean(last, axis=1)
        assert row["pgu2"] == pytest.approx(pgu2.mean(), rel=1e-12)
        error = pgu2.std() / math.sqrt(N)
        assert row["low"] == pytest.approx(row["pgu2"] - 1.96 * error, abs=error)
        assert row["high"] == pytest.approx(row["pgu2"] + 1.96 * error, abs=error)
    assert len(tables["pgu"]) == 2 * 2 * 3


def test_an_advantage_is_a_lower_pgu(tables, subjects):
    for row in tables["pgu"].records():
        same = {name: row[name] for name in ("kind", "evaluation_scale")}
        (shap,) = tables["pgu"].where(**same, method="shap")
        if row["method"] == "shap":
            assert row["scale"] is row["advantage"] is row["advantage_low"] is row["advantage_high"] is None
        else:
            assert row["advantage"] == pytest.approx(shap["pgu2"] - row["pgu2"], abs=1e-14)
            assert row["advantage_low"] < row["advantage"] < row["advantage_high"]
            width = row["advantage_high"] - row["advantage_low"]  # of pairs: rows are the same in both
            assert width < row["high"] - row["low"] + shap["high"] - shap["low"]


# ---- all three -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODULES)
def test_parts_threads_and_files(tables, subjects, tmp_path, name):
    module, config, table = MODULES[name], CONFIGS[name], tables[name]
    told = []
    second = module.run(config, subjects[1:], n_jobs=2, progress=lambda *steps: told.append(steps))
    assert second.rows == table.rows[len(table) // 2 :]
    assert told == [(1, 1)]
    one_scale = module.run(replace(config, scales=(1.0,)), subjects)
    assert set(one_scale.rows) < set(table.rows)
    table.save(tmp_path)
    assert Result.load(tmp_path, name).rows == table.rows


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("entropy", {"places": (0, 1)}),
        *(
            (name, wrong)
            for name in ("cayley", "pgu")
            for wrong in ({"n_resamples": 0}, {"confidence": 1.0}, {"seed": -1})
        ),
    ],
)
def test_impossible_configs_are_refused(name, wrong):
    with pytest.raises(PredgapError, match="impossible"):
        MODULES[name].Config(**wrong)


def test_more_places_than_features_are_refused(subjects):
    with pytest.raises(PredgapError, match="has 5 features"):
        entropy.run(entropy.Config(places=(6,)), subjects)


# ---- the paper's models --------------------------------------------------------------------------


def from_the_other_end(subject: Subject) -> Subject:
    """With its features in reverse order, so that ties go to the higher index."""
    e, d = subject.ensemble, subject.ensemble.n_features
    feature = np.where(e.feature == LEAF, LEAF, d - 1 - e.feature).astype(e.feature.dtype)
    names = None if e.feature_names is None else e.feature_names[::-1]
    return replace(
        subject,
        X=subject.X[:, ::-1],
        ensemble=replace(e, feature=feature, feature_names=names),
        training=None,
    )


@pytest.mark.slow_paper
def test_ties_matter_only_where_features_are_not_used(all_authors):
    moved = {}
    for subject in all_authors:
        d = subject.X.shape[1]
        greedy = Explainer(subject.ensemble, Normal(0.1)).rank(subject.X)
        other = from_the_other_end(subject)
        turned = Ranking(d - 1 - Explainer(other.ensemble, Normal(0.1)).rank(other.X).order)
        for features, mask in entropy.choices(subject.ensemble).items():
            both = [entropy.rewards(entropy.among(one, mask), None) for one in (greedy, turned)]
            moved[subject.kind, features, subject.dataset] = abs(np.subtract(*map(entropy.entropy, both)))
    assert max(moved[key] for key in moved if key[0] == "Bigger") < 0.001
    assert min(moved[key] for key in moved if key[:2] == ("Single", "all")) > 0.1
    assert max(moved[key] for key in moved if key[:2] == ("Single", "used")) < 0.05


@pytest.mark.slow_paper
def test_small_noise_spreads_over_more_features_than_shap(all_authors):
    rows = entropy.run(entropy.Config(scales=(0.1,)), all_authors[:3]).where(features="all")
    found = {(row["dataset"], row["k"], row["method"]): row["entropy"] for row in rows}
    assert len(found) == 3 * 4 * 2
    assert all(found[dataset, k, "greedy"] > found[dataset, k, "shap"] + 0.2 for dataset, k, _ in found)


@pytest.mark.slow_paper
def test_shap_and_greedy_are_nearly_as_far_apart_as_unrelated_rankings(all_authors):
    bigger = cayley.run(cayley.Config(), all_authors[:3]).where(features="all")
    for row in bigger:
        share = row["distance"] / row["unrelated"]
        if row["method"] == "shap":
            assert 0.87 < share < 1
        assert row["high"] < row["unrelated"] or (row["dataset"], row["other_scale"]) == ("wine", 0.1)
    single = cayley.run(cayley.Config(scales=(0.1,)), all_authors[5:])
    among = {row["features"]: row["distance"] / row["unrelated"] for row in single.records()}
    assert among["used"] < 0.9 < 1 < among["all"]  # made by the order of features that are not used


@pytest.mark.slow_paper
def test_greedy_has_the_lower_pgu_at_its_own_scale_but_for_parkinson(all_authors):
    rows = pgu.run(pgu.Config(), all_authors).where(method="greedy")
    worse = {
        (row["kind"], row["dataset"], row["scale"])
        for row in rows
        if row["scale"] == row["evaluation_scale"] and row["advantage_low"] <= 0
    }
    assert worse == {
        ("Bigger", "telemetry", 1.0),
        ("Single", "telemetry", 0.3),
        ("Single", "telemetry", 1.0),
        ("Single", "wine", 1.0),
    }
    at_one = [row for row in rows if (row["dataset"], row["evaluation_scale"]) == ("telemetry", 1.0)]
    assert len(at_one) == 6
    assert all(row["advantage_high"] < 0 for row in at_one)
