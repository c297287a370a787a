"""Infidelity and monotonicity: the definitions, and what is refused."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from effort import cases
from predgap import (
    Categories,
    Discrete,
    Explainer,
    Flip,
    Laplace,
    Marginal,
    NoiseError,
    Normal,
    Ranking,
    RankingError,
    Stay,
    StudentT,
    Uniform,
    metrics,
)
from predgap.metrics._infidelity import shift_of
from predgap.noise._laws import LaplaceLaw, Law, NormalLaw, StudentTLaw, UniformLaw
from strategies import Split, ensemble_of, random_ensemble


@pytest.mark.parametrize("seed", range(cases(8, 60)))
def test_infidelity_is_the_mean_over_all_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ensemble = random_ensemble(rng, n_trees=3, depth=3, n_features=3)
    values, weights = np.array([-1.0, 0.25, 2.0]), np.array([0.25, 0.5, 0.25])
    x, slopes = rng.normal(size=3), rng.normal(size=3)
    wanted, here = 0.0, float(ensemble.predict(x[None])[0])
    for cell in product(range(4), repeat=3):  # the last: it stays
        probability = np.prod([0.5 if i == 3 else 0.5 * weights[i] for i in cell])
        moved = np.array([x[q] if i == 3 else values[i] for q, i in enumerate(cell)])
        change = float(ensemble.predict(moved[None])[0]) - here
        wanted += probability * (slopes @ (moved - x) - change) ** 2
    explainer = Explainer(ensemble, Stay(Discrete(values, weights), 0.5))
    assert metrics.infidelity(explainer, x[None], slopes[None])[0] == pytest.approx(wanted, rel=1e-11)


@pytest.mark.parametrize("law", [NormalLaw(0.7), UniformLaw(0.7), LaplaceLaw(0.7), StudentTLaw(4.0, 0.7)])
def test_moments_of_noise_are_integrals(law: Law) -> None:
    thresholds = np.array([-1.5, 0.2, 0.3, 0.45, 2.0])
    found = shift_of(law, 0.3, thresholds)
    below = law.tails(np.array([0.3]), thresholds)[0][0]

    def cdf(t: float) -> float:
        return float(law.tails(np.array([0.0]), np.array([t]))[0][0, 0])

    # E[δ; δ < u] = u F(u) - ∫ F up to u
    for threshold, covariance, own in zip(thresholds, found.covariance, below, strict=True):
        u = threshold - 0.3
        area = sum(
            integrate.quad(cdf, a, b, epsabs=1e-12)[0] for a, b in ((-np.inf, -3.0), (-3.0, u)) if b > a
        )
        assert covariance == pytest.approx(u * own - area, abs=1e-9)
    drawn = {NormalLaw: stats.norm(scale=0.7), UniformLaw: stats.uniform(-0.7, 1.4)}
    drawn |= {LaplaceLaw: stats.laplace(scale=0.7), StudentTLaw: stats.t(4.0, scale=0.7)}
    assert found.variance == pytest.approx(drawn[type(law)].var(), rel=1e-12)
    assert found.mean == 0.0


@pytest.mark.parametrize("noise", [Normal(0.6), Uniform(1.0), Laplace(0.5), StudentT(5.0, 0.5)])
def test_infidelity_is_near_its_samples(noise: Any) -> None:
    rng = np.random.default_rng(3)
    ensemble = random_ensemble(rng, n_trees=8, depth=3, n_features=3)
    X, slopes = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    found = metrics.infidelity(Explainer(ensemble, noise), X, slopes)
    for x, a, value in zip(X, slopes, found, strict=True):
        moved = noise.sample(np.tile(x, (20_000, 1)), rng)
        change = ensemble.predict(moved) - ensemble.predict(x[None])
        errors = ((moved - x) @ a - change) ** 2
        assert abs(errors.mean() - value) < 6 * errors.std() / np.sqrt(len(errors))


def test_redrawn_features_that_the_model_does_not_use_count() -> None:
    table = np.array([[0.0, 0.0], [1.0, 4.0]])
    stump = ensemble_of([Split(0, 0.5, 0.0, 1.0)], 2)
    found = metrics.infidelity(Explainer(stump, Marginal(table)), [[0.0, 0.0]], np.array([[1.0, 1.0]]))
    assert found[0] == pytest.approx(8.0, rel=1e-12)  # 4², half the time


def test_missing_values_do_not_move() -> None:
    stump = ensemble_of([Split(0, 0.5, 0.0, 1.0)], 1)
    found = metrics.infidelity(Explainer(stump, Normal(1.0)), [[np.nan]], np.array([[5.0]]))
    np.testing.assert_array_equal(found, [0.0])


def test_infidelity_refuses_what_has_no_slope() -> None:
    coloured = ensemble_of([Split(0, 0.0, 0.0, 1.0, categories=(1,))], 1, categories=[Categories([0, 1])])
    with pytest.raises(NoiseError, match="'f0' are categories"):
        metrics.infidelity(Explainer(coloured, Flip(0.5)), [[0]], np.array([[1.0]]))
    stump = ensemble_of([Split(0, 0.5, 0.0, 1.0)], 1)
    with pytest.raises(NoiseError, match="takes Normal"):
        metrics.infidelity(Explainer(stump, Flip(0.5)), [[0.0]], np.array([[1.0]]))
    with pytest.raises(NoiseError, match="no variance"):
        metrics.infidelity(Explainer(stump, StudentT(2.0, 1.0)), [[0.0]], np.array([[1.0]]))
    with pytest.raises(RankingError, match="the ranking has 2 rows, X has 1"):
        metrics.infidelity(Explainer(stump, Normal(1.0)), [[0.0]], np.ones((2, 1)))
    with pytest.raises(RankingError, match="needs an attribution of each feature"):
        metrics.monotonicity_correlation(Explainer(stump, Normal(1.0)), [[0.0]], Ranking([[0]]))


def test_monotonicity_is_spearmans_correlation() -> None:
    rng = np.random.default_rng(1)
    explainer = Explainer(random_ensemble(rng, n_trees=20, depth=3, n_features=6), Normal(0.8))
    X, values = rng.normal(size=(5, 6)), rng.normal(size=(5, 6)).round(1)
    found = metrics.monotonicity_correlation(explainer, X, values)
    gaps = np.stack([explainer.gap(X, [q]) for q in range(6)], axis=1)
    wanted = [stats.spearmanr(np.abs(a), g).statistic for a, g in zip(values, gaps, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert np.isnan(metrics.monotonicity_correlation(explainer, X[:1], np.ones((1, 6)))).all()
