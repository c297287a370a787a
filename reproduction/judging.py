"""How the paper's sentences are judged: cases become verdicts, with words for the evidence.

First come sentences about greedy rankings beside those of SHAP, then those about sampled gaps: their error,
the stability of the exact ones, and both at equal time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean, linear_regression, median
from typing import Any, Final, Literal

from scipy.special import stdtrit

from reproduction.experiments.clocks import ALGORITHM_1_FLOAT32, EXACT, TOGETHER
from reproduction.experiments.precision import ITERATIONS
from reproduction.helpers import count
from reproduction.published import DESCRIBED, PUBLISHED, SAMPLERS, Cell, cells
from reproduction.results import Result, Value

Verdict = Literal["holds", "holds in part", "does not hold", "undecided"]
Finding = tuple[Verdict, str]  # and the evidence
Row = Mapping[str, Any]

USUALLY: Final = 0.75  # of the cases
MODEL: Final = ("kind", "dataset")


# ---- from cases to verdicts ----------------------------------------------------------------------


class NothingToJudgeError(Exception):
    """No case of a sentence is in the results."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many cases speak for a sentence, how many against it, and how many for neither.

    Examples
    --------
    >>> tally = Tally.of([True, True, True, False, None])
    >>> print(tally, "cases:", tally.verdict())
    3 of 5 cases: holds in part
    >>> tally.verdict(needed=0.75), Tally.of([True, False, False]).verdict()
    ('holds', 'does not hold')

    Cases for neither do not count, but a sentence does not hold on a minority:

    >>> Tally.of([True, None]).verdict(), Tally.of([True, None, None]).verdict(), Tally.of([None]).verdict()
    ('holds', 'holds in part', 'undecided')
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
        """`needed` is the share, of cases for and against the sentence, with which it holds."""
        if self.total == 0:
            raise NothingToJudgeError
        decided = self.favour + self.against
        if decided == 0:
            return "undecided"
        if self.favour >= needed * decided and 2 * self.favour >= self.total:
            return "holds"
        return "holds in part" if self.favour >= max(self.against, 1) else "does not hold"


def joined(verdicts: Iterable[Verdict]) -> Verdict:
    """One verdict for several ways to judge a sentence; those that leave it undecided do not count.

    Examples
    --------
    >>> joined(["holds", "holds"]), joined(["holds", "does not hold"])
    ('holds', 'holds in part')
    >>> joined(["undecided", "does not hold"]), joined(["undecided"])
    ('does not hold', 'undecided')
    """
    found = set(verdicts)
    if not found:
        raise NothingToJudgeError
    if len(found) > 1:
        found.discard("undecided")
    return found.pop() if len(found) == 1 else "holds in part"


# ---- rows, and words for them --------------------------------------------------------------------


def grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows that have the same values in some columns."""
    out: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        out.setdefault(tuple(row[key] for key in keys), []).append(row)
    return out


def in_order(rows: Iterable[Row], by: str, *keys: str) -> list[list[Row]]:
    """Groups of at least two rows that have the same values of `keys`, in the order of `by`."""
    groups = grouped(rows, *keys).values()
    return [sorted(group, key=lambda row: row[by]) for group in groups if len(group) > 1]


def on_models(rows: Iterable[Row]) -> str:
    """On how many models."""
    return f"on {count(len(grouped(rows, *MODEL)), 'model')}"


def spanned(values: Iterable[float]) -> str:
    """From the smallest to the largest.

    Examples
    --------
    >>> spanned([0.2, 0.1234, 0.15]), spanned([0.5])
    ('0.123 to 0.2', '0.5')
    """
    found = list(values)
    if not found:
        raise NothingToJudgeError
    low, high = (f"{value:.3g}" for value in (min(found), max(found)))
    return low if low == high else f"{low} to {high}"


def percent(share: float) -> str:
    """As in 12.3 %."""
    return f"{100 * share:.3g} %"


# ---- agreement -----------------------------------------------------------------------------------

_MOST: Final = 0.76


def _monotone(rows: Iterable[Row], by: str, other: str, sign: int) -> Tally:
    """Whether agreement rises (sign 1) or falls (-1) with `by` all the way, for each model and `other`."""
    return Tally.of(
        all(sign * (b["agreement"] - a["agreement"]) > 0 for a, b in pairwise(series))
        for series in in_order(rows, by, *MODEL, other)
    )


def _as_printed(rows: Iterable[Row]) -> list[Row]:
    return [{**row, "agreement": float(row["published"])} for row in rows if row["published"] is not None]


def agreement_moves(by: str, other: str, sign: int, agreement: Result) -> Finding:
    rows = agreement.records()
    tally, printed = (_monotone(some, by, other, sign) for some in (rows, _as_printed(rows)))
    in_table = f"; in the printed table in {printed}" if printed.total else ""
    way, of = ("rises with σ", "k") if sign > 0 else ("falls with k", "σ")
    return tally.verdict(USUALLY), (
        f"It {way} all the way in {tally} combinations of model and {of}, {on_models(rows)}{in_table}."
    )


def bigger_lower(agreement: Result) -> Finding:
    pairs = [
        {row["kind"]: row for row in group}
        for group in grouped(agreement.records(), "dataset", "scale", "k").values()
        if len(group) == 2
    ]
    tally = Tally.of(pair["Bigger"]["agreement"] < pair["Single"]["agreement"] for pair in pairs)
    sure = Tally.of(pair["Bigger"]["highest_float32"] < pair["Single"]["lowest_float32"] for pair in pairs)
    return tally.verdict(USUALLY), (
        f"Agreement is lower for the Bigger model in {tally} cells, in {sure.favour} however ties in float32 "
        f"are broken, {on_models(row for pair in pairs for row in pair.values())}."
    )


def same_first(agreement: Result) -> Finding:
    """Against it if it is so with ties to the lower index, undecided if ties can make it so."""
    rows = agreement.where(k=1)
    tally = Tally.of(
        False if row["agreement"] >= _MOST else None if row["highest_float32"] >= _MOST else True
        for row in rows
    )
    return tally.verdict(), (
        f"Agreement at k = 1 is {spanned(row['agreement'] for row in rows)}, and at most "
        f"{max(row['highest_float32'] for row in rows):.3g} however ties in float32 are broken, "
        f"{on_models(rows)}."
    )


def mostly_different(agreement: Result, k: int | None = None) -> Finding:
    rows = [row for row in agreement.records() if k in (None, row["k"])]
    tally = Tally.of(row["agreement"] < 0.5 for row in rows)
    by_kind = ", ".join(
        f"{Tally.of(row['agreement'] < 0.5 for row in group)} for {kind} models"
        for (kind,), group in grouped(rows, "kind").items()
    )
    return tally.verdict(USUALLY), (
        f"They agree in less than half of the rows in {tally} cells ({by_kind}), {on_models(rows)}; "
        f"agreement is {spanned(row['agreement'] for row in rows)}."
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
    """Sure is what an interval says, if the row has one, or else the score, in the digits that are printed.

    `place` is the column that tells cells of one ranking apart.
    """
    out = []
    for group in grouped(rows, "protocol", *MODEL, place).values():
        shap = [row for row in group if row["method"] == "shap"]
        out += [_lead(row, shap[0], score) for row in group if row["method"] == "greedy" and shap]
    return out


def _lead(row: Row, shap: Row, score: str) -> _Lead:
    ours, theirs = row[score], shap[score]
    low, high = row["advantage_low"], row["advantage_high"]
    if low is None or high is None:
        # the same sums in another order, or what the paper's digits do not tell apart
        same = math.isclose(ours, theirs, rel_tol=1e-9) or _printed_alike(row, shap)
        return _Lead(row, ours, theirs, None if same else ours > theirs)
    return _Lead(row, ours, theirs, True if low > 0 else False if high < 0 else None)


def _printed_alike(row: Row, shap: Row) -> bool:
    """Both are the same text in the paper, and it is theirs: of other models, the text says nothing."""
    return bool(row["published"] == shap["published"] and row["verdict"] == shap["verdict"] == "matches")


_pgi_leads = partial(_leads, score="pgi2", place="evaluation_scale")
_rmse_leads = partial(_leads, score="rmse", place="k")


def _retrained(retraining: Result, **wanted: Value) -> list[_Lead]:
    confidence = retraining.config["confidence"]
    return _rmse_leads(_over_trainings(row, confidence) for row in retraining.where(**wanted))


def _over_trainings(row: Row, confidence: float) -> Row:
    """The row with an interval for its advantage that is over trainings too, if there are several.

    The advantage is off by what other rows change and by what other trainings change, independently; so the
    distance of each end is the root of the sum of two squares, of its distance over rows and of half the t
    interval for the mean over trainings.
    """
    n, sd = row["n_trainings"], row["advantage_training_sd"]
    if sd is None:
        return row
    half = float(stdtrit(n - 1, (1 + confidence) / 2)) * sd / math.sqrt(n)
    mean, low, high = (row[name] for name in ("advantage", "advantage_low", "advantage_high"))
    ends = {
        "advantage_low": mean - math.hypot(mean - low, half),
        "advantage_high": mean + math.hypot(high - mean, half),
    }
    return {**row, **ends}


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
        f"({_how(lead)})"
        for lead in leads[:limit]
    ]
    more = [f"{len(leads) - limit} more"] if len(leads) > limit else []
    return " and ".join(shown + more)


def _how(lead: _Lead) -> str:
    if lead.higher is None:
        if lead.row["advantage_low"] is not None:
            return "not significant"
        return "the same" if lead.row["published"] is None else "the same in print"
    return f"behind by {percent(1 - lead.ratio)}"


def pgi_ahead(kind: str, pgi: Result) -> Finding:
    """Almost everywhere but at σ' = 1, σ = 0.1."""
    verdicts, texts = [], []
    leads = _pgi_leads(pgi.where(kind=kind))
    for protocol, some in _protocols(leads).items():
        far = [lead for lead in some if (lead.row["evaluation_scale"], lead.row["scale"]) == (1.0, 0.1)]
        rest = [lead for lead in some if lead not in far]
        tally = Tally.of(lead.higher for lead in rest)
        verdicts.append(tally.verdict(USUALLY))
        there = (
            f"at σ' = 1, σ = 0.1 in {Tally.of(lead.higher for lead in far)} cells, elsewhere " if far else ""
        )
        text = f"{protocol}, greedy is ahead {there}in {tally}{'' if far else ' cells'}"
        if tally.favour < tally.total:
            text += f", not in {_named([lead for lead in rest if not lead.higher])}"
        texts.append(text)
    evidence = ". ".join(text[0].upper() + text[1:] for text in texts)
    return joined(verdicts), f"{evidence}, {on_models(lead.row for lead in leads)}."


def own_scale(pgi: Result) -> Finding:
    verdicts, texts = [], []
    for (protocol,), rows in grouped(pgi.records(), "protocol").items():
        groups = grouped(rows, *MODEL, "evaluation_scale").values()
        tally = Tally.of(case for group in groups for case in _own_is_best(group))
        verdicts.append(tally.verdict())
        texts.append(f"{tally} rows of the table {protocol}")
    return joined(verdicts), f"So it is in {' and '.join(texts)}, {on_models(pgi.records())}."


def _own_is_best(group: Sequence[Row]) -> list[bool]:
    """For a ranking with σ = σ', if there is one; a tie counts as best."""
    best = max(row["pgi2"] for row in group)
    own = [row["pgi2"] for row in group if row["scale"] == row["evaluation_scale"]]
    return [math.isclose(score, best, rel_tol=1e-9) for score in own]


def _which_protocol(result: Result, place: str, fit: Callable[[Row], int]) -> tuple[Tally, str]:
    """For it: cells that the described protocol fits better; against it: that the published one fits better.

    Cells that both fit alike do not count. On how many models there are both is told too.
    """
    printed = [row for row in result.records() if row["published"] is not None]
    both = [
        group
        for group in grouped(printed, *MODEL, place, "method", "scale").values()
        if {row["protocol"] for row in group} == {DESCRIBED, PUBLISHED}
    ]
    fits = [{row["protocol"]: fit(row) for row in group} for group in both]
    tally = Tally.of(one[DESCRIBED] > one[PUBLISHED] for one in fits if one[DESCRIBED] != one[PUBLISHED])
    return tally, on_models(row for group in both for row in group)


def _same_digits(row: Row) -> bool:
    """As they are, or for some way to break ties."""
    return bool(row["verdict"] == "matches" or row["in_float32_range"] == "inside")


def pgi_average(pgi: Result) -> Finding:
    tally, on = _which_protocol(pgi, "evaluation_scale", _same_digits)
    return tally.verdict(), (
        f"Of {tally.total} printed cells that tell the two apart, {tally.against} are means over the first "
        f"few test rows and {tally.favour} means over all of them, {on}."
    )


# ---- features removed ----------------------------------------------------------------------------


def _randomised(randomising: Result, protocol: str, datasets: Sequence[str] | None = None) -> list[_Lead]:
    rows = [row for row in randomising.where(protocol=protocol) if not datasets or row["dataset"] in datasets]
    return _rmse_leads(rows)


def no_difference(randomising: Result) -> Finding:
    datasets = ("wine", "telemetry")
    leads = _randomised(randomising, DESCRIBED, datasets)
    as_published = _randomised(randomising, PUBLISHED, datasets)
    aside = ""
    if as_published:
        largest = max(abs(lead.ratio - 1) for lead in as_published)
        aside = f"; as published, with labels of other rows, RMSEs differ by at most {percent(largest)}"
    return Tally.of(lead.higher is None for lead in leads).verdict(), (
        f"As described, {_wins(leads)}, {on_models(lead.row for lead in leads)}, by up to "
        f"{percent(max(abs(lead.ratio - 1) for lead in leads))} of SHAP's RMSE{aside}."
    )


def housing(randomising: Result) -> Finding:
    leads = [
        lead for lead in _randomised(randomising, DESCRIBED, ("housing",)) if lead.row["scale"] in (0.1, 0.3)
    ]
    printed = [cell for cell in cells("randomising") if cell.dataset == "housing"]
    shap = {cell.k: float(cell.printed) for cell in printed if cell.scale is None}
    in_table = Tally.of(float(cell.printed) > shap[cell.k] for cell in printed if cell.scale in (0.1, 0.3))
    return Tally.of(lead.higher for lead in leads).verdict(), (
        f"As described, {_wins(leads)}: its RMSE is {spanned(lead.ratio for lead in leads)} times SHAP's, "
        f"{on_models(lead.row for lead in leads)}. In the printed table greedy is ahead in {in_table}."
    )


def not_worse(randomising: Result) -> Finding:
    leads = _randomised(randomising, DESCRIBED)
    first = [lead for lead in leads if lead.row["k"] == 1]
    at_first = f"; at k = 1, SHAP is in {Tally.of(lead.higher is False for lead in first)}" if first else ""
    return Tally.of(lead.higher is not False for lead in leads).verdict(), (
        f"As described, {_wins(leads)}{at_first}, {on_models(lead.row for lead in leads)}."
    )


def random_draws(randomising: Result) -> Finding:
    tally, on = _which_protocol(randomising, "k", lambda row: row["within_jointly"] == "inside")
    return tally.verdict(), (
        f"Of {tally.total} printed cells that only one protocol fits, {tally.favour} fit this one and "
        f"{tally.against} fit 500 draws from the training set, for training rows with labels of test rows, "
        f"{on}."
    )


def settings(retraining: Result) -> Finding:
    tally, on = _which_protocol(retraining, "k", _as_trained)
    return tally.verdict(), (
        f"Of {tally.total} printed cells that one protocol fits better, by the same digits or else as one "
        f"more training, {tally.favour} fit the appendix and {tally.against} the hyperparameters of the "
        f"models that the authors saved, {on}."
    )


def _as_trained(row: Row) -> int:
    """2 for the same digits, from any number of trainings or, over ties, from one; 1 for one more training.

    An interval is weaker: with few trainings it is wide, and holds much.
    """
    if row["verdict"] == "matches" or (row["n_trainings"] == 1 and _same_digits(row)):
        return 2
    return int(row["within_jointly"] == "inside")


_SURE: Final = "Significance of retraining is over test rows, and over trainings where there are several."


def shap_retrained(retraining: Result) -> Finding:
    verdicts, texts = [], []
    leads = _retrained(retraining)
    for protocol, some in _protocols(leads).items():
        tally = Tally.of(None if lead.higher is None else not lead.higher for lead in some)
        verdicts.append(tally.verdict(USUALLY))
        texts.append(f"{protocol}, {_wins(some)} (RMSE {spanned(lead.ratio for lead in some)} times SHAP's)")
    evidence = "; ".join(texts)
    return joined(verdicts), (
        f"{evidence[:1].upper()}{evidence[1:]}, {on_models(lead.row for lead in leads)}. {_SURE}"
    )


# ---- conclusions ---------------------------------------------------------------------------------

_SIMILAR: Final = 0.1


def no_winner(randomising: Result, retraining: Result) -> Finding:
    """For it, each must surely be ahead somewhere; in part, one surely and the other by its score only."""
    drawn, trained = _randomised(randomising, DESCRIBED), _retrained(retraining, protocol=DESCRIBED)
    if not drawn or not trained:
        raise NothingToJudgeError
    every = drawn + trained
    sure = {lead.higher for lead in every} - {None}
    seen = {lead.score > lead.shap for lead in every}
    verdict: Verdict = "undecided"
    if sure:
        verdict = "holds" if len(sure) == 2 else "holds in part" if len(seen) == 2 else "does not hold"
    return verdict, (
        f"As described, randomising: {_wins(drawn)}; retraining: {_wins(trained)}, "
        f"{on_models(lead.row for lead in every)}. {_SURE}"
    )


def similar(pgi: Result, randomising: Result, retraining: Result) -> Finding:
    """Within a tenth of SHAP's score."""
    metrics = {
        "PGI²": _pgi_leads(pgi.where(protocol=DESCRIBED, kind="Bigger")),
        "RMSE after randomising": _rmse_leads(randomising.where(protocol=DESCRIBED, kind="Bigger")),
        "RMSE after retraining": _retrained(retraining, protocol=DESCRIBED, kind="Bigger"),
    }
    tallies = {
        name: Tally.of(abs(lead.ratio - 1) <= _SIMILAR for lead in leads) for name, leads in metrics.items()
    }
    texts = [
        f"{name} is within {percent(_SIMILAR)} in {tally} cells "
        f"({spanned(lead.ratio for lead in metrics[name])} times SHAP's)"
        for name, tally in tallies.items()
    ]
    verdict = joined(tally.verdict(USUALLY) for tally in tallies.values())
    every = [lead.row for leads in metrics.values() for lead in leads]
    return verdict, f"Greedy's {'; '.join(texts)}, {on_models(every)}."


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
