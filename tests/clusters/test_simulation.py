"""The page about large clusters shows what the simulation prints."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import cluster_simulation as simulated

ROOT = Path(__file__).resolve().parents[2]

WORK = simulated.Work(
    rows=10_000,
    seconds_per_row=0.01,
    bytes_in=0,
    bytes_out=0,
    function_bytes=0,
    start_seconds=0.0,
    dispatch_seconds=0.0,
    tasks=100,
)
IDEAL = simulated.Cluster(
    executors=2, cores=5, start=(0.0, 0.0), slow=0.0, spread=0.0, losses=0.0, speculation=None
)


def seconds(work=WORK, cluster=IDEAL, **changes):
    return simulated.Simulation(replace(cluster, **changes), work).run().seconds


def test_without_disturbances_a_run_takes_what_the_cores_take():
    assert seconds() == pytest.approx(10.0)


def test_what_is_shared_is_a_queue():
    assert seconds(replace(WORK, bytes_in=1.0), storage=100.0) > 100.0  # 10,000 bytes, 100 of them a second
    assert seconds(replace(WORK, dispatch_seconds=1.0)) >= 101.0  # the last of 100 tasks computes for 1 s
    each = replace(WORK, function_bytes=100, with_each_task=True)
    assert seconds(each, link=100.0) >= 101.0
    assert seconds(replace(each, with_each_task=False), link=100.0) <= 13.0


def test_start_up_and_losses_delay_and_copies_of_late_tasks_help():
    assert seconds(start=(5.0, 5.0)) == pytest.approx(15.0)
    lossy = simulated.Simulation(replace(IDEAL, losses=600.0), WORK).run()
    assert lossy.lost
    assert lossy.repeated
    assert lossy.seconds > 10.0
    late = replace(IDEAL, executors=20, slow=0.2, slowness=50.0)
    assert seconds(cluster=late, speculation=1.5) < seconds(cluster=late)


def test_the_page_shows_the_measured_and_the_simulated_table():
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    costs = json.loads(simulated.COSTS.read_text(encoding="utf-8"))
    for model in costs["models"].values():
        assert f"| {model['title']} | {model['features']} | {model['rows_per_second']:,.0f} |" in page
    wine = dict(list(simulated.works(costs, 10**9).items())[:1])
    (line,) = simulated.by_model(simulated.Cluster(), wine, 0).splitlines()[2:]
    assert line.strip() in page
