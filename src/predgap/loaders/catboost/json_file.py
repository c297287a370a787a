"""Reads CatBoost models saved as JSON, and the CTRs in them.

There are two kinds of trees. Symmetric trees are lists of splits and of leaves. All others are nested objects
with deep indentation: a thousand such trees are 100 MB of text and a million objects. So these are parsed one
tree at a time, into flat lists.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from predgap._typing import FloatArray, IntArray
from predgap.errors import LoaderError, UnsupportedModelError
from predgap.loaders._formats.json import Document, as_document, numbers, object_in, parse, single
from predgap.loaders.catboost import model as shared
from predgap.loaders.catboost.categories import hash_of, known_hashes
from predgap.loaders.catboost.model import (
    CTR,
    NUMBER,
    ONE_HOT,
    CatBoostModel,
    CategoricalFeature,
    Combination,
    Counters,
    Ctr,
    FloatFeature,
    Nodes,
    Questions,
    combination,
    counters,
    no_counters,
)

__all__ = ["read"]

# A number may take 2 bytes of text, but about 200 bytes of memory if it is the value of a leaf. The limit is
# as much as 16,000 symmetric trees of depth 8 with the weights of their leaves.
_MAX_NUMBERS: Final = 1 << 23

# The keys that CatBoost 1.2 writes
_KNOWN: Final[dict[str, set[str]]] = {
    "model": {"ctr_data", "features_info", "model_info", "oblivious_trees", "scale_and_bias", "trees"},
    "features_info": {"cat_features_hash", "categorical_features", "ctrs", "float_features"},
    "float_features": {
        *("borders", "feature_id", "feature_index", "feature_name", "flat_feature_index", "has_nans"),
        "nan_value_treatment",
    },
    "categorical_features": {"feature_id", "feature_index", "feature_name", "flat_feature_index", "values"},
    "cat_features_hash": {"hash", "value"},
    "ctrs": {
        *("borders", "ctr_type", "elements", "identifier", "prior_denomerator", "prior_numerator", "scale"),
        *("shift", "target_border_idx"),
    },
    "oblivious_trees": {"leaf_values", "leaf_weights", "splits"},
}
_LEAF_KEYS: Final = {"value", "weight"}
# Each kind of split, and its keys: its index among all questions of the model, the index of the feature among
# the numeric or categorical ones or the target of the CTR, and what it is compared with.
_SPLITS: Final = {
    "FloatFeature": (NUMBER, ("split_index", "float_feature_index", "border")),
    "OneHotFeature": (ONE_HOT, ("split_index", "cat_feature_index", "value")),
    "OnlineCtr": (CTR, ("split_index", "ctr_target_border_idx", "border")),
}
_BLANK: Final = " \n\r\t"

Splits = dict[Any, Document]
"""The splits of a model by their split_index, which is not checked yet."""

_object = partial(object_in, model="a CatBoost model saved as JSON")


def read(data: bytes) -> CatBoostModel:
    """The model in the bytes of a file; parts that CatBoost 1.2 does not write are refused."""
    document = _decode(data)
    info = _object(document, "features_info")
    news = _unknown_parts(document, info)
    if news:
        raise shared.unknown(news[0])
    scale, bias = _scale_and_bias(document)
    nodes, splits = _nodes(document, len(bias))
    _refuse(splits)
    floats, categorical = _float_features(info), _categorical_features(info)
    shared.check_features(floats, categorical)
    described, tables, about = _objects(info, "ctrs"), document.get("ctr_data"), document.get("model_info")
    ctrs = _read_ctrs(described, tables, about, floats, categorical)
    asked = shared.questions(floats, categorical, ctrs)
    _check_splits(splits, asked)
    hashes = known_hashes(floats, categorical, ctrs)
    return CatBoostModel(
        floats=floats,
        categorical=categorical,
        ctrs=ctrs,
        asked=asked,
        hashes=hashes,
        texts=_texts(hashes, info),
        nodes=nodes,
        scale=scale,
        bias=bias,
        source=shared.source_of(about),
        classes=shared.classes_of(about, len(bias)),
        link=shared.link_of(about),
    )


# ---- bytes to a document ----


def _decode(data: bytes) -> Document:
    data = _dense(data)
    if data.count(b",") > _MAX_NUMBERS:
        raise LoaderError(
            f"the model has more than {_MAX_NUMBERS:,} numbers, the most that predgap loads; train fewer or "
            "shallower trees"
        )
    collecting = gc.isenabled()
    gc.disable()  # it would take half of the time, and no object can be freed yet
    try:
        return as_document(parse(data, _loads))
    finally:
        if collecting:
            gc.enable()


def _dense(data: bytes) -> bytes:
    """A file without the indentation of its trees, three quarters of it; spaces in names are kept."""
    opening, blank = re.search(rb'"trees"\s*:', data), _BLANK.encode()  # a key, not a name: a colon follows
    if opening is None:
        return data
    head, dense = data[: opening.start()], data.translate(None, blank)
    at = len(head.translate(None, blank))
    if dense.find(b'"features_info"', at) >= 0:
        return data
    return b"".join([head, memoryview(dense)[at:]])


def _loads(text: str) -> Any:
    """The content of a JSON text, with a `_Grown` in place of its "trees"."""
    opening = re.search(r'"trees"\s*:\s*\[', text)
    if opening is None:
        return json.loads(text)
    grown = _Grown()
    end = grown.read(text, opening.end())
    found = json.loads(text[: opening.end()] + text[end:])
    if isinstance(found, dict) and found.get("trees") == []:
        found["trees"] = grown
    return found


def _unknown_parts(document: Document, info: Document) -> list[str]:
    """Keys that CatBoost 1.2 does not write; `_Grown` checks the nodes of trees that are not symmetric."""
    parts = [("model", document), ("features_info", info)]
    for name in ("float_features", "categorical_features", "cat_features_hash", "ctrs"):
        parts += [(name, part) for part in _objects(info, name)]
    parts += [("oblivious_trees", tree) for tree in _objects(document, "oblivious_trees")]
    return [key for name, part in parts for key in part.keys() - _KNOWN[name]]


def _objects(parent: Document, name: str) -> list[Document]:
    """A list of objects; CatBoost writes null for an empty one."""
    children = parent.get(name)
    if children is None:
        return []
    if not isinstance(children, list) or not set(map(type, children)) <= {dict}:
        raise LoaderError(f"{name} is not a list of objects; the file is damaged")
    return children


def _scale_and_bias(document: Document) -> tuple[float, FloatArray]:
    """The scale, a factor of the sum of the leaves, and the bias that is then added to each output."""
    found = document.get("scale_and_bias")
    if not isinstance(found, list) or len(found) != 2 or not isinstance(found[1], list) or not found[1]:
        raise LoaderError(
            "scale_and_bias is not a number and a list of numbers; if the model is from an old CatBoost, "
            "load it with CatBoost 1.2 and save it again"
        )
    return float(numbers(found[:1], "the scale")[0]), numbers(found[1], "the bias")


# ---- features ----


def _float_features(info: Document) -> list[FloatFeature]:
    return [
        FloatFeature(
            *_position(feature),
            borders=single(numbers(feature.get("borders"), "borders")),
            missing_left=shared.missing_goes_left(
                feature.get("nan_value_treatment"), feature.get("has_nans")
            ),
        )
        for feature in _objects(info, "float_features")
    ]


def _categorical_features(info: Document) -> list[CategoricalFeature]:
    return [
        CategoricalFeature(
            *_position(feature),
            hashes=numbers(feature.get("values") or [], "values", frozenset({int})),  # null if there are none
        )
        for feature in _objects(info, "categorical_features")
    ]


def _position(feature: Document) -> tuple[Any, Any, Any]:
    """The number, column and name of a feature, not checked yet."""
    return feature.get("feature_index"), feature.get("flat_feature_index"), feature.get("feature_id", "")


def _texts(known: list[NDArray[np.int64]], info: Document) -> dict[int, str]:
    """The texts of categories by hash; a file has them if the model was saved with a pool."""
    hashes = {value & 0xFFFFFFFF for own in known for value in own.tolist()}
    found = {}
    for entry in _objects(info, "cat_features_hash"):
        value, text = entry.get("hash"), entry.get("value")
        if type(value) is int and value in hashes:
            if not isinstance(text, str) or hash_of(text) != value:
                raise LoaderError(f"cat_features_hash says that {value} is the hash of {str(text)[:40]!r}")
            found[value] = text
    return found


# ---- splits ----


def _places(splits: list[Any], known: Splits) -> list[Any]:
    """The split_index of each split. `known` keeps one split per index; LoaderError if others differ."""
    try:
        places = [split["split_index"] for split in splits]
        agree = [*map(known.setdefault, places, splits)] == splits
    except (KeyError, TypeError):
        raise LoaderError("a split has no split_index; the file is damaged") from None
    if not agree:
        raise LoaderError("splits with the same split_index differ; the file is damaged")
    return places


def _whole(places: list[Any]) -> IntArray:
    found = numbers(places, "split_index")
    if not (np.abs(found) < 2**31).all() or (found != np.trunc(found)).any():
        raise LoaderError("a split_index is not a whole number; the file is damaged")
    return found.astype(np.int32)


def _refuse(splits: Splits) -> None:
    for split in splits.values():
        kind = split.get("split_type")
        if not isinstance(kind, str) or kind not in _SPLITS:
            raise UnsupportedModelError(
                f"the model splits in the way {str(kind)[:40]!r}, {shared.AS_NUMBERS} cat_features"
            )


def _check_splits(splits: Splits, asked: Questions) -> None:
    """LoaderError if a split contradicts its split_index, which is all that CatBoost uses."""
    for name, (kind, keys) in _SPLITS.items():
        of_kind = [split for split in splits.values() if split["split_type"] == name]
        places, number, compared = ([split.get(key) for split in of_kind] for key in keys)
        place = _whole(places)
        shared.check_places(place, asked)
        value = numbers(compared, keys[2])
        agrees = (asked.kind[place] == kind) & (asked.number[place] == numbers(number, keys[1]))
        if not (agrees & (asked.compared[place] == (value if kind == ONE_HOT else single(value)))).all():
            raise LoaderError(
                "a split states a feature, border or value other than that of its split_index; save it again"
            )


# ---- trees ----


def _nodes(document: Document, width: int) -> tuple[Nodes, Splits]:
    """The nodes and splits of a document from `_loads`; its leaves must have `width` values."""
    grown, symmetric = document.get("trees"), _objects(document, "oblivious_trees")
    if isinstance(grown, _Grown) and grown.sizes and not symmetric:
        return grown.nodes(width), grown.splits
    if not symmetric or "trees" in document:  # CatBoost itself cannot predict without trees
        raise LoaderError("the model has no trees, or has two kinds; is it a CatBoost model saved as JSON?")
    return _from_symmetric(symmetric, width)


def _from_symmetric(trees: list[Document], width: int) -> tuple[Nodes, Splits]:
    splits: Splits = {}
    places = [_places(_objects(tree, "splits"), splits) for tree in trees]
    values = [numbers(tree.get("leaf_values"), "leaf_values") for tree in trees]
    for i, (part, of_tree) in enumerate(zip(values, places, strict=True)):
        if part.size != width << min(len(of_tree), 62):
            raise LoaderError(f"tree {i} has {part.size} leaf_values, expected {width} * 2^{len(of_tree)}")
    nodes = shared.symmetric(
        depth=np.array([*map(len, places)], dtype=np.int32),
        place=_whole([*chain.from_iterable(places)]),
        value=np.concatenate(values).reshape(-1, width),
    )
    return nodes, splits


class _Grown:
    """Trees of any shape as flat lists, in the order of `Nodes`."""

    def __init__(self) -> None:
        self.sizes: list[int] = []  # number of nodes of each tree
        self.splits: Splits = {}
        self._inner: list[bool] = []  # of each node
        self._places: list[Any] = []  # split_index of each inner node
        self._values: list[FloatArray] = []  # of the leaves of each tree, (n,) or (n, n_outputs)

    def read(self, text: str, at: int) -> int:
        """Adds the trees of a JSON list that begins at or after `at`; returns where the list ends."""
        decoder, word = json.JSONDecoder(), re.compile(rf"[^{_BLANK}]|\Z")

        def next_after(at: int) -> int:
            found = word.search(text, at)
            return found.start() if found else len(text)

        at = next_after(at)
        while text[at : at + 1] != "]":
            tree, at = decoder.raw_decode(text, at)
            self._add(tree)
            at = next_after(at)
            if text[at : at + 1] != ",":
                break
            at = next_after(at + 1)
        return at

    def nodes(self, width: int) -> Nodes:
        """The nodes of all trees; LoaderError if a leaf does not have `width` values."""
        expected = () if width == 1 else (width,)
        if any(part.shape[1:] != expected for part in self._values):
            raise LoaderError(f"a leaf does not have {width} values, one per output; the file is damaged")
        return shared.grown(
            size=np.array(self.sizes, dtype=np.int32),
            inner=np.array(self._inner),
            place=_whole(self._places),
            value=np.concatenate(self._values).reshape(-1, width),
        )

    def _add(self, tree: Any) -> None:
        queue, leaves, splits = [tree], [], []
        try:
            for node in queue:  # children are appended while we iterate: breadth-first
                if len(node) == 3:
                    splits.append(node["split"])
                    queue += (node["left"], node["right"])
                else:
                    leaves.append(node)
            values = [leaf["value"] for leaf in leaves]
        except (KeyError, TypeError):
            raise LoaderError("a node has neither a value, nor left, right and split") from None
        if not _LEAF_KEYS.issuperset(chain.from_iterable(leaves)):
            raise LoaderError("a leaf has something else than a value and a weight")
        self.sizes.append(len(queue))
        self._inner += map((3).__eq__, map(len, queue))
        self._places += _places(splits, self.splits)
        self._values.append(_leaf_values(values))


def _leaf_values(values: list[Any]) -> FloatArray:
    """The values of leaves: (n,) if they are numbers, (n, n_outputs) if they are lists."""
    if not isinstance(values[0], list):
        return numbers(values, "the value of a leaf")
    width = len(values[0])
    if not all(isinstance(value, list) and len(value) == width for value in values):
        raise LoaderError("the leaves of a tree have different numbers of values; the file is damaged")
    return numbers([*chain.from_iterable(values)], "the value of a leaf").reshape(len(values), width)


# ------------------------------------------------------------------------------------------------------------
# CTRs are stored in two places: what they are, and their counters.

_DAMAGED: Final = "{} of a CTR is not as CatBoost writes it; the file is damaged"


def _read_ctrs(
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
    """Yields the ways in which labels were made classes for each kind of CTR, as far as the options say."""
    match options:
        case {"params": {"cat_feature_params": {"simple_ctrs": simple, "per_feature_ctrs": {**own}, **rest}}}:
            for listed in (simple, rest.get("combinations_ctrs"), *own.values()):
                found: dict[str, set[str]] = {}
                for ctr in listed if isinstance(listed, list) else ():
                    match ctr:
                        case {"ctr_type": str(kind), "target_binarization": way}:
                            found.setdefault(kind, set()).add(str(way))
                yield from found.items()
