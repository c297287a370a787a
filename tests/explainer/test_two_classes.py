"""Two classes that share one output: what has a direction is that of the class that is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import predgap
from predgap import Ensemble, Explainer, Link, Marginal, Normal, OutputError, metrics
from strategies import Split, ensemble_of

ORDER = [2, 0, 1, 3]


def two_classes(class_names: Any = ("no", "yes"), link: Link | None = None) -> Ensemble:
    return replace(ensemble_of([Split(0, 0.0, -1.0, 2.0)], 2, class_names=class_names), link=link)


def with_two_outputs(one: Ensemble, both: float) -> Ensemble:
    """The same with an output for each class, whose margins sum to `both`."""
    return replace(
        one,
        value=np.hstack([-one.value, one.value]),
        bias=np.array([both - one.bias[0], one.bias[0]]),
        target=np.full(one.n_trees, -1),
    )


def test_gaps_of_both_classes_are_the_same():
    rows = np.array([[1.0, 1.0], [-0.5, -1.0]])
    model = two_classes(link=Link("logistic"))
    expected = Explainer(model, Normal(1.0)).gap(rows, [0])
    for output in (0, "yes", "no", "predicted", [0, 0], ["yes", "no"]):
        explainer = Explainer(model, Normal(1.0), output=output)
        assert explainer.gap(rows, [0]).tobytes() == expected.tobytes()
        assert explainer.rank(rows).output is None


@pytest.mark.parametrize(
    ("model", "both"),
    [
        (LGBMClassifier(n_estimators=5, verbose=-1), 0.0),
        (RandomForestClassifier(5, max_depth=3, random_state=0), 1.0),
    ],
    ids=["log-odds", "probabilities"],
)
def test_a_class_has_the_answers_of_an_output_of_its_own(model, both):
    X, y = make_classification(300, 4, n_informative=3, n_redundant=1, random_state=0)
    X = X.astype(np.float32).astype(np.float64)
    one = predgap.load(model.fit(X, np.array(["bad", "good"])[y]))
    two, rows, noise = with_two_outputs(one, both), X[:20], Marginal(X)
    likelier = (one.predict(rows) > both / 2).astype(int)
    assert one.n_outputs == 1
    assert set(likelier) == {0, 1}
    by_label = np.array(["bad", "good"])[likelier]
    assert (model.predict(rows) == by_label).all()
    for output, position in [("predicted", likelier), (by_label, likelier), ("bad", 0), ("good", 1)]:
        found, expected = Explainer(one, noise, output=output), Explainer(two, noise, output=position)
        for answer in (
            lambda e: e.gap(rows, [0, 2]),
            lambda e: e.moments(rows).mean,
            lambda e: e.expected_prediction(rows, [0]),
            lambda e: e.flip(rows, 0.3, [0]).value,
            lambda e: e.flip(rows, 0.3, [0], space="margin").value,
            lambda e: metrics.deletion(e, rows, ORDER),
            lambda e: metrics.sufficiency(e, rows, ORDER),
        ):
            np.testing.assert_allclose(answer(found), answer(expected), rtol=1e-12, atol=1e-14)


def test_infidelity_is_the_same_for_both_classes():
    model, rows = two_classes(link=Link("logistic")), np.array([[1.0, 1.0], [-0.5, -1.0]])
    slopes = np.array([[0.5, 0.0], [2.0, 0.1]])  # of the output
    of_both = np.stack([-slopes, slopes], axis=2)
    expected = metrics.infidelity(Explainer(model, Normal(1.0)), rows, slopes)
    for output in ("yes", "no"):
        explainer = Explainer(model, Normal(1.0), output=output)
        for given in (slopes, of_both):
            np.testing.assert_allclose(metrics.infidelity(explainer, rows, given), expected, rtol=1e-12)


def test_which_class_is_predicted_must_be_known():
    for names, link in (
        (("no", "yes"), None),
        (("no", "yes"), Link("other")),
        (None, Link("logistic")),  # perhaps of shares, not of classes
    ):
        with pytest.raises(OutputError, match=r"does not know which class.*leave output out"):
            Explainer(two_classes(names, link), Normal(1.0), output="predicted")
    assert Explainer(two_classes(None), Normal(1.0), output="predicted").gap([[0.0, 0.0]], [0])[0] > 0


def test_numbers_of_rows_are_not_labels():
    model = two_classes(("0", "1"), Link("logistic"))
    with pytest.warns(UserWarning, match=r"0 is the model's one output, that of class '1'.*astype\(str\)"):
        Explainer(model, Normal(1.0), output=np.array([0, 0]))
