"""Draws methods side by side: a leaderboard, how far they agree, and lines by place and by strength."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike

from predgap._text import percent
from predgap._typing import FloatArray
from predgap.errors import ShapeError
from predgap.explainer import Sweep
from predgap.noise import Noise
from predgap.plots._drawing import (
    BAND,
    DARK,
    MUTED,
    inches,
    label,
    legend,
    mean_of,
    new_or,
    note,
    nothing,
    number,
    row_font,
    row_labels,
    style,
    tidy,
    two_dimensional,
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


# ------------------------------------------------------------------------------------------------------------
# A heat map shows how far rankings agree.


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


# ------------------------------------------------------------------------------------------------------------
# Lines show gaps along rankings, and scores by the strength of the noise.

_TICK_WIDTH: Final = 0.6  # inches


def gap_curves(
    curves: Mapping[str, ArrayLike],
    *,
    random: ArrayLike | None = None,
    best: ArrayLike | None = None,
    noise: Noise | str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws the mean curve of each method: the gap when the first k features are perturbed, for k = 0 ... d.

    Use it to compare rankings. The legend shows the mean of each curve, which is PGI²; the highest is the
    best. With the curves of random rankings and of the best one, the band between them is the room that
    rankings have.

    Parameters
    ----------
    curves : mapping from method name to (n, k) array
        Results of `Explainer.curve`. The legend has the mean PGI² of each; where curves have different
        numbers of places, that of the places that all of them have. Rows in which a gap is NaN are left out,
        and a line says how many.
    random : (n, k) or (k,) array, or None, default=None
        The curve of a random ranking: its gap at each place, expected or the mean of several.
    best : (n, k) or (k,) array, or None, default=None
        The curve of the best ranking.
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
        If a curve is not an (n, k) array with k above 0.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> curves = {"greedy": [[3.0, 4.0]], "SHAP": [[1.0, 4.0]]}
    >>> ax = gap_curves(curves, random=[1.5, 4.0], noise="Normal(0.3)", ax=Figure().subplots())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['greedy: 3.5', 'SHAP: 2.5', 'random: 2.75']
    """
    means = {name: _mean_curve(values, repr(name)) for name, values in curves.items()}
    limits = {
        name: _mean_curve(np.atleast_2d(np.asarray(values, dtype=np.float64)), name)
        for name, values in (("best", best), ("random", random))
        if values is not None
    }
    ax = new_or(ax)
    from matplotlib.ticker import MaxNLocator

    drawn = [mean for mean, _ in (*means.values(), *limits.values()) if mean is not None]
    if not drawn:
        return nothing(ax, "no rows" if curves else "no curves")
    shared = min(map(len, drawn))
    names = row_labels(ax, [*means], row_font(ax, 2.4 * (len(drawn) + 1)))
    for place, (name, (mean, _)) in enumerate(zip(names, means.values(), strict=True)):
        if mean is not None:
            _curve(ax, name, mean, shared, zorder=10 - place, markersize=5, **style(place))
    for name, line in (("best", "-"), ("random", ":")):
        if name in limits and (mean := limits[name][0]) is not None:
            _curve(ax, name, mean, shared, color=DARK, linestyle=line, linewidth=1, zorder=2.5)
    if len(limits) == 2 and all(mean is not None for mean, _ in limits.values()):
        _band(ax, limits["random"][0], limits["best"][0])
    tidy(ax)
    x_label(ax, "features moved, most important first")
    ax.set_ylabel("mean gap PG²")
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    same = all(len(mean) == shared for mean in drawn)
    title = "mean PGI²" if same else f"mean PGI² of {shared} places"
    legend(ax, len(drawn) + 1, title=title)
    left_out = max((n for _, n in means.values()), default=0)
    note(ax, noise, f"{left_out} rows with NaN left out" if left_out else "")
    return ax


def by_strength(sweep: Sweep, *, noise: Noise | str | None = None, ax: Axes | None = None) -> Axes:
    """Draws the score of each ranking at each strength of the noise, in percent of the highest one there.

    Use it to see whether the best ranking depends on how strong the noise is. Stronger noise makes all gaps
    larger, so scores are compared within a strength: 100 % is the ranking with the highest mean PGI² at this
    strength, which is written below the strength.

    Parameters
    ----------
    sweep : Sweep
        The result of `Explainer.sweep`.
    noise : Noise, str, or None, default=None
        The noise whose strength was changed; it is named below the axes.
    ax : matplotlib Axes, or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> agreement = np.ones((2, 2, 2))
    >>> scores = np.array([[[4.0], [1.0]], [[6.0], [8.0]]])
    >>> sweep = Sweep(
    ...     (0.1, 1.0), ("greedy", "SHAP"), scores, agreement, agreement, agreement[0], agreement[0]
    ... )
    >>> ax = by_strength(sweep, ax=Figure().subplots())
    >>> [line.get_ydata().tolist() for line in ax.get_lines()]
    [[100.0, 75.0], [25.0, 100.0]]
    """
    ax = new_or(ax)
    order = np.argsort(sweep.strengths, kind="stable")
    strengths, means = np.array(sweep.strengths)[order], sweep.mean[order]
    highest = means.max(axis=1, initial=0.0)
    if sweep.scores.shape[2] == 0:
        return nothing(ax, "no rows")
    if not (highest > 0).any():
        return nothing(ax, "all gaps are 0")
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.where(highest[:, None] > 0, 100 * means / highest[:, None], np.nan)
    for place, name in enumerate(row_labels(ax, sweep.names, row_font(ax, 2.4 * len(sweep.names)))):
        ax.plot(strengths, shares[:, place], label=name, markersize=5, zorder=10 - place, **style(place))
    tidy(ax)
    ax.set_xscale("log")
    _strength_ticks(ax, strengths, highest)
    x_label(ax, "strength of the noise; below it the highest mean PGI²")
    ax.set_ylabel("mean PGI² in % of the highest")
    ax.set_ylim(0, 105)
    legend(ax, len(sweep.names))
    note(ax, noise)
    return ax


def _mean_curve(values: ArrayLike, name: str) -> tuple[FloatArray | None, int]:
    """The mean over the rows without NaN, (k,), None if there is none; and the number of rows left out."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ShapeError(f"the curve of {name} has shape {array.shape}; expected (n, k), k above 0")
    known = ~np.isnan(array).any(axis=1)
    return mean_of(array[known]) if known.any() else None, int((~known).sum())


def _curve(ax: Axes, name: str, mean: FloatArray, shared: int, **drawn: Any) -> None:
    every = max(1, round(len(mean) / 12))  # of 200 markers none could be seen
    ax.plot(
        range(len(mean) + 1),
        [0.0, *mean],
        label=f"{name}: {number(mean[:shared].mean())}",
        markevery=every,
        **drawn,
    )


def _band(ax: Axes, random: FloatArray | None, best: FloatArray | None) -> None:
    if random is not None and best is not None:
        k = min(len(random), len(best))
        ax.fill_between(range(k + 1), [0.0, *random[:k]], [0.0, *best[:k]], color=BAND, linewidth=0, zorder=1)


def _strength_ticks(ax: Axes, strengths: FloatArray, highest: FloatArray) -> None:
    """A tick at each strength that is not too near to the one before, with the highest score below it."""
    from matplotlib.ticker import NullLocator

    at = np.log(strengths / strengths[0]) * inches(ax)[0] / max(np.log(strengths[-1] / strengths[0]), 1e-9)
    kept = [0]
    for place in range(1, len(at)):
        if at[place] - at[kept[-1]] > _TICK_WIDTH:
            kept.append(place)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticks(strengths[kept], [f"{strengths[p]:g}\n{number(highest[p])}" for p in kept])
