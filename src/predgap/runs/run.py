"""A run: all parts of a data set are answered and written to a folder; one that ended early is continued."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from predgap._files import atomic_file, atomic_write
from predgap.errors import RunError
from predgap.explainer import BatchFunction
from predgap.runs.answers import Answer
from predgap.runs.dataset import DataSet, InputFile, Part, number_of_file, parts_in
from predgap.runs.journal import Journal, of_content
from predgap.runs.locking import locked
from predgap.runs.manifest import MANIFEST, check_same, read_manifest, write_manifest
from predgap.runs.scheduler import ScheduledWorkers
from predgap.runs.workers import Task, Workers

FAILED: Final = "_failed.jsonl"
"""The batches that failed, with the keys of their rows; it is gone when all are done."""

UNREADABLE: Final = "unreadable"
"""What the manifest says of a file that could not be read."""

BAD: Final = "_bad"
"""The folder of the rows that were set aside, a file for each part that has such rows."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run is done."""

    part_rows: int
    n_processes: int
    restart: bool = False  # forget what the folder has
    bad_rows: Path | None = None  # where to list rows that cannot be answered; None: their batch fails
    scheduler: str | None = None  # the address of a Dask scheduler, whose workers are used instead


@dataclass(slots=True)
class Report:
    """What a run did."""

    n_parts: int = 0
    n_before: int = 0  # parts that were finished already
    n_rows: int = 0  # answers in all parts
    n_bad: int = 0  # rows that were set aside
    failed: list[dict[str, Any]] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)  # files, and why

    @property
    def is_complete(self) -> bool:
        return not (self.failed or self.unreadable)


class Run:
    """A batch function, the data set whose rows it answers, and the folder for the answers.

    `settings` is all that the answers depend on beside the data set, as plain values with the words that a
    message can use. If any of them has changed, the run is not continued.
    """

    def __init__(
        self,
        folder: Path,
        data: DataSet,
        function: BatchFunction,
        columns: Sequence[str],
        settings: Mapping[str, Any],
        options: RunOptions,
    ) -> None:
        self._folder, self._data, self._function, self._columns = folder, data, function, columns
        self._settings, self._options = settings, options
        self._parts = data.parts(options.part_rows)
        self._report = Report()
        self._inputs: dict[str, dict[str, Any]] = {}

    def complete(self, tell: Callable[[int], object] | None = None) -> Report:
        """Does what is not done yet. `tell` is called with the number of rows done.

        RunError if the folder has another run, or is in use. OSError if it cannot be written.
        """
        folder = self._folder
        folder.mkdir(exist_ok=True)
        with locked(folder):
            if self._options.restart:
                _clear(folder)
            journal = self._begun()
            self._work(journal, tell)
            self._end(journal)
        return self._report

    def parts(self) -> list[Path]:
        """The files with the answers, in the order of the rows."""
        return parts_in(self._folder)

    def _begun(self) -> Journal:
        """The journal of a run that begins or goes on."""
        folder = self._folder
        for torn in folder.glob(".*.tmp"):  # of a process that was killed: this one has the lock
            torn.unlink()
        old = read_manifest(folder)
        if old is None and any(not path.name.startswith("_") for path in folder.iterdir()):
            raise RunError(f"{str(folder)!r} is not empty, and not the folder of a run; choose a new one")
        self._inputs = {file.name: _fingerprint(file) for file in self._data.files}
        if old is None:
            write_manifest(folder, self._identity())
            return Journal.opened(folder, [])
        finished = old.pop("parts", [])
        self._check(old)
        journal = Journal.opened(folder, finished)  # before the manifest forgets them
        write_manifest(folder, self._identity())
        return journal

    def _check(self, old: dict[str, Any]) -> None:
        """RunError if anything has changed, but for files that could not be read before: what was written of
        these is removed, and done again."""
        del old["format"]
        before, now = ({n: _plain(e) for n, e in of.items()} for of in (old["inputs"], self._inputs))
        mended = {n for n, e in old["inputs"].items() if UNREADABLE in e and now.get(n, {}) != before[n]}
        kept = [{n: e for n, e in of.items() if n not in mended} for of in (before, now)]
        check_same(self._folder, {**old, "inputs": kept[0]}, {**self._identity(), "inputs": kept[1]})
        again = {file.number for file in self._data.files if file.name in mended}
        for path in parts_in(self._folder):
            if number_of_file(path.name) in again:
                path.unlink()

    def _identity(self) -> dict[str, Any]:
        schema = {field.name: str(field.type) for field in self._function.schema}
        return {
            **self._settings,
            "columns": schema,
            "part_rows": self._options.part_rows,
            "pyarrow": pa.__version__,
            "inputs": self._inputs,
        }

    def _work(self, journal: Journal, tell: Callable[[int], object] | None) -> None:
        parts, report = self._parts, self._report
        todo = [part for part in parts if part.name not in journal.finished]
        (self._folder / FAILED).unlink(missing_ok=True)  # they are tried again
        report.n_parts, report.n_before = len(parts), len(parts) - len(todo)
        done = sum(part.rows for part in parts) - sum(part.rows for part in todo)
        for file in self._data.files:
            if file.error:
                self._unreadable(file, file.error)
        with self._workers(len(todo)) as workers:
            for task, answer in workers.compute(self._tasks(todo)):
                if answer is None:
                    self._record_failure(task)
                else:
                    self._write(task, answer, journal)
                done += task.part.rows
                if tell is not None:
                    tell(done)

    def _workers(self, n_tasks: int) -> Workers | ScheduledWorkers:
        sets_aside, scheduler = self._options.bad_rows is not None, self._options.scheduler
        if scheduler is None or n_tasks == 0:
            return Workers(self._function, min(self._options.n_processes, n_tasks), sets_aside)
        return ScheduledWorkers(self._function, scheduler, sets_aside)

    def _tasks(self, parts: Sequence[Part]) -> Iterator[Task]:
        for part, batch in self._data.batches(parts, self._columns, self._unreadable):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            yield Task(part, sink.getvalue())

    def _unreadable(self, file: InputFile, error: str) -> None:
        """Remembers a file that cannot be read: it may be another one when the run goes on."""
        self._report.unreadable[file.name] = error
        self._inputs[file.name][UNREADABLE] = True
        write_manifest(self._folder, self._identity())

    def _write(self, task: Task, answer: Answer, journal: Journal) -> None:
        part, bad = task.part, self._folder / BAD / task.part.name.replace(".parquet", ".jsonl")
        if answer.bad:
            bad.parent.mkdir(exist_ok=True)
            keys = self._keys(task)
            lines = [
                {"file": self._data.files[part.file].name, **keys[row], "reason": reason}
                for row, reason in answer.bad
            ]
            atomic_write(bad, b"".join(map(_json_line, lines)))
        atomic_write(self._folder / part.name, answer.content)
        journal.add(of_content(part.name, answer.rows, len(answer.bad), answer.content))

    def _keys(self, task: Task) -> list[dict[str, Any]]:
        """The columns of each row of a batch that are passed through; the number of the row is one."""
        with pa.ipc.open_stream(task.batch) as stream:
            found: list[dict[str, Any]] = stream.read_next_batch().select(self._function.keys).to_pylist()
        return found

    def _record_failure(self, task: Task) -> None:
        part = task.part
        failure = {
            "part": part.name,
            "file": self._data.files[part.file].name,
            "first_row": part.first,
            "rows": part.rows,
            "attempts": task.attempts,
            "error": task.error,
        }
        self._report.failed.append(failure)
        with (self._folder / FAILED).open("ab") as file:
            file.write(_json_line({**failure, "keys": self._keys(task)}))

    def _end(self, journal: Journal) -> None:
        report, folder = self._report, self._folder
        finished = sorted(journal.finished.values(), key=lambda entry: entry.part)
        report.n_rows, report.n_bad = (sum(getattr(e, of) for e in finished) for of in ("rows", "bad"))
        if self._options.bad_rows is not None:
            _join(
                [folder / BAD / e.part.replace(".parquet", ".jsonl") for e in finished if e.bad],
                self._options.bad_rows,
            )
        if report.is_complete:
            write_manifest(folder, {**self._identity(), "parts": [asdict(entry) for entry in finished]})
            journal.remove()


def _fingerprint(file: InputFile) -> dict[str, Any]:
    found = file.fingerprint()
    del found["name"]
    return {"number": file.number, **found}


def _plain(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != UNREADABLE}


def _clear(folder: Path) -> None:
    """Removes what a run wrote, the manifest last; nothing from a folder that has no manifest."""
    if (folder / MANIFEST).exists():
        for path in (*parts_in(folder), *folder.glob("_*.jsonl"), *folder.glob(f"{BAD}/*.jsonl")):
            path.unlink()
        (folder / MANIFEST).unlink()


def _join(parts: Sequence[Path], target: Path) -> None:
    """Writes the contents of some files to one."""
    with atomic_file(target) as file:
        for path in parts:
            file.write(path.read_bytes())


def _json_line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, ensure_ascii=True, default=str).encode() + b"\n"
