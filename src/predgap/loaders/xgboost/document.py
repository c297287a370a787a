"""Parses XGBoost's JSON or UBJSON to a dict, and reads typed parts of it."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._typing import IntArray
from predgap.errors import LoaderError
from predgap.loaders._formats import ubjson
from predgap.loaders._formats.documents import Document, as_document, numbers, object_in, parse

TREE_ARRAYS: Final = frozenset(
    {"left_children", "right_children", "split_indices", "split_conditions"}
    | {"default_left", "split_type", "base_weights", "leaf_weights"}
    | {f"categories{suffix}" for suffix in ("", "_nodes", "_segments", "_sizes")}
)
# Arrays of trees that are not needed. Removing them from the text halves the time of parsing. Within a JSON
# string a quote has a backslash before it, so these patterns match keys only.
_UNUSED: Final = re.compile(r'("(?:loss_changes|parents|sum_hessian)"\s*:\s*)\[[^\]"]*\]')
_UNUSED_BY_SCALARS: Final = re.compile(_UNUSED.pattern.replace("parents", "parents|base_weights"))
_HAS_VECTORS: Final = re.compile(r'"size_leaf_vector"\s*:\s*"(?![01]")')

section = partial(object_in, model="an XGBoost model saved by save_model")
"""A JSON object within an object of the document."""


def decode(data: bytes) -> Document:
    """The content of a model file, with NumPy arrays for the lists in its trees."""
    is_json = re.match(rb"\s*\{\s*\"", data)
    return as_document(parse(data, _without_unused) if is_json else ubjson.decode(data))


def _without_unused(text: str) -> Any:
    unused = _UNUSED if _HAS_VECTORS.search(text) else _UNUSED_BY_SCALARS
    return json.loads(unused.sub(r"\1[]", text), object_hook=_compact_tree)


def _compact_tree(found: Document) -> Document:
    """Turns the lists of a tree into arrays as soon as it is parsed, to save memory."""
    if "left_children" in found:
        for name in TREE_ARRAYS & found.keys():
            found[name] = numbers_of(found[name], name)
    return found


def text(parent: Document, name: str) -> str:
    value = parent.get(name)
    if not isinstance(value, str):
        raise LoaderError(f"{name} is a {type(value).__name__}, expected a text; the file is damaged")
    return value


def count(parent: Document, name: str, default: int | None = None, most: int = 2**31 - 1) -> int:
    """A whole number from 0 to `most`, which XGBoost stores as text."""
    value = parent.get(name, default)
    text = str(value) if isinstance(value, str | int) else f"a {type(value).__name__}"
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > most:
        raise LoaderError(f"{name} is {text[:40]!r}, expected a number from 0 to {most}")
    return int(text)


def tree_param(tree: Document, name: str, default: int | None = None) -> int:
    return count(section(tree, "tree_param"), name, default)


def numbers_of(value: Any, name: str) -> NDArray[Any]:
    """Numbers as an array: from a JSON list, or the array that UBJSON gave."""
    return value if isinstance(value, np.ndarray) else numbers(value, name, {int, float, bool})


def integers(values: NDArray[Any], name: str) -> IntArray:
    with np.errstate(invalid="ignore"):
        integers = values.astype(np.int32)
    if not np.array_equal(integers, values):
        raise LoaderError(f"{name} holds numbers that are no 32-bit integers; the file is damaged")
    return integers


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def texts(learner: Document, name: str) -> tuple[str, ...] | None:
    """A list of texts; None if it is empty or absent."""
    texts = learner.get(name)
    if texts is None or texts == []:
        return None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise LoaderError(f"{name} is not a list of texts; the file is damaged")
    return tuple(texts)
