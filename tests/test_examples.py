"""The examples run, and the pages show what their code prints."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "examples" / "picture.py"
SCRIPTS = sorted({*(ROOT / "examples").glob("*.py")} - {PICTURE})
PAGES = sorted((ROOT / "docs").glob("*.md"))


def run(script, folder, *arguments):
    return subprocess.run(
        [sys.executable, "-W", "error", str(script), *arguments],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def fenced(page, language):
    """The blocks of a page in this language, and the line that each begins on."""
    text = page.read_text(encoding="utf-8")
    for block in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, block.start(1)), block.group(1)


def python_blocks(page):
    return "".join(code for _, code in fenced(page, "python"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_runs(script, tmp_path):
    done = run(script, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_the_picture_is_the_same_each_time_and_small(tmp_path):
    for name in ("first.svg", "second.svg"):
        done = run(PICTURE, tmp_path, name)
        assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()
    assert (ROOT / "docs" / "curves.svg").stat().st_size < 150_000


def test_the_front_page_is_short():
    words = (ROOT / "README.md").read_text(encoding="utf-8").split()
    assert len(words) <= 500


def test_the_example_of_the_front_page_prints_what_it_shows(tmp_path):
    """Trees differ between releases of the library, so that numbers are compared by their first digits."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    (tmp_path / "example.py").write_text(python_blocks(ROOT / "README.md"), encoding="utf-8")
    done = run(tmp_path / "example.py", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (shown,) = re.findall(r"^```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert [re.findall(r"[a-z]\w+", line) for line in done.stdout.splitlines()] == [
        re.findall(r"[a-z]\w+", line) for line in shown.splitlines()
    ]
    numbers = [[float(n) for n in re.findall(r"\d+\.\d*", text)] for text in (done.stdout, shown)]
    assert numbers[0] == pytest.approx(numbers[1], rel=0.05)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_the_code_of_a_page_prints_what_it_shows(page, tmp_path, monkeypatch):
    """All blocks of a page in one namespace, one after the other."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    told: list[str] = []
    for line, code in fenced(page, "pycon"):
        block = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
        runner.run(block, out=told.append, clear_globs=False)
        names |= block.globs
    assert runner.summarize(verbose=False).failed == 0, "".join(told)


def test_every_public_name_is_in_the_reference():
    import predgap

    reference = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\.\. auto\w+:: predgap\.(\w+)", reference, re.MULTILINE))
    assert documented == {*predgap.__all__, "algorithm1", "dask", "plots", "report"}


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda p: p.stem)
def test_links_to_files_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target
