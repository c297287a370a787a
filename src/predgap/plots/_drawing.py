"""The parts that all plots share: figures, names, colours, and the small line that names the noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike

from predgap._tables import shortened
from predgap._text import printable, shown
from predgap._typing import FloatArray
from predgap.errors import DependencyError, NoiseError, ShapeError
from predgap.noise import Noise, Relative

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS: Final = ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#767676", "#CC79A7", "#56B4E9")
MARKERS: Final = "osD^Xv*"
FAINT: Final = "#E4E4E4"
BAND: Final = "#EFEFEF"
MUTED: Final = "#555555"
DARK: Final = "#1A1A1A"
ESTIMATED: Final = ("pruned", "qmc", "mc")
"""Estimators without a proven error."""

_DASHES: Final = ("-", "--", "-", "-.", ":", "--", "-.")
_LONGEST: Final = 32  # characters of a name
_LONGEST_NOISE: Final = 60
_NOTE_SIZE: Final = 7.5  # points
_WIDE: Final = 0.55  # the width of a letter, in font sizes


# ---- figures -------------------------------------------------------------------------------------


def new_or(ax: Axes | None, width: float = 6.4, height: float = 4.8) -> Axes:
    """The axes that were given, or those of a new figure of this size in inches."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise DependencyError("a picture needs matplotlib; try: pip install matplotlib") from None
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def tidy(ax: Axes) -> None:
    """Faint lines behind the data, and no frame at the top and the right."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color=FAINT, linewidth=0.8)
    ax.set_axisbelow(True)


def nothing(ax: Axes, why: str) -> Axes:
    """Axes that say why nothing is drawn."""
    ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", va="center", color=MUTED)
    return ax


def note(ax: Axes, noise: Noise | str | None, *more: str) -> None:
    """A small line below the axes: the noise, and what else must be said."""
    parts = [*([] if noise is None else [f"noise: {noise_name(noise)}"]), *filter(None, more)]
    if parts:
        letters = 1.3 * inches(ax)[0] * 72 / (_NOTE_SIZE * _WIDE)  # it may begin below the labels of rows
        ax.annotate(
            label(" · ".join(parts), max(30, int(letters))),
            xy=(1, 0),
            xycoords=("axes fraction", ax.xaxis.label),
            xytext=(0, -3),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=_NOTE_SIZE,
            color=MUTED,
        )


def row_font(ax: Axes, n_rows: float) -> float:
    """The font size for the labels of rows below each other, so that they fit into axes of this size."""
    from matplotlib import rcParams

    width, height = inches(ax)
    fits = min(0.75 * 72 * height / max(1, n_rows), 72 * width / 26)
    return float(np.clip(fits, 5.0, rcParams["font.size"]))


def row_labels(ax: Axes, names: Sequence[Any], size: float) -> list[str]:
    """Names of rows, cut so that they leave most of the width to the axes."""
    return labels(names, int(np.clip(0.4 * 72 * inches(ax)[0] / (size * _WIDE), 10, _LONGEST)))


def x_label(ax: Axes, text: str) -> None:
    """The label of the horizontal axis, in smaller letters if it would be wider than the axes."""
    from matplotlib import rcParams

    fits = 72 * inches(ax)[0] / (_WIDE * len(text))
    ax.set_xlabel(text, fontsize=float(np.clip(fits, 6.0, rcParams["font.size"])))


def legend(ax: Axes, n_entries: int, **options: Any) -> None:
    """A legend in the lower right corner, which covers at most about half of the height."""
    size = row_font(ax, 2.4 * n_entries)
    ax.legend(frameon=False, loc="lower right", fontsize=size, title_fontsize=size, **options)


def inches(ax: Axes) -> tuple[float, float]:
    """The width and the height of the axes."""
    box = ax.get_window_extent()
    return float(box.width / ax.figure.dpi), float(box.height / ax.figure.dpi)


# ---- names ---------------------------------------------------------------------------------------


def label(text: Any, longest: int | None = None) -> str:
    r"""A name escaped for matplotlib: dollars do not start a formula, invisible characters are written out.

    Examples
    --------
    >>> print(label("cost_in_$ and $"))
    cost_in_\$ and \$
    >>> label("a_name_that_is_much_too_long", 11)
    'a_nam…_long'
    """
    whole = printable(str(text))
    return (whole if longest is None else shortened(whole, longest)).replace("$", r"\$")


def labels(names: Sequence[Any], longest: int = _LONGEST) -> list[str]:
    """Names escaped and cut; those that are no longer different have their numbers after them.

    Examples
    --------
    >>> labels(["age", "sum_of_1_payments_in_2020", "sum_of_2_payments_in_2020"], 15)
    ['age', 'sum_of_…in_2020 [1]', 'sum_of_…in_2020 [2]']
    """
    cut = [label(name, longest) for name in names]
    often = Counter(cut)
    return [f"{name} [{at}]" if often[name] > 1 else name for at, name in enumerate(cut)]


def number(value: float) -> str:
    """A number with three digits; large ones in full as long as they are short.

    Examples
    --------
    >>> number(0.012345), number(-1.5), number(1234.5), number(1.5e9)
    ('0.0123', '−1.5', '1,234', '1.5e+09')
    """
    text = f"{value:,.0f}" if 999.5 <= abs(value) < 999_999.5 else f"{value:.3g}"
    return text.replace("-", "−")


def noise_name(noise: Noise | str) -> str:
    """A short name of a noise.

    Examples
    --------
    >>> from predgap import Normal
    >>> noise_name(Relative([[1.0], [2.0]], 0.3)), noise_name(Normal(0.5)), noise_name(Normal([0.5, 0.1]))
    ('Relative, strength 0.3', 'Normal(0.5)', 'Normal')
    """
    if isinstance(noise, str):
        return noise
    if not isinstance(noise, Noise):
        raise NoiseError(f"noise is {shown(noise)}, expected a Noise, its name or None")
    if isinstance(noise, Relative):
        return f"Relative, strength {noise.strength:g}"
    text = repr(noise)
    plain = len(text) <= _LONGEST_NOISE and not any(mark in text for mark in ("[", "\n", " at 0x"))
    return text if plain else type(noise).__name__


# ---- marks ---------------------------------------------------------------------------------------


def style(place: int) -> dict[str, Any]:
    """Colour, marker and line style of the method at this place; the 8th to 14th have hollow markers."""
    turn = place % len(COLOURS)
    hollow = {"markerfacecolor": "white"} if place // len(COLOURS) % 2 else {}
    return {
        "color": COLOURS[turn],
        "marker": MARKERS[turn],
        "linestyle": _DASHES[turn],
        "linewidth": 1.8,
        **hollow,
    }


# ---- arrays --------------------------------------------------------------------------------------


def two_dimensional(
    values: ArrayLike, what: str, shape: tuple[int | None, int | None] = (None, None)
) -> FloatArray:
    """Numbers as an array of two dimensions; ShapeError unless they have this shape, None for any."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or any(b is not None and a != b for a, b in zip(array.shape, shape, strict=True)):
        expected = ", ".join("any" if n is None else str(n) for n in shape)
        raise ShapeError(f"{what} has shape {array.shape}, expected ({expected})")
    return array


def vector(values: ArrayLike, what: str, length: int) -> FloatArray:
    """Numbers as an array of this length; ShapeError if they are not."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (length,):
        raise ShapeError(f"{what} has shape {array.shape}, expected ({length},)")
    return array


def mean_of(values: ArrayLike) -> FloatArray:
    """The mean over the first axis of the entries that are numbers; NaN where there are none."""
    array = np.asarray(values, dtype=np.float64)
    known = np.isfinite(array)
    total: FloatArray = np.where(known, array, 0.0).sum(axis=0)
    n = known.sum(axis=0)
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)
