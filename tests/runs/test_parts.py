"""Data sets are cut into the same parts however their files are stored; answers leave out bad rows only."""

from __future__ import annotations

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from predgap import PredgapError, RunError
from predgap.runs.dataset import batch_schema, open_dataset
from predgap.runs.run import Journal, check_same, locked, of_content, read_manifest, write_manifest
from predgap.runs.workers import answered


def never(file, error):
    raise AssertionError(f"{file.name}: {error}")


@given(
    rows=st.lists(st.integers(0, 40), min_size=1, max_size=3),
    group=st.integers(1, 50),
    size=st.integers(1, 25),
    data=st.data(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_parts_have_the_same_rows_whatever_is_asked_and_stored(tmp_path, rows, group, size, data):
    for path in tmp_path.glob("*.parquet"):
        path.unlink()
    tables = []
    for i, n in enumerate(rows):
        words = pa.array([f"{i}:{r % 3}" for r in range(n)], pa.string()).dictionary_encode()
        tables.append(pa.table({"x": np.arange(n) / 7, "word": words}))
        pq.write_table(tables[-1], tmp_path / f"{i}.parquet", row_group_size=group)
    found = open_dataset(tmp_path)
    parts = found.parts(size)
    assert [sum(part.rows for part in parts if part.file == i) for i in range(len(rows))] == rows
    wanted = data.draw(st.sets(st.sampled_from(parts)) if parts else st.just(set()))
    got = dict(found.batches(wanted, ["word", "x"], never))
    assert list(got) == sorted(wanted)
    for part, batch in got.items():
        own = tables[part.file].slice(part.first, part.rows)
        assert batch.schema.equals(batch_schema(found.schema, ["word", "x"]))
        assert batch.column("row").to_pylist() == list(range(part.first, part.first + part.rows))
        assert batch.column("x").to_pylist() == own["x"].to_pylist()
        assert batch.column("word").to_pylist() == own["word"].to_pylist()


def test_folders_are_read_in_the_order_of_names_without_hidden_ones(tmp_path):
    for name in ("b/1.parquet", "a/2.parquet", "a/1.parquet", "_old/3.parquet", ".x.parquet", "notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"x": [1.0]}), path)
    assert [file.name for file in open_dataset(tmp_path).files] == [
        "a/1.parquet",
        "a/2.parquet",
        "b/1.parquet",
    ]
    with pytest.raises(RunError, match=r"no \.parquet files"):
        open_dataset(tmp_path / "_old" / "none")


def test_names_of_parts_sort_as_the_rows_do_and_more_are_refused(tmp_path, monkeypatch):
    for i in range(3):
        pq.write_table(pa.table({"x": np.zeros(21)}), tmp_path / f"{i}.parquet")
    found = open_dataset(tmp_path)
    names = [part.name for part in found.parts(1)]
    assert names == sorted(names)
    monkeypatch.setattr("predgap.runs.dataset._MOST", 10)
    assert len(found.parts(3)) == 21
    with pytest.raises(
        RunError, match=r"0\.parquet has 21 rows, more than 10 parts of 2; choose --part-rows 3 "
    ):
        found.parts(2)
    monkeypatch.setattr("predgap.runs.dataset._MOST", 2)
    with pytest.raises(RunError, match="has 3 files, at most 2 are read"):
        found.parts(100)


def test_a_file_that_loses_rows_while_it_is_read_is_unreadable(tmp_path):
    path, told = tmp_path / "x.parquet", []
    pq.write_table(pa.table({"x": [1.0, 2.0]}), path)
    found = open_dataset(path)
    pq.write_table(pa.table({"x": [1.0]}), path)
    assert list(found.batches(found.parts(1), ["x"], lambda file, error: told.append(error))) == []
    assert told == ["it has changed since the run began"]


# ---- answers -------------------------------------------------------------------------------------


class Picky:
    """Refuses some rows; counts the rows that it answers."""

    schema = pa.schema([("row", pa.int64())])

    def __init__(self, refused):
        self.refused, self.n_answered = refused, 0

    def __call__(self, batch):
        if set(batch.column("row").to_pylist()) & self.refused:
            raise PredgapError("refused")
        self.n_answered += batch.num_rows
        return batch


@given(n=st.integers(0, 40), refused=st.sets(st.integers(0, 39)))
def test_bad_rows_are_found_and_no_other_row_is_lost(n, refused):
    picky = Picky(refused)
    batch = pa.RecordBatch.from_pydict({"row": pa.array(range(n), pa.int64())})
    answer = answered(picky, batch, sets_aside=True)
    good = [row for row in range(n) if row not in refused]
    assert pq.read_table(io.BytesIO(answer.content))["row"].to_pylist() == good
    assert answer.bad == [(row, "refused") for row in range(n) if row in refused]
    assert picky.n_answered == answer.rows == len(good)  # each once
    if set(range(n)) & refused:
        with pytest.raises(PredgapError, match="refused"):
            answered(picky, batch)


def test_columns_are_encoded_by_what_they_hold():
    """Real numbers, which hardly repeat, without a dictionary; and what is read is what was written."""
    n = 500
    rng = np.random.default_rng(0)
    columns = {
        "row": pa.array(range(n), pa.int64()),
        "a.key": pa.array([f"k{i % 7}" for i in range(n)]),
        "order": pa.array([rng.permutation(4).tolist() for _ in range(n)], pa.list_(pa.int32())),
        "scores": pa.array(rng.normal(size=(n, 4)).tolist()),
        "gap": pa.array(rng.normal(size=n)),
    }
    batch = pa.RecordBatch.from_pydict(columns)

    def same(given):
        return given

    same.schema = batch.schema
    content = answered(same, batch).content
    assert pq.read_table(io.BytesIO(content)).equals(pa.Table.from_batches([batch]))
    group = pq.ParquetFile(io.BytesIO(content)).metadata.row_group(0)
    found = {group.column(j).path_in_schema: group.column(j).encodings for j in range(group.num_columns)}
    with_dictionary = {name for name, encodings in found.items() if "RLE_DICTIONARY" in encodings}
    assert with_dictionary == {"a.key", "order.list.element"}
    assert "DELTA_BINARY_PACKED" in found["row"]


# ---- records -------------------------------------------------------------------------------------


def test_a_manifest_comes_back_and_differences_are_named(tmp_path):
    assert read_manifest(tmp_path) is None
    write_manifest(tmp_path, {"model": "a", "options": {"top": None, "rtol": 1e-6}})
    found = read_manifest(tmp_path)
    del found["format"]
    check_same(tmp_path, found, {"model": "a", "options": {"top": None, "rtol": 1e-6}})
    with pytest.raises(RunError, match=r"model was 'a', now 'b'; options top was absent, now 3"):
        check_same(tmp_path, found, {"model": "b", "options": {"top": 3, "rtol": 1e-6}})
    many = {f"o{i}": i for i in range(9)}
    with pytest.raises(RunError, match="and 4 more differences"):
        check_same(tmp_path, {}, many)
    for text in ("{", "[]", json.dumps({"format": 9})):
        (tmp_path / "_manifest.json").write_text(text)
        with pytest.raises(RunError, match="--restart"):
            read_manifest(tmp_path)


def test_a_journal_counts_parts_that_are_there_with_their_bytes(tmp_path):
    journal = Journal.opened(tmp_path, [])
    for name, content in (("a", b"one"), ("b", b"two"), ("c", b"three")):
        (tmp_path / name).write_bytes(content)
        journal.add(of_content(name, 1, 0, content))
    (tmp_path / "b").write_bytes(b"TWO")
    (tmp_path / "c").unlink()
    with (tmp_path / "_progress.jsonl").open("ab") as file:
        file.write(b'{"part": "d", "ro')
    again = Journal.opened(tmp_path, [])
    assert list(again.finished) == ["a"]
    assert len((tmp_path / "_progress.jsonl").read_bytes().splitlines()) == 1


def test_a_lock_is_for_one(tmp_path):
    with locked(tmp_path), pytest.raises(RunError, match="another process is writing"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass
