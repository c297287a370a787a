"""Rankings of features, most important first: from attributions, to frames, and against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predgap.errors import RankingError, SubsetError, TableError
from predgap.subsets import name_positions
from predgap.tables import listing, names_or_default, open_columns, to_native

IndexArray = NDArray[np.intp]
FloatArray = NDArray[np.float64]

_ATTRIBUTIONS = "these look like attributions; use Ranking.from_attributions"


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """One ranking of the d features for each of n rows.

    Parameters
    ----------
    order : (n, d) integers
        `order[r, p]` is the feature at place p of row r, most important first.
    scores : (n, d) floats, or None
        `scores[r, j]` belongs to feature j, not to a place.
    feature_names : d strings, or None
    index : n row labels, or None for 0, 1, ...
    backend : "pandas", "polars", "pyarrow" or None
        What `to_frame` returns; None takes the first that is installed.
    space : str, or None
        Where the features live, if not in the columns of X: "after StandardScaler" in a pipeline.
    estimator : "exact", "bounded", "qmc", or None
        How the gaps behind the ranking were obtained; None for rankings from elsewhere.
    sureness : (n, d) floats, or None
        `sureness[r, p]`: how sure place p of row r is, given the places before it. For "qmc" it is the
        confidence that the feature's gap is larger than that of its closest rival; for "bounded" it is 1
        where bounds prove the place, else 0.5. None if there is nothing to doubt ("exact"), or nothing known.

    Examples
    --------
    >>> ranking = Ranking([[2, 0, 1]], feature_names=("age", "sex", "bmi"))
    >>> ranking.ranks
    array([[2, 3, 1]])
    >>> ranking.top(2)
    array([['bmi', 'age']], dtype='<U3')
    """

    order: IndexArray
    scores: FloatArray | None = None
    feature_names: tuple[str, ...] | None = None
    index: Any = None
    backend: str | None = None
    space: str | None = None
    estimator: str | None = None
    sureness: FloatArray | None = None

    def __post_init__(self) -> None:
        order = _integers(self.order, "order")
        if order.ndim != 2:
            raise RankingError(f"order has shape {order.shape}, expected (n, d)")
        check_permutations(order, order.shape[1])
        object.__setattr__(self, "order", _read_only(order))
        for name in ("scores", "sureness"):
            if getattr(self, name) is not None:
                array = _like_order(getattr(self, name), order.shape, name)
                object.__setattr__(self, name, _read_only(array))
        if self.feature_names is not None:
            object.__setattr__(self, "feature_names", _names(self.feature_names, order.shape[1]))
        if self.index is not None and len(self.index) != len(order):
            raise RankingError(f"{len(self.index)} row labels for {len(order)} rows")

    @classmethod
    def from_attributions(
        cls, values: Any, output: int | None = None, *, feature_names: Sequence[str] | None = None
    ) -> Ranking:
        """The ranking by |value|; ties go to the lower index. `scores` are the |values|.

        Parameters
        ----------
        values : (n, d) array or frame, (n, d, k) array, or shap.Explanation
            A frame's column names become the feature names. A list of k arrays (n, d), as older shap
            versions return, is read as k outputs.
        output : int, or None
            Which of k outputs; needed when there are several.
        feature_names : d strings, or None
            With them d is known, so that d + 1 columns are recognised as XGBoost's `pred_contribs`, whose
            last column is the bias, and (n, k, d + 1), or LightGBM's (n, k (d + 1)), as that of k outputs.

        Examples
        --------
        >>> Ranking.from_attributions([[0.5, -2.0, 0.5]]).order
        array([[1, 0, 2]])
        """
        read = _read_attributions(values, output, feature_names)
        size = np.abs(read.values)
        order = np.argsort(-size, axis=1, kind="stable")
        return cls(order, size, read.names, read.index, read.backend)

    @property
    def names(self) -> tuple[str, ...]:
        """Feature names to show: those given, or f0, f1, ..."""
        return names_or_default(self.order.shape[1], self.feature_names)

    @property
    def ranks(self) -> IndexArray:
        """(n, d) `ranks[r, j]` is the place of feature j in row r; 1 is the most important."""
        out = np.empty_like(self.order)
        places = np.arange(1, self.order.shape[1] + 1)
        np.put_along_axis(out, self.order, np.broadcast_to(places, out.shape), axis=1)
        return out

    def __len__(self) -> int:
        return len(self.order)

    def __repr__(self) -> str:
        n, d = self.order.shape
        notes = ", ".join(note for note in (self.estimator, self.space) if note)
        return f"Ranking of {d} features for {n} rows" + (f" ({notes})" if notes else "")

    def __getitem__(self, rows: Any) -> Ranking:
        """The ranking of some rows: a slice, indices, a mask, or one index (a ranking of one row)."""
        kept = np.atleast_1d(np.arange(len(self))[rows])
        if kept.ndim != 1:
            raise RankingError(f"a ranking is indexed by rows only, not by {rows!r}")
        index = self.index
        if index is not None:
            index = index[kept] if hasattr(index, "dtype") else [index[r] for r in kept]
        scores, sureness = (None if of is None else of[kept] for of in (self.scores, self.sureness))
        return replace(self, order=self.order[kept], scores=scores, index=index, sureness=sureness)

    def top(self, k: int) -> NDArray[np.str_]:
        """(n, k) names of the k most important features, most important first."""
        names = np.array(self.names, dtype=np.str_)
        return names[self.order[:, : _places(k, self.order.shape[1])]]

    def to_frame(self) -> Any:
        """A tidy frame of n * d rows: `row` (its label), `place` (from 1), `feature`, `score`; if known,
        `sureness`."""
        n, d = self.order.shape
        scores = np.full((n, d), np.nan) if self.scores is None else self.scores
        columns = {
            "row": _repeated(range(n) if self.index is None else self.index, d, self.backend),
            "place": np.tile(np.arange(1, d + 1), n),
            "feature": np.array(self.names, dtype=np.str_)[self.order].ravel(),
            "score": np.take_along_axis(scores, self.order, axis=1).ravel(),
        }
        if self.sureness is not None:
            columns["sureness"] = self.sureness.ravel()
        return to_native(columns, self.backend)

    def agreement(self, other: Any, k: int) -> float:
        """Share of rows whose k most important features are the same set; NaN without rows.

        `other` is a Ranking or anything else that `ranking_order` accepts.

        Examples
        --------
        >>> Ranking([[0, 1, 2], [0, 1, 2]]).agreement(Ranking([[1, 0, 2], [0, 2, 1]]), k=2)
        0.5
        """
        n, d = self.order.shape
        places = _places(k, d)
        theirs = ranking_order(other, n, d, self.feature_names)
        if n == 0:
            return float("nan")
        mine, yours = np.sort(self.order[:, :places], axis=1), np.sort(theirs[:, :places], axis=1)
        return float(np.mean((mine == yours).all(axis=1)))


def ranking_order(
    ranking: Any, n_rows: int, n_features: int, feature_names: Sequence[str] | None = None
) -> IndexArray:
    """The ranking as features of the model, (n, d), most important first.

    Parameters
    ----------
    ranking : one of
        - a Ranking of n rows. Its names are matched to the model's in any order; if either side has no
          names, or the ranking has the defaults f0, f1, ..., it goes by position. A Ranking of one row is
          not repeated: pass `ranking.order[0]` to use it for all rows
        - integers, (d,) for all rows or (n, d)
        - names, (d,) for all rows or (n, d)

    Examples
    --------
    >>> ranking_order(["bmi", "age"], 2, 2, ("age", "bmi"))
    array([[1, 0],
           [1, 0]])
    """
    if isinstance(ranking, Ranking):
        order = _aligned(ranking, n_features, feature_names)
    else:
        order = _given_order(ranking, n_features, names_or_default(n_features, feature_names))
        check_permutations(np.atleast_2d(order), n_features)
        if order.ndim == 1:
            return np.ascontiguousarray(np.broadcast_to(order, (n_rows, n_features)))
    if len(order) != n_rows:
        once = "; to use one ranking for all rows pass it as (d,), e.g. order[0]" if len(order) == 1 else ""
        raise RankingError(f"the ranking has {len(order)} rows, X has {n_rows}{once}")
    return np.ascontiguousarray(order)


def check_permutations(order: IndexArray, n_features: int) -> None:
    """RankingError unless each row of `order` (n, n_features) holds 0 ... n_features - 1 once."""
    wrong = (np.sort(order, axis=1) != np.arange(n_features)).any(axis=1)
    if not wrong.any():
        return
    row = int(np.flatnonzero(wrong)[0])
    found = order[row].tolist()
    outside = sorted({j for j in found if not 0 <= j < n_features})
    repeated = sorted({j for j in found if found.count(j) > 1} - set(outside))
    missing = sorted(set(range(n_features)) - set(found))
    parts = [
        f"{verb} {listing(which)}"
        for verb, which in (("holds", outside), ("repeats", repeated), ("lacks", missing))
        if which
    ]
    raise RankingError(
        f"row {row} is not a permutation of the features 0 ... {n_features - 1}: it {', '.join(parts)}"
    )


# ---- rankings that are given ---------------------------------------------------------------------


def _aligned(ranking: Ranking, n_features: int, feature_names: Sequence[str] | None) -> IndexArray:
    d = ranking.order.shape[1]
    if d != n_features:
        raise RankingError(_wrong_width(d, n_features))
    mine = ranking.feature_names
    if mine is None or feature_names is None or mine == tuple(feature_names):
        return ranking.order
    if sorted(mine) == sorted(feature_names):
        place = {name: j for j, name in enumerate(feature_names)}
        return np.array([place[name] for name in mine], dtype=np.intp)[ranking.order]
    if mine == names_or_default(d, None):
        return ranking.order
    raise RankingError(
        f"the ranking is of the features {listing(mine)}; the model has {listing(feature_names)}"
    )


def _given_order(ranking: Any, n_features: int, names: Sequence[str]) -> IndexArray:
    if hasattr(ranking, "base_values"):
        raise RankingError(f"the ranking is a {type(ranking).__name__}: {_ATTRIBUTIONS}")
    array = _plain_array(ranking)
    if array.ndim not in (1, 2):
        raise RankingError(
            f"the ranking has shape {array.shape}; expected ({n_features},) for all rows or (n, {n_features})"
        )
    if array.shape[-1] != n_features:
        raise RankingError(_wrong_width(array.shape[-1], n_features))
    if array.size and all(isinstance(name, str) for name in array.ravel().tolist()):
        return _from_names(array, names)
    return _integers(array, "the ranking")


def _plain_array(ranking: Any) -> NDArray[Any]:
    try:
        array = np.asarray(ranking)
        if array.dtype.kind in "UST" and not isinstance(ranking, np.ndarray):
            array = np.asarray(ranking, dtype=object)  # integers beside names must stay integers
    except ValueError:
        raise RankingError("the rows of the ranking differ in length; expected (n, d)") from None
    return array


def _from_names(array: NDArray[Any], names: Sequence[str]) -> IndexArray:
    try:
        places = name_positions([str(name) for name in array.ravel().tolist()], names)
    except SubsetError as error:
        raise RankingError(str(error)) from None
    return np.array(places, dtype=np.intp).reshape(array.shape)


def _integers(values: Any, what: str) -> IndexArray:
    array = _plain_array(values)
    if array.dtype.kind == "f" and array.size:
        raise RankingError(f"{what} has dtype {array.dtype}: {_ATTRIBUTIONS}")
    if array.dtype.kind not in "iu" and array.size:
        raise RankingError(f"{what} has dtype {array.dtype}; expected integers, or names of one kind")
    return array.astype(np.intp)


def _wrong_width(found: int, n_features: int) -> str:
    message = f"the ranking has {found} places for {n_features} features"
    if found == n_features + 1:
        message += (
            "; one too many looks like pred_contribs with its bias column: pass "
            "Ranking.from_attributions(values, feature_names=...)"
        )
    return message


# ---- attributions --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Attributions:
    values: FloatArray  # (n, d), finite
    names: tuple[str, ...] | None
    index: Any = None
    backend: str | None = None


def _read_attributions(values: Any, output: int | None, names: Sequence[str] | None) -> _Attributions:
    known = None if names is None else tuple(map(str, names))
    index = backend = None
    if hasattr(values, "values") and hasattr(values, "base_values"):
        array, known = _from_explanation(values, known)
    elif isinstance(values, np.ndarray | list | tuple):
        array = _stacked(values)
    else:
        array, known, index, backend = _from_frame(values, known)
    array = _one_output(array, output, None if known is None else len(known))
    if known is not None and array.shape[1] == len(known) + 1:
        array = array[:, :-1]  # pred_contribs: the bias is last
    if known is not None and array.shape[1] != len(known):
        raise RankingError(
            f"the attributions have {array.shape[1]} columns, expected {len(known)} for {listing(known)}"
        )
    _check_finite(array, names_or_default(array.shape[1], known))
    return _Attributions(array, known, index, backend)


def _from_explanation(e: Any, known: tuple[str, ...] | None) -> tuple[FloatArray, tuple[str, ...] | None]:
    """A shap.Explanation, recognised by its attributes: importing shap takes seconds."""
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
    if set(known) <= set(own):  # the rest, such as a bias, is not a feature
        array = array[:, [own.index(name) for name in known]]
        return array, known, columns.index, columns.backend
    absent = [name for name in known if name not in own]
    raise RankingError(
        f"the attributions lack {listing(absent)}; they have {listing(own)}, expected {listing(known)}"
    )


def _one_output(array: FloatArray, output: int | None, d: int | None) -> FloatArray:
    """(n, d or d + 1) of one output."""
    if array.ndim == 2 and d is not None:
        array = _unfolded(array, d)
    if array.ndim == 3:
        array = _outputs_last(array, d)
    elif array.ndim == 2 and output in (None, 0):
        return array
    elif array.ndim == 2:
        raise RankingError(f"output={output!r}, but attributions of shape {array.shape} have one output (0)")
    else:
        raise RankingError(
            f"attributions have shape {array.shape}; expected (n, d), or (n, d, k) for k outputs; "
            "pass one row as values[None, :]; an importance for all rows makes one order, "
            "Ranking.from_attributions(values[None, :]).order[0]"
        )
    k = array.shape[2]
    if output is None and k != 1:
        raise RankingError(f"attributions for {k} outputs; choose one with output=0 ... output={k - 1}")
    chosen = 0 if output is None else output
    if isinstance(chosen, bool) or not isinstance(chosen, int | np.integer) or not 0 <= chosen < k:
        raise RankingError(f"output={output!r} does not exist; there are {k} (0 to {k - 1})")
    return array[:, :, chosen]


def _unfolded(array: FloatArray, d: int) -> FloatArray:
    """LightGBM's contributions of k outputs, (n, k (d + 1)), as (n, k, d + 1)."""
    k, rest = divmod(array.shape[1], d + 1)
    return array.reshape(len(array), k, d + 1) if k > 1 and rest == 0 and array.shape[1] != d else array


def _outputs_last(array: FloatArray, d: int | None) -> FloatArray:
    """(n, d, k) as shap has it; XGBoost's pred_contribs are (n, k, d + 1)."""
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


def _floats(values: Any) -> FloatArray:
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


def _check_finite(array: FloatArray, names: Sequence[str]) -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        r, j = np.argwhere(bad)[0]
        raise RankingError(
            f"the attribution in row {r} of feature {names[j]!r} is {array[r, j]} "
            f"({int(bad.sum())} are NaN or infinite); they cannot be ranked"
        )


# ---- small pieces --------------------------------------------------------------------------------


def _like_order(values: Any, shape: tuple[int, ...], what: str) -> FloatArray:
    array = np.array(values, dtype=np.float64)
    if array.shape != shape:
        raise RankingError(f"{what} have shape {array.shape}, order has {shape}")
    return array


def _names(names: Sequence[str], d: int) -> tuple[str, ...]:
    given = (names,) if isinstance(names, str) else tuple(map(str, names))
    if len(given) != d:
        raise RankingError(f"{len(given)} feature names ({listing(given)}) for {d} features")
    if len(set(given)) < d:
        raise RankingError(f"feature names repeat: {listing(given)}")
    return given


def _places(k: int, d: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= d:
        raise RankingError(f"k={k!r}, expected an integer from 1 to {d}, the number of features")
    return int(k)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array = np.array(array, order="C")
    array.setflags(write=False)
    return array


def _repeated(labels: Any, times: int, backend: str | None) -> Any:
    """Each label `times` times; a pandas index keeps its dtype (time zones, categories)."""
    if hasattr(labels, "to_flat_index") and backend in (None, "pandas"):
        return labels.to_flat_index().repeat(times)
    return [label for label in labels for _ in range(times)]
