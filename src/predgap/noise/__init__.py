"""Noise: how the features of a row are perturbed. An `Explainer` takes one.

A `Noise` may be the same for all features, or given by feature name or index. For a given model it becomes
one `Law` per feature, which gives the probability that the perturbed value x' is below a threshold, or is a
given category.
"""

from predgap.noise._added import FromScipy, Normal, Uniform
from predgap.noise._background import Background
from predgap.noise._laws import Law
from predgap.noise._noise import Noise
from predgap.noise._per_feature import PerFeature
from predgap.noise._replaced import Discrete, Flip, Marginal

__all__ = [
    "Background",
    "Discrete",
    "Flip",
    "FromScipy",
    "Law",
    "Marginal",
    "Noise",
    "Normal",
    "PerFeature",
    "Uniform",
]
