"""Helpers for tests of the command line: small models, real processes, terminals."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import xgboost

from predgap.cli.tables import writing

NAMES = ("age", "body mass", "s_1")
HOSTILE = ("[red]x", "line\nbreak", "\x1b[31mred\x1b[0m", "=cmd()", "a,b", 'say "hi"', "\u202eodd", "plain")


def make_model(path, names, n_outputs=1, n_trees=6):
    """A small XGBoost model on random data."""
    rng = np.random.default_rng(len(names))
    X = rng.normal(size=(200, len(names)))
    y = X @ rng.normal(size=(len(names), n_outputs)) + 0.1 * rng.normal(size=(200, n_outputs))
    parameters = {"max_depth": 3, "nthread": 1, "seed": 0}
    booster = xgboost.train(parameters, xgboost.DMatrix(X, y), n_trees)
    booster.feature_names = None
    booster.save_model(path)
    return X[:20]


def rename(path, names):
    """Write names into the file: XGBoost itself refuses some that other tools accept."""
    model = json.loads(path.read_text())
    model["learner"]["feature_names"] = list(names)
    path.write_text(json.dumps(model))


def python(*args, cwd=None, **options):
    """A real process."""
    return subprocess.run(
        [sys.executable, *map(str, args)], capture_output=True, text=True, timeout=120, cwd=cwd, **options
    )


def records(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


def controls(text):
    return {c for c in text if not c.isprintable()} - {"\n"}


def on_terminal(args, stream, until=None, act=None):
    """Run with one stream on a pseudo-terminal; what it showed, and the finished process."""
    leader, follower = pty.openpty()
    other = {"stdout": "stderr", "stderr": "stdout"}[stream]
    process = subprocess.Popen(
        [sys.executable, "-m", "predgap", *map(str, args)],
        **{stream: follower, other: subprocess.DEVNULL},
        env=os.environ | {"TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(follower)
    seen = b""
    try:
        while chunk := _read(leader):
            seen += chunk
            if act is not None and until in seen:
                act(process)
                act = None
        process.wait(timeout=30)
    finally:
        process.kill()
        os.close(leader)
    return seen.decode(), process


def seconds_of_work(pid):
    """Processor time of a running process, from /proc/PID/stat."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def shell(command, folder):
    """Runs lines of bash in which predgap is this one; the first that fails ends them."""
    define = f'set -e; predgap() {{ {sys.executable} -m predgap "$@"; }}\n'
    return subprocess.run(
        ["bash", "-c", define + command],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def _read(leader):
    try:
        return os.read(leader, 4096)
    except OSError:  # the other end is closed
        return b""


def write_table(table, path):
    """A table as CSV or Parquet, by the ending of the path."""
    form = path.suffix.removeprefix(".")
    with writing(path, form, table.schema) as write:
        write(table)
