"""Long runs: what streaming costs against one call in memory, and what killing the process changes.

python benchmarks/longruns.py stream [--rows N] [--command gap|rank] [--jobs N] [--folder DIR]
python benchmarks/longruns.py kill [--rows N] [--kills N] [--folder DIR]

`stream` writes rows like those of the paper's red wine to ten Parquet files, lets `predgap` answer them into
a folder, and prints the peak memory of all its processes together and the processor time per row, against
`Explainer.gap` or `rank` on an array of 20,000 of the rows, one thread, again and again at the same time.
The exit status is 1 if memory is above 500 MB or the time more than 10 % longer. `kill` ends a run with
SIGKILL at random moments, lets it complete, and compares every byte of the folder with that of a run that
nobody stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import predgap

HERE = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("PREDGAP_SHARED_DATA", HERE.parent / "shared" / "data"))
MODEL = SHARED / "models" / "winequality_red.json"
TRAIN = SHARED / "splits" / "train_winequality_red_scaled.csv"
FILES = 10
MOST_MEMORY = 500.0  # MB
MOST_TIME = 1.10
IN_MEMORY = 20_000  # rows
ASKED = {"gap": ["--features", "alcohol,pH,sulphates"], "rank": []}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("stream", "kill"))
    parser.add_argument("--rows", type=int, default=200_000, help="default: %(default)s")
    parser.add_argument("--command", choices=tuple(ASKED), default="gap")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--kills", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--folder", type=Path, help="where the files go; default: a temporary folder")
    return parser.parse_args()


def names() -> list[str]:
    return list(predgap.load(MODEL).feature_names or ())


def write_rows(folder: Path, n_rows: int) -> None:
    """Rows of the training table with a little noise, and an id."""
    folder.mkdir(exist_ok=True)
    X = pd.read_csv(TRAIN)[names()].to_numpy()
    rng = np.random.default_rng(0)
    n = n_rows // FILES
    for i in range(FILES):
        rows = X[rng.integers(len(X), size=n)] + 0.05 * rng.normal(size=(n, X.shape[1]))
        columns = {"id": np.arange(i * n, (i + 1) * n), **dict(zip(names(), rows.T, strict=True))}
        pq.write_table(pa.table(columns), folder / f"rows-{i:03d}.parquet", row_group_size=100_000)


def command(asked: argparse.Namespace, data: Path, out: Path) -> list[str]:
    options = ["--reference", str(TRAIN), "--jobs", str(asked.jobs), *ASKED[asked.command]]
    start = [sys.executable, "-m", "predgap", asked.command, str(MODEL), str(data)]
    return [*start, *options, "-o", f"{out}/"]


class Memory(threading.Thread):
    """Watches the memory of a process and its children: the sum of their proportional sets, in MB."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid, self.peak, self.ends = pid, 0.0, threading.Event()

    def run(self) -> None:
        while not self.ends.wait(0.5):
            self.peak = max(self.peak, sum(map(proportional, [self._pid, *children(self._pid)])))


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def proportional(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1000


def stream(asked: argparse.Namespace, folder: Path) -> int:
    data, out = folder / "rows", folder / "out"
    write_rows(data, asked.rows)
    begin = time.perf_counter()
    process = subprocess.Popen(command(asked, data, out))
    memory = Memory(process.pid)
    memory.start()
    in_memory, status, used = time_in_memory(asked, data, process.pid)
    memory.ends.set()
    seconds, wall = used.ru_utime + used.ru_stime, time.perf_counter() - begin
    found = sum(pq.ParquetFile(path).metadata.num_rows for path in out.glob("part-*.parquet"))
    streamed = seconds / found
    print(f"{asked.command}, {found:,} rows, {asked.jobs} worker, {wall:.0f} s")
    print(f"processor time a row: {1e6 * streamed:.2f} µs, in memory {1e6 * in_memory:.2f}")
    print(f"ratio {streamed / in_memory:.3f}; peak memory of all processes {memory.peak:.0f} MB")
    fine = status == 0 and found == asked.rows // FILES * FILES
    return 0 if fine and streamed <= MOST_TIME * in_memory and memory.peak <= MOST_MEMORY else 1


def time_in_memory(asked: argparse.Namespace, data: Path, pid: int) -> tuple[float, int, Any]:
    """Processor seconds per row of calls on an array, one thread, until a process has ended; the mean. With
    it the exit status and the resources of the process: both had the same neighbours on this machine."""
    explainer = predgap.Explainer(MODEL, pd.read_csv(TRAIN)[names()])
    X = pq.read_table(data / "rows-000.parquet").select(names()).to_pandas().to_numpy()[:IN_MEMORY]
    seconds, n_rows = 0.0, 0
    while True:
        begin = time.thread_time()
        explainer.gap(X, ["alcohol", "pH", "sulphates"]) if asked.command == "gap" else explainer.rank(X)
        seconds, n_rows = seconds + time.thread_time() - begin, n_rows + len(X)
        ended, status, used = os.wait4(pid, os.WNOHANG)
        if ended:
            return seconds / n_rows, status, used


def kill(asked: argparse.Namespace, folder: Path) -> int:
    data, clean, killed = folder / "rows", folder / "clean", folder / "killed"
    write_rows(data, asked.rows)
    begin = time.perf_counter()
    subprocess.run([*command(asked, data, clean), "--part-rows", "1000"], check=True)
    whole = time.perf_counter() - begin
    dice, kills, restart = random.Random(0), 0, False
    again = [*command(asked, data, killed), "--part-rows", "1000"]
    while kills < asked.kills:
        process = subprocess.Popen([*again, *(["--restart"] if restart else [])], stderr=subprocess.DEVNULL)
        try:
            restart = process.wait(dice.uniform(0, whole / 2)) == 0  # complete: begin anew
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills, restart = kills + 1, False
    subprocess.run(again, check=True)
    same = digests(clean) == digests(killed)
    print(f"{kills} kills at random moments: the folders are {'equal' if same else 'DIFFERENT'}")
    return 0 if same else 1


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def main() -> int:
    asked = arguments()
    with tempfile.TemporaryDirectory() as temporary:
        return {"stream": stream, "kill": kill}[asked.what](asked, asked.folder or Path(temporary))


if __name__ == "__main__":
    sys.exit(main())
