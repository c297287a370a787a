"""What came out of a reproduction, before any detail: printed numbers, sentences, and what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from reproduction.common.published import DESCRIBED
from reproduction.common.results import Result
from reproduction.experiments.clocks import TOGETHER
from reproduction.report.figures import ahead_and_behind
from reproduction.report.page import Block, Bullets, Cell, Group, Heading, Paragraph, Table, Tone
from reproduction.report.words import METHOD_NAMES, share
from reproduction.reproduce import TRAINING, Reproduction

_TABLES: Final[Mapping[tuple[str, str], str]] = {  # by table and quantity
    ("precision", "iterations"): "Table 1: iterations as slow as the exact method (clocks)",
    ("precision", "nmae"): "Table 1: their NMAE",
    ("agreement", "agreement"): "Table 2: rows with the same k most important features as SHAP",
    ("pgi", "pgi2"): "Table 3: average PGI², Bigger models",
    ("pgi-single", "pgi2"): "average PGI², Single trees (appendix)",
    ("randomising", "rmse"): "feature randomising (appendix)",
    ("retraining", "rmse"): "remove and retrain (appendix)",
}
_OUTCOMES: Final[Mapping[str, str]] = {  # for people
    "matches": "same digits",
    "explained": "explained",
    "differs": "differ",
    "not recomputed": "not recomputed",
}
_VERDICTS: Final[Mapping[str, str]] = {
    "holds": "hold",
    "holds in part": "hold in part",
    "does not hold": "do not hold",
    "undecided": "are undecided",
}
_TONES: Final[Mapping[str, Tone]] = {"holds": "good", "holds in part": "fair", "does not hold": "bad"}
_TOPICS: Final[Mapping[str, str]] = {
    "precision": "Exact and sampled gaps",
    "agreement": "Agreement of greedy and SHAP",
    "pgi": "PGI²",
    "randomising": "Feature randomising",
    "retraining": "Remove and retrain",
    "rankings": "Greedy and SHAP as a whole",
}


# ---- counts --------------------------------------------------------------------------------------


def outcomes(cells: Result) -> dict[str, Counter[str]]:
    """How many printed cells of each kind have which outcome, by what they are."""
    return {
        name: Counter(row["outcome"] for row in cells.where(table=table, quantity=quantity))
        for (table, quantity), name in _TABLES.items()
    }


def summary_lines(found: Reproduction) -> Iterator[str]:
    """What came out, in a few lines: cells by table, sentences by verdict, and what was left out."""
    if "cells" in found.results:
        for name, counts in outcomes(found.results["cells"]).items():
            if counts["not recomputed"] < counts.total():
                yield f"{name}: {counts.total()} printed cells: {_counted(counts, _OUTCOMES)}"
        verdicts = Counter(found.results["claims"].column("verdict"))
        yield f"Of {verdicts.total()} sentences of the paper {_counted(verdicts, _VERDICTS)}"
    for what in found.left_out:
        yield f"Left out: {what}"


def _counted(counts: Mapping[Any, int], words: Mapping[str, str]) -> str:
    return ", ".join(f"{counts[name]} {word}" for name, word in words.items() if counts[name])


# ---- the first section of the page ---------------------------------------------------------------


def summary(found: Reproduction) -> Iterator[Block]:
    """A few sentences, the printed cells by table, and the sentences by verdict."""
    yield Heading("In short")
    yield Paragraph(_about(found))
    if "cells" in found.results:
        yield Paragraph(_cells_in_words(outcomes(found.results["cells"])))
    yield Bullets(tuple(findings(found)))
    if "cells" in found.results:
        yield _cells_table(outcomes(found.results["cells"]))
        yield Paragraph(
            "A cell is explained if the printed number lies in the range over ways to break ties, within the "
            "error of the sampling that it came from, or within what other orders of the training rows give. "
            "Each cell, with its verdict and why, is in cells.csv."
        )
        yield from _verdicts(found.results["claims"])
    if found.left_out:
        yield Paragraph("Left out of this run:")
        yield Bullets(found.left_out)


def _about(found: Reproduction) -> str:
    whose = "trained by this run" if TRAINING in found.results else "that the paper's authors saved"
    paper = (
        "Gajewski, Karczmarz, Rapicki, Sankowski: Accurate Estimation of Feature Importance Faithfulness for "
        "Tree Models"
    )
    if "cells" in found.results:
        return (
            f"{paper}, recomputed with predgap on models {whose}. Where the published protocol is not what "
            "the text describes, both are shown."
        )
    names = ", ".join(dict.fromkeys(subject.dataset for subject in found.subjects))
    return f"The experiments of {paper}, on other data: {names}. Nothing here confirms or refutes the paper."


def _cells_in_words(counts: Mapping[str, Counter[str]]) -> str:
    total = sum(counts.values(), Counter[str]())
    said = (
        f"Of the paper's {total.total()} printed numbers, {total['matches']} come out with the same digits "
        f"and {total['explained']} with other digits for a reason that was measured; {total['differs']} "
        f"differ, and {total['not recomputed']} were not recomputed."
    )
    where = [f"{name} ({of['differs']})" for name, of in counts.items() if of["differs"]]
    return f"{said} Those that differ: {'; '.join(where)}." if where else said


def _cells_table(counts: Mapping[str, Counter[str]]) -> Table:
    lines = {**counts, "all": sum(counts.values(), Counter[str]())}
    rows = tuple(
        (name, str(of.total()), *(str(of[outcome]) for outcome in _OUTCOMES)) for name, of in lines.items()
    )
    return Table(("table", "printed cells", *_OUTCOMES.values()), rows, caption="Printed numbers, by table")


def _verdicts(claims: Result) -> Iterator[Block]:
    counts = Counter(claims.column("verdict"))
    yield Paragraph(f"Of {counts.total()} sentences of the paper {_counted(counts, _VERDICTS)}.")
    yield _verdicts_table(claims)
    refuted = tuple(row["sentence"] for row in claims.where(verdict="does not hold"))
    if refuted:
        yield Paragraph("These do not hold:")
        yield Bullets(refuted)


def _verdicts_table(claims: Result) -> Table:
    counts = {
        name: Counter(row["verdict"] for row in claims.where(topic=topic)) for topic, name in _TOPICS.items()
    }
    lines = {name: of for name, of in counts.items() if of} | {"all": Counter(claims.column("verdict"))}
    shown = [verdict for verdict in _VERDICTS if lines["all"][verdict]]
    rows = tuple(
        (name, str(of.total()), *(str(of[verdict]) for verdict in shown)) for name, of in lines.items()
    )
    header = ("about", "sentences", *(_VERDICTS[verdict] for verdict in shown))
    return Table(header, rows, caption="Sentences of the paper, by verdict")


def sentences(found: Reproduction) -> Iterator[Block]:
    """The paper's sentences with their verdicts."""
    yield Heading("What the paper says", short="Claims")
    yield Paragraph(
        "A sentence is broken into cases, such as one for each model and σ. It holds if all cases that "
        "decide speak for it (three quarters, where it says usually or in general), in part if at least as "
        "many do as speak against it."
    )
    rows: list[tuple[str | Cell, ...] | Group] = []
    for topic, name in _TOPICS.items():
        mine = found.results["claims"].where(topic=topic)
        rows += [Group(name)] if mine else []
        rows += [
            (
                row["sentence"],
                Cell(row["verdict"], _TONES.get(row["verdict"], "none")),
                row["evidence"],
                row["where"],
            )
            for row in mine
        ]
    yield Table(("in our words", "verdict", "evidence", "where"), tuple(rows), n_text=4, stacks=True)


# ---- findings ------------------------------------------------------------------------------------


def findings(found: Reproduction) -> Iterator[str]:
    """What each experiment found, in a sentence with its numbers."""
    for experiment, say in _FINDINGS.items():
        if experiment in found.results and len(found.results[experiment]):
            yield say(found.results[experiment])


def _on_equal_time(result: Result) -> str:
    said = []
    for method in ("mc", "halton", "sobol"):
        known = [
            row["nmae"] for row in result.where(clock=TOGETHER, method=method) if row["nmae"] is not None
        ]
        if known:
            said.append(f"{METHOD_NAMES[method]} {_shares(known)}")
    errors = "; ".join(said) if said else "not measured"
    return f"In the time of an exact gap, sampling is off by (NMAE): {errors}."


def _on_stability(result: Result) -> str:
    rows = result.where(arithmetic="float32")
    shares = _shares([row["wrong"] for row in rows])
    limit = share(result.config["tolerance"])
    return f"Algorithm 1 in float32 is off by more than {limit} in {shares} of the gaps of a model at a σ."


def _on_agreement(result: Result) -> str:
    places = sorted({row["k"] for row in result.records()})
    few, many = ([row["agreement"] for row in result.where(k=k)] for k in (places[0], places[-1]))
    first = "feature" if places[0] == 1 else f"{places[0]} features"
    return (
        f"Greedy and SHAP name the same most important {first} in {_shares(few)} of the test rows, the same "
        f"{places[-1]} in {_shares(many)}."
    )


def _ahead(what: str) -> Callable[[Result], str]:
    def say(result: Result) -> str:
        rows = result.where(protocol=DESCRIBED, method="greedy")
        ahead, behind = ahead_and_behind(rows)
        return (
            f"{what}: greedy is ahead of SHAP in {ahead} of {len(rows)} comparisons and behind in {behind} "
            "(95 % intervals; experiment as described in the text)."
        )

    return say


def _shares(values: list[float]) -> str:
    low, high = share(min(values)), share(max(values))
    return low if low == high else f"{low} to {high}"


_FINDINGS: Final[Mapping[str, Callable[[Result], str]]] = {
    "equal-time": _on_equal_time,
    "stability": _on_stability,
    "agreement": _on_agreement,
    "pgi": _ahead("Average PGI²"),
    "randomising": _ahead("Features randomised"),
    "retraining": _ahead("Models trained without the features"),
}
