"""Noise: how the features of a row are perturbed. An `Explainer` takes one.

A `Noise` may be the same for all features, or given by feature name or index. For a given model it becomes
one `Law` per feature, which gives the probability that the perturbed value x' is below a threshold, or is a
given category.
"""

from predgap.noise.added import FromScipy, Laplace, Normal, StudentT, Uniform
from predgap.noise.background import Background
from predgap.noise.combined import Clipped, PerFeature, Redraw, Rounded, Stay
from predgap.noise.law import Law
from predgap.noise.noise import Noise
from predgap.noise.relative import Relative
from predgap.noise.replaced import Discrete, Flip, Marginal

__all__ = [
    "Background",
    "Clipped",
    "Discrete",
    "Flip",
    "FromScipy",
    "Laplace",
    "Law",
    "Marginal",
    "Noise",
    "Normal",
    "PerFeature",
    "Redraw",
    "Relative",
    "Rounded",
    "Stay",
    "StudentT",
    "Uniform",
]
