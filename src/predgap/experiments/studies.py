"""What there is to do: each experiment with its config, thorough or quick."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from predgap.experiments import (
    agreement,
    cayley,
    clocks,
    entropy,
    pgi,
    pgu,
    precision,
    randomising,
    retraining,
    sampled_rankings,
    stability,
)
from predgap.experiments.published import KINDS, Kind
from predgap.experiments.results import Progress, Result
from predgap.experiments.subjects import Subject

GROUPS: Final = ("precision", "agreement", "pgi", "randomising", "retraining")
"""What can be reproduced on its own."""

PAIRS: Final = 2000  # of precision; the paper has 20,000


class Run(Protocol):
    """How a study is run; `cache` is a folder for what is finished on the way."""

    def __call__(
        self, config: Any, subjects: Sequence[Subject], *, n_jobs: int, progress: Progress, cache: Path
    ) -> Result: ...


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """An experiment of a group, its config, and the seconds that it takes with a Bigger and a Single model.

    The seconds are only for telling the remaining time.
    """

    experiment: str
    group: str
    run: Run
    config: Any
    seconds: tuple[float, float]
    kinds: tuple[Kind, ...] = KINDS

    def cost(self, subject: Subject) -> float:
        return self.seconds[subject.kind == "Single"]


def studies(n_pairs: int | None = None) -> Iterator[Study]:
    """All studies, in the order of the paper; `n_pairs` are those of precision."""
    n = PAIRS if n_pairs is None else n_pairs
    time = n / PAIRS
    yield Study(*_PRECISION, precision.run, precision.Config(n_pairs=n), (90 * time, 50 * time))
    yield Study("clocks", "precision", _alone(clocks.run), clocks.Config(), (50, 35))
    yield Study("stability", "precision", _plain(stability.run), stability.Config(), (15, 1))
    yield Study("agreement", "agreement", _plain(agreement.run), agreement.Config(), (1, 2))
    yield Study("cayley", "agreement", _plain(cayley.run), cayley.Config(), (2, 1))
    yield Study("entropy", "agreement", _plain(entropy.run), entropy.Config(), (1, 1))
    yield Study("pgi", "pgi", _plain(pgi.run), pgi.Config(), (2, 1))
    yield Study("pgu", "pgi", _plain(pgu.run), pgu.Config(), (2, 1))
    yield Study(*_SAMPLED, _plain(sampled_rankings.run), sampled_rankings.Config(), (40, 15))
    yield Study(*_RANDOMISING, _plain(randomising.run), randomising.Config(), (5, 0), _BIGGER)
    yield Study(*_RETRAINING, retraining.run, retraining.Config(), (60, 0), _BIGGER)


def quick_studies(n_pairs: int | None = None) -> Iterator[Study]:
    """The same with fewer pairs, iterations, rows and resamples, in about a minute."""
    few = 200
    n = 60 if n_pairs is None else n_pairs
    errors = precision.Config(n_pairs=n, iterations=(1, 10, 100, 500, 1000, 2000, 4000))
    times = clocks.Config(n_pairs=30, iterations=(100, 2000), repeats=1)
    rankings = sampled_rankings.Config(n_rows=4, n_samples=(100, 1000))
    randomised = randomising.Config(sampled=False, n_resamples=few)
    yield Study(*_PRECISION, precision.run, errors, (2, 1))
    yield Study("clocks", "precision", _alone(clocks.run), times, (2, 1))
    yield Study("stability", "precision", _plain(stability.run), stability.Config(n_pairs=200), (2, 1))
    yield Study("agreement", "agreement", _plain(agreement.run), agreement.Config(), (1, 2))
    yield Study("cayley", "agreement", _plain(cayley.run), cayley.Config(n_resamples=few), (1, 1))
    yield Study("entropy", "agreement", _plain(entropy.run), entropy.Config(), (1, 1))
    yield Study("pgi", "pgi", _plain(pgi.run), pgi.Config(n_resamples=few), (1, 1))
    yield Study("pgu", "pgi", _plain(pgu.run), pgu.Config(n_resamples=few), (1, 1))
    yield Study(*_SAMPLED, _plain(sampled_rankings.run), rankings, (1, 1))
    yield Study(*_RANDOMISING, _plain(randomising.run), randomised, (2, 0), _BIGGER)
    yield Study(
        *_RETRAINING, retraining.run, retraining.Config(places=(1,), n_resamples=few), (3, 0), _BIGGER
    )


_BIGGER: Final[tuple[Kind, ...]] = ("Bigger",)
_PRECISION: Final = ("precision", "precision")
_SAMPLED: Final = ("sampled-rankings", "pgi")
_RANDOMISING: Final = ("randomising", "randomising")
_RETRAINING: Final = ("retraining", "retraining")


def _plain(run: Callable[..., Result]) -> Run:
    """A run that keeps nothing on the way."""

    def without_cache(
        config: Any, subjects: Sequence[Subject], *, n_jobs: int, progress: Progress, cache: Path
    ) -> Result:
        return run(config, subjects, n_jobs=n_jobs, progress=progress)

    return without_cache


def _alone(run: Callable[..., Result]) -> Run:
    """A run on one thread, as clocks need it."""

    def on_one_thread(
        config: Any, subjects: Sequence[Subject], *, n_jobs: int, progress: Progress, cache: Path
    ) -> Result:
        return run(config, subjects, progress=progress)

    return on_one_thread
