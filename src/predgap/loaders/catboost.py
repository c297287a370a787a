"""CatBoost models: objects, and files saved as JSON or in CatBoost's own binary format (.cbm).

There is one way in, CatBoost's JSON. Objects are saved to it, then checked against their own predictions.
Only CatBoost reads .cbm files, and a damaged one may crash it: another process turns them into JSON.
"""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np

from predgap.ensemble import ALL_OUTPUTS, LEAF, BoolArray, Ensemble, FloatArray, IntArray
from predgap.errors import DependencyError, EnsembleError, LoaderError, UnsupportedModelError
from predgap.loaders import files, selfcheck
from predgap.loaders.documents import Document, as_document, numbers, object_in, parse, single

__all__ = ["from_file", "from_object"]

_MAX_DEPTH: Final = 16  # of symmetric trees, as in CatBoost; they have 2^depth leaves
# A number may take 2 bytes of text, but some 200 of memory when it is a leaf's. This is 16,000 symmetric
# trees of depth 8, with the weights of their leaves.
_MAX_NUMBERS: Final = 1 << 23

# A file has no predictions to check against: what is new in it may change what the trees mean.
_KNOWN: Final[dict[str, set[str]]] = {
    "model": {"ctr_data", "features_info", "model_info", "oblivious_trees", "scale_and_bias", "trees"},
    "features_info": {"cat_features_hash", "categorical_features", "ctrs", "float_features"},
    "float_features": {
        *("borders", "feature_id", "feature_index", "feature_name", "flat_feature_index", "has_nans"),
        "nan_value_treatment",
    },
    "oblivious_trees": {"leaf_values", "leaf_weights", "splits"},
}
_INNER_KEYS: Final = {"left", "right", "split"}
_LEAF_KEYS: Final = {"value", "weight"}

_SPLITS_REFUSED: Final = {
    "OneHotFeature": "on categories (one-hot splits)",
    "OnlineCtr": "on statistics of categories (CTR splits)",
}
_AS_NUMBERS: Final = "which predgap does not handle yet; encode them as numbers and train without"

_object = partial(object_in, model="a CatBoost model saved as JSON")

_ADVICE: Final = "the file is damaged or too large; load it with CatBoost and pass the object"
_CONVERTER_SECONDS: Final = 120
_NO_CATBOOST: Final = 3  # exit status
_CONVERTER: Final = f"""
import sys
try:
    from catboost import CatBoost
except ImportError as error:
    sys.stderr.write(str(error))
    sys.exit({_NO_CATBOOST})
try:
    from resource import RLIMIT_AS, RLIMIT_CORE, RLIMIT_FSIZE, getrlimit, setrlimit
    for what, most in ((RLIMIT_CORE, 0), (RLIMIT_FSIZE, {files.MAX_FILE_BYTES}), (RLIMIT_AS, 1 << 33)):
        hard = getrlimit(what)[1]
        setrlimit(what, (most if hard < 0 else min(most, hard), hard))
except (ImportError, OSError, ValueError):  # Windows has no such limits, other systems not all of them
    pass
model = CatBoost()
model.load_model(blob=sys.stdin.buffer.read())
model.save_model(sys.argv[1], format="json")
"""


def from_file(path: Path) -> Ensemble:
    """The ensemble of a JSON file, or of a .cbm file if CatBoost is installed."""
    data = files.read(path)
    document = _decode(_converted(data) if data.startswith(b"CBM1") else data)
    news = _unknown_parts(document)
    if news:
        raise UnsupportedModelError(
            f"the file was written by a CatBoost that predgap does not know (it has {news[0][:40]!r}); load "
            "it with CatBoost and pass the object, which is then checked against its predictions"
        )
    return _ensemble(document)


def from_object(model: Any) -> Ensemble:
    """The ensemble of a CatBoost object, checked against the object's own leaves and margins."""
    with TemporaryDirectory(prefix="predgap-") as folder:
        path = Path(folder, "model.json")
        _ask("be saved as JSON", lambda: model.save_model(str(path), format="json"))
        document = _decode(path.read_bytes())
    return _checked(_ensemble(document), model, symmetric="oblivious_trees" in document)


def _checked(ensemble: Ensemble, model: Any, symmetric: bool) -> Ensemble:
    """The ensemble, once it agrees with the object; JSON gives no numbers to leaves of other trees."""
    CatBoost = import_module("catboost").CatBoost

    def leaves(rows: selfcheck.Rows) -> Any:  # CatBoost counts from the first leaf, which follows all splits
        n_splits = np.diff(ensemble.root, append=ensemble.n_nodes) // 2
        return CatBoost.calc_leaf_indexes(model, rows, thread_count=1).reshape(len(rows), -1) + n_splits

    def margins(rows: selfcheck.Rows) -> Any:  # by the base class: a wrapper may transform them
        return CatBoost.predict(model, rows, prediction_type="RawFormulaVal", thread_count=1)

    selfcheck.check(
        ensemble,
        library="CatBoost",
        margins=lambda rows: _ask("predict", lambda: margins(rows)),
        leaves=(lambda rows: _ask("predict", lambda: leaves(rows))) if symmetric else None,
        double=True,
    )
    return ensemble


def _ask(what: str, question: Callable[[], Any]) -> Any:
    """The answer of the library's object; whatever it raises means that it is not a usable model."""
    try:
        return question()
    except Exception as error:
        raise _failure(what, str(error) or type(error).__name__, "is it fitted?") from error


def _converted(data: bytes) -> bytes:
    """A .cbm file as JSON, by a process that may crash, hang or run out of memory."""
    with TemporaryDirectory(prefix="predgap-") as folder:
        path = Path(folder, "model.json")
        try:
            done = subprocess.run(
                [sys.executable or "", "-P", "-c", _CONVERTER, str(path)],
                input=data,
                capture_output=True,
                timeout=_CONVERTER_SECONDS,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
        except subprocess.TimeoutExpired:
            raise _failure("be read", f"CatBoost took more than {_CONVERTER_SECONDS} seconds") from None
        except OSError as error:
            raise _failure("be read", f"no process for it: {error.strerror}") from error
        said = done.stderr.decode(errors="replace")
        if done.returncode == _NO_CATBOOST:
            raise DependencyError(
                f"only CatBoost reads .cbm files, and it cannot be imported ({_last_line(said)}); install it "
                "(pip install catboost), or save the model as JSON where it is installed: "
                "model.save_model('model.json', format='json')"
            )
        if done.returncode:
            crash = f"CatBoost crashed with signal {-done.returncode}"
            raise _failure("be read", said if done.returncode > 0 else crash)
        return files.read(path)


def _failure(what: str, said: str, advice: str = _ADVICE) -> LoaderError:
    """What to raise when CatBoost says no: models with texts or embeddings it does not save as JSON."""
    reason = re.sub(r"^(?:[\w.]+: )?(?:\S+\.(?:cpp|h|pyx):\d+: )?", "", _last_line(said))
    kind = re.search(r"(text|embedding) features", reason)
    if kind:
        return UnsupportedModelError(f"the model has {kind[0]}, {_AS_NUMBERS} {kind[1]}_features")
    return LoaderError(f"the CatBoost model cannot {what} ({reason[:300]}); {advice}")


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "unknown reason")


# ---- bytes to a document ----


def _decode(data: bytes) -> Document:
    if data.count(b",") > _MAX_NUMBERS:
        raise LoaderError(
            f"the model has more than {_MAX_NUMBERS:,} numbers, the most that predgap loads; train fewer or "
            "shallower trees"
        )
    collecting = gc.isenabled()
    gc.disable()  # all objects stay: looking through them again and again would take half of the time
    try:
        return as_document(parse(data))
    finally:
        if collecting:
            gc.enable()


def _unknown_parts(document: Document) -> list[str]:
    """Keys that CatBoost 1.2 does not write; nodes of trees that are not symmetric are checked on reading."""
    info = _object(document, "features_info")
    parts = [("model", document), ("features_info", info)]
    parts += [("float_features", feature) for feature in _objects(info, "float_features")]
    parts += [("oblivious_trees", tree) for tree in _objects(document, "oblivious_trees")]
    return [key for name, part in parts for key in part.keys() - _KNOWN[name]]


# ---- a document to an ensemble ----


class _Nodes(NamedTuple):
    """The nodes of all trees; their splits are still objects."""

    root: IntArray  # (n_trees,)
    inner: BoolArray  # (n_nodes,)
    split: IntArray  # (n_nodes,) place in `splits`, at inner nodes
    left: IntArray  # (n_nodes,) the left child, at inner nodes; the right one comes next
    splits: list[Document]
    value: FloatArray  # (n_leaves, n_outputs), in the order of the nodes


def _ensemble(document: Document) -> Ensemble:
    scale, bias = _scale_and_bias(document)
    nodes = _nodes(document, len(bias))
    _refuse_categories(nodes.splits, _object(document, "features_info"))
    features = _float_features(_object(document, "features_info"))
    feature, border, missing_left = _borders(features)
    # The place of each inner node's border; leaves have -1, and take what is appended to each column.
    at = np.full(len(nodes.inner), -1, dtype=np.int32)
    at[nodes.inner] = _places(nodes.splits, feature, border)[nodes.split[nodes.inner]]
    value = np.zeros((len(at), len(bias)))
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite, the ensemble refuses
        value[~nodes.inner] = nodes.value * scale
    try:
        return Ensemble(
            root=nodes.root,
            feature=np.append(feature, LEAF)[at],
            threshold=np.append(_next_above(border), 0.0)[at],
            left=np.where(nodes.inner, nodes.left, LEAF),
            right=np.where(nodes.inner, nodes.left + 1, LEAF),
            default_left=np.append(missing_left, False)[at],
            value=value,
            target=np.full(len(nodes.root), ALL_OUTPUTS if len(bias) > 1 else 0),
            bias=bias,
            n_features=len(features),
            feature_names=_feature_names(features),
            row_dtype=np.dtype(np.float32),
            source=_source(document),
        )
    except EnsembleError as error:
        raise LoaderError(f"the CatBoost model makes no sound ensemble: {error}") from error


def _next_above(border: FloatArray) -> FloatArray:
    """The thresholds: x > border goes right, so x goes left iff it is below the next single after border."""
    with np.errstate(over="ignore"):
        above = np.nextafter(border.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    # After the largest single, the border that sets missing values apart, comes infinity, which is no
    # threshold: any double between them does.
    return np.where(np.isfinite(above), above, np.nextafter(border, np.inf))


def _scale_and_bias(document: Document) -> tuple[float, FloatArray]:
    """What the sum of the leaves is multiplied by, and what is then added to each output."""
    found = document.get("scale_and_bias")
    if not isinstance(found, list) or len(found) != 2 or not found[1]:
        raise LoaderError(
            "scale_and_bias is not a number and a list of numbers; if the model is from an old CatBoost, "
            "load it with CatBoost 1.2 and save it again"
        )
    return float(numbers(found[:1], "the scale")[0]), numbers(found[1], "the bias")


def _source(document: Document) -> str:
    """CatBoost, its version and the loss, as far as the model tells."""
    info: Any = document.get("model_info")
    texts = []
    for path in (("catboost_version_info",), ("params", "loss_function", "type")):
        found = info
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        texts.append(found[:1000] if isinstance(found, str) else "")
    version = re.search(r"tags/v([\d.]{1,20})", texts[0])
    return " ".join(filter(None, ("CatBoost", version[1] if version else "", texts[1][:60])))


# ---- features ----


def _refuse_categories(splits: list[Document], info: Document) -> None:
    for split in splits:
        kind = split.get("split_type") if isinstance(split, dict) else None
        if kind != "FloatFeature":
            what = _SPLITS_REFUSED.get(str(kind), f"in the way {str(kind)[:40]!r}")
            raise UnsupportedModelError(f"the model splits {what}, {_AS_NUMBERS} cat_features")
    for key in sorted(info.keys() - {"float_features"}):
        if info[key]:
            raise UnsupportedModelError(f"the model has {key[:40]}, {_AS_NUMBERS} cat_features")


def _float_features(info: Document) -> list[Document]:
    features = _objects(info, "float_features")
    for i, feature in enumerate(features):
        if feature.get("flat_feature_index") != i or feature.get("feature_index") != i:
            raise LoaderError(f"float feature {i} is not column {i}; the file is damaged")
    return features


def _borders(features: list[Document]) -> tuple[IntArray, FloatArray, BoolArray]:
    """Feature, border and way of missing values: of all borders, in the order that splits count them."""
    borders = [numbers(feature.get("borders"), "borders") for feature in features]
    counts = [len(part) for part in borders]
    feature = np.repeat(np.arange(len(features), dtype=np.int32), counts)
    border = single(np.concatenate([np.empty(0), *borders]))
    ascends = (np.diff(border) > 0) | (np.diff(feature) > 0)
    if not np.isfinite(border).all() or not ascends.all():
        raise LoaderError("the borders of a feature are not ascending single-precision numbers")
    return feature, border, np.repeat(np.array([_missing_goes_left(f) for f in features], dtype=bool), counts)


def _missing_goes_left(feature: Document) -> bool:
    """NaN is not greater than a border, unless there were some in training that count as infinite."""
    treatment, seen = feature.get("nan_value_treatment"), feature.get("has_nans")
    if treatment not in ("AsIs", "AsFalse", "AsTrue") or not isinstance(seen, bool):
        raise LoaderError(
            f"a feature has nan_value_treatment {str(treatment)[:40]!r} and has_nans {str(seen)[:40]!r}; "
            "expected AsIs, AsFalse or AsTrue, and true or false"
        )
    return not (seen and treatment == "AsTrue")


def _feature_names(features: list[Document]) -> tuple[str, ...] | None:
    """The names; where only some features have one, the others have their number, as in CatBoost."""
    names = [feature.get("feature_id", "") for feature in features]
    if not all(isinstance(name, str) for name in names):
        raise LoaderError("a feature_id is not a text; the file is damaged")
    return tuple(name or str(i) for i, name in enumerate(names)) if any(names) else None


# ---- trees ----


def _nodes(document: Document, width: int) -> _Nodes:
    found = [key for key in ("oblivious_trees", "trees") if key in document]
    trees = _objects(document, found[0]) if len(found) == 1 else []
    if not trees:  # CatBoost itself cannot predict with a model that was shrunk to none
        raise LoaderError("the model has no trees, or has two kinds; is it a CatBoost model saved as JSON?")
    return _symmetric(trees, width) if found[0] == "oblivious_trees" else _grown(trees, width)


def _symmetric(trees: list[Document], width: int) -> _Nodes:
    """Trees that ask one question per level: each a heap, its nodes level by level.

    Bit k of a leaf's number is the answer to split k. So the root asks the last split, which decides the
    highest bit: the leaves are then in the order of their numbers.
    """
    splits = [_objects(tree, "splits") for tree in trees]
    depth = np.array([len(part) for part in splits], dtype=np.int32)
    if (depth > _MAX_DEPTH).any():
        raise LoaderError(f"a tree has {depth.max()} levels, CatBoost's symmetric trees up to {_MAX_DEPTH}")
    values = [numbers(tree.get("leaf_values"), "leaf_values") for tree in trees]
    for i, (part, levels) in enumerate(zip(values, depth.tolist(), strict=True)):
        if part.size != width << levels:
            raise LoaderError(f"tree {i} has {part.size} leaf_values, expected {width} * 2^{levels}")
    size = (2 << depth) - 1
    root = np.cumsum(size, dtype=np.int32) - size
    place = np.arange(size.sum(), dtype=np.int32) - np.repeat(root, size)  # in the heap
    level = np.frexp(place + 1.0)[1] - 1
    return _Nodes(
        root=root,
        inner=level < np.repeat(depth, size),
        split=np.repeat(np.cumsum(depth, dtype=np.int32) - 1, size) - level,
        left=np.repeat(root, size) + 2 * place + 1,
        splits=[split for part in splits for split in part],
        value=np.concatenate(values).reshape(-1, width),
    )


def _grown(trees: list[Document], width: int) -> _Nodes:
    """Trees of any shape, objects within objects: first all roots, then all children of these, ..."""
    queue: list[Any] = list(trees)
    inner, splits, values = [], [], []
    for node in queue:  # which grows meanwhile
        keys = node.keys() if isinstance(node, dict) else {type(node).__name__}
        if keys == _INNER_KEYS:
            splits.append(node["split"])
            queue += (node["left"], node["right"])
        elif "value" in keys and keys <= _LEAF_KEYS:
            values.append(node["value"])
        else:
            raise LoaderError(f"a node has {str(sorted(keys))[:80]}, not a value, or left, right and split")
        inner.append("split" in keys)
    if width > 1:
        if not all(isinstance(value, list) and len(value) == width for value in values):
            raise LoaderError(f"a leaf does not have {width} values, one per output; the file is damaged")
        values = [number for value in values for number in value]
    split = np.cumsum(inner, dtype=np.int32) - 1
    return _Nodes(
        root=np.arange(len(trees), dtype=np.int32),
        inner=np.array(inner),
        split=split,
        left=len(trees) + 2 * split,
        splits=splits,
        value=numbers(values, "the value of a leaf").reshape(-1, width),
    )


def _places(splits: list[Document], feature: IntArray, border: FloatArray) -> IntArray:
    """Which border each split uses; CatBoost goes by that alone, but what else is said must agree."""
    index, stated_feature, stated_border = (
        numbers([split.get(key) for split in splits], key)
        for key in ("split_index", "float_feature_index", "border")
    )
    if not np.isin(index, np.arange(len(border))).all():
        raise LoaderError(f"a split_index is not one of 0 ... {len(border) - 1}; the file is damaged")
    place = index.astype(np.int32)
    if (feature[place] != stated_feature).any() or (border[place] != single(stated_border)).any():
        raise LoaderError("a split states a feature or border that its split_index is not; save it again")
    return place


def _objects(parent: Document, name: str) -> list[Document]:
    """A list of objects; CatBoost writes null for an empty one."""
    children = parent.get(name)
    if children is None:
        return []
    if not isinstance(children, list) or not set(map(type, children)) <= {dict}:
        raise LoaderError(f"{name} is not a list of objects; the file is damaged")
    return children
