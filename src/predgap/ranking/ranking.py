"""A `Ranking` holds the features of each row, most important first; gaps or attributions make it.

`ranking_order` turns a ranking that a user gives, in any form, into indices of the model's features.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.outputs import OutputsOfRows, read_output
from predgap._inputs.subsets import Units, match_names
from predgap._inputs.tables import feature_values, labels_at, matching_rows, repeated_labels, to_native
from predgap._tables import html_table, text_table
from predgap._text import count, format_items, names_or_default, shown
from predgap._typing import FloatArray, IndexArray
from predgap.errors import DependencyError, RankingError
from predgap.ranking.reading import (
    Attributions,
    bias_hint,
    check_features,
    check_finite,
    check_places,
    given_order,
    integers,
    open_order,
    read_attributions,
    summed_over,
)


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """The k most important of d features for each of n rows, most important first.

    A full ranking has k = d places. A partial ranking has fewer, and does not order the other features.
    `Explainer.rank` returns one. Use `Ranking.from_attributions` to make one from SHAP values or other
    attributions, and score it with `Explainer.pgi2`. All arguments but `order` are keyword-only, and the
    arrays of a ranking are read-only.

    Parameters
    ----------
    order : (n, k) integers
        `order[r, p]` is the index of the feature at place p of row r, most important first. Features are
        numbered 0 ... d - 1, and each occurs at most once in a row.
    scores : (n, d) floats, or None, default=None
        `scores[r, j]` is the score of feature j in row r (not of the feature at place j). NaN if it has none.
    feature_names : sequence of d strings, or None, default=None
        The names of the features, in the order of their indices.
    n_features : int, or None, default=None
        The number of features, d. None takes it from `feature_names`, else from `scores`; without either, the
        ranking is full: d = k.
    index : n row labels, or None, default=None
        The labels of the rows, for `to_frame`, and to match them with those of X. None is 0, 1, ..., and rows
        are then in the order of X.
    backend : "pandas", "polars", "pyarrow" or None, default=None
        The library whose frame `to_frame` returns. None takes the first one that is installed.
    feature_space : str, or None, default=None
        If the features are not the columns of X, which ones they are: for some pipelines e.g. "after PCA".
    method : "greedy", "single", "attributions", another str, or None, default=None
        How the ranking was built; None if unknown.
    estimator : "exact", "bounded", "pruned", "qmc", "mc", or None, default=None
        How the gaps behind the ranking were obtained; None if it was not built from gaps.
    output : int, str, (n,) array of them, or None, default=None
        The output that the ranking is about, if the model has several: its position, the label of its class,
        or one of them for each row. A ranking of another output than that of the explainer is not scored.
        None if there is one output, or if it is not known.
    confidence : (n, k) floats, or None, default=None
        `confidence[r, p]` is how certain place p of row r is, given the places before it. 1: an error bound
        proves it, or the gaps are exactly equal and the lower index came first. NaN: the error bound is too
        large to prove it. Between 0 and 1: the estimated probability that it is right, where samples decided.
        None if nothing is known.

    Examples
    --------
    All places:

    >>> ranking = Ranking([[2, 0, 1]], feature_names=("age", "sex", "bmi"))
    >>> ranking.ranks
    array([[2, 3, 1]])
    >>> ranking.top(2)
    array([['bmi', 'age']], dtype='<U3')

    Only the first two places:

    >>> ranking = Ranking([[2, 0]], feature_names=("age", "sex", "bmi"))
    >>> ranking
    Ranking of the first 2 of 3 features for 1 row
    row  place 1  place 2
      0  bmi      age
    >>> ranking.ranks
    array([[2, 0, 1]])
    """

    order: IndexArray
    _: KW_ONLY
    scores: FloatArray | None = None
    feature_names: tuple[str, ...] | None = None
    n_features: int = cast(int, None)  # None may be passed; it is never found in a Ranking
    index: Any = None
    backend: str | None = None
    feature_space: str | None = None
    method: str | None = None
    estimator: str | None = None
    output: Any = None
    confidence: FloatArray | None = None

    def __post_init__(self) -> None:
        order = integers(self.order, "order")
        if order.ndim != 2:
            raise RankingError(f"order has shape {order.shape}, expected (n, k)")
        scores, confidence = (
            None if of is None else np.array(of, dtype=np.float64) for of in (self.scores, self.confidence)
        )
        names = None if self.feature_names is None else _names(self.feature_names)
        d = _known_n_features(self.n_features, names, scores)
        more = "; if there are more features than places, pass n_features" if d is None else ""
        d = order.shape[1] if d is None else d
        check_places(order.shape[1], d, "order")
        check_features(order, d, more)
        if names is not None and len(names) != d:
            raise RankingError(f"{len(names)} feature names ({format_items(names)}) for {d} features")
        _check_shape("scores", scores, (len(order), d))
        _check_shape("confidence", confidence, order.shape)
        if self.index is not None and len(self.index) != len(order):
            raise RankingError(f"{len(self.index)} row labels for {count(len(order), 'row')}")
        output = None if self.output is None else read_output(self.output, RankingError)
        if isinstance(output, np.ndarray) and len(output) != len(order):
            raise RankingError(f"output has {len(output)} entries for {count(len(order), 'row')}")
        for name, array in (("order", order), ("scores", scores), ("confidence", confidence)):
            object.__setattr__(self, name, None if array is None else _read_only(array))
        object.__setattr__(self, "feature_names", names)
        object.__setattr__(self, "n_features", d)
        object.__setattr__(self, "output", output)

    @staticmethod
    def from_attributions(
        values: Any,
        output: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        top: int | None = None,
        groups: Any = None,
    ) -> Ranking:
        """A ranking of the features by the absolute value of their attributions, such as SHAP values.

        Use it to score the rankings of other methods with `Explainer.pgi2`. Of two features with the same
        absolute value, the one with the lower index comes first.

        Parameters
        ----------
        values : (n, d) array or frame, (n, d, k) array, or shap.Explanation
            One attribution per row and feature, and for (n, d, k) per output. A frame's column names become
            the feature names. A list of k arrays (n, d), as older shap versions return, is read as k outputs.
        output : int, str, (n,) array of them, or None, default=None
            Which of the k outputs to take; needed if there are several. A position; the name of an output, if
            a shap.Explanation has names; or one of them for each row. The ranking remembers it.
        feature_names : sequence of d strings, or None, default=None
            With them d is known, so that d + 1 columns are recognised as XGBoost's `pred_contribs`, whose
            last column is the bias, and (n, k, d + 1), or LightGBM's (n, k (d + 1)), as that of k outputs.
            Without them, what may be XGBoost's (n, k, d + 1) is refused.
        top : int, or None, default=None
            How many places to keep, from 1 to d; None for all.
        groups : dict of names and features, or None, default=None
            Groups as those of `Explainer`: attributions are summed over each, and groups are ranked.

        Returns
        -------
        Ranking
            `scores` are the absolute values of all features; `method` is "attributions", and `output` the
            output that was taken.

        Raises
        ------
        RankingError
            If the values are not numbers, are NaN or infinite, or do not fit the names or the output.

        Examples
        --------
        >>> Ranking.from_attributions([[0.5, -2.0, 0.5]]).order
        array([[1, 0, 2]])
        >>> Ranking.from_attributions([[0.5, -2.0, 0.5]], top=1).order
        array([[1]])
        """
        chosen = None if output is None else read_output(output, RankingError)
        read = read_attributions(values, feature_names).of(chosen)
        return by_size(read if groups is None else summed_over(read, groups), top)

    @property
    def names(self) -> tuple[str, ...]:
        """The d feature names: those that were given, or else f0, f1, ..."""
        return names_or_default(self.n_features, self.feature_names)

    @property
    def ranks(self) -> IndexArray:
        """The place of each feature, (n, d). `ranks[r, j]` is 1 if feature j is the most important one of row
        r, 2 if it is the second, and so on; 0 if a partial ranking has no place for it."""
        ranks = np.zeros((len(self), self.n_features), dtype=np.intp)
        places = np.arange(1, self.order.shape[1] + 1)
        np.put_along_axis(ranks, self.order, np.broadcast_to(places, self.order.shape), axis=1)
        return ranks

    def __len__(self) -> int:
        return len(self.order)

    def __repr__(self) -> str:
        return text_table(*shown_ranking(self))

    def _repr_html_(self) -> str:
        """The first rows and places, as Jupyter shows them."""
        return html_table(*shown_ranking(self))

    def __getitem__(self, rows: Any) -> Ranking:
        """The ranking of some rows: by a slice, indices, a boolean mask, or one index (for one row)."""
        kept = np.atleast_1d(np.arange(len(self))[rows])
        if kept.ndim != 1:
            raise RankingError(f"a ranking is indexed by rows only, not by {shown(rows)}")
        index = labels_at(self.index, kept)
        scores, confidence = (None if of is None else of[kept] for of in (self.scores, self.confidence))
        output = self.output[kept] if isinstance(self.output, np.ndarray) else self.output
        fields = {"scores": scores, "index": index, "confidence": confidence, "output": output}
        return replace(self, order=self.order[kept], **fields)

    def top(self, k: int) -> NDArray[np.str_]:
        """The names of the k most important features of each row, most important first.

        Parameters
        ----------
        k : int
            From 1 to the number of places that the ranking has.

        Returns
        -------
        (n, k) array of strings

        Examples
        --------
        >>> Ranking([[2, 0, 1]], feature_names=("age", "sex", "bmi")).top(2)
        array([['bmi', 'age']], dtype='<U3')
        """
        names = np.array(self.names, dtype=np.str_)
        return names[self.order[:, : _places("k", k, self.order.shape[1], "the number of places")]]

    def to_frame(self) -> Any:
        """The ranking as a frame with n * k rows, one for each row and place.

        Returns
        -------
        frame
            With the columns `row` (the label of the row), `place` (1 is the most important), `feature` (its
            name), `score` (of the feature, NaN if there is none) and, if the ranking has it, `confidence`. It
            is a frame of the library `backend`.

        Examples
        --------
        >>> ranking = Ranking([[1, 0]], scores=[[0.2, 0.7]], feature_names=("age", "bmi"), backend="pandas")
        >>> print(ranking.to_frame().to_string(index=False))
         row  place feature  score
           0      1     bmi    0.7
           0      2     age    0.2
        """
        n, k = self.order.shape
        scores = np.full((n, self.n_features), np.nan) if self.scores is None else self.scores
        columns = {
            "row": repeated_labels(range(n) if self.index is None else self.index, k, self.backend),
            "place": np.tile(np.arange(1, k + 1), n),
            "feature": np.array(self.names, dtype=np.str_)[self.order].ravel(),
            "score": np.take_along_axis(scores, self.order, axis=1).ravel(),
        }
        if self.confidence is not None:
            columns["confidence"] = self.confidence.ravel()
        return to_native(columns, self.backend)

    def to_shap(self, X: Any = None) -> Any:
        """The scores as a `shap.Explanation`, for the plots of shap.

        What the values mean depends on how the ranking was built. Greedy and optimal: the gain of each
        feature at its place, by how much the gap grows when it is perturbed in addition to those before it.
        Shapley: its Shapley value of the gap. These add up to the gap of all features, so that
        `shap.plots.waterfall` ends there. Single: the gap of each feature alone; these do not add up.
        Attributions: the absolute values by which they were ranked, without their signs. Values of gaps are
        in squared units of the prediction, and say how far it moves, not in which direction. They are no SHAP
        values of the prediction, which shap's plots call f(x): read it as the sum of the values.

        Parameters
        ----------
        X : (n, d) NumPy array, pandas or Polars DataFrame, PyArrow Table, or None, default=None
            The rows that were ranked. Their values are `data` of the explanation, which plots show beside the
            names and as colours. Named columns are matched to the features.

        Returns
        -------
        shap.Explanation
            With `values` (n, d), the scores, 0 for a feature that has none; `base_values` (n,), zeros: the
            gap when nothing is perturbed; `data` if X is given; and `feature_names`.

        Raises
        ------
        RankingError
            If the ranking has no scores.
        TableError
            If X does not fit the ranking.
        DependencyError
            If shap is not installed.

        Examples
        --------
        >>> ranking = Ranking([[1, 0]], scores=[[0.2, 0.7]], feature_names=("age", "bmi"))
        >>> explanation = ranking.to_shap([[63.0, 31.5]])
        >>> explanation.values, explanation.data, explanation.feature_names
        (array([[0.2, 0.7]]), array([[63. , 31.5]]), ['age', 'bmi'])
        """
        return to_explanation(self, X)

    def agreement(self, other: Any, k: int) -> float:
        """The share of rows whose k most important features are the same in both rankings, in any order.

        Parameters
        ----------
        other : Ranking, or another form of a ranking that `Explainer.pgi2` takes
            The ranking to compare with, of the same rows. If both have labels of rows, they are matched by
            them.
        k : int
            How many places to compare; both rankings must have k or more.

        Returns
        -------
        float
            From 0 to 1; NaN if there are no rows.

        Examples
        --------
        >>> Ranking([[0, 1, 2], [0, 1, 2]]).agreement(Ranking([[1, 0, 2], [0, 2, 1]]), k=2)
        0.5
        """
        if isinstance(other, Ranking) and other.n_features > self.n_features:
            return other.agreement(self, k)  # names are looked up among the features of the larger one
        theirs = ranking_order(other, len(self), self.n_features, self.feature_names, index=self.index)
        most = min(self.order.shape[1], theirs.shape[1])
        places = _places("k", k, most, "the places that both rankings have")
        if len(self) == 0:
            return float("nan")
        mine, yours = np.sort(self.order[:, :places], axis=1), np.sort(theirs[:, :places], axis=1)
        return float(np.mean((mine == yours).all(axis=1)))


def made_ranking(**fields: Any) -> Ranking:
    """A ranking of arrays that are known to be sound, and belong to nobody else: they are not checked again.

    All fields of `Ranking` must be given.
    """
    made = object.__new__(Ranking)
    for name, value in fields.items():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
        object.__setattr__(made, name, value)
    return made


def by_size(attributions: Attributions, top: int | None) -> Ranking:
    """The ranking by the absolute value of the attributions of one output."""
    size = np.abs(attributions.values[:, :, 0])
    check_finite(attributions.values[:, :, 0], names_or_default(size.shape[1], attributions.names))
    order = np.argsort(-size, axis=1, kind="stable")
    if top is not None:
        order = order[:, : _places("top", top, size.shape[1], "the number of features")]
    return Ranking(
        order,
        scores=size,
        feature_names=attributions.names,
        index=attributions.index,
        backend=attributions.backend,
        method="attributions",
        output=attributions.output,
    )


# ---- small pieces --------------------------------------------------------------------------------


def _known_n_features(
    given: int | None, names: tuple[str, ...] | None, scores: FloatArray | None
) -> int | None:
    """The number of features: as given, else from the names, else from the scores; else None."""
    if given is not None:
        if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 0:
            raise RankingError(f"n_features={shown(given)}, expected a whole number from 0")
        return int(given)
    if names is not None:
        return len(names)
    return scores.shape[1] if scores is not None and scores.ndim == 2 else None


def _names(names: Sequence[str]) -> tuple[str, ...]:
    given = (names,) if isinstance(names, str) else tuple(map(str, names))
    if len(set(given)) < len(given):
        raise RankingError(f"feature names repeat: {format_items(given)}")
    return given


def _check_shape(what: str, array: FloatArray | None, expected: tuple[int, ...]) -> None:
    if array is not None and array.shape != expected:
        raise RankingError(f"the shape of {what} is {array.shape}, expected {expected}")


def _places(name: str, value: Any, most: int, meaning: str) -> int:
    """A number of places from 1 to `most`; `meaning` says in the error message what `most` is."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= most:
        raise RankingError(f"{name}={shown(value)}, expected an integer from 1 to {most}, {meaning}")
    return int(value)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array = np.array(array, order="C")
    array.setflags(write=False)
    return array


# ------------------------------------------------------------------------------------------------------------
# People see the first rows of a ranking as a table, and shap sees its scores as an Explanation.

_ROWS: Final = 5
_PLACES: Final = 5


def shown_ranking(ranking: Ranking) -> tuple[list[str], list[list[Any]], str]:
    """The head, the rows and the caption of a table with the first rows and places."""
    n, k = ranking.order.shape
    n_rows, n_places = min(n, _ROWS), min(k, _PLACES)
    labels = range(n) if ranking.index is None else ranking.index
    names = ranking.names
    more = ["…"] if k > n_places else []
    head = ["row", *(f"place {place}" for place in range(1, n_places + 1)), *more]
    rows = [[labels[r], *(names[j] for j in ranking.order[r, :n_places]), *more] for r in range(n_rows)]
    features = f"{k}" if k == ranking.n_features else f"the first {k} of {ranking.n_features}"
    notes = ", ".join(note for note in (ranking.method, ranking.estimator, ranking.feature_space) if note)
    caption = f"Ranking of {features} features for {count(n, 'row')}" + (f" ({notes})" if notes else "")
    if n > n_rows:
        caption += f"; the first {n_rows} rows"
    return (head, rows, caption) if rows and k else ([], [], caption)


def to_explanation(ranking: Ranking, X: Any) -> Any:
    """The answer of `Ranking.to_shap`."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of shap about other libraries, as it is imported
            from shap import Explanation
    except ImportError:
        raise DependencyError("to_shap needs shap; try: pip install shap") from None
    if ranking.scores is None:
        raise RankingError("the ranking has no scores to show; pass Ranking(order, scores=...)")
    n, d = ranking.scores.shape
    data = None
    if X is not None:
        columns = feature_values(X, n, d, ranking.feature_names, ranking.index)
        objects = any(column.dtype == object for column in columns)
        data = np.empty((n, d), dtype=object if objects else np.float64)
        for j, column in enumerate(columns):
            data[:, j] = column
    return Explanation(
        values=np.nan_to_num(ranking.scores, nan=0.0),
        base_values=np.zeros(n),
        data=data,
        feature_names=list(ranking.names),
    )


# ------------------------------------------------------------------------------------------------------------
# Rankings that users give, in any form, become indices of the model's features.


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
    found = ranking if isinstance(ranking, Ranking) else open_order(ranking, names)
    if found is None:
        found = _ranked(ranking, explained, units)
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
    """The advice in a message if a ranking has another number of rows than X."""
    if n_ranked == 1:
        return "; to use one ranking for all rows pass it as (k,), e.g. order[0]"
    if n_ranked > n_rows and hasattr(ranking, "loc"):
        return "; take those of X, e.g. attributions.loc[X.index]"
    return ""


def _ranked(values: Any, explained: OutputsOfRows | None, units: Units | None) -> Ranking:
    """The ranking by attributions of any form."""
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
