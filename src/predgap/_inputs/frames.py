"""Makes frames of the library that a caller uses: pandas, Polars or PyArrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import narwhals as nw

from predgap.errors import DependencyError

BACKENDS: Final = ("pandas", "polars", "pyarrow")
"""The libraries, first choice first."""


def repeated_labels(labels: Any, times: int, backend: str | None) -> Any:
    """Each label `times` times; a pandas index keeps its dtype (time zones, categories)."""
    if hasattr(labels, "to_flat_index") and backend in (None, "pandas"):
        return labels.to_flat_index().repeat(times)
    return [label for label in labels for _ in range(times)]


def to_native(columns: Mapping[str, Any], backend: str | None = None) -> Any:
    """A frame of `backend` ("pandas", "polars", "pyarrow") with these columns of equal length.

    Without a backend, the first installed of pandas, Polars and PyArrow is taken.

    Examples
    --------
    >>> to_native({"feature": ["age", "bmi"], "place": [2, 1]}, "polars").columns
    ['feature', 'place']
    """
    candidates: tuple[Any, ...] = (backend,) if backend else BACKENDS
    for name in candidates:
        try:
            return nw.from_dict(dict(columns), backend=name).to_native()
        except ImportError:
            continue
    wanted = " or ".join(candidates)
    raise DependencyError(f"a frame needs {wanted}, not installed; try: pip install {candidates[0]}")
