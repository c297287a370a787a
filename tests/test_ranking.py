"""Rankings: places, the first few of them, frames, agreement."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predgap.errors import RankingError
from predgap.ranking import Ranking, ranking_order
from rankings import NAMES, names_of, orders, partials, refused

# ---- a ranking -----------------------------------------------------------------------------------


@given(orders())
def test_ranks_are_the_places_from_1(order):
    ranks = Ranking(order).ranks
    assert ranks.shape == order.shape
    for r, row in enumerate(order):
        for place, feature in enumerate(row):
            assert ranks[r, feature] == place + 1


@given(orders(min_rows=1), st.data())
def test_top_names_the_first_k(order, data):
    d = order.shape[1]
    k = data.draw(st.integers(1, d))
    names = names_of(order)
    expected = [[names[j] for j in row[:k]] for row in order]
    assert Ranking(order, feature_names=names).top(k).tolist() == expected


def test_a_ranking_is_immutable():
    order, scores = np.array([[1, 0]]), np.array([[1.0, 2.0]])
    ranking = Ranking(order, scores=scores)
    order[0], scores[0] = 0, 0
    assert ranking.order.tolist() == [[1, 0]]
    assert ranking.scores.tolist() == [[1.0, 2.0]]
    for array in (ranking.order, ranking.scores):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 5
    with pytest.raises(AttributeError):
        ranking.order = order


def test_a_ranking_pickles():
    ranking = Ranking([[1]], feature_names=("a", "b"), index=["p"], method="greedy", confidence=[[0.75]])
    back = pickle.loads(pickle.dumps(ranking))
    assert (back.order.tolist(), back.confidence.tolist()) == ([[1]], [[0.75]])
    assert (back.n_features, back.feature_names, back.index, back.method) == (2, ("a", "b"), ["p"], "greedy")


def test_names_to_show():
    assert Ranking([[1, 0]]).feature_names is None
    assert Ranking([[1, 0]]).names == ("f0", "f1")
    assert Ranking([[1, 0]], feature_names=["a", "b"]).names == ("a", "b")


@pytest.mark.parametrize(
    ("order", "fields", "words"),
    [
        ([[0, 0, 2]], {}, ["row 0", "features 0 ... 2", "it repeats 0"]),
        ([[0, 1], [1, 2]], {}, ["row 1", "features 0 ... 1", "it holds 2", "pass n_features"]),
        ([[0, 3]], {"n_features": 3}, ["row 0", "features 0 ... 2", "it holds 3"]),
        ([[0, -1]], {}, ["row 0", "it holds -1"]),
        ([[4, 4, 0, 0]], {}, ["it holds 4, repeats 0"]),
        ([0, 1], {}, ["shape (2,)", "(n, k)"]),
        ([[0.0, 1.0]], {}, ["float64", "these look like attributions; use Ranking.from_attributions"]),
        ([[True, False]], {}, ["bool", "integers"]),
        ([["a", "b"]], {}, ["expected integers"]),
        ([[0, 1], [0]], {}, ["differ in length"]),
        ([[0, 1]], {"scores": [[1.0]]}, ["order has 2 places for 1 features"]),
        ([[0, 1]], {"scores": [1.0, 2.0]}, ["scores is (2,)", "expected (1, 2)"]),
        ([[0, 1]], {"scores": [[1.0, 2.0, 3.0]], "n_features": 2}, ["scores is (1, 3)", "expected (1, 2)"]),
        ([[0]], {"scores": [[1.0]], "feature_names": ("a", "b")}, ["scores is (1, 1)", "expected (1, 2)"]),
        ([[0]], {"confidence": [[1.0, 1.0]], "n_features": 2}, ["confidence is (1, 2)", "expected (1, 1)"]),
        ([[0, 1]], {"feature_names": ("a",)}, ["order has 2 places for 1 features"]),
        ([[0]], {"feature_names": ("a",), "n_features": 2}, ["1 feature names ('a') for 2 features"]),
        ([[0, 1]], {"feature_names": ("a", "a")}, ["repeat"]),
        ([[0, 1]], {"n_features": 1}, ["order has 2 places for 1 features"]),
        ([[0, 1]], {"n_features": 2.0}, ["n_features=2.0", "whole number"]),
        ([[0]], {"n_features": True}, ["n_features=True", "whole number"]),
        ([[]], {"n_features": 2}, ["order has no places; expected 1 to 2"]),
        ([[0, 1]], {"index": ["p", "q"]}, ["2 row labels for 1 row"]),
    ],
    ids=repr,
)
def test_what_is_not_a_ranking_is_refused(order, fields, words):
    refused(words, Ranking, order, **fields)


def test_only_the_order_may_go_without_its_name():
    with pytest.raises(TypeError):
        Ranking([[0, 1]], [[1.0, 2.0]])


@pytest.mark.parametrize("k", [0, 4, -1, 1.0, True, None])
def test_k_is_a_number_of_features(k):
    ranking = Ranking([[0, 1, 2]])
    refused([f"k={k!r}", "from 1 to 3"], ranking.top, k)
    refused([f"k={k!r}", "from 1 to 3"], ranking.agreement, ranking, k)


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        (slice(1, None), [1, 2]),
        ([2, 0], [2, 0]),
        (np.array([True, False, True]), [0, 2]),
        (1, [1]),
        (-1, [2]),
    ],
)
@pytest.mark.parametrize("index", [None, ["p", "q", "r"], pd.Index(["p", "q", "r"])])
def test_rows_of_a_ranking(rows, kept, index):
    order = np.array([[0, 1, 2], [2, 1, 0], [1, 2, 0]])
    scores = np.arange(9.0).reshape(3, 3)
    words = {"feature_space": "after PCA", "method": "greedy", "estimator": "qmc", "backend": "polars"}
    ranking = Ranking(
        order[:, :2], scores=scores, n_features=3, index=index, confidence=scores[:, :2] / 9, **words
    )
    part = ranking[rows]
    assert part.order.tolist() == order[kept, :2].tolist()
    assert part.scores.tolist() == scores[kept].tolist()
    assert part.confidence.tolist() == ranking.confidence[kept].tolist()
    assert (part.n_features, part.feature_names, len(part)) == (3, None, len(kept))
    assert {name: getattr(part, name) for name in words} == words
    assert part.index is None if index is None else list(part.index) == ["pqr"[r] for r in kept]


def test_rows_outside_and_columns_are_not_indexed():
    with pytest.raises(IndexError):
        Ranking([[0, 1]])[1]
    with pytest.raises((IndexError, RankingError)):
        Ranking([[0, 1]])[:, 0]
    assert [r.order.tolist() for r in Ranking([[0, 1], [1, 0]])] == [[[0, 1]], [[1, 0]]]


# ---- partial rankings ----------------------------------------------------------------------------


@given(partials())
def test_a_partial_ranking_is_the_first_places_of_the_full_one(drawn):
    order, k = drawn
    n, d = order.shape
    scores = np.arange(n * d, dtype=float).reshape(n, d)
    full = Ranking(order, scores=scores, feature_names=names_of(order), backend="pandas")
    partial = Ranking(order[:, :k], scores=scores, feature_names=names_of(order), backend="pandas")
    assert partial.names == full.names
    assert partial.ranks.tolist() == np.where(full.ranks <= k, full.ranks, 0).tolist()
    assert partial.top(k).tolist() == full.top(k).tolist()
    frame = full.to_frame()
    expected = frame[frame["place"] <= k].reset_index(drop=True)
    pd.testing.assert_frame_equal(partial.to_frame(), expected)
    assert len(expected) == n * k
    refused([f"k={k + 1}", f"from 1 to {k}, the number of places"], partial.top, k + 1)


@given(partials(min_rows=1))
def test_a_frame_tells_the_whole_partial_ranking(drawn):
    order, k = drawn
    n, d = order.shape
    confidence = np.linspace(0.5, 1, n * k).reshape(n, k)
    ranking = Ranking(order[:, :k], feature_names=names_of(order), confidence=confidence, backend="pandas")
    frame = ranking.to_frame().sample(frac=1, random_state=0)
    wide = frame.pivot(index="row", columns="place", values=["feature", "confidence"])
    assert ranking_order(wide["feature"].to_numpy(), n, d, names_of(order)).tolist() == order[:, :k].tolist()
    assert wide["confidence"].to_numpy().tolist() == confidence.tolist()


@given(partials())
def test_the_number_of_features_comes_from_what_is_known(drawn):
    order, k = drawn
    d = order.shape[1]
    for known in (
        {"n_features": d},
        {"n_features": np.int64(d)},
        {"feature_names": names_of(order)},
        {"scores": np.full(order.shape, np.nan)},
    ):
        ranking = Ranking(order[:, :k], **known)
        assert (ranking.n_features, len(ranking.names)) == (d, d)
        assert ranking.ranks.shape == order.shape
    assert Ranking(order).n_features == Ranking(order, n_features=None).n_features == d


def test_the_repr_counts_places_features_and_rows():
    order = np.tile(np.arange(5), (10, 1))

    def said(**known):
        return repr(Ranking(order, **known)).partition("\n")[0]

    assert said() == "Ranking of 5 features for 10 rows; the first 5 rows"
    assert said(n_features=30) == "Ranking of the first 5 of 30 features for 10 rows; the first 5 rows"
    words = {"method": "best found", "estimator": "qmc", "feature_space": "after PCA"}
    assert said(**words) == (
        "Ranking of 5 features for 10 rows (best found, qmc, after PCA); the first 5 rows"
    )


def test_a_ranking_is_shown_as_a_small_table():
    names = ("<b>age</b>", "line\nbreak", *(f"name{j}" for j in range(198)))
    ranking = Ranking(np.tile(np.arange(200), (3, 1)), feature_names=names, index=["p", "q", "<i>"])
    text, page = repr(ranking), ranking._repr_html_()
    assert text.splitlines() == [
        "Ranking of 200 features for 3 rows",
        "row  place 1     place 2      place 3  place 4  place 5  …",
        *(f"{row}  <b>age</b>  line\\nbreak  name0    name1    name2    …" for row in ("p  ", "q  ", "<i>")),
    ]
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;b&gt;age&lt;/b&gt;</td>" in page
    assert page.count("<tr>") == 4
    assert "Ranking of 200 features for 3 rows</caption>" in page


@pytest.mark.parametrize("fields", [{}, {"n_features": 0}, {"feature_names": ()}], ids=repr)
def test_a_ranking_of_no_features(fields):
    ranking = Ranking(np.empty((2, 0), dtype=int), **fields)
    assert ranking.ranks.shape == ranking.order.shape == (2, 0)
    assert len(ranking.to_frame()) == 0
    assert repr(ranking) == "Ranking of 0 features for 2 rows"
    assert "Ranking of 0 features for 2 rows" in ranking._repr_html_()
    assert ranking_order(ranking, 2, 0).shape == ranking_order([], 2, 0).shape == (2, 0)


# ---- frames --------------------------------------------------------------------------------------

TIDY = {
    "row": [0, 0, 0, 1, 1, 1],
    "place": [1, 2, 3, 1, 2, 3],
    "feature": ["bmi", "age", "sex", "age", "sex", "bmi"],
    "score": [3.0, 1.0, 2.0, 4.0, 5.0, 6.0],  # scores belong to features, not to places
}


def tidy(backend, index=None):
    scores = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    ranking = Ranking(
        [[2, 0, 1], [0, 1, 2]], scores=scores, feature_names=NAMES, index=index, backend=backend
    )
    return ranking.to_frame()


def test_tidy_frames_of_each_library():
    pd.testing.assert_frame_equal(tidy("pandas"), pd.DataFrame(TIDY))
    pd.testing.assert_frame_equal(tidy(None), pd.DataFrame(TIDY))
    assert tidy("polars").equals(pl.DataFrame(TIDY))
    assert tidy("pyarrow").equals(pa.table(TIDY))


@pytest.mark.parametrize(
    "index",
    [
        pd.Index(["p", "q"]),
        pd.date_range("2024-01-01", periods=2, tz="Europe/Paris"),
        pd.CategoricalIndex(["u", "v"]),
        pd.MultiIndex.from_tuples([("p", 1), ("q", 2)]),
    ],
    ids=lambda index: type(index).__name__,
)
def test_the_row_index_survives(index):
    row = tidy("pandas", index)["row"]
    assert row.tolist() == [index[0]] * 3 + [index[1]] * 3
    if not isinstance(index, pd.MultiIndex):
        assert row.dtype == index.dtype


def test_row_labels_in_polars():
    assert tidy("polars", ["p", "q"])["row"].to_list() == ["p"] * 3 + ["q"] * 3
    assert tidy("polars", pd.Index(["p", "q"]))["row"].to_list() == ["p"] * 3 + ["q"] * 3


def test_a_frame_without_scores_or_rows():
    assert Ranking([[1, 0]]).to_frame()["score"].isna().all()
    assert Ranking([[1, 0]]).to_frame()["feature"].tolist() == ["f1", "f0"]
    empty = Ranking(np.empty((0, 2), dtype=int)).to_frame()
    assert list(empty.columns) == ["row", "place", "feature", "score"]
    assert len(empty) == 0


def test_a_frame_has_the_confidence_if_the_ranking_does():
    frame = Ranking([[1], [0]], n_features=2, confidence=[[1.0], [np.nan]]).to_frame()
    assert list(frame.columns) == ["row", "place", "feature", "score", "confidence"]
    np.testing.assert_array_equal(frame["confidence"], [1.0, np.nan])


# ---- agreement -----------------------------------------------------------------------------------


@given(orders(min_rows=1), st.data())
def test_agreement_is_the_share_of_equal_sets(order, data):
    n, d = order.shape
    k = data.draw(st.integers(1, d))
    other = np.array(data.draw(st.lists(st.permutations(range(d)), min_size=n, max_size=n)))
    expected = sum(set(a[:k]) == set(b[:k]) for a, b in zip(order.tolist(), other.tolist(), strict=True)) / n
    assert Ranking(order).agreement(Ranking(other), k) == pytest.approx(expected, abs=1e-15)
    assert Ranking(order).agreement(other, k) == pytest.approx(expected, abs=1e-15)
    assert Ranking(order).agreement(Ranking(order), k) == 1.0


@given(partials(min_rows=1), st.data())
def test_agreement_of_partial_rankings_is_that_of_the_full_ones(drawn, data):
    order, k = drawn
    n, d = order.shape
    other = np.array(data.draw(st.lists(st.permutations(range(d)), min_size=n, max_size=n)))
    longer = data.draw(st.integers(k, d))
    expected = Ranking(order).agreement(other, k)
    short, long = Ranking(order[:, :k], n_features=d), Ranking(other[:, :longer], n_features=d)
    assert short.agreement(long, k) == long.agreement(short, k) == expected
    assert short.agreement(other[:, :longer], k) == expected
    words = [f"k={k + 1}", f"from 1 to {k}, the places that both rankings have"]
    refused(words, short.agreement, long, k + 1)
    refused(words, long.agreement, short, k + 1)


def test_agreement_with_a_ranking_of_fewer_named_features():
    all_three = Ranking([[2, 0, 1]], feature_names=NAMES)
    two = Ranking([[0, 1]], feature_names=("bmi", "age"))
    assert all_three.agreement(two, 2) == two.agreement(all_three, 2) == 1.0


def test_agreement_is_by_name():
    mine = Ranking([[0, 1]], feature_names=("a", "b"))
    theirs = Ranking([[1, 0]], feature_names=("b", "a"))
    assert mine.agreement(theirs, 1) == 1.0
    assert mine.agreement(Ranking([[1, 0]]), 1) == 0.0


def test_agreement_without_rows_is_nan():
    none = Ranking(np.empty((0, 2), dtype=int))
    assert np.isnan(none.agreement(none, 1))


def test_agreement_needs_the_same_rows_and_features():
    refused(["2 rows", "1"], Ranking([[0, 1]]).agreement, Ranking([[0, 1], [1, 0]]), 1)
    refused(["of 2 features; the model has 3"], Ranking([[0, 1, 2]]).agreement, Ranking([[0, 1]]), 1)
    refused(["of 2 features; the model has 3"], Ranking([[0, 1]]).agreement, Ranking([[0, 1, 2]]), 1)
    a, b = Ranking([[0, 1]], feature_names=("a", "b")), Ranking([[0, 1]], feature_names=("a", "c"))
    refused(["has 'c', which", "'a', 'b'"], a.agreement, b, 1)
