"""What the page's script draws from: the numbers of an Evaluation, as one JSON text of limited size."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from predgap._text import printable
from predgap._typing import FloatArray, IndexArray
from predgap.report._numbers import rounded

if TYPE_CHECKING:
    from predgap import Sweep
    from predgap.evaluation import Evaluation

LADDER_PLACES: Final = 12  # of a ladder; the rest is one step
_CURVE_PLACES: Final = 24  # of the curve of a row
_MEAN_PLACES: Final = 100  # of a mean curve
_LISTED_ROWS: Final = 2_000
_LISTED_SCORES: Final = 40_000
_DETAIL_BYTES: Final = 1_900_000
_ALL_VALUES: Final = 40  # features; with more, only values that a ladder shows are kept
_SWARM_FEATURES: Final = 20
_SWARM_ROWS: Final = 400
_SHADES: Final = 7  # of the swarm, from low to high values
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
    """Where each value lies among the others, from 0 (lowest) to 6; −1 where it is missing; None for labels
    and for groups."""
    missing = np.isnan(numbers)
    if missing.all() or any(isinstance(cell, str) for cell in cells):
        return None
    known = np.unique(numbers[~missing])
    place = np.searchsorted(known, numbers) / max(1, len(known) - 1)
    return [-1 if gone else round(p * (_SHADES - 1)) for gone, p in zip(missing, place, strict=True)]


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
