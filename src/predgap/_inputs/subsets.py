"""Converts a subset of features (names, indices or boolean masks) to a boolean mask."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, overload

import numpy as np

from predgap._inputs.names import NAMELESS, match_names
from predgap._text import format_items, shown
from predgap._typing import BoolArray
from predgap.errors import SubsetError

_EXPECTED = "expected feature names, integer indices, or a boolean mask"


def subset_mask(
    subset: Any, n_rows: int, n_features: int, feature_names: Sequence[str] | None = None
) -> BoolArray:
    """The subset as a mask, (d,) for all rows or (n, d) one per row.

    Parameters
    ----------
    subset : one of
        - names; a bare string is one name
        - integer indices from 0; a bare integer is one index
        - a mask (d,) or one mask per row (n, d); only dtype bool is a mask, so [0, 1] are indices. A
          pandas Series of booleans that is labelled by feature is matched by its labels
    n_rows, n_features : int
    feature_names : sequence of d strings, or None
        Without names, f0, f1, ... are accepted.

    Examples
    --------
    >>> subset_mask(["bmi", "age"], 10, 3, ("age", "sex", "bmi"))
    array([ True, False,  True])
    >>> subset_mask([1], 10, 3)
    array([False,  True, False])
    >>> subset_mask([], 10, 3)
    array([False, False, False])
    """
    names = _DefaultNames(n_features) if feature_names is None else feature_names
    if hasattr(subset, "columns"):
        raise SubsetError(
            f"the subset is a {type(subset).__name__}, whose column order may not be the model's; pass "
            "a boolean array (n, d), e.g. mask[feature_names].to_numpy()"
        )
    if not isinstance(subset, list | tuple | str | np.ndarray) and _is_labelled(subset):
        subset = _in_model_order(subset, names)
    items = _items(subset)
    if isinstance(items, np.ndarray):
        return _checked_mask(items, n_rows, n_features)
    places = name_positions(items, names) if items and isinstance(items[0], str) else _indices(items, names)
    mask = np.zeros(len(names), dtype=np.bool_)
    mask[places] = True
    if np.count_nonzero(mask) < len(places):
        twice = [names[j] for j, times in Counter(places).items() if times > 1]
        raise SubsetError(
            f"the subset names {format_items(twice)} more than once; each feature may occur once"
        )
    return mask


class _DefaultNames(Sequence[str]):
    """The names f0, f1, ..., made on demand: a model without names may have millions of features."""

    def __init__(self, n: int) -> None:
        self._numbers = range(n)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, j: int) -> str: ...
    @overload
    def __getitem__(self, j: slice) -> list[str]: ...
    def __getitem__(self, j: int | slice) -> str | list[str]:
        chosen = self._numbers[j]
        return [f"f{number}" for number in chosen] if isinstance(chosen, range) else f"f{chosen}"


def _items(subset: Any) -> BoolArray | list[Any]:
    """A boolean array, or a flat list of names or indices."""
    if isinstance(subset, bool | np.bool_):
        raise SubsetError(f"the subset is {shown(subset)}; {_EXPECTED} of one value per feature")
    if isinstance(subset, str | int | np.integer):
        return [subset]
    if isinstance(subset, np.ndarray) and subset.dtype == np.bool_:
        return subset
    try:
        items = subset.tolist() if isinstance(subset, np.ndarray) else list(subset)
    except TypeError:
        raise SubsetError(f"the subset is {shown(subset)}; {_EXPECTED}; range(d) is every feature") from None
    if not isinstance(items, list):  # a 0-d array
        return _items(items)
    if {type(item) for item in items} <= {str} or {type(item) for item in items} <= {int}:
        return items
    return _nested(items) if any(map(np.ndim, items)) else _flat(items)


def _nested(rows: list[Any]) -> BoolArray:
    """One mask per row, given as a list of lists."""
    flat = [value for row in rows for value in (row if np.ndim(row) else [row])]
    if not all(isinstance(value, bool | np.bool_) for value in flat):
        strange = next(value for value in flat if not isinstance(value, bool | np.bool_))
        raise SubsetError(
            f"the subset has one list per row, but holds {shown(strange)}; per row only boolean masks (n, d) "
            "are accepted"
        )
    try:
        return np.array(rows, dtype=np.bool_)
    except ValueError:
        lengths = sorted({np.size(row) for row in rows})
        raise SubsetError(f"the masks of the rows differ in length: {format_items(lengths)}") from None


def _flat(items: list[Any]) -> BoolArray | list[Any]:
    kinds = Counter(map(_kind, items))
    if set(kinds) <= {"name"} or set(kinds) <= {"index"}:
        return items
    if set(kinds) == {"boolean"}:
        return np.array(items, dtype=np.bool_)
    strange = next((item for item in items if _kind(item) == "other"), None)
    if "other" in kinds:
        raise SubsetError(f"the subset holds {shown(strange)} ({type(strange).__name__}); {_EXPECTED}")
    found = " and ".join(f"{times} of kind {kind}" for kind, times in kinds.items())
    raise SubsetError(f"the subset mixes {found}: {format_items(items)}; use one kind")


def _kind(item: Any) -> str:
    if isinstance(item, bool | np.bool_):
        return "boolean"
    if isinstance(item, np.timedelta64):  # a subclass of NumPy's integers
        return "other"
    if isinstance(item, int | np.integer):
        return "index"
    return "name" if isinstance(item, str) else "other"


def _indices(items: list[Any], names: Sequence[str]) -> list[int]:
    outside = [int(j) for j in items if not 0 <= j < len(names)]
    if outside:
        hint = " (they are not counted from the end)" if min(outside) < 0 else ""
        raise SubsetError(
            f"no feature has index {format_items(outside)}; the model has {len(names)} features, "
            f"indices 0 to {len(names) - 1}{hint}"
        )
    return [int(j) for j in items]


@lru_cache(maxsize=32)
def _place_of_each(names: tuple[str, ...]) -> dict[str, int]:
    """The index of each name."""
    return {name: j for j, name in enumerate(names)}


def name_positions(wanted: Sequence[str], names: Sequence[str]) -> list[int]:
    """The index of each wanted feature; SubsetError if the model does not have one."""
    if isinstance(names, tuple):
        found = list(map(_place_of_each(names).get, wanted))
        if None not in found:
            return found  # type: ignore[return-value]
    place = match_names(wanted, names, SubsetError)
    unknown = [name for name in wanted if name not in place]
    if unknown:
        lower = {name.lower(): name for name in names}
        close = {
            name: [lower[match] for match in difflib.get_close_matches(name.lower(), list(lower), n=1)]
            for name in unknown
        }
        hints = [f"{match[0]!r} for {name!r}" for name, match in close.items() if match]
        meant = f"did you mean {', '.join(hints[:3])}? " if hints else ""
        hint = NAMELESS if isinstance(names, _DefaultNames) else ""
        raise SubsetError(
            f"the model has no feature {format_items(unknown)}; {meant}its features are {format_items(names)}"
            f"{hint}"
        )
    return [place[name] for name in wanted]


def _checked_mask(mask: BoolArray, n_rows: int, n_features: int) -> BoolArray:
    if mask.shape not in ((n_features,), (n_rows, n_features)):
        raise SubsetError(
            f"the boolean mask has shape {mask.shape}; expected ({n_features},) for all rows or "
            f"({n_rows}, {n_features}) for one per row"
        )
    return mask.copy()


def _is_labelled(subset: Any) -> bool:
    """Is it a pandas Series of booleans labelled by text, such as `importance > 0.1`?"""
    labels: Any = getattr(subset, "index", None)
    if callable(labels) or not hasattr(labels, "dtype"):  # list.index is a method
        return False
    if str(getattr(subset, "dtype", "")).lower() not in ("bool", "boolean", "bool[pyarrow]"):
        return False
    return len(labels) > 0 and all(isinstance(label, str) for label in labels)


def _in_model_order(series: Any, names: Sequence[str]) -> BoolArray:
    labels = list(series.index)
    place = match_names(labels, names, SubsetError)
    if sorted(place.values()) != list(range(len(names))) or len(labels) != len(names):
        raise SubsetError(
            f"the mask is labelled {format_items(labels)}; the model's features are {format_items(names)}. "
            "Give one boolean per feature, or pass a plain array in the model's order"
        )
    values = series.tolist()
    strange = [
        label for label, value in zip(labels, values, strict=True) if not isinstance(value, bool | np.bool_)
    ]
    if strange:
        raise SubsetError(f"the mask is missing for {format_items(strange)}; expected True or False")
    mask = np.zeros(len(names), dtype=np.bool_)
    mask[[place[label] for label in labels]] = values
    return mask
