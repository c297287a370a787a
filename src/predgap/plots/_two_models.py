"""Two models: how far their predictions are apart, and which features move that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike

from predgap._text import count, names_or_default
from predgap._typing import FloatArray
from predgap.errors import ShapeError
from predgap.noise import Noise
from predgap.plots._drawing import (
    COLOURS,
    DARK,
    MARKERS,
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
    vector,
    x_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BINS: Final = 40


def differences(
    values: ArrayLike,
    *,
    expected: ArrayLike | None = None,
    noise: Noise | str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws how far the predictions of two models are apart: a histogram over rows.

    Use it to see whether a new model differs everywhere, in a few rows, or to one side. A line is at the
    mean; dashed ones are at the root of the mean square (RMS) to both sides of 0, dotted ones at the same
    under noise.

    Parameters
    ----------
    values : (n,) array
        The difference of each row: `predgap.difference(f, g).predict(X)`. Rows with NaN are left out.
    expected : (n,) array, or None, default=None
        The expected squared difference of each row under noise.
    noise : Noise, str, or None, default=None
        That noise; it is named below the axes.
    ax : matplotlib Axes, or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = differences([0.0, 1.0, -1.0, 2.0], expected=[4.0, 4.0, 4.0, 4.0], ax=Figure().subplots())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['mean 0.5', 'RMS 1.22', 'RMS under noise 2']
    """
    size = np.asarray(values, dtype=np.float64)
    if size.ndim != 1:
        raise ShapeError(f"the differences have shape {size.shape}, expected (n,); choose one output")
    known = size[np.isfinite(size)]
    squares = None if expected is None else vector(expected, "the expected squares", len(size))
    ax = new_or(ax)
    if not len(known):
        return nothing(ax, "no rows")
    n_bins = int(np.clip(np.ceil(2 * len(known) ** (1 / 3)), 1, _MOST_BINS))
    ax.hist(known, bins=n_bins, color=COLOURS[6], edgecolor="white", linewidth=0.6, zorder=2)
    tidy(ax)
    ax.axvline(0.0, color=DARK, linewidth=0.8, zorder=3)
    mean = float(known.mean())
    ax.axvline(mean, color=COLOURS[2], linewidth=2.0, zorder=4, label=f"mean {number(mean)}")
    _both_sides(ax, float(np.sqrt(np.mean(known**2))), "--", "RMS")
    if squares is not None:
        _both_sides(ax, float(np.sqrt(mean_of(squares))), ":", "RMS under noise")
    x_label(ax, "difference of the predictions")
    ax.set_ylabel("rows")
    ax.set_ylim(top=1.35 * ax.get_ylim()[1])  # room for the legend
    ax.legend(loc="upper right", facecolor="white", edgecolor="none", fontsize=row_font(ax, 12))
    lost = len(size) - len(known)
    note(ax, noise, f"{count(lost, 'row')} with NaN left out" if lost else "")
    return ax


def drivers(
    gaps: ArrayLike,
    feature_names: Sequence[str] | None = None,
    *,
    changed: ArrayLike | None = None,
    max_features: int = 12,
    noise: Noise | str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws which features move the difference of two models, by the gap of each one alone.

    Use it to see where to look after a model was trained anew. A bar is the mean gap of a feature over all
    rows, in percent of the sum over features; a diamond is the same over the rows that changed most.

    Parameters
    ----------
    gaps : (n, d) array
        The gap of each feature alone in each row: `scores` of `rank(X, "single")` of an explainer of
        `predgap.difference(f, g)`.
    feature_names : sequence of d strings, or None, default=None
        The names of the features; None for f0, f1, ...
    changed : (n,) booleans, or None, default=None
        Which rows changed most.
    max_features : int, default=12
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
        If gaps, names and rows do not fit each other.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = drivers([[1.0, 3.0], [1.0, 5.0]], ["age", "bmi"], changed=[True, False], ax=Figure().subplots())
    >>> [text.get_text() for text in ax.get_yticklabels()], [text.get_text() for text in ax.texts]
    (['bmi', 'age'], ['80.0 %', '20.0 %'])
    """
    size = two_dimensional(gaps, "gaps")
    n, d = size.shape
    if feature_names is not None and len(feature_names) != d:
        raise ShapeError(f"there are {len(feature_names)} feature names for {count(d, 'column')} of gaps")
    marked = None if changed is None else vector(changed, "changed", n).astype(np.bool_)
    share = _shares(size)
    order = np.argsort(-share, kind="stable")[: max(1, max_features)]
    n_lines = len(order) + (d > len(order))
    ax = new_or(ax, height=1.4 + 0.34 * n_lines)
    if not n or not d:
        return nothing(ax, "no features" if n else "no rows")
    if np.isnan(share).all():
        return nothing(ax, "no feature moves the difference")
    font = row_font(ax, n_lines)
    ax.barh(range(len(order)), share[order], height=0.62, color=COLOURS[6], zorder=2, label="all rows")
    for at, j in enumerate(order):
        text = f"{share[j]:.1f} %"
        ax.text(1.01, at, text, transform=ax.get_yaxis_transform(), va="center", fontsize=font)
    if marked is not None and marked.any():
        which = "row" if marked.sum() == 1 else f"{marked.sum()} rows"
        ax.scatter(
            _shares(size[marked])[order],
            range(len(order)),
            s=60,
            color=COLOURS[2],
            marker=MARKERS[2],
            edgecolors="white",
            zorder=4,
            label=f"the {which} that changed most",
        )
        legend(ax, 2)
    tidy(ax)
    ax.grid(visible=False, axis="y")
    names = row_labels(ax, names_or_default(d, feature_names), font)
    more = [f"and {d - len(order)} more"] if d > len(order) else []
    ax.set_yticks(range(n_lines), [names[j] for j in order] + more, fontsize=font)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(n_lines - 0.5, -0.5)
    x_label(ax, "share of the gaps of single features, %")
    note(ax, noise)
    return ax


def _shares(gaps: FloatArray) -> FloatArray:
    """The mean gap of each feature in percent of the sum of all, (d,); NaN if that is 0."""
    mean = mean_of(gaps)
    total = float(np.nansum(mean))
    return 100 * mean / total if total > 0 else np.full(len(mean), np.nan)


def _both_sides(ax: Axes, at: float, line: str, name: str) -> None:
    for side, text in ((at, f"{name} {number(at)}"), (-at, None)):
        ax.axvline(side, color=DARK, linewidth=1.2, linestyle=line, zorder=3, label=text)
