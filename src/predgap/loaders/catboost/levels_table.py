"""Gives the categories of a CatBoost model their labels: those in a table, usually the training table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from predgap._inputs.names import match_names
from predgap._inputs.tables import by_name, open_columns
from predgap._model.ensemble import NUMERIC, Ensemble
from predgap._text import did_you_mean, format_items
from predgap._typing import IntArray
from predgap.errors import ShapeError, TableError
from predgap.loaders.catboost.categories import HashedCategories

__all__ = ["completed"]


def completed(ensemble: Ensemble, levels: Any) -> Ensemble:
    """The same ensemble, whose categories are those in `levels`: a table, or labels by feature name.

    Features that `levels` does not have keep their categories.
    """
    hashed = {q: own for q, own in ensemble.categorical().items() if isinstance(own, HashedCategories)}
    if not hashed:
        raise TableError(
            f"levels is for categories that a model stores without their labels, but {ensemble.source} has "
            "none such; leave it out"
        )
    by_feature = _from_mapping if isinstance(levels, Mapping) else _from_table
    labels = by_feature(levels, ensemble, hashed)
    new = {q: hashed[q].completed(own, f"feature {ensemble.names[q]!r}") for q, own in labels.items()}
    sets = _translated(ensemble, {q: (own.codes, old) for q, (own, old) in new.items()})
    return replace(
        ensemble,
        categories=tuple(new[q][0] if q in new else own for q, own in enumerate(ensemble.categories or ())),
        set_begin=np.cumsum([0, *map(len, sets)]),
        set_code=np.concatenate([np.empty(0, dtype=np.int32), *sets]),
    )


def _from_mapping(
    levels: Mapping[Any, Any], ensemble: Ensemble, hashed: Mapping[int, HashedCategories]
) -> dict[int, list[Any]]:
    place = match_names(map(str, levels), ensemble.names, TableError)
    found: dict[int, list[Any]] = {}
    for name, labels in levels.items():
        q = place.get(str(name), -1)
        if q not in hashed:
            names = [ensemble.names[j] for j in hashed]
            raise TableError(
                f"levels has {name!r}; {did_you_mean(str(name), names)}the model's categorical features are "
                f"{format_items(names)}"
            )
        if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
            raise TableError(f"levels[{name!r}] is {labels!r}, expected a list of labels")
        found[q] = [*labels]
    return found


def _from_table(
    levels: Any, ensemble: Ensemble, hashed: Mapping[int, HashedCategories]
) -> dict[int, list[Any]]:
    columns = open_columns(levels)
    if columns.names is not None and by_name(columns.names, columns.numbered, ensemble.names):
        place = match_names(columns.names, ensemble.names, TableError)
        column = {place[name]: j for j, name in enumerate(columns.names) if name in place}
    elif columns.n_columns == ensemble.n_features:
        column = {q: q for q in hashed}
    else:
        raise ShapeError(
            f"levels has {columns.n_columns} columns, the model {ensemble.n_features}; name the columns"
        )
    found = {q: columns.labels(column[q]) for q in hashed if q in column}
    if not found:
        names = [ensemble.names[q] for q in hashed]
        raise TableError(f"levels has none of the model's categorical features {format_items(names)}")
    return found


def _translated(ensemble: Ensemble, codes: Mapping[int, tuple[IntArray, IntArray]]) -> list[IntArray]:
    """The sets of the ensemble in new codes; `codes` has, by feature, new codes and the old one of each."""
    by_set = ensemble.category_set != NUMERIC
    feature = np.full(len(ensemble.set_begin) - 1, -1)
    feature[ensemble.category_set[by_set]] = ensemble.feature[by_set]
    found = []
    for q, begin, end in zip(feature.tolist(), ensemble.set_begin, ensemble.set_begin[1:], strict=False):
        own = ensemble.set_code[begin:end]
        if q in codes:
            new, old = codes[q]
            own = new[np.isin(old, own)]
        found.append(own if q >= 0 else own[:0])
    return found
