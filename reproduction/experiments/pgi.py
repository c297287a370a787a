"""The average PGI² of greedy and SHAP rankings (Table 3 of the paper, and its twin for single trees).

Rankings by greedy at each noise scale σ, and by SHAP, are scored by PGI² at each evaluation scale σ'. Two
protocols stand side by side:

- **as published**: the mean over the first 3 test rows, which is what the paper's tables hold;
- **as described**: the mean over the whole test set, which is what its text says, with a bootstrap
  confidence interval, and the mean advantage over SHAP with an interval of its own. Rows are drawn anew
  with replacement, the same ones for all cells of a subject; intervals go from percentile to percentile.

A cell as published also has the range of values over all ways to break greedy's ties, see
`reproduction.ties`: `lowest` and `highest` for exact ties, `lowest_float32` and `highest_float32` for
gaps that the paper's float32 could not tell apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from predgap import Explainer, Normal, PredgapError, Ranking
from reproduction.helpers import FloatArray, Progress
from reproduction.models import Scale, Subject, method_of, per_subject, rankings
from reproduction.published import DESCRIBED, PUBLISHED, SCALES, judge, judge_range, printed
from reproduction.results import Resampled, Result, Value, spreads
from reproduction.ties import float32_tolerance, steps

COLUMNS: Final = (
    *("protocol", "kind", "dataset", "evaluation_scale", "method", "scale", "n_rows", "pgi2"),
    *("low", "high", "advantage", "advantage_low", "advantage_high"),
    *("lowest", "highest", "lowest_float32", "highest_float32"),
    *("published", "verdict", "in_range", "in_float32_range"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Resampled):
    """Scales σ of greedy, scales σ' of the score, and how sure the averages are."""

    scales: tuple[float, ...] = SCALES
    evaluation_scales: tuple[float, ...] = SCALES
    first_rows: int = 3  # of the published protocol

    def __post_init__(self) -> None:
        Resampled.__post_init__(self)
        if self.first_rows < 1:
            raise PredgapError(f"{self!r} is impossible; expected first_rows from 1")


def run(
    config: Config, subjects: Iterable[Subject], *, n_jobs: int = 1, progress: Progress | None = None
) -> Result:
    """Rows of both protocols, per subject, σ' and ranking, beside the published cell if there is one.

    For the paper's cells, the subjects are `authors_subjects(data_dir)`.
    """
    rows = partial(_rows, config, n_jobs=n_jobs)
    return per_subject("pgi", COLUMNS, config, subjects, rows, progress)


def _rows(config: Config, subject: Subject, n_jobs: int) -> Iterator[tuple[Value, ...]]:
    every = sorted({*config.scales, *config.evaluation_scales})
    explainers = {s: Explainer(subject.ensemble, Normal(s), n_jobs=n_jobs, progress=False) for s in every}
    ranked = rankings(subject, config.scales, n_jobs=n_jobs)
    judges = [explainers[s] for s in config.evaluation_scales]
    scores = {s: np.stack([e.pgi2(subject.X, r) for e in judges]) for s, r in ranked.items()}
    yield from _as_published(config, subject, explainers, ranked, scores)
    yield from _as_described(config, subject, scores)


# ---- as published --------------------------------------------------------------------------------


def _as_published(
    config: Config,
    subject: Subject,
    explainers: Mapping[float, Explainer],
    ranked: Mapping[Scale, Ranking],
    scores: Mapping[Scale, FloatArray],
) -> Iterator[tuple[Value, ...]]:
    X = subject.X[: config.first_rows]
    tolerance = float32_tolerance(subject.ensemble, X)
    judges = [explainers[s] for s in config.evaluation_scales]
    ranges = {s: mean_range(explainers[s], judges, X, ranked[s][: len(X)], tolerance) for s in config.scales}
    for j, evaluation_scale in enumerate(config.evaluation_scales):
        for scale, pgi2 in scores.items():
            mean = float(pgi2[j, : len(X)].mean())
            spread = (None,) * 4 if scale is None else tuple(map(float, ranges[scale][:, j]))
            yield (
                *(PUBLISHED, *cell(subject, evaluation_scale, scale), len(X), mean, *(None,) * 5, *spread),
                *_verdicts(_printed(subject, evaluation_scale, scale), mean, spread),
            )


def mean_range(
    explainer: Explainer,
    judges: Sequence[Explainer],
    X: FloatArray,
    ranking: Ranking,
    tolerance: FloatArray,
) -> FloatArray:
    """Smallest and largest mean PGI² over all ways to break greedy's ties.

    Parameters
    ----------
    explainer : Explainer
        Whose greedy rankings are meant.
    judges : k explainers
        That score them.
    X : (n, d) array
    ranking, tolerance
        As in `steps`.

    Returns
    -------
    (4, k) array
        Lowest and highest with exact ties, lowest and highest with the wider kind.
    """
    n, d = X.shape
    best = np.zeros((4, n, len(judges)))  # sums of gaps on the way to each subset
    for step in steps(explainer, X, ranking, tolerance, d):
        gaps = np.stack([judge.gap(X[step.row], step.subset) for judge in judges], axis=1)
        wide = np.ones(len(step.source), dtype=np.bool_)
        exact = step.move_exact
        reached = [
            _extreme(extreme, best[i], step.source[moves], step.target[moves], len(gaps))
            for i, (extreme, moves) in enumerate(
                ((np.minimum, exact), (np.maximum, exact), (np.minimum, wide), (np.maximum, wide))
            )
        ]
        best = np.stack(reached) + gaps
    return np.asarray(best.mean(axis=1) / d)  # one subset is left for each row: all features


def _extreme(
    extreme: np.ufunc, before: FloatArray, source: NDArray[np.intp], target: NDArray[np.intp], n: int
) -> FloatArray:
    """The smallest or largest sum (n, k) among the moves that end at each of n subsets."""
    nothing = np.inf if extreme is np.minimum else -np.inf
    out = np.full((n, before.shape[1]), nothing)
    extreme.at(out, target, before[source])
    return out


# ---- as described --------------------------------------------------------------------------------


def _as_described(
    config: Config, subject: Subject, scores: Mapping[Scale, FloatArray]
) -> Iterator[tuple[Value, ...]]:
    pgi2 = np.stack(list(scores.values()))  # (rankings, σ', rows), SHAP first
    for j, evaluation_scale in enumerate(config.evaluation_scales):
        for scale, spread in zip(scores, spreads(pgi2[:, j], config), strict=True):
            yield (
                *(DESCRIBED, *cell(subject, evaluation_scale, scale), len(subject.X), *spread, *(None,) * 4),
                *_verdicts(_printed(subject, evaluation_scale, scale), spread.score, (None,) * 4),
            )


# ---- rows of the table ---------------------------------------------------------------------------


def cell(subject: Subject, evaluation_scale: float, scale: Scale) -> tuple[Value, ...]:
    """The columns that say which score it is."""
    return (subject.kind, subject.dataset, evaluation_scale, method_of(scale), scale)


def _printed(subject: Subject, evaluation_scale: float, scale: Scale) -> str | None:
    return printed(
        "pgi-single" if subject.kind == "Single" else "pgi",
        kind=subject.kind,
        dataset=subject.dataset,
        method=method_of(scale),
        scale=scale,
        evaluation_scale=evaluation_scale,
    )


def _verdicts(text: str | None, value: float, spread: tuple[float | None, ...]) -> tuple[Value, ...]:
    """The published text, and whether the value and the two ranges agree with it."""
    if text is None:
        return (None,) * 4
    lowest, highest, lowest_float32, highest_float32 = spread
    if lowest is None or highest is None or lowest_float32 is None or highest_float32 is None:
        return (text, judge(text, value), None, None)
    return (
        text,
        judge(text, value),
        judge_range(text, lowest, highest),
        judge_range(text, lowest_float32, highest_float32),
    )
