"""Pages: what is data stays data, in both forms, and nothing is fetched."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduction.page import (
    Bullets,
    Cell,
    Figure,
    Folded,
    Group,
    Heading,
    Page,
    Paragraph,
    Table,
    duration,
    number,
    share,
    to_html,
    to_markdown,
)

EVIL = '<script>alert("x")</script> | [a](b) *c* _d_ `e` ![f](g) & $h$ \n# i'
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"></svg>'
NARROW = b'<svg xmlns="http://www.w3.org/2000/svg"><g/></svg>'


def page(text: str) -> Page:
    return Page(
        text,
        (
            Heading(text),
            Paragraph(text),
            Bullets((text, text)),
            Table((text, "n"), ((text, "1"), (Cell(text, "bad"), "2")), caption=text),
            Table(("a", text), (Group(text), ("b", Cell(text, "fair", "≈", text, text))), above=((text, 2),)),
            Table((text, "n"), ((text, Cell(text, "ahead", "+")),), stacks=True),
            Folded(Table((text,), ((text,),), caption=text), "results/x.csv"),
            Figure("figure", SVG, NARROW, text, text),
        ),
    )


class Collector(HTMLParser):
    """The tags, their attributes, and the text in them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text.append(data)


def parsed(text: str) -> Collector:
    collector = Collector()
    collector.feed(to_html(page(text)))
    return collector


def test_html_shows_data_as_it_is_and_runs_nothing():
    seen = parsed(EVIL)
    assert "script" not in seen.tags
    shown = EVIL.replace("\n", r"\n")
    whole = [text.strip() for text in seen.text]
    # title, nav, h1, h2, p, 2 li; caption, th, 2 td; above, th, group, published and ours; th, 2 td; summary,
    # th, td; figcaption
    assert whole.count(shown) == 7 + 4 + 5 + 3 + 3 + 1
    labels = ("aria-label", "aria-label", "data-label", "title", "alt")
    assert sorted(name for name, value in seen.attributes if value == shown) == sorted(labels)
    assert all(not name.startswith("on") for name, _ in seen.attributes)


@given(st.text(min_size=1, max_size=30))
def test_html_has_the_same_tags_whatever_the_text(text):
    assert parsed(text).tags == parsed("plain").tags


def test_html_needs_nothing_but_itself():
    html = to_html(page("plain"))
    links = [value for name, value in parsed("plain").attributes if name in ("src", "href", "srcset")]
    pictures = (f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}" for svg in (NARROW, SVG))
    assert links == ["#section-0", *pictures]
    assert "url(" not in html
    assert "@import" not in html
    assert "default-src 'none'" in html
    assert "http" not in html.replace("http-equiv", "")


@given(st.text(min_size=1, max_size=30))
def test_markdown_has_the_same_shape_whatever_the_text(text):
    lines, plain = to_markdown(page(text)).split("\n"), to_markdown(page("plain")).split("\n")
    assert len(lines) == len(plain)
    for line, other in zip(lines, plain, strict=True):
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == other.count("|")  # bars that are not escaped


def test_markdown_escapes_what_would_be_markup():
    markdown = to_markdown(Page("t", (Paragraph(EVIL),)))
    for mark in "`*_[]<>|#!&$":
        assert not re.search(rf"(?<!\\){re.escape(mark)}", markdown.split("\n", 1)[1]), mark
    blocks = tuple(Paragraph(text) for text in ("- a", "1. b", "---", "    c", "2) d", "3 e"))
    assert to_markdown(Page("t", blocks)).split("\n\n")[1:] == [
        *("\\- a", "1\\. b", "\\---", "c", "2\\) d", "3 e\n")
    ]


def test_markdown_names_figures_and_aligns_numbers():
    markdown = to_markdown(page("plain"))
    assert "![plain](figures/figure.svg)" in markdown
    assert "| --- | ---: |" in markdown
    assert page("plain").figures() == (Figure("figure", SVG, NARROW, "plain", "plain"),)


def test_markdown_has_groups_signs_and_links_to_long_tables():
    markdown = to_markdown(page("plain"))
    assert "| plain a | plain plain |\n| --- | ---: |\n| **plain** |  |\n| b | plain ≈ plain |" in markdown
    assert "| plain | plain + |" in markdown
    assert "[plain](results/x.csv)" in markdown


def test_a_cell_says_in_words_or_signs_what_its_colour_says():
    html = to_html(page("plain"))
    assert '<span class="bad">plain</span>' in html
    assert (
        '<span class="published">plain</span> <b class="fair">≈</b> <span class="ours">plain</span>' in html
    )
    assert 'plain <b class="ahead">+</b>' in html
    for tone in ("good", "fair", "bad", "ahead", "behind"):
        assert f".{tone} {{ color: var(--{tone});" in html


def test_the_list_of_sections_has_short_names():
    made = Page("t", (Heading("A long name", short="Short"), Heading("B"), Heading("within", 3)))
    assert re.findall(r'href="(#[^"]*)">([^<]*)<', to_html(made)) == [
        ("#section-0", "Short"),
        ("#section-1", "B"),
    ]


@pytest.mark.parametrize(
    ("say", "value", "text"),
    [
        (number, 0.9999, "1.000"),
        (number, -0.25, "-0.250"),
        (number, 12345.6, "1.235e+04"),
        (number, "x", "x"),
        (share, 0.0, "0.0 %"),
        (share, -0.012, "-1.2 %"),
        (duration, 2.5e-7, "0.25 µs"),
    ],
)
def test_numbers_for_people(say, value, text):
    assert say(value) == text
