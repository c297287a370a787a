"""Runs a batch function over all parts of a data set and writes the answers to a folder.

A run that ended early is continued. The journal in the folder says which parts are finished, the manifest
what the answers depend on, and a lock keeps other processes from it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa

from predgap._files import atomic_file, atomic_write
from predgap._text import count, shown
from predgap.errors import RunError
from predgap.explainer import BatchFunction
from predgap.runs.dataset import DataSet, InputFile, Part, number_of_file, parts_in
from predgap.runs.workers import PartAnswer, PartTask, ScheduledWorkers, Workers

FAILED: Final = "_failed.jsonl"
"""The batches that failed, with the keys of their rows; it is gone when all are done."""

UNREADABLE: Final = "unreadable"
"""What the manifest says of a file that could not be read."""

BAD: Final = "_bad"
"""The folder of the rows that were set aside, a file for each part that has such rows."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options that say how a run is done."""

    part_rows: int
    n_processes: int
    restart: bool = False  # forget what the folder has
    bad_rows: Path | None = None  # where to list rows that cannot be answered; None: their batch fails
    scheduler: str | None = None  # the address of a Dask scheduler, whose workers are used instead


@dataclass(slots=True)
class Report:
    """The counts of what a run did."""

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
        """Completes the run: does what is not done yet. `tell` is called with the number of rows done.

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

    def _tasks(self, parts: Sequence[Part]) -> Iterator[PartTask]:
        for part, batch in self._data.batches(parts, self._columns, self._unreadable):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            yield PartTask(part, sink.getvalue())

    def _unreadable(self, file: InputFile, error: str) -> None:
        """Remembers a file that cannot be read: it may be another one when the run goes on."""
        self._report.unreadable[file.name] = error
        self._inputs[file.name][UNREADABLE] = True
        write_manifest(self._folder, self._identity())

    def _write(self, task: PartTask, answer: PartAnswer, journal: Journal) -> None:
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

    def _keys(self, task: PartTask) -> list[dict[str, Any]]:
        """The columns of each row of a batch that are passed through; the number of the row is one."""
        with pa.ipc.open_stream(task.batch) as stream:
            found: list[dict[str, Any]] = stream.read_next_batch().select(self._function.keys).to_pylist()
        return found

    def _record_failure(self, task: PartTask) -> None:
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


# ------------------------------------------------------------------------------------------------------------
# The journal says which parts are finished. A part counts if its bytes are those that were written.

JOURNAL: Final = "_progress.jsonl"
"""The name of the file; it is gone when a run is complete."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A part that was written."""

    part: str  # its name
    rows: int  # answers in it
    bad: int  # rows that were set aside
    bytes: int
    sha256: str

    def is_there(self, folder: Path) -> bool:
        """True if the part is in the folder, with these bytes."""
        try:
            path = folder / self.part
            if path.stat().st_size != self.bytes:
                return False
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256
        except OSError:
            return False


def of_content(part: str, rows: int, bad: int, content: bytes) -> Finished:
    """The entry of a part with this content."""
    return Finished(part, rows, bad, len(content), hashlib.sha256(content).hexdigest())


class Journal:
    """Finished parts, each a line of a file that is appended to."""

    def __init__(self, folder: Path, finished: Iterable[Finished]) -> None:
        self.finished = {entry.part: entry for entry in finished}
        self._path = folder / JOURNAL
        atomic_write(self._path, b"".join(map(_line, self.finished.values())))  # without a torn last line

    @classmethod
    def opened(cls, folder: Path, recorded: Iterable[dict[str, object]]) -> Self:
        """The journal of a folder. Of the parts that it or the manifest records, those count that are there
        with their bytes."""
        entries = [*recorded, *_lines(folder / JOURNAL)]
        known = {str(entry["part"]): Finished(**entry) for entry in entries}  # type: ignore[arg-type]
        return cls(folder, [entry for entry in known.values() if entry.is_there(folder)])

    def add(self, entry: Finished) -> None:
        """Adds a part that was written."""
        with self._path.open("ab") as file:
            file.write(_line(entry))
            file.flush()
            os.fsync(file.fileno())
        self.finished[entry.part] = entry

    def remove(self) -> None:
        """Removes the file: the manifest has all parts now."""
        self._path.unlink(missing_ok=True)


def _line(entry: Finished) -> bytes:
    return json.dumps(asdict(entry)).encode() + b"\n"


def _lines(path: Path) -> list[dict[str, object]]:
    """The lines of a journal; a last one that was not written completely is left out."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    found = []
    for line in text.split(b"\n")[:-1]:
        try:
            entry = json.loads(line)
            Finished(**entry)
        except (ValueError, TypeError):
            continue  # torn by a full disk: the part is done again
        found.append(entry)
    return found


# ------------------------------------------------------------------------------------------------------------
# The manifest says what the answers depend on. A run is continued only if nothing of it has changed.

MANIFEST: Final = "_manifest.json"
"""The name of the file. Readers of Parquet folders leave out names that begin with _."""

FORMAT: Final = 1

_SHOWN: Final = 5  # differences in a message


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest in a folder, None if there is none; RunError if it is none of this version."""
    path = folder / MANIFEST
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RunError(f"{str(path)!r} is damaged ({error}); begin anew with --restart") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise RunError(f"{str(path)!r} is not the manifest of this version of predgap; use --restart")
    return found


def write_manifest(folder: Path, content: Mapping[str, Any]) -> None:
    """Writes the manifest, completely or not at all."""
    text = json.dumps({"format": FORMAT, **content}, indent=1, ensure_ascii=True, sort_keys=True)
    atomic_write(folder / MANIFEST, text.encode() + b"\n")


def check_same(folder: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """RunError, which names the differences, unless a run was begun with the same settings and inputs."""
    differences = list(_differences(old, new, ""))
    if not differences:
        return
    more = f" and {count(len(differences) - _SHOWN, 'more difference')}" if len(differences) > _SHOWN else ""
    raise RunError(
        f"{str(folder)!r} has the answers of another run: {'; '.join(differences[:_SHOWN])}{more}. Run the "
        "command as it was, choose another folder, or begin anew with --restart"
    )


def _differences(old: Any, new: Any, where: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*new, *old]):
            yield from _differences(old.get(key), new.get(key), f"{where} {key}".strip())
    elif old != new:
        yield f"{where} was {_short(old)}, now {_short(new)}"


def _short(value: Any) -> str:
    if value is None:
        return "absent"
    text = str(value) if isinstance(value, int | float) else shown(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# ------------------------------------------------------------------------------------------------------------
# A lock on a folder lets one process write to it. A process that is killed does not leave it behind.

LOCK: Final = "_lock"
"""The name of the locked file; it stays when the lock is gone."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A context in which no other process has the lock of the folder; RunError if one has it already."""
    try:
        import fcntl
    except ImportError:
        raise RunError("long runs need the file locks of Linux, macOS or another Unix") from None
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"another process is writing to {str(folder)!r}; wait until it has ended, or choose another "
                "folder"
            ) from None
        yield
    finally:
        os.close(descriptor)  # this ends the lock
