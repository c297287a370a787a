"""The manifest of a run: what its answers depend on. A run is continued only if nothing of it has changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from predgap._files import atomic_write
from predgap._text import count, shown
from predgap.errors import RunError

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
