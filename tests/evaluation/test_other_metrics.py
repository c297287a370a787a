"""Other metrics in `evaluate`: each equals the metric called by hand; what it lacks is said."""

from __future__ import annotations

import json
import warnings
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

from predgap import (
    Background,
    Evaluation,
    Explainer,
    Marginal,
    NoiseError,
    Normal,
    OutputError,
    PredgapError,
    Ranking,
    RankingError,
    TableError,
    Uniform,
    evaluate,
    metrics,
)
from predgap.evaluation.scoring import METRICS
from strategies import Split, ensemble_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import shap

REDRAWING = ["deletion", "insertion", "comprehensiveness", "sufficiency"]


@pytest.fixture(scope="module")
def diabetes() -> tuple[pd.DataFrame, pd.Series]:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X, y = X.iloc[:60, :5], y[:60]
    labels = [f"patient {i}" for i in range(60)]
    return X.set_axis(labels), y.set_axis(labels)


@pytest.fixture(scope="module")
def model(diabetes: Any) -> Any:
    return lightgbm.LGBMRegressor(n_estimators=6, num_leaves=5, verbose=-1).fit(*diabetes)


@pytest.fixture(scope="module")
def slopes() -> Any:
    return np.random.default_rng(0).normal(size=(8, 5))


@pytest.mark.parametrize("noise", [Marginal, Background])
@pytest.mark.parametrize("metric", REDRAWING)
def test_scores_by_redrawing_are_those_by_hand(diabetes: Any, model: Any, noise: Any, metric: str) -> None:
    explainer, X = Explainer(model, noise(diabetes[0])), diabetes[0][:8]
    found = evaluate(explainer, X, ["shap", "greedy", "random"], metrics=[metric])
    for i, name in enumerate(found.names):
        by_hand = getattr(metrics, metric)(explainer, X, found.rankings[name])
        np.testing.assert_array_equal(found.scores[metric][i], by_hand)
        assert found.summary[i][metric] == pytest.approx(by_hand.mean(), rel=1e-12)
    assert found.obtained[metric] == "exact"
    assert not found.notes


def test_feature_randomising_takes_the_outcomes_of_the_rows(diabetes: Any, model: Any) -> None:
    X, y = diabetes
    explainer = Explainer(model, Marginal(X))
    found = evaluate(
        explainer, X[:8], ["greedy", "gain"], y=y[:8][::-1], metrics=["feature_randomising"], top=2
    )
    for name, scores in zip(found.names, found.scores["feature_randomising"], strict=True):
        by_hand = metrics.feature_randomising(explainer, X[:8], found.rankings[name], y[:8])
        np.testing.assert_array_equal(scores, by_hand)  # a Series is matched by its index
    assert found.better["feature_randomising"] == "higher"


def test_openxai_scores_say_how_they_were_obtained(diabetes: Any, model: Any) -> None:
    X = diabetes[0][:4]
    explainer, names = Explainer(model, Normal(0.05)), ["openxai_pgi", "openxai_pgu"]
    found = evaluate(explainer, X, ["gain"], metrics=names, seed=3)
    for metric in names:
        by_hand = getattr(metrics, metric)(explainer, X, found.rankings["gain"], seed=3)
        np.testing.assert_array_equal(found.scores[metric][0], by_hand.value)
        assert found.obtained[metric] == ("exact" if (by_hand.method == "exact").all() else "estimated")
    stump = Explainer(ensemble_of([Split(0, 0.5, 0.0, 1.0)], 2), Normal(1.0))
    assert evaluate(stump, [[0.0, 0.0]], {"a": [0, 1]}, metrics=names).obtained["openxai_pgi"] == "exact"


def test_attributions_are_kept_with_their_signs(diabetes: Any, model: Any, slopes: Any) -> None:
    X = diabetes[0][:8]
    explainer = Explainer(model, Normal(0.05))
    frame = pd.DataFrame(slopes, columns=X.columns, index=X.index)
    shuffled = frame.iloc[::-1, ::-1]
    asked = {"array": slopes, "frame": frame, "shuffled": shuffled, "order": [0, 1, 2, 3, 4]}
    found = evaluate(explainer, X, asked, metrics=["infidelity", "monotonicity_correlation"])
    distance = metrics.infidelity(explainer, X, slopes)
    correlation = metrics.monotonicity_correlation(explainer, X, slopes)
    for i in range(3):
        np.testing.assert_array_equal(found.scores["infidelity"][i], distance)
        np.testing.assert_array_equal(found.scores["monotonicity_correlation"][i], correlation)
    for metric, needs in (
        ("infidelity", "signed attributions"),
        ("monotonicity_correlation", "attributions"),
    ):
        assert np.isnan(found.scores[metric][3]).all()
        assert np.isnan(found.summary[3][metric])
        assert f"'order' has no {metric}, which needs {needs}." in found.notes
    assert len(found.notes) == 2


def test_metrics_by_hand_match_features_and_rows_by_name(diabetes: Any, model: Any, slopes: Any) -> None:
    X = diabetes[0][:8]
    explainer = Explainer(model, Normal(0.05))
    frame = pd.DataFrame(slopes, columns=X.columns, index=X.index).iloc[::-1, ::-1]
    np.testing.assert_array_equal(
        metrics.infidelity(explainer, X, frame), metrics.infidelity(explainer, X, slopes)
    )
    wanted = metrics.monotonicity_correlation(explainer, X, slopes)
    for given in (frame, Ranking.from_attributions(frame)):
        np.testing.assert_array_equal(metrics.monotonicity_correlation(explainer, X, given), wanted)
    with pytest.raises(RankingError, match="'s1' has none"):
        metrics.infidelity(explainer, X, frame.rename(columns={"s1": "age2"})[["age", "sex", "bmi", "bp"]])


def test_explanations_are_matched_by_name_and_output(diabetes: Any, slopes: Any) -> None:
    X = diabetes[0][:8]
    classes = lightgbm.LGBMClassifier(n_estimators=3, num_leaves=4, verbose=-1)
    explainer = Explainer(classes.fit(diabetes[0], np.arange(60) % 3), Normal(0.05), output=1)
    values = np.stack([np.zeros_like(slopes), slopes, slopes**2], axis=2)
    given = shap.Explanation(
        values[:, ::-1], np.zeros((8, 3)), X.to_numpy()[:, ::-1], feature_names=list(X.columns[::-1])
    )
    wanted = metrics.infidelity(explainer, X, slopes)
    np.testing.assert_array_equal(metrics.infidelity(explainer, X, given), wanted)
    found = evaluate(explainer, X, {"mine": given}, metrics=["infidelity"])
    np.testing.assert_array_equal(found.scores["infidelity"][0], wanted)
    other = shap.Explanation(
        given.values, given.base_values, given.data + 1, feature_names=given.feature_names
    )
    with pytest.raises(RankingError, match="of other rows than X"):
        metrics.infidelity(explainer, X, other)


def test_infidelity_of_the_predicted_one_of_two_classes(diabetes: Any, slopes: Any) -> None:
    X, y = diabetes[0], np.arange(60) % 2
    model = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=4, min_child_samples=2, verbose=-1).fit(X, y)
    predicted, second = (Explainer(model, Normal(0.05), output=output) for output in ("predicted", "1"))
    assert len(set(model.predict(X[:8]))) == 2
    wanted = metrics.infidelity(second, X[:8], slopes)  # of slopes of the second class
    np.testing.assert_allclose(metrics.infidelity(predicted, X[:8], slopes), wanted, rtol=1e-12)
    found = evaluate(predicted, X[:8], {"mine": slopes}, metrics=["infidelity"])
    np.testing.assert_allclose(found.scores["infidelity"][0], wanted, rtol=1e-12)


def test_groups_have_the_sums_of_attributions(diabetes: Any, model: Any, slopes: Any) -> None:
    X, groups = diabetes[0][:8], {"body": ["bmi", "bp"]}
    explainer = Explainer(model, Normal(0.05), groups=groups)
    found = evaluate(explainer, X, {"mine": slopes}, metrics=["monotonicity_correlation"])
    ranking = Ranking.from_attributions(slopes, feature_names=list(X.columns), groups=groups)
    by_hand = metrics.monotonicity_correlation(explainer, X, ranking)
    np.testing.assert_array_equal(found.scores["monotonicity_correlation"][0], by_hand)
    assert np.isfinite(by_hand).all()


def test_rankings_with_scores_have_sizes_but_no_signs(diabetes: Any, model: Any, slopes: Any) -> None:
    X = diabetes[0][:8]
    explainer = Explainer(model, Normal(0.05))
    asked = {"mine": Ranking.from_attributions(slopes), "gain": "gain", "greedy": "greedy"}
    found = evaluate(explainer, X, asked, metrics=["infidelity", "monotonicity_correlation"], top=2)
    of_sizes = found.scores["monotonicity_correlation"]
    np.testing.assert_array_equal(of_sizes[0], metrics.monotonicity_correlation(explainer, X, slopes))
    assert np.isfinite(of_sizes[1]).all()
    assert np.isnan(of_sizes[2]).all()  # greedy gives scores to the first two places only
    assert np.isnan(found.scores["infidelity"]).all()


def test_rows_without_a_correlation_are_left_out_of_the_mean() -> None:
    explainer = Explainer(ensemble_of([Split(0, 0.5, 0.0, 1.0)], 2), Uniform(1.0))
    values = np.array([[1.0, 1.0], [2.0, 1.0]])
    found = evaluate(explainer, [[0.0, 0.0]] * 2, {"a": values}, metrics=["monotonicity_correlation"])
    assert np.isnan(found.scores["monotonicity_correlation"][0]).tolist() == [True, False]
    assert found.summary[0]["monotonicity_correlation"] == pytest.approx(1.0)
    assert found.notes == ("monotonicity_correlation of 'a' is not defined in 1 row, left out of its mean.",)


def test_the_table_says_which_way_is_better(diabetes: Any, model: Any, tmp_path: Any) -> None:
    explainer = Explainer(model, Marginal(diabetes[0]))
    found = evaluate(explainer, diabetes[0][:8], ["greedy"], metrics=["pgu2", *REDRAWING])
    assert list(found.scores) == ["pgi2", "pgu2", *REDRAWING]
    frame = found.to_frame()
    assert [frame[f"{metric}_better"][0] for metric in REDRAWING] == [
        "lower",
        "higher",
        "higher",
        "closer to 0",
    ]
    assert "deletion (lower is better)" in repr(found)
    assert "deletion: exact" in repr(found)
    assert "insertion (higher is better)" in found._repr_html_()
    found.save(tmp_path / "it.json")
    saved = json.loads((tmp_path / "it.json").read_text())
    assert saved["scores"]["deletion"] == found.scores["deletion"].tolist()


def test_some_rows_are_scored_as_all(
    diabetes: Any, model: Any, slopes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = diabetes[0]
    explainer, rows = Explainer(model, Normal(0.05)), X[:8]
    asked, names = {"a": slopes, "shap": "shap"}, ["infidelity", "monotonicity_correlation"]
    whole = evaluate(explainer, rows, asked, metrics=names)
    monkeypatch.setattr("predgap.evaluation.budget._TRIAL", 0.0)  # one row
    monkeypatch.setattr("predgap.evaluation.budget._Attempt.fits", lambda self, n, left: n <= 3)
    monkeypatch.setattr("predgap.evaluation.budget._faster", lambda taken, last: taken or last)
    some = evaluate(explainer, rows, asked, metrics=names, budget=60)
    assert len(some.rows) < len(rows)
    for metric in names:
        np.testing.assert_array_equal(some.scores[metric], whole.scores[metric][:, some.rows])


def test_progress_never_goes_back(diabetes: Any, model: Any) -> None:
    done: list[int] = []
    explainer = Explainer(model, Marginal(diabetes[0]))
    evaluate(
        explainer, diabetes[0], ["greedy"], metrics=REDRAWING, progress=lambda now, total: done.append(now)
    )
    assert done == sorted(done)
    assert done[-1] == 60


def refused(error: type[PredgapError], match: str, *arguments: Any, **options: Any) -> None:
    """It is refused before anything is computed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("predgap.evaluation.evaluation.examined_within", lambda *a: pytest.fail("computed"))
        with pytest.raises(error, match=match):
            evaluate(*arguments, **options)


def test_what_a_metric_cannot_use_is_refused_first(diabetes: Any, model: Any) -> None:
    X, y = diabetes
    normal, redrawn = Explainer(model, Normal(0.1)), Explainer(model, Marginal(X))
    for metric in (*REDRAWING, "feature_randomising"):
        told = f"metrics has '{metric}': the noise is Normal"
        refused(NoiseError, told, normal, X, ["gain"], metrics=metric)
    together = Explainer(model, Background(X))
    refused(NoiseError, "'infidelity': .* Background", together, X, ["gain"], metrics="infidelity")
    only = {"metrics": ["feature_randomising"]}
    refused(PredgapError, "needs outcomes", redrawn, X, ["gain"], **only, top=2)
    refused(PredgapError, "the same score", redrawn, X, ["gain"], **only, y=y)
    refused(
        TableError,
        "y has 59 numbers, X has 60 rows",
        redrawn,
        X,
        ["gain"],
        **only,
        y=y[:59].to_numpy(),
        top=2,
    )
    refused(TableError, "expected one number", redrawn, X, ["gain"], **only, y=["a"] * 60, top=2)
    refused(PredgapError, "metrics has 'delete', expected", redrawn, X, ["gain"], metrics=["delete"])


def test_classes_are_refused_where_a_metric_is_about_numbers() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1).fit(X, y)
    only = {"metrics": ["feature_randomising"], "y": y, "top": 2}
    refused(OutputError, "not in the units of y", Explainer(model, Marginal(X)), X, ["gain"], **only)
    three = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1).fit(X, np.arange(len(X)) % 3)
    refused(OutputError, "3 outputs", Explainer(three, Marginal(X)), X, ["gain"], metrics=["deletion"])


def test_each_metric_is_named_as_its_function() -> None:
    for name, metric in METRICS.items():
        assert (metric.score is None) == (name in ("pgi2", "pgu2"))
        assert metric.score is None or name in metrics.__all__
    assert isinstance(evaluate.__doc__, str)
    for name in METRICS:
        assert f'"{name}"' in evaluate.__doc__
    assert "better" in dir(Evaluation)
