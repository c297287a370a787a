"""Real clusters on this machine, for tests and benchmarks: schedulers and workers are processes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
PATIENCE = 300.0  # seconds for a process to start on a busy machine


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        return int(taken.getsockname()[1])


def wait_until(done: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {PATIENCE:.0f} s")
        time.sleep(0.05)


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def children(pid: int) -> list[int]:
    """The processes that this one started, and theirs."""
    try:
        own = [
            int(p) for t in Path(f"/proc/{pid}/task").iterdir() for p in (t / "children").read_text().split()
        ]
    except OSError:  # it has ended
        return []
    return [q for p in own for q in (p, *children(p))]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


class Processes:
    """Starts processes, each with a log in `folder`, and ends them with all that they started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=os.environ | environment,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def end(self) -> None:
        for process in reversed(self.started):
            below = children(process.pid)
            for pid in (process.pid, *below):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def processes(folder: Path) -> Iterator[Processes]:
    folder.mkdir(parents=True, exist_ok=True)
    started = Processes(folder)
    try:
        yield started
    finally:
        started.end()


@contextlib.contextmanager
def dask_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """The address of a Dask scheduler with workers of one thread; a nanny starts a killed worker again."""
    with processes(folder) as cluster:
        port = free_port()
        dask = (sys.executable, "-W", "ignore", "-m", "dask")
        address = f"tcp://{HOST}:{port}"
        at = ("--host", HOST, "--no-dashboard")
        cluster.start("scheduler", *dask, "scheduler", *at, "--port", str(port))
        wait_until(lambda: listening(port), "the Dask scheduler")
        for number in range(workers):
            place = ("--local-directory", str(folder / f"worker{number}"))
            cluster.start(f"worker{number}", *dask, "worker", address, *at, "--nthreads", "1", *place)
        from distributed import Client

        with Client(address) as client:
            client.wait_for_workers(workers, timeout=PATIENCE)
        yield address


def dask_workers(client: Any, n: int) -> list[int]:
    """The processes of n workers, as soon as all are there: one that was killed may still be listed."""
    found: list[int] = []

    def all_answer() -> bool:
        with contextlib.suppress(OSError):
            found[:] = sorted(client.run(os.getpid).values())
            return len(found) == n and all(command_line(pid) for pid in found)
        return False

    wait_until(all_answer, f"{n} Dask workers")
    return found


class SparkCluster:
    """A standalone Spark master, workers of one core, and on demand a Spark Connect server."""

    def __init__(self, cluster: Processes, workers: int, executor_memory: str = "1g") -> None:
        import pyspark

        self.home = Path(pyspark.__file__).parent
        self.cluster = cluster
        self.port = free_port()
        self.master = f"spark://{HOST}:{self.port}"
        self.environment = {
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": HOST,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_NO_DAEMONIZE": "1",
        }
        self.settings = {
            "spark.driver.host": HOST,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.executor.memory": executor_memory,
            "spark.sql.shuffle.partitions": "4",
        }
        self._deploy("Master", "--host", HOST, "--port", str(self.port), "--webui-port", "0")
        wait_until(lambda: listening(self.port), "the Spark master")
        self.workers = [self._worker(number, executor_memory) for number in range(workers)]

    def _deploy(self, role: str, *arguments: str) -> subprocess.Popen[bytes]:
        name = f"{role}{len(self.cluster.started)}"
        spark_class = str(self.home / "bin" / "spark-class")
        role = f"org.apache.spark.deploy.{role.lower()}.{role}"
        return self.cluster.start(name, spark_class, role, *arguments, **self.environment)

    def _worker(self, number: int, memory: str) -> subprocess.Popen[bytes]:
        size = ("--cores", "1", "--memory", memory, "--webui-port", "0")
        folder = str(self.cluster.folder / f"work{number}")
        return self._deploy("Worker", "--host", HOST, *size, "--work-dir", folder, self.master)

    def executors(self) -> list[int]:
        """The processes that do the work: the workers start one for each session."""
        below = [pid for worker in self.workers for pid in children(worker.pid)]
        return [pid for pid in below if "CoarseGrainedExecutorBackend" in command_line(pid)]

    def session(self, **settings: str) -> Any:
        """A classic session of this process, with the executors of all workers."""
        os.environ |= self.environment
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(self.master)
        for key, value in (self.settings | settings).items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        wait_until(lambda: len(self.executors()) >= len(self.workers), "the Spark executors")
        return session

    def connect(self) -> str:
        """Starts a Spark Connect server; the address for `SparkSession.builder.remote`."""
        port = free_port()
        settings = self.settings | {
            "spark.connect.grpc.binding.port": str(port),
            "spark.connect.grpc.binding.address": HOST,
        }
        told = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        server = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")
        submit = str(self.home / "bin" / "spark-submit")
        self.cluster.start("connect", submit, "--master", self.master, *told, *server, **self.environment)
        wait_until(lambda: listening(port), "the Spark Connect server")
        return f"sc://{HOST}:{port}"


@contextlib.contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[SparkCluster]:
    with processes(folder) as cluster:
        yield SparkCluster(cluster, workers)


def processor_seconds(pids: list[int]) -> float:
    """What these processes, and those that they started, have computed so far; those that have ended, too."""
    ticks = 0
    for pid in {q for p in pids for q in (p, *children(p))}:
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, stat[11:15]))  # own user and system time, and that of ended children
    return ticks / os.sysconf("SC_CLK_TCK")
