"""The cases of the leaderboard, the rankings that compete, and their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import models
import numpy as np
from sklearn import datasets

from predgap import Background, Explainer, Ranking, Relative, evaluate, metrics
from predgap.explainer.own_rankings import permutation_importances

STRENGTH = 0.3  # of the noise behind PGI² and PGU²
REDRAWN = 50  # rows that features are redrawn from, for deletion, insertion and interventional SHAP
RTOL = 1e-3
SEED = 0
CHECKED = 2  # rows in which the values of shapiq are compared with those of shap

PROBLEMS: dict[str, Callable[..., Any]] = {
    "diabetes": datasets.load_diabetes,
    "breast cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "digits": datasets.load_digits,
}
SLOW = {("digits", "LightGBM"), ("digits", "CatBoost"), ("digits", "forest")}  # not tried: these take minutes
FEWER_ROWS = {"breast cancer": 2, "digits": 4, "CatBoost": 2, "forest": 4}  # of these, one row in so many

# PGI²: 0 is random, 1 the best ranking that was found. The others are shares of the gap of all features
# (PGU²), or of the way from the prediction to the expected one (deletion, insertion).
SCORES: dict[str, str] = {"PGI²": "higher", "PGU²": "lower", "deletion": "higher", "insertion": "higher"}

Scores = dict[str, dict[str, float]]  # by ranking, then by score


@dataclass(frozen=True, eq=False)
class Case:
    name: str
    model: Any
    X: np.ndarray  # (n, d)
    y: np.ndarray | None
    part: int = 1  # one in so many of the rows is scored

    @property
    def output(self) -> str | None:
        """The predicted class, if there are three or more."""
        return "predicted" if len(getattr(self.model, "classes_", ())) > 2 else None

    def rows(self, n: int) -> np.ndarray:
        """The positions of n rows from all over the table."""
        return np.linspace(0, len(self.X) - 1, max(min(n, 4), n // self.part)).astype(int)


def trained_cases(data: str, libraries: list[str]) -> Iterator[Case]:
    """The default models of the libraries on one of scikit-learn's data sets."""
    X, y = PROBLEMS[data](return_X_y=True)
    X = X.astype(np.float32).astype(np.float64)  # so that all libraries see the same numbers
    for library in libraries:
        if (data, library) not in SLOW:
            model = default_model(library, data != "diabetes").fit(X, y)
            part = FEWER_ROWS.get(data, 1) * FEWER_ROWS.get(library, 1)
            yield Case(f"{data}, {library}", model, X, y, part)


def default_model(library: str, is_classes: bool) -> Any:
    """A model as its library makes it if nothing is said, with a seed, on one thread."""
    kind = "Classifier" if is_classes else "Regressor"
    if library == "XGBoost":
        import xgboost

        return getattr(xgboost, f"XGB{kind}")(random_state=SEED, n_jobs=1)
    if library == "LightGBM":
        import lightgbm

        return getattr(lightgbm, f"LGBM{kind}")(random_state=SEED, n_jobs=1, verbose=-1)
    if library == "CatBoost":
        import catboost

        quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
        return getattr(catboost, f"CatBoost{kind}")(random_seed=SEED, **quiet)
    from sklearn import ensemble

    return getattr(ensemble, f"RandomForest{kind}")(random_state=SEED)


def paper_cases() -> list[Case]:
    found = [case for case in map(models.saved, models.PAPER) if case is not None]
    return [Case(f"{c.name} (paper), XGBoost", c.booster, c.X.astype(np.float64), None) for c in found]


# --- rankings -------------------------------------------------------------------------------------------


def given_rankings(case: Case, redrawn: Explainer, table: np.ndarray, X: np.ndarray) -> dict[str, Any]:
    """The rankings that predgap does not make by a word; those that a library cannot make are left out."""
    toward = np.sign(_prediction(redrawn, X) - _expected(redrawn, X))
    found: dict[str, Any] = {}
    values = interventional_shap(case, redrawn, table, X)
    if values is not None:
        found["SHAP, interventional"] = Ranking.from_attributions(values).order
        found["SHAP, signed"] = np.argsort(-toward[:, None] * values, axis=1, kind="stable")
    values = banzhaf(case, redrawn, X)
    if values is not None:
        found["Banzhaf"] = Ranking.from_attributions(values).order
    found["greedy, redrawn"] = redrawn.rank(X).order
    found["for deletion"] = greedy_on_curve(redrawn, X, toward, deletes=True)
    found["for insertion"] = greedy_on_curve(redrawn, X, toward, deletes=False)
    return found


def greedy_on_curve(explainer: Explainer, X: np.ndarray, toward: np.ndarray, *, deletes: bool) -> np.ndarray:
    """At each place the feature whose redrawing lowers the expected prediction most, or, for insertion, whose
    return raises it most; up and down are exchanged in rows whose prediction is below the expected one."""
    n, d = X.shape
    masks, order = np.full((n, d), not deletes), np.empty((n, d), dtype=int)
    candidates = np.repeat(X, d, axis=0)
    for place in range(d):
        tried = np.repeat(masks, d, axis=0)
        tried[np.arange(n * d), np.tile(np.arange(d), n)] = deletes
        value = toward[:, None] * explainer.expected_prediction(candidates, tried).reshape(n, d)
        value = np.where(masks == deletes, -np.inf, -value if deletes else value)
        order[:, place] = value.argmax(axis=1)
        masks[np.arange(n), order[:, place]] = deletes
    return order


def interventional_shap(
    case: Case, redrawn: Explainer, table: np.ndarray, X: np.ndarray
) -> np.ndarray | None:
    """SHAP values (n, d) by shap, where its features are redrawn from the table; None if it has none."""
    try:
        values = by_shap(case, X, table)
    except Exception:  # each library has errors of its own
        return None
    return _if_they_add_up(_of_output(values, redrawn, X), redrawn, X)


def by_shap(case: Case, X: np.ndarray, table: np.ndarray | None) -> np.ndarray:
    """SHAP values (n, d) or (n, d, k) by shap's TreeExplainer: interventional if there is a table."""
    import shap

    if case.output is not None and type(case.model).__module__.startswith("catboost"):
        raise NotImplementedError("shap writes beyond its memory for several classes of CatBoost")
    how = "tree_path_dependent" if table is None else "interventional"
    explainer = shap.TreeExplainer(case.model, table, feature_perturbation=how)
    return np.asarray(explainer.shap_values(X, check_additivity=False))


def banzhaf(case: Case, redrawn: Explainer, X: np.ndarray) -> np.ndarray | None:
    """Banzhaf values (n, d) by shapiq, path-dependent; None if it has none.

    Nor are they taken if the SHAP values that shapiq computes from the same trees differ from those of shap
    by more than 5 % of the largest: it does not read all models as their libraries do.
    """
    try:
        known = _of_output(by_shap(case, X[:CHECKED], None), redrawn, X[:CHECKED])
        own = by_shapiq(case, redrawn, X[:CHECKED], "SV")
        if not np.allclose(own, known, rtol=0.0, atol=_far(known)):
            return None
        return by_shapiq(case, redrawn, X, "BII")  # of order 1: Banzhaf values
    except Exception:  # each library has errors of its own
        return None


def by_shapiq(case: Case, redrawn: Explainer, X: np.ndarray, index: str) -> np.ndarray:
    """Values (n, d) of the explained output of each row, by shapiq's TreeExplainer."""
    import shapiq

    outputs, values = _outputs(redrawn, X, 2), np.zeros(X.shape)
    for output in np.unique(outputs):
        explainer = shapiq.TreeExplainer(
            case.model, max_order=1, min_order=1, index=index, class_index=int(output)
        )
        for r in np.flatnonzero(outputs == output):
            found = explainer.explain(X[r])
            for members, place in found.interaction_lookup.items():
                if len(members) == 1:
                    values[r, members[0]] = found.values[place]
    return values


def _of_output(values: np.ndarray, explainer: Explainer, X: np.ndarray) -> np.ndarray:
    """The values (n, d) of the explained output of each row, from (n, d) or (n, d, k)."""
    if values.ndim == 2:
        return values
    return values[np.arange(len(X)), :, _outputs(explainer, X, values.shape[2])]


def _outputs(explainer: Explainer, X: np.ndarray, k: int) -> np.ndarray:
    """The explained output of each row, (n,), among k: the predicted class, or the second of two."""
    if explainer.output is None:
        return np.full(len(X), k - 1)
    return explainer.ensemble.predict(X).argmax(axis=1)


def _if_they_add_up(values: np.ndarray, explainer: Explainer, X: np.ndarray) -> np.ndarray | None:
    """The values, if they sum to the prediction less the expected one, within 5 %; None if they do not."""
    change = _prediction(explainer, X) - _expected(explainer, X)
    return values if np.allclose(values.sum(axis=1), change, rtol=0.0, atol=_far(change)) else None


def _far(values: np.ndarray) -> float:
    """The difference from which values are of something else than these; shap itself is less exact."""
    return 0.05 * float(np.abs(values).max())


# --- scores ---------------------------------------------------------------------------------------------


def scored_case(case: Case, n_rows: int) -> Scores:
    """Every score of every ranking of some rows of a case."""
    at = case.rows(n_rows)
    X = case.X[at]
    table = case.X[np.linspace(0, len(case.X) - 1, REDRAWN).astype(int)]
    redrawn = Explainer(case.model, Background(table), output=case.output)
    moved = Explainer(case.model, Relative(case.X, STRENGTH), output=case.output, rtol=RTOL)
    asked = {"SHAP, path-dependent": "shap", "gain": "gain", "greedy": "greedy", "single": "single"}
    asked |= {"shapley": "shapley"} | given_rankings(case, redrawn, table, X)
    if case.y is not None:
        whole_table = moved.explained.rows(case.X)
        asked["permutation"] = np.argsort(-permutation_importances(moved, whole_table, case.y, SEED))
    found = evaluate(moved, X, asked, seed=SEED)
    whole = found.curves[0, :, -1].mean()
    prediction, expected = _prediction(redrawn, X), _expected(redrawn, X)
    toward, way = np.sign(prediction - expected), np.abs(prediction - expected).mean()
    scores: Scores = {}
    for row, (name, ranking) in zip(found.summary, found.rankings.items(), strict=True):
        deleted = metrics.deletion(redrawn, X, ranking.order)
        inserted = metrics.insertion(redrawn, X, ranking.order)
        scores[name] = {
            "PGI²": row["normalized"],
            "PGU²": row["pgu2"] / whole,
            "deletion": float((toward * (prediction - deleted)).mean() / way),
            "insertion": float((toward * (inserted - expected)).mean() / way),
        }
    return scores


def _prediction(explainer: Explainer, X: np.ndarray) -> np.ndarray:
    return explainer.expected_prediction(X, np.zeros(X.shape[1], dtype=bool))


def _expected(explainer: Explainer, X: np.ndarray) -> np.ndarray:
    return explainer.expected_prediction(X, np.ones(X.shape[1], dtype=bool))
