"""The argument `rankings`: words, mappings, arrays, frames, files; and what is wrong with them."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn.ensemble import RandomForestRegressor

import predgap
from predgap import Explainer, Normal, Ranking, evaluate
from predgap.errors import PredgapError, RankingError, TableError
from predgap.evaluation.requests import read_requests

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # shap's own
    import shap

NAMES = ["age", "=bmi", "sex", "bp"]


@pytest.fixture(scope="module")
def table():
    values = np.random.default_rng(0).normal(size=(12, 4))
    return pd.DataFrame(values, columns=NAMES, index=[f"r{i}" for i in range(12)])


@pytest.fixture(scope="module")
def explainer(table):
    y = table @ [3.0, 2.0, 1.0, 0.5]
    return Explainer(RandomForestRegressor(5, max_depth=3, random_state=0).fit(table, y), Normal(0.5))


@pytest.fixture(scope="module")
def attributions(table):
    return np.random.default_rng(1).normal(size=table.shape)


def order_of(explainer, X, ranking):
    return evaluate(explainer, X, {"it": ranking}).rankings["it"].order


# ---- forms ----


def test_every_form_of_attributions_is_the_same_ranking(explainer, table, attributions):
    expected = np.argsort(-np.abs(attributions), axis=1, kind="stable")
    frame = pd.DataFrame(attributions, columns=NAMES, index=table.index)
    forms = [
        attributions,
        np.column_stack([attributions, np.ones(12)]),  # with a bias
        frame,
        frame.iloc[::-1],  # matched by its labels
        frame[NAMES[::-1]],
        Ranking.from_attributions(frame),
        shap.Explanation(attributions, np.zeros(12), table.to_numpy(), feature_names=NAMES),
        expected,
        np.array(NAMES)[expected],
    ]
    for form in forms:
        assert order_of(explainer, table, form).tolist() == expected.tolist()
    by_polars = order_of(explainer, table.to_numpy(), pl.DataFrame(attributions, NAMES))
    assert by_polars.tolist() == expected.tolist()


def test_one_order_for_all_rows(explainer, table):
    importances = np.array([0.1, -3.0, 0.5, 0.0])
    for form in (importances, pd.Series(importances, NAMES), [1, 2, 0, 3], ["=bmi", "sex", "age", "bp"]):
        found = evaluate(explainer, table, {"it": form})
        assert found.rankings["it"].order.tolist() == [[1, 2, 0, 3]] * 12
        assert found.is_fixed("it")


def test_words_may_be_a_list_one_word_or_a_mapping(explainer, table):
    assert evaluate(explainer, table[:2], ["greedy", "single"]).names == ("greedy", "single")
    assert evaluate(explainer, table[:2], "greedy").names == ("greedy",)
    assert evaluate(explainer, table[:2], {"mine": "greedy"}).words == {"mine": "greedy"}


def test_which_rankings_are_by_shap(table, attributions):
    explanation = shap.Explanation(attributions, np.zeros(12), feature_names=NAMES)
    given = {"x": explanation, "TreeSHAP": attributions, "shapley": "shapley", "Shapley": attributions}
    found = read_requests({**given, "shap": "shap", "it": "greedy"})
    assert [r.name for r in found if r.is_shap] == ["x", "TreeSHAP", "shap"]


# ---- files ----


def long_frame(table, order):
    return Ranking(order, feature_names=NAMES, index=table.index, backend="pandas").to_frame()


@pytest.mark.parametrize("suffix", ["csv", "parquet", "CSV"])
def test_a_file_of_places(explainer, table, attributions, suffix, tmp_path):
    order = np.argsort(-np.abs(attributions), axis=1)
    frame = long_frame(table, order).sample(frac=1, random_state=0)  # lines in any order
    path = tmp_path / f"mine.{suffix}"
    if suffix == "parquet":
        frame.to_parquet(path)
    else:
        frame["feature"] = frame["feature"].replace("=bmi", "'=bmi")  # as the command line writes it
        frame.to_csv(path, index=False)
    found = evaluate(explainer, table, [str(path), "greedy"])
    assert found.names == ("mine", "greedy")
    assert found.rankings["mine"].order.tolist() == order.tolist()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("index", [False, True])
def test_a_file_of_attributions(explainer, table, attributions, suffix, index, tmp_path):
    order = np.argsort(-np.abs(attributions), axis=1)
    frame = pd.DataFrame(attributions, columns=NAMES, index=table.index)
    if index:
        frame = frame.iloc[::-1]  # matched by its labels
    path = tmp_path / f"mine.{suffix}"
    if suffix == "csv":
        frame.to_csv(path, index=index)
    else:
        pa.parquet.write_table(pa.Table.from_pandas(frame, preserve_index=index), path)
    found = evaluate(explainer, table, {"mine": path})
    assert found.rankings["mine"].order.tolist() == order.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("row,place,feature\n0,1,age\n0,2,bp\n1,1,age\n", "row '1' has the places 1, expected 1 to 2"),
        ("row,place,feature\n0,1,age\n0,1,bp\n", "two features at place 1"),
        ("row,place,feature\n0,,age\n", "'place' has missing values"),
        ("row,place,feature\n0,1.5,age\n", "holds 1.5, expected 1, 2, ..."),
        ("row,place,feature\n", "no rows"),
        ("age,=bmi,sex,bp\n1,2,high,4\n", "not numbers: 'sex'"),
        ("age,=bmi,sex,bp\n", "no rows"),
        ("age,=bmi,sex,bp\n1,2,3,\n", "are empty, or not numbers: 'bp'"),
        ("age,=bmi,sex,bp\n1,2,3,\n1,2,3,4\n", "NaN or infinite"),
        ("", "cannot be read as csv"),
        ("row,place,feature\n0,1,hair\n", "'hair', which the model does not have"),
        ("row,place,feature\n0,1,age\n", "1 row, X has 12"),
    ],
)
def test_files_that_are_no_rankings(explainer, table, text, message, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(RankingError, match=message):
        evaluate(explainer, table, [path])


def test_a_file_with_the_default_index_is_refused_by_labels(explainer, table, attributions, tmp_path):
    frame = pd.DataFrame(attributions, columns=NAMES)
    frame.to_csv(tmp_path / "it.csv")
    with pytest.raises(RankingError, match="X has an index of its own"):
        evaluate(explainer, table, {"it": tmp_path / "it.csv"})
    frame.to_csv(tmp_path / "it.csv", index=False)
    assert evaluate(explainer, table, {"it": tmp_path / "it.csv"}).names == ("it",)


def test_files_that_are_no_tables(explainer, table, tmp_path):
    (tmp_path / "mine.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(RankingError, match="cannot be read as parquet"):
        evaluate(explainer, table, [tmp_path / "mine.parquet"])
    with pytest.raises(RankingError, match="there is no file"):
        evaluate(explainer, table, [tmp_path / "other.csv"])


def test_words_may_be_in_capitals(explainer, table):
    found = evaluate(explainer, table, ["SHAP", "Greedy"])
    assert found.names == ("shap", "greedy")
    assert found.words == {"shap": "shap", "greedy": "greedy"}
    with pytest.raises(RankingError, match="two rankings are called 'shap'"):
        evaluate(explainer, table, ["shap", "SHAP"])


# ---- errors ----


@pytest.mark.parametrize(
    ("rankings", "message"),
    [
        (["gredy"], "did you mean 'greedy'"),
        ({"a": "model.json"}, "expected a ranking, the path of a .csv or .parquet file, or one of the words"),
        ({"a": None}, "is None"),
        ([], "is empty"),
        ({}, "is empty"),
        (7, "is 7, expected words"),
        ([[1, 2]], "expected words such as"),
        (["greedy", "greedy"], "two rankings are called 'greedy'"),
        ({1: "greedy"}, "the name 1"),
        ({"mine": [0, 9]}, r"rankings\['mine'\]: "),
        ({"mine": ["age", "hair"]}, r"rankings\['mine'\]: .*hair"),
        ({"mine": np.ones((3, 4))}, r"rankings\['mine'\]: the ranking has 3 rows, X has 12"),
        ({"mine": np.full((12, 4), np.nan)}, "NaN or infinite"),
        ({"mine": "permutation"}, r"needs y.*y=y"),
    ],
)
def test_what_is_no_ranking(explainer, table, rankings, message):
    with pytest.raises(RankingError, match=message):
        evaluate(explainer, table, rankings)


def test_other_arguments_are_checked(explainer, table):
    with pytest.raises(PredgapError, match=r"expected a predgap\.Explainer"):
        evaluate("model.json", table, ["greedy"])
    with pytest.raises(TableError, match="no rows to evaluate"):
        evaluate(explainer, table[:0], ["greedy"])
    with pytest.raises(PredgapError, match="metrics has 'auc', expected one or more of 'pgi2', 'pgu2'"):
        evaluate(explainer, table, ["greedy"], metrics=["auc"])
    with pytest.raises(PredgapError, match="metrics has 7, expected"):
        evaluate(explainer, table, ["greedy"], metrics=7)
    with pytest.raises(PredgapError, match="seed"):
        evaluate(explainer, table, ["greedy"], seed="x")
    with pytest.raises(PredgapError, match="progress"):
        evaluate(explainer, table, ["greedy"], progress=3)
    with pytest.raises(RankingError, match="top is 9"):
        evaluate(explainer, table, ["greedy"], top=9)
    with pytest.raises(predgap.NoiseError, match="strength"):
        evaluate(explainer, table, ["greedy"], strengths=[0.1])
