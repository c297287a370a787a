"""Links: probabilities computed from margins are those of the library; where they are not known, no guess."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import catboost
import lightgbm as lgb
import numpy as np
import pytest
import treelite
import xgboost as xgb
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from treelite import gtil

from onnx_models import classifier, general, graph, run, stump
from predgap import Explainer, Normal, difference, metrics
from predgap._model.links import Link
from predgap.errors import OutputError, PredgapError
from predgap.loaders import load

RNG = np.random.default_rng(3)
X_ = RNG.normal(size=(200, 3)).astype(np.float32)
Y_ = X_[:, 0] + X_[:, 1] * X_[:, 2]
TWO, THREE, COUNTS = (Y_ > 0).astype(int), np.digitize(Y_, [-0.7, 0.7]), np.exp(Y_ / 2).round()
BOTH = np.stack([TWO, X_[:, 2] > 0], axis=1).astype(int)
FEW: dict[str, Any] = {"n_estimators": 4, "random_state": 0}
BAGGED = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}

Predict = Callable[[], Any]


def boosted(y: Any, rounds: int = 4, **params: Any) -> tuple[Any, Predict]:
    model = xgb.train({"max_depth": 3, "nthread": 1, **params}, xgb.DMatrix(X_, y), rounds)
    return model, lambda: model.predict(xgb.DMatrix(X_))


def light(y: Any, **params: Any) -> tuple[Any, Predict]:
    model = lgb.train({"num_leaves": 6, "num_threads": 1, "verbose": -1, **params}, lgb.Dataset(X_, y), 4)
    return model, lambda: model.predict(X_)


def cat(y: Any, loss: str) -> tuple[Any, Predict]:
    model = catboost.CatBoost(
        {"iterations": 4, "depth": 3, "loss_function": loss, "thread_count": 1, "allow_writing_files": False}
    ).fit(X_, y, verbose=False)
    return model, lambda: model.predict(X_, prediction_type="Probability")


def estimator(model: Any, y: Any) -> tuple[Any, Predict]:
    model = model.fit(X_, y)

    def predict() -> Any:
        found = model.predict_proba(X_)
        return np.stack([each[:, 1] for each in found], axis=1) if isinstance(found, list) else found

    return model, predict


def lite(model: Any) -> tuple[Any, Predict]:
    kind = type(model).__module__.partition(".")[0]
    read = {
        "xgboost": treelite.frontend.from_xgboost,
        "lightgbm": treelite.frontend.from_lightgbm,
        "sklearn": treelite.sklearn.import_model,
    }[kind]
    imported = read(model)
    rows = X_.astype(imported.input_type)
    return imported, lambda: gtil.predict(imported, rows, nthread=1)


def onnx_classifier(class_ids: list[int], *, positive: bool = False, **more: Any) -> tuple[Any, Predict]:
    attributes = classifier(class_ids, (5, -3), **more)
    weights = np.array(attributes["class_weights"]) / 50.0
    model = graph({**attributes, "class_weights": (np.abs(weights) if positive else weights).tolist()})
    return model, lambda: run(model, X_[:, :2])[-1]


def stacked(final: Any) -> StackingClassifier:
    return StackingClassifier(
        [("a", RandomForestClassifier(**FEW)), ("b", ExtraTreesClassifier(**FEW))], final, cv=2
    )


def voting() -> VotingClassifier:
    members = [("a", RandomForestClassifier(**FEW)), ("b", ExtraTreesClassifier(**FEW))]
    return VotingClassifier(members, voting="soft", weights=[1, 3])


KNOWN: dict[str, tuple[Callable[[], tuple[Any, Predict]], Link]] = {
    "XGBoost reg:logistic": (lambda: boosted(TWO, objective="reg:logistic"), Link("logistic")),
    "XGBoost of labels": (lambda: boosted(BOTH, objective="binary:logistic"), Link("logistic")),
    "LightGBM cross_entropy": (lambda: light(TWO, objective="cross_entropy"), Link("logistic")),
    "LightGBM rf": (lambda: light(TWO, objective="binary", sigmoid=0.7, **BAGGED), Link("logistic", 0.7)),
    "LightGBM rf cross_entropy": (lambda: light(TWO, objective="cross_entropy", **BAGGED), Link("logistic")),
    "LightGBM rf of classes": (
        lambda: light(THREE, objective="multiclass", num_class=3, **BAGGED),
        Link("softmax"),
    ),
    "LightGBM rf one against all": (
        lambda: light(THREE, objective="multiclassova", num_class=3, **BAGGED),
        Link("logistic"),
    ),
    "CatBoost of labels": (lambda: cat(BOTH, "MultiLogloss"), Link("logistic")),
    "CatBoost CrossEntropy": (lambda: cat(TWO * 0.8 + 0.1, "CrossEntropy"), Link("logistic")),
    "AdaBoost": (lambda: estimator(AdaBoostClassifier(**FEW), TWO), Link("logistic")),
    "AdaBoost of classes": (lambda: estimator(AdaBoostClassifier(**FEW), THREE), Link("softmax", 0.5)),
    "voting": (lambda: estimator(voting(), TWO), Link("identity")),
    "voting of classes": (lambda: estimator(voting(), THREE), Link("identity")),
    "stacking": (lambda: estimator(stacked(LogisticRegression()), TWO), Link("logistic")),
    "stacking of classes": (lambda: estimator(stacked(LogisticRegression()), THREE), Link("softmax")),
    "two labels": (
        lambda: estimator(MultiOutputClassifier(RandomForestClassifier(**FEW)), BOTH),
        Link("identity"),
    ),
    "two labels, boosted": (
        lambda: estimator(MultiOutputClassifier(lgb.LGBMClassifier(**FEW, verbose=-1)), BOTH),
        Link("logistic"),
    ),
    "one against the rest, of two": (
        lambda: estimator(OneVsRestClassifier(lgb.LGBMClassifier(**FEW, verbose=-1)), TWO),
        Link("logistic"),
    ),
    "treelite sigmoid": (lambda: lite(boosted(TWO, objective="binary:logistic")[0]), Link("logistic")),
    "treelite sigmoid with a factor": (
        lambda: lite(light(TWO, objective="binary", sigmoid=0.7)[0]),
        Link("logistic", 0.7),
    ),
    "treelite softmax": (
        lambda: lite(boosted(THREE, objective="multi:softprob", num_class=3)[0]),
        Link("softmax"),
    ),
    "treelite one against all": (
        lambda: lite(light(THREE, objective="multiclassova", num_class=3, sigmoid=0.7)[0]),
        Link("logistic", 0.7),
    ),
    "treelite forest": (lambda: lite(RandomForestClassifier(**FEW).fit(X_, THREE)), Link("identity")),
    **{
        f"ONNX {name}, weights for {ids}": (
            lambda ids=ids, name=name: onnx_classifier(ids, post_transform=name),
            Link(kind),
        )
        for ids in ([0], [1], [0, 1])
        for name, kind in (("NONE", "identity"), ("LOGISTIC", "logistic"), ("SOFTMAX", "softmax"))
        if name != "SOFTMAX" or len(ids) > 1
    },
    "ONNX, positive weights": (
        lambda: onnx_classifier([0], positive=True, post_transform="LOGISTIC"),
        Link("logistic"),
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_probabilities_are_those_of_the_library(name: str) -> None:
    make, link = KNOWN[name]
    model, predict = make()
    ensemble = load(model)
    assert ensemble.link is not None
    assert (ensemble.link.kind, ensemble.link.scale) == (link.kind, pytest.approx(link.scale, rel=1e-7))
    rows = X_[:, : ensemble.n_features]
    margins = ensemble.predict(rows).reshape(len(rows), -1).T
    own = np.asarray(predict(), dtype=np.float64).reshape(len(X_), -1).T[-len(margins) :]
    np.testing.assert_allclose(link.probabilities(margins), own, rtol=0.0, atol=5e-7)
    assert np.ptp(own) > 0.04  # they say something
    explainer = Explainer(model, Normal(0.3), output=None if ensemble.n_outputs == 1 else 1)
    middle = float(np.median(link.probabilities(margins)[-1 if len(margins) == 1 else 1]))
    told, chosen = (explainer.flip(rows[:5], middle, [0], **by) for by in ({"space": "probability"}, {}))
    np.testing.assert_array_equal(told.value, chosen.value)


OTHER: dict[str, Callable[[], Any]] = {
    "XGBoost hinge": lambda: boosted(TWO, objective="binary:hinge")[0],
    "XGBoost counts": lambda: boosted(COUNTS, objective="count:poisson")[0],
    "XGBoost tweedie": lambda: boosted(COUNTS, objective="reg:tweedie")[0],
    "LightGBM lambda": lambda: light(TWO, objective="cross_entropy_lambda")[0],
    "LightGBM counts": lambda: light(COUNTS, objective="poisson")[0],
    "LightGBM roots": lambda: light(COUNTS, objective="regression", reg_sqrt=True)[0],
    "CatBoost counts": lambda: cat(COUNTS, "Poisson")[0],
    "scikit-learn counts": lambda: HistGradientBoostingRegressor(loss="poisson", max_iter=4).fit(X_, COUNTS),
    "isolation forest": lambda: IsolationForest(**FEW).fit(X_),
    "stacking on ridges": lambda: stacked(RidgeClassifier()).fit(X_, TWO),
    "one against the rest": lambda: OneVsRestClassifier(RandomForestClassifier(**FEW)).fit(X_, THREE),
    "classes side by side": lambda: MultiOutputClassifier(lgb.LGBMClassifier(**FEW, verbose=-1)).fit(
        X_, np.stack([THREE, THREE], axis=1)
    ),
    "treelite hinge": lambda: lite(boosted(TWO, objective="binary:hinge")[0])[0],
    "treelite counts": lambda: lite(boosted(COUNTS, objective="count:poisson")[0])[0],
    "ONNX probit": lambda: onnx_classifier([0], post_transform="PROBIT")[0],
    "ONNX softmax of one": lambda: onnx_classifier([0], post_transform="SOFTMAX")[0],
    "ONNX regressor": lambda: graph({**stump(), "post_transform": "LOGISTIC"}),
    "a difference of classifiers": lambda: difference(
        RandomForestClassifier(**FEW).fit(X_, TWO), RandomForestClassifier(**FEW, max_depth=2).fit(X_, TWO)
    ),
}


@pytest.mark.parametrize("name", OTHER)
def test_a_threshold_that_could_be_of_either_is_refused(name: str) -> None:
    model = OTHER[name]()
    ensemble = load(model)
    rows = X_[:2, : ensemble.n_features]
    explainer = Explainer(model, Normal(0.3), output=None if ensemble.n_outputs == 1 else 1)
    with pytest.raises(PredgapError, match=r"predicts something else .*pass space='margin'"):
        explainer.flip(rows, 0.5)
    with pytest.raises(PredgapError, match=r"not known.*Use gap, which is about the margin"):
        explainer.probability_gap(rows, [0])
    with pytest.raises(OutputError, match=r"does not know how .* makes them"):
        metrics.openxai_pgi(explainer, rows, [0, 1])
    found = explainer.flip(rows, 0.5, [0], space="margin")
    assert ((found.lower <= found.value) & (found.value <= found.upper)).all()


MARGINS: dict[str, Callable[[], Any]] = {
    "XGBoost": lambda: boosted(Y_)[0],
    "XGBoost ranks": lambda: boosted(TWO, objective="reg:absoluteerror")[0],
    "LightGBM": lambda: light(Y_, objective="quantile")[0],
    "LightGBM forest": lambda: light(Y_, objective="regression", **BAGGED)[0],
    "CatBoost": lambda: cat(Y_, "RMSE")[0],
    "scikit-learn": lambda: GradientBoostingRegressor(**FEW).fit(X_, Y_),
    "treelite": lambda: lite(boosted(Y_)[0])[0],
    "ONNX": lambda: graph(stump()),
    "ONNX, newest": lambda: graph(general(np.float32)),
}


@pytest.mark.parametrize("name", MARGINS)
def test_regressors_predict_their_margins(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MARGINS[name]()
    ensemble = load(model)
    assert ensemble.link is None
    rows = X_[:2, : ensemble.n_features]
    explainer = Explainer(model, Normal(0.3))
    told, chosen = (explainer.flip(rows, 3.0, [0], **by) for by in ({"space": "margin"}, {}))
    np.testing.assert_array_equal(told.value, chosen.value)
