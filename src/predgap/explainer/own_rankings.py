"""Rankings that the model's own library makes: by its SHAP values, its gain, or by permutation."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._engine.questions import Rows
from predgap._inputs.categories import is_missing
from predgap._inputs.subsets import match_names
from predgap._inputs.tables import matching_rows, open_columns
from predgap._model.ensemble import Ensemble, used_features
from predgap._text import shown
from predgap._typing import FloatArray, IndexArray
from predgap.errors import DependencyError, PredgapError, RankingError, TableError
from predgap.explainer.explained import margins
from predgap.loaders import ModelFile, package_of
from predgap.loaders.pipelines import is_pipeline, opened_pipeline
from predgap.loaders.sklearn import histogram_columns
from predgap.loaders.wrappers import linear_members, unwrapped

if TYPE_CHECKING:
    from predgap.explainer.explainer import Explainer

# ------------------------------------------------------------------------------------------------------------
# A user's model is asked with its own library.

_LIBRARIES: Final = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "catboost": "CatBoost"}


@dataclass(frozen=True, slots=True, eq=False)
class OwnModel:
    """A model of a library without the steps of a pipeline, and how its features become those explained."""

    package: str  # "xgboost", "lightgbm", "catboost" or "sklearn"
    model: Any
    explainer: Explainer
    word: str  # the ranking that was asked for, for messages

    def values(self, X: Any) -> FloatArray:
        """X with one column per feature of the model itself; NaN where missing, codes for categories."""
        inputs = self.explainer.explained
        return (
            inputs.table(X).values if inputs.reader is None else inputs.reader.own_values(X, inputs.ensemble)
        )

    @property
    def features(self) -> Sequence[Sequence[int]]:
        """The features of the model itself that each explained feature stands for."""
        inputs = self.explainer.explained
        if inputs.reader is None:
            return [(j,) for j in range(inputs.ensemble.n_features)]
        return inputs.reader.own_features(inputs.ensemble)

    def units(self) -> list[list[int]]:
        """The features of the model itself that each ranked unit, a feature or a group, stands for."""
        features, members = self.features, self.explainer.explained.members
        of_units = [(j,) for j in range(len(features))] if members is None else members
        return [[own for feature in unit for own in features[feature]] for unit in of_units]

    @property
    def library(self) -> str:
        """What computes SHAP values, for messages."""
        return _LIBRARIES.get(self.package, "shap's TreeExplainer")

    def member(self, model: Any) -> OwnModel:
        """A model inside this one, of the same features."""
        inside = unwrapped(model)
        return replace(self, package=_package(inside, self.word), model=inside)

    def refused(self, reason: str) -> RankingError:
        """The error that this model does not have the ranking, and what to pass instead."""
        return refused(self.word, reason)


def refused(word: str, reason: str) -> RankingError:
    """The error that there is no ranking of this word, and what to pass instead."""
    instead = {
        "shap": "the SHAP values themselves, {'shap': explanation} (a shap.Explanation, such as "
        "that of shap.PermutationExplainer, a frame or an array)",
        "gain": "the importances themselves, {'gain': pd.Series(importances, index=names)}",
    }[word]
    return RankingError(f"the ranking {word!r} cannot be made: {reason}. Leave it out, or pass {instead}")


def own_model(explainer: Explainer, word: str) -> OwnModel:
    """The model of an explainer, with its library; RankingError if there is none to ask.

    A file is opened with the library that wrote it.
    """
    given = explainer.model
    if isinstance(given, Ensemble):
        raise refused(
            word, "the Explainer was given an Ensemble, which keeps the trees only; give it the model"
        )
    if isinstance(given, str | os.PathLike):
        return OwnModel(*_from_file(given, word), explainer, word)
    model = unwrapped(given)
    if is_pipeline(model):
        model = opened_pipeline(model).model
    return OwnModel(_package(model, word), model, explainer, word)


def _package(model: Any, word: str) -> str:
    """The library of the model; RankingError if it cannot be asked."""
    package = package_of(model)
    if package in (*_LIBRARIES, "sklearn"):
        return package
    kind = f"a {type(model).__module__.partition('.')[0]} {type(model).__name__}"
    if word == "shap":
        raise refused(word, f"{kind} gives no contributions, and shap's TreeExplainer does not take it")
    raise refused(word, f"{kind} has no gains")


def _from_file(given: str | os.PathLike[Any], word: str) -> tuple[str, Any]:
    path, package = os.fsdecode(given), package_of(given)
    if package not in _LIBRARIES:
        raise refused(word, "the file of the model does not tell it")
    try:
        library = import_module(package)
    except ImportError:
        raise DependencyError(
            f"the ranking {word!r} of a model file needs {_LIBRARIES[package]}, not installed; "
            f"try: pip install {package}"
        ) from None
    if package == "catboost":
        form = "cbm" if _begins_with(path, b"CBM1") else "json"
        return package, library.CatBoost().load_model(path, format=form)
    booster = library.Booster(model_file=path)
    if package == "xgboost" and isinstance(given, ModelFile) and given.best_iteration:
        best = booster.attr("best_iteration")
        booster = booster if best is None else booster[: int(best) + 1]
    return package, booster


def _begins_with(path: str, head: bytes) -> bool:
    with open(path, "rb") as file:
        return file.read(len(head)) == head


def booster_of(model: Any) -> tuple[Any, tuple[int, int]]:
    """The Booster of an XGBoost model, and the range of rounds that the model predicts with."""
    if not hasattr(model, "get_booster"):
        return model, (0, 0)
    best = getattr(model, "best_iteration", None) if _stopped_early(model) else None
    return model.get_booster(), (0, 0 if best is None else int(best) + 1)


def _stopped_early(model: Any) -> bool:
    try:
        return model.best_iteration is not None
    except AttributeError:  # which XGBoost raises if there was no early stopping
        return False


def without_unseen(values: FloatArray, explainer: Explainer) -> FloatArray:
    """The table with NaN for categories that the model does not know."""
    out = values.copy()
    for j in explainer.ensemble.categorical():
        if explainer.explained.reader is None:
            out[out[:, j] < 0, j] = np.nan
    return out


# ------------------------------------------------------------------------------------------------------------
# The ranking "shap": by the contributions that the model's own library gives, or shap's TreeExplainer.

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
    margin = margins(model, rows.values).reshape(len(rows), model.n_outputs)
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


def _shap_of_xgboost(own: OwnModel, values: FloatArray, labels: Labels) -> FloatArray:
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


def _shap_of_lightgbm(own: OwnModel, values: FloatArray, labels: Labels) -> FloatArray:
    booster = getattr(own.model, "booster_", own.model)
    found = np.asarray(booster.predict(values, pred_contrib=True), dtype=np.float64)
    if "average_output" in booster.model_to_string(num_iteration=1).partition("Tree=")[0]:
        found /= booster.current_iteration()  # a random forest: LightGBM adds up what it averages
    return np.swapaxes(found.reshape(len(values), -1, values.shape[1] + 1), 1, 2)


def _shap_of_catboost(own: OwnModel, values: FloatArray, labels: Labels) -> FloatArray:
    import catboost

    table: Any = values
    if labels:
        table = values.astype(object)
        for j, column in labels.items():
            table[:, j] = column
    pool = catboost.Pool(table, cat_features=list(labels))
    found = np.asarray(own.model.get_feature_importance(pool, type="ShapValues"), dtype=np.float64)
    return found[:, :, None] if found.ndim == 2 else np.swapaxes(found, 1, 2)


def _shap_of_sklearn(own: OwnModel, values: FloatArray, labels: Labels) -> FloatArray:
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
    "xgboost": _shap_of_xgboost,
    "lightgbm": _shap_of_lightgbm,
    "catboost": _shap_of_catboost,
    "sklearn": _shap_of_sklearn,
}


# ------------------------------------------------------------------------------------------------------------
# The rankings "gain" and "permutation": one order of the features for all rows.

_REPEATS: Final = 5  # shuffles of each feature
_MOST_ROWS: Final = 2000  # that are shuffled


def gains(explainer: Explainer) -> FloatArray:
    """What the model's library calls the gain of each ranked unit, (m,).

    XGBoost: the mean over its splits; LightGBM: the sum; scikit-learn: `feature_importances_`; CatBoost:
    PredictionValuesChange, as it has no gain. Features that are ranked as one are taken together.
    """
    own = own_model(explainer, "gain")
    if own.package == "xgboost":
        return _gain_of_xgboost(own)
    if own.package == "lightgbm":
        booster = getattr(own.model, "booster_", own.model)
        found = booster.feature_importance(importance_type="gain")
    elif own.package == "catboost":
        found = own.model.get_feature_importance(type="PredictionValuesChange")
    else:
        found = _gain_of_sklearn(own.model)
        if found is None:
            raise own.refused(f"a {type(own.model).__name__} has no feature_importances_")
    return np.array([np.asarray(found, dtype=np.float64)[unit].sum() for unit in own.units()])


def _gain_of_sklearn(model: Any) -> FloatArray | None:
    """The importances; of histogram gradient boosting, which has none, the sum of the gains of its splits."""
    if not hasattr(model, "_predictors"):
        found: FloatArray | None = getattr(model, "feature_importances_", None)
        return found
    gain, column = np.zeros(model.n_features_in_), histogram_columns(model)
    for nodes in (tree.nodes for trees in model._predictors for tree in trees):
        splits = nodes[nodes["is_leaf"] == 0]
        np.add.at(gain, column[splits["feature_idx"]], splits["gain"])
    return gain


def _gain_of_xgboost(own: OwnModel) -> FloatArray:
    booster, (_, rounds) = booster_of(own.model)
    if rounds:
        booster = booster[:rounds]
    names = booster.feature_names or [f"f{j}" for j in range(booster.num_features())]
    total, splits = (booster.get_score(importance_type=kind) for kind in ("total_gain", "weight"))
    gain = np.array([total.get(name, 0.0) for name in names])
    count = np.array([splits.get(name, 0.0) for name in names])
    return np.array([gain[unit].sum() / max(1.0, count[unit].sum()) for unit in own.units()])


def permutation_importances(explainer: Explainer, rows: Rows, y: Any, seed: int) -> FloatArray:
    """How much worse the trees fit y if a unit is shuffled between the rows, (m,).

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
    used = {*used_features(model)}
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
