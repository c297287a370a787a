"""What changed between two models in the rows of a table, for `predgap diff`."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from predgap import CostError, Ensemble, Explainer, TableError
from predgap._typing import BoolArray, FloatArray, IndexArray
from predgap.cli.requests import Job
from predgap.loaders.differences import Pair

_CHANGED: Final = 0.1  # the share of rows that "changed most"


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """The differences of all rows, and what moves them. With several outputs, |difference| over these."""

    labels: pa.Array  # (n,)
    predictions: FloatArray | None  # (n, 2) of OLD and NEW; None for several outputs
    difference: FloatArray  # (n,) NEW − OLD; for several outputs the root of the sum of squares
    expected: FloatArray  # (n,) expected squared difference when all features are perturbed
    gaps: FloatArray  # (n, d) how far each feature alone moves the difference
    names: tuple[str, ...]  # (d,) of features and groups
    methods: frozenset[str]  # how `expected` was obtained

    @property
    def changed(self) -> BoolArray:
        """Which rows changed most: a tenth of all, but none that did not change."""
        found = np.zeros(len(self.difference), dtype=np.bool_)
        found[self.largest(ceil(_CHANGED * len(found)))] = True
        return found

    def largest(self, n: int) -> IndexArray:
        """The rows with the largest differences, largest first, without those that have none."""
        order: IndexArray = np.argsort(-np.abs(self.difference), kind="stable")[:n]
        return order[: np.count_nonzero(self.difference[order])]

    @property
    def shares(self) -> tuple[FloatArray, FloatArray]:
        """The share of each feature in the gaps of single features, (d,): in all rows, in those that changed
        most. NaN if there are no such rows, or nothing moves the difference."""
        return _shares(self.gaps), _shares(self.gaps[self.changed])

    def drivers(self, row: int, n: int) -> list[str]:
        """The features that move the difference of a row most, each by itself; at most n, and none that does
        not move it."""
        order = np.argsort(-self.gaps[row], kind="stable")[:n]
        return [self.names[j] for j in order if self.gaps[row, j] > 0]

    def as_table(self) -> pa.Table:
        """A row for each row."""
        both = np.empty((0, 0)) if self.predictions is None else np.ascontiguousarray(self.predictions.T)
        old_and_new = dict(zip(("old", "new"), both, strict=False))
        drivers = [next(iter(self.drivers(row, 1)), None) for row in range(len(self.difference))]
        return pa.table(
            {
                "row": self.labels,
                **old_and_new,
                "difference": self.difference,
                "expected_square": self.expected,
                "driver": pa.array(drivers, pa.string()),
            }
        )


def changes(job: Job, pair: Pair, output: int | None) -> Changes:
    """What changed in all rows of a job, whose explainer is that of the difference NEW − OLD."""
    models = [pair.first, pair.second, pair.difference]
    if (names := job.explainer.ensemble.feature_names) is not None:  # a model may have none of its own
        models = [e.named(names) for e in models]
    new, old, difference = (e if output is None else e.select(output) for e in models)
    blocks = list(job.answers(lambda X: _asked(job.explainer, X, (old, new, difference))))
    if not blocks:
        raise TableError(f"{job.table.name} has no rows")
    found = [answer for _, answer in blocks]
    joined = {name: np.concatenate([each[name] for each in found]) for name in ("both", "d", "square", "gap")}
    one = difference.n_outputs == 1
    return Changes(
        labels=pa.concat_arrays([labels for labels, _ in blocks]),
        predictions=joined["both"] if one else None,
        difference=joined["d"] if one else np.sqrt((joined["d"] ** 2).sum(axis=1)),
        expected=joined["square"],
        gaps=joined["gap"],
        names=found[0]["names"],
        methods=frozenset(method for each in found for method in each["methods"]),
    )


def _asked(explainer: Explainer, X: pa.Table, models: tuple[Ensemble, ...]) -> dict[str, Any]:
    old, new, d = (model.predict(X) for model in models)
    single = explainer.rank(X, "single")
    square, methods = _expected_squares(explainer, X, d, len(single.names))
    return {
        "both": np.stack([old, new], axis=-1),
        "d": d,
        "square": square,
        "gap": single.scores,
        "names": single.names,
        "methods": {*methods.tolist()},
    }


def _expected_squares(
    explainer: Explainer, X: pa.Table, d: FloatArray, n_units: int
) -> tuple[FloatArray, NDArray[Any]]:
    """The expected squared difference of each row, (n,), summed over outputs, and how it was obtained."""
    n = len(d)
    try:
        found = explainer.moments(X)
    except CostError:
        everything = np.ones(n_units, dtype=np.bool_)
        gap = explainer.approximate().gap(X, everything)
        mean = explainer.expected_prediction(X, everything)
        squares: FloatArray = (d * (2 * mean - d)).reshape(n, -1).sum(axis=1) + gap.value
        return np.maximum(squares, 0.0), gap.method
    return (found.mean**2 + found.variance).reshape(n, -1).sum(axis=1), found.method


def _shares(gaps: FloatArray) -> FloatArray:
    mean = gaps.mean(axis=0) if len(gaps) else np.zeros(gaps.shape[1])
    total = float(mean.sum())
    return mean / total if total > 0 else np.full(len(mean), np.nan)
