"""The notebooks run without a warning, and what they show is what they were saved with."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
NAMES = sorted(path.name for path in FOLDER.glob("*.ipynb"))


def cells(path):
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if "outputs" in cell]


def kinds(cell):
    """What a cell shows: names of streams, and kinds of data."""
    return [output.get("name") or sorted(output["data"]) for output in cell["outputs"]]


def tables(path):
    """The scores of rankings that a notebook shows: each line's name, numbers and percentages."""
    texts = [
        "".join(output["data"]["text/plain"])
        for cell in cells(path)
        for output in cell["outputs"]
        if output["output_type"] == "execute_result"
    ]
    lines = [
        line
        for text in texts
        if text.startswith("Evaluation of")
        for line in text.splitlines()
        if " %" in line
    ]
    return [_read(line) for line in lines[1:]]  # without the head, which has "95 % interval"


def _read(line):
    name, numbers = line.split(maxsplit=1)
    shares = r"(-?\d+) %"
    return (
        name,
        [float(number) for number in re.findall(r"\d[\d.]*(?:e[+-]\d+)?", re.sub(shares, "", numbers))],
        [float(share) for share in re.findall(shares, numbers)],
    )


@pytest.fixture(scope="module")
def again(tmp_path_factory):
    """A folder with the notebooks, run once more."""
    folder = tmp_path_factory.mktemp("notebooks")
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    done = subprocess.run(
        [sys.executable, str(folder / "run.py")],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_there_are_two_small_notebooks():
    assert NAMES == ["credit_risk.ipynb", "regression_shap.ipynb"]
    assert all((FOLDER / name).stat().st_size < 500_000 for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_shows_what_it_was_saved_with(again, name):
    """Trees differ between releases of the libraries; if that is why this fails, run run.py and commit."""
    saved, found = FOLDER / name, again / name
    assert [cell["source"] for cell in cells(saved)] == [cell["source"] for cell in cells(found)]
    assert [kinds(cell) for cell in cells(saved)] == [kinds(cell) for cell in cells(found)]
    shown, expected = tables(found), tables(saved)
    assert len(expected) >= 5  # three rankings or more, random and best
    for (ranking, numbers, shares), (its_name, its_numbers, its_shares) in zip(shown, expected, strict=True):
        assert ranking == its_name
        assert numbers
        assert numbers == pytest.approx(its_numbers, rel=0.05)
        assert shares == pytest.approx(its_shares, abs=3)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_was_saved_after_a_run_without_warnings(again, name):
    for path in (FOLDER / name, again / name):
        ran = cells(path)
        assert [cell["execution_count"] for cell in ran] == [*range(1, len(ran) + 1)]
        assert not [output for cell in ran for output in cell["outputs"] if output.get("name") == "stderr"]
        assert "site-packages" not in path.read_text(encoding="utf-8")  # a path of somebody's machine
