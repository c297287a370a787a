"""Types that modules share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int32]
IndexArray = NDArray[np.intp]

Progress = Callable[[int, int], object]
"""Told how much is done (rows or steps), and how much there is in all."""
