"""The class `BackgroundEngine`: the answers of `Engine` for `Background`, which moves features together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

import numpy as np

from predgap import _core
from predgap._engine.accuracy import Accuracy
from predgap._engine.deadline import watching
from predgap._engine.engine import (
    BEAM_WIDTH,
    Answer,
    ByteArray,
    Engine,
    Members,
    MomentArrays,
    Question,
    RankingMethod,
    ShareArrays,
    any_member,
)
from predgap._engine.progress import Tell
from predgap._model.ensemble import LEAF, Ensemble
from predgap._typing import BoolArray, FloatArray, IntArray
from predgap.errors import CostError, PredgapError, TableError
from predgap.noise import Background

Found = TypeVar("Found")

_EXACT: Final = _core.METHODS.index("exact")


def background_rows(noise: Background, ensemble: Ensemble) -> FloatArray:
    """The rows of a background as the model sees them, (m, d); NaN for features that no split uses."""
    used = np.unique(ensemble.feature[ensemble.feature != LEAF]).tolist()
    rows = noise.rows_for(used, ensemble.n_features, ensemble.feature_names, ensemble.categorical())
    try:
        return ensemble.cast(rows)
    except TableError as error:
        raise noise.unusable(error) from None


class BackgroundEngine(Engine):
    """The kernels of a model whose perturbed features take the values of a row of a table, together.

    All answers are exact, whatever accuracy is asked. No feature has a law. If `members` are given, orders,
    scores and `top` are those of units.
    """

    def __init__(self, ensemble: Ensemble, background: FloatArray, n_threads: int = 1) -> None:
        super().__init__(ensemble, {}, n_threads)
        self.background = background  # (m, d) as `Ensemble.cast` gives them
        self._joint = _core.Background(self._rows(background))

    def __reduce__(self) -> tuple[Any, ...]:
        return BackgroundEngine, (self.ensemble, self.background, self.n_threads)

    def method_for(self, method: str) -> str:
        if method not in ("auto", "exact"):
            raise _needs_independence(f"method={method!r}")
        return "exact"

    def gap(self, rows: FloatArray, masks: BoolArray, accuracy: Accuracy, tell: Tell = None) -> Answer:
        self._refuse_if_costly("gap", None, 0)
        return _exact(self._ask(rows, tell, self._joint.gap, _as_bytes(masks)))

    def curve(
        self,
        rows: FloatArray,
        order: IntArray,
        accuracy: Accuracy,
        tell: Tell = None,
        members: Members | None = None,
    ) -> Answer:
        self._refuse_if_costly("curve", members, order.shape[1])
        return _exact(self._ask(rows, tell, self._joint.curve, order, self._units(members)))

    def mean_change(self, rows: FloatArray, masks: BoolArray, tell: Tell = None) -> FloatArray:
        self._refuse_if_costly("gap", None, 0)
        return self._ask(rows, tell, self._joint.mean_change, _as_bytes(masks))

    def outcomes(self, row: FloatArray, mask: BoolArray) -> tuple[FloatArray, FloatArray]:
        change = self._ask(row, None, self._joint.changes, _as_bytes(mask))[0]
        return np.full(change.shape[1], 1.0 / change.shape[1]), change

    def change_range(self, rows: FloatArray, masks: BoolArray, tell: Tell = None) -> FloatArray:
        change = self._ask(rows, tell, self._joint.changes, _as_bytes(masks))
        return np.stack([change.min(axis=2, initial=0.0), change.max(axis=2, initial=0.0)], axis=2)

    def moments(
        self, rows: FloatArray, masks: BoolArray, accuracy: Accuracy, tell: Tell = None
    ) -> MomentArrays:
        self._refuse_if_costly("gap", None, 0)
        change, covariance = self._ask(rows, tell, self._joint.moments, _as_bytes(masks))
        return change, *_exact(covariance)

    joint_moments = moments  # it gives all covariances

    def sensitivity(self, *arguments: Any, **options: Any) -> ShareArrays:
        raise PredgapError(
            "sensitivity needs features that move independently of each other, so that each set of them has "
            "a variance of its own; Background moves them together. Use Marginal(X), which redraws each "
            "feature by itself"
        )

    def rank(
        self,
        rows: FloatArray,
        method: RankingMethod,
        top: int,
        accuracy: Accuracy,
        tell: Tell = None,
        members: Members | None = None,
    ) -> tuple[IntArray, FloatArray, ByteArray, FloatArray, ByteArray]:
        self._refuse_if_costly(method, members, top)
        order, scores = self._ask(rows, tell, self._joint.rank, method, top, self._units(members))
        _, bounds, methods = _exact(scores)
        return order, scores, np.ones(order.shape, dtype=np.uint8), bounds, methods

    def moving_units(self, rows: FloatArray, members: Members | None = None) -> BoolArray:
        moving = np.zeros(rows.shape, dtype=np.bool_)
        for q in np.flatnonzero(self.used).tolist():
            values, x = self.background[:, q], rows[:, q]
            value_changes = (values[None] != x[:, None]) & ~(np.isnan(values)[None] & np.isnan(x)[:, None])
            moving[:, q] = value_changes.any(axis=1)
        return moving if members is None else any_member(moving, members)

    def subset_gaps(
        self,
        rows: FloatArray,
        chosen: IntArray,
        share: FloatArray,
        accuracy: Accuracy,
        tell: Tell = None,
        members: Members | None = None,
    ) -> Answer:
        self._refuse_if_slow(self.box_milliseconds(rows, members, chosen.shape[1])[:, 2])
        gaps = self._ask(rows, tell, self._joint.subset_gaps, chosen, self._units(members))
        return _exact(gaps)

    @property
    def most_of_a_pair(self) -> int:
        """How large p + n can be in the weights of `mean_gap` and `shapley`."""
        return self._joint.most_of_a_pair

    def mean_gap(
        self, rows: FloatArray, weights: FloatArray, tell: Tell = None, members: Members | None = None
    ) -> tuple[FloatArray, ByteArray]:
        """The mean gap (n,) of a random subset, which has p given units and lacks n others with probability
        weights[p, n]; and method codes."""
        self._refuse_if_slow(self.box_milliseconds(rows, members)[:, 0])
        mean, _, method = _exact(self._ask(rows, tell, self._joint.mean_gap, weights, self._units(members)))
        return mean, method

    def shapley(
        self,
        rows: FloatArray,
        gained: FloatArray,
        lost: FloatArray,
        tell: Tell = None,
        members: Members | None = None,
    ) -> tuple[FloatArray, ByteArray]:
        """The Shapley values (n, n_units) of the gap, from what each of p units that a subset must have
        gains, and each of n others loses; and method codes."""
        self._refuse_if_slow(self.box_milliseconds(rows, members)[:, 1])
        values, _, method = _exact(
            self._ask(rows, tell, self._joint.shapley, gained, lost, self._units(members))
        )
        return values, method

    def box_milliseconds(self, rows: FloatArray, members: Members | None, n_chosen: int = 0) -> FloatArray:
        """What `mean_gap`, `shapley` and `subset_gaps` of so many units would take, (n, 3)."""
        return self._joint.box_costs(self._rows(rows), n_chosen, self._units(members), self.n_threads)

    def search(
        self,
        rows: FloatArray,
        chosen: IntArray,
        n_places: int,
        accuracy: Accuracy,
        tell: Tell = None,
        members: Members | None = None,
    ) -> tuple[IntArray, FloatArray, FloatArray, ByteArray]:
        self._refuse_if_costly("greedy", members, n_places * BEAM_WIDTH)
        units = self._units(members)
        order, gaps = self._ask(rows, tell, self._joint.search, chosen, n_places, BEAM_WIDTH, units)
        return order, *_exact(gaps)

    def cost(
        self,
        rows: FloatArray,
        question: Question,
        masks: BoolArray,
        top: int,
        accuracy: Accuracy,
        members: Members | None = None,
    ) -> tuple[ByteArray, FloatArray, FloatArray]:
        n = len(rows)
        if question == "subsets":
            takes = self.box_milliseconds(rows, members, top)[:, 2]
            return np.full(n, _EXACT, dtype=np.uint8), takes, np.full(n, 8e-6 * (1 << top))
        milliseconds, megabytes = self._cost(question, members, top)
        return np.full(n, _EXACT, dtype=np.uint8), np.full(n, milliseconds), np.full(n, megabytes)

    def sample(self, *arguments: Any, **options: Any) -> FloatArray:
        raise _needs_independence("sampling")

    def sample_curve(self, *arguments: Any, **options: Any) -> FloatArray:
        raise _needs_independence("sampling")

    def race(self, *arguments: Any, **options: Any) -> tuple[IntArray, FloatArray, FloatArray]:
        raise _needs_independence("sampling")

    def _rows(self, rows: FloatArray) -> _core.Rows:
        return self._noise.rows(*self._noise.with_cells(rows, self._every), self._every)

    def _ask(self, rows: FloatArray, tell: Tell, kernel: Callable[..., Found], *arguments: Any) -> Found:
        """Calls a kernel for all rows; reports the end, which kernels do not if they are quick."""
        found = kernel(self._rows(rows), *arguments, self.n_threads, watching(tell))
        if tell is not None:
            tell(len(rows))
        return found

    def _units(self, members: Members | None) -> _core.Units:
        every = range(self.ensemble.n_features)
        units = [[q] for q in every] if members is None else [list(features) for features in members]
        begin = np.cumsum([0, *map(len, units)], dtype=np.int32)
        return _core.Units(begin, np.array([q for features in units for q in features], dtype=np.int32))

    def _cost(self, question: Question, members: Members | None, top: int) -> tuple[float, float]:
        n_units = self.ensemble.n_features if members is None else len(members)
        return self._joint.cost(question, n_units, top)

    def _refuse_if_costly(self, question: Question, members: Members | None, top: int) -> None:
        """CostError if a row would take longer or need more memory than it may; all rows cost the same."""
        milliseconds, megabytes = self._cost(question, members, top)
        if milliseconds > 1e3 * _core.MOST_SECONDS or megabytes > _core.MOST_BYTES / 1e6:
            self._refuse(milliseconds, megabytes, ", or a smaller top" if question == "greedy" else "")

    def _refuse_if_slow(self, milliseconds: FloatArray) -> None:
        """CostError if one of the rows would take longer than it may."""
        if milliseconds.max(initial=0.0) > 1e3 * _core.MOST_SECONDS:
            self._refuse(float(milliseconds.max()), self._cost("gap", None, 0)[1])

    def _refuse(self, milliseconds: float, megabytes: float, instead: str = "") -> NoReturn:
        raise CostError(
            f"with {len(self.background):,} background rows a row would take about {milliseconds:,.0f} "
            f"ms and {megabytes:,.0f} MB; the limits per row are {1e3 * _core.MOST_SECONDS:,.0f} ms and "
            f"{_core.MOST_BYTES / 1e6:,.0f} MB. Both grow with the background: use Background(X, "
            f"max_rows=...) with fewer rows{instead}"
        )


def _needs_independence(what: str) -> PredgapError:
    return PredgapError(
        f"{what} needs features that move independently of each other; Background moves them together, and "
        "its answers are exact already: leave method out"
    )


def _exact(found: FloatArray) -> Answer:
    """Gaps as an answer without an error."""
    return found, np.zeros(len(found)), np.full(len(found), _EXACT, dtype=np.uint8)


def _as_bytes(masks: BoolArray) -> ByteArray:
    return np.ascontiguousarray(masks).view(np.uint8)
