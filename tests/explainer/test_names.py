"""Names of a model without names: those of the table of its noise, by which frames are then matched."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost
from catboost import CatBoostRegressor
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import predgap
from predgap import (
    Background,
    Clipped,
    Explainer,
    Flip,
    Marginal,
    Noise,
    Normal,
    PerFeature,
    Ranking,
    Redraw,
    Relative,
    Rounded,
    Stay,
    evaluate,
)
from predgap.errors import NoiseError, ShapeError, SubsetError, TableError

RNG = np.random.default_rng(5)
NAMES = ("age", "body mass", "chol", "sugar")
TABLE = pd.DataFrame(RNG.normal(size=(200, 4)) * [1, 2, 3, 4], columns=list(NAMES))
ARRAY = TABLE.to_numpy()
Y = ARRAY[:, 0] + ARRAY[:, 1] * ARRAY[:, 2]
ROWS = TABLE[:6].set_index(pd.Index(list("uvwxyz")))
TURNED = ROWS[["sugar", "age", "chol", "body mass"]]
FOREST = RandomForestRegressor(8, max_depth=4, random_state=0, n_jobs=1).fit(ARRAY, Y)
SMALL = {"n_estimators": 8, "max_depth": 3, "n_jobs": 1}

MODELS: dict[str, Callable[[], Any]] = {
    "sklearn": lambda: FOREST,
    "xgboost": lambda: xgboost.XGBRegressor(**SMALL).fit(ARRAY, Y),
    "lightgbm": lambda: lightgbm.LGBMRegressor(**SMALL, verbose=-1).fit(ARRAY, Y),
    "catboost": lambda: CatBoostRegressor(
        iterations=8, depth=3, verbose=0, thread_count=1, allow_writing_files=False
    ).fit(ARRAY, Y),
    "ensemble": lambda: predgap.load(FOREST),
    "difference": lambda: predgap.difference(FOREST, xgboost.XGBRegressor(**SMALL).fit(ARRAY, Y)),
    "scaled": lambda: make_pipeline(StandardScaler(), FOREST).fit(ARRAY, Y),
    "no steps": lambda: make_pipeline(FOREST),
}

NOISES: dict[str, Callable[[Any], Any]] = {
    "table": lambda X: X,
    "Relative": lambda X: Relative(X, 0.5),
    "relative": lambda X: Normal.relative(X, 0.5),
    "Marginal": Marginal,
    "Redraw": lambda X: Redraw(X, 0.5),
    "Background": lambda X: Background(X, max_rows=20),
    "Stay": lambda X: Stay(Marginal(X), 0.5),
    "Rounded": lambda X: Rounded(Normal.relative(X, 0.5), 0.25),
    "Clipped": lambda X: Clipped(Normal.relative(X, 0.5), -3, 3),
    "default": lambda X: PerFeature({0: Normal(1.0)}, default=Marginal(X)),
    "of one feature": lambda X: PerFeature({0: Marginal(X)}, default=Normal(1.0)),
}


def as_table(kind: str, frame: pd.DataFrame) -> Any:
    make = {
        "pandas": lambda: frame,
        "polars": lambda: pl.from_pandas(frame),
        "arrow": lambda: pa.table(frame),
    }
    return make[kind]()


# ---- matching ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:X has feature names, but:UserWarning")
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.parametrize("model", MODELS)
def test_rows_are_matched_to_the_table_of_the_noise(model: str) -> None:
    made = MODELS[model]()
    by_position = Explainer(made, Relative(ARRAY, 0.3)).rank(ROWS.to_numpy())
    explainer = Explainer(made, TABLE)
    for rows in (
        ROWS,
        TURNED,
        ROWS.to_numpy(),
        pl.from_pandas(TURNED),
        pa.table(TURNED.reset_index(drop=True)),
    ):
        ranking = explainer.rank(rows)
        assert ranking.order.tolist() == by_position.order.tolist()
        np.testing.assert_array_equal(ranking.scores, by_position.scores)
        assert ranking.feature_names == NAMES
    copy = pickle.loads(pickle.dumps(explainer))
    assert copy.rank(TURNED).order.tolist() == by_position.order.tolist()


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_any_noise_that_was_made_from_a_frame_has_names(kind: str, library: str) -> None:
    noise, plain = NOISES[kind](as_table(library, TABLE)), NOISES[kind](ARRAY)
    explainer, by_position = Explainer(FOREST, noise), Explainer(FOREST, plain)
    assert explainer.ensemble.feature_names == NAMES
    assert by_position.ensemble.feature_names is None
    expected = by_position.gap(ROWS.to_numpy(), [0, 2])
    np.testing.assert_array_equal(explainer.gap(TURNED, ["age", "chol"]), expected)
    np.testing.assert_array_equal(explainer.gap(ROWS.to_numpy(), [0, 2]), expected)


def test_what_tells_no_names() -> None:
    class Own(Noise):
        def laws_of(self, features: Any, n_features: int, feature_names: Any) -> Any:
            return Normal(1.0).laws_of(features, n_features, feature_names)

    numbered, written = pd.DataFrame(ARRAY), pd.DataFrame(ARRAY, columns=list("0123"))
    for noise in (Normal(1.0), Own(), Normal([1.0] * 4), ARRAY, numbered, written, Marginal(numbered)):
        assert Explainer(FOREST, noise).ensemble.feature_names is None
    frame = Explainer(FOREST, Normal(1.0)).rank(ROWS)  # nothing else is known than what X is called
    assert frame.feature_names == NAMES


def test_given_names_win() -> None:
    own = ("a", "b", "c", "d")
    explainer = Explainer(FOREST, Relative(ARRAY), feature_names=own)
    assert explainer.rank(ROWS.set_axis(own, axis=1)).feature_names == own
    with pytest.raises(NoiseError, match=r"lacks 4 features of the model: 'a'"):
        Explainer(FOREST, TABLE, feature_names=own)
    turned = Explainer(FOREST, TABLE[::-1][["sugar", "age", "chol", "body mass"]], feature_names=NAMES)
    expected = Explainer(FOREST, ARRAY).gap(ROWS.to_numpy(), [0])
    np.testing.assert_allclose(turned.gap(TURNED, ["age"]), expected, rtol=1e-12)  # sums in another order


def test_names_of_the_model_win() -> None:
    named = RandomForestRegressor(8, max_depth=4, random_state=0).fit(TABLE, Y)
    turned = Explainer(named, TABLE[["sugar", "age", "chol", "body mass"]])
    assert turned.ensemble.feature_names == NAMES


def test_tables_in_different_orders_tell_no_order() -> None:
    turned = TABLE[["sugar", "age", "chol", "body mass"]]
    noise = PerFeature({1: Marginal(turned)}, default=Marginal(TABLE))
    with pytest.raises(NoiseError, match=r"same in another order: .*'age'.* pass feature_names="):
        Explainer(FOREST, noise)
    told = Explainer(FOREST, noise, feature_names=NAMES)
    same = Explainer(FOREST, Marginal(TABLE))
    np.testing.assert_array_equal(told.gap(TURNED, ["body mass"]), same.gap(TURNED, ["body mass"]))
    one = PerFeature(
        {"chol": Marginal(TABLE[["chol"]])}, default=Marginal(TABLE)
    )  # which has too few to name all
    np.testing.assert_array_equal(Explainer(FOREST, one).gap(TURNED, ["chol"]), same.gap(TURNED, ["chol"]))


# ---- what does not fit ---------------------------------------------------------------------------

OWN = "no names of its own; these are those of the table that the noise was given: .* or give feature_names="


@pytest.mark.filterwarnings("ignore:X has feature names, but:UserWarning")
@pytest.mark.parametrize("model", ["sklearn", "scaled", "no steps"])
def test_other_columns_are_errors_with_advice(model: str) -> None:
    explainer = Explainer(MODELS[model](), TABLE)
    with pytest.raises(TableError, match=rf"lacks 1 column: 'age', and has 'years' .*{OWN}"):
        explainer.rank(ROWS.rename(columns={"age": "years"}))
    with pytest.raises(TableError, match=rf"lacks 1 column: 'age'\..*{OWN}"):
        explainer.gap(ROWS.drop(columns="age"), [0])
    with pytest.raises(
        ShapeError, match=rf"1 column that the model does not know: 'y'; drop the target .*{OWN}"
    ):
        explainer.gap(ROWS.assign(y=1.0), [0])
    with pytest.raises(TableError) as caught:
        explainer.gap(ROWS.astype({"age": str}).assign(age="old"), [0])
    assert "of its own" not in str(caught.value)  # the names are not at fault
    with pytest.raises(TableError) as caught:
        explainer.gap(ROWS.to_numpy()[:, :3], [0])
    assert "of its own" not in str(caught.value)


def test_a_table_with_the_target_is_refused() -> None:
    with pytest.raises(NoiseError, match=r"5 columns, the model has 4 features.*drop the target"):
        Explainer(FOREST, TABLE.assign(y=Y))


def test_unknown_names_are_errors_that_tell_where_names_come_from() -> None:
    bare = Explainer(FOREST, ARRAY)
    hint = r"has no feature 'age'.*\. The model has no names of its own: give feature_names=, or a frame"
    with pytest.raises(SubsetError, match=hint):
        bare.gap(ROWS, ["age"])
    with pytest.raises(SubsetError, match=hint):
        Explainer(FOREST, ARRAY, groups={"body": ["age", "chol"]})
    with pytest.raises(NoiseError, match=hint):
        Explainer(FOREST, PerFeature({"age": Normal(1.0)}, default=Normal(1.0)))
    with pytest.raises(NoiseError, match=r"names 'age'.* no names of its own: give feature_names="):
        Explainer(FOREST, Normal({"age": 1.0}))
    with pytest.raises(SubsetError) as caught:
        Explainer(FOREST, TABLE).gap(ROWS, ["weight"])
    assert "of its own" not in str(caught.value)


# ---- where names are used and shown --------------------------------------------------------------


def test_groups_subsets_and_rankings_by_name() -> None:
    explainer = Explainer(FOREST, TABLE, groups={"body": ["age", "body mass"]})
    plain = Explainer(FOREST, ARRAY, groups={"body": [0, 1]})
    values = ROWS.to_numpy()
    np.testing.assert_array_equal(explainer.gap(TURNED, ["body", "sugar"]), plain.gap(values, [0, 2]))
    order = ["sugar", "body", "chol"]
    np.testing.assert_array_equal(explainer.pgi2(TURNED, order), plain.pgi2(values, [2, 0, 1]))
    assert explainer.rank(TURNED).feature_names == ("body", "chol", "sugar")
    importances = pd.Series({"sugar": 3.0, "age": 1.0, "chol": 2.0, "body mass": 0.5})
    np.testing.assert_array_equal(
        Explainer(FOREST, TABLE).pgi2(TURNED, importances),
        Explainer(FOREST, ARRAY).pgi2(values, [3, 2, 0, 1]),
    )


def test_one_hot_by_name() -> None:
    rng = np.random.default_rng(0)
    job = rng.integers(0, 3, 200)
    table = pd.DataFrame({"age": rng.normal(size=200)} | {f"job_{k}": 1.0 * (job == k) for k in range(3)})
    model = RandomForestRegressor(5, max_depth=4, random_state=0).fit(table.to_numpy(), job * table["age"])
    named = Explainer(model, table, one_hot={"job": ["job_0", "job_1", "job_2"]})
    plain = Explainer(model, table.to_numpy(), one_hot={"job": [1, 2, 3]})
    rows = table[:5]
    expected = plain.rank(rows.to_numpy())
    ranking = named.rank(rows[rows.columns[::-1]])
    assert ranking.order.tolist() == expected.order.tolist()
    assert ranking.feature_names == ("age", "job")
    with pytest.raises(TableError, match=rf"lacks 1 column: 'job_2'.*{OWN}"):
        named.rank(rows.drop(columns="job_2"))


def test_names_are_shown_everywhere() -> None:
    explainer = Explainer(FOREST, TABLE)
    frame = explainer.rank(ROWS.to_numpy()).to_frame()
    assert {*frame["feature"]} == {*NAMES}
    assert explainer.rank(ROWS.to_numpy(), top=1).top(1)[0, 0] in NAMES
    found = evaluate(explainer, TURNED, ["greedy", "gain"])
    assert found.feature_names == NAMES
    np.testing.assert_array_equal(found.values, ROWS.to_numpy())
    assert explainer.sensitivity(ROWS.to_numpy()).feature_names == NAMES
    np.testing.assert_array_equal(explainer.ensemble.predict(TURNED), FOREST.predict(ROWS.to_numpy()))
    assert explainer.cost(["age", "chol"], TURNED).method == "exact"
    theirs = Ranking([[1, 0, 2, 3]] * len(ROWS), feature_names=("body mass", "age", "chol", "sugar"))
    np.testing.assert_array_equal(explainer.pgi2(TURNED, theirs), explainer.pgi2(ROWS, [[0, 1, 2, 3]] * 6))


def test_batches_go_by_name() -> None:
    explainer = Explainer(FOREST, TABLE)
    batch = pa.RecordBatch.from_pandas(TURNED.assign(key=range(6)).reset_index(drop=True))
    ranked = explainer.batch_function("rank", batch.schema)
    assert ranked.schema.names[0] == "key"
    order = np.array(ranked(batch).column("order").to_pylist())
    assert order.tolist() == explainer.rank(ROWS.to_numpy()).order.tolist()
    with pytest.raises(TableError, match="lacks 1 feature of the model: 'age'"):
        explainer.batch_function("rank", batch.schema.remove(batch.schema.get_field_index("age")))


# ---- pipelines -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:X has feature names, but:UserWarning")
@pytest.mark.filterwarnings("ignore:the Pipeline is explained after PCA:UserWarning")
def test_steps_that_were_fitted_without_names_get_the_columns_in_their_order() -> None:
    pipeline = make_pipeline(PCA(2, random_state=0), RandomForestRegressor(5, max_depth=3, random_state=0))
    pipeline.fit(ARRAY, Y)
    plain = Explainer(pipeline, ARRAY)
    explainer = Explainer(pipeline, TABLE)
    for rows in (ROWS, TURNED, pl.from_pandas(TURNED), ROWS.to_numpy()):
        np.testing.assert_array_equal(explainer.transform(rows), plain.transform(ROWS.to_numpy()))
        np.testing.assert_array_equal(explainer.gap(rows, [0]), plain.gap(ROWS.to_numpy(), [0]))
    with pytest.raises(TableError, match=rf"lacks 1 column: 'age'.*{OWN}"):
        explainer.gap(ROWS.drop(columns="age"), [0])
    no_table = Explainer(pipeline, Relative(explainer.transform(TABLE)))  # of the features after the steps
    np.testing.assert_array_equal(no_table.gap(ROWS, [0]), plain.gap(ROWS.to_numpy(), [0]))


def test_columns_that_a_pipeline_does_not_use_are_matched_too() -> None:
    steps = make_column_transformer((StandardScaler(), [2, 0]))
    pipeline = make_pipeline(steps, RandomForestRegressor(5, max_depth=3, random_state=0)).fit(ARRAY, Y)
    explainer, plain = Explainer(pipeline, TABLE), Explainer(pipeline, ARRAY)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X has feature names, but")
        found = explainer.rank(TURNED)
        shown = evaluate(explainer, TURNED, ["greedy"])
    assert found.order.tolist() == plain.rank(ROWS.to_numpy()).order.tolist()
    assert found.feature_names == NAMES
    np.testing.assert_array_equal(shown.table.astype(float), ROWS.to_numpy())


# ---- one row -------------------------------------------------------------------------------------


def test_the_advice_for_a_series_keeps_its_names() -> None:
    explainer = Explainer(FOREST, TABLE)
    row = TURNED.loc["v"]
    with pytest.raises(
        ShapeError, match=r"one row with its names as X\.to_frame\(\)\.T, one column as X\.to_f"
    ):
        explainer.gap(row, ["age"])
    np.testing.assert_array_equal(explainer.gap(row.to_frame().T, ["age"]), explainer.gap(ROWS[1:2], ["age"]))
    with pytest.raises(ShapeError, match=r"table \(n, d\); pass one column as X\.to_frame\(\)$"):
        explainer.gap(pl.Series([1.0]), ["age"])
    with pytest.raises(ShapeError, match=r"pass one column as pa\.table\({name: X}\)$"):
        explainer.gap(pa.chunked_array([[1.0]]), ["age"])


def test_flipped_names() -> None:
    """A noise that has no table, beside one that has."""
    noise = PerFeature({"age": Flip(0.5)}, default=Relative(TABLE))
    assert Explainer(FOREST, Stay(noise, 0.5)).ensemble.feature_names == NAMES
