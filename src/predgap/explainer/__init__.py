"""The explainer: a model and a noise, and everything that can be asked of them."""

from predgap.explainer._approximation import Approximation
from predgap.explainer._explainer import Explainer

__all__ = ["Approximation", "Explainer"]
