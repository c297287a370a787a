"""The metrics that `evaluate` knows by name: which way is better, what each needs, and how it is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from predgap import metrics
from predgap._engine.questions import Rows
from predgap._engine.results import Bracket
from predgap._typing import FloatArray
from predgap.errors import PredgapError
from predgap.explainer import Explainer
from predgap.metrics._infidelity import infidelity_of_slopes, known_laws
from predgap.metrics._redrawing import check_redrawn
from predgap.ranking import Ranking


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """A ranking that is to be scored, in some rows."""

    explainer: Explainer
    rows: Rows
    ranking: Ranking
    attributions: FloatArray | None  # with their signs, (n, d), if it was given by them
    y: FloatArray | None
    seed: int

    @property
    def has_sizes(self) -> bool:
        """Does it have an attribution of each feature?"""
        return self.ranking.scores is not None and bool(np.isfinite(self.ranking.scores).all())


class Metric(NamedTuple):
    """A score of rankings."""

    better: Literal["higher", "lower", "closer to 0"]
    score: Callable[[Scored], FloatArray | Bracket] | None = None  # None: from the curves
    check: Callable[[Explainer], Any] | None = None  # raises if the model or the noise does not fit
    needs: Literal["an order", "attributions", "signed attributions"] = "an order"


def _infidelity(subject: Scored) -> FloatArray:
    """Not by way of `metrics.infidelity`, which would turn the signs of a first class once more."""
    assert subject.attributions is not None
    laws = known_laws(subject.explainer)
    return infidelity_of_slopes(subject.explainer, subject.rows, subject.attributions, laws)


METRICS: Final[dict[str, Metric]] = {
    "pgi2": Metric("higher"),
    "pgu2": Metric("lower"),
    "deletion": Metric("lower", lambda s: metrics.deletion(s.explainer, s.rows, s.ranking), check_redrawn),
    "insertion": Metric("higher", lambda s: metrics.insertion(s.explainer, s.rows, s.ranking), check_redrawn),
    "comprehensiveness": Metric(
        "higher", lambda s: metrics.comprehensiveness(s.explainer, s.rows, s.ranking), check_redrawn
    ),
    "sufficiency": Metric(
        "closer to 0", lambda s: metrics.sufficiency(s.explainer, s.rows, s.ranking), check_redrawn
    ),
    "feature_randomising": Metric(
        "higher", lambda s: metrics.feature_randomising(s.explainer, s.rows, s.ranking, s.y), check_redrawn
    ),
    "monotonicity_correlation": Metric(
        "higher",
        lambda s: metrics.monotonicity_correlation(s.explainer, s.rows, s.ranking),
        needs="attributions",
    ),
    "openxai_pgi": Metric(
        "higher", lambda s: metrics.openxai_pgi(s.explainer, s.rows, s.ranking, seed=s.seed)
    ),
    "openxai_pgu": Metric(
        "lower", lambda s: metrics.openxai_pgu(s.explainer, s.rows, s.ranking, seed=s.seed)
    ),
    "infidelity": Metric(
        "lower",
        _infidelity,
        known_laws,
        "signed attributions",
    ),
}
"""By name; each is a function of `predgap.metrics`, but for those from the curves."""


def check_metrics(names: tuple[str, ...], explainer: Explainer, y: Any, places: int) -> None:
    """Raises what a metric would raise of this model, noise and call, before anything is computed."""
    for name in names:
        check = METRICS[name].check
        if check is None:
            continue
        try:
            check(explainer)
        except PredgapError as error:
            raise type(error)(f"metrics has {name!r}: {error}") from None
    if "feature_randomising" in names:
        if y is None:
            raise PredgapError("metrics has 'feature_randomising', which needs outcomes: evaluate(..., y=y)")
        if places == explainer.explained.n_units:
            raise PredgapError(
                "metrics has 'feature_randomising', which redraws all places of a ranking: with all features "
                "every ranking has the same score. Pass fewer places, such as evaluate(..., top=3)"
            )


def scored(name: str, subject: Scored) -> tuple[FloatArray | None, set[str]]:
    """The score of each row, (n,), and how it was obtained; None if the ranking lacks what it needs."""
    metric = METRICS[name]
    assert metric.score is not None
    if (metric.needs == "attributions" and not subject.has_sizes) or (
        metric.needs == "signed attributions" and subject.attributions is None
    ):
        return None, set()
    found = metric.score(subject)
    if isinstance(found, Bracket):
        return found.value, {*np.unique(found.method).tolist()}
    return found, {"exact"}
