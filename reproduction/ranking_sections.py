"""What the page of a reproduction says about rankings: one function for each experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from reproduction.common.published import DESCRIBED, PUBLISHED
from reproduction.common.results import Result
from reproduction.report.figures import (
    advantage_figure,
    agreement_figure,
    cayley_figure,
    entropy_figure,
    pair_name,
)
from reproduction.report.page import Block, Figure, Heading, Paragraph, Table
from reproduction.report.pivots import (
    HOW_TO_READ,
    HOW_TO_READ_AHEAD,
    Column,
    Row,
    ahead,
    by_place,
    by_ranking,
    by_value,
    judged,
    pivot,
    ranking_of,
)
from reproduction.report.raw import cell_verdict, key, raw
from reproduction.report.words import dataset_name, model_name, number, ranking_name
from reproduction.reproduce import Reproduction


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
