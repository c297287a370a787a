"""The link of a classifier: how the probabilities of classes follow from its margins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np

from predgap._text import shown
from predgap._typing import FloatArray
from predgap.errors import EnsembleError

Kind = Literal["identity", "logistic", "softmax"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Link:
    """How the probabilities of classes follow from margins.

    Parameters
    ----------
    kind : {"identity", "logistic", "softmax"}
        "identity": margins are probabilities, as of forests. "logistic": each output alone has the
        probability 1 / (1 + exp(-scale * margin)). "softmax": exp(margin), divided by the sum over outputs.
    scale : float, default=1.0
        The factor of margins in "logistic"; 1 otherwise.

    Examples
    --------
    >>> Link("logistic").probabilities(np.array([[0.0, 100.0]]))
    array([[0.5, 1. ]])
    """

    kind: Kind
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise EnsembleError(f"a link is {shown(self.kind)}, expected one of {', '.join(KINDS)}")
        is_number = isinstance(self.scale, int | float) and not isinstance(self.scale, bool)
        if not is_number or not 0 < self.scale < np.inf or (self.scale != 1 and self.kind != "logistic"):
            raise EnsembleError(f"the link {self.kind!r} has the scale {shown(self.scale)}")

    def probabilities(self, margins: FloatArray) -> FloatArray:
        """The probabilities of margins; both (n_outputs, m)."""
        if self.kind == "identity":
            return margins
        if self.kind == "logistic":
            return logistic(self.scale * margins)
        powers: FloatArray = np.exp(margins - margins.max(axis=0))
        shares: FloatArray = powers / powers.sum(axis=0)
        return shares

    def differences(self, margins: FloatArray, changes: FloatArray) -> FloatArray:
        """How much probabilities change when margins (n_outputs, 1) change, both (n_outputs, m)."""
        if self.kind == "identity":
            return changes
        if self.kind == "softmax":
            return self.probabilities(margins + changes) - self.probabilities(margins)
        before, by = self.scale * margins, self.scale * changes
        difference: FloatArray = -logistic(before + by) * logistic(-before) * np.expm1(-by)
        # exp(-by) overflows only where the probability falls to 0
        return np.where(by < -700.0, logistic(before + by) - logistic(before), difference)

    def slopes(self, least: FloatArray, most: FloatArray) -> tuple[float, float]:
        """The smallest and the largest slope of probabilities, for margins between two (n_outputs,).

        The changes of probabilities are between these multiples of the changes of margins, as Euclidean norms
        over all outputs.
        """
        if self.kind == "identity":
            return 1.0, 1.0
        if self.kind == "softmax":  # the Jacobian diag(p) - pp' has norms from 0 to 1/2
            return 0.0, 0.5
        nearest = np.where((least <= 0) & (most >= 0), 0.0, np.minimum(np.abs(least), np.abs(most)))
        farthest = np.maximum(np.abs(least), np.abs(most))
        low, high = (_logistic_slope(self.scale, at) for at in (farthest, nearest))
        return float(low.min()), float(high.max())


ONE_CLASS_SLOPE: Final = float(np.sqrt(2.0) / 4.0)
"""The largest slope of one probability of a softmax: the norm of its gradient, p sqrt((1 - p)² + Σ p_j²)."""


def _logistic_slope(scale: float, margin: FloatArray) -> FloatArray:
    return scale * logistic(scale * margin) * logistic(-scale * margin)


def logistic(z: FloatArray) -> FloatArray:
    """1 / (1 + exp(-z)), with the digits of both tails."""
    small: FloatArray = np.exp(-np.abs(z))
    return np.asarray(np.where(z < 0, small, 1.0) / (1.0 + small), dtype=np.float64)


def as_list(link: Link | None) -> list[Any] | None:
    """A link as a file holds it."""
    return None if link is None else [link.kind, float(link.scale)]


def from_list(stated: Any) -> Link | None:
    """A link from what a file holds; EnsembleError if it is not valid."""
    if stated is None:
        return None
    if not isinstance(stated, list) or len(stated) != 2:
        raise EnsembleError(f"the link is {shown(stated)}, expected a name and a scale")
    return Link(*stated)
