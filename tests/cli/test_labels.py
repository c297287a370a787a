"""Labels of categories, rows, features and classes on the command line: what is written is what is meant."""

from __future__ import annotations

import json

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import xgboost
from click.testing import CliRunner
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

import predgap
from commandline import records
from predgap import Explainer, Marginal, PredgapError, Relative, TableError
from predgap._inputs.categories import of_labels
from predgap.cli import commands
from predgap.cli.tables import CsvColumns

app = commands()

LABELS = (
    *(
        "01",
        "1",
        "1.0",
        "1.50",
        "1e5",
        "0x10",
        "true",
        "False",
        "NA",
        "null",
        "nan",
        " a",
        "10",
        "A",
        "2026-11-19",
    ),
    *("2026-11-19 12:30:00", "12:30", "123456789012345678901234567890", 'say "hi", now', "été", "日本"),
)
PLAIN = tuple(label for label in LABELS if label.isascii())  # older versions of XGBoost damage other letters
LABELLED = ("catboost", "lightgbm", "xgboost")
EMPTY = None
N = 420


def table(labels):
    rng = np.random.default_rng(len(labels))
    zip_ = np.array([*labels, *rng.choice(labels, N - len(labels))], dtype=object)
    return pd.DataFrame({"zip": zip_, "a": rng.normal(size=N).round(3)})


def trained(library, X):
    """A model with text categories, and a function that gives its own predictions of a frame."""
    levels = sorted(set(X["zip"]))
    effects = np.random.default_rng(7).normal(size=len(levels))
    y = effects[[levels.index(label) for label in X["zip"]]] * (1 + (X["a"] > 0)) + 0.3 * X["a"]
    if library == "catboost":
        options = {"iterations": 30, "depth": 4, "verbose": 0, "allow_writing_files": False}
        model = catboost.CatBoostRegressor(cat_features=["zip"], **options).fit(X, y)
        return model, model.predict

    def as_categories(frame):
        return frame.assign(zip=pd.Categorical(frame["zip"], levels))

    if library == "lightgbm":
        small = {"min_child_samples": 2, "min_data_per_group": 1, "cat_smooth": 1.0, "verbose": -1}
        model = lightgbm.LGBMRegressor(n_estimators=15, n_jobs=1, **small)
    else:
        model = xgboost.XGBRegressor(n_estimators=15, max_depth=4, enable_categorical=True, n_jobs=1)
    model.fit(as_categories(X), y)
    return model, lambda frame: model.predict(as_categories(frame))


def write(frame, path):
    """A frame as CSV and Parquet; None is an empty cell."""
    frame.to_csv(path.with_suffix(".csv"), index=False)
    frame.to_parquet(path.with_suffix(".parquet"), index=False)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models of each library on text categories, with their tables and predictions; one knows codes only."""
    folder = tmp_path_factory.mktemp("labels")
    found = {}
    for library in LABELLED:
        X = table(PLAIN if library == "xgboost" else LABELS)
        model, predict = trained(library, X)
        path = folder / f"{library}.{'cbm' if library == 'catboost' else 'json'}"
        (model.booster_ if library == "lightgbm" else model).save_model(path)
        write(X, folder / f"{library}_train")
        found[library] = path, X, predict
    X = table(PLAIN)
    codes = X.assign(zip=X["zip"].map(PLAIN.index))
    booster = xgboost.train(
        {"max_depth": 4, "nthread": 1},
        xgboost.DMatrix(
            codes.to_numpy(float), codes["zip"] % 5, feature_names=["zip", "a"], feature_types=["c", "q"]
        ),
        15,
    )
    booster.save_model(folder / "codes.json")
    write(codes, folder / "codes_train")
    found["codes"] = folder / "codes.json", codes, None
    return found


def run(*args, content=None):
    return CliRunner().invoke(app, [str(a) for a in args], input=content, prog_name="predgap")


def gaps(done):
    assert done.exit_code == 0, done.stderr
    return np.array([float(row["gap"]) for row in records(done.stdout)])


def asked(form, model, rows, reference, noise="marginal"):
    """The gaps of rows that are given in some form, or the error."""
    options = ("--features", "zip", "--noise", noise, "--reference", reference.with_suffix(".csv"))
    if form == "parquet":
        options = (*options[:-1], reference.with_suffix(".parquet"))
    if form == "standard input":
        done = run("gap", model, "-", *options, content=rows.with_suffix(".csv").read_bytes())
    else:
        done = run("gap", model, rows.with_suffix(f".{form}"), *options)
    return done.stderr if done.exit_code else gaps(done)


# ---- categories ----------------------------------------------------------------------------------

FORMS = ("csv", "parquet", "standard input")


def of_frame(model, X, rows):
    """The gaps of a frame, or the error."""
    try:
        return Explainer(model, Marginal(X)).gap(rows, ["zip"])
    except PredgapError as error:
        return str(error)


@pytest.mark.parametrize("label", [*LABELS, EMPTY])
@pytest.mark.parametrize("library", LABELLED)
def test_a_category_is_what_is_written(models, tmp_path, library, label):
    """In all forms the same as in a frame of strings, and as the library itself predicts; or all refuse."""
    model, X, predict = models[library]
    if library == "xgboost" and label not in (*PLAIN, EMPTY):
        pytest.skip("not among the model's labels")
    rows = X.iloc[:4].astype({"zip": object}).assign(zip=label)
    write(rows, tmp_path / "rows")
    found = {
        form: asked(form, model, tmp_path / "rows", model.with_name(f"{library}_train")) for form in FORMS
    }
    frame = of_frame(model, X, rows)
    if (library, label) == ("catboost", EMPTY):  # which CatBoost itself refuses
        for told in (*found.values(), frame):
            assert "missing value" in told
        return
    for form, answer in found.items():
        assert np.array_equal(answer, frame), (form, answer)
    if label is EMPTY:
        assert (frame == 0).all()  # the noise does not move what is missing
        return
    moved = pd.concat([rows.iloc[[i]].assign(zip=[each]) for i in range(4) for each in X["zip"]])
    own = (predict(moved).reshape(4, -1) - predict(rows)[:, None]) ** 2
    np.testing.assert_allclose(frame, own.mean(axis=1), rtol=2e-5 if library == "xgboost" else 1e-10)
    assert (frame > 0).all()


@pytest.mark.parametrize("label", LABELS)
def test_text_is_refused_where_the_model_has_codes(models, tmp_path, label):
    """But for the codes themselves in CSV, which does not tell whether these are text."""
    model, X, _ = models["codes"]
    rows = X.iloc[:4].assign(zip=[label, *X["zip"][1:4].astype(str)])
    write(rows, tmp_path / "rows")
    assert "only the codes of its categories" in of_frame(model, X, rows)
    for form in FORMS:
        told = asked(form, model, tmp_path / "rows", model.with_name("codes_train"))
        if form == "parquet" or label not in ("1", "1.0", "10"):
            assert "only the codes of its categories" in told
            assert "array" not in told


@pytest.mark.parametrize(
    "text", ["1", "1.0", "3", "03", "1e0", "1.5", "0x1", "true", "NA", "nan", "A", " 1", "-1"]
)
def test_codes_are_whole_numbers(models, tmp_path, text):
    model, X, _ = models["codes"]
    rows = X.iloc[:4].astype({"zip": object})
    rows.loc[2, "zip"] = text
    write(rows.astype({"zip": str}), tmp_path / "rows")
    found = asked("csv", model, tmp_path / "rows", model.with_name("codes_train"))
    if text in ("1", "1.0", "3", " 1", "-1"):
        rows.loc[2, "zip"] = float(text)
        assert np.array_equal(found, Explainer(model, Marginal(X)).gap(rows.astype(float), ["zip"]))
    else:
        assert f"column 'zip' holds {text!r} in row 4 (the header is row 1)" in found
        assert "whole numbers from 0" in found


NUMBERS = {
    "integers": ([1, 2, 10, -3], {"1": 1, "1.0": 1, "01": 1, "1e0": 1, " 10": 10, "-3": -3, "7": 7}, "0x1"),
    "fractions": ([0.5, 1.0, 2.25], {"0.5": 0.5, ".50": 0.5, "5e-1": 0.5, "1": 1.0, "7": 7.0}, "null"),
    "truths": ([True, False], {"True": True, "true": True, "1": True, "0": False, "FALSE": False}, "yes"),
    "large": ([2**60, 2**60 + 1, 7], {str(2**60 + 1): 2**60 + 1, "7.0": 7, str(2**60 + 2): 5}, "1.5"),
}


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    """LightGBM models whose categories are numbers, with their tables."""
    folder = tmp_path_factory.mktemp("numbers")
    rng = np.random.default_rng(3)
    small = {"min_child_samples": 2, "min_data_per_group": 1, "cat_smooth": 1.0, "verbose": -1}
    for name, (labels, _, _) in NUMBERS.items():
        k = rng.choice(labels, 200)
        X = pd.DataFrame({"k": k, "a": rng.normal(size=200)})
        y = (k == labels[0]) + (k == labels[-1]) * X["a"]
        model = lightgbm.LGBMRegressor(n_estimators=8, n_jobs=1, **small)
        model.fit(X.assign(k=pd.Categorical(k)), y).booster_.save_model(folder / f"{name}.txt")
        X.to_csv(folder / f"{name}.csv", index=False)
    return folder


@pytest.mark.parametrize("kind", NUMBERS)
def test_labels_that_are_numbers_are_found_by_their_value(numbered, tmp_path, kind):
    labels, texts, wrong = NUMBERS[kind]
    model, reference = numbered / f"{kind}.txt", numbered / f"{kind}.csv"
    options = ("--features", "k", "--reference", reference)
    (tmp_path / "rows.csv").write_text("k,a\n" + "".join(f"{text},0.5\n" for text in texts) + ",0.5\n")
    X = pd.read_csv(reference)
    rows = pd.DataFrame({"k": pd.Series([*texts.values(), None], dtype=object), "a": 0.5})
    expected = Explainer(model, Relative(X)).gap(rows, ["k"])
    found = gaps(run("gap", model, tmp_path / "rows.csv", *options))
    assert np.array_equal(found, expected)
    assert len(set(expected.tolist())) > 2  # the labels differ, and the last is missing
    for text in (wrong, "NA", "nan", "A"):
        (tmp_path / "rows.csv").write_text(f"k,a\n{labels[0]},1\n{text},2\n")
        told = run("gap", model, tmp_path / "rows.csv", *options)
        assert (told.exit_code, told.stdout) == (1, "")
        assert f"column 'k' holds {text!r} in row 3 (the header is row 1)" in told.stderr
        assert "categories are numbers: " in told.stderr


@pytest.mark.parametrize(
    "encoder", [OneHotEncoder(handle_unknown="ignore"), OrdinalEncoder()], ids=["dummies", "codes"]
)
@pytest.mark.parametrize(
    "labels", [LABELS, [1, 2, 10, -3], [0.5, 1.0, 7.25]], ids=["text", "integers", "fractions"]
)
def test_categories_of_an_encoder_are_those_of_the_model(tmp_path, encoder, labels):
    """Of a pipeline that is saved in its raw columns."""
    rng = np.random.default_rng(5)
    X = table(LABELS).assign(zip=[*labels, *rng.choice(labels, N - len(labels))])
    steps = ColumnTransformer([("category", encoder, ["zip"])], remainder="passthrough")
    forest = RandomForestRegressor(4, max_depth=5, random_state=0)
    model = make_pipeline(steps, forest).fit(X, pd.factorize(X["zip"])[0] + X["a"])
    predgap.load(model).save(tmp_path / "model")
    write(X[:40], tmp_path / "rows")
    expected = Explainer(model, Relative(X[:40])).gap(X[:40], ["zip"])
    for form in ("csv", "parquet"):
        done = run("gap", tmp_path / "model", tmp_path / f"rows.{form}", "--features", "zip")
        assert np.array_equal(gaps(done), expected)
    assert (expected > 0).any()


def test_labels_of_two_kinds_cannot_be_told_apart():
    csv = CsvColumns(categories={"k": of_labels(["10", 10])})
    with pytest.raises(
        TableError, match=r"'d': column 'k': the model's categories are text and numbers: '10', 10"
    ):
        csv.read(pa.table({"k": ["10"]}), "'d'", 0)


def test_text_may_come_after_the_first_block(models, tmp_path, monkeypatch):
    monkeypatch.setattr("predgap.cli.tables._BLOCK_BYTES", 64)
    model, X, _ = models["lightgbm"]
    rows = pd.concat([X[X["zip"].isin(["1", "10"])].iloc[[0]]] * 40 + [X[X["zip"] == "A"].iloc[[0]]])
    write(rows, tmp_path / "rows")
    found = asked("csv", model, tmp_path / "rows", model.with_name("lightgbm_train"))
    assert np.array_equal(found, Explainer(model, Marginal(X)).gap(rows, ["zip"]))


def test_numbers_have_marks_for_missing_values(models, tmp_path):
    """Also where text stands in the same column, which is then what the error names."""
    model, X, _ = models["catboost"]
    lines = [f"01,{text}" for text in ("NA", "NaN", "null", "", "1.5")]
    (tmp_path / "rows.csv").write_text("\n".join(["zip,a", *lines]) + "\n")
    rows = pd.DataFrame({"zip": "01", "a": [np.nan] * 4 + [1.5]})
    found = asked("csv", model, tmp_path / "rows", model.with_name("catboost_train"))
    assert np.array_equal(found, Explainer(model, Marginal(X)).gap(rows, ["zip"]))
    (tmp_path / "rows.csv").write_text("\n".join(["zip,a", *lines, "01,old"]) + "\n")
    told = asked("csv", model, tmp_path / "rows", model.with_name("catboost_train"))
    assert "column 'a' holds text, first 'old'" in told


@pytest.mark.parametrize("library", LABELLED)
def test_all_commands_read_categories_alike(models, tmp_path, library):
    model, X, _ = models[library]
    write(X[:60], tmp_path / "rows")
    other = tmp_path / f"other{model.suffix}"
    changed, _ = trained(library, X[: N - 100])
    (changed.booster_ if library == "lightgbm" else changed).save_model(other)
    found = []
    for form in ("csv", "parquet"):
        rows = tmp_path / f"rows.{form}"
        asked_for = (
            "--reference",
            model.with_name(f"{library}_train.{form}"),
            "--rankings",
            "shap,gain,greedy",
        )
        judged = json.loads(run("evaluate", model, rows, *asked_for, "--json").stdout)
        page = json.loads(run("report", model, rows, *asked_for, "-o", tmp_path / "r.html", "--json").stdout)
        differ = run("diff", model, other, rows, "-o", "-")
        ranked = run("rank", model, rows, *asked_for[:2])
        assert (differ.exit_code, ranked.exit_code) == (0, 0)
        found.append((judged["summary"], page["summary"], differ.stdout, ranked.stdout))
    assert found[0] == found[1]
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows.parquet").rename(tmp_path / "rows" / "a.parquet")
    (tmp_path / "answers").mkdir()
    csv = ("--features", "zip", "--reference", model.with_name(f"{library}_train.csv"))
    done = run("gap", model, tmp_path / "rows", *csv, "-o", tmp_path / "answers")
    assert done.exit_code == 0, done.stderr
    (part,) = (tmp_path / "answers").glob("part-*.parquet")
    whole = gaps(run("gap", model, tmp_path / "rows.csv", *csv))
    assert pyarrow.parquet.read_table(part)["gap"].to_pylist() == whole.tolist()


def test_kept_labels_are_as_they_are_written(models, tmp_path):
    model, X, _ = models["catboost"]
    write(X, tmp_path / "rows")
    rows = tmp_path / "rows.csv"
    for text, keep in (("01,A", ["01", "A"]), ("1", ["1"]), ("1.50,1.0,nan", ["1.50", "1.0", "nan"])):
        expected = Explainer(model, Relative(X, keep=keep)).gap(X, ["zip"])
        assert np.array_equal(gaps(run("gap", model, rows, "--features", "zip", "--keep", text)), expected)
        assert np.array_equal(expected == 0, X["zip"].isin(keep))


# ---- rows ----------------------------------------------------------------------------------------

KEYS = ("00123", "00007", "12345678901234567890", "NA", "1.50", "true", " x", "2026-11-19")


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """A model of numbers, and its table; each of the first rows has another ranking than its neighbour."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=["u", "v", "w"])
    path = tmp_path_factory.mktemp("numbers") / "model.json"
    model = xgboost.XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1)
    model.fit(X, X["u"] * X["v"] + np.sin(2 * X["w"])).save_model(path)
    orders = Explainer(path, Relative(X)).rank(X).order
    some = [0]
    while len(some) < 12:
        some.append(next(r for r in range(some[-1], 200) if (orders[r] != orders[some[-1]]).any()))
    return path, X.iloc[some].reset_index(drop=True)


@pytest.fixture
def keyed(numbers, tmp_path):
    """A model, and rows with keys: in the index that pandas wrote, in a column, and in Parquet."""
    model, X = numbers
    rows = X[: len(KEYS)].set_axis(pd.Index(KEYS), axis=0)
    rows.to_csv(tmp_path / "unnamed.csv")
    rows.to_csv(tmp_path / "named.csv", index_label="key")
    rows.reset_index(names="key").to_parquet(tmp_path / "named.parquet", index=False)
    return model, tmp_path


@pytest.mark.parametrize("name", ["unnamed.csv", "named.csv", "named.parquet"])
def test_row_labels_come_back_as_they_are_written(keyed, name):
    model, folder = keyed
    options = () if name == "unnamed.csv" else ("--index", "key")
    found = run("gap", model, folder / name, "--features", "u", *options)
    assert [row["row"] for row in records(found.stdout)] == [*KEYS]
    lines = run("rank", model, folder / name, "--top", 1, "--json", *options).stdout.splitlines()
    assert [json.loads(line)["row"] for line in lines] == [*KEYS]


def test_a_ranking_file_is_matched_by_keys(keyed):
    """Its rows may be in another order, and the keys those of another form of the table."""
    model, folder = keyed
    done = run("rank", model, folder / "named.csv", "--index", "key", "-o", folder / "mine.csv")
    assert done.exit_code == 0, done.stderr
    lines = (folder / "mine.csv").read_text().splitlines()
    (folder / "mixed.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")
    for name in ("named.csv", "named.parquet"):
        given = f"greedy,mine={folder / 'mine.csv'},mixed={folder / 'mixed.csv'}"
        done = run("evaluate", model, folder / name, "--index", "key", "--rankings", given)
        assert done.exit_code == 0, done.stderr
        assert len({row["mean"] for row in records(done.stdout)}) == 1


def test_keys_that_look_like_formulas_are_matched(numbers, tmp_path):
    """They have an apostrophe in the CSV that is written."""
    model, X = numbers
    X[:3].set_axis(["=1+1", "-x", "@y"], axis=0).to_csv(tmp_path / "rows.csv")
    run("rank", model, tmp_path / "rows.csv", "-o", tmp_path / "mine.csv")
    assert {row["row"] for row in records((tmp_path / "mine.csv").read_text())} == {"'=1+1", "'-x", "'@y"}
    done = run("evaluate", model, tmp_path / "rows.csv", "--rankings", f"greedy,{tmp_path / 'mine.csv'}")
    assert done.exit_code == 0, done.stderr
    assert len({row["mean"] for row in records(done.stdout)}) == 1


def test_rows_without_labels_are_matched_by_their_numbers(numbers, tmp_path):
    model, X = numbers
    write(X, tmp_path / "rows")
    for form in ("csv", "parquet"):
        run("rank", model, tmp_path / "rows.csv", "-o", tmp_path / f"mine.{form}")
    lines = pd.read_csv(tmp_path / "mine.csv")
    lines[::-1].to_csv(tmp_path / "csv.csv", index=False)
    lines[::-1].to_parquet(tmp_path / "parquet.parquet", index=False)
    given = f"greedy,{tmp_path / 'csv.csv'},{tmp_path / 'parquet.parquet'}"
    done = run("evaluate", model, tmp_path / "rows.csv", "--rankings", given)
    assert done.exit_code == 0, done.stderr
    assert len({row["mean"] for row in records(done.stdout)}) == 1


def test_the_column_of_row_labels_is_checked(keyed):
    model, folder = keyed
    for options, told in (
        (("--index", "kay"), "has no column 'kay'; did you mean 'key'?"),
        (("--index", "u"), "'u' is a feature of the model"),
        (("--index", "key", "--drop", "key"), "--index and --drop name the same column 'key'"),
        ((), "--index, if it has the row labels"),
    ):
        for name, out in (("named.csv", "-"), ("named.parquet", f"{folder / 'answers'}/")):
            if out == "-" or options:
                done = run("rank", model, folder / name, *options, "-o", out)
                assert (done.exit_code, told in done.stderr) == (1, True), done.stderr


def test_a_long_run_passes_keys_through(keyed):
    """Also for a model without names, to which the column would be a feature."""
    model, folder = keyed
    content = json.loads(model.read_text())
    content["learner"]["feature_names"] = []
    (folder / "plain.json").write_text(json.dumps(content))
    for path in (model, folder / "plain.json"):
        out = folder / f"answers of {path.name}"
        out.mkdir()
        done = run("rank", path, folder / "named.parquet", "--index", "key", "-o", out)
        assert done.exit_code == 0, done.stderr
        (part,) = out.glob("part-*.parquet")
        assert pyarrow.parquet.read_table(part)["key"].to_pylist() == [*KEYS]


@pytest.mark.parametrize(
    "labels",
    [
        pd.Index([5, 7, 1000]),
        pd.Index([0.5, 1.0, 1e22]),
        pd.date_range("2026-01-01", periods=3),
        pd.to_datetime(["2026-01-01 12:30", "2026-01-02", "2026-01-03 00:00:01"], format="ISO8601"),
        pd.Index([True, False, True])[:2].append(pd.Index(["x"])),
        pd.Index(["1", "01", "1.0"]),
    ],
    ids=["integers", "fractions", "days", "times", "mixed", "text"],
)
@pytest.mark.parametrize("wide", [False, True])
def test_labels_in_a_file_are_read_as_those_of_x(numbers, tmp_path, labels, wide):
    model, X = numbers
    explainer, rows = Explainer(model, Marginal(X)), X[:3].set_axis(labels, axis=0)
    values = pd.DataFrame([[3.0, 2.0, 1.0], [1.0, 3.0, 2.0], [2.0, 1.0, 3.0]], labels, [*X])
    ranking = predgap.Ranking.from_attributions(values)
    frame = values if wide else ranking.to_frame()
    frame[::-1].to_csv(tmp_path / "mine.csv", index=wide)
    found = predgap.evaluate(explainer, rows, {"mine": str(tmp_path / "mine.csv")})
    assert np.array_equal(found.rankings["mine"].order, ranking.order)


# ---- features ------------------------------------------------------------------------------------

NAMES = (
    ("01", "02"),
    ("NA", "null", "nan"),
    ("1", "2.50", "1e5"),
    ("true", "false"),
    ("2026-11-19", "12:30"),
)


@pytest.mark.parametrize("names", NAMES, ids="-".join)
@pytest.mark.parametrize(
    "missing", [(), ("pyarrow",), ("pyarrow", "pandas")], ids=["pyarrow", "pandas", "polars"]
)
def test_ranking_files_keep_the_names_of_features(tmp_path, monkeypatch, names, missing):
    """With each of the libraries that may read them."""
    from predgap.evaluation import files

    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(100, len(names))), columns=[*names])
    model = xgboost.XGBRegressor(n_estimators=6, max_depth=3, n_jobs=1).fit(
        X, X.to_numpy() @ np.arange(len(names))
    )
    model.save_model(tmp_path / "model.json")
    X[:10].to_csv(tmp_path / "rows.csv", index=False)
    done = run("rank", tmp_path / "model.json", tmp_path / "rows.csv", "-o", tmp_path / "mine.csv")
    assert (done.exit_code, done.stderr) == (0, "")
    read = files.nw.read_csv

    def without(*args, backend, **options):
        if backend in missing:
            raise ImportError(backend)
        return read(*args, backend=backend, **options)

    monkeypatch.setattr(files.nw, "read_csv", without)
    given = f"greedy,mine={tmp_path / 'mine.csv'}"
    done = run("evaluate", tmp_path / "model.json", tmp_path / "rows.csv", "--rankings", given)
    assert (done.exit_code, done.stderr) == (0, "")
    greedy, mine = records(done.stdout)
    assert greedy["mean"] == mine["mean"]
    assert set(files.read_ranking_file(tmp_path / "mine.csv").feature_names) == {*names}


# ---- classes -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """A model of the classes '01', '10' and '2', and one of two classes without a known link."""
    folder = tmp_path_factory.mktemp("classes")
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.normal(size=(150, 2)), columns=["u", "v"])
    y = np.array(["01", "10", "2"])[(X["u"] > 0) * 1 + (X["v"] > 0.5)]
    model = lightgbm.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1).fit(X, y)
    predgap.load(model).save(folder / "model")
    X.assign(y=y).to_csv(folder / "rows.csv", index=False)
    return folder, X


@pytest.mark.parametrize(("text", "position"), [("01", 0), ("10", 1), ("2", 2), ("0", 0), ("1", 1)])
def test_output_is_a_label_before_a_position(classes, text, position):
    folder, X = classes
    done = run(
        "gap", folder / "model", folder / "rows.csv", "--target", "y", "--features", "u", "--output", text
    )
    expected = Explainer(folder / "model", Relative(X), output=position).gap(X, ["u"])
    assert np.array_equal(gaps(done), expected)


@pytest.mark.parametrize("text", ["3", "-1", "00", "1.0", "012", "high"])
def test_errors_of_output_speak_of_the_command_line(classes, text):
    folder, _ = classes
    done = run("rank", folder / "model", folder / "rows.csv", "--target", "y", "--output", text)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"predgap: --output: the model has no class {text!r}")
    assert "its classes are '01', '10', '2'" in done.stderr
    assert "a position from 0 to 2" in done.stderr
    assert "output=" not in done.stderr


def test_the_target_holds_classes_as_they_are_written(classes):
    folder, X = classes
    done = run(
        "evaluate", folder / "model", folder / "rows.csv", "--target", "y", "--rankings", "permutation"
    )
    assert done.exit_code == 0, done.stderr
    y = pd.read_csv(folder / "rows.csv", dtype={"y": str})["y"]
    expected = predgap.evaluate(Explainer(folder / "model", Relative(X)), X, ["permutation"], y=y)
    assert records(done.stdout)[0]["mean"] == str(expected.summary[0]["mean"])


def test_a_column_to_drop_that_is_not_there_is_warned_of(classes):
    folder, _ = classes
    asked_for = ("rank", folder / "model", folder / "rows.csv", "--top", 1)
    plain = run(*asked_for, "--target", "y")
    done = run(*asked_for, "--drop", "y,id")
    assert (done.exit_code, done.stdout) == (0, plain.stdout)
    assert done.stderr.startswith("predgap: warning: --drop names 'id', but ")
    assert len(done.stderr.splitlines()) == 1
    done = run(*asked_for, "--drop", "z")  # the one that is meant stays, which is an error
    assert (done.exit_code, len(done.stderr.splitlines())) == (1, 2)
    done = run(*asked_for, "--drop", "y,id", "--reference", folder / "train.csv")
    assert (done.exit_code, "there is no file" in done.stderr) == (1, True)
    with_id = pa.csv.read_csv(folder / "rows.csv").append_column("id", pa.array(range(150)))
    pyarrow.parquet.write_table(with_id, folder / "train.parquet")
    done = run(*asked_for, "--drop", "y,id", "--reference", folder / "train.parquet")
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.parametrize("written", [str, str.lower])
def test_truth_values_of_catboost_are_its_numbers_1_and_0(tmp_path, written):
    """CatBoost hashes True as 1, which CSV files that pandas wrote call True."""
    X = table(["x"])
    X["zip"] = X["a"] + np.random.default_rng(0).normal(size=N) > 0
    model = catboost.CatBoostRegressor(
        iterations=10, depth=2, cat_features=["zip"], verbose=0, allow_writing_files=False
    ).fit(X, X["a"] + 2.0 * X["zip"])
    model.save_model(tmp_path / "model.cbm")
    text = X.assign(zip=[written(str(value)) for value in X["zip"]])
    text.to_csv(tmp_path / "rows.csv", index=False)
    expected = Explainer(model, Relative(X)).gap(X, ["zip"])
    assert expected.max() > 0.01
    found = gaps(run("gap", tmp_path / "model.cbm", tmp_path / "rows.csv", "--features", "zip"))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
