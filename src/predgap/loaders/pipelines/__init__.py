"""Loads scikit-learn pipelines: the model in the last step, in the raw columns of the pipeline if possible.

Where every step allows it, the model's trees are rewritten in the columns of X. Else the model is explained
on the table that the steps make of X, and its features are the columns of that table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from predgap._inputs.tables import Table
from predgap._model.ensemble import Ensemble
from predgap._typing import FloatArray
from predgap.errors import LoaderError
from predgap.loaders import load
from predgap.loaders.pipelines.raw_columns import in_raw_columns
from predgap.loaders.pipelines.steps import NotRaw, Preparation, is_pipeline
from predgap.loaders.pipelines.steps import opened as opened_pipeline
from predgap.loaders.wrappers import unwrapped

__all__ = ["TableReader", "from_object", "is_pipeline", "load_with_reader", "opened_pipeline"]


class TableReader(Protocol):
    """Reads the tables that a user passes, where they are not simply the features of the ensemble."""

    @property
    def feature_space(self) -> str | None:
        """A text that says what the features are, if they are not the columns of X, e.g. "after PCA"."""

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """The names of the columns of X; None if they are not known."""

    def table(self, X: Any, ensemble: Ensemble) -> Table:
        """X with one column per feature of the ensemble."""

    def own_values(self, X: Any, ensemble: Ensemble) -> FloatArray:
        """X with one column per feature of the model itself, whose trees may have been rewritten."""

    def own_features(self, ensemble: Ensemble) -> Sequence[Sequence[int]]:
        """The features of the model itself that each feature of the ensemble stands for."""


class PipelineReader(TableReader, Protocol):
    """Reads the tables of a pipeline."""

    def named(self, names: tuple[str, ...] | None) -> PipelineReader:
        """The same for a pipeline that was fitted without names, where the columns of X are called so."""


def from_object(pipeline: Any) -> Ensemble:
    """The ensemble of a fitted pipeline."""
    return _loaded(pipeline)[0]


def load_with_reader(model: Any) -> tuple[Ensemble, PipelineReader | None, str | None]:
    """The ensemble of any model, what reads its tables if it is a pipeline, and, if a pipeline is not
    explained in its raw columns, why."""
    model = unwrapped(model)  # of a search, the model that it found
    return _loaded(model) if is_pipeline(model) else (load(model), None, None)


def _loaded(pipeline: Any) -> tuple[Ensemble, PipelineReader, str | None]:
    steps = opened_pipeline(pipeline)
    try:
        ensemble = load(steps.model)
    except LoaderError as error:
        raise type(error)(f"the last step of the {type(pipeline).__name__}: {error}") from error
    if not steps.steps:
        return ensemble, steps, None
    try:
        return *in_raw_columns(steps, ensemble), None
    except NotRaw as reason:
        return _after_the_steps(ensemble, steps), steps, str(reason)


def _after_the_steps(ensemble: Ensemble, steps: Preparation) -> Ensemble:
    """The ensemble with the names of the features after the steps."""
    names = steps.names()
    fits = names is not None and len(set(names)) == len(names) == ensemble.n_features
    return replace(
        ensemble,
        feature_names=names if fits else ensemble.feature_names,
        source=" ".join(filter(None, (ensemble.source, steps.feature_space))),
    )
