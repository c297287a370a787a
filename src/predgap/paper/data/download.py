"""Files from the web, each known by its SHA-256: fetch, resume, check.

A download is kept in a `.part` file beside its target, from which it is resumed if it was interrupted;
the target appears when it is complete and its SHA-256 is right, or not at all. Processes that want the
same file wait for each other.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import lzma
import os
import re
import sys
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

from predgap._text import format_items
from predgap.errors import DatasetError

Progress = Callable[[int, int | None], None]
"""Called with the bytes that have arrived, and all there are if the server says so."""


@dataclass(frozen=True, slots=True)
class Download:
    """An address, and what it serves: the file itself or a zip archive with the file in it."""

    url: str
    member: str | None = None  # name of the file inside the archive; None if there is no archive


@dataclass(frozen=True, slots=True)
class _Limits:
    timeout: float = 30.0  # seconds to wait for the next bytes
    deadline: float = 600.0  # seconds for one file
    attempts: int = 4  # when a transfer breaks off
    pause: float = 1.0  # seconds before the second attempt; doubled for each further one
    max_bytes: int = 32 << 20  # of a file, and of an archive


_LIMITS = _Limits()
_CHUNK: Final = 1 << 16
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_TRY_AGAIN: Final = (408, 425, 429, 500, 502, 503, 504)
_UNSOUND_ZIP: Final = (  # all that zipfile raises for damaged, encrypted or oddly compressed archives
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, ValueError),
    *(NotImplementedError, RuntimeError),
)


class DownloadError(DatasetError):
    """No address served the file; the message is what came of each of them."""


class _BrokenOffError(Exception):
    """A transfer that may succeed when it is tried again."""


def fetch(downloads: Sequence[Download], target: Path, sha256: str, progress: Progress | None) -> Path:
    """Download a file from the first address that serves it; other processes may be at it too."""
    failures = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_name(f".{target.name}.lock")):
            for download in downloads:
                if target.is_file():  # another process has fetched it meanwhile
                    return target
                try:
                    return _fetch_from(download, target, sha256, progress)
                except DatasetError as error:
                    failures.append(str(error))
    except OSError as error:
        failures.append(f"{str(target)!r} cannot be written ({error.strerror or error})")
    raise DownloadError("; ".join(failures))


def read_bytes(path: Path) -> bytes:
    """A file on disk, refused if it is longer than any download may be."""
    try:
        with path.open("rb") as file:
            content = file.read(_LIMITS.max_bytes + 1)
    except OSError as error:
        raise DatasetError(f"{str(path)!r} cannot be read ({error.strerror or error})") from None
    if len(content) > _LIMITS.max_bytes:
        raise _too_long(repr(str(path)))
    return content


def _fetch_from(download: Download, target: Path, sha256: str, progress: Progress | None) -> Path:
    """One file from one address; `target` appears complete and checked, or not at all."""
    _check_url(download.url)
    part = target.with_name(f"{target.name}.part" if download.member is None else f"{target.name}.zip.part")
    resumed = part.exists()
    _transfer(download.url, part, progress)
    try:
        _install(download, part, target, sha256)
    except DatasetError:
        part.unlink(missing_ok=True)
        if not resumed:
            raise
        # The part that was on disk may have been of another version of the file: once more, from nothing.
        return _fetch_from(download, target, sha256, progress)
    part.unlink(missing_ok=True)
    return target


def _install(download: Download, part: Path, target: Path, sha256: str) -> None:
    """Check what has arrived, and give it its name."""
    content = part.read_bytes() if download.member is None else _member(part, download)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise DatasetError(
            f"{download.url} served a file with SHA-256 {found}, expected {sha256}; it was deleted"
        )
    ready = part
    if download.member is not None:
        ready = target.with_name(f"{target.name}.tmp")
        ready.write_bytes(content)
    ready.replace(target)


def _member(archive: Path, download: Download) -> bytes:
    """The file in a zip archive; the archive's own names are only compared, never written to."""
    member = str(download.member)
    content = None
    try:
        with zipfile.ZipFile(archive) as zipped:
            held = zipped.namelist()
            if member in held:
                with zipped.open(member) as file:
                    content = file.read(_LIMITS.max_bytes + 1)
    except _UNSOUND_ZIP as error:
        raise DatasetError(f"{download.url} did not serve a sound zip archive ({error})") from None
    if content is None:
        raise DatasetError(f"the archive {download.url} has no file {member!r}; it has {format_items(held)}")
    if len(content) > _LIMITS.max_bytes:
        raise _too_long(f"{member!r} in {download.url}")
    return content


def _transfer(url: str, part: Path, progress: Progress | None) -> None:
    """Bring the part up to the whole, in several attempts if need be."""
    deadline = time.monotonic() + _LIMITS.deadline
    for attempt in range(_LIMITS.attempts):
        if attempt:
            time.sleep(_LIMITS.pause * 2 ** (attempt - 1))
        try:
            _attempt(url, part, deadline, progress)
            return
        except _BrokenOffError as error:
            reason = str(error)
    raise DatasetError(
        f"{url} {reason}, at the last of {_LIMITS.attempts} attempts; what has arrived is kept to be resumed"
    )


def _attempt(url: str, part: Path, deadline: float, progress: Progress | None) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "predgap"} | ({"Range": f"bytes={have}-"} if have else {})
    request = urllib.request.Request(url, headers=headers)
    opener = urllib.request.build_opener(_SecureRedirects)
    try:
        response = opener.open(request, timeout=_LIMITS.timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416:  # the part is as long as the whole, or longer
                part.unlink(missing_ok=True)
            if error.code in (416, *_TRY_AGAIN):
                raise _BrokenOffError(f"answered {error.code} {error.reason}") from None
            raise DatasetError(f"{url} answered {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise DatasetError(f"{url} cannot be reached ({error.reason})") from None
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOffError(f"did not answer ({error!r})") from None
    with response:
        start, total = _extent(response, have, part)
        _copy(response, part, start, total, deadline, progress)


def _extent(response: Any, have: int, part: Path) -> tuple[int, int | None]:
    """Where in the file the response starts, and how long the whole file is, if that is known."""
    length = response.headers.get("Content-Length", "")
    start, total = 0, int(length) if length.isdecimal() else None
    if response.status == 206:
        span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if span is None or int(span[1]) != have:
            part.unlink(missing_ok=True)
            raise _BrokenOffError(f"sent another range than the one from byte {have}")
        start = have
        total = int(span[2]) if span[2] != "*" else None if total is None else have + total
    elif response.status != 200:
        raise DatasetError(f"{response.url} answered {response.status} {response.reason}; expected 200")
    if total is not None and total > _LIMITS.max_bytes:
        raise _too_long(response.url)
    return start, total


def _copy(
    response: Any, part: Path, start: int, total: int | None, deadline: float, progress: Progress | None
) -> None:
    done = start
    with part.open("ab" if start else "wb") as file:
        while chunk := _next_bytes(response):
            done += len(chunk)
            if done > _LIMITS.max_bytes:
                break
            file.write(chunk)
            if progress is not None:
                progress(done, total)
            if time.monotonic() > deadline:
                raise DatasetError(
                    f"{response.url} sent {done} bytes in {_LIMITS.deadline:g} s, too slowly; they are kept "
                    "to be resumed"
                )
        file.flush()
        os.fsync(file.fileno())
    if done > _LIMITS.max_bytes:
        part.unlink()
        raise _too_long(response.url)
    if total is not None and done < total:
        raise _BrokenOffError(f"broke off after {done} of {total} bytes")


def _next_bytes(response: Any) -> bytes:
    try:
        return bytes(response.read1(_CHUNK))  # read would wait for all of them, however slowly they come
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOffError(f"broke off ({error!r})") from None


class _SecureRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but not to an address that would have been refused itself."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        try:
            _check_url(newurl)
        except DatasetError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise DatasetError(f"{url} is not an https address; nothing is downloaded from it")


def _too_long(what: str) -> DatasetError:
    return DatasetError(f"{what} has more than {_LIMITS.max_bytes} bytes; expected a smaller file")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that other processes respect; the system releases it when a process dies.

    The empty lock file stays: to delete it could take away the one that another process waits for.
    """
    give_up = time.monotonic() + _LIMITS.deadline
    with path.open("ab") as file:
        while not _try_lock(file):
            if time.monotonic() > give_up:
                raise DatasetError(
                    f"another process has been downloading into {str(path.parent)!r} for "
                    f"{_LIMITS.deadline:g} s; wait for it or end it"
                )
            time.sleep(0.05)
        yield


def _try_lock(file: IO[bytes]) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True
