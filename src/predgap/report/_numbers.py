"""Numbers as people read them, and as short as the page's data needs them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from predgap._text import percent as whole_percent

_MISSING: Final = "–"


def number(value: float, digits: int = 4) -> str:
    """A number with some significant digits, and a dash for NaN.

    Examples
    --------
    >>> number(1234.56), number(0.000123456), number(1e-9), number(0.0), number(float("nan"))
    ('1235', '0.0001235', '1e−9', '0', '–')
    """
    if math.isnan(value):
        return _MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e7:
        return _signed(f"{value:.{_decimals(value, digits)}f}")
    mantissa, _, exponent = f"{value:.{max(0, digits - 1)}e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return _signed(f"{mantissa}e{int(exponent)}")


def column(values: Iterable[float], digits: int = 4) -> list[str]:
    """The numbers of a column, all with the decimals that the largest needs, so that they can be compared.

    Examples
    --------
    >>> column([123.456, 7.891, 0.0001])
    ['123.5', '7.9', '0.0001']
    """
    numbers = [float(value) for value in values]
    largest = max((abs(value) for value in numbers if math.isfinite(value)), default=0.0)
    if not 1e-4 <= largest < 1e7:
        return [number(value, digits) for value in numbers]
    decimals = _decimals(largest, digits)
    return [_in_column(value, decimals) for value in numbers]


def percent(share: float) -> str:
    """A share in percent, without decimals, as in the verdict: 100 only if nothing is missing.

    Examples
    --------
    >>> percent(0.554), percent(-0.02), percent(0.999), percent(float("nan"))
    ('55 %', '−2 %', '99 %', '–')
    """
    return _MISSING if not math.isfinite(share) else _signed(f"{whole_percent(share)} %")


def rounded(values: Any, digits: int = 4) -> Any:
    """Nested lists of the numbers of an array, rounded to significant digits; None for what is not finite.

    Whole numbers are ints, which are shorter in JSON.

    Examples
    --------
    >>> rounded(np.array([[1.23456789, 2.0], [np.nan, 1e-9]]))
    [[1.235, 2], [None, 1e-09]]
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim > 1:
        return [rounded(part, digits) for part in array]
    return [_short(value, digits) for value in array.tolist()]


def _short(value: float, digits: int) -> float | int | None:
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def _in_column(value: float, decimals: int) -> str:
    if not math.isfinite(value) or value == 0:
        return number(value)
    text = f"{value:.{decimals}f}"
    return _signed(text) if float(text) != 0 else number(value, 1)


def _decimals(value: float, digits: int) -> int:
    return max(0, digits - 1 - math.floor(math.log10(abs(value))))


def _signed(text: str) -> str:
    return text.replace("-", "−")
