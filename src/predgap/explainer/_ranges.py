"""Warns of rows that are far outside the table that their noise was measured from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from predgap._model.ensemble import LEAF, Ensemble
from predgap._text import count, shown, warn
from predgap._typing import BoolArray, FloatArray
from predgap.errors import OutsideWarning
from predgap.noise import Noise
from predgap.noise._scales import Range

_SHOWN = 3  # columns in the warning


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceRanges:
    """The ranges of the features that the model splits on and to which a noise adds numbers.

    A number that is added does not bring a value back that is further outside than the range is wide.
    """

    of_features: dict[int, Range]
    names: tuple[str, ...]
    limits: FloatArray  # (2, d) the range of each feature, widened by its width on both sides
    inside: bytes  # what comparing one row with the limits gives if the row is within them

    @classmethod
    def of(cls, noise: Noise, ensemble: Ensemble) -> ReferenceRanges | None:
        """The ranges that a noise knows of a model's features; None if it knows none."""
        splits = np.unique(ensemble.feature[ensemble.feature != LEAF]).tolist()
        used = [q for q in splits if q not in ensemble.categorical()]
        found = noise.ranges_of(used, ensemble.n_features, ensemble.feature_names)
        ranges = {q: each for q, each in zip(used, found, strict=True) if each is not None}
        if not ranges:
            return None
        limits = np.repeat([[-np.inf], [np.inf]], ensemble.n_features, axis=1)
        for q, each in ranges.items():
            width = each.high - each.low
            limits[:, q] = each.low - width, each.high + width
        return cls(
            ranges, ensemble.names, limits, np.repeat([[False], [True]], len(limits[0]), axis=1).tobytes()
        )

    def check(self, rows: FloatArray) -> None:
        """Warns if rows (n, d), as the model sees them, are outside by more than the width of a range."""
        if len(rows) == 1 and np.greater(self.limits, rows).tobytes() == self.inside:
            return  # the usual answer for one row, in less than a microsecond
        outside = (rows < self.limits[0]) | (rows > self.limits[1])
        if outside.any():
            self._warn(rows, outside)

    def _warn(self, rows: FloatArray, outside: BoolArray) -> None:
        for q, each in self.of_features.items():
            outside[:, q] &= ~np.isin(rows[:, q], each.kept)
        columns = np.flatnonzero(outside.any(axis=0)).tolist()
        if not columns:
            return
        told = []
        for q in columns[:_SHOWN]:
            r, each = int(np.flatnonzero(outside[:, q])[0]), self.of_features[q]
            range_of = f"{each.low:g} to {each.high:g}"
            told.append(f"{shown(self.names[q])} ({rows[r, q]:g} in row {r}; the reference has {range_of})")
        more = f", ... ({len(columns)} in all)" if len(columns) > _SHOWN else ""
        n = int(outside.any(axis=1).sum())
        message = (
            f"{n} of {count(len(rows), 'row')} {'is' if n == 1 else 'are'} outside the reference, the table "
            f"of the noise, by more than its width, in {', '.join(told)}{more}. Added noise takes such a "
            "value across hardly any split, so that gaps near 0 follow. Are the units the same?"
        )
        warn(OutsideWarning(message))
