"""Turns the splits of models that round rows to float32 into splits of rows that are not rounded.

XGBoost, CatBoost, most of scikit-learn, and models of ONNX and treelite in single precision round a row to
float32 before they compare. Which way a float32 goes at a threshold follows from the number before it was
rounded: there is a float64 from which on all numbers round to the threshold or above. The loaders replace
each threshold by that number, once. So a row stays as it is given, noise is added to it, and only the sum is
rounded, as the library would round it. Nothing behind the loaders knows of float32.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from predgap._typing import FloatArray

__all__ = ["LARGEST_CODE_OF_SINGLE", "fields_of_rows", "least_rounding_to"]

LARGEST_CODE_OF_SINGLE: Final = (1 << 24) - 1
"""Up to here no two whole numbers are the same in float32."""

_BEYOND_SINGLES: Final = 2.0**128  # float32 would go on with this number, if it did not end


def fields_of_rows(
    kind: type[np.floating[Any]],
    threshold: FloatArray,
    *,
    missing: float = float("nan"),
    accepts_infinity: bool = True,
) -> dict[str, Any]:
    """The fields of an `Ensemble` that say how it compares rows, for a library that rounds rows to `kind`.

    Parameters
    ----------
    kind : type
        `numpy.float32` or `numpy.float64`.
    threshold : (n_nodes,) floats
        The library sends a row left iff `kind(x) < threshold`. One that is not finite stays as it is.
    missing : float, default=nan
        The library takes x for missing if `kind(x) == kind(missing)`.
    accepts_infinity : bool, default=True
        Whether the library takes infinite values, and those that it rounds to infinity.

    Returns
    -------
    dict
        `threshold`, `missing`, `missing_range` and `largest`.

    Examples
    --------
    >>> fields = fields_of_rows(np.float32, np.array([1.0]), missing=0.0, accepts_infinity=False)
    >>> float(fields["threshold"][0]) == 1.0 - 2.0**-25
    True
    >>> fields["missing_range"] == (-(2.0**-150), 2.0**-150)
    True
    """
    if kind == np.float64:
        largest = float(np.finfo(np.float64).max)
        span = missing, missing
    else:
        threshold = np.where(np.isfinite(threshold), least_rounding_to(threshold), threshold)
        largest = float(np.nextafter(least_rounding_to(np.array(np.inf)), 0.0))
        span = _rounding_to(missing)
    return {
        "threshold": threshold,
        "missing": missing,
        "missing_range": span,
        "largest": np.inf if accepts_infinity else largest,
    }


def least_rounding_to(thresholds: FloatArray) -> FloatArray:
    """The least float64 that is at least t when it is rounded to float32, for each number t.

    So float32(z) < t holds for the same numbers z as z < least_rounding_to(t). For a float32 t this is the
    midpoint of t and the float32 below it, or the next float64 if the midpoint is rounded down.

    Examples
    --------
    >>> z = 1.0 - 2.0**-25  # halfway between two singles, and rounded up to 1.0
    >>> bool(least_rounding_to(np.array([1.0]))[0] == z), bool(np.float32(z) == 1.0)
    (True, True)
    """
    with np.errstate(over="ignore"):
        near = thresholds.astype(np.float32)
        upper = np.where(near >= thresholds, near, np.nextafter(near, np.float32(np.inf)))  # the single >= t
        lower = np.nextafter(upper, np.float32(-np.inf))  # the largest single below it
        ends = np.array([lower, upper], dtype=np.float64).clip(-_BEYOND_SINGLES, _BEYOND_SINGLES)
        midpoint: FloatArray = ends[0] / 2.0 + ends[1] / 2.0  # exact: singles have 24 bits, doubles 53
        rounds_up = midpoint.astype(np.float32) >= thresholds  # a tie goes to the single whose last bit is 0
    found: FloatArray = np.where(rounds_up, midpoint, np.nextafter(midpoint, np.inf))
    return np.where(upper == -np.inf, -np.inf, found)


def _rounding_to(value: float) -> tuple[float, float]:
    """The least and the largest float64 that are rounded to the same float32 as `value`."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
        above = np.nextafter(single, np.float32(np.inf))
    if np.isnan(single):
        return value, value
    low = float(least_rounding_to(np.array(single, dtype=np.float64)))
    if above == single:  # infinity
        return low, float(single)
    return low, float(np.nextafter(least_rounding_to(np.array(above, dtype=np.float64)), -np.inf))
