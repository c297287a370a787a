"""Splits on CTRs of combinations of features, against CatBoost itself."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import catboost as cb
import numpy as np
import pandas as pd
import pytest

import predgap
from catboost_ctr_models import document_of, written
from catboost_models import (
    as_binary,
    assert_agrees,
    assert_files_load_as,
    assert_same,
    margins_of,
    save,
    sound,
)
from loading import refused
from predgap._model.ensemble import NUMERIC
from predgap.errors import UnsupportedModelError
from predgap.loaders import load
from predgap.loaders.catboost import categories, combinations

JOBS, CITIES, SHIFTS, FLAGS = [f"job {i}" for i in range(5)], [*range(4)], ["a", "b", "c"], ["no", "yes"]
CATEGORICAL = {"job": JOBS, "city": CITIES, "shift": SHIFTS, "flag": FLAGS}
RNG = np.random.default_rng(7)
N = 600
X_ = pd.DataFrame(
    {
        "x": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)).astype(np.float32),
        **{name: RNG.choice(labels, N) for name, labels in CATEGORICAL.items()},
        "z": RNG.normal(size=N).astype(np.float32),
    }
)
PLACE = [np.searchsorted(labels, X_[name]) for name, labels in CATEGORICAL.items()]
EFFECT = (
    RNG.normal(size=(5, 4))[PLACE[0], PLACE[1]]
    + RNG.normal(size=(5, 3))[PLACE[0], PLACE[2]]
    + RNG.normal(size=(5, 2))[PLACE[0], PLACE[3]]
    + np.where(np.nan_to_num(X_["x"]) > 0.3, 1, -1) * RNG.normal(size=5)[PLACE[0]]
    + 0.3 * X_["z"].to_numpy()
)
TARGETS = {
    "RMSE": EFFECT,
    "Logloss": (EFFECT > 0.3).astype(int),
    "MultiClass": np.digitize(EFFECT, [-1.0, 1.0]),
}
KINDS: dict[str, dict[str, Any]] = {
    "default": {},
    "Buckets": {"combinations_ctr": ["Buckets:Prior=0.5/1:CtrBorderCount=40"]},
    "means": {"combinations_ctr": ["BinarizedTargetMeanValue:Prior=0.25/1"]},
    "Counter": {"combinations_ctr": ["Counter:Prior=0/1:Prior=0.7/1"]},
}


def fitted(X: pd.DataFrame, y: Any, **params: Any) -> Any:
    options: dict[str, Any] = {
        **{"iterations": 60, "depth": 5, "learning_rate": 0.3, "thread_count": 1, "verbose": 0},
        **{"allow_writing_files": False, "model_size_reg": 0.0, "max_ctr_complexity": 4},
    }
    which = [name for name in X if name in CATEGORICAL]
    return cb.CatBoost(options | params).fit(cb.Pool(X, y, cat_features=which))


@cache
def trained(kind: str = "default", loss: str = "RMSE", shape: str = "symmetric", **params: Any) -> Any:
    """CatBoost combines features in symmetric trees only, but can convert these to the other kind."""
    model = fitted(X_, TARGETS[loss], loss_function=loss, **KINDS[kind], **params)
    if shape != "symmetric":
        model._convert_to_asymmetric_representation()
    return model


def all_rows(ensemble: predgap.Ensemble) -> pd.DataFrame:
    """All combinations of categories, some new, with numbers at and below thresholds, and missing."""
    labels = [[*JOBS, "new"], [*CITIES, 9], [*SHIFTS, ""], [*FLAGS, "other"]]
    rows = pd.DataFrame([*itertools.product(*labels)], columns=[*CATEGORICAL])
    rng = np.random.default_rng(0)
    for q, name in ((0, "x"), (5, "z")):
        cuts = ensemble.threshold[(ensemble.feature == q) & (ensemble.category_set == NUMERIC)]
        cut = cuts.astype(np.float32)
        around = np.array([np.nan, *cut, *np.nextafter(cut, np.float32(-np.inf))], dtype=np.float32)
        rows[name] = rng.choice(around, len(rows))
    return rows[[*X_]]


def combined(document: Any) -> list[set[str]]:
    """The kinds of parts of each CTR of a combination."""
    elements = [ctr["elements"] for ctr in document["features_info"]["ctrs"]]
    return [{part["combination_element"] for part in parts} for parts in elements if len(parts) > 1]


# ---- rows go where CatBoost sends them ----


@pytest.mark.parametrize("shape", ["symmetric", "other"])
@pytest.mark.parametrize("loss", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_combinations_go_where_catboost_sends_them(kind: str, loss: str, shape: str, tmp_path: Path) -> None:
    model = trained(kind, loss, shape)
    assert combined(document_of(model))
    ensemble = load(model)
    rows = all_rows(ensemble)
    expected = margins_of(model, rows)
    assert_agrees(ensemble, rows, expected)
    assert_agrees(load(model, levels=X_), rows, expected)
    assert_files_load_as(ensemble, model, tmp_path)
    load(model, levels=X_).save(tmp_path / "model.predgap")
    assert_agrees(load(tmp_path / "model.predgap"), rows, expected)


def test_the_models_have_all_kinds_of_combinations() -> None:
    found = combined(document_of(trained("Counter")))
    category, exact, number = "cat_feature_value", "cat_feature_exact_value", "float_feature"
    assert {category} in found
    assert any(exact in parts for parts in found)
    assert any(number in parts for parts in found)
    sizes = [len(ctr["elements"]) for ctr in document_of(trained("Counter"))["features_info"]["ctrs"]]
    assert max(sizes) >= 3


def stumps(document: dict[str, Any], keep: Callable[[dict[str, Any]], bool]) -> None:
    """A stump for each border of each CTR that is kept; the others are left out, as are other splits."""
    info = document["features_info"]
    info["ctrs"] = [ctr for ctr in info["ctrs"] if keep(ctr)]
    place = sum(len(feature["borders"] or ()) for feature in info["float_features"])
    for feature in info["categorical_features"]:
        feature.pop("values", None)
    trees = []
    for ctr in info["ctrs"]:
        for border in ctr["borders"]:
            split = {"border": border, "ctr_target_border_idx": ctr["target_border_idx"]}
            split |= {"split_index": place, "split_type": "OnlineCtr"}
            trees.append({"leaf_values": [-1.0, 1.0], "leaf_weights": [1, 1], "splits": [split]})
            place += 1
    document["oblivious_trees"], document["scale_and_bias"] = trees, [1, [0.0]]
    names = {ctr["identifier"] for ctr in info["ctrs"]}
    document["ctr_data"] = {name: table for name, table in document["ctr_data"].items() if name in names}


def values_only(ctr: dict[str, Any]) -> bool:
    return all(part["combination_element"] != "cat_feature_exact_value" for part in ctr["elements"])


@pytest.mark.parametrize("kind", ["default", "Counter"])
def test_each_split_alone(kind: str, tmp_path: Path) -> None:
    """As no other split has told anything apart, and numbers are asked for as well."""
    document = document_of(trained(kind))
    stumps(document, values_only)
    path = written(document, tmp_path / "model.json")
    ensemble = load(path)
    found = cb.CatBoost().load_model(str(path), format="json")
    rows = all_rows(load(trained(kind)))
    right = np.where(ensemble.value[ensemble.leaves(rows)][:, :, 0] > 0, 1, 0)
    np.testing.assert_array_equal(right, found.calc_leaf_indexes(rows))
    assert 0 < right.mean() < 1
    assert_same(load(save(found, tmp_path / "model.cbm")), ensemble)
    assert_same(load(found), ensemble)


def test_categories_that_are_counted_in_combinations_only(tmp_path: Path) -> None:
    """The categories of job are known by themselves, those of the others are found with them."""
    document = document_of(trained("Counter", one_hot_max_size=1))
    features = {name: i for i, name in enumerate(CATEGORICAL)}

    def keep(ctr: dict[str, Any]) -> bool:
        parts = [part.get("cat_feature_index") for part in ctr["elements"]]
        return parts == [features["job"]] or (len(parts) > 1 and features["job"] in parts)

    stumps(document, keep)
    path = written(document, tmp_path / "model.json")
    ensemble = load(path)
    found = cb.CatBoost().load_model(str(path), format="json")
    rows = all_rows(load(trained("Counter")))
    assert_agrees(ensemble, rows, margins_of(found, rows))
    sizes = [len(own) - 1 for own in ensemble.categorical().values()]
    assert sizes == [len(labels) for labels in CATEGORICAL.values()]


# ---- gaps ----


def by_enumeration(predict: Any, row: Any, moves: list[tuple[str, list[Any], list[float]]]) -> float:
    """PG² by the definition: all combinations of values of these columns, with their probabilities."""
    values = [*itertools.product(*(values for _, values, _ in moves))]
    weights = np.array([np.prod(p) for p in itertools.product(*(p for _, _, p in moves))])
    rows = pd.concat([row] * len(values), ignore_index=True)
    for j, (name, _, _) in enumerate(moves):
        rows[name] = [value[j] for value in values]
    return float(weights @ (predict(rows) - predict(row)) ** 2 / weights.sum())


def law(kind: str, name: str, own: Any) -> list[float]:
    labels = CATEGORICAL[name]
    share = np.array([(X_[name] == label).mean() for label in labels])
    stays = np.array([label == own for label in labels], dtype=float)
    match kind:
        case "Marginal":
            mass = share
        case "Redraw":
            mass = 0.3 * share + 0.7 * stays
        case "Relative":
            mass = 0.3**2 / 2 * share + (1 - 0.3**2 / 2) * stays
        case _:
            mass = np.where(stays > 0, 0.8, 0.2 / (len(labels) - 1))
    return [float(p) for p in mass]


NOISES: dict[str, Callable[[], Any]] = {
    "Marginal": lambda: predgap.Marginal(X_[[*CATEGORICAL]]),
    "Redraw": lambda: predgap.Redraw(X_[[*CATEGORICAL]], 0.3),
    "Relative": lambda: predgap.Relative(X_[[*CATEGORICAL]], 0.3),
    "Flip": lambda: predgap.Flip(0.2),
}


@cache
def of_categories() -> Any:
    return fitted(X_[[*CATEGORICAL]], EFFECT, iterations=40)


@pytest.mark.parametrize("kind", NOISES)
def test_gaps_are_those_of_enumeration(kind: str) -> None:
    model = of_categories()
    assert combined(document_of(model))
    groups = {"work": ["job", "shift"]}
    ensemble = load(model, levels=X_)
    single = predgap.Explainer(ensemble, NOISES[kind](), rtol=0)
    grouped = predgap.Explainer(ensemble, NOISES[kind](), groups=groups, rtol=0)
    rows = X_[[*CATEGORICAL]].iloc[[0, 3, 11]].reset_index(drop=True)

    def expected(i: int, names: list[str]) -> float:
        moves = [(name, CATEGORICAL[name], law(kind, name, rows[name][i])) for name in names]
        return by_enumeration(model.predict, rows.iloc[[i]], moves)

    for names in (["job"], ["job", "city"], ["city", "flag"], [*CATEGORICAL]):
        want = [expected(i, names) for i in range(len(rows))]
        np.testing.assert_allclose(single.gap(rows, names), want, rtol=1e-12)
    want = [expected(i, ["job", "shift", "flag"]) for i in range(len(rows))]
    np.testing.assert_allclose(grouped.gap(rows, ["work", "flag"]), want, rtol=1e-12)
    ranking = grouped.rank(rows)
    for i in range(len(rows)):
        taken: list[str] = []
        left = ["work", "city", "flag"]
        for place in range(3):
            gaps = {u: expected(i, [m for t in [*taken, u] for m in groups.get(t, [t])]) for u in left}
            best = max(gaps, key=lambda u: gaps[u])
            assert ranking.top(3)[i][place] == best
            taken.append(best)
            left.remove(best)


def test_gaps_of_joint_redraws() -> None:
    """With numbers, too, for the rows of a background are all that a feature becomes."""
    model = trained()
    background = X_.iloc[:50].reset_index(drop=True)
    groups = {"work": ["job", "shift"]}
    explainer = predgap.Explainer(model, predgap.Background(background), groups=groups)
    rows = X_.iloc[[60, 61]].reset_index(drop=True)
    for units in (["work"], ["work", "x"], ["work", "x", "city", "flag", "z"]):
        names = [name for unit in units for name in groups.get(unit, [unit])]
        found = explainer.gap(rows, units)
        for i in range(len(rows)):
            moved = pd.concat([rows.iloc[[i]]] * len(background), ignore_index=True)
            moved[names] = background[names]
            change = model.predict(moved) - model.predict(rows.iloc[[i]])
            np.testing.assert_allclose(found[i], np.mean(change**2), rtol=1e-12)


# ---- models that are refused by name ----

SHOWN = r"'\w+'( with '\w+')+"


def test_too_many_combinations_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = trained()
    paths = [save(model, tmp_path / "model.cbm"), save(model, tmp_path / "model.json")]
    monkeypatch.setattr(categories, "_MAX_COMBINATIONS", 11)
    says = f"combination {SHOWN}, which has .* combinations .* up to 11; train with max_ctr_complexity=1"
    for source in (model, *paths):
        refused(source, says, UnsupportedModelError)
    monkeypatch.setattr(categories, "_MAX_COMBINATIONS", 1 << 22)
    monkeypatch.setattr(combinations, "_MAX_CELLS", 100)
    refused(model, f"such as {SHOWN}, which would .* 100 .*max_ctr_complexity=1", UnsupportedModelError)


@pytest.mark.parametrize("limit", ["_MAX_NODES", "_MAX_CODES"])
def test_trees_that_would_be_too_large_are_refused(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combinations, limit, 100)
    says = f"such as {SHOWN}, which would take more than .*; train with max_ctr_complexity=1"
    refused(trained(), says, UnsupportedModelError)


def test_categories_that_are_not_known_are_refused(tmp_path: Path) -> None:
    """No feature of the combination is counted by itself, so its hashes cannot be taken apart."""
    document = document_of(trained("Counter", one_hot_max_size=1))
    stumps(document, lambda ctr: values_only(ctr) and len(ctr["elements"]) > 1)
    pairs = [ctr for ctr in document["features_info"]["ctrs"] if len(combined_features(ctr)) > 1]
    kept = [ctr["identifier"] for ctr in pairs]
    stumps(document, lambda ctr: ctr["identifier"] in kept)
    path = written(document, tmp_path / "model.json")
    refused(path, f"combination {SHOWN}, and does not tell of which categories", UnsupportedModelError)


def combined_features(ctr: dict[str, Any]) -> list[int]:
    return [part["cat_feature_index"] for part in ctr["elements"] if "cat_feature_index" in part]


# ---- damaged files ----


def part(document: Any, kind: str, **changes: Any) -> None:
    """Changes a part of this kind of a CTR, in its identifier as well."""
    for ctr in document["features_info"]["ctrs"]:
        for own in ctr["elements"]:
            if own["combination_element"] == kind and len(ctr["elements"]) > 1:
                own.update(changes)
                new = json.dumps({"identifier": ctr["elements"], "type": ctr["ctr_type"]})
                document["ctr_data"][new] = document["ctr_data"][ctr["identifier"]]
                ctr["identifier"] = new
                return


def twice(document: Any) -> None:
    """A CTR of two categorical features has the first in place of the second."""
    ctr = next(ctr for ctr in document["features_info"]["ctrs"] if len(combined_features(ctr)) > 1)
    first, *_ = (own for own in ctr["elements"] if own["combination_element"] == "cat_feature_value")
    first |= {"cat_feature_index": 0}
    ctr["elements"] = [first, first]
    new = json.dumps({"identifier": ctr["elements"], "type": ctr["ctr_type"]})
    document["ctr_data"][new] = document["ctr_data"][ctr["identifier"]]
    ctr["identifier"] = new


DAMAGE: dict[str, Callable[[Any], None]] = {
    "no such number": lambda d: part(d, "float_feature", float_feature_index=7),
    "text for a number": lambda d: part(d, "float_feature", float_feature_index="0"),
    "another border": lambda d: part(d, "float_feature", border=0.123),
    "no border": lambda d: part(d, "float_feature", border=None),
    "infinite border": lambda d: part(d, "float_feature", border=float("inf")),
    "no such category": lambda d: part(d, "cat_feature_exact_value", cat_feature_index=9),
    "giant category": lambda d: part(d, "cat_feature_exact_value", value=2**40),
    "text for a category": lambda d: part(d, "cat_feature_exact_value", value="yes"),
    "no category": lambda d: part(d, "cat_feature_exact_value", value=None),
    "a feature twice": twice,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_json_is_refused(kind: str, tmp_path: Path) -> None:
    document = document_of(trained("Counter"))
    path = tmp_path / "model.json"
    load(written(document, path))
    DAMAGE[kind](document)
    refused(written(document, path))


def test_damaged_binary_files_do_not_crash() -> None:
    """A bit anywhere: the file is refused, or another sound model."""
    model = fitted(X_[["x", "job", "city"]], EFFECT, iterations=4, depth=3)
    data = as_binary(model)
    rng = np.random.default_rng(0)
    found = set()
    for at in rng.choice(len(data), 300, replace=False):
        found.add(sound(data[:at] + bytes([data[at] ^ int(1 << rng.integers(8))]) + data[at + 1 :]))
    assert found == {True, False}
