"""The demonstration: what it prints, and the page and the picture that it writes."""

from __future__ import annotations

import io
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
def found(trained):
    return demo.judge(trained)


def run(folder):
    """What the demo prints at 80 columns, and the bytes of the page and of the picture."""
    text = io.StringIO()
    paths = demo.run(Console(file=text, width=80, highlight=False), folder)
    assert paths == (folder / "report.html", folder / "diabetes.png")
    return text.getvalue().replace(str(folder), "predgap-demo"), *(path.read_bytes() for path in paths)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    return run(tmp_path_factory.mktemp("demo"))


def test_the_demo_prints_and_draws_the_same_each_time(shown, tmp_path):
    assert run(tmp_path / "new" / "folder") == shown


def test_what_the_demo_prints_is_complete_and_fits_80_columns(shown, found):
    text, _, _ = shown
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    assert " ".join(found.verdict().split()) in words
    assert "SHAP reaches" in words
    assert repr(found) in text
    assert text.endswith("\nPage: predgap-demo/report.html\nPicture: predgap-demo/diabetes.png\n")


def test_the_page_has_the_verdict(shown, found):
    page = shown[1].decode()
    assert found.verdict().split(". ")[0] in page
    assert "predgap demo" in page
    for feature in demo._FEATURES:
        assert feature in page


def test_the_picture_is_a_png_of_a_readable_size(shown):
    head = shown[2][:24]
    assert head.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", head[16:])
    assert width > 1500
    assert height > 1200


def test_the_picture_has_scores_curves_and_a_row(found):
    scores, lines, greedy, shap = demo.picture(found).axes
    assert {text.get_text() for text in scores.get_yticklabels()} == {*found.names}
    drawn = [text.get_text().partition(":")[0] for text in lines.get_legend().get_texts()]
    assert drawn == ["SHAP", "gain", "greedy", "best", "random"]
    row = demo.most_different(found)
    for name, ax in (("greedy", greedy), ("SHAP", shap)):
        features = [text.get_text().partition(" = ")[0] for text in ax.get_yticklabels()]
        assert features == found.rankings[name].top(10)[row].tolist()
        assert f"Row {row}," in ax.get_title(loc="left")


def test_the_row_shown_is_the_one_where_shap_is_furthest_behind(found):
    shap, _, greedy, *_ = found.scores["pgi2"]
    row = demo.most_different(found)
    assert greedy[row] - shap[row] == max(greedy - shap) > 0


def test_the_scores_of_the_demo_agree_with_xgboosts_own_predictions(trained, found):
    """Monte Carlo by the definition: of predgap's code only the samples of its noise.

    Five standard errors of the samples: chance exceeds them once in a million times.
    """
    rng = np.random.default_rng(3)
    noise = Relative(trained.train, 0.3)

    def predict(rows):
        table = xgboost.DMatrix(rows, feature_names=list(demo._FEATURES))
        return trained.booster.predict(table).astype(float)

    anchor, n_samples = predict(trained.rows), 1000
    for ranking, pgi2 in zip(found.rankings.values(), found.scores["pgi2"], strict=True):
        means, variances = [], []
        for r, x in enumerate(trained.rows[::3]):
            moved = np.tile(x, (n_samples, 1))
            drawn = noise.sample(moved, rng)
            prefixes = []
            for j in ranking.order[3 * r]:
                moved[:, j] = drawn[:, j]
                prefixes.append(moved.copy())
            changes = predict(np.concatenate(prefixes)) - anchor[3 * r]
            scores = np.mean(changes.reshape(-1, n_samples) ** 2, axis=0)
            means.append(scores.mean())
            variances.append(scores.var(ddof=1) / n_samples)
        standard_error = np.sqrt(np.sum(variances)) / len(means)
        assert standard_error < 0.02 * np.mean(means)
        assert np.mean(means) == pytest.approx(pgi2[::3].mean(), abs=5 * standard_error)


def test_the_model_of_the_demo_is_worth_explaining(trained, found):
    assert trained.r2 > 0.3
    assert len(trained.rows) > 100
    assert found.best_is_proven.all()
    assert found.obtained["pgi2"] == "exact"


@pytest.mark.parametrize("missing", ["xgboost", "sklearn", "matplotlib", "jinja2"])
def test_a_missing_package_is_named(monkeypatch, tmp_path, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    name = {"sklearn": "scikit-learn"}.get(missing, missing)
    with pytest.raises(DependencyError, match=rf"not installed: {name}\. Try: pip install 'predgap\[demo\]'"):
        demo.run(Console(file=io.StringIO()), tmp_path)


def test_importing_the_demo_prints_and_imports_nothing():
    code = (
        "import predgap, predgap.cli.demo, predgap.plots, sys; "
        "assert not {'matplotlib', 'jinja2', 'xgboost', 'sklearn'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
