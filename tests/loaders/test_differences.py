"""Differences of two models against their definition: f(x) - g(x), each model asked by itself."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import predgap
from predgap import Categories, Discrete, Ensemble, Explainer, PerFeature, UnsupportedModelError
from predgap.loaders.differences import paired
from strategies import GRID, PLAIN, Split, Tree, ensemble_of, trees

NAMES = ("a", "b", "c", "d")
LABELS = ("p", "q", "r", "s", "t")
VALUES = (-7.0, -1.0, -0.0, 0.1, 0.25, 3.0)  # some are thresholds of GRID, or differ from them by rounding


def moved(tree: Tree, place: dict[int, int]) -> Tree:
    """The same tree on features with other numbers."""
    if not isinstance(tree, Split):
        return tree
    return replace(
        tree, feature=place[tree.feature], left=moved(tree.left, place), right=moved(tree.right, place)
    )


@st.composite
def models(draw: st.DrawFn, features: Sequence[int], shared: list[Tree]) -> Ensemble:
    """An ensemble on these features, in this order, with trees of its own and some of the shared ones."""
    own = draw(st.lists(trees(features, GRID, st.sampled_from(PLAIN), 2), max_size=2))
    chosen = draw(st.lists(st.sampled_from(shared), max_size=3)) if shared else []
    place = {q: j for j, q in enumerate(features)}
    return ensemble_of(
        [moved(tree, place) for tree in draw(st.permutations([*own, *chosen]))],
        len(features),
        feature_names=[NAMES[q] for q in features],
        rows=draw(st.sampled_from([np.float32, np.float64])),
    )


@st.composite
def two_models(draw: st.DrawFn) -> tuple[Ensemble, Ensemble]:
    both = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True))
    rest = [q for q in range(4) if q not in both]
    shared = draw(st.lists(trees(both, GRID, st.sampled_from(PLAIN), 2), max_size=3))
    features = [
        draw(st.permutations([*both, *draw(st.lists(st.sampled_from(rest), unique=True))])) for _ in range(2)
    ]
    f, g = (draw(models(own, shared)) for own in features)
    return f, g


NUMBERS = st.one_of(
    st.sampled_from([*GRID, np.nan, np.inf, -np.inf]),
    st.sampled_from(GRID).map(lambda t: float(np.nextafter(t, np.inf))),
    st.sampled_from(GRID).map(lambda t: float(np.nextafter(np.float32(t), np.float32(-np.inf)))),
)


def asked(e: Ensemble, rows: list[dict[str, Any]]) -> np.ndarray:
    """What a model predicts by itself, of rows that may have more columns."""
    return e.predict(pd.DataFrame(rows, dtype=object)[list(e.feature_names or ())])


def gap_by_definition(
    f: Ensemble, g: Ensemble, row: dict[str, Any], subset: Sequence[str], values: dict[str, Sequence[Any]]
) -> float:
    """E[(D(x') - D(x))²] for D = f - g, where each feature of the subset that is not missing takes each of
    its values with the same probability."""
    moving = [name for name in subset if not pd.isna(row[name])]
    cells = [*itertools.product(*(values[name] for name in moving))]
    rows = [row, *({**row, **dict(zip(moving, cell, strict=True))} for cell in cells)]
    at_row, *others = (Fraction(a) - Fraction(b) for a, b in zip(asked(f, rows), asked(g, rows), strict=True))
    return float(sum((other - at_row) ** 2 for other in others) / len(cells))


# ---- predictions, gaps and common trees ----


@given(data=st.data())
def test_a_difference_is_what_the_models_differ_by(data: st.DataObject) -> None:
    f, g = data.draw(two_models())
    found = predgap.difference(f, g)
    names = found.feature_names
    assert names is not None
    assert {*names} == {*(f.feature_names or ()), *(g.feature_names or ())}
    row = {name: data.draw(NUMBERS) for name in names}
    # up to ten numbers of size 3, added in different orders
    assert asked(found, [row]) == pytest.approx(asked(f, [row]) - asked(g, [row]), rel=0, abs=1e-13)


@given(data=st.data())
def test_gaps_are_those_of_the_difference(data: st.DataObject) -> None:
    f, g = data.draw(two_models())
    found = predgap.difference(f, g)
    names = found.feature_names or ()
    row = {name: data.draw(NUMBERS) for name in names}
    subset = data.draw(st.lists(st.sampled_from(names), unique=True))
    explainer = Explainer(found, Discrete(VALUES), rtol=0.0)
    expected = gap_by_definition(f, g, row, subset, dict.fromkeys(names, VALUES))
    # the rounding of predictions of size 10 counts, where they cancel
    assert explainer.gap(pd.DataFrame([row]), subset)[0] == pytest.approx(expected, rel=1e-12, abs=1e-12)


@given(data=st.data())
def test_moments_give_the_expected_squared_difference(data: st.DataObject) -> None:
    """E[(f(x') - g(x'))²], with every feature that is not missing at each value as likely."""
    f, g = data.draw(two_models())
    found = predgap.difference(f, g)
    row = {name: data.draw(NUMBERS) for name in found.feature_names or ()}
    moving = [name for name, value in row.items() if not np.isnan(value)]
    rows = [
        {**row, **dict(zip(moving, cell, strict=True))}
        for cell in itertools.product(VALUES, repeat=len(moving))
    ]
    expected = np.mean((asked(f, rows) - asked(g, rows)) ** 2)
    moments = Explainer(found, Discrete(VALUES), rtol=0.0).moments(pd.DataFrame([row]))
    square = (moments.mean**2 + moments.variance)[0]
    assert square == pytest.approx(expected, rel=1e-12, abs=1e-12)


@given(data=st.data())
def test_equal_trees_cancel(data: st.DataObject) -> None:
    """As many as both have: so a model minus itself is nothing, and one with more trees is those."""
    f, more = data.draw(two_models())
    nothing = predgap.difference(f, f)
    assert (nothing.n_trees, nothing.n_nodes, nothing.bias.tolist()) == (0, 0, [0.0])
    pair = paired(f, more)
    g = pair.second  # in the features of both
    extended = with_trees_of(pair.first, g)
    rest = predgap.difference(extended, pair.first)
    np.testing.assert_array_equal(rest.value, g.value)
    assert rest.n_trees == g.n_trees
    assert paired(extended, pair.first).n_common == f.n_trees
    back = predgap.difference(f, extended)
    np.testing.assert_array_equal(back.value, -g.value)
    assert pair.n_common == paired(more, f).n_common
    assert pair.difference.n_trees == f.n_trees + more.n_trees - 2 * pair.n_common


def with_trees_of(f: Ensemble, g: Ensemble) -> Ensemble:
    """f with the trees of g after its own; both have the same features."""
    n = f.n_nodes
    arrays = {
        name: np.concatenate([getattr(f, name), getattr(g, name)])
        for name in ("feature", "threshold", "default_left", "value", "target", "category_set")
    }
    children = {
        name: np.concatenate([getattr(f, name), np.where(getattr(g, name) < 0, -1, getattr(g, name) + n)])
        for name in ("left", "right")
    }
    return replace(f, root=np.concatenate([f.root, g.root + n]), **arrays, **children)


# ---- categories ----


@st.composite
def with_categories(draw: st.DrawFn) -> Ensemble:
    """A model of a number and a category, whose labels are some letters in any order."""
    labels = draw(st.lists(st.sampled_from(LABELS), unique=True))
    codes = sorted(draw(st.sets(st.integers(0, 9), min_size=len(labels), max_size=len(labels))))

    def grown(depth: int) -> Tree:
        if depth == 0:
            return draw(st.sampled_from(PLAIN))
        sides = grown(depth - 1), grown(depth - 1), draw(st.booleans())
        if draw(st.booleans()):
            return Split(0, draw(st.sampled_from(GRID)), *sides)
        return Split(1, 0.0, *sides, tuple(draw(st.sets(st.sampled_from(codes)))) if codes else ())

    trees_ = [grown(draw(st.integers(0, 2))) for _ in range(draw(st.integers(0, 2)))]
    return ensemble_of(
        trees_,
        2,
        feature_names=["x", "job"],
        categories=[None, Categories(codes, tuple(labels))],
        unseen_is_missing=draw(st.booleans()),
        rows=draw(st.sampled_from([np.float32, np.float64])),
    )


@given(f=with_categories(), g=with_categories(), data=st.data())
def test_categories_are_matched_by_label(f: Ensemble, g: Ensemble, data: st.DataObject) -> None:
    """Also where only one model knows a category, or none does, and unseen means missing to one only."""
    found = predgap.difference(f, g)
    row = {"x": data.draw(NUMBERS), "job": data.draw(st.sampled_from([*LABELS, "unknown", None]))}
    assert asked(found, [row]) == pytest.approx(asked(f, [row]) - asked(g, [row]), rel=0, abs=1e-13)
    nothing = predgap.difference(f, f)
    assert (nothing.n_trees, nothing.bias.tolist()) == (0, [0.0])


@given(f=with_categories(), g=with_categories(), data=st.data())
def test_gaps_of_categories_are_those_of_the_difference(f: Ensemble, g: Ensemble, data: Any) -> None:
    found = predgap.difference(f, g)
    known = (found.categories or (None, None))[1]
    assert known is not None
    labels = list(known.labels or ())
    if not labels:
        return
    row = {"x": data.draw(NUMBERS), "job": data.draw(st.sampled_from(labels))}
    values = {"x": VALUES, "job": labels}
    subset = data.draw(st.lists(st.sampled_from(["x", "job"]), unique=True))
    noise = PerFeature({"x": Discrete(VALUES), "job": Discrete(labels)})
    expected = gap_by_definition(f, g, row, subset, values)
    gap = Explainer(found, noise, rtol=0.0).gap(pd.DataFrame([row]), subset)[0]
    assert gap == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_arrays_hold_the_codes_of_the_first_model() -> None:
    f, g = (by_job(labels, labels[:1]) for labels in (("q", "p"), ("p", "r")))
    found = predgap.difference(f, g)
    assert found.categories is not None
    assert found.categories[0].labels == ("q", "p", "r")
    np.testing.assert_array_equal(found.predict([[0.0], [1.0], [2.0]]), [1.0, -1.0, 0.0])


def by_job(labels: Sequence[Any] | None, left: Sequence[Any], **options: Any) -> Ensemble:
    """1 for the labels in `left`, 0 for all others."""
    n = 3 if labels is None else len(labels)
    place = {label: code for code, label in enumerate(range(3) if labels is None else labels)}
    chosen = tuple(place[label] for label in left)
    levels = Categories(range(n), None if labels is None else tuple(labels), **options)
    return ensemble_of(
        [Split(0, 0.0, 1.0, 0.0, False, chosen)], 1, feature_names=["job"], categories=[levels]
    )


def test_a_model_that_refuses_unknown_categories_refuses_them_here() -> None:
    f, g = by_job(("p", "q"), ["p"], closed=True), by_job(("q", "r"), ["r"])
    for found in (predgap.difference(f, g), predgap.difference(g, f)):
        assert found.predict(pd.DataFrame({"job": ["q"]})).tolist() == [0.0]
        with pytest.raises(predgap.TableError):
            found.predict(pd.DataFrame({"job": ["r"]}))


@pytest.mark.parametrize(
    ("f", "g", "said"),
    [
        (by_job(("p", "q"), ["p"]), by_job(None, [0]), "only codes"),
        (by_job(("1", "2"), ["1"]), by_job((1, 2), [1]), "text in one model, numbers in the other"),
        (
            by_job(("p", "q"), ["p"]),
            ensemble_of([Split(0, 0.5, 1.0, 2.0)], 1, feature_names=["job"]),
            "'job' is categorical in one model and a number in the other",
        ),
    ],
)
def test_categories_that_cannot_be_matched_are_refused(f: Ensemble, g: Ensemble, said: str) -> None:
    with pytest.raises(UnsupportedModelError) as error:
        predgap.difference(f, g)
    assert said in str(error.value)
    with pytest.raises(UnsupportedModelError, match="job"):
        predgap.difference(g, f)


def test_a_category_that_a_model_does_not_split_on_may_be_a_number_to_it() -> None:
    f, unused = by_job(("p", "q"), ["p"]), ensemble_of([2.0], 1, feature_names=["job"])
    frame = pd.DataFrame({"job": ["p", "q"]})
    np.testing.assert_array_equal(predgap.difference(f, unused).predict(frame), [-1.0, -2.0])
    np.testing.assert_array_equal(predgap.difference(unused, f).predict(frame), [1.0, 2.0])


# ---- features and outputs ----


def stump(feature: int = 0, n_features: int = 1, **options: Any) -> Ensemble:
    return ensemble_of([Split(feature, 0.5, 1.0, 3.0)], n_features, **options)


def test_features_are_matched_by_position_unless_both_have_names() -> None:
    named, unnamed = stump(0, 2, feature_names=["a", "b"]), stump(1, 2)
    rows = np.array([[0.0, 1.0], [1.0, 0.0]])
    for f, g in ((named, unnamed), (unnamed, named), (unnamed, unnamed)):
        found = predgap.difference(f, g)
        np.testing.assert_array_equal(found.predict(rows), f.predict(rows) - g.predict(rows))
    assert predgap.difference(unnamed, named).feature_names == ("a", "b")


def test_a_feature_that_one_model_lacks_is_kept() -> None:
    old, new = stump(feature_names=["mean radius"]), stump(1, 2, feature_names=["mean_radius", "new"])
    for f, g, names in ((new, old, ("mean_radius", "new")), (old, new, ("mean radius", "new"))):
        found = predgap.difference(f, g)
        assert found.feature_names == names
        np.testing.assert_array_equal(
            found.predict([[0.0, 1.0], [1.0, 0.0]]), [2.0, -2.0] if f is new else [-2.0, 2.0]
        )


@pytest.mark.parametrize(
    ("f", "g", "said"),
    [
        (stump(0, 1), stump(0, 2), "1 and 2 features"),
        (stump(0, 1, feature_names=["a"]), stump(0, 2), "named"),
        (stump(feature_names=["a"]), stump(feature_names=["b"]), "'a'; and 'b'"),
        (stump(), stump(n_outputs=2), "1 output, the second model 2"),
        (stump(missing=-9.0), stump(), "different values for missing"),
        (stump(missing=-9.0, rows=np.float32), stump(missing=-9.0), "-9.00000047683715"),
        (stump(class_names=["no", "yes"]), stump(class_names=["0", "1"]), "'no', 'yes'; and '0', '1'"),
        (stump(class_names=["no", "yes"]), stump(class_names=["yes", "no"]), "'yes', 'no'"),
    ],
)
def test_models_that_cannot_be_compared_are_refused(f: Ensemble, g: Ensemble, said: str) -> None:
    with pytest.raises(UnsupportedModelError) as error:
        predgap.difference(f, g)
    assert said in str(error.value)


@pytest.mark.parametrize("vectors", [False, True])
def test_classes_are_matched_by_label(vectors: bool) -> None:
    leaves = [(1.0, 2.0, 4.0), (8.0, 16.0, 32.0)]
    g_leaves = [tuple(leaf[k] for k in (2, 0, 1)) for leaf in leaves]
    f, g = (three_classes(own, vectors) for own in (leaves, g_leaves))
    f = replace(f, class_names=["low", "mid", "high"], bias=[1.0, 2.0, 3.0])
    g = replace(g, class_names=["high", "low", "mid"], bias=[3.0, 1.0, 2.0])
    found = predgap.difference(f, g)
    assert (found.n_trees, found.bias.tolist()) == (0, [0.0] * 3)
    assert found.class_names == ("low", "mid", "high")
    unnamed = predgap.difference(f, replace(g, class_names=None))
    np.testing.assert_array_equal(unnamed.predict([[0.0]]), f.predict([[0.0]]) - g.predict([[0.0]]))
    other = three_classes(leaves, not vectors)
    both = predgap.difference(f, replace(other, class_names=["low", "mid", "high"]))
    np.testing.assert_array_equal(both.predict([[0.0], [1.0]]), np.zeros((2, 3)))


def three_classes(leaves: list[tuple[float, ...]], vectors: bool) -> Ensemble:
    if vectors:
        return ensemble_of([Split(0, 0.5, *leaves)], 1, targets=[-1], n_outputs=3)
    some = [Split(0, 0.5, leaves[0][k], leaves[1][k]) for k in range(3)]
    return ensemble_of(some, 1, targets=[0, 1, 2], n_outputs=3)
