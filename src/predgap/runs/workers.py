"""Workers compute batches: processes of this machine, or those of a Dask cluster."""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import signal
import threading
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from predgap._text import format_items, require, warn
from predgap.errors import PredgapError, RunError
from predgap.explainer import BatchFunction
from predgap.runs.dataset import Part

# ------------------------------------------------------------------------------------------------------------
# A process computes a batch at a time. A batch whose worker dies is given to a new one.

ATTEMPTS: Final = 3
"""How often a batch is tried."""


@dataclass(frozen=True, slots=True)
class PartTask:
    """A batch to compute."""

    part: Part
    batch: pa.Buffer  # an Arrow stream
    attempts: int = 0
    error: str = ""  # of the last attempt

    def after(self, error: str) -> PartTask:
        """The task after one more attempt, which failed."""
        return replace(self, attempts=self.attempts + 1, error=error)


@dataclass(slots=True)
class _Worker:
    process: Any
    pipe: Connection
    task: PartTask | None = None
    is_new: bool = True  # it does not have the function yet


class Workers:
    """Processes that compute batches; a context, at the end of which they are gone."""

    def __init__(self, function: BatchFunction, n_processes: int, sets_aside: bool) -> None:
        self._sent = pickle.dumps((function, sets_aside))
        self._n = n_processes
        self._workers: list[_Worker] = []
        self._again: deque[PartTask] = deque()

    def __enter__(self) -> Workers:
        for _ in range(self._n):  # all at once: a process takes a second to start
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()

    def compute(self, tasks: Iterator[PartTask]) -> Iterator[tuple[PartTask, PartAnswer | None]]:
        """Each task with its answer, in the order in which they are done; None if it failed three times."""
        upcoming = next(tasks, None)
        while True:
            upcoming = self._distribute(upcoming, tasks)
            busy = {worker.pipe: worker for worker in self._workers if worker.task is not None}
            if not busy:
                return
            done = []
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                found = self._received(worker)
                if found is not None:
                    done.append(found)
            upcoming = self._distribute(upcoming, tasks)  # workers go on while the caller writes
            yield from done

    def _distribute(self, upcoming: PartTask | None, tasks: Iterator[PartTask]) -> PartTask | None:
        """Gives a task to each idle worker, those that failed first; the next task, read in advance."""
        while self._again or upcoming is not None:
            worker = self._idle()
            if worker is None:
                break
            if self._again:
                self._give(worker, self._again.popleft())
            elif upcoming is not None:
                self._give(worker, upcoming)
                upcoming = next(tasks, None)
        return upcoming

    def _idle(self) -> _Worker | None:
        return next((worker for worker in self._workers if worker.task is None), None)

    def _start(self) -> None:
        context = mp.get_context("spawn")
        mine, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs,), daemon=True)
        process.start()
        theirs.close()  # so that the pipe ends with the worker
        self._workers.append(_Worker(process, mine))

    def _give(self, worker: _Worker, task: PartTask) -> None:
        worker.task = task
        with suppress(OSError):  # it died, which is seen when its answer does not come
            if worker.is_new:
                worker.pipe.send_bytes(self._sent)
            worker.is_new = False
            worker.pipe.send_bytes(task.batch)

    def _received(self, worker: _Worker) -> tuple[PartTask, PartAnswer | None] | None:
        """Receives what a worker sent: a task with its answer; None if it is tried again."""
        task = worker.task
        assert task is not None
        try:
            found = pickle.loads(worker.pipe.recv_bytes())
            worker.task = None
        except (EOFError, OSError):
            worker.process.join()
            found = f"its worker process ended with exit code {worker.process.exitcode}"
            worker.pipe.close()
            self._workers.remove(worker)
            self._start()
        if isinstance(found, PartAnswer):
            for message in found.told:
                warn(message)
            return task, found
        task = task.after(found)
        if task.attempts >= ATTEMPTS:
            return task, None
        self._again.append(task)
        return None


def _work(pipe: Connection) -> None:
    """Runs in a worker process: answers batches until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        function, sets_aside = pickle.loads(pipe.recv_bytes())
        while True:
            batch = pipe.recv_bytes()
            with warnings.catch_warnings(record=True) as seen:
                found = tried(function, batch, sets_aside)
            told = tuple(each.message for each in seen if isinstance(each.message, UserWarning))
            pipe.send_bytes(
                pickle.dumps(replace(found, told=told) if isinstance(found, PartAnswer) else found)
            )
    except (EOFError, OSError):
        return


def tried(function: BatchFunction, batch: bytes | pa.Buffer, sets_aside: bool) -> PartAnswer | str:
    """The answer for a batch, an Arrow stream; or what went wrong."""
    try:
        with pa.ipc.open_stream(batch) as stream:
            return answered(function, stream.read_next_batch(), sets_aside)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _end_with_parent() -> None:
    """Ends this process as soon as its parent has ended, even if it was killed."""
    parent = mp.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


# ------------------------------------------------------------------------------------------------------------
# The batches of a run are sent to the scheduler of a Dask cluster instead of to processes here.

_PATIENCE: Final = 30  # seconds for the scheduler to answer, and to have a worker
_WAITING: Final = 2  # batches for each thread of the cluster: one is computed, one waits there


class ScheduledWorkers:
    """The workers of a Dask scheduler, with the methods of `Workers`."""

    def __init__(self, function: BatchFunction, address: str, sets_aside: bool) -> None:
        require("--scheduler", "dask")
        self._sent = pickle.dumps((function, sets_aside))
        self._address = address
        self._client: Any = None
        self._carried: Any = None
        self._running: dict[Any, PartTask] = {}  # by the key of the future

    def __enter__(self) -> ScheduledWorkers:
        try:
            self._connect()
            self._check_versions()
            # a task, not scattered: a worker that has it may be lost, then it is done again
            self._carried = self._client.submit(pickle.loads, self._sent, pure=False)
        except BaseException:
            self.__exit__()  # the client has a thread
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._carried = None
        if self._client is not None:
            self._client.close()

    def _connect(self) -> None:
        """RunError unless there is a scheduler with a worker."""
        import asyncio

        from distributed import Client

        try:
            asyncio.run(_reach(self._address))
            self._client = Client(self._address, timeout=_PATIENCE, set_as_default=False)
            self._client.wait_for_workers(1, timeout=_PATIENCE)
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise RunError(
                f"no Dask scheduler with workers answers at {self._address!r} ({reason}); start one with "
                "`dask scheduler` and `dask worker`, and give the address that it prints"
            ) from None

    def _check_versions(self) -> None:
        """RunError unless the workers would write the bytes that are written here."""
        here = _versions()
        found = sorted({there for there in self._client.run(_versions).values() if there != here})
        if found:
            raise RunError(
                f"the workers of {self._address} have {format_items(found)}, here is {here}; install the "
                "same versions everywhere"
            )

    def compute(self, tasks: Iterator[PartTask]) -> Iterator[tuple[PartTask, PartAnswer | None]]:
        """Each task with its answer, in the order in which they are done; None if it failed three times."""
        from distributed import as_completed

        finished = as_completed(loop=self._client.loop)
        threads = sum(self._client.nthreads().values())
        for task in islice(tasks, max(1, _WAITING * threads)):
            self._give(task, finished)
        for future in finished:
            task = self._running.pop(future.key)
            found = self._result(future)
            if not isinstance(found, PartAnswer):
                task = task.after(found)
                if task.attempts < ATTEMPTS:
                    self._give(task, finished)
                    continue
            for upcoming in islice(tasks, 1):
                self._give(upcoming, finished)
            yield task, found if isinstance(found, PartAnswer) else None

    def _give(self, task: PartTask, finished: Any) -> None:
        with warnings.catch_warnings():
            # what it advises, to scatter, can lose a batch
            warnings.filterwarnings("ignore", "Sending large graph")
            future = self._client.submit(_answer, self._carried, task.batch, pure=False)
        self._running[future.key] = task
        finished.add(future)

    def _result(self, future: Any) -> PartAnswer | str:
        """The answer of a task, or what went wrong; RunError if the scheduler is gone."""
        if self._client.status != "running":
            raise RunError(
                f"the Dask scheduler at {self._address} is gone. What is finished is kept: the same command "
                "goes on, with any scheduler or with none"
            )
        if future.status == "finished":
            found: PartAnswer | str = future.result()
            return found
        error = future.exception() if future.status == "error" else future.status
        return f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else f"it was {error}"


def _answer(carried: tuple[BatchFunction, bool], batch: pa.Buffer) -> PartAnswer | str:
    """Answers a batch on a worker, with the function that was sent there."""
    function, sets_aside = carried
    return tried(function, batch, sets_aside)


async def _reach(address: str) -> None:
    """OSError or ValueError if no scheduler answers: a Client that cannot connect leaves a thread behind."""
    from distributed.comm import connect

    await (await connect(address, timeout=_PATIENCE)).close()


def _versions() -> str:
    return f"predgap {version('predgap')} with PyArrow {pa.__version__}"


# ------------------------------------------------------------------------------------------------------------
# The answer to a batch is the bytes of a Parquet file, and the rows that were set aside.

_WRITING: Final = {"compression": "zstd", "compression_level": 1, "version": "2.6", "store_schema": True}
"""Options of the Parquet writer: the same rows give the same bytes."""


@dataclass(frozen=True, slots=True)
class PartAnswer:
    """The answers of a batch as a Parquet file."""

    content: bytes
    rows: int
    bad: list[tuple[int, str]]  # rows of the batch that were set aside, and why
    told: tuple[Warning, ...] = ()  # in a worker process, from where they do not come to the user


def answered(function: BatchFunction, batch: pa.RecordBatch, sets_aside: bool = False) -> PartAnswer:
    """The answers of a batch. If bad rows are set aside, those that the function refuses are left out."""
    bad: list[tuple[int, str]] = []
    found = _without_bad(function, batch, 0, bad) if sets_aside else [function(batch)]
    table = pa.Table.from_batches(found, function.schema).combine_chunks()
    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, row_group_size=max(1, table.num_rows), **_WRITING, **_encodings(function.schema)
    )
    return PartAnswer(sink.getvalue().to_pybytes(), table.num_rows, bad)


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Chooses how columns are encoded: whole numbers by their differences, words and orders by a dictionary.
    Real numbers, which hardly repeat, stay as they are: to look for repetitions would take most of the
    writing."""
    counting = [each.name for each in schema if pa.types.is_integer(each.type)]
    plain = {*counting, *(each.name for each in schema if pa.types.is_floating(each.type))}
    repeating = [each.name for each in schema if each.name not in plain and not pa.types.is_nested(each.type)]
    repeating += [f"{each.name}.list.element" for each in schema if each.type == pa.list_(pa.int32())]
    return {"use_dictionary": repeating, "column_encoding": dict.fromkeys(counting, "DELTA_BINARY_PACKED")}


def _without_bad(
    function: BatchFunction, batch: pa.RecordBatch, first: int, bad: list[tuple[int, str]]
) -> list[pa.RecordBatch]:
    """The answers of the rows that are not refused; a batch with a bad row is halved until it is found."""
    try:
        return [function(batch)]
    except PredgapError as error:
        n = batch.num_rows
        if n == 0:
            raise
        if n == 1:
            bad.append((first, str(error)))
            return []
    halves = ((0, n // 2), (n // 2, n - n // 2))
    return [
        answer
        for begin, size in halves
        for answer in _without_bad(function, batch.slice(begin, size), first + begin, bad)
    ]
