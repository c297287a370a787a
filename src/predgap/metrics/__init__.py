"""Other scores of rankings and attributions, exact where they can be.

All take an explainer, rows and a ranking, as `Explainer.pgi2` does, and give one number per row; those about
attributions need a ranking with scores, such as `Ranking.from_attributions` makes. `predgap.evaluate` takes
their names in `metrics`.
"""

from predgap.metrics._attributions import monotonicity_correlation
from predgap.metrics._infidelity import infidelity
from predgap.metrics._openxai import openxai_noise, openxai_pgi, openxai_pgu
from predgap.metrics._redrawing import (
    comprehensiveness,
    deletion,
    deletion_curve,
    feature_randomising,
    insertion,
    insertion_curve,
    remove_and_retrain,
    sufficiency,
)

__all__ = [
    "comprehensiveness",
    "deletion",
    "deletion_curve",
    "feature_randomising",
    "infidelity",
    "insertion",
    "insertion_curve",
    "monotonicity_correlation",
    "openxai_noise",
    "openxai_pgi",
    "openxai_pgu",
    "remove_and_retrain",
    "sufficiency",
]
