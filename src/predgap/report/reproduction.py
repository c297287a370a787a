"""The page of a reproduction: published and recomputed numbers side by side, with a verdict on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, get_args

from predgap.experiments import published
from predgap.experiments.cells import Outcome
from predgap.experiments.reproduce import TRAINING, Reproduction
from predgap.experiments.results import Result, write_whole
from predgap.report import sections
from predgap.report.page import Block, Bullets, Heading, Page, Paragraph, Table, to_html, to_markdown

_TABLES: Final[Mapping[str, str]] = {
    "precision": "Table 1: iterations as slow as the exact method, and their NMAE",
    "agreement": "Table 2: rows with the same k most important features as SHAP",
    "pgi": "Table 3: average PGI², Bigger models",
    "pgi-single": "average PGI², Single trees (appendix)",
    "randomising": "feature randomising (appendix)",
    "retraining": "remove and retrain (appendix)",
}
_OUTCOMES: Final[tuple[str, ...]] = get_args(Outcome)


def write_pages(found: Reproduction) -> tuple[Path, Path]:
    """Write the page as Markdown, with its figures beside it, and as one HTML file; both paths."""
    made = build(found)
    folder = found.plan.out
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for figure in made.figures():
        write_whole(folder / "figures" / f"{figure.name}.svg", figure.svg)
    markdown, html = folder / "reproduction.md", folder / "reproduction.html"
    write_whole(markdown, to_markdown(made).encode())
    write_whole(html, to_html(made).encode())
    return markdown, html


def build(found: Reproduction) -> Page:
    """The page."""
    parts: Sequence[tuple[str, Callable[[Reproduction], Iterable[Block]]]] = (
        ("cells", _summary),
        ("claims", _sentences),
        ("precision", sections.precision),
        ("equal-time", sections.equal_time),
        ("stability", sections.stability),
        ("agreement", sections.agreement),
        ("pgi", sections.pgi),
        ("randomising", sections.randomising),
        ("retraining", sections.retraining),
        ("sampled-rankings", sections.sampled_rankings),
        ("cayley", sections.cayley),
        ("entropy", sections.entropy),
        ("pgu", sections.pgu),
        (TRAINING, sections.training),
        ("cells", _origin),
    )
    there = [write for needed, write in parts if needed in found.results and len(found.results[needed])]
    return Page("The paper, reproduced", tuple(block for write in there for block in write(found)))


def outcomes(cells: Result) -> dict[str, Counter[str]]:
    """How many cells of each table have which outcome."""
    return {table: Counter(row["outcome"] for row in cells.where(table=table)) for table in published.TABLES}


def summary_lines(found: Reproduction) -> Iterator[str]:
    """What came out, in a few lines: cells by table, sentences by verdict, and what was left out."""
    for table, counts in outcomes(found.results["cells"]).items():
        if counts["not recomputed"] < counts.total():
            judged = ", ".join(f"{counts[outcome]} {outcome}" for outcome in _OUTCOMES if counts[outcome])
            yield f"{_TABLES[table]}: {counts.total()} printed cells: {judged}"
    verdicts = Counter(found.results["claims"].column("verdict"))
    if verdicts:
        yield "The paper's sentences: " + ", ".join(f"{n} {verdict}" for verdict, n in verdicts.items())
    for what in found.left_out:
        yield f"Left out: {what}"


def _summary(found: Reproduction) -> Iterator[Block]:
    whose = "trained by this run" if TRAINING in found.results else "that the paper's authors saved"
    yield Paragraph(
        "Gajewski, Karczmarz, Rapicki, Sankowski: Accurate Estimation of Feature Importance Faithfulness for "
        f"Tree Models, recomputed with predgap on models {whose}. Where the published protocol is not what "
        "the text describes, both stand side by side."
    )
    if found.left_out:
        yield Paragraph("Left out of this run:")
        yield Bullets(found.left_out)
    yield Heading("What came out")
    rows = tuple(
        (_TABLES[table], str(counts.total()), *(str(counts[outcome]) for outcome in _OUTCOMES))
        for table, counts in outcomes(found.results["cells"]).items()
    )
    yield Table(("table", "printed cells", "same digits", "explained", "differ", "not recomputed"), rows)
    yield Paragraph(
        "A cell is explained if the printed number lies in the range over ways to break ties, within the "
        "error of the sampling that it came from, or within what other orders of the training rows give. "
        "Each cell, with its verdict and why, is in results/cells.csv."
    )


def _sentences(found: Reproduction) -> Iterator[Block]:
    yield Heading("What the paper says")
    rows = tuple(
        (row["sentence"], sections.toned(row["verdict"]), row["evidence"])
        for row in found.results["claims"].records()
    )
    yield Table(("in our words", "verdict", "evidence"), rows, n_text=3)


def _origin(found: Reproduction) -> Iterator[Block]:
    yield Heading("How it was made")
    some = found.results["cells"]
    yield Bullets(tuple(f"{name} {version or 'not installed'}" for name, version in some.versions.items()))
    yield Table(("file", "SHA-256"), tuple(some.files.items()), n_text=2)
    yield Paragraph(
        "Tables are in results/, as CSV and Parquet, each with a manifest: config, seed, versions, hashes, "
        "timings. The same run gives the same bytes but for timings."
    )
