"""Scores: a leaderboard of methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from predgap._text import percent
from predgap.errors import ShapeError
from predgap.noise import Noise
from predgap.plots._drawing import (
    BAND,
    DARK,
    label,
    mean_of,
    new_or,
    note,
    nothing,
    number,
    row_font,
    row_labels,
    style,
    tidy,
    vector,
    x_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def leaderboard(
    names: Sequence[str],
    means: ArrayLike,
    lows: ArrayLike,
    highs: ArrayLike,
    *,
    random: ArrayLike | None = None,
    best: ArrayLike | None = None,
    noise: Noise | str | None = None,
    marks: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws the mean score of each method with its interval, the highest on top.

    Use it to see which ranking is best, and by how much compared with the uncertainty. With `random` and
    `best`, the band between them is the scale, and a percentage says how far on it each method gets.

    Parameters
    ----------
    names : sequence of m strings
        The methods, in the order in which other plots have them: it decides their colours and markers.
    means : (m,) array
        The mean PGI² of each. A method whose mean is NaN comes last, without a mark.
    lows, highs : (m,) arrays
        The ends of the intervals; NaN for none.
    random : float, (n,) array whose mean is taken, or None, default=None
        The expected PGI² of a random ranking.
    best : float, (n,) array whose mean is taken, or None, default=None
        The PGI² of the best ranking.
    noise : Noise, str, or None, default=None
        The noise under which the scores were computed; it is named below the axes.
    marks : sequence of m strings, or None, default=None
        How each mean was obtained, such as "estimated"; "" or "exact" for nothing to say. Others are written
        after the number, and their markers are hollow.
    ax : matplotlib Axes, or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> names, lows, highs = ["SHAP", "greedy"], [1.5, 2.8], [2.5, 3.2]
    >>> ax = leaderboard(names, [2.0, 3.0], lows, highs, random=1.0, best=3.0, ax=Figure().subplots())
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['greedy', 'SHAP']
    >>> [text.get_text() for text in ax.texts][:2]
    ['3  (100 %)', '2  (50 %)']
    """
    m = len(names)
    mean, low, high = (
        vector(values, what, m) for values, what in ((means, "means"), (lows, "lows"), (highs, "highs"))
    )
    if marks is not None and len(marks) != m:
        raise ShapeError(f"there are {len(marks)} marks for {m} names")
    ends = {
        name: float(mean_of(np.ravel(np.asarray(of, dtype=np.float64))))
        for name, of in (("random", random), ("best", best))
        if of is not None
    }
    ax = new_or(ax, height=1.3 + 0.36 * m)
    if m == 0:
        return nothing(ax, "no rankings")
    order = np.argsort(-mean, kind="stable")  # NaN last
    size = row_font(ax, m)
    for at, place in enumerate(order):
        said = marks[place] if marks is not None and marks[place] != "exact" else ""
        _interval(ax, at, int(place), (low[place], mean[place], high[place]), hollow=bool(said))
        text = _score(mean[place], ends) + (f"  {label(said, 20)}" if said else "")
        ax.text(1.01, at, text, transform=ax.get_yaxis_transform(), va="center", fontsize=size)
    _scale(ax, ends, size)
    tidy(ax)
    ax.grid(visible=False, axis="y")
    shown = row_labels(ax, names, size)
    ax.set_yticks(range(m), [shown[place] for place in order], fontsize=size)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(m - 0.5, -0.5)
    x_label(ax, "mean PGI²" + (" (from random to best)" if len(ends) == 2 else ""))
    note(ax, noise)
    return ax


def _interval(ax: Axes, at: int, place: int, ends: tuple[float, float, float], *, hollow: bool) -> None:
    low, mean, high = ends
    look = style(place)
    ax.plot([low, high], [at, at], color=look["color"], linewidth=2.2, solid_capstyle="butt", zorder=3)
    face = {"markerfacecolor": "white"} if hollow else {}
    ax.plot([mean], [at], **look | {"linestyle": "none", "markersize": 7, "zorder": 4} | face)


def _score(mean: float, ends: dict[str, float]) -> str:
    """The number, and how far it is on the scale."""
    room = ends.get("best", np.nan) - ends.get("random", np.nan)
    if np.isnan(mean):
        return "no score"
    share = f"  ({percent((mean - ends['random']) / room)} %)".replace("-", "−") if room > 0 else ""
    return number(mean) + share


def _scale(ax: Axes, ends: dict[str, float], size: float) -> None:
    """Lines at random and best, named on top, and the band between them."""
    known = {name: value for name, value in ends.items() if np.isfinite(value)}
    for name, value in known.items():
        ax.axvline(value, color=DARK, linewidth=1, linestyle=":" if name == "random" else "-", zorder=2)
    if len(known) == 2:
        ax.axvspan(known["random"], known["best"], color=BAND, linewidth=0, zorder=0)
    top = ax.secondary_xaxis("top")  # a title goes above it
    top.set_xticks([*known.values()], [*known], fontsize=size)
    for tick, name in zip(top.get_xticklabels(), known, strict=True):
        tick.set_horizontalalignment("right" if name == "random" else "left")
    top.spines[:].set_visible(False)
    top.tick_params(length=0, pad=1)
