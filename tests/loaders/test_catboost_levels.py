"""CatBoost's categories: gaps against its own predictions, and their labels from a table of levels."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import predgap
from catboost_ctr_models import (
    CATEGORICAL,
    CODES,
    JOBS,
    TARGETS,
    X_,
    rows_with_all_levels,
    trained,
)
from catboost_models import (
    assert_agrees,
    assert_same,
    margins_of,
    save,
    small_model,
)
from predgap.errors import EnsembleError, NoiseError, TableError
from predgap.loaders import load
from predgap.loaders.catboost import categories
from predgap.loaders.catboost.categories import hash_of

# ---- gaps ----


def enumerated(model: Any, row: pd.DataFrame, laws: dict[str, dict[Any, float]]) -> float:
    """E[(f(x') - f(x))²] by CatBoost's own predictions of all that may happen."""
    names = list(laws)
    cases = [*itertools.product(*(law.items() for law in laws.values()))]
    rows = pd.concat([row] * len(cases), ignore_index=True)
    for i, name in enumerate(names):
        rows[name] = [case[i][0] for case in cases]
    weights = np.array([np.prod([p for _, p in case]) for case in cases])
    moved = margins_of(model, rows) - margins_of(model, row)
    return float(weights @ (moved**2).sum(axis=1))


@pytest.mark.parametrize("loss", TARGETS)
@pytest.mark.parametrize("kind", ["default", "means"])
@pytest.mark.parametrize("levels", [False, True])
def test_gaps_under_marginal_noise_against_enumeration(kind: str, loss: str, levels: bool) -> None:
    """The table of the noise has labels that the model knows, and some that it does not."""
    model = trained(kind, loss)
    table = X_.iloc[:60].fillna(0.0)
    table.loc[:4, "job"] = "new"
    table.loc[:2, "code"] = 4
    ensemble = load(model, levels=X_) if levels else load(model)
    explainer = predgap.Explainer(ensemble, predgap.Marginal(table))
    shares = {name: table[name].value_counts(normalize=True).to_dict() for name in CATEGORICAL}
    for r in (0, 7):
        row = X_.iloc[[r]]
        for subset in (["job"], ["code"], ["job", "code"]):
            expected = enumerated(model, row, {name: shares[name] for name in subset})
            np.testing.assert_allclose(explainer.gap(row, subset), expected, rtol=1e-11)
            assert expected > 0


@pytest.mark.parametrize("loss", ["RMSE", "MultiClass"])
def test_flips_among_given_levels_and_files(loss: str, tmp_path: Path) -> None:
    """More levels than the model has: the others are unknown to it, but levels like any other."""
    model = trained("default", loss)
    flip = predgap.PerFeature(
        {"job": predgap.Flip(0.3), "code": predgap.Flip(0.2)}, default=predgap.Normal(1.0)
    )
    with pytest.raises(NoiseError, match=r"predgap.load\(model, levels=X\)"):
        predgap.Explainer(model, flip)
    with pytest.raises(EnsembleError, match=r"predgap.load\(model, levels=X\)"):
        load(model).save(tmp_path / "model.predgap")
    jobs, codes = [*JOBS, "late", "later"], [*CODES, 9]
    named = load(model, levels={"job": jobs[::-1] + jobs, "code": np.array(codes)})
    named.save(tmp_path / "model.predgap")
    again = load(tmp_path / "model.predgap")
    row = X_.iloc[[3]]
    job, code = row["job"].item(), row["code"].item()
    laws = {
        "job": {other: 0.7 if other == job else 0.3 / 10 for other in jobs},
        "code": {other: 0.8 if other == code else 0.2 / 7 for other in codes},
    }
    for ensemble in (named, again):
        explainer = predgap.Explainer(ensemble, flip)
        for subset in (["job"], ["code"], ["job", "code"]):
            expected = enumerated(model, row, {name: laws[name] for name in subset})
            np.testing.assert_allclose(explainer.gap(row, subset), expected, rtol=1e-11)


# ---- tables of levels ----


def test_levels_are_those_of_the_table_in_any_form(tmp_path: Path) -> None:
    model = trained()
    expected = load(model, levels={"job": JOBS, "code": CODES})
    job, code = expected.categorical()[1], expected.categorical()[2]
    assert job.labels == tuple(JOBS)
    assert code.labels == tuple(CODES)
    assert code.codes.tolist() == CODES
    assert job.complete
    assert code.complete
    forms = [
        X_,
        X_[["job", "code"]][::-1].assign(target=1.0),
        pl.from_pandas(X_),
        X_.to_numpy(dtype=object),
        X_.astype({"job": "category", "code": str}),
        {"code": map(str, CODES), "job": X_["job"]},
    ]
    for form in forms:
        assert_same(load(model, levels=form), expected)
    assert_same(load(save(model, tmp_path / "m.cbm"), levels=X_), expected)
    assert_same(load(save(model, tmp_path / "m.json"), levels=X_), expected)
    assert_same(load(expected, levels=X_), expected)
    rows = rows_with_all_levels(expected)
    expected.save(tmp_path / "m.predgap")
    again = load(tmp_path / "m.predgap")
    for form in (rows, rows[::-1], pl.from_pandas(rows)):
        np.testing.assert_array_equal(again.predict(form), expected.predict(form))
    assert job.codes_of(["new", "job 3"]).tolist() == [-1.0, 3.0]
    assert code.codes_of(["7", 7, np.int8(7), 7.0, 9]).tolist() == [7.0] * 4 + [-1.0]


def test_levels_of_some_features() -> None:
    some = load(trained(), levels={"job": JOBS}).categorical()
    assert some[1].complete
    assert not some[2].complete


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        ({"job": JOBS[1:]}, r"levels lacks 1 of the 9 categories that the model has for feature 'job'"),
        (X_[:3], "levels lacks"),
        ({"jobs": JOBS}, "levels has 'jobs'; did you mean 'job'"),
        ({"x": [1.0]}, "levels has 'x'; the model's categorical features are 'job', 'code'"),
        ({"job": "job 1"}, "expected a list of labels"),
        ({"job": 3}, "expected a list of labels"),
        ({"job": [*JOBS, None]}, "levels of feature 'job': a missing value is no category"),
        ({"job": [*JOBS, 0.5]}, r"0\.5 \(float\) is no category"),
        (X_[["x", "z"]], "none of the model's categorical features 'job', 'code'"),
        (np.zeros((3, 2)), "levels has 2 columns, the model 4"),
        (3, "expected a NumPy array"),
    ],
)
def test_other_tables_of_levels_are_refused(levels: Any, says: str) -> None:
    with pytest.raises(TableError, match=says):
        load(trained(), levels=levels)


def test_levels_of_models_that_need_none_are_refused() -> None:
    with pytest.raises(TableError, match="levels is for categories that a model stores without their labels"):
        load(small_model(), levels=X_)


def text_with_the_hash_of(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for i in range(100_000):
        monkeypatch.setattr(categories, "_TAIL", f"{i:08}".encode())
        found = categories.text_with(hash_of(text))
        if found.isascii():
            return found.decode()
    raise AssertionError


def test_labels_with_the_same_hash_are_levels_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """CatBoost does not tell them apart, so both go where the one goes that it was trained on."""
    twin = text_with_the_hash_of("job 2", monkeypatch)
    model = trained()
    ensemble = load(model, levels={"job": [*JOBS, twin]})
    job = ensemble.categorical()[1]
    assert len(job) == len(JOBS) + 1
    assert len(set(job.codes_of(["job 2", twin]).tolist())) == 2
    rows = X_.iloc[:2].assign(job=["job 2", twin], x=0.0, code=3, z=0.0)
    assert len(set(margins_of(model, rows).ravel())) == 1
    assert_agrees(ensemble, rows, margins_of(model, rows))
