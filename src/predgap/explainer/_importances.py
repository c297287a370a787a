"""The rankings "gain" and "permutation": one order of the features for all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._engine.questions import Rows
from predgap._inputs.row_labels import matching_rows
from predgap._text import shown
from predgap._typing import FloatArray, IndexArray
from predgap.errors import RankingError
from predgap.explainer._outputs import margins
from predgap.explainer._own_model import OwnModel, booster_of, own_model
from predgap.loaders.sklearn import histogram_columns

if TYPE_CHECKING:  # it imports this module
    from predgap.explainer.explainer import Explainer

_REPEATS: Final = 5  # shuffles of each feature
_MOST_ROWS: Final = 2000  # that are shuffled


def gains(explainer: Explainer) -> FloatArray:
    """What the model's library calls the gain of each ranked unit, (m,).

    XGBoost: the mean over its splits; LightGBM: the sum; scikit-learn: `feature_importances_`; CatBoost:
    PredictionValuesChange, as it has no gain. Features that are ranked as one are taken together.
    """
    own = own_model(explainer, "gain")
    if own.package == "xgboost":
        return _xgboost(own)
    if own.package == "lightgbm":
        booster = getattr(own.model, "booster_", own.model)
        found = booster.feature_importance(importance_type="gain")
    elif own.package == "catboost":
        found = own.model.get_feature_importance(type="PredictionValuesChange")
    else:
        found = _sklearn(own.model)
        if found is None:
            raise own.refused(f"a {type(own.model).__name__} has no feature_importances_")
    return np.array([np.asarray(found, dtype=np.float64)[unit].sum() for unit in own.units()])


def _sklearn(model: Any) -> FloatArray | None:
    """The importances; of histogram gradient boosting, which has none, the sum of the gains of its splits."""
    if not hasattr(model, "_predictors"):
        found: FloatArray | None = getattr(model, "feature_importances_", None)
        return found
    gain, column = np.zeros(model.n_features_in_), histogram_columns(model)
    for nodes in (tree.nodes for trees in model._predictors for tree in trees):
        splits = nodes[nodes["is_leaf"] == 0]
        np.add.at(gain, column[splits["feature_idx"]], splits["gain"])
    return gain


def _xgboost(own: OwnModel) -> FloatArray:
    booster, (_, rounds) = booster_of(own.model)
    if rounds:
        booster = booster[:rounds]
    names = booster.feature_names or [f"f{j}" for j in range(booster.num_features())]
    total, splits = (booster.get_score(importance_type=kind) for kind in ("total_gain", "weight"))
    gain = np.array([total.get(name, 0.0) for name in names])
    count = np.array([splits.get(name, 0.0) for name in names])
    return np.array([gain[unit].sum() / max(1.0, count[unit].sum()) for unit in own.units()])


def permutation_importances(explainer: Explainer, rows: Rows, y: Any, seed: int) -> FloatArray:
    """By how much the trees fit y worse if a unit is shuffled between the rows, (m,).

    The fit is the share of explained variance of a regression. For classes it is the area under the ROC curve
    of each class against the rest, the mean over classes: it does not depend on a link function. Up to 2,000
    rows are shuffled, 5 times each.
    """
    model = explainer.explained.model
    rng = np.random.default_rng(seed)
    target = _Target.of(_in_order(y, rows), len(rows), model.class_names, model.n_outputs)
    some = np.sort(rng.permutation(len(rows))[:_MOST_ROWS])
    values, target = rows.values[some], target.at(some)
    whole = target.fit(margins(model, values))
    target.check(whole)
    members = explainer.explained.members or [(j,) for j in range(model.n_features)]
    used = {int(j) for j in np.unique(model.feature) if j >= 0}
    found = np.zeros(len(members))
    for unit, features in enumerate(members):
        if not used & {*features}:
            continue
        for _ in range(_REPEATS):
            shuffled = values.copy()
            shuffled[:, list(features)] = values[rng.permutation(len(values))][:, list(features)]
            found[unit] += (whole - target.fit(margins(model, shuffled))) / _REPEATS
    return found


def _in_order(y: Any, rows: Rows) -> NDArray[Any]:
    """The outcomes in the order of the rows; those of a pandas Series are matched by its index."""
    labels = y.index if hasattr(y, "iloc") else None
    own = matching_rows(labels, rows.table.index, "y", RankingError)
    return np.asarray(y) if own is None else np.asarray(y)[own]


class _Target:
    """What a model is to predict: numbers, (n, k), or for each class whether a row belongs to it, (n, k)."""

    def __init__(self, values: FloatArray, is_classes: bool) -> None:
        self._values, self._is_classes = values, is_classes

    @staticmethod
    def of(y: NDArray[Any], n_rows: int, class_names: tuple[str, ...] | None, n_outputs: int) -> _Target:
        labels = y
        if labels.ndim not in (1, 2) or len(labels) != n_rows:
            raise RankingError(
                f"y has shape {labels.shape}, expected one entry for each of the {n_rows} rows of X"
            )
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        different = sorted({*labels.ravel().tolist()}, key=str) if labels.ndim == 1 else []
        numbers = labels.dtype.kind in "iufb"
        two = n_outputs == 1 and len(different) == 2
        if labels.ndim == 1 and (class_names is not None or n_outputs > 1 or two or not numbers):
            return _Target._of_classes(labels, different, class_names, n_outputs)
        values = labels.astype(np.float64).reshape(n_rows, -1)
        if not np.isfinite(values).all():
            raise RankingError("y has NaN or infinite entries; leave their rows out, of X too")
        if values.shape[1] != n_outputs:
            raise RankingError(f"y has {values.shape[1]} columns, the model {n_outputs} outputs")
        return _Target(values, False)

    @staticmethod
    def _of_classes(
        labels: Any, different: list[Any], class_names: tuple[str, ...] | None, n_outputs: int
    ) -> _Target:
        if len(different) < 2:
            raise RankingError(
                f"y is {shown(different[0])} in all rows, so that no feature tells classes apart; pass "
                "rows of several classes"
            )
        names = [str(each) for each in different] if class_names is None else list(class_names)
        if class_names is None and n_outputs > 1 and len(names) != n_outputs:
            raise RankingError(
                f"y has {len(names)} classes, the model {n_outputs} outputs without labels, so that the "
                "class of each output is not known"
            )
        known = [_label(name) for name in names]
        if labels.dtype.kind == "b" and {*known} <= {"0", "1"}:
            labels = labels.astype(int)
        given = np.array([_label(each) for each in labels.tolist()], dtype=object)
        strange = sorted({*given.tolist()} - {*known})
        if strange:
            raise RankingError(
                f"y holds {strange[0]!r}, which is no class of the model; its classes are {names}"
            )
        own = known[-n_outputs:] if n_outputs > 1 or len(known) == 2 else known
        if len(own) != n_outputs:
            raise RankingError(f"y has {len(known)} classes, the model {n_outputs} outputs")
        return _Target(np.stack([given == each for each in own], axis=1).astype(np.float64), True)

    def at(self, some: IndexArray) -> _Target:
        return _Target(self._values[some], self._is_classes)

    def fit(self, margin: FloatArray) -> float:
        """How well margins, (n,) or (n, k), fit; higher is better."""
        margin = margin.reshape(self._values.shape)
        if self._is_classes:
            return float(np.mean([_auc(m, v) for m, v in zip(margin.T, self._values.T, strict=True)]))
        spread = ((self._values - self._values.mean(axis=0)) ** 2).sum(axis=0)
        error = ((self._values - margin) ** 2).sum(axis=0)
        return float(np.mean(1.0 - error / np.where(spread > 0, spread, 1.0)))

    def check(self, fit: float) -> None:
        """RankingError if margins do not predict y at all, as where they are on another scale."""
        if not self._is_classes and fit <= 0:
            raise RankingError(
                f"the model's margins do not predict y (they explain {fit:.2g} of its variance), so that "
                "'permutation' means nothing: pass y on the scale of the margins, e.g. its logarithm if the "
                "model has a logarithmic link"
            )


def _label(label: Any) -> str:
    """A label as text: 1, 1.0 and "1" are one class."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def _auc(margin: FloatArray, is_in: FloatArray) -> float:
    """The area under the ROC curve; 1/2 if there is one class only."""
    from scipy.stats import rankdata

    n_in = is_in.sum()
    n_out = len(is_in) - n_in
    if n_in == 0 or n_out == 0:
        return 0.5
    ranks = rankdata(margin)
    return float((ranks[is_in > 0].sum() - n_in * (n_in + 1) / 2) / (n_in * n_out))
