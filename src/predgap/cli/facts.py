"""Collects the facts about a model that `predgap info` shows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from predgap import Discrete, Ensemble, Explainer, Noise, Normal, PerFeature, PredgapError
from predgap._model.ensemble import LEAF
from predgap._text import format_items, printable


def facts(ensemble: Ensemble, n_splits: int, n_used: int) -> Iterator[tuple[str, str]]:
    yield "source", ensemble.source
    yield "trees", f"{ensemble.n_trees:,}, up to {_depth(ensemble)} splits deep"
    yield "nodes", f"{ensemble.n_nodes:,}, of which {n_splits:,} splits"
    yield "outputs", str(ensemble.n_outputs) + _classes(ensemble)
    yield "features", f"{ensemble.n_features:,}, of which {n_used:,} are used"
    yield "one gap", _cost(ensemble)


def _classes(ensemble: Ensemble) -> str:
    names = ensemble.class_names
    if names is None:
        return ""
    which = format_items(names) if len(names) == ensemble.n_outputs else f"{names[1]!r}, not {names[0]!r}"
    return f", of the class {printable(which)}" if ensemble.n_outputs == 1 else f": {printable(which)}"


def _depth(ensemble: Ensemble) -> int:
    """The number of splits on the longest path from a root to a leaf."""
    depth, level = 0, ensemble.root
    while len(level := level[ensemble.feature[level] != LEAF]):
        depth += 1
        level = np.concatenate([ensemble.left[level], ensemble.right[level]])
    return depth


def _cost(ensemble: Ensemble) -> str:
    """The expected cost of an exact gap of all features; the noise is 0.3 times the spread of thresholds."""
    used = np.unique(ensemble.feature[ensemble.feature != LEAF]).tolist()
    try:
        explainer = Explainer(ensemble, PerFeature({q: _noise_of(ensemble, q) for q in used}), rtol=0.0)
        cost = explainer.cost(used)
    except PredgapError as error:
        return f"unknown: {error}"
    takes = _duration(1e6 * cost.milliseconds)
    return f"about {takes} and {cost.megabytes:,.3g} MB per row if all features are perturbed (estimate)"


def _noise_of(ensemble: Ensemble, q: int) -> Noise:
    levels = ensemble.categorical().get(q)
    if levels is not None:
        return Discrete(levels.labels or ())
    spread = float(np.unique(ensemble.threshold[ensemble.feature == q]).std())
    return Normal(0.3 * spread if 0 < spread < float("inf") else 1.0)


def _duration(nanoseconds: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:,.3g} {unit}"
    return f"{nanoseconds / 1e3:,.3g} µs"
