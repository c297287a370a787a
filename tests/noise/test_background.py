"""The noise Background: its rows, how they are drawn, read and matched, and what it refuses."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.ensemble import RandomForestRegressor

from asking import kernel_of
from predgap import (
    Background,
    Categories,
    Clipped,
    Explainer,
    Marginal,
    Noise,
    Normal,
    PerFeature,
    Relative,
    Rounded,
    Stay,
)
from predgap.errors import NoiseError
from strategies import Split, ensemble_of

STUMP = ensemble_of([Split(1, 0.5, 1.0, 3.0)], 3, feature_names=("a", "b", "c"))
COLOURS = Categories([0, 1, 2], ("red", "green", "blue"))
BY_COLOUR = ensemble_of(
    [Split(0, 0.0, 5.0, 1.0, default_left=False, categories=(0, 2))],
    1,
    categories=[COLOURS],
    feature_names=("colour",),
)


def rows_used(noise: Background, ensemble=STUMP) -> np.ndarray:
    return kernel_of(Explainer(ensemble, noise)).background


# ---- the rows that are drawn ---------------------------------------------------------------------


def test_a_small_table_is_used_whole_and_in_order():
    X = np.random.default_rng(0).normal(size=(200, 3))
    noise = Background(X, seed=5)
    assert noise.n_rows == 200
    np.testing.assert_array_equal(rows_used(noise)[:, 1], X[:, 1])
    assert repr(noise) == "Background(<200 rows>)"


@pytest.mark.parametrize("make", [np.asarray, list, pd.DataFrame, pl.DataFrame, pa.table])
def test_of_a_larger_table_a_seeded_sample_is_the_noise(make):
    values = np.arange(3000.0).reshape(1000, 3)
    X = make(values) if make in (np.asarray, list) else make(dict(zip("abc", values.T, strict=True)))
    noise, again, other = Background(X), Background(X, seed=0), Background(X, seed=1)
    assert noise.n_rows == again.n_rows == other.n_rows == 200
    drawn = rows_used(noise)[:, 1]
    assert len({*drawn}) == 200  # without replacement
    assert {*drawn} <= {*values[:, 1]}
    assert (np.diff(drawn) > 0).all()  # in the order of X
    np.testing.assert_array_equal(drawn, rows_used(again)[:, 1])
    assert not np.array_equal(drawn, rows_used(other)[:, 1])
    assert Background(X, max_rows=30).n_rows == 30
    assert repr(Background(X, max_rows=30, seed=2)) == "Background(<1000 rows>, max_rows=30, seed=2)"


def test_all_rows_are_equally_likely_to_be_drawn():
    X = np.arange(40.0)[:, None] * np.ones(3)
    times = np.zeros(40)
    for seed in range(400):
        times[rows_used(Background(X, max_rows=10, seed=seed))[:, 1].astype(int)] += 1
    assert np.abs(times - 100).max() < 5 * np.sqrt(400 * 0.25 * 0.75)  # five standard deviations


def test_the_sample_is_the_law():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 3))
    noise = Background(X, max_rows=50, seed=3)
    drawn = rows_used(noise)[:, 1]
    gap = Explainer(STUMP, noise).gap([[0.0, 0.0, 0.0]], ["b"])[0]
    assert gap == pytest.approx(4.0 * (drawn >= 0.5).mean(), rel=1e-12)


def test_x_is_copied():
    for X in (np.ones((3, 3)), pd.DataFrame(np.ones((3, 3)))):
        noise = Background(X)
        X *= 0.0
        assert (rows_used(noise)[:, 1] == 1.0).all()


def test_it_comes_back_from_a_pickle():
    for X in (np.eye(3), pd.DataFrame(np.eye(3), columns=["c", "b", "a"])):
        noise = pickle.loads(pickle.dumps(Background(X, max_rows=2, seed=7)))
        np.testing.assert_array_equal(rows_used(noise), rows_used(Background(X, max_rows=2, seed=7)))
    assert isinstance(noise, Noise)


# ---- columns and values --------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_are_matched_by_name_and_others_are_not_read(make):
    X = make({"target": ["x", "y"], "b": [0.25, None], "c": ["text", "text"]})
    np.testing.assert_array_equal(rows_used(Background(X))[:, 1], [0.25, np.nan])
    assert np.isnan(rows_used(Background(X))[:, [0, 2]]).all()


def test_without_names_columns_are_matched_by_position():
    np.testing.assert_array_equal(rows_used(Background([[1, 2, 3], [4, 5, 6]]))[:, 1], [2, 5])
    with pytest.raises(NoiseError, match=r"given to Background\(\) has 2 columns, the model has 3 features"):
        Explainer(STUMP, Background([[1, 2]]))
    with pytest.raises(NoiseError, match=r"given to Background\(\) lacks 1 feature of the model: 'b'"):
        Explainer(STUMP, Background(pd.DataFrame({"a": [1], "c": [2]})))


def test_numbers_go_where_those_of_rows_go_and_may_mean_missing():
    at = float(np.float32(0.1))  # above 0.1
    single = ensemble_of([Split(0, at, 1.0, 2.0)], 1, rows=np.float32, missing=-999.0)
    drawn = rows_used(Background([[0.1], [-999.0], [-999.00001], [np.nan], [-0.0]]), single)
    np.testing.assert_array_equal(drawn[:, 0], [0.1, np.nan, np.nan, np.nan, 0.0])
    found = Explainer(single, Background([[0.1], [-999.0]])).gap([[0.0], [1.0]], [0])
    assert found.tolist() == [0.5, 0.5]  # 0.1 goes right, as a row's does; missing goes left


def test_categories_are_labels_in_frames_and_codes_in_arrays():
    frame = pd.DataFrame({"colour": pd.Categorical(["blue", "red", None, "green"])})
    codes = np.array([[2.0], [0.0], [np.nan], [1.0]])
    objects = np.array([["blue"], ["red"], [None], ["green"]], dtype=object)
    for X in (frame, pl.from_pandas(frame), codes, objects):
        np.testing.assert_array_equal(rows_used(Background(X), BY_COLOUR), codes)
    # red 5, blue 5, missing and green 1
    assert Explainer(BY_COLOUR, Background(frame)).gap(frame[:1], ["colour"]).tolist() == [8.0]


def test_unknown_categories_go_where_the_model_sends_them():
    frame = pd.DataFrame({"colour": ["mauve", "red", "mauve", "red"]})
    explainer = Explainer(BY_COLOUR, Background(frame))
    assert explainer.gap(np.array([[0.0]]), [0]).tolist() == [8.0]  # in no set: to the right
    as_missing = ensemble_of(
        [Split(0, 0.0, 5.0, 1.0, default_left=True, categories=(0, 2))],
        1,
        categories=[COLOURS],
        unseen_is_missing=True,
    )
    explainer = Explainer(as_missing, Background([[7.0], [0.0]]))
    assert explainer.gap(np.array([[1.0]]), [0]).tolist() == [16.0]  # missing: to the left


def test_a_column_may_be_missing_as_a_whole():
    explainer = Explainer(BY_COLOUR, Background(np.array([[np.nan], [np.nan]])))
    assert explainer.gap(np.array([[0.0], [1.0]]), [0]).tolist() == [16.0, 0.0]


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Background([[1.0]], max_rows=0), "max_rows is 0, expected a whole number from 1"),
        (lambda: Background([[1.0]], max_rows=2.5), "max_rows is 2.5, expected a whole number from 1"),
        (lambda: Background([[1.0]], max_rows=True), "max_rows is True, expected a whole number from 1"),
        (lambda: Background([[1.0]], seed=-1), "seed is -1, expected a whole number from 0"),
        (lambda: Background([[1.0]], seed=None), "seed is None, expected a whole number from 0"),
        (lambda: Background(np.empty((0, 3))), "Background cannot use X: it has no rows"),
        (lambda: Background("X"), "Background cannot use X: X is a str"),
    ],
)
def test_what_is_not_a_background(make, words):
    with pytest.raises(NoiseError, match=words):
        make()


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (pd.DataFrame({"colour": [0, 1]}), "Background cannot use X: column 'colour' holds 0"),
        (np.array([[7.0], [8.0]]), "the model knows none of the categories in column 0"),
        (np.array([[0.5], [1.0]]), r"Background cannot use X: X\[0, 0\] is 0.5.* whole number"),
    ],
)
def test_columns_that_are_not_the_models_categories(X, words):
    with pytest.raises(NoiseError, match=words):
        Explainer(BY_COLOUR, Background(X))


def test_codes_of_closed_categories_must_be_known():
    closed = ensemble_of(
        [Split(0, 0.0, 5.0, 1.0, categories=(0,))],
        1,
        categories=[Categories([0, 1], ("x", "y"), closed=True)],
    )
    with pytest.raises(NoiseError, match=r"X\[1, 0\] is 2, which is none of the codes"):
        Explainer(closed, Background(np.array([[0.0], [2.0]])))


def test_text_where_numbers_are_needed():
    with pytest.raises(NoiseError, match="Background cannot use X: column 'b' holds text"):
        Explainer(STUMP, Background(pd.DataFrame({"a": [1], "b": ["x"], "c": [1]})))


def test_infinity_only_where_the_model_takes_it():
    X = np.random.default_rng(0).normal(size=(50, 2))
    forest = RandomForestRegressor(3, random_state=0).fit(X, X[:, 0])
    X[:, 0] = np.inf
    with pytest.raises(NoiseError, match=r"X\[0, 0\] .* is infinite.*clip it$"):
        Explainer(forest, Background(X))
    with pytest.raises(NoiseError, match=r"clip it \(row numbers are those of the 20 drawn\)$"):
        Explainer(forest, Background(X, max_rows=20))
    assert Explainer(STUMP, Background([[0, np.inf, 0], [0, -np.inf, 0]])).gap([[0, 0, 0]], [1]) == [2.0]


def test_it_cannot_be_a_part_of_another_noise():
    noise = Background(np.zeros((2, 3)))
    for make in (
        lambda: PerFeature({"b": noise}, default=Normal(1.0)),
        lambda: PerFeature({}, default=noise),
        lambda: Stay(noise, 0.5),
        lambda: Clipped(noise, 0, 1),
        lambda: Rounded(noise),
    ):
        with pytest.raises(NoiseError, match=r"got Background\(<2 rows>\), which moves .* use Marginal\(X\)"):
            make()
    with pytest.raises(NoiseError, match="there is no law of a single feature"):
        noise.laws(3)


# ---- samples and descriptions --------------------------------------------------------------------


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_samples_are_whole_rows_of_the_background(make):
    X = make({"job": ["cook", "nurse", None], "pay": [1.5, None, 4.0], "age": [20, 30, 40]})
    drawn = Background(X).sample(make({"age": [1] * 60, "job": ["cook"] * 60, "pay": [0.0] * 60}), seed=2)
    assert type(drawn) is type(X)
    rows = (
        drawn.to_pylist()
        if make is pa.table
        else (drawn.to_dict("records") if make is pd.DataFrame else drawn.to_dicts())
    )
    assert {(row["job"] if isinstance(row["job"], str) else None, row["age"]) for row in rows} == {
        ("cook", 20.0),
        ("nurse", 30.0),
        (None, 40.0),
    }
    for row in rows:
        pay = row["pay"]
        assert pay is None or pay != pay if row["age"] == 30 else pay == {20: 1.5, 40: 4.0}[row["age"]]


def test_a_gap_is_the_mean_over_samples():
    X = np.random.default_rng(3).normal(size=(50, 3))
    row, n = X[:1], 20_000
    drawn = Background(X).sample(np.repeat(row, n, axis=0), seed=1)
    squares = (STUMP.predict(drawn) - STUMP.predict(row)[0]) ** 2
    gap = Explainer(STUMP, Background(X)).gap(row, [0, 1, 2])[0]
    assert abs(squares.mean() - gap) < 5 * squares.std() / np.sqrt(n)
    np.testing.assert_array_equal(drawn, Background(X).sample(np.repeat(row, n, axis=0), seed=1))
    with pytest.raises(NoiseError, match="has 3 columns"):
        Background(X).sample(row[:, :2])


def test_it_is_described_as_other_noises_are():
    X = pd.DataFrame({"job": ["cook", "nurse"] * 200, "pay": np.arange(400.0), "all": 1.0})
    told = Background(X).describe()
    assert told.columns.tolist() == Relative(X[["job", "pay"]]).describe().columns.tolist()
    assert told["law"].unique().tolist() == ["that of one of 200 rows, together with all other columns"]
    assert told["column"].tolist() == ["job", "pay", "all"]
    assert told["relative_move"].tolist() == pytest.approx([2**0.5, 2**0.5, 0.0])
    used = Background(X)._table.column(1)
    pairs = (used[:, None] - used) ** 2
    assert told["move"][1] == pytest.approx(np.sqrt(pairs.mean()))


# ---- beside other noises -------------------------------------------------------------------------


def test_a_single_feature_moves_as_by_marginal():
    """The two noises differ only in what several features do."""
    X = np.random.default_rng(2).normal(size=(60, 3))
    joint, apart = Explainer(STUMP, Background(X)), Explainer(STUMP, Marginal(X))
    for q in range(3):
        np.testing.assert_allclose(joint.gap(X, [q]), apart.gap(X, [q]), rtol=1e-12)
