"""Packages that only some work needs."""

from __future__ import annotations

import importlib.util

from predgap.errors import DependencyError


def require(what: str, extra: str) -> None:
    """DependencyError if the packages that train models and draw pictures are not all installed.

    Asked before the work begins, so that nothing fails after an hour.
    """
    packages = {"xgboost": "xgboost", "sklearn": "scikit-learn", "matplotlib": "matplotlib"}
    missing = [name for module, name in packages.items() if not _installed(module)]
    if missing:
        raise DependencyError(
            f"{what} needs xgboost, scikit-learn and matplotlib; "
            f"not installed: {', '.join(missing)}. Try: pip install 'predgap[{extra}]'"
        )


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # set to None in sys.modules
        return False
