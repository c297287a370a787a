"""Saves and loads ensembles in files without code: a first line, a header in JSON, and the arrays.

    predgap ensemble 4 <bytes of the header> <bytes of the arrays> <SHA-256 of both>
    {"arrays": {"root": ["<i4", [32]], ...}, "n_features": 11, ...}
    ... the arrays, little-endian, in the order of the header, without gaps ...

The 4 after the name is the version of the format. Older versions are still read: 1 had no `class_names`, 2 no
`link`, and up to 3 thresholds were those of rows in the precision `row_dtype`. The first line states the size
of the file, which is checked before anything else is read.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from predgap._files import atomic_write, read, read_head_and_tail, show
from predgap._inputs.categories import Categories
from predgap._model.links import as_list, from_list
from predgap._model.rounding import fields_of_rows
from predgap.errors import EnsembleError, LoaderError, UnsupportedModelError

if TYPE_CHECKING:
    from predgap._model.ensemble import Ensemble

__all__ = ["NAME", "decode", "encode", "load", "save"]

Built = TypeVar("Built")

NAME: Final = b"predgap ensemble "
"""How all files of this format begin, whatever their version."""

VERSION: Final = 4

_NEWLINE: Final = b"\n"
_FIRST_LINE: Final = re.compile(NAME + rb"(\d{1,9}) (\d{1,18}) (\d{1,18}) ([0-9a-f]{64})\n")
_AGAIN: Final = "save or copy it again"

# The arrays of an ensemble, and numbers that may be NaN or infinite, which JSON does not know: dtype and
# dimensions.
_ARRAYS: Final[Mapping[str, tuple[str, int]]] = {
    "root": ("<i4", 1),
    "feature": ("<i4", 1),
    "threshold": ("<f8", 1),
    "left": ("<i4", 1),
    "right": ("<i4", 1),
    "default_left": ("|u1", 1),
    "value": ("<f8", 2),
    "target": ("<i4", 1),
    "bias": ("<f8", 1),
    "category_set": ("<i4", 1),
    "set_begin": ("<i4", 1),
    "set_code": ("<i4", 1),
    "missing": ("<f8", 0),
    "missing_range": ("<f8", 1),
    "largest": ("<f8", 0),
}

# The other fields, and their types in the header.
_PLAIN: Final[Mapping[str, tuple[type, ...]]] = {
    "n_features": (int,),
    "feature_names": (list, type(None)),
    "class_names": (list, type(None)),
    "link": (list, type(None)),
    "categories": (list, type(None)),
    "row_dtype": (str, type(None)),
    "takes_infinity": (bool, type(None)),
    "unseen_is_missing": (bool,),
    "source": (str,),
}

# The versions in which a part came into files and was last in them, if not always; elsewhere it is None.
_SINCE: Final[Mapping[str, int]] = {"class_names": 2, "link": 3, "missing_range": 4, "largest": 4}
_UNTIL: Final[Mapping[str, int]] = {"row_dtype": 3, "takes_infinity": 3}

_LABELS: Final = frozenset({str, int, float, bool})
_ROW_KINDS: Final[Mapping[str, type[np.floating[Any]]]] = {"float32": np.float32, "float64": np.float64}
_LARGEST: Final = 2**31 - 1

# A list takes 64 bytes of memory or more, but only 3 of text. Headers have at most one per 8 bytes of text;
# more are refused before they are parsed.
_BYTES_PER_CONTAINER: Final = 8
_FREE_CONTAINERS: Final = 64
# The quote at the end is optional and the match possessive (*+), so that an unterminated text is scanned once
# only.
_TEXT_OR_OPENING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|([\[{])', re.DOTALL)


def save(ensemble: Ensemble, path: str | os.PathLike[Any]) -> None:
    """Writes the ensemble to a file, completely or not at all."""
    atomic_write(Path(os.fsdecode(path)), encode(ensemble))


def load(path: str | os.PathLike[Any], build: Callable[..., Built]) -> Built:
    """Calls `build` with the fields in a file that `save` wrote; `LoaderError` if the file is not valid."""
    where = Path(os.fsdecode(path))
    head, _, size = read_head_and_tail(where)
    try:
        _promised(head, size)
        return build(**decode(read(where, most=None)))
    except UnsupportedModelError as error:
        raise UnsupportedModelError(f"{show(where)} {error}") from None
    except (LoaderError, EnsembleError) as error:
        raise LoaderError(f"{show(where)} is not a valid predgap ensemble: {error}") from error
    except MemoryError as error:
        raise LoaderError(f"{show(where)} needs more memory than is available") from error


# ---- writing -------------------------------------------------------------------------------------


def encode(ensemble: Ensemble) -> bytes:
    """The bytes of the file of an ensemble; equal ensembles have equal bytes."""
    arrays = {name: np.asarray(getattr(ensemble, name), dtype=kind) for name, (kind, _) in _ARRAYS.items()}
    plain = {
        "n_features": int(ensemble.n_features),
        "feature_names": ensemble.feature_names,
        "class_names": ensemble.class_names,
        "link": as_list(ensemble.link),
        "categories": _plain_categories(ensemble),
        "unseen_is_missing": bool(ensemble.unseen_is_missing),
        "source": str(ensemble.source),
    }
    shapes = {name: [kind, arrays[name].shape] for name, (kind, _) in _ARRAYS.items()}
    try:
        header = json.dumps({"arrays": shapes, **plain}, ensure_ascii=False).encode() + _NEWLINE
    except ValueError as error:  # a lone surrogate, or an integer of thousands of digits
        raise EnsembleError(f"a name or label cannot be written to a file: {error}") from None
    body = header + b"".join(array.tobytes() for array in arrays.values())
    sizes = f"{VERSION} {len(header)} {len(body) - len(header)} {hashlib.sha256(body).hexdigest()}"
    return NAME + sizes.encode() + _NEWLINE + body


def _plain_categories(ensemble: Ensemble) -> list[dict[str, Any] | None] | None:
    if ensemble.categories is None:
        return None
    return [
        None if levels is None else _plain_levels(levels, name)
        for levels, name in zip(ensemble.categories, ensemble.names, strict=True)
    ]


def _plain_levels(levels: Categories, feature: str) -> dict[str, Any]:
    labels = [_plain_label(label, feature) for label in levels.labels or ()]
    return {
        "codes": levels.codes.tolist(),
        "labels": labels if levels.labelled else None,
        "closed": levels.closed,
        "complete": levels.complete,
    }


def _plain_label(label: Any, feature: str) -> Any:
    plain = label.item() if isinstance(label, np.generic) else label
    if type(plain) not in _LABELS:
        kind = type(label)
        raise EnsembleError(
            f"feature {feature!r} has the label {label!r}, a {kind.__module__}.{kind.__qualname__}; a file "
            "takes labels that are text, numbers or booleans: keep the file of the library that made it, or "
            "load it with its categories, predgap.load(model, levels=X)"
        )
    return plain


# ---- reading -------------------------------------------------------------------------------------


def decode(data: bytes) -> dict[str, Any]:
    """The fields of an ensemble from the bytes of a file."""
    begin, n_header, digest, version = _promised(data, len(data))
    if hashlib.sha256(memoryview(data)[begin:]).hexdigest() != digest:
        raise LoaderError(f"its contents do not have the checksum in its first line; {_AGAIN}")
    header = _parsed(data[begin : begin + n_header], version)
    fields: dict[str, Any] = _arrays(header["arrays"], data, begin + n_header, version)
    if header["row_dtype"] is not None:
        kind, infinite = _ROW_KINDS[header["row_dtype"]], header["takes_infinity"]
        missing = float(fields["missing"])
        fields |= fields_of_rows(kind, fields["threshold"], missing=missing, accepts_infinity=infinite)
    fields |= {name: float(fields[name]) for name in ("missing", "largest")}
    return fields | {
        "missing_range": tuple(map(float, fields["missing_range"])),
        "n_features": header["n_features"],
        "feature_names": _names(header["feature_names"], "feature_names"),
        "class_names": _names(header["class_names"], "class_names"),
        "link": from_list(header["link"]),
        "categories": _categories(header["categories"]),
        "unseen_is_missing": header["unseen_is_missing"],
        "source": header["source"],
    }


def _promised(head: bytes, size: int) -> tuple[int, int, str, int]:
    """The place where the header begins, its size, the checksum and the version; LoaderError if the size of
    the file is wrong."""
    version = re.match(NAME + rb"(\d+)", head)
    if version is not None and version[1] not in [b"%d" % known for known in range(1, VERSION + 1)]:
        raise UnsupportedModelError(
            f"is an ensemble in version {version[1][:20].decode()} of the format, this predgap reads "
            f"versions 1 to {VERSION}; use the predgap that saved it, or a newer one: pip install --upgrade "
            "predgap"
        )
    line = _FIRST_LINE.match(head)
    if line is None:
        raise LoaderError(f"it begins with {head[:24]!r}; expected a file that Ensemble.save wrote")
    expected = line.end() + int(line[2]) + int(line[3])
    if size != expected:
        raise LoaderError(f"it has {size:,} bytes, its first line says {expected:,}; {_AGAIN}")
    return line.end(), int(line[2]), line[4].decode(), int(line[1])


def _parsed(header: bytes, version: int) -> dict[str, Any]:
    if _n_containers(header) > len(header) // _BYTES_PER_CONTAINER + _FREE_CONTAINERS:
        raise LoaderError("its header has far more lists than the header of an ensemble")
    try:
        found = json.loads(header.decode())
    except (ValueError, RecursionError) as error:
        raise LoaderError(f"its header is not valid JSON ({error})") from None
    expected = [name for name in _PLAIN if _is_part(name, version)]
    if not isinstance(found, dict) or found.keys() != {"arrays", *expected}:
        raise LoaderError(f"its header is no object with the parts arrays, {', '.join(expected)}")
    for name, kinds in _PLAIN.items():
        if type(found.setdefault(name)) not in kinds:
            raise LoaderError(f"its {name} is a {type(found[name]).__name__}, expected {kinds[0].__name__}")
    if not _are_whole([found["n_features"]]):
        raise LoaderError("its n_features is not a count")
    if _is_part("row_dtype", version) and found["row_dtype"] not in _ROW_KINDS:
        raise LoaderError("its row_dtype is neither float32 nor float64")
    return found


def _is_part(name: str, version: int) -> bool:
    """True if files of this version have the array or field."""
    return _SINCE.get(name, 1) <= version <= _UNTIL.get(name, VERSION)


def _n_containers(text: bytes) -> int:
    """The number of lists and objects in JSON; brackets within texts do not count."""
    return sum(found.lastindex is not None for found in _TEXT_OR_OPENING.finditer(text))


def _arrays(described: Any, data: bytes, begin: int, version: int) -> dict[str, NDArray[Any]]:
    expected = {name: kind for name, (kind, _) in _ARRAYS.items() if _is_part(name, version)}
    if not isinstance(described, dict) or list(described) != list(expected):
        raise LoaderError(f"its header describes other arrays than {', '.join(expected)}")
    shapes = {name: _shape(name, described[name]) for name in expected}
    sizes = {name: np.dtype(kind).itemsize * math.prod(shapes[name]) for name, kind in expected.items()}
    if sum(sizes.values()) != len(data) - begin:
        raise LoaderError(
            f"its arrays take {sum(sizes.values()):,} bytes, and it has {len(data) - begin:,} of them"
        )
    arrays = {}
    for name, kind in expected.items():
        count = math.prod(shapes[name])
        arrays[name] = np.frombuffer(data, dtype=kind, count=count, offset=begin).reshape(shapes[name])
        begin += sizes[name]
    return arrays


def _shape(name: str, described: Any) -> tuple[int, ...]:
    kind, n_dimensions = _ARRAYS[name]
    match described:
        case [found, [*shape]] if found == kind and len(shape) == n_dimensions and _are_whole(shape):
            return tuple(shape)
    raise LoaderError(
        f"its array {name} is {reprlib.repr(described)}, expected {kind!r} and {n_dimensions} lengths"
    )


def _names(found: list[Any] | None, what: str) -> tuple[str, ...] | None:
    if found is None:
        return None
    if not all(isinstance(name, str) for name in found):
        raise LoaderError(f"its {what} are not all text")
    return tuple(found)


def _categories(found: list[Any] | None) -> list[Categories | None] | None:
    return None if found is None else [None if levels is None else _levels(levels) for levels in found]


def _levels(found: Any) -> Categories:
    match found:
        case {"codes": [*codes], "labels": labels, "closed": bool(closed), "complete": bool(complete)}:
            if len(found) == 4 and _are_whole(codes) and _are_labels(labels):
                labels = None if labels is None else tuple(labels)
                return Categories(np.array(codes, dtype=np.int32), labels, closed, complete)
    raise LoaderError(f"its categories hold {reprlib.repr(found)}, expected codes and labels")


def _are_labels(found: Any) -> bool:
    return found is None or (isinstance(found, list) and set(map(type, found)) <= _LABELS)


def _are_whole(values: list[Any]) -> bool:
    """True if all values are whole numbers from 0 that fit into an int32."""
    return all(type(value) is int and 0 <= value <= _LARGEST for value in values)
