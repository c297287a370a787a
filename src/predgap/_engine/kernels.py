"""The class `Kernel`: a model and the noise of its features, in the form in which the core answers questions.

The core knows each feature's thresholds, and *cells*: groups of categories of one feature that no split tells
apart, numbered from 0, which take the place of codes. It evaluates normal and uniform laws, and laws that are
the same for all x, itself; a law may also stay at x with some probability, be rounded or clipped, or be kept
in a range. The tails of other laws are computed here, for as many rows at once as fit into memory.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from predgap import _core
from predgap._engine.accuracy import Accuracy, Prices
from predgap._engine.context import LIMITS, Call, Context
from predgap._inputs.categories import UNSEEN, Categories
from predgap._inputs.tables import FEWEST_WHOLE, whole_columns
from predgap._model.ensemble import ALL_OUTPUTS, LEAF, NUMERIC, Ensemble, tree_of_node, used_features
from predgap._text import count, format_items, warn
from predgap._typing import BoolArray, FloatArray, IndexArray, IntArray
from predgap.errors import CostError, NoiseError, PredgapError, TableError
from predgap.noise import Background, Noise
from predgap.noise.added import NormalLaw, UniformLaw
from predgap.noise.combined import KeptLaw, MappedLaw, StayLaw, WithinLaw
from predgap.noise.law import Law, StillLaw, unmoved_tails

ByteArray = NDArray[np.uint8]
Strategy = Literal["plan", "compiled", "cells", "pairs"]
Members = tuple[tuple[int, ...], ...]
"""The features of each unit; units are ordered by their first feature."""

QUIET: Final = Context(Call(""))
"""The context of short work that shows no progress."""

_TABLE_BYTES: Final = 32 << 20  # limit of memory for the tails of laws that the core cannot evaluate
_SET_BYTES: Final = 1 << 30  # limit of memory for the sets of categories in splits
_PROBABILITY_ERROR: Final = 1e-9  # allowed difference of a sum of probabilities from 1


def laws_for_model(noise: Noise, ensemble: Ensemble) -> dict[int, Law]:
    """The law of each feature that the model splits on, by index; NoiseError if the noise does not fit."""
    used = used_features(ensemble)
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


def background_rows(noise: Background, ensemble: Ensemble) -> FloatArray:
    """The rows of a background as the model sees them, (m, d); NaN for features that no split uses."""
    used = used_features(ensemble)
    rows = noise.rows_for(used, ensemble.n_features, ensemble.feature_names, ensemble.categorical())
    try:
        return ensemble.cast(rows)
    except TableError as error:
        raise noise.unusable(error) from None


# ---- the kernel -------------------------------------------------------------------------------------------


class Kernel:
    """A model and how its features move; `core` answers questions about rows.

    Features move independently by the law of each, or together if there is a background: they then take the
    values of one of its rows.

    Parameters
    ----------
    ensemble : Ensemble
    laws : dict
        The law of each feature that some split tests; empty with a background.
    background : (m, d) array, or None
        Rows as `Ensemble.cast` gives them.
    members : tuple of tuples, or None
        The features of each unit: these move at the same time and are ranked as one. None: each is one.
    strategy : str or None
        Forces an algorithm, in tests and benchmarks.
    """

    core: _core.Independent | _core.Joint

    def __init__(
        self,
        ensemble: Ensemble,
        laws: dict[int, Law],
        background: FloatArray | None = None,
        members: Members | None = None,
        strategy: Strategy | None = None,
    ) -> None:
        e = ensemble
        self.ensemble, self.background, self.members, self.strategy = ensemble, background, members, strategy
        self.n_units = e.n_features if members is None else len(members)
        self.model = _core.Model(
            e.n_features,
            e.n_outputs,
            e.root,
            e.target,
            e.feature,
            e.threshold,
            e.left,
            e.right,
            e.default_left.view(np.uint8),
            e.value,
            *_level_sets(e),
        )
        self.used: BoolArray = np.zeros(e.n_features, dtype=np.bool_)  # features that some split tests
        self.used[used_features(e)] = True
        self.every: BoolArray = np.ones((1, e.n_features), dtype=np.bool_)
        self.units = _core_units(members)
        self._accuracies: dict[Accuracy, _core.Accuracy] = {}
        self._jointly: Kernel | None = None
        self._take(laws, warns=True)

    def _take(self, laws: dict[int, Law], *, warns: bool) -> None:
        """Makes the core of these laws, or of the background."""
        e = self.ensemble
        self.laws = laws
        self._categorical = _categorical_features(self.model, e, laws)
        numeric = {q: law for q, law in laws.items() if q not in e.categorical()}
        warned = [q for q, law in numeric.items() if law.continuous and warns]
        self._continuous = np.array(warned, dtype=np.intp)
        self._keeping = {q: law for q, law in numeric.items() if law.keeps}
        self._tabulated: list[_Tabulated] = []
        self.rows_at_once = sys.maxsize  # whose tails fit into memory
        if self.background is None:
            self._n_thresholds = len(self.model.thresholds)
            arrays = self._law_arrays(e, numeric)
            self.core = _core.Independent(self.model, *arrays, *self._masses(e, laws))
            if self._tabulated:
                self.rows_at_once = max(1, _TABLE_BYTES // (16 * max(1, self._n_thresholds)))
        else:
            self.core = _core.Joint(self.rows(self.background, self.every))

    @property
    def moves_together(self) -> bool:
        """Whether features move together, by a background: answers are then exact."""
        return self.background is not None

    def independent(self, what: str, instead: str = "its answers are exact already: leave method out") -> Any:
        """The core if features move independently; else PredgapError, which says what needs that."""
        if isinstance(self.core, _core.Independent):
            return self.core
        raise PredgapError(
            f"{what} needs features that move independently of each other; Background moves them together, "
            f"and {instead}"
        )

    def accuracy(self, accuracy: Accuracy) -> _core.Accuracy:
        """An accuracy in the form of the core."""
        made = self._accuracies.get(accuracy)
        if made is None:
            made = _core.Accuracy(accuracy.kind, accuracy.tolerance, self.strategy or "auto")
            self._accuracies[accuracy] = made
        return made

    def features_of(self, order: IntArray) -> BoolArray:
        """Which features occur in each row of an order of units, as masks (1 or n, d)."""
        if order.shape[1] == self.n_units:
            return self.every
        masks = np.zeros((len(order), self.n_units), dtype=np.bool_)
        np.put_along_axis(masks, order.astype(np.intp), True, axis=1)
        return masks if self.members is None else masks[:, unit_of_each(self.members)]

    def tossing(self, t: float, features: BoolArray) -> Kernel:
        """The same kernel, with each of some features (d,) moving with probability t and else staying."""
        other = copy.copy(self)
        other._jointly = None
        laws = {q: StayLaw(law, 1.0 - t, t) if features[q] else law for q, law in self.laws.items()}
        other._take(laws, warns=False)
        return other

    def with_joint_outputs(self) -> Kernel:
        """A kernel that gives the covariances of all outputs, which need terms that the outputs share: trees
        of single outputs get vectors for leaves."""
        if self.moves_together or self.ensemble.n_outputs == self.ensemble.value.shape[1]:
            return self
        if self._jointly is None:
            joint = with_vector_leaves(self.ensemble)
            self._jointly = Kernel(joint, self.laws, None, self.members, self.strategy)
        return self._jointly

    # ---- rows ----

    def check(self, values: FloatArray, masks: BoolArray, context: Context) -> None:
        """Looks at all rows of a call, (n, d), of which the features of `masks` (1 or n, d) may move.

        NoiseError if Flip should perturb a category that the model does not know. Warns once of continuous
        noise on columns of whole numbers.
        """
        if len(values) >= FEWEST_WHOLE and len(self._continuous):
            moved = self._continuous[masks[:, self._continuous].any(axis=0)]
            whole = moved[whole_columns(values[:, moved])]
            if len(whole):
                self._warn_of_whole_numbers(whole)
        for feature in self._categorical:
            if feature.flips:
                codes = values[:, feature.q]
                unseen = ~np.isnan(codes) & (feature.levels.levels_of(codes) < 0)
                self._refuse_unseen(feature, unseen & masks[:, feature.q], context)

    def chunks(self, n: int) -> Iterator[IndexArray]:
        """The n rows of a call in parts whose tails fit into memory."""
        for first in range(0, max(n, 1), self.rows_at_once):
            yield np.arange(first, min(first + self.rows_at_once, n))

    def rows(self, values: FloatArray, masks: BoolArray) -> _core.Rows:
        """Cast rows (n, d) for the core, of which the features of `masks` (1 or n, d) may move."""
        still = self._still(values) if self._keeping or self._categorical else None
        x = self._with_cells(values) if self._categorical else np.ascontiguousarray(values)
        below, above = self._tails(x, masks) if self._tabulated else (None, None)
        return _core.Rows(self.model, x, below, above, still)

    def typical_rows(self) -> FloatArray:
        """A few rows (m, d) made up from the model's thresholds, all of which the noise can perturb."""
        x = self.model.typical_rows()
        rows = x.copy()
        for feature in self._categorical:
            cells = x[:, feature.q]
            missing = np.isnan(cells)
            code = feature.code_of_cell(np.where(missing, 0, cells).astype(np.intp))
            rows[:, feature.q] = np.where(missing, np.nan, code)
        for number in self._tabulated:
            rows[:, number.q] = number.law.movable(x[:, number.q])
        return rows

    def _with_cells(self, values: FloatArray) -> FloatArray:
        """Rows with the codes of categories replaced by their cells."""
        x = np.array(values, order="C")
        for feature in self._categorical:
            codes = values[:, feature.q]
            at = feature.levels.levels_of(codes)
            x[:, feature.q] = np.where(np.isnan(codes), np.nan, feature.cell[at])
        return x

    def _tails(self, x: FloatArray, masks: BoolArray) -> tuple[FloatArray, FloatArray]:
        """The tails (n, n_thresholds) of laws that the core cannot evaluate; 0 for all others."""
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
        return below, above

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

    def _warn_of_whole_numbers(self, columns: IndexArray) -> None:
        """Warns, once, that continuous noise perturbs columns of whole numbers."""
        self._continuous = self._continuous[:0]
        warn(
            f"continuous noise moves {count(len(columns), 'column')} of whole numbers: "
            f"{format_items(self.ensemble.names[q] for q in columns.tolist())}. How often it changes a "
            "prediction depends on where between two values the library splits; use Relative(X), or Rounded "
            "noise",
        )

    def _refuse_unseen(self, feature: _Categorical, unseen: BoolArray, context: Context) -> None:
        """NoiseError if a row has an unknown category: Flip is defined for known ones only."""
        if unseen.any():
            raise NoiseError(
                f"row {context.number(np.flatnonzero(unseen)[0])} has a category of feature "
                f"{self.ensemble.names[feature.q]!r} that the model does not know, but Flip only changes "
                "known categories; drop such rows, or give the feature Discrete noise"
            )

    # ---- prices ----

    def prices(
        self,
        values: FloatArray,
        question: Any,
        masks: BoolArray,
        n: int,
        accuracy: Accuracy,
        order: IntArray | None = None,
        *,
        closely: bool = False,
    ) -> Prices:
        """The expected cost of a question about the features in `masks`; n: places, or units of which all
        subsets are asked; order: of a curve; closely: counted on some of the trees, which takes longer."""
        n_rows = len(values)
        if isinstance(self.core, _core.Joint):
            exact = exact_codes(n_rows)
            if question == "subsets":
                takes = self.core.box_costs(self.rows(values, self.every), n, QUIET, self.units)[0][:, 2]
                return Prices(exact, takes, np.full(n_rows, 8e-6 * (1 << n)))
            takes_all, needs = self.core.cost(question, self.n_units, n)
            return Prices(exact, np.full(n_rows, takes_all), np.full(n_rows, needs))
        found = []
        for at in self.chunks(n_rows):
            some, own = values[at], rows_of(masks, at)
            rows, features, how = self.rows(some, own), as_bytes(own), self.accuracy(accuracy)
            places = None if order is None else rows_of(order, at)
            way = self.core.cost(rows, question, features, n, how, QUIET, self.units, places, closely)
            method, _, _, milliseconds, megabytes, _ = way
            found.append((method, milliseconds, megabytes))
        return Prices(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def refusal(
        self,
        call: Call,
        row: int,
        milliseconds: float,
        megabytes: float,
        looser: tuple[float, float] | None = None,
    ) -> CostError:
        """The error of a row that would exceed the limits; looser: an rtol that fits, its seconds."""
        if self.background is None:
            return call.refusal(row, milliseconds, megabytes, looser)
        return CostError(
            f"{call.described}: with {len(self.background):,} background rows a row would take about "
            f"{milliseconds:,.0f} ms and {megabytes:,.0f} MB; {LIMITS}. Both grow with the background: use "
            f"Background(X, max_rows=...) with fewer rows. {call.hint}".rstrip()
        )

    # ---- laws ----

    def _law_arrays(
        self, ensemble: Ensemble, numeric: dict[int, Law]
    ) -> tuple[ByteArray, FloatArray, FloatArray, FloatArray]:
        """The laws of all features for the core: kinds, parameters, places and tails of thresholds.

        Notes those whose tails must be computed in Python.
        """
        thresholds, begin = self.model.thresholds, self.model.threshold_begin
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

    def _masses(self, ensemble: Ensemble, laws: dict[int, Law]) -> tuple[FloatArray, FloatArray]:
        """P(x' in the cell) for each cell of the categorical features, if x is not in it, and if it is."""
        begin = self.model.cell_begin
        mass, stay = np.zeros(begin[-1]), np.ones(begin[-1])
        for feature in self._categorical:
            law = laws.get(feature.q)
            if law is None:
                continue
            reached, stays, unseen = _category_probabilities(
                law, feature.levels, self.ensemble.names[feature.q]
            )
            if unseen > 0 and ensemble.unseen_is_missing:
                raise NoiseError(
                    f"the noise of feature {self.ensemble.names[feature.q]!r} may give it a category that "
                    "the model does not know, which counts as missing; noise cannot make a value missing: "
                    "drop it"
                )
            if (reached[feature.levels.codes == ensemble.missing] > 0).any():
                raise NoiseError(
                    f"the noise of feature {self.ensemble.names[feature.q]!r} may give it the category "
                    f"{ensemble.missing:g}, which means missing to the model; noise cannot make it missing"
                )
            cells = slice(begin[feature.q], begin[feature.q + 1])
            own = feature.cell[:-1].astype(np.intp)
            unseen_stays = float(law.unseen_stays_probability(feature.levels))
            mass[cells], stay[cells] = _of_cells(
                reached, stays, unseen, unseen_stays, own, cells.stop - cells.start
            )
        return mass, stay


@dataclass(frozen=True, slots=True, eq=False)
class NoiseOfModel:
    """What was read off a noise for a model: the law of each feature, or the rows of a background.

    It is far smaller than the table of a noise, and makes the kernels of the model and of each of its
    outputs.
    """

    noise: Noise  # for features that it was not read off for
    features: frozenset[int]
    laws: dict[int, Law]
    background: FloatArray | None  # (m, d)

    @classmethod
    def of(cls, noise: Noise, ensemble: Ensemble) -> Self:
        """NoiseError if the noise does not fit the model."""
        features = frozenset(used_features(ensemble))
        if isinstance(noise, Background):
            return cls(noise, features, {}, background_rows(noise, ensemble))
        return cls(noise, features, laws_for_model(noise, ensemble), None)

    def called(self, noise: Noise) -> Self:
        """The same, with another noise in place of that which it was read off."""
        return replace(self, noise=noise)

    def kernel(self, ensemble: Ensemble, members: Members | None, strategy: Strategy | None) -> Kernel:
        """The kernel of the model, of one of its outputs, or of a model that has more outputs."""
        used = used_features(ensemble)
        if not self.features.issuperset(used):
            return self.of(self.noise, ensemble).kernel(ensemble, members, strategy)
        if self.background is None:
            return Kernel(ensemble, {q: self.laws[q] for q in used}, None, members, strategy)
        rows = np.full_like(self.background, np.nan)
        rows[:, used] = self.background[:, used]
        return Kernel(ensemble, {}, rows, members, strategy)


def rows_of(array: NDArray[Any], some: IndexArray) -> NDArray[Any]:
    """The part of an array that belongs to some rows; all of it if it has one row for all."""
    return array if len(array) == 1 else array[some]


def as_bytes(masks: BoolArray) -> ByteArray:
    """Masks in the form of the core."""
    return np.ascontiguousarray(masks).view(np.uint8)


def exact_codes(n: int) -> ByteArray:
    """The method code of exact answers, (n,)."""
    return np.full(n, _core.METHODS.index("exact"), dtype=np.uint8)


def any_member(features: BoolArray, members: Members) -> BoolArray:
    """Which units have a feature of these (n, d), (n, n_units)."""
    units = [features[:, list(unit)].any(axis=1) for unit in members]
    return np.stack(units, axis=1) if units else np.zeros((len(features), 0), dtype=np.bool_)


def unit_of_each(members: Members) -> IndexArray:
    """The unit of each feature, (d,)."""
    units = np.empty(sum(map(len, members)), dtype=np.intp)
    for number, unit in enumerate(members):
        units[list(unit)] = number
    return units


def _core_units(members: Members | None) -> _core.Units | None:
    """The units in the form of the core; None if each feature is one."""
    if members is None or all(len(unit) == 1 for unit in members):
        return None
    ends = np.cumsum([0, *map(len, members)], dtype=np.int32)
    return _core.Units(ends, np.concatenate([np.array(unit, dtype=np.int32) for unit in members]))


# ---- laws in the form of the core ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class KernelLaw:
    """A law at the thresholds (k,) of its feature."""

    kind: str  # a name of `_core.LAWS`; "table" if the kernels need its tails computed
    at: FloatArray  # (k,) x' >= t where x plus the law's number is at least this; may be infinite
    parameter: float = 0.0
    stays: float = 0.0  # P(x' = x) by staying
    moves: float = 1.0  # the rest
    low: float = -math.inf  # x' is not below this, or x if that is less
    high: float = math.inf  # x' is not above this, or x if that is more
    fixed: Law | None = None  # if it is "fixed": the law whose tails are the same for all x


def kernel_law(law: Law, thresholds: FloatArray) -> KernelLaw:
    """The form of a law for the kernels. Values that are `law.still` do not count: they do not move."""
    match law:
        case StillLaw():
            return KernelLaw("still", thresholds)
        case NormalLaw(scale):
            return KernelLaw("normal", thresholds, scale)
        case UniformLaw(half_width):
            return KernelLaw("uniform", thresholds, half_width)
        case StayLaw(inner, stays, moves):
            found = kernel_law(inner, thresholds)
            if found.kind in ("table", "still"):
                return found
            return replace(found, stays=stays + moves * found.stays, moves=moves * found.moves)
        case KeptLaw(inner):
            return kernel_law(inner, thresholds)
        case WithinLaw(inner, low, high):
            return replace(kernel_law(inner, thresholds), low=low, high=high)
        case MappedLaw(inner) if isinstance(inner, NormalLaw | UniformLaw | MappedLaw):
            found = kernel_law(inner, law.before(thresholds))
            if found.kind in ("normal", "uniform") and found.stays == 0:
                return found
    return KernelLaw("fixed", thresholds, fixed=law) if law.forgets else KernelLaw("table", thresholds)


@dataclass(frozen=True, slots=True, eq=False)
class _Tabulated:
    """A numeric feature with a law that kernels cannot evaluate; its tails are computed in Python."""

    q: int
    law: Law
    at: slice  # its thresholds, among those of all features
    thresholds: FloatArray


def _categorical_features(
    model: _core.Model, ensemble: Ensemble, laws: dict[int, Law]
) -> tuple[_Categorical, ...]:
    of_level, first, found = model.cell_of_level, 0, []
    for q, levels in ensemble.categorical().items():
        cell = np.append(of_level[first : first + len(levels)], 0).astype(np.float64)
        law = laws.get(q, StillLaw())
        with _about(ensemble.names[q]):
            found.append(_Categorical(q, levels, cell, law.known_only, law.kept(levels)))
        first += len(levels)
    return tuple(found)


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


# ---- categories ------------------------------------------------------------------------------------------


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


def _category_probabilities(
    law: Law, levels: Categories, feature: str
) -> tuple[FloatArray, FloatArray, float]:
    """P(x' is it) for each known category, (m,), if x is another one, and if x is it; and P(x' is unknown).

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


def _level_sets(e: Ensemble) -> tuple[IntArray, ...]:
    """The sets of categories in splits, as arrays for the kernels.

    They are: the set of each node (NUMERIC if none), the number of category levels of each feature (-1 if
    numeric), the feature of each set, where each set begins, and the members of all sets. A member is an
    index among the category levels of the feature, not a code.
    """
    categorical = e.categorical()
    n_levels = np.full(e.n_features, -1, dtype=np.int32)
    for q, levels in categorical.items():
        n_levels[q] = len(levels)
    nodes = np.flatnonzero((e.feature != LEAF) & (e.category_set != NUMERIC))
    size = float((n_levels[e.feature[nodes]] / 8.0).sum())
    if size > _SET_BYTES:
        raise CostError(
            f"{len(nodes):,} splits on features of up to {n_levels.max():,} categories need "
            f"{size / 1e6:,.0f} MB; the limit is {_SET_BYTES / 1e6:,.0f} MB. Train with fewer categories"
        )
    pairs, which = np.unique(np.stack([e.feature[nodes], e.category_set[nodes]]), axis=1, return_inverse=True)
    of_node = np.full(e.n_nodes, NUMERIC, dtype=np.int32)
    of_node[nodes] = which.reshape(-1)
    places = [
        categorical[int(q)].levels_of(e.set_code[e.set_begin[s] : e.set_begin[s + 1]].astype(np.float64))
        for q, s in pairs.T
    ]
    begin = np.cumsum([0, *map(len, places)], dtype=np.int32)
    levels_in = np.concatenate([*places, np.empty(0)]).astype(np.int32)
    return of_node, n_levels, np.ascontiguousarray(pairs[0], dtype=np.int32), begin, levels_in


# ---- outputs with shared terms ----


def with_vector_leaves(ensemble: Ensemble) -> Ensemble:
    """The same model, whose leaves have one value per output: 0 for those that their tree does not add to."""
    e = ensemble
    size = 8.0 * e.n_nodes * e.n_outputs
    if size > _core.MOST_BYTES:
        raise CostError(
            f"{e.n_nodes:,} nodes with values for {e.n_outputs} outputs need {size / 1e6:,.0f} MB; the limit "
            f"is {_core.MOST_BYTES / 1e6:,.0f} MB. Explain one output at a time: Explainer(..., output=...)"
        )
    tree = tree_of_node(e)
    leaves = np.flatnonzero((e.feature == LEAF) & (tree >= 0))
    value = np.zeros((e.n_nodes, e.n_outputs))
    value[leaves, e.target[tree[leaves]]] = e.value[leaves, 0]
    return replace(e, value=value, target=np.full_like(e.target, ALL_OUTPUTS))
