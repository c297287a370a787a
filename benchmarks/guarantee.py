"""Does a bounded answer keep its bound, and how tight is it? Random small ensembles against exact answers.

python benchmarks/guarantee.py [--answer gap | moments | sensitivity] [--cases 2000] [--seed 0]

Each case draws an ensemble, a row, a subset, the size of the noise and a tolerance. The exit status is 1 if a
value is further from the exact one than the bound that came with it, or if too few cases had a bound to keep.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import predgap

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import reference
import strategies

SCALES = (0.03, 0.3, 0.3, 1.0, 5.0)
EXACT, NO_ERROR = "bound 0", "error 0"
ROUNDED, BROKEN = "above 1, by rounding", "above 1, broken"
MIN_BOUNDED = 0.4
LEAST, STEP = -16, 2  # of the histogram, in powers of ten


@dataclass(frozen=True)
class Case:
    ensemble: predgap.Ensemble
    noise: predgap.Noise
    x: np.ndarray  # (1, d)
    mask: np.ndarray  # (d,)
    rtol: float


@dataclass(frozen=True)
class Outcome:
    error: float
    bound: float
    is_kept: bool
    is_within_rtol: bool  # the bound itself
    answer_is_within: bool = True  # of a gap, that of Explainer(rtol=...).gap

    @property
    def bin(self) -> str | int:
        """Where it goes in the histogram."""
        if self.bound == 0:
            return EXACT
        if self.error == 0:
            return NO_ERROR
        if self.error > self.bound:
            return ROUNDED if self.is_kept else BROKEN
        power = np.log10(self.error / self.bound)
        return int(np.clip(STEP * np.floor(power / STEP), LEAST, -STEP))


def draw(rng: np.random.Generator) -> Case:
    d = int(rng.integers(1, 11))
    if rng.random() < 0.75:
        n_trees, depth = int(rng.integers(1, 31)), int(rng.integers(1, 7))
        ensemble = strategies.random_ensemble(rng, n_trees=n_trees, depth=depth, n_features=d)
    else:
        paths = [rng.integers(d, size=rng.integers(1, 13)).tolist() for _ in range(rng.integers(1, 31))]
        ensemble = strategies.ensemble_of([strategies.chain(rng, path) for path in paths], d)
    x = rng.normal(size=(1, d))
    if rng.random() < 0.1:
        x[0, rng.integers(d)] = np.nan
    mask = rng.random(d) < rng.choice([0.3, 0.7, 1.0])
    mask[rng.integers(d)] = True
    noise = predgap.Normal(float(rng.choice(SCALES)))
    return Case(ensemble, noise, x, mask, rtol=float(10 ** rng.uniform(-6, -0.3)))


def of_gap(case: Case) -> Outcome:
    # Models as small as these are answered exactly, unless they are made to leave something out.
    explainer = predgap.Explainer(case.ensemble, case.noise, rtol=case.rtol, _strategy="compiled")
    exact = float(predgap.Explainer(case.ensemble, case.noise, rtol=0).gap(case.x, case.mask)[0])
    found = explainer.estimate(case.x, case.mask, "bounded", rtol=case.rtol)
    error, bound = abs(float(found.value[0]) - exact), float(found.error_bound[0])
    gap_error = abs(float(explainer.gap(case.x, case.mask)[0]) - exact)
    slack = 0.0
    if error > bound or gap_error > case.rtol * exact:
        slack = rounding(case, exact)
    return Outcome(
        error,
        bound,
        is_kept=error <= bound + slack,
        is_within_rtol=bound <= case.rtol * exact * (1 + 2 * case.rtol),
        answer_is_within=gap_error <= case.rtol * exact + slack,
    )


def of_moments(case: Case) -> Outcome:
    """The variance; and the mean, which must be within the bound over the root of the gap."""
    bounded, exact = (
        predgap.Explainer(case.ensemble, case.noise, rtol=rtol, _strategy="compiled").moments(
            case.x, case.mask
        )
        for rtol in (case.rtol, 0)
    )
    error, bound = abs(float(bounded.variance[0] - exact.variance[0])), float(bounded.error_bound[0])
    gap, slack = float(exact.gap[0]), 0.0
    root = float(np.sqrt(bounded.gap[0]))
    of_mean, allowed = (
        abs(float(bounded.mean_change[0] - exact.mean_change[0])),
        bound / root if bound else 0.0,
    )
    if error > bound or of_mean > allowed:
        slack = rounding(case, gap)
    return Outcome(
        error,
        bound,
        is_kept=error <= bound + slack and of_mean <= allowed + (slack / root if slack else 0.0),
        is_within_rtol=bound <= case.rtol * gap * (1 + 2 * case.rtol),
    )


def of_sensitivity(case: Case) -> Outcome:
    """The share that is off most."""
    bounded, exact = (
        predgap.Explainer(case.ensemble, case.noise, rtol=rtol, _strategy="compiled").sensitivity(case.x)
        for rtol in (case.rtol, 0)
    )
    shares = ("first", "total", "shapley", "interactions")
    errors = [np.abs(getattr(bounded, name) - getattr(exact, name)).max() for name in shares]
    error, bound = float(np.nan_to_num(max(errors))), float(bounded.error_bound[0])
    slack = 0.0
    if error > bound:
        every = Case(case.ensemble, case.noise, case.x, np.ones_like(case.mask), case.rtol)
        gap = float(predgap.Explainer(case.ensemble, case.noise, rtol=0).gap(case.x, every.mask)[0])
        slack = 2 * rounding(every, gap) / float(exact.variance[0])
    return Outcome(error, bound, is_kept=error <= bound + slack, is_within_rtol=bound <= case.rtol)


ANSWERS = {"gap": of_gap, "moments": of_moments, "sensitivity": of_sensitivity}


def rounding(case: Case, exact: float) -> float:
    """What the arithmetic itself may be off, of both numbers."""
    tails = reference.tails_of(case.noise, case.ensemble)
    scale = reference.error_scale(case.ensemble, case.x[0], np.flatnonzero(case.mask), tails)
    return 2 * reference.rounding_bound(exact, scale)


def histogram(outcomes: list[Outcome]) -> str:
    """Powers of ten of error / bound, as Markdown."""
    counts = Counter(found.bin for found in outcomes)
    lines = ["| error / bound | cases | |", "|---|---|---|"]
    for power in range(LEAST, 0, STEP):
        name = f"1e{power} to 1e{power + STEP}" if power > LEAST else f"below 1e{power + STEP}"
        lines.append(_bar(name, counts[power], len(outcomes)))
    lines += [_bar(name, counts[name], len(outcomes)) for name in (NO_ERROR, EXACT, ROUNDED, BROKEN)]
    return "\n".join(lines)


def _bar(name: str, count: int, of: int) -> str:
    return f"| {name} | {count} | {'█' * round(60 * count / of)} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--answer", choices=tuple(ANSWERS), default="gap")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    outcomes, broken = [], []
    for number in range(asked.cases):
        found = ANSWERS[asked.answer](draw(np.random.default_rng([asked.seed, number])))
        outcomes.append(found)
        if not (found.is_kept and found.answer_is_within):
            broken.append(number)
            print(f"case {number}: {found}", flush=True)
    print(histogram(outcomes))
    loose = sum(not found.is_within_rtol for found in outcomes)
    print(f"\n{len(outcomes)} cases: {len(broken)} broken; the bound is above its tolerance in {loose}")
    bounded = sum(found.bound > 0 for found in outcomes)
    if bounded < MIN_BOUNDED * len(outcomes):
        print(f"only {bounded} cases have a bound above 0: too many were exact for this to say much")
    return int(bool(broken) or bounded < MIN_BOUNDED * len(outcomes))


if __name__ == "__main__":
    sys.exit(main())
