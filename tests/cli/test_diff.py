"""`predgap diff`: what it says about two models is what they predict."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from click.testing import CliRunner

import predgap
from commandline import (
    HOSTILE,
    NAMES,
    controls,
    make_model,
    on_terminal,
    python,
    records,
    rename,
    write_table,
)
from predgap import CostError, Explainer
from predgap.cli import commands

app = commands()

VALUES = (-1.0, 0.0, 0.7)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """old.json; more.json with two more trees; wide.json with one more column; rows in another order."""
    folder = tmp_path_factory.mktemp("diff")
    X = make_model(folder / "old.json", NAMES, n_trees=4)
    make_model(folder / "more.json", NAMES, n_trees=6)
    for name in ("old", "more"):
        rename(folder / f"{name}.json", NAMES)
    make_model(folder / "wide.json", ("extra", *NAMES))
    rename(folder / "wide.json", ("extra", *NAMES))
    for name in ("two_a", "two_b"):
        make_model(folder / f"{name}.json", NAMES, n_outputs=2, n_trees=3 if name == "two_a" else 5)
        rename(folder / f"{name}.json", NAMES)
    columns = {name: X[:, j] for j, name in reversed([*enumerate(NAMES)])}
    write_table(pa.table(columns), folder / "rows.csv")
    write_table(pa.table(columns | {"extra": X[::-1, 0]}), folder / "wide.csv")
    for name, own in (("rows", NAMES), ("wide", (*NAMES, "extra"))):
        text = "".join(f"'{column}' = {{values = {list(VALUES)}}}\n" for column in own)
        (folder / f"{name}.toml").write_text(f"[columns]\n{text}")
    return folder


@pytest.fixture
def diff(models, monkeypatch):
    """The output of the command, which must end well and say nothing on stderr."""
    monkeypatch.chdir(models)

    def diff(*args, **options):
        done = CliRunner().invoke(app, ["diff", *map(str, args)], prog_name="predgap", **options)
        assert (done.exit_code, done.stderr) == (0, "")
        return done.stdout

    return diff


def by_definition(folder, old, new, row):
    """OLD, NEW, and the expected squared difference if every feature takes each of VALUES as likely."""
    models = [predgap.load(folder / name) for name in (old, new)]
    names = [name for name in row if name != "row"]
    cells = [dict(zip(names, cell, strict=True)) for cell in itertools.product(VALUES, repeat=len(names))]

    def predicted(rows):
        return [e.predict([[r[name] for name in e.feature_names] for r in rows]) for e in models]

    at_row, moved = predicted([row]), predicted(cells)
    return at_row[0][0], at_row[1][0], np.mean((moved[1] - moved[0]) ** 2)


@pytest.mark.parametrize(("new", "rows"), [("more.json", "rows.csv"), ("wide.json", "wide.csv")])
def test_the_table_of_rows_is_what_the_models_predict(diff, models, new, rows):
    out = diff("old.json", new, rows, "--noise", rows.replace("csv", "toml"), "--rtol", 0, "-o", "-")
    given = [{k: float(v) for k, v in row.items()} for row in records((models / rows).read_text())]
    found = records(out)
    assert [row["row"] for row in found] == [str(r) for r in range(20)]
    for row, x in zip(found, given, strict=True):
        old_one, new_one, square = by_definition(models, "old.json", new, x)
        numbers = [float(row[name]) for name in ("old", "new", "difference", "expected_square")]
        assert numbers == pytest.approx([old_one, new_one, new_one - old_one, square], rel=1e-12, abs=1e-12)


def test_the_document_sums_up_the_rows(diff, models):
    args = ["old.json", "wide.json", "wide.csv", "--noise", "wide.toml"]
    told = json.loads(diff(*args, "--json", "-o", "table.parquet", "--top", 2))
    table = pyarrow.parquet.read_table(models / "table.parquet").to_pydict()
    d = np.array(table["difference"])
    assert told["trees"] == {"old": 4, "new": 6, "common": 0}
    assert told["only_in"] == {"old": [], "new": ["extra"]}
    assert told["rows"] == 20
    assert told["mean"] == pytest.approx(d.mean(), rel=1e-12)
    assert told["rms"] == pytest.approx(np.sqrt(np.mean(d**2)), rel=1e-12)
    assert told["largest"] == np.abs(d).max()
    assert told["rms_under_noise"] == pytest.approx(np.sqrt(np.mean(table["expected_square"])), rel=1e-12)
    assert told["obtained"] == ["exact"]
    assert told["rows_that_changed_most"] == 2
    assert [row["row"] for row in told["largest_rows"]] == np.argsort(-np.abs(d))[:2].tolist()
    explainer = Explainer(
        predgap.difference(models / "wide.json", models / "old.json"), predgap.Discrete(VALUES)
    )
    rows = pa.csv.read_csv(models / "wide.csv")
    gaps = {name: explainer.gap(rows, [name]) for name in explainer.ensemble.feature_names}
    means = {name: gap.mean() for name, gap in gaps.items()}
    first = max(means, key=means.get)
    shown = told["features"][0]
    assert (shown["feature"], len(told["features"])) == (first, 2)
    assert shown["mean_gap"] == pytest.approx(means[first], rel=1e-6)
    assert shown["share"] == pytest.approx(means[first] / sum(means.values()), rel=1e-6)
    most = np.argsort(-np.abs(d))[:2]
    in_most = {name: gap[most].mean() for name, gap in gaps.items()}
    share = in_most[first] / sum(in_most.values())
    assert shown["share_in_rows_that_changed_most"] == pytest.approx(share, rel=1e-6)
    top = told["largest_rows"][0]
    assert top["drivers"][0] == max(gaps, key=lambda name: gaps[name][top["row"]])


def test_people_see_small_tables(diff):
    lines = diff("old.json", "wide.json", "wide.csv", "--top", 3).splitlines()
    assert lines[0] == "trees        4 in OLD, 6 in NEW; 0 are the same in both"
    assert lines[1] == "features     only in NEW: 'extra'"
    assert lines[2].startswith("difference   NEW - OLD in 20 rows: mean ")
    assert lines[2].endswith("(raw predictions, before any link)")
    assert lines[3].startswith("under noise  root of the expected square ")
    assert lines[3].endswith("(exact); Relative(<4 columns>, 0.3)")
    assert lines[5].split("  ")[0] == "what moves the difference"
    assert len(lines) == 6 + 3 + 2 + 3
    swapped = diff("wide.json", "old.json", "wide.csv", "--top", 3).splitlines()
    assert swapped[1] == "features     only in OLD: 'extra'"


def test_equal_models_and_more_trees(diff, models):
    same = diff("old.json", "old.json", "rows.csv", "--plot", "same.svg")
    assert "4 are the same in both" in same
    assert "mean 0, root mean square 0, largest 0" in same
    assert "no feature moves the difference" in same
    assert "no feature moves the difference" in (models / "same.svg").read_text()
    told = json.loads(diff("old.json", "more.json", "rows.csv", "--json"))
    assert told["trees"] == {"old": 4, "new": 6, "common": 4}


def test_several_outputs_are_taken_together_or_one_by_one(diff):
    args = ["two_a.json", "two_b.json", "rows.csv", "--rtol", 0]
    both = records(diff(*args, "-o", "-"))
    ones = [records(diff(*args, "--output", k, "-o", "-")) for k in (0, 1)]
    assert "old" not in both[0]
    for row, first, second in zip(both, *ones, strict=True):
        size = np.hypot(float(first["difference"]), float(second["difference"]))
        assert float(row["difference"]) == pytest.approx(size, rel=1e-12)
        squares = float(first["expected_square"]) + float(second["expected_square"])
        assert float(row["expected_square"]) == pytest.approx(squares, rel=1e-12)


def test_a_picture_is_drawn_and_is_the_same_each_time(diff, models):
    for name in ("a.svg", "b.svg", "c.png"):
        diff("old.json", "more.json", "rows.csv", "--plot", name)
    assert (models / "a.svg").read_bytes() == (models / "b.svg").read_bytes()
    assert (models / "c.png").read_bytes().startswith(b"\x89PNG")


def test_a_process_with_a_pipe_and_without_the_library(models):
    """What a pipe gives is what a file gives; XGBoost is not needed for its files."""
    code = "import sys; sys.modules['xgboost'] = None; from predgap.cli import main; main()"
    args = ["-c", code, "diff", "old.json", "more.json"]
    rows = (models / "rows.csv").read_text()
    piped = python(*args, "-", "-o", "-", "--format", "jsonl", cwd=models, input=rows)
    filed = python(*args, "rows.csv", "-o", "table.csv", cwd=models)
    assert [(done.returncode, done.stderr) for done in (piped, filed)] == [(0, "")] * 2
    assert filed.stdout.startswith("trees  ")
    table = records((models / "table.csv").read_text())
    assert [str(json.loads(line)["difference"]) for line in piped.stdout.splitlines()] == [
        row["difference"] for row in table
    ]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("old.json", "two_a.json", "rows.csv"), 1, "predgap: NEW has 2 outputs, OLD 1"),
        (("old.json", "wide.json", "rows.csv"), 1, "'extra'"),
        (("old.json", "gone.json", "rows.csv"), 1, "gone.json"),
        (("two_a.json", "two_b.json", "rows.csv", "--output", "predicted"), 2, "name one"),
        (("two_a.json", "two_b.json", "rows.csv", "--output", "2"), 1, "expected a position from 0 to 1"),
        (("old.json", "more.json", "rows.csv", "--plot", "picture.bmp"), 2, ".png, .svg, .pdf"),
        (("old.json", "more.json", "rows.csv", "--plot", "-"), 2, ".png, .svg, .pdf"),
        (("old.json", "more.json", "rows.csv", "-o", "nowhere/table.csv"), 2, "no folder 'nowhere'"),
        (("old.json", "more.json", "rows.csv", "-o", "table.txt"), 2, "ends in none of"),
    ],
)
def test_errors_are_one_line(models, monkeypatch, args, code, said):
    monkeypatch.chdir(models)
    done = CliRunner().invoke(app, ["diff", *args], prog_name="predgap")
    assert (done.exit_code, done.stdout) == (code, "")
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr


def test_names_do_nothing_to_a_terminal(hostile):
    args = ["diff", hostile / "model.json", hostile / "model.json", hostile / "rows.csv"]
    make_model(hostile / "other.json", HOSTILE, n_trees=8)
    rename(hostile / "other.json", HOSTILE)
    args[2] = hostile / "other.json"
    seen, process = on_terminal(args, "stdout")
    assert process.returncode == 0
    assert controls(seen.replace("\r\n", "\n")) == set()


def test_what_costs_too_much_is_estimated_and_says_so(diff, monkeypatch):
    """The same sum from the gap and the expected prediction."""
    args = ["old.json", "more.json", "rows.csv"]
    exact = json.loads(diff(*args, "--json"))

    def refused(self, X):
        raise CostError("too much")

    approximate = Explainer.approximate
    monkeypatch.setattr(Explainer, "moments", refused)
    monkeypatch.setattr(Explainer, "approximate", lambda self: approximate(self, method="qmc"))
    told = json.loads(diff(*args, "--json"))
    assert (exact["obtained"], told["obtained"]) == (["exact"], ["qmc"])
    assert told["rms_under_noise"] == pytest.approx(exact["rms_under_noise"], rel=1e-3)
    assert "(qmc)" in diff(*args)
