"""The average PGU² of greedy and SHAP rankings (in the authors' repository, not in the paper).

PGU² is PGI² of the reversed ranking: how far the prediction moves when the least important features are
perturbed first. Lower is better. Rankings by greedy at each noise scale σ, and by SHAP, are scored at each
evaluation scale σ', as the text of the paper describes for PGI²: the mean over the whole test set, with a
bootstrap interval. `advantage` is SHAP's mean minus that of greedy, positive where greedy is better, with an
interval of its own. Rows are drawn anew with replacement, the same ones for all cells of a subject; intervals
go from percentile to percentile.

Greedy chooses the features of large gaps first and does not look at what is left, so it does not aim at PGU².
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from predgap import Explainer, Normal
from reproduction.experiments.pgi import cell
from reproduction.helpers import Progress
from reproduction.models import Subject, per_subject, rankings
from reproduction.published import SCALES
from reproduction.results import Resampled, Result, Value, spreads

COLUMNS: Final = (
    *("kind", "dataset", "evaluation_scale", "method", "scale", "n_rows", "pgu2", "low", "high"),
    *("advantage", "advantage_low", "advantage_high"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Resampled):
    """Scales σ of greedy, scales σ' of the score, and how sure the averages are."""

    scales: tuple[float, ...] = SCALES
    evaluation_scales: tuple[float, ...] = SCALES


def run(
    config: Config, subjects: Iterable[Subject], *, n_jobs: int = 1, progress: Progress | None = None
) -> Result:
    """A row per subject, σ' and ranking."""
    rows = partial(_rows, config, n_jobs=n_jobs)
    return per_subject("pgu", COLUMNS, config, subjects, rows, progress)


def _rows(config: Config, subject: Subject, n_jobs: int) -> Iterator[tuple[Value, ...]]:
    ranked = rankings(subject, config.scales, n_jobs=n_jobs)  # SHAP first
    for evaluation_scale in config.evaluation_scales:
        explainer = Explainer(subject.ensemble, Normal(evaluation_scale), n_jobs=n_jobs, progress=False)
        pgu2 = np.stack([explainer.pgu2(subject.X, ranking) for ranking in ranked.values()])
        for scale, spread in zip(ranked, spreads(pgu2, config, lower_is_better=True), strict=True):
            yield (*cell(subject, evaluation_scale, scale), len(subject.X), *spread)
