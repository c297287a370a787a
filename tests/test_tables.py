"""Small tables: escaped, aligned, cut; and the results that are shown as such."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predgap import Cost, Explainer, GapEstimate, Normal, Ranking, Sweep
from predgap._tables import cell_text, html_table, shortened, text_table

CELLS = st.one_of(st.text(max_size=60), st.floats(), st.integers())


class Cells(HTMLParser):
    """The text of each cell, the longer text that it stands for, and the tags that occur."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.tags, self.caption, self.inside = [], set(), "", ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.inside = tag
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append(["", dict(attrs).get("title")])

    def handle_data(self, data):
        if self.inside in ("td", "th"):
            self.rows[-1][-1][0] += data
        elif self.inside == "caption":
            self.caption += data

    def handle_endtag(self, tag):
        self.inside = ""


@given(st.data(), st.integers(1, 4), st.integers(0, 4), st.text(min_size=1, max_size=30))
def test_any_text_is_a_cell_and_nothing_else(data, n_columns, n_rows, caption):
    line = st.lists(CELLS, min_size=n_columns, max_size=n_columns)
    head, rows = data.draw(line), data.draw(st.lists(line, min_size=n_rows, max_size=n_rows))
    read = Cells(html_table(head, rows, caption))
    assert read.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    for shown, given_row in zip(read.rows, [head, *rows], strict=True):
        for (text, whole), cell in zip(shown, given_row, strict=True):
            assert text == shortened(cell_text(cell))
            assert (whole or text) == cell_text(cell)
    assert len(text_table(head, rows, caption).split("\n")) == n_rows + 2


@given(st.text(max_size=100), st.integers(3, 60))
def test_a_text_is_cut_in_the_middle(text, longest):
    cut = shortened(text, longest)
    assert len(cut) == min(len(text), longest)
    first, _, last = cut.partition("…") if len(text) > longest else (text, "", text)
    assert text.startswith(first)
    assert text.endswith(last)


def test_numbers_are_on_the_right():
    table = text_table(["name", "n", "x", "mixed"], [["a", 1, 0.123456, 1], ["bb", 100, 12.0, "?"]])
    assert table.split("\n") == ["name    n       x  mixed", "a       1  0.1235  1", "bb    100      12  ?"]
    page = html_table(["name", "n"], [["a", 1]])
    assert '<td style="text-align: left">a</td><td style="text-align: right">1</td>' in page
    assert "caption" not in page


@pytest.fixture(scope="module")
def explainer():
    from sklearn.tree import DecisionTreeRegressor

    X = np.random.default_rng(0).normal(size=(40, 7))
    return Explainer(DecisionTreeRegressor(max_depth=4).fit(X, X.sum(axis=1)), Normal(0.5))


def test_an_estimate_is_a_table_of_its_first_rows(explainer):
    found = explainer.estimate(np.zeros((8, 7)), [0, 1], "mc", n_samples=64)
    lines = repr(found).split("\n")
    assert lines[0] == "GapEstimate of 8 rows (mc); the first 5 rows"
    assert lines[1].split() == ["row", "value", "standard", "error", "error", "bound", "method", "samples"]
    assert lines[2].split() == [
        "0",
        f"{found.value[0]:.4g}",
        f"{found.standard_error[0]:.4g}",
        "inf",
        "mc",
        "64",
    ]
    assert len(lines) == 7
    assert len(Cells(found._repr_html_()).rows) == 6


def test_an_estimated_curve_shows_its_first_places(explainer):
    found = explainer.approximate(method="pruned").curve(np.zeros((2, 7)), np.arange(7))
    lines = repr(found).split("\n")
    assert lines[0] == f"GapEstimate of 2 rows and 7 places ({', '.join(np.unique(found.method))})"
    assert "place 5  …" in lines[1]
    assert lines[2].split()[1:6] == [f"{value:.4g}" for value in found.value[0, :5]]
    assert len(lines) == 4


def test_an_estimate_of_different_methods_and_of_nothing():
    some = np.array([1.0, 2.0])
    found = GapEstimate(some, some, some, np.array(["exact", "bounded"]), np.zeros(2, dtype=np.int64))
    assert repr(found).startswith("GapEstimate of 2 rows (bounded, exact)\n")
    none = np.empty(0)
    empty = GapEstimate(none, none, none, none.astype(str), none.astype(np.int64))
    assert repr(empty).startswith("GapEstimate of 0 rows\n")
    assert len(Cells(empty._repr_html_()).rows) == 1


def test_a_cost_is_a_table():
    cost = Cost("bounded", 123.456, 7.0, refused=True)
    assert repr(cost).split("\n")[2].split() == ["bounded", "123.5", "7", "yes"]
    assert [text for text, _ in Cells(cost._repr_html_()).rows[1]] == ["bounded", "123.5", "7", "yes"]


def test_a_sweep_is_a_table_with_escaped_names():
    ones = np.ones((1, 2, 2))
    sweep = Sweep((0.3,), ("<b>", "a"), np.array([[[1.0], [2.0]]]), ones, ones, ones[0], ones[0])
    read = Cells(sweep._repr_html_())
    assert read.caption == "Sweep of 1 row: mean PGI² by strength of the noise"
    assert [[text for text, _ in row] for row in read.rows] == [
        ["strength", "<b>", "a", "best"],
        ["0.3", "1", "2", "a"],
    ]


def test_a_ranking_in_jupyter_has_the_whole_long_name():
    long = "sum_of_all_payments_in_the_last_30_days_without_refunds"
    (_, ((_, _), (text, whole))) = Cells(Ranking([[0]], feature_names=[long])._repr_html_()).rows
    assert whole == long
    assert len(text) < len(long)
