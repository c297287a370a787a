"""Splits on CTRs, CatBoost's statistics of categories, against CatBoost itself."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import catboost as cb
import numpy as np
import pandas as pd
import pytest

from catboost_ctr_models import (
    CATEGORICAL,
    CODES,
    EFFECT,
    JOBS,
    KINDS,
    TARGETS,
    X_,
    document_of,
    rows_with_all_levels,
    trained,
    written,
)
from catboost_models import (
    POLICIES,
    as_binary,
    assert_agrees,
    assert_files_load_as,
    assert_same,
    margins_of,
    read,
    save,
    sound,
)
from loading import memory_below, refused
from predgap._model.ensemble import LEAF, NUMERIC
from predgap.errors import LoaderError
from predgap.loaders import load
from predgap.loaders.catboost import categories
from predgap.loaders.catboost.categories import HashedCategories, hash_of

# ---- categories go where CatBoost sends them ----


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("loss", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_categories_go_where_catboost_sends_them(kind: str, loss: str, policy: str, tmp_path: Path) -> None:
    model = trained(kind, loss, policy)
    ensemble = load(model)
    rows = rows_with_all_levels(ensemble)
    expected = margins_of(model, rows)
    assert_agrees(ensemble, rows, expected)
    by_set = ensemble.category_set != NUMERIC
    assert set(ensemble.feature[by_set]) == {1, 2}
    assert set(ensemble.feature[~by_set]) == {LEAF, 0, 3}
    assert len(ensemble.categorical()[1]) == len(JOBS) + 1  # and all others
    assert_agrees(load(model, levels=X_), rows, expected)
    assert_files_load_as(ensemble, model, tmp_path)
    pool = cb.Pool(X_, cat_features=CATEGORICAL)
    model.save_model(str(tmp_path / "named.json"), format="json", pool=pool)
    named = load(tmp_path / "named.json")
    assert (named.categorical()[1].labels or ())[:-1] == tuple(JOBS)
    assert_agrees(named, rows, expected)


def test_means_are_read_from_json_in_full(tmp_path: Path) -> None:
    """CatBoost itself cuts off the decimals of sums that it reads from JSON: its object is then another."""
    model = trained("means")
    path = save(model, tmp_path / "model.json")
    assert_same(load(path), load(model))
    again = cb.CatBoost().load_model(str(path), format="json")
    rows = rows_with_all_levels(load(path))
    assert np.abs(margins_of(again, rows) - margins_of(model, rows)).max() > 0.01
    assert_agrees(load(again), rows, margins_of(again, rows))


def value_of(ctr: dict[str, Any], table: dict[str, Any], category: Any) -> np.float32:
    """The CTR of a category, as its definition reads."""
    stride, listed, multiplier = table["hash_stride"], table["hash_map"], 0x4906BA494954CB65
    value = hash_of(str(category))
    signed = value - 2**32 if value >= 2**31 else value
    stored = str(signed * multiplier * multiplier % 2**64)
    counts = [0] * (stride - 1)
    for at in range(0, len(listed), stride):
        if listed[at] == stored:
            counts = listed[at + 1 : at + stride]
    match ctr["ctr_type"]:
        case "Borders":
            good, total = sum(counts[ctr["target_border_idx"] + 1 :]), sum(counts)
        case "Buckets":
            good, total = counts[ctr["target_border_idx"]], sum(counts)
        case "Counter" | "FeatureFreq":
            good, total = counts[0], table["counter_denominator"]
        case _:
            good, total = counts
    above, below = np.float32(ctr["prior_numerator"]), np.float32(ctr["prior_denomerator"])
    ratio = (np.float32(good) + above) / (np.float32(total) + below)
    return (ratio + np.float32(ctr["shift"])) * np.float32(ctr["scale"])


def with_stumps_at_values(document: dict[str, Any]) -> None:
    """A stump for each CTR of job, and each border at, just below and just above the CTR of a category."""
    info = document["features_info"]
    names = list(document["ctr_data"])
    low, high = np.float32(-np.inf), np.float32(np.inf)
    place = sum(len(feature["borders"]) for feature in info["float_features"])
    trees = []
    for ctr in info["ctrs"]:
        assert ctr["identifier"] in names
        of_job = ctr["elements"][0]["cat_feature_index"] == 0
        if of_job:
            values = {value_of(ctr, document["ctr_data"][ctr["identifier"]], job) for job in (*JOBS, "new")}
            near = {other for v in values for other in (np.nextafter(v, low), v, np.nextafter(v, high))}
            ctr["borders"] = sorted(map(float, near))
        for border in ctr["borders"]:
            split = {"border": border, "ctr_target_border_idx": ctr["target_border_idx"]}
            split |= {"split_index": place, "split_type": "OnlineCtr"}
            trees += [{"leaf_values": [-1.0, 1.0], "leaf_weights": [1, 1], "splits": [split]}] * of_job
            place += 1
    document["oblivious_trees"] = trees


GPU_KINDS = {"means": ("Binarized", "Float"), "Counter": ("Counter", "FeatureFreq")}


@pytest.mark.parametrize("loss", ["RMSE", "MultiClass"])
@pytest.mark.parametrize(
    ("kind", "gpu"), [*((kind, False) for kind in KINDS), *((kind, True) for kind in GPU_KINDS)]
)
def test_every_category_at_every_border(kind: str, loss: str, gpu: bool, tmp_path: Path) -> None:
    """With any priors, targets, shifts and scales, and of kinds that only a GPU trains."""
    model = trained(kind, loss)
    document = document_of(model)
    if gpu:
        document = json.loads(json.dumps(document).replace(*GPU_KINDS[kind]))
    for i, ctr in enumerate(document["features_info"]["ctrs"]):
        ctr.update(shift=-0.125 * (i % 3), scale=15 - 0.1 * i, prior_denomerator=1 + 0.5 * (i % 2))
        ctr["prior_numerator"] += 0.01 * i
    for table in document["ctr_data"].values():
        table["hash_map"] = [value if isinstance(value, str) else int(value) for value in table["hash_map"]]
    document["scale_and_bias"] = [1, [0.0]]
    with_stumps_at_values(document)
    path = written(document, tmp_path / "model.json")
    ensemble = load(path)
    found = cb.CatBoost().load_model(str(path), format="json")
    rows = X_.iloc[:12].assign(job=[*JOBS, "new", "other", ""])
    right = np.where(ensemble.value[ensemble.leaves(rows)][:, :, 0] > 0, 1, 0)
    np.testing.assert_array_equal(right, found.calc_leaf_indexes(rows))
    assert 0 < right.mean() < 1
    assert_same(load(found), ensemble)
    assert_same(load(save(found, tmp_path / "model.cbm")), ensemble)


def test_categories_without_counters_are_in_no_set() -> None:
    """Whichever side they go to: both occur."""
    for kind in KINDS:
        ensemble = load(trained(kind))
        for own in ensemble.categorical().values():
            assert isinstance(own, HashedCategories)
            other = own.codes[-1]
            assert own.code_of("never seen") == other
        nodes = np.flatnonzero(ensemble.category_set != NUMERIC)
        for node in nodes:
            s = ensemble.category_set[node]
            own = ensemble.categorical()[int(ensemble.feature[node])]
            assert own.codes[-1] not in ensemble.set_code[ensemble.set_begin[s] : ensemble.set_begin[s + 1]]
            assert not ensemble.default_left[node]


def test_both_one_hot_and_ctr_splits(tmp_path: Path) -> None:
    model = trained(one_hot_max_size=7)
    ensemble = load(model)
    sizes = np.diff(ensemble.set_begin)
    assert (sizes == 1).any()
    assert (sizes > 1).any()
    rows = rows_with_all_levels(ensemble)
    assert_agrees(ensemble, rows, margins_of(model, rows))
    assert_files_load_as(ensemble, model, tmp_path)


# ---- numbers as categories ----


def test_arrays_of_whole_numbers_are_categories_as_in_catboost() -> None:
    """Also where some have more digits than others."""
    rows = X_[["x", "code"]].assign(x=0.5).to_numpy(dtype=object)
    model = cb.CatBoostRegressor(
        iterations=10, verbose=0, allow_writing_files=False, max_ctr_complexity=1, one_hot_max_size=2
    ).fit(rows, EFFECT, cat_features=[1])
    ensemble = load(model)
    assert ensemble.categorical()[1].codes.tolist() == [*CODES, CODES[-1] + 1]
    tried = np.array([[0.5, code] for code in (*CODES, 1, 2, 19_999)])
    expected = model.predict(pd.DataFrame(tried).astype({1: int}))
    np.testing.assert_allclose(ensemble.predict(tried), expected, rtol=0, atol=1e-12)
    completed = load(model, levels=tried[:7].astype(np.float64))
    np.testing.assert_allclose(completed.predict(tried), expected, rtol=0, atol=1e-12)


def test_hashes_of_many_numbers_at_once() -> None:
    tried = categories._hashes_of_numbers()
    for number in (10_000, 10_001, 99_999, 100_000, 543_210, 999_999):
        assert tried[number - 10_000] == hash_of(str(number))
    assert len(tried) == 990_000


# ---- models that are refused by name ----


def test_models_without_counters_are_refused(tmp_path: Path) -> None:
    model = trained(final_ctr_computation_mode="Skip")
    refused(model, "no counters for feature '(job|code)'.*final_ctr_computation_mode")
    refused(save(model, tmp_path / "model.cbm"), "no counters for feature '(job|code)'")


@pytest.mark.parametrize("counts", [(1, 3), (3, 1)])
def test_json_that_lacks_counters_is_refused(counts: tuple[int, int], tmp_path: Path) -> None:
    """CatBoost saves all counters of a kind under the same name, so only some are there."""
    kinds = [f"Borders:TargetBorderCount={n}" for n in counts]
    model = trained(simple_ctr=tuple(kinds), iterations=30)
    ensemble = load(model)
    rows = rows_with_all_levels(ensemble)
    assert_agrees(ensemble, rows, margins_of(model, rows))
    assert_same(load(save(model, tmp_path / "model.cbm")), ensemble)
    path = save(model, tmp_path / "model.json")
    refused(path, "lacks some of the counters.*save the model as .cbm")
    document = json.loads(path.read_text())
    document["model_info"] = {}
    refused(written(document, path), "lacks some of the counters.*save the model as .cbm")
    ctrs = document["features_info"]["ctrs"]
    assert len({json.dumps(ctr["elements"]) + ctr["ctr_type"] for ctr in ctrs}) == 2


# ---- damaged files ----


def first_ctr(document: Any, **changes: Any) -> None:
    document["features_info"]["ctrs"][0].update(changes)


def first_element(document: Any, **changes: Any) -> None:
    document["features_info"]["ctrs"][0]["elements"][0].update(changes)


def first_table(document: Any, **changes: Any) -> None:
    table = document["ctr_data"][document["features_info"]["ctrs"][0]["identifier"]]
    table.update(changes)


def listed(change: Callable[[list[Any]], Any]) -> Callable[[Any], None]:
    def damage(document: Any) -> None:
        change(document["ctr_data"][document["features_info"]["ctrs"][0]["identifier"]]["hash_map"])

    return damage


def a_split(document: Any, **changes: Any) -> None:
    of_ctr = [
        split
        for tree in document["oblivious_trees"]
        for split in tree["splits"]
        if split["split_type"] == "OnlineCtr"
    ]
    of_ctr[0].update(changes)


DAMAGE: dict[str, Callable[[Any], Any]] = {
    "no borders": lambda d: first_ctr(d, borders=None),
    "borders that descend": lambda d: first_ctr(d, borders=[3.0, 2.0]),
    "infinite border": lambda d: first_ctr(d, borders=[float("inf")]),
    "more borders": lambda d: d["features_info"]["ctrs"][0]["borders"].append(1e9),
    "other kind": lambda d: first_ctr(d, ctr_type="News"),
    "list for a kind": lambda d: first_ctr(d, ctr_type=[]),
    "another kind": lambda d: first_ctr(d, ctr_type="Buckets"),
    "no elements": lambda d: first_ctr(d, elements=[]),
    "text for elements": lambda d: first_ctr(d, elements="x"),
    "element that is none": lambda d: first_ctr(d, elements=[1]),
    "another feature": lambda d: first_element(d, cat_feature_index=1),
    "no such feature": lambda d: first_element(d, cat_feature_index=2),
    "negative feature": lambda d: first_element(d, cat_feature_index=-1),
    "true for a feature": lambda d: first_element(d, cat_feature_index=True),
    "new element": lambda d: first_element(d, combination_element="news"),
    "number for an identifier": lambda d: first_ctr(d, identifier=1),
    "no identifier": lambda d: first_ctr(d, identifier=""),
    "no such identifier": lambda d: first_ctr(d, identifier="{}"),
    "text for a prior": lambda d: first_ctr(d, prior_numerator="1"),
    "no prior": lambda d: first_ctr(d, prior_denomerator=None),
    "text for a scale": lambda d: first_ctr(d, scale="1"),
    "no shift": lambda d: first_ctr(d, shift=None),
    "another target": lambda d: first_ctr(d, target_border_idx=7),
    "negative target": lambda d: first_ctr(d, target_border_idx=-1),
    "text for a target": lambda d: first_ctr(d, target_border_idx="0"),
    "giant target": lambda d: first_ctr(d, target_border_idx=2**40),
    "new part": lambda d: first_ctr(d, news=1),
    "text for CTRs": lambda d: d["features_info"].update(ctrs="x"),
    "no CTRs": lambda d: d["features_info"].pop("ctrs"),
    "a CTR less": lambda d: d["features_info"]["ctrs"].pop(0),
    "a CTR twice": lambda d: d["features_info"]["ctrs"].insert(0, d["features_info"]["ctrs"][0]),
    "no counters": lambda d: d.pop("ctr_data"),
    "list for counters": lambda d: d.update(ctr_data=[]),
    "list for a table": lambda d: d.update(ctr_data={key: [] for key in d["ctr_data"]}),
    "no stride": lambda d: first_table(d, hash_stride=None),
    "stride of nothing": lambda d: first_table(d, hash_stride=0),
    "stride without counts": lambda d: first_table(d, hash_stride=1),
    "another stride": lambda d: first_table(d, hash_stride=2),
    "giant stride": lambda d: first_table(d, hash_stride=10**30),
    "text for a table": lambda d: first_table(d, hash_map="x"),
    "fraction for a denominator": lambda d: first_table(d, counter_denominator=0.5),
    "negative denominator": lambda d: first_table(d, counter_denominator=-1),
    "one count less": listed(lambda part: part.pop()),
    "number for a hash": listed(lambda part: part.__setitem__(0, 5)),
    "text for a hash": listed(lambda part: part.__setitem__(0, "x")),
    "digits of another kind": listed(lambda part: part.__setitem__(0, "٣")),
    "giant hash": listed(lambda part: part.__setitem__(0, "9" * 20)),
    "hash of no category": listed(lambda part: part.__setitem__(0, "12345")),
    "endless hash": listed(lambda part: part.__setitem__(0, "9" * 5000)),
    "a hash twice": listed(lambda part: part.extend([h for h in part if h != str(2**64 - 1)][:3])),
    "text for a count": listed(lambda part: part.__setitem__(1, "1")),
    "negative count": listed(lambda part: part.__setitem__(slice(4, 5), [-1])),
    "fractional count": listed(lambda part: part.__setitem__(slice(4, 5), [0.5])),
    "infinite count": listed(lambda part: part.__setitem__(slice(4, 5), [float("inf")])),
    "missing count": listed(lambda part: part.__setitem__(slice(4, 5), [float("nan")])),
    "giant count": listed(lambda part: part.__setitem__(slice(4, 5), [2**31])),
    "split at another border": lambda d: a_split(d, border=0.123),
    "split with another target": lambda d: a_split(d, ctr_target_border_idx=1),
    "split of another kind": lambda d: a_split(d, split_type="OneHotFeature"),
    "split elsewhere": lambda d: a_split(d, split_index=0),
    "split beyond": lambda d: a_split(d, split_index=10**6),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_json_is_refused(kind: str, tmp_path: Path) -> None:
    document = document_of(trained())
    path = tmp_path / "model.json"
    load(written(document, path))
    DAMAGE[kind](document)
    refused(written(document, path))


def counters_of(data: bytes) -> tuple[bytes, bytes]:
    """The model in a .cbm file with its head, and the counters after it."""
    (size,) = struct.unpack_from("<4xI", data)
    return data[: 8 + size], data[8 + size :]


def test_damaged_counters_of_binary_files_are_refused() -> None:
    core, tail = counters_of(as_binary(trained()))
    assert sound(core + tail)
    (n,) = struct.unpack_from("<I", tail)
    (size,) = struct.unpack_from("<I", tail, 4)
    first, others = tail[8 : 8 + size], tail[8 + size :]
    strange = [
        b"",
        tail[:3],
        tail[:-1],
        tail + b"\0",
        struct.pack("<I", n - 1) + tail[4:],
        struct.pack("<I", n + 1) + tail[4:],
        struct.pack("<I", 2**32 - 1) + tail[4:],
        tail[:4] + struct.pack("<I", 2**32 - 1) + tail[8:],
        tail[:4] + struct.pack("<I", 0) + others,
        tail[:4] + 2 * (tail[4:8] + first) + others,
        struct.pack("<I", n + 1) + tail[4:8] + first + tail[4:],
        bytes(len(tail)),
    ]
    for data in strange:
        with memory_below(1 << 20), pytest.raises(LoaderError):
            read(core + data)


def test_counters_of_other_categories_are_refused() -> None:
    """A bit of any hash, row or count: the file is refused, or another sound model."""
    core, tail = counters_of(as_binary(trained("Counter")))
    found = {sound(core + tail[:at] + bytes([tail[at] ^ 128]) + tail[at + 1 :]) for at in range(len(tail))}
    assert found == {True, False}


def test_sets_that_would_need_too_much_memory_are_refused(tmp_path: Path) -> None:
    """A file of a few megabytes, whose borders times categories are 10^10."""
    document = document_of(trained("Counter"))
    (ctr, *_) = document["features_info"]["ctrs"]
    n, square = 100_000, pow(0x4906BA494954CB65, 2, 2**64)
    hashes = [str(value * square % 2**64) for value in range(n)]
    document["ctr_data"][ctr["identifier"]]["hash_map"] = [*itertools.chain(*((h, 1) for h in hashes))]
    ctr["borders"] = [*range(n)]
    document["oblivious_trees"] = [{"leaf_values": [1.0], "leaf_weights": [1], "splits": []}]
    path = written(document, tmp_path / "model.json")
    with memory_below(40 * path.stat().st_size):
        refused(path, "borders times categories, predgap loads up to")


def test_the_limit_of_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained()
    n_codes = int(
        sum(
            len(ctr["borders"]) * {0: 9, 1: 7}[ctr["elements"][0]["cat_feature_index"]]
            for ctr in document_of(model)["features_info"]["ctrs"]
        )
    )
    monkeypatch.setattr(categories, "_MAX_CODES", n_codes)
    load(model)
    monkeypatch.setattr(categories, "_MAX_CODES", n_codes - 1)
    refused(model, f"have {n_codes:,} categories, borders times categories, predgap loads up to")
