"""An `Ensemble` holds a model as read-only arrays of nodes. Loaders make it, and the kernels work on it.

A node is an index into the node arrays, a tree is the node of its root. `validate` checks everything that the
kernels rely on, so that a validated ensemble cannot make them read out of bounds. No library-specific code
comes after it: kernels see arrays only.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from os import PathLike
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from predgap._inputs.categories import UNSEEN, Categories
from predgap._inputs.tables import read_table
from predgap._model import files
from predgap._model.links import Link
from predgap._text import format_items, names_or_default, shown
from predgap._typing import BoolArray, FloatArray, IntArray
from predgap.errors import EnsembleError, OutputError, ShapeError, TableError

__all__ = [
    "ALL_OUTPUTS",
    "LEAF",
    "NUMERIC",
    "Ensemble",
    "has_other_class",
    "of_other_class",
    "other_margin",
    "tree_of_node",
    "used_features",
    "without_equal_trees",
]

_NOTHING: Final = np.empty(0, dtype=np.int32)
_FROM_ZERO: Final = np.zeros(1, dtype=np.int32)

_FAST: Final = 1  # level of compression: the slowest one makes trees 2 % smaller
_DENSE_CELLS: Final = 1 << 26  # limit of sets x codes for a lookup table
_ROUTING_CELLS: Final = 1 << 20  # rows x trees at the same time in `leaves`, to limit memory


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Ensemble:
    """A tree model as arrays: `bias` plus a sum of binary trees, with one or several outputs.

    `predgap.load` makes one from a model; you can also build one from your own arrays, to explain any other
    model of trees. All arguments are keyword-only. Building an ensemble validates it and makes its arrays
    read-only.

    At a node a row goes left iff `x[feature] < threshold`; if the node has a set of categories, iff the code
    `x[feature]` is in the set. A missing value (NaN, or a number in `missing_range`) goes left iff
    `default_left`. Rows are compared as they are given: for a library that rounds them to float32 first,
    the loaders turn thresholds into those of float64 numbers.

    Parameters
    ----------
    root : (n_trees,) integers
        The root node of each tree.
    feature : (n_nodes,) integers
        The feature that a node splits on, -1 at leaves.
    threshold : (n_nodes,) floats
        Rows with `x[feature] < threshold` go left; finite.
    left, right : (n_nodes,) integers
        The children of a node, -1 at leaves.
    default_left : (n_nodes,) booleans
        Whether a missing value goes left.
    value : (n_nodes, 1) or (n_nodes, n_outputs) floats
        The values of leaves: one number, or one per output.
    target : (n_trees,) integers
        The output that a tree adds to; -1 if its leaves have one value per output.
    bias : (n_outputs,) floats
        Added to the sum of the trees.
    n_features : int
        The number of features, d.
    category_set : (n_nodes,) integers, default=all -1
        The set of categories that a node sends left; -1 if it compares with its threshold.
    set_begin : (n_sets + 1,) integers, default=[0]
        Where each set begins in `set_code`.
    set_code : (n_codes,) integers, default=[]
        The codes of the categories in all sets, ascending within a set.
    categories : sequence of d `Categories` or None, or None, default=None
        The categories of each feature, None for a numeric one.
    feature_names : sequence of d strings, or None, default=None
        The names of the features.
    class_names : sequence of strings, or None, default=None
        The labels of the classes of a classifier, one per output. A classifier of two classes with one output
        has both labels, and the output belongs to the second. None if the outputs are not classes, or not
        known to be.
    link : Link, or None, default=None
        How the probabilities of the classes follow from the margins; None if that is not known, or there are
        no classes.
    missing : float, default=nan
        A number that counts as missing, besides NaN.
    missing_range : (low, high), default=(missing, missing)
        The numbers that count as missing, ends included: those that the source library rounds to `missing`.
    largest : float, default=inf
        The largest absolute value that rows may hold.
    unseen_is_missing : bool, default=False
        Whether a category that is not in `categories` counts as missing.
    source : str, default="arrays"
        What the ensemble was loaded from, for display.

    Examples
    --------
    >>> stump = Ensemble(
    ...     root=[0], feature=[0, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1], right=[2, -1, -1],
    ...     default_left=[True, False, False], value=[[0.0], [1.0], [3.0]], target=[0], bias=[10.0],
    ...     n_features=1)
    >>> stump.predict([[0.0], [0.5], [float("nan")]])
    array([11., 13., 11.])
    """

    root: IntArray  # (n_trees,) node id of each root
    feature: IntArray  # (n_nodes,) split feature, LEAF at leaves
    threshold: FloatArray  # (n_nodes,) left iff x[feature] < threshold; finite
    left: IntArray  # (n_nodes,) node id, LEAF at leaves
    right: IntArray  # (n_nodes,) node id, LEAF at leaves
    default_left: BoolArray  # (n_nodes,) where a missing value goes
    value: FloatArray  # (n_nodes, 1), or (n_nodes, n_outputs) when leaves are vectors
    target: IntArray  # (n_trees,) output that a tree adds to; ALL_OUTPUTS when leaves are vectors
    bias: FloatArray  # (n_outputs,)
    n_features: int
    category_set: IntArray = field(
        default_factory=lambda: _NOTHING
    )  # (n_nodes,) set whose categories go left, NUMERIC for a threshold
    set_begin: IntArray = field(
        default_factory=lambda: _FROM_ZERO
    )  # (n_sets + 1,) where each set begins in `set_code`
    set_code: IntArray = field(
        default_factory=lambda: _NOTHING
    )  # codes of the categories, ascending in each set
    categories: tuple[Categories | None, ...] | None = None  # (n_features,) levels of categorical features
    feature_names: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None  # (n_outputs,) labels, or two for one output, of the second
    link: Link | None = None  # how probabilities of classes follow from margins, where that is known
    missing: float = math.nan  # a value that is missing, besides NaN
    missing_range: tuple[float, float] = (math.nan, math.nan)  # all numbers that are missing, with its ends
    largest: float = math.inf  # values of rows are from -largest to largest
    unseen_is_missing: bool = False  # does a category that is not in `categories` count as missing?
    source: str = "arrays"  # what it was loaded from, for display

    def __post_init__(self) -> None:
        if isinstance(self.n_features, bool) or not isinstance(self.n_features, int | np.integer):
            raise EnsembleError(f"n_features is {shown(self.n_features)}, expected a whole number")
        if np.size(self.category_set) == 0:
            object.__setattr__(self, "category_set", np.full(np.shape(self.feature), NUMERIC))
        if self.categories is not None:
            levels = tuple(self.categories) if isinstance(self.categories, list | tuple) else ()
            if not all(c is None or isinstance(c, Categories) for c in levels) or len(levels) == 0:
                raise EnsembleError(
                    f"categories is {shown(self.categories)}, expected Categories or None per feature"
                )
            object.__setattr__(self, "categories", levels if any(c is not None for c in levels) else None)
        for name, dtype in _DTYPES.items():
            object.__setattr__(self, name, _frozen(name, getattr(self, name), dtype))
        for name in ("feature_names", "class_names"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(map(str, getattr(self, name))))
        if not isinstance(self.link, Link | None):
            raise EnsembleError(f"link is {shown(self.link)}, expected a Link or None")
        for name in ("missing", "largest"):
            object.__setattr__(self, name, float(getattr(self, name)))
        span = tuple(map(float, self.missing_range))
        object.__setattr__(self, "missing_range", (self.missing,) * 2 if np.isnan(span).all() else span)
        self.validate()

    def __repr__(self) -> str:
        return (
            f"<Ensemble of {self.source}: {self.n_trees} trees, {self.n_nodes} nodes, {self.n_features} "
            f"features, {self.n_outputs} outputs>"
        )

    @property
    def n_trees(self) -> int:
        """The number of trees."""
        return len(self.root)

    @property
    def n_nodes(self) -> int:
        """The number of nodes of all trees, including leaves."""
        return len(self.feature)

    @property
    def n_outputs(self) -> int:
        """The number of outputs."""
        return len(self.bias)

    @property
    def accepts_infinity(self) -> bool:
        """True if rows may hold infinite values."""
        return bool(self.largest == np.inf)

    @property
    def names(self) -> tuple[str, ...]:
        """The feature names: the model's own, or else f0, f1, ..."""
        return names_or_default(self.n_features, self.feature_names)

    def validate(self) -> None:
        """Raises `EnsembleError` unless the arrays describe valid trees. Called when an ensemble is built."""
        check_shapes(self)
        check_ranges(self)
        check_sets(self)
        check_trees(self)

    def cast(self, X: ArrayLike) -> FloatArray:
        """Rows as the model sees them: with NaN for all missing values.

        Parameters
        ----------
        X : (n, d) array
            Rows with columns in the model's order; categories as codes.

        Returns
        -------
        (n, d) float64 array
            A copy. Codes of categories that the model does not know become -1, or NaN if `unseen_is_missing`.

        Raises
        ------
        TableError
            If a value is beyond `largest`, or a code is not valid.
        """
        rows = np.array(X, dtype=np.float64, order="C")
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise ShapeError(
                f"X has shape {rows.shape}, the model needs (n, {self.n_features}); "
                "pass one row as X[None, :], and drop the target column"
            )
        if not np.isnan(self.missing):
            rows[self.is_missing(rows)] = np.nan
        if self.categories is not None:
            for q, levels in self.categorical().items():
                rows[:, q] = self._cast_codes(rows[:, q], q, levels)
        if self.largest < np.inf and (np.abs(rows) > self.largest).any():
            r, j = np.argwhere(np.abs(rows) > self.largest)[0]
            found = "infinite" if np.isinf(rows[r, j]) else f"{rows[r, j]:.9g}"
            raise TableError(
                f"X[{r}, {j}] (feature {self.names[j]!r}) is {found}, but for this model of {self.source} "
                f"predgap takes numbers up to {self.largest:.9g}; mark it missing (NaN) or clip it"
            )
        return rows

    def is_missing(self, values: FloatArray) -> BoolArray:
        """True for the numbers that count as missing, NaN among them; an array like `values`."""
        low, high = self.missing_range
        found: BoolArray = np.isnan(values) | ((values >= low) & (values <= high))
        return found

    def categorical(self) -> dict[int, Categories]:
        """The categories of each categorical feature, by feature index."""
        return {q: levels for q, levels in enumerate(self.categories or ()) if levels is not None}

    def _cast_codes(self, codes: FloatArray, q: int, levels: Categories) -> FloatArray:
        """A column of codes as the model sees it. Unknown codes are equivalent, as no split tests them; they
        become UNSEEN or NaN."""
        gone = np.isnan(codes)
        strange = ~gone & (codes != np.trunc(codes))  # an infinity counts as whole
        if strange.any():
            r = int(np.flatnonzero(strange)[0])
            raise TableError(
                f"X[{r}, {q}] is {codes[r]:g}, but feature {self.names[q]!r} is categorical: expected a "
                "whole number, the code of a category"
            )
        known = gone | (levels.levels_of(codes) >= 0)
        if levels.closed and not known.all():
            r = int(np.flatnonzero(~known)[0])
            raise TableError(
                f"X[{r}, {q}] is {codes[r]:g}, which is none of the codes of feature {self.names[q]!r}, 0 to "
                f"{len(levels) - 1}; if it is a category itself, pass a frame, which holds labels"
            )
        return np.where(known, codes, np.nan if self.unseen_is_missing else UNSEEN)

    def leaves(self, X: Any) -> IntArray:
        """The leaf that each row reaches in each tree.

        Parameters
        ----------
        X : (n, d) array or frame
            Rows as for `predict`.

        Returns
        -------
        (n, n_trees) integers
            Nodes, i.e. indices into the node arrays.
        """
        rows = self.cast(read_table(X, self.n_features, self.feature_names, self.categories).values)
        out = np.empty((len(rows), self.n_trees), dtype=np.int32)
        step = max(1, _ROUTING_CELLS // max(1, self.n_trees))
        for start in range(0, len(rows), step):
            out[start : start + step] = self._route(rows[start : start + step])
        return out

    def predict(self, X: Any) -> FloatArray:
        """The raw margin of each row: `bias` plus the sum of the trees, before any link function.

        Parameters
        ----------
        X : (n, d) array or frame
            Named columns are matched to the feature names.

        Returns
        -------
        (n,) array, or (n, n_outputs) for several outputs
        """
        leaves = self.leaves(X)
        out = np.broadcast_to(self.bias, (len(leaves), self.n_outputs)).copy()
        for tree in range(self.n_trees):  # a fixed order: the sum does not depend on other rows
            values = self.value[leaves[:, tree]]
            if self.target[tree] == ALL_OUTPUTS:
                out += values
            else:
                out[:, self.target[tree]] += values[:, 0]
        return out[:, 0] if self.n_outputs == 1 else out

    def save(self, path: str | PathLike[Any]) -> None:
        """Saves the ensemble to a file, which `Ensemble.load` and `predgap.load` read.

        The file contains no code, and no other library is needed to load it. It is written completely or not
        at all. Labels of categories must be text, numbers or booleans.

        Parameters
        ----------
        path : str or os.PathLike
            The file to write; an existing one is replaced.

        Examples
        --------
        >>> import tempfile, os
        >>> constant = Ensemble(
        ...     root=[], feature=[], threshold=[], left=[], right=[], default_left=[], value=np.empty((0, 1)),
        ...     target=[], bias=[10.0], n_features=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     constant.save(os.path.join(folder, "constant.predgap"))
        ...     Ensemble.load(os.path.join(folder, "constant.predgap")).predict([[0.0]])
        array([10.])
        """
        files.save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[Any]) -> Ensemble:
        """Loads an ensemble from a file that `save` wrote; the arrays are equal to the last bit.

        Parameters
        ----------
        path : str or os.PathLike
            The file to read.

        Returns
        -------
        Ensemble

        Raises
        ------
        LoaderError
            If the file was not written by `save`, or is damaged.
        """
        return files.load(path, cls)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles are the compressed bytes of a file; labels that a file does not take are pickled."""
        try:
            return _from_bytes, (zlib.compress(files.encode(self), _FAST),)
        except EnsembleError:
            return partial(Ensemble, **{each.name: getattr(self, each.name) for each in fields(self)}), ()

    def named(self, feature_names: Sequence[str]) -> Ensemble:
        """The same ensemble with other feature names.

        Parameters
        ----------
        feature_names : sequence of d strings
            All different.

        Returns
        -------
        Ensemble
        """
        if isinstance(feature_names, str):
            raise EnsembleError(f"feature_names is the text {feature_names!r}, expected a list of names")
        return replace(self, feature_names=tuple(feature_names))

    def select(self, output: int) -> Ensemble:
        """The ensemble of one output, with the trees that add to it.

        Parameters
        ----------
        output : int
            From 0 to n_outputs - 1; `OutputError` otherwise.

        Returns
        -------
        Ensemble
        """
        if isinstance(output, bool) or not isinstance(output, int | np.integer):
            raise OutputError(
                f"output={shown(output)} is not a number; the model's outputs are 0 to {self.n_outputs - 1}"
            )
        if not 0 <= output < self.n_outputs:
            raise OutputError(
                f"output={output} does not exist; the model has {self.n_outputs} (0 to {self.n_outputs - 1})"
            )
        if self.n_outputs == 1:
            return self
        mine = (self.target == output) | (self.target == ALL_OUTPUTS)
        column = output if self.value.shape[1] > 1 else 0
        one = replace(
            self,
            root=self.root[mine],
            target=np.zeros(int(mine.sum()), dtype=np.int32),
            value=self.value[:, [column]],
            bias=self.bias[[output]],
            class_names=None if self.class_names is None else (self.class_names[output],),
            link=None if self.link is not None and self.link.kind == "softmax" else self.link,
        )
        return one if mine.all() else pruned(one)

    def _route(self, rows: FloatArray) -> IntArray:
        member = _Members(self)
        node = np.broadcast_to(self.root, (len(rows), self.n_trees)).copy()
        at = np.nonzero(self.feature[node] != LEAF)
        while at[0].size:
            here = node[at]
            x = rows[at[0], self.feature[here]]
            goes_left = np.where(np.isnan(x), self.default_left[here], x < self.threshold[here])
            split = np.flatnonzero((self.category_set[here] != NUMERIC) & ~np.isnan(x))
            goes_left[split] = member.test(self.category_set[here[split]], x[split])
            node[at] = np.where(goes_left, self.left[here], self.right[here])
            inner = self.feature[node[at]] != LEAF
            at = (at[0][inner], at[1][inner])
        return node


class _Members:
    """Tests for many codes whether they are in sets."""

    def __init__(self, e: Ensemble) -> None:
        of_set = np.repeat(np.arange(len(e.set_begin) - 1, dtype=np.int64), np.diff(e.set_begin))
        self._width = int(e.set_code.max(initial=-1)) + 1
        cells = (len(e.set_begin) - 1) * self._width
        self._dense = np.zeros(cells if cells <= _DENSE_CELLS else 0, dtype=np.bool_)
        self._keys = of_set * self._width + e.set_code  # ascending, as sets and their codes are
        if len(self._dense):
            self._dense[self._keys] = True

    def test(self, which: IntArray, codes: FloatArray) -> BoolArray:
        """True for each code (n,) that is in its set; `which` (n,) are the numbers of the sets."""
        possible = (codes >= 0) & (codes < self._width)
        wanted = which.astype(np.int64) * self._width + np.where(possible, codes, 0).astype(np.int64)
        if not len(self._keys):
            return np.zeros(len(which), dtype=np.bool_)
        if len(self._dense):
            return possible & self._dense[wanted]
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        found: BoolArray = possible & (self._keys[at] == wanted)
        return found


_DTYPES: Final[dict[str, Any]] = {
    "root": np.int32,
    "feature": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "default_left": np.bool_,
    "value": np.float64,
    "target": np.int32,
    "bias": np.float64,
    "category_set": np.int32,
    "set_begin": np.int32,
    "set_code": np.int32,
}
assert set(_DTYPES) <= {f.name for f in fields(Ensemble)}


def _from_bytes(compressed: bytes) -> Ensemble:
    return Ensemble(**files.decode(zlib.decompress(compressed)))


def _frozen(name: str, values: Any, dtype: Any) -> NDArray[Any]:
    given = np.asarray(values)
    if given.size and given.dtype.kind not in "biuf":
        raise EnsembleError(f"{name} has dtype {given.dtype}, expected {np.dtype(dtype).name}")
    with np.errstate(invalid="ignore", over="ignore"):
        array = np.array(given, dtype=dtype, order="C")
    if array.dtype.kind in "ib" and not np.array_equal(array, given):
        raise EnsembleError(f"{name} holds values that {array.dtype} cannot: {shown(given.tolist())}")
    array.setflags(write=False)
    return array


# ------------------------------------------------------------------------------------------------------------
# The kernels rely on these rules for the arrays of an ensemble; `Ensemble.validate` checks them.

LEAF: Final = -1
"""Marks a leaf in `feature`, `left` and `right`."""

ALL_OUTPUTS: Final = -1
"""Marks a tree in `target` whose leaves hold one value per output."""

NUMERIC: Final = -1
"""Marks a split in `category_set` that compares with a threshold."""

_LARGEST_VALUE: Final = 1e145
_MOST_FEATURES: Final = 10_000_000


def check_shapes(e: Ensemble) -> None:
    """EnsembleError unless the arrays have matching shapes and the feature names are different."""
    n_nodes, n_trees, n_outputs = np.size(e.feature), np.size(e.root), np.size(e.bias)
    if n_outputs < 1 or e.n_features < 0 or (n_nodes < 1 and n_trees > 0):
        raise EnsembleError(
            f"an ensemble needs an output and nodes for its trees; found {n_outputs} outputs, "
            f"{n_nodes} nodes, {n_trees} trees, {e.n_features} features"
        )
    if e.n_features > _MOST_FEATURES:
        raise EnsembleError(f"{e.n_features} features; at most {_MOST_FEATURES} are supported")
    width = e.value.shape[1] if e.value.ndim == 2 else -1
    expected = dict.fromkeys(
        ("feature", "threshold", "left", "right", "default_left", "category_set"), (n_nodes,)
    ) | {
        "root": (n_trees,),
        "target": (n_trees,),
        "bias": (n_outputs,),
        "value": (n_nodes, width if width in (1, n_outputs) else n_outputs),
    }
    for name, shape in expected.items():
        found = getattr(e, name).shape
        if found != shape:
            raise EnsembleError(f"{name} has shape {found}, expected {shape}")
    if e.feature_names is not None and len(e.feature_names) != e.n_features:
        raise EnsembleError(f"{len(e.feature_names)} feature names for {e.n_features} features")
    if e.feature_names is not None and len(set(e.feature_names)) < e.n_features:
        twice = [name for name, n in Counter(e.feature_names).items() if n > 1]
        raise EnsembleError(f"feature names must differ; {twice[0]!r} is given more than once")
    if e.class_names is not None:
        _check_class_names(e.class_names, n_outputs)
    _check_rows(e)


def _check_rows(e: Ensemble) -> None:
    span = e.missing_range
    if len(span) != 2 or not (span[0] <= e.missing <= span[1] or np.isnan([*span, e.missing]).all()):
        raise EnsembleError(
            f"missing is {e.missing}, and missing_range {span}; expected two numbers around it"
        )
    if not e.largest > 0:
        raise EnsembleError(f"largest is {e.largest}, expected a number above 0")


def _check_class_names(names: tuple[str, ...], n_outputs: int) -> None:
    if len(names) not in ({1, 2} if n_outputs == 1 else {n_outputs}):
        raise EnsembleError(
            f"{len(names)} class names for {n_outputs} outputs; expected one per output, or both of two "
            "classes if there is one output"
        )
    if len(set(names)) < len(names):
        twice = [name for name, n in Counter(names).items() if n > 1]
        raise EnsembleError(f"class names must differ; {twice[0]!r} is given more than once")


def check_ranges(e: Ensemble) -> None:
    """EnsembleError unless features, children, roots and targets exist, and numbers are finite."""
    inner = e.feature != LEAF
    rules = {
        f"a split feature outside 0 ... {e.n_features - 1}": inner
        & ((e.feature < 0) | (e.feature >= e.n_features)),
        "a child outside the nodes": inner
        & ((e.left < 0) | (e.left >= e.n_nodes) | (e.right < 0) | (e.right >= e.n_nodes)),
        "a leaf with children": ~inner & ((e.left != LEAF) | (e.right != LEAF)),
        "a threshold that is not finite": inner & ~np.isfinite(e.threshold),
        "a leaf value that is not finite": ~inner & ~np.isfinite(e.value).all(axis=1),
        f"a leaf value beyond ±{_LARGEST_VALUE:g}, whose square may overflow": ~inner
        & (np.abs(e.value) > _LARGEST_VALUE).any(axis=1),
    }
    for what, wrong in rules.items():
        if wrong.any():
            raise EnsembleError(f"node {int(np.flatnonzero(wrong)[0])} has {what}")
    if not np.isfinite(e.bias).all():
        raise EnsembleError(f"the bias is not finite: {format_items(e.bias.tolist())}")
    if ((e.root < 0) | (e.root >= max(1, e.n_nodes))).any():
        raise EnsembleError(f"a root lies outside the {e.n_nodes} nodes")
    vector = e.value.shape[1] > 1
    if vector and (e.target != ALL_OUTPUTS).any():
        raise EnsembleError("leaves are vectors, so every tree's target must be ALL_OUTPUTS")
    if not vector and ((e.target < 0) | (e.target >= e.n_outputs)).any():
        raise EnsembleError(f"a tree's target lies outside 0 ... {e.n_outputs - 1}")


def check_sets(e: Ensemble) -> None:
    """EnsembleError unless sets of categories are valid, and on categorical features only."""
    n_sets = e.set_begin.size - 1
    ordered = (
        e.set_begin.ndim == 1 and n_sets >= 0 and e.set_begin[0] == 0 and (np.diff(e.set_begin) >= 0).all()
    )
    if e.set_code.ndim != 1 or not ordered or e.set_begin[-1] != len(e.set_code):
        raise EnsembleError(f"set_begin must run from 0 to the {e.set_code.size} codes of the sets")
    rising = np.diff(e.set_code) > 0
    rising[e.set_begin[(e.set_begin > 0) & (e.set_begin < len(e.set_code))] - 1] = True  # between sets
    if not rising.all() or (e.set_code < 0).any():
        raise EnsembleError("the codes of a set must not be negative, and ascend")
    if e.categories is not None and len(e.categories) != e.n_features:
        raise EnsembleError(f"{len(e.categories)} entries of categories for {e.n_features} features")
    inner = e.feature != LEAF
    by_set = inner & (e.category_set != NUMERIC)
    levels = e.categorical()
    categorical = np.isin(e.feature, list(levels))
    rules = {
        f"a set of categories outside 0 ... {n_sets - 1}": by_set
        & ((e.category_set < 0) | (e.category_set >= n_sets)),
        "a set of categories on a numeric feature": by_set & ~categorical,
        "a threshold on a categorical feature": inner & ~by_set & categorical,
        "a set of categories, but is a leaf": ~inner & (e.category_set != NUMERIC),
    }
    for what, wrong in rules.items():
        if wrong.any():
            raise EnsembleError(f"node {int(np.flatnonzero(wrong)[0])} has {what}")
    _check_levels(e, levels, by_set)


def _check_levels(e: Ensemble, levels: dict[int, Categories], by_set: BoolArray) -> None:
    """EnsembleError unless every code in a feature's sets is one of its categories, and fits into rows."""
    if not by_set.any():
        return
    pairs = np.unique(np.stack([e.feature[by_set], e.category_set[by_set]], axis=1), axis=0)
    features, first = np.unique(pairs[:, 0], return_index=True)
    for q, sets in zip(features.tolist(), np.split(pairs[:, 1], first[1:]), strict=True):
        own = levels[q]
        codes = np.concatenate([e.set_code[e.set_begin[s] : e.set_begin[s + 1]] for s in sets])
        strange = codes[own.levels_of(codes) < 0]
        if len(strange):
            raise EnsembleError(
                f"feature {e.names[q]!r} is split on the category {int(strange[0])}, which is none of its "
                f"{len(own)} levels"
            )


def check_trees(e: Ensemble) -> None:
    """EnsembleError unless every node has at most one parent, and roots none: so there are no cycles."""
    inner = e.feature != LEAF
    children = np.concatenate([e.left[inner], e.right[inner], e.root])
    n_parents = np.bincount(children, minlength=e.n_nodes)
    if (n_parents > 1).any():
        raise EnsembleError(
            f"node {int(np.argmax(n_parents))} is reached in {int(n_parents.max())} ways; "
            "trees must not share nodes or contain cycles"
        )


# ------------------------------------------------------------------------------------------------------------
# Each tree has its own nodes; trees of two ensembles may be equal.

Ids = NDArray[np.int64]


def levels_of(e: Ensemble) -> Iterator[tuple[IntArray, IntArray]]:
    """The nodes at each depth, from the roots down, and the tree of each of them."""
    nodes, trees = e.root, np.arange(e.n_trees, dtype=np.int32)
    while len(nodes):
        yield nodes, trees
        inner = e.feature[nodes] != LEAF
        nodes, trees = (
            np.concatenate([e.left[nodes[inner]], e.right[nodes[inner]]]),
            np.tile(trees[inner], 2),
        )


def used_features(e: Ensemble) -> list[int]:
    """The features that some split tests, ascending."""
    found: list[int] = np.unique(e.feature[e.feature != LEAF]).tolist()
    return found


def tree_of_node(e: Ensemble) -> IntArray:
    """The tree of each node, (n_nodes,); -1 for nodes of no tree."""
    out = np.full(e.n_nodes, -1, dtype=np.int32)
    for nodes, trees in levels_of(e):
        out[nodes] = trees
    return out


def pruned(e: Ensemble) -> Ensemble:
    """The same ensemble without the nodes that no tree contains any more."""
    kept = tree_of_node(e) >= 0
    number = np.append(np.cumsum(kept, dtype=np.int32) - 1, LEAF).astype(np.int32)  # LEAF stays LEAF
    by_node = ("feature", "threshold", "default_left", "value", "category_set")
    return replace(
        e,
        root=number[e.root],
        left=number[e.left[kept]],
        right=number[e.right[kept]],
        **{name: getattr(e, name)[kept] for name in by_node},
    )


def without_equal_trees(f: Ensemble, g: Ensemble) -> tuple[Ensemble, Ensemble]:
    """Both ensembles without the trees that they have in common, as often as both have them.

    Trees are equal if they have the same splits in the same places, the same leaf values, and add to the same
    output. Both ensembles have the same features.

    Examples
    --------
    >>> from predgap import Ensemble
    >>> def constants(*values):
    ...     n = len(values)
    ...     return Ensemble(
    ...         root=range(n), feature=[-1] * n, threshold=[0] * n, left=[-1] * n, right=[-1] * n,
    ...         default_left=[False] * n, value=[[v] for v in values], target=[0] * n, bias=[0.0],
    ...         n_features=1)
    >>> f, g = without_equal_trees(constants(1.0, 2.0, 2.0), constants(2.0, 3.0))
    >>> f.value.ravel(), g.value.ravel()
    (array([1., 2.]), array([3.]))
    """
    if f.value.shape[1] != g.value.shape[1]:
        return f, g
    ids = _numbers_of_trees(f, g)
    n_classes = int(ids.max(initial=-1)) + 1
    mine, theirs = ids[: f.n_trees], ids[f.n_trees :]
    common = np.minimum(*(np.bincount(some, minlength=n_classes) for some in (mine, theirs)))
    return _from_occurrence(f, mine, common), _from_occurrence(g, theirs, common)


def _from_occurrence(e: Ensemble, ids: Ids, first: Ids) -> Ensemble:
    """The ensemble without the first so many trees of each class of equal ones."""
    order = np.argsort(ids, kind="stable")
    sorted_ids = ids[order]
    occurrence = np.empty(len(ids), dtype=np.int64)
    occurrence[order] = np.arange(len(ids)) - np.searchsorted(sorted_ids, sorted_ids)
    kept: BoolArray = occurrence >= first[ids]
    return e if kept.all() else pruned(replace(e, root=e.root[kept], target=e.target[kept]))


def _numbers_of_trees(f: Ensemble, g: Ensemble) -> Ids:
    """Numbers of all trees of f, then of g; equal trees have the same one.

    From the deepest nodes up, nodes at the same depth get equal numbers if their subtrees are equal.
    """
    own = [_numbered_nodes(e) for e in (f, g)]
    feature, default_left = (np.concatenate([e[name] for e in own]) for name in ("feature", "default_left"))
    threshold = _numbered(np.concatenate([e["threshold"] for e in own]))
    value = _numbered(*np.concatenate([e["value"] for e in own]).T)
    sets = _numbered_sets([code for e in own for code in e["set"]])
    shift = f.n_nodes
    left, right = (np.concatenate([getattr(f, side), getattr(g, side) + shift]) for side in ("left", "right"))
    number = np.zeros(len(feature), dtype=np.int64)
    of_f, of_g = ([nodes for nodes, _ in levels_of(e)] for e in (f, g))
    for depth in reversed(range(max(len(of_f), len(of_g)))):
        parts = [of_f[depth : depth + 1], [nodes + shift for nodes in of_g[depth : depth + 1]]]
        nodes = np.concatenate([part for both in parts for part in both])
        is_leaf = feature[nodes] == LEAF
        number[nodes] = _numbered(
            feature[nodes],
            threshold[nodes],
            sets[nodes],
            default_left[nodes],
            np.where(is_leaf, value[nodes], number[left[nodes]]),
            np.where(is_leaf, 0, number[right[nodes]]),
        )
    roots = np.concatenate([f.root, g.root + shift])
    return _numbered(number[roots], np.concatenate([f.target, g.target]))


def _numbered_nodes(e: Ensemble) -> dict[str, Any]:
    """The fields of all nodes, with what does not matter set to 0."""
    is_leaf = e.feature == LEAF
    texts = [e.set_code[a:b].tobytes() for a, b in zip(e.set_begin, e.set_begin[1:], strict=False)]
    return {
        "feature": e.feature,
        "threshold": np.where(is_leaf | (e.category_set != NUMERIC), 0.0, e.threshold),
        "default_left": e.default_left & ~is_leaf,
        "value": np.where(is_leaf[:, None], e.value, 0.0),
        "set": [None if which == NUMERIC else texts[which] for which in e.category_set.tolist()],
    }


def _numbered_sets(sets: list[bytes | None]) -> Ids:
    known: dict[bytes | None, int] = {}
    return np.array([known.setdefault(each, len(known)) for each in sets], dtype=np.int64)


def _numbered(*columns: IntArray | FloatArray | Ids | BoolArray) -> Ids:
    """A number for each row of these columns, from 0; equal rows have the same one."""
    found: Ids = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        different, own = np.unique(column, return_inverse=True)
        found = np.unique(found * max(1, len(different)) + own, return_inverse=True)[1]
    return found


# ------------------------------------------------------------------------------------------------------------
# Of two classes that share one output, it belongs to the second; this is the first.


def has_other_class(model: Ensemble) -> bool:
    """True if the only output belongs to one of two classes, so that the margin of the other one follows."""
    known = model.link is not None and model.link.kind in ("identity", "logistic")
    return known and model.n_outputs == 1 and len(model.class_names or ()) == 2


def other_margin(model: Ensemble, margin: FloatArray) -> FloatArray:
    """The margins of the other class: 1 minus the probability, or the log-odds with the other sign."""
    is_probability = model.link is not None and model.link.kind == "identity"
    return (1.0 if is_probability else 0.0) - margin


def of_other_class(model: Ensemble) -> Ensemble:
    """The model whose output is that of the other class."""
    names = None if model.class_names is None else model.class_names[::-1]
    return replace(model, value=-model.value, bias=other_margin(model, model.bias), class_names=names)
