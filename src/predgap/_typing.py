"""Type aliases that several modules use."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int32]
IndexArray = NDArray[np.intp]

Progress = Callable[[int, int], object]
"""A function that is called with the number of rows or steps done, and the number of all."""
