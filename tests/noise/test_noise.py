"""Noise: tails against high precision, laws per feature, and what is refused."""

from __future__ import annotations

import pickle
import warnings

import mpmath as mp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from predgap.errors import NoiseError
from predgap.noise import Discrete, Flip, FromScipy, Marginal, Normal, PerFeature, Uniform
from predgap.noise.added import NormalLaw, ScipyLaw, UniformLaw
from predgap.noise.law import StillLaw
from predgap.noise.replaced import DiscreteLaw, FlipLaw, MarginalLaw

MODERATE = st.floats(-1e6, 1e6, allow_subnormal=False)
SCALES = st.floats(1e-6, 1e6)


def one(law, x, t):
    below, above = law.tails(np.array([x], dtype=float), np.array([t], dtype=float))
    assert below.shape == above.shape == (1, 1)
    return float(below[0, 0]), float(above[0, 0])


def exact_normal(x, t, scale):
    """P(x' < t), P(x' >= t) of the floats as they are, to 60 digits."""
    with mp.workdps(60):
        z = (mp.mpf(t) - mp.mpf(x)) / mp.mpf(scale)
        z = min(max(z, mp.mpf(-10_000)), mp.mpf(10_000))  # beyond, tails are far below any float
        return mp.erfc(-z / mp.sqrt(2)) / 2, mp.erfc(z / mp.sqrt(2)) / 2


def exact_uniform(x, t, h):
    with mp.workdps(1200):  # the floats of extreme exponents are summed without loss
        u = (mp.mpf(t) - mp.mpf(x)) / mp.mpf(h)
        return [min(max((1 + s * u) / 2, mp.mpf(0)), mp.mpf(1)) for s in (1, -1)]


def relative_error(found, exact):
    with mp.workdps(60):
        return float(abs(mp.mpf(found) - exact) / exact) if exact else abs(found)


# ---- tails ---------------------------------------------------------------------------------------


@given(x=MODERATE, z=st.floats(-37, 37), scale=SCALES)
def test_normal_tails_are_right_to_a_few_ulps(x, z, scale):
    t = x + z * scale
    for found, exact in zip(one(NormalLaw(scale), x, t), exact_normal(x, t, scale), strict=True):
        if exact > 1e-300:
            assert relative_error(found, exact) < 2e-15


@pytest.mark.parametrize("exponent", [1, 10, 50, 100, 200, 299])
@pytest.mark.parametrize("side", [-1, 1])
def test_far_normal_tails_keep_their_digits(exponent, side):
    z = side * np.sqrt(2 * exponent * np.log(10))  # the tail is below 10 ** -exponent
    x, scale = 0.1, 0.3
    t = x + z * scale
    small = int(side > 0)  # which of the two tails is the small one
    found, exact = one(NormalLaw(scale), x, t)[small], exact_normal(x, t, scale)[small]
    assert 1e-308 < exact < mp.mpf(10) ** -exponent
    assert relative_error(found, exact) < 2e-15


@pytest.mark.parametrize("scale", [1e-300, 5e-324, 1e300, 1.7e308])
@pytest.mark.parametrize(("x", "t"), [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (-1.7e308, 1.7e308), (3.0, 3.0)])
def test_extreme_normals_neither_warn_nor_fail(scale, x, t):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = one(NormalLaw(scale), x, t)
    for p, exact in zip(found, exact_normal(x, t, scale), strict=True):
        assert abs(p - float(exact)) < 1e-15


@given(x=MODERATE, u=st.floats(-1.5, 1.5), h=SCALES)
def test_uniform_tails_are_right_to_a_few_ulps(x, u, h):
    t = x + u * h
    for found, exact in zip(one(UniformLaw(h), x, t), exact_uniform(x, t, h), strict=True):
        if exact == 0 or exact > 1e-300:  # smaller ones have fewer digits
            assert relative_error(found, exact) < 1e-15


@pytest.mark.parametrize("ulps", [1, 2, 7])
def test_uniform_tail_near_its_edge(ulps):
    x, h = 0.1, 0.3
    t = x - h
    for _ in range(ulps):
        t = np.nextafter(t, np.inf)
    exact = exact_uniform(x, t, h)[0]
    assert 0 < exact < 1e-14
    assert relative_error(one(UniformLaw(h), x, t)[0], exact) < 1e-15


@pytest.mark.parametrize("h", [1e-300, 1e300, 1.7e308])
@pytest.mark.parametrize(("x", "t"), [(0.0, 0.5), (-1.7e308, 1.7e308), (1.0, 1.0)])
def test_extreme_uniforms_neither_warn_nor_fail(h, x, t):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = one(UniformLaw(h), x, t)
    for p, exact in zip(found, exact_uniform(x, t, h), strict=True):
        assert abs(p - float(exact)) < 1e-15


LAWS = [
    NormalLaw(0.5),
    UniformLaw(2.0),
    StillLaw(),
    ScipyLaw(stats.t(df=3)),
    ScipyLaw(stats.poisson(2.0, loc=-2)),
    ScipyLaw(stats.rv_discrete(values=([-1, 0, 2], [0.2, 0.5, 0.3]))()),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
@given(
    x=st.lists(st.floats(-5, 5), min_size=1, max_size=4),
    thresholds=st.lists(st.floats(-5, 5), min_size=1, max_size=6),
)
def test_tails_are_monotone_probabilities_that_sum_to_1(law, x, thresholds):
    below, above = law.tails(np.array(x), np.sort(thresholds))
    assert below.shape == above.shape == (len(x), len(thresholds))
    assert below.dtype == above.dtype == np.float64
    assert ((below >= 0) & (below <= 1) & (above >= 0) & (above <= 1)).all()
    np.testing.assert_allclose(below + above, 1, rtol=1e-14)
    assert (np.diff(below, axis=1) >= -1e-15).all()
    assert (np.diff(above, axis=1) <= 1e-15).all()


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_tails_of_no_rows_or_no_thresholds(law):
    for n, k in ((0, 3), (2, 0), (0, 0)):
        below, above = law.tails(np.zeros(n), np.zeros(k))
        assert below.shape == above.shape == (n, k)


def test_a_still_feature_is_below_only_strictly():
    below, above = StillLaw().tails(np.array([1.0, 2.0]), np.array([1.0, 1.5]))
    assert below.tolist() == [[0, 1], [0, 0]]
    assert above.tolist() == [[1, 0], [1, 1]]


def test_laws_say_whether_they_replace_the_value():
    replacing = [DiscreteLaw((0.0,), np.ones(1)), MarginalLaw(np.zeros(1)), FlipLaw(0.5)]
    replacing += Marginal([[1.0]]).laws(1)
    assert all(law.replaces for law in replacing)
    assert not any(law.replaces for law in LAWS)


def test_laws_that_replace_do_so_for_infinite_values_too():
    x, thresholds = np.array([-np.inf, 0.0, np.inf]), np.array([0.5])
    for law in (DiscreteLaw((0.0, 1.0), np.array([0.25, 0.75])), MarginalLaw(np.array([0.0, 1.0, 1.0, 1.0]))):
        below, above = law.tails(x, thresholds)
        assert below.ravel().tolist() == [0.25] * 3
        assert above.ravel().tolist() == [0.75] * 3
    with pytest.raises(NoiseError, match="between 0 and 1, but a row has -inf"):
        FlipLaw(0.5).tails(x, thresholds)


# ---- SciPy's distributions -----------------------------------------------------------------------


def test_scipy_normal_agrees_with_ours():
    x, t = np.linspace(-1, 1, 5), np.linspace(-2, 2, 9)
    ours, theirs = NormalLaw(0.3).tails(x, t), ScipyLaw(stats.norm(scale=0.3)).tails(x, t)
    np.testing.assert_allclose(theirs, ours, rtol=1e-12)


def test_scipy_tails_are_each_asked_for():
    law = ScipyLaw(stats.norm())
    below, _ = one(law, 0.0, -20.0)
    _, above = one(law, 0.0, 20.0)
    assert below == above == pytest.approx(2.7536e-89, rel=1e-4)


LATTICE = [
    stats.poisson(3.0),
    stats.poisson(3.0, 0.25),
    stats.poisson(mu=3.0, loc=-0.1),
    stats.binom(7, 0.3, loc=0.1),
    stats.binom(7, p=0.3, loc=-3.5),
    stats.geom(0.4, loc=-1),
    stats.randint(-3, 4),
    stats.randint(-3, 4, 1 / 3),
    stats.dlaplace(0.8, loc=0.7),
    stats.skellam(2.0, 3.0),
    stats.nbinom(4, 0.6),
    stats.zipf(3.0, loc=-2.3),
    stats.hypergeom(20, 7, 12, loc=0.1),
]


@pytest.mark.parametrize("frozen", LATTICE, ids=lambda f: f"{f.dist.name}{f.args}{f.kwds}")
@pytest.mark.parametrize("x", [0.0, 0.1, 0.2, -1.7, 3.3, 1e6 + 0.1])
def test_discrete_laws_are_strict_at_their_atoms(frozen, x):
    """Thresholds at, just below and just above every atom x + δ, against a sum of the probabilities."""
    loc = frozen.kwds.get("loc", frozen.args[-1] if len(frozen.args) > frozen.dist.numargs else 0)
    shapes = frozen.args[: frozen.dist.numargs]
    named = {key: value for key, value in frozen.kwds.items() if key != "loc"}
    k = np.arange(-60, 400)
    p = frozen.dist.pmf(k, *shapes, **named)
    reached = x + (k + loc)
    atoms = reached[55:75]
    thresholds = np.sort(np.concatenate([atoms, np.nextafter(atoms, -np.inf), np.nextafter(atoms, np.inf)]))
    below, above = ScipyLaw(frozen).tails(np.array([x]), thresholds)
    expected = np.array([p[reached < t].sum() for t in thresholds])
    tail_beyond = 1 - p.sum()  # zipf is heavy: what lies beyond k = 399
    np.testing.assert_allclose(below[0], expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(above[0], p.sum() - expected + tail_beyond, rtol=1e-9, atol=1e-14)


def test_poisson_tail_far_out():
    below, above = one(ScipyLaw(stats.poisson(1.0)), 0.0, 100.0)
    with mp.workdps(60):
        exact = mp.nsum(lambda k: mp.exp(-1) / mp.factorial(k), [100, mp.inf])
    assert below == 1
    assert relative_error(above, exact) < 1e-12


def test_listed_values_need_not_be_integers_and_are_strict():
    frozen = stats.rv_discrete(values=([0.5, -0.25, 0.1], [0.5, 0.25, 0.25]))(loc=0.1)
    below, above = ScipyLaw(frozen).tails(np.array([0.2]), np.array([0.05, 0.2 + 0.2, 0.8, 0.9]))
    assert 0.2 + (0.1 + 0.1) == 0.4
    assert below.tolist() == [[0.0, 0.25, 0.5, 1.0]]
    assert above.tolist() == [[1.0, 0.75, 0.5, 0.0]]


def test_listed_tails_are_summed_from_their_own_side():
    frozen = stats.rv_discrete(values=([0, 1, 2], [1e-30, 1 - 2e-30, 1e-30]))()
    assert one(ScipyLaw(frozen), 0.0, 1.0)[0] == 1e-30
    assert one(ScipyLaw(frozen), 0.0, 2.0)[1] == 1e-30


@pytest.mark.parametrize(
    ("frozen", "words"),
    [
        (stats.norm, ["norm is not frozen", "norm(...)"]),
        (stats.poisson, ["poisson is not frozen"]),
        (stats.rv_histogram(np.histogram([1.0, 2.0])), ["not frozen"]),
        (0.3, ["0.3", "float", "frozen univariate"]),
        (None, ["None", "frozen univariate"]),
        ("norm", ["'norm'", "frozen univariate"]),
        (stats.multivariate_normal([0, 0]), ["multivariate_normal_frozen", "frozen univariate"]),
        (stats.gaussian_kde([1.0, 2.0, 4.0]), ["gaussian_kde", "frozen univariate"]),
        (stats.norm(scale=[1.0, 2.0]), ["shape (2,)", "PerFeature"]),
        (stats.norm([0.0]), ["shape (1,)", "PerFeature"]),
        (stats.norm(scale=-1), ["norm(scale=-1)", "NaN", "check its parameters"]),
        (stats.norm(loc=np.nan), ["NaN"]),
        (stats.norm(loc=np.inf), ["NaN"]),
        (stats.binom(3, 1.5), ["binom(3, 1.5)", "NaN"]),
    ],
)
def test_what_is_not_a_frozen_univariate_distribution_is_refused(frozen, words):
    for make in (FromScipy, ScipyLaw):
        with pytest.raises(NoiseError) as caught:
            make(frozen)
        assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_frozen_histogram_is_accepted():
    histogram = stats.rv_histogram((np.array([1, 3]), np.array([-1.0, 0.0, 1.0])), density=False)()
    below, above = one(ScipyLaw(histogram), 10.0, 10.0)
    assert (below, above) == (pytest.approx(0.25), pytest.approx(0.75))


# ---- one law per feature -------------------------------------------------------------------------

NAMES = ("age", "sex", "bmi")


@pytest.mark.parametrize(
    ("noise", "scales"),
    [
        (Normal(0.3), [0.3, 0.3, 0.3]),
        (Normal(np.float32(0.5)), [0.5, 0.5, 0.5]),
        (Normal(np.array(2)), [2.0, 2.0, 2.0]),
        (Normal([1, 2, 3]), [1.0, 2.0, 3.0]),
        (Normal((1.0, 2.0, 3.0)), [1.0, 2.0, 3.0]),
        (Normal(np.array([1, 2, 3])), [1.0, 2.0, 3.0]),
        (Normal(pl.Series([1.0, 2.0, 3.0])), [1.0, 2.0, 3.0]),
        (Normal(pd.Series([1.0, 2.0, 3.0])), [1.0, 2.0, 3.0]),
        (Normal({"bmi": 3, "age": 1, "sex": 2}), [1.0, 2.0, 3.0]),
        (Normal(pd.Series({"bmi": 3.0, "age": 1.0, "sex": 2.0})), [1.0, 2.0, 3.0]),
    ],
    ids=repr,
)
def test_a_scale_for_all_by_place_or_by_name(noise, scales):
    laws = noise.laws(3, NAMES)
    assert laws == tuple(NormalLaw(scale) for scale in scales)
    assert all(type(law.scale) is float for law in laws)


def test_uniform_gives_uniform_laws():
    assert Uniform(2).laws(2) == (UniformLaw(2.0), UniformLaw(2.0))
    assert Uniform({"b": 1, "a": 2}).laws(2, ("a", "b")) == (UniformLaw(2.0), UniformLaw(1.0))


def test_a_scipy_noise_gives_every_feature_its_law():
    frozen = stats.laplace(scale=0.2)
    laws = FromScipy(frozen).laws(3)
    assert [law.frozen for law in laws] == [frozen] * 3


def test_names_stand_for_places_in_a_model_without_names():
    assert Normal({"f1": 2, "f0": 1}).laws(2) == (NormalLaw(1.0), NormalLaw(2.0))


BAD_NUMBERS = [
    (0, ["0", "positive finite"]),
    (0.0, ["0.0", "positive finite"]),
    (-1.5, ["-1.5", "positive finite"]),
    (float("nan"), ["nan", "positive finite"]),
    (float("inf"), ["inf", "positive finite"]),
    (10**400, ["positive finite"]),
    (True, ["True", "bool"]),
    (np.True_, ["True", "bool"]),
    ("0.3", ["'0.3'", "positive number"]),
    (None, ["None", "NoneType"]),
    (1j, ["1j", "complex"]),
    ([0.1, -2.0], ["[1]", "-2.0"]),
    ([0.1, "a"], ["[1]", "'a'"]),
    ([0.1, None], ["[1]", "None"]),
    (np.array([0.1, np.nan]), ["[1]", "nan"]),
    (np.array([True, False]), ["[0]", "True"]),
    (np.ones((2, 2)), ["expected a positive number, or one per feature"]),
    ([[1.0], [1.0, 2.0]], ["expected a positive number, or one per feature"]),
    ({0.1, 0.2}, ["expected a positive number, or one per feature"]),
    ({"a": 0.0}, ["['a']", "0.0"]),
    ({0: 1.0}, ["key 0", "names"]),
]


@pytest.mark.parametrize(("value", "words"), BAD_NUMBERS, ids=lambda v: repr(v)[:30])
@pytest.mark.parametrize(("make", "what"), [(Normal, "scale"), (Uniform, "half_width")])
def test_what_is_not_a_positive_number_is_refused(make, what, value, words):
    with pytest.raises(NoiseError) as caught:
        make(value)
    assert all(word in str(caught.value) for word in [what, *words]), str(caught.value)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), True, "x"])
def test_laws_check_their_own_number(value):
    with pytest.raises(NoiseError, match="scale is"):
        NormalLaw(value)
    with pytest.raises(NoiseError, match="half_width is"):
        UniformLaw(value)


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        (Normal([0.1, 0.2]), ["scale has 2 values", "3 features"]),
        (Uniform([0.1]), ["half_width has 1 value,", "3 features"]),
        (Normal({"age": 1, "sex": 1}), ["lacks the model's features 'bmi'", "'age', 'sex', 'bmi'"]),
        (Normal({"age": 1, "sex": 1, "bmi": 1, "y": 1}), ["names 'y'", "'age', 'sex', 'bmi'"]),
        (Normal({"age": 1, "sex": 1, "BMI": 1}), ["lacks the model's features 'bmi'", "names 'BMI'"]),
        (PerFeature({"age": Normal(1)}), ["no noise for 2 features: 'sex', 'bmi'", "default="]),
        (PerFeature({"agee": Normal(1)}, default=Normal(1)), ["no feature 'agee'", "'age', 'sex', 'bmi'"]),
        (PerFeature({3: Normal(1)}, default=Normal(1)), ["no feature 3", "3 features"]),
        (PerFeature({-1: Normal(1)}, default=Normal(1)), ["no feature -1"]),
        (PerFeature({"sex": Normal(1), 1: Normal(2)}, default=Normal(1)), ["'sex'", "twice"]),
        (PerFeature({"sex": Normal([1, 2])}, default=Normal(1)), ["2 values", "3 features"]),
    ],
    ids=repr,
)
def test_noise_that_does_not_fit_the_model(noise, words):
    with pytest.raises(NoiseError) as caught:
        noise.laws(3, NAMES)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_per_feature_by_name_and_index_with_default():
    noise = PerFeature({"bmi": Uniform(1), 0: FromScipy(stats.norm())}, default=Normal(0.3))
    scipy_law, normal, uniform = noise.laws(3, NAMES)
    assert isinstance(scipy_law, ScipyLaw)
    assert (normal, uniform) == (NormalLaw(0.3), UniformLaw(1.0))


def test_per_feature_asks_a_noise_only_for_its_own_features():
    inner = PerFeature({"sex": Normal(2)})
    relative = Normal.relative(pd.DataFrame({"bmi": [1, 3]}), 1)  # knows neither age nor sex
    noise = PerFeature({"sex": inner, "age": Normal([1, 9, 9])}, default=relative)
    with pytest.raises(NoiseError, match="no noise for 2 features: 'age', 'bmi'"):
        inner.laws(3, NAMES)
    assert noise.laws(3, NAMES) == (NormalLaw(1.0), NormalLaw(2.0), NormalLaw(1.0))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (([Normal(1)],), ["list", "mapping"]),
        (({"age": 0.3},), ["'age'", "0.3", "Normal(0.3)"]),
        (({True: Normal(1)},), ["True", "names or indices"]),
        (({1.0: Normal(1)},), ["1.0", "names or indices"]),
        (({"age": Normal(1)}, 0.3), ["default", "0.3"]),
    ],
)
def test_per_feature_refuses_what_is_not_a_noise(args, words):
    with pytest.raises(NoiseError) as caught:
        PerFeature(*args)
    assert all(word in str(caught.value) for word in words), str(caught.value)


# ---- relative to a table -------------------------------------------------------------------------

COLUMNS = {"bmi": [20.0, None, 30.0, 25.0], "age": [40, 50, 60, 70], "target": [0.0, 1.0, 0.0, 1.0]}
FRAMES = {
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas nullable": lambda: pd.DataFrame(COLUMNS).convert_dtypes(),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "pyarrow": lambda: pa.table(COLUMNS),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_relative_matches_names_and_ignores_missing_values_and_the_target(make):
    age, bmi = Normal.relative(make(), 0.3).laws(2, ("age", "bmi"))
    assert age.scale == pytest.approx(0.3 * np.std([40, 50, 60, 70]), rel=1e-15)
    assert bmi.scale == pytest.approx(0.3 * np.std([20, 30, 25]), rel=1e-15)


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_relative_goes_by_position_for_a_model_without_names(make):
    scales = [law.scale for law in Normal.relative(make(), 1).laws(3)]
    assert scales == pytest.approx([np.std([20, 30, 25]), np.std([40, 50, 60, 70]), 0.5], rel=1e-15)


def test_relative_to_an_array_goes_by_position():
    X = np.array([[1.0, 10.0], [3.0, np.nan], [1.0, 30.0], [3.0, 10.0], [2.0, 30.0]])
    scales = [law.scale for law in Normal.relative(X, 0.5).laws(2, ("b", "a"))]
    assert scales == pytest.approx([0.5 * np.std([1, 3, 1, 3, 2]), 5.0], rel=1e-15)


def test_default_pandas_labels_are_not_names():
    X = pd.DataFrame([[0.0, 0.0], [2.0, 4.0]])
    assert Normal.relative(X, 1).laws(2, ("a", "b")) == (NormalLaw(1.0), NormalLaw(2.0))
    assert Normal.relative(X, 1).laws(2, ("1", "0")) == (NormalLaw(2.0), NormalLaw(1.0))


@given(st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=20).filter(lambda v: len(set(v)) > 1))
def test_relative_deviation_is_accurate_in_any_range(values):
    with mp.workdps(700):
        mean = mp.fsum(map(mp.mpf, values)) / len(values)
        exact = mp.sqrt(mp.fsum((mp.mpf(v) - mean) ** 2 for v in values) / len(values))
    if exact < 1e-290:  # squares of numbers whose exponents differ by more than float64 holds
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (law,) = Normal.relative(np.array(values)[:, None], 1).laws(1)
    spread = max(abs(v) for v in values)
    assert abs(law.scale - float(exact)) <= 1e-15 * len(values) * float(exact) + 1e-16 * spread


def test_relative_deviation_with_a_large_offset():
    X = 1e15 + np.array([[0.0], [1.0], [2.0]])
    (law,) = Normal.relative(X, 1).laws(1)
    assert law.scale == pytest.approx(np.sqrt(2 / 3), rel=1e-14)


def test_a_constant_or_empty_column_stays_with_a_warning():
    X = pd.DataFrame({"a": [0.1, 0.1, 0.1], "b": [1.0, 2.0, 3.0], "c": [None, None, None], "d": [7, 7, None]})
    with pytest.warns(UserWarning, match=r"3 columns.*not be perturbed: 'a', 'c', 'd'$") as caught:
        noise = Normal.relative(X, 0.3)
    assert caught[0].filename == __file__
    laws = noise.laws(4, ("a", "b", "c", "d"))
    assert [type(law) for law in laws] == [StillLaw, NormalLaw, StillLaw, StillLaw]


def test_a_column_that_varies_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Normal.relative([[0.0], [5e-324 * 2**60]], 1)


def test_unusable_columns_matter_only_if_the_model_needs_them():
    X = pd.DataFrame({"a": [1.0, 2.0], "label": ["no", "yes"], "b": [1.0, np.inf]})
    noise = Normal.relative(X, 1)
    assert noise.laws(1, ("a",)) == (NormalLaw(0.5),)
    with pytest.raises(NoiseError, match=r"'label' holds text, first 'no'"):
        noise.laws(2, ("a", "label"))
    with pytest.raises(NoiseError, match=r"'b' holds an infinite value, so that it has no spread; mark"):
        noise.laws(2, ("a", "b"))


@pytest.mark.parametrize(
    ("X", "factor", "words"),
    [
        ([[1.0], [2.0]], 0.0, ["factor is 0.0"]),
        ([[1.0], [2.0]], True, ["factor is True"]),
        ([[1.0], [2.0]], "a lot", ["factor is 'a lot'"]),
        ([1.0, 2.0], 0.3, ["1-dimensional", "shape (2,)"]),
        (np.empty((0, 2)), 0.3, ["no rows"]),
        ("X.csv", 0.3, ["str", "expected"]),
    ],
)
def test_relative_refuses(X, factor, words):
    with pytest.raises(NoiseError) as caught:
        Normal.relative(X, factor)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_relative_names_what_the_model_needs_and_the_table_lacks():
    noise = Normal.relative(pd.DataFrame({"a": [1, 2], "z": [1, 2]}), 1)
    with pytest.raises(NoiseError, match=r"lacks 2 features of the model: 'b', 'c'; it has 'a', 'z'"):
        noise.laws(3, ("a", "b", "c"))
    with pytest.raises(NoiseError, match=r"has 2 columns, the model has 3 features"):
        noise.laws(3)


def test_a_scale_outside_float64_is_an_error_not_a_still_feature():
    noise = Normal.relative([[0.0], [1e-300]], 1e-300)
    with pytest.raises(NoiseError, match=r"column 0 has the scale 0.0"):
        noise.laws(1)


# ---- values --------------------------------------------------------------------------------------

REPRS = {
    "Normal(0.3)": Normal(0.3),
    "Normal([0.1, 0.2])": Normal([0.1, 0.2]),
    "Normal([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, ...])": Normal(np.ones(50)),
    "Uniform({'a': 1.0})": Uniform({"a": 1}),
    "Normal.relative(<2 columns>, 0.3)": Normal.relative([[1, 2], [3, 4]], 0.3),
    "FromScipy(t(df=3, scale=0.5))": FromScipy(stats.t(df=3, scale=0.5)),
    "FromScipy(t(3))": FromScipy(stats.t(3)),
    "PerFeature({'a': Normal(0.3), 2: Uniform(1.0)}, default=Normal(1.0))": PerFeature(
        {"a": Normal(0.3), 2: Uniform(1)}, default=Normal(1)
    ),
    "PerFeature({'a': Normal(0.3)})": PerFeature({"a": Normal(0.3)}),
    "Flip(0.5)": Flip(0.5),
    "Discrete([0.0, 'a'], [0.5, 0.5])": Discrete([0.0, "a"]),
    "Marginal(<2 rows>)": Marginal([[1.0], [2.0]]),
}


@pytest.mark.parametrize(("text", "noise"), REPRS.items())
def test_repr(text, noise):
    assert repr(noise) == text


@pytest.mark.parametrize("noise", REPRS.values(), ids=repr)
def test_noises_are_immutable_and_pickle(noise):
    for name in (*vars(noise), "scale"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(noise, name, 1)
    assert repr(pickle.loads(pickle.dumps(noise))) == repr(noise)


def test_equal_noises_are_equal_and_hash_alike():
    assert Normal([1, 2]) == Normal((1.0, 2.0)) != Normal([1, 3])
    assert Normal(1) != Uniform(1)
    assert hash(PerFeature({"a": Normal(1)})) == hash(PerFeature({"a": Normal(1.0)}))
