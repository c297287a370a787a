"""Matches names that users give to the feature names of a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from predgap._text import count, format_items
from predgap.errors import PredgapError, ShapeError, TableError

NAMELESS: Final = (
    ". The model has no names of its own: give feature_names=, or a frame as the table of the noise"
)
"""What to add to an error about a name that a model without names does not know."""


def are_default(names: Sequence[str]) -> bool:
    """Are they "0", "1", "2", ..., as pandas calls and writes columns that have no names?"""
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


def order_by_name(names: Sequence[str], feature_names: Sequence[str]) -> list[int]:
    """The column of each feature, (d,), in a table X with these names; TableError if they do not fit."""
    feature = match_names(names, feature_names, TableError)
    column = {feature[name]: j for j, name in enumerate(names) if name in feature}
    missing = [name for q, name in enumerate(feature_names) if q not in column]
    extra = [name for name in names if name not in feature]
    sides = f"X has {format_items(names)}; the model needs {format_items(feature_names)}"
    if missing:
        also = f", and has {format_items(extra)} which the model does not know" if extra else ""
        raise TableError(f"X lacks {count(len(missing), 'column')}: {format_items(missing)}{also}. {sides}")
    if extra:
        raise ShapeError(
            f"X has {count(len(extra), 'column')} that the model does not know: {format_items(extra)}; "
            f"drop the target and other columns that are not features. {sides}"
        )
    return [column[q] for q in range(len(feature_names))]
