"""Categories of LightGBM: sets of codes, labels of frames, and what cannot be told from a file."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from lightgbm_models import (
    BOOSTING,
    C_,
    CLASSES,
    COLOURS,
    CY_,
    EAGER,
    FEW,
    GAPS,
    TARGETS,
    TOWNS,
    WAYS,
    X_,
    Y_,
    assert_agrees,
    chain,
    loaded_both_ways,
    make_frame,
    save,
    text_of,
    train,
)
from loading import assert_same, levels_of, memory_below, refused
from predgap._model.ensemble import Ensemble
from predgap.errors import LoaderError, TableError, UnsupportedModelError
from predgap.loaders import lightgbm, load

CODED: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
    "none": (C_, {}),
    "unused": (GAPS, {"use_missing": False}),
    "nan": (GAPS, {}),
    "zero": (C_, {"zero_as_missing": True}),
    "zero and nan": (GAPS, {"zero_as_missing": True}),
    "negative": (np.where(np.isnan(GAPS), -5.0, GAPS), {}),
}


def set_sizes(ensemble: Ensemble) -> list[int]:
    return np.diff(ensemble.set_begin).tolist()


@pytest.mark.parametrize("missing", CODED)
@pytest.mark.parametrize("boosting", ["gbdt", "dart", "rf"])
@pytest.mark.parametrize("way", WAYS)
def test_codes_of_categories_agree_with_the_library(
    way: str, boosting: str, missing: str, tmp_path: Path
) -> None:
    X, absent = CODED[missing]
    booster = train({**WAYS[way], **BOOSTING[boosting], **absent}, X, CY_, categorical_feature=[1, 3])
    ensemble = loaded_both_ways(booster, tmp_path, n_iterations=6 if boosting == "rf" else None)
    assert levels_of(ensemble)[1] == {code: code for code in range(4)}
    assert set(levels_of(ensemble)[3]) <= set(range(0, 280, 7))
    assert len(levels_of(ensemble)[3]) > 30  # without the rarest
    assert (max(set_sizes(ensemble)) == 1) == (way == "one-hot")
    assert min(set_sizes(ensemble)) > 0


@pytest.mark.parametrize("target", ["binary", "multiclass"])
def test_categories_of_classifiers_agree_with_the_library(target: str) -> None:
    y, objective = TARGETS[target]
    booster = train({**WAYS["partition"], **objective}, GAPS, y, categorical_feature=[1, 3])
    ensemble = load(booster)
    assert len(ensemble.set_code) > 0
    assert_agrees(booster, ensemble)


def strange_rows() -> pd.DataFrame:
    """Rows with labels that no model has seen, and missing ones."""
    frame = make_frame(60).astype({"colour": object, "town": object})
    frame.loc[0:20:2, "colour"] = "mauve"
    frame.loc[1:21:2, "colour"] = None
    frame.loc[10:30:3, "town"] = "elsewhere"
    frame.loc[31:40, "town"] = "nowhere"
    return frame


def as_categories(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype({"colour": "category", "town": "category"})


@pytest.mark.parametrize("way", WAYS)
def test_labels_of_a_frame_agree_with_the_library(way: str, tmp_path: Path) -> None:
    frame = make_frame()
    booster = train(WAYS[way], frame, CY_)
    path = save(booster, tmp_path)
    for ensemble in (load(booster), load(path), load(pickle.loads(pickle.dumps(booster)))):
        assert levels_of(ensemble) == {
            1: dict(enumerate(sorted(COLOURS))),
            3: dict(enumerate([*TOWNS, "nowhere"])),
        }
        assert_agrees(booster, ensemble)  # codes
        np.testing.assert_array_equal(ensemble.predict(frame), booster.predict(frame))
        strange = strange_rows()
        expected = booster.predict(as_categories(strange))
        assert len(set(expected)) > 20
        for rows in (
            strange,
            as_categories(strange),
            strange[["town", "size", "weight", "colour"]],
            pl.from_pandas(strange),
            pl.from_pandas(strange).with_columns(pl.col("town", "colour").cast(pl.Categorical)),
            pl.from_pandas(strange).to_arrow(),
            strange.to_numpy(),  # of objects
        ):
            np.testing.assert_array_equal(ensemble.predict(rows), expected)


@pytest.mark.parametrize(
    "labels",
    [[10, 20, 30, 40], [0.5, 1.5, 2.5, 3.5], [False, True], ["", "ü", '"', "a,b\n"], [3, 2, 1, 0], [1, 0]],
    ids=str,
)
def test_labels_may_be_numbers_and_any_text(labels: list[Any], tmp_path: Path) -> None:
    codes = C_[:, 1].astype(int) % len(labels)
    frame = pd.DataFrame({"size": C_[:, 0], "kind": pd.Categorical.from_codes(codes, categories=labels)})
    booster = train(EAGER, frame, CY_ + 3 * codes)
    for ensemble in (load(booster), load(save(booster, tmp_path))):
        assert levels_of(ensemble) == {1: dict(enumerate(labels))}
        assert len(ensemble.set_code) > 0
        np.testing.assert_array_equal(ensemble.predict(frame), booster.predict(frame))
        np.testing.assert_array_equal(ensemble.predict(np.c_[C_[:, 0], codes]), booster.predict(frame))


def test_wrappers_with_categories_agree_with_the_library() -> None:
    frame, few = make_frame(), {**FEW, **EAGER}
    models = [
        lgb.LGBMRegressor(**few).fit(frame, CY_),
        lgb.LGBMClassifier(**few).fit(frame, CLASSES),
        lgb.LGBMRanker(**few).fit(frame, CLASSES, group=[40] * 6),
        lgb.LGBMRegressor(**few, boosting_type="dart").fit(frame, CY_),
    ]
    for model in models:
        ensemble = load(model)
        assert len(ensemble.set_code) > 0
        rows = as_categories(strange_rows())
        np.testing.assert_array_equal(ensemble.predict(rows), model.predict(rows, raw_score=True))
        assert_same(load(model.booster_), ensemble)
    forest = lgb.LGBMRegressor(**few, boosting_type="rf", subsample=0.6, subsample_freq=1).fit(frame, CY_)
    np.testing.assert_allclose(load(forest).predict(rows), forest.predict(rows), rtol=1e-12)


def test_polars_and_arrow_frames_of_codes_agree_with_the_library() -> None:
    frame = pl.DataFrame(C_, schema=["size", "colour", "weight", "town"], orient="row")
    frame = frame.with_columns(pl.col("colour", "town").cast(pl.Int64))
    frame = frame.with_columns(pl.when(pl.col("town") != 7).then(pl.col("town")))  # null for 7
    for data in (frame, frame.to_arrow()):
        booster = train(EAGER, data, CY_, categorical_feature=["colour", "town"])
        ensemble = load(booster)
        assert sorted(ensemble.categorical()) == [1, 3]
        assert_agrees(booster, ensemble)
        np.testing.assert_array_equal(ensemble.predict(data), booster.predict(data))


def test_categorical_features_of_no_use_are_known_all_the_same(tmp_path: Path) -> None:
    """LightGBM drops what it cannot split; the labels of the others are still theirs."""
    frame = make_frame()
    frame.insert(0, "country", pd.Categorical(["here"] * len(frame)))
    booster = train(WAYS["partition"], frame, CY_)
    assert "feature_infos=none " in booster.model_to_string()
    for ensemble in (load(booster), load(save(booster, tmp_path))):
        assert levels_of(ensemble)[0] == {0: "here"}
        assert levels_of(ensemble)[2] == dict(enumerate(sorted(COLOURS)))
        np.testing.assert_array_equal(ensemble.predict(frame), booster.predict(frame))
    codes = np.c_[np.full(len(C_), 6.0), C_]
    plain = load(train(EAGER, codes, CY_, categorical_feature=[0, 2]))
    assert levels_of(plain) == {0: {}, 2: {code: code for code in range(4)}}
    assert not load(train(X=np.c_[X_, np.ones(len(Y_))])).categorical()


def test_rare_categories_are_like_unseen_ones() -> None:
    """They are left out of the levels; no set holds them."""
    codes = C_.copy()
    codes[:2, 1] = [77, 78]
    booster = train({**EAGER, "min_data_in_bin": 3, "max_bin": 3}, codes, CY_, categorical_feature=[1])
    ensemble = load(booster)
    assert set(levels_of(ensemble)[1]) == {0, 1, 2, 3}
    np.testing.assert_array_equal(ensemble.predict(codes), booster.predict(codes))
    assert_agrees(booster, ensemble)


def test_giant_codes_take_no_more_memory_than_their_text(tmp_path: Path) -> None:
    codes = C_.copy()
    codes[:, 1] = np.array([0, 4_000_000, 7_999_999, 8_000_000])[C_[:, 1].astype(int)]
    booster = train(WAYS["partition"], codes, CY_, rounds=1, categorical_feature=[1])
    path = save(booster, tmp_path)
    with memory_below(16 * path.stat().st_size):
        ensemble = load(path)
    assert set(levels_of(ensemble)[1]) == {0, 4_000_000, 7_999_999, 8_000_000}
    assert max(set_sizes(ensemble)) < 4
    assert_agrees(booster, ensemble)


def test_no_category_lies_beyond_31_bits() -> None:
    word = np.zeros(2**26 + 1, dtype=np.uint32)
    word[2**26 - 1] = 2**31 + 1
    begin, code = lightgbm._members(word, np.array([0, len(word)]))
    assert (begin.tolist(), code.tolist()) == ([0, 2], [2**31 - 32, 2**31 - 1])
    word[2**26] = 1
    with pytest.raises(LoaderError, match="cat_threshold holds a category beyond 31 bits"):
        lightgbm._members(word, np.array([0, len(word)]))
    begin, code = lightgbm._members(word, np.array([0, 1, 1, len(word)]))  # the first set is empty
    assert (begin.tolist(), code.tolist()) == ([0, 0, 0, 3], [2**31 - 64, 2**31 - 33, 2**31 - 32])


def test_other_frames_than_those_with_all_features_as_categories_are_refused(tmp_path: Path) -> None:
    """The file does not say whose labels it holds."""
    frame = make_frame()
    ordered = frame.assign(size=pd.Categorical(np.digitize(frame["size"], [-1, 1]), ordered=True))
    numbered = frame.assign(colour=C_[:, 1].astype(int))
    unclear = "cannot tell whose labels they are; make all categorical features"
    for X, chosen, says in (
        (ordered, "auto", f"2 categorical features, but labels of 3 columns .* {unclear}"),
        (frame, ["town"], f"1 categorical feature, but labels of 2 columns .* {unclear}"),
        (numbered, ["colour", "town"], f"2 categorical features, but labels of 1 column .* {unclear}"),
        (
            frame.assign(k=C_[:, 3].astype(int)),
            ["colour", "k"],
            "'k' has the category 273, .* end .* of 40: ",
        ),
    ):
        booster = train(EAGER, X, CY_, categorical_feature=chosen)
        refused(booster, says, UnsupportedModelError)
        refused(save(booster, tmp_path), says, UnsupportedModelError)


def test_labels_given_to_the_wrong_feature_meet_no_table() -> None:
    """As many columns with labels as categorical features, but others: then one of them is numeric."""
    frame = make_frame().assign(k=C_[:, 1].astype(int))[["k", "size", "colour", "weight"]]
    booster = train(EAGER, frame, CY_, categorical_feature=["k"])
    ensemble = load(booster)
    assert_agrees(booster, ensemble)  # codes are right
    for rows in (frame, frame.astype({"colour": object}), pl.from_pandas(frame)):
        with pytest.raises(TableError, match=r"column 'k' holds .* but the model's categories are text"):
            ensemble.predict(rows)


def test_a_model_without_categorical_features_needs_no_labels(tmp_path: Path) -> None:
    """An ordered column is numeric to LightGBM."""
    frame = pd.DataFrame({"size": C_[:, 0], "grade": pd.Categorical(C_[:, 1], ordered=True)})
    booster = train(X=frame, y=CY_)
    ensemble = load(booster)
    assert_same(load(save(booster, tmp_path)), ensemble)
    assert not ensemble.categorical()
    np.testing.assert_array_equal(ensemble.predict(C_[:, :2]), booster.predict(frame))


@pytest.mark.parametrize("first", [[1], [3], []])
def test_features_of_both_kinds_are_refused_by_name(first: list[int]) -> None:
    start = train(EAGER, C_, CY_, categorical_feature=first)
    both = train(EAGER, C_, CY_, init_model=start, categorical_feature=[1])
    if first == [1]:
        assert_agrees(both, load(both))
    else:
        refused(
            both, r"'Column_1' is categorical, but some splits compare it .* in one go", UnsupportedModelError
        )


def test_labels_other_than_text_and_numbers_are_refused_by_name(tmp_path: Path) -> None:
    days = pd.Categorical(pd.to_datetime("2026-01-01") + pd.to_timedelta(C_[:, 1], "D"))
    dated = train(EAGER, pd.DataFrame({"a": C_[:, 0], "day": days}), CY_, keep_training_booster=True)
    refused(dated, "called '2026-01-01 00:00:00', a Timestamp; .* text and numbers", UnsupportedModelError)
    pairs = pd.Categorical([(1, 2) if code else (2, 3) for code in C_[:, 1]])
    paired = train(EAGER, pd.DataFrame({"a": C_[:, 0], "pair": pairs}), CY_)
    refused(paired, "called .*1, 2.*text and numbers", UnsupportedModelError)
    refused(save(paired, tmp_path), "called .*1, 2.*text and numbers", UnsupportedModelError)


def test_a_file_that_python_did_not_write_has_codes_for_labels(tmp_path: Path) -> None:
    path = save(train(EAGER, C_, CY_, categorical_feature=[1]), tmp_path)
    whole = load(path)
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"\npandas_categorical")])
    assert_same(load(path), whole)
    path.write_bytes(data[: data.index(b"end of parameters")])
    refused(path, "stops before the labels of its categories")


def test_a_file_may_end_with_a_parser(tmp_path: Path) -> None:
    """LightGBM writes the block if it read its data by a parser of the user's."""
    path = save(train(EAGER, C_, CY_, categorical_feature=[1]), tmp_path)
    whole, data = load(path), path.read_bytes()
    parser = b'\nparser:\n{"className": "mine"}\nend of parser\n'
    for text in (data + parser, data.replace(b"\npandas_categorical", parser + b"\npandas_categorical")):
        path.write_bytes(text)
        np.testing.assert_array_equal(lgb.Booster(model_file=path).predict(C_), whole.predict(C_))
        assert_same(load(path), whole)
    path.write_bytes((data + parser)[:-9])
    refused(path, "stops before the labels of its categories")


def test_a_file_may_lack_its_parameters(tmp_path: Path) -> None:
    path = save(train(EAGER, C_, CY_, categorical_feature=[1]), tmp_path)
    whole, data = load(path), path.read_bytes()
    head, tail = data.split(b"\nparameters:\n")
    path.write_bytes(head + tail.partition(b"end of parameters\n")[2])  # labels, but no parameters
    assert_same(load(path), whole)
    path.write_bytes(head)
    np.testing.assert_array_equal(lgb.Booster(model_file=path).predict(C_), whole.predict(C_))
    with pytest.warns(UserWarning, match=r"neither parameters nor labels of its 1 cat.*codes"):
        assert_same(load(path), whole)
    path.write_bytes(head[:-1])  # within a line
    refused(path, "stops before the labels of its categories")


def test_limits_of_categories_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(text_of([chain([list(range(100)), list(range(50, 120))])], 1))
    assert len(load(path).set_code) == 170
    for name, limit, says in (
        ("_MAX_CODES", 169, "more than 169 members, .* lower max_cat_threshold"),
        (
            "_MAX_LEVELS",
            119,
            "1 categorical features with 120 levels; predgap handles up to 16,384 with 119",
        ),
        ("_MAX_CATEGORICAL", 0, "handles up to 0 with"),
    ):
        with monkeypatch.context() as limited:
            limited.setattr(lightgbm, name, limit)
            refused(path, says, UnsupportedModelError)
    path.write_bytes(path.read_bytes().replace(b":null", b':[["a", "b"]]'))
    with monkeypatch.context() as limited:
        limited.setattr(lightgbm, "_WORDS_AT_ONCE", 1)
        refused(
            path, "'Column_0' has the category 119, but its labels end with that of 1", UnsupportedModelError
        )
