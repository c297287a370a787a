"""Worker processes: each computes a batch at a time. A batch whose worker dies is given to a new one."""

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
from multiprocessing.connection import Connection, wait
from typing import Any, Final

import pyarrow as pa

from predgap._text import warn
from predgap.explainer import BatchFunction
from predgap.runs.answers import Answer, answered
from predgap.runs.dataset import Part

ATTEMPTS: Final = 3
"""How often a batch is tried."""


@dataclass(frozen=True, slots=True)
class Task:
    """A batch to compute."""

    part: Part
    batch: pa.Buffer  # an Arrow stream
    attempts: int = 0
    error: str = ""  # of the last attempt

    def after(self, error: str) -> Task:
        """The task after one more attempt, which failed."""
        return replace(self, attempts=self.attempts + 1, error=error)


@dataclass(slots=True)
class _Worker:
    process: Any
    pipe: Connection
    task: Task | None = None
    is_new: bool = True  # it does not have the function yet


class Workers:
    """Processes that compute batches; a context, at the end of which they are gone."""

    def __init__(self, function: BatchFunction, n_processes: int, sets_aside: bool) -> None:
        self._sent = pickle.dumps((function, sets_aside))
        self._n = n_processes
        self._workers: list[_Worker] = []
        self._again: deque[Task] = deque()

    def __enter__(self) -> Workers:
        for _ in range(self._n):  # all at once: a process takes a second to start
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()

    def compute(self, tasks: Iterator[Task]) -> Iterator[tuple[Task, Answer | None]]:
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

    def _distribute(self, upcoming: Task | None, tasks: Iterator[Task]) -> Task | None:
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

    def _give(self, worker: _Worker, task: Task) -> None:
        worker.task = task
        with suppress(OSError):  # it died, which is seen when its answer does not come
            if worker.is_new:
                worker.pipe.send_bytes(self._sent)
            worker.is_new = False
            worker.pipe.send_bytes(task.batch)

    def _received(self, worker: _Worker) -> tuple[Task, Answer | None] | None:
        """What a worker sent: a task with its answer; None if it is tried again."""
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
        if isinstance(found, Answer):
            for message in found.told:
                warn(message)
            return task, found
        task = task.after(found)
        if task.attempts >= ATTEMPTS:
            return task, None
        self._again.append(task)
        return None


def _work(pipe: Connection) -> None:
    """What a worker process does: answers batches until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        function, sets_aside = pickle.loads(pipe.recv_bytes())
        while True:
            batch = pipe.recv_bytes()
            with warnings.catch_warnings(record=True) as seen:
                found = tried(function, batch, sets_aside)
            told = tuple(each.message for each in seen if isinstance(each.message, UserWarning))
            pipe.send_bytes(pickle.dumps(replace(found, told=told) if isinstance(found, Answer) else found))
    except (EOFError, OSError):
        return


def tried(function: BatchFunction, batch: bytes | pa.Buffer, sets_aside: bool) -> Answer | str:
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
