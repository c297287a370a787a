"""What the page of a reproduction says about exact and sampled gaps: one function for each experiment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reproduction.common.results import Result
from reproduction.experiments.clocks import ALGORITHM_1_FLOAT32, EXACT, TOGETHER
from reproduction.experiments.equal_time import CLOCKS
from reproduction.report.figures import error_figure, sampled_figure, stability_figure, time_figure
from reproduction.report.page import Block, Folded, Heading, Paragraph, Table
from reproduction.report.pivots import HOW_TO_READ, Row, by_sampling, by_value, judged, pivot
from reproduction.report.raw import cell_verdict, raw
from reproduction.report.words import METHOD_NAMES, duration, model_name, number, share
from reproduction.reproduce import Reproduction


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
