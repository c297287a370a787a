"""The page of a reproduction: published and recomputed numbers side by side, with a verdict on each.

It begins with what came out, before any detail. Then each experiment has a function that says what the page
shows of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from reproduction.experiments.clocks import ALGORITHM_1_FLOAT32, EXACT, TOGETHER
from reproduction.experiments.equal_time import CLOCKS
from reproduction.figures import (
    advantage_figure,
    agreement_figure,
    ahead_and_behind,
    cayley_figure,
    entropy_figure,
    error_figure,
    pair_name,
    sampled_figure,
    stability_figure,
    time_figure,
)
from reproduction.helpers import atomic_write
from reproduction.page import (
    HOW_TO_READ,
    HOW_TO_READ_AHEAD,
    METHOD_NAMES,
    Block,
    Bullets,
    Cell,
    Column,
    Figure,
    Folded,
    Group,
    Heading,
    Page,
    Paragraph,
    Row,
    Table,
    Tone,
    ahead,
    by_place,
    by_ranking,
    by_sampling,
    by_value,
    cell_verdict,
    dataset_name,
    duration,
    judged,
    key,
    model_name,
    number,
    pivot,
    ranking_name,
    ranking_of,
    raw,
    share,
    to_html,
    to_markdown,
)
from reproduction.published import DESCRIBED, PUBLISHED
from reproduction.results import Result, joined_files
from reproduction.run import TRAINING, Reproduction

__all__ = ["build", "summary_lines", "write_pages"]


def write_pages(found: Reproduction) -> tuple[Path, Path]:
    """Write the page as Markdown, with its figures beside it, and as one HTML file; both paths."""
    made = build(found)
    folder = found.plan.out
    for figure in made.figures():
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        atomic_write(folder / "figures" / f"{figure.name}.svg", figure.svg)
    name = f"reproduction{found.plan.suffix}"
    markdown, html = folder / f"{name}.md", folder / f"{name}.html"
    atomic_write(markdown, to_markdown(made).encode())
    atomic_write(html, to_html(made).encode())
    return markdown, html


def build(found: Reproduction) -> Page:
    """The page."""
    parts: Sequence[tuple[str, Callable[[Reproduction], Iterable[Block]]]] = (
        ("claims", sentences),
        ("equal-time", equal_time),
        ("precision", precision),
        ("stability", stability),
        ("agreement", agreement),
        ("pgi", pgi),
        ("randomising", randomising),
        ("retraining", retraining),
        ("sampled-rankings", sampled_rankings),
        ("cayley", cayley),
        ("entropy", entropy),
        ("pgu", pgu),
        (TRAINING, training),
    )
    there = [write for needed, write in parts if needed in found.results and len(found.results[needed])]
    blocks = [block for write in (summary, *there, _origin) for block in write(found)]
    about = "reproduced" if "cells" in found.results else "on other data"
    return Page(f"The paper, {about}", tuple(blocks))


def _origin(found: Reproduction) -> Iterator[Block]:
    yield Heading("How it was made", short="How made")
    some = next(iter(found.results.values()))
    files = joined_files(found.results.values())
    yield Bullets(tuple(f"{name} {version or 'not installed'}" for name, version in some.versions.items()))
    yield Table(("file", "SHA-256"), tuple(files.items()), n_text=2, stacks=True)
    yield Paragraph(
        f"Tables are in results{found.plan.suffix}/, as CSV and Parquet, each with a manifest: config, "
        "seed, versions, hashes, timings. The same run gives the same bytes but for timings."
    )


# ---- what came out -------------------------------------------------------------------------------

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
    """Counts the printed cells of each kind by their outcome."""
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
    """Says in a sentence with its numbers what each experiment found."""
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


# ---- exact and sampled gaps ----------------------------------------------------------------------


def precision(found: Reproduction) -> Iterator[Block]:
    result = found.results["precision"]
    yield Heading("Precision: how far off sampled gaps are", short="Precision")
    yield Paragraph(
        f"{result.config['n_pairs']:,} pairs (x, S) for each model and σ, balanced over |S|; the exact gap "
        "is the truth. NMAE is the sum of absolute errors over the sum of gaps; ± is its standard error "
        "over pairs."
    )
    rows = [
        (
            *(model_name(row), f"{row['scale']:g}", METHOD_NAMES[row["method"]], number(row["iterations"])),
            *(row["published"], f"{row['nmae']:.5f} ± {row['standard_error']:.5f}"),
            cell_verdict(found, "precision", row),
        )
        for row in result.records()
        if row["published"] is not None and row["nmae"] is not None
    ]
    for subject in found.subjects:
        yield error_figure(result, subject.kind, subject.dataset)
    if rows:
        header = ("model", "σ", "method", "iterations", "published NMAE", "recomputed", "verdict")
        yield raw(
            found,
            "precision",
            Table(header, tuple(rows), n_text=3, caption="The errors in Table 1, one by one"),
        )


def equal_time(found: Reproduction) -> Iterator[Block]:
    result = found.results["equal-time"]
    yield Heading("Table 1: sampling in the time of an exact gap", short="Table 1")
    machines = ", ".join(sorted(set(map(str, found.results["clocks"].column("machine")))))
    yield Paragraph(
        f"Machine: {machines}; one thread; the fastest code that predgap has for each method. Iterations and "
        "times are timings or follow from them; they differ from run to run. "
        + (HOW_TO_READ if "cells" in found.results else "")
    )
    yield Paragraph(
        "Iterations: of the paper's 13 numbers, the first that is slower than Algorithm 1 in float32, "
        "without what calls cost. The text has another rule, the closest in time; the long table has both, "
        "also by the clock of predgap's own exact gap, with a call for each pair, exact or sampled."
    )
    yield _table_1(found)
    yield _iterations(found)
    for kind in dict.fromkeys(subject.kind for subject in found.subjects):
        yield time_figure(found.results["precision"], found.results["clocks"], kind)
    yield from _time_table(result)
    yield from _affordable_tables(found)


def _table_1(found: Reproduction) -> Table:
    """As in the paper: judged, with the NMAE of the printed number of iterations; on other data, of ours."""
    if "cells" in found.results:
        return pivot(
            found.results["cells"].where(table="precision"),
            "σ",
            by=by_value("scale"),
            across=by_sampling,
            cell=judged,
            caption="Table 1: iterations in the time of an exact gap, and the NMAE of the printed ones",
        )
    columns = {"iterations": "first_slower", "nmae": "first_slower_nmae"}
    return pivot(
        [
            row | {"quantity": quantity, "value": row[column]}
            for row in found.results["equal-time"].where(clock=ALGORITHM_1_FLOAT32)
            for quantity, column in columns.items()
            if row["method"] != "sobol"
        ],
        "σ",
        by=by_value("scale"),
        across=by_sampling,
        cell=lambda row: number(row["value"]),
        caption="Iterations in the time of an exact gap, and their NMAE",
    )


def _time_table(result: Result) -> Iterator[Block]:
    yield Heading("Time of an exact gap", 3)
    yield pivot(
        [row for clock in CLOCKS for row in result.where(clock=clock, method="mc")],
        "σ",
        by=by_value("scale"),
        across=lambda row: ("", row["clock"]),
        cell=lambda row: duration(row["seconds"]),
    )


def _iterations(found: Reproduction) -> Folded:
    rows = tuple(
        (
            *(model_name(row), row["clock"], f"{row['scale']:g}", METHOD_NAMES[row["method"]]),
            number(row["published"]),
            f"{row['first_slower']} ({number(row['first_slower_nmae'])})",
            f"{row['closest']} ({number(row['closest_nmae'])})",
        )
        for row in found.results["equal-time"].records()
        if row["clock"] in (ALGORITHM_1_FLOAT32, EXACT) and row["method"] != "sobol"
    )
    header = ("model", "clock", "σ", "method", "published", "first slower (NMAE)", "closest (NMAE)")
    caption = "Numbers of iterations by both clocks: the first slower, and the closest in time"
    return raw(found, "equal-time", Table(header, rows, n_text=4, caption=caption))


def _affordable_tables(found: Reproduction) -> Iterator[Block]:
    yield Heading("Error at equal time", 3)
    rows = found.results["equal-time"].where(clock=TOGETHER)
    yield Paragraph(
        "How many samples can be had in the time of an exact gap that is computed together with others, and "
        "what error they have. Sampling is charged the least it can cost: evaluation alone, no calls and no "
        "drawing, as rows can share points. " + where_sampling_wins(rows)
    )
    yield pivot(
        rows,
        "σ",
        by=by_value("scale"),
        across=lambda row: ("", METHOD_NAMES[row["method"]]),
        cell=lambda row: f"{share(row['nmae'])} ({row['affordable']:.0f})",
        caption="NMAE in the time of an exact gap (samples that can be had)",
    )
    table = []
    for row in rows:
        where = (model_name(row), f"{row['scale']:g}", METHOD_NAMES[row["method"]])
        times = (duration(row["seconds"]), duration(row["seconds_10"]), duration(row["seconds_1"]))
        table.append((*where, times[0], f"{row['affordable']:.0f}", share(row["nmae"]), *times[1:]))
    header = ("model", "σ", "method", "exact", "samples", "their NMAE", "time for 10 %", "time for 1 %")
    caption = "Error at equal time, and the time to an error of 10 % and of 1 %"
    yield raw(found, "equal-time", Table(header, tuple(table), n_text=3, caption=caption))


def where_sampling_wins(rows: Sequence[Row]) -> str:
    """Said plainly, from the rows of one clock."""
    sentences = []
    for error, column in (("10 %", "seconds_10"), ("1 %", "seconds_1")):
        counts = []
        for kind in dict.fromkeys(row["kind"] for row in rows):
            cases = [_wins(row, column) for row in rows if row["kind"] == kind]
            open_ones = f" ({cases.count(None)} more are open)" if None in cases else ""
            counts.append(f"{cases.count(True)} of {len(cases)} cases with {kind} models{open_ones}")
        sentences.append(
            f"Where an NMAE of {error} is good enough, sampling is faster in {' and '.join(counts)}."
        )
    return " ".join(sentences)


def _wins(row: Row, column: str) -> bool | None:
    """Does sampling reach its error before exact is done? None if too few samples were measured to tell."""
    if row[column] is not None:
        return bool(row[column] < row["seconds"])
    return None if row["nmae"] is None and row["affordable"] >= 1 else False


def stability(found: Reproduction) -> Iterator[Block]:
    result = found.results["stability"]
    yield Heading("Numerical stability of Algorithm 1", short="Stability")
    yield Paragraph(
        f"{result.config['n_pairs']:,} pairs for each model and σ. A gap is wrong if it is off by more than "
        f"{share(result.config['tolerance'])}; predgap's own gaps are the truth. Shares are of all pairs."
    )
    yield stability_figure(result)
    yield pivot(
        [row | {"what": what} for row in result.records() for what in ("wrong", "zero", "negative")],
        "σ",
        by=by_value("scale"),
        across=lambda row: (row["arithmetic"], row["what"]),
        cell=lambda row: share(row[row["what"]]),
        caption="Gaps that are wrong, lost to 0, or negative",
    )
    rows = tuple(
        (
            *(model_name(row), f"{row['scale']:g}", row["arithmetic"]),
            *(share(row[name]) for name in ("negative", "zero", "wrong")),
            *(f"{row[name]:.1e}" if row[name] is not None else "–" for name in ("median_error", "error_95")),
        )
        for row in result.records()
    )
    header = ("model", "σ", "arithmetic", "negative", "zero", "wrong", "median error", "95th percentile")
    yield raw(found, "stability", Table(header, rows, n_text=3, caption="The same with the sizes of errors"))


def sampled_rankings(found: Reproduction) -> Iterator[Block]:
    result = found.results["sampled-rankings"]
    yield Heading("Rankings by sampling", short="Sampled rankings")
    yield Paragraph(
        "Greedy built on sampled gaps against exact greedy, with common random numbers for all candidates. "
        "Shares of rows: where any place differs, where it matters (the gap of some prefix differs), where "
        "the first feature differs, where the set of the first three differs; and the mean PGI² that is "
        "lost."
    )
    yield sampled_figure(result)
    yield pivot(
        result.records(),
        "σ",
        by=by_value("scale"),
        across=lambda row: (METHOD_NAMES[row["method"]], f"{row['n_samples']:,}"),
        cell=lambda row: share(row["order_differs"]),
        caption="Rows in which any place differs, by samples a gap",
    )
    rows = tuple(
        (
            *(model_name(row), f"{row['scale']:g}", METHOD_NAMES[row["method"]], f"{row['n_samples']:,}"),
            *(
                share(row[name])
                for name in ("order_differs", "gap_differs", "first_differs", "top3_differs", "lost")
            ),
        )
        for row in result.records()
    )
    header = (
        "model",
        "σ",
        "method",
        "samples a gap",
        "order",
        "matters",
        "first",
        "first three",
        "PGI² lost",
    )
    caption = "Where it matters, the first feature, the first three, and the PGI² lost"
    yield raw(found, "sampled-rankings", Table(header, rows, n_text=3, caption=caption))


# ---- rankings ------------------------------------------------------------------------------------


def agreement(found: Reproduction) -> Iterator[Block]:
    result = found.results["agreement"]
    yield Heading("Table 2: agreement with SHAP", short="Table 2")
    yield Paragraph(
        "Share of test rows in which greedy and SHAP have the same set of k features at the top. "
        + (HOW_TO_READ if "cells" in found.results else "")
    )
    yield _as_printed(
        found, "agreement", result.records(), "agreement", "σ", by=by_value("scale"), across=by_place
    )
    yield agreement_figure(result)
    rows = tuple(
        (
            *(model_name(row), f"{row['scale']:g}", str(row["k"]), number(row["published"])),
            number(row["agreement"]),
            f"{number(row['lowest'])} – {number(row['highest'])}",
            f"{number(row['lowest_float32'])} – {number(row['highest_float32'])}",
            cell_verdict(found, "agreement", row),
        )
        for row in result.records()
    )
    header = ("model", "σ", "k", "published", "recomputed", "over ties", "over ties in float32", "verdict")
    caption = (
        "Ranges over all ways to break ties: exact ones, and gaps that the paper's float32 cannot tell apart"
    )
    yield raw(found, "agreement", Table(header, rows, caption=caption))


def pgi(found: Reproduction) -> Iterator[Block]:
    result = found.results["pgi"]
    yield Heading("Table 3 and its counterpart for single trees: average PGI²", short="Table 3")
    yield Paragraph(
        "The published tables are means over the first 3 rows of the test set. As described in the text, "
        "over the whole test set, the numbers differ. " + (HOW_TO_READ if "cells" in found.results else "")
    )
    for kind in dict.fromkeys(result.column("kind")):
        name, printed_as = _PGI_TABLES[str(kind)]
        yield _as_printed(
            found,
            name,
            result.where(protocol=PUBLISHED, kind=kind),
            "pgi2",
            "σ'",
            by=by_value("evaluation_scale"),
            across=by_ranking,
            caption=f"{printed_as}: mean over the first 3 rows, {kind} models",
        )
    yield Heading("Over the whole test set", 3)
    yield Paragraph(f"Higher is better. {HOW_TO_READ_AHEAD}")
    yield _described(result, "pgi2", "σ'", "evaluation_scale", "Mean PGI² over the whole test set")
    for kind in dict.fromkeys(result.column("kind")):
        yield _advantages(result, f"pgi-advantage-{str(kind).lower()}", "PGI² minus SHAP's", str(kind))
    yield _pgi_rows(found)


_PGI_TABLES: Final[Mapping[str, tuple[str, str]]] = {
    "Bigger": ("pgi", "Table 3"),
    "Single": ("pgi-single", "Table 3 for single trees (appendix)"),
}


def _pgi_rows(found: Reproduction) -> Block:
    result = found.results["pgi"]
    described = {key(row): row for row in result.where(protocol=DESCRIBED)}
    rows = []
    for row in result.where(protocol=PUBLISHED):
        whole = described[key(row)]
        rows.append(
            (
                *(model_name(row), f"{row['evaluation_scale']:g}", ranking_of(row), number(row["published"])),
                *(number(row["pgi2"]), cell_verdict(found, _PGI_TABLES[row["kind"]][0], row)),
                f"{number(whole['pgi2'])} ({number(whole['low'])} – {number(whole['high'])})",
            )
        )
    header = ("model", "σ'", "ranking", "published", "3 rows", "verdict", "whole test set")
    caption = "Both protocols, with verdicts and bootstrap intervals"
    return raw(found, "pgi", Table(header, tuple(rows), n_text=3, caption=caption))


def randomising(found: Reproduction) -> Iterator[Block]:
    yield Heading("Feature randomising", short="Randomising")
    yield Paragraph(
        "The RMSE of the model when the k most important features are drawn anew from their columns: the "
        "larger, the more important they were. As published, a perturbed training row is compared with the "
        "label of the test row of the same index (500 draws); as described, test rows with their own "
        "labels, exactly."
    )
    yield from _rmse_tables(found, "randomising", "expected")


def retraining(found: Reproduction) -> Iterator[Block]:
    yield Heading("Remove and retrain", short="Retraining")
    yield Paragraph(
        "The RMSE of models that are trained without the k most important features of each row: the "
        "larger, the more important they were. As published: hyperparameters of the authors' saved models "
        "and seed 42; where the order of their training rows is not known, the mean over random orders. As "
        "described: hyperparameters of the appendix, the mean over some seeds; intervals are over test "
        "rows, with these trainings."
    )
    yield from _rmse_tables(found, "retraining", "rmse")


def _rmse_tables(found: Reproduction, experiment: str, column: str) -> Iterator[Block]:
    result = found.results[experiment]
    rows = result.where(protocol=PUBLISHED)
    if rows or "cells" in found.results:
        yield Heading("As published", 3)
        if "cells" in found.results:
            yield Paragraph(HOW_TO_READ)
        yield _as_printed(found, experiment, rows, column, "k", by=by_value("k"), across=by_ranking)
    yield Heading("As described", 3)
    yield Paragraph(HOW_TO_READ_AHEAD)
    yield _described(result, "rmse", "k", "k", "RMSE")
    yield _advantages(result, f"{experiment}-advantage", "RMSE minus SHAP's")
    yield _rmse_rows(found, experiment, column)


def _rmse_rows(found: Reproduction, experiment: str, column: str) -> Block:
    result = found.results[experiment]
    published_rows = {key(row): row for row in result.where(protocol=PUBLISHED)}
    rows = []
    for row in result.where(protocol=DESCRIBED):
        other = published_rows.get(key(row))
        rows.append(
            (
                *(model_name(row), str(row["k"]), ranking_of(row)),
                number(row["published"]),
                number(other[column]) if other else "–",
                cell_verdict(found, experiment, row),
                f"{number(row['rmse'])} ({number(row['low'])} – {number(row['high'])})",
            )
        )
    header = ("model", "k", "ranking", "published", "as published", "verdict", "as described")
    caption = "Both protocols, with verdicts and bootstrap intervals"
    return raw(found, experiment, Table(header, tuple(rows), n_text=3, caption=caption))


def cayley(found: Reproduction) -> Iterator[Block]:
    yield Heading("Cayley distance between rankings", short="Cayley")
    yield Paragraph(
        "The least number of swaps that turn one ranking into the other: d minus the number of cycles of the "
        "permutation between them; means over the test set, with bootstrap intervals."
    )
    result = found.results["cayley"]
    yield cayley_figure(result)
    yield pivot(
        result.where(features="all"),
        "data set",
        group=lambda row: f"{row['kind']} models",
        by=lambda row: dataset_name(row["dataset"]),
        across=lambda row: ("", pair_name(row)),
        cell=lambda row: number(row["distance"]),
        caption="Mean distance",
    )
    rows = tuple(
        (
            *(model_name(row), row["features"], ranking_of(row)),
            ranking_name(row["other_method"], row["other_scale"]),
            f"{number(row['distance'])} ({number(row['low'])} – {number(row['high'])})",
            number(row["unrelated"]),
        )
        for row in result.records()
    )
    header = ("model", "features", "ranking", "other", "distance", "unrelated rankings")
    caption = (
        "With bootstrap intervals and unrelated rankings, for all features and those that the model uses"
    )
    yield raw(found, "cayley", Table(header, rows, n_text=4, caption=caption))


def entropy(found: Reproduction) -> Iterator[Block]:
    yield Heading("Entropy of rankings", short="Entropy")
    yield Paragraph(
        "The base-2 entropy of how the features share the reward, summed over rows, for being in the top "
        "k, or of 2^-place: the lower, the more the rows agree on what is important."
    )
    result = found.results["entropy"]
    yield entropy_figure(result)
    yield pivot(
        result.where(features="all"),
        "ranking",
        by=ranking_of,
        across=lambda row: ("", row["reward"] if row["k"] is None else f"k = {row['k']}"),
        cell=lambda row: number(row["entropy"]),
        caption="Entropy in bits",
    )
    rows = tuple(
        (
            *(model_name(row), row["features"], ranking_of(row)),
            row["reward"] if row["k"] is None else f"{row['reward']}, k = {row['k']}",
            *(number(row["entropy"]), number(row["largest"])),
        )
        for row in result.records()
    )
    header = ("model", "features", "ranking", "reward", "entropy", "largest possible")
    caption = "With the largest possible, for all features and those that the model uses"
    yield raw(found, "entropy", Table(header, rows, n_text=4, caption=caption))


def pgu(found: Reproduction) -> Iterator[Block]:
    result = found.results["pgu"]
    yield Heading("PGU²: the least important features first", short="PGU²")
    yield Paragraph(f"Means over the whole test set; lower is better. {HOW_TO_READ_AHEAD}")
    yield pivot(
        result.records(),
        "σ'",
        by=by_value("evaluation_scale"),
        across=by_ranking,
        cell=ahead("pgu2"),
        caption="PGU²",
    )
    for kind in dict.fromkeys(result.column("kind")):
        rows = result.where(kind=kind, method="greedy")
        caption = f"{kind} models: how much lower greedy's PGU² is than SHAP's"
        yield advantage_figure(
            f"pgu-{str(kind).lower()}", rows, caption=caption, unit="SHAP's PGU² minus greedy's"
        )
    lines = tuple(
        (
            *(model_name(row), f"{row['evaluation_scale']:g}", ranking_of(row)),
            f"{number(row['pgu2'])} ({number(row['low'])} – {number(row['high'])})",
        )
        for row in result.records()
    )
    header = ("model", "σ'", "ranking", "PGU²")
    yield raw(found, "pgu", Table(header, lines, n_text=3, caption="With bootstrap intervals"))


def training(found: Reproduction) -> Iterator[Block]:
    yield Heading("Models: the grid search", short="Models")
    yield Paragraph(
        "The best setting of the grid for each kind and data set by cross-validation, beside the one that "
        "the paper's appendix names, on the same folds."
    )
    rows = []
    for row in found.results["training"].records():
        marks = [mark for mark in ("chosen", "published") if row[mark]]
        if marks:
            excess = f"{number(row['excess'])} ± {number(row['excess_standard_error'])}"
            rows.append(
                (
                    *(model_name(row), " and ".join(marks)),
                    *(number(row[name]) for name in ("max_depth", "eta", "subsample", "trees", "cv_rmse")),
                    "–" if row["chosen"] else excess,
                )
            )
    header = ("model", "setting", "max_depth", "eta", "subsample", "trees", "RMSE", "above the chosen one's")
    yield Table(header, tuple(rows), n_text=2)


# ---- small pieces --------------------------------------------------------------------------------


def _as_printed(
    found: Reproduction,
    table: str,
    rows: Iterable[Row],
    column: str,
    corner: str,
    *,
    by: Callable[[Row], str],
    across: Callable[[Row], Column],
    caption: str = "",
) -> Table:
    """A table of the paper with our numbers beside the printed ones; on other data, ours alone."""
    shape: dict[str, Any] = {"by": by, "across": across, "caption": caption or _PRINTED_TABLES[table]}
    if "cells" in found.results:
        return pivot(found.results["cells"].where(table=table), corner, cell=judged, **shape)
    return pivot(rows, corner, cell=lambda row: number(row[column]), **shape)


def _described(result: Result, column: str, corner: str, by: str, caption: str) -> Table:
    """Greedy and SHAP as the text of the paper describes the experiment."""
    rows = result.where(protocol=DESCRIBED)
    return pivot(rows, corner, by=by_value(by), across=by_ranking, cell=ahead(column), caption=caption)


def _advantages(result: Result, name: str, unit: str, kind: str = "Bigger") -> Figure:
    rows = result.where(protocol=DESCRIBED, kind=kind, method="greedy")
    return advantage_figure(name, rows, caption=f"{kind} models: {unit}, as described", unit=unit)


_PRINTED_TABLES: Final[Mapping[str, str]] = {
    "agreement": "Table 2: rows with the same k most important features as SHAP",
    "randomising": "Feature randomising (appendix): RMSE",
    "retraining": "Remove and retrain (appendix): RMSE",
}
