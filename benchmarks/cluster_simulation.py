"""What a run on many machines takes: discrete events, from measured and from assumed numbers.

    python benchmarks/cluster_simulation.py            the tables of docs/scaling.md
    python benchmarks/cluster_simulation.py --seed 9   the same with other luck

What is measured is in `cluster_costs.json`, which `cluster_costs.py` writes; what is assumed is in `Cluster`.
Each core takes one task after the other. A task waits for the scheduler, for the function (the first on its
executor), for its rows, computes, and writes. The scheduler, its network link and the storage serve one
request at a time, so that they become queues when many ask. Executors start late, some are slow, some are
lost and come back: the tasks that they had begin again elsewhere. When no task is left to start, a core
begins a second copy of the one that has run longest, if that is beyond `Cluster.speculation` times the mean;
the first of the two to end counts.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import random
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

COSTS = Path(__file__).with_name("cluster_costs.json")


@dataclass(frozen=True)
class Cluster:
    """What is assumed of the machines."""

    executors: int = 250
    cores: int = 4  # of each executor
    storage: float = 10e9  # bytes per second, all together, as of an object store
    link: float = 1.25e9  # bytes per second out of the driver's machine: 10 Gbit/s
    start: tuple[float, float] = (10.0, 40.0)  # seconds until an executor is there: least, most
    slow: float = 0.02  # share of the executors that are slow ...
    slowness: float = 3.0  # ... by this factor
    spread: float = 0.05  # of the speed of the others, as a standard deviation of its logarithm
    losses: float = 0.02  # of an executor, per hour
    speculation: float | None = 1.5


@dataclass(frozen=True)
class Work:
    """What is asked, and what it costs: measured."""

    rows: int
    seconds_per_row: float
    bytes_in: float  # per row
    bytes_out: float
    function_bytes: int  # pickled
    start_seconds: float  # of a Python process: import, load the function, build its tables
    dispatch_seconds: float  # of the scheduler, per task
    with_each_task: bool = False  # the function travels with each task, as by Spark Connect
    tasks: int = 20_000

    @property
    def rows_per_task(self) -> int:
        return -(-self.rows // self.tasks)


@dataclass
class Queue:
    """Serves one request after the other."""

    free: float = 0.0
    busy: float = 0.0

    def serve(self, now: float, seconds: float) -> float:
        """When a request that comes now is done."""
        self.free = max(self.free, now) + seconds
        self.busy += seconds
        return self.free


@dataclass
class Executor:
    speed: float
    life: int = 0  # how often it was lost; what its earlier lives began is void
    has_function: bool = False
    warm: set[int] = field(default_factory=set)  # cores whose Python process runs


@dataclass
class Attempt:
    task: int
    executor: int
    core: int
    life: int
    began: float


@dataclass(frozen=True)
class Result:
    seconds: float
    busiest: str  # of the things that all share
    share: float  # of the run in which it was busy
    lost: int  # executors
    repeated: int  # tasks begun again or twice


class Simulation:
    def __init__(self, cluster: Cluster, work: Work, seed: int = 0) -> None:
        self.cluster, self.work = cluster, work
        self.random = random.Random(seed)
        self.events: list[tuple[float, int, str, Any]] = []
        self.number = itertools.count()
        self.scheduler, self.link, self.storage = Queue(), Queue(), Queue()
        self.waiting = deque(range(work.tasks))
        self.running: dict[int, list[Attempt]] = {}
        self.done: set[int] = set()
        self.idle: set[tuple[int, int]] = set()
        self.taken = 0.0  # seconds of the tasks that are done
        self.looking = False  # an event to look for late tasks is due
        self.lost = self.repeated = 0
        self.executors = [self._executor(number) for number in range(cluster.executors)]

    def _executor(self, number: int) -> Executor:
        slow = self.random.random() < self.cluster.slow
        speed = self.random.lognormvariate(0.0, self.cluster.spread) / (
            self.cluster.slowness if slow else 1.0
        )
        self._arrive(0.0, number, 0)
        return Executor(speed)

    def _arrive(self, now: float, number: int, life: int) -> None:
        ready = now + self.random.uniform(*self.cluster.start)
        for core in range(self.cluster.cores):
            self._at(ready, "free", (number, core, life))
        if self.cluster.losses:
            self._at(ready + self.random.expovariate(self.cluster.losses / 3600), "loss", (number, life))

    def _at(self, time: float, what: str, about: Any) -> None:
        heapq.heappush(self.events, (time, next(self.number), what, about))

    def run(self) -> Result:
        now = 0.0
        while len(self.done) < self.work.tasks:
            now, _, what, about = heapq.heappop(self.events)
            if not (isinstance(about, Attempt) and self._void(about)):
                getattr(self, f"_{what}")(now, about)
        shared = {"scheduler": self.scheduler, "driver's link": self.link, "storage": self.storage}
        busiest = max(shared, key=lambda name: shared[name].busy)
        return Result(now, busiest, shared[busiest].busy / now, self.lost, self.repeated)

    # ---- events: each schedules the next of its task -----------------------------------------------

    def _free(self, now: float, about: tuple[int, int, int]) -> None:
        number, core, life = about
        if self.executors[number].life != life:
            return
        task = self.waiting.popleft() if self.waiting else self._late_one(now)
        if task is None:
            self.idle.add((number, core))
            return
        attempt = Attempt(task, number, core, life, now)
        self.running.setdefault(task, []).append(attempt)
        at = self.scheduler.serve(now, self.work.dispatch_seconds)
        executor = self.executors[number]
        if not executor.has_function or self.work.with_each_task:
            at = self.link.serve(at, self.work.function_bytes / self.cluster.link)
            executor.has_function = True
        if core not in executor.warm:
            executor.warm.add(core)
            at += self.work.start_seconds / executor.speed
        self._at(at, "read", attempt)

    def _read(self, now: float, attempt: Attempt) -> None:
        size = self.work.rows_per_task * self.work.bytes_in
        self._at(self.storage.serve(now, size / self.cluster.storage), "compute", attempt)

    def _compute(self, now: float, attempt: Attempt) -> None:
        seconds = self.work.rows_per_task * self.work.seconds_per_row
        self._at(now + seconds / self.executors[attempt.executor].speed, "write", attempt)

    def _write(self, now: float, attempt: Attempt) -> None:
        size = self.work.rows_per_task * self.work.bytes_out
        self._at(self.storage.serve(now, size / self.cluster.storage), "end", attempt)

    def _end(self, now: float, attempt: Attempt) -> None:
        self.taken += now - attempt.began
        self.done.add(attempt.task)
        for each in self.running.pop(attempt.task):
            self._at(now, "free", (each.executor, each.core, each.life))

    def _loss(self, now: float, about: tuple[int, int]) -> None:
        number, life = about
        executor = self.executors[number]
        self.lost += 1
        executor.life, executor.has_function, executor.warm = life + 1, False, set()
        self.idle -= {(number, core) for core in range(self.cluster.cores)}
        for task, attempts in list(self.running.items()):
            left = [a for a in attempts if a.executor != number]
            if len(left) < len(attempts):
                self.repeated += 1
                if left:
                    self.running[task] = left
                else:
                    del self.running[task]
                    self.waiting.append(task)
        self._arrive(now, number, life + 1)
        self._wake(now, len(self.waiting))

    def _look(self, now: float, about: None) -> None:
        self.looking = False
        self._wake(now, 1)

    # ---- -------------------------------------------------------------------------------------------

    def _void(self, attempt: Attempt) -> bool:
        """The executor was lost, or another copy of the task was faster."""
        gone = self.executors[attempt.executor].life != attempt.life
        return gone or attempt.task in self.done

    def _wake(self, now: float, cores: int) -> None:
        for _ in range(min(cores, len(self.idle))):
            number, core = self.idle.pop()
            self._at(now, "free", (number, core, self.executors[number].life))

    def _late_one(self, now: float) -> int | None:
        """The task to begin a second time; None if none is late yet, which is then looked at again."""
        if self.cluster.speculation is None or 2 * len(self.done) < self.work.tasks:
            return None
        alone = (attempts[0] for attempts in self.running.values() if len(attempts) == 1)
        oldest = next(alone, None)  # they are in the order of their beginnings
        if oldest is None:
            return None
        late = oldest.began + self.cluster.speculation * self.taken / len(self.done)
        if not self.looking:
            self.looking = True
            self._at(max(now, late), "look", None)
        if now < late:
            return None
        self.repeated += 1
        return oldest.task


# ---- the tables ------------------------------------------------------------------------------------

PERFECT: dict[str, Any] = {  # one thing at a time costs nothing
    "start-up": {"start": (0.0, 0.0)},
    "slow executors": {"slow": 0.0, "spread": 0.0},
    "losses": {"losses": 0.0},
    "storage": {"storage": 1e15},
}
SEEDS = 3


def works(costs: dict[str, Any], rows: int) -> dict[str, Work]:
    dispatch = costs["dispatch_seconds"]["Dask"]
    return {
        model["title"]: Work(
            rows,
            1 / model["rows_per_second"],
            model["bytes_in"],
            model["bytes_out"],
            model["function_bytes"],
            costs["import_seconds"] + model["load_seconds"],
            dispatch,
        )
        for model in costs["models"].values()
    }


def median(cluster: Cluster, work: Work, seed: int) -> Result:
    """Of several runs, the one in the middle."""
    results = [Simulation(cluster, work, seed + n).run() for n in range(SEEDS)]
    return sorted(results, key=lambda result: result.seconds)[SEEDS // 2]


def span(seconds: float) -> str:
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cores_of(cluster: Cluster) -> int:
    return cluster.executors * cluster.cores


def by_model(cluster: Cluster, asked: dict[str, Work], seed: int) -> str:
    rows = []
    for name, work in asked.items():
        result = median(cluster, work, seed)
        ideal = work.rows * work.seconds_per_row / cores_of(cluster)
        moved = [f"{work.rows * size / 1e9:.0f} GB" for size in (work.bytes_in, work.bytes_out)]
        rows.append(
            [
                name,
                f"{work.rows_per_task:,}",
                span(ideal),
                span(result.seconds),
                f"{ideal / result.seconds:.0%}",
                *moved,
                f"{result.busiest}, {result.share:.0%}",
                f"{result.lost} / {result.repeated}",
            ]
        )
    head = ["model", "rows a task", "ideal", "simulated", "of ideal", "read", "written"]
    return table([*head, "busiest of what is shared", "executors lost / tasks repeated"], rows)


def what_costs(cluster: Cluster, asked: dict[str, Work], seed: int) -> str:
    rows = []
    for name, work in asked.items():
        whole = median(cluster, work, seed).seconds
        saved = [
            whole - median(replace(cluster, **change), work, seed).seconds for change in PERFECT.values()
        ]
        rows.append([name, span(whole), *(span(max(0.0, each)) for each in saved)])
    return table(["model", "simulated", *(f"without {name}" for name in PERFECT)], rows)


def by_cores(cluster: Cluster, asked: dict[str, Work], seed: int) -> str:
    rows = []
    for name, work in asked.items():
        for executors in (25, 250, 2_500):
            larger = replace(cluster, executors=executors)
            cells = []
            for each in (work, replace(work, with_each_task=True)):
                result = median(larger, each, seed)
                part = work.rows * work.seconds_per_row / cores_of(larger) / result.seconds
                cells.append(f"{span(result.seconds)}, {part:.0%} ({result.busiest} {result.share:.0%})")
            rows.append([name, f"{cores_of(larger):,}", *cells])
    return table(["model", "cores", "function once per executor", "function with each task"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    costs = json.loads(COSTS.read_text(encoding="utf-8"))
    asked = works(costs, options.rows)
    cluster = Cluster()
    print(f"{options.rows:,} rows, greedy rankings, {cores_of(cluster):,} cores\n")
    print(by_model(cluster, asked, options.seed), "\n")
    print("What would be saved:\n")
    print(what_costs(cluster, asked, options.seed), "\n")
    print("By cores: time, part of the ideal, busiest of what is shared:\n")
    print(by_cores(cluster, {name: asked[name] for name in (*asked,)[:: len(asked) - 1]}, options.seed))


if __name__ == "__main__":
    main()
