"""Names of features: as they are, or with the underscores that LightGBM stores instead of spaces."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predgap import Normal, PerFeature, Ranking
from predgap._inputs.subsets import match_names, subset_mask
from predgap._inputs.tables import read_table
from predgap.errors import NoiseError, PredgapError, RankingError, SubsetError, TableError
from predgap.ranking import ranking_order

STORED = ("fixed_acidity", "pH")
TWICE = pd.DataFrame({"fixed acidity": [1.0, 3.0], "pH": [0.0, 2.0], "fixed_acidity": [5.0, 6.0]})

spelled = st.lists(st.text("ab _", min_size=1, max_size=4), unique=True, max_size=6)


@given(names=spelled, extra=spelled, data=st.data())
def test_exact_names_go_first(names, extra, data):
    wanted = data.draw(st.permutations(names))
    assert match_names(wanted, names, PredgapError) == {name: names.index(name) for name in wanted}


@given(names=st.lists(st.text("ab ", min_size=1, max_size=4), unique_by=lambda s: s.replace(" ", "_")))
def test_names_that_lightgbm_stores_are_found_both_ways(names):
    stored = [name.replace(" ", "_") for name in names]
    assert match_names(names, stored, PredgapError) == {name: j for j, name in enumerate(names)}
    assert match_names(stored, names, PredgapError) == {name: j for j, name in enumerate(stored)}


def test_other_characters_are_not_replaced():
    strange = ["a\tb", "a\u00a0b", "a-b", "A_b", "a.b"]
    assert match_names(strange, ["a_b"], PredgapError) == {}


def test_a_frame_gives_the_names_to_show():
    table = read_table(TWICE[["pH", "fixed acidity"]], 2, STORED)
    assert table.names == ("fixed acidity", "pH")
    np.testing.assert_array_equal(table.values, [[1.0, 0.0], [3.0, 2.0]])
    assert read_table(np.zeros((1, 2)), 2, STORED).names is None
    assert read_table(pd.DataFrame(np.zeros((1, 2))), 2, STORED).names is None


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda: read_table(TWICE, 2, STORED), TableError),
        (lambda: Normal.relative(TWICE, 0.3).laws(2, STORED), NoiseError),
        (lambda: Normal({"fixed acidity": 1, "fixed_acidity": 2, "pH": 1}).laws(2, STORED), NoiseError),
        (
            lambda: PerFeature({"fixed acidity": Normal(1), "fixed_acidity": Normal(2)}).laws(2, STORED),
            NoiseError,
        ),
        (lambda: subset_mask(["fixed acidity", "fixed_acidity"], 1, 2, STORED), SubsetError),
        (lambda: ranking_order(["fixed acidity", "fixed_acidity"], 1, 2, STORED), RankingError),
    ],
)
def test_names_that_become_the_same_are_refused(ask, error):
    with pytest.raises(
        error, match=r"'fixed acidity', 'fixed_acidity' may each be .* rename or drop"
    ) as caught:
        ask()
    assert type(caught.value) is error


def test_a_name_that_may_be_two_is_refused():
    with pytest.raises(SubsetError, match=r"'a_b_c' may be each of 'a b_c', 'a_b c'"):
        subset_mask(["a_b_c"], 1, 2, ("a b_c", "a_b c"))


def test_a_model_may_have_both_names():
    X = pd.DataFrame({"a_b": [1.0], "a b": [2.0]})
    np.testing.assert_array_equal(read_table(X, 2, ("a b", "a_b")).values, [[2.0, 1.0]])


def test_labelled_masks_and_rankings_go_by_these_names():
    important = pd.Series({"pH": False, "fixed acidity": True})
    np.testing.assert_array_equal(subset_mask(important, 1, 2, STORED), [True, False])
    with pytest.raises(SubsetError, match="is missing for 'fixed acidity'"):
        subset_mask(pd.Series({"pH": False, "fixed acidity": None}, dtype="boolean"), 1, 2, STORED)
    shown = Ranking([[0, 1]], feature_names=("fixed acidity", "pH"))
    stored = Ranking([[1, 0]], feature_names=("pH", "fixed_acidity"))
    assert shown.agreement(stored, k=1) == stored.agreement(shown, k=1) == 1.0


def test_attributions_are_aligned_by_these_names():
    frame = pd.DataFrame({"pH": [1.0], "fixed acidity": [3.0], "bias": [9.0]})
    ranking = Ranking.from_attributions(frame, feature_names=STORED)
    np.testing.assert_array_equal(ranking.scores, [[3.0, 1.0]])
