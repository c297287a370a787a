"""Reads what users give as a ranking: orders of features, or attributions such as SHAP values.

An order is read as indices, or names, for all rows or one per row. Attributions of any library become one
array (n, d).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from predgap._inputs.outputs import Output
from predgap._inputs.subsets import Units, match_names, name_positions, read_units
from predgap._inputs.tables import open_columns
from predgap._text import format_items, shown
from predgap._typing import FloatArray, IndexArray
from predgap.errors import RankingError, SubsetError, TableError

# ------------------------------------------------------------------------------------------------------------
# Orders of features are given as indices or names: for all rows, or one per row.

_ATTRIBUTIONS = "these look like attributions; use Ranking.from_attributions"


@dataclass(frozen=True, slots=True, eq=False)
class GivenOrder:
    """Indices or names of features, most important first, and the labels of rows that came with them."""

    values: Any  # (k,) for all rows, or (n, k)
    index: Any = None


def open_order(ranking: Any, names: Sequence[str]) -> GivenOrder | None:
    """A ranking that is no `Ranking`; None if it is a shap.Explanation or a frame of attributions.

    A frame of floats holds attributions; one of integers or texts has the indices or names of the features of
    each row. A pandas Series of numbers, labelled by feature, has importances, larger ones first.
    """
    if isinstance(ranking, np.ndarray | list | tuple):
        return GivenOrder(ranking)
    if is_explanation(ranking):
        return None
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
    """The advice in a message if there is one column more than features: it may be a bias."""
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


# ------------------------------------------------------------------------------------------------------------
# Attributions of any library become one array (n, d).


@dataclass(frozen=True, slots=True, eq=False)
class Attributions:
    """Attributions of one output or several, with the names and row labels that came with them."""

    values: FloatArray  # (n, d, k) for k outputs
    names: tuple[str, ...] | None  # (d,)
    index: Any = None
    backend: str | None = None
    output_names: tuple[str, ...] | None = None  # (k,)
    output: Output | None = None  # the output that was taken, if it is known
    has_outputs: bool = True  # were outputs told apart in what was given? Else all is of one

    @property
    def n_outputs(self) -> int:
        """The number of outputs, k."""
        return int(self.values.shape[2])

    def of(self, output: Output | None) -> Attributions:
        """The attributions of one output, or of one per row; RankingError if it is not there."""
        n, _, k = self.values.shape
        if output is None and k != 1:
            raise RankingError(f"attributions for {k} outputs; choose one with output=0 ... output={k - 1}")
        if output is None:
            return self
        if isinstance(output, np.ndarray) and output.shape != (n,):
            raise RankingError(f"output has {len(output)} entries, the attributions have {n} rows")
        if not self.has_outputs:
            return self._said_to_be_of(output)
        place = np.array([self._place(each) for each in np.atleast_1d(output).tolist()], dtype=np.intp)
        values = self.values[np.arange(n), :, np.broadcast_to(place, n)][:, :, None]
        return replace(self, values=values, output_names=None, output=output if k > 1 else self.output)

    def _said_to_be_of(self, output: Output) -> Attributions:
        """The same attributions, of one output, which the user says to be this one."""
        if self.output is not None and not np.array_equal(self.output, output):
            raise RankingError(
                f"output={shown(output)}, but the attributions are of output {shown(self.output)}; leave "
                "output out, or pass those of the other output"
            )
        return replace(self, output=output)

    def _place(self, output: int | str) -> int:
        k, names = self.n_outputs, self.output_names
        if isinstance(output, str):
            if names is None or output not in names:
                have = f"have the outputs {format_items(names)}" if names else "have no names of outputs"
                raise RankingError(
                    f"output={shown(output)} does not exist; the attributions {have}; pass a position "
                    f"(0 to {k - 1}), or give the attributions of all outputs to explainer.pgi2, which "
                    "takes those of its own output"
                )
            return names.index(output)
        if not 0 <= output < k:
            raise RankingError(f"output={output} does not exist; the attributions have {k} (0 to {k - 1})")
        return output


def read_attributions(values: Any, names: Sequence[str] | None) -> Attributions:
    """Attributions in any accepted form as arrays; RankingError if they are not finite numbers."""
    known = None if names is None else tuple(map(str, names))
    index = backend = output = output_names = None
    if is_explanation(values):
        array, known = _from_explanation(values, known)
        output, output_names = _outputs_of(values)
    elif isinstance(values, np.ndarray | list | tuple):
        array = _stacked(values)
        if isinstance(values, np.ndarray) and array.ndim == 3 and known is None:
            _check_outputs_are_last(array)
    else:
        array, known, index, backend = _from_frame(values, known)
    folded = array.ndim == 2
    array = _by_output(array, None if known is None else len(known))
    if known is not None and array.shape[1] == len(known) + 1:
        array = array[:, :-1]  # pred_contribs: the bias is last
    if known is not None and array.shape[1] != len(known):
        raise RankingError(
            f"the attributions have {array.shape[1]} columns, expected {len(known)} for {format_items(known)}"
        )
    if output_names is not None and len(output_names) != array.shape[2]:
        output_names = None
    one = array.shape[2] == 1
    return Attributions(
        array, known, index, backend, output_names, output if one else None, has_outputs=not (one and folded)
    )


def is_explanation(values: Any) -> bool:
    """True for a shap.Explanation. It is recognised by its attributes: importing shap takes seconds."""
    return hasattr(values, "values") and hasattr(values, "base_values")


def summed_over(attributions: Attributions, groups: Any) -> Attributions:
    """The signed sums over groups of features, given as a user gives them or as `Units`."""
    names, d = attributions.names, attributions.values.shape[1]
    units = groups if isinstance(groups, Units) else read_units(groups, d, names)
    if len(units.of_features) != d:
        raise RankingError(f"the attributions have {d} columns, expected {len(units.of_features)}")
    return replace(attributions, values=units.sums(attributions.values), names=units.named(names))


def _from_explanation(e: Any, known: tuple[str, ...] | None) -> tuple[FloatArray, tuple[str, ...] | None]:
    array = _floats(e.values)
    if isinstance(e.feature_names, str):
        raise RankingError(
            f"the Explanation holds only the feature {e.feature_names!r}; pass one with all features"
        )
    data = getattr(e, "data", None)
    if (np.ndim(data) if data is not None else array.ndim) == 1:
        array = array[None]  # one row, e.g. explanation[0]
    if known is None and e.feature_names is not None:
        known = tuple(map(str, e.feature_names))
    return array, known


def _outputs_of(explanation: Any) -> tuple[Output | None, tuple[str, ...] | None]:
    """The output that was cut out of an Explanation, as by explanation[..., 1], or the names of all of them.

    shap calls them Output 0, Output 1, ... if it knows no names.
    """
    found = getattr(explanation, "output_names", None)
    if isinstance(found, str):
        numbered = re.fullmatch(r"Output (\d{1,9})", found)
        return (int(numbered[1]) if numbered else str(found)), None
    if isinstance(found, list | tuple | np.ndarray) and len(set(map(str, found))) == len(found):
        return None, tuple(map(str, found))
    return None, None


def _stacked(values: Any) -> FloatArray:
    """An array; a list of k arrays (n, d) becomes (n, d, k)."""
    is_outputs = isinstance(values, list | tuple) and len(values) > 0 and np.ndim(values[0]) == 2
    return np.moveaxis(_floats(values), 0, -1) if is_outputs else _floats(values)


def _from_frame(
    frame: Any, known: tuple[str, ...] | None
) -> tuple[FloatArray, tuple[str, ...] | None, Any, str | None]:
    try:
        columns = open_columns(frame)
        array = columns.values(range(columns.n_columns))
    except TableError as error:
        raise RankingError(f"attributions: {error}") from None
    own = None if columns.numbered else columns.names
    if own is None or known is None:
        return array, known or own, columns.index, columns.backend
    place = match_names(known, own, RankingError)
    absent = [name for name in known if name not in place]
    if not absent:  # the rest, such as a bias, is not a feature
        array = array[:, [place[name] for name in known]]
        return array, known, columns.index, columns.backend
    raise RankingError(
        f"the attributions lack {format_items(absent)}; they have {format_items(own)}, "
        f"expected {format_items(known)}"
    )


def _by_output(array: FloatArray, d: int | None) -> FloatArray:
    """The attributions with outputs last, (n, d, k) or (n, d + 1, k)."""
    if array.ndim == 2 and d is not None:
        array = _unfolded(array, d)
    if array.ndim == 3:
        return _outputs_last(array, d)
    if array.ndim == 2:
        return array[:, :, None]
    raise RankingError(
        f"attributions have shape {array.shape}; expected (n, d), or (n, d, k) for k outputs; "
        "pass one row as values[None, :]; an importance for all rows makes one order, "
        "Ranking.from_attributions(values[None, :]).order[0]"
    )


def _unfolded(array: FloatArray, d: int) -> FloatArray:
    """LightGBM's contributions of k outputs, (n, k (d + 1)), reshaped to (n, k, d + 1)."""
    k, rest = divmod(array.shape[1], d + 1)
    return array.reshape(len(array), k, d + 1) if k > 1 and rest == 0 and array.shape[1] != d else array


def _outputs_last(array: FloatArray, d: int | None) -> FloatArray:
    """Attributions with outputs last, (n, d, k), as shap has them; XGBoost's are (n, k, d + 1)."""
    if d is None:
        return array
    as_shap = array.shape[1] in (d, d + 1)
    as_xgboost = array.shape[2] == d + 1
    if as_shap and as_xgboost:
        raise RankingError(
            f"attributions of shape {array.shape} may be (n, d, k) or XGBoost's (n, k, d + 1) for "
            f"d={d}; pass the chosen output as (n, d)"
        )
    return np.swapaxes(array, 1, 2) if as_xgboost else array


def _check_outputs_are_last(array: FloatArray) -> None:
    """RankingError if an array could be XGBoost's (n, k, d + 1); called if d is not known.

    That is so if its shape is (n, m, m + 1), or if the last entries, where XGBoost has the bias, are the same
    in all rows.
    """
    bias = array[:, :, -1:]
    same = len(array) > 1 and bias.size > 0 and bool((bias == bias[0]).all() and bias.any())
    if same or array.shape[2] == array.shape[1] + 1:
        raise RankingError(
            f"attributions of shape {array.shape} may be (n, d, k) for k outputs, or XGBoost's pred_contribs "
            "(n, k, d + 1) with the bias last; pass feature_names=, which tell what d is"
        )


def _floats(values: Any) -> FloatArray:
    for part in values if isinstance(values, list | tuple) else [values]:
        if np.ma.is_masked(part):
            raise RankingError(
                f"{int(np.ma.getmaskarray(part).sum())} of the attributions are masked and cannot be ranked; "
                "fill them, e.g. by values.filled(0), or leave their rows out"
            )
    try:
        array = np.asarray(values)
    except ValueError:
        raise RankingError("the rows of the attributions differ in length; expected (n, d)") from None
    if array.dtype.kind == "O":
        try:
            return np.array(array, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise RankingError(f"attributions are not numbers: {error}") from None
    if array.dtype.kind not in "iuf":
        raise RankingError(f"attributions have dtype {array.dtype}, expected numbers")
    return array.astype(np.float64)


def check_finite(array: FloatArray, names: Sequence[str]) -> None:
    """RankingError if one of the attributions (n, d) is NaN or infinite."""
    bad = ~np.isfinite(array)
    if bad.any():
        r, j = np.argwhere(bad)[0]
        raise RankingError(
            f"the attribution in row {r} of feature {names[j]!r} is {array[r, j]} "
            f"({int(bad.sum())} are NaN or infinite); they cannot be ranked: fill with 0 if the method "
            "leaves features out, as LIME does"
        )
