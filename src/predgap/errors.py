"""Every exception predgap raises on purpose; all share one base class."""

from __future__ import annotations

import re
from typing import Final

_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")


class PredgapError(Exception):
    """Base class: `except PredgapError` catches everything predgap refuses."""

    def __str__(self) -> str:
        """The message, in which objects have no addresses: these differ from run to run and tell nothing."""
        return _ADDRESS.sub("", super().__str__())


class LoaderError(PredgapError, ValueError):
    """A model or model file cannot be turned into an ensemble."""


class UnsupportedModelError(LoaderError):
    """The model is sound, but uses something predgap does not handle; it is named in the message."""


class EnsembleError(PredgapError, ValueError):
    """Node arrays that do not describe a valid ensemble."""


class TableError(PredgapError, ValueError):
    """X cannot be used: its columns, their types or their values do not fit the model."""


class ShapeError(TableError):
    """X has the wrong number of columns or dimensions."""


class SubsetError(PredgapError, ValueError):
    """A subset of features that is unknown, repeated or out of range."""


class RankingError(PredgapError, ValueError):
    """Something that is not a ranking of the model's features, or attributions that give none."""


class NoiseError(PredgapError, ValueError):
    """A noise that is not a distribution, or does not fit the model's features."""


class OutputError(PredgapError, ValueError):
    """An output that the model does not have, or none chosen where there are several."""


class CostError(PredgapError, RuntimeError):
    """An exact answer would exceed the budget; the message names the cost and the alternatives."""


class DependencyError(PredgapError, ImportError):
    """An optional package is needed; the message says which one and how to get it."""


class DatasetError(PredgapError, ValueError):
    """A data set that is unknown, absent, damaged or not what it should be, or that cannot be split so."""
