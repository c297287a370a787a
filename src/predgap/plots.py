"""Pictures of gaps and rankings, drawn with matplotlib into axes that are given or new.

Names go by position through one palette that colour-blind readers can tell apart, so the same method
looks the same in every picture as long as it is given at the same place.
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
    r"""A name as matplotlib is to show it: no mathematics between dollars, nothing invisible.

    Examples
    --------
    >>> print(label("cost_in_$ and $"))
    cost_in_\$ and \$
    """
    return printable(text).replace("$", r"\$")


def gap_curves(curves: Mapping[str, ArrayLike], ax: Axes | None = None) -> Axes:
    """The mean gap when the k first features of each method's rankings move, for k = 0 ... d.

    Parameters
    ----------
    curves : mapping from method to (n, d) array
        What `Explainer.curve` returns. The mean of a curve is PGI², and stands in the legend.
    ax : matplotlib Axes, or None for new ones
    """
    ax = _axes(ax)
    from matplotlib.ticker import MaxNLocator

    for place, (name, values) in enumerate(curves.items()):
        mean = _table(values, name).mean(axis=0)
        ax.plot(
            range(len(mean) + 1),
            [0.0, *mean],
            label=f"{label(name)}: {mean.mean():.3g}",
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
    ax.legend(title="mean PGI²", frameon=False, loc="lower right")
    return ax


def pgi2_against(
    x: ArrayLike, y: ArrayLike, x_name: str, y_name: str, ax: Axes | None = None, *, place: int = 0
) -> Axes:
    """PGI² of two methods, one point per row, with the diagonal on which they would be equal.

    Parameters
    ----------
    x, y : (n,) arrays
        What `Explainer.pgi2` returns. Rows where either is 0 cannot be shown on the logarithmic axes.
    x_name, y_name : str
    ax : matplotlib Axes, or None for new ones
    place : int
        Of the method y in the palette.
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
    """A heat map of each feature's mean place; features go by their mean place in the first ranking.

    Parameters
    ----------
    rankings : mapping from method to Ranking, all of the same features and with a place for each of them
        Features are matched by name, in any order; if a ranking has no names, they go by position.
    ax : matplotlib Axes, or None for new ones
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
    """How the gap of one row grows, place by place, under two rankings; each has its features at a side.

    Parameters
    ----------
    first, second : method, its Ranking of one row, and its curve (d,) or (1, d)
    ax : matplotlib Axes, or None for new ones
    places : of the two methods in the palette
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
