"""The texts and tables of the page: what can be read without a script."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import narwhals as nw
import numpy as np

from predgap._typing import FloatArray
from predgap.report._embedded import name, thinned
from predgap.report._numbers import column, number, percent

if TYPE_CHECKING:
    from predgap.evaluation import Evaluation

N_LOOKS: Final = 7  # colours, markers and dashes, as in predgap.plots
_SHOWN_FEATURES: Final = 20
_LISTED_FEATURES: Final = 200
_SHADES: Final = 9  # of a matrix


@dataclass(frozen=True, slots=True)
class Cell:
    """A number in a matrix: its text, and how dark it is, from 0 to 8."""

    text: str
    shade: int


@dataclass(frozen=True, slots=True)
class Line:
    """A ranking on the leaderboard. Positions are in percent of the width of the chart."""

    ranking: int
    name: str
    normalized: str
    mean: str
    low: str
    high: str
    pgu2: str
    won: str
    at: float
    at_low: float
    at_high: float


@dataclass(frozen=True, slots=True)
class Leaderboard:
    lines: tuple[Line, ...]
    random: str
    best: str
    at_random: float
    at_best: float


@dataclass(frozen=True, slots=True)
class Feature:
    """A line of the table of features: the gap when it moves alone, and its mean place in each ranking."""

    name: str
    gap: str
    width: float
    places: tuple[Cell, ...]


def leaderboard(evaluation: Evaluation) -> Leaderboard:
    """The rankings, the highest mean score first, on a scale that has random and best on it."""
    rows = sorted(enumerate(evaluation.summary), key=lambda row: -row[1]["mean"])
    random, best = float(evaluation.random.mean()), float(evaluation.best.mean())
    numbers = [random, best, *(row[key] for _, row in rows for key in ("low", "high", "mean"))]
    texts = column(numbers)
    finite = [number for number in numbers if math.isfinite(number)]
    low, high = min(finite), max(finite)

    def at(score: float) -> float:
        share = (score - low) / (high - low) if high > low else 0.5
        return round(4 + 92 * (share if math.isfinite(share) else 0.0), 2)

    pgu2 = column([row.get("pgu2", math.nan) for _, row in rows])
    lines = [
        Line(
            ranking=i,
            name=name(row["ranking"]),
            normalized=percent(row["normalized"]),
            low=texts[2 + 3 * line],
            high=texts[3 + 3 * line],
            mean=texts[4 + 3 * line],
            pgu2=pgu2[line],
            won=percent(row["share_won"]),
            at=at(row["mean"]),
            at_low=at(row["low"]),
            at_high=at(row["high"]),
        )
        for line, (i, row) in enumerate(rows)
    ]
    return Leaderboard(tuple(lines), texts[0], texts[1], at(random), at(best))


def curve_table(evaluation: Evaluation) -> tuple[list[int], list[tuple[str, list[str]]]]:
    """Some places, and the mean gap of each ranking when that many features move."""
    places = thinned(evaluation.curves.shape[2], 6, 3)
    at = np.array(places) - 1
    means = np.vstack([evaluation.curves.mean(axis=1), evaluation.best_curve.mean(axis=0)])[:, at]
    texts = column(means.ravel())
    names = [*map(name, evaluation.names), "best"]
    width = len(places)
    return places, [(text, texts[i * width : (i + 1) * width]) for i, text in enumerate(names)]


def matrix(values: FloatArray) -> list[list[Cell]]:
    """Shares or correlations as percentages without their sign, darker towards 1."""
    return [[_share(float(value)) for value in row] for row in np.asarray(values)]


def sweep_table(evaluation: Evaluation) -> list[tuple[str, list[str], str]]:
    """For each strength: its text, the mean score of each ranking, and the ranking with the highest."""
    sweep = evaluation.sweep
    if sweep is None:
        return []
    texts = [column(means) for means in sweep.mean.T]
    return [
        (f"{strength:g}", [of[s] for of in texts], name(sweep.order[s, 0]))
        for s, strength in enumerate(sweep.strengths)
    ]


def features(evaluation: Evaluation) -> tuple[list[Feature], list[Feature], int]:
    """The features with the largest gaps when they move alone, those after them, and how many are not listed."""
    means = evaluation.single.mean(axis=0)
    order = np.argsort(-means, kind="stable")[:_LISTED_FEATURES]
    texts, largest = column(means[order]), float(means.max(initial=0.0))
    places = [_mean_places(evaluation.rankings[key].ranks) for key in evaluation.names]
    names, k = evaluation.best_ranking.names, evaluation.curves.shape[2]
    listed = [
        Feature(
            name(names[j]),
            text,
            round(100 * float(means[j]) / largest, 1) if largest > 0 else 0.0,
            tuple(_place(float(of[j]), k) for of in places),
        )
        for j, text in zip(order, texts, strict=True)
    ]
    return listed[:_SHOWN_FEATURES], listed[_SHOWN_FEATURES:], len(means) - len(listed)


def noise_table(noise: Any) -> tuple[list[str], list[list[str]], int]:
    """The header, rows and number of rows left out of what `noise.describe()` returned; empty for a text."""
    if isinstance(noise, str) or noise is None:
        return [], [], 0
    frame = nw.from_native(noise, eager_only=True)
    columns = {label: frame[label].to_list() for label in frame.columns}
    kept = [label for label in ("column", "kind", "law", "relative_move") if label in columns] or list(columns)
    rows = list(zip(*(columns[label] for label in kept), strict=True))
    texts = [[_cell(cell) for cell in row] for row in rows[:_LISTED_FEATURES]]
    return [_HEADINGS.get(label, label) for label in kept], texts, len(rows) - len(texts)


def facts(description: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was examined, as terms and texts, without what has a place of its own on the page."""
    return [
        (_TERMS.get(key, key.replace("_", " ")), text)
        for key, item in description.items()
        if key != "noise" and (text := _fact(item))
    ]


_HEADINGS: Final = {
    "column": "Column",
    "kind": "Kind",
    "law": "How it moves",
    "relative_move": "Move in standard deviations",
}
_TERMS: Final = {"version": "predgap version", "rows_given": "rows given"}

OBTAINED: Final = {
    "pgi2": "PGI² of the rankings",
    "pgu2": "PGU² of the rankings",
    "curves": "Gaps along the rankings",
    "random": "The random ranking",
    "best": "The best ranking",
    "single": "Gaps of single features",
    "sweep": "Scores by strength",
}


def obtained(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Each kind of number, and how it was obtained."""
    return [(OBTAINED.get(key, key.replace("_", " ")), how) for key, how in evaluation.obtained.items()]


# ---- small pieces --------------------------------------------------------------------------------


def _fact(item: Any) -> str:
    if item is None or item == "":
        return ""
    if isinstance(item, Mapping):
        return ", ".join(f"{key}: {_fact(part)}" for key, part in item.items() if part is not None)
    if isinstance(item, float):
        return number(item)
    if isinstance(item, Iterable) and not isinstance(item, str):
        return ", ".join(map(str, item))
    return str(item)


def _cell(cell: Any) -> str:
    return number(cell, 3) if isinstance(cell, float | np.floating) else name(str(cell))


def _share(value: float) -> Cell:
    if not math.isfinite(value):
        return Cell("–", 0)
    shade = round(max(0.0, min(1.0, value)) * (_SHADES - 1))
    return Cell(percent(value).removesuffix(" %"), shade)


def _mean_places(ranks: Any) -> FloatArray:
    """The mean place of each feature over the rows in which it has one; NaN if there is none."""
    given = ranks > 0
    return np.where(given.any(axis=0), ranks.sum(axis=0) / np.maximum(1, given.sum(axis=0)), np.nan)


def _place(mean: float, n_places: int) -> Cell:
    if math.isnan(mean):
        return Cell("–", 0)
    share = 1.0 - (mean - 1.0) / max(1, n_places - 1)
    text = f"{mean:.1f}" if mean < 99.95 else f"{mean:.0f}"
    return Cell(text, round(share * (_SHADES - 1)))

