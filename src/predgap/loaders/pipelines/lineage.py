"""Which raw column each column of a scikit-learn pipeline comes from, step by step.

Only the structure is read from the steps. What the numbers become is computed by the steps themselves
(`predgap.loaders.pipelines.raw_columns`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from predgap._inputs.categories import is_missing

__all__ = ["Column", "NotRaw", "is_skipped", "lineage"]


class NotRaw(Exception):  # noqa: N818 (it is caught by predgap itself, and its text is a reason)
    """Why a pipeline cannot be explained in its raw columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a pipeline, which is a function of one raw column."""

    raw: int
    labels: tuple[Any, ...] | None = None  # of an encoded column: the raw values that the encoder knows
    same: bool = True  # is it the raw column itself, but for missing values?
    none_is_missing: bool = False  # is None, not NaN, the missing value that an encoder knows?


def lineage(steps: Sequence[Any], n_raw: int) -> list[Column]:
    """The columns after all steps of a pipeline whose first step takes n_raw columns; `NotRaw` if a step
    makes columns that are not functions of one raw column."""
    columns = [Column(j) for j in range(n_raw)]
    for step in steps:
        columns = _after(step, columns)
    return columns


def is_skipped(step: Any) -> bool:
    """Is it a step without effect ("passthrough", None), or an imblearn sampler, which acts in `fit` only?"""
    return step is None or isinstance(step, str) or hasattr(step, "fit_resample")


def _after(step: Any, columns: list[Column]) -> list[Column]:
    kind = type(step)
    known = _KNOWN.get(kind.__name__) if kind.__module__.partition(".")[0] == "sklearn" else None
    if known is None:
        raise NotRaw(f"{kind.__name__} may mix columns, or change them in any way")
    if kind.__name__ not in ("Pipeline", "FunctionTransformer") and len(columns) != getattr(
        step, "n_features_in_", None
    ):
        raise NotRaw(f"{kind.__name__} is not fitted, or not on the table that the step before it makes")
    return known(step, columns)


def _pipeline(step: Any, columns: list[Column]) -> list[Column]:
    for _, inner in step.steps:
        if not is_skipped(inner):
            columns = _after(inner, columns)
    return columns


def _function(step: Any, columns: list[Column]) -> list[Column]:
    if step.func is not None:
        raise NotRaw("FunctionTransformer may mix columns, or change them in any way")
    return columns


def _scaler(step: Any, columns: list[Column]) -> list[Column]:
    return [replace(column, same=False) for column in columns]


def _imputer(step: Any, columns: list[Column]) -> list[Column]:
    if not is_missing(step.missing_values) and any(column.labels is None for column in columns):
        raise NotRaw(f"SimpleImputer replaces the value {step.missing_values!r}, not only missing values")
    kept = columns
    if not getattr(step, "keep_empty_features", False):
        kept = [c for c, fill in zip(columns, step.statistics_.tolist(), strict=True) if not is_missing(fill)]
    if not step.add_indicator:
        return kept
    return kept + [replace(columns[j], same=False) for j in step.indicator_.features_.tolist()]


def _one_hot(step: Any, columns: list[Column]) -> list[Column]:
    infrequent = getattr(step, "infrequent_categories_", None) or [None] * len(columns)
    dropped = [None] * len(columns) if step.drop_idx_ is None else step.drop_idx_
    found = []
    for j, column in enumerate(_encoded(step, columns)):
        few = 0 if infrequent[j] is None else len(infrequent[j]) - 1
        found += [column] * (len(step.categories_[j]) - few - (dropped[j] is not None))
    return found


def _encoded(step: Any, columns: list[Column]) -> list[Column]:
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


def _column_transformer(step: Any, columns: list[Column]) -> list[Column]:
    places = getattr(step, "_transformer_to_input_indices", None)
    if places is None:
        raise NotRaw("ColumnTransformer of this scikit-learn version does not tell which columns it takes")
    found: list[Column] = []
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


_KNOWN: Final[dict[str, Callable[[Any, list[Column]], list[Column]]]] = {
    "Pipeline": _pipeline,
    "FunctionTransformer": _function,
    **dict.fromkeys(("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler"), _scaler),
    "SimpleImputer": _imputer,
    "OneHotEncoder": _one_hot,
    "OrdinalEncoder": _encoded,
    "ColumnTransformer": _column_transformer,
}
