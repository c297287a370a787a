"""Rankings in all forms that users pass, and how they are matched to outputs and rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predgap.errors import RankingError
from predgap.ranking import Ranking, ranking_order
from rankings import CUBE, NAMES, explanation, names_of, partials, refused

# ---- rankings that are given ---------------------------------------------------------------------


@given(partials(min_rows=1))
def test_all_forms_of_a_ranking_mean_the_same(drawn):
    full, k = drawn
    n, d = full.shape
    names, order = names_of(full), full[:, :k]
    by_name = np.array(names)[order]
    for form in [
        order,
        order.tolist(),
        order.astype(np.uint8),
        Ranking(order, n_features=d),
        Ranking(order, feature_names=names),
        by_name,
        by_name.tolist(),
        by_name.astype(object),
        pd.DataFrame(order),
        pl.DataFrame(order),
    ]:
        found = ranking_order(form, n, d, names)
        assert found.dtype == np.intp
        assert found.flags.c_contiguous
        assert found.tolist() == order.tolist()
    for form in (order[0], order[0].tolist(), by_name[0], tuple(by_name[0].tolist()), pd.Index(by_name[0])):
        assert ranking_order(form, 4, d, names).tolist() == [order[0].tolist()] * 4


@given(partials(min_rows=1), st.lists(st.sampled_from("abcd"), unique=True), st.data())
def test_a_ranking_is_aligned_by_name(drawn, others, data):
    """The model may have more features than the ranking knows."""
    order, k = drawn
    names = names_of(order)
    model = tuple(data.draw(st.permutations([*names, *others])))
    ranking = Ranking(order[:, :k], feature_names=names)
    found = ranking_order(ranking, len(order), len(model), model)
    assert np.array(model)[found].tolist() == ranking.top(k).tolist()
    by_name = ranking_order(ranking.top(k), len(order), len(model), model)
    assert by_name.tolist() == found.tolist()


def test_default_names_go_by_position():
    default, named = (Ranking([[1]], feature_names=names) for names in (("f0", "f1"), ("a", "b")))
    assert ranking_order(default, 1, 2, ("a", "b")).tolist() == [[1]]
    assert ranking_order(named, 1, 2).tolist() == [[1]]
    assert ranking_order(["f1", "f0"], 1, 2).tolist() == [[1, 0]]


def test_no_rows():
    assert ranking_order([1, 0], 0, 2).shape == (0, 2)
    assert ranking_order([1], 0, 2).shape == (0, 1)
    assert ranking_order(np.empty((0, 2), dtype=int), 0, 2).shape == (0, 2)
    assert ranking_order(Ranking(np.empty((0, 2), dtype=int)), 0, 2).shape == (0, 2)


LOOK = "these look like attributions; use Ranking.from_attributions"


@pytest.mark.parametrize(
    ("ranking", "words"),
    [
        ([[0.1, 0.2, 0.3]], [LOOK]),
        ([0.0, 1.0, 2.0], [LOOK, "float64"]),
        (
            pd.DataFrame({"age": [1], "sex": [2], "bmi": [0]}),
            ["integers whose columns are features", "from_attributions", "pass them as an array"],
        ),
        (pd.Series([0.1, 0.2, 0.3]), ["Series of numbers without the names of features", "index=X.columns"]),
        (pl.Series([0.1, 0.2, 0.3]), ["Series of numbers without the names of features"]),
        (pd.Series([0.1, np.nan, 0.3], index=NAMES), ["the importance of 'sex' is NaN"]),
        (pd.Series([0.1, 0.2], index=["age", "size"]), ["no feature 'size'"]),
        (pd.DataFrame({"age": [0.1], "sex": [0.2], "bmi": [np.inf]}), ["row 0", "'bmi'", "inf"]),
        (pd.DataFrame([["age", "size"]] * 2), ["no feature 'size'"]),
        (pl.LazyFrame({"age": [0.1]}), ["a lazy LazyFrame; collect it"]),
        (pd.DataFrame([["age", "sex"]] * 2, columns=["place", "place"]), ["two columns of one name"]),
        (pd.Series([0.1, None], index=["age", "sex"], dtype="Float64"), ["the importance of 'sex' is NaN"]),
        ([0, 0, 2], ["row 0", "features 0 ... 2", "repeats 0"]),
        ([1, 1], ["row 0", "features 0 ... 2", "repeats 1"]),
        ([[0, 1, 2], [1, 2, 3]], ["row 1", "holds 3"]),
        ([[0, 1, 2], [-1, 1, 2]], ["row 1", "holds -1"]),
        ([1, 2, 3], ["holds 3"]),
        ([3], ["holds 3"]),
        ([], ["no places; expected 1 to 3"]),
        ([[], []], ["no places; expected 1 to 3"]),
        ([0, 1, 2, 3], ["4 places for 3 features", "pred_contribs"]),
        ([0, 1, 2, 3, 4], ["5 places for 3 features"]),
        ([[0.1, 0.2, 0.3, 0.4]], ["4 places for 3 features", "pred_contribs"]),
        ([[0, 1, 2]], ["1 row, X has 2", "pass it as (k,)"]),
        ([[0, 1]], ["1 row, X has 2", "pass it as (k,)"]),
        ([[0, 1, 2]] * 3, ["3 rows, X has 2"]),
        (Ranking([[0, 1, 2]]), ["1 row, X has 2", "order[0]"]),
        (Ranking([[0, 1], [1, 0]]), ["of 2 features; the model has 3", "n_features=3"]),
        (Ranking([[0, 1], [1, 0]], n_features=4), ["of 4 features; the model has 3"]),
        (
            Ranking([[0], [1]], feature_names=("age", "BMI")),
            ["has 'BMI', which", "features are 'age', 'sex', 'bmi'"],
        ),
        (
            Ranking([[0], [1]], feature_names=(*NAMES, "bias")),
            ["has 'bias', which", "features are 'age', 'sex', 'bmi'"],
        ),
        (
            Ranking([[0, 1, 2]] * 2, feature_names=("age", "sex", "BMI")),
            ["has 'BMI', which", "features are 'age', 'sex', 'bmi'"],
        ),
        (["age", "sex", "BMI"], ["no feature 'BMI'", "'age', 'sex', 'bmi'"]),
        (["age", "sex", "bmy"], ["did you mean 'bmi' for 'bmy'?"]),
        (["age", "sex", "age"], ["repeats 0"]),
        (["age", 1, 2], ["object", "expected integers, or names of one kind"]),
        ([True, False, True], ["bool"]),
        ([None, 1, 2], ["object"]),
        ("age", ["shape ()"]),
        (None, ["shape ()"]),
        (np.zeros((1, 1, 3), dtype=int), ["shape (1, 1, 3)"]),
        ([[0, 1, 2], [0, 1]], ["differ in length"]),
    ],
)
def test_refused_rankings(ranking, words):
    refused(words, ranking_order, ranking, 2, 3, NAMES)


def test_attributions_are_rankings_if_they_say_what_they_are():
    """An explanation or a frame names its features; a bare array of floats does not."""
    values = [[1.0, -2.0, 3.0], [3.0, 2.0, -1.0]]
    expected = [[2, 1, 0], [0, 1, 2]]
    assert ranking_order(explanation(values), 2, 3).tolist() == expected
    for frame in (pd.DataFrame, lambda v, columns: pl.DataFrame(v, schema=columns, orient="row")):
        swapped = frame([row[::-1] for row in values], columns=[*NAMES[::-1]])
        assert ranking_order(swapped, 2, 3, NAMES).tolist() == expected
    assert ranking_order(pd.DataFrame({"sex": [0.1], "age": [0.2]}), 1, 3, NAMES).tolist() == [[0, 1]]
    refused([LOOK], ranking_order, np.array(values), 2, 3, NAMES)


def test_an_explanation_of_several_outputs_needs_a_choice():
    refused(["2 outputs", "output=0"], ranking_order, explanation(CUBE, data=np.ones((1, 3))), 1, 3, NAMES)


@pytest.mark.parametrize("kind", [float, np.int32])
def test_a_series_of_importances_is_one_order_for_all_rows(kind):
    importances = pd.Series([1, -5, 2], index=["sex", "bmi", "age"]).astype(kind)
    assert ranking_order(importances, 3, 3, NAMES).tolist() == [[2, 0, 1]] * 3
    assert ranking_order(importances[["sex", "age"]], 2, 3, NAMES).tolist() == [[0, 1]] * 2


def test_series_that_are_no_importances():
    for series in (
        pd.Series(["sex", "bmi"]),
        pl.Series(["sex", "bmi"]),
        pd.Series([1, 2]),
        pl.Series([1, 2]),
    ):
        assert ranking_order(series, 2, 3, NAMES).tolist() == [[1, 2]] * 2


def test_frames_of_names_per_row():
    named = {"first": ["sex", "bmi"], "second": ["age", "sex"]}
    for frame in (pd.DataFrame, pl.DataFrame, pa.table):
        assert ranking_order(frame(named), 2, 3, NAMES).tolist() == [[1, 0], [2, 1]]


# ---- outputs and rows ----------------------------------------------------------------------------


def test_a_ranking_remembers_its_output():
    cube = np.random.default_rng(0).normal(size=(4, 3, 5))
    assert Ranking.from_attributions(cube, 2).output == 2
    assert Ranking.from_attributions(cube[:, :, 2]).output is None
    assert Ranking.from_attributions(cube[:, :, 2:3], 0).output is None
    assert Ranking([[0]], output=np.int64(3)).output == 3
    assert Ranking([[0]], output="low").output == "low"
    ranking = Ranking.from_attributions(cube, [4, 0, 0, 1])
    assert ranking.output.tolist() == [4, 0, 0, 1]
    for r, k in enumerate(ranking.output):
        assert ranking.order[r].tolist() == Ranking.from_attributions(cube, int(k)).order[r].tolist()
    assert ranking[[3, 0]].output.tolist() == [1, 4]
    assert ranking[0].output.tolist() == [4]
    assert Ranking.from_attributions(cube, 2)[1:].output == 2
    with pytest.raises(ValueError, match="read-only"):
        ranking.output[0] = 1
    refused(["output has 3 entries", "4 rows"], Ranking.from_attributions, cube, [0, 1, 2])
    refused(["output=5 does not exist", "have 5 (0 to 4)"], Ranking.from_attributions, cube, [0, 1, 2, 5])
    refused(["output has 2 entries for 1 row"], Ranking, [[0]], output=[0, 1])
    for strange in (1.5, True, [0.0], [True], ["a", 1], object()):
        refused(["output=", "expected the position"], Ranking, [[0]], output=strange)


def test_outputs_of_an_explanation_have_names():
    cube = np.random.default_rng(0).normal(size=(3, 3, 2))
    named = explanation(cube, data=np.ones((3, 3)), output_names=["low", "high"])
    assert Ranking.from_attributions(named, "high").output == "high"
    assert (Ranking.from_attributions(named, "high").order == Ranking.from_attributions(cube, 1).order).all()
    per_row = Ranking.from_attributions(named, ["low", "high", "low"])
    assert per_row.output.tolist() == ["low", "high", "low"]
    assert (per_row.order == Ranking.from_attributions(cube, [0, 1, 0]).order).all()
    words = ["output='mid' does not exist", "have the outputs 'low', 'high'"]
    refused(words, Ranking.from_attributions, named, "mid")
    assert Ranking.from_attributions(named[..., 1]).output == "high"
    default = explanation(cube, data=np.ones((3, 3)), output_names=["Output 0", "Output 1"])
    assert Ranking.from_attributions(default[..., 1]).output == 1  # as shap calls outputs without names


LABELS = ["p", "q", "r"]


@pytest.mark.parametrize(
    "index",
    [
        LABELS,
        pd.Index(LABELS),
        pd.CategoricalIndex(LABELS),
        pd.MultiIndex.from_tuples([("p", 1), ("p", 2), ("q", 1)]),
        pd.date_range("2024-01-01", periods=3, tz="Europe/Paris"),
        pd.Index([7, 3, 5]),
        pd.RangeIndex(10, 13),
    ],
    ids=lambda index: type(index).__name__,
)
def test_rows_are_matched_by_their_labels(index):
    order = np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    ranking = Ranking(order, index=index, output=[0, 1, 2])
    assert (ranking_order(ranking, 3, 3, index=index) == order).all()
    for rows in ([2, 0, 1], [1, 0, 2]):
        shuffled = ranking[rows]
        assert (ranking_order(shuffled, 3, 3, index=index) == order).all()
        assert shuffled.agreement(ranking, 2) == 1.0
    assert (ranking_order(Ranking(order), 3, 3, index=index) == order).all()  # without an index: by position
    assert (ranking_order(ranking, 3, 3, index=None) == order).all()


@given(st.permutations(range(5)), st.permutations(range(5)))
def test_matching_rows_by_label_is_sorting_both(mine, theirs):
    order = np.array([[row] for row in theirs])
    ranking = Ranking(order, n_features=5, index=[f"p{row}" for row in theirs])
    found = ranking_order(ranking, 5, 5, index=pd.Index([f"p{row}" for row in mine]))
    assert found[:, 0].tolist() == mine


def test_rows_that_cannot_be_matched_are_refused():
    def ranking(index):
        return Ranking([[0, 1]] * 3, index=index)

    own, default = pd.Index(LABELS), pd.RangeIndex(3)
    one_side = ["the default 0, 1, ...", "Set the same index on both", "pass an array"]
    refused(
        ["the ranking has an index of its own (it begins with 'p', 'q', 'r'), X the default", *one_side[1:]],
        ranking_order, ranking(own), 3, 2, index=default,
    )  # fmt: skip
    refused(
        ["X has an index of its own (it begins with 'p', 'q', 'r'), the ranking the default", *one_side[1:]],
        ranking_order, ranking(default), 3, 2, index=own,
    )  # fmt: skip
    assert ranking_order(ranking(default), 3, 2, index=default).tolist() == [[0, 1]] * 3
    assert ranking_order(ranking(pd.Index([0, 1, 2])), 3, 2, index=default).tolist() == [[0, 1]] * 3
    refused(
        ["2 of the 3 row labels of X ('x', 'y') do not occur in the ranking", "pass an array"],
        ranking_order, ranking(own), 3, 2, index=pd.Index(["x", "p", "y"]),
    )  # fmt: skip
    refused(
        ["the ranking has 'p' more than once"],
        ranking_order, ranking(["p", "p", "q"]), 3, 2, index=pd.Index(["q", "p", "p"]),
    )  # fmt: skip
    refused(["X has 'p' more than once"], ranking_order, ranking(own), 3, 2, index=pd.Index(["q", "p", "p"]))
    assert ranking_order(ranking(["p", "p", "q"]), 3, 2, index=pd.Index(["p", "p", "q"])).shape == (3, 2)
    refused(["labels", "cannot be compared"], ranking_order, ranking([[1], [2], [3]]), 3, 2, index=own)
    refused(["3 rows, X has 2"], ranking_order, ranking(own), 2, 2, index=pd.Index(["p", "q"]))
    refused(
        ["3 of the 3 row labels of X ('p', 'q', 'r')"],
        ranking(own).agreement,
        ranking(pd.Index(["x", "y", "z"])),
        1,
    )


def test_attribution_frames_are_matched_by_their_rows():
    frame = pd.DataFrame({"age": [1.0, 0.0], "sex": [0.0, 1.0], "bmi": 0.5}, index=["p", "q"])
    expected = ranking_order(frame, 2, 3, NAMES, index=frame.index)
    swapped = frame.iloc[::-1]
    assert (ranking_order(swapped, 2, 3, NAMES, index=frame.index) == expected).all()
    assert (
        ranking_order(Ranking.from_attributions(swapped), 2, 3, NAMES, index=frame.index) == expected
    ).all()
    names = pd.DataFrame([["age"], ["sex"]], index=["q", "p"])
    assert ranking_order(names, 2, 3, NAMES, index=frame.index).tolist() == [[1], [0]]
    polars = pl.DataFrame({"age": [1.0, 0.0], "sex": [0.0, 1.0], "bmi": [0.5, 0.5]})  # has no index
    assert (ranking_order(polars, 2, 3, NAMES, index=frame.index) == expected).all()


def test_lightgbm_contributions_of_several_outputs():
    values = np.random.default_rng(0).normal(size=(5, 3, 5))  # 3 outputs; 4 features and the bias
    folded, names = values.reshape(5, 15), ["a", "b", "c", "d"]
    for output in range(3):
        found = Ranking.from_attributions(folded, output=output, feature_names=names)
        assert (found.order == Ranking.from_attributions(values[:, output, :4]).order).all()
    with pytest.raises(RankingError, match="for 3 outputs; choose one"):
        Ranking.from_attributions(folded, feature_names=names)
