"""What a run on many machines is made of, measured on this one; for the simulation.

    python benchmarks/cluster_costs.py             measures, prints a table, and writes cluster_costs.json
    python benchmarks/cluster_costs.py --quick     does it run? small models, and nothing is written

Greedy rankings on one thread. All seconds are those of the processor, which other work on the machine changes
little.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import trained

from predgap import Explainer, Relative

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "clusters"))

import engines

COSTS = Path(__file__).with_name("cluster_costs.json")
MODELS: dict[str, tuple[str, str, float]] = {  # title, and name and part of its trees in `trained`
    "wine": ("wine: XGBoost 32 × depth 4", "wine", 1.0),
    "heloc": ("heloc: XGBoost 500 × depth 4", "heloc", 1.0),
    "lightgbm-100": ("LightGBM 100 × 31 leaves", "lightgbm-30", 0.1),
    "lightgbm-1000": ("LightGBM 1000 × 31 leaves", "lightgbm-30", 1.0),
}
N_TASKS = 500


@cache
def question(model: str) -> tuple[Explainer, pa.RecordBatch]:
    """An explainer, and rows for it."""
    _, name, part = MODELS[model]
    found = trained.trained(name, part)
    if found is None:
        sys.exit(f"{name} needs the paper's data; set PREDGAP_SHARED_DATA, or choose lightgbm-100")
    names = [f"x{j}" for j in range(found.X.shape[1])]
    explainer = Explainer(found.model, Relative(found.X, 0.3), feature_names=names)
    return explainer, pa.RecordBatch.from_arrays(list(map(pa.array, found.rows(1000).T)), names=names)


def answered_rows(explainer: Explainer, batch: pa.RecordBatch, seconds: float) -> float:
    """Rows per second of the processor."""
    function = explainer.batch_function("rank", batch.schema)
    size = 10
    while True:
        rows = batch.take(pa.array(np.arange(size) * 7 % len(batch)))
        began = time.process_time()
        function(rows)
        took = time.process_time() - began
        if took > seconds / 2 or size > 500_000:
            return size / took
        size = round(size * min(10.0, max(1.5, 0.8 * seconds / max(took, 1e-3))))


def costs_of(model: str) -> dict[str, Any]:
    explainer, batch = question(model)
    function = explainer.batch_function("rank", batch.schema)
    sent = pickle.dumps(function)
    one = batch.slice(0, 1)
    function(one)
    alone = least(lambda: function(one))
    opening = least(lambda: pickle.loads(sent)(one)) - alone
    rate = answered_rows(explainer, batch, 4.0)
    some = batch.slice(0, max(40, min(len(batch), round(2 * rate))))
    return {
        "title": MODELS[model][0],
        "features": batch.num_columns,
        "rows_per_second": float(f"{rate:.3g}"),
        "bytes_in": arrow_bytes(batch),
        "bytes_out": arrow_bytes(function(some)),
        "function_bytes": len(sent),
        "load_seconds": rounded(max(0.0, opening)),
    }


def least(call: Any, repeats: int = 5) -> float:
    """Seconds of the processor."""
    found = []
    for _ in range(repeats):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return min(found)


def arrow_bytes(batch: pa.RecordBatch) -> int:
    """Of a row, in memory or on the wire. In Parquet files it has fewer; how many depends on the values."""
    return round(batch.nbytes / len(batch))


def import_seconds() -> float:
    """What a worker's Python takes to be ready, in seconds of the processor."""
    code = "import pyarrow, predgap.dask, time; print(time.process_time())"
    return min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5))


def dask_dispatch() -> float:
    """Seconds of the scheduler's processor per task."""
    from distributed import Client

    with (
        tempfile.TemporaryDirectory() as folder,
        engines.dask_cluster(Path(folder)) as address,
        Client(address) as client,
    ):
        pid = client.run_on_scheduler(os.getpid)
        client.gather(client.map(abs, range(100), pure=False))
        before = engines.processor_seconds([pid])
        client.gather(client.map(abs, range(N_TASKS), pure=False))
        return (engines.processor_seconds([pid]) - before) / N_TASKS


def spark_dispatch() -> float:
    """Seconds of the driver's processor per task: its Python and its JVM."""
    with tempfile.TemporaryDirectory() as folder, engines.spark_cluster(Path(folder)) as cluster:
        session = cluster.session()
        session.sparkContext.setLogLevel("OFF")

        def ask(n: int) -> None:
            session.range(n, numPartitions=n).write.format("noop").mode("overwrite").save()

        drivers = [
            pid for pid in engines.children(os.getpid()) if "pyspark-shell" in engines.command_line(pid)
        ]
        ask(100)
        before = engines.processor_seconds(drivers)
        ask(N_TASKS)
        took = engines.processor_seconds(drivers) - before
        session.stop()
        return took / N_TASKS


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="wine and lightgbm-100; writes nothing")
    quick, began = parser.parse_args().quick, time.perf_counter()
    models = {}
    for model in ("wine", "lightgbm-100") if quick else MODELS:
        models[model] = costs_of(model)
        print(models[model], flush=True)
    found = {
        "import_seconds": rounded(import_seconds()),
        "dispatch_seconds": {"Dask": rounded(dask_dispatch()), "Spark": rounded(spark_dispatch())},
        "models": models,
    }
    if not quick:
        COSTS.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"\n{table(found)}\n\n{time.perf_counter() - began:.0f} s in all")


def rounded(seconds: float) -> float:
    return float(f"{seconds:.2g}")


def table(found: dict[str, Any]) -> str:
    """As it is on the page."""
    lines = [
        "| model | features | rows per second and core | bytes of a row, read | written "
        "| function, kB | to load it, ms |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for each in found["models"].values():
        lines.append(
            f"| {each['title']} | {each['features']} | {each['rows_per_second']:,.0f} | {each['bytes_in']} "
            f"| {each['bytes_out']} | {each['function_bytes'] / 1e3:,.0f} "
            f"| {1e3 * each['load_seconds']:.0f} |"
        )
    dispatch = " and ".join(f"{1e3 * s:.1f} ms ({name})" for name, s in found["dispatch_seconds"].items())
    start = (
        f"A worker's Python starts in {found['import_seconds']:.1f} s; a task costs its scheduler {dispatch}."
    )
    return "\n".join([*lines, "", start])


if __name__ == "__main__":
    main()
