"""Converts noise for the kernels: codes of laws, tails at thresholds, probabilities of groups of categories.

Here a *cell* is a group of categories of one feature that no split tells apart, numbered from 0. Kernels see
cells instead of codes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap import _core
from predgap._engine.kernel_laws import kernel_law
from predgap._inputs.categories import UNSEEN, Categories
from predgap._model.ensemble import LEAF, Ensemble
from predgap._text import count, format_items, warn
from predgap._typing import BoolArray, FloatArray
from predgap.errors import NoiseError
from predgap.noise import Noise
from predgap.noise._laws import Law, StillLaw, unmoved_tails
from predgap.noise._scales import FEWEST_WHOLE, all_whole

ByteArray = NDArray[np.uint8]

_TABLE_BYTES: Final = 32 << 20  # limit of memory for the tails of laws that kernels cannot evaluate
_PROBABILITY_ERROR: Final = 1e-9  # allowed difference of a sum of probabilities from 1


def laws_for_model(noise: Noise, ensemble: Ensemble) -> dict[int, Law]:
    """The law of each feature that the model splits on, by index; NoiseError if the noise does not fit."""
    used = np.unique(ensemble.feature[ensemble.feature != LEAF]).tolist()
    laws = noise.laws_of(used, ensemble.n_features, ensemble.feature_names)
    if len(laws) != len(used):
        raise NoiseError(f"{noise!r} gives {len(laws)} laws for {len(used)} features")
    categorical = ensemble.categorical()
    return {
        q: law if q in categorical else _law_of_numbers(law, ensemble, q)
        for q, law in zip(used, laws, strict=True)
    }


def _law_of_numbers(law: Law, ensemble: Ensemble, q: int) -> Law:
    """The law of a numeric feature; NoiseError if its values are none that the model takes."""
    law = law.avoiding(*ensemble.missing_range)
    if law.replaces and not ensemble.accepts_infinity:
        points = law.points(math.nan)
        beyond = np.empty(0) if points is None else points[np.abs(points) > ensemble.largest]
        if len(beyond):
            raise NoiseError(
                f"the noise of feature {ensemble.names[q]!r} may give it the value {beyond[0]:.9g}, but for "
                f"this model of {ensemble.source} predgap takes numbers up to {ensemble.largest:.9g}; leave "
                "it out"
            )
    return law


@dataclass(frozen=True, slots=True, eq=False)
class _Categorical:
    """The cells of a categorical feature."""

    q: int
    levels: Categories
    cell: FloatArray  # (m + 1,) cell of each category that the model knows; the last: of unknown ones
    flips: bool  # is its law Flip, which cannot perturb unknown categories?
    kept: FloatArray  # codes that do not move

    def code_of_cell(self, cells: NDArray[np.intp]) -> FloatArray:
        """The code of the first category of each cell. If the model knows none in it, an unknown category, or
        for Flip the first known one."""
        code = np.full(int(self.cell.max()) + 1, UNSEEN)
        if self.flips and len(self.levels):
            code[:] = self.levels.codes[0]
        own, first = np.unique(self.cell[:-1].astype(np.intp), return_index=True)
        code[own] = self.levels.codes[first]
        return code[cells]


@dataclass(frozen=True, slots=True, eq=False)
class _Tabulated:
    """A numeric feature with a law that kernels cannot evaluate; its tails are computed in Python."""

    q: int
    law: Law
    at: slice  # its thresholds, among those of all features
    thresholds: FloatArray


class KernelNoise:
    """The noise of a model's features in the form of the kernels; converts rows for them, too."""

    def __init__(
        self, kernels: _core.Engine, ensemble: Ensemble, laws: dict[int, Law], *, warns: bool = True
    ) -> None:
        self._kernels = kernels
        self._names = ensemble.names  # for messages
        self._categorical = _categorical_features(kernels, ensemble, laws)
        numeric = {q: law for q, law in laws.items() if q not in ensemble.categorical()}
        warned = [q for q, law in numeric.items() if law.continuous and warns]
        self._continuous = np.array(warned, dtype=np.intp)
        self._keeping = {q: law for q, law in numeric.items() if law.keeps}
        self._n_thresholds = len(kernels.thresholds)
        self._tabulated: list[_Tabulated] = []
        arrays = self._law_arrays(ensemble, numeric)
        self._core = _core.Noise(kernels, *arrays, *self._masses(ensemble, laws))

    @property
    def rows_at_once(self) -> int | None:
        """For how many rows the tails fit into memory; None if there is no limit."""
        return max(1, _TABLE_BYTES // (16 * max(1, self._n_thresholds))) if self._tabulated else None

    def with_cells(self, rows: FloatArray, masks: BoolArray) -> tuple[FloatArray, ByteArray | None]:
        """Cast rows (n, d) with the codes of categories replaced by their cells; and which values of them do
        not move, (n, d), or None if all may.

        `masks` (1 or n, d) are the perturbed features. NoiseError if Flip should perturb a category that the
        model does not know. Warns once of continuous noise on columns of whole numbers.
        """
        self._warn_of_whole_numbers(rows, masks)
        still = self._still(rows)
        if not self._categorical:
            return np.ascontiguousarray(rows), still
        rows = np.array(rows, order="C")
        for feature in self._categorical:
            codes = rows[:, feature.q]
            at = feature.levels.levels_of(codes)
            missing = np.isnan(codes)
            if feature.flips:
                self._refuse_unseen(feature, ~missing & (at < 0) & masks[:, feature.q])
            rows[:, feature.q] = np.where(missing, np.nan, feature.cell[at])
        return rows, still

    def rows(self, x: FloatArray, still: ByteArray | None, masks: BoolArray) -> _core.Rows:
        """Rows (n, d) from `with_cells`, with their tails; `masks` (1 or n, d) are the perturbed features."""
        if not self._tabulated:
            return _core.Rows(self._kernels, self._core, x, None, None, still)
        below, above = np.zeros((2, len(x), self._n_thresholds))
        for feature in self._tabulated:
            column, moved = x[:, feature.q], masks[:, feature.q]
            movable = ~np.isnan(column) if feature.law.replaces else np.isfinite(column)
            asked = np.flatnonzero(moved & movable)
            if len(asked) and len(feature.thresholds):
                below[asked, feature.at], above[asked, feature.at] = _checked_tails(
                    feature.law, column[asked], feature.thresholds
                )
            stays = np.flatnonzero(moved & ~movable & ~np.isnan(column))  # infinite: adding changes nothing
            if len(stays):
                below[stays, feature.at], above[stays, feature.at] = unmoved_tails(
                    column[stays], feature.thresholds
                )
        return _core.Rows(self._kernels, self._core, x, below, above, still)

    def without_cells(self, x: FloatArray) -> FloatArray:
        """The reverse of `with_cells`, for made-up rows: codes for cells, values that laws can perturb."""
        rows = x.copy()
        for feature in self._categorical:
            cells = x[:, feature.q]
            missing = np.isnan(cells)
            code = feature.code_of_cell(np.where(missing, 0, cells).astype(np.intp))
            rows[:, feature.q] = np.where(missing, np.nan, code)
        for number in self._tabulated:
            rows[:, number.q] = number.law.movable(x[:, number.q])
        return rows

    def _law_arrays(
        self, ensemble: Ensemble, numeric: dict[int, Law]
    ) -> tuple[ByteArray, FloatArray, FloatArray, FloatArray]:
        """The laws of all features for `_core.Noise`: kinds, parameters, places and tails of thresholds.

        Notes those whose tails must be computed in Python.
        """
        thresholds, begin = self._kernels.thresholds, self._kernels.threshold_begin
        kinds = np.full(ensemble.n_features, _core.LAWS["still"], dtype=np.uint8)
        kinds[list(ensemble.categorical())] = _core.LAWS["category"]
        parameters = np.zeros((5, ensemble.n_features))
        places, tails = thresholds.copy(), np.zeros((len(thresholds), 2))
        for q, law in sorted(numeric.items()):
            at = slice(int(begin[q]), int(begin[q + 1]))
            found = kernel_law(law, thresholds[at])
            kinds[q] = _core.LAWS[found.kind]
            parameters[:, q] = found.parameter, found.stays, found.moves, found.low, found.high
            places[at] = found.at
            if found.kind == "table":
                self._tabulated.append(_Tabulated(q, law, at, thresholds[at]))
            elif found.fixed is not None and at.stop > at.start:
                below, above = _checked_tails(found.fixed, np.zeros(1), thresholds[at])
                tails[at, 0], tails[at, 1] = below[0], above[0]
        return kinds, parameters, places, tails

    def _still(self, rows: FloatArray) -> ByteArray | None:
        """Which values do not move because the noise keeps them, (n, d); None if there are none."""
        categorical = [feature for feature in self._categorical if len(feature.kept)]
        if not (self._keeping or categorical):
            return None
        still = np.zeros(rows.shape, dtype=np.uint8)
        for q, law in self._keeping.items():
            still[:, q] = law.still(rows[:, q])
        for feature in categorical:
            still[:, feature.q] = np.isin(rows[:, feature.q], feature.kept)
        return still

    def _warn_of_whole_numbers(self, rows: FloatArray, masks: BoolArray) -> None:
        """Warns, once, if continuous noise perturbs columns of at least 20 whole numbers."""
        if len(rows) < FEWEST_WHOLE or not len(self._continuous):
            return
        asked = self._continuous[masks[:, self._continuous].any(axis=0)]
        found = [q for q in asked.tolist() if all_whole(rows[:, q])]
        if found:
            self._continuous = self._continuous[:0]
            warn(
                f"continuous noise moves {count(len(found), 'column')} of whole numbers: "
                f"{format_items(self._names[q] for q in found)}. How often it changes a prediction depends "
                "on where between two values the library splits; use Relative(X), or Rounded noise",
            )

    def _masses(self, ensemble: Ensemble, laws: dict[int, Law]) -> tuple[FloatArray, FloatArray]:
        """For each cell of the categorical features: P(x' in the cell) if x is not in it, and if it is."""
        begin = self._kernels.cell_begin
        mass, stay = np.zeros(begin[-1]), np.ones(begin[-1])
        for feature in self._categorical:
            law = laws.get(feature.q)
            if law is None:
                continue
            reached, stays, unseen = _category_probabilities(law, feature.levels, self._names[feature.q])
            if unseen > 0 and ensemble.unseen_is_missing:
                raise NoiseError(
                    f"the noise of feature {self._names[feature.q]!r} may give it a category that the model "
                    "does not know, which counts as missing; noise cannot make a value missing: drop it"
                )
            if (reached[feature.levels.codes == ensemble.missing] > 0).any():
                raise NoiseError(
                    f"the noise of feature {self._names[feature.q]!r} may give it the category "
                    f"{ensemble.missing:g}, which means missing to the model; noise cannot make it missing"
                )
            cells = slice(begin[feature.q], begin[feature.q + 1])
            own = feature.cell[:-1].astype(np.intp)
            unseen_stays = float(law.unseen_stays_probability(feature.levels))
            mass[cells], stay[cells] = _of_cells(
                reached, stays, unseen, unseen_stays, own, cells.stop - cells.start
            )
        return mass, stay

    def _refuse_unseen(self, feature: _Categorical, unseen: BoolArray) -> None:
        """NoiseError if a row has an unknown category: Flip is defined for known ones only."""
        if unseen.any():
            raise NoiseError(
                f"row {int(np.flatnonzero(unseen)[0])} has a category of feature "
                f"{self._names[feature.q]!r} that the model does not know, but Flip only changes known "
                "categories; drop such rows, or give the feature Discrete noise"
            )


def _categorical_features(
    kernels: _core.Engine, ensemble: Ensemble, laws: dict[int, Law]
) -> tuple[_Categorical, ...]:
    of_level, first, found = kernels.cell_of_level, 0, []
    for q, levels in ensemble.categorical().items():
        cell = np.append(of_level[first : first + len(levels)], 0).astype(np.float64)
        law = laws.get(q, StillLaw())
        with _about(ensemble.names[q]):
            found.append(_Categorical(q, levels, cell, law.known_only, law.kept(levels)))
        first += len(levels)
    return tuple(found)


@contextmanager
def _about(feature: str) -> Iterator[None]:
    """A context in which a NoiseError says which categorical feature it is about."""
    try:
        yield
    except NoiseError as error:
        raise NoiseError(f"feature {feature!r} is categorical: {error}") from None


def _of_cells(
    reached: FloatArray,
    stays: FloatArray,
    unseen: float,
    unseen_stays: float,
    own: NDArray[np.intp],
    n_cells: int,
) -> tuple[FloatArray, FloatArray]:
    """The probabilities of cells, from those of the m known categories; `own` (m,) is the cell of each.

    Unknown categories, with the probability `unseen`, are in cell 0; they stay with `unseen_stays`. The
    probability to stay in a cell is the same for all its categories, so it is computed for the first one.
    """
    mass: FloatArray = np.bincount(own, reached, minlength=n_cells).astype(np.float64)
    cells, first = np.unique(own, return_index=True)
    from_first = reached.copy()
    from_first[first] = stays[first]
    stay: FloatArray = np.bincount(own, from_first, minlength=n_cells).astype(np.float64)
    without_levels = np.ones(n_cells, dtype=np.bool_)  # cells of unknown categories only
    without_levels[cells] = False
    stay[without_levels] = unseen_stays
    mass[0] += unseen
    stay[0] += unseen
    return mass, stay


def _checked_tails(law: Law, x: FloatArray, thresholds: FloatArray) -> list[FloatArray]:
    """The tails (n, k) of a law; NoiseError if they are not probabilities of the right shape and sum."""
    shape = (len(x), len(thresholds))
    arrays = [np.asarray(tail, dtype=np.float64) for tail in law.tails(x, thresholds)]
    if len(arrays) != 2 or any(array.shape != shape for array in arrays):
        found = ", ".join(str(array.shape) for array in arrays)
        raise NoiseError(f"the tails of {law!r} have shapes {found}; expected two arrays of {shape}")
    below, above = arrays
    if not all(((array >= 0) & (array <= 1)).all() for array in arrays):
        raise NoiseError(f"the tails of {law!r} are not probabilities between 0 and 1")
    off = np.abs(below + above - 1.0)
    if off.max() > _PROBABILITY_ERROR:
        row, k = np.unravel_index(int(off.argmax()), shape)
        raise NoiseError(
            f"the tails of {law!r} sum to {below[row, k] + above[row, k]:g} at x = {x[row]:g} and "
            f"t = {thresholds[k]:g}; expected P(x' < t) + P(x' >= t) = 1"
        )
    return arrays


def _category_probabilities(
    law: Law, levels: Categories, feature: str
) -> tuple[FloatArray, FloatArray, float]:
    """For each known category, (m,), P(x' is it) if x is another one, and if x is it; and P(x' is unknown).

    NoiseError if these are not probabilities with the right sum.
    """
    with _about(feature):
        given: list[Any] = [law.category_probabilities(levels), law.staying_probabilities(levels)]
        unseen = float(law.unseen_probability(levels))
    reached, stays = (np.asarray(array, dtype=np.float64) for array in given)
    sound = reached.shape == stays.shape == (len(levels),) and (reached >= 0).all() and (stays >= 0).all()
    sums = stays + (reached.sum() - reached) + unseen if sound and unseen >= 0 else np.zeros(1)
    if (np.abs(sums - 1.0) > _PROBABILITY_ERROR).any():
        raise NoiseError(
            f"the category probabilities of {law!r} are not {len(levels)} probabilities whose sum, with that "
            "of staying, is 1"
        )
    return reached, stays, unseen
