"""`predgap evaluate MODEL DATASET -o FOLDER/`: the scores of all rows, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import predgap
from commandline import NAMES, make_model, rename
from predgap.cli import commands

app = commands()

N_FILES, N_ROWS = 3, 300
D = len(NAMES)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model, and a data set of three files: keys, features, attributions with the bias, orders."""
    folder = tmp_path_factory.mktemp("long evaluations")
    make_model(folder / "model.json", NAMES)
    rename(folder / "model.json", NAMES)
    rng = np.random.default_rng(0)
    (folder / "rows").mkdir()
    for i in range(N_FILES):
        columns = {"id": [f"{i}-{r}" for r in range(N_ROWS)]}
        columns |= {name: rng.normal(size=N_ROWS) for name in NAMES}
        columns["contributions"] = rng.normal(size=(N_ROWS, D + 1)).tolist()
        columns["places"] = [rng.permutation(D).tolist() for _ in range(N_ROWS)]
        columns["uneven"] = [[0.5] * (1 + r % 2) for r in range(N_ROWS)]
        pq.write_table(pa.table(columns), folder / "rows" / f"{i}.parquet", row_group_size=150)
    return folder


def evaluated(made, out, *more):
    noise = ["--noise", "normal:0.5", "--part-rows", "200", "--jobs", "1", "-o", f"{out}/"]
    return CliRunner().invoke(app, ["evaluate", str(made / "model.json"), str(made / "rows"), *noise, *more])


@pytest.fixture(scope="module")
def whole(made):
    """The explainer, and all rows at once."""
    tables = [pq.read_table(made / "rows" / f"{i}.parquet") for i in range(N_FILES)]
    return predgap.Explainer(made / "model.json", predgap.Normal(0.5)), pa.concat_tables(tables)


def test_the_means_are_those_of_all_rows(made, whole, tmp_path):
    explainer, rows = whole
    given = "gain,greedy,optimal,mine=contributions,places"
    done = evaluated(made, tmp_path / "out", "--rankings", given, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    attributions, orders = (np.array(rows[name].to_pylist()) for name in ("contributions", "places"))
    rankings = {"gain": "gain", "greedy": "greedy", "optimal": "optimal"}
    rankings |= {"mine": attributions[:, :-1], "places": orders}
    expected = predgap.evaluate(explainer, rows.select(list(NAMES)), rankings)
    for line, other in zip(found["summary"], expected.summary, strict=True):
        assert line["ranking"] == other["ranking"]
        for name in ("mean", "normalized", "share_won", "pgu2"):
            assert line[name] == pytest.approx(other[name], rel=1e-12)
        for name in ("low", "high", "normalized_low", "normalized_high"):  # bootstrap and normal intervals
            assert line[name] == pytest.approx(other[name], rel=0.1, abs=0.02)
    assert found["random"] == pytest.approx(expected.random.mean(), rel=1e-12)
    assert found["best"] == pytest.approx(expected.best.mean(), rel=1e-12)
    assert "greedy" in found["verdict"]
    for pair, other in zip(found["pairs"], expected.pairs, strict=True):
        assert pair["difference"] == pytest.approx(other["difference"], rel=1e-9)


def test_the_best_one_is_looked_for_by_greedy_unless_optimal_is_asked_for(made, whole, tmp_path):
    explainer, rows = whole
    done = evaluated(made, tmp_path / "out", "--rankings", "gain", "--metrics", "pgi2", "--json")
    assert done.exit_code == 0, done.output
    part = pq.read_table(tmp_path / "out")
    assert part.column_names == ["row", "id", "contributions", "places", "uneven", "gain", *HELPERS, "method"]
    X = rows.select(list(NAMES))
    greedy, gain = (part[name].to_numpy() for name in ("(greedy)", "gain"))
    assert greedy.tobytes() == explainer.pgi2(X, explainer.rank(X)).tobytes()
    found = json.loads(done.stdout)
    assert found["best"] == pytest.approx(np.maximum(greedy, gain).mean(), rel=1e-12)
    assert found["summary"][0]["pgu2"] is None  # not asked for


HELPERS = ("(random)", "(greedy)")


def test_fewer_places_have_no_pgu2(made, tmp_path):
    done = evaluated(made, tmp_path / "out", "--rankings", "greedy,places", "--top", "2")
    assert done.exit_code == 0, done.output
    assert "PGU² needs all places" in done.stderr
    names = pq.read_table(tmp_path / "out").column_names
    assert names[-4:] == ["greedy", "places", "(random)", "method"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--rankings", "permutation"], "needs outcomes"),
        (["--rankings", "mine=ranking.csv"], "'ranking.csv' is absent"),
        (["--rankings", "id"], "'id' is string; expected a column with a list of numbers"),
        (["--rankings", "age"], "'age' is double"),
        (["--budget", "5"], "leave out --budget"),
        (["--metrics", "pgi2,deletion"], "--metrics deletion is not for folders"),
    ],
)
def test_what_a_folder_cannot_have_is_refused(made, tmp_path, given, told):
    done = evaluated(made, tmp_path / "out", *given)
    assert done.exit_code in (1, 2)
    assert told in done.stderr
    assert not (tmp_path / "out").exists()


def test_lists_of_different_lengths_are_named(made, tmp_path):
    done = evaluated(made, tmp_path / "out", "--rankings", "uneven")
    assert done.exit_code == 1
    assert "column 'uneven' has lists of 1 and 2 entries" in done.stderr
