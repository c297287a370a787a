"""All experiments in one run, which can be stopped at any time and goes on where it was.

A study is an experiment with its config. It is run for one subject at a time, and what comes out is kept in
`work/` of the run's folder, with everything it depends on: config, seed, hashes of models and data, versions.
Where all of that is unchanged, it is not computed again. The parts are put together in `results/`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from predgap.errors import DatasetError, PredgapError
from predgap.experiments import cells, claims, equal_time, training
from predgap.experiments.published import DATASETS
from predgap.experiments.results import Progress, Result, as_config, merged, versions
from predgap.experiments.studies import Study, quick_studies, studies
from predgap.experiments.subjects import Subject, authors_subjects

Tell = Callable[[str, float], object]  # what is being done, and the share of all work that is done

TRAINING: Final = "training"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to reproduce, with which models, how thoroughly, and where."""

    out: Path
    what: str = "all"  # or one of `predgap.experiments.studies.GROUPS`
    models: Literal["authors", "train"] = "authors"
    data_dir: str | os.PathLike[str] | None = None
    quick: bool = False
    n_pairs: int | None = None  # of precision; None for 2,000, or fewer if quick
    n_jobs: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Reproduction:
    """The results by experiment, and what was left out."""

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
    say = tell if tell is not None else _silent
    chosen, results, left_out = _subjects(plan, say)
    every = quick_studies(plan.n_pairs) if plan.quick else studies(plan.n_pairs)
    work = {
        study: [subject for subject in chosen if subject.kind in study.kinds]
        for study in every
        if plan.what in ("all", study.group)
    }
    clock = _Clock(say, sum(study.cost(subject) for study, some in work.items() for subject in some))
    for study, some in work.items():
        results[study.experiment] = merged(
            [_part(plan, study, subject, clock) for subject in some], study.config
        )
    results |= _conclusions(results)
    for result in results.values():
        result.save(plan.out / "results")
    return Reproduction(plan, results, chosen, left_out)


def _conclusions(results: Mapping[str, Result]) -> dict[str, Result]:
    """What follows from the results: Table 1, the verdicts on sentences and on cells."""
    found = dict(results)
    if "precision" in results:
        found["equal-time"] = equal_time.run(equal_time.Config(), results["precision"], results["clocks"])
    theirs = TRAINING not in results
    found["claims"] = claims.run(found, authors_models=theirs)
    found["cells"] = cells.run(cells.Config(authors_models=theirs), found)
    return found


def _silent(what: str, share: float) -> None: ...


class _Clock:
    """Tells the share of all work that is done."""

    def __init__(self, tell: Tell, total: float) -> None:
        self.tell, self.total, self.done = tell, max(total, 1e-9), 0.0

    def within(self, what: str, cost: float) -> Progress:
        """For progress inside a piece of work that costs so much."""
        self.tell(what, self.done / self.total)
        return lambda done, of: self.tell(what, (self.done + cost * done / max(of, 1)) / self.total)

    def add(self, cost: float) -> None:
        self.done += cost


def _part(plan: Plan, study: Study, subject: Subject, clock: _Clock) -> Result:
    """The result of a study for one subject: kept from before, or computed and kept."""
    folder = plan.out / "work" / study.experiment / subject.name.lower().replace(" ", "-")
    cost = study.cost(subject)
    progress = clock.within(f"{study.experiment}, {subject.name}", cost)
    found = _kept(folder, study, subject)
    if found is None:
        found = study.run(
            study.config, [subject], n_jobs=plan.n_jobs, progress=progress, cache=folder / "cache"
        )
        found.save(folder)
    clock.add(cost)
    return found


def _kept(folder: Path, study: Study, subject: Subject) -> Result | None:
    try:
        kept = Result.load(folder, study.experiment)
    except PredgapError:  # none, or damaged
        return None
    wanted = (as_config(study.config), getattr(study.config, "seed", None), dict(subject.files), versions())
    return kept if (kept.config, kept.seed, kept.files, kept.versions) == wanted else None


# ---- models --------------------------------------------------------------------------------------


def _subjects(plan: Plan, tell: Tell) -> tuple[tuple[Subject, ...], dict[str, Result], tuple[str, ...]]:
    """The subjects, the result of training if they were trained, and what was left out."""
    left_out = [_QUICK] if plan.quick else []
    if plan.models == "authors":
        try:
            return authors_subjects(plan.data_dir), {}, tuple(left_out)
        except DatasetError as error:
            if not plan.quick:
                raise DatasetError(
                    f"{error}; or train models with --models train, or try --quick, which needs no data"
                ) from None
            left_out.append(f"the authors' models: {error}")
    grid = training.Config()
    datasets: tuple[str, ...] = DATASETS
    if plan.quick:
        datasets, grid = ("diabetes",), training.Config(max_depths=(2, 4), etas=(0.1, 0.2), subsamples=(0.9,))
        left_out.append(
            "wine, housing and telemetry: a quick run trains models of bundled data only, diabetes"
        )
    subjects, result = training.trained_subjects(
        grid,
        plan.data_dir,
        datasets=datasets,
        folder=plan.out / "work" / TRAINING,
        n_jobs=plan.n_jobs,
        progress=lambda done, total: tell("training models by grid search", done / max(total, 1)),
    )
    return subjects, {TRAINING: result}, tuple(left_out)


_QUICK: Final = (
    "most pairs, rows and resamples (--quick): numbers that are estimated are less sure, and features are "
    "removed one at a time only"
)
