"""Spark and Dask on this machine: are two workers faster than one, what do they cost, what do kills change?

    python benchmarks/clusters.py                        everything: about 40 minutes on two idle cores
    python benchmarks/clusters.py --quick                does it run? a few minutes, the figures mean little
    python benchmarks/clusters.py speed --seconds 60     how long one worker takes
    python benchmarks/clusters.py kill --engines dask

All read the same Parquet files, rank every row, and write Parquet. `speed` starts a real scheduler with one
worker of one core, then with two, and compares with plain threads. `kill` ends a worker with SIGKILL at
random moments. After each run all values are compared with those of one thread, bit by bit. Two cores serve
the scheduler and the driver as well as the workers: the last column has the processor seconds of all of them
for each one of plain threads. The load of the machine says whether the ratios of the clock mean anything.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from cluster_costs import answered_rows, question

import predgap.dask
import predgap.spark

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "clusters"))

import engines

FILES = 24
KILLS = {"dask": 20, "spark": 5}
QUICK_KILLS = {"dask": 2, "spark": 1}
AIMS = {"dask": 1.8, "spark": 1.6}
OVERHEAD = 1.15


@dataclass(frozen=True)
class Taken:
    seconds: float
    processor: float


def write_rows(folder: Path, model: str, seconds: float) -> int:
    """Rows that take one core about this many seconds, in several files."""
    explainer, batch = question(model)
    rate = answered_rows(explainer, batch, 2.0)
    per_file = max(1, round(rate * seconds / FILES))
    rng = np.random.default_rng(0)
    X = np.stack([column.to_numpy() for column in batch.columns], axis=1)
    folder.mkdir()
    for number in range(FILES):
        rows = X[rng.integers(len(X), size=per_file)] + 0.02 * rng.normal(size=(per_file, X.shape[1]))
        ids = np.arange(number * per_file, (number + 1) * per_file)
        table = pa.table({"id": ids, **dict(zip(batch.schema.names, rows.T, strict=True))})
        pq.write_table(table, folder / f"rows-{number:03d}.parquet")
    return FILES * per_file


def digest(folder: Path) -> str:
    """Of all values, in the order of the rows."""
    table = pq.read_table(folder, columns=["id", "order", "scores", "proven", "method"]).sort_by("id")
    found = hashlib.sha256()
    for name in table.column_names:
        column = table[name].combine_chunks()
        if pa.types.is_list(column.type):
            column = column.flatten()
        values = np.array(column.to_pylist(), dtype=object) if name == "method" else column.to_numpy(False)
        found.update(repr(values.tolist()).encode() if name == "method" else values.tobytes())
    return f"{table.num_rows} rows, {found.hexdigest()}"


@contextmanager
def timed(pids: Callable[[], list[int]], into: list[Taken]) -> Iterator[None]:
    """Seconds of the clock, and of the processors: of this process and of some others."""
    began, before, own = time.perf_counter(), engines.processor_seconds(pids()), time.process_time()
    yield
    spent = engines.processor_seconds(pids()) - before + time.process_time() - own
    into.append(Taken(time.perf_counter() - began, spent))


# ---- ways to do it -------------------------------------------------------------------------------------


def by_threads(data: Path, out: Path, model: str, n: int) -> Taken:
    explainer, _ = question(model)
    found: list[Taken] = []
    out.mkdir()
    with timed(list, found):
        for path in sorted(data.iterdir()):
            table = pq.read_table(path)
            function = explainer.batch_function("rank", table.schema, n_jobs=n)
            for at, batch in enumerate(table.to_batches()):
                answers = pa.Table.from_batches([function(batch)])
                pq.write_table(answers, out / f"{path.stem}-{at}.parquet")
    return found[0]


@contextmanager
def dask_runs(data: Path, folder: Path, model: str, workers: int) -> Iterator[tuple[Any, Any]]:
    """A function that does a run, and one that says which processes may be killed."""
    import dask.dataframe as dd
    from distributed import Client

    explainer, _ = question(model)
    with engines.dask_cluster(folder, workers) as address, Client(address) as client:
        client.run(lambda: __import__("predgap.dask"))

        def pids() -> list[int]:
            return [*engines.dask_workers(client, workers), client.run_on_scheduler(os.getpid)]

        def run(out: Path) -> Taken:
            found: list[Taken] = []
            with timed(pids, found):
                predgap.dask.rank(dd.read_parquet(data), explainer).to_parquet(out, write_index=False)
            return found[0]

        yield run, lambda: engines.dask_workers(client, workers)


@contextmanager
def spark_runs(data: Path, folder: Path, model: str, workers: int) -> Iterator[tuple[Any, Any]]:
    explainer, _ = question(model)
    with engines.spark_cluster(folder, workers) as cluster:
        session = cluster.session(**{"spark.sql.files.openCostInBytes": "134217728"})  # a file is a partition
        session.sparkContext.setLogLevel("OFF")
        predgap.spark.rank(session.read.parquet(str(data)).limit(10), explainer).collect()  # starts Python

        def run(out: Path) -> Taken:
            engines.wait_until(lambda: len(cluster.executors()) == workers, "the executors")
            found: list[Taken] = []
            with timed(lambda: [*engines.children(os.getpid())], found):
                predgap.spark.rank(session.read.parquet(str(data)), explainer).write.parquet(str(out))
            return found[0]

        try:
            yield run, cluster.executors
        finally:
            session.stop()


RUNS = {"dask": dask_runs, "spark": spark_runs}


# ---- what is asked -------------------------------------------------------------------------------------


def speed(folder: Path, model: str, seconds: float, chosen: list[str]) -> bool:
    data = folder / "data"
    n_rows = write_rows(data, model, seconds)
    print(
        f"{n_rows:,} rows of {model}; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    taken = {("threads", n): by_threads(data, folder / f"threads{n}", model, n) for n in (1, 2)}
    clean = digest(folder / "threads1")
    same = digest(folder / "threads2") == clean
    for engine in chosen:
        for workers in (1, 2):
            name = f"{engine}{workers}"
            with RUNS[engine](data, folder / f"cluster-{name}", model, workers) as (run, _):
                taken[engine, workers] = run(folder / name)
            same &= digest(folder / name) == clean
    head = ["", "one: seconds", "two: seconds", "times one", "against two threads", "their processor seconds"]
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for engine in ("threads", *chosen):
        one, two = taken[engine, 1], taken[engine, 2]
        against = two.seconds / taken["threads", 2].seconds
        cost = two.processor / taken["threads", 2].processor
        aims = f" (aim {AIMS[engine]})" if engine in AIMS else ""
        limit = f" (limit {OVERHEAD})" if engine in AIMS else ""
        print(
            f"| {engine} | {one.seconds:.1f} | {two.seconds:.1f} | {one.seconds / two.seconds:.2f}{aims} "
            f"| {against:.2f}{limit} | {cost:.2f} |"
        )
    print(f"\nvalues: {'the same bits everywhere' if same else 'DIFFERENT'}\n")
    return same


def kill(folder: Path, model: str, seconds: float, chosen: list[str], kills: dict[str, int]) -> bool:
    """Runs of which one worker is killed at a random moment."""
    data = folder / "data"
    write_rows(data, model, seconds)
    by_threads(data, folder / "clean", model, 1)
    clean, chance, good = digest(folder / "clean"), random.Random(0), True
    for engine in chosen:
        with RUNS[engine](data, folder / engine, model, 2) as (run, victims):
            usual = run(folder / f"{engine}-usual").seconds
            same = 0
            for number in range(kills[engine]):
                moment, out = chance.uniform(0, usual), folder / f"{engine}-{number}"
                victim = chance.choice(victims())
                killer = threading.Timer(moment, os.kill, (victim, signal.SIGKILL))
                killer.start()
                run(out)
                killer.join()
                same += digest(out) == clean
                print(f"{engine}: kill {number + 1} after {moment:.1f} of {usual:.1f} s", flush=True)
        print(f"{engine}: {same} of {kills[engine]} runs with a killed worker have every row once, same bits")
        good &= same == kills[engine]
    return good


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=("speed", "kill"), help="default: both")
    parser.add_argument("--engines", default="dask,spark")
    parser.add_argument("--model", default="heloc", help="wine, heloc, lightgbm-100 or lightgbm-1000")
    parser.add_argument("--seconds", type=float, help="of one core; default: 150, and 8 for kill")
    parser.add_argument("--quick", action="store_true", help="6 seconds of one core, and 3 kills")
    options = parser.parse_args()
    chosen, good, quick = options.engines.split(","), True, 6.0 if options.quick else None
    began = time.perf_counter()
    if options.what in (None, "speed"):
        with tempfile.TemporaryDirectory() as folder:
            good &= speed(Path(folder), options.model, options.seconds or quick or 150.0, chosen)
    if options.what in (None, "kill"):
        kills = QUICK_KILLS if options.quick else KILLS
        with tempfile.TemporaryDirectory() as folder:
            good &= kill(Path(folder), options.model, options.seconds or quick or 8.0, chosen, kills)
    print(f"{time.perf_counter() - began:.0f} s in all")
    sys.exit(not good)


if __name__ == "__main__":
    main()
