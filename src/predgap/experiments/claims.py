"""The paper's sentences, each with a verdict that is computed from the results of the experiments.

A sentence, in our words, is broken into cases, such as one for each model and σ. A case speaks for it,
against it, or for neither, as a difference does whose interval has 0 inside. Then the sentence

- "holds" if all cases speak for it; for one that says "usually" or "in general", three quarters are enough;
- "holds in part" if at least as many speak for it as against it, and some do;
- "does not hold" otherwise.

Where it can be read in two ways, both readings are cases. Where there are two protocols, as published and as
described, or several clocks, it is judged by each, and holds in part if they do not agree. What follows from
clocks differs from run to run. A sentence is left out if its results are not there, or nothing in them bears
on it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean, linear_regression
from typing import Any, Final, Literal

from predgap.experiments.clocks import ALGORITHM_1_FLOAT32, EXACT, TOGETHER
from predgap.experiments.pgi import DESCRIBED, PUBLISHED
from predgap.experiments.precision import ITERATIONS
from predgap.experiments.published import cells
from predgap.experiments.results import Result, Value, collected
from predgap.tables import count

Verdict = Literal["holds", "holds in part", "does not hold"]
Topic = Literal["precision", "agreement", "pgi", "randomising", "retraining", "rankings"]
Finding = tuple[Verdict, str]  # and the evidence
Row = Mapping[str, Any]

COLUMNS: Final = ("claim", "topic", "sentence", "where", "verdict", "evidence")

_USUALLY: Final = 0.75  # of the cases
_MODEL: Final = ("kind", "dataset")
_SAMPLING: Final = ("mc", "halton")  # what the paper calls MC and QMC


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Nothing to choose: all follows from the results."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Claim:
    """A sentence of the paper in our words, and how it is judged.

    `judge` takes the results named in `needs`, in this order.
    """

    name: str
    topic: Topic
    sentence: str
    where: str  # in the paper
    needs: tuple[str, ...]
    judge: Callable[..., Finding]


def run(results: Mapping[str, Result]) -> Result:
    """A row per sentence that the results, given by the name of their experiment, can decide."""
    used = {name for claim in CLAIMS for name in claim.needs} & results.keys()
    files = dict(sorted(entry for name in used for entry in results[name].files.items()))
    return collected("claims", COLUMNS, Config(), [("all", _rows(results))], files)


def _rows(results: Mapping[str, Result]) -> Iterator[tuple[Value, ...]]:
    for claim in CLAIMS:
        if results.keys() >= set(claim.needs):
            try:
                verdict, evidence = claim.judge(*(results[name] for name in claim.needs))
            except _NothingToJudgeError:
                continue
            yield (claim.name, claim.topic, claim.sentence, claim.where, verdict, evidence)


# ---- from cases to verdicts ----------------------------------------------------------------------


class _NothingToJudgeError(Exception):
    """No case of a sentence is in the results."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many cases speak for a sentence, how many against it, and how many for neither.

    Examples
    --------
    >>> tally = Tally.of([True, True, True, None])
    >>> print(tally, "cases:", tally.verdict())
    3 of 4 cases: holds in part
    >>> tally.verdict(needed=0.75), Tally.of([True, False, False]).verdict()
    ('holds', 'does not hold')
    """

    favour: int
    against: int
    neither: int

    @classmethod
    def of(cls, cases: Iterable[bool | None]) -> Tally:
        counts = Counter(cases)
        return cls(counts[True], counts[False], counts[None])

    @property
    def total(self) -> int:
        return self.favour + self.against + self.neither

    def __str__(self) -> str:
        return f"{self.favour} of {self.total}"

    def verdict(self, needed: float = 1.0) -> Verdict:
        """`needed` is the share of cases with which the sentence holds."""
        if self.total == 0:
            raise _NothingToJudgeError
        if self.favour >= needed * self.total:
            return "holds"
        return "holds in part" if self.favour >= max(self.against, 1) else "does not hold"


def joined(verdicts: Iterable[Verdict]) -> Verdict:
    """One verdict for several ways to judge a sentence.

    Examples
    --------
    >>> joined(["holds", "holds"]), joined(["holds", "does not hold"])
    ('holds', 'holds in part')
    """
    found = set(verdicts)
    if not found:
        raise _NothingToJudgeError
    return found.pop() if len(found) == 1 else "holds in part"


# ---- rows, and words for them --------------------------------------------------------------------


def _groups(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows that have the same values in some columns."""
    out: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        out.setdefault(tuple(row[key] for key in keys), []).append(row)
    return out


def _series(rows: Iterable[Row], by: str, *keys: str) -> list[list[Row]]:
    """Groups of at least two rows that have the same values of `keys`, in the order of `by`."""
    groups = _groups(rows, *keys).values()
    return [sorted(group, key=lambda row: row[by]) for group in groups if len(group) > 1]


def _on(rows: Iterable[Row]) -> str:
    """On how many models."""
    return f"on {count(len(_groups(rows, *_MODEL)), 'model')}"


def _span(values: Iterable[float]) -> str:
    """From the smallest to the largest.

    Examples
    --------
    >>> _span([0.2, 0.1234, 0.15]), _span([0.5])
    ('0.123 to 0.2', '0.5')
    """
    found = list(values)
    if not found:
        raise _NothingToJudgeError
    low, high = (f"{value:.3g}" for value in (min(found), max(found)))
    return low if low == high else f"{low} to {high}"


def _percent(share: float) -> str:
    """As in 12.3 %."""
    return f"{100 * share:.3g} %"


# ---- precision: errors ---------------------------------------------------------------------------

_SLOPE_OFF: Final = 0.1  # far less than quasi-random points differ from random ones


def _curves(precision: Result, method: str) -> list[list[Row]]:
    """For each model and σ, the errors at the paper's numbers of iterations."""
    rows = [row for row in precision.where(method=method) if row["nmae"] and row["iterations"] in ITERATIONS]
    return _series(rows, "iterations", *_MODEL, "scale")


def _mc_rate(precision: Result) -> Finding:
    curves = _curves(precision, "mc")
    slopes = [
        linear_regression(
            [math.log(row["iterations"]) for row in curve], [math.log(row["nmae"]) for row in curve]
        ).slope
        for curve in curves
    ]
    tally = Tally.of(abs(slope + 0.5) <= _SLOPE_OFF for slope in slopes)
    return tally.verdict(), (
        f"NMAE falls as i to the power {_span(slopes)}, {_on(row for curve in curves for row in curve)}; "
        f"{tally} exponents are within {_SLOPE_OFF} of -0.5."
    )


def _falls(precision: Result) -> Finding:
    curves = [curve for method in _SAMPLING for curve in _curves(precision, method)]
    tally = Tally.of(b["nmae"] < a["nmae"] for curve in curves for a, b in pairwise(curve))
    return tally.verdict(_USUALLY), (
        f"NMAE falls at {tally} steps from one number of iterations to the next, over MC and QMC, "
        f"{_on(row for curve in curves for row in curve)}."
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


def _qmc_lower(precision: Result) -> Finding:
    """Lower by more than twice the standard error of the difference, taken as if pairs were not shared."""
    pairs = [pair for curve in _side_by_side(precision) for pair in curve]
    tally = Tally.of(
        _apart(mc["nmae"] - qmc["nmae"], math.hypot(mc["standard_error"], qmc["standard_error"]))
        for mc, qmc in pairs
    )
    return tally.verdict(), (
        f"MC's NMAE is {_span(mc['nmae'] / qmc['nmae'] for mc, qmc in pairs)} times QMC's; QMC is lower by "
        f"more than two standard errors in {tally} cases, {_on(mc for mc, _ in pairs)}."
    )


def _apart(difference: float, error: float) -> bool | None:
    return None if abs(difference) <= 2 * error else difference > 0


def _qmc_few(precision: Result) -> Finding:
    ends = [(curve[0], curve[-1]) for curve in _side_by_side(precision) if len(curve) > 1]
    ratios = [[mc["nmae"] / qmc["nmae"] for mc, qmc in pair] for pair in ends]
    differences = [[mc["nmae"] - qmc["nmae"] for mc, qmc in pair] for pair in ends]
    as_ratio, as_difference = (Tally.of(few > many for few, many in ways) for ways in (ratios, differences))
    both = Tally.of(few > many for few, many in ratios + differences)
    return both.verdict(), (
        f"MC's NMAE is {_span(few for few, _ in ratios)} times QMC's at the fewest iterations and "
        f"{_span(many for _, many in ratios)} times at the most: as a ratio the advantage is larger at few "
        f"in {as_ratio} cases, as a difference in {as_difference}, {_on(few[0] for few, _ in ends)}."
    )


_SUMMED_UP: Final = {
    ("Single", "mc"): "0.13",
    ("Bigger", "mc"): "0.01",
    ("Single", "halton"): "0.05",
    ("Bigger", "halton"): "0.002",
}


def _summed_up(precision: Result) -> Finding:
    """Ours at the printed numbers of iterations, beside the averages of the printed table."""
    rows = [row for row in precision.records() if row["published"] is not None and row["nmae"] is not None]
    groups = {key: group for key, group in _groups(rows, "kind", "method").items() if key in _SUMMED_UP}
    means = {key: fmean(row["nmae"] for row in group) for key, group in groups.items()}
    tally = Tally.of(_rounds_to(mean, _SUMMED_UP[key]) for key, mean in means.items())
    numbers = "; ".join(
        f"{kind} {'MC' if method == 'mc' else 'QMC'} {means[kind, method]:.3g}, "
        f"{fmean(float(row['published']) for row in group):.3g} in Table 1, said {_SUMMED_UP[kind, method]}"
        for (kind, method), group in groups.items()
    )
    return tally.verdict(), f"Average NMAE {_on(rows)}: {numbers}."


def _rounds_to(value: float, text: str) -> bool:
    return f"{value:.{len(text.partition('.')[2])}f}" == text


# ---- precision: stability ------------------------------------------------------------------------

_WRONG: Final = 0.01  # share of gaps
_SMALL_NMAE: Final = 5e-4  # the paper's table would show 0
_OFTEN: Final = 0.05


def _stable(stability: Result) -> Finding:
    """In sum, and gap by gap."""
    rows = stability.where(arithmetic="float32")
    in_sum = [row["nmae"] or 0.0 for row in rows]
    one_by_one = [_right(row) for row in rows]
    verdict = Tally.of([*(error < _SMALL_NMAE for error in in_sum), *one_by_one]).verdict()
    wrong = ", ".join(
        f"{_percent(max(row['wrong'] for row in group))} at σ = {scale:g}"
        for (scale,), group in sorted(_groups(rows, "scale").items())
    )
    return verdict, (
        f"In float32 its NMAE is at most {max(in_sum):.2g}, but gap by gap no more than 1 % are "
        f"wrong only in {Tally.of(one_by_one)} cases, {_on(rows)}: up to {wrong} are wrong, up to "
        f"{_largest(rows, 'negative')} negative and up to {_largest(rows, 'zero')} lost to 0."
    )


def _right(row: Row) -> bool:
    return bool(row["wrong"] <= _WRONG)


def _largest(rows: Iterable[Row], column: str) -> str:
    return _percent(max(row[column] for row in rows))


def _fall_shows_stability(precision: Result, stability: Result) -> Finding:
    """One case of wrong gaps that the falling error does not show is enough against it."""
    sampled = [row for method in _SAMPLING for curve in _curves(precision, method) for row in curve]
    least = {
        where: min(row["nmae"] for row in group)
        for where, group in _groups(sampled, *_MODEL, "scale").items()
    }
    rows = [row for row in stability.where(arithmetic="float32") if _where(row) in least]
    if not rows:
        raise _NothingToJudgeError
    hidden = [row for row in rows if not _right(row) and (row["nmae"] or 0.0) < least[_where(row)]]
    cases = f"{len(hidden)} of {len(rows)} cases, {_on(rows)},"
    if not hidden:
        return "holds", f"In {cases} many gaps are wrong in float32 and the NMAE does not show it."
    return "does not hold", (
        f"In {cases} many gaps, up to {_largest(hidden, 'wrong')}, are wrong in float32, while large gaps "
        f"keep its NMAE at {max(row['nmae'] or 0.0 for row in hidden):.2g} or less: each time below that of "
        f"sampling, which is {min(least[_where(row)] for row in hidden):.2g} or more."
    )


def _zero_gaps(stability: Result) -> Finding:
    rows = [
        {**row, "none": 1 - row["n_positive"] / row["n_pairs"]}
        for row in stability.where(arithmetic="float32")
    ]
    tally = Tally.of(row["none"] >= _OFTEN for row in rows)
    shares = ", ".join(
        f"{_percent(fmean(row['none'] for row in group))} at σ = {scale:g} for {kind} models"
        for (kind, scale), group in sorted(_groups(_outer(rows), "kind", "scale").items())
    )
    return tally.verdict(), (
        f"Exactly 0 are on average {shares}, {_on(rows)}. Of the gaps that are not, float32 loses up to "
        f"{_largest(rows, 'zero')} to 0."
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
_NOTICEABLE: Final = 0.005  # the least in the paper's table is 0.008, and it calls that noticeable


def _error(row: Row) -> float:
    """The NMAE in equal time; infinite if fewer samples fit in than any that were measured, nan if more."""
    if row["nmae"] is not None:
        return float(row["nmae"])
    return math.inf if row["affordable"] < ITERATIONS[0] else math.nan


def _falling(errors: Iterable[float]) -> Iterator[bool]:
    """Whether each error is below the one before, where that can be told.

    Examples
    --------
    >>> list(_falling([math.inf, math.inf, 0.2, 0.1, 0.3, math.nan]))
    [True, True, False]
    """
    for a, b in pairwise(errors):
        if a != b and not math.isnan(a + b):
            yield b < a


def _by_clock(
    equal_time: Result,
    methods: Sequence[str],
    cases: Callable[[Sequence[Row]], Iterable[bool]],
    detail: Callable[[Sequence[Row]], str] = lambda _: "",
    needed: float = 1.0,
) -> Finding:
    """Judged by each clock; cases that cannot be told do not count."""
    verdicts, texts = [], []
    for clock, name in _CLOCKS.items():
        rows = [row for row in equal_time.where(clock=clock) if row["method"] in methods]
        tally = Tally.of(cases(rows))
        if tally.total:
            verdicts.append(tally.verdict(needed))
            texts.append(f"{tally} cases by the clock of {name}{detail(rows)}")
    return joined(verdicts), f"{', '.join(texts)}, {_on(equal_time.records())}"


def _time_mc(equal_time: Result) -> Finding:
    def noticeable(rows: Sequence[Row]) -> Iterator[bool]:
        return (_error(row) >= _NOTICEABLE for row in rows if not math.isnan(_error(row)))

    def errors(rows: Sequence[Row]) -> str:
        found = [_error(row) for row in rows if math.isfinite(_error(row))]
        none = sum(math.isinf(_error(row)) for row in rows)
        parts = [_span(found)] if found else []
        parts += [f"no time for sampling in {none}"] if none else []
        return f" ({', '.join(parts)})"

    verdict, text = _by_clock(equal_time, ("mc",), noticeable, errors)
    return verdict, f"MC's NMAE is {_NOTICEABLE} or more in {text}."


def _time_size(equal_time: Result) -> Finding:
    def smaller(rows: Sequence[Row]) -> Iterator[bool]:
        for group in _groups(rows, "dataset", "scale", "method").values():
            error = {row["kind"]: _error(row) for row in group}
            if len(error) == 2:
                yield from _falling([error["Single"], error["Bigger"]])

    verdict, text = _by_clock(equal_time, _SAMPLING, smaller, needed=_USUALLY)
    return verdict, f"The Bigger model has the smaller error, MC's or QMC's, in {text}."


def _time_scale(equal_time: Result) -> Finding:
    def falls(rows: Sequence[Row]) -> Iterator[bool]:
        for series in _series(rows, "scale", *_MODEL):
            yield from _falling(map(_error, series))

    printed = [
        {"kind": cell.kind, "dataset": cell.dataset, "scale": cell.scale, "nmae": float(cell.printed)}
        for cell in cells("precision")
        if (cell.method, cell.quantity) == ("mc", "nmae")
    ]
    verdict, text = _by_clock(equal_time, ("mc",), falls)
    return verdict, (
        f"From one σ to the next, MC's error falls in {text}; in the printed table in "
        f"{Tally.of(falls(printed))}."
    )


def _time_closest(equal_time: Result) -> Finding:
    """Only cells for which the two rules give different numbers can tell them apart."""
    every = [row for row in equal_time.where(clock=ALGORITHM_1_FLOAT32) if row["published"] is not None]
    rows = [row for row in every if row["closest"] != row["first_slower"]]
    tally = Tally.of(_one_of(int(row["published"]), row["closest"], row["first_slower"]) for row in rows)
    if tally.favour + tally.against == 0:
        raise _NothingToJudgeError
    return tally.verdict(), (
        "By our clock of Algorithm 1, the number closest in time and the first slower one differ in "
        f"{len(rows)} of {len(every)} cells, {_on(every)}; the printed one is the closest in {tally.favour} "
        f"of them, the first slower in {tally.against}, and neither in {tally.neither}. Clocks of another "
        "machine are no more than a hint."
    )


def _one_of(value: float, one: float, other: float) -> bool | None:
    return True if value == one else False if value == other else None


def _exact_preferable(equal_time: Result) -> Finding:
    def faster(rows: Sequence[Row]) -> Iterator[bool]:
        return (row["seconds_1"] is None or row["seconds_1"] >= row["seconds"] for row in rows)

    verdict, text = _by_clock(equal_time, _SAMPLING, faster)
    return verdict, f"For an NMAE of 1 %, MC or QMC takes longer than the exact gap in {text}."


# ---- agreement -----------------------------------------------------------------------------------

_MOST: Final = 0.76


def _monotone(rows: Iterable[Row], by: str, other: str, sign: int) -> Tally:
    """Whether agreement rises (sign 1) or falls (-1) with `by` all the way, for each model and `other`."""
    return Tally.of(
        all(sign * (b["agreement"] - a["agreement"]) > 0 for a, b in pairwise(series))
        for series in _series(rows, by, *_MODEL, other)
    )


def _as_printed(rows: Iterable[Row]) -> list[Row]:
    return [{**row, "agreement": float(row["published"])} for row in rows if row["published"] is not None]


def _agreement_moves(by: str, other: str, sign: int, agreement: Result) -> Finding:
    rows = agreement.records()
    tally, printed = (_monotone(some, by, other, sign) for some in (rows, _as_printed(rows)))
    in_table = f"; in the printed table in {printed}" if printed.total else ""
    way, of = ("rises with σ", "k") if sign > 0 else ("falls with k", "σ")
    return tally.verdict(_USUALLY), (
        f"It {way} all the way in {tally} combinations of model and {of}, {_on(rows)}{in_table}."
    )


def _bigger_lower(agreement: Result) -> Finding:
    pairs = [
        {row["kind"]: row for row in group}
        for group in _groups(agreement.records(), "dataset", "scale", "k").values()
        if len(group) == 2
    ]
    tally = Tally.of(pair["Bigger"]["agreement"] < pair["Single"]["agreement"] for pair in pairs)
    sure = Tally.of(pair["Bigger"]["highest_float32"] < pair["Single"]["lowest_float32"] for pair in pairs)
    return tally.verdict(_USUALLY), (
        f"Agreement is lower for the Bigger model in {tally} cells, in {sure.favour} however ties in float32 "
        f"are broken, {_on(row for pair in pairs for row in pair.values())}."
    )


def _same_first(agreement: Result) -> Finding:
    """Against it if it is so with ties to the lower index, undecided if ties can make it so."""
    rows = agreement.where(k=1)
    tally = Tally.of(
        False if row["agreement"] >= _MOST else None if row["highest_float32"] >= _MOST else True
        for row in rows
    )
    return tally.verdict(), (
        f"Agreement at k = 1 is {_span(row['agreement'] for row in rows)}, and at most "
        f"{max(row['highest_float32'] for row in rows):.3g} however ties in float32 are broken, {_on(rows)}."
    )


def _mostly_different(agreement: Result, k: int | None = None) -> Finding:
    rows = [row for row in agreement.records() if k in (None, row["k"])]
    tally = Tally.of(row["agreement"] < 0.5 for row in rows)
    by_kind = ", ".join(
        f"{Tally.of(row['agreement'] < 0.5 for row in group)} for {kind} models"
        for (kind,), group in _groups(rows, "kind").items()
    )
    return tally.verdict(_USUALLY), (
        f"They agree in less than half of the rows in {tally} cells ({by_kind}), {_on(rows)}; agreement is "
        f"{_span(row['agreement'] for row in rows)}."
    )


# ---- greedy beside SHAP --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Lead:
    """A cell of greedy, SHAP's score beside it, and whether greedy's is higher: None if that is not sure."""

    row: Row
    score: float
    shap: float
    higher: bool | None

    @property
    def ratio(self) -> float:
        return self.score / self.shap if self.shap else math.inf


def _leads(rows: Iterable[Row], score: str, place: str) -> list[_Lead]:
    """Sure is what an interval says, if the row has one, or else the score.

    `place` is the column that tells cells of one ranking apart.
    """
    out = []
    for group in _groups(rows, "protocol", *_MODEL, place).values():
        shap = [row[score] for row in group if row["method"] == "shap"]
        out += [_lead(row, row[score], shap[0]) for row in group if row["method"] == "greedy" and shap]
    return out


def _lead(row: Row, score: float, shap: float) -> _Lead:
    low, high = row["advantage_low"], row["advantage_high"]
    if low is None or high is None:
        same = math.isclose(score, shap, rel_tol=1e-9)  # the same sums in another order
        return _Lead(row, score, shap, None if same else score > shap)
    return _Lead(row, score, shap, True if low > 0 else False if high < 0 else None)


_pgi_leads = partial(_leads, score="pgi2", place="evaluation_scale")
_rmse_leads = partial(_leads, score="rmse", place="k")


def _protocols(leads: Iterable[_Lead]) -> dict[str, list[_Lead]]:
    found: dict[str, list[_Lead]] = {}
    for lead in leads:
        found.setdefault(lead.row["protocol"], []).append(lead)
    return found


def _wins(leads: Iterable[_Lead]) -> str:
    tally = Tally.of(lead.higher for lead in leads)
    return f"SHAP is significantly ahead in {tally.against} of {tally.total} cells, greedy in {tally.favour}"


def _named(leads: Sequence[_Lead], limit: int = 3) -> str:
    """The first few cells of PGI², and how they are."""
    shown = [
        f"{lead.row['dataset']} at σ' = {lead.row['evaluation_scale']:g}, σ = {lead.row['scale']:g} "
        f"({'undecided' if lead.higher is None else f'behind by {_percent(1 - lead.ratio)}'})"
        for lead in leads[:limit]
    ]
    more = [f"{len(leads) - limit} more"] if len(leads) > limit else []
    return " and ".join(shown + more)


def _pgi_ahead(kind: str, pgi: Result) -> Finding:
    """Everywhere but at σ' = 1, σ = 0.1."""
    verdicts, texts = [], []
    leads = _pgi_leads(pgi.where(kind=kind))
    for protocol, some in _protocols(leads).items():
        far = [lead for lead in some if (lead.row["evaluation_scale"], lead.row["scale"]) == (1.0, 0.1)]
        rest = [lead for lead in some if lead not in far]
        tally = Tally.of(lead.higher for lead in rest)
        verdicts.append(tally.verdict())
        text = f"{protocol}, greedy is ahead in {tally} other cells"
        if tally.favour < tally.total:
            text += f", not in {_named([lead for lead in rest if not lead.higher])}"
        if far:
            text += f"; at σ' = 1, σ = 0.1 it is ahead in {Tally.of(lead.higher for lead in far)}"
        texts.append(text)
    evidence = ". ".join(text[0].upper() + text[1:] for text in texts)
    return joined(verdicts), f"{evidence}, {_on(lead.row for lead in leads)}."


def _own_scale(pgi: Result) -> Finding:
    verdicts, texts = [], []
    for (protocol,), rows in _groups(pgi.records(), "protocol").items():
        groups = _groups(rows, *_MODEL, "evaluation_scale").values()
        tally = Tally.of(case for group in groups for case in _own_is_best(group))
        verdicts.append(tally.verdict())
        texts.append(f"{tally} rows of the table {protocol}")
    return joined(verdicts), f"So it is in {' and '.join(texts)}, {_on(pgi.records())}."


def _own_is_best(group: Sequence[Row]) -> list[bool]:
    """For a ranking with σ = σ', if there is one; a tie counts as best."""
    best = max(row["pgi2"] for row in group)
    own = [row["pgi2"] for row in group if row["scale"] == row["evaluation_scale"]]
    return [math.isclose(score, best, rel_tol=1e-9) for score in own]


def _which_protocol(result: Result, place: str, fits: Callable[[Row], bool]) -> tuple[Tally, str]:
    """For it: cells that only the described protocol gives; against it: that only the published one gives.

    Cells that both or neither give do not count. On how many models there are both is told too.
    """
    printed = [row for row in result.records() if row["published"] is not None]
    both = [
        group
        for group in _groups(printed, *_MODEL, place, "method", "scale").values()
        if {row["protocol"] for row in group} == {DESCRIBED, PUBLISHED}
    ]
    given = [{row["protocol"]: fits(row) for row in group} for group in both]
    tally = Tally.of(fit[DESCRIBED] for fit in given if fit[DESCRIBED] != fit[PUBLISHED])
    return tally, _on(row for group in both for row in group)


def _same_digits(row: Row) -> bool:
    """As they are, or for some way to break ties."""
    return bool(row["verdict"] == "matches" or row["in_float32_range"] == "inside")


def _pgi_average(pgi: Result) -> Finding:
    tally, on = _which_protocol(pgi, "evaluation_scale", _same_digits)
    return tally.verdict(), (
        f"Of {tally.total} printed cells that tell the two apart, {tally.against} are means over the first "
        f"few test rows and {tally.favour} means over all of them, {on}."
    )


# ---- features removed ----------------------------------------------------------------------------


def _randomised(randomising: Result, protocol: str, datasets: Sequence[str] | None = None) -> list[_Lead]:
    rows = [row for row in randomising.where(protocol=protocol) if not datasets or row["dataset"] in datasets]
    return _rmse_leads(rows)


def _no_difference(randomising: Result) -> Finding:
    datasets = ("wine", "telemetry")
    leads = _randomised(randomising, DESCRIBED, datasets)
    as_published = _randomised(randomising, PUBLISHED, datasets)
    aside = ""
    if as_published:
        largest = max(abs(lead.ratio - 1) for lead in as_published)
        aside = f"; as published, with labels of other rows, RMSEs differ by at most {_percent(largest)}"
    return Tally.of(lead.higher is None for lead in leads).verdict(), (
        f"As described, {_wins(leads)}, {_on(lead.row for lead in leads)}, by up to "
        f"{_percent(max(abs(lead.ratio - 1) for lead in leads))} of SHAP's RMSE{aside}."
    )


def _housing(randomising: Result) -> Finding:
    leads = [
        lead for lead in _randomised(randomising, DESCRIBED, ("housing",)) if lead.row["scale"] in (0.1, 0.3)
    ]
    printed = [cell for cell in cells("randomising") if cell.dataset == "housing"]
    shap = {cell.k: float(cell.printed) for cell in printed if cell.scale is None}
    in_table = Tally.of(float(cell.printed) > shap[cell.k] for cell in printed if cell.scale in (0.1, 0.3))
    return Tally.of(lead.higher for lead in leads).verdict(), (
        f"As described, {_wins(leads)}: its RMSE is {_span(lead.ratio for lead in leads)} times SHAP's, "
        f"{_on(lead.row for lead in leads)}. In the printed table greedy is ahead in {in_table}."
    )


def _not_worse(randomising: Result) -> Finding:
    leads = _randomised(randomising, DESCRIBED)
    first = [lead for lead in leads if lead.row["k"] == 1]
    at_first = f"; at k = 1, SHAP is in {Tally.of(lead.higher is False for lead in first)}" if first else ""
    return Tally.of(lead.higher is not False for lead in leads).verdict(), (
        f"As described, {_wins(leads)}{at_first}, {_on(lead.row for lead in leads)}."
    )


def _random_draws(randomising: Result) -> Finding:
    tally, on = _which_protocol(randomising, "k", lambda row: row["within_jointly"] == "inside")
    return tally.verdict(), (
        f"Of {tally.total} printed cells that only one protocol fits, {tally.favour} fit this one and "
        f"{tally.against} fit 500 draws from the training set, for training rows with labels of test rows, "
        f"{on}."
    )


def _settings(retraining: Result) -> Finding:
    """By digits, or as one more training."""
    tally, on = _which_protocol(
        retraining, "k", lambda row: _same_digits(row) or row["within_jointly"] == "inside"
    )
    return tally.verdict(), (
        f"Of {tally.total} printed cells that only one protocol fits, {tally.favour} fit the appendix and "
        f"{tally.against} fit the hyperparameters of the models that the authors saved, {on}."
    )


def _shap_retrained(retraining: Result) -> Finding:
    verdicts, texts = [], []
    leads = _rmse_leads(retraining.records())
    for protocol, some in _protocols(leads).items():
        tally = Tally.of(None if lead.higher is None else not lead.higher for lead in some)
        verdicts.append(tally.verdict(_USUALLY))
        texts.append(f"{protocol}, {_wins(some)} (RMSE {_span(lead.ratio for lead in some)} times SHAP's)")
    evidence = "; ".join(texts)
    return joined(verdicts), f"{evidence[:1].upper()}{evidence[1:]}, {_on(lead.row for lead in leads)}."


# ---- conclusions ---------------------------------------------------------------------------------

_SIMILAR: Final = 0.1


def _no_winner(randomising: Result, retraining: Result) -> Finding:
    texts, every = [], []
    for name, result in (("randomising", randomising), ("retraining", retraining)):
        leads = _rmse_leads(result.where(protocol=DESCRIBED))
        every += leads
        texts.append(f"{name}: {_wins(leads)}")
    if not every:
        raise _NothingToJudgeError
    sure = {lead.higher for lead in every} - {None}
    seen = {lead.score > lead.shap for lead in every}
    verdict: Verdict = "holds" if len(sure) == 2 else "holds in part" if len(seen) == 2 else "does not hold"
    return verdict, f"As described, {'; '.join(texts)}, {_on(lead.row for lead in every)}."


def _similar(pgi: Result, randomising: Result, retraining: Result) -> Finding:
    """Within a tenth of SHAP's score."""
    metrics = {
        "PGI²": _pgi_leads(pgi.where(protocol=DESCRIBED, kind="Bigger")),
        "RMSE after randomising": _rmse_leads(randomising.where(protocol=DESCRIBED, kind="Bigger")),
        "RMSE after retraining": _rmse_leads(retraining.where(protocol=DESCRIBED, kind="Bigger")),
    }
    tallies = {
        name: Tally.of(abs(lead.ratio - 1) <= _SIMILAR for lead in leads) for name, leads in metrics.items()
    }
    texts = [
        f"{name} is within {_percent(_SIMILAR)} in {tally} cells "
        f"({_span(lead.ratio for lead in metrics[name])} times SHAP's)"
        for name, tally in tallies.items()
    ]
    verdict = joined(tally.verdict(_USUALLY) for tally in tallies.values())
    every = [lead.row for leads in metrics.values() for lead in leads]
    return verdict, f"Greedy's {'; '.join(texts)}, {_on(every)}."


# ---- the sentences -------------------------------------------------------------------------------

_ACCURACY: Final = "Experiments: exact vs Monte Carlo, Accuracy"
_EFFICIENCY: Final = "Experiments: exact vs Monte Carlo, Efficiency; Table 1"
_RANKING: Final = "Feature ranking using PG²; Table 2"
_PGI: Final = "Comparison with SHAP by PGI²"
_REMOVING: Final = "Comparison with SHAP by feature removing"

CLAIMS: Final = (
    Claim(
        name="mc-rate",
        topic="precision",
        sentence="The relative error of Monte Carlo falls as one over the root of the number of iterations.",
        where=_ACCURACY,
        needs=("precision",),
        judge=_mc_rate,
    ),
    Claim(
        name="error-falls",
        topic="precision",
        sentence="Overall, sampling comes closer to the exact gap the more iterations it has.",
        where=_ACCURACY,
        needs=("precision",),
        judge=_falls,
    ),
    Claim(
        name="qmc-lower",
        topic="precision",
        sentence="Quasi-Monte Carlo has a significantly smaller error than Monte Carlo.",
        where=_ACCURACY,
        needs=("precision",),
        judge=_qmc_lower,
    ),
    Claim(
        name="qmc-few",
        topic="precision",
        sentence="The advantage of quasi-Monte Carlo is largest when iterations are few.",
        where=_ACCURACY,
        needs=("precision",),
        judge=_qmc_few,
    ),
    Claim(
        name="summed-up",
        topic="precision",
        sentence=(
            "In the time of the exact method, MC has an NMAE of 0.13 for single trees and 0.01 for bigger "
            "models, QMC of about 0.05 and 0.002."
        ),
        where="Introduction",
        needs=("precision",),
        judge=_summed_up,
    ),
    Claim(
        name="fall-shows-stability",
        topic="precision",
        sentence="The steady fall of sampling's error shows that the exact algorithm is numerically stable.",
        where=_ACCURACY,
        needs=("precision", "stability"),
        judge=_fall_shows_stability,
    ),
    Claim(
        name="stable",
        topic="precision",
        sentence="The exact algorithm, in float32 as it was run, is numerically stable.",
        where="Conclusion",
        needs=("stability",),
        judge=_stable,
    ),
    Claim(
        name="zero-gaps",
        topic="precision",
        sentence="The true gap is often 0, for example when the noise is small.",
        where=_ACCURACY,
        needs=("stability",),
        judge=_zero_gaps,
    ),
    Claim(
        name="time-mc",
        topic="precision",
        sentence="In the time of an exact gap, plain Monte Carlo is noticeably less accurate.",
        where=_EFFICIENCY,
        needs=("equal-time",),
        judge=_time_mc,
    ),
    Claim(
        name="time-size",
        topic="precision",
        sentence="In equal time, the error of sampling is in general smaller for larger models.",
        where=_EFFICIENCY,
        needs=("equal-time",),
        judge=_time_size,
    ),
    Claim(
        name="time-scale",
        topic="precision",
        sentence="In equal time, Monte Carlo's error falls as σ grows.",
        where=_EFFICIENCY,
        needs=("equal-time",),
        judge=_time_scale,
    ),
    Claim(
        name="time-closest",
        topic="precision",
        sentence="Table 1 has the numbers of iterations closest in time to the exact algorithm.",
        where=_EFFICIENCY,
        needs=("equal-time",),
        judge=_time_closest,
    ),
    Claim(
        name="exact-preferable",
        topic="precision",
        sentence="Who wants very accurate gaps, here to 1 %, is better off with the exact method.",
        where="Conclusion",
        needs=("equal-time",),
        judge=_exact_preferable,
    ),
    Claim(
        name="agreement-k",
        topic="agreement",
        sentence="Greedy's agreement with SHAP usually falls as k grows.",
        where=_RANKING,
        needs=("agreement",),
        judge=partial(_agreement_moves, "k", "scale", -1),
    ),
    Claim(
        name="agreement-scale",
        topic="agreement",
        sentence="Greedy's agreement with SHAP usually rises with σ: small noise brings out differences.",
        where=f"Introduction; {_RANKING}",
        needs=("agreement",),
        judge=partial(_agreement_moves, "scale", "k", 1),
    ),
    Claim(
        name="agreement-size",
        topic="agreement",
        sentence="Greedy's agreement with SHAP is usually lower for bigger models than for single trees.",
        where=_RANKING,
        needs=("agreement",),
        judge=_bigger_lower,
    ),
    Claim(
        name="agreement-first",
        topic="agreement",
        sentence="Greedy and SHAP name the same most important feature in less than 76 % of the rows.",
        where=_RANKING,
        needs=("agreement",),
        judge=_same_first,
    ),
    Claim(
        name="agreement-low",
        topic="agreement",
        sentence="In general, the rankings by greedy and by SHAP are quite different.",
        where=_RANKING,
        needs=("agreement",),
        judge=_mostly_different,
    ),
    Claim(
        name="pgi-average",
        topic="pgi",
        sentence="The printed scores are averages of PGI² over the data set.",
        where=f"{_PGI}; Table 3 and its twin for single trees",
        needs=("pgi",),
        judge=_pgi_average,
    ),
    Claim(
        name="pgi-bigger",
        topic="pgi",
        sentence="For bigger models, greedy has a higher average PGI² than SHAP, except at σ' = 1, σ = 0.1.",
        where=f"{_PGI}; Table 3",
        needs=("pgi",),
        judge=partial(_pgi_ahead, "Bigger"),
    ),
    Claim(
        name="pgi-single",
        topic="pgi",
        sentence=(
            "For single trees too, greedy has a higher average PGI² than SHAP, except perhaps at σ' = 1, "
            "σ = 0.1."
        ),
        where="Introduction; Appendix, Table 3 for single trees",
        needs=("pgi",),
        judge=partial(_pgi_ahead, "Single"),
    ),
    Claim(
        name="pgi-own-scale",
        topic="pgi",
        sentence="Greedy does well: at each σ', none has a higher average PGI² than greedy with σ = σ'.",
        where=f"{_PGI}; Table 3 and its twin for single trees",
        needs=("pgi",),
        judge=_own_scale,
    ),
    Claim(
        name="randomising-draws",
        topic="randomising",
        sentence="The randomised features of test rows were drawn from the test set, 100 times.",
        where=f"{_REMOVING}; Appendix",
        needs=("randomising",),
        judge=_random_draws,
    ),
    Claim(
        name="randomising-same",
        topic="randomising",
        sentence=(
            "With features randomised, greedy and SHAP do not differ significantly on wine, nor on Parkinson "
            "telemonitoring."
        ),
        where=f"{_REMOVING}; Appendix",
        needs=("randomising",),
        judge=_no_difference,
    ),
    Claim(
        name="randomising-housing",
        topic="randomising",
        sentence="With features randomised, greedy with σ of 0.1 or 0.3 is better than SHAP on housing.",
        where=f"{_REMOVING}; Appendix",
        needs=("randomising",),
        judge=_housing,
    ),
    Claim(
        name="randomising-not-worse",
        topic="randomising",
        sentence="With features randomised, greedy is better than SHAP or as good on every data set.",
        where="Introduction",
        needs=("randomising",),
        judge=_not_worse,
    ),
    Claim(
        name="retraining-settings",
        topic="retraining",
        sentence="Models were trained with the hyperparameters that the appendix lists.",
        where="Appendix, Models training",
        needs=("retraining",),
        judge=_settings,
    ),
    Claim(
        name="retraining-shap",
        topic="retraining",
        sentence="By models trained without them, SHAP picks the most important features better than greedy.",
        where=f"Introduction; {_REMOVING}; Appendix",
        needs=("retraining",),
        judge=_shap_retrained,
    ),
    Claim(
        name="no-winner",
        topic="rankings",
        sentence="By removing features, greedy and SHAP can each be ahead, depending on data set and method.",
        where=_REMOVING,
        needs=("randomising", "retraining"),
        judge=_no_winner,
    ),
    Claim(
        name="other-first",
        topic="rankings",
        sentence="In general, greedy names another most important feature than SHAP.",
        where="Introduction; Conclusion",
        needs=("agreement",),
        judge=partial(_mostly_different, k=1),
    ),
    Claim(
        name="similar",
        topic="rankings",
        sentence="By several measures of faithfulness, greedy is about as good as SHAP.",
        where="Abstract; Conclusion",
        needs=("pgi", "randomising", "retraining"),
        judge=_similar,
    ),
)
"""In the order of the paper, by topic."""
