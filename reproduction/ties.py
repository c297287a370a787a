"""All the rankings that greedy may give, over every way to break its ties.

Greedy goes from a subset S to S ∪ {i} with the largest gap. Where several i have it, any of them may be
taken, so after l steps there may be several subsets of l features. `steps` finds them all, from step to
step: a way to break ties is a path through these subsets. Two notions of a tie are followed at once:

- **exact**: gaps that differ by no more than 1e-12 of the larger, the bound of predgap's own arithmetic;
- **float32**: gaps that the paper's code could not tell apart. It adds up c² and terms p·v·(v' - 2c) in
  float32 (p a probability, v a sum of leaves, c = f(x) - bias), so each gap is off by about 1 ulp of
  (|c| + Σ_t max |leaf of tree t|)², and two of them by twice that, see `float32_tolerance`. A gap of
  1e-20, exact here, was a tie with 0 there.

Rows are independent: what is possible in each of them is possible in all at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from predgap import CostError, Ensemble, Explainer, Ranking
from reproduction.helpers import BoolArray, FloatArray, IndexArray

MAX_SUBSETS: Final = 200_000
"""Subsets of one step, over all rows, at which `steps` gives up: with ties everywhere there are 2^d."""

_EXACT: Final = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """The m subsets that are possible after a step, and the e moves that lead to them."""

    row: IndexArray  # (m,) the row that a subset belongs to
    subset: BoolArray  # (m, d)
    exact: BoolArray  # (m,) can be reached by breaking exact ties only
    source: IndexArray  # (e,) number of a subset of the step before
    target: IndexArray  # (e,) number of a subset of this step
    move_exact: BoolArray  # (e,) from an exact subset by an exact tie


def steps(
    explainer: Explainer, X: FloatArray, ranking: Ranking, tolerance: FloatArray, n_steps: int
) -> Iterator[Step]:
    """The possible subsets of 1, 2, ..., `n_steps` features.

    Features that no tree uses can be swapped without changing any gap. Of the subsets that differ only in
    them, one stands for all: the one with the lowest indices.

    Parameters
    ----------
    explainer : Explainer
    X : (n, d) array
    ranking : Ranking
        `explainer.rank(X)`; its own choices count as exact.
    tolerance : (n,) array
        Gaps of a row that differ by no more than this are ties of the wider kind.
    n_steps : int

    Examples
    --------
    A tree that uses the first of three features. Moving it decides; the other two are tied, and the step
    that takes one of them has the subset {0, 1}, which stands for {0, 2} too.

    >>> from predgap import Ensemble, Uniform
    >>> stump = Ensemble(
    ...     root=[0], feature=[0, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1], right=[2, -1, -1],
    ...     default_left=[True, False, False], value=[[0.0], [1.0], [3.0]], target=[0], bias=[10.0],
    ...     n_features=3)
    >>> explainer, X = Explainer(stump, Uniform(1.0)), np.zeros((1, 3))
    >>> for step in steps(explainer, X, explainer.rank(X), np.zeros(1), 2):
    ...     print(step.subset)
    [[ True False False]]
    [[ True  True False]]
    """
    last = _start(X.shape)
    for k in range(1, n_steps + 1):
        last = _next(explainer, X, tolerance, last, ranking.order[:, :k])
        if len(last.row) > MAX_SUBSETS:
            raise CostError(
                f"after step {k} ties allow {len(last.row):,} different subsets over {len(X)} rows; "
                f"at most {MAX_SUBSETS:,} are followed: pass fewer rows"
            )
        yield last


def float32_tolerance(ensemble: Ensemble, X: FloatArray) -> FloatArray:
    """How far apart two gaps of a row must be for the paper's float32 to tell them apart, (n,)."""
    margin = np.abs(ensemble.predict(X) - ensemble.bias[0])
    eps = float(np.finfo(np.float32).eps)
    return np.asarray(2 * eps * (margin + _largest_sum(ensemble)) ** 2)


def _largest_sum(ensemble: Ensemble) -> float:
    """The sum over trees of the largest |leaf|."""
    largest = np.zeros(ensemble.n_trees)
    tree, node = np.arange(ensemble.n_trees), ensemble.root
    while node.size:
        leaf = ensemble.feature[node] < 0
        np.maximum.at(largest, tree[leaf], np.abs(ensemble.value[node[leaf], 0]))
        tree, node = np.tile(tree[~leaf], 2), node[~leaf]
        node = np.concatenate([ensemble.left[node], ensemble.right[node]])
    return float(largest.sum())


def _start(shape: tuple[int, ...]) -> Step:
    n, _ = shape
    none = np.zeros(0, dtype=np.intp)
    every = np.ones(n, dtype=np.bool_)
    return Step(np.arange(n), np.zeros(shape, dtype=np.bool_), every, none, none, every[:0])


def _next(explainer: Explainer, X: FloatArray, tolerance: FloatArray, last: Step, prefix: IndexArray) -> Step:
    """One step on; `prefix` (n, k) are the features that the ranking itself takes."""
    source, feature = np.nonzero(_candidates(explainer.ensemble, last.subset))
    row, subset = last.row[source], last.subset[source]
    subset[np.arange(len(subset)), feature] = True
    gap = explainer.gap(X[row], subset)
    best = np.full(len(last.row), -np.inf)
    np.maximum.at(best, source, gap)
    behind = best[source] - gap
    exact = (behind <= _EXACT * best[source]) | _is_prefix(subset, prefix[row])
    kept = exact | (behind <= tolerance[row])
    row, subset, source, exact = row[kept], subset[kept], source[kept], exact[kept] & last.exact[source[kept]]
    found, target = np.unique(np.column_stack([row, subset]), axis=0, return_inverse=True)
    reached = np.zeros(len(found), dtype=np.bool_)
    reached[target[exact]] = True
    return Step(found[:, 0], found[:, 1:].astype(np.bool_), reached, source, target, exact)


def _candidates(ensemble: Ensemble, subset: BoolArray) -> BoolArray:
    """The features that may be added to each subset, (m, d): of those that no tree uses, the first."""
    used = np.isin(np.arange(ensemble.n_features), ensemble.feature)
    unused = ~subset & ~used
    return np.asarray((~subset & used) | (unused & (np.cumsum(unused, axis=1) == 1)))


def _is_prefix(subset: BoolArray, prefix: IndexArray) -> BoolArray:
    """Which subsets (e, d) are the k features of `prefix` (e, k)."""
    inside = np.take_along_axis(subset, prefix, axis=1).all(axis=1)
    return np.asarray(inside & (subset.sum(axis=1) == prefix.shape[1]))
