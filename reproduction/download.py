"""Files from the web, each known by its SHA-256, fetched with pooch from the first address that serves it.

The file appears when it is complete and its SHA-256 is right, or not at all.
"""

from __future__ import annotations

import io
import logging
import lzma
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from predgap._text import format_items
from predgap.errors import DatasetError, DependencyError

_TIMEOUT: Final = 30.0  # seconds to wait for the next bytes
_MAX_BYTES: Final = 32 << 20  # of a file, and of an archive
_UNSOUND_ZIP: Final = (  # all that zipfile raises for damaged, encrypted or oddly compressed archives
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError),
)


@dataclass(frozen=True, slots=True)
class Download:
    """An address, and what it serves: the file itself or a zip archive with the file in it."""

    url: str
    member: str | None = None  # name of the file inside the archive; None if there is no archive


class DownloadError(DatasetError):
    """No address served the file; the message is what came of each of them."""


def fetch(downloads: Sequence[Download], target: Path, sha256: str) -> Path:
    """Download a file from the first address that serves it.

    On a terminal, a line says so.
    """
    try:
        import pooch
        from requests.exceptions import RequestException
    except ImportError:
        raise DependencyError(
            "a download needs pooch, not installed; try: pip install 'predgap[reproduce]'"
        ) from None
    failures = []
    for download in downloads:
        url = download.url
        if sys.stderr.isatty():
            print(f"downloading {url}", file=sys.stderr)
        try:
            with _quiet(pooch.get_logger()):
                pooch.retrieve(url, sha256, target.name, target.parent, downloader=_downloader(download))
            return target
        except DatasetError as error:
            failures.append(f"{url} {error}")
        except RequestException as error:
            failures.append(f"{url} {_reason(error)}")
        except OSError as error:
            raise DownloadError(f"{str(target)!r} cannot be written ({error.strerror or error})") from None
        except ValueError:  # pooch has compared the hashes
            failures.append(f"{url} served another file than the one with SHA-256 {sha256}")
    raise DownloadError("; ".join(failures))


def _downloader(download: Download) -> Callable[[str, str, Any], None]:
    """What pooch calls to bring the file, out of its archive if it is in one, to a temporary path."""
    import pooch

    def bring(url: str, path: str, caller: Any) -> None:
        served = _Limited()
        pooch.HTTPDownloader(timeout=_TIMEOUT)(url, served, caller)
        content = served.getvalue() if download.member is None else _member(served, download.member)
        Path(path).write_bytes(content)

    return bring


class _Limited(io.BytesIO):
    """Bytes in memory, not too many."""

    def write(self, some: Any) -> int:
        if self.tell() + len(some) > _MAX_BYTES:
            raise DatasetError(f"served more than {_MAX_BYTES} bytes; expected a smaller file")
        return super().write(some)


def _member(archive: io.BytesIO, name: str) -> bytes:
    """The file in a zip archive; the archive's own names are only compared, never written to."""
    try:
        with zipfile.ZipFile(archive) as zipped:
            held = zipped.namelist()
            if name not in held:
                raise DatasetError(f"served an archive without {name!r}; it has {format_items(held)}")
            with zipped.open(name) as file:
                content = file.read(_MAX_BYTES + 1)
    except _UNSOUND_ZIP as error:
        raise DatasetError(f"did not serve a sound zip archive ({error})") from None
    if len(content) > _MAX_BYTES:
        raise DatasetError(f"served an archive with more than {_MAX_BYTES} bytes of {name!r}")
    return content


def _reason(error: Any) -> str:
    """Why an address served nothing, from an exception of requests."""
    from requests.exceptions import ChunkedEncodingError, Timeout

    if error.response is not None:
        return f"answered {error.response.status_code} {error.response.reason}"
    if isinstance(error, Timeout):
        return f"did not answer for {_TIMEOUT:g} s"
    if isinstance(error, ChunkedEncodingError):
        return "broke off before the end of the file"
    return f"cannot be reached ({type(error).__name__})"


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """pooch tells the standard error of each download; we do, where someone reads it."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
