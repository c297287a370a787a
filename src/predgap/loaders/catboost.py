"""CatBoost models: objects, and files saved as JSON or in CatBoost's own binary format (.cbm).

There is one way in, CatBoost's JSON. Objects are saved to it, then checked against their own predictions.
Only CatBoost reads .cbm files, and a damaged one may crash it: another process turns them into JSON.

Of categories, splits may ask for one at a time ("one-hot"). Where a row's category is missing it goes with
all that are not asked for; CatBoost itself refuses such rows.
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

from predgap.categories import Categories
from predgap.ensemble import ALL_OUTPUTS, LEAF, NUMERIC, BoolArray, Ensemble, FloatArray, IntArray
from predgap.errors import DependencyError, EnsembleError, LoaderError, UnsupportedModelError
from predgap.loaders import catboost_trees as trees
from predgap.loaders import files, selfcheck
from predgap.loaders.catboost_categories import HashedCategories, hash_of, levels
from predgap.loaders.catboost_trees import objects
from predgap.loaders.documents import Document, as_document, numbers, object_in, parse, single

__all__ = ["from_file", "from_object"]

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
    "categorical_features": {"feature_id", "feature_index", "feature_name", "flat_feature_index", "values"},
    "cat_features_hash": {"hash", "value"},
    "oblivious_trees": {"leaf_values", "leaf_weights", "splits"},
}
# What splits of each kind say: their place among all that the model asks, the feature among those of its
# kind, and what it is compared with.
_SPLITS: Final = {
    "FloatFeature": ("split_index", "float_feature_index", "border"),
    "OneHotFeature": ("split_index", "cat_feature_index", "value"),
}
_AS_NUMBERS: Final = "which predgap does not handle yet; encode them as numbers and train without"
_CTRS: Final = (
    "statistics of categories (CTR splits), which predgap does not handle; train with one_hot_max_size=255, "
    "or encode categories as numbers and train without cat_features"
)

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
        found = CatBoost.calc_leaf_indexes(model, _with_texts(rows, ensemble), thread_count=1)
        return found.reshape(len(rows), -1) + n_splits

    def margins(rows: selfcheck.Rows) -> Any:  # by the base class: a wrapper may transform them
        texts = _with_texts(rows, ensemble)
        return CatBoost.predict(model, texts, prediction_type="RawFormulaVal", thread_count=1)

    selfcheck.check(
        ensemble,
        library="CatBoost",
        margins=lambda rows: _ask("predict", lambda: margins(rows)),
        leaves=(lambda rows: _ask("predict", lambda: leaves(rows))) if symmetric else None,
        double=True,
    )
    return ensemble


def _with_texts(rows: selfcheck.Rows, ensemble: Ensemble) -> Any:
    """Rows of codes as CatBoost takes them."""
    if ensemble.categories is None:
        return rows
    texts = rows.astype(object)
    for q, known in ensemble.categorical().items():
        assert isinstance(known, HashedCategories)
        texts[:, q] = known.texts(rows[:, q].tolist())
    return texts


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
    data = trees.dense(data)
    if data.count(b",") > _MAX_NUMBERS:
        raise LoaderError(
            f"the model has more than {_MAX_NUMBERS:,} numbers, the most that predgap loads; train fewer or "
            "shallower trees"
        )
    collecting = gc.isenabled()
    gc.disable()  # all objects stay: looking through them again and again would take half of the time
    try:
        return as_document(parse(data, trees.loads))
    finally:
        if collecting:
            gc.enable()


def _unknown_parts(document: Document) -> list[str]:
    """Keys that CatBoost 1.2 does not write; nodes of trees that are not symmetric are checked on reading."""
    info = _object(document, "features_info")
    parts = [("model", document), ("features_info", info)]
    for name in ("float_features", "categorical_features", "cat_features_hash"):
        parts += [(name, part) for part in objects(info, name)]
    parts += [("oblivious_trees", tree) for tree in objects(document, "oblivious_trees")]
    return [key for name, part in parts for key in part.keys() - _KNOWN[name]]


# ---- a document to an ensemble ----


def _ensemble(document: Document) -> Ensemble:
    scale, bias = _scale_and_bias(document)
    nodes = trees.nodes(document, len(bias))
    info = _object(document, "features_info")
    _refuse(nodes.splits, info)
    floats, categorical = (_features(info, kind) for kind in ("float_features", "categorical_features"))
    features = _in_columns(floats + categorical)
    asked = _questions(floats, categorical)
    _check_splits(nodes.splits, asked)
    categories, codes = _categories(features, categorical, info)
    # The question of each inner node; leaves have -1, and take what is appended to each column.
    at = np.full(len(nodes.inner), -1, dtype=np.int32)
    at[nodes.inner] = nodes.place.astype(np.int32)
    one_hot = np.append(asked.one_hot, False)[at]
    value = np.zeros((len(at), len(bias)))
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite, the ensemble refuses
        value[~nodes.inner] = nodes.value * scale
    try:
        return Ensemble(
            root=nodes.root,
            feature=np.append(asked.column, LEAF)[at],
            threshold=np.append(np.where(asked.one_hot, 0.0, _next_above(asked.compared)), 0.0)[at],
            # What is asked for goes to the right in CatBoost: a greater number, but also an equal category.
            left=np.where(nodes.inner, nodes.left + one_hot, LEAF),
            right=np.where(nodes.inner, nodes.left + ~one_hot, LEAF),
            default_left=np.append(asked.missing_left, False)[at],
            value=value,
            target=np.full(len(nodes.root), ALL_OUTPUTS if len(bias) > 1 else 0),
            bias=bias,
            n_features=len(features),
            category_set=np.where(one_hot, at - (len(asked.column) - len(codes)), NUMERIC),
            set_begin=np.arange(len(codes) + 1, dtype=np.int32),
            set_code=codes,
            categories=categories,
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


class _Questions(NamedTuple):
    """All that splits may ask, as they count it: borders of numbers, then hashes of categories."""

    column: IntArray  # (n,) feature
    number: IntArray  # (n,) place of the feature among those of its kind
    compared: FloatArray  # (n,) border or hash
    one_hot: BoolArray  # (n,) is it about a category?
    missing_left: BoolArray  # (n,)


def _questions(floats: list[Document], categorical: list[Document]) -> _Questions:
    features = floats + categorical
    borders = [numbers(feature.get("borders"), "borders") for feature in floats]
    compared = [single(part) for part in borders] + [_values(feature) for feature in categorical]
    counts = [len(part) for part in compared]

    def repeated(values: list[Any], kind: type) -> Any:
        return np.repeat(np.array(values, dtype=kind), counts)

    found = _Questions(
        column=repeated([feature["flat_feature_index"] for feature in features], np.int32),
        number=repeated([*range(len(floats)), *range(len(categorical))], np.int32),
        compared=np.concatenate([np.empty(0), *compared]),
        one_hot=repeated([False] * len(floats) + [True] * len(categorical), bool),
        missing_left=repeated([*map(_missing_goes_left, floats)] + [False] * len(categorical), bool),
    )
    ascends = (np.diff(found.compared) > 0) | (np.diff(found.column) != 0) | found.one_hot[1:]
    if not np.isfinite(found.compared).all() or not ascends.all():
        raise LoaderError("the borders of a feature are not ascending single-precision numbers")
    return found


def _check_splits(splits: trees.Splits, asked: _Questions) -> None:
    """CatBoost goes by the split_index alone, but what else splits say must agree."""
    for kind, keys in _SPLITS.items():
        of_kind = [split for split in splits.values() if split["split_type"] == kind]
        index, number, compared = (numbers([split.get(key) for split in of_kind], key) for key in keys)
        if not np.isin(index, np.arange(len(asked.column))).all():
            raise LoaderError(
                f"a split_index is not one of 0 ... {len(asked.column) - 1}; the file is damaged"
            )
        place, one_hot = index.astype(np.int32), kind == "OneHotFeature"
        agrees = (asked.one_hot[place] == one_hot) & (asked.number[place] == number)
        if not (agrees & (asked.compared[place] == (compared if one_hot else single(compared)))).all():
            raise LoaderError(
                "a split states a feature, border or value that its split_index is not; save it again"
            )


def _refuse(splits: trees.Splits, info: Document) -> None:
    for split in splits.values():
        kind = split.get("split_type")
        if kind == "OnlineCtr":
            raise UnsupportedModelError(f"the model splits on {_CTRS}")
        if not isinstance(kind, str) or kind not in _SPLITS:
            raise UnsupportedModelError(
                f"the model splits in the way {str(kind)[:40]!r}, {_AS_NUMBERS} cat_features"
            )
    for key in sorted(info.keys() - {"float_features", "categorical_features", "cat_features_hash"}):
        if info[key]:
            raise UnsupportedModelError(f"the model has {key[:40]}, {_AS_NUMBERS} cat_features")


def _features(info: Document, kind: str) -> list[Document]:
    features = objects(info, kind)
    for i, feature in enumerate(features):
        if feature.get("feature_index") != i:
            raise LoaderError(f"number {i} of {kind} says that it is another one; the file is damaged")
    return features


def _in_columns(features: list[Document]) -> list[Document]:
    """Features of all kinds in the order of the columns of X."""
    columns: list[Any] = [feature.get("flat_feature_index") for feature in features]
    if not set(map(type, columns)) <= {int} or sorted(columns) != [*range(len(columns))]:
        raise LoaderError(f"the features are not the columns 0 ... {len(columns) - 1}; the file is damaged")
    return [features[i] for i in np.argsort(columns)]


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


# ---- categories ----


def _categories(
    features: list[Document], categorical: list[Document], info: Document
) -> tuple[tuple[Categories | None, ...], IntArray]:
    """The levels of each column; the code of each category that splits ask for, as they count them."""
    hashes = [(_values(feature).astype(np.int64) & 0xFFFFFFFF).tolist() for feature in categorical]
    names = _names({value for part in hashes for value in part}, info)
    found: list[Categories | None] = [None] * len(features)
    codes: list[int] = []
    for feature, part in zip(categorical, hashes, strict=True):
        column = feature["flat_feature_index"]
        known = levels(part, names, f"feature {feature.get('feature_id') or column!r}")
        found[column] = known
        codes += [known.code_of_hash[value] for value in part]
    return tuple(found), np.array(codes, dtype=np.int32)


def _values(feature: Document) -> FloatArray:
    """The hashes that splits of a categorical feature ask for; there may be none."""
    values = numbers(feature.get("values") or [], "values", frozenset({int}))
    if len(np.unique(values)) < len(values) or not (np.abs(values + 0.5) < 2**31).all():
        raise LoaderError("the values of a categorical feature are not different numbers of 32 bits")
    return values


def _names(hashes: set[int], info: Document) -> dict[int, str]:
    """The text of categories, by their hash; it is there if the model was saved with a pool."""
    found = {}
    for entry in objects(info, "cat_features_hash"):
        value, text = entry.get("hash"), entry.get("value")
        if type(value) is int and value in hashes:
            if not isinstance(text, str) or hash_of(text) != value:
                raise LoaderError(f"cat_features_hash says that {value} is the hash of {str(text)[:40]!r}")
            found[value] = text
    return found
