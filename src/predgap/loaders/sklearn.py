"""Loads scikit-learn's tree models: single trees, forests, boosting, bagging and isolation forests.

What an ensemble predicts (always a sum over trees):

- regression: `predict`; for HistGradientBoosting with a log link (poisson, gamma) the logarithm of it;
- classification by trees, forests and bagging: `predict_proba`. For two classes there is one output, the
  probability of `classes_[1]`; otherwise each class is an output. The outputs of several targets follow one
  another.
- classification by boosting: `decision_function`, the log-odds of `classes_[1]` or one margin per class; of
  AdaBoost the weighted votes of its trees;
- isolation forests: the mean path length. `score_samples` is not a sum over trees, but increases with the
  path length: it is -2 ** (-length / c), where c depends on `max_samples_` only.

A row goes left where x <= threshold, in single precision (HistGradientBoosting: double). A missing value goes
the way that the tree stores for it; if there were no missing values in training, usually to the side with
more training rows. Trees store this even if the model as a whole does not accept missing values (gradient
boosting, and in older releases extra trees or monotonic constraints).

In HistGradientBoosting a category that was not in the training data counts as missing. Categories that are
whole numbers from 0 are their own codes; text categories have the codes 0, 1, 2, ... in sorted order.

There are no files: scikit-learn models are saved as pickles, which `predgap.load` opens only with
`allow_pickle=True`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import Categories, of_labels
from predgap._model.ensemble import ALL_OUTPUTS, LEAF, NUMERIC, Ensemble
from predgap._model.rounding import fields_of_rows
from predgap._text import with_article
from predgap._typing import FloatArray, IndexArray
from predgap.errors import EnsembleError, LoaderError, UnsupportedModelError
from predgap.loaders import translation
from predgap.loaders.translation import class_names, estimator_link

__all__ = ["from_object", "histogram_columns"]

_OLDEST: Final = (1, 5)
_ONE_BY_ONE: Final = "explain its estimators_ one by one"
_LARGEST_CODE: Final = 2**31 - 2  # the code above the largest one is used for unknown categories

# The advice for estimators that are not a sum of trees. Those that hold other models are in `wrappers`.
_ADVICE: Final = {
    "AdaBoostRegressor": f"it predicts a weighted median of its trees, which is not a sum; {_ONE_BY_ONE}",
    "RandomTreesEmbedding": "it transforms rows and predicts nothing",
}

Rows = translation.Rows


class _Tree(NamedTuple):
    """The nodes of one tree. A row goes left iff x <= threshold (in an `Ensemble`, iff x < threshold)."""

    left: NDArray[Any]  # LEAF at leaves
    right: NDArray[Any]
    feature: NDArray[Any]
    threshold: FloatArray
    default_left: NDArray[Any]
    value: FloatArray  # (n_nodes, 1), or (n_nodes, n_outputs)
    by_set: NDArray[np.bool_]  # splits by a set of categories; the sets are in `_Sum.sets`


class _CategorySets(NamedTuple):
    """The sets of categories that go left, in the order of their nodes."""

    begin: NDArray[Any]  # (n_sets + 1,)
    code: NDArray[Any]


@dataclass(frozen=True, slots=True)
class _TreeSum:
    """The trees of a model, and a function that computes their sum with the model itself."""

    trees: list[_Tree]
    margins: Callable[[Rows], Any]
    bias: FloatArray | None = None  # (n_outputs,); trees then belong to the outputs in turn. None: zeros
    kind: type[np.floating[Any]] = np.float32  # to which scikit-learn rounds rows
    sets: _CategorySets | None = None
    categories: tuple[Categories | None, ...] | None = None  # (n_features,)


def from_object(model: Any) -> Ensemble:
    """The ensemble of a fitted model, checked against the model's own predictions."""
    import sklearn

    name = type(model).__name__
    read = _reader(model)
    if tuple(map(int, re.findall(r"\d+", sklearn.__version__)[:2])) < _OLDEST:
        raise UnsupportedModelError(f"scikit-learn is {sklearn.__version__}; predgap loads models of 1.5 on")
    _check_fitted(model)
    quiet = _quiet(model)
    try:
        parts = read(quiet)
        nodes = _nodes(parts, accepts_infinity=_accepts_infinity(parts, model.n_features_in_))
        ensemble = Ensemble(
            **nodes,
            n_features=model.n_features_in_,
            categories=parts.categories,
            feature_names=getattr(model, "feature_names_in_", None),
            class_names=_class_names(model, len(nodes["bias"])),
            link=estimator_link(model, len(nodes["bias"])),
            unseen_is_missing=parts.categories is not None,
            source=f"scikit-learn {sklearn.__version__} {name}",
        )
    except LoaderError:
        raise
    except EnsembleError as error:
        raise LoaderError(f"the {name} cannot be represented as an ensemble: {error}") from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise LoaderError(
            f"the {name} is not as scikit-learn {sklearn.__version__} makes it ({error}); was it fitted by "
            "another version? Fit it again"
        ) from error
    _check(ensemble, parts, quiet)
    return ensemble


def _check(ensemble: Ensemble, parts: _TreeSum, quiet: Any) -> None:
    translation.check_predictions(
        ensemble,
        library="scikit-learn",
        margins=lambda rows: _ask(parts.margins, rows),
        leaves=(lambda rows: _ask(quiet.apply, rows)) if hasattr(quiet, "apply") else None,
        double=True,
        takes_missing=_takes(parts, ensemble.n_features, np.nan),
    )


# ---- which model it is ----


def _reader(model: Any) -> Callable[[Any], _TreeSum]:
    """The function that reads a model of this class; `UnsupportedModelError` if there is none."""
    kind = type(model)
    bases = [base.__name__ for base in kind.__mro__ if base.__module__.partition(".")[0] == "sklearn"]
    for base in bases:
        if base in _READERS:
            return _READERS[base]
    reason = next((_ADVICE[base] for base in bases if base in _ADVICE), None)
    if reason is None:
        raise UnsupportedModelError(
            f"predgap explains tree ensembles; this is {with_article(kind.__name__)}. Of scikit-learn's "
            f"models it takes {', '.join(_READERS)}, and searches, voting, stacking and pipelines of these"
        )
    raise UnsupportedModelError(f"cannot load a {kind.__module__}.{kind.__qualname__}: {reason}")


def _check_fitted(model: Any) -> None:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise LoaderError(f"the {type(model).__name__} is not fitted; call its fit first") from error


def _quiet(model: Any) -> Any:
    """A shallow copy that predicts without starting workers, printing, or asking for column names."""
    quiet = copy.copy(model)
    for name, value in {"n_jobs": None, "verbose": 0}.items():
        if hasattr(quiet, name):
            setattr(quiet, name, value)
    nosy = [quiet]
    if getattr(quiet, "_preprocessor", None) is not None:
        quiet._preprocessor = copy.deepcopy(quiet._preprocessor)
        steps = quiet._preprocessor.named_transformers_
        nosy += [quiet._preprocessor, steps["encoder"], steps["numerical"]]
    for each in nosy:
        each.__dict__.pop("feature_names_in_", None)
    return quiet


def _ask(question: Callable[[Rows], Any], rows: Rows) -> Any:
    with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn adds up rows to test if they are finite
        return translation.ask_library(
            "scikit-learn", "predict", lambda: question(rows), advice="fit it again"
        )


def _takes(parts: _TreeSum, n_features: int, value: float) -> bool:
    """True if the model accepts a row of this value. That depends on its class, options and version."""
    row = np.full((1, n_features), value)
    row[:, [levels is not None for levels in parts.categories or ()]] = np.nan
    try:
        _ask(parts.margins, row)
    except LoaderError:  # if the reason is not the value, the check of the load finds it
        return False
    return True


def _accepts_infinity(parts: _TreeSum, n_features: int) -> bool:
    # An infinite threshold cannot be represented for infinite values in rows: see `translation.as_cuts`.
    finite = all(np.isfinite(tree.threshold).all() for tree in parts.trees)
    return finite and _takes(parts, n_features, np.inf)


# ---- reading models ----


def _read_trees(model: Any) -> _TreeSum:
    """A forest predicts the mean of its trees; a single tree is treated as a forest of one."""
    estimators = getattr(model, "estimators_", [model])
    trees = [_tree(each.tree_, _leaves(each) / len(estimators)) for each in estimators]
    return _TreeSum(trees, lambda rows: _predictions(model, rows))


def _read_bagging(model: Any) -> _TreeSum:
    n_classes = getattr(model, "n_classes_", None)
    wanted = "DecisionTreeRegressor" if n_classes is None else "DecisionTreeClassifier"
    for each in model.estimators_:
        if not any(base.__name__ == wanted for base in type(each).__mro__):
            raise UnsupportedModelError(
                f"a {type(model).__name__} of {type(each).__name__}: predgap loads one of {wanted} or "
                f"{wanted.replace('Decision', 'Extra')}; {_ONE_BY_ONE}, each on its estimators_features_"
            )
    # `predict` uses the option n_estimators, which may have been changed after fitting; so do we.
    trees = [
        _tree(each.tree_, _leaves(each, n_classes) / model.n_estimators, columns)
        for each, columns in _members(model)[: model.n_estimators]
    ]
    return _TreeSum(trees, lambda rows: _predictions(model, rows))


def _read_votes(model: Any) -> _TreeSum:
    """Reads AdaBoost: trees vote for a class with their weights, and against the others in equal shares."""
    if getattr(model, "algorithm", None) == "SAMME.R":
        raise UnsupportedModelError(
            f"the {type(model).__name__} adds up logarithms of probabilities (algorithm='SAMME.R'); train it "
            "with algorithm='SAMME'"
        )
    k, weights = model.n_classes_, model.estimator_weights_ / model.estimator_weights_.sum()
    trees = []
    for each, weight in zip(model.estimators_, weights, strict=False):  # fewer trees if it stopped early
        if not hasattr(each, "tree_"):
            raise UnsupportedModelError(
                f"an {type(model).__name__} of {type(each).__name__}: predgap loads one of decision trees; "
                f"{_ONE_BY_ONE}"
            )
        votes = np.full((each.tree_.node_count, k), -weight / max(1, k - 1))
        votes[np.arange(len(votes)), each.tree_.value[:, 0].argmax(axis=1)] = weight if k > 1 else 0.0
        trees.append(_tree(each.tree_, 2.0 * votes[:, 1:] if k == 2 else votes))
    return _TreeSum(trees, model.decision_function)


def _read_isolation_forest(model: Any) -> _TreeSum:
    """The value of a leaf is its depth plus the expected further depth that isolates its training rows."""
    members = _members(model)
    trees = []
    for each, columns in members:
        length = each.tree_.compute_node_depths() - 1.0 + _mean_depth(each.tree_.n_node_samples)
        trees.append(_tree(each.tree_, length[:, None] / len(members), columns))
    scale = _mean_depth(np.array([model.max_samples_]))
    return _TreeSum(trees, lambda rows: -np.log2(-model.score_samples(rows)) * scale)


def _read_gradient_boosting(model: Any) -> _TreeSum:
    init = model.init_
    kind, strategy = type(init).__name__, getattr(init, "strategy", None)
    constant = kind in ("DummyRegressor", "DummyClassifier") and strategy != "stratified"
    if not (constant or (kind == "str" and init == "zero")):
        raise UnsupportedModelError(
            f"the {type(model).__name__} starts from a {kind}{f' ({strategy})' if strategy else ''}, which "
            "is no constant; train it with init=None or init='zero'"
        )
    # `estimators_` has a row per iteration (fewer than n_estimators after early stopping), a column per
    # output.
    trees = [_tree(each.tree_, _leaves(each) * model.learning_rate) for each in model.estimators_.flat]
    bias = model._raw_predict_init(np.zeros((1, model.n_features_in_)))[0]
    return _TreeSum(trees, getattr(model, "decision_function", model.predict), bias)


def histogram_columns(model: Any) -> IndexArray:
    """The column of X of each feature in the trees of histogram gradient boosting, (d,): in the trees,
    categorical ones come before the others."""
    if model.is_categorical_ is None:
        return np.arange(model.n_features_in_)
    return np.argsort(~model.is_categorical_, kind="stable")


def _read_hist_gradient_boosting(model: Any) -> _TreeSum:
    predictors = [predictor for iteration in model._predictors for predictor in iteration]
    bias, columns = np.ravel(model._baseline_prediction), histogram_columns(model)
    trees = [_hist_tree(predictor.nodes, columns) for predictor in predictors]
    if model.is_categorical_ is None:
        return _TreeSum(trees, model._raw_predict, bias, np.float64)
    categories = _categories(model)
    sets = _sets(predictors, [levels for levels in categories if levels is not None])
    return _TreeSum(
        trees,
        lambda rows: model._raw_predict(_with_labels(rows, categories)),
        bias,
        np.float64,
        sets,
        categories,
    )


_READERS: Final[dict[str, Callable[[Any], _TreeSum]]] = {
    f"{family}{task}": read
    for family, read in {
        "DecisionTree": _read_trees,
        "ExtraTree": _read_trees,
        "RandomForest": _read_trees,
        "ExtraTrees": _read_trees,
        "GradientBoosting": _read_gradient_boosting,
        "HistGradientBoosting": _read_hist_gradient_boosting,
        "Bagging": _read_bagging,
    }.items()
    for task in ("Regressor", "Classifier")
} | {"IsolationForest": _read_isolation_forest, "AdaBoostClassifier": _read_votes}


def _members(model: Any) -> list[tuple[Any, NDArray[Any]]]:
    """The trees of a bagging model, each with the columns of X that it uses; a column may occur twice."""
    return list(zip(model.estimators_, model.estimators_features_, strict=True))


def _leaves(estimator: Any, n_classes: int | None = None) -> FloatArray:
    """The predictions at each node, (n_nodes, n_outputs); `n_classes` is given for trees of a bagging."""
    value = estimator.tree_.value  # (n_nodes, n_targets, most classes of a target)
    if not hasattr(estimator, "classes_"):
        return np.asarray(value[:, :, 0])
    if n_classes is not None:  # the tree may have been trained on some of the classes only
        full = np.zeros((len(value), n_classes))
        full[:, estimator.classes_] = value[:, 0]
        return full[:, _shown(n_classes)]
    counts = np.atleast_1d(estimator.n_classes_)
    return np.hstack([value[:, k, :n][:, _shown(n)] for k, n in enumerate(counts)])


def _predictions(model: Any, rows: Rows) -> Any:
    if not hasattr(model, "classes_"):
        return model.predict(rows)
    found = model.predict_proba(rows)
    targets = found if isinstance(found, list) else [found]
    return np.hstack([target[:, _shown(target.shape[1])] for target in targets])


def _class_names(model: Any, n_outputs: int) -> tuple[str, ...] | None:
    """The labels of the classes; None for regressors, and for classifiers of several targets."""
    classes = getattr(model, "classes_", None)
    return class_names(classes.tolist(), n_outputs) if isinstance(classes, np.ndarray) else None


def _shown(n_classes: int) -> slice:
    """The classes that become outputs: of two classes only the second, as the first is 1 minus it."""
    return slice(1 if n_classes == 2 else 0, None)


def _mean_depth(n: NDArray[Any]) -> FloatArray:
    """c(n): the mean depth of a row in a tree that splits n rows at random until each is alone."""
    many = np.maximum(n, 3.0)
    return np.select(
        [n <= 1, n == 2], [0.0, 1.0], 2.0 * (np.log(many - 1.0) + np.euler_gamma) - 2.0 * (many - 1.0) / many
    )


# ---- categories ----


def _categories(model: Any) -> tuple[Categories | None, ...]:
    """The categories of each column, from the model's encoder; None for numeric columns."""
    encoder = model._preprocessor.named_transformers_["encoder"]
    found: list[Categories | None] = [None] * model.n_features_in_
    for q, values in zip(np.flatnonzero(model.is_categorical_), encoder.categories_, strict=True):
        found[q] = _levels(values, f"column {q}")
    return tuple(found)


def _levels(values: NDArray[Any], what: str) -> Categories:
    """Categories in the order of the encoder, without NaN, which may be the last one."""
    labels = values.tolist()
    if labels and labels[-1] != labels[-1]:
        labels.pop()
    if values.dtype.kind in "OUST" and not any(isinstance(label, int | float) for label in labels):
        return of_labels(labels)
    for label in labels:
        if not isinstance(label, int | float) or label != label // 1 or not 0 <= label <= _LARGEST_CODE:
            raise UnsupportedModelError(
                f"{what} has the category {label!r}; predgap takes text, or whole numbers from 0 to "
                f"{_LARGEST_CODE}: encode the column so and train again"
            )
    return Categories(np.array(labels, dtype=np.int32))


def _sets(predictors: list[Any], levels: list[Categories]) -> _CategorySets:
    """The sets of categories in splits. In a node's bitset, bit i says whether category i goes left."""
    nodes = [predictor.nodes[_by_set(predictor.nodes)] for predictor in predictors]
    bits = np.concatenate(
        [
            predictor.raw_left_cat_bitsets[here["bitset_idx"]]
            for predictor, here in zip(predictors, nodes, strict=True)
        ]
    )
    column = np.concatenate([here["feature_idx"] for here in nodes])
    member = np.unpackbits(bits.astype("<u4").view(np.uint8), axis=1, bitorder="little")
    codes = np.full((len(levels), member.shape[1]), LEAF)  # not a valid code, so that the ensemble refuses it
    for own, row in zip(levels, codes, strict=True):
        row[: len(own)] = own.codes
    at, level = np.nonzero(member)
    return _CategorySets(np.append(0, np.cumsum(member.sum(axis=1))), codes[column[at], level])


def _with_labels(rows: Rows, categories: tuple[Categories | None, ...]) -> NDArray[Any]:
    """Rows of codes as the model takes them: text categories as labels instead of codes."""
    out = rows
    for q, levels in enumerate(categories):
        if levels is None or levels.labels == tuple(levels.codes.tolist()):
            continue
        out = out.astype(object, copy=out is rows)
        label = dict(zip(levels.codes.tolist(), levels.labels or (), strict=True))
        new = "never seen" + "?" * sum(len(str(known)) for known in label.values())
        out[:, q] = [code if code != code else label.get(code, new) for code in rows[:, q].tolist()]
    return out


# ---- trees to node arrays ----


def _tree(tree: Any, value: FloatArray, columns: NDArray[Any] | None = None) -> _Tree:
    feature = tree.feature
    if columns is not None:
        feature = np.asarray(columns)[np.maximum(feature, 0)]  # it is negative at leaves
    return _Tree(
        tree.children_left,
        tree.children_right,
        feature,
        tree.threshold,
        tree.missing_go_to_left,
        value,
        np.zeros(len(feature), dtype=bool),
    )


def _hist_tree(nodes: NDArray[Any], columns: NDArray[Any]) -> _Tree:
    leaf = nodes["is_leaf"].astype(bool)
    left, right = (np.where(leaf, LEAF, nodes[side].astype(np.int64)) for side in ("left", "right"))
    by_set = _by_set(nodes)
    return _Tree(
        left,
        right,
        columns[nodes["feature_idx"]],
        np.where(by_set, 0.0, nodes["num_threshold"]),
        nodes["missing_go_to_left"],
        nodes["value"][:, None],
        by_set,
    )


def _by_set(nodes: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray((nodes["is_categorical"] != 0) & (nodes["is_leaf"] == 0))


def _nodes(parts: _TreeSum, *, accepts_infinity: bool) -> dict[str, Any]:
    """The node arrays of all trees, concatenated; the order of nodes within a tree is kept."""
    left, right, feature, threshold, default_left, value, by_set = (
        np.concatenate(column) for column in zip(*parts.trees, strict=True)
    )
    inner = left != LEAF
    sizes = np.array([len(tree.left) for tree in parts.trees])
    first = np.cumsum(sizes) - sizes
    offset = np.repeat(first, sizes)
    numeric = inner & ~by_set
    cuts = translation.as_cuts(
        np.where(numeric, threshold, 0.0),
        left,
        right,
        default_left.astype(bool),
        inclusive=numeric,
        upward=np.zeros_like(numeric),
        kind=parts.kind,
    )
    width = value.shape[1]
    bias = np.zeros(width) if parts.bias is None else parts.bias
    sets = {} if parts.sets is None else {"set_begin": parts.sets.begin, "set_code": parts.sets.code}
    return sets | {
        "root": first,
        "feature": np.where(inner, feature, LEAF),
        **fields_of_rows(parts.kind, cuts.threshold, accepts_infinity=accepts_infinity),
        "left": np.where(inner, cuts.left + offset, LEAF),
        "right": np.where(inner, cuts.right + offset, LEAF),
        "default_left": inner & cuts.default_left,
        "value": np.where(inner[:, None], 0.0, value),
        "target": np.full(len(sizes), ALL_OUTPUTS) if width > 1 else np.arange(len(sizes)) % len(bias),
        "bias": bias,
        "category_set": np.where(by_set, np.cumsum(by_set) - 1, NUMERIC),
    }
