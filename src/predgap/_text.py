"""Helps to write messages and files: escaped names, lists, plurals, shares, hints and warnings.

`require` says which packages of an extra, such as `predgap[demo]`, are missing.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Final

from predgap.errors import DependencyError

_PACKAGE: Final = os.path.join(os.path.dirname(__file__), "")
_LONGEST: Final = 60  # characters of a value in a message
_LONGEST_TEXT: Final = 300  # of a text, which may be a path or a name


def printable(text: str) -> str:
    r"""`text` on one line, with control and invisible characters written out.

    A name may hold line breaks, terminal escapes or marks that reverse the direction of writing; none
    of them may act on the terminal or the page that shows it.

    Examples
    --------
    >>> print(printable("age\n\x1b[31mred"))
    age\n\x1b[31mred
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def no_formula(name: str) -> str:
    """The name, with an apostrophe in front if a spreadsheet would evaluate it as a formula.

    Examples
    --------
    >>> no_formula("=1+1"), no_formula("-x"), no_formula("-1.5")
    ("'=1+1", "'-x", '-1.5')
    """
    if not name.startswith(("=", "+", "-", "@", "\t", "\r")):
        return name
    try:
        float(name)
    except ValueError:
        return f"'{name}"
    return name


def names_or_default(n_features: int, feature_names: Sequence[str] | None) -> tuple[str, ...]:
    """The model's feature names, or else f0, f1, ..."""
    return tuple(feature_names) if feature_names is not None else tuple(f"f{j}" for j in range(n_features))


def format_items(items: Iterable[Any], limit: int = 8) -> str:
    """Items for an error message: the first few, and how many there are.

    Examples
    --------
    >>> format_items(["age", "bmi"])
    "'age', 'bmi'"
    >>> format_items(range(100), limit=3)
    '0, 1, 2, ... (100 in all)'
    """
    found = list(items)
    first = ", ".join(map(shown, found[:limit]))
    return first if len(found) <= limit else f"{first}, ... ({len(found)} in all)"


def shown(value: Any) -> str:
    """A value that a user gave, for an error message: on one line, and not longer than that.

    Examples
    --------
    >>> shown([1, 2])
    '[1, 2]'
    >>> shown(list(range(1000)))
    '[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 ... (a list of 1000)'
    >>> import numpy as np
    >>> shown(np.zeros((100, 3)))
    'an array of shape (100, 3)'
    """
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        kind = type(value).__name__
        return f"{'an array' if kind == 'ndarray' else f'a {kind}'} of shape {shape}"
    text = " ".join(repr(value).split())
    if len(text) <= (_LONGEST_TEXT if isinstance(value, str) else _LONGEST):
        return text
    size = f" of {len(value)}" if hasattr(value, "__len__") else ""
    return f"{text[:_LONGEST].rpartition(',')[0] or text[:_LONGEST]} ... (a {type(value).__name__}{size})"


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """The name that may have been meant, as the beginning of a sentence; empty if there is none.

    Examples
    --------
    >>> did_you_mean("vine", ["wine", "housing"])
    "did you mean 'wine'? "
    """
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}? " if close else ""


def with_article(noun: str) -> str:
    """A noun with its article: 'a list', 'an int'."""
    return f"{'an' if noun[:1].lower() in tuple('aeiou') else 'a'} {noun}"


def count(number: int, noun: str) -> str:
    """A number with its noun: '1 column', '2 columns'."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def warn(message: str | Warning) -> None:
    """Warns, at the line of the user's code that called the library."""
    frame, level = sys._getframe(1), 2
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)


def percent(share: float) -> int:
    """A share in per cent; 100 only if nothing is missing.

    Examples
    --------
    >>> percent(0.554), percent(0.999), percent(1.0)
    (55, 99, 100)
    """
    whole = round(100 * share)
    return 99 if whole == 100 and share < 1 - 1e-9 else whole


# ------------------------------------------------------------------------------------------------------------
# The packages of an extra (such as `predgap[demo]`) are installed, or a message says how.

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
