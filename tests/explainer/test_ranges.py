"""Rows far outside the table of the noise: gaps near 0 follow, and one warning says so."""

from __future__ import annotations

import pickle
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from predgap import (
    Background,
    Clipped,
    Explainer,
    Flip,
    Marginal,
    Normal,
    PerFeature,
    Redraw,
    Relative,
    Rounded,
    Stay,
    evaluate,
)

RNG = np.random.default_rng(3)
N = 300
TABLE = pd.DataFrame(
    {
        "height": RNG.uniform(1.5, 2.0, N),  # metres
        "age": RNG.integers(18, 80, N).astype(float),
        "smoker": RNG.integers(0, 2, N).astype(float),
        "idle": RNG.normal(size=N),
    }
)
CONTINUOUS = TABLE + RNG.uniform(0, 1e-6, TABLE.shape)
Y = 9 * (TABLE["height"] > 1.7) + TABLE["age"] / 10 + 5 * TABLE["smoker"]
FOREST = RandomForestRegressor(10, max_depth=4, random_state=0).fit(TABLE.assign(idle=0.0), Y)
ROWS = TABLE[:5]
IN_CM = ROWS.assign(height=100 * ROWS["height"])
OUTSIDE = r"^{} of {} are outside the reference, the table of the noise, by more than its width, in 'height' "
EXAMPLE = r"\({} in row {}; the reference has 1\.50\d* to 1\.99\d*\)\. "
WHY = r".* gaps near 0 follow\. Are the units the same\?$"


def warned(explainer: Explainer, rows: Any, ask: str = "rank", *given: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        getattr(explainer, ask)(rows, *given)
    return [str(each.message) for each in found]


def test_rows_in_other_units_are_told_once_and_their_gaps_are_0() -> None:
    explainer = Explainer(FOREST, TABLE)
    assert warned(explainer, ROWS) == []
    (message,) = warned(explainer, IN_CM)
    first = re.escape(f"{IN_CM['height'][0]:g}")
    assert re.match(OUTSIDE.format(5, "5 rows") + EXAMPLE.format(first, 0) + WHY, message)
    with pytest.warns(UserWarning, match="outside the reference"):
        assert explainer.gap(IN_CM, ["height"]).tolist() == [0.0] * 5
    assert explainer.gap(ROWS, ["height"]).min() > 1e-6


def test_it_counts_rows_and_names_columns() -> None:
    rows = ROWS.copy()
    rows.loc[[1, 3], "height"] *= 100
    rows.loc[[3, 4], "age"] = -500.0
    (message,) = warned(Explainer(FOREST, TABLE), rows)
    assert message.startswith("3 of 5 rows are outside")
    assert f"'height' ({rows['height'][1]:g} in row 1; the reference has 1.5" in message
    assert "'age' (-500 in row 3; the reference has 18 to 79)" in message
    (one,) = warned(Explainer(FOREST, TABLE), rows[1:2])
    assert one.startswith("1 of 1 row is outside")
    wide = pd.DataFrame(RNG.normal(size=(200, 6)), columns=list("abcdef"))
    many = RandomForestRegressor(20, max_depth=4, random_state=0).fit(wide, wide.sum(axis=1))
    (message,) = warned(Explainer(many, wide), 1e6 + wide[:2])
    assert "'c' (" in message
    assert "'d'" not in message
    assert ", ... (6 in all)." in message


def test_the_limit_is_one_width_beyond_the_range_on_both_sides() -> None:
    explainer = Explainer(FOREST, TABLE)
    low, high = TABLE["age"].min(), TABLE["age"].max()
    for limit, beyond in ((2 * high - low, 0.5), (2 * low - high, -0.5)):
        for rows in (ROWS[:1].assign(age=limit), ROWS.assign(age=limit)):
            assert warned(explainer, rows) == []
            assert len(warned(explainer, rows.assign(age=limit + beyond))) == 1


@pytest.mark.parametrize(
    "rows",
    [
        ROWS.assign(idle=1e9),  # the model does not use it
        ROWS.assign(smoker=7.0),  # it is redrawn
        ROWS.assign(height=np.nan),
        ROWS[:1].assign(height=np.nan),
        ROWS[:0],
    ],
    ids=["unused", "redrawn", "missing", "missing in one row", "no rows"],
)
def test_what_gives_no_warning(rows: pd.DataFrame) -> None:
    assert warned(Explainer(FOREST, TABLE), rows) == []


def test_special_codes_give_no_warning() -> None:
    table = TABLE.assign(height=TABLE["height"].where(TABLE.index % 7 > 0, -999.0))
    rows = ROWS.assign(height=[-999.0, 1.7, -999.0, 1.8, 1.9])
    assert warned(Explainer(FOREST, Relative(table, keep={-999})), rows) == []
    (message,) = warned(
        Explainer(FOREST, Relative(table, keep={-999})), rows.assign(height=[-999, 170, 1.7, 1.8, 1.9])
    )
    assert message.startswith("1 of 5 rows is outside")
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3, missing=-999.0, n_jobs=1).fit(table, Y)
    assert warned(Explainer(model, table), rows) == []
    (message,) = warned(Explainer(model, table), rows.assign(height=[-999, 170, 1.7, 1.8, 1.9]))
    assert message.startswith("1 of 5 rows is outside")
    assert "in row 1" in message


@pytest.mark.parametrize(
    ("noise", "tells"),
    [
        (Relative(TABLE, 1.0), True),
        (Stay(Relative(TABLE), 0.5), True),
        (Rounded(Normal.relative(CONTINUOUS[["height", "idle", "age", "smoker"]], 0.3), 0.01), True),
        (PerFeature({"height": Relative(TABLE)}, default=Normal(0.1)), True),
        (PerFeature({"age": Normal(0.1)}, default=Relative(TABLE)), True),
        (PerFeature({"height": Normal(0.1)}, default=Relative(TABLE)), False),  # nothing tells its range
        (Normal(0.3), False),
        (Clipped(Normal.relative(CONTINUOUS, 0.3), 0, 100), False),  # it comes back
        (Marginal(TABLE), False),
        (Redraw(TABLE, 0.1), False),
        (Background(TABLE), False),
    ],
    ids=lambda it: str(it)[:20],
)
def test_only_of_features_that_numbers_are_added_to(noise: Any, tells: bool) -> None:
    explainer = Explainer(FOREST, noise)
    assert len(warned(explainer, IN_CM, "gap", ["height"])) == tells
    assert len(warned(pickle.loads(pickle.dumps(explainer)), IN_CM[:1], "gap", ["height"])) == tells
    gaps = explainer.gap(ROWS, ["height"])
    assert gaps.min() > 1e-9


@pytest.mark.parametrize(
    "call", ["gap", "curve", "rank", "moments", "normalized_pgi2", "sweep", "evaluate", "estimate"]
)
def test_one_warning_in_each_call(call: str) -> None:
    explainer = Explainer(FOREST, TABLE)
    given = {
        "gap": (["height"],),
        "curve": ([0, 1, 2, 3],),
        "normalized_pgi2": ([0, 1, 2, 3],),
        "sweep": ({"greedy": "greedy"},),
        "estimate": (["height"],),
    }.get(call, ())
    if call == "evaluate":
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            evaluate(explainer, IN_CM, ["greedy", "gain"], strengths=[0.1, 0.3])
        assert ["outside the reference" in str(each.message) for each in found] == [True]
    else:
        assert len(warned(explainer, IN_CM, call, *given)) == 1
    assert len(warned(explainer.approximate(), IN_CM, "rank")) == 1  # type: ignore[arg-type]


def test_in_the_raw_columns_of_a_pipeline_and_with_one_hot() -> None:
    pipeline = make_pipeline(StandardScaler(), RandomForestRegressor(5, max_depth=3, random_state=0)).fit(
        TABLE, Y
    )
    (message,) = warned(Explainer(pipeline, TABLE), IN_CM)
    assert "'height'" in message
    table = TABLE.assign(no=1 - TABLE["smoker"])
    model = RandomForestRegressor(5, max_depth=4, random_state=0).fit(table, Y)
    measured = Normal.relative(np.hstack([CONTINUOUS, CONTINUOUS[["smoker"]]]), 0.3)
    for noise in (Relative(table), PerFeature({"smoker": Flip(0.5)}, default=measured)):
        explainer = Explainer(model, noise, one_hot={"smoker": ["smoker", "no"]})
        assert warned(explainer, table[:5], "gap", ["height"]) == []
        (message,) = warned(explainer, table[:5].assign(height=170.0), "gap", ["height"])
        assert "'height'" in message
