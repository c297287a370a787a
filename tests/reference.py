"""Slow twins of the engine: every number it gives, computed the way the definition reads.

    PG²(x, S) = E[(f(x') − f(x))²]      x'_i perturbed for i ∈ S, x'_i = x_i otherwise

`gap_by_definition` sums over the cells that x' may fall in, `gap_by_pairs` over pairs of leaves. Both are
generic: with `number=Fraction` (the default) they make no rounding error at all on top of the tails they
are given, with an `mpmath` number as little as asked for. `gap_in_longdouble` is the second one, vectorised
for models of the paper's size. Rankings and scores are written on top of any of them.

Nothing here uses the engine, and all of it may be slow.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar

import mpmath
import numpy as np

from predgap._inputs.categories import UNSEEN
from predgap._model.ensemble import LEAF, NUMERIC, Ensemble

Number = Any  # float, Fraction or an mpmath number
Tails = Any
"""(feature, x, thresholds) -> P(x' < t), P(x' >= t) for each threshold; see `NoiseTails` for categories."""

HIGH = mpmath.mp.clone()
HIGH.dps = 60

ULP = 2.0**-52


# --- the perturbed features of a row ------------------------------------------------------------------


Interval = tuple[float, float]  # half-open
Region = Interval | frozenset[float]
"""Where a box lets a feature be: between two thresholds, or at some of its categories."""


@dataclass(frozen=True)
class Axis:
    """A perturbed feature of one row: its thresholds, and how likely x' falls on either side of each."""

    x: float
    below: dict[float, Number]  # threshold t -> P(x' < t), with -inf -> 0; ascending
    above: dict[float, Number]  # threshold t -> P(x' >= t), with +inf -> 0; ascending

    everywhere: ClassVar[Interval] = (-math.inf, math.inf)

    def mass(self, region: Interval) -> Number:
        """P(left <= x' < right), from tails on their own side of x: they keep their digits."""
        left, right = region
        if left >= right:
            return 0
        if right <= self.x:
            return self.below[right] - self.below[left]
        if left > self.x:
            return self.above[left] - self.above[right]
        return 1 - self.below[left] - self.above[right]

    def reach(self, region: Interval) -> Number:
        """P(x' gets as far as [left, right)): 1 inside, else the tail from its near end on."""
        left, right = region
        return self.below[right] if right <= self.x else self.above[left] if left > self.x else 1

    def cells(self) -> list[Interval]:
        """The half-open intervals that the thresholds cut the axis into."""
        ends = [*self.below, math.inf]
        return list(itertools.pairwise(ends))


@dataclass(frozen=True)
class LevelAxis:
    """A perturbed categorical feature of one row: the code it has, and how likely x' has each."""

    x: float
    probability: dict[float, Number]  # code -> P(x' = code), that of x among them; they sum to 1

    @property
    def everywhere(self) -> frozenset[float]:
        return frozenset(self.probability)

    def mass(self, region: frozenset[float]) -> Number:
        """P(x' in the region)."""
        return sum((self.probability[code] for code in region), 0 * self.probability[self.x])

    def reach(self, region: frozenset[float]) -> Number:
        return 1 if self.x in region else self.mass(region)

    def cells(self) -> list[frozenset[float]]:
        return [frozenset({code}) for code in sorted(self.everywhere)]


def level_axis(x: float, probability: dict[float, float], number: Number) -> LevelAxis:
    """Probabilities are doubles, whose sum may miss 1 by their rounding: here it does not."""
    exact = {code: number(p) for code, p in probability.items()}
    total = sum(exact.values())
    return LevelAxis(x, {code: p / total for code, p in exact.items()})


def perturbed(
    ensemble: Ensemble, x: Any, subset: Iterable[int], tails: Tails, number: Number
) -> dict[int, Axis | LevelAxis]:
    """The features of the subset that move: a missing value stays missing; noise that is added moves no
    infinite one, noise that replaces x does."""
    axes: dict[int, Axis | LevelAxis] = {}
    for j in sorted(set(subset)):
        if j in ensemble.categorical() and not math.isnan(x[j]):
            axes[j] = level_axis(float(x[j]), tails.categories(j, float(x[j])), number)
        elif math.isfinite(x[j]) or (math.isinf(x[j]) and replaces(tails, j)):
            thresholds = thresholds_of(ensemble, j)
            below, above = tails(j, float(x[j]), thresholds)
            axes[j] = Axis(
                min(float(x[j]), sys.float_info.max),  # infinity is in no half-open interval
                {-math.inf: number(0)} | dict(zip(thresholds, map(number, below), strict=True)),
                dict(zip(thresholds, map(number, above), strict=True)) | {math.inf: number(0)},
            )
    return axes


def point_of(region: Region) -> float:
    """A value that stands for its cell: all of it goes the same way in every tree."""
    return next(iter(region)) if isinstance(region, frozenset) else region[0]


def thresholds_of(ensemble: Ensemble, feature: int) -> list[float]:
    return [float(t) for t in np.unique(ensemble.threshold[ensemble.feature == feature])]


class NoiseTails:
    """The probabilities that a noise gives, in double precision, as the engine sees them."""

    def __init__(self, noise: Any, ensemble: Ensemble) -> None:
        self._levels = ensemble.categorical()
        self._laws = [
            law if j in self._levels else law.avoiding(*ensemble.missing_range)
            for j, law in enumerate(noise.laws(ensemble.n_features, ensemble.names))
        ]

    def __call__(
        self, feature: int, x: float, thresholds: Sequence[float]
    ) -> tuple[Sequence[float], Sequence[float]]:
        below, above = self._laws[feature].tails(np.array([x]), np.array(thresholds, dtype=np.float64))
        return [float(p) for p in below[0]], [float(p) for p in above[0]]

    def replaces(self, feature: int) -> bool:
        """Is x' a new value, rather than x plus something?"""
        return bool(self._laws[feature].replaces)

    def categories(self, feature: int, x: float) -> dict[float, float]:
        """code -> P(x' = code), for a row whose code is x."""
        levels, law = self._levels[feature], self._laws[feature]
        codes = levels.codes.astype(float).tolist()
        if x in law.kept(levels):
            return dict.fromkeys(codes, 0.0) | {x: 1.0}
        found = dict(zip(codes, law.category_probabilities(levels).tolist(), strict=True))
        stays = dict(zip(codes, law.staying_probabilities(levels).tolist(), strict=True))
        found |= {x: stays[x] if x in stays else law.unseen_stays_probability(levels)}
        unseen = law.unseen_probability(levels)
        return found | {UNSEEN: found.get(UNSEEN, 0.0) + unseen} if unseen else found


def replaces(tails: Tails, feature: int) -> bool:
    return isinstance(tails, NoiseTails) and tails.replaces(feature)


def tails_of(noise: Any, ensemble: Ensemble) -> Tails:
    return NoiseTails(noise, ensemble)


class SingleTails(NoiseTails):
    """The tails of x' rounded to float32, as a library sees it; noise is added to the row as it is given."""

    def __init__(self, noise: Any, ensemble: Ensemble, given: Any) -> None:
        super().__init__(noise, ensemble)
        self._given = given

    def __call__(
        self, feature: int, x: float, thresholds: Sequence[float]
    ) -> tuple[Sequence[float], Sequence[float]]:
        first = first_rounded_to(np.array(thresholds, dtype=np.float64))
        return super().__call__(feature, float(self._given[feature]), first.tolist())


def first_rounded_to(thresholds: Any) -> Any:
    """For each t the least float64 that float32 rounds to t or more, by bisection of all float64."""
    end = int(np.float64(math.inf).view(np.int64))
    low, high = np.full((2, len(thresholds)), [[1 - end], [end]])
    while (low + 1 < high).any():
        middle = low // 2 + high // 2 + (low % 2 + high % 2) // 2  # their sum may be too large
        with np.errstate(over="ignore"):
            enough = _float(middle).astype(np.float32) >= thresholds
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return _float(high)


def _float(order: Any) -> Any:
    """The floats in their order, those below 0 at negative places."""
    return np.copysign(np.abs(order).view(np.float64), order)


def normal_tails(scale: float | Sequence[float]) -> Tails:
    """Tails of x' = x + N(0, scale²) to 60 digits, owing nothing to the library; `number` is `HIGH.mpf`."""

    def tails(feature: int, x: float, thresholds: Sequence[float]) -> tuple[list[Number], list[Number]]:
        sigma = HIGH.mpf(float(scale[feature] if np.ndim(scale) else scale))
        z = [(HIGH.mpf(t) - HIGH.mpf(x)) / sigma for t in thresholds]
        return [_normal_cdf(v) for v in z], [_normal_cdf(-v) for v in z]

    return tails


@cache
def _normal_cdf(z: Number) -> Number:
    return HIGH.erfc(-z / HIGH.sqrt(2)) / 2


# --- the gap of one row and one subset ----------------------------------------------------------------


def gap_by_definition(
    ensemble: Ensemble,
    x: Any,
    subset: Iterable[int],
    tails: Tails,
    *,
    number: Number = Fraction,
    of: Callable[[Number], Number] = lambda residual: residual,
) -> Number:
    """E[(Σ_t g_t)²] with g_t = T_t(x') − T_t(x): probability × squared change, over all cells of x'.

    `of=abs` gives E[(Σ_t |g_t|)²].
    """
    total = number(0)
    for probability, here, there in outcomes(ensemble, x, subset, tails, number=number):
        change = sum((of(b - a) for a, b in zip(here, there, strict=True)), number(0))
        total += probability * change**2
    return total


def outcomes(
    ensemble: Ensemble, x: Any, subset: Iterable[int], tails: Tails, *, number: Number = Fraction
) -> Iterator[tuple[Number, list[Number], list[Number]]]:
    """All cells of x': the probability, and the values of the trees at x and at x'."""
    x = ensemble.cast(np.asarray(x)[None, :])[0]
    axes = perturbed(ensemble, x, subset, tails, number)
    here = tree_values(ensemble, x, number)
    for combination in itertools.product(*(axis.cells() for axis in axes.values())):
        point, probability = x.copy(), number(1)
        for (j, axis), cell in zip(axes.items(), combination, strict=True):
            point[j] = point_of(cell)
            probability *= axis.mass(cell)
        yield probability, here, tree_values(ensemble, point, number)


def gap_by_pairs(
    ensemble: Ensemble,
    x: Any,
    subset: Iterable[int],
    tails: Tails,
    *,
    number: Number = Fraction,
    of: Callable[[Number], Number] = lambda residual: residual,
) -> Number:
    """Σ_{u,v} g_u g_v P(x' ∈ box of u and box of v), over pairs of leaves of all trees."""
    x = ensemble.cast(np.asarray(x)[None, :])[0]
    axes = perturbed(ensemble, x, subset, tails, number)
    leaves = [(of(residual), box) for residual, box in reachable(ensemble, x, axes, number) if residual != 0]
    total = number(0)
    for (g_u, u), (g_v, v) in itertools.product(leaves, repeat=2):
        probability = number(1)
        for j in u.keys() | v.keys():
            everywhere = axes[j].everywhere
            probability *= axes[j].mass(intersection(u.get(j, everywhere), v.get(j, everywhere)))
            if probability == 0:
                break
        total += g_u * g_v * probability
    return total


def tree_values(ensemble: Ensemble, point: Any, number: Number) -> list[Number]:
    return [number(ensemble.value[leaf_of(ensemble, root, point), 0]) for root in ensemble.root]


def leaf_of(ensemble: Ensemble, node: int, point: Any) -> int:
    """The leaf that a point reaches below a node."""
    if ensemble.feature[node] == LEAF:
        return int(node)
    goes_left = decision(ensemble, node, point[ensemble.feature[node]])
    return leaf_of(ensemble, ensemble.left[node] if goes_left else ensemble.right[node], point)


def decision(ensemble: Ensemble, node: int, value: float) -> bool:
    """Does a value of the split feature go left?"""
    if math.isnan(value):
        return bool(ensemble.default_left[node])
    if ensemble.category_set[node] != NUMERIC:
        return value in categories_of(ensemble, node)
    return bool(value < ensemble.threshold[node])


def categories_of(ensemble: Ensemble, node: int) -> frozenset[float]:
    first, last = ensemble.set_begin[ensemble.category_set[node] :][:2]
    return frozenset(ensemble.set_code[first:last].astype(float).tolist())


def intersection(a: Any, b: Any) -> Any:
    return a & b if isinstance(a, frozenset) else (max(a[0], b[0]), min(a[1], b[1]))


def sides(ensemble: Ensemble, node: int, axis: Axis | LevelAxis) -> tuple[Region, Region]:
    """What goes left and what goes right at a split on a perturbed feature."""
    if isinstance(axis, LevelAxis):
        chosen = categories_of(ensemble, node)
        return axis.everywhere & chosen, axis.everywhere - chosen
    t = float(ensemble.threshold[node])
    return (-math.inf, t), (t, math.inf)


def is_empty(region: Region) -> bool:
    return not region if isinstance(region, frozenset) else region[0] >= region[1]


def reachable(
    ensemble: Ensemble, x: Any, axes: dict[int, Axis | LevelAxis], number: Number
) -> Iterator[tuple[Number, dict[int, Region]]]:
    """Residual and box of each leaf that x' can reach; at unperturbed splits x decides."""

    def walk(node: int, box: dict[int, Region]) -> Iterator[tuple[int, dict[int, Region]]]:
        j = int(ensemble.feature[node])
        if j == LEAF:
            yield node, box
        elif j in axes:
            children = ensemble.left[node], ensemble.right[node]
            for child, side in zip(children, sides(ensemble, node, axes[j]), strict=True):
                region = intersection(box.get(j, axes[j].everywhere), side)
                if not is_empty(region):
                    yield from walk(int(child), box | {j: region})
        else:
            goes_left = decision(ensemble, node, x[j])
            yield from walk(int(ensemble.left[node] if goes_left else ensemble.right[node]), box)

    for root in ensemble.root:
        here = number(ensemble.value[leaf_of(ensemble, int(root), x), 0])
        for leaf, box in walk(int(root), {}):
            yield number(ensemble.value[leaf, 0]) - here, box


def gap_in_longdouble(
    ensemble: Ensemble,
    x: Any,
    subset: Iterable[int],
    tails: Tails,
    *,
    number: Number = HIGH.mpf,
    of: Callable[[Number], Number] = lambda residual: residual,
) -> np.longdouble:
    """`gap_by_pairs` with 64 bits of mantissa and a range down to 1e-4900, fast enough for real models.

    Every mass is a sum of cells, each known to full precision: no mass loses digits, however small.
    """
    x = ensemble.cast(np.asarray(x)[None, :])[0]
    axes = perturbed(ensemble, x, subset, tails, number)
    weight: dict[frozenset[tuple[int, Region]], np.longdouble] = {}  # leaves of equal boxes count as one
    for residual, box in reachable(ensemble, x, axes, np.longdouble):
        key = frozenset(box.items())
        weight[key] = weight.get(key, np.longdouble(0)) + of(residual)
    g = np.array(list(weight.values()), dtype=np.longdouble)
    joint = np.ones((len(g), len(g)), dtype=np.longdouble)
    for j, axis in axes.items():
        intervals = [dict(box).get(j, axis.everywhere) for box in weight]
        distinct = list(dict.fromkeys(intervals))
        place = np.array([distinct.index(interval) for interval in intervals], dtype=np.intp)
        joint *= joint_masses(axis, distinct)[np.ix_(place, place)]
    return g @ (joint @ g)


def joint_masses(axis: Axis | LevelAxis, intervals: Sequence[Any]) -> np.ndarray:
    """P(x' in both) for each pair of regions."""
    if isinstance(axis, LevelAxis):
        masses = [[to_longdouble(axis.mass(a & b)) for b in intervals] for a in intervals]
        return np.array(masses, dtype=np.longdouble)
    ends = [*axis.below, math.inf]
    place = {end: k for k, end in enumerate(ends)}
    cells = [to_longdouble(axis.mass(cell)) for cell in axis.cells()]
    mass = np.zeros((len(ends), len(ends)), dtype=np.longdouble)  # of [ends[i], ends[k])
    for i in range(len(cells)):
        mass[i, i + 1 :] = np.cumsum(cells[i:])
    left = np.array([place[a] for a, _ in intervals], dtype=np.intp)
    right = np.array([place[b] for _, b in intervals], dtype=np.intp)
    return mass[np.maximum.outer(left, left), np.minimum.outer(right, right)]


def to_longdouble(value: Number) -> np.longdouble:
    """The nearest longdouble of a Fraction or an mpmath number, far below the range of float too."""
    if isinstance(value, Fraction):
        value = HIGH.mpf(value.numerator) / HIGH.mpf(value.denominator)
    mantissa, exponent = HIGH.frexp(value)
    if exponent < np.finfo(np.longdouble).minexp:
        return np.longdouble(0)
    high = float(mantissa)
    return np.ldexp(np.longdouble(high) + np.longdouble(float(mantissa - high)), int(exponent))


def error_scale(ensemble: Ensemble, x: Any, subset: Iterable[int], tails: Tails) -> float:
    """n_trees · Σ_u g_u² ∏_{q ∈ V_u} P(x'_q gets as far as the box of u), over the leaves that x' can reach.

    V_u are the features by which x lies outside the box of u. It is at least E[(Σ_t |g_t|)²], and more
    where a box is narrow: its mass is a small difference of tails, and tails are doubles.
    """
    x = ensemble.cast(np.asarray(x)[None, :])[0]
    axes = perturbed(ensemble, x, subset, tails, float)
    total = 0.0
    for residual, box in reachable(ensemble, x, axes, float):
        total += residual**2 * math.prod(axes[j].reach(region) for j, region in box.items())
    return len(ensemble.root) * total


def rounding_bound(gap: Number, scale: float) -> float:
    """How far the engine may be off."""
    return 1e-12 * abs(float(gap)) + 8 * ULP * scale


# --- scores and rankings, on top of any gap -------------------------------------------------------------

Gap = Callable[[Sequence[int]], Number]
"""The gap of one row, as a function of the subset."""


def curve(gap: Gap, ranking: Sequence[int]) -> list[Number]:
    """The gaps of the prefixes."""
    return [gap(ranking[:k]) for k in range(1, len(ranking) + 1)]


def pgi2(gap: Gap, ranking: Sequence[int]) -> Number:
    return sum(curve(gap, ranking)) / len(ranking)


def pgu2(gap: Gap, ranking: Sequence[int]) -> Number:
    return pgi2(gap, ranking[::-1])


def first_of_the_best(gaps: dict[int, Number], bound: dict[int, float]) -> int:
    """The lowest index whose gap is the highest, or differs from it by less than the bound: a tie."""
    best = max(gaps, key=lambda i: gaps[i])
    return min(i for i in gaps if gaps[best] - gaps[i] <= bound[best])


def greedy(gap: Gap, bound: Gap, d: int) -> tuple[list[int], list[Number]]:
    """π(l+1) = argmax_i PG²(x, {π(1..l)} ∪ {i}); scores are marginal gains, by feature."""
    order: list[int] = []
    scores: list[Number] = [0] * d
    while len(order) < d:
        unions = {i: [*order, i] for i in range(d) if i not in order}
        winner = first_of_the_best(
            {i: gap(union) for i, union in unions.items()}, {i: bound(union) for i, union in unions.items()}
        )
        scores[winner] = gap(unions[winner]) - gap(order)
        order.append(winner)
    return order, scores


def single(gap: Gap, bound: Gap, d: int) -> tuple[list[int], list[Number]]:
    """By each feature's own gap, which is its score."""
    order: list[int] = []
    while len(order) < d:
        rest = [i for i in range(d) if i not in order]
        order.append(first_of_the_best({i: gap([i]) for i in rest}, {i: bound([i]) for i in rest}))
    return order, [gap([i]) for i in range(d)]


# --- what the engine is allowed -------------------------------------------------------------------------


class Row:
    """One row: its exact gaps, and how far the engine may be off them, as functions of the subset."""

    def __init__(
        self, ensemble: Ensemble, tails: Tails, x: Any, twin: Callable[..., Number] = gap_by_pairs
    ) -> None:
        self.d = ensemble.n_features
        self._gap = cache(lambda subset: twin(ensemble, x, subset, tails))
        self._scale = cache(lambda subset: error_scale(ensemble, x, subset, tails))

    def gap(self, subset: Iterable[int]) -> Number:
        return self._gap(frozenset(map(int, subset)))

    def bound(self, subset: Iterable[int]) -> float:
        subset = frozenset(map(int, subset))
        return rounding_bound(self._gap(subset), self._scale(subset))

    def assert_gap(self, found: float, subset: Iterable[int]) -> None:
        exact, bound = float(self.gap(subset)), self.bound(subset)
        error = abs(float(found) - exact)
        assert error <= bound, (
            f"gap of {sorted(subset)} is {found!r}, exact {exact!r}: off by {error:.2e}, allowed {bound:.2e}"
        )

    def assert_greedy(self, order: Iterable[int]) -> None:
        """Each feature of the order (or of its beginning) is a right choice after those before it."""
        chosen: list[int] = []
        for feature in map(int, order):
            self._assert_first(feature, {i: [*chosen, i] for i in range(self.d) if i not in chosen})
            chosen.append(feature)

    def assert_single(self, order: Iterable[int]) -> None:
        rest = list(range(self.d))
        for feature in map(int, order):
            self._assert_first(feature, {i: [i] for i in rest})
            rest.remove(feature)

    def _assert_first(self, chosen: int, subsets: dict[int, list[int]]) -> None:
        """No candidate is clearly better, and none of a lower index is clearly as good.

        Between a sixteenth and sixteen times the bound either is right: the engine may estimate the bound.
        """
        gaps = {i: self.gap(subset) for i, subset in subsets.items()}
        best = max(gaps, key=lambda i: gaps[i])
        bound = self.bound(subsets[best])
        behind = {i: float(gaps[best] - gap) for i, gap in gaps.items()}
        assert behind[chosen] <= 16 * bound, (
            f"{chosen} is taken before {best}, but its gap is less by {behind[chosen]:.2e}; bound {bound:.2e}"
        )
        for i in gaps:
            assert i >= chosen or behind[i] > bound / 16, (
                f"{chosen} is taken before {i}, whose gap is as large as any; bound {bound:.2e}"
            )


class SummedRow(Row):
    """One row of a model with several outputs, whose gaps are summed."""

    def __init__(self, ensemble: Ensemble, tails: Tails, x: Any) -> None:
        rows = [Row(ensemble.select(k), tails, x) for k in range(ensemble.n_outputs)]
        self.d = ensemble.n_features
        self._gap = lambda subset: sum(row._gap(subset) for row in rows)
        self._scale = lambda subset: sum(row._scale(subset) for row in rows)


# --- sampling ------------------------------------------------------------------------------------------


def monte_carlo(ensemble: Ensemble, x: Any, subset: Iterable[int], deltas: np.ndarray) -> tuple[float, float]:
    """Mean of (f(x + δ) − f(x))² over the drawn rows δ (n, d), and the standard error of that mean."""
    x = np.asarray(x, dtype=np.float64)
    moves = np.isin(np.arange(len(x)), list(subset))
    squares = (ensemble.predict(x + np.where(moves, deltas, 0.0)) - ensemble.predict(x[None, :])) ** 2
    return float(squares.mean()), float(squares.std(ddof=1) / math.sqrt(len(squares)))
