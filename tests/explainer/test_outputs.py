"""What is explained of several outputs: one by position or label, each row's own, and rankings of others."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor

import predgap
from asking import kernel_of
from predgap import (
    Ensemble,
    Explainer,
    Flip,
    Link,
    NoiseError,
    Normal,
    OutputError,
    PerFeature,
    Ranking,
    RankingError,
    _core,
)
from predgap._engine.results import GapEstimate
from strategies import Split, ensemble_of, mixed_problems, problems

NAMES = ["age", "bmi", "bp"]
CLASSES = ("low", "mid", "high")


@pytest.fixture(scope="module")
def labels(table) -> np.ndarray:
    return np.array(CLASSES)[np.digitize(table["age"] + table["bmi"] * table["bp"], [-0.4, 0.4])]


@pytest.fixture(scope="module", params=[RandomForestClassifier, GradientBoostingClassifier])
def model(request, table, labels) -> Any:
    """One has vectors in its leaves, the other trees of their own for each class."""
    return request.param(n_estimators=6, max_depth=3, random_state=0).fit(table, labels)


def same(found: Any, expected: Any) -> None:
    """Equal to the last bit."""
    if isinstance(expected, Ranking):
        same(found.order, expected.order)
        same(found.scores, expected.scores)
        same(found.confidence, expected.confidence)
    elif isinstance(expected, GapEstimate):
        for field in fields(GapEstimate):
            same(getattr(found, field.name), getattr(expected, field.name))
    else:
        np.testing.assert_array_equal(found, expected, strict=True)


def rows_of(found: Any, rows: np.ndarray) -> Any:
    if isinstance(found, GapEstimate):
        return GapEstimate(**{f.name: getattr(found, f.name)[rows] for f in fields(found)})
    return found[rows]


ORDER = [2, 0, 1]
QUESTIONS = {
    "gap": lambda e, X: e.gap(X, [0, 2]),
    "gap of a mask per row": lambda e, X: e.gap(X, np.arange(3 * len(X)).reshape(-1, 3) % 2 == 0),
    "curve": lambda e, X: e.curve(X, ORDER),
    "pgi2": lambda e, X: e.pgi2(X, ORDER),
    "pgu2": lambda e, X: e.pgu2(X, ORDER),
    "greedy": lambda e, X: e.rank(X),
    "the top": lambda e, X: e.rank(X, top=2),
    "single": lambda e, X: e.rank(X, "single"),
    "expected prediction": lambda e, X: e.expected_prediction(X, [0, 1]),
    "transform": lambda e, X: e.transform(X),
    "estimate": lambda e, X: e.estimate(X, [0, 1]),
    "estimate by qmc": lambda e, X: e.estimate(X, [0, 1], "qmc", n_samples=256),
    "estimate by mc": lambda e, X: e.estimate(X, [0, 1], "mc", n_samples=256),
    "approximate gap": lambda e, X: e.approximate().gap(X, [0, 1]),
    "pruned curve": lambda e, X: e.approximate(method="pruned").curve(X, ORDER),
    "sampled gap": lambda e, X: e.approximate(method="mc", n_samples=256).gap(X, [0, 2]),
    "sampled curve": lambda e, X: e.approximate(method="qmc", n_samples=256).curve(X, ORDER),
    "sampled pgi2": lambda e, X: e.approximate(method="mc", n_samples=256).pgi2(X, ORDER),
    "sampled pgu2": lambda e, X: e.approximate(method="qmc", n_samples=256).pgu2(X, ORDER),
    "sampled ranking": lambda e, X: e.approximate(method="qmc", n_samples=256).rank(X),
}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_a_row_with_its_own_output_is_answered_as_by_an_explainer_of_that_output(model, table, ask):
    noise, predicted = Normal(0.5), model.predict(table)
    one_by_one = {name: ask(Explainer(model, noise, output=name), table) for name in CLASSES}
    assert len(set(predicted)) == 3
    by_label = np.roll(predicted, 1)
    for output, own in (
        ("predicted", predicted),
        (by_label, by_label),
        (list(by_label), by_label),
        (np.searchsorted(sorted(CLASSES), by_label), by_label),
        (pd.Series(by_label, index=table.index), by_label),
        (pl.Series(by_label), by_label),
    ):
        found = ask(Explainer(model, noise, output=output), table)
        for name in CLASSES:
            same(rows_of(found, own == name), rows_of(one_by_one[name], own == name))


@given(st.one_of(problems(max_rows=4), mixed_problems(max_rows=4)), st.data())
def test_outputs_of_rows_of_any_model(problem: Any, data: st.DataObject) -> None:
    """The trees are given to three outputs; ties, missing values and categories come with the problems."""
    output = st.integers(0, 2)
    e, rows, n_trees = problem.ensemble, problem.X, problem.ensemble.n_trees
    target = data.draw(st.lists(output, min_size=n_trees, max_size=n_trees))
    ensemble = replace(e, target=target, bias=np.arange(3.0), class_names=CLASSES)
    own = np.array(data.draw(st.lists(output, min_size=len(rows), max_size=len(rows))), dtype=int)
    largest = np.argmax(ensemble.predict(rows).reshape(-1, 3), axis=1)
    one = [Explainer(ensemble, problem.noise, output=k) for k in range(3)]
    every, order = range(e.n_features), [*range(e.n_features)]
    for outputs, explainer in (
        (own, Explainer(ensemble, problem.noise, output=own)),
        (largest, Explainer(ensemble, problem.noise, output="predicted")),
    ):
        for ask in (
            lambda e: e.gap(rows, every),
            lambda e: e.curve(rows, order),
            lambda e: e.expected_prediction(rows, every),
            lambda e: e.rank(rows).scores,
        ):
            expected = [ask(each) for each in one]
            same(ask(explainer), np.array([expected[k][r] for r, k in enumerate(outputs)]))


def test_the_predicted_output_is_the_class_that_the_model_predicts(model, table):
    ranking = Explainer(model, Normal(0.5), output="predicted").rank(table)
    assert [model.classes_[k] for k in ranking.output] == model.predict(table).tolist()


def test_threads_batches_and_no_rows_change_nothing(model, table):
    explainer = Explainer(model, Normal(0.5), output="predicted")
    whole = explainer.curve(table, ORDER)
    same(Explainer(model, Normal(0.5), output="predicted", n_jobs=2).curve(table, ORDER), whole)
    same(np.concatenate([explainer.curve(table[r : r + 1], ORDER) for r in range(len(table))]), whole)
    same(pickle.loads(pickle.dumps(explainer)).curve(table, ORDER), whole)
    none = table[:0]
    assert explainer.gap(none, [0]).shape == explainer.expected_prediction(none, [0]).shape == (0,)
    assert explainer.curve(none, ORDER).shape == (0, 3)
    assert len(explainer.rank(none)) == 0
    assert Explainer(model, Normal(0.5), output=[]).gap(none, [0]).shape == (0,)
    for output in (None, 0, "predicted"):
        asked = Explainer(model, Normal(0.5), output=output)
        for found in (asked.absolute_gap(none, [0]), asked.probability_gap(none, [0])):
            assert found.value.shape == found.lower.shape == (0,)
    assert explainer.flip(none, 0.5).value.shape == (0,)


def test_an_error_names_the_row_of_the_table():
    """Rows of one output are asked together, and count from 0 among themselves."""
    X = pd.DataFrame({"c": pd.Categorical(list("abcd") * 30), "x": np.tile(np.arange(3.0), 40)})
    y = (X["c"].cat.codes + (X["x"] > 0)) % 3
    model = lightgbm.LGBMClassifier(n_estimators=2, min_data_per_group=1, cat_smooth=1, verbose=-1).fit(X, y)
    assert len({*model.predict(X.head(9))}) > 1
    explainer = Explainer(model, PerFeature({"c": Flip(0.2), "x": Normal(0.3)}), output="predicted")
    for row in (0, 5, 8):
        rows = X.head(9).astype({"c": object})
        rows.loc[row, "c"] = "unknown"
        with pytest.raises(NoiseError, match=f"^row {row} has a category"):
            explainer.gap(rows, ["c"])


def test_progress_counts_all_rows(model, table):
    told: list[tuple[int, int]] = []
    explainer = Explainer(model, Normal(0.5), output="predicted", progress=lambda *done: told.append(done))
    explainer.rank(table)
    assert told[-1] == (60, 60)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_costly_row_is_named_as_a_row_of_the_table(model, table, monkeypatch):
    explainer = Explainer(model, Normal(0.5), output=[0] * 59 + [2])

    def refuse(*_: Any) -> Any:
        raise _core.TooCostly(0, 1e9, 1e9)

    explainer.gap(table, [0])
    kernel = kernel_of(explainer, output=2)
    monkeypatch.setattr(kernel, "core", SimpleNamespace(gap=refuse, cost=kernel.core.cost))
    with pytest.raises(predgap.CostError, match="row 59 would take"):
        explainer.gap(table, [0])


def test_the_cost_of_outputs_of_rows(model, table):
    explainer = Explainer(model, Normal(0.5), output="predicted")
    for question in ("rank", ["age"], explainer.rank(table)):
        assert explainer.cost(question, table).milliseconds > 0
        assert explainer.cost(question).milliseconds > 0
        assert Explainer(model, Normal(0.5), output=[0, 1, 2]).cost(question).milliseconds > 0
    with pytest.raises(OutputError, match="output has no entries"):
        Explainer(model, Normal(0.5), output=[]).cost("rank")
    all_zero = Explainer(model, Normal(0.5), output=[0] * 60)
    one = Explainer(model, Normal(0.5), output=0)
    assert all_zero.cost("rank", table) == one.cost("rank", table)


# ---- how outputs are named -----------------------------------------------------------------------


def two_classes(class_names: Any = ("no", "yes"), link: Link | None = None) -> Ensemble:
    return replace(ensemble_of([Split(0, 0.0, -1.0, 2.0)], 2, class_names=class_names), link=link)


def several(n: int, class_names: Any = None) -> Ensemble:
    trees = [Split(k % 2, 0.0, float(k), float(k * k)) for k in range(n)]
    return ensemble_of(trees, 2, targets=range(n), n_outputs=n, class_names=class_names)


def test_labels_and_positions_are_the_same_outputs(model, table):
    for position, label in enumerate(model.classes_):
        one, other = (Explainer(model, Normal(0.5), output=o) for o in (position, label))
        same(one.gap(table, [0, 1]), other.gap(table, [0, 1]))
        assert (one.output, other.output) == (position, label)
        assert (one.ensemble.class_names, one.ensemble.n_outputs) == ((label,), 1)


@pytest.mark.parametrize(
    ("ensemble", "output", "message"),
    [
        (
            several(3, CLASSES),
            "mit",
            "no class 'mit'; did you mean 'mid'[?] its classes are 'low', 'mid', 'hi",
        ),
        (several(3, CLASSES), 3, r"output=3 does not exist; the model has 3 \(0 to 2\)$"),
        (several(3, CLASSES), -1, "output=-1 does not exist"),
        (several(3, CLASSES), ["low", "mit"], "no class 'mit'"),
        (several(3, CLASSES), [0, 3], "output=3 does not exist"),
        (several(3, CLASSES), [0, "low"], "expected the position of an output"),
        (several(3, CLASSES), [[0]], "expected the position of an output"),
        (several(3, CLASSES), np.zeros(1000), r"output=an array of shape \(1000,\), expected the position"),
        (several(3, CLASSES), [0.5] * 1000, r"output=\[0.5, .* \(a list of 1000\), expected the position"),
        (several(3, ("7", "8", "9")), 7, "a number is a position: the class labelled 7 is output='7'"),
        (several(3), "low", "does not tell the labels of classes; pass the position of an output, 0 to 2"),
        (
            several(3),
            "predicted",
            r"the 3 outputs of this model are not known to be classes.*argmax\(axis=1\)",
        ),
        (
            two_classes(),
            "no",
            "'no' is not an output of its own; of its two classes the model has one output, that of 'yes', "
            "and its gaps are the same for both: leave output out",
        ),
        (two_classes(), 1, r"output=1 does not exist; the model has 1 \(0 to 0\); of its two classes.*'yes'"),
        (two_classes(link=Link("logistic")), 1, "output='no' is the other class, whose gaps are the same"),
        (two_classes(None), 1, r"output=1 does not exist; the model has 1 \(0 to 0\)$"),
    ],
)
def test_outputs_that_do_not_exist(ensemble, output, message):
    with pytest.raises(OutputError, match=message):
        Explainer(ensemble, Normal(1.0), output=output)


def test_outputs_of_other_rows_are_refused():
    explainer = Explainer(several(3, CLASSES), Normal(1.0), output=pd.Series([0, 1], index=["p", "q"]))
    with pytest.raises(OutputError, match="output is given for 2 rows, X has 3; pass one per row"):
        explainer.gap(np.zeros((3, 2)), [0])
    X = pd.DataFrame(np.eye(2), index=["q", "p"])
    assert explainer.rank(X).output.tolist() == [1, 0]
    with pytest.raises(
        OutputError, match=r"output and X are of different rows: 1 of the 2 row labels of X \('r'"
    ):
        explainer.gap(X.set_axis(["r", "p"]), [0])


def test_a_class_that_is_called_predicted_is_chosen_by_position():
    ensemble = several(3, ("predicted", "b", "c"))
    rows = np.array([[1.0, 1.0], [-1.0, -1.0]])
    assert Explainer(ensemble, Normal(1.0), output="predicted").rank(rows).output.tolist() == [2, 2]
    assert Explainer(ensemble, Normal(1.0), output=0).ensemble.class_names == ("predicted",)
    assert Explainer(ensemble, Normal(1.0), output=["predicted", "b"]).rank(rows).output.tolist() == [0, 1]


def test_a_number_that_is_the_label_of_another_class_warns():
    ensemble = several(3, ("1", "2", "3"))
    with pytest.warns(
        UserWarning, match="output=1 is the class labelled '2': a number is a position. Write outp"
    ):
        Explainer(ensemble, Normal(1.0), output=1)
    with pytest.warns(UserWarning, match="output=1 is the class labelled '2'"):
        Explainer(ensemble, Normal(1.0), output=[0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Explainer(ensemble, Normal(1.0), output="1")
        Explainer(ensemble, Normal(1.0), output=0)
        Explainer(several(3, ("0", "1", "2")), Normal(1.0), output=1)
        Explainer(two_classes(("0", "1")), Normal(1.0), output=0)


# ---- rankings of an output -----------------------------------------------------------------------


def scoring(explainer: Explainer) -> list[Any]:
    sampled = explainer.approximate()
    return [e_method for e in (explainer, sampled) for e_method in (e.curve, e.pgi2, e.pgu2)]


def refused(explainer: Explainer, rows: Any, ranking: Any, message: str) -> None:
    for score in scoring(explainer):
        with pytest.raises(RankingError, match=message):
            score(rows, ranking)
    if isinstance(ranking, Ranking):
        with pytest.raises(RankingError, match=message):
            explainer.cost(ranking, rows)
        assert explainer.pgi2(rows, ranking.order).shape == (len(ranking),)  # as the message says


def test_a_ranking_of_another_output_is_refused_and_both_are_named():
    rows, ensemble = np.zeros((2, 2)), several(3, CLASSES)
    ranking = Ranking([[0, 1], [1, 0]], output=1)
    for output in (0, "low"):
        refused(
            Explainer(ensemble, Normal(1.0), output=output),
            rows,
            ranking,
            r"the ranking is of output 1 \('mid'\), the explainer of output 0 \('low'\); pass output=1.*"
            "pass ranking.order",
        )
    for output in (1, "mid", [1, 1], ["mid", "mid"]):
        assert Explainer(ensemble, Normal(1.0), output=output).pgi2(rows, ranking).shape == (2,)
    refused(
        Explainer(ensemble, Normal(1.0)),
        rows,
        ranking,
        r"of output 1 \('mid'\), the explainer of all 3 outputs together; pass output=1 to Explainer",
    )
    refused(
        Explainer(ensemble, Normal(1.0), output=[1, 2]),
        rows,
        ranking,
        r"in row 1 the ranking is of output 1 \('mid'\), the explainer of output 2 \('high'\) \(1 of 2 rows",
    )
    per_row = Ranking([[0, 1], [1, 0]], output=[1, 2])
    assert Explainer(ensemble, Normal(1.0), output=[1, 2]).pgi2(rows, per_row).shape == (2,)
    refused(Explainer(ensemble, Normal(1.0), output=1), rows, per_row, "in row 1 the ranking is of output 2")
    refused(
        Explainer(ensemble, Normal(1.0)), rows, per_row, "the ranking is of an output per row, the explainer"
    )
    without = Explainer(several(3), Normal(1.0), output=0)
    refused(without, rows, ranking, "the ranking is of output 1, the explainer of output 0;")


def test_a_ranking_by_label_is_compared_by_label():
    rows, ranking = np.zeros((1, 2)), Ranking([[0, 1]], output="mid")
    assert Explainer(several(3, CLASSES), Normal(1.0), output=1).pgi2(rows, ranking).shape == (1,)
    refused(
        Explainer(several(3, CLASSES), Normal(1.0), output=2),
        rows,
        ranking,
        r"output 1 \('mid'\).*2 \('high'\)",
    )
    refused(
        Explainer(several(3), Normal(1.0), output=1),
        rows,
        ranking,
        "cannot place: output='mid': the model does",
    )
    strange = Ranking([[0, 1]], output="nine")
    refused(Explainer(several(3, CLASSES), Normal(1.0), output=1), rows, strange, "no class 'nine'")


def test_rankings_by_an_explainer_carry_its_output(model, table):
    noise, label = Normal(0.5), str(model.classes_[1])
    assert Explainer(model, noise).rank(table).output is None
    assert Explainer(model, noise, output=1).rank(table).output == 1
    assert Explainer(model, noise, output=label).approximate().rank(table).output == label
    ranking = Explainer(model, noise, output="predicted").rank(table)
    assert ranking.output.tolist() == model.predict_proba(table).argmax(axis=1).tolist()
    assert Explainer(model, noise, output="predicted").pgi2(table, ranking).shape == (60,)
    refused(Explainer(model, noise, output=0), table, ranking, "in row .* the ranking is of output")
    shuffled = table.sample(frac=1, random_state=0)
    explainer = Explainer(model, noise, output="predicted")
    expected = pd.Series(explainer.pgi2(table, ranking), index=table.index)[shuffled.index]
    same(explainer.pgi2(shuffled, ranking), expected.to_numpy())


@pytest.mark.parametrize("names", [("no", "yes"), ("0", "1"), None])
def test_of_two_classes_both_rankings_are_of_the_one_output(names):
    """SHAP values of a binary forest are (n, d, 2), those of class 0 minus those of class 1."""
    rows, ensemble = np.zeros((1, 2)), two_classes(names)
    values = np.stack([[[-1.0, 2.0]], [[1.0, -2.0]]], axis=2)
    for output in (0, 1, [1]):
        ranking = Ranking.from_attributions(values, output)
        for explainer in (Explainer(ensemble, Normal(1.0)), Explainer(ensemble, Normal(1.0), output=0)):
            same(explainer.pgi2(rows, ranking), explainer.pgi2(rows, [1, 0]))
    other = Ranking([[0, 1]], output=2)
    refused(Explainer(ensemble, Normal(1.0)), rows, other, "of output 2, the model has one output")
    if names is not None:
        for name in names:
            assert Explainer(ensemble, Normal(1.0)).pgi2(rows, Ranking([[0, 1]], output=name)).shape == (1,)
        strange = Ranking([[0, 1]], output="maybe")
        refused(
            Explainer(ensemble, Normal(1.0)),
            rows,
            strange,
            f"'maybe'.*one output, of the classes '{names[0]}'",
        )


def test_shap_explanations_are_scored_as_they_are(table, labels):
    shap = pytest.importorskip("shap")
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(table, labels)
    e = shap.TreeExplainer(model)(table)
    for output in range(3):
        explainer = Explainer(model, Normal(0.5), output=output)
        expected = explainer.pgi2(table, Ranking.from_attributions(e.values, output).order)
        same(explainer.pgi2(table, e), expected)  # the explainer's output is taken
        same(explainer.pgi2(table, e[..., output]), expected)
        refused(
            explainer,
            table,
            e[..., (output + 1) % 3],
            "the ranking is of output . .*, the explainer of output",
        )
    predicted = Explainer(model, Normal(0.5), output="predicted")
    own = model.predict_proba(table).argmax(axis=1)
    same(predicted.pgi2(table, e), predicted.pgi2(table, Ranking.from_attributions(e, own)))
    refused(
        Explainer(model, Normal(0.5)), table, e, "of 3 outputs one by one, the explainer is of all together"
    )
    two = shap.Explanation(e.values[:, :, :2], data=e.data)
    refused(predicted, table, two, "of 2 outputs, the model has 3; choose one with Ranking.from_attributions")


def test_shap_of_a_binary_forest(table, labels):
    shap = pytest.importorskip("shap")
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(table, labels == "low")
    e = shap.TreeExplainer(model)(table)
    assert e.shape == (60, 3, 2)
    explainer = Explainer(model, Normal(0.5))
    expected = explainer.pgi2(table, Ranking.from_attributions(e, output=1))
    same(explainer.pgi2(table, e), expected)
    same(explainer.pgi2(table, e[..., 1]), expected)


# ---- rows and names ------------------------------------------------------------------------------


def test_scores_follow_the_row_labels(model, table):
    explainer = Explainer(model, Normal(0.5), output=0)
    frame = pd.DataFrame(np.random.default_rng(1).normal(size=(60, 3)), columns=NAMES, index=table.index)
    expected = explainer.pgi2(table, frame)
    for form in (frame[::-1], Ranking.from_attributions(frame[::-1]), frame.sample(frac=1, random_state=0)):
        same(explainer.pgi2(table, form), expected)
        same(explainer.approximate().pgi2(table, form).value, expected)
    same(explainer.pgi2(table, Ranking.from_attributions(frame.to_numpy())), expected)
    same(explainer.pgi2(table, pl.DataFrame(frame)), expected)
    same(explainer.pgi2(pl.DataFrame(table), frame), expected)
    same(explainer.pgi2(table.reset_index(drop=True), frame.reset_index(drop=True)), expected)
    refused(
        explainer,
        table,
        frame.reset_index(drop=True),
        "X has an index of its own .*, the ranking the default",
    )
    refused(
        explainer,
        table.reset_index(drop=True),
        frame,
        "the ranking has an index of its own .*, X the default",
    )
    refused(
        explainer, table, frame.set_axis([f"q{i}" for i in range(60)]), r"60 of the 60 row labels of X \('p0'"
    )


def test_names_of_columns_where_the_model_has_none(table):
    """A model of arrays takes the columns of a frame by position; rankings go by the names of these."""
    y = np.asarray(table["age"] ** 2 + table["bmi"])
    model = RandomForestRegressor(5, max_depth=3, random_state=0).fit(table.to_numpy(), y)
    explainer = Explainer(model, Normal(0.5))
    assert explainer.ensemble.feature_names is None
    ranking = explainer.rank(table)
    assert ranking.feature_names == tuple(NAMES)
    values = pd.DataFrame(-ranking.ranks.astype(float) + 9.0, columns=NAMES, index=table.index)
    expected = explainer.pgi2(table, ranking)
    same(explainer.pgi2(table, values), expected)
    same(explainer.pgi2(table, values[NAMES[::-1]]), expected)  # by position these would be other features
    same(explainer.pgi2(table.to_numpy(), ranking.order), expected)
    importances = pd.Series([1.0, 3.0, 2.0], index=["bp", "age", "bmi"])
    same(explainer.pgi2(table, importances), explainer.pgi2(table, [0, 1, 2]))
    refused(
        explainer,
        table,
        values.set_axis(["a", "b", "c"], axis=1),
        "has 'a', 'b', 'c', which the model does not have",
    )


def test_labels_reach_the_explainer_from_every_wrapper(table, labels):
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=4, verbose=-1).fit(table, labels)
    by_label = Explainer(model, Normal(0.5), output="mid").gap(table, ["age"])
    same(by_label, Explainer(model, Normal(0.5), output=2).gap(table, ["age"]))
    numbers = xgboost.XGBClassifier(n_estimators=4).fit(table, np.digitize(table["age"], [-0.4, 0.4]))
    assert Explainer(numbers, Normal(0.5), output="predicted").rank(table).output.tolist() == (
        numbers.predict(table).tolist()
    )
