"""Laplace and t noise, and noises made from others: against SciPy, mpmath, enumeration and samples."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import mpmath as mp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import effort
from predgap import Categories
from predgap._model.rounding import fields_of_rows
from predgap.errors import NoiseError, TableError
from predgap.noise import (
    Clipped,
    Discrete,
    Flip,
    FromScipy,
    Laplace,
    Law,
    Marginal,
    Noise,
    Normal,
    PerFeature,
    Redraw,
    Relative,
    Rounded,
    Stay,
    StudentT,
    Uniform,
)
from predgap.noise.columns import Lattice, lattice_of


def law_of(noise: Noise) -> Law:
    (law,) = noise.laws(1)
    return law


def tails(law, x, thresholds):
    below, above = law.tails(np.array([x], dtype=float), np.array(thresholds, dtype=float))
    assert below.shape == above.shape == (1, len(thresholds))
    return below[0], above[0]


# ---- densities -----------------------------------------------------------------------------------

FAR = [-700.0, -300.0, -37.0, -5.5, -1.0, -0.3, -1e-9, 0.0, 1e-9, 0.3, 1.0, 5.5, 37.0, 300.0, 700.0]


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 1e5])
@pytest.mark.parametrize("x", [0.0, 0.1, -7.3])
def test_laplace_tails_to_the_last_digits(scale, x):
    thresholds = x + scale * np.array(FAR)
    below, above = tails(law_of(Laplace(scale)), x, thresholds)
    for t, low, high in zip(thresholds.tolist(), below, above, strict=True):
        with mp.workdps(60):
            z = (mp.mpf(t) - mp.mpf(x)) / mp.mpf(scale)
            outer = mp.exp(-abs(z)) / 2
            exact = (1 - outer, outer) if z > 0 else (outer, 1 - outer)
        for found, wanted in zip((low, high), exact, strict=True):
            assert abs(found - wanted) <= 4e-15 * wanted


@pytest.mark.parametrize("df", [0.5, 1, 2, 3.7, 5, 30, 1000])
@pytest.mark.parametrize("z", [0.0, 1e-8, 0.01, 0.3, 1.0, 2.5, 9.0, 60.0, 1e4, 1e8])
def test_t_tails_keep_their_digits(df, z):
    scale, x = 0.3, 0.1
    for side in (-1.0, 1.0):
        t = x + side * z * scale
        found = tails(law_of(StudentT(df, scale)), x, [t])
        with mp.workdps(60):
            exact_z = (mp.mpf(t) - mp.mpf(x)) / mp.mpf(scale)
            outer = mp.betainc(mp.mpf(df) / 2, mp.mpf("0.5"), 0, df / (df + exact_z**2), regularized=True) / 2
        pair = (1 - outer, outer) if exact_z > 0 else (outer, 1 - outer)
        for p, wanted in zip(found, pair, strict=True):
            if wanted > 1e-290:  # a relative error of t in the power df + 1 of it, and SciPy's own
                assert abs(p[0] - wanted) <= (1e-13 + 1e-15 * df) * wanted, (side, p, wanted)


@pytest.mark.parametrize(
    ("noise", "frozen"),
    [
        (Laplace(0.7), stats.laplace(scale=0.7)),
        (StudentT(4, 0.7), stats.t(4, scale=0.7)),
        (Normal(0.7), stats.norm(scale=0.7)),
        (Uniform(0.7), stats.uniform(-0.7, 1.4)),
    ],
)
def test_the_same_as_scipy(noise, frozen):
    x, t = np.array([-1.0, 0.0, 0.3]), np.linspace(-3, 3, 25)
    for ours, theirs in zip(law_of(noise).tails(x, t), law_of(FromScipy(frozen)).tails(x, t), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("noise", [Laplace(1e300), Laplace(1e-300), StudentT(3, 1e300), StudentT(3, 1e-300)])
def test_extreme_scales_neither_warn_nor_fail(noise):
    for x, t in ((0.0, 0.0), (-1.7e308, 1.7e308), (1.0, -1.0)):
        below, above = tails(law_of(noise), x, [t])
        assert below[0] + above[0] == pytest.approx(1.0, rel=1e-15)


# ---- enumeration ---------------------------------------------------------------------------------

QUARTERS = st.integers(-12, 12).map(lambda k: k / 4)
SHARES = st.lists(st.integers(1, 5), min_size=1, max_size=4)
"""Halves and quarters: sums are exact, and ties happen."""


@st.composite
def enumerable(draw, depth=3):
    """A noise, and a function from x to its exact law: value -> probability."""
    if depth == 0 or draw(st.booleans()):
        values = draw(st.lists(QUARTERS, min_size=1, max_size=4, unique=True))
        shares = draw(st.lists(st.integers(1, 5), min_size=len(values), max_size=len(values)))
        exact = [Fraction(s, sum(shares)) for s in shares]
        if draw(st.booleans()):
            noise = Discrete(values, [float(p) for p in exact])
            return noise, lambda x: dict(zip(values, exact, strict=True))
        frozen = stats.rv_discrete(values=(values, [float(p) for p in exact]))()
        return FromScipy(frozen), lambda x: dict(zip([x + v for v in values], exact, strict=True))
    inner, law = draw(enumerable(depth=depth - 1))
    match draw(st.integers(0, 3)):
        case 0:
            p = draw(st.sampled_from([0.0, 0.25, 0.5, 1.0]))
            return Stay(inner, p), lambda x: mixed(law(x), x, Fraction(p))
        case 1:
            low, high = sorted([draw(QUARTERS), draw(QUARTERS)])
            return Clipped(inner, low, high), lambda x: moved(law(x), lambda v: min(max(v, low), high))
        case 2:
            step, origin = draw(st.sampled_from([0.25, 0.5, 1.0, 2.0])), draw(QUARTERS)
            return (
                Rounded(inner, step, origin),
                lambda x: moved(law(x), lambda v: origin + step * math.floor((v - origin) / step + 0.5)),
            )
        case _:
            column = draw(st.lists(QUARTERS, min_size=1, max_size=5))
            p = draw(st.sampled_from([0.25, 1.0]))
            drawn = {v: Fraction(column.count(v), len(column)) for v in column}
            return Redraw([[v] for v in column], p), lambda x: mixed(drawn, x, 1 - Fraction(p))


def mixed(law, x, stays):
    out = {value: (1 - stays) * p for value, p in law.items()}
    out[x] = out.get(x, 0) + stays
    return out


def moved(law, g):
    out: dict[float, Fraction] = {}
    for value, p in law.items():
        out[g(value)] = out.get(g(value), 0) + p
    return out


@given(problem=enumerable(), x=QUARTERS, more=st.lists(QUARTERS, max_size=3))
def test_combined_laws_against_enumeration(problem, x, more):
    """At every value that x' can have, one float below and above it, and between."""
    noise, law = problem
    exact = law(x)
    at = np.array([*exact, x, *more])
    thresholds = np.unique(np.concatenate([at, np.nextafter(at, -np.inf), np.nextafter(at, np.inf)]))
    below, above = tails(law_of(noise), x, thresholds)
    for t, low, high in zip(thresholds.tolist(), below, above, strict=True):
        exact_low = sum((p for v, p in exact.items() if v < t), Fraction(0))
        assert abs(low - float(exact_low)) <= 1e-12 * exact_low
        assert abs(high - float(1 - exact_low)) <= 1e-12 * (1 - exact_low)
        assert (low == 0) == (exact_low == 0)
        assert (high == 0) == (exact_low == 1)


@pytest.mark.parametrize("step", [1.0, 0.1, 0.25, 0.7, 5.0])
@pytest.mark.parametrize("x", [3.0, 2.1, -0.3])
@pytest.mark.parametrize("scale", [0.05, 1.0, 12.0])
def test_a_rounded_and_clipped_normal_against_its_masses(step, x, scale):
    lattice = Lattice(step)
    low, high = -4 * step, 9 * step
    k = np.arange(-4, 10)
    masses = stats.norm.cdf((k + 0.5) * step, x, scale) - stats.norm.cdf((k - 0.5) * step, x, scale)
    masses[0] = stats.norm.cdf(-3.5 * step, x, scale)
    masses[-1] = stats.norm.sf(8.5 * step, x, scale)
    points = lattice.points(k.astype(float))
    thresholds = np.concatenate([points, np.nextafter(points, np.inf), points + step / 2])
    for noise in (
        Clipped(Rounded(Normal(scale), step), low, high),
        Rounded(Clipped(Normal(scale), low, high), step),
    ):
        below, above = tails(law_of(noise), x, thresholds)
        np.testing.assert_allclose(below, [masses[points < t].sum() for t in thresholds], rtol=0, atol=1e-13)
        np.testing.assert_allclose(above, [masses[points >= t].sum() for t in thresholds], rtol=0, atol=1e-13)


def test_far_tails_of_combined_noise_keep_their_digits():
    low = tails(law_of(Stay(Rounded(Normal(1.0)), 0.9)), 0.0, [-19.7])[0][0]
    assert low == pytest.approx((1 - 0.9) * stats.norm.cdf(-19.5), rel=1e-12)
    high = tails(law_of(Redraw([[0.0]] * 999 + [[1.0]], 1e-9)), 0.0, [0.5])[1][0]
    assert high == pytest.approx(1e-12, rel=1e-12)


# ---- lattices ------------------------------------------------------------------------------------


def test_points_are_the_floats_that_decimal_text_gives():
    k = np.arange(-300.0, 300.0)
    assert Lattice(0.1).points(k).tolist() == [float(f"{int(v)}e-1") for v in k]
    assert Lattice(0.05, 0.01).points(k).tolist() == [float(f"{5 * int(v) + 1}e-2") for v in k]


@given(
    y=st.floats(-1e6, 1e6),
    step=st.sampled_from([1.0, 0.1, 1 / 3, 0.7, 1e-3]),
    t=st.floats(-1e6, 1e6, width=32),
)
def test_lower_ends_say_when_a_rounded_number_passes(y, step, t):
    lattice = Lattice(step, 0.1)
    end = lattice.lower_ends(np.array([t]))[0]
    for value in (y, end, np.nextafter(end, -np.inf), np.nextafter(end, np.inf)):
        point = lattice.nearest(np.array([value]))[0]
        assert abs(point - value) <= step * 0.5 * (1 + 1e-6) + abs(value) * np.finfo(float).eps
        assert (point >= t) == (value >= end), (value, point, end)


def test_the_lattice_of_a_column():
    assert lattice_of(np.array([0.0, 3.0, 9.0])) == Lattice(3.0)
    assert lattice_of(np.array([-7.0, -2.0, 8.0])) == Lattice(5.0, 3.0)
    assert lattice_of(np.array([20.1, 20.3, 25.9])) == Lattice(0.2, 0.1)
    assert lattice_of(np.array([0.5, 0.75])) == Lattice(0.25)
    assert lattice_of(np.array([1.0])) is None
    assert lattice_of(np.array([0.0, 1e17])) is None  # beyond whole floats
    assert lattice_of(np.array([0.0, 1e-5, 1.0])) is None  # too fine to matter
    assert lattice_of(np.sort(np.random.default_rng(0).normal(size=50))) is None
    assert lattice_of(np.array([1.0, 10.0**12])) is not None  # whole numbers always have one


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_standardised_whole_numbers_are_a_lattice_of_the_column_itself(dtype):
    """Where a library splits at values of the column, a point must be that value, not its neighbour."""
    ages = np.random.default_rng(0).integers(18, 80, 500)
    column = np.unique(((ages - ages.mean()) / ages.std()).astype(dtype)).astype(np.float64)
    lattice = lattice_of(column)
    assert lattice is not None
    assert lattice.step == pytest.approx(1 / ages.std(), rel=1e-5)
    noisy = column + 0.4 * lattice.step * np.random.default_rng(1).uniform(-1, 1, len(column))
    assert lattice.nearest(noisy).tolist() == column.tolist()


# ---- models that round rows, or have a number for missing ----------------------------------------


@pytest.mark.parametrize(
    ("noise", "missing", "reached"),
    [
        (Rounded(Normal(1.0)), 0.0, True),
        (Rounded(Normal(1.0)), 0.5, False),
        (Rounded(Normal(1.0), 0.1), 0.3, True),
        (Clipped(Normal(1.0), 0.0, 1.0), 0.0, True),
        (Clipped(Normal(1.0), 0.0, 1.0), 0.5, False),
        (Clipped(Normal(1.0), 0.0, 1.0), -999.0, False),
        (Clipped(Rounded(Normal(1.0)), -3.0, 3.0), -999.0, False),
        (Clipped(Rounded(Normal(1.0)), -3.0, 3.0), 2.0, True),
        (Stay(Rounded(Normal(1.0)), 0.5), 0.0, True),
        (Stay(Normal(1.0), 0.5), 0.0, False),
        (Stay(Discrete([0.0, 1.0]), 0.5), 0.0, True),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_noise_cannot_make_a_value_missing(noise, missing, reached, kind):
    law, missing = law_of(noise), fields_of_rows(kind, np.zeros(0), missing=missing)["missing_range"]
    if not reached:
        x, t = np.array([0.7]), np.linspace(-4, 4, 30)
        for old, new in zip(law.tails(x, t), law.avoiding(*missing).tails(x, t), strict=True):
            assert old.tolist() == new.tolist()
        return
    with pytest.raises(NoiseError, match="means missing to the model"):
        law.avoiding(*missing)


def test_missing_numbers_of_a_table_are_not_redrawn():
    law = law_of(Redraw([[-999.0], [1.0], [2.0], [np.nan]], 0.5)).avoiding(-999.0, -999.0)
    assert tails(law, 2.0, [0.0, 1.5])[0].tolist() == [0.0, 0.25]
    clipped = law_of(Clipped(Redraw([[-999.0], [1.0], [2.0]], 0.5), 0.0, 9.0)).avoiding(-999.0, -999.0)
    assert tails(clipped, 2.0, [0.5, 1.5])[0].tolist() == [0.0, 0.25]


# ---- samples -------------------------------------------------------------------------------------

COLUMN = [[v] for v in (0.0, 1.0, 1.0, 2.0, 5.0)]
SAMPLED = [
    Normal(0.7),
    Uniform(0.7),
    Laplace(0.7),
    StudentT(3, 0.7),
    FromScipy(stats.gumbel_r()),
    FromScipy(stats.poisson(1.5)),
    Marginal(COLUMN),
    Discrete([0.0, 1.0, 4.0], [0.2, 0.5, 0.3]),
    Flip(0.3),
    Redraw(COLUMN, 0.3),
    Stay(Laplace(0.7), 0.6),
    Clipped(StudentT(3, 2.0), -1.0, 2.0),
    Rounded(Normal(1.3)),
    Rounded(Uniform(1.3), 0.5, 0.25),
    Clipped(Rounded(Normal(1.3)), 0.0, 3.0),
    Stay(Clipped(Rounded(Laplace(1.3)), 0.0, 3.0), 0.25),
    PerFeature({0: Rounded(Normal(2.0))}),
    Relative([[float(k)] for k in range(30)], 0.5),
    Relative([[0.0], [1.0], [1.0]], 1.0, keep={7}),
]


@pytest.mark.parametrize("noise", SAMPLED, ids=repr)
def test_samples_have_the_probabilities_of_the_law(noise):
    n = effort.cases(50_000, 1_000_000)
    drawn = noise.sample(np.ones((n, 1)), seed=3)[:, 0]
    thresholds = np.concatenate([np.linspace(-3, 6, 37), np.nextafter(np.arange(6.0), 9)])
    below, above = tails(law_of(noise), 1.0, thresholds)
    found = (drawn[:, None] < thresholds).mean(axis=0)
    assert (np.abs(found - below) <= 5 * np.sqrt(below * above / n) + 1.5 / n).all()  # or one rare draw
    assert (noise.sample(np.ones((n, 1)), seed=3)[:, 0] == drawn).all()


LABELS = ["red"] * 5 + ["green"] * 3 + ["blue"] * 2


@pytest.mark.parametrize(
    ("noise", "of_red"),
    [
        (Redraw([[v] for v in LABELS], 0.4), {"red": 0.8, "green": 0.12, "blue": 0.08}),
        (Marginal([[v] for v in LABELS]), {"red": 0.5, "green": 0.3, "blue": 0.2}),
        (Stay(Discrete(["blue", "green"], [0.75, 0.25]), 0.5), {"red": 0.5, "blue": 0.375, "green": 0.125}),
        (Flip(0.3), {"red": 0.7, "green": 0.15, "blue": 0.15}),
        (Relative([[v] for v in LABELS], 1.0), {"red": 0.75, "green": 0.15, "blue": 0.1}),
        (Relative([[v] for v in LABELS], 1.0, keep=["blue"]), {"red": 0.8125, "green": 0.1875}),
    ],
    ids=repr,
)
def test_samples_of_labels(noise, of_red):
    n = effort.cases(20_000, 1_000_000)
    X = np.array([["red"], ["green"], ["blue"]] + [["red"]] * n, dtype=object)
    drawn = noise.sample(X, seed=5)[3:, 0]
    found = {label: float((drawn == label).mean()) for label in set(drawn.tolist())}
    assert set(found) == set(of_red)
    for label, p in of_red.items():
        assert abs(found[label] - p) <= 5 * math.sqrt(p * (1 - p) / n)
    levels = Categories([0, 1, 2], ("red", "green", "blue"))
    law = law_of(noise)
    told = {
        c: p for c, p in zip(levels.labels, law.category_probabilities(levels).tolist(), strict=True) if p
    } | {"red": law.staying_probabilities(levels)[0]}
    assert told == pytest.approx(of_red, rel=1e-12)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_a_frame_stays_a_frame(make):
    columns = {"a": [1, 2, None, 4], "b": ["x", "y", None, "x"]}
    X = make(columns)
    drawn = Stay(Redraw(X, 1.0), 0.5).sample(X, seed=0)
    assert type(drawn) is type(X)
    again = pa.table(drawn) if make is pa.table else drawn
    a, b = (again[name].to_pylist() if make is pa.table else list(again[name]) for name in "ab")
    assert [v is None or v != v for v in a] == [v is None or v != v for v in b] == [False, False, True, False]
    assert {v for v in b if isinstance(v, str)} <= {"x", "y"}


def test_categorical_columns_keep_their_type_and_rows_their_labels():
    X = pd.DataFrame(
        {"a": [1.5, 2.5, 3.5], "b": pd.Categorical(["x", "y", "x"], ["z", "y", "x"])}, list("pqr")
    )
    drawn = Redraw(X, 1.0).sample(X, seed=1)
    assert drawn["b"].dtype == X["b"].dtype
    assert list(drawn.index) == ["p", "q", "r"]
    with pytest.raises(TableError, match=r"'w', which is none of its categories"):
        PerFeature({"a": Normal(1.0), "b": Discrete(["w"])}).sample(X)


def test_samples_leave_missing_and_infinite_values():
    X = [[np.nan, np.inf], [1.0, -np.inf]]
    assert np.isinf(Normal(1.0).sample(X)[:, 1]).all()
    assert np.isnan(Redraw([[1.0, 1.0]], 1.0).sample(X)[0, 0])
    assert Redraw([[1.0, 1.0]], 1.0).sample(X)[:, 1].tolist() == [1.0, 1.0]


def test_what_cannot_be_sampled_says_so():
    class Own(Law):
        def tails(self, x, thresholds):
            raise AssertionError

    class Mine(Noise):
        def laws_of(self, features, n_features, feature_names):
            return (Own(),) * len(features)

    with pytest.raises(NoiseError, match="does not define sample"):
        Mine().sample([[1.0]])
    for noise in (Normal(1.0), Rounded(Normal(1.0)), FromScipy(stats.norm())):
        with pytest.raises(NoiseError, match="is for numbers, but a column holds 'a'"):
            noise.sample([["a"]])


# ---- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Stay(0.3, 0.5), "Stay got 0.3, expected a Noise"),
        (lambda: Stay(Normal(1), 1.5), "p is 1.5, expected a probability from 0 to 1"),
        (lambda: Stay(Normal(1), True), "p is True"),
        (lambda: Clipped(Normal(1), 1, 0), "low is 1.0 and high 0.0"),
        (lambda: Clipped(Normal(1), math.nan, 0), "low is nan"),
        (lambda: Clipped(Normal(1), math.inf, math.inf), "expected low <= high"),
        (lambda: Clipped("normal", 0, 1), "Clipped got 'normal'"),
        (lambda: Rounded(Normal(1), 0), "step is 0"),
        (lambda: Rounded(Normal(1), 1, math.inf), "origin is inf"),
        (lambda: Rounded(Normal(1), 1e-300, 1.0), "an origin of fewer steps"),
        (lambda: Rounded(None), "Rounded got None"),
        (lambda: Redraw([[1.0]], 0), "p is 0"),
        (lambda: Redraw([[1.0]], 2), "p is 2"),
        (lambda: Redraw(np.empty((0, 1)), 0.5), "it has no rows"),
        (lambda: Laplace(-1), "scale is -1"),
        (lambda: StudentT(0, 1), "df is 0"),
        (lambda: StudentT(3, [1, 0]), r"scale\[1\] is 0"),
        (lambda: Stay(Normal(1), 0.5).with_strength(0.1), "has no strength to change"),
        (lambda: law_of(Rounded(Normal(1))).category_probabilities(Categories([0])), "numeric features"),
    ],
)
def test_wrong_arguments_are_refused(make, words):
    with pytest.raises(NoiseError, match=words):
        make()


REPRS = {
    "Stay(Normal(0.3), 0.9)": Stay(Normal(0.3), 0.9),
    "Clipped(Uniform(1.0), -inf, 3.0)": Clipped(Uniform(1), -math.inf, 3),
    "Rounded(Laplace(0.5), 1.0)": Rounded(Laplace(0.5)),
    "Rounded(StudentT(3.0, 0.5), 0.5, 0.25)": Rounded(StudentT(3, 0.5), 0.5, 0.25),
    "Redraw(<2 rows>, 0.5)": Redraw([[1.0], [2.0]], 0.5),
}


@pytest.mark.parametrize(("text", "noise"), REPRS.items())
def test_repr_and_pickle(text, noise):
    assert repr(noise) == text
    assert repr(pickle.loads(pickle.dumps(noise))) == text
    with pytest.raises(AttributeError):
        noise.p = 1


def test_the_strength_of_a_combined_noise_is_that_of_its_part():
    X = np.random.default_rng(0).normal(size=(50, 2))
    for wrap in (lambda n: Stay(n, 0.5), lambda n: Clipped(n, -1, 1), lambda n: Rounded(n, 0.1)):
        changed = wrap(Normal.relative(X, 0.3)).with_strength(0.1)
        assert changed.laws(2) == wrap(Normal.relative(X, 0.1)).laws(2)
