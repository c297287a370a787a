"""The steps of a scikit-learn pipeline before its model: what they make of X, and how they are called.

A sparse table is made dense; absent entries become 0, or for XGBoost models missing values, which is how
XGBoost reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from predgap._inputs.tables import Table, in_order, read_table
from predgap._model.ensemble import Ensemble
from predgap._typing import FloatArray
from predgap.errors import LoaderError, PredgapError, TableError, UnsupportedModelError
from predgap.loaders.pipelines.lineage import is_skipped
from predgap.loaders.wrappers import absent_is_missing, unwrapped

__all__ = ["Preparation", "is_pipeline", "opened"]

_MOST_CELLS: Final = 1 << 27  # numbers in a sparse table that is made dense: 1 GiB


@dataclass(frozen=True, slots=True)
class Preparation:
    """The steps of a pipeline before its model, and that model."""

    steps: tuple[tuple[str, Any], ...]  # name and transformer
    model: Any
    given_names: tuple[str, ...] | None = None  # of the columns of X, if the first step was fitted without

    def named(self, names: tuple[str, ...] | None) -> Preparation:
        """The same, where the columns of X are called so, and are put into this order."""
        return replace(self, given_names=names)

    @property
    def feature_space(self) -> str | None:
        """The steps that make the model's features, e.g. "after StandardScaler"; None without steps."""
        titles = [title for _, step in self.steps for title in _titles(step)]
        return f"after {', '.join(titles)}" if titles else None

    def names(self) -> tuple[str, ...] | None:
        """The names of the model's features after all steps; None if a step cannot tell its output names."""
        names = None
        try:
            for _, step in self.steps:
                names = step.get_feature_names_out(names)
        except Exception:  # a step may be any code and raise anything; without names, loading still works
            return None
        return None if names is None else tuple(map(str, names))

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """The names of the columns that the first step, or the model, was fitted with."""
        first = self.steps[0][1] if self.steps else self.model
        names = getattr(first, "feature_names_in_", None)
        return self.given_names if names is None else tuple(map(str, names))

    @property
    def n_columns(self) -> int | None:
        """How many columns the first step was fitted with; None if it does not tell."""
        found = getattr(self.steps[0][1] if self.steps else self.model, "n_features_in_", None)
        return int(found) if isinstance(found, int | np.integer) else None

    def table(self, X: Any, ensemble: Ensemble) -> Table:
        """X after the steps; row labels of X are kept.

        Columns are matched by the names that the model was fitted with, if both it and the steps keep names;
        else by position.
        """
        known = getattr(self.model, "feature_names_in_", None)
        names = None if known is None or len(known) != ensemble.n_features else tuple(map(str, known))
        found = read_table(self._transformed(X), ensemble.n_features, names, ensemble.categories)
        values, own = found.values, found.names if names == ensemble.feature_names else None
        frame = nw.from_native(X, pass_through=True, eager_only=True)
        if not isinstance(frame, nw.DataFrame):
            return Table(values, names=own)
        if len(frame) != len(values):
            raise TableError(f"the pipeline turns {len(frame)} rows into {len(values)}; expected as many")
        return Table(values, nw.maybe_get_index(frame), str(frame.implementation), own)

    def own_values(self, X: Any, ensemble: Ensemble) -> FloatArray:
        """X after the steps, (n, d)."""
        return self.table(X, ensemble).values

    def own_features(self, ensemble: Ensemble) -> Sequence[Sequence[int]]:
        """Each feature is one of the model."""
        return [(j,) for j in range(ensemble.n_features)]

    def takes_zero_for_missing(self, X: Any) -> bool:
        """Do the steps make X sparse, and does the model take what is absent for missing?"""
        return self._absent_is_missing and _is_sparse(self._after_steps(X))

    def _transformed(self, X: Any) -> Any:
        X = self._after_steps(X)
        return _dense(X, np.nan if self._absent_is_missing else 0.0) if _is_sparse(X) else X

    def _after_steps(self, X: Any) -> Any:
        if self.given_names is not None:
            X = in_order(X, self.given_names)
        for name, step in self.steps:
            try:
                X = step.transform(X)
            except PredgapError:
                raise
            except Exception as error:  # a step may be any code
                reason = next((line for line in str(error).splitlines() if line.strip()), "no reason given")
                kind = LoaderError if type(error).__name__ == "NotFittedError" else TableError
                raise kind(
                    f"step {name!r} of the pipeline ({type(step).__name__}) cannot transform X: "
                    f"{reason.strip()[:300]}"
                ) from error
        return X

    @property
    def _absent_is_missing(self) -> bool:
        return absent_is_missing(self.model)


def is_pipeline(model: Any) -> bool:
    """Is it a scikit-learn Pipeline, or of a class derived from it?"""
    return _is(model, "sklearn", "Pipeline")


def opened(pipeline: Any) -> Preparation:
    """The steps of a pipeline before its model, those of pipelines within it included, and the model."""
    steps: list[tuple[str, Any]] = []
    model = pipeline
    while is_pipeline(model := unwrapped(model)):
        if not model.steps or is_skipped(model.steps[-1][1]):
            raise UnsupportedModelError(
                f"the {type(model).__name__} has no model as its last step; expected one that ends in a tree "
                "model, fitted"
            )
        *before, (_, model) = model.steps
        steps += [(name, step) for name, step in before if not is_skipped(step)]
    return Preparation(tuple(steps), model)


def _is(model: Any, package: str, name: str | None = None) -> bool:
    """Is the model an instance of a class of that package (and of that name, if given)?"""
    return any(
        cls.__module__.partition(".")[0] == package and name in (None, cls.__name__)
        for cls in type(model).__mro__
    )


def _titles(step: Any) -> Iterator[str]:
    if not is_pipeline(step):
        yield type(step).__name__
        return
    for _, inner in step.steps:
        if not is_skipped(inner):
            yield from _titles(inner)


def _is_sparse(table: Any) -> bool:
    return hasattr(table, "toarray") and hasattr(table, "nnz")


def _dense(table: Any, absent: float) -> NDArray[np.float64]:
    n, d = table.shape
    if n * d > _MOST_CELLS:
        raise TableError(
            f"the pipeline makes a sparse table of {n:,} rows and {d:,} columns, too large to be made dense "
            f"(at most {_MOST_CELLS:,} numbers); pass fewer rows at a time"
        )
    entries = table.tocsr(copy=True)
    entries.sum_duplicates()
    entries = entries.tocoo()
    out = np.full((n, d), absent)
    out[entries.row, entries.col] = entries.data
    return out
