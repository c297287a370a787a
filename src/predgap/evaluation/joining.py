"""Joins the numbers of parts of the rows, and says of all of them how they were obtained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predgap._engine.questions import Rows
from predgap._text import count
from predgap._typing import BoolArray
from predgap.evaluation.answers import in_words
from predgap.evaluation.examination import Examined, Task
from predgap.evaluation.words import ranking_of
from predgap.explainer import Explainer
from predgap.explainer.explained import least_certain
from predgap.explainer.explainer import BEST_FOUND
from predgap.explainer.sweep import Swept
from predgap.ranking import Ranking

Join = Callable[..., Any]
"""Joins arrays of parts of the rows, which are on the first axis unless another is given; rows ascend."""


def joined(task: Task, explainer: Explainer, parts: Sequence[Examined]) -> Examined:
    """The numbers of all rows of some parts, as if they had been examined together; rows ascend."""
    first = parts[0]
    if len(parts) == 1:
        return first
    some = np.concatenate([part.some for part in parts])
    order = np.argsort(some)

    def join(arrays: Sequence[NDArray[Any]], axis: int = 0) -> Any:
        return np.take(np.concatenate(arrays, axis=axis), order, axis=axis)

    rows = task.rows.at(some[order])
    scores = {metric: join([part.scores[metric] for part in parts], 1) for metric in first.scores}
    left_out = {key: note for part in parts for key, note in part.left_out.items()}
    for metric, name in left_out:
        if metric in scores:
            scores[metric][list(first.rankings).index(name)] = np.nan
    return Examined(
        some=some[order],
        rankings={
            name: _ranking(explainer, rows, [part.rankings[name] for part in parts], join)
            for name in first.rankings
        },
        scores=scores,
        curves=join([part.curves for part in parts], 1),
        random=join([part.random for part in parts]),
        random_curve=join([part.random_curve for part in parts]),
        best_order=join([part.best_order for part in parts]),
        best_curve=join([part.best_curve for part in parts]),
        best_is_proven=join([part.best_is_proven for part in parts]),
        single=join([part.single for part in parts]),
        swept=_swept([part.swept for part in parts], join),
        how=_united([part.how for part in parts]),
        n_random=first.n_random,
        left_out=left_out,
    )


def _united(parts: Sequence[dict[str, set[str]]]) -> dict[str, set[str]]:
    """By which methods each quantity was obtained in any of the parts."""
    found: dict[str, set[str]] = {}
    for part in parts:
        for what, methods in part.items():
            found.setdefault(what, set()).update(methods)
    return found


def _ranking(explainer: Explainer, rows: Rows, parts: Sequence[Ranking], join: Join) -> Ranking:
    first = parts[0]
    estimators = [part.estimator for part in parts if part.estimator is not None]
    methods = {part.method for part in parts}
    scores = [part.scores for part in parts if part.scores is not None]
    confidence = [part.confidence for part in parts if part.confidence is not None]
    return ranking_of(
        explainer,
        rows,
        join([part.order for part in parts]),
        scores=join(scores) if scores else None,
        confidence=join(confidence) if confidence else None,
        method=BEST_FOUND if BEST_FOUND in methods else first.method,
        estimator=least_certain(estimators) if estimators else None,
    )


def _swept(parts: Sequence[Swept | None], join: Join) -> Swept | None:
    """None if a part has none."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    first = known[0]
    orders = zip(*(part.orders for part in known), strict=True)
    return replace(
        first,
        scores=join([part.scores for part in known], 2),
        orders=tuple(tuple(map(join, zip(*now, strict=True))) for now in orders),
        own=tuple(map(join, zip(*(part.own for part in known), strict=True))),
    )


def best_ranking(explainer: Explainer, rows: Rows, found: Examined) -> Ranking:
    """The best rankings; their scores are by how much each feature changes the gap at its place."""
    gains = np.full((len(rows), explainer.explained.n_units), np.nan)
    np.put_along_axis(gains, found.best_order, np.diff(found.best_curve, axis=1, prepend=0.0), axis=1)
    return ranking_of(
        explainer,
        rows,
        found.best_order,
        scores=gains,
        method="optimal" if found.best_is_proven.all() else BEST_FOUND,
        estimator=least_certain(found.how["best"]),
    )


def obtained(found: Examined, rtol: float) -> dict[str, str]:
    """How each number was obtained, in words."""
    how = dict(found.how)
    if "monotonicity_correlation" in found.scores:
        how["monotonicity_correlation"] = how["single"]
    words = {metric: in_words(how.get(metric, set()), rtol) for metric in found.scores}
    words["curves"] = words["pgi2"]
    words["random"] = in_words(how["random"], rtol)
    words["random_curve"] = f"estimated (from {found.n_random} random orders of each row)"
    words["best"] = f"{in_words(how['best'], rtol)}; {_proven(found.best_is_proven)}"
    words["single"] = in_words(how["single"], rtol)
    words["intervals"] = "estimated (bootstrap over rows)"
    words["differences"] = "estimated (Wilcoxon's test, Holm's correction)"
    if found.swept is not None:
        words["sweep"] = f"exact or bounded ({rtol:g})"
    return words


def _proven(rows: BoolArray) -> str:
    """In which rows the best ranking is proven to be it, in words."""
    if rows.all():
        return "proven"
    n = int(rows.sum())
    return f"proven in {n} of {len(rows)} rows, else the best found" if n else "the best found"


def notes(found: Examined) -> tuple[str, ...]:
    """What is missing, or estimated in its own way, in sentences."""
    said = list(found.left_out.values())
    for name, ranking in found.rankings.items():
        if ranking.method == "shapley" and ranking.estimator == "mc":
            over = f"over {found.n_random} random orders of each row"
            said.append(f"The Shapley values of {name!r} are estimated, by means {over}.")
    for metric, scores in found.scores.items():
        for name, own in zip(found.rankings, scores, strict=True):
            undefined = int(np.isnan(own).sum())
            if undefined and (metric, name) not in found.left_out:
                left_out = f"is not defined in {count(undefined, 'row')}, left out of its mean"
                said.append(f"{metric} of {name!r} {left_out}.")
    return tuple(said)
