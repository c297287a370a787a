"""Categories of scikit-learn's histogram gradient boosting: codes, labels, and what is refused."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)

from predgap._model.ensemble import LEAF, NUMERIC, Ensemble
from predgap.errors import LoaderError, TableError
from predgap.loaders import load
from sklearn_models import (
    HIST,
    X_,
    Y_,
    assert_agrees,
    margins,
    refused,
)

RELEASE = tuple(map(int, sklearn.__version__.split(".")[:2]))

# ---- categories ----

COLOURS = ("blue", "green", "red")
SIZES = (0, 2, 5, 300)
COLOUR = np.random.default_rng(6).choice([*COLOURS, None], len(Y_))
SIZE = np.random.default_rng(7).choice([*SIZES, np.nan], len(Y_))
EFFECT = X_[:, 0] + 2.0 * (COLOUR == "green") * (SIZE == 5) - 3.0 * (SIZE == 300) + 4.0 * (COLOUR == None)  # noqa: E711
THIRDS = np.digitize(EFFECT, [-1.0, 1.0])


def mixed(x: Any, colour: Any, size: Any) -> pd.DataFrame:
    """Columns of text and numbers, categorical or not, in turns; "idle" is categorical and constant."""
    return pd.DataFrame(
        {
            "x": np.asarray(x, dtype=float),
            "colour": pd.Categorical(colour),
            "z": np.zeros(len(colour)),
            "size": pd.Categorical(size),
            "idle": pd.Categorical(["one"] * len(colour)),
        }
    )


def in_polars(frame: pd.DataFrame) -> pl.DataFrame:
    """The frame with Enum and Categorical columns; text for sizes, since Polars has no other categories."""
    sizes = [None if np.isnan(size) else str(int(size)) for size in frame["size"].astype(float)]
    colours = [colour if isinstance(colour, str) else None for colour in frame["colour"]]
    return pl.DataFrame(
        {
            "x": frame["x"].to_numpy(),
            "colour": pl.Series(colours, dtype=pl.Enum([*COLOURS, "mauve"])),
            "z": frame["z"].to_numpy(),
            "size": pl.Series(sizes, dtype=pl.Categorical),
            "idle": pl.Series(["one"] * len(frame), dtype=pl.Categorical),
        }
    )


def as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Plain columns: which of them are categorical, the option says."""
    return frame.astype({"colour": object, "size": float, "idle": object})


def as_objects(frame: pd.DataFrame) -> np.ndarray:
    found = as_text(frame).to_numpy(dtype=object)
    found[pd.isna(found)] = np.nan
    return found


def as_codes(frame: pd.DataFrame) -> np.ndarray:
    """Numbers only: a level of "colour" is its place, one that is new 77."""
    place = {None: np.nan, **{name: float(i) for i, name in enumerate(COLOURS)}}
    colour = [place.get(name if isinstance(name, str) else None, 77.0) for name in frame["colour"]]
    return np.c_[frame["x"], colour, frame["z"], frame["size"].astype(float), np.zeros(len(frame))]


CATEGORICAL = ["size", "colour", "idle"]
FORMS: dict[str, tuple[Callable[[pd.DataFrame], Any], Any]] = {
    "pandas": (lambda frame: frame, "from_dtype"),
    "polars": (in_polars, "from_dtype" if RELEASE >= (1, 9) else CATEGORICAL),  # which older ones ignore
    "names": (as_text, CATEGORICAL),
    "objects": (as_objects, [4, 1, 3]),
    "mask": (as_codes, [False, True, False, True, True]),
    "indices": (as_codes, [1, 3, 4]),
}


def fit_mixed(form: str, kind: Any = HistGradientBoostingRegressor, y: np.ndarray = EFFECT) -> Any:
    shaped, which = FORMS[form]
    frame = shaped(mixed(X_[:, 0], COLOUR, SIZE))
    return kind(categorical_features=which, **{**HIST, "max_iter": 15}).fit(frame, y)


def mixed_rows(ensemble: Ensemble) -> pd.DataFrame:
    """All levels, new ones and missing ones of both columns, each with some x around thresholds."""
    cuts = ensemble.threshold[(ensemble.feature == 0)]
    x = np.concatenate([cuts, np.nextafter(cuts, -np.inf), [np.nan, 0.0]])[-9:]
    rows = itertools.product(x, [*COLOURS, "mauve", None], [*SIZES, 7.0, np.nan])
    return mixed(*zip(*rows, strict=True))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("kind", "y"),
    [
        (HistGradientBoostingRegressor, EFFECT),
        (HistGradientBoostingClassifier, THIRDS > 0),
        (HistGradientBoostingClassifier, THIRDS),
    ],
)
def test_categories_go_where_the_library_sends_them(form: str, kind: Any, y: np.ndarray) -> None:
    model = fit_mixed(form, kind, y)
    ensemble = load(model)  # any warning is an error here
    assert ensemble.n_outputs == (3 if y is THIRDS else 1)
    assert ensemble.unseen_is_missing
    rows = FORMS[form][0](mixed_rows(ensemble))
    expected = margins(model, rows)
    np.testing.assert_allclose(ensemble.predict(rows).reshape(expected.shape), expected, rtol=0, atol=1e-12)
    split = set(ensemble.feature[ensemble.category_set != NUMERIC].tolist())
    assert split == {1, 3}
    assert set(ensemble.feature[(ensemble.category_set == NUMERIC)]) == {LEAF, 0}


def test_levels_are_those_of_training_in_the_columns_of_the_user() -> None:
    expected: dict[str, dict[int, tuple[list[int], tuple[Any, ...]]]] = {
        "pandas": {1: ([0, 1, 2], COLOURS), 3: ([*SIZES], SIZES), 4: ([0], ("one",))},
        "polars": {
            1: ([0, 1, 2, 3], (*COLOURS, None)),  # for scikit-learn, None is a category
            3: ([0, 1, 2, 3, 4], ("0", "2", "300", "5", None)),
            4: ([0], ("one",)),
        },
        "indices": {1: ([0, 1, 2], (0, 1, 2)), 3: ([*SIZES], SIZES), 4: ([0], (0,))},
    }
    for form, levels in expected.items():
        model = fit_mixed(form)
        ensemble = load(model)
        found = {q: (own.codes.tolist(), own.labels) for q, own in ensemble.categorical().items()}
        assert found == levels
        assert hasattr(model, "feature_names_in_") == (ensemble.feature_names is not None)
        names = None if form == "indices" else ("x", "colour", "z", "size", "idle")
        assert ensemble.feature_names in ((names,) if form == "pandas" else (names, None))


def test_codes_and_labels_of_a_row_mean_the_same() -> None:
    ensemble = load(fit_mixed("pandas"))
    labels = mixed_rows(ensemble)
    np.testing.assert_array_equal(ensemble.predict(labels), ensemble.predict(as_codes(labels)))
    new = np.array([[0.5, code, 0.0, 5.0, 0.0] for code in (np.nan, -1.0, 3.0, 1e9)])
    assert len(set(ensemble.predict(new))) == 1
    with pytest.raises(TableError, match=r"X\[0, 1\] is 0\.5, but feature 'colour' is categorical"):
        ensemble.predict([[0.5, 0.5, 0.0, 5.0, 0.0]])


@pytest.mark.parametrize("n_levels", [1, 2, 32, 33, 255])
def test_any_number_of_levels(n_levels: int) -> None:
    level = np.arange(20 * n_levels) % n_levels
    rng = np.random.default_rng(n_levels)
    rows = np.c_[rng.normal(size=len(level)), 3 * level]
    y = rng.normal(size=n_levels)[level] + rows[:, 0]
    model = HistGradientBoostingRegressor(categorical_features=[1], **HIST).fit(rows, y)
    ensemble = load(model)
    assert ensemble.categorical()[1].codes.tolist() == [*range(0, 3 * n_levels, 3)]
    tried = np.concatenate([rows, [[0.0, np.nan], [0.0, 1.0], [0.0, -3.0], [0.0, 255.0], [0.0, 256.0]]])
    assert_agrees(model, ensemble, tried)


def test_a_column_of_missing_categories_and_infinite_numbers() -> None:
    rows = np.c_[X_[:, 0], np.full(len(X_), np.nan)]
    model = HistGradientBoostingRegressor(categorical_features=[1], **HIST).fit(rows, Y_)
    ensemble = load(model)
    assert len(ensemble.categorical()[1]) == 0
    assert ensemble.accepts_infinity
    assert_agrees(model, ensemble, np.array([[0.0, 3.0], [np.inf, np.nan], [-np.inf, 0.0]]))


def test_categories_of_other_things_than_text() -> None:
    """Intervals are labels, truth values the numbers 0 and 1."""
    frame = pd.DataFrame({"x": X_[:, 0], "cut": pd.cut(X_[:, 1], 4), "yes": X_[:, 2] > 0})
    model = HistGradientBoostingRegressor(categorical_features=["cut", "yes"], **HIST).fit(frame, Y_)
    ensemble = load(model)
    assert set(ensemble.categorical()) == {1, 2}
    np.testing.assert_allclose(ensemble.predict(frame), model.predict(frame), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (np.where(Y_ > 0, -1.0, 3.0), "-1.0"),
        (np.where(Y_ > 0, 0.5, 3.0), "0.5"),
        (np.where(Y_ > 0, 2.0**31, 3.0), "2147483648.0"),
        (
            np.where(Y_ > 0, np.datetime64("2026-01-01"), np.datetime64("2025-01-01")),
            "datetime.datetime(2025, 1, 1, 0, 0)",
        ),
        (np.where(Y_ > 0, 3, None), "None"),  # beside text, None is a label
    ],
)
def test_categories_that_have_no_code_are_refused(column: np.ndarray, shown: str) -> None:
    frame = pd.DataFrame({"x": X_[:, 0], "c": pd.Series(column)})
    model = HistGradientBoostingRegressor(categorical_features=["c"], **HIST).fit(frame, Y_)
    says = "; predgap takes text, or whole numbers from 0 to 2147483646: encode the column so and train again"
    refused(model, f"column 1 has the category {re.escape(shown)}{says}")


def test_sets_with_strange_categories_are_refused() -> None:
    model = fit_mixed("mask")
    model._predictors[0][0].raw_left_cat_bitsets[0, 7] |= 1 << 31
    refused(model, "the codes of a set must not be negative", LoaderError)
    model = fit_mixed("mask")
    model._bin_mapper.bin_thresholds_[0] = model._bin_mapper.bin_thresholds_[0][:1]
    refused(model, "the load disagrees with scikit-learn", LoaderError)
