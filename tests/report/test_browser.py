"""The page in Chromium: what moves on it, the keyboard, both colour schemes, small screens and paper."""

from __future__ import annotations

import shutil
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from evaluations import EVIL, made_up
from predgap.report import write_report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed; as root, with apt-get: apt-get install chromium"
)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def files(evaluation, tmp_path_factory):
    """Pages by name: a small one with a sweep, one with many rankings and features, one ranking alone."""
    folder = tmp_path_factory.mktemp("pages")
    made = {"small": evaluation, "wide": made_up(150, 120, 10), "one": made_up(6, 3, 1)}
    return {
        key: write_report(found, folder / f"{key}.html", command="predgap report model.txt data.csv")
        for key, found in made.items()
    }


@pytest.fixture
def visit(browser, files):
    """Opens a page; at the end there must have been no error, no dialog and no request but for the file."""
    contexts, wrong = [], []

    def visited(key="small", width=1280, scheme="light", **options):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: request.url == files[key].as_uri() or wrong.append(request.url))
        page.goto(files[key].as_uri())
        return page

    yield visited
    for context in contexts:
        context.close()
    assert wrong == []


def lines(page):
    """The table of rows: label, prediction, difference, share, highest, lowest, number of firsts."""
    return [
        [cell.strip() for cell in line.locator("th, td").all_text_contents()]
        for line in page.locator("#rows tbody tr.row").all()
    ]


def focused(page):
    return page.evaluate("document.activeElement.textContent")


def sideways(page):
    """What is wider than the screen, and how far the page scrolls sideways."""
    return page.evaluate(
        """() => [document.documentElement.scrollWidth - innerWidth,
        [...document.querySelectorAll("main *")].filter(
          (e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".hear, thead")
        ).map((e) => e.outerHTML.slice(0, 80))]"""
    )


# ---- the table of rows ---------------------------------------------------------------------------


def test_rows_are_listed_the_most_disputed_first(visit, evaluation):
    found = lines(visit())
    scores = evaluation.scores["pgi2"][:3]
    order = np.argsort(-np.ptp(scores, axis=0), kind="stable")[:15]
    assert [line[0] for line in found] == [str(evaluation.rows[r]) for r in order]
    for column, extreme in ((4, scores.max(axis=0)), (5, scores.min(axis=0))):
        named = [
            scores[evaluation.names.index(line[column]), r] for line, r in zip(found, order, strict=True)
        ]
        assert named == pytest.approx(extreme[order], rel=1e-4)  # of equal ones, either is right
    differences = [float(line[2]) for line in found]
    assert differences == pytest.approx(np.ptp(scores, axis=0)[order], rel=2e-3)


@pytest.mark.parametrize(
    ("key", "column"), [("prediction", 1), ("difference", 2), ("share", 3), ("firsts", 6)]
)
def test_rows_are_sorted_by_a_click(visit, key, column):
    page = visit()
    button = page.locator(f'#rows thead button[data-key="{key}"]')
    if key != "difference":
        button.click()
    for way in ("descending", "ascending"):
        head = page.locator("#rows thead th[aria-sort]")
        assert head.get_attribute("aria-sort") == way
        assert head.locator("button").get_attribute("data-key") == key
        numbers = [float(line[column].replace("−", "-").removesuffix("\u00a0%")) for line in lines(page)]
        assert numbers == sorted(numbers, reverse=way == "descending")
        button.click()


def test_row_labels_are_sorted_as_numbers(visit):
    page = visit()
    page.click('#rows thead button[data-key="label"]')
    assert [line[0] for line in lines(page)] == [str(r) for r in range(15)]


def test_rows_are_searched(visit):
    page = visit()
    page.fill("#search", "39")
    assert [line[0] for line in lines(page)] == ["39"]
    assert page.inner_text("#found") == "1 of 1 that match, of 40 rows"
    page.fill("#search", "IMG onerror")  # of a name; all words must be found, in any case
    assert 1 <= len(lines(page)) <= 15
    page.fill("#search", "no such row")
    assert lines(page) == []
    page.fill("#search", "")
    assert page.inner_text("#found") == "15 of 40 rows"


def test_more_rows_are_shown(visit):
    page = visit()
    page.click("#more")
    assert len(lines(page)) == 40
    assert page.locator("#more").is_hidden()


def test_a_click_opens_a_row(visit, evaluation):
    page = visit()
    line = page.locator("#rows tr.row").nth(2)
    r = int(line.locator("th").inner_text())
    line.locator("td").nth(1).click()
    assert page.locator("tr.row.open button").get_attribute("aria-expanded") == "true"
    assert page.locator("#detail").count() == 1
    values = page.locator("#detail dl.values dd").all_text_contents()
    assert [float(v.replace("−", "-")) for v in values] == pytest.approx(evaluation.values[r], rel=1e-4)
    ladders = page.locator("#detail table.ladder")
    assert ladders.count() == 5
    names = [*evaluation.names, "best"]
    curves = [*evaluation.curves[:, r], evaluation.best_curve[r]]
    for at, (name, curve) in enumerate(zip(names, curves, strict=True)):
        caption = ladders.nth(at).locator("caption").inner_text()
        assert caption.startswith(f"{name} PGI² ")
        assert float(caption.rpartition(" ")[2]) == pytest.approx(curve.mean(), rel=1e-3)
        gains = [float(g.replace("−", "-")) for g in ladders.nth(at).locator("td.num").all_text_contents()]
        assert gains == pytest.approx(np.diff(curve, prepend=0.0), abs=1e-2 * max(map(np.max, curves)))
    assert page.locator("#detail figure svg path.curve").count() == 4 * 2  # and in the legend
    page.locator("tr.row.open").click(position={"x": 5, "y": 5})
    assert page.locator("#detail").count() == 0


def test_markup_in_names_is_text(visit):
    page = visit()
    assert page.locator("img").count() == 0
    for place in (
        "table.board tbody",
        "table.matrix tbody",
        "table.features tbody",
        "#curve-chart .legend",
        "#swarm-chart",
    ):
        assert EVIL in page.locator(place).first.text_content()
    assert EVIL in page.locator("#detail").text_content()


def test_rows_beyond_those_with_details_say_so(visit):
    page = visit("wide")
    page.evaluate("data.details.rows.length = 1; state.open = 5; showRows()")
    assert "kept for the 1 rows most in dispute" in page.inner_text("#detail")


def test_one_ranking_is_compared_with_the_best(visit):
    page = visit("one")
    assert {line[5] for line in lines(page)} == {"ranking 0"}
    assert page.locator("table.matrix:not(.places)").count() == 0


# ---- keyboard and screen reader ------------------------------------------------------------------


def test_rows_are_reached_and_opened_with_the_keyboard(visit):
    page = visit()
    labels = [line[0] for line in lines(page)]
    page.focus('#rows thead button[data-key="firsts"]')
    page.keyboard.press("Tab")
    assert focused(page) == labels[0]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert focused(page) == labels[2]
    page.keyboard.press("Enter")
    assert focused(page) == labels[2]
    assert page.locator("tr.row.open th").inner_text() == labels[2]
    page.keyboard.press("ArrowUp")
    assert focused(page) == labels[1]
    page.keyboard.press("End")
    assert focused(page) == labels[-1]
    page.keyboard.press("Home")
    assert focused(page) == labels[0]
    page.keyboard.press("Space")
    assert page.locator("tr.row.open th").inner_text() == labels[0]


def test_the_column_that_is_sorted_by_the_keyboard_keeps_the_focus(visit):
    page = visit()
    page.focus('#rows thead button[data-key="prediction"]')
    page.keyboard.press("Enter")
    assert focused(page) == "Prediction"
    assert page.locator("#rows th[aria-sort]").inner_text() == "Prediction"


def test_what_has_the_focus_is_outlined(visit):
    page = visit()
    page.keyboard.press("Tab")
    for _ in range(25):
        page.keyboard.press("Tab")
        style = "getComputedStyle(document.activeElement)"
        assert page.evaluate(f"{style}.outlineStyle") != "none", page.evaluate(
            "document.activeElement.outerHTML"
        )


def test_the_curves_are_read_with_the_arrow_keys(visit, evaluation):
    page = visit()
    chart = page.locator("#curve-chart [role=slider]")
    chart.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert chart.get_attribute("aria-valuenow") == "4"
    said = chart.get_attribute("aria-valuetext")
    assert said.startswith("4 features: ")
    at = float(said.partition("greedy ")[2].partition(",")[0])
    assert at == pytest.approx(evaluation.curves[2].mean(axis=0)[3], rel=1e-3)


def test_tables_and_charts_have_words(visit):
    page = visit()
    captions = page.evaluate(
        "[...document.querySelectorAll('table')].map((table) => table.caption?.textContent.trim())"
    )
    assert len(captions) > 10
    assert all(captions)
    assert page.evaluate(
        "[...document.querySelectorAll('table')].every((t) => t.tHead.querySelector('th[scope=col]'))"
    )
    for picture in page.locator("svg[role=img]").all():
        assert picture.get_attribute("aria-label")
    levels = [
        int(name[1])
        for name in page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map((h) => h.tagName)")
    ]
    assert levels[0] == 1
    assert all(after <= before + 1 or (before, after) == (1, 2) for before, after in pairwise(levels))
    unnamed = "[...document.querySelectorAll('input')].filter((i) => !i.labels.length).length"
    assert page.evaluate(unnamed) == 0
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


# ---- strength ------------------------------------------------------------------------------------


def strengths(page):
    found = page.locator("table.strength-bars tbody tr")
    return {
        line.locator("th").inner_text(): float(line.locator("div.bar .num").inner_text())
        for line in found.all()
    }


def test_the_slider_shows_the_scores_at_each_strength(visit, evaluation):
    page = visit()
    slider = page.locator("#slider")
    slider.focus()
    page.keyboard.press("Home")
    for s, strength in enumerate(("0.1", "0.3", "1")):
        assert page.inner_text("#strength-now") == strength
        found = strengths(page)
        expected = dict(zip(evaluation.sweep.names, evaluation.sweep.mean[s], strict=True))
        assert found == pytest.approx(expected, rel=2e-3)
        assert list(found) == evaluation.sweep.order[s].tolist()
        assert (
            slider.get_attribute("aria-valuetext")
            == f"strength {strength}, highest {evaluation.sweep.order[s, 0]}"
        )
        assert page.locator("#sweep-chart [role=slider]").get_attribute("aria-valuenow") == strength
        page.keyboard.press("ArrowRight")


def test_without_a_sweep_a_sentence_is_in_its_place(visit):
    page = visit("wide")
    assert page.locator("#slider").count() == 0
    assert "at one strength only" in page.inner_text("#strength")


# ---- screens, schemes, paper ---------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 700, 1280])
@pytest.mark.parametrize("key", ["small", "wide", "one"])
def test_nothing_is_wider_than_the_screen(visit, key, width, scheme):
    page = visit(key, width, scheme)
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert sideways(page) == [0, []]


def test_a_page_that_is_made_narrower_fits_again(visit):
    page = visit("wide")
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("document.querySelector('#curve-chart svg').viewBox.baseVal.width < 390")
    assert sideways(page) == [0, []]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(visit, scheme):
    """A contrast of 4.5 or more, as WCAG 2.1 asks (AA)."""
    page = visit(scheme=scheme)
    low = page.evaluate(
        """() => {
      const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
      const over = ([r, g, b, a = 1], under) => [r, g, b].map((v, i) => a * v + (1 - a) * under[i]);
      const behind = (e) => {
        const under = e.parentElement ? behind(e.parentElement) : [255, 255, 255];
        return over(rgb(getComputedStyle(e).backgroundColor), under);
      };
      const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      const light = ([r, g, b]) =>
        0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
      const texts = [...document.querySelectorAll("body *")].filter(
        (e) => e.getClientRects().length && !(e instanceof SVGElement)
          && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()));
      return texts.map((e) => {
        const under = behind(e), ink = over(rgb(getComputedStyle(e).color), under);
        const [a, b] = [light(ink), light(under)].sort((x, y) => y - x);
        return [(a + 0.05) / (b + 0.05), e.outerHTML.slice(0, 100)];
      }).filter(([contrast]) => contrast < 4.5);
    }"""
    )
    assert low == []


def test_both_colour_schemes_differ(visit):
    colours = [
        visit(scheme=s).evaluate("getComputedStyle(document.body).backgroundColor") for s in ("light", "dark")
    ]
    assert colours == ["rgb(253, 253, 252)", "rgb(21, 24, 28)"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_prints_on_a4(visit, scheme):
    page = visit(scheme=scheme)
    printed = page.pdf(prefer_css_page_size=True, print_background=True)
    assert printed.startswith(b"%PDF")
    assert b"/MediaBox [0 0 594.95996 841.91998]" in printed or b"/MediaBox [0 0 595" in printed
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("nav").is_hidden()
    assert page.locator("table.board").is_visible()


def test_without_javascript_texts_and_tables_are_there(visit, evaluation):
    page = visit(java_script_enabled=False)
    shown = SimpleNamespace(
        **{key: page.locator(f"#{key}").inner_text() for key in ("verdict", "leaderboard", "disagreement")}
    )
    assert evaluation.verdict().split("\n")[0] in shown.verdict
    assert all(name in shown.leaderboard for name in evaluation.names)
    assert "need JavaScript" in shown.disagreement
    assert page.locator("#search").is_hidden()
    assert page.locator("#slider").is_hidden()


def test_the_command_can_be_copied(visit):
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    page.click("#copy")
    page.wait_for_function("document.getElementById('copy').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == "predgap report model.txt data.csv"
