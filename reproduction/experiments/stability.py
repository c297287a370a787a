"""Is Algorithm 1 numerically stable? Its gaps in float32 and float64 against predgap's.

The paper computes in float32, and takes a falling error of sampling as a sign that its algorithm is stable.
The algorithm adds up c² (c the prediction without the bias) and terms of the same size, whose sum is the gap.
Rounding puts the sum off by some 1e-7 of c² in float32, some 1e-16 in float64, however small the gap is: one
that is no larger than that is lost. For N random pairs (x, S), balanced over |S|, these shares are counted:

- `negative`: below 0, which no gap can be;
- `zero`: exactly 0, though the true gap is not;
- `wrong`: off by more than `tolerance` of the true gap (negative and zero ones among them);

and of the relative errors |y - ŷ| / y of the pairs with y > 0, the median and the 95th percentile; `nmae` is
Σ |y - ŷ| / Σ y. The true gap is predgap's own, within 1e-12 of a reference with many more digits. The
algorithm is our implementation of it, with the slips of its printed form mended; the authors' own may round
in another order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from predgap import Explainer, Normal, PredgapError
from predgap.algorithm1 import algorithm1_gap
from reproduction.experiments.precision import nmae
from reproduction.helpers import FloatArray, Progress
from reproduction.models import Subject, draw_pairs, per_subject
from reproduction.published import SCALES
from reproduction.results import Result, Steps, Value, pool

COLUMNS: Final = (
    *("kind", "dataset", "scale", "arithmetic", "n_pairs", "n_positive"),
    *("negative", "zero", "wrong", "median_error", "error_95", "nmae"),
)

_BLOCK: Final = 50  # pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Which scales, how many pairs, and when a gap is wrong."""

    scales: tuple[float, ...] = SCALES
    n_pairs: int = 2000
    tolerance: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n_pairs < 2 or not 0 < self.tolerance < 1:
            raise PredgapError(f"{self!r} is impossible; expected n_pairs from 2, tolerance in (0, 1)")


def run(
    config: Config, subjects: Iterable[Subject], *, n_jobs: int = 1, progress: Progress | None = None
) -> Result:
    """A row per subject, σ and arithmetic; `progress` counts rows."""
    chosen = tuple(subjects)
    steps = Steps(progress, 2 * len(chosen) * len(config.scales))
    rows = partial(_rows, config, n_jobs=n_jobs, steps=steps)
    return per_subject("stability", COLUMNS, config, chosen, rows)


def _rows(config: Config, subject: Subject, n_jobs: int, steps: Steps) -> Iterator[tuple[Value, ...]]:
    pairs = draw_pairs(subject, config.n_pairs, config.seed)
    blocks = [slice(first, first + _BLOCK) for first in range(0, len(pairs), _BLOCK)]
    for scale in config.scales:
        explainer = Explainer(subject.ensemble, Normal(scale), n_jobs=n_jobs, progress=False)
        exact = explainer.gap(pairs.X, pairs.masks)
        for float32 in (True, False):
            gap = partial(algorithm1_gap, explainer, float32=float32)
            with pool(n_jobs) as threads:
                found = threads.map(gap, [pairs.X[b] for b in blocks], [pairs.masks[b] for b in blocks])
                values = np.concatenate(list(found))
            steps.add()
            where = (subject.kind, subject.dataset, scale, "float32" if float32 else "float64")
            counts = (len(pairs), int((exact > 0).sum()))
            yield (*where, *counts, *shares(exact, values, config.tolerance))


def shares(exact: FloatArray, found: FloatArray, tolerance: float) -> tuple[Value, ...]:
    """Shares of negative, zero and wrong gaps, median and 95th percentile of the error, and NMAE.

    Examples
    --------
    >>> shares(np.array([1.0, 1.0, 1.0, 0.0]), np.array([1.0, 0.0, -1.0, 0.0]), 0.01)
    (0.25, 0.25, 0.5, 1.0, 1.9, 1.0)
    """
    error = np.abs(found - exact)
    positive = exact > 0
    relative = error[positive] / exact[positive]
    spread = tuple(float(q) for q in np.quantile(relative, (0.5, 0.95))) if positive.any() else (None, None)
    return (
        float(np.mean(found < 0)),
        float(np.mean((found == 0) & positive)),
        float(np.mean(error > tolerance * exact)),
        *spread,
        nmae(exact, found)[0],
    )
