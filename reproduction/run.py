"""All experiments in one run, which can be stopped at any time and goes on where it was.

A study is an experiment with its config. It is run for one subject at a time, and what comes out is kept in
`work/` of the run's folder, under everything that it depends on: config, seed, hashes of models and data,
versions and source code, and for clocks the machine. The parts are put together in `results/`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, Final, Literal

import predgap
from predgap import PredgapError
from reproduction import cells, claims, models
from reproduction.data import DATA_VARIABLE
from reproduction.experiments import (
    agreement,
    cayley,
    clocks,
    entropy,
    equal_time,
    pgi,
    pgu,
    precision,
    randomising,
    retraining,
    sampled_rankings,
    stability,
)
from reproduction.helpers import DatasetError, Progress, format_items
from reproduction.models import Subject, authors_subjects, sha256_of
from reproduction.published import DATASETS, KINDS, Kind
from reproduction.results import Result, as_config, digest, merged, versions

Tell = Callable[[str, float], object]  # what is being done, and the share of all work that is done

TRAINING: Final = "training"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to reproduce, with which models, how thoroughly, and where."""

    out: Path
    what: str = "all"  # or one of `GROUPS`
    models: Literal["authors", "train"] = "authors"
    data_dir: str | os.PathLike[str] | None = None
    quick: bool = False
    n_pairs: int | None = None  # of precision; None for 2,000, or fewer if quick
    n_jobs: int = 1

    @property
    def suffix(self) -> str:
        """Of what is written into `out`, so that a run of one group leaves a run of all as it is."""
        return "" if self.what == "all" else f"-{self.what}"

    def __post_init__(self) -> None:
        if self.what not in ("all", *GROUPS):
            raise PredgapError(
                f"there is no {self.what!r} to reproduce; expected {format_items(['all', *GROUPS])}"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Reproduction:
    """The results by experiment, and what was left out.

    There are verdicts, `claims` and `cells`, if it is about the paper's data sets.
    """

    plan: Plan
    results: Mapping[str, Result] = field(repr=False)
    subjects: tuple[Subject, ...] = field(repr=False)
    left_out: tuple[str, ...]


# ---- doing it ------------------------------------------------------------------------------------


def reproduce(plan: Plan, tell: Tell | None = None) -> Reproduction:
    """Run what the plan asks for, or go on with it; results are saved in `plan.out`.

    Parameters
    ----------
    plan : Plan
    tell : function of what is being done and the share of all work that is done, or None
    """
    every = [
        study
        for study in studies(quick=plan.quick, n_pairs=plan.n_pairs)
        if plan.what in ("all", study.group)
    ]
    clock = _Clock(tell)
    chosen, results, left_out = _subjects(plan, clock)
    parts = [
        _Part.of(plan, study, subject) for study in every for subject in chosen if subject.kind in study.kinds
    ]
    clock.total = clock.done + sum(part.cost for part in parts if part.kept is None)
    found = [part.result(plan.n_jobs, clock) for part in parts]
    for study in every:
        mine = [result for result in found if result.experiment == study.experiment]
        results[study.experiment] = merged(mine, study.config)
    if "precision" in results:
        results["equal-time"] = equal_time.run(equal_time.Config(), results["precision"], results["clocks"])
    if any(subject.dataset in DATASETS for subject in chosen):
        results |= _verdicts(results)
    for result in results.values():
        result.save(plan.out / f"results{plan.suffix}")
    return Reproduction(plan, results, chosen, tuple(left_out))


def _verdicts(results: Mapping[str, Result]) -> dict[str, Result]:
    """Verdicts on the paper's sentences and on its cells."""
    theirs = TRAINING not in results
    return {
        "claims": claims.run(claims.Config(authors_models=theirs), results),
        "cells": cells.run(cells.Config(authors_models=theirs), results),
    }


class _Clock:
    """Tells the share of all work that is done; all is known once the subjects are."""

    def __init__(self, tell: Tell | None) -> None:
        self.tell, self.total, self.done = tell, _ALL, 0.0

    def within(self, what: str, cost: float) -> Progress:
        """For progress inside a piece of work that costs so much."""

        def progress(done: int, of: int) -> None:
            if self.tell is not None:
                self.tell(what, (self.done + cost * done / max(of, 1)) / max(self.total, 1e-9))

        progress(0, 1)
        return progress

    def add(self, cost: float) -> None:
        self.done += cost


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A study for one subject, and its result if that was kept from before."""

    study: Study
    subject: Subject
    folder: Path
    kept: Result | None

    @classmethod
    def of(cls, plan: Plan, study: Study, subject: Subject) -> _Part:
        key = {
            "config": as_config(study.config),
            "seed": getattr(study.config, "seed", None),
            "files": dict(subject.files),
            "versions": versions(),
            "code": _code(),
            "machine": clocks.machine() if study.experiment == "clocks" else None,
        }
        name = f"{subject.name.lower().replace(' ', '-')}-{digest(key)[:16]}"
        folder = plan.out / "work" / study.experiment / name
        try:
            return cls(study, subject, folder, Result.load(folder, study.experiment))
        except PredgapError:  # none, or damaged
            return cls(study, subject, folder, None)

    @property
    def cost(self) -> float:
        return self.study.cost(self.subject)

    def result(self, n_jobs: int, clock: _Clock) -> Result:
        """The result that was kept, or else is computed and kept now."""
        if self.kept is not None:
            return self.kept
        progress = clock.within(f"{self.study.experiment}, {self.subject.name}", self.cost)
        cache = self.folder.parent / "cache"
        found = self.study.run(self.subject, n_jobs=n_jobs, progress=progress, cache=cache)
        found.save(self.folder)
        clock.add(self.cost)
        return found


@cache
def _code() -> str:
    """A hash of the Python sources of predgap and of the reproduction.

    Work of other code is then not taken for this code's.
    """
    trees = (Path(predgap.__file__).parent, Path(__file__).parent)
    return digest(
        {f"{tree.name}/{name}": sha256 for tree in trees for name, sha256 in _sources(tree).items()}
    )


def _sources(tree: Path) -> dict[str, str]:
    """The SHA-256 of each Python source in a folder, but for tests, by its path there."""
    paths = {path.relative_to(tree): path for path in sorted(tree.rglob("*.py"))}
    return {name.as_posix(): sha256_of(path) for name, path in paths.items() if name.parts[0] != "tests"}


# ---- models --------------------------------------------------------------------------------------

_ALL: Final = 1000.0  # seconds of work, before it is known
_SEARCH: Final = 90.0  # seconds of a grid search


def _subjects(plan: Plan, clock: _Clock) -> tuple[tuple[Subject, ...], dict[str, Result], list[str]]:
    """The subjects, the result of training if they were trained, and what was left out."""
    left_out = [text for group, text in _QUICK.items() if plan.quick and plan.what in ("all", group)]
    if plan.what != "all":
        left_out.append(f"all experiments but {plan.what}, which was asked for")
    if plan.models == "authors":
        try:
            return authors_subjects(plan.data_dir), {}, left_out
        except DatasetError as error:
            if not plan.quick or plan.data_dir is not None or os.environ.get(DATA_VARIABLE):
                raise DatasetError(
                    f"{error} (option --data); or train models with --models train, or try --quick without "
                    "a data folder"
                ) from None
            left_out.append(
                f"the authors' models and their data: none were given, with --data or {DATA_VARIABLE}"
            )
    grid = models.Grid()
    datasets: tuple[str, ...] = DATASETS
    if plan.quick:
        datasets, grid = ("diabetes",), models.Grid(max_depths=(2, 4), etas=(0.1, 0.2), subsamples=(0.9,))
        left_out.append("wine, housing and telemetry: a quick run trains on bundled data only, diabetes")
    subjects, result = models.trained_subjects(
        grid,
        plan.data_dir,
        datasets=datasets,
        folder=plan.out / "work" / TRAINING,
        n_jobs=plan.n_jobs,
        progress=clock.within("training models by grid search", _SEARCH),
    )
    clock.add(_SEARCH)
    return subjects, {TRAINING: result}, left_out


_QUICK: Final[Mapping[str, str]] = {
    "precision": "most pairs, and more than 4,000 iterations (--quick): errors and clocks are less sure",
    "pgi": "most resamples, and most rows of the sampled rankings (--quick)",
    "randomising": "most resamples of the bootstrap (--quick)",
    "retraining": "models without more than one feature, and most resamples (--quick)",
}


# ---- studies -------------------------------------------------------------------------------------

GROUPS: Final = ("precision", "agreement", "pgi", "randomising", "retraining")
"""The parts that can be reproduced on their own."""


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """An experiment of a group with its config, for models of some kinds.

    `bigger` and `single` are about the seconds that it takes with a model of that kind if it is thorough;
    they are only for telling the remaining time.
    """

    experiment: str
    group: str
    experiment_run: Callable[..., Result]
    config: Any
    bigger: float
    single: float
    kinds: tuple[Kind, ...] = KINDS

    def cost(self, subject: Subject) -> float:
        return self.single if subject.kind == "Single" else self.bigger

    def run(self, subject: Subject, **offered: Any) -> Result:
        """The result for a subject; of `n_jobs`, `progress` and `cache` an experiment gets what it takes."""
        taken = offered.keys() & signature(self.experiment_run).parameters.keys()
        return self.experiment_run(self.config, [subject], **{name: offered[name] for name in taken})


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
    yield Study("clocks", "precision", clocks.run, times, 40, 30)
    yield Study("stability", "precision", stability.run, stable, 15, 1)
    yield Study("agreement", "agreement", agreement.run, agreement.Config(), 1, 2)
    yield Study("cayley", "agreement", cayley.run, cayley.Config(**few), 1, 1)
    yield Study("entropy", "agreement", entropy.run, entropy.Config(), 1, 1)
    yield Study("pgi", "pgi", pgi.run, pgi.Config(**few), 1, 1)
    yield Study("pgu", "pgi", pgu.run, pgu.Config(**few), 1, 1)
    yield Study("sampled-rankings", "pgi", sampled_rankings.run, sampled, 40, 5)
    yield Study("randomising", "randomising", randomising.run, drawn, 5, 0, _BIGGER)
    yield Study("retraining", "retraining", retraining.run, removed, 35, 0, _BIGGER)


_BIGGER: Final[tuple[Kind, ...]] = ("Bigger",)


def _pairs(quick: bool, n_pairs: int | None) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    if quick:
        chosen = {"n_pairs": 60, "iterations": (1, 10, 100, 500, 1000, 2000, 4000)}
    return chosen if n_pairs is None else chosen | {"n_pairs": n_pairs}
