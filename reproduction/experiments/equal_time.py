"""What error does sampling have in the time of an exact gap? (Table 1 of the paper.)

The errors come from `precision`, the times from `clocks`. Exact and
sampled gaps are timed alike, see `charged`: both with a call for each pair; or both without what calls cost.
For each subject, σ and sampling method, and for each clock that gives the time t of an exact gap:

- the paper's table: of its 13 numbers of iterations, the "first slower" than t (the rule behind the printed
  numbers; the largest if none is) and the "closest" to t (the rule in the text), with the NMAE there;
- `affordable`: how many samples can be had in time t, and `nmae`, the error they have, interpolated;
- `seconds_10`, `seconds_1`: the time that sampling needs for an NMAE of 10 % and 1 %; None if the most
  samples of `precision` do not get there. Where they are below `seconds`, sampling wins for who can live with
  such an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from predgap import PredgapError
from reproduction.experiments.clocks import ALGORITHM_1, ALGORITHM_1_FLOAT32, EVALUATION, EXACT, TOGETHER
from reproduction.experiments.precision import ITERATIONS, METHODS
from reproduction.published import judge, printed_sampling
from reproduction.results import Result, Value, collected, joined_files

CLOCKS: Final = (ALGORITHM_1_FLOAT32, ALGORITHM_1, EXACT, TOGETHER)

COLUMNS: Final = (
    *(
        "kind",
        "dataset",
        "scale",
        "clock",
        "method",
        "seconds",
        "affordable",
        "nmae",
        "seconds_10",
        "seconds_1",
    ),
    *("first_slower", "first_slower_nmae", "closest", "closest_nmae", "published", "verdict"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Nothing to choose: all follows from the two results."""


def run(config: Config, precision: Result, clocks: Result) -> Result:
    """A row per subject, σ, clock and method; `published` is the printed number of iterations."""
    rows = list(_rows(precision, clocks))
    return collected("equal-time", COLUMNS, config, [("all", rows)], joined_files([precision, clocks]))


def _rows(precision: Result, clocks: Result) -> Iterator[tuple[Value, ...]]:
    errors = _by_model(precision, "nmae")
    times = _by_model(clocks, "seconds")
    for model, curves in errors.items():
        if model not in times:
            raise PredgapError(f"there are no clocks for {model}; run them for the same subjects and scales")
        for clock in CLOCKS:
            for method in METHODS:
                yield _row(model, clock, method, curves[method], times[model])


_Curve = dict[int | None, float]  # by number of iterations


def _by_model(result: Result, quantity: str) -> dict[tuple[Value, ...], dict[str, _Curve]]:
    """Curves of each model and σ, by method."""
    out: dict[tuple[Value, ...], dict[str, _Curve]] = {}
    for row in result.records():
        model = (row["kind"], row["dataset"], row["scale"])
        curve = out.setdefault(model, {}).setdefault(str(row["method"]), {})
        if row[quantity] is not None:
            curve[row["iterations"]] = row[quantity]
    return out


def _row(
    model: tuple[Value, ...], clock: str, method: str, errors: _Curve, times: Mapping[str, _Curve]
) -> tuple[Value, ...]:
    seconds = times[clock][None]
    time = charged(times, clock, method)
    first, closest = matched(seconds, time)
    affordable = time.count(seconds)
    kind, dataset, scale = model
    found = printed_sampling(str(kind), str(dataset), float(scale or 0), method)
    text = found[0] if found else None
    return (
        *(*model, clock, method, seconds, affordable, interpolated(errors, affordable)),
        *(None if n is None else time(n) for n in (needed(errors, 0.1), needed(errors, 0.01))),
        *(first, errors.get(first), closest, errors.get(closest)),
        *(text, None if text is None else judge(text, first)),
    )


def charged(times: Mapping[str, _Curve], clock: str, method: str) -> Line:
    """The time of sampling that is set beside an exact clock.

    A call of its own, as the exact gap has one; next to Algorithm 1, drawing and evaluation alone; next to
    gaps that are computed together, evaluation alone, as rows can share points: the least it can cost.
    """
    if clock == EXACT:
        return line(times[method])
    return Line(0.0, line(times[EVALUATION if clock == TOGETHER else method]).slope)


def sampling_line(clocks: Result, clock: str, method: str, **model: Value) -> Line:
    """`charged` for one model and σ of a table of clocks; `model` gives kind, dataset and scale."""
    times = _by_model(clocks, "seconds")[model["kind"], model["dataset"], model["scale"]]
    return charged(times, clock, method)


@dataclass(frozen=True, slots=True)
class Line:
    """Seconds for a number of samples."""

    start: float
    slope: float

    def __call__(self, count: float) -> float:
        return self.start + self.slope * count

    def count(self, seconds: float) -> float:
        """How many samples can be had in that time.

        Examples
        --------
        >>> Line(1.0, 0.5).count(3.0), Line(1.0, 0.5).count(0.5)
        (4.0, 0.0)
        """
        return max(0.0, (seconds - self.start) / self.slope)


def line(curve: Mapping[int | None, float]) -> Line:
    """The straight line through a method's clocks at the fewest and the most samples.

    Examples
    --------
    >>> line({100: 2.0, 1000: 3.0, 1100: 4.0}).slope
    0.002
    """
    counts = sorted(n for n in curve if n is not None)
    first, last = counts[0], counts[-1]
    slope = (curve[last] - curve[first]) / (last - first)
    start = curve[first] - slope * first
    if slope <= 0 or start < 0:  # noise
        return Line(0.0, curve[last] / last)
    return Line(start, slope)


def matched(seconds: float, time: Line) -> tuple[int, int]:
    """The first of the paper's numbers of iterations that takes longer, and the one that comes closest.

    Examples
    --------
    >>> matched(0.0043, Line(0.0, 1e-6))
    (6000, 4000)
    """
    slower = [n for n in ITERATIONS if time(n) >= seconds]
    return slower[0] if slower else ITERATIONS[-1], min(ITERATIONS, key=lambda n: abs(time(n) - seconds))


def interpolated(errors: Mapping[int | None, float], count: float) -> float | None:
    """The error at a number of samples, between measured ones; None below the first and past the last.

    Errors are taken as a power of the number of samples, piece by piece.

    Examples
    --------
    >>> round(interpolated({1: 1.0, 100: 0.1}, 25), 12), interpolated({1: 1.0, 100: 0.1}, 0.5)
    (0.2, None)
    """
    counts = sorted(n for n in errors if n is not None and errors[n] > 0)
    if not counts or not counts[0] <= count <= counts[-1]:
        return None
    return float(np.exp(np.interp(np.log(count), np.log(counts), np.log([errors[n] for n in counts]))))


def needed(errors: Mapping[int | None, float], target: float) -> float | None:
    """The number of samples from which on the error is at most the target; None if none is enough.

    Examples
    --------
    >>> round(needed({1: 1.0, 100: 0.1, 10000: 0.01}, 0.1)), needed({1: 1.0, 100: 0.1}, 0.05)
    (100, None)
    """
    counts = sorted(n for n in errors if n is not None)
    if not counts or errors[counts[-1]] > target:
        return None
    above = [n for n in counts if errors[n] > target]
    if not above:
        return float(counts[0])
    low = above[-1]
    high = counts[counts.index(low) + 1]
    if errors[high] <= 0:
        return float(high)
    share = np.log(errors[low] / target) / np.log(errors[low] / errors[high])
    return float(low * (high / low) ** share)
