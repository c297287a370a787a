"""The class `Explainer`, the main entry point of predgap; `Approximation`, its faster variant; `Sweep`."""

from types import FunctionType

from predgap.explainer._approximation import Approximation
from predgap.explainer._batches import BatchFunction
from predgap.explainer._explainer import Explainer
from predgap.explainer._spread_results import Moments, Sensitivity
from predgap.explainer._sweep import Sweep

__all__ = ["Approximation", "BatchFunction", "Explainer", "Moments", "Sensitivity", "Sweep"]

for _class in Explainer.__mro__:  # a TypeError about arguments names the class that users know
    for _name, _method in vars(_class).items():
        if isinstance(_method, FunctionType):
            _method.__qualname__ = f"{Explainer.__name__}.{_name}"
