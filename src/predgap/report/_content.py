"""The texts and tables of the page: what can be read without a script."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from predgap._typing import FloatArray
from predgap.report._embedded import name, thinned
from predgap.report._numbers import column, number, percent

if TYPE_CHECKING:
    from predgap.evaluation import Evaluation

N_LOOKS: Final = 7  # colours, markers and dashes, as in predgap.plots
_SHOWN_FEATURES: Final = 20
_LISTED_FEATURES: Final = 200
_SHARES: Final = ("normalized", "normalized_low", "normalized_high")
_SHADES: Final = 9  # of a matrix


@dataclass(frozen=True, slots=True)
class Cell:
    """A number in a matrix: its text, and how dark it is, from 0 to 8."""

    text: str
    shade: int


@dataclass(frozen=True, slots=True)
class Line:
    """A ranking on the leaderboard. `share` is the interval of `normalized`, `low` and `high` that of `mean`;
    positions are in percent of the width of the chart."""

    ranking: int
    name: str
    normalized: str
    share: str
    mean: str
    low: str
    high: str
    pgu2: str
    first: str
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
    """The rankings, the highest mean score first, on the scale from random (0) to best (1)."""
    rows = sorted(enumerate(evaluation.summary), key=lambda row: -row[1]["mean"])
    random, best = float(evaluation.random.mean()), float(evaluation.best.mean())
    texts = column([random, best, *(row[key] for _, row in rows for key in ("mean", "low", "high"))])
    pgu2 = column([row["pgu2"] for _, row in rows])
    ends = [0.0, 1.0, *(row[key] for _, row in rows for key in _SHARES if math.isfinite(row[key]))]
    low, high = min(ends), max(ends)

    def at(share: float) -> float:
        return round(4 + 92 * (share - low) / (high - low), 2) if math.isfinite(share) else 50.0

    lines = [
        Line(
            ranking=i,
            name=name(row["ranking"]),
            normalized=percent(row["normalized"]),
            share=_interval(row["normalized_low"], row["normalized_high"]),
            mean=texts[2 + 3 * line],
            low=texts[3 + 3 * line],
            high=texts[4 + 3 * line],
            pgu2=pgu2[line],
            first=percent(row["first_moves_most"]),
            won=percent(row["share_won"]),
            at=at(row["normalized"]),
            at_low=at(row["normalized_low"]),
            at_high=at(row["normalized_high"]),
        )
        for line, (i, row) in enumerate(rows)
    ]
    return Leaderboard(tuple(lines), texts[0], texts[1], at(0.0), at(1.0))


def curve_table(evaluation: Evaluation) -> tuple[list[int], list[tuple[str, list[str]]]]:
    """Some places, and the mean gap of each ranking when that many features move."""
    places = thinned(evaluation.curves.shape[2], 6, 3)
    at = np.array(places) - 1
    scale = [of.mean(axis=0) for of in (evaluation.best_curve, evaluation.random_curve)]
    means = np.vstack([evaluation.curves.mean(axis=1), *scale])[:, at]
    texts = column(means.ravel())
    names = [*map(name, evaluation.names), "best", "random (estimated)"]
    width = len(places)
    return places, [(text, texts[i * width : (i + 1) * width]) for i, text in enumerate(names)]


def matrix(values: FloatArray) -> list[list[Cell]]:
    """Shares or correlations as percentages without their sign, darker towards 1."""
    return [[_share(float(value)) for value in row] for row in np.asarray(values)]


def sweep_table(evaluation: Evaluation) -> tuple[list[str], list[tuple[str, list[Cell]]]]:
    """The strengths, and for each ranking its mean score at each, in percent of the highest there."""
    sweep = evaluation.sweep
    if sweep is None:
        return [], []
    highest = sweep.mean.max(axis=1, keepdims=True)
    shares = np.divide(sweep.mean, highest, out=np.full(sweep.mean.shape, np.nan), where=highest > 0)
    rows = [(name(text), cells) for text, cells in zip(sweep.names, matrix(shares.T), strict=True)]
    return [f"{strength:g}" for strength in sweep.strengths], rows


def features(evaluation: Evaluation) -> tuple[list[Feature], list[Feature], int]:
    """The features with the largest gaps alone, those after them, and how many are not listed."""
    means = evaluation.single.mean(axis=0)
    order = np.argsort(-means, kind="stable")[:_LISTED_FEATURES]
    texts, largest = column(means[order]), float(means.max(initial=0.0))
    places = [_mean_places(evaluation.rankings[key].ranks) for key in evaluation.names]
    names, k = evaluation.feature_names, evaluation.curves.shape[2]
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


def noise_table(columns: Mapping[str, list[Any]] | None) -> tuple[list[str], list[list[str]], int]:
    """Header, rows and how many are left out, of what `noise.describe()` says; empty if nothing."""
    kept = [label for label in _HEADINGS if label in (columns or {})]
    if not columns or not kept:
        return [], [], 0
    rows = list(zip(*(columns[label] for label in kept), strict=True))
    texts = [[_cell(cell) for cell in row] for row in rows[:_LISTED_FEATURES]]
    return [_HEADINGS[label] for label in kept], texts, len(rows) - len(texts)


def facts(description: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was examined, as terms and texts, without what has a place of its own on the page."""
    known = [(term, show(description, description.get(key))) for key, (term, show) in _FACTS.items()]
    others = [key for key in description if key not in _FACTS and key not in _USED]
    rest = [(_capital(key.replace("_", " ")), _fact(description[key])) for key in others]
    return [(term, text) for term, text in known + rest if text]


_HEADINGS: Final = {
    "column": "Column",
    "kind": "Kind",
    "law": "How it moves",
    "relative_move": "Move in standard deviations",
}
_OBTAINED: Final = {
    "pgi2": "PGI² of the rankings",
    "pgu2": "PGU² of the rankings",
    "curves": "Gaps along the rankings",
    "random": "The random ranking",
    "best": "The best ranking",
    "random_curve": "Curve of random rankings",
    "single": "Gaps of single features",
    "sweep": "Scores by strength",
    "intervals": "Intervals",
    "differences": "Differences between rankings",
}


def obtained(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Each kind of number, and how it was obtained."""
    return [
        (_OBTAINED.get(key, _capital(key.replace("_", " "))), how) for key, how in evaluation.obtained.items()
    ]


# ---- facts ---------------------------------------------------------------------------------------


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _fact(item: Any) -> str:
    if item is None or item == "":
        return ""
    if isinstance(item, Mapping):
        return ", ".join(f"{key}: {_fact(part)}" for key, part in item.items() if part is not None)
    if isinstance(item, int | float):
        return f"{item:,}" if isinstance(item, int) else f"{item:g}"
    if isinstance(item, Iterable) and not isinstance(item, str):
        return ", ".join(map(str, item))
    return str(item)


def _plain(description: Mapping[str, Any], item: Any) -> str:
    return _fact(item)


def _of(whole: str, all_too: bool = True) -> Callable[[Mapping[str, Any], Any], str]:
    """Shows a number, and of how many it is; if it is all of them, only if asked."""

    def show(description: Mapping[str, Any], part: Any) -> str:
        all_of_them = description.get(whole, part)
        if part == all_of_them:
            return _fact(part) if all_too else ""
        return f"{_fact(part)} of {_fact(all_of_them)}"

    return show


def _seconds(description: Mapping[str, Any], item: Any) -> str:
    return f"{item:g} s" if item else ""


_USED: Final = ("noise", "noise_table", "units", "of_rows")  # shown elsewhere, or with another one
_FACTS: Final[dict[str, tuple[str, Callable[[Mapping[str, Any], Any], str]]]] = {
    "model": ("Model", _plain),
    "trees": ("Trees", _plain),
    "features": ("Features of the model", _plain),
    "places": ("Places that count", _of("units", all_too=False)),
    "rows": ("Rows", _of("of_rows")),
    "output": ("Output", _plain),
    "rtol": ("Tolerance", _plain),
    "seed": ("Seed", _plain),
    "budget": ("Budget", _seconds),
    "version": ("predgap version", _plain),
}


# ---- small pieces --------------------------------------------------------------------------------


def _interval(low: float, high: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return "no interval"
    return f"{percent(low).removesuffix(' %')} to {percent(high)}"


def _cell(cell: Any) -> str:
    return number(float(cell), 3) if isinstance(cell, float | np.floating) else name(str(cell))


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
