"""Models that hold other models: unwrapped where that is exact, else refused by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, MultiOutputRegressor, RegressorChain
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import loading
import predgap
from predgap import Ensemble, Explainer, LoaderError, Marginal, Normal, UnsupportedModelError, load
from predgap.loaders import _SOURCES, wrappers
from sklearn_models import BINARY, CLASSES, HIST, HOLES, POSITIVE, RELEASE, SMALL, SOME, TWO, WORDS, X_, Y_

Wrapper = Callable[[], Any]

NEEDS_FROZEN = pytest.mark.skipif(RELEASE < (1, 6), reason="FrozenEstimator is new in 1.6")

FOREST = RandomForestRegressor(**SOME)
BOOSTING = GradientBoostingRegressor(**SOME)
HISTOGRAMS = HistGradientBoostingRegressor(**HIST)
LIGHT = lightgbm.LGBMRegressor(n_estimators=7, min_child_samples=5, verbose=-1)
CAT = catboost.CatBoostRegressor(iterations=7, depth=3, verbose=False, allow_writing_files=False)
XGB = xgboost.XGBRegressor(n_estimators=7, max_depth=3)
CLASS_FOREST = RandomForestClassifier(**SOME)
CLASS_EXTRA = ExtraTreesClassifier(**SOME)
CLASS_BOOSTING = GradientBoostingClassifier(**SOME)
CLASS_HISTOGRAMS = HistGradientBoostingClassifier(**HIST)
SINGLES = [("forest", FOREST), ("boosting", BOOSTING), ("cat", CAT)]  # read rows in single precision
DOUBLES = [("histograms", HISTOGRAMS), ("light", LIGHT)]
SEARCH = GridSearchCV(FOREST, {"max_depth": [2]}, cv=2)
CLASSIFIERS = [("forest", CLASS_FOREST), ("extra", CLASS_EXTRA)]
MARGINS = [("boosting", CLASS_BOOSTING), ("histograms", CLASS_HISTOGRAMS)]


def fit(wrapper: Any, X: Any = X_, y: Any = Y_) -> Wrapper:
    return lambda: wrapper.fit(X, y)


# ---- sums of trees ----


SUMS: dict[str, Wrapper] = {
    "voting, single": fit(VotingRegressor(SINGLES)),
    "voting, double": fit(VotingRegressor(DOUBLES, weights=[0.1, 3])),
    "voting, both": fit(VotingRegressor([*SINGLES, *DOUBLES], weights=[1, 2, 0, 4, 0.3])),
    "voting, dropped": fit(VotingRegressor([("no", "drop"), *DOUBLES, *SINGLES], weights=[9, 1, 2, 3, 4, 5])),
    "voting, missing": fit(VotingRegressor([("forest", FOREST), *DOUBLES]), HOLES),
    "voting, nested": fit(VotingRegressor([("votes", VotingRegressor(SINGLES)), ("light", LIGHT)])),
    "voting, search": fit(VotingRegressor([("best", SEARCH), *DOUBLES])),
    "voting of classes": fit(VotingClassifier(CLASSIFIERS, voting="soft", weights=[1, 2]), y=WORDS),
    "voting of classes, two": fit(VotingClassifier(CLASSIFIERS, voting="soft"), y=BINARY),
    "stacking": fit(StackingRegressor([*SINGLES, *DOUBLES])),
    "stacking, linear": fit(StackingRegressor(DOUBLES, LinearRegression(), cv=2)),
    "stacking, dropped": fit(StackingRegressor([("no", "drop"), *SINGLES], LinearRegression(), cv=2)),
    "stacking of classes": fit(StackingClassifier(CLASSIFIERS, cv=2), y=WORDS),
    "stacking of classes, two": fit(StackingClassifier(CLASSIFIERS, cv=2), y=BINARY),
    "stacking of margins": fit(
        StackingClassifier(MARGINS, stack_method="decision_function", cv=2), y=CLASSES
    ),
    "stacking of margins, two": fit(
        StackingClassifier(MARGINS, stack_method="decision_function", cv=2), y=BINARY
    ),
    "target": fit(TransformedTargetRegressor(BOOSTING)),
    **{
        f"target, {type(scaler).__name__}": fit(
            TransformedTargetRegressor(BOOSTING, transformer=scaler), y=1e4 + 30 * Y_
        )
        for scaler in (StandardScaler(), MinMaxScaler((3, 5), clip=True), MaxAbsScaler(), RobustScaler())
    },
    "target, no mean": fit(
        TransformedTargetRegressor(HISTOGRAMS, transformer=StandardScaler(with_mean=False))
    ),
    "target, no scale": fit(
        TransformedTargetRegressor(HISTOGRAMS, transformer=RobustScaler(with_scaling=False))
    ),
    "target, two": fit(TransformedTargetRegressor(FOREST, transformer=StandardScaler()), y=TWO),
    "outputs": fit(MultiOutputRegressor(BOOSTING), y=TWO),
    "outputs, double": fit(MultiOutputRegressor(LIGHT), y=TWO),
    "outputs of classes": fit(MultiOutputClassifier(CLASS_FOREST), y=np.c_[BINARY, CLASSES]),
    "rest": fit(OneVsRestClassifier(CLASS_BOOSTING), y=WORDS),
    "rest, two": fit(OneVsRestClassifier(CLASS_HISTOGRAMS), y=BINARY),
}  # fmt: skip


def predictions(model: Any, rows: np.ndarray) -> np.ndarray:
    """What the ensemble must give, (n, n_outputs)."""
    if isinstance(model, StackingClassifier | OneVsRestClassifier):
        found = model.decision_function(rows)
    elif hasattr(model, "predict_proba"):
        found = model.predict_proba(rows)
        found = found if isinstance(found, list) else [found]
        found = np.hstack([block[:, 1:] if block.shape[1] == 2 else block for block in found])
    else:
        found = model.predict(rows)
    return np.asarray(found).reshape(len(rows), -1)


def assert_agrees(model: Any, ensemble: Ensemble, rows: np.ndarray, rtol: float = 1e-12) -> None:
    """The tolerance is relative to the largest value: the wrapper adds in another order."""
    expected = predictions(model, rows)
    found = ensemble.predict(rows).reshape(len(rows), -1)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * np.abs(expected).max())


def takes_missing(model: Any) -> bool:
    try:
        predictions(model, np.full((1, X_.shape[1]), np.nan))
    except ValueError:
        return False
    return True


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("kind", SUMS)
def test_a_wrapper_is_the_sum_of_its_members_trees(kind: str) -> None:
    """At thresholds and one float around them; in rows of double precision also halfway between singles."""
    model = SUMS[kind]()
    ensemble = load(model)
    rows = loading.rows_around_thresholds(ensemble, missing=takes_missing(model), most=2000)
    assert_agrees(model, ensemble, rows)
    assert_agrees(model, ensemble, X_)
    halves = (
        X_.astype(np.float32).astype(np.float64) + np.nextafter(X_.astype(np.float32), np.float32(9))
    ) / 2
    assert_agrees(model, ensemble, halves)
    assert type(model).__name__ in ensemble.source


@pytest.mark.parametrize("others", [SINGLES, DOUBLES, [*SINGLES, *DOUBLES]])
def test_xgboost_votes_in_its_single_precision(others: list[tuple[str, Any]]) -> None:
    model = VotingRegressor([("xgb", XGB), *others]).fit(X_, Y_)
    ensemble = load(model)
    rows = loading.rows_around_thresholds(ensemble, missing=False, most=2000)
    assert_agrees(model, ensemble, rows, rtol=1e-6)  # XGBoost adds its trees in single precision
    assert_agrees(TransformedTargetRegressor(XGB).fit(X_, Y_), load(XGB.fit(X_, Y_)), X_, rtol=1e-6)


def test_many_trees_of_single_precision_pass_the_check() -> None:
    """A large bias and many small steps: XGBoost's own rounding exceeds what the check of doubles allows."""
    many = xgboost.XGBRegressor(n_estimators=1000, max_depth=2, learning_rate=0.01)
    model = VotingRegressor([("xgb", many), ("forest", FOREST)]).fit(X_, Y_ + 150.0)
    assert load(model).n_trees == 1007
    assert load(TransformedTargetRegressor(many, transformer=StandardScaler()).fit(X_, Y_)).n_trees == 1000


def test_single_and_double_precision_differ_on_these_rows() -> None:
    """Else the test above would not see a wrong threshold."""
    model = SUMS["voting, both"]()
    ensemble = load(model)
    rows = loading.rows_around_thresholds(ensemble, missing=False, most=2000)
    forest = load(model.estimators_[0])
    naive = replace(forest, threshold=forest.threshold.astype(np.float32).astype(np.float64))
    assert (naive.predict(rows) != forest.predict(rows)).any()


def test_names_are_those_of_the_table() -> None:
    frame = pd.DataFrame(X_, columns=["a b", "c", "d", "e"])
    for members in (DOUBLES, [*SINGLES, *DOUBLES]):
        assert load(VotingRegressor(members).fit(frame, Y_)).names == ("a b", "c", "d", "e")
    assert load(VotingRegressor(DOUBLES).fit(X_, Y_)).feature_names is None
    assert load(MultiOutputRegressor(BOOSTING).fit(frame, TWO)).names == ("a b", "c", "d", "e")


def test_gaps_are_those_of_enumeration_through_the_wrapper() -> None:
    """Two values per feature: the expectation is a sum over 2 ** d rows through the wrapper's own predict."""
    model = SUMS["voting, both"]()
    row, other = X_[0], X_[1]
    values = {j: predgap.Discrete([row[j], other[j]], [0.75, 0.25]) for j in range(4)}
    explainer = Explainer(model, predgap.PerFeature({f"f{j}": law for j, law in values.items()}))
    choices = np.array(np.meshgrid(*[[0, 1]] * 4)).reshape(4, -1).T
    chance = np.prod(np.where(choices, 0.25, 0.75), axis=1)
    change = model.predict(np.where(choices, other, row)) - model.predict(row[None])
    np.testing.assert_allclose(explainer.gap(row[None], range(4)), [chance @ change**2], rtol=1e-12)


def test_categories_of_several_outputs() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"colour": pd.Categorical(rng.choice(["red", "green", "blue"], 160)), "x": X_[:, 0]})
    y = np.c_[Y_ + (frame["colour"] == "red"), Y_ - 3 * (frame["colour"] == "blue")]
    model = MultiOutputRegressor(
        HistGradientBoostingRegressor(categorical_features="from_dtype", **HIST)
    ).fit(frame, y)
    ensemble = load(model)
    assert ensemble.categories is not None
    np.testing.assert_allclose(ensemble.predict(frame), model.predict(frame), rtol=0, atol=1e-12)


def test_categories_that_are_numbers_can_vote() -> None:
    codes = np.c_[np.random.default_rng(0).integers(0, 5, len(X_)), X_[:, 1:]]
    hist = HistGradientBoostingRegressor(categorical_features=[0], **HIST)
    model = VotingRegressor([("a", hist), ("b", hist)]).fit(codes, Y_ + codes[:, 0])
    assert_agrees(model, load(model), codes)


# ---- wrappers of one model ----


@pytest.mark.parametrize(
    "search",
    [
        GridSearchCV(FOREST, {"max_depth": [1, 3]}, cv=2),
        GridSearchCV(XGB, {"max_depth": [1, 3]}, cv=2, scoring=["r2"], refit="r2"),
        RandomizedSearchCV(LIGHT, {"num_leaves": [3, 5]}, n_iter=2, cv=2),
        HalvingGridSearchCV(HISTOGRAMS, {"max_depth": [1, 3]}, cv=2),
        GridSearchCV(GridSearchCV(FOREST, {"max_depth": [2]}, cv=2), {"cv": [2]}, cv=2),
    ],
    ids=lambda search: type(search).__name__,
)
def test_a_search_is_its_best_model(search: Any) -> None:
    search.fit(X_, Y_)
    best = search.best_estimator_
    loading.assert_same(load(search), load(getattr(best, "best_estimator_", best)))


@pytest.mark.parametrize("kind", [FixedThresholdClassifier, TunedThresholdClassifierCV])
def test_a_threshold_on_decisions_leaves_the_model_as_it_is(kind: Any) -> None:
    model = kind(CLASS_FOREST).fit(X_, BINARY)
    loading.assert_same(load(model), load(model.estimator_))


@NEEDS_FROZEN
def test_a_frozen_model_is_the_model() -> None:
    from sklearn.frozen import FrozenEstimator

    model = RandomForestRegressor(**SOME).fit(X_, Y_)
    loading.assert_same(load(FrozenEstimator(model)), load(model))
    loading.refused(
        FrozenEstimator(RandomForestRegressor()), "RandomForestRegressor is not fitted", LoaderError
    )


def test_wrappers_before_fitting_are_refused() -> None:
    for wrapper in (
        GridSearchCV(FOREST, {}),
        TunedThresholdClassifierCV(CLASS_FOREST),
        VotingRegressor(SINGLES),
        TransformedTargetRegressor(FOREST),
        MultiOutputRegressor(FOREST),
        OneVsRestClassifier(CLASS_FOREST),
        StackingRegressor(SINGLES),
    ):
        says = f"the {type(wrapper).__name__} is not fitted; call its fit first"
        loading.refused(wrapper, says, LoaderError)
        with pytest.raises(LoaderError, match=says):
            Explainer(wrapper, Normal(0.3))
    search = GridSearchCV(DecisionTreeRegressor(), {"max_depth": [1]}, refit=False, cv=2).fit(X_, Y_)
    loading.refused(search, "GridSearchCV has refit=False, so it holds no model; fit it with refit=True")


# ---- pipelines in wrappers ----


PIPELINE = make_pipeline(StandardScaler(), GradientBoostingRegressor(**SOME))
FRAME = pd.DataFrame(X_, columns=["a", "b", "c", "d"])


def assert_takes_raw_rows(model: Any) -> None:
    explainer = Explainer(model, Normal(0.3))
    assert explainer.rank(FRAME[:3]).feature_space is None  # rewritten in the columns of the table
    found = explainer.ensemble.predict(explainer.transform(FRAME))
    np.testing.assert_allclose(found, model.predict(FRAME), rtol=1e-5)  # XGBoost adds in single precision


def test_wrappers_of_one_pipeline_take_raw_rows() -> None:
    search = GridSearchCV(PIPELINE, {"gradientboostingregressor__max_depth": [2, 3]}, cv=2).fit(FRAME, Y_)
    assert_takes_raw_rows(search)
    target = TransformedTargetRegressor(PIPELINE, transformer=StandardScaler()).fit(FRAME, Y_)
    assert_takes_raw_rows(target)
    assert isinstance(target.regressor_, Pipeline)  # and is not changed
    nested = TransformedTargetRegressor(GridSearchCV(PIPELINE, {}, cv=2), transformer=MinMaxScaler())
    nested.fit(FRAME, Y_)
    assert_takes_raw_rows(nested)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_wrappers_at_the_end_of_a_pipeline() -> None:
    ends = [
        VotingRegressor([*SINGLES, *DOUBLES]),
        TransformedTargetRegressor(FOREST, transformer=StandardScaler()),
        GridSearchCV(FOREST, {"max_depth": [2]}, cv=2),
    ]
    for end in ends:
        model = make_pipeline(StandardScaler(), end).fit(FRAME, Y_)
        assert_takes_raw_rows(model)
    inner = make_pipeline(StandardScaler(), GridSearchCV(PIPELINE, {}, cv=2)).fit(FRAME, Y_)
    explainer = Explainer(inner, Normal(0.3))
    assert explainer.rank(FRAME[:3]).feature_space is None
    np.testing.assert_allclose(explainer.ensemble.predict(explainer.transform(FRAME)), inner.predict(FRAME))


def test_absent_entries_of_sparse_tables_are_what_the_members_take_them_for() -> None:
    colours = pd.DataFrame({"colour": np.array(["red", "green", "blue"])[CLASSES]})
    for member in (XGB, FOREST):
        for end in (
            TransformedTargetRegressor(member, transformer=StandardScaler()),
            VotingRegressor([("one", member), ("two", member)]),
            GridSearchCV(member, {"n_estimators": [3]}, cv=2),
        ):
            model = make_pipeline(OneHotEncoder(), end).fit(colours, Y_)
            explainer = Explainer(model, Marginal(colours))
            found = explainer.ensemble.predict(explainer.transform(colours))
            np.testing.assert_allclose(found, model.predict(colours), rtol=1e-5)
    mixed = make_pipeline(OneHotEncoder(), VotingRegressor([("x", XGB), ("f", FOREST)])).fit(colours, Y_)
    with pytest.warns(UserWarning, match="missing to XGBoost and 0 to its other members"):
        explainer = Explainer(mixed, Normal(0.3))
    with pytest.raises(
        UnsupportedModelError, match=r"sparse table: .* missing to XGBoost and 0 to its other"
    ):
        explainer.transform(colours)


# ---- what is refused ----


class Doubled(BaseEstimator):  # type: ignore[misc]
    """A final estimator of no known kind."""

    def fit(self, X: Any, y: Any) -> Doubled:
        return self

    def predict(self, X: Any) -> Any:
        return 2.0 * X[:, 0]


REFUSED: dict[str, tuple[Wrapper, str]] = {
    "hard votes": (
        fit(VotingClassifier(CLASSIFIERS), y=BINARY),
        r"VotingClassifier: its members vote by their labels \(voting='hard'\).*estimators_ one by one",
    ),
    "votes of boosters": (
        fit(VotingClassifier([*CLASSIFIERS, *MARGINS], voting="soft"), y=BINARY),
        r"VotingClassifier: what its member 'boosting' \(GradientBoostingClassifier\) gives by predict_proba "
        "is not the sum of its trees: a link function.*estimators_ one by one",
    ),
    "votes of an XGBoost forest": (
        fit(VotingClassifier([("x", xgboost.XGBRFClassifier(n_estimators=3))], voting="soft"), y=BINARY),
        "VotingClassifier: what its member 'x' .* link function",
    ),
    "votes with a link": (
        fit(VotingRegressor([("p", HistGradientBoostingRegressor(loss="poisson", **HIST))]), y=POSITIVE),
        "VotingRegressor: what its member 'p' .* gives by predict is not the sum .* link function",
    ),
    "votes of no trees": (
        fit(VotingRegressor([("line", LinearRegression()), *DOUBLES])),
        r"VotingRegressor: its member 'line': predgap explains tree ensembles; this is a LinearRegression",
    ),
    "votes of pipelines": (
        fit(VotingRegressor([("steps", PIPELINE), *DOUBLES])),
        r"VotingRegressor: its member 'steps' is a Pipeline .*make_pipeline\(\.\.\., VotingRegressor",
    ),
    "votes that take other values for missing": (
        fit(VotingRegressor([("x", xgboost.XGBRegressor(n_estimators=3, missing=0.0)), ("f", FOREST)])),
        "VotingRegressor: its member 'x' and its member 'f' take different values for missing.*one by one",
    ),
    "calibrated": (
        fit(CalibratedClassifierCV(CLASS_FOREST, cv=2), y=BINARY),
        r"CalibratedClassifierCV: .*pass that model, e.g. calibrated_classifiers_\[0\]\.estimator",
    ),
    "stacking on trees": (
        fit(StackingRegressor(DOUBLES, FOREST, cv=2)),
        "StackingRegressor: its final estimator is a RandomForestRegressor, which is not linear.*RidgeCV",
    ),
    "stacking on a link": (
        fit(StackingRegressor(DOUBLES, PoissonRegressor(), cv=2), y=POSITIVE),
        "StackingRegressor: its final estimator is a PoissonRegressor, which is not linear",
    ),
    "stacking of probabilities through a link": (
        fit(StackingClassifier(MARGINS, LogisticRegression(), stack_method="predict_proba", cv=2), y=BINARY),
        "StackingClassifier: what its member 'boosting' .* predict_proba is not the sum of its trees",
    ),
    "stacking on X": (
        fit(StackingRegressor(DOUBLES, passthrough=True, cv=2)),
        "StackingRegressor: it passes X on.*passthrough=False",
    ),
    "target through a curve": (
        fit(TransformedTargetRegressor(FOREST, transformer=PowerTransformer())),
        "TransformedTargetRegressor: its PowerTransformer .*StandardScaler, .*pass its regressor_",
    ),
    "target through a function": (
        fit(TransformedTargetRegressor(FOREST, func=np.log1p, inverse_func=np.expm1), y=POSITIVE),
        "TransformedTargetRegressor: its FunctionTransformer .*pass its regressor_",
    ),
    "target through a pipeline": (
        fit(TransformedTargetRegressor(FOREST, transformer=make_pipeline(StandardScaler(), MinMaxScaler()))),
        "TransformedTargetRegressor: its Pipeline .*pass its regressor_",
    ),
    "target of a link": (
        fit(TransformedTargetRegressor(HistGradientBoostingRegressor(loss="poisson", **HIST)), y=POSITIVE),
        "TransformedTargetRegressor: what its regressor_ .* link function.*pass its regressor_",
    ),
    "chain": (
        fit(RegressorChain(FOREST), y=TWO),
        "RegressorChain: .*predictions of those before them.*MultiOutputRegressor",
    ),
    "chain of classes": (
        fit(ClassifierChain(CLASS_FOREST), y=np.c_[BINARY, 1 - BINARY]),
        "ClassifierChain: ",
    ),
    "pairs": (fit(OneVsOneClassifier(CLASS_FOREST), y=CLASSES), "OneVsOneClassifier: its models vote"),
    "codes": (fit(OutputCodeClassifier(CLASS_FOREST, random_state=0), y=CLASSES), "OutputCodeClassifier: "),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_sum_of_trees_is_refused_by_name(kind: str) -> None:
    make, says = REFUSED[kind]
    loading.refused(make(), says, UnsupportedModelError)


@pytest.mark.filterwarnings("ignore")
def test_text_categories_that_cannot_be_checked_are_refused() -> None:
    frame = pd.DataFrame({"colour": pd.Categorical(WORDS), "x": X_[:, 0]})
    hist = HistGradientBoostingRegressor(categorical_features="from_dtype", **HIST)
    model = VotingRegressor([("a", hist), ("b", hist)]).fit(frame, Y_)
    loading.refused(model, "VotingRegressor: its member 'a' takes no array of numbers", UnsupportedModelError)


def test_weights_without_a_mean_are_refused() -> None:
    model = VotingRegressor(DOUBLES).fit(X_, Y_)
    for weights in ([1, -1], [np.nan, 1]):
        model.weights = weights
        loading.refused(model, "weights of the VotingRegressor .* have no mean", LoaderError)


def test_a_wrapper_that_predicts_otherwise_is_refused() -> None:
    class Shifted(VotingRegressor):  # type: ignore[misc]
        def predict(self, X: Any) -> Any:
            return super().predict(X) + 1e-6

    loading.refused(Shifted(DOUBLES).fit(X_, Y_), "disagrees with the wrapper's own", LoaderError)


def test_the_classes_are_those_that_the_table_of_sources_knows() -> None:
    (source,) = (source for source in _SOURCES if source.module == wrappers.__name__)
    assert source.classes == {*wrappers._READERS, *wrappers._REFUSED, *wrappers._TRANSPARENT}


def test_unwrapping_leaves_other_models_alone() -> None:
    for model in (FOREST, PIPELINE, "a path", None, DecisionTreeClassifier(**SMALL), FunctionTransformer()):
        assert wrappers.unwrapped(model) is model


def test_the_classes_are_those_of_the_wrapper():
    labels = np.array(["low", "mid", "high"])[np.arange(len(X_)) % 3]
    forests = [(str(seed), RandomForestClassifier(3, random_state=seed)) for seed in range(2)]
    voting = VotingClassifier(forests, voting="soft").fit(X_, labels)  # it trains its members on 0, 1, 2
    assert load(voting).class_names == ("high", "low", "mid")
    assert load(VotingRegressor([("tree", DecisionTreeRegressor())]).fit(X_, Y_)).class_names is None
