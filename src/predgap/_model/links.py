"""The link of a model: how what it predicts follows from its margins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np

from predgap._text import shown
from predgap._typing import FloatArray
from predgap.errors import EnsembleError

Kind = Literal["identity", "logistic", "softmax", "other"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

ROUNDED: Final = 1e-15  # how far probabilities of several classes, and 1 minus them, may be off


@dataclass(frozen=True, slots=True)
class Link:
    """The link that gives the probabilities of classes from margins.

    Parameters
    ----------
    kind : {"identity", "logistic", "softmax", "other"}
        "identity": margins are probabilities, as of forests. "logistic": each output alone has the
        probability 1 / (1 + exp(-scale * margin)). "softmax": exp(scale * margin), divided by the sum over
        outputs. "other": what the model predicts is not the margin, and predgap does not compute it, such as
        the exponential of a Poisson regressor.
    scale : float, default=1.0
        The factor of margins in "logistic" and "softmax"; 1 otherwise.

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
        has_scale = self.kind in ("logistic", "softmax")
        is_number = isinstance(self.scale, int | float) and not isinstance(self.scale, bool)
        if not is_number or not 0 < self.scale < np.inf or (self.scale != 1 and not has_scale):
            raise EnsembleError(f"the link {self.kind!r} has the scale {shown(self.scale)}")

    @property
    def gives_probabilities(self) -> bool:
        """True if probabilities are known from margins."""
        return self.kind != "other"

    def probabilities(self, margins: FloatArray) -> FloatArray:
        """The probabilities of margins; both (n_outputs, m)."""
        if self.kind == "identity":
            return margins
        if self.kind == "logistic":
            return logistic(self.scale * margins)
        powers: FloatArray = np.exp(self.scale * (margins - margins.max(axis=0)))
        shares: FloatArray = powers / powers.sum(axis=0)
        return shares

    def differences(self, margins: FloatArray, changes: FloatArray) -> FloatArray:
        """The changes of probabilities when margins (n_outputs, 1) change; both changes are (n_outputs,
        m)."""
        if self.kind == "identity":
            return changes
        if self.kind == "softmax":
            return self.probabilities(margins + changes) - self.probabilities(margins)
        before, by = self.scale * margins, self.scale * changes
        difference: FloatArray = -logistic(before + by) * logistic(-before) * np.expm1(-by)
        # exp(-by) overflows only where the probability falls to 0
        return np.where(by < -700.0, logistic(before + by) - logistic(before), difference)

    def ranges(self, least: FloatArray, most: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The smallest and the largest probability of each class, for margins between two (n_outputs,)."""
        if self.kind != "softmax":
            low, high = (self.probabilities(at[:, None])[:, 0] for at in (least, most))
            return low, high
        own = np.eye(len(least), dtype=np.bool_)  # column j: the margin of class j against all others
        low, high = (
            np.diagonal(self.probabilities(np.where(own, mine[:, None], others[:, None])))
            for mine, others in ((least, most), (most, least))
        )
        return low, high

    def slopes(self, least: FloatArray, most: FloatArray, output: int | None = None) -> tuple[float, float]:
        """The smallest and the largest slope of probabilities, for margins between two (n_outputs,).

        The changes of probabilities, of one output or of all as a Euclidean norm, are between these multiples
        of the changes of margins, as a Euclidean norm over all outputs.
        """
        if self.kind == "identity":
            return 1.0, 1.0
        if self.kind == "logistic":
            nearest = np.where((least <= 0) & (most >= 0), 0.0, np.minimum(np.abs(least), np.abs(most)))
            farthest = np.maximum(np.abs(least), np.abs(most))
            low, high = (_logistic_slope(self.scale, at) for at in (farthest, nearest))
            return float(low.min()), float(high.max())
        low, high = self.ranges(least, most)
        at = np.clip(0.5, low, high)
        steepest = self.scale * (at * (1.0 - at) + ROUNDED)  # the largest p (1 - p) of each class
        if output is None:  # the Jacobian diag(p) - pp' has rows whose sizes sum to 2 p (1 - p)
            return 0.0, 2.0 * float(steepest.max())
        # The gradient of p has the norm p sqrt((1 - p)² + Σ p_j²), where the other p_j sum to 1 - p.
        return 0.0, float(np.sqrt(2.0) * steepest[output])


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
