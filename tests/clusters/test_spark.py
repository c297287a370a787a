"""Spark gives the bits of one process, in classic and Connect sessions, also if an executor is killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
import time

import pytest

pytest.importorskip(
    "pyspark", reason="pyspark is not installed: make test-clusters, or pip install 'predgap[spark]'"
)
if shutil.which("java") is None:
    pytest.skip("Spark needs Java, which is not installed", allow_module_level=True)

import engines
import predgap.spark
import rows
from effort import cases
from predgap import TableError

pytestmark = pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas", "ignore::ResourceWarning"
)

TABLE = rows.table()
EXPLAINER = rows.explainer()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with engines.spark_cluster(tmp_path_factory.mktemp("spark")) as started:
        yield started


@pytest.fixture(scope="module")
def classic(cluster):
    session = cluster.session()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def connect(tmp_path_factory):
    from pyspark.sql.connect.session import SparkSession

    with engines.spark_cluster(tmp_path_factory.mktemp("connect"), workers=1) as started:
        session = SparkSession.builder.remote(started.connect()).getOrCreate()
        yield session
        session.stop()


@pytest.fixture(params=["classic", "connect"])
def session(request):
    return request.getfixturevalue(request.param)


def frame(session, df=TABLE, partitions=3):
    import pyarrow as pa

    return session.createDataFrame(pa.Table.from_pandas(df, preserve_index=False)).repartition(partitions)


def answers(df, what, keys=None):
    positional, named = rows.QUESTIONS[what]
    return getattr(predgap.spark, what)(df, EXPLAINER, *positional, keys=keys, **named)


def bits(asked):
    """The rows in the order of their keys; Spark's own order depends on the partitions."""
    found = asked.toArrow().to_pylist()
    return rows.bits(sorted(found, key=lambda row: int(row["id"].split()[1])))


@pytest.mark.parametrize("what", rows.QUESTIONS)
def test_every_row_has_the_bits_of_one_process(session, what):
    assert bits(answers(frame(session), what)) == rows.expected(EXPLAINER, TABLE, what)


@pytest.mark.parametrize("what", rows.QUESTIONS)
def test_the_columns_are_known_beforehand(session, what):
    asked = answers(frame(session), what, ["id"])
    assert asked.columns == rows.asked(EXPLAINER, what, rows.batch_of(TABLE).schema, ["id"]).schema.names
    assert asked.toArrow().schema.names == asked.columns


def test_other_columns_than_features_and_keys_do_not_travel(session):
    df = frame(session).selectExpr("*", "parse_json('[1]') AS odd")  # a type that mapInArrow refuses
    assert bits(answers(df, "rank", ["id"])) == rows.expected(EXPLAINER, TABLE, "rank", ["id"])


def test_time_zones_of_the_session_change_nothing(session):
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        assert bits(answers(frame(session), "rank")) == rows.expected(EXPLAINER, TABLE, "rank")
    finally:
        session.conf.unset("spark.sql.session.timeZone")


def test_a_process_unpacks_the_function_once(classic):
    """All partitions of a worker find the function that the first of them unpacked."""

    def found(batches):  # travels by value
        import pyarrow as pa

        import predgap.spark

        for _ in batches:
            info = predgap.spark._unpacked.cache_info()
            yield pa.RecordBatch.from_pylist([{"pid": os.getpid(), "hits": info.hits, "misses": info.misses}])

    def seen():
        asked = classic.range(16, numPartitions=16).mapInArrow(found, "pid long, hits long, misses long")
        return {row["pid"]: row for row in asked.toArrow().to_pylist()}

    before = seen()
    assert len(answers(frame(classic, partitions=16), "gap", ["at"]).collect()) == len(TABLE)
    after = seen()
    assert {*before} & {*after}
    for pid, row in after.items():
        assert row["misses"] - before.get(pid, {"misses": 0})["misses"] == 1
        assert row["hits"] > before.get(pid, {"hits": 0})["hits"]


def test_a_table_in_memory_is_refused():
    with pytest.raises(TableError, match="expected a Spark DataFrame; the methods of the explainer"):
        predgap.spark.rank(TABLE, EXPLAINER)


def test_a_missing_feature_is_named_before_anything_runs(session):
    with pytest.raises(TableError, match="lacks 1 feature of the model: 'd'"):
        predgap.spark.rank(frame(session).drop("d"), EXPLAINER)


def test_a_killed_executor_loses_no_row(cluster, classic):
    """One of the two executors is killed at random moments of the run; the master starts another."""
    df = rows.table(4000)
    asked = answers(frame(classic, df, 16), "scores")
    clean = rows.expected(EXPLAINER, df, "scores")
    began = time.monotonic()
    assert bits(asked) == clean
    usual = time.monotonic() - began
    chance = random.Random(0)
    for _ in range(cases(1, 5)):
        engines.wait_until(lambda: len(cluster.executors()) == 2, "two executors")
        victim = chance.choice(sorted(cluster.executors()))
        killer = threading.Timer(chance.uniform(0, usual), os.kill, (victim, signal.SIGKILL))
        killer.start()
        assert bits(asked) == clean
        killer.join()
