"""Plots of gaps and rankings, drawn with matplotlib.

The methods of a plot get colours, markers and line styles in the order in which they are given, so a method
looks the same in all plots if it is given at the same position. The colours can be told apart by colour-blind
readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from predgap._text import printable
from predgap.errors import DependencyError, RankingError, ShapeError
from predgap.ranking import Ranking, ranking_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS: Final = ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#767676", "#CC79A7", "#56B4E9")
_MARKERS: Final = "osD^xv*"
_DASHES: Final = ("-", "--", "-", "-.", ":", "--", "-.")
_FAINT: Final = "#E4E4E4"
_MUTED: Final = "#555555"


def label(text: str) -> str:
    r"""A name escaped for matplotlib: dollars do not start a formula, invisible characters are written out.

    Examples
    --------
    >>> print(label("cost_in_$ and $"))
    cost_in_\$ and \$
    """
    return printable(text).replace("$", r"\$")


def gap_curves(curves: Mapping[str, ArrayLike], ax: Axes | None = None) -> Axes:
    """Draws the mean curve of each method: the gap when the first k features are perturbed, for k = 0 ... d.

    Use it to compare rankings. The legend shows the mean of each curve, which is PGI²; the highest is the
    best.

    Parameters
    ----------
    curves : mapping from method name to (n, k) array
        Results of `Explainer.curve`. The legend has the mean PGI² of each; where curves have different
        numbers of places, that of the places that all of them have.
    ax : matplotlib Axes, or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = gap_curves({"greedy": [[3.0, 4.0]], "random": [[1.0, 4.0]]}, Figure().subplots())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['greedy: 3.5', 'random: 2.5']
    """
    ax = _axes(ax)
    from matplotlib.ticker import MaxNLocator

    means = {name: _table(values, name).mean(axis=0) for name, values in curves.items()}
    n_places = {len(mean) for mean in means.values()}
    shared = min(n_places, default=0)
    for place, (name, mean) in enumerate(means.items()):
        ax.plot(
            range(len(mean) + 1),
            [0.0, *mean],
            label=f"{label(name)}: {mean[:shared].mean():.3g}",
            zorder=10 - place,
            markersize=5,
            **style(place),
        )
    tidy(ax)
    ax.set_xlabel("features moved, most important first")
    ax.set_ylabel("mean gap PG²")
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    title = "mean PGI²" if len(n_places) == 1 else f"mean PGI² of {shared} places"
    ax.legend(title=title, frameon=False, loc="lower right")
    return ax


def pgi2_against(
    x: ArrayLike, y: ArrayLike, x_name: str, y_name: str, ax: Axes | None = None, *, place: int = 0
) -> Axes:
    """Draws PGI² of two methods against each other: one point per row, and the diagonal of equal values.

    Use it to see in which rows one method is better. Above the diagonal, the method y is.

    Parameters
    ----------
    x, y : (n,) arrays
        Results of `Explainer.pgi2`. Rows in which either is 0 are not shown, as the axes are logarithmic.
    x_name, y_name : str
        The names of the methods.
    ax : matplotlib Axes, or None, default=None
        Where to draw; None makes a new figure.
    place : int, default=0
        The position of the method y in the palette.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> pgi2_against([1.0, 2.0], [2.0, 2.5], "SHAP", "greedy", Figure().subplots()).get_ylabel()
    'PGI² of greedy'
    """
    ax = _axes(ax)
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    shown = (x > 0) & (y > 0)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.scatter(x[shown], y[shown], s=26, color=_COLOURS[place], alpha=0.65, linewidth=0, zorder=3)
    if shown.any():
        low, high = min(x[shown].min(), y[shown].min()) / 1.5, max(x[shown].max(), y[shown].max()) * 1.5
        ax.plot([low, high], [low, high], color=_MUTED, linewidth=1, zorder=2)
        ax.set_xlim(low, high)
        ax.set_ylim(low, high)
    tidy(ax)
    ax.set_aspect("equal", adjustable="box")
    corner: dict[str, Any] = {"transform": ax.transAxes, "color": _MUTED, "style": "italic"}
    ax.text(0.04, 0.95, f"{label(y_name)} has the higher PGI²", va="top", **corner)
    ax.text(0.96, 0.05, f"{label(x_name)} has the higher PGI²", ha="right", **corner)
    ax.set_xlabel(f"PGI² of {label(x_name)}")
    ax.set_ylabel(f"PGI² of {label(y_name)}")
    return ax


def mean_places(rankings: Mapping[str, Ranking], ax: Axes | None = None) -> Axes:
    """Draws a heat map of the mean place of each feature in each ranking.

    Use it to see which features methods rank differently. Features are sorted by their mean place in the
    first ranking.

    Parameters
    ----------
    rankings : mapping from method name to Ranking
        Full rankings of the same features. Features are matched by name, in any order; if a ranking has no
        names, by position.
    ax : matplotlib Axes, or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> rankings = {"greedy": Ranking([[1, 0], [1, 0]]), "SHAP": Ranking([[0, 1], [1, 0]])}
    >>> ax = mean_places(rankings, Figure().subplots())
    >>> [text.get_text() for text in ax.get_yticklabels()], [text.get_text() for text in ax.texts]
    (['f1', 'f0'], ['1.0', '1.5', '2.0', '1.5'])
    """
    first = next(iter(rankings.values()), None)
    if first is None:
        raise ShapeError("there are no rankings to show; expected one or more")
    names = first.names
    means = np.array([_mean_places(name, ranking, first) for name, ranking in rankings.items()]).T
    ax = _axes(ax)
    order = np.argsort(means[:, 0], kind="stable")
    means, d = means[order], len(names)
    image = ax.imshow(means, cmap="Blues_r", vmin=1, vmax=d + 1, aspect="auto")
    for (row, column), mean in np.ndenumerate(means):
        brightness = np.dot(image.cmap(image.norm(mean))[:3], (0.299, 0.587, 0.114))
        colour = "white" if brightness < 0.55 else "#1A1A1A"
        ax.text(column, row, f"{mean:.1f}", ha="center", va="center", color=colour)
    ax.set_xticks(range(len(rankings)), [label(name) for name in rankings])
    ax.set_yticks(range(d), [label(names[j]) for j in order])
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


def two_ladders(
    first: tuple[str, Ranking, ArrayLike],
    second: tuple[str, Ranking, ArrayLike],
    ax: Axes | None = None,
    *,
    places: tuple[int, int] = (0, 2),
) -> Axes:
    """Draws the curves of one row under two rankings, with the features of each ranking at its side.

    Use it to see place by place how the gap of a row changes under both rankings. The features of the first
    ranking are at the left, those of the second at the right.

    Parameters
    ----------
    first, second : tuple (method name, Ranking of one row, curve of shape (d,) or (1, d))
        The two methods.
    ax : matplotlib Axes, or None, default=None
        Where to draw; None makes a new figure.
    places : tuple of two ints, default=(0, 2)
        The positions of the two methods in the palette.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> greedy, shap = Ranking([[1, 0]]), Ranking([[0, 1]])
    >>> ax = two_ladders(("greedy", greedy, [3.0, 4.0]), ("SHAP", shap, [1.0, 4.0]), Figure().subplots())
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['f1', 'f0']
    """
    ax = _axes(ax)
    right = ax.twinx()
    for side, (name, ranking, values), place in ((ax, first, places[0]), (right, second, places[1])):
        curve = np.ravel(np.asarray(values, dtype=np.float64))
        at = np.arange(1, len(curve) + 1)
        ax.plot(curve, at, label=label(name), markersize=6, zorder=4 - place, **style(place))
        side.set_yticks(at, [label(feature) for feature in ranking.top(len(curve))[0]], color=_COLOURS[place])
        side.set_ylim(len(curve) + 0.5, 0.5)
        tidy(side)
        side.tick_params(axis="y", length=0)
    right.grid(visible=False)
    right.spines[:].set_visible(False)
    ax.set_xlim(left=0)
    ax.set_xlabel("gap PG² when this feature and those above it move")
    ax.legend(frameon=False, loc="best")
    return ax


# ---- small pieces --------------------------------------------------------------------------------


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise DependencyError("a picture needs matplotlib; try: pip install matplotlib") from None
    return pyplot.subplots()[1]


def style(place: int) -> dict[str, Any]:
    turn = place % len(_COLOURS)
    return {
        "color": _COLOURS[turn],
        "marker": _MARKERS[turn],
        "linestyle": _DASHES[turn],
        "linewidth": 1.8,
    }


def tidy(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color=_FAINT, linewidth=0.8)
    ax.set_axisbelow(True)


def _mean_places(name: str, ranking: Ranking, first: Ranking) -> NDArray[np.float64]:
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
    means: NDArray[np.float64] = Ranking(order).ranks.mean(axis=0)
    return means


def _table(values: ArrayLike, name: str) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or 0 in array.shape:
        raise ShapeError(f"the curve of {name!r} has shape {array.shape}; expected (n, d), n and d above 0")
    return array
