"""What the reproduction uses of predgap, which knows nothing of it; and the order of its own modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import predgap
import reproduction
from predgap import algorithm1

HERE = Path(reproduction.__file__).parent
SOURCES = sorted(path for path in HERE.rglob("*.py") if "tests" not in path.relative_to(HERE).parts)

PUBLIC = {
    *("CostError", "DependencyError", "PredgapError"),
    *("Ensemble", "Explainer", "Marginal", "Normal", "Ranking"),
    *("__version__", "load"),
}
ALGORITHM_1 = {"algorithm1_gap", "instruction_set", "sums_of_squares"}

ORDER = [
    "helpers",
    "published",
    "data",
    "results",
    "models",
    "ties",
    "experiments",
    "cells",
    "judging",
    "claims",
    "run",
    "page",
    "figures",
    "sections",
    "__main__",
]
"""Each module imports only those before it."""


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """The modules and names that a module imports anywhere, functions included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((str(node.module), alias.name) for alias in node.names)


def attributes(path: Path) -> set[str]:
    """What a module takes of `predgap` after `import predgap`."""
    return {
        node.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "predgap"
    }


def test_it_uses_these_names_of_predgap_and_no_others():
    found = {(module, name) for path in SOURCES for module, name in imports(path)}
    used = {(module, name) for module, name in found if module.partition(".")[0] == "predgap"}
    whole = {name for path in SOURCES for name in attributes(path)}
    assert {name for module, name in used if module == "predgap.algorithm1"} == ALGORITHM_1
    assert {name for module, name in used if module == "predgap" and name} | whole - {"__file__"} == PUBLIC
    assert {module for module, _ in used} == {"predgap", "predgap.algorithm1"}
    assert PUBLIC - {"__version__"} <= set(predgap.__all__)
    assert set(algorithm1.__all__) == ALGORITHM_1


def test_nothing_private_of_predgap_is_reached_through_its_objects():
    private = {
        (path.name, node.attr)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    }
    assert private == set()


def test_modules_import_those_before_them():
    modules = {path.relative_to(HERE).parts[0].removesuffix(".py") for path in SOURCES} - {"__init__"}
    assert modules == set(ORDER)
    for path in SOURCES:
        own = path.relative_to(HERE).parts[0].removesuffix(".py")
        for module, name in imports(path):
            if module.partition(".")[0] == "reproduction":
                other = [*module.split("."), name][1]
                assert other == own or ORDER.index(other) < ORDER.index(own), (path, module, name)


def test_predgap_does_not_import_it():
    for path in Path(predgap.__file__).parent.rglob("*.py"):
        assert not any(module.partition(".")[0] == "reproduction" for module, _ in imports(path)), path
