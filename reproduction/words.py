"""How pages call things, and how they write numbers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from reproduction.common.results import Value

DATASET_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "wine": "Red Wine Quality",
        "housing": "California Housing",
        "telemetry": "Parkinson Telemonitoring",
        "diabetes": "Diabetes",
    }
)
METHOD_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"mc": "Monte Carlo", "halton": "Halton", "sobol": "Sobol", "shap": "SHAP", "greedy": "greedy"}
)


def ranking_name(method: Value, scale: Value) -> str:
    """What a ranking is called.

    Examples
    --------
    >>> ranking_name("shap", None), ranking_name("greedy", 0.1)
    ('SHAP', 'greedy σ = 0.1')
    """
    return "SHAP" if scale is None else f"{METHOD_NAMES[str(method)]} σ = {scale:g}"


def dataset_name(name: Value) -> str:
    """What a data set is called.

    Examples
    --------
    >>> dataset_name("wine"), dataset_name("tiny")
    ('Red Wine Quality', 'tiny')
    """
    return DATASET_NAMES.get(str(name), str(name))


def model_name(row: Mapping[str, Any]) -> str:
    """What the model of a row is called.

    Examples
    --------
    >>> model_name({"kind": "Bigger", "dataset": "wine"})
    'Bigger, Red Wine Quality'
    """
    return f"{row['kind']}, {dataset_name(row['dataset'])}"


def number(value: Value) -> str:
    """Three decimals or four digits, as the paper writes numbers; a dash for none.

    Examples
    --------
    >>> number(0.13125), number(334_643_000.0), number(1e-5), number(None), number(7), number(0.0)
    ('0.131', '3.346e+08', '1e-05', '–', '7', '0')
    """
    if value is None:
        return "–"
    if isinstance(value, int | str):
        return str(value)
    if value == 0:
        return "0"
    return f"{value:.3f}" if 0.001 <= abs(value) < 10_000 else f"{value:.4g}"


def share(value: Value) -> str:
    """A share as per cent.

    Examples
    --------
    >>> share(0.123), share(None), share(0.0004)
    ('12.3 %', '–', '0.04 %')
    """
    if value is None:
        return "–"
    percent = 100 * float(value)
    return f"{percent:.1f} %" if percent == 0 or abs(percent) >= 0.1 else f"{percent:.1g} %"


def duration(seconds: Value) -> str:
    """A time with its unit.

    Examples
    --------
    >>> duration(1.5e-5), duration(0.0042), duration(3.0), duration(None)
    ('15 µs', '4.2 ms', '3 s', '–')
    """
    if seconds is None:
        return "–"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if float(seconds) >= size:
            return f"{float(seconds) / size:.3g} {unit}"
    return f"{float(seconds) * 1e6:.3g} µs"
