"""The command line: what it prints equals what the library returns, and errors are one line."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import pty
import resource
import signal
import subprocess
import sys
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import xgboost
from click.testing import CliRunner

import predgap
from predgap import Explainer, Flip, Marginal, Normal, PerFeature, Relative, Uniform
from predgap._csv import delimiter_of
from predgap.cli.commands import app
from predgap.cli.tablefiles import write_csv, write_table

NAMES = ("age", "body mass", "s_1")
HOSTILE = ("[red]x", "line\nbreak", "\x1b[31mred\x1b[0m", "=cmd()", "a,b", 'say "hi"', "\u202eodd", "plain")


def make_model(path, names, n_outputs=1, n_trees=6):
    """A small XGBoost model on random data."""
    rng = np.random.default_rng(len(names))
    X = rng.normal(size=(200, len(names)))
    y = X @ rng.normal(size=(len(names), n_outputs)) + 0.1 * rng.normal(size=(200, n_outputs))
    parameters = {"max_depth": 3, "nthread": 1, "seed": 0}
    booster = xgboost.train(parameters, xgboost.DMatrix(X, y), n_trees)
    booster.feature_names = None
    booster.save_model(path)
    return X[:20]


def rename(path, names):
    """Write names into the file: XGBoost itself refuses some that other tools accept."""
    model = json.loads(path.read_text())
    model["learner"]["feature_names"] = list(names)
    path.write_text(json.dumps(model))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, its rows as CSV and Parquet in another column order, and a target column."""
    folder = tmp_path_factory.mktemp("cli")
    X = make_model(folder / "model.json", NAMES)
    rename(folder / "model.json", NAMES)
    X[3, 1] = np.nan
    table = pa.table({"s_1": X[:, 2], "target": np.arange(20), "body mass": X[:, 1], "age": X[:, 0]})
    table = table.set_column(2, "body mass", pa.array([None if np.isnan(v) else v for v in X[:, 1]]))
    pyarrow.parquet.write_table(table, folder / "rows.parquet")
    write_table(table, folder / "rows.csv")
    write_table(table.drop_columns(["target"]), folder / "features.csv")
    make_model(folder / "two.json", NAMES, n_outputs=2)
    rename(folder / "two.json", NAMES)
    return folder


@pytest.fixture(scope="module")
def frame(folder):
    return pyarrow.parquet.read_table(folder / "rows.parquet").drop_columns(["target"])


@pytest.fixture
def run(folder, monkeypatch):
    """Run a command line inside the folder."""
    monkeypatch.chdir(folder)
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args], prog_name="predgap")


def python(*args, cwd=None, **options):
    """A real process."""
    return subprocess.run(
        [sys.executable, *map(str, args)], capture_output=True, text=True, timeout=120, cwd=cwd, **options
    )


def records(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


# ---- answers -------------------------------------------------------------------------------------


def test_names_may_have_spaces_where_lightgbm_stores_underscores(run, folder, frame):
    predgap.load(folder / "model.json").named(("age", "body_mass", "s_1")).save(folder / "stored")
    told = run("gap", "stored", "rows.csv", "--features", "body mass")
    assert (told.exit_code, told.output.count("--drop target")) == (1, 1)
    told = run("gap", "stored", "rows.csv", "--features", "body mass", "--drop", "target")
    expected = Explainer(folder / "model.json", Relative(frame, 0.3)).gap(frame, ["body mass"])
    assert [float(r["gap"]) for r in records(told.stdout)] == expected.tolist()
    told = run("rank", "stored", "features.csv")
    assert {r["feature"] for r in records(told.stdout)} == set(NAMES)


@pytest.mark.parametrize("table", ["rows.csv", "rows.parquet"])
@pytest.mark.parametrize(
    ("options", "noise"),
    [
        ((), lambda X: Relative(X, 0.3)),
        (("--noise", "relative:0.7"), lambda X: Relative(X, 0.7)),
        (("--noise", "normal:0.2std"), lambda X: Normal.relative(X, 0.2)),
        (("--noise", "normal:0.4"), Normal(0.4)),
        (("--noise", "uniform:0.5", "--jobs", "2"), Uniform(0.5)),
    ],
)
def test_gap_prints_exactly_what_the_library_returns(run, folder, frame, table, options, noise):
    if not isinstance(noise, predgap.Noise):
        noise = noise(frame)
    expected = Explainer(folder / "model.json", noise).gap(frame, ["age", "body mass"])
    done = run("gap", "model.json", table, "--drop", "target", "--features", "age,body mass", *options)
    assert (done.exit_code, done.stderr) == (0, "")
    rows = records(done.stdout)
    assert [float(row["gap"]) for row in rows] == expected.tolist()
    assert [int(row["row"]) for row in rows] == list(range(20))


@pytest.mark.parametrize("method", ["greedy", "single"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_rank_writes_exactly_what_the_library_returns(run, folder, frame, tmp_path, method, suffix):
    expected = Explainer(folder / "model.json", Relative(frame, 0.3)).rank(frame, method).to_frame()
    target = tmp_path / f"out{suffix}"
    done = run("rank", "model.json", "rows.csv", "--drop", "target", "--method", method, "-o", target)
    assert (done.exit_code, done.output) == (0, "")
    read = pyarrow.csv.read_csv if suffix == ".csv" else pyarrow.parquet.read_table
    assert read(target).equals(expected)
    assert list(tmp_path.iterdir()) == [target]


def test_rank_to_stdout_equals_the_file(run, tmp_path):
    printed = run("rank", "model.json", "features.csv")
    run("rank", "model.json", "features.csv", "-o", tmp_path / "out.csv")
    assert printed.stdout_bytes == (tmp_path / "out.csv").read_bytes()
    assert printed.stdout.splitlines()[0] == "row,place,feature,score,confidence"


def test_a_sampled_ranking_says_so(run, frame, folder):
    explainer = Explainer(folder / "model.json", Relative(frame, 0.3))
    confidence = explainer.approximate(method="qmc").rank(frame).confidence
    done = run("rank", "model.json", "features.csv", "--estimator", "qmc")
    assert (done.exit_code, done.stderr) == (
        0,
        f"predgap: ranked by samples; the lowest confidence in a place is {confidence.min():.3f}\n",
    )
    assert [float(row["confidence"]) for row in records(done.stdout)] == confidence.ravel().tolist()


@pytest.mark.parametrize("estimator", ["auto", "exact", "bounded"])
def test_a_guaranteed_ranking_of_a_small_model_is_exact(run, frame, folder, estimator):
    expected = Explainer(folder / "model.json", Relative(frame, 0.3)).rank(frame)
    done = run("rank", "model.json", "features.csv", "--estimator", estimator)
    assert (done.exit_code, done.stderr) == (0, "")
    rows = records(done.stdout)
    assert [row["feature"] for row in rows] == expected.top(len(NAMES)).ravel().tolist()
    assert {float(row["confidence"]) for row in rows} == {1.0}


def test_a_ranking_by_bounds_counts_the_places_that_are_not_proven(run, folder, monkeypatch):
    exact = Explainer.rank

    def bounded(self, *asked, **options):
        ranking = exact(self, *asked, **options)
        confidence = ranking.confidence.copy()
        confidence[0, 0] = np.nan
        return dataclasses.replace(ranking, estimator="bounded", confidence=confidence)

    monkeypatch.setattr(Explainer, "rank", bounded)
    done = run("rank", "model.json", "features.csv", "--estimator", "bounded")
    assert (done.exit_code, done.stderr) == (0, "predgap: ranked by bounds; 1 of 60 places are not proven\n")
    assert np.isnan(float(records(done.stdout)[0]["confidence"]))


def test_a_ranking_that_costs_too_much_is_approximate_unless_a_guarantee_is_asked_for(run, monkeypatch):
    def refuse(self, *asked, **options):
        raise predgap.CostError("too much")

    monkeypatch.setattr(Explainer, "rank", refuse)
    done = run("rank", "model.json", "features.csv")
    assert (done.exit_code, len(records(done.stdout))) == (0, 60)
    done = run("rank", "model.json", "features.csv", "--estimator", "bounded")
    assert (done.exit_code, done.stderr) == (1, "predgap: too much\n")


def test_gaps_that_are_not_exact_say_so(run, frame, folder):
    asked = ("gap", "model.json", "features.csv", "--features", "age,body mass")
    exact, done = run(*asked), run(*asked, "--estimator", "qmc")
    assert exact.stdout.splitlines()[0] == "row,gap"
    assert exact.stdout == run(*asked, "--estimator", "bounded").stdout  # exact, as that is cheap
    assert done.stdout.splitlines()[0] == "row,gap,standard_error,error_bound,method"
    explainer = Explainer(folder / "model.json", Relative(frame, 0.3))
    expected = explainer.estimate(frame, ["age", "body mass"], "qmc")
    for name, column in (("gap", expected.value), ("standard_error", expected.standard_error)):
        assert [float(row[name]) for row in records(done.stdout)] == column.tolist()
    assert {row["method"] for row in records(done.stdout)} == {"qmc"}


def test_output_chooses_among_several(run, folder, frame):
    noise = Normal(0.3)
    for output in (0, 1, None):  # without it, both together
        chosen = () if output is None else ("--output", output)
        done = run("gap", "two.json", "features.csv", "--features", "age", "--noise", "normal:0.3", *chosen)
        expected = Explainer(folder / "two.json", noise, output=output).gap(frame, ["age"])
        assert [float(row["gap"]) for row in records(done.stdout)] == expected.tolist()


def test_output_may_be_a_class_or_the_predicted_one(run, folder, frame):
    rng = np.random.default_rng(0)
    classes = np.array(["low", "mid", "high"])
    model = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1).fit(
        frame, classes[rng.integers(3, size=len(frame))]
    )
    predgap.load(model).save(folder / "classes.predgap")
    for output in ("mid", "predicted", 2):
        asked = ("gap", "classes.predgap", "features.csv", "--features", "age", "--noise", "normal:0.3")
        done = run(*asked, "--output", output)
        expected = Explainer(model, Normal(0.3), output=output).gap(frame, ["age"])
        assert [float(row["gap"]) for row in records(done.stdout)] == expected.tolist()
    assert "outputs   3: 'high', 'low', 'mid'" in run("info", "classes.predgap").stdout
    told = run("gap", "classes.predgap", "features.csv", "--features", "age", "--output", "middle")
    assert (told.exit_code, "no class 'middle'" in told.stderr) == (1, True)


def test_names_may_be_repeated_or_listed(run):
    listed = run("gap", "model.json", "rows.csv", "--drop", "target", "--features", "age,s_1")
    repeated = run(
        "gap", "model.json", "rows.csv", "--drop", "target", "--features", "s_1", "--features", "age"
    )
    assert listed.stdout == repeated.stdout


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_are_recognised(run, folder, frame, tmp_path, delimiter):
    plain = (folder / "features.csv").read_text()
    path = tmp_path / "rows.data"
    path.write_bytes(b"\xef\xbb\xbf" + plain.replace(",", delimiter).replace("\n", "\r\n").encode())
    assert run("rank", "model.json", path).stdout == run("rank", "model.json", "features.csv").stdout


def test_a_delimiter_inside_quotes_does_not_count():
    assert delimiter_of(b'"a;b;c",d\n') == ","
    assert delimiter_of(b'"a\n,b,c";d\n') == ";"
    assert delimiter_of(b"one\n") == ","
    assert delimiter_of(b"") == ","


def test_info_shows_what_the_model_consists_of(run, folder):
    ensemble = predgap.load(folder / "model.json")
    done = run("info", "model.json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert ensemble.source in done.stdout
    assert f"nodes     {ensemble.n_nodes}," in done.stdout
    assert "trees     6, up to 3 splits deep" in done.stdout
    splits = {line.rsplit(maxsplit=2)[0]: line.split()[-2:] for line in done.stdout.splitlines()[-3:]}
    for q, name in enumerate(NAMES):
        mine = ensemble.feature == q
        assert splits[name] == [str(mine.sum()), str(len(np.unique(ensemble.threshold[mine])))]


def test_info_says_outputs(run):
    assert "outputs   2" in run("info", "two.json").stdout


def test_version_and_help(run):
    assert run("--version").stdout == f"predgap {predgap.__version__}\n"
    assert "Commands:" in run().stdout
    for command in ("info", "gap", "rank", "demo"):
        assert run(command, "--help").exit_code == 0


# ---- wrong input ---------------------------------------------------------------------------------

WRONG = [
    (("rank", "none.json", "rows.csv"), 1, "there is no file 'none.json'"),
    (("rank", "model.json", "none.csv"), 1, "there is no file 'none.csv'; check the path of the table"),
    (("rank", "model.json", "."), 1, "'.' cannot be read as CSV or Parquet (Is a directory)"),
    (("rank", "rows.csv", "rows.csv"), 1, "rows.csv"),
    (("rank", "model.json", "rows.csv"), 1, "does not know 'target'; leave out with --drop target"),
    (("rank", "model.json", "rows.csv", "--drop", "tarjet"), 1, "did you mean 'target'?"),
    (("rank", "model.json", "rows.csv", "--drop", "target,age"), 1, "X lacks 1 column: 'age'"),
    (("gap", "model.json", "features.csv", "--features", "agee"), 1, "did you mean 'age' for 'agee'?"),
    (("gap", "model.json", "features.csv", "--features", "age,age"), 1, "'age' more than once"),
    (("gap", "model.json", "features.csv"), 2, "Missing option '--features'"),
    (("rank", "two.json", "features.csv", "--output", "2"), 1, "(option --output)"),
    (("rank", "model.json", "features.csv", "--noise", "gauss:1"), 2, "expected relative:0.3, normal:0.3std"),
    (("rank", "model.json", "features.csv", "--noise", "relative:1.5"), 2, "a strength of at most 1.4142"),
    (("rank", "model.json", "features.csv", "--noise", "relative:0.3std"), 2, "a strength: relative:0.3"),
    (("rank", "model.json", "features.csv", "--noise", "relative:0"), 2, "not a positive finite number"),
    (("rank", "model.json", "features.csv", "--noise", "normal:-1"), 2, "not a positive finite number"),
    (("rank", "model.json", "features.csv", "--noise", "normal:nan"), 2, "not a positive finite number"),
    (("rank", "model.json", "features.csv", "--noise", "normal:infstd"), 2, "not a positive finite number"),
    (("rank", "model.json", "features.csv", "--noise", "normal:x"), 2, "not a positive finite number"),
    (("rank", "model.json", "features.csv", "--noise", "uniform:1std"), 2, "absolute half-width"),
    (("rank", "model.json", "features.csv", "--jobs", "0"), 2, "or -1 for all cores"),
    (("rank", "model.json", "features.csv", "--jobs", "x"), 2, "--jobs"),
    (("rank", "model.json", "features.csv", "--method", "best"), 2, "--method"),
    (("rank", "model.json", "features.csv", "--estimator", "best"), 2, "--estimator"),
    (("rank", "model.json", "features.csv", "-o", "out.txt"), 2, "ends in neither .csv nor .parquet"),
    (("rank", "model.json", "features.csv", "-o", "no/out.csv"), 2, "there is no folder 'no'"),
    (("rank", "model.json"), 2, "Missing argument 'TABLE'"),
    (("frobnicate",), 2, "No such command 'frobnicate'"),
    (("rank", "--frob"), 2, "--frob"),
    (("info", "none.json"), 1, "there is no file 'none.json'"),
]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    WRONG,
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_input_gives_one_line_and_a_code(run, args, code, message):
    done = run(*args)
    assert done.exit_code == code
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.startswith("predgap: ")
    assert done.stderr.count("\n") == 1


TABLES = [
    (b"", "Empty CSV file"),
    (b"age,body mass,s_1\n1,2\n", "row 2 (the header is row 1): Expected 3 columns, got 2"),
    (b"age,body mass,s_1\n1,,3\n4,old,6\n", "column 'body mass' holds text, first 'old' in row 1"),
    (b"age,body mass,s_1,s_1\n1,2,3,4\n1,2,3,4\n", "more than one column called 's_1'"),
    (b"age,body mass,s_1\n1,2,3\n", "the table has 1 row"),
    (b"age,body mass,s_1\n", "the table has no rows"),
    (b"age,body m\xe4ss,s_1\n1,2,3\n2,3,4\n", r"whose name is not text in UTF-8: b'body m\xe4ss'; save"),
    (b"\x89PNG\0\0", "is not text; expected a CSV file in UTF-8, or a Parquet file"),
    (b"PAR1 and no more", "cannot be read as CSV or Parquet"),
    (b"age,body mass,s_1\n1,2,inf\n2,3,4\n", "column 's_1' holds an infinite value"),
]


@pytest.mark.parametrize(("content", "message"), TABLES, ids=[message for _, message in TABLES])
def test_wrong_tables_give_one_line(run, tmp_path, content, message):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    done = run("rank", "model.json", path)
    assert (done.exit_code, done.stdout) == (1, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_one_row_works_with_an_absolute_scale(run, tmp_path):
    path = tmp_path / "row.csv"
    path.write_text("age,body mass,s_1\n0.1,,0.3\n")
    done = run("rank", "model.json", path, "--noise", "normal:0.3")
    assert len(records(done.stdout)) == 3


def test_a_constant_column_is_a_warning_of_one_line(run, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("age,body mass,s_1\n0.1,1,0.3\n0.2,1,0.4\n")
    done = run("rank", "model.json", path)
    assert done.exit_code == 0
    assert done.stderr.startswith("predgap: warning: 1 column of X")
    assert done.stderr.count("\n") == 1
    assert len(records(done.stdout)) == 6


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    target = tmp_path / "out.csv"
    target.write_text("old")

    def fail(rows):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("predgap.cli.tablefiles._csv", fail)
    with pytest.raises(OSError, match="No space"):
        write_table(pa.table({"a": [1]}), target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_to_a_file_stays_a_link(tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    write_table(pa.table({"a": [1]}), tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "a\n1\n"


def test_csv_keeps_every_digit():
    values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 2.0**53 + 2]
    file = io.BytesIO()
    write_csv(pa.table({"v": values}), file)
    assert list(map(float, file.getvalue().decode().split()[1:])) == values


# ---- names are data ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    X = make_model(folder / "model.json", HOSTILE)
    rename(folder / "model.json", HOSTILE)
    table = pa.table({name: X[:, j] for j, name in enumerate(HOSTILE)})
    write_table(table, folder / "rows.csv")
    write_table(table.append_column("\x1b]0;title\x07", pa.array(X[:, 0])), folder / "more.csv")
    return folder


def controls(text):
    return {c for c in text if not c.isprintable()} - {"\n"}


def test_hostile_names_survive_csv_and_parquet(hostile, tmp_path):
    for suffix in (".csv", ".parquet"):
        target = tmp_path / f"out{suffix}"
        args = ["rank", str(hostile / "model.json"), str(hostile / "rows.csv"), "-o", str(target)]
        assert CliRunner().invoke(app, args).exit_code == 0
    with (tmp_path / "out.csv").open(newline="") as file:
        assert {row["feature"] for row in csv.DictReader(file)} == {"'=cmd()", *HOSTILE} - {"=cmd()"}
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert set(table["feature"].to_pylist()) == set(HOSTILE)


def test_no_name_in_csv_is_a_formula(tmp_path):
    names = ("=1+1", "+cmd|'/C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "-1.5", "a=b", "'=1")
    X = make_model(tmp_path / "model.json", names)
    rename(tmp_path / "model.json", names)
    write_table(pa.table({name: X[:, j] for j, name in enumerate(names)}), tmp_path / "rows.parquet")
    done = CliRunner().invoke(app, ["rank", str(tmp_path / "model.json"), str(tmp_path / "rows.parquet")])
    expected = {*(f"'{name}" for name in names[:5]), *names[5:]}
    assert {row["feature"] for row in records(done.stdout)} == expected


def test_hostile_names_are_escaped_in_info(hostile):
    done = CliRunner().invoke(app, ["info", str(hostile / "model.json")])
    assert done.exit_code == 0
    assert controls(done.stdout) == set()
    for shown in ("[red]x", r"line\nbreak", r"\x1b[31mred\x1b[0m", "=cmd()", "a,b", 'say "hi"', r"\u202eodd"):
        assert f"\n{shown} " in done.stdout


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_can_be_chosen(hostile, name):
    args = ["gap", str(hostile / "model.json"), str(hostile / "rows.csv"), "--features", name]
    done = CliRunner().invoke(app, args)
    assert (done.exit_code, done.stderr) == (0, "")


def test_hostile_names_are_escaped_in_errors(hostile):
    more, rows, model = (str(hostile / name) for name in ("more.csv", "rows.csv", "model.json"))
    for args in (
        ["rank", model, more],
        ["gap", model, rows, "--features", "\x1b[2J"],
        ["rank", "\x1b[2J", rows],
    ):
        done = CliRunner().invoke(app, args)
        assert done.exit_code == 1
        assert controls(done.stderr) == set()
        assert done.stderr.count("\n") == 1


# ---- real processes ------------------------------------------------------------------------------


def on_terminal(args, stream, until=None, act=None):
    """Run with one stream on a pseudo-terminal; what it showed, and the finished process."""
    leader, follower = pty.openpty()
    other = {"stdout": "stderr", "stderr": "stdout"}[stream]
    process = subprocess.Popen(
        [sys.executable, "-m", "predgap", *map(str, args)],
        **{stream: follower, other: subprocess.DEVNULL},
        env=os.environ | {"TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(follower)
    seen = b""
    try:
        while chunk := _read(leader):
            seen += chunk
            if act is not None and until in seen:
                act(process)
                act = None
        process.wait(timeout=30)
    finally:
        process.kill()
        os.close(leader)
    return seen.decode(), process


def seconds_of_work(pid):
    """Processor time of a running process, from /proc/PID/stat."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _read(leader):
    try:
        return os.read(leader, 4096)
    except OSError:  # the other end is closed
        return b""


@pytest.fixture(scope="module")
def long_job(tmp_path_factory):
    """A ranking that takes far longer than any test may wait."""
    folder = tmp_path_factory.mktemp("long")
    names = [f"x{j}" for j in range(20)]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 20))
    y = np.sin(X[:, ::2]).sum(axis=1) * X[:, 1]
    model = xgboost.train({"max_depth": 5, "nthread": 1}, xgboost.DMatrix(X, y, feature_names=names), 150)
    model.save_model(folder / "model.json")
    big = np.tile(X, (30, 1))
    pyarrow.parquet.write_table(
        pa.table({name: big[:, j] for j, name in enumerate(names)}), folder / "rows.parquet"
    )
    return folder


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_is_answered_within_a_second(long_job, tmp_path, jobs):
    args = [
        "rank",
        long_job / "model.json",
        long_job / "rows.parquet",
        "--jobs",
        jobs,
        "-o",
        tmp_path / "o.csv",
    ]
    at_interrupt = []

    def interrupt(process):
        at_interrupt.append(seconds_of_work(process.pid))
        process.send_signal(signal.SIGINT)

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seen, process = on_terminal(args, "stderr", until=b"/60000", act=interrupt)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert process.returncode == 130
    assert worked - at_interrupt[0] < jobs + 0.5  # a second of each thread, and the time to end
    assert "predgap: interrupted" in seen
    assert "Traceback" not in seen
    assert list(tmp_path.iterdir()) == []


def test_progress_is_for_terminals_only(folder):
    args = ["rank", folder / "model.json", folder / "features.csv"]
    assert python("-m", "predgap", *args).stderr == ""
    seen, process = on_terminal(args, "stderr")
    assert process.returncode == 0
    assert "rankings" in seen


def test_a_terminal_never_sees_control_characters_of_names(hostile):
    seen, process = on_terminal(["rank", hostile / "model.json", hostile / "rows.csv"], "stdout")
    assert process.returncode == 0
    assert controls(seen.replace("\r\n", "\n")) == set()
    assert len(seen.splitlines()) == 1 + 20 * len(HOSTILE)


def test_a_closed_pipe_is_quiet(long_job, tmp_path):
    rows = pyarrow.parquet.read_table(long_job / "rows.parquet").slice(0, 300)
    pyarrow.parquet.write_table(rows, tmp_path / "rows.parquet")
    command = [sys.executable, "-m", "predgap", "rank", long_job / "model.json", tmp_path / "rows.parquet"]
    command += ["--method", "single"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("args", [("info", "model.json"), ("--help",), ("info", "--help"), ()])
def test_a_reader_that_stops_early_is_no_error(folder, args):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "predgap", *args]
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(command, cwd=folder, stdout=pipe, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_python_m_predgap_is_predgap(folder):
    done = python("-m", "predgap", "gap", "model.json", "features.csv", "--features", "age", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(records(done.stdout)) == 20
    failed = python("-m", "predgap", "info", "none.json", cwd=folder)
    assert (failed.returncode, failed.stdout) == (1, "")


def test_an_ascii_terminal_is_no_error(folder):
    done = python(
        "-m", "predgap", "info", folder / "model.json", env=os.environ | {"PYTHONIOENCODING": "ascii"}
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("package", ["click", "rich", "pyarrow"])
def test_without_the_extra_it_says_how_to_get_it(package):
    code = f"import sys; sys.modules[{package!r}] = None; from predgap.cli import main; main()"
    done = python("-c", code)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"predgap: the command line needs {package}: pip install 'predgap[cli]'\n"


def test_the_library_imports_nothing_of_the_command_line():
    done = python("-c", "import predgap, sys; print({'click', 'rich', 'matplotlib'} & set(sys.modules))")
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_categories_are_given_by_their_labels(run, tmp_path, suffix):
    rng = np.random.default_rng(0)
    colours = np.array(["red", "green", "blue"])[rng.integers(3, size=90)]
    frame = pd.DataFrame({"colour": pd.Categorical(colours), "age": rng.normal(size=90)})
    y = frame["age"] + 2.0 * (colours == "red")
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=2, enable_categorical=True).fit(frame, y)
    model.save_model(tmp_path / "mixed.json")
    path = tmp_path / f"table{suffix}"
    rows = frame.astype({"colour": str})
    if suffix == ".csv":
        rows.to_csv(path, index=False)
    else:
        rows.to_parquet(path)
    for options, noise in (((), Marginal(frame)), (("--flip", 0.2), Flip(0.2))):
        common = ("gap", tmp_path / "mixed.json", path, "--features", "colour", "--noise", "normal:0.3")
        done = run(*common, *options)
        expected = Explainer(model, PerFeature({"colour": noise}, default=Normal(0.3))).gap(frame, ["colour"])
        assert [float(row["gap"]) for row in records(done.stdout)] == pytest.approx(expected, rel=1e-12)
    for options, noise in (
        ((), Relative(frame)),
        (("--flip", 0.2), PerFeature({"colour": Flip(0.2)}, default=Relative(frame))),
    ):
        done = run("gap", tmp_path / "mixed.json", path, "--features", "colour,age", *options)
        expected = Explainer(model, noise).gap(frame, ["colour", "age"])
        assert [float(row["gap"]) for row in records(done.stdout)] == pytest.approx(expected, rel=1e-12)
    assert "3 categories" in run("info", tmp_path / "mixed.json").stdout
