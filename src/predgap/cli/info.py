"""Adds the command `predgap info`, and collects the facts about a model that it shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import numpy as np
from rich.table import Table
from rich.text import Text

import predgap
from predgap import Discrete, Ensemble, Explainer, Noise, Normal, PerFeature, PredgapError
from predgap._model.ensemble import LEAF, used_features
from predgap._text import format_items, printable
from predgap.cli.app import OutputConsole, app
from predgap.cli.options import json_option, reading_models
from predgap.cli.tables import json_text
from predgap.loaders import ModelFile


@app.command()
@reading_models("model")
@json_option
def info(model: ModelFile, as_json: bool) -> None:
    """Show the trees and features of a model, and the cost of an exact gap.

    \b
    Example:
      predgap info model.txt
    """
    found = facts(predgap.load(model))
    if as_json:
        click.echo(json_text(found))
        return
    console = OutputConsole()
    for key, value in as_lines(found):
        console.print(Text(f"{key:<9} {printable(value)}"), soft_wrap=True)
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("feature", overflow="fold")
    table.add_column("splits", justify="right")
    table.add_column("thresholds", justify="right")
    for feature in found["features"]:
        cuts = f"{feature['categories']} categories" if "categories" in feature else feature["thresholds"]
        table.add_row(Text(printable(feature["name"])), str(feature["splits"]), str(cuts))
    console.print(table)


# ------------------------------------------------------------------------------------------------------------
# These are the facts about a model.


def facts(ensemble: Ensemble) -> dict[str, Any]:
    """Describes what the model consists of, and the cost of an exact gap, in values that JSON takes."""
    inner = ensemble.feature != LEAF
    features = _features(ensemble)
    return {
        "source": ensemble.source,
        "trees": ensemble.n_trees,
        "depth": _depth(ensemble),
        "nodes": ensemble.n_nodes,
        "splits": int(inner.sum()),
        "outputs": ensemble.n_outputs,
        "classes": None if ensemble.class_names is None else list(ensemble.class_names),
        "features": features,
        "features_used": sum(feature["splits"] > 0 for feature in features),
        "one_gap": _cost(ensemble),
    }


def as_lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The facts for people."""
    yield "source", found["source"]
    yield "trees", f"{found['trees']:,}, up to {found['depth']} splits deep"
    yield "nodes", f"{found['nodes']:,}, of which {found['splits']:,} splits"
    yield "outputs", str(found["outputs"]) + _classes(found["classes"], found["outputs"])
    yield "features", f"{len(found['features']):,}, of which {found['features_used']:,} are used"
    cost = found["one_gap"]
    if "unknown" in cost:
        yield "one gap", f"unknown: {cost['unknown']}"
    else:
        takes, memory = _duration(cost["milliseconds"]), cost["megabytes"]
        yield (
            "one gap",
            f"about {takes} and {memory:,.3g} MB per row if all features are perturbed (estimate)",
        )


def _features(ensemble: Ensemble) -> list[dict[str, Any]]:
    """Name, splits, and thresholds or categories of each feature."""
    inner = ensemble.feature != LEAF
    splits = np.bincount(ensemble.feature[inner], minlength=ensemble.n_features)
    pairs = np.unique(np.column_stack([ensemble.feature[inner], ensemble.threshold[inner]]), axis=0)
    thresholds = np.bincount(pairs[:, 0].astype(np.intp), minlength=ensemble.n_features)
    levels = ensemble.categorical()
    return [
        {"name": name, "splits": int(splits[q])}
        | ({"categories": len(levels[q])} if q in levels else {"thresholds": int(thresholds[q])})
        for q, name in enumerate(ensemble.names)
    ]


def _classes(names: list[Any] | None, n_outputs: int) -> str:
    if names is None:
        return ""
    which = format_items(names) if len(names) == n_outputs else f"{names[1]!r}, not {names[0]!r}"
    return f", of the class {printable(which)}" if n_outputs == 1 else f": {printable(which)}"


def _depth(ensemble: Ensemble) -> int:
    """The number of splits on the longest path from a root to a leaf."""
    depth, level = 0, ensemble.root
    while len(level := level[ensemble.feature[level] != LEAF]):
        depth += 1
        level = np.concatenate([ensemble.left[level], ensemble.right[level]])
    return depth


def _cost(ensemble: Ensemble) -> dict[str, Any]:
    """The expected cost of an exact gap of all features; the noise is 0.3 times the spread of thresholds."""
    used = used_features(ensemble)
    try:
        explainer = Explainer(ensemble, PerFeature({q: _noise_of(ensemble, q) for q in used}), rtol=0.0)
        cost = explainer.cost(used)
    except PredgapError as error:
        return {"unknown": str(error)}
    return {"milliseconds": float(cost.milliseconds), "megabytes": float(cost.megabytes)}


def _noise_of(ensemble: Ensemble, q: int) -> Noise:
    levels = ensemble.categorical().get(q)
    if levels is not None:
        return Discrete(levels.labels or ())
    thresholds = np.unique(ensemble.threshold[ensemble.feature == q])
    # LightGBM asks whether a number is missing by a threshold that all numbers are above, or below.
    thresholds = thresholds[np.abs(thresholds) < 1e300]
    return Normal(0.3 * float(thresholds.std()) if len(thresholds) > 1 else 1.0)


def _duration(milliseconds: float) -> str:
    for unit, size in (("s", 1e3), ("ms", 1.0)):
        if milliseconds >= size:
            return f"{milliseconds / size:,.3g} {unit}"
    return f"{1e3 * milliseconds:,.3g} µs"
