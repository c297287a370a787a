"""Loads CatBoost models: objects, and files saved as JSON or in CatBoost's own binary format (.cbm).

A row goes right where x > border, in single precision. NaN goes left, unless the feature had NaN in training
and treats it as larger than all values (`nan_mode="Max"`). A split on categories compares with one category
("one-hot") and sends it to the right, or sends those to the right whose CTR is above a border: a statistic of
each category, or of a combination of features, which the model stores. A missing category goes where one goes
that the model does not know; CatBoost itself refuses such rows.

Both formats are read without CatBoost. Objects are saved in the binary format, which is much faster than
JSON, and checked against their own predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from predgap import _files
from predgap._inputs.categories import Categories
from predgap._model.ensemble import ALL_OUTPUTS, LEAF, NUMERIC, Ensemble
from predgap._model.rounding import fields_of_rows
from predgap._text import format_items, warn
from predgap.errors import EnsembleError, LoaderError
from predgap.loaders import translation
from predgap.loaders.catboost import binary_file, json_file
from predgap.loaders.catboost.categories import HashedCategories, categories_of, sets_of
from predgap.loaders.catboost.combinations import rewritten
from predgap.loaders.catboost.model import NUMBER, CatBoostModel, Classes
from predgap.loaders.translation import above

__all__ = ["from_file", "from_object"]


def from_file(path: Path) -> Ensemble:
    """The ensemble of a JSON or .cbm file."""
    return _ensemble(_read(_files.read(path)))


def from_object(model: Any) -> Ensemble:
    """The ensemble of a CatBoost object, checked against the object's own leaves and margins."""
    with TemporaryDirectory(prefix="predgap-") as folder:
        path = Path(folder, "model.cbm")
        translation.ask_library("CatBoost", "be saved", lambda: model.save_model(str(path), format="cbm"))
        found = binary_file.read(path.read_bytes(), known_only=False)
    numbered = found.nodes.symmetric and all(ctr.of.is_single for ctr in found.ctrs)
    return _checked(_ensemble(found), model, numbered, found.classes.places)


def _read(data: bytes) -> CatBoostModel:
    if data.startswith(binary_file.MARK):
        return binary_file.read(data, known_only=True)
    return json_file.read(data)


def _checked(ensemble: Ensemble, model: Any, numbered: bool, places: list[int]) -> Ensemble:
    """The ensemble, after a check against the object. Leaves are compared if they are numbered as CatBoost
    does it: those of symmetric trees are, unless they split on combinations. `places` are those of the
    outputs among CatBoost's margins, empty if all are outputs."""
    CatBoost = import_module("catboost").CatBoost

    def leaves(rows: translation.Rows) -> Any:  # CatBoost numbers leaves from 0; here they follow the splits
        n_splits = np.diff(ensemble.root, append=ensemble.n_nodes) // 2
        found = CatBoost.calc_leaf_indexes(model, _with_texts(rows, ensemble), thread_count=1)
        return found.reshape(len(rows), -1) + n_splits

    def margins(rows: translation.Rows) -> Any:  # by the base class, because a wrapper may transform margins
        texts = _with_texts(rows, ensemble)
        found = CatBoost.predict(model, texts, prediction_type="RawFormulaVal", thread_count=1)
        return found[:, places] if places else found

    def asked(question: Callable[[translation.Rows], Any]) -> Callable[[translation.Rows], Any]:
        return lambda rows: translation.ask_library("CatBoost", "predict", lambda: question(rows))

    translation.check_predictions(
        ensemble,
        library="CatBoost",
        margins=asked(margins),
        leaves=asked(leaves) if numbered else None,
        double=True,
    )
    return ensemble


def _with_texts(rows: translation.Rows, ensemble: Ensemble) -> Any:
    """Rows as CatBoost takes them: with texts in place of the codes of categories."""
    if ensemble.categories is None:
        return rows
    texts = rows.astype(object)
    for q, known in ensemble.categorical().items():
        assert isinstance(known, HashedCategories)
        texts[:, q] = known.texts(rows[:, q].tolist())
    return texts


def _ensemble(model: CatBoostModel) -> Ensemble:
    _warn_of_absent(model.classes)
    known = categories_of(model)
    model, sets = rewritten(model, known, sets_of(model, known))
    nodes, asked, bias = model.nodes, model.asked, model.bias
    # The question of each inner node. Leaves have -1, which picks the value appended to each array.
    at = np.full(len(nodes.inner), -1, dtype=np.int32)
    at[nodes.inner] = nodes.place
    by_set = asked.kind != NUMBER
    n_numeric = len(asked.kind) - len(sets.right)
    # In CatBoost a number above the border goes right; here what is below the threshold, or in the set, left.
    swapped = np.concatenate([np.zeros(n_numeric, dtype=np.bool_), sets.right, [False]])[at]
    least = above(asked.compared, np.float32)  # x > border goes right, so x < the next single goes left
    value = np.zeros((len(at), len(bias)))
    splits = fields_of_rows(np.float32, np.where(by_set, 0.0, least))
    splits["threshold"] = np.append(np.where(by_set, 0.0, splits["threshold"]), 0.0)[at]
    with np.errstate(over="ignore", invalid="ignore"):  # the ensemble refuses values that are not finite
        value[~nodes.inner] = nodes.value * model.scale
    try:
        return Ensemble(
            root=nodes.root,
            feature=np.append(asked.column, LEAF)[at],
            **splits,
            left=np.where(nodes.inner, nodes.left + swapped, LEAF),
            right=np.where(nodes.inner, nodes.left + ~swapped, LEAF),
            default_left=np.append(asked.missing_left, False)[at],
            value=value,
            target=np.full(len(nodes.root), ALL_OUTPUTS if len(bias) > 1 else 0),
            bias=bias,
            n_features=model.n_columns,
            category_set=np.where(np.append(by_set, False)[at], at - n_numeric, NUMERIC),
            set_begin=sets.begin,
            set_code=sets.codes,
            categories=_by_column(model, known),
            feature_names=_feature_names(model),
            class_names=model.classes.names,
            link=model.link,
            source=model.source,
        )
    except EnsembleError as error:
        raise LoaderError(f"the CatBoost model cannot be represented as an ensemble: {error}") from error


def _warn_of_absent(classes: Classes) -> None:
    """Warns of classes to which CatBoost gives the margin -inf in every row; they are no outputs."""
    if classes.absent:
        outputs = "" if classes.names is None else f", which are {format_items(classes.names)}"
        warn(
            f"the data that the CatBoost model was trained on lack {format_items(classes.absent)} of its "
            "classes. CatBoost predicts a margin of -inf for such a class in every row, and noise cannot "
            f"change that, so it is left out of the outputs{outputs}"
        )


def _feature_names(model: CatBoostModel) -> tuple[str, ...] | None:
    """The feature names, None if there are none; as in CatBoost, a feature without one has its number."""
    name = {feature.column: feature.name for feature in model.features}
    return tuple(name.get(q) or str(q) for q in range(model.n_columns)) if any(name.values()) else None


def _by_column(model: CatBoostModel, known: list[HashedCategories]) -> tuple[Categories | None, ...]:
    """The categories of each column, None for a numeric one."""
    found: list[Categories | None] = [None] * model.n_columns
    for feature, own in zip(model.categorical, known, strict=True):
        found[feature.column] = own
    return tuple(found)
