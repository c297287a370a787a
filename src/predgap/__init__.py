"""Exact squared prediction gaps for tree ensembles: how faithful is a feature ranking?"""

from predgap import plots
from predgap._engine.costs import Cost
from predgap._engine.estimates import GapEstimate
from predgap._inputs.categories import Categories
from predgap._model.ensemble import Ensemble
from predgap.errors import (
    CostError,
    DatasetError,
    DependencyError,
    EnsembleError,
    LoaderError,
    NoiseError,
    OutputError,
    PredgapError,
    RankingError,
    ShapeError,
    SubsetError,
    TableError,
    UnsupportedModelError,
)
from predgap.explainer import Explainer, Sweep
from predgap.loaders import load
from predgap.noise import Discrete, Flip, FromScipy, Marginal, Noise, Normal, PerFeature, Uniform
from predgap.ranking import Ranking

__version__ = "0.1.0"

__all__ = [
    "Categories",
    "Cost",
    "CostError",
    "DatasetError",
    "DependencyError",
    "Discrete",
    "Ensemble",
    "EnsembleError",
    "Explainer",
    "Flip",
    "FromScipy",
    "GapEstimate",
    "LoaderError",
    "Marginal",
    "Noise",
    "NoiseError",
    "Normal",
    "OutputError",
    "PerFeature",
    "PredgapError",
    "Ranking",
    "RankingError",
    "ShapeError",
    "SubsetError",
    "Sweep",
    "TableError",
    "Uniform",
    "UnsupportedModelError",
    "load",
    "plots",
]
