"""What the tests of rankings share: orders, names, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from predgap.errors import RankingError

NAMES = ("age", "sex", "bmi")
MATRICES = hnp.arrays(
    np.float64, st.tuples(st.integers(0, 5), st.integers(1, 6)), elements=st.floats(-9, 9, width=16)
)
CUBE = np.array([[[1.0, 9.0], [2.0, 3.0], [3.0, 5.0]]])  # one row, three features, two outputs


def orders(min_rows=0):
    def rows(d):
        return st.lists(st.permutations(range(d)), min_size=min_rows, max_size=5).map(
            lambda r: np.array(r, dtype=int).reshape(-1, d)
        )

    return st.integers(1, 6).flatmap(rows)


@st.composite
def partials(draw, min_rows=0):
    """An order (n, d), and a number of places from 1 to d."""
    order = draw(orders(min_rows))
    return order, draw(st.integers(1, order.shape[1]))


def names_of(order):
    return tuple(f"name{j}" for j in range(order.shape[1]))


def refused(words, function, *args, **kwargs):
    with pytest.raises(RankingError) as caught:
        function(*args, **kwargs)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def explanation(values, **kwargs):
    shap = pytest.importorskip("shap")
    return shap.Explanation(np.asarray(values), **kwargs)
