"""A heat map: how far rankings agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from predgap._typing import FloatArray
from predgap.noise import Noise
from predgap.plots._drawing import (
    DARK,
    MUTED,
    new_or,
    note,
    nothing,
    row_font,
    row_labels,
    two_dimensional,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def agreement(
    names: Sequence[str], matrix: ArrayLike, *, noise: Noise | str | None = None, ax: Axes | None = None
) -> Axes:
    """Draws how far each two rankings agree, as a heat map with the numbers.

    Use it to see which rankings say the same. The darker, the more they agree.

    Parameters
    ----------
    names : sequence of m strings
        The rankings.
    matrix : (m, m) array
        Of each two: the share of rows in which they agree, from 0 to 1, or a correlation, from -1 to 1. NaN
        if it is not known, drawn as a hatched cell.
    noise : Noise, str, or None, default=None
        The noise under which the rankings were built; it is named below the axes.
    ax : matplotlib Axes, or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = agreement(["greedy", "SHAP"], [[1.0, 0.25], [0.25, 1.0]], ax=Figure().subplots())
    >>> [text.get_text() for text in ax.texts]
    ['1.00', '0.25', '0.25', '1.00']
    """
    m = len(names)
    shares = two_dimensional(np.empty((0, 0)) if m == 0 else matrix, "the matrix", (m, m))
    ax = new_or(ax, 2.4 + 0.62 * m, 1.3 + 0.5 * m)
    if m == 0:
        return nothing(ax, "no rankings")
    size = row_font(ax, m)
    _cells(ax, shares, size)
    shown = row_labels(ax, names, size)
    ax.set_yticks(range(m), shown, fontsize=size)
    ax.set_xticks(range(m), shown, fontsize=size, rotation=40, ha="left", rotation_mode="anchor")
    note(ax, noise)
    return ax


def _cells(ax: Axes, values: FloatArray, size: float) -> None:
    """Cells with their numbers; those that are NaN are hatched."""
    from matplotlib.patches import Rectangle

    lowest = -1.0 if np.nanmin(values, initial=0.0) < 0 else 0.0
    image = ax.imshow(values, cmap="Blues", vmin=lowest, vmax=1.15, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if np.isnan(value):
            corner = (column - 0.5, row - 0.5)
            ax.add_patch(Rectangle(corner, 1, 1, fill=False, hatch="////", edgecolor=MUTED, linewidth=0))
            continue
        brightness = np.dot(image.to_rgba(np.array([value]))[0, :3], (0.299, 0.587, 0.114))
        colour = "white" if brightness < 0.55 else DARK
        ax.text(
            column,
            row,
            f"{value:z.2f}".replace("-", "−"),
            ha="center",
            va="center",
            color=colour,
            fontsize=size,
        )
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
