"""Dummies that become one category, and numbers with holes: the rewritten ensemble against the old one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st

import predgap
from predgap import (
    Discrete,
    Explainer,
    Flip,
    Marginal,
    NoiseError,
    Normal,
    PerFeature,
    PredgapError,
    TableError,
    Uniform,
)
from predgap._inputs.categories import Categories
from predgap._inputs.one_hot import NO_DUMMY, OneHot
from predgap._model.ensemble import Ensemble
from predgap._model.rewriting import DummyTables, Levels, Line, rewritten, with_categories
from strategies import Split, ensemble_of, ensembles, trees

DUMMY_GRID = (-1.0, -0.0, 0.0, 0.25, 0.5, 1.0, 2.0)  # some separate 0 and 1, some do not


@st.composite
def one_hot_models(draw: st.DrawFn) -> tuple[Ensemble, OneHot]:
    """Five features, of which two, three or four are dummies of one or two categories."""
    some = trees(range(5), DUMMY_GRID, st.sampled_from([-1.0, 0.0, 2.5]), 4)
    ensemble = ensemble_of(
        draw(st.lists(some, max_size=4)),
        5,
        rows=draw(st.sampled_from([np.float32, np.float64])),
        missing=draw(st.sampled_from([math.nan, 0.0, 1.0])),
    )
    groups = draw(st.sampled_from([{"a": [1, 3]}, {"a": [4, 0, 2]}, {"b": [2], "a": [1, 3, 4]}]))
    return ensemble, OneHot.of(groups, 5, None, ensemble.missing)


@given(one_hot_models(), st.data())
def test_a_row_goes_where_its_dummies_go(model: tuple[Ensemble, OneHot], data: st.DataObject) -> None:
    ensemble, one_hot = model
    row = np.array(
        [data.draw(st.sampled_from([*DUMMY_GRID, math.nan, math.inf, -math.inf])) for _ in range(5)]
    )
    for old, levels in zip(one_hot.places, one_hot.levels, strict=True):
        if levels is not None:
            which = data.draw(st.integers(-1, len(old)))
            row[list(old)] = math.nan if which < 0 else np.eye(len(old) + 1, len(old))[which]
    new = with_categories(ensemble, one_hot)
    table = DummyTables(one_hot, ensemble).table(row[None], new).values
    np.testing.assert_array_equal(new.predict(table), ensemble.predict(row[None]))


@st.composite
def lines(draw: st.DrawFn) -> tuple[Line, Any]:
    """A column that rises or falls with x in steps of 1, and is missing to the model at some values."""
    sign = draw(st.sampled_from([1.0, -1.0]))
    holes = draw(st.sampled_from([(), (0.0,), (-1.0, 1.0)]))
    at_missing = draw(st.sampled_from([math.nan, -0.5, 1.0]))

    def old(x: float) -> float:
        if math.isnan(x):
            return at_missing
        y = sign * math.floor(x)
        return math.nan if y in holes else y

    thresholds = np.array(sorted({*(t for t in DUMMY_GRID), 0.0}))
    # y < t iff floor(x) < t iff x < ceil(t); falling: y = -floor(x) < t iff floor(x) > -t
    cuts = np.ceil(thresholds) if sign > 0 else np.floor(-thresholds) + 1
    spans = tuple((sign * y, sign * y + 1.0) for y in holes)
    return Line(0, thresholds, cuts, sign > 0, spans, at_missing), old


@given(
    st.lists(trees([0, 1], DUMMY_GRID, st.sampled_from([-1.0, 0.0, 2.5]), 4), min_size=1, max_size=3),
    lines(),
    st.sampled_from([-7.0, -2.0, -1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0, math.nan]),
    st.sampled_from([-7.0, 0.0, 0.5, 3.0, math.nan]),
)
def test_numbers_may_have_holes_and_fall(some: Any, line: tuple[Line, Any], x: float, other: float) -> None:
    column, old = line
    ensemble = ensemble_of(some, 2)
    thresholds = np.unique([*DUMMY_GRID, 0.0])
    new = rewritten(
        ensemble, [column, Line(1, thresholds, thresholds)], n_features=2, categories=[None, None]
    )
    np.testing.assert_array_equal(new.predict([[x, other]]), ensemble.predict([[old(x), other]]))


@given(ensembles(n_features=st.just(2)), st.sampled_from([0, 1, 2, 7, math.nan]), st.booleans())
def test_a_level_may_be_any_value(ensemble: Ensemble, code: float, is_open: bool) -> None:
    """One category feeds two columns: a code, and one that is missing at a level."""
    if code == 7 and not is_open:
        code = 0
    values = {0: (0.0, 0.1, 2.0), 1: (math.nan, 1.0, -1.5)}
    unseen, missing = {0: 0.25, 1: math.nan}, {0: math.nan, 1: 0.0}
    codes = np.arange(3, dtype=np.int32)
    columns = [
        Levels(
            0,
            codes,
            np.array(values[j]),
            unseen[j] if is_open else None,
            missing[j],
        )
        for j in (0, 1)
    ]
    new = rewritten(ensemble, columns, n_features=1, categories=[Categories(codes, closed=not is_open)])
    row = [
        missing[j] if math.isnan(code) else unseen[j] if code == 7 else values[j][int(code)] for j in (0, 1)
    ]
    np.testing.assert_array_equal(new.predict([[code]]), ensemble.predict([row]))


def test_a_model_that_would_grow_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("predgap._model.rewriting._GROWTH", -500)
    tree = Split(0, 0.5, 1.0, 2.0, default_left=False)
    line = Line(0, np.array([0.5]), np.array([0.5]), holes=((0.0, 0.25),))
    with pytest.raises(predgap.EnsembleError, match="would have more than -500 nodes"):
        rewritten(ensemble_of([tree], 1), [line], n_features=1, categories=[None])


# ---- an explainer with one_hot ----

RNG = np.random.default_rng(5)
JOBS = np.array(["clerk", "nurse", "cook", "none"])
JOB = RNG.choice(JOBS, 300, p=[0.4, 0.3, 0.2, 0.1])
FRAME = pd.DataFrame({"age": RNG.normal(50, 10, 300)}).join(
    pd.DataFrame({f"job_{job}": job == JOB for job in ("clerk", "nurse", "cook")})
)
FRAME["bmi"] = RNG.normal(25, 3, 300)
Y = (JOB == "nurse") * 3.0 + (JOB == "cook") * FRAME["age"] / 20 + FRAME["bmi"] / 5
DUMMIES = ["job_clerk", "job_nurse", "job_cook"]


@pytest.fixture(scope="module")
def model() -> Any:
    return xgboost.XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1).fit(FRAME, Y)


def test_dummies_move_together(model: Any) -> None:
    noise = PerFeature({"job": Marginal(FRAME)}, default=Normal(0.5))
    explainer = Explainer(model, noise, one_hot={"job": DUMMIES}, rtol=0)
    assert explainer.ensemble.names == ("age", "job", "bmi")
    levels = explainer.ensemble.categorical()[1]
    assert levels.labels == (*DUMMIES, NO_DUMMY)
    rows = FRAME[:20]
    np.testing.assert_allclose(
        explainer.ensemble.predict(explainer.transform(rows)), predgap.load(model).predict(rows), rtol=1e-12
    )
    expected = np.zeros(len(rows))
    for job in JOBS:  # the definition: each row with the dummies of each job
        moved = rows.assign(**{f"job_{other}": other == job for other in ("clerk", "nurse", "cook")})
        step = predgap.load(model).predict(moved) - predgap.load(model).predict(rows)
        expected += (job == JOB).mean() * step**2
    np.testing.assert_allclose(explainer.gap(rows, ["job"]), expected, rtol=1e-12, atol=1e-24)
    ranking = explainer.rank(rows)
    assert ranking.names == ("age", "job", "bmi")
    assert ranking.feature_space is None
    assert set(ranking.top(1).ravel()) <= {"age", "job", "bmi"}


@pytest.mark.filterwarnings("ignore:3 columns of X with only two values")  # the dummies
@pytest.mark.parametrize("noise", [Flip(0.3), Discrete(["job_cook", NO_DUMMY], [0.2, 0.8])])
def test_other_noise_of_a_category(model: Any, noise: Any) -> None:
    default = Normal.relative(FRAME, 0.3)
    explainer = Explainer(model, PerFeature({"job": noise}, default=default), one_hot={"job": DUMMIES})
    assert (explainer.gap(FRAME, ["job"]) > 0).any()
    assert (explainer.gap(FRAME, ["age"]) > 0).any()


@pytest.mark.filterwarnings("ignore:3 columns of X with only two values")  # the dummies
def test_tables_without_names_go_by_position(model: Any) -> None:
    X = FRAME.to_numpy(dtype=float)
    plain = xgboost.XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1).fit(X, Y)
    default = [Normal.relative(X, 0.3), Normal([0.3, 1.0, 1.0, 1.0, 0.5]), Uniform(0.5)]
    for noise in default:
        by_place = Explainer(plain, PerFeature({1: Marginal(X)}, default=noise), one_hot={"job": [1, 2, 3]})
        assert by_place.ensemble.names == ("f0", "job", "f4")
        assert (by_place.gap(X, ["job"]) > 0).any()
    named = PerFeature({"job": Marginal(FRAME)}, default=Normal.relative(FRAME, 0.3))
    expected = Explainer(model, named, one_hot={"job": DUMMIES}).gap(FRAME, ["job", "bmi"])
    by_place = Explainer(
        plain, PerFeature({1: Marginal(X)}, default=Normal.relative(X, 0.3)), one_hot={"job": [1, 2, 3]}
    )
    np.testing.assert_allclose(by_place.gap(X, [1, 2]), expected, rtol=1e-12)


def test_rows_that_are_no_dummies_are_refused(model: Any) -> None:
    explainer = Explainer(
        model, PerFeature({"job": Flip(0.1)}, default=Normal(1.0)), one_hot={"job": DUMMIES}
    )
    rows = FRAME[:4].astype(float)
    rows.loc[2, DUMMIES] = [1.0, 0.0, 1.0]
    with pytest.raises(TableError, match=r"row 2 of X has 'job_clerk', 'job_cook' = 1 at the same time"):
        explainer.gap(rows, ["job"])
    rows.loc[2, DUMMIES] = [0.5, 0.0, 0.0]
    with pytest.raises(TableError, match=r"row 2 of X has 'job_clerk' = 0.5; .* must be 0 or 1"):
        explainer.gap(rows, ["job"])
    rows.loc[2, DUMMIES] = [np.nan, 0.0, 0.0]
    with pytest.raises(TableError, match=r"row 2 of X is missing 'job_clerk', .* missing together"):
        explainer.gap(rows, ["job"])
    rows.loc[2, DUMMIES] = np.nan
    assert explainer.gap(rows, ["job"])[2] == 0  # missing stays missing
    with pytest.raises(TableError, match="X lacks 1 column: 'job_cook'"):
        explainer.gap(rows.drop(columns="job_cook"), ["job"])
    twice = FRAME.assign(job_clerk=True)
    with pytest.raises(NoiseError, match=r"Marginal cannot use X: row .* at the same time"):
        Explainer(model, Marginal(twice), one_hot={"job": DUMMIES})
    with pytest.raises(NoiseError, match="lacks some of the dummies of 'job'"):
        Explainer(model, Marginal(FRAME.drop(columns="job_cook")), one_hot={"job": DUMMIES})


@pytest.mark.parametrize(
    ("one_hot", "says"),
    [
        (["job_clerk"], "one_hot is a list, expected a mapping"),
        ({"job": "job_clerk"}, "expected a list of the names of its dummies"),
        ({"job": []}, "expected a list of the names of its dummies"),
        ({"job": ["job_clerk", "job_smith"]}, "names 'job_smith', which the model does not have"),
        ({"job": [1, 9]}, "names 9, which the model does not have"),
        ({"job": ["job_clerk", 1]}, "names a dummy more than once"),
        ({"job": [1, 2], "work": [2, 3]}, "gives 'job_nurse' twice, to 'job' and to 'work'"),
        ({"age": DUMMIES}, "calls a category 'age', but a feature has this name"),
    ],
)
def test_wrong_declarations_are_refused(model: Any, one_hot: Any, says: str) -> None:
    with pytest.raises(PredgapError, match=says):
        Explainer(model, Flip(0.1), one_hot=one_hot)
