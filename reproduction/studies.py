"""What there is to do: each experiment with its config, thorough or quick."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from predgap._typing import Progress
from reproduction.common.published import KINDS, Kind
from reproduction.common.results import Result
from reproduction.common.subjects import Subject
from reproduction.experiments import (
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

GROUPS: Final = ("precision", "agreement", "pgi", "randomising", "retraining")
"""What can be reproduced on its own."""


class Run(Protocol):
    """How a study is run; `cache` is a folder for what is finished on the way."""

    def __call__(
        self, config: Any, subjects: Sequence[Subject], *, n_jobs: int, progress: Progress, cache: Path
    ) -> Result: ...


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """An experiment of a group with its config, for models of some kinds.

    `bigger` and `single` are about the seconds that it takes with a model of that kind if it is thorough;
    they are only for telling the remaining time.
    """

    experiment: str
    group: str
    run: Run
    config: Any
    bigger: float
    single: float
    kinds: tuple[Kind, ...] = KINDS

    def cost(self, subject: Subject) -> float:
        return self.single if subject.kind == "Single" else self.bigger


def studies(*, quick: bool = False, n_pairs: int | None = None) -> Iterator[Study]:
    """All studies, in the order of the paper.

    Parameters
    ----------
    quick : bool
        With fewer pairs, iterations, rows and resamples.
    n_pairs : int, or None
        Pairs (x, S) of precision, if not the usual number.
    """
    few: dict[str, Any] = {"n_resamples": 200} if quick else {}
    errors = precision.Config(**_pairs(quick, n_pairs))
    time = errors.n_pairs / precision.Config().n_pairs
    times = clocks.Config(n_pairs=30, iterations=(100, 2000), repeats=1) if quick else clocks.Config()
    stable = stability.Config(n_pairs=200) if quick else stability.Config()
    sampled = sampled_rankings.Config(n_rows=4, n_samples=(100, 1000)) if quick else sampled_rankings.Config()
    drawn = randomising.Config(sampled=not quick, **few)
    removed = retraining.Config(places=(1,), **few) if quick else retraining.Config()
    yield Study("precision", "precision", precision.run, errors, 80 * time, 40 * time)
    yield Study("clocks", "precision", _alone(clocks.run), times, 40, 30)
    yield Study("stability", "precision", _plain(stability.run), stable, 15, 1)
    yield Study("agreement", "agreement", _plain(agreement.run), agreement.Config(), 1, 2)
    yield Study("cayley", "agreement", _plain(cayley.run), cayley.Config(**few), 1, 1)
    yield Study("entropy", "agreement", _plain(entropy.run), entropy.Config(), 1, 1)
    yield Study("pgi", "pgi", _plain(pgi.run), pgi.Config(**few), 1, 1)
    yield Study("pgu", "pgi", _plain(pgu.run), pgu.Config(**few), 1, 1)
    yield Study("sampled-rankings", "pgi", _plain(sampled_rankings.run), sampled, 40, 5)
    yield Study("randomising", "randomising", _plain(randomising.run), drawn, 5, 0, _BIGGER)
    yield Study("retraining", "retraining", retraining.run, removed, 35, 0, _BIGGER)


_BIGGER: Final[tuple[Kind, ...]] = ("Bigger",)


def _pairs(quick: bool, n_pairs: int | None) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    if quick:
        chosen = {"n_pairs": 60, "iterations": (1, 10, 100, 500, 1000, 2000, 4000)}
    return chosen if n_pairs is None else chosen | {"n_pairs": n_pairs}


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
