"""What splits on categories ask, as sets of categories.

In CatBoost a split sends one category to the right (one-hot), or all whose CTR is above a border. Its set are
the categories that it sends elsewhere than those that the model does not know, so these are in no set.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from predgap._typing import BoolArray, IntArray
from predgap.errors import LoaderError
from predgap.loaders.catboost.categories import HashedCategories, levels
from predgap.loaders.catboost.ctrs import Ctr, ranks
from predgap.loaders.catboost.hashes import combined, found_at
from predgap.loaders.catboost.model import Model, shown_name

__all__ = ["Sets", "categories_of", "sets_of"]

_MAX_CODES: Final = 1 << 25  # categories in all sets together; each takes 4 bytes, three times while loading


class Sets(NamedTuple):
    """A set for each question about categories, in the order of the questions."""

    begin: IntArray  # (n + 1,) where each set begins in `codes`
    codes: IntArray  # ascending in each set
    right: BoolArray  # (n,) does the set go right in CatBoost?


def categories_of(model: Model) -> list[HashedCategories]:
    """The categories of each categorical feature: those of its splits, and those that have counters."""
    return [
        levels((own & 0xFFFFFFFF).tolist(), model.texts, f"feature {shown_name(feature)!r}")
        for own, feature in zip(model.hashes, model.categorical, strict=True)
    ]


def sets_of(model: Model, categories: list[HashedCategories]) -> Sets:
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
    return Sets(
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
