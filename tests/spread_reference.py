"""Slow twins of moments and sensitivity: means, covariances and variances of sets, as their definitions read.

All sums are over pairs of leaves, in fractions: there is no rounding but that of the tails.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from predgap._model.ensemble import Ensemble
from reference import Axis, LevelAxis, Number, Tails, intersection, perturbed, reachable


def mean_change(ensemble: Ensemble, x: Any, subset: Iterable[int], tails: Tails) -> tuple[Number, float]:
    """E[f(x')] − f(x) = Σ_u g_u P(x' ∈ box of u); and the scale of its rounding, with P(x' gets so far)."""
    x = ensemble.cast(np.asarray(x)[None, :])[0]
    axes = perturbed(ensemble, x, subset, tails, Fraction)
    leaves = list(reachable(ensemble, x, axes, Fraction))
    mean = sum(
        (g * math.prod(axes[j].mass(region) for j, region in box.items()) for g, box in leaves), Fraction(0)
    )
    scale = sum(abs(g) * math.prod(axes[j].reach(region) for j, region in box.items()) for g, box in leaves)
    return mean, float(scale)


def conditional_product(
    pair: tuple[Ensemble, Ensemble], x: Any, subset: Iterable[int], tails: Tails, known: Iterable[int]
) -> Number:
    """E[E[F | x'_q, q ∈ known] · E[G | the same]] of the changes F and G of two models, over pairs of leaves.

    If both are the same, it is PG² where all of the subset is known, and the squared mean where nothing is.
    """
    known = set(known)
    row = pair[0].cast(np.asarray(x)[None, :])[0]
    axes = perturbed(pair[0], row, subset, tails, Fraction)
    for j, axis in perturbed(pair[1], row, subset, tails, Fraction).items():
        axes[j] = joined(axes[j], axis)
    total = Fraction(0)
    leaves = [[leaf for leaf in reachable(e, row, axes, Fraction) if leaf[0] != 0] for e in pair]
    for (g_u, u), (g_v, v) in itertools.product(*leaves):
        probability = Fraction(1)
        for j in u.keys() | v.keys():
            a, b = u.get(j, axes[j].everywhere), v.get(j, axes[j].everywhere)
            both = axes[j].mass(intersection(a, b)) if j in known else axes[j].mass(a) * axes[j].mass(b)
            probability *= both
        total += g_u * g_v * probability
    return total


def joined(a: Axis | LevelAxis, b: Axis | LevelAxis) -> Axis | LevelAxis:
    """The same feature with the thresholds of two models."""
    if isinstance(a, LevelAxis) or isinstance(b, LevelAxis):
        return a
    return Axis(a.x, dict(sorted((a.below | b.below).items())), dict(sorted((a.above | b.above).items())))


def variance_of_sets(
    ensemble: Ensemble, x: Any, subset: Sequence[int], tails: Tails
) -> dict[frozenset[int], Number]:
    """What each set of features makes up of the variance of f(x'), beyond what its subsets do.

    Var E[f(x') | x'_q, q ∈ C] is the sum of this over all sets within C, from which it follows set by set.
    """
    nothing = conditional_product((ensemble, ensemble), x, subset, tails, [])
    found: dict[frozenset[int], Number] = {}
    for size in range(1, len(subset) + 1):
        for chosen in map(frozenset, itertools.combinations(subset, size)):
            explained = conditional_product((ensemble, ensemble), x, subset, tails, chosen) - nothing
            found[chosen] = explained - sum(q for within, q in found.items() if within < chosen)
    return found
