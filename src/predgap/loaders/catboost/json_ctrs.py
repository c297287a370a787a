"""Reads the CTRs of CatBoost models saved as JSON: what they are, and their counters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from predgap._typing import FloatArray
from predgap.errors import LoaderError
from predgap.loaders._formats.documents import Document, numbers, parse, single
from predgap.loaders.catboost.ctrs import Combination, Counters, Ctr, counters
from predgap.loaders.catboost.model import CategoricalFeature, FloatFeature, combination, no_counters

__all__ = ["read"]

_DAMAGED: Final = "{} of a CTR is not as CatBoost writes it; the file is damaged"


def read(
    described: Sequence[Document],
    tables: Any,
    options: Any,
    floats: Sequence[FloatFeature],
    categorical: Sequence[CategoricalFeature],
) -> list[Ctr]:
    """The CTRs of a model.

    Parameters
    ----------
    described : sequence of documents
        What they are ("ctrs").
    tables : document
        Their counters by their identifiers ("ctr_data"), not checked yet.
    options : document
        About the training ("model_info"), not checked yet.
    floats, categorical : sequences of features
        Those of the model, already checked.
    """
    found: list[Ctr] = []
    known: dict[str, Counters] = {}
    for ctr in described:
        of = _combination(ctr, floats, categorical)
        name = ctr.get("identifier")
        if not isinstance(name, str) or parse(name.encode()) != {
            "identifier": ctr["elements"],
            "type": ctr.get("ctr_type"),
        }:
            raise LoaderError(_DAMAGED.format("the identifier"))
        if not isinstance(tables, dict) or not isinstance(tables.get(name), dict):
            raise no_counters(of, floats, categorical)
        if name not in known:
            known[name] = _counters(tables[name], ctr["ctr_type"])
        found.append(_ctr(ctr, of, known[name]))
    _check_ways(found, options)
    return found


def _combination(
    ctr: Document, floats: Sequence[FloatFeature], categorical: Sequence[CategoricalFeature]
) -> Combination:
    categories, borders, exact = list[Any](), list[Any](), list[Any]()
    elements = ctr.get("elements")
    for part in elements if isinstance(elements, list) else ():
        match part:
            case {"combination_element": "cat_feature_value", "cat_feature_index": number}:
                categories.append(number)
            case {"combination_element": "cat_feature_exact_value", **rest}:
                exact.append((rest.get("cat_feature_index"), rest.get("value")))
            case {"combination_element": "float_feature", **rest}:
                border = single(numbers([rest.get("border")], "a border of a CTR"))
                borders.append((rest.get("float_feature_index"), float(border[0])))
            case _:
                raise LoaderError(_DAMAGED.format("an element"))
    return combination(categories, borders, exact, floats, categorical)


def _ctr(ctr: Document, of: Combination, counted: Counters) -> Ctr:
    target = ctr.get("target_border_idx")
    if type(target) is not int or not 0 <= target < 2**31:
        raise LoaderError(_DAMAGED.format("target_border_idx"))
    keys = ("prior_numerator", "prior_denomerator", "shift", "scale")
    above, below, shift, scale = numbers([ctr.get(key) for key in keys], "a prior or scale").tolist()
    return Ctr(
        kind=ctr["ctr_type"],
        of=of,
        target=target,
        prior=(above, below),
        shift=shift,
        scale=scale,
        borders=single(numbers(ctr.get("borders"), "borders")),
        counters=counted,
    )


def _counters(table: Document, kind: Any) -> Counters:
    """The counters in a list: a hash as text, its counts, the next hash, and so on."""
    stride, listed = table.get("hash_stride"), table.get("hash_map")
    if type(stride) is not int or stride < 2 or not isinstance(listed, list) or len(listed) % stride:
        raise LoaderError(_DAMAGED.format("the hash_map"))
    hashes = listed[::stride]
    if not all(isinstance(text, str) and text.isdecimal() and len(text) <= 20 for text in hashes):
        raise LoaderError(_DAMAGED.format("the hash_map"))
    values = [int(text) for text in hashes]
    if any(value >= 2**64 for value in values):
        raise LoaderError(_DAMAGED.format("the hash_map"))
    columns: list[FloatArray] = [numbers(listed[i::stride], "hash_map") for i in range(1, stride)]
    return counters(
        np.array(values, dtype=np.uint64), np.stack(columns, axis=1), table.get("counter_denominator"), kind
    )


def _check_ways(ctrs: Sequence[Ctr], options: Any) -> None:
    """LoaderError if labels were made classes in two ways for the same kind of CTR.

    These have different counters, of which CatBoost saves one only. The options of the training tell; without
    them, the order of the CTRs: those of one way are sorted, those of the second begin anew.
    """
    kinds = {ctr.kind for ctr in ctrs}
    again = any(
        one.counters is other.counters and (one.target, one.prior) >= (other.target, other.prior)
        for one, other in pairwise(ctrs)
    )
    if again or any(kind in kinds and len(ways) > 1 for kind, ways in _ways(options)):
        raise LoaderError(
            "the file lacks some of the counters of its CTRs, because CatBoost's JSON does not tell apart "
            "different TargetBorderCounts of one kind; save the model as .cbm"
        )


def _ways(options: Any) -> Iterator[tuple[str, set[str]]]:
    """In how many ways labels were made classes for each kind of CTR, as far as the options say."""
    match options:
        case {"params": {"cat_feature_params": {"simple_ctrs": simple, "per_feature_ctrs": {**own}, **rest}}}:
            for listed in (simple, rest.get("combinations_ctrs"), *own.values()):
                found: dict[str, set[str]] = {}
                for ctr in listed if isinstance(listed, list) else ():
                    match ctr:
                        case {"ctr_type": str(kind), "target_binarization": way}:
                            found.setdefault(kind, set()).add(str(way))
                yield from found.items()
