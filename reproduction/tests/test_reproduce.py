"""The reproduction as a whole: stopped and continued, on bundled data, and every printed cell judged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from effort import FULL
from predgap import PredgapError
from reproduction import cells, claims, published
from reproduction import run as running
from reproduction.__main__ import command as reproduce_command
from reproduction.__main__ import main
from reproduction.experiments import agreement
from reproduction.helpers import DatasetError
from reproduction.models import authors_subjects
from reproduction.results import Result
from reproduction.run import GROUPS, Plan, Reproduction, reproduce, studies
from reproduction.sections import summary_lines, where_sampling_wins, write_pages

TIMED = {"clocks", "equal-time"}

# ---- what there is to do -------------------------------------------------------------------------


def test_studies_have_the_pairs_that_are_asked_for():
    assert next(studies()).config.n_pairs == 2000
    assert next(studies(quick=True)).config.n_pairs == 60
    for quick in (False, True):
        assert next(studies(quick=quick, n_pairs=20_000)).config.n_pairs == 20_000
        assert {study.group for study in studies(quick=quick)} == set(GROUPS)


def test_the_command_knows_every_group():
    (what,) = (one for one in reproduce_command.params if one.name == "what")
    assert tuple(what.type.choices) == (*GROUPS, "all")
    with pytest.raises(PredgapError, match="no 'pgu' to reproduce"):
        Plan(out=Path(), what="pgu")


# ---- on bundled data, without network ------------------------------------------------------------


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No data folder, no cache, no network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PREDGAP_DATA", raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    return tmp_path


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "reproduction", *map(str, arguments)]


def tables(folder: Path) -> dict[str, bytes]:
    """The tables of a run that no clock has to do with."""
    found = {path.name: path.read_bytes() for path in sorted(folder.glob("results*/*.csv"))}
    return {name: table for name, table in found.items() if name.removesuffix(".csv") not in TIMED}


@pytest.mark.slow_paper
def test_a_quick_run_without_data_is_about_diabetes_and_survives_being_killed(nowhere):
    whole, killed = nowhere / "whole", nowhere / "killed"
    done = subprocess.run(command("--quick", "--out", whole), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")  # silent but for the end, as this is no terminal
    assert "Left out: the authors' models and their data: none were given" in done.stdout
    assert "Left out: wine, housing and telemetry" in done.stdout
    page = (whole / "reproduction.html").read_text()
    assert "on other data: diabetes. Nothing here confirms or refutes the paper" in page
    assert not (whole / "results" / "claims.csv").exists()  # verdicts on the paper need its data
    assert "Left out of this run" in page
    assert {path.name for path in whole.glob("reproduction.*")} == {"reproduction.md", "reproduction.html"}
    for name in ("precision", "agreement", "pgi", "randomising", "retraining", "training"):
        assert set(Result.load(whole / "results", name).column("dataset")) == {"diabetes"}

    what, after = ("all", "stability") if FULL else ("precision", "precision")
    _kill_on_the_way(command(what, "--quick", "--out", killed), killed / "work" / after)
    kept = {path: path.stat().st_mtime_ns for path in (killed / "work").glob("[!t]*/*/*.json")}
    assert len(kept) > (2 if FULL else 0)
    subprocess.run(command(what, "--quick", "--out", killed, "--jobs", 1), check=True, capture_output=True)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept  # not computed again
    assert {"precision.csv", "stability.csv"} <= tables(killed).keys()
    assert tables(killed).items() <= tables(whole).items()
    assert not FULL or tables(killed).keys() == tables(whole).keys()
    for name in tables(killed):
        one, other = (
            json.loads(next(folder.glob(f"results*/{Path(name).stem}.json")).read_text())
            for folder in (whole, killed)
        )
        assert one.pop("timings").keys() == other.pop("timings").keys()
        assert one == other


def _kill_on_the_way(arguments: list[str], parts: Path) -> None:
    """Start, wait until some of these parts are finished and others are not, and kill without mercy."""
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        while not list(parts.rglob("*.json")):
            assert running.poll() is None  # or it is done, and there was nothing to stop
            time.sleep(0.05)
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert not list(parts.parents[1].glob("results*"))


def test_without_data_a_thorough_run_says_what_to_do(nowhere):
    with pytest.raises(DatasetError, match=r"--models train.* --quick"):
        reproduce(Plan(out=nowhere / "out"))


def test_a_data_folder_that_lacks_something_is_not_replaced_by_other_data(nowhere, monkeypatch):
    (nowhere / "empty").mkdir()
    with pytest.raises(DatasetError, match=r"test_winequality_red_scaled.csv .*--data"):
        reproduce(Plan(out=nowhere / "out", quick=True, data_dir=nowhere / "empty"))
    monkeypatch.setenv("PREDGAP_DATA", str(nowhere / "empty"))
    with pytest.raises(DatasetError, match=r"test_winequality_red_scaled\.csv"):
        reproduce(Plan(out=nowhere / "out", quick=True))


def test_an_interrupted_run_goes_on(nowhere):
    plan = Plan(out=nowhere / "one", what="agreement", quick=True)
    told: list[tuple[str, float]] = []

    def interrupt(what: str, share: float) -> None:
        if what.startswith("cayley"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(plan, interrupt)
    again = reproduce(plan, lambda what, share: told.append((what, share)))
    other = reproduce(replace(plan, out=nowhere / "two"))
    for name, result in other.results.items():
        assert again.results[name].rows == result.rows
    shares = [share for _, share in told]
    assert shares[0] == 0.0
    assert max(shares) == shares[-1] == pytest.approx(1.0)
    kept = [what for what, _ in told if what.startswith("agreement")]
    assert not kept  # it was finished, and is not work any more


def test_a_part_that_is_damaged_or_of_other_code_is_computed_again(nowhere, monkeypatch):
    plan = Plan(out=nowhere / "one", what="agreement", quick=True)
    first = reproduce(plan)
    (path,) = (plan.out / "work" / "agreement").glob("bigger-diabetes-*/*.csv")
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"0.1", b"0.7", 1))
    assert reproduce(plan).results["agreement"].rows == first.results["agreement"].rows
    assert path.read_bytes() == whole
    monkeypatch.setattr("reproduction.run._code", lambda: "other code")
    reproduce(plan)
    assert len(list((plan.out / "work" / "agreement").glob("bigger-diabetes-*"))) == 2


def test_code_is_all_sources_of_both_packages(tmp_path, monkeypatch):
    sources = {"predgap": ("explainer.py", "noise/law.py"), "reproduction": ("ties.py", "experiments/pgi.py")}
    for tree, names in sources.items():
        for name in (*names, "__init__.py", "run.py"):
            (tmp_path / tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / tree / name).write_text("")
    monkeypatch.setattr(running.predgap, "__file__", str(tmp_path / "predgap" / "__init__.py"))
    monkeypatch.setattr(running, "__file__", str(tmp_path / "reproduction" / "run.py"))
    seen = {running._code.__wrapped__()}
    for number, path in enumerate(tmp_path / tree / name for tree in sources for name in sources[tree]):
        path.write_text("changed = True")
        seen.add(running._code.__wrapped__())
        assert len(seen) == number + 2
    (tmp_path / "reproduction" / "tests").mkdir()
    (tmp_path / "reproduction" / "tests" / "test_ties.py").write_text("changed = True")
    assert running._code.__wrapped__() in seen  # tests do not change what is computed


# ---- verdicts on cells ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recomputed(all_authors, table_2, table_3) -> Reproduction:
    """Two tables, from the authors' models."""
    results = {"agreement": table_2, "pgi": table_3}
    results["claims"] = claims.run(claims.Config(), results)
    results["cells"] = cells.run(cells.Config(), results)
    return Reproduction(Plan(out=Path()), results, all_authors, ("the rest",))


@pytest.fixture(scope="module")
def judged(recomputed) -> Result:
    return recomputed.results["cells"]


@pytest.mark.slow_paper
def test_every_printed_cell_has_one_verdict(judged):
    assert len(judged) == len(published.cells()) == 270
    outcomes = Counter((row["table"], row["outcome"]) for row in judged.records())
    assert outcomes["agreement", "matches"] >= 27 + 6
    assert outcomes["agreement", "matches"] + outcomes["agreement", "explained"] == 54
    both = outcomes["pgi", "matches"] + outcomes["pgi-single", "matches"]
    assert both >= 60
    for table in ("precision", "randomising", "retraining"):
        assert outcomes[table, "not recomputed"] == len(published.cells(table))


@pytest.mark.slow_paper
def test_bigger_models_agree_to_the_digit(judged):
    rows = judged.where(table="agreement", kind="Bigger")
    assert len(rows) == 27
    assert {row["outcome"] for row in rows} == {"matches"}


def row(**entries) -> dict:
    return (
        dict.fromkeys(
            ("verdict", "within", "in_range", "in_float32_range", "within_jointly", "nmae", "kind", "dataset")
        )
        | {"rmse": 1.0, "expected": 1.0, "first_slower": 100, "n_trainings": 1}
        | entries
    )


@pytest.mark.parametrize(
    ("judge", "entries", "outcome", "why"),
    [
        (cells._precision, {"verdict": "matches"}, "matches", "same digits"),
        (cells._precision, {"within_jointly": "inside"}, "explained", "sampling error"),
        (cells._precision, {"within_jointly": "outside"}, "differs", "outside"),
        (cells._pgi, {"pgi2": 1.0, "in_range": None}, "differs", "other digits"),
        (
            cells._precision,
            {"within_jointly": "inside", "kind": "Single", "dataset": "telemetry"},
            "differs",
            "a model that was not published",
        ),
        (cells._iterations, {"verdict": "matches"}, "matches", "same digits"),
        (cells._iterations, {"verdict": "differs"}, "differs", "clocks"),
        (cells._randomising, {"within_jointly": "inside"}, "explained", "published sampling"),
        (cells._randomising, {"within_jointly": "outside"}, "differs", "outside"),
        (cells._retraining, {"in_range": "inside"}, "explained", "over ties"),
        (
            cells._retraining,
            {"in_range": "outside", "in_float32_range": "inside"},
            "explained",
            "float32",
        ),
        (cells._retraining, {"n_trainings": 20, "within_jointly": "inside"}, "explained", "other orders"),
        (cells._retraining, {"n_trainings": 20, "within_jointly": "outside"}, "differs", "other orders"),
        (cells._retraining, {"in_range": "outside"}, "differs", "over ties"),
    ],
)
def test_outcomes(judge, entries, outcome, why):
    _, found, reason = judge(row(**entries))
    assert found == outcome
    assert why in reason


def test_models_that_are_not_the_authors_explain_nothing(shared_data):
    subjects = authors_subjects(shared_data, kinds=["Single"], datasets=["wine"])
    results = {"agreement": agreement.run(agreement.Config(), subjects)}
    found = cells.run(cells.Config(authors_models=False), results)
    assert {row["why"] for row in found.records() if row["outcome"] == "differs"} == {
        "the model was trained anew"
    }
    assert not found.where(outcome="explained")


# ---- the page ------------------------------------------------------------------------------------


def test_where_sampling_wins_is_said_plainly():
    rows = [
        {"kind": "Bigger", "seconds": 1.0, "seconds_10": 0.5, "seconds_1": 2.0},
        {"kind": "Bigger", "seconds": 1.0, "seconds_10": 3.0, "seconds_1": None},
        {"kind": "Bigger", "seconds": 1.0, "seconds_10": 3.0, "seconds_1": None, "nmae": None},
        {"kind": "Single", "seconds": 1.0, "seconds_10": 0.5, "seconds_1": 0.9},
    ]
    said = where_sampling_wins([{"nmae": 0.1, "affordable": 40.0} | row for row in rows])
    ten, one = said.split(". ")
    assert "10 % is good enough, sampling is faster in 1 of 3 cases with Bigger models and 1 of 1" in ten
    assert (
        "1 % is good enough, sampling is faster in 0 of 3 cases with Bigger models (1 more are open)" in one
    )


@pytest.mark.slow_paper
def test_the_page_says_what_came_out(recomputed, tmp_path):
    found = replace(recomputed, plan=replace(recomputed.plan, out=tmp_path))
    markdown, html = write_pages(found)
    text = markdown.read_text()
    assert "| Table 2: rows with the same k most important features as SHAP | 54 | 33 | 21 | 0 | 0 |" in text
    wine = text.split("| **Bigger, Red Wine Quality** |")[1]
    assert wine.splitlines()[1] == "| 0.1 | 0.131 = 0.131 | 0.041 = 0.041 | 0.022 = 0.022 |"
    assert "](results/agreement.csv)" in text
    assert "explained: inside the range over gaps that float32 cannot tell apart" in html.read_text()
    for figure in ("agreement", "pgi-advantage-bigger", "pgi-advantage-single"):
        assert f"(figures/{figure}.svg)" in text
        assert (tmp_path / "figures" / f"{figure}.svg").read_bytes().startswith(b"<?xml")
    shown = unescape(html.read_text())
    assert all(sentence in shown for sentence in found.results["claims"].column("evidence"))
    lines = list(summary_lines(found))
    assert any("54 printed cells: 33 same digits, 21 explained" in line for line in lines)
    assert lines[-1] == "Left out: the rest"
    before = [path.read_bytes() for path in (markdown, html)]
    write_pages(found)
    assert [path.read_bytes() for path in (markdown, html)] == before


@pytest.mark.parametrize("missing", ["jinja2", "pooch"])
def test_a_missing_package_is_named_before_the_work(monkeypatch, capsys, nowhere, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit) as stopped:
        main(["--quick", "--out", str(nowhere / "out")])
    assert stopped.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith(f"reproduction: it needs {missing}, which is not installed; ")
    assert "make reproduce" in said
    assert not (nowhere / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["pgu"], 2, "'pgu' is not one of"),
        (["--pairs", "1"], 2, "--pairs"),
        (["--jobs", "0"], 1, "n_jobs is 0, expected a number of threads"),
        (["--out", "file/out"], 1, "file/out: Not a directory"),
        ([], 1, "--models train"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(capsys, nowhere, monkeypatch, arguments, code, said):
    monkeypatch.chdir(nowhere)
    (nowhere / "file").touch()
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    out, error = capsys.readouterr()
    assert (stopped.value.code, out, error.count("\n")) == (code, "", 1)
    assert error.startswith("reproduction: ")
    assert said in error


def test_an_interrupted_command_says_how_to_go_on(capsys, nowhere, monkeypatch):
    def interrupted(plan, tell):
        raise KeyboardInterrupt

    monkeypatch.setattr("reproduction.__main__.reproduce", interrupted)
    with pytest.raises(SystemExit) as stopped:
        main(["--out", str(nowhere / "out")])
    assert stopped.value.code == 130
    assert "run the same command to continue" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_progress_is_shown_on_a_terminal(nowhere):
    import pty

    leader, follower = pty.openpty()
    arguments = command("agreement", "--quick", "--out", nowhere / "out")
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=follower) as running:
        os.close(follower)
        seen = b""
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            seen += part
        assert running.wait() == 0
    os.close(leader)
    assert b"remaining" in seen
    assert b"100%" in seen
    assert b"writing the pages" in seen  # the last that is shown; others may be too quick to be seen
