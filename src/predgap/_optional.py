"""Checks that the packages of an extra (such as `predgap[demo]`) are installed."""

from __future__ import annotations

import importlib.util
from typing import Final

from predgap.errors import DependencyError

_PACKAGES: Final = {  # by extra: modules, and the packages that have them
    "dask": {"dask": "dask", "distributed": "distributed", "pandas": "pandas", "pyarrow": "pyarrow"},
    "demo": {
        "xgboost": "xgboost",
        "sklearn": "scikit-learn",
        "matplotlib": "matplotlib",
        "jinja2": "jinja2",
    },
    "report": {"jinja2": "jinja2"},  # the extra has matplotlib, too, which the page does not need
    "spark": {"pyspark": "pyspark", "pyarrow": "pyarrow"},
}


def require(what: str, extra: str) -> None:
    """Raises DependencyError unless all packages of an extra are installed; `what` needs them.

    Call it before long work begins, so that it does not fail at its end.
    """
    *first, last = _PACKAGES[extra].values()
    needed = f"{', '.join(first)} and {last}" if first else last
    missing = [name for module, name in _PACKAGES[extra].items() if not _installed(module)]
    if missing:
        raise DependencyError(
            f"{what} needs {needed}; not installed: {', '.join(missing)}. Try: pip install 'predgap[{extra}]'"
        )


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # set to None in sys.modules
        return False
