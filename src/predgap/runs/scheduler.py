"""Workers of a Dask cluster: the batches of a run are sent to its scheduler instead of to processes here."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from predgap._optional import require
from predgap._text import format_items
from predgap.errors import RunError
from predgap.explainer import BatchFunction
from predgap.runs.answers import Answer
from predgap.runs.workers import ATTEMPTS, Task, tried

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
        self._running: dict[Any, Task] = {}  # by the key of the future

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

    def compute(self, tasks: Iterator[Task]) -> Iterator[tuple[Task, Answer | None]]:
        """Each task with its answer, in the order in which they are done; None if it failed three times."""
        from distributed import as_completed

        finished = as_completed(loop=self._client.loop)
        threads = sum(self._client.nthreads().values())
        for task in islice(tasks, max(1, _WAITING * threads)):
            self._give(task, finished)
        for future in finished:
            task = self._running.pop(future.key)
            found = self._result(future)
            if not isinstance(found, Answer):
                task = task.after(found)
                if task.attempts < ATTEMPTS:
                    self._give(task, finished)
                    continue
            for upcoming in islice(tasks, 1):
                self._give(upcoming, finished)
            yield task, found if isinstance(found, Answer) else None

    def _give(self, task: Task, finished: Any) -> None:
        with warnings.catch_warnings():
            # what it advises, to scatter, can lose a batch
            warnings.filterwarnings("ignore", "Sending large graph")
            future = self._client.submit(_answer, self._carried, task.batch, pure=False)
        self._running[future.key] = task
        finished.add(future)

    def _result(self, future: Any) -> Answer | str:
        """The answer of a task, or what went wrong; RunError if the scheduler is gone."""
        if self._client.status != "running":
            raise RunError(
                f"the Dask scheduler at {self._address} is gone. What is finished is kept: the same command "
                "goes on, with any scheduler or with none"
            )
        if future.status == "finished":
            found: Answer | str = future.result()
            return found
        error = future.exception() if future.status == "error" else future.status
        return f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else f"it was {error}"


def _answer(carried: tuple[BatchFunction, bool], batch: pa.Buffer) -> Answer | str:
    """What a worker does."""
    function, sets_aside = carried
    return tried(function, batch, sets_aside)


async def _reach(address: str) -> None:
    """OSError or ValueError if no scheduler answers: a Client that cannot connect leaves a thread behind."""
    from distributed.comm import connect

    await (await connect(address, timeout=_PATIENCE)).close()


def _versions() -> str:
    return f"predgap {version('predgap')} with PyArrow {pa.__version__}"
