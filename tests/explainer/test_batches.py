"""Batch functions: Arrow in, Arrow out, with the answers of the explainer, whatever the batches are."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from functools import partial

import joblib
import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import predgap
from asking import n_kernels_of, noise_of
from predgap import (
    Background,
    Categories,
    DependencyError,
    Explainer,
    Marginal,
    Normal,
    PredgapError,
    RankingError,
    Relative,
)
from predgap._model.files import encode
from predgap.errors import EnsembleError, ShapeError, SubsetError, TableError
from strategies import Split, ensemble_of, problems, random_ensemble

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.normal(size=(60, 4)), columns=["a", "b", "c", "d"])
Y = 3 * TABLE.a + TABLE.b * TABLE.c + 0.2 * TABLE.d
MODEL = xgboost.XGBRegressor(n_estimators=8, max_depth=3).fit(TABLE, Y)
EXPLAINER = Explainer(MODEL, Normal(0.5))
BATCH = pa.RecordBatch.from_pandas(TABLE, preserve_index=False)
KEYED = pa.RecordBatch.from_pandas(
    TABLE.assign(id=[f"row {i}" for i in range(60)], day=np.arange(60))[["id", "c", "a", "day", "d", "b"]],
    preserve_index=False,
)
ORDER = ["b", "a", "d", "c"]
QUESTIONS = {
    "rank": {},
    "gap": {"subset": ["a", "c"]},
    "curve": {"ranking": ORDER},
    "pgi2": {"ranking": "greedy"},
    "scores": {
        "rankings": {"mine": ORDER, "greedy": "greedy", "shap": "shap", "gain": "gain", "random": "random"}
    },
}


def numbers(batch: pa.RecordBatch, name: str) -> np.ndarray:
    return np.array(batch.column(name).to_pylist())


def bits(*batches: pa.RecordBatch) -> str:
    """All rows; NaN is equal to NaN here, and 0 is not -0."""
    return repr([row for batch in batches for row in batch.to_pylist()])


# ---- answers -------------------------------------------------------------------------------------


def test_the_answers_are_those_of_the_explainer():
    rank, gap, curve, pgi2, scores = (EXPLAINER.batch_function(w, **kw)(BATCH) for w, kw in QUESTIONS.items())
    greedy = EXPLAINER.rank(TABLE)
    assert numbers(rank, "order").tolist() == greedy.order.tolist()
    assert numbers(rank, "scores").tobytes() == greedy.scores.tobytes()
    assert all(rank.column("proven").to_pylist())
    assert numbers(gap, "gap").tobytes() == EXPLAINER.gap(TABLE, ["a", "c"]).tobytes()
    assert numbers(curve, "curve").tobytes() == EXPLAINER.curve(TABLE, ORDER).tobytes()
    assert numbers(pgi2, "pgi2").tobytes() == EXPLAINER.pgi2(TABLE, greedy).tobytes()
    found = predgap.evaluate(
        EXPLAINER, TABLE, {"mine": ORDER, "greedy": "greedy", "shap": "shap", "gain": "gain"}
    )
    for name, ranking in found.rankings.items():
        assert numbers(scores, name).tobytes() == EXPLAINER.pgi2(TABLE, ranking).tobytes()
    assert numbers(scores, "random").tobytes() == EXPLAINER.random_pgi2(TABLE).tobytes()
    for answer in (rank, gap, curve, pgi2, scores):
        assert set(answer.column("method").to_pylist()) == {"exact"}


@given(problems(max_rows=6), st.data())
def test_rows_have_the_same_bits_in_every_batch(problem, data):
    """Also after a pickle."""
    explainer = Explainer(problem.ensemble, problem.noise)
    names = list(explainer.ensemble.names)
    rows = pa.RecordBatch.from_arrays([pa.array(column) for column in problem.X.T], names)
    function = explainer.batch_function("rank")
    cut = data.draw(st.integers(0, len(problem.X)))
    copy = pickle.loads(pickle.dumps(function))
    parts = [copy(rows.slice(0, cut)), copy(rows.slice(cut))]
    assert bits(*parts) == bits(function(rows))


def test_pgu2_is_that_of_the_explainer_and_needs_all_places():
    rankings = {"mine": ORDER, "greedy": "greedy", "random": "random"}
    scored = EXPLAINER.batch_function("scores", BATCH.schema, rankings=rankings, metrics=["pgi2", "pgu2"])
    assert scored.schema.names[:2] == ["mine", "mine_pgu2"]
    found = scored(BATCH)
    orders = {"mine": ORDER, "greedy": EXPLAINER.rank(TABLE)}
    for name, order in orders.items():
        assert numbers(found, name).tobytes() == EXPLAINER.pgi2(TABLE, order).tobytes()
        assert numbers(found, f"{name}_pgu2").tobytes() == EXPLAINER.pgu2(TABLE, order).tobytes()
    assert numbers(found, "random_pgu2").tobytes() == numbers(found, "random").tobytes()
    with pytest.raises(RankingError, match="PGU² needs all 4 places"):
        EXPLAINER.batch_function("scores", rankings=["greedy"], metrics=["pgu2"], top=2)
    with pytest.raises(PredgapError, match="metrics"):
        EXPLAINER.batch_function("scores", rankings=["greedy"], metrics=["deletion"])


def test_pandas_is_not_imported():
    """It would take a worker longer to start than all else."""
    ensemble = EXPLAINER.ensemble  # the model's own library may import it
    explainer = Explainer(ensemble, Normal(0.5))
    asked = {**QUESTIONS, "scores": {"rankings": ["greedy", "random"]}}
    functions = [
        explainer.batch_function(what, BATCH.schema, columns=columns, **given)
        for what, given in asked.items()
        for columns in ("arrays", "wide")
    ]
    code = f"""
import pickle, sys
import pyarrow as pa
for function in pickle.loads({pickle.dumps(functions)!r}):
    column = pa.Array.from_buffers(pa.float64(), 2, [None, pa.py_buffer(bytes(16))])
    function(pa.RecordBatch.from_arrays([column] * 4, names=["a", "b", "c", "d"]))
print("pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_bounded_answers_say_so():
    rng = np.random.default_rng(1)
    big = random_ensemble(rng, n_trees=300, depth=6, n_features=12)
    explainer = Explainer(big, Normal(0.5), rtol=1e-2)
    X = rng.normal(size=(2, 12))
    batch = pa.RecordBatch.from_arrays([pa.array(column) for column in X.T], list(big.names))
    answer = explainer.batch_function("gap", subset=list(range(12)))(batch)
    expected = explainer.estimate(X, list(range(12)), "bounded", rtol=1e-2)
    assert answer.column("method").to_pylist() == expected.method.tolist()


# ---- schema and columns --------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["arrays", "wide"])
@pytest.mark.parametrize("what", QUESTIONS)
def test_the_schema_is_known_beforehand(what, layout):
    function = EXPLAINER.batch_function(what, KEYED.schema, columns=layout, **QUESTIONS[what])
    for batch in (KEYED, KEYED.slice(3, 4), KEYED.slice(0, 0)):
        answer = function(batch)
        answer.validate(full=True)
        assert answer.schema.equals(function.schema, check_metadata=True)
        assert answer.num_rows == batch.num_rows
    assert function.schema.names[:2] == ["id", "day"]
    assert function(KEYED).column("id").equals(KEYED.column("id"))


def test_wide_columns_have_the_same_numbers():
    arrays, wide = (
        EXPLAINER.batch_function("rank", top=2, columns=layout)(BATCH) for layout in ("arrays", "wide")
    )
    assert wide.schema.names[:6] == ["place_1", "place_2", "score_a", "score_b", "score_c", "score_d"]
    for row, places in zip(wide.to_pylist(), arrays.to_pylist(), strict=True):
        assert [row["place_1"], row["place_2"]] == [TABLE.columns[j] for j in places["order"]]
        np.testing.assert_array_equal([row[f"score_{name}"] for name in TABLE], places["scores"])


def test_keys_choose_what_is_passed_through_features_too():
    function = EXPLAINER.batch_function("gap", KEYED.schema, keys=["a", "day"], subset=[0])
    assert function.schema.names == ["a", "day", "gap", "method"]
    assert function(KEYED).column("a").equals(KEYED.column("a"))
    assert EXPLAINER.batch_function("gap", KEYED.schema, keys=[], subset=[0]).schema.names == [
        "gap",
        "method",
    ]


def test_without_names_all_columns_but_the_keys_are_features():
    explainer = Explainer(random_ensemble(RNG, n_trees=3, depth=3, n_features=2), Normal(0.5))
    batch = pa.RecordBatch.from_pydict({"id": [7], "u": [0.1], "v": [0.2]})
    function = explainer.batch_function("gap", batch.schema, keys=["id"], subset=[0])
    assert numbers(function(batch), "gap").tobytes() == explainer.gap([[0.1, 0.2]], [0]).tobytes()
    named = explainer.batch_function("pgi2", batch.schema, keys=["id"], ranking=["v", "u"])
    assert numbers(named(batch), "pgi2").tobytes() == explainer.pgi2([[0.1, 0.2]], [1, 0]).tobytes()


def test_numbers_of_any_type_and_nulls_are_read_as_in_tables():
    X = pa.RecordBatch.from_arrays(
        [
            pa.array([1, None, 3], pa.int8()),
            pa.array([True, False, None]),
            pa.array([0.5, None, 1.5], pa.float32()),
            pa.array([1, 2, 3], pa.uint64()),
        ],
        ["a", "b", "c", "d"],
    )
    rows = np.array([[1, 1, 0.5, 1], [np.nan, 0, np.nan, 2], [3, np.nan, 1.5, 3]])
    found = numbers(EXPLAINER.batch_function("gap", subset=["a", "b"])(X), "gap")
    assert found.tobytes() == EXPLAINER.gap(rows, ["a", "b"]).tobytes()


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int16(), pa.string())])
def test_categories_come_as_text_or_dictionaries(kind):
    jobs = pd.DataFrame({"x": RNG.normal(size=80), "job": pd.Categorical(RNG.choice(["clerk", "nurse"], 80))})
    y = jobs.x + 2.0 * (jobs.job == "nurse")
    model = lightgbm.LGBMRegressor(n_estimators=4, min_child_samples=5, verbose=-1, n_jobs=1).fit(jobs, y)
    explainer = Explainer(model, Marginal(jobs))
    batch = pa.RecordBatch.from_arrays(
        [pa.array(jobs.x), pa.array(jobs.job.astype(str)).cast(kind)], ["x", "job"]
    )
    function = pickle.loads(pickle.dumps(explainer.batch_function("gap", subset=["job"])))
    assert numbers(function(batch), "gap").tobytes() == explainer.gap(jobs, ["job"]).tobytes()


def test_pipelines_take_raw_batches():
    jobs = pd.DataFrame({"x": RNG.normal(size=80), "job": RNG.choice(["clerk", "nurse"], 80)})
    steps = make_column_transformer((OneHotEncoder(), ["job"]), (StandardScaler(), ["x"]))
    model = make_pipeline(steps, xgboost.XGBRegressor(n_estimators=4)).fit(
        jobs, jobs.x * (jobs.job == "nurse")
    )
    explainer = Explainer(model, jobs)
    batch = pa.RecordBatch.from_pandas(jobs.assign(id=range(80)), preserve_index=False)
    function = pickle.loads(
        pickle.dumps(explainer.batch_function("scores", batch.schema, rankings=["shap", "greedy"]))
    )
    answer = function(batch)
    found = predgap.evaluate(explainer, jobs, ["shap", "greedy"])
    assert answer.schema.names == ["id", "shap", "greedy", "method"]
    for name, ranking in found.rankings.items():
        assert numbers(answer, name).tobytes() == explainer.pgi2(jobs, ranking).tobytes()


def test_groups_and_predicted_classes():
    classes = np.digitize(Y, [-1, 1])
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=2).fit(TABLE, classes)
    explainer = Explainer(model, Normal(0.5), output="predicted", groups={"first": ["a", "b"]})
    function = pickle.loads(pickle.dumps(explainer.batch_function("rank", columns="wide")))
    ranking = explainer.rank(TABLE)
    assert function.schema.names[:3] == ["place_1", "place_2", "place_3"]
    assert function(BATCH).column("place_1").to_pylist() == ranking.top(1)[:, 0].tolist()


# ---- pickles -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 10))
    y = X[:, 0] + X[:, 1] * X[:, 2]
    return lightgbm.LGBMRegressor(n_estimators=100, verbose=-1, n_jobs=1).fit(X, y), X


@pytest.mark.parametrize("make", [Relative, partial(Normal.relative, factor=0.3), Background, Marginal])
def test_a_batch_function_has_the_trees_once_and_no_table(large, make):
    model, X = large
    explainer = Explainer(model, make(X))
    read_off = noise_of(explainer).laws, noise_of(explainer).background
    trees, laws = (len(pickle.dumps(part)) for part in (explainer.ensemble, read_off))
    assert len(pickle.dumps(explainer.batch_function("rank"))) < trees + laws + 4000
    if make is not Marginal:  # whose laws are the values of the table
        assert laws < X.nbytes / 10


def test_an_explainer_has_its_trees_and_tables_once(large):
    model, _ = large
    ensemble = predgap.load(model)
    for output in (None, 0):
        explainer = Explainer(ensemble, Normal(0.5), output=output)
        assert len(pickle.dumps(explainer)) < len(pickle.dumps(ensemble)) + 4000
    assert len(pickle.dumps(ensemble)) < 0.4 * sum(
        np.asarray(getattr(ensemble, name)).nbytes
        for name in ("threshold", "value", "left", "right", "feature")
    )


def test_a_kernel_is_built_when_it_is_needed_first(large):
    explainer = pickle.loads(pickle.dumps(Explainer(large[0], Normal(0.5))))
    assert n_kernels_of(explainer) == 0
    explainer.gap(large[1][:1], [0])
    assert n_kernels_of(explainer) == 1


def test_labels_that_a_file_does_not_take_are_pickled_too():
    stump = ensemble_of([Split(0, 0.5, 1.0, 3.0)], 2)
    days = Categories([0, 1], ((2026, 1), (2026, 2)))
    ensemble = replace(stump, categories=(None, days))
    with pytest.raises(EnsembleError, match="has the label"):
        encode(ensemble)
    assert pickle.loads(pickle.dumps(ensemble)).categories[1].labels == days.labels


def test_joblib_gives_the_same_bits_in_other_processes():
    function = EXPLAINER.batch_function("rank", KEYED.schema)
    parts = joblib.Parallel(n_jobs=2, backend="loky")(
        joblib.delayed(function)(KEYED.slice(begin, 20)) for begin in (0, 20, 40)
    )
    assert (
        pa.Table.from_batches(parts)
        .combine_chunks()
        .equals(pa.Table.from_batches([function(KEYED)]).combine_chunks())
    )


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "given", "error", "match"),
    [
        ("ranks", {}, PredgapError, "what='ranks' is unknown"),
        ("gap", {}, PredgapError, r"needs subset=\.\.\."),
        ("rank", {"subset": ["a"]}, PredgapError, "takes no subset"),
        ("gap", {"subset": np.ones((2, 4), dtype=bool)}, SubsetError, r"shape \(2, 4\)"),
        ("pgi2", {"ranking": [[0, 1], [1, 0]]}, RankingError, "one order"),
        ("pgi2", {"ranking": "shape"}, RankingError, "'shap', 'gain'"),
        ("pgi2", {"ranking": "permutation"}, RankingError, "needs outcomes"),
        ("scores", {"rankings": []}, RankingError, "expected words"),
        ("rank", {"columns": "long"}, PredgapError, "columns='long'"),
        ("rank", {"keys": ["id"]}, PredgapError, "without a schema"),
        ("rank", {"schema": KEYED.schema, "keys": ["key"]}, TableError, "keys has 'key'"),
        ("rank", {"schema": pa.schema([("a", pa.float64())])}, TableError, "lacks 3 features"),
        (
            "rank",
            {"schema": KEYED.schema.append(pa.field("order", pa.int8()))},
            PredgapError,
            "'order' would",
        ),
    ],
)
def test_what_cannot_work_is_refused_beforehand(what, given, error, match):
    with pytest.raises(error, match=match):
        EXPLAINER.batch_function(what, **given)


def test_outputs_of_each_row_are_refused():
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=2).fit(TABLE, np.digitize(Y, [-1, 1]))
    with pytest.raises(PredgapError, match="one output per row"):
        Explainer(model, Normal(0.5), output=np.zeros(60, dtype=int)).batch_function("rank")


def test_batches_that_do_not_fit_are_refused():
    function = EXPLAINER.batch_function("rank", KEYED.schema)
    with pytest.raises(TableError, match="0 columns called 'id'"):
        function(BATCH)
    with pytest.raises(TableError, match="'day' of the batch has type large_string"):
        function(KEYED.set_column(3, "day", KEYED.column("id")))
    with pytest.raises(TableError, match="lacks 1 column: 'd'"):
        function(KEYED.drop_columns(["d"]).slice(0, 0))
    with pytest.raises(ShapeError, match="does not know: 'id', 'day'"):
        EXPLAINER.batch_function("rank")(KEYED)
    with pytest.raises(TableError, match="batch is a DataFrame, expected"):
        function(KEYED.to_pandas())


def test_a_batch_function_needs_pyarrow(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(DependencyError, match="pip install pyarrow"):
        EXPLAINER.batch_function("rank")


def test_it_says_what_it_does():
    assert repr(EXPLAINER.batch_function("gap", subset=[0])).startswith("BatchFunction(Explainer(")
