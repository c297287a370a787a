"""Opens what an `Explainer` is given: the model, the reader of its tables, and the noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from predgap._inputs.one_hot import OneHot
from predgap._inputs.tables import columns_of, names_of
from predgap._model.ensemble import Ensemble
from predgap._model.one_hot import DummyTables, with_categories
from predgap._text import count, format_items, shown, warn
from predgap._typing import FloatArray
from predgap.errors import NoiseError, PredgapError
from predgap.loaders.pipelines import TableReader, load_with_reader
from predgap.loaders.pipelines.steps import Preparation
from predgap.noise import Noise, Relative
from predgap.noise._noise import ModelFeatures


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A model in the features that are perturbed and ranked, and the noise of these features."""

    ensemble: Ensemble
    reader: TableReader | None  # reads X, where its columns are not simply the model's features
    noise: Noise
    takes_names: bool  # are the columns of X called as those of the noise's table, as the model has no names?


def opened(
    model: Any,
    noise: Any,
    feature_names: Sequence[str] | None,
    one_hot: Mapping[str, Sequence[str | int]] | None,
) -> Opened:
    """The arguments of `Explainer`, opened. A table in place of the noise becomes `Relative` noise."""
    ensemble, pipeline, not_raw = load_with_reader(model)
    reader: TableReader | None = pipeline
    if feature_names is not None:
        ensemble = ensemble.named(feature_names)
    if not_raw is not None and isinstance(pipeline, Preparation):
        may_be_of_x = isinstance(noise, Noise) and _may_be_of_x(noise, ensemble, pipeline)
        _warn_of_features(pipeline.feature_space, not_raw, may_be_of_x)
    if not isinstance(noise, Noise):
        _check_table(noise)
    if pipeline is None or pipeline.feature_space is None:
        noise = noise if isinstance(noise, Noise) else Relative(noise)
        own = ensemble.feature_names
        seen = noise.names_for(ensemble.n_features) if own is None else None
        if seen is not None:
            ensemble = ensemble.named(seen)
    else:  # a Noise is one of the features after the steps; only a table tells the columns of X
        own = pipeline.column_names
        seen = names_of(noise) if own is None and not isinstance(noise, Noise) else None
    if pipeline is not None and pipeline.column_names is None:
        reader = pipeline = pipeline.named(own or seen)
    if not isinstance(noise, Noise):
        assert reader is not None
        noise = _relative_after_steps(noise, ensemble, reader)
    if one_hot is not None:
        if reader is not None:
            raise PredgapError(
                "one_hot is for a model without a Pipeline: the encoders of a Pipeline are read anyway"
            )
        dummies = OneHot.of(one_hot, ensemble.n_features, ensemble.feature_names, ensemble.missing)
        reader, noise = DummyTables(dummies, ensemble), noise.with_one_hot(dummies)
        ensemble = with_categories(ensemble, dummies)
    return Opened(ensemble, reader, noise.for_model(_features(ensemble)), seen is not None)


def _features(e: Ensemble) -> ModelFeatures:
    return ModelFeatures(e.n_features, e.feature_names, frozenset(e.categorical()), e.missing, e.is_missing)


def _warn_of_features(feature_space: str | None, reason: str, may_be_of_x: bool) -> None:
    table = (
        "; the table of the noise is read as theirs, too: if it is X, pass X itself, Explainer(model, X)"
        if may_be_of_x
        else ""
    )
    warn(
        f"the Pipeline is explained {feature_space}, not in the columns of X, because {reason}. Noise, "
        f"subsets and rankings are those of the features that explainer.transform(X) returns{table}",
    )


def _may_be_of_x(noise: Noise, ensemble: Ensemble, reader: Preparation) -> bool:
    """May a table that a noise was built from be one of before the steps, as well as one of after them?

    NoiseError if it looks like one of before: its columns are called as those of X.
    """
    before, after = {*(reader.column_names or ())}, {*(ensemble.feature_names or ())}
    possible = False
    for table in noise._tables():
        if not before or table.names is None or table.numbered:
            n_before = reader.n_columns or ensemble.n_features
            possible |= table.n_columns == ensemble.n_features == n_before
            continue
        both = [name for name in table.names if name in before and (not after or name in after)]
        if both and after.isdisjoint({*table.names} - before):
            called = "are called so, too" if after else "have no names"
            raise NoiseError(
                f"the table given to {table.given_to} has columns of X: {format_items(both)}. The features "
                f"{reader.feature_space} {called}, but have other values, which the noise must be made from. "
                "Pass X itself, Explainer(model, X), or noise made from explainer.transform(X)"
            )
    return possible


def _check_table(X: Any) -> None:
    """NoiseError unless X, which was given in place of a noise, is a table."""
    if not (hasattr(X, "shape") or hasattr(X, "columns") or isinstance(X, list | tuple)):
        raise NoiseError(f"noise is {shown(X)}, expected a Noise such as Relative(X, 0.3), or a table X")


def _relative_after_steps(X: Any, ensemble: Ensemble, reader: TableReader) -> Noise:
    """`Relative` noise of the features that the steps of a pipeline make of X."""
    after = reader.table(X, ensemble)  # the features after the steps
    if isinstance(reader, Preparation) and reader.takes_zero_for_missing(X):
        _warn_of_absent_values(after.values, ensemble.names)
    return Relative(columns_of(after, ensemble.feature_names))


def _warn_of_absent_values(values: FloatArray, names: Sequence[str]) -> None:
    """Warns of columns that are one value or missing, because a sparse table has no entry there."""
    gone = np.isnan(values)
    lowest, highest = np.where(gone, np.inf, values).min(axis=0), np.where(gone, -np.inf, values).max(axis=0)
    dummies = [names[q] for q in np.flatnonzero(gone.any(axis=0) & (lowest == highest)).tolist()]
    if dummies:
        warn(
            f"the steps make a sparse table, and XGBoost takes what is absent in it for missing: "
            f"{count(len(dummies), 'column')} have one value or none, so that noise cannot move them, and "
            f"their gaps are 0: {format_items(dummies)}. To explain them, train with a dense table, e.g. "
            "OneHotEncoder(sparse_output=False)"
        )


@contextmanager
def explaining_features(reader: TableReader | None) -> Iterator[None]:
    """A context in which a NoiseError says that the features are not the columns of X, if so."""
    try:
        yield
    except NoiseError as error:
        if reader is None or reader.feature_space is None:
            raise
        raise NoiseError(
            f"{error}. The noise must be that of the features {reader.feature_space}, not of the columns of "
            "X: pass X itself, Explainer(model, X), or noise made from explainer.transform(X)"
        ) from None
