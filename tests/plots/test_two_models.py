"""Plots of the difference of two models: what is drawn, not pixels."""

from __future__ import annotations

import io

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from predgap import plots
from predgap.errors import ShapeError

mpl.use("Agg")


@pytest.fixture
def ax() -> Axes:
    return Figure(layout="constrained").subplots()


def saved(ax: Axes) -> Axes:
    ax.figure.savefig(io.BytesIO(), format="png")
    return ax


def legend(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def ticks(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_yticklabels()]


def test_differences_count_rows_and_draw_the_mean_and_both_roots(ax: Axes) -> None:
    plots.differences([3.0, -1.0, np.nan, 1.0, 1.0], expected=[9.0, 9.0, 9.0, 9.0, 9.0], noise="n", ax=ax)
    assert sum(bar.get_height() for bar in ax.patches) == 4
    lines = [line.get_xdata()[0] for line in ax.get_lines()]
    assert lines == pytest.approx([0.0, 1.0, np.sqrt(3.0), -np.sqrt(3.0), 3.0, -3.0])
    assert legend(saved(ax)) == ["mean 1", "RMS 1.73", "RMS under noise 3"]
    assert texts(ax) == ["noise: n · 1 row with NaN left out"]


def test_lines_of_differences_are_told_apart_without_colour(ax: Axes) -> None:
    plots.differences([1.0, 2.0], expected=[4.0, 4.0], ax=ax)
    looks = {(line.get_linestyle(), line.get_linewidth()) for line in ax.get_lines()}
    assert len(looks) == 4  # zero, mean, RMS, RMS under noise


def test_differences_without_rows_or_all_equal(ax: Axes) -> None:
    assert texts(plots.differences([], ax=ax)) == ["no rows"]
    equal = plots.differences(np.zeros(50), ax=Figure().subplots())
    assert sum(bar.get_height() for bar in saved(equal).patches) == 50
    with pytest.raises(ShapeError, match="choose one output"):
        plots.differences(np.zeros((3, 2)), ax=ax)
    with pytest.raises(ShapeError, match="expected squares"):
        plots.differences([1.0], expected=[1.0, 2.0], ax=ax)


def test_drivers_are_shares_of_mean_gaps(ax: Axes) -> None:
    gaps = [[1.0, 3.0, 0.0], [1.0, 1.0, 2.0]]
    plots.drivers(gaps, ["age", "$b", "c"], changed=[False, True], ax=ax)
    assert ticks(saved(ax)) == [r"\$b", "age", "c"]
    assert [bar.get_width() for bar in ax.patches] == [50.0, 25.0, 25.0]
    assert ax.collections[0].get_offsets()[:, 0].tolist() == [25.0, 25.0, 50.0]
    assert legend(ax) == ["the row that changed most", "all rows"]
    assert texts(ax) == ["50.0 %", "25.0 %", "25.0 %"]


def test_drivers_of_many_features_say_how_many_more_there_are(ax: Axes) -> None:
    plots.drivers(np.arange(200.0)[None], max_features=3, ax=ax)
    assert ticks(saved(ax)) == ["f199", "f198", "f197", "and 197 more"]
    assert ax.get_legend() is None


def test_drivers_of_nothing(ax: Axes) -> None:
    assert texts(plots.drivers(np.zeros((4, 2)), ax=ax)) == ["no feature moves the difference"]
    assert texts(plots.drivers(np.zeros((0, 2)), ax=Figure().subplots())) == ["no rows"]
    with pytest.raises(ShapeError, match="3 feature names for 2 columns"):
        plots.drivers(np.zeros((4, 2)), ["a", "b", "c"], ax=ax)
    with pytest.raises(ShapeError, match="changed has shape"):
        plots.drivers(np.zeros((4, 2)), changed=[True], ax=ax)
