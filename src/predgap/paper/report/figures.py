"""Pictures of experiments, as SVG: the same numbers give the same bytes."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from predgap.errors import DependencyError
from predgap.paper.common.results import Result
from predgap.paper.experiments.clocks import TOGETHER
from predgap.paper.experiments.equal_time import sampling_line
from predgap.paper.experiments.precision import METHODS
from predgap.paper.report.page import Figure
from predgap.paper.report.words import DATASET_NAMES, METHOD_NAMES, ranking_name
from predgap.plots._drawing import label, style, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

_WIDTH: Final = 10.0  # inches


def error_figure(precision: Result, kind: str, dataset: str) -> Figure:
    """NMAE against the number of iterations, a panel for each σ."""
    rows = precision.where(kind=kind, dataset=dataset)
    scales = sorted({row["scale"] for row in rows})
    canvas, axes = _panels(len(scales))
    for ax, scale in zip(axes, scales, strict=True):
        for place, method in enumerate(METHODS):
            curve = [
                (row["iterations"], row["nmae"], row["standard_error"])
                for row in rows
                if (row["scale"], row["method"]) == (scale, method) and row["nmae"]
            ]
            if curve:
                counts, errors, spread = zip(*curve, strict=True)
                ax.errorbar(
                    counts, errors, yerr=spread, label=METHOD_NAMES[method], markersize=3, **style(place)
                )
        ax.set(xscale="log", yscale="log", title=f"σ = {scale:g}", xlabel="iterations")
        tidy(ax)
    axes[0].set_ylabel("NMAE")
    axes[0].legend(frameon=False)
    title = f"{kind} model, {DATASET_NAMES.get(dataset, dataset)}"
    return Figure(
        f"nmae-{kind.lower()}-{dataset}",
        _svg(canvas),
        f"NMAE of sampled gaps, with its standard error over {rows[0]['n_pairs']:,} pairs: {title}",
    )


def time_figure(precision: Result, clocks: Result, kind: str) -> Figure:
    """NMAE against the time that sampling needs, and the time of an exact gap, at σ = 0.3 or the like."""
    chosen = precision.where(kind=kind)
    scale = sorted({row["scale"] for row in chosen})[len({row["scale"] for row in chosen}) // 2]
    datasets = list(dict.fromkeys(row["dataset"] for row in chosen))
    canvas, axes = _panels(len(datasets))
    for ax, dataset in zip(axes, datasets, strict=True):
        where = {"kind": kind, "dataset": dataset, "scale": scale}
        for place, method in enumerate(METHODS):
            time = sampling_line(clocks, TOGETHER, method, **where)
            curve = [
                (time(row["iterations"]) * 1e6, row["nmae"])
                for row in precision.where(method=method, **where)
                if row["nmae"]
            ]
            ax.plot(*zip(*curve, strict=True), label=METHOD_NAMES[method], markersize=3, **style(place))
        (exact,) = clocks.where(method=TOGETHER, **where)
        ax.axvline(exact["seconds"] * 1e6, color="black", linewidth=1.2)
        ax.annotate("exact", (exact["seconds"] * 1e6, 1), xycoords=("data", "axes fraction"), va="top")
        ax.set(xscale="log", yscale="log", title=label(DATASET_NAMES.get(str(dataset), str(dataset))))
        ax.set_xlabel("µs per gap")
        tidy(ax)
    axes[0].set_ylabel("NMAE")
    axes[0].legend(frameon=False, loc="lower left")
    caption = (
        f"Error against time, {kind} models, σ = {scale:g}, one thread. Sampling is charged its evaluation "
        "alone; the line is an exact gap computed together with others. Left of it, sampling is faster"
    )
    return Figure(f"time-{kind.lower()}", _svg(canvas), caption)


def advantage_figure(name: str, title: str, rows: Sequence[Mapping[str, Any]], unit: str) -> Figure:
    """Advantage of greedy over SHAP with its interval, a panel for each data set; right is greedy's side."""
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    canvas, axes = _panels(len(datasets), same_rows=True)
    for ax, dataset in zip(axes, datasets, strict=True):
        mine = [row for row in rows if row["dataset"] == dataset]
        for at, row in enumerate(mine):
            ax.plot([row["advantage_low"], row["advantage_high"]], [at, at], color="#0072B2")
            ax.plot([row["advantage"]], [at], color="#0072B2", marker="o", markersize=4)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set_yticks(range(len(mine)), [row["label"] for row in mine])
        ax.set(title=label(DATASET_NAMES.get(str(dataset), str(dataset))), xlabel=unit)
        tidy(ax)
    axes[0].invert_yaxis()  # of all panels
    return Figure(name, _svg(canvas), title)


def advantage_label(row: Mapping[str, Any]) -> str:
    """What a row of a table with advantages is about."""
    ranking = ranking_name(row["method"], row["scale"])
    return f"k = {row['k']}, {ranking}" if "k" in row else f"σ' = {row['evaluation_scale']:g}, {ranking}"


def _panels(n: int, *, same_rows: bool = False) -> tuple[Canvas, Any]:
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise DependencyError("a picture needs matplotlib; try: pip install matplotlib") from None
    canvas = Canvas(figsize=(_WIDTH * n / 3 if n < 3 else _WIDTH, 3.6), layout="constrained")
    axes = canvas.subplots(1, n, squeeze=False, sharey=same_rows)[0]
    for ax in axes:
        ax.title.set_fontsize("medium")
    return canvas, axes


def _svg(canvas: Canvas) -> bytes:
    from matplotlib import rc_context

    file = io.BytesIO()
    with rc_context({"svg.hashsalt": "predgap", "svg.fonttype": "none", "font.family": "sans-serif"}):
        canvas.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()
