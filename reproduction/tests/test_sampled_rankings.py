"""Greedy rankings by sampling: against a greedy that perturbs rows itself, and on the paper's models."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

from predgap import Explainer, Normal, PredgapError
from reproduction.experiments import sampled_rankings
from reproduction.experiments.sampled_rankings import Config, differences, sampled_order
from reproduction.models import Subject, authors_subjects
from reproduction.results import Result
from tiny import N_FEATURES, tiny_subjects

D, N = N_FEATURES, 12
CONFIG = Config(scales=(0.3, 1.0), n_samples=(20, 300), n_rows=8)


@pytest.fixture(scope="module")
def subjects(tmp_path_factory) -> tuple[Subject, ...]:
    return tiny_subjects(tmp_path_factory.mktemp("models"), N)


@pytest.fixture(scope="module")
def table(subjects) -> Result:
    return sampled_rankings.run(CONFIG, subjects)


def slow_order(ensemble, x: np.ndarray, points: np.ndarray, scale: float) -> list[int]:
    """Greedy whose gaps are means over rows that are perturbed one feature at a time."""
    noise = scale * ndtri(points)

    def gap(features: list[int]) -> float:
        moved = np.repeat(x[None], len(points), axis=0)
        moved[:, features] += noise[:, features]
        return np.mean((ensemble.predict(moved) - ensemble.predict(x[None])) ** 2)

    order: list[int] = []
    while len(order) < len(x):
        gaps = {i: gap([*order, i]) for i in range(len(x)) if i not in order}
        best = max(gaps.values())
        order.append(min(i for i, value in gaps.items() if value >= best * (1 - 1e-12)))
    return order


# ---- pieces --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.3, 1.0])
@pytest.mark.parametrize("n", [1, 7, 200])
def test_orders_are_those_of_perturbed_rows(subjects, scale, n):
    found = set()
    for number, subject in enumerate(subjects):
        explainer = Explainer(subject.ensemble, Normal(scale))
        for row, x in enumerate(subject.X):
            points = np.random.default_rng([number, row]).random((n, D))
            order = sampled_order(explainer, x, points)
            assert order.tolist() == slow_order(subject.ensemble, x, points, scale)
            found.add(tuple(order))
    assert len(found) > 5


def test_many_samples_give_the_exact_order(subjects):
    subject = subjects[0]
    explainer = Explainer(subject.ensemble, Normal(1.0))
    points = np.random.default_rng(0).random((100_000, D))
    exact = explainer.rank(subject.X[:4]).order
    np.testing.assert_array_equal([sampled_order(explainer, x, points) for x in subject.X[:4]], exact)


def test_differences_by_definition(subjects):
    subject = subjects[0]
    explainer = Explainer(subject.ensemble, Normal(1.0))
    X, exact = subject.X[:4], explainer.rank(subject.X[:4]).order
    assert differences(explainer, X, exact, exact) == [0, 0, 0, 0, 0]

    sampled = exact.copy()
    sampled[0] = exact[0, [1, 0, 2, 3, 4]]  # the first, not the first three
    sampled[1] = exact[1, [0, 1, 3, 2, 4]]  # the first three, not the first
    order, gap, first, top3, lost = differences(explainer, X, exact, sampled)
    assert (order, gap, first, top3) == (0.5, 0.5, 0.25, 0.25)
    pgi2, best = explainer.pgi2(X, sampled), explainer.pgi2(X, exact)
    assert lost == pytest.approx((best - pgi2).sum() / best.sum(), rel=1e-10)
    assert lost > 0


def test_what_changes_no_gap_differs_in_order_only(subjects):
    X = subjects[0].X
    explainer = Explainer(subjects[0].ensemble, Normal([1.0, 1.0, 1.0, 1e-9, 1.0]))
    exact = explainer.rank(X).order
    other = np.array([0, 3, 2, 1, 4])[exact]  # feature 1 is not used, feature 3 hardly moves
    order, gap, first, _, lost = differences(explainer, X, exact, other)
    assert (order, gap, first, lost) == (1, 0, 0, 0)


def test_nothing_to_lose_is_none(subjects):
    subject = subjects[0]
    explainer = Explainer(subject.ensemble, Normal(1e-12))
    exact = explainer.rank(subject.X).order
    assert explainer.pgi2(subject.X, exact).sum() == 0
    assert differences(explainer, subject.X, exact, exact[:, ::-1]) == [1, 0, 1, 1, None]


# ---- the table -----------------------------------------------------------------------------------


def test_rows_of_the_table(table):
    assert len(table) == 2 * 2 * 3 * 2
    assert {(row["n_samples"], row["samples_per_row"]) for row in table.records()} == {
        (20, 20 * (5 + 4 + 3 + 2)),
        (300, 300 * 14),
    }
    assert set(table.column("n_rows")) == {8}
    for row in table.records():
        assert row["order_differs"] >= max(row["gap_differs"], row["first_differs"], row["top3_differs"])
    for name, apart in (("gap_differs", 0.1), ("lost", 0.005)):
        few, many = (np.mean([row[name] for row in table.where(n_samples=n)]) for n in (20, 300))
        assert few > many + apart


def test_a_row_of_the_table_from_its_pieces(table, subjects):
    """The streams, too: by seed, name, row and method."""
    subject = subjects[1]
    explainer = Explainer(subject.ensemble, Normal(0.3))
    X = subject.X[:8]
    exact = explainer.rank(X).order
    for use, method in enumerate(("mc", "halton", "sobol")):
        sampled = []
        for r, x in enumerate(X):
            entropy = (0, zlib.crc32(b"Single tiny"), zlib.crc32(b"sampled-rankings"))
            rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(r, use)))
            points = sampled_rankings.draw_points(method, D, 20, rng)
            sampled.append(slow_order(subject.ensemble, x, points, 0.3))
        (row,) = table.where(kind="Single", scale=0.3, method=method, n_samples=20)
        expected = differences(explainer, X, exact, np.array(sampled))
        assert [row[name] for name in sampled_rankings.COLUMNS[-5:]] == expected


def test_the_same_for_any_threads_parts_scales_and_counts(table, subjects, tmp_path):
    told = []
    second = sampled_rankings.run(CONFIG, subjects[1:], n_jobs=2, progress=lambda *steps: told.append(steps))
    assert second.rows == table.rows[len(table) // 2 :]
    assert told == [(done, 8) for done in range(1, 9)]
    less = replace(CONFIG, scales=(1.0,), n_samples=(20,))
    assert set(sampled_rankings.run(less, subjects).rows) < set(table.rows)
    assert sampled_rankings.run(replace(CONFIG, seed=1), subjects).rows != table.rows
    table.save(tmp_path)
    assert Result.load(tmp_path, "sampled-rankings").rows == table.rows
    manifest = json.loads((tmp_path / "sampled-rankings.json").read_text())
    assert manifest["config"] == {"scales": [0.3, 1.0], "n_samples": [20, 300], "n_rows": 8}


def test_all_rows_if_there_are_fewer(subjects):
    result = sampled_rankings.run(Config(scales=(1.0,), n_samples=(1,), n_rows=99), subjects[:1])
    assert set(result.column("n_rows")) == {N}


@pytest.mark.parametrize("wrong", [{"n_samples": ()}, {"n_samples": (0,)}, {"n_rows": 0}, {"seed": -1}])
def test_impossible_configs_are_refused(wrong):
    with pytest.raises(PredgapError, match="impossible"):
        Config(**wrong)


# ---- the paper's models --------------------------------------------------------------------------


@pytest.mark.slow_paper
def test_a_hundred_samples_hardly_ever_give_the_exact_order(shared_data):
    """But the first feature is mostly right, and little PGI² is lost."""
    subjects = authors_subjects(shared_data, kinds=["Bigger"])
    rows = sampled_rankings.run(Config(scales=(0.3,), n_samples=(100,), n_rows=20), subjects).records()
    assert len(rows) == 9
    assert all(row["order_differs"] >= row["gap_differs"] >= 0.6 for row in rows)
    assert np.mean([row["first_differs"] for row in rows]) < 0.15
    assert 0.1 < np.mean([row["top3_differs"] for row in rows]) < 0.4
    assert 0.001 < np.mean([row["lost"] for row in rows]) < 0.03


@pytest.mark.slow_paper
def test_small_noise_seldom_reaches_a_threshold_of_a_single_tree(shared_data):
    """Samples that all stay where they are cannot tell features apart, not even 10,000 of them."""
    subjects = authors_subjects(shared_data, kinds=["Single"], datasets=["housing"])
    result = sampled_rankings.run(Config(scales=(0.1, 1.0), n_samples=(10_000,), n_rows=50), subjects)
    assert min(row["first_differs"] for row in result.where(scale=0.1)) > 0.1
    assert max(row["first_differs"] for row in result.where(scale=1.0)) == 0
    assert max(map(abs, result.column("lost"))) < 1e-3
