"""The evaluation of a data set: means, intervals and tests from the scores of its parts, read once.

Only sums are kept: the number of rows, the means and the co-moments of the columns. With so many rows a mean
is normally distributed, so that intervals and tests come from its standard error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from predgap._text import count
from predgap._typing import FloatArray
from predgap.evaluation.statistics import CONFIDENCE, TINY, highest, holm
from predgap.explainer.batches import score_column

RANDOM: Final = "(random)"
"""The column with the expected score of a random ranking."""

GREEDY: Final = "(greedy)"
"""The column with the score of the greedy ranking, if that is none of those that are judged."""

_WIDTH: Final = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)  # of an interval, in standard errors


@dataclass(slots=True)
class RunningMoments:
    """The means and co-moments of columns; rows are added in blocks."""

    n: int
    mean: FloatArray  # (k,)
    comoment: FloatArray  # (k, k) sums of products of deviations from the means

    @classmethod
    def of_columns(cls, k: int) -> RunningMoments:
        return cls(0, np.zeros(k), np.zeros((k, k)))

    def add(self, rows: FloatArray) -> None:
        """Adds rows (m, k)."""
        m = len(rows)
        if m == 0:
            return
        mean = rows.mean(axis=0)
        off, total = mean - self.mean, self.n + m
        deviations = rows - mean
        self.comoment += deviations.T @ deviations + np.outer(off, off) * (self.n * m / total)
        self.mean += off * (m / total)
        self.n = total

    def error(self, weights: FloatArray) -> float:
        """The standard error of a weighted sum of the means; NaN if there are fewer than two rows."""
        if self.n < 2:
            return math.nan
        variance = float(weights @ self.comoment @ weights) / (self.n - 1)
        return math.sqrt(max(0.0, variance) / self.n)


@dataclass(frozen=True, slots=True)
class ScoredDataSet:
    """The results for the scores of a data set: a line for each ranking, and for each two of them."""

    rows: int
    summary: list[dict[str, Any]]
    pairs: list[dict[str, Any]]
    random: float  # means
    best: float  # the mean of the highest score of each row
    exact: bool  # or bounded, with a proven relative error

    def verdict(self) -> str:
        """The result in a few sentences."""
        if self.rows == 0:
            return "There are no rows."
        order = sorted(self.summary, key=lambda line: -line["mean"])
        places = [f"{line['ranking']} {_percent(line)}" for line in order]
        alike = [f"{p['a']} and {p['b']}" for p in self.pairs if not p["p"] < 1 - CONFIDENCE]
        told = ""
        if self.pairs:
            told = "All differences between them are more than chance. "
        if alike:
            told = f"Not to be told apart: {', '.join(alike)}. "
        return (
            f"Over {count(self.rows, 'row')}, on the scale from a random ranking (0 %) to the best one found "
            f"in each row (100 %), the mean PGI² of the rankings is: {'; '.join(places)}. {told}"
            "This holds for this model and this noise; another noise may order the rankings otherwise."
        )


def _percent(line: dict[str, Any]) -> str:
    if math.isnan(line["normalized"]):
        return "not defined (no ranking is better than another)"
    low, high = line["normalized_low"], line["normalized_high"]
    return f"{100 * line['normalized']:.1f} % (from {100 * low:.1f} to {100 * high:.1f})"


def aggregated(parts: Iterable[Path], names: Sequence[str]) -> ScoredDataSet:
    """The evaluation of the rankings with these names, from parts with their scores and `RANDOM`.

    The best ranking of a row is the best of these, and of `GREEDY` if the parts have it.
    """
    m = len(names)
    moments, reverse, won, exact = (
        RunningMoments.of_columns(m + 2),
        RunningMoments.of_columns(m),
        np.zeros(m),
        True,
    )
    for path in parts:
        table = _scores_in(path, names)
        exact = exact and set(table["method"].unique().to_pylist()) <= {"exact"}
        own, random = _columns(table, names), table[RANDOM].to_numpy()
        found = own if GREEDY not in table.column_names else _columns(table, [*names, GREEDY])
        won += highest(own.T, TINY).sum(axis=1)
        moments.add(np.column_stack([own, random, found.max(axis=1, initial=-np.inf)]))
        reverse.add(_columns(table, [score_column(name, "pgu2") for name in names]))
    return ScoredDataSet(
        rows=moments.n,
        summary=[
            {**_line(name, i, moments, won[i]), "pgu2": float(reverse.mean[i])}
            for i, name in enumerate(names)
        ],
        pairs=_pairs(names, moments),
        random=float(moments.mean[-2]),
        best=float(moments.mean[-1]),
        exact=exact,
    )


def _scores_in(path: Path, names: Sequence[str]) -> pa.Table:
    """The columns of a part that count."""
    known = {*names, *(score_column(name, "pgu2") for name in names), RANDOM, GREEDY, "method"}
    with pq.ParquetFile(path) as opened:
        return opened.read([name for name in opened.schema_arrow.names if name in known])


def _columns(table: pa.Table, names: Sequence[str]) -> FloatArray:
    """Columns as an array (n, k); NaN for one that is not there."""
    absent = np.full(table.num_rows, np.nan)
    return np.column_stack(
        [table[name].to_numpy() if name in table.column_names else absent for name in names]
    )


def _line(name: str, i: int, moments: RunningMoments, won: float) -> dict[str, Any]:
    mean, k = moments.mean, len(moments.mean)
    alone = np.zeros(k)
    alone[i] = 1.0
    width = _WIDTH * moments.error(alone)
    score, random, best = mean[i], mean[-2], mean[-1]
    way = best - random
    share = share_width = math.nan
    if way > TINY * abs(best):
        share = float((score - random) / way)
        slope = np.zeros(k)  # of the share, by each mean
        slope[-2], slope[-1] = (score - best) / way**2, -(score - random) / way**2
        slope[i] += 1.0 / way
        share_width = _WIDTH * moments.error(slope)
    return {
        "ranking": name,
        "mean": float(score),
        "low": float(score - width),
        "high": float(score + width),
        "normalized": share,
        "normalized_low": share - share_width,
        "normalized_high": share + share_width,
        "share_won": float(won / moments.n) if moments.n else math.nan,
    }


def _pairs(names: Sequence[str], moments: RunningMoments) -> list[dict[str, Any]]:
    lines, ps = [], []
    for a, b in combinations(range(len(names)), 2):
        weights = np.zeros(len(moments.mean))
        weights[a], weights[b] = 1.0, -1.0
        difference, error = float(weights @ moments.mean), moments.error(weights)
        lines.append({"a": names[a], "b": names[b], "difference": difference})
        ps.append(_p(difference, error))
    return [{**line, "p": float(p)} for line, p in zip(lines, holm(np.array(ps)), strict=True)]


def _p(difference: float, error: float) -> float:
    """The p-value that the mean difference is 0."""
    if math.isnan(error):
        return math.nan
    if error == 0:
        return 1.0 if difference == 0 else 0.0
    return math.erfc(abs(difference) / error / math.sqrt(2))
