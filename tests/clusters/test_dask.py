"""Dask gives the bits of one process, on threads and on processes, also if a worker is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

pytest.importorskip("dask.dataframe", reason="Dask is not installed: pip install 'predgap[dask]'")
pytest.importorskip("distributed", reason="distributed is not installed: pip install 'predgap[dask]'")

import dask
import dask.dataframe as dd

import engines
import predgap.dask
import rows
from effort import cases
from predgap import Explainer, Normal, TableError
from predgap.errors import DependencyError

TABLE = rows.table()
EXPLAINER = rows.explainer()


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with engines.dask_cluster(tmp_path_factory.mktemp("dask")) as address:
        from distributed import Client

        with Client(address) as connected:
            yield connected


def answers(df, what, keys=None):
    positional, named = rows.QUESTIONS[what]
    return getattr(predgap.dask, what)(df, EXPLAINER, *positional, keys=keys, **named)


def bits(computed):
    return rows.bits(computed.to_dict("records"))


@pytest.mark.parametrize("what", rows.QUESTIONS)
@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
def test_every_row_has_the_bits_of_one_process(what, scheduler):
    asked = answers(dd.from_pandas(TABLE, npartitions=5), what)
    assert bits(asked.compute(scheduler=scheduler)) == rows.expected(EXPLAINER, TABLE, what)


@pytest.mark.parametrize("what", rows.QUESTIONS)
def test_worker_processes_give_the_same_bits(client, what):
    asked = answers(dd.from_pandas(TABLE, npartitions=5), what)
    assert bits(client.compute(asked, sync=True)) == rows.expected(EXPLAINER, TABLE, what)


@pytest.mark.parametrize("what", rows.QUESTIONS)
def test_the_columns_are_known_beforehand_and_keys_keep_their_types_and_index(what):
    given = TABLE.set_index(pd.Index(np.arange(len(TABLE)) // 2, name="pair"))  # labels repeat
    given["kind"] = given["id"].astype("category")
    given["any"] = pd.Series([{"x": i} for i in range(len(given))], index=given.index, dtype=object)
    with dask.config.set({"dataframe.convert-string": False}):
        df = dd.from_pandas(given, npartitions=3, sort=False)
        asked = answers(df, what)
        computed = asked.compute()
    assert asked.dtypes.astype(str).to_dict() == computed.dtypes.astype(str).to_dict()
    pd.testing.assert_frame_equal(computed[["id", "at", "kind", "any"]], given[["id", "at", "kind", "any"]])


def test_the_function_is_one_task_for_all_partitions():
    graph = dict(answers(dd.from_pandas(TABLE, npartitions=40), "rank").optimize().__dask_graph__())
    assert sum("BatchFunction" in str(key) for key in graph) == 1


def test_empty_partitions_have_the_same_columns():
    df = dd.from_pandas(TABLE, npartitions=4)
    asked = answers(df[df["age"] > 1.0], "rank")
    parts = [part.compute() for part in asked.partitions]
    none = answers(df[df["age"] > 99.0], "rank").compute()
    assert len(none) == 0
    assert none.dtypes.equals(parts[0].dtypes)
    assert sum(map(len, parts)) == (TABLE["age"] > 1.0).sum()


def test_columns_without_names_are_features_in_their_order():
    X = TABLE[rows.NAMES].to_numpy()
    unnamed = Explainer(EXPLAINER.model.get_booster(), Normal(0.3), feature_names=list("abcd"))
    by_number = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=2)
    found = predgap.dask.gap(by_number, unnamed, ["a"]).compute()
    assert found["gap"].to_numpy().tobytes() == unnamed.gap(X, ["a"]).tobytes()


def test_results_go_to_parquet_with_arrays(tmp_path):
    answers(dd.from_pandas(TABLE, npartitions=3), "rank").to_parquet(tmp_path)
    read = pq.read_table(tmp_path).drop_columns("__null_dask_index__").to_pylist()
    assert rows.bits(read) == rows.expected(EXPLAINER, TABLE, "rank")


# ---- errors --------------------------------------------------------------------------------------


def test_a_table_in_memory_is_refused():
    with pytest.raises(TableError, match="expected a Dask DataFrame; the methods of the explainer"):
        predgap.dask.rank(TABLE, EXPLAINER)


def test_a_missing_feature_is_named_before_anything_runs():
    with pytest.raises(TableError, match="lacks 1 feature of the model: 'd'"):
        predgap.dask.rank(dd.from_pandas(TABLE.drop(columns="d"), npartitions=2), EXPLAINER)


@pytest.mark.parametrize(("module", "extra"), [("dask", "dask"), ("pyspark", "spark")])
def test_without_the_engine_the_extra_is_named(monkeypatch, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    functions = __import__(f"predgap.{extra}", fromlist=["rank"])
    with pytest.raises(DependencyError, match=rf"predgap.{extra} needs .*pip install 'predgap\[{extra}\]'"):
        functions.rank(TABLE, EXPLAINER)


def test_predgap_does_not_import_the_engines():
    code = "import sys, predgap; print({'dask', 'distributed', 'pyspark', 'predgap.dask'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


# ---- failures ------------------------------------------------------------------------------------


def test_a_killed_worker_loses_no_row(client):
    """One of the two workers is killed at random moments of the run; its nanny starts it again."""
    df = rows.table(3000)
    asked = answers(dd.from_pandas(df, npartitions=30), "scores")
    clean = rows.expected(EXPLAINER, df, "scores")
    began = time.monotonic()
    assert bits(client.compute(asked, sync=True)) == clean
    usual = time.monotonic() - began
    chance = random.Random(0)
    for _ in range(cases(3, 20)):
        victim = chance.choice(engines.dask_workers(client, 2))
        killer = threading.Timer(chance.uniform(0, usual), os.kill, (victim, signal.SIGKILL))
        killer.start()
        assert bits(client.compute(asked, sync=True)) == clean
        killer.join()


# ---- the page ------------------------------------------------------------------------------------


def test_joblib_gives_the_same_bits():
    from joblib import Parallel, delayed

    batch = rows.batch_of(TABLE)
    explain = rows.asked(EXPLAINER, "rank", batch.schema)
    parts = [batch.slice(at, 50) for at in range(0, len(TABLE), 50)]
    done = Parallel(n_jobs=2)(delayed(explain)(part) for part in parts)
    assert rows.bits([row for part in done for row in part.to_pylist()]) == rows.expected(
        EXPLAINER, TABLE, "rank"
    )
