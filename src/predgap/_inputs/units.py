"""Groups of features that move at the same time and are ranked as one, and the units that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.names import match_names
from predgap._inputs.subsets import subset_mask
from predgap._text import format_items, names_or_default
from predgap._typing import BoolArray, FloatArray, IndexArray
from predgap.errors import SubsetError


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """What is perturbed and ranked as one: groups of features, and each feature that is in no group.

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
    """What to do if a subset or ranking is of features although there are groups."""
    groups = format_items(units.names[number] for number in sorted(units.groups))
    return (
        f". The explainer has the groups {groups}: subsets and rankings name a group instead of its features "
        "(attributions are summed by Ranking.from_attributions(values, groups=...))"
    )
