"""The command line: what it prints equals what the library returns, and errors are one line."""

from __future__ import annotations

import csv
import dataclasses
import io

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
from commandline import HOSTILE, NAMES, controls, make_model, records, rename, write_table
from predgap import Explainer, Flip, Marginal, Normal, PerFeature, Relative, Uniform
from predgap.cli import commands
from predgap.cli.tables import CsvWriter, delimiter_of

app = commands()

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
    assert {row["method"] for row in records(exact.stdout)} == {"exact"}
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


def test_info_of_a_feature_that_may_be_missing(run, tmp_path):
    """A split on what is missing alone: its threshold does not count among the others."""
    rng = np.random.default_rng(0)
    x = np.where(rng.uniform(size=500) < 0.3, np.nan, rng.normal(2e4, 5e3, size=500))
    z = rng.normal(size=500)
    data = lightgbm.Dataset(np.c_[x, z], np.isnan(x) * 5 + z > 0)
    parameters = {"verbose": -1, "num_threads": 1, "objective": "binary"}
    lightgbm.train(parameters, data, 30).save_model(tmp_path / "model.txt")
    thresholds = predgap.load(tmp_path / "model.txt").threshold
    assert np.abs(thresholds).max() > 1e300
    done = run("info", tmp_path / "model.txt")
    assert (done.exit_code, done.stderr) == (0, "")


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
    (("rank", "model.json", "."), 2, "'.' is a folder: its answers need a folder, too, -o FOLDER/"),
    (("rank", "rows.csv", "rows.csv"), 1, "rows.csv"),
    (("rank", "model.json", "rows.csv"), 1, "does not know 'target'; leave out with --drop target"),
    (("rank", "model.json", "rows.csv", "--drop", "target,age"), 1, "X lacks 1 column: 'age'"),
    (("gap", "model.json", "features.csv", "--features", "agee"), 1, "did you mean 'age' for 'agee'?"),
    (("gap", "model.json", "features.csv", "--features", "age,age"), 1, "'age' more than once"),
    (("gap", "model.json", "features.csv"), 2, "Missing option '--features'"),
    (("rank", "two.json", "features.csv", "--output", "2"), 1, "--output '2': the model has 2 outputs"),
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
    (
        ("rank", "model.json", "features.csv", "-o", "out.txt"),
        2,
        "ends in none of .csv, .parquet, .jsonl, .arrow",
    ),
    (("rank", "model.json", "features.csv", "-o", "no/out.csv"), 2, "there is no folder 'no'"),
    (("rank", "model.json"), 2, "Missing argument 'DATA'"),
    (("frobnicate",), 2, "No such command 'frobnicate'"),
    (("reproduce", "--quick"), 2, "in the repository of predgap; try there: make reproduce"),
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
    (b"\x89PNG\0\0", "is not text; expected CSV in UTF-8, Parquet or Arrow"),
    (b"PAR1 and no more", "cannot be read as CSV, Parquet or Arrow"),
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

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("predgap.cli.tables.CsvWriter.write", fail)
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
    table = pa.table({"v": values})
    CsvWriter(file, table.schema).write(table)
    assert list(map(float, file.getvalue().decode().split()[1:])) == values


# ---- names are data ------------------------------------------------------------------------------


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
