"""Finds the categories of CatBoost models, which store only hashes of their texts.

A model stores the hashes of the categories that it splits on, or counts for CTRs. It does not tell the others
apart, so they are one category here ("any other"). Text and whole numbers are hashed as CatBoost does it, so
a frame may hold what the model was trained on, even if the text of a hash is not known. 5 and "5" are the
same category. If the labels are given (`HashedCategories.completed`), these are the categories.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from numbers import Integral, Real
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from predgap._inputs.categories import UNSEEN, Categories, is_missing
from predgap._inputs.subsets import match_names
from predgap._inputs.tables import by_name, open_columns
from predgap._model.ensemble import NUMERIC, Ensemble
from predgap._text import did_you_mean, format_items
from predgap._typing import BoolArray, IntArray
from predgap.errors import LoaderError, ShapeError, TableError, UnsupportedModelError
from predgap.loaders.catboost.model import (
    CatBoostModel,
    CategoricalFeature,
    Combination,
    Ctr,
    FloatFeature,
    ranks,
    shown_combination,
    shown_name,
)

__all__ = [
    "OTHERS",
    "HashedCategories",
    "SetsOfQuestions",
    "Unnamed",
    "categories_of",
    "combined",
    "found_at",
    "hash_of",
    "known_hashes",
    "levels",
    "sets_of",
    "text_with",
]

_LARGEST_NUMBER: Final = 2**24 - 2  # rows are single precision, in which codes beyond 2^24 are rounded
_TRIED: Final = range(-100, 10_000)  # whole numbers whose hashes are tried
_ALSO_TRIED: Final = range(10_000, 10**6)  # if some, but not all, are found among these
_WHOLE: Final = re.compile("0|-?[1-9][0-9]*")


@dataclass(frozen=True, slots=True)
class Unnamed:
    """The label of a category whose text is not known, or of all categories that the model does not split on.

    It is not a str, because any str could be a category.
    """

    hash: int | None = None

    def __repr__(self) -> str:
        return "(any other)" if self.hash is None else f"#{self.hash:08x}"


OTHERS: Final = Unnamed()


@dataclass(frozen=True, slots=True, eq=False)
class HashedCategories(Categories):
    """Categories whose labels are looked up by their hash; unless complete, the last stands for all others.

    Examples
    --------
    >>> colour = levels([hash_of("red"), hash_of("blue")], {hash_of("red"): "red"}, "colour")
    >>> colour.labels
    (#cc8e5543, 'red', (any other))
    >>> colour.codes_of(["red", "blue", "mauve"])
    array([1., 0., 2.])
    """

    code_of_hash: Mapping[int, int] = field(default_factory=dict)
    whole_numbers: bool = False  # are all categories whole numbers, and these the codes?

    @property
    def hashes(self) -> NDArray[np.int64]:
        """The hashes, signed, of all categories that the model stores, in the order of their codes."""
        found = sorted(self.code_of_hash, key=self.code_of_hash.__getitem__)
        return np.array(found, dtype=np.uint32).view(np.int32).astype(np.int64)

    def texts(self, codes: Iterable[float]) -> list[bytes]:
        """Gives for each code a text that CatBoost takes for this category; for others, an unknown text."""
        hash_of_code: dict[float, int] = {code: value for value, code in self.code_of_hash.items()}
        other = next(value for value in range(2**32) if value not in self.code_of_hash)
        return [text_with(hash_of_code.get(code, other)) for code in codes]

    def code_of(self, label: Any) -> float:
        if isinstance(label, Unnamed):
            return self.unknown if label.hash is None else self.code_of_hash.get(label.hash, self.unknown)
        text = self._text(label)
        if self.complete and label in self.place:  # texts may have the same hash
            return self.place[label]
        return self.code_of_hash.get(hash_of(text), self.unknown)

    @property
    def holds_text(self) -> bool:
        return True  # numbers, too, are known by the hashes of their texts

    @property
    def unknown(self) -> float:
        return UNSEEN if self.complete else float(self.codes[-1])

    def own_code(self, label: Any) -> float:
        try:
            code = self.code_of(label)
        except TableError:  # no label that CatBoost takes
            return UNSEEN
        return UNSEEN if not self.complete and code == self.codes[-1] else code

    def merged(self, other: Categories, what: str) -> Categories:
        if other.closed and type(other) is Categories:
            raise UnsupportedModelError(
                f"one model takes any category of {what}, the other one refuses all but "
                f"{format_items(other.labels or ())}; train it so that it takes unknown categories"
            )
        theirs = other.labels or ()
        texts = {hash_of(text): text for text in self._texts_of(theirs) | self._texts_of(self.labels or ())}
        if self.complete and (other.complete or type(other) is Categories):
            return self.completed(texts.values(), what)[0]
        known = other.code_of_hash if isinstance(other, HashedCategories) else {}
        return levels([*dict.fromkeys([*self.code_of_hash, *known, *texts])], texts, what)

    def _texts_of(self, labels: Iterable[Any]) -> dict[str, None]:
        """The texts of those labels whose text is known, in their order."""
        return dict.fromkeys(self._plain_text(label) for label in labels if not isinstance(label, Unnamed))

    def completed(self, labels: Iterable[Any], what: str) -> tuple[HashedCategories, IntArray]:
        """The categories with these labels and no others; and the old code of each, (m,), -1 if it had none.

        Labels may come in any order, and more than once. TableError if the model has a category that is not
        among them; messages call the feature `what`.
        """
        try:
            texts = [*dict.fromkeys(map(self._plain_text, labels))]
        except TableError as error:
            raise TableError(f"levels of {what}: {error}") from None
        hashes = [*map(hash_of, texts)]
        lacking = self.code_of_hash.keys() - set(hashes)
        if lacking:
            raise TableError(
                f"levels lacks {len(lacking)} of the {len(self.code_of_hash)} categories that the model has "
                f"for {what}; it has {format_items(texts)}: give all that the model was trained on"
            )
        numbers = _as_numbers(texts, what)
        order = sorted(range(len(texts)), key=(numbers or texts).__getitem__)
        codes = [numbers[i] for i in order] if numbers else [*range(len(order))]
        new = HashedCategories(
            np.array(codes, dtype=np.int32),
            tuple((numbers or texts)[i] for i in order),
            code_of_hash={hashes[i]: code for i, code in zip(order, codes, strict=True)},
            whole_numbers=numbers is not None,
        )
        old = [self.code_of_hash.get(hashes[i], -1) for i in order]
        return new, np.array(old, dtype=np.int32)

    def _plain_text(self, label: Any) -> str:
        text = self._text(label)
        return text if isinstance(text, str) else text.decode(errors="replace")

    def _text(self, label: Any) -> str | bytes:
        """The text of a label as CatBoost hashes it; TableError for labels that CatBoost refuses."""
        if isinstance(label, str | bytes):
            return label
        if isinstance(label, Integral | np.bool_) or (self.whole_numbers and _is_whole(label)):
            return str(int(label))
        found = "a missing value" if is_missing(label) else f"{label!r} ({type(label).__name__})"
        raise TableError(
            f"{found} is no category; CatBoost takes text and whole numbers: give it what the model was "
            "trained on, such as 'nan'"
        )


def levels(hashes: Sequence[int], names: Mapping[int, str], what: str) -> HashedCategories:
    """The categories of a feature: those with these hashes, with their texts if known, and "any other".

    If all texts are whole numbers, these are also the codes, so that arrays of numbers mean the same as in
    CatBoost. Otherwise the codes are 0, 1, 2, ... in the order of the labels.
    """
    numbers = _whole_numbers(hashes, names, what)
    labels: list[Any] = numbers or [names.get(value, Unnamed(value)) for value in hashes]
    order = sorted(range(len(labels)), key=lambda i: labels[i] if numbers else str(labels[i]))
    codes = [numbers[i] for i in order] if numbers else [*range(len(labels))]
    return HashedCategories(
        np.array([*codes, codes[-1] + 1 if codes else 0], dtype=np.int32),
        (*(labels[i] for i in order), OTHERS),
        complete=False,
        closed=numbers is None,  # else a number that is a category to CatBoost would be taken for a code
        code_of_hash={hashes[i]: code for i, code in zip(order, codes, strict=True)},
        whole_numbers=numbers is not None,
    )


def _whole_numbers(hashes: Sequence[int], names: Mapping[int, str], what: str) -> list[int] | None:
    """The whole numbers with these hashes; None unless all hashes are those of whole numbers."""
    texts = [names.get(value) or _numbers_by_hash().get(value, "") for value in hashes]
    found = [text for text in texts if text]
    if 0 < len(found) < len(texts) and all(map(_WHOLE.fullmatch, found)):
        more = _numbers_with([value for value, text in zip(hashes, texts, strict=True) if not text])
        texts = [text or more.get(value, "") for value, text in zip(hashes, texts, strict=True)]
    return _as_numbers(texts, what)


def _as_numbers(texts: Sequence[str], what: str) -> list[int] | None:
    """The texts as whole numbers; None unless all are."""
    if not all(map(_WHOLE.fullmatch, texts)):
        return None
    for text in texts:
        if len(text) > 9 or not 0 <= int(text) <= _LARGEST_NUMBER:
            raise UnsupportedModelError(
                f"{what} has the category {text[:40]}; predgap takes numbers from 0 to {_LARGEST_NUMBER} as "
                "categories: train with others, or with text that is no number"
            )
    return [int(text) for text in texts]


@cache
def _numbers_by_hash() -> dict[int, str]:
    return {_city_hash(text.encode()) & _LOW: text for text in map(str, _TRIED)}


def _numbers_with(hashes: Sequence[int]) -> dict[int, str]:
    """Those of the numbers that are also tried which have these hashes, as text."""
    tried = _hashes_of_numbers()
    hit = np.flatnonzero(np.isin(tried, np.array(hashes, dtype=np.uint32)))
    return {int(tried[i]): str(_ALSO_TRIED.start + i) for i in hit.tolist()}


@cache
def _hashes_of_numbers() -> NDArray[np.uint32]:
    """The hashes of the numbers that are also tried, which have four to eight digits."""
    found = []
    for n in range(len(str(_ALSO_TRIED.start)), len(str(_ALSO_TRIED.stop - 1)) + 1):
        number = np.arange(10 ** (n - 1), 10**n)
        digits = [number // 10**place % 10 + ord("0") for place in range(n - 1, -1, -1)]
        first, last = (sum(d << 8 * i for i, d in enumerate(part)) for part in (digits[:4], digits[-4:]))
        found.append(_both_of_arrays(n + (first << 3), last).astype(np.uint32))
    return np.concatenate(found)


def _is_whole(label: Any) -> bool:
    return isinstance(label, Real) and float(label).is_integer()


# ---- CityHash64 in its first version; CatBoost uses the lower half ----

_MASK: Final = 2**64 - 1
_LOW: Final = 2**32 - 1
_K0: Final = 0xC3A5C85C97CB3127
_K1: Final = 0xB492B66FBE98F273
_K2: Final = 0x9AE16A3B2F90404F
_K3: Final = 0xC949D7C7509E6557
_MULTIPLIER: Final = 0x9DDFEA08EB382D69
_INVERSE: Final = pow(_MULTIPLIER, -1, 2**64)
_TAIL: Final = b"category"


@lru_cache(maxsize=1 << 14)
def hash_of(text: str | bytes) -> int:
    """CatBoost's hash of a category, from 0 to 2^32 - 1."""
    return _city_hash(text.encode(errors="surrogatepass") if isinstance(text, str) else text) & _LOW


def text_with(value: int) -> bytes:
    """A text with this hash, by inverting `_short_hash` for texts of 16 bytes with a fixed second half."""
    tail = _word(_TAIL, 0)
    v = _rotated(tail + 16, 16)
    y = _folded((value ^ tail) * _INVERSE & _MASK)
    x = _folded(y * _INVERSE & _MASK ^ v)
    return (x * _INVERSE & _MASK ^ v).to_bytes(8, "little") + _TAIL


def _city_hash(s: bytes) -> int:
    if len(s) <= 16:
        return _short_hash(s)
    if len(s) <= 32:
        return _medium_hash(s)
    return _long_hash(s) if len(s) <= 64 else _endless_hash(s)


def _short_hash(s: bytes) -> int:
    n = len(s)
    if n > 8:
        tail = _word(s, n - 8)
        return _both(_word(s, 0), _rotated(tail + n, n)) ^ tail
    if n >= 4:
        return _both(n + (_word(s[:4], 0) << 3), _word(s, n - 4))
    if n > 0:
        y, z = s[0] + (s[n >> 1] << 8), n + (s[-1] << 2)
        return _folded((y * _K2 ^ z * _K3) & _MASK) * _K2 & _MASK
    return _K2


def _medium_hash(s: bytes) -> int:
    n = len(s)
    a, b = _word(s, 0) * _K1, _word(s, 8)
    c, d = _word(s, n - 8) * _K2, _word(s, n - 16) * _K0
    return _both(_rotated(a - b, 43) + _rotated(c, 30) + d, a + _rotated(b ^ _K3, 20) - c + n)


def _long_hash(s: bytes) -> int:
    n = len(s)
    a = _word(s, 0) + (n + _word(s, n - 16)) * _K0
    v = _quarter(a, _word(s, 8), _word(s, 16), _word(s, 24))
    w = _quarter(_word(s, 16) + _word(s, n - 32), _word(s, n - 24), _word(s, n - 16), _word(s, n - 8))
    r = _folded((v[0] + w[1]) * _K2 + (w[0] + v[1]) * _K0 & _MASK)
    return _folded(r * _K0 + v[1] & _MASK) * _K2 & _MASK


def _endless_hash(s: bytes) -> int:
    n = len(s)
    x, y, z = _word(s, 0), _word(s, n - 16) ^ _K1, _word(s, n - 56) ^ _K0
    v = _weak(s, n - 64, n, y)
    w = _weak(s, n - 32, n * _K1, _K0)
    z += _folded(v[1]) * _K1
    x = _rotated(z + x, 39) * _K1
    y = _rotated(y, 33) * _K1
    for at in range(0, n - 1 & ~63, 64):
        x = _rotated(x + y + v[0] + _word(s, at + 16), 37) * _K1 & _MASK ^ w[1]
        y = _rotated(y + v[1] + _word(s, at + 48), 42) * _K1 & _MASK ^ v[0]
        z = _rotated(z & _MASK ^ w[0], 33)
        v = _weak(s, at, v[1] * _K1, x + w[0])
        w = _weak(s, at + 32, z + w[1], y)
        x, z = z, x
    return _both(_both(v[0], w[0]) + _folded(y & _MASK) * _K1 + z, _both(v[1], w[1]) + x)


def _both(u: int, v: int) -> int:
    """Hashes 128 bits to 64."""
    u, v = u & _MASK, v & _MASK
    x = _folded((u ^ v) * _MULTIPLIER & _MASK)
    return _folded((v ^ x) * _MULTIPLIER & _MASK) * _MULTIPLIER & _MASK


def _both_of_arrays(u: NDArray[np.int64], v: NDArray[np.int64]) -> NDArray[np.uint64]:
    """`_both` of the numbers of two arrays, which are not negative."""
    one, other, factor = u.astype(np.uint64), v.astype(np.uint64), np.uint64(_MULTIPLIER)
    x = (one ^ other) * factor
    x = (other ^ x ^ x >> np.uint64(47)) * factor
    found: NDArray[np.uint64] = (x ^ x >> np.uint64(47)) * factor
    return found


def _quarter(a: int, second: int, third: int, z: int) -> tuple[int, int]:
    b, c = _rotated(a + z, 52), _rotated(a, 37)
    c += _rotated(a + second, 7)
    a += second + third
    return a + z & _MASK, b + _rotated(a, 31) + c & _MASK


def _weak(s: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_word(s, at + i) for i in (0, 8, 16, 24))
    a += w
    b = _rotated(b + a + z, 21)
    c = a
    a += x + y
    return a + z & _MASK, b + _rotated(a, 44) + c & _MASK


def _word(s: bytes, at: int) -> int:
    return int.from_bytes(s[at : at + 8], "little")


def _rotated(x: int, by: int) -> int:
    x &= _MASK
    return (x >> by | x << 64 - by) & _MASK


def _folded(x: int) -> int:
    """x xor its upper bits; applied twice, it gives x again."""
    return x ^ x >> 47


# ------------------------------------------------------------------------------------------------------------
# A table, usually the training table, gives the categories of a model their labels.


def completed(ensemble: Ensemble, levels: Any) -> Ensemble:
    """The same ensemble, whose categories are those in `levels`: a table, or labels by feature name.

    Features that `levels` does not have keep their categories.
    """
    hashed = {q: own for q, own in ensemble.categorical().items() if isinstance(own, HashedCategories)}
    if not hashed:
        raise TableError(
            f"levels is for categories that a model stores without their labels, but {ensemble.source} has "
            "none such; leave it out"
        )
    by_feature = _from_mapping if isinstance(levels, Mapping) else _from_table
    labels = by_feature(levels, ensemble, hashed)
    new = {q: hashed[q].completed(own, f"feature {ensemble.names[q]!r}") for q, own in labels.items()}
    sets = _translated(ensemble, {q: (own.codes, old) for q, (own, old) in new.items()})
    return replace(
        ensemble,
        categories=tuple(new[q][0] if q in new else own for q, own in enumerate(ensemble.categories or ())),
        set_begin=np.cumsum([0, *map(len, sets)]),
        set_code=np.concatenate([np.empty(0, dtype=np.int32), *sets]),
    )


def _from_mapping(
    levels: Mapping[Any, Any], ensemble: Ensemble, hashed: Mapping[int, HashedCategories]
) -> dict[int, list[Any]]:
    place = match_names(map(str, levels), ensemble.names, TableError)
    found: dict[int, list[Any]] = {}
    for name, labels in levels.items():
        q = place.get(str(name), -1)
        if q not in hashed:
            names = [ensemble.names[j] for j in hashed]
            raise TableError(
                f"levels has {name!r}; {did_you_mean(str(name), names)}the model's categorical features are "
                f"{format_items(names)}"
            )
        if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
            raise TableError(f"levels[{name!r}] is {labels!r}, expected a list of labels")
        found[q] = [*labels]
    return found


def _from_table(
    levels: Any, ensemble: Ensemble, hashed: Mapping[int, HashedCategories]
) -> dict[int, list[Any]]:
    columns = open_columns(levels)
    if columns.names is not None and by_name(columns.names, columns.numbered, ensemble.names):
        place = match_names(columns.names, ensemble.names, TableError)
        column = {place[name]: j for j, name in enumerate(columns.names) if name in place}
    elif columns.n_columns == ensemble.n_features:
        column = {q: q for q in hashed}
    else:
        raise ShapeError(
            f"levels has {columns.n_columns} columns, the model {ensemble.n_features}; name the columns"
        )
    found = {q: columns.labels(column[q]) for q in hashed if q in column}
    if not found:
        names = [ensemble.names[q] for q in hashed]
        raise TableError(f"levels has none of the model's categorical features {format_items(names)}")
    return found


def _translated(ensemble: Ensemble, codes: Mapping[int, tuple[IntArray, IntArray]]) -> list[IntArray]:
    """The sets of the ensemble in new codes; `codes` has, by feature, new codes and the old one of each."""
    by_set = ensemble.category_set != NUMERIC
    feature = np.full(len(ensemble.set_begin) - 1, -1)
    feature[ensemble.category_set[by_set]] = ensemble.feature[by_set]
    found = []
    for q, begin, end in zip(feature.tolist(), ensemble.set_begin, ensemble.set_begin[1:], strict=False):
        own = ensemble.set_code[begin:end]
        if q in codes:
            new, old = codes[q]
            own = new[np.isin(old, own)]
        found.append(own if q >= 0 else own[:0])
    return found


# ------------------------------------------------------------------------------------------------------------
# Splits on categories become sets of categories.
#
# In CatBoost a split sends one category to the right (one-hot), or all whose CTR is above a border. Its set
# are the categories that it sends elsewhere than those that the model does not know, so these are in no set.

_MAX_CODES: Final = 1 << 25  # categories in all sets together; each takes 4 bytes, three times while loading


class SetsOfQuestions(NamedTuple):
    """A set for each question about categories, in the order of the questions."""

    begin: IntArray  # (n + 1,) where each set begins in `codes`
    codes: IntArray  # ascending in each set
    right: BoolArray  # (n,) does the set go right in CatBoost?


def categories_of(model: CatBoostModel) -> list[HashedCategories]:
    """The categories of each categorical feature: those of its splits, and those that have counters."""
    return [
        levels((own & 0xFFFFFFFF).tolist(), model.texts, f"feature {shown_name(feature)!r}")
        for own, feature in zip(model.hashes, model.categorical, strict=True)
    ]


def sets_of(model: CatBoostModel, categories: list[HashedCategories]) -> SetsOfQuestions:
    """The sets of a model, in the codes of these categories of its categorical features.

    Questions about combinations have empty sets, which no node uses.
    """
    single = [ctr for ctr in model.ctrs if ctr.of.is_single]
    n_codes = sum(len(ctr.borders) * len(ctr.counters.hashes) for ctr in single)
    if n_codes > _MAX_CODES:
        raise LoaderError(
            f"the splits on CTRs have {n_codes:,} categories, borders times categories, predgap loads up to "
            f"{_MAX_CODES:,}; train with fewer categories, or a smaller CtrBorderCount"
        )
    found: list[IntArray] = []
    right: list[BoolArray] = []
    for feature, known in zip(model.categorical, categories, strict=True):
        hashes = (feature.hashes.astype(np.int64) & 0xFFFFFFFF).tolist()
        found += [np.array([known.code_of_hash[value]], dtype=np.int32) for value in hashes]
        right.append(np.ones(len(hashes), dtype=np.bool_))
    nothing = np.empty(0, dtype=np.int32)
    for ctr in model.ctrs:
        if ctr.of.is_single:
            members, goes_right = _sets_of_ctr(ctr, categories[ctr.of.categories[0]])
        else:
            members, goes_right = [nothing] * len(ctr.borders), np.zeros(len(ctr.borders), dtype=np.bool_)
        found += members
        right.append(goes_right)
    begin = np.cumsum([0, *map(len, found)], dtype=np.int64)
    return SetsOfQuestions(
        begin.astype(np.int32), np.concatenate([nothing, *found]), np.concatenate([[False], *right])[1:]
    )


def _sets_of_ctr(ctr: Ctr, known: HashedCategories) -> tuple[list[IntArray], BoolArray]:
    """The sets of the borders of a CTR, ascending; and whether each of them goes right."""
    rank = ranks(ctr)
    found = rank[found_at(combined([known.hashes]), ctr.counters.hashes)]
    codes = known.codes[:-1]
    border = np.arange(len(ctr.borders))
    above, unknown_above = found > border[:, None], rank[-1] > border
    return [codes[member] for member in above != unknown_above[:, None]], ~unknown_above


# ------------------------------------------------------------------------------------------------------------
# Combinations of categories have hashes, too; a model has counters of some categories.
#
# The hash of a combination is made of the hashes h of its categories and of the answers (0 or 1) to its other
# questions, one after the other: hash <- m (hash + m h), modulo 2^64. The constant m is odd, so that one
# category is known if the hash and all others are.

_COMBINATION_MULTIPLIER: Final = 0x4906BA494954CB65
_MAX_COMBINATIONS: Final = 1 << 22  # of categories and answers, of one CTR
_MAX_WORK: Final = 1 << 28  # combinations x counters when categories are looked for
_STEP: Final = 1 << 20  # of these at the same time
_BITS: Final = np.arange(2)

Hashes = NDArray[np.int64]


def combined(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.uint64]:
    """The hashes of combinations; the parts are hashes, signed, or answers, and are broadcast."""
    found = np.zeros(1, dtype=np.uint64)
    for part in parts:
        found = np.uint64(_COMBINATION_MULTIPLIER) * (
            found + np.uint64(_COMBINATION_MULTIPLIER) * part.astype(np.uint64)
        )
    return found


def found_at(values: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> NDArray[np.intp]:
    """The index of each value among the hashes, -1 if it is not there."""
    if not len(hashes):
        return np.full(values.shape, -1)
    order = np.argsort(hashes)
    at = order[np.minimum(np.searchsorted(hashes, values, sorter=order), len(hashes) - 1)]
    return np.where(hashes[at] == values, at, -1)


def known_hashes(
    floats: Sequence[FloatFeature], categorical: Sequence[CategoricalFeature], ctrs: Sequence[Ctr]
) -> list[Hashes]:
    """The hashes, signed, of all categories that the model knows, for each categorical feature.

    With them, whatever has counters is a combination of known categories. UnsupportedModelError, which names
    the features, if there are too many combinations, or categories that are not known.
    """
    found = [feature.hashes.astype(np.int64) for feature in categorical]
    tables = {id(ctr.counters): (ctr.of, ctr.counters.hashes) for ctr in ctrs}
    for of, _ in tables.values():
        for number, value in of.exact:
            found[number] = np.union1d(found[number], [value])
    for of, hashes in sorted(tables.values(), key=lambda table: len(table[0].categories)):
        _check_size(of, found, shown_combination(of, floats, categorical))
        rest = hashes[~np.isin(hashes, combined(_all_parts(of, found)))]
        for i, number in enumerate(of.categories):
            if len(rest):
                found[number] = np.union1d(found[number], _solved(of, i, rest, found))
                _check_size(of, found, shown_combination(of, floats, categorical))
                rest = rest[~np.isin(rest, combined(_all_parts(of, found)))]
        if len(rest):
            raise _not_found(of, shown_combination(of, floats, categorical))
    return found


def _check_size(of: Combination, known: Sequence[Hashes], shown: str) -> None:
    n = 2 ** len(of.borders + of.exact) * math.prod(max(2, len(known[k]) + 1) for k in of.categories)
    if n > _MAX_COMBINATIONS and not of.is_single:
        raise UnsupportedModelError(
            f"the model splits on statistics (CTRs) of the combination {shown}, which has {n:,} combinations "
            f"of categories, predgap takes up to {_MAX_COMBINATIONS:,}; train with max_ctr_complexity=1"
        )


def _all_parts(of: Combination, known: Sequence[Hashes]) -> list[Hashes]:
    """The parts of all combinations of known categories and answers, one axis each."""
    parts = [*(known[number] for number in of.categories), *[_BITS] * len(of.borders + of.exact)]
    return [part.reshape(-1, *[1] * (len(parts) - 1 - i)) for i, part in enumerate(parts)]


def _solved(of: Combination, i: int, hashes: NDArray[np.uint64], known: Sequence[Hashes]) -> Hashes:
    """The categories of the i-th categorical feature that make one of these hashes with known others."""
    parts = _all_parts(of, known)
    factor = pow(_COMBINATION_MULTIPLIER, -(len(parts) - i + 1), 2**64)
    parts[i] = np.zeros((1,) * parts[i].ndim, dtype=np.int64)
    others = combined(parts).reshape(-1)
    if len(others) * len(hashes) > _MAX_WORK:
        return np.empty(0, dtype=np.int64)
    step = max(1, _STEP // max(1, len(others)))
    found = [np.empty(0, dtype=np.int64)]
    for begin in range(0, len(hashes), step):
        tried = ((hashes[begin : begin + step, None] - others) * np.uint64(factor)).view(np.int64)
        found.append(tried[tried == tried.astype(np.int32)])
    return np.unique(np.concatenate(found))


def _not_found(of: Combination, shown: str) -> LoaderError:
    if of.is_single:
        return LoaderError("the counters of a CTR are not those of categories; the file is damaged")
    return UnsupportedModelError(
        f"the model splits on statistics (CTRs) of the combination {shown}, and does not tell of which "
        "categories they are; train with max_ctr_complexity=1"
    )
