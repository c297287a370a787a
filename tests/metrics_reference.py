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
from predgap.noise.added import LaplaceLaw, NormalLaw, StudentTLaw, UniformLaw
from predgap.noise.columns import Lattice
from predgap.noise.combined import ClippedLaw, KeptLaw, RoundedLaw, StayLaw, WithinLaw
from predgap.noise.law import Law, StillLaw
from predgap.noise.replaced import DiscreteLaw, FlipLaw, MarginalLaw
from reference import HIGH, Number, Tails, error_scale, outcomes, tails_of, thresholds_of, tree_values

Parts = tuple[Number, Number, Number]
"""The probability of an event, and of δ and δ² the expected values where it happens, 0 elsewhere."""

NOTHING: Parts = (HIGH.mpf(0), HIGH.mpf(0), HIGH.mpf(0))


# --- the shift of one feature ---------------------------------------------------------------------------


def parts(law: Law, x: float, low: float, high: float) -> Parts:
    """Of {low <= x' < high}; both may be infinite. Tails are never 1 minus the other one."""
    match law:
        case StayLaw(inner, stays, moves):
            here = HIGH.mpf(stays) if low <= x < high else HIGH.mpf(0)
            return _sum((here, HIGH.mpf(0), HIGH.mpf(0)), _times(moves, parts(inner, x, low, high)))
        case MarginalLaw(values):
            return _listed(values, [Fraction(1, len(values))] * len(values), x, low, high)
        case DiscreteLaw(_, probabilities):
            return _listed(np.array(law.values, dtype=float), map(Fraction, probabilities), x, low, high)
        case FlipLaw(p):
            return _listed(np.array([x, 1 - x]), [1 - Fraction(p), Fraction(p)], x, low, high)
        case StillLaw():
            return _listed(np.array([x]), [Fraction(1)], x, low, high)
        case KeptLaw(inner, values, first, last):
            stays = x in values or not first < x < last
            return parts(StillLaw() if stays else inner, x, low, high)
        case ClippedLaw(inner, first, last):
            return _clipped(inner, x, (low, high), (first, last))
        case WithinLaw(inner, first, last):
            return _clipped(inner, x, (low, high), (min(first, x), max(last, x)))
        case RoundedLaw(inner, lattice):
            return _rounded(inner, lattice, x, low, high)
    return _sum(_left(law, x, low, min(high, x)), _mirrored(_left(law, -x, -high, min(-low, -x))))


def _left(law: Law, x: float, low: float, high: float) -> Parts:
    """Of {low <= x' < high} for a high that is at most x, of a law with a density."""
    if low >= high:
        return NOTHING
    return _sum(
        *(_times(sign, _outer(law, HIGH.mpf(end) - HIGH.mpf(x))) for sign, end in ((1, high), (-1, low)))
    )


def _sum(a: Parts, b: Parts) -> Parts:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def _times(factor: float, own: Parts) -> Parts:
    return HIGH.mpf(factor) * own[0], HIGH.mpf(factor) * own[1], HIGH.mpf(factor) * own[2]


def _mirrored(own: Parts) -> Parts:
    return own[0], -own[1], own[2]


def _listed(values: Any, probabilities: Any, x: float, low: float, high: float) -> Parts:
    """In fractions, and so that probabilities, which are doubles, sum to 1."""
    shares, from_here = list(probabilities), Fraction(x if math.isfinite(x) else 0)  # δ is not asked for then
    total, here = sum(shares), [Fraction(0)] * 3
    for value, share in zip(values.tolist(), shares, strict=True):
        if low <= value < high:
            delta = Fraction(value) - from_here
            here = [part + share / total * delta**k for k, part in enumerate(here)]
    p, first, second = (HIGH.mpf(part.numerator) / part.denominator for part in here)
    return p, first, second


def _clipped(law: Law, x: float, between: tuple[float, float], ends: tuple[float, float]) -> Parts:
    """What is below the first end is there, and what is at least the last end there."""
    (low, high), (first, last) = between, ends
    found = parts(law, x, max(low, first), min(high, last))
    for end, outside in ((first, (-math.inf, first)), (last, (last, math.inf))):
        if low <= end < high and math.isfinite(end):
            p, delta = parts(law, x, *outside)[0], _delta(end, x)
            found = _sum(found, (p, p * delta, p * delta**2))
    return found


def _rounded(law: Law, lattice: Lattice, x: float, low: float, high: float) -> Parts:
    """Point by point, as far out as 1e-330 matters: not for laws with heavy tails."""
    found, middle = NOTHING, round((_middle(law, x) - lattice.origin) / lattice.step)
    for up in (1, -1):
        for k in itertools.count(middle if up > 0 else middle - 1, up):
            here, first, last = lattice.points(np.array([k, k - 0.5, k + 0.5], dtype=float)).tolist()
            if low <= here < high:
                p, delta = parts(law, x, first, last)[0], _delta(here, x)
                found = _sum(found, (p, p * delta, p * delta**2))
            outside = (last, math.inf) if up > 0 else (-math.inf, first)
            if parts(law, x, *outside)[0] < HIGH.mpf("1e-330"):
                break
    return found


def _delta(value: float, x: float) -> Number:
    return HIGH.mpf(value) - HIGH.mpf(x if math.isfinite(x) else 0)  # δ is not asked for then


def _middle(law: Law, x: float) -> float:
    """A number between values of the law."""
    match law:
        case DiscreteLaw() | MarginalLaw():
            return float(np.median(np.array(law.values, dtype=float)))
        case ClippedLaw(_, low, high):
            return min(max(x, low), high)
        case StayLaw(inner):
            return _middle(inner, x)
    return x


@cache
def _outer(law: Law, u: Number) -> Parts:
    """Of {δ < u}, for u <= 0."""
    if u == -HIGH.inf or (isinstance(law, NormalLaw) and u < -1e4 * law.scale):
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
    given = noise.laws(ensemble.n_features, ensemble.names)
    laws = [law.avoiding(*ensemble.missing_range) for law in given]
    moved = [q for q, law in enumerate(laws) if math.isfinite(x[q]) or (math.isinf(x[q]) and law.replaces)]
    if any(math.isinf(x[q]) and slopes[q] != 0 for q in moved):
        return HIGH.inf, 0.0
    cells = [list(_cells(ensemble, laws[q], q, float(x[q]), float(slopes[q]))) for q in moved]
    here, total = sum(tree_values(ensemble, x, HIGH.mpf)), HIGH.mpf(0)
    for combination in itertools.product(*cells):
        point, joint = x.copy(), (HIGH.mpf(1), HIGH.mpf(0), HIGH.mpf(0))
        for q, (value, own) in zip(moved, combination, strict=True):
            point[q], joint = value, _independent(joint, own)
        change = sum(tree_values(ensemble, point, HIGH.mpf)) - here
        p, first, second = joint
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
        p, first, second = parts(law, x, left, right)
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
