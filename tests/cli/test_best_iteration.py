"""Models that were trained with early stopping: `--best-iteration` of all commands that read a model."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import xgboost

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(200, 3)).astype(np.float32), columns=["a", "b", "c"])
Y = X["a"] + X["b"] * X["c"] + RNG.normal(size=200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("early")
    options = {"n_estimators": 40, "early_stopping_rounds": 5, "max_depth": 3, "n_jobs": 1}
    model = xgboost.XGBRegressor(**options, learning_rate=0.6)
    model.fit(X[:100], Y[:100], eval_set=[(X[100:], Y[100:])], verbose=False)
    model.save_model(folder / "early.json")
    best = model.get_booster()[: model.best_iteration + 1]
    best.save_model(folder / "best.json")
    assert best.num_boosted_rounds() < model.get_booster().num_boosted_rounds()
    X[:20].to_csv(folder / "rows.csv", index=False)
    X[:20].to_parquet(folder / "rows.parquet")
    X.to_csv(folder / "train.csv", index=False)
    return folder


@pytest.fixture
def run(run, folder, monkeypatch):
    monkeypatch.chdir(folder)
    return run


REFERENCE = ("rows.csv", "--reference", "train.csv")
COMMANDS = {
    "info": lambda model: ("info", model, "--json"),
    "gap": lambda model: ("gap", model, *REFERENCE, "--features", "a,b"),
    "rank": lambda model: ("rank", model, *REFERENCE),
    "evaluate": lambda model: ("evaluate", model, *REFERENCE, "--rankings", "shap,gain,greedy"),
    "report": lambda model: ("report", model, *REFERENCE, "--rankings", "shap,greedy", "--json"),
    "diff": lambda model: ("diff", model, model, *REFERENCE, "--json"),
}


def found(done):
    assert done.exit_code == 0, done.output
    if not done.stdout.startswith("{"):
        return done.stdout
    document = json.loads(done.stdout)
    return {name: document[name] for name in document if name in ("trees", "nodes", "summary", "verdict")}


@pytest.mark.parametrize("verb", COMMANDS)
def test_with_it_the_file_is_as_the_best_iterations_alone(run, verb):
    command, best = COMMANDS[verb]("early.json"), COMMANDS[verb]("best.json")
    expected = found(run(*best))
    stopped = run(*command, "--best-iteration")
    assert "early stopping" not in stopped.stderr
    assert found(stopped) == expected
    whole = run(*command)
    assert whole.stderr.count("was trained with early stopping: its best_iteration is") == 1
    assert found(whole) != expected
    silent = run(*command, "--no-best-iteration")
    assert "early stopping" not in silent.stderr
    assert found(silent) == found(whole)


def test_answers_in_a_folder_know_which_trees_they_are_of(run, folder):
    """Answers with SHAP values are computed in worker processes, which do not see the file."""
    asked = ("rows.parquet", "--reference", "train.csv", "--rankings", "shap,greedy", "--jobs", "1")
    stopped = run("evaluate", "early.json", *asked, "-o", "stopped/", "--best-iteration")
    expected = run("evaluate", "best.json", *asked, "-o", "best/")
    assert (stopped.exit_code, stopped.stdout) == (0, expected.stdout), stopped.output
    again = run("evaluate", "early.json", *asked, "-o", "stopped/")
    assert again.exit_code == 1
    assert "best_iteration was True, now absent" in again.stderr
