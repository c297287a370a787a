"""The journal of a run: which parts are finished. A part counts if its bytes are those that were written."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from predgap._files import atomic_write

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
        """Is the part in the folder, with these bytes?"""
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
