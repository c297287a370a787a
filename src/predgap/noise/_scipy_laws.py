"""Laws of SciPy's distributions. They are recognised by their attributes: importing scipy.stats is slow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._text import shown
from predgap._typing import FloatArray
from predgap.errors import NoiseError
from predgap.noise._laws import Law, may_be_missing
from predgap.noise._tails import Tails, tails_from

_FREEZE: Final = "expected a frozen univariate SciPy distribution such as scipy.stats.norm(scale=0.3)"


@dataclass(frozen=True, slots=True)
class ScipyLaw(Law):
    """x' = x + δ, where δ has a frozen SciPy distribution. Tails are as accurate as its cdf and sf."""

    frozen: Any

    def __post_init__(self) -> None:
        _check_frozen(self.frozen)
        self.tails(np.zeros(1), np.array([-1.0, 0.0, 1.0]))  # raises now if the parameters are invalid

    def tails(self, x: FloatArray, thresholds: FloatArray) -> Tails:
        if not hasattr(self.frozen, "pmf"):
            with np.errstate(over="ignore"):  # an overflow to infinity gives the right tails, 0 and 1
                delta = thresholds[None, :] - x[:, None]
            below, above = self.frozen.cdf(delta), self.frozen.sf(delta)
        elif hasattr(self.frozen.dist, "xk"):
            below, above = _listed_tails(self.frozen, x, thresholds)
        else:
            below, above = _lattice_tails(self.frozen, x[:, None], thresholds[None, :])
        if np.isnan(below).any() or np.isnan(above).any():
            raise NoiseError(
                f"{show_frozen(self.frozen)} has probabilities that are NaN; check its parameters"
            )
        return np.asarray(below, dtype=np.float64), np.asarray(above, dtype=np.float64)

    @property
    def continuous(self) -> bool:
        return not hasattr(self.frozen, "pmf")

    def sample(self, x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        if x.dtype == object:
            raise NoiseError(f"{show_frozen(self.frozen)} is for numbers, but a column holds {x[0]!r}")
        drawn: FloatArray = x + self.frozen.rvs(size=len(x), random_state=rng)
        return drawn

    def avoiding(self, low: float, high: float) -> Law:
        if hasattr(self.frozen, "pmf") and low <= high:
            raise may_be_missing(repr(self), 0.5 * low + 0.5 * high)
        return self

    def __repr__(self) -> str:
        return f"FromScipy({show_frozen(self.frozen)})"


def show_frozen(frozen: Any) -> str:
    """A frozen distribution as a user would write it, e.g. t(df=5, scale=0.3)."""
    name = getattr(frozen.dist, "name", None) or type(frozen.dist).__name__
    parts = [repr(value) for value in frozen.args] + [
        f"{key}={value!r}" for key, value in frozen.kwds.items()
    ]
    return f"{name}({', '.join(parts)})"


def _check_frozen(frozen: Any) -> None:
    if hasattr(frozen, "freeze") and not hasattr(frozen, "dist"):
        name = getattr(frozen, "name", None) or type(frozen).__name__
        raise NoiseError(f"the distribution {name} is not frozen; call it first, as in {name}(...)")
    if not all(hasattr(frozen, part) for part in ("cdf", "sf", "dist", "args", "kwds")):
        raise NoiseError(f"FromScipy got {shown(frozen)} ({type(frozen).__name__}), {_FREEZE}")
    shape = np.shape(frozen.cdf(0.0))
    if shape:
        raise NoiseError(
            f"{show_frozen(frozen)} has parameters of shape {shape}, expected single numbers; to give each "
            "feature its own distribution, use PerFeature"
        )
    with np.errstate(invalid="ignore"):  # loc=inf
        support = frozen.support()
    if np.isnan(support).any():
        raise NoiseError(f"the support of {show_frozen(frozen)} is NaN; check its parameters")


def _location(frozen: Any) -> tuple[tuple[Any, ...], dict[str, Any], float]:
    """Shape parameters and loc of a frozen discrete distribution."""
    n_shapes = frozen.dist.numargs
    shapes, rest = frozen.args[:n_shapes], frozen.args[n_shapes:]
    named = {key: value for key, value in frozen.kwds.items() if key != "loc"}
    return shapes, named, float(rest[0] if rest else frozen.kwds.get("loc", 0.0))


def _lattice_tails(frozen: Any, x: FloatArray, thresholds: FloatArray) -> tuple[Any, Any]:
    """Tails of x + δ for δ = loc + k with integers k, from SciPy's tails at the first k with x + δ >= t."""
    shapes, named, loc = _location(frozen)
    first = np.ceil(thresholds - x - loc)
    # t - x - loc may have been rounded across an integer. What counts is the rounded sum x + (k + loc).
    first = np.where(x + (first - 1 + loc) >= thresholds, first - 1, first)
    first = np.where(x + (first + loc) < thresholds, first + 1, first)
    # Without loc, because SciPy's floor(k + loc - loc) may round to k - 1.
    return frozen.dist.cdf(first - 1, *shapes, **named), frozen.dist.sf(first - 1, *shapes, **named)


def _listed_tails(frozen: Any, x: FloatArray, thresholds: FloatArray) -> Tails:
    """Tails of a distribution that is given by its values and probabilities, rv_discrete(values=...)."""
    *_, loc = _location(frozen)
    delta, p = np.asarray(frozen.dist.xk) + loc, np.asarray(frozen.dist.pk, dtype=np.float64)
    first = np.array([np.searchsorted(row + delta, thresholds) for row in x], dtype=np.intp)
    return tails_from(p, first.reshape(len(x), len(thresholds)))
