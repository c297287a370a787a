"""The page of a reproduction: published and recomputed numbers side by side, with a verdict on each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from predgap._files import atomic_write
from reproduction.common.results import joined_files
from reproduction.report import ranking_sections as rankings
from reproduction.report import sampling_sections as sampling
from reproduction.report.page import Block, Bullets, Heading, Page, Paragraph, Table, to_html, to_markdown
from reproduction.report.summary import sentences, summary, summary_lines
from reproduction.reproduce import TRAINING, Reproduction

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
        ("equal-time", sampling.equal_time),
        ("precision", sampling.precision),
        ("stability", sampling.stability),
        ("agreement", rankings.agreement),
        ("pgi", rankings.pgi),
        ("randomising", rankings.randomising),
        ("retraining", rankings.retraining),
        ("sampled-rankings", sampling.sampled_rankings),
        ("cayley", rankings.cayley),
        ("entropy", rankings.entropy),
        ("pgu", rankings.pgu),
        (TRAINING, rankings.training),
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
