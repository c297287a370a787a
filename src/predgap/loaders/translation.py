"""All loaders use this module: it converts splits and classes, and checks the ensemble that was made.

Splits of any library become those of an ensemble (`as_cuts`, `as_sets`), the labels of classes become text
(`class_names`), and `check_predictions` compares what the ensemble and its model predict. The rows of this
check are at and around the thresholds, where mistakes of loaders (< or <=, rounding, missing values) show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from predgap._inputs.categories import Categories
from predgap._model.ensemble import ALL_OUTPUTS, LEAF, NUMERIC, Ensemble
from predgap._model.links import Link
from predgap._model.rounding import LARGEST_CODE_OF_SINGLE, fields_of_rows
from predgap._typing import BoolArray, FloatArray, IntArray
from predgap.errors import LoaderError, UnsupportedModelError

__all__ = [
    "Cuts",
    "Integers",
    "above",
    "as_cuts",
    "as_sets",
    "ask_library",
    "check_predictions",
    "class_names",
    "estimator_link",
    "numbered",
    "rows_at_thresholds",
    "thresholds_by_feature",
]

Integers = NDArray[np.signedinteger[Any]]

_LARGEST_CODE: Final = 2**31 - 1


class Cuts(NamedTuple):
    """Splits that send x left iff x < threshold, where x is rounded to the library's precision."""

    threshold: FloatArray
    left: Integers
    right: Integers
    default_left: BoolArray
    accepts_infinity: bool  # False if a split only separates missing values from all others

    def fields(self, kind: type[np.floating[Any]]) -> dict[str, Any]:
        """The fields of an `Ensemble`, for a library that rounds rows to `kind`."""
        rows = fields_of_rows(kind, self.threshold, accepts_infinity=self.accepts_infinity)
        return rows | {"left": self.left, "right": self.right, "default_left": self.default_left}


def as_cuts(
    threshold: NDArray[np.floating[Any]],
    left: Integers,
    right: Integers,
    default_left: BoolArray,
    *,
    inclusive: BoolArray,
    upward: BoolArray,
    kind: type[np.floating[Any]],
) -> Cuts:
    """Converts splits that send x left iff x < t, x <= t, x > t or x >= t to the form x < threshold.

    Parameters
    ----------
    threshold, left, right, default_left : (n_nodes,) arrays
        As in an `Ensemble`, but with the library's comparison.
    inclusive : (n_nodes,) booleans
        True for x <= t and x > t, where values equal to t are on the lower side.
    upward : (n_nodes,) booleans
        True for x > t and x >= t, where higher values go left. The children are exchanged.
    kind : type
        `numpy.float32` or `numpy.float64`, the precision of rows.

    Examples
    --------
    >>> cuts = as_cuts(np.array([0.5]), np.array([1]), np.array([2]), np.array([True]),
    ...                inclusive=np.array([False]), upward=np.array([True]), kind=np.float32)
    >>> cuts.threshold, cuts.left, cuts.right, cuts.default_left
    (array([0.5]), array([2]), array([1]), array([False]))
    """
    exact = threshold.astype(np.float64)
    cut = np.where(inclusive, above(exact, kind), exact)
    # An infinite cut sends all values that are not missing the same way. It is replaced by a finite one,
    # which does the same for finite values only: infinite ones are then not accepted in rows.
    endless = np.isinf(cut)
    swap = upward ^ (cut == np.inf)
    return Cuts(
        threshold=np.where(endless, float(np.finfo(kind).min), cut),
        left=np.where(swap, right, left),
        right=np.where(swap, left, right),
        default_left=default_left ^ swap,
        accepts_infinity=not endless.any(),
    )


def above(threshold: FloatArray, kind: type[np.floating[Any]]) -> FloatArray:
    """The smallest float of type `kind` above each threshold: x <= threshold iff x < that number.

    Above the largest finite float32 it is the next float64, which has the same effect and is finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near = threshold.astype(kind)
        found = np.where(near > threshold, near, np.nextafter(near, kind(np.inf))).astype(np.float64)
        return np.where(np.isinf(found), np.nextafter(threshold, np.inf), found)


def as_sets(
    feature: Integers,
    by_set: BoolArray,
    node: Integers,
    code: FloatArray,
    n_features: int,
    kind: type[np.floating[Any]],
) -> dict[str, Any]:
    """The fields of an ensemble that describe splits on sets of categories.

    Parameters
    ----------
    feature : (n_nodes,) integers
        The split feature of each node, LEAF at leaves.
    by_set : (n_nodes,) booleans
        Which nodes send a set of categories left.
    node, code : (m,) arrays
        The members of all sets in any order: the node of the set, and the code of the category.
    n_features : int
        The number of features of the model.
    kind : type
        `numpy.float32` or `numpy.float64`, the precision of rows.
    """
    mixed = np.intersect1d(feature[by_set], feature[~by_set & (feature != LEAF)])
    if len(mixed):
        raise UnsupportedModelError(
            f"feature {mixed[0]} is compared with a threshold in one split and with categories in another, "
            "which predgap does not handle; make it two features"
        )
    largest = LARGEST_CODE_OF_SINGLE if kind == np.float32 else _LARGEST_CODE
    strange = (code != np.trunc(code)) | (code < 0) | (code > largest) | np.isnan(code)
    if strange.any():
        raise UnsupportedModelError(
            f"a split asks whether feature {feature[node[np.argmax(strange)]]} equals "
            f"{code[np.argmax(strange)]:g}; predgap handles categories, which are whole numbers from 0 to "
            f"{largest} in rows of {np.dtype(kind).name}"
        )
    category_set = np.full(len(feature), NUMERIC, dtype=np.int32)
    category_set[by_set] = np.arange(by_set.sum())
    key = np.unique((category_set[node].astype(np.int64) << 32) | code.astype(np.int64))
    sizes = np.bincount(key >> 32, minlength=int(by_set.sum()))
    levels: dict[int, Categories | None] = {
        int(j): Categories(np.unique(code[feature[node] == j]).astype(np.int32))
        for j in np.unique(feature[by_set])
        if 0 <= j < n_features
    }
    return {
        "category_set": category_set,
        "set_begin": np.concatenate([[0], np.cumsum(sizes)]),
        "set_code": key & 0xFFFFFFFF,
        "categories": tuple(levels.get(j) for j in range(n_features)) if levels else None,
    }


# ------------------------------------------------------------------------------------------------------------
# Classes have labels as text, and probabilities that follow from margins.


def class_names(labels: Iterable[Any], n_outputs: int) -> tuple[str, ...] | None:
    """The labels of a classifier's classes as text; None if they do not fit its outputs.

    They fit if there is one per output; if there are two for one output, which then belongs to the second
    class; and if all differ as text. Labels only name outputs, so a model without fitting ones still loads.

    Examples
    --------
    >>> class_names([False, True], 1)
    ('False', 'True')
    >>> class_names(["low", "mid", "high"], 1)
    """
    names = tuple(map(str, labels))
    fits = len(names) == n_outputs or (len(names) == 2 and n_outputs == 1)
    return names if fits and len(set(names)) == len(names) else None


def numbered(n_outputs: int, *, binary: bool) -> tuple[str, ...] | None:
    """The labels 0, 1, ... of libraries that number classes; None for a binary objective of several outputs,
    each of which is a model of its own."""
    if binary:
        return ("0", "1") if n_outputs == 1 else None
    return class_names(range(n_outputs), n_outputs)


def estimator_link(model: Any, n_outputs: int) -> Link | None:
    """The link from a scikit-learn model's margins to its probabilities; None if it predicts margins."""
    if not isinstance(getattr(model, "classes_", None), np.ndarray):
        is_other = getattr(model, "loss", None) in ("poisson", "gamma") or hasattr(model, "score_samples")
        return Link("other") if is_other else None  # a log link, or the score of an isolation forest
    if hasattr(model, "estimator_weights_"):  # AdaBoost
        return Link("logistic") if n_outputs == 1 else Link("softmax", 1.0 / (n_outputs - 1))
    if "GradientBoosting" not in type(model).__name__:
        return Link("identity")
    if model.loss == "exponential":
        return Link("logistic", 2.0)
    return Link("logistic" if n_outputs == 1 else "softmax")


# ------------------------------------------------------------------------------------------------------------
# The self-check compares a loaded ensemble with its model; every loader of objects ends with it.

Rows = NDArray[np.floating[Any]]

MAX_ROWS: Final = 512
_MAX_CELLS: Final = 1 << 22  # limit of rows x features and of rows x trees, for time and memory
_MIN_ROWS: Final = 16


def ask_library(library: str, what: str, question: Callable[[], Any], advice: str = "is it fitted?") -> Any:
    """Calls a library's object; whatever that raises becomes `LoaderError`: the model is not usable."""
    try:
        return question()
    except Exception as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise LoaderError(f"the {library} model cannot {what} ({reason.strip()}); {advice}") from error


def check_predictions(
    ensemble: Ensemble,
    *,
    library: str,
    margins: Callable[[Rows], ArrayLike],
    leaves: Callable[[Rows], ArrayLike] | None = None,
    double: bool = False,
    takes_missing: bool = True,
    rows: Rows | None = None,
) -> None:
    """Raises `LoaderError` unless the ensemble agrees with its model on rows made from its thresholds.

    Parameters
    ----------
    ensemble : Ensemble
        The loaded model.
    library : str
        Name of the library, for the message.
    margins : callable
        Takes rows (n, d) and returns the model's raw margins, (n,) or
        (n, n_outputs). The model is expected to add its leaves tree by tree in single precision, with the
        bias first or last. Margins must agree to 1e-6 times the sum of the absolute values that are added.
    leaves : callable, or None, default=None
        Takes rows and returns the leaf that each row reaches in each tree, (n, n_trees), as the number of the
        node minus that of the tree's root. None if the library does not tell.
    double : bool, default=False
        True if the model adds in double precision: margins must then agree to 1e-12.
    takes_missing : bool, default=True
        False if the model does not accept missing values: the rows then have none.
    rows : (n, d) array, or None, default=None
        The rows to compare on; None makes them with `rows_at_thresholds`.

    Examples
    --------
    >>> stump = Ensemble(
    ...     root=[0], feature=[0, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1], right=[2, -1, -1],
    ...     default_left=[True, False, False], value=[[0.0], [1.0], [3.0]], target=[0], bias=[0.0],
    ...     n_features=1)
    >>> check_predictions(stump, library="mine", margins=lambda rows: np.where(rows[:, 0] >= 0.5, 3.0, 1.0))
    >>> check_predictions(stump, library="mine", margins=lambda rows: np.where(rows[:, 0] > 0.5, 3.0, 1.0))
    Traceback (most recent call last):
      ...
    predgap.errors.LoaderError: ...
    """
    if rows is None:
        rows = rows_at_thresholds(ensemble, takes_missing=takes_missing)
    mine = ensemble.leaves(rows)
    if leaves is not None:
        _compare_leaves(rows, mine - ensemble.root, np.asarray(leaves(rows)), library)
    theirs = np.asarray(margins(rows), dtype=np.float64)
    _compare_margins(ensemble, rows, mine, theirs, library, double)


def rows_at_thresholds(ensemble: Ensemble, n_rows: int | None = None, *, takes_missing: bool = True) -> Rows:
    """Rows (n, d) that test a model at its thresholds.

    A numeric column has values at, just below and just above thresholds, missing values and zeros: a library
    that rounds rows must do it as the loader took it to. A
    categorical column has as many known categories as there are rows for, and one that the model does not
    know. Each column is shuffled on its own, always in the same way. The first row is all missing (if
    `takes_missing`), the second all zero.
    """
    if n_rows is None:
        widest = max(1, ensemble.n_features, ensemble.n_trees)
        n_rows = max(_MIN_ROWS, min(MAX_ROWS, _MAX_CELLS // widest))
    shuffle = np.random.default_rng(0)
    rows = np.zeros((n_rows, ensemble.n_features))
    for j, thresholds in thresholds_by_feature(ensemble).items():
        around = _around(ensemble, thresholds, n_rows, takes_missing)
        rows[:, j] = np.resize(shuffle.permutation(around), n_rows)
    for j, levels in ensemble.categorical().items():
        codes, special = _codes(ensemble, levels, takes_missing)
        room = max(1, n_rows - len(special))
        values = np.concatenate([special, codes[:room]])
        rows[:, j] = shuffle.permutation(np.resize(values, n_rows))
    if takes_missing:
        rows[0] = np.nan
    rows[1] = 0.0
    return rows


def thresholds_by_feature(ensemble: Ensemble) -> dict[int, FloatArray]:
    """The thresholds of each feature that is compared with some."""
    inner = np.flatnonzero((ensemble.feature != LEAF) & (ensemble.category_set == NUMERIC))
    inner = inner[np.argsort(ensemble.feature[inner], kind="stable")]
    used, starts = np.unique(ensemble.feature[inner], return_index=True)
    stops = [*starts[1:], len(inner)]
    return {
        int(j): ensemble.threshold[inner[start:stop]]
        for j, start, stop in zip(used, starts, stops[: len(used)], strict=True)
    }


def _around(ensemble: Ensemble, thresholds: FloatArray, n_most: int, takes_missing: bool) -> Rows:
    """Test values for a column with these thresholds, about `n_most` of them at most."""
    cuts = np.unique(thresholds)
    most = max(1, n_most // 4)
    if len(cuts) > most:
        cuts = cuts[np.linspace(0, len(cuts) - 1, most).round().astype(int)]
    with np.errstate(over="ignore"):
        values = np.concatenate([np.nextafter(cuts, -np.inf), cuts, np.nextafter(cuts, np.inf)])
    special = [0.0]
    if takes_missing:
        special += [np.nan, *(ends for ends in ensemble.missing_range if not np.isnan(ends))]
    if ensemble.accepts_infinity:
        special += [-np.inf, np.inf]
    else:
        values = values[np.abs(values) <= ensemble.largest]
    return np.concatenate([values, np.resize(special, max(len(special), len(cuts)))])


def _codes(ensemble: Ensemble, levels: Categories, takes_missing: bool) -> tuple[FloatArray, list[float]]:
    """Test codes for a categorical column, beginning with the ends of sets; and codes that must occur."""
    used = np.unique(ensemble.category_set[ensemble.category_set != NUMERIC])
    begin, end = ensemble.set_begin[used], ensemble.set_begin[used + 1]
    at = np.concatenate([begin[begin < end], end[begin < end] - 1])
    ends = np.unique(ensemble.set_code[at])
    ends = ends[levels.levels_of(ends) >= 0]
    codes = np.concatenate([ends, np.setdiff1d(levels.codes, ends)]).astype(np.float64)
    special = [] if levels.closed else [float(levels.codes.max(initial=-1)) + 1]
    return codes, [*special, np.nan] if takes_missing else special


def _compare_leaves(rows: Rows, mine: IntArray, theirs: NDArray[Any], library: str) -> None:
    if theirs.size != mine.size:
        raise LoaderError(
            f"the load disagrees with {library}: {mine.shape[1]} trees here, leaves of shape "
            f"{theirs.shape} there for {len(rows)} rows; please report this"
        )
    theirs = theirs.reshape(mine.shape)
    if not np.array_equal(mine, theirs):
        r, tree = np.argwhere(mine != theirs)[0]
        raise LoaderError(
            f"the load disagrees with {library}: in tree {tree}, {_show(rows[r])} reaches leaf "
            f"{mine[r, tree]} here and {theirs[r, tree]:g} there; please report this"
        )


def _compare_margins(
    ensemble: Ensemble, rows: Rows, leaves: IntArray, theirs: FloatArray, library: str, double: bool
) -> None:
    shape = len(rows), ensemble.n_outputs
    if theirs.size != shape[0] * shape[1]:
        raise LoaderError(
            f"the load disagrees with {library}: {ensemble.n_outputs} outputs here, margins of shape "
            f"{theirs.shape} there for {len(rows)} rows; please report this"
        )
    theirs = theirs.reshape(shape)
    first, last, size = _sums(ensemble, leaves, np.float64 if double else np.float32)
    tolerance = (1e-12 if double else 1e-6) * size
    # Libraries add the bias first or last; take the order that agrees in more rows.
    mine, wrong = min(
        ((sums, ~(np.abs(sums - theirs) <= tolerance)) for sums in (first, last)),
        key=lambda order: order[1].sum(),
    )
    if wrong.any():
        r, k = np.argwhere(wrong)[0]
        raise LoaderError(
            f"the load disagrees with {library}: output {k} of {_show(rows[r])} is {float(mine[r, k])!r} "
            f"here and {float(theirs[r, k])!r} there, expected within {tolerance[r, k]:.1e}; "
            "please report this"
        )


def _sums(ensemble: Ensemble, leaves: IntArray, kind: type) -> tuple[Rows, Rows, FloatArray]:
    """Margins (n, n_outputs), added tree by tree in this precision as libraries do, with the bias first and
    with the bias last; and the sums of the absolute values that were added."""
    bias: Rows = ensemble.bias.astype(kind)
    trees: Rows = np.zeros((len(leaves), len(bias)), dtype=kind)
    first, size = trees + bias, np.abs(ensemble.bias) + trees.astype(np.float64)
    for tree, target in enumerate(ensemble.target):
        value = ensemble.value[leaves[:, tree]]
        column = slice(None) if target == ALL_OUTPUTS else slice(target, target + 1)
        for sums in (first, trees):
            sums[:, column] += value.astype(kind)
        size[:, column] += np.abs(value)
    return first, trees + bias, size


def _show(row: Rows) -> str:
    shown = ", ".join(f"{value:.9g}" for value in row[:8])
    return f"the row [{shown}{', ...' if len(row) > 8 else ''}]"
