"""Makes the texts, tables and numbers of the page of an Evaluation.

What can be read without a script is made first; then come the data of the script, as one JSON text of limited
size, and how numbers are written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from predgap._text import percent as whole_percent
from predgap._text import printable
from predgap._typing import FloatArray, IndexArray

if TYPE_CHECKING:
    from predgap import Sweep
    from predgap.evaluation import Evaluation

N_LOOKS: Final = 7  # colours, markers and dashes, as in predgap.plots
_SHOWN_FEATURES: Final = 20
_LISTED_FEATURES: Final = 200
_SHARES: Final = ("normalized", "normalized_low", "normalized_high")
_MATRIX_SHADES: Final = 9  # of a matrix


@dataclass(frozen=True, slots=True)
class Cell:
    """A number in a matrix: its text, and how dark it is, from 0 to 8."""

    text: str
    shade: int


@dataclass(frozen=True, slots=True)
class RankingLine:
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
    lines: tuple[RankingLine, ...]
    random: str
    best: str
    at_random: float
    at_best: float


@dataclass(frozen=True, slots=True)
class FeatureLine:
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
        RankingLine(
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


def features(evaluation: Evaluation) -> tuple[list[FeatureLine], list[FeatureLine], int]:
    """The features with the largest gaps alone, those after them, and how many are not listed."""
    means = evaluation.single.mean(axis=0)
    order = np.argsort(-means, kind="stable")[:_LISTED_FEATURES]
    texts, largest = column(means[order]), float(means.max(initial=0.0))
    places = [_mean_places(evaluation.rankings[key].ranks) for key in evaluation.names]
    names, k = evaluation.feature_names, evaluation.curves.shape[2]
    listed = [
        FeatureLine(
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
    """Lists what was examined, as terms and texts, without what has a place of its own on the page."""
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
    shade = round(max(0.0, min(1.0, value)) * (_MATRIX_SHADES - 1))
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
    return Cell(text, round(share * (_MATRIX_SHADES - 1)))


# ------------------------------------------------------------------------------------------------------------
# The page's script draws from the numbers of an Evaluation, as one JSON text of limited size.

LADDER_PLACES: Final = 12  # of a ladder; the rest is one step
_CURVE_PLACES: Final = 24  # of the curve of a row
_MEAN_PLACES: Final = 100  # of a mean curve
_LISTED_ROWS: Final = 2_000
_LISTED_SCORES: Final = 40_000
_DETAIL_BYTES: Final = 1_900_000
_ALL_VALUES: Final = 40  # features; with more, only values that a ladder shows are kept
_SWARM_FEATURES: Final = 20
_SWARM_ROWS: Final = 400
_SWARM_SHADES: Final = 7  # of the swarm, from low to high values
_LONGEST_NAME: Final = 120
_LONGEST_VALUE: Final = 40


def name(text: str) -> str:
    """A name from the data, on one line and not too long for a page."""
    return _cut(printable(str(text)), _LONGEST_NAME)


def embedded(evaluation: Evaluation) -> str:
    """The data of the page as JSON that can stand inside a script element: it has no `<`, `>` or `&`."""
    listed = most_disputed(evaluation)[: _n_listed(evaluation)]
    data = {
        "features": [name(text) for text in evaluation.feature_names],
        "rankings": [name(text) for text in evaluation.names],
        "n": len(evaluation.random),
        "disputing": disputing(evaluation),
        "curves": _mean_curves(evaluation),
        "rows": _rows(evaluation, listed),
        "details": _details(evaluation, listed),
        "swarm": _swarm(evaluation),
        "sweep": _sweep(evaluation),
    }
    return _script_safe(_compact(data))


def most_disputed(evaluation: Evaluation) -> IndexArray:
    """The rows, the one in which the scores of the rankings are furthest apart first."""
    scores = np.vstack([evaluation.scores["pgi2"], evaluation.best])[disputing(evaluation)]
    return np.argsort(-(scores.max(axis=0) - scores.min(axis=0)), kind="stable")


def disputing(evaluation: Evaluation) -> list[int]:
    """The rankings whose differences count: all but random ones. If it is only one, it and the best ranking,
    which has the number m."""
    names = evaluation.names
    meant = [i for i, key in enumerate(names) if evaluation.rankings[key].method != "random"]
    return meant if len(meant) > 1 else [*(meant or [0]), len(names)]


def thinned(n_places: int, most: int, first: int) -> list[int]:
    """Places from 1 to n: the first ones, then ever fewer, and always the last.

    Examples
    --------
    >>> thinned(5, most=10, first=3)
    [1, 2, 3, 4, 5]
    >>> thinned(1000, most=8, first=3)
    [1, 2, 3, 10, 31, 98, 313, 1000]
    """
    if n_places <= most:
        return list(range(1, n_places + 1))
    rest = np.geomspace(first, n_places, most - first + 1)[1:].round().astype(int).tolist()
    return sorted({*range(1, first + 1), *rest})


# ---- the parts -----------------------------------------------------------------------------------


def _mean_curves(evaluation: Evaluation) -> dict[str, Any]:
    places = thinned(evaluation.curves.shape[2], _MEAN_PLACES, 40)
    at = np.array(places) - 1
    return {
        "places": places,
        "means": rounded(evaluation.curves.mean(axis=1)[:, at], 5),
        "best": rounded(evaluation.best_curve.mean(axis=0)[at], 5),
        "random": rounded(evaluation.random_curve.mean(axis=0)[at], 5),
    }


def _n_listed(evaluation: Evaluation) -> int:
    m, n = evaluation.scores["pgi2"].shape
    return min(int(n), _LISTED_ROWS, max(1, _LISTED_SCORES // int(m)))


def _rows(evaluation: Evaluation, listed: IndexArray) -> dict[str, Any]:
    labels = evaluation.rows if evaluation.index is None else list(evaluation.index)
    return {
        "labels": [_cut(printable(str(labels[r])), _LONGEST_VALUE) for r in listed],
        "predictions": rounded(evaluation.predictions[listed], 5),
        "scores": rounded(evaluation.scores["pgi2"][:, listed], 5),
        "random": rounded(evaluation.random[listed], 5),
        "best": rounded(evaluation.best[listed], 5),
        "proven": evaluation.best_is_proven[listed].astype(int).tolist(),
        "firsts": [evaluation.rankings[key].order[listed, 0].tolist() for key in evaluation.names],
    }


def _details(evaluation: Evaluation, listed: IndexArray) -> dict[str, Any]:
    """Values, first places and curves of the rows, in the order in which they are listed, as far as the limit
    of bytes allows."""
    k = evaluation.curves.shape[2]
    places = thinned(k, _CURVE_PLACES, LADDER_PLACES)
    at, top = np.array(places) - 1, min(k, LADDER_PLACES)
    orders = [evaluation.rankings[key].order for key in evaluation.names] + [evaluation.best_ranking.order]
    curves = np.concatenate([evaluation.curves, evaluation.best_curve[None]])[:, :, at]
    kept, room = [], _DETAIL_BYTES
    for r in listed:
        order = np.array([of[r, :top] for of in orders])
        row = {
            "order": order.tolist(),
            "curves": rounded(curves[:, r]),
            "values": _values(evaluation, r, order),
        }
        room -= len(_compact(row).encode())
        if room < 0:
            break
        kept.append(row)
    return {"places": places, "top": top, "rows": kept}


def _values(evaluation: Evaluation, row: int, order: IndexArray) -> dict[int, str]:
    values = evaluation.table[row]
    wanted = range(len(values)) if len(values) <= _ALL_VALUES else np.unique(order).tolist()
    return {int(j): value(values[j]) for j in wanted}


def value(cell: Any) -> str:
    """A value of a row, for people."""
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell)).lower()
    if isinstance(cell, int | np.integer):
        return str(int(cell))
    if isinstance(cell, float | np.floating):
        return "missing" if np.isnan(cell) else f"{float(cell):.5g}".replace("-", "−")
    return _cut(printable(str(cell)), _LONGEST_VALUE) or "missing"  # a label; "" if it is missing


def _swarm(evaluation: Evaluation) -> dict[str, Any]:
    n = len(evaluation.single)
    features = np.argsort(-evaluation.single.mean(axis=0), kind="stable")[:_SWARM_FEATURES]
    rows = np.unique(np.linspace(0, n - 1, min(n, _SWARM_ROWS)).round().astype(int))
    return {
        "features": features.tolist(),
        "gaps": rounded(evaluation.single[np.ix_(rows, features)].T),
        "shades": [_shades(evaluation.table[rows, j], evaluation.values[rows, j]) for j in features],
        "n": n,
    }


def _shades(cells: Any, numbers: FloatArray) -> list[int] | None:
    """The place of each value among the others, from 0 (lowest) to 6; −1 where it is missing; None for labels
    and for groups."""
    missing = np.isnan(numbers)
    if missing.all() or any(isinstance(cell, str) for cell in cells):
        return None
    known = np.unique(numbers[~missing])
    place = np.searchsorted(known, numbers) / max(1, len(known) - 1)
    return [-1 if gone else round(p * (_SWARM_SHADES - 1)) for gone, p in zip(missing, place, strict=True)]


def _sweep(evaluation: Evaluation) -> dict[str, Any] | None:
    sweep = evaluation.sweep
    if sweep is None:
        return None
    return {
        "strengths": rounded(sweep.strengths, 6),
        "rankings": [name(text) for text in sweep.names],
        "means": rounded(sweep.mean, 5),
        "same": rounded(sweep.same_first_as_own, 3),
        "start": _own_strength(sweep),
    }


def _own_strength(sweep: Sweep) -> int:
    """The place of the strength at which rankings are most like those at the explainer's own noise; of equal
    ones that in the middle."""
    same, middle = sweep.same_first_as_own.mean(axis=1), (len(sweep.strengths) - 1) / 2
    return max(range(len(same)), key=lambda s: (same[s], -abs(s - middle)))


# ---- JSON ----------------------------------------------------------------------------------------


def _compact(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _script_safe(text: str) -> str:
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


# ------------------------------------------------------------------------------------------------------------
# Numbers are as people read them, and as short as the page's data needs them.

_MISSING: Final = "–"


def number(value: float, digits: int = 4) -> str:
    """A number with some significant digits, and a dash for NaN.

    Examples
    --------
    >>> number(1234.56), number(0.000123456), number(1e-9), number(0.0), number(float("nan"))
    ('1235', '0.0001235', '1e−9', '0', '–')
    """
    if math.isnan(value):
        return _MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e7:
        return _signed(f"{value:.{_decimals(value, digits)}f}")
    mantissa, _, exponent = f"{value:.{max(0, digits - 1)}e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return _signed(f"{mantissa}e{int(exponent)}")


def column(values: Iterable[float], digits: int = 4) -> list[str]:
    """The numbers of a column, all with the decimals that the largest needs, so that they can be compared.

    Examples
    --------
    >>> column([123.456, 7.891, 0.0001])
    ['123.5', '7.9', '0.0001']
    """
    numbers = [float(value) for value in values]
    largest = max((abs(value) for value in numbers if math.isfinite(value)), default=0.0)
    if not 1e-4 <= largest < 1e7:
        return [number(value, digits) for value in numbers]
    decimals = _decimals(largest, digits)
    return [_in_column(value, decimals) for value in numbers]


def percent(share: float) -> str:
    """A share in percent, without decimals, as in the verdict: 100 only if nothing is missing.

    Examples
    --------
    >>> percent(0.554), percent(-0.02), percent(0.999), percent(float("nan"))
    ('55 %', '−2 %', '99 %', '–')
    """
    return _MISSING if not math.isfinite(share) else _signed(f"{whole_percent(share)} %")


def rounded(values: Any, digits: int = 4) -> Any:
    """Nested lists of the numbers of an array, rounded to significant digits; None for what is not finite.

    Whole numbers are ints, which are shorter in JSON.

    Examples
    --------
    >>> rounded(np.array([[1.23456789, 2.0], [np.nan, 1e-9]]))
    [[1.235, 2], [None, 1e-09]]
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim > 1:
        return [rounded(part, digits) for part in array]
    return [_short(value, digits) for value in array.tolist()]


def _short(value: float, digits: int) -> float | int | None:
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def _in_column(value: float, decimals: int) -> str:
    if not math.isfinite(value) or value == 0:
        return number(value)
    text = f"{value:.{decimals}f}"
    return _signed(text) if float(text) != 0 else number(value, 1)


def _decimals(value: float, digits: int) -> int:
    return max(0, digits - 1 - math.floor(math.log10(abs(value))))


def _signed(text: str) -> str:
    return text.replace("-", "−")
