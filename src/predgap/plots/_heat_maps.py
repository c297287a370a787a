"""Heat maps: how far rankings agree, and the mean place of each feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from predgap._typing import FloatArray
from predgap.errors import RankingError, ShapeError
from predgap.noise import Noise
from predgap.plots._drawing import (
    DARK,
    MUTED,
    labels,
    new_or,
    note,
    nothing,
    row_font,
    row_labels,
    two_dimensional,
)
from predgap.ranking import Ranking, ranking_order

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
    lowest = -1.0 if np.nanmin(shares, initial=0.0) < 0 else 0.0
    _heat_map(ax, shares, "Blues", (lowest, 1.15), ".2f")
    size = row_font(ax, m)
    shown = row_labels(ax, names, size)
    ax.set_yticks(range(m), shown, fontsize=size)
    ax.set_xticks(range(m), shown, fontsize=size, rotation=40, ha="left", rotation_mode="anchor")
    note(ax, noise)
    return ax


def mean_places(
    rankings: Mapping[str, Ranking],
    *,
    max_features: int = 20,
    noise: Noise | str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws a heat map of the mean place of each feature in each ranking.

    Use it to see which features methods rank differently. Features are sorted by their mean place in the
    first ranking.

    Parameters
    ----------
    rankings : mapping from method name to Ranking
        Full rankings of the same features. Features are matched by name, in any order; if a ranking has no
        names, by position.
    max_features : int, default=20
        How many features to show; a last line says how many more there are.
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
    >>> rankings = {"greedy": Ranking([[1, 0], [1, 0]]), "SHAP": Ranking([[0, 1], [1, 0]])}
    >>> ax = mean_places(rankings, ax=Figure().subplots())
    >>> [text.get_text() for text in ax.get_yticklabels()], [text.get_text() for text in ax.texts]
    (['f1', 'f0'], ['1.0', '1.5', '2.0', '1.5'])
    """
    first = next(iter(rankings.values()), None)
    if first is None:
        raise ShapeError("there are no rankings to show; expected one or more")
    means = np.array([_mean_places(name, ranking, first) for name, ranking in rankings.items()]).T
    order = np.argsort(means[:, 0], kind="stable")[:max_features]
    d = len(means)
    ax = new_or(ax, 2.4 + 0.9 * len(rankings), 1.0 + 0.3 * (len(order) + (d > len(order))))
    _heat_map(ax, means[order], "Blues_r", (1, means[order].max(initial=1.0) + 1), ".1f")
    size = row_font(ax, len(order))
    names = row_labels(ax, first.names, size)
    ax.set_xticks(range(len(rankings)), labels([*rankings], 24))
    ax.set_yticks(range(len(order)), [names[j] for j in order], fontsize=size)
    note(ax, noise, f"and {d - len(order)} more features" if d > len(order) else "")
    return ax


def _heat_map(ax: Axes, values: FloatArray, colours: str, between: tuple[float, float], digits: str) -> None:
    """Cells with their numbers; those that are NaN are hatched."""
    from matplotlib.patches import Rectangle

    image = ax.imshow(values, cmap=colours, vmin=between[0], vmax=between[1], aspect="auto")
    size = row_font(ax, len(values))
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
            f"{value:z{digits}}".replace("-", "−"),
            ha="center",
            va="center",
            color=colour,
            fontsize=size,
        )
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _mean_places(name: str, ranking: Ranking, first: Ranking) -> FloatArray:
    """The mean place of each feature, (d,), in the order of the first ranking's features."""
    n, k = ranking.order.shape
    if n == 0 or k < ranking.n_features or ranking.n_features != first.n_features:
        raise ShapeError(
            f"the ranking {name!r} has {k} places of {ranking.n_features} features in {n} rows; expected a "
            f"row or more, and a place for each of {first.n_features} features"
        )
    try:
        order = ranking_order(ranking, n, first.n_features, first.feature_names)
    except RankingError as error:
        raise RankingError(f"{name!r} cannot be shown beside the first ranking: {error}") from None
    means: FloatArray = Ranking(order).ranks.mean(axis=0)
    return means
