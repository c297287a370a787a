"""Draws rows: how the gap of one row grows place by place, and the gap of each feature for all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from predgap._inputs.tables import feature_values, open_columns
from predgap._tables import cell_text
from predgap._text import count, names_or_default
from predgap._typing import BoolArray, FloatArray, IndexArray
from predgap.errors import RankingError, ShapeError
from predgap.noise import Noise
from predgap.plots._drawing import (
    COLOURS,
    DARK,
    ESTIMATED,
    MARKERS,
    MUTED,
    label,
    legend,
    mean_of,
    new_or,
    note,
    nothing,
    number,
    row_font,
    row_labels,
    tidy,
    two_dimensional,
    x_label,
)
from predgap.ranking import Ranking

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# ------------------------------------------------------------------------------------------------------------
# A ladder shows how the gap of one row grows, place by place.

_GAINS: Final = ("greedy", "optimal", "best found", "shapley")
"""Methods whose scores add up to the gap of all places."""


def ladder(
    ranking: Ranking,
    row: int,
    *,
    curve: ArrayLike | None = None,
    values: Any = None,
    max_features: int = 20,
    noise: Noise | str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws the gains of one row: by how much its gap grows with each feature, most important first.

    Use it to see what a prediction depends on. Each bar begins where the one above it ends; the last one ends
    at the gap of all places. A gain may be negative: its bar is hatched and goes back.

    Parameters
    ----------
    ranking : Ranking
        From `Explainer.rank`: greedy or optimal, whose scores are gains, or Shapley values of the gap. Any
        other ranking needs `curve`.
    row : int
        The position of the row in the ranking.
    curve : (k,) or (n, k) array, or None, default=None
        The gaps of the row's prefixes, from `Explainer.curve`, or those of all rows. Gains are then the
        differences between them, whatever the scores of the ranking are.
    values : (d,) sequence, (n, d) table, or None, default=None
        The values of the features in this row, or in all rows; they are written beside the names.
    max_features : int, default=20
        How many places to show; the gains of the others are one bar.
    noise : Noise, str, or None, default=None
        The noise under which the gaps were computed; it is named below the axes.
    ax : matplotlib Axes, or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    RankingError
        If the scores of the ranking are not gains and there is no curve.
    ShapeError
        If there is no such row, or the curve or the values do not fit the ranking.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ranking = Ranking(
    ...     [[1, 0]], scores=[[0.5, 2.0]], feature_names=("age", "bmi"), method="greedy", estimator="exact"
    ... )
    >>> ax = ladder(ranking, 0, values=[63, 31.5], ax=Figure().subplots())
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['bmi = 31.5', 'age = 63']
    >>> [(float(bar.get_x()), float(bar.get_width())) for bar in ax.patches]
    [(0.0, 2.0), (2.0, 0.5)]
    """
    n, k = ranking.order.shape
    if not -n <= row < n:
        raise ShapeError(f"row {row} does not exist; the ranking has {count(n, 'row')}")
    row = row % n
    gains = _gains(ranking, row) if curve is None else _steps(curve, row, n, k)
    texts = None if values is None else _texts(values, ranking, row)
    kept = max(1, max_features)
    if k > kept:
        gains = np.r_[gains[:kept], gains[kept:].sum()]
    ax = new_or(ax, height=1.3 + 0.3 * len(gains))
    if k == 0:
        return nothing(ax, "no features")
    size = row_font(ax, len(gains))
    names = row_labels(ax, ranking.names, size)
    if texts is not None:
        names = [f"{name} = {value}" for name, value in zip(names, texts, strict=True)]
    ticks = [names[j] for j in ranking.order[row, :kept]] + ([f"and {k - kept} more"] if k > kept else [])
    _bars(ax, gains, size, about=ranking.estimator in ESTIMATED and curve is None)
    tidy(ax)
    ax.grid(visible=False, axis="y")
    ax.set_yticks(range(len(ticks)), ticks, fontsize=size)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(ticks) - 0.4, -0.6)
    name = row if ranking.index is None else ranking.index[row]
    x_label(ax, f"gap PG² of row {label(name, 20)}, place by place")
    note(ax, noise, _how(ranking, by_curve=curve is not None))
    return ax


# ---- small pieces --------------------------------------------------------------------------------


def _gains(ranking: Ranking, row: int) -> FloatArray:
    """The gains of a row's places, (k,), which are its scores."""
    if ranking.scores is None or ranking.method not in _GAINS:
        how = "it has none" if ranking.scores is None else f"its method is {ranking.method!r}"
        raise RankingError(
            f"the scores of this ranking are not gains ({how}); pass curve=explainer.curve(X, ranking), or a "
            "ranking from explainer.rank(X)"
        )
    gains: FloatArray = ranking.scores[row, ranking.order[row]]
    return gains


def _steps(curve: ArrayLike, row: int, n: int, k: int) -> FloatArray:
    """The gains of a row's places, (k,), from its gaps or those of all rows."""
    gaps = np.asarray(curve, dtype=np.float64)
    if gaps.shape not in ((k,), (n, k)):
        raise ShapeError(f"curve has shape {gaps.shape}, expected ({k},) or ({n}, {k})")
    return np.diff(gaps if gaps.ndim == 1 else gaps[row], prepend=0.0)


def _texts(values: Any, ranking: Ranking, row: int) -> list[str]:
    """The values of the features in a row, as text."""
    n, d = len(ranking), ranking.n_features
    shape = np.shape(values) if not hasattr(values, "shape") else values.shape
    if len(shape) == 2 and shape[0] == n:
        found = [column[row] for column in feature_values(values, n, d, ranking.feature_names, ranking.index)]
    elif len(shape) == 1 and shape[0] == d:
        found = list(values)
    else:
        raise ShapeError(f"values has shape {tuple(shape)}, expected ({d},) or ({n}, {d})")
    return ["missing" if value is None or value != value else label(cell_text(value), 20) for value in found]


def _bars(ax: Axes, gains: FloatArray, size: float, *, about: bool) -> None:
    ends = np.cumsum(np.nan_to_num(gains))
    starts = np.r_[0.0, ends[:-1]]
    for at, (start, gain) in enumerate(zip(starts, gains, strict=True)):
        falls = bool(gain < 0)
        ax.barh(
            at, gain, left=start, height=0.68, color="white" if falls else COLOURS[0], linewidth=1,
            edgecolor=COLOURS[2] if falls else COLOURS[0], hatch="////" if falls else None, zorder=3,
        )  # fmt: skip
        if at + 1 < len(gains):
            ax.plot([ends[at]] * 2, [at - 0.34, at + 1.34], color=MUTED, linewidth=0.8, zorder=2)
        signed = "no number" if np.isnan(gain) else ("" if falls else "+") + number(gain)
        text = f"≈ {signed}" if about else signed
        ax.text(1.01, at, text, transform=ax.get_yaxis_transform(), va="center", fontsize=size, color=DARK)
    high = float(max(ends.max(), 0.0)) or 1.0
    ax.set_xlim(min(0.0, float(ends.min())), 1.03 * high)


def _how(ranking: Ranking, *, by_curve: bool) -> str:
    """The text that says how the numbers were obtained, if the ranking tells."""
    if by_curve or ranking.estimator is None:
        return ""
    return f"estimated ({ranking.estimator})" if ranking.estimator in ESTIMATED else ranking.estimator


# ------------------------------------------------------------------------------------------------------------
# The swarm shows the gap of each feature alone, a point for each row.

_COLOUR_MAP: Final = "cividis"  # its brightness rises all the way, also for the colour-blind
_MOST_ROWS: Final = 2000  # that are drawn
_CATEGORIES: Final = 3  # that have a marker of their own; the others share one
_GLYPHS: Final = "●■◆▲"  # of the markers, in tick labels
_STEPS: Final = 120  # of the axis, in which points are beside each other


def swarm(
    gaps: ArrayLike,
    values: Any,
    feature_names: Sequence[str] | None = None,
    *,
    rows: Sequence[int] | None = None,
    max_features: int = 20,
    noise: Noise | str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws the gap of each feature alone, one point per row, coloured by the value of the feature.

    Use it to see which features move the predictions, in how many rows, and at which of their values.
    Features are sorted by their mean gap. The axis is scaled by the square root, so that distances are those
    of the change of the prediction, not of its square.

    Parameters
    ----------
    gaps : (n, d) array
        `gaps[r, j]` is the gap of feature j alone in row r: `scores` of `Explainer.rank(X, "single")`. What
        is NaN is not drawn, and a line says how often that is.
    values : (n, d) NumPy array, pandas or Polars DataFrame, PyArrow Table, or list of rows
        The values of the features in these rows. Numbers are coloured from low (dark) to high (bright) within
        their column. The three most frequent categories of a column have a colour and a marker each, which
        its label shows, and the others share one. Missing values are grey crosses.
    feature_names : sequence of d strings, or None, default=None
        The names of the features. Columns of a frame are matched to them.
    rows : sequence of positions of rows, or None, default=None
        Rows to mark: each has a marker of its own, and is named in the legend, by the index of a frame.
    max_features : int, default=20
        How many features to show; a last line says how many more there are.
    noise : Noise, str, or None, default=None
        The noise under which the gaps were computed; it is named below the axes.
    ax : matplotlib Axes, or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ShapeError
        If gaps, values, names and rows do not fit each other.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> gaps, values = [[0.1, 2.0], [0.2, 3.0]], [[40, "a"], [50, "b"]]
    >>> ax = swarm(gaps, values, ["age", "job"], rows=[1], ax=Figure().subplots())
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['job', 'age']
    >>> ax.texts[0].get_text()
    '● a  ■ b'
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['row 1']
    """
    size = two_dimensional(gaps, "gaps")
    n, d = size.shape
    if feature_names is not None and len(feature_names) != d:
        raise ShapeError(f"there are {len(feature_names)} feature names for {count(d, 'column')} of gaps")
    marked = _marked(rows, n)
    size = np.where(np.isfinite(size), size, np.nan)
    order = np.argsort(-mean_of(size), kind="stable")[: max(1, max_features)]
    columns = feature_values(values, n, d, feature_names) if n and d else []
    ax = new_or(ax, 7.0, 1.4 + 0.34 * (len(order) + (d > len(order))))
    if not columns:
        return nothing(ax, "no features" if n else "no rows")
    drawn = _drawn(n, marked)
    highest = float(np.nanmax(size[:, order], initial=0.0)) or 1.0
    table = open_columns(values)
    names = names_or_default(d, table.names if feature_names is None else feature_names)
    n_lines = len(order) + (d > len(order))
    font = row_font(ax, n_lines)
    shown = row_labels(ax, names, font)
    for at, j in enumerate(order):
        x, column = size[drawn, j], columns[j][drawn]
        y = at + _spread(np.sqrt(x / highest))
        groups = _numbers(column) if column.dtype != object else _categories(column)
        for group in groups:
            group.draw(ax, x, y, font)
        _key(ax, at, [group.text for group in groups if group.text], 0.7 * font)
        for place, row in enumerate(marked):
            at_row = int(np.flatnonzero(drawn == row)[0])
            _mark(ax, place, float(x[at_row]), float(y[at_row]), 0.8 * font)
    more = [f"and {d - len(order)} more"] if d > len(order) else []
    _finish(ax, [shown[j] for j in order] + more, font, highest)
    if any(columns[j].dtype != object for j in order):
        _colour_bar(ax, font)
    _legend(ax, [label(row if table.index is None else table.index[row], 20) for row in marked])
    lost = int(np.isnan(size).sum())
    note(
        ax,
        noise,
        f"{len(drawn)} of {n} rows drawn" if len(drawn) < n else "",
        f"{lost} gaps that are no numbers not drawn" if lost else "",
    )
    return ax


# ---- groups of points that look alike ------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Points:
    """Points of one feature that have a marker in common."""

    which: BoolArray  # (n,)
    marker: str
    colour: Any  # one colour, or numbers from 0 to 1, (n,)
    text: str = ""  # for the label of the feature

    def draw(self, ax: Axes, x: FloatArray, y: FloatArray, font: float) -> None:
        here = self.which & ~np.isnan(x)
        look: dict[str, Any] = {"color": self.colour}
        if isinstance(self.colour, np.ndarray):
            look = {"c": self.colour[here], "cmap": _COLOUR_MAP, "vmin": 0.0, "vmax": 1.0}
        if self.marker != "x":
            look["edgecolors"] = "white"
        ax.scatter(
            x[here],
            y[here],
            s=(0.4 * font) ** 2 * (1.0 if len(x) <= 300 else 0.5),
            marker=self.marker,
            linewidths=0.9 if self.marker == "x" else 0.2,
            zorder=3,
            rasterized=True,  # thousands of points would make a large SVG
            **look,
        )


def _numbers(column: FloatArray) -> list[_Points]:
    """Numbers from low to high; those beyond the 5th and 95th percentile have the colours of the ends."""
    missing = np.isnan(column)
    finite = column[np.isfinite(column)]
    low, high = np.percentile(finite, [5, 95]) if len(finite) else (0.0, 0.0)
    if low == high and len(finite):  # few values differ
        low, high = finite.min(), finite.max()
    with np.errstate(invalid="ignore", over="ignore"):
        share = (column - low) / (high - low) if high > low else np.full(len(column), 0.5)
    colour = np.clip(np.nan_to_num(share, nan=0.5), 0.0, 1.0)
    return [_Points(~missing, "o", colour), _missing(missing)]


def _categories(column: NDArray[Any]) -> list[_Points]:
    """The most frequent categories, the others together, and missing ones."""
    missing = np.array([value is None for value in column], dtype=np.bool_)
    often = Counter(str(value) for value in column[~missing])
    first = sorted(often, key=lambda name: (-often[name], name))
    kept = first if len(first) <= len(_GLYPHS) else first[:_CATEGORIES]
    text = np.array([str(value) for value in column], dtype=object)
    groups = [
        _Points((text == name) & ~missing, MARKERS[at], COLOURS[at], f"{_GLYPHS[at]} {label(name, 12)}")
        for at, name in enumerate(kept)
    ]
    if len(kept) < len(first):
        rest = ~missing & ~np.isin(text, kept)
        at = len(kept)
        others = f"{_GLYPHS[at]} {count(len(first) - at, 'other')}"
        groups.append(_Points(rest, MARKERS[at], COLOURS[at], others))
    return [*groups, _missing(missing)]


def _missing(which: BoolArray) -> _Points:
    return _Points(which, "x", MUTED, "× missing" if which.any() else "")


# ---- small pieces --------------------------------------------------------------------------------


def _marked(rows: Sequence[int] | None, n: int) -> list[int]:
    marked = [] if rows is None else [int(row) for row in rows]
    outside = [row for row in marked if not -n <= row < n]
    if outside:
        raise ShapeError(f"row {outside[0]} cannot be marked: there are {count(n, 'row')}")
    return [row % n for row in marked]


def _drawn(n: int, marked: list[int]) -> IndexArray:
    """The rows that are drawn: all of them, or some at equal distances and those that are marked."""
    some = np.unique(np.linspace(0, n - 1, min(n, _MOST_ROWS)).round().astype(np.intp))
    return np.union1d(some, np.array(marked, dtype=np.intp))


def _spread(x: FloatArray) -> FloatArray:
    """The moves of points up or down, (n,), so that those of similar x (0 to 1) do not overlap."""
    step = np.where(np.isnan(x), -1.0, np.round(x * _STEPS))
    order = np.argsort(step, kind="stable")
    starts = np.r_[0, np.flatnonzero(np.diff(step[order])) + 1]
    within = np.arange(len(x)) - np.repeat(starts, np.diff(np.r_[starts, len(x)]))
    layer = np.empty(len(x))
    layer[order] = np.where(within % 2, -1.0, 1.0) * np.ceil(within / 2)
    most = float(np.abs(layer[~np.isnan(x)]).max(initial=0.0))
    return layer * min(0.09, 0.4 / max(most, 1.0))


def _mark(ax: Axes, place: int, x: float, y: float, size: float) -> None:
    ax.plot([x], [y], markersize=size, zorder=5 + place, **_mark_style(place))


def _mark_style(place: int) -> dict[str, Any]:
    marker = MARKERS[(place + 1) % len(MARKERS)]
    return {"linestyle": "none", "marker": marker, "markerfacecolor": "none", "markeredgecolor": DARK}


def _key(ax: Axes, at: int, texts: list[str], size: float) -> None:
    """The markers of categories and missing values, below the name of their feature."""
    ax.annotate(
        "  ".join(texts),
        (0, at),
        xycoords=ax.get_yaxis_transform(),
        xytext=(-4, -0.75 * size),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=size,
        color=MUTED,
    )


def _finish(ax: Axes, ticks: list[str], size: float, highest: float) -> None:
    """The axes: features from top to bottom, gaps from left to right, scaled by the square root."""
    rows = len(ticks)
    tidy(ax)
    ax.grid(visible=False, axis="x")
    ax.set_yticks(range(rows), ticks, fontsize=size)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(rows - 0.5, -0.6)
    ax.set_xscale("function", functions=(_root, _square))
    ax.set_xlim(-0.0002 * highest, 1.04 * highest)
    x_label(ax, "gap PG² of the feature alone (root scale)")


def _root(x: FloatArray) -> FloatArray:
    root: FloatArray = np.sign(x) * np.sqrt(np.abs(x))
    return root


def _square(x: FloatArray) -> FloatArray:
    square: FloatArray = np.sign(x) * np.square(x)
    return square


def _colour_bar(ax: Axes, size: float) -> None:
    """The colours of numbers; inset, so that the figure has no other current axes than before."""
    from matplotlib.cm import ScalarMappable

    inset = ax.inset_axes((1.02, 0.1, 0.02, 0.8))
    bar = ax.figure.colorbar(ScalarMappable(cmap=_COLOUR_MAP), cax=inset, ticks=[0, 1])
    bar.ax.set_yticklabels(["low", "high"], fontsize=size)
    bar.set_label("value", labelpad=-size, fontsize=size)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)


def _legend(ax: Axes, marked: list[str]) -> None:
    from matplotlib.lines import Line2D

    if marked:
        handles = [Line2D([], [], label=f"row {row}", **_mark_style(at)) for at, row in enumerate(marked)]
        legend(ax, len(handles), handles=handles)
