"""The class `Explainer`, the main entry point of predgap, and `Approximation`, its faster variant."""

from predgap.explainer._approximation import Approximation
from predgap.explainer._explainer import Explainer

__all__ = ["Approximation", "Explainer"]
