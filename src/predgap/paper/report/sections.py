"""What the page of a reproduction says about each experiment: one function each, of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from predgap.paper.common.published import DESCRIBED, PUBLISHED, SAMPLERS
from predgap.paper.common.results import Result
from predgap.paper.experiments.clocks import ALGORITHM_1_FLOAT32, EXACT, TOGETHER
from predgap.paper.experiments.equal_time import CLOCKS
from predgap.paper.report.figures import advantage_figure, advantage_label, error_figure, time_figure
from predgap.paper.report.page import Block, Cell, Figure, Heading, Paragraph, Table, Tone
from predgap.paper.report.words import METHOD_NAMES, duration, model_name, number, ranking_name, share
from predgap.paper.reproduce import Reproduction

Row = Mapping[str, Any]

_TONES: Final[Mapping[str, Tone]] = {
    "matches": "good",
    "holds": "good",
    "differs": "bad",
    "does not hold": "bad",
}


def precision(found: Reproduction) -> Iterator[Block]:
    result = found.results["precision"]
    yield Heading("Precision: how far off sampled gaps are")
    yield Paragraph(
        f"{result.config['n_pairs']:,} pairs (x, S) for each model and σ, balanced over |S|; the exact gap "
        "is the truth. NMAE is the sum of absolute errors over the sum of gaps; ± is its standard error "
        "over pairs."
    )
    rows = [
        (
            *(model_name(row), f"{row['scale']:g}", METHOD_NAMES[row["method"]], number(row["iterations"])),
            *(row["published"], f"{row['nmae']:.5f} ± {row['standard_error']:.5f}"),
            _cell_verdict(found, "precision", row),
        )
        for row in result.records()
        if row["published"] is not None and row["nmae"] is not None
    ]
    if rows:
        header = ("model", "σ", "method", "iterations", "published NMAE", "recomputed", "verdict")
        yield Table(header, tuple(rows), n_text=3, caption="The errors in Table 1")
    for subject in found.subjects:
        yield error_figure(result, subject.kind, subject.dataset)


def equal_time(found: Reproduction) -> Iterator[Block]:
    result = found.results["equal-time"]
    yield Heading("Table 1: sampling in the time of an exact gap")
    machines = ", ".join(sorted(set(map(str, found.results["clocks"].column("machine")))))
    yield Paragraph(
        f"Machine: {machines}; one thread; the fastest code that predgap has for each method. All numbers in "
        "this section are timings or follow from them; they differ from run to run."
    )
    header = ("model", "σ", *CLOCKS)
    rows = []
    for row in result.where(clock=EXACT, method="mc"):
        where = {name: row[name] for name in ("kind", "dataset", "scale")}
        seconds = [result.where(clock=clock, method="mc", **where)[0]["seconds"] for clock in CLOCKS]
        rows.append((model_name(row), f"{row['scale']:g}", *map(duration, seconds)))
    yield Table(header, tuple(rows), caption="Time of an exact gap")
    yield from _iteration_tables(result)
    yield from _affordable_tables(result)
    for kind in dict.fromkeys(subject.kind for subject in found.subjects):
        yield time_figure(found.results["precision"], found.results["clocks"], kind)


def _iteration_tables(result: Result) -> Iterator[Block]:
    yield Heading("The table as the paper has it", 3)
    yield Paragraph(
        "Of the paper's 13 numbers of iterations, the first that is slower than the exact method, by which "
        "the printed cells are judged, and the closest in time, the rule in the text, with the NMAE there. "
        "The clock is Algorithm 1 in float32, without what calls cost, and then predgap's own exact gap, "
        "with a call for each pair, exact or sampled."
    )
    for clock in (ALGORITHM_1_FLOAT32, EXACT):
        rows = []
        for row in result.where(clock=clock):
            if row["method"] == "sobol":
                continue
            first = f"{row['first_slower']} ({number(row['first_slower_nmae'])})"
            closest = f"{row['closest']} ({number(row['closest_nmae'])})"
            where = (model_name(row), f"{row['scale']:g}", METHOD_NAMES[row["method"]])
            rows.append((*where, number(row["published"]), first, closest))
        header = ("model", "σ", "method", "published", "first slower (NMAE)", "closest (NMAE)")
        yield Table(header, tuple(rows), n_text=3, caption=f"Clock: {clock}")


def _affordable_tables(result: Result) -> Iterator[Block]:
    yield Heading("Error at equal time", 3)
    rows = result.where(clock=TOGETHER)
    yield Paragraph(
        "How many samples can be had in the time of an exact gap that is computed together with others, and "
        "what error they have. Sampling is charged the least it can cost: evaluation alone, no calls and no "
        "drawing, as rows can share points. " + where_sampling_wins(rows)
    )
    table = []
    for row in rows:
        where = (model_name(row), f"{row['scale']:g}", METHOD_NAMES[row["method"]])
        times = (duration(row["seconds"]), duration(row["seconds_10"]), duration(row["seconds_1"]))
        table.append((*where, times[0], f"{row['affordable']:.0f}", share(row["nmae"]), *times[1:]))
    header = ("model", "σ", "method", "exact", "samples", "their NMAE", "time for 10 %", "time for 1 %")
    yield Table(header, tuple(table), n_text=3)


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
    yield Heading("Numerical stability of Algorithm 1")
    yield Paragraph(
        f"{result.config['n_pairs']:,} pairs for each model and σ. A gap is wrong if it is off by more than "
        f"{share(result.config['tolerance'])}; predgap's own gaps are the truth. Shares are of all pairs."
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
    yield Table(header, rows, n_text=3)


def agreement(found: Reproduction) -> Iterator[Block]:
    yield Heading("Table 2: agreement with SHAP")
    yield Paragraph(
        "Share of test rows in which greedy and SHAP have the same set of k features at the top. The ranges "
        "are over all ways to break ties: exact ones, and gaps that the paper's float32 cannot tell apart."
    )
    rows = tuple(
        (
            *(model_name(row), f"{row['scale']:g}", str(row["k"]), number(row["published"])),
            number(row["agreement"]),
            f"{number(row['lowest'])} – {number(row['highest'])}",
            f"{number(row['lowest_float32'])} – {number(row['highest_float32'])}",
            _cell_verdict(found, "agreement", row),
        )
        for row in found.results["agreement"].records()
    )
    yield Table(
        ("model", "σ", "k", "published", "recomputed", "over ties", "over ties in float32", "verdict"), rows
    )


def pgi(found: Reproduction) -> Iterator[Block]:
    result = found.results["pgi"]
    yield Heading("Table 3 and its counterpart for single trees: average PGI²")
    yield Paragraph(
        "The published tables are means over the first 3 rows of the test set. As described in the text, "
        "over the whole test set, the numbers differ; in parentheses, 95 % bootstrap intervals over rows."
    )
    described = {_key(row): row for row in result.where(protocol=DESCRIBED)}
    for kind in dict.fromkeys(result.column("kind")):
        rows = []
        for row in result.where(protocol=PUBLISHED, kind=kind):
            whole = described[_key(row)]
            ranking = ranking_name(row["method"], row["scale"])
            rows.append(
                (
                    *(model_name(row), f"{row['evaluation_scale']:g}", ranking, number(row["published"])),
                    *(
                        number(row["pgi2"]),
                        _cell_verdict(found, "pgi-single" if kind == "Single" else "pgi", row),
                    ),
                    f"{number(whole['pgi2'])} ({number(whole['low'])} – {number(whole['high'])})",
                )
            )
        header = ("model", "σ'", "ranking", "published", "3 rows", "verdict", "whole test set")
        yield Table(header, tuple(rows), n_text=3, caption=f"{kind} models")
    yield _advantages(
        "pgi-advantage", "pgi", found, "PGI² minus SHAP's, whole test set", "PGI² minus SHAP's", "Bigger"
    )


def randomising(found: Reproduction) -> Iterator[Block]:
    yield Heading("Feature randomising")
    yield Paragraph(
        "The RMSE of the model when the k most important features are drawn anew from their columns: the "
        "larger, the more important they were. As published, a perturbed training row is compared with the "
        "label of the test row of the same index (500 draws); as described, test rows with their own "
        "labels, exactly."
    )
    yield _rmse_table(found, "randomising", "expected")
    yield _advantages(
        "randomising-advantage", "randomising", found, "RMSE minus SHAP's, as described", "RMSE minus SHAP's"
    )


def retraining(found: Reproduction) -> Iterator[Block]:
    yield Heading("Remove and retrain")
    yield Paragraph(
        "The RMSE of models that are trained without the k most important features of each row: the "
        "larger, the more important they were. As published: hyperparameters of the authors' saved models "
        "and seed 42; where the order of their training rows is not known, the mean over random orders. As "
        "described: hyperparameters of the appendix, the mean over some seeds; intervals are over test "
        "rows, with these trainings."
    )
    yield _rmse_table(found, "retraining", "rmse")
    yield _advantages(
        "retraining-advantage", "retraining", found, "RMSE minus SHAP's, as described", "RMSE minus SHAP's"
    )


def _rmse_table(found: Reproduction, experiment: str, column: str) -> Table:
    result = found.results[experiment]
    published_rows = {_key(row): row for row in result.where(protocol=PUBLISHED)}
    rows = []
    for row in result.where(protocol=DESCRIBED):
        other = published_rows.get(_key(row))
        rows.append(
            (
                *(model_name(row), str(row["k"]), ranking_name(row["method"], row["scale"])),
                number(row["published"]),
                number(other[column]) if other else "–",
                _cell_verdict(found, experiment, row),
                f"{number(row['rmse'])} ({number(row['low'])} – {number(row['high'])})",
            )
        )
    header = ("model", "k", "ranking", "published", "as published", "verdict", "as described")
    return Table(header, tuple(rows), n_text=3)


def sampled_rankings(found: Reproduction) -> Iterator[Block]:
    result = found.results["sampled-rankings"]
    yield Heading("Rankings by sampling")
    yield Paragraph(
        "Greedy built on sampled gaps against exact greedy, with common random numbers for all candidates. "
        "Shares of rows: where any place differs, where it matters (the gap of some prefix differs), where "
        "the first feature differs, where the set of the first three differs; and the mean PGI² that is "
        "lost."
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
    yield Table(header, rows, n_text=3)


def cayley(found: Reproduction) -> Iterator[Block]:
    yield Heading("Cayley distance between rankings")
    yield Paragraph(
        "The least number of swaps that turn one ranking into the other: d minus the number of cycles of the "
        "permutation between them; means over the test set, with bootstrap intervals."
    )
    rows = tuple(
        (
            *(model_name(row), row["features"], ranking_name(row["method"], row["scale"])),
            ranking_name(row["other_method"], row["other_scale"]),
            f"{number(row['distance'])} ({number(row['low'])} – {number(row['high'])})",
            number(row["unrelated"]),
        )
        for row in found.results["cayley"].records()
    )
    yield Table(("model", "features", "ranking", "other", "distance", "unrelated rankings"), rows, n_text=4)


def entropy(found: Reproduction) -> Iterator[Block]:
    yield Heading("Entropy of rankings")
    yield Paragraph(
        "The base-2 entropy of how the features share the reward, summed over rows, for being in the top "
        "k, or of 2^-place: the lower, the more the rows agree on what is important."
    )
    rows = tuple(
        (
            *(model_name(row), row["features"], ranking_name(row["method"], row["scale"])),
            row["reward"] if row["k"] is None else f"{row['reward']}, k = {row['k']}",
            *(number(row["entropy"]), number(row["largest"])),
        )
        for row in found.results["entropy"].records()
    )
    yield Table(("model", "features", "ranking", "reward", "entropy", "largest possible"), rows, n_text=4)


def pgu(found: Reproduction) -> Iterator[Block]:
    yield Heading("PGU²: the least important features first")
    yield Paragraph("Means over the whole test set with bootstrap intervals; lower is better.")
    rows = tuple(
        (
            *(model_name(row), f"{row['evaluation_scale']:g}", ranking_name(row["method"], row["scale"])),
            f"{number(row['pgu2'])} ({number(row['low'])} – {number(row['high'])})",
        )
        for row in found.results["pgu"].records()
    )
    yield Table(("model", "σ'", "ranking", "PGU²"), rows, n_text=3)


def training(found: Reproduction) -> Iterator[Block]:
    yield Heading("Models: the grid search")
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


def _advantages(
    name: str, experiment: str, found: Reproduction, title: str, unit: str, kind: str = "Bigger"
) -> Figure:
    rows = [
        row | {"label": advantage_label(row)}
        for row in found.results[experiment].where(protocol=DESCRIBED, kind=kind, method="greedy")
    ]
    bars = "bars: bootstrap intervals over test rows"
    return advantage_figure(name, f"{title}; right of 0, greedy is ahead; {bars}", rows, unit)


def _key(row: Row) -> tuple[Any, ...]:
    names = ("kind", "dataset", "k", "evaluation_scale", "method", "scale")
    return tuple(row.get(name) for name in names)


def _cell_verdict(found: Reproduction, table: str, row: Row) -> Cell:
    """The verdict on the printed cell that belongs to a row; a dash if there is none."""
    if "cells" not in found.results:
        return Cell("–")
    method = row.get("method", "greedy")
    where = {name: row.get(name) for name in ("kind", "dataset", "scale", "evaluation_scale", "k")}
    where |= {"table": table, "method": _PRINTED.get(method, method)}
    cells = [cell for cell in found.results["cells"].where(**where) if cell["quantity"] != "iterations"]
    if not cells:
        return Cell("–")
    why = "" if cells[0]["outcome"] == "matches" else f": {cells[0]['why']}"
    return Cell(f"{cells[0]['outcome']}{why}", _TONES.get(cells[0]["outcome"], "none"))


_PRINTED: Final = {ours: theirs for theirs, ours in SAMPLERS.items()}


def toned(verdict: str) -> Cell:
    return Cell(verdict, _TONES.get(verdict, "none"))
