"""The demonstration, and the pictures it is made of."""

from __future__ import annotations

import io
import re
import struct
import subprocess
import sys

import numpy as np
import pytest
import xgboost
from rich.console import Console

from predgap import Relative
from predgap.cli import demo
from predgap.errors import DependencyError


@pytest.fixture(scope="module")
def trained():
    return demo.train()


@pytest.fixture(scope="module")
def comparison(trained):
    return demo.compare(trained)


def shown(folder):
    """What the demo prints at 80 columns, without the timings."""
    text = io.StringIO()
    path = demo.run(Console(file=text, width=80, highlight=False), folder)
    lines = text.getvalue().splitlines()
    timed = re.compile(r"^ (greedy|single|TreeSHAP) .*\d+\.\d.* \d+ *$")
    return path, [
        re.sub(r" +\d+ *$", "", line) if timed.match(line) and "%" in line else line for line in lines
    ]


def test_the_demo_prints_and_draws_the_same_each_time(tmp_path):
    first_path, first = shown(tmp_path / "a")
    second_path, second = shown(tmp_path / "b")
    assert [line for line in first if "Picture" not in line] == [
        line for line in second if "Picture" not in line
    ]
    assert first_path.read_bytes() == second_path.read_bytes()


def test_what_the_demo_prints_is_complete_and_fits_80_columns(tmp_path):
    path, lines = shown(tmp_path)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 80 + len(str(tmp_path))
    assert all(len(line) <= 80 for line in lines if "Picture" not in line)
    for method in ("greedy", "single", "TreeSHAP", "gain", "random"):
        assert re.search(rf"^ {method} +\d+\.\d +\d+\.\d +\d+%", text, re.MULTILINE)
    for feature in demo._FEATURES:
        assert text.count(feature) >= 3  # a mean place, and a place in both orders of the row
    assert "3 features, in any order" in text
    assert str(path) in text.replace("\n", "")


def test_the_picture_is_a_png_of_a_readable_size(tmp_path):
    path, _ = shown(tmp_path)
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", head[16:])
    assert width > 1500
    assert height > 1200
    assert path == tmp_path / "diabetes.png"


def test_the_scores_of_the_demo_agree_with_xgboosts_own_predictions(trained, comparison):
    """Monte Carlo by the definition: of predgap's code only the samples of its noise."""
    rng = np.random.default_rng(3)
    noise = Relative(trained.train, 0.3)

    def predict(rows):
        return trained.booster.predict(xgboost.DMatrix(rows, feature_names=list(demo._FEATURES))).astype(
            float
        )

    anchor, n_samples = predict(trained.rows), 500
    for name, ranking in comparison.rankings.items():
        gaps = []
        for r, x in enumerate(trained.rows[::3]):
            moved = np.tile(x, (n_samples, 1))
            drawn = noise.sample(moved, rng)
            prefixes = []
            for j in ranking.order[3 * r]:
                moved[:, j] = drawn[:, j]
                prefixes.append(moved.copy())
            changes = predict(np.concatenate(prefixes)) - anchor[3 * r]
            gaps.append(np.mean(changes**2))
        assert np.mean(gaps) == pytest.approx(comparison.pgi2[name][::3].mean(), rel=0.03)


def test_wins_are_counted_by_row(comparison):
    pgi2 = comparison.pgi2
    expected = int((pgi2["greedy"] >= pgi2["gain"]).sum())
    assert comparison.wins("gain") == f"{expected} of {len(pgi2['gain'])}"
    assert comparison.wins("greedy") == f"{len(pgi2['gain'])} of {len(pgi2['gain'])}"


def test_the_model_of_the_demo_is_worth_explaining(trained):
    assert trained.r2 > 0.3
    assert len(trained.rows) > 100


@pytest.mark.parametrize("missing", ["xgboost", "sklearn", "matplotlib"])
def test_a_missing_package_is_named(monkeypatch, tmp_path, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    name = {"sklearn": "scikit-learn"}.get(missing, missing)
    with pytest.raises(DependencyError, match=rf"not installed: {name}\. Try: pip install 'predgap\[demo\]'"):
        demo.run(Console(file=io.StringIO()), tmp_path)


def test_importing_the_demo_prints_and_imports_nothing():
    code = (
        "import predgap, predgap.cli.demo, predgap.plots, sys; "
        "assert not {'click', 'rich', 'matplotlib', 'xgboost', 'sklearn'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
