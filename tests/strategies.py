"""Hypothesis strategies: small ensembles full of corner cases, rows at their thresholds, subsets, noises.

`problems()` draws all four together; `dyadic_problems()` does so with numbers of few bits, for which every
sum and product the engine could form is exact in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import stats

from predgap import noise as noises_of
from predgap._inputs.categories import Categories
from predgap._model.ensemble import LEAF, NUMERIC, Ensemble
from predgap._model.rounding import fields_of_rows

# --- trees ----------------------------------------------------------------------------------------------

Tree = Any
"""A leaf value (or a tuple of them), or a `Split`."""


@dataclass(frozen=True)
class Split:
    feature: int
    threshold: float
    left: Tree
    right: Tree
    default_left: bool = True
    categories: tuple[int, ...] | None = None  # codes that go left, instead of a threshold


def ensemble_of(
    trees: Sequence[Tree],
    n_features: int,
    *,
    targets: Sequence[int] | None = None,
    n_outputs: int = 1,
    rows: type = np.float64,
    **options: Any,
) -> Ensemble:
    """Node arrays of trees written as nested splits, for a library that rounds rows to `rows`."""
    nodes: list[list[Any]] = []  # feature, threshold, left, right, default_left, value, category_set
    sets: list[tuple[int, ...]] = []

    def add(tree: Tree) -> int:
        node = len(nodes)
        nodes.append([LEAF, 0.0, LEAF, LEAF, False, None, NUMERIC])
        if isinstance(tree, Split):
            nodes[node] = [tree.feature, tree.threshold, 0, 0, tree.default_left, None, NUMERIC]
            if tree.categories is not None:
                nodes[node][6] = len(sets)
                sets.append(tuple(sorted(tree.categories)))
            nodes[node][2], nodes[node][3] = add(tree.left), add(tree.right)
        else:
            nodes[node][5] = np.atleast_1d(tree)
        return node

    root = [add(tree) for tree in trees]
    width = max((len(row[5]) for row in nodes if row[5] is not None), default=1)
    columns = list(zip(*nodes, strict=True)) if nodes else [()] * 7
    reading = {name: options.pop(name) for name in ("missing", "accepts_infinity") if name in options}
    return Ensemble(
        **fields_of_rows(rows, np.array(columns[1], dtype=np.float64), **reading),
        root=root,
        feature=columns[0],
        left=columns[2],
        right=columns[3],
        default_left=columns[4],
        value=np.array([np.zeros(width) if v is None else v for v in columns[5]]).reshape(-1, width),
        target=targets if targets is not None else [0] * len(root),
        bias=np.arange(1.0, 1.0 + n_outputs),
        n_features=n_features,
        category_set=columns[6],
        set_begin=np.cumsum([0, *map(len, sets)]),
        set_code=[code for codes in sets for code in codes],
        **options,
    )


def random_ensemble(
    rng: np.random.Generator, *, n_trees: int, depth: int, n_features: int, used: Sequence[int] | None = None
) -> Ensemble:
    """Full trees with normal thresholds and leaves: larger than hypothesis would draw."""
    features = np.arange(n_features) if used is None else np.asarray(used)

    def grow(levels: int) -> Tree:
        if levels == 0:
            return rng.normal()
        return Split(
            int(rng.choice(features)), rng.normal(), grow(levels - 1), grow(levels - 1), bool(rng.integers(2))
        )

    return ensemble_of([grow(depth) for _ in range(n_trees)], n_features)


def full_trees(rng: np.random.Generator, *, n_trees: int, depth: int, n_features: int) -> Ensemble:
    """As `random_ensemble`, for trees with many leaves; the children of node k are 2k + 1 and 2k + 2."""
    size = 2 ** (depth + 1) - 1
    node = np.arange(n_trees * size)
    inner = node % size < size // 2
    left = np.where(inner, node + node % size + 1, LEAF)
    return Ensemble(
        root=np.arange(n_trees) * size,
        feature=np.where(inner, rng.integers(n_features, size=len(node)), LEAF),
        threshold=np.where(inner, rng.normal(size=len(node)), 0.0),
        left=left,
        right=np.where(inner, left + 1, LEAF),
        default_left=rng.integers(2, size=len(node)) == 1,
        value=rng.normal(size=(len(node), 1)),
        target=np.zeros(n_trees),
        bias=[0.0],
        n_features=n_features,
    )


def cities(
    rng: np.random.Generator, *, n_trees: int, sizes: tuple[int, int], depth: int
) -> tuple[Ensemble, noises_of.Noise]:
    """Trees on two features of so many levels and two numbers, and a noise that redraws the levels."""

    def grow(levels: int) -> Tree:
        if levels == 0:
            return rng.normal()
        q, children = int(rng.integers(4)), (grow(levels - 1), grow(levels - 1))
        if q > 1:
            return Split(q, rng.normal(), *children, bool(rng.integers(2)))
        codes = rng.choice(sizes[q], min(int(rng.integers(1, 30)), sizes[q]), replace=False)
        return Split(q, 0.0, *children, bool(rng.integers(2)), tuple(map(int, codes)))

    categories = [Categories(np.arange(n)) for n in sizes]
    ensemble = ensemble_of([grow(depth) for _ in range(n_trees)], 4, categories=[*categories, None, None])
    shares = rng.dirichlet(np.ones(sizes[0]))
    noise = {
        0: noises_of.Discrete(range(sizes[0]), shares),
        1: noises_of.Marginal(rng.integers(0, sizes[1], (60, 4))),
    }
    return ensemble, noises_of.PerFeature(noise, default=noises_of.Normal(0.5))


def chain(rng: np.random.Generator, features: Sequence[int]) -> Tree:
    """A tree as deep as the list is long: every split has a leaf on one side."""
    tree: Tree = rng.normal()
    for feature in features:
        sides = [tree, rng.normal()]
        if rng.integers(2):
            sides.reverse()
        tree = Split(feature, rng.normal(), *sides)
    return tree


GRID = (-1.5, -1.0, -0.0, 0.0, 0.1, 0.25, 1.0, 2.0)  # 0.1 is not a float32
PLAIN = (-2.0, -0.7, 0.0, 0.3, 1.0, 1.0 + 2.0**-40, 3.1)
WIDE = tuple(mantissa * 10.0**k for mantissa in (-3.7, -1.0, 1.0, 3.7) for k in (-8, -3, 0, 4, 8))
DYADIC_GRID = (-1.0, -0.5, -0.0, 0.0, 0.5, 1.0)
DYADIC = (-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)


@st.composite
def trees(
    draw: st.DrawFn, features: Sequence[int], thresholds: Sequence[float], values: Any, depth: int
) -> Tree:
    """Any tree at all: a feature may come back on a path, and a path may contradict itself."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(values)
    below = trees(features, thresholds, values, depth - 1)
    feature, threshold = draw(st.sampled_from(features)), draw(st.sampled_from(thresholds))
    return Split(feature, threshold, draw(below), draw(below), draw(st.booleans()))


@st.composite
def ensembles(
    draw: st.DrawFn,
    *,
    n_features: st.SearchStrategy[int] | None = None,
    thresholds: Sequence[float] = GRID,
    values: st.SearchStrategy[float] | None = None,
    max_trees: int = 4,
    max_depth: int = 3,
    max_used: int = 4,
) -> Ensemble:
    """None to four trees over a few of the features, on a grid of thresholds that they share."""
    d = draw(n_features if n_features is not None else st.integers(1, 5))
    values = values if values is not None else st.sampled_from(PLAIN)
    used = draw(st.lists(st.integers(0, d - 1), min_size=1, max_size=max_used, unique=True))
    some = trees(used, thresholds, values, max_depth)
    return ensemble_of(
        draw(st.lists(some, max_size=max_trees)),
        d,
        rows=draw(st.sampled_from([np.float32, np.float64])),
    )


MANY_FEATURES = st.sampled_from([63, 64, 65, 70, 200])

# --- rows and subsets -----------------------------------------------------------------------------------


def points(ensemble: Ensemble, *, missing: bool = True) -> st.SearchStrategy[np.ndarray]:
    """Rows on thresholds, one ulp off them, between them; missing and infinite values."""
    thresholds = sorted({float(t) for t in ensemble.threshold[ensemble.feature != LEAF]} | {0.0})
    on = st.sampled_from([*thresholds, -0.0])
    value = st.one_of(
        on,
        st.builds(lambda t, up: float(np.nextafter(t, math.inf if up else -math.inf)), on, st.booleans()),
        st.builds(lambda t, up: _next_float32(t, up), on, st.booleans()),
        st.floats(-3, 3, width=16),
        *([st.sampled_from([math.nan, math.inf, -math.inf])] if missing else []),
    )
    d = ensemble.n_features
    if d <= 8:
        return st.lists(value, min_size=d, max_size=d).map(np.array)
    relevant = np.unique(ensemble.feature[ensemble.feature != LEAF])
    return st.lists(value, min_size=len(relevant), max_size=len(relevant)).map(
        lambda values: _placed(values, relevant, d)
    )


def _next_float32(t: float, up: bool) -> float:
    return float(np.nextafter(np.float32(t), np.float32(math.inf if up else -math.inf)))


def _placed(values: list[float], at: np.ndarray, d: int) -> np.ndarray:
    row = np.linspace(-1.0, 1.0, d)
    row[at] = values
    return row


def subsets(ensemble: Ensemble) -> st.SearchStrategy[list[int]]:
    """Any subset; with many features, of the used ones and their neighbours."""
    d = ensemble.n_features
    used = np.unique(ensemble.feature[ensemble.feature != LEAF])
    candidates = range(d) if d <= 8 else sorted({j for u in used for j in (u, (u + 1) % d)} | {0, d - 1})
    return st.lists(st.sampled_from([int(j) for j in candidates]), unique=True)


def mask_of(subset: Sequence[int], d: int) -> np.ndarray:
    mask = np.zeros(d, dtype=bool)
    mask[list(subset)] = True
    return mask


# --- noises ---------------------------------------------------------------------------------------------

VALUES = (-7.0, -1.0, 0.0, 0.1, 0.25, 3.0)  # some are thresholds of GRID, or differ from them by rounding
SCALES = (1e-3, 0.03, 0.3, 1.0, 7.0, 1e3)
SKEWED = (stats.expon(), stats.gamma(2.5, loc=-2.0), stats.expon(loc=-1.0, scale=0.2), stats.gumbel_r())
COUNTED = (stats.poisson(1.5), stats.geom(0.4, loc=-2), stats.randint(-2, 3), stats.bernoulli(0.25))


REPLACING = st.one_of(
    st.sets(st.sampled_from(VALUES), min_size=1).map(lambda some: noises_of.Discrete(sorted(some))),
    st.sets(st.sampled_from(VALUES), min_size=2).map(
        lambda some: noises_of.Discrete(sorted(some), rare(some))
    ),
)


COMBINED = st.one_of(
    st.sampled_from([noises_of.Laplace(0.3), noises_of.StudentT(3, 0.5)]),
    st.sampled_from([noises_of.Normal(0.5), noises_of.Uniform(1.5), noises_of.Discrete([-1.0, 0.1, 2.0])])
    .flatmap(
        lambda inner: st.sampled_from(
            [
                inner,
                noises_of.Clipped(inner, -1.0, 0.25),
                noises_of.Rounded(inner, 0.25),
                noises_of.Rounded(inner, 0.5, 0.1),
                noises_of.Clipped(noises_of.Rounded(inner), -1.0, 1.0),
                noises_of.Rounded(noises_of.Clipped(inner, -0.7, 0.3)),
            ]
        )
    )
    .flatmap(
        lambda inner: st.sampled_from([inner, noises_of.Stay(inner, 0.75), noises_of.Stay(inner, 1 - 1e-9)])
    ),
    st.builds(
        lambda noise, stays: noises_of.Rounded(noises_of.Stay(noise, stays), 0.5),
        st.sampled_from([noises_of.Normal(0.5), noises_of.Uniform(1.5)]),
        st.sampled_from([0.0, 0.5, 1.0]),
    ),
)


def rare(values: Any) -> list[float]:
    """Probabilities of which the first is tiny."""
    rest = [1.0 / (len(values) - 1)] * (len(values) - 1)
    return [1e-12, *rest[1:], rest[0] - 1e-12]


def noises(ensemble: Ensemble) -> st.SearchStrategy[Any]:
    """One law for all features, or one for each."""
    d, names = ensemble.n_features, ensemble.names
    scale = st.sampled_from(SCALES)
    one = st.one_of(
        REPLACING,
        scale.map(noises_of.Normal),
        scale.map(noises_of.Uniform),
        st.sampled_from(SKEWED).map(noises_of.FromScipy),
        st.sampled_from(COUNTED).map(noises_of.FromScipy),
        COMBINED,
    )
    if d > 8:
        return one
    row = st.lists(st.sampled_from((*VALUES, math.nan)), min_size=d, max_size=d)
    table = st.lists(row, min_size=1, max_size=4).map(lambda rows: [[0.25] * d, *rows])  # no column is empty
    return st.one_of(
        one,
        table.map(noises_of.Marginal),
        st.builds(noises_of.Redraw, table, st.sampled_from([1e-9, 0.045, 0.5, 1.0])),
        st.lists(scale, min_size=d, max_size=d).map(lambda scales: noises_of.Normal(np.array(scales))),
        st.lists(one, min_size=d, max_size=d).map(
            lambda laws: noises_of.PerFeature(dict(zip(names, laws, strict=True)))
        ),
    )


@dataclass(frozen=True)
class JumpLaw(noises_of.Law):
    """x' = x + one of a few offsets, with given probabilities."""

    offsets: tuple[float, ...]
    probabilities: tuple[float, ...]

    def tails(self, x: np.ndarray, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        is_below = (x[:, None] + np.array(self.offsets))[:, None, :] < thresholds[None, :, None]
        return is_below @ np.array(self.probabilities), ~is_below @ np.array(self.probabilities)


@dataclass(frozen=True)
class Jumps(noises_of.Noise):
    """A law of its own for each feature."""

    jumps: tuple[JumpLaw, ...]

    def laws_of(self, features: Sequence[int], n_features: int, feature_names: Any) -> tuple[JumpLaw, ...]:
        return tuple(self.jumps[j] for j in features)


@st.composite
def jumps(draw: st.DrawFn, d: int) -> Jumps:
    """Offsets in halves, probabilities in quarters."""
    offset = st.integers(-4, 4).map(lambda k: k / 2)
    laws = []
    for _ in range(d):
        cuts = sorted(draw(st.lists(st.integers(0, 4), max_size=3)))
        quarters = np.diff([0, *cuts, 4])
        laws.append(JumpLaw(tuple(draw(offset) for _ in quarters), tuple(q / 4 for q in quarters)))
    return Jumps(tuple(laws))


# --- all together ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    ensemble: Ensemble
    X: np.ndarray
    subset: list[int]
    noise: Any

    @property
    def mask(self) -> np.ndarray:
        return mask_of(self.subset, self.ensemble.n_features)


@st.composite
def problems(draw: st.DrawFn, *, max_rows: int = 2, missing: bool = True, **options: Any) -> Problem:
    ensemble = draw(ensembles(**options))
    rows = draw(st.lists(points(ensemble, missing=missing), min_size=1, max_size=max_rows))
    return Problem(ensemble, np.array(rows), draw(subsets(ensemble)), draw(noises(ensemble)))


# --- categories -----------------------------------------------------------------------------------------

CODES = (0, 1, 2, 5, 63, 64, 900)


@st.composite
def mixed_trees(draw: st.DrawFn, levels: Sequence[Sequence[int] | None], values: Any, depth: int) -> Tree:
    """Trees on features with these codes, None for a numeric one; sets may be empty, full, or repeated."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(values)
    below = mixed_trees(levels, values, depth - 1)
    feature, default_left = draw(st.integers(0, len(levels) - 1)), draw(st.booleans())
    codes = levels[feature]
    if codes is None:
        return Split(feature, draw(st.sampled_from(GRID)), draw(below), draw(below), default_left)
    chosen = tuple(draw(st.sets(st.sampled_from(codes)))) if codes else ()
    return Split(feature, 0.0, draw(below), draw(below), default_left, chosen)


@st.composite
def mixed_ensembles(draw: st.DrawFn, values: Any = None, max_trees: int = 4, max_depth: int = 4) -> Ensemble:
    """Some features numeric, some categorical; their labels are letters, or their codes."""
    kind = st.one_of(st.none(), st.lists(st.sampled_from(CODES), unique=True).map(sorted))
    levels = draw(st.lists(kind, min_size=1, max_size=4))
    values = values if values is not None else st.sampled_from(PLAIN)
    named = draw(st.booleans())
    return ensemble_of(
        draw(st.lists(mixed_trees(levels, values, max_depth), max_size=max_trees)),
        len(levels),
        categories=[
            None if codes is None else Categories(codes, tuple("abcdefg"[: len(codes)]) if named else None)
            for codes in levels
        ],
        unseen_is_missing=draw(st.booleans()),
    )


@st.composite
def mixed_rows(draw: st.DrawFn, ensemble: Ensemble) -> np.ndarray:
    number = st.one_of(st.sampled_from([*GRID, math.nan, math.inf]), st.floats(-3, 3, width=16))
    return np.array(
        [
            draw(
                number
                if levels is None
                else st.sampled_from([*levels.codes.tolist(), *levels.codes.tolist(), 4, -1, math.nan])
            )
            for levels in ensemble.categories or [None] * ensemble.n_features
        ]
    )


@st.composite
def category_noises(draw: st.DrawFn, levels: Categories) -> Any:
    """Noise of one categorical feature; Flip only where a row's category is sure to be a level."""
    inner = draw(moving_categories(levels))
    return draw(st.sampled_from([inner, inner, noises_of.Stay(inner, 0.955)]))


@st.composite
def moving_categories(draw: st.DrawFn, levels: Categories) -> Any:
    weights = draw(st.lists(st.integers(0, 5), min_size=len(levels), max_size=len(levels)))
    if sum(weights) == 0:
        return noises_of.Flip(draw(st.sampled_from([1e-12, 0.25, 1.0])))
    shares = np.array(weights) * draw(st.sampled_from([1.0, 1e-9])) + (np.array(weights) == max(weights))
    return noises_of.Discrete(levels.labels, shares / shares.sum())


@st.composite
def mixed_problems(draw: st.DrawFn, *, max_rows: int = 2, **options: Any) -> Problem:
    ensemble = draw(mixed_ensembles(**options))
    rows = np.array(draw(st.lists(mixed_rows(ensemble), min_size=1, max_size=max_rows)), dtype=float)
    noise = {}
    for j, levels in enumerate(ensemble.categories or [None] * ensemble.n_features):
        if levels is None:
            noise[j] = draw(st.sampled_from([noises_of.Normal(0.5), noises_of.Uniform(2.0)]))
            continue
        noise[j] = draw(category_noises(levels))
        if "Flip" in repr(noise[j]):  # refuses what is no level
            rows[levels.levels_of(rows[:, j]) < 0, j] = math.nan
    return Problem(ensemble, rows, draw(subsets(ensemble)), noises_of.PerFeature(noise))


@st.composite
def dyadic_problems(draw: st.DrawFn, *, n_features: st.SearchStrategy[int] | None = None) -> Problem:
    """At most four moving features, probabilities in quarters, leaves in halves: all sums are exact."""
    ensemble = draw(
        ensembles(
            n_features=n_features if n_features is not None else st.integers(1, 4),
            thresholds=DYADIC_GRID,
            values=st.sampled_from(DYADIC),
        )
    )
    d = ensemble.n_features
    special = st.sampled_from([math.nan, math.inf, -math.inf])
    value = st.one_of(st.integers(-6, 6).map(lambda k: k / 4), special)
    rows = draw(st.lists(st.lists(value, min_size=d, max_size=d), min_size=1, max_size=2))
    return Problem(ensemble, np.array(rows), draw(subsets(ensemble)), draw(jumps(d)))
