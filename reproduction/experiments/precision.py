"""How far off are sampled gaps? (The paper's figures of NMAE, and the errors in its Table 1.)

For N random pairs (x, S), balanced over |S|, the exact gap y and its estimate ŷ from i samples are compared:

    NMAE = Σ |y - ŷ| / Σ y

for i from 1 to 35,000, plain Monte Carlo ("mc") and quasi-random points that are turned into noise by the
inverse transform: Halton's ("halton", the paper's) and Sobol's ("sobol"), both scrambled, with the first |S|
coordinates of a sequence of their own for each pair. More samples repeat the draws of fewer, and the scales σ
share them. `standard_error` is that of the NMAE over pairs (as a ratio of means), as if |S| were random like
the rest; as it is balanced, the NMAE varies less than that, if anything.

The paper printed the NMAE at one number of iterations for each σ. `verdict` says whether ours has the same
digits; as its pairs and draws are not known, `within` says whether the printed number lies in the t interval
of `confidence` around ours, and `within_jointly` whether it lies in the wider one that should hold for all
cells of a subject at once (Šidák). Both allow for the paper's own N = 20,000 pairs, and for rounding. They
take the authors' draws as independent from pair to pair, as ours are; if all their pairs shared one set of
points, the printed number varies more than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from scipy.special import stdtrit

from predgap import Explainer, Normal, PredgapError
from predgap.algorithm1 import sums_of_squares
from reproduction.helpers import FloatArray, Progress
from reproduction.models import Pairs, Subject, draw_pairs, per_subject, sha256_of_arrays
from reproduction.published import SAMPLERS, SCALES, judge, judge_range, printed_sampling
from reproduction.results import Folder, Result, Steps, Value, pool, remembered, versions

METHODS: Final = ("mc", "halton", "sobol")
ITERATIONS: Final = (100, 500, 1000, 2000, 4000, 6000, 8000, 10000, 15000, 20000, 25000, 30000, 35000)
"""The paper's numbers of iterations."""

FEWER: Final = (1, 2, 5, 10, 20, 50)
"""Numbers of samples that take no longer than an exact gap does."""

PUBLISHED_PAIRS: Final = 20_000

COLUMNS: Final = (
    *("kind", "dataset", "scale", "method", "iterations", "n_pairs", "nmae", "standard_error"),
    *("published", "verdict", "within", "within_jointly"),
)

_CELLS: Final = len(SAMPLERS) * len(SCALES)  # that the paper printed for a subject
_BLOCK: Final = 10  # pairs that are computed, and kept, together: about a second of work


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """How many pairs, which scales, which numbers of iterations."""

    scales: tuple[float, ...] = SCALES
    n_pairs: int = 2000
    iterations: tuple[int, ...] = FEWER + ITERATIONS
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        counts = self.iterations
        if self.n_pairs < 2 or not counts or counts[0] < 1 or sorted(set(counts)) != list(counts):
            raise PredgapError(
                f"{self!r} is impossible; expected n_pairs from 2, iterations from 1 in ascending order"
            )
        if not 0 < self.confidence < 1:
            raise PredgapError(f"{self!r} is impossible; expected confidence in (0, 1)")


def run(
    config: Config,
    subjects: Iterable[Subject],
    *,
    n_jobs: int = 1,
    progress: Progress | None = None,
    cache: Folder = None,
) -> Result:
    """A row per subject, σ, method and number of iterations.

    `progress` counts pairs; `cache` keeps finished blocks of them.
    """
    chosen = tuple(subjects)
    steps = Steps(progress, config.n_pairs * len(chosen))
    rows = partial(_rows, config, n_jobs=n_jobs, steps=steps, cache=cache)
    return per_subject("precision", COLUMNS, config, chosen, rows)


def _rows(
    config: Config, subject: Subject, n_jobs: int, steps: Steps, cache: Folder
) -> Iterator[tuple[Value, ...]]:
    pairs = draw_pairs(subject, config.n_pairs, config.seed)
    explainers = [Explainer(subject.ensemble, Normal(scale), progress=False) for scale in config.scales]
    key = {"versions": versions(), "files": dict(subject.files), "entropy": pairs.entropy}
    key |= {"scales": config.scales, "iterations": config.iterations}
    key |= {"rows": sha256_of_arrays(subject.X)}  # they need not come from files

    def block(first: int) -> FloatArray:
        chosen = range(first, min(first + _BLOCK, len(pairs)))
        return remembered(
            cache,
            key | {"pairs": [chosen.start, chosen.stop]},
            lambda: np.stack([gaps(explainers, pairs, p, config.iterations) for p in chosen]),
        )

    found = []
    with pool(n_jobs) as threads:
        for values in threads.map(block, range(0, len(pairs), _BLOCK)):
            found.append(values)
            steps.add(len(values))
    yield from _table(config, subject, np.concatenate(found))


def gaps(explainers: Sequence[Explainer], pairs: Pairs, pair: int, iterations: Sequence[int]) -> FloatArray:
    """The gap of one pair at each scale, exact and then estimated.

    Returns
    -------
    (scales, 1 + methods · counts) array
        Column 0 is exact; then come the estimates by METHODS, each from all numbers of iterations.
    """
    x, mask, ends = pairs.X[pair : pair + 1], pairs.masks[pair], np.array(iterations)
    out = np.empty((len(explainers), 1 + len(METHODS) * len(ends)))
    out[:, 0] = [explainer.gap(x, mask)[0] for explainer in explainers]
    for use, method in enumerate(METHODS):
        points = draw_points(method, int(mask.sum()), ends[-1], pairs.stream(pair, use))
        for row, explainer in zip(out, explainers, strict=True):
            sums = sums_of_squares(explainer, explainer.ensemble.cast(x), mask, points, ends)
            row[1 + use * len(ends) : 1 + (use + 1) * len(ends)] = np.cumsum(sums) / ends
    return out


def draw_points(method: str, k: int, n: int, rng: np.random.Generator) -> FloatArray:
    """n points of the unit cube, (n, k): random, or the first ones of a scrambled sequence.

    Examples
    --------
    >>> draw_points("halton", 3, 5, np.random.default_rng(0)).shape
    (5, 3)
    """
    if method == "mc":
        return rng.random((n, k))
    from scipy.stats import qmc  # slow to import

    if method == "halton":
        points = qmc.Halton(k, scramble=True, rng=rng).random(n)
    else:
        sequence = qmc.Sobol(k, scramble=True, rng=rng)
        whole = 1 << (int(n).bit_length() - 1)  # SciPy warns if the first draw is no power of 2
        points = np.concatenate([sequence.random(whole), sequence.random(n - whole)])
    return np.minimum(points, np.nextafter(1.0, 0.0))


# ---- rows of the table ---------------------------------------------------------------------------


def _table(config: Config, subject: Subject, values: FloatArray) -> Iterator[tuple[Value, ...]]:
    """`values` (N, scales, 1 + methods · counts) are those of `gaps`."""
    for s, scale in enumerate(config.scales):
        exact = values[:, s, 0]
        estimates = values[:, s, 1:].reshape(len(values), len(METHODS), len(config.iterations))
        for m, method in enumerate(METHODS):
            printed = printed_sampling(subject.kind, subject.dataset, scale, method)
            for i, count in enumerate(config.iterations):
                ratio, error = nmae(exact, estimates[:, m, i])
                verdicts: tuple[Value, ...] = (None,) * 4
                if printed is not None and printed[0] == str(count):
                    verdicts = _verdicts(config, printed[1], ratio, error)
                where = (subject.kind, subject.dataset, scale, method, count)
                yield (*where, len(values), ratio, error, *verdicts)


def nmae(exact: FloatArray, estimate: FloatArray) -> tuple[float | None, float | None]:
    """Σ |exact - estimate| / Σ exact, and its standard error; None if all gaps are 0.

    Examples
    --------
    >>> nmae(np.array([1.0, 3.0]), np.array([1.5, 1.5]))
    (0.5, 0.0)
    """
    errors, total = np.abs(exact - estimate), exact.sum()
    if total == 0:
        return None, None
    ratio = errors.sum() / total
    n = len(exact)
    spread = np.sqrt(np.sum((errors - ratio * exact) ** 2) / (n * (n - 1)))  # of a ratio of means
    return float(ratio), float(spread / (total / n))


def _verdicts(config: Config, text: str, ratio: float | None, error: float | None) -> tuple[Value, ...]:
    """The published text, its verdict, and those of two intervals."""
    if ratio is None or error is None:
        return (text, "differs", "outside", "outside")
    both = error * np.sqrt(1 + config.n_pairs / PUBLISHED_PAIRS)  # ours, and theirs
    levels = (config.confidence, config.confidence ** (1 / _CELLS))
    halves = [float(stdtrit(config.n_pairs - 1, (1 + level) / 2) * both) for level in levels]
    return (text, judge(text, ratio), *(judge_range(text, ratio - half, ratio + half) for half in halves))
