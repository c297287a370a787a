"""The class `Explainer`, the main entry point of predgap; `Approximation`, its faster variant; `Sweep`."""

from predgap._engine.results import Moments, Sensitivity
from predgap.explainer.approximation import Approximation
from predgap.explainer.batches import BatchFunction
from predgap.explainer.explainer import Explainer
from predgap.explainer.sweep import Sweep

__all__ = ["Approximation", "BatchFunction", "Explainer", "Moments", "Sensitivity", "Sweep"]
