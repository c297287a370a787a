"""All experiments in one run, which can be stopped at any time and goes on where it was.

A study is an experiment with its config. It is run for one subject at a time, and what comes out is kept in
`work/` of the run's folder, under everything that it depends on: config, seed, hashes of models and data,
versions and source code, and for clocks the machine. The parts are put together in `results/`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, Literal

import predgap
from predgap._text import format_items
from predgap._typing import Progress
from predgap.errors import DatasetError, PredgapError
from reproduction.common import training
from reproduction.common.cache import digest
from reproduction.common.published import DATASETS
from reproduction.common.results import Result, as_config, merged, versions
from reproduction.common.subjects import Subject, authors_subjects, sha256_of
from reproduction.data.sources import DATA_VARIABLE
from reproduction.experiments import clocks, equal_time
from reproduction.experiments.studies import GROUPS, Study, studies
from reproduction.verdicts import cells, claims

Tell = Callable[[str, float], object]  # what is being done, and the share of all work that is done

TRAINING: Final = "training"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to reproduce, with which models, how thoroughly, and where."""

    out: Path
    what: str = "all"  # or one of `reproduction.experiments.studies.GROUPS`
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
        """What was kept, or else computed and kept now."""
        if self.kept is not None:
            return self.kept
        progress = clock.within(f"{self.study.experiment}, {self.subject.name}", self.cost)
        cache = self.folder.parent / "cache"
        found = self.study.run(
            self.study.config, [self.subject], n_jobs=n_jobs, progress=progress, cache=cache
        )
        found.save(self.folder)
        clock.add(self.cost)
        return found


@cache
def _code() -> str:
    """A hash of predgap's Python sources, so that work of other code is not taken for its own."""
    folder = Path(predgap.__file__).parent
    sources = sorted(folder.rglob("*.py"))
    return digest({str(path.relative_to(folder)): sha256_of(path) for path in sources})


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
    grid = training.Config()
    datasets: tuple[str, ...] = DATASETS
    if plan.quick:
        datasets, grid = ("diabetes",), training.Config(max_depths=(2, 4), etas=(0.1, 0.2), subsamples=(0.9,))
        left_out.append("wine, housing and telemetry: a quick run trains on bundled data only, diabetes")
    subjects, result = training.trained_subjects(
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
