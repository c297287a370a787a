"""Every source with its options: equal to its library, gaps equal to the definition and to its samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import effort
from matrix import CASES, Case, N, codes_of, predictions
from predgap import (
    Background,
    Clipped,
    Discrete,
    Explainer,
    Flip,
    FromScipy,
    Laplace,
    Marginal,
    Noise,
    Normal,
    PerFeature,
    Redraw,
    Relative,
    Rounded,
    Stay,
    StudentT,
    Uniform,
    load,
)
from predgap._model.ensemble import Ensemble
from reference import SummedRow, tails_of


def noise_of(ensemble: Ensemble) -> PerFeature:
    """Normal noise on numbers; on categories Flip, or Discrete where not all of them are known."""
    laws = {
        q: Flip(0.3) if levels.complete else Discrete(levels.labels)
        for q, levels in ensemble.categorical().items()
    }
    return PerFeature(laws, default=Normal(0.4))


@pytest.mark.parametrize("name", CASES)
def test_predictions_are_those_of_the_library_and_gaps_those_of_the_definition(name):
    case = CASES[name]
    model, X = case.train(), case.table_of()
    ensemble = load(model)
    theirs = np.asarray(case.margin(model, X), dtype=np.float64)
    size = np.abs(theirs).max()
    np.testing.assert_allclose(ensemble.predict(X), theirs, rtol=case.tolerance, atol=case.tolerance * size)

    rows = X.iloc[:2] if isinstance(X, pd.DataFrame) else X[:2]
    noise = noise_of(ensemble)
    explainer = Explainer(model, noise)
    order = explainer.rank(rows).order
    d = ensemble.n_features
    subsets = ([0], [1, 2], list(range(d)))
    found = [explainer.gap(rows, subset) for subset in subsets]
    codes = codes_of(ensemble, rows)
    for r, x in enumerate(codes):
        row = SummedRow(ensemble, tails_of(noise, ensemble), x)
        for subset, gaps in zip(subsets, found, strict=True):
            row.assert_gap(gaps[r], subset)
        row.assert_greedy(order[r, :2])
    assert max(gaps.max() for gaps in found) > 0


@pytest.mark.parametrize("name", CASES)
def test_joint_redraws_are_means_of_the_librarys_own_predictions(name):
    case = CASES[name]
    model, X = case.train(), case.table_of()
    explainer = Explainer(model, Background(X, max_rows=20, seed=1))
    drawn = np.sort(np.random.default_rng(1).choice(N, 20, replace=False))
    names = list(X.columns) if isinstance(X, pd.DataFrame) else list(range(X.shape[1]))
    table = pd.DataFrame(X)
    rows, background = table.iloc[:2], table.iloc[drawn].reset_index(drop=True)
    start = predictions(case, model, rows)
    largest = 0.0
    for subset in ([0], [1, 2], list(range(len(names)))):
        found = explainer.gap(rows if isinstance(X, pd.DataFrame) else rows.to_numpy(), subset)
        for r in range(2):
            redrawn = table.iloc[[r] * len(drawn)].reset_index(drop=True)
            for q in subset:
                redrawn[names[q]] = background[names[q]]
            change = predictions(case, model, redrawn) - start[r]
            error = case.tolerance * np.abs(start).max()  # of a prediction: XGBoost adds up in float32
            expected = (change**2).sum(axis=1)
            allowed = 2 * error * np.sqrt(change.shape[1] * expected.max()) + error**2
            assert found[r] == pytest.approx(expected.mean(), rel=1e-12, abs=4 * allowed)
            largest = max(largest, float(found[r]))
    assert largest > 0


NUMBERS: dict[str, Noise] = {
    "Normal": Normal(0.5),
    "Uniform": Uniform(0.7),
    "Laplace": Laplace(0.4),
    "StudentT": StudentT(3, 0.4),
    "Rounded": Rounded(Normal(0.5), 0.25),
    "Clipped": Clipped(Laplace(0.6), -1.0, 1.0),
    "Stay": Stay(Uniform(0.7), 0.4),
    "FromScipy": FromScipy(stats.gumbel_r(scale=0.4)),
    "Discrete": Discrete([-0.5, 0.0, 0.5]),
}
TABLES: dict[str, Callable[[Any], Noise]] = {
    "Relative": lambda X: Relative(X, 0.5),
    "Redraw": lambda X: Redraw(X, 0.4),
    "Marginal": Marginal,
    "Stay of Marginal": lambda X: Stay(Marginal(X), 0.3),
}


def laws_for(case: Case) -> dict[str, Noise]:
    """Every law; where the table has categories, these are redrawn beside laws of numbers."""
    X = case.table_of()
    numbers = NUMBERS
    if case.table == "colours":
        numbers = {name: PerFeature({"colour": Redraw(X, 0.4)}, law) for name, law in NUMBERS.items()}
    every = numbers | {name: law(X) for name, law in TABLES.items()}
    if case.options.get("missing") == 0.0:  # laws that may make a value 0 are refused
        return {name: every[name] for name in ("Normal", "Uniform", "Laplace", "StudentT", "FromScipy")}
    return every


@pytest.mark.parametrize("name", CASES)
def test_gaps_of_every_law_are_sampled_through_the_librarys_own_predictions(name):
    case = CASES[name]
    model, X = case.train(), case.table_of()
    table, n = pd.DataFrame(X), effort.cases(1000, 20_000)
    row = table.iloc[[3]]
    start = predictions(case, model, row)
    farthest = ((predictions(case, model, table) - start) ** 2).sum(axis=1).max()
    groups: dict[str, Sequence[int]] = {"first two": [0, 1]}
    moving = 0
    for seed, noise in enumerate(laws_for(case).values()):
        many = table.iloc[[3] * n].reset_index(drop=True)
        moved = pd.DataFrame(noise.sample(many if case.table == "colours" else many.to_numpy(), seed=seed))
        moved.columns = table.columns
        given = row if case.table == "colours" else row.to_numpy()
        explainer = Explainer(model, noise, groups=groups)
        rest = [unit for unit in range(table.shape[1] - 1) if unit]
        for subset, still in (([0], table.columns[2:]), ([0, *rest], [])):
            copies = moved.copy()
            copies[still] = many[still]
            squares = ((predictions(case, model, copies) - start) ** 2).sum(axis=1)
            (gap,) = explainer.gap(given, subset)
            error = squares.std() / np.sqrt(n) + case.tolerance * np.abs(start).max() * np.sqrt(gap)
            most = max(squares.max(), farthest)  # one rare copy moves the mean by up to most / n
            assert abs(squares.mean() - gap) <= 5 * error + 12 * most / n + 1e-12
            moving += gap > 0
    assert moving > 0


def test_the_matrix_is_not_thinned_out():
    assert len(CASES) >= 60
