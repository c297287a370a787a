"""Pictures of several panels, drawn twice: for wide screens, and with a panel per line for narrow ones.

The same numbers give the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from predgap.errors import DependencyError
from reproduction.report.page import Figure
from predgap.plots._drawing import label, style, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Panel = tuple[str, Callable[[Any], None]]  # a title, and what draws on the axes

AHEAD: Final = "#0072B2"  # greedy's colour, as in all plots
BEHIND: Final = "#D55E00"  # SHAP's
NEITHER: Final = "#767676"

_WIDTH: Final = 10.0  # inches, of three panels
_NARROW: Final = 4.2
_COLUMNS: Final = 3
_LETTERS: Final = 12  # in an inch


def drawn(
    name: str,
    panels: Sequence[Panel],
    *,
    caption: str,
    alt: str,
    x: str = "",
    y: str = "",
    height: float = 2.9,
    same_y: bool = False,
    from_zero: bool = False,
) -> Figure:
    """A figure of panels that share names of axes and a legend; `height` is a panel's, in inches."""
    canvases = [
        _canvas(panels, columns, x=x, y=y, height=height, same_y=same_y, from_zero=from_zero)
        for columns in (_COLUMNS, 1)
    ]
    wide, narrow = map(_svg, canvases)
    return Figure(name, wide, narrow, caption, alt)


def _canvas(
    panels: Sequence[Panel], columns: int, *, x: str, y: str, height: float, same_y: bool, from_zero: bool
) -> Canvas:
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise DependencyError("a picture needs matplotlib; try: pip install matplotlib") from None
    columns = min(columns, len(panels))
    lines = ceil(len(panels) / columns)
    width = _NARROW if columns == 1 else _WIDTH * columns / _COLUMNS
    canvas = Canvas(figsize=(width, height * lines + 0.4), layout="constrained")
    grid = canvas.subplots(lines, columns, squeeze=False, sharey="row" if same_y else False)
    for place, (title, draw) in enumerate(panels):
        ax = grid[divmod(place, columns)]
        draw(ax)
        tidy(ax)
        ax.minorticks_off()
        ax.set_title(label(title), fontsize="medium")
        if place + columns >= len(panels):
            ax.set_xlabel(x)
        if place % columns == 0:
            ax.set_ylabel(y)
    if from_zero:  # now that all that shares an axis is drawn
        for ax in grid.flat:
            ax.set_ylim(bottom=0.0)
    for empty in grid.flat[len(panels) :]:
        empty.set_axis_off()
    _legend(canvas, grid[0, 0])
    return canvas


def _legend(canvas: Canvas, ax: Any) -> None:
    handles, names = ax.get_legend_handles_labels()
    if handles:
        fits = int(canvas.get_figwidth() * _LETTERS / (max(map(len, names)) + 7))
        canvas.legend(handles, names, loc="outside lower center", ncols=max(1, fits), frameon=False)


def _svg(canvas: Canvas) -> bytes:
    from matplotlib import rc_context

    file = io.BytesIO()
    with rc_context({"svg.hashsalt": "predgap", "svg.fonttype": "none", "font.family": "sans-serif"}):
        canvas.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def line(ax: Any, x: Sequence[float], y: Sequence[float], place: int, **options: Any) -> None:
    """A line in the style of a place in the palette."""
    ax.plot(x, y, **{"markersize": 4, **style(place), **options})
