"""The class `Explainer`, the main entry point of predgap; `Approximation`, its faster variant; `Sweep`."""

from predgap._engine.results import Moments, Sensitivity
from predgap.explainer._approximation import Approximation
from predgap.explainer._batches import BatchFunction
from predgap.explainer._sweep import Sweep
from predgap.explainer.explainer import Explainer

__all__ = ["Approximation", "BatchFunction", "Explainer", "Moments", "Sensitivity", "Sweep"]
