"""Pipelines that are explained after their steps: X is raw, and the features are what the steps make of it.

Their steps are of classes that predgap does not know, or that mix columns. (`test_pipeline_raw.py` is about
those that are explained in the columns of X.)
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import xgboost
from sklearn import compose, preprocessing
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_selector
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder
from sklearn.tree import DecisionTreeRegressor

import loading
import predgap
from predgap import (
    Explainer,
    LoaderError,
    Normal,
    PerFeature,
    Ranking,
    ShapeError,
    TableError,
    UnsupportedModelError,
)
from predgap.loaders.pipelines import steps

pytestmark = [
    pytest.mark.filterwarnings("ignore:the Pipeline is explained after .*, not in the columns of X"),
    pytest.mark.filterwarnings("ignore:continuous noise moves"),  # dummies are 0 or 1
]


N = 120


class StandardScaler(preprocessing.StandardScaler):
    """A class of one's own, which may do anything."""


class ColumnTransformer(compose.ColumnTransformer):
    """Likewise."""


def make_frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50.0, 10.0, N),
            "colour": rng.choice(["red", "green", "blue"], N),
            "bmi": rng.normal(25.0, 3.0, N),
        }
    )
    frame.index = pd.Index([f"row {r}" for r in range(N)], name="who")
    return frame


FRAME = make_frame()
NUMBERS = FRAME[["age", "bmi"]]
Y = ((FRAME["age"] - 50) / 10 + (FRAME["colour"] == "red") * (FRAME["bmi"] - 24)).to_numpy()
BINARY = (Y > 0).astype(int)
NOISE = Normal(0.3)

MODELS: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestRegressor(4, max_depth=4, random_state=0),
    "histograms": lambda: HistGradientBoostingRegressor(max_iter=4, min_samples_leaf=3),
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=4, max_depth=3),
    "xgboost, 0 is missing": lambda: xgboost.XGBRegressor(n_estimators=4, max_depth=3, missing=0.0),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=4, min_child_samples=3, verbose=-1),
    "catboost": lambda: catboost.CatBoostRegressor(
        iterations=4, depth=3, verbose=False, allow_writing_files=False
    ),
}


def encoder(**options: Any) -> ColumnTransformer:
    return ColumnTransformer(
        [("onehot", OneHotEncoder(**options), ["colour"])],
        remainder="passthrough",
        verbose_feature_names_out=False,
        sparse_threshold=1.0,
    )


def assert_explains(explainer: Explainer, pipeline: Any, X: Any) -> None:
    """The ensemble on the transformed table predicts as the pipeline does on the raw one."""
    table = explainer.transform(X)
    np.testing.assert_allclose(explainer.ensemble.predict(table), pipeline.predict(X), rtol=1e-5)
    if not np.isnan(table).any() and not scipy.sparse.issparse(pipeline[:-1].transform(X)):
        plain = Explainer(pipeline[-1], NOISE)
        seen = np.asarray(pipeline[:-1].transform(X), dtype=float)
        np.testing.assert_array_equal(explainer.gap(X, [0, 1]), plain.gap(seen, [0, 1]))
        np.testing.assert_array_equal(explainer.rank(X).order, plain.rank(seen).order)


# ---- what is explained ----


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("output", ["default", "pandas"])
def test_the_model_is_explained_after_the_steps(kind: str, output: Any) -> None:
    pipeline = make_pipeline(StandardScaler(), MODELS[kind]()).set_output(transform=output).fit(NUMBERS, Y)
    explainer = Explainer(pipeline, NOISE)
    assert_explains(explainer, pipeline, NUMBERS)
    np.testing.assert_array_equal(explainer.transform(NUMBERS), np.asarray(pipeline[:-1].transform(NUMBERS)))
    assert explainer.ensemble.names == ("age", "bmi")
    ranking = explainer.rank(NUMBERS)
    assert ranking.feature_space == "after StandardScaler"
    assert ranking.names == ("age", "bmi")
    assert repr(explainer).endswith("after StandardScaler, Normal(0.3))")


@pytest.mark.parametrize("kind", [kind for kind in MODELS if kind != "histograms"])  # they take no sparse X
def test_sparse_tables_mean_what_they_mean_to_the_model(kind: str) -> None:
    pipeline = make_pipeline(encoder(), MODELS[kind]()).fit(FRAME, Y)
    assert scipy.sparse.issparse(pipeline[:-1].transform(FRAME))
    explainer = Explainer(pipeline, NOISE)
    assert_explains(explainer, pipeline, FRAME)
    table = explainer.transform(FRAME)
    assert explainer.ensemble.names == ("colour_blue", "colour_green", "colour_red", "age", "bmi")
    dense = pipeline[:-1].transform(FRAME).toarray()
    absent = np.nan if "xgboost" in kind else 0.0
    np.testing.assert_array_equal(table, np.where(dense == 0, absent, dense))
    assert explainer.gap(FRAME, ["colour_red", "age"]).shape == (N,)


def test_probabilities_and_margins_of_classifiers() -> None:
    forest = make_pipeline(encoder(), RandomForestClassifier(4, max_depth=3, random_state=0)).fit(
        FRAME, BINARY
    )
    explainer = Explainer(forest, NOISE)
    np.testing.assert_allclose(
        explainer.ensemble.predict(explainer.transform(FRAME)), forest.predict_proba(FRAME)[:, 1], atol=1e-12
    )
    boosting = make_pipeline(encoder(), GradientBoostingClassifier(n_estimators=4)).fit(FRAME, BINARY)
    explainer = Explainer(boosting, NOISE)
    np.testing.assert_allclose(
        explainer.ensemble.predict(explainer.transform(FRAME)), boosting.decision_function(FRAME), atol=1e-12
    )


def test_one_output_of_several() -> None:
    classes = np.digitize(Y, [-1.0, 1.0])
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(3, max_depth=3)).fit(NUMBERS, classes)
    seen = pipeline[:-1].transform(NUMBERS)
    for output in (None, 2):
        plain = Explainer(pipeline[-1], NOISE, output=output)
        np.testing.assert_array_equal(
            Explainer(pipeline, NOISE, output=output).gap(NUMBERS, ["age"]), plain.gap(seen, [0])
        )


# ---- kinds of steps ----


class Doubled(BaseEstimator, TransformerMixin):
    """Nothing is learned, and nothing is known of names."""

    def fit(self, X: Any, y: Any = None) -> Doubled:
        return self

    def transform(self, X: Any) -> Any:
        return np.asarray(X) * 2.0


PIPELINES: dict[str, tuple[Callable[[], Pipeline], str | None, tuple[str, ...]]] = {
    "a model alone": (lambda: make_pipeline(MODELS["forest"]()), None, ("age", "bmi")),
    "passthrough": (
        lambda: Pipeline([("a", "passthrough"), ("b", None), ("m", MODELS["forest"]())]),
        None,
        ("age", "bmi"),
    ),
    "passthrough in the middle": (
        lambda: make_pipeline(StandardScaler(), "passthrough", PCA(2), MODELS["forest"]()),
        "after StandardScaler, PCA",
        ("pca0", "pca1"),
    ),
    "a model within": (
        lambda: make_pipeline(StandardScaler(), make_pipeline(PCA(1), make_pipeline(MODELS["forest"]()))),
        "after StandardScaler, PCA",
        ("pca0",),
    ),
    "steps within": (
        lambda: make_pipeline(
            make_pipeline(SimpleImputer(), "passthrough", StandardScaler()), MODELS["forest"]()
        ),
        "after SimpleImputer, StandardScaler",
        ("age", "bmi"),
    ),
    "a union": (
        lambda: make_pipeline(
            FeatureUnion([("s", StandardScaler()), ("p", PCA(1))]), MODELS["forest"]()
        ),
        "after FeatureUnion",
        ("s__age", "s__bmi", "p__pca0"),
    ),
    "a function": (
        lambda: make_pipeline(
            FunctionTransformer(np.abs, feature_names_out="one-to-one"), MODELS["forest"]()
        ),
        "after FunctionTransformer",
        ("age", "bmi"),
    ),
    "no names": (lambda: make_pipeline(Doubled(), MODELS["forest"]()), "after Doubled", ("f0", "f1")),
    "no names, then some": (
        lambda: make_pipeline(Doubled(), StandardScaler(), MODELS["forest"]()),
        "after Doubled, StandardScaler",
        ("f0", "f1"),
    ),
    "one name twice": (
        lambda: make_pipeline(
            FunctionTransformer(np.asarray, feature_names_out=lambda _, __: ["a", "a"]), MODELS["forest"]()
        ),
        "after FunctionTransformer",
        ("f0", "f1"),
    ),
    "a name too few": (
        lambda: make_pipeline(
            FunctionTransformer(np.asarray, feature_names_out=lambda self, names: ["a"]), MODELS["forest"]()
        ),
        "after FunctionTransformer",
        ("f0", "f1"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PIPELINES)
def test_steps_of_all_kinds(name: str) -> None:
    build, space, names = PIPELINES[name]
    pipeline = build().fit(NUMBERS, Y)
    explainer = Explainer(pipeline, NOISE)
    np.testing.assert_allclose(
        explainer.ensemble.predict(explainer.transform(NUMBERS)), pipeline.predict(NUMBERS), rtol=1e-12
    )
    ranking = explainer.rank(NUMBERS)
    assert (ranking.feature_space, ranking.names) == (space, names)
    assert (space or "Normal") in repr(explainer)


@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
def test_columns_are_transformed_apart(output: Any) -> None:
    pipeline = make_pipeline(
        ColumnTransformer(
            [
                ("text", OneHotEncoder(sparse_output=False), make_column_selector(dtype_exclude="number")),
                ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["bmi"]),
                ("gone", "drop", ["age"]),
            ]
        ),
        MODELS["forest"](),
    )
    pipeline.set_output(transform=output).fit(FRAME, Y)
    explainer = Explainer(pipeline, NOISE)
    assert_explains(explainer, pipeline, FRAME)
    expected = ("text__colour_blue", "text__colour_green", "text__colour_red", "numbers__bmi")
    assert explainer.ensemble.names == expected
    assert explainer.rank(FRAME).feature_space == "after ColumnTransformer"
    noise = PerFeature({"numbers__bmi": Normal(0.5)}, default=Normal(0.1))
    assert (Explainer(pipeline, noise).gap(FRAME, ["numbers__bmi"]) > 0).any()


def test_categories_of_a_model_behind_an_encoder() -> None:
    pipeline = make_pipeline(
        ColumnTransformer([("o", OrdinalEncoder(), ["colour"])], remainder="passthrough"),
        HistGradientBoostingRegressor(max_iter=4, min_samples_leaf=3, categorical_features=[0]),
    ).fit(FRAME, Y)
    explainer = Explainer(pipeline, PerFeature({0: predgap.Flip(0.2)}, default=Normal(0.3)))
    assert explainer.ensemble.categorical().keys() == {0}
    np.testing.assert_allclose(
        explainer.ensemble.predict(explainer.transform(FRAME)), pipeline.predict(FRAME), rtol=1e-12
    )
    assert (explainer.gap(FRAME, [0]) > 0).any()


def test_categories_that_pass_through_keep_their_labels() -> None:
    frame = FRAME.astype({"colour": "category"})
    pipeline = make_pipeline(
        ColumnTransformer(
            [("s", StandardScaler(), ["age", "bmi"])],
            remainder="passthrough",
            verbose_feature_names_out=False,
        ),
        MODELS["lightgbm"](),
    )
    pipeline.set_output(transform="pandas").fit(frame, Y)
    explainer = Explainer(pipeline, PerFeature({"colour": predgap.Flip(0.2)}, default=Normal(0.3)))
    assert explainer.ensemble.categorical()[2].labels == ("blue", "green", "red")
    np.testing.assert_allclose(
        explainer.ensemble.predict(explainer.transform(frame)), pipeline.predict(frame), rtol=1e-12
    )


def test_rows_that_are_no_table() -> None:
    texts = ["red green", "green", "blue blue red", "red"] * 10
    pipeline = make_pipeline(CountVectorizer(), RandomForestRegressor(3, random_state=0))
    pipeline.fit(texts, np.arange(40.0) % 4)
    explainer = Explainer(pipeline, Normal(1.0))
    assert_explains(explainer, pipeline, texts)
    assert explainer.rank(texts).names == ("blue", "green", "red")
    assert_explains(explainer, pipeline, pd.Series(texts))


class Sampler:
    """As imblearn has them: it changes the rows that the pipeline is fitted on, and no others."""

    def fit_resample(self, X: Any, y: Any) -> Any:
        raise AssertionError


def test_samplers_do_nothing_to_rows_that_are_explained() -> None:
    pipeline = make_pipeline(StandardScaler(), MODELS["forest"]()).fit(NUMBERS, Y)
    before = Explainer(pipeline, NOISE).gap(NUMBERS, [0])
    pipeline.steps.insert(1, ("sampler", Sampler()))
    explainer = Explainer(pipeline, NOISE)
    np.testing.assert_array_equal(explainer.gap(NUMBERS, [0]), before)
    assert explainer.rank(NUMBERS).feature_space == "after StandardScaler"


# ---- tables ----


def test_row_labels_survive_and_frames_come_back_as_they_were() -> None:
    for output in ("default", "pandas"):
        pipeline = make_pipeline(encoder(sparse_output=False), MODELS["forest"]())
        pipeline.set_output(transform=output).fit(FRAME, Y)
        explainer = Explainer(pipeline, NOISE)
        frame = explainer.rank(FRAME.iloc[5:8]).to_frame()
        assert isinstance(frame, pd.DataFrame)
        assert frame["row"].unique().tolist() == ["row 5", "row 6", "row 7"]
        ranking = explainer.rank(pl.from_pandas(FRAME))
        assert isinstance(ranking.to_frame(), pl.DataFrame)
        assert ranking.index is None
    pipeline = make_pipeline(StandardScaler(), MODELS["forest"]()).set_output(transform="pandas")
    ranking = Explainer(pipeline.fit(NUMBERS.to_numpy(), Y), NOISE).rank(NUMBERS.to_numpy())
    assert (ranking.index, ranking.backend) == (None, None)


def test_columns_go_by_the_pipelines_own_rules() -> None:
    pipeline = make_pipeline(encoder(), MODELS["forest"]()).fit(FRAME, Y)
    explainer = Explainer(pipeline, NOISE)
    shuffled = FRAME[["bmi", "colour", "age"]]
    np.testing.assert_array_equal(explainer.transform(shuffled), explainer.transform(FRAME))


@pytest.mark.parametrize("output", ["default", "pandas"])
def test_other_names_may_be_given(output: Any) -> None:
    pipeline = (
        make_pipeline(StandardScaler(), MODELS["forest"]()).set_output(transform=output).fit(NUMBERS, Y)
    )
    explainer = Explainer(pipeline, NOISE, feature_names=["a", "b"])
    assert explainer.rank(NUMBERS).names == ("a", "b")
    np.testing.assert_array_equal(
        explainer.gap(NUMBERS, ["b"]), Explainer(pipeline, NOISE).gap(NUMBERS, ["bmi"])
    )


def test_rankings_are_of_the_transformed_features() -> None:
    pipeline = make_pipeline(encoder(), MODELS["forest"]()).fit(FRAME, Y)
    explainer = Explainer(pipeline, NOISE)
    ranking = explainer.rank(FRAME)
    assert ranking[3].feature_space == ranking[:5].feature_space == "after ColumnTransformer"
    assert repr(ranking).startswith(
        "Ranking of 5 features for 120 rows (greedy, exact, after ColumnTransformer)"
    )
    assert Ranking([[0, 1]]).feature_space is None
    assert pickle.loads(pickle.dumps(ranking)).feature_space == ranking.feature_space
    assert (explainer.pgi2(FRAME, ranking) >= explainer.pgu2(FRAME, ranking)).all()
    with pytest.raises(predgap.SubsetError, match="'colour'"):
        explainer.gap(FRAME, ["colour"])


def test_an_explainer_of_a_pipeline_pickles() -> None:
    pipeline = make_pipeline(StandardScaler(), MODELS["forest"]()).fit(NUMBERS, Y)
    explainer = Explainer(pipeline, NOISE)
    other = pickle.loads(pickle.dumps(explainer))
    np.testing.assert_array_equal(other.gap(NUMBERS, [0]), explainer.gap(NUMBERS, [0]))


def test_transform_of_a_model_alone_is_its_table() -> None:
    model = MODELS["forest"]().fit(NUMBERS, Y)
    explainer = Explainer(model, NOISE)
    np.testing.assert_array_equal(explainer.transform(NUMBERS[["bmi", "age"]]), NUMBERS.to_numpy())
    assert explainer.rank(NUMBERS).feature_space is None


def test_a_warning_says_why_a_pipeline_is_not_explained_in_its_columns() -> None:
    says = r"explained after PCA, not in the columns of X, because PCA may mix columns.*explainer\.transform"
    with pytest.warns(UserWarning, match=says):
        Explainer(make_pipeline(PCA(1), MODELS["forest"]()).fit(NUMBERS, Y), NOISE)


# ---- load ----


def test_load_gives_the_ensemble_of_the_last_step() -> None:
    pipeline = make_pipeline(StandardScaler(), PCA(2), MODELS["forest"]()).fit(NUMBERS, Y)
    ensemble = predgap.load(pipeline)
    assert ensemble.names == ("pca0", "pca1")
    assert ensemble.source.endswith("RandomForestRegressor after StandardScaler, PCA")
    np.testing.assert_allclose(ensemble.predict(pipeline[:-1].transform(NUMBERS)), pipeline.predict(NUMBERS))


def test_a_search_of_pipelines_is_its_best_pipeline() -> None:
    pipeline = make_pipeline(StandardScaler(), DecisionTreeRegressor(random_state=0))
    search = GridSearchCV(pipeline, {"decisiontreeregressor__max_depth": [1, 2]}, cv=2).fit(NUMBERS, Y)
    assert_explains(Explainer(search, NOISE), search.best_estimator_, NUMBERS)


# ---- what cannot be explained ----


def test_pipelines_before_fitting_are_refused() -> None:
    for model in ("forest", "histograms"):
        pipeline = make_pipeline(StandardScaler(), MODELS[model]())
        loading.refused(pipeline, "the last step of the Pipeline: the .* is not fitted; call its fit first")
    mixed = make_pipeline(StandardScaler(), MODELS["forest"]().fit(NUMBERS.to_numpy(), Y))
    with pytest.raises(
        LoaderError, match=r"step 'standardscaler' of the pipeline \(StandardScaler\).*not fitted"
    ):
        Explainer(mixed, NOISE).gap(NUMBERS.to_numpy(), [0])


def test_pipelines_without_a_tree_model_are_refused() -> None:
    linear = make_pipeline(StandardScaler(), LinearRegression()).fit(NUMBERS, Y)
    loading.refused(
        linear,
        r"last step of the Pipeline: predgap explains tree ensembles; this is a LinearRegression\. Of",
        UnsupportedModelError,
    )
    scaler = make_pipeline(PCA(1), StandardScaler()).fit(NUMBERS)
    loading.refused(scaler, r"last step of the Pipeline: .*; this is a StandardScaler", UnsupportedModelError)
    nothing = make_pipeline(StandardScaler(), "passthrough").fit(NUMBERS)
    for pipeline in (nothing, make_pipeline(PCA(1), nothing)):
        loading.refused(pipeline, "Pipeline has no model as its last step; expected", UnsupportedModelError)


class Halved(Doubled):
    def transform(self, X: Any) -> Any:
        return np.asarray(X)[::2]


class Wrong(Doubled):
    def transform(self, X: Any) -> Any:
        raise RuntimeError("\n\n  out of order\nat line 3")


def test_tables_that_the_steps_do_not_take_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = Explainer(make_pipeline(encoder(), MODELS["forest"]()).fit(FRAME, Y), NOISE)
    with pytest.raises(TableError, match=r"step 'columntransformer' .*\(ColumnTransformer\) .*age"):
        explainer.gap(FRAME[["colour", "bmi"]], [0])
    with pytest.raises(TableError, match=r"cannot transform X: Found unknown categories \['mauve'\]"):
        explainer.gap(FRAME.assign(colour="mauve"), [0])
    monkeypatch.setattr(steps, "_MOST_CELLS", 100)
    with pytest.raises(TableError, match=r"sparse table of 120 rows and 5 columns, too large .* fewer rows"):
        explainer.gap(FRAME, [0])
    assert explainer.gap(FRAME[:20], [0]).shape == (20,)
    model = MODELS["forest"]().fit(NUMBERS.to_numpy(), Y)
    for step, says in ((Halved(), "turns 120 rows into 60"), (Wrong(), "cannot transform X: out of order$")):
        with pytest.raises(TableError, match=says):
            Explainer(make_pipeline(step, model), NOISE).gap(NUMBERS, [0])
    narrow = make_pipeline(FunctionTransformer(lambda X: X[:, :1]), model)
    with pytest.raises(ShapeError, match="X has 1 column; the model needs 2"):
        Explainer(narrow, NOISE).gap(NUMBERS.to_numpy(), [0])
