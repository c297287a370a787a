"""`predgap evaluate` and `predgap report`: the words, files and tables reach the library, and come back."""

from __future__ import annotations

import hashlib
import io
import json

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
import xgboost

import predgap
from commandline import on_terminal, records
from predgap import Explainer, Marginal, Relative


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model, its training table with a target, and rows whose index pandas has written."""
    folder = tmp_path_factory.mktemp("evaluating")
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(120, 4)), columns=["age", "bmi", "<b>bp", "\x1b[31mred"])
    y = X["age"] * X["bmi"] + X["<b>bp"] + 0.1 * rng.normal(size=120)
    named = X.set_axis(["age", "bmi", "bp", "red"], axis=1)
    booster = xgboost.XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1).fit(named, y)
    booster.get_booster().save_model(folder / "model.json")
    named.assign(y=y).to_csv(folder / "train.csv", index=False)
    named[80:].to_csv(folder / "rows.csv")
    return folder


@pytest.fixture
def asked(model, run, monkeypatch):
    monkeypatch.chdir(model)
    return lambda verb, *args: run(verb, "model.json", "rows.csv", "--reference", "train.csv", *args)


def evaluated(model, rankings, **options):
    X, rows = pd.read_csv(model / "train.csv").drop(columns="y"), pd.read_csv(model / "rows.csv", index_col=0)
    return predgap.evaluate(Explainer(model / "model.json", Relative(X)), rows, rankings, **options)


def test_a_pipe_gets_the_table_of_the_library(model, asked):
    expected = evaluated(model, ["shap", "gain", "greedy"]).summary
    done = asked("evaluate")
    assert (done.exit_code, done.stderr) == (0, "")
    assert [row["ranking"] for row in records(done.stdout)] == ["shap", "gain", "greedy"]
    for found, row in zip(records(done.stdout), expected, strict=True):
        assert {key: str(value) for key, value in row.items()} == found


def test_metrics_are_columns(model, asked):
    done = asked("evaluate", "--noise", "marginal", "--metrics", "pgi2,deletion", "--rankings", "gain,random")
    X, rows = pd.read_csv(model / "train.csv").drop(columns="y"), pd.read_csv(model / "rows.csv", index_col=0)
    explainer = Explainer(model / "model.json", Marginal(X))
    expected = predgap.evaluate(explainer, rows, ["gain", "random"], metrics=["deletion"]).summary
    assert [row["deletion"] for row in records(done.stdout)] == [str(row["deletion"]) for row in expected]
    assert {row["deletion_better"] for row in records(done.stdout)} == {"lower"}
    assert "pgu2" in records(done.stdout)[0]


def test_json_has_the_verdict_and_the_table(model, asked):
    expected = evaluated(model, ["random", "optimal"], strengths=[0.1, 0.3])
    found = json.loads(
        asked("evaluate", "--rankings", "random,optimal", "--strengths", "0.1,0.3", "--json").stdout
    )
    assert found["verdict"] == expected.verdict()
    assert [row["mean"] for row in found["summary"]] == [row["mean"] for row in expected.summary]
    assert (found["random"], found["best"]) == (expected.random.mean(), expected.best.mean())
    assert found["description"]["budget"] == 60
    for what, name in {"model_file": "model.json", "data": "rows.csv", "reference": "train.csv"}.items():
        digits = hashlib.sha256((model / name).read_bytes()).hexdigest()[:16]
        assert found["description"][what] == f"{name}, SHA-256 {digits}"


def test_files_are_rankings_matched_by_the_labels_of_rows(model, asked, tmp_path):
    asked("rank", "-o", tmp_path / "mine.csv")
    lines = (tmp_path / "mine.csv").read_text().splitlines()
    (tmp_path / "other.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")
    done = asked(
        "evaluate", "--rankings", f"greedy,{tmp_path}/mine.csv", "--rankings", f"again={tmp_path}/other.csv"
    )
    greedy, mine, again = records(done.stdout)
    assert (greedy["ranking"], mine["ranking"], again["ranking"]) == ("greedy", "mine", "again")
    assert greedy["mean"] == mine["mean"] == again["mean"]
    strange = lines[0], *(f"9{line}" for line in lines[1:])
    (tmp_path / "mine.csv").write_text("\n".join(strange) + "\n")
    told = asked("evaluate", "--rankings", tmp_path / "mine.csv")
    assert (told.exit_code, "different rows" in told.stderr, told.stderr.count("\n")) == (1, True, 1)


def test_the_target_is_y(model, run, monkeypatch):
    monkeypatch.chdir(model)
    train = pd.read_csv("train.csv")
    X, y = train.drop(columns="y"), train["y"]
    expected = predgap.evaluate(Explainer("model.json", Relative(X)), X, ["permutation"], y=y).summary[0]
    done = run("evaluate", "model.json", "train.csv", "--target", "y", "--rankings", "permutation")
    assert float(records(done.stdout)[0]["mean"]) == expected["mean"]
    words = [
        row["ranking"] for row in records(run("evaluate", "model.json", "train.csv", "--target", "y").stdout)
    ]
    assert words == ["shap", "gain", "permutation", "greedy"]
    told = run("evaluate", "model.json", "rows.csv", "--rankings", "permutation")
    assert (told.exit_code, "--target NAME" in told.stderr) == (2, True)


def test_files_of_the_table_and_of_everything(model, asked, tmp_path):
    for name in ("e.csv", "e.parquet", "e.jsonl", "e.json"):
        done = asked("evaluate", "--rankings", "shap,greedy", "--top", 2, "-o", tmp_path / name)
        assert (done.exit_code, done.stdout) == (0, "")
        assert "first 2 places of 4" in done.stderr  # what limits the result is said
    table = pyarrow.parquet.read_table(tmp_path / "e.parquet").to_pandas()
    pd.testing.assert_frame_equal(table, pd.read_csv(tmp_path / "e.csv"))
    pd.testing.assert_frame_equal(
        table.drop(columns="pgu2"), pd.read_json(tmp_path / "e.jsonl", lines=True).drop(columns="pgu2")
    )
    assert json.loads((tmp_path / "e.json").read_text())["names"] == ["shap", "greedy"]


def test_a_terminal_gets_the_verdict_and_a_table(model):
    args = ["evaluate", model / "model.json", model / "rows.csv", "--rankings", "shap,greedy"]
    seen, process = on_terminal(args, "stdout")
    assert process.returncode == 0
    assert "SHAP" in seen.splitlines()[0]
    assert any(line.startswith("greedy ") for line in seen.splitlines())


def test_a_report_is_a_page_and_says_where(model, asked, tmp_path):
    done = asked("report", "--rankings", "shap,greedy", "-o", tmp_path / "page.html", "--title", "My <model>")
    verdict = evaluated(model, ["shap", "greedy"], strengths=[0.1, 0.3, 1.0]).verdict()
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path}/page.html\n\n{verdict}\n"
    page = (tmp_path / "page.html").read_text()
    assert "My &lt;model&gt;" in page
    assert "predgap report model.json rows.csv --reference train.csv" in page  # how to run it again
    as_json = json.loads(
        asked("report", "--rankings", "shap,greedy", "-o", tmp_path / "page.html", "--json").stdout
    )
    assert (as_json["page"], as_json["verdict"]) == (f"{tmp_path}/page.html", verdict)
    piped = asked("report", "--rankings", "shap,greedy", "-o", "-")
    assert piped.stdout.startswith("<!")
    assert verdict.splitlines()[0] in piped.stderr


def test_a_report_of_noise_without_strength_has_no_sweep(model, asked, tmp_path):
    done = asked("report", "--noise", "marginal", "--rankings", "greedy", "-o", tmp_path / "page.html")
    assert (done.exit_code, done.stderr) == (0, "")


WRONG = [
    (("evaluate", "--rankings", "shp"), 1, "did you mean 'shap'?"),
    (("evaluate", "--rankings", "shap,shap"), 2, "two rankings are called 'shap'"),
    (("evaluate", "--rankings", "mine="), 2, "mine=file.csv"),
    (("evaluate", "--rankings", "none.csv"), 1, "there is no file 'none.csv'"),
    (("evaluate", "--strengths", "0.1,x"), 2, "such as 0.1,0.3,1"),
    (("evaluate", "--strengths", "0.1", "--noise", "marginal"), 1, "no strength"),
    (("evaluate", "--budget", "0"), 2, "--budget"),
    (("evaluate", "--metrics", "pgi2,auc"), 1, "metrics has 'auc', expected"),
    (("evaluate", "--metrics", "deletion", "-o", "out/"), 2, "is not for folders: the scores there are pgi2"),
    (("evaluate", "--strengths", "0.1", "-o", "out/"), 2, "leave out --budget, --strengths"),
    (("evaluate", "--metrics", "deletion"), 1, "a feature is removed by redrawing it"),
    (("report", "-o", "/dev/null"), 2, "is not a regular file"),
    (("report", "-o", "no/page.html"), 2, "there is no folder 'no'"),
]


@pytest.mark.parametrize(("args", "code", "message"), WRONG, ids=[" ".join(args) for args, _, _ in WRONG])
def test_wrong_input_gives_one_line(asked, args, code, message):
    done = asked(*args)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (code, "", 1)
    assert message in done.stderr


def test_a_budget_that_is_too_small_says_what_was_done(model, run, monkeypatch):
    monkeypatch.chdir(model)
    done = run(
        "evaluate", "model.json", "train.csv", "--target", "y", "--rankings", "greedy", "--budget", "0.001"
    )
    assert done.exit_code == 0
    assert done.stderr.startswith("predgap: To keep within 0.001 s")
    assert pd.read_csv(io.StringIO(done.stdout)).shape[0] == 1
