"""Exact squared prediction gaps for tree ensembles: how faithful is a feature ranking?"""

from predgap import metrics, plots
from predgap._engine.results import Bracket, Cost, GapEstimate
from predgap._inputs.categories import Categories
from predgap._model.ensemble import Ensemble
from predgap._model.links import Link
from predgap.errors import (
    CostError,
    DependencyError,
    EnsembleError,
    LoaderError,
    NoiseError,
    OutputError,
    PredgapError,
    RankingError,
    RunError,
    ShapeError,
    SubsetError,
    TableError,
    UnsupportedModelError,
)
from predgap.evaluation import Evaluation, evaluate
from predgap.explainer import BatchFunction, Explainer, Moments, Sensitivity, Sweep
from predgap.loaders import load
from predgap.loaders.differences import difference
from predgap.noise import (
    Background,
    Clipped,
    Discrete,
    Flip,
    FromScipy,
    Laplace,
    Marginal,
    Noise,
    Normal,
    PerFeature,
    Redraw,
    Relative,
    Rounded,
    Stay,
    StudentT,
    Uniform,
)
from predgap.ranking import Ranking

__version__ = "0.1.0"

__all__ = [
    "Background",
    "BatchFunction",
    "Bracket",
    "Categories",
    "Clipped",
    "Cost",
    "CostError",
    "DependencyError",
    "Discrete",
    "Ensemble",
    "EnsembleError",
    "Evaluation",
    "Explainer",
    "Flip",
    "FromScipy",
    "GapEstimate",
    "Laplace",
    "Link",
    "LoaderError",
    "Marginal",
    "Moments",
    "Noise",
    "NoiseError",
    "Normal",
    "OutputError",
    "PerFeature",
    "PredgapError",
    "Ranking",
    "RankingError",
    "Redraw",
    "Relative",
    "Rounded",
    "RunError",
    "Sensitivity",
    "ShapeError",
    "Stay",
    "StudentT",
    "SubsetError",
    "Sweep",
    "TableError",
    "Uniform",
    "UnsupportedModelError",
    "difference",
    "evaluate",
    "load",
    "metrics",
    "plots",
]
