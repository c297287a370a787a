"""How often does sampling get a greedy ranking wrong? (Rankings by sampling are in the authors' repository.)

Greedy takes at each step the feature i that makes PG²(x, S ∪ {i}) largest, S being what it took before. Here
each of these gaps is the mean of (f(x') - f(x))² over n samples, by plain Monte Carlo ("mc") or by the first
n points of a scrambled Halton or Sobol sequence, turned into noise by the inverse transform. The order is
compared with exact greedy's; in both, ties go to the lower index.

Sampling is given its best chance: a row has one set of points (n, d) for all steps, feature j always moves by
coordinate j, so candidates are compared under the same noise and their errors partly cancel. Even so, n
samples for each candidate of each step are n (d(d + 1)/2 - 1) evaluations of the model per row
(`samples_per_row`); the last feature needs none. Features that no tree uses count here, too, though they
are not really sampled: they change no prediction. More samples repeat the points of fewer, and the scales σ
share them.

The columns are shares of the first `n_rows` test rows: in `order_differs` any place differs; in
`first_differs` the most important feature; in `top3_differs` the set of the first three. Features that change
next to nothing come in any order without harm, so `gap_differs` counts the rows where it matters: the exact
gap of the first k features differs, at some k, by more than 1e-6 of that of all features. This goes by the
row's own gap, however small: where hardly a sample reaches a threshold, none can tell the features apart.
`lost` goes by large gaps: how much lower the mean PGI² of the sampled rankings is, evaluated exactly, as a
share of exact greedy's (None if that is 0). Greedy is not optimal, so a sampled ranking may be the better one
by chance, and `lost` below 0.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from predgap import Explainer, Normal, PredgapError
from predgap.algorithm1 import sums_of_squares
from reproduction.experiments.precision import METHODS, draw_points
from reproduction.helpers import FloatArray, IndexArray, Progress
from reproduction.models import Subject, per_subject
from reproduction.published import SCALES
from reproduction.results import Result, Steps, Value, pool

COLUMNS: Final = (
    *("kind", "dataset", "scale", "method", "n_samples", "samples_per_row", "n_rows"),
    *("order_differs", "gap_differs", "first_differs", "top3_differs", "lost"),
)

_MATTERS: Final = 1e-6  # of the gap of all features


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Scales σ, numbers of samples for each gap, and how many of the test rows."""

    scales: tuple[float, ...] = SCALES
    n_samples: tuple[int, ...] = (100, 1000, 10_000)
    n_rows: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.n_samples or min((self.n_rows, *self.n_samples)) < 1 or self.seed < 0:
            raise PredgapError(f"{self!r} is impossible; expected n_samples and n_rows from 1, seed from 0")


# ---- the experiment ------------------------------------------------------------------------------


def run(
    config: Config, subjects: Iterable[Subject], *, n_jobs: int = 1, progress: Progress | None = None
) -> Result:
    """A row per subject, σ, method and number of samples; `progress` counts test rows."""
    chosen = tuple(subjects)
    steps = Steps(progress, sum(min(config.n_rows, len(subject.X)) for subject in chosen))
    rows = partial(_rows, config, n_jobs=n_jobs, steps=steps)
    return per_subject("sampled-rankings", COLUMNS, config, chosen, rows)


def _rows(config: Config, subject: Subject, n_jobs: int, steps: Steps) -> Iterator[tuple[Value, ...]]:
    X = subject.X[: config.n_rows]
    n, d = X.shape
    explainers = [
        Explainer(subject.ensemble, Normal(scale), n_jobs=n_jobs, progress=False) for scale in config.scales
    ]
    orders = _sampled_orders(config, subject.name, explainers, X, n_jobs, steps)
    for s, (scale, explainer) in enumerate(zip(config.scales, explainers, strict=True)):
        exact = explainer.rank(X).order
        for m, method in enumerate(METHODS):
            for i, n_samples in enumerate(config.n_samples):
                spent = n_samples * (d * (d + 1) // 2 - 1)
                where = (subject.kind, subject.dataset, scale, method, n_samples, spent, n)
                yield (*where, *differences(explainer, X, exact, orders[:, s, m, i]))


def _sampled_orders(
    config: Config,
    name: str,
    explainers: Sequence[Explainer],
    X: FloatArray,
    n_jobs: int,
    steps: Steps,
) -> IndexArray:
    """Orders (n, scales, methods, numbers of samples, d); a thread takes one row after another."""
    d = X.shape[1]

    def of_row(row: int) -> list[IndexArray]:
        sets = [
            draw_points(method, d, max(config.n_samples), _stream(config.seed, name, row, use))
            for use, method in enumerate(METHODS)
        ]
        return [
            sampled_order(explainer, X[row], points[:n])
            for explainer in explainers
            for points in sets
            for n in config.n_samples
        ]

    found = []
    with pool(n_jobs) as threads:
        for orders in threads.map(of_row, range(len(X))):
            found.append(orders)
            steps.add()
    return np.array(found).reshape(len(X), len(explainers), len(METHODS), len(config.n_samples), d)


def _stream(seed: int, name: str, row: int, use: int) -> np.random.Generator:
    """Random numbers for one use of one row; others than those of a pair with the same numbers."""
    entropy = (seed, zlib.crc32(name.encode()), zlib.crc32(b"sampled-rankings"))
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(row, use)))


# ---- its pieces ----------------------------------------------------------------------------------


def sampled_order(explainer: Explainer, x: FloatArray, points: FloatArray) -> IndexArray:
    """The greedy order (d,) of one row x (d,), by gaps that are means over points (n, d) of the unit cube.

    Examples
    --------
    >>> from predgap import Ensemble, Uniform
    >>> stump = Ensemble(
    ...     root=[0], feature=[1, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1], right=[2, -1, -1],
    ...     default_left=[True, False, False], value=[[0.0], [1.0], [3.0]], target=[0], bias=[10.0],
    ...     n_features=3)
    >>> sampled_order(Explainer(stump, Uniform(1.0)), np.zeros(3), np.full((1, 3), 0.9))
    array([1, 0, 2])
    """
    row, ends = explainer.ensemble.cast(x[None]), np.array([len(points)])
    used = np.isin(np.arange(len(x)), explainer.ensemble.feature)

    def sum_of_squares(features: list[int]) -> float:
        subset = np.zeros(len(x), dtype=np.bool_)
        subset[features] = True
        subset &= used  # the others would only cost time
        mine = points.take(np.flatnonzero(subset), axis=1)
        return float(sums_of_squares(explainer, row, subset, mine, ends)[0])

    order, left, last = list[int](), list(range(len(x))), 0.0
    while len(left) > 1:
        sums = [sum_of_squares([*order, feature]) if used[feature] else last for feature in left]
        best = int(np.argmax(sums))  # the first of equals
        order.append(left.pop(best))
        last = sums[best]
    return np.array(order + left, dtype=np.intp)


def differences(explainer: Explainer, X: FloatArray, exact: IndexArray, sampled: IndexArray) -> list[Value]:
    """The columns from `order_differs` on, for orders (n, d) of the rows X (n, d)."""
    right, wrong = explainer.curve(X, exact), explainer.curve(X, sampled)
    top, other_top = np.sort(exact[:, :3], axis=1), np.sort(sampled[:, :3], axis=1)
    apart = np.abs(right - wrong).max(axis=1)
    shares = (
        (exact != sampled).any(axis=1),
        apart > _MATTERS * right[:, -1],
        exact[:, 0] != sampled[:, 0],
        (top != other_top).any(axis=1),
    )
    total = right.sum()
    return [*(float(np.mean(share)) for share in shares), float(1 - wrong.sum() / total) if total else None]
