"""Answers: gaps with their errors, rankings, brackets, moments, shares of the variance, and costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from predgap import _core
from predgap._inputs.tables import repeated_labels, to_native
from predgap._tables import ShownAsTable
from predgap._text import count, names_or_default
from predgap._typing import BoolArray, FloatArray, IndexArray, IntArray

METHODS: Final = np.array(_core.METHODS)
"""How a number can be obtained without samples; the place of a word is its code."""

_SHOWN: Final = 5  # rows, places or features in a table

OfRows = TypeVar("OfRows")
"""A dataclass or a tuple of arrays with one entry per row."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GapEstimate(ShownAsTable):
    """Gaps (or PGI², PGU²), how far they may be off, and how they were obtained.

    `Explainer.estimate` and the methods of `Explainer.approximate` return it. All its arrays have the same
    shape: (n,) if there is one number per row, (n, k) for curves.

    Parameters
    ----------
    value : array of floats
        The gaps.
    standard_error : array of floats
        0 if the error is proven ("exact", "bounded"). For "pruned" it was calibrated on many models. For "mc"
        and "qmc" it is estimated from the samples, and too small if the gap comes from rare, large changes
        that few samples hit. If both value and standard error are 0, no sample changed the prediction: draw
        more.
    error_bound : array of floats
        The exact value is proven to lie within `value` ± `error_bound`, up to rounding. 0 for "exact", often
        far larger than the true error for "pruned", infinite for "mc" and "qmc".
    method : array of text
        "exact": computed completely. "bounded": terms were skipped whose total effect is proven to be small.
        "pruned": small terms were skipped, without a proof. "mc", "qmc": random, quasi-random samples.
    n_samples : array of integers
        The number of perturbed rows at which the model was evaluated; 0 unless the method is "mc" or "qmc".

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Uniform
    >>> tree = DecisionTreeRegressor().fit([[0], [1]], [1, 3])
    >>> found = Explainer(tree, Uniform(1.0)).estimate([[0.0]], [0], "bounded", rtol=1e-3)
    >>> found.value.round(6), bool(found.error_bound[0] <= 1e-3), found.standard_error
    (array([1.]), True, array([0.]))
    >>> found
    GapEstimate of 1 row (exact)
    row  value  standard error  error bound  method  samples
      0      1               0            0  exact         0
    """

    value: FloatArray
    standard_error: FloatArray
    error_bound: FloatArray
    method: NDArray[np.str_]
    n_samples: NDArray[np.int64]

    def _table(self) -> tuple[list[str], list[list[Any]], str]:
        """The head, the rows and the caption of a table with the first rows and places; errors of a curve are
        the largest of its row."""
        n, *places = self.value.shape
        few = [f"place {place + 1}" for place in range(min(_SHOWN, places[0]))] if places else ["value"]
        more = ["…"] if places and places[0] > _SHOWN else []
        head = ["row", *few, *more, "standard error", "error bound", "method", "samples"]
        rows = [
            [
                r,
                *np.atleast_1d(self.value[r])[: len(few)],
                *more,
                np.max(self.standard_error[r], initial=0.0),
                np.max(self.error_bound[r], initial=0.0),
                " and ".join(np.unique(self.method[r])),
                np.max(self.n_samples[r], initial=0),
            ]
            for r in range(min(n, _SHOWN))
        ]
        curves = f" and {count(places[0], 'place')}" if places else ""
        how = f" ({', '.join(np.unique(self.method))})" if n else ""
        first = f"; the first {_SHOWN} rows" if n > _SHOWN else ""
        return head, rows, f"GapEstimate of {count(n, 'row')}{curves}{how}{first}"


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """Rankings of rows as arrays, and the method of each row."""

    order: IntArray  # (n, k)
    scores: FloatArray  # (n, d), NaN for features without a place
    confidence: FloatArray  # (n, k) 1 where the place is proven, NaN where nothing is known
    method: NDArray[np.str_]  # (n,)


@dataclass(frozen=True, slots=True, eq=False)
class Searched(Ranked):
    """Rankings of rows, and whether all rankings of the row were compared."""

    is_complete: BoolArray  # (n,)
    curve: FloatArray  # (n, k) the gaps of the prefixes
    curves: FloatArray  # (n, r, k) those of the orders that were asked; NaN where they did not come along
    random: FloatArray  # (n,) the expected PGI² of a random ranking; NaN where it did not come along


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """Expected scores of rows, and the method of each."""

    value: FloatArray  # (n,)
    method: NDArray[np.str_]  # (n,)


def words(method: NDArray[np.uint8]) -> NDArray[np.str_]:
    """The names of method codes."""
    found: NDArray[np.str_] = METHODS[method]
    return found


def mean_of_curve(curve: FloatArray) -> FloatArray:
    """The mean of each row of a curve (n, k), which is PGI², (n,); 0 if k is 0."""
    return curve.mean(axis=1) if curve.shape[1] else np.zeros(len(curve))


def exact_estimate(value: FloatArray) -> GapEstimate:
    """A `GapEstimate` of exact gaps."""
    error, bound = np.zeros((2, *value.shape))
    n_samples = np.zeros(value.shape, dtype=np.int64)
    return GapEstimate(value, error, bound, np.full(value.shape, "exact"), n_samples)


def assembled(n_rows: int, parts: Sequence[tuple[IndexArray | None, OfRows]]) -> OfRows:
    """Joins the results of parts of the rows; each part is the row numbers (None: all) and their results.

    Each row must be in exactly one part.

    Examples
    --------
    >>> some, others = exact_estimate(np.array([1.0])), exact_estimate(np.array([2.0, 3.0]))
    >>> assembled(3, [(np.array([1]), some), (np.array([0, 2]), others)]).value
    array([2., 1., 3.])
    """
    first = parts[0][1]
    if len(parts) == 1:
        return first
    columns = []
    for arrays in zip(*(_arrays(known) for _, known in parts), strict=True):
        whole = np.empty((n_rows, *arrays[0].shape[1:]), dtype=np.result_type(*arrays))
        for (rows, _), array in zip(parts, arrays, strict=True):
            whole[rows] = array
        columns.append(whole)
    return cast(OfRows, tuple(columns)) if isinstance(first, tuple) else type(first)(*columns)


def _arrays(found: Any) -> tuple[NDArray[Any], ...]:
    return found if isinstance(found, tuple) else tuple(getattr(found, field.name) for field in fields(found))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bracket(ShownAsTable):
    """A number for each row, bounds that it is proven to lie between, and how it was obtained.

    `Explainer.flip`, `Explainer.absolute_gap` and `Explainer.probability_gap` return it. All arrays are (n,).

    Parameters
    ----------
    value : array of floats
        The number: exact, or an estimate from samples that lies between the bounds.
    lower, upper : arrays of floats
        The true number lies between them, up to rounding. Equal to `value` where it is exact.
    standard_error : array of floats
        Of an estimate; 0 where the value is exact. Too small if the value comes from rare, large changes that
        few samples hit; the bounds hold all the same.
    method : array of text
        "exact": all outcomes were listed, or the bounds are equal. "qmc", "mc": quasi-random, random samples
        between proven bounds.
    n_samples : array of integers
        The number of samples; 0 where the value is exact.
    index : row labels, or None
        Those of X, if it had any.
    backend : "pandas", "polars", "pyarrow" or None
        The library whose frame `to_frame` returns; None takes the first one that is installed.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Uniform
    >>> tree = DecisionTreeRegressor().fit([[0], [1]], [1, 3])
    >>> Explainer(tree, Uniform(1.0)).flip([[0.0]], 2.0)
    Bracket of 1 row (exact)
    row  value  lower  upper  standard error  method  samples
      0   0.25   0.25   0.25               0  exact         0
    """

    value: FloatArray
    lower: FloatArray
    upper: FloatArray
    standard_error: FloatArray
    method: NDArray[np.str_]
    n_samples: NDArray[np.int64]
    index: Any = None
    backend: str | None = None

    def to_frame(self) -> Any:
        """The rows as a frame.

        Returns
        -------
        frame
            With the columns `row` (its label), `value`, `lower`, `upper`, `standard_error`, `method` and
            `n_samples`.
        """
        labels = range(len(self.value)) if self.index is None else self.index
        columns: dict[str, Any] = {"row": repeated_labels(labels, 1, self.backend)}
        for name in ("value", "lower", "upper", "standard_error", "method", "n_samples"):
            columns[name] = getattr(self, name)
        return to_native(columns, self.backend)

    def _table(self) -> tuple[list[str], list[list[Any]], str]:
        n = len(self.value)
        head = ["row", "value", "lower", "upper", "standard error", "method", "samples"]
        columns = (self.value, self.lower, self.upper, self.standard_error, self.method, self.n_samples)
        labels = range(n) if self.index is None else self.index
        rows = [[labels[r], *(column[r] for column in columns)] for r in range(min(n, _SHOWN))]
        how = f" ({', '.join(np.unique(self.method))})" if n else ""
        first = f"; the first {_SHOWN} rows" if n > _SHOWN else ""
        return head, rows, f"Bracket of {count(n, 'row')}{how}{first}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Moments(ShownAsTable):
    """Mean and variance of the predictions of n rows under noise; `Explainer.moments` returns it.

    Attributes
    ----------
    mean : (n,) or (n, n_outputs) array
        The expected prediction E[f(x')], a raw margin; one column per output if several are explained.
    mean_change : array of the same shape
        E[f(x')] - f(x), not computed as this difference: it keeps its digits where it is small.
    variance : array of the same shape
        Var f(x').
    covariance : (n, n_outputs, n_outputs) array, or None
        Between the outputs; its diagonal is `variance`. None unless several outputs are explained, and
        `moments(X, covariance=True)` asked for it.
    error_bound : (n,) array
        0 where the method is "exact". Elsewhere each variance and covariance, their sum over the outputs and
        `gap` are proven to be within it, and `mean` and `mean_change` within `error_bound / sqrt(gap)`, up to
        rounding. It is at most `rtol * gap`.
    method : (n,) array of text
        "exact", or "bounded" where terms were skipped whose total effect is proven to be small.
    output_names : tuple of n_outputs strings, or None
        The labels of the outputs, if there are several.
    index : row labels, or None
        Those of X, if it had any.
    backend : "pandas", "polars", "pyarrow" or None
        The library whose frame `to_frame` returns; None takes the first one that is installed.
    """

    mean: FloatArray
    mean_change: FloatArray
    variance: FloatArray
    covariance: FloatArray | None
    error_bound: FloatArray
    method: NDArray[np.str_]
    output_names: tuple[str, ...] | None = None
    index: Any = None
    backend: str | None = None

    @property
    def gap(self) -> FloatArray:
        """PG² of each row, (n,): the squared mean change plus the variance, summed over the outputs."""
        parts = self.mean_change**2 + self.variance
        total: FloatArray = parts if parts.ndim == 1 else parts.sum(axis=1)
        return total

    def to_frame(self) -> Any:
        """The moments as a frame with one row for each row, or for each row and output.

        Returns
        -------
        frame
            With the columns `row` (its label), `output` (only if there are several), `mean`, `mean_change`,
            `variance`, `error_bound` and `method`.
        """
        n, k = self.variance.reshape(len(self.variance), -1).shape
        labels = range(n) if self.index is None else self.index
        columns: dict[str, Any] = {"row": repeated_labels(labels, k, self.backend)}
        if self.output_names is not None:
            columns["output"] = np.tile(np.array(self.output_names, dtype=np.str_), n)
        for name in ("mean", "mean_change", "variance"):
            columns[name] = getattr(self, name).ravel()
        columns["error_bound"] = np.repeat(self.error_bound, k)
        columns["method"] = np.repeat(self.method, k)
        return to_native(columns, self.backend)

    def _table(self) -> tuple[list[str], list[list[Any]], str]:
        n, several = len(self.variance), self.output_names is not None
        of_output = ["output"] if several else []
        head = ["row", *of_output, "mean", "mean change", "variance", "error bound", "method"]
        names = np.tile(np.array(self.output_names or [""], dtype=np.str_), n)
        k = len(names) // max(n, 1)
        parts = zip(self.mean.ravel(), self.mean_change.ravel(), self.variance.ravel(), strict=True)
        labels = range(n) if self.index is None else self.index
        lines = [
            [
                labels[at // k],
                *names[at : at + several],
                *own,
                self.error_bound[at // k],
                self.method[at // k],
            ]
            for at, own in zip(range(_SHOWN), parts, strict=False)
        ]
        of_outputs = f" and {count(len(self.output_names), 'output')}" if self.output_names else ""
        more = f"; the first {_SHOWN} lines" if self.variance.size > _SHOWN else ""
        return head, lines, f"Moments of {count(n, 'row')}{of_outputs}{more}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sensitivity(ShownAsTable):
    """Which features the variance of n predictions comes from; `Explainer.sensitivity` returns it.

    With d features (or groups and other features), all of which move independently. Shares are of the
    variance of the row, summed over the outputs if several are explained; they are NaN where it is 0.

    Attributes
    ----------
    first : (n, d) array
        First-order Sobol' indices: the share of the variance that a feature makes up by itself.
    total : (n, d) array
        Total Sobol' indices: the share that a feature makes up by itself and together with others.
        `first` is at most `shapley`, which is at most `total`.
    shapley : (n, d) array
        Shapley effects: what features do together is split among them in equal parts. They sum to 1.
    interactions : (n, d, d) array
        The share that two features make up together, beyond what each does by itself, and without any third;
        symmetric, 0 on the diagonal.
    variance : (n,) array
        Var f(x') when all features move.
    error_bound : (n,) array
        All shares are proven to be within it, up to rounding. 0 where the method is "exact", else at most
        `rtol`.
    method : (n,) array of text
        "exact", or "bounded" where terms were skipped whose total effect is proven to be small.
    feature_names : tuple of d strings, or None
    index : row labels, or None
        Those of X, if it had any.
    backend : "pandas", "polars", "pyarrow" or None
        The library whose frame `to_frame` returns; None takes the first one that is installed.
    """

    first: FloatArray
    total: FloatArray
    shapley: FloatArray
    interactions: FloatArray
    variance: FloatArray
    error_bound: FloatArray
    method: NDArray[np.str_]
    feature_names: tuple[str, ...] | None = None
    index: Any = None
    backend: str | None = None

    def to_frame(self) -> Any:
        """The shares of single features as a frame with n * d rows, one for each row and feature.

        Returns
        -------
        frame
            With the columns `row` (its label), `feature`, `first`, `total`, `shapley` and `error_bound`.
        """
        n, d = self.first.shape
        names = np.array(names_or_default(d, self.feature_names), dtype=np.str_)
        columns = {
            "row": repeated_labels(range(n) if self.index is None else self.index, d, self.backend),
            "feature": np.tile(names, n),
            "first": self.first.ravel(),
            "total": self.total.ravel(),
            "shapley": self.shapley.ravel(),
            "error_bound": np.repeat(self.error_bound, d),
        }
        return to_native(columns, self.backend)

    def _table(self) -> tuple[list[str], list[list[Any]], str]:
        """The features with the largest Shapley effects; of several rows, the means over those that vary."""
        n, d = self.first.shape
        names = names_or_default(d, self.feature_names)
        varies = self.variance > 0
        first, total, shapley = (
            shares[varies].mean(axis=0) if varies.any() else np.full(d, np.nan)
            for shares in (self.first, self.total, self.shapley)
        )
        largest = np.argsort(-shapley, kind="stable")[:_SHOWN].tolist()
        lines = [[names[q], first[q], shapley[q], total[q]] for q in largest]
        means = "; means over the rows" if n > 1 else ""
        most = f"; the {_SHOWN} largest" if d > _SHOWN else ""
        caption = f"Sensitivity of {count(n, 'row')} to {count(d, 'feature')}{means}{most}"
        return ["feature", "first", "shapley", "total"], lines, caption


@dataclass(frozen=True, slots=True, repr=False)
class Cost(ShownAsTable):
    """The expected time and memory of an answer, per row; `Explainer.cost` returns it.

    Parameters
    ----------
    method : "exact" or "bounded"
        How the answer would be obtained; "bounded" if at least one of the rows would not be exact.
    milliseconds : float
        Time per row on one thread, the mean over the rows.
    megabytes : float
        Memory per row, the mean over the rows. Each thread needs as much.
    refused : bool, default=False
        Whether at least one of the rows would take more than two minutes or 1 GiB: the call would then raise
        `CostError`. Use `approximate`, a larger `rtol`, or fewer places (`rank(X, top=k)`).

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from predgap import Explainer, Uniform
    >>> tree = DecisionTreeRegressor().fit([[0], [1]], [1, 3])
    >>> cost = Explainer(tree, Uniform(1.0)).cost([0])
    >>> cost.method, cost.milliseconds < 50, cost.refused
    ('exact', True, False)
    """

    method: str
    milliseconds: float
    megabytes: float
    refused: bool = False

    def _table(self) -> tuple[list[str], list[list[Any]], str]:
        """The head, the row and the caption of a table."""
        head = ["method", "milliseconds", "megabytes", "refused"]
        row = [self.method, self.milliseconds, self.megabytes, "yes" if self.refused else "no"]
        return head, [row], "Expected cost of a row, on one thread"
