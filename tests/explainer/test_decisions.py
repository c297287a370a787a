"""Crossing a threshold, absolute and probability gaps: the definition, bounds that hold, probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from assertions import explainer_of
from effort import cases
from predgap import (
    Background,
    Bracket,
    CostError,
    Discrete,
    Ensemble,
    Explainer,
    Link,
    Normal,
    OutputError,
    PredgapError,
    Relative,
    SubsetError,
    _core,
)
from predgap._engine import questions
from reference import outcomes, tails_of
from strategies import Problem, Split, ensemble_of, full_trees, mixed_problems, problems, random_ensemble


def expected(problem: Problem, x: np.ndarray, of: Callable[[float, float], float]) -> float:
    """E[of(f(x), f(x'))] by the definition."""
    tails = tails_of(problem.noise, problem.ensemble)
    bias = Fraction(problem.ensemble.bias[0])
    total = Fraction(0)
    for probability, here, there in outcomes(problem.ensemble, x, problem.subset, tails):
        total += probability * Fraction(of(float(bias + sum(here)), float(bias + sum(there))))
    return float(total)


@given(st.one_of(problems(), mixed_problems()))
def test_absolute_gaps_are_those_of_the_definition(problem: Problem) -> None:
    found = explainer_of(problem, None).absolute_gap(problem.X, problem.mask)
    assert set(found.method) <= {"exact"}
    np.testing.assert_array_equal(found.lower, found.upper)
    for x, value in zip(problem.X, found.value, strict=True):
        wanted = expected(problem, x, lambda here, there: abs(there - here))
        scale = np.abs(problem.ensemble.value).max(initial=0.0) * problem.ensemble.n_trees
        assert value == pytest.approx(wanted, rel=1e-12, abs=1e-14 * scale)


@given(st.one_of(problems(), mixed_problems()), st.sampled_from([-1.0, -0.25, 0.0, 0.5, 2.0]))
def test_flips_are_those_of_the_definition(problem: Problem, threshold: float) -> None:
    found = explainer_of(problem, None).flip(problem.X, threshold, problem.mask, space="margin")
    for x, value in zip(problem.X, found.value, strict=True):
        wanted = expected(problem, x, lambda here, there: (here >= threshold) != (there >= threshold))
        values = problem.ensemble.predict(x[None])
        assume(not 0 < abs(values[0] - threshold) < 1e-9)  # sums of trees that differ by rounding only
        assert value == pytest.approx(wanted, rel=1e-12, abs=1e-13)


@given(problems(), st.sampled_from([0.1, 0.5, 0.75]))
def test_probability_gaps_are_those_of_the_definition(problem: Problem, scale: float) -> None:
    linked = replace(problem.ensemble, link=Link("logistic", scale), class_names=("no", "yes"))
    found = Explainer(linked, problem.noise).probability_gap(problem.X, problem.mask)

    def squared(here: float, there: float) -> float:
        before, after = (1.0 / (1.0 + np.exp(-scale * margin)) for margin in (here, there))
        return float((after - before) ** 2)

    for x, value in zip(problem.X, found.value, strict=True):
        assert value == pytest.approx(expected(problem, x, squared), rel=1e-9, abs=1e-15)


# ---- bounds, where outcomes are too many to list -------------------------------------------------------


@pytest.fixture
def unlisted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Bracket]], tuple[Bracket, Bracket]]:
    """A call answered from the outcomes, and from bounds and samples."""

    def both(call: Callable[[], Bracket]) -> tuple[Bracket, Bracket]:
        exact = call()
        with monkeypatch.context() as patched:
            patched.setattr(questions, "listed_outcomes", lambda *arguments: None)
            return exact, call()

    return both


def random_case(rng: np.random.Generator) -> tuple[Explainer, np.ndarray, np.ndarray]:
    ensemble = random_ensemble(rng, n_trees=int(rng.integers(1, 5)), depth=3, n_features=3)
    if rng.random() < 0.5:
        ensemble = Ensemble(
            **{name: getattr(ensemble, name) for name in ("root", "feature", "threshold", "left", "right")},
            default_left=ensemble.default_left,
            value=ensemble.value,
            target=ensemble.target,
            bias=ensemble.bias,
            n_features=3,
            class_names=("no", "yes"),
            link=Link("logistic"),
        )
    return Explainer(ensemble, Normal(rng.uniform(0.1, 2.0))), rng.normal(size=(1, 3)), rng.random(3) < 0.7


def test_bounds_hold_and_estimates_are_near(
    unlisted: Callable[[Callable[[], Bracket]], tuple[Bracket, Bracket]],
) -> None:
    rng = np.random.default_rng(4)
    off, n_sampled = 0, 0
    for _ in range(cases(100, 3000)):
        explainer, x, mask = random_case(rng)
        threshold = float(explainer.ensemble.predict(x)[0] + rng.normal())
        calls: list[Callable[[], Bracket]] = [
            partial(explainer.flip, x, threshold, mask, space="margin", n_samples=512),
            partial(explainer.absolute_gap, x, mask, n_samples=512),
        ]
        if explainer.ensemble.link is not None:
            calls.append(partial(explainer.probability_gap, x, mask, n_samples=512))
            calls.append(partial(explainer.absolute_gap, x, mask, space="probability", n_samples=512))
        for call in calls:
            exact, bounded = unlisted(call)
            slack = 1e-12 * (1.0 + exact.value[0])
            assert bounded.lower[0] - slack <= exact.value[0] <= bounded.upper[0] + slack
            assert bounded.lower[0] <= bounded.value[0] <= bounded.upper[0]
            if bounded.method[0] != "exact":
                n_sampled += 1
                off += abs(bounded.value[0] - exact.value[0]) > 5 * bounded.standard_error[0] + slack
    assert n_sampled > 50
    assert off <= 0.02 * n_sampled  # quasi-random errors are not normal


@pytest.mark.parametrize("threshold", [0.0, 1e-13, 0.5, 1.0 - 1e-13, 1.0])
def test_bounds_at_the_ends_of_probabilities_hold(
    threshold: float, unlisted: Callable[[Callable[[], Bracket]], tuple[Bracket, Bracket]]
) -> None:
    rng = np.random.default_rng(6)
    for margin in (-40.0, -28.0, 0.0, 3.0, 28.0, 40.0):
        for _ in range(cases(5, 100)):
            ensemble = random_ensemble(rng, n_trees=2, depth=3, n_features=2)
            linked = replace(ensemble, link=Link("logistic"), class_names=("no", "yes"), bias=[margin])
            call = partial(Explainer(linked, Normal(1.0)).flip, rng.normal(size=(1, 2)), threshold)
            exact, bounded = unlisted(call)
            assert bounded.lower[0] - 1e-12 <= exact.value[0] <= bounded.upper[0] + 1e-12


@given(st.integers(0, 2**32 - 1))
def test_probabilities_of_several_classes_follow_the_definition(seed: int) -> None:
    """E over the nine outcomes of two features with three values each, all predictions asked one by one."""
    rng = np.random.default_rng(seed)
    model = softmax_model(rng)
    values, weights = rng.normal(size=3), rng.dirichlet(np.ones(3))
    x, noise = rng.normal(size=(1, 2)), Discrete(values.tolist(), weights.tolist())
    moved = np.array([[a, b] for a in values for b in values])
    weight = np.outer(weights, weights).ravel()

    def probabilities(rows: np.ndarray) -> np.ndarray:
        power = np.exp(model.link.scale * model.predict(rows))
        return power / power.sum(axis=1, keepdims=True)

    def check(found: Bracket, sizes: np.ndarray, power: int) -> None:
        """Sizes are differences of probabilities, which are off by some 1e-16."""
        value = weight @ sizes**power
        assert abs(found.value[0] - value) <= 1e-12 * value + 2e-15 * np.sqrt(value) ** (power - 1)

    now, then = probabilities(x)[0], probabilities(moved)
    together, change = Explainer(model, noise), np.sqrt(((then - now) ** 2).sum(axis=1))
    check(together.probability_gap(x, [0, 1]), change, 2)
    check(together.absolute_gap(x, [0, 1], space="probability"), change, 1)
    for k, label in enumerate("abc"):
        one, line = Explainer(model, noise, output=label), float(rng.uniform(0.05, 0.95))
        by = np.abs(then[:, k] - now[k])
        check(one.probability_gap(x, [0, 1]), by, 2)
        check(one.absolute_gap(x, [0, 1], space="probability"), by, 1)
        check(one.flip(x, line), ((then[:, k] >= line) != (now[k] >= line)).astype(float), 1)


def softmax_model(rng: np.random.Generator) -> Ensemble:
    """Three classes, a tree each."""
    one = full_trees(rng, n_trees=3, depth=2, n_features=2)
    return replace(
        one,
        value=rng.normal(size=one.value.shape) * 2,
        target=np.arange(3),
        bias=rng.normal(size=3),
        class_names=("a", "b", "c"),
        link=Link("softmax", float(rng.uniform(0.5, 2.0))),
    )


@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_bounds_of_probabilities_hold(
    kind: Any,
    unlisted: Callable[[Callable[[], Bracket]], tuple[Bracket, Bracket]],
) -> None:
    """Also for noise that replaces values, so that the row as it is may never be reached again."""
    rng = np.random.default_rng(5)
    for _ in range(cases(30, 600)):
        ensemble = softmax_model(rng)
        if kind == "logistic":
            link = Link(kind, ensemble.link.scale)
            ensemble = replace(ensemble.select(1), class_names=("a", "b"), link=link)
        x, threshold = rng.normal(size=(1, 2)), float(rng.uniform(0.05, 0.95))
        noise = Normal(0.8) if rng.random() < 0.5 else Discrete(rng.normal(size=3).tolist())
        for output in (None, "b"):
            explainer = Explainer(ensemble, noise, output=output)
            for call in (
                partial(explainer.probability_gap, x, [0, 1], n_samples=256),
                partial(explainer.absolute_gap, x, [0, 1], space="probability", n_samples=256),
                *(
                    [partial(explainer.flip, x, threshold, n_samples=256)]
                    if output or kind == "logistic"
                    else []
                ),
            ):
                exact, bounded = unlisted(call)
                assert bounded.lower[0] - 1e-12 <= exact.value[0] <= bounded.upper[0] + 1e-12


@pytest.mark.parametrize("margin", [30.0, 37.0, 50.0])
@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_bounds_hold_where_a_probability_is_all_but_1(kind: Any, margin: float) -> None:
    """By the definition, in terms of what is left to 1."""
    stumps = [Split(q, 0.0, -1.0, 0.0) for q in range(26)]
    k = 3 if kind == "softmax" else 1
    model = ensemble_of(stumps, 26, n_outputs=k, class_names=("a", "b", "c")[: max(k, 2)])
    model = replace(model, link=Link(kind), bias=np.array([margin, 0.0, 0.0][:k]))
    explainer = Explainer(model, Normal(1.0), output="a" if k == 3 else None)
    found = explainer.absolute_gap(np.full((1, 26), 0.5), range(26), space="probability", n_samples=256)
    rest = (k - 1) if k > 1 else 1  # e^margin against so many others
    fallen = stats.binom(26, stats.norm.sf(0.5)).pmf(np.arange(27))
    left = rest / (rest + np.exp(margin - np.arange(27)))
    true = float(fallen @ (left - left[0]))
    assert found.method[0] != "exact"
    assert found.lower[0] <= true <= found.upper[0]
    assert (found.standard_error >= 0).all()


def test_a_threshold_out_of_reach_is_never_crossed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "listed_outcomes", lambda *arguments: None)
    stump = ensemble_of([], 1)
    found = Explainer(stump, Normal(1.0)).flip([[0.0]], 5.0)
    assert (found.value[0], found.upper[0], found.method[0]) == (0.0, 0.0, "exact")


def test_what_is_too_costly_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise _core.TooCostly(0, 5e6, 2048.0)

    monkeypatch.setattr(questions, "listed_outcomes", refuse)
    stump = ensemble_of([Split(0, 0.5, 1.0, 3.0)], 1)
    for call, ask in (
        ("flip(X, threshold)", lambda e, x: e.flip(x, 2.0)),
        ("flip(X, threshold, subset)", lambda e, x: e.flip(x, 2.0, [0])),
        ("absolute_gap(X, subset)", lambda e, x: e.absolute_gap(x, [0])),
    ):
        with pytest.raises(CostError) as refused:
            ask(Explainer(stump, Normal(1.0)), [[0.0]])
        assert str(refused.value).startswith(f"{call}: row 0 would take about 5,000,000 ms and 2,048 MB")
        assert str(refused.value).endswith("This works: explainer.gap(X, subset)")


# ---- real models -------------------------------------------------------------------------------------------


def classifiers() -> list[Any]:
    import catboost
    import lightgbm
    import xgboost
    from sklearn.ensemble import (
        GradientBoostingClassifier,
        HistGradientBoostingClassifier,
        RandomForestClassifier,
    )

    few = {"n_estimators": 5, "random_state": 0}
    return [
        xgboost.XGBClassifier(max_depth=3, **few),
        lightgbm.LGBMClassifier(num_leaves=6, verbose=-1, **few),
        lightgbm.LGBMClassifier(num_leaves=6, verbose=-1, objective="multiclassova", **few),
        catboost.CatBoostClassifier(iterations=5, depth=3, verbose=False, allow_writing_files=False),
        RandomForestClassifier(max_depth=3, **few),
        GradientBoostingClassifier(max_depth=2, **few),
        HistGradientBoostingClassifier(max_iter=5, max_depth=3),
    ]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("number", range(7))
def test_probabilities_are_those_of_the_library(number: int, n_classes: int) -> None:
    from sklearn.datasets import make_classification

    X, y = make_classification(300, 6, n_informative=4, n_classes=n_classes, random_state=1)
    X = X.astype(np.float32).astype(np.float64)
    model = classifiers()[number]
    if n_classes == 2 and getattr(model, "objective", None) == "multiclassova":
        model.set_params(objective="binary", sigmoid=0.7)
    model.fit(X, y)
    explainer = Explainer(model, Relative(X, 0.3))
    link = explainer.ensemble.link
    assert link is not None
    margins = explainer.ensemble.predict(X[:50]).reshape(50, -1).T
    own = model.predict_proba(X[:50])
    np.testing.assert_allclose(
        link.probabilities(margins).T, own[:, 1:] if len(margins) == 1 else own, rtol=2e-6, atol=1e-7
    )
    one = Explainer(model, Relative(X, 0.3), output="predicted")
    found = one.flip(X[:4], 0.5, [0, 1])
    assert ((found.lower <= found.value) & (found.value <= found.upper)).all()


def test_openings_without_probabilities_are_refused() -> None:
    ensemble = full_trees(np.random.default_rng(6), n_trees=2, depth=2, n_features=2)
    explainer = Explainer(ensemble, Normal(1.0))
    with pytest.raises(PredgapError, match=r"not known.*Use gap, which is about the margin"):
        explainer.probability_gap([[0.0, 0.0]], [0])
    with pytest.raises(PredgapError, match=r"not known.*space='margin'"):
        explainer.absolute_gap([[0.0, 0.0]], [0], space="probability")
    with pytest.raises(SubsetError):
        explainer.absolute_gap([[0.0, 0.0]], None)
    for wrong in ({"n_samples": 0}, {"n_samples": 10.5}, {"seed": -1}):  # all outcomes can be listed
        with pytest.raises(PredgapError, match=r"n_samples is|seed is"):
            explainer.absolute_gap([[0.0, 0.0]], [0], **wrong)
    with pytest.raises(PredgapError, match="'log' is unknown; expected 'margin' or 'probability'"):
        explainer.absolute_gap([[0.0, 0.0]], [0], space="log")
    with pytest.raises(PredgapError, match="threshold is nan, expected a finite number"):
        explainer.flip([[0.0, 0.0]], float("nan"))


def test_one_threshold_is_for_one_output() -> None:
    ensemble = replace(ensemble_of([], 1), bias=[0.0, 1.0])
    with pytest.raises(OutputError, match=r"2 outputs.*choose it"):
        Explainer(ensemble, Normal(1.0)).flip([[0.0]], 0.5)
    assert Explainer(ensemble, Normal(1.0), output=1).flip([[0.0]], 0.5).value[0] == 0.0


def test_a_probability_threshold_is_checked() -> None:
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier().fit([[0], [1]], [0, 1])
    explainer = Explainer(tree, Normal(1.0))
    with pytest.raises(PredgapError, match=r"threshold is 3, expected a probability.*space='margin'"):
        explainer.flip([[0.0]], 3)
    crossed = explainer.flip([[0.0]], 0.5).value[0]
    assert crossed == pytest.approx(explainer.gap([[0.0]], [0])[0], rel=1e-12)  # from 0 to 1


def test_forests_at_a_threshold_are_not_flipped_by_rounding() -> None:
    """A row that stays at the threshold but for rounding has not crossed it."""
    split = Split(0, 0.5, 0.1, 0.3)
    nearly = ensemble_of([split, 0.1, 0.1], 1)  # 0.3 or 0.5: 0.1 + 0.1 + 0.1 is above 0.3 as floats
    assert nearly.predict([[0.0]])[0] != 0.3
    found = Explainer(nearly, Normal(1.0)).flip([[0.0], [1.0]], 0.3)
    np.testing.assert_array_equal(found.value, [0.0, 0.0])


def test_background_is_always_exact() -> None:
    rng = np.random.default_rng(7)
    forest = full_trees(rng, n_trees=60, depth=6, n_features=12)
    X = rng.normal(size=(30, 12))
    explainer = Explainer(forest, Background(X))
    found = explainer.absolute_gap(X[:2], list(range(12)))
    wanted = [np.abs(forest.predict(X) - forest.predict(x[None])).mean() for x in X[:2]]
    np.testing.assert_allclose(found.value, wanted, rtol=1e-12)
    assert set(found.method) == {"exact"}


def test_results_are_the_same_for_any_batch() -> None:
    rng = np.random.default_rng(8)
    forest = full_trees(rng, n_trees=60, depth=6, n_features=12)
    explainer, X = Explainer(forest, Normal(0.5)), rng.normal(size=(3, 12))
    together = explainer.absolute_gap(X, list(range(12)), n_samples=512)
    assert set(together.method) == {"qmc"}
    for r in range(3):
        alone = explainer.absolute_gap(X[[r]], list(range(12)), n_samples=512)
        assert (alone.value[0], alone.lower[0], alone.upper[0]) == (
            together.value[r],
            together.lower[r],
            together.upper[r],
        )


def test_results_have_the_labels_of_rows(model: Any, table: Any) -> None:
    found = Explainer(model, Normal(0.5)).absolute_gap(table[:7], ["age"])
    frame = found.to_frame()
    assert list(frame.columns) == ["row", "value", "lower", "upper", "standard_error", "method", "n_samples"]
    assert frame["row"].tolist() == [f"p{i}" for i in range(7)]
    np.testing.assert_array_equal(frame["value"], found.value)
    assert "p4" in repr(found)
    assert "p5" not in repr(found)
    unlabelled = Explainer(model, Normal(0.5)).absolute_gap(table[:2].to_numpy(), [0])
    assert unlabelled.to_frame()["row"].tolist() == [0, 1]
