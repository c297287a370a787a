"""Long runs as real processes: killed, continued, without space, with damaged files; every byte counts."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import predgap
from commandline import NAMES, make_model, python, rename
from effort import cases
from predgap.cli import commands

app = commands()

N_FILES, N_ROWS, PART = 3, 700, 200


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model, and a data set of three files with keys."""
    folder = tmp_path_factory.mktemp("long runs")
    make_model(folder / "model.json", NAMES)
    rename(folder / "model.json", NAMES)
    rng = np.random.default_rng(0)
    (folder / "rows").mkdir()
    for i in range(N_FILES):
        columns = {"id": [f"{i}-{r}" for r in range(N_ROWS)]}
        columns |= {name: rng.normal(size=N_ROWS) for name in NAMES}
        pq.write_table(pa.table(columns), folder / "rows" / f"{i}.parquet", row_group_size=150)
    return folder


def arguments(made, out, *more, data="rows"):
    noise = ["--noise", "normal:0.5", "--part-rows", PART, "--jobs", 1]
    return ["-m", "predgap", "rank", made / "model.json", made / data, *noise, "-o", f"{out}/", *more]


def run(made, out, *more, **options):
    return python(*arguments(made, out, *more, **options))


def refused(made, out, *more, **options):
    """What a command says that ends before it computes anything; it needs no process of its own."""
    done = CliRunner().invoke(app, [str(a) for a in arguments(made, out, *more, **options)[2:]])
    assert done.exit_code in (1, 2), done.output
    assert done.stderr.count("\n") == 1
    return done.stderr


def started(made, out, *more):
    command = [sys.executable, *map(str, arguments(made, out, *more))]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def bytes_of(out):
    files = (path for path in sorted(out.rglob("*")) if path.is_file())
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def clean(made):
    """What a run gives that nobody stopped."""
    out = made / "clean"
    done = run(made, out)
    assert done.returncode == 0, done.stderr
    return bytes_of(out)


def ended(process):
    """The exit code of a process; what it told is dropped."""
    process.communicate()
    return process.returncode


def when(process, condition):
    """Waits until a condition holds, or the process has ended."""
    while process.poll() is None and not condition():
        time.sleep(0.005)


def workers_of(process):
    found = []
    for pid in map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()):
        with suppress(FileNotFoundError, ProcessLookupError):  # a worker may have ended
            if "resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_text():
                found.append(pid)
    return found


def n_parts(out):
    return len(list(out.glob("part-*.parquet")))


# ---- answers -------------------------------------------------------------------------------------


def test_the_rows_are_those_of_the_explainer(made, clean):
    explainer = predgap.Explainer(made / "model.json", predgap.Normal(0.5))
    tables = [pq.read_table(made / "rows" / f"{i}.parquet") for i in range(N_FILES)]
    expected = explainer.rank(pa.concat_tables(tables).select(list(NAMES)))
    found = pq.read_table(made / "clean")
    assert found.schema.names == ["row", "id", "order", "scores", "proven", "method"]
    assert found["id"].to_pylist() == pa.concat_tables(tables)["id"].to_pylist()
    assert found["row"].to_pylist() == list(range(N_ROWS)) * N_FILES
    assert np.array(found["order"].to_pylist()).tolist() == expected.order.tolist()
    assert np.array(found["scores"].to_pylist()).tobytes() == expected.scores.tobytes()


def test_the_number_of_processes_does_not_change_a_byte(made, clean, tmp_path):
    assert run(made, tmp_path / "out", "--jobs", 2).returncode == 0
    assert bytes_of(tmp_path / "out") == clean


def test_wide_columns_and_gaps(made, tmp_path):
    assert run(made, tmp_path / "wide", "--wide", "--top", 1, "--drop", "id").returncode == 0
    names = ["row", "place_1", *(f"score_{name}" for name in NAMES), "proven", "method"]
    assert pq.read_table(tmp_path / "wide").schema.names == names
    args = arguments(made, tmp_path / "gaps", "--features", "age", data="rows/1.parquet")
    args[2] = "gap"
    assert python(*args).returncode == 0
    explainer = predgap.Explainer(made / "model.json", predgap.Normal(0.5))
    X = pq.read_table(made / "rows" / "1.parquet").select(list(NAMES))
    assert pq.read_table(tmp_path / "gaps")["gap"].to_numpy().tobytes() == explainer.gap(X, ["age"]).tobytes()


# ---- stopped and continued -----------------------------------------------------------------------


def test_a_killed_run_goes_on_and_gives_the_same_bytes(made, clean, tmp_path):
    """Killed at random moments: while it starts, computes or writes."""
    out, dice, kills = tmp_path / "out", random.Random(0), 0
    while kills < cases(3, 20):
        if n_parts(out) > 9:  # it may be complete, and nothing would be left to stop
            shutil.rmtree(out)
        parts = n_parts(out)
        process = started(made, out)
        if kills % 3 == 0:
            time.sleep(dice.uniform(0, 2))
        else:
            when(process, lambda parts=parts: n_parts(out) > parts)
            time.sleep(dice.uniform(0, 0.05))
        if process.poll() is None:
            process.kill()
            kills += 1
        process.communicate()
    done = run(made, out)
    assert done.returncode == 0, done.stderr
    assert bytes_of(out) == clean


def test_a_killed_worker_is_replaced(made, clean, tmp_path):
    out = tmp_path / "out"
    process = started(made, out)
    for k in range(1, cases(3, 20) + 1):
        when(process, lambda k=k: n_parts(out) >= min(k, 9))
        if process.poll() is None:
            for pid in workers_of(process):
                os.kill(pid, signal.SIGKILL)
    assert ended(process) == 0
    assert bytes_of(out) == clean


def test_workers_end_with_a_killed_main_process(made, tmp_path):
    process = started(made, tmp_path / "out")
    when(process, lambda: n_parts(tmp_path / "out") > 0)
    workers = workers_of(process)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def test_a_second_process_is_refused_while_the_first_goes_on(made, clean, tmp_path):
    out = tmp_path / "out"
    first = started(made, out)
    when(first, lambda: (out / "_manifest.json").exists())
    first.send_signal(signal.SIGSTOP)
    second = run(made, out)
    first.send_signal(signal.SIGCONT)
    assert second.returncode == 1
    assert "another process is writing to" in second.stderr
    assert ended(first) == 0
    assert bytes_of(out) == clean


def test_an_interrupt_leaves_a_run_that_goes_on(made, clean, tmp_path):
    out = tmp_path / "out"
    process = started(made, out)
    when(process, lambda: n_parts(out) > 0)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate()
    if process.returncode:  # else it was complete
        assert (process.returncode, told.strip()) == (130, "predgap: interrupted")
    assert run(made, out).returncode == 0
    assert bytes_of(out) == clean


def test_what_is_damaged_is_done_again(made, clean, tmp_path):
    """A part cut short, one with a wrong byte, one that is gone, and what a killed process leaves behind."""
    out = tmp_path / "out"
    shutil.copytree(made / "clean", out)
    parts = sorted(out.glob("part-*.parquet"))
    parts[1].write_bytes(parts[1].read_bytes()[:100])
    content = bytearray(parts[2].read_bytes())
    content[50] ^= 1
    parts[2].write_bytes(content)
    parts[3].unlink()
    (out / ".part-00000-00000.parquet.0123.tmp").write_bytes(b"half")
    done = run(made, out)
    assert "of which 9 were there before" in done.stderr
    assert bytes_of(out) == clean


def test_a_torn_line_of_the_journal_is_no_line(made, clean, tmp_path):
    out = tmp_path / "out"
    process = started(made, out)
    when(process, lambda: n_parts(out) > 2)
    process.kill()
    process.communicate()
    journal = out / "_progress.jsonl"
    if journal.exists():
        journal.write_bytes(journal.read_bytes()[:-20])
    assert run(made, out).returncode == 0
    assert bytes_of(out) == clean


# ---- another run ---------------------------------------------------------------------------------


@pytest.fixture
def other(made, tmp_path, clean):
    """The same data set and answers at other places, to be changed."""
    shutil.copytree(made / "rows", tmp_path / "rows")
    shutil.copytree(made / "clean", tmp_path / "clean")
    shutil.copy(made / "model.json", tmp_path / "model.json")
    return tmp_path


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (["--top", 2], "options top was absent, now 2"),
        (["--method", "single"], "options method was 'greedy', now 'single'"),
        (["--noise", "normal:0.4"], "noise default was 'normal:0.5', now 'normal:0.4'"),
        (["--noise", "normal:0.5std"], "noise default was 'normal:0.5', now 'normal:0.5std'"),
        (["--noise", "marginal"], "noise default was 'normal:0.5', now 'marginal'"),
        (["--group", "both=age,s_1"], "noise groups both was absent, now ['age', 's_1']"),
        (["--part-rows", 100], "part_rows was 200, now 100"),
        (["--rtol", "1e-3"], "options rtol was 1e-06, now 0.001"),
        (["--wide"], "options columns was 'arrays', now 'wide'"),
        (["--drop", "id"], "columns id was 'string', now absent"),
    ],
)
def test_other_options_are_refused_by_name(other, change, told):
    message = refused(other, other / "clean", *change)
    assert told in message
    assert "--restart" in message


def test_other_columns_as_features_are_refused_by_name(made, tmp_path):
    make_model(tmp_path / "model.json", ["f0", "f1"])  # it has no names: columns are matched by position
    shutil.copytree(made / "rows", tmp_path / "rows")
    done = run(tmp_path, tmp_path / "out", "--drop", "id", "--drop", NAMES[0])
    assert done.returncode == 0, done.stderr
    message = refused(tmp_path, tmp_path / "out", "--drop", "id", "--drop", NAMES[1])
    assert f"features was ['{NAMES[1]}', '{NAMES[2]}'], now ['{NAMES[0]}', '{NAMES[2]}']" in message


def test_other_files_are_refused_by_name(other):
    table = pq.read_table(other / "rows" / "1.parquet")
    pq.write_table(table.slice(1), other / "rows" / "1.parquet")
    assert "inputs 1.parquet" in refused(other, other / "clean")
    pq.write_table(table, other / "rows" / "3.parquet")
    assert "inputs 3.parquet was absent" in refused(other, other / "clean")
    make_model(other / "model.json", NAMES, n_trees=3)
    rename(other / "model.json", NAMES)
    assert "model was" in refused(other, other / "clean")


def test_restart_begins_anew(made, clean, other):
    assert run(other, other / "clean", "--top", 1, "--restart").returncode == 0
    assert run(other, other / "clean", "--restart").returncode == 0
    assert bytes_of(other / "clean") == clean


def test_a_folder_of_something_else_is_left_alone(made, tmp_path):
    (tmp_path / "thesis.pdf").write_bytes(b"years of work")
    (tmp_path / "part-00000-00000.parquet").write_bytes(b"of another program")
    assert "is not empty, and not the folder of a run" in refused(made, tmp_path, "--restart")
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.pdf", "part-00000-00000.parquet", "_lock"}


# ---- disks and files -----------------------------------------------------------------------------


def mounted(folder, options):
    """Mounts a small file system on a new folder; False if that is not allowed."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_full_disk_stops_the_run_which_goes_on_when_there_is_space(made, clean, tmp_path):
    """On a small file system where one can be mounted; else with a limit of the size of files."""
    small, out = tmp_path / "small", tmp_path / "small" / "out"
    if mounted(small, "size=64k"):
        try:
            done = run(made, out)
            assert "No space left on device" in done.stderr
            assert 0 < n_parts(out) < 12
            subprocess.run(["mount", "-o", "remount,size=10m", small], check=True)
            again = run(made, out)
            assert (done.returncode, again.returncode) == (1, 0), again.stderr
            assert bytes_of(out) == clean
        finally:
            subprocess.run(["umount", small], check=True)
        return
    largest = max(path.stat().st_size for path in (made / "clean").glob("part-*"))

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest - 1, largest - 1))

    done = python(*arguments(made, out), preexec_fn=limit)
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert run(made, out).returncode == 0
    assert bytes_of(out) == clean


def test_a_read_only_folder_is_an_error_in_one_line(made, tmp_path):
    folder = tmp_path / "fixed"
    if mounted(folder, "ro"):
        try:
            assert "Read-only file system" in refused(made, folder)
        finally:
            subprocess.run(["umount", folder], check=True)
    else:
        folder.chmod(0o500)
        assert "Permission denied" in refused(made, folder)


@pytest.mark.parametrize("damage", ["footer", "page"])
def test_a_damaged_file_in_the_middle_leaves_the_rest_complete(other, clean, damage, tmp_path):
    path, out = other / "rows" / "1.parquet", tmp_path / "out"
    good = path.read_bytes()
    metadata = pq.ParquetFile(path).metadata
    if damage == "footer":
        path.write_bytes(good[:-200])
    else:
        page = metadata.row_group(2).column(1).data_page_offset
        path.write_bytes(good[: page + 5] + b"\xff" * 60 + good[page + 65 :])
    done = run(other, out)
    assert done.returncode == 1
    assert "the file '1.parquet' cannot be read" in done.stderr
    assert {path.name[5:10] for path in out.glob("part-*")} >= {"00000", "00002"}
    path.write_bytes(good)
    again = run(other, out)
    assert again.returncode == 0, again.stderr
    assert bytes_of(out) == clean


def test_other_columns_in_one_file_are_refused_beforehand(other, tmp_path):
    table = pq.read_table(other / "rows" / "2.parquet")
    pq.write_table(table.rename_columns(["id", "age", "body mass", "s_2"]), other / "rows" / "2.parquet")
    told = "0.parquet and 2.parquet have different columns: 's_1 (double and absent)'"
    assert told in refused(other, tmp_path / "out")


# ---- rows that cannot be answered ----------------------------------------------------------------


@pytest.fixture
def with_bad_rows(other):
    """Infinite values, which XGBoost refuses, in two rows of the second file."""
    table = pq.read_table(other / "rows" / "1.parquet")
    ages = table["age"].to_numpy().copy()
    ages[[3, 250]] = np.inf
    pq.write_table(
        table.set_column(1, "age", pa.array(ages)), other / "rows" / "1.parquet", row_group_size=150
    )
    return other


def test_a_batch_that_fails_three_times_is_recorded_and_the_rest_done(with_bad_rows, tmp_path):
    out = tmp_path / "out"
    done = run(with_bad_rows, out)
    assert done.returncode == 1
    assert "2 parts failed three times, first rows 0 to 199 of '1.parquet' (TableError" in done.stderr
    assert "--bad-rows FILE sets aside" in done.stderr
    failed = [json.loads(line) for line in (out / "_failed.jsonl").read_text().splitlines()]
    assert [entry["part"] for entry in failed] == ["part-00001-00000.parquet", "part-00001-00001.parquet"]
    assert failed[1]["keys"][50] == {"row": 250, "id": "1-250"}
    assert [entry["attempts"] for entry in failed] == [3, 3]
    assert n_parts(out) == 10


def test_bad_rows_are_set_aside(with_bad_rows, clean, tmp_path):
    out, aside = tmp_path / "out", tmp_path / "bad.jsonl"
    run(with_bad_rows, out)  # the batches fail; then the same run goes on without these rows
    done = run(with_bad_rows, out, "--bad-rows", aside)
    assert done.returncode == 0, done.stderr
    assert "2 rows could not be answered" in done.stderr
    found = [json.loads(line) for line in aside.read_text().splitlines()]
    assert [(entry["file"], entry["row"], entry["id"]) for entry in found] == [
        ("1.parquet", 3, "1-3"),
        ("1.parquet", 250, "1-250"),
    ]
    assert all("infinite" in entry["reason"] for entry in found)
    whole = pq.read_table(with_bad_rows / "clean").to_pylist()
    kept = [row for row in whole if row["id"] not in ("1-3", "1-250")]
    assert repr(pq.read_table(out).to_pylist()) == repr(kept)
    assert not (out / "_failed.jsonl").exists()


# ---- usage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["-o", "one.csv"], "is a folder: its answers need a folder"),
        (["--format", "csv"], "answers in a folder are Parquet"),
        (["--estimator", "qmc"], "--estimator qmc is not for folders"),
    ],
)
def test_wrong_usage(made, tmp_path, monkeypatch, more, told):
    monkeypatch.chdir(tmp_path)
    assert told in refused(made, tmp_path / "out", *more)


def test_options_of_folders_need_a_folder(made, tmp_path):
    target = tmp_path / "o.csv"
    told = refused(made, "unused", "--restart", "-o", target, "--part-rows", 5, data="rows/0.parquet")
    assert "is for answers in a folder" in told


def test_answers_do_not_go_into_the_data_set(other):
    assert "cannot be written into the data set" in refused(other, other / "rows" / "out")


def test_a_column_called_row_is_refused(other, tmp_path):
    for i in range(N_FILES):
        path = other / "rows" / f"{i}.parquet"
        pq.write_table(pq.read_table(path).rename_columns(["row", *NAMES]), path)
    assert "--drop row" in refused(other, tmp_path / "out")
