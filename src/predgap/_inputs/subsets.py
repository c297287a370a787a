"""Reads names, subsets and groups of features.

A subset is given by names, indices or a boolean mask, and becomes a mask. Features of a group move at the
same time and are ranked as one; the groups and the features without one are the units.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, overload

import numpy as np
from numpy.typing import NDArray

from predgap._text import count, format_items, names_or_default, shown
from predgap._typing import BoolArray, FloatArray, IndexArray
from predgap.errors import PredgapError, ShapeError, SubsetError, TableError

# ------------------------------------------------------------------------------------------------------------
# Names that users give are matched to the feature names of a model.

NAMELESS: Final = (
    ". The model has no names of its own: give feature_names=, or a frame as the table of the noise"
)
"""What to add to an error about a name that a model without names does not know."""


def are_default(names: Sequence[str]) -> bool:
    """True if the names are "0", "1", "2", ..., as pandas calls and writes columns that have no names."""
    return all(name == str(j) for j, name in enumerate(names))


def match_names(given: Iterable[str], known: Sequence[str], error: type[PredgapError]) -> dict[str, int]:
    """The index among `known` of each given name that is found there.

    If a name is not found, spaces and underscores count as equal: LightGBM stores underscores in place of
    spaces, so its features have other names than the columns of the training table. `error` is raised if
    several known names could be meant.

    Examples
    --------
    >>> match_names(["mean radius", "mean_area", "target"], ["mean_area", "mean_radius"], PredgapError)
    {'mean radius': 1, 'mean_area': 0}
    """
    place = {name: j for j, name in enumerate(known)}
    found = {name: place.get(name, -1) for name in given}
    rest = [name for name, j in found.items() if j < 0]
    if not rest:
        return found
    alike: dict[str, list[int]] = {}
    for j, name in enumerate(known):
        alike.setdefault(_stored(name), []).append(j)
    for name in rest:
        places = alike.get(_stored(name), ())
        if len(places) > 1:
            raise error(
                f"{name!r} may be each of {format_items(known[j] for j in places)}, which differ in spaces "
                "and underscores only; write it as one of them"
            )
        found[name] = places[0] if places else -1
    found = {name: j for name, j in found.items() if j >= 0}
    if len(set(found.values())) < len(found):
        raise _same_feature(found, known, error)
    return found


def _stored(name: str) -> str:
    """The name as LightGBM stores it: spaces become underscores."""
    return name.replace(" ", "_")


def _same_feature(found: dict[str, int], known: Sequence[str], error: type[PredgapError]) -> PredgapError:
    names: dict[int, list[str]] = {}
    for name, j in found.items():
        names.setdefault(j, []).append(name)
    j, same = next((j, same) for j, same in names.items() if len(same) > 1)
    return error(
        f"{format_items(same)} may each be the model's {known[j]!r}: LightGBM stores underscores instead of "
        "spaces, so these are the same name to it; rename or drop all but one"
    )


@lru_cache(maxsize=32)  # a caller asks about tables with the same columns again and again
def order_by_name(names: tuple[str, ...], feature_names: tuple[str, ...]) -> tuple[int, ...]:
    """The column of each feature, (d,), in a table X with these names; TableError if they do not fit."""
    feature = match_names(names, feature_names, TableError)
    column = {feature[name]: j for j, name in enumerate(names) if name in feature}
    if len(column) < len(feature_names) or len(feature) < len(names):
        raise _other_columns(names, feature_names, feature, column)
    return tuple(column[q] for q in range(len(feature_names)))


def _other_columns(
    names: Sequence[str], feature_names: Sequence[str], feature: dict[str, int], column: dict[int, int]
) -> TableError:
    """The error of a table that lacks features, or has columns that are none."""
    missing = [name for q, name in enumerate(feature_names) if q not in column]
    extra = [name for name in names if name not in feature]
    sides = f"X has {format_items(names)}; the model needs {format_items(feature_names)}"
    if missing:
        also = f", and has {format_items(extra)} which the model does not know" if extra else ""
        return TableError(f"X lacks {count(len(missing), 'column')}: {format_items(missing)}{also}. {sides}")
    return ShapeError(
        f"X has {count(len(extra), 'column')} that the model does not know: {format_items(extra)}; "
        f"drop the target and other columns that are not features. {sides}"
    )


# ------------------------------------------------------------------------------------------------------------
# A subset of features becomes a boolean mask.

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
    """True if the subset is a pandas Series of booleans labelled by text, such as `importance > 0.1`."""
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


# ------------------------------------------------------------------------------------------------------------
# Groups of features move at the same time and are ranked as one; they make the units.


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The units that are perturbed and ranked as one: the groups, and each feature that is in no group.

    Units are numbered in the order of their first features.
    """

    names: tuple[str, ...]  # (m,) of the group, or of the feature
    members: tuple[tuple[int, ...], ...]  # (m,) the features of each unit, ascending
    groups: frozenset[int]  # the units that are groups; they may have one feature
    feature_names: tuple[str, ...] | None  # (d,) if the features have names

    @property
    def of_features(self) -> IndexArray:
        """The unit of each feature, (d,)."""
        units = np.empty(sum(map(len, self.members)), dtype=np.intp)
        for number, features in enumerate(self.members):
            units[list(features)] = number
        return units

    def named(self, feature_names: Sequence[str] | None) -> tuple[str, ...]:
        """The names of the units if the features have these names, as in a table; None keeps the model's."""
        if feature_names is None:
            return self.names
        return tuple(
            name if number in self.groups else feature_names[self.members[number][0]]
            for number, name in enumerate(self.names)
        )

    def features(self, masks: BoolArray) -> BoolArray:
        """Masks of units, (m,) or (n, m), as masks of features, (d,) or (n, d)."""
        chosen: BoolArray = masks[..., self.of_features]
        return chosen

    def sums(self, values: NDArray[np.float64]) -> FloatArray:
        """Values of features, (n, d, ...), added up over each unit, (n, m, ...)."""
        return np.stack([values[:, list(features)].sum(axis=1) for features in self.members], axis=1)


def read_units(groups: Any, n_features: int, feature_names: Sequence[str] | None) -> Units:
    """The units of a model with these groups; SubsetError if the groups do not fit the model.

    Parameters
    ----------
    groups : mapping of group names to features
        Features are names or indices, as in subsets; a bare name or index is one feature.
    n_features : int
    feature_names : sequence of d strings, or None
        Without names, f0, f1, ... are accepted.

    Examples
    --------
    >>> units = read_units({"place": ["lat", "lon"]}, 3, ("lat", "age", "lon"))
    >>> units.names, units.members
    (('place', 'age'), ((0, 2), (1,)))
    """
    if not isinstance(groups, Mapping):
        raise SubsetError(
            f"groups is a {type(groups).__name__}; expected a dict of names and features, such as "
            "{'place': ['lat', 'lon']}"
        )
    names = names_or_default(n_features, feature_names)
    group_of: dict[int, str] = {}
    for group, given in groups.items():
        for feature in _features(group, given, n_features, feature_names):
            other = group_of.setdefault(feature, group)
            if other != group:
                raise SubsetError(
                    f"the feature {names[feature]!r} is in the groups {other!r} and {group!r}; a feature may "
                    "be in one group"
                )
    first: dict[str, int] = {}  # of a group; features of a lower index come first
    for feature in sorted(group_of):
        first.setdefault(group_of[feature], feature)
    _check_names(list(groups), group_of, names)
    starts = [j for j in range(n_features) if first.get(group_of.get(j, ""), j) == j]
    members = tuple(
        tuple(q for q in sorted(group_of) if group_of[q] == group_of[j]) if j in group_of else (j,)
        for j in starts
    )
    return Units(
        names=tuple(group_of.get(j, names[j]) for j in starts),
        members=members,
        groups=frozenset(number for number, j in enumerate(starts) if j in group_of),
        feature_names=None if feature_names is None else tuple(feature_names),
    )


def _features(group: Any, given: Any, n_features: int, feature_names: Sequence[str] | None) -> list[int]:
    """The features of a group, ascending."""
    if not isinstance(group, str) or not group:
        raise SubsetError(f"groups has the name {group!r}; expected a text that is not empty")
    try:
        mask = subset_mask(given, 1, n_features, feature_names)
    except SubsetError as error:
        raise SubsetError(f"group {group!r}: {error}") from None
    if mask.ndim != 1 or not mask.any():
        found = "has one mask per row" if mask.ndim != 1 else "is empty"
        raise SubsetError(f"group {group!r} {found}; expected the names or indices of one feature or more")
    return [int(j) for j in np.flatnonzero(mask)]


def _check_names(groups: Sequence[str], group_of: Mapping[int, str], names: Sequence[str]) -> None:
    """SubsetError if a group has the name of a feature that is not in it."""
    for group, feature in match_names(groups, names, SubsetError).items():
        if group_of.get(feature) != group:
            raise SubsetError(
                f"group {group!r} has the name of the feature {names[feature]!r}, which is not in it; give "
                "the group another name"
            )


def grouping_hint(units: Units) -> str:
    """The advice in a message if a subset or ranking is of features although there are groups."""
    groups = format_items(units.names[number] for number in sorted(units.groups))
    return (
        f". The explainer has the groups {groups}: subsets and rankings name a group instead of its features "
        "(attributions are summed by Ranking.from_attributions(values, groups=...))"
    )
