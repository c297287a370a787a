"""Imports go only down the layers, and the public API is what `dir(predgap)` shows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest

import predgap

SOURCE = Path(predgap.__file__).parent
ROOT = Path(__file__).parents[1]

# What each part may import beside itself and SHARED. A part comes after all that it may import.
SHARED = {"errors", "_text", "_typing", "_files", "_tables"}
PUBLIC = {"", "errors", "evaluation", "explainer", "loaders", "metrics", "noise", "plots", "ranking"}
LAYERS: dict[str, set[str]] = {
    **{part: set() for part in ("errors", "_text", "_typing", "_files", "_core")},
    "_tables": {"_text"},
    "_inputs": set(),
    "_model": {"_inputs"},
    "noise": {"_inputs"},
    "ranking": {"_inputs"},
    "loaders._formats": set(),
    "loaders": {"_inputs", "_model", "loaders._formats"},
    "_engine": {"_core", "_inputs", "_model", "noise"},
    "explainer": {"_core", "_inputs", "_model", "_engine", "loaders", "noise", "ranking"},
    "plots": {"_inputs", "explainer", "noise", "ranking"},
    "metrics": {"_core", "_engine", "_inputs", "explainer", "noise", "ranking"},
    "evaluation": {
        "_inputs",
        "_model",
        "_engine",
        "explainer",
        "loaders",
        "metrics",
        "noise",
        "plots",
        "ranking",
    },
    "": {
        "_inputs",
        "_model",
        "_engine",
        "evaluation",
        "explainer",
        "loaders",
        "metrics",
        "noise",
        "plots",
        "ranking",
    },
    "_clusters": {"_engine", "explainer"},
    "dask": {"_clusters", "explainer"},
    "spark": {"_clusters", "explainer"},
    "report": PUBLIC,
    "runs": {"evaluation", "explainer"},
    "algorithm1": {"_core", "_engine", "explainer", "noise"},
    "cli": PUBLIC | {"_inputs", "_model", "_engine", "report", "runs"},
    "__main__": {"cli"},
}


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts).removesuffix("__init__").removesuffix(".")


MODULES = {name_of(path): path for path in sorted(SOURCE.rglob("*.py"))}


def part_of(module: str) -> str:
    """The longest beginning of a module's name that has a place in the table."""
    return max((p for p in accumulate(module.split("."), "{}.{}".format) if p in LAYERS), key=len, default="")


def imports(path: Path) -> Iterator[str]:
    """The modules of predgap that a module imports anywhere, functions included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [w if w.partition(".")[2] in {*MODULES, "_core"} else str(node.module) for w in whole]
        else:
            continue
        yield from (name.partition(".")[2] for name in names if name.partition(".")[0] == "predgap")


def test_the_layers_have_an_order() -> None:
    above = list(LAYERS)
    for at, part in enumerate(above):
        assert LAYERS[part] | (SHARED if at > len(SHARED) else set()) <= set(above[:at]), part


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down(module: str) -> None:
    part = part_of(module)
    assert part or not module, f"{module} has no place among the layers"
    allowed = {part, *LAYERS[part], *({"errors"} if part in SHARED else SHARED)}
    assert {part_of(name) for name in imports(MODULES[module])} <= allowed


def test_the_documented_table_is_this_one() -> None:
    """Each row of docs/internals.md names parts in its first column and what they import in its last."""
    page = (
        (ROOT / "docs" / "internals.md").read_text().partition("\n## Layers")[2].partition("\nThe folders")[0]
    )
    documented = {}
    for line in page.splitlines():
        if line.startswith("| `"):
            parts, *_, imported = (cell.strip() for cell in line.strip("|").split("|"))
            names = {*re.findall(r"`(\w+)`", imported), *(PUBLIC if "public names" in imported else ())}
            documented |= dict.fromkeys(re.findall(r"`(\w+)`", parts), names - SHARED)
    merged: dict[str, set[str]] = {}
    for part, allowed in LAYERS.items():
        top = part.partition(".")[0]
        merged.setdefault(top, set()).update(name.partition(".")[0] for name in allowed - SHARED)
    assert documented == {p: names - {p} for p, names in merged.items() if p not in ("", "__main__")}


FOLDERS = [
    "simd",
    "model",
    "noise",
    "terms",
    "pairs",
    "sampling",
    "outcomes",
    "planner",
    "rows",
    "paper",
    "module",
]


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_of_the_core_include_only_those_before_them(folder: str) -> None:
    above = {*FOLDERS[: FOLDERS.index(folder) + 1]}
    for path in (ROOT / "src" / "core" / folder).glob("*.?pp"):
        if path.stem == "kernels" and folder == "simd":
            continue  # the list of the kernels of other folders
        found = set(re.findall(r'#include "(\w+)/', path.read_text()))
        assert found <= above, path


def test_dir_is_the_public_api() -> None:
    code = "import predgap; print(*(name for name in dir(predgap) if name[0] != '_'))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(shown.split()) == {*predgap.__all__, *PUBLIC} - {""}
