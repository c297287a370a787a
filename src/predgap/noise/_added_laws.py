"""Laws that add a number with a symmetric density to x: normal, uniform, Laplace, Student's t."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predgap._typing import FloatArray
from predgap.errors import NoiseError
from predgap.noise._areas import (
    Areas,
    Beyond,
    laplace_beyond,
    normal_beyond,
    student_beyond,
    symmetric_areas,
    uniform_beyond,
)
from predgap.noise._laws import Law, positive
from predgap.noise._shifts import Shift, laplace_shift, normal_shift, student_shift, uniform_shift
from predgap.noise._tails import Tails, laplace_tails, normal_tails, student_tails, uniform_tails


class ContinuousLaw(Law):
    """x' = x + δ, where δ has a density, the same for -δ."""

    __slots__ = ()

    @property
    def continuous(self) -> bool:
        return True

    def areas(self, x: float, low: FloatArray, high: FloatArray) -> Areas:
        return symmetric_areas(lambda u: self._tails_of(0.0, u)[1], self.beyond, x, low, high)

    @abstractmethod
    def beyond(self, u: FloatArray) -> Beyond:
        """What is beyond distances u (k,), at least 0."""

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        if x.dtype == object:
            raise NoiseError(f"{self!r} is for numbers, but a column holds {x[0]!r}")
        return x + self.draw(len(x), rng)

    @abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """n independent δ."""


@dataclass(frozen=True, slots=True)
class NormalLaw(ContinuousLaw):
    """δ is normal with mean 0 and standard deviation `scale`."""

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive(self.scale, "scale"))

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        return normal_tails(x, thresholds, self.scale)

    def shift(self, x: float, thresholds: FloatArray) -> Shift:
        return normal_shift(x, thresholds, self.scale)

    def beyond(self, u: FloatArray) -> Beyond:
        return normal_beyond(u, self.scale)

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        return rng.normal(0.0, self.scale, n)


@dataclass(frozen=True, slots=True)
class UniformLaw(ContinuousLaw):
    """δ is uniform on [-half_width, half_width]."""

    half_width: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "half_width", positive(self.half_width, "half_width"))

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        return uniform_tails(x, thresholds, self.half_width)

    def shift(self, x: float, thresholds: FloatArray) -> Shift:
        return uniform_shift(x, thresholds, self.half_width)

    def beyond(self, u: FloatArray) -> Beyond:
        return uniform_beyond(u, self.half_width)

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        return self.half_width * rng.uniform(-1.0, 1.0, n)  # the width of the interval may overflow


@dataclass(frozen=True, slots=True)
class LaplaceLaw(ContinuousLaw):
    """δ has the density exp(-|δ| / scale) / (2 scale)."""

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive(self.scale, "scale"))

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        return laplace_tails(x, thresholds, self.scale)

    def shift(self, x: float, thresholds: FloatArray) -> Shift:
        return laplace_shift(x, thresholds, self.scale)

    def beyond(self, u: FloatArray) -> Beyond:
        return laplace_beyond(u, self.scale)

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        return rng.laplace(0.0, self.scale, n)


@dataclass(frozen=True, slots=True)
class StudentTLaw(ContinuousLaw):
    """δ is `scale` times a number from Student's t distribution with `df` degrees of freedom."""

    df: float
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "df", positive(self.df, "df"))
        object.__setattr__(self, "scale", positive(self.scale, "scale"))

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        return student_tails(x, thresholds, self.df, self.scale)

    def shift(self, x: float, thresholds: FloatArray) -> Shift:
        self._check_variance()
        return student_shift(x, thresholds, self.df, self.scale)

    def beyond(self, u: FloatArray) -> Beyond:
        self._check_variance()
        return student_beyond(u, self.df, self.scale)

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        return self.scale * rng.standard_t(self.df, n)

    def _check_variance(self) -> None:
        if self.df <= 2:
            raise NoiseError(f"StudentT with {self.df:g} degrees of freedom has no variance; use more than 2")
