"""Combined ensembles against their definition: bias + the sum of matrix · member, for the same rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predgap import Categories, Ensemble, UnsupportedModelError
from predgap._model.rounding import fields_of_rows
from predgap.loaders.combining import Member, combined


def stump(threshold: float = 0.5, **options: Any) -> Ensemble:
    given = {
        "root": [0],
        "feature": [0, -1, -1],
        "threshold": [threshold, 0, 0],
        "left": [1, -1, -1],
        "right": [2, -1, -1],
        "default_left": [True, False, False],
        "value": [[0.0], [1.0], [3.0]],
        "target": [0],
        "bias": [10.0],
        "n_features": 2,
    }
    return Ensemble(**given | options)


def single(**reading: Any) -> Ensemble:
    """The stump of a library that rounds rows to float32."""
    return replace(stump(), **fields_of_rows(np.float32, np.array([0.5, 0.0, 0.0]), **reading))


def forest(rng: np.random.Generator, n_outputs: int, *, vectors: bool, n_trees: int = 4) -> Ensemble:
    """Trees of two splits, with leaves that are vectors or single numbers."""
    shape = np.tile([[0, 1, 2], [1, 3, 4], [-1, -1, -1], [-1, -1, -1], [-1, -1, -1]], (n_trees, 1))
    inner = shape[:, 0] >= 0
    first = np.repeat(5 * np.arange(n_trees), 5)
    return Ensemble(
        root=5 * np.arange(n_trees),
        feature=np.where(inner, rng.integers(0, 2, len(shape)), -1),
        threshold=rng.normal(size=len(shape)).round(1),
        left=np.where(inner, shape[:, 1] + first, -1),
        right=np.where(inner, shape[:, 2] + first, -1),
        default_left=rng.random(len(shape)) < 0.5,
        value=rng.normal(size=(len(shape), n_outputs if vectors else 1)),
        target=np.full(n_trees, -1) if vectors and n_outputs > 1 else np.arange(n_trees) % n_outputs,
        bias=rng.normal(size=n_outputs),
        n_features=2,
    )


# ---- sums ----


@given(
    seed=st.integers(0, 2**32 - 1),
    n_outputs=st.integers(1, 3),
    kinds=st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans()), min_size=1, max_size=3),
)
def test_a_combination_is_the_sum_of_its_members(
    seed: int, n_outputs: int, kinds: list[tuple[int, bool, bool]]
) -> None:
    """Each member has some outputs, leaves that are vectors or not, and a matrix that mixes them or not."""
    rng = np.random.default_rng(seed)
    members = []
    for own, vectors, mixes in kinds:
        matrix = rng.normal(size=(n_outputs, own)) * (rng.random((n_outputs, own)) < 0.8)
        if not mixes:
            matrix *= np.arange(n_outputs)[:, None] == rng.integers(0, n_outputs, own)
        members.append(Member("a member", forest(rng, own, vectors=vectors), matrix))
    bias = rng.normal(size=n_outputs)
    rows = rng.normal(size=(50, 2)).round(1)  # some are at thresholds
    rows[rng.random(rows.shape) < 0.1] = np.nan
    own = [m.ensemble.predict(rows).reshape(len(rows), -1) @ m.matrix.T for m in members]
    found = combined(members, bias, "a sum").predict(rows).reshape(len(rows), -1)
    # A dozen roundings of numbers whose sizes are of the order of 10.
    np.testing.assert_allclose(found, bias + sum(own), rtol=0, atol=1e-13)


def test_leaves_stay_single_numbers_where_each_tree_adds_to_one_output() -> None:
    rng = np.random.default_rng(0)
    one, two = forest(rng, 1, vectors=False), forest(rng, 2, vectors=False)
    apart = combined(
        [Member("a", one, np.eye(3)[:, :1]), Member("b", two, np.eye(3)[:, 1:])], np.zeros(3), ""
    )
    assert apart.value.shape[1] == 1
    assert apart.target.tolist() == [0] * 4 + [1, 2, 1, 2]
    mixed = combined([Member("b", two, np.ones((2, 2)))], np.zeros(2), "")
    assert mixed.value.shape[1] == 2


def test_sets_of_categories_keep_their_nodes() -> None:
    def member(*codes: int) -> Ensemble:
        levels = Categories([0, 1, 2], ("x", "y", "z"))
        sets = {"category_set": [0, -1, -1], "set_begin": [0, len(codes)], "set_code": codes}
        return stump(categories=(levels, None), **sets)

    a, b = member(0, 2), member(1)
    both = combined([Member("a", a, np.eye(1)), Member("b", b, np.eye(1) * 10)], np.zeros(1), "both")
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [np.nan, 0.0]])
    np.testing.assert_array_equal(both.predict(rows), a.predict(rows) + 10 * b.predict(rows))


# ---- members that read rows differently ----


def sum_of(a: Ensemble, b: Ensemble) -> Ensemble:
    return combined([Member("a", a, np.eye(1)), Member("b", b, np.eye(1))], np.zeros(1), "a + b")


def test_flags_and_names_are_those_of_all() -> None:
    named = stump(feature_names=("x y", "z"))
    both = sum_of(single(accepts_infinity=False), sum_of(stump(largest=1e300), named))
    assert both.largest == np.nextafter(2.0**128 - 2.0**103, 0.0)
    assert both.feature_names == ("x y", "z")
    assert sum_of(named, stump(feature_names=("x_y", "z"))).feature_names == (
        "x y",
        "z",
    )  # as LightGBM stores


SET: dict[str, Any] = {"category_set": [0, -1, -1], "set_begin": [0, 1], "set_code": [0]}
LEVELS = Categories([0, 1])


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        (stump(), stump(n_features=3), "a and b have 2 and 3 features"),
        (stump(feature_names=("x", "y")), stump(feature_names=("y", "x")), "another order"),
        (stump(feature_names=("x", "y")), stump(feature_names=("x", "z")), "name their features differently"),
        (stump(), stump(missing=0.0), "different values for missing: nan and 0$"),
        (single(missing=0.5), stump(missing=0.5), "missing: 0.49999998\\d+ to 0.5\\d+ and 0.5"),
        (stump(), stump(categories=(LEVELS, None), **SET), "different categories"),
        (
            stump(categories=(LEVELS, None), **SET),
            stump(categories=(Categories([0, 2]), None), **SET),
            "different categories",
        ),
        (
            stump(categories=(LEVELS, None), **SET),
            stump(categories=(LEVELS, None), unseen_is_missing=True, **SET),
            "different categories",
        ),
    ],
)
def test_members_that_read_rows_differently_are_refused(a: Ensemble, b: Ensemble, says: str) -> None:
    with pytest.raises(UnsupportedModelError, match=says):
        sum_of(a, b)


def test_a_member_with_other_outputs_is_refused() -> None:
    two = replace(stump(), bias=np.zeros(2), target=np.array([1]))
    with pytest.raises(UnsupportedModelError, match="b has 2 outputs, expected 1"):
        sum_of(stump(), two)
