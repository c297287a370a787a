"""The ranking "shap": by the contributions that the model's own library gives, or shap's TreeExplainer."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from predgap._engine.questions import Rows
from predgap._inputs.categories import is_missing
from predgap._inputs.names import match_names
from predgap._inputs.tables import open_columns
from predgap._typing import FloatArray, IndexArray
from predgap.errors import DependencyError, PredgapError, TableError
from predgap.explainer._outputs import margins
from predgap.explainer._own_model import OwnModel, booster_of, own_model, without_unseen
from predgap.loaders.wrappers import linear_members

if TYPE_CHECKING:  # it imports this module
    from predgap.explainer.explainer import Explainer

Labels = dict[int, list[Any]]
"""The labels of categorical features, (n,) by feature."""

_SLACK: Final = (
    1e-3  # by how much contributions may miss the prediction: libraries add up in single precision
)


class ShapValues:
    """The SHAP values of a model for the rows of a table, which is read once."""

    def __init__(self, explainer: Explainer, X: Any) -> None:
        self._own = own_model(explainer, "shap")
        self._values = self._own.values(X)
        self._labels = labels_of_categories(self._own, X)

    def sizes(self, some: IndexArray, rows: Rows) -> FloatArray:
        """The absolute SHAP values of some rows, by ranked unit, (n, m); `rows` are the same rows, read.

        Contributions of features that are ranked as one (dummies of a raw column, groups) are added up with
        their signs. They are those of the output that is explained; where all outputs are explained together,
        the absolute values of all outputs are added up.
        """
        own, values = self._own, np.ascontiguousarray(self._values[some])
        labels = {j: [column[r] for r in some] for j, column in self._labels.items()}
        with_bias = _asked(own, values, labels)
        n, d = values.shape
        if with_bias.shape[:2] != (n, d + 1):
            raise own.refused(f"its contributions have the shape {with_bias.shape}, expected {n} rows of {d}")
        outputs = _explained(own, with_bias, rows)
        _check_sum(own, with_bias, rows)
        sums = np.stack([with_bias[:, unit].sum(axis=1) for unit in own.units()], axis=1)  # (n, m, k)
        if outputs is None:
            together: FloatArray = np.abs(sums).sum(axis=2)
            return together
        taken: FloatArray = np.abs(sums[np.arange(n), :, np.broadcast_to(outputs, n)])
        return taken


def _explained(own: OwnModel, contributions: FloatArray, rows: Rows) -> Any:
    """The output to take in each row; None: all together."""
    k = contributions.shape[2]
    explained = own.explainer.explained.outputs.in_rows(rows.outputs)
    if k == 1:
        return 0
    if explained.chosen is None and explained.outputs.n == k:
        return None
    if k not in (explained.outputs.n, 2):
        raise own.refused(f"it has contributions to {k} outputs, the trees have {explained.outputs.n}")
    return explained.output_of(k)


def _check_sum(own: OwnModel, contributions: FloatArray, rows: Rows) -> None:
    """RankingError unless contributions add up to the predictions that are explained."""
    model = own.explainer.explained.model
    k, total = contributions.shape[2], contributions.sum(axis=1)
    margin = margins(model, rows.values).reshape(len(rows), -1)
    if k == 2 and margin.shape[1] == 1:
        total = total[:, 1:]
    scale = np.abs(contributions).sum(axis=1).max(initial=0.0) + np.abs(margin).max(initial=0.0)
    off = np.abs(total - margin).max(initial=0.0)
    if not off <= _SLACK * scale:
        raise own.refused(
            f"its contributions miss the predictions by up to {off:.3g}, so that they are of something else "
            "than the trees that are explained"
        )


def _asked(own: OwnModel, values: FloatArray, labels: Labels) -> FloatArray:
    """The contributions with the bias, (n, d + 1, k); RankingError if the library refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other libraries, about themselves
            return _contributions(own, values, labels)
    except PredgapError:
        raise
    except Exception as error:  # each library has errors of its own
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise own.refused(f"{own.library} refuses ({reason.strip()[:200]})") from error


def _contributions(own: OwnModel, values: FloatArray, labels: Labels) -> FloatArray:
    """Those of the model; of a sum of models, such as a voting, the same sum of theirs."""
    summed = linear_members(own.model)
    if summed is None:
        return _CONTRIBUTIONS[own.package](own, values, labels)
    members, bias = summed
    total = np.zeros((len(values), values.shape[1] + 1, len(bias)))
    total[:, -1] = bias
    for model, matrix in members:
        found = _contributions(own.member(model), values, labels)
        total += found[:, :, -matrix.shape[1] :] @ matrix.T  # of two classes the second, if that is all
    return total


def labels_of_categories(own: OwnModel, X: Any) -> Labels:
    """The labels of CatBoost's categories, by feature: it takes no codes. Of other libraries nothing."""
    if own.package != "catboost" or not (categorical := own.model.get_cat_feature_indices()):
        return {}
    inputs = own.explainer.explained
    if inputs.reader is not None:
        raise own.refused("CatBoost's categories inside a pipeline, or beside one_hot, are not supported")
    columns, names = open_columns(X), inputs.ensemble.feature_names
    place = {j: j for j in categorical}
    if columns.names is not None and not columns.numbered and names is not None:
        found = match_names(names, columns.names, TableError)
        place = {j: found[names[j]] for j in categorical}
    return {j: ["nan" if is_missing(x) else x for x in columns.labels(at)] for j, at in place.items()}


def _xgboost(own: OwnModel, values: FloatArray, labels: Labels) -> FloatArray:
    import xgboost

    booster, rounds = booster_of(own.model)
    table = xgboost.DMatrix(
        without_unseen(values, own.explainer),
        missing=getattr(own.model, "missing", np.nan),
        feature_names=booster.feature_names,
        feature_types=booster.feature_types,
        enable_categorical=True,
    )
    found = np.asarray(booster.predict(table, pred_contribs=True, iteration_range=rounds), dtype=np.float64)
    return found[:, :, None] if found.ndim == 2 else np.swapaxes(found, 1, 2)


def _lightgbm(own: OwnModel, values: FloatArray, labels: Labels) -> FloatArray:
    booster = getattr(own.model, "booster_", own.model)
    found = np.asarray(booster.predict(values, pred_contrib=True), dtype=np.float64)
    if "average_output" in booster.model_to_string(num_iteration=1).partition("Tree=")[0]:
        found /= booster.current_iteration()  # a random forest: LightGBM adds up what it averages
    return np.swapaxes(found.reshape(len(values), -1, values.shape[1] + 1), 1, 2)


def _catboost(own: OwnModel, values: FloatArray, labels: Labels) -> FloatArray:
    import catboost

    table: Any = values
    if labels:
        table = values.astype(object)
        for j, column in labels.items():
            table[:, j] = column
    pool = catboost.Pool(table, cat_features=list(labels))
    found = np.asarray(own.model.get_feature_importance(pool, type="ShapValues"), dtype=np.float64)
    return found[:, :, None] if found.ndim == 2 else np.swapaxes(found, 1, 2)


def _sklearn(own: OwnModel, values: FloatArray, labels: Labels) -> FloatArray:
    try:
        import shap
    except ImportError:
        raise DependencyError(
            "the ranking 'shap' of a scikit-learn model needs shap, not installed; try: pip install shap"
        ) from None
    if getattr(own.model, "is_categorical_", None) is not None:
        raise own.refused("shap's TreeExplainer does not know the categories of histogram gradient boosting")
    if type(own.model).__name__ == "GradientBoostingClassifier" and own.model.estimators_.shape[1] > 1:
        return _by_class(shap, own.model, values)
    return _of_explanation(shap.TreeExplainer(own.model)(values), values.shape)


def _of_explanation(found: Any, shape: tuple[int, int]) -> FloatArray:
    by_output = np.asarray(found.values, dtype=np.float64).reshape(*shape, -1)
    n, _, k = by_output.shape
    base = np.broadcast_to(np.asarray(found.base_values, dtype=np.float64).reshape(-1, k), (n, k))
    return np.concatenate([by_output, base[:, None]], axis=1)


def _by_class(shap: Any, model: Any, values: FloatArray) -> FloatArray:
    """Contributions to each of several classes: shap takes such a model not as a whole, but its trees."""
    found, start = [], model._raw_predict_init(np.zeros((1, values.shape[1])))[0]
    for trees, bias in zip(model.estimators_.T, start, strict=True):
        nodes = [_shap_tree(each.tree_, model.learning_rate) for each in trees]
        explainer = shap.TreeExplainer({"trees": nodes, "input_dtype": np.float32})
        own = _of_explanation(explainer(values), values.shape)
        own[:, -1] += bias
        found.append(own)
    return np.concatenate(found, axis=2)


def _shap_tree(tree: Any, scale: float) -> dict[str, Any]:
    return {
        "children_left": tree.children_left,
        "children_right": tree.children_right,
        "children_default": tree.children_left,
        "features": tree.feature,
        "thresholds": tree.threshold,
        "values": scale * tree.value[:, 0],
        "node_sample_weight": tree.weighted_n_node_samples,
    }


_CONTRIBUTIONS: Final = {  # (n, d + 1, k) to k outputs; the last one is what is predicted without a row
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "catboost": _catboost,
    "sklearn": _sklearn,
}
