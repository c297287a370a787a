"""Converts splits of other libraries to those of an ensemble: x < threshold, or x in a set of categories."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import Categories
from predgap._model.ensemble import LEAF, NUMERIC
from predgap._model.rounding import LARGEST_CODE_OF_SINGLE, fields_of_rows
from predgap._typing import BoolArray, FloatArray
from predgap.errors import UnsupportedModelError

__all__ = ["Cuts", "Integers", "above", "as_cuts", "as_sets"]

Integers = NDArray[np.signedinteger[Any]]

_LARGEST_CODE: Final = 2**31 - 1


class Cuts(NamedTuple):
    """Splits that send x left iff x < threshold, where x is rounded to the library's precision."""

    threshold: FloatArray
    left: Integers
    right: Integers
    default_left: BoolArray
    accepts_infinity: bool  # False if a split only separates missing values from all others

    def fields(self, kind: type[np.floating[Any]]) -> dict[str, Any]:
        """The fields of an `Ensemble`, for a library that rounds rows to `kind`."""
        rows = fields_of_rows(kind, self.threshold, accepts_infinity=self.accepts_infinity)
        return rows | {"left": self.left, "right": self.right, "default_left": self.default_left}


def as_cuts(
    threshold: NDArray[np.floating[Any]],
    left: Integers,
    right: Integers,
    default_left: BoolArray,
    *,
    inclusive: BoolArray,
    upward: BoolArray,
    kind: type[np.floating[Any]],
) -> Cuts:
    """Converts splits that send x left iff x < t, x <= t, x > t or x >= t to the form x < threshold.

    Parameters
    ----------
    threshold, left, right, default_left : (n_nodes,) arrays
        As in an `Ensemble`, but with the library's comparison.
    inclusive : (n_nodes,) booleans
        True for x <= t and x > t, where values equal to t are on the lower side.
    upward : (n_nodes,) booleans
        True for x > t and x >= t, where higher values go left. The children are exchanged.
    kind : type
        `numpy.float32` or `numpy.float64`, the precision of rows.

    Examples
    --------
    >>> cuts = as_cuts(np.array([0.5]), np.array([1]), np.array([2]), np.array([True]),
    ...                inclusive=np.array([False]), upward=np.array([True]), kind=np.float32)
    >>> cuts.threshold, cuts.left, cuts.right, cuts.default_left
    (array([0.5]), array([2]), array([1]), array([False]))
    """
    exact = threshold.astype(np.float64)
    cut = np.where(inclusive, above(exact, kind), exact)
    # An infinite cut sends all values that are not missing the same way. It is replaced by a finite one,
    # which does the same for finite values only: infinite ones are then not accepted in rows.
    endless = np.isinf(cut)
    swap = upward ^ (cut == np.inf)
    return Cuts(
        threshold=np.where(endless, float(np.finfo(kind).min), cut),
        left=np.where(swap, right, left),
        right=np.where(swap, left, right),
        default_left=default_left ^ swap,
        accepts_infinity=not endless.any(),
    )


def above(threshold: FloatArray, kind: type[np.floating[Any]]) -> FloatArray:
    """The smallest float of type `kind` above each threshold: x <= threshold iff x < that number.

    Above the largest finite float32 it is the next float64, which has the same effect and is finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near = threshold.astype(kind)
        found = np.where(near > threshold, near, np.nextafter(near, kind(np.inf))).astype(np.float64)
        return np.where(np.isinf(found), np.nextafter(threshold, np.inf), found)


def as_sets(
    feature: Integers,
    by_set: BoolArray,
    node: Integers,
    code: FloatArray,
    n_features: int,
    kind: type[np.floating[Any]],
) -> dict[str, Any]:
    """The fields of an ensemble that describe splits on sets of categories.

    Parameters
    ----------
    feature : (n_nodes,) integers
        The split feature of each node, LEAF at leaves.
    by_set : (n_nodes,) booleans
        Which nodes send a set of categories left.
    node, code : (m,) arrays
        The members of all sets in any order: the node of the set, and the code of the category.
    n_features : int
        The number of features of the model.
    kind : type
        `numpy.float32` or `numpy.float64`, the precision of rows.
    """
    mixed = np.intersect1d(feature[by_set], feature[~by_set & (feature != LEAF)])
    if len(mixed):
        raise UnsupportedModelError(
            f"feature {mixed[0]} is compared with a threshold in one split and with categories in another, "
            "which predgap does not handle; make it two features"
        )
    largest = LARGEST_CODE_OF_SINGLE if kind == np.float32 else _LARGEST_CODE
    strange = (code != np.trunc(code)) | (code < 0) | (code > largest) | np.isnan(code)
    if strange.any():
        raise UnsupportedModelError(
            f"a split asks whether feature {feature[node[np.argmax(strange)]]} equals "
            f"{code[np.argmax(strange)]:g}; predgap handles categories, which are whole numbers from 0 to "
            f"{largest} in rows of {np.dtype(kind).name}"
        )
    category_set = np.full(len(feature), NUMERIC, dtype=np.int32)
    category_set[by_set] = np.arange(by_set.sum())
    key = np.unique((category_set[node].astype(np.int64) << 32) | code.astype(np.int64))
    sizes = np.bincount(key >> 32, minlength=int(by_set.sum()))
    levels: dict[int, Categories | None] = {
        int(j): Categories(np.unique(code[feature[node] == j]).astype(np.int32))
        for j in np.unique(feature[by_set])
        if 0 <= j < n_features
    }
    return {
        "category_set": category_set,
        "set_begin": np.concatenate([[0], np.cumsum(sizes)]),
        "set_code": key & 0xFFFFFFFF,
        "categories": tuple(levels.get(j) for j in range(n_features)) if levels else None,
    }
