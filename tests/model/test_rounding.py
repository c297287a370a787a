"""Thresholds of rows that a library rounds to float32, as thresholds of float64 numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predgap import EnsembleError, Explainer, TableError
from predgap._model.rounding import fields_of_rows
from reference import Row, SingleTails, first_rounded_to
from strategies import GRID, WIDE, Split, ensemble_of, ensembles, noises, points, subsets

LARGEST = float(np.finfo(np.float32).max)
BEYOND = 2.0**128 - 2.0**103  # halfway from the largest float32 to where the next one would be
SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False)
NUMBERS = st.one_of(
    SINGLES,
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(2**24, 2**25).map(float),
    st.sampled_from([0.0, -0.0, LARGEST, -LARGEST, BEYOND, 2.0**128, -(2.0**128), 1e-45, -1e-45, 5e-324]),
)


def single(x: Any) -> Any:
    with np.errstate(over="ignore"):
        return np.asarray(x, dtype=np.float64).astype(np.float32).astype(np.float64)


@given(t=NUMBERS, x=NUMBERS)
def test_a_number_is_below_the_new_threshold_if_its_rounding_is_below_the_old(t: float, x: float) -> None:
    new = fields_of_rows(np.float32, np.array([t]))["threshold"][0]
    with np.errstate(over="ignore"):
        tried = np.array([x, t, single(t), new, *np.nextafter(new, [-np.inf, np.inf]), np.inf, -np.inf])
    np.testing.assert_array_equal(tried < new, single(tried) < t)
    assert new == first_rounded_to(np.array([t]))[0]
    assert single(new) == t or single(t) != t, "a float32 comes back if the new threshold is rounded"


def test_ties_go_to_the_even_neighbour() -> None:
    """Odd numbers between 2^24 and 2^25 are halfway between two float32."""
    new = fields_of_rows(np.float32, np.array([2.0**24 + 4, -(2.0**24) - 4]))["threshold"]
    assert new.tolist() == [2.0**24 + 3, -(2.0**24) - 5]
    odd = fields_of_rows(np.float32, np.array([2.0**24 + 2, -(2.0**24) - 2]))["threshold"]  # last bit 1
    assert odd.tolist() == np.nextafter([2.0**24 + 1, -(2.0**24) - 3], np.inf).tolist()
    assert fields_of_rows(np.float32, np.array([0.0]))["threshold"][0] == -(2.0**-150)  # rounded to -0.0


@given(missing=NUMBERS | st.sampled_from([math.inf, -math.inf]), x=NUMBERS)
def test_numbers_that_are_rounded_to_the_missing_one_are_missing(missing: float, x: float) -> None:
    stump = ensemble_of([Split(0, 0.5, 1.0, 2.0)], 1, rows=np.float32, missing=missing)
    low, high = stump.missing_range
    with np.errstate(over="ignore"):
        ends = np.nextafter([low, low, high, high], [-np.inf, np.inf, -np.inf, np.inf])
    tried = np.array([x, missing, low, high, *ends])
    np.testing.assert_array_equal(
        np.isnan(stump.cast(tried[:, None])[:, 0]), single(tried) == single(missing)
    )


def test_values_that_are_rounded_to_infinity_are_refused_with_infinity() -> None:
    trees = [Split(0, 0.5, 1.0, 2.0)]
    finite = ensemble_of(trees, 1, rows=np.float32, accepts_infinity=False)
    inside = np.nextafter(BEYOND, 0.0)
    assert finite.cast([[inside], [-inside]]).tolist() == [[inside], [-inside]]
    for value in (BEYOND, -BEYOND, math.inf):
        with pytest.raises(TableError, match=r"predgap takes numbers up to 3.40282357e\+38; mark it missing"):
            finite.cast([[value]])
    assert ensemble_of(trees, 1, rows=np.float32).cast([[BEYOND], [math.inf]]).tolist() == [
        [BEYOND],
        [math.inf],
    ]
    double = ensemble_of(trees, 1, accepts_infinity=False)
    assert double.cast([[1e308]]).tolist() == [[1e308]]
    with pytest.raises(TableError, match="is infinite, but for this model"):
        double.cast([[math.inf]])


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"missing": 1.0, "missing_range": (2.0, 3.0)}, "missing is 1.0, and missing_range"),
        ({"missing_range": (2.0, 3.0)}, "missing is nan, and missing_range"),
        ({"missing": 1.0, "missing_range": (1.0, 1.0, 1.0)}, "expected two numbers around it"),
        ({"largest": 0.0}, "largest is 0.0, expected a number above 0"),
        ({"largest": math.nan}, "largest is nan"),
    ],
)
def test_what_an_ensemble_refuses(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(EnsembleError, match=says):
        replace(ensemble_of([1.0], 1), **fields)


@given(st.data())
def test_gaps_are_those_of_rows_that_are_rounded_after_the_noise(data: st.DataObject) -> None:
    """By definition: the old thresholds, x rounded, noise added to x as given, and x' rounded."""
    grid = data.draw(st.sampled_from([GRID, WIDE, (2.0**24 + 2, 2.0**24 + 4, 2.0**24 + 6)]))
    old = data.draw(ensembles(thresholds=grid, max_used=2))
    x, noise, subset = data.draw(points(old)), data.draw(noises(old)), data.draw(subsets(old))
    new = replace(old, **fields_of_rows(np.float32, old.threshold))
    (found,) = Explainer(new, noise, rtol=0).gap(x[None], subset)
    Row(old, SingleTails(noise, old, x), single(x)).assert_gap(found, subset)
