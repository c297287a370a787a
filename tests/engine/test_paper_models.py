"""The paper's models: the strategies against each other, a high-precision reference, and sampling."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from assertions import exactly
from predgap import Explainer, Normal
from predgap._model.ensemble import LEAF, Ensemble
from predgap._model.rounding import fields_of_rows
from reference import Row, gap_in_longdouble, monte_carlo, normal_tails, thresholds_of
from strategies import mask_of

SINGLE = ("winequality_red_single", "housing_single", "telemetry_single")
BIGGER = ("winequality_red", "housing", "telemetry")
MODELS = (*SINGLE, *BIGGER, "heloc")
SCALES = (0.1, 0.3, 1.0)

every_model = pytest.mark.parametrize("model", MODELS)
every_scale = pytest.mark.parametrize("scale", SCALES)
each_strategy = pytest.mark.parametrize("strategy", ["plan", "compiled", "pairs"])


@cache
def ensemble_of_file(path: Path) -> Ensemble:
    """The trees of an XGBoost JSON file, read without the loaders."""
    learner = json.loads(path.read_text())["learner"]
    trees = learner["gradient_booster"]["model"]["trees"]
    offset = np.cumsum([0] + [len(tree["left_children"]) for tree in trees])

    def column(name: str) -> np.ndarray:
        return np.concatenate([tree[name] for tree in trees])

    start = np.repeat(offset[:-1], np.diff(offset))
    leaf = column("left_children") == -1
    numbers = column("split_conditions").astype(np.float32).astype(np.float64)  # thresholds, or leaf values
    return Ensemble(
        root=offset[:-1],
        feature=np.where(leaf, LEAF, column("split_indices")),
        **fields_of_rows(np.float32, np.where(leaf, 0.0, numbers)),
        left=np.where(leaf, LEAF, column("left_children") + start),
        right=np.where(leaf, LEAF, column("right_children") + start),
        default_left=column("default_left").astype(bool),
        value=np.where(leaf, numbers, 0.0)[:, None],
        target=np.zeros(len(trees)),
        bias=[0.0],
        n_features=int(learner["learner_model_param"]["num_feature"]),
    )


@cache
def rows_of_file(path: Path, n_features: int) -> np.ndarray:
    return np.genfromtxt(path, delimiter=",", skip_header=1)[:, :n_features]


def load(shared_data: Path, model: str, n_rows: int) -> tuple[Ensemble, np.ndarray]:
    ensemble = ensemble_of_file(shared_data / "models" / f"{model}.json")
    split = f"test_{model.removesuffix('_single')}_scaled.csv"
    return ensemble, rows_of_file(shared_data / "splits" / split, ensemble.n_features)[:n_rows]


def subsets_of_all_sizes(rng: np.random.Generator, d: int, sizes: tuple[int, ...]) -> list[list[int]]:
    return [[int(j) for j in rng.choice(d, size, replace=False)] for size in sizes]


@every_model
@every_scale
def test_the_strategies_agree(shared_data, model, scale):
    ensemble, X = load(shared_data, model, 1 if model == "heloc" else 20)
    rng = np.random.default_rng(1)
    pairs, *terms = (exactly(ensemble, Normal(scale), how) for how in ("pairs", "plan", "compiled"))
    for share in (0.15, 0.4, 0.7, 1.0):
        masks = rng.random(X.shape) < share
        gaps = pairs.gap(X, masks)
        for other in terms:
            np.testing.assert_allclose(other.gap(X, masks), gaps, rtol=1e-12, atol=0)
    if model != "heloc":  # where pairs take a quarter of a second each
        order = rng.permuted(np.tile(np.arange(X.shape[1]), (2, 1)), axis=1)
        curves = pairs.curve(X[:2], order)
        for other in terms:
            np.testing.assert_allclose(other.curve(X[:2], order), curves, rtol=1e-12, atol=0)


@each_strategy
@pytest.mark.parametrize("model", [*SINGLE, *BIGGER])
@every_scale
def test_gaps_match_the_reference(shared_data, strategy, model, scale):
    ensemble, X = load(shared_data, model, 2)
    d = ensemble.n_features
    explainer = exactly(ensemble, Normal(scale), strategy)
    for subset in subsets_of_all_sizes(np.random.default_rng(2), d, (1, 1, 3, d // 2, d)):
        exact = [gap_in_longdouble(ensemble, x, subset, normal_tails(scale)) for x in X]
        np.testing.assert_allclose(explainer.gap(X, mask_of(subset, d)), exact, rtol=1e-12, atol=0)


@each_strategy
@every_scale
def test_heloc_matches_the_reference(shared_data, strategy, scale):
    ensemble, X = load(shared_data, "heloc", 1)
    d = ensemble.n_features
    explainer = exactly(ensemble, Normal(scale), strategy)
    for subset in subsets_of_all_sizes(np.random.default_rng(3), d, (1, 2, 4, 8)):
        exact = gap_in_longdouble(ensemble, X[0], subset, normal_tails(scale))
        np.testing.assert_allclose(explainer.gap(X, mask_of(subset, d)), exact, rtol=1e-12, atol=0)


def far_from_thresholds(ensemble: Ensemble, x: np.ndarray, distance: float) -> tuple[np.ndarray, np.ndarray]:
    """x moved to the middle of its cells, and scales that put the ends of each at this many deviations."""
    x, scale = ensemble.cast(x[None, :])[0], np.ones(len(x))
    for j in range(len(x)):
        thresholds = np.array(thresholds_of(ensemble, j))
        left, right = thresholds[thresholds <= x[j]], thresholds[thresholds > x[j]]
        if len(left) and len(right):
            x[j] = np.float32((left[-1] + right[0]) / 2)
        if len(thresholds):
            scale[j] = np.abs(thresholds - x[j]).min() / distance
    return x, scale


@each_strategy
@pytest.mark.parametrize("model", [*SINGLE, *BIGGER])
@pytest.mark.parametrize(
    ("distance", "smallest", "largest"), [(10, 1e-30, 1e-10), (21.5, 1e-108, 1e-85), (36, 1e-290, 1e-265)]
)
def test_tails_match_the_reference(shared_data, strategy, model, distance, smallest, largest):
    ensemble, X = load(shared_data, model, 20)
    d = ensemble.n_features
    used = np.unique(ensemble.feature[ensemble.feature != LEAF])
    rng = np.random.default_rng(4)
    for row in X[[0, 10]]:
        x, scales = far_from_thresholds(ensemble, row, distance)
        explainer = exactly(ensemble, Normal(scales), strategy)
        for subset in ([int(rng.choice(used))], [int(j) for j in rng.choice(used, 3)], range(d)):
            exact = gap_in_longdouble(ensemble, x, subset, normal_tails(scales))
            found = explainer.gap(x[None, :], mask_of(subset, d))[0]
            assert abs(found - exact) <= 1e-12 * exact + 1e-305  # where doubles begin to lose digits
        assert smallest < exact < largest


@each_strategy
@every_model
def test_nothing_that_cannot_change_has_a_gap(shared_data, strategy, model):
    ensemble, X = load(shared_data, model, 5)
    d = ensemble.n_features
    unused = ~np.isin(np.arange(d), ensemble.feature)
    assert (exactly(ensemble, Normal(1.0), strategy).gap(X, unused) == 0).all()
    x, scales = far_from_thresholds(ensemble, X[0], 50.0)  # 1e-545: no double is that small
    explainer = exactly(ensemble, Normal(scales), strategy)
    assert (explainer.gap(x[None, :], np.ones(d, dtype=bool)) == 0).all()


@every_model
def test_gaps_match_sampling(shared_data, model):
    ensemble, X = load(shared_data, model, 3)
    d = ensemble.n_features
    rng = np.random.default_rng(6)
    informative = 0
    for scale in SCALES:
        explainer = Explainer(ensemble, Normal(scale))
        deltas = rng.normal(scale=scale, size=(2_000 if model == "heloc" else 20_000, d))
        for x, subset in zip(X, subsets_of_all_sizes(rng, d, (3, d // 2, d)), strict=True):
            mean, error = monte_carlo(ensemble, x, subset, deltas)
            if error < 0.1 * mean:  # else the sample saw too few of the events that matter
                informative += 1
                assert abs(explainer.gap(x[None, :], mask_of(subset, d))[0] - mean) <= 5 * error
    assert informative >= 3


@each_strategy
@every_scale
@pytest.mark.parametrize("model", [*SINGLE, *BIGGER])
def test_rankings_follow_the_definition(shared_data, strategy, scale, model):
    n_rows, n_places = (10, None) if model in SINGLE else (1, 3)  # the reference is slow on many trees
    ensemble, X = load(shared_data, model, n_rows)
    explainer = exactly(ensemble, Normal(scale), strategy)
    greedy, single = explainer.rank(X, method="greedy"), explainer.rank(X, method="single")
    for x, by_gain, by_gap in zip(X, greedy.order, single.order, strict=True):
        row = Row(ensemble, normal_tails(scale), x, gap_in_longdouble)
        row.assert_single(by_gap)
        row.assert_greedy(by_gain[:n_places])
    every = np.ones(ensemble.n_features, dtype=bool)
    np.testing.assert_allclose(greedy.scores.sum(axis=1), explainer.gap(X, every), rtol=1e-11, atol=0)
