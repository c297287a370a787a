"""`Relative`: kinds of columns, the size of every move, values that are kept, and what is said about it."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from predgap import Categories, Explainer, Relative
from predgap._inputs.tables import open_columns
from predgap.errors import NoiseError
from predgap.noise import Clipped, Normal, PerFeature, Redraw, Rounded, Stay, relative
from predgap.noise.columns import read_column
from predgap.noise.law import StillLaw
from predgap.noise.relative import mean_squared_move, solved_scale
from strategies import Split, ensemble_of

RNG = np.random.default_rng(7)
N = 400
COLUMNS = {
    "continuous": RNG.normal(50, 9, N),
    "binary": (RNG.random(N) < 0.3).astype(float),
    "few": RNG.poisson(1.2, N).astype(float),
    "half": RNG.choice([0.5, 1.5, 2.25], N),
    "age": RNG.integers(18, 80, N).astype(float),
    "fives": 5.0 * RNG.integers(-20, 40, N) + 2,
    "tenths": np.round(RNG.normal(25, 4, N), 1),
    "scaled": (lambda v: (v - v.mean()) / v.std())(RNG.integers(0, 90, N)),
    "salary": RNG.integers(20_000, 200_000, N).astype(float),
}
TABLE = pd.DataFrame(COLUMNS)
KINDS = {
    "continuous": "continuous",
    "binary": "binary",
    "few": "integer",
    "half": "discrete",
    "age": "integer",
    "fives": "integer",
    "tenths": "lattice",
    "scaled": "lattice",
    "salary": "integer",
}


def law_of(noise, name):
    names = noise._labels.names
    (law,) = noise.laws_of([names.index(name)], len(names), names)
    return law


def law_on_points(law, x, points):
    """P(x' = point) for each of the ascending points, from differences of tails."""
    ends = points[0] - 1e-9, points[-1] + 1e-9
    below, above = law.tails(np.array([x]), np.array([ends[0], *(points[1:] + points[:-1]) / 2, ends[1]]))
    assert below[0, 0] == above[0, -1] == 0, "x' is not among the points"
    return np.diff(below[0])


def brute_size(law, values, points):
    """The mean over the column of E[(x' - x)²], summed over all values that x' may have."""
    different, counts = np.unique(values, return_counts=True)
    squares = [law_on_points(law, x, points) @ (points - x) ** 2 for x in different]
    return float(counts @ squares / counts.sum())


def described(noise):
    frame = noise.describe()
    return {row["column"]: row for row in frame.to_dict("records")}


# ---- kinds and sizes -----------------------------------------------------------------------------


def test_kinds_are_told_from_values():
    assert {name: row["kind"] for name, row in described(Relative(TABLE)).items()} == KINDS


@pytest.mark.parametrize("strength", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("name", ["binary", "few", "half", "age", "fives", "tenths", "scaled"])
def test_every_column_moves_by_the_same_share_of_its_spread(name, strength):
    """The mean squared move, by brute force over all values, is strength² variances."""
    values = TABLE[name].to_numpy()
    points = np.unique(values)
    if name in ("age", "fives", "tenths", "scaled"):
        step = {"age": 1.0, "fives": 5.0, "tenths": 0.1, "scaled": np.diff(points).min()}[name]
        points = points[0] + np.arange(round((points[-1] - points[0]) / step) + 1) * step
    noise = Relative(TABLE, strength)
    assert brute_size(law_of(noise, name), values, points) == pytest.approx(
        strength**2 * values.var(), rel=1e-9
    )
    assert described(noise)[name]["relative_move"] == pytest.approx(strength, rel=1e-9)
    assert described(noise)[name]["move"] == pytest.approx(strength * values.std(), rel=1e-9)


def test_a_fine_lattice_has_the_size_too():
    """Of 180,000 whole numbers: by samples, and as the clipped normal that it nearly is."""
    noise = Relative(TABLE[["salary"]], 0.3)
    X = np.repeat(TABLE[["salary"]].to_numpy(), 500, axis=0)
    drawn = noise.sample(X)
    assert (drawn == np.round(drawn)).all()
    assert drawn.min() >= X.min()
    assert drawn.max() <= X.max()
    squares = (drawn - X) ** 2
    error = squares.std() / math.sqrt(len(X))
    assert abs(squares.mean() - 0.09 * TABLE["salary"].var(ddof=0)) < 5 * error


def test_continuous_columns_have_normal_noise():
    noise = Relative(TABLE, 0.4)
    assert law_of(noise, "continuous").scale == pytest.approx(
        0.4 * TABLE["continuous"].std(ddof=0), rel=1e-14
    )
    drawn = noise.sample(np.repeat(TABLE.to_numpy(), 50, axis=0))[:, 0]
    outside = ((drawn < TABLE["continuous"].min()) | (drawn > TABLE["continuous"].max())).mean()
    assert abs(outside - described(noise)["continuous"]["outside"]) < 0.002


def test_the_law_is_the_one_that_it_says():
    """Each law, written with the public noises."""
    noise = Relative(TABLE, 0.3)
    x, thresholds = TABLE["age"].to_numpy()[:20], np.arange(15.0, 85.0, 0.5)
    sigma = float(described(noise)["age"]["law"].split()[3].rstrip(","))
    written = Clipped(Rounded(Normal(sigma)), TABLE["age"].min(), TABLE["age"].max()).laws(1)[0]
    np.testing.assert_allclose(
        law_of(noise, "age").tails(x, thresholds), written.tails(x, thresholds), atol=2e-4
    )  # the scale is printed to four digits
    for name in ("binary", "few", "half"):
        written = Redraw(TABLE[[name]], 0.045).laws(1)[0]
        x, thresholds = TABLE[name].to_numpy()[:20], np.arange(-0.5, 8.0, 0.25)
        np.testing.assert_allclose(
            law_of(noise, name).tails(x, thresholds), written.tails(x, thresholds), rtol=1e-14
        )


@given(
    values=st.lists(st.integers(-40, 40), min_size=25, max_size=60),
    strength=st.floats(0.01, math.sqrt(2)),
)
def test_the_size_of_any_column_of_whole_numbers(values, strength):
    assume(len(set(values)) > 1)
    column = np.array(values, dtype=float)
    noise = Relative(column[:, None], strength)
    points = np.arange(column.min(), column.max() + 1)
    (law,) = noise.laws(1)
    assert brute_size(law, column, points) == pytest.approx(strength**2 * column.var(), rel=1e-9)


def test_there_is_a_scale_for_every_strength_but_not_for_every_size():
    """A normal number beyond all bounds goes to either end, which is at least 2 variances."""
    values = np.concatenate([np.zeros(9), np.arange(30.0)])
    column = read_column(open_columns(values[:, None]), 0, (), None, "0")
    ends = np.mean((values**2 + (29 - values) ** 2) / 2)
    assert ends > 2 * values.var()
    for wanted in (0.001, 0.5, 2 * values.var(), 0.999 * ends):
        scale = solved_scale(column, wanted)
        assert scale is not None
        assert mean_squared_move(column, scale) == pytest.approx(wanted, rel=1e-12)
    assert solved_scale(column, 1.001 * ends) is None


@pytest.mark.parametrize("scale", [50.5, 80.0, 1234.5])
def test_sums_over_many_steps_are_integrals(scale):
    """Where it is cheap enough, both are computed; the sum reads like the definition."""
    steps = np.concatenate([np.arange(20.0), np.geomspace(20, 60_000, 60).round()])
    np.testing.assert_allclose(
        relative._integral(steps * 0.5, scale * 0.5, 0.5), relative._sum(steps, scale * 0.5, 0.5), rtol=1e-11
    )  # of the shortest distances; their share of a column's mean is small


def test_the_size_of_a_wide_column_by_brute_force():
    values = np.random.default_rng(2).integers(0, 3_000, 200).astype(float)
    (law,) = Relative(values[:, None]).laws(1)
    assert brute_size(law, values, np.arange(values.min(), values.max() + 1)) == pytest.approx(
        0.09 * values.var(), rel=1e-12
    )


def test_a_scale_is_solved_once_per_column_and_strength(monkeypatch):
    solved = []
    plain = relative.solved_scale
    monkeypatch.setattr(relative, "solved_scale", lambda *a: solved.append(a) or plain(*a))
    splits = [Split(0, 50_000.0, 1.0, 3.0), Split(1, 40.5, 1.0, 2.0)]
    explainer = Explainer(ensemble_of(splits, 2), TABLE[["salary", "age"]])
    assert len(solved) == 2
    explainer.noise.describe()
    explainer.explained.under(explainer.noise)
    assert len(solved) == 2
    explainer.noise.with_strength(0.5).describe()
    assert len(solved) == 4


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_labels_are_categorical_in_every_library(make):
    noise = Relative(make({"job": ["cook", "nurse", None, "cook"], "y": [1.5, 2.5, 3.25, 4.0]}))
    frame = noise.describe()
    assert type(frame) is type(make({"a": [1]}))
    kinds = frame["kind"].to_pylist() if make is pa.table else list(frame["kind"])
    assert kinds == ["categorical", "continuous"]


def test_categories_are_redrawn_with_the_same_probability():
    levels = Categories([0, 1, 2], ("cook", "nurse", "smith"))
    (law,) = Relative(pd.DataFrame({"job": pd.Categorical(["cook"] * 3 + ["nurse"])}), 0.4).laws(1, ("job",))
    assert law.category_probabilities(levels).tolist() == pytest.approx([0.06, 0.02, 0.0])
    assert law.staying_probabilities(levels).tolist() == pytest.approx([0.98, 0.94, 0.92])


def test_a_feature_that_the_model_splits_by_categories_is_redrawn_whatever_its_codes():
    """Codes in an array look like whole numbers; more than 20 of them would be rounded."""
    codes = np.arange(60.0)[:, None]
    levels = Categories(range(60))
    ensemble = ensemble_of([Split(0, 0.0, 1.0, 3.0, categories=tuple(range(15)))], 1, categories=[levels])
    for row, wanted in ((0.0, 4 * 0.045 * 45 / 60), (59.0, 4 * 0.045 * 15 / 60)):
        assert Explainer(ensemble, codes).gap([[row]], [0])[0] == pytest.approx(wanted, rel=1e-12)


def test_a_few_different_numbers_that_never_repeat_are_continuous():
    assert described(Relative([[0.31], [0.7], [0.11], [0.95]]))[0]["kind"] == "continuous"
    assert described(Relative([[3], [7], [1], [9]]))[0]["kind"] == "integer"
    assert described(Relative([[0.3], [0.7], [0.3], [0.9]]))[0]["kind"] == "discrete"
    assert described(Relative([[0.3], [0.7]]))[0]["kind"] == "binary"


# ---- stated kinds --------------------------------------------------------------------------------


def test_kinds_can_be_stated_by_name_and_by_index():
    noise = Relative(TABLE, kinds={"age": "continuous", 2: "categorical", "tenths": "continuous"})
    rows = described(noise)
    assert [rows[name]["kind"] for name in ("age", "few", "tenths")] == [
        "continuous",
        "categorical",
        "continuous",
    ]
    assert rows["age"]["law"] == f"normal with sd {0.3 * TABLE['age'].std(ddof=0):.4g}"
    assert rows["age"]["outside"] > 0


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ({"age": "number"}, "the kind of column 'age' is 'number'; expected one of 'continuous', 'integer'"),
        ({"agee": "integer"}, "kinds names 'agee', which X does not have"),
        ({"tenths": "integer"}, "'tenths' is stated to be integer, but holds .*, expected whole numbers"),
        ({"few": "binary"}, "'few' is stated to be binary, but has 7 different values"),
        ({"continuous": "lattice"}, "'continuous' is stated to be lattice, but has no common step"),
        ("integer", "kinds is 'integer', expected a mapping"),
        (
            {0: "continuous", "continuous": "continuous"},
            "kinds has column 'continuous' twice, by name and by",
        ),
        ({"age": ["integer"]}, r"the kind of column 'age' is \['integer'\]; expected one of"),
    ],
)
def test_kinds_that_do_not_fit_are_refused(kinds, words):
    with pytest.raises(NoiseError, match=words):
        Relative(TABLE, kinds=kinds)
    with pytest.raises(NoiseError, match="column 0 is stated to be integer, but column 0 holds text"):
        Relative([["a"], ["b"]], kinds={0: "integer"})


# ---- special values ------------------------------------------------------------------------------

CODES = {-9, -8, -7}


def with_codes(values, seed=0):
    rng = np.random.default_rng(seed)
    coded = np.array(values, dtype=float)
    coded[rng.random(len(coded)) < 0.3] = rng.choice([-9.0, -8.0, -7.0])
    coded[:3] = -9, -8, -7
    coded[3] = np.nan
    return coded


@pytest.mark.parametrize("name", ["continuous", "binary", "few", "age", "tenths"])
def test_kept_codes_neither_move_nor_are_reached(name):
    coded = with_codes(COLUMNS[name])
    regular = coded[~np.isnan(coded) & ~np.isin(coded, list(CODES))]
    noise = Relative(coded[:, None], 0.5, keep=CODES)
    drawn = noise.sample(np.repeat(coded, 200)[:, None])[:, 0].reshape(-1, 200)
    special = np.isnan(coded) | np.isin(coded, list(CODES))
    np.testing.assert_array_equal(drawn[special], np.repeat(coded[special, None], 200, axis=1))
    assert drawn[~special].min() >= regular.min()
    assert drawn[~special].max() <= regular.max()
    squares = (drawn[~special] - coded[~special, None]) ** 2
    assert abs(squares.mean() - 0.25 * regular.var()) < 5 * squares.std() / math.sqrt(squares.size)
    (row,) = described(noise).values()
    assert row["relative_move"] == pytest.approx(0.5, rel=1e-9)
    assert row["outside"] == 0
    assert row["kind"] == KINDS[name]
    (law,) = noise.laws(1)
    below, above = law.tails(np.array([-9.0, regular[0]]), np.array([-8.5, regular.min()]))
    assert below.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert above.tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_a_kept_code_within_the_range_is_not_reached_either():
    """A rounded normal would land on it: the column is redrawn instead."""
    values = np.arange(0.0, 40.0)
    noise = Relative(values[:, None], 0.3, keep={20})
    assert described(noise)[0]["law"] == "redrawn with probability 0.045"
    drawn = noise.sample(np.repeat(values, 100)[:, None])[:, 0].reshape(-1, 100)
    assert (drawn[20] == 20).all()
    assert (np.delete(drawn, 20, axis=0) != 20).all()


@pytest.mark.parametrize("strategy", ["plan", "compiled", "pairs"])
def test_gaps_with_kept_values(strategy):
    """Numbers and categories; a kept category may share its cell with others."""
    X = np.column_stack([with_codes(COLUMNS["age"]), RNG.integers(0, 4, N)])
    levels = Categories([0, 1, 2, 3])
    tree = Split(0, -6.5, 5.0, Split(0, 40.5, 1.0, Split(1, 0.0, 2.0, 7.0, categories=(0, 1))))
    ensemble = ensemble_of([tree, Split(1, 0.0, 0.5, 3.0, categories=(1, 3))], 2, categories=[None, levels])
    noise = Relative(X, 0.6, keep={-9, -8, -7, 1})
    explainer = Explainer(ensemble, noise, rtol=0, _strategy=strategy)
    rows = np.array(
        [[-9.0, 0.0], [30.0, 1.0], [41.0, 2.0], [40.0, 0.0], [np.nan, 3.0], [50.0, 1.0], [-7.0, 1.0]]
    )
    number, category = noise.laws(2)

    def predict(x):
        return float(ensemble.predict(np.array([x]))[0])

    for x, gap in zip(rows, explainer.gap(rows, [0, 1]), strict=True):
        if np.isnan(x[0]) or x[0] in (-9, -8, -7):
            numbers = {x[0]: 1.0}
        else:
            points = np.arange(18.0, 80.0)
            numbers = dict(zip(points, law_on_points(number, x[0], points), strict=True))
        shares = {1.0: 1.0}
        if x[1] != 1:
            shares = dict(enumerate(category.category_probabilities(levels).tolist()))
            shares[x[1]] = category.staying_probabilities(levels)[int(x[1])]
            assert shares[1] == 0
        wanted = sum(
            p * q * (predict([a, b]) - predict(x)) ** 2 for a, p in numbers.items() for b, q in shares.items()
        )
        assert gap == pytest.approx(wanted, rel=1e-12, abs=1e-14)
    assert explainer.gap(rows[-1:], [0, 1])[0] == 0
    ranking = explainer.rank(rows)
    assert ranking.scores[0, 0] == 0


@pytest.mark.parametrize("keep", ["-9", 3, {1: 2}, [None], [np.nan], [[1]], [np.zeros(300)]])
def test_what_cannot_be_kept_is_refused(keep):
    with pytest.raises(NoiseError, match=r"^keep (is|holds) [^\n]{,90}$"):
        Relative(TABLE, keep=keep)


# ---- strength ------------------------------------------------------------------------------------


def test_another_strength_is_as_if_given_at_once():
    changed, given_so = Relative(TABLE, 0.3, keep={18}).with_strength(0.9), Relative(TABLE, 0.9, keep={18})
    assert changed.strength == 0.9
    pd.testing.assert_frame_equal(changed.describe(), given_so.describe())
    relative = Normal.relative(TABLE[["continuous"]], 0.3)
    assert relative.with_strength(0.7).laws(1) == Normal.relative(TABLE[["continuous"]], 0.7).laws(1)
    with pytest.raises(NoiseError, match=r"Normal\(0.3\) has no strength to change"):
        Normal(0.3).with_strength(0.1)


def test_the_strength_of_noises_by_feature_changes_together():
    X = TABLE[["continuous", "age"]]
    noise = PerFeature({"age": Stay(Relative(X, 0.3), 0.5)}, default=Relative(X, 0.3)).with_strength(0.7)
    wanted = PerFeature({"age": Stay(Relative(X, 0.7), 0.5)}, default=Relative(X, 0.7))
    for law, other in zip(noise.laws(2, tuple(X)), wanted.laws(2, tuple(X)), strict=True):
        x, thresholds = np.array([40.0]), np.arange(20.0, 70.0)
        np.testing.assert_array_equal(law.tails(x, thresholds), other.tails(x, thresholds))
    with pytest.raises(NoiseError, match=r"Normal\(1.0\) has no strength to change"):
        PerFeature({"age": Normal(1.0)}, default=Relative(X)).with_strength(0.7)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (1_700_000_000_000 + 1_000 * np.arange(1_000_000, step=997), "1700000000000 and 1700999991000"),
        (np.append(np.arange(-0.5, 30.0, 0.1).round(1), 36.9), "-0.5 and 36.9"),
        (np.arange(-3.0, 40.0), "-3 and 39"),
    ],
)
def test_ends_of_a_range_are_told_to_four_digits_of_its_width(values, words):
    assert described(Relative(np.array(values, dtype=float)[:, None]))[0]["law"].endswith(
        f"kept between {words}"
    )


@pytest.mark.parametrize("strength", [0, -1, 1.5, math.inf, math.nan, True, "0.3", None])
def test_a_strength_is_above_0_and_at_most_the_root_of_2(strength):
    for make in (lambda s: Relative(TABLE, s), Relative(TABLE).with_strength):
        with pytest.raises(NoiseError, match="strength is"):
            make(strength)
    Relative(TABLE, 2**0.5)


# ---- tables --------------------------------------------------------------------------------------


def test_constant_and_empty_columns_stay_with_a_warning():
    X = pd.DataFrame(
        {"a": [1.5] * 3, "b": [1.0, 2.0, 5.0], "c": [None] * 3, "d": ["x"] * 3, "e": [-9, -9, 4]}
    )
    with pytest.warns(UserWarning, match=r"4 columns of X.*: 'a', 'c', 'd', 'e'$") as caught:
        noise = Relative(X, keep={-9})
    assert caught[0].filename == __file__
    assert [isinstance(law_of(noise, name), StillLaw) for name in "abcde"] == [True, False, True, True, True]
    assert described(noise)["a"]["law"] == "does not move"


def test_columns_that_cannot_be_used_matter_only_if_the_model_needs_them():
    when = pd.to_datetime(["2020-01-01", "2021-01-01"])
    X = pd.DataFrame({"a": [1.0, 2.0], "when": when, "b": [np.inf, 2.0], "c": [0.0, 5e-324]})
    noise = Relative(X)
    noise.laws(1, ("a",))
    for name, words in (("when", "Datetime"), ("b", "infinite value"), ("c", "beyond the range")):
        with pytest.raises(NoiseError, match=f"Relative cannot use X: .*{words}"):
            noise.laws(1, (name,))
        assert described(noise)[name]["kind"] == "refused"
    with pytest.raises(NoiseError, match="lacks 1 feature of the model: 'z'"):
        noise.laws(2, ("a", "z"))
    with pytest.raises(NoiseError, match="Relative cannot use X: it has no rows"):
        Relative(np.empty((0, 2)))


def test_values_are_those_of_the_table_when_it_was_given():
    X = np.column_stack([COLUMNS["binary"], COLUMNS["age"]])
    noise = Relative(X)
    before = [law.tails(np.array([1.0]), np.array([0.5, 30.0])) for law in noise.laws(2)]
    X[:] = 0
    after = [law.tails(np.array([1.0]), np.array([0.5, 30.0])) for law in noise.laws(2)]
    np.testing.assert_array_equal(before, after)


def test_it_is_a_value():
    noise = Relative(TABLE, 0.3, keep={-9})
    assert repr(noise) == "Relative(<9 columns>, 0.3, keep={-9})"
    copy = pickle.loads(pickle.dumps(noise))
    pd.testing.assert_frame_equal(copy.describe(), noise.describe())
    with pytest.raises(AttributeError):
        noise.strength = 1.0
    assert list(Relative(TABLE.to_numpy()).describe()["column"]) == list(range(9))


# ---- the older noise on such columns -------------------------------------------------------------


def test_normal_noise_on_steps_is_warned_of():
    X = TABLE[["continuous", "binary", "age", "half", "tenths"]]
    with pytest.warns(UserWarning, match=r"2 columns of X .*: 'binary', 'age'\. .*use Relative") as caught:
        Normal.relative(X, 0.3)
    assert caught[0].filename == __file__
    two = np.where(np.arange(20) % 2, 0.25, 0.75)[:, None]
    with pytest.warns(UserWarning, match="1 column of X with only two values or only whole numbers: 0"):
        Normal.relative(two, 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Normal.relative(two[:19], 0.3)
        Normal.relative(X[["continuous", "tenths"]], 0.3)
