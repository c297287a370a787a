"""`--scheduler`: a Dask cluster writes the same bytes as processes here, also if workers are killed."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

pytest.importorskip("distributed", reason="distributed is not installed: pip install 'predgap[dask]'")

import engines
import predgap.runs.workers
import rows
from effort import cases
from predgap.cli import commands

app = commands()

TABLE = rows.table(1200)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    rows.explainer().model.save_model(folder / "model.json")
    (folder / "data").mkdir()
    for number, df in enumerate((TABLE[:700], TABLE[700:])):
        pq.write_table(pa.Table.from_pandas(df, preserve_index=False), folder / "data" / f"{number}.parquet")
    return folder


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with engines.dask_cluster(tmp_path_factory.mktemp("dask")) as started:
        yield started


def run(files, out, *options, what=("rank",)):
    arguments = [*what, str(files / "model.json"), str(files / "data"), "--part-rows", "50", "-o", f"{out}/"]
    return CliRunner().invoke(app, [*arguments, "--noise", "normal:0.3", *options])


def contents(out):
    return {path.name: path.read_bytes() for path in sorted(out.glob("part-*.parquet"))}


@pytest.mark.parametrize(
    "what",
    [("rank",), ("gap", "--features", "age,d"), ("evaluate", "--rankings", "gain,greedy")],
    ids=lambda w: w[0],
)
def test_the_bytes_are_those_of_processes_here(files, address, tmp_path, what):
    assert run(files, tmp_path / "here", what=what).exit_code == 0
    there = run(files, tmp_path / "there", "--scheduler", address, what=what)
    assert there.exit_code == 0, there.output
    assert len(contents(tmp_path / "here")) == 24
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert_no_client_is_left()


def test_a_killed_worker_changes_no_byte(files, address, tmp_path):
    from distributed import Client

    began = time.monotonic()
    assert run(files, tmp_path / "clean", "--scheduler", address).exit_code == 0
    usual = time.monotonic() - began
    chance = random.Random(1)
    for number in range(cases(2, 20)):
        with Client(address, set_as_default=False) as client:
            victim = chance.choice(engines.dask_workers(client, 2))
        killer = threading.Timer(chance.uniform(0, usual), os.kill, (victim, signal.SIGKILL))
        killer.start()
        done = run(files, tmp_path / str(number), "--scheduler", address)
        killer.join()
        assert done.exit_code == 0, done.output
        assert contents(tmp_path / str(number)) == contents(tmp_path / "clean")


def test_a_run_goes_on_without_the_scheduler(files, address, tmp_path):
    assert run(files, tmp_path / "out", "--scheduler", address).exit_code == 0
    clean = contents(tmp_path / "out")
    for name in list(clean)[::3]:
        (tmp_path / "out" / name).unlink()
    again = run(files, tmp_path / "out")
    assert again.exit_code == 0
    assert "of which 16 were there before" in again.stderr
    assert contents(tmp_path / "out") == clean


def test_without_a_scheduler_at_the_address_the_message_says_how_to_start_one(files, tmp_path, monkeypatch):
    monkeypatch.setattr("predgap.runs.workers._PATIENCE", 0.2)
    done = run(files, tmp_path / "out", "--scheduler", f"tcp://127.0.0.1:{engines.free_port()}")
    assert done.exit_code != 0
    assert "no Dask scheduler with workers answers at 'tcp://127.0.0.1:" in done.output
    assert_no_client_is_left()


def assert_no_client_is_left():
    """The thread of a client goes on trying, and draws random numbers, which disturbs other tests."""
    assert "IO loop" not in {thread.name for thread in threading.enumerate()}


def test_other_versions_on_the_workers_are_refused(files, address, tmp_path, monkeypatch):
    monkeypatch.setattr(predgap.runs.workers, "version", lambda _: "9.9")
    done = run(files, tmp_path / "out", "--scheduler", address)
    assert "here is predgap 9.9 with PyArrow" in done.output
    assert_no_client_is_left()


def test_it_is_for_folders(files, tmp_path):
    done = CliRunner().invoke(
        app,
        ["rank", str(files / "model.json"), str(files / "data" / "0.parquet"), "--scheduler", "tcp://x:1"],
    )
    assert done.exit_code == 2
    assert "--scheduler is for answers in a folder" in done.output
