"""Reads orders of features that users give as indices or names: for all rows, or one per row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from predgap._inputs.subsets import name_positions
from predgap._text import format_items
from predgap._typing import IndexArray
from predgap.errors import RankingError, SubsetError

_ATTRIBUTIONS = "these look like attributions; use Ranking.from_attributions"


@dataclass(frozen=True, slots=True, eq=False)
class GivenOrder:
    """Indices or names of features, most important first, and the labels of rows that came with them."""

    values: Any  # (k,) for all rows, or (n, k)
    index: Any = None


def open_order(ranking: Any, names: Sequence[str]) -> GivenOrder | None:
    """A ranking that is no `Ranking`; None if it is a frame of attributions.

    A frame of floats holds attributions; one of integers or texts has the indices or names of the features of
    each row. A pandas Series of numbers, labelled by feature, has importances, larger ones first.
    """
    if isinstance(ranking, np.ndarray | list | tuple):
        return GivenOrder(ranking)
    try:
        found = nw.from_native(ranking, pass_through=True, allow_series=True)
        kinds = found.schema.dtypes() if isinstance(found, nw.DataFrame) else []
    except nw.exceptions.DuplicateError:
        raise RankingError(
            "the ranking is a frame with two columns of one name; rename one of them"
        ) from None
    if isinstance(found, nw.Series):
        return GivenOrder(_from_series(found))
    if isinstance(found, nw.LazyFrame):
        raise RankingError(f"the ranking is a lazy {type(ranking).__name__}; collect it first")
    if not isinstance(found, nw.DataFrame):
        return GivenOrder(ranking)
    if kinds and all(kind.is_numeric() for kind in kinds):
        if any(kind.is_float() for kind in kinds):
            return None
        if {*map(str, found.columns)} <= {*names}:
            raise RankingError(
                "the ranking is a frame of integers whose columns are features: for attributions use "
                "Ranking.from_attributions(frame), for indices of features pass them as an array"
            )
    return GivenOrder(found.to_numpy(), nw.maybe_get_index(found))


def _from_series(series: nw.Series[Any]) -> Any:
    """The values of a Series; of importances, the names of the features by falling absolute value."""
    labels: Any = nw.maybe_get_index(series)
    named = labels is not None and all(isinstance(label, str) for label in labels)
    if not (series.dtype.is_numeric() and named):
        if series.dtype.is_float():
            raise RankingError(
                "the ranking is a Series of numbers without the names of features as its labels; importances "
                "need them, e.g. pd.Series(importances, index=X.columns)"
            )
        return series.to_list()
    size = np.abs(series.cast(nw.Float64).fill_null(float("nan")).to_numpy().astype(np.float64))
    if not np.isfinite(size).all():
        raise RankingError(
            f"the importance of {format_items(np.array(labels)[~np.isfinite(size)].tolist())} is NaN or "
            "infinite; it cannot be ranked: fill with 0 if the method leaves features out"
        )
    return [labels[j] for j in np.argsort(-size, kind="stable")]


_IMPORTANCES = "; importances need the names of features: pd.Series(importances, index=X.columns)"


def given_order(ranking: Any, n_features: int, names: Sequence[str]) -> IndexArray:
    """The feature indices of a ranking that is given as indices or names, (k,) or (n, k).

    Examples
    --------
    >>> given_order(["bmi", "age"], 2, ("age", "bmi"))
    array([1, 0])
    """
    array = plain_array(ranking)
    if array.ndim not in (1, 2):
        attributions = "; attributions of several outputs: Ranking.from_attributions(values, output=...)"
        raise RankingError(
            f"the ranking has shape {array.shape}; expected (k,) for all rows or (n, k), "
            f"with k from 1 to {n_features}{attributions if array.ndim == 3 else ''}"
        )
    check_places(array.shape[-1], n_features, "the ranking")
    if array.size and all(isinstance(name, str) for name in array.ravel().tolist()):
        order = _from_names(array, names)
    else:
        order = integers(array, "the ranking")
    check_features(np.atleast_2d(order), n_features, _IMPORTANCES if array.ndim == 1 else "")
    return order


def check_features(order: IndexArray, n_features: int, more: str = "") -> None:
    """Raises RankingError unless each row of `order` (n, k) holds k different indices from 0 to d - 1.

    d is `n_features`; `more` is added to the message if an index is outside this range.
    """
    sorted_rows = np.sort(order, axis=1)
    repeats = sorted_rows[:, 1:] == sorted_rows[:, :-1]
    if not repeats.any() and (order.size == 0 or (order.min() >= 0 and order.max() < n_features)):
        return
    strange = (order < 0) | (order >= n_features)
    row = int(np.flatnonzero(strange.any(axis=1) | repeats.any(axis=1))[0])
    outside = sorted(set(order[row, strange[row]].tolist()))
    repeated = sorted(
        j for j, times in Counter(order[row].tolist()).items() if times > 1 and j not in outside
    )
    found = ", ".join(
        f"{verb} {format_items(which)}"
        for verb, which in (("holds", outside), ("repeats", repeated))
        if which
    )
    raise RankingError(
        f"row {row} does not rank features 0 ... {n_features - 1}, each at most once: it {found}"
        + (more if outside else "")
    )


def check_places(k: int, n_features: int, what: str) -> None:
    """RankingError unless a number of places is from 1 to d = `n_features`; 0 if there are no features."""
    if k > n_features:
        raise RankingError(f"{what} has {k} places for {n_features} features{bias_hint(k, n_features)}")
    if k == 0 and n_features > 0:
        raise RankingError(f"{what} has no places; expected 1 to {n_features}, the number of features")


def bias_hint(found: int, n_features: int) -> str:
    """What to say if there is one column more than features: it may be a bias."""
    if found != n_features + 1:
        return ""
    return (
        "; one too many looks like pred_contribs with its bias column: pass "
        "Ranking.from_attributions(values, feature_names=...)"
    )


def plain_array(ranking: Any) -> NDArray[Any]:
    """Lists of indices or names as an array; RankingError if they differ in length."""
    try:
        array = np.asarray(ranking)
        if array.dtype.kind in "UST" and not isinstance(ranking, np.ndarray):
            array = np.asarray(ranking, dtype=object)  # NumPy would turn integers beside names into text
    except ValueError:
        raise RankingError("the rows of the ranking differ in length; expected (n, k)") from None
    return array


def _from_names(array: NDArray[Any], names: Sequence[str]) -> IndexArray:
    try:
        places = name_positions([str(name) for name in array.ravel().tolist()], names)
    except SubsetError as error:
        raise RankingError(str(error)) from None
    return np.array(places, dtype=np.intp).reshape(array.shape)


def integers(values: Any, what: str) -> IndexArray:
    """Indices as an array; RankingError, in which they are called `what`, if they are no integers."""
    array = plain_array(values)
    if array.dtype.kind == "f" and array.size:
        raise RankingError(f"{what} has dtype {array.dtype}: {_ATTRIBUTIONS}")
    if array.dtype.kind not in "iu" and array.size:
        raise RankingError(f"{what} has dtype {array.dtype}; expected integers, or names of one kind")
    return array.astype(np.intp)
