"""Rankings that users give, in any form: as indices of the model's features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from predgap._attributions import is_explanation, read_attributions, summed_over
from predgap._inputs.orders import GivenOrder, bias_hint, given_order, open_order
from predgap._inputs.outputs import OutputsOfRows
from predgap._inputs.subsets import Units, match_names
from predgap._inputs.tables import matching_rows
from predgap._text import count, format_items, names_or_default
from predgap._typing import FloatArray, IndexArray
from predgap.errors import RankingError
from predgap.ranking._ranking import Ranking, by_size


def ranking_order(
    ranking: Any,
    n_rows: int,
    n_features: int,
    feature_names: Sequence[str] | None = None,
    units: Units | None = None,
    *,
    index: Any = None,
    explained: OutputsOfRows | None = None,
) -> IndexArray:
    """Any accepted form of a ranking as indices of the model's features, (n, k), most important first.

    k is from 1 to d = `n_features`; a ranking with k < d places is partial.

    Parameters
    ----------
    ranking : one of
        - a Ranking of n rows. Its names are looked up among the model's, in any order; features of the model
          that it does not have get no place. If either side has no names, or the ranking has the defaults
          f0, f1, ..., features are matched by position, and both must have d of them. A Ranking of one row
          is not repeated: pass `ranking.order[0]` to use it for all rows
        - a shap.Explanation, or a frame of attributions: as by `Ranking.from_attributions`
        - a pandas Series of importances, labelled by feature: their order by size, for all rows
        - integers, (k,) for all rows or (n, k)
        - names, (k,) for all rows or (n, k)
    n_rows, n_features : int
    feature_names : d strings, or None
        Names of the model's features. Without them, f0, f1, ... are accepted.
    units : Units, or None
        Of these attributions make a ranking, too; names and n_features are then those of the units.
    index : n row labels, or None
        The labels of the rows. A ranking with other ones is matched by them; see `matching_rows`.
    explained : OutputsOfRows, or None
        What is explained; a ranking of another output is refused. None: not checked.

    Examples
    --------
    >>> ranking_order(["bmi", "age"], 2, 2, ("age", "bmi"))
    array([[1, 0],
           [1, 0]])
    >>> ranking_order([[2], [0]], 2, 3)
    array([[2],
           [0]])
    """
    names = names_or_default(n_features, feature_names)
    if units is not None and feature_names is None:
        names = units.names
    found = ranking if isinstance(ranking, Ranking) else _opened(ranking, names, explained, units)
    if isinstance(found, Ranking):
        order, labels, output = _aligned(found, n_features, feature_names), found.index, found.output
    else:
        order, labels, output = given_order(found.values, n_features, names), found.index, None
    if order.ndim == 1:
        return np.ascontiguousarray(np.broadcast_to(order, (n_rows, len(order))))
    if len(order) != n_rows:
        raise RankingError(
            f"the ranking has {count(len(order), 'row')}, X has {n_rows}{_hint(ranking, len(order), n_rows)}"
        )
    rows = matching_rows(labels, index, "the ranking", RankingError)
    if rows is not None:
        order, output = order[rows], output[rows] if isinstance(output, np.ndarray) else output
    if explained is not None:
        explained.check(output)
    return np.ascontiguousarray(order)


def check_same_rows(explanation: Any, names: Sequence[str], values: FloatArray) -> None:
    """RankingError if a shap.Explanation holds other data than the rows (n, d) that it is to be scored on.

    Compared are columns of numbers, by name, as single precision keeps them; missing values are not.
    """
    data, known = getattr(explanation, "data", None), getattr(explanation, "feature_names", None)
    if data is None or known is None or isinstance(known, str) or np.shape(data) != (len(values), len(known)):
        return
    table = data if isinstance(data, np.ndarray) else np.asarray(data, dtype=object)
    place = {name: j for j, name in enumerate(names)}
    for column, name in enumerate(map(str, known)):
        try:
            data_there = np.array(table[:, column], dtype=np.float64)
        except (TypeError, ValueError):
            continue  # labels
        if name not in place:
            continue
        with np.errstate(over="ignore"):
            mine, theirs = (of.astype(np.float32) for of in (values[:, place[name]], data_there))
        differs = (mine != theirs) & ~np.isnan(mine) & ~np.isnan(theirs)
        if differs.any():
            row = int(np.flatnonzero(differs)[0])
            raise RankingError(
                f"the Explanation is of other rows than X: in {int(differs.sum())} of {len(differs)} rows "
                f"{name!r} differs, first in row {row}, where its data have {theirs[row]:g} and X has "
                f"{mine[row]:g}. Pass X in the order of the Explanation; if its values are right all the "
                "same, pass Ranking.from_attributions(explanation.values, feature_names=...)"
            )


def _hint(ranking: Any, n_ranked: int, n_rows: int) -> str:
    """What to do if a ranking has another number of rows than X."""
    if n_ranked == 1:
        return "; to use one ranking for all rows pass it as (k,), e.g. order[0]"
    if n_ranked > n_rows and hasattr(ranking, "loc"):
        return "; take those of X, e.g. attributions.loc[X.index]"
    return ""


def _opened(
    ranking: Any, names: Sequence[str], explained: OutputsOfRows | None, units: Units | None
) -> Ranking | GivenOrder:
    """Attributions as a Ranking; indices, names and importances as what they are."""
    if is_explanation(ranking):
        return _ranked(ranking, explained, units)
    given = open_order(ranking, names)
    return _ranked(ranking, explained, units) if given is None else given


def _ranked(values: Any, explained: OutputsOfRows | None, units: Units | None) -> Ranking:
    read = read_attributions(values, None if units is None else units.feature_names)
    read = read.of(None if explained is None else explained.output_of(read.n_outputs))
    return by_size(read if units is None else summed_over(read, units), None)


def _aligned(ranking: Ranking, n_features: int, feature_names: Sequence[str] | None) -> IndexArray:
    mine = ranking.feature_names
    if mine is None or feature_names is None:
        return _by_position(ranking, n_features)
    place = match_names(mine, feature_names, RankingError)
    if len(place) == len(mine):
        return np.array([place[name] for name in mine], dtype=np.intp)[ranking.order]
    if mine == names_or_default(len(mine), None):
        return _by_position(ranking, n_features)
    unknown = [name for name in mine if name not in place]
    raise RankingError(
        f"the ranking has {format_items(unknown)}, which the model does not have; its features are "
        f"{format_items(feature_names)}"
    )


def _by_position(ranking: Ranking, n_features: int) -> IndexArray:
    d = ranking.n_features
    if d == n_features:
        return ranking.order
    few = f"; if it ranks some of {n_features}, pass Ranking(order, n_features={n_features})"
    hint = few if d < n_features else bias_hint(d, n_features)
    raise RankingError(f"the ranking is of {d} features; the model has {n_features}{hint}")
