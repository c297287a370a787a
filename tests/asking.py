"""The kernel of an explainer, and what the core answers it, without the questions between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from predgap import Explainer, _core
from predgap._engine.accuracy import Accuracy
from predgap._engine.context import Call, Context
from predgap._engine.decisions import listed_outcomes
from predgap._engine.kernels import Kernel, NoiseOfModel, as_bytes
from predgap._engine.sampling import sums_of_changes
from predgap._engine.subsets import BEAM_WIDTH, SubsetEngine


def kernel_of(explainer: Explainer, members: Any = None, output: int | None = None) -> Kernel:
    """The kernel that answers for an explainer, or that of one output; with `members`, with these units."""
    kernel = explainer.explained._kernel(output)
    if members is None:
        return kernel
    own = tuple(map(tuple, members))
    other = Kernel(kernel.ensemble, kernel.laws, kernel.background, own, kernel.strategy)
    other.units = units_of(own)  # whatever their order, and even if each is one feature
    return other


def n_kernels_of(explainer: Explainer) -> int:
    """How many kernels the explainer has built."""
    return len(explainer.explained._kernels)


def noise_of(explainer: Explainer) -> NoiseOfModel:
    """What the explainer has read off its noise."""
    return explainer.explained._moves


def units_of(members: Sequence[Sequence[int]]) -> _core.Units:
    """Units in the form of the core, which checks them."""
    ends = np.cumsum([0, *map(len, members)], dtype=np.int32)
    return _core.Units(ends, np.concatenate([np.array(unit, dtype=np.int32) for unit in members]))


def context_of(n_threads: int = 1) -> Context:
    """The context of a call that shows no progress."""
    return Context(Call(""), n_threads)


class Core:
    """What the core answers about rows (n, d) that the model has cast.

    `masks` (1 or n, d) are subsets of features; `members` are units in place of the explainer's.
    """

    def __init__(self, explainer: Explainer, members: Any = None) -> None:
        self.kernel = kernel_of(explainer, members)
        self.core: Any = self.kernel.core
        self.ensemble, self.used = self.kernel.ensemble, self.kernel.used
        self.context = context_of(explainer.n_threads)
        self.subsets = SubsetEngine(self.kernel, self.context)

    def gap(self, rows: np.ndarray, masks: np.ndarray, accuracy: Accuracy) -> Any:
        return self.core.gap(self.rows(rows, masks), as_bytes(masks), *self._how(accuracy))

    def moments(self, rows: np.ndarray, masks: np.ndarray, accuracy: Accuracy) -> Any:
        return self.core.moments(self.rows(rows, masks), as_bytes(masks), *self._how(accuracy))

    def curve(self, rows: np.ndarray, order: np.ndarray, accuracy: Accuracy) -> Any:
        return self.core.curve(self.rows(rows), order, *self._how(accuracy), self.kernel.units)

    def rank(self, rows: np.ndarray, method: str, top: int, accuracy: Accuracy) -> Any:
        return self.core.rank(self.rows(rows), method, top, *self._how(accuracy), self.kernel.units)

    def subset_gaps(self, rows: np.ndarray, chosen: np.ndarray, share: np.ndarray, accuracy: Accuracy) -> Any:
        return self.core.subset_gaps(self.rows(rows), chosen, share, *self._how(accuracy), self.kernel.units)

    def search(self, rows: np.ndarray, chosen: np.ndarray, n_places: int, accuracy: Accuracy) -> Any:
        how = self._how(accuracy)
        return self.core.search(self.rows(rows), chosen, n_places, BEAM_WIDTH, *how, self.kernel.units)

    def moving_units(self, rows: np.ndarray) -> np.ndarray:
        return self.subsets.moving_units(rows)

    def outcomes(self, row: np.ndarray, mask: np.ndarray) -> Any:
        return listed_outcomes(self.kernel, row, mask, self.context)

    def change_range(self, rows: np.ndarray, masks: np.ndarray) -> np.ndarray:
        return self.core.change_range(self.rows(rows, masks), as_bytes(masks), self.context)[0]

    def sample(
        self, rows: np.ndarray, mask: np.ndarray, points: np.ndarray, ends: np.ndarray, output: int = 0
    ) -> np.ndarray:
        return sums_of_changes(self.kernel, rows, mask, points, ends, output, self.context)

    def sample_changes(self, rows: np.ndarray, mask: np.ndarray, points: np.ndarray) -> np.ndarray:
        asked = self.rows(rows, mask[None])
        return self.core.sample_changes(asked, as_bytes(mask), points, self.context)[0]

    def sample_curve(
        self,
        rows: np.ndarray,
        order: np.ndarray,
        points: np.ndarray,
        column: np.ndarray,
        n_replicates: int,
    ) -> np.ndarray:
        asked, units = self.rows(rows), self.kernel.units
        return self.core.sample_curve(asked, order, points, column, n_replicates, self.context, units)[0]

    def rows(self, rows: np.ndarray, masks: np.ndarray | None = None) -> _core.Rows:
        return self.kernel.rows(rows, self.kernel.every if masks is None else masks)

    def _how(self, accuracy: Accuracy) -> tuple[Any, Context]:
        return self.kernel.accuracy(accuracy), self.context


def rows_at_once(explainer: Explainer, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that will have how many rows the core is given, each time that it is given some."""
    kernel, found = kernel_of(explainer), list[int]()
    rows = kernel.rows

    def noting(values: np.ndarray, masks: np.ndarray) -> _core.Rows:
        found.append(len(values))
        return rows(values, masks)

    monkeypatch.setattr(kernel, "rows", noting)
    return found
