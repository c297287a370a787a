"""Reads the categories of XGBoost's categorical features.

Since 3.1 XGBoost stores the categories of the frame that the model was trained on, with their labels. For
older models the categories are the codes from 0 to the largest one that occurs in the trees, without labels.
"""

from __future__ import annotations

from collections.abc import Set
from itertools import pairwise
from typing import Any, Final

import numpy as np

from predgap._inputs.categories import Categories
from predgap._model.ensemble import LEAF, NUMERIC
from predgap.errors import LoaderError, UnsupportedModelError
from predgap.loaders._formats.documents import Document
from predgap.loaders.xgboost.document import dotted, integers, numbers_of, section, texts

_ROUTES_CATEGORIES: Final = (1, 7)  # older versions send some categories the way of missing values
_STORES_LETTERS: Final = (3, 4)  # older versions damage labels of pandas with letters beyond ASCII
_FREE_LEVELS: Final = 1 << 17  # how many more unlabelled categories there may be than codes in the file
# For each type of integer: 0 if it is signed; the number of bits if it is unsigned, which UBJSON stores as
# signed.
_INTEGER_BITS: Final = {9: 0, 10: 8, 11: 0, 12: 16, 13: 0, 14: 32, 15: 0, 16: 64}


def read_categories(
    learner: Document, model: Document, nodes: dict[str, Any], n_features: int, version: tuple[int, ...]
) -> tuple[Categories | None, ...] | None:
    """The categories of each feature. A feature is categorical by its type, its labels, or splits on sets."""
    types = texts(learner, "feature_types") or ()
    if types and len(types) != n_features:
        raise LoaderError(f"{len(types)} feature_types for {n_features} features; the file is damaged")
    largest = _largest_codes(nodes)
    if largest and version < _ROUTES_CATEGORIES:
        raise UnsupportedModelError(
            f"the model splits on categories and was saved by XGBoost {dotted(version)}; load it with "
            f"XGBoost {dotted(_ROUTES_CATEGORIES)} or newer, which treats unknown categories differently, "
            "and save it again"
        )
    labels = _labels(model, n_features, version)
    categorical = {q for q, kind in enumerate(types) if kind == "c"} | labels.keys() | largest.keys()
    _refuse_thresholds(categorical, nodes)
    n_levels = {q: len(labels[q]) if q in labels else largest.get(q, -1) + 1 for q in categorical}
    _refuse_gaps({q: n for q, n in n_levels.items() if q not in labels}, len(nodes["set_code"]))
    levels = {q: Categories(np.arange(n, dtype=np.int32), labels.get(q)) for q, n in n_levels.items()}
    return tuple(levels.get(q) for q in range(n_features)) if levels else None


def _largest_codes(nodes: dict[str, Any]) -> dict[int, int]:
    """The largest code in the sets of each feature that is split by sets."""
    split = np.flatnonzero(nodes["category_set"] != NUMERIC)
    ends = nodes["set_begin"][nodes["category_set"][split] + 1]
    largest = nodes["set_code"][ends - 1]  # codes ascend in a set
    order = np.argsort(largest, kind="stable")  # the largest code of a feature comes last: `dict` keeps it
    return dict(zip(nodes["feature"][split][order].tolist(), largest[order].tolist(), strict=True))


def _refuse_thresholds(categorical: Set[int], nodes: dict[str, Any]) -> None:
    compared = nodes["feature"][(nodes["feature"] != LEAF) & (nodes["category_set"] == NUMERIC)]
    both = categorical & set(np.unique(compared).tolist())
    if both:
        raise UnsupportedModelError(
            f"feature {min(both)} is categorical, but a tree compares it with a threshold; train the model "
            "anew, with the same feature_types all along"
        )


def _refuse_gaps(n_levels: dict[int, int], n_codes: int) -> None:
    """Refuses models in which a few codes would make a list of millions of categories."""
    if sum(n_levels.values()) > _FREE_LEVELS + n_codes:
        q = max(n_levels, key=lambda q: n_levels[q])
        raise UnsupportedModelError(
            f"the categories of feature {q} have codes up to {n_levels[q] - 1}, but the trees use only "
            f"{n_codes} codes in all; number the categories 0, 1, 2, ... and train the model anew"
        )


def _labels(model: Document, n_features: int, version: tuple[int, ...]) -> dict[int, tuple[Any, ...]]:
    """The labels of each feature that was a categorical column of a frame, in the order of their codes."""
    stored = section(model, "cats") if "cats" in model else {"enc": []}
    columns = stored.get("enc")
    if not isinstance(columns, list) or not all(isinstance(column, dict) for column in columns):
        raise LoaderError("the labels of categories are no list of objects; the file is damaged")
    if not columns:  # trained on codes
        return {}
    labels = [
        _text_labels(column, q, version) if "offsets" in column else _number_labels(column, q)
        for q, column in enumerate(columns)
    ]
    ends = integers(numbers_of(stored.get("feature_segments"), "feature_segments"), "feature_segments")
    if len(columns) != n_features or np.diff(ends).tolist() != list(map(len, labels)):
        raise LoaderError("the labels of categories do not fit the features; the file is damaged")
    return {q: found for q, found in enumerate(labels) if found}


def _text_labels(column: Document, q: int, version: tuple[int, ...]) -> tuple[str, ...]:
    """Texts one after the other as bytes; a numeric feature has none."""
    ends = integers(numbers_of(column["offsets"], "offsets"), "offsets").tolist()
    values = integers(numbers_of(column.get("values"), "values"), "values")
    in_order = ends == sorted(ends) and ends[:1] in ([], [0]) and ends[-1:] <= [len(values)]
    if not in_order or ((values < -128) | (values > 255)).any():
        raise LoaderError(f"the labels of feature {q} are not whole; the file is damaged")
    data = values.astype(np.uint8).tobytes()
    try:
        if data.isascii() or version >= _STORES_LETTERS:
            return tuple(data[start:end].decode() for start, end in pairwise(ends))
    except UnicodeDecodeError:  # trained by an older version, and saved again by a newer one
        pass
    raise UnsupportedModelError(
        f"the categories of feature {q} have letters beyond ASCII, which XGBoost before "
        f"{dotted(_STORES_LETTERS)} does not store reliably; train the model with a newer one, or on codes "
        "(a numeric array and feature_types), or rename the categories"
    )


def _number_labels(column: Document, q: int) -> tuple[int, ...]:
    values, kind = column.get("values"), column.get("type")
    found = values.tolist() if isinstance(values, np.ndarray) else values
    n_bits = _INTEGER_BITS.get(kind) if isinstance(kind, int) else None
    if n_bits is None or not isinstance(found, list) or not set(map(type, found)) <= {int}:
        raise LoaderError(f"the labels of feature {q} are neither texts nor integers; the file is damaged")
    return tuple(value % 2**n_bits for value in found) if n_bits else tuple(found)
