"""`evaluate`: how faithful rankings are to a model, on the scale from random to the best possible."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from predgap._engine.context import checked_progress
from predgap._engine.questions import Rows
from predgap._engine.results import mean_of_curve
from predgap._engine.sampling import checked_seed
from predgap._inputs.tables import open_columns
from predgap._text import count, names_or_default, shown
from predgap._typing import FloatArray, IndexArray, Progress
from predgap.errors import CostError, PredgapError, TableError
from predgap.evaluation.answers import expected_cost
from predgap.evaluation.budget import Job, Outcome, checked_budget, examined_within
from predgap.evaluation.examination import Examined, Task, examined
from predgap.evaluation.joining import best_ranking, joined, notes, obtained
from predgap.evaluation.requests import Given, Request, given_attributions, given_order, read_requests
from predgap.evaluation.result import Evaluation
from predgap.evaluation.scoring import METRICS, check_metrics
from predgap.evaluation.words import OwnRankings
from predgap.explainer import Explainer
from predgap.explainer.explained import margins
from predgap.loaders.pipelines.raw_columns import RawColumns
from predgap.metrics._redrawing import read_outcomes

_USUAL: Final = ("pgi2", "pgu2")
_PRICED: Final = np.zeros(1, dtype=np.intp)  # the row whose cost stands for all: the price of many takes long


def evaluate(
    explainer: Explainer,
    X: Any,
    rankings: Sequence[Any] | Mapping[str, Any],
    *,
    y: Any = None,
    metrics: Sequence[str] = _USUAL,
    strengths: Any = None,
    top: int | None = None,
    budget: float | None = None,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> Evaluation:
    """Scores rankings against each other: can I trust my SHAP?

    Each ranking gets its PGI² in each row, and is placed between the expected score of a random ranking (0 %)
    and that of the best ranking (100 %).

    Parameters
    ----------
    explainer : Explainer
        The model and the noise.
    X : (n, d) array or frame
        The rows to explain. A few hundred are enough for most questions.
    rankings : sequence of words, or mapping from names to rankings
        A ranking is one of the words below; the path of a .csv or .parquet file; or anything that
        `Explainer.pgi2` takes: a `shap.Explanation`, a frame of attributions, a Series of importances, a
        Ranking, indices or names. An array of floats holds attributions, (n, d), or importances, (d,). A file
        has the columns row, place and feature, as `Ranking.to_frame` has, or one column of attributions per
        feature.

        - "greedy", "single", "optimal", "shapley": as `Explainer.rank` makes them.
        - "shap": by the absolute SHAP values that the model's library gives (XGBoost, LightGBM, CatBoost), or
          shap's TreeExplainer for scikit-learn; of voting, stacking and other sums of models, the sum of
          theirs. Those of a pipeline's columns are added up for each raw column, those of a group for the
          group. If several outputs are explained together, the absolute values of all outputs are added up.
        - "gain": by the gain of the model's library, one order for all rows: XGBoost's gain, LightGBM's gain,
          scikit-learn's `feature_importances_` (for HistGradientBoosting, which has none, the sum of the
          gains of its splits), CatBoost's PredictionValuesChange.
        - "permutation": by how much worse the trees fit y if a feature is shuffled; one order for all rows.
        - "random": a random order of each row.
    y : (n,) array or None, default=None
        The outcomes of the rows, for "permutation" and the metric "feature_randomising".
    metrics : sequence of str, default=("pgi2", "pgu2")
        The scores to compute; "pgi2" always is. Others are functions of `predgap.metrics`, which say what
        they mean and which noise they need: "deletion", "insertion", "comprehensiveness", "sufficiency",
        "feature_randomising" (with `y` and `top`), "monotonicity_correlation" (of rankings with
        attributions), "openxai_pgi", "openxai_pgu", and "infidelity" (of rankings that are given as signed
        attributions). A ranking that lacks what a metric needs has NaN, and a note says so.
    strengths : sequence of s positive numbers, or None, default=None
        Also score the rankings at these strengths of the noise; see `Explainer.sweep`.
    top : int or None, default=None
        How many places count; None for all. If a ranking that is given has fewer places, fewer count.
    budget : float or None, default=None
        Seconds that the call should take; None for no limit. If all rows would take longer, the tolerance is
        raised to 1e-3; if less than 100 rows fit then, the best ranking is looked for by a greedy search
        only, and the score of a random one is the mean of 8; if less than 10 fit, gaps are estimated; if that
        takes too long, `strengths` and other metrics than "pgi2" and "pgu2", which are not estimated, are
        left out; then rows are drawn at random. What is still not done when the time is over is given up, and
        the rows that are done are kept; one row (on each thread) is always done. `Evaluation.notes` says what
        was left out. Without a budget, `CostError` is raised if a row is too costly.
    seed : int, default=0
        Of rows that are drawn, random rankings, shuffles and bootstrap samples. The same seed gives the same
        numbers; a budget may change the number of rows.
    progress : callable, bool or None, default=None
        As in `Explainer`; None takes the explainer's own.

    Returns
    -------
    Evaluation
        Print it for a table, or ask for its `verdict()`.

    Raises
    ------
    RankingError
        If a ranking is none of the model's features, or a word cannot be made for this model.
    NoiseError, OutputError
        If a metric cannot use the noise, or needs one output.
    CostError
        If a row is too costly, and there is no budget.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> import predgap
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> tree = DecisionTreeRegressor(max_depth=3).fit(X, 2 * X[:, 0] + X[:, 1])
    >>> explainer = predgap.Explainer(tree, predgap.Normal(0.5), feature_names=["age", "bmi", "sex"])
    >>> found = predgap.evaluate(explainer, X, {"mine": ["age", "bmi", "sex"], "reversed": [2, 1, 0]})
    >>> [row["ranking"] for row in found.summary]
    ['mine', 'reversed']
    >>> found.summary[0]["normalized"] > found.summary[1]["normalized"]
    True
    """
    if not isinstance(explainer, Explainer):
        raise PredgapError(f"explainer is {shown(explainer)}, expected a predgap.Explainer")
    told = explainer.progress if progress is None else checked_progress(progress)
    seconds, seed = checked_budget(budget), checked_seed(seed)
    requests, rows = read_requests(rankings), explainer.explained.rows(X)
    if len(rows) == 0:
        raise TableError("X has no rows to evaluate; pass one or more")
    task = _task(explainer, X, rows, requests, y, _checked_metrics(metrics), strengths, top, seed)
    job = Job(
        explainer,
        len(rows),
        seed,
        lambda by, some, effort, context: examined(task, _quiet(by), some, effort, context),
        lambda by, effort: expected_cost(by, rows.at(_PRICED), task.places, effort, task.n_curves),
        task.prepare,
        task.has_more,
        told,
    )
    with _naming_the_budget(seconds):
        outcome = examined_within(seconds, job)
    found = joined(task, outcome.way.explainer, outcome.parts)
    return _evaluation(task, outcome, found, X, seconds)


@contextmanager
def _naming_the_budget(budget: float | None) -> Iterator[None]:
    """A context in which `CostError` says that a budget makes the evaluation affordable."""
    try:
        yield
    except CostError as error:
        if budget is not None:
            raise
        raise CostError(f"{error}. Or pass budget=60 to evaluate: what is too costly is estimated") from None


def _quiet(explainer: Explainer) -> Explainer:
    if explainer.progress is False:
        return explainer
    other = copy.copy(explainer)
    other.progress = False
    return other


def _task(
    explainer: Explainer,
    X: Any,
    rows: Rows,
    requests: tuple[Request, ...],
    y: Any,
    metrics: tuple[str, ...],
    strengths: Any,
    top: int | None,
    seed: int,
) -> Task:
    inputs = explainer.explained
    orders = {r.name: given_order(r, inputs, rows) for r in requests if r.word is None}
    places = min([inputs.places(top), *(order.shape[1] for order in orders.values())])
    check_metrics(metrics, explainer, y, places)
    if places < inputs.n_units:
        metrics = tuple(metric for metric in metrics if metric != "pgu2")
    own = OwnRankings(explainer, X, rows, y, seed)
    needed = any(METRICS[metric].needs != "an order" for metric in metrics)
    behind = {r.name: given_attributions(r, explainer, rows) if needed else Given() for r in requests}
    outcomes = read_outcomes(explainer, rows, y) if "feature_randomising" in metrics else None
    return Task(requests, rows, orders, behind, outcomes, own, places, metrics, strengths, seed)


def _checked_metrics(metrics: Any) -> tuple[str, ...]:
    given = [metrics] if isinstance(metrics, str) or not isinstance(metrics, Sequence) else metrics
    for metric in given:
        if not isinstance(metric, str) or metric not in METRICS:
            raise PredgapError(
                f"metrics has {shown(metric)}, expected one or more of {', '.join(map(repr, METRICS))}"
            )
    return ("pgi2", *(metric for metric in METRICS if metric in given and metric != "pgi2"))


def _evaluation(
    task: Task, outcome: Outcome[Examined], found: Examined, X: Any, budget: float | None
) -> Evaluation:
    explainer, rows = outcome.way.explainer, task.rows.at(found.some)
    how, best = obtained(found, explainer.rtol), best_ranking(explainer, rows, found)
    values, table = _shown(explainer, rows)
    table = _with_unused(explainer, X, found.some, table)
    return Evaluation(
        names=tuple(r.name for r in task.requests),
        rankings=found.rankings,
        scores=found.scores,
        curves=found.curves,
        random=found.random,
        random_curve=found.random_curve,
        best=mean_of_curve(found.best_curve),
        best_ranking=best,
        best_curve=found.best_curve,
        best_is_proven=found.best_is_proven,
        single=found.single,
        table=table,
        values=values,
        feature_names=best.names,
        index=rows.table.index,
        rows=found.some,
        predictions=_predictions(explainer, rows),
        sweep=None if found.swept is None else found.swept.sweep(),
        description=_description(task, explainer, len(rows), budget),
        notes=(*outcome.notes, *_notes(task, explainer.explained.n_units), *notes(found)),
        obtained=how,
        words={r.name: r.word for r in task.requests},
        shap=tuple(r.name for r in task.requests if r.is_shap),
        seed=task.seed,
        tolerance=_tolerance(how["pgi2"], explainer.rtol),
        backend=rows.table.backend,
    )


def _tolerance(how: str, rtol: float) -> float:
    """The relative difference up to which scores count as equal, by how they were obtained."""
    if how == "exact":
        return 1e-12
    return 1e-2 if how == "estimated" else rtol


def _notes(task: Task, d: int) -> list[str]:
    if task.places == d:
        return []
    longer = [name for name, order in task.orders.items() if order.shape[1] > task.places]
    cut = f" Of {', '.join(map(repr, longer))} only these are used." if longer else ""
    return [
        f"Scores are those of the first {count(task.places, 'place')} of {d}; random and best have as many."
        f"{cut} PGU² needs all places and is left out."
    ]


def _shown(explainer: Explainer, rows: Rows) -> tuple[FloatArray, NDArray[Any]]:
    """The rows in the ranked units: as numbers, NaN for groups; and as people read them, with labels."""
    table, levels = rows.table.values, explainer.ensemble.categorical()
    cells = table.astype(object)
    for j, categories in levels.items():
        labels = {code: str(label) for label, code in categories.place.items()}
        cells[:, j] = [labels.get(code, "" if np.isnan(code) else "(unknown)") for code in table[:, j]]
    units = explainer.explained.units
    if units is None:
        return table, cells
    names = names_or_default(table.shape[1], units.feature_names)
    values = np.full((len(table), len(units.members)), np.nan)
    shown_cells = np.empty(values.shape, dtype=object)
    for unit, features in enumerate(units.members):
        if len(features) == 1:
            values[:, unit], shown_cells[:, unit] = table[:, features[0]], cells[:, features[0]]
            continue
        shown_cells[:, unit] = [", ".join(f"{names[j]}={_cell(row[j])}" for j in features) for row in cells]
    return values, shown_cells


def _with_unused(explainer: Explainer, X: Any, some: IndexArray, cells: NDArray[Any]) -> NDArray[Any]:
    """The cells with those columns of a pipeline filled in that its model does not use, and does not see."""
    reader = explainer.explained.reader
    if not isinstance(reader, RawColumns) or explainer.explained.units is not None:
        return cells
    columns = open_columns(X)
    used = {feature.raw for feature in reader.features}
    for raw, at in reader.places(columns).items():
        if raw not in used:
            labels = columns.labels(at)
            cells[:, raw] = [labels[r] for r in some]
    return cells


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _predictions(explainer: Explainer, rows: Rows) -> FloatArray:
    """The margin of the explained output of each row, (n,); of several together, the largest."""
    outputs = explainer.explained.outputs
    found = margins(outputs.model, rows.values).reshape(len(rows), -1)
    positions = outputs.positions(rows.outputs, len(rows))
    if positions is None:
        largest: FloatArray = found.max(axis=1)
        return largest
    return outputs.own_margins(found, positions)[:, 0]


def _description(task: Task, explainer: Explainer, n: int, budget: float | None) -> dict[str, Any]:
    ensemble = explainer.ensemble
    return {
        "model": ensemble.source,
        "trees": ensemble.n_trees,
        "features": ensemble.n_features,
        "units": explainer.explained.n_units,
        "places": task.places,
        "rows": n,
        "of_rows": len(task.rows),
        "noise": repr(explainer.noise),
        "noise_table": _noise_table(explainer),
        "output": None if explainer.output is None else shown(explainer.output),
        "rtol": explainer.rtol,
        "seed": task.seed,
        "budget": budget,
        "version": sys.modules["predgap"].__version__,
    }


def _noise_table(explainer: Explainer) -> dict[str, list[Any]] | None:
    """The columns of what the noise says it does to each feature; None if it says nothing."""
    describe = getattr(explainer.noise, "describe", None)
    if describe is None:
        return None
    frame: dict[str, list[Any]] = nw.from_native(describe(), eager_only=True).to_dict(as_series=False)
    return frame
