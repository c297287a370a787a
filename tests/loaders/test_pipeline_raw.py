"""Pipelines in their raw columns: every row goes where the Pipeline sends it, and noise is in raw units."""

from __future__ import annotations

import itertools
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

import predgap
from predgap import Explainer, Flip, Marginal, Normal, PerFeature, TableError
from predgap._model.ensemble import NUMERIC
from predgap.loaders.pipelines.raw_columns import first_on_the_other_side

N = 240
RNG = np.random.default_rng(8)
FRAME = pd.DataFrame(
    {
        "age": RNG.normal(50.0, 10.0, N).round(1),
        "colour": RNG.choice(["red", "green", "blue", "mauve"], N, p=[0.5, 0.3, 0.18, 0.02]),
        "bmi": RNG.normal(25.0, 3.0, N),
        "kids": RNG.poisson(1.2, N),
        "note": ["text"] * N,
    },
    index=[f"row {r}" for r in range(N)],
)
FRAME.loc[FRAME.index[::9], "bmi"] = np.nan
WITH_GAPS = FRAME.assign(colour=FRAME["colour"].where(np.arange(N) % 11 > 0))
BMI = FRAME["bmi"].fillna(25.0)
Y = ((FRAME["age"] - 50) / 10 + (FRAME["colour"] == "red") * (BMI - 24) + FRAME["kids"]).to_numpy()

REGRESSORS: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestRegressor(4, max_depth=5, random_state=0),
    "boosting": lambda: GradientBoostingRegressor(n_estimators=8, random_state=0),
    "histograms": lambda: HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=3),
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=8, max_depth=4, n_jobs=1),
    "xgboost, 0 is missing": lambda: xgboost.XGBRegressor(n_estimators=8, max_depth=4, missing=0.0, n_jobs=1),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=8, min_child_samples=3, verbose=-1, n_jobs=1),
    "catboost": lambda: catboost.CatBoostRegressor(
        iterations=8, depth=4, verbose=False, allow_writing_files=False, thread_count=1
    ),
}

TRANSFORMERS: dict[str, Callable[[], Any]] = {
    "one-hot and scaled": lambda: ColumnTransformer(
        [
            ("c", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["colour"]),
            ("n", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "bmi"]),
            ("k", "passthrough", ["kids"]),
        ]
    ),
    "sparse, absent where the scaled value is 0": lambda: ColumnTransformer(
        [
            ("c", OneHotEncoder(handle_unknown="ignore"), ["colour"]),
            ("n", make_pipeline(SimpleImputer(strategy="median"), RobustScaler()), ["age", "bmi"]),
        ],
        remainder="drop",
        sparse_threshold=1.0,
    ),
    "dropped and infrequent": lambda: ColumnTransformer(
        [
            (
                "c",
                OneHotEncoder(
                    drop="first", min_frequency=10, handle_unknown="infrequent_if_exist", sparse_output=False
                ),
                [1],
            ),
            ("n", MinMaxScaler(clip=True), [0]),
            ("i", SimpleImputer(strategy="constant", fill_value=-1.0, add_indicator=True), [2]),
            ("k", MaxAbsScaler(), np.array([False, False, False, True, False])),
        ]
    ),
    "ordinal, scaled twice": lambda: ColumnTransformer(
        [
            (
                "c",
                make_pipeline(
                    OrdinalEncoder(
                        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
                    ),
                    StandardScaler(),
                ),
                ["colour"],
            ),
            ("n", make_pipeline(SimpleImputer(strategy="median"), MinMaxScaler((5, 6))), ["age", "bmi"]),
            ("again", RobustScaler(with_centering=False), ["age"]),
            ("drop", "drop", ["note"]),
        ],
        remainder=FunctionTransformer(),
    ),
    "imputed text, columns by kind": lambda: ColumnTransformer(
        [
            (
                "c",
                Pipeline(
                    [
                        ("i", SimpleImputer(strategy="most_frequent")),
                        ("o", OneHotEncoder(handle_unknown="ignore")),
                    ]
                ),
                ["colour"],
            ),
            ("n", SimpleImputer(), make_column_selector(dtype_include="number")),
        ],
        sparse_threshold=0.0,
    ),
    "imputed, with indicators": lambda: ColumnTransformer(
        [
            ("c", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["colour"]),
            ("n", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["age", "bmi"]),
        ]
    ),
}  # fmt: skip


def fitted(transformer: str, model: str, X: Any = FRAME) -> Pipeline:
    return make_pipeline(TRANSFORMERS[transformer](), REGRESSORS[model]()).fit(X, Y)


def combinations() -> list[tuple[str, str]]:
    """All but histograms after a sparse table, which they do not take."""
    pairs = itertools.product(TRANSFORMERS, REGRESSORS)
    return [(t, m) for t, m in pairs if (t.startswith("sparse"), m) != (True, "histograms")]


def explained(pipeline: Any, noise: Any = None) -> Explainer:
    """In the raw columns: a warning, which says that it is not, would be an error."""
    noise = PerFeature({"colour": Flip(0.2)}, default=Normal(1.0)) if noise is None else noise
    return Explainer(pipeline, noise, rtol=0)


def rows_around_thresholds(explainer: Explainer, frame: pd.DataFrame, unknown: bool = True) -> pd.DataFrame:
    """All columns at, one float below and one above each raw threshold; missing values, categories, zeros."""
    e = explainer.ensemble
    columns: dict[str, Any] = {}
    for q, name in enumerate(e.names):
        cuts = np.unique(e.threshold[(e.feature == q) & (e.category_set == NUMERIC)])
        cuts = cuts[np.abs(cuts) < 1e30]  # beyond, no number goes another way
        values: list[Any] = [
            *cuts,
            *np.nextafter(cuts, -np.inf),
            *np.nextafter(cuts, np.inf),
            0.0,
            -0.0,
            np.nan,
        ]
        if name == "colour":
            values = [*frame["colour"].unique(), *(["unknown"] if unknown else [])]
        elif name == "note":
            values = ["text"]
        columns[name] = values
    n = max(map(len, columns.values()))
    rng = np.random.default_rng(0)
    out = pd.DataFrame(
        {c: rng.permutation(np.resize(np.array(v, dtype=object), n)) for c, v in columns.items()}
    )
    return out.astype({"age": float, "bmi": float, "kids": float})


def assert_agrees(explainer: Explainer, pipeline: Any, rows: Any) -> None:
    """The Pipeline's own predictions: its trees are added in single precision by XGBoost, else in double."""
    rtol = 2e-6 if "XGBoost" in explainer.ensemble.source else 1e-12
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Found unknown categories")  # scikit-learn says so with drop=
        found, expected = explainer.ensemble.predict(explainer.transform(rows)), pipeline.predict(rows)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize(("transformer", "model"), combinations())
def test_every_row_goes_where_the_pipeline_sends_it(transformer: str, model: str) -> None:
    frame = WITH_GAPS if transformer.startswith(("imputed", "ordinal")) else FRAME
    pipeline = fitted(transformer, model, frame)
    explainer = explained(pipeline)
    assert explainer.ensemble.names == ("age", "colour", "bmi", "kids", "note")
    rows = rows_around_thresholds(explainer, frame)
    if "dropped" in transformer:
        rows["age"], rows["kids"] = rows["age"].fillna(1.0), rows["kids"].fillna(1.0)
    if model in ("forest", "boosting"):  # they take no missing values, except where they were fitted on some
        rows = rows.fillna({"age": 50.0, "kids": 0.0})
        if "one-hot" not in transformer and "sparse" not in transformer:
            rows = rows.fillna({"bmi": 25.0})
    assert_agrees(explainer, pipeline, frame)
    assert_agrees(explainer, pipeline, rows)
    # Thresholds are exact: the row as it is was not moved.
    for name in ("age", "bmi", "kids"):
        q = explainer.ensemble.names.index(name)
        if (explainer.ensemble.feature == q).any():
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Found unknown categories")
                np.testing.assert_array_equal(explainer.transform(rows)[:, q], rows[name])


def enumerated(pipeline: Any, margin: Callable[[Any], Any], X: pd.DataFrame, subset: list[str]) -> Any:
    """The gaps under Marginal noise from FRAME, by the Pipeline's own predictions at all combinations."""
    values = [FRAME[name].dropna() for name in subset]
    choices = [series.value_counts(normalize=True) for series in values]
    base, gaps = margin(X), np.zeros(len(X))
    for combination in itertools.product(*(choice.items() for choice in choices)):
        moved = X.copy()
        for name, (value, _) in zip(subset, combination, strict=True):
            moved[name] = moved[name].where(moved[name].isna(), value)
        gaps += np.prod([p for _, p in combination]) * (margin(moved) - base) ** 2
    return gaps


@pytest.mark.parametrize("model", ["histograms", "lightgbm", "forest"])
@pytest.mark.parametrize("subset", [["colour"], ["kids"], ["colour", "kids"]])
def test_gaps_are_those_of_the_pipelines_own_predictions(model: str, subset: list[str]) -> None:
    pipeline = fitted("one-hot and scaled", model)
    explainer = explained(pipeline, Marginal(FRAME))
    rows = FRAME[:12]
    expected = enumerated(pipeline, pipeline.predict, rows, subset)
    np.testing.assert_allclose(explainer.gap(rows, subset), expected, rtol=1e-12, atol=1e-24)
    assert (expected > 0).any()


def test_gaps_where_a_zero_is_missing_to_xgboost() -> None:
    """Sparse: the median of age becomes 0, which is absent, so it goes its own way. It is no missing value:
    noise moves it, and lands on it."""
    frame = FRAME.assign(age=FRAME["age"].round(-1))  # so that many are the median
    pipeline = fitted("sparse, absent where the scaled value is 0", "xgboost", frame)
    explainer = explained(pipeline, Marginal(frame))
    model = predgap.load(pipeline[-1])
    steps = pipeline[:-1]

    def margin(X: Any) -> Any:  # in double precision
        table = steps.transform(X).toarray()
        return model.predict(np.where(table == 0, np.nan, table))

    choices = frame["age"].value_counts(normalize=True)
    assert (steps.transform(frame).toarray()[:, 4] == 0).any()
    rows, expected = frame[:12], np.zeros(12)
    for value, p in choices.items():
        expected += p * (margin(rows.assign(age=value)) - margin(rows)) ** 2
    np.testing.assert_allclose(explainer.gap(rows, ["age"]), expected, rtol=1e-12, atol=1e-24)
    np.testing.assert_allclose(margin(rows), pipeline.predict(rows), rtol=1e-5, atol=1e-5)


def test_normal_noise_is_in_raw_units() -> None:
    """One threshold: P(x' < c) in the units of X, whatever the scaling."""
    X = np.array([[0.0], [1000.0]] * 20)
    tree = GradientBoostingRegressor(n_estimators=1, max_depth=1, learning_rate=1.0)
    pipeline = make_pipeline(StandardScaler(), tree).fit(X, X[:, 0] / 1000)
    explainer = Explainer(pipeline, Normal(250.0))
    assert explainer.ensemble.names == ("f0",)
    np.testing.assert_allclose(explainer.gap([[250.0]], [0]), 0.15865525393145707, rtol=1e-6)  # P(Z > 1)


@pytest.mark.parametrize("model", REGRESSORS)
def test_a_model_may_split_on_what_was_missing(model: str) -> None:
    frame = FRAME[["age", "bmi"]]
    steps = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    pipeline = make_pipeline(steps, REGRESSORS[model]()).fit(frame, Y + 10 * frame["bmi"].isna())
    explainer = Explainer(pipeline, Normal(1.0), rtol=0)
    assert explainer.ensemble.names == ("age", "bmi")
    assert_agrees(explainer, pipeline, frame)
    found, expected = explainer.ensemble.predict([[50.0, np.nan], [50.0, 25.0]]), [10.0, 0.0]
    assert abs(np.diff(found)[0]) > 0.3 * abs(np.diff(expected)[0])


def test_margins_and_probabilities_of_classifiers() -> None:
    binary, classes = (Y > 1).astype(int), np.digitize(Y, [0.0, 2.0])
    ct = TRANSFORMERS["one-hot and scaled"]
    for model, labels, method in (
        (HistGradientBoostingClassifier(max_iter=5), binary, "decision_function"),
        (GradientBoostingClassifier(n_estimators=5), classes, "decision_function"),
        (RandomForestClassifier(5, max_depth=4), classes, "predict_proba"),
    ):
        pipeline = make_pipeline(ct(), model).fit(FRAME, labels)
        explainer = explained(pipeline)
        found = explainer.ensemble.predict(explainer.transform(FRAME))
        np.testing.assert_allclose(found, getattr(pipeline, method)(FRAME), rtol=1e-12, atol=1e-12)
        assert (explainer.gap(FRAME[:5], ["colour"]) >= 0).all()


# ---- numbers of other types ----


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler()])
@pytest.mark.parametrize("model", ["xgboost", "histograms"])
@pytest.mark.parametrize("frame", [True, False])
def test_float32_rows_go_where_float32_arithmetic_sends_them(scaler: Any, model: str, frame: bool) -> None:
    """XGBoost's thresholds are values of the table, so that half of its rows lie at one."""
    X: Any = RNG.normal(1000.0, 3.0, (300, 2)).astype(np.float32)
    y = X[:, 0] - X[:, 1]
    X = pd.DataFrame(X, columns=["a", "b"]) if frame else X
    pipeline = make_pipeline(scaler, REGRESSORS[model]()).fit(X, y)
    explainer = Explainer(pipeline, Normal(1.0))
    assert_agrees(explainer, pipeline, X)
    assert_agrees(explainer, pipeline, X.astype(np.float64))
    np.testing.assert_allclose(explainer.transform(X), X, rtol=1e-6)


def test_whole_numbers_and_booleans() -> None:
    X = pd.DataFrame({"a": RNG.integers(0, 9, 200).astype("int8"), "b": RNG.integers(0, 2, 200) == 1})
    X["c"] = RNG.integers(0, 2**40, 200)
    pipeline = make_pipeline(StandardScaler(), REGRESSORS["histograms"]()).fit(X, X["a"] * X["b"])
    explainer = Explainer(pipeline, PerFeature({"b": Flip(0.1)}, default=Normal(1.0)))
    assert_agrees(explainer, pipeline, X)
    np.testing.assert_array_equal(explainer.transform(X)[:, 0], X["a"])


# ---- tables ----


def test_infinity_goes_where_the_model_sends_it_or_is_refused() -> None:
    pipeline = make_pipeline(
        ColumnTransformer([("s", StandardScaler(), ["age"]), ("p", "passthrough", ["bmi", "kids"])]),
        REGRESSORS["lightgbm"](),
    ).fit(FRAME, Y)
    explainer = explained(pipeline, Normal(1.0))
    rows = FRAME[:2].assign(bmi=[np.inf, -np.inf])
    assert_agrees(explainer, pipeline, rows)
    with pytest.raises(TableError, match="cannot transform X: Input X contains infinity"):
        explainer.gap(FRAME[:1].assign(age=np.inf), ["age"])
    forest = fitted("one-hot and scaled", "forest")
    with pytest.raises(
        TableError, match=r"is 1e\+300, but for this model of .* takes numbers up to 3.40282357e\+38"
    ):
        explained(forest).gap(FRAME[:1].assign(kids=1e300), ["kids"])


def test_frames_keep_names_labels_and_columns_that_are_not_used() -> None:
    pipeline = fitted("one-hot and scaled", "histograms")
    explainer = explained(pipeline)
    ranking = explainer.rank(FRAME[3:6][["kids", "note", "bmi", "colour", "age"]])
    assert ranking.names == ("age", "colour", "bmi", "kids", "note")
    assert ranking.feature_space is None
    assert ranking.to_frame()["row"].unique().tolist() == ["row 3", "row 4", "row 5"]
    assert np.isnan(explainer.transform(FRAME)[:, 4]).all()
    assert (explainer.gap(FRAME, ["note"]) == 0).all()
    polars = explainer.rank(pl.from_pandas(FRAME[3:6]))
    np.testing.assert_array_equal(polars.order, ranking.order)
    assert isinstance(polars.to_frame(), pl.DataFrame)
    other = pickle.loads(pickle.dumps(explainer))
    np.testing.assert_array_equal(other.gap(FRAME, ["colour"]), explainer.gap(FRAME, ["colour"]))
    assert repr(explainer).startswith("Explainer(scikit-learn")
    assert " in a Pipeline, " in repr(explainer)


def test_arrays_and_codes() -> None:
    X = np.stack([RNG.choice([2.0, 5.0, 7.0], N), RNG.normal(size=N)], axis=1)
    y = (X[:, 0] == 5) * X[:, 1]
    pipeline = make_pipeline(
        ColumnTransformer([("c", OneHotEncoder(), [0])], remainder=StandardScaler()),
        REGRESSORS["lightgbm"](),
    ).fit(X, y)
    explainer = Explainer(pipeline, Marginal(X))
    assert explainer.ensemble.categorical()[0].codes.tolist() == [2, 5, 7]
    assert explainer.ensemble.categorical()[0].closed
    assert_agrees(explainer, pipeline, X)
    assert (explainer.gap(X, [0]) > 0).any()
    with pytest.raises(TableError, match=r"Found unknown categories \[.*3"):
        explainer.gap([[3.0, 0.0]], [0])


def test_unknown_categories_and_gaps_in_categories() -> None:
    pipeline = fitted("one-hot and scaled", "histograms", WITH_GAPS)
    explainer = explained(pipeline)
    assert explainer.ensemble.categorical()[1].labels == ("blue", "green", "mauve", "red")
    assert_agrees(explainer, pipeline, WITH_GAPS[:3].assign(colour=["pink", np.nan, "red"]))
    assert (explainer.gap(WITH_GAPS[:1], ["colour"]) == 0).all()  # missing stays missing


def test_categories_of_the_model_itself_pass_through() -> None:
    frame = FRAME.drop(columns="note").astype({"colour": "category"})
    pipeline = make_pipeline(
        ColumnTransformer(
            [("s", StandardScaler(), ["age", "bmi"])],
            remainder="passthrough",
            verbose_feature_names_out=False,
        ).set_output(transform="pandas"),
        REGRESSORS["lightgbm"](),
    ).fit(frame, Y)
    explainer = explained(pipeline)
    assert explainer.ensemble.names == ("age", "colour", "bmi", "kids")
    assert explainer.ensemble.categorical()[1].labels == ("blue", "green", "mauve", "red")
    assert_agrees(explainer, pipeline, frame)
    behind = make_pipeline(
        ColumnTransformer([("o", OrdinalEncoder(), ["colour"])], remainder="passthrough"),
        HistGradientBoostingRegressor(max_iter=8, categorical_features=[0]),
    ).fit(frame, Y)
    explainer = explained(behind)
    assert explainer.ensemble.categorical()[1].labels == ("blue", "green", "mauve", "red")
    assert_agrees(explainer, behind, frame)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_table_that_is_read_in_two_ways_is_refused() -> None:
    """An array holds codes to predgap, and labels to the Pipeline."""
    X = pd.DataFrame({"size": RNG.choice([-1, 4, 9], N), "z": RNG.normal(size=N)})
    pipeline = make_pipeline(
        ColumnTransformer([("c", OneHotEncoder(), [0])], remainder="passthrough"), REGRESSORS["forest"]()
    ).fit(X, X["size"] * X["z"])
    explainer = Explainer(pipeline, PerFeature({"size": Flip(0.2)}, default=Normal(1.0)))
    assert explainer.ensemble.categorical()[0].labels == (-1, 4, 9)
    assert_agrees(explainer, pipeline, X)
    with pytest.raises(TableError, match=r"row \d+ of X: the steps of the Pipeline make something else of"):
        explainer.gap(X.to_numpy(), ["size"])


def test_none_may_be_a_category_and_is_missing() -> None:
    colour = FRAME["colour"].astype(object).where(np.arange(N) % 7 > 0, None)
    frame = FRAME.assign(colour=colour)
    pipeline = fitted("one-hot and scaled", "histograms", frame)
    explainer = explained(pipeline)
    assert explainer.ensemble.categorical()[1].labels == ("blue", "green", "mauve", "red")
    assert_agrees(explainer, pipeline, frame)
    assert (explainer.gap(frame[:1], ["colour"]) == 0).all()


def test_names_may_be_given_and_load_gives_the_raw_ensemble() -> None:
    pipeline = fitted("one-hot and scaled", "histograms")
    explainer = Explainer(
        pipeline, PerFeature({"b": Flip(0.2)}, default=Normal(1.0)), feature_names=["a", "b", "c", "d", "e"]
    )
    np.testing.assert_array_equal(explainer.gap(FRAME, ["b"]), explained(pipeline).gap(FRAME, ["colour"]))
    ensemble = predgap.load(pipeline)
    assert ensemble.names == ("age", "colour", "bmi", "kids", "note")
    np.testing.assert_allclose(ensemble.predict(FRAME.assign(note=0.0)), pipeline.predict(FRAME), rtol=1e-12)


# ---- the fallback ----

NOT_RAW: dict[str, tuple[Callable[[], Any], str]] = {
    "number and category": (
        lambda: ColumnTransformer([("o", OneHotEncoder(), ["kids"]), ("p", "passthrough", ["kids", "age"])]),
        "column 'kids' is used both as a number and as a category",
    ),
    "a value is missing": (
        lambda: ColumnTransformer([("i", SimpleImputer(missing_values=0), ["kids"])], remainder="drop"),
        "SimpleImputer replaces the value 0, not only missing values",
    ),
    "scaled, then encoded": (
        lambda: ColumnTransformer([("x", make_pipeline(StandardScaler(), OrdinalEncoder()), ["kids"])]),
        "OrdinalEncoder encodes numbers that a step before it changes",
    ),
    "a function": (
        lambda: ColumnTransformer([("f", FunctionTransformer(np.abs), ["age", "kids"])]),
        "FunctionTransformer may mix columns",
    ),
}


@pytest.mark.parametrize("name", NOT_RAW)
def test_other_steps_fall_back_and_say_so(name: str) -> None:
    build, says = NOT_RAW[name]
    pipeline = make_pipeline(build(), REGRESSORS["histograms"]()).fit(FRAME, Y)
    with pytest.warns(UserWarning, match=f"explained after ColumnTransformer, .* because {says}"):
        explainer = Explainer(pipeline, Normal(0.3))
    ranking = explainer.rank(FRAME[:3])
    assert ranking.feature_space == "after ColumnTransformer"
    np.testing.assert_allclose(
        explainer.ensemble.predict(explainer.transform(FRAME)), pipeline.predict(FRAME), rtol=1e-12
    )


def test_a_rewritten_model_that_disagrees_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = make_pipeline(StandardScaler(), REGRESSORS["forest"]()).fit(FRAME[["age", "kids"]], Y)
    wrong = "predgap.loaders.pipelines.raw_columns.first_on_the_other_side"
    monkeypatch.setattr(wrong, lambda side, low, high, guess: guess + 1.0)
    with pytest.warns(
        UserWarning, match="because the rewritten model does not agree|because the steps refuse"
    ):
        explainer = Explainer(pipeline, Normal(0.3))
    assert explainer.rank(FRAME[["age", "kids"]]).feature_space == "after StandardScaler"


def test_one_hot_is_not_for_pipelines() -> None:
    with pytest.raises(predgap.PredgapError, match="one_hot is for a model without a Pipeline"):
        Explainer(fitted("one-hot and scaled", "forest"), Normal(1.0), one_hot={"colour": [0, 1]})


# ---- bisection ----


@given(
    st.floats(-1e300, 1e300, allow_subnormal=True),
    st.floats(1e-10, 1e10),
    st.floats(-1e5, 1e5),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_the_first_float_beyond_a_threshold(
    t: float, scale: float, shift: float, falls: bool, guess: float
) -> None:
    sign = -1.0 if falls else 1.0

    def side(x: Any) -> Any:
        with np.errstate(over="ignore"):
            return sign * ((x - shift) / scale) < t

    ends = np.array([-1.7e308]), np.array([1.7e308])
    (found,) = first_on_the_other_side(side, *ends, np.array([guess]))
    if np.isnan(found):
        assert side(ends[0]) == side(ends[1])
    else:
        assert side(found) == side(ends[1]) != side(ends[0])
        assert side(np.nextafter(found, -np.inf)) == side(ends[0])
