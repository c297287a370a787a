"""The page of a reproduction: published and recomputed numbers side by side, with a verdict on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from predgap._files import atomic_write
from predgap.paper.common.results import Result, joined_files
from predgap.paper.report import sections
from predgap.paper.report.page import Block, Bullets, Heading, Page, Paragraph, Table, to_html, to_markdown
from predgap.paper.reproduce import TRAINING, Reproduction

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
        ("cells", _cells),
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
    )
    there = [write for needed, write in parts if needed in found.results and len(found.results[needed])]
    blocks = [block for write in (_introduction, *there, _origin) for block in write(found)]
    about = "reproduced" if "cells" in found.results else "on other data"
    return Page(f"The paper, {about}", tuple(blocks))


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
                judged = [
                    f"{counts[outcome]} {word}" for outcome, word in _OUTCOMES.items() if counts[outcome]
                ]
                yield f"{name}: {counts.total()} printed cells: {', '.join(judged)}"
        verdicts = Counter(found.results["claims"].column("verdict"))
        counted = [f"{verdicts[verdict]} {word}" for verdict, word in _VERDICTS.items() if verdicts[verdict]]
        yield f"Of {verdicts.total()} sentences of the paper {', '.join(counted)}"
    for what in found.left_out:
        yield f"Left out: {what}"


def _introduction(found: Reproduction) -> Iterator[Block]:
    whose = "trained by this run" if TRAINING in found.results else "that the paper's authors saved"
    paper = (
        "Gajewski, Karczmarz, Rapicki, Sankowski: Accurate Estimation of Feature Importance Faithfulness for "
        "Tree Models"
    )
    if "cells" in found.results:
        yield Paragraph(
            f"{paper}, recomputed with predgap on models {whose}. Where the published protocol is not what "
            "the text describes, both stand side by side."
        )
    else:
        names = ", ".join(dict.fromkeys(subject.dataset for subject in found.subjects))
        yield Paragraph(
            f"The experiments of {paper}, on other data: {names}. Nothing here confirms or refutes the paper."
        )
    if found.left_out:
        yield Paragraph("Left out of this run:")
        yield Bullets(found.left_out)


def _cells(found: Reproduction) -> Iterator[Block]:
    yield Heading("What came out")
    rows = tuple(
        (name, str(counts.total()), *(str(counts[outcome]) for outcome in _OUTCOMES))
        for name, counts in outcomes(found.results["cells"]).items()
    )
    yield Table(("table", "printed cells", *_OUTCOMES.values()), rows)
    yield Paragraph(
        "A cell is explained if the printed number lies in the range over ways to break ties, within the "
        "error of the sampling that it came from, or within what other orders of the training rows give. "
        "Each cell, with its verdict and why, is in cells.csv."
    )


def _sentences(found: Reproduction) -> Iterator[Block]:
    yield Heading("What the paper says")
    yield Paragraph(
        "A sentence is broken into cases, such as one for each model and σ. It holds if all cases that "
        "decide speak for it (three quarters, where it says usually or in general), in part if at least as "
        "many do as speak against it."
    )
    rows = tuple(
        (row["sentence"], row["where"], sections.toned(row["verdict"]), row["evidence"])
        for row in found.results["claims"].records()
    )
    yield Table(("in our words", "where", "verdict", "evidence"), rows, n_text=4)


def _origin(found: Reproduction) -> Iterator[Block]:
    yield Heading("How it was made")
    some = next(iter(found.results.values()))
    files = joined_files(found.results.values())
    yield Bullets(tuple(f"{name} {version or 'not installed'}" for name, version in some.versions.items()))
    yield Table(("file", "SHA-256"), tuple(files.items()), n_text=2)
    yield Paragraph(
        f"Tables are in results{found.plan.suffix}/, as CSV and Parquet, each with a manifest: config, "
        "seed, versions, hashes, timings. The same run gives the same bytes but for timings."
    )
