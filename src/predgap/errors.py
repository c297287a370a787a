"""The exceptions of predgap; all are subclasses of `PredgapError`."""

from __future__ import annotations

import re
from typing import Final

_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")


class PredgapError(Exception):
    """Base class of all errors that predgap raises on purpose."""

    def __str__(self) -> str:
        """The message, without the memory addresses in the names of objects, which differ from run to run."""
        return _ADDRESS.sub("", super().__str__())


class LoaderError(PredgapError, ValueError):
    """A model or model file cannot be loaded: it is not a model, not fitted, or damaged."""


class UnsupportedModelError(LoaderError):
    """The model is valid, but uses something that predgap does not support; the message names it."""


class EnsembleError(PredgapError, ValueError):
    """The arrays of an `Ensemble` do not describe valid trees."""


class TableError(PredgapError, ValueError):
    """X cannot be used: its columns, their types or their values do not fit the model."""


class ShapeError(TableError):
    """X has the wrong number of columns or dimensions."""


class SubsetError(PredgapError, ValueError):
    """A subset names features that are unknown, repeated or out of range, or its mask has the wrong shape."""


class RankingError(PredgapError, ValueError):
    """A ranking does not fit the model's features or the rows, or attributions cannot be ranked."""


class NoiseError(PredgapError, ValueError):
    """A noise has invalid parameters, or does not fit the model's features."""


class OutputError(PredgapError, ValueError):
    """The model does not have this output, or one of several must be chosen."""


class CostError(PredgapError, RuntimeError):
    """An answer would exceed the limits of time or memory.

    The message names the row, its cost, what works, and a larger `rtol` that would be answered, if there is
    one.
    """


class LongCallWarning(UserWarning):
    """A call is expected to take more than 10 seconds; the message says how long, and what takes less."""

    def __init__(self, call: str, duration: str, faster: str) -> None:
        super().__init__(f"{call} is expected to take about {duration}. {faster}")
        self.call, self.duration, self.faster = call, duration, faster

    def __reduce__(self) -> tuple[type[LongCallWarning], tuple[str, str, str]]:
        return LongCallWarning, (self.call, self.duration, self.faster)  # its one argument would not do


class OutsideWarning(UserWarning):
    """Rows are far outside the table that their noise was measured from; the message names the columns."""


class RunError(PredgapError, RuntimeError):
    """A long run cannot begin or continue: its folder has another run, is in use, or its files do not fit."""


class DependencyError(PredgapError, ImportError):
    """An optional package is not installed; the message says which one and how to install it."""
