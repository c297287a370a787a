"""The page of a reproduction: summary, tables as in the paper, figures; with verdicts and on other data."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduction import cells, claims, published, sections
from reproduction.experiments import (
    agreement,
    cayley,
    clocks,
    entropy,
    equal_time,
    pgi,
    pgu,
    precision,
    sampled_rankings,
    stability,
)
from reproduction.figures import advantage_figure, ahead_and_behind, drawn
from reproduction.page import (
    Cell,
    Figure,
    Folded,
    Group,
    Heading,
    Table,
    ahead,
    by_place,
    by_ranking,
    by_sampling,
    by_value,
    judged,
    pivot,
    to_html,
    to_markdown,
)
from reproduction.results import Result
from reproduction.run import Plan, Reproduction
from reproduction.sections import build, findings, summary_lines
from tiny import tiny_subjects

# ---- tables as in the paper ----------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(NAMES, NAMES, NAMES, NAMES), unique=True, max_size=30))
def test_a_pivot_has_every_row_in_its_place(places):
    rows = [dict(zip("gbxy", place, strict=True)) | {"at": str(at)} for at, place in enumerate(places)]
    table = pivot(
        rows,
        "corner",
        group=lambda row: row["g"],
        by=lambda row: row["b"],
        across=lambda row: (row["x"], row["y"]),
        cell=lambda row: row["at"],
    )
    above = [text for text, width in table.above for _ in range(width)] or [""] * len(table.header)
    found = {}
    for line in table.rows:
        if isinstance(line, Group):
            group = line.text
        else:
            for text, name, entry in zip(above[1:], table.header[1:], line[1:], strict=True):
                if entry:
                    found[group, line[0], text, name] = entry
    assert found == {place: str(at) for at, place in enumerate(places)}


def judged_cell(cell: published.Cell, outcome: str = "matches") -> dict:
    value = None if outcome == "not recomputed" else float(cell.printed)
    where = {name: getattr(cell, name) for name in cells.COLUMNS if hasattr(cell, name)}
    return where | {"recomputed": value, "outcome": outcome, "why": "a reason"}


@pytest.mark.parametrize(
    ("table", "by", "across", "above", "header", "first"),
    [
        (
            *("precision", "scale", by_sampling),
            (("", 1), ("Monte Carlo", 2), ("Halton", 2)),
            ("iterations", "NMAE", "iterations", "NMAE"),
            ("0.1", "100", "0.132", "100", "0.04"),
        ),
        (
            *("agreement", "scale", by_place),
            (),
            ("k = 1", "k = 2", "k = 3"),
            ("0.1", "0.328", "0.259", "0.031"),
        ),
        (
            *("pgi", "evaluation_scale", by_ranking),
            (("", 2), ("greedy", 3)),
            ("SHAP", "σ = 0.1", "σ = 0.3", "σ = 1"),
            ("0.1", "0.013", "0.024", "0.022", "0.018"),
        ),
        (
            *("randomising", "k", by_ranking),
            (("", 2), ("greedy", 3)),
            ("SHAP", "σ = 0.1", "σ = 0.3", "σ = 1"),
            ("1", "0.944", "0.922", "0.923", "0.919"),
        ),
    ],
)
def test_printed_tables_have_the_rows_and_columns_of_the_paper(table, by, across, above, header, first):
    printed = published.cells(table)
    made = pivot(map(judged_cell, printed), "corner", by=by_value(by), across=across, cell=judged)
    assert made.above == above
    assert made.header == ("corner", *header)
    assert (made.rows[1][0], *(cell.published for cell in made.rows[1][1:])) == first
    models = list(dict.fromkeys((cell.kind, cell.dataset) for cell in printed))
    assert sum(isinstance(row, Group) for row in made.rows) == len(models)
    shown = [cell.published for row in made.rows if not isinstance(row, Group) for cell in row[1:]]
    assert shown == [cell.printed for cell in printed]


@pytest.mark.parametrize(
    ("outcome", "text", "tone"),
    [
        ("matches", "0.328 = 0.328", "good"),
        ("explained", "0.328 ≈ 0.328", "fair"),
        ("differs", "0.328 ≠ 0.328", "bad"),
        ("not recomputed", "0.328 –", "none"),
    ],
)
def test_a_printed_cell_is_marked_by_its_outcome(outcome, text, tone):
    cell = judged(judged_cell(published.cells("agreement")[0], outcome))
    assert (str(cell), cell.tone, cell.note) == (text, tone, f"{outcome}: a reason")


def compared(low: float | None, high: float | None) -> dict:
    middle = None if low is None else (low + high) / 2
    return {
        **{"pgi2": 2.0, "low": 1.0, "high": 3.0, "method": "greedy", "scale": 0.1, "dataset": "wine", "k": 1},
        **{"advantage": middle, "advantage_low": low, "advantage_high": high},
    }


def test_a_described_cell_says_who_is_ahead():
    rows = [compared(0.1, 0.2), compared(-0.2, -0.1), compared(-0.1, 0.1), compared(None, None)]
    assert [str(ahead("pgi2")(row)) for row in rows] == ["2.000 +", "2.000 −", "2.000 =", "2.000"]
    assert ahead_and_behind(rows) == (1, 1)
    figure = advantage_figure("name", rows[:3], caption="c", unit="PGI² minus SHAP's")
    assert "right of 0, greedy's side, in 1 of 3 cases and left of it in 1" in figure.alt


# ---- figures -------------------------------------------------------------------------------------


def test_a_figure_has_a_panel_per_line_on_narrow_screens():
    panels = [(f"panel {at}", lambda ax: ax.plot([0, 1], [0, 1], label="line")) for at in range(4)]
    figure = drawn("name", panels, caption="caption", alt="alt")
    sizes = []
    for svg in (figure.svg, figure.narrow):
        text = svg.decode()
        assert [f"panel {at}" in text for at in range(4)] == [True] * 4
        assert text.count(">line<") == 1  # one legend
        sizes.append([float(size) for size in re.search(r'viewBox="0 0 (\S+) (\S+)"', text).groups()])
    (wide, low), (narrow, tall) = sizes
    assert wide > 2 * narrow
    assert tall > 1.5 * low


# ---- whole pages ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other_data(tmp_path_factory) -> Reproduction:
    """Most experiments on tiny models, about which the paper has printed nothing."""
    subjects = tiny_subjects(tmp_path_factory.mktemp("models"), 12)
    few = {"n_resamples": 20}
    results = {
        "precision": precision.run(precision.Config(n_pairs=8, iterations=(1, 10, 100)), subjects),
        "clocks": clocks.run(clocks.Config(n_pairs=4, iterations=(10, 100), repeats=1), subjects),
        "stability": stability.run(stability.Config(n_pairs=20), subjects),
        "agreement": agreement.run(agreement.Config(), subjects),
        "cayley": cayley.run(cayley.Config(**few), subjects),
        "entropy": entropy.run(entropy.Config(), subjects),
        "pgi": pgi.run(pgi.Config(**few), subjects),
        "pgu": pgu.run(pgu.Config(**few), subjects),
        "sampled-rankings": sampled_rankings.run(
            sampled_rankings.Config(n_rows=2, n_samples=(10, 100)), subjects
        ),
    }
    results["equal-time"] = equal_time.run(equal_time.Config(), results["precision"], results["clocks"])
    return Reproduction(Plan(out=tmp_path_factory.mktemp("out")), results, subjects, ("the rest",))


def test_a_page_on_other_data_begins_with_what_was_found_and_claims_nothing_about_the_paper(other_data):
    page = build(other_data)
    html = to_html(page)
    assert page.sections()[0].text == "In short"
    assert "on other data: tiny. Nothing here confirms or refutes the paper" in html
    said = list(findings(other_data))
    assert len(said) == 4
    assert "Average PGI²: greedy is ahead of SHAP in " in said[-1]
    assert re.search(r"in \d+ of 18 comparisons and behind in \d+ ", said[-1])
    assert "printed cells" not in html
    assert "≠" not in html


def test_every_section_has_a_figure_with_a_text_and_folds_its_long_tables(other_data):
    page = build(other_data)
    by_section: dict[str, list] = {}
    for block in page.blocks:
        if isinstance(block, Heading) and block.level == 2:
            blocks = by_section.setdefault(block.short or block.text, [])
        blocks.append(block)
    assert list(by_section) == [
        *("In short", "Table 1", "Precision", "Stability", "Table 2", "Table 3"),
        *("Sampled rankings", "Cayley", "Entropy", "PGU²", "How made"),
    ]
    for name in list(by_section)[1:-1]:
        figures = [block for block in by_section[name] if isinstance(block, Figure)]
        assert figures, name
        assert all(len(figure.alt) > 40 and figure.alt.endswith(".") for figure in figures)
        if name != "Precision":  # whose long table is about printed numbers
            assert any(isinstance(block, Folded) for block in by_section[name]), name
            assert any(isinstance(block, Table) for block in by_section[name]), name
    names = [figure.name for figure in page.figures()]
    assert len(names) == len(set(names))


def test_tables_on_other_data_have_our_numbers_alone(other_data):
    (table,) = (block for block in sections.agreement(other_data) if isinstance(block, Table))
    assert not any(isinstance(cell, Cell) for row in table.rows if isinstance(row, tuple) for cell in row)
    rows = other_data.results["agreement"].where(kind="Bigger", scale=0.1)
    assert table.rows[1] == ("0.1", *(published_as(row["agreement"]) for row in rows))


def published_as(value: float) -> str:
    return "0" if value == 0 else f"{value:.3f}"


@pytest.fixture
def with_verdicts(other_data) -> Reproduction:
    """Cells and sentences with every outcome and every verdict."""
    turn = [*("matches", "explained", "differs", "not recomputed")]
    rows = [judged_cell(cell, turn[at % 4]) for at, cell in enumerate(published.cells())]
    judged_cells = Result(
        experiment="cells",
        columns=cells.COLUMNS,
        rows=[tuple(row[name] for name in cells.COLUMNS) for row in rows],
    )
    verdicts = ("holds", "holds in part", "does not hold", "undecided")
    said = [
        (f"{topic} {verdict}", topic, f"Sentence <{at}>.", "Abstract", verdict, f"Evidence {at}.")
        for at, (topic, verdict) in enumerate(product(("pgi", "precision"), verdicts))
    ]
    both = {"cells": judged_cells, "claims": Result(experiment="claims", columns=claims.COLUMNS, rows=said)}
    return replace(other_data, results={**other_data.results, **both})


def test_a_page_with_verdicts_begins_with_counts(with_verdicts):
    page = build(with_verdicts)
    text = to_markdown(page)
    short = text.split("## What the paper says")[0]
    assert (
        "Of the paper's 270 printed numbers, 68 come out with the same digits and 68 with other digits"
        in short
    )
    assert "67 differ, and 67 were not recomputed" in short
    assert "| all | 270 | 68 | 68 | 67 | 67 |" in short
    assert "Of 8 sentences of the paper 2 hold, 2 hold in part, 2 do not hold, 2 are undecided." in short
    assert "| PGI² | 4 | 1 | 1 | 1 | 1 |" in short
    assert "These do not hold:\n\n- Sentence \\<2\\>.\n- Sentence \\<6\\>.\n" in short
    assert [section.text for section in page.sections()][:2] == ["In short", "What the paper says"]
    assert list(summary_lines(with_verdicts))[-1] == "Left out: the rest"


def test_sentences_stand_under_their_topics(with_verdicts):
    html = to_html(build(with_verdicts))
    order = [
        html.index(text) for text in ("Exact and sampled gaps</span>", "Sentence &lt;4&gt;", "PGI²</span>")
    ]
    assert order == sorted(order)
    assert '<td class="text" data-label="verdict"><span class="bad">does not hold</span></td>' in html
    assert "0.328 = " not in html  # the sign is an element of its own
    assert '<span class="published">0.328</span>' in html
