"""What is drawn: data, labels, legends; not pixels."""

from __future__ import annotations

import io
import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from predgap import Discrete, Explainer, Noise, Normal, PerFeature, Ranking, Relative, Sweep, plots
from predgap.errors import DependencyError, NoiseError, ShapeError
from predgap.plots._drawing import noise_name, style

mpl.use("Agg")

HOSTILE = ("$a_b$", "x^2 $\\frac{", "line\nbreak", "\x1b[31mred", "<img onerror=alert(1)>")
SHOWN = (r"\$a_b\$", "x^2 \\$\\frac{", r"line\nbreak", r"\x1b[31mred", "<img onerror=alert(1)>")


def sweep_of(scores, strengths=(0.1, 0.3, 1.0), names=("greedy", "SHAP")):
    scores = np.asarray(scores, dtype=float)
    s, m, _ = scores.shape
    ones = np.ones((s, m, m))
    return Sweep(strengths, names, scores, ones, ones, ones[0], ones[0])


def greedy(d=5, names=None, **known):
    scores = np.linspace(2.0, -0.5, d)[None]
    known = {"method": "greedy", "estimator": "exact"} | known
    return Ranking(np.arange(d)[None], scores=scores, feature_names=names, **known)


DRAW = {
    "gap_curves": lambda **more: plots.gap_curves({"a": [[1.0, 2.0]]}, random=[0.5, 2], best=[1, 2], **more),
    "leaderboard": lambda **more: plots.leaderboard(["a"], [1.0], [0.5], [1.5], random=0, best=2, **more),
    "swarm": lambda **more: plots.swarm([[1.0, 2.0]], [[1.0, "x"]], ["a", "b"], rows=[0], **more),
    "ladder": lambda **more: plots.ladder(greedy(), 0, **more),
    "agreement": lambda **more: plots.agreement(["a", "b"], [[1, 0.5], [0.5, 1]], **more),
    "by_strength": lambda **more: plots.by_strength(sweep_of([[[1.0], [2.0]]] * 3), **more),
    "differences": lambda **more: plots.differences([0.0, 1.0], expected=[1.0, 2.0], **more),
    "drivers": lambda **more: plots.drivers([[1.0, 2.0]], ["a", "b"], changed=[True], **more),
}


@pytest.fixture
def ax():
    return Figure(layout="constrained").subplots()


@pytest.fixture(autouse=True)
def _no_open_figures():
    yield
    pyplot.close("all")


def saved(ax):
    """Draws everything; mathematics that does not parse, or a warning, would raise here."""
    ax.figure.savefig(io.BytesIO(), format="png")
    return ax


def texts(ax):
    return [text.get_text() for text in ax.texts]


def ticks(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# ---- all plots -----------------------------------------------------------------------------------


def test_every_plot_is_tried_here():
    assert set(DRAW) == set(plots.__all__)


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_axes_are_used_and_nothing_else_is_touched(draw, ax):
    mine = pyplot.figure().subplots()
    settings = dict(mpl.rcParams)
    assert draw(ax=ax) is ax
    saved(ax)
    assert pyplot.get_fignums() == [mine.figure.number]
    assert pyplot.gca() is mine
    assert dict(mpl.rcParams) == settings
    assert ax.get_title() == ""


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_without_axes_there_is_one_new_figure(draw):
    made = draw()
    assert pyplot.get_fignums() == [made.figure.number]
    saved(made)


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_the_noise_is_named(draw, ax):
    draw(ax=ax, noise=Relative([[1.0], [2.0]], 0.3))
    assert texts(ax)[-1].startswith("noise: Relative, strength 0.3")
    other = Figure().subplots()
    draw(ax=other, noise="$mine$\n")
    assert texts(other)[-1].startswith(r"noise: \$mine\$\n")
    assert not any("noise" in text for text in texts(draw(ax=Figure().subplots())))


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_matplotlib_may_be_missing(draw, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DependencyError, match="pip install matplotlib"):
        draw()


class Mine(Noise):
    laws_of = None


def test_a_name_of_a_noise_is_short_and_no_array():
    assert noise_name(Normal(0.3)) == "Normal(0.3)"
    assert noise_name(Normal([0.1] * 500)) == "Normal"
    assert noise_name(Discrete([1.0, 2.0])) == "Discrete"
    assert noise_name(PerFeature({"age": Normal(1.0)})) == "PerFeature({'age': Normal(1.0)})"
    assert noise_name(PerFeature({f"f{j}": Normal(1.0) for j in range(50)})) == "PerFeature"
    Mine.__abstractmethods__ = frozenset()
    assert noise_name(Mine()) == "Mine"
    with pytest.raises(NoiseError, match=r"noise is 0\.3, expected a Noise, its name or None"):
        noise_name(0.3)


def test_fourteen_methods_look_different_without_colour():
    looks = [style(place) for place in range(14)]
    grey = {(look["marker"], look.get("markerfacecolor")) for look in looks}
    assert len(grey) == 14
    assert len({look["color"] for look in looks}) == 7


# ---- gap curves ----------------------------------------------------------------------------------


def test_gap_curves_begin_at_zero_and_name_pgi2(ax):
    plots.gap_curves({"a$": [[1.0, 3.0], [3.0, 5.0]]}, ax=ax)
    (line,) = ax.get_lines()
    assert line.get_xydata().tolist() == [[0, 0], [1, 2], [2, 4]]
    assert legend(ax) == [r"a\$: 3"]
    large = plots.gap_curves({"a": [[1234.0, 3456.0]]}, ax=Figure().subplots())
    assert legend(large) == ["a: 2,345"]


def test_the_band_is_between_random_and_best(ax):
    plots.gap_curves({"a": [[1.0, 3.0]]}, random=[[0.5, 3.0], [1.5, 3.0]], best=[2.0, 3.0], ax=ax)
    (band,) = ax.collections
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()}
    assert corners == {(0, 0), (1, 1), (1, 2), (2, 3)}
    assert legend(ax) == ["a: 2", "best: 2.5", "random: 2"]
    plots.gap_curves({"a": [[1.0, 3.0]]}, best=[2.0, 3.0], ax=(other := Figure().subplots()))
    assert len(other.collections) == 0
    assert len(other.get_lines()) == 2


def test_gap_curves_of_different_length_are_compared_on_the_places_of_all(ax):
    plots.gap_curves({"all": [[1.0, 3.0, 8.0]], "two": [[2.0, 4.0]]}, best=[2.0, 4.0, 8.0], ax=ax)
    assert ax.get_legend().get_title().get_text() == "mean PGI² of 2 places"
    assert legend(ax) == ["all: 2", "two: 3", "best: 3"]


def test_gap_curves_say_how_many_rows_are_left_out(ax):
    plots.gap_curves({"a": [[1.0, 3.0], [np.nan, 5.0]]}, noise="n", ax=ax)
    assert ax.get_lines()[0].get_ydata().tolist() == [0, 1, 3]
    assert texts(ax) == ["noise: n · 1 rows with NaN left out"]


def test_gap_curves_without_rows_or_gaps(ax):
    assert texts(plots.gap_curves({"a": np.empty((0, 3))}, ax=ax)) == ["no rows"]
    assert texts(plots.gap_curves({}, ax=Figure().subplots())) == ["no curves"]
    zero = plots.gap_curves({"a": np.zeros((4, 3))}, ax=Figure().subplots())
    assert zero.get_lines()[0].get_ydata().tolist() == [0, 0, 0, 0]
    saved(zero)
    with pytest.raises(ShapeError, match=r"shape \(3,\); expected \(n, k\)"):
        plots.gap_curves({"a": [1.0, 2.0, 3.0]}, ax=ax)


def test_a_curve_of_200_places_has_few_markers(ax):
    plots.gap_curves({"a": np.ones((2, 200))}, ax=ax)
    assert ax.get_lines()[0].get_markevery() > 10


# ---- scores by strength --------------------------------------------------------------------------


def test_scores_are_shares_of_the_highest_at_a_strength(ax):
    scores = [[[3.0, 5.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]], [[5.0, 5.0], [20.0, 20.0]]]
    plots.by_strength(sweep_of(scores, (1.0, 0.3, 0.1)), noise="n", ax=ax)
    first, second = ax.get_lines()
    assert first.get_xdata().tolist() == second.get_xdata().tolist() == [0.1, 0.3, 1.0]
    np.testing.assert_array_equal(first.get_ydata(), [25, np.nan, 100])
    np.testing.assert_array_equal(second.get_ydata(), [100, np.nan, 25])
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0.1\n20", "0.3\n0", "1\n4"]
    assert legend(ax) == ["greedy", "SHAP"]
    saved(ax)


def test_strengths_without_rows_or_gaps_or_others(ax):
    assert texts(plots.by_strength(sweep_of(np.empty((3, 2, 0))), ax=ax)) == ["no rows"]
    assert texts(plots.by_strength(sweep_of(np.zeros((3, 2, 4))), ax=Figure().subplots())) == [
        "all gaps are 0"
    ]
    one = plots.by_strength(sweep_of(np.ones((1, 2, 4)), (0.3,)), ax=Figure().subplots())
    assert one.get_lines()[0].get_xydata().tolist() == [[0.3, 100]]
    saved(one)


# ---- leaderboard ---------------------------------------------------------------------------------


def test_the_leaderboard_is_sorted_and_each_method_keeps_its_look(ax):
    names, means = ["a", "b", "$c$"], np.array([1.0, 3.0, np.nan])
    marks = ["estimated", "exact", ""]
    plots.leaderboard(names, means, means - 0.5, means + 0.5, random=[0.5, 1.5], best=3.0, marks=marks, ax=ax)
    assert ticks(ax) == ["b", "a", r"\$c\$"]
    assert texts(ax) == ["3  (100 %)", "1  (0 %)  estimated", "no score"]
    lines = ax.get_lines()
    assert lines[0].get_xdata().tolist() == [2.5, 3.5]
    assert lines[1].get_xydata().tolist() == [[3.0, 0.0]]
    assert lines[1].get_marker() == style(1)["marker"]
    assert to_hex(lines[1].get_markerfacecolor()) != "#ffffff"
    assert lines[3].get_xydata().tolist() == [[1.0, 1.0]]
    assert to_hex(lines[3].get_markerfacecolor()) == "#ffffff"  # it is an estimate
    (top,) = ax.child_axes
    assert [text.get_text() for text in top.get_xticklabels()] == ["random", "best"]
    assert top.get_xticks().tolist() == [1.0, 3.0]
    saved(ax)


def test_a_leaderboard_without_a_scale(ax):
    plots.leaderboard(["a", "b"], [1.0, 1.0], [np.nan] * 2, [np.nan] * 2, ax=ax)
    assert ticks(ax) == ["a", "b"]
    assert texts(ax) == ["1", "1"]
    same = plots.leaderboard(["a"], [1.0], [1.0], [1.0], random=1.0, best=1.0, ax=Figure().subplots())
    assert texts(same) == ["1"]
    saved(same)
    assert texts(plots.leaderboard([], [], [], [], ax=Figure().subplots())) == ["no rankings"]


def test_a_leaderboard_of_other_lengths_is_refused(ax):
    with pytest.raises(ShapeError, match=r"lows has shape \(1,\), expected \(2,\)"):
        plots.leaderboard(["a", "b"], [1, 2], [1], [1, 2], ax=ax)
    with pytest.raises(ShapeError, match="1 marks for 2 names"):
        plots.leaderboard(["a", "b"], [1, 2], [1, 2], [1, 2], marks=["exact"], ax=ax)


# ---- heat maps -----------------------------------------------------------------------------------


def test_agreement_writes_numbers_and_hatches_what_is_unknown(ax):
    plots.agreement(HOSTILE[:3], [[1, 0.25, np.nan], [-0.004, 1, -0.5], [np.nan, 0, 1]], ax=ax)
    assert texts(ax) == ["1.00", "0.25", "0.00", "1.00", "−0.50", "0.00", "1.00"]
    assert ticks(ax) == [text.get_text() for text in ax.get_xticklabels()] == [*SHOWN[:3]]
    assert [(patch.get_xy(), patch.get_hatch()) for patch in ax.patches] == [
        ((1.5, -0.5), "////"),
        ((-0.5, 1.5), "////"),
    ]
    assert ax.images[0].get_clim()[0] == -1.0
    saved(ax)
    positive = plots.agreement(["a"], [[1.0]], ax=Figure().subplots())
    assert positive.images[0].get_clim()[0] == 0.0
    assert texts(plots.agreement([], np.empty((0, 0)), ax=Figure().subplots())) == ["no rankings"]
    with pytest.raises(ShapeError, match=r"the matrix has shape \(1, 1\), expected \(2, 2\)"):
        plots.agreement(["a", "b"], [[1.0]], ax=ax)


def test_a_score_just_below_the_best_is_not_called_100_percent():
    drawn = plots.leaderboard(
        ["a", "b"], [2.0, 1.999], [1, 1], [2, 2], random=1, best=2, ax=Figure().subplots()
    )
    assert texts(drawn)[:2] == ["2  (100 %)", "2  (99 %)"]


def test_hostile_names_are_drawn_as_they_are(ax):
    plots.ladder(greedy(names=HOSTILE), 0, ax=ax)
    assert ticks(saved(ax)) == [*SHOWN]


def test_a_real_model(ax):
    from sklearn.datasets import load_diabetes
    from sklearn.ensemble import RandomForestRegressor

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    explainer = Explainer(RandomForestRegressor(5, max_depth=3, random_state=0).fit(X, y), X)
    rows = X[:12]
    ranking, single = explainer.rank(rows), explainer.rank(rows, "single")
    plots.ladder(ranking, 3, values=rows, noise=explainer.noise, ax=ax)
    bars = ax.patches
    assert float(bars[-1].get_x() + bars[-1].get_width()) == pytest.approx(
        explainer.gap(rows, list(X.columns))[3], rel=1e-6
    )
    assert "exact" in texts(ax)[-1] or "bounded" in texts(ax)[-1]
    shown = plots.swarm(single.scores, rows, single.feature_names, ax=Figure().subplots())
    assert set(ticks(shown)) == set(X.columns)
    saved(shown)
