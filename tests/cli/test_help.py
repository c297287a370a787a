"""Help, completion and --debug; and what the help and the page of the command line show is run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import pytest

from commandline import HOSTILE, python, shell
from predgap.cli import commands

app = commands()

VERBS = sorted(app.commands)
PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A folder with what the examples are about: a LightGBM model, its training table, and rows."""
    folder = tmp_path_factory.mktemp("example")
    rng = np.random.default_rng(0)
    columns = {"age": rng.integers(18, 80, 300), "bmi": rng.normal(27, 4, 300)}
    columns["smoker"] = rng.integers(0, 2, 300)
    X = pd.DataFrame(columns | {"lat": rng.normal(size=300), "lon": rng.normal(size=300)})
    y = 0.1 * X["age"] + X["smoker"] * (X["bmi"] - 27) + X["lat"] * X["lon"]
    trees = {"n_estimators": 10, "num_leaves": 8, "n_jobs": 1, "verbose": -1}
    model = lightgbm.LGBMRegressor(**trees).fit(X, y)
    model.booster_.save_model(folder / "model.txt")
    newer = lightgbm.LGBMRegressor(**trees).fit(X, y + X["smoker"] * X["lat"], init_model=model)
    newer.booster_.save_model(folder / "newer.txt")
    X[:200].assign(y=y).to_csv(folder / "train.csv", index=False)
    X[200:220].to_csv(folder / "rows.csv")
    X[200:].assign(y=y).to_parquet(folder / "test.parquet")
    return folder


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "demo"])
def test_the_examples_in_the_help_run(run, example, verb):
    text = run(verb, "--help").stdout.partition("Options:")[0]
    examples = re.findall(r"^ {4}(\S.*)$", text.partition("Example")[2], re.MULTILINE)
    assert examples
    for line in examples:
        done = shell(line, example)
        assert (done.returncode, done.stderr) == (0, ""), line


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_has_help_and_debug(run, verb):
    done = run(verb, "--help")
    assert (done.exit_code, "--debug" in done.stdout) == (0, True)


def test_the_page_shows_what_runs(example):
    """The shell examples of docs/cli.md, one after the other in one folder that has the files it shows."""
    text = PAGE.read_text(encoding="utf-8")
    for name, content in re.findall(r"^```toml\n# (\S+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        (example / name).write_text(content)
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 5
    done = shell("\n".join(blocks), example)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


def test_the_page_names_every_option_and_command():
    text = PAGE.read_text(encoding="utf-8")
    for verb in VERBS:
        assert f"predgap {verb}" in text
    verbs = [app.commands[verb] for verb in ("gap", "rank", "evaluate", "report")]
    options = {name for verb in verbs for option in verb.params for name in option.opts}
    missing = [name for name in options if name.startswith("-") and name not in text]
    assert missing == []


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(run, shell_name):
    done = run("completion", shell_name)
    assert (done.exit_code, "_PREDGAP_COMPLETE" in done.stdout) == (0, True)


def test_completion_completes():
    environment = os.environ | {"_PREDGAP_COMPLETE": "bash_complete", "COMP_CWORD": "1"}
    done = python("-m", "predgap", env=environment | {"COMP_WORDS": "predgap ra"})
    assert (done.returncode, done.stdout) == (0, "plain,rank\n")
    done = python(
        "-c",
        "from predgap.cli import main; main()",
        env=environment | {"COMP_WORDS": "predgap rank m d --form", "COMP_CWORD": "4"},
    )
    assert done.stdout == "plain,--format\n"


def test_completion_works_in_bash(tmp_path):
    """The script itself, in a shell that has a command predgap."""
    program = tmp_path / "predgap"
    program.write_text(f"#!{sys.executable}\nfrom predgap.cli import main\nmain()\n")
    program.chmod(0o755)
    script = (
        "source <(predgap completion bash); COMP_WORDS=(predgap ev); COMP_CWORD=1; "
        "_predgap_completion predgap; echo ${COMPREPLY[@]}"
    )
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "evaluate\n"


def test_a_traceback_only_with_debug(run, monkeypatch):
    asked = ("rank", "model.json", "none.csv")
    assert "Traceback" not in run(*asked).stderr
    told = run(*asked, "--debug")
    assert (told.exit_code, told.stderr.startswith("Traceback"), told.stdout) == (1, True, "")
    assert told.stderr.splitlines()[-1].startswith("predgap: there is no file")
    assert "Traceback" not in run(*asked).stderr  # the next call is without it again


def test_a_fault_is_one_line_too(run, monkeypatch):
    def fail(*_, **__):
        raise KeyError("lost\n\x1b[31m")

    monkeypatch.setattr("predgap.cli.explainers.layout", fail)
    told = run("rank", "model.json", "features.csv")
    assert (told.exit_code, told.stdout, told.stderr.count("\n")) == (1, "", 1)
    assert told.stderr.startswith("predgap: KeyError: ")
    assert "\x1b" not in told.stderr
    assert "Traceback" in run("rank", "model.json", "features.csv", "--debug").stderr


def test_json_is_ascii_whatever_the_names(hostile):
    done = python("-m", "predgap", "info", hostile / "model.json", "--json")
    assert done.stdout.isascii()
    assert [feature["name"] for feature in json.loads(done.stdout)["features"]] == list(HOSTILE)


def test_info_as_json(run, folder):
    found = json.loads(run("info", "model.json", "--json").stdout)
    assert (found["trees"], found["depth"], found["outputs"]) == (6, 3, 1)
    assert [feature["name"] for feature in found["features"]] == ["age", "body mass", "s_1"]
    assert found["splits"] == sum(feature["splits"] for feature in found["features"])
