"""A ladder: how the gap of one row grows, place by place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike

from predgap._inputs.tables import feature_values
from predgap._tables import cell_text
from predgap._text import count
from predgap._typing import FloatArray
from predgap.errors import RankingError, ShapeError
from predgap.noise import Noise
from predgap.plots._drawing import (
    COLOURS,
    DARK,
    ESTIMATED,
    MUTED,
    label,
    new_or,
    note,
    nothing,
    number,
    row_font,
    row_labels,
    tidy,
    x_label,
)
from predgap.ranking import Ranking

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    """How the numbers were obtained, if the ranking tells."""
    if by_curve or ranking.estimator is None:
        return ""
    return f"estimated ({ranking.estimator})" if ranking.estimator in ESTIMATED else ranking.estimator
