"""Loads scikit-learn pipelines: the model in the last step, and the steps that prepare its rows.

The model is explained on the table that the steps before it make of X: its features are the columns of that
table. A sparse table is made dense; absent entries become 0, or for XGBoost models missing values, which is
how XGBoost reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from predgap._inputs.tables import Table, read_table
from predgap._model.ensemble import Ensemble
from predgap.errors import LoaderError, PredgapError, TableError, UnsupportedModelError
from predgap.loaders import load
from predgap.loaders.wrappers import absent_is_missing, unwrapped

__all__ = ["Preparation", "from_object", "preparation"]

_MOST_CELLS: Final = 1 << 27  # numbers in a sparse table that is made dense: 1 GiB


def from_object(pipeline: Any) -> Ensemble:
    """The ensemble of a fitted pipeline's last step, with the feature names after the steps before it."""
    prepared = _opened(pipeline)
    try:
        ensemble = load(prepared.model)
    except LoaderError as error:
        raise type(error)(f"the last step of the {type(pipeline).__name__}: {error}") from error
    names = prepared.names()
    fits = names is not None and len(set(names)) == len(names) == ensemble.n_features
    return replace(
        ensemble,
        feature_names=names if fits else ensemble.feature_names,
        source=" ".join(filter(None, (ensemble.source, prepared.feature_space))),
    )


def preparation(model: Any) -> Preparation | None:
    """The steps of a pipeline before its model, and the model; None if `model` is not a pipeline.

    A wrapper of one model, such as GridSearchCV, is the model that it holds.
    """
    model = unwrapped(model)
    return _opened(model) if _is(model, "sklearn", "Pipeline") else None


@dataclass(frozen=True, slots=True)
class Preparation:
    """The steps of a pipeline before its model, and that model."""

    steps: tuple[tuple[str, Any], ...]  # name and transformer
    model: Any

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

    def _transformed(self, X: Any) -> Any:
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
        is_sparse = hasattr(X, "toarray") and hasattr(X, "nnz")
        return _dense(X, np.nan if absent_is_missing(self.model) else 0.0) if is_sparse else X


def _opened(pipeline: Any) -> Preparation:
    steps: list[tuple[str, Any]] = []
    model = pipeline
    while _is(model := unwrapped(model), "sklearn", "Pipeline"):
        if not model.steps or _is_skipped(model.steps[-1][1]):
            raise UnsupportedModelError(
                f"the {type(model).__name__} has no model as its last step; expected one that ends in a tree "
                "model, fitted"
            )
        *before, (_, model) = model.steps
        steps += [(name, step) for name, step in before if not _is_skipped(step)]
    return Preparation(tuple(steps), model)


def _is_skipped(step: Any) -> bool:
    """Is it a step without effect ("passthrough", None), or an imblearn sampler, which acts in `fit` only?"""
    return step is None or isinstance(step, str) or hasattr(step, "fit_resample")


def _is(model: Any, package: str, name: str | None = None) -> bool:
    """Is the model an instance of a class of that package (and of that name, if given)?"""
    return any(
        cls.__module__.partition(".")[0] == package and name in (None, cls.__name__)
        for cls in type(model).__mro__
    )


def _titles(step: Any) -> Iterator[str]:
    if not _is(step, "sklearn", "Pipeline"):
        yield type(step).__name__
        return
    for _, inner in step.steps:
        if not _is_skipped(inner):
            yield from _titles(inner)


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
