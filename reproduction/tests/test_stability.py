"""Algorithm 1 by its definition, in both arithmetics, and how often its gaps are wrong."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import erfc

from predgap import Ensemble, Explainer, Normal, PredgapError, Uniform
from predgap._model.ensemble import LEAF
from predgap._model.rounding import fields_of_rows
from predgap.algorithm1 import algorithm1_gap
from reproduction.experiments import stability
from reproduction.experiments.stability import Config, shares
from reproduction.models import Subject, authors_subjects, draw_pairs
from reproduction.results import Result
from strategies import Split, ensemble_of, random_ensemble

D = 4
CONFIG = Config(scales=(0.1, 1.0), n_pairs=30)


def float32_model(seed: int) -> Ensemble:
    """Thresholds and leaves that float32 can hold, and rows rounded to it, as XGBoost has them.

    The last feature is not used: some gaps are 0.
    """
    grown = random_ensemble(np.random.default_rng(seed), n_trees=5, depth=3, n_features=D, used=range(D - 1))
    return replace(
        grown,
        **fields_of_rows(np.float32, np.float32(grown.threshold)),
        value=np.float32(grown.value),
    )


def subject_of(ensemble: Ensemble, X: np.ndarray, **names: str) -> Subject:
    return Subject(
        **({"kind": "Bigger", "dataset": "wine"} | names),
        model=Path("none.json"),
        X=X,
        y=np.zeros(len(X)),
        files={"models/none.json": "0" * 64},
        ensemble=ensemble,
    )


@pytest.fixture(scope="module")
def tiny() -> Subject:
    """Half of the values equal a threshold."""
    ensemble, rng = float32_model(0), np.random.default_rng(1)
    X = rng.normal(size=(9, D))
    for j in range(D - 1):
        cuts = np.float32(ensemble.threshold[ensemble.feature == j])
        chosen = rng.random(len(X)) < 0.5
        X[chosen, j] = rng.choice(cuts, chosen.sum())
    return subject_of(ensemble, X)


# ---- Algorithm 1, as the paper derives it --------------------------------------------------------

Box = dict[int, tuple[Any, Any]]  # intervals [l, r) of the features on a path


def leaves(ensemble: Ensemble, root: int, real: Any) -> list[tuple[Any, Box]]:
    """Values and boxes of a tree's leaves."""

    def below(node: int, box: Box) -> list[tuple[Any, Box]]:
        q = int(ensemble.feature[node])
        if q == LEAF:
            return [(real(ensemble.value[node, 0]), box)]
        t = real(ensemble.threshold[node])
        l, r = box.get(q, (real(-np.inf), real(np.inf)))  # noqa: E741
        left, right = box | {q: (l, min(r, t))}, box | {q: (max(l, t), r)}
        return below(int(ensemble.left[node]), left) + below(int(ensemble.right[node]), right)

    return below(root, {})


def probability(box: Box, x: np.ndarray, subset: np.ndarray, scale: float, real: Any) -> Any:
    """Π(u): that the perturbed row lies in the box."""

    def cdf(q: int, t: Any) -> Any:
        return real(0.5) * erfc((real(x[q]) - t) / real(scale) * real(np.sqrt(0.5)))

    product = real(1)
    for q, (l, r) in box.items():  # noqa: E741
        if l >= r:
            return real(0)
        product *= cdf(q, r) - cdf(q, l) if subset[q] else real(l <= real(x[q]) < r)
    return product


def both(one: Box, other: Box) -> Box:
    """The intersection of two boxes."""
    whole = dict(one)
    for q, (l, r) in other.items():  # noqa: E741
        whole[q] = (max(l, one[q][0]), min(r, one[q][1])) if q in one else (l, r)
    return whole


def by_definition(ensemble: Ensemble, x: np.ndarray, subset: np.ndarray, scale: float, real: Any) -> Any:
    """c² + Σ_{u,v} y_u y_v Π(u,v) - 2c Σ_u y_u Π(u), every operation in the arithmetic of `real`."""
    every = [leaf for root in ensemble.root for leaf in leaves(ensemble, int(root), real)]
    still = np.zeros(D, dtype=bool)
    c = real(0)
    for value, box in every:
        c += value * probability(box, x, still, scale, real)
    total = c * c
    for value, box in every:
        total -= real(2) * c * value * probability(box, x, subset, scale, real)
    for (u, one), (v, other) in itertools.product(every, every):
        total += u * v * probability(both(one, other), x, subset, scale, real)
    assert type(total) is real
    return total


def size(ensemble: Ensemble, X: np.ndarray) -> np.ndarray:
    """(|c| + Σ_t max |leaf|)², which the sizes of all terms add up to at most."""
    largest = [max(abs(value) for value, _ in leaves(ensemble, int(root), float)) for root in ensemble.root]
    return (np.abs(ensemble.predict(X) - ensemble.bias[0]) + sum(largest)) ** 2


ROUNDINGS = 4
"""Errors to allow for, in eps of `size`: 40 leaves make 1,640 terms, added one by one. Errors of eps / 2 of a
partial sum and of random sign come to 20 eps of it; as terms of either sign cancel, partial sums are well
below a fifth of `size`. The few roundings within a term are lost in these."""


def problems(tiny: Subject) -> list[tuple[np.ndarray, np.ndarray, float]]:
    pairs = draw_pairs(tiny, 8, seed=0)
    X = tiny.ensemble.cast(pairs.X)
    return [(x, mask, (0.1, 1.0)[i % 2]) for i, (x, mask) in enumerate(zip(X, pairs.masks, strict=True))]


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_algorithm_1_is_its_definition(tiny, real):
    assert np.sum(tiny.ensemble.feature == LEAF) == 40
    for x, mask, scale in problems(tiny):
        explainer = Explainer(tiny.ensemble, Normal(scale))
        (found,) = algorithm1_gap(explainer, x[None], mask[None], float32=real is np.float32)
        expected = by_definition(tiny.ensemble, x, mask, scale, real)
        error = abs(found - float(expected)) / size(tiny.ensemble, x[None])[0]
        assert error < ROUNDINGS * np.finfo(real).eps


def test_float32_is_float64_with_larger_rounding_errors():
    errors, exact = [], 0
    for seed in range(4):
        ensemble, rng = float32_model(seed), np.random.default_rng(10 + seed)
        X, masks = rng.normal(size=(200, D)), rng.random((200, D)) < 0.6
        for scale in (0.1, 1.0):
            explainer = Explainer(ensemble, Normal(scale))
            single, double = (algorithm1_gap(explainer, X, masks, float32=narrow) for narrow in (True, False))
            errors.append(np.max(np.abs(single - double) / size(ensemble, X)) / np.finfo(np.float32).eps)
            exact += np.sum(single == double)
            np.testing.assert_array_equal(single, np.float32(single))
            assert (double != np.float32(double)).mean() > 0.5
            assert np.abs(double - explainer.gap(X, masks)).max() < 1e-12
    assert 0.1 < min(errors) <= max(errors) < ROUNDINGS
    assert exact < 0.1 * 8 * 200  # rows that nothing moves have gaps of 0 in both


def test_every_row_has_its_own_subset_and_answer(tiny):
    explainer = Explainer(tiny.ensemble, Normal(0.3))
    pairs = draw_pairs(tiny, 12, seed=2)
    for narrow in (True, False):
        together = algorithm1_gap(explainer, pairs.X, pairs.masks, float32=narrow)
        one_by_one = [
            algorithm1_gap(explainer, pairs.X[i : i + 1], pairs.masks[i : i + 1], float32=narrow)[0]
            for i in range(12)
        ]
        assert together.tolist() == one_by_one
        backwards = algorithm1_gap(explainer, pairs.X[::-1], pairs.masks[::-1], float32=narrow)
        assert backwards[::-1].tolist() == one_by_one


def test_rows_are_rounded_as_the_model_rounds_them(tiny):
    """A value just below a threshold, and equal to it in float32, is not below it."""
    node = int(tiny.ensemble.root[0])
    q, t = int(tiny.ensemble.feature[node]), float(np.float32(tiny.ensemble.threshold[node]))
    at, below = np.zeros((2, 1, D))
    at[0, q], below[0, q] = t, np.nextafter(t, -np.inf)
    masks = np.array([[j != q for j in range(D)]])
    for narrow in (True, False):
        explainer = Explainer(tiny.ensemble, Normal(0.3))
        gaps = [algorithm1_gap(explainer, x, masks, float32=narrow)[0] for x in (at, below)]
        assert gaps[0] == gaps[1]


def test_scales_may_differ_between_features(tiny):
    scales = [0.1, 0.2, 0.4, 0.8]
    explainer = Explainer(tiny.ensemble, Normal(scales))
    pairs = draw_pairs(tiny, 12, seed=0)
    found = algorithm1_gap(explainer, pairs.X, pairs.masks, float32=False)
    np.testing.assert_allclose(found, explainer.gap(pairs.X, pairs.masks), rtol=1e-9, atol=1e-12)


def test_only_normal_noise_is_taken(tiny):
    masks = np.ones((1, D), dtype=bool)
    with pytest.raises(PredgapError, match="3 of 3 features have noise that is not normal"):
        algorithm1_gap(Explainer(tiny.ensemble, Uniform(1.0)), tiny.X[:1], masks, float32=True)


# ---- shares --------------------------------------------------------------------------------------


def test_shares_by_hand():
    exact = np.array([4.0, 4.0, 4.0, 4.0, 4.0, 0.0, 0.0, 0.0])
    found = np.array([4.0, 4.4, 3.0, -4.0, 0.0, 0.0, 1.0, -1.0])
    negative, zero, wrong, median, error_95, ratio = shares(exact, found, 0.2)
    assert negative == 2 / 8
    assert zero == 1 / 8
    assert wrong == 5 / 8  # 3, -4, 0, and both that should be 0
    relative = [0.0, 0.1, 0.25, 1.0, 2.0]
    assert median == 0.25
    assert error_95 == pytest.approx(relative[3] + 0.8 * (relative[4] - relative[3]), rel=1e-12)
    assert ratio == pytest.approx((0 + 0.4 + 1 + 8 + 4 + 0 + 1 + 1) / 20, rel=1e-12)


def test_an_error_of_just_the_tolerance_is_not_wrong():
    exact = np.array([4.0, 4.0])
    assert shares(exact, np.array([5.0, 3.0]), 0.25)[2] == 0
    assert shares(exact, np.array([5.0, 3.0]), 0.2499)[2] == 1


def test_no_gaps_have_no_relative_errors():
    assert shares(np.zeros(2), np.zeros(2), 0.01) == (0.0, 0.0, 0.0, None, None, None)


# ---- the table -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(tiny) -> Result:
    return stability.run(CONFIG, [tiny])


def test_rows_are_those_of_the_pairs(tiny, table):
    pairs = draw_pairs(tiny, CONFIG.n_pairs, CONFIG.seed)
    assert table.columns == stability.COLUMNS
    found = [(row["scale"], row["arithmetic"]) for row in table.records()]
    assert found == [(0.1, "float32"), (0.1, "float64"), (1.0, "float32"), (1.0, "float64")]
    for row in table.records():
        explainer = Explainer(tiny.ensemble, Normal(row["scale"]))
        exact = explainer.gap(pairs.X, pairs.masks)
        gaps = algorithm1_gap(explainer, pairs.X, pairs.masks, float32=row["arithmetic"] == "float32")
        names = ("negative", "zero", "wrong", "median_error", "error_95", "nmae")
        assert tuple(row[name] for name in names) == shares(exact, gaps, CONFIG.tolerance)
        assert row["n_positive"] == sum(y > 0 for y in exact) < 30
        assert row["n_pairs"] == 30
        assert (row["kind"], row["dataset"]) == ("Bigger", "wine")


def test_gaps_that_are_small_against_the_prediction_are_lost():
    """Leaves around 1000 that differ by 0.01: a gap of up to 1e-4 in sums around 1e6, which float32 cannot
    resolve to better than 0.06. The bias does not matter."""
    trees = [Split(q, t, 1000.0, 1000.01) for q, t in ((0, 0.0), (1, 0.1), (0, 0.4))]
    ensemble = replace(ensemble_of(trees, 2), bias=[-3000.0])
    subject = subject_of(ensemble, np.random.default_rng(0).normal(size=(20, 2)))
    narrow, wide = stability.run(Config(scales=(0.5,), n_pairs=100), [subject]).records()
    assert narrow["n_positive"] == 100
    assert narrow["wrong"] > 0.95
    assert narrow["negative"] + narrow["zero"] > 0.3
    assert (wide["negative"], wide["zero"], wide["wrong"]) == (0, 0, 0)
    assert 0 < wide["median_error"] < 1e-4


def test_the_same_for_any_number_of_threads_and_company(tiny, table, monkeypatch):
    monkeypatch.setattr(stability, "_BLOCK", 7)
    for n_jobs in (1, 2, -1):
        assert stability.run(CONFIG, [tiny], n_jobs=n_jobs).rows == table.rows
    other = subject_of(float32_model(3), tiny.X, dataset="housing")
    whole = stability.run(replace(CONFIG, scales=(0.3, 0.1, 1.0)), [other, tiny])
    assert tuple(row for row in whole.rows if row[1] == "wine" and row[2] != 0.3) == table.rows
    assert stability.run(replace(CONFIG, seed=1), [tiny]).rows != table.rows


def test_progress_and_saving(tiny, table, tmp_path):
    told = []
    stability.run(replace(CONFIG, n_pairs=5), [tiny, tiny], progress=lambda *now: told.append(now))
    assert told == [(done, 8) for done in range(1, 9)]
    table.save(tmp_path)
    assert Result.load(tmp_path, "stability").rows == table.rows


@pytest.mark.parametrize("wrong", [{"n_pairs": 1}, {"tolerance": 0.0}, {"tolerance": 1.0}])
def test_impossible_configs_are_refused(wrong):
    with pytest.raises(PredgapError, match="is impossible; expected"):
        Config(**wrong)


# ---- the paper's models --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authors(shared_data) -> dict[str, Subject]:
    return {subject.name: subject for subject in authors_subjects(shared_data)}


@pytest.mark.slow_paper
@pytest.mark.parametrize("scale", [0.1, 0.3, 1.0])
def test_algorithm_1_in_float64_agrees_where_gaps_are_not_tiny(authors, scale):
    """Its errors are some 1e-14 of c², whatever the gap."""
    for subject in authors.values():
        n_pairs = 33 if subject.kind == "Bigger" else 200
        pairs = draw_pairs(subject, n_pairs, seed=0)
        explainer = Explainer(subject.ensemble, Normal(scale))
        exact = explainer.gap(pairs.X, pairs.masks)
        found = algorithm1_gap(explainer, pairs.X, pairs.masks, float32=False)
        square = (subject.ensemble.predict(pairs.X) - subject.ensemble.bias[0]) ** 2
        assert (np.abs(found - exact) < 1e-12 * size(subject.ensemble, pairs.X)).all()
        large = exact > 1e-4 * square
        assert large.sum() > n_pairs // 5
        np.testing.assert_allclose(found[large], exact[large], rtol=1e-8)


@pytest.mark.slow_paper
def test_float32_loses_small_gaps_of_the_papers_models(authors):
    """The paper takes its errors as a sign of stability; they are means, in which small gaps do not show."""
    config = Config(scales=(0.1, 1.0), n_pairs=110)
    result = stability.run(config, [authors["Bigger wine"]], n_jobs=2)
    narrow, wide = result.where(scale=0.1)
    assert narrow["nmae"] < 1e-4
    assert narrow["wrong"] > 0.05
    assert narrow["negative"] > 0
    assert wide["wrong"] < 0.4 * narrow["wrong"]  # some gaps are too small even for float64
    assert result.where(scale=1.0, arithmetic="float32")[0]["wrong"] < 0.5 * narrow["wrong"]


@pytest.mark.slow_paper
def test_a_fifth_of_the_gaps_of_single_trees_is_lost(authors):
    """They come out as exactly 0 in float32, and many of them in float64 too."""
    singles = [subject for subject in authors.values() if subject.kind == "Single"]
    for row in stability.run(Config(scales=(0.1,), n_pairs=1000), singles).records():
        low, high = (0.16, 0.24) if row["arithmetic"] == "float32" else (0.09, 0.15)
        assert low < row["zero"] < high
        assert row["wrong"] > row["zero"]
        assert row["nmae"] < 1e-6
