"""The file itself: its numbers are those of the evaluation, its names are text, its size is limited."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser

import numpy as np
import pytest

import predgap
from evaluations import EVIL, NAMES, made_up
from predgap._text import printable
from predgap.errors import DependencyError
from predgap.plots import _drawing
from predgap.report import _write, write_report

MOST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def text(evaluation):
    return _write.html(evaluation, command="predgap report 'a b.txt' data.csv")


class Page(HTMLParser):
    """The elements of a page, and the text of each table, row by row."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.tables, self.cells, self.inside = [], {}, None, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "table":
            self.rows = self.tables.setdefault(dict(attributes).get("class", ""), [])
        elif tag == "tr":
            self.cells = []
        elif tag in ("td", "th") and self.cells is not None:
            self.cells.append("")

    def handle_endtag(self, tag):
        if tag == "tr" and self.cells is not None:
            self.rows.append([cell.strip() for cell in self.cells])
            self.cells = None

    def handle_data(self, data):
        if self.cells:
            self.cells[-1] += data


def data_of(text):
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def near(found, exact, digits):
    """Rounded to so many significant digits: half a unit of the last one is at most this, relatively."""
    assert np.asarray(found, dtype=float) == pytest.approx(
        np.asarray(exact), rel=0.5 * 10.0 ** (1 - digits), abs=0
    )


# ---- numbers -------------------------------------------------------------------------------------


def test_the_embedded_numbers_are_those_of_the_evaluation(evaluation, text):
    data = data_of(text)
    scores = np.vstack([evaluation.scores["pgi2"], evaluation.best])
    spread = np.ptp(scores[[0, 1, 2]], axis=0)  # of all but the random ranking
    order = np.argsort(-spread, kind="stable")
    assert data["disputing"] == [0, 1, 2]
    assert data["rows"]["labels"] == [str(evaluation.rows[r]) for r in order]
    near(data["rows"]["scores"], evaluation.scores["pgi2"][:, order], 5)
    near(data["rows"]["best"], evaluation.best[order], 5)
    near(data["rows"]["random"], evaluation.random[order], 5)
    near(data["rows"]["predictions"], evaluation.predictions[order], 5)
    near(data["curves"]["means"], evaluation.curves.mean(axis=1), 5)
    near(data["curves"]["best"], evaluation.best_curve.mean(axis=0), 5)
    near(data["curves"]["random"], evaluation.random_curve.mean(axis=0), 5)
    near(data["sweep"]["means"], evaluation.sweep.mean, 5)
    assert data["sweep"]["strengths"] == [0.1, 0.3, 1]
    assert data["sweep"]["start"] == 1  # that of the explainer's own noise


def test_the_embedded_details_are_those_of_the_evaluation(evaluation, text):
    data = data_of(text)
    assert len(data["details"]["rows"]) == 40
    for label, row in zip(data["rows"]["labels"], data["details"]["rows"], strict=True):
        r = evaluation.rows.tolist().index(int(label))
        orders = [evaluation.rankings[key].order[r] for key in evaluation.names]
        assert row["order"] == [order.tolist() for order in (*orders, evaluation.best_ranking.order[r])]
        near(row["curves"], [*evaluation.curves[:, r], evaluation.best_curve[r]], 4)
        shown = [float(row["values"][str(j)].replace("−", "-")) for j in range(5)]
        near(shown, evaluation.values[r], 5)


def test_the_single_gaps_are_those_of_the_evaluation(evaluation, text):
    swarm = data_of(text)["swarm"]
    order = np.argsort(-evaluation.single.mean(axis=0), kind="stable")
    assert swarm["features"] == order.tolist()
    near(swarm["gaps"], evaluation.single[:, order].T, 4)
    for j, shades in zip(order, swarm["shades"], strict=True):
        lowest, highest = evaluation.values[:, j].argmin(), evaluation.values[:, j].argmax()
        assert (shades[lowest], shades[highest]) == (0, 6)


def test_the_leaderboard_is_the_summary(evaluation, text):
    rows = Page(text).tables["board"][1:]
    summary = sorted(evaluation.summary, key=lambda row: -row["mean"])
    assert [row[0] for row in rows] == [row["ranking"] for row in summary]
    for cells, row in zip(rows, summary, strict=True):
        numbers = [
            [float(n) for n in re.findall(r"−?\d+\.?\d*", cell.replace("−", "-"))]
            for cell in (*cells[1:2], *cells[3:])
        ]
        scale, pgi2, pgu2, first, won = numbers
        shares = [row["normalized"], row["normalized_low"], row["normalized_high"]]
        assert scale == pytest.approx([abs(100 * share) for share in shares], abs=1.0)
        assert pgi2 == pytest.approx([row["mean"], row["low"], row["high"]], rel=2e-3)
        assert pgu2 == pytest.approx([row["pgu2"]], rel=2e-3)
        assert first == pytest.approx([100 * row["first_moves_most"]], abs=1.0)
        assert won == pytest.approx([100 * row["share_won"]], abs=1.0)


def test_the_scale_is_drawn_at_the_right_places():
    text = _write.html(made_up(30, 4, 3))
    page = Page(text)
    evaluation = made_up(30, 4, 3)
    edges = [float(a["x1"][:-1]) for tag, a in page.tags if tag == "line" and a.get("class") == "edge"]
    ranges = [(a["x1"], a["x2"]) for tag, a in page.tags if tag == "line" and a.get("class") == "range"]
    marks = [float(a["x"][:-1]) for tag, a in page.tags if tag == "svg" and "x" in a]
    random, best = edges[:2]
    summary = sorted(evaluation.summary, key=lambda row: -row["mean"])

    def share(at):
        return (float(at) - random) / (best - random)

    for row, (low, high), at in zip(summary, ranges, marks, strict=True):
        found = [share(at), share(low[:-1]), share(high[:-1])]
        expected = [row["normalized"], row["normalized_low"], row["normalized_high"]]
        assert found == pytest.approx(expected, abs=3e-4)  # positions have two decimals


def test_the_matrices_are_agreement_and_correlation(evaluation, text):
    page = Page(text)
    header, *rows = page.tables["matrix"]
    assert header == ["Ranking", "1", "2", "3", "4"]
    both = np.vstack([evaluation.agreement, evaluation.correlation])
    found = [[float(cell.replace("−", "-")) for cell in row[1:]] for row in rows if row != header]
    assert np.array(found) == pytest.approx(100 * both, abs=1.0)


def test_places_are_means_over_the_rows(evaluation, text):
    rows = Page(text).tables["matrix places"][1:]
    order = np.argsort(-evaluation.single.mean(axis=0), kind="stable")
    means = np.array([evaluation.rankings[key].ranks.mean(axis=0) for key in evaluation.names]).T[order]
    assert np.array([[float(cell) for cell in row[1:]] for row in rows]) == pytest.approx(means, abs=0.051)


def test_what_was_said_is_on_the_page(evaluation, text):
    noted = replace(
        evaluation,
        notes=("Rows were drawn.",),
        description={**evaluation.description, "data": "x.csv, sha256 af12"},
    )
    page = _write.html(noted, command="predgap report 'a b.txt'", title="My <title>")
    said = [
        *evaluation.verdict().split("\n"),
        *evaluation.obtained.values(),
        "Rows were drawn.",
        "x.csv, sha256 af12",
    ]
    for words in (*said, "predgap report 'a b.txt'", "My <title>", evaluation.description["noise"]):
        assert escape(printable(words)).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in page, words


# ---- names ---------------------------------------------------------------------------------------


def test_names_are_text(text):
    page = Page(text)
    assert not [a for tag, a in page.tags if tag == "img" or any(key.startswith("on") for key in a)]
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert EVIL not in text
    assert escape(EVIL) in text
    assert "line\\nbreak" in text  # written out
    data = data_of(text)
    assert data["features"] == [printable(name) for name in NAMES]
    assert data["rankings"][0] == EVIL


def test_only_its_own_style_and_script_are_allowed(text):
    (policy,) = [a["content"] for _, a in Page(text).tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not [a for _, a in Page(text).tags if "style" in a]


def test_nothing_is_fetched(text):
    for _, attributes in Page(text).tags:
        for key in ("src", "href", "srcset", "action", "data"):
            assert attributes.get(key, "#").startswith("#")
    assert "@import" not in text
    assert "url(" not in text


def test_colours_are_those_of_the_plots(text):
    light = text[: text.index("@media (prefers-color-scheme: dark)")]
    assert re.findall(r"--look\d: (#\w+)", light) == list(_drawing.COLOURS)


# ---- size and edges ------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d", "m"), [(1000, 200, 10), (1000, 12, 25), (4000, 5, 3)])
def test_the_file_is_small(n, d, m, tmp_path):
    evaluation = made_up(n, d, m)
    assert write_report(evaluation, tmp_path / "page.html").stat().st_size < MOST_BYTES


def test_long_texts_are_cut():
    evaluation = made_up(300, 40, 3, names=["r" * 5000, "s" * 5000, "t"])
    table = np.full((300, 40), "v" * 5000, dtype=object)
    long = replace(
        evaluation,
        table=table,
        values=np.full((300, 40), np.nan),
        feature_names=tuple(f"{'f' * 5000}{j}" for j in range(40)),
    )
    assert len(_write.html(long)) < 1_500_000


def test_rows_beyond_the_limit_are_listed_without_details():
    data = data_of(_write.html(made_up(1000, 200, 10)))
    assert len(data["rows"]["labels"]) == 1000
    assert 300 < len(data["details"]["rows"]) < 1000


def test_the_same_input_gives_the_same_bytes(evaluation, tmp_path):
    first, second = (write_report(evaluation, tmp_path / name, command="c") for name in ("a.html", "b.html"))
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().decode() == _write.html(evaluation, command="c")


@pytest.mark.parametrize(("n", "d", "m", "k"), [(1, 1, 1, 1), (3, 2, 1, 2), (5, 30, 2, 4), (2, 3, 25, 3)])
def test_small_and_partial_evaluations_have_a_page(n, d, m, k):
    text = _write.html(made_up(n, d, m, k))
    assert len(data_of(text)["rows"]["labels"]) == n
    assert ("PGU²</th>" in text) == (k == d)


def test_a_model_that_never_moves_has_a_page():
    nothing = made_up(4, 3, 2)
    zeros = np.zeros_like
    still = replace(
        nothing,
        scores={"pgi2": zeros(nothing.scores["pgi2"])},
        curves=zeros(nothing.curves),
        random=np.zeros(4),
        best=np.zeros(4),
        best_curve=zeros(nothing.best_curve),
        single=zeros(nothing.single),
    )
    rows = Page(_write.html(still)).tables["board"][1:]
    assert [row[1].split("\n")[0] for row in rows] == ["– no interval", "– no interval"]


def test_missing_values_and_labels_are_named():
    evaluation = made_up(3, 2, 2)
    table, values = evaluation.table.copy(), evaluation.values.copy()
    table[:, 1], values[:, 1] = ["red", "", "<b>"], [0.0, np.nan, 1.0]
    table[0, 0] = values[0, 0] = np.nan
    data = data_of(_write.html(replace(evaluation, table=table, values=values)))
    shown = {row: data["details"]["rows"][at]["values"] for at, row in enumerate(data["rows"]["labels"])}
    assert (shown["0"]["0"], shown["0"]["1"], shown["1"]["1"], shown["2"]["1"]) == (
        "missing",
        "red",
        "missing",
        "<b>",
    )
    shades = dict(zip(data["swarm"]["features"], data["swarm"]["shades"], strict=True))
    assert shades[0][0] == -1
    assert shades[1] is None


def test_without_jinja2_it_says_what_to_install(evaluation, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(
        DependencyError,
        match=r"^a report needs jinja2; not installed: jinja2. Try: pip install 'predgap\[report\]'$",
    ):
        write_report(evaluation, tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_named(evaluation, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_report(evaluation, tmp_path / "none" / "page.html")


def test_groups_are_shown_as_what_they_hold():
    X = np.random.default_rng(0).normal(size=(60, 3))
    from sklearn.tree import DecisionTreeRegressor

    tree = DecisionTreeRegressor(max_depth=3, random_state=0).fit(X, X[:, 0] + X[:, 1] * X[:, 2])
    groups = {"both": ["b", "c"]}
    explainer = predgap.Explainer(tree, predgap.Normal(0.5), feature_names=["a", "b", "c"], groups=groups)
    data = data_of(_write.html(predgap.evaluate(explainer, X[:5], ["greedy", "single"])))
    assert sorted(data["features"]) == ["a", "both"]
    both = data["features"].index("both")
    assert re.fullmatch(r"b=\S+, c=\S+", data["details"]["rows"][0]["values"][str(both)])
    assert dict(zip(data["swarm"]["features"], data["swarm"]["shades"], strict=True))[both] is None
