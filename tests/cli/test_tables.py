"""Tables in all forms: pipes, Arrow, row labels, targets, reference tables; blocks change nothing."""

from __future__ import annotations

import io
import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest
from click.testing import CliRunner

import predgap
from commandline import NAMES, make_model, records, rename, write_table
from predgap import Explainer, Normal, Relative
from predgap.cli import commands, explainers, noise
from predgap.cli.noise import sampled

app = commands()


def arrow_stream(table):
    file = io.BytesIO()
    with pyarrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    return file.getvalue()


def piped(content, *args):
    return CliRunner().invoke(app, [str(a) for a in args], input=content, prog_name="predgap")


# ---- pipes ---------------------------------------------------------------------------------------


def test_standard_input_is_csv_parquet_or_arrow(run, folder, frame):
    expected = run("rank", "model.json", "features.csv").stdout
    parquet = io.BytesIO()
    pyarrow.parquet.write_table(frame, parquet)
    for content in ((folder / "features.csv").read_bytes(), arrow_stream(frame), parquet.getvalue()):
        done = piped(content, "rank", "model.json", "-", "-o", "-")
        assert (done.exit_code, done.stderr, done.stdout) == (0, "", expected)


def test_an_arrow_file_is_a_table(run, frame, tmp_path):
    pyarrow.feather.write_feather(frame, tmp_path / "rows.arrow", compression="uncompressed")
    assert (
        run("rank", "model.json", tmp_path / "rows.arrow").stdout
        == run("rank", "model.json", "features.csv").stdout
    )


def test_what_stdin_brings_is_named_in_errors(run):
    for content, message in (
        (b"", "Empty CSV file"),
        (b"\xff\xff\xff\xff\x10\0\0\0", "cannot be read as CSV"),
    ):
        done = piped(content, "rank", "model.json", "-")
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith("predgap: standard input")
        assert message in done.stderr
    done = piped(b"", "rank", "model.json", "-", "--reference", "-")
    assert (done.exit_code, "cannot both be standard input" in done.stderr) == (1, True)


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl", "arrow"])
def test_formats_hold_the_same_table(run, tmp_path, form):
    run("rank", "model.json", "features.csv", "-o", tmp_path / "expected.parquet")
    expected = pyarrow.parquet.read_table(tmp_path / "expected.parquet")
    done = run("rank", "model.json", "features.csv", "--format", form)
    assert done.exit_code == 0
    run("rank", "model.json", "features.csv", "-o", tmp_path / f"by_ending.{form}")
    assert (tmp_path / f"by_ending.{form}").read_bytes() == done.stdout_bytes
    read = {
        "csv": lambda data: pa.Table.from_pandas(pd.read_csv(io.BytesIO(data)), schema=expected.schema),
        "parquet": lambda data: pyarrow.parquet.read_table(io.BytesIO(data)),
        "jsonl": lambda data: pa.Table.from_pylist([*map(json.loads, data.splitlines())], expected.schema),
        "arrow": lambda data: pyarrow.ipc.open_stream(data).read_all(),
    }[form]
    assert read(done.stdout_bytes).replace_schema_metadata(None).equals(expected)
    if form == "jsonl":
        assert run("rank", "model.json", "features.csv", "--json").stdout == done.stdout


def test_numbers_that_are_not_finite_are_null_in_json(run, monkeypatch):
    exact = Explainer.rank
    monkeypatch.setattr(
        Explainer,
        "rank",
        lambda self, *a, **o: predgap.Ranking(exact(self, *a, **o).order, feature_names=NAMES),
    )
    first = json.loads(run("rank", "model.json", "features.csv", "--json").stdout.splitlines()[0])
    assert (first["score"], first["confidence"]) == (None, None)


# ---- columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [range(100, 120), [f"p{i}" for i in range(20)]], ids=["numbers", "texts"])
@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_the_index_that_pandas_writes_labels_the_rows(run, folder, tmp_path, labels, name):
    rows = pd.read_csv(folder / "features.csv")
    rows.index = pd.Index(labels)
    rows.to_csv(tmp_path / "rows.csv", index_label=name)
    plain = records(run("gap", "model.json", "features.csv", "--features", "age").stdout)
    done = run("gap", "model.json", tmp_path / "rows.csv", "--features", "age")
    found = records(done.stdout)
    assert [row["row"] for row in found] == [*map(str, labels)]
    assert [row["gap"] for row in found] == [row["gap"] for row in plain]
    places = records(run("rank", "model.json", tmp_path / "rows.csv", "--top", 2).stdout)
    assert [row["row"] for row in places] == [str(label) for label in labels for _ in range(2)]


def test_the_index_in_parquet_labels_the_rows(run, folder, tmp_path):
    rows = pd.read_csv(folder / "features.csv")
    rows.index = pd.Index([f"p{i}" for i in range(20)])
    rows.to_parquet(tmp_path / "rows.parquet")
    found = records(run("gap", "model.json", tmp_path / "rows.parquet", "--features", "age").stdout)
    assert [row["row"] for row in found] == [f"p{i}" for i in range(20)]


def test_an_unnamed_column_is_a_feature_if_the_model_knows_it(run, folder, tmp_path):
    predgap.load(folder / "model.json").named(("Unnamed: 0", "body mass", "s_1")).save(tmp_path / "model")
    text = (folder / "features.csv").read_text().splitlines()
    order = [text[0].split(",").index(name) for name in ("age", "body mass", "s_1")]
    lines = [",".join(line.split(",")[j] for j in order) for line in text]
    lines[0] = "Unnamed: 0,body mass,s_1"
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    found = records(run("gap", tmp_path / "model", tmp_path / "rows.csv", "--features", "Unnamed: 0").stdout)
    expected = records(run("gap", "model.json", "features.csv", "--features", "age").stdout)
    assert found == expected


def test_a_model_without_names_takes_labelled_rows_by_position(run, tmp_path):
    X = make_model(tmp_path / "model.json", NAMES)
    pd.DataFrame(X, index=range(5, 25)).to_csv(tmp_path / "labelled.csv")
    pd.DataFrame(X).to_csv(tmp_path / "plain.csv", index=False)
    asked = ("--features", "f0", "--noise", "normal:0.3")
    labelled = records(run("gap", tmp_path / "model.json", tmp_path / "labelled.csv", *asked).stdout)
    plain = records(run("gap", tmp_path / "model.json", tmp_path / "plain.csv", *asked).stdout)
    assert [row["gap"] for row in labelled] == [row["gap"] for row in plain]
    assert labelled[0]["row"] == "5"


@pytest.fixture
def unnamed(folder, tmp_path):
    """A model without names, its training table, and rows of it in another order of columns."""
    X = pd.DataFrame(make_model(tmp_path / "model.json", NAMES), columns=list(NAMES))
    X.to_csv(tmp_path / "train.csv", index=False)
    X[:3].to_csv(tmp_path / "rows.csv", index=False)
    X[:3][["s_1", "age", "body mass"]].to_csv(tmp_path / "turned.csv", index=False)
    return tmp_path, X


def test_a_model_without_names_is_named_by_the_reference(run, unnamed):
    path, X = unnamed
    reference = ("--reference", path / "train.csv")
    expected = Explainer(path / "model.json", Relative(X.to_numpy()))
    for rows in ("rows.csv", "turned.csv"):
        asked = (path / "model.json", path / rows, *reference)
        found = records(run("gap", *asked, "--features", "age,s_1").stdout)
        assert [float(row["gap"]) for row in found] == expected.gap(X[:3].to_numpy(), [0, 2]).tolist()
        found = records(run("rank", *asked).stdout)
        order = expected.rank(X[:3].to_numpy()).order.ravel()
        assert [row["feature"] for row in found] == [NAMES[j] for j in order]
        found = records(run("gap", *asked, "--noise", "normal:0.3", "--features", "body mass").stdout)
        plain = Explainer(path / "model.json", Normal(0.3)).gap(X[:3].to_numpy(), [1])
        assert [float(row["gap"]) for row in found] == plain.tolist()
        found = json.loads(run("evaluate", *asked, "--rankings", "shap,gain", "--json").stdout)
        assert found["description"]["noise_table"]["column"] == list(NAMES)
    X[:3][["s_1", "age", "body mass"]].to_parquet(path / "turned.parquet")
    assert (
        run("rank", path / "model.json", path / "turned.parquet", "-o", f"{path}/out/", *reference).exit_code
        == 0
    )
    parts = pyarrow.parquet.read_table(path / "out").column("order").to_pylist()
    assert parts == expected.rank(X[:3].to_numpy()).order.tolist()


def test_without_a_reference_a_model_is_named_by_the_data(run, unnamed):
    path, X = unnamed
    found = records(run("gap", path / "model.json", path / "rows.csv", "--features", "age").stdout)
    expected = Explainer(path / "model.json", X[:3].to_numpy()).gap(X[:3].to_numpy(), [0])
    assert [float(row["gap"]) for row in found] == expected.tolist()


def test_columns_that_the_reference_lacks_are_errors(run, unnamed):
    path, X = unnamed
    for rows, told in (
        (X.rename(columns={"age": "years"}), "lacks 1 column: 'age', and has 'years'"),
        (X.drop(columns="age"), "lacks 1 column: 'age'"),
    ):
        rows.to_csv(path / "other.csv", index=False)
        done = run(
            "gap",
            path / "model.json",
            path / "other.csv",
            "--features",
            "age",
            "--reference",
            path / "train.csv",
        )
        assert done.exit_code == 1
        assert told in done.stderr
        assert done.stderr.endswith("(the model has no names of its own; these are those of --reference)\n")
        assert "feature_names" not in done.stderr
    X.assign(y=1).to_csv(path / "more.csv", index=False)
    done = run(
        "gap", path / "model.json", path / "more.csv", "--features", "age", "--reference", path / "train.csv"
    )
    assert "does not know 'y'; leave out with --drop y" in done.stderr


def test_rows_far_outside_the_reference_are_told(run, unnamed):
    path, X = unnamed
    (X[:3] * 1000).to_csv(path / "far.csv", index=False)
    done = run(
        "gap", path / "model.json", path / "far.csv", "--features", "age", "--reference", path / "train.csv"
    )
    assert done.exit_code == 0
    assert done.stderr.startswith("predgap: warning: 3 of 3 rows are outside the reference")
    assert len(done.stderr.splitlines()) == 1


def test_the_target_is_no_feature(run):
    plain = run("rank", "model.json", "features.csv").stdout
    assert run("rank", "model.json", "rows.csv", "--target", "target").stdout == plain
    told = run("rank", "model.json", "rows.csv", "--target", "tarjet")
    assert (told.exit_code, "did you mean 'target'?" in told.stderr) == (1, True)
    told = run("rank", "model.json", "rows.csv", "--target", "age")
    assert (told.exit_code, "the target 'age' is a feature" in told.stderr) == (1, True)


def test_groups_move_and_rank_as_one(run, folder, frame):
    groups = {"both": ["age", "s_1"]}
    explainer = Explainer(folder / "model.json", Relative(frame), groups=groups)
    asked = ("model.json", "features.csv", "--group", "both=age,s_1")
    found = records(run("gap", *asked, "--features", "both").stdout)
    assert [float(row["gap"]) for row in found] == explainer.gap(frame, ["both"]).tolist()
    found = records(run("rank", *asked).stdout)
    assert [row["feature"] for row in found] == explainer.rank(frame).top(2).ravel().tolist()
    for wrong in ("both", "=age", "both="):
        assert "such as place=lat,lon" in run("rank", "model.json", "features.csv", "--group", wrong).stderr


# ---- the table of the noise ----------------------------------------------------------------------


def test_the_reference_gives_the_noise_and_one_row_is_enough(run, folder, frame, tmp_path):
    """The reference has a target and an index; the rows have neither."""
    rng = np.random.default_rng(5)
    reference = pd.DataFrame(rng.normal(size=(50, 3)), columns=list(NAMES))
    reference.assign(target=1).to_csv(tmp_path / "train.csv")
    write_table(frame.slice(2, 1), tmp_path / "row.csv")
    explainer = Explainer(folder / "model.json", Relative(pd.read_csv(tmp_path / "train.csv")[[*NAMES]]))
    done = run(
        "gap", "model.json", tmp_path / "row.csv", "--features", "age", "--reference", tmp_path / "train.csv"
    )
    (row,) = records(done.stdout)
    assert float(row["gap"]) == explainer.gap(frame.slice(2, 1), ["age"])[0] > 0
    told = run("gap", "model.json", tmp_path / "row.csv", "--features", "age")
    assert (told.exit_code, "--reference train.csv" in told.stderr) == (1, True)


@pytest.mark.parametrize("missing", ["age", "s_1"])
def test_a_reference_without_a_feature_is_an_error(run, frame, tmp_path, missing):
    write_table(frame.drop_columns([missing]), tmp_path / "train.csv")
    told = run("rank", "model.json", "features.csv", "--reference", tmp_path / "train.csv")
    assert (told.exit_code, told.stdout, repr(missing) in told.stderr) == (1, "", True)


def test_blocks_change_nothing(run, monkeypatch):
    whole = run("rank", "model.json", "features.csv").stdout
    monkeypatch.setattr(explainers, "_CELLS_AT_ONCE", 9)  # three rows
    assert run("rank", "model.json", "features.csv").stdout == whole


def test_numbers_further_down_may_have_fractions(run, tmp_path, monkeypatch):
    """Types are told by the first block: whole numbers there, and nothing at all."""
    monkeypatch.setattr("predgap.cli.tables._BLOCK_BYTES", 64)
    lines = ["age,body mass,s_1", *["1,,2"] * 30, "0.5,3.25,-0.75", *["2,,1"] * 30]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    done = run("rank", "model.json", tmp_path / "rows.csv", "--noise", "normal:0.3")
    assert (done.exit_code, len(records(done.stdout))) == (0, 61 * 3)
    (tmp_path / "rows.csv").write_text("\n".join([*lines, "1,2,old"]) + "\n")
    done = run("rank", "model.json", tmp_path / "rows.csv", "--noise", "normal:0.3", "-o", tmp_path / "o.csv")
    assert (done.exit_code, (tmp_path / "o.csv").exists()) == (1, False)
    assert "column 's_1', row 63 (the header is row 1)" in done.stderr


def test_of_very_many_rows_the_noise_is_that_of_a_sample(run, folder, frame, monkeypatch):
    monkeypatch.setattr(explainers, "MOST_ROWS", 7)
    monkeypatch.setattr(explainers, "sampled", lambda blocks: sampled(blocks, 7))
    done = run("gap", "model.json", "features.csv", "--features", "age")
    assert "7 of the 20 rows, drawn at random" in done.stderr
    sample, n_rows = sampled([frame], 7)
    assert (n_rows, sample.num_rows) == (20, 7)
    expected = Explainer(folder / "model.json", Relative(sample)).gap(frame, ["age"])
    assert [float(row["gap"]) for row in records(done.stdout)] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("cuts", [[], [3], [1, 2, 50, 51]])
def test_a_sample_does_not_depend_on_the_blocks(cuts):
    table = pa.table({"a": range(100)})
    edges = [0, *cuts, 100]
    blocks = [table.slice(a, b - a) for a, b in pairwise(edges)]
    found, n_rows = sampled(iter(blocks), 10)
    numbers = np.random.default_rng(noise._SEED).random(100)
    assert (found["a"].to_pylist(), n_rows) == (np.sort(np.argsort(numbers)[:10]).tolist(), 100)
    assert sampled(iter(blocks))[0].equals(table)


def test_rtol_and_top(run, folder, frame):
    expected = Explainer(folder / "model.json", Normal(0.3)).rank(frame, top=1)
    done = run("rank", "model.json", "features.csv", "--noise", "normal:0.3", "--top", 1, "--rtol", 0)
    assert [row["feature"] for row in records(done.stdout)] == expected.top(1).ravel().tolist()
    assert "--rtol" in run("rank", "model.json", "features.csv", "--rtol", 1).stderr
    assert (
        "expected a whole number from 1 to 3" in run("rank", "model.json", "features.csv", "--top", 4).stderr
    )


@pytest.mark.parametrize(
    "command", [["gap", "--features", "age"], ["rank", "--part-rows", "30000", "--top", "1"]]
)
def test_rows_far_outside_the_reference_are_told_once(run, unnamed, command):
    path, X = unnamed
    far = X.sample(70_000, replace=True, random_state=0) * 1000
    far.to_parquet(path / "far.parquet", index=False)
    is_long = command[0] == "rank"
    folder = ["-o", f"{path / 'answers'}/"] if is_long else []
    files = path / "model.json", path / "far.parquet", "--reference", path / "train.csv"
    done = run(command[0], *files, *command[1:], *folder)
    assert done.exit_code == 0
    assert done.stderr.count("are outside the reference") == 1
    assert "of the first such rows only" in done.stderr


@pytest.mark.parametrize("named", [(), ("old",), ("new",)])
def test_models_without_names_differ_by_what_they_predict_for_named_columns(run, unnamed, named):
    path, X = unnamed
    make_model(path / "new.json", NAMES, n_trees=7)
    (path / "old.json").write_bytes((path / "model.json").read_bytes())
    old, new = (predgap.load(path / f"{name}.json") for name in ("old", "new"))
    for name in named:
        rename(path / f"{name}.json", NAMES)
    files = path / "old.json", path / "new.json", path / "turned.csv", "--reference", path / "train.csv"
    assert run("diff", *files, "-o", path / "rows.jsonl").exit_code == 0
    found = [json.loads(line) for line in (path / "rows.jsonl").read_text().splitlines()]
    for name, model in (("old", old), ("new", new)):
        assert [row[name] for row in found] == model.predict(X[:3].to_numpy()).tolist()
    np.testing.assert_allclose(
        [row["difference"] for row in found], (new.predict(X[:3]) - old.predict(X[:3])), rtol=1e-12
    )
