"""The swarm of single gaps, and one row's ladder of gains."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

from predgap import Ranking, plots
from predgap.errors import RankingError, ShapeError, TableError
from predgap.plots._rows import _spread

NAMES = ("age", "bmi", "sex", "job")


@pytest.fixture
def ax():
    return Figure(layout="constrained").subplots()


def saved(ax):
    ax.figure.savefig(io.BytesIO(), format="png")
    return ax


def texts(ax):
    return [text.get_text() for text in ax.texts]


def ticks(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def points(ax, at):
    """The horizontal coordinates of the points of feature number `at` from the top, ascending."""
    found = [xy for group in ax.collections for xy in group.get_offsets().tolist()]
    return sorted(x for x, y in found if abs(y - at) < 0.5)


# ---- swarm ---------------------------------------------------------------------------------------


def test_a_swarm_has_a_point_for_each_row_and_feature(ax):
    gaps = np.random.default_rng(0).random((30, 4)) * [1, 3, 2, 0]
    plots.swarm(gaps, np.ones((30, 4)), NAMES, ax=ax)
    order = np.argsort(-gaps.mean(axis=0))
    assert ticks(ax) == [NAMES[j] for j in order]
    for at, j in enumerate(order):
        assert points(ax, at) == sorted(gaps[:, j])
    saved(ax)


def test_the_axis_is_scaled_by_the_root(ax):
    plots.swarm([[4.0], [1.0]], [[0], [1]], ax=ax)
    at = ax.transData.transform([[0, 0], [1, 0], [4, 0]])[:, 0]
    assert at[2] - at[0] == pytest.approx(2 * (at[1] - at[0]))


def test_points_of_equal_gaps_do_not_overlap():
    offsets = _spread(np.full(50, 0.3))
    assert len(set(offsets)) == 50
    assert np.abs(offsets).max() <= 0.4
    assert _spread(np.linspace(0, 1, 20)).tolist() == [0.0] * 20
    assert _spread(np.empty(0)).tolist() == []
    assert np.isfinite(_spread(np.array([np.nan, 0.5, np.nan]))).all()


def test_colours_go_from_low_to_high(ax):
    values = np.array([[0.0], [1.0], [2.0], [np.nan], [np.inf], [-np.inf]])
    plots.swarm(np.arange(6.0)[:, None], values, ["a"], ax=ax)
    numbers, missing = ax.collections
    colour = dict(zip(numbers.get_offsets()[:, 0].tolist(), numbers.get_array().tolist(), strict=True))
    assert colour[0] < colour[1] < colour[2]
    assert (colour[4], colour[5]) == (1.0, 0.0)
    assert missing.get_offsets()[:, 0].tolist() == [3.0]
    assert texts(ax)[0] == "× missing"
    assert len(ax.child_axes) == 1  # the colour bar


@pytest.mark.parametrize("values", [np.full((5, 1), 7.0), np.full((5, 1), np.nan), np.eye(5)[:, :1]])
def test_columns_that_hardly_change(ax, values):
    plots.swarm(np.ones((5, 1)), values, ["a"], ax=ax)
    assert len(points(saved(ax), 0)) == 5
    colours = ax.collections[0].get_array()
    assert ((colours >= 0) & (colours <= 1)).all()
    assert len(set(colours)) == len(set(values[~np.isnan(values)]))


TABLES = {
    "pandas": pd.DataFrame,
    "categories": lambda table: pd.DataFrame(table).astype({"job": "category"}),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "list": lambda table: [list(row) for row in zip(*table.values(), strict=True)],
    "array": lambda table: np.array(list(zip(*table.values(), strict=True)), dtype=object),
}


@pytest.mark.parametrize("library", TABLES)
def test_categories_have_markers_that_their_label_shows(ax, library):
    jobs = ["$b", "a", "$b", "c", "d", "e", None, "a", "$b", "c"]
    table = TABLES[library]({"job": jobs, "age": list(range(10))})
    plots.swarm(np.arange(20.0).reshape(10, 2), table, ["job", "age"], ax=ax)
    key = r"● \$b  ■ a  ◆ c  ▲ 2 others  × missing"
    assert [text for text in texts(ax) if text] == [key]
    at = ticks(ax).index("job")
    assert points(ax, at) == list(np.arange(0.0, 20, 2))
    sizes = [len(group.get_offsets()) for group in ax.collections]
    of_jobs, of_age = ([3, 2, 2, 2, 1], [10, 0])
    assert sizes == (of_jobs + of_age if at == 0 else of_age + of_jobs)
    saved(ax)


def test_columns_of_a_frame_are_found_by_name(ax):
    gaps = np.array([[1.0, 0.0], [2.0, 0.0]])
    frame = pd.DataFrame({"b": [1.0, 1.0], "a": [0.0, 9.0]})
    plots.swarm(gaps, frame, ["a", "b"], ax=ax)
    assert ticks(ax) == ["a", "b"]
    assert ax.collections[0].get_array().tolist() == [0.0, 1.0]
    own = plots.swarm(gaps[:, ::-1], frame, ax=Figure().subplots())
    assert ticks(own) == ["a", "b"]  # by their gaps
    arrow = plots.swarm(gaps[:, ::-1], pa.Table.from_pandas(frame), ax=Figure().subplots())
    assert ticks(arrow) == ["a", "b"]


def test_rows_can_be_marked(ax):
    gaps = np.arange(12.0).reshape(6, 2)
    plots.swarm(gaps, np.ones((6, 2)), ["a", "b"], rows=[4, -1], ax=ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["row 4", "row 5"]
    marks = [(line.get_marker(), line.get_xdata()[0]) for line in ax.get_lines()]
    assert [x for _, x in marks] == [9.0, 11.0, 8.0, 10.0]
    assert marks[0][0] != marks[1][0]
    frame = pd.DataFrame(np.ones((6, 2)), index=list("pqrst$"))
    named = plots.swarm(gaps, frame, rows=[4, -1], ax=Figure().subplots())
    assert [text.get_text() for text in named.get_legend().get_texts()] == ["row t", r"row \$"]
    with pytest.raises(ShapeError, match="row 6 cannot be marked: there are 6 rows"):
        plots.swarm(gaps, np.ones((6, 2)), rows=[6], ax=ax)


def test_two_hundred_features_with_long_names(ax):
    names = [f"sum_of_all_payments_in_the_last_{j}_days_without_refunds" for j in range(200)]
    gaps = np.tile(np.arange(200.0)[::-1], (3, 1))
    plots.swarm(gaps, np.ones((3, 200)), names, ax=ax)
    shown = ticks(ax)
    assert len(shown) == 21
    assert shown[-1] == "and 180 more"
    assert len(set(shown)) == 21
    assert max(map(len, shown)) < 40
    saved(ax)
    tall, short = (plots.swarm(gaps, np.ones((3, 200)), names, max_features=k).figure for k in (20, 5))
    assert tall.get_figheight() > short.get_figheight()


def test_many_rows_are_thinned_and_it_is_said(ax):
    gaps = np.random.default_rng(0).random((5000, 1))
    plots.swarm(gaps, gaps, ["a"], rows=[1], noise="n", ax=ax)
    drawn = len(points(ax, 0))
    assert 1900 < drawn <= 2001
    assert gaps[1, 0] in points(ax, 0)
    assert texts(ax)[-1] == f"noise: n · {drawn} of 5000 rows drawn"


def test_a_swarm_of_nothing(ax):
    assert texts(plots.swarm(np.empty((0, 2)), np.empty((0, 2)), ax=ax)) == ["no rows"]
    assert texts(plots.swarm(np.empty((2, 0)), np.empty((2, 0)), ax=Figure().subplots())) == ["no features"]
    zero = saved(plots.swarm(np.zeros((3, 2)), np.ones((3, 2)), ax=Figure().subplots()))
    assert points(zero, 0) == [0.0] * 3
    one = saved(plots.swarm([[1.0]], [[2.0]], ax=Figure().subplots()))
    assert points(one, 0) == [1.0]
    unknown = plots.swarm([[np.nan, 1.0], [np.inf, 2.0]], np.ones((2, 2)), ["a", "b"], ax=Figure().subplots())
    assert ticks(unknown) == ["b", "a"]
    assert points(unknown, 1) == []
    assert texts(unknown)[-1] == "2 gaps that are no numbers not drawn"


def test_what_does_not_fit_is_refused(ax):
    with pytest.raises(ShapeError, match=r"gaps has shape \(2,\)"):
        plots.swarm([1.0, 2.0], [[1.0], [2.0]], ax=ax)
    with pytest.raises(ShapeError, match="3 feature names for 2 columns"):
        plots.swarm(np.ones((2, 2)), np.ones((2, 2)), list("abc"), ax=ax)
    with pytest.raises(ShapeError, match="has 3 rows, expected 2"):
        plots.swarm(np.ones((2, 2)), np.ones((3, 2)), ax=ax)
    with pytest.raises(TableError, match="X lacks 1 column: 'b'"):
        plots.swarm(np.ones((2, 2)), pd.DataFrame({"a": [1, 2], "c": [1, 2]}), ["a", "b"], ax=ax)


# ---- ladder --------------------------------------------------------------------------------------


def ranking(**known):
    fields = {"scores": [[0.5, 2.0, -1.0, 0.0]], "feature_names": NAMES, "method": "greedy"} | known
    return Ranking([[1, 0, 3, 2]], **fields)


def bars(ax):
    return [(float(bar.get_x()), float(bar.get_width())) for bar in ax.patches]


def test_each_bar_begins_where_the_one_before_ends(ax):
    plots.ladder(ranking(estimator="exact"), 0, noise="n", ax=ax)
    assert bars(ax) == [(0.0, 2.0), (2.0, 0.5), (2.5, 0.0), (2.5, -1.0)]
    assert ticks(ax) == ["bmi", "age", "job", "sex"]
    assert texts(ax) == ["+2", "+0.5", "+0", "−1", "noise: n · exact"]
    assert [bar.get_hatch() for bar in ax.patches] == [None, None, None, "////"]
    saved(ax)


def test_estimated_gains_are_marked(ax):
    plots.ladder(ranking(estimator="qmc"), 0, ax=ax)
    assert texts(ax) == ["≈ +2", "≈ +0.5", "≈ +0", "≈ −1", "estimated (qmc)"]


def test_other_rankings_need_a_curve(ax):
    for known in ({"method": "attributions"}, {"method": "single"}, {"method": None}, {"scores": None}):
        with pytest.raises(RankingError, match=r"not gains .*pass curve=explainer\.curve"):
            plots.ladder(ranking(**known), 0, ax=ax)
    other = ranking(method="attributions", scores=[[9.0, 9.0, 9.0, 9.0]])
    for curve in ([1.0, 3.0, 2.0, 4.0], [[1.0, 3.0, 2.0, 4.0]]):
        drawn = plots.ladder(other, 0, curve=curve, ax=Figure().subplots())
        assert bars(drawn) == [(0.0, 1.0), (1.0, 2.0), (3.0, -1.0), (2.0, 2.0)]
    with pytest.raises(ShapeError, match=r"curve has shape \(2,\), expected \(4,\) or \(1, 4\)"):
        plots.ladder(other, 0, curve=[1.0, 2.0], ax=ax)


def test_values_are_written_beside_the_names(ax):
    plots.ladder(ranking(), 0, values=[63, None, "$m", float("nan")], ax=ax)
    assert ticks(ax) == ["bmi = missing", "age = 63", "job = missing", r"sex = \$m"]
    frame = pd.DataFrame({"job": ["x"], "sex": ["m"], "bmi": [31.456789], "age": [63]})
    by_name = plots.ladder(ranking(), 0, values=frame, ax=Figure().subplots())
    assert ticks(by_name) == ["bmi = 31.46", "age = 63", "job = x", "sex = m"]
    with pytest.raises(ShapeError, match=r"values has shape \(3,\), expected \(4,\) or \(1, 4\)"):
        plots.ladder(ranking(), 0, values=[1, 2, 3], ax=ax)


def test_many_places_end_in_one_bar(ax):
    long = Ranking([np.arange(200)], scores=np.full((1, 200), 0.5), method="greedy")
    plots.ladder(long, 0, ax=ax)
    assert ticks(ax)[-1] == "and 180 more"
    assert bars(ax)[-1] == (10.0, 90.0)
    saved(ax)


def test_a_row_is_named_by_its_label(ax):
    two = Ranking([[0], [0]], scores=[[1.0], [2.0]], method="greedy", index=["p", "q$"])
    plots.ladder(two, -1, ax=ax)
    assert ax.get_xlabel() == r"gap PG² of row q\$, place by place"
    assert bars(ax) == [(0.0, 2.0)]
    with pytest.raises(ShapeError, match="row 2 does not exist; the ranking has 2 rows"):
        plots.ladder(two, 2, ax=ax)


def test_ladders_without_gaps_or_features(ax):
    saved(plots.ladder(Ranking([[0, 1]], scores=[[0.0, 0.0]], method="greedy"), 0, ax=ax))
    assert bars(ax) == [(0.0, 0.0), (0.0, 0.0)]
    none = Ranking(np.empty((1, 0), dtype=int), scores=np.empty((1, 0)), method="greedy")
    assert texts(plots.ladder(none, 0, ax=Figure().subplots())) == ["no features"]
