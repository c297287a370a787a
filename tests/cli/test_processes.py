"""The command line as a real process: pipes, interrupts, terminals."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys

import pyarrow.parquet
import pytest

from commandline import HOSTILE, controls, on_terminal, python, records, seconds_of_work


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_is_answered_within_a_second(long_job, tmp_path, jobs):
    args = [
        "rank",
        long_job / "model.json",
        long_job / "rows.parquet",
        "--jobs",
        jobs,
        "-o",
        tmp_path / "o.csv",
    ]
    at_interrupt = []

    def interrupt(process):
        at_interrupt.append(seconds_of_work(process.pid))
        process.send_signal(signal.SIGINT)

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seen, process = on_terminal(args, "stderr", until=b"/60000", act=interrupt)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert process.returncode == 130
    assert worked - at_interrupt[0] < jobs + 0.5  # a second of each thread, and the time to end
    assert "predgap: interrupted" in seen
    assert "Traceback" not in seen
    assert list(tmp_path.iterdir()) == []


def test_progress_is_for_terminals_only(folder):
    args = ["rank", folder / "model.json", folder / "features.csv"]
    assert python("-m", "predgap", *args).stderr == ""
    seen, process = on_terminal(args, "stderr")
    assert process.returncode == 0
    assert "rankings" in seen


def test_a_terminal_never_sees_control_characters_of_names(hostile):
    seen, process = on_terminal(["rank", hostile / "model.json", hostile / "rows.csv"], "stdout")
    assert process.returncode == 0
    assert controls(seen.replace("\r\n", "\n")) == set()
    assert len(seen.splitlines()) == 1 + 20 * len(HOSTILE)


def test_a_closed_pipe_is_quiet(long_job, tmp_path):
    rows = pyarrow.parquet.read_table(long_job / "rows.parquet").slice(0, 300)
    pyarrow.parquet.write_table(rows, tmp_path / "rows.parquet")
    command = [sys.executable, "-m", "predgap", "rank", long_job / "model.json", tmp_path / "rows.parquet"]
    command += ["--method", "single"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 141


@pytest.mark.parametrize("args", [("info", "model.json"), ("--help",), ("info", "--help"), ()])
def test_a_reader_that_stops_early_is_no_traceback(folder, args):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "predgap", *args]
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(command, cwd=folder, stdout=pipe, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (141, b"")  # as a program that SIGPIPE ends


def test_python_m_predgap_is_predgap(folder):
    done = python("-m", "predgap", "gap", "model.json", "features.csv", "--features", "age", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(records(done.stdout)) == 20
    failed = python("-m", "predgap", "info", "none.json", cwd=folder)
    assert (failed.returncode, failed.stdout) == (1, "")


def test_an_ascii_terminal_is_no_error(folder):
    done = python(
        "-m", "predgap", "info", folder / "model.json", env=os.environ | {"PYTHONIOENCODING": "ascii"}
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("package", ["click", "rich", "pyarrow"])
def test_without_the_extra_it_says_how_to_get_it(package):
    code = f"import sys; sys.modules[{package!r}] = None; from predgap.cli import main; main()"
    done = python("-c", code)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"predgap: the command line needs {package}: pip install 'predgap[cli]'\n"


def test_the_library_imports_nothing_of_the_command_line():
    done = python("-c", "import predgap, sys; print({'click', 'rich', 'matplotlib'} & set(sys.modules))")
    assert done.stdout == "set()\n"
