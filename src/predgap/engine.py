"""Between the explainer and the kernels: laws become tables, rows become chunks, costs become a choice."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from predgap import _core
from predgap.categories import Categories
from predgap.ensemble import LEAF, NUMERIC, Ensemble
from predgap.errors import CostError, NoiseError, PredgapError
from predgap.laws import FlipLaw, Law, NormalLaw, StillLaw, UniformLaw

FloatArray = NDArray[np.float64]
Strategy = Literal["terms", "pairs"]
Nested = Literal["curve", "greedy", "single"]  # what asks for many subsets of a row
Progress = Callable[[int, int], object]

_STILL, _NORMAL, _UNIFORM, _TABLE, _CATEGORY = range(5)  # as in kernels.hpp

_TABLE_BYTES: Final = 32 << 20  # tails of laws that only Python can evaluate, held at once
_SET_BYTES: Final = 1 << 30  # of the sets of categories that splits test
_CHEAP_NANOSECONDS: Final = 2e4  # of a gap by terms, below which planning takes longer than it gains
_MOST_CHOICES: Final = 10_000  # of a strategy that are remembered
_STEPS_LOOKED_AT: Final = 32  # of a ranking, when its cost is estimated
_SECONDS_PER_ROW: Final = 120.0  # past this a row is refused
_SECONDS_UNASKED: Final = 5.0  # past this it is estimated, where the caller leaves that to us


@dataclass(frozen=True, slots=True)
class Engine:
    """The kernels of one ensemble with one output, under one law per feature."""

    ensemble: Ensemble
    laws: tuple[Law, ...]
    n_threads: int = 1
    progress: Progress | None = None  # told the rows done and their number, now and then
    forced: Strategy | None = None
    kernels: _core.Engine = field(init=False)
    arrivals: _core.CategoryNoise | None = field(init=False)  # None if all features are numeric
    full_cost: float = field(init=False)  # nanoseconds of one gap by terms when all features move
    choices: dict[bytes, Strategy] = field(init=False, default_factory=dict)  # by subset

    def __post_init__(self) -> None:
        e = self.ensemble
        kernels = _core.Engine(
            e.n_features,
            e.root,
            e.feature,
            e.threshold,
            e.left,
            e.right,
            e.default_left.view(np.uint8),
            np.ascontiguousarray(e.value[:, 0]),
            *_level_sets(e),
        )
        object.__setattr__(self, "kernels", kernels)
        object.__setattr__(self, "arrivals", self._arrivals())
        object.__setattr__(self, "full_cost", kernels.cost(np.ones(e.n_features, dtype=np.uint8))[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return Engine, (self.ensemble, self.laws, self.n_threads, self.progress, self.forced)

    def gap(self, rows: FloatArray, mask: NDArray[np.bool_]) -> FloatArray:
        """Gaps (n,) of cast rows (n, d); mask (d,) or (n, d)."""
        if mask.ndim == 1:
            return self._gap(rows, mask[None], self._choose_gap(mask))
        chosen = _each_distinct(mask, self._choose_gap)
        out = np.empty(len(rows))
        for strategy in set(chosen):  # a row's answer must not depend on its neighbours' subsets
            mine = chosen == strategy
            out[mine] = self._gap(rows[mine], mask[mine], strategy)
        return out

    def _gap(self, rows: FloatArray, masks: NDArray[np.bool_], strategy: Strategy) -> FloatArray:
        subsets = np.ascontiguousarray(masks).view(np.uint8)
        moved: NDArray[np.bool_] = np.any(masks, axis=0)
        out = np.empty(len(rows))
        for part, x, noise, progress in self.chunks(rows, self.rows_at_once(), moved):
            subset = subsets if len(subsets) == 1 else subsets[part]
            out[part] = self.kernels.gap(x, noise, subset, strategy, self.n_threads, progress)
        return out

    def bounded(
        self, rows: FloatArray, mask: NDArray[np.bool_], rtol: float
    ) -> tuple[FloatArray, FloatArray]:
        """Gaps (n,) without the branches that provably change them by less than `rtol`, and how far they may
        be off; mask (d,) or (n, d). Where that takes too long, they may be off by more."""
        masks = np.broadcast_to(mask, rows.shape)
        by_terms = _each_distinct(masks, self._prefers_terms).astype(np.bool_)
        out = np.zeros((len(rows), 2))
        out[by_terms, 0] = self._gap(rows[by_terms], masks[by_terms], "terms")
        out[~by_terms] = self._bounded(rows[~by_terms], masks[~by_terms], rtol)
        return out[:, 0], out[:, 1]

    def _bounded(self, rows: FloatArray, masks: NDArray[np.bool_], rtol: float) -> FloatArray:
        subsets = np.ascontiguousarray(masks).view(np.uint8)
        out = np.empty((len(rows), 2))
        for part, x, noise, progress in self.chunks(rows, self.rows_at_once(), np.any(masks, axis=0)):
            out[part] = self.kernels.bounded(x, noise, subsets[part], rtol, self.n_threads, progress)
        return out

    def _prefers_terms(self, subset: NDArray[np.bool_]) -> bool:
        terms, pairs, _, _ = self.kernels.cost(subset.view(np.uint8))
        return self.kernels.has_terms and self._cheaper(terms, pairs)[0] == "terms"

    def mean_change(self, rows: FloatArray, mask: NDArray[np.bool_]) -> FloatArray:
        """E[f(x')] - f(x), (n,), for one mask (d,)."""
        strategy = self._choose_gap(mask)
        subset = mask[None].view(np.uint8)
        out = np.empty(len(rows))
        for part, x, noise, progress in self.chunks(rows, self.rows_at_once(), mask):
            out[part] = self.kernels.mean_change(x, noise, subset, strategy, self.n_threads, progress)
        return out

    def sample(
        self, rows: FloatArray, mask: NDArray[np.bool_], points: FloatArray, ends: NDArray[np.int64]
    ) -> FloatArray:
        """Sums of f(x') - f(x), its square and its fourth power over stretches of points.

        `points` (1 or n, m, k) lie in the unit cube, a coordinate per feature of the mask; stretches end at
        `ends` (s,). The result is (n, s, 3).
        """
        out = np.empty((len(rows), len(ends), 3))
        for part, x, noise, progress in self.chunks(rows, self.rows_at_once(), mask):
            mine = points if len(points) == 1 else points[part]
            out[part] = self.kernels.sample(
                x, noise, mask.view(np.uint8), mine, ends, self.n_threads, progress
            )
        return out

    def affordable(self, mask: NDArray[np.bool_]) -> bool:
        """Is an exact gap so quick that nobody would rather have an estimate?"""
        terms, pairs, _, _ = self.kernels.cost(mask.view(np.uint8))
        return self._cheaper(terms, pairs)[1] <= _SECONDS_UNASKED

    def curve(self, rows: FloatArray, order: NDArray[np.intp]) -> FloatArray:
        """Gaps (n, d) of the prefixes of order (n, d)."""
        strategy = _choose([self], "curve")
        orders = np.ascontiguousarray(order, dtype=np.int32)
        out = np.empty(rows.shape)
        for part, x, noise, progress in self.chunks(rows, self.rows_at_once()):
            out[part] = self.kernels.curve(x, noise, orders[part], strategy, self.n_threads, progress)
        return out

    def _choose_gap(self, subset: NDArray[np.bool_]) -> Strategy:
        """The cheaper strategy for one gap; the same for a subset whatever else is asked."""
        if self.forced is None and self.terms_are_cheap():
            return "terms"
        key = subset.tobytes()
        chosen = self.choices.get(key)
        if chosen is None:
            terms, pairs, nanoseconds, memory = self.kernels.cost(subset.view(np.uint8))
            takes = f"about {nanoseconds * 1e-6:,.0f} ms and {memory / 1e6:,.0f} MB"
            advice = "Move fewer features, use estimate(), which samples, or estimate(method='bounded')"
            chosen = self.choose(terms, pairs, f"{int(subset.sum())} features moved", takes, advice)
            if len(self.choices) == _MOST_CHOICES:
                self.choices.clear()
            self.choices[key] = chosen
        return chosen  # not looked up again: another thread may have cleared them

    def nested_costs(self, what: Nested) -> tuple[float, float]:
        """Nanoseconds of a row's curve or ranking by terms and by pairs, as if it took features by index."""
        d = self.ensemble.n_features
        looked_at = np.unique(np.linspace(0, d - 1, min(d, _STEPS_LOOKED_AT)).astype(int))
        pairs, subset = 0.0, np.zeros(d, dtype=np.uint8)
        for step in looked_at:
            subset[:step] = what != "single"
            subset[step] = 1
            candidates = d - step if what == "greedy" else 1
            pairs += candidates * self.kernels.cost(subset)[1] * d / len(looked_at)
            subset[:] = 0
        # Components are shared between the steps: measured, a curve costs a few full gaps, greedy about d.
        terms = self.full_cost * {"curve": 4, "greedy": max(d, 4), "single": 1}[what]
        return terms, pairs

    def terms_are_cheap(self) -> bool:
        """Is planning not worth its time?"""
        return self.kernels.has_terms and self.full_cost < _CHEAP_NANOSECONDS

    def _cheaper(self, terms: float, pairs: float) -> tuple[Strategy, float]:
        """The cheaper strategy, and its seconds; costs are nanoseconds."""
        chosen: Strategy = self.forced or ("terms" if terms <= pairs else "pairs")
        return chosen, (terms if chosen == "terms" else pairs) * 1e-9

    def choose(self, terms: float, pairs: float, what: str, takes: str, advice: str) -> Strategy:
        """The cheaper strategy; CostError if it is beyond the budget."""
        chosen, seconds = self._cheaper(terms, pairs)
        if seconds > _SECONDS_PER_ROW:
            raise CostError(
                f"an exact answer ({what}) may take {takes} per row: {self.ensemble.n_trees:,} trees, "
                f"{self.ensemble.n_nodes:,} nodes; the limits are {_SECONDS_PER_ROW * 1e3:,.0f} ms and "
                f"1,074 MB. {advice}, or prune the model"
            )
        return chosen

    def rows_at_once(self) -> int | None:
        """How many rows' tables fit into memory; None for any number."""
        kinds, _ = _kernel_laws(self.laws, self.ensemble.categorical())
        if not (kinds == _TABLE).any():
            return None
        return max(1, _TABLE_BYTES // (16 * max(1, len(self.kernels.thresholds))))

    def chunks(
        self, rows: FloatArray, at_once: int | None, moved: NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[slice, FloatArray, _core.NoiseTables, Callable[[int], object] | None]]:
        """Parts of the rows as the kernels see them, with their tables, small enough for memory.

        `moved` (d,) are the features that any row moves; all of them if it is not given.
        """
        moved = np.ones(rows.shape[1], dtype=np.bool_) if moved is None else moved
        kinds, parameters = _kernel_laws(self.laws, self.ensemble.categorical())
        rows, n = self._cells(rows, moved), len(rows)
        step = at_once or max(n, 1)
        for start in range(0, n, step):
            part = slice(start, min(start + step, n))
            below, above = self._tails(rows[part], moved) if (kinds == _TABLE).any() else (None, None)
            noise = _core.NoiseTables(kinds, parameters, below, above, self.arrivals)
            yield part, rows[part], noise, self._told(start, n)

    def _arrivals(self) -> _core.CategoryNoise | None:
        """The mass that the laws bring to each cell of the categorical features."""
        e = self.ensemble
        categorical = e.categorical()
        if not categorical:
            return None
        begin, cells = self.kernels.cell_begin, self.kernels.cell_of_level
        mass = np.zeros(begin[-1])
        first = 0
        for q, levels in categorical.items():
            own = cells[first : first + len(levels)]
            arrivals = _checked_arrivals(self.laws[q], levels, e.names[q])
            if (arrivals[levels.codes == e.missing] > 0).any():
                raise NoiseError(
                    f"the noise of feature {e.names[q]!r} may give it the category {e.missing:g}, which "
                    "means missing to the model; a value does not become missing"
                )
            mass[begin[q] : begin[q + 1]] = np.bincount(own, arrivals, minlength=begin[q + 1] - begin[q])
            first += len(levels)
        return _core.CategoryNoise(self.kernels, mass)

    def _cells(self, rows: FloatArray, moved: NDArray[np.bool_]) -> FloatArray:
        """Cast rows, with the codes of categories replaced by their cells."""
        categorical = self.ensemble.categorical()
        if not categorical:
            return rows
        rows, first = rows.copy(), 0
        for q, levels in categorical.items():
            at = levels.levels_of(rows[:, q])
            if moved[q]:
                self._refuse_unseen(rows[:, q], at, q)
            cell = np.append(self.kernels.cell_of_level[first : first + len(levels)], 0)
            rows[:, q] = np.where(np.isnan(rows[:, q]), np.nan, cell[at])
            first += len(levels)
        return rows

    def _refuse_unseen(self, codes: FloatArray, at: NDArray[np.intp], q: int) -> None:
        """A category that is no level cannot flip to the others."""
        unseen = ~np.isnan(codes) & (at < 0)
        if isinstance(self.laws[q], FlipLaw) and unseen.any():
            raise NoiseError(
                f"row {int(np.flatnonzero(unseen)[0])} has a category of feature "
                f"{self.ensemble.names[q]!r} that the model does not know, and Flip moves between those "
                "that it knows; drop such rows, or give the feature Discrete noise"
            )

    def _tails(self, rows: FloatArray, moved: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Tails (n, n_atoms) of the moved features whose law the kernels do not know, 0 elsewhere."""
        thresholds, begin = self.kernels.thresholds, self.kernels.threshold_begin
        below, above = np.zeros((2, len(rows), len(thresholds)))
        for q, law in enumerate(self.laws):
            atoms = slice(begin[q], begin[q + 1])
            moving = np.isfinite(rows[:, q])
            if not moved[q] or isinstance(law, _KERNEL_LAWS):
                continue
            if begin[q] < begin[q + 1] and moving.any():
                tails = law.tails(rows[moving, q], thresholds[atoms])
                below[moving, atoms], above[moving, atoms] = _checked_tails(
                    tails, below[moving, atoms].shape, law
                )
        return below, above

    def _told(self, start: int, n_rows: int) -> Callable[[int], object] | None:
        tell = self.progress
        return None if tell is None else lambda n_done: tell(start + n_done, n_rows)


def _each_distinct(masks: NDArray[np.bool_], ask: Callable[[NDArray[np.bool_]], object]) -> NDArray[Any]:
    """The answers (n,) for masks (n, d), each distinct one asked once."""
    distinct, which = np.unique(masks, axis=0, return_inverse=True)
    return np.array([ask(subset) for subset in distinct], dtype=object)[which.reshape(-1)]


def rank(
    engines: Sequence[Engine], rows: FloatArray, method: Literal["greedy", "single"]
) -> tuple[NDArray[np.intp], FloatArray]:
    """Order and scores, both (n, d), by the sum of the gaps of a model's outputs, an engine for each."""
    strategy = _choose(engines, method)
    order, scores = np.empty(rows.shape, dtype=np.intp), np.empty(rows.shape)
    at_once = min((n for n in (engine.rows_at_once() for engine in engines) if n), default=None)
    kernels = [engine.kernels for engine in engines]
    for chunk in zip(*(engine.chunks(rows, at_once) for engine in engines), strict=True):
        part, _, _, progress = chunk[0]
        rows_of, noises = [x for _, x, _, _ in chunk], [noise for _, _, noise, _ in chunk]
        order[part], scores[part] = _core.rank(
            kernels, rows_of, noises, method, strategy, engines[0].n_threads, progress
        )
    return order, scores


def affordable(engines: Sequence[Engine], what: Nested) -> bool:
    """Is an exact curve or ranking so quick that nobody would rather have an estimate?"""
    return engines[0]._cheaper(*_summed_costs(engines, what))[1] <= _SECONDS_UNASKED


def _choose(engines: Sequence[Engine], what: Nested) -> Strategy:
    """One strategy for all outputs, the cheaper one."""
    if all(engine.forced is None and engine.terms_are_cheap() for engine in engines):
        return "terms"
    costs = _summed_costs(engines, what)
    seconds = engines[0]._cheaper(*costs)[1]
    takes = f"about {seconds * 1e3:,.0f} ms" if np.isfinite(seconds) else "more memory than there may be"
    return engines[0].choose(*costs, what, takes, "Use estimator='auto', which samples, or 'bounded'")


def _summed_costs(engines: Sequence[Engine], what: Nested) -> tuple[float, float]:
    costs = [engine.nested_costs(what) for engine in engines]
    return sum(terms for terms, _ in costs), sum(pairs for _, pairs in costs)


_KERNEL_LAWS: Final = (StillLaw, NormalLaw, UniformLaw)


def _checked_tails(tails: Any, shape: tuple[int, ...], law: Law) -> list[FloatArray]:
    """Tails that a law gave, as arrays of probabilities; NoiseError if they are none."""
    arrays = [np.asarray(tail, dtype=np.float64) for tail in tails]
    if len(arrays) != 2 or any(array.shape != shape for array in arrays):
        found = ", ".join(str(array.shape) for array in arrays)
        raise NoiseError(f"the tails of {law!r} have shapes {found}; expected two arrays of {shape}")
    if not all(((array >= 0) & (array <= 1)).all() for array in arrays):
        raise NoiseError(f"the tails of {law!r} are not probabilities between 0 and 1")
    return arrays


def _checked_arrivals(law: Law, levels: Categories, feature: str) -> FloatArray:
    """Arrivals that a law gave, as an array of probabilities; NoiseError if they are none."""
    try:
        given = np.asarray(law.arrivals(levels), dtype=np.float64)
    except NoiseError as error:
        raise NoiseError(f"feature {feature!r} is categorical: {error}") from None
    most = given.sum() - given.min(initial=1.0)  # x keeps the rest, wherever it is
    if given.shape != (len(levels),) or not (given >= 0).all() or most > 1 + 1e-9:
        raise NoiseError(f"the arrivals of {law!r} are not {len(levels)} probabilities")
    return given


def _level_sets(e: Ensemble) -> tuple[NDArray[np.int32], ...]:
    """For the kernels: set of each node, levels of each feature, and the sets, each of one feature.

    A set's codes become places among the levels of its feature.
    """
    categorical = e.categorical()
    n_levels = np.full(e.n_features, -1, dtype=np.int32)
    for q, levels in categorical.items():
        n_levels[q] = len(levels)
    nodes = np.flatnonzero((e.feature != LEAF) & (e.category_set != NUMERIC))
    if float((n_levels[e.feature[nodes]] / 8.0).sum()) > _SET_BYTES:
        raise CostError(
            f"{len(nodes):,} splits on features of up to {n_levels.max():,} categories need more memory than "
            "is sensible; train with fewer categories"
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


def _kernel_laws(laws: Sequence[Law], categorical: Collection[int]) -> tuple[NDArray[np.uint8], FloatArray]:
    """The laws as the kernels know them: a kind and a number each."""
    kinds = np.full(len(laws), _TABLE, dtype=np.uint8)
    parameters = np.zeros(len(laws))
    for q, law in enumerate(laws):
        match law:
            case _ if q in categorical:
                kinds[q] = _CATEGORY
            case StillLaw():
                kinds[q] = _STILL
            case NormalLaw(scale):
                kinds[q], parameters[q] = _NORMAL, scale
            case UniformLaw(half_width):
                kinds[q], parameters[q] = _UNIFORM, half_width
    return kinds, parameters


def threads_of(n_jobs: int) -> int:
    """The number of threads that a number of jobs asks for; -1 asks for all cores."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or (n_jobs < 1 and n_jobs != -1):
        raise PredgapError(f"n_jobs is {n_jobs!r}, expected a number of threads, or -1 for all cores")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if n_jobs < 0 else min(int(n_jobs), 4 * cores)  # more would only wait for each other
