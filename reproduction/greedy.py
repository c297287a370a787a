"""Sentences about greedy rankings beside those of SHAP."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

from scipy.special import stdtrit

from reproduction.common.published import DESCRIBED, PUBLISHED, cells
from reproduction.common.results import Result, Value
from reproduction.verdicts.claims.judging import (
    MODEL,
    USUALLY,
    Finding,
    NothingToJudgeError,
    Row,
    Tally,
    Verdict,
    grouped,
    in_order,
    joined,
    on_models,
    percent,
    spanned,
)

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
