"""What the tests of all loaders ask: rows where loads go wrong, refusals, and loading without a library."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from predgap._inputs.categories import Categories
from predgap._model.ensemble import LEAF, NUMERIC, Ensemble
from predgap.errors import LoaderError
from predgap.loaders import load


def rows_around_thresholds(ensemble: Ensemble, *, missing: bool = True, most: int = 6000) -> np.ndarray:
    """For every node, rows that reach it with its feature at and one float64 around its threshold.

    There the feature is also missing, if that is asked for, and infinite, if the ensemble takes that. Some
    random rows come first.
    """
    rng = np.random.default_rng(5)
    cut = ensemble.threshold
    with np.errstate(over="ignore"):
        below, above = np.nextafter(cut, -np.inf), np.nextafter(cut, np.inf)
    special = [np.nan] * missing + [-np.inf, np.inf] * ensemble.accepts_infinity
    rows = [*(2 * rng.normal(size=(40, ensemble.n_features)))]
    inner, parent = np.flatnonzero(ensemble.feature != LEAF), _parents(ensemble)
    for node in rng.permutation(inner)[: most // (3 + len(special))]:
        row = rng.normal(size=ensemble.n_features)
        for at, goes_left in _way(parent, int(node)):  # later splits on a feature are stricter
            row[ensemble.feature[at]] = below[at] if goes_left else cut[at]
        for value in (below[node], cut[node], above[node], *special):
            rows.append(row.copy())
            rows[-1][ensemble.feature[node]] = value
    found = np.array(rows)
    return found[~(np.abs(found) > ensemble.largest).any(axis=1)]


def rounds_to_single(ensemble: Ensemble) -> bool:
    """Is each threshold the first float64 that is rounded to some float32?"""
    cuts = ensemble.threshold[(ensemble.feature != LEAF) & (ensemble.category_set == NUMERIC)]
    with np.errstate(over="ignore"):
        below = np.nextafter(cuts, -np.inf)
        return bool((cuts.astype(np.float32) != below.astype(np.float32)).all())


def _parents(ensemble: Ensemble) -> dict[int, tuple[int, bool]]:
    """The parent of each node, and whether the node is its left child."""
    inner = np.flatnonzero(ensemble.feature != LEAF)
    sides = ((ensemble.left, True), (ensemble.right, False))
    return {int(child[node]): (int(node), is_left) for child, is_left in sides for node in inner}


def _way(parent: dict[int, tuple[int, bool]], node: int) -> list[tuple[int, bool]]:
    """The splits from the root to a node, and whether the way goes left there."""
    steps = []
    while node in parent:
        steps.append(parent[node])
        node = parent[node][0]
    return steps[::-1]


def rows_for(ensemble: Ensemble, n: int = 800) -> np.ndarray:
    """Rows at and one float64 around thresholds; levels, strange codes, and missing."""
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(n, ensemble.n_features))
    levels = ensemble.categorical()
    for j in range(ensemble.n_features):
        if j in levels:
            strange = [*range(12), 1000, -1, 2.0**24, 2.0**31, np.nan]
            rows[:, j] = rng.choice([*levels[j].codes, *strange], n)
            continue
        cuts = ensemble.threshold[ensemble.feature == j]
        around = [cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf), [0.0, np.nan]]
        ends = [np.inf, -np.inf] if ensemble.accepts_infinity else []
        special = np.concatenate([*around, ends])
        rows[:, j] = np.where(rng.random(n) < 0.8, rng.choice(special, n), rows[:, j])
    return rows


def levels_of(ensemble: Ensemble) -> dict[int, dict[int, Any]]:
    """The code and the label of each level of the categorical features."""
    return {
        q: dict(zip(levels.codes.tolist(), levels.labels or (), strict=True))
        for q, levels in ensemble.categorical().items()
    }


def assert_same(mine: Ensemble, other: Ensemble) -> None:
    """The ensembles are equal in all that they hold, bit for bit."""
    for field in fields(Ensemble):
        assert bits(getattr(mine, field.name)) == bits(getattr(other, field.name)), field.name


def bits(value: Any) -> Any:
    """Something that is equal for equal bits and types only."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, float):
        return float, np.float64(value).tobytes()
    if isinstance(value, Categories):
        options = value.closed, value.complete, value.labelled
        return bits(value.codes), [bits(label) for label in value.labels or ()], options
    if isinstance(value, tuple):
        return [bits(each) for each in value]
    return type(value), value


class Tampered:
    """A booster whose leaves and margins are changed before it gives them."""

    def __init__(self, booster: Any, leaf: Any, margin: Any) -> None:
        self.booster, self.leaf, self.margin = booster, leaf, margin

    def __getattr__(self, name: str) -> Any:
        return getattr(self.booster, name)

    def predict(self, rows: Any, **options: Any) -> np.ndarray:
        found = np.array(self.booster.predict(rows, **options))
        return self.leaf(found) if options.get("pred_leaf") else self.margin(found)


def wrong_answers(step: float) -> list[tuple[Any, Any, str]]:
    """How to change the leaves and margins of a booster of six trees, and what the check then says.

    A `step` is as little as margins may be off by.
    """

    def same(found: np.ndarray) -> np.ndarray:
        return found

    return [
        (lambda leaf: np.where(np.arange(len(leaf))[:, None] == 77, leaf + 1, leaf), same, "reaches leaf"),
        (lambda leaf: leaf[:, :-1], same, "6 trees"),
        (same, lambda margin: margin + step, "output 0"),
        (same, lambda margin: margin * np.nan, "output 0"),
        (same, lambda margin: np.c_[margin, margin], "1 outputs here"),
    ]


def fail(_: np.ndarray) -> np.ndarray:
    raise RuntimeError("out of order")


def refused(source: Any, match: str | None = None, kind: type[LoaderError] = LoaderError) -> None:
    with pytest.raises(kind, match=match) as caught:
        load(source)
    assert len(str(caught.value)) < 1000


@contextmanager
def memory_below(n_bytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n_bytes


@contextmanager
def reading_below(n_bytes: int) -> Iterator[None]:
    """At most so many bytes are read, by whatever call; where the system counts them (Linux)."""
    counters = Path("/proc/self/io")
    if not counters.exists():
        yield
        return

    def bytes_read() -> int:
        return int(counters.read_text().split()[1])

    before = bytes_read()
    yield
    assert bytes_read() - before < n_bytes


class Bomb:
    """Ends the process when it is read from a pickle."""

    def __reduce__(self) -> Any:
        return (os._exit, (3,))


def printed_without(packages: tuple[str, ...], code: str, folder: Path) -> str:
    """What code prints in a process of its own that runs in `folder` and cannot import the packages.

    Nor can it import what else loading a file must not need.
    """
    hidden = (*packages, "sklearn", "pandas", "scipy")
    script = f"import sys\nsys.modules.update(dict.fromkeys({hidden}))\n{textwrap.dedent(code)}"
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()
