"""Models and tables for tests of the command line."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import xgboost
from click.testing import CliRunner

from commandline import HOSTILE, NAMES, make_model, rename, write_table
from predgap.cli import commands

app = commands()


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


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    X = make_model(folder / "model.json", HOSTILE)
    rename(folder / "model.json", HOSTILE)
    table = pa.table({name: X[:, j] for j, name in enumerate(HOSTILE)})
    write_table(table, folder / "rows.csv")
    write_table(table.append_column("\x1b]0;title\x07", pa.array(X[:, 0])), folder / "more.csv")
    return folder


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
