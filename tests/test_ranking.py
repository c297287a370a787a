"""Rankings: made from attributions, read from users, compared, and turned into frames."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from predgap.errors import RankingError
from predgap.ranking import Ranking, ranking_order

NAMES = ("age", "sex", "bmi")
MATRICES = hnp.arrays(
    np.float64, st.tuples(st.integers(0, 5), st.integers(1, 6)), elements=st.floats(-9, 9, width=16)
)


def orders(min_rows=0):
    def rows(d):
        return st.lists(st.permutations(range(d)), min_size=min_rows, max_size=5).map(
            lambda r: np.array(r, dtype=int).reshape(-1, d)
        )

    return st.integers(1, 6).flatmap(rows)


@st.composite
def partials(draw, min_rows=0):
    """An order (n, d), and a number of places from 1 to d."""
    order = draw(orders(min_rows))
    return order, draw(st.integers(1, order.shape[1]))


def names_of(order):
    return tuple(f"name{j}" for j in range(order.shape[1]))


def refused(words, function, *args, **kwargs):
    with pytest.raises(RankingError) as caught:
        function(*args, **kwargs)
    assert all(word in str(caught.value) for word in words), str(caught.value)


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


# ---- from attributions ---------------------------------------------------------------------------


@given(MATRICES)
def test_attributions_rank_by_size_and_ties_go_to_the_lower_index(values):
    ranking = Ranking.from_attributions(values)
    for r, row in enumerate(values):
        assert ranking.order[r].tolist() == sorted(range(len(row)), key=lambda j: (-abs(row[j]), j))
    np.testing.assert_array_equal(ranking.scores, np.abs(values))
    assert (ranking.method, ranking.estimator, ranking.confidence) == ("attributions", None, None)


@given(MATRICES, st.data())
def test_the_top_of_attributions(values, data):
    d = values.shape[1]
    k = data.draw(st.integers(1, d))
    full, top = Ranking.from_attributions(values), Ranking.from_attributions(values, top=k)
    assert top.order.tolist() == full.order[:, :k].tolist()
    assert top.scores.tolist() == full.scores.tolist()
    assert top.n_features == d
    for wrong in (0, d + 1, -1, 1.0, True, "1"):
        words = [f"top={wrong!r}", f"from 1 to {d}, the number of features"]
        refused(words, Ranking.from_attributions, values, top=wrong)


@given(MATRICES)
def test_the_bias_column_is_dropped_when_the_features_are_known(values):
    d = values.shape[1]
    names = [f"n{j}" for j in range(d)]
    with_bias = np.column_stack([values, np.full(len(values), 99.0)])
    ranking = Ranking.from_attributions(with_bias, feature_names=names)
    assert ranking.order.tolist() == Ranking.from_attributions(values).order.tolist()
    assert ranking.feature_names == tuple(names)


CUBE = np.array([[[1.0, 9.0], [2.0, 3.0], [3.0, 5.0]]])  # one row, three features, two outputs


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (CUBE, None),
        (CUBE, NAMES),
        (np.concatenate([CUBE, [[[99.0, 99.0]]]], axis=1), NAMES),  # (n, d + 1, k)
        (
            np.concatenate([np.swapaxes(CUBE, 1, 2), [[[99.0], [99.0]]]], axis=2),
            NAMES,
        ),  # XGBoost: (n, k, d + 1)
        ([CUBE[:, :, 0], CUBE[:, :, 1]], None),  # older shap: a list of outputs
    ],
    ids=["shap", "shap, named", "with bias", "xgboost", "list"],
)
def test_one_of_several_outputs(values, names):
    assert Ranking.from_attributions(values, 0, feature_names=names).order.tolist() == [[2, 1, 0]]
    assert Ranking.from_attributions(values, output=1, feature_names=names).order.tolist() == [[0, 2, 1]]
    refused(["2 outputs", "output=0 ... output=1"], Ranking.from_attributions, values, feature_names=names)
    for output, words in (
        (2, "does not exist; the attributions have 2 (0 to 1)"),
        (-1, "does not exist; the attributions have 2 (0 to 1)"),
        (True, "expected the position of an output, the label of a class, or an array"),
        (0.0, "expected the position of an output, the label of a class, or an array"),
        ("a", "does not exist; the attributions have no names of outputs; pass a position (0 to 1)"),
    ):
        refused([f"output={output!r}", words], Ranking.from_attributions, values, output, feature_names=names)


def test_a_single_output_needs_no_choice():
    assert Ranking.from_attributions(CUBE[:, :, :1]).order.tolist() == [[2, 1, 0]]
    assert Ranking.from_attributions(CUBE[:, :, 0], output=0).order.tolist() == [[2, 1, 0]]


FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("backend", FRAMES)
def test_frames_of_attributions_keep_their_names(backend):
    frame = FRAMES[backend]({"bmi": [1.0, -5.0], "age": [2, 3]})
    ranking = Ranking.from_attributions(frame)
    assert ranking.feature_names == ("bmi", "age")
    assert ranking.order.tolist() == [[1, 0], [0, 1]]
    assert ranking.backend == backend
    assert ranking_order(ranking, 2, 2, ("age", "bmi")).tolist() == [[0, 1], [1, 0]]


def test_frames_are_aligned_to_given_names_and_a_bias_is_dropped():
    frame = pd.DataFrame({"bmi": [1.0], "age": [2.0], "bias": [9.0]}, index=["p"])
    ranking = Ranking.from_attributions(frame, feature_names=("age", "bmi"))
    assert ranking.feature_names == ("age", "bmi")
    assert ranking.order.tolist() == [[0, 1]]
    assert list(ranking.index) == ["p"]


def test_frames_with_default_labels_have_no_names():
    frame = pd.DataFrame([[1.0, 2.0, 9.0]])
    assert Ranking.from_attributions(frame).feature_names is None
    assert Ranking.from_attributions(frame, feature_names=("a", "b")).order.tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("values", "names", "words"),
    [
        ([[1.0, np.nan]], None, ["row 0", "'f1'", "nan", "cannot be ranked"]),
        ([[1.0, 2.0], [-np.inf, np.nan]], ("a", "b"), ["row 1", "'a'", "-inf", "2 are NaN or infinite"]),
        (pd.DataFrame({"a": [1.0], "b": [None]}), None, ["row 0", "'b'", "nan"]),
        ([1.0, 2.0], None, ["shape (2,)", "values[None, :]"]),
        (np.ones((1, 2, 3, 4)), None, ["shape (1, 2, 3, 4)", "(n, d, k)"]),
        ([[1.0, 2.0]], ("a", "b", "c"), ["2 columns", "expected 3", "'a', 'b', 'c'"]),
        ([[1.0, 2.0, 3.0]], ("a",), ["3 columns", "expected 1"]),
        ([["a", "b"]], None, ["dtype <U1", "numbers"]),
        ([[True, False]], None, ["dtype bool"]),
        (np.array([[1.0, "a"]], dtype=object), None, ["not numbers"]),
        ([[1j]], None, ["complex128"]),
        ([[1.0], [1.0, 2.0]], None, ["differ in length"]),
        (pd.DataFrame({"a": ["x"]}), None, ["attributions", "'a'", "text", "'x'"]),
        (pd.DataFrame({"a": [1.0]}), ("b",), ["lack 'b'", "have 'a'"]),
        (None, None, ["NoneType"]),
        (np.ones((1, 2, 3)), ("a", "b"), ["shape (1, 2, 3)", "may be (n, d, k)", "(n, k, d + 1)"]),
        (np.ma.masked_array([[1.0, 5.0]], mask=[[0, 1]]), None, ["1 of the attributions are masked", "fill"]),
        ([np.ma.masked_array([[1.0, 5.0]], mask=[[0, 1]])], None, ["1 of the attributions are masked"]),
        ([np.ma.masked_array([1.0, 5.0], mask=[0, 1])], None, ["1 of the attributions are masked"]),
    ],
    ids=repr,
)
def test_what_is_not_attributions_is_refused(values, names, words):
    refused(words, Ranking.from_attributions, values, feature_names=names)


def test_a_mask_that_masks_nothing_does_not_matter():
    values = np.ma.masked_array([[1.0, 5.0]], mask=[[False, False]])
    assert Ranking.from_attributions(values).order.tolist() == [[1, 0]]


@pytest.mark.parametrize("n_classes", [3, 5])
def test_pred_contribs_of_several_classes_need_names(n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    model = xgboost.XGBClassifier(n_estimators=4, max_depth=3).fit(X, np.arange(60) % n_classes)
    contribs = model.get_booster().predict(xgboost.DMatrix(X), pred_contribs=True)
    assert contribs.shape == (60, n_classes, 4)
    refused(["may be (n, d, k)", "pred_contribs", "feature_names="], Ranking.from_attributions, contribs, 0)
    if n_classes == 5:  # three classes, or four, might be three features with or without a bias
        assert Ranking.from_attributions(contribs, 0, feature_names=NAMES).n_features == 3
    assert Ranking.from_attributions(contribs[:, 0], feature_names=NAMES).n_features == 3


def test_one_row_of_as_many_outputs_as_columns_needs_names():
    values = np.random.default_rng(0).normal(size=(1, 3, 4))
    refused(["shape (1, 3, 4)", "feature_names="], Ranking.from_attributions, values, 0)
    assert Ranking.from_attributions(values[:, :, :3], 0).n_features == 3
    assert Ranking.from_attributions(np.zeros((2, 3, 2)), 0).order.tolist() == [[0, 1, 2]] * 2
    assert Ranking.from_attributions(explanation(values, data=np.ones((1, 3))), 0).n_features == 3


def test_output_of_attributions_without_outputs():
    words = ["output=1 does not exist", "have 1 (0 to 0)"]
    refused(words, Ranking.from_attributions, [[[1.0], [2.0]]], 1)


def test_bias_cannot_be_recognised_without_names_but_is_explained_later():
    ranking = Ranking.from_attributions([[1.0, 2.0, 9.0]])
    words = ["of 3 features; the model has 2", "pred_contribs", "bias", "feature_names="]
    refused(words, ranking_order, ranking, 1, 2, ("a", "b"))


# ---- shap and XGBoost ----------------------------------------------------------------------------


def explanation(values, **kwargs):
    shap = pytest.importorskip("shap")
    return shap.Explanation(np.asarray(values), **kwargs)


def test_an_explanation_keeps_its_names():
    e = explanation(
        [[1.0, -2.0], [4.0, 3.0]], base_values=0.5, data=np.ones((2, 2)), feature_names=["a", "b"]
    )
    ranking = Ranking.from_attributions(e)
    assert (ranking.order.tolist(), ranking.feature_names) == ([[1, 0], [0, 1]], ("a", "b"))
    assert Ranking.from_attributions(e[1]).order.tolist() == [[0, 1]]
    assert Ranking.from_attributions(e[:1]).order.tolist() == [[1, 0]]


def test_an_explanation_without_names_or_data():
    assert Ranking.from_attributions(explanation([[1.0, -2.0]])).feature_names is None
    assert Ranking.from_attributions(explanation([1.0, -2.0])).order.tolist() == [[1, 0]]


def test_an_explanation_of_several_outputs():
    e = explanation(np.repeat(CUBE, 2, axis=0), data=np.ones((2, 3)), feature_names=list(NAMES))
    refused(["2 outputs"], Ranking.from_attributions, e)
    assert Ranking.from_attributions(e, 1).order.tolist() == [[0, 2, 1]] * 2
    assert Ranking.from_attributions(e[0], 1).order.tolist() == [[0, 2, 1]]
    assert Ranking.from_attributions(e[:, :, 1]).order.tolist() == [[0, 2, 1]] * 2


def test_an_explanation_of_one_feature_is_refused():
    e = explanation([[1.0, -2.0], [4.0, 3.0]], data=np.ones((2, 2)), feature_names=["a", "b"])
    refused(["only the feature 'a'"], Ranking.from_attributions, e[:, "a"])


def test_pred_contribs_and_shap_give_the_same_ranking():
    shap = pytest.importorskip("shap")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=NAMES)
    model = xgboost.XGBClassifier(n_estimators=4, max_depth=3).fit(X, rng.integers(0, 3, 60))
    contribs = model.get_booster().predict(xgboost.DMatrix(X), pred_contribs=True)
    assert contribs.shape == (60, 3, 4)
    e = shap.TreeExplainer(model)(X)
    for output in range(3):
        with_bias = contribs[:, output]
        ours = Ranking.from_attributions(with_bias, feature_names=NAMES)
        assert ours.order.tolist() == np.argsort(-np.abs(with_bias[:, :3]), axis=1, kind="stable").tolist()
        assert Ranking.from_attributions(e, output).agreement(ours, 1) > 0.9  # shap sums in another order


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
