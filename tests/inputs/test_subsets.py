"""Subsets: names, indices and masks mean the same, and mistakes are named."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predgap._inputs.subsets import subset_mask
from predgap.errors import SubsetError

NAMES = ("age", "sex", "bmi", "pressure")


@given(st.lists(st.integers(0, 3), unique=True))
def test_names_indices_and_masks_mean_the_same(chosen):
    expected = [j in chosen for j in range(4)]
    for subset in (
        chosen,
        np.array(chosen, dtype=np.int64),
        [NAMES[j] for j in chosen],
        expected,
        np.array(expected),
    ):
        mask = subset_mask(subset, 5, 4, NAMES)
        assert mask.dtype == np.bool_
        assert mask.tolist() == expected


@pytest.mark.parametrize(
    ("subset", "chosen"),
    [
        ("bmi", [2]),
        (np.str_("bmi"), [2]),
        (3, [3]),
        (np.int64(3), [3]),
        (np.array(3), [3]),
        (np.array("bmi"), [2]),
        (range(4), [0, 1, 2, 3]),
        ({"age", "sex"}, [0, 1]),
        (("age",), [0]),
        ({"age": 1.0, "bmi": 2.0}, [0, 2]),
        ((name for name in ("age", "bmi")), [0, 2]),
        (np.array(["age", "bmi"]), [0, 2]),
        (np.array(["age", "bmi"], dtype=object), [0, 2]),
        (pd.Index(["age", "bmi"]), [0, 2]),
        (pd.Series(["age", "bmi"]), [0, 2]),
        (pl.Series(["age", "bmi"]), [0, 2]),
        (pl.Series([True, False, False, True]), [0, 3]),
        (np.array([0, 1], dtype=np.uint8), [0, 1]),
        ([0, 1, 2, 3], [0, 1, 2, 3]),  # integers are indices, never a mask
        ([1, 0], [0, 1]),
        ([], []),
        ((), []),
        (np.array([]), []),
        (set(), []),
        (pd.Series([True, False, False, True]), [0, 3]),
        (pd.Series({"bmi": True, "sex": False, "pressure": False, "age": True}), [0, 2]),
        (pd.Series({"bmi": True, "sex": False, "pressure": False, "age": True}, dtype="boolean"), [0, 2]),
    ],
)
def test_accepted_subsets(subset, chosen):
    assert np.flatnonzero(subset_mask(subset, 5, 4, NAMES)).tolist() == chosen


@pytest.mark.parametrize("n_rows", [0, 1, 3, 4])
def test_one_mask_per_row(n_rows):
    masks = np.arange(n_rows * 4).reshape(n_rows, 4) % 3 == 0
    np.testing.assert_array_equal(subset_mask(masks, n_rows, 4, NAMES), masks)
    if n_rows:
        np.testing.assert_array_equal(subset_mask(masks.tolist(), n_rows, 4, NAMES), masks)
        np.testing.assert_array_equal(subset_mask(list(masks), n_rows, 4, NAMES), masks)


def test_the_users_mask_is_copied():
    mask = np.array([True, False])
    subset_mask(mask, 1, 2)[0] = False
    assert mask.tolist() == [True, False]


def test_default_names_in_a_model_without_names():
    assert subset_mask(["f1"], 1, 2).tolist() == [False, True]


def test_a_feature_may_have_any_name():
    assert subset_mask("", 1, 2, ("", "True")).tolist() == [True, False]
    assert subset_mask(["True"], 1, 2, ("", "True")).tolist() == [False, True]


@pytest.mark.parametrize(
    ("subset", "words"),
    [
        (
            ["agee"],
            ["no feature 'agee'", "did you mean 'age' for 'agee'?", "'age', 'sex', 'bmi', 'pressure'"],
        ),
        ("presure", ["no feature 'presure'", "'pressure' for 'presure'"]),
        (["qqq", "zzz"], ["no feature 'qqq', 'zzz'; its features are 'age'"]),
        (["age", "age"], ["'age' more than once"]),
        ([1, 2, 1], ["'sex' more than once"]),
        ([4], ["no feature has index 4", "4 features, indices 0 to 3"]),
        ([0, -1], ["no feature has index -1", "not counted from the end"]),
        (-1, ["no feature has index -1"]),
        ([0.0, 1.0], ["holds 0.0 (float)", "integer indices"]),
        (np.array([0.0, 1.0]), ["holds 0.0 (float)"]),
        (2.0, ["is 2.0", "integer indices"]),
        (None, ["is None", "range(d)"]),
        (True, ["is True", "one value per feature"]),
        (np.True_, ["True", "one value per feature"]),
        (["age", 1], ["mixes", "name", "index"]),
        (np.array(["age", 1], dtype=object), ["mixes", "name", "index"]),
        ([True, 1, 0, 0], ["mixes", "boolean", "index"]),
        (["age", None], ["holds None (NoneType)"]),
        ([b"age"], ["holds b'age' (bytes)"]),
        ([np.timedelta64(1, "s")], ["timedelta64"]),
        ([True, False], ["shape (2,)", "(4,)", "(5, 4)"]),
        (np.ones(5, dtype=bool), ["shape (5,)", "(4,)", "(5, 4)"]),
        (np.ones((4, 5), dtype=bool), ["shape (4, 5)", "(5, 4)"]),
        (np.ones((1, 4), dtype=bool), ["shape (1, 4)", "(5, 4)"]),
        (np.array([], dtype=bool), ["shape (0,)", "(4,)"]),
        (np.array(True), ["shape ()", "(4,)"]),
        ([[0, 1], [2, 3]], ["one list per row", "holds 0", "boolean masks (n, d)"]),
        (np.array([[0, 1], [2, 3]]), ["one list per row", "holds 0"]),
        ([["age"], ["sex"]], ["one list per row", "holds 'age'"]),
        ([[True, False], [True]], ["differ in length: 1, 2"]),
        ([[True, False], True], ["differ in length"]),
        (pd.DataFrame({"age": [True]}), ["DataFrame", "boolean array (n, d)"]),
        (pl.DataFrame({"age": [True]}), ["DataFrame", "boolean array (n, d)"]),
        (pd.Series({"age": True, "sex": True, "bmi": True, "y": True}), ["'y'", "'pressure'", "per feature"]),
        (
            pd.Series({"age": True, "sex": None, "bmi": True, "pressure": False}, dtype="boolean"),
            ["missing for 'sex'"],
        ),
    ],
    ids=repr,
)
def test_refused_subsets(subset, words):
    with pytest.raises(SubsetError) as caught:
        subset_mask(subset, 5, 4, NAMES)
    assert all(word in str(caught.value) for word in words), str(caught.value)
