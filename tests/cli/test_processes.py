"""The command line as a real process: pipes, interrupts, terminals."""

from __future__ import annotations

import array
import fcntl
import os
import resource
import signal
import subprocess
import sys
import termios

import numpy as np
import pyarrow.parquet
import pytest

from commandline import HOSTILE, controls, on_terminal, python, records, seconds_of_work, shell


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


# ---- pipes, disks, memory ------------------------------------------------------------------------


def started(*args, **options):
    command = [sys.executable, "-m", "predgap", *map(str, args)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, **options)


def test_a_pipe_into_head(folder):
    """As a shell runs it: rows from standard input, of whose rankings only one line is read."""
    rank = "predgap rank model.json - -o - < features.csv"
    done = shell(f"{rank} | head -n 1; echo ${{PIPESTATUS[0]}}", folder)
    line, code = done.stdout.splitlines()
    assert (line, done.stderr) == ("row,place,feature,score,confidence", "")
    assert code in ("0", "141")  # a short table may be written before head ends


def test_commands_in_a_pipe(folder):
    gap = "predgap gap model.json features.csv --features age --format arrow"
    done = shell(f"{gap} | predgap gap model.json - --features age", folder)
    assert done.returncode == 1  # gaps are no rows of the model, but the Arrow stream was read
    assert "standard input: X lacks 3 columns" in done.stderr


def unread(pipe):
    """The number of bytes in a pipe that its reader has not taken."""
    found = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, found)
    return found[0]


def test_an_interrupt_while_reading_a_pipe(folder):
    process = started("rank", folder / "model.json", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(b"age,body mass,s_1\n")
    process.stdin.flush()
    while unread(process.stdin):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (130, b"", b"predgap: interrupted")


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl", "arrow"])
@pytest.mark.parametrize("how", ["stdout", "file"])
def test_a_full_disk_is_one_line(folder, form, how):
    args = ["rank", folder / "model.json", folder / "features.csv", "--format", form]
    if how == "file":
        done = python("-m", "predgap", *args, "-o", "/dev/full")
    else:
        with open("/dev/full", "wb") as full:
            process = started(*args, stdout=full)
            err = process.communicate(timeout=60)[1].decode()
            done = subprocess.CompletedProcess([], process.returncode, "", err)
    name = "/dev/full" if how == "file" else "standard output"
    assert (done.returncode, done.stderr) == (1, f"predgap: {name}: No space left on device\n")


def mounted(options, folder, command):
    """Runs a command in a mount namespace of its own, where a small file system is mounted on the folder."""
    script = f"mount -t tmpfs -o {options} none {folder} && {command}"
    return subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=120)


can_mount = pytest.mark.skipif(
    subprocess.run(["sh", "-c", "unshare -rm true"], capture_output=True).returncode != 0,
    reason="this machine does not allow mount namespaces",
)


@can_mount
def test_a_disk_that_fills_up_keeps_no_half_file(folder, tmp_path):
    fill = f"dd if=/dev/zero of={tmp_path}/other bs=4096 count=1 2>/dev/null"
    rank = f"{sys.executable} -m predgap rank {folder}/model.json {folder}/features.csv"
    done = mounted("size=4k", tmp_path, f"{fill}; {rank} -o {tmp_path}/o.csv; echo $?; ls -A {tmp_path}")
    assert done.stdout.split() == ["1", "other"]
    assert done.stderr == f"predgap: {tmp_path}/o.csv: No space left on device\n"


@can_mount
def test_a_read_only_folder_is_one_line(folder, tmp_path):
    rank = f"{sys.executable} -m predgap rank {folder}/model.json {folder}/features.csv"
    done = mounted("ro", tmp_path, f"{rank} -o {tmp_path}/o.csv")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"predgap: {tmp_path}/o.csv: Read-only file system\n"


PEAK = """
import resource, subprocess, sys
code = subprocess.call([sys.executable, "-m", "predgap", *sys.argv[1:]])
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.parametrize(
    "asked", [("gap", "--features", "age"), ("rank", "--top", "1", "--method", "single")], ids=["gap", "rank"]
)
def test_memory_does_not_grow_with_the_table(folder, tmp_path, asked):
    """From 40 MB of CSV to 200, and from 25,000 rows to 125,000: more than the noise is taken from.

    PyArrow reads up to 32 MB ahead; the table of the noise takes a few MB.
    """
    rng = np.random.default_rng(0)
    text = "x" * 1550
    block = "".join(f"{a},{b},{c},{text}\n" for a, b, c in rng.normal(size=(5_000, 3)).tolist())
    verb, *options = asked
    peaks = []
    for times in (5, 25):
        with (tmp_path / "rows.csv").open("w") as file:
            file.write("age,body mass,s_1,note\n")
            file.writelines([block] * times)
        args = [verb, folder / "model.json", tmp_path / "rows.csv", "--drop", "note", *options]
        code, peak = map(int, python("-c", PEAK, *args, "-o", tmp_path / "o.csv").stdout.split())
        assert code == 0
        with (tmp_path / "o.csv").open() as file:
            assert sum(1 for _ in file) == 5_000 * times + 1
        peaks.append(peak)
    assert peaks[1] - peaks[0] < 40_000  # KB
