"""The classes `Moments` and `Sensitivity`: how noise spreads in a prediction, and by which features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.frames import repeated_labels, to_native
from predgap._tables import ShownAsTable
from predgap._text import count, names_or_default
from predgap._typing import FloatArray

_SHOWN: Final = 5  # rows or features in a table


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
