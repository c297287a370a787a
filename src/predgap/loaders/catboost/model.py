"""Describes the content of CatBoost's files in either format: features, splits, trees and CTRs."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from predgap._model.links import Link
from predgap._typing import BoolArray, FloatArray, IntArray
from predgap.errors import LoaderError, UnsupportedModelError
from predgap.loaders.translation import class_names

__all__ = [
    "AS_NUMBERS",
    "CTR",
    "KINDS",
    "NO_HASH",
    "NUMBER",
    "ONE_HOT",
    "CatBoostModel",
    "CategoricalFeature",
    "Classes",
    "Combination",
    "Counters",
    "Ctr",
    "Feature",
    "FloatFeature",
    "Nodes",
    "Questions",
    "check_features",
    "check_places",
    "classes_of",
    "combination",
    "counters",
    "grown",
    "link_of",
    "missing_goes_left",
    "no_counters",
    "questions",
    "ranks",
    "shown_combination",
    "shown_name",
    "source_of",
    "symmetric",
    "unknown",
]

AS_NUMBERS: Final = "which predgap does not handle yet; encode them as numbers and train without"
NUMBER, ONE_HOT, CTR = range(3)
"""Kinds of questions: is the number above a border, is it this category, is its CTR above a border?"""

_MOST: Final = 1 << 20  # classes or columns, so that a damaged number does not allocate all memory
_MAX_DEPTH: Final = 16  # of symmetric trees, as in CatBoost; they have 2^depth leaves


# ---- features, and what splits ask about them ----


@dataclass(frozen=True, slots=True)
class Feature:
    number: int  # index among the numeric, or the categorical, features
    column: int
    name: str  # may be empty


@dataclass(frozen=True, slots=True)
class FloatFeature(Feature):
    borders: FloatArray  # single precision
    missing_left: bool


@dataclass(frozen=True, slots=True)
class CategoricalFeature(Feature):
    hashes: FloatArray  # of the categories in splits, as signed 32-bit numbers


class Questions(NamedTuple):
    """All questions that splits ask; a split refers to one by its index.

    In CatBoost's order: borders of numeric features first, then hashes of categories, then borders of CTRs.
    """

    column: IntArray  # (n,) feature; of a combination, one of them
    number: IntArray  # (n,) index of the feature among the numeric, or the categorical, ones; a CTR's target
    compared: FloatArray  # (n,) border or hash
    kind: IntArray  # (n,) NUMBER, ONE_HOT or CTR
    missing_left: BoolArray  # (n,)


def questions(
    floats: list[FloatFeature], categorical: list[CategoricalFeature], ctrs: Sequence[Ctr]
) -> Questions:
    """The questions about these features, which `check_features` has checked."""
    features: list[Feature] = [*floats, *categorical]
    compared = [f.borders for f in floats] + [c.hashes for c in categorical] + [ctr.borders for ctr in ctrs]
    counts = [len(part) for part in compared]

    def repeated(values: list[Any], kind: type) -> Any:
        return np.repeat(np.array(values, dtype=kind), counts)

    of_ctrs = [categorical[ctr.of.categories[0]].column for ctr in ctrs]
    kinds = [NUMBER] * len(floats) + [ONE_HOT] * len(categorical) + [CTR] * len(ctrs)
    found = Questions(
        column=repeated([feature.column for feature in features] + of_ctrs, np.int32),
        number=repeated([f.number for f in features] + [ctr.target for ctr in ctrs], np.int32),
        compared=np.concatenate([np.empty(0), *compared]),
        kind=repeated(kinds, np.int8),
        missing_left=repeated([f.missing_left for f in floats] + [False] * (len(kinds) - len(floats)), bool),
    )
    first = np.diff(repeated([*range(len(compared))], np.int64)) != 0
    ascends = (found.compared[1:] > found.compared[:-1]) | first | (found.kind[1:] == ONE_HOT)
    if not np.isfinite(found.compared).all() or not ascends.all():
        raise LoaderError("the borders of a feature are not ascending single-precision numbers")
    return found


def check_places(place: IntArray, asked: Questions) -> None:
    """LoaderError unless each split refers to an existing question."""
    if ((place < 0) | (place >= len(asked.column))).any():
        raise LoaderError(
            f"a split is not among the {len(asked.column)} that the features allow; the file is damaged"
        )


def check_features(floats: list[FloatFeature], categorical: list[CategoricalFeature]) -> None:
    """LoaderError unless the features are numbered, in different columns, and have names.

    Old files list only the numeric features that are used, with the numbers and columns that they have among
    all, or numbered anew.
    """
    both: list[Feature] = [*floats, *categorical]
    numbers: list[Any] = [feature.number for feature in floats]
    columns: list[Any] = [feature.column for feature in both]
    if not set(map(type, numbers + columns)) <= {int}:
        raise LoaderError("the number or column of a feature is no whole number; the file is damaged")
    if numbers != sorted({*numbers}) or min(numbers, default=0) < 0:
        raise LoaderError("the numbers of the numeric features do not ascend; the file is damaged")
    for i, feature in enumerate(categorical):
        if feature.number != i:
            raise LoaderError(
                f"number {i} of the categorical features says that it is another one; the file is damaged"
            )
    most = max(_MOST, len(columns))
    if len({*columns}) < len(columns) or not all(0 <= column < most for column in columns):
        raise LoaderError(
            f"the features are not different columns from 0 to {most - 1:,}; the file is damaged"
        )
    if not all(isinstance(feature.name, str) for feature in both):
        raise LoaderError("the name of a feature is not a text; the file is damaged")
    for part in categorical:
        hashes = part.hashes
        if len(np.unique(hashes)) < len(hashes) or not (np.abs(hashes + 0.5) < 2**31).all():
            raise LoaderError("the values of a categorical feature are not different numbers of 32 bits")


def combination(
    categories: Sequence[Any],
    borders: Sequence[tuple[Any, float]],
    exact: Sequence[tuple[Any, Any]],
    floats: Sequence[FloatFeature],
    categorical: Sequence[CategoricalFeature],
) -> Combination:
    """Returns what a CTR counts, see `Combination`; LoaderError unless the features and borders exist."""
    listed = _by_number(floats) if borders else {}
    parts: list[tuple[Any, Collection[int]]] = [
        *((number, range(len(categorical))) for number in categories),
        *((number, listed) for number, _ in borders),
        *((number, range(len(categorical))) for number, _ in exact),
    ]
    if not categories or not all(type(number) is int and number in own for number, own in parts):
        raise LoaderError("a CTR is of no feature, or of one that does not exist; the file is damaged")
    if len({*categories}) < len(categories):
        raise LoaderError("a CTR has a feature twice; the file is damaged")
    if not all(border in listed[number].borders for number, border in borders):
        raise LoaderError("a CTR is of a border that its feature does not have; the file is damaged")
    if not all(type(value) is int and -(2**31) <= value < 2**31 for _, value in exact):
        raise LoaderError("a CTR is of a category that is not a number of 32 bits; the file is damaged")
    return Combination(tuple(categories), tuple(borders), tuple(exact))


def shown_combination(
    of: Combination, floats: Sequence[FloatFeature], categorical: Sequence[CategoricalFeature]
) -> str:
    """The names of the features of a combination."""
    listed = _by_number(floats) if of.borders else {}
    features: list[Feature] = [categorical[number] for number in of.categories]
    features += [listed[number] for number, _ in of.borders]
    features += [categorical[number] for number, _ in of.exact]
    return " with ".join(dict.fromkeys(repr(shown_name(feature)) for feature in features[:8]))


def _by_number(floats: Sequence[FloatFeature]) -> dict[int, FloatFeature]:
    return {feature.number: feature for feature in floats}


def no_counters(
    of: Combination, floats: Sequence[FloatFeature], categorical: Sequence[CategoricalFeature]
) -> LoaderError:
    return LoaderError(
        f"the model has no counters for feature {shown_combination(of, floats, categorical)}, so it cannot "
        "predict; train it with final_ctr_computation_mode='Default'"
    )


def shown_name(feature: Feature) -> str:
    return feature.name[:40] or str(feature.column)


def missing_goes_left(treatment: Any, seen: Any) -> bool:
    """True if NaN goes left; it goes right only if training had NaN, counted as larger than all numbers."""
    if treatment not in ("AsIs", "AsFalse", "AsTrue") or not isinstance(seen, bool):
        raise LoaderError(
            f"a feature has nan_value_treatment {str(treatment)[:40]!r} and has_nans {str(seen)[:40]!r}; "
            "expected AsIs, AsFalse or AsTrue, and true or false"
        )
    return not (seen and treatment == "AsTrue")


# ---- trees ----


class Nodes(NamedTuple):
    """The nodes of all trees. Within a tree they are level by level (breadth-first)."""

    root: IntArray  # (n_trees,)
    inner: BoolArray  # (n_nodes,)
    place: IntArray  # (n_inner,) the question
    left: IntArray  # (n_nodes,) the left child, at inner nodes; the right one comes next
    value: FloatArray  # (n_leaves, n_outputs), in the order of the nodes
    symmetric: bool


def symmetric(depth: IntArray, place: IntArray, value: FloatArray) -> Nodes:
    """Symmetric trees, in which all nodes of the same depth ask the same question; each tree becomes a heap.

    In CatBoost, bit k of the number of a leaf is the answer to question k. So the root asks the last
    question, which decides the highest bit: the leaves of the heap are then in the order of their numbers.

    Parameters
    ----------
    depth : (n_trees,) integers
        The depth of each tree, which is its number of questions.
    place : (n_questions,) integers
        The questions of all trees, concatenated.
    value : (n_leaves, n_outputs) floats
        The leaves of all trees, concatenated.
    """
    if (depth < 0).any() or (depth > _MAX_DEPTH).any():
        strange = depth[(depth < 0) | (depth > _MAX_DEPTH)][0]
        raise LoaderError(f"a tree has {strange} levels, CatBoost's symmetric trees up to {_MAX_DEPTH}")
    n_leaves, n_splits = int((1 << depth.astype(np.int64)).sum()), int(depth.sum(dtype=np.int64))
    if n_leaves != len(value) or n_splits != len(place):
        raise LoaderError(
            f"{len(value)} leaves and {len(place)} splits for trees that have {n_leaves} and {n_splits}; the "
            "file is damaged"
        )
    size = (2 << depth.astype(np.int32)) - 1
    root = np.cumsum(size, dtype=np.int32) - size
    heap = np.arange(size.sum(), dtype=np.int32) - np.repeat(root, size)  # index within the heap
    level = np.frexp(heap + 1.0)[1] - 1
    inner, last = level < np.repeat(depth, size), np.repeat(np.cumsum(depth) - 1, size)
    return Nodes(
        root=root,
        inner=inner,
        place=place[last[inner] - level[inner]],
        left=np.repeat(root, size) + 2 * heap + 1,
        value=value,
        symmetric=True,
    )


def grown(size: IntArray, inner: BoolArray, place: IntArray, value: FloatArray) -> Nodes:
    """Trees of any shape: `size` is the number of nodes of each tree; nodes are in the order of `Nodes`."""
    root = np.cumsum(size, dtype=np.int32) - size.astype(np.int32)
    before = np.cumsum(inner, dtype=np.int32) - inner  # number of inner nodes before each node
    left = np.repeat(root + 1 - 2 * before[root], size) + 2 * before
    return Nodes(root=root, inner=inner, place=place, left=left, value=value, symmetric=False)


# ---- all of it ----


class Classes(NamedTuple):
    """The classes of a model's outputs, and those that it knows only by name."""

    names: tuple[str, ...] | None  # labels of the outputs, where the metadata state them
    places: list[int]  # of the outputs among the margins that CatBoost predicts, if any are absent
    absent: list[str]  # classes that were not in the training data, to which CatBoost gives a margin of -inf


class CatBoostModel(NamedTuple):
    floats: list[FloatFeature]
    categorical: list[CategoricalFeature]
    ctrs: Sequence[Ctr]
    asked: Questions
    hashes: list[NDArray[np.int64]]  # of the known categories of each categorical feature, signed
    texts: dict[int, str]  # of categories by their unsigned hash, where known
    nodes: Nodes
    scale: float  # the sum of the leaves is multiplied by it
    bias: FloatArray  # (n_outputs,) added after the scaling
    source: str  # for display
    classes: Classes
    link: Link | None  # how probabilities follow from margins, where the metadata state it

    @property
    def features(self) -> list[Feature]:
        """Those that the file lists; columns that no split uses may be missing."""
        return [*self.floats, *self.categorical]

    @property
    def n_columns(self) -> int:
        return 1 + max((feature.column for feature in self.features), default=-1)


def source_of(info: Any) -> str:
    """ "CatBoost", its version and the loss function, as far as the model's metadata state them."""
    texts = []
    for path in (("catboost_version_info",), ("params", "loss_function", "type")):
        found = _at(info, *path)
        texts.append(found[:1000] if isinstance(found, str) else "")
    version = re.search(r"tags/v([\d.]{1,20})", texts[0])
    return " ".join(filter(None, ("CatBoost", version[1] if version else "", texts[1][:60])))


def classes_of(info: Any, n_outputs: int) -> Classes:
    """The classes, as far as the model's metadata state them; none if outputs are no classes, as with several
    labels (MultiLogloss)."""
    loss, labels = _at(info, "params", "loss_function", "type"), _labels(info)
    if labels is None or loss in ("MultiLogloss", "MultiCrossEntropy"):
        return Classes(None, [], [])
    places = _at(info, "class_params", "class_to_label")
    if 1 < n_outputs < len(labels) and _are_places(places, n_outputs, len(labels)):
        absent = [str(label) for i, label in enumerate(labels) if i not in set(places)]
        return Classes(class_names([labels[i] for i in places], n_outputs), places, absent)
    return Classes(class_names(labels, n_outputs), [], [])


def _labels(info: Any) -> list[Any] | None:
    """The labels of all classes, in CatBoost's order; None if there are none, or not of a known kind."""
    labels = _at(info, "class_params", "class_names")
    if not isinstance(labels, list) or not {*map(type, labels)} <= {str, int, float, bool}:
        return None
    if not labels:  # the classes are then 0, 1, ...
        n = _at(info, "class_params", "classes_count")
        return [*range(n)] if type(n) is int and 0 < n <= _MOST else None
    if _at(info, "class_params", "class_label_type") == "Float" and {*map(type, labels)} <= {int, float}:
        return [float(str(label)) for label in labels]  # JSON has 1 for 1.0
    return labels


def _are_places(found: Any, n: int, n_labels: int) -> bool:
    """True if these are n different places in a list of labels."""
    if not isinstance(found, list) or len(found) != n or not {*map(type, found)} <= {int}:
        return False
    return len({*found}) == n and min(found) >= 0 and max(found) < n_labels


_LINKS: Final = {
    **dict.fromkeys(
        ("Logloss", "CrossEntropy", "MultiClassOneVsAll", "MultiLogloss", "MultiCrossEntropy"),
        Link("logistic"),
    ),
    "MultiClass": Link("softmax"),
    **dict.fromkeys(("Poisson", "Tweedie"), Link("other")),  # exponentials
}


def link_of(info: Any) -> Link | None:
    """The link from margins to probabilities, by the loss function in the model's metadata, if any."""
    loss = _at(info, "params", "loss_function", "type")
    return _LINKS.get(loss) if isinstance(loss, str) else None


def _at(info: Any, *path: str) -> Any:
    """The value at a path of keys in the metadata; None if it is not there."""
    for key in path:
        info = info.get(key) if isinstance(info, dict) else None
    return info


def unknown(what: str) -> UnsupportedModelError:
    """The error for files with unknown parts, which might change the meaning of the trees: a file has no
    predictions to check against."""
    return UnsupportedModelError(
        f"the file was written by a CatBoost that predgap does not know (it has {what[:40]!r}); load "
        "it with CatBoost and pass the object, which is then checked against its predictions"
    )


# ------------------------------------------------------------------------------------------------------------
# CTRs: numbers that CatBoost computes from how often a category occurred in training, and with which labels.
#
# The model stores the counters of all categories, by a hash. A split compares a CTR with a border. The CTR of
# one feature is a function of its category, so such a split is a set of categories. Combinations are counted
# too: of several categorical features, of numbers that are above a border or not, and of features that have
# one category or not. What has no counters has the CTR of counters that are all zero.

KINDS: Final = (
    *("Borders", "Buckets", "BinarizedTargetMeanValue", "FloatTargetMeanValue", "Counter", "FeatureFreq"),
)
"""The kinds of CTRs, in the order of their numbers in binary files."""

NO_HASH: Final = 2**64 - 1
"""Marks an empty place of a hash table."""

_MEANS: Final = {"BinarizedTargetMeanValue", "FloatTargetMeanValue"}
_FREQUENCIES: Final = {"Counter", "FeatureFreq"}


class Combination(NamedTuple):
    """The rows that a CTR counts: those with the same categories of some features, and the same answers."""

    categories: tuple[int, ...]  # categorical features, by their numbers
    borders: tuple[tuple[int, float], ...] = ()  # numeric features and borders: is it above?
    exact: tuple[tuple[int, int], ...] = ()  # categorical features and hashes, signed: is it this one?

    @property
    def is_single(self) -> bool:
        return len(self.categories) == 1 and not self.borders and not self.exact


class Counters(NamedTuple):
    """The counts from training for each category of a feature, or each combination of several."""

    hashes: NDArray[np.uint64]  # (n,) all different
    counts: FloatArray  # (n, k): rows per class; or the sum of labels and their number; or the number of rows
    denominator: int  # of frequencies


class Ctr(NamedTuple):
    """A CTR, and the borders that splits compare it with."""

    kind: str
    of: Combination
    target: int  # the class, or the border between classes, that is counted
    prior: tuple[float, float]  # added to the numerator and the denominator
    shift: float
    scale: float
    borders: FloatArray  # single precision
    counters: Counters


def counters(hashes: NDArray[np.uint64], counts: FloatArray, denominator: Any, kind: Any) -> Counters:
    """The counters with these hashes (n,), as CatBoost stores them, and counts (n, k), if they are valid."""
    if kind not in KINDS:
        raise UnsupportedModelError(f"the model has a CTR of the kind {str(kind)[:40]!r}, which is not known")
    found = hashes != NO_HASH
    whole = counts[found] if kind not in _MEANS else counts[found, 1:]
    n_columns = counts.shape[1]
    expected = n_columns == 1 if kind in _FREQUENCIES else n_columns == 2 if kind in _MEANS else n_columns > 1
    sound = expected and type(denominator) is int and 0 <= denominator < 2**31
    if not sound or not np.isfinite(counts[found]).all() or (whole != np.trunc(whole)).any():
        raise LoaderError("the counters of a CTR are not counts; the file is damaged")
    if (whole < 0).any() or whole.sum(axis=1).max(initial=0) >= 2**31:
        raise LoaderError("the counters of a CTR are negative or too large; the file is damaged")
    if len(np.unique(hashes[found])) < found.sum():
        raise LoaderError("the counters of a CTR are not those of different categories; the file is damaged")
    return Counters(hashes[found], counts[found], denominator)


def ranks(ctr: Ctr) -> IntArray:
    """The number of borders that the CTR is above, (n + 1,): for what has counters; last, for all else."""
    good, total = _fraction(ctr)
    with np.errstate(all="ignore"):  # in single precision and in this order, as in CatBoost
        above, below = map(np.float32, ctr.prior)
        value = (good.astype(np.float32) + above) / (total.astype(np.float32) + below)
        value = (value + np.float32(ctr.shift)) * np.float32(ctr.scale)
    found = np.searchsorted(ctr.borders.astype(np.float32), value, side="left")
    found[np.isnan(value)] = 0
    return found.astype(np.int32)


def _fraction(ctr: Ctr) -> tuple[FloatArray, FloatArray]:
    """Numerator and denominator for each category, both (n + 1,); the last is for those without counters."""
    counts = np.vstack([ctr.counters.counts, np.zeros(ctr.counters.counts.shape[1])])
    if ctr.kind in _FREQUENCIES:
        return counts[:, 0], np.full(len(counts), float(ctr.counters.denominator))
    if ctr.kind in _MEANS:
        return counts[:, 0], counts[:, 1]
    n_targets = counts.shape[1] - (ctr.kind == "Borders")
    if not 0 <= ctr.target < n_targets:
        raise LoaderError(f"a CTR counts class {ctr.target} of {n_targets}; the file is damaged")
    end = None if ctr.kind == "Borders" else ctr.target + 1
    begin = ctr.target + (ctr.kind == "Borders")
    return counts[:, begin:end].sum(axis=1), counts.sum(axis=1)
