"""Calls the steps of a scikit-learn pipeline before its model, and traces the columns that they make.

A sparse table is made dense; absent entries become 0, or for XGBoost models missing values, which is how
XGBoost reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import is_missing
from predgap._inputs.tables import Table, in_order, read_table
from predgap._model.ensemble import Ensemble
from predgap._typing import FloatArray
from predgap.errors import LoaderError, PredgapError, TableError, UnsupportedModelError
from predgap.loaders.wrappers import absent_is_missing, unwrapped

__all__ = ["NotRaw", "Preparation", "StepColumn", "is_pipeline", "lineage", "opened"]

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
        """The number of columns that the first step was fitted with; None if it does not tell."""
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
        """True if the steps make X sparse, and the model takes what is absent for missing."""
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
    """True if the model is a scikit-learn Pipeline, or of a class derived from it."""
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
    """True if the model is an instance of a class of that package (and of that name, if given)."""
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


# ------------------------------------------------------------------------------------------------------------
# Each column that the steps make comes from a raw column, which is traced step by step.
#
# Only the structure is read from the steps. What the numbers become is computed by the steps themselves
# (`predgap.loaders.pipelines.raw_columns`).


class NotRaw(Exception):  # noqa: N818 (it is caught by predgap itself, and its text is a reason)
    """Why a pipeline cannot be explained in its raw columns."""


@dataclass(frozen=True, slots=True)
class StepColumn:
    """A column of a pipeline, which is a function of one raw column."""

    raw: int
    labels: tuple[Any, ...] | None = None  # of an encoded column: the raw values that the encoder knows
    same: bool = True  # is it the raw column itself, but for missing values?
    none_is_missing: bool = False  # is None, not NaN, the missing value that an encoder knows?


def lineage(steps: Sequence[Any], n_raw: int) -> list[StepColumn]:
    """The columns after all steps of a pipeline whose first step takes n_raw columns; `NotRaw` if a step
    makes columns that are not functions of one raw column."""
    columns = [StepColumn(j) for j in range(n_raw)]
    for step in steps:
        columns = _after(step, columns)
    return columns


def is_skipped(step: Any) -> bool:
    """True for a step without effect ("passthrough", None) or an imblearn sampler (it acts in `fit` only)."""
    return step is None or isinstance(step, str) or hasattr(step, "fit_resample")


def _after(step: Any, columns: list[StepColumn]) -> list[StepColumn]:
    kind = type(step)
    known = _KNOWN.get(kind.__name__) if kind.__module__.partition(".")[0] == "sklearn" else None
    if known is None:
        raise NotRaw(f"{kind.__name__} may mix columns, or change them in any way")
    if kind.__name__ not in ("Pipeline", "FunctionTransformer") and len(columns) != getattr(
        step, "n_features_in_", None
    ):
        raise NotRaw(f"{kind.__name__} is not fitted, or not on the table that the step before it makes")
    return known(step, columns)


def _pipeline(step: Any, columns: list[StepColumn]) -> list[StepColumn]:
    for _, inner in step.steps:
        if not is_skipped(inner):
            columns = _after(inner, columns)
    return columns


def _function(step: Any, columns: list[StepColumn]) -> list[StepColumn]:
    if step.func is not None:
        raise NotRaw("FunctionTransformer may mix columns, or change them in any way")
    return columns


def _scaler(step: Any, columns: list[StepColumn]) -> list[StepColumn]:
    return [replace(column, same=False) for column in columns]


def _imputer(step: Any, columns: list[StepColumn]) -> list[StepColumn]:
    if not is_missing(step.missing_values) and any(column.labels is None for column in columns):
        raise NotRaw(f"SimpleImputer replaces the value {step.missing_values!r}, not only missing values")
    kept = columns
    if not getattr(step, "keep_empty_features", False):
        kept = [c for c, fill in zip(columns, step.statistics_.tolist(), strict=True) if not is_missing(fill)]
    if not step.add_indicator:
        return kept
    return kept + [replace(columns[j], same=False) for j in step.indicator_.features_.tolist()]


def _one_hot(step: Any, columns: list[StepColumn]) -> list[StepColumn]:
    infrequent = getattr(step, "infrequent_categories_", None) or [None] * len(columns)
    dropped = [None] * len(columns) if step.drop_idx_ is None else step.drop_idx_
    found = []
    for j, column in enumerate(_encoded(step, columns)):
        few = 0 if infrequent[j] is None else len(infrequent[j]) - 1
        found += [column] * (len(step.categories_[j]) - few - (dropped[j] is not None))
    return found


def _encoded(step: Any, columns: list[StepColumn]) -> list[StepColumn]:
    found = []
    for column, categories in zip(columns, step.categories_, strict=True):
        if not column.same and column.labels is None:
            raise NotRaw(f"{type(step).__name__} encodes numbers that a step before it changes")
        labels, none_is_missing = column.labels, column.none_is_missing
        if labels is None:
            gone = [value for value in categories.tolist() if is_missing(value)]
            if len(gone) > 1:
                raise NotRaw(f"{type(step).__name__} takes None and NaN for two categories")
            labels = tuple(value for value in categories.tolist() if not is_missing(value))
            none_is_missing = gone == [None]
        found.append(replace(column, labels=labels, same=False, none_is_missing=none_is_missing))
    return found


def _column_transformer(step: Any, columns: list[StepColumn]) -> list[StepColumn]:
    places = getattr(step, "_transformer_to_input_indices", None)
    if places is None:
        raise NotRaw("ColumnTransformer of this scikit-learn version does not tell which columns it takes")
    found: list[StepColumn] = []
    for name, transformer, _ in step.transformers_:
        taken = [columns[int(j)] for j in places[name]]
        if len(taken) == 0 or (isinstance(transformer, str) and transformer == "drop"):
            continue
        made = taken if is_skipped(transformer) else _after(transformer, taken)
        where = step.output_indices_[name]
        if (where.start, where.stop) != (len(found), len(found) + len(made)):
            raise NotRaw(f"{type(transformer).__name__} in the ColumnTransformer makes other columns")
        found += made
    return found


_KNOWN: Final[dict[str, Callable[[Any, list[StepColumn]], list[StepColumn]]]] = {
    "Pipeline": _pipeline,
    "FunctionTransformer": _function,
    **dict.fromkeys(("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler"), _scaler),
    "SimpleImputer": _imputer,
    "OneHotEncoder": _one_hot,
    "OrdinalEncoder": _encoded,
    "ColumnTransformer": _column_transformer,
}
