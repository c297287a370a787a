"""Sentences about sampled gaps: their error, the stability of the exact ones, and both at equal time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import fmean, linear_regression, median
from typing import Any, Final

from reproduction.common.published import SAMPLERS, Cell, cells
from reproduction.common.results import Result
from reproduction.experiments.clocks import ALGORITHM_1_FLOAT32, EXACT, TOGETHER
from reproduction.experiments.precision import ITERATIONS
from reproduction.verdicts.claims.judging import (
    MODEL,
    USUALLY,
    Finding,
    NothingToJudgeError,
    Row,
    Tally,
    grouped,
    in_order,
    joined,
    on_models,
    percent,
    spanned,
)

_SAMPLING: Final = tuple(SAMPLERS.values())

# ---- precision: errors ---------------------------------------------------------------------------

_SLOPE_OFF: Final = 0.1  # far less than quasi-random points differ from random ones


def _curves(precision: Result, method: str) -> list[list[Row]]:
    """For each model and σ, the errors at the paper's numbers of iterations."""
    rows = [row for row in precision.where(method=method) if row["nmae"] and row["iterations"] in ITERATIONS]
    return in_order(rows, "iterations", *MODEL, "scale")


def mc_rate(precision: Result) -> Finding:
    curves = _curves(precision, "mc")
    slopes = [
        linear_regression(
            [math.log(row["iterations"]) for row in curve], [math.log(row["nmae"]) for row in curve]
        ).slope
        for curve in curves
    ]
    tally = Tally.of(abs(slope + 0.5) <= _SLOPE_OFF for slope in slopes)
    return tally.verdict(), (
        f"NMAE falls as i to the power {spanned(slopes)}, "
        f"{on_models(row for curve in curves for row in curve)}; "
        f"{tally} exponents are within {_SLOPE_OFF} of -0.5."
    )


def error_falls(precision: Result) -> Finding:
    curves = [curve for method in _SAMPLING for curve in _curves(precision, method)]
    tally = Tally.of(b["nmae"] < a["nmae"] for curve in curves for a, b in pairwise(curve))
    return tally.verdict(USUALLY), (
        f"NMAE falls at {tally} steps from one number of iterations to the next, over MC and QMC, "
        f"{on_models(row for curve in curves for row in curve)}."
    )


def _side_by_side(precision: Result) -> list[list[tuple[Row, Row]]]:
    """For each model and σ, the rows of MC and QMC with the same number of iterations."""
    quasi = {_cell(row): row for curve in _curves(precision, "halton") for row in curve}
    curves = _curves(precision, "mc")
    return [[(row, quasi[_cell(row)]) for row in curve if _cell(row) in quasi] for curve in curves]


def _cell(row: Row) -> tuple[Any, ...]:
    return (*_where(row), row["iterations"])


def _where(row: Row) -> tuple[Any, ...]:
    return (row["kind"], row["dataset"], row["scale"])


def qmc_lower(precision: Result) -> Finding:
    """Lower by more than twice the standard error of the difference, taken as if pairs were not shared."""
    pairs = [pair for curve in _side_by_side(precision) for pair in curve]
    tally = Tally.of(
        _apart(mc["nmae"] - qmc["nmae"], math.hypot(mc["standard_error"], qmc["standard_error"]))
        for mc, qmc in pairs
    )
    return tally.verdict(), (
        f"MC's NMAE is {spanned(mc['nmae'] / qmc['nmae'] for mc, qmc in pairs)} times QMC's; QMC is lower by "
        f"more than two standard errors in {tally} cases, MC in {tally.against}, "
        f"{on_models(mc for mc, _ in pairs)}."
    )


def _apart(difference: float, error: float) -> bool | None:
    return None if abs(difference) <= 2 * error else difference > 0


def qmc_few(precision: Result) -> Finding:
    ends = [(curve[0], curve[-1]) for curve in _side_by_side(precision) if len(curve) > 1]
    ratios = [[mc["nmae"] / qmc["nmae"] for mc, qmc in pair] for pair in ends]
    differences = [[mc["nmae"] - qmc["nmae"] for mc, qmc in pair] for pair in ends]
    as_ratio, as_difference = (Tally.of(few > many for few, many in ways) for ways in (ratios, differences))
    both = Tally.of(few > many for few, many in ratios + differences)
    return both.verdict(), (
        f"MC's NMAE is {spanned(few for few, _ in ratios)} times QMC's at the fewest iterations and "
        f"{spanned(many for _, many in ratios)} times at the most: as a ratio the advantage is larger at few "
        f"in {as_ratio} cases, as a difference in {as_difference}, {on_models(few[0] for few, _ in ends)}."
    )


_SUMMED_UP: Final = {
    ("Single", "mc"): "0.13",
    ("Bigger", "mc"): "0.01",
    ("Single", "halton"): "0.05",
    ("Bigger", "halton"): "0.002",
}


def summed_up(precision: Result) -> Finding:
    """Ours at the printed numbers of iterations, beside the printed ones, as medians: those the paper gives.

    A median needs all its cells: without some it would be another number.
    """
    rows = [row for row in precision.records() if row["published"] is not None and row["nmae"] is not None]
    printed = Counter(
        (cell.kind, SAMPLERS[cell.method]) for cell in cells("precision") if cell.quantity == "nmae"
    )
    groups = {
        key: group for key, group in grouped(rows, "kind", "method").items() if len(group) == printed[key]
    }
    if groups.keys() != _SUMMED_UP.keys():
        raise NothingToJudgeError
    medians = {key: median(row["nmae"] for row in group) for key, group in groups.items()}
    tally = Tally.of(_rounds_to(value, _SUMMED_UP[key]) for key, value in medians.items())
    numbers = "; ".join(
        f"{kind} {'MC' if method == 'mc' else 'QMC'} {medians[kind, method]:.3g}, "
        f"{median(float(row['published']) for row in group):.3g} in Table 1, said {_SUMMED_UP[kind, method]}"
        for (kind, method), group in groups.items()
    )
    on = on_models(row for group in groups.values() for row in group)
    return tally.verdict(), f"The numbers said are medians of Table 1. Median NMAE {on}: {numbers}."


def _rounds_to(value: float, text: str) -> bool:
    return f"{value:.{len(text.partition('.')[2])}f}" == text


# ---- precision: stability ------------------------------------------------------------------------

_WRONG: Final = 0.01  # share of gaps
_SMALL_NMAE: Final = 5e-4  # the paper's table would show 0
_OFTEN: Final = 0.05


def stable(stability: Result) -> Finding:
    """In sum, and gap by gap."""
    rows = stability.where(arithmetic="float32")
    in_sum = [row["nmae"] or 0.0 for row in rows]
    one_by_one = [_right(row) for row in rows]
    verdict = Tally.of([*(error < _SMALL_NMAE for error in in_sum), *one_by_one]).verdict()
    wrong = ", ".join(
        f"{percent(max(row['wrong'] for row in group))} at σ = {scale:g}"
        for (scale,), group in sorted(grouped(rows, "scale").items())
    )
    return verdict, (
        f"Our implementation of it in float32 has an NMAE of at most {max(in_sum):.2g}. Gap by gap, more "
        f"than {percent(_WRONG)} are wrong in {Tally.of(not right for right in one_by_one)} cases, "
        f"{on_models(rows)}: up to {wrong} are wrong, up to {_largest(rows, 'negative')} negative and up to "
        f"{_largest(rows, 'zero')} lost to 0."
    )


def _right(row: Row) -> bool:
    return bool(row["wrong"] <= _WRONG)


def _largest(rows: Iterable[Row], column: str) -> str:
    return percent(max(row[column] for row in rows))


def fall_shows_stability(precision: Result, stability: Result) -> Finding:
    """One case of wrong gaps that the falling error does not show is enough against it."""
    sampled = [row for method in _SAMPLING for curve in _curves(precision, method) for row in curve]
    least = {
        where: min(row["nmae"] for row in group) for where, group in grouped(sampled, *MODEL, "scale").items()
    }
    rows = [row for row in stability.where(arithmetic="float32") if _where(row) in least]
    if not rows:
        raise NothingToJudgeError
    hidden = [row for row in rows if not _right(row) and (row["nmae"] or 0.0) < least[_where(row)]]
    cases = f"{len(hidden)} of {len(rows)} cases, {on_models(rows)},"
    if not hidden:
        return "holds", f"In {cases} many gaps are wrong in float32 and the NMAE does not show it."
    return "does not hold", (
        f"In {cases} many gaps, up to {_largest(hidden, 'wrong')}, are wrong in float32, while large gaps "
        f"keep its NMAE at {max(row['nmae'] or 0.0 for row in hidden):.2g} or less: each time below that of "
        f"sampling, which is {min(least[_where(row)] for row in hidden):.2g} or more."
    )


def zero_gaps(stability: Result) -> Finding:
    rows = [
        {**row, "none": 1 - row["n_positive"] / row["n_pairs"]}
        for row in stability.where(arithmetic="float32")
    ]
    tally = Tally.of(row["none"] >= _OFTEN for row in rows)
    shares = ", ".join(
        f"{percent(fmean(row['none'] for row in group))} at σ = {scale:g} for {kind} models"
        for (kind, scale), group in sorted(grouped(_outer(rows), "kind", "scale").items())
    )
    return tally.verdict(), (
        f"Exactly 0 are on average {shares}, {on_models(rows)}. Of the gaps that are not, float32 loses up "
        f"to {_largest(rows, 'zero')} to 0."
    )


def _outer(rows: Sequence[Row]) -> list[Row]:
    """Those of the smallest and the largest σ."""
    scales = [row["scale"] for row in rows]
    return [row for row in rows if row["scale"] in (min(scales), max(scales))]


# ---- precision: equal time -----------------------------------------------------------------------

_CLOCKS: Final = {
    ALGORITHM_1_FLOAT32: "Algorithm 1",
    EXACT: "a call of predgap",
    TOGETHER: "predgap's gaps computed together",
}
_NOTICEABLE: Final = 0.005  # a little below the least of the errors that the paper calls noticeable


def _error(row: Row) -> float:
    """The NMAE in equal time; infinite if fewer samples fit in than any that were measured, nan if more."""
    if row["nmae"] is not None:
        return float(row["nmae"])
    return math.inf if row["affordable"] < ITERATIONS[0] else math.nan


def _falling(errors: Iterable[float]) -> Iterator[bool | None]:
    """Whether each error is below the one before; None if that is not known.

    Examples
    --------
    >>> list(_falling([math.inf, math.inf, 0.2, 0.1, 0.3, math.nan]))
    [None, True, True, False, None]
    """
    for a, b in pairwise(errors):
        yield None if math.isnan(b - a) else b < a


def _by_clock(
    equal_time: Result,
    methods: Sequence[str],
    cases: Callable[[Sequence[Row]], Iterable[bool | None]],
    detail: Callable[[Sequence[Row]], list[str]] = lambda _: [],
    needed: float = 1.0,
) -> Finding:
    """Judged by each clock; cases for neither are those that are not known."""
    verdicts, texts = [], []
    for clock, name in _CLOCKS.items():
        rows = [row for row in equal_time.where(clock=clock) if row["method"] in methods]
        tally = Tally.of(cases(rows))
        if tally.total:
            verdicts.append(tally.verdict(needed))
            details = detail(rows) + ([f"not known in {tally.neither}"] if tally.neither else [])
            aside = f" ({', '.join(details)})" if details else ""
            texts.append(f"{tally} cases by the clock of {name}{aside}")
    return joined(verdicts), f"{', '.join(texts)}, {on_models(equal_time.records())}"


def time_mc(equal_time: Result) -> Finding:
    def noticeable(rows: Sequence[Row]) -> Iterator[bool | None]:
        return (None if math.isnan(error) else error >= _NOTICEABLE for error in map(_error, rows))

    def errors(rows: Sequence[Row]) -> list[str]:
        found = [_error(row) for row in rows if math.isfinite(_error(row))]
        none = sum(math.isinf(_error(row)) for row in rows)
        parts = [f"NMAE {spanned(found)}"] if found else []
        return parts + ([f"no time for {ITERATIONS[0]} in {none}"] if none else [])

    verdict, text = _by_clock(equal_time, ("mc",), noticeable, errors)
    least = min((cell.printed for cell in _printed_errors("mc")), key=float)
    return verdict, (
        f"MC's NMAE is {_NOTICEABLE} or more, or there is no time for {ITERATIONS[0]} samples, in {text}. "
        f"The smallest error that the paper calls noticeable is {least}, in Table 1."
    )


def _printed_errors(method: str) -> list[Cell]:
    return [cell for cell in cells("precision") if (cell.method, cell.quantity) == (method, "nmae")]


def time_size(equal_time: Result) -> Finding:
    def smaller(rows: Sequence[Row]) -> Iterator[bool | None]:
        for group in grouped(rows, "dataset", "scale", "method").values():
            error = {row["kind"]: _error(row) for row in group}
            if len(error) == 2:
                yield from _falling([error["Single"], error["Bigger"]])

    verdict, text = _by_clock(equal_time, _SAMPLING, smaller, needed=USUALLY)
    return verdict, f"The Bigger model has the smaller error, MC's or QMC's, in {text}."


def time_scale(equal_time: Result) -> Finding:
    def falls(rows: Sequence[Row]) -> Iterator[bool | None]:
        for series in in_order(rows, "scale", *MODEL):
            yield from _falling(map(_error, series))

    printed = [
        {"kind": cell.kind, "dataset": cell.dataset, "scale": cell.scale, "nmae": float(cell.printed)}
        for cell in _printed_errors("mc")
    ]
    verdict, text = _by_clock(equal_time, ("mc",), falls)
    return verdict, (
        f"From one σ to the next, MC's error falls in {text}; in the printed table in "
        f"{Tally.of(falls(printed))}."
    )


def time_closest(equal_time: Result) -> Finding:
    """Only cells for which the two rules give different numbers bear on it."""
    every = [row for row in equal_time.where(clock=ALGORITHM_1_FLOAT32) if row["published"] is not None]
    rows = [row for row in every if row["closest"] != row["first_slower"]]
    tally = Tally.of(_one_of(int(row["published"]), row["closest"], row["first_slower"]) for row in rows)
    return tally.verdict(), (
        "By our clock of Algorithm 1, the number closest in time and the first slower one differ in "
        f"{len(rows)} of {len(every)} cells, {on_models(every)}; the printed one is the closest in "
        f"{tally.favour} of them, the first slower in {tally.against}, and neither in {tally.neither}. "
        "Clocks of another machine are no more than a hint."
    )


def _one_of(value: float, one: float, other: float) -> bool | None:
    return True if value == one else False if value == other else None


def exact_preferable(equal_time: Result) -> Finding:
    """Where the most samples that were measured are not enough, sampling takes longer than they do; whether
    that is longer than the exact gap is not known if more would fit into its time."""

    def faster(row: Row) -> bool | None:
        if row["seconds_1"] is not None:
            return bool(row["seconds_1"] >= row["seconds"])
        return None if math.isnan(_error(row)) else True

    verdict, text = _by_clock(equal_time, _SAMPLING, lambda rows: map(faster, rows))
    return verdict, f"For an NMAE of 1 %, MC or QMC takes longer than the exact gap in {text}."
