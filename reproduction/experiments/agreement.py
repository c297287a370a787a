"""How often do greedy and SHAP name the same k most important features? (Table 2 of the paper.)

The share of test rows in which both rankings have the same **set** of k features at the top. Ties go to the
lower index, in both rankings; how much hangs on this is told by ranges. For each row there are the sets that
greedy may have at the top (see `reproduction.ties`) and those that SHAP may have: any features whose
|values| are not below one left out. The row agrees for *some* way of breaking ties if a set is in both, and
for *all* ways if there is one of each and they are equal. The shares of such rows are the largest and
smallest agreement that can come out: rows are independent, so both are attained.

`lowest` and `highest` allow for exact ties only; `lowest_float32` and `highest_float32` for gaps that the
paper's float32 could not tell apart. In single trees most gaps are tiny, and ties of this kind are common.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from predgap import Explainer, Normal, PredgapError, Ranking
from reproduction.helpers import BoolArray, Progress
from reproduction.models import Subject, per_subject, shap_ranking
from reproduction.published import PLACES, SCALES, judge, judge_range, printed
from reproduction.results import Result, Value
from reproduction.ties import Step, float32_tolerance, steps

COLUMNS: Final = (
    *("kind", "dataset", "scale", "k", "n_rows", "agreement"),
    *("lowest", "highest", "lowest_float32", "highest_float32"),
    *("published", "verdict", "in_range", "in_float32_range"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Which cells: every noise scale σ of greedy, every number k of features."""

    scales: tuple[float, ...] = SCALES
    places: tuple[int, ...] = PLACES

    def __post_init__(self) -> None:
        if not self.places or min(self.places) < 1:
            raise PredgapError(f"places={self.places!r}, expected numbers of features, from 1")


def run(
    config: Config, subjects: Iterable[Subject], *, n_jobs: int = 1, progress: Progress | None = None
) -> Result:
    """A row per subject, σ and k, beside the published cell if there is one.

    For the paper's cells, the subjects are `authors_subjects(data_dir)`.
    """
    rows = partial(_rows, config, n_jobs=n_jobs)
    return per_subject("agreement", COLUMNS, config, subjects, rows, progress)


def _rows(config: Config, subject: Subject, n_jobs: int) -> Iterator[tuple[Value, ...]]:
    shap = shap_ranking(subject)
    tolerance = float32_tolerance(subject.ensemble, subject.X)
    for scale in config.scales:
        explainer = Explainer(subject.ensemble, Normal(scale), n_jobs=n_jobs, progress=False)
        greedy = explainer.rank(subject.X)
        ways = steps(explainer, subject.X, greedy, tolerance, max(config.places))
        for k, step in enumerate(ways, start=1):
            if k in config.places:
                ranges = (*share_range(step, shap, step.exact), *share_range(step, shap))
                yield _row(subject, scale, k, greedy.agreement(shap, k), ranges)


def share_range(step: Step, shap: Ranking, only: BoolArray | None = None) -> tuple[float, float]:
    """The smallest and largest share of rows that agree, over all ways to break ties.

    Parameters
    ----------
    step : Step
        The m subsets that greedy may have at the top; one that stands for others agrees when they do,
        as features that no tree uses have a SHAP value of 0.
    shap : Ranking
        Of the same n rows; its scores are the |SHAP values|.
    only : (m,) booleans, or None
        Which of the subsets count.
    """
    assert shap.scores is not None
    kept = np.ones(len(step.row), dtype=np.bool_) if only is None else only
    row, subset = step.row[kept], step.subset[kept]
    size = shap.scores[row]
    inside = np.where(subset, size, np.inf).min(axis=1)
    outside = np.where(subset, -np.inf, size).max(axis=1)
    n_subsets = np.bincount(row, minlength=len(shap))
    some, sure = np.zeros((2, len(shap)), dtype=np.bool_)
    some[row[inside >= outside]] = True  # SHAP may have this set, or must have it:
    sure[row[inside > outside]] = True
    return float(np.mean(sure & (n_subsets == 1))), float(np.mean(some))


def _row(
    subject: Subject, scale: float, k: int, share: float, ranges: tuple[float, ...]
) -> tuple[Value, ...]:
    text = printed("agreement", kind=subject.kind, dataset=subject.dataset, method="greedy", scale=scale, k=k)
    verdicts: tuple[Value, ...] = (None, None, None)
    if text is not None:
        verdicts = (judge(text, share), judge_range(text, *ranges[:2]), judge_range(text, *ranges[2:]))
    return (subject.kind, subject.dataset, scale, k, len(subject.X), share, *ranges, text, *verdicts)
