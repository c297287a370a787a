"""The leaderboard's script runs on a tiny setting, and writes a page of the right form."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from predgap import Background, Explainer
from strategies import random_ensemble

ROOT = Path(__file__).parents[1]
SCORES = {"PGI²": "higher", "PGU²": "lower", "deletion": "higher", "insertion": "higher"}


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of the folder benchmarks."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module


def lines_of(page: str, heading: str) -> list[list[str]]:
    """The cells of the table under a heading, with its head."""
    part = page.split(f"## {heading}")[1].split("## ")[0]
    return [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]


def test_the_script_writes_a_table_for_each_score(benchmark: Any, tmp_path: Path) -> None:
    script, rivals = benchmark("leaderboard"), benchmark("rivals")
    assert rivals.SCORES == SCORES
    page = tmp_path / "page.md"
    page.write_text((ROOT / "docs" / "leaderboard.md").read_text())
    asked = ["--rows", "2", "--data", "wine", "--models", "LightGBM", "--page", str(page)]
    assert script.main(asked) == 0
    text = page.read_text()
    assert text.startswith("# Leaderboard")
    for score, better in SCORES.items():
        head, *lines = lines_of(text, f"{score} ({better} is better)")
        assert [line[0] for line in lines] == ["wine, LightGBM"]
        assert {"greedy", "SHAP, path-dependent", "SHAP, interventional", "for deletion", "gain"} <= {*head}
        assert all(len(line) == len(head) for line in lines)
        assert any(re.fullmatch(r"\*\*-?\d\.\d{3}\*\*", cell) for cell in lines[0])
        assert f"- **{score}**: best most often is" in text
    head, *lines = lines_of(text, "Cases won, and mean scores")
    assert {len(line) for line in (head, *lines)} == {9}
    assert len(lines) == len(lines_of(text, "PGI² (higher is better)")[0]) - 1


def test_the_best_of_a_line_is_marked(benchmark: Any) -> None:
    page = benchmark("rivals_page")
    scores = {"a": dict.fromkeys(SCORES, 0.25), "greedy": dict.fromkeys(SCORES, 0.5)}
    assert page.winners(scores, "PGI²", "higher") == {"greedy"}
    assert page.winners(scores, "PGU²", "lower") == {"a"}
    written = page.written({"one": scores, "two": scores}, SCORES, 7)
    assert lines_of(written, "PGU² (lower is better)")[1] == ["one", "**0.250**", "0.500"]
    assert "**Greedy loses** in more than half of the cases to *a* (in 2 of 2)." in written
    assert "best most often is *greedy*, in 2 of 2 cases." in written
    assert "Without *greedy*, which is made for this score, it is *a*, in 2. No ranking is ahead" in written
    with pytest.raises(SystemExit, match="the page has no lines"):
        page.page_with("# Leaderboard", written)


@pytest.mark.parametrize("deletes", [True, False])
def test_a_ranking_for_a_curve_takes_the_steepest_step(benchmark: Any, deletes: bool) -> None:
    rng = np.random.default_rng(0)
    explainer = Explainer(
        random_ensemble(rng, n_trees=6, depth=3, n_features=4), Background(rng.normal(size=(5, 4)))
    )
    X, toward = rng.normal(size=(3, 4)), np.array([1.0, -1.0, 1.0])
    found = benchmark("rivals").greedy_on_curve(explainer, X, toward, deletes=deletes)
    for x, sign, order in zip(X, toward, found, strict=True):
        chosen: list[int] = []
        for place in order:
            values = {}
            for j in {*range(4)} - {*chosen}:
                first = {*chosen, j}
                redrawn = sorted(first if deletes else {*range(4)} - first)
                value = sign * explainer.expected_prediction(x[None], np.isin(np.arange(4), redrawn))[0]
                values[j] = -value if deletes else value
            assert values[int(place)] == pytest.approx(max(values.values()), rel=1e-12)
            chosen.append(int(place))


def test_the_page_is_listed_and_has_its_tables() -> None:
    assert "\nleaderboard\n" in (ROOT / "docs" / "index.md").read_text()
    page = (ROOT / "docs" / "leaderboard.md").read_text()
    for score, better in SCORES.items():
        head, *lines = lines_of(page, f"{score} ({better} is better)")
        assert len(lines) >= 15
        assert all(len(line) == len(head) for line in lines)
