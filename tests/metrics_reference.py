"""Slow twins of metrics: infidelity, monotonicity and OpenXAI's scores, as their definitions read.

Infidelity is summed over the cells of x', with what is known of δ = x' - x in each, to 60 digits and owing
nothing to the library but the parameters of its laws. Correlations are those of gaps in fractions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from predgap._model.ensemble import Ensemble
from predgap.noise._added_laws import LaplaceLaw, NormalLaw, StudentTLaw, UniformLaw
from predgap.noise._combined_laws import StayLaw
from predgap.noise._laws import DiscreteLaw, Law, MarginalLaw
from reference import HIGH, Number, Tails, error_scale, outcomes, tails_of, thresholds_of, tree_values

Parts = tuple[Number, Number, Number]
"""The probability of an event, and of δ and δ² the expected values where it happens, 0 elsewhere."""

NOTHING: Parts = (HIGH.mpf(0), HIGH.mpf(0), HIGH.mpf(0))


# --- the shift of one feature ---------------------------------------------------------------------------


def parts_below(law: Law, x: float, t: float) -> Parts:
    """Of {x' < t}; t may be infinite."""
    match law:
        case StayLaw(inner, stays, moves):
            here = HIGH.mpf(stays) if x < t else HIGH.mpf(0)
            p, first, second = (HIGH.mpf(moves) * part for part in parts_below(inner, x, t))
            return here + p, first, second
        case MarginalLaw(values):
            return _listed(values, [Fraction(1, len(values))] * len(values), x, t)
        case DiscreteLaw(_, probabilities):
            return _listed(np.array(law.values, dtype=float), map(Fraction, probabilities), x, t)
    u = HIGH.mpf(t) - HIGH.mpf(x)
    if u <= 0:
        return _outer(law, u)
    p, first, second = _outer(law, -u)  # the density is symmetric, and E[δ] = 0
    return 1 - p, first, _variance(law) - second


def _listed(values: Any, probabilities: Any, x: float, t: float) -> Parts:
    """In fractions, and so that probabilities, which are doubles, sum to 1."""
    shares, from_here = list(probabilities), Fraction(x if math.isfinite(x) else 0)  # δ is not asked for then
    total, here = sum(shares), [Fraction(0)] * 3
    for value, share in zip(values.tolist(), shares, strict=True):
        if value < t:
            delta = Fraction(value) - from_here
            here = [part + share / total * delta**k for k, part in enumerate(here)]
    p, first, second = (HIGH.mpf(part.numerator) / part.denominator for part in here)
    return p, first, second


@cache
def _variance(law: Law) -> Number:
    match law:
        case NormalLaw(scale):
            return HIGH.mpf(scale) ** 2
        case UniformLaw(half_width):
            return HIGH.mpf(half_width) ** 2 / 3
        case LaplaceLaw(scale):
            return 2 * HIGH.mpf(scale) ** 2
        case StudentTLaw(df, scale):
            return HIGH.mpf(scale) ** 2 * df / (HIGH.mpf(df) - 2)
    raise NotImplementedError(law)


@cache
def _outer(law: Law, u: Number) -> Parts:
    """Of {δ < u}, for u <= 0."""
    if u == -HIGH.inf:
        return NOTHING
    match law:
        case NormalLaw(scale):
            s, z = HIGH.mpf(scale), u / HIGH.mpf(scale)
            p, density = HIGH.erfc(-z / HIGH.sqrt(2)) / 2, HIGH.exp(-(z**2) / 2) / HIGH.sqrt(2 * HIGH.pi)
            return p, -s * density, s**2 * (p - z * density)
        case UniformLaw(half_width):
            h = HIGH.mpf(half_width)
            u = max(u, -h)
            return (u + h) / (2 * h), (u**2 - h**2) / (4 * h), (u**3 + h**3) / (6 * h)
        case LaplaceLaw(scale):
            s, z = HIGH.mpf(scale), u / HIGH.mpf(scale)
            p = HIGH.exp(z) / 2
            return p, s * p * (z - 1), s**2 * p * (z**2 - 2 * z + 2)
        case StudentTLaw(df, scale):
            return _outer_student(HIGH.mpf(df), HIGH.mpf(scale), u / HIGH.mpf(scale))
    raise NotImplementedError(law)


def _outer_student(df: Number, scale: Number, z: Number) -> Parts:
    """z² / (df + z²) is a beta variable with parameters 1/2 and df/2."""
    rest, half = df / (df + z**2), HIGH.mpf("0.5")
    whole = HIGH.beta(half, df / 2)
    density = rest ** ((df + 1) / 2) / (HIGH.sqrt(df) * whole)
    return (
        HIGH.betainc(df / 2, half, 0, rest) / whole / 2,
        -scale * density * (df + z**2) / (df - 1),
        scale**2 * df * HIGH.betainc(df / 2 - 1, 3 * half, 0, rest) / whole / 2,
    )


# --- infidelity -----------------------------------------------------------------------------------------


def infidelity(ensemble: Ensemble, x: Any, slopes: Any, noise: Any) -> tuple[Number, float]:
    """E[(Σ a_q δ_q - (f(x') - f(x)))²] over all cells of x', and the scale of its rounding.

    It is infinite where an infinite x_q moves, unless a_q is 0. The scale is (Σ |a_q| √E[δ_q²] + √s)², with
    the `error_scale` s of PG².
    """
    x = ensemble.cast(np.asarray(x)[None, :])[0]
    laws = [law.rounded(ensemble.row_dtype) for law in noise.laws(ensemble.n_features, ensemble.names)]
    moved = [q for q, law in enumerate(laws) if math.isfinite(x[q]) or (math.isinf(x[q]) and law.replaces)]
    if any(math.isinf(x[q]) and slopes[q] != 0 for q in moved):
        return HIGH.inf, 0.0
    cells = [list(_cells(ensemble, laws[q], q, float(x[q]), float(slopes[q]))) for q in moved]
    here, total = sum(tree_values(ensemble, x, HIGH.mpf)), HIGH.mpf(0)
    for combination in itertools.product(*cells):
        point, parts = x.copy(), (HIGH.mpf(1), HIGH.mpf(0), HIGH.mpf(0))
        for q, (value, own) in zip(moved, combination, strict=True):
            point[q], parts = value, _independent(parts, own)
        change = sum(tree_values(ensemble, point, HIGH.mpf)) - here
        p, first, second = parts
        total += second - 2 * change * first + change**2 * p
    linear = sum(math.sqrt(sum(float(second) for _, (_, _, second) in own)) for own in cells)
    of_gap = math.sqrt(error_scale(ensemble, x, range(len(x)), tails_of(noise, ensemble)))
    return total, (linear + of_gap) ** 2


def _cells(
    ensemble: Ensemble, law: Law, feature: int, x: float, slope: float
) -> Iterator[tuple[float, Parts]]:
    """The cells that x' may fall in: a value that stands for it, and its parts of slope · δ."""
    ends = [-math.inf, *thresholds_of(ensemble, feature), math.inf]
    for left, right in itertools.pairwise(ends):
        p, first, second = (
            b - a for a, b in zip(*(parts_below(law, x, end) for end in (left, right)), strict=True)
        )
        if p != 0:
            yield left, (p, HIGH.mpf(slope) * first, HIGH.mpf(slope) ** 2 * second)


def _independent(a: Parts, b: Parts) -> Parts:
    """The parts of a sum, where both events happen."""
    return a[0] * b[0], a[0] * b[1] + a[1] * b[0], a[0] * b[2] + 2 * a[1] * b[1] + a[2] * b[0]


# --- monotonicity ---------------------------------------------------------------------------------------


def spearman(a: Sequence[Number], b: Sequence[Number]) -> float:
    """The correlation of places; equal numbers share theirs. NaN if all are equal."""
    places = [[2 * sum(v < w for v in values) + values.count(w) for w in values] for values in (a, b)]
    n = len(a)
    (first, second) = ([n * place - sum(own) for place in own] for own in places)  # whole numbers
    norm = sum(v**2 for v in first) * sum(v**2 for v in second)
    return sum(v * w for v, w in zip(first, second, strict=True)) / math.sqrt(norm) if norm else math.nan


# --- OpenXAI --------------------------------------------------------------------------------------------


def openxai(
    ensemble: Ensemble, x: Any, moved: Sequence[Sequence[int]], tails: Tails, of: Callable[[Number], Number]
) -> Number:
    """E|of(f(x')) - of(f(x))| for each of the subsets that move, averaged by the trapezoidal rule."""
    bias = HIGH.mpf(float(ensemble.bias[0]))
    scores = []
    for subset in moved:
        total = HIGH.mpf(0)
        for probability, here, there in outcomes(ensemble, x, subset, tails, number=HIGH.mpf):
            total += probability * abs(of(bias + sum(there)) - of(bias + sum(here)))
        scores.append(total)
    if len(scores) == 1:
        return scores[0]
    return sum((a + b) / 2 for a, b in itertools.pairwise(scores)) / (len(scores) - 1)
