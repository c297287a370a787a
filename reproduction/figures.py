"""What is drawn of each experiment.

A figure has several panels. It is drawn twice: for wide screens, and with a panel per line for narrow ones.
The same numbers give the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from predgap import DependencyError
from reproduction.experiments.clocks import TOGETHER
from reproduction.experiments.equal_time import sampling_line
from reproduction.experiments.precision import METHODS
from reproduction.helpers import printable
from reproduction.page import (
    METHOD_NAMES,
    Figure,
    Row,
    dataset_name,
    model_name,
    number,
    ranking_name,
    ranking_of,
    share,
    standing,
)
from reproduction.results import Result, Value

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Panel = tuple[str, Callable[[Any], None]]  # a title, and what draws on the axes

AHEAD: Final = "#0072B2"  # greedy's colour, as in all plots
BEHIND: Final = "#D55E00"  # SHAP's
NEITHER: Final = "#767676"

_COLOURS: Final = (AHEAD, "#E69F00", BEHIND, "#009E73", NEITHER, "#CC79A7")
_MARKERS: Final = "osD^Xv"
_DASHES: Final = ("-", "--", "-", "-.", ":", "--")

_WIDTH: Final = 10.0  # inches, of three panels
_NARROW: Final = 4.2
_COLUMNS: Final = 3
_LETTERS: Final = 12  # in an inch


def drawn(
    name: str,
    panels: Sequence[Panel],
    *,
    caption: str,
    alt: str,
    x: str = "",
    y: str = "",
    height: float = 2.9,
    same_y: bool = False,
    from_zero: bool = False,
) -> Figure:
    """A figure of panels that share names of axes and a legend; `height` is a panel's, in inches."""
    canvases = [
        _canvas(panels, columns, x=x, y=y, height=height, same_y=same_y, from_zero=from_zero)
        for columns in (_COLUMNS, 1)
    ]
    wide, narrow = map(_svg, canvases)
    return Figure(name, wide, narrow, caption, alt)


def _canvas(
    panels: Sequence[Panel], columns: int, *, x: str, y: str, height: float, same_y: bool, from_zero: bool
) -> Canvas:
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise DependencyError("a picture needs matplotlib; try: pip install matplotlib") from None
    columns = min(columns, len(panels))
    lines = ceil(len(panels) / columns)
    width = _NARROW if columns == 1 else _WIDTH * columns / _COLUMNS
    canvas = Canvas(figsize=(width, height * lines + 0.4), layout="constrained")
    grid = canvas.subplots(lines, columns, squeeze=False, sharey="row" if same_y else False)
    for place, (title, draw) in enumerate(panels):
        ax = grid[divmod(place, columns)]
        draw(ax)
        _tidy(ax)
        ax.minorticks_off()
        ax.set_title(_label(title), fontsize="medium")
        if place + columns >= len(panels):
            ax.set_xlabel(x)
        if place % columns == 0:
            ax.set_ylabel(y)
    if from_zero:  # now that all that shares an axis is drawn
        for ax in grid.flat:
            ax.set_ylim(bottom=0.0)
    for empty in grid.flat[len(panels) :]:
        empty.set_axis_off()
    _legend(canvas, grid[0, 0])
    return canvas


def _legend(canvas: Canvas, ax: Any) -> None:
    handles, names = ax.get_legend_handles_labels()
    if handles:
        fits = int(canvas.get_figwidth() * _LETTERS / (max(map(len, names)) + 7))
        canvas.legend(handles, names, loc="outside lower center", ncols=max(1, fits), frameon=False)


def _svg(canvas: Canvas) -> bytes:
    from matplotlib import rc_context

    file = io.BytesIO()
    with rc_context({"svg.hashsalt": "predgap", "svg.fonttype": "none", "font.family": "sans-serif"}):
        canvas.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def _tidy(ax: Any) -> None:
    """Faint lines behind the data, and no frame at the top and the right."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#E4E4E4", linewidth=0.8)
    ax.set_axisbelow(True)


def _label(text: str) -> str:
    """A name escaped for matplotlib: dollars do not start a formula, invisible characters are written out."""
    return printable(text).replace("$", r"\$")


def _style(place: int) -> dict[str, Any]:
    """Colour, marker and line style of a place in the palette."""
    return {
        "color": _COLOURS[place],
        "marker": _MARKERS[place],
        "linestyle": _DASHES[place],
        "linewidth": 1.8,
    }


def line(ax: Any, x: Sequence[float], y: Sequence[float], place: int, **options: Any) -> None:
    """A line in the style of a place in the palette."""
    ax.plot(x, y, **{"markersize": 4, **_style(place), **options})


_PLACES: Final[Mapping[Value, int]] = {None: 2, 0.1: 0, 0.3: 3, 1.0: 5}  # of σ in the palette; None: SHAP
_STANDING: Final = {"+": AHEAD, "−": BEHIND, "=": NEITHER}


# ---- sampling ------------------------------------------------------------------------------------


def error_figure(precision: Result, kind: str, dataset: str) -> Figure:
    """NMAE against the number of iterations, a panel for each σ."""
    rows = precision.where(kind=kind, dataset=dataset)
    panels = [
        (f"σ = {scale:g}", partial(_errors, [row for row in rows if row["scale"] == scale]))
        for scale in sorted({row["scale"] for row in rows})
    ]
    title = model_name(rows[0])
    return drawn(
        f"nmae-{kind.lower()}-{dataset}",
        panels,
        caption=f"{title}: NMAE of sampled gaps, with its standard error over {rows[0]['n_pairs']:,} pairs",
        alt=f"{title}: NMAE against iterations, a panel for each σ. {_error_words(rows)}",
        x="iterations",
        y="NMAE",
    )


def _errors(rows: Sequence[Row], ax: Any) -> None:
    for place, method in enumerate(METHODS):
        curve = [row for row in rows if row["method"] == method and row["nmae"]]
        if curve:
            counts, errors = _columns(curve, "iterations", "nmae")
            line(ax, counts, errors, place, label=METHOD_NAMES[method], markersize=3)
            colour = ax.lines[-1].get_color()
            spread = [row["standard_error"] for row in curve]
            ax.errorbar(counts, errors, yerr=spread, fmt="none", ecolor=colour, elinewidth=1)
    ax.set(xscale="log", yscale="log")


def _error_words(rows: Sequence[Row]) -> str:
    """From which error to which each method gets."""
    said = []
    for method in METHODS:
        mine = [row for row in rows if row["method"] == method and row["nmae"]]
        if mine:
            few, many = (pick(mine, key=lambda row: row["iterations"])["iterations"] for pick in (min, max))
            first, last = (_span(mine, "nmae", iterations=count) for count in (few, many))
            said.append(f"{METHOD_NAMES[method]} {first} at {few:,} iterations, {last} at {many:,}")
    return "; ".join(said) + "."


def time_figure(precision: Result, clocks: Result, kind: str) -> Figure:
    """NMAE against the time that sampling needs, and the time of an exact gap, at σ = 0.3 or the like."""
    chosen = precision.where(kind=kind)
    scales = sorted({row["scale"] for row in chosen})
    scale = scales[len(scales) // 2]
    panels, times = [], []
    for dataset in dict.fromkeys(row["dataset"] for row in chosen):
        where = {"kind": kind, "dataset": dataset, "scale": scale}
        (exact,) = clocks.where(method=TOGETHER, **where)
        times.append(exact["seconds"] * 1e6)
        panels.append((dataset_name(dataset), partial(_times, precision, clocks, where, times[-1])))
    caption = (
        f"{kind} models, σ = {scale:g}: error against time, one thread. Sampling is charged its evaluation "
        "alone; the line is an exact gap computed together with others. Left of it, sampling is faster"
    )
    shown = " to ".join(dict.fromkeys((f"{min(times):.3g}", f"{max(times):.3g}")))
    alt = (
        f"{kind} models: NMAE of the sampling methods falls with the time for a gap; a vertical line marks "
        f"the exact gap, at {shown} µs."
    )
    return drawn(f"time-{kind.lower()}", panels, caption=caption, alt=alt, x="µs per gap", y="NMAE")


def _times(precision: Result, clocks: Result, where: Mapping[str, Any], exact: float, ax: Any) -> None:
    for place, method in enumerate(METHODS):
        time = sampling_line(clocks, TOGETHER, method, **where)
        curve = [row for row in precision.where(method=method, **where) if row["nmae"]]
        seconds = [time(row["iterations"]) * 1e6 for row in curve]
        line(ax, seconds, [row["nmae"] for row in curve], place, label=METHOD_NAMES[method], markersize=3)
    ax.axvline(exact, color="black", linewidth=1.2, label="exact")
    ax.set(xscale="log", yscale="log")


def stability_figure(stability: Result) -> Figure:
    """The share of gaps that Algorithm 1 gets wrong, by σ and arithmetic."""

    def draw(rows: Sequence[Row], ax: Any) -> None:
        for arithmetic, place in (("float32", 2), ("float64", 0)):
            mine = [row for row in rows if row["arithmetic"] == arithmetic]
            line(ax, range(len(mine)), [100 * row["wrong"] for row in mine], place, label=arithmetic)
            ax.set_xticks(range(len(mine)), [f"{row['scale']:g}" for row in mine])

    limit = share(stability.config["tolerance"])
    most = {
        name: share(max(row["wrong"] for row in stability.where(arithmetic=name))) for name in _ARITHMETIC
    }
    alt = (
        "A panel for each model: the share of wrong gaps falls as σ grows, and is higher in float32, up to "
        f"{most['float32']}, than in float64, up to {most['float64']}."
    )
    caption = f"Gaps of Algorithm 1 that are off by more than {limit}, in per cent of all pairs"
    panels = _by_model(stability.records(), draw)
    return drawn(
        "stability",
        panels,
        caption=caption,
        alt=alt,
        x="σ",
        y="wrong, %",
        height=2.4,
        same_y=True,
        from_zero=True,
    )


_ARITHMETIC: Final = ("float32", "float64")


def sampled_figure(sampled: Result) -> Figure:
    """How often rankings by sampling differ from exact greedy, by the number of samples."""
    scales = sorted({row["scale"] for row in sampled.records()})
    scale = scales[len(scales) // 2]
    rows = sampled.where(scale=scale)

    def draw(mine: Sequence[Row], ax: Any) -> None:
        for place, method in enumerate(METHODS):
            counts, order, first = _columns(
                [row for row in mine if row["method"] == method],
                "n_samples",
                "order_differs",
                "first_differs",
            )
            name = METHOD_NAMES[method]
            line(ax, counts, [100 * value for value in order], place, label=f"{name}: any place")
            hollow = {"markerfacecolor": "white", "linestyle": ":", "linewidth": 1.2}
            line(ax, counts, [100 * value for value in first], place, label=f"{name}: first place", **hollow)
        ax.set(xscale="log", ylim=(-4, 104))

    few, many = (pick(row["n_samples"] for row in rows) for pick in (min, max))
    alt = (
        "A panel for each model: the share of rows in which some place of the ranking differs is "
        f"{_span(rows, 'order_differs', n_samples=few)} with {few:,} samples a gap and "
        f"{_span(rows, 'order_differs', n_samples=many)} with {many:,}; in which the first place does, "
        f"{_span(rows, 'first_differs', n_samples=few)} and {_span(rows, 'first_differs', n_samples=many)}."
    )
    caption = f"Rows in which a sampled ranking differs from exact greedy, in per cent, σ = {scale:g}"
    panels = _by_model(rows, draw)
    shape: dict[str, Any] = {"x": "samples a gap", "y": "rows, %", "height": 2.4, "same_y": True}
    return drawn("sampled-rankings", panels, caption=caption, alt=alt, **shape)


# ---- greedy and SHAP -----------------------------------------------------------------------------


def agreement_figure(agreement: Result) -> Figure:
    """Agreement with SHAP by k, a line for each σ; bars are ranges over ties, rings what was printed."""

    rows = agreement.records()
    said = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        first, last = (_span(rows, "agreement", kind=kind, k=k) for k in _ends(rows, "k"))
        said.append(f"{kind} {first} at k = {_ends(rows, 'k')[0]} and {last} at k = {_ends(rows, 'k')[1]}")
    alt = f"A panel for each model, agreement with SHAP against k, a line for each σ: {'; '.join(said)}."
    caption = (
        "Share of test rows in which greedy and SHAP have the same k features at the top. Broad bars: the "
        "range over ties that float32 cannot tell apart. Rings: the printed numbers"
    )
    panels = _by_model(rows, _agreements)
    return drawn(
        "agreement",
        panels,
        caption=caption,
        alt=alt,
        x="k",
        y="agreement",
        height=2.6,
        same_y=True,
        from_zero=True,
    )


def _agreements(rows: Sequence[Row], ax: Any) -> None:
    for scale in dict.fromkeys(row["scale"] for row in rows):
        places, shares, lowest, highest = _columns(
            [row for row in rows if row["scale"] == scale],
            *("k", "agreement", "lowest_float32", "highest_float32"),
        )
        line(ax, places, shares, _PLACES.get(scale, 6), label=f"greedy σ = {scale:g}")
        ax.vlines(places, lowest, highest, color=ax.lines[-1].get_color(), linewidth=5, alpha=0.25)
    printed = [row for row in rows if row["published"] is not None]
    if printed:
        texts = [float(row["published"]) for row in printed]
        rings = {"marker": "o", "markersize": 9, "linestyle": "", "color": "black", "fillstyle": "none"}
        ax.plot([row["k"] for row in printed], texts, label="printed", **rings)
    ax.set_xticks(sorted({row["k"] for row in rows}))


def advantage_figure(name: str, rows: Sequence[Row], *, caption: str, unit: str) -> Figure:
    """Advantage of greedy over SHAP with its interval, a panel for each data set; right is greedy's side."""

    def draw(mine: Sequence[Row], ax: Any) -> None:
        for at, row in enumerate(mine):
            colour = _STANDING[standing(row)[0]]
            ax.plot([row["advantage_low"], row["advantage_high"]], [at, at], color=colour)
            ax.plot([row["advantage"]], [at], color=colour, marker="o", markersize=4)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set_yticks(range(len(mine)), [_advantage_label(row) for row in mine])
        ax.set_ylim(len(mine) - 0.5, -0.5)
        ax.locator_params(axis="x", nbins=4)

    panels = [
        (dataset_name(dataset), partial(draw, [row for row in rows if row["dataset"] == dataset]))
        for dataset in dict.fromkeys(row["dataset"] for row in rows)
    ]
    counts = ahead_and_behind(rows)
    alt = (
        f"{unit}, a panel for each data set: the interval lies right of 0, greedy's side, in {counts[0]} of "
        f"{len(rows)} cases and left of it in {counts[1]}."
    )
    legend = "Blue, right of 0: greedy is ahead; orange, left: SHAP; grey: neither; bars: 95 % intervals"
    return drawn(name, panels, caption=f"{caption}. {legend}", alt=alt, x=unit, height=3.2, same_y=True)


def ahead_and_behind(rows: Iterable[Row]) -> tuple[int, int]:
    """In how many rows greedy is ahead of SHAP, and in how many behind."""
    signs = [standing(row)[0] for row in rows if row["advantage"] is not None]
    return signs.count("+"), signs.count("−")


def _advantage_label(row: Row) -> str:
    """The subject of a row of a table with advantages."""
    what = f"k = {row['k']}" if "k" in row else f"σ' = {row['evaluation_scale']:g}"
    return f"{what}, {ranking_of(row)}"


def cayley_figure(cayley: Result) -> Figure:
    """Distances between rankings, and that of unrelated ones."""
    rows = cayley.where(features="all")

    def draw(mine: Sequence[Row], ax: Any) -> None:
        for at, row in enumerate(mine):
            colour = AHEAD if row["method"] == "shap" else NEITHER
            ax.plot([row["low"], row["high"]], [at, at], color=colour)
            ax.plot([row["distance"]], [at], color=colour, marker="o", markersize=4)
        ax.axvline(
            mine[0]["unrelated"], color="black", linestyle="--", linewidth=1, label="unrelated rankings"
        )
        ax.set_yticks(range(len(mine)), [pair_name(row) for row in mine])
        ax.set_ylim(len(mine) - 0.5, -0.5)
        ax.set_xlim(left=0)

    nearness = [row | {"near": row["distance"] / row["unrelated"]} for row in rows]
    alt = (
        "A panel for each model: as a share of the distance of unrelated rankings, SHAP and greedy are "
        f"{_span(nearness, 'near', method='shap')} apart, greedy rankings of different σ "
        f"{_span(nearness, 'near', method='greedy')}."
    )
    caption = (
        "Mean Cayley distance with its 95 % interval; blue: between SHAP and greedy, grey: between greedy"
    )
    panels = _by_model(rows, draw)
    return drawn("cayley", panels, caption=caption, alt=alt, x="swaps", height=2.6, same_y=True)


def pair_name(row: Row) -> str:
    """The two rankings that are compared."""
    other = ranking_name(row["other_method"], row["other_scale"])
    return f"{ranking_of(row)}, {other.removeprefix('greedy ') if row['method'] == 'greedy' else other}"


def entropy_figure(entropy: Result) -> Figure:
    """Entropy of the first k places, by ranking."""
    rows = entropy.where(features="all", reward="top k")

    def draw(mine: Sequence[Row], ax: Any) -> None:
        for scale in dict.fromkeys(row["scale"] for row in mine):
            some = [row for row in mine if row["scale"] == scale]
            places, bits = _columns(some, "k", "entropy")
            line(ax, places, bits, _PLACES.get(scale, 6), label=ranking_of(some[0]))
        ax.axhline(mine[0]["largest"], color="black", linestyle="--", linewidth=1, label="largest possible")
        ax.set_xticks(sorted({row["k"] for row in mine}))

    first, last = _ends(rows, "k")
    said = [
        f"{name} {_span(rows, 'entropy', method=method, k=first)} bits at k = {first} and "
        f"{_span(rows, 'entropy', method=method, k=last)} at k = {last}"
        for method, name in (("shap", "SHAP"), ("greedy", "greedy"))
    ]
    alt = f"A panel for each model, entropy against k, a line for each ranking: {'; '.join(said)}."
    caption = "Entropy of which features are among the first k, over test rows: lower, the more rows agree"
    panels = _by_model(rows, draw)
    return drawn(
        "entropy", panels, caption=caption, alt=alt, x="k", y="bits", height=2.5, same_y=True, from_zero=True
    )


# ---- small pieces --------------------------------------------------------------------------------


def _by_model(rows: Sequence[Row], draw: Callable[[Sequence[Row], Any], None]) -> list[Panel]:
    """A panel for each model, those of a kind beside each other."""
    models = list(dict.fromkeys((row["kind"], row["dataset"]) for row in rows))
    kinds = list(dict.fromkeys(kind for kind, _ in models))
    panels: list[Panel] = []
    for kind, dataset in sorted(models, key=lambda model: kinds.index(model[0])):
        mine = [row for row in rows if (row["kind"], row["dataset"]) == (kind, dataset)]
        panels.append((model_name(mine[0]), partial(draw, mine)))
    return panels


def _columns(rows: Sequence[Row], *names: str) -> list[list[Any]]:
    return [[row[name] for row in rows] for name in names]


def _ends(rows: Sequence[Row], name: str) -> tuple[Any, Any]:
    return min(row[name] for row in rows), max(row[name] for row in rows)


def _span(rows: Iterable[Row], name: str, **where: Value) -> str:
    """From the smallest to the largest number among the rows that have these values."""
    found = [row[name] for row in rows if all(row[key] == value for key, value in where.items())]
    low, high = number(min(found)), number(max(found))
    return low if low == high else f"{low} to {high}"
