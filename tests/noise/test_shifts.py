"""Shifts: moments of δ = x' - x, and covariances with tails, against high precision, also far out."""

from __future__ import annotations

import math
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from metrics_reference import parts
from predgap.errors import NoiseError
from predgap.noise import (
    Clipped,
    Discrete,
    FromScipy,
    Laplace,
    Law,
    Marginal,
    Noise,
    Normal,
    Rounded,
    Stay,
    StudentT,
    Uniform,
)
from predgap.noise.columns import Lattice
from predgap.noise.combined import ClippedLaw, KeptLaw, RoundedLaw, StayLaw, WithinLaw
from reference import HIGH, ULP, Number

MODERATE = st.floats(-1e6, 1e6, allow_subnormal=False)
SCALES = st.floats(1e-6, 1e6)


def law_of(noise: Noise) -> Law:
    (law,) = noise.laws(1)
    return law.avoiding(math.nan, math.nan)


def exact(law: Law, x: float, t: float) -> tuple[Number, Number, Number]:
    """Mean, variance, and covariance with 1[x' < t], to about 60 digits."""
    below, above = parts(law, x, -math.inf, t), parts(law, x, t, math.inf)
    mean, square = below[1] + above[1], below[2] + above[2]
    return mean, square - mean**2, below[1] * above[0] - above[1] * below[0]


def assert_shift(noise: Noise, x: float, t: float, ulps: float) -> None:
    """Each number is right to so many ulps, the covariance as far out as tails are floats."""
    law = law_of(noise)
    found, (_, variance, covariance) = law.shift(x, np.array([t])), exact(law, x, t)
    assert found.mean == 0
    assert abs(found.variance - variance) <= 4 * ULP * variance
    error = abs(found.covariance[0] - covariance)
    assert error <= ulps * ULP * abs(covariance) + sys.float_info.min * abs(law.shift(x, np.array([x]))[2][0])


@given(x=MODERATE, z=st.floats(-37, 37), scale=SCALES)
def test_normal_shifts_are_right_to_a_few_ulps(x: float, z: float, scale: float) -> None:
    assert_shift(Normal(scale), x, x + z * scale, 8)


@given(x=MODERATE, z=st.floats(-1.1, 1.1), half_width=SCALES)
def test_uniform_shifts_are_right_to_a_few_ulps(x: float, z: float, half_width: float) -> None:
    assert_shift(Uniform(half_width), x, x + z * half_width, 8)


@given(x=MODERATE, z=st.floats(-690, 690), scale=SCALES)
def test_laplace_shifts_are_right_to_a_few_ulps(x: float, z: float, scale: float) -> None:
    assert_shift(Laplace(scale), x, x + z * scale, 8)


@given(x=MODERATE, z=st.floats(-1e8, 1e8), df=st.sampled_from([2.1, 3.0, 4.5, 30.0, 1000.0]), scale=SCALES)
def test_student_shifts_are_right_to_their_power(x: float, z: float, df: float, scale: float) -> None:
    """The density is a power df + 1 of t, whose rounding, and that of its logarithm, counts so often."""
    assert_shift(StudentT(df, scale), x, x + z * scale, 400 + 20 * df)


VALUES = st.lists(st.one_of(st.floats(-100, 100), st.sampled_from([0.0, 1e-9, 1e6])), min_size=1, max_size=6)


@given(
    values=VALUES,
    x=st.sampled_from([-1e6, -0.3, 0.0, 7.0]),
    t=st.sampled_from([-1e7, -0.3, 0.0, 1e-9, 0.1, 7.0, 1e6, 1e7]),
    rare=st.booleans(),
    stays=st.sampled_from([None, 0.0, 0.25, 1 - 1e-9, 1.0]),
)
def test_shifts_of_listed_values(
    values: list[float], x: float, t: float, rare: bool, stays: float | None
) -> None:
    """Up to rounding relative to √E[δ²], and times the probability that x' is on the rarer side of t."""
    distinct = sorted(set(values))
    shares = np.array([1e-12 if rare and k == 0 else 1.0 for k in range(len(distinct))])
    inner = Discrete(distinct, shares / shares.sum()) if rare else Marginal(np.array(values)[:, None])
    law = law_of(inner if stays is None else Stay(inner, stays))
    found, (mean, variance, covariance) = law.shift(x, np.array([t])), exact(law, x, t)
    size = float(HIGH.sqrt(variance + mean**2))
    assert abs(found.mean - mean) <= 16 * ULP * size + sys.float_info.min
    assert abs(found.variance - variance) <= 16 * ULP * size**2 + sys.float_info.min
    rarer = float(np.minimum(*law.tails(np.array([x]), np.array([t])))[0, 0])
    farthest = max(abs(v - x) for v in values)
    assert abs(found.covariance[0] - covariance) <= 16 * ULP * farthest * rarer + sys.float_info.min


ADDED = st.one_of(
    st.just(Normal(1.0)),
    st.just(Uniform(1.0)),
    st.just(Laplace(1.0)),
    st.sampled_from([2.1, 3.0, 4.5, 30.0]).map(lambda df: StudentT(df, 1.0)),
)
DISTANCES = st.one_of(
    st.floats(-1.0, 1.0),
    st.floats(-5.0, 5.0),
    st.floats(-37.0, 37.0),
    st.sampled_from([-math.inf, -1e5, -1e-3, -1e-9, 0.0, 1e-12, 1e-6, 0.1, 1e5, math.inf]),
)


@st.composite
def clipped_laws(draw: st.DrawFn, within: bool) -> tuple[Law, float, float]:
    """A law with ends, a value x, and a threshold between the ends, at one of them, or beyond."""
    x = draw(st.sampled_from([0.0, 0.3, -1e3, 1e6]))
    low, t, high = sorted(x + draw(DISTANCES) for _ in range(3))
    assume(low < math.inf and high > -math.inf)
    t = draw(st.sampled_from([t, t, t, low, high, math.nextafter(low, math.inf), high + 1.0]))
    inner = law_of(draw(ADDED))
    if draw(st.booleans()):
        inner = StayLaw(inner, *draw(st.sampled_from([(0.25, 0.75), (1 - 1e-9, 1e-9), (1.0, 0.0)])))
    law = WithinLaw(inner, low, high) if within else ClippedLaw(inner, low, high)
    if draw(st.booleans()):
        law = StayLaw(law, 0.25, 0.75)
    return law, x, t if math.isfinite(t) else x


def assert_parts(law: Law, x: float, t: float, ulps: float) -> None:
    """Mean and variance up to rounding relative to E[δ²]; the covariance to so many ulps of itself."""
    found, (mean, variance, covariance) = law.shift(x, np.array([t])), exact(law, x, t)
    size = float(HIGH.sqrt(variance + mean**2))
    least = sys.float_info.min
    assert abs(found.mean - mean) <= 16 * ULP * size + least
    assert abs(found.variance - variance) <= 256 * ULP * size**2 + least
    error = abs(found.covariance[0] - covariance)
    assert error <= ulps * ULP * abs(covariance) + least * max(1.0, size)


@given(clipped_laws(within=True))
def test_shifts_that_are_kept_in_a_range(case: tuple[Law, float, float]) -> None:
    """Also of an x outside the range, which then begins, or ends, at x. Powers of t count often, as above."""
    assert_parts(*case, 1000)


@given(clipped_laws(within=False))
def test_shifts_that_are_clipped(case: tuple[Law, float, float]) -> None:
    """If x is far outside, all that is left of a normal law is in its tail: z² ulps."""
    assert_parts(*case, 4000)


@st.composite
def rounded_laws(draw: st.DrawFn) -> tuple[Law, float, float]:
    """A law of points on a lattice, clipped before, after or not at all."""
    x, step = draw(st.sampled_from([0.0, 0.3, 1e3])), draw(st.sampled_from([0.5, 1.0, 2.5, 0.7, 1e3]))
    small = st.one_of(st.floats(-1.0, 1.0), st.floats(-30.0, 30.0), st.sampled_from([0.0, 0.5]))
    low, high = sorted(x + draw(small) for _ in range(2))
    law = law_of(draw(st.sampled_from([Normal(1.0), Uniform(3.0), Laplace(0.2), Discrete([0.0, 0.5, 1e3])])))
    if draw(st.booleans()):
        law = StayLaw(law, 0.25, 0.75)
    if draw(st.booleans()):
        law = ClippedLaw(law, low, high)
    law = RoundedLaw(law, Lattice(step, draw(st.sampled_from([0.0, 0.1]))))
    if draw(st.booleans()):
        law = draw(st.sampled_from([ClippedLaw, WithinLaw]))(law, low, high)
    if draw(st.booleans()):
        law = StayLaw(law, 0.25, 0.75)
    return law, x, draw(st.sampled_from([x, low, high, x + draw(small), float(np.float32(0.1)), 1e3]))


@given(rounded_laws())
def test_shifts_that_are_rounded(case: tuple[Law, float, float]) -> None:
    assert_parts(*case, 64)


@given(
    x=st.sampled_from([-9.0, -1.0, 0.0, 0.5, 2.0]),
    t=st.floats(-9.5, 3.0),
    inner=st.sampled_from([Normal(0.5), Rounded(Normal(0.5), 0.5), Stay(Marginal([[0.5], [1.0]]), 0.5)]),
)
def test_shifts_of_kept_values(x: float, t: float, inner: Noise) -> None:
    assert_parts(KeptLaw(WithinLaw(law_of(inner), -1.0, 2.0), (-9.0, 0.5), -9.0), x, t, 64)


@pytest.mark.parametrize("df", [2.5, 30.0])
def test_heavy_tails_can_be_rounded_in_a_range(df: float) -> None:
    """Clipped and then rounded they are the same as rounded and then clipped."""
    inner, t = StudentT(df, 5.0), np.array([-3.0, 0.5, 2.0, 8.5])
    one, other = law_of(Clipped(Rounded(inner), -3.0, 8.0)), law_of(Rounded(Clipped(inner, -3.0, 8.0)))
    for found, wanted in zip(one.shift(0.3, t), other.shift(0.3, t), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_many_values_and_thresholds_take_little_memory() -> None:
    values = np.random.default_rng(0).normal(size=20_000)
    law, thresholds = law_of(Marginal(values[:, None])), np.linspace(-4.0, 4.0, 5_000)
    tracemalloc.start()
    found = law.shift(0.5, thresholds)
    assert tracemalloc.get_traced_memory()[1] < 5e6  # a table of both would take 8e8
    tracemalloc.stop()
    assert found.mean == pytest.approx(values.mean() - 0.5, rel=1e-12)
    wanted = [np.cov(values, values < t, bias=True)[0, 1] for t in thresholds[::500]]
    np.testing.assert_allclose(found.covariance[::500], wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("noise", "frozen"),
    [
        (Normal(0.7), stats.norm(scale=0.7)),
        (Uniform(0.7), stats.uniform(-0.7, 1.4)),
        (Laplace(0.7), stats.laplace(scale=0.7)),
        (StudentT(4.0, 0.7), stats.t(4.0, scale=0.7)),
    ],
)
def test_the_same_as_scipy(noise: Noise, frozen: Any) -> None:
    thresholds = np.array([-1.5, 0.2, 0.3, 0.45, 2.0])
    found = law_of(noise).shift(0.3, thresholds)
    assert found.mean == frozen.mean() == 0.0
    assert found.variance == pytest.approx(frozen.var(), rel=1e-12)
    for t, covariance in zip(thresholds, found.covariance, strict=True):
        wanted = frozen.expect(lambda u: u, lb=frozen.support()[0], ub=max(t - 0.3, frozen.support()[0]))
        assert covariance == pytest.approx(wanted, abs=1e-8)


@pytest.mark.parametrize("noise", [Normal, Uniform, Laplace, lambda scale: StudentT(3.0, scale)])
@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_extreme_scales_neither_warn_nor_fail(noise: Any, scale: float) -> None:
    for x, t in ((0.0, 0.0), (-1.7e308, 1.7e308), (1.0, -1.0)):
        found = law_of(noise(scale)).shift(x, np.array([t]))
        assert -scale <= found.covariance[0] <= 0.0


@pytest.mark.parametrize("noise", [Normal, Uniform, Laplace, lambda scale: StudentT(3.0, scale)])
@pytest.mark.parametrize("scale", [1e300, 1e-300])
@pytest.mark.parametrize("ends", [(-1.0, 1.0), (-1.7e308, math.inf), (5.0, 5.0), (-1e-300, 0.0)])
def test_extreme_ranges_neither_warn_nor_fail(noise: Any, scale: float, ends: tuple[float, float]) -> None:
    for x, t in ((0.0, 0.0), (-1.7e308, 1.7e308), (1.0, -1.0), (-1.0, 1.0)):
        for law in (ClippedLaw(law_of(noise(scale)), *ends), WithinLaw(law_of(noise(scale)), *ends)):
            found = law.shift(x, np.array([t]))
            assert not found.variance < 0
            assert found.covariance[0] <= 0.0


def test_laws_without_moments_say_so() -> None:
    skewed = FromScipy(stats.expon(scale=2.0))
    for noise in (skewed, Clipped(skewed, 0.0, 1.0), Stay(skewed, 0.5)):
        with pytest.raises(NoiseError, match=r"variance of FromScipy\(expon\(scale=2.0\)\) are not known"):
            law_of(noise).shift(0.0, np.empty(0))
    assert law_of(Rounded(skewed)).shift(0.0, np.empty(0)).mean == pytest.approx(2.0, abs=0.1)
    for noise in (StudentT(2.0, 1.0), Clipped(StudentT(2.0, 1.0), 0.0, math.inf)):
        with pytest.raises(NoiseError, match="2 degrees of freedom has no variance; use more than 2"):
            law_of(noise).shift(0.0, np.empty(0))
    with pytest.raises(NoiseError, match="no lattice of steps of 1 around it; use a larger step"):
        law_of(Rounded(Normal(1.0))).shift(1e20, np.empty(0))
    for noise in (Rounded(StudentT(3.0, 1.0)), Rounded(FromScipy(stats.norm(scale=1e6)))):
        with pytest.raises(NoiseError, match="steps of 1 and reaches more than 1,000,000 of them; use"):
            law_of(noise).shift(0.0, np.empty(0))


def test_listed_values_far_from_the_row_keep_their_variance() -> None:
    found = law_of(Discrete([0.0, 1.0])).shift(1e8, np.array([0.5]))
    assert found.variance == pytest.approx(0.25, rel=1e-12)
    assert found.mean == 0.5 - 1e8
