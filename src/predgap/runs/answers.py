"""The answer to a batch: the bytes of a Parquet file, and the rows that were set aside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from predgap.errors import PredgapError
from predgap.explainer import BatchFunction

_WRITING: Final = {"compression": "zstd", "compression_level": 1, "version": "2.6", "store_schema": True}
"""Options of the Parquet writer: the same rows give the same bytes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answers of a batch as a Parquet file."""

    content: bytes
    rows: int
    bad: list[tuple[int, str]]  # rows of the batch that were set aside, and why
    told: tuple[Warning, ...] = ()  # in a worker process, from where they do not come to the user


def answered(function: BatchFunction, batch: pa.RecordBatch, sets_aside: bool = False) -> Answer:
    """The answers of a batch. If bad rows are set aside, those that the function refuses are left out."""
    bad: list[tuple[int, str]] = []
    found = _without_bad(function, batch, 0, bad) if sets_aside else [function(batch)]
    table = pa.Table.from_batches(found, function.schema).combine_chunks()
    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, row_group_size=max(1, table.num_rows), **_WRITING, **_encodings(function.schema)
    )
    return Answer(sink.getvalue().to_pybytes(), table.num_rows, bad)


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """How columns are encoded: whole numbers by their differences, words and orders by a dictionary. Real
    numbers, which hardly repeat, as they are: to look for repetitions would take most of the writing."""
    counting = [each.name for each in schema if pa.types.is_integer(each.type)]
    plain = {*counting, *(each.name for each in schema if pa.types.is_floating(each.type))}
    repeating = [each.name for each in schema if each.name not in plain and not pa.types.is_nested(each.type)]
    repeating += [f"{each.name}.list.element" for each in schema if each.type == pa.list_(pa.int32())]
    return {"use_dictionary": repeating, "column_encoding": dict.fromkeys(counting, "DELTA_BINARY_PACKED")}


def _without_bad(
    function: BatchFunction, batch: pa.RecordBatch, first: int, bad: list[tuple[int, str]]
) -> list[pa.RecordBatch]:
    """The answers of the rows that are not refused; a batch with a bad row is halved until it is found."""
    try:
        return [function(batch)]
    except PredgapError as error:
        n = batch.num_rows
        if n == 0:
            raise
        if n == 1:
            bad.append((first, str(error)))
            return []
    halves = ((0, n // 2), (n // 2, n - n // 2))
    return [
        answer
        for begin, size in halves
        for answer in _without_bad(function, batch.slice(begin, size), first + begin, bad)
    ]
