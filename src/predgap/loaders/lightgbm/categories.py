"""Reads the categories of a LightGBM model: the sets of codes in its splits, and all categories of features.

A set is a sequence of 32-bit words in `cat_threshold`, whose bits say which of the codes 0, 1, 2, ... are in
it. The categories of a feature are listed in `feature_infos`: those that are not too rare, and -1 for missing
values. A feature that LightGBM did not use has "none" there; whether it is categorical is then only known
from the training parameters.

Labels come from pandas: the last line has one list for each column of a categorical dtype, in the order of
the columns. It does not say which columns these are, and they need not be the categorical features: an
ordered column is numeric, and `categorical_feature=` may choose other columns. So the lists are assigned to
the categorical features in order, if there are as many lists as features and they are long enough. If that is
wrong, one of these columns is a numeric feature, and a frame with its labels is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from numbers import Real
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import Categories, of_labels
from predgap._model.ensemble import NUMERIC
from predgap._text import count as counted
from predgap._text import warn
from predgap._typing import BoolArray, FloatArray, IntArray
from predgap.errors import EnsembleError, LoaderError, UnsupportedModelError
from predgap.loaders._formats import documents
from predgap.loaders.lightgbm.text import Counts, Fields, codes, count, integers, parts, words

__all__ = ["Sets", "check_labels", "read_levels", "read_sets"]

# A damaged file must not make us allocate or work without end.
_MAX_SETS: Final = 1 << 17  # of a tree: it has no more splits
_MAX_CODES: Final = 1 << 24  # in all sets
_MAX_LEVELS: Final = 1 << 21  # of all features
_MAX_CATEGORICAL: Final = 1 << 14  # features

_WORD_BITS: Final = 32
_WORDS_AT_ONCE: Final = 1 << 14  # bounds the memory for their bits

_LABELS: Final = b"pandas_categorical:"
_ENDINGS: Final = (b"end of parameters", b"end of parser")  # the last line, if Python did not write the file
_ONLY_IMPORTANCES: Final = re.compile(rb"\s*feature[_ ]importances:\n(?:[^\n]*=[0-9]+\n)*\s*")
_PARAMETER: Final = re.compile(rb"(?m)^\[categorical_feature: ([0-9]{1,9}(?:,[0-9]{1,9})*)\]$")


# ---- sets ----


class Sets(NamedTuple):
    """The sets of all trees, concatenated."""

    counts: Counts  # (n_trees,) number of sets of each tree
    begin: IntArray  # (n_sets + 1,) where each begins in `code`
    code: IntArray

    def of_splits(self, threshold: FloatArray, by_set: BoolArray, n_splits: Counts) -> IntArray:
        """The set of each split, NUMERIC if it has none. Its threshold is the set's number in the tree."""
        first, n = np.cumsum(self.counts) - self.counts, self.counts
        first, n = (np.repeat(each, n_splits)[by_set] for each in (first, n))
        number = threshold[by_set]
        known = (number >= 0) & (number < n) & (number == np.trunc(number))
        chosen = first + np.where(known, number, 0).astype(np.int64)
        if not known.all() or np.bincount(chosen, minlength=1).max() > 1:
            raise LoaderError("a split has no set of categories of its own; the file is damaged")
        found = np.full(len(threshold), NUMERIC, dtype=np.int32)
        found[by_set] = chosen
        return found


def read_sets(trees: list[Fields]) -> Sets:
    """The sets of all trees."""
    counts = np.array([count(tree, "num_cat", 0, _MAX_SETS) for tree in trees], dtype=np.int64)
    trees = [tree for tree, n in zip(trees, counts.tolist(), strict=True) if n]
    n_bounds = counts[counts > 0] + 1
    bound = integers(trees, "cat_boundaries", n_bounds).astype(np.int64)
    last = np.cumsum(n_bounds) - 1
    first = last + 1 - n_bounds
    rises = np.diff(bound, prepend=0) >= 0
    rises[first] = bound[first] == 0
    if not rises.all():
        raise LoaderError("cat_boundaries do not ascend from 0; the file is damaged")
    n_words = bound[last]
    word = words(trees, "cat_threshold", n_words)
    start = bound + np.repeat(np.cumsum(n_words) - n_words, n_bounds)
    return Sets(counts, *_members(word, np.append(np.delete(start, last), len(word))))


def _members(word: NDArray[np.uint32], edges: Counts) -> tuple[IntArray, IntArray]:
    """Where each set begins among all codes, and these codes; `edges` separate the words of the sets."""
    used = np.flatnonzero(word)
    place = used - edges[np.searchsorted(edges, used, side="right") - 1]
    if place.max(initial=0) >= 2**31 // _WORD_BITS:
        raise LoaderError("cat_threshold holds a category beyond 31 bits; the file is damaged")
    members: list[IntArray] = [np.empty(0, dtype=np.int32)]
    before = np.zeros(len(used) + 1, dtype=np.int64)  # number of members before each word
    for start in range(0, len(used), _WORDS_AT_ONCE):
        part = slice(start, start + _WORDS_AT_ONCE)
        bits = _bits(word[used[part]])
        n = bits.sum(axis=1)
        before[1:][part] = before[start] + np.cumsum(n)
        if before[start] + n.sum() > _MAX_CODES:
            raise UnsupportedModelError(
                f"the sets of categories in the model's splits have more than {_MAX_CODES:,} members, which "
                "predgap does not handle; train with a lower max_cat_threshold, or fewer trees"
            )
        shift = (place[part] - np.arange(len(n))) * _WORD_BITS
        members.append((np.flatnonzero(bits) + np.repeat(shift, n)).astype(np.int32))
    return before[np.searchsorted(used, edges)].astype(np.int32), np.concatenate(members)


def _bits(word: NDArray[np.uint32]) -> BoolArray:
    """The bits of each word, (n, 32), lowest bit first."""
    octets = word.astype("<u4").view(np.uint8).reshape(-1, _WORD_BITS // 8)
    return np.unpackbits(octets, axis=1, bitorder="little").view(np.bool_)


# ---- levels ----


def read_levels(
    header: Fields, tail: bytes, names: list[str], feature: IntArray, category_set: IntArray, sets: Sets
) -> list[Categories | None]:
    """The categories of each feature, None if numeric. `feature` and `category_set` describe the splits."""
    known, categorical = _known(header, tail, len(names), feature, category_set, sets)
    found: list[Categories | None] = [None] * len(names)
    if not categorical:
        return found
    both = categorical.intersection(np.unique(feature[category_set == NUMERIC]).tolist())
    if both:
        raise UnsupportedModelError(
            f"feature {names[min(both)]!r} is categorical, but some splits compare it with a threshold: "
            "training was continued with another categorical_feature, which predgap does not handle; train "
            "the model in one go"
        )
    if len(known) > _MAX_LEVELS or len(categorical) > _MAX_CATEGORICAL:
        raise UnsupportedModelError(
            f"the model has {len(categorical):,} categorical features with {len(known):,} levels; predgap "
            f"handles up to {_MAX_CATEGORICAL:,} with {_MAX_LEVELS:,}: merge rare categories"
        )
    labels = _labels(tail, len(categorical))
    for i, q in enumerate(sorted(categorical)):
        own = known[slice(*np.searchsorted(known, [q << 32, (q + 1) << 32]))] & (2**32 - 1)
        found[q] = _named(own, labels[i], names[q]) if labels else Categories(own.astype(np.int32))
    return found


def _known(
    header: Fields, tail: bytes, n_features: int, feature: IntArray, category_set: IntArray, sets: Sets
) -> tuple[NDArray[np.int64], set[int]]:
    """All known categories as (feature << 32) | code, ascending; and the set of categorical features."""
    by_set = category_set != NUMERIC
    asker = np.full(len(sets.begin) - 1, -1, dtype=np.int64)
    asker[category_set[by_set]] = feature[by_set]
    infos = parts(header, "feature_infos", n_features)
    listed = [q for q, info in enumerate(infos) if info != "none" and not info.startswith("[")]
    code = codes([infos[q] for q in listed], "feature_infos")
    owner = np.repeat(np.array(listed, dtype=np.int64), [infos[q].count(":") + 1 for q in listed])
    asked = np.repeat(asker << 32, np.diff(sets.begin))
    asked |= sets.code
    asked = _distinct(asked)  # many sets hold the same codes
    known = _distinct(np.append((owner << 32 | code)[code >= 0], asked))
    parameter = _PARAMETER.search(tail)
    stated = set(map(int, parameter[1].split(b","))) if parameter else set()
    useless = {q for q in stated if q < n_features and infos[q] == "none"}  # of others, more is known
    categorical = {*listed, *np.unique(feature[by_set]).tolist(), *useless}
    return known[known >= 0], categorical  # keys below 0 belong to sets that no split uses


def _distinct(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The distinct keys, ascending. Sorts `keys` in place. (`np.unique` is ten times slower.)"""
    keys.sort()
    first = np.ones(len(keys), dtype=np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    return keys[first]


def _named(known: NDArray[np.int64], labels: list[Any], name: str) -> Categories:
    """Categories with labels; the code of a label is its index in the list."""
    if known.max(initial=-1) >= len(labels):
        raise UnsupportedModelError(
            f"feature {name!r} has the category {known.max()}, but its labels end with that of "
            f"{len(labels) - 1}: {_UNCLEAR}"
        )
    try:
        return of_labels(labels)
    except EnsembleError as error:
        raise LoaderError(f"pandas_categorical of feature {name!r} is damaged: {error}") from error


# ---- labels ----

_UNCLEAR: Final = (
    "predgap cannot tell whose labels they are; make all categorical features, and no others, unordered "
    "categories of the frame, or train on their codes"
)


def check_labels(lists: Iterable[Iterable[Any]]) -> None:
    """Refuses labels other than text and numbers, which LightGBM cannot save and restore."""
    for label in (label for labels in lists for label in labels):
        if not isinstance(label, str | Real | np.bool_) or label != label:
            raise UnsupportedModelError(
                f"a category is called {str(label)[:40]!r}, a {type(label).__name__}; predgap handles text "
                "and numbers: convert the categories, e.g. by astype(str).astype('category')"
            )


def _labels(tail: bytes, n: int) -> list[list[Any]]:
    """The labels of each of the n categorical features; [] if the model was not trained on a frame."""
    line = tail.rstrip().rpartition(b"\n")[2]
    if line in _ENDINGS:
        return []
    if not line.startswith(_LABELS):
        if _ONLY_IMPORTANCES.fullmatch(tail):
            warn(
                "the model file has neither parameters nor labels of its "
                f"{counted(n, 'categorical feature')} (pandas_categorical), so categories are codes, as to "
                "LightGBM; if the model was trained on labels, the file was cut off: save or copy it again"
            )
            return []
        raise LoaderError(
            "the model file stops before the labels of its categories (pandas_categorical); save or copy it "
            "again"
        )
    try:
        lists = documents.parse(line[len(_LABELS) :]) or []
    except LoaderError as error:
        raise LoaderError(f"the labels of categories (pandas_categorical) are damaged: {error}") from error
    if not isinstance(lists, list) or not all(isinstance(labels, list) for labels in lists):
        raise LoaderError("pandas_categorical is not a list of lists; the file is damaged")
    check_labels(lists)
    if sum(map(len, lists)) > _MAX_LEVELS:
        raise UnsupportedModelError(
            f"the model has {sum(map(len, lists)):,} labels of categories; predgap handles up to "
            f"{_MAX_LEVELS:,}: merge rare categories"
        )
    if lists and len(lists) != n:
        raise UnsupportedModelError(
            f"the model has {counted(n, 'categorical feature')}, but labels of "
            f"{counted(len(lists), 'column')} of the frame that it was trained on: {_UNCLEAR}"
        )
    return lists
